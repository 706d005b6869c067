"""MCP in the whole server: real keys, all layers, several worker processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

import holdfast
from holdfast.access.access import Right
from holdfast.access.keys import create_key
from holdfast.access.records import KeyGrant
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.mcp.endpoints import MODES, Wire, connected
from tests.mcp.test_tools import READERS, call, use
from tests.server.processes import serving
from tests.server.running import running
from tests.support import PATIENCE_S


async def make_keys(store: str, **grants: KeyGrant) -> dict[str, str]:
    async with await holdfast.open_async(store) as engine:
        return {name: str((await create_key(engine, grant, by="root"))[1]) for name, grant in grants.items()}


def grant(name: str, rights: tuple[Right, ...] = ("read", "write")) -> KeyGrant:
    return KeyGrant(name=name, rights=rights, identity=holdfast.Identity(user_id=name, user_name=name))


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_with_a_key_works_through_all_layers_of_the_server(tmp_path: Path, mode: str) -> None:
    store = str(tmp_path / "agent.db")
    keys = asyncio.run(make_keys(store, ada=grant("ada"), bob=grant("bob"), reader=grant("ada", rights=("read",))))

    async def work(url: str) -> None:
        async with connected(url, keys["ada"], mode) as client:
            await use(client)
        async with connected(url, keys["bob"], mode) as other:
            assert (await call(other, "recall"))["facts"] == []
            assert (await other.list_resources()).resources == []
        async with connected(url, keys["reader"], mode) as reader:
            assert {tool.name for tool in (await reader.list_tools()).tools} == READERS
            with pytest.raises(MCPError, match="right 'write'"):
                await reader.call_tool("remember", {"key": "a", "value": 1})

    with running(build_app(ServerSettings(store=store))) as address:
        asyncio.run(work(f"{address}/mcp"))


def test_nobody_gets_in_without_a_key_or_from_a_page_of_the_web(tmp_path: Path) -> None:
    store = str(tmp_path / "agent.db")
    keys = asyncio.run(make_keys(store, ada=grant("ada")))
    with running(build_app(ServerSettings(store=store))) as address:
        url = f"{address}/mcp"
        assert httpx2.post(url, json={}).status_code == 401
        assert httpx2.post(url, json={}, headers={"Authorization": "Bearer hf_nobody"}).status_code == 401
        key = {"Authorization": f"Bearer {keys['ada']}"}
        assert httpx2.post(url, json={}, headers={**key, "Host": "evil.example.com"}).status_code in (400, 403, 421)
        assert httpx2.post(url, json={}, headers={**key, "Origin": "https://evil.example.com"}).status_code == 403
        assert "tools" in Wire(url, keys["ada"]).result("tools/list")


def test_any_worker_process_answers_for_a_question_that_is_a_task(tmp_path: Path) -> None:
    store = str(tmp_path / "agent.db")
    keys = asyncio.run(make_keys(store, ada=grant("ada")))
    with serving(ServerSettings(store=store, workers=2)) as server:
        wire = Wire(f"{server.url}/mcp", keys["ada"])
        task = wire.call("ask", question="Ship it?")
        (key,) = wire.wait_for(task, "input_required")["inputRequests"]
        answer = {"action": "accept", "content": {"answer": "yes"}}
        wire.result("tasks/update", taskId=task["taskId"], inputResponses={key: answer})
        done = wire.wait_for(task, "completed", "failed")
        assert done["result"]["structuredContent"]["answer"] == "yes"


def test_a_stream_of_changes_ends_when_the_server_stops(tmp_path: Path) -> None:
    store = str(tmp_path / "agent.db")
    keys = asyncio.run(make_keys(store, ada=grant("ada")))
    with serving(ServerSettings(store=store, grace_s=2)) as server:
        body, headers = listen_request(keys["ada"], "holdfast://sessions/trip")
        with httpx2.stream("POST", f"{server.url}/mcp", json=body, headers=headers, timeout=PATIENCE_S) as stream:
            lines = stream.iter_lines()
            assert any("acknowledged" in line for line in lines)
            assert server.stop() == 0


def listen_request(key: str, uri: str) -> tuple[dict[str, Any], dict[str, str]]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"notifications": {"resourceSubscriptions": [uri]}, "_meta": meta}
    headers = {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "subscriptions/listen",
    }
    return {"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params}, headers
