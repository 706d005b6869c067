"""Bodies that no client would send: they leave as they came, and the provider says what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.agents import MessagesAgent, Sender
from tests.gateway.loops import write_script
from tests.gateway.processes import GatewayProcess, GatewayTask, Nursery
from tests.gateway.upstreams import FakeProvider

PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
LIST = {"anthropic": "messages", "chat": "messages", "responses": "input"}
WINDOW = 1_500
ODD_VALUES: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], {}, [[]], [None], [1], [{}], ["x"], {"a": None})
ODD_MESSAGES: tuple[Any, ...] = (
    {"role": None, "content": "x"},
    {"role": "user"},
    {"role": "user", "content": None},
    {"role": "user", "content": 5},
    {"role": "user", "content": {"type": "text", "text": "x"}},
    {"role": "user", "content": [{"type": "text"}]},
    {"role": "user", "content": [{"type": None}]},
    {"role": "user", "content": [{"type": "text", "text": 7}]},
    {"role": "user", "content": [{"type": "tool_result"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": 4, "content": [5]}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": {}, "name": [], "input": "x"}]},
    {"role": "assistant", "content": None, "tool_calls": "x"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": 1, "function": 2}]},
    {"role": "tool", "tool_call_id": [], "content": {}},
    {"type": "function_call", "call_id": 5, "arguments": {}},
    {"type": "function_call_output", "output": 5},
    {"type": "reasoning", "summary": "x", "encrypted_content": 5},
    {"type": "future", "x": {"y": [1, 2, {"z": None}]}},
    {"role": "user", "content": "\ud800 lone"},
    {"role": "user", "content": "\x00\x01\x7f"},
    {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": 7}}]},
)


def build_valid(dialect: str) -> dict[str, Any]:
    return {
        "model": "claude-x",
        "max_tokens": 9,
        "tools": [{"name": "t", "input_schema": {}}],
        LIST[dialect]: [{"role": "user", "content": "Größe 😀 " * 20}],
    }


def iterate_bodies(dialect: str) -> Iterator[bytes]:
    valid = build_valid(dialect)
    text = json.dumps(valid, ensure_ascii=False).encode()
    yield from (b"", b" ", b"null", b"[]", b'"x"', b"5", b"{}", b"{", b"}", b"\xff\xfe", b"\xef\xbb\xbf" + text)
    yield from (text + b"x", text + b"{}", b"\n\t " + text + b" \r\n", text[:-1] + b",}", text.replace(b":", b"=", 1))
    yield from (text.replace(b"9", number, 1) for number in (b"NaN", b"Infinity", b"-", b"01", b"1e999", b"9" * 5_000))
    yield from (text[: len(text) * part // 17] for part in range(1, 17))
    yield text.replace(b"Gr\xc3\xb6", b"Gr\xc3", 1)
    yield text.replace(b"Gr", b"Gr\x00", 1)
    yield text.replace(b"Gr", b"Gr\\ud83d", 1)
    yield text.replace(b"Gr", b"\\q", 1)
    yield text.replace(b'"model"', b'"model": "y", "model"', 1)
    yield text.replace(b'"role"', b'"role": "user", "role"', 1)
    name = LIST[dialect].encode()
    yield text.replace(b'"' + name + b'"', b'"' + name + b'": [], "' + name + b'"', 1)
    yield text.replace(b'"role"', b'"r\\u006fle"', 1)
    yield b"[" * 5_000 + b"]" * 5_000
    yield text.replace(b"[", b"[" * 900, 1) + b"]" * 899
    yield json.dumps({**valid, LIST[dialect]: [{"role": "user", "content": "y"}] * 500}).encode()
    yield from (json.dumps({**valid, LIST[dialect]: odd}).encode() for odd in ODD_VALUES)
    yield from (json.dumps({**valid, "tools": odd}).encode() for odd in ODD_VALUES)
    yield from (json.dumps({**valid, "system": odd, "model": odd}).encode() for odd in ODD_VALUES)
    for odd in ODD_MESSAGES:
        yield json.dumps({**valid, LIST[dialect]: [odd]}).encode("utf-8", "surrogatepass")
        yield json.dumps({**valid, LIST[dialect]: [*valid[LIST[dialect]], odd, odd]}).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("dialect", PATHS)
def test_hostile_bodies_leave_as_they_came(nursery: Nursery, tmp_path: Path, dialect: str) -> None:
    bodies = list(iterate_bodies(dialect))
    assert len(bodies) >= 100
    with FakeProvider(write_script(9)) as provider:
        task = GatewayTask(store=str(tmp_path / "g.db"), upstream=provider.url, window=WINDOW)
        with GatewayProcess(nursery, task) as gateway:
            sender = Sender(gateway.url)
            for body in bodies:
                status, data = sender.post(PATHS[dialect], body)
                call = provider.calls[-1]
                assert call.body == body
                assert (call.status, call.answer) == (status, data)
            sender.close()
            assert len(provider.calls) == len(bodies)
            assert gateway.lives == 1
            agent = MessagesAgent(gateway.url, "after")
            agent.step()
            agent.close()


def test_strange_heads_and_encodings(nursery: Nursery, tmp_path: Path) -> None:
    with FakeProvider(write_script(9)) as provider:
        task = GatewayTask(store=str(tmp_path / "g.db"), upstream=provider.url, window=WINDOW)
        with GatewayProcess(nursery, task) as gateway:
            body = json.dumps(build_valid("anthropic")).encode()
            for headers in (
                {"content-encoding": "gzip"},
                {"content-encoding": "br, gzip"},
                {"content-type": "text/plain; charset=utf-16"},
                {"x-claude-code-session-id": "\x7f" * 3_000},
                {"x-claude-code-agent-id": "../../etc"},
                {"anthropic-beta": "," * 500},
                {"x-codex-turn-metadata": "{" * 3_000},
                {"session-id": "a/b#c", "thread-id": "\xe9"},
            ):
                sender = Sender(gateway.url, **headers)
                status, data = sender.post("/v1/messages", body)
                call = provider.calls[-1]
                assert (call.body, call.status, call.answer) == (body, status, data)
                for name, value in headers.items():
                    assert call.get(name) == value
                sender.close()
