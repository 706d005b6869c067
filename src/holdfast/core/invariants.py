"""The invariants of session states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core.frames.stack import group_by_parent, is_narrower
from holdfast.core.history.boundaries import cuts_through, find_covering_summary
from holdfast.core.sessions import layers
from holdfast.core.situation import fold
from holdfast.model.content import calling_seq
from holdfast.model.frames.frames import FrameState, frame_seq
from holdfast.model.history.plans import Reduction
from holdfast.model.situation.situations import SituationState
from holdfast.model.state import SessionState


def find_violations(state: SessionState) -> list[str]:
    """The rules that the state breaks; empty for a sound state."""
    return [rule for rule, holds in evaluate_rules(state).items() if not holds]


def evaluate_rules(state: SessionState) -> dict[str, bool]:
    """Every rule, and whether the state keeps it."""
    groups = {(call.frame, calling_seq(call.id)) for call in state.open_calls}
    return _frame_rules(state) | {
        "an absent session has no events": (state.status == "absent") == (state.version == 0),
        "messages are among the events": 0 <= state.messages <= max(0, state.version - 1),
        "tokens are not negative": 0 <= state.live_tokens <= state.tokens,
        "no messages, no tokens": state.messages > 0 or state.tokens == 0,
        "an ended session, and no other, has a reason": (state.status in ("closed", "destroyed"))
        == bool(state.close_reason),
        "each conversation has open calls of one message at most": len({frame for frame, _ in groups}) == len(groups),
        "an open call belongs to a message": all(group is not None for _, group in groups),
        "only an open session has open calls": not state.open_calls or state.status == "open",
        "an open call is listed once": len({call.id for call in state.open_calls}) == len(state.open_calls),
        "system messages are in order": list(state.pinned) == sorted({*state.pinned}),
        "summaries are in order and do not overlap": all(
            _are_summaries_disjoint(state, frame) for frame in {each.frame for each in state.summaries}
        ),
        "only live frames have views and summaries": {*state.views} | {each.frame or "" for each in state.summaries}
        <= {"", *state.frames},
        "reduced pieces are in order, each once": all(_is_ordered(view.reduced) for view in state.views.values()),
        "reduced pieces are in view": _are_reductions_in_view(state),
        "redacted items are in view, in order, each once": all(
            _are_redactions_in_view(state, name or None) for name in state.views
        ),
        "no withdrawn message is under a summary that tells of it, reduced or redacted": _are_withdrawals_apart(state),
        "withdrawals are in order, of live conversations": [each.seq for each in state.withdrawals]
        == sorted({each.seq for each in state.withdrawals})
        and all(
            each.frame in (None, *state.frames) and state.start < each.ranges[0][0] <= each.ranges[-1][1] < each.seq
            for each in state.withdrawals
        ),
        "a boundary is in the past": all(
            (view.boundary > 0 or bool(view.redacted)) and view.boundary <= state.version
            for view in state.views.values()
        ),
        "messages in view are among all messages": state.live + len(state.pinned) <= state.messages,
        "offered history is in the past": state.start <= state.offered <= state.version,
        "suspended frames are counted": state.resting
        == sum(each.suspension is not None for each in state.frames.values()),
        "only an open session has live frames": not state.frames or state.status == "open",
        "only an open session has a working set and an environment": not (state.working or state.environment)
        or state.status == "open",
        "the items of layers name events of the session": all(
            1 <= seq <= state.version for seq in layers.layer_seqs(state)
        ),
        "the weight of a state includes its layers": layers.layer_weight(state) <= state.bulk,
        "the weight of a state includes its situations": fold.total_size(state) <= state.bulk,
        "only live frames have leases": {*state.leases} <= {"", *state.frames},
        "only an open session has leases": not state.leases or state.status == "open",
        "the number of a turn is an event, and so are the tickets": all(
            each.number <= state.version
            and list(each.waiters) == sorted(each.waiters, key=lambda waiter: waiter.ticket)
            and all(waiter.ticket <= state.version for waiter in each.waiters)
            for each in state.leases.values()
        ),
        "only live frames have situations": {*state.standings} <= {"", *state.frames},
        "only an open session has situations": not state.standings or state.status == "open",
        "a situation names past events": all(_is_situation_in_past(state, each) for each in state.standings.values()),
    }


def _frame_rules(state: SessionState) -> dict[str, bool]:
    frames = state.frames
    live = [
        each
        for frame, each in frames.items()
        if each.id == frame and each.is_live and frame_seq(frame) <= state.version
    ]
    below = [(frames[each.parent], each) for each in live if each.parent in frames]
    children = group_by_parent(frames)
    return {
        "the state has live frames only, by their ids": len(live) == len(frames),
        "a frame has a live parent, or is a root": all(
            (each.parent in frames) != (each.parent is None) for each in live
        ),
        "a parent is older, and one less deep": all(
            frame_seq(parent.id) < frame_seq(each.id) and parent.depth + 1 == each.depth for parent, each in below
        ),
        "a root has no depth, and is its own root": all(
            (each.parent is None) == (each.depth == 0) == (each.root == each.id) for each in live
        ),
        "a frame has the root of its parent": all(parent.root == each.root for parent, each in below),
        "children are counted": all(each.children == len(children.get(each.id, ())) for each in live),
        "delegated tokens are the grants of live children": all(
            each.budget.delegated == sum(child.budget.total for child in children.get(each.id, ())) for each in live
        ),
        "reserved tokens are those of the reservations": all(
            each.budget.reserved == sum(one.amount for one in each.reservations) for each in live
        ),
        "no figure of a budget is negative": all(
            min(msgspec.structs.astuple(each.budget)) >= 0 and each.usage.input_tokens >= 0 for each in live
        ),
        "a status matches what a frame waits for": all(each.status == _expected_status(each) for each in live),
        "limits are not wider than those of the parent": all(
            is_narrower(each.limits, parent.limits) for parent, each in below
        ),
        "exactly one token resumes a suspended frame": all(_is_suspension_valid(each, frames) for each in live),
    }


def _expected_status(frame: FrameState) -> str:
    if frame.suspension is not None:
        return "suspended"
    return "waiting" if frame.children else "active"


def _is_suspension_valid(frame: FrameState, frames: Mapping[str, FrameState]) -> bool:
    suspension = frame.suspension
    if suspension is None:
        return True
    if suspension.holder == frame.id:
        return bool(suspension.digest)
    return not suspension.digest and suspension.holder in frames


def _are_summaries_disjoint(state: SessionState, frame: str | None) -> bool:
    summaries = state.summaries_of(frame)
    ends = [state.start]
    for each in summaries:
        ends += [each.first - 1, each.last]
    inside = all(each.last < each.seq <= state.version for each in summaries)
    return inside and ends == sorted(ends) and not any(cuts_through(each, each.first, each.last) for each in summaries)


def _is_ordered(pieces: Sequence[Reduction]) -> bool:
    keys = [(each.message, each.piece) for each in pieces]
    return keys == sorted({*keys})


def _is_situation_in_past(state: SessionState, situation: SituationState) -> bool:
    seqs = [*(each.seq for each in situation.fields.values()), *situation.actions, situation.version]
    in_order = list(situation.actions) == sorted({*situation.actions}) and len(situation.actions) <= situation.acted
    return in_order and all(0 <= seq <= state.version for seq in seqs) and situation.replies <= state.messages


def _are_redactions_in_view(state: SessionState, frame: str | None) -> bool:
    seqs = [each.at for each in state.view(frame).redacted]
    summaries = state.summaries_of(frame)
    shown = {each.seq for each in summaries}
    start = max(state.start, frame_seq(frame))
    inside = all(at in shown or (start < at and find_covering_summary(summaries, at) is None) for at in seqs)
    return inside and seqs == sorted({*seqs}) and all(at <= state.version for at in seqs)


def _are_withdrawals_apart(state: SessionState) -> bool:
    for frame in {each.frame for each in state.withdrawals}:
        hidden, view = state.hidden_ranges(frame), state.view(frame)
        if any(each.message in hidden for each in view.reduced) or any(each.at in hidden for each in view.redacted):
            return False
    return not any(
        one.seq < each.seq and one.first <= last and first <= one.last
        for each in state.withdrawals
        for one in state.summaries_of(each.frame)
        for first, last in each.ranges
    )


def _are_reductions_in_view(state: SessionState) -> bool:
    """Whether no reduced piece is covered by a summary, or out of view since a reset."""
    return not any(
        each.message <= state.start or find_covering_summary(state.summaries_of(name or None), each.message)
        for name, view in state.views.items()
        for each in view.reduced
    )
