"""Tenants on PostgreSQL are kept apart twice: by every statement, and by the database whatever a statement forgets."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql

import holdfast
from holdfast import errors
from holdfast.model.content import BlobRef
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import Snapshot
from holdfast.model.rows import (
    BY_KEY,
    TABLES,
    ChunkRow,
    ColumnValues,
    DependRow,
    EntryRow,
    FactRow,
    FrameRow,
    HandleRow,
    LedgerRow,
    MentionRow,
    OutboxRow,
    PageRow,
    Row,
    RowOrder,
    SessionRow,
    TokenRow,
)
from holdfast.runtime.engine import Engine
from holdfast.storage.postgres import log, passages
from holdfast.storage.postgres.blobs import PostgresBlobs
from holdfast.storage.postgres.log import SQL
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.sql import SqlDialect, select_rows
from holdfast.testing.appends import (
    LOOKALIKES,
    append_of,
    fact_row,
    frame_row,
    handle_row,
    ledger_stream,
    page_row,
    rows_of_every_table,
    session_stream,
    token_row,
    write_to,
)
from tests.conformance.postgres_tools import RawConnection, Roles, connect_raw, create_roles, exercise_tenant, schema_of
from tests.postgres import base_url, fresh_url

NOT_A_TENANTS = {"store", "migrations"}
"""Tables that hold nothing of any tenant."""

TENANT_TABLES = (
    "streams", "events", "keys", "snapshots", *(table.table for table in TABLES), "fact_words", "passage_shelves",
    "passages", "passages_taken", "passages_draft", "passage_words", "passage_drafts",
    "passage_marks", "passage_vectors", "deliveries", "bodies", "pieces", "blobs",
)  # fmt: skip


class Place(NamedTuple):
    """A store with the work of two tenants, `a` and `b`, as its owner and as the application open it."""

    owner: str
    application: str
    roles: Roles


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with create_roles() as roles:
        url = roles.url()
        with holdfast.open(url) as engine:
            for tenant in ("a", "b"):
                exercise_tenant(engine.acting_as(tenant=tenant))
        yield Place(url, roles.let_in(url), roles)


# The application's role


@pytest.mark.parametrize("tenant", ["here", "there"])
def test_a_role_that_owns_nothing_does_all_of_a_tenants_work(place: Place, tenant: str) -> None:
    """In its own name, and acting as another tenant."""
    with holdfast.open(place.application, tenant="here") as engine:
        exercise_tenant(engine if tenant == "here" else engine.acting_as(tenant=tenant))
    with holdfast.open(place.owner) as engine:
        report = engine.admin.verify()
        assert report.ok, report.problems


async def all_of_a_tenants_work_awaited(url: str) -> None:
    engine = await holdfast.open_async(url, tenant="awaited")
    session = await engine.create_session("trip")
    await session.record("user", "Where to?", key="ask")
    await session.record("user", "Where to?", key="ask")
    assert len(await engine.sessions()) == 1
    with pytest.raises(errors.RoleTooNarrow):
        await engine.admin.feed()
    await engine.close()


def test_the_same_holds_for_an_event_loop(place: Place) -> None:
    asyncio.run(all_of_a_tenants_work_awaited(place.application))


CARE: dict[str, Callable[[Engine, Path], object]] = {
    "feed": lambda engine, _: engine.admin.feed(),
    "verify": lambda engine, _: engine.admin.verify(),
    "totals": lambda engine, _: engine.admin.totals(),
    "export": lambda engine, folder: engine.admin.export(folder / "all.jsonl"),
    "rebuild": lambda engine, _: engine.admin.rebuild(),
    "collect_blobs": lambda engine, _: engine.admin.collect(),
    "heads": lambda engine, _: engine.store.heads(limit=10),
    "check": lambda engine, _: engine.store.check(),
    "rows of all": lambda engine, _: engine.store.rows(SessionRow, {}, limit=10),
    "rows of ledgers": lambda engine, _: engine.store.rows(FactRow, {"ledger": '["user","ada"]'}, limit=10),
    "rows of an actor": lambda engine, _: engine.store.rows(SessionRow, {"actor": "ada"}, limit=10),
    "stored blobs": lambda engine, _: list(engine._blob_store.stored()),
    "sweep of blobs": lambda engine, _: engine._blob_store.sweep(before_s=0),
}


@pytest.mark.parametrize("name", CARE)
def test_what_concerns_all_tenants_is_refused_to_a_role_that_sees_one(place: Place, name: str, tmp_path: Path) -> None:
    """An empty answer would say that all is well."""
    with holdfast.open(place.application, tenant="a") as engine, pytest.raises(errors.RoleTooNarrow) as refused:
        CARE[name](engine, tmp_path)
    assert refused.value.role == place.roles.application
    assert not list(tmp_path.iterdir())
    with holdfast.open(place.owner, tenant="a") as engine:
        CARE[name](engine, tmp_path)


def test_who_got_the_tables_from_another_is_not_told_that_there_is_nothing() -> None:
    """As after a restore without the owners' names: the policies still name whoever made them."""
    with create_roles() as before, create_roles() as after:
        url = before.url()
        with holdfast.open(url) as engine:
            engine.create_session("trip")
        with psycopg.connect(base_url(), autocommit=True) as superuser:
            names = map(sql.Identifier, (before.owner, after.owner))
            superuser.execute(sql.SQL("REASSIGN OWNED BY {} TO {}").format(*names))
        with closing(PostgresStore(url.replace(before.owner, after.owner))) as store:
            try:
                seen = len(store.heads(limit=10))
            except errors.RoleTooNarrow:
                seen = 1
            assert seen == 1


