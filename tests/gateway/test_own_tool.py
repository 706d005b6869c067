"""Clients without a shell read with the gateway's own tool, over HTTP, with the official clients."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import pytest

from holdfast.gateway.desk import Desk
from holdfast.gateway.engines import open_engine
from holdfast.gateway.options import DeskOptions
from holdfast.gateway.own_reads import READS_KIND
from holdfast.gateway.proxy import Gateway, GatewayOptions
from holdfast.gateway.read_back import READ_TOOL
from holdfast.gateway.service import GatewayService, ServiceOptions
from tests.gateway.own_replies import build_reply, write_stream
from tests.gateway.raw_upstream import RawRequest, RawUpstream, build_answer

OPTIONS = DeskOptions(window=4_000, observe=False)
STREAM = "Content-Type: text/event-stream\r\n"


class ReadingModel:
    """Calls the client's tool; once it has the gateway's, it reads with it before each reply."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.accepted: list[bytes | None] = []
        self.is_mixed = False

    def __call__(self, request: RawRequest, connection: socket.socket) -> None:
        body = json.loads(request.body)
        self.bodies.append(body)
        self.accepted.append(request.find(b"accept-encoding"))
        number = len(self.bodies)
        check_pairs(body["messages"])
        last = body["messages"][-1]["content"]
        asked = [
            block for block in last if block.get("type") == "tool_result" and block["tool_use_id"].startswith("own")
        ]
        pieces = [("reasoning", f"thought {number}"), ("text", f"text {number}"), ("call", f"key {number}")]
        if has_tool(body) and (self.is_mixed or not asked):
            handle = re.findall(r"\[(h\d+_\d+)\]", json.dumps(body["messages"]))[0]
            own = ("own", handle)
            pieces = [*pieces[:2], own, pieces[2]] if self.is_mixed else [*pieces[:2], own]
        reply = build_reply("anthropic", pieces, number)
        reply["usage"] = {"input_tokens": len(request.body) // 4, "output_tokens": 20}
        for block in reply["content"]:
            if block.get("name") == READ_TOOL:
                block["id"] = f"own_{number}"
        connection.sendall(build_answer(write_stream("anthropic", reply), headers=STREAM, is_chunked=True))


def has_tool(body: dict[str, Any]) -> bool:
    return bool(body["tools"][-1]["name"] == READ_TOOL)


class Conversation:
    """An agent with the official client, which knows one tool."""

    def __init__(self, client: anthropic.Anthropic) -> None:
        self.client = client
        self.messages: list[Any] = [{"role": "user", "content": "Find it."}]

    def take_step(self) -> Any:
        tools: Any = [{"name": "lookup", "description": "Look up.", "input_schema": {"type": "object"}}]
        self.messages[-1] = mark(self.messages[-1])
        with self.client.messages.stream(
            model="claude-opus-4-8", max_tokens=500, tools=tools, messages=self.messages
        ) as stream:
            reply = stream.get_final_message()
        blocks = [block.model_dump(exclude_none=True) for block in reply.content]
        self.messages[-1] = unmark(self.messages[-1])
        self.messages.append({"role": "assistant", "content": blocks})
        text = "".join(f"result {len(self.messages)} line {number}\n" for number in range(80))
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": text}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        self.messages.append({"role": "user", "content": results or "Go on."})
        return reply


def mark(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]}


def unmark(message: dict[str, Any]) -> dict[str, Any]:
    blocks = [{name: value for name, value in block.items() if name != "cache_control"} for block in message["content"]]
    return {**message, "content": blocks}


class Setup:
    """A gateway on a store, which can be started again."""

    def __init__(self, store: Path) -> None:
        self.model = ReadingModel()
        self.upstream = RawUpstream(self.model)
        self.engine = open_engine(str(store))
        self.start()

    def start(self) -> None:
        desk = Desk(self.engine, OPTIONS)
        gateway = Gateway(desk, GatewayOptions(anthropic_url=self.upstream.url, deadline_s=20))
        self.service = GatewayService(gateway, ServiceOptions(grace_s=1))
        self.service.__enter__()
        self.client = anthropic.Anthropic(api_key="x", base_url=self.service.url, max_retries=0)

    def stop(self) -> None:
        self.client.close()
        self.service.__exit__(None, None, None)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    made = Setup(tmp_path / "gateway.db")
    yield made
    made.stop()
    made.upstream.close()
    made.engine.close()


@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_model_reads_with_the_gateways_tool_and_remembers_it(setup: Setup, is_mixed: bool) -> None:
    setup.model.is_mixed = is_mixed
    conversation = Conversation(setup.client)
    for _ in range(20):
        conversation.take_step()
        if has_tool(setup.model.bodies[-1]):
            break
    first = next(number for number, body in enumerate(setup.model.bodies) if has_tool(body))
    before = setup.model.bodies[:first]
    assert all(len(body["tools"]) == 1 and READ_TOOL not in json.dumps(body) for body in before), (
        "no tool before a boundary"
    )
    assert all(setup.model.accepted[:first])
    assert not any(setup.model.accepted[first:]), "what is read on the way comes without a coding"
    texts = [block.get("text", "") for message in conversation.messages for block in as_blocks(message)]
    assert READ_TOOL not in json.dumps(conversation.messages)
    assert any(text.startswith("text ") for text in texts)
    conversation.take_step()
    asked = setup.model.bodies[-1]
    restored = [
        block for message in asked["messages"] for block in as_blocks(message) if block.get("name") == READ_TOOL
    ]
    assert restored, "what was read is in later requests"
    results = [
        block["content"]
        for message in asked["messages"]
        for block in as_blocks(message)
        if str(block.get("tool_use_id", "")).startswith("own_")
    ]
    assert len(results) >= len(restored) - 1
    assert all(re.match(r"result \d+ line 0\n", text) and text.endswith("]") for text in results)
    setup.stop()
    setup.start()
    conversation.client = setup.client
    conversation.take_step()
    with_tool = [body for body in setup.model.bodies if has_tool(body)]
    assert len(with_tool) == (3 if is_mixed else 6)
    for earlier, later in pairwise(with_tool):
        assert_extends(unmark_all(later["messages"]), unmark_all(earlier["messages"]))
    (row,) = setup.engine.sessions()
    assert len(setup.engine.session(row.session).entries.list(kind=READS_KIND)) == 3


def assert_extends(messages: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
    """What the provider has in its cache is the beginning of the next request, also after a restart."""
    assert messages[: len(before)] == before


def unmark_all(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [unmark({**message, "content": as_blocks(message)}) for message in messages]


def as_blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def check_pairs(messages: list[dict[str, Any]]) -> None:
    """Every call has its result in the next message, and the reverse."""
    waiting: set[str] = set()
    for message in messages:
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        assert results == (waiting if message["role"] == "user" else set())
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
    assert not waiting
