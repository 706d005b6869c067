"""What careless callers get to see at the entrances of views: typed errors with advice, and nothing stored; or an answer,
and a sound state."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import errors
from tests.edges.engines import Desk, contents, refused
from tests.edges.hostile_entrances import check_entrances
from tests.edges.view_entrances import PIECE, VIEW_ENTRANCES
from tests.support import figure

SAMPLE = figure(24, 1)
"""One value in so many is handed in, other ones at each entrance."""
METHODS = (
    "history",
    "render",
    "plan",
    "compact",
    "piece",
    "pieces",
    "occupancy",
    "handle",
    "page_out",
    "page_in",
    "read_text",
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
    methods = {name: getattr(holdfast.Session, name) for name in METHODS}
    methods["replace_handle"] = holdfast.Frame.replace_handle
    options = {
        f"{name}({option})"
        for name, method in methods.items()
        for option in [*inspect.signature(method).parameters][1:]
    }
    assert options - {*VIEW_ENTRANCES} == set()


@pytest.mark.parametrize("kind", ["memory", "memory awaited"])
def test_every_value_at_every_entrance_is_taken_or_refused(kind: str, desk: Desk) -> None:
    engine = check_entrances(desk, kind, VIEW_ENTRANCES, SAMPLE)
    assert engine.verify().problems == ()


@pytest.mark.parametrize("method", ["page_out", "page_in", "read_text", "handle"])
def test_a_handle_that_is_none_is_not_found(method: str, engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "text " * 99)
    for odd in ODD_HANDLES:
        before = contents(engine)
        with pytest.raises((errors.HandleNotFound, errors.InvalidInput)):
            getattr(session, method)(odd)
        assert contents(engine) == before, odd
    with refused(engine.acting_as(tenant="other"), errors.SessionNotFound):
        getattr(engine.acting_as(tenant="other").session("s"), method)(PIECE)


def test_what_is_out_of_view_stays_where_it_is(engine: holdfast.Engine) -> None:
    """It can be read all the same."""
    session = engine.create_session("s")
    system = session.record("system", "be kind " * 20)
    for number in range(3):
        session.record("user", f"{number} what about this? " * 60)
        session.record("assistant", "this and that " * 60)
    session.compact(strategy=holdfast.SummarizeOldest(keep_recent=2), window=3_000)
    kept = contents(engine)[:2]
    for handle in (f"h{system.seq}_0", f"h{system.seq + 1}_0"):
        for move in (session.page_out, session.page_in):
            with pytest.raises(errors.InvalidContent):
                move(handle)
        assert session.read_text(handle).text
    assert contents(engine)[:2] == kept
    last = f"h{system.seq + 6}_0"
    session.close("done")
    kept = contents(engine)[:2]
    with pytest.raises(errors.SessionClosed):
        session.page_out(last)
    with pytest.raises(errors.SessionClosed):
        session.compact(strategy=holdfast.TruncateAt(0), window=3_000)
    assert contents(engine)[:2] == kept
    assert session.read_text(last).text
    assert engine.verify().ok


def test_what_was_before_a_reset_is_out_of_view(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    before = session.record("user", "before " * 60)
    session.page_out(f"h{before.seq}_0")
    session.reset("anew")
    assert session.pieces() == []
    for move in (session.page_out, session.page_in):
        with pytest.raises(errors.InvalidContent):
            move(f"h{before.seq}_0")
    assert session.read_text(f"h{before.seq}_0").text == "before " * 60
    assert engine.verify().ok


def test_a_plan_is_carried_out_where_it_was_made(engine: holdfast.Engine) -> None:
    one, other = engine.create_session("one"), engine.create_session("other")
    frame = one.frame("work", budget=10**6)
    places: list[Any] = [one, other, frame]
    for place in places:
        for number in range(3):
            place.record("user", f"{number} what about this? " * 60)
            place.record("assistant", "this and that " * 60)
    plans = [place.plan(window=600) for place in places]
    assert all(not plan.empty for plan in plans)
    for at, place in enumerate(places):
        for plan in (*plans[:at], *plans[at + 1 :]):
            with refused(engine, errors.InvalidContent):
                place.compact(plan)
        assert place.compact(plans[at], key=f"k{at}").at
        with refused(engine, errors.PlanStale):
            place.compact(plans[at])
        again = place.compact(plans[at], key=f"k{at}")
        assert (again.at, again.fold) == (place.history().items[0].seq, again.fold)
        with refused(engine, errors.KeyConflict):
            place.compact(window=600, key=f"k{at}")
    assert engine.verify().ok


@pytest.mark.parametrize("kind", ["memory", "sqlite awaited"])
def test_what_a_summary_stands_for_is_collapsed_and_can_still_be_read(kind: str, desk: Desk) -> None:
    session = desk.open(kind).create_session("s")
    for number in range(3):
        (call,) = session.record("assistant", f"I look {number}.", tool_calls=[{"name": "look"}]).tool_calls
        session.result(call, f"found {number} " * 200)
    first, *_, last = session.pieces()
    session.compact(strategy=holdfast.TruncateAt(2))
    assert [session.piece(each).residency for each in (first, last)] == ["collapsed", "resident"]
    assert msgspec.structs.replace(session.piece(first), residency="resident") == first
    assert session.read_text(first, stop=7).text == "found 0"


def test_pictures_and_files_take_room(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    picture = holdfast.Image(engine.put_blob(b"\x89PNG", media_type="image/png"))
    text = holdfast.File(engine.put_blob(b"word " * 2_000, media_type="text/plain"))
    assert session.record("user", [picture]).tokens > 1_000
    assert session.record("user", [text]).tokens > 2_000
