"""Whatever agents do, and however their histories are shortened: what is shown is what was said, or stands for it.

Laws: between two boundaries every rendering extends the last; calls stand with their results in every rendering; units are
never split, and order is kept; the transcript is untouched; a plan does what it says, and then there is nothing more to do;
what is paged out comes back to the byte; the table of pieces is bounded by the view, and each of its rows stays; nothing of
what was erased is anywhere; the log leads to the same state, and to the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

import holdfast
from holdfast import errors
from holdfast.core import upcast
from holdfast.model import limits
from holdfast.model.content import Text
from holdfast.model.history.events import ContextCompacted, HandleReplaced
from holdfast.model.history.plans import Classic, Faithful, Frugal, PlanPolicy, Strategy, SummarizeOldest, TruncateAt
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.rows import HandleRow
from holdfast.model.sessions.messages import MessageGroup
from tests.core.plan_inputs import make_prose
from tests.property.agent_histories import SPOOLING, HistoryPlayer, render_all
from tests.property.agent_steps import draw_day
from tests.property.session_model import CharCounter, ManualClock
from tests.property.store_tools import Kind, rows_of_table, session_events, store_of_kind
from tests.support import CountingIds, figure

IN_MEMORY = figure(20, 5_000)
ON_SQLITE = figure(5, 1_000)
ON_POSTGRES = figure(2, 200)
OTHERS = figure(8, 500)

seeds = st.integers(0, 1 << 32)


@pytest.fixture(scope="module", autouse=True)
def small_steps() -> Iterator[None]:
    """Short histories still cross many snapshots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SNAPSHOT_EVERY", 3)
        yield


def opened(url: str, **more: Any) -> holdfast.Engine:
    return holdfast.open(
        url, **{"clock": ManualClock(), "ids": CountingIds(), "counter": CharCounter(), "spooling": SPOOLING, **more}
    )


def play(kind: Kind, seed: int) -> None:
    clock, ids = ManualClock(), CountingIds()
    day = draw_day(seed)
    note(repr(day))
    with ExitStack() as stack:
        url = stack.enter_context(store_of_kind(kind))
        engine = stack.enter_context(opened(url, clock=clock, ids=ids))

        def again() -> holdfast.Engine:
            if kind == "memory":
                return engine  # with it goes all that it holds
            return stack.enter_context(opened(url, clock=clock, ids=ids, cached_streams=1))

        played = HistoryPlayer(again, clock)
        for step in day:
            played.give(step)
        played.check_all()
        played.close()


@settings(max_examples=IN_MEMORY)
@given(seeds)
@example(46_857)  # results that came too late, whose note stands in the fence
@example(1_494)  # results whose snip has the same text as their preview
def test_what_is_shown_is_what_was_said(seed: int) -> None:
    play("memory", seed)


@settings(max_examples=ON_SQLITE)
@given(seeds)
def test_what_is_shown_is_what_was_said_on_sqlite(seed: int) -> None:
    play("sqlite", seed)


@settings(max_examples=ON_POSTGRES)
@given(seeds)
def test_what_is_shown_is_what_was_said_on_postgres(seed: int) -> None:
    play("postgres", seed)


# Boundary after boundary


