"""32 writers on one tree of frames, in threads, in tasks and in processes that are killed: no grant is settled twice, every
use that was acknowledged is counted once, no more is granted than there is, and of those who race for one thing one wins.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Any, NamedTuple, cast

import msgspec
import pytest

import holdfast
from holdfast import Engine, Session
from holdfast.core import invariants, upcast
from holdfast.core.fold import fold_session
from holdfast.errors import TokenRevokedError
from holdfast.model.frames.events import FramePopped
from holdfast.model.frames.frames import FrameState
from holdfast.model.names import StreamId
from holdfast.model.state import SessionState
from holdfast.ports import EventStore
from holdfast.runtime.driver import StreamLocks
from holdfast.storage.postgres.store import PostgresStore
from holdfast.testing.appends import session_stream
from tests.crash.frame_accounts import FrameAccounts, check_stored
from tests.crash.frame_steps import as_preparer
from tests.crash.frame_writers import (
    DONE,
    SESSION,
    WRITERS,
    Life,
    Op,
    Task,
    Writer,
    race_life,
    run_in_processes,
    run_life,
    run_life_async,
    work,
)
from tests.property.store_tools import Kind, rows_dump, session_events, store_of_kind
from tests.support import figure

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([work.__module__, PostgresStore.__module__])
CARE = threading.Lock()
"""Whoever starts a process also looks after all others that have ended, and two must not do so at once."""
ENGINES = 4
SEED = 20_240_611

SLOTS, THREADS = 8, 4
assert SLOTS * THREADS == WRITERS
LIVES = figure(3, 200)
MOST_LINES = figure(100, 400)
"""Lines after which a process is killed at the latest."""
LAST = 3
"""Operations of each writer in the last process of a slot, which ends by itself: so nothing is under way at the end."""
BUDGET = 50 * SLOTS * LIVES

pytestmark = pytest.mark.promise(
    8, f"one tree of frames under {WRITERS} writers, {SLOTS * (LIVES - 1):,} kills a store"
)


# The worlds: each lives 32 lives at once, and gives back what each of them said


def in_threads(url: str, engine: Engine, lives: Sequence[Life], *, together: bool) -> list[list[Op]]:
    """Of several engines, which collide, and several of each, which take turns."""
    said: list[list[Op]] = [[] for _ in lives]
    gate = threading.Barrier(len(lives))
    with ExitStack() as exits:
        engines = [engine]
        if url != "memory:":
            engines += [exits.enter_context(holdfast.open(url)) for _ in range(ENGINES - 1)]

        def run(at: int) -> None:
            run_life(engines[at % len(engines)], lives[at], said[at].append, gate.wait if together else None)

        with ThreadPoolExecutor(len(lives)) as threads:
            list(threads.map(run, range(len(lives))))
    return said


def in_tasks(url: str, engine: Engine, lives: Sequence[Life], *, together: bool) -> list[list[Op]]:
    said: list[list[Op]] = [[] for _ in lives]

    async def story() -> None:
        gate = asyncio.Barrier(len(lives)) if together else None
        async with await holdfast.open_async(url) as awaited:
            every = (run_life_async(awaited, life, own.append, gate) for life, own in zip(lives, said, strict=True))
            await asyncio.gather(*every)

    asyncio.run(story())
    return said


class World(NamedTuple):
    kind: Kind
    how: str
    each: int
    """Operations of each writer."""


FEW = 12
"""Operations of each writer, at least, if all kinds of them are to be among those that are done."""

WORLDS = [
    World("memory", "threads", figure(30, 2_000)),
    World("sqlite", "threads", figure(12, 1_000)),
    World("sqlite", "tasks", figure(20, 1_000)),
    World("sqlite", "processes", figure(8, 500)),
    World("postgres", "threads", figure(8, 300)),
    World("postgres", "tasks", figure(12, 500)),
    World("postgres", "processes", figure(6, 200)),
]


class Place(NamedTuple):
    world: World
    url: str
    engine: Engine
    session: Session

    def race(self, ops: Sequence[Sequence[Op]]) -> list[list[Op]]:
        """Each racer has a list; all begin the first of theirs at the same moment, then the second … What was answered."""
        if self.world.how == "processes":
            tasks = [Task(self._narrow, f"r.0.{at}", "", races=tuple(own)) for at, own in enumerate(ops)]
            said = list(run_in_processes(CONTEXT, tasks, CONTEXT.Barrier(len(tasks))))
        else:
            run = in_threads if self.world.how == "threads" else in_tasks
            said = run(self.url, self.engine, [race_life(own) for own in ops], together=True)
        assert all(len(own) == 2 * len(mine) for own, mine in zip(said, ops, strict=True))
        return [own[1::2] for own in said]

    def write(self, root: str) -> list[Op]:
        """Everything that 32 writers said while they did what came to their minds."""
        names = [f"w.0.{number}" for number in range(WRITERS)]
        if self.world.how == "processes":
            tasks = [Task(self._narrow, f"{number}.0", root, count=self.world.each) for number in range(WRITERS)]
            return [op for said in run_in_processes(CONTEXT, tasks) for op in said]
        run = in_threads if self.world.how == "threads" else in_tasks
        lives = [Writer(name, root).life(self.world.each) for name in names]
        return [op for said in run(self.url, self.engine, lives, together=False) for op in said]

    @property
    def _narrow(self) -> str:
        return f"{self.url}&pool=1" if self.world.kind == "postgres" else self.url


@pytest.fixture(params=WORLDS, ids=lambda world: f"{world.kind}-{world.how}")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with store_of_kind(request.param.kind) as url, holdfast.open(url) as engine:
        yield Place(request.param, url, engine, engine.create_session(SESSION))


# What must hold of everything that was written


def judged(engine: Engine, ops: Sequence[Op]) -> Counter[tuple[str, str, bool]]:
    """Compare what was said with what is there, event by event, and everything with everything else."""
    session = engine.session(SESSION)
    ledger, state = FrameAccounts(), SessionState()
    events = session_events(session)
    for recorded in events:
        ledger.take(recorded)
        state = fold_session(state, upcast.decode_event(recorded), recorded.type, recorded.time_us)
        assert invariants.find_violations(state) == [], f"after event {recorded.seq}"
    assert session.state() == state
    frames: dict[str, FrameState] = {}
    while page := session.frames.list(after=next(reversed(frames), None), limit=1_000):
        frames.update((each.id, each) for each in page)
    ledger.check(frames)
    assert {name: frame for name, frame in frames.items() if frame.is_live} == state.frames
    fates = check_stored(ops, events, ledger)
    assert engine.admin.verify().problems == ()
    before = rows_dump(engine)
    engine.admin.rebuild()
    assert rows_dump(engine) == before
    return fates


def finish(session: Session, root: str) -> None:
    """The tree ends: all that was ever used in it has been used by its root."""
    frame = session.frames.get(root)
    frame.pop("completed", "all of it", cascade=True)
    spent = 0
    for recorded in session_events(session):
        spent += (
            getattr(upcast.decode_event(recorded), "tokens", 0)
            if recorded.type in ("budget.used", "budget.committed")
            else 0
        )
    assert frame.state().budget.used == spent
    assert session.frames.list(status="live") == []


def test_writers_on_one_tree_are_counted_once_each(place: Place) -> None:
    budget = place.world.each * WRITERS * 6
    root = place.session.frame("everything", budget=budget, max_subframe_depth=4).id
    ops = place.write(root)
    fates = judged(place.engine, ops)
    finish(place.session, root)
    assert place.engine.admin.verify().problems == ()
    assert sum(fates.values()) == WRITERS * place.world.each
    done = {kind for (kind, answer, _), count in fates.items() if answer == DONE and count > 1}
    assert done >= {"push", "reserve", "use", "look"} | ({"pop", "commit"} if place.world.each >= FEW else set())
    refused = {answer for (_, answer, there) in fates if answer != DONE and not there}
    assert refused >= {"InsufficientTokens"}
    assert "unknown" not in refused


# Races: 32 want the same thing, and begin at the same moment


class Track(NamedTuple):
    """What is raced for."""

    token: str
    asleep: str
    tired: str
    dying: str
    poor: str
    spending: str
    reservation: str
    call: str
    late: tuple[str, ...]
    """Out of time."""


def track_of(engine: Engine) -> Track:
    session = as_preparer(engine, "default").session(SESSION)  # long ago: what has a deadline is past it
    root = session.frame("races", budget=100_000)
    asleep, tired, dying, poor, spending = (root.frame(f"race {number}", budget=1_000) for number in range(5))
    dying.frame("below", budget=10)
    late = [root.frame("late", budget=10, timeout_s=1) for _ in range(3)]
    late += [frame.frame("late too", budget=5) for frame in late]
    called = root.record("assistant", "I pay.", tool_calls=[{"name": "pay", "args": {}}])
    return Track(
        token=str(asleep.suspend("a race")),
        asleep=asleep.id,
        tired=tired.id,
        dying=dying.id,
        poor=poor.id,
        spending=spending.id,
        reservation=spending.budget.reserve("a call", 50).id,
        call=called.tool_calls[0].id,
        late=tuple(frame.id for frame in late),
    )


ENDINGS = ("completed", "completed well", "failed", "cancelled")


def races_of(track: Track, racer: int) -> list[Op]:
    name = f"r{racer}/"
    settle: Op = Op(name + "settle", "commit", track.spending, 7, track.reservation)
    if racer % 2:
        settle = Op(name + "settle", "cancel", track.spending, 0, track.reservation)
    return [
        Op(name + "resume", "resume", about=track.token),
        Op(name + "start", "start", about=track.call),
        Op(name + "pop", "pop", track.dying, 0, ENDINGS[racer % len(ENDINGS)], cascade=True),
        Op(name + "push", "push", track.poor, 60 + racer),
        settle,
        Op("push once", "push", track.spending, 5, key="push once"),
        Op(name + "suspend", "suspend", track.tired),
        Op(name + "reissue", "reissue", track.tired),
        Op(name + "recover", "recover"),
        Op(name + "use", "use", track.spending, 3),
        Op(name + "sweep", "sweep"),
    ]


def counted(ops: Sequence[Op]) -> dict[str, int]:
    return dict(Counter(op.answer for op in ops))


def test_of_those_who_race_for_one_thing_one_wins(place: Place) -> None:
    track = track_of(place.engine)
    said = place.race([races_of(track, racer) for racer in range(WRITERS)])
    resume, start, pop, push, settle, once, suspend, reissue, recover, use, sweep = zip(*said, strict=True)
    lost = WRITERS - 1
    assert counted(resume) == {DONE: 1, "TokenConsumed": lost}
    assert counted(start) == {DONE: 1, "OutcomeUnknown": lost}
    assert counted(settle) == {DONE: 1, "ReservationSettled": lost}
    assert counted(suspend) == {DONE: 1, "AlreadySuspended": lost}
    assert counted(once) == counted(reissue) == counted(recover) == counted(use) == counted(sweep) == {DONE: WRITERS}
    assert len({op.made for op in once}) == 1
    check_pops(place.session, track, pop)
    check_pushes(place.session, track, push)
    check_tokens(place.engine, track, reissue)
    assert sorted(" ".join(op.made for op in sweep).split()) == sorted(track.late)
    spending = place.session.frames.get(track.spending).state()
    assert spending.budget.used == 3 * WRITERS + sum(op.amount for op in settle if op.answer == DONE)
    assert (spending.budget.reserved, spending.children) == (0, 1)
    judged(place.engine, [op for own in said for op in own if op.name != "push once"] + [once[0]])


def check_pops(session: Session, track: Track, pops: Sequence[Op]) -> None:
    """One way wins, and is the same answer for all who meant it."""
    (event,) = (
        event
        for recorded in session_events(session)
        if isinstance(event := upcast.decode_event(recorded), FramePopped) and event.frame == track.dying
    )
    won = f"{event.status} {event.summary}".strip()
    for op in pops:
        assert op.answer == (DONE if op.about == won else "AlreadyTerminal")
    assert session.frames.get(track.dying).state().status == event.status


def check_pushes(session: Session, track: Track, pushes: Sequence[Op]) -> None:
    """As many as there is budget for: whoever was refused would not fit now either."""
    granted = sum(op.amount for op in pushes if op.answer == DONE)
    budget = session.frames.get(track.poor).state().budget
    assert (granted, budget.available) == (budget.delegated, 1_000 - granted)
    refused = [op.amount for op in pushes if op.answer == "InsufficientTokens"]
    assert counted(pushes) == {DONE: WRITERS - len(refused), "InsufficientTokens": len(refused)}
    assert min(refused) > budget.available


def check_tokens(engine: Engine, track: Track, reissued: Sequence[Op]) -> None:
    """Of all the tokens of one frame the newest one wakes it, and no other."""
    orders = {event.cause: event.seq for event in session_events(engine.session(SESSION))}
    *old, newest = sorted(reissued, key=lambda op: orders[op.name])
    for op in old:
        with pytest.raises(TokenRevokedError):
            engine.resume(op.made)
    assert engine.resume(newest.made).id == track.tired


# Writers that are killed


class Slot:
    """A place for one process at a time: each is killed at a moment of our choosing, but for the last."""

    def __init__(self, url: str, number: int, root: str) -> None:
        self.ops: list[Op] = []
        self.kills = 0
        self._url = url
        self._number = number
        self._root = root
        self._rng = random.Random(f"{SEED}/{number}")

    def live(self, lives: int) -> None:
        again: tuple[Op, ...] = ()
        for life in range(lives):
            task = Task(self._url, f"{self._number}.{life}", self._root, threads=THREADS, again=again)
            if life == lives - 1:
                task = msgspec.structs.replace(task, count=LAST)
            said = self._run(task, None if task.count else self._rng.randint(1, MOST_LINES))
            again = self._unanswered(said)
            self.ops += said
        assert not again

    def _run(self, task: Task, lines: int | None) -> list[Op]:
        reader, writer = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=work, args=(task, writer))
        with CARE:
            process.start()
        writer.close()
        said: list[Op] = []
        with reader, open(reader.fileno(), "rb", closefd=False) as pipe:
            for line in pipe:
                said.append(msgspec.json.decode(line, type=Op))
                if len(said) == lines:
                    process.kill()
                    self.kills += 1
        with CARE:
            process.join()
        assert process.exitcode == (0 if lines is None else -signal.SIGKILL)
        return said

    def _unanswered(self, said: Sequence[Op]) -> tuple[Op, ...]:
        """What nobody knows the outcome of and has a key: at most one for each thread."""
        open_: dict[str, Op] = {}
        for op in said:
            if op.answer:
                del open_[op.name]
            else:
                open_[op.name] = op
        assert len(open_) <= THREADS
        return tuple(op for op in open_.values() if op.key is not None)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_writers_that_are_killed_leave_at_most_what_was_not_answered(kind: Kind) -> None:
    with store_of_kind(kind) as url:
        with holdfast.open(url) as engine:
            root = engine.create_session(SESSION).frame("everything", budget=BUDGET, max_subframe_depth=4).id
        narrow = f"{url}&pool={THREADS}" if kind == "postgres" else url
        slots = [Slot(narrow, number, root) for number in range(SLOTS)]
        with ThreadPoolExecutor(SLOTS) as pool:
            list(pool.map(lambda slot: slot.live(LIVES), slots))
        with holdfast.open(url) as engine:
            fates = judged(engine, [op for slot in slots for op in slot.ops])
            finish(engine.session(SESSION), root)
            assert engine.admin.verify().problems == ()
    assert sum(slot.kills for slot in slots) == SLOTS * (LIVES - 1)
    unknown = {there for (kind, answer, there) in fates if answer == "unknown" and kind != "look"}
    assert unknown == {True, False}, "nothing was cut short, or nothing of that was tried again"


# What the races meet too seldom


def test_a_stream_whose_lock_is_given_back_twice_at_once_is_not_lost() -> None:
    """Who leaves counts those who stay; meanwhile one of those may leave too."""
    turns, stream = StreamLocks(), session_stream("shared")
    leaving, second = threading.Event(), ThreadPoolExecutor(1)

    def take_and_give() -> None:
        turns.acquire(stream)
        leaving.wait()
        turns.release(stream)

    class Watched(dict[Any, Any]):
        def pop(self, *args: Any) -> Any:
            taken = super().pop(*args)
            if not leaving.is_set():
                leaving.set()
                wait([other], timeout=0.2)  # it is through, or it waits until we are
            return taken

    turns._locks = Watched()
    turns.acquire(stream)
    other = second.submit(take_and_give)
    while turns._locks[stream][1] < 2:
        pass
    turns.release(stream)
    leaving.set()
    other.result()
    turns.acquire(stream)
    turns.release(stream)
    assert not turns._locks
    second.shutdown()


class Paused:
    """A store between an engine and the real one: whoever reads waits with what was read, once."""

    def __init__(self, inner: EventStore) -> None:
        self._inner = inner
        self.has_read, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, *args: Any, **options: Any) -> Any:
        found = self._inner.read(*args, **options)
        if not self.has_read.is_set():
            self.has_read.set()
            self.go_on.wait()
        return found


def test_who_takes_up_a_session_is_told_what_is_pending_now_whoever_else_looks_at_it() -> None:
    """A reader that looked long ago may leave what it saw behind, at the worst moment: right after the log says that the
    session was taken up."""
    with holdfast.open("memory:") as engine, ThreadPoolExecutor(1) as second:
        session = engine.create_session(SESSION)
        (call,) = session.record("assistant", "I pay.", tool_calls=[{"name": "pay", "args": {}}]).tool_calls
        paused = Paused(engine.store)
        slow = Engine(cast("EventStore", paused), engine._blob_store, engine._context).session
        reader = second.submit(slow, SESSION)
        paused.has_read.wait()
        started = session.start_call(call)

        class Late(StreamLocks):
            def release(self, stream: StreamId) -> None:
                super().release(stream)
                paused.go_on.set()
                reader.result()

        engine._locks = Late()
        recovery = session.recover()
        assert [(each.kind, each.key) for each in recovery.pending_work] == [("tool_in_progress", started.key)]
