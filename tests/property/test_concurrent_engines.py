"""Several engines on one store, threads and tasks: writers without an expected version all get through, of those with the
same one exactly one wins, and a task that is cancelled in mid-append loses nothing that was acknowledged."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple, cast

import pytest

import holdfast
from holdfast.errors import Contended, VersionConflict
from holdfast.model import limits
from holdfast.model.log import Append, AppendResult
from holdfast.ports import EventStore
from tests.property.store_tools import Kind, rows_dump, session_events, store_of_kind
from tests.support import figure

ENGINES = 2
THREADS = 3
"""Of each engine."""
TASKS = 100
SESSIONS = 10


class Place(NamedTuple):
    kind: Kind
    url: str

    def figure(self, every_push: int, full: int) -> int:
        """A server is not asked as often on every push."""
        return figure(every_push // 5 if self.kind == "postgres" else every_push, full)


@pytest.fixture(params=["sqlite", "postgres"])
def lasting(request: pytest.FixtureRequest) -> Iterator[Place]:
    with store_of_kind(request.param) as url:
        yield Place(request.param, url)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with store_of_kind(request.param) as url:
        yield Place(request.param, url)


@pytest.fixture
def engines(lasting: Place) -> Iterator[list[holdfast.Engine]]:
    with ExitStack() as stack:
        yield [stack.enter_context(holdfast.open(lasting.url)) for _ in range(ENGINES)]


@pytest.fixture
def messages(lasting: Place) -> int:
    """How many each thread writes."""
    return lasting.figure(60, 1_000)


def texts(session: holdfast.Session) -> list[str]:
    """All messages in their order."""
    return [
        message.text
        for event in session_events(session)[1:]
        for message in session.messages(before=event.seq + 1, limit=1)
    ]


def assert_sound(engine: holdfast.Engine) -> None:
    before = rows_dump(engine)
    assert engine.admin.verify().problems == ()
    engine.admin.rebuild()
    assert rows_dump(engine) == before


def test_writers_without_an_expected_version_all_get_through(engines: list[holdfast.Engine], messages: int) -> None:
    engines[0].create_session("talk")
    handles = [engine.session("talk") for engine in engines for _ in range(THREADS)]

    def write(writer: int) -> list[int]:
        return [handles[writer].record("user", f"{writer}/{number}").seq for number in range(messages)]

    with ThreadPoolExecutor(len(handles)) as threads:
        answers = list(threads.map(write, range(len(handles))))
    told = {f"{writer}/{number}": seq for writer, seqs in enumerate(answers) for number, seq in enumerate(seqs)}
    assert sorted(told.values()) == list(range(2, len(handles) * messages + 2))
    assert texts(handles[0]) == sorted(told, key=lambda text: told[text])
    assert all(seqs == sorted(seqs) for seqs in answers)
    assert_sound(engines[1])


def test_of_writers_who_expect_the_same_version_exactly_one_wins(engines: list[holdfast.Engine], messages: int) -> None:
    engines[0].create_session("talk")
    handles = [engine.session("talk") for engine in engines for _ in range(THREADS)]
    gate = Barrier(len(handles))

    def write(writer: int) -> list[int]:
        won = []
        for version in range(1, messages + 1):
            gate.wait()
            with suppress(VersionConflict):
                assert handles[writer].record("user", str(writer), expect=version).seq == version + 1
                won.append(version)
        return won

    with ThreadPoolExecutor(len(handles)) as threads:
        wins = list(threads.map(write, range(len(handles))))
    assert Counter(version for won in wins for version in won) == Counter(range(1, messages + 1))
    winners = {version: writer for writer, won in enumerate(wins) for version in won}
    assert texts(handles[0]) == [str(winners[version]) for version in range(1, messages + 1)]
    assert_sound(engines[1])


def test_threads_that_decode_for_the_first_time_do_not_bring_the_process_down() -> None:
    processes = figure(50, 1_000)
    command = [sys.executable, "-m", "tests.property.decoder_race", str(processes)]
    said = subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True)
    assert Counter(said.stdout.split()) == {"0": processes}


def test_a_hundred_tasks_on_ten_sessions_keep_their_order(place: Place) -> None:
    each = place.figure(10, 100)

    async def story() -> None:
        async with await holdfast.open_async(place.url) as engine:
            sessions = [await engine.create_session(f"s{number}") for number in range(SESSIONS)]

            async def write(task: int) -> list[tuple[int, str]]:
                session = sessions[task % SESSIONS]
                return [
                    ((await session.record("user", text)).seq, text) for text in (f"{task}/{n}" for n in range(each))
                ]

            answers = await asyncio.gather(*map(write, range(TASKS)))
            for number, session in enumerate(sessions):
                told = sorted(answer for answered in answers[number::SESSIONS] for answer in answered)
                stored = await session.messages(limit=1_000)
                assert [(message.seq, message.text) for message in stored] == told
                assert [seq for seq, _ in told] == list(range(2, each * TASKS // SESSIONS + 2))
            assert all(answered == sorted(answered) for answered in answers)
            assert (await engine.admin.verify()).problems == ()

    asyncio.run(story())


def test_cancelled_tasks_lose_nothing_acknowledged_and_leave_the_engine_usable(place: Place) -> None:
    async def story() -> None:
        rng = random.Random(14)
        acknowledged: dict[str, tuple[str, int]] = {}
        tried: set[str] = set()
        async with await holdfast.open_async(place.url) as engine:
            sessions = [await engine.create_session(f"s{number}") for number in range(SESSIONS)]

            async def write(task: str) -> None:
                for number in range(20):
                    session, text = rng.choice(sessions), f"{task}/{number}"
                    tried.add(text)
                    message = await session.record("user", text, key=text if number % 2 else None)
                    acknowledged[text] = (session.id, message.seq)

            for wave in range(place.figure(10, 200)):
                tasks = [asyncio.create_task(write(f"{wave}/{number}")) for number in range(30)]
                for task in rng.sample(tasks, len(tasks) - 5):
                    for _ in range(rng.randrange(30)):
                        await asyncio.sleep(0)
                    task.cancel()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                assert {type(outcome) for outcome in outcomes} == {type(None), asyncio.CancelledError}
            stored = {
                event.text: (session.id, event.seq) for session in sessions for event in await all_messages(session)
            }
            assert acknowledged.items() <= stored.items()
            assert len(stored) <= len(tried)
            # The memory store is done with an append before the event loop gets to cancel it.
            assert place.kind == "memory" or len(acknowledged) < len(stored), "no task was cancelled in mid-append"
            assert (await sessions[0].record("user", "still here")).text == "still here"
            assert (await engine.admin.verify()).problems == ()

    asyncio.run(story())


async def all_messages(session: holdfast.AsyncSession) -> list[holdfast.Message]:
    """All messages; a text that is there twice would be the engine's fault."""
    found: list[holdfast.Message] = []
    while page := await session.messages(before=found[0].seq if found else None, limit=1_000):
        found = page + found
    assert len({message.text for message in found}) == len(found)
    return found


