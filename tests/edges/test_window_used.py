"""Packs with default settings use their budget: what was read stays whole until the window presses; boundaries are few."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import holdfast
from holdfast.model.history.events import ContextCompacted
from tests.core.plan_inputs import make_prose
from tests.property.session_model import ManualClock

BUDGET = 64_000
MODEL = "claude-sonnet-4-5"
MINUTE_US = 60_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def session(clock: ManualClock) -> Iterator[holdfast.Session]:
    with holdfast.open("memory:", clock=clock) as engine:
        yield engine.create_session("coding")


def read(session: holdfast.Session, file: str, text: str) -> None:
    (call,) = session.record("assistant", None, tool_calls=[{"name": "read", "args": {"file": file}}]).tool_calls
    session.result(call, text)


def boundaries(session: holdfast.Session) -> int:
    return sum(each.type == ContextCompacted.name for each in session.events(limit=1_000))


def results(made: holdfast.Pack) -> str:
    """The text of all tool results, as a provider is sent them."""
    blocks = [block for message in made.anthropic()["messages"] for block in message["content"]]
    return "\n".join(str(block["content"]) for block in blocks if block["type"] == "tool_result")


def pack(session: holdfast.Session) -> holdfast.Pack:
    return session.pack(budget=BUDGET, model=MODEL)


def test_a_file_that_was_read_stays_whole_in_the_packs_that_follow(session: holdfast.Session) -> None:
    file = make_prose(44_000, "parser")
    session.record("user", "Find the bug in parser.py.")
    read(session, "parser.py", file)
    for number in range(10):
        assert file in results(pack(session))
        read(session, f"other{number}.py", make_prose(2_000, f"other{number}"))
    session.record("assistant", "It is in line 7.")
    session.record("user", "Thanks. Is there another one?")
    assert file in results(pack(session))
    assert boundaries(session) == 0


def test_a_long_turn_is_not_touched_until_the_window_is_full(session: holdfast.Session, clock: ManualClock) -> None:
    session.record("user", "Refactor the whole package.")
    largest = 0
    for number in range(60):
        made = pack(session)
        if boundaries(session):
            break
        largest = made.tokens.used
        read(session, f"{number}.py", make_prose(9_000, f"file{number}"))
        clock.us += 5_000_000
    assert largest > 0.95 * BUDGET, "all of it is shown until it does not fit"
    assert 0.30 * BUDGET < made.tokens.used < 0.55 * BUDGET, "and then one boundary makes room that lasts"
    assert "Refactor the whole package." in made.text
    assert make_prose(9_000, f"file{number - 1}") in results(made), "what the model has not seen yet is shown whole"


def test_packs_are_full_and_boundaries_few(session: holdfast.Session, clock: ManualClock) -> None:
    sizes: list[int] = []
    for number in range(60):
        session.record("user", f"Look at module {number}.")
        for step in range(3):
            made = pack(session)
            sizes.append(made.tokens.used)
            if step < 2:
                read(session, f"{number}_{step}.py", make_prose(6_000, f"module{number}_{step}"))
        session.record("assistant", f"Module {number} is fine.")
        clock.us += MINUTE_US
    full = sizes[sizes.index(next(size for size in sizes if size > 0.8 * BUDGET)) :]
    assert max(sizes) <= BUDGET
    assert sum(full) / len(full) > 0.6 * BUDGET
    assert boundaries(session) <= 8


def test_a_cold_cache_makes_room_earlier(session: holdfast.Session, clock: ManualClock) -> None:
    for number in range(20):
        session.record("user", f"Look at module {number}.")
        read(session, f"{number}.py", make_prose(8_000, f"module{number}"))
        session.record("assistant", f"Module {number} is fine.")
    session.record("user", "And now?")
    warm = pack(session).tokens.used
    assert 0.50 * BUDGET < warm < 0.85 * BUDGET
    assert boundaries(session) == 0
    clock.us += 10 * MINUTE_US
    assert pack(session).tokens.used < 0.35 * BUDGET
    assert boundaries(session) == 1
