"""Each rule about a state can be broken, and is then named."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec
import pytest

from holdfast.core import invariants
from holdfast.model.frames.frames import Budget, FrameLimits, FrameState, Suspension
from holdfast.model.history.plans import Redaction, Reduction
from holdfast.model.sessions.layers import EnvironmentItem, WorkingItem
from holdfast.model.sessions.turns import Lease, TurnWaiter
from holdfast.model.situation.situations import SituationField, SituationState
from holdfast.model.state import OpenCall, SessionState, SummaryRef, ViewState, WithdrawalRef

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
    return {"views": {frame: ViewState(9, redacted=tuple(Redaction(at, mark="0123abcd") for at in places))}}


def _standing(bulk: int = 0, **fields: Any) -> dict[str, object]:
    return {"standings": {"": SituationState(**fields)}, "bulk": bulk}


BROKEN: dict[str, list[dict[str, object]]] = {
    "an absent session has no events": [{"status": "absent"}, {"version": 0, "messages": 0, "tokens": 0}],
    "messages are among the events": [{"messages": 9}, {"messages": -1}],
    "tokens are not negative": [{"tokens": -1}, {"live_tokens": 11}, {"live_tokens": -1}],
    "no messages, no tokens": [{"messages": 0}],
    "an ended session, and no other, has a reason": [
        {"close_reason": "r"},
        {"status": "closed"},
        {"status": "destroyed"},
    ],
    "each conversation has open calls of one message at most": [{"open_calls": (CALL, OpenCall("c7_0", "read"))}],
    "an open call belongs to a message": [{"open_calls": (OpenCall("mine", "read"),)}],
    "only an open session has open calls": [{"open_calls": (CALL,), "status": "closed", "close_reason": "r"}],
    "an open call is listed once": [{"open_calls": (CALL, CALL)}],
    "system messages are in order": [{"pinned": (3, 2)}, {"pinned": (2, 2)}],
    "summaries are in order and do not overlap": [
        {"summaries": (SUMMARY, SummaryRef(9, 6, 7, 1, 1))},
        {"summaries": (SUMMARY,), "start": 4, "offered": 4},
        {"summaries": (SummaryRef(6, 4, 6, 2, 1),)},
    ],
    "only live frames have views and summaries": [
        _views("f7"),
        {"summaries": (msgspec.structs.replace(SUMMARY, frame="f7"),)},
    ],
    "reduced pieces are in order, each once": [
        _views("", PIECE, PIECE),
        _views("", PIECE, msgspec.structs.replace(PIECE, message=6)),
        _views("", msgspec.structs.replace(PIECE, piece=1), PIECE),
    ],
    "reduced pieces are in view": [
        {"summaries": (SUMMARY,), **_views("", msgspec.structs.replace(PIECE, message=6))},
        {"start": 7, "offered": 7, **_views("", PIECE)},
    ],
    "redacted items are in view, in order, each once": [
        _redacted(8, 8),
        _redacted(8, 7),
        _redacted(10),
        {"summaries": (SUMMARY,), **_redacted(6)},
        {"start": 7, "offered": 7, **_redacted(7)},
        {**_redacted(4, frame="f4"), **_frames()},
    ],
    "no withdrawn message is under a summary that tells of it, reduced or redacted": [
        {"withdrawals": (WithdrawalRef(9, None, ((7, 7),)),)} | _views("", PIECE),
        {"withdrawals": (WithdrawalRef(9, None, ((5, 6),)),), "summaries": (SUMMARY,)},
    ],
    "withdrawals are in order, of live conversations": [
        {"withdrawals": (WithdrawalRef(9, None, ((7, 7),)), WithdrawalRef(8, None, ((6, 6),)))},
        {"withdrawals": (WithdrawalRef(9, "f4", ((7, 7),)),)},
        {"withdrawals": (WithdrawalRef(9, None, ((7, 9),)),)},
    ],
    "a boundary is in the past": [_views("", boundary=0), _views("", boundary=10)],
    "messages in view are among all messages": [{"live": 5}],
    "offered history is in the past": [{"offered": 10}, {"start": 3}],
    "suspended frames are counted": [{"resting": 1}],
    "only an open session has live frames": [{**_frames(), "status": "closed", "close_reason": "r"}],
    "only an open session has a working set and an environment": [
        {"working": {"a": WorkingItem(1, 1, seq=1)}, "bulk": 4, "status": "closed", "close_reason": "r"},
        {"environment": {"a": EnvironmentItem(1, 1, seq=1)}, "bulk": 4, "status": "destroyed", "close_reason": "r"},
    ],
    "the items of layers name events of the session": [
        {"working": {"a": WorkingItem(1, 1)}, "bulk": 4},
        {"environment": {"a": EnvironmentItem(1, 1, seq=10)}, "bulk": 4},
    ],
    "the weight of a state includes its layers": [
        {"working": {"a": WorkingItem(1, 1, seq=1)}, "bulk": 3},
        {"environment": {"a": EnvironmentItem(1, 1, seq=1)}},
    ],
    "the weight of a state includes its situations": [
        _standing(fields={"goal": SituationField("abc", by="m", seq=5)}, bulk=3)
    ],
    "only live frames have leases": [{"leases": {"f7": Lease(5, "ada", 9)}}],
    "only an open session has leases": [
        {"leases": {"": Lease(5, "ada", 9)}, "status": "closed", "close_reason": "r"},
    ],
    "the number of a turn is an event, and so are the tickets": [
        {"leases": {"": Lease(10, "ada", 9)}},
        {"leases": {"": Lease(5, "ada", 9, waiters=(TurnWaiter(10, "bob", 9),))}},
        {"leases": {"": Lease(5, "ada", 9, waiters=(TurnWaiter(8, "bob", 9), TurnWaiter(7, "cy", 9)))}},
    ],
    "only live frames have situations": [{"standings": {"f7": SituationState()}}],
    "only an open session has situations": [{**_standing(), "status": "closed", "close_reason": "r"}],
    "a situation names past events": [
        _standing(fields={"goal": SituationField("a", seq=10)}, bulk=1),
        _standing(actions=(4, 3), acted=2),
        _standing(actions=(3, 4), acted=1),
        _standing(actions=(10,), acted=1),
        _standing(version=10),
        _standing(replies=7),
    ],
    "the state has live frames only, by their ids": [
        _frames(child={"completed_us": 5}),
        {"frames": {"f7": ROOT}},
        _frames(child={"id": "f12"}, name="f12"),
    ],
    "a frame has a live parent, or is a root": [_frames(child={"parent": "f8"})],
    "a parent is older, and one less deep": [_frames(child={"depth": 2})],
    "a root has no depth, and is its own root": [_frames(root={"depth": 1}), _frames(root={"root": "f2"})],
    "a frame has the root of its parent": [_frames(child={"root": "f5"})],
    "children are counted": [_frames(root={"children": 2})],
    "delegated tokens are the grants of live children": [_frames(child={"budget": Budget(4)})],
    "reserved tokens are those of the reservations": [_frames(child={"budget": Budget(3, reserved=1)})],
    "no figure of a budget is negative": [_frames(child={"budget": Budget(3, used=-1)})],
    "a status matches what a frame waits for": [
        _frames(root={"status": "active"}),
        _frames(child={"status": "waiting"}),
        {**_frames(child={"suspension": REST}), "resting": 1},
    ],
    "limits are not wider than those of the parent": [
        _frames(child={"limits": FrameLimits(max_subframe_depth=4)}),
        _frames(root={"limits": FrameLimits(max_tool_calls=1)}),
        _frames(root={"limits": FrameLimits(timeout_us=5)}, child={"limits": FrameLimits(timeout_us=6)}),
    ],
    "exactly one token resumes a suspended frame": [
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
        SOUND, working={"a": WorkingItem(1, 1, seq=1)}, environment={"a": EnvironmentItem(1, 1, seq=1)}, bulk=8
    )
    viewed = msgspec.structs.replace(SOUND, summaries=(SUMMARY,), **_frames(), **_views("", PIECE))
    in_frame = msgspec.structs.replace(
        viewed, summaries=(SUMMARY, msgspec.structs.replace(SUMMARY, seq=9, last=7, frame="f4")), **_views("", PIECE)
    )
    said = {"goal": SituationField("abc", 2, "m", 5)}
    stands = msgspec.structs.replace(SOUND, **_standing(4, replies=1, fields=said, version=5, actions=(3, 6), acted=3))
    for state in (SOUND, SessionState(), ended, nested, layered, viewed, in_frame, stands):
        assert invariants.find_violations(state) == []


@pytest.mark.parametrize(("rule", "changes"), [(rule, each) for rule, some in BROKEN.items() for each in some])
def test_a_broken_rule_is_named(rule: str, changes: dict[str, object]) -> None:
    assert rule in invariants.find_violations(msgspec.structs.replace(SOUND, **changes))


def test_every_rule_is_broken_above() -> None:
    broken = (msgspec.structs.replace(SOUND, **each) for some in BROKEN.values() for each in some)
    assert {rule for state in broken for rule in invariants.find_violations(state)} == set(BROKEN)
    rules = inspect.getsource(invariants)
    assert all(f'"{rule}"' in rules for rule in BROKEN)
    assert len(re.findall(r'^ {8}"[a-z, ]+": ', rules, re.MULTILINE)) == len(BROKEN)
