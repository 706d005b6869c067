"""The clients of a shared history: threads of one process that append and read until the process is killed, and say so.

All lines of a process go through one pipe, which outlives it. A client says what it is about to append before it does,
and what came of an operation after it; it does one thing at a time, so a first line without a second is an append whose
outcome nobody knows. Values and keys are whole numbers here, in the store the text of a message and an idempotency key.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection

import msgspec

import holdfast
from holdfast import Session
from holdfast.errors import KeyConflict, StorageError, VersionConflict
from holdfast.flows.sessions.transcript import message_of
from holdfast.types import StoredEvent
from tests.crash.linearizability import Append, Operation, Read, StoredElement
from tests.crash.worker import exit_on_error

STREAMS = 6
THREADS = 8
PAGE = 8
JOINT_EVERY = 20
"""Versions of a stream from one joint command to the next. Whoever thinks of it sends the one that is due by his knowledge,
under its key: several clients at once, and some after it was done."""


class Task(msgspec.Struct, frozen=True):
    """What one process is to do: first the appends whose fate is not known, then new operations."""

    url: str
    slot: int
    number: int
    retry: tuple[Append, ...] = ()
    operations: int | None = None
    """For each client; None for as many as it can until it is killed."""


def name_of(stream: int) -> str:
    return f"s{stream}"


def creation_value(stream: int) -> int:
    """The value of a stream's first element: that it was created."""
    return -1 - stream


def to_element(stream: int, event: StoredEvent) -> StoredElement:
    value = int(message_of(event).text) if event.seq > 1 else creation_value(stream)
    return StoredElement(stream, event.seq, value, None if event.key is None else int(event.key))


class Client:
    def __init__(self, number: int, task: Task, handles: list[list[Session]], pipe: int) -> None:
        self.rng = random.Random(f"{task.number}/{number}")
        self.number = number
        self._handles = handles
        self._pipe = pipe
        self._values = itertools.count((task.number * 1_000 + number) * 1_000_000)
        self._keys: list[int] = []
        self._seen = [1] * STREAMS
        """The highest version of each stream that this client knows of."""
        self._again = deque(each for each in task.retry if each.client == number)

    def live(self, operations: int | None) -> None:
        for _ in itertools.count() if operations is None else range(operations):
            if self._again or self.rng.random() < 0.5:
                self._append(self._again.popleft() if self._again else self._draw())
            else:
                act = self.rng.choice((self._tail, self._version, self._page))
                self._read(act, self.rng.randrange(STREAMS))

    def _session(self, stream: int) -> Session:
        """Of any engine of the process: what was learnt from one is news to the other."""
        return self.rng.choice(self._handles[stream])

    def _say(self, operation: Operation) -> None:
        os.write(self._pipe, msgspec.json.encode(operation) + b"\n")  # one short write: lines of threads never mix

    # Appends

    def _draw(self) -> Append:
        rng = self.rng
        stream = rng.randrange(STREAMS)
        value = next(self._values)
        key = rng.choice((value, None))
        if rng.random() < 0.1:
            value = key = -1 - stream - STREAMS * (1 + self._seen[stream] // JOINT_EVERY)
        elif self._keys and rng.random() < 0.05:
            key = rng.choice(self._keys)  # which is another command's
        expect = None
        if rng.random() < 0.4:
            if rng.random() < 0.7:
                self._read(self._version, stream)
            expect = self._seen[stream]
        return Append(self.number, stream, value, key, expect, 0)

    def _append(self, drawn: Append) -> None:
        begun = msgspec.structs.replace(drawn, began=time.monotonic_ns())
        self._say(begun)
        key = None if begun.key is None else str(begun.key)
        try:
            session = self._session(begun.stream)
            seq = session.record("user", str(begun.value), key=key, expect=begun.expect).seq
            answer = "stored"
            self._seen[begun.stream] = max(self._seen[begun.stream], seq)
        except VersionConflict as conflict:
            answer, seq = "conflict", conflict.actual
        except KeyConflict:
            answer, seq = "key conflict", 0
        except StorageError:
            if key is not None:
                self._again.append(drawn)
            return
        self._say(msgspec.structs.replace(begun, ended=time.monotonic_ns(), answer=answer, seq=seq))
        if begun.key == begun.value:
            self._keys.append(begun.value)

    # Reads

    def _read(self, act: Callable[[int, int], Read], stream: int) -> None:
        try:
            read = act(stream, time.monotonic_ns())
        except StorageError:
            return
        self._say(read)
        self._seen[stream] = max(self._seen[stream], read.version)

    def _version(self, stream: int, began: int) -> Read:
        state = self._session(stream).state()
        ended = time.monotonic_ns()
        assert state.messages == state.version - 1
        return Read(self.number, stream, began, ended, state.version, state.version)

    def _tail(self, stream: int, began: int) -> Read:
        limit = self.rng.randint(1, PAGE)
        found = self._session(stream).messages(limit=limit)
        ended = time.monotonic_ns()
        after = found[0].seq - 1 if len(found) == limit else 1
        version = found[-1].seq if found else after
        return Read(self.number, stream, began, ended, after, version, tuple(int(each.text) for each in found))

    def _page(self, stream: int, began: int) -> Read:
        after = max(0, self._seen[stream] - self.rng.randint(0, PAGE))
        limit = self.rng.randint(1, PAGE)
        found = self._session(stream).events(after=after, limit=limit)
        ended = time.monotonic_ns()
        version = found[-1].seq if found else after
        values = tuple(to_element(stream, event).value for event in found)
        return Read(self.number, stream, began, ended, after, version, values, exact=len(found) < limit)


def work(task: Task, pipe: Connection) -> None:
    with exit_on_error():
        engines = [holdfast.open(task.url) for _ in range(2 if task.slot == 0 else 1)]
        handles = [[engine.session(name_of(stream)) for engine in engines] for stream in range(STREAMS)]
        clients = [Client(task.slot * THREADS + thread, task, handles, pipe.fileno()) for thread in range(THREADS)]

        def live(client: Client) -> None:
            with exit_on_error():
                client.live(task.operations)

        threads = [threading.Thread(target=live, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for engine in engines:
            engine.close()
