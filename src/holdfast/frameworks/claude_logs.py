"""A log of Claude Code in a session: its lines as entries, and what they say as messages.

Laws: a line is stored first, as it came; the messages follow from the stored lines, in any process, so a crash between
the two loses nothing and stores nothing twice. A line with a uuid is stored once. No line is refused for what it says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import holdfast
from holdfast.errors import EntryConflict, InvalidInput, SessionDestroyedError, SessionNotFound, VersionConflict
from holdfast.frameworks.claude_lines import Line, LogMessage, is_sidechain, line_id, read_lines, text_of_prompt
from holdfast.frameworks.claude_messages import LogProgress, clean_message, mark_of, reduce_message
from holdfast.model import limits
from holdfast.model.frames.frames import StartedCall
from holdfast.model.sessions.messages import Message
from holdfast.types import NewEntry, shorten_name

LINE_KIND = "claude.line"
SUMMARY_KIND = "claude.summary"
INTENT_KIND = "claude.intent"
OUTCOME_KIND = "claude.outcome"
COMPACTION_KIND = "claude.compaction"
REPLY_KIND = "claude.reply"
"""The kinds of entries: lines; summaries of the session, for lists; and what hooks get: that a call starts whose line is
not stored yet, the outcome of a call, and a compaction; it also names those that are summaries in the session; and that a
reply is about to be recorded anew, so that any process can do it to the end."""
_TRIES = 50
"""How often a write is tried again, because another process wrote meanwhile."""
_PAGE = 1_000
_BATCH_LINES = limits.BATCH_ENTRIES - 1  # and the summary
_BATCH_BYTES = 1 << 20
_BATCH_MESSAGES = 100
_PARENTS = 50_000
_UUID_CHARS = 1_000
_STEPS = 500
"""How many lines without a message are passed to find the message that a prompt follows."""

Fold = Callable[[Any, Sequence[Line]], Any]
"""Makes the next summary from the last one, or None, and new lines."""


class LogName(NamedTuple):
    """The name of a log: of a session, or of a sub-agent of it."""

    project: str
    session: str
    subpath: str = ""


class UnknownCall(NamedTuple):
    """A tool call that was started and has no outcome: it may have taken effect."""

    id: str
    name: str
    key: str
    """The idempotency key under which it was started."""
    subpath: str
    """The sub-agent that made it; empty for the session itself."""


class ClaudeLog:
    """A log of Claude Code in a session of an engine. Threads can share it.

    The session has the name of the log's session, the project as its actor, and the subpath as its thread. With `observe`,
    facts are read from the prompts of the user; `user` is as in engine.session()."""

    def __init__(
        self, engine: holdfast.Engine, name: LogName, *, user: str | None = None, observe: bool = False
    ) -> None:
        self._engine = engine
        self.name = name
        self._user = user
        self._observe = observe
        self._lock = threading.RLock()
        self._session: holdfast.Session | None = None
        self._progress = LogProgress()
        self._parents: dict[str, str | None] = {}
        """The line that a line follows, by their uuids; of lines that were read here."""
        self._sidechains: dict[str, ClaudeLog] = {}
        self._roots: dict[str, str] = {}
        """The first line of the sub-agent that a line belongs to, by their uuids."""
        self._lines: list[tuple[int, Line]] = []
        self._file: tuple[ClaudeLog, str] | None = None
        """Of a sub-agent in the file of a session: the log of that file, and the first line of the sub-agent."""

    # The session

    def session(self) -> holdfast.Session | None:
        """The session of this log; None if it has none, or it was deleted."""
        with self._lock:
            if self._session is not None:
                try:
                    self._session.state()
                    return self._session
                except SessionNotFound:
                    self._forget()
            number = 1
            while True:
                try:
                    self._session = self._engine.session(self._session_name(number), **self._scope)
                    return self._session
                except SessionDestroyedError:
                    number += 1  # deleted logs may come again; destroyed sessions may not
                except SessionNotFound:
                    return None

    def open(self) -> holdfast.Session:
        """The session of this log, which is created if there is none."""
        with self._lock:
            number = 1
            while (session := self.session()) is None:
                try:
                    self._session = self._engine.session(
                        self._session_name(number), create=True, user=self._user, metadata=self._metadata, **self._scope
                    )
                except SessionDestroyedError:
                    number += 1
            return session

    def delete(self) -> None:
        """Destroy the session: its content is erased, and not offered to long-term memory. Facts in the ledger of a user
        stay."""
        with self._lock:
            session = self.session()
            if session is not None:
                session.destroy("deleted", offload=False, forks="destroy")
            self._forget()

    @property
    def _scope(self) -> dict[str, Any]:
        thread = shorten_name(self.name.subpath) if self.name.subpath else None
        return {"actor": shorten_name(self.name.project), "thread": thread}

    @property
    def _metadata(self) -> dict[str, Any]:
        return {"claude": {"session": self.name.session, "subpath": self.name.subpath, "project": self.name.project}}

    def _session_name(self, number: int) -> str:
        name = self.name.session if number == 1 else f"{self.name.session}~{number}"
        return shorten_name(name)

    def _forget(self) -> None:
        self._session = None
        self._progress = LogProgress()
        self._sidechains, self._roots = {}, {}

    # Lines

    def append(self, lines: Sequence[Line], fold: Fold | None = None) -> None:
        """Store lines, and record what they say. A line with a uuid is stored once, one without each time. With `fold`, the
        summary is stored with them."""
        if not lines:
            return
        with self._lock:
            session = self.open()
            named = _name_lines(lines)
            for batch in _split(named):
                self._append_batch(session, batch, fold)
            self._follow(session)

    def _append_batch(self, session: holdfast.Session, batch: list[tuple[str, Line]], fold: Fold | None) -> None:
        new, as_bytes = batch, False
        for _ in range(_TRIES):
            version = session.state().version
            entries = [NewEntry(LINE_KIND, key, _encode(line) if as_bytes else line) for key, line in new]
            if fold is not None and new:
                summaries = self._fold(session, [line for _, line in new], fold)
                entries += (
                    NewEntry(each.kind, each.key, _encode(each.body)) if as_bytes else each for each in summaries
                )
            try:
                stored = session.entries.append_all(entries, expect=version)
                if self._progress.version == version:  # nobody else wrote
                    self._progress.version = max([version, *(entry.seq for entry in stored)])
                return
            except VersionConflict:
                continue
            except EntryConflict:  # a uuid names one line: the first one
                new = [(key, line) for key, line in new if session.entries.get(key) is None]
            except InvalidInput:
                if as_bytes:
                    raise
                as_bytes = True  # a number or a text that JSON of Holdfast does not have
        session.entries.append_all(entries)

    def _fold(self, session: holdfast.Session, lines: list[Line], fold: Fold) -> list[NewEntry]:
        newest = session.entries.list(kind=SUMMARY_KIND, limit=1)
        last = _decode(newest[0].body) if newest else None
        if last is None:  # lines that were imported have no summary
            lines = [*(self.load() or []), *lines]
        summary = fold(last, lines)
        if summary == last:
            return []
        return [NewEntry(SUMMARY_KIND, f"summary-{secrets.token_hex(12)}", summary)]

    def load(self) -> list[Line] | None:
        """The lines, in their order; None if there are none."""
        session = self.session()
        if session is None:
            return None
        lines = [line for _, line in self._read_lines(session, 0)]
        return lines or None

    def summary(self) -> Any:
        """The last summary; None if there is none."""
        session = self.session()
        newest = session.entries.list(kind=SUMMARY_KIND, limit=1) if session is not None else []
        return _decode(newest[0].body) if newest else None

    def has_lines(self) -> bool:
        """Whether a line is stored."""
        session = self.session()
        return session is not None and bool(session.entries.list(kind=LINE_KIND, limit=1, bodies=False))

    def _read_lines(self, session: holdfast.Session, after: int) -> list[tuple[int, Line]]:
        """The lines after a seq, oldest first."""
        lines: list[tuple[int, Line]] = []
        before: int | None = None
        while True:
            size = _PAGE if after == 0 or before is not None else 100
            page = session.entries.list(kind=LINE_KIND, before=before, limit=size)
            lines += ((entry.seq, _decode(entry.body)) for entry in page if entry.seq > after)
            if len(page) < size or page[-1].seq <= after:
                return lines[::-1]
            before = page[-1].seq

    # Messages

    def follow(self) -> None:
        """Record what stored lines say and the session does not have yet. append() does this."""
        with self._lock:
            session = self.session()
            if session is not None:
                self._follow(session)

    def _follow(self, session: holdfast.Session) -> None:
        for _ in range(_TRIES):
            version = session.state().version
            try:
                if self._progress.version != version:
                    self._progress.reload(session)
                    self._resume_reply(session)
                progress = self._progress
                lines = self._read_lines(session, progress.last)
                self._note_parents(lines)
                self._record(session, read_lines(each for each in lines if self._is_own(each[1])))
            except VersionConflict:
                self._progress = LogProgress()
                continue
            self._follow_sidechains(session, lines)
            if lines:
                progress.last = max(progress.last, lines[-1][0])
            return

    def _follow_sidechains(self, session: holdfast.Session, lines: list[tuple[int, Line]]) -> None:
        """Record what sub-agents say in the file of the session, each in a thread of its own."""
        for seq, line in lines:
            if self._is_own(line):
                continue
            root = self._note_root(session, line)
            if root not in self._sidechains:
                name = self.name._replace(subpath=f"sidechains/{root}")
                chain = self._sidechains[root] = ClaudeLog(self._engine, name, user=self._user)
                chain._file = (self, root)
            self._sidechains[root]._lines.append((seq, line))
        for chain in self._sidechains.values():
            if chain._lines:
                chain._follow_lines()

    def _note_root(self, session: holdfast.Session, line: Line) -> str:
        """The first line of the sub-agent that a line belongs to."""
        uuid, parent = line_id(line), line.get("parentUuid")
        root = self._roots.get(uuid) or self._roots.get(str(parent)) or _find_root(session, line)
        self._roots[uuid] = root
        return root

    def _follow_lines(self) -> None:
        """Record lines that are stored in another session."""
        session, lines = self.open(), self._lines
        for _ in range(_TRIES):
            try:
                self._progress.reload(session)
                self._resume_reply(session)
                last = self._progress.last
                self._record(session, read_lines(each for each in lines if each[0] > last))
                break
            except VersionConflict:
                self._progress = LogProgress()
        self._progress.last = max(self._progress.last, lines[-1][0])
        self._lines = []

    def _is_own(self, line: Line) -> bool:
        """Whether the line is of this conversation: older logs have those of sub-agents in the file of the session."""
        return bool(self.name.subpath) or not is_sidechain(line)

    def _record(self, session: holdfast.Session, messages: list[LogMessage]) -> None:
        progress = self._progress
        batch: list[LogMessage] = []
        for message in messages:
            if progress.is_recorded(message):
                continue
            parent = self._find_parent(session, message, batch) if message.kind == "prompt" else None
            goes_back = parent is not None and not progress.is_newest(parent, batch)
            goes_on = message.kind == "reply" and not batch and progress.continues(message)
            if batch and (goes_back or message.kind == "summary" or len(batch) == _BATCH_MESSAGES):
                self._record_batch(session, batch)
                batch = []
            if goes_back and parent in progress.ids:
                progress.withdraw(session, progress.ids[parent])
            if progress.is_recorded(message):  # by another process, since this one looked
                continue
            if goes_on:
                self._continue_reply(session, message)
            elif message.kind != "summary" or not self._summarize(session, message):
                batch.append(message)
        if batch:
            self._record_batch(session, batch)

    def _find_parent(self, session: holdfast.Session, prompt: LogMessage, batch: list[LogMessage]) -> str | None:
        """The uuid of the line of a message that a prompt follows; None if there is none that is known."""
        pending = {uuid for each in batch for uuid in each.ids}
        at, steps = prompt.parent, 0
        while at is not None and at not in pending and at not in self._progress.ids:
            if at not in self._parents:
                entry = session.entries.get(_name_entry(at)) if at else None
                self._note_parents([] if entry is None else [(entry.seq, _decode(entry.body))])
            at, steps = self._parents.get(at), steps + 1
            if steps == _STEPS:
                return None
        return at

    def _note_parents(self, lines: Iterable[tuple[int, Line]]) -> None:
        if len(self._parents) > _PARENTS:
            self._parents.clear()
        for _, line in lines:
            parent = line.get("parentUuid")
            self._parents[line_id(line)] = parent if type(parent) is str else None

    def _record_batch(self, session: holdfast.Session, batch: list[LogMessage]) -> list[Message]:
        progress = self._progress
        drafts = [each.message | {"metadata": {"claude": each.mark}} for each in batch]
        try:
            recorded = session.record_all(drafts, as_found=True, expect=progress.version)
        except InvalidInput:
            if len(batch) == 1:
                recorded = self._record_cleaned(session, batch[0])
            else:
                rest = (each for each in batch if not progress.is_recorded(each))
                return [message for each in rest for message in self._record_batch(session, [each])]
        progress.add(recorded)
        prompts = [each for each in recorded if each.role == "user" and mark_of(each).get("kind") == "prompt"]
        if self._observe and prompts:
            for prompt in prompts:
                with contextlib.suppress(InvalidInput):  # another process has withdrawn it
                    session.observe(prompt)
            progress.reload(session)
        return recorded

    def _record_cleaned(self, session: holdfast.Session, message: LogMessage) -> list[Message]:
        """Record a message that the session refuses as it is: without what is refused, or else its text."""
        mark = {"metadata": {"claude": message.mark}}
        expect = self._progress.version
        try:
            return session.record_all([clean_message(message.message) | mark], as_found=True, expect=expect)
        except InvalidInput:
            return session.record_all([reduce_message(message.message) | mark], as_found=True, expect=expect)

    def _continue_reply(self, session: holdfast.Session, message: LogMessage) -> None:
        """A further line of a reply whose first calls still run. The reply is recorded anew with all of its calls; those
        that were started are started again, under their keys."""
        progress = self._progress
        started = {call.provider_id: call.key for call in session.open_calls() if call.key and call.provider_id}
        plan: dict[str, Any] = {"first": progress.reply_first, "last": message.last, "started": started}
        entry = NewEntry(REPLY_KIND, f"{REPLY_KIND}-{secrets.token_hex(12)}", plan)
        [stored] = session.entries.append_all([entry], expect=progress.version)
        progress.version = max(progress.version, stored.seq)
        progress.withdraw(session, progress.reply_before, "its reply goes on")
        self._record_reply(session, plan)

    def _resume_reply(self, session: holdfast.Session) -> None:
        """Record a reply that was withdrawn to be recorded anew, if something came between the two."""
        newest = session.entries.list(kind=REPLY_KIND, limit=1)
        if not newest:
            return
        plan = _decode(newest[0].body)
        if self._progress.misses_reply(plan["first"], newest[0].seq):
            self._record_reply(session, plan)
        elif self._start_again(session, plan):
            self._progress.reload(session)

    def _record_reply(self, session: holdfast.Session, plan: dict[str, Any]) -> None:
        lines = [(seq, line) for seq, line in self._read_own_lines(session, plan["first"]) if seq <= plan["last"]]
        parts = [each for each in read_lines(lines) if not self._progress.is_shown(each)]
        if parts:
            self._record_batch(session, parts)
        self._start_again(session, plan)
        self._progress.reload(session)

    def _start_again(self, session: holdfast.Session, plan: dict[str, Any]) -> bool:
        """Start calls of a reply that was recorded anew, if they were started before. False if there are none."""
        keys = plan["started"]
        calls = [call for call in session.open_calls() if call.provider_id in keys and not call.key] if keys else []
        for call in calls:
            session.start_call(call.id, call_key=keys[call.provider_id])
        return bool(calls)

    def _read_own_lines(self, session: holdfast.Session, first: int) -> list[tuple[int, Line]]:
        """The lines of this conversation from this seq on."""
        if self._file is None:
            return [each for each in self._read_lines(session, first - 1) if self._is_own(each[1])]
        log, root = self._file
        whole = log.open()
        lines = ((seq, line) for seq, line in log._read_lines(whole, first - 1) if is_sidechain(line))
        return [(seq, line) for seq, line in lines if log._note_root(whole, line) == root]

    # Hooks

    def record_prompt(self, prompt: str, text: str) -> holdfast.Session:
        """Record what the user asks before its line is stored, so that its facts are known when the model is asked."""
        with self._lock:
            session = self.open()
            mark = {"hook": prompt, "kind": "prompt"}
            message = session.record("user", text, metadata={"claude": mark})
            if self._observe:
                session.observe(message)
            self._progress = LogProgress()
            return session

    def start_call(self, call: str) -> StartedCall | None:
        """Record that a tool starts; None if its call is not recorded. Raises OutcomeUnknown if it was started before."""
        session = self.session()
        if session is None or all(each.provider_id != call for each in session.open_calls()):
            return None
        return session.start_call(call)

    def note(self, kind: str, call: str, body: Any) -> None:
        """Store what a hook got about a call."""
        session = self.open()
        with contextlib.suppress(EntryConflict):  # the first one counts
            try:
                session.entries.append(kind, f"{kind}/{call}", body)
            except InvalidInput:
                session.entries.append(kind, f"{kind}/{call}", json.dumps(body, default=str).encode())

    def settle_outcomes(self) -> None:
        """Record the outcome that a hook got for calls whose line with the result has not come."""
        with self._lock:
            self.follow()
            session = self.session()
            for call in session.open_calls() if session is not None else ():
                entry = session.entries.get(f"{OUTCOME_KIND}/{call.provider_id}") if session is not None else None
                if session is None or entry is None:
                    continue
                outcome = _decode(entry.body)
                session.result(call.id, outcome.get("result"), is_error=outcome.get("is_error") is True)
                self._progress = LogProgress()

    def unknown_calls(self) -> list[UnknownCall]:
        """The calls that were started and have no outcome."""
        self.settle_outcomes()
        session = self.session()
        if session is None:
            return []
        calls = [
            UnknownCall(call.provider_id or call.id, call.name, call.key, self.name.subpath)
            for call in session.open_calls()
            if call.key
        ]
        for entry in session.entries.list(kind=INTENT_KIND, limit=_PAGE):
            body = _decode(entry.body)
            if body["call"] in {call.id for call in calls} or self._has_outcome(session, body["call"]):
                continue
            calls.append(UnknownCall(body["call"], body["name"], body["call"], self.name.subpath))
        return calls

    def _has_outcome(self, session: holdfast.Session, call: str) -> bool:
        if session.entries.get(f"{OUTCOME_KIND}/{call}") is not None:
            return True
        message = session.find_message(call)
        return message is not None and all(each.provider_id != call for each in session.open_calls())

    def _summarize(self, session: holdfast.Session, message: LogMessage) -> bool:
        """Show what Claude Code compacted as its summary, as Claude Code does. False if the summary is to be recorded as a
        message: nothing is before it, or it is longer than what it replaces."""
        key = f"{COMPACTION_KIND}/{'/'.join(message.ids) or message.first}"
        if session.entries.get(key) is not None:
            return True
        draft = session.context.draft_summary(0)
        if draft is None:
            return False
        try:
            session.context.summarize(draft, text_of_prompt(message.message["content"]))
        except InvalidInput:
            return False
        session.entries.append(COMPACTION_KIND, key, None)
        self._progress.last = max(self._progress.last, message.last)
        self._progress.reload(session)
        return True


def _name_lines(lines: Sequence[Line]) -> list[tuple[str, Line]]:
    """Each line with its key, without those whose uuid comes twice."""
    named: dict[str, Line] = {}
    for line in lines:
        named.setdefault(_name_entry(line_id(line)) or f"line-{secrets.token_hex(12)}", line)
    return list(named.items())


def _name_entry(uuid: str) -> str:
    """The key of the entry of a line: its uuid, or a digest of one that is no name."""
    if len(uuid) <= _UUID_CHARS and uuid.isprintable():
        return uuid
    return f"line-{hashlib.sha256(uuid.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _split(named: Iterable[tuple[str, Line]]) -> Iterable[list[tuple[str, Line]]]:
    batch: list[tuple[str, Line]] = []
    size = 0
    for key, line in named:
        length = len(json.dumps(line))
        if batch and (len(batch) == _BATCH_LINES or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((key, line))
        size += length
    if batch:
        yield batch


def _find_root(session: holdfast.Session, line: Line) -> str:
    """The uuid of the first line of the sub-agent that this line belongs to, or the id of the agent."""
    if type(line.get("agentId")) is str:
        return f"agent-{line['agentId']}"
    passed: set[str] = set()
    while type(parent := line.get("parentUuid")) is str and parent not in passed:
        passed.add(parent)
        entry = session.entries.get(_name_entry(parent)) if parent else None
        above = _decode(entry.body) if entry is not None else {}
        if not is_sidechain(above):
            break
        line = above
    return line_id(line)


def _encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def _decode(body: Any) -> Any:
    return json.loads(body) if type(body) is bytes else body
