"""The process that gets killed: writes to a store as fast as it can and says what was acknowledged.

A nursery imports everything, opens nothing, and forks a fresh writer for every line on its standard input, so that
hundreds of processes can live and die in a short time. All lines go through one pipe, which outlives a killed writer and
keeps the order:

    {"born": pid}                                the writer exists
    {"tries": Work}                              before a message is recorded
    {"done": Work, "id": …, "seq": …}            after it was
    {"dead": signal}                             the writer was ended by it; nothing of it follows
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

import holdfast
from holdfast import Body

SESSIONS = 6
THREADS = 4
BLOB_BYTES = 3_000


class Work(msgspec.Struct, frozen=True):
    """One message: its text is its name, never used twice."""

    session: str
    text: str
    keyed: bool
    blob: bool

    @property
    def key(self) -> str | None:
        return self.text if self.keyed else None


class Round(msgspec.Struct, frozen=True):
    """What one writer is to do: first the messages whose fate is not known, then new ones until it is killed."""

    path: str
    number: int
    retry: tuple[Work, ...] = ()


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    born: int = 0
    tries: Work | None = None
    done: Work | None = None
    id: str = ""
    seq: int = 0
    dead: int = 0


def body_of(text: str) -> bytes:
    """The large body of a message: other bytes for every text."""
    return random.Random(text).randbytes(BLOB_BYTES)


def say(line: Line) -> None:
    os.write(1, msgspec.json.encode(line) + b"\n")  # one short write to a pipe: lines of threads never mix


def record(engine: holdfast.Engine, session: holdfast.Session, work: Work) -> holdfast.Message:
    content: list[str | holdfast.Part] = [work.text]
    if work.blob:
        content.append(Body(engine.put_blob(body_of(work.text)), preview=""))
    return session.record("user", content, key=work.key)


def do(engine: holdfast.Engine, session: holdfast.Session, work: Work) -> None:
    say(Line(tries=work))
    message = record(engine, session, work)
    say(Line(done=work, id=message.id, seq=message.seq))


@contextmanager
def exit_on_error() -> Iterator[None]:
    """An error in any thread is the end of the process: the parent sees that its kill was not what ended it."""
    try:
        yield
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def write_until_killed(task: Round) -> None:
    engine = holdfast.open(task.path)
    names = [f"s{number}" for number in range(SESSIONS)] + [f"only-{task.number}"]
    sessions = {name: engine.create_session(name, key=f"create {name}") for name in names}
    for work in task.retry:
        do(engine, engine.session(work.session), work)

    def loop(thread: int) -> None:
        rng = random.Random(f"{task.number}/{thread}")
        with exit_on_error():
            for number in itertools.count():
                work = Work(
                    rng.choice(names), f"{task.number}/{thread}/{number}", rng.random() < 0.4, rng.random() < 0.05
                )
                do(engine, sessions[work.session], work)

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def nursery() -> None:
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            os.close(0)
            with exit_on_error():
                write_until_killed(msgspec.json.decode(line, type=Round))
        say(Line(born=child))
        _, status = os.waitpid(child, 0)
        say(Line(dead=os.WTERMSIG(status) if os.WIFSIGNALED(status) else -1))


def retry(path: str) -> None:
    """Record the works on standard input, each under its key, and say what came of it."""
    with holdfast.open(path) as engine:
        for line in sys.stdin.buffer:
            work = msgspec.json.decode(line, type=Work)
            message = record(engine, engine.session(work.session), work)
            say(Line(done=work, id=message.id, seq=message.seq))


if __name__ == "__main__":
    if sys.argv[1:] == ["nursery"]:
        nursery()
    else:
        retry(sys.argv[1])
