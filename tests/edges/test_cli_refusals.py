"""Every command on a file that is not there, not ours or damaged, and on a session that is not there or not yours."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

import holdfast
from holdfast.cli import exit_code, output
from holdfast.errors import HoldfastError, InvalidUrl, StorageBusy, StorageCorrupt, StorageReadOnly
from tests.edges.cli import HOSTILE, CommandResult, CommandRunner

SESSION_COMMANDS = [
    ["sessions", "show"],
    ["sessions", "tail"],
    ["log"],
    ["frames"],
    ["recover"],
    ["withdraw"],
    ["facts", "list", "--session"],
]
FILE_COMMANDS = [
    ["sessions", "list"],
    *([*command, "trip"] for command in SESSION_COMMANDS),
    ["log"],
    ["restore", "trip", "9"],
    ["suspended"],
    ["resume"],
    ["facts", "ledgers"],
    ["facts", "assert", "seat", "window", "--user", "ada"],
    ["verify"],
    ["rebuild"],
    ["doctor"],
    ["stats"],
    ["sweep"],
    ["collect"],
    ["backup", "{folder}/copy.db"],
    ["copy", "{file}", "{folder}/house.db"],
    ["export", "{folder}/all.jsonl"],
]
on_every_command = pytest.mark.parametrize("command", FILE_COMMANDS, ids=" ".join)


def refused(cli: CommandRunner, command: list[str], code: int, *kinds: str) -> CommandResult:
    """Run it both ways: the message is one line on stderr, and the same in JSON."""
    file = command[1] if command[0] == "--file" else cli.path
    args = [arg.format(folder=cli.path.parent, file=file) for arg in command]
    ran = cli(*args)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("Error: ")
    assert ran.err.count("\n") == 1
    told = cli(*args, "--json")
    assert (told.code, told.out) == (code, "")
    assert told.error["type"] in kinds
    assert output.escape(str(told.error["message"])) in ran.err
    return ran


@on_every_command
@pytest.mark.parametrize("name", ["absent.db", "sqlite:///absent.db", "no/such/folder/agent.db", "memory:", "."])
def test_a_file_that_is_not_there_is_refused_and_not_made(
    cli: CommandRunner, command: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cli.path.parent)
    before = sorted(os.listdir())
    refused(cli, ["--file", name, *command], 3, "InvalidUrl" if name in ("memory:", ".") else "FileAbsent")
    assert sorted(os.listdir()) == before


@on_every_command
@pytest.mark.parametrize("content", [b"", b"dear diary, " * 1_000, None], ids=["empty", "text", "another database"])
def test_a_file_of_another_program_is_refused_and_not_touched(
    cli: CommandRunner, command: list[str], content: bytes | None, tmp_path: Path
) -> None:
    foreign = cli._replace(path=tmp_path / "foreign.db")
    if content is None:
        connection = apsw.Connection(str(foreign.path))
        connection.execute("CREATE TABLE mine (x)")
        connection.close()
    else:
        foreign.path.write_bytes(content)
    before = foreign.path.read_bytes()
    if command == ["doctor"] and before:
        ran = foreign("doctor", "--json")
        assert (ran.code, ran.document["ok"]) == (1, False)
        assert "not a Holdfast file" in foreign("doctor").out
    else:
        refused(foreign, command, 4, "ForeignFile")
    assert foreign.path.read_bytes() == before


@on_every_command
def test_a_damaged_file_is_named_as_such(cli: CommandRunner, command: list[str]) -> None:
    with cli.path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\x5a" * (cli.path.stat().st_size - 4_096))
    if command == ["doctor"]:
        assert cli("doctor").code == 1
        assert "is damaged" in cli("doctor").out
    else:
        refused(cli, command, 4, "StorageCorrupt")


@pytest.mark.parametrize(
    ("target", "code", "kind"),
    [
        ("{file}", 3, "InvalidUrl"),
        ("memory:", 3, "InvalidUrl"),
        ("gopher://nowhere", 3, "InvalidUrl"),
        ("{folder}/missing/agent.db", 4, "StorageUnavailable"),
        ("{folder}", 4, "StorageUnavailable"),
        ("{folder}/foreign.db", 4, "ForeignFile"),
    ],
)
def test_a_target_that_cannot_be_moved_to_is_refused_and_the_source_stays(
    cli: CommandRunner, target: str, code: int, kind: str
) -> None:
    (cli.path.parent / "foreign.db").write_bytes(b"dear diary, " * 1_000)
    before = cli.path.read_bytes()
    refused(cli, ["copy", "{file}", target], code, kind)
    assert cli.path.read_bytes() == before


def test_a_target_with_another_history_is_refused_by_the_name_of_the_session(
    cli: CommandRunner, tmp_path: Path
) -> None:
    target = tmp_path / "house.db"
    cli("copy", cli.path, target)
    for path in (cli.path, target):
        with holdfast.open(path) as engine:
            engine.session("trip", actor="ada").record("user", f"only in {path.name}")
    ran = refused(cli, ["copy", "{file}", str(target)], 3, "Diverged")
    assert "session default/ada/trip" in ran.err


@pytest.mark.parametrize("command", SESSION_COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "which",
    [["nobody"], ["trip", "--actor", "bob"], ["secret"], ["trip", "--tenant", "acme"], ["trip", "--thread", "x"]],
)
def test_a_session_that_is_not_there_or_not_yours_is_not_found(
    cli: CommandRunner, command: list[str], which: list[str]
) -> None:
    ran = refused(cli, [*command, *which], 3, "SessionNotFound")
    assert "There is no session" in ran.err


@pytest.mark.parametrize("command", SESSION_COMMANDS, ids=" ".join)
def test_a_destroyed_session_is_gone(cli: CommandRunner, command: list[str]) -> None:
    refused(cli, [*command, "gone", "--actor", "ada"], 3, "SessionDestroyedError")


@pytest.mark.parametrize("command", SESSION_COMMANDS, ids=" ".join)
def test_a_hostile_name_is_refused_without_showing_it_raw(cli: CommandRunner, command: list[str]) -> None:
    refused(cli, [*command, HOSTILE], 3, "InvalidName")
    refused(cli, [*command, "\u202eevil"], 3, "SessionNotFound")


@pytest.mark.parametrize(
    "args",
    [["frobnicate"], ["sessions", "show"], ["log", "--limit", "many"], ["verify", "--fast"], ["copy", "agent.db"]],
)
def test_wrong_usage_is_explained(cli: CommandRunner, args: list[str]) -> None:
    ran = cli(*args)
    assert ran.code == 2
    assert "Usage: holdfast" in ran.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidUrl(url="x", reason="y"), 3),
        (StorageCorrupt(what="x", reason="y"), 4),
        (StorageBusy(what="x", waited_ms=1), 4),
        (StorageReadOnly(what="x"), 4),
    ],
)
def test_what_the_caller_can_mend_and_what_the_storage_must_have_different_codes(
    error: HoldfastError, code: int
) -> None:
    assert exit_code(error) == code
