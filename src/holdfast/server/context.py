"""What a request has: its engine, who makes it, and the settings of the server."""

from __future__ import annotations

from typing import cast

from starlette.requests import HTTPConnection

import holdfast
from holdfast.access.access import Access, engine_for
from holdfast.server.settings import ServerSettings


def access_of(request: HTTPConnection) -> Access:
    """Who makes the request. The authentication has put it there."""
    return cast("Access", request.state.access)


def settings_of(request: HTTPConnection) -> ServerSettings:
    return cast("ServerSettings", request.app.state.settings)


def whole_engine(request: HTTPConnection) -> holdfast.AsyncEngine:
    """The engine of the server itself, whoever asks."""
    return cast("holdfast.AsyncEngine", request.app.state.engine)


def engine_of(request: HTTPConnection) -> holdfast.AsyncEngine:
    """The engine, acting for the caller: in their tenant, as their principal."""
    return engine_for(whole_engine(request), access_of(request))
