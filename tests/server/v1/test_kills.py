"""kill -9 of a real server process at each step of a response: nothing is lost, nothing is doubled, and the same request
with the same key gets one answer."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

import holdfast
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.protocols import Reply, Talk
from tests.server.running import running
from tests.server.v1.conftest import first_text
from tests.server.v1.server_process import POINTS
from tests.server.v1.serving import KEY, build_settings
from tests.server.v1.upstream import ModelServer, echo, model_server
from tests.support import PATIENCE_S, SOAK

POLL_S = 0.05
LEASE_S = 2.0
"""How long after its death a server is still believed to work; a live one on a busy machine must renew it in time."""
HELD = {f"held before event {number}": number for number in range(6)}
"""The points at which the upstream holds the stream when the process is killed."""
QUICK = ("input recorded", "reply recorded", "held before event 3")


@contextlib.contextmanager
def server_process(settings: ServerSettings, point: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "tests.server.v1.server_process", msgspec.json.encode(settings).decode()]
    environment = {**os.environ, "UPSTREAM_KEY": "x"}
    process = subprocess.Popen(
        [*command, *([point] if point else [])], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        yield process, f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        process.stdout.close()


@contextlib.contextmanager
def serving_again(settings: ServerSettings) -> Iterator[str]:
    """Another server on the store, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSTREAM_KEY", "x")
        with running(build_app(settings)) as url:
            yield f"{url}/v1"


def client_of(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key=KEY, max_retries=0)


def ask(client: openai.OpenAI, options: Any, names: list[str]) -> None:
    """Ask, and note the id of the response if it is seen before the server dies."""
    with contextlib.suppress(openai.APIError, Exception):
        for event in client.responses.create(**options, stream=True):
            if event.type == "response.created":
                names.append(event.response.id)


def kill_in_the_middle(model: ModelServer, settings: ServerSettings, point: str, options: Any) -> list[str]:
    """Ask a server that is killed at a point. Returns the ids of responses that were seen."""
    names: list[str] = []
    with server_process(settings, point if point in POINTS else "") as (process, url), client_of(url) as client:
        if point in POINTS:
            ask(client, options, names)
            assert process.wait(PATIENCE_S) == -9
            return names
        model.gate.hold(HELD[point])
        asking = threading.Thread(target=ask, args=(client, options, names))
        asking.start()
        assert model.gate.reached.wait(PATIENCE_S)
        process.kill()
        asking.join(PATIENCE_S)
        model.gate.release()
    return names


@pytest.mark.parametrize("point", [*POINTS, *HELD] if SOAK else QUICK)
def test_a_response_survives_a_kill(tmp_path: Path, point: str) -> None:
    with model_server(echo) as (model, address):
        store = str(tmp_path / "agent.db")
        with holdfast.open(store) as engine:
            engine.session("talk", create=True)
        settings = build_settings(store, upstream=address, upstream_kind="openai", turn_lease_s=LEASE_S)
        options: Any = {"model": "m1", "input": "hello", "conversation": "talk"}
        options["extra_headers"] = {"Idempotency-Key": "once"}
        names = kill_in_the_middle(model, settings, point, options)
        with serving_again(settings) as url, client_of(url) as client:
            response = client.responses.create(**options)
            assert (response.status, response.output_text) == ("completed", "You said: hello")
            assert all(name == response.id for name in names)
            asked = len(model.asked)
            assert client.responses.create(**options).to_dict() == response.to_dict()
            assert client.responses.retrieve(response.id).to_dict() == response.to_dict()
            with client.responses.stream(**options) as stream:
                assert stream.get_final_response().id == response.id
            assert len(model.asked) == asked
            items = [first_text(item) for item in client.conversations.items.list("talk", order="asc")]
            assert items == ["hello", "You said: hello"]
            follow = client.responses.create(model="m1", input="more", conversation="talk")
            assert follow.output_text == "You said: more"
        assert model.refused == []
        with holdfast.open(store) as engine:
            assert engine.admin.verify().ok
            assert len([m for m in engine.session("talk").messages() if m.role == "user"]) == 2


HINT = "Call read_handle."


def reads(talk: Talk) -> Reply:
    """A model that reads a handle first."""
    if talk.turns[-1].results:
        return Reply("It is read.")
    return Reply("Let me look.", (("read_handle", {"handle": "h1_0"}),))


def test_a_response_goes_on_after_a_tool_of_the_engine(tmp_path: Path) -> None:
    with model_server(reads) as (model, address):
        settings = build_settings(
            str(tmp_path / "agent.db"), upstream=address, upstream_kind="openai", turn_lease_s=LEASE_S
        )
        with holdfast.open(settings.store) as engine:
            engine.session("talk", create=True)
            engine.session("again", create=True)
        other: Any = {"model": "m1", "input": HINT, "conversation": "talk"}
        kill_in_the_middle(model, settings, "reply recorded", other)
        again: Any = {**other, "conversation": "again"}
        kill_in_the_middle(model, settings, "reply recorded", again)
        options: Any = {"model": "m1", "input": HINT, "extra_headers": {"Idempotency-Key": "once"}}
        names = kill_in_the_middle(model, settings, "reply recorded", options)
        with serving_again(settings) as url, client_of(url) as client:
            follow = client.responses.create(**{**other, "input": "something else"})
            assert follow.status == "completed", "a call that only the server can answer stops nobody"
            assert client.responses.create(**again).status == "completed"
            listed = [first_text(item) for item in client.conversations.items.list("again", order="asc")]
            assert listed == [HINT, "Let me look.", "It is read."], "without a key, nothing is recorded twice"
            model.asked.clear()
            response = client.responses.create(**options)
            assert [first_text(item) for item in response.output] == ["Let me look.", "It is read."]
            assert names in ([], [response.id])
            assert client.responses.retrieve(response.id).to_dict() == response.to_dict()
        assert len(model.asked) == 1
        assert model.refused == []


def test_a_response_in_the_background_does_not_stay_in_progress_for_ever(tmp_path: Path) -> None:
    with model_server(echo) as (model, address):
        settings = build_settings(
            str(tmp_path / "agent.db"), upstream=address, upstream_kind="openai", turn_lease_s=LEASE_S
        )
        model.gate.hold(2)
        with server_process(settings) as (process, url), client_of(url) as client:
            response = client.responses.create(model="m1", input="hello", background=True)
            assert model.gate.reached.wait(PATIENCE_S)
            process.kill()
        model.gate.release()
        with serving_again(settings) as url, client_of(url) as client:
            for _ in range(int(PATIENCE_S / POLL_S)):
                stored = client.responses.retrieve(response.id)
                if stored.status != "in_progress":
                    break
                threading.Event().wait(POLL_S)
            assert stored.status == "failed"
            assert stored.error is not None
            assert "stopped" in stored.error.message
