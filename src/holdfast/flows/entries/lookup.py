"""What commands about entries need from rows and from the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from holdfast.core import upcast
from holdfast.core.entries.decide import root_digests
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.entries.commands import AppendEntries, DeleteEntries
from holdfast.model.entries.entry import ChunkRef
from holdfast.model.entries.events import EntryAppended, EntryChunksStored, chunk_refs
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput, EntryInput
from holdfast.model.names import Scope, StreamId, shorten_name
from holdfast.model.rows import ChunkRow, EntryRow

ENTRY_EVENTS = (EntryAppended.name, EntryChunksStored.name)


def complete_append(command: AppendEntries, inputs: DecisionInput) -> Flow[DecisionInput]:
    """The input, with the entries that exist under these keys and the chunks that are stored."""
    are_new = inputs.entries.are_new
    rows = {} if are_new else (yield from find_entries(command.scope, [draft.key for draft in command.entries]))
    digests = [digest for draft in command.entries for digest in root_digests(draft)]
    chunks: dict[str, ChunkRef] = {}
    unknown: set[str] = set()
    while digests:  # from the top: what a stored chunk needs is stored too
        chunks |= yield from find_chunks(command.scope, digests)
        missing = [digest for digest in digests if digest not in chunks]
        unknown.update(missing)
        below = (each for digest in missing for each in command.chunks[digest].needed_digests())
        digests = [each for each in dict.fromkeys(below) if each not in chunks and each not in unknown]
    return msgspec.structs.replace(inputs, entries=EntryInput(rows=rows, are_new=are_new, chunks=chunks))


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


def find_entry_seqs(command: DeleteEntries) -> Flow[tuple[int, ...]]:
    """The events of the entries that a command deletes."""
    return tuple(row.seq for row in (yield from find_entries(command.scope, command.keys)).values())


def find_erased_entries(
    stream: StreamId, events: Mapping[int, Event | None], *, everywhere: bool
) -> Flow[tuple[set[int], set[int]]]:
    """These events of entries, by seq, with all that refers to an erased chunk; and the events with chunks that nothing
    else in this session needs: among those that the erased events need, or `everywhere`."""
    erased = dict(events)
    chunks = [seq for seq, event in erased.items() if isinstance(event, EntryChunksStored)]
    if chunks:
        erased |= yield from _find_referring_events(stream, min(chunks), erased)
    needed = None if everywhere else {ref for event in erased.values() for ref in chunk_refs(event)}
    return {*erased}, (yield from _find_unused_chunks(stream, needed, erased.keys()))


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


def _find_unused_chunks(
    stream: StreamId, needed: Collection[ChunkRef] | None, erased: Collection[int]
) -> Flow[set[int]]:
    """The events with chunks that nothing but the events in `erased` needs. They need `needed` themselves; None: decide on
    all chunks.

    Newest first, since what an event refers to stands before it; and only as far back as there is something to decide."""
    undecided = None if needed is None else {*needed}
    used, unused = set[ChunkRef](), set[int]()
    before: int | None = None
    while undecided is None or undecided:
        page = yield from effects.read_back(stream, before, limits.READ_EVENTS, ENTRY_EVENTS)
        for recorded in page:
            event = None if recorded.seq in erased else upcast.decode_event(recorded)
            if isinstance(event, EntryAppended):
                used.update(chunk_refs(event))
            elif isinstance(event, EntryChunksStored):
                refs = [ChunkRef(recorded.seq, at) for at in range(len(event.chunks))]
                for ref in reversed(refs):
                    if ref in used:
                        used.update(chunk_refs(event.chunks[ref.at]))
                    elif undecided is not None and ref in undecided:
                        undecided.update(chunk_refs(event.chunks[ref.at]))
                if used.isdisjoint(refs) and (undecided is None or not undecided.isdisjoint(refs)):
                    unused.add(recorded.seq)
        if len(page) < limits.READ_EVENTS:
            break
        before = page[-1].seq
        if undecided is not None:
            undecided = {ref for ref in undecided if ref.seq < before}
    return unused
