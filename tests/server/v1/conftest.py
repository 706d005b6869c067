"""A server of /v1 for each language of the upstream, with the model server behind it and the official client before it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import openai
import pytest

import holdfast
from tests.protocols import Reply, Talk
from tests.server.v1.serving import key_of, serving
from tests.server.v1.upstream import KINDS, ModelServer, echo, model_server

TOOL: Any = {
    "type": "function",
    "name": "look_up",
    "description": "Look up a word.",
    "parameters": {
        "type": "object",
        "properties": {"word": {"type": "string"}},
        "required": ["word"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Desk(NamedTuple):
    """A running server, and all that stands around it."""

    client: openai.OpenAI
    http: httpx2.Client
    model: ModelServer
    url: str
    store: str
    kind: str

    def key(self, name: str) -> str:
        """A key of another caller."""
        return _find_key(self.store, name)

    def script(self, script: Any) -> None:
        """What the model says from now on."""
        self.model._script = script

    @property
    def sent(self) -> dict[str, Any]:
        """The last request that the model got."""
        return self.model.asked[-1].body


@pytest.fixture(scope="session")
def open_desks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Desk]]:
    """One server for each language, for all tests that need nothing of their own."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def find_desk(kind: str) -> Desk:
            return stack.enter_context(open_desk(kind, tmp_path_factory.mktemp("desk")))

        yield find_desk


@contextlib.contextmanager
def open_desk(kind: str, folder: Path, **settings: Any) -> Iterator[Desk]:
    store = str(folder / "agent.db")
    key = key_of(store, "program")
    with (
        pytest.MonkeyPatch.context() as patch,
        model_server(echo) as (model, address),
        serving(store, **{"upstream": address, "upstream_kind": kind, **settings}) as url,
        openai.OpenAI(base_url=url, api_key=key, max_retries=0) as client,
        httpx2.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60) as http,
    ):
        patch.setenv("UPSTREAM_KEY", "secret-of-the-upstream")
        yield Desk(client, http, model, url, store, kind)
    with holdfast.open(store) as engine:
        assert engine.admin.verify().ok


def reset(desk: Desk) -> Iterator[Desk]:
    desk.script(echo)
    desk.model.asked.clear()
    desk.model.refused.clear()
    desk.model.options.clear()
    yield desk
    desk.model.gate.release()
    desk.model.weather = lambda body: 0
    desk.model.patience = lambda: None


@pytest.fixture(params=list(KINDS))
def desk(open_desks: Callable[[str], Desk], request: pytest.FixtureRequest) -> Iterator[Desk]:
    """With each language of the upstream."""
    yield from reset(open_desks(request.param))


@pytest.fixture
def chat_desk(open_desks: Callable[[str], Desk]) -> Iterator[Desk]:
    """With one language, for what does not depend on it."""
    yield from reset(open_desks("openai"))


_find_key = functools.cache(key_of)


def first_text(item: Any) -> str:
    """The text of an item of any type that has one."""
    text: str = item.content[0].text
    return text


def say(text: str, *calls: tuple[str, dict[str, Any]], thought: str = "") -> Any:
    """A model that always says the same."""

    def script(_: Talk) -> Reply:
        return Reply(text, calls, thought)

    return script