# The database alone


def test_every_table_of_a_tenant_is_guarded() -> None:
    store = PostgresStore(fresh_url())
    with connect_raw(store.url) as connection:
        found = connection.execute(
            "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,"
            "       EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant'),"
            "       ARRAY(SELECT p.polname::text FROM pg_policy p WHERE p.polrelid = c.oid ORDER BY 1)"
            "FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace"
            "  AND c.relkind NOT IN ('i', 'S', 't', 'I')"
        ).fetchall()
        defining = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosecdef"
            "  AND NOT coalesce(proconfig::text LIKE '%%search_path%%', false)"
        ).fetchall()
    store.close()
    assert {name for name, _, of_tenants, _ in found if not of_tenants} == NOT_A_TENANTS
    guarded = {name: (forced, policies) for name, forced, of_tenants, policies in found if of_tenants}
    assert guarded == dict.fromkeys(TENANT_TABLES, (True, ["maintenance", "tenant_alone"]))
    assert not defining, "who runs as another must not be led astray by a search_path"


@pytest.fixture
def session(place: Place) -> Iterator[RawConnection]:
    """A raw session of the application's role; what it does is undone."""
    with connect_raw(place.application, autocommit=False) as connection:
        yield connection
        connection.rollback()


def act_for(session: RawConnection, tenant: str) -> None:
    session.execute(SQL["act_for"], (tenant,))


def tenants_in(session: RawConnection, table: str) -> set[str]:
    return {tenant for (tenant,) in session.execute(f"SELECT DISTINCT tenant FROM {table}").fetchall()}


@pytest.mark.parametrize("table", TENANT_TABLES)
def test_a_statement_without_a_predicate_reaches_one_tenant(place: Place, session: RawConnection, table: str) -> None:
    with connect_raw(place.owner) as owner:
        owner.execute("SELECT set_config('holdfast.every_tenant', 'on', false)")
        assert {"a", "b"} <= tenants_in(owner, table)
        ((of_a,),) = owner.execute(f"SELECT count(*) FROM {table} WHERE tenant = 'a'").fetchall()
    act_for(session, "a")
    assert tenants_in(session, table) == {"a"}
    assert session.execute(f"UPDATE {table} SET tenant = tenant").rowcount == of_a
    assert session.execute(f"DELETE FROM {table}").rowcount == of_a
    act_for(session, "b")
    assert tenants_in(session, table) == {"b"}


@pytest.mark.parametrize("table", TENANT_TABLES)
@pytest.mark.parametrize("change", ["INSERT", "UPDATE"])
def test_a_row_cannot_be_given_to_another_tenant(session: RawConnection, table: str, change: str) -> None:
    act_for(session, "a")
    columns = ", ".join(
        "'b'" if name == "tenant" else name
        for (name,) in session.execute(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
            (table,),
        ).fetchall()
    )
    statement = {
        "INSERT": f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT {columns} FROM {table}",
        "UPDATE": f"UPDATE {table} SET tenant = 'b'",
    }
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        session.execute(statement[change])


@pytest.mark.parametrize("table", TENANT_TABLES)
@pytest.mark.parametrize("used", [False, True], ids=["never set", "set before"])
@pytest.mark.parametrize("every", [False, True], ids=["", "asked for all"])
def test_without_a_tenant_there_is_nothing(session: RawConnection, table: str, used: bool, every: bool) -> None:
    if used:
        act_for(session, "a")
        session.rollback()
    if every:
        session.execute("SELECT act_for(NULL)")
    assert tenants_in(session, table) == set()
    for statement in (f"UPDATE {table} SET tenant = tenant", f"DELETE FROM {table}"):
        assert session.execute(statement).rowcount == 0


