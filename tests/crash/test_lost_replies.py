"""Promises 6 and 7: a reply lost after the commit and asked for again gives exactly one event and the first answer; the
same key with other content is a conflict, always."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
import random
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
import pytest

import holdfast
from holdfast import BlobRef, File, Image, Message, Text
from holdfast.errors import KeyConflict, StorageUnavailable
from holdfast.flows.sessions.transcript import message_of
from holdfast.model.log import Append, AppendResult
from holdfast.storage.threaded import ThreadedStore
from holdfast.types import Opaque
from tests.crash.stores import KINDS, URLS
from tests.crash.worker import ROOT, Line, Work
from tests.property.store_tools import Faulty, all_events, dump
from tests.support import figure

T = TypeVar("T")
Ask: TypeAlias = Callable[[holdfast.Engine], Message]

CLIENTS = 8
BODY = b"a body."
REF = BlobRef(hashlib.sha256(BODY).hexdigest(), len(BODY))


def at_once(calls: list[Callable[[], T]]) -> list[T]:
    """Each call in a thread of its own, all let go at the same moment."""
    gate = Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


class Client:
    """An engine over a store that loses answers, and others that do not."""

    def __init__(self, url: str, exits: ExitStack) -> None:
        self.url = url
        self._exits = exits
        self.reopen()

    def reopen(self) -> None:
        self._exits.close()
        self.__dict__.pop("others", None)
        self.engine = self._exits.enter_context(holdfast.open(self.url))
        self.faulty = Faulty.under(self.engine)

    @functools.cached_property
    def others(self) -> list[holdfast.Engine]:
        return [self._exits.enter_context(holdfast.open(self.url)) for _ in range(CLIENTS)]

    def lose(self, ask: Ask) -> Message:
        """Ask, lose the answer, and give what it was."""
        self.faulty.fault = "after"
        with pytest.raises(StorageUnavailable):
            ask(self.engine)
        assert self.faulty.lost is not None
        return message_of(self.faulty.lost.events[0])


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    with ExitStack() as exits:
        yield Client(URLS[request.param](tmp_path), exits)


# Ways to ask again: each gives the answers that came back


def by_the_same_engine(client: Client, ask: Ask) -> list[Message]:
    return [ask(client.engine), ask(client.engine)]


def by_another_engine(client: Client, ask: Ask) -> list[Message]:
    return [ask(client.others[0]), ask(client.engine)]


def after_a_reopen(client: Client, ask: Ask) -> list[Message]:
    client.reopen()
    return [ask(client.engine)]


def after_the_session_went_on(client: Client, ask: Ask) -> list[Message]:
    session = client.engine.session("talk")
    session.record("user", "something else")
    session.record("user", "and more", key=f"more {session.state().version}")
    return [ask(client.engine)]


def by_eight_threads(client: Client, ask: Ask) -> list[Message]:
    return at_once([lambda: ask(client.engine)] * CLIENTS)


def by_eight_engines(client: Client, ask: Ask) -> list[Message]:
    return at_once([functools.partial(ask, engine) for engine in client.others])


WAYS = (
    by_the_same_engine,
    by_another_engine,
    after_a_reopen,
    after_the_session_went_on,
    by_eight_threads,
    by_eight_engines,
)
SHARE = -(-figure(250, 10_000) // len(WAYS))


REPLIES = pytest.mark.promise(6, f"a reply lost and asked for again: {SHARE * len(WAYS):,} a store")
CONTENT = pytest.mark.promise(7, "the same key with other content is a conflict")


@REPLIES
@pytest.mark.parametrize("again", WAYS, ids=lambda way: way.__name__)
def test_a_lost_reply_asked_for_again_is_one_event_and_the_first_answer(
    client: Client, again: Callable[[Client, Ask], list[Message]]
) -> None:
    client.engine.create_session("talk")
    rng = random.Random(again.__name__)
    for number in range(SHARE):
        role = rng.choice(("user", "assistant", "system"))
        content = (f"message {number}", Opaque("vendor", rng.randbytes(8).hex()))

        def ask(
            engine: holdfast.Engine, role: str = role, content: Any = content, key: str = f"key {number}"
        ) -> Message:
            return engine.session("talk").record(role, content, key=key)

        first = client.lose(ask)
        answers = again(client, ask)
        assert answers == [first] * len(answers)
    keys = [event.key for event in all_events(client.engine) if event.key and event.key.startswith("key ")]
    assert keys == [f"key {number}" for number in range(SHARE)]
    assert client.engine.admin.verify().ok


def test_a_retry_after_the_session_closed_still_gets_the_first_answer(client: Client) -> None:
    client.engine.create_session("talk", key="create")

    def ask(engine: holdfast.Engine) -> Message:
        return engine.session("talk").record("user", "the last word", key="last")

    first = client.lose(ask)
    client.faulty.fault = "after"
    with pytest.raises(StorageUnavailable):
        client.engine.session("talk").end("done", key="close")
    before = dump(client.engine)
    client.engine.session("talk").end("done", key="close")
    client.engine.create_session("talk", key="create")
    assert [way(client, ask)[0] for way in (by_the_same_engine, by_another_engine, after_a_reopen)] == [first] * 3
    assert dump(client.engine) == before


def test_a_session_whose_creation_was_not_answered_is_created_once(client: Client) -> None:
    for number in range(figure(10, 200)):
        name = f"session {number}"

        def create(engine: holdfast.Engine, name: str = name) -> holdfast.Session:
            return engine.create_session(name, metadata={"for": name}, key=f"create {name}")

        client.faulty.fault = "after"
        with pytest.raises(StorageUnavailable):
            create(client.engine)
        again = at_once([lambda create=create: create(client.engine)] * CLIENTS)  # type: ignore[misc]
        assert {session.state().version for session in again} == {1}
        assert again[0].state().metadata == {"for": name}
    assert client.engine.admin.totals().events == client.engine.admin.totals().streams == number + 1


def test_a_reply_never_lost_but_asked_for_by_eight_at_once_is_one_event(client: Client) -> None:
    session = client.engine.create_session("talk")
    for number in range(figure(25, 1_000)):
        answers = at_once([lambda key=f"k{number}": session.record("user", key, key=key)] * CLIENTS)  # type: ignore[misc]
        assert answers == [answers[0]] * CLIENTS
        assert session.state().messages == number + 1


def test_another_process_gets_the_answer_that_was_lost(client: Client) -> None:
    client.engine.create_session("talk")
    works = [Work("talk", f"message {number}", keyed=True, blob=False) for number in range(figure(25, 500))]
    lost = [
        client.lose(lambda engine, work=work: engine.session("talk").record("user", work.text, key=work.key))  # type: ignore[misc]
        for work in works
    ]
    said = subprocess.run(
        [sys.executable, "-m", "tests.crash.worker", client.url],
        cwd=ROOT,
        input=b"\n".join(map(msgspec.json.encode, works)),
        stdout=subprocess.PIPE,
        check=True,
    )
    answers = [msgspec.json.decode(line, type=Line) for line in said.stdout.splitlines()]
    assert [(line.id, line.seq) for line in answers] == [(each.id, each.seq) for each in lost]
    assert client.engine.session("talk").state().messages == len(works)


# The same in an event loop, where a task that is cancelled never hears the answer


class Deaf:
    """A store under an async engine: the task that appends is cancelled some way into the append."""

    def __init__(self, inner: ThreadedStore) -> None:
        self._inner = inner
        self.turns: int | None = None
        """Turns of the event loop to wait before the cancellation; -1 for when the answer is there."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, append: Append) -> AppendResult:
        turns, self.turns = self.turns, None
        if turns is None:
            return await self._inner.append(append)
        task = asyncio.current_task()
        assert task is not None
        if turns == -1:
            await self._inner.append(append)
            task.cancel()
            await asyncio.sleep(0)
        asyncio.get_running_loop().create_task(_cancel(task, turns))
        return await self._inner.append(append)


