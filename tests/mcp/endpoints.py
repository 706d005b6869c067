"""Endpoints for the tests of MCP: keys in a table, real sockets, the official client, and replicas that can be killed.

python -m tests.mcp.endpoints PORT STORE    a replica, in a process of its own
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import uvicorn
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from starlette.applications import Starlette
from starlette.requests import HTTPConnection

import holdfast
from holdfast.access.access import Access
from holdfast.errors import KeyRefused
from holdfast.mcp.http import McpEndpoint
from holdfast.mcp.server import AgentServer
from holdfast.model.sessions.layers import Identity
from mcp import Client
from tests.server.running import running
from tests.support import PATIENCE_S

MODES = ("legacy", "2026-07-28")
TASKS = "io.modelcontextprotocol/tasks"
LEASE_S = 4.0
"""How long after its death a replica is still believed to work, in these tests. A live replica on a busy machine must renew
it in time: otherwise the other one takes its task for abandoned."""
FINAL_STATUSES = frozenset({"completed", "failed", "cancelled"})


def user_access(user: str, **options: Any) -> Access:
    return Access(principal=f"key-{user}", identity=Identity(user_id=user, user_name=user), **options)


KEYS = {
    "ada": user_access("ada"),
    "ada-reads": user_access("ada", rights=frozenset({"read"})),
    "bob": user_access("bob"),
    "ada-elsewhere": user_access("ada", tenant="elsewhere"),
    "ada-apart": user_access("ada", actor="apart"),
    "ada-shared": user_access("ada", actor="shared"),
    "bob-shared": user_access("bob", actor="shared"),
    "program": Access(principal="program"),
    "program-shared": Access(principal="program", actor="shared"),
    "model-only": Access(principal="model-only", rights=frozenset({"model"})),
}


def access_of_key(request: HTTPConnection) -> Access:
    key = request.headers.get("authorization", "").removeprefix("Bearer ")
    if key not in KEYS:
        raise KeyRefused(reason="unknown")
    return KEYS[key]


def add_line(path: str) -> int:
    """Add a line to a file; returns how many it has."""
    with open(path, "a+") as file:
        file.write(f"{os.getpid()}\n")
        file.seek(0)
        return len(file.readlines())


def configure(agent: AgentServer) -> None:
    """Tools whose calls are tasks."""

    async def wait(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return f"waited {seconds} s"

    async def append_line(path: str, seconds: float) -> str:
        """Append a line to a file, wait, and count its lines."""
        lines = add_line(path)
        await asyncio.sleep(seconds if lines == 1 else 0)
        return f"{lines} lines"

    async def break_off() -> str:
        """Fail by an error of the protocol."""
        raise MCPError(INTERNAL_ERROR, "broken")

    async def approve(ctx: Context) -> str | InputRequiredResult:
        """Ask twice."""
        answers = ctx.input_responses or {}
        if ctx.request_state == "second":
            return f"second: {answers['ok'].content}"  # type: ignore[union-attr]
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        form = ElicitRequest(params=ElicitRequestFormParams(message="Go on?", requested_schema=schema))
        state = "second" if ctx.request_state == "first" else "first"
        return InputRequiredResult(input_requests={"ok": form}, request_state=state)

    async def gather(path: str, ctx: Context) -> str | InputRequiredResult:
        """Ask two questions at once, and add a line to a file when both are answered."""
        if len(ctx.input_responses or {}) == 2:
            return f"{add_line(path)} lines"
        form = ElicitRequest(params=ElicitRequestFormParams(message="?", requested_schema={"type": "object"}))
        return InputRequiredResult(input_requests={"left": form, "right": form})

    agent.add_task_tool(gather)
    agent.add_task_tool(wait)
    agent.add_task_tool(append_line, restart=True)
    agent.add_task_tool(break_off)
    agent.add_task_tool(approve)


def build_app(store: str, **options: Any) -> Starlette:
    """A server with the endpoint alone."""
    engines: list[holdfast.AsyncEngine] = []
    endpoint = McpEndpoint(lambda: engines[0], get_access=access_of_key, configure=configure, **options)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with await holdfast.open_async(store, principal="server") as engine:
            engines[:] = [engine]
            async with endpoint.running():
                yield

    return Starlette(routes=endpoint.routes(), lifespan=lifespan)


@contextmanager
def serving(store: object, **options: Any) -> Iterator[str]:
    """Serve a store in a thread. Yields the address of the endpoint."""
    with running(build_app(str(store), **options)) as address:
        yield f"{address}/mcp"


@asynccontextmanager
async def connected(url: str, key: str, mode: str = "2026-07-28", **options: Any) -> AsyncIterator[Client]:
    """The official client, with a key."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


class Replica:
    """A server in a process of its own, which can be killed."""

    def __init__(self, store: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        command = [sys.executable, "-m", "tests.mcp.endpoints", str(self.port), store]
        self.process = subprocess.Popen(command)
        wait_until(self._answers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def _answers(self) -> bool:
        assert self.process.poll() is None, "the replica did not start"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def __enter__(self) -> Replica:
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()


def wait_until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


class Wire:
    """Requests of 2026-07-28 as they are on the wire, by a client that knows tasks."""

    def __init__(self, url: str, key: str = "ada", extensions: tuple[str, ...] = (TASKS,)) -> None:
        self._url, self._key, self._extensions = url, key, extensions

    def send(self, method: str, params: dict[str, Any], **headers: str) -> dict[str, Any]:
        """The whole answer."""
        named = params.get("name") or params.get("uri") or params.get("taskId")
        capabilities: dict[str, Any] = {"elicitation": {}, "extensions": {each: {} for each in self._extensions}}
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        sent = {
            "Authorization": f"Bearer {self._key}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            **({"Mcp-Name": named} if named else {}),
            **headers,
        }
        answer = httpx2.post(self._url, json=body, headers=sent, timeout=PATIENCE_S)
        read: dict[str, Any] = json.loads(answer.text)
        return read

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        answer = self.send(method, params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def error(self, method: str, **params: Any) -> dict[str, Any]:
        answer = self.send(method, params)
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.result("tools/call", name=name, arguments=arguments)

    def get(self, task: dict[str, Any]) -> dict[str, Any]:
        return self.result("tasks/get", taskId=task["taskId"])

    def wait_for(self, task: dict[str, Any], *statuses: str) -> dict[str, Any]:
        """The task once it has one of these statuses. Another final status fails at once."""

        def has_status() -> bool:
            found = self.get(task)
            assert found["status"] in statuses or found["status"] not in FINAL_STATUSES, found
            return found["status"] in statuses

        wait_until(has_status)
        return self.get(task)


if __name__ == "__main__":
    app = build_app(sys.argv[2], lease_s=LEASE_S, poll_s=0.05)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
