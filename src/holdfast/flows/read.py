"""From stored events to messages."""

from __future__ import annotations

from holdfast.core import upcast
from holdfast.core.shown import pieces_of
from holdfast.core.summaries import around
from holdfast.errors import HandleNotFound
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.content import Part
from holdfast.model.events import Event, EvidenceKept, MessageRecorded
from holdfast.model.handles import piece_id
from holdfast.model.log import Recorded
from holdfast.model.messages import Message
from holdfast.model.names import Scope, StreamId
from holdfast.model.state import SessionState, SummaryRef

_NEAR = 16
"""Messages that are no more events apart are read together."""


def message(recorded: Recorded) -> Message:
    """A stored event as a message; without role and content if it is none, or was erased."""
    return as_message(recorded, upcast.current(recorded))


def as_message(recorded: Recorded, event: Event | None) -> Message:
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


def is_said(message: Message, frame: str | None) -> bool:
    """Whether models are shown a message as part of this conversation: no system message, nothing erased or skipped."""
    return message.role not in (None, "system") and not message.skipped and message.frame == frame


def piece_at(
    scope: Scope, seq: int, number: int, *, late: bool = True
) -> Flow[tuple[Message, tuple[Part, ...], str | None]]:
    """A piece of a message, as it was recorded: the message, its content, and the call that it is the result of, if any.
    `late` ones are evidence, which is in no view."""
    for recorded in (yield from effects.read(scope.stream, seq - 1, 1)):
        said = message(recorded)
        if recorded.seq == seq and not said.erased and (late or not said.late):
            for at, parts, call in pieces_of(said):
                if at == number:
                    return said, parts, call
    raise HandleNotFound(session=scope.session, handle=piece_id(seq, number))


def stretch_of(
    stream: StreamId, state: SessionState, frame: str | None, first: int, last: int
) -> Flow[list[Message | SummaryRef] | None]:
    """What a view of one conversation shows from one seq to another, system messages and what was erased left out; None if
    that is more than SUMMARY_EVENTS events."""
    found: list[Message | SummaryRef] = []
    at, left = first, limits.SUMMARY_EVENTS
    summaries = state.summaries_of(frame)
    while at <= last:
        summary = around(summaries, at)
        if summary is not None:
            found.append(summary)
            found += yield from kept_by(stream, summary)
            at = summary.last + 1
            continue
        end = min([last, *(each.first - 1 for each in summaries if each.first > at)])
        left -= end - at + 1
        if left < 0:
            return None
        for recorded in (yield from effects.read(stream, at - 1, end - at + 1)):
            each = message(recorded)
            if recorded.type == MessageRecorded.name and is_said(each, frame):
                found.append(each)
        at = end + 1
    return found


def kept_by(stream: StreamId, summary: SummaryRef) -> Flow[list[Message]]:
    """The messages between the ends of a summary that stay in view, in order, but for what was erased."""
    found: list[Message] = []
    wanted = frozenset(summary.kept)
    at = 0
    while at < len(summary.kept):
        first, end = summary.kept[at], at
        while end + 1 < len(summary.kept) and summary.kept[end + 1] - summary.kept[end] <= _NEAR:
            if summary.kept[end + 1] - first >= limits.READ_EVENTS:
                break
            end += 1
        page = yield from effects.read(stream, first - 1, summary.kept[end] - first + 1)
        found += (each for each in map(message, page) if each.seq in wanted and not each.erased)
        at = end + 1
    return found
