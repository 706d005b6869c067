"""Moving house: all that one store holds arrives in another, whatever happens on the way, or a refusal says why not."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import BlobRef, errors
from holdfast.adapters.system import RandomIds
from holdfast.model import limits
from holdfast.model.names import StreamId
from holdfast.model.rows import BlobRow
from holdfast.model.sessions.events import SessionCreated
from holdfast.runtime import store_copy
from holdfast.runtime.store_copy import CopyReport, copy
from holdfast.storage.postgres.migrate import has_store
from holdfast.testing.appends import LOOKALIKES, all_heads, append_of, positions_in_feed_order, write_to
from holdfast.types import Body, FeedPage
from tests.crash.worker import Nursery
from tests.edges import copy_worker
from tests.edges.engines import EngineDesk, contents, log_of, record_busy_session, replace_store, rows_of
from tests.edges.test_cli import edit
from tests.postgres import base_url, fresh_url
from tests.property.session_model import CharCounter, Command, Create, commands, run
from tests.property.store_tools import Kind, all_rows, dump, store_of_kind
from tests.support import SOAK, figure

KINDS = ("memory", "sqlite", "postgres")


LOCAL = (("memory", "sqlite"), ("sqlite", "memory"), ("sqlite", "sqlite"))


SERVED = (("sqlite", "postgres"), ("postgres", "sqlite"))


Pair: TypeAlias = tuple[holdfast.Engine, holdfast.Engine]


Furnished: TypeAlias = tuple[holdfast.Engine, BlobRef]


LARGE = 3_000_000


FOREVER_S = 1e12


def fill(engine: holdfast.Engine, other_tenant: str = "other") -> None:
    """A bit of everything: tenants, threads, calls, late results, frames, bodies, erasures, ends, an outbox, keys."""
    shared = engine.blobs.put(b"shared" * 100, media_type="text/plain")
    trip = engine.create_session("trip", actor="ada", metadata={"goal": "Lisbon"}, idle_timeout_s=60, key="create")
    for number in range(8):
        trip.record("user", ["look", Body(shared, "preview")], key=f"k{number}", cause="c")
        asked = trip.record("assistant", "", tool_calls=[{"name": "look", "args": {"at": number}, "id": f"p{number}"}])
        trip.result(asked.tool_calls[0], f"found {number}")
    trip.erase([3], "asked to")
    late = engine.create_session("late", actor="ada")
    call = late.record("assistant", "", tool_calls=[{"name": "slow", "args": {}}]).tool_calls[0]
    late.close_calls("gave up")
    late.result(call, iter([os.urandom(limits.SPOOL_BYTES + 1)]))
    late.reset("new topic")
    for name, end in (("closed", "end"), ("gone", "destroy")):
        session = engine.create_session(name, actor="bob", thread="side")
        session.record("user", "that is all")
        getattr(session, end)("all done")
    for entry in engine.admin.outbox(limit=1):
        engine.admin.acknowledge(entry)
    record_busy_session(engine.create_session("framed", actor="bob"))
    other = engine.acting_as(tenant=other_tenant, principal="eve")
    theirs = Body(other.blobs.put(b"theirs"))
    other.create_session("trip", actor="ada").record_all([("user", theirs), ("user", theirs)])


def bodies(engine: holdfast.Engine) -> dict[tuple[str, str], bytes]:
    """Every body that a row names."""
    return {
        (row.tenant, row.digest): engine.acting_as(tenant=row.tenant).blobs.read(BlobRef(row.digest, row.size))
        for row in all_rows(engine)
        if isinstance(row, BlobRow)
    }


def check_moved(source: holdfast.Engine, target: holdfast.Engine) -> None:
    """Events in their order, heads, rows and bodies are the same, and the copy stands on its own."""
    check_same(source, target)
    positions = positions_in_feed_order(target.store)
    assert positions == sorted(set(positions))
    assert target.admin.verify().problems == ()


def check_same(source: holdfast.Engine, target: holdfast.Engine) -> None:
    here, there = (list(all_heads(engine.store, limit=limits.READ_EVENTS)) for engine in (source, target))
    assert (dump(target), bodies(target), there) == (dump(source), bodies(source), here)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of a pair runs on one without a server and on one with one, which differ from test to test."""
    if "pair" in metafunc.fixturenames:
        turn = zlib.crc32(metafunc.function.__name__.encode())
        pairs = LOCAL + SERVED if SOAK else (LOCAL[turn % len(LOCAL)], SERVED[turn % len(SERVED)])
        metafunc.parametrize("pair", pairs, ids=" to ".join, indirect=True)


