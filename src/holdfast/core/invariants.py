"""What must be true of every state, whatever led to it."""

from __future__ import annotations

from holdfast.model.state import SessionState


def check(state: SessionState) -> list[str]:
    """The statements that do not hold; empty for a sound state."""
    rules = {
        "an absent session has no events": (state.status == "absent") == (state.version == 0),
        "messages are among the events": 0 <= state.messages <= max(0, state.version - 1),
        "tokens are not negative": state.tokens >= 0,
        "no messages, no tokens": state.messages > 0 or state.tokens == 0,
        "exactly a closed session has a reason": (state.status == "closed") == bool(state.close_reason),
    }
    return [rule for rule, holds in rules.items() if not holds]
