"""Promise 8: what 32 clients in processes that are killed and started again see of a store is linearizable, per stream."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
import pytest

import holdfast
from holdfast import Message, Session
from holdfast.ports import EventStore
from holdfast.storage.postgres.store import PostgresStore
from holdfast.types import StoredEvent
from tests.crash.history_worker import STREAMS, THREADS, Task, creation_value, name_of, to_element, work
from tests.crash.linearizability import Append, Operation, Read, StoredElement, find_violations
from tests.postgres import fresh_url
from tests.property.store_tools import all_events, session_events
from tests.support import figure

OPERATIONS = figure(4_000, 1_000_000)
SLOTS = 4
LONGEST = figure(300, 2_000)
"""Lines after which a process is killed at the latest."""
LAST = 20
"""Operations of each client of the last process in a slot, which ends by itself: so nothing is under way at the end."""
SEED = 20_240_609

pytestmark = pytest.mark.promise(
    8, f"concurrent history of {SLOTS * THREADS} clients with kills: {OPERATIONS:,} operations a store"
)

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([work.__module__, PostgresStore.__module__])
CARE = threading.Lock()
"""Whoever starts a process also looks after all others that have ended, and two must not do so at once."""
DECODER: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation)

STORES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "history.db"),
    "postgres": lambda folder: f"{fresh_url()}&pool={THREADS // 2}",
}


class Kill(NamedTuple):
    after_lines: int
    delay_s: float


class Slot:
    """A place for one process at a time: each is killed at a moment of our choosing, but for the last."""

    def __init__(self, url: str, number: int) -> None:
        self.operations: list[Operation] = []
        self.kills = 0
        self._url = url
        self._number = number
        self._rng = random.Random(f"{SEED}/{number}")
        self._pending: dict[int, Append] = {}

    def live(self, share: int) -> None:
        rng = self._rng
        for life in itertools.count():
            task = Task(self._url, self._number, life * SLOTS + self._number, self._unanswered())
            if len(self.operations) >= share - LAST * THREADS:
                break
            lines = 0 if rng.random() < 0.2 else rng.randint(1, LONGEST)
            self._run(task, Kill(lines, rng.uniform(0.0, 0.005 if lines else 0.1)))
        self._run(msgspec.structs.replace(task, operations=LAST), None)
        self._unanswered()

    def _run(self, task: Task, kill: Kill | None) -> None:
        reader, writer = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=work, args=(task, writer))
        with CARE:
            process.start()
        writer.close()
        with reader, open(reader.fileno(), "rb", closefd=False) as lines:
            if kill is not None:
                self._hear(itertools.islice(lines, kill.after_lines))
                time.sleep(kill.delay_s)
                process.kill()
                self.kills += 1
            self._hear(lines)
        with CARE:
            process.join()
        assert process.exitcode == (0 if kill is None else -signal.SIGKILL)

    def _hear(self, lines: Iterator[bytes]) -> None:
        for operation in map(DECODER.decode, lines):
            unanswered = self._pending.pop(operation.client, None) if isinstance(operation, Append) else None
            if isinstance(operation, Read) or operation.answer != "unknown":
                self.operations.append(operation)
                continue
            if unanswered is not None:
                self.operations.append(unanswered)
            self._pending[operation.client] = operation

    def _unanswered(self) -> tuple[Append, ...]:
        """What nobody knows the outcome of joins the history; what has a key can be tried again."""
        unanswered = tuple(self._pending.values())
        self.operations += unanswered
        self._pending.clear()
        return tuple(each for each in unanswered if each.key is not None)


def create(engine: holdfast.Engine, stream: int) -> Append:
    began = time.monotonic_ns()
    engine.create_session(name_of(stream))
    return Append(-1, stream, creation_value(stream), None, None, began, time.monotonic_ns(), "stored", 1)


def feed_of(engine: holdfast.Engine) -> Iterator[StoredElement]:
    streams = {name_of(stream): stream for stream in range(STREAMS)}
    return (to_element(streams[event.stream.key[1]], event) for event in all_events(engine))


def assert_telling(appends: list[Append], streams: dict[int, list[StoredElement]]) -> None:
    """Whatever may happen to an append has happened, more than once."""
    landed = {each.value for elements in streams.values() for each in elements}
    fates = Counter((each.answer, each.value in landed) for each in appends)
    assert min(fates["unknown", True], fates["unknown", False]) > SLOTS, "no kill came in mid-append"
    assert min(fates["stored", True], fates["conflict", False], fates["key conflict", False]) > SLOTS
    tried_again = Counter(each.value for each in appends if each.answer == "stored")
    assert max(tried_again.values()) > 2, "nothing was done by several clients under one key"
    unknown = {each.value for each in appends if each.answer == "unknown"}
    assert any(value in tried_again for value in unknown), "no append was tried again after a kill"


@pytest.mark.parametrize("store", STORES)
def test_the_history_of_clients_that_are_killed_is_linearizable(store: str, tmp_path: Path) -> None:
    url = STORES[store](tmp_path)
    with holdfast.open(url) as engine:
        operations: list[Operation] = [create(engine, stream) for stream in range(STREAMS)]
    slots = [Slot(url, number) for number in range(SLOTS)]
    with ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(lambda slot: slot.live(OPERATIONS // SLOTS), slots))
    for slot in slots:
        operations += slot.operations
    with holdfast.open(url) as engine:
        streams = {
            stream: [to_element(stream, event) for event in session_events(engine.session(name_of(stream)))]
            for stream in range(STREAMS)
        }
        found = find_violations(operations, streams, feed_of(engine))
        assert not found, "\n".join(
            (f"{len(found)} violations:", *(f"{each.kind}: {each.words}" for each in found[:10]))
        )
        assert engine.admin.verify().problems == ()
    assert len(operations) >= OPERATIONS
    assert min(slot.kills for slot in slots) > SLOTS
    assert_telling([each for each in operations if isinstance(each, Append)], streams)


# What the random history meets too seldom: one command under one key, sent to two engines, and one overtakes the other

Command: TypeAlias = Callable[[Session], Message]


class Overtaken:
    """A store between an engine and the real one: something else happens right after the nth look for a key."""

    def __init__(self, inner: EventStore, nth: int, event: Callable[[], object]) -> None:
        self._inner = inner
        self._left = nth
        self._event = event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def find(self, tenant: str, key: str) -> tuple[StoredEvent, ...]:
        found = self._inner.find(tenant, key)
        self._left -= 1
        if self._left == 0:
            self._event()
        return found


def a_message_at_a_version(session: Session) -> Command:
    version = session.record("user", "news").seq
    return lambda handle: handle.record("user", "hello", key="k", expect=version)


def a_result(session: Session) -> Command:
    call = session.record("assistant", "wait", tool_calls=[{"name": "tool", "args": {}}]).tool_calls[0]
    return lambda handle: handle.result(call, "42", key="k")


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("prepare", [a_message_at_a_version, a_result])
@pytest.mark.parametrize("store", STORES)
def test_a_command_that_another_engine_finishes_first_gets_its_answer(
    store: str, prepare: Callable[[Session], Command], nth: int, tmp_path: Path
) -> None:
    url = STORES[store](tmp_path)
    with holdfast.open(url) as first, holdfast.open(url) as second:
        session = first.create_session("talk")
        late = second.session("talk")
        command = prepare(session)
        answers: list[Message] = []
        second.store = cast("EventStore", Overtaken(second.store, nth, lambda: answers.append(command(session))))
        answers.append(command(late))
        assert answers == answers[:1] * len(answers)
        assert session.messages()[-1] == answers[0]
