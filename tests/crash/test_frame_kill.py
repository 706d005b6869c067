"""kill -9 at every point of every step that a tree of frames takes: whoever comes next finds the state before the step or
the one after it, never one between, and is told exactly what is pending.

Each point has a name, and it is known beforehand which of the two states it leaves.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import psycopg
import pytest

import holdfast
from holdfast import Engine, codec
from holdfast.core import invariants
from holdfast.model.frames.frames import Recovery
from holdfast.model.rows import TABLES
from tests.crash.frame_steps import (
    PAID_PREFIX,
    STATEMENTS,
    STEPS,
    FrameDesk,
    PendingWork,
    Task,
    as_preparer,
    as_successor,
    as_worker,
    initial_pending,
    key_of,
    lay_desk,
)
from tests.crash.worker import Nursery
from tests.postgres import base_url, fresh_url
from tests.property.store_tools import rows_dump, session_events
from tests.support import SOAK, figure

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

PAUSE_S = 0.002
"""Between two looks at what a server is doing."""

ON_A_FILE: dict[str, bool] = {
    "before the append": False,
    **dict.fromkeys(STATEMENTS, False),
    "committing": False,
    "committed": True,
    "before the reply": True,
}
"""Where a process dies that writes to a file, and whether the step is there afterwards."""


class Hold(NamedTuple):
    """A server is stopped at a point of a transaction and its client killed; then it goes on, or is ended where it is."""

    lock: str
    """What stops it, held by another."""
    ended: bool


_STREAM = "SELECT FROM streams WHERE tenant = %s FOR UPDATE"
_ROW = "SELECT FROM session_rows WHERE tenant = %s FOR UPDATE"
_COMMIT = "SELECT pg_advisory_xact_lock(hashtext(%s))"

ON_A_SERVER: dict[str, Hold | bool] = {
    "before the append": False,
    "it waits for the stream, and is ended": Hold(_STREAM, ended=True),
    "it waits for the stream, and goes on": Hold(_STREAM, ended=False),
    "the events are written, and it is ended": Hold(_ROW, ended=True),
    "the events are written, and it goes on": Hold(_ROW, ended=False),
    "committing, and it is ended": Hold(_COMMIT, ended=True),
    "committing, and it goes on": Hold(_COMMIT, ended=False),
    "before the reply": True,
}

_HOLDING_THE_COMMIT = """
CREATE FUNCTION hold_the_commit() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(hashtext(NEW.tenant)); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER hold_the_commit AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION hold_the_commit();
"""
"""Deferred triggers run when everything else is done: whoever waits in one waits in the middle of its commit."""

SERVED = [step for step in STEPS if SOAK or not step.startswith("page")]
"""The steps that are taken on a server: paging is to it what compacting is."""


pytestmark = pytest.mark.promise(
    1, f"kill -9 at {len(ON_A_FILE)} points on a file, {len(ON_A_SERVER)} on a server, of {len(STEPS)} steps of frames"
)


@pytest.fixture(scope="module")
def takers() -> Iterator[Nursery]:
    """Processes that take one step each, and do not live to tell."""
    with closing(Nursery("tests.crash.frame_steps")) as takers:
        yield takers


# The two states that there may be


class Seen(NamedTuple):
    """A desk as it stands: its events and rows, byte for byte, and its state."""

    events: tuple[bytes, ...]
    rows: tuple[bytes, ...]
    state: bytes


def seen(engine: Engine, desk: FrameDesk) -> Seen:
    session = engine.session("work")
    events = tuple(codec.encode([event.type, event.id, event.hash.hex()]) for event in session_events(session))
    rows = [row for table in TABLES for row in engine.store.rows(table, {"tenant": desk.tenant}, limit=1_000)]
    state = session.state()
    assert invariants.find_violations(state) == []
    return Seen(events, tuple(codec.encode((type(row).table, row)) for row in rows), codec.encode(state))


class Undisturbed(NamedTuple):
    """A step that nobody interrupts: what is there without it, or with it, and what whoever comes next is told."""

    desk: FrameDesk
    state: Seen
    recovery: Recovery
    pending: set[PendingWork]


def undisturbed(tenant: str, step: str, *, stored: bool) -> Undisturbed:
    with as_preparer(holdfast.open("memory:"), tenant) as engine:
        desk = lay_desk(engine, tenant)
        pending = initial_pending(desk)
        if stored:
            taker = as_worker(engine, tenant)
            STEPS[step].take(taker, taker.session("work"), desk)
            pending = pending - STEPS[step].drops(desk) | STEPS[step].adds(desk)
        return Undisturbed(desk, seen(engine, desk), engine.recover(desk.scope), pending)


def works(recovery: Recovery) -> list[PendingWork]:
    return sorted((each.kind, each.frame or "", each.call or "") for each in recovery.pending_work)


def assert_as(expected: Undisturbed, engine: Engine) -> None:
    """The store is in this state and in no other, and says so to whoever takes it up."""
    assert seen(engine, expected.desk) == expected.state
    recovery = engine.recover(expected.desk.scope)
    assert recovery.frame_stack == expected.recovery.frame_stack
    assert recovery.pending_work == expected.recovery.pending_work
    assert recovery.last_event_seq == expected.recovery.last_event_seq
    assert works(recovery) == sorted((kind, frame or "", call or "") for kind, frame, call in expected.pending)
    for each in recovery.pending_work:
        assert (each.key is not None) == (each.kind == "tool_in_progress")
        assert each.call != expected.desk.fresh or each.key in (None, key_of(expected.desk))


def assert_sound(engine: Engine) -> None:
    assert engine.admin.verify().problems == ()
    before = rows_dump(engine)
    engine.admin.rebuild()
    assert rows_dump(engine) == before


# On a file


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FrameDesk]:
    """A file with the desk, closed: each case has a copy."""
    path = tmp_path_factory.mktemp("desk") / "laid.db"
    with as_preparer(holdfast.open(path), "acme") as engine:
        return path, lay_desk(engine, "acme")


@pytest.fixture
def file(laid: tuple[Path, FrameDesk], tmp_path: Path) -> tuple[str, FrameDesk]:
    path, desk = laid
    shutil.copy(path, tmp_path / "store.db")
    shutil.copytree(f"{path}.blobs", tmp_path / "store.db.blobs")
    return str(tmp_path / "store.db"), desk


@pytest.mark.parametrize("point", ON_A_FILE)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_on_a_file_is_taken_or_not(file: tuple[str, FrameDesk], takers: Nursery, step: str, point: str) -> None:
    url, desk = file
    stored = ON_A_FILE[point]
    takers.run(Task(url, desk, step, point))
    with as_successor(holdfast.open(url), desk.tenant) as engine:
        assert engine.admin.verify().problems == ()
        assert_as(undisturbed(desk.tenant, step, stored=stored), engine)
        STEPS[step].again(engine, engine.session("work"), desk, stored)
        assert_sound(engine)


# On a server


class Server:
    """A schema in which commits can be held, with a tenant for every case, and someone who holds the locks."""

    def __init__(self, exits: ExitStack) -> None:
        self._numbers = itertools.count()
        self._url = fresh_url()
        self.engine = exits.enter_context(holdfast.open(self._url))
        self._server = exits.enter_context(self._connected(autocommit=True))
        self._server.execute(_HOLDING_THE_COMMIT)

    def _connected(self, *, autocommit: bool) -> Connection:
        schema = self._url.rpartition("schema=")[2]
        return psycopg.connect(base_url(), options=f"-c search_path={schema}", autocommit=autocommit)

    def desk(self) -> FrameDesk:
        tenant = f"tenant-{next(self._numbers)}"
        return lay_desk(as_preparer(self.engine, tenant), tenant)

    def url_for(self, tenant: str) -> str:
        return f"{self._url}&application_name={tenant}&pool=1"

    def found(self, tenant: str) -> Engine:
        """When nothing of the process that was killed is at work any more."""
        asked = "SELECT FROM pg_stat_activity WHERE application_name = %s"
        while self._server.execute(asked, (tenant,)).rowcount:
            time.sleep(PAUSE_S)
        return as_successor(self.engine, tenant)

    @contextmanager
    def held(self, lock: str, tenant: str) -> Iterator[None]:
        with self._connected(autocommit=False) as connection:
            assert connection.execute(lock.encode(), (tenant,)).rowcount == 1
            yield

    def until_it_waits(self, tenant: str) -> None:
        while not self._waiting(tenant):
            time.sleep(PAUSE_S)

    def _waiting(self, tenant: str) -> list[tuple[Any, ...]]:
        asked = "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
        return self._server.execute(asked, (tenant,)).fetchall()

    def end(self, tenant: str) -> None:
        """The server's process for this client, where it stands."""
        ((pid,),) = self._waiting(tenant)
        self._server.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ExitStack() as exits:
        server = Server(exits)
        yield server
        assert_sound(server.engine)  # after all these deaths


