"""A server whose answers get lost: it does what it is asked, and then does not say so.

    python -m tests.client.faulty STORE PORT MARK

Run so, the process kills itself after it has stored the first message and before it answers, unless the file MARK exists.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings

ROOT = Path(__file__).parents[2]
TOKEN = "hf_local_test"
Loss = Callable[[Receive], Awaitable[None]]


class LostAnswers:
    """An application that loses its first answers to requests that record a message."""

    def __init__(self, app: ASGIApp, lose: Loss, count: int = 1) -> None:
        self._app = app
        self._lose = lose
        self.left = count
        self.seen: list[tuple[str, str]] = []
        """The verb and the idempotency key of each of these requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith("/messages"):
            await self._app(scope, receive, send)
            return
        key = dict(scope["headers"]).get(b"idempotency-key", b"").decode()
        self.seen.append((scope["method"], key))
        if not self.left:
            await self._app(scope, receive, send)
            return
        self.left -= 1
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        assert messages[0]["status"] == 200, messages
        await self._lose(receive)


async def wait_for_the_end(receive: Receive) -> None:
    """Answer so slowly that the client gives up."""
    while (await receive())["type"] != "http.disconnect":
        pass


def settings_of(store: str | Path) -> ServerSettings:
    return ServerSettings(store=str(store), token=TOKEN, background=False)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server_process(store: Path, port: int, mark: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run this server while the block runs, and kill it at its end."""
    command = [sys.executable, "-m", "tests.client.faulty", str(store), str(port), str(mark)]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _die(mark: Path) -> None:
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)


def main(store: str, port: int, mark: Path) -> None:
    async def die(_receive: Receive) -> None:
        _die(mark)

    app = LostAnswers(build_app(settings_of(store)), die, 0 if mark.exists() else 1)
    uvicorn.run(app, port=port, log_level="error")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
