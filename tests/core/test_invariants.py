"""Each rule about a state can be broken, and is then named."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec
import pytest

from holdfast.core import invariants
from holdfast.model.frames import Budget, FrameState, Limits, Suspension
from holdfast.model.layers import Surrounding, WorkingItem
from holdfast.model.plan import Redacted, Reduction
from holdfast.model.situation import Standing, Stated
from holdfast.model.state import OpenCall, SessionState, SummaryRef, ViewState

SOUND = SessionState(
    version=9, status="open", created_us=1, updated_us=2, messages=6, tokens=10, live=4, live_tokens=9, pinned=(2, 3)
)
CALL = OpenCall("c5_0", "read")
SUMMARY = SummaryRef(8, 4, 6, 2, 1)
PIECE = Reduction(message=7, piece=0, form="page", tokens=1, size=1, digest="d" * 64)

REST = Suspension(reason="r", by="p", at_us=1, holder="f6", digest="d" * 64)
ROOT = FrameState(
    id="f4",
    root="f4",
    goal="all",
    status="waiting",
    budget=Budget(9, delegated=3),
    children=1,
    created_us=1,
    touched=6,
    inputs_at=4,
)
CHILD = FrameState(
    id="f6", parent="f4", root="f4", goal="a part", depth=1, budget=Budget(3), created_us=1, touched=6, inputs_at=6
)


def _frames(
    root: dict[str, object] | None = None, child: dict[str, object] | None = None, name: str = "f6"
) -> dict[str, object]:
    """A parent and its child, each with something about it changed."""
    frames = {"f4": msgspec.structs.replace(ROOT, **root or {}), name: msgspec.structs.replace(CHILD, **child or {})}
    return {"frames": frames}


def _views(name: str, *reduced: Reduction, boundary: int = 9) -> dict[str, object]:
    return {"views": {name: ViewState(boundary, reduced)}}


def _redacted(*places: int, frame: str = "") -> dict[str, object]:
    return {"views": {frame: ViewState(9, redacted=tuple(Redacted(at, mark="0123abcd") for at in places))}}


def _standing(bulk: int = 0, **fields: Any) -> dict[str, object]:
    return {"standings": {"": Standing(**fields)}, "bulk": bulk}


BROKEN: dict[str, list[dict[str, object]]] = {
    "an absent session has no events": [{"status": "absent"}, {"version": 0, "messages": 0, "tokens": 0}],
    "messages are among the events": [{"messages": 9}, {"messages": -1}],
    "tokens are not negative": [{"tokens": -1}, {"live_tokens": 11}, {"live_tokens": -1}],
    "no messages, no tokens": [{"messages": 0}],
    "exactly an ended session has a reason": [{"close_reason": "r"}, {"status": "closed"}, {"status": "destroyed"}],
    "in each frame, the calls of one message wait at a time": [{"open_calls": (CALL, OpenCall("c7_0", "read"))}],
    "a call that waits was made by a message": [{"open_calls": (OpenCall("mine", "read"),)}],
    "calls wait in an open session only": [{"open_calls": (CALL,), "status": "closed", "close_reason": "r"}],
    "a call waits once": [{"open_calls": (CALL, CALL)}],
    "system messages stand in order": [{"pinned": (3, 2)}, {"pinned": (2, 2)}],
    "summaries stand in order, side by side": [
        {"summaries": (SUMMARY, SummaryRef(9, 6, 7, 1, 1))},
        {"summaries": (SUMMARY,), "start": 4, "offered": 4},
        {"summaries": (SummaryRef(6, 4, 6, 2, 1),)},
    ],
    "only live frames are shown in a way of their own": [
        _views("f7"),
        {"summaries": (msgspec.structs.replace(SUMMARY, frame="f7"),)},
    ],
    "pieces stand in order, each once": [
        _views("", PIECE, PIECE),
        _views("", PIECE, msgspec.structs.replace(PIECE, message=6)),
        _views("", msgspec.structs.replace(PIECE, piece=1), PIECE),
    ],
    "what left the view left the table": [
        {"summaries": (SUMMARY,), **_views("", msgspec.structs.replace(PIECE, message=6))},
        {"start": 7, "offered": 7, **_views("", PIECE)},
    ],
    "what is redacted is in view, in order, each once": [
        _redacted(8, 8),
        _redacted(8, 7),
        _redacted(10),
        {"summaries": (SUMMARY,), **_redacted(6)},
        {"start": 7, "offered": 7, **_redacted(7)},
        {**_redacted(4, frame="f4"), **_frames()},
    ],
    "a boundary lies behind": [_views("", boundary=0), _views("", boundary=10)],
    "what is in view is part of the whole": [{"live": 5}],
    "what is offered lies behind": [{"offered": 10}, {"start": 3}],
    "frames that rest are counted": [{"resting": 1}],
    "frames live in an open session only": [{**_frames(), "status": "closed", "close_reason": "r"}],
    "something is at hand or around in an open session only": [
        {"working": {"a": WorkingItem(1, 1, seq=1)}, "bulk": 4, "status": "closed", "close_reason": "r"},
        {"environment": {"a": Surrounding(1, 1, seq=1)}, "bulk": 4, "status": "destroyed", "close_reason": "r"},
    ],
    "what is at hand and around came with an event": [
        {"working": {"a": WorkingItem(1, 1)}, "bulk": 4},
        {"environment": {"a": Surrounding(1, 1, seq=10)}, "bulk": 4},
    ],
    "what is at hand and around is weighed": [
        {"working": {"a": WorkingItem(1, 1, seq=1)}, "bulk": 3},
        {"environment": {"a": Surrounding(1, 1, seq=1)}},
    ],
    "what is said of how things stand is weighed": [_standing(fields={"goal": Stated("abc", by="m", seq=5)}, bulk=3)],
    "only conversations of live frames stand somewhere": [{"standings": {"f7": Standing()}}],
    "things stand somewhere in an open session only": [{**_standing(), "status": "closed", "close_reason": "r"}],
    "how a conversation stands was said before": [
        _standing(fields={"goal": Stated("a", seq=10)}, bulk=1),
        _standing(actions=(4, 3), acted=2),
        _standing(actions=(3, 4), acted=1),
        _standing(actions=(10,), acted=1),
        _standing(version=10),
        _standing(replies=7),
    ],
    "only live frames are kept, by their ids": [
        _frames(child={"completed_us": 5}),
        {"frames": {"f7": ROOT}},
        _frames(child={"id": "f12"}, name="f12"),
    ],
    "a frame lives below a live one, or is a root": [_frames(child={"parent": "f8"})],
    "a parent is older, and one less deep": [_frames(child={"depth": 2})],
    "a root has no depth, and is its own root": [_frames(root={"depth": 1}), _frames(root={"root": "f2"})],
    "what is below has the same root": [_frames(child={"root": "f5"})],
    "children are counted": [_frames(root={"children": 2})],
    "what is delegated is what live children were granted": [_frames(child={"budget": Budget(4)})],
    "what is reserved is in reservations": [_frames(child={"budget": Budget(3, reserved=1)})],
    "no figure of a budget is negative": [_frames(child={"budget": Budget(3, used=-1)})],
    "a status says what a frame waits for": [
        _frames(root={"status": "active"}),
        _frames(child={"status": "waiting"}),
        {**_frames(child={"suspension": REST}), "resting": 1},
    ],
    "limits are never wider than above": [
        _frames(child={"limits": Limits(max_subframe_depth=4)}),
        _frames(root={"limits": Limits(max_tool_calls=1)}),
        _frames(root={"limits": Limits(timeout_us=5)}, child={"limits": Limits(timeout_us=6)}),
    ],
    "exactly one token wakes what rests": [
        {
            **_frames(child={"suspension": msgspec.structs.replace(REST, digest=""), "status": "suspended"}),
            "resting": 1,
        },
        {
            **_frames(child={"suspension": msgspec.structs.replace(REST, holder="f8"), "status": "suspended"}),
            "resting": 1,
        },
    ],
}


def test_a_sound_state_breaks_no_rule() -> None:
    ended = msgspec.structs.replace(SOUND, status="closed", close_reason="done")
    nested = msgspec.structs.replace(SOUND, **_frames())
    layered = msgspec.structs.replace(
        SOUND, working={"a": WorkingItem(1, 1, seq=1)}, environment={"a": Surrounding(1, 1, seq=1)}, bulk=8
    )
    viewed = msgspec.structs.replace(SOUND, summaries=(SUMMARY,), **_frames(), **_views("", PIECE))
    in_frame = msgspec.structs.replace(
        viewed, summaries=(SUMMARY, msgspec.structs.replace(SUMMARY, seq=9, last=7, frame="f4")), **_views("", PIECE)
    )
    said = {"goal": Stated("abc", 2, "m", 5)}
    stands = msgspec.structs.replace(SOUND, **_standing(4, replies=1, fields=said, version=5, actions=(3, 6), acted=3))
    for state in (SOUND, SessionState(), ended, nested, layered, viewed, in_frame, stands):
        assert invariants.check(state) == []


@pytest.mark.parametrize(("rule", "changes"), [(rule, each) for rule, some in BROKEN.items() for each in some])
def test_a_broken_rule_is_named(rule: str, changes: dict[str, object]) -> None:
    assert rule in invariants.check(msgspec.structs.replace(SOUND, **changes))


def test_every_rule_is_broken_above() -> None:
    broken = (msgspec.structs.replace(SOUND, **each) for some in BROKEN.values() for each in some)
    assert {rule for state in broken for rule in invariants.check(state)} == set(BROKEN)
    rules = inspect.getsource(invariants)
    assert all(f'"{rule}"' in rules for rule in BROKEN)
    assert len(re.findall(r'^ {8}"[a-z, ]+": ', rules, re.MULTILINE)) == len(BROKEN)
