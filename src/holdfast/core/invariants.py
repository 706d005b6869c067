"""What must be true of every state, whatever led to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import layers, situation, stack
from holdfast.core.messages import group_of
from holdfast.core.summaries import covering, partly
from holdfast.model.frames import FrameState, frame_seq
from holdfast.model.plan import Reduction
from holdfast.model.situation import Standing
from holdfast.model.state import SessionState


def check(state: SessionState) -> list[str]:
    """The statements that do not hold; empty for a sound state."""
    return [rule for rule, holds in rules(state).items() if not holds]


def rules(state: SessionState) -> dict[str, bool]:
    """All that must be true, and whether it is."""
    groups = {(call.frame, group_of(call.id)) for call in state.open_calls}
    return _frames(state) | {
        "an absent session has no events": (state.status == "absent") == (state.version == 0),
        "messages are among the events": 0 <= state.messages <= max(0, state.version - 1),
        "tokens are not negative": 0 <= state.live_tokens <= state.tokens,
        "no messages, no tokens": state.messages > 0 or state.tokens == 0,
        "exactly an ended session has a reason": (state.status in ("closed", "destroyed")) == bool(state.close_reason),
        "in each frame, the calls of one message wait at a time": len({frame for frame, _ in groups}) == len(groups),
        "a call that waits was made by a message": all(group is not None for _, group in groups),
        "calls wait in an open session only": not state.open_calls or state.status == "open",
        "a call waits once": len({call.id for call in state.open_calls}) == len(state.open_calls),
        "system messages stand in order": list(state.pinned) == sorted({*state.pinned}),
        "summaries stand in order, side by side": all(
            _side_by_side(state, frame) for frame in {each.frame for each in state.summaries}
        ),
        "only live frames are shown in a way of their own": {*state.views}
        | {each.frame or "" for each in state.summaries}
        <= {"", *state.frames},
        "pieces stand in order, each once": all(_in_order(view.reduced) for view in state.views.values()),
        "what left the view left the table": _in_view(state),
        "what is redacted is in view, in order, each once": all(
            _redacted_in_view(state, name or None) for name in state.views
        ),
        "a boundary lies behind": all(
            (view.boundary > 0 or bool(view.redacted)) and view.boundary <= state.version
            for view in state.views.values()
        ),
        "what is in view is part of the whole": state.live + len(state.pinned) <= state.messages,
        "what is offered lies behind": state.start <= state.offered <= state.version,
        "frames that rest are counted": state.resting
        == sum(each.suspension is not None for each in state.frames.values()),
        "frames live in an open session only": not state.frames or state.status == "open",
        "something is at hand or around in an open session only": not (state.working or state.environment)
        or state.status == "open",
        "what is at hand and around came with an event": all(
            1 <= seq <= state.version for seq in layers.seqs_of(state)
        ),
        "what is at hand and around is weighed": layers.weight_of(state) <= state.bulk,
        "what is said of how things stand is weighed": situation.weight_of(state) <= state.bulk,
        "only conversations of live frames stand somewhere": {*state.standings} <= {"", *state.frames},
        "things stand somewhere in an open session only": not state.standings or state.status == "open",
        "how a conversation stands was said before": all(
            _said_before(state, each) for each in state.standings.values()
        ),
    }


def _frames(state: SessionState) -> dict[str, bool]:
    frames = state.frames
    live = [
        each for frame, each in frames.items() if each.id == frame and each.live and frame_seq(frame) <= state.version
    ]
    below = [(frames[each.parent], each) for each in live if each.parent in frames]
    children = stack.children_of(frames)
    return {
        "only live frames are kept, by their ids": len(live) == len(frames),
        "a frame lives below a live one, or is a root": all(
            (each.parent in frames) != (each.parent is None) for each in live
        ),
        "a parent is older, and one less deep": all(
            frame_seq(parent.id) < frame_seq(each.id) and parent.depth + 1 == each.depth for parent, each in below
        ),
        "a root has no depth, and is its own root": all(
            (each.parent is None) == (each.depth == 0) == (each.root == each.id) for each in live
        ),
        "what is below has the same root": all(parent.root == each.root for parent, each in below),
        "children are counted": all(each.children == len(children.get(each.id, ())) for each in live),
        "what is delegated is what live children were granted": all(
            each.budget.delegated == sum(child.budget.total for child in children.get(each.id, ())) for each in live
        ),
        "what is reserved is in reservations": all(
            each.budget.reserved == sum(one.amount for one in each.reservations) for each in live
        ),
        "no figure of a budget is negative": all(
            min(msgspec.structs.astuple(each.budget)) >= 0 and each.usage.input_tokens >= 0 for each in live
        ),
        "a status says what a frame waits for": all(each.status == _status(each) for each in live),
        "limits are never wider than above": all(stack.narrower(each.limits, parent.limits) for parent, each in below),
        "exactly one token wakes what rests": all(_rests(each, frames) for each in live),
    }


def _status(frame: FrameState) -> str:
    if frame.suspension is not None:
        return "suspended"
    return "waiting" if frame.children else "active"


def _rests(frame: FrameState, frames: Mapping[str, FrameState]) -> bool:
    rest = frame.suspension
    if rest is None:
        return True
    if rest.holder == frame.id:
        return bool(rest.digest)
    return not rest.digest and rest.holder in frames


def _side_by_side(state: SessionState, frame: str | None) -> bool:
    own = state.summaries_of(frame)
    ends = [state.start]
    for each in own:
        ends += [each.first - 1, each.last]
    inside = all(each.last < each.seq <= state.version for each in own)
    return inside and ends == sorted(ends) and not any(partly(each, each.first, each.last) for each in own)


def _in_order(pieces: Sequence[Reduction]) -> bool:
    places = [(each.message, each.piece) for each in pieces]
    return places == sorted({*places})


def _said_before(state: SessionState, standing: Standing) -> bool:
    seqs = [*(each.seq for each in standing.fields.values()), *standing.actions, standing.version]
    in_order = list(standing.actions) == sorted({*standing.actions}) and len(standing.actions) <= standing.acted
    return in_order and all(0 <= seq <= state.version for seq in seqs) and standing.replies <= state.messages


def _redacted_in_view(state: SessionState, frame: str | None) -> bool:
    places = [each.at for each in state.view(frame).redacted]
    summaries = state.summaries_of(frame)
    shown = {each.seq for each in summaries}
    start = max(state.start, frame_seq(frame))
    inside = all(at in shown or (start < at and covering(summaries, at) is None) for at in places)
    return inside and places == sorted({*places}) and all(at <= state.version for at in places)


def _in_view(state: SessionState) -> bool:
    """No piece of a message is in the table that a summary of its conversation stands for, or that a reset took away."""
    return not any(
        each.message <= state.start or covering(state.summaries_of(name or None), each.message)
        for name, view in state.views.items()
        for each in view.reduced
    )
