"""`holdfast inspect` as a command: what it serves, to whom, and that it changes nothing by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import httpx2
import pytest

import holdfast
from holdfast.access.records import KeyGrant
from holdfast.cli import main
from holdfast.cli.inspect import Target, read_targets
from holdfast.cli.settings import Settings
from holdfast.errors import InvalidArgument
from holdfast.inspector.files import PATHS
from holdfast.server.settings import ServerSettings, check_settings
from tests.server.test_authentication import bearer, make

COMMAND = [sys.executable, "-c", "import sys; from holdfast.cli import main; sys.exit(main())", "inspect"]


@contextmanager
def inspecting(*words: str | Path, number: signal.Signals = signal.SIGINT) -> Iterator[tuple[httpx2.Client, str]]:
    """The command while the block runs: a client without a key, and the token. It ends with code 0 and no traceback."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, words), "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = next((line for line in process.stdout if line.startswith("http://")), "")
        assert line, process.communicate()[1]
        url, _, token = line.strip().partition("/#key=")
        with httpx2.Client(base_url=url, timeout=60) as client:
            yield client, token.partition("&")[0]
        process.send_signal(number)
        rest, log = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, rest) == (0, "")
    assert "Traceback" not in log
    assert token not in log


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    with holdfast.open(path) as engine:
        session = engine.create_session("trip-1", user="ada", memory=True)
        session.record("user", "Ship to 12 Elm Street.")
        session.pack(budget=4_000)
        session.record("assistant", "I will.")
        session.end("done")
    return path


def read_log(path: Path) -> list[Any]:
    """All events of the store, of all tenants."""
    with holdfast.open(path) as engine:
        events: list[Any] = []
        cursor = ""
        while (page := engine.admin.feed(cursor)).events:
            events += page.events
            cursor = page.cursor
        return events


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_the_page_and_changes_nothing(store: Path, number: signal.Signals) -> None:
    before = read_log(store)
    with inspecting(store, number=number) as (client, token):
        for path in PATHS:
            assert client.get(path).status_code == 200
        assert client.get("/api/sessions").status_code == 401
        assert client.get("/api/sessions", headers=bearer("hf_local_other")).status_code == 401
        for path in ("", "/messages", "/packs", "/facts", "/model-calls", "/context/view", "/handles", "/situation"):
            assert client.get(f"/api/sessions/trip-1{path}", headers=bearer(token)).status_code == 200
        assert client.get("/api/memory/backlog", headers=bearer(token)).status_code == 200
        assert client.get("/v1/models", headers=bearer(token)).status_code == 404
        assert client.get("/api/caller", headers=bearer(token)).json()["is_local"] is True
        assert client.get("/", headers={"host": "evil.example"}).status_code == 421
        assert (
            client.get("/api/sessions", headers={**bearer(token), "origin": "http://evil.example"}).status_code == 403
        )
    assert read_log(store) == before


def test_a_store_with_keys_opens_with_the_token_of_the_command_only(store: Path) -> None:
    _, key = make(str(store), KeyGrant(name="app"))
    with inspecting(store) as (client, token):
        assert client.get("/api/sessions", headers=bearer(token)).json()["items"]
        assert client.get("/api/sessions", headers=bearer(key)).status_code == 401
    assert token.startswith("hf_local_")
    assert len(token) > 40
    with inspecting(store) as (client, other):
        assert other != token
        assert client.get("/api/sessions", headers=bearer(token)).status_code == 401


def test_read_only_refuses_every_write(store: Path) -> None:
    with inspecting(store, "--read-only") as (client, token):
        assert client.get("/api/caller", headers=bearer(token)).json()["rights"] == ["read"]
        answer = client.post("/api/sessions", json={"session": "new"}, headers=bearer(token))
        assert answer.status_code == 403
    with inspecting(store) as (client, token):
        answer = client.post("/api/sessions", json={"session": "new"}, headers=bearer(token))
        assert answer.status_code == 201


def test_a_log_is_replayed_and_its_scratch_store_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    log = tmp_path / "session.jsonl"
    lines = [
        {"role": "user", "content": "My address is 12 Elm Street."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "My address is 456 Oak Ave now."},
        {"role": "assistant", "content": "Changed."},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with inspecting(log) as (client, token):
        report = client.get("/api/sessions/session/entries/report", headers=bearer(token)).json()
        assert report["kind"] == "log-report"
    command = [*COMMAND, str(log), "--json", "--model", "gpt-5", "--policy", "frugal"]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout)
    assert (printed["calls"], printed["model"], printed["is_priced"]) == (2, "gpt-5", True)
    assert os.listdir(scratch) == []
    assert log.read_text().count("\n") == len(lines)


def test_a_server_is_opened_with_the_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def note(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", note)
    monkeypatch.setenv("HOLDFAST_KEY", "hf_0123")
    assert main(["inspect", "https://agents.example", "trip 1"]) == 0
    assert opened == ["https://agents.example/#key=hf_0123&to=/s/trip%25201"]
    monkeypatch.delenv("HOLDFAST_KEY")
    assert main(["inspect", "https://agents.example/"]) == 0
    assert opened[1] == "https://agents.example/"
    assert main(["inspect", "https://agents.example/", "--no-open"]) == 0
    assert len(opened) == 2
    capsys.readouterr()


def test_stores_logs_servers_and_sessions_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with holdfast.open("own.db"):
        pass
    Path("chat.jsonl").write_text('{"role":"user","content":"x"}\n')
    Path("notes").write_text("x")
    settings = Settings()
    assert read_targets(settings, ()) == Target()
    assert read_targets(settings, ("own.db",)) == Target(store="own.db")
    assert read_targets(settings, ("own.db", "trip-1")) == Target(store="own.db", session="trip-1")
    assert read_targets(settings, ("trip-1", "own.db"), "side") == Target(
        store="own.db", session="trip-1", thread="side"
    )
    assert read_targets(settings, ("postgresql://db/x",)) == Target(store="postgresql://db/x")
    assert read_targets(settings, ("chat.jsonl",)) == Target(log="chat.jsonl")
    assert read_targets(settings, ("absent.db",)) == Target(store="absent.db")
    assert read_targets(settings, ("users/42",)) == Target(session="users/42")
    assert read_targets(settings, ("https://a.example", "t")) == Target(server="https://a.example", session="t")
    assert read_targets(Settings(file="https://a.example"), ("t",)) == Target(server="https://a.example", session="t")
    with pytest.raises(click.UsageError):
        read_targets(settings, ("a", "b"))


def test_what_is_not_there_is_refused_and_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "absent.db"), "--no-open"]) == 3
    assert "Nothing was created" in capsys.readouterr().err
    (tmp_path / "empty.db").write_bytes(b"")
    assert main(["inspect", str(tmp_path / "empty.db"), "--no-open"]) != 0
    (tmp_path / "picture.json").write_bytes(b"\x89PNG" * 10)
    assert main(["inspect", str(tmp_path / "picture.json"), "--no-open"]) == 3
    assert sorted(os.listdir(tmp_path)) == ["empty.db", "picture.json"]
    assert not re.search("Traceback", capsys.readouterr().err)


@pytest.mark.parametrize("change", [{"host": "0.0.0.0"}, {"behind_tls": True}, {"background": True}, {"workers": 2}])
def test_a_server_for_its_owner_is_on_this_machine_only(change: dict[str, Any]) -> None:
    own = {"for_owner": True, "background": False, **change}
    with pytest.raises(InvalidArgument):
        check_settings(ServerSettings(**own))