@pytest.mark.parametrize("tenant", ["a", ""])
def test_without_a_tenant_nothing_can_be_written(session: RawConnection, tenant: str) -> None:
    act_for(session, "a")
    session.rollback()  # from now on the setting is empty, not absent
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        session.execute("INSERT INTO bodies (tenant, begun_s) VALUES (%s, 0)", (tenant,))


TENANTS_PREDICATE = re.compile(r"\b(?:\w+\.)?tenant = (?:%b|\w+\.tenant)|s\.tenant = k\.tenant")

STREAM = ("b", "session", '["ada","trip"]')
FORGETFUL: dict[str, tuple[Any, ...]] = {
    "head": STREAM,
    "read": (*STREAM, "b", 0, 10),
    "read_back": (*STREAM, "b", 10, 10),
    "read_back_types": (*STREAM, "b", 10, ["message.recorded"], 10),
    "positions": (*STREAM, "b", [1, 2]),
    "find": ("b", "ask"),
    "snapshot": ("b", "session", '["ada","many"]'),
}


@pytest.mark.parametrize("name", FORGETFUL)
def test_a_statement_that_forgets_the_tenant_answers_for_one_alone(session: RawConnection, name: str) -> None:
    """What it finds under `a` is what the whole statement finds for `a`, though it was asked for `b`."""
    forgetful = TENANTS_PREDICATE.sub(lambda found: "%b::text IS NOT NULL" if "%b" in found[0] else "TRUE", SQL[name])
    assert "tenant =" not in forgetful
    values = FORGETFUL[name]
    act_for(session, "a")
    as_a = tuple("a" if value == "b" else value for value in values)
    whole = session.execute(SQL[name], as_a, binary=True).fetchall()
    assert whole
    assert session.execute(forgetful, values, binary=True).fetchall() == whole
    assert session.execute(SQL[name], values, binary=True).fetchall() == []


def test_an_append_for_one_tenant_cannot_write_to_another(session: RawConnection) -> None:
    """Though it says that it acts for the one, what it carries is the other's."""
    for stream in (session_stream("trip", actor="ada", tenant="b"), session_stream("new", tenant="b")):
        operation = log.append_alone(append_of(write_to(stream, 0)), lost=False)
        next(operation)
        ask = operation.send([])
        values = ["a", *ask.values[1:]]
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            session.execute(ask.statement, values, binary=True)
        session.rollback()


# The statements alone


@pytest.mark.parametrize(("one", "other"), [*LOOKALIKES, *((b, a) for a, b in LOOKALIKES)])
def test_a_superuser_too_gets_only_what_is_the_tenants(lookalikes: PostgresStore, one: str, other: str) -> None:
    """Nothing that the database guards holds for it, so the statements must."""
    store, blobs = lookalikes, PostgresBlobs(lookalikes)
    stream, others = session_stream(tenant=one), session_stream(tenant=other)
    mine = marked(one)
    assert store.head(stream) != store.head(others)
    assert [event.payload for event in store.read(stream, limit=10)] == [mine, mine]
    assert [event.payload for event in store.read_back(stream, limit=10)] == [mine, mine]
    assert [event.payload for event in store.read_back(stream, limit=10, types=["noted"])] == [mine, mine]
    assert all(store.positions(stream, (1, 2)))
    assert not {*store.positions(stream, (1, 2))} & {*store.positions(others, (1, 2))}
    assert [event.payload for event in store.find(one, "key")] == [mine]
    assert store.find(one, f"only {other}") == ()
    assert store.snapshot(stream) == Snapshot(2, 1, mine)
    for row in (*rows_of_every_table(stream), *rows_of_every_table(ledger_stream(tenant=one))):
        assert store.rows(type(row), {"tenant": one}, limit=10) == (row,)
    asked = FactQuery(tenant=one, ledgers=('["user","l"]',), words=("number", "subject"))
    assert [row.tenant for row, _ in store.search(asked)] == [one]
    assert read(blobs, one, BlobRef(*digest_of(mine))) == mine
    with pytest.raises(errors.BlobNotFound):
        read(blobs, one, BlobRef(*digest_of(marked(other))))
    assert not blobs.drop(one, digest_of(mine)[0], unless_put_after_s=0)
    blobs.drop(one, digest_of(marked(other))[0], unless_put_after_s=1e12)
    assert read(blobs, other, BlobRef(*digest_of(marked(other)))) == marked(other)


def marked(tenant: str) -> bytes:
    return b'{"of":"%s"}' % tenant.encode().hex().encode()


def digest_of(body: bytes) -> tuple[str, int]:
    return hashlib.sha256(body).hexdigest(), len(body)


def read(blobs: PostgresBlobs, tenant: str, ref: BlobRef) -> bytes:
    return b"".join(blobs.chunks(tenant, ref))


