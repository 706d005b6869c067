"""Schemas on PostgreSQL: made once by whoever comes first, extended under code that runs, and refused untouched where this
code has no business. On every version of PostgreSQL that is at hand.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing

import msgspec
import psycopg
import pytest
from psycopg import sql

import holdfast
from holdfast import codec, errors
from holdfast.model.facts.fact import FactQuery
from holdfast.model.rows import TABLES, ChunkRow, EntryRow, FactRow, PageRow, Row
from holdfast.storage.postgres import migrate
from holdfast.storage.postgres.connect import parse_address
from holdfast.storage.postgres.migrate import shipped_migrations
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.sql import Migration
from holdfast.testing.appends import (
    LEDGER,
    ONE,
    TWO,
    all_events,
    append_of,
    assert_sound,
    chunk_row,
    entry_row,
    fact_row,
    fill_stream,
    page_row,
    rows_of_every_table,
    write_to,
)
from holdfast.testing.contract_state import change_all_columns
from tests.conformance.postgres_tools import (
    connect_raw,
    create_roles,
    exercise_tenant,
    schema_of,
    wait_for_transactions,
)
from tests.conformance.postgres_workers import COUNTED, open_and_append, run_in_processes
from tests.crash.feed_worker import Follower
from tests.postgres import base_url, fresh_url
from tests.postgres_server import PostgresServer, find_installations

NEWEST = shipped_migrations()[-1].number


def expansion() -> Migration:
    """A column that old code does not know and new code fills, a table, and an index."""
    filled = (
        "ALTER FUNCTION put_rows(jsonb, bigint[]) RENAME TO put_rows_without_colour;\n"
        "CREATE FUNCTION put_rows(rows jsonb, numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM put_rows_without_colour(rows, numbers); "
        "UPDATE session_rows SET colour = 'red' WHERE stream_no = ANY (numbers); END $$;"
    )
    return Migration(
        9_001,
        "more",
        "ALTER TABLE session_rows ADD COLUMN colour text;\n"
        "CREATE TABLE colours (colour text PRIMARY KEY, shade text);\n"
        f"CREATE INDEX session_rows_by_colour ON session_rows (tenant, colour);\n{filled}",
    )


CONTRACTION = Migration(
    9_002, "less", "-- contract: nothing reads it any more\nALTER TABLE session_rows DROP COLUMN gone;"
)


def upgraded(url: str, *more: Migration) -> None:
    PostgresStore(url, migrations=[*shipped_migrations(), *more]).close()


def laid_out(url: str) -> list[tuple[object, ...]]:
    """Everything that a schema is made of, and how many rows are where."""
    with connect_raw(url) as connection:
        found = connection.execute(
            "SELECT c.relkind::text, c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), c.reltuples "
            "FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid "
            "WHERE c.relnamespace = to_regnamespace(%(schema)s) "
            "UNION ALL SELECT 'f', p.proname::text, md5(p.prosrc), p.proowner::regrole::text, 0 FROM pg_proc p "
            "WHERE p.pronamespace = to_regnamespace(%(schema)s) ORDER BY 1, 2, 3, 4",
            {"schema": parse_address(url).schema},
        ).fetchall()
        ledger = connection.execute("SELECT to_regclass('migrations')").fetchone() == ("migrations",)
        applied = connection.execute("SELECT * FROM migrations ORDER BY 1").fetchall() if ledger else []
    return [*found, *applied]


# Coming first


def test_ten_processes_make_a_new_schema_once() -> None:
    url = fresh_url()
    acknowledged = [each for ids in run_in_processes(10, open_and_append, url) for each in ids]
    with closing(PostgresStore(url)) as store:
        assert sorted(event.id for event in all_events(store)) == sorted(acknowledged)
        assert len(acknowledged) == 20
        assert_sound(store)
    with connect_raw(url) as connection:
        applied = connection.execute("SELECT number, name, checksum FROM migrations ORDER BY number").fetchall()
        assert applied == [(each.number, each.name, each.checksum) for each in (*shipped_migrations(), COUNTED)]
        assert connection.execute("SELECT count(*) FROM counted").fetchone() == (1,)


def test_who_comes_later_changes_nothing() -> None:
    url = fresh_url()
    upgraded(url)
    before = laid_out(url)
    upgraded(url)
    assert laid_out(url) == before


# Expand, then contract


def test_old_code_works_on_an_expanded_schema() -> None:
    url = fresh_url()
    with holdfast.open(url) as old:
        old.create_session("before").record("user", "Hello?")
        upgraded(url, expansion())
        old.session("before").record("user", "Still there?")  # it was open all the while
    with holdfast.open(url, tenant="other") as old:
        exercise_tenant(old)
        assert old.admin.rebuild() > 0
        report = old.admin.verify()
        assert report.ok, report.problems
    with connect_raw(url) as connection:
        connection.execute("SELECT set_config('holdfast.every_tenant', 'on', false)")
        assert connection.execute("SELECT DISTINCT colour FROM session_rows").fetchall() == [("red",)]


def test_a_schema_from_before_there_were_frames_is_extended_with_all_that_is_in_it() -> None:
    """While someone who opened it before goes on."""
    url = fresh_url()
    rows, more = rows_of_every_table(ONE)[:3], rows_of_every_table(TWO)
    with closing(PostgresStore(url, migrations=shipped_migrations()[:5])) as old:
        old.append(append_of(write_to(ONE, 0, rows=rows)))
        with closing(PostgresStore(url)) as store:
            old.append(append_of(write_to(ONE, 1, rows=rows)))
            store.append(append_of(write_to(TWO, 0, rows=more)))
            for row in more:
                assert store.rows(type(row), {"tenant": TWO.tenant, "session": "two"}, limit=5) == (row,)
            old.append(append_of(write_to(TWO, 1, erase=[1])))  # it has forgotten what it never knew of
            assert [len(store.rows(table, {}, limit=5)) for table in TABLES] == [1, 1, 1, *[0] * 10]
            assert_sound(store)


def test_a_schema_from_before_there_were_facts_is_extended_with_all_that_is_in_it() -> None:
    url = fresh_url()
    rows, facts = rows_of_every_table(ONE), rows_of_every_table(LEDGER)
    asked = FactQuery(tenant=LEDGER.tenant, ledgers=('["user","one"]',), words=("subject",))
    with closing(PostgresStore(url, migrations=shipped_migrations()[:6])) as old:
        old.append(append_of(write_to(ONE, 0, rows=rows)))
        with closing(PostgresStore(url)) as store:
            old.append(append_of(write_to(ONE, 1, rows=rows)))
            store.append(append_of(write_to(LEDGER, 0, rows=facts)))
            assert [row for row, _ in store.search(asked)] == [facts[1]]
            old.append(append_of(write_to(LEDGER, 1, rows=[change_all_columns(row) for row in facts])))
            assert store.search(asked) == ()
            for row in (*rows, *map(change_all_columns, facts)):
                assert store.rows(type(row), {"tenant": ONE.tenant}, limit=5) == (row,)
            old.append(append_of(write_to(LEDGER, 2, erase=[1])))
            assert store.rows(FactRow, {}, limit=5) == ()
            assert_sound(store)


def test_a_schema_from_before_there_were_pages_is_extended_with_all_that_is_in_it() -> None:
    url = fresh_url()
    pages = [page_row(ONE, number, number) for number in range(3)]
    rows = [row for row in rows_of_every_table(ONE) if type(row) not in (PageRow, EntryRow, ChunkRow)]
    facts = [without_anchor(row) for row in rows_of_every_table(LEDGER)]
    with closing(PostgresStore(url, migrations=shipped_migrations()[:7])) as old:
        old.append(append_of(write_to(ONE, 0, rows=rows), write_to(LEDGER, 0, rows=facts)))
        with closing(PostgresStore(url)) as store:
            store.append(append_of(write_to(ONE, 1, rows=pages)))
            old.append(append_of(write_to(ONE, 2, rows=rows)))
            for row in (*rows, *facts):
                assert store.rows(type(row), {"tenant": ONE.tenant}, limit=5) == (row,)
            assert store.rows(PageRow, {}, limit=5) == tuple(pages)
            old.append(append_of(write_to(ONE, 3, rows=rows, erase=[1])))
            assert store.rows(PageRow, {}, limit=5) == ()
            assert_sound(store)


def test_a_schema_from_before_there_were_entries_is_extended_with_all_that_is_in_it() -> None:
    url = fresh_url()
    entries = [*(entry_row(ONE, f"entry {number}", number) for number in range(3)), chunk_row(ONE, "d")]
    rows = [row for row in rows_of_every_table(ONE) if type(row) not in (EntryRow, ChunkRow)]
    with closing(PostgresStore(url, migrations=shipped_migrations()[:11])) as old:
        old.append(append_of(write_to(ONE, 0, rows=rows)))
        with closing(PostgresStore(url)) as store:
            store.append(append_of(write_to(ONE, 1, rows=entries)))
            old.append(append_of(write_to(ONE, 2, rows=rows)))
            for row in rows:
                assert store.rows(type(row), {"tenant": ONE.tenant}, limit=5) == (row,)
            assert store.rows(EntryRow, {}, limit=5) == tuple(entries[:3])
            assert store.rows(ChunkRow, {}, limit=5) == tuple(entries[3:])
            old.append(append_of(write_to(ONE, 3, rows=rows, erase=[1])))
            assert (*store.rows(EntryRow, {}, limit=5), *store.rows(ChunkRow, {}, limit=5)) == ()
            assert_sound(store)


def without_anchor(row: Row) -> Row:
    return msgspec.structs.replace(row, anchor="") if isinstance(row, FactRow) else row


def test_a_schema_from_before_there_were_anchors_is_extended_with_all_that_is_in_it() -> None:
    """Who writes facts without one, as code of before does, may go on; a rebuild puts them in."""
    url = fresh_url()
    facts = [fact_row(LEDGER, number) for number in range(1, 4)]
    among = {"anchor": ["", "1", "2", "3"]}
    with closing(PostgresStore(url, migrations=shipped_migrations()[:8])) as old:
        old.append(append_of(write_to(LEDGER, 0, rows=facts[:2])))
        with closing(PostgresStore(url)) as store:
            assert store.rows(FactRow, {}, limit=5, among=among) == tuple(map(without_anchor, facts[:2]))
            store.append(append_of(write_to(LEDGER, 1, rows=facts)))
            assert store.rows(FactRow, {}, limit=5, among=among) == tuple(facts)
            bare = {"write": 1, **msgspec.structs.asdict(fact_row(LEDGER, 2))}
            del bare["anchor"]
            with connect_raw(url, autocommit=False) as connection:
                connection.execute("SELECT act_for(NULL)")
                (number,) = connection.execute("SELECT stream_no FROM streams").fetchone() or ()
                rows = codec.encode({"fact_rows": [bare]}).decode()
                connection.execute("SELECT put_rows(%s::text::jsonb, ARRAY[%s]::bigint[])", (rows, number))
            assert store.rows(FactRow, {}, limit=5, among=among) == (facts[0], without_anchor(facts[1]), facts[2])
            store.replace_rows(LEDGER, 2, facts)
            assert store.rows(FactRow, {}, limit=5, among=among) == tuple(facts)
            assert_sound(store)


def test_code_that_something_was_taken_from_is_refused() -> None:
    url = fresh_url()
    upgraded(url, expansion(), CONTRACTION)
    before = laid_out(url)
    with pytest.raises(errors.SchemaTooNew) as refused:
        holdfast.open(url)
    assert (refused.value.found, refused.value.known) == (CONTRACTION.number, NEWEST)
    assert laid_out(url) == before
    upgraded(url, expansion(), CONTRACTION)


# Refused, and nothing touched


def test_a_changed_migration_is_found_out() -> None:
    url = fresh_url()
    *others, last = shipped_migrations()
    PostgresStore(url, migrations=[*others, Migration(last.number, last.name, f"{last.sql}\n-- and more\n")]).close()
    before = laid_out(url)
    with pytest.raises(errors.SchemaChanged) as refused:
        holdfast.open(url)
    assert refused.value.number == last.number
    assert laid_out(url) == before


@pytest.mark.parametrize(
    "known", [(), shipped_migrations()[:2], shipped_migrations()], ids=["nothing", "a part", "all but the newest"]
)
def test_a_role_that_may_not_migrate_says_which_role_it_is(known: Sequence[Migration]) -> None:
    with create_roles() as roles:
        url = roles.url()
        with connect_raw(url) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema_of(url)))
        if known:
            migrate_only(url, known)
        application = roles.let_in(url)
        before = laid_out(url)
        with pytest.raises(errors.SchemaTooOld) as refused:
            PostgresStore(application, migrations=[*shipped_migrations(), expansion()])
        found = known[-1].number if known else 0
        assert (refused.value.found, refused.value.known) == (found, expansion().number)
        assert refused.value.role == roles.application
        assert roles.application in str(refused.value)
        assert laid_out(url) == before


def migrate_only(url: str, migrations: Sequence[Migration]) -> None:
    """As by code that knew no more than these; a store cannot be used before all that is shipped is there."""
    address = parse_address(url)
    with psycopg.connect(address.info, autocommit=True) as connection:
        migrate._migrate(connection, address, migrations)


FOREIGN = {
    "a table": "CREATE TABLE {}.orders (id integer)",
    "a view": "CREATE VIEW {}.orders AS SELECT 1",
    "migrations of its own": "CREATE TABLE {}.migrations (id integer, migration text, batch integer)",
    "migrations as a view": "CREATE VIEW {}.migrations AS SELECT 1 AS number",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_schema_that_another_program_made_is_not_touched(what: str) -> None:
    url = fresh_url()
    with connect_raw(url) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema_of(url)))
        connection.execute(sql.SQL(FOREIGN[what]).format(schema_of(url)))
        before = objects_in(connection, url)
        with pytest.raises(errors.ForeignFile):
            holdfast.open(url)
        assert objects_in(connection, url) == before


def objects_in(connection: psycopg.Connection[tuple[object, ...]], url: str) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT relname::text, relkind::text FROM pg_class WHERE relnamespace = to_regnamespace(%s) ORDER BY 1",
        (parse_address(url).schema,),
    ).fetchall()


def test_an_empty_schema_that_is_there_already_is_taken() -> None:
    url = fresh_url()
    with connect_raw(url) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema_of(url)))
    with closing(PostgresStore(url)) as store:
        fill_stream(store, ONE, 2)
        assert_sound(store)


BROKEN = Migration(
    9_003, "broken", "CREATE TABLE half (n integer); ALTER TABLE streams DROP COLUMN hash; SELECT 1 / 0;"
)


@pytest.mark.parametrize("made", [False, True], ids=["new", "in use"])
def test_a_migration_that_fails_leaves_all_as_it_was(made: bool) -> None:
    url = fresh_url()
    if made:
        upgraded(url)
    before = laid_out(url)
    with pytest.raises(errors.StorageUnavailable, match="division by zero"):
        upgraded(url, expansion(), BROKEN)
    assert laid_out(url) == before
    with closing(PostgresStore(url)) as store:
        fill_stream(store, ONE, 2)
        assert_sound(store)


def test_an_old_server_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    url = fresh_url()
    monkeypatch.setattr(migrate, "OLDEST_SERVER", 99)
    with pytest.raises(errors.ServerTooOld) as refused:
        holdfast.open(url)
    assert (refused.value.needed, refused.value.found < 99) == (99, True)
    assert laid_out(url) == []


# Other versions of PostgreSQL


STARTED: dict[int, PostgresServer] = {}


def server_of(version: int) -> PostgresServer:
    if version not in STARTED:
        STARTED[version] = PostgresServer(version, settings=["fsync=off"])
    return STARTED[version]


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.popitem()[1].remove()


VERSIONS: list[int | None] = [None, *sorted(find_installations())[:-1]]
"""The server that all tests run on, and the older ones that are here."""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tenants_work_is_done_on_every_version(version: int | None) -> None:
    url = fresh_url(None if version is None else server_of(version).url())
    with holdfast.open(url) as engine:
        exercise_tenant(engine)
        follower = Follower(10)
        follower.read_all(engine.store)
        assert follower.count == engine.admin.totals().events
        report = engine.admin.verify()
        assert report.ok, report.problems


def test_what_an_older_server_dumped_goes_on_in_a_new_one() -> None:
    """One that has seen fewer transactions: there, what is stored seems to lie ahead."""
    old = server_of(min(find_installations()))
    url = fresh_url(old.url())
    store = PostgresStore(url)
    with connect_raw(url) as connection, psycopg.connect(base_url(), autocommit=True) as new:
        ((there,),) = new.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchall()
        connection.execute(AGE.format(there + 5_000))
        fill_stream(store, ONE, 10)
        store.append(append_of(write_to(TWO, 0), key="key"))
        wait_for_transactions(connection)
    half, whole = Follower(4), Follower(4)
    half.read(store)
    whole.read_all(store)
    store.close()
    copy(url, old)
    store = PostgresStore(f"{base_url()}{'&' if '?' in base_url() else '?'}schema={parse_address(url).schema}")
    fill_stream(store, ONE, 3)
    assert store.append(append_of(write_to(TWO, 0), key="key")).repeated
    with connect_raw(store.url) as connection:
        wait_for_transactions(connection)
    half.read_all(store)
    whole.read_all(store)
    assert (half.order, half.count) == (whole.order, 14)
    assert_sound(store)
    store.close()


AGE = """
DO $$ BEGIN
    WHILE pg_current_xact_id()::text::bigint < {} LOOP COMMIT; END LOOP;
END $$
"""


def copy(url: str, old: PostgresServer) -> None:
    """As an administrator would."""
    programs = find_installations()[max(find_installations())]
    dump = [os.path.join(programs, "pg_dump"), "--schema", parse_address(url).schema, old.url()]
    dumped = subprocess.run(dump, check=True, capture_output=True).stdout
    restore = [os.path.join(programs, "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-o", os.devnull, base_url()]
    subprocess.run(restore, check=True, input=dumped)
