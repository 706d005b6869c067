"""The services by their addresses, as `adk web` and `adk api_server` open them, and the server itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from google.adk.cli import service_registry
from google.adk.cli.fast_api import get_fast_api_app

import holdfast
from holdfast.adk import ArtifactService, MemoryService, SessionService, open_uri
from holdfast.errors import InvalidArgument

SERVICES = """
services:
  - {scheme: holdfast, type: session, class: holdfast.adk.SessionService}
  - {scheme: holdfast, type: memory, class: holdfast.adk.MemoryService}
  - {scheme: holdfast, type: artifact, class: holdfast.adk.ArtifactService}
"""
AGENT = """
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

import holdfast.adk


class EchoModel(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        asked = [part.text for content in llm_request.contents for part in content.parts if part.text][:-1]
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=f"{len(asked)}: {asked[-1]}")]))


plugin = holdfast.adk.Plugin(uri="URI", budget=8_000)
app = App(name="desk", root_agent=LlmAgent(name="desk_agent", model=EchoModel(model="echo")), plugins=[plugin])
"""


@pytest.fixture
def uri(url: str) -> Iterator[str]:
    address = f"holdfast:{url}" if "://" in url else f"holdfast:///{url}"
    yield address
    open_uri(address).close()


@pytest.fixture
def agents(folder: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of agents, and an empty registry of services."""
    path = folder / "agents"
    (path / "desk").mkdir(parents=True)
    (path / "services.yaml").write_text(SERVICES)
    (path / "desk" / "__init__.py").write_text("from . import agent\n")
    (path / "desk" / "agent.py").write_text(AGENT.replace("URI", uri))
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield path
    forget_agents()


def forget_agents() -> None:
    """Forget what ADK has loaded, as a new process has."""
    service_registry._service_registry_instance = None
    for name in [name for name in sys.modules if name == "desk" or name.startswith("desk.")]:
        del sys.modules[name]


def test_the_registry_opens_services_by_their_address(agents: Path, uri: str) -> None:
    service_registry.load_services_module(str(agents))
    registry = service_registry.get_service_registry()
    sessions = registry.create_session_service(uri, agents_dir=str(agents))
    memories = registry.create_memory_service(uri, agents_dir=str(agents))
    artifacts = registry.create_artifact_service(uri, agents_dir=str(agents))
    assert isinstance(sessions, SessionService)
    assert isinstance(memories, MemoryService)
    assert isinstance(artifacts, ArtifactService)
    assert sessions.engine is memories.engine is artifacts.engine is open_uri(uri)


def test_an_address_and_an_engine_are_not_mixed(file_engine: holdfast.Engine) -> None:
    with pytest.raises(InvalidArgument, match="not both"):
        SessionService(file_engine, uri="holdfast:///x.db")
    with pytest.raises(InvalidArgument, match="engine"):
        SessionService()


def test_the_server_of_adk_runs_on_holdfast_and_goes_on_after_a_restart(agents: Path, uri: str) -> None:
    def serve() -> TestClient:
        app = get_fast_api_app(
            agents_dir=str(agents),
            session_service_uri=uri,
            artifact_service_uri=uri,
            memory_service_uri=uri,
            web=False,
        )
        return TestClient(app, base_url="http://127.0.0.1:8000")

    def ask(client: TestClient, text: str) -> list[dict[str, Any]]:
        message = {"role": "user", "parts": [{"text": text}]}
        body = {"appName": "desk", "userId": "ada", "sessionId": "s1", "newMessage": message}
        answer = client.post("/run", json=body)
        assert answer.status_code == 200, answer.text
        events: list[dict[str, Any]] = answer.json()
        return events

    sessions = "/apps/desk/users/ada/sessions"
    with serve() as client:
        assert client.get("/list-apps").json() == ["desk"]
        created = client.post(f"{sessions}/s1", json={"user:plan": "gold"})
        assert created.status_code == 200, created.text
        assert client.post(f"{sessions}/s1").status_code == 409
        assert ask(client, "Hello?")[-1]["content"]["parts"][0]["text"] == "1: Hello?"
    open_uri(uri).close()
    forget_agents()
    with serve() as client:
        assert ask(client, "Still there?")[-1]["content"]["parts"][0]["text"] == "3: Still there?"
        assert [each["id"] for each in client.get(sessions).json()] == ["s1"]
        loaded = client.get(f"{sessions}/s1").json()
        assert loaded["state"] == {"user:plan": "gold"}
        texts = [event["content"]["parts"][0]["text"] for event in loaded["events"]]
        assert texts == ["Hello?", "1: Hello?", "Still there?", "3: Still there?"]
        session = open_uri(uri).session("s1", actor="desk/ada")
        assert [message.text for message in session.messages()] == texts
        assert len(session.packs.list()) == 2
        assert client.delete(f"{sessions}/s1").status_code == 200
        assert client.get(f"{sessions}/s1").status_code == 404
        assert open_uri(uri).admin.verify().ok