def taken(server: Server, takers: Nursery, desk: FrameDesk, step: str, point: str) -> bool:
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


@pytest.mark.parametrize(
    ("step", "point"),
    [*itertools.product(SERVED, ON_A_SERVER)][:: figure(3, 1)],  # every step and every point, not all pairs
)
def test_a_step_on_a_server_is_taken_or_not(server: Server, takers: Nursery, step: str, point: str) -> None:
    desk = server.desk()
    stored = taken(server, takers, desk, step, point)
    engine = server.found(desk.tenant)
    assert_as(undisturbed(desk.tenant, step, stored=stored), engine)
    STEPS[step].again(engine, engine.session("work"), desk, stored)


# A tool that runs: an append, then the tool, then another append


class Mid(NamedTuple):
    point: str
    append: int
    intent: bool
    effects: int
    outcome: bool


WHILE_IT_RUNS = {
    "before the intent": Mid("before the append", 1, intent=False, effects=0, outcome=False),
    "the intent is not committed": Mid("committing", 1, intent=False, effects=0, outcome=False),
    "the intent is committed": Mid("before the reply", 1, intent=True, effects=0, outcome=False),
    "before the effect": Mid("before the effect", 0, intent=True, effects=0, outcome=False),
    "after the effect": Mid("after the effect", 0, intent=True, effects=1, outcome=False),
    "before the outcome": Mid("before the append", 2, intent=True, effects=1, outcome=False),
    "the outcome is not committed": Mid("committing", 2, intent=True, effects=1, outcome=False),
    "the outcome is committed": Mid("before the reply", 2, intent=True, effects=1, outcome=True),
}


