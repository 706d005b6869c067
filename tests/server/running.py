"""A server that runs in a thread of the test, on a port of its own: real sockets, real clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from holdfast.server.connections import HEADER_BYTES, GuardedProtocol
from tests.support import PATIENCE_S


@contextmanager
def running(app: ASGIApp, port: int = 0) -> Iterator[str]:
    """Serve an application while the block runs. Yields its address, without a slash at the end."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY for this protocol only
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        app,
        http=GuardedProtocol,
        h11_max_incomplete_event_size=HEADER_BYTES,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    end = time.monotonic() + PATIENCE_S
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < end, "the server did not start in time"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()
        assert not thread.is_alive(), "the server did not stop"
