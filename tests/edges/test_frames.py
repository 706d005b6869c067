"""Frames: nested units of work, what they may spend, how far they may go, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast import Frame, Session, Usage, errors
from holdfast.core import invariants
from holdfast.model import limits
from holdfast.model.frames.frames import ENDINGS, Budget, FrameLimits
from holdfast.model.history.handles import ResultRef
from holdfast.types import SweepResult, TokenWeights
from tests.edges.engines import FEWER_KINDS, KINDS, EngineDesk, ManualClock, contents, expect_refusal

NOWHERE = ("f999", "f1")
"""No such event, and one that pushed nothing."""
NO_IDS: tuple[Any, ...] = (
    "",
    "f",
    "f0",
    "f01",
    "F2",
    "f-1",
    "f2 ",
    "f2\n",
    "f٢",
    "2",
    "f" + "9" * 20,
    2,
    None,
    b"f2",
    [],
)


def _tree(session: Session) -> tuple[Frame, Frame, Frame]:
    root = session.frame("root", budget=1_000)
    child = root.frame("child", budget=500)
    return root, child, child.frame("leaf", budget=100)


def _sound(session: Session) -> None:
    assert invariants.find_violations(session.state()) == []


# Budgets


def test_the_budget_of_the_story(engine: holdfast.Engine) -> None:
    """2300 are available while the child lives, and 2800 once it has used 2500 and ended."""
    root = engine.create_session("s").frame("answer the question", budget=8_000)
    root.budget.reserve("brief_context", 500)
    root.budget.reserve("breadcrumbs", 200)
    child = root.frame("look it up", budget=3_000)
    root.budget.use(2_000)
    assert root.state().budget == Budget(total=8_000, used=2_000, reserved=700, delegated=3_000)
    assert root.state().budget.available == 2_300
    child.budget.use(2_500)
    assert root.state().budget.available == 2_300
    child.pop()
    assert root.state().budget == Budget(total=8_000, used=4_500, reserved=700)
    assert root.state().budget.available == 2_800
    child.pop()
    assert root.state().budget.available == 2_800


def test_more_than_is_available_is_refused_and_the_last_token_is_not(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=100)
    root.budget.use(30)
    child = root.frame("child", budget=20)
    data: dict[str, object] = {"frame": root.id, "requested": 51, "available": 50}
    for ask in (
        lambda: root.frame("another", budget=51),
        lambda: session.frame("another", budget=51, parent=root),
        lambda: root.budget.reserve("room", 51),
        lambda: child.budget.grant(51),
    ):
        with expect_refusal(engine, errors.InsufficientTokens, **data):
            ask()
    child.budget.grant(20)
    root.budget.reserve("room", 20)
    root.frame("another", budget=10)
    assert root.state().budget == Budget(total=100, used=30, reserved=20, delegated=50)
    with expect_refusal(engine, errors.InsufficientTokens, frame=root.id, requested=1, available=0):
        root.budget.reserve("room", 1)
    root.budget.grant(1)
    root.budget.reserve("room", 1)
    _sound(session)


def test_what_was_used_is_recorded_also_when_it_is_more_than_there_was(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=100)
    child = root.frame("child", budget=10)
    child.budget.use(500)
    assert (child.state().budget.is_overdrawn, child.state().budget.available) == (True, 0)
    with expect_refusal(engine, errors.InsufficientTokens, frame=child.id, requested=0, available=0):
        child.frame("more", budget=0)
    with expect_refusal(engine, errors.InsufficientTokens, frame=child.id, requested=0, available=0):
        child.budget.reserve("more", 0)
    child.pop()
    assert (root.state().budget.used, root.state().budget.is_overdrawn) == (500, True)
    with expect_refusal(engine, errors.InsufficientTokens, frame=root.id, requested=1, available=0):
        root.frame("more", budget=1)
    root.budget.grant(401)
    assert root.frame("more", budget=1).state().status == "active"
    _sound(session)


def test_a_reservation_is_used_once(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=100)
    one, two, three = (root.budget.reserve(f"call {number}", 20) for number in range(3))
    assert (one.purpose, one.amount) == ("call 0", 20)
    assert [each.id for each in root.state().reservations] == [one.id, two.id, three.id]
    root.budget.commit(one, 5)
    root.budget.commit(two.id, Usage(30, 0))
    root.budget.cancel(three)
    assert (root.state().budget, root.state().reservations) == (Budget(total=100, used=35), ())
    for over in (one, two, three):
        for again in (
            root.budget.cancel,
            lambda it: root.budget.commit(it, 1),
            lambda it: root.record("user", "x", reservation=it),
        ):
            with expect_refusal(engine, errors.ReservationSettled, frame=root.id, reservation=over.id):
                again(over)
    theirs = session.frame("other", budget=100).budget.reserve("theirs", 1)
    for nothing in (theirs.id, "r999", "r1", "r0", "r01", "r", "r-1", "r" + "9" * 40, "r٣", "nonsense"):
        with expect_refusal(engine, errors.ReservationNotFound, frame=root.id, reservation=nothing):
            root.budget.cancel(nothing)
    with expect_refusal(engine, errors.InvalidArgument):
        session.record("user", "x", reservation=theirs)


def test_replies_are_charged_to_the_frame_they_belong_to(desk: EngineDesk) -> None:
    """By what a token of each kind counts, and with what was reserved for them."""
    weights = TokenWeights(cache_read=100, output=5_000)
    for kind in KINDS:
        session = desk.open(kind, name="charged", weights=weights).create_session("s")
        root = session.frame("root", budget=10_000)
        root.record("assistant", "one", usage=Usage(100, 10, 50))
        assert root.state().budget.used == 50 + 5 + 50
        kept = root.budget.reserve("the next call", 500)
        root.record("assistant", "two", usage=Usage(7, 1), reservation=kept)
        assert (root.state().budget.used, root.state().budget.reserved) == (105 + 12, 0)
        kept = root.budget.reserve("a call that says nothing", 40)
        root.record("assistant", "three", reservation=kept)
        assert root.state().budget == Budget(total=10_000, used=117 + 40)
        assert root.state().usage == Usage(107, 11, 50)
        session.record("assistant", "outside", usage=Usage(1_000, 1_000))
        assert root.state().budget.used == 157


def test_what_a_tree_has_used_is_what_its_root_has_used_in_the_end(engine: holdfast.Engine) -> None:
    """Whatever the tree, and in whichever order its frames end."""
    for seed in range(3):
        rng = Random(seed)
        session = engine.create_session(f"s{seed}")
        root = session.frame("root", budget=10**9, max_subframe_depth=9)
        frames, used, usage = [root], 0, Usage()
        for number in range(12):
            frames.append(rng.choice(frames).frame(f"frame {number}", budget=0))
            frames[-1].budget.grant(0)
        for _ in range(15):
            spent = Usage(rng.randrange(100), rng.randrange(100))
            rng.choice(frames).budget.use(spent)
            used, usage = used + spent.input_tokens + spent.output_tokens, usage + spent
        while len(frames) > 1:
            frame = rng.choice(frames[1:])
            frame.pop(rng.choice(ENDINGS), cascade=True)
            frames = [each for each in frames if each.state().is_live]
            _sound(session)
        state = root.state()
        assert (state.budget.used, state.budget.delegated, state.children) == (used, 0, 0)
        assert state.usage + state.below == usage
        assert state.result_refs
    assert engine.admin.verify().ok


def test_a_session_may_have_no_budget_at_all_to_give(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("nothing to spend", budget=0)
    assert root.frame("nor below", budget=0).state().budget == Budget()
    largest = session.frame("all there is", budget=limits.WHOLE_NUMBER)
    with expect_refusal(engine, errors.TooLarge, size=limits.WHOLE_NUMBER + 1):
        largest.budget.grant(1)
    largest.budget.use(limits.WHOLE_NUMBER)
    largest.budget.use(limits.WHOLE_NUMBER)
    assert largest.state().budget.used == limits.WHOLE_NUMBER


# Limits


def test_limits_are_the_parents_or_narrower(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    plain = session.frame("plain", budget=10)
    assert plain.state().limits == FrameLimits(max_subframe_depth=3)
    root = session.frame("root", budget=100, max_subframe_depth=5, max_tool_calls=7, timeout_s=60)
    assert root.state().limits == FrameLimits(max_subframe_depth=5, max_tool_calls=7, timeout_us=60_000_000)
    same = root.frame("same", budget=10)
    wide = root.frame("wide", budget=10, max_subframe_depth=64, max_tool_calls=1_000, timeout_s=1_000)
    narrow = root.frame("narrow", budget=10, max_subframe_depth=2, max_tool_calls=0, timeout_s=0.5)
    assert same.state().limits == wide.state().limits == root.state().limits
    assert same.state().deadline_us == wide.state().deadline_us == root.state().deadline_us
    assert narrow.state().limits == FrameLimits(max_subframe_depth=2, max_tool_calls=0, timeout_us=500_000)
    assert narrow.state().deadline_us == narrow.state().created_us + 500_000
    below = narrow.frame("below", budget=1, max_tool_calls=5, timeout_s=40)
    assert below.state().limits == narrow.state().limits
    assert below.state().deadline_us == narrow.state().deadline_us


def test_frames_nest_as_deep_as_their_root_allows(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    for depth in (0, 3, 6):
        frame = session.frame("root", budget=1, max_subframe_depth=None if depth == 3 else depth)
        for level in range(depth):
            frame = frame.frame("inner", budget=1)
            assert (frame.state().depth, frame.state().limits.max_subframe_depth) == (level + 1, depth)
        with expect_refusal(engine, errors.MaxDepthExceeded, frame=frame.id, depth=depth + 1, limit=depth):
            frame.frame("one too deep", budget=0)
    with expect_refusal(engine, errors.InvalidNumber):
        session.frame("root", budget=1, max_subframe_depth=limits.FRAME_DEPTH + 1)


def test_so_many_tools_may_be_started_in_a_frame(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=1, max_tool_calls=2)
    asked = root.record("assistant", "", tool_calls=[{"name": "look"}] * 3)
    for call in asked.tool_calls[:2]:
        root.run(call, lambda: "seen")
    with expect_refusal(engine, errors.ToolCallsExceeded, frame=root.id, used=2, limit=2):
        root.start_call(asked.tool_calls[2])
    with expect_refusal(engine, errors.ToolCallsExceeded, frame=root.id, used=2, limit=2):
        session.start_call(asked.tool_calls[2])
    session.close_calls("no more tools")
    child = root.frame("child", budget=0)
    asked = child.record("assistant", "", tool_calls=[{"name": "look"}])
    assert child.start_call(asked.tool_calls[0]).attempt == 1
    assert (root.state().tool_calls, child.state().tool_calls) == (2, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_new_begins_in_a_frame_that_is_out_of_time(kind: str, desk: EngineDesk) -> None:
    clock = ManualClock()
    engine = desk.open(kind, clock=clock)
    session = engine.create_session("s")
    root = session.frame("root", budget=100, timeout_s=10)
    child = root.frame("child", budget=10)
    kept = root.budget.reserve("a call", 5)
    asked = root.record("assistant", "", tool_calls=[{"name": "look"}, {"name": "look"}])
    root.start_call(asked.tool_calls[0])
    clock.now_s += 10.5
    late: dict[str, object] = {"frame": root.id, "late_us": 500_000}
    for begin in (
        lambda: root.frame("another", budget=1),
        lambda: root.budget.reserve("another", 1),
        lambda: root.start_call(asked.tool_calls[1]),
        lambda: child.budget.grant(1),
    ):
        with expect_refusal(engine, errors.DeadlinePassed, **late):
            begin()
    root.result(asked.tool_calls[0], "seen")  # what has happened is recorded
    root.budget.commit(kept, 7)
    root.budget.use(1)
    root.handles.add("document", "a page")
    assert root.state().budget.used == 8
    assert engine.admin.sweep() == SweepResult(frames=((session.scope, child.id), (session.scope, root.id)))
    assert (root.state().status, child.state().status) == ("failed", "failed")
    assert root.state().summary == child.state().summary == "The frame was out of time."
    assert engine.admin.sweep() == SweepResult()
    assert engine.admin.verify().ok


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_a_sweep_takes_what_is_due_the_deepest_first_and_what_lives_below_it(kind: str, desk: EngineDesk) -> None:
    clock = ManualClock()
    engine = desk.open(kind, clock=clock)
    session = engine.create_session("s")
    root = session.frame("root", budget=100, max_subframe_depth=5)
    timed = root.frame("timed", budget=50, timeout_s=5)
    resting = timed.frame("resting", budget=20)
    hurried = timed.frame("hurried", budget=20, timeout_s=1)
    other = engine.acting_as(tenant="other").create_session("s").frame("theirs", budget=1, timeout_s=1)
    token = resting.suspend("approval")
    resting.budget.use(3)
    hurried.budget.use(4)
    clock.now_s += 5
    assert engine.admin.sweep() == SweepResult(frames=((session.scope, hurried.id), (session.scope, timed.id)))
    assert [each.state().status for each in (timed, resting, hurried)] == ["failed", "cancelled", "failed"]
    assert (root.state().status, root.state().budget) == ("active", Budget(total=100, used=7))
    assert root.state().result_refs == (
        ResultRef(frame=timed.id, status="failed", handle=root.handles.attachments()[-1].id),
    )
    with expect_refusal(engine, errors.TokenRevokedError, frame=resting.id):
        engine.resume(token)
    assert other.state().is_live
    for now_s in (0.0, clock.now_s):
        clock.now_s = now_s
        assert engine.admin.sweep() == SweepResult()
    assert engine.admin.verify().ok


# Where frames are, and where they are not


def test_a_frame_has_its_place_among_the_others(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    assert (session.frames.list(), session.frames.stack()) == ([], [])
    root, child, leaf = _tree(session)
    second = session.frame("second", budget=5, inputs={"a": [1, None]})
    assert [each.id for each in session.frames.stack()] == [second.id]
    leaf.budget.use(1)
    assert [each.id for each in session.frames.stack()] == [root.id, child.id, leaf.id]
    assert [each.id for each in leaf.ancestry()] == [root.id, child.id, leaf.id]
    assert [each.status for each in session.frames.list()] == ["waiting", "waiting", "active", "active"]
    record = second.state()
    assert (record.scope, record.goal, record.inputs, record.depth) == (session.scope, "second", {"a": [1, None]}, 0)
    assert (record.root, record.parent, leaf.state().root) == (second.id, None, root.id)
    leaf.pop("failed", "no luck")
    assert [each.id for each in session.frames.list(status="live")] == [root.id, child.id, second.id]
    assert [each.id for each in session.frames.list(status="failed")] == [leaf.id]
    assert [each.id for each in session.frames.list(parent=root.id)] == [child.id]
    assert [each.id for each in session.frames.list(limit=2)] == [root.id, child.id]
    assert [each.id for each in session.frames.list(after=child.id)] == [leaf.id, second.id]
    assert [each.id for each in leaf.ancestry()] == [root.id, child.id, leaf.id]
    assert session.frames.get(leaf.id).state() == leaf.state()
    assert (leaf.state().summary, leaf.state().is_live, leaf.state().completed_us) != ("", True, None)
    assert leaf.id in repr(leaf)
    assert engine.session("s").frames.get(root.id).scope == session.scope


def test_a_frame_that_is_not_there_is_not_found(engine: holdfast.Engine) -> None:
    session, other = engine.create_session("s"), engine.create_session("other")
    for _ in range(3):
        other.record("user", "so that the ids differ")
    root, theirs = session.frame("root", budget=10), other.frame("theirs", budget=10)
    for nowhere in (*NOWHERE, theirs.id):
        with expect_refusal(engine, errors.FrameNotFound, session="s", frame=nowhere):
            session.frames.get(nowhere)
        with expect_refusal(engine, errors.ParentFrameNotFound, session="s", frame=nowhere):
            session.frame("child", budget=1, parent=nowhere)
    for no_id in NO_IDS:
        with expect_refusal(engine, errors.InvalidName if isinstance(no_id, str) else errors.InvalidArgument):
            session.frames.get(no_id)
    with expect_refusal(engine, errors.ScopeMismatch, frame=theirs.id):
        session.frame("child", budget=1, parent=theirs)
    for parent in (session, 5, root.state().budget):
        with expect_refusal(engine, errors.InvalidArgument):
            session.frame("child", budget=1, parent=parent)  # type: ignore[arg-type]
    with expect_refusal(engine, errors.InvalidArgument):
        root.frame("child", budget=1, parent=root)
    rival = engine.acting_as(tenant="rival").create_session("s")
    with expect_refusal(engine, errors.FrameNotFound):
        rival.frames.get(root.id)
    root.pop()
    with expect_refusal(engine, errors.AlreadyTerminal, frame=root.id, status="completed"):
        session.frame("child", budget=1, parent=root)


def test_a_parent_may_be_named_in_several_ways(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=10)
    named: tuple[Any, ...] = (root, root.id, session.frames.list()[0], root.state())
    children = [session.frame("child", budget=1, parent=parent) for parent in named]
    assert {child.state().parent for child in children} == {root.id}
    assert root.state().children == len(named)


def test_what_a_frame_is_about_can_change(engine: holdfast.Engine) -> None:
    root = engine.create_session("s").frame("root", budget=1, inputs=[1])
    before = contents(engine)
    root.update()
    root.update(goal="root")
    assert contents(engine) == before
    root.update(goal="another", context_hash="abc")
    assert (root.state().goal, root.state().inputs, root.state().context_hash) == ("another", [1], "abc")
    root.update(inputs={"b": 2})
    assert (root.state().goal, root.state().inputs) == ("another", {"b": 2})
    root.pop()
    assert root.state().inputs == {"b": 2}
    with expect_refusal(engine, errors.AlreadyTerminal):
        root.update(goal="too late")


# Ends


def test_a_frame_with_live_children_ends_only_with_them(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root, child, leaf = _tree(session)
    second = root.frame("second", budget=1)
    leaf.budget.use(40)
    with expect_refusal(engine, errors.ChildrenActive, frame=root.id, children=2):
        root.pop()
    with pytest.raises(errors.ChildrenActive, match=f"{child.id}.*cascade") as refusal:
        root.pop("failed", "no")
    assert second.id in refusal.value.some
    root.pop("completed", "all done", cascade=True)
    assert [each.state().status for each in (root, child, leaf, second)] == ["completed", *["cancelled"] * 3]
    assert (root.state().budget, child.state().budget) == (Budget(1_000, used=40), Budget(500, used=40))
    assert (session.frames.stack(), session.frames.list(status="live")) == ([], [])
    cascade = json.loads(session.events(limit=100)[-1].payload or b"")["cascade"]
    assert cascade.index(leaf.id) < cascade.index(child.id)
    assert engine.admin.verify().ok


def test_ending_the_same_way_twice_is_the_same_answer_and_another_way_is_none(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=1)
    child = root.frame("child", budget=1)
    root.pop("failed", "why", result={"a": 1}, cascade=True)
    before = contents(engine)
    root.pop("failed", "why", result={"a": 1})
    child.pop("cancelled")
    assert contents(engine) == before
    ways: list[tuple[Frame, Any, str, Any]] = [
        (root, "completed", "why", {"a": 1}),
        (root, "failed", "why not", {"a": 1}),
        (root, "failed", "why", {"a": 2}),
        (root, "failed", "why", None),
        (child, "cancelled", "why", None),
        (child, "completed", "", None),
    ]
    for frame, status, summary, result in ways:
        ended = "failed" if frame is root else "cancelled"
        with expect_refusal(engine, errors.AlreadyTerminal, frame=frame.id, status=ended):
            frame.pop(status, summary, result=result)


def test_nothing_is_done_in_a_frame_that_has_ended(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root, parent = session.frame("root", budget=10), session.frame("parent", budget=10)
    kept = root.budget.reserve("a call", 1)
    root.pop("cancelled")
    for do in (
        lambda: root.frame("child", budget=0),
        lambda: root.record("user", "text"),
        lambda: root.record_all([("user", "text")]),
        lambda: root.budget.reserve("a call", 0),
        lambda: root.budget.commit(kept, 1),
        lambda: root.budget.cancel(kept),
        lambda: root.budget.use(1),
        lambda: root.budget.grant(1),
        lambda: root.update(goal="another"),
        lambda: root.handles.add("url", "example"),
        lambda: root.suspend("rest"),
        root.reissue,
        root.revoke,
    ):
        with expect_refusal(engine, errors.AlreadyTerminal, frame=root.id, status="cancelled"):
            do()
    assert root.handles.attachments() == []
    assert parent.state().is_live


def test_whatever_ends_a_conversation_cancels_its_frames(desk: EngineDesk) -> None:
    ends: dict[str, Callable[[holdfast.Engine, Session], object]] = {
        "reset": lambda _, session: session.reset(),
        "closed": lambda _, session: session.end("done"),
        "timed out": lambda engine, _: engine.admin.sweep(),
    }
    for kind in FEWER_KINDS:
        clock = ManualClock()
        engine = desk.open(kind, name="ends", clock=clock)
        for name, end in ends.items():
            session = engine.create_session(name, idle_timeout_s=60 if name == "timed out" else None)
            root, child, leaf = _tree(session)
            asked = leaf.record("assistant", "", tool_calls=[{"name": "look"}])
            token = child.suspend("approval")
            if name == "timed out":  # what waits for a token is not idle
                clock.now_s += 60
                assert engine.admin.sweep() == SweepResult()
                engine.resume(token)
                clock.now_s += 60
            end(engine, session)
            assert [each.state().status for each in (root, child, leaf)] == ["cancelled"] * 3, name
            assert (session.frames.list(status="live"), engine.suspended(session=name)) == ([], [])
            with expect_refusal(
                engine, errors.TokenConsumed if name == "timed out" else errors.TokenRevokedError, frame=child.id
            ):
                engine.resume(token)
            with expect_refusal(engine, errors.CallAnswered if name == "reset" else errors.SessionClosedError):
                session.start_call(asked.tool_calls[0])
            if name != "reset":
                with expect_refusal(engine, errors.SessionClosedError):
                    session.frame("another", budget=1)
        assert engine.admin.verify().ok


def test_a_destroyed_session_has_no_frames(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=1)
    token = root.suspend("approval")
    session.destroy(offload=False)
    for look in (
        root.state,
        root.ancestry,
        root.handles.attachments,
        session.frames.list,
        session.frames.stack,
        session.recover,
        root.pop,
        lambda: session.frames.get(root.id),
        lambda: session.frame("another", budget=1),
        lambda: root.handles.parts("h1"),
    ):
        with expect_refusal(engine, errors.SessionDestroyedError):
            look()
    with expect_refusal(engine, errors.TokenInvalid):
        engine.resume(token)


# Keys and versions


def test_the_same_key_is_the_same_answer_and_nothing_is_done_twice(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=1_000, key="push")
    assert session.frame("root", budget=1_000, key="push").id == root.id
    kept = root.budget.reserve("a call", 10, key="reserve")
    asked = root.record("assistant", "", tool_calls=[{"name": "look"}], usage=Usage(1, 1), key="record")
    call = asked.tool_calls[0]
    child = root.frame("child", budget=10, key="child")
    root.start_call(call)
    handle = root.handles.add("url", "example", key="handle")
    token = child.suspend("approval")
    child.revoke("changed my mind", key="revoke")
    token = child.reissue()
    engine.resume(token)
    recovery = session.recover(key="recover")
    once: dict[str, Callable[[], object]] = {
        "push": lambda: session.frame("root", budget=1_000, key="push").id == root.id,
        "child": lambda: root.frame("child", budget=10, key="child").id == child.id,
        "reserve": lambda: root.budget.reserve("a call", 10, key="reserve") == kept,
        "record": lambda: (
            root.record("assistant", "", tool_calls=[{"name": "look"}], usage=Usage(1, 1), key="record") == asked
        ),
        "handle": lambda: root.handles.add("url", "example", key="handle") == handle,
        "revoke": lambda: child.revoke("changed my mind", key="revoke") is None,
        "recover": lambda: session.recover(key="recover").last_event_seq == recovery.last_event_seq,
        "commit": lambda: root.budget.commit(kept, 5, key="commit") is None,
        "use": lambda: root.budget.use(7, key="use") is None,
        "grant": lambda: root.budget.grant(3, key="grant") is None,
        "update": lambda: root.update(goal="another", key="update") is None,
        "pop": lambda: child.pop("completed", "done", key="pop") is None,
    }
    for again in once.values():
        assert again()
    before = contents(engine)
    for again in once.values():
        assert again()
    for key in once:
        with pytest.raises(errors.KeyConflict):
            root.budget.use(99, key=key)
        with pytest.raises(errors.KeyConflict):
            session.frame("yet another", budget=1, key=key)
    assert contents(engine) == before
    assert root.state().budget == Budget(1_003, used=2 + 5 + 7)


def test_a_stale_version_is_a_conflict(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=100, expect=1)
    kept = root.budget.reserve("a call", 1, expect=2)
    asked = root.record("assistant", "", tool_calls=[{"name": "look"}], expect=3)
    for do in (
        lambda: session.frame("another", budget=1, expect=3),
        lambda: root.frame("child", budget=1, expect=3),
        lambda: root.update(goal="another", expect=3),
        lambda: root.pop(expect=3),
        lambda: root.budget.reserve("a call", 1, expect=3),
        lambda: root.budget.commit(kept, 1, expect=3),
        lambda: root.budget.cancel(kept, expect=3),
        lambda: root.budget.use(1, expect=3),
        lambda: root.budget.grant(1, expect=3),
        lambda: root.handles.add("url", "example", expect=3),
        lambda: root.suspend("rest", expect=3),
        lambda: root.start_call(asked.tool_calls[0], expect=3),
        lambda: session.recover(expect=3),
    ):
        with expect_refusal(engine, errors.VersionConflict, expected=3, actual=4):
            do()
    root.suspend("rest", expect=4)
    for do in (lambda: root.reissue(expect=4), lambda: root.revoke(expect=4)):
        with expect_refusal(engine, errors.VersionConflict, expected=4, actual=5):
            do()
    root.pop(expect=5)
