"""A server of /v1 in a process of its own, which can kill itself at a named point: `python -m … SETTINGS [POINT]`.

It prints its port when it serves."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import uvicorn

import holdfast
from holdfast.runtime.async_facets import AsyncEntriesFacet
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from holdfast.server.v1.records import END_ENTRY, START_ENTRY

POINTS = ("start noted", "input recorded", "reply received", "reply recorded", "end noted")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def install(point: str) -> None:
    """Die at a point: before or after a write."""
    append, record_all, record = (
        AsyncEntriesFacet.append,
        holdfast.AsyncSession.record_all,
        holdfast.AsyncSession.record,
    )

    async def append_and_die(self: Any, kind: str, *args: Any, **options: Any) -> Any:
        entry = await append(self, kind, *args, **options)
        if (point, kind) in (("start noted", START_ENTRY), ("end noted", END_ENTRY)):
            die()
        return entry

    def dying(method: Callable[..., Any], before: str, after: str) -> Callable[..., Any]:
        async def call(*args: Any, **options: Any) -> Any:
            if point == before:
                die()
            answer = await method(*args, **options)
            if point == after:
                die()
            return answer

        return call

    AsyncEntriesFacet.append = append_and_die  # type: ignore[method-assign]
    holdfast.AsyncSession.record_all = dying(record_all, "", "input recorded")  # type: ignore[method-assign]
    holdfast.AsyncSession.record = dying(record, "reply received", "reply recorded")  # type: ignore[method-assign]


def main() -> None:
    settings = msgspec.json.decode(sys.argv[1].encode(), type=ServerSettings)
    if len(sys.argv) > 2:
        install(sys.argv[2])
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(build_app(settings), log_level="warning", lifespan="on")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
