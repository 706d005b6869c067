"""What events make of frames, whatever they are: nothing is raised, and what can hold does. And what a state tells."""

from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import codec
from holdfast.core import project
from holdfast.core.fold import fold_session, fold_session_with_frames
from holdfast.core.frames import fold as frames_fold
from holdfast.core.frames import recovery
from holdfast.core.frames.stack import content_of, find_ancestry, find_descendants, find_top, sort_by_age
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Data, Image, Opaque, Part, Text, ToolCall, ToolResult, Usage
from holdfast.model.events import Event
from holdfast.model.frames.events import (
    BudgetGranted,
    BudgetUsed,
    FramePopped,
    FramePushed,
    FrameResumed,
    FrameSuspended,
)
from holdfast.model.frames.frames import FrameLimits, FrameState, TokenWeights, frame_seq
from holdfast.model.history.events import HandleAdded
from holdfast.model.names import Scope
from holdfast.model.sessions.events import MessageRecorded, SessionCreated, SessionReset
from holdfast.model.state import OpenCall, SessionState
from tests.core import strategies
from tests.support import figure

SCOPE = Scope("tenant", "actor", "session")

_pushes = st.builds(
    FramePushed,
    goal=st.just("plan"),
    parent=st.none() | strategies.frame_ids,
    budget=st.integers(0, 100),
    limits=st.just(FrameLimits()),
    deadline_us=st.none() | st.integers(0, 100),
)
_events = st.lists(st.tuples(_pushes | strategies.frame_events | strategies.events, st.booleans()), max_size=25)


@settings(max_examples=figure(75, 10_000))
@given(made=_events, times=st.lists(st.integers(0, 200), min_size=25, max_size=25))
def test_whatever_happens_frames_are_a_forest_of_what_lives(made: list[tuple[Event, bool]], times: list[int]) -> None:
    """Also events that no command makes, and those whose payload is gone, which only have a type."""
    state = fold_session(SessionState(), SessionCreated(), SessionCreated.name, 0)
    for (event, erased), time_us in zip(made, times, strict=False):
        before = copy.deepcopy(state)
        known = None if erased else event
        after, changed = fold_session_with_frames(state, known, event.name, time_us)
        list(project.project_event(SCOPE, state, known, event.name, time_us, changed))
        assert {each for each in changed if each in after.frames} == {
            each.id for each in changed.values() if each.is_live
        }
        assert state == before
        state = after
        check_forest(state)


def check_forest(state: SessionState) -> None:
    for name, frame in state.frames.items():
        assert name == frame.id
        assert frame.is_live
        assert frame_seq(name) <= frame.touched <= state.version
        assert frame.parent is None or frame_seq(frame.parent) < frame_seq(name)
        parent = state.frames.get(frame.parent or "")
        assert parent is None or (parent.depth + 1, parent.root) == (frame.depth, frame.root)
        above = find_ancestry(state.frames, name)
        assert above[-1] is frame
        assert len(above) <= frame.depth + 1
        assert all(frame in find_descendants(state.frames, each.id) for each in above[:-1] if each.children)
    top = find_top(state.frames)
    assert (top is None) == all(frame.status == "suspended" for frame in state.frames.values())
    recovery.find_pending_work(state, 0)
    stored = codec.decode(codec.encode(state), SessionState)
    assert stored == state
    assert find_top(stored.frames) == top
    assert recovery.find_pending_work(stored, 0) == recovery.find_pending_work(state, 0)


def folded(*events: tuple[Event, int] | Event) -> SessionState:
    state = fold_session(SessionState(), SessionCreated(), SessionCreated.name, 0)
    for each in events:
        event, time_us = each if isinstance(each, tuple) else (each, 1)
        state = fold_session(state, event, event.name, time_us)
    return state


def push(parent: str | None = None, budget: int = 100, deadline_us: int | None = None) -> FramePushed:
    return FramePushed(goal="plan", parent=parent, budget=budget, limits=FrameLimits(), deadline_us=deadline_us)


def suspended(frame: str, *cascade: str) -> FrameSuspended:
    return FrameSuspended(frame=frame, reason="wait", digest="d", by="me", cascade=cascade)


def test_what_a_child_grew_by_and_used_is_settled_once() -> None:
    state = folded(
        push(),
        push("f2", 30),
        BudgetGranted(frame="f3", amount=20),
        BudgetUsed(frame="f3", tokens=70, usage=Usage(60, 10)),
    )
    assert state.frames["f2"].budget.available == 50
    state = fold_session(state, FramePopped(frame="f3", status="completed"), FramePopped.name, 1)
    root = state.frames["f2"]
    assert (root.budget.used, root.budget.delegated, root.below, root.children) == (70, 0, Usage(60, 10), 0)
    again = fold_session(state, FramePopped(frame="f3", status="completed"), FramePopped.name, 1)
    assert again.frames == state.frames


