"""Random histories of a ledger, with crashes between and within steps, always come to what a plain model says.

Laws: a refused or failed command changes nothing, and what changes nothing stores nothing; repetition changes nothing; a
lower authority never ends what a higher one says, in any order of events; chains can be walked both ways, and end; who
rests on what died needs a review until someone has confirmed it; late old news supersede nothing; whoever may not know of a
fact reads the same whether or not it is there; replaying any prefix of the log gives the facts that were there then; the
kind of store and the size of the cache make no difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

import holdfast
from holdfast.model import limits
from holdfast.runtime import transfer
from tests.edges.engines import FEWER_KINDS, LOCAL_KINDS, EngineDesk, log_of, store_of
from tests.property.engine_machine import EngineMachine
from tests.property.fact_commands import (
    ANN,
    BOB,
    BOSS,
    HOMES,
    KEYS,
    PROGRAM,
    REFS,
    SCENES,
    Again,
    Any_,
    Assert,
    By,
    Command,
    Scene,
    Sweep,
    Who,
    commands,
    people,
    steps,
    with_own_keys,
)
from tests.property.fact_ledger import FactRefusal, is_same_json
from tests.property.fact_model import apply_command as made_of
from tests.property.fact_player import CLOSED, PAGE, FactOrder, FactPlayer, execute
from tests.property.session_model import CharCounter, ManualClock
from tests.property.store_tools import (
    Fault,
    Faulty,
    Kind,
    all_events,
    dump,
    fast_folder,
    rows_dump,
    rows_in,
    store_of_kind,
)
from tests.support import figure

LEDGERS = figure(15, 3_000)
ON_SQLITE = figure(4, 1_500)
ON_POSTGRES = figure(2, 300)
STEPS = 8
MANY = 1_000

orders: st.SearchStrategy[FactOrder] = st.tuples(commands, people)
_faults = st.sampled_from([None, None, None, None, None, "before", "after"])
_which = st.integers(0, 1)
_scenes = st.integers(0, len(SCENES) - 1).map(lambda at: SCENES[at])
_some = st.lists(st.tuples(orders, steps, _which, _faults, st.booleans()), min_size=5, max_size=12)


@pytest.fixture(scope="module", autouse=True)
def small_steps() -> Iterator[None]:
    """Short histories still cross many pages and snapshots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SNAPSHOT_EVERY", 3)
        patch.setattr(limits, "READ_EVENTS", PAGE)
        patch.setattr(limits, "CHAIN_FACTS", PAGE)
        patch.setattr(limits, "FACT_LINKS", PAGE)
        patch.setattr(transfer, "_PAGE", 4)
        yield


class Ledgers(EngineMachine):
    """Two engines on one store, a third that only looks, and the model."""

    @initialize(cached=st.sampled_from([1, MANY]))
    def start(self, cached: int) -> None:
        self.play = FactPlayer(*self.opened(cached), self.clock)
        self.scenes = 0

    def opened(self, cached: int) -> tuple[list[holdfast.Engine], holdfast.Engine]:
        engines = [self.open(cached), self.open(MANY)]
        for engine in engines:
            Faulty.under(engine)
        return engines, self.open(1)

    def teardown(self) -> None:
        try:
            if hasattr(self, "play"):
                self.take_care(0)
                check_repeated(self.play)
        finally:
            super().teardown()

    @rule(some=_some)
    def change(self, some: list[tuple[FactOrder, int, int, Fault | None, bool]]) -> None:
        for order, step, which, fault, keyed in some:
            self.clock.us += step
            self.play.give(order, which, fault, keyed=keyed)
        self.play.check_read()

    @rule(some=st.lists(st.tuples(_scenes, _which, st.booleans()), min_size=2, max_size=5), who=people)
    def act(self, some: list[tuple[Scene, int, bool]], who: Who) -> None:
        """A scene is the program's, but for the last word; on the keys that all have, or on keys of its own."""
        for scene, which, alone in some:
            self.scenes += 1
            for at, each in enumerate(scene, 1):
                self.clock.us += each if isinstance(each, int) else 1
                if isinstance(each, int):
                    continue
                speaker, command = each if isinstance(each, By) else (who if at == len(scene) else PROGRAM, each)
                if alone and not isinstance(command, Sweep | Again):
                    command = with_own_keys(command, self.scenes)
                self.play.give((command, speaker), which)
        self.play.check_read()

    @rule(cached=st.sampled_from([1, MANY]), care=st.booleans(), which=_which)
    def turn(self, cached: int, care: bool, which: int) -> None:
        """What may happen between two commands."""
        if not care:
            self.play.engines, self.play.observer = self.opened(cached)
        elif self.exports < 1:
            self.take_care(which)

    def take_care(self, which: int) -> None:
        self.exports += 1
        self.play.check_log(list(all_events(self.play.observer)))
        check_copied(self.play.engines[which])
        self.play.check_read()


