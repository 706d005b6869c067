"""What commands about entries need from rows and from the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core import upcast
from holdfast.core.entries.decide import root_digests
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.entries.commands import AppendEntries, DeleteEntries
from holdfast.model.entries.entry import ChunkRef
from holdfast.model.entries.events import EntryAppended, EntryChunksStored, chunk_refs
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


def find_entry_seqs(command: DeleteEntries) -> Flow[tuple[int, ...]]:
    """The events of the entries that a command deletes."""
    return tuple(row.seq for row in (yield from find_entries(command.scope, command.keys)).values())


def find_unused_chunks(stream: StreamId, erased: Iterable[int]) -> Flow[set[int]]:
    """The events with chunks of which no entry needs one, once these events are erased.

    Newest first: what an event refers to stands before it."""
    gone = {*erased}
    used: set[ChunkRef] = set()
    unused: set[int] = set()
    before: int | None = None
    while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, ENTRY_EVENTS)):
        for recorded in page:
            event = None if recorded.seq in gone else upcast.decode_event(recorded)
            if isinstance(event, EntryAppended):
                used.update(chunk_refs(event))
            elif isinstance(event, EntryChunksStored):
                needed = False
                for at in reversed(range(len(event.chunks))):
                    if ChunkRef(recorded.seq, at) in used:
                        needed = True
                        used.update(chunk_refs(event.chunks[at]))
                if not needed:
                    unused.add(recorded.seq)
        before = page[-1].seq
    return unused
