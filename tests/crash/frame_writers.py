"""Those who work on one tree of frames at once: threads, tasks of an event loop, or processes, which may be killed.

Every operation has a name of its own, which travels with it as its cause: so the log tells for each one whether it was
stored, and how often. A writer says what it is about to do before it does it, and what came of it afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Literal, TypeAlias

import msgspec

import holdfast
from holdfast import Usage
from holdfast.errors import Conflict, HoldfastError, NotFound
from holdfast.flows.context import SessionContext
from holdfast.model.frames.frames import FrameState, SweepResult
from holdfast.runtime.async_sessions import AsyncFrame
from holdfast.runtime.sessions import Frame
from tests.crash.worker import exit_on_error, run_in_threads

WRITERS = 32
SESSION = "tree"

Kind: TypeAlias = Literal[
    "push",
    "pop",
    "reserve",
    "commit",
    "cancel",
    "use",
    "grant",
    "record",
    "look",
    "suspend",
    "reissue",
    "resume",
    "start",
    "recover",
    "sweep",
]
DONE = "done"


class Op(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation, tried once."""

    name: str
    kind: Kind
    frame: str = ""
    amount: int = 0
    about: str = ""
    """The reservation, the call, the token, or how a frame is to end."""
    cascade: bool = False
    key: str | None = None
    answer: str = ""
    """Empty until it is known: done, or the error."""
    made: str = ""
    """What came back: a frame, a reservation, a token."""


def perform(engine: Any, session: Any, op: Op) -> Any:
    """Do it, with an engine that blocks or with one that is awaited: their methods have the same names."""
    match op.kind:
        case "resume":
            return engine.resume(op.about, cause=op.name)
        case "sweep":
            return engine.admin.sweep()
        case "look":
            return session.frames.list(status="live", limit=1_000)
        case "recover":
            return session.recover(cause=op.name)
        case "start":
            return session.start_call(op.about, cause=op.name)
        case "suspend":
            return frame_of(session, op.frame).suspend("a pause", cascade=op.cascade, cause=op.name)
        case "reissue":
            return frame_of(session, op.frame).reissue(cause=op.name)
    return _spend(frame_of(session, op.frame), op, {"cause": op.name, "key": op.key})


def _spend(frame: Any, op: Op, told: dict[str, Any]) -> Any:
    match op.kind:
        case "push":
            return frame.frame("a piece of work", budget=op.amount, **told)
        case "pop":
            status, _, summary = op.about.partition(" ")
            return frame.pop(status, summary, cascade=op.cascade, **told)
        case "reserve":
            return frame.budget.reserve("a call", op.amount, **told)
        case "commit":
            return frame.budget.commit(op.about, op.amount, **told)
        case "cancel":
            return frame.budget.cancel(op.about, **told)
        case "use":
            return frame.budget.use(op.amount, **told)
        case "grant":
            return frame.budget.grant(op.amount, **told)
    usage = Usage(op.amount, 0)
    return frame.record("assistant", op.name, usage=usage, reservation=op.about or None, **told)


def frame_of(session: Any, frame: str) -> Any:
    """A handle to a frame, without looking whether it is there."""
    kind = Frame if isinstance(session, holdfast.Session) else AsyncFrame
    return kind(session._drive, SessionContext(session._context.engine, session.scope, frame))


def with_answer(op: Op, value: Any) -> Op:
    if isinstance(value, HoldfastError):
        return msgspec.structs.replace(op, answer=type(value).__name__)
    made = value if isinstance(value, str) else getattr(value, "id", "")
    if isinstance(value, SweepResult):
        made = " ".join(frame for _, frame in value.frames)
    return msgspec.structs.replace(op, answer=DONE, made=str(made))


Life: TypeAlias = Generator[Op, Any, None]
"""Yields what is to be done, and is told what came of it: what came back, or the error."""


WEIGHTS: dict[Kind, int] = {
    "push": 18,
    "pop": 13,
    "reserve": 16,
    "commit": 16,
    "cancel": 6,
    "use": 14,
    "grant": 5,
    "record": 4,
    "look": 10,
    "suspend": 4,
    "reissue": 3,
    "resume": 6,
}