@pytest.fixture(scope="module")
def lookalikes() -> Iterator[PostgresStore]:
    """The same names in every tenant, and other content."""
    store = PostgresStore(fresh_url())
    blobs = PostgresBlobs(store)
    for tenant in {name for pair in LOOKALIKES for name in pair}:
        stream, mine = session_stream(tenant=tenant), marked(tenant)
        store.append(append_of(write_to(stream, 0, mine, rows=rows_of_every_table(stream)), key="key"))
        store.append(append_of(write_to(stream, 1, mine, snapshot=Snapshot(2, 1, mine)), key=f"only {tenant}"))
        ledger = ledger_stream(tenant=tenant)
        store.append(append_of(write_to(ledger, 0, mine, rows=rows_of_every_table(ledger))))
        writer = blobs.writer(tenant)
        writer.write(mine)
        writer.commit()
    with connect_raw(store.url) as connection:
        assert connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (True,)
    yield store
    store.close()


# Plans


MANY = """
INSERT INTO streams (tenant, kind, key, version, hash, era, xid)
SELECT CASE WHEN n % 4 = 0 THEN 'a' ELSE 'b' END, 'session', '["ada","' || n || '"]',
       CASE n WHEN 4000 THEN 20000 ELSE 5 END, '', 1, '3'
FROM generate_series(1, 8000) n;

INSERT INTO events (era, xid, tenant, stream_no, seq, command, ordinal, type, version, time_us, principal, key,
                    command_digest, payload_digest, hash)
SELECT 1, '3', s.tenant, s.stream_no, seq, '', 0, 'noted', 1, 1, 'p', s.stream_no || '/' || seq, '', '', ''
FROM streams s, generate_series(1, s.version) seq;

INSERT INTO keys (tenant, key, part, stream_no, first, last)
SELECT tenant, key, 0, stream_no, seq, seq FROM events;

INSERT INTO snapshots (stream_no, tenant, version, format, state) SELECT stream_no, tenant, 5, 1, '' FROM streams;

INSERT INTO session_rows
SELECT stream_no, tenant, 'ada', (key::jsonb) ->> 1, '', 'open', 5, 5, 5, 0, 0, 0, 0, 1, stream_no, NULL, 0, 0 FROM streams;

INSERT INTO outbox_rows
SELECT stream_no, tenant, actor, session, '', 1, 'reset', 1, 5, 1, (stream_no % 50 > 0)::int FROM session_rows;

INSERT INTO frame_rows
SELECT s.stream_no, s.tenant, 'ada', s.session, '', n, n - n % 50,
       CASE WHEN n % 100 = 0 THEN 'failed' WHEN n % 200 > 0 THEN 'completed' END, CASE WHEN n % 200 = 0 THEN n END, '{}'
FROM session_rows s, generate_series(1, CASE s.session WHEN '4000' THEN 6000 ELSE 2 END) n
WHERE s.session = '4000' OR s.stream_no % 10 = 0;

INSERT INTO handle_rows
SELECT stream_no, tenant, actor, session, thread, frame, frame - frame % 1000, 'source ' || frame, '', '{}' FROM frame_rows;

INSERT INTO page_rows
SELECT stream_no, tenant, actor, session, thread, frame / 2, frame % 2, frame - frame % 1000,
       CASE WHEN frame % 50 = 0 THEN 'resident' ELSE 'paged_out' END, '{}'
FROM frame_rows;

INSERT INTO entry_rows
SELECT stream_no, tenant, actor, session, thread, 'entry ' || frame,
       CASE WHEN frame % 3 = 0 THEN 'write' ELSE 'checkpoint' END,
       'entry ' || frame / 2, frame, 1, 1, md5(session || frame), ''
FROM frame_rows;

INSERT INTO chunk_rows
SELECT stream_no, tenant, actor, session, thread, md5(session || frame), frame, 0 FROM frame_rows;

INSERT INTO token_rows
SELECT stream_no, tenant, actor, session, thread, frame, md5(session || frame), 'live', (frame % 20 = 0)::int, '{}'
FROM frame_rows;

INSERT INTO streams (tenant, kind, key, version, hash, era, xid)
SELECT CASE WHEN n % 4 = 0 THEN 'a' ELSE 'b' END, 'ledger', '["user","' || n || '"]', 5, '', 1, '3'
FROM generate_series(1, 800) n;

INSERT INTO ledger_rows
SELECT stream_no, tenant, key, CASE WHEN stream_no % 3 = 0 THEN 'project' ELSE 'user' END, 5, 5, 1, 1 FROM streams
WHERE kind = 'ledger';

INSERT INTO fact_rows
SELECT l.stream_no, l.tenant, l.ledger, n, CASE WHEN n % 2 = 0 THEN 'one' ELSE 'key ' || n END, 'global',
       CASE WHEN n % 3 = 0 THEN '7' ELSE '' END, CASE WHEN n % 50 = 0 THEN 'ref' ELSE '' END, (n % 20 = 0)::int, 0,
       (n % 1000 = 0)::int, (n % 1000 = 0)::int, CASE WHEN n % 200 = 0 THEN n END, '', 'subject',
       CASE WHEN n % 50 = 0 THEN 'rare' ELSE 'common' END, '{}', 'word' || n % 2000
FROM ledger_rows l, generate_series(1, CASE l.ledger WHEN '["user","400"]' THEN 6000 ELSE 5 END) n;

INSERT INTO depend_rows SELECT stream_no, tenant, ledger, fact - fact % 50, fact, 1 FROM fact_rows;

INSERT INTO mention_rows
SELECT stream_no, tenant, ledger, fact, 'ada', '4000', '', fact / 2, 0, 1, (fact % 50 = 0)::int FROM fact_rows
WHERE ledger = '["user","400"]';
"""
"""Short streams and a long one; small ledgers and a large one."""

