"""`holdfast keys` on the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast.access.access import Access
from holdfast.access.keys import KeyRing
from holdfast.cli import main
from tests.edges.cli import CommandResult, CommandRunner, run_process
from tests.postgres import empty_url


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(tmp_path / "agent.db", capsys)


def find(path: Path | str, key: str) -> Access | None:
    async def run() -> Access | None:
        async with await holdfast.open_async(path) as engine:
            return await KeyRing(engine).find(key)

    return asyncio.run(run())


def test_a_key_is_made_shown_rotated_and_revoked(cli: CommandRunner) -> None:
    made = cli("--tenant", "acme", "keys", "create", "bot", "--right", "read", "--right", "model", "--json").document
    access = find(cli.path, made["key"])
    assert access == Access(tenant="acme", principal="bot", rights=frozenset(("read", "model")), key_id=made["id"])
    shown = cli("keys", "show", made["id"], "--json").document
    assert shown == {name: value for name, value in made.items() if name != "key"}
    rotated = cli("keys", "rotate", made["prefix"], "--overlap", "0", "--json").document
    assert find(cli.path, made["key"]) is None
    assert find(cli.path, rotated["key"]) is not None
    revoked = cli("keys", "revoke", made["id"], "--reason", "lost", "--json").document
    assert (revoked["status"], revoked["revocation_reason"]) == ("revoked", "lost")
    assert find(cli.path, rotated["key"]) is None
    assert cli("keys", "rotate", made["id"]).code == 3
    actions = [document["action"] for document in cli("keys", "audit", "--json").documents]
    assert actions == ["key.revoked", "key.rotated", "key.created"]
    assert [each["by"] for each in cli("keys", "audit", "--action", "key.created", "--json").documents] == ["cli"]


def test_a_key_of_a_user_acts_as_them(cli: CommandRunner) -> None:
    made = cli(
        *("keys", "create", "laptop", "--user", "ada", "--user-name", "Ada", "--authority", "manager"),
        *("--permission", "pay", "--permission", "hr", "--organization", "desk", "--department", "it", "--days", "30"),
        *("--requests-per-minute", "60", "--tokens-per-hour", "1000", "--json"),
    ).document
    access = find(cli.path, made["key"])
    assert access is not None
    assert (access.actor, access.principal) == ("ada", "ada")
    assert access.identity == holdfast.Identity(
        user_id="ada",
        user_name="Ada",
        authority="manager",
        permissions=("hr", "pay"),
        organization="desk",
        department="it",
    )
    assert (access.requests_per_minute, access.tokens_per_hour) == (60, 1_000)
    assert made["expires_us"] - made["created_us"] == pytest.approx(30 * 86_400e6, rel=0.01)
    named = cli("keys", "create", "desk", "--user", "bob", "--actor", "desk", "--as", "bob@desk", "--json").document
    other = find(cli.path, named["key"])
    assert other is not None
    assert (other.actor, other.principal) == ("desk", "bob@desk")


def test_lists_have_no_secret_and_select_by_tenant_and_status(cli: CommandRunner) -> None:
    first = cli("keys", "create", "one", "--json").document
    second = cli("keys", "create", "two", "--tenant", "acme", "--json").document
    cli("keys", "revoke", first["id"])
    for args in ([], ["--json"]):
        out = cli("keys", "list", *args).out
        assert first["id"] in out
        assert second["id"] in out
        for made in (first, second):
            assert made["key"][16:] not in out
            assert "digest" not in out
    assert [each["name"] for each in cli("keys", "list", "--tenant", "acme", "--json").documents] == ["two"]
    assert [each["name"] for each in cli("keys", "list", "--status", "live", "--json").documents] == ["two"]
    assert [each["name"] for each in cli("keys", "list", "--status", "revoked", "--json").documents] == ["one"]
    assert "no such keys" in cli("keys", "list", "--status", "expired").out


def test_the_secret_is_printed_once_to_standard_output(cli: CommandRunner) -> None:
    ran = cli("keys", "create", "bot")
    [key] = [line for line in ran.out.splitlines() if line.startswith("hf_")]
    assert find(cli.path, key) is not None
    assert "only time" in ran.out
    for args in (["keys", "list"], ["keys", "show", key[3:15]], ["keys", "audit"], ["log", "--payload"]):
        again = cli("--tenant", "holdfast.system", *args) if args[0] == "log" else cli(*args)
        assert again.code == 0
        assert key[16:] not in again.out + again.err
    wrong = cli("keys", "show", key)
    assert wrong.code == 3
    assert key[16:] not in wrong.err


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["keys", "create", "x", "--tenant", "holdfast.system"], 3, "for the server itself"),
        (["keys", "create", "x", "--permission", "hr"], 2, "--permission is about a user"),
        (["keys", "create", "x", "--user-name", "hr"], 2, "--user-name is about a user"),
        (["keys", "create", "x", "--user", "ada", "--right", "admin"], 3, "cannot maintain"),
        (["keys", "create", "x", "--right", "root"], 2, "root"),
        (["keys", "create", ""], 3, "name"),
        (["keys", "show", "zzz"], 3, "There is no key 'zzz'"),
        (["keys", "revoke", "hf_zzz"], 3, "There is no key"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(args: list[str], code: int, text: str, cli: CommandRunner) -> None:
    cli("keys", "create", "bot")
    ran = cli(*args)
    assert (ran.code, text in ran.err) == (code, True), ran.err
    assert len(cli("keys", "list", "--json").documents) == 1


def test_only_create_makes_a_store(cli: CommandRunner) -> None:
    for args in (["list"], ["show", "x"], ["rotate", "x"], ["revoke", "x"], ["audit"]):
        assert cli("keys", *args).code == 3
        assert not cli.path.exists()
    assert cli("keys", "create", "bot").code == 0


def test_a_store_without_keys_has_empty_lists(cli: CommandRunner) -> None:
    holdfast.open(cli.path).close()
    assert "no such keys" in cli("keys", "list").out
    assert "no such entries" in cli("keys", "audit").out
    assert cli("keys", "list", "--json").out == ""
    with holdfast.open(cli.path, tenant="holdfast.system") as engine:
        assert engine.sessions() == (), "to look stores nothing"


def test_keys_live_on_a_server_too(capsys: pytest.CaptureFixture[str]) -> None:
    with empty_url() as url:
        capsys.readouterr()
        assert main(["--file", url, "keys", "create", "bot", "--json"]) == 0
        made = CommandResult(0, *capsys.readouterr()).document
        assert find(url, made["key"]) is not None


def test_the_real_command_prints_a_key(tmp_path: Path) -> None:
    ran = run_process("-f", tmp_path / "agent.db", "keys", "create", "bot", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert '"key": "hf_' in ran.stdout