class Overtaken:
    """A store on which someone else always writes first, so many times."""

    def __init__(self, store: EventStore, other: holdfast.Session, times: int) -> None:
        self._store, self._other, self.times = store, other, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, append: Append) -> AppendResult:
        if self.times:
            self.times -= 1
            self._other.record("user", "first")
        return self._store.append(append)


@pytest.mark.parametrize("key", [None, "key"])
@pytest.mark.parametrize("times", [1, 40, limits.REDECIDE_TRIES - 1, limits.REDECIDE_TRIES])
def test_a_command_is_decided_anew_until_it_is_first_or_says_that_it_never_was(times: int, key: str | None) -> None:
    with holdfast.open("memory:") as engine:
        other = engine.create_session("shared")
        overtaken = Overtaken(engine.store, other, times)
        slow = holdfast.Engine(cast("EventStore", overtaken), engine._blob_store, engine._context).session("shared")
        if times < limits.REDECIDE_TRIES:
            assert slow.record("user", "last", key=key).seq == times + 2
        else:
            with pytest.raises(Contended, match=f"{limits.REDECIDE_TRIES} times in a row"):
                slow.record("user", "last", key=key)
        assert [message.text for message in other.messages(limit=1_000)].count("last") == (
            times < limits.REDECIDE_TRIES
        )


def test_with_an_expected_version_the_first_conflict_is_the_answer() -> None:
    with holdfast.open("memory:") as engine:
        other = engine.create_session("shared")
        overtaken = Overtaken(engine.store, other, 1)
        slow = holdfast.Engine(cast("EventStore", overtaken), engine._blob_store, engine._context).session("shared")
        with pytest.raises(VersionConflict) as caught:
            slow.record("user", "last", expect=1)
        assert type(caught.value) is VersionConflict
        assert other.state().messages == 1


_TIGHT_LOOP = """
import sys, holdfast
with holdfast.open(sys.argv[1]) as engine:
    session = engine.session("shared")
    for number in range(int(sys.argv[2])):
        session.record("user", f"{sys.argv[3]} {number}", key=f"{sys.argv[3]} {number}" if number % 2 else None)
"""


def test_processes_that_never_pause_all_get_their_turn_on_one_session(lasting: Place) -> None:
    """Whoever waits for the lock has decided on an old version by the time it gets it, again and again."""
    each = figure(100 if lasting.kind == "postgres" else 600, 20_000)
    with holdfast.open(lasting.url) as engine:
        engine.create_session("shared")
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", _TIGHT_LOOP, lasting.url, str(each), name], stderr=subprocess.PIPE, text=True
            )
            for name in "abc"
        ]
        for writer in writers:
            _, said = writer.communicate()
            assert writer.returncode == 0, said
        assert engine.session("shared").state().messages == 3 * each
        assert engine.admin.verify().ok
