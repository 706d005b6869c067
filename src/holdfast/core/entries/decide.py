"""Decisions about entries: append and delete; and the faults of their events.

Laws: the same key with the same content changes nothing; with other content it is refused. A chunk that is stored is not
stored again. Chunks come before what needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from holdfast import errors
from holdfast.core.sessions.decide import check_exists, check_open, decide_erasure
from holdfast.model import limits
from holdfast.model.entries.commands import (
    AppendEntries,
    ChunkDraft,
    DeleteEntries,
    EntryCommand,
    EntryDraft,
    JsonDraft,
    PartDraft,
)
from holdfast.model.entries.entry import Chunk, ChunkRef, EntryBody, JsonBody, SharedPart
from holdfast.model.entries.events import EntryAppended, EntryChunksStored, chunk_refs
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import check_name, hash_long_name
from holdfast.model.rows import EntryRow
from holdfast.model.sessions.commands import ErasePayloads
from holdfast.model.state import SessionState

_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_entry_name(what: str, value: object) -> str:
    """A kind, key or parent, which may be longer than other names."""
    return check_name(what, value, limits.LONG_NAME_BYTES)


def decide(state: SessionState, command: EntryCommand, inputs: DecisionInput) -> tuple[Event, ...]:
    match command:
        case AppendEntries():
            return decide_append(state, command, inputs)
        case DeleteEntries():
            return decide_deletion(state, command, inputs)


def decide_append(state: SessionState, command: AppendEntries, inputs: DecisionInput) -> tuple[Event, ...]:
    check_open(state, command.scope)
    new: dict[str, EntryDraft] = {}
    for draft in command.entries:
        row = inputs.entries.rows.get(draft.key)
        first = _content_of(new.setdefault(draft.key, draft) if row is None else row)
        if first != _content_of(draft):
            raise errors.EntryConflict(key=draft.key, session=command.scope.session)
    stored = dict(inputs.entries.chunks)
    needed = _find_new_chunks(new.values(), command.chunks, stored)
    events = [*_store_chunks(needed, stored, state.version + 1)]
    return (*events, *(_append_entry(draft, stored) for draft in new.values()))


def _content_of(entry: EntryDraft | EntryRow) -> tuple[str, str, str]:
    """What two entries of one key are compared by, as it is in the row."""
    if isinstance(entry, EntryRow):
        return entry.kind, entry.parent, entry.digest
    return hash_long_name(entry.kind), hash_long_name(entry.parent) if entry.parent else "", entry.digest


def _find_new_chunks(
    drafts: Iterable[EntryDraft], chunks: Mapping[str, ChunkDraft], stored: Mapping[str, ChunkRef]
) -> list[ChunkDraft]:
    """The chunks that these entries need and that are not stored, each after those that it needs itself."""
    wanted: set[str] = set()
    open_digests = [digest for draft in drafts for digest in root_digests(draft)]
    while open_digests:
        digest = open_digests.pop()
        if digest not in wanted and digest not in stored:
            wanted.add(digest)
            open_digests += chunks[digest].needed_digests()
    return [draft for digest, draft in chunks.items() if digest in wanted]


def root_digests(draft: EntryDraft) -> list[str]:
    """The chunks that a body names itself."""
    parts = draft.body.parts if isinstance(draft.body, JsonDraft) else ()
    return [digest for part in parts for digest in part.digests]


def _store_chunks(needed: list[ChunkDraft], stored: dict[str, ChunkRef], seq: int) -> Iterator[EntryChunksStored]:
    """The events that store these chunks, from `seq` on. Their positions are added to `stored`."""
    most = -(-len(needed) // limits.CHUNK_EVENTS)
    chunks: list[Chunk] = []
    size = 0
    for draft in needed:
        if chunks and (len(chunks) == most or size + draft.size > limits.CHUNK_EVENT_BYTES):
            yield EntryChunksStored(chunks=tuple(chunks))
            chunks, size, seq = [], 0, seq + 1
        stored[draft.digest] = ChunkRef(seq, len(chunks))
        chunks.append(
            Chunk(
                digest=draft.digest,
                value=draft.value,
                parts=_place_parts(draft.parts, stored),
                children=tuple(stored[digest] for digest in draft.children),
                ref=draft.ref,
            )
        )
        size += draft.size
    if chunks:
        yield EntryChunksStored(chunks=tuple(chunks))


def _place_parts(parts: Iterable[PartDraft], stored: Mapping[str, ChunkRef]) -> tuple[SharedPart, ...]:
    return tuple(SharedPart(part.path, tuple(stored[each] for each in part.digests), part.is_list) for part in parts)


def _append_entry(draft: EntryDraft, stored: Mapping[str, ChunkRef]) -> EntryAppended:
    body: EntryBody
    if isinstance(draft.body, JsonDraft):
        body = JsonBody(draft.body.value, _place_parts(draft.body.parts, stored))
    else:
        body = draft.body
    return EntryAppended(
        kind=draft.kind, key=draft.key, parent=draft.parent, body=body, digest=draft.digest, size=draft.size
    )


def decide_deletion(state: SessionState, command: DeleteEntries, inputs: DecisionInput) -> tuple[Event, ...]:
    """An erasure of the entries, and of the chunks that no other entry needs."""
    check_exists(state, command.scope)
    return decide_erasure(
        state, ErasePayloads(scope=command.scope, seqs=inputs.entries.erased, reason=command.reason, alone=True)
    )


def entry_faults(state: SessionState, event: Event | None) -> Iterator[str]:
    """Why no command can have made this event."""
    seq = state.version + 1
    if isinstance(event, EntryAppended):
        yield from _name_faults(event)
        if not _DIGEST.fullmatch(event.digest) or not 0 <= event.size <= limits.ENTRY_BYTES:
            yield "an entry has a digest and a size"
        if not all(1 <= ref.seq < seq and ref.at >= 0 for ref in chunk_refs(event)):
            yield "an entry refers to chunks before it"
        if isinstance(event.body, JsonBody):
            yield from _part_faults(event.body.parts)
    elif isinstance(event, EntryChunksStored):
        if not event.chunks:
            yield "an event about chunks has some"
        for at, chunk in enumerate(event.chunks):
            if not _DIGEST.fullmatch(chunk.digest):
                yield "a chunk has a digest"
            if not all(ChunkRef(1, 0) <= ref < ChunkRef(seq, at) and ref.at >= 0 for ref in chunk_refs(chunk)):
                yield "a chunk refers to chunks before it"
            yield from _part_faults(chunk.parts)


def _name_faults(event: EntryAppended) -> Iterator[str]:
    try:
        for name in (event.kind, event.key, event.kind if event.parent is None else event.parent):
            check_entry_name("name", name)
    except errors.InvalidInput:
        yield "an entry has a kind, a key and perhaps a parent"


def _part_faults(parts: Iterable[SharedPart]) -> Iterator[str]:
    if not all(part.refs and (part.is_list or len(part.refs) == 1) for part in parts):
        yield "a part is one chunk, or a list of chunks"
