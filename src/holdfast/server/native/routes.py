"""The routes of the native API."""

from __future__ import annotations

import functools
from contextlib import AbstractAsyncContextManager

import msgspec
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount

from holdfast.api.openapi import build_document
from holdfast.api.parts import PARTS
from holdfast.api.requests import API
from holdfast.server.native import feed, jobs, streams, tools, turns
from holdfast.server.native.caller import describe_caller, get_tenants
from holdfast.server.native.calls import Answer, Call
from holdfast.server.native.dispatch import Endpoint, NativeApi


async def get_document(_call: Call) -> Response:
    """The OpenAPI document."""
    return Answer(encode_document())


@functools.cache
def encode_document() -> bytes:
    return msgspec.json.encode(build_document())


ENDPOINTS: dict[str, Endpoint] = {
    "take_turn": turns.take_turn,
    "renew_turn": turns.renew_turn,
    "end_turn": turns.end_turn,
    "use_tool": tools.use_tool,
    "run_call": tools.run_call,
    "handle_content": streams.get_content,
    "Blobs.put": streams.put_blob,
    "Blobs.read": streams.get_blob,
    "Engine.caller": describe_caller,
    "Admin.tenants": get_tenants,
    "Engine.watch": feed.watch_tenant,
    "Session.watch": feed.watch_session,
    "Ledger.watch": feed.watch_ledger,
    "Admin.watch": feed.watch_all,
    "Jobs.start": jobs.start_job,
    "Jobs.list": jobs.get_jobs,
    "Jobs.get": jobs.get_job,
    "Jobs.file": jobs.get_file,
    "Jobs.cancel": jobs.cancel_job,
    "openapi": get_document,
}
"""The parts, by their names; those of a session and of a frame by the last word."""


def resources(app: Starlette) -> AbstractAsyncContextManager[None]:
    """What the API holds while the server runs: its jobs."""
    return jobs.run_jobs(app)


def build_api() -> NativeApi:
    """The API: the operations of the table, and what is no single request and answer."""
    api = NativeApi()
    for part in PARTS:
        endpoint = ENDPOINTS.get(part.name) or ENDPOINTS[part.name.partition(".")[2]]
        api.add(part.verb, part.path, part.need, endpoint)
    return api


def routes() -> list[BaseRoute]:
    """The routes of the native API."""
    return [Mount(API, app=build_api())]