async def _cancel(task: asyncio.Task[Any], turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()


async def open_deaf(url: str) -> tuple[holdfast.AsyncEngine, Deaf]:
    engine = await holdfast.open_async(url)
    deaf = Deaf(engine.store)
    engine.store = cast("ThreadedStore", deaf)
    return engine, deaf


@pytest.mark.parametrize("kind", URLS)
def test_a_cancelled_task_asked_for_again_by_eight_tasks_is_one_event(tmp_path: Path, kind: str) -> None:
    async def story() -> None:
        engine, deaf = await open_deaf(URLS[kind](tmp_path))
        session = await engine.create_session("talk")
        for number, turns in zip(range(figure(40, 2_000)), itertools.cycle((-1, 0, 1, 2, 5, 20))):

            def ask(text: str = f"message {number}") -> Coroutine[Any, Any, Message]:
                return session.record("user", text, key=text)

            deaf.turns = turns
            first = (await asyncio.gather(ask(), return_exceptions=True))[0]
            answers = await asyncio.gather(*(ask() for _ in range(CLIENTS)))
            assert answers == [answers[0]] * CLIENTS
            assert first == answers[0] or isinstance(first, asyncio.CancelledError)
            assert (await session.state()).messages == number + 1
        assert (await engine.admin.verify()).ok
        await engine.close()

    asyncio.run(story())


# Promise 7

FIRST = ("talk", "user", (Text("hello"), File(REF, "a.txt")))


def _record(engine: holdfast.Engine, session: str, role: str, content: Any, key: str = "key", **where: str) -> Message:
    try:
        handle = engine.create_session(session, **where)  # type: ignore[arg-type]
    except holdfast.errors.SessionExists:
        handle = engine.session(session, **where)  # type: ignore[arg-type]
    return handle.record(role, content, key=key)


OTHERS: dict[str, Callable[[holdfast.Engine], object]] = {
    "role": lambda engine: _record(engine, "talk", "assistant", FIRST[2]),
    "text": lambda engine: _record(engine, "talk", "user", (Text("hello!"), FIRST[2][1])),
    "text and white space": lambda engine: _record(engine, "talk", "user", (Text("hello "), FIRST[2][1])),
    "one part more": lambda engine: _record(engine, "talk", "user", (*FIRST[2], Text("more"))),
    "one part less": lambda engine: _record(engine, "talk", "user", FIRST[2][:1]),
    "parts in another order": lambda engine: _record(engine, "talk", "user", FIRST[2][::-1]),
    "kind of part": lambda engine: _record(engine, "talk", "user", (FIRST[2][0], Image(REF))),
    "file name": lambda engine: _record(engine, "talk", "user", (FIRST[2][0], File(REF, "b.txt"))),
    "blob": lambda engine: _record(engine, "talk", "user", (FIRST[2][0], File(BlobRef("cd" * 32, 7), "a.txt"))),
    "size of the blob": lambda engine: _record(
        engine, "talk", "user", (FIRST[2][0], File(BlobRef(REF.digest, 8), "a.txt"))
    ),
    "session": lambda engine: _record(engine, "other", *FIRST[1:]),
    "actor": lambda engine: _record(engine, *FIRST, actor="other"),
    "thread": lambda engine: _record(engine, *FIRST, thread="other"),
    "command: create": lambda engine: engine.create_session("new", key="key"),
    "command: create the same": lambda engine: engine.create_session("talk", key="key"),
    "command: close": lambda engine: engine.session("talk").end("done", key="key"),
    "command: erase": lambda engine: engine.session("talk").erase([1], "asked to", key="key"),
}


@pytest.fixture(params=URLS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Engine]:
    with holdfast.open(URLS[request.param](tmp_path)) as engine:
        for where in ({}, {"actor": "other"}, {"thread": "other"}):
            engine.create_session("talk", **where)  # type: ignore[arg-type]
        engine.create_session("other")
        assert engine.blobs.put(BODY) == REF
        yield engine


@CONTENT
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_the_same_key_with_other_content_is_a_conflict_and_stores_nothing(
    engine: holdfast.Engine, other: Callable[[holdfast.Engine], object]
) -> None:
    first = _record(engine, *FIRST)
    before = dump(engine)
    for _ in range(2):
        with pytest.raises(KeyConflict):
            other(engine)
        assert _record(engine, *FIRST) == first
    engine.session("talk").end("done")
    with pytest.raises(KeyConflict):
        other(engine)
    assert dump(engine).startswith(before[: before.index(b'["session_rows"')])
    assert engine.admin.totals().events == 6


def test_the_key_of_a_creation_is_bound_to_its_metadata(engine: holdfast.Engine) -> None:
    engine.create_session("new", metadata={"a": 1}, key="key")
    before = dump(engine)
    for metadata in ({}, {"a": 2}, {"a": 1, "b": None}, {"a": "1"}):
        with pytest.raises(KeyConflict):
            engine.create_session("new", metadata=metadata, key="key")
    assert engine.create_session("new", metadata={"a": 1}, key="key").state().version == 1
    assert dump(engine) == before


def test_how_the_same_content_is_written_down_makes_no_other_command(engine: holdfast.Engine) -> None:
    session = engine.session("talk")
    first = session.record("user", "hello", key="key")
    spellings: tuple[Any, ...] = (Text("hello"), ["hello"], (Text("hello"),))
    assert [session.record("user", content, key="key") for content in spellings] == [first] * 3


def test_who_asks_and_at_which_version_makes_no_other_command(engine: holdfast.Engine) -> None:
    first = engine.session("talk").record("user", "hello", key="key", expect=1)
    again = engine.acting_as(principal="someone else").session("talk").record("user", "hello", key="key", expect=7)
    assert again == first


def test_keys_are_each_tenants_own(engine: holdfast.Engine) -> None:
    other = engine.acting_as(tenant="other")
    ids = {_record(each, "talk", "user", each_text).id for each, each_text in ((engine, "mine"), (other, "theirs"))}
    assert len(ids) == 2
    with pytest.raises(KeyConflict):
        _record(other, "talk", "user", "mine")


def test_the_key_of_an_erased_message_is_still_taken(engine: holdfast.Engine) -> None:
    session = engine.session("talk")
    session.record("user", "hello", key="key")
    session.erase([2], "asked to")
    before = dump(engine)
    for text in ("hello", "other"):
        with pytest.raises(KeyConflict):
            session.record("user", text, key="key")
    assert dump(engine) == before