def test_what_is_used_far_below_comes_up_to_the_root() -> None:
    deep = [BudgetUsed(frame=each, tokens=1, usage=Usage(1)) for each in ("f2", "f3", "f4")]
    ends = [FramePopped(frame=each, status="completed") for each in ("f4", "f3")]
    for ways in (ends, [FramePopped(frame="f3", status="completed", cascade=("f4",))]):
        root = folded(push(), push("f2"), push("f3"), *deep, *ways).frames["f2"]
        assert (root.budget.used, root.usage, root.below) == (3, Usage(1), Usage(2))


def test_usage_stays_a_whole_number_that_can_be_kept() -> None:
    most = BudgetUsed(frame="f3", tokens=limits.WHOLE_NUMBER, usage=Usage(limits.WHOLE_NUMBER))
    own = msgspec.structs.replace(most, frame="f2")
    state = folded(push(), push("f2"), most, most, own, FramePopped(frame="f3", status="failed"))
    root = state.frames["f2"]
    assert root.budget.used == root.below.input_tokens == root.usage.input_tokens == limits.WHOLE_NUMBER
    assert root.budget.is_overdrawn
    assert root.budget.available == 0


def test_the_top_is_the_same_however_the_state_was_made() -> None:
    """Ten is newer than nine, also where ids are sorted as text."""
    nobody = [BudgetUsed(frame="f99", tokens=1)] * 6
    woken = folded(
        *nobody, push(), push("f8"), push("f8"), suspended("f8", "f9", "f10"), FrameResumed(frame="f8", by="me")
    )
    stored = codec.decode(codec.encode(woken), SessionState)
    for state in (woken, stored):
        top = find_top(state.frames)
        assert top is not None
        assert top.id == "f10"


def test_nobody_has_more_time_than_who_waits_for_him() -> None:
    """The child slept first and longer, the parent had less left when both are awake again."""
    state = folded(
        (push(deadline_us=10), 0),
        (push("f2", deadline_us=10), 0),
        (suspended("f3"), 1),
        (suspended("f2"), 8),
        (FrameResumed(frame="f3", by="me"), 100),
        (FrameResumed(frame="f2", by="me"), 101),
    )
    assert [state.frames[each].deadline_us for each in ("f2", "f3")] == [103, 103]


def test_a_reset_ends_all_frames_and_leaves_nothing_pending() -> None:
    state = folded(push(), push("f2"), push(), suspended("f4"), SessionReset(reason="again"))
    assert state.frames == {}
    assert recovery.find_pending_work(state, 0) == []


# What is left to do


def said(role: str, text: str = "", frame: str | None = None, **more: object) -> MessageRecorded:
    fields = {
        "role": role,
        "content": (Text(text),) if text else (),
        "tokens": 1,
        "counter": "c",
        "frame": frame,
        **more,
    }
    return msgspec.convert(fields, MessageRecorded)


def kinds(state: SessionState) -> list[tuple[str, str | None]]:
    return [(each.kind, each.frame) for each in recovery.find_pending_work(state, 0)]


CALLS = [ToolCall("c3_0", "look", {}), ToolCall("c3_1", "look", {})]


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ((push(),), []),
        ((push(), push("f2")), [("waiting_for_subcall", "f2")]),
        ((push(), push("f2"), FramePopped(frame="f3", status="completed")), []),
        ((push(), push("f2"), FramePopped(frame="f3", status="failed")), [("unhandled_error", "f2")]),
        ((push(), push("f2"), FramePopped(frame="f3", status="failed"), said("assistant", "I see.", "f2")), []),
        ((push(), suspended("f2")), [("waiting_for_user", "f2")]),
        ((push(), push("f2"), suspended("f2", "f3")), [("waiting_for_subcall", "f2"), ("waiting_for_user", "f2")]),
        ((push(), said("assistant", "Which?", "f2")), [("waiting_for_user", "f2")]),
        ((push(), said("assistant", "Which?", "f2"), said("user", "This.", "f2")), []),
        ((push(), said("assistant", "Which?", "f2"), said("user", "Hello?")), [("waiting_for_user", "f2")]),
        ((said("assistant", "Which?"), push(), said("user", "Go on.", "f3")), [("waiting_for_user", None)]),
        ((push(), said("assistant", "Which?", "f2"), push("f2")), [("waiting_for_subcall", "f2")]),
        ((push(), said("user", "Which?", "f2")), []),
        (
            (push(), said("assistant", "", "f2", tool_calls=CALLS)),
            [("tool_not_started", "f2"), ("tool_not_started", "f2")],
        ),
    ],
)
def test_what_is_left_is_told_from_the_state(events: tuple[Event, ...], left: list[tuple[str, str | None]]) -> None:
    assert kinds(folded(*events)) == left


