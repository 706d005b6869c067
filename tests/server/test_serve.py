"""`holdfast serve` as a command: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
import uvicorn
from uvicorn.supervisors import Multiprocess

from holdfast.cli import main
from holdfast.errors import InvalidArgument, InvalidNumber
from holdfast.server.settings import SETTINGS_VARIABLE, ServerSettings, check_settings, load_settings, store_settings
from tests.support import PATIENCE_S

COMMAND = [sys.executable, "-c", "import sys; from holdfast.cli import main; sys.exit(main())", "serve"]


def start(*args: str | Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *map(str, args), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_prints_where_it_serves_and_a_token_and_ends_with_code_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    with start(tmp_path / "agent.db", "--json") as process:
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        with httpx2.Client(transport=httpx2.HTTPTransport(retries=50)) as client:
            assert client.get(f"{printed['url']}/readyz").json() == {"status": "ready"}
        assert printed["token"]
        process.send_signal(number)
        rest, log = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, rest) == (0, "")
    assert printed["token"] not in log
    assert all(json.loads(line)["level"] == "info" for line in log.splitlines())


def test_the_lines_for_people_name_the_store_without_its_password(tmp_path: Path) -> None:
    with start(tmp_path / "agent.db") as process:
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert first.startswith("Holdfast serves ")
    assert "http://127.0.0.1:" in first
    assert second.startswith("Token")


def test_the_token_has_the_tenant_and_the_namespace_of_the_command(tmp_path: Path) -> None:
    with start(tmp_path / "agent.db", "--json", "--actor", "desk", HOLDFAST_TENANT="acme") as process:
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        with httpx2.Client(transport=httpx2.HTTPTransport(retries=50)) as client:
            headers = {"Authorization": f"Bearer {printed['token']}"}
            caller = client.get(f"{printed['url']}/api/caller", headers=headers).json()
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert (caller["tenant"], caller["actor"]) == ("acme", "desk")


def test_what_cannot_run_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, which must not begin to serve."""

    def refuse_to_run(*_: object, **__: object) -> None:
        pytest.fail("it serves")

    monkeypatch.setattr(uvicorn.Server, "run", refuse_to_run)
    monkeypatch.setattr(Multiprocess, "run", refuse_to_run)
    store = tmp_path / "agent.db"
    foreign = tmp_path / "letter.txt"
    foreign.write_text("no database " * 999)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cases: list[tuple[tuple[str | Path, ...], int, str]] = [
            ((store, "--port", str(taken.getsockname()[1])), 3, "InvalidArgument"),
            ((store, "--host", "nowhere.invalid"), 4, "KeysMissing"),
            ((store, "--host", "0.0.0.0"), 4, "KeysMissing"),
            ((store, "--behind-tls"), 4, "KeysMissing"),
            ((store, "--upstream", "ftp://models"), 3, "InvalidArgument"),
            (
                (store, "--upstream", "http://127.0.0.1:1/v1", "--upstream-key", "NO_SUCH_VARIABLE"),
                3,
                "InvalidArgument",
            ),
            ((store, "--budget", "1"), 3, "InvalidNumber"),
            ((store, "--grace", "-1"), 3, "InvalidNumber"),
            (("memory:", "--workers", "2"), 3, "InvalidArgument"),
            ((foreign,), 4, "ForeignFile"),
            ((tmp_path / "no" / "folder.db",), 4, "StoreNotOpened"),
        ]
        for args, code, name in cases:
            assert main(["serve", *map(str, args), "--json"]) == code, args
            check_refusal(*capsys.readouterr(), name)


def check_refusal(out: str, err: str, name: str) -> None:
    assert out == ""
    error = json.loads(err)["error"]
    assert error["type"] == name
    assert "may have been stored" not in error["message"]


def test_a_refusal_is_the_exit_code_of_the_command(tmp_path: Path) -> None:
    with start(tmp_path / "agent.db", "--json", "--host", "0.0.0.0") as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4
    check_refusal(out, err, "KeysMissing")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 65_536),
        ("port", -1),
        ("workers", 0),
        ("workers", 65),
        ("budget", 499),
        ("body_bytes", 0),
        ("request_s", 0),
        ("grace_s", 3_601),
        ("drain_s", -1),
        ("host", ""),
        ("upstream_kind", "smoke signals"),
        ("upstream", "http://user:secret@models/v1"),
        ("upstream", "http://models/v1?key=secret"),
        ("upstream", "http://"),
    ],
)
def test_settings_are_checked(name: str, value: object) -> None:
    with pytest.raises((InvalidArgument, InvalidNumber)) as raised:
        check_settings(ServerSettings(**{name: value}))  # type: ignore[arg-type]
    assert "secret" not in str(raised.value)


def test_settings_reach_the_workers_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServerSettings(store="postgresql://db/agents", workers=3, token="t", allowed_hosts=("a", "b"))
    monkeypatch.setenv(SETTINGS_VARIABLE, "")
    store_settings(settings)
    assert load_settings() == settings
    for text in ("", "{", '{"workers": "many"}'):
        monkeypatch.setenv(SETTINGS_VARIABLE, text)
        with pytest.raises(InvalidArgument):
            load_settings()


FAILING = """
import sys
from holdfast.cli import main
from holdfast.server import run
run.FACTORY = "tests.server.workload:create_failing_app"
run.serve.__kwdefaults__["factory"] = run.FACTORY
sys.exit(main())
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_worker_that_cannot_start_ends_the_server_with_a_typed_error(tmp_path: Path, workers: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FAILING, "serve", tmp_path / "agent.db", "--workers", workers, "--port", "0", "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 4
    last = json.loads(ran.stderr.splitlines()[-1])
    assert last["error"]["type"] == "ServerFailed"
    assert "there is nothing to serve" in ran.stderr
