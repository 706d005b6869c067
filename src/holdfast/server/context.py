"""What a request has: its engine, who makes it, its id, its time, and the settings of the server."""

from __future__ import annotations

from typing import cast

from starlette.requests import HTTPConnection

import holdfast
from holdfast.access.access import Access, engine_for
from holdfast.server.settings import ServerSettings
from holdfast.server.state import RunningRequest, ServerState


def access_of(request: HTTPConnection) -> Access:
    """Who makes the request. The authentication has put it there."""
    return cast("Access", request.state.access)


def settings_of(request: HTTPConnection) -> ServerSettings:
    return cast("ServerSettings", request.app.state.settings)


def state_of(request: HTTPConnection) -> ServerState:
    """What the process does at the moment."""
    return cast("ServerState", request.app.state.server)


def request_id_of(request: HTTPConnection) -> str:
    """The id of the request: in its answer, in errors and in the log."""
    return cast("str", request.state.request_id)


def extend_time(request: HTTPConnection, seconds: float) -> None:
    """Allow the request so many seconds from now on, until its answer begins: for routes that wait for a model."""
    cast("RunningRequest", request.state.running).extend(seconds)


def whole_engine(request: HTTPConnection) -> holdfast.AsyncEngine:
    """The engine of the server itself, whoever asks."""
    return cast("holdfast.AsyncEngine", request.app.state.engine)


def engine_of(request: HTTPConnection) -> holdfast.AsyncEngine:
    """The engine, acting for the caller: in their tenant, as their principal."""
    return engine_for(whole_engine(request), access_of(request))
