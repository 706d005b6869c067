"""Side by side with the `eventsourcing` package on its SQLite: durable appends, and the last events of a stream."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import FSYNC, Bench, Sample, Turn, each_us, environment, limit_met, measure_each, time_ratio
from benchmarks.report import Goal, Line, Table, micros

GOAL = Goal("below", 1)
TAIL = 100
SIZES = (1_000, 10_000)
WARM_EVENTS = 5_000

HERE = Path(__file__).parent
LOCK = HERE / "peer.lock"
WORKER = HERE / "peer_worker.py"
ENVIRONMENT = HERE.parent / ".venv-bench"


class Peer:
    """The other process. It takes its turns when told to and times itself."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [environment(ENVIRONMENT, LOCK), "-P", WORKER, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, *order: object) -> Any:
        self.tell(*order)
        return self.hear()

    def tell(self, *order: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer ended with code {self._process.wait()}")
        return json.loads(answer)

    def turn(self, operations: int, *order: object, commits: int = 0) -> Sample:
        wall_s, cpu_s = self.order(*order)
        return Sample(operations, wall_s, cpu_s, commits)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def run(bench: Bench) -> Table:
    with Peer(bench.file("peer.db")) as peer, holdfast.open(bench.file("ours.db")) as engine:
        return measure_peer(bench, peer, engine)


def measure_peer(bench: Bench, peer: Peer, engine: holdfast.Engine) -> Table:
    appends, reads, slices = 50, bench.pick(20, 5), bench.pick(10, 4)
    about = peer.order("about")
    sample_messages.warm(engine.store)
    peer.order("fill", "warm", [sample_messages.text(number) for number in range(WARM_EVENTS)], sample_messages.ROLE)
    session = engine.create_session("only")
    numbers = itertools.count()

    def texts() -> list[str]:
        return [sample_messages.text(next(numbers)) for _ in range(appends)]

    ours: dict[str, Turn] = {
        "append": lambda: measure_each(lambda text: session.record(sample_messages.ROLE, text), texts()),
    }
    theirs: dict[str, Turn] = {
        "append": lambda: peer.turn(appends, "append", texts(), sample_messages.ROLE, commits=appends),
    }
    for size in SIZES:
        what, name = f"last {TAIL} of {size:,}", str(size)
        sample_messages.fill(engine.store, name, size)
        peer.order("fill", name, [sample_messages.text(number) for number in range(size)], sample_messages.ROLE)
        ours[what] = read_turn(engine.session(name), reads)
        theirs[what] = lambda name=name: peer.turn(reads, "read", name, TAIL, reads)  # type: ignore[misc]
    turns = ours | {peer_name(what): turn for what, turn in theirs.items()}
    samples = bench.in_turns(bench.pick(11, 3), turns, slices=slices)
    lines = [
        Line(
            what=what,
            ours=micros(each_us(samples[what])),
            theirs=micros(each_us(samples[peer_name(what)])),
            ratio=time_ratio(samples[what], samples[peer_name(what)]),
            goal=GOAL,
            limit=limit_met(samples[what], samples[FSYNC]),
        )
        for what in ours
    ]
    notes = [
        "eventsourcing {peer} runs on SQLite {sqlite} with journal_mode={journal_mode}, "
        "synchronous={synchronous} (2 is FULL).".format(**about),
        f"Its own limit: {limit_met(samples[peer_name('append')], samples[FSYNC])}.",
    ]
    return Table(
        name="peer",
        title="the eventsourcing package, in the same run",
        ours="ours",
        theirs="eventsourcing",
        lines=lines,
        notes=notes,
    )


def peer_name(what: str) -> str:
    return f"{what} (peer)"


def read_turn(session: holdfast.Session, times: int) -> Callable[[], Sample]:
    def read(limit: int) -> None:
        assert len(session.messages(limit=limit)) == limit

    def turn() -> Sample:
        return msgspec.structs.replace(measure_each(read, [TAIL] * times), commits=0)

    return turn