@pytest.fixture
def pair(request: pytest.FixtureRequest, desk: EngineDesk) -> Pair:
    """A source and a target, both empty."""
    return desk.open(request.param[0]), desk.open(request.param[1], "there", ids=RandomIds())


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, desk: EngineDesk) -> holdfast.Engine:
    return desk.open(request.param, "there")


@contextmanager
def small_steps() -> Iterator[None]:
    """Short histories still cross many pages and snapshots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SNAPSHOT_EVERY", 3)
        patch.setattr(limits, "READ_EVENTS", 5)
        yield


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_copy, "_PAGE", 4)


class Interrupted:
    """A store beneath the source: something happens after each page that is read of its feed."""

    def __init__(self, inner: Any, happens: Callable[[], object]) -> None:
        self._inner = inner
        self._happens = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        page: FeedPage = self._inner.feed(cursor, limit=limit)
        self._happens()
        return page


# What arrives

History: TypeAlias = list[tuple[str, Command | None]]


steps: st.SearchStrategy[History] = st.lists(
    st.tuples(st.sampled_from(["t", "t2"]), st.one_of(*[commands] * 6, st.none())), max_size=figure(25, 60)
)
"""Commands of two tenants; None is a copy in between."""


@pytest.mark.parametrize(("here", "there"), LOCAL)
@settings(max_examples=figure(8, 1_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=steps)
def test_whatever_was_recorded_is_the_same_after_a_copy(here: Kind, there: Kind, history: History) -> None:
    move_there_and_on(here, there, history)


@pytest.mark.parametrize(("here", "there"), SERVED)
@settings(max_examples=figure(3, 300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=steps)
def test_it_is_the_same_after_a_copy_to_or_from_a_server(here: Kind, there: Kind, history: History) -> None:
    move_there_and_on(here, there, history)


def move_there_and_on(here: Kind, there: Kind, history: History) -> None:
    """Copied at each None and at the end, and from the target to a third store."""
    with small_steps(), ExitStack() as opened:
        urls = [opened.enter_context(store_of_kind(kind)) for kind in (here, there, here)]
        source, target, third = (opened.enter_context(holdfast.open(url, counter=CharCounter())) for url in urls)
        tenants = {name: source.acting_as(tenant=name) for name in ("t", "t2")}
        handles: dict[str, dict[str, holdfast.Session]] = {"t": {}, "t2": {}}
        for tenant, command in [*history, ("t", None)]:
            if command is None:
                before, wanted = target.admin.totals().events, source.admin.totals().events
                copied = copy(source, target)
                assert (copied.events, copied.already_there) == (wanted - before, before)
                check_same(source, target)
                continue
            for each in (Create(command.name, (), None), command):
                with suppress(errors.HoldfastError):
                    run(tenants[tenant], handles[tenant], each, 0)
        check_moved(source, target)
        copy(target, third)
        check_moved(source, third)


@pytest.mark.parametrize(("here", "there"), [*LOCAL, *SERVED, ("postgres", "postgres")])
def test_a_bit_of_everything_arrives_as_it_was(desk: EngineDesk, here: str, there: str) -> None:
    source, target, back = desk.open(here), desk.open(there, "there"), desk.open(here, "back")
    fill(source)
    copied = copy(source, target)
    named = bodies(source)
    streams, sizes = source.admin.totals().streams, [len(body) for body in named.values()]
    assert copied == CopyReport(len(log_of(source)), 0, streams, len(sizes), sum(sizes))
    check_moved(source, target)
    assert copy(target, back).events == copied.events
    check_moved(source, back)


def test_sessions_go_on_in_the_new_house(pair: Pair) -> None:
    source, target = pair
    fill(source)
    copy(source, target)
    old, new = (engine.session("trip", actor="ada") for engine in (source, target))
    assert (new.state(), new.context.window()) == (old.state(), old.context.window())
    assert new.record("user", ["look", *new.messages(before=3)[0].content[1:]], key="k0", cause="c").seq == 2
    with pytest.raises(errors.KeyConflict):
        new.record("user", "something else", key="k1")
    assert new.record("user", "and on").seq == old.state().version + 1
    assert [entry.scope for entry in target.admin.outbox()] == [entry.scope for entry in source.admin.outbox()]
    assert target.admin.verify().ok


def test_names_that_look_alike_stay_apart(pair: Pair) -> None:
    source, target = pair
    names = sorted({name for pair in LOOKALIKES for name in pair})
    for tenant in names:
        own = source.acting_as(tenant=tenant)
        session = own.create_session("s", actor=names[-1])
        session.record("user", [tenant, Body(own.blobs.put(b"the same bytes"))], key="k")
    for name in names:
        source.create_session(name, actor="s").record("user", name)
    with small_steps():
        copied = copy(source, target)
        assert copied.bodies == len(names)
        check_moved(source, target)
    for tenant in names:
        session = target.acting_as(tenant=tenant).session("s", actor=names[-1])
        assert session.messages()[0].text.startswith(tenant)


def test_what_one_command_wrote_to_several_streams_is_never_there_in_part(pair: Pair) -> None:
    source, target = pair
    sizes = [3, 6, 1, 1, 13, 2, 4, 1, 9]
    for number, size in enumerate(sizes):
        streams = [StreamId("default", "session", ("main", f"{number}-{at}")) for at in range(size)]
        writes = [write_to(stream, 0, kind=SessionCreated.name) for stream in streams]
        source.store.append(append_of(*writes, key=str(number)))
    whole = {event.command: sizes[int(event.key or "")] for event in log_of(source)}
    seen = 0

    def look(done: int, total: int) -> None:
        nonlocal seen
        found = [event.command for event in log_of(target)]
        assert {command: found.count(command) for command in found} == {each: whole[each] for each in found}
        seen += 1

    copy(source, target, progress=look)
    assert seen > 3
    assert log_of(target) == log_of(source)
    for number, size in enumerate(sizes):
        assert len(target.store.find("default", str(number))) == size


# Again, and meanwhile


def test_a_second_copy_brings_what_is_new_and_nothing_twice(pair: Pair) -> None:
    source, target = pair
    fill(source)
    first = copy(source, target)
    with replace_store(source, Interrupted(source.store, lambda: pytest.fail("there was nothing to read"))):
        assert copy(source, target) == CopyReport(0, first.events, first.streams, 0, 0)
    source.session("trip", actor="ada").record("user", "later")
    source.create_session("new").record("user", "later")
    assert copy(source, target) == CopyReport(3, first.events, first.streams + 1, 0, 0)
    check_moved(source, target)


def test_what_is_recorded_meanwhile_comes_along_or_with_the_next_copy(pair: Pair) -> None:
    """Whoever records as fast as pages are taken does not hold the copy up for ever."""
    source, target = pair
    fill(source)
    began = list(all_heads(source.store))
    trip = source.session("trip", actor="ada")

    def record(done: int, total: int) -> None:
        trip.record("user", f"{done} of {total}")
        source.create_session(f"new {trip.state().version}").record("user", "I came meanwhile.")

    copied = copy(source, target, progress=record)
    reached = {head.stream: head.version for head in all_heads(target.store)}
    assert all(reached[head.stream] >= head.version for head in began)
    assert copied.events == len(log_of(target)) > sum(head.version for head in began)
    assert target.admin.verify().ok
    copy(source, target)
    check_moved(source, target)


def test_two_copies_at_once_take_nothing_twice(desk: EngineDesk, target: holdfast.Engine) -> None:
    source = desk.open("memory")
    for number in range(10):
        fill(source.acting_as(tenant=f"t{number}"), f"other {number}")
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: copy(source, target), range(2)))
    assert sum(each.events for each in done) == len(log_of(source))
    assert {each.streams for each in done} == {source.admin.totals().streams}
    check_moved(source, target)


def test_progress_is_told_in_events_and_comes_to_its_end(pair: Pair) -> None:
    source, target = pair
    fill(source)
    total = len(log_of(source))
    told: list[tuple[int, int]] = []
    copy(source, target, progress=lambda *said: told.append(said))
    assert told == sorted(set(told))
    assert {of for _, of in told} == {total}
    assert told[-1] == (total, total)
    assert len(told) > total // 5


@pytest.mark.parametrize(("here", "there"), [("sqlite", "sqlite"), ("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_copy_that_is_killed_again_and_again_goes_on_where_it_was(here: str, there: str, tmp_path: Path) -> None:
    files = {"sqlite": str(tmp_path / "source.db")}, {"sqlite": str(tmp_path / "target.db")}
    source, target = (own.get(kind) or fresh_url() for own, kind in zip(files, (here, there), strict=True))
    with holdfast.open(source) as engine:
        for number in range(3):
            fill(engine.acting_as(tenant=f"t{number}"), f"other {number}")
        pages = engine.admin.totals().events // copy_worker.PAGE
    rng = random.Random(20_240_609)
    reached = [0]
    nursery = Nursery(copy_worker.__name__)
    for _ in range(figure(4, 400)):
        nursery.run_and_kill(copy_worker.Copy(source, target), rng.randrange(1, pages), rng.random() * 0.01)
        with holdfast.open(target) as engine:
            reached.append(engine.admin.totals().events)
    nursery.close()
    assert reached == sorted(reached)
    with holdfast.open(source) as old, holdfast.open(target) as new:
        left = copy(old, new)
        assert left.already_there == old.admin.totals().events - left.events >= reached[-1]
        check_moved(old, new)
        new.admin.collect(grace_s=0)
        assert bodies(new) == bodies(old)
    assert [path for path in tmp_path.rglob("*") if "partial" in path.name] == []


# Another history


def _grow(engine: holdfast.Engine, text: str, messages: int) -> None:
    session = engine.session("s", create=True)
    for _ in range(messages):
        session.record("user", text)


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (3, 1), (1, 3), (20, 1), (1, 20)])
def test_another_history_there_is_refused_by_name_and_nothing_written(pair: Pair, ours: int, theirs: int) -> None:
    """Both began as one, and went on apart."""
    source, target = pair
    _grow(source, "together", 2)
    copy(source, target)
    source.create_session("a new one")
    _grow(source, "here", ours)
    _grow(target, "there", theirs)
    before = contents(target)
    for _ in range(2):
        with pytest.raises(errors.Conflict) as refusal:
            copy(source, target)
        assert refusal.value.__dict__["stream"] == StreamId("default", "session", ("main", "s"))
        assert "session default/main/s" in str(refusal.value)
        assert contents(target) == before


def test_a_session_that_parts_ways_during_the_copy_is_refused_too(pair: Pair) -> None:
    source, target = pair
    _grow(source, "here", 12)
    with pytest.raises(errors.Conflict, match="session default/main/s"):
        copy(source, target, progress=lambda *_: _grow(target, "there", 1))
    assert target.admin.verify().ok


def test_a_key_that_is_in_use_there_is_refused(pair: Pair) -> None:
    source, target = pair
    source.create_session("s", key="mine")
    target.create_session("t", key="mine")
    before = contents(target)
    with pytest.raises(errors.KeyConflict):
        copy(source, target)
    assert contents(target) == before


def test_what_the_target_has_of_its_own_stays_and_is_no_hindrance(pair: Pair) -> None:
    source, target = pair
    target.create_session("own").record("user", Body(target.blobs.put(b"own")))
    target.acting_as(tenant="a").create_session("s")
    own = log_of(target)
    fill(source)
    copied = copy(source, target)
    assert (copied.events, copied.already_there) == (len(log_of(source)), 0)
    assert log_of(target) == own + log_of(source)
    assert target.admin.verify().ok
    target.session("trip", actor="ada").record("user", "went on there")
    assert copy(source, target).events == 0, "a session that only went on is not in conflict"


# Erasures


def test_what_was_erased_since_the_last_copy_is_erased_there(pair: Pair) -> None:
    source, target = pair
    fill(source)
    copy(source, target)
    handle = target.session("trip", actor="ada")
    assert not handle.messages(before=6, limit=1)[0].erased
    old = source.session("trip", actor="ada")
    old.erase([5], "asked to")
    old.erase([old.state().version], "of this as well")
    old.record("user", "and on")
    source.acting_as(tenant="other").session("trip", actor="ada").destroy("over", offload=False)
    copy(source, target)
    assert handle.messages(before=6, limit=1)[0].erased
    assert handle.state() == old.state()
    check_moved(source, target)


def test_what_is_erased_and_collected_while_it_is_copied_arrives_erased(pair: Pair) -> None:
    source, target = pair
    session = source.create_session("s")
    body = source.blobs.put(b"secret" * 1_000)
    session.record("user", Body(body))

    def erase() -> None:
        if not session.messages()[-1].erased:
            session.erase([2], "asked to")
            source._blob_store.drop("default", body.digest, unless_put_after_s=FOREVER_S)

    with replace_store(source, Interrupted(source.store, erase)):
        copied = copy(source, target)
    assert (copied.events, copied.bodies) == (3, 0)
    check_moved(source, target)


@pytest.mark.parametrize("there", ["sqlite", "postgres"])
def test_a_feed_that_is_held_back_holds_back_no_copy(
    desk: EngineDesk, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a source held when it began is there in the end, also if its feed does not show it yet, since someone else's
    transaction began before it and goes on."""
    monkeypatch.setattr(store_copy, "_FEED_PAUSES_S", (0.0, 0.0))
    source, target = desk.open("postgres"), desk.open(there, "there")
    fill(source)
    shown = log_of(source)
    with psycopg.connect(base_url()) as someone:
        someone.execute("SELECT pg_current_xact_id()")
        fill(source.acting_as(tenant="late"), "other, late")
        source.session("trip", actor="ada").record("user", "not shown yet")
        assert list(source.admin.feed(limit=limits.READ_EVENTS).events) == shown
        assert copy(source, target).events == 2 * len(shown) + 1
    assert log_of(target)[: len(shown)] == shown
    assert sorted(event.hash for event in log_of(target)) == sorted(event.hash for event in log_of(source))
    assert (rows_of(target), bodies(target)) == (rows_of(source), bodies(source))
    assert target.admin.verify().ok


