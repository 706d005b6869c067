"""The models of the upstream, passed on; none without an upstream."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.server.context import access_of, extend_time, settings_of
from holdfast.server.v1.bodies import Fields
from holdfast.server.v1.errors import not_found
from holdfast.server.v1.openings import runs_of
from holdfast.server.v1.responses import ANSWER_S


async def list_models(request: Request) -> Response:
    access_of(request).check("read")
    settings = settings_of(request)
    if not settings.upstream:
        return JSONResponse({"object": "list", "data": []})
    listed = await _ask(request, "/models")
    data = [_show_model(model) for model in listed.get("data") or () if isinstance(model, dict)]
    return JSONResponse({"object": "list", "data": data})


async def retrieve(request: Request) -> Response:
    access_of(request).check("read")
    name = request.path_params["model"]
    if not settings_of(request).upstream:
        raise not_found("Model", name, "model")
    return JSONResponse(_show_model(await _ask(request, f"/models/{quote(name, safe='/')}")))


async def _ask(request: Request, path: str) -> Fields:
    settings = settings_of(request)
    upstream = runs_of(request).find_upstream(settings)
    extend_time(request, settings.upstream_s + ANSWER_S)
    async with upstream.open(None, path) as response:
        return await upstream.read_json(response)


def _show_model(model: Fields) -> Fields:
    """A model as OpenAI shows it. Anthropic says when it was made in another way."""
    return {"created": 0, "owned_by": "upstream", **model, "object": "model"}
