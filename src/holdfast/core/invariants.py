"""What must be true of every state, whatever led to it."""

from __future__ import annotations

from holdfast.core.messages import group_of
from holdfast.core.summaries import partly
from holdfast.model.state import SessionState


def check(state: SessionState) -> list[str]:
    """The statements that do not hold; empty for a sound state."""
    groups = {group_of(call.id) for call in state.open_calls}
    rules = {
        "an absent session has no events": (state.status == "absent") == (state.version == 0),
        "messages are among the events": 0 <= state.messages <= max(0, state.version - 1),
        "tokens are not negative": 0 <= state.live_tokens <= state.tokens,
        "no messages, no tokens": state.messages > 0 or state.tokens == 0,
        "exactly an ended session has a reason": (state.status in ("closed", "destroyed")) == bool(state.close_reason),
        "the calls of one message wait at a time": len(groups) <= 1 and None not in groups,
        "calls wait in an open session only": not state.open_calls or state.status == "open",
        "a call waits once": len({call.id for call in state.open_calls}) == len(state.open_calls),
        "system messages stand in order": list(state.pinned) == sorted({*state.pinned}),
        "summaries stand in order, side by side": _side_by_side(state),
        "what is in view is part of the whole": state.live + len(state.pinned) <= state.messages,
        "what is offered lies behind": state.start <= state.offered <= state.version,
    }
    return [rule for rule, holds in rules.items() if not holds]


def _side_by_side(state: SessionState) -> bool:
    ends = [state.start]
    for each in state.summaries:
        ends += [each.first - 1, each.last]
    inside = all(each.last < each.seq <= state.version for each in state.summaries)
    return inside and ends == sorted(ends) and not any(partly(each, each.first, each.last) for each in state.summaries)