# Bodies


@pytest.fixture
def furnished(desk: EngineDesk) -> Furnished:
    """A source with one large body."""
    source = desk.open("sqlite", "furnished")
    body = source.blobs.put(random.Random(1).randbytes(LARGE))
    source.create_session("s").record("user", Body(body))
    return source, body


def test_a_large_body_arrives_and_is_read_once(target: holdfast.Engine, furnished: Furnished) -> None:
    source, body = furnished
    copied = copy(source, target)
    assert (copied.bodies, copied.body_bytes) == (1, LARGE)
    check_moved(source, target)
    source.session("s").record("user", Body(body))
    source._blob_store.drop("default", body.digest, unless_put_after_s=FOREVER_S)
    assert copy(source, target) == CopyReport(1, 2, 1, 0, 0), "there is nothing left to read it from"
    assert target.admin.verify().ok


@pytest.mark.parametrize("named", [True, False], ids=["lost", "left by a copy that was cut off"])
def test_a_body_the_target_cannot_count_on_is_brought(
    target: holdfast.Engine, named: bool, furnished: Furnished
) -> None:
    source, body = furnished
    if named:
        copy(source, target)
        target._blob_store.drop("default", body.digest, unless_put_after_s=FOREVER_S)
        source.session("s").record("user", Body(body))
    else:
        target.blobs.put(source.blobs.chunks(body))
    assert copy(source, target).bodies == 1
    check_moved(source, target)


