"""The matrix finds what a route must not do: on a small application that does it right, and on ones that do not."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import holdfast
from holdfast.access import keys
from holdfast.access.access import create_session, ledger_for, list_sessions, open_session
from holdfast.api.problems import MEDIA_TYPE, build_problem, status_of
from holdfast.errors import HoldfastError
from holdfast.server.authentication import access_layers, open_access
from holdfast.server.context import access_of, engine_of, whole_engine
from holdfast.server.settings import ServerSettings
from holdfast.types import LedgerId
from tests.server.access_matrix import MARKER, OWNER, TENANT, Side, build_requests, find_faults, prepare_store
from tests.server.running import running


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "REFUSAL_PAUSE_S", 0.0)


Handler: TypeAlias = Callable[[Request], Any]
SAMPLES = {"session": "private-trip", "user": "ada", "actor": "ada", "text": "hello"}


async def fill(engine: holdfast.AsyncEngine) -> None:
    session = await engine.create_session("private-trip", actor="ada", user="ada", identity=OWNER)
    await session.record("user", f"To {MARKER}, please.")
    await engine.ledger(user="ada").set("city", MARKER)


# The routes as they should be


async def get_sessions(request: Request) -> Any:
    rows = await list_sessions(engine_of(request), access_of(request))
    return [row.session for row in rows]


async def post_session(request: Request) -> Any:
    access, body = access_of(request), await request.json()
    session = await create_session(engine_of(request), access, "new", user=body.get("user"), actor=body.get("actor"))
    return {"session": session.scope.session}


async def get_messages(request: Request) -> Any:
    access = access_of(request)
    access.check("read")
    actor = request.query_params.get("actor")
    session = await open_session(engine_of(request), access, request.path_params["session"], actor=actor)
    return [message.text for message in await session.messages()]


async def post_message(request: Request) -> Any:
    access = access_of(request)
    access.check("write")
    session = await open_session(engine_of(request), access, request.path_params["session"])
    await session.record("user", (await request.json())["text"])
    return {}


async def get_facts(request: Request) -> Any:
    access = access_of(request)
    ledger = await ledger_for(
        engine_of(request), access, LedgerId(access.tenant, "user", (request.path_params["user"],))
    )
    return [fact.value for fact in await ledger.items()]


GOOD: dict[str, tuple[str, str, Handler]] = {
    "sessions": ("get", "/api/sessions", get_sessions),
    "create": ("post", "/api/sessions", post_session),
    "messages": ("get", "/api/sessions/{session}/messages", get_messages),
    "record": ("post", "/api/sessions/{session}/messages", post_message),
    "facts": ("get", "/api/users/{user}/facts", get_facts),
}

BODY = {
    "required": ["text"],
    "type": "object",
    "properties": {"text": {"type": "string"}, "user": {"type": "string"}, "actor": {"type": "string"}},
}


def build_document(routes: dict[str, tuple[str, str, Handler]]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for method, path, _ in routes.values():
        named = [each.strip("{}") for each in path.split("/") if each.startswith("{")]
        operation: dict[str, Any] = {
            "parameters": [{"name": name, "in": "path", "required": True} for name in named]
            + [{"name": "actor", "in": "query", "schema": {"type": "string"}}],
        }
        if method != "get":
            operation["requestBody"] = {"$ref": "#/components/requestBodies/Body"}
        paths.setdefault(path, {})[method] = operation
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}}}
    return {"paths": paths, "components": {"requestBodies": {"Body": body}, "schemas": {"Body": BODY}}}


def build_small_app(store: str, routes: dict[str, tuple[str, str, Handler]]) -> Starlette:
    settings = ServerSettings(store=store)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with await holdfast.open_async(store) as app.state.engine:
            await open_access(app, app.state.engine, settings)
            yield

    def answered(handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            try:
                return JSONResponse(await handler(request))
            except HoldfastError as error:
                return JSONResponse(build_problem(error, ""), status_code=status_of(error), media_type=MEDIA_TYPE)

        return answer

    listed = [Route(path, answered(handler), methods=[method]) for method, path, handler in routes.values()]
    return Starlette(routes=listed, middleware=access_layers(settings), lifespan=lifespan)


@contextlib.contextmanager
def both_sides(folder: Path, routes: dict[str, tuple[str, str, Handler]]) -> Iterator[tuple[Side, Side]]:
    with contextlib.ExitStack() as stack:
        sides = []
        for name, filled in (("full", fill), ("empty", None)):
            store = str(folder / f"{name}.db")
            callers = prepare_store(store, filled)
            url = stack.enter_context(running(build_small_app(store, routes)))
            sides.append(Side(url, store, callers))
        yield sides[0], sides[1]


def test_routes_that_use_the_access_have_no_faults(tmp_path: Path) -> None:
    document = build_document(GOOD)
    assert len(list(build_requests(document, SAMPLES))) == 2 * len(GOOD)
    with both_sides(tmp_path, GOOD) as (full, empty):
        assert find_faults(document, full, empty, SAMPLES) == []
        words = httpx2.get(f"{full.url}/api/sessions/private-trip/messages", headers=full.keys["owner"])
        assert MARKER in words.text, "there is something to find"
        facts = httpx2.get(f"{full.url}/api/users/ada/facts", headers=full.keys["owner"])
        assert MARKER in facts.text


# Routes as they should not be


async def read_anything(request: Request) -> Any:
    engine = whole_engine(request).acting_as(tenant=TENANT)
    session = await engine.session(request.path_params["session"], actor="ada")
    return [message.text for message in await session.messages()]


async def read_the_whole_tenant(request: Request) -> Any:
    session = await engine_of(request).session(request.path_params["session"], actor="ada")
    return [message.text for message in await session.messages()]


async def count_all(request: Request) -> Any:
    return {"total": len(await engine_of(request).sessions())}


async def tell_that_it_exists(request: Request) -> Any:
    if await whole_engine(request).acting_as(tenant=TENANT).sessions(actor="ada"):
        return {"error": "forbidden"}
    return {"error": "not found"}


async def write_as_a_reader(request: Request) -> Any:
    session = await engine_of(request).session("log", create=True, actor=access_of(request).actor or "main")
    await session.record("user", "was here")
    return {}


async def tell_nothing(_request: Request) -> Any:
    return {}


async def write_elsewhere(request: Request) -> Any:
    engine = whole_engine(request).acting_as(tenant=TENANT)
    access_of(request).check("write")
    await (await engine.session("shared", create=True)).record("user", "was here")
    return {}


BAD: dict[str, tuple[str, str, Handler]] = {
    "anything": ("get", "/api/anything/{session}", read_anything),
    "tenant": ("get", "/api/tenant/{session}", read_the_whole_tenant),
    "count": ("get", "/api/count", count_all),
    "exists": ("get", "/api/exists", tell_that_it_exists),
    "reader": ("get", "/api/reader", write_as_a_reader),
    "elsewhere": ("post", "/api/elsewhere", write_elsewhere),
    "open": ("get", "/healthz", tell_nothing),
}


def test_routes_that_leak_are_found(tmp_path: Path) -> None:
    with both_sides(tmp_path, BAD) as (full, empty):
        faults = find_faults(build_document(BAD), full, empty, SAMPLES)
    for expected in (
        "GET /api/anything/private-trip: another tenant reads content",
        "GET /api/anything/private-trip: another user gets (200",
        "GET /api/tenant/private-trip: another user reads content",
        "GET /api/count: another user gets (200",
        'GET /api/exists: another tenant gets (200, \'{"error":"forbidden"}\'',
        "a reader stored message.recorded in session acme/ada/log",
        "a reader stored message.recorded in session acme/main/log",
        "a stranger stored message.recorded in session acme/main/shared",
        "GET /healthz: a caller without a valid key gets [200]",
    ):
        assert any(each.startswith(expected) for each in faults), (expected, faults)
    assert not any("GET /api/tenant/private-trip: another tenant" in each for each in faults)
    assert not any("GET /api/count: another tenant" in each for each in faults)
