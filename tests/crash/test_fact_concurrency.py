"""16 writers on one ledger, in threads of several engines and in processes, each with a session of its own: nothing that
was acknowledged is lost or done twice, one fact of a key is current, chains are complete and walk both ways, and no
authority is ended by a lower one."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

import holdfast
from holdfast import Engine, Fact
from holdfast.core.facts.authority import rank
from holdfast.model import limits
from holdfast.model.policy import AuthorityLadder
from holdfast.storage.postgres.store import PostgresStore
from tests.crash.fact_writers import (
    CONTESTED,
    KEYS,
    OWN,
    Acknowledgement,
    Task,
    work,
    write_in_processes,
    write_in_threads,
)
from tests.property.store_tools import Kind, rows_dump, store_of_kind
from tests.support import figure

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([work.__module__, PostgresStore.__module__])
WRITERS = 16
ENGINES = 4
LADDER = AuthorityLadder()


class World(NamedTuple):
    kind: Kind
    how: str
    each: int
    """What each writer says."""


WORLDS = [
    World("memory", "threads", figure(6, 60)),
    World("sqlite", "threads", figure(6, 60)),
    World("sqlite", "processes", figure(6, 60)),
    World("postgres", "threads", figure(5, 60)),
    World("postgres", "processes", figure(5, 60)),
]


@pytest.fixture(params=WORLDS, ids=lambda world: f"{world.kind}-{world.how}")
def written(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, list[Acknowledgement]]]:
    world: World = request.param
    with store_of_kind(world.kind) as url, ExitStack() as exits:
        engine = exits.enter_context(holdfast.open(url, policy=OWN))
        for key in KEYS:  # so that there is something to rest on
            engine.ledger(user="ada").set(key, "at first")
        if world.how == "threads":
            others = [holdfast.open(url, policy=OWN) for _ in range(ENGINES - 1)] if world.kind != "memory" else []
            engines = [engine, *(exits.enter_context(each) for each in others)]
            said = write_in_threads(engines, WRITERS, world.each)
        else:
            narrow = f"{url}&pool=2" if world.kind == "postgres" else url
            each = WRITERS // ENGINES
            tasks = [Task(narrow, number * each, each, world.each) for number in range(ENGINES)]
            said = write_in_processes(CONTEXT, tasks)
        assert len(said) == WRITERS * world.each
        yield engine, said


def all_facts(engine: Engine) -> dict[str, Fact]:
    ledger, found = engine.ledger(user="ada"), dict[str, Fact]()
    for status in ("live", "dead"):
        last: Fact | None = None
        while page := ledger.items(status=status, after=last, limit=limits.READ_EVENTS):
            found |= {fact.id: fact for fact in page}
            last = page[-1]
    return found


@pytest.mark.promise(8, f"{WRITERS} writers on one ledger: nothing lost, one fact of a key is current, chains complete")
def test_whoever_writes_to_one_ledger_at_once_nothing_is_lost(written: tuple[Engine, list[Acknowledgement]]) -> None:
    engine, said = written
    facts = all_facts(engine)
    check_kept(engine, said, facts)
    for key in KEYS:
        check_chain([fact for fact in facts.values() if fact.key == key])
    check_contest([fact for fact in facts.values() if fact.key == CONTESTED])
    dead = {fact.id for fact in facts.values() if not fact.is_valid}
    for fact in facts.values():
        if fact.is_valid and not dead.isdisjoint(fact.depends_on):
            assert fact.review in fact.depends_on, "what rests on something dead needs a review"
    assert engine.admin.verify().problems == ()
    before = rows_dump(engine)
    engine.admin.rebuild()
    assert rows_dump(engine) == before


def check_kept(engine: Engine, said: list[Acknowledgement], facts: dict[str, Fact]) -> None:
    """Every value is there once; a message exactly with what it changed."""
    values = [fact.value for fact in facts.values() if fact.key in (*KEYS, CONTESTED) and fact.value != "at first"]
    assert sorted(map(str, values)) == sorted(each.value for each in said)
    for each in said:
        if each.fact:
            assert (facts[each.fact].key, facts[each.fact].value) == (each.key, each.value)
    for writer in {each.writer for each in said}:
        texts = [message.text for message in engine.session(f"s{writer}").messages(limit=limits.READ_EVENTS)]
        assert texts == [f"It is {each.value}." for each in said if each.writer == writer and each.message]
        own = engine.session(f"s{writer}").ledger().history("said", limit=limits.READ_EVENTS)
        assert [fact.value for fact in own] == texts


def check_chain(facts: list[Fact]) -> None:
    """Of those who have the same authority the last one is current, and took the place of the one before, and so on."""
    facts = sorted(facts, key=lambda fact: int(fact.id[1:]))
    assert [fact.is_valid for fact in facts] == [False] * (len(facts) - 1) + [True]
    for one, after in itertools.pairwise(facts):
        assert one.superseded_by == after.id
        assert one.id in after.supersedes


def check_contest(facts: list[Fact]) -> None:
    """The highest that spoke has the say, what lower ones say later are claims, and nobody was ended by a lower one."""
    known = {fact.id: fact for fact in facts}
    (current,) = (fact for fact in facts if fact.is_valid and not fact.is_claim)
    assert all(rank(LADDER, fact.authority) <= rank(LADDER, current.authority) for fact in facts)
    for fact in facts:
        by = known[fact.superseded_by or fact.id]
        assert rank(LADDER, by.authority) >= rank(LADDER, fact.authority)
        against = known[fact.against or fact.id]
        assert rank(LADDER, against.authority) > rank(LADDER, fact.authority) or against is fact
