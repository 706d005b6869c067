"""The fold: the state of a session after each event.

Law: the fold accepts every stored event, also one whose payload was erased: then only its header counts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.facts import proposals
from holdfast.core.frames import fold as frames_fold
from holdfast.core.history import boundaries, withdrawals
from holdfast.core.packs import calibration
from holdfast.core.sessions import forks, layers, turns
from holdfast.core.sessions.messages import extend_positions, fold_open_calls
from holdfast.core.situation import fold as situation_fold
from holdfast.model import limits
from holdfast.model.events import OFFLOAD_EVENTS, RETAINED_EVENTS, Event
from holdfast.model.facts.events import FactsProposed, ProposalDecided
from holdfast.model.frames.events import FramePopped
from holdfast.model.frames.frames import FrameState, MessagePositions
from holdfast.model.history.events import (
    ContextCompacted,
    ContextRedacted,
    HandleMoved,
    HandleReplaced,
    SummaryRecorded,
)
from holdfast.model.packs.events import PackRecorded
from holdfast.model.sessions.events import (
    CallStarted,
    EvidenceKept,
    MessageRecorded,
    ModelUsed,
    PayloadsErased,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionForked,
    SessionReset,
    SessionTimedOut,
)
from holdfast.model.situation.situations import SituationState
from holdfast.model.state import Calibration, OpenCall, SessionState, SummaryRef, ViewState, WithdrawalRef


def _fold_model_use(state: SessionState, event: Event | None, event_type: str, time_us: int) -> dict[str, Any]:  # noqa: ARG001
    return {"usage": state.usage + event.usage} if isinstance(event, ModelUsed) else {}


_ROOM_FOLDS = {
    **dict.fromkeys(layers.LAYER_EVENTS, layers.fold_event),
    **dict.fromkeys(withdrawals.WITHDRAWAL_EVENTS, withdrawals.fold_event),
    **dict.fromkeys(situation_fold.SITUATION_EVENTS, situation_fold.fold_situation),
    **dict.fromkeys(turns.TURN_EVENTS, turns.fold_event),
    SessionForked.name: forks.fold_fork,
    ModelUsed.name: _fold_model_use,
}
"""The fold functions for events of one part of the state, by event name."""


def fold_session(state: SessionState, event: Event | None, event_type: str, time_us: int) -> SessionState:
    """The state after one more event; `event` is None when its payload was erased."""
    return fold_session_with_frames(state, event, event_type, time_us)[0]


def fold_session_with_frames(
    state: SessionState, event: Event | None, event_type: str, time_us: int
) -> tuple[SessionState, dict[str, FrameState]]:
    """The state after one more event, and the frames that it changed, including those that it ended."""
    seq = state.version + 1
    changes: dict[str, Any] = {"version": seq, "updated_us": time_us, "active_us": max(state.active_us, time_us)}
    # by the header alone: a log with erased payloads folds to the same state
    changes["popped"] = seq if event_type == FramePopped.name else state.popped
    if event is not None and event_type not in RETAINED_EVENTS:
        changes["residue"] = state.residue + 1
    if event_type == MessageRecorded.name:
        _fold_message(changes, state, event, seq)
    elif event_type == SessionCreated.name:
        _fold_creation(changes, event, time_us)
    elif event_type == EvidenceKept.name:
        changes |= {"late": state.late + 1, "waiting": state.waiting + 1}
    elif event_type == SummaryRecorded.name:
        _fold_summary(changes, state, event, seq, time_us)
    elif event_type in OFFLOAD_EVENTS:
        _fold_end(changes, state, event, event_type, seq)
    elif event_type in _ROOM_FOLDS:
        changes |= _ROOM_FOLDS[event_type](state, event, event_type, time_us)
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
        _fold_other(changes, state, event, seq, time_us)
    elif event_type == PayloadsErased.name:
        _fold_erasure(changes, state, event, seq, time_us)
    touched = frames_fold.fold_frames(state.frames, event, event_type, seq, time_us)
    if touched:
        changes["frames"], resting, more = frames_fold.apply_changes(state.frames, touched)
        changes |= {"resting": state.resting + resting, "bulk": changes.get("bulk", state.bulk) + more}
        ended = [name for name, frame in touched.items() if not frame.is_live]
        if ended:
            touched |= {name: _keep_collapsed_handles(state, touched[name]) for name in ended if name in state.views}
            _drop_conversations(changes, state, ended)
    return msgspec.structs.replace(state, **changes), touched


def _keep_collapsed_handles(state: SessionState, frame: FrameState) -> FrameState:
    """A frame that ends, with its collapsed handles: its view is dropped."""
    return msgspec.structs.replace(frame, left_out=state.view(frame.id).left_out)


def _fold_creation(changes: dict[str, Any], event: Event | None, time_us: int) -> None:
    changes |= {"status": "open", "created_us": time_us} | layers.fold_creation(event)
    if isinstance(event, SessionCreated):
        changes |= {
            "metadata": event.metadata,
            "idle_timeout_us": event.idle_timeout_us,
            "has_memory": event.memory,
        }


def _fold_message(changes: dict[str, Any], state: SessionState, event: Event | None, seq: int) -> None:
    changes["messages"] = state.messages + 1
    changes["waiting"] = state.waiting + 1
    if not isinstance(event, MessageRecorded):
        return
    changes["tokens"] = min(state.tokens + event.tokens, limits.WHOLE_NUMBER)
    if event.frame is None:
        changes["live_tokens"] = min(state.live_tokens + event.tokens, limits.WHOLE_NUMBER)
    if event.role == "system":
        changes["pinned"] = (*state.pinned, seq)
    elif event.frame is None and not event.skipped:
        changes["live"] = state.live + 1
        changes["spoken"] = extend_positions(state.spoken, seq)
    if event.role == "user":
        changes["turns"] = state.turns + 1
    elif event.role == "assistant" and not event.skipped:
        changes |= situation_fold.fold_reply(state, event)
    if event.frame is None and not event.skipped:
        changes["asks"] = frames_fold.is_question_open(state.asks, event)
        changes["errors"] = frames_fold.add_failures(state.errors, event)
    if event.usage is not None:
        changes["usage"] = state.usage + event.usage
        if event.frame is None and event.role == "assistant":  # a frame's prompts are not the session's
            changes["calibration"] = calibration.note_usage_report(state.calibration, event.usage, event.source, seq)
    if event.tool_calls or event.tool_results:
        changes["open_calls"] = fold_open_calls(state.open_calls, event)


def _fold_other(
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
        changes |= boundaries.fold_boundary(state, event, seq, time_us)
        if event.frame is None:  # the calibration learns from prompts of the session only
            changes["calibration"] = _reset_comparison(state)
    elif isinstance(event, HandleReplaced):
        changes |= boundaries.changes_after_replacement(state, event)
    elif isinstance(event, PackRecorded):
        if event.frame is None:
            changes["context_hash"] = event.context_hash
            changes["calibration"] = calibration.learn_from_pack(
                state.calibration, event.reply, event.counter, event.counted, event.messages
            )
    elif isinstance(event, CallStarted):
        changes["open_calls"] = tuple(_mark_started(call, event) for call in state.open_calls)
    else:
        changes["proposals"] = proposals.fold_proposals(state, event, seq)


def _mark_started(call: OpenCall, event: CallStarted) -> OpenCall:
    if call.id != event.call:
        return call
    return msgspec.structs.replace(call, key=event.key, attempts=event.attempt, turn=event.turn)


def _fold_erasure(changes: dict[str, Any], state: SessionState, event: Event | None, seq: int, time_us: int) -> None:
    """Drop erased summaries and the views of erased items."""
    changes["changed"] = seq
    if isinstance(event, PayloadsErased):
        erased = {*event.seqs}
        changes["summaries"] = tuple(each for each in state.summaries if each.seq not in erased)
        changes["views"] = boundaries.views_after_erasure(state, erased, seq, time_us)
        changes["withdrawals"] = withdrawals.withdrawals_after_erasure(state, erased)


def _drop_conversations(changes: dict[str, Any], state: SessionState, ended: list[str]) -> None:
    """Drop the views and summaries of these frames."""
    views: dict[str, ViewState] = changes.get("views", state.views)
    summaries: tuple[SummaryRef, ...] = changes.get("summaries", state.summaries)
    if any(name in views for name in ended):
        changes["views"] = {name: view for name, view in views.items() if name not in ended}
    if any(each.frame in ended for each in summaries):
        changes["summaries"] = tuple(each for each in summaries if each.frame not in ended)
    if any(name in state.leases for name in ended):
        changes["leases"] = {name: lease for name, lease in state.leases.items() if name not in ended}
    hidden: tuple[WithdrawalRef, ...] = changes.get("withdrawals", state.withdrawals)
    if any(each.frame in ended for each in hidden):
        changes["withdrawals"] = tuple(each for each in hidden if each.frame not in ended)
    standings: dict[str, SituationState] = changes.get("standings", state.standings)
    if any(name in standings for name in ended):
        changes["standings"], less = situation_fold.remove_conversations(standings, ended)
        changes["bulk"] = changes.get("bulk", state.bulk) - less


def _fold_summary(changes: dict[str, Any], state: SessionState, event: Event | None, seq: int, time_us: int) -> None:
    changes |= {"changed": seq, "calibration": _reset_comparison(state)}
    if isinstance(event, SummaryRecorded) and (event.frame is None or event.frame in state.frames):
        others = [
            each for each in state.summaries if each.frame != event.frame or not event.first <= each.first <= event.last
        ]
        new = SummaryRef(
            seq, event.first, event.last, event.messages, event.tokens, event.frame, event.replaced, event.kept
        )
        changes["summaries"] = tuple(sorted((*others, new), key=lambda each: (each.first, each.seq)))
        changes["views"] = boundaries.views_after_summary(state, event, seq, time_us)


def _fold_end(changes: dict[str, Any], state: SessionState, event: Event | None, event_type: str, seq: int) -> None:
    changes |= {"waiting": 0, "offered": seq, "open_calls": (), "asks": False, "errors": (), "proposals": ()}
    changes |= layers.fold_end(state, closing=event_type != SessionReset.name)
    if state.standings:
        changes |= {"standings": {}, "bulk": changes.get("bulk", state.bulk) - situation_fold.total_size(state)}
    if event_type == SessionReset.name:
        keeps = isinstance(event, SessionReset) and event.keep_system
        changes |= {"start": seq, "changed": seq, "live": 0, "live_tokens": 0, "spoken": MessagePositions()}
        changes |= {"summaries": (), "views": {}, "withdrawals": ()}
        changes |= {"calibration": _reset_comparison(state), "pinned": state.pinned if keeps else ()}
        return
    changes["leases"] = {}
    changes["status"] = "destroyed" if event_type == SessionDestroyed.name else "closed"
    match event:
        case SessionClosed(reason=reason) | SessionDestroyed(reason=reason):
            changes["close_reason"] = reason
        case SessionTimedOut(idle_us=idle_us):
            changes["close_reason"] = f"idle for {idle_us // 1_000_000} s"
        case _:
            changes["close_reason"] = "erased"


def _reset_comparison(state: SessionState) -> Calibration:
    """The calibration without the last prompt: the next one cannot be compared with it."""
    return msgspec.structs.replace(state.calibration, prompt=0, estimate=0, messages=0)


def find_offload(before: SessionState, event: Event | None, event_type: str) -> tuple[int, int] | None:
    """The stretch of history that this event puts into the outbox; None for none."""
    if event_type not in OFFLOAD_EVENTS or not before.waiting:
        return None
    if event_type == SessionDestroyed.name and not (isinstance(event, SessionDestroyed) and event.offload):
        return None
    return before.offered + 1, before.version