@pytest.mark.parametrize("harm", ["gone", "damaged", "cut"])
def test_a_lost_body_stops_the_copy_before_its_event(
    desk: EngineDesk, target: holdfast.Engine, harm: str, furnished: Furnished
) -> None:
    source, body = furnished
    [file] = desk.folder.rglob(f"{body.digest}.zst")
    whole = file.read_bytes()
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(whole[: LARGE // 2] + (b"x" + whole[LARGE // 2 + 1 :] if harm == "damaged" else b""))
    with pytest.raises(errors.BlobNotFound if harm == "gone" else errors.StorageCorrupt, match=body.digest):
        copy(source, target)
    assert (log_of(target), rows_of(target)) == ([], [])
    assert list(desk.folder.rglob("*.partial")) == []
    file.write_bytes(whole)
    copy(source, target)
    check_moved(source, target)


# Damage


HARM = {
    "another payload": "UPDATE events SET payload = CAST('{}' AS BLOB) WHERE seq = 10",
    "another hash": "UPDATE events SET hash = zeroblob(32) WHERE seq = 10",
    "another principal": "UPDATE events SET principal = 'mallory' WHERE seq = 10",
    "another time": "UPDATE events SET time_us = 1 WHERE seq = 10",
    "no end": "DELETE FROM events WHERE seq >= 10",
}


@pytest.mark.parametrize("harm", HARM)
def test_what_was_tampered_with_is_not_taken(target: holdfast.Engine, harm: str, tmp_path: Path) -> None:
    path = tmp_path / "source.db"
    with holdfast.open(path) as source:
        _grow(source, "text", 10)
        sound = log_of(source)[:9]
    edit(path, HARM[harm])
    for _ in range(2):
        with pytest.raises(errors.DataError, match="session default/main/s"):
            copy(path, target)
    assert log_of(target) == sound[: target.admin.totals().events] != []
    assert target.admin.verify().ok


# Addresses


@pytest.fixture
def address(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    with holdfast.open(path) as engine:
        fill(engine)
    return path


@pytest.mark.parametrize("form", [str, Path, "sqlite:///{}".format], ids=["text", "path", "address"])
def test_stores_are_named_or_passed_open(address: Path, tmp_path: Path, form: Any) -> None:
    assert copy(form(address), form(tmp_path / "new.db")).events > 0
    with holdfast.open(address) as source, holdfast.open(tmp_path / "new.db") as target:
        check_moved(source, target)
        assert copy(source, form(tmp_path / "new.db")).events == 0
        assert copy(form(address), target).events == 0
        check_moved(source, target)


def test_a_source_that_is_not_there_is_not_made_and_neither_is_the_target(tmp_path: Path) -> None:
    url = fresh_url()
    for source in (tmp_path / "absent.db", f"sqlite:///{tmp_path}/absent.db", url):
        with pytest.raises(errors.FileAbsent):
            copy(source, tmp_path / "new.db")
    assert not has_store(url)
    (tmp_path / "diary.txt").write_text("dear diary, " * 1_000)
    with pytest.raises(errors.ForeignFile):
        copy(tmp_path / "diary.txt", tmp_path / "new.db")
    assert os.listdir(tmp_path) == ["diary.txt"]


@pytest.mark.parametrize("link", [None, os.symlink, os.link], ids=["itself", "a link", "a hard link"])
def test_no_store_is_copied_into_itself(address: Path, tmp_path: Path, link: Any) -> None:
    target = address if link is None else tmp_path / "linked.db"
    if link is not None:
        link(address, target)
    with pytest.raises(errors.InvalidUrl, match="the same store"):
        copy(address, target)
    with holdfast.open(address) as engine, pytest.raises(errors.InvalidUrl, match="the same store"):
        copy(engine, engine.acting_as(tenant="other"))


@pytest.mark.parametrize(
    "wrong", [None, 1, b"agent.db", "", "a\0b", "gopher://a", object, "memory:", ":memory:"], ids=repr
)
def test_an_address_that_leads_nowhere_or_to_what_ends_with_the_copy_is_refused(
    address: Path, tmp_path: Path, wrong: Any
) -> None:
    for source, target in ((wrong, tmp_path / "new.db"), (address, wrong)):
        with pytest.raises(errors.InvalidUrl):
            copy(source, target)
    assert not (tmp_path / "new.db").exists()