LONG = ("a", "session", '["ada","4000"]')
LARGE: dict[str, tuple[Any, ...]] = {
    "head": LONG,
    "heads_of": (["a"] * 3, ["session"] * 3, ['["ada","4"]', '["ada","8"]', '["ada","12"]']),
    "read": (*LONG, "a", 0, 100),
    "read_back": (*LONG, "a", 1 << 53, 100),
    "read_back_types": (*LONG, "a", 1 << 53, ["noted"], 100),
    "positions": (*LONG, "a", list(range(1, 20_000, 60))),
    "find": ("a", "4000/1"),
    "snapshot": LONG,
    "feed": (1, "3", 20_000, 100),
    "at_cursor": (1, "3", 20_000),
    "heads": (100,),
    "heads_after": (*LONG, 100),
}
FOR_OWNERS = {"feed", "at_cursor", "heads", "heads_after"}
A_FEW = 400
"""Rows that a statement may look at where it asks for a hundred."""
BIG = {"streams", "events", "keys", "snapshots", "fact_words", *(table.table for table in TABLES)}


def looked_up(
    table: type[Row],
    where: Mapping[str, str | int],
    after: Row | None = None,
    *,
    order: RowOrder = BY_KEY,
    most: Mapping[str, int] = MappingProxyType({}),
    among: ColumnValues = MappingProxyType({}),
) -> tuple[str, tuple[Any, ...]]:
    query = select_rows(
        table, where, after, 100, order, {}, most, among, SqlDialect("%b", in_a_list, log.DIALECT.unnest)
    )
    assert query is not None
    return query[0], tuple(query[1])


def in_a_list(column: str, values: Sequence[str | int]) -> tuple[str, Any]:
    """As the store says it, but for the packing."""
    return log.DIALECT.among(column, values)[0], list(values)


SCOPE: Mapping[str, str | int] = {"tenant": "a", "actor": "ada", "session": "4000", "thread": ""}
IN_SCOPE = session_stream("4000", actor="ada", tenant="a")
MIDDLE = frame_row(IN_SCOPE, 3_000)
MIDDLE_HANDLE = handle_row(IN_SCOPE, 3_500)
NEWEST_FIRST = RowOrder(("seq",), backwards=True)
MIDDLE_PAGE = page_row(IN_SCOPE, 1_750)
MIDDLE_TOKEN = token_row(IN_SCOPE, "~", 3_000)
EARLY_TOKEN = token_row(session_stream("4000", actor="a", tenant="a"), "~")
BACKWARDS, SOONEST = RowOrder(backwards=True), RowOrder(("deadline_us",))
DUE: Mapping[str, str | int] = {"tenant": "a"}
HOME: Mapping[str, str | int] = {"tenant": "a", "ledger": '["user","400"]'}
BROUGHT_BACK: Mapping[str, str | int] = {**SCOPE, "frame": 3_000, "residency": "resident"}
GLOBAL: Mapping[str, str | int] = {"scope": "global", "scope_id": ""}
SLOT: Mapping[str, str | int] = {**HOME, "subject": "one", **GLOBAL}
MIDDLE_FACT = fact_row(ledger_stream("400", tenant="a"), 3_000)
EXPIRY = RowOrder(("expires_us",))
TOLD = [[f"word{number}" for number in range(1_998, 1_998 + many)] for many in (3, 300, 3_000)]
"""Words of a text, few of which are of facts."""
KEYS = [f"key {number}" for number in range(1, 100, 2)]


def searched(*words: str) -> tuple[str, tuple[Any, ...]]:
    asked = next(log.search(FactQuery(tenant="a", ledgers=('["user","400"]', '["user","4"]'), words=words)))
    values = list(asked.values)
    values[2] = ['["user","400"]', '["user","4"]']
    values[9], values[10] = ["global"], [""]
    return asked.statement, tuple(values)


STATEMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    **{name: (SQL[name], values) for name, values in LARGE.items()},
    "a session": looked_up(SessionRow, {"tenant": "a", "actor": "ada", "session": "4000", "thread": ""}),
    "sessions by name": looked_up(SessionRow, {"tenant": "a", "actor": "ada"}),
    "the outbox": looked_up(OutboxRow, {"tenant": "a", "done": 0}),
    "frames": looked_up(FrameRow, SCOPE, MIDDLE),
    "a frame": looked_up(FrameRow, {**SCOPE, "frame": 3_000}),
    "frames below one": looked_up(FrameRow, {**SCOPE, "parent": 3_000}),
    "more frames below one": looked_up(FrameRow, {**SCOPE, "parent": 3_000}, MIDDLE),
    "frames that failed": looked_up(FrameRow, {**SCOPE, "ended": "failed"}),
    "more frames that failed": looked_up(FrameRow, {**SCOPE, "ended": "failed"}, MIDDLE),
    "frames out of time": looked_up(FrameRow, DUE, order=SOONEST, most={"deadline_us": 1_000}),
    "a handle": looked_up(HandleRow, {**SCOPE, "handle": 3_000}),
    "handles": looked_up(HandleRow, {**SCOPE, "frame": 3_000}),
    "handles backwards": looked_up(HandleRow, {**SCOPE, "frame": 3_000}, order=BACKWARDS),
    "more handles": looked_up(HandleRow, {**SCOPE, "frame": 3_000}, MIDDLE_HANDLE),
    "more handles backwards": looked_up(HandleRow, {**SCOPE, "frame": 3_000}, MIDDLE_HANDLE, order=BACKWARDS),
    "handles from a source": looked_up(HandleRow, {**SCOPE, "frame": 3_000, "source": "source 3500"}),
    "an entry": looked_up(EntryRow, {**SCOPE, "entry": "entry 3000"}),
    "some entries": looked_up(EntryRow, SCOPE, among={"entry": ["entry 3000", "entry 3001"]}),
    "entries": looked_up(EntryRow, SCOPE, order=NEWEST_FIRST),
    "entries before one": looked_up(EntryRow, SCOPE, order=NEWEST_FIRST, most={"seq": 3_000}),
    "entries of a kind": looked_up(EntryRow, {**SCOPE, "kind": "write"}, order=NEWEST_FIRST, most={"seq": 3_000}),
    "entries with a parent": looked_up(EntryRow, {**SCOPE, "parent": "entry 300"}, order=NEWEST_FIRST),
    "chunks": looked_up(ChunkRow, SCOPE, among={"digest": ["a", "b"]}),
    "pages": looked_up(PageRow, SCOPE, MIDDLE_PAGE),
    "pages backwards": looked_up(PageRow, SCOPE, MIDDLE_PAGE, order=BACKWARDS),
    "pages of a message": looked_up(PageRow, {**SCOPE, "message": 1_750}),
    "pages of some messages": looked_up(PageRow, SCOPE, order=BACKWARDS, most={"message": 1_750}),
    "what was brought back in a frame": looked_up(PageRow, BROUGHT_BACK, order=BACKWARDS),
    "more of what was brought back in a frame": looked_up(PageRow, BROUGHT_BACK, MIDDLE_PAGE, order=BACKWARDS),
    "a token": looked_up(TokenRow, {"tenant": "a", "digest": "d"}),
    "tokens of a frame": looked_up(TokenRow, {**SCOPE, "frame": 3_000}),
    "what is suspended": looked_up(TokenRow, {"tenant": "a", "suspended": 1}),
    "more of what is suspended": looked_up(TokenRow, {"tenant": "a", "suspended": 1}, EARLY_TOKEN),
    "what is suspended in a session": looked_up(TokenRow, {**SCOPE, "suspended": 1}, MIDDLE_TOKEN),
    "ledgers": looked_up(LedgerRow, {"tenant": "a"}),
    "ledgers of a kind": looked_up(LedgerRow, {"tenant": "a", "kind": "project"}),
    "a fact": looked_up(FactRow, {**HOME, "fact": 3_000}),
    "live facts of a slot": looked_up(FactRow, {**SLOT, "live": 1}, order=BACKWARDS),
    "dead facts of a slot": looked_up(FactRow, {**SLOT, "live": 0}, order=BACKWARDS),
    "more dead facts of a slot": looked_up(FactRow, {**SLOT, "live": 0}, MIDDLE_FACT, order=BACKWARDS),
    "a key's history": looked_up(FactRow, {**HOME, "subject": "one"}, order=BACKWARDS),
    "live facts of a key": looked_up(FactRow, {**HOME, "subject": "one", "live": 1}, order=BACKWARDS),
    "live facts of a name outside": looked_up(FactRow, {**HOME, "ref": "ref", "live": 1}, order=BACKWARDS),
    "dead facts of a name outside": looked_up(FactRow, {**HOME, "ref": "ref", "live": 0}, order=BACKWARDS),
    "live facts": looked_up(FactRow, {**HOME, "live": 1}),
    "more live facts": looked_up(FactRow, {**HOME, "live": 1}, MIDDLE_FACT),
    "dead facts": looked_up(FactRow, {**HOME, "live": 0}),
    "live facts of a scope": looked_up(FactRow, {**HOME, "live": 1, "claim": 0, **GLOBAL}, order=BACKWARDS),
    "facts in review": looked_up(FactRow, {**HOME, "review": 1}),
    "a tenant's facts in review": looked_up(FactRow, {"tenant": "a", "review": 1}),
    "constraints": looked_up(FactRow, {**HOME, "constrains": 1}),
    "facts run out": looked_up(FactRow, {"tenant": "a", "live": 1}, order=EXPIRY, most={"expires_us": 9_000}),
    "a ledger's facts run out": looked_up(FactRow, {**HOME, "live": 1}, order=EXPIRY, most={"expires_us": 9_000}),
    "what depends on a fact": looked_up(DependRow, {**HOME, "source": 3_000, "live": 1}),
    "dead facts in a session": looked_up(
        MentionRow, {**SCOPE, "live": 0}, order=RowOrder(("seq",)), most={"seq": 1_500}
    ),
    "a search": searched("rare"),
    **{
        f"facts by {len(words)} words": looked_up(FactRow, HOME, order=BACKWARDS, among={"anchor": words})
        for words in TOLD
    },
    "dead facts by words": looked_up(FactRow, {**HOME, "live": 0}, order=BACKWARDS, among={"anchor": TOLD[1]}),
    "live facts of keys": looked_up(FactRow, {**HOME, "live": 1}, order=BACKWARDS, among={"subject": KEYS}),
    "facts by their ids": looked_up(FactRow, HOME, among={"fact": [7, 70, 700]}),
    "ledgers by their names": looked_up(
        LedgerRow, {"tenant": "a"}, among={"ledger": ['["user","400"]', '["user","4"]']}
    ),
}
AMONG = {name for name, (statement, _) in STATEMENTS.items() if "unnest" in statement} - LARGE.keys() - {"a search"}
"""What is looked up value by value, and put in order afterwards."""


