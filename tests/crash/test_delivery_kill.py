"""Workers that are killed at each step of a delivery: nothing is lost, nothing is there twice. Several share the outbox.

Run as a program, this module is the nursery of workers: each kills itself before or after one of its writes, or when all is
delivered.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import msgspec
import pytest

import holdfast
from holdfast import Engine
from holdfast.model.memory.recall import SessionHistory
from holdfast.ports import EventStore
from tests.crash.worker import Nursery, die, run_in_threads, serve_nursery
from tests.property.store_tools import fast_folder, store_of_kind
from tests.support import SOAK, figure

WRITES = ("claim_offloads", "renew_offload", "release_offload", "append", "index_passages", "take_passages")
ENTRIES = figure(50, 500)
HOUR_US = 3_600_000_000
WHOLE = b"whole"


Moment: TypeAlias = Literal["before", "after"]


class Life(msgspec.Struct, frozen=True):
    url: str
    log: str
    """The file of a memory of the caller; empty for the built-in one."""
    write: int = 0
    """At which of its writes it dies, from 1; 0 for none."""
    moment: Moment = "before"


class FileMemory:
    """A memory in a file, a line for each part that it took: what it has outlives its process."""

    name = "file"

    def __init__(self, path: str) -> None:
        self._path = path

    def take(self, history: SessionHistory) -> None:
        line = msgspec.json.encode([history.key, [message.text for message in history.messages], os.getpid()])
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line + b"\n")
        finally:
            os.close(file)

    def read(self) -> list[tuple[str, list[str], int]]:
        """The key and the texts of each part, and the process that had it taken."""
        lines = Path(self._path).read_bytes().splitlines() if os.path.exists(self._path) else []
        return [msgspec.json.decode(line, type=tuple[str, list[str], int]) for line in lines]

    def recall(self, *_: object, **__: object) -> Any:
        return ()

    bootstrap = forget = recall


class DeadlyStep:
    """Counts writes, names them, and ends the process at one of them."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._count = 0

    def run(self, name: str, call: Any, *args: Any, **kwargs: Any) -> Any:
        self._count += 1
        os.write(1, name.encode() + b"\n")
        is_last = self._count == self._life.write
        if is_last and self._life.moment == "before":
            die()
        answer = call(*args, **kwargs)
        if is_last:
            die()
        return answer


class DeadlyStore:
    """A store whose writes are steps."""

    def __init__(self, store: EventStore, step: DeadlyStep) -> None:
        self._store = store
        self._step = step

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in WRITES:
            return found
        return lambda *args, **kwargs: self._step.run(name, found, *args, **kwargs)


class DeadlyMemory(FileMemory):
    def __init__(self, path: str, step: DeadlyStep) -> None:
        super().__init__(path)
        self._step = step

    def take(self, history: SessionHistory) -> None:
        self._step.run("take", super().take, history)


def live(line: bytes) -> None:
    life = msgspec.json.decode(line, type=Life)
    step = DeadlyStep(life)
    engine = holdfast.open(life.url, memory=DeadlyMemory(life.log, step) if life.log else None)
    engine.store = cast("EventStore", DeadlyStore(engine.store, step))
    engine.memory.deliver()
    os.write(1, WHOLE + b"\n")
    die()


# What there is to deliver, and what must come of it


def fill(url: str) -> None:
    """A session that is closed, one that is destroyed, and one that is reset: each teaches something."""
    with holdfast.open(url) as engine:
        engine.ledger(user="ada").set("phone_number", "555-0100")
        texts = {
            "closed": ("My address is 4 Fir Road.", "My phone number changed to 555-0199."),
            "destroyed": ("My birthday is May 4.", "It rains in Lisbon."),
            "reset": ("I moved: my address is now 8 Ash Court.", "Thanks."),
        }
        for name, said in texts.items():
            session = engine.create_session(name, user="ada")
            for text in said:
                session.record("user", text)
                session.record("assistant", "Noted.")
        engine.session("closed").end()
        engine.session("destroyed").destroy()
        engine.session("reset").reset("again")


