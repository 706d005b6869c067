"""Packs and frames: the top of the stack is packed if asked for, and a session's own pack says which frames are live."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import errors
from holdfast.model import limits
from tests.edges.engines import contents, expect_refusal
from tests.edges.fact_engines import open_session_ledger
from tests.edges.test_packs import BUDGET, QUESTION, started


def _crumbs(pack: Any) -> list[str]:
    """The lines that tell of frames, without their indentation."""
    block = next((each for each in pack.history.tail if each.startswith("Work in progress")), "")
    return [line.strip() for line in block.splitlines()[1:]]


def test_the_top_of_the_stack_is_packed_as_the_frame_itself_would_be(engine: holdfast.Engine) -> None:
    session = started(engine)
    root = session.frame("Plan a trip", budget=9_000)
    child = root.frame("Book a flight", budget=3_000)
    child.record("user", "The flight is TP 571.")
    top = session.pack(frame="top", budget=BUDGET)
    assert top.manifest.frame == child.id == session.frames.get("top").id
    same = child.pack(budget=BUDGET)
    assert (top.text, top.manifest.context_hash) == (same.text, same.manifest.context_hash)
    root.record("user", "Take the train after all.")
    assert session.pack(frame="top", budget=BUDGET).manifest.frame == root.id, "it has the newest activity"
    child.record("user", "Really?")
    child.suspend("the airline is closed")
    assert session.pack(frame="top", budget=BUDGET).manifest.frame == root.id, "what is suspended is never on top"
    child.pop("cancelled")
    root.pop()
    assert issubclass(errors.NoFrameAtWork, errors.FrameNotFound)
    with expect_refusal(engine, errors.NoFrameAtWork, session="s"):
        session.pack(frame="top", budget=BUDGET)


def test_a_frame_is_packed_by_its_id_or_as_it_is_held(engine: holdfast.Engine) -> None:
    session = started(engine)
    frame, other = session.frame("one", budget=900), session.frame("two", budget=900)
    frame.record("user", "What about one?")
    for named in (frame.id, frame, frame.state()):
        assert session.pack(frame=named, budget=BUDGET).manifest.frame == frame.id
    assert session.pack(frame=frame.id, budget=BUDGET, reserve=100).reservation is not None
    assert frame.pack(frame=None, budget=BUDGET).manifest.frame == frame.id
    other.pop()
    wrong: list[tuple[Any, Any, type[errors.HoldfastError]]] = [
        (session, "f999", errors.FrameNotFound),
        (session, other.id, errors.FrameEnded),
        (session, "the top", errors.InvalidName),
        (session, 7, errors.InvalidArgument),
        (session, engine.create_session("t").frame("theirs", budget=1), errors.ScopeMismatch),
        (frame, "top", errors.InvalidArgument),
        (frame, frame.id, errors.InvalidArgument),
    ]
    for where, named, error in wrong:
        with expect_refusal(engine, error):
            where.pack(frame=named, budget=BUDGET)


def test_the_pack_of_a_frame_goes_with_a_reply_in_that_frame(engine: holdfast.Engine) -> None:
    session = started(engine)
    frame = session.frame("Book a flight", budget=9_000)
    frame.record("user", "Which one?")
    made = session.pack(frame="top", budget=BUDGET)
    before = contents(engine)
    with pytest.raises(errors.InvalidArgument, match=f"frame {frame.id}"):
        session.record("assistant", "TP 571.")
    assert contents(engine) == before
    reply = frame.record("assistant", "TP 571.", pack=made)
    (record,) = session.packs.list()
    assert (record.frame, record.reply) == (frame.id, reply.seq)
    assert session.packs.reproduce(record.id).text == made.text
    assert session.packs.manifest(record.id).frame == frame.id
    session.pack(frame="top", budget=BUDGET)
    assert session.record("assistant", "To Lisbon.", pack=False).frame is None


def test_a_sessions_own_pack_says_which_frames_are_live(engine: holdfast.Engine) -> None:
    session = started(engine)
    assert _crumbs(session.pack(budget=BUDGET)) == []
    trip = session.frame("Plan three days\nin Lisbon", budget=9_000)
    trip.frame("Find a hotel", budget=1_000).pop("completed", "Casa Flor")
    flight = trip.frame("Book a flight", budget=3_000)
    visit = trip.frame("Book the museum", budget=2_000)
    visit.suspend("the museum answers\nby mail")
    before = contents(engine)
    made = session.pack(budget=BUDGET, settle=False)
    assert contents(engine) == before
    assert _crumbs(made) == [
        f"- {trip.id} (waiting for {flight.id}, {visit.id}): Plan three days in Lisbon",
        f"- {flight.id} (active): Book a flight",
        f"- {visit.id} (suspended): Book the museum [reason: the museum answers by mail]",
    ]
    entries = [each for each in made.manifest.entries if each.section == "breadcrumbs"]
    assert [(each.id, each.fate) for each in entries] == [(each.id, "included") for each in (trip, flight, visit)]
    assert [each.split("(")[0] for each in _crumbs(flight.pack("go", budget=BUDGET))] == [
        f"- {trip.id} ",
        f"- {flight.id} ",
    ]
    record = session.packs.store(made)
    trip.pop("cancelled", cascade=True)
    assert session.packs.reproduce(record.id).text == made.text
    assert _crumbs(session.pack(budget=BUDGET)) == []


def test_of_many_frames_the_newest_are_named_and_the_others_counted(engine: holdfast.Engine) -> None:
    session = started(engine)
    first = session.frame("the first", budget=100_000)
    frames = [first.frame(f"part {number} " + "very " * 300 + "long", budget=10) for number in range(40)]
    frames[3].record("user", "news")
    for budget in (BUDGET, 64_000):
        made = session.pack(budget=budget, settle=False)
        lines = _crumbs(made)
        named = [line.split()[1] for line in lines[:-1]]
        assert len(named) <= limits.PACK_FRAMES
        assert {first.id, frames[3].id, frames[39].id} <= {*named}, "the newest, and those above them"
        assert lines[-1] == f"- and {41 - len(named)} more frames"
        assert made.tokens.breakdown["breadcrumbs"] <= budget // 8
        assert QUESTION in made.text
    tiny = session.pack(budget=limits.PACK_TOKENS, settle=False)
    assert tiny.tokens.used <= limits.PACK_TOKENS


def test_a_superseded_value_in_a_goal_is_annotated(engine: holdfast.Engine) -> None:
    session = started(engine)
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", "123 Elm Street")
    session.frame("Ship order 7 to 123 Elm Street", budget=900)
    ledger.set("shipping_address", "456 Oak Ave")
    session.record("assistant", "I started on it.")
    session.record("user", "And now?")
    text = session.pack(budget=BUDGET).text
    goal = next(line for line in text.splitlines() if "Ship order 7" in line)
    assert "shipping_address" in goal
    assert "456 Oak Ave" in text


def test_whatever_is_done_in_a_frame_brings_it_to_the_top(engine: holdfast.Engine) -> None:
    session = started(engine)
    one, two = session.frame("one", budget=9_000), session.frame("two", budget=9_000)
    handle = one.handles.add("document", "a text", title="notes")
    calls = one.record("assistant", tool_calls=[{"name": "look", "args": {}}]).tool_calls
    done: dict[str, Any] = {
        "a message": lambda: one.result(calls[0], "found"),
        "another goal": lambda: one.update(goal="one and a half"),
        "tokens spent": lambda: one.budget.use(5),
        "a handle": lambda: one.handles.add("document", "another text"),
        "a handle replaced": lambda: one.handles.replace(handle, "a better text"),
        "a situation": lambda: one.situation.update({"goal": "find it"}),
        "an action": lambda: one.situation.act("fast", thinking="hm"),
    }
    for what, act in done.items():
        two.record("user", f"before {what}")
        assert session.frames.get("top").id == two.id
        act()
        assert session.frames.get("top").id == one.id, what
    two.record("user", "Go on.")
    one.pack("what is there?", budget=BUDGET)
    assert session.frames.get("top").id == two.id, "reading is no activity"
