"""Handles that a compaction leaves out: collapsed, out of packs, and back with page_in; what is Critical is never one of
them; a frame that has ended says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import errors
from holdfast.model.content import Text
from holdfast.model.history.handles import PRIORITY_SCORES
from holdfast.types import PriorityBased
from tests.support import figure

PAGE = "A page of the manual. " + "word " * 280


@pytest.fixture
def frame(engine: holdfast.Engine) -> holdfast.Frame:
    return engine.create_session("s").frame("Work.", budget=100_000)


def left_out(frame: holdfast.Frame, **options: Any) -> holdfast.Handle:
    """A handle that a compaction has left out."""
    handle = frame.handles.add("document", PAGE, priority="low", title="manual", **options)
    frame.record("user", "Go on.")
    frame.record("assistant", "Done.")
    plan = frame.context.compact(strategy=PriorityBased(), window=100)
    assert (plan.removed, plan.target_met) == ((handle.id,), True)
    return handle


def residency(frame: holdfast.Frame, handle: holdfast.Handle) -> str:
    (found,) = [each for each in frame.handles.attachments() if each.id == handle.id]
    assert found in frame.state().context_handles
    assert found == frame.handles.get(handle.id)
    assert found.is_in_context == (found.residency == "resident")
    return found.residency


def shows(frame: holdfast.Frame, handle: holdfast.Handle) -> bool:
    return f"[{handle.id}]" in str(frame.pack(budget=20_000, settle=False))


def test_a_handle_that_a_compaction_left_out_is_collapsed_and_comes_back(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    frame = session.frame("Work.", budget=100_000)
    handle = left_out(frame)
    assert residency(frame, handle) == "collapsed"
    assert not shows(frame, handle)
    assert frame.handles.parts(handle) == (Text(PAGE),)
    before = session.state().version
    back = frame.handles.page_in(handle)
    assert session.state().version == before + 1, "one event"
    assert back.residency == residency(frame, handle) == "resident"
    assert (back.digest, back.tokens, back.at) == (handle.digest, handle.tokens, handle.at)
    assert shows(frame, handle)
    assert frame.handles.parts(handle) == (Text(PAGE),)
    assert frame.handles.page_in(handle) == back
    assert session.state().version == before + 1, "what is resident stays as it is"
    assert engine.admin.verify().ok
    again = frame.context.compact(strategy=PriorityBased(), window=100)
    assert again.removed == (handle.id,)
    assert residency(frame, handle) == "collapsed"
    assert engine.admin.verify().ok


def test_what_is_resident_and_what_is_not_add_up(frame: holdfast.Frame) -> None:
    kept = frame.handles.add("document", PAGE, priority="high")
    handle = frame.handles.add("document", PAGE, priority="low")
    frame.record("user", "Go on.")
    frame.record("assistant", "Done.")
    before = frame.context.occupancy()
    assert before.resident_tokens >= kept.tokens + handle.tokens
    assert before.handles == 2
    assert frame.context.compact(strategy=PriorityBased(), window=400).removed == (handle.id,)
    after = frame.context.occupancy()
    assert after.collapsed_tokens == handle.tokens
    assert after.resident_tokens == before.resident_tokens - handle.tokens
    assert after.total_tokens == before.total_tokens
    frame.handles.page_out(handle)
    assert (frame.context.occupancy().collapsed_tokens, frame.context.occupancy().paged_tokens) == (0, handle.tokens)
    frame.handles.page_in(handle)
    assert frame.context.occupancy() == before or frame.context.occupancy().total_tokens == before.total_tokens


def test_another_title_leaves_it_collapsed_and_another_content_or_critical_brings_it_back(
    engine: holdfast.Engine, frame: holdfast.Frame
) -> None:
    handle = left_out(frame, source="manual.pdf")
    assert frame.handles.add("document", PAGE, source="manual.pdf").residency == "collapsed"
    assert frame.handles.replace(handle, title="The manual").residency == "collapsed"
    assert not shows(frame, handle)
    assert frame.handles.replace(handle, title="The manual").residency == "collapsed"
    assert frame.handles.replace(handle, priority="critical").residency == "resident"
    assert shows(frame, handle)
    frame.handles.replace(handle, priority="low")
    assert frame.context.compact(strategy=PriorityBased(), window=100).removed == (handle.id,)
    assert frame.handles.replace(handle, "Something new.").residency == "resident"
    assert shows(frame, handle)
    assert engine.admin.verify().ok


def test_it_stays_collapsed_when_its_frame_ends_and_in_a_copy(engine: holdfast.Engine, frame: holdfast.Frame) -> None:
    handle = left_out(frame)
    frame.pop("completed", "Done.")
    assert residency(frame, handle) == "collapsed"
    assert engine.admin.rebuild() is not None
    assert residency(frame, handle) == "collapsed"
    assert engine.admin.verify().ok


def test_the_residency_is_read_anew_from_the_log(frame: holdfast.Frame) -> None:
    handle = left_out(frame)
    for expected in ("collapsed", "resident"):
        frame._context.engine.cache.drop(frame.scope.stream)
        assert residency(frame, handle) == expected
        frame.handles.page_in(handle)


@settings(max_examples=figure(10, 300), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(tuple(PRIORITY_SCORES)), st.integers(20, 200)), min_size=1, max_size=8),
    st.data(),
)
def test_page_in_is_the_way_back_for_every_handle(handles: list[Any], data: st.DataObject) -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        frame = session.frame("Work.", budget=100_000)
        made = [frame.handles.add("document", "word " * size, priority=priority) for priority, size in handles]
        frame.record("assistant", "Done.")
        total = frame.context.occupancy().total_tokens
        critical = sum(each.tokens for each in made if each.priority == "critical")
        plan = frame.context.compact(
            strategy=PriorityBased(), window=data.draw(st.integers(critical + 40, critical + 800))
        )
        out = {each.id for each in frame.handles.attachments() if not each.is_in_context}
        assert out == {*plan.removed}
        assert frame.context.occupancy().total_tokens == total
        for name in data.draw(st.permutations(sorted(out))):
            frame.handles.page_in(name)
        assert frame.handles.attachments() == made
        assert engine.admin.verify().ok


def test_a_window_that_what_is_critical_does_not_fit_is_refused(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    frame = session.frame("Work.", budget=100_000)
    frame.handles.add("document", PAGE, priority="critical")
    low = frame.handles.add("document", PAGE, priority="low")
    frame.record("user", "Go on.")
    frame.record("assistant", "Done.")
    version = session.state().version
    for strategy in (
        PriorityBased(),
        holdfast.types.TruncateAt(1),
        holdfast.types.SummarizeOldest(1),
        lambda items, budget: items,
    ):
        with pytest.raises(errors.CriticalOverflow) as error:
            frame.context.compact(strategy=strategy, window=250)
        assert error.value.needed > error.value.budget == 250
    assert session.state().version == version
    assert frame.context.compact(strategy=PriorityBased(), window=error.value.needed + 50).removed == (low.id,)
    session.record("user", PAGE, priority="critical")
    session.record("assistant", "Done.")
    with pytest.raises(errors.CriticalOverflow):
        session.context.compact(strategy=PriorityBased(), window=250)


def test_what_a_pack_could_leave_out_of_its_tail_is_not_counted_as_critical(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "word " * 600, priority="critical")
    session.record("assistant", "word " * 300)
    session.record("user", "Go on.")
    session.record("assistant", "Done.")
    for number in range(8):
        session.working.set(f"thing_{number}", "word " * 60)
    pack = session.pack(budget=900, strategy=PriorityBased())
    assert pack.tokens.used <= 900


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_frame_that_has_ended_says_so(engine: holdfast.Engine, status: Any) -> None:
    session = engine.create_session("s")
    frame = session.frame("Work.", budget=1_000)
    frame.pop(status, "Done.")
    packs: list[Callable[[], Any]] = [
        frame.pack,
        lambda: session.pack(frame=frame),
        lambda: session.pack(frame=frame.id),
    ]
    for pack in packs:
        with pytest.raises(errors.FrameEnded) as error:
            pack()
        assert (error.value.frame, error.value.status) == (frame.id, status)
        assert f"{status}" in str(error.value)
        assert isinstance(error.value, errors.FrameNotFound)
    with pytest.raises(errors.FrameNotFound) as none:
        session.pack(frame="f99")
    assert not isinstance(none.value, errors.FrameEnded)
