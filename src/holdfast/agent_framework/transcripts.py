"""The conversation of one agent session: its records for the framework, and the session that has the same messages.

A record is stored once, whether the framework saves it, or a model call shows it first. Its messages have its key as id, so
several processes may complete each other's work, and nothing is recorded twice.

Laws: nothing is withdrawn or overwritten, so two processes never lose a turn. A crash between a record and its messages is
completed by the next process that reads the records.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from agent_framework import Content, Message

import holdfast
from holdfast.agent_framework.messages import SplitMessage, digest_message, is_call, split_message
from holdfast.errors import CallsOpen, OutcomeUnknown, VersionConflict
from holdfast.frameworks.accepted import accept_id
from holdfast.frameworks.shadows import Shadow, mark_message
from holdfast.frameworks.shown import ShownMessage
from holdfast.frameworks.tool_runs import ToolRuns, UnknownOutcome, describe_unknown
from holdfast.types import NewEntry, OpenCall

MESSAGE = "agent_framework.message"
UPDATE = "agent_framework.update"
_PAGE = 1_000
_TRIES = 50
_WAIT_S = 0.02
_NOT_RUN = "Error: this call did not run: the process stopped before. Call the tool again if it is still needed."


class MessageRecord(NamedTuple):
    """A stored message."""

    seq: int
    key: str
    message: Message
    digest: str
    is_saved: bool
    """The framework saved it; otherwise a model call showed it, and its run may have failed."""


class ReplyContext(NamedTuple):
    """What is known of a reply beside its messages."""

    pack: holdfast.Pack | None = None
    usage: holdfast.Usage | None = None


class HistoryTranscript:
    """The records of an agent session. Threads can share it."""

    def __init__(self, session: holdfast.Session) -> None:
        self.session = session
        self.shadow = Shadow(session)
        self._lock = threading.RLock()
        self._records: list[MessageRecord] = []
        self._bodies: dict[str, dict[str, Any]] = {}
        self._updated = 0
        self._contents: dict[tuple[str, str], list[Content]] = {}
        self._reply = ""
        self._pending: list[tuple[list[SplitMessage], str, ReplyContext | None]] = []
        """Records whose messages are not in the session yet: the store failed in between. Each with the id of the reply
        before it: results answer the calls of that one, since a later call may have the id of an earlier one."""

    def position(self) -> int:
        """Where a new run begins: behind all records, except messages of the user that nobody has answered, since a run
        that failed may be tried again."""
        with self._lock:
            records = self._load()
            end = len(records)
            while end and records[end - 1].message.role == "user" and not records[end - 1].is_saved:
                end -= 1
            return records[end - 1].seq if end else 0

    def read(self, answered: Iterable[str] = ()) -> list[Message]:
        """The messages for the framework: copies. Calls without a result get the one that the session has, or a text that
        says what is unknown, unless they are `answered` in what comes next. Messages of the user from a run that failed are
        left out: the framework never saved them."""
        with self._lock:
            end = self.position()
            records = [each for each in self._load() if each.seq <= end]
            messages = [Message.from_dict(json.loads(json.dumps(self._bodies[each.key]))) for each in records]
            return self._complete(records, messages, answered)

    def add(
        self, messages: Sequence[Message], *, after: int | None, is_saved: bool, reply: ReplyContext | None = None
    ) -> None:
        """Store messages. With `after`, those that are among the records behind that position, in the same order, are
        known; the others are new."""
        with self._lock:
            known = [each for each in self._load() if after is not None and each.seq > after]
            new: list[NewEntry] = []
            at = 0
            for message in messages:
                digest = digest_message(message)
                found = next((number for number in range(at, len(known)) if known[number].digest == digest), None)
                body = _encode(message.to_dict())
                if found is None:
                    key = f"message/{uuid.uuid4().hex}"
                    new.append(NewEntry(MESSAGE, key, {"message": body, "digest": digest, "saved": is_saved}))
                    continue
                at = found + 1
                key = known[found].key
                if is_saved and body != _encode(self._bodies[key]):
                    new.append(NewEntry(UPDATE, f"{key}/{uuid.uuid4().hex}", {"message": body}, parent=key))
            if new:
                self.session.entries.append_all(new)
                self._load({each.key for each in new}, reply)

    def settle(self, unknown: UnknownOutcome) -> None:
        """Decide about calls of an earlier run that were started and have no result: raise OutcomeUnknown, or tell the
        model."""
        for call in self.session.open_calls():
            if not call.attempts or self._is_paused(call):
                continue
            error = OutcomeUnknown(call=call.id, name=call.name, key=call.key, attempts=call.attempts)
            if unknown == "raise":
                raise error
            self.session.result(call.id, describe_unknown(error), is_error=True)

    def find_contents(self, shown: ShownMessage, reply: str) -> list[Content] | None:
        """The framework's own contents of a message that a pack shows as it was recorded."""
        if shown.role == "tool" and shown.call is not None:
            return self._contents.get((reply, shown.call.provider_id or shown.call.id))
        return self._contents.get((shown.id, ""))

    def _is_paused(self, call: OpenCall) -> bool:
        return ToolRuns(self.session).was_paused(call.key, call.attempts)

    def _load(self, own: Collection[str] = (), reply: ReplyContext | None = None) -> list[MessageRecord]:
        """All records. Only new entries are read. What a crash left is completed when the records are read first; later,
        each process completes its `own`."""
        is_first = not self._records
        last = self._records[-1].seq if self._records else 0
        new = [_read_record(entry) for entry in _read_new(self.session, MESSAGE, last)]
        self._records += [record for record, _ in new]
        self._bodies.update({record.key: body for record, body in new})
        for entry in _read_new(self.session, UPDATE, self._updated):
            self._updated = entry.seq
            fields: Any = entry.body
            self._bodies[entry.parent or ""] = _decode(fields["message"])
        for record, _ in new:
            split, asked = split_message(record.message, record.key), self._reply
            self._keep(split)
            if is_first or record.key in own:
                self._pending.append((split, asked, reply))
        while self._pending:
            self._record(*self._pending[0])
            self._pending.pop(0)
        return self._records

    def _keep(self, split: Sequence[SplitMessage]) -> None:
        for each in split:
            if each.shadow.message["role"] == "assistant":
                self._reply = each.shadow.id
            key = (self._reply, each.call) if each.call else (each.shadow.id, "")
            self._contents[key] = each.contents

    def _record(self, split: Sequence[SplitMessage], asked: str, reply: ReplyContext | None) -> None:
        """Record messages in the session, if they are not there. Another process may do the same at the same time."""
        for attempt in range(_TRIES):
            version = self.session.state().version
            known = {*self.shadow.known_ids()}
            missing = [each for each in split if each.shadow.id not in known]
            if any(each.call for each in missing):
                # A result is recorded when its tool ends, so only those of open calls are new.
                calls = self._find_open_calls(asked)
                missing = [each for each in missing if not each.call or each.call in calls]
            if not missing:
                return
            try:
                self._store(missing, version, reply)
            except VersionConflict:
                if attempt == _TRIES - 1:
                    raise
                time.sleep(random.uniform(0, _WAIT_S))  # noqa: S311 - it protects nothing
            else:
                return

    def _store(self, split: Sequence[SplitMessage], version: int, reply: ReplyContext | None) -> None:
        message = split[0].shadow
        if reply is not None and len(split) == 1 and message.message["role"] == "assistant":
            usage = {"usage": msgspec.structs.asdict(reply.usage)} if reply.usage is not None else {}
            # A reply that comes between the calls and the results of another run is recorded as it was found.
            with contextlib.suppress(CallsOpen):
                self.session.record(
                    message.message | usage, pack=reply.pack or False, metadata=mark_message(message), expect=version
                )
                return
        drafts = [{**each.shadow.message, "metadata": mark_message(each.shadow)} for each in split]
        for recorded in self.session.record_all(drafts, as_found=True, expect=version):
            if recorded.role == "user" and not recorded.late:
                self.session.observe(recorded)

    def _find_open_calls(self, reply: str) -> set[str]:
        """The open calls of a reply, by the ids of the provider."""
        message = self.session.find_message(reply) if reply else None
        own = {call.id for call in message.tool_calls} if message is not None else set()
        return {call.provider_id or call.id for call in self.session.open_calls() if call.id in own}

    def _complete(
        self, records: Sequence[MessageRecord], messages: Sequence[Message], answered: Iterable[str]
    ) -> list[Message]:
        """Add the results of calls that have none in the records: the process stopped before they were shown to a model.
        A call is answered behind it, and before a later one with the same id."""
        answers = {*answered}
        completed: list[Message] = []
        for record, message in zip(reversed(records), reversed(messages), strict=True):
            answers.update(find_answers([message]))
            calls = [content.call_id for content in message.contents if is_call(content) and content.call_id]
            lacking = [call for call in calls if call not in answers]
            answers.difference_update(calls)
            if lacking and not _awaits_approval(message):
                results = [
                    Content.from_function_result(call, result=self._find_result(record.key, call)) for call in lacking
                ]
                completed.append(Message("tool", results))
            completed.append(message)
        return completed[::-1]

    def _find_result(self, reply: str, call_id: str) -> str:
        """What is known of the outcome of a call of a reply: its result in the session, or that it is unknown."""
        message, name = self.session.find_message(reply), accept_id(call_id)
        calls = message.tool_calls if message is not None else ()
        asked = next((call.id for call in calls if name in (call.provider_id, call.id)), None)
        for call in self.session.open_calls():
            if call.id == asked and call.attempts:
                return describe_unknown(
                    OutcomeUnknown(call=call.id, name=call.name, key=call.key, attempts=call.attempts)
                )
        for each in self.session.messages(limit=_PAGE):
            for result in each.tool_results:
                if result.tool_call_id == asked:
                    return result.value if isinstance(result.value, str) else json.dumps(result.value)
        return _NOT_RUN


