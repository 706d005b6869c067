"""The life of a session: created, found, listed, reset, closed, timed out, destroyed. Everywhere the same."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Engine, Session, errors
from holdfast.errors import HoldfastError
from holdfast.model.sessions.events import SessionTimedOut
from holdfast.testing.appends import run_in_threads
from holdfast.types import SessionRow, SweepResult
from tests.edges.engines import (
    DURABLE_KINDS,
    FEWER_KINDS,
    LOCAL_KINDS,
    SQLITE_KINDS,
    EngineDesk,
    ManualClock,
    contents,
    log_of,
    replace_store,
    rows_of,
    store_of,
)
from tests.property.store_tools import Faulty, fast_folder
from tests.support import figure

ROOT = Path(__file__).parents[2]
EXAMPLES = figure(13, 1_000)
WAIT_S = 60
SOON_S = 0.005

Place: TypeAlias = tuple[str, str]
Use: TypeAlias = Callable[[Engine, Session], object]


@contextmanager
def _opened(kind: str, **options: Any) -> Iterator[Engine]:
    """An engine of its own for every example of a property."""
    with fast_folder() as folder, closing(EngineDesk(Path(folder))) as desk:
        yield desk.open(kind, **options)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=FEWER_KINDS)
def timed(request: pytest.FixtureRequest, desk: EngineDesk, clock: ManualClock) -> Engine:
    return desk.open(request.param, clock=clock)


# Finding and making


@pytest.mark.parametrize("create", [False, True])
def test_asking_for_an_unknown_session_makes_one_only_on_demand(create: bool, engine: Engine) -> None:
    if create:
        engine.session("s", create=True).record("user", "kept")
        before = contents(engine)
        assert [message.text for message in engine.session("s", create=True).messages()] == ["kept"]
        assert contents(engine) == before
    else:
        with pytest.raises(errors.SessionNotFound):
            engine.session("s")
        assert contents(engine) == ([], [], [])


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_many_who_get_or_create_a_session_share_one(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    run_in_threads(8, lambda number: engine.session("s", create=True).record("user", str(number)))
    assert [event.type for event in log_of(engine)] == ["session.created"] + ["message.recorded"] * 8


USES: dict[str, Use] = {
    "record": lambda _, session: session.record("user", "text"),
    "record_all": lambda _, session: session.record_all([("user", "text")]),
    "result": lambda _, session: session.result("c9_9", "text"),
    "close_open_calls": lambda _, session: session.close_calls("stop"),
    "messages": lambda _, session: session.messages(),
    "messages before": lambda _, session: session.messages(before=2),
    "evidence": lambda _, session: session.evidence(),
    "events": lambda _, session: session.events(),
    "window": lambda _, session: session.context.window(),
    "draft_summary": lambda _, session: session.context.draft_summary(),
    "state": lambda _, session: session.state(),
    "reset": lambda _, session: session.reset(),
    "close": lambda _, session: session.end(),
    "destroy": lambda _, session: session.destroy(),
    "erase": lambda _, session: session.erase([2], "asked to"),
    "session": lambda engine, session: engine.session(session.id),
    "session, or create it": lambda engine, session: engine.session(session.id, create=True),
    "create_session": lambda engine, session: engine.create_session(session.id),
}


def _acknowledged(engine: Engine, session: Session) -> None:
    session.destroy("no more")
    for entry in engine.admin.outbox():
        engine.admin.acknowledge(entry)


ENDS: dict[str, Use] = {
    "open": lambda _, session: session.state(),
    "closed": lambda _, session: session.end("done"),
    "destroyed": lambda _, session: session.destroy("no more"),
    "destroyed and handed over": _acknowledged,
    "destroyed and forgotten": lambda _, session: session.destroy("no more", offload=False),
}

_GONE: dict[str, type[HoldfastError]] = dict.fromkeys(USES, errors.SessionDestroyedError)
_GONE |= {"create_session": errors.SessionExists}
del _GONE["destroy"]
_NEVER: dict[str, type[HoldfastError]] = {"create_session": errors.SessionExists, "result": errors.CallNotFound}
REFUSALS: dict[str, dict[str, type[HoldfastError]]] = {
    "open": _NEVER,
    "closed": _NEVER | dict.fromkeys(("record", "record_all", "reset"), errors.SessionClosedError),
    "destroyed": _GONE,
    "destroyed and handed over": _GONE,
    "destroyed and forgotten": _GONE,
}


def _check_use(engine: Engine, session: Session, use: str, refusal: type[HoldfastError] | None) -> None:
    before = contents(engine)
    if refusal is None:
        USES[use](engine, session)
        return
    with pytest.raises(refusal) as refused:
        USES[use](engine, session)
    assert type(refused.value) is refusal
    assert contents(engine) == before


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("end", ENDS)
def test_what_a_session_takes_depends_on_how_it_ended(end: str, use: str, engine: Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "hello")
    ENDS[end](engine, session)
    _check_use(engine, session, use, REFUSALS[end].get(use))
    assert engine.admin.verify().ok


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", DURABLE_KINDS)
def test_whoever_remembers_a_session_learns_that_it_was_destroyed_elsewhere(
    kind: str, use: str, desk: EngineDesk
) -> None:
    here, there = desk.open(kind), desk.open_url(desk.address(kind))
    here.create_session("s").record("user", "hello")
    session = here.session("s")
    there.session("s").destroy("elsewhere")
    _check_use(here, session, use, _GONE.get(use))


@pytest.mark.parametrize("again", ["end", "destroy"])
def test_ending_a_session_again_changes_nothing(again: str, engine: Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "hello")
    getattr(session, again)("first")
    before = contents(engine)
    getattr(session, again)("second")
    assert contents(engine) == before


# Who is kept apart


def _use_by_name(engine: Engine, name: str) -> dict[str, str]:
    """What each way to ask for a session by its name says to someone who may not know of it."""
    asks: dict[str, Callable[[], object]] = {
        "session": lambda: engine.session(name),
        "with an actor": lambda: engine.session(name, actor="main"),
        "with a thread": lambda: engine.session(name, thread="t"),
    }
    said: dict[str, str] = {}
    for ask, use in asks.items():
        with pytest.raises(errors.SessionNotFound) as refused:
            use()
        assert type(refused.value) is errors.SessionNotFound
        said[ask] = str(refused.value).replace(name, "…")
    return said


@pytest.mark.parametrize("end", ENDS)
def test_another_tenants_session_looks_like_none_at_all_whatever_became_of_it(end: str, engine: Engine) -> None:
    session = engine.create_session("secret-plans", metadata={"topic": "merger"}, idle_timeout_s=1)
    session.record("user", "the merger is on")
    ENDS[end](engine, session)
    rival = engine.acting_as(tenant="rival")
    assert _use_by_name(rival, "secret-plans") == _use_by_name(rival, "no-such-plans")
    statuses: tuple[Literal["open", "closed", "destroyed"] | None, ...] = (None, "open", "closed", "destroyed")
    assert [rival.sessions(status=status) for status in statuses] == [()] * 4
    assert (rival.admin.outbox(), rival.admin.sweep()) == ([], SweepResult())


def test_another_tenants_piece_of_history_is_neither_shown_nor_acknowledged(engine: Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "the merger is on")
    session.reset()
    [entry] = engine.admin.outbox()
    rival = engine.acting_as(tenant="rival")
    rival.create_session("s").record("user", "ours")
    before = contents(engine)
    for use in (rival.admin.offloaded, rival.admin.acknowledge):
        with pytest.raises(errors.SessionNotFound):
            use(entry)
    with pytest.raises(errors.SessionNotFound):
        rival.admin.outbox(after=entry)
    assert contents(engine) == before


_names = st.text('a/b",[]\\ é', min_size=1, max_size=3)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(max_examples=EXAMPLES)
@given(places=st.sets(st.tuples(_names, _names, st.none() | _names), min_size=2, max_size=6))
def test_names_never_run_together(kind: str, places: set[tuple[str, str, str | None]]) -> None:
    with _opened(kind) as engine:
        for actor, name, thread in places:
            engine.create_session(name, actor=actor, thread=thread).record("user", repr((actor, name, thread)))
        for actor, name, thread in places:
            session = engine.session(name, actor=actor, thread=thread)
            assert [message.text for message in session.messages()] == [repr((actor, name, thread))]
        listed = [(row.actor, row.session, row.thread or None) for row in engine.sessions()]
        assert sorted(listed, key=str) == sorted(places, key=str)
        actor, name, thread = min(places, key=str)
        engine.session(name, actor=actor, thread=thread).destroy(offload=False)
        assert len(engine.sessions()) == len(places) - 1
        assert engine.admin.verify().ok


# Lists

PLACES: list[Place] = [(actor, name) for actor in ("ada", "bob", "a/b") for name in ("1", "2", "10", "b/c")]
DEEDS: dict[str, Callable[[Session], object]] = {
    "say": lambda session: session.record("user", "text"),
    "reset": lambda session: session.reset(),
    "close": lambda session: session.end(),
    "destroy": lambda session: session.destroy(),
}
Deed: TypeAlias = tuple[Place, str, int]


def _deeds(*steps_s: int) -> st.SearchStrategy[list[Deed]]:
    """Something is done to a session, after the clock has made a step."""
    deed = st.tuples(st.sampled_from(PLACES), st.sampled_from(sorted(DEEDS)), st.sampled_from(steps_s))
    return st.lists(deed, max_size=30)


def _do(engine: Engine, clock: ManualClock, deeds: list[Deed]) -> None:
    for (actor, name), what, step_s in deeds:
        clock.now_s += step_s
        with suppress(errors.SessionDestroyedError, errors.SessionClosedError):
            DEEDS[what](engine.session(name, actor=actor, create=True))


def _paged(engine: Engine, limit: int, between: Callable[[], object] = int, **filters: Any) -> list[SessionRow]:
    found: list[SessionRow] = []
    while page := engine.sessions(after=found[-1] if found else None, limit=limit, **filters):
        assert len(page) <= limit
        found += page
        between()
    return found


_filters = st.fixed_dictionaries(
    {},
    optional={
        "actor": st.sampled_from(("ada", "a/b", "nobody")),
        "status": st.sampled_from(("open", "closed", "destroyed")),
        "active_since_us": st.integers(-3, 30),
        "idle_since_us": st.integers(-3, 30),
    },
)


@pytest.mark.parametrize("kind", LOCAL_KINDS)
@pytest.mark.parametrize("order", ["name", "recent"])
@settings(max_examples=EXAMPLES)
@given(deeds=_deeds(0, 0, 1, 2, -1), filters=_filters, limit=st.integers(1, 5))
def test_a_list_is_what_its_filters_and_its_order_say(
    kind: str, order: Literal["name", "recent"], deeds: list[Deed], filters: dict[str, Any], limit: int
) -> None:
    clock = ManualClock(1_000)
    for since in {"active_since_us", "idle_since_us"} & filters.keys():
        filters = {**filters, since: (1_000 + filters[since]) * 1_000_000}
    with _opened(kind, clock=clock) as engine:
        _do(engine, clock, deeds)
        wanted = [row for row in rows_of(engine) if isinstance(row, SessionRow) and _passes(row, filters)]
        wanted.sort(key=lambda row: (row.actor, row.session))
        if order == "recent":
            wanted.sort(key=lambda row: (row.updated_us, row.actor, row.session), reverse=True)
        assert _paged(engine, limit, order=order, **filters) == wanted


def _passes(row: SessionRow, filters: dict[str, Any]) -> bool:
    return (
        filters.get("actor", row.actor) == row.actor
        and (row.status == filters["status"] if "status" in filters else row.status != "destroyed")
        and filters.get("active_since_us", row.updated_us) <= row.updated_us
        and filters.get("idle_since_us", row.updated_us) >= row.updated_us
    )


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("order", ["name", "recent"])
@settings(max_examples=EXAMPLES)
@given(before=_deeds(0, 1), meanwhile=st.lists(_deeds(0, 1), max_size=8), limit=st.integers(1, 4))
def test_pages_skip_and_repeat_nothing_while_others_write(
    kind: str, order: Literal["name", "recent"], before: list[Deed], meanwhile: list[list[Deed]], limit: int
) -> None:
    """In order of names, nothing that stays. The most recent first, nothing but what has just moved to the front."""
    clock = ManualClock()
    with _opened(kind, clock=clock) as engine:
        _do(engine, clock, before)
        first = {(row.actor, row.session): row.version for row in engine.sessions(limit=1_000)}
        pending = iter(meanwhile)
        seen = [
            (row.actor, row.session)
            for row in _paged(engine, limit, lambda: _do(engine, clock, next(pending, [])), order=order)
        ]
        now = {(row.actor, row.session): row.version for row in engine.sessions(limit=1_000)}
        stayed = {place for place in first if place in now and (order == "name" or now[place] == first[place])}
        assert len(seen) == len(set(seen))
        assert stayed <= set(seen)


# Resetting


def test_a_reset_starts_the_view_anew_and_keeps_the_transcript(engine: Engine) -> None:
    session = engine.create_session("s", metadata={"a": 1})
    session.record("system", "be kind")
    session.record("user", "old")
    session.record("assistant", "working", tool_calls=[{"name": "read"}, {"name": "list"}])
    session.reset("a new topic")
    state = session.state()
    assert (state.status, state.open_calls, state.live, state.metadata) == ("open", (), 0, {"a": 1})
    assert [message.text for message in session.context.window().messages] == ["be kind"]
    closed = session.messages()[-1]
    assert closed.closing
    assert [(result.is_error, result.value) for result in closed.tool_results] == [(True, "No result: a new topic")] * 2
    session.record("user", "new")
    assert [message.text for message in session.context.window().messages] == ["be kind", "new"]
    assert [message.role for message in session.messages()] == ["system", "user", "assistant", "tool", "user"]
    session.reset(keep_system=False)
    assert session.context.window().messages == ()
    assert engine.admin.verify().ok


def test_calls_that_wait_take_no_room_from_what_is_in_view(engine: Engine) -> None:
    session = engine.create_session("s")
    session.record_all([("user", "question"), ("assistant", "answer")] * 10)
    before = session.context.window(20)
    session.record("assistant", "word " * 100, tool_calls=[{"name": "read"}])
    after = session.context.window(20)
    assert before.items
    assert (after.items, after.omitted, len(after.open_calls)) == (before.items, before.omitted + 1, 1)


# Timing out


@pytest.mark.parametrize("timeout_s", [0.000_001, 0.5, 10, 365 * 86_400])
def test_a_session_times_out_when_it_was_idle_for_so_long_and_no_sooner(
    timeout_s: float, timed: Engine, clock: ManualClock
) -> None:
    session = timed.create_session("s", idle_timeout_s=timeout_s)
    timed.create_session("never")
    session.record("assistant", "working", tool_calls=[{"name": "read"}])
    clock.now_s += timeout_s - 0.000_001
    assert timed.admin.sweep() == SweepResult()
    clock.now_s += 0.000_001
    assert timed.admin.sweep() == SweepResult((session.scope,))
    assert timed.admin.sweep() == SweepResult()
    state = session.state()
    assert (state.status, state.open_calls) == ("closed", ())
    assert state.close_reason.startswith("idle")
    assert session.messages()[-1].closing
    clock.now_s += 1e9
    assert timed.admin.sweep() == SweepResult()
    assert timed.session("never").state().status == "open"
    with pytest.raises(errors.SessionClosedError):
        session.record("user", "too late")
    assert timed.admin.verify().ok


@pytest.mark.parametrize(
    ("use", "puts_off"),
    [("record", True), ("reset", True), ("erase", True), ("messages", False), ("window", False), ("state", False)],
)
def test_what_is_done_puts_the_timeout_off_and_what_is_read_does_not(
    use: str, puts_off: bool, timed: Engine, clock: ManualClock
) -> None:
    session = timed.create_session("s", idle_timeout_s=10)
    session.record("user", "hello")
    clock.now_s += 9
    USES[use](timed, session)
    clock.now_s += 9
    assert timed.admin.sweep().sessions == (() if puts_off else (session.scope,))
    clock.now_s += 1
    assert timed.admin.sweep().sessions == ((session.scope,) if puts_off else ())


@pytest.mark.parametrize(
    "steps_s", [[0, 0, 0], [-1, -100, -1e9], [-100, 100], [-1e6, 1e6 + 9]], ids=["still", "back", "there", "ahead"]
)
def test_a_clock_that_stands_still_or_runs_backwards_times_nobody_out(
    steps_s: list[float], timed: Engine, clock: ManualClock
) -> None:
    """Nor one that was set back for a while: less than the timeout has passed by any clock that runs forwards."""
    session = timed.create_session("s", idle_timeout_s=10)
    for step_s in steps_s:
        session.record("user", "busy")
        clock.now_s += step_s
        assert timed.admin.sweep() == SweepResult()
    assert session.state().status == "open"


def test_many_are_timed_out_in_steps_and_only_those_of_the_tenant(timed: Engine, clock: ManualClock) -> None:
    for number in range(5):
        timed.create_session(f"s{number}", idle_timeout_s=1)
    other = timed.acting_as(tenant="other")
    other.create_session("s", idle_timeout_s=1)
    clock.now_s += 1
    swept = [[scope.session for scope in timed.admin.sweep(limit=2).sessions] for _ in range(4)]
    assert swept == [["s0", "s1"], ["s2", "s3"], ["s4"], []]
    assert other.session("s").state().status == "open"
    assert len(other.admin.sweep().sessions) == 1


@pytest.mark.parametrize("kind", SQLITE_KINDS)
def test_a_damaged_session_keeps_no_other_from_timing_out(kind: str, desk: EngineDesk, clock: ManualClock) -> None:
    with desk.open(kind, clock=clock) as engine:
        for name in ("a", "b", "c"):
            engine.create_session(name, idle_timeout_s=1)
    with closing(apsw.Connection(str(desk.path(kind)))) as connection:
        connection.execute("UPDATE events SET payload = x'ff' WHERE position = 2")
    clock.now_s += 1
    engine = desk.open(kind, clock=clock)
    for _ in range(2):
        with pytest.raises(errors.EventUnreadable):
            engine.admin.sweep()
    assert [(row.session, row.status) for row in engine.sessions()] == [("a", "closed"), ("b", "open"), ("c", "closed")]


# Sweeping in the background


def _until(holds: Callable[[], bool]) -> None:
    """Look until it is so: each look lets an event loop run on, and the test's time limit ends what never comes."""
    while not holds():
        pass


