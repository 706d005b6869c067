"""Spans of any events: an open one has no end, an ended one has, and each lies within the one around it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.sessions.activity import LABEL_CHARS, ActivityFold, EventHeader
from holdfast.model.content import Text, ToolCall, ToolResult, Usage
from holdfast.model.events import Event
from holdfast.model.frames.events import FramePopped, FramePushed, FrameResumed, FrameSuspended
from holdfast.model.frames.frames import FrameLimits
from holdfast.model.packs.events import PackRecorded
from holdfast.model.sessions.activity import Activity
from holdfast.model.sessions.events import (
    CallStarted,
    MessageRecorded,
    SessionClosed,
    SessionReset,
    TurnEnded,
    TurnTaken,
)
from holdfast.model.sessions.turns import Lease
from holdfast.model.state import OpenCall, SessionState
from tests.support import figure

EXAMPLES = figure(200, 20_000)
NOW_US = 1_000_000
FRAMES = (None, "f2", "f5")


def message(role: Any, *, frame: str | None = None, calls: tuple[str, ...] = (), **fields: Any) -> MessageRecorded:
    tool_calls = tuple(ToolCall(each, "look", {}) for each in calls)
    text = (Text("words"),) if role in ("user", "assistant") else ()
    fields = {"content": text, "tokens": 1, "counter": "c", "tool_calls": tool_calls, "frame": frame, **fields}
    return MessageRecorded(role=role, **fields)


def result(call: str, **fields: Any) -> MessageRecorded:
    failed = fields.pop("is_error", False)
    return message("tool", tool_results=(ToolResult(call, (Text("yes"),), failed),), **fields)


def fold(events: list[Event | None], state: SessionState = SessionState(), step_us: int = 10) -> dict[str, Activity]:
    """The spans of events that come one after another, from seq 2 on."""
    made = ActivityFold()
    for number, event in enumerate(events):
        made.add(EventHeader(number + 2, number * step_us, f"c{number}"), event)
    spans = made.finish(state, {}, NOW_US)
    assert [each.seq for each in spans] == sorted((each.seq for each in spans), reverse=True)
    return {each.id: each for each in spans}


frames = st.sampled_from(FRAMES)
calls = st.sampled_from(["c3_0", "c4_0", "c4_1"])
any_event: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.builds(message, st.sampled_from(["user", "assistant", "system"]), frame=frames),
    st.builds(
        lambda frame, names: message("assistant", frame=frame, calls=names), frames, st.tuples(calls) | st.just(())
    ),
    st.builds(message, st.just("assistant"), frame=frames, skipped=st.sampled_from(["length", "refusal"])),
    st.builds(result, calls, frame=frames, is_error=st.booleans(), closing=st.booleans()),
    st.builds(CallStarted, call=calls, key=st.just("key"), attempt=st.integers(1, 3), frame=frames),
    st.builds(FramePushed, goal=st.just("goal"), budget=st.just(9), limits=st.just(FrameLimits()), parent=frames),
    st.builds(FramePopped, frame=st.sampled_from(["f2", "f5"]), status=st.sampled_from(["completed", "failed"])),
    st.builds(
        FrameSuspended, frame=st.sampled_from(["f2", "f5"]), reason=st.just("r"), digest=st.just("d"), by=st.just("b")
    ),
    st.builds(FrameResumed, frame=st.sampled_from(["f2", "f5"]), by=st.just("b")),
    st.builds(TurnTaken, owner=st.just("w"), until_us=st.just(5), frame=frames),
    st.builds(TurnEnded, number=st.just(2), frame=frames),
    st.builds(SessionReset, reason=st.just("again")),
    st.builds(SessionClosed, reason=st.just("done")),
    st.builds(
        PackRecorded,
        frame=frames,
        at=st.just(1),
        context_hash=st.just(""),
        budget=st.just(9),
        used=st.just(1),
        manifest=st.just(b""),
        reply=st.integers(0, 8),
    ),
)


@given(st.lists(st.tuples(any_event, st.integers(0, 100)), max_size=25), st.sets(calls))
@settings(max_examples=EXAMPLES)
def test_an_open_span_has_no_end_and_every_span_lies_within_its_parent(
    events: list[tuple[Any, int]], open_calls: set[str]
) -> None:
    made = ActivityFold()
    for number, (event, time_us) in enumerate(events):  # a clock may be set back
        made.add(EventHeader(number + 2, time_us, f"c{number // 2}"), event)
    state = SessionState(open_calls=tuple(OpenCall(name, "look") for name in sorted(open_calls)))
    spans = made.finish(state, {}, NOW_US)
    by_id: dict[str, Activity] = {each.id: each for each in spans}
    for span in spans:
        assert span.end_us is None or span.end_us >= span.start_us
        if span.end_us is None:
            assert span.end_seq == 0
            assert span.status in ("running", "not_started", "unknown", "suspended", "waiting")
        else:
            assert span.status in ("done", "failed", "cancelled", "unknown")
        around = by_id.get(span.parent)
        if around is not None:
            assert around.start_us <= span.start_us
            assert around.end_us is None or (span.end_us is not None and span.end_us <= around.end_us)


def test_a_turn_is_from_the_question_to_the_reply_that_ends_it() -> None:
    spans = fold(
        [
            message("user"),
            message("assistant", calls=("c3_0",), usage=Usage(100, 5)),
            CallStarted(call="c3_0", key="k-1"),
            result("c3_0"),
            message("assistant", usage=Usage(200, 5)),
            message("user"),
        ]
    )
    turn = spans["t2"]
    assert (turn.status, turn.start_us, turn.end_us, turn.end_seq, turn.tokens) == ("done", 0, 40, 6, 310)
    assert {each.id for each in spans.values() if each.parent == "t2"} == {"m3", "c3_0", "m6"}
    tool = spans["c3_0"]
    assert (tool.status, tool.key, tool.start_us, tool.end_us) == ("done", "k-1", 20, 30)
    assert (spans["t7"].status, spans["t7"].end_us) == ("waiting", None)


def test_open_calls_have_the_status_that_recovery_gives_them() -> None:
    events: list[Event | None] = [
        message("user"),
        message("assistant", calls=("c3_0", "c3_1", "c3_2")),
        CallStarted(call="c3_0", key="a"),
        TurnTaken(owner="worker", until_us=2 * NOW_US),
        CallStarted(call="c3_1", key="b", turn=5),
    ]
    state = SessionState(
        open_calls=(
            OpenCall("c3_0", "look", key="a", attempts=1),
            OpenCall("c3_1", "look", key="b", attempts=1, turn=5),
            OpenCall("c3_2", "look"),
        ),
        leases={"": Lease(5, "worker", 2 * NOW_US)},
    )
    spans = fold(events, state)
    assert [spans[name].status for name in ("c3_0", "c3_1", "c3_2")] == ["unknown", "running", "not_started"]
    assert (spans["t2"].status, spans["t2"].owner, spans["c3_1"].owner) == ("unknown", "worker", "worker")


def test_a_call_that_was_closed_after_its_start_stays_unknown() -> None:
    spans = fold(
        [
            message("assistant", calls=("c2_0", "c2_1")),
            CallStarted(call="c2_0", key="a"),
            result("c2_0", closing=True, is_error=True),
            result("c2_1", closing=True, is_error=True),
        ]
    )
    assert (spans["c2_0"].status, spans["c2_1"].status) == ("unknown", "cancelled")
    assert "may have taken effect" in spans["c2_0"].note
    assert spans["c2_0"].end_us is not None


def test_a_frame_that_outlives_its_turn_is_no_part_of_it() -> None:
    push = FramePushed(goal="g" * 500, budget=9, limits=FrameLimits())
    inside = fold([message("user"), push, FramePopped(frame="f3", status="completed"), message("assistant")])
    assert (inside["f3"].parent, inside["f3"].status) == ("t2", "done")
    assert len(inside["f3"].label) == LABEL_CHARS
    outside = fold([message("user"), push, message("assistant"), FramePopped(frame="f3", status="failed")])
    assert (outside["f3"].parent, outside["f3"].status) == ("", "failed")


def test_a_suspension_ends_when_it_is_resumed_or_its_frame_ends() -> None:
    push = FramePushed(goal="g", budget=9, limits=FrameLimits())
    rest = FrameSuspended(frame="f2", reason="approval", digest="d", by="b", resumable_by=("boss",), expires_us=5)
    waiting = fold([push, rest])["s3"]
    assert (waiting.status, waiting.end_us, waiting.resumable_by, waiting.parent) == (
        "suspended",
        None,
        ("boss",),
        "f2",
    )
    assert waiting.note == "its token has expired"
    assert fold([push, rest, FrameResumed(frame="f2", by="boss")])["s3"].status == "done"
    assert fold([push, rest, FramePopped(frame="f2", status="cancelled")])["s3"].status == "cancelled"


def test_what_was_erased_has_no_span() -> None:
    assert fold([None, None]) == {}
    assert set(fold([None, message("assistant"), None])) == {"m3"}