class LaterClock:
    """The clock of whoever comes when all claims have run out."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000 + HOUR_US


class Outcome(msgspec.Struct, frozen=True):
    """What is there when all is delivered. Equal for any way to get there."""

    facts: list[tuple[str, str, str, int]]
    passages: int
    taken: dict[str, list[str]]
    acknowledged: dict[str, int]
    erased: int


def finish(url: str, log: str) -> Outcome:
    """Deliver the rest, once the claims of the dead have run out, and look."""
    memory = FileMemory(log) if log else None
    with holdfast.open(url, clock=LaterClock(), memory=memory) as engine:
        while (report := engine.memory.deliver()).delivered:
            assert report.failed == ()
        engine.admin.sweep()  # one that dies between an acknowledgement and its erasure leaves that to it
        assert engine.admin.outbox() == []
        assert engine.memory.backlog() == holdfast.types.DeliveryBacklog()
        assert engine.admin.verify().problems == ()
        return look(engine, memory)


def look(engine: Engine, memory: FileMemory | None) -> Outcome:
    ledger = engine.ledger(user="ada")
    history = [fact for key in ("address", "phone_number", "birthday") for fact in ledger.history(key)]
    events = engine.admin.feed(limit=1_000).events
    taken: dict[str, list[str]] = {}
    for key, texts, _ in memory.read() if memory else ():
        assert taken.setdefault(key, texts) == texts, "one key for two contents"
    said = (event for event in events if event.type == "message.recorded")
    return Outcome(
        facts=[(fact.key, str(fact.value), fact.status, len(fact.provenance)) for fact in history],
        passages=engine.memory.totals(user="ada").passages,
        taken=taken,
        acknowledged=dict(Counter(event.stream.key[1] for event in events if event.type == "offload.acknowledged")),
        erased=sum(event.payload is None for event in said),
    )


@contextmanager
def filled_store(kind: str, template: Path | None) -> Iterator[tuple[str, str]]:
    """The address of a filled store, and of a file for a memory."""
    with fast_folder() as folder:
        log = os.path.join(folder, "memory.jsonl")
        if template is not None:
            shutil.copytree(template, os.path.join(folder, "store"))
            yield os.path.join(folder, "store", "store.db"), log
            return
        with store_of_kind(cast("Any", kind)) as url:
            fill(url)
            yield url, log


@pytest.mark.parametrize("memory", ["built-in", "of the caller"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_worker_killed_at_any_step_loses_and_doubles_nothing(kind: str, memory: str, tmp_path: Path) -> None:
    template = tmp_path / "template" if kind == "sqlite" else None
    if template is not None:
        template.mkdir()
        fill(str(template / "store.db"))
    has_log = memory == "of the caller"
    with closing(Nursery("tests.crash.test_delivery_kill")) as nursery:
        with filled_store(kind, template) as (url, log):
            steps = nursery.run(Life(url, log if has_log else ""))
            expected = finish(url, log if has_log else "")
        names = [line.strip() for line in steps[:-1]]
        assert steps[-1].strip() == WHOLE
        assert {*names} >= {b"claim_offloads", b"append", *((b"take",) if has_log else (b"take_passages",))}
        check_expected(expected, has_log=has_log)
        for write, moment in choose_moments(len(names), kind, has_log=has_log):
            with filled_store(kind, template) as (url, log):
                path = log if has_log else ""
                assert nursery.run(Life(url, path, write, moment))[-1].strip() == names[write - 1]
                assert finish(url, path) == expected, (names[write - 1], write, moment)


def choose_moments(writes: int, kind: str, *, has_log: bool) -> list[tuple[int, Moment]]:
    """Where to die. After a write, and before the next one, the same is stored: one of both is enough every day."""
    after: list[tuple[int, Moment]] = [(1, "before"), *((write, "after") for write in range(1, writes + 1))]
    if SOAK:
        return [*after, *((write, "before") for write in range(2, writes + 1))]
    return after[:: 6 if kind == "postgres" else 2 if has_log else 1]


def check_expected(outcome: Outcome, *, has_log: bool) -> None:
    assert outcome.facts == [
        ("address", "4 Fir Road", "superseded", 1),
        ("address", "8 Ash Court", "live", 1),
        ("phone_number", "555-0100", "superseded", 0),
        ("phone_number", "555-0199", "live", 1),
        ("birthday", "May 4", "live", 1),
    ]
    assert outcome.acknowledged == {"closed": 1, "destroyed": 1, "reset": 1}
    assert outcome.erased == 4
    assert bool(outcome.taken) == has_log
    assert outcome.passages == (0 if has_log else 12)


# Several workers


def share(url: str, log: str) -> None:
    with holdfast.open(url, memory=FileMemory(log)) as engine:
        print("ready", flush=True)
        sys.stdin.readline()
        run_in_threads(lambda _: _deliver_all(engine), 2)


def _deliver_all(engine: Engine) -> None:
    while engine.memory.deliver(limit=7).delivered:
        pass


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_threads_and_processes_share_the_outbox(kind: Any) -> None:
    with store_of_kind(kind) as url, fast_folder() as folder:
        log = os.path.join(folder, "memory.jsonl")
        with holdfast.open(url, memory=FileMemory(log)) as engine:
            for number in range(ENTRIES):
                session = engine.create_session(f"s{number}", user=f"u{number % 5}")
                session.record("user", f"My phone number is 555-{number:04}.")
                session.end()
            command = [sys.executable, "-m", "tests.crash.test_delivery_kill", url, log]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            others = [subprocess.Popen(command, **pipes) for _ in range(2)]
            for other in others:
                assert other.stdout is not None
                assert other.stdout.readline() == "ready\n"
            for other in others:
                assert other.stdin is not None
                other.stdin.write("go\n")
                other.stdin.flush()
            own = [threading.Thread(target=_deliver_all, args=(engine,)) for _ in range(2)]
            for thread in own:
                thread.start()
            for thread in own:
                thread.join()
            for other in others:
                other.communicate(timeout=60)
            assert [other.returncode for other in others] == [0, 0]
            assert engine.admin.outbox() == []
            taken = [key for key, _, _ in FileMemory(log).read()]
            assert len(taken) == len({*taken}) == ENTRIES
            assert len({process for _, _, process in FileMemory(log).read()}) > 1, "one did all the work"
            events = engine.admin.feed(limit=1_000).events if ENTRIES < 150 else ()
            acknowledged = Counter(event.stream for event in events if event.type == "offload.acknowledged")
            assert {*acknowledged.values()} <= {1}
            for number in range(5):
                (fact,) = engine.ledger(user=f"u{number}").items()
                assert fact.value == f"555-{ENTRIES - 5 + number:04}"


if __name__ == "__main__":
    if sys.argv[1:] == ["nursery"]:
        with holdfast.open("memory:") as warm:  # or every process loads all this by itself
            warm.create_session("warm", user="ada").record("user", "My address is 4 Fir Road.")
            warm.session("warm").end()
            warm.memory.deliver()
        serve_nursery(live)
    else:
        share(*sys.argv[1:])