class Writer:
    """Does whatever can be done to a tree, at random: to what it made itself, and to what it sees of the others."""

    def __init__(self, name: str, root: str, again: Sequence[Op] = ()) -> None:
        self._name = name
        self._root = root
        self._again = again
        self._rng = random.Random(name)
        self._frames: list[str] = [root]
        self._reserved: list[tuple[str, str]] = []
        self._tokens: list[tuple[str, str]] = []

    def life(self, count: int | None) -> Life:
        for op in self._again:
            yield op
        for number in itertools.count() if count is None else range(count):
            op = self._draw(f"{self._name}/{number}")
            answer = yield op
            if not isinstance(answer, HoldfastError):
                self._learn(op, answer)

    def _draw(self, name: str) -> Op:
        rng = self._rng
        key = rng.choice((None, name))
        frame = rng.choice((self._root, rng.choice(self._frames[-8:])))
        (kind,) = rng.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))
        if kind in ("commit", "cancel") and not self._reserved:
            kind = "look"
        if kind in ("pop", "suspend") and frame == self._root:
            kind = "push"
        if kind in ("resume", "reissue") and not self._tokens:
            kind = "use"
        if kind == "look":
            return Op(name, kind)
        if kind in ("resume", "reissue"):
            frame, token = self._tokens.pop()
            return Op(name, kind, frame, 0, token)
        if kind == "suspend":
            return Op(name, kind, frame, cascade=rng.random() < 0.5)
        if kind in ("commit", "cancel") or (kind == "record" and self._reserved and rng.random() < 0.5):
            at = rng.randrange(len(self._reserved))
            frame, about = self._reserved[at] if rng.random() < 0.2 else self._reserved.pop(at)
            return Op(name, kind, frame, 0 if kind == "cancel" else rng.randint(0, 40), about, key=key)
        if kind == "pop":
            about = rng.choice(("completed", "failed", "cancelled", "completed well"))
            return Op(name, kind, frame, 0, about, cascade=rng.random() < 0.4, key=key)
        return Op(name, kind, frame, rng.randint(1, 200 if kind in ("push", "grant") else 30), key=key)

    def _learn(self, op: Op, answer: Any) -> None:
        if op.kind == "push":
            self._frames.append(answer.id)
        elif op.kind == "reserve":
            self._reserved.append((op.frame, answer.id))
        elif op.kind in ("suspend", "reissue"):
            self._tokens.append((op.frame, str(answer)))
        elif op.kind == "look":
            check_frames(answer)
            self._frames = [each.id for each in answer]
            self._reserved = [(each.id, one.id) for each in answer for one in each.reservations]


def check_frames(frames: list[FrameState]) -> None:
    """What is seen at one moment fits together."""
    there = {each.id: each for each in frames}
    for each in frames:
        assert each.is_live
        assert each.parent is None or each.parent in there, "a frame lives below one that has ended"
        below = [child for child in frames if child.parent == each.id]
        assert each.children == len(below)
        assert each.budget.delegated == sum(child.budget.total for child in below)
        assert min(each.budget.used, each.budget.reserved, each.budget.delegated, each.budget.available) >= 0


def race_life(ops: Sequence[Op]) -> Life:
    """One after the other, whatever comes of them."""
    for op in ops:
        _ = yield op


# How each of the worlds lives them

Report: TypeAlias = Callable[[Op], object]
Wait: TypeAlias = Callable[[], object]


def run_life(engine: holdfast.Engine, life: Life, say: Report, wait: Wait | None = None) -> None:
    """In a thread. With `wait`, everyone begins every operation at the same moment."""
    session = engine.session(SESSION)
    op: Op | None = next(life)
    while op is not None:
        say(op)
        if wait is not None:
            wait()
        try:
            answer = perform(engine, session, op)
        except (Conflict, NotFound) as error:
            answer = error
        say(with_answer(op, answer))
        op = _next(life, answer)


async def run_life_async(
    engine: holdfast.AsyncEngine, life: Life, say: Report, gate: asyncio.Barrier | None = None
) -> None:
    """In a task."""
    session = await engine.session(SESSION)
    op: Op | None = next(life)
    while op is not None:
        say(op)
        if gate is not None:
            await gate.wait()
        try:
            answer = await perform(engine, session, op)
        except (Conflict, NotFound) as error:
            answer = error
        say(with_answer(op, answer))
        op = _next(life, answer)


def _next(life: Life, answer: Any) -> Op | None:
    try:
        return life.send(answer)
    except StopIteration:
        return None


class Task(msgspec.Struct, frozen=True):
    """What one process is to do: races if there are any, otherwise whatever comes to its threads' minds."""

    url: str
    name: str
    root: str
    threads: int = 1
    count: int | None = None
    """Operations of each thread; None for as many as it can until it is killed."""
    again: tuple[Op, ...] = ()
    races: tuple[Op, ...] = ()


def work(task: Task, pipe: Connection, gate: Any = None) -> None:
    def say(op: Op) -> None:
        os.write(pipe.fileno(), msgspec.json.encode(op) + b"\n")  # one short write: lines of threads never mix

    with exit_on_error():
        engine = holdfast.open(task.url)
        if task.races:
            run_life(engine, race_life(task.races), say, gate.wait)
        else:
            run_in_threads(lambda number: run_life(engine, _writer(task, number).life(task.count), say), task.threads)
        engine.close()


def _writer(task: Task, number: int) -> Writer:
    name = f"{task.name}.{number}"
    again = [each for each in task.again if _slot(each.name) == _slot(name)]
    return Writer(name, task.root, again)


def _slot(name: str) -> str:
    """A process and its thread, whichever of their lives it is: `slot.life.thread/number`."""
    slot, _, thread = name.partition("/")[0].split(".")
    return f"{slot}.{thread}"


def run_in_processes(context: Any, tasks: Sequence[Task], gate: Any = None) -> Iterator[list[Op]]:
    """What each of them said, all of them at work at the same time."""
    started = []
    for task in tasks:
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(task, writer, gate))
        process.start()
        writer.close()
        started.append((process, reader))
    heard: list[list[Op]] = [[] for _ in started]

    def hear(at: int) -> None:
        with started[at][1] as reader, open(reader.fileno(), "rb", closefd=False) as lines:
            heard[at] = [msgspec.json.decode(line, type=Op) for line in lines]

    listeners = [threading.Thread(target=hear, args=(at,)) for at in range(len(started))]
    for listener in listeners:
        listener.start()
    for listener in listeners:
        listener.join()
    for (process, _), said in zip(started, heard, strict=True):
        process.join()
        assert process.exitcode == 0, "a process ended before its work did"
        yield said