def turn(place: Any, number: int, length: int = 300) -> None:
    place.record("user", make_prose(length, f"question{number}"))
    (call,) = place.record("assistant", None, tool_calls=[{"name": "read", "args": {"n": number}}]).tool_calls
    place.result(call, make_prose(length, f"result{number}"))
    place.record("assistant", make_prose(length // 3, f"answer{number}"))


@pytest.mark.parametrize(
    "how",
    [SummarizeOldest(4), TruncateAt(4), Faithful(), Frugal(least=0), Classic()],
    ids=lambda how: how.__class__.__name__,
)
def test_fifty_boundaries_in_a_row_stay_small_and_stand_for_all(how: Strategy | PlanPolicy) -> None:
    session: Any = opened("memory:", spooling=None).create_session("s")
    for number in range(50):
        turn(session, number)
        boundary(session, how, 4_000)
        items = session.context.view().items
        summaries = [item for item in items if isinstance(item, Summary)]
        assert len(summaries) <= 1
        assert sum(item.tokens for item in summaries) <= 4_000 * Faithful().summary_share + 100
        told = sum(item.messages if isinstance(item, Summary) else len(item.messages) for item in items)
        assert told == session.state().messages == 4 * (number + 1)
        shown = sum(each.tokens for each in session.messages(limit=1_000) if each.seq in seqs(items))
        assert session.context.occupancy().collapsed_tokens == session.state().tokens - shown
    made = [upcast.decode_event(event) for event in session_events(session)]
    folds = [event.fold for event in made if isinstance(event, ContextCompacted) and event.fold is not None]
    assert len(folds) > 5
    named = [seq for each in folds for seq in each.messages]
    assert len({*named}) == len(named), "each message leaves once"
    assert len(session.state().summaries) == 1


def seqs(items: Sequence[HistoryItem]) -> set[int]:
    return {message.seq for item in items if isinstance(item, MessageGroup) for message in item.messages}


def boundary(place: Any, how: Strategy | PlanPolicy, window: int, **more: Any) -> Any:
    options = {"policy": how} if isinstance(how, PlanPolicy) else {"strategy": how}
    return place.context.compact(window=window, **options, **more)


@settings(max_examples=OTHERS)
@given(
    st.integers(0, 40),
    st.sampled_from([SummarizeOldest(2), TruncateAt(3), Faithful(), Frugal(), Classic()]),
    st.booleans(),
)
def test_what_is_too_long_to_be_looked_at_is_folded_until_it_can_be(
    messages: int, how: Strategy | PlanPolicy, in_frame: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch, opened("memory:") as engine:
        patch.setattr(limits, "LIVE_MESSAGES", 10)
        session: Any = engine.create_session("s")
        place: Any = session.frame("look", budget=10) if in_frame else session
        for number in range(messages):
            place.record("user", make_prose(120, f"mark{number}x"))
        if messages > 10:
            with pytest.raises(errors.TooLarge):
                place.context.view()
        else:
            before = render_all(place.context.view())
        boundary(place, how, 1_000_000)
        history = place.context.view()
        told = sum(item.messages if isinstance(item, Summary) else len(item.messages) for item in history.items)
        assert told == messages
        assert messages <= 10 or isinstance(history.items[0], Summary)
        assert messages > 10 or how not in (Faithful(), Frugal(), Classic()) or render_all(history) == before
        assert engine.admin.verify().problems == ()


# Conversations are kept apart, and handles keep their ids


@settings(max_examples=OTHERS)
@given(st.lists(st.integers(0, 2), min_size=3, max_size=9), st.permutations(range(3)))
def test_conversations_are_kept_apart(turns: list[int], order: list[int]) -> None:
    with opened("memory:") as engine:
        session: Any = engine.create_session("s")
        frame = session.frame("look", budget=100_000)
        places = [session, frame, frame.frame("closer", budget=1_000)]
        for number, where in enumerate((*turns, 0, 1, 2)):
            turn(places[where], number)
        for shortened in order:
            before = [render_all(place.context.view()) for place in places]
            assert not boundary(places[shortened], Classic(snip=0.01, large=50, excerpt=5), 500).empty
            boundary(places[shortened], TruncateAt(0), 10_000)
            for number, place in enumerate(places):
                assert (render_all(place.context.view()) == before[number]) == (number != shortened)
                said = {*map(int, re.findall(r"result(\d+)", repr(place.context.view())))}
                assert {(*turns, 0, 1, 2)[each] for each in said} <= {number}


contents = st.sampled_from([make_prose(200), make_prose(2_900), make_prose(5_000)]) | st.builds(
    lambda rows: {"about": make_prose(100), "rows": rows}, st.lists(st.integers(-9, 9), max_size=5)
)


@settings(max_examples=OTHERS)
@given(
    st.lists(contents, min_size=1, max_size=4), contents, st.integers(0, 3), st.sampled_from(["durable", "semantic"])
)
def test_a_handle_of_a_frame_goes_out_and_comes_back_as_it_was(
    given_: list[Any], other: Any, pick: int, tier: str
) -> None:
    with opened("memory:") as engine:
        frame: Any = engine.create_session("s").frame("look", budget=10)
        handles = [frame.handles.add("document", each, title=f"t{at}") for at, each in enumerate(given_)]
        handle = handles[pick % len(handles)]
        whole = frame.handles.parts(handle)
        out = frame.handles.page_out(handle, tier=tier, key="out")
        assert frame.handles.page_out(handle, tier=tier, key="out") == out
        assert (out.id, out.residency, out.tier, out.digest) == (handle.id, "paged_out", tier, handle.digest)
        assert frame.handles.parts(handle) == whole
        back = frame.handles.page_in(handle)
        assert (back.residency, back.tier, back.digest, back.tokens) == ("resident", None, handle.digest, handle.tokens)
        assert frame.handles.parts(handle) == whole
        replaced = frame.handles.replace(handle, other, key="other")
        assert frame.handles.replace(handle, other, key="other") == replaced
        assert replaced.id == handle.id
        ids = [each.id for each in frame.handles.attachments()]
        assert sorted(ids) == sorted(each.id for each in handles), "replacing makes no new one"
        new = frame.handles.add("document", "new")
        assert new.id not in ids
        events = [upcast.decode_event(event) for event in session_events(engine.session("s"))]
        assert sum(isinstance(event, HandleReplaced) for event in events) >= 2
        assert len(list(rows_of_table(engine.store, HandleRow))) == len(handles) + 1
        assert engine.admin.verify().problems == ()


def test_what_is_out_of_view_is_not_moved() -> None:
    session: Any = opened("memory:").create_session("s")
    for number in range(4):
        turn(session, number)
    pieces = session.handles.list()
    boundary(session, SummarizeOldest(4), 100_000)
    before = session.state()
    for move in (session.handles.page_out, session.handles.page_in):
        with pytest.raises((errors.InvalidArgument, errors.HandleNotFound)):
            move(pieces[0])
    assert session.state() == before
    session.reset("again")
    with pytest.raises((errors.InvalidArgument, errors.HandleNotFound)):
        session.handles.page_out(pieces[-1])
    assert session.state().views == {}


def test_what_is_shorter_than_the_line_for_it_is_not_paged_out() -> None:
    session: Any = opened("memory:").create_session("s")
    (call,) = session.record("assistant", None, tool_calls=[{"name": "read", "args": {}}]).tool_calls
    session.result(call, "No.")
    before = session.state()
    (piece,) = session.handles.list()
    with pytest.raises(errors.InvalidArgument):
        session.handles.page_out(piece)
    assert session.state() == before


def test_a_spooled_text_comes_back_to_the_byte() -> None:
    session: Any = opened("memory:").create_session("s")
    said = make_prose(5_000, "é")
    message = session.record("user", said)
    (piece,) = session.handles.list()
    assert piece.residency == "spooled_out"
    assert said not in session.context.view().messages[0].text
    session.handles.page_in(piece)
    assert session.context.view().messages[0].content == (Text(said),)
    assert session.messages() == [message], "the transcript is as it was"
