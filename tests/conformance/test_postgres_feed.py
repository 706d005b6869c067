"""The feed on PostgreSQL, transaction by transaction: whatever order they begin, write and end in, a follower who looks in
between misses nothing; and without the guards that see to it, these tests would tell.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidCursor
from holdfast.model import limits
from holdfast.model.names import StreamId
from holdfast.storage.postgres import log
from holdfast.storage.postgres.migrate import shipped_migrations
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.sql import Migration
from holdfast.testing.appends import (
    ONE,
    TWO,
    all_events,
    append_of,
    assert_sound,
    fill_stream,
    positions_in_feed_order,
    session_stream,
    write_to,
)
from tests.conformance.postgres_tools import (
    AppendRefused,
    RawConnection,
    Roles,
    append_by_hand,
    connect_raw,
    create_roles,
    wait_for_transactions,
    wait_until_blocked,
)
from tests.conformance.postgres_workers import append_shared_and_own, run_in_processes
from tests.crash.feed_worker import GONE, Disorder, Follower
from tests.postgres import fresh_url
from tests.support import figure

SESSIONS = 4
What: TypeAlias = Literal["take", "own", "shared", "commit", "roll back", "look"]
Step: TypeAlias = tuple[int, What]

GUARD = re.compile(r"\n *AND \(e\.era < .* OR e\.xid < pg_snapshot_xmin\(pg_current_snapshot\(\)\)\)")
YOUNGER = re.compile(r"AND NOT \(\w+\.era = this_era AND \w+\.xid > pg_current_xact_id\(\)\)")


class Bench:
    """A store, and sessions in whose transactions it is written to by hand."""

    def __init__(self, migrations: Sequence[Migration] | None = None) -> None:
        self.store = PostgresStore(fresh_url(), migrations=migrations)
        self.sessions = [connect_raw(self.store.url, autocommit=False) for _ in range(SESSIONS)]
        self.observer = connect_raw(self.store.url)
        self.end = ""

    def play(self, steps: Sequence[Step]) -> None:
        """Raises Disorder if the feed showed it, to who looked on or to who came later."""
        while (page := self.store.feed(self.end, limit=limits.READ_EVENTS)).events:
            self.end = page.cursor
        play = Play(self)
        try:
            for who, what in steps:
                play.step(who, what)
            for who in range(SESSIONS):
                play.step(who, "commit")
        finally:
            for session in self.sessions:
                session.rollback()
        wait_for_transactions(self.observer)
        play.check()

    def close(self) -> None:
        for session in (*self.sessions, self.observer):
            session.close()
        self.store.close()


class Play:
    """What is known of the transactions, kept beside the database."""

    def __init__(self, bench: Bench) -> None:
        name = uuid.uuid4().hex
        self._bench = bench
        self._own = [session_stream(f"{name}/{who}") for who in range(SESSIONS)]
        self._shared = session_stream(f"{name}/shared")
        self._along = Follower(3, bench.end)
        self._versions: Counter[StreamId] = Counter()
        self._written: list[Counter[StreamId]] = [Counter() for _ in range(SESSIONS)]
        self._xids: list[int | None] = [None] * SESSIONS
        self._newest_xid = 0
        """Of those that wrote to the shared stream."""
        self._holder: int | None = None
        """Who has the lock on it: also who was refused."""

    def step(self, who: int, what: What) -> None:
        session = self._bench.sessions[who]
        match what:
            case "take":
                self._take(who)
            case "own":
                self._write(who, self._own[who])
            case "shared":
                if self._holder in (None, who):
                    self._write_shared(who)
            case "commit":
                if self._written[who][self._shared]:
                    self._newest_xid = self._take(who)
                session.commit()
                self._versions += self._written[who]
                self._forget(who)
            case "roll back":
                session.rollback()
                self._forget(who)
            case "look":
                self._along.read(self._bench.store)

    def check(self) -> None:
        late = Follower(100, self._bench.end)
        for follower in (self._along, late):
            follower.read_all(self._bench.store)
            if follower.seqs != self._versions:
                raise Disorder(f"{follower.seqs} were seen, {self._versions} were written")
        assert self._along.order == late.order

    def _take(self, who: int) -> int:
        ((xid,),) = self._bench.sessions[who].execute("SELECT pg_current_xact_id()::text").fetchall()
        self._xids[who] = int(xid)
        return int(xid)

    def _write(self, who: int, stream: StreamId) -> None:
        version = self._versions[stream] + self._written[who][stream]
        append_by_hand(self._bench.sessions[who], append_of(write_to(stream, version)))
        self._written[who][stream] += 1
        self._take(who)

    def _write_shared(self, who: int) -> None:
        """Refused to a transaction that is older than the last one that wrote there."""
        self._holder = who
        xid = self._xids[who]
        if xid is None or xid > self._newest_xid:
            self._write(who, self._shared)
        else:
            with pytest.raises(AppendRefused):
                self._write(who, self._shared)

    def _forget(self, who: int) -> None:
        self._written[who] = Counter()
        self._xids[who] = None
        if self._holder == who:
            self._holder = None


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


SOME_STEPS = st.lists(
    st.tuples(
        st.integers(0, SESSIONS - 1),
        st.sampled_from(["take", "own", "own", "shared", "shared", "commit", "commit", "roll back", "look", "look"]),
    ),
    min_size=4,
    max_size=40,
)


@given(steps=SOME_STEPS)
@settings(max_examples=figure(60, 2_000))
def test_no_interleaving_hides_or_disorders_an_event(bench: Bench, steps: list[Step]) -> None:
    bench.play(steps)


UNGUARDED: list[Step] = [(0, "own"), (1, "own"), (1, "commit"), (0, "look"), (0, "commit"), (0, "look")]
"""The first to write is the last to commit."""
CROSSED: list[Step] = [(0, "take"), (1, "own"), (0, "own"), (0, "commit"), (0, "look"), (1, "commit"), (0, "look")]
"""The older transaction writes at a later position."""
OVERTAKEN: list[Step] = [(0, "take"), (1, "shared"), (1, "commit"), (0, "shared"), (0, "commit"), (0, "look")]
"""The older transaction writes behind the younger one, in the same stream."""


@pytest.mark.parametrize("steps", [UNGUARDED, CROSSED, OVERTAKEN], ids=["unguarded", "crossed", "overtaken"])
def test_the_interleavings_that_are_known_to_be_hard_do_no_harm(bench: Bench, steps: list[Step]) -> None:
    bench.play(steps)


def by_position_alone(statement: str) -> str:
    beyond = "(e.era, e.xid, e.position) > (%b, (%b::text)::xid8, %b)"
    since = "%b::integer IS NOT NULL AND %b::text IS NOT NULL AND e.position > %b"
    return statement.replace(beyond, since).replace("ORDER BY e.era, e.xid, e.position", "ORDER BY e.position")


@pytest.mark.parametrize(
    ("broken", "steps"),
    [(lambda sql: GUARD.sub("", sql), UNGUARDED), (by_position_alone, CROSSED)],
    ids=["without its guard", "by position alone"],
)
def test_a_feed_read_carelessly_is_found_to_skip(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, broken: object, steps: list[Step]
) -> None:
    assert callable(broken)
    statement = broken(log.SQL["feed"])
    assert statement != log.SQL["feed"]
    monkeypatch.setitem(log.SQL, "feed", statement)
    with pytest.raises(Disorder):
        bench.play(steps)


def test_without_the_guard_in_streams_disorder_is_found() -> None:
    texts = [YOUNGER.sub("", each.sql) for each in shipped_migrations()]
    assert sum(text != each.sql for text, each in zip(texts, shipped_migrations(), strict=True)) == 1
    careless = Bench(
        [Migration(each.number, each.name, text) for text, each in zip(texts, shipped_migrations(), strict=True)]
    )
    older, younger = careless.sessions[:2]
    fill_stream(careless.store, ONE, 1)
    older.execute("SELECT pg_current_xact_id()")
    for session, version in ((younger, 1), (older, 2)):
        append_by_hand(session, append_of(write_to(ONE, version)))
        session.commit()
    wait_for_transactions(careless.observer)
    with pytest.raises(Disorder):
        Follower(100).read_all(careless.store)
    assert any("is before the event that it follows" in fault for fault in careless.store.check())
    careless.close()


def test_positions_compare_as_each_process_was_told_of_its_events() -> None:
    url = fresh_url()
    with closing(PostgresStore(url)) as store:
        of_each = run_in_processes(4, append_shared_and_own, url)
        stored = [event.id for event in all_events(store)]
        positions = dict(zip(stored, positions_in_feed_order(store), strict=True))
        assert sorted(stored) == sorted(each for ids in of_each for each in ids)
        for ids in of_each:
            assert ids == sorted(ids, key=positions.__getitem__)
        assert_sound(store)


def test_what_was_rolled_back_is_never_shown_and_leaves_no_gap(bench: Bench) -> None:
    stream = session_stream(uuid.uuid4().hex)
    follower = Follower(2, bench.end)
    session = bench.sessions[0]
    for version in range(5):
        append_by_hand(session, append_of(write_to(stream, version, GONE, GONE)))
        follower.read(bench.store)
        session.rollback()
        bench.store.append(append_of(write_to(stream, version)))
    wait_for_transactions(bench.observer)
    follower.read_all(bench.store)
    assert follower.seqs[stream] == 5


# Cursors


@pytest.mark.parametrize(("before", "after"), [(0, 0), (3, 0), (0, 3), (3, 3)])
def test_a_cursor_of_another_store_is_refused(before: int, after: int) -> None:
    """Also if it lies among our own: what it stands for was not read here."""
    ours, theirs = PostgresStore(fresh_url()), PostgresStore(fresh_url())
    fill_stream(ours, ONE, before)
    fill_stream(theirs, ONE, 2)
    fill_stream(ours, TWO, after)
    foreign = theirs.feed(limit=10).cursor
    with pytest.raises(InvalidCursor):
        ours.feed(foreign, limit=10)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("cursor", ["1.2", "1..2", "1.2.3.4", "-1.2.3", "1.2.3 ", "2147483648.1.1", "1.1.1", "9.9.9"])
def test_what_was_never_a_cursor_is_refused(bench: Bench, cursor: str) -> None:
    fill_stream(bench.store, session_stream(uuid.uuid4().hex), 2)
    with pytest.raises(InvalidCursor):
        bench.store.feed(cursor, limit=5)


# Restored elsewhere


FEWER = 1_000_000_000


def restore(url: str, *followers: Follower) -> None:
    """As into a server that has seen so many transactions fewer: seen from there, what is stored lies far ahead."""
    with connect_raw(url) as connection:
        connection.execute("SELECT set_config('holdfast.every_tenant', 'on', false)")
        for table in ("events", "streams"):
            connection.execute(f"UPDATE {table} SET xid = ((xid::text::bigint + {FEWER})::text)::xid8")
    for follower in followers:
        era, xid, position = follower.cursor.split(".")
        follower.cursor = f"{era}.{int(xid) + FEWER}.{position}"


def era_of(connection: RawConnection) -> int:
    ((era,),) = connection.execute("SELECT era FROM store").fetchall()
    assert isinstance(era, int)
    return era


def test_a_store_restored_into_a_younger_server_goes_on_in_order() -> None:
    url = fresh_url()
    halfway, all_along = Follower(3), Follower(3)
    for era in (1, 2, 3):
        store = PostgresStore(url)
        fill_stream(store, ONE, 4)
        store.append(append_of(write_to(TWO, era - 1), write_to(session_stream(f"new in {era}"), 0)))
        with connect_raw(url) as observer:
            wait_for_transactions(observer)
            assert era_of(observer) == era
        halfway.read(store)
        all_along.read_all(store)
        assert all_along.count == era * 6
        late = Follower(100)
        late.read_all(store)
        assert late.order == all_along.order
        assert_sound(store)
        store.close()
        restore(url, halfway, all_along)
    store = PostgresStore(url)
    halfway.read_all(store)
    assert (halfway.order, halfway.count) == (all_along.order, 18)
    store.close()


@pytest.fixture(scope="module")
def roles() -> Iterator[Roles]:
    with create_roles() as roles:
        yield roles


def test_a_restored_store_is_not_written_to_behind_its_followers_backs(roles: Roles) -> None:
    """Whoever comes first: also a role that sees one tenant only."""
    owners = PostgresStore(roles.url())
    url = roles.let_in(owners.url)
    fill_stream(owners, ONE, 3)
    follower = Follower(10)
    follower.read_all(owners)
    owners.close()
    restore(owners.url, follower)
    application = PostgresStore(url)
    fill_stream(application, TWO, 1)
    fill_stream(application, ONE, 1)
    application.close()
    owners = PostgresStore(owners.url)
    follower.read_all(owners)
    assert follower.seqs == {ONE: 4, TWO: 1}
    owners.close()


def test_owners_who_open_a_restored_store_at_once_begin_one_era() -> None:
    store = PostgresStore(fresh_url())
    fill_stream(store, ONE, 1)
    restore(store.url)
    with connect_raw(store.url, autocommit=False) as holder, ThreadPoolExecutor(2) as pool:
        holder.execute("SELECT 1 FROM store FOR UPDATE")
        opening = [pool.submit(PostgresStore, store.url) for _ in range(2)]
        wait_until_blocked(holder, 2)
        holder.commit()
        for opened in opening:
            opened.result().close()
        assert era_of(holder) == 2
    store.close()
