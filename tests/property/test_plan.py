"""Whatever agents do, and however their histories are shortened: what is shown is what was said, or stands for it.

Laws: between two boundaries every rendering extends the last; calls stand with their results in every rendering; units are
never split, and order is kept; the transcript is untouched; a plan does what it says, and then there is nothing more to do;
what is paged out comes back to the byte; the table of pieces is bounded by the view, and each of its rows stays; nothing of
what was erased is anywhere; the log leads to the same state, and to the same rows.
"""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from tests.property.histories_of_agents import SPOOLING, Play, Step, steps
from tests.property.model import CharCounter, HandClock
from tests.property.tools import Kind, store_of_kind
from tests.support import CountingIds, figure

IN_MEMORY = figure(20, 3_000)
ON_SQLITE = figure(5, 1_000)
ON_POSTGRES = figure(2, 200)

days = st.lists(steps, min_size=12, max_size=24)


def play(kind: Kind, day: list[Step]) -> None:
    clock, ids = HandClock(), CountingIds()
    with ExitStack() as stack:
        url = stack.enter_context(store_of_kind(kind))
        engine = stack.enter_context(holdfast.open(url, clock=clock, ids=ids, counter=CharCounter(), spooling=SPOOLING))
        played = Play(engine, clock, engine.create_session("s"))
        for step in day:
            played.give(step)
        played.check_all()


@settings(max_examples=IN_MEMORY)
@given(days)
def test_what_is_shown_is_what_was_said(day: list[Step]) -> None:
    play("memory", day)


@settings(max_examples=ON_SQLITE)
@given(days)
def test_what_is_shown_is_what_was_said_on_sqlite(day: list[Step]) -> None:
    play("sqlite", day)


@settings(max_examples=ON_POSTGRES)
@given(days)
def test_what_is_shown_is_what_was_said_on_postgres(day: list[Step]) -> None:
    play("postgres", day)
