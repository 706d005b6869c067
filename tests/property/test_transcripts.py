"""Random conversations, with crashes between and within steps, on two engines over one store: the transcript is always what
a plain model says, whatever views are made of it and whatever summaries stand for parts of it.

Laws: pairing survives everything; order is kept; a refused or failed command changes nothing; what is erased takes along
what belongs to it and what tells of it; the size of the cache makes no difference; the log, replayed, gives the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

import holdfast
from holdfast import errors
from holdfast.flows.history import views
from holdfast.model import limits
from holdfast.model.names import DEFAULT_ACTOR
from holdfast.runtime import transfer
from holdfast.runtime.engine import build_session_context
from tests.property import transcript_model as model
from tests.property.engine_machine import EngineMachine
from tests.property.session_model import CharCounter, ManualClock
from tests.property.store_tools import Fault, Faulty, dump, fast_folder, rows_dump
from tests.property.transcript_model import (
    TIMEOUT_US,
    Command,
    Destroy,
    Entry,
    Expire,
    Summarise,
    Transcript,
    commands,
)
from tests.property.transcript_player import (
    SessionOrder,
    catch_error,
    check_state,
    check_transcript,
    check_window,
    collect_answers,
    execute,
    expect_outcome,
)
from tests.support import CountingIds, figure

CONVERSATIONS = figure(30, 5_000)
ON_POSTGRES = figure(3, 5_000)
STEPS = 12
MANY = 1_000
NAMES = ("a", "b")

_faults = st.sampled_from([None, None, None, None, "before", "after"])
_which = st.integers(0, 1)
_names = st.sampled_from([*NAMES, "a", "a"])
_ends = st.builds(model.Close) | st.builds(Destroy, st.booleans())


@pytest.fixture(scope="module", autouse=True)
def small_steps() -> Iterator[None]:
    """Short conversations still cross many pages and snapshots, and reach the bounds."""
    with pytest.MonkeyPatch.context() as patch:
        for name, bound in (("SNAPSHOT_EVERY", 3), ("READ_EVENTS", 16), ("SUMMARY_EVENTS", 16), ("SUMMARIES", 3)):
            patch.setattr(limits, name, bound)
        patch.setattr(views, "_MIN_PAGE", 2)
        patch.setattr(transfer, "_PAGE", 4)
        yield


class Conversations(EngineMachine):
    """Two engines on one store, a third that only looks, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, Transcript] = {}
        self.touched_us: dict[str, int] = {}

    @initialize(cached=st.sampled_from([1, MANY]))
    def start(self, cached: int) -> None:
        self.engines = [self.open(cached), self.open(MANY)]
        self.faults = [Faulty.under(engine) for engine in self.engines]
        self.observer = self.open(1)
        for name in NAMES:
            if name not in self.said:
                self.engines[0].create_session(name, idle_timeout_s=TIMEOUT_US / 1e6)
                self.said[name], self.touched_us[name] = Transcript(), self.clock.us

    def teardown(self) -> None:
        try:
            if self.said:
                self.take_care(0)
        finally:
            super().teardown()

    # Commands, each perhaps in the middle of a crash

    @rule(name=_names, steps=st.lists(st.tuples(commands, _which, _faults), min_size=1, max_size=4))
    def talk(self, name: str, steps: list[tuple[Command, int, Fault | None]]) -> None:
        for command, which, fault in steps:
            self.give(name, command, which, fault)

    @rule(name=_names, command=_ends, which=_which, fault=_faults, really=st.sampled_from([True, False, False]))
    def end(self, name: str, command: Command, which: int, fault: Fault | None, really: bool) -> None:
        if really:
            self.give(name, command, which, fault)

    def give(self, name: str, command: Command, which: int, fault: Fault | None) -> None:
        said = self.said[name]
        if said.status == "destroyed" and isinstance(command, Destroy):
            return  # it may still go on with what the first one could not finish
        self.clock.us += 1_000
        command = said.resolved(command)
        after, refusals = expect_outcome(said, command)
        engine, faulty = self.engines[which], self.faults[which]
        before = dump(self.observer) if refusals or fault == "before" else b""
        session = handle(engine, name)
        faulty.fault = fault
        met = catch_error(lambda: execute(engine, session, command, said))
        struck, faulty.fault = faulty.fault is not fault, None
        if struck:  # also a command that was about to be refused may fail before it comes to that
            assert met is errors.StorageUnavailable
            assert not refusals or fault == "before"
        else:
            assert met in refusals or (met is None and not refusals) or (met and issubclass(met, refusals)), met
        if refusals or (struck and fault == "before"):
            assert dump(self.observer) == before
        elif after.version > said.version:
            self.said[name], self.touched_us[name] = after, self.clock.us
        self.check(name)

    def check(self, name: str) -> None:
        said = self.said[name]
        if said.status == "destroyed":
            assert catch_error(lambda: self.observer.session(name)) is errors.SessionDestroyedError
            return
        session = self.observer.session(name)
        check_transcript(session, said)
        check_state(session.state(), said)

    # Views, which change nothing

    @rule(name=_names, which=_which, budget=st.integers(1, 400) | st.just(10_000), keep_turns=st.integers(0, 3))
    def look(self, name: str, which: int, budget: int, keep_turns: int) -> None:
        said = self.said[name]
        if said.status == "destroyed":
            return
        before = dump(self.observer)
        session = self.engines[which].session(name)
        check_window(session, said, budget)
        draft = session.context.draft_summary(keep_turns)
        if draft is not None:
            assert said.start < draft.first <= draft.last <= draft.version == said.version
            assert draft.tokens == sum(entry.tokens for _, entry in said.stretch(draft.first, draft.last))
        assert dump(self.observer) == before

    @rule(name=_names, which=_which, keep_turns=st.integers(0, 3))
    def summarise_what_is_drafted(self, name: str, which: int, keep_turns: int) -> None:
        """A draft is something that can be summarised, if it has two tokens."""
        said = self.said[name]
        draft = (
            None if said.status == "destroyed" else self.engines[which].session(name).context.draft_summary(keep_turns)
        )
        if draft is not None and draft.tokens > 1:
            back = said.version - draft.last
            self.give(name, Summarise(draft.last - draft.first, back, 0, "s"), which, None)
            assert self.said[name].version == said.version + 1

    # What may happen between two commands

    @rule(which=_which, idle_us=st.sampled_from([1, TIMEOUT_US]), really=st.sampled_from([True, False, False]))
    def sweep(self, which: int, idle_us: int, really: bool) -> None:
        self.clock.us += idle_us if really else 1
        due: list[str] = []
        for name in sorted(self.said, key=lambda each: (self.touched_us[each], each)):
            said = self.said[name]
            after, refusals = expect_outcome(said, Expire(self.clock.us - self.touched_us[name]))
            if not refusals and after.version > said.version:
                self.said[name], self.touched_us[name] = after, self.clock.us
                due.append(name)
        assert [scope.session for scope in self.engines[which].admin.sweep(limit=16).sessions] == due
        for name in NAMES:
            self.check(name)

    @rule(which=_which, pick=st.integers(0, 9))
    def deliver(self, which: int, pick: int) -> None:
        """Long-term memory is told what was said, and says that it has it."""
        waiting = self.engines[which].admin.outbox(limit=16)
        assert {(each.scope.session, each.entry, each.why, each.first, each.last) for each in waiting} == {
            (name, *offer) for name, said in self.said.items() for offer in said.offers
        }
        if not waiting:
            return
        entry = waiting[pick % len(waiting)]
        said = self.said[entry.scope.session]
        told = self.engines[which].admin.offloaded(entry, limit=16)
        kept = [seq for seq, each in said.numbered() if each.kind in ("message", "evidence")]
        assert [each.seq for each in told] == [seq for seq in kept if entry.first <= seq <= entry.last][:16]
        for _ in range(2):
            self.engines[which].admin.acknowledge(entry)
        after = said.copy()
        after.done.add(entry.entry)
        after.entries.append(Entry("acknowledged"))
        self.said[entry.scope.session], self.touched_us[entry.scope.session] = after, self.clock.us
        self.check(entry.scope.session)

    @rule(cached=st.sampled_from([1, MANY]), abandon=st.booleans())
    def reopen(self, cached: int, abandon: bool) -> None:
        if self.shared is None and not abandon:
            for engine in (*self.engines, self.observer):
                engine.close()
        self.start(cached)

    @precondition(lambda self: self.exports < 2)
    @rule(which=_which)
    def take_care(self, which: int) -> None:
        """The log holds together, its rows can be made anew, and a copy of it is as good."""
        assert self.engines[which].admin.verify().problems == ()
        before = rows_dump(self.observer)
        self.engines[which].admin.rebuild()
        assert rows_dump(self.observer) == before
        target = os.path.join(self.folder, f"{self.exports}.jsonl")
        self.exports += 1
        self.engines[which].admin.export(target)
        with holdfast.open("memory:") as copy:
            copy.admin.import_(target)
            assert dump(copy) == dump(self.observer)
            assert copy.admin.verify().problems == ()