def test_a_call_that_was_started_is_of_unknown_outcome_until_its_result_is_there() -> None:
    state = msgspec.structs.replace(folded(push()), open_calls=(OpenCall("c3_0", "pay", None, "f2", "key", 2),))
    (found,) = recovery.find_pending_work(state, 0)
    assert (found.kind, found.frame, found.call, found.key) == ("tool_in_progress", "f2", "c3_0", "key")
    results = (ToolResult("c3_0", (Text("no"),), is_error=True),)
    (failed,) = recovery.find_pending_work(
        fold_session(state, said("tool", frame="f2", tool_results=results), MessageRecorded.name, 1),
        0,
    )
    assert (failed.kind, failed.frame, failed.call) == ("unhandled_error", "f2", "c3_0")


@pytest.mark.parametrize("before", [0, limits.ERRORS_KEPT])
def test_only_so_many_failures_are_remembered(before: int) -> None:
    old = tuple(f"c9_{each}" for each in range(before))
    results = tuple(ToolResult(f"c3_{each}", (Text("no"),), is_error=each != 1) for each in range(3))
    failed = frames_fold.add_failures(old, said("tool", tool_results=results))
    assert failed == (*old, "c3_0", "c3_2")[-limits.ERRORS_KEPT :]


# Questions


@pytest.mark.parametrize("text", ["Which one?", "Please tell me your order number."])
def test_only_the_assistant_asks_and_not_where_it_calls_a_tool(text: str) -> None:
    assert frames_fold.is_question_open(False, said("assistant", text))
    assert not frames_fold.is_question_open(True, said("user", text))
    assert not frames_fold.is_question_open(True, said("assistant", text, tool_calls=CALLS))
    assert not frames_fold.is_question_open(True, said("assistant", "Done."))


@pytest.mark.parametrize(
    ("parts", "asks"),
    [
        ((Text("Which"), Text("one?")), True),
        ((Text("Which one?"), Text("This.")), False),
        ((Text("Which one?"), Text("\n")), True),
        ((Body(BlobRef("0" * 64, 9), "the beginning of a long text?"),), False),
        ((Text("Which one?"), Image(url="https://example.org/a.png")), True),
        ((Data({"a": "b?"}),), False),
    ],
)
def test_the_last_text_counts(parts: tuple[Part, ...], asks: bool) -> None:
    event = MessageRecorded(role="assistant", content=parts, tokens=1, counter="c")
    assert frames_fold.is_question_open(False, event) is asks


@pytest.mark.parametrize("before", [False, True])
def test_what_says_nothing_leaves_a_question_as_it_is(before: bool) -> None:
    signed = Opaque("anthropic", '{"type":"thinking","thinking":"Which one?"}')
    for parts in ((), (Text(" \n"),), (signed,)):
        event = MessageRecorded(role="assistant", content=parts, tokens=1, counter="c")
        assert frames_fold.is_question_open(before, event) is before
    assert frames_fold.is_question_open(before, said("system", "Be brief.")) is before


# What tokens count


@settings(max_examples=figure(100, 10_000))
@given(
    usage=strategies.usages,
    weights=st.builds(TokenWeights, **dict.fromkeys(TokenWeights.__struct_fields__, st.integers(0, 9_000))),
)
def test_a_model_call_takes_what_its_tokens_weigh_rounded_up(usage: Usage, weights: TokenWeights) -> None:
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    exact = (
        max(0, usage.input_tokens - cached) * weights.input
        + usage.cache_read_tokens * weights.cache_read
        + usage.cache_write_tokens * weights.cache_write
        + usage.output_tokens * weights.output
    )
    assert 0 <= weights.count_spend(usage) * 1_000 - exact < 1_000
    more = msgspec.structs.replace(usage, output_tokens=usage.output_tokens + 1)
    assert weights.count_spend(more) >= weights.count_spend(usage)
    assert weights.count_spend(msgspec.structs.replace(usage, reasoning_tokens=0)) == weights.count_spend(usage)


def test_by_default_every_token_counts_as_one() -> None:
    assert (
        TokenWeights().count_spend(Usage(100, 20, cache_read_tokens=60, cache_write_tokens=30, reasoning_tokens=5))
        == 120
    )
    assert TokenWeights(cache_read=100).count_spend(Usage(1, 0, cache_read_tokens=1)) == 1
    assert TokenWeights(cache_read=0, input=0).count_spend(Usage(1, 0, cache_read_tokens=1)) == 0


# What a handle stands for


def test_a_handle_has_the_content_of_the_event_it_points_to() -> None:
    own = HandleAdded(frame="f2", kind="url", content=(Text("x"),), tokens=1, counter="c", digest="d")
    assert content_of(own) == (Text("x"),)
    popped = FramePopped(frame="f2", status="completed", result=(Data(1),))
    assert content_of(popped) == (Data(1),)
    assert content_of(msgspec.structs.replace(popped, summary="so")) == (Text("so"), Data(1))
    assert content_of(None) == ()


def test_frames_by_age_are_in_the_order_in_which_they_were_pushed() -> None:
    frames = {
        each: FrameState(id=each, root=each, goal="plan", created_us=0, touched=1, inputs_at=1)
        for each in ("f10", "f9", "f100", "f2")
    }
    assert [frame.id for frame in sort_by_age(frames)] == ["f2", "f9", "f10", "f100"]
