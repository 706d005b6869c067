"""Every operation of the native API, and the conversations of /v1, from the side of those who may not use them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast.access import keys
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.server import access_matrix
from tests.server.access_matrix import ApiRequest, Side, ask_as_owner, find_faults, prepare_store
from tests.server.native_content import fill
from tests.server.running import running
from tests.support import SOAK

PUBLIC = ("/openapi.json",)
"""Paths that need no key."""
MOST_MISSING = 25
"""The most requests that read and find nothing even as the owner: they need what no document says."""


CURSORS = re.compile(r'\bid: \d+\b|"cursor":"\d+"')
"""The cursors of the feed of a tenant. They are positions in the log of all tenants, so they tell how much is stored."""


def creates_session(request: ApiRequest) -> bool:
    return request.method in ("post", "put") and re.fullmatch(r"/api/sessions(/[^/]+)?", request.path) is not None


@contextlib.contextmanager
def both_servers(
    folder: Path, fill_for_owner: Callable[[holdfast.AsyncEngine], Awaitable[None]] | None
) -> Iterator[tuple[Side, Side]]:
    with contextlib.ExitStack() as stack:
        sides = []
        for name, filled in (("full", fill_for_owner), ("empty", None)):
            store = str(folder / f"{name}.db")
            callers = prepare_store(store, filled)
            url = stack.enter_context(running(build_app(ServerSettings(store=store, background=False))))
            sides.append(Side(url, store, callers))
        yield sides[0], sides[1]


def test_no_operation_tells_anybody_what_is_not_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "REFUSAL_PAUSE_S", 0.0)
    monkeypatch.setattr(access_matrix, "VOLATILE", (*access_matrix.VOLATILE, (CURSORS, "<cursor>")))
    samples: dict[str, Any] = {}

    async def fill_for_owner(engine: holdfast.AsyncEngine) -> None:
        samples.update(await fill(engine))

    with both_servers(tmp_path, fill_for_owner) as (full, empty):
        document = httpx2.get(f"{full.url}/api/openapi.json", headers=full.keys["owner"]).json()
        assert len(document["paths"]) > 100
        document["paths"] = {path: item for path, item in document["paths"].items() if path not in PUBLIC}
        faults = find_faults(document, full, empty, samples, is_late=creates_session, is_thorough=SOAK)
        assert faults == []
        statuses = ask_as_owner(document, full, samples)
        missing = {request: status for request, status in statuses.items() if status != 200}
        assert len(missing) <= MOST_MISSING, missing


V1_PATHS = {
    "/conversations": ("post",),
    "/conversations/{conversation}": ("get", "post", "delete"),
    "/conversations/{conversation}/items": ("get", "post"),
    "/conversations/{conversation}/items/{item}": ("get", "delete"),
    "/responses": ("post",),
    "/responses/{response}": ("get", "delete"),
    "/responses/{response}/input_items": ("get",),
    "/responses/{response}/cancel": ("post",),
    "/models": ("get",),
}


def build_v1_document(samples: dict[str, Any]) -> dict[str, Any]:
    fields = {name: {"type": "object"} for name in samples}
    schema = {"type": "object", "required": ["items", "metadata", "input", "model"], "properties": fields}
    body = {"content": {"application/json": {"schema": schema}}}

    def describe(path: str, method: str) -> dict[str, Any]:
        named = [{"name": name, "in": "path", "required": True} for name in re.findall(r"{(\w+)}", path)]
        return {"parameters": named, **({"requestBody": body} if method == "post" else {})}

    paths = {path: {method: describe(path, method) for method in methods} for path, methods in V1_PATHS.items()}
    return {"servers": [{"url": "/v1"}], "paths": paths}


def test_no_conversation_of_v1_is_anybody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "REFUSAL_PAUSE_S", 0.0)
    with both_servers(tmp_path, None) as (full, empty):
        items = [{"type": "message", "role": "user", "content": f"To {access_matrix.MARKER}, please."}]
        owner = httpx2.Client(base_url=f"{full.url}/v1", headers=full.keys["owner"])
        with owner:
            made = owner.post("/conversations", json={"items": items}).json()
            listed = owner.get(f"/conversations/{made['id']}/items").json()["data"]
            assert access_matrix.MARKER in str(listed)
            samples = {
                "conversation": made["id"],
                "item": listed[0]["id"],
                "response": "resp_" + "0" * 48,
                "items": [{"type": "message", "role": "user", "content": "hello"}],
                "metadata": {"a": "b"},
                "input": "hello",
                "model": "m1",
            }
            document = build_v1_document(samples)
            assert find_faults(document, full, empty, samples, is_thorough=True) == []
            assert owner.get(f"/conversations/{made['id']}/items").json()["data"] == listed, "nobody changed it"