def handle(engine: holdfast.Engine, name: str) -> holdfast.Session:
    """A session without a look at whether it is there: that look would read the log anew."""
    return holdfast.Session(engine._drive, build_session_context(engine._context, DEFAULT_ACTOR, name, None))


class InMemory(Conversations):
    kind = "memory"


class OnSqlite(Conversations):
    kind = "sqlite"


class OnPostgres(Conversations):
    kind = "postgres"


@pytest.mark.promise(14, f"random conversations: {CONVERSATIONS:,} on SQLite, {ON_POSTGRES:,} on PostgreSQL")
@pytest.mark.timeout(1_200)  # a failure is made small before it is shown
@pytest.mark.parametrize(
    ("machine", "conversations"), [(InMemory, CONVERSATIONS), (OnSqlite, CONVERSATIONS), (OnPostgres, ON_POSTGRES)]
)
def test_random_conversations_come_to_what_a_plain_model_says(machine: type[Conversations], conversations: int) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=conversations, stateful_step_count=STEPS))


@settings(max_examples=figure(10, 1_000))
@given(orders=st.lists(st.tuples(_names, commands, st.integers(1, 300)), min_size=5, max_size=30))
def test_the_size_of_the_cache_makes_no_difference(orders: list[SessionOrder]) -> None:
    with fast_folder() as folder:
        urls = [os.path.join(folder, "small.db"), os.path.join(folder, "large.db"), "memory:"]
        told = [tell(url, size, orders) for url, size in zip(urls, (1, MANY, 1), strict=True)]
    assert told == [told[0]] * len(told)


def tell(url: str, cached: int, orders: list[SessionOrder]) -> tuple[list[object], bytes]:
    """What an engine with a cache of this size answers and shows, and what it then holds."""
    clock = ManualClock()
    with holdfast.open(url, clock=clock, ids=CountingIds(), counter=CharCounter(), cached_streams=cached) as engine:
        return collect_answers(engine, clock, orders), dump(engine)