def _in_background(desk: EngineDesk) -> int:
    async def tasks() -> int:
        return len(asyncio.all_tasks()) - 1

    threads = sum(thread.name == "holdfast-sweeper" for thread in threading.enumerate())
    return threads + desk._runner.run(tasks())


def test_a_sweeper_sweeps_until_its_block_is_left(timed: Engine, clock: ManualClock, desk: EngineDesk) -> None:
    first, second = (timed.create_session(name, idle_timeout_s=1) for name in ("first", "second"))
    clock.now_s += 1
    second.record("user", "busy")
    with timed.admin.sweeper(SOON_S):
        assert _in_background(desk) == 1
        _until(lambda: first.state().status == "closed")
        clock.now_s += 1
        _until(lambda: second.state().status == "closed")
    assert _in_background(desk) == 0
    assert [event.type for event in log_of(timed)].count(SessionTimedOut.name) == 2


def test_a_sweeper_goes_on_after_a_failed_sweep(
    timed: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    session = timed.create_session("s", idle_timeout_s=1)
    clock.now_s += 1
    faulty = Faulty(store_of(timed))
    faulty.fault = "before"
    with replace_store(timed, faulty), caplog.at_level(logging.ERROR), timed.admin.sweeper(SOON_S):
        _until(lambda: session.state().status == "closed")
    assert ["sweep failed" in record.getMessage() for record in caplog.records] == [True]


def test_a_sweeper_ends_when_the_store_is_closed(timed: Engine, desk: EngineDesk) -> None:
    with timed.admin.sweeper(SOON_S):
        timed.close()
        _until(lambda: _in_background(desk) == 0)


_SWEEP = """
import sys
import holdfast
from tests.edges.engines import ManualClock

with holdfast.open(sys.argv[1], clock=ManualClock(2_000_000_000.0)) as engine:
    print("ready", flush=True)
    sys.stdin.readline()
    while engine.sessions(status="open", limit=1):
        for scope in engine.admin.sweep(limit=5).sessions:
            print(scope.session)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_processes_that_sweep_at_once_time_each_session_out_once(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind, clock=ManualClock())
    names = {f"s{number}" for number in range(60)}
    for name in names:
        engine.create_session(name, idle_timeout_s=1).record("user", "hello")
    command = [sys.executable, "-c", _SWEEP, desk.address(kind)]
    children = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    said = _together(children)
    assert sorted(said) == sorted(names)
    timed_out = [event.stream.key[1] for event in log_of(engine) if event.type == SessionTimedOut.name]
    assert sorted(timed_out) == sorted(names)
    assert len(engine.admin.outbox()) == len(names)
    assert engine.admin.verify().ok


def _together(children: list[subprocess.Popen[str]]) -> list[str]:
    """Let them go at once; what they all said."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    said = [child.communicate(timeout=WAIT_S)[0].split() for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    return [name for names in said for name in names]
