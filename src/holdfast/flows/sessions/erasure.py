"""Which events are erased together.

Laws: with an event, every later event that quotes it is erased, as `quoted_events` declares. Calls and their results are
erased together, and so are the events of one frame tree. With an entry, the chunks are erased that no other entry needs,
and nothing of the conversation: no model sees entries. If an erasure itself is erased, the new one names its events too,
so that a readable event names every erased payload. A withdrawal in effect is erased with its messages, and a restoration
with the withdrawal that it undid. What is erased in a session is erased in all forks that share it.
"""

from __future__ import annotations

import bisect

import msgspec

from holdfast.core import upcast
from holdfast.core.history.views import group_seq
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.entries.lookup import ENTRY_EVENTS, find_erased_entries
from holdfast.flows.frames.lookup import find_tree_events
from holdfast.flows.lineage import find_children, find_forks, read_origin
from holdfast.flows.sessions.transcript import message_of, read_messages_in, read_results, read_withdrawn_messages
from holdfast.model import limits
from holdfast.model.content import calling_seq
from holdfast.model.entries.events import chunk_refs
from holdfast.model.event import FrameTreeEvent, QuotedEvents
from holdfast.model.events import QUOTING_EVENTS, Event
from holdfast.model.history.events import ContextCompacted, MessagesRestored, MessagesWithdrawn, SummaryRecorded
from holdfast.model.log import StoredEvent
from holdfast.model.names import StreamId
from holdfast.model.rows import scope_of
from holdfast.model.sessions.events import CallStarted, EvidenceKept, MessageRecorded, PayloadsErased
from holdfast.model.sessions.messages import Message


def find_erased_seqs(stream: StreamId, seqs: tuple[int, ...]) -> Flow[set[int]]:
    """These events, and all that must be erased with them."""
    erased = _ErasedEvents()
    entries: dict[int, Event | None] = {}
    events = yield from effects.read_each(stream, seqs)
    for seq in seqs:
        recorded = events.get(seq)
        if recorded is None:
            erased.add(seq)
        elif recorded.type in ENTRY_EVENTS:  # only other entries refer to them
            entries[seq] = upcast.decode_event(recorded)
        else:
            erased.add(seq, recorded.type)
            for linked in (yield from _find_linked_seqs(stream, recorded)):
                erased.add(linked)
    if erased.seqs:
        for event in (yield from _read_quoting_events(stream)):
            if event.seq in erased.seqs or erased.has_source_of(event):
                erased.add(event.seq, event.type)
                if event.summary is not None:
                    erased.summaries.append(event.summary)
    return erased.seqs | (yield from _find_erased_entries(stream, entries))


def _find_erased_entries(stream: StreamId, entries: dict[int, Event | None]) -> Flow[set[int]]:
    """These events of entries, and all that must be erased with them. A chunk that a fork once kept may be needed by nobody
    now, so then all chunks are searched."""
    if not entries:
        return set()
    erased, unused = yield from find_erased_entries(
        stream, entries, everywhere=bool((yield from find_children(stream)))
    )
    return erased | (unused - (yield from _find_shared_chunks(stream)) if unused else unused)


_QUOTING_EVENTS = tuple(name for name in QUOTING_EVENTS if name not in ENTRY_EVENTS)


def _find_shared_chunks(stream: StreamId) -> Flow[set[int]]:
    """The events with chunks that entries of other sessions may need: those that a fork shares, and those that the own
    entries of its forks need."""
    origin = yield from read_origin(stream)
    shared = set(range(1, origin.cut + 1)) if origin is not None and origin.lineage else set()
    queue: list[int] = []
    for fork in (yield from find_forks(stream)):
        before: int | None = None
        while page := (
            yield from effects.read_back(scope_of(fork.row).stream, before, limits.READ_EVENTS, ENTRY_EVENTS)
        ):
            own = [recorded for recorded in page if recorded.seq > fork.row.cut]
            queue += (ref.seq for recorded in own for ref in chunk_refs(upcast.decode_event(recorded)))
            if len(own) < len(page):
                break
            before = page[-1].seq
    while queue:
        seq = queue.pop()
        if seq not in shared:
            shared.add(seq)
            for recorded in (yield from effects.read(stream, seq - 1, 1)):
                queue += (ref.seq for ref in chunk_refs(upcast.decode_event(recorded)))
    return shared


class _SummaryRange(msgspec.Struct, frozen=True):
    """The events that a summary covers."""

    frame: str | None
    first: int
    last: int


class _QuotingEvent(msgspec.Struct, frozen=True):
    """An event that quotes earlier ones, as far as erasure needs it."""

    seq: int
    type: str
    quoted: tuple[QuotedEvents, ...]
    summary: _SummaryRange | None


