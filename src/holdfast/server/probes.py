"""Whether the server lives, whether it is ready, and what it counts: /healthz, /readyz, /metrics."""

from __future__ import annotations

import asyncio
import os

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

import holdfast
from holdfast.access.access import SYSTEM_TENANT
from holdfast.errors import HoldfastError, StorageBusy
from holdfast.model.names import StreamId
from holdfast.server import metrics
from holdfast.server.context import state_of, whole_engine

CACHE_S = 1.0
"""For how long an answer of the store counts: however many ask, the store is read once in this time."""
ANSWER_S = 3.0
"""How long the store may take for its answer."""
_PROBE = StreamId(SYSTEM_TENANT, "session", ("probe", "probe"))
"""A stream that nobody writes: to look for it is the cheapest read."""


class StoreProbe:
    """Whether the store answers, remembered for a moment."""

    def __init__(self, engine: holdfast.AsyncEngine) -> None:
        self._engine = engine
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._fault = ""

    async def find_fault(self) -> str:
        """Why the store cannot be used; empty if it can."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            if loop.time() >= self._until:
                self._fault = await self._ask()
                self._until = loop.time() + CACHE_S
            return self._fault

    async def _ask(self) -> str:
        path = getattr(self._engine.store.blocking, "path", "")
        if path and path != ":memory:" and not _exists(path):
            return "the file of the store is gone"  # what is written now would be lost with this process
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._engine.store.head(_PROBE)
        except StorageBusy:
            return ""  # it is there, and will answer others
        except TimeoutError:
            return "the store does not answer"
        except HoldfastError as error:
            return f"the store cannot be used: {type(error).__name__}"
        return ""


def _exists(path: str) -> bool:
    return os.path.exists(path)


async def answer_healthz(_request: Request) -> JSONResponse:
    """The process answers."""
    return JSONResponse({"status": "ok"})


async def answer_readyz(request: Request) -> JSONResponse:
    """Whether to send requests here: not while the server stops, nor while its store is gone."""
    if state_of(request).is_draining:
        return JSONResponse({"status": "stopping"}, status_code=503)
    probe: StoreProbe = request.app.state.probe
    fault = await probe.find_fault()
    if fault:
        return JSONResponse({"status": "unavailable", "reason": fault}, status_code=503)
    return JSONResponse({"status": "ready"})


async def answer_metrics(request: Request) -> Response:
    """The totals of all workers, for Prometheus."""
    metrics.measure_store(whole_engine(request).store)
    return Response(await asyncio.to_thread(metrics.render_metrics), media_type=metrics.CONTENT_TYPE)


def routes() -> list[BaseRoute]:
    return [
        Route("/healthz", answer_healthz),
        Route("/readyz", answer_readyz),
        Route("/metrics", answer_metrics),
    ]
