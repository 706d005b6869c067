"""kill -9 at every point of every step that changes facts: whoever comes next finds the facts before the step or those
after it, never some of each; and what was said in a session is there exactly if what it changed in the ledgers is.

Each point has a name, and it is known beforehand which of the two states it leaves.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import holdfast
from holdfast import Engine, codec
from holdfast.model.rows import TABLES
from tests.crash.fact_steps import (
    STATEMENTS,
    STEPS,
    FactDesk,
    Task,
    as_fact_preparer,
    as_fact_successor,
    as_fact_worker,
    lay_facts,
)
from tests.crash.test_frame_kill import Hold, Server, assert_sound
from tests.crash.worker import Nursery

ON_A_FILE: dict[str, bool] = {
    "before the append": False,
    **dict.fromkeys(STATEMENTS, False),
    "committing": False,
    "committed": True,
    "before the reply": True,
}
"""Where a process dies that writes to a file, and whether the step is there afterwards."""

_STREAM = "SELECT FROM streams WHERE tenant = %s FOR UPDATE"
_ROW = "SELECT FROM ledger_rows WHERE tenant = %s FOR UPDATE"
_COMMIT = "SELECT pg_advisory_xact_lock(hashtext(%s))"

ON_A_SERVER: dict[str, Hold | bool] = {
    "before the append": False,
    "it waits for a stream, and is ended": Hold(_STREAM, ended=True),
    "the events are written, and it is ended": Hold(_ROW, ended=True),
    "the events are written, and it goes on": Hold(_ROW, ended=False),
    "committing, and it is ended": Hold(_COMMIT, ended=True),
    "committing, and it goes on": Hold(_COMMIT, ended=False),
    "before the reply": True,
}

pytestmark = pytest.mark.promise(
    1, f"kill -9 at {len(ON_A_FILE)} points on a file, {len(ON_A_SERVER)} on a server, of {len(STEPS)} steps of facts"
)


@pytest.fixture(scope="module")
def takers() -> Iterator[Nursery]:
    """Processes that take one step each, and do not live to tell."""
    with closing(Nursery("tests.crash.fact_steps")) as takers:
        yield takers


# The two states that there may be


class Seen(NamedTuple):
    """A desk as it stands: the events of its streams and its rows, byte for byte."""

    events: tuple[tuple[bytes, ...], ...]
    rows: tuple[bytes, ...]


def seen(engine: Engine, desk: FactDesk) -> Seen:
    events = (
        tuple(codec.encode([each.type, each.id, each.hash.hex()]) for each in engine.store.read(stream, limit=1_000))
        for stream in desk.streams
    )
    rows = [row for table in TABLES for row in engine.store.rows(table, {"tenant": desk.tenant}, limit=1_000)]
    return Seen(tuple(events), tuple(codec.encode((type(row).table, row)) for row in rows))


@functools.cache
def undisturbed(tenant: str, step: str, *, stored: bool) -> Seen:
    """What is there without the step, or with it."""
    with as_fact_preparer(holdfast.open("memory:"), tenant) as engine:
        desk = lay_facts(engine, tenant)
        if stored:
            taker = as_fact_worker(engine, tenant)
            STEPS[step].take(taker, taker.session("work"), desk)
        return seen(engine, desk)


def assert_taken_once(engine: Engine, desk: FactDesk, name: str, *, stored: bool) -> None:
    """The store is in one of the two states. Whoever takes the step again, under its key, comes to the same as if nobody
    had died: it is done, and done once."""
    assert seen(engine, desk) == undisturbed(desk.tenant, name, stored=stored)
    step, session, ledger = STEPS[name], engine.session("work"), engine.ledger(user="ada")
    for _ in range(2):
        step.take(engine, session, desk)
        town = ledger.get("town")
        assert (town.value if town is not None else None) == step.town
        assert len(session.messages()) == step.messages
    once = undisturbed(desk.tenant, name, stored=True)
    assert [len(events) for events in seen(engine, desk).events] == [len(events) for events in once.events]


# On a file


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FactDesk]:
    """A file with the desk, closed: each case has a copy."""
    path = tmp_path_factory.mktemp("desk") / "laid.db"
    with as_fact_preparer(holdfast.open(path), "acme") as engine:
        return path, lay_facts(engine, "acme")


@pytest.mark.parametrize("point", ON_A_FILE)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_facts_on_a_file_is_taken_or_not(
    laid: tuple[Path, FactDesk], takers: Nursery, tmp_path: Path, step: str, point: str
) -> None:
    url, desk = str(tmp_path / "store.db"), laid[1]
    shutil.copy(laid[0], url)
    takers.run(Task(url, desk, step, point))
    with as_fact_successor(holdfast.open(url), desk.tenant) as engine:
        assert_taken_once(engine, desk, step, stored=ON_A_FILE[point])
        assert_sound(engine)


# On a server


class FactServer(Server):
    """A schema in which commits can be held, with a tenant for every case."""

    def facts(self) -> FactDesk:
        tenant = f"tenant-{next(self._numbers)}"
        return lay_facts(as_fact_preparer(self.engine, tenant), tenant)

    @contextmanager
    def held(self, lock: str, tenant: str) -> Iterator[None]:
        with self._connected(autocommit=False) as connection:
            assert connection.execute(lock.encode(), (tenant,)).rowcount >= 1
            yield


@pytest.fixture(scope="module")
def server() -> Iterator[FactServer]:
    with ExitStack() as exits:
        server = FactServer(exits)
        yield server
        assert_sound(server.engine)  # after all these deaths


def taken(server: FactServer, takers: Nursery, desk: FactDesk, step: str, point: str) -> bool:
    """Take the step, and die at the point; whether the step must be there."""
    url, how = server.url_for(desk.tenant), ON_A_SERVER[point]
    if isinstance(how, bool):
        takers.run(Task(url, desk, step, point))
        return how
    with server.held(how.lock, desk.tenant):
        pid = takers.born(Task(url, desk, step))
        server.until_it_waits(desk.tenant)
        os.kill(pid, signal.SIGKILL)
        takers.buried()
        if how.ended:
            server.end(desk.tenant)
    return not how.ended


@pytest.mark.parametrize("point", ON_A_SERVER)
@pytest.mark.parametrize("step", ["assert", "observe", "accept"])
def test_a_step_of_facts_on_a_server_is_taken_or_not(
    server: FactServer, takers: Nursery, step: str, point: str
) -> None:
    desk = server.facts()
    stored = taken(server, takers, desk, step, point)
    server.found(desk.tenant)
    assert_taken_once(as_fact_successor(server.engine, desk.tenant), desk, step, stored=stored)
