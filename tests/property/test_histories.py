"""Promise 14: random histories, with crashes between and within steps, always come to what a plain model says.

Laws: replaying any prefix of the log gives the state that was live then; twice is once; a refused or failed command changes
nothing; versions count 1, 2, 3…; every state is sound; the size of the cache makes no difference.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

import holdfast
from holdfast import errors
from holdfast.core import invariants, upcast
from holdfast.core.fold import fold_session
from holdfast.model import limits
from holdfast.model.rows import BlobRow, Row, SessionRow
from holdfast.runtime import transfer
from holdfast.types import SessionState
from tests.property.engine_machine import EngineMachine
from tests.property.session_model import (
    BODIES,
    NAMES,
    CharCounter,
    Command,
    Create,
    Erase,
    ManualClock,
    Model,
    Record,
    collect_answers,
    commands,
    run,
    state_of,
)
from tests.property.store_tools import Fault, Faulty, dump, fast_folder, rows_dump, rows_of_table, session_events
from tests.support import CountingIds, figure

R = TypeVar("R", bound=Row)

HISTORIES = figure(10, 10_000)
ON_POSTGRES = figure(3, 10_000)
"""Each costs many times what it costs in a file, and the machine is the same."""
STEPS = 20
MANY = 1_000

CARE = ("look_from_here", "miss", "verify", "rebuild", "export_and_import", "export_and_import")

_faults = st.sampled_from([None, None, None, "before", "after"])
_which = st.integers(0, 1)


@pytest.fixture(scope="module", autouse=True)
def small_steps() -> Iterator[None]:
    """Short histories still cross many pages and snapshots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SNAPSHOT_EVERY", 3)
        patch.setattr(limits, "READ_EVENTS", 5)
        patch.setattr(transfer, "_PAGE", 4)
        yield


