"""The command line on the address of a server: as on a file, without a password on any screen, and with a doctor who knows
servers. The page about PostgreSQL is carried out from its first line to its last."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.cli import main
from holdfast.errors import RoleTooNarrow
from holdfast.runtime import checks as cli_checks
from holdfast.storage.addresses import mask_address
from holdfast.storage.postgres import connect, migrate
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.sql import Migration
from tests.edges.cli import CommandResult, CommandRunner, copy_store, run_process, write_history
from tests.edges.test_cli_refusals import FILE_COMMANDS
from tests.postgres import fresh_url, server

SECRET = "s3cret"
PAGE = Path(__file__).parents[2] / "docs/howto/postgresql.md"

LOOKING = [
    ["sessions", "list"],
    ["sessions", "list", "--json", "--order", "name", "--actor", "ada"],
    ["sessions", "list", "--tenant", "nobody"],
    ["sessions", "show", "trip"],
    ["sessions", "show", "large", "--full", "--json"],
    ["sessions", "show", "twin"],
    ["sessions", "tail", "late", "--json"],
    ["log", "-n", "0"],
    ["log", "-n", "5", "--payload", "--tenant", "acme"],
    ["log", "trip", "--json"],
    ["log", "trip", "--after", "nonsense"],
    ["verify"],
    ["verify", "--json"],
    ["export", "{folder}/trip.jsonl", "--transcript", "trip", "--force"],
]
CHANGING = [
    ["rebuild", "--json"],
    ["sweep"],
    ["sessions", "list", "--status", "open"],
    ["export", "{folder}/all.jsonl", "--force"],
    ["collect", "--grace", "0"],
    ["withdraw", "large", "--after", "130"],
    ["withdraw", "trip"],
    ["restore", "large", "134"],
    ["restore", "large", "134"],
    ["verify"],
]


def secretive(url: str) -> str:
    """The same address with a password, which this server does not ask for."""
    return url.replace("postgres@", f"postgres:{SECRET}@", 1)


def fresh(database: str = "postgres", user: str = "postgres") -> str:
    return secretive(fresh_url(server().url(database, user)))


def on(url: str, capture: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(cast("Path", url), capture)


def executed(statement: str, *, database: str = "postgres", user: str = "postgres") -> list[tuple[Any, ...]]:
    with psycopg.connect(server().url(database, user), autocommit=True) as connection:
        cursor = connection.execute(cast("Any", statement))
        return cursor.fetchall() if cursor.description else []


def schema_of(url: str) -> str:
    return connect.parse_address(url).schema


@pytest.fixture(scope="module")
def kept() -> str:
    """A store with the same history as the file. Who changes it makes another."""
    url = fresh()
    write_history(cast("Path", url))
    return url


@pytest.fixture
def there(kept: str, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    return on(kept, capsys)


@pytest.fixture
def small(capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    """A store with next to nothing in it."""
    url = fresh()
    with holdfast.open(url) as engine:
        engine.create_session("trip", actor="ada").record("user", "hello")
    return on(url, capsys)


# As on a file


def ran_alike(here: CommandRunner, there: CommandRunner, command: list[str], folder: Path) -> None:
    args = [arg.format(folder=folder) for arg in command]
    one, other = here(*args), there(*args)
    assert other == one
    assert one.out or one.err
    assert SECRET not in other.out + other.err


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_command_answers_on_a_server_as_on_a_file(
    cli: CommandRunner, there: CommandRunner, command: list[str], tmp_path: Path
) -> None:
    ran_alike(cli, there, command, tmp_path)


def test_commands_that_change_something_do_so_on_a_server_as_on_a_file(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = fresh()
    write_history(cast("Path", url))
    for command in CHANGING:
        ran_alike(CommandRunner(copied_once(history, tmp_path), capsys), on(url, capsys), command, tmp_path)


def copied_once(history: Path, folder: Path) -> Path:
    path = folder / "agent.db"
    return path if path.exists() else copy_store(history, path)


def test_the_log_of_a_server_is_walked_by_its_cursors(there: CommandRunner) -> None:
    everything = there("log", "-n", "0", "--json").documents
    walked: list[Any] = []
    cursor = ""
    while page := there("log", "--after", cursor, "-n", "50", "--json").documents:
        walked += page
        cursor = page[-1]["cursor"]
    assert [event["id"] for event in walked] == [event["id"] for event in everything]


def test_stats_are_those_of_a_file_with_the_sizes_of_the_server(cli: CommandRunner, there: CommandRunner) -> None:
    here, found = cli("stats", "--json").document, there("stats", "--json").document
    sizes = {"bytes_on_disk", "blob_bytes"}
    for told in (here["file"], found["file"]):
        assert all(told.pop(size) > 0 for size in sizes)
    assert found == here
    assert "blobs" in there("stats").out


def test_a_command_as_it_is_really_run_takes_the_address_from_the_environment(kept: str) -> None:
    variables = {**os.environ, "HOLDFAST_FILE": kept}
    assert "trip  open  actor ada" in run_process("sessions", "show", "trip", env=variables).stdout
    completing = {"COMP_WORDS": "holdfast sessions show tr", "COMP_CWORD": "3", "_HOLDFAST_COMPLETE": "bash_complete"}
    assert "trip" in run_process(env={**variables, **completing}).stdout
    nowhere = {**variables, **completing, "HOLDFAST_FILE": fresh()}
    assert run_process(env=nowhere).stdout.strip() == ""


def test_a_backup_is_refused_with_what_to_do_instead(there: CommandRunner, tmp_path: Path) -> None:
    ran = there("backup", tmp_path / "copy.db")
    assert ran.code == 3
    assert "pg_dump" in ran.err
    assert "holdfast copy" in ran.err
    assert os.listdir(tmp_path) == []


def test_an_import_begins_a_store_and_says_so(there: CommandRunner, tmp_path: Path) -> None:
    there("export", tmp_path / "all.jsonl")
    made = [there._replace(path=cast("Path", fresh())) for _ in range(2)]
    told = [made[0]("import", tmp_path / "all.jsonl", "--json").document for _ in range(2)]
    assert [document["created"] for document in told] == [True, False]
    assert told[1]["events"] == 0
    assert made[0]("verify").code == 0
    said = [made[1]("import", tmp_path / "all.jsonl").out for _ in range(2)]
    assert ["(a new store)" in text for text in said] == [True, False]
    assert not any(SECRET in text for text in said)


# Nothing is made by looking


@pytest.mark.parametrize("command", FILE_COMMANDS, ids=" ".join)
def test_a_store_that_is_not_there_is_refused_and_not_made(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = fresh()
    args = [arg.format(folder=tmp_path, file=url) for arg in command]
    ran, told = on(url, capsys)(*args), on(url, capsys)(*args, "--json")
    assert (ran.code, ran.out, told.code, told.out) == (3, "", 3, "")
    assert ran.err.count("\n") == 1
    assert told.error["type"] == "FileAbsent"
    assert told.error["path"] == url.replace(f":{SECRET}", "")
    assert executed(f"SELECT to_regnamespace('{schema_of(url)}')") == [(None,)]
    assert os.listdir(tmp_path) == []
    assert SECRET not in ran.err + told.err


@pytest.mark.parametrize("command", [["stats"], ["doctor"]], ids=" ".join)
def test_a_schema_of_another_program_is_refused_and_not_touched(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = fresh()
    executed(f"CREATE SCHEMA {schema_of(url)} CREATE TABLE mine (x integer)")
    ran = on(url, capsys)(*command)
    assert ran.code == (1 if command == ["doctor"] else 4)
    assert "another program created this schema" in ran.out + ran.err
    tables = f"SELECT relname::text FROM pg_class WHERE relnamespace = '{schema_of(url)}'::regnamespace"
    assert executed(tables) == [("mine",)]


# Passwords

ODD = st.text("ab1/@:?&#=[]% ", max_size=4)


@settings(max_examples=60)
@given(ODD.filter(lambda text: not text[:1].isdigit()), ODD)
def test_no_password_is_ever_shown_however_badly_the_address_is_written(before: str, after: str) -> None:
    """Nothing listens there, so every command must say what is wrong."""
    password = f"{before}{SECRET}{after}"
    for url in (
        f"postgresql://ada:{password}@127.0.0.1:1/db?schema=agents",
        f"postgresql://127.0.0.1:1/db?password={password.replace('&', '')}&schema=agents",
        f"postgres://ada@127.0.0.1:1/db?sslpassword={password.replace('&', '')}",
        f"postgresq://ada:{password}@127.0.0.1:1/db",
    ):
        assert SECRET not in mask_address(url)
        for command in (["stats"], ["stats", "--json"], ["doctor"]):
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                assert main(["--file", url, *command]) in (1, 3, 4)
            assert SECRET not in said.getvalue()
            assert said.getvalue()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("agent.db", "agent.db"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("postgresql://host:5432/db?application_name=a@b", "postgresql://host:5432/db?application_name=a@b"),
        ("postgresql://ada:se%40cret@[::1]:5432/db", "postgresql://ada@[::1]:5432/db"),
        ("postgresql:///db?password=secret&user=ada", "postgresql:///db?password=…&user=ada"),
    ],
)
def test_what_is_not_secret_in_an_address_is_shown(url: str, shown: str) -> None:
    assert mask_address(url) == shown


# The doctor


def verdicts(cli: CommandRunner) -> dict[str, tuple[str, str]]:
    ran = cli("doctor", "--json")
    checks = ran.document["checks"]
    assert ran.code == any(check["verdict"] == "bad" for check in checks)
    assert SECRET not in ran.out
    return {check["name"]: (check["verdict"], check["found"]) for check in checks}


@contextlib.contextmanager
def server_set(name: str, value: str) -> Iterator[None]:
    """The whole server with another setting, for a while."""

    def put(value: str) -> None:
        executed(f"ALTER SYSTEM SET {name} = {value}")
        executed("SELECT pg_reload_conf()")
        while executed(f"SHOW {name}") != [(value,)]:
            pass

    ((before,),) = executed(f"SHOW {name}")
    put(value)
    try:
        yield
    finally:
        put(before)


@pytest.fixture
def durable() -> Iterator[None]:
    """A server that waits for its disk, as those of others do."""
    with server_set("fsync", "on"):
        yield


@pytest.mark.usefixtures("durable")
def test_the_doctor_looks_at_the_server_and_at_what_is_stored(there: CommandRunner) -> None:
    found = verdicts(there)
    odd = {name for name, (verdict, _) in found.items() if verdict != "ok"}
    assert odd == {"role", "open calls", "idle sessions", "outbox"}
    assert "superuser" in found["role"][1]
    assert "verified, no damage" in found["contents"][1]
    text = there("doctor").out
    assert all(name in text for name in found)


def test_the_doctor_says_why_a_server_cannot_be_asked(
    small: CommandRunner, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'database "absent" does not exist' in verdicts(on(fresh("absent"), capsys))["server"][1]
    monkeypatch.setattr(connect, "OLDEST_SERVER", 99)
    assert verdicts(small)["server"][0] == "bad"
    monkeypatch.setitem(sys.modules, "holdfast.storage.postgres.migrate", None)
    assert "pip install 'holdfast[postgres]'" in verdicts(small)["library"][1]
    told = small("stats", "--json")
    assert (told.code, told.error["type"]) == (4, "ExtraMissing")


def test_the_doctor_compares_the_schema_with_what_it_knows(
    small: CommandRunner, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    older = fresh()
    PostgresStore(older, migrations=migrate.shipped_migrations()[:-1]).close()
    assert [verdicts(on(older, capsys))["schema"][0] for _ in range(2)] == ["warn", "ok"]
    added = (*migrate.shipped_migrations(), Migration(9_998, "9998_more", "SELECT 1"))
    PostgresStore(str(small.path), migrations=added).close()
    newest = migrate.shipped_migrations()[-1].number
    assert verdicts(small)["schema"] == ("ok", f"9998; this Holdfast has {newest}, with additions of a newer one")
    PostgresStore(str(small.path), migrations=(*added, Migration(9_999, "9999_less", "-- contract\nSELECT 1"))).close()
    assert verdicts(small)["schema"][0] == "bad"
    assert small("stats", "--json").error["type"] == "SchemaTooNew"


@pytest.mark.usefixtures("durable")
@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_the_doctor_warns_of_settings_that_lose_what_was_acknowledged(small: CommandRunner, name: str) -> None:
    assert verdicts(small)["durability"][0] == "ok"
    with server_set(name, "off"):
        found = verdicts(small)["durability"]
    assert found[0] == "warn"
    assert f"{name} off" in found[1]


@pytest.mark.usefixtures("durable")
def test_the_doctor_knows_that_a_lazy_server_is_asked_to_wait_for_the_disk(small: CommandRunner) -> None:
    with server_set("synchronous_commit", "off"):
        found = verdicts(small)["durability"]
    assert found[0] == "ok"
    assert "synchronous_commit on (off by default here" in found[1]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ALTER TABLE {}.events NO FORCE ROW LEVEL SECURITY", "not in force on events"),
        ("ALTER TABLE {}.keys DISABLE ROW LEVEL SECURITY", "not in force on keys"),
        ("DROP POLICY tenant_alone ON {}.streams", "not in force on streams"),
        ("ALTER POLICY maintenance ON {}.events TO pg_monitor", "the owner cannot maintain events"),
    ],
)
def test_the_doctor_sees_that_tenants_are_no_longer_kept_apart(small: CommandRunner, statement: str, said: str) -> None:
    executed(statement.format(schema_of(str(small.path))))
    assert verdicts(small)["row security"] == ("bad", said)


@pytest.mark.parametrize(
    ("statement", "said"),
    [("CREATE TEMPORARY TABLE t ()", "delays the feed"), ("SELECT 1", "keeps VACUUM")],
)
def test_the_doctor_sees_transactions_that_do_not_end(
    small: CommandRunner, monkeypatch: pytest.MonkeyPatch, statement: str, said: str
) -> None:
    assert verdicts(small)["transactions"][0] == "ok"
    monkeypatch.setattr(cli_checks, "LONG_TRANSACTION_S", 0)
    with psycopg.connect(server().url("template1")) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(cast("Any", statement))
        process = connection.info.backend_pid
        verdict, found = verdicts(small)["transactions"]
    assert verdict == "warn"
    assert f"process {process} in database template1" in found
    assert said in found


def test_the_doctor_sees_that_connections_run_out(small: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdicts(small)["used by"][0] == "ok"
    monkeypatch.setattr(cli_checks, "CROWDED", 0.0)
    assert verdicts(small)["used by"][0] == "warn"


# The page

BLOCK = re.compile(r"^```(sql|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory: pytest.TempPathFactory, history: Path) -> dict[str, str]:
    """Every block of SQL and shell on the page, in order, each by whom it says; the addresses that it speaks of."""
    folder = copy_store(history, tmp_path_factory.mktemp("page") / "agent.db").parent
    addresses = {
        "OWNER": server().url("agents", "agents_owner"),
        "APP": server().url("agents", "agents_app"),
        "RESTORED": server().url("restored", "agents_owner"),
    }
    path = os.pathsep.join((os.path.dirname(sys.executable), server()._programs, os.environ["PATH"]))
    for kind, block in BLOCK.findall(PAGE.read_text()):
        if kind == "sql":
            as_admin = block.startswith("-- as an administrator\n")
            assert as_admin or block.startswith("-- as agents_owner\n")
            for statement in filter(str.strip, block.split("\n", 1)[1].split(";\n")):
                executed(statement, **{} if as_admin else {"database": "agents", "user": "agents_owner"})
            continue
        if "$RESTORED" in block:
            executed("CREATE DATABASE restored OWNER agents_owner")
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            check=True,
            cwd=folder,
            env={**os.environ, **addresses, "PATH": path},
            capture_output=True,
            timeout=120,
        )
    return addresses


def test_the_page_makes_an_application_that_sees_one_tenant_at_a_time(
    carried_out: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    app, owner = (on(carried_out[name], capsys) for name in ("APP", "OWNER"))
    assert verdicts(app)["role"] == ("ok", "agents_app, which sees one tenant at a time")
    assert verdicts(owner)["role"] == ("ok", "agents_owner, which may maintain all tenants")
    with holdfast.open(carried_out["APP"]) as engine:
        session = engine.create_session("page", actor="ada")
        message = session.record("user", "hello")
        engine.blobs.put(b"x" * 100_000)
        session.erase([message.seq], "asked to")
        session.reset("new topic")
        session.destroy("asked to")
        for entry in engine.admin.outbox():
            engine.admin.acknowledge(entry)
        engine.admin.sweep()
        for concerns_all in (
            engine.admin.verify,
            engine.admin.rebuild,
            engine.admin.totals,
            engine.admin.feed,
            engine.admin.collect,
        ):
            with pytest.raises(RoleTooNarrow):
                concerns_all()
    assert owner("verify").code == 0
    assert app("sessions", "list", "--tenant", "nobody").out == "No sessions in tenant 'nobody'.\n"
    assert app("log", "trip", "--json").documents
    assert app("stats", "--json").document["file"] is None
    assert "the role that owns the tables" in app("stats").out
    refused: list[CommandResult] = [app("verify", "--json"), app("log", "--json")]
    assert {ran.error["type"] for ran in refused} == {"RoleTooNarrow"}


def test_an_application_can_remove_nothing_from_the_log_and_gets_rights_on_later_tables(
    carried_out: dict[str, str],
) -> None:
    for table in ("streams", "events", "keys", "store", "migrations"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            executed(f"DELETE FROM holdfast.{table}", database="agents", user="agents_app")
    later = Migration(9_998, "9998_later", "CREATE TABLE later (x integer)")
    PostgresStore(carried_out["OWNER"], migrations=(*migrate.shipped_migrations(), later)).close()
    executed("INSERT INTO holdfast.later VALUES (1)", database="agents", user="agents_app")


def test_behind_a_pooler_the_role_brings_the_settings_of_a_direct_connection(carried_out: dict[str, str]) -> None:
    names = ["search_path", *(word.split()[1].partition("=")[0] for word in connect.SESSION_OPTIONS)]
    with holdfast.open(carried_out["APP"]) as engine:
        assert isinstance(engine.store, PostgresStore)
        info = engine.store.info
    with psycopg.connect(info) as ours, psycopg.connect(carried_out["APP"]) as plain:
        for name in names:
            shown = f"SELECT current_setting('{name}')"
            assert plain.execute(cast("Any", shown)).fetchall() == ours.execute(cast("Any", shown)).fetchall(), name


def test_what_was_restored_holds_everything_and_goes_on(carried_out: dict[str, str]) -> None:
    with holdfast.open(carried_out["RESTORED"]) as engine:
        assert engine.admin.totals().events == 160
        assert engine.admin.verify().ok
        cursor = ""
        while (page := engine.admin.feed(cursor)).events:
            cursor = page.cursor
        engine.create_session("after", actor="ada")
        assert [event.type for event in engine.admin.feed(cursor).events] == ["session.created"]
