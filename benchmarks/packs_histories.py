"""Histories in files, at the point where the next pack is built: what is old was folded, the last turns are in view."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from benchmarks.agents import workload
from benchmarks.agents.holdfast_sessions import chat_messages
from benchmarks.agents.workload import Turn
from benchmarks.harness import Sample, measure_time
from benchmarks.packs_conversation import ANSWER, BUDGET, LARGE, PROMPT, QUESTION, turns_before, turns_in_view
from holdfast.model.history.plans import Frugal, SummarizeOldest
from holdfast.model.packs.pack import Brief
from holdfast.render.pack import Pack

SESSION = "only"


BATCH = 100
"""Messages between two packs while a history is made: a boundary each."""


SHORT = 1_000
"""Up to so many messages each turn has a copy of the history, so that it stays as short as it is."""


STEPS = 4
"""Model calls in a turn: what they add still fits into the view."""


WARM = 5


ROLE = "desk"


BRIEFS = {ROLE: Brief(prompt=PROMPT)}


FULL = Frugal(least=BUDGET)
"""Folds when it must, and never because it pays: so the packs are nearly full."""


def open_engine(path: Path) -> holdfast.Engine:
    return holdfast.open(path, briefs=BRIEFS, compaction=FULL)


def build_pack(session: holdfast.Session | holdfast.Frame) -> Pack:
    return session.pack(budget=BUDGET, role=ROLE)


class History(msgspec.Struct):
    """A session of about so many messages, in a file of its own."""

    path: Path
    messages: int
    number: int
    """Of the next turn."""
    last: Callable[[int], list[Turn]] = turns_in_view
    """The turns in view, numbered from here on."""

    @contextmanager
    def session(self) -> Iterator[holdfast.Session]:
        """With the view as it is when the history is new, and all caches as they are while one works."""
        with self._file() as path, open_engine(path) as engine:
            session = engine.session(SESSION)
            if path == self.path:
                fold(session)
                self.number = record(session, self.last(self.number))
            for _ in range(WARM):
                build_pack(session)
            yield session

    @contextmanager
    def _file(self) -> Iterator[Path]:
        if self.messages > SHORT:
            yield self.path
            return
        copy = self.path.with_name("copy.db")
        shutil.copy(self.path, copy)
        blobs = Path(f"{self.path}.blobs")
        if blobs.exists():
            shutil.copytree(blobs, f"{copy}.blobs", dirs_exist_ok=True)
        try:
            yield copy
        finally:
            for each in self.path.parent.glob("copy.db*"):
                shutil.rmtree(each) if each.is_dir() else each.unlink()


def create_history(
    path: Path,
    messages: int,
    prepare: Callable[[holdfast.Session], object] | None = None,
    last: Callable[[int], list[Turn]] = turns_in_view,
) -> History:
    """`prepare` is done to the session once all lies behind it but for the last turns."""
    with open_engine(path) as engine:
        session = engine.create_session(SESSION)
        number, batch = 0, list[Turn]()
        for turn in turns_before(messages):
            number = turn.number + 1
            batch.append(turn)
            if sum(map(len, batch)) >= BATCH:
                record(session, batch)
                build_pack(session)
                batch = []
        if batch:
            record(session, batch)
        if number:
            fold(session)
        if prepare is not None:
            prepare(session)
        number = record(session, last(number))
    return History(path, messages, number, last)


def record(session: holdfast.Session | holdfast.Frame, turns: Sequence[Turn]) -> int:
    """The number of the next turn."""
    session.record_all([message for turn in turns for message in chat_messages(turn)])
    return turns[-1].number + 1


def fold(session: holdfast.Session) -> None:
    session.context.compact(strategy=SummarizeOldest(keep_recent=0), window=BUDGET)


def step_turn(history: History) -> Callable[[], Sample]:
    """A question is kept, the pack is built, the answer is kept and the manifest with it."""

    def turn() -> Sample:
        with history.session() as session:

            def work() -> None:
                for _ in range(STEPS):
                    session.record("user", QUESTION)
                    session.record("assistant", ANSWER, pack=build_pack(session))

            return measure_time(STEPS, work, commits=2 * STEPS)

    return turn


def pack_turn(
    history: History,
    also: Callable[[Pack], object] | None = None,
    *,
    questions: Iterator[int] | None = None,
    prepare: Callable[[holdfast.Session], object] | None = None,
) -> Callable[[], Sample]:
    """The pack alone, after each question. `also` is done with it, `prepare` before. With `questions`, each asks for
    another shipment."""

    def ask() -> str:
        return QUESTION if questions is None else f"{QUESTION} And where is shipment {next(questions) % 40}?"

    def take(session: holdfast.Session) -> Sample:
        if prepare is not None:
            prepare(session)
        return pack_sample(session, also, ask())

    def turn() -> Sample:
        with history.session() as session:
            return Sample.total([take(session) for _ in range(STEPS)])

    return turn


def pack_sample(
    session: holdfast.Session | holdfast.Frame, also: Callable[[Pack], object] | None = None, question: str = QUESTION
) -> Sample:
    boundary = session.context.occupancy().boundary
    session.record("user", question)
    packs: list[Pack] = []

    def work() -> None:
        packs.append(build_pack(session))
        if also is not None:
            also(packs[0])

    sample = measure_time(1, work)
    assert packs[0].manifest.boundary == boundary, "none is folded while this is measured"
    session.record("assistant", ANSWER)
    return sample


def fold_turn(history: History) -> Callable[[], Sample]:
    """A pack that does not fit as it is, so that it folds first."""

    def turn() -> Sample:
        with history.session() as session:
            boundary = session.context.occupancy().boundary
            session.record_all(chat_messages(workload.turn(history.number + 1, LARGE)))
            history.number += 2
            sample = measure_time(1, lambda: build_pack(session), commits=1)
            assert session.context.occupancy().boundary > boundary, "it folds"
            return sample

    return turn


def assert_facts(session: holdfast.Session, facts: Iterable[dict[str, Any]], at_once: int) -> None:
    ledger, batch = session.ledger(), list[dict[str, Any]]()
    for fact in facts:
        batch.append(fact)
        if len(batch) == at_once:
            ledger.set_all(batch)
            batch = []
    if batch:
        ledger.set_all(batch)