def assert_mid(engine: Engine, desk: FrameDesk, mid: Mid, said: list[bytes]) -> None:
    """The call is not started, or of unknown outcome under the key that its tool was given, or answered."""
    key = key_of(desk)
    assert said == [PAID_PREFIX + key.encode() + b"\n"] * mid.effects
    session = engine.session("work")
    found = [each for each in session.recover().pending_work if each.call == desk.fresh]
    if mid.outcome:
        assert found == []
        with pytest.raises(holdfast.errors.CallAnswered):
            session.run(desk.fresh, len)
    elif mid.intent:
        assert [(each.kind, each.key) for each in found] == [("tool_in_progress", key)]
        with pytest.raises(holdfast.errors.OutcomeUnknown, match=key):
            session.run(desk.fresh, len)
        assert session.run(desk.fresh, lambda amount, key: key, key_as="key", again=True).tool_results[0].content == (
            holdfast.Text(key),
        )
    else:
        assert [(each.kind, each.key) for each in found] == [("tool_not_started", None)]
        assert session.run(desk.fresh, lambda amount: amount).tool_results[0].is_error is False
    assert desk.fresh not in {each.call for each in session.recover().pending_work}
    results = [
        each for message in session.messages() for each in message.tool_results if each.tool_call_id == desk.fresh
    ]
    assert len(results) == 1


@pytest.mark.parametrize("where", WHILE_IT_RUNS)
def test_a_tool_that_was_running_on_a_file_is_told_of_and_not_repeated(
    file: tuple[str, FrameDesk], takers: Nursery, where: str
) -> None:
    (url, desk), mid = file, WHILE_IT_RUNS[where]
    said = takers.run(Task(url, desk, "run", mid.point, mid.append))
    with as_successor(holdfast.open(url), desk.tenant) as engine:
        assert_mid(engine, desk, mid, said)
        assert_sound(engine)


@pytest.mark.parametrize("where", [where for where, mid in WHILE_IT_RUNS.items() if mid.point != "committing"])
def test_a_tool_that_was_running_on_a_server_is_told_of_and_not_repeated(
    server: Server, takers: Nursery, where: str
) -> None:
    desk, mid = server.desk(), WHILE_IT_RUNS[where]
    takers.born(Task(server.url_for(desk.tenant), desk, "run", mid.point, mid.append))
    assert_mid(server.found(desk.tenant), desk, mid, takers.buried())