class InMemory(Ledgers):
    kind = "memory"


class OnSqlite(Ledgers):
    kind = "sqlite"


class OnPostgres(Ledgers):
    kind = "postgres"


@pytest.mark.timeout(1_200)  # a failure is made small before it is shown
@pytest.mark.promise(
    14, f"random ledgers of facts: {LEDGERS:,} in memory, {ON_SQLITE:,} on SQLite, {ON_POSTGRES:,} on PostgreSQL"
)
@pytest.mark.parametrize(("machine", "count"), [(InMemory, LEDGERS), (OnSqlite, ON_SQLITE), (OnPostgres, ON_POSTGRES)])
def test_random_ledgers_come_to_what_a_plain_model_says(machine: type[Ledgers], count: int) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=count, stateful_step_count=STEPS))


def check_copied(engine: holdfast.Engine) -> None:
    """The log holds together, its rows can be made anew, and a copy of it is as good."""
    assert engine.admin.verify().problems == ()
    before = rows_dump(engine)
    engine.admin.rebuild()
    assert rows_dump(engine) == before
    with fast_folder() as folder, holdfast.open("memory:") as copy:
        target = os.path.join(folder, "log.jsonl")
        engine.admin.export(target)
        copy.admin.import_(target)
        assert dump(copy) == dump(engine)
        assert copy.admin.verify().problems == ()


def check_repeated(play: FactPlayer) -> None:
    """Whoever says again what is current, with the authority that it has, changes nothing."""
    version, ledger = play.row().version, play.ledger(PROGRAM, 0)
    for key in KEYS:
        for home in HOMES:
            fact = play.told.current(key, home, PROGRAM, play.clock.us)
            if fact is not None and (fact.key, fact.home) == (key, home) and not fact.doubts and not fact.disputes:
                said = Assert(key, fact.value, home, fact.authority)
                assert is_same_json(execute(ledger, said, play.clock.us, None).value, fact.value)
    assert play.row().version == version


_told = st.lists(st.tuples(orders, steps), min_size=10, max_size=30)


@settings(max_examples=figure(3, 500))
@given(some=_told)
def test_blocking_or_awaited_whatever_the_cache_facts_are_the_same(some: list[tuple[FactOrder, int]]) -> None:
    same_everywhere(some, LOCAL_KINDS)


@settings(max_examples=figure(2, 200))
@given(some=_told)
def test_facts_are_the_same_on_every_kind_of_store(some: list[tuple[FactOrder, int]]) -> None:
    same_everywhere(some, FEWER_KINDS)


def same_everywhere(some: list[tuple[FactOrder, int]], kinds: Sequence[str]) -> None:
    """With a small cache or a large one, each kind of store keeps the very same bytes."""
    with fast_folder() as folder:
        desk = EngineDesk(Path(folder))
        try:
            kept = [told(desk, kind, cached, some) for kind in kinds for cached in (1, MANY)]
        finally:
            desk.close()
    assert kept == [kept[0]] * len(kept)


def told(desk: EngineDesk, kind: str, cached: int, some: list[tuple[FactOrder, int]]) -> object:
    """What an engine holds that was told this."""
    clock = ManualClock()
    engine = desk.open(kind, f"{cached}", clock=clock, counter=CharCounter(), cached_streams=cached)
    play = FactPlayer([engine], engine, clock)
    for order, step in some:
        clock.us += step
        play.give(order)
    return log_of(engine), list(rows_in(store_of(engine)))


# Whoever may not know of a fact

_OUTSIDER = BOB
_hiding = st.sampled_from([(ANN, ("p",)), (BOSS, ("p",)), (BOSS, ("p", "q")), (PROGRAM, ("p",))])
_mixed = st.lists(st.tuples(st.none() | _hiding, commands, steps), min_size=8, max_size=30)
QUERIES = ("Oslo", "the town and the price", "plan suppose")


