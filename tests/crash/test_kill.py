"""Promise 1: kill -9 in mid-append. No acknowledged event is lost or doubled, and rows equal a rebuild, byte for byte."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast import Text
from holdfast.flows.sessions.transcript import message_of
from holdfast.types import Body
from tests.crash.stores import KINDS, CrashStore, FileStore, create_store
from tests.crash.worker import DONE, Death, Line, Nursery, Round, Work, body_of
from tests.property.store_tools import all_events, rows_dump
from tests.support import figure

ROUNDS = figure(30, 2_000)
CHECK_EVERY = figure(15, 100)

pytestmark = pytest.mark.promise(1, f"kill -9 in mid-append: {ROUNDS:,} rounds a store")
DEATHS: tuple[Death | None, ...] = (None, None, "before the append", None, "before the reply")
"""Where the writers die, in turns: at any moment, or right before or after something is stored that nobody tries again."""
SEED = 20_240_607


class Witness:
    """What was tried, what was acknowledged, and what the log turned out to hold."""

    def __init__(self) -> None:
        self.tried: dict[str, Work] = {}
        self.stored: dict[str, tuple[str, str, int]] = {}
        self._versions: dict[str, int] = {}
        self._last_of_thread: dict[tuple[str, str], int] = {}
        self._cursor = ""

    def listen(self, lines: list[bytes]) -> tuple[dict[str, tuple[str, str, int]], tuple[Work, ...]]:
        """The acknowledged messages, and those with a key whose fate is not known."""
        said = [msgspec.json.decode(line, type=Line) for line in lines]
        tried = {line.tries.text: line.tries for line in said if line.tries}
        done = {line.done.text: (line.done.session, line.id, line.seq) for line in said if line.done}
        self.tried |= tried
        return done, tuple(work for text, work in tried.items() if work.keyed and text not in done)

    def read_on(self, engine: holdfast.Engine) -> None:
        """Take in the events since the last look: each stands where it should, none for the second time."""
        while (page := engine.admin.feed(self._cursor, limit=1_000)).events:
            for event in page.events:
                self._take(event)
            self._cursor = page.cursor

    def _take(self, event: holdfast.types.StoredEvent) -> None:
        session = event.stream.key[1]
        assert event.seq == self._versions.get(session, 0) + 1
        self._versions[session] = event.seq
        assert (event.type == "session.created") == (event.seq == 1)
        if event.seq == 1:
            return
        stored = message_of(event)
        assert isinstance(stored.content[0], Text)
        text = stored.content[0].text
        assert text not in self.stored, "the message was stored twice"
        work = self.tried[text]
        assert (work.session, work.key) == (session, event.key)
        digests = [part.ref.digest for part in stored.content[1:] if isinstance(part, Body)]
        assert digests == ([hashlib.sha256(body_of(text)).hexdigest()] if work.blob else [])
        self.stored[text] = (session, event.id, event.seq)
        thread, _, number = text.rpartition("/")
        assert self._last_of_thread.get((thread, session), -1) < int(number), "a thread's messages changed places"
        self._last_of_thread[thread, session] = int(number)


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery("tests.crash.worker", DONE)
    yield nursery
    nursery.close()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CrashStore]:
    with create_store(request.param, tmp_path) as store:
        yield store


def assert_sound(engine: holdfast.Engine, witness: Witness) -> None:
    assert engine.admin.verify().problems == ()
    assert sum(event.seq > 1 for event in all_events(engine)) == len(witness.stored)
    before = rows_dump(engine)
    engine.admin.rebuild()
    assert rows_dump(engine) == before


def test_a_killed_writer_loses_nothing_acknowledged_and_doubles_nothing(store: CrashStore, nursery: Nursery) -> None:
    rng = random.Random(SEED)
    witness = Witness()
    retry: tuple[Work, ...] = ()
    acknowledged = 0
    for number in range(ROUNDS):
        name = f"writer_{number}"
        with ExitStack() as bystander:
            if isinstance(store, FileStore) and number and rng.random() < 0.25:
                # An open bystander keeps the shared memory of the log alive; without one, the next to open recovers it.
                bystander.enter_context(holdfast.open(store.url)).sessions()
            after_done = rng.choice((0, 1, rng.randint(2, 40), rng.randint(2, 80)))
            delay_s = rng.choice((0.0, rng.uniform(0.0, 0.004), rng.uniform(0.0, 0.03) if not after_done else 0.0))
            task = Round(store.url_for(name), number, retry, DEATHS[number % len(DEATHS)], after_done)
            said = nursery.run(task) if task.death else nursery.run_and_kill(task, after_done, delay_s)
        done, unknown = witness.listen(said)
        retry = tuple({work.text: work for work in (*retry, *unknown) if work.text not in done}.values())
        with store.look(name) as engine:
            witness.read_on(engine)
            assert {text: witness.stored.get(text) for text in done} == done
            if number % CHECK_EVERY == CHECK_EVERY - 1 or number == ROUNDS - 1:
                assert_sound(engine, witness)
        acknowledged += len(done)
    assert acknowledged > 10 * ROUNDS, "the writers hardly got to work: this showed nothing"
    deaths = Counter(DEATHS[number % len(DEATHS)] for number in range(ROUNDS))
    assert len(witness.tried) >= len(witness.stored) + deaths["before the append"]
    assert len(witness.stored) >= acknowledged + deaths["before the reply"]
