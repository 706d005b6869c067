"""Someone who asserts facts at random, in a thread of this process or of another."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import msgspec

import holdfast
from holdfast import Engine, Identity
from holdfast.errors import Conflict
from tests.crash.fact_steps import with_detector
from tests.crash.worker import exit_on_error, run_in_threads

KEYS = ("town", "food", "song")
"""What everyone asserts as a peer: whoever comes later has the say."""
CONTESTED = "price"
"""What everyone asserts with his own authority."""
RUNGS = ("policy", "manager", "peer", "guest")


class Acknowledgement(msgspec.Struct, frozen=True):
    """What was acknowledged: a fact, or a message together with one."""

    writer: int
    key: str
    value: str
    fact: str = ""
    message: str = ""


OWN = holdfast.Policy(learn_into="session")
"""What a session hears that is new stays its own: nobody else writes there."""


class Task(msgspec.Struct, frozen=True):
    url: str
    first: int
    """The number of the first writer."""
    threads: int
    each: int


def write(engine: Engine, writer: int, each: int, say: Callable[[Acknowledgement], object]) -> None:
    """Assert, some of it twice under one key, and observe; every value is said by nobody else, and once."""
    rng = random.Random(writer)
    engine = with_detector(engine)
    rung = RUNGS[writer % len(RUNGS)]
    ledger = engine.ledger(user="ada")
    own = engine.ledger(user="ada", identity=Identity(user_id=f"w{writer}", authority=rung))
    session = engine.create_session(f"s{writer}", identity=Identity(user_id=f"w{writer}"), ledgers=[ledger.id])
    for number in range(each):
        value = f"{writer}/{number}"
        if number % 3 == 2:
            observed = session.observe(f"It is {value}.", key=f"said {value}")
            say(Acknowledgement(writer, "town", value, message=observed.message.id))
            continue
        key = rng.choice((*KEYS, CONTESTED))
        for _ in range(rng.choice((1, 1, 2))):
            fact = (own if key == CONTESTED else ledger).set(key, value, key=f"fact {value}")
        say(Acknowledgement(writer, key, value, fact=fact.id))
        if number % 5 == 4:
            try:
                ledger.set("trip", value, depends_on=rng.choice(KEYS))
            except Conflict:
                continue  # what it was to rest on has just died


def write_in_threads(engines: list[Engine], writers: int, each: int) -> list[Acknowledgement]:
    said: list[Acknowledgement] = []
    gate = threading.Barrier(writers)

    def run(number: int) -> None:
        gate.wait()
        write(engines[number % len(engines)], number, each, said.append)

    with ThreadPoolExecutor(writers) as threads:
        list(threads.map(run, range(writers)))
    return said


def work(task: Task, pipe: Connection) -> None:
    """In a process of its own."""

    def say(said: Acknowledgement) -> None:
        os.write(pipe.fileno(), msgspec.json.encode(said) + b"\n")  # one short write: lines of threads never mix

    with exit_on_error(), holdfast.open(task.url, policy=OWN) as engine:
        run_in_threads(lambda number: write(engine, task.first + number, task.each, say), task.threads)


def write_in_processes(context: Any, tasks: list[Task]) -> list[Acknowledgement]:
    """What they said, all of them at work at the same time."""
    started = []
    for task in tasks:
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(task, writer))
        process.start()
        writer.close()
        started.append((process, reader))
    said: list[Acknowledgement] = []
    for process, reader in started:
        with reader, open(reader.fileno(), "rb", closefd=False) as lines:
            said += [msgspec.json.decode(line, type=Acknowledgement) for line in lines]
        process.join()
        assert process.exitcode == 0, "a process ended before its work did"
    return said