def find_answers(messages: Iterable[Message]) -> Iterator[str]:
    """The ids of the calls that these messages answer."""
    for message in messages:
        for content in message.contents:
            if content.type == "function_result" and content.call_id:
                yield content.call_id


def _awaits_approval(message: Message) -> bool:
    return any(content.type == "function_approval_request" for content in message.contents)


def _read_new(session: holdfast.Session, kind: str, after: int) -> list[holdfast.types.Entry]:
    """The entries of a kind after a seq, oldest first."""

    def read() -> Iterator[holdfast.types.Entry]:
        before: int | None = None
        limit = 20
        while page := session.entries.list(kind=kind, before=before, limit=limit):
            yield from page
            if page[-1].seq <= after or len(page) < limit:
                return
            before, limit = page[-1].seq, _PAGE

    return [entry for entry in read() if entry.seq > after][::-1]


def _read_record(entry: holdfast.types.Entry) -> tuple[MessageRecord, dict[str, Any]]:
    fields: Any = entry.body
    body = _decode(fields["message"])
    message = Message.from_dict(json.loads(json.dumps(body)))
    record = MessageRecord(entry.seq, entry.key, message, fields["digest"], fields["saved"])
    return record, body


def _encode(body: dict[str, Any]) -> Any:
    """A message as JSON; as escaped text if it has a text that no store takes."""
    escaped = json.dumps(body, default=str, sort_keys=True)
    with contextlib.suppress(UnicodeEncodeError):
        json.dumps(body, default=str, ensure_ascii=False).encode()
        return json.loads(escaped)
    return escaped


def _decode(body: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(body) if isinstance(body, str) else body
    return decoded