class _ErasedEvents:
    """The events to erase, collected one by one."""

    def __init__(self) -> None:
        self.seqs: set[int] = set()
        self.summaries: list[_SummaryRange] = []
        """The ranges of the erased summaries."""
        self._ordered: list[int] = []
        self._by_type: dict[str, list[int]] = {}

    def add(self, seq: int, event_type: str | None = None) -> None:
        if seq not in self.seqs:
            self.seqs.add(seq)
            bisect.insort(self._ordered, seq)
        if event_type is not None:
            bisect.insort(self._by_type.setdefault(event_type, []), seq)

    def has_source_of(self, event: _QuotingEvent) -> bool:
        """Whether an event quotes one of the events to erase. A summary also quotes the summaries that it replaced: those
        of the same conversation that begin in its range."""
        return self._has_part_of(event.summary) or any(self._has_any_of(each) for each in event.quoted)

    def _has_part_of(self, summary: _SummaryRange | None) -> bool:
        return summary is not None and any(
            each.frame == summary.frame and summary.first <= each.first <= summary.last for each in self.summaries
        )

    def _has_any_of(self, quoted: QuotedEvents) -> bool:
        if quoted.first == quoted.last and not quoted.types:
            return quoted.first in self.seqs
        lists = [self._by_type.get(each, []) for each in quoted.types] if quoted.types else [self._ordered]
        for ordered in lists:
            at = bisect.bisect_left(ordered, quoted.first)
            if at < len(ordered) and ordered[at] <= quoted.last:
                return True
        return False


def _read_quoting_events(stream: StreamId) -> Flow[list[_QuotingEvent]]:
    """All events that quote others, oldest first, also those that no view shows any more; without those of entries."""
    quoting: list[_QuotingEvent] = []
    before: int | None = None
    while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, _QUOTING_EVENTS)):
        for recorded in page:
            event = upcast.decode_event(recorded)
            if event is not None:
                quoted = tuple(event.quoted_events(recorded.seq))
                quoting.append(_QuotingEvent(recorded.seq, recorded.type, quoted, _summary_range(event)))
        before = page[-1].seq
    return quoting[::-1]


def _summary_range(event: Event) -> _SummaryRange | None:
    if isinstance(event, SummaryRecorded):
        return _SummaryRange(event.frame, event.first, event.last)
    if isinstance(event, ContextCompacted) and event.fold is not None:
        return _SummaryRange(event.frame, event.fold.first, event.fold.last)
    return None


def _find_linked_seqs(stream: StreamId, recorded: StoredEvent) -> Flow[set[int]]:
    event = upcast.decode_event(recorded)
    if isinstance(event, PayloadsErased):
        return {*event.seqs}
    if isinstance(event, MessagesWithdrawn):  # else its messages would be in view again
        return (yield from _find_withdrawn_seqs(stream, event))
    if isinstance(event, MessagesRestored):  # else its messages would be withdrawn again
        return {event.withdrawal}
    if isinstance(event, FrameTreeEvent):
        return (yield from find_tree_events(stream, recorded, event))
    if isinstance(event, CallStarted):  # else a call of unknown outcome would seem never started
        return (yield from _find_call_group(stream, calling_seq(event.call) or recorded.seq))
    if not isinstance(event, MessageRecorded | EvidenceKept):
        return set()
    message = message_of(recorded)
    first = group_seq(message)
    if first == message.seq and not message.tool_calls:
        return set()
    if first > message.seq or not (yield from _is_answer_to(stream, first, message)):
        return set()
    return (yield from _find_call_group(stream, first))


def _find_withdrawn_seqs(stream: StreamId, event: MessagesWithdrawn) -> Flow[set[int]]:
    """The messages of a withdrawal that is in effect."""
    withdrawn = yield from read_withdrawn_messages(stream)
    messages = yield from read_messages_in(stream, event.frame, event.ranges)
    return {each.seq for each in messages if withdrawn.find(each.seq, each.frame)}


def _find_call_group(stream: StreamId, seq: int) -> Flow[set[int]]:
    """The message with the calls, and the messages with their results."""
    results = yield from read_results(stream, seq, limits.WHOLE_NUMBER)
    return {seq, *(result.seq for result in results)}


def _is_answer_to(stream: StreamId, seq: int, answer: Message) -> Flow[bool]:
    """Whether the event has a call that this answers. Evidence may name a call that never existed."""
    for recorded in (yield from effects.read(stream, seq - 1, 1)):
        calls = {call.id for call in message_of(recorded).tool_calls}
        return answer.seq == seq or any(result.tool_call_id in calls for result in answer.tool_results)
    return False
