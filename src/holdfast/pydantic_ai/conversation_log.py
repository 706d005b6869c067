"""Conversations of Pydantic AI in a Holdfast store: what the ConversationStore does, blocking.

Each conversation has a session. Its entries and its records are entries of that session; the session's own conversation
is a shadow that follows the head, so that packs, facts, search and recovery work.

Laws: a record and its new entries are stored in one transaction. What a writer did not see is never overwritten. A session
has all entries that its record can reach. A fork of a conversation is a fork of the session: it shares its entries and
messages, and has the facts and summaries of that point. Deleting a conversation erases its session, except for what forks
share.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
)

import holdfast
from holdfast.errors import (
    Conflict,
    SessionDestroyedError,
    SessionExists,
    SessionHasForks,
    SessionNotFound,
    VersionConflict,
)
from holdfast.frameworks.shadows import Shadow
from holdfast.model import limits
from holdfast.pydantic_ai.conversations import (
    DELETED,
    RECORD_KIND,
    Home,
    LocatedConversation,
    find_conversation,
    iterate_homes,
    read_newest_record,
)
from holdfast.pydantic_ai.messages import ListedPiece, Piece, convert_message, name_pieces
from holdfast.pydantic_ai.records import (
    ENTRY_KIND,
    decode_entry,
    decode_record,
    encode_entry,
    encode_record,
    find_parent,
    name_entry,
    next_number,
)
from holdfast.types import Entry, NewEntry

_TRIES = 20
"""How often a write is tried again because something else was written to the session meanwhile."""
_PAGE = 500
_KNOWN_ENTRIES = 100_000
_KNOWN_RECORDS = 20_000
_SHADOWS = 64
"""Conversations whose messages are kept in memory, so that a save reads nothing again."""

K = TypeVar("K")
V = TypeVar("V")


class RecentItems(Generic[K, V]):
    """A dict of the items that were used last. Threads can share it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The item, which is then the newest."""
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
            return self._items.get(key)

    def set(self, key: K, value: V) -> None:
        """Add an item, and drop the oldest if there are too many."""
        with self._lock:
            self._items[key] = value
            self._items.move_to_end(key)
            while len(self._items) > self._size:
                self._items.popitem(last=False)

    def drop(self, key: K) -> None:
        """Remove an item, if there is one."""
        with self._lock:
            self._items.pop(key, None)


class _KnownRecord(NamedTuple):
    """The newest record of a session, as of a version."""

    version: int
    entry: Entry | None


class _Followed(NamedTuple):
    """What a shadow followed last: the history up to this entry."""

    shadow: Shadow
    head_id: str | None
    history: tuple[tuple[Piece, ...], ...]


class _Source(NamedTuple):
    """The history up to an entry that is in another session."""

    session: holdfast.Session
    home: Home
    entries: list[Entry]


class ConversationLog:
    """The records and entries of conversations. Threads can share it."""

    def __init__(self, engine: holdfast.Engine, *, actor: str, scope_is_user: bool) -> None:
        self._engine = engine
        self._actor = actor
        self._scope_is_user = scope_is_user
        self._homes: RecentItems[str, Home] = RecentItems(_KNOWN_ENTRIES)
        self._records: RecentItems[Home, _KnownRecord] = RecentItems(_KNOWN_RECORDS)
        self._followed: RecentItems[Home, _Followed] = RecentItems(_SHADOWS)

    # Read

    def _find(self, conversation_id: str) -> tuple[LocatedConversation, ConversationRecord | None]:
        current = find_conversation(self._engine, conversation_id, self._actor)
        record = decode_record(current.record)
        if record is None or record.conversation_id != conversation_id:  # that of the session that it was forked from
            return current, None
        for entry_id in (record.head_id, *record.branches):
            if entry_id is not None:
                self._homes.set(entry_id, current.home)
        return current, record

    def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation; None if there is none."""
        return self._find(conversation_id)[1]

    def read_records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        """The records, newest `updated_at` first."""
        records: list[ConversationRecord] = []
        for row in self._list_rows():
            home = Home(row.actor, row.session, row.thread or None)
            known = self._records.get(home)
            if known is None or known.version != row.version:
                try:
                    known = _KnownRecord(row.version, read_newest_record(home.open(self._engine)))
                except SessionNotFound:
                    continue
                self._records.set(home, known)
            record = decode_record(known.entry)
            if record is not None and (scope is None or record.scope == scope) and self._is_home(record, home):
                records.append(record)
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    def _is_home(self, record: ConversationRecord, home: Home) -> bool:
        """Whether the session is that of the record's conversation, not a fork whose own record is not stored yet."""
        return next(iterate_homes(record.conversation_id, self._actor)).name == home.name

    def _list_rows(self) -> Iterator[holdfast.types.SessionRow]:
        last: holdfast.types.SessionRow | None = None
        while page := self._engine.sessions(actor=self._actor, order="recent", after=last, limit=_PAGE):
            yield from page
            last = page[-1]

    def _locate(self, entry_id: str) -> tuple[holdfast.Session, Home] | None:
        """The session that has an entry."""
        known = self._homes.get(entry_id)
        homes = (Home(row.actor, row.session, row.thread or None) for row in self._list_rows())
        for home in (*([known] if known is not None else []), *homes):
            with contextlib.suppress(SessionNotFound):
                session = home.open(self._engine)
                if session.entries.get(name_entry(entry_id)) is not None and not _is_deleted(session):
                    self._homes.set(entry_id, home)
                    return session, home
        return None

    def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with this id. Raises KeyError if there is none."""
        located = self._locate(entry_id)
        entry = None if located is None else located[0].entries.get(name_entry(entry_id))
        if entry is None:
            raise KeyError(entry_id)
        return decode_entry(entry)

    def read_history(self, head_id: str | None, limit: int | None) -> list[ConversationEntry]:
        """The entries up to `head_id`, or the last of them. Raises KeyError if one is missing."""
        if head_id is None or (limit is not None and limit <= 0):
            return []
        located = self._locate(head_id)
        if located is None:
            raise KeyError(head_id)
        try:
            return [decode_entry(entry) for entry in _read_line(located[0], head_id, limit)]
        except SessionNotFound as error:  # deleted meanwhile
            raise KeyError(head_id) from error

    # Write

    def write_record(
        self, record: ConversationRecord, new_entries: Sequence[ConversationEntry], expected_revision: str | None
    ) -> None:
        """Store a record and its new entries, if the stored record has this revision."""
        new = [encode_entry(entry) for entry in new_entries]
        for _ in range(_TRIES):
            try:
                session, home = self._try_write(record, new, expected_revision)
                break
            except (VersionConflict, SessionDestroyedError, SessionExists):
                continue  # something was written to the session, or it was deleted or created meanwhile: look again
        else:
            raise ConversationConflict(record.conversation_id)
        for entry in new_entries:
            self._homes.set(entry.id, home)
        with contextlib.suppress(Conflict):  # another writer was first, and follows; so does the next save or run
            self._follow(session, home, record, new_entries)

    def _try_write(
        self, record: ConversationRecord, new: Sequence[NewEntry], expected_revision: str | None
    ) -> tuple[holdfast.Session, Home]:
        conversation_id = record.conversation_id
        current, stored = self._find(conversation_id)
        version = current.session.state().version if current.session is not None else None
        if version is not None:  # what comes after this version is refused
            current, stored = self._find(conversation_id)
        if (stored.revision if stored is not None else None) != expected_revision:
            raise ConversationConflict(conversation_id)
        source = self._find_source(record, new, current)
        session, missing = current.session, source.entries if source is not None else []
        if session is None:
            session = self._begin_session(record, current.home, source)
            version = session.state().version
            if source is not None:
                shared = {entry.key for entry in _list_entries(session, bodies=False)}
                missing = [entry for entry in missing if entry.key not in shared]
        copies = [NewEntry(entry.kind, entry.key, entry.body, parent=entry.parent) for entry in missing]
        newest = read_newest_record(session) if current.session is None else current.record
        self._append(session, [*copies, *new, encode_record(record, next_number(newest))], version)
        return session, current.home

    def _append(self, session: holdfast.Session, new: Sequence[NewEntry], version: int | None) -> None:
        """Append entries, the record last. Of more than one command can take, the first are of no use until the record is
        stored, and are deleted if it is not."""
        size = limits.BATCH_ENTRIES
        early: list[str] = []
        try:
            while len(new) > size:
                session.entries.append_all(new[:size], expect=version)
                early += (each.key for each in new[:size])
                new, version = new[size:], session.state().version
            session.entries.append_all(list(new), expect=version)
        except Conflict:
            if early:
                session.entries.delete(early, reason="the record was not stored")
            raise

    def _find_source(
        self, record: ConversationRecord, new: Sequence[NewEntry], current: LocatedConversation
    ) -> _Source | None:
        """The history that the record needs and its session does not have. None if it has all."""
        own = {each.key for each in new}
        needed = [] if record.head_id is None or name_entry(record.head_id) in own else [record.head_id]
        is_head = bool(needed)
        needed += (
            each.parent.removeprefix("entry/") for each in new if each.parent is not None and each.parent not in own
        )
        for entry_id in dict.fromkeys(needed):
            if current.session is not None and current.session.entries.get(name_entry(entry_id)) is not None:
                continue
            located = self._locate(entry_id)
            if located is not None:
                session, home = located
                with contextlib.suppress(LookupError, SessionNotFound):
                    return _Source(session, home, _read_line(session, entry_id, None))
            if is_head and entry_id == record.head_id:
                raise ConversationConflict(record.conversation_id)
        return None

    def _begin_session(self, record: ConversationRecord, home: Home, source: _Source | None) -> holdfast.Session:
        """A new session for a conversation: a fork, if the conversation is one."""
        if source is not None and record.forked_from is not None and source.home.thread == home.thread:
            message = _find_fork_point(source)
            if message is not None:
                is_newest = source.session.messages(limit=1) == [message]
                return source.session.fork(at=None if is_newest else message, as_=home.name)
        return home.create(self._engine, user=record.scope if self._scope_is_user else None, memory=False)

    def _follow(
        self,
        session: holdfast.Session,
        home: Home,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
    ) -> None:
        """Make the conversation of the session that of the head."""
        followed = self._followed.get(home)
        shadow = followed.shadow if followed is not None else Shadow(session)
        anchor = new_entries[0].parent_id if new_entries else record.head_id
        if followed is not None and followed.head_id == anchor and _is_line(new_entries, record.head_id):
            history = (*followed.history, *(convert_message(entry.message) for entry in new_entries))
        else:
            read = _read_line(session, record.head_id, None) if record.head_id is not None else []
            history = tuple(convert_message(decode_entry(entry).message) for entry in read)
        shadow.follow([each.shadow for each in name_pieces(history)], exact=True, whole=True)
        self._followed.set(home, _Followed(shadow, record.head_id, history))

    # Delete

    def delete_record(self, conversation_id: str, expected_revision: str) -> None:
        """Delete a conversation, if it has this revision."""
        for _ in range(_TRIES):
            current, stored = self._find(conversation_id)
            if current.session is None or stored is None or stored.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            try:
                version = current.session.state().version
                if read_newest_record(current.session) == current.record:
                    mark = NewEntry(RECORD_KIND, f"record/{next_number(current.record)}", DELETED)
                    current.session.entries.append_all([mark], expect=version)
                    break
            except (VersionConflict, SessionNotFound):
                continue
        else:
            raise ConversationConflict(conversation_id)
        self._followed.drop(current.home)
        self._destroy(current.session)
        if stored.forked_from is not None:
            self._destroy_waiting(stored.forked_from)

    def _destroy(self, session: holdfast.Session) -> bool:
        """Erase a deleted conversation. What its forks share stays."""
        try:
            session.destroy("the conversation was deleted", offload=False)
        except SessionHasForks:
            _erase_own(session)
            return False
        except SessionNotFound:
            pass
        return True

    def _destroy_waiting(self, conversation_id: str) -> None:
        """Erase deleted conversations of this id that waited until a fork was deleted, and those that they are forks of."""
        for home in iterate_homes(conversation_id, self._actor):
            try:
                session = home.open(self._engine)
            except SessionDestroyedError:
                continue
            except SessionNotFound:
                return
            records = session.entries.list(kind=RECORD_KIND, limit=2)
            if not records or records[0].body != DELETED:
                return
            before = decode_record(records[1]) if len(records) > 1 else None
            if self._destroy(session) and before is not None and before.forked_from is not None:
                self._destroy_waiting(before.forked_from)


def _is_deleted(session: holdfast.Session) -> bool:
    newest = read_newest_record(session)
    return newest is not None and newest.body == DELETED


def _erase_own(session: holdfast.Session) -> None:
    """Erase what forks of the session do not share."""
    session.close_calls("the conversation was deleted")
    shared = max((row.cut for row in session.forks()), default=0)
    seqs = {entry.seq for entry in _list_entries(session, bodies=False) if entry.seq > shared}
    for read in (session.messages, session.evidence):
        before: int | None = None
        while page := [each for each in read(before=before, limit=_PAGE) if each.seq > shared]:
            seqs.update(each.seq for each in page if not each.erased)
            before = page[0].seq
    ordered = sorted(seqs)
    for start in range(0, len(ordered), _PAGE):
        session.erase(ordered[start : start + _PAGE], "the conversation was deleted")


def _is_line(entries: Sequence[ConversationEntry], head_id: str | None) -> bool:
    """Whether each entry follows the one before it, and the last is the head."""
    follows = all(later.parent_id == earlier.id for earlier, later in itertools.pairwise(entries))
    return follows and (not entries or entries[-1].id == head_id)


def _list_entries(session: holdfast.Session, *, bodies: bool = True, size: int = _PAGE) -> Iterator[Entry]:
    """The entries of a conversation, newest first."""
    before: int | None = None
    while page := session.entries.list(kind=ENTRY_KIND, before=before, limit=size, bodies=bodies):
        yield from page
        before = page[-1].seq


def _read_line(session: holdfast.Session, head_id: str, limit: int | None) -> list[Entry]:
    """The entries up to this one, or the last of them. Raises KeyError if one is missing."""
    size = _PAGE if limit is None else min(_PAGE, limit + 4)
    entries = _list_entries(session, size=size)
    read: dict[str, Entry] = {}
    line: list[Entry] = []
    wanted: str | None = head_id
    while wanted is not None and (limit is None or len(line) < limit):
        key = name_entry(wanted)
        while key not in read:
            entry = next(entries, None)
            if entry is None:
                raise KeyError(wanted)
            read[entry.key] = entry
        line.append(read[key])
        wanted = find_parent(read[key])
    return line[::-1]


def _find_fork_point(source: _Source) -> holdfast.Message | None:
    """The last message that a fork shares: not those of a reply whose calls have no result yet, since a fork closes such
    calls. None if there is none."""
    listed = name_pieces(convert_message(decode_entry(entry).message) for entry in source.entries)
    end = _find_settled_end(listed)
    for each in reversed(listed[:end]):
        message = source.session.find_message(each.shadow.id)
        if message is not None:
            return message
    return None


def _find_settled_end(listed: Sequence[ListedPiece]) -> int:
    """The number of pieces before the first call without a result."""
    answered = {each.piece.call_id for each in listed if each.piece.call_id is not None}
    for number, each in enumerate(listed):
        calls = each.piece.fields.get("tool_calls", ())
        if any(call["id"] not in answered for call in calls):
            return number
    return len(listed)
