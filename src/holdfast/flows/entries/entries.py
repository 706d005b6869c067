"""Entries: records of other frameworks beside the messages of a session.

Laws: an entry is appended whole, with its chunks, or not at all. Bodies come back as they were given. Deleting an entry
erases it, and the chunks that no other entry needs.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast import codec
from holdfast.conversion import to_json
from holdfast.core import upcast
from holdfast.core.entries.chunks import ChunkContent, join_body, split_body
from holdfast.core.entries.decide import check_entry_name
from holdfast.errors import BlobNotFound, InvalidArgument, StorageCorrupt, describe_value
from holdfast.flows import effects
from holdfast.flows.context import SessionContext, build_input, execute_commands, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.entries.lookup import find_chunks, find_entries
from holdfast.flows.execute import CommandRequest, Execution
from holdfast.flows.sessions.forks import erase_with_forks
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.entries.commands import AppendEntries, BodyDraft, ChunkDraft, DeleteEntries, EntryDraft
from holdfast.model.entries.entry import BlobBody, BytesBody, Chunk, ChunkRef, Entry, NewEntry
from holdfast.model.entries.events import EntryAppended, EntryChunksStored, chunk_refs
from holdfast.model.events import Event
from holdfast.model.inputs import EntryInput
from holdfast.model.names import StreamId, check_flag, check_size, check_whole, shorten_name
from holdfast.model.rows import EntryRow, RowOrder

_BYTES = (bytes, bytearray, memoryview)
_NEWEST_FIRST = RowOrder(("seq",), backwards=True)


# Append


class EntryDrafts:
    """The entries of one command, with their chunks and large bodies."""

    def __init__(self, entries: Iterable[NewEntry]) -> None:
        self.entries: list[EntryDraft] = []
        self.bodies: list[Any] = []
        """As `Entry` shows them."""
        self.chunks: dict[str, ChunkDraft] = {}
        self.chunk_blobs: dict[str, bytes] = {}
        self.byte_blobs: list[bytes] = []
        for new in _check_entries(entries):
            self._add(new)

    def _add(self, new: NewEntry) -> None:
        kind, key = check_entry_name("kind", new.kind), check_entry_name("key", new.key)
        parent = None if new.parent is None else check_entry_name("parent", new.parent)
        body: BodyDraft
        if type(new.body) in _BYTES:
            data = bytes(new.body)  # type: ignore[arg-type]
            self.bodies.append(data)
            body, digest, size = self._draft_bytes(data), hashlib.sha256(b"\0" + data).hexdigest(), len(data)
        else:
            value = to_json("the body of the entry", new.body, limits.ENTRY_VALUES)
            self.bodies.append(value)
            split = split_body(value)
            self.chunks |= split.chunks
            self.chunk_blobs |= split.blobs
            body, digest, size = split.draft, split.digest, split.size
        advice = "Put it into the blob store with engine.blobs.put(), and append its digest."
        check_size("the body of the entry", size, "bytes", "ENTRY_BYTES", advice)
        self.entries.append(EntryDraft(kind=kind, key=key, parent=parent, body=body, digest=digest, size=size))

    def _draft_bytes(self, data: bytes) -> BytesBody | BlobBody:
        if len(data) <= limits.SPOOL_BYTES:
            return BytesBody(data)
        self.byte_blobs.append(data)
        return BlobBody(BlobRef(hashlib.sha256(data).hexdigest(), len(data)))

    @property
    def has_blobs(self) -> bool:
        return bool(self.chunk_blobs or self.byte_blobs)

    def key_content(self) -> bytes:
        """The content that an idempotency key is bound to."""
        return codec.encode([(each.kind, each.key, each.parent, each.digest) for each in self.entries])


def append(context: SessionContext, new: NewEntry, *, cause: str | None = None) -> Flow[Entry]:
    """Append one entry; returns it, also if it existed."""
    return (yield from append_all(context, [new], cause=cause))[0]


def append_all(
    context: SessionContext,
    entries: Iterable[NewEntry],
    *,
    expect: int | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[list[Entry]]:
    """Append entries, all or none; returns them in the same order, those that existed too."""
    drafts = EntryDrafts(entries)
    if not drafts.entries:
        return []
    if key is not None or drafts.has_blobs:  # before any body is stored, and before a repeated key is answered
        yield from load_session(context)
    request, refs = yield from build_appending(context, drafts)
    result = yield from execute_commands(
        context.engine,
        [request],
        key=key,
        expect=expect,
        cause=cause,
        bodies=refs,
        key_content=codec.encode(context.scope) + drafts.key_content(),
    )
    return (yield from read_appended(context, drafts, result))


def append_new(context: SessionContext, entries: Iterable[NewEntry]) -> Flow[list[Entry]]:
    """Append entries whose keys are random: none of them exists, so none is looked for."""
    drafts = EntryDrafts(entries)
    request, refs = yield from build_appending(context, drafts, are_new=True)
    result = yield from execute_commands(context.engine, [request], bodies=refs)
    return (yield from read_appended(context, drafts, result))


def build_appending(
    context: SessionContext, drafts: EntryDrafts, *, are_new: bool = False
) -> Flow[tuple[CommandRequest, list[BlobRef]]]:
    """The command that appends these entries, and the bodies that must be stored before. `are_new`: no entry has one of
    their keys."""
    refs = yield from _put_blobs(context, drafts)
    command = AppendEntries(scope=context.scope, entries=tuple(drafts.entries), chunks=drafts.chunks)
    inputs = build_input(context.engine)
    if are_new:
        inputs = msgspec.structs.replace(inputs, entries=EntryInput(are_new=True))
    return CommandRequest(command, inputs), refs


def read_appended(context: SessionContext, drafts: EntryDrafts, result: Execution) -> Flow[list[Entry]]:
    """The entries as they are stored, those that existed too."""
    positions = {}
    for recorded, event in zip(result.events, result.decided or map(upcast.decode_event, result.events), strict=True):
        if isinstance(event, EntryAppended):
            positions[event.key] = (recorded.seq, recorded.time_us)
    others = [draft.key for draft in drafts.entries if draft.key not in positions]
    rows = yield from find_entries(context.scope, others)
    positions |= {key: (row.seq, row.at_us) for key, row in rows.items()}
    return [
        Entry(
            kind=draft.kind,
            key=draft.key,
            parent=draft.parent,
            seq=positions.get(draft.key, (0, 0))[0],  # 0: it was deleted meanwhile
            at_us=positions.get(draft.key, (0, 0))[1],
            size=draft.size,
            body=body,
        )
        for draft, body in zip(drafts.entries, drafts.bodies, strict=True)
    ]


def _check_entries(entries: object) -> list[NewEntry]:
    if type(entries) not in (list, tuple):
        raise InvalidArgument(argument="entries", reason=f"{describe_value(entries)} is not a list of entries")
    listed: Any = entries
    check_size("the command", len(listed), "entries", "BATCH_ENTRIES", "Append in several steps.")
    for each in listed:
        if type(each) is not NewEntry:
            reason = f"{describe_value(each)} is not a holdfast.types.NewEntry"
            raise InvalidArgument(argument="entries", reason=reason)
    return list(listed)


def _put_blobs(context: SessionContext, drafts: EntryDrafts) -> Flow[list[BlobRef]]:
    """Store the large bodies that are not stored yet; returns all of them."""
    engine = context.engine
    stored = yield from find_chunks(context.scope, [*drafts.chunk_blobs])
    new = [data for digest, data in drafts.chunk_blobs.items() if digest not in stored]
    for data in (*new, *drafts.byte_blobs):
        yield from effects.run_outside(functools.partial(engine.bodies.put, engine.tenant, data, None))
    chunks = (drafts.chunks[digest].ref for digest in drafts.chunk_blobs)
    bodies = (draft.body.ref for draft in drafts.entries if isinstance(draft.body, BlobBody))
    return list(dict.fromkeys(ref for ref in (*chunks, *bodies) if ref is not None))


# Read


def get(context: SessionContext, key: str) -> Flow[Entry | None]:
    """The entry of this key; None if there is none."""
    name = check_entry_name("key", key)
    yield from load_session(context)
    for _ in range(limits.VIEW_TRIES):
        rows = yield from find_entries(context.scope, [name])
        if name not in rows:
            return None
        entries = yield from _load_entries(context, list(rows.values()))
        if entries:
            return entries[0]
    return None


def list_entries(
    context: SessionContext,
    *,
    kind: str | None = None,
    parent: str | None = None,
    before: int | None = None,
    limit: int = 100,
    bodies: bool = True,
    is_known: bool = False,
) -> Flow[list[Entry]]:
    """The entries of this kind and with this parent, newest first. `is_known`: the caller has just read the session."""
    where: dict[str, str | int] = {**context.scope.columns}
    if kind is not None:
        where["kind"] = shorten_name(check_entry_name("kind", kind))
    if parent is not None:
        where["parent"] = shorten_name(check_entry_name("parent", parent))
    most = {} if before is None else {"seq": check_whole("before", before) - 1}
    limit = check_whole("limit", limit, 1, limits.READ_EVENTS)
    check_flag("bodies", bodies)
    if not is_known:
        yield from load_session(context)
    rows = list((yield from effects.rows(EntryRow, where, None, limit, order=_NEWEST_FIRST, most=most)))
    if not bodies:
        return [_describe_row(row) for row in rows]
    return (yield from _load_entries(context, rows))


def _describe_row(row: EntryRow) -> Entry:
    """An entry without its body."""
    kind, key, parent = row.kind, row.entry, row.parent
    if row.names:
        kind, key, parent = codec.decode(row.names.encode(), tuple[str, str, str])
    return Entry(kind=kind, key=key, parent=parent or None, seq=row.seq, at_us=row.at_us, size=row.size, body=None)


class _ChunkReader:
    """The chunks of some entries, read level by level."""

    def __init__(self) -> None:
        self.found: dict[ChunkRef, ChunkContent] = {}
        self.lost: set[ChunkRef] = set()
        """Erased meanwhile, or damaged."""

    def read(self, context: SessionContext, refs: Iterable[ChunkRef]) -> Flow[None]:
        wanted = {*refs}
        while wanted:
            events = yield from _read_events(context.scope.stream, {ref.seq for ref in wanted})
            below: set[ChunkRef] = set()
            for ref in sorted(wanted):
                event = events.get(ref.seq)
                if not isinstance(event, EntryChunksStored) or ref.at >= len(event.chunks):
                    self.lost.add(ref)
                    continue
                chunk = event.chunks[ref.at]
                try:
                    self.found[ref] = ChunkContent(chunk, (yield from _read_value(context, chunk)))
                except BlobNotFound:
                    self.lost.add(ref)
                    continue
                below.update(chunk_refs(chunk))
            wanted = below - self.found.keys() - self.lost


def _read_value(context: SessionContext, chunk: Chunk) -> Flow[bytes]:
    if chunk.ref is None:
        return codec.encode(chunk.value)
    return (yield from _read_blob(context, chunk.ref))


def _read_blob(context: SessionContext, ref: BlobRef) -> Flow[bytes]:
    engine = context.engine
    return (yield from effects.run_outside(lambda: b"".join(engine.bodies.chunks(engine.tenant, ref))))


def _load_entries(context: SessionContext, rows: Sequence[EntryRow]) -> Flow[list[Entry]]:
    """The entries of these rows, in this order, without those that were deleted meanwhile."""
    events = yield from _read_events(context.scope.stream, {row.seq for row in rows})
    reader = _ChunkReader()
    yield from reader.read(context, (ref for event in events.values() for ref in chunk_refs(event)))
    entries: list[Entry] = []
    for row in rows:
        event = events.get(row.seq)
        if not isinstance(event, EntryAppended):
            continue
        try:
            body = yield from _read_body(context, event, reader)
        except (KeyError, BlobNotFound) as error:
            if (yield from _is_stored(context.scope.stream, row.seq)):
                what = f"the entry {event.key!r} of {context.scope.stream}"
                raise StorageCorrupt(what=what, reason="a part of its body is missing") from error
            continue
        entries.append(msgspec.structs.replace(_describe_row(row), body=body))
    return entries


def _read_body(context: SessionContext, event: EntryAppended, reader: _ChunkReader) -> Flow[Any]:
    match event.body:
        case BytesBody(data=data):
            return data
        case BlobBody(ref=ref):
            return (yield from _read_blob(context, ref))
    value = codec.decode(codec.encode(event.body.value), object)
    return join_body(value, event.body.parts, reader.found.__getitem__)  # type: ignore[arg-type]


def _is_stored(stream: StreamId, seq: int) -> Flow[bool]:
    """Whether an event has its payload still."""
    for recorded in (yield from effects.read(stream, seq - 1, 1)):
        return recorded.payload is not None
    return False


def _read_events(stream: StreamId, seqs: Iterable[int]) -> Flow[dict[int, Event | None]]:
    """These events, by seq; None for one that was erased."""
    stored = yield from effects.read_each(stream, seqs)
    return {seq: upcast.decode_event(recorded) for seq, recorded in stored.items()}


# Delete


def delete(
    context: SessionContext,
    keys: Sequence[str],
    *,
    reason: str = "entries deleted",
    key: str | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Erase the entries of these keys. Keys without an entry are ignored."""
    if type(keys) not in (list, tuple, set, frozenset):
        raise InvalidArgument(argument="keys", reason=f"{describe_value(keys)} is not a list of keys")
    check_size("the command", len(keys), "keys", "DELETED_ENTRIES", "Delete in several steps.")
    names = tuple(sorted({check_entry_name("key", each) for each in keys}))
    text = codec.check_text("the reason", reason)
    command = DeleteEntries(scope=context.scope, keys=names, reason=text)
    yield from erase_with_forks(context, command, key=key, cause=cause)
