"""Messages, read from stored events."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.core import upcast
from holdfast.core.history.boundaries import find_surrounding_summary
from holdfast.core.history.views import group_seq, pieces_of
from holdfast.errors import HandleNotFound
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.content import Data, Part, Text
from holdfast.model.events import Event
from holdfast.model.history.events import MessagesRestored, MessagesWithdrawn
from holdfast.model.history.handles import handle_id, piece_id
from holdfast.model.history.ranges import SeqRanges
from holdfast.model.log import StoredEvent
from holdfast.model.names import Scope, StreamId
from holdfast.model.sessions.events import EvidenceKept, MessageRecorded
from holdfast.model.sessions.messages import Message
from holdfast.model.state import SessionState, SummaryRef


def read_results(stream: StreamId, seq: int, version: int) -> Flow[list[Message]]:
    """The messages with the results of the calls of event `seq`: they come before the next reply of the conversation."""
    messages: list[Message] = []
    frame: str | None = None
    for recorded in (yield from effects.read(stream, seq - 1, 1)):
        frame = message_of(recorded).frame
    after = seq
    while after < version:
        page = yield from effects.read(stream, after, limits.READ_EVENTS)
        for recorded in page:
            if recorded.type != MessageRecorded.name:
                continue
            message = message_of(recorded)
            if message.role == "assistant" and message.frame == frame:
                return messages
            if group_seq(message) == seq:
                messages.append(message)
        if not page:
            break
        after = page[-1].seq
    return messages


_NEAR_EVENTS = 16
"""Messages at most this many events apart are read together."""


def message_of(recorded: StoredEvent) -> Message:
    """A stored event as a message; without role and content if it is not a message, or was erased."""
    return build_message(recorded, upcast.decode_event(recorded))


def build_message(recorded: StoredEvent, event: Event | None) -> Message:
    if isinstance(event, MessageRecorded):
        return Message(
            id=recorded.id,
            seq=recorded.seq,
            role=event.role,
            content=event.content,
            tool_calls=event.tool_calls,
            tool_results=event.tool_results,
            tokens=event.tokens,
            usage=event.usage,
            source=event.source,
            metadata=event.metadata,
            time_us=recorded.time_us,
            principal=recorded.principal,
            closing=event.closing,
            frame=event.frame,
            skipped=event.skipped,
            dropped_calls=event.dropped_calls,
            priority="critical" if event.role == "system" else event.priority,
        )
    if isinstance(event, EvidenceKept):
        return Message(
            id=recorded.id,
            seq=recorded.seq,
            role=event.role,
            content=event.content,
            tool_results=event.tool_results,
            tokens=event.tokens,
            metadata=event.metadata,
            time_us=recorded.time_us,
            principal=recorded.principal,
            late=event.reason,
        )
    return Message(id=recorded.id, seq=recorded.seq, time_us=recorded.time_us, principal=recorded.principal)


def is_in_conversation(message: Message, frame: str | None) -> bool:
    """Whether models see the message in this conversation: not a system message, not erased, not skipped."""
    return message.role not in (None, "system") and not message.skipped and message.frame == frame


class WithdrawnMessages:
    """Which messages of a session are withdrawn, by the events that are read so far, oldest first."""

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[str | None, SeqRanges]] = {}

    def add(self, event: Event | None, seq: int) -> None:
        if isinstance(event, MessagesWithdrawn):
            self._ranges[seq] = (event.frame, SeqRanges(event.ranges))
        elif isinstance(event, MessagesRestored):
            self._ranges.pop(event.withdrawal, None)

    def find(self, seq: int, frame: str | None) -> int:
        """The seq of the event that withdrew a message; 0 if it is not withdrawn."""
        return next((at for at, (home, ranges) in self._ranges.items() if home == frame and seq in ranges), 0)

    def mark(self, message: Message) -> Message:
        at = self.find(message.seq, message.frame)
        return msgspec.structs.replace(message, withdrawn=at) if at else message

    def all_ranges(self) -> tuple[tuple[int, int], ...]:
        """The ranges of all conversations."""
        return SeqRanges(each for _, one in self._ranges.values() for each in one.ranges).ranges

    def ranges_of(self, frame: str | None) -> SeqRanges:
        return SeqRanges(each for home, one in self._ranges.values() if home == frame for each in one.ranges)


def read_withdrawn_messages(stream: StreamId, before: int | None = None) -> Flow[WithdrawnMessages]:
    """The withdrawals in effect, from the log; with `before`, those that were in effect before that seq."""
    events: list[StoredEvent] = []
    types = (MessagesWithdrawn.name, MessagesRestored.name)
    while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, types)):
        events += page
        before = page[-1].seq
    withdrawn = WithdrawnMessages()
    for recorded in reversed(events):
        withdrawn.add(upcast.decode_event(recorded), recorded.seq)
    return withdrawn


def read_messages_in(stream: StreamId, frame: str | None, ranges: Iterable[tuple[int, int]]) -> Flow[list[Message]]:
    """The messages of a conversation in these ranges, oldest first, without erased ones."""
    messages: list[Message] = []
    for first, last in ranges:
        before, found = last + 1, list[Message]()
        while before > first:
            size = min(limits.READ_EVENTS, before - first)
            page = yield from effects.read_back(stream, before, size, (MessageRecorded.name,))
            found += (message_of(recorded) for recorded in page if recorded.seq >= first)
            before = page[-1].seq if len(page) == size else 0
        messages += (each for each in reversed(found) if not each.erased and each.frame == frame)
    return messages


def load_hidden_ranges(stream: StreamId, state: SessionState, frame: str | None) -> Flow[SeqRanges]:
    """Where the withdrawn messages of a conversation are, also of one that has ended."""
    if frame is None or frame in state.frames or not state.withdrawn:
        return state.hidden_ranges(frame)
    return (yield from read_withdrawn_messages(stream)).ranges_of(frame)


def read_message_piece(
    scope: Scope, seq: int, number: int, *, late: bool = True
) -> Flow[tuple[Message, tuple[Part, ...], str | None]]:
    """A piece of a message as recorded: the message, the content, and the call if it is a result. `late` includes evidence,
    which is in no view."""
    for recorded in (yield from effects.read(scope.stream, seq - 1, 1)):
        message = message_of(recorded)
        if recorded.seq == seq and not message.erased and (late or not message.late):
            for at, parts, call in pieces_of(message):
                if at == number:
                    return message, parts, call
    raise HandleNotFound(session=scope.session, handle=piece_id(seq, number))


def read_message_parts(scope: Scope, seq: int) -> Flow[tuple[Part, ...]]:
    """All parts of a message as recorded: its results, its content, and its calls, each by name and arguments."""
    for recorded in (yield from effects.read(scope.stream, seq - 1, 1)):
        message = message_of(recorded)
        if recorded.seq == seq and not message.erased:
            pieces = [part for _, parts, _ in pieces_of(message) for part in parts]
            calls = (part for call in message.tool_calls for part in (Text(f"Call of {call.name}:"), Data(call.args)))
            return (*pieces, *calls)
    raise HandleNotFound(session=scope.session, handle=handle_id(seq))


def read_stretch(
    stream: StreamId, state: SessionState, frame: str | None, first: int, last: int
) -> Flow[list[Message | SummaryRef] | None]:
    """The messages and summaries in view of one conversation between two seqs, without system and erased messages; None if
    the range has more than SUMMARY_EVENTS events."""
    items: list[Message | SummaryRef] = []
    at, left = first, limits.SUMMARY_EVENTS
    summaries, hidden = state.summaries_of(frame), state.hidden_ranges(frame)
    while at <= last:
        summary = find_surrounding_summary(summaries, at)
        if summary is not None:
            items.append(summary)
            items += yield from read_kept_messages(stream, summary)
            at = summary.last + 1
            continue
        end = min([last, *(each.first - 1 for each in summaries if each.first > at)])
        left -= end - at + 1
        if left < 0:
            return None
        for recorded in (yield from effects.read(stream, at - 1, end - at + 1)):
            message = message_of(recorded)
            if recorded.type != MessageRecorded.name or message.seq in hidden:
                continue
            if is_in_conversation(message, frame):
                items.append(message)
        at = end + 1
    return items


def read_kept_messages(stream: StreamId, summary: SummaryRef) -> Flow[list[Message]]:
    """The messages in the range of a summary that stay in view, in order, without erased ones."""
    messages: list[Message] = []
    wanted = frozenset(summary.kept)
    at = 0
    while at < len(summary.kept):
        first, end = summary.kept[at], at
        while end + 1 < len(summary.kept) and summary.kept[end + 1] - summary.kept[end] <= _NEAR_EVENTS:
            if summary.kept[end + 1] - first >= limits.READ_EVENTS:
                break
            end += 1
        page = yield from effects.read(stream, first - 1, summary.kept[end] - first + 1)
        messages += (each for each in map(message_of, page) if each.seq in wanted and not each.erased)
        at = end + 1
    return messages
