"""The activity of a session: turns, model calls, tools, frames, suspensions and boundaries as spans, from its events.

Laws: the same events and the same state give the same spans. A span without an end is open, and an ended one is not. A
span lies within the one around it. An open tool call has the status that `recover` gives it. Nothing that was erased is
shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from holdfast.core.history.boundary_figures import describe_boundary
from holdfast.core.sessions.turns import find_lease, find_running_lease
from holdfast.model.content import ToolCall, ToolResult, text_of
from holdfast.model.event import count_noun
from holdfast.model.events import Event
from holdfast.model.frames.events import (
    ActorResumed,
    FramePopped,
    FramePushed,
    FrameResumed,
    FrameSuspended,
    TokenReissued,
    TokenRevoked,
)
from holdfast.model.frames.frames import Budget, FrameState, FrameStatus, frame_id
from holdfast.model.packs.events import PackRecorded
from holdfast.model.packs.pack import pack_id
from holdfast.model.sessions.activity import Activity, ActivityBudget, ActivityKind, ActivityStatus
from holdfast.model.sessions.events import (
    CallStarted,
    EvidenceKept,
    MessageRecorded,
    SessionClosed,
    SessionReset,
    SessionTimedOut,
    TurnEnded,
    TurnTaken,
)
from holdfast.model.state import SessionState

LABEL_CHARS = 120
_FRAME_STATUSES: dict[FrameStatus, ActivityStatus] = {
    "active": "running",
    "waiting": "waiting",
    "suspended": "suspended",
    "completed": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}


class EventHeader(msgspec.Struct, frozen=True):
    """Where and when an event was stored, and by which command."""

    seq: int
    time_us: int
    command: str = ""
    started_us: int = 0
    """Of the record of a pack: when the pack was built; 0 if unknown."""
    model: str = ""
    """And for which model; empty if unknown."""


class _Span:
    """A span while its events are folded."""

    def __init__(self, name: str, kind: ActivityKind, header: EventHeader, frame: str | None, parent: str) -> None:
        self.id, self.kind, self.frame, self.parent = name, kind, frame, parent
        self.seq, self.start_us = header.seq, header.time_us
        self.end_us: int | None = None
        self.end_seq = 0
        self.status: ActivityStatus = "running"
        self.label = self.key = self.owner = self.note = ""
        self.tokens = 0
        self.budget: ActivityBudget | None = None
        self.resumable_by: tuple[str, ...] = ()
        self.expires_us: int | None = None
        self.command = ""

    @property
    def is_open(self) -> bool:
        return self.end_us is None

    def end(self, header: EventHeader, status: ActivityStatus) -> None:
        self.end_us, self.end_seq, self.status = header.time_us, header.seq, status

    def finish(self) -> Activity:
        return Activity(
            id=self.id,
            kind=self.kind,
            parent=self.parent,
            label=self.label,
            start_us=self.start_us,
            end_us=self.end_us,
            seq=self.seq,
            end_seq=self.end_seq,
            frame=self.frame,
            status=self.status,
            key=self.key,
            owner=self.owner,
            tokens=self.tokens,
            budget=self.budget,
            resumable_by=self.resumable_by,
            expires_us=self.expires_us,
            note=self.note,
        )


class ActivityFold:
    """Spans from events in the order of the log. It may begin in the middle: what began before is then unknown."""

    def __init__(self, calls: Mapping[str, ToolCall] | None = None) -> None:
        """`calls` are tool calls of messages that are not among the events."""
        self._calls = calls or {}
        self._spans: list[_Span] = []
        self._turns: dict[str | None, _Span] = {}
        """The open turn of each conversation."""
        self._replied: set[str] = set()
        """The open turns with a reply."""
        self._models: dict[str | None, _Span] = {}
        """The newest model call of each conversation, until another message comes."""
        self._tools: dict[str, _Span] = {}
        self._frames: dict[str, _Span] = {}
        self._suspensions: dict[str, _Span] = {}
        self._owners: dict[str | None, str] = {}
        self._times: dict[str | None, int] = {}
        """The time of the last event of each conversation."""

    @property
    def open_spans(self) -> Iterable[tuple[str, ActivityKind, int, str | None]]:
        """The id, kind, seq and frame of each span without an end so far."""
        return ((each.id, each.kind, each.seq, each.frame) for each in self._spans if each.is_open)

    @property
    def frames(self) -> list[str]:
        return list(self._frames)

    def add(self, header: EventHeader, event: Event | None) -> None:
        match event:
            case MessageRecorded():
                self._add_message(header, event)
            case PackRecorded():
                self._add_pack(header, event)
            case CallStarted():
                self._start_call(header, event)
            case EvidenceKept():
                self._add_evidence(event)
            case FramePushed() | FramePopped() | FrameSuspended() | FrameResumed() | TokenReissued() | TokenRevoked():
                self._add_frame_event(header, event)
            case TurnTaken() | TurnEnded():
                self._add_lease(event)
            case ActorResumed():
                self._add_recovery(header, event)
            case _:
                self._add_boundary(header, event)

    def _begin(
        self, name: str, kind: ActivityKind, header: EventHeader, frame: str | None, parent: str | None = None
    ) -> _Span:
        span = _Span(name, kind, header, frame, self._find_parent(frame) if parent is None else parent)
        self._spans.append(span)
        return span

    def _find_parent(self, frame: str | None) -> str:
        """The turn of a conversation, else its frame."""
        turn = self._turns.get(frame)
        return turn.id if turn is not None else frame or ""

    # Messages

    def _add_message(self, header: EventHeader, event: MessageRecorded) -> None:
        frame = event.frame
        match event.role:
            case "user":
                self._add_question(header, event)
            case "assistant":
                self._add_reply(header, event)
            case "tool":
                for result in event.tool_results:
                    self._end_call(header, event, result)
        if event.role != "assistant":
            self._models.pop(frame, None)
        self._times[frame] = header.time_us

    def _add_question(self, header: EventHeader, event: MessageRecorded) -> None:
        turn = self._turns.get(event.frame)
        if turn is not None and turn.id not in self._replied:
            return  # the user adds to what was said
        if turn is not None:
            turn.note = "another message of the user came before its last reply"
            self._end_turn(event.frame, header, "cancelled")
        turn = self._begin(f"t{header.seq}", "turn", header, event.frame, event.frame or "")
        turn.label, turn.owner = _shorten(text_of(event.content)), self._owners.get(event.frame, "")
        self._turns[event.frame] = turn

    def _add_reply(self, header: EventHeader, event: MessageRecorded) -> None:
        frame, usage = event.frame, event.usage
        turn, span = self._turns.get(frame), self._models.get(frame)
        if span is None or span.command != header.command or not header.command:
            span = self._begin("", "model", header, frame)
            span.start_us = min(self._times.get(frame, header.time_us), header.time_us)
            span.command = header.command
        self._models[frame] = span
        span.id, span.seq = f"m{header.seq}", header.seq
        span.end(header, "failed" if event.skipped else "done")
        span.note = f"not shown to models: {event.skipped}" if event.skipped else ""
        if event.source is not None and event.source.model:
            span.label = event.source.model
        tokens = 0 if usage is None else usage.input_tokens + usage.output_tokens
        span.tokens += tokens
        if turn is not None:
            turn.tokens += tokens
            self._replied.add(turn.id)
        for call in event.tool_calls:
            tool = self._tools[call.id] = self._begin(call.id, "tool", header, frame)
            tool.label, tool.status = call.name, "not_started"
        if not event.tool_calls and not event.skipped:
            self._end_turn(frame, header, "done")

    def _add_evidence(self, event: EvidenceKept) -> None:
        for result in event.tool_results:
            if result.tool_call_id in self._tools:
                self._tools[result.tool_call_id].note = "its result came after it was closed"

    def _add_lease(self, event: TurnTaken | TurnEnded) -> None:
        if isinstance(event, TurnEnded):
            self._owners.pop(event.frame, None)
            return
        self._owners[event.frame] = event.owner
        if event.frame in self._turns:
            self._turns[event.frame].owner = event.owner

    def _end_turn(self, frame: str | None, header: EventHeader, status: ActivityStatus) -> None:
        turn = self._turns.pop(frame, None)
        if turn is not None:
            turn.end(header, status)

    def _add_pack(self, header: EventHeader, event: PackRecorded) -> None:
        span = self._models.get(event.frame)
        if span is None or not event.reply or span.end_seq != event.reply:
            if event.reply:
                return  # its reply was erased
            span = self._begin("", "model", header, event.frame)
            span.end(header, "done")
            span.note = "stored without a reply"
        span.id, span.seq, span.end_seq = pack_id(header.seq), header.seq, header.seq
        span.label = span.label or header.model
        if header.started_us:
            span.start_us = min(header.started_us, header.time_us)

    # Tools

    def _start_call(self, header: EventHeader, event: CallStarted) -> None:
        span = self._tools.get(event.call)
        if span is None:
            span = self._tools[event.call] = self._begin(event.call, "tool", header, event.frame)
            call = self._calls.get(event.call)
            span.label = event.call if call is None else call.name
        if not span.key:
            span.seq, span.start_us = header.seq, header.time_us
        span.key, span.status = event.key, "unknown"
        if event.attempt > 1:
            span.note = f"attempt {event.attempt:,}"

    def _end_call(self, header: EventHeader, event: MessageRecorded, result: ToolResult) -> None:
        span = self._tools.get(result.tool_call_id)
        if span is None or not span.is_open:
            return
        if event.closing:
            span.end(header, "unknown" if span.key else "cancelled")
            span.note = "closed without a result" + (": it may have taken effect" if span.key else "")
            return
        span.end(header, "failed" if result.is_error else "done")
        span.tokens = event.tokens // len(event.tool_results)

    # Frames

    def _add_frame_event(
        self,
        header: EventHeader,
        event: FramePushed | FramePopped | FrameSuspended | FrameResumed | TokenReissued | TokenRevoked,
    ) -> None:
        match event:
            case FramePushed():
                name = frame_id(header.seq)
                parent = event.parent or self._find_parent(None)
                span = self._frames[name] = self._begin(name, "frame", header, name, parent)
                span.label, span.budget = _shorten(event.goal), _describe_budget(Budget(event.budget))
            case FramePopped():
                status = _FRAME_STATUSES[event.status]
                for name in (event.frame, *event.cascade):
                    self._end_frame(name, header, status if name == event.frame else "cancelled")
            case FrameSuspended():
                span = self._begin(f"s{header.seq}", "suspension", header, event.frame, event.frame)
                span.label, span.status = _shorten(event.reason), "suspended"
                span.resumable_by, span.expires_us = event.resumable_by, event.expires_us
                self._suspensions[event.frame] = span
            case FrameResumed():
                self._end_suspension(event.frame, header, "done", f"resumed by {event.by}")
            case TokenReissued() if event.frame in self._suspensions:
                self._suspensions[event.frame].expires_us = event.expires_us
                self._suspensions[event.frame].note = "has a new token"
            case TokenRevoked() if event.frame in self._suspensions:
                self._suspensions[event.frame].note = "its token was revoked"
            case _:
                pass

    def _end_frame(self, name: str, header: EventHeader, status: ActivityStatus) -> None:
        self._end_suspension(name, header, "cancelled", "its frame ended")
        self._end_turn(name, header, "done" if status == "done" else "cancelled")
        span = self._frames.get(name)
        if span is not None:
            span.end(header, status)

    def _end_suspension(self, frame: str, header: EventHeader, status: ActivityStatus, note: str) -> None:
        span = self._suspensions.pop(frame, None)
        if span is not None:
            span.end(header, status)
            span.note = note

    # Points in time

    def _add_recovery(self, header: EventHeader, event: ActorResumed) -> None:
        span = self._begin(f"a{header.seq}", "recovery", header, None, "")
        span.end(header, "done")
        pending = [f"{number:,} {kind}" for kind, number in event.pending.items()]
        span.label, span.note = "recovered", ", ".join([count_noun(len(event.frames), "frame"), *pending])

    def _add_boundary(self, header: EventHeader, event: Event | None) -> None:
        if isinstance(event, SessionReset | SessionClosed | SessionTimedOut):
            for conversation in list(self._turns):
                self._end_turn(conversation, header, "cancelled")
        boundary = describe_boundary(header.seq, event)
        if boundary is None:
            return
        frame: str | None = getattr(event, "frame", None)
        span = self._begin(f"b{header.seq}", "boundary", header, frame)
        span.end(header, "done")
        span.label, span.note = boundary.kind, _shorten(boundary.why)
        self._times[frame] = header.time_us

    # The end

    def finish(self, state: SessionState, frames: Mapping[str, FrameState], now_us: int) -> list[Activity]:
        """The spans, newest first. `state` is that of the session now, and `frames` are its frames in this fold."""
        for name, span in self._frames.items():
            if name in frames:
                _finish_frame(span, frames[name])
        self._finish_calls(state, now_us)
        for span in self._suspensions.values():
            if span.expires_us is not None and span.expires_us <= now_us:
                span.note = "its token has expired"
        by_id = {span.id: span for span in self._spans}
        for span in self._spans:
            _fit_into_parent(span, by_id.get(span.parent))
        for frame, turn in self._turns.items():
            self._finish_turn(turn, find_lease(state, frame).is_held(now_us))
        return [span.finish() for span in sorted(self._spans, key=lambda each: -each.seq)]

    def _finish_calls(self, state: SessionState, now_us: int) -> None:
        open_calls = {call.id: call for call in state.open_calls}
        for name, span in self._tools.items():
            call = open_calls.get(name)
            if not span.is_open or call is None:
                continue
            running = find_running_lease(state, call, now_us)
            span.status = "running" if running is not None else "unknown" if call.attempts else "not_started"
            span.owner = "" if running is None else running.owner

    def _finish_turn(self, turn: _Span, is_held: bool) -> None:
        statuses = {span.status for span in self._spans if span.parent == turn.id and span.is_open}
        order: tuple[ActivityStatus, ...] = ("unknown", "running", "suspended", "not_started")
        turn.status = next((each for each in order if each in statuses), "running" if is_held else "waiting")


def _finish_frame(span: _Span, frame: FrameState) -> None:
    span.status, span.label = _FRAME_STATUSES[frame.status], _shorten(frame.goal)
    span.budget, span.tokens = _describe_budget(frame.budget), frame.budget.used
    if frame.completed_us is None:
        span.end_us, span.end_seq = None, 0
    elif span.is_open:
        span.end_us = frame.completed_us


def _describe_budget(budget: Budget) -> ActivityBudget:
    return ActivityBudget(
        total=budget.total,
        used=budget.used,
        reserved=budget.reserved,
        delegated=budget.delegated,
        overdrawn=budget.is_overdrawn,
    )


def _fit_into_parent(span: _Span, parent: _Span | None) -> None:
    """Keep a span within the one around it: clocks may be set back, and what outlives a turn is no part of it."""
    if span.end_us is not None:
        span.end_us = max(span.end_us, span.start_us)
    if parent is None:
        return
    outlives = parent.end_us is not None and (span.end_us is None or span.end_us > parent.end_us)
    if outlives or span.start_us < parent.start_us:
        if span.kind == "model" and not outlives and span.end_us is not None and span.end_us >= parent.start_us:
            span.start_us = parent.start_us  # its pack was built for an earlier time
        else:
            span.parent = ""


def _shorten(text: str) -> str:
    words = " ".join(text[: LABEL_CHARS * 4].split())
    return words if len(words) <= LABEL_CHARS else f"{words[: LABEL_CHARS - 1]}…"