@pytest.fixture(scope="module")
def large(place: Place) -> Iterator[dict[str, RawConnection]]:
    """Sessions of the owner and of the application on a store with many rows."""
    url = place.roles.url()
    PostgresStore(url).close()
    application = place.roles.let_in(url)
    with psycopg.connect(base_url(), autocommit=True) as superuser:
        superuser.execute(sql.SQL("SET search_path = {}").format(schema_of(url)))
        superuser.execute(MANY)
        superuser.execute("ANALYZE")
    with connect_raw(url, autocommit=False) as of_owner, connect_raw(application, autocommit=False) as of_application:
        yield {"owner": of_owner, "application": of_application}


@pytest.mark.parametrize("how", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    ("role", "name"),
    [
        *(("owner", name) for name in STATEMENTS),
        *(("application", name) for name in STATEMENTS if name not in FOR_OWNERS),
    ],
)
def test_a_statement_finds_its_rows_by_an_index(
    large: dict[str, RawConnection], role: str, name: str, how: str
) -> None:
    """Also behind the policies, which keep anything that might leak from being looked at before them."""
    session = large[role]
    session.execute(f"SET LOCAL plan_cache_mode = {how}")
    session.execute("SELECT act_for(%s)", (None if name in FOR_OWNERS else "a",))
    statement, values = STATEMENTS[name]
    for number in range(len(values)):
        statement = statement.replace("%b", f"${number + 1}", 1)
    session.execute(sql.SQL("PREPARE asked AS {}").format(sql.SQL(statement)))
    given = sql.SQL(", ").join(map(sql.Literal, values))
    explain = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE asked ({})").format(given)
    (((plan,),),) = session.execute(explain).fetchall()
    session.rollback()
    session.execute("DEALLOCATE asked")
    scanned = {node["Relation Name"] for node in nodes(plan["Plan"]) if node["Node Type"] == "Seq Scan"}
    assert not scanned & BIG, plan
    if name not in LARGE and name != "a search":
        kinds = {node["Node Type"] for node in nodes(plan["Plan"])}
        joined = {"Function Scan", "Nested Loop", "Sort"} if name in AMONG else set()
        assert kinds <= {"Limit", "Result", "Index Scan", "Index Only Scan"} | joined, plan
    for node in nodes(plan["Plan"]):
        looked_at = node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0)
        assert looked_at <= A_FEW or node["Node Type"] == "Function Scan", plan


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
def test_rows_are_forgotten_by_their_stream(large: dict[str, RawConnection], table: type[Row]) -> None:
    session = large["owner"]
    session.execute("SELECT act_for(%s)", ("a",))
    explain = f"EXPLAIN (FORMAT JSON) DELETE FROM {table.table} WHERE stream_no = ANY (%s::bigint[])"
    (((plan,),),) = session.execute(explain, ([3],)).fetchall()
    session.rollback()
    assert f"{table.table}_by_stream" in {node.get("Index Name") for node in nodes(plan["Plan"])}, plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


