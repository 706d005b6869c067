"""Each rule about a state can be broken, and is then named."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core import invariants
from holdfast.model.state import SessionState

SOUND = SessionState(version=5, status="open", created_us=1, updated_us=2, messages=3, tokens=10)

BROKEN: dict[str, list[dict[str, object]]] = {
    "an absent session has no events": [{"status": "absent"}, {"version": 0, "messages": 0, "tokens": 0}],
    "messages are among the events": [{"messages": 5}, {"messages": -1}],
    "tokens are not negative": [{"tokens": -1}],
    "no messages, no tokens": [{"messages": 0}],
    "exactly a closed session has a reason": [{"close_reason": "r"}, {"status": "closed"}],
}


def test_a_sound_state_breaks_no_rule() -> None:
    for state in (SOUND, SessionState(), msgspec.structs.replace(SOUND, status="closed", close_reason="done")):
        assert invariants.check(state) == []


@pytest.mark.parametrize(("rule", "changes"), [(rule, each) for rule, some in BROKEN.items() for each in some])
def test_a_broken_rule_is_named(rule: str, changes: dict[str, object]) -> None:
    assert rule in invariants.check(msgspec.structs.replace(SOUND, **changes))


def test_every_rule_is_broken_above() -> None:
    nonsense = SessionState(version=0, status="open", messages=-1, tokens=-1, close_reason="r")
    assert set(invariants.check(nonsense)) == set(BROKEN)
