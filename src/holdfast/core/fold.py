"""From one state to the next, event by event.

Law: `fold` accepts every event that was ever decided, also one whose payload was erased: then only its header speaks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core import boundaries, calibrate, layers, proposals, situation, stack
from holdfast.core.messages import heard
from holdfast.model import limits
from holdfast.model.events import (
    BARE,
    OFFLOADING,
    CallStarted,
    Event,
    EvidenceKept,
    FactsProposed,
    FramePopped,
    HandleMoved,
    HandleReplaced,
    MessageRecorded,
    PayloadsErased,
    ProposalDecided,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionReset,
    SessionTimedOut,
)
from holdfast.model.frames import FrameState, Spoken
from holdfast.model.situation import Standing
from holdfast.model.state import Calibration, OpenCall, SessionState, SummaryRef, ViewState
from holdfast.model.view_events import ContextCompacted, ContextRedacted, PackRecorded, SummaryRecorded

_PARTS = {
    **dict.fromkeys(layers.OF_LAYERS, layers.folded),
    **dict.fromkeys(situation.OF_SITUATIONS, situation.folded),
}
"""What folds the events of a part of the state, by their names."""


def fold(state: SessionState, event: Event | None, event_type: str, time_us: int) -> SessionState:
    """The state after one more event; `event` is None when its payload was erased."""
    return step(state, event, event_type, time_us)[0]


def step(
    state: SessionState, event: Event | None, event_type: str, time_us: int
) -> tuple[SessionState, dict[str, FrameState]]:
    """The state after one more event, and the frames that it changed, those that it ended among them."""
    seq = state.version + 1
    changes: dict[str, Any] = {"version": seq, "updated_us": time_us, "active_us": max(state.active_us, time_us)}
    # by the header alone: a log with erased payloads folds to the same state
    changes["popped"] = seq if event_type == FramePopped.name else state.popped
    if event is not None and event_type not in BARE:
        changes["residue"] = state.residue + 1
    if event_type == MessageRecorded.name:
        _message(changes, state, event, seq)
    elif event_type == SessionCreated.name:
        _created(changes, event, time_us)
    elif event_type == EvidenceKept.name:
        changes |= {"late": state.late + 1, "waiting": state.waiting + 1}
    elif event_type == SummaryRecorded.name:
        _summary(changes, state, event, seq, time_us)
    elif event_type in OFFLOADING:
        _end(changes, state, event, event_type, seq)
    elif event_type in _PARTS:
        changes |= _PARTS[event_type](state, event, event_type, time_us)
    elif isinstance(
        event,
        CallStarted
        | FactsProposed
        | ProposalDecided
        | ContextCompacted
        | ContextRedacted
        | HandleMoved
        | HandleReplaced
        | PackRecorded,
    ):
        _beside(changes, state, event, seq, time_us)
    elif event_type == PayloadsErased.name:
        _erasure(changes, state, event, seq, time_us)
    touched = stack.changes(state.frames, event, event_type, seq, time_us)
    if touched:
        changes["frames"], resting, more = stack.applied(state.frames, touched)
        changes |= {"resting": state.resting + resting, "bulk": changes.get("bulk", state.bulk) + more}
        ended = [name for name, frame in touched.items() if not frame.live]
        if ended:
            touched |= {name: _with_left_out(state, touched[name]) for name in ended if name in state.views}
            _forget(changes, state, ended)
    return msgspec.structs.replace(state, **changes), touched


def _with_left_out(state: SessionState, frame: FrameState) -> FrameState:
    """A frame that ends, with its collapsed handles: its view is forgotten."""
    return msgspec.structs.replace(frame, left_out=state.view(frame.id).left_out)


def _created(changes: dict[str, Any], event: Event | None, time_us: int) -> None:
    changes |= {"status": "open", "created_us": time_us} | layers.begun(event)
    if isinstance(event, SessionCreated):
        changes |= {"metadata": event.metadata, "idle_timeout_us": event.idle_timeout_us}


def _message(changes: dict[str, Any], state: SessionState, event: Event | None, seq: int) -> None:
    changes |= {"messages": state.messages + 1, "waiting": state.waiting + 1}
    if not isinstance(event, MessageRecorded):
        return
    changes["tokens"] = min(state.tokens + event.tokens, limits.WHOLE_NUMBER)
    if event.frame is None:
        changes["live_tokens"] = min(state.live_tokens + event.tokens, limits.WHOLE_NUMBER)
    if event.role == "system":
        changes["pinned"] = (*state.pinned, seq)
    elif event.frame is None and not event.skipped:
        changes |= {"live": state.live + 1, "spoken": heard(state.spoken, seq)}
    if event.role == "user":
        changes["turns"] = state.turns + 1
    elif event.role == "assistant" and not event.skipped:
        changes |= situation.replied(state, event)
    if event.frame is None and not event.skipped:
        changes |= {"asks": stack.asks(state.asks, event), "errors": stack.failures(state.errors, event)}
    if event.usage is not None:
        changes["usage"] = state.usage + event.usage
        if event.frame is None and event.role == "assistant":  # a frame's prompts are not the session's
            changes["calibration"] = calibrate.hear(state.calibration, event.usage, event.source, seq)
    if event.tool_calls:
        opened = (OpenCall(call.id, call.name, call.provider_id, event.frame) for call in event.tool_calls)
        changes["open_calls"] = (*state.open_calls, *opened)
    elif event.tool_results:
        answered = {result.tool_call_id for result in event.tool_results}
        changes["open_calls"] = tuple(call for call in state.open_calls if call.id not in answered)


def _beside(
    changes: dict[str, Any],
    state: SessionState,
    event: CallStarted
    | FactsProposed
    | ProposalDecided
    | ContextCompacted
    | ContextRedacted
    | HandleMoved
    | HandleReplaced
    | PackRecorded,
    seq: int,
    time_us: int,
) -> None:
    if isinstance(event, ContextCompacted | ContextRedacted | HandleMoved):
        changes |= boundaries.folded(state, event, seq, time_us)
        if event.frame is None:  # what is learned is learned from the session's own prompts
            changes["calibration"] = _incomparable(state)
    elif isinstance(event, HandleReplaced):
        changes |= boundaries.after_replacement(state, event)
    elif isinstance(event, PackRecorded):
        if event.frame is None:
            changes["context_hash"] = event.context_hash
            known = calibrate.learn(state.calibration, event.reply, event.counter, event.counted, event.messages)
            changes["calibration"] = known
    elif isinstance(event, CallStarted):
        changes["open_calls"] = tuple(_started(call, event) for call in state.open_calls)
    else:
        changes["proposals"] = proposals.folded(state, event, seq)


def _started(call: OpenCall, event: CallStarted) -> OpenCall:
    if call.id != event.call:
        return call
    return msgspec.structs.replace(call, key=event.key, attempts=event.attempt)


def _erasure(changes: dict[str, Any], state: SessionState, event: Event | None, seq: int, time_us: int) -> None:
    """Who erases a message erases the summaries that tell of it."""
    changes["changed"] = seq
    if isinstance(event, PayloadsErased):
        gone = {*event.seqs}
        changes["summaries"] = tuple(each for each in state.summaries if each.seq not in gone)
        changes["views"] = boundaries.after_erasure(state, gone, seq, time_us)


def _forget(changes: dict[str, Any], state: SessionState, ended: list[str]) -> None:
    """How the conversations of these frames were shown."""
    views: dict[str, ViewState] = changes.get("views", state.views)
    summaries: tuple[SummaryRef, ...] = changes.get("summaries", state.summaries)
    if any(name in views for name in ended):
        changes["views"] = {name: view for name, view in views.items() if name not in ended}
    if any(each.frame in ended for each in summaries):
        changes["summaries"] = tuple(each for each in summaries if each.frame not in ended)
    standings: dict[str, Standing] = changes.get("standings", state.standings)
    if any(name in standings for name in ended):
        changes["standings"], less = situation.without(standings, ended)
        changes["bulk"] = changes.get("bulk", state.bulk) - less


def _summary(changes: dict[str, Any], state: SessionState, event: Event | None, seq: int, time_us: int) -> None:
    changes |= {"changed": seq, "calibration": _incomparable(state)}
    if isinstance(event, SummaryRecorded) and (event.frame is None or event.frame in state.frames):
        kept = [
            each for each in state.summaries if each.frame != event.frame or not event.first <= each.first <= event.last
        ]
        new = SummaryRef(
            seq, event.first, event.last, event.messages, event.tokens, event.frame, event.replaced, event.kept
        )
        changes["summaries"] = tuple(sorted((*kept, new), key=lambda each: (each.first, each.seq)))
        changes["views"] = boundaries.after_summary(state, event, seq, time_us)


def _end(changes: dict[str, Any], state: SessionState, event: Event | None, event_type: str, seq: int) -> None:
    changes |= {"waiting": 0, "offered": seq, "open_calls": (), "asks": False, "errors": (), "proposals": ()}
    changes |= layers.ended(state, closing=event_type != SessionReset.name)
    if state.standings:
        changes |= {"standings": {}, "bulk": changes.get("bulk", state.bulk) - situation.weight_of(state)}
    if event_type == SessionReset.name:
        keeps = isinstance(event, SessionReset) and event.keep_system
        changes |= {"start": seq, "changed": seq, "live": 0, "live_tokens": 0, "spoken": Spoken()}
        changes |= {"summaries": (), "views": {}}
        changes |= {"calibration": _incomparable(state), "pinned": state.pinned if keeps else ()}
        return
    changes["status"] = "destroyed" if event_type == SessionDestroyed.name else "closed"
    match event:
        case SessionClosed(reason=reason) | SessionDestroyed(reason=reason):
            changes["close_reason"] = reason
        case SessionTimedOut(idle_us=idle_us):
            changes["close_reason"] = f"idle for {idle_us // 1_000_000} s"
        case _:
            changes["close_reason"] = "erased"


def _incomparable(state: SessionState) -> Calibration:
    """What was learned stays; the next prompt is another one than the last."""
    return msgspec.structs.replace(state.calibration, prompt=0, estimate=0, messages=0)


def offers(before: SessionState, event: Event | None, event_type: str) -> tuple[int, int] | None:
    """The stretch of history that this event puts into the outbox; None for none."""
    if event_type not in OFFLOADING or not before.waiting:
        return None
    if event_type == SessionDestroyed.name and not (isinstance(event, SessionDestroyed) and event.offload):
        return None
    return before.offered + 1, before.version
