"""Random histories of frames, with crashes between and within steps, always come to what a plain model says.

Laws: a refused or failed command changes nothing; parts of a budget exceed its total only by what was used; what a tree has
used is its root's once all is settled; what has ended stays as it ended, and nothing lives below it; a token wakes a frame
once, and a frame has one; sessions know nothing of each other; replaying any prefix of the log gives the state that was
live then; the kind of store and the size of the cache make no difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

import holdfast
from holdfast import errors
from holdfast.core import invariants
from holdfast.model import limits
from holdfast.runtime import transfer
from tests.edges.engines import FEWER_KINDS, LOCAL_KINDS, EngineDesk, log_of, store_of
from tests.property.engine_machine import EngineMachine
from tests.property.frame_commands import SCENES, WHO, Command, Reset, Sweep, rare
from tests.property.frame_player import NAMES, PAGE, WEIGHTS, FrameOrder, FramePlayer, orders, steps
from tests.property.session_model import CharCounter, ManualClock
from tests.property.store_tools import Fault, Faulty, dump, fast_folder, rows_dump, rows_in
from tests.support import figure

TREES = figure(24, 5_000)
ON_SQLITE = figure(6, 5_000)
ON_POSTGRES = figure(2, 1_000)
STEPS = 8
MANY = 1_000

_faults = st.sampled_from([None, None, None, None, "before", "after"])
_which = st.integers(0, 1)
_some = st.lists(st.tuples(orders, steps, _which, _faults), min_size=5, max_size=10)
_between = st.sampled_from(["end", "reopen", "reopen", "care"])


@pytest.fixture(scope="module", autouse=True)
def small_steps() -> Iterator[None]:
    """Short histories still cross many pages and snapshots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SNAPSHOT_EVERY", 3)
        patch.setattr(limits, "READ_EVENTS", PAGE)
        patch.setattr(transfer, "_PAGE", 4)
        yield


class Trees(EngineMachine):
    """Two engines on one store, a third that only looks, and the model."""

    @initialize(cached=st.sampled_from([1, MANY]))
    def start(self, cached: int) -> None:
        self.play = FramePlayer(*self.opened(cached), self.clock)

    def opened(self, cached: int) -> tuple[list[holdfast.Engine], holdfast.Engine]:
        engines = [self.open_with(cached), self.open_with(MANY)]
        for engine in engines:
            Faulty.under(engine)
        return engines, self.open_with(1)

    def open_with(self, cached: int) -> holdfast.Engine:
        weight = 0 if cached == 1 else limits.CACHED_BYTES
        return self.open(cached, cached_bytes=weight, weights=WEIGHTS)

    def teardown(self) -> None:
        try:
            if hasattr(self, "play"):
                self.take_care(0)
        finally:
            super().teardown()

    @rule(some=_some)
    def change(self, some: list[tuple[FrameOrder, int, int, Fault | None]]) -> None:
        for order, step, which, fault in some:
            self.clock.us += step
            self.play.give(order, which, fault)

    @rule(
        name=st.sampled_from(NAMES), some=st.lists(st.tuples(st.sampled_from(SCENES), _which), min_size=1, max_size=3)
    )
    def act(self, name: str, some: list[tuple[tuple[Command | Sweep | int, ...], int]]) -> None:
        for scene, which in some:
            for each in scene:
                self.clock.us += each if isinstance(each, int) else 1
                if not isinstance(each, int):
                    self.play.give((name, each, WHO[0]), which)

    @rule(name=st.sampled_from(NAMES), command=rare, which=_which, cached=st.sampled_from([1, MANY]), what=_between)
    def turn(self, name: str, command: Command, which: int, cached: int, what: str) -> None:
        """What may happen between two commands, now and then."""
        if what == "end":
            self.play.give((name, command, WHO[0]), which)
        elif what == "reopen":
            self.play.engines, self.play.observer = self.opened(cached)
            self.play.held.clear()
        elif self.exports < 1:
            self.take_care(which)

    def take_care(self, which: int) -> None:
        self.play.check_log()
        check_copied(self.play.engines[which])
        self.exports += 1


