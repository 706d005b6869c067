"""The floor: a Starlette application with one route, which reads a JSON body and writes one of the same size.

`python -m benchmarks.server_bare PORT WORKERS` listens as `holdfast serve` does: without that, the second write of an
answer waits for the client's acknowledgement of the first (Nagle), for 40 ms.
"""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn.supervisors import Multiprocess

from holdfast.server.connections import open_listener


async def answer(request: Request) -> JSONResponse:
    return JSONResponse(await request.json() if request.method == "POST" else {})


app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])


def main(port: int, workers: int) -> None:
    config = uvicorn.Config("benchmarks.server_bare:app", workers=workers, log_level="warning", access_log=False)
    listener = open_listener("127.0.0.1", port)
    if workers == 1:
        uvicorn.Server(config).run(sockets=[listener])
    else:
        Multiprocess(config, [listener]).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
