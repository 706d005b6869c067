"""Jobs: long work of a server, seen by every replica, also when the process that did it is gone."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast.access.records import KeyGrant
from holdfast.model.sessions.layers import Identity
from holdfast.server.native import job_records, jobs
from tests.server.native.serving import PATIENCE_S, STORES, TOKEN, ApiClient, make_keys, serving, serving_on
from tests.support import figure

ROUNDS = figure(4, 100)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    with serving(tmp_path_factory.mktemp("jobs")) as api:
        api.ok("POST", "/sessions", {"session": "s", "user": "ada"})
        talk = [["user", "Ship the lamp."], ["assistant", "Done."]]
        api.ok("POST", "/sessions/s/messages/batch", {"messages": talk})
        yield api


def run_job(api: ApiClient, **demand: Any) -> dict[str, Any]:
    """Start a job, and wait for its end."""
    started = api.send("POST", "/jobs", demand)
    assert started.status_code == 202, started.text
    return wait_for(api, started.headers["location"].removeprefix("/api"))


def wait_for(api: ApiClient, path: str) -> dict[str, Any]:
    last = time.monotonic() + PATIENCE_S
    while True:
        job: dict[str, Any] = api.ok("GET", path)
        if job["status"] not in ("waiting", "running"):
            return job
        assert time.monotonic() < last, job
        time.sleep(0.01)


def test_verify_rebuild_and_doctor(api: ApiClient) -> None:
    verified = run_job(api, what="verify")
    assert (verified["status"], verified["result"]["problems"]) == ("done", [])
    assert verified["done"] == verified["total"] > 0
    assert run_job(api, what="rebuild")["result"] >= 1
    found = run_job(api, what="doctor", full=True)["result"]
    assert (found["ok"], found["bad"]) == (True, 0)
    names = [each["name"] for each in found["checks"]]
    assert names[0] == "library"
    assert names[-1] == "contents"


@pytest.mark.parametrize("store", STORES)
def test_a_store_is_verified_while_others_write(tmp_path: Path, store: str) -> None:
    with serving_on(store, tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        is_over = threading.Event()

        def write() -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                api.ok("POST", "/sessions/s/messages", {"message": "user", "content": f"message {number}"})
                api.ok("PUT", f"/sessions/s/facts/keys/k{number % 5}", {"value": number})

        writer = threading.Thread(target=write)
        writer.start()
        try:
            found = [run_job(api, what="verify")["result"]["problems"] for _ in range(ROUNDS)]
        finally:
            is_over.set()
            writer.join()
        assert found == [[]] * ROUNDS


def test_jobs_on_postgresql(tmp_path: Path) -> None:
    with serving_on("postgres", tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s", "user": "ada"})
        api.ok("POST", "/sessions/s/messages", {"message": "user", "content": "Ship the lamp."})
        assert run_job(api, what="verify")["result"]["problems"] == []
        assert run_job(api, what="doctor")["result"]["bad"] == 0
        exported = run_job(api, what="export")
        assert b"Ship the lamp." in api.send("GET", f"/jobs/{exported['id']}/file").content
        assert run_job(api, what="backup")["status"] == "failed"


def test_an_export_is_downloaded_and_imported_elsewhere(api: ApiClient, tmp_path: Path) -> None:
    exported = run_job(api, what="export")
    path = f"/jobs/{exported['id']}/file"
    file = api.send("GET", path)
    assert file.headers["content-disposition"] == f'attachment; filename="export-{exported["id"]}.jsonl"'
    assert api.send("GET", path, headers={"Range": "bytes=0-9"}).content == file.content[:10]
    with serving(tmp_path) as other:
        body = other.ok("POST", "/blobs", content=file.content)
        assert run_job(other, what="import", body=body)["result"] == exported["result"]
        assert other.items("/sessions/s/messages")[0]["content"][0]["text"] == "Ship the lamp."
        cut = other.ok("POST", "/blobs", content=file.content[:-20])
        refused = run_job(other, what="import", body=cut)
        assert (refused["status"], refused["error"]["type"]) == ("failed", "ImportRefused")


def test_a_backup_is_a_store(api: ApiClient, tmp_path: Path) -> None:
    backup = run_job(api, what="backup")
    with tarfile.open(fileobj=io.BytesIO(api.send("GET", f"/jobs/{backup['id']}/file").content)) as tar:
        tar.extractall(tmp_path, filter="data")
    with holdfast.open(tmp_path / "agent.db") as engine:
        assert [each.text for each in engine.session("s").messages()] == ["Ship the lamp.", "Done."]


def test_transcripts(api: ApiClient) -> None:
    exported = run_job(api, what="export_transcript", session="s")
    body = api.ok("POST", "/blobs", content=api.send("GET", f"/jobs/{exported['id']}/file").content)
    imported = run_job(api, what="import_transcript", session="copy", body=body, metadata={"from": "s"})
    assert imported["result"]["session"] == "copy"
    assert len(api.items("/sessions/copy/messages")) == 2


def test_the_same_request_again_is_the_same_job(api: ApiClient) -> None:
    first, second = (
        api.ok("POST", "/jobs", {"what": "verify"}, headers={"Idempotency-Key": "nightly"}) for _ in range(2)
    )
    assert first["id"] == second["id"]
    assert first["id"] in [each["id"] for each in api.items("/jobs")]


@pytest.mark.parametrize(
    "demand",
    [{"what": "import"}, {"what": "no"}, {}, {"what": "verify", "more": 1}, {"what": "export_transcript"}],
)
def test_a_wrong_job_is_refused(api: ApiClient, demand: dict[str, Any]) -> None:
    assert api.problem("POST", "/jobs", demand)[:2] == (422, "InvalidArgument")


def test_an_unknown_job(api: ApiClient) -> None:
    for verb, path in (("GET", "/jobs/x"), ("DELETE", "/jobs/x"), ("GET", "/jobs/x/file")):
        assert api.problem(verb, path)[:2] == (404, "JobNotFound")
    verified = run_job(api, what="verify")
    assert api.problem("GET", f"/jobs/{verified['id']}/file")[:2] == (404, "Absent")


def test_a_file_can_be_removed(api: ApiClient) -> None:
    exported = run_job(api, what="export_transcript", session="s")
    api.ok("DELETE", f"/jobs/{exported['id']}")
    assert api.problem("GET", f"/jobs/{exported['id']}/file")[:2] == (404, "BlobNotFound")


def test_a_job_is_cancelled_at_another_replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "BEAT_S", 0.02)
    with serving(tmp_path) as api, serving(tmp_path) as other:
        api.ok("POST", "/sessions", {"session": "s"})

        async def never_ends(job: jobs.RunningJob, _folder: str) -> jobs.Outcome:
            for step in range(100_000):
                job.advance(step, 100_000)
                await asyncio.sleep(0.005)
            raise AssertionError("it was not cancelled")

        monkeypatch.setitem(jobs._WORK, "verify", never_ends)
        job = api.ok("POST", "/jobs", {"what": "verify"})
        path = f"/jobs/{job['id']}"
        while other.ok("GET", path).get("done", 0) == 0:
            time.sleep(0.01)
        assert other.ok("GET", path)["status"] == "running"
        other.ok("DELETE", path)
        assert wait_for(api, path)["status"] == "cancelled"
        assert wait_for(other, path)["status"] == "cancelled"


def test_who_may_see_a_job(tmp_path: Path) -> None:
    keys = make_keys(
        tmp_path,
        KeyGrant(name="ada", rights=("read", "write"), identity=Identity(user_id="ada")),
        KeyGrant(name="desk", rights=("read", "write")),
        KeyGrant(name="stranger", rights=("read", "write"), tenant="elsewhere"),
    )
    with serving(tmp_path) as api:
        ada, desk, stranger = map(api.with_key, keys)
        ada.ok("PUT", "/sessions/mine", {"create": True})
        job = run_job(ada, what="export_transcript", session="mine")
        assert api.ok("GET", f"/jobs/{job['id']}")["by"] == "ada"
        for other in (desk, stranger):
            assert other.problem("GET", f"/jobs/{job['id']}")[:2] == (404, "JobNotFound")
            assert other.items("/jobs") == []
            assert other.problem("POST", "/jobs", {"what": "verify"})[:2] == (403, "RightMissing")
        refused = ada.problem("POST", "/jobs", {"what": "export_transcript", "session": "mine", "actor": "bob"})
        assert refused[:2] == (404, "SessionNotFound")
        body = desk.ok("POST", "/blobs", content=b"x")
        importing = {"what": "import_transcript", "session": "x", "body": body}
        assert ada.problem("POST", "/jobs", importing)[:2] == (403, "AccessRefused")


SERVER = """
import asyncio, sys
import uvicorn
from holdfast.server.app import build_app
from holdfast.server.native import jobs
from holdfast.server.settings import ServerSettings

