"""The entries of a log of Claude Code: its lines, as they came, in a session of an engine.

Laws: a line with a uuid is stored once, one without each time. A summary is stored in the transaction of the lines that it
sums up. Lines of a sub-agent are entries of the same session, whose parent is the subpath.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import holdfast
from holdfast.errors import EntryConflict, InvalidInput, SessionDestroyedError, SessionNotFound, VersionConflict
from holdfast.frameworks.claude_lines import Line, name_line
from holdfast.model import limits
from holdfast.types import Entry, NewEntry, shorten_name

LINE_KIND = "claude.line"
SUMMARY_KIND = "claude.summary"
INTENT_KIND = "claude.intent"
OUTCOME_KIND = "claude.outcome"
COMPACTION_KIND = "claude.compaction"
REPLY_KIND = "claude.reply"
FACTS_KIND = "claude.facts"
"""The kinds of entries: lines; summaries of the session, for lists; and what hooks get: that a call starts whose line is
not stored yet, the outcome of a call, and a compaction; it also names those that are summaries in the session; and that a
reply is about to be recorded anew, so that any process can do it to the end; and the names of the facts that the model was
given. Those of a sub-agent have its subpath as their
parent, and a kind of their own."""
_AGENT = "claude.agent_"
_TRIES = 50
"""How often a write is tried again, because another process wrote meanwhile."""
_PAGE = 1_000
_BATCH_LINES = limits.BATCH_ENTRIES - 1  # and the summary
_BATCH_BYTES = 1 << 20
_UUID_CHARS = 1_000

Fold = Callable[[Any, Sequence[Line]], Any]
"""Makes the next summary from the last one, or None, and new lines."""


class LogName(NamedTuple):
    """The name of a log: of a session, or of a sub-agent of it."""

    project: str
    session: str
    subpath: str = ""


class LogEntries:
    """The entries of a log. Threads can share it."""

    def __init__(self, engine: holdfast.Engine, name: LogName, *, user: str | None = None) -> None:
        self._engine = engine
        self.name = name
        self._user = user
        self._lock = threading.RLock()
        self._session: holdfast.Session | None = None

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

    @property
    def _scope(self) -> dict[str, Any]:
        return {"actor": shorten_name(self.name.project)}

    @property
    def _metadata(self) -> dict[str, Any]:
        return {"claude": {"session": self.name.session, "project": self.name.project}}

    def _session_name(self, number: int) -> str:
        name = self.name.session if number == 1 else f"{self.name.session}~{number}"
        return shorten_name(name)

    def _forget(self) -> None:
        """The session was deleted."""
        self._session = None

    # Entries of this log

    def _kind(self, kind: str) -> str:
        return agent_kind(kind) if self.name.subpath else kind

    def _entry(self, kind: str, key: str, body: Any) -> NewEntry:
        return NewEntry(self._kind(kind), key, body, self.name.subpath or None)

    def _list(self, session: holdfast.Session, kind: str, **options: Any) -> list[Entry]:
        return session.entries.list(kind=self._kind(kind), parent=self.name.subpath or None, **options)

    def _key(self, line: Line) -> str:
        return name_entry(name_line(self.name.subpath, line))

    # Lines

    def _name_lines(self, lines: Sequence[Line], keys: Sequence[str]) -> list[tuple[str, Line]]:
        """Each line with its key, without those whose uuid comes twice."""
        named: dict[str, Line] = {}
        for line, key in zip(lines, keys, strict=True):
            named.setdefault(self._key(line) or key or f"line-{secrets.token_hex(12)}", line)
        return list(named.items())

    def _append_batch(
        self, session: holdfast.Session, batch: list[tuple[str, Line]], fold: Fold | None
    ) -> tuple[int, int]:
        """Store lines. Returns the version of the session before, and after it."""
        new, as_bytes = batch, False
        for _ in range(_TRIES):
            version = session.state().version
            entries = [self._entry(LINE_KIND, key, encode(line) if as_bytes else line) for key, line in new]
            if fold is not None and new:
                summaries = self._fold(session, [line for _, line in new], fold)
                entries += (
                    NewEntry(each.kind, each.key, encode(each.body)) if as_bytes else each for each in summaries
                )
            try:
                stored = session.entries.append_all(entries, expect=version)
                return version, max([version, *(entry.seq for entry in stored)])
            except VersionConflict:
                continue
            except EntryConflict:  # a uuid names one line: the first one
                new = [(key, line) for key, line in new if session.entries.get(key) is None]
            except InvalidInput:
                if as_bytes:
                    raise
                as_bytes = True  # a number or a text that JSON of Holdfast does not have
        stored = session.entries.append_all(entries)
        return -1, max([-1, *(entry.seq for entry in stored)])

    def _fold(self, session: holdfast.Session, lines: list[Line], fold: Fold) -> list[NewEntry]:
        newest = session.entries.list(kind=SUMMARY_KIND, limit=1)
        last = decode(newest[0].body) if newest else None
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
        return decode(newest[0].body) if newest else None

    def has_lines(self) -> bool:
        """Whether a line is stored."""
        session = self.session()
        return session is not None and bool(self._list(session, LINE_KIND, limit=1, bodies=False))

    def _read_lines(self, session: holdfast.Session, after: int) -> list[tuple[int, Line]]:
        """The lines after a seq, oldest first."""
        lines: list[tuple[int, Line]] = []
        before: int | None = None
        while True:
            size = _PAGE if after == 0 or before is not None else 100
            page = self._list(session, LINE_KIND, before=before, limit=size)
            lines += ((entry.seq, decode(entry.body)) for entry in page if entry.seq > after)
            if len(page) < size or page[-1].seq <= after:
                return lines[::-1]
            before = page[-1].seq


def find_line(session: holdfast.Session, key: str) -> tuple[int, Line] | None:
    """The line of an entry, with its seq. A line can name anything as the one that it follows."""
    entry = session.entries.get(key) if key else None
    if entry is None or entry.kind not in (LINE_KIND, agent_kind(LINE_KIND)):
        return None
    return entry.seq, decode(entry.body)


def agent_kind(kind: str) -> str:
    """The kind of the entries of a sub-agent."""
    return _AGENT + kind.removeprefix("claude.")


def name_entry(uuid: str) -> str:
    """The key of the entry of a line: its uuid, or a digest of one that is no name."""
    if len(uuid) <= _UUID_CHARS and uuid.isprintable():
        return uuid
    return f"line-{hashlib.sha256(uuid.encode('utf-8', 'surrogatepass')).hexdigest()}"


def split_lines(named: Iterable[tuple[str, Line]]) -> Iterable[list[tuple[str, Line]]]:
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


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def decode(body: Any) -> Any:
    return json.loads(body) if type(body) is bytes else body