class InMemory(Trees):
    kind = "memory"


class OnSqlite(Trees):
    kind = "sqlite"


class OnPostgres(Trees):
    kind = "postgres"


@pytest.mark.timeout(1_200)  # a failure is made small before it is shown
@pytest.mark.promise(
    14, f"random trees of frames: {TREES:,} in memory, {ON_SQLITE:,} on SQLite, {ON_POSTGRES:,} on PostgreSQL"
)
@pytest.mark.parametrize(("machine", "trees"), [(InMemory, TREES), (OnSqlite, ON_SQLITE), (OnPostgres, ON_POSTGRES)])
def test_random_trees_come_to_what_a_plain_model_says(machine: type[Trees], trees: int) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=trees, stateful_step_count=STEPS))


_told = st.lists(st.tuples(orders, steps), min_size=10, max_size=40)
_erased = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=2), min_size=1, max_size=4)


@settings(max_examples=figure(4, 2_000))
@given(some=_told, erased=_erased, over=st.booleans())
def test_whatever_is_erased_the_log_holds_together(
    some: list[tuple[FrameOrder, int]], erased: list[list[int]], over: bool
) -> None:
    clock = ManualClock()
    with holdfast.open("memory:", clock=clock, counter=CharCounter(), weights=WEIGHTS, cached_streams=1) as engine:
        play = FramePlayer([engine], engine, clock)
        for order, step in some:
            clock.us += step
            play.give(order)
        if over:
            play.give(("a", Reset(), WHO[0]))
        session = engine.session("a")
        for picks in erased:
            version = session.state().version
            try:
                session.erase([1 + pick % version for pick in picks], "asked to")
            except (errors.InvalidArgument, errors.CallsOpen):  # it belongs to what is not over
                assert session.state().version == version
            check_sound(session)
        check_copied(engine)


def check_sound(session: holdfast.Session) -> None:
    state = session.state()
    assert invariants.find_violations(state) == []
    listed: list[holdfast.types.FrameState] = []
    while page := session.frames.list(status="live", after=listed[-1].id if listed else None, limit=PAGE):
        listed += page
    assert {frame.id: frame for frame in listed} == state.frames
    assert session.recover().last_event_seq == state.version + 1


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


@settings(max_examples=figure(3, 500))
@given(some=_told)
def test_blocking_or_awaited_whatever_the_cache_frames_are_the_same(some: list[tuple[FrameOrder, int]]) -> None:
    same_everywhere(some, LOCAL_KINDS)


@settings(max_examples=figure(2, 200))
@given(some=_told)
def test_frames_are_the_same_on_every_kind_of_store(some: list[tuple[FrameOrder, int]]) -> None:
    same_everywhere(some, FEWER_KINDS)


def same_everywhere(some: list[tuple[FrameOrder, int]], kinds: Sequence[str]) -> None:
    """Each kind of store does what the model says, and with a small cache or a large one it keeps the very same bytes."""
    with fast_folder() as folder:
        desk = EngineDesk(Path(folder))
        try:
            kept = [told(desk, kind, cached, some) for kind in kinds for cached in (1, MANY)]
        finally:
            desk.close()
    assert kept == [kept[0]] * len(kept)


def told(desk: EngineDesk, kind: str, cached: int, some: list[tuple[FrameOrder, int]]) -> object:
    """What an engine holds that was told this."""
    clock = ManualClock()
    weight = 0 if cached == 1 else limits.CACHED_BYTES
    sizes = {"cached_streams": cached, "cached_bytes": weight}
    engine = desk.open(kind, f"{cached}", clock=clock, counter=CharCounter(), weights=WEIGHTS, **sizes)
    play = FramePlayer([engine], engine, clock)
    for order, step in some:
        clock.us += step
        play.give(order)
    play.check_log()
    return log_of(engine), list(rows_in(store_of(engine)))
