"""Each rule about a state can be broken, and is then named."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core import invariants
from holdfast.model.state import OpenCall, SessionState, SummaryRef

SOUND = SessionState(
    version=9, status="open", created_us=1, updated_us=2, messages=6, tokens=10, live=4, live_tokens=9, pinned=(2, 3)
)
CALL = OpenCall("c5_0", "read")
SUMMARY = SummaryRef(8, 4, 6, 2, 1)

BROKEN: dict[str, list[dict[str, object]]] = {
    "an absent session has no events": [{"status": "absent"}, {"version": 0, "messages": 0, "tokens": 0}],
    "messages are among the events": [{"messages": 9}, {"messages": -1}],
    "tokens are not negative": [{"tokens": -1}, {"live_tokens": 11}, {"live_tokens": -1}],
    "no messages, no tokens": [{"messages": 0}],
    "exactly an ended session has a reason": [{"close_reason": "r"}, {"status": "closed"}, {"status": "destroyed"}],
    "the calls of one message wait at a time": [
        {"open_calls": (CALL, OpenCall("c7_0", "read"))},
        {"open_calls": (OpenCall("mine", "read"),)},
    ],
    "calls wait in an open session only": [{"open_calls": (CALL,), "status": "closed", "close_reason": "r"}],
    "a call waits once": [{"open_calls": (CALL, CALL)}],
    "system messages stand in order": [{"pinned": (3, 2)}, {"pinned": (2, 2)}],
    "summaries stand in order, side by side": [
        {"summaries": (SUMMARY, SummaryRef(9, 6, 7, 1, 1))},
        {"summaries": (SUMMARY,), "start": 4, "offered": 4},
        {"summaries": (SummaryRef(6, 4, 6, 2, 1),)},
    ],
    "what is in view is part of the whole": [{"live": 5}],
    "what is offered lies behind": [{"offered": 10}, {"start": 3}],
}


def test_a_sound_state_breaks_no_rule() -> None:
    for state in (SOUND, SessionState(), msgspec.structs.replace(SOUND, status="closed", close_reason="done")):
        assert invariants.check(state) == []


@pytest.mark.parametrize(("rule", "changes"), [(rule, each) for rule, some in BROKEN.items() for each in some])
def test_a_broken_rule_is_named(rule: str, changes: dict[str, object]) -> None:
    assert rule in invariants.check(msgspec.structs.replace(SOUND, **changes))


def test_every_rule_is_broken_above() -> None:
    nonsense = SessionState(
        version=0,
        status="closed",
        messages=-1,
        tokens=-1,
        open_calls=(CALL, CALL, OpenCall("c6_0", "read")),
        pinned=(2, 1),
        summaries=(SUMMARY,),
        offered=1,
    )
    assert set(invariants.check(nonsense)) | {"an absent session has no events"} == set(BROKEN)