class Histories(EngineMachine):
    """Two engines on one store, a third that only looks, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.live: dict[str, list[SessionState]] = {}
        """For every session, its state as it was seen after each event."""
        self.copy = holdfast.open("memory:")
        """Taken further by every export: what is erased here must then be erased there, too."""
        self.kept = b""
        """All that the store holds, as it was seen after the last event; empty if nobody has looked since."""

    @initialize(cached=st.sampled_from([1, MANY]))
    def start(self, cached: int) -> None:
        self.engines = [self.open(cached), self.open(MANY)]
        self.faults = [Faulty.under(engine) for engine in self.engines]
        self.handles: list[dict[str, holdfast.Session]] = [{}, {}]
        self.observer = self.open(1)

    # Commands, each perhaps in the middle of a crash

    @rule(steps=st.lists(st.tuples(commands, _which, _faults), min_size=1, max_size=5))
    def change(self, steps: list[tuple[Command, int, Fault | None]]) -> None:
        for command, which, fault in steps:
            if command.name not in self.model.sessions:
                self.give(Create(command.name, (), None), which, None)
            self.give(command, which, fault)

    @precondition(lambda self: self.model.keys)
    @rule(data=st.data(), which=_which)
    def retry(self, data: st.DataObject, which: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.keys)))
        self.give(self.model.keys[key][0], which, None)

    def give(self, command: Command, which: int, fault: Fault | None) -> None:
        self.clock.us += 1_000
        expected = self.model.expected(command)
        makes_event = isinstance(expected, int) and not self.model.repeats(command)
        comes_to_nothing = not makes_event or fault == "before"
        if comes_to_nothing and not self.kept:
            self.kept = dump(self.observer)
        answer, met, struck = self.attempt(command, which, fault)
        if struck:  # also a command that was about to be refused may fail before it comes to that
            assert met is errors.StorageUnavailable
            assert makes_event or fault == "before"
        else:
            assert met is (expected if isinstance(expected, type) else None)
            assert not (makes_event and fault)
        if comes_to_nothing:
            assert dump(self.observer) == self.kept
        else:
            self.kept = b""
            self.model.apply(command, self.clock.us)
            self.see(command)
        if answer is not None:
            assert answer.seq == expected
            assert self.look(command.name).messages(before=answer.seq + 1, limit=1) == [answer]

    def attempt(
        self, command: Command, which: int, fault: Fault | None
    ) -> tuple[holdfast.Message | None, type[BaseException] | None, bool]:
        """The answer or the error, and whether the fault struck: a command may end without an append."""
        faulty, answer, met = self.faults[which], None, None
        faulty.fault = fault
        try:
            answer = run(self.engines[which], self.handles[which], command, self.model.version(command.name))
        except holdfast.HoldfastError as error:
            met = type(error)
        struck = faulty.fault is not fault
        faulty.fault = None
        return answer, met, struck

    def see(self, command: Command) -> None:
        """Keep the state as it is now. An erasure reaches back: what was seen before then counts without the erased."""
        live = self.live.setdefault(command.name, [])
        if isinstance(command, Erase):
            entries = self.model.sessions[command.name]
            live[:] = [state_of(entries[:end]) for end in range(1, len(entries))]
        live.append(self.look(command.name).state())

    def look(self, name: str) -> holdfast.Session:
        return self.observer.session(name)

    # What may happen between two commands

    @rule(cached=st.sampled_from([1, MANY]), abandon=st.booleans())
    def reopen(self, cached: int, abandon: bool) -> None:
        if self.shared is None and not abandon:
            for engine in (*self.engines, self.observer):
                engine.close()
        self.start(cached)

    @rule(which=_which, care=st.sampled_from(CARE))
    def take_care(self, which: int, care: str) -> None:
        getattr(self, care)(which)

    def look_from_here(self, which: int) -> None:
        for name, entries in self.model.sessions.items():
            assert self.engines[which].session(name).state() == state_of(entries)

    def miss(self, which: int) -> None:
        for name in NAMES:
            if name not in self.model.sessions:
                try:
                    self.engines[which].session(name)
                except errors.SessionNotFound:
                    continue
                raise AssertionError(f"{name} was never created")

    def verify(self, which: int) -> None:
        report = self.engines[which].admin.verify()
        assert report.problems == ()
        assert report.events == sum(map(len, self.model.sessions.values()))

    def rebuild(self, which: int) -> None:
        before = rows_dump(self.observer)
        for _ in range(2):
            assert self.engines[which].admin.rebuild() == len(self.model.sessions)
            assert rows_dump(self.observer) == before

    def export_and_import(self, which: int) -> None:
        target = os.path.join(self.folder, f"{self.exports}.jsonl")
        self.exports += 1
        count = self.engines[which].admin.export(target)
        with holdfast.open("memory:") as fresh:
            for copy, new in ((fresh, count), (self.copy, count - self.copy.admin.totals().events)):
                assert [copy.admin.import_(target), copy.admin.import_(target)] == [new, 0]
                assert dump(copy) == dump(self.observer)
                assert copy.admin.verify().ok

    # What holds after every step

    @invariant()
    def the_log_says_what_the_model_says(self) -> None:
        for name, entries in self.model.sessions.items():
            events = session_events(self.look(name))
            assert [event.seq for event in events] == list(range(1, len(entries) + 1))
            assert [event.payload is None for event in events] == [entry.erased for entry in entries]
            assert (
                prefix_states(events)
                == self.live[name]
                == [state_of(entries[: end + 1]) for end in range(len(entries))]
            )

    @invariant()
    def every_row_says_what_the_model_says(self) -> None:
        states = {name: state_of(entries) for name, entries in self.model.sessions.items()}
        assert {row.session: (row.status, row.version, row.messages, row.tokens) for row in self.rows(SessionRow)} == {
            name: (state.status, state.version, state.messages, state.tokens) for name, state in states.items()
        }
        assert {(row.session, row.seq, row.digest) for row in self.rows(BlobRow)} == {
            (name, seq, hashlib.sha256(BODIES[entry.command.body]).hexdigest())
            for name, entries in self.model.sessions.items()
            for seq, entry in enumerate(entries, 1)
            if isinstance(entry.command, Record) and entry.command.body is not None and not entry.erased
        }

    def rows(self, kind: type[R]) -> list[R]:
        return list(rows_of_table(self.observer.store, kind))


def prefix_states(events: Iterable[holdfast.types.StoredEvent]) -> list[SessionState]:
    """The state after each event, folded from the first; every one of them sound."""
    states: list[SessionState] = []
    state = SessionState()
    for event in events:
        state = fold_session(state, upcast.decode_event(event), event.type, event.time_us)
        assert invariants.find_violations(state) == []
        states.append(state)
    return states


class InMemory(Histories):
    kind = "memory"


class OnSqlite(Histories):
    kind = "sqlite"


class OnPostgres(Histories):
    kind = "postgres"


@pytest.mark.promise(14, f"random histories with crashes: {HISTORIES:,} on SQLite, {ON_POSTGRES:,} on PostgreSQL")
@pytest.mark.timeout(1_200)  # a failure is made small before it is shown
@pytest.mark.parametrize(
    ("machine", "histories"), [(OnSqlite, HISTORIES), (OnPostgres, ON_POSTGRES), (InMemory, figure(60, 2_000))]
)
def test_random_histories_come_to_what_a_plain_model_says(machine: type[Histories], histories: int) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=histories, stateful_step_count=STEPS))


@settings(max_examples=figure(15, 2_000))
@given(orders=st.lists(commands, min_size=5, max_size=40))
def test_the_size_of_the_cache_makes_no_difference(orders: list[Command]) -> None:
    with fast_folder() as folder:
        urls = [os.path.join(folder, "small.db"), os.path.join(folder, "large.db"), "memory:", "memory:"]
        told = [tell(url, size, orders) for url, size in zip(urls, (1, MANY) * 2, strict=True)]
    assert told == [told[0]] * len(told)


def tell(url: str, cached: int, orders: list[Command]) -> tuple[list[object], bytes]:
    """What an engine with a cache of this size answers to these commands, and what it then holds."""
    clock = ManualClock()
    with holdfast.open(url, clock=clock, ids=CountingIds(), counter=CharCounter(), cached_streams=cached) as engine:
        return collect_answers(engine, clock, orders), dump(engine)


@pytest.mark.parametrize("erase_the_erasure", [False, True])
def test_an_erasure_reaches_a_copy_that_was_made_before(tmp_path: Path, erase_the_erasure: bool) -> None:
    with holdfast.open(tmp_path / "log.db") as engine, holdfast.open("memory:") as copy:
        session = engine.create_session("a")
        session.record("user", "secret")
        engine.admin.export(tmp_path / "before.jsonl")
        copy.admin.import_(tmp_path / "before.jsonl")
        session.erase([2], "asked to")
        if erase_the_erasure:
            session.erase([3], "nobody need know why")
        engine.admin.export(tmp_path / "after.jsonl")
        copy.admin.import_(tmp_path / "after.jsonl")
        assert b"secret" not in b"".join(event.payload or b"" for event in session_events(copy.session("a")))
        assert dump(copy) == dump(engine)