# Secrets


SECRET = "hunter2-and-more"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:{}@/postgres?host=/nowhere",
        "postgresql://ada:{}@127.0.0.1:1/postgres",
        "postgresql://ada@127.0.0.1:1/postgres?password={}",
        "postgresql://ada:{}@/postgres?host=/nowhere&schema=No%20Name",
        "postgresql://ada:{}@/postgres?host=/nowhere&pool=many",
        "postgresql://ada:{}@/postgres?host=/nowhere&colour=red",
        "postgresql://ada@/postgres?host=/nowhere&password={}&pool=0",
        "postgresql://ada@/postgres?host=/nowhere&sslpassword={}&pool=0",
        "postgresql://ada:{}%zz@/postgres?host=/nowhere",
        "postgresql://ada:at@{}@/postgres?host=/nowhere&pool=0",
        "postgresql://ada:slash/{}@/postgres?host=/nowhere&pool=0",
        "postgresql://ada:slash/{}@/postgres?host=/nowhere",
    ],
)
def test_a_password_is_in_no_error(url: str) -> None:
    with pytest.raises(errors.HoldfastError) as refused:
        holdfast.open(url.format(SECRET))
    error: BaseException | None = refused.value
    while error is not None:
        assert SECRET not in f"{error} {error!r} {error.args}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert SECRET not in str(vars(refused.value))


def test_a_password_is_in_no_representation() -> None:
    url = f"{fresh_url()}&password={SECRET}"
    with holdfast.open(url) as engine:
        assert isinstance(engine.store, PostgresStore)
        for each in (engine, engine.store, engine._blob_store, engine.store.role_status, engine.store.address):
            assert SECRET not in f"{each} {each!r}"


PASSAGE_STATEMENTS: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "term_lists": (([1, 2], ["lion", "zebra"], "a", 5), "passage_words_pkey", "term"),
    "term_counts": (([1, 2], ["lion", "zebra"], "a", 5), "passage_words_pkey", "term"),
    "shelves": (("a", "ada", [1], "a", [1], "a", "a"), "passages_taken_by_key", "stream_no"),
    "draft_rows": (([1, 2], "a", ["lion"]), "passage_drafts_pkey", "shelf_no"),
    "passages_by_row": (([1, 2], "a", "a"), "passages_taken_by_row", "row_no"),
    "passages_by_key": (([1], [2], [0], "a", "a"), "passages_taken_by_key", "part"),
    "passages_by_place": ((["k"], [2], [3], "a", "a"), "passages_taken_by_key", "stream_no"),
    "newest_of_shelves": (([1], 0, 1 << 60, "a", 9, 0), "passages_taken_by_time", "time_us"),
    "vectors_of_shelf": ((1, 0, 1 << 60, 0, -1, "a", 9, "e", "a"), "passages_taken_by_time", "time_us"),
}
"""Statements for passages, with the index that each must use, and the column that it must look up there."""


@pytest.mark.parametrize("name", PASSAGE_STATEMENTS)
def test_passages_are_found_by_an_index_behind_the_policies(session: RawConnection, name: str) -> None:
    """As a role that owns nothing: a condition that might leak is not looked up in any index there."""
    values, index, column = PASSAGE_STATEMENTS[name]
    act_for(session, "a")
    statement = passages.SQL[name]
    for number in range(len(values)):
        statement = statement.replace("%b", f"${number + 1}", 1)
    session.execute(sql.SQL("PREPARE asked AS {}").format(sql.SQL(statement)))
    explain = sql.SQL("EXPLAIN (FORMAT JSON) EXECUTE asked ({})").format(sql.SQL(", ").join(map(sql.Literal, values)))
    (((plan,),),) = session.execute(explain).fetchall()
    session.rollback()
    session.execute("DEALLOCATE asked")
    found = [node.get("Index Cond", "") for node in nodes(plan["Plan"]) if node.get("Index Name") == index]
    assert any(column in condition for condition in found), plan
    assert not [node for node in nodes(plan["Plan"]) if node["Node Type"] == "Seq Scan"], plan
