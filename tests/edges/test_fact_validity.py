"""Validity that a value states: read when a fact is asserted, kept in the log, shown in packs, over when its time is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Engine
from tests.edges.engines import EngineDesk, ManualClock
from tests.edges.fact_engines import CFO, MANY, PEER, open_ledger, open_session_ledger

DAY_S = 86_400.0
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC).timestamp()
"""A Monday."""


@pytest.fixture(params=MANY)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def home(kind: str, clock: ManualClock, desk: EngineDesk) -> Engine:
    return desk.open(kind, clock=clock)


def lines(session: Any, beginning: str, **options: Any) -> list[str]:
    text = session.pack("What is the discount?", **options).text
    return [each for each in text.splitlines() if each.startswith(beginning)]


def at(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1_000_000


def test_a_fact_ends_when_its_value_says_so(home: Engine, clock: ManualClock) -> None:
    session = home.create_session("s")
    ledger = open_session_ledger(session)
    fact = ledger.set("discount", "22% (valid through 10 March)")
    assert fact.expires_us == at(2026, 3, 11)
    assert lines(session, "- discount") == ["- discount: 22% (valid through 10 March)"]
    clock.now_s = datetime(2026, 3, 10, 23, 59, tzinfo=UTC).timestamp()
    assert ledger.get("discount") is not None
    clock.now_s += 60
    assert ledger.get("discount") is None
    assert lines(session, "- discount") == []
    home.admin.sweep()
    assert ledger.fact(fact.id).status == "expired"
    assert home.admin.verify().ok


def test_the_day_that_a_word_means_is_shown(home: Engine) -> None:
    session = home.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("deputy", "Anna, until Friday")
    ledger.set("pass", "visitor", expires_at_us=at(2026, 3, 7))
    ledger.set("rent", "950 euros (effective from 1 May)")
    assert lines(session, "- deputy") == ["- deputy: Anna, until Friday (valid through 2026-03-06)"]
    assert lines(session, "- pass") == ["- pass: visitor (valid through 2026-03-06)"]
    assert lines(session, "- rent") == ["- rent: 950 euros (effective from 1 May) (not valid before 2026-05-01)"]


def test_what_the_caller_says_counts_for_more(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    assert ledger.set("a", "22% (until Friday)", expires_at_us=at(2026, 9, 1)).expires_us == at(2026, 9, 1)
    assert ledger.set("b", "22% (until Friday)", ttl_s=60).expires_us == round((START + 60) * 1e6)
    assert ledger.set("c", "22% (from 1 May)", valid_from_us=at(2026, 4, 1)).valid_from_us == at(2026, 4, 1)
    old = ledger.set("d", "22% (until Friday)", valid_from_us=at(2026, 1, 5))
    assert old.expires_us == at(2026, 1, 10), "Friday is seen from when it became true"


@pytest.mark.parametrize("value", ["open until 18:00", "Valid Street 5", "Monday through Friday", 20260310, None, [1]])
def test_what_is_no_period_ends_nothing(value: Any, home: Engine) -> None:
    assert open_ledger(home, user="ada").set("place", value).expires_us is None


def test_what_is_of_the_past_by_its_own_words_supersedes_nothing(home: Engine) -> None:
    ledger = open_ledger(home, user="ada", identity=PEER)
    live = ledger.set("discount", "18%")
    old = open_ledger(home, user="ada", identity=CFO).set("discount", "22% (valid through 2026-01-31)")
    assert (old.status, old.superseded_by) == ("superseded", live.id)
    assert ledger.get("discount") == live
    alone = ledger.set("rebate", "5% (valid through 2026-01-31)")
    assert alone.status == "live"
    assert ledger.get("rebate") is None


def test_the_same_words_a_week_later_mean_another_day(home: Engine, clock: ManualClock) -> None:
    ledger = open_ledger(home, user="ada")
    first = ledger.set("deputy", "Anna, until Friday")
    assert ledger.set("deputy", "Anna, until Friday") == first
    clock.now_s += 3 * DAY_S
    assert ledger.set("deputy", "Anna, until Friday") == first
    clock.now_s += 4 * DAY_S
    again = ledger.set("deputy", "Anna, until Friday")
    assert again.id != first.id
    assert again.expires_us == at(2026, 3, 14)


def test_replaying_reads_no_clock(home: Engine, clock: ManualClock) -> None:
    ledger = open_ledger(home, user="ada")
    fact = ledger.set("deputy", "Anna, until Friday")
    clock.now_s += 1_000 * DAY_S
    home.admin.rebuild()
    assert ledger.fact(fact.id).expires_us == fact.expires_us == at(2026, 3, 7)


def test_what_is_observed_runs_out_when_its_value_says_so(home: Engine, clock: ManualClock) -> None:
    session = home.create_session("s")
    session.environment.set("promotion", "20% off (valid through 10 March)")
    session.environment.set("sale", "10% off (until Friday)", expires_at_us=at(2026, 9, 1))
    session.environment.set("shop", "open until 18:00")
    assert len(lines(session, "- promotion")) == len(lines(session, "- sale")) == 1
    clock.now_s = datetime(2026, 3, 11, tzinfo=UTC).timestamp()
    assert lines(session, "- promotion") == []
    assert len(lines(session, "- sale")) == len(lines(session, "- shop")) == 1
