"""What careless callers get to see at the entrances of views: typed errors with advice, and nothing stored; or an answer,
and a sound state."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import errors
from tests.edges.engines import EngineDesk, contents, expect_refusal
from tests.edges.hostile_inputs import check_inputs
from tests.edges.surface import call, find_method, list_parameters
from tests.edges.view_inputs import PIECE, VIEW_INPUTS
from tests.support import figure

SAMPLE = figure(97, 1)
"""One value in so many is handed in, other ones at each entrance."""
METHODS = (
    "context.view",
    "context.render",
    "context.plan",
    "context.compact",
    "handles.list",
    "context.occupancy",
    "handles.get",
    "handles.page_out",
    "handles.page_in",
    "handles.read",
)

ODD_HANDLES = (
    "h1_0",
    "h0_0",
    "h2",
    "h2_",
    "h2_00",
    "h2_1",
    "h2_-1",
    "h-2_0",
    "h2_0_0",
    "H2_0",
    "h２_0",
    "h2_0 ",
    "h02_0",
    f"h{2**70}_0",
    f"h2_{2**70}",
    "h9" * 100,
)


def test_every_argument_of_every_method_has_an_entrance() -> None:
    """So that what is added is asked, too."""
    methods = {name: find_method(holdfast.Session, name) for name in METHODS}
    methods["handles.replace"] = find_method(holdfast.Frame, "handles.replace")
    options = {f"{name}({option})" for name, method in methods.items() for option in list_parameters(method)}
    assert options - {*VIEW_INPUTS} == set()


@pytest.mark.parametrize("kind", ["memory", "memory awaited"])
def test_every_value_at_every_entrance_is_taken_or_refused(kind: str, desk: EngineDesk) -> None:
    engine = check_inputs(desk, kind, VIEW_INPUTS, SAMPLE)
    assert engine.admin.verify().problems == ()


@pytest.mark.parametrize("method", ["handles.page_out", "handles.page_in", "handles.read", "handles.get"])
def test_a_handle_that_is_none_is_not_found(method: str, engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "text " * 99)
    for odd in ODD_HANDLES:
        before = contents(engine)
        with pytest.raises((errors.HandleNotFound, errors.InvalidInput)):
            call(session, method)(odd)
        assert contents(engine) == before, odd
    with expect_refusal(engine.acting_as(tenant="other"), errors.SessionNotFound):
        call(engine.acting_as(tenant="other").session("s"), method)(PIECE)


def test_what_is_out_of_view_stays_where_it_is(engine: holdfast.Engine) -> None:
    """It can be read all the same."""
    session = engine.create_session("s")
    system = session.record("system", "be kind " * 20)
    for number in range(3):
        session.record("user", f"{number} what about this? " * 60)
        session.record("assistant", "this and that " * 60)
    session.context.compact(strategy=holdfast.types.SummarizeOldest(keep_recent=2), window=3_000)
    kept = contents(engine)[:2]
    for handle in (f"h{system.seq}_0", f"h{system.seq + 1}_0"):
        for move in (session.handles.page_out, session.handles.page_in):
            with pytest.raises(errors.InvalidArgument):
                move(handle)
        assert session.handles.read(handle).text
    assert contents(engine)[:2] == kept
    last = f"h{system.seq + 6}_0"
    session.end("done")
    kept = contents(engine)[:2]
    with pytest.raises(errors.SessionClosedError):
        session.handles.page_out(last)
    with pytest.raises(errors.SessionClosedError):
        session.context.compact(strategy=holdfast.types.TruncateAt(0), window=3_000)
    assert contents(engine)[:2] == kept
    assert session.handles.read(last).text
    assert engine.admin.verify().ok


def test_what_was_before_a_reset_is_out_of_view(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    before = session.record("user", "before " * 60)
    session.handles.page_out(f"h{before.seq}_0")
    session.reset("anew")
    assert session.handles.list() == []
    for move in (session.handles.page_out, session.handles.page_in):
        with pytest.raises(errors.InvalidArgument):
            move(f"h{before.seq}_0")
    assert session.handles.read(f"h{before.seq}_0").text == "before " * 60
    assert engine.admin.verify().ok


def test_a_plan_is_carried_out_where_it_was_made(engine: holdfast.Engine) -> None:
    one, other = engine.create_session("one"), engine.create_session("other")
    frame = one.frame("work", budget=10**6)
    places: list[Any] = [one, other, frame]
    for place in places:
        for number in range(3):
            place.record("user", f"{number} what about this? " * 60)
            place.record("assistant", "this and that " * 60)
    plans = [place.context.plan(window=600) for place in places]
    assert all(not plan.empty for plan in plans)
    for at, place in enumerate(places):
        for plan in (*plans[:at], *plans[at + 1 :]):
            with expect_refusal(engine, errors.InvalidArgument):
                place.context.compact(plan)
        assert place.context.compact(plans[at], key=f"k{at}").at
        with expect_refusal(engine, errors.PlanStale):
            place.context.compact(plans[at])
        again = place.context.compact(plans[at], key=f"k{at}")
        assert (again.at, again.fold) == (place.context.view().items[0].seq, again.fold)
        with expect_refusal(engine, errors.KeyConflict):
            place.context.compact(window=600, key=f"k{at}")
    assert engine.admin.verify().ok


@pytest.mark.parametrize("kind", ["memory", "sqlite awaited"])
def test_what_a_summary_stands_for_is_collapsed_and_can_still_be_read(kind: str, desk: EngineDesk) -> None:
    session = desk.open(kind).create_session("s")
    for number in range(3):
        (call,) = session.record("assistant", f"I look {number}.", tool_calls=[{"name": "look"}]).tool_calls
        session.result(call, f"found {number} " * 200)
    first, *_, last = session.handles.list()
    session.context.compact(strategy=holdfast.types.TruncateAt(2))
    assert [session.handles.get(each).residency for each in (first, last)] == ["collapsed", "resident"]
    assert msgspec.structs.replace(session.handles.get(first), residency="resident") == first
    assert session.handles.read(first, stop=7).text == "found 0"


def test_pictures_and_files_take_room(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    picture = holdfast.Image(engine.blobs.put(b"\x89PNG", media_type="image/png"))
    text = holdfast.File(engine.blobs.put(b"word " * 2_000, media_type="text/plain"))
    assert session.record("user", [picture]).tokens > 1_000
    assert session.record("user", [text]).tokens > 2_000
