"""The routes of /v1. Whatever goes wrong in one is answered in the envelope of OpenAI."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.server.context import request_id_of
from holdfast.server.v1 import conversations, models, responses
from holdfast.server.v1.errors import ApiError, build_error
from holdfast.server.v1.runs import Runs

PREFIX = "/v1"


def routes() -> list[BaseRoute]:
    """All routes of /v1."""
    conversation = f"{PREFIX}/conversations/{{conversation}}"
    item = f"{conversation}/items/{{item}}"
    response = f"{PREFIX}/responses/{{response}}"
    table: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("POST", f"{PREFIX}/conversations", conversations.create),
        ("GET", conversation, conversations.retrieve),
        ("POST", conversation, conversations.update),
        ("DELETE", conversation, conversations.delete),
        ("POST", f"{conversation}/items", conversations.create_items),
        ("GET", f"{conversation}/items", conversations.list_items),
        ("GET", item, conversations.retrieve_item),
        ("DELETE", item, conversations.delete_item),
        ("POST", f"{PREFIX}/responses", responses.create),
        ("POST", f"{PREFIX}/responses/compact", responses.compact),
        ("POST", f"{PREFIX}/responses/input_tokens", responses.count_input),
        ("GET", response, responses.retrieve),
        ("DELETE", response, responses.delete),
        ("POST", f"{response}/cancel", responses.cancel),
        ("GET", f"{response}/input_items", responses.list_input),
        ("GET", f"{PREFIX}/models", models.list_models),
        ("GET", f"{PREFIX}/models/{{model:path}}", models.retrieve),
    ]
    built: list[BaseRoute] = [
        Route(path, _answer_errors(endpoint), methods=[method]) for method, path, endpoint in table
    ]
    every = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    return [*built, Route(f"{PREFIX}/{{rest:path}}", _answer_errors(refuse_path), methods=every)]


@contextlib.asynccontextmanager
async def resources(app: Starlette) -> AsyncIterator[None]:
    """What /v1 holds while the application runs: the connections to the upstream, and the responses that it works on."""
    async with Runs() as app.state.v1_runs:
        yield


async def refuse_path(request: Request) -> Response:
    raise ApiError(404, f"Invalid URL ({request.method} {request.url.path})", code="unknown_url")


def _answer_errors(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:  # noqa: BLE001 - every failure has an answer in this envelope
            return build_error(error, request_id_of(request))

    return answer