async def never_ends(job, folder):
    job.advance(1, 2)
    await asyncio.sleep(3600)

jobs._WORK["verify"] = never_ends
app = build_app(ServerSettings(store=sys.argv[1], token=sys.argv[2], background=False))
uvicorn.run(app, port=int(sys.argv[3]), log_level="warning")
"""


def test_a_job_whose_process_was_killed_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_records, "LIFE_S", 0.5)
    with serving(tmp_path) as api:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-c", SERVER, str(tmp_path / "agent.db"), TOKEN, str(port)]
        process = subprocess.Popen(command, env=os.environ)
        other = api.with_key(api.key)
        other.http.base_url = f"http://127.0.0.1:{port}/api"
        try:
            wait_until_up(other)
            path = f"/jobs/{other.ok('POST', '/jobs', {'what': 'verify'})['id']}"
            assert api.ok("GET", path)["status"] in ("waiting", "running")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        failed = wait_for(api, path)
        assert (failed["status"], failed["error"]["type"]) == ("failed", "ServerFailed")
        assert "has ended" in failed["error"]["detail"]
        assert api.ok("GET", path) == failed


def wait_until_up(api: ApiClient) -> None:
    last = time.monotonic() + PATIENCE_S
    while True:
        try:
            api.ok("GET", "/sessions")
        except httpx2.TransportError:
            assert time.monotonic() < last, "the server did not start"
            time.sleep(0.05)
        else:
            return


@pytest.mark.parametrize(
    ("demand", "argument", "part"),
    [
        ({"what": "transcript"}, "what", "it is not one of verify, rebuild, doctor, export, import, "),
        ({"job": "export"}, "body", "its fields are what, full, body, session"),
        ({"what": "doctor", "full": "yes"}, "full", "Expected `bool`, got `str`."),
    ],
)
def test_a_demand_that_cannot_be_read_is_refused_with_what_it_may_be(
    api: ApiClient, demand: object, argument: str, part: str
) -> None:
    status, _, problem = api.problem("POST", "/jobs", demand)
    assert (status, problem["attributes"]["argument"]) == (422, argument)
    assert part in problem["detail"]
