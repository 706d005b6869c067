"""Processes that get killed, and the nursery that they come from.

A nursery imports everything, opens nothing, and forks a fresh process for every line on its standard input, so that
hundreds can live and die in a short time. All lines go through one pipe, which outlives a killed process and keeps the
order:

    born 4711      the process exists
    …              what it has to say
    dead 9         it was ended by this signal; nothing of it follows

The process of this module writes to a store as fast as it can and says what was acknowledged:

    {"tries": Work}                              before a message is recorded
    {"done": Work, "id": …, "seq": …}            after it was
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

import msgspec

import holdfast
from holdfast.types import Body

ROOT = Path(__file__).parents[2]
SESSIONS = 6
THREADS = 4
BLOB_BYTES = 3_000


class Nursery:
    """Processes of a module, one after the other, each killed at a moment of our choosing."""

    def __init__(self, module: str, counted: bytes = b"") -> None:
        """`counted`: how a line begins that says that something is done."""
        self._counted = counted
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, "nursery"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def born(self, task: msgspec.Struct) -> int:
        """The pid of a fresh process that has this to do."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(task) + b"\n")
        self._process.stdin.flush()
        word, pid = self._line().split()
        assert word == b"born"
        return int(pid)

    def buried(self) -> list[bytes]:
        """What it said from here on until it was killed, by whomever."""
        said: list[bytes] = []
        while not (line := self._line()).startswith(b"dead"):
            said.append(line)
        assert int(line.split()[1]) == signal.SIGKILL, "the process did not die where it was to"
        return said

    def run_and_kill(self, task: msgspec.Struct, after_done: int, delay_s: float) -> list[bytes]:
        """What a process said until it was killed, so many acknowledgements and moments into its work."""
        pid = self.born(task)
        said: list[bytes] = []
        done = 0
        while done < after_done:
            said.append(self._line())
            assert not said[-1].startswith(b"dead"), "the process ended before it was killed"
            done += said[-1].startswith(self._counted)
        time.sleep(delay_s)
        os.kill(pid, signal.SIGKILL)
        return said + self.buried()

    def run(self, task: msgspec.Struct) -> list[bytes]:
        """What a process said that kills itself where its task says."""
        self.born(task)
        return self.buried()

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the nursery has ended"
        return line

    def close(self) -> None:
        self._process.communicate()


def serve_nursery(live: Callable[[bytes], None]) -> None:
    importlib.import_module("holdfast.storage.postgres.blobs")  # or every process does so by itself
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            os.close(0)
            _say(b"born %d" % os.getpid())
            with exit_on_error():
                live(line)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        _say(b"dead %d" % (os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0))


def _say(line: bytes) -> None:
    os.write(1, line + b"\n")  # one short write to a pipe: lines of threads never mix


def die(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


@contextmanager
def exit_on_error() -> Iterator[None]:
    """An error in any thread is the end of the process: the parent sees that its kill was not what ended it."""
    try:
        yield
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def run_in_threads(work: Callable[[int], None], count: int) -> None:
    """Do it so many times at once, to the end or until an error ends the process."""

    def run(number: int) -> None:
        with exit_on_error():
            work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# The writer


class Work(msgspec.Struct, frozen=True):
    """One message: its text is its name, never used twice."""

    session: str
    text: str
    keyed: bool
    blob: bool

    @property
    def key(self) -> str | None:
        return self.text if self.keyed else None


Death: TypeAlias = Literal["before the append", "before the reply"]


class Round(msgspec.Struct, frozen=True):
    """What one writer is to do: first the messages whose fate is not known, then new ones until it is killed."""

    url: str
    number: int
    retry: tuple[Work, ...] = ()
    death: Death | None = None
    """Where it kills itself: at the first message without a key after so many acknowledgements."""
    after_done: int = 0


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    tries: Work | None = None
    done: Work | None = None
    id: str = ""
    seq: int = 0


DONE = b'{"done":'


def body_of(text: str) -> bytes:
    """The large body of a message: other bytes for every text."""
    return random.Random(text).randbytes(BLOB_BYTES)


def say(line: Line) -> None:
    _say(msgspec.json.encode(line))


def record(engine: holdfast.Engine, session: holdfast.Session, work: Work) -> holdfast.Message:
    content: list[str | holdfast.types.Part] = [work.text]
    if work.blob:
        content.append(Body(engine.blobs.put(body_of(work.text)), preview=""))
    return session.record("user", content, key=work.key)


def perform(engine: holdfast.Engine, session: holdfast.Session, work: Work, death: Death | None = None) -> None:
    say(Line(tries=work))
    if death == "before the append":
        die()
    message = record(engine, session, work)
    if death == "before the reply":
        die()
    say(Line(done=work, id=message.id, seq=message.seq))


def write_until_killed(line: bytes) -> None:
    task = msgspec.json.decode(line, type=Round)
    engine = holdfast.open(task.url)
    names = [f"s{number}" for number in range(SESSIONS)] + [f"only-{task.number}"]

    @functools.cache
    def session(name: str) -> holdfast.Session:
        return engine.create_session(name, key=f"create {name}")

    for work in task.retry:
        perform(engine, session(work.session), work)

    done: list[Work] = []

    def loop(thread: int) -> None:
        rng = random.Random(f"{task.number}/{thread}")
        for number in itertools.count():
            name = rng.choice(names)
            work = Work(name, f"{task.number}/{thread}/{number}", rng.random() < 0.4, rng.random() < 0.05)
            is_last = len(done) >= task.after_done and not work.keyed
            perform(engine, session(name), work, task.death if is_last else None)
            done.append(work)

    run_in_threads(loop, THREADS)


def retry(url: str) -> None:
    """Record the works on standard input, each under its key, and say what came of it."""
    with holdfast.open(url) as engine:
        for line in sys.stdin.buffer:
            work = msgspec.json.decode(line, type=Work)
            message = record(engine, engine.session(work.session), work)
            say(Line(done=work, id=message.id, seq=message.seq))


if __name__ == "__main__":
    if sys.argv[1:] == ["nursery"]:
        serve_nursery(write_until_killed)
    else:
        retry(sys.argv[1])
