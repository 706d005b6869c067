"""What commands about entries need from rows and from the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from holdfast.core import upcast
from holdfast.core.entries.decide import root_digests
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.entries.commands import AppendEntries
from holdfast.model.entries.entry import ChunkRef
from holdfast.model.entries.events import EntryAppended, EntryChunksStored, chunk_refs
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput, EntryInput
from holdfast.model.names import Scope, StreamId, shorten_name
from holdfast.model.rows import ChunkRow, EntryRow

ENTRY_EVENTS = (EntryAppended.name, EntryChunksStored.name)


def complete_append(command: AppendEntries, inputs: DecisionInput) -> Flow[DecisionInput]:
    """The input, with the entries that exist under these keys and the chunks that are stored."""
    rows = yield from find_entries(command.scope, [draft.key for draft in command.entries])
    digests = [digest for draft in command.entries for digest in root_digests(draft)]
    chunks: dict[str, ChunkRef] = {}
    unknown: set[str] = set()
    while digests:  # from the top: what a stored chunk needs is stored too
        chunks |= yield from find_chunks(command.scope, digests)
        missing = [digest for digest in digests if digest not in chunks]
        unknown.update(missing)
        below = (each for digest in missing for each in command.chunks[digest].needed_digests())
        digests = [each for each in dict.fromkeys(below) if each not in chunks and each not in unknown]
    return msgspec.structs.replace(inputs, entries=EntryInput(rows=rows, chunks=chunks))


def find_entries(scope: Scope, keys: Sequence[str]) -> Flow[dict[str, EntryRow]]:
    """The rows of the entries with these keys, by key."""
    names = {shorten_name(key): key for key in keys}
    if not names:
        return {}
    rows = yield from effects.rows(EntryRow, scope.columns, None, len(names), among={"entry": tuple(names)})
    return {names[row.entry]: row for row in rows}


def find_chunks(scope: Scope, digests: Sequence[str]) -> Flow[dict[str, ChunkRef]]:
    """The positions of the chunks with these digests that are stored."""
    found: dict[str, ChunkRef] = {}
    wanted = list(dict.fromkeys(digests))
    for start in range(0, len(wanted), limits.READ_EVENTS):
        page = tuple(wanted[start : start + limits.READ_EVENTS])
        for row in (yield from effects.rows(ChunkRow, scope.columns, None, len(page), among={"digest": page})):
            found[row.digest] = ChunkRef(row.seq, row.at)
    return found


def find_erased_entries(stream: StreamId, events: Mapping[int, Event | None]) -> Flow[set[int]]:
    """These events of entries, by seq, and all that must be erased with them: what refers to an erased chunk, and the
    chunks that nothing else needs."""
    erased = dict(events)
    chunks = [seq for seq, event in erased.items() if isinstance(event, EntryChunksStored)]
    if chunks:
        erased |= yield from _find_referring_events(stream, min(chunks), erased)
    needed = {ref for event in erased.values() for ref in chunk_refs(event)}
    return {*erased, *(yield from _find_unused_chunks(stream, needed, erased.keys()))}


def _find_referring_events(stream: StreamId, first: int, erased: Collection[int]) -> Flow[dict[int, Event]]:
    """The events from `first` on that refer to chunks of these events, directly or not."""
    later: dict[int, Event] = {}
    before: int | None = None
    while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, ENTRY_EVENTS)):
        decoded = ((recorded.seq, upcast.decode_event(recorded)) for recorded in page if recorded.seq > first)
        later |= {seq: event for seq, event in decoded if event is not None}
        before = page[-1].seq
        if before <= first:
            break
    found: dict[int, Event] = {}
    for seq in sorted(later):
        if any(ref.seq in erased or ref.seq in found for ref in chunk_refs(later[seq])):
            found[seq] = later[seq]
    return found


def _find_unused_chunks(stream: StreamId, needed: Collection[ChunkRef], erased: Collection[int]) -> Flow[set[int]]:
    """The events with chunks that only the events in `erased` need; they need `needed` themselves.

    Newest first, since what an event refers to stands before it; and only as far back as there is something to decide."""
    undecided, used, unused = {*needed}, set[ChunkRef](), set[int]()
    before: int | None = None
    while undecided and (page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, ENTRY_EVENTS))):
        for recorded in page:
            event = None if recorded.seq in erased else upcast.decode_event(recorded)
            if isinstance(event, EntryAppended):
                used.update(chunk_refs(event))
            elif isinstance(event, EntryChunksStored):
                refs = [ChunkRef(recorded.seq, at) for at in range(len(event.chunks))]
                for ref in reversed(refs):
                    if ref in used:
                        used.update(chunk_refs(event.chunks[ref.at]))
                    elif ref in undecided:
                        undecided.update(chunk_refs(event.chunks[ref.at]))
                if not undecided.isdisjoint(refs) and used.isdisjoint(refs):
                    unused.add(recorded.seq)
        before = page[-1].seq
        undecided = {ref for ref in undecided if ref.seq < before}
    return unused
