"""The conversation of one agent: its records for Strands, and the session that follows them.

Laws: the record is stored before the session follows it, and a restart follows all records again, so a crash between the
two loses nothing. An index is given once: a process that is behind gets an error, and neither turn is lost.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Sequence
from typing import Any

from strands.types.content import ContentBlock, Message
from strands.types.exceptions import SessionException
from strands.types.session import SessionAgent, SessionMessage

import holdfast
from holdfast.errors import Conflict, EntryConflict, InvalidInput
from holdfast.frameworks.shadows import Shadow, ShadowMessage, mark_message
from holdfast.frameworks.shown import ShownMessage
from holdfast.strands.messages import RESULT_MARK, NamedMessage, name_list, name_message, split_message

MESSAGE = "strands.message"
UPDATE = "strands.update"
AGENT = "strands.agent"
_PAGE = 1_000


def append_entry(
    session: holdfast.Session, kind: str, key: str, body: dict[str, Any], parent: str | None = None
) -> None:
    """Append an entry. A body with text or numbers that no store takes is stored as bytes."""
    try:
        session.entries.append(kind, key, body, parent=parent)
    except InvalidInput:
        session.entries.append(kind, key, json.dumps(body, default=str).encode(), parent=parent)


def decode_body(body: Any) -> dict[str, Any]:
    """The body that append_entry() was given."""
    decoded: dict[str, Any] = json.loads(body) if isinstance(body, bytes) else body
    return decoded


def list_entries(session: holdfast.Session, kind: str) -> list[holdfast.types.Entry]:
    """All entries of a kind, oldest first."""
    entries: list[holdfast.types.Entry] = []
    before: int | None = None
    while page := session.entries.list(kind=kind, before=before, limit=_PAGE):
        entries += page
        before = page[-1].seq
        if len(page) < _PAGE:
            break
    return entries[::-1]


class AgentTranscript:
    """The records of an agent, in the session that has its conversation. Threads can share it."""

    def __init__(self, session: holdfast.Session) -> None:
        self.session = session
        self.shadow = Shadow(session)
        self.pack: holdfast.Pack | None = None
        """The pack of the model call whose reply comes next."""
        self._lock = threading.RLock()
        self._named: list[list[NamedMessage]] | None = None
        self._numbers: set[int] = set()
        self._own: set[str] = set()
        """The ids of all messages that this process knows."""
        self._names: dict[str, int] = {}
        self._blocks: dict[tuple[str, str], list[ContentBlock]] = {}
        self._reply = ""

    def read_agent(self) -> SessionAgent | None:
        """The newest state of the agent."""
        newest = self.session.entries.list(kind=AGENT, limit=1)
        return SessionAgent.from_dict(decode_body(newest[0].body)) if newest else None

    def write_agent(self, agent: SessionAgent) -> None:
        """Store the state of the agent beside the earlier ones."""
        append_entry(self.session, AGENT, f"agent/{uuid.uuid4().hex}", agent.to_dict())

    def read_messages(self) -> list[SessionMessage]:
        """All records, each as it was updated last. The session follows them."""
        with self._lock:
            records = {entry.key: decode_body(entry.body) for entry in list_entries(self.session, MESSAGE)}
            for entry in list_entries(self.session, UPDATE):
                records[entry.parent or ""] = decode_body(entry.body)
            messages = sorted(map(SessionMessage.from_dict, records.values()), key=lambda each: each.message_id)
            self._follow_all(messages)
            return messages

    def read_message(self, number: int) -> SessionMessage | None:
        """One record, as it was updated last."""
        updates = self.session.entries.list(kind=UPDATE, parent=_key(number), limit=1)
        entry = updates[0] if updates else self.session.entries.get(_key(number))
        return SessionMessage.from_dict(decode_body(entry.body)) if entry is not None else None

    def add_message(self, record: SessionMessage) -> None:
        """Store a new record, and its message in the session: a reply with the pack that it answers."""
        with self._lock:
            if self._named is None:
                self.read_messages()
            try:
                append_entry(self.session, MESSAGE, _key(record.message_id), record.to_dict())
            except EntryConflict as error:
                raise SessionException(
                    f"The message {record.message_id} of this conversation was stored by another process. This one was "
                    "not stored. Open the session again to see the other turn, and repeat yours."
                ) from error
            if record.message_id not in self._numbers:
                self._numbers.add(record.message_id)
                self._add(record.to_message(), record.message_id)

    def update_message(self, record: SessionMessage) -> None:
        """Store a newer state of a record. In the session, the old message is withdrawn."""
        with self._lock:
            key = f"{_key(record.message_id)}/{uuid.uuid4().hex}"
            append_entry(self.session, UPDATE, key, record.to_dict(), _key(record.message_id))
            self.read_messages()

    def follow(self, messages: Sequence[Message]) -> None:
        """Make the session's conversation the agent's list, if a program changed the end of that list itself."""
        with self._lock:
            if self._named is None:
                self.read_messages()
            named = name_list((name_message(each, number), each) for number, each in enumerate(messages))
            listed = [each.shadow.id for group in named for each in group if not each.call]
            known = [each for each in self.shadow.known_ids() if RESULT_MARK not in each]
            if listed == known[max(0, len(known) - len(listed)) :]:
                return
            if any(each not in self._own for each in known):
                raise SessionException(
                    "Another process continued this conversation. Nothing was changed. Open the session again."
                )
            self._keep(named)
            self._named = named
            self.shadow.follow([each.shadow for group in named for each in group], exact=True)

    def find_blocks(self, shown: ShownMessage, reply: str) -> list[ContentBlock] | None:
        """Strands' own blocks of a message that a pack shows as it was recorded."""
        if shown.role == "tool" and shown.call is not None:
            return self._blocks.get((reply, shown.call.provider_id or shown.call.id))
        return self._blocks.get((shown.id, ""))

    def _follow_all(self, records: Sequence[SessionMessage]) -> None:
        named = name_list((name_message(each.message, each.message_id), each.to_message()) for each in records)
        self._keep(named)
        self._named = named
        self._numbers.update(each.message_id for each in records)
        if named:
            self.shadow.follow([each.shadow for group in named for each in group])

    def _add(self, message: Message, number: int) -> None:
        assert self._named is not None, "the records were read"
        name = name_message(message, number)
        count = self._names.get(name, 0) + 1
        new = split_message(message, name if count == 1 else f"{name}~{count}")
        self._named.append(new)
        self._keep([new])
        if message["role"] == "assistant" and self.pack is not None:
            pack, self.pack = self.pack, None
            self._record_reply(new[0].shadow, pack)
        self.shadow.follow(self._find_tail(), continues=True)

    def _find_tail(self) -> list[ShadowMessage]:
        """The end of the list: the newest message, and those before it from the last one that is not only results."""
        tail: list[ShadowMessage] = []
        for number, group in enumerate(reversed(self._named or ())):
            tail = [*(each.shadow for each in group), *tail]
            if number and not all(each.call for each in group):
                break
        return tail

    def _record_reply(self, reply: ShadowMessage, pack: holdfast.Pack) -> None:
        """Record a reply with its pack. What cannot be recorded so is recorded as it was found, by follow()."""
        with contextlib.suppress(Conflict):
            self.session.record(reply.message, pack=pack, metadata=mark_message(reply))

    def _keep(self, named: Sequence[Sequence[NamedMessage]]) -> None:
        for group in named:
            for each in group:
                if each.shadow.message["role"] == "assistant":
                    self._reply = each.shadow.id
                key = (self._reply, each.call) if each.call else (each.shadow.id, "")
                self._blocks[key] = [*each.blocks]
                self._own.add(each.shadow.id)
            name, _, count = group[0].shadow.id.split(RESULT_MARK)[0].partition("~")
            self._names[name] = max(self._names.get(name, 0), int(count or 1))


def _key(number: int) -> str:
    return f"message/{number}"