@pytest.mark.promise(14, "two runs of a ledger, one with facts that the reader may not know of: he reads the same")
@pytest.mark.parametrize(
    ("kind", "count"), [("memory", figure(15, 5_000)), ("sqlite", figure(3, 1_000)), ("postgres", figure(1, 100))]
)
def test_nobody_reads_otherwise_because_of_what_he_may_not_know(kind: Kind, count: int) -> None:
    """In one of two runs others make and change facts that Bob may not know of. What he is told, what he may read and the
    errors that he meets are the same, but for the numbers of events."""

    @settings(max_examples=count)
    @given(some=_mixed)
    def run(some: list[tuple[tuple[Who, tuple[str, ...]] | None, Any_, int]]) -> None:
        with ExitStack() as stack:
            clock = ManualClock()
            urls = [stack.enter_context(store_of_kind(kind)) for _ in range(2)]
            engines = [stack.enter_context(holdfast.open(url, clock=clock)) for url in urls]
            quiet, busy = (FactPlayer([engine], engine, clock) for engine in engines)
            two_runs(quiet, busy, some)

    run()


def two_runs(
    quiet: FactPlayer, busy: FactPlayer, some: list[tuple[tuple[Who, tuple[str, ...]] | None, Any_, int]]
) -> None:
    names: dict[str, str] = {}
    """Those that facts of the busy run have in the quiet one."""
    for hidden, command, step in some:
        quiet.clock.us += step
        if isinstance(command, Sweep | Again):
            quiet.sweep(0)
            busy.sweep(0)
        elif hidden is not None:
            change_unseen(busy, command, *hidden)
        else:
            named = quiet.resolved(command)
            back = {theirs: ours for ours, theirs in names.items()}
            told = (quiet.command(named, _OUTSIDER), busy.command(renamed(named, back), _OUTSIDER))
            pair_up(quiet, busy, names)
            assert as_told(told[0], own(names)) == as_told(told[1], names)
        pair_up(quiet, busy, names)
        assert as_told(all_read(quiet), own(names)) == as_told(all_read(busy), names)


def change_unseen(play: FactPlayer, command: Command, who: Who, requires: tuple[str, ...]) -> None:
    """Have it done if it changes nothing that the outsider may know of."""
    command = play.resolved(command)
    if isinstance(command, Assert):
        command = command._replace(requires=requires)
    try:
        after, _ = made_of(play.told, command, who, play.clock.us)
    except FactRefusal:
        return
    if after.known(_OUTSIDER) == play.told.known(_OUTSIDER):
        play.command(command, who)


def renamed(command: Command, names: dict[str, str]) -> Command:
    fields: dict[str, Any] = {}
    for name, value in command._asdict().items():
        if name in ("fact", "by"):
            fields[name] = names.get(value, value)
        elif name in ("facts", "supersedes", "depends_on"):
            fields[name] = tuple(names.get(each, each) for each in value)
    return command._replace(**fields)


def pair_up(quiet: FactPlayer, busy: FactPlayer, names: dict[str, str]) -> None:
    ours, theirs = quiet.told.known(_OUTSIDER), busy.told.known(_OUTSIDER)
    names |= {one.id: other.id for one, other in zip(theirs, ours, strict=True)}


def own(names: dict[str, str]) -> dict[str, str]:
    return {name: name for name in names.values()}


def all_read(play: FactPlayer) -> list[object]:
    """All that the outsider can read."""
    ledger, read = play.ledger(_OUTSIDER), list[object]()
    read += [ledger.items(within=CLOSED, status=status, limit=PAGE) for status in ("live", "dead")]
    read += [ledger.review.list(limit=PAGE), ledger.constraints(within=CLOSED, limit=PAGE)]
    read += [ledger.search(query, within=CLOSED, limit=PAGE) for query in QUERIES]
    for key in KEYS:
        read += [ledger.get(key, scope=scope, scope_id=scope_id) for scope, scope_id in HOMES]
        read += [ledger.history(key, limit=PAGE), error_or(lambda: ledger.why(key))]  # noqa: B023
    return read + [error_or(lambda: ledger.get(name)) for name in (*KEYS, *REFS, "k999")]  # noqa: B023


def error_or(read: Callable[[], object]) -> object:
    try:
        return read()
    except holdfast.HoldfastError as error:
        return error


def as_told(answer: object, names: dict[str, str]) -> str:
    """An answer or an error as text, with the ids that the facts have in the quiet run. The id that a refused fact would
    have got is the one that may differ, and so may the version of the ledger at which a fact ended: both count events."""
    text = re.sub(r"\bended_seq=[0-9]+", "ended_seq=?", f"{type(answer).__name__} {answer}")
    return re.sub(r"\bk[0-9]+\b", lambda found: names.get(found[0], "k?"), text)
