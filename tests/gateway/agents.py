"""Agents of the tests that write their own bytes: conversations of every kind, with forks, edits, retries and reminders."""

from __future__ import annotations

import copy
import http.client
import json
import weakref
from typing import Any
from urllib.parse import urlsplit

from tests.gateway.loops import MODELS, ask_next, build_tools, mark_last, run_tool
from tests.gateway.upstreams.messages_rules import MID_SYSTEM_BETA

IMAGE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" + "A" * 1_000}
HEAD = "You are careful. " * 300


class Sender:
    """Sends bodies, and keeps what was sent and what came back."""

    def __init__(self, url: str, **headers: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        weakref.finalize(self, self._connection.close)  # a test that fails does not close it
        self.headers = {"x-api-key": "none", "anthropic-version": "2023-06-01", "content-type": "application/json"}
        self.headers.update(headers)
        self.sent: list[bytes] = []
        self.got: list[bytes] = []

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        self.sent.append(body)
        try:
            self._connection.request("POST", path, body, {**self.headers, **headers})
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        self.got.append(data)
        self.coding = response.headers.get("content-encoding", "")
        return response.status, data

    def close(self) -> None:
        self._connection.close()


class MessagesAgent:
    """An agent on the API of Anthropic whose every move the test decides."""

    def __init__(self, url: str, line: str, *, thinking: str = "", **headers: str) -> None:
        self.sender = Sender(url, **{"x-fake-line": line, "anthropic-beta": f"a-1,{MID_SYSTEM_BETA}", **headers})
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": ask_next(0)}]
        self.turn = 0
        mark = {"type": "ephemeral"}
        self.request: dict[str, Any] = {
            "model": MODELS["anthropic"],
            "max_tokens": 4_000,
            "tools": build_tools("anthropic"),
            "system": [{"type": "text", "text": HEAD, "cache_control": mark}],
        }
        if thinking == "enabled":
            self.request["thinking"] = {"type": "enabled", "budget_tokens": 2_000}
        elif thinking:
            self.request["thinking"] = {"type": thinking}
        self.marks = True
        self.indent: int | None = None
        self.is_stream = False
        self.result_chars = 2_400

    def spell(self) -> bytes:
        """The body of the next request."""
        messages = mark_last(self.messages) if self.marks else self.messages
        body = {**self.request, "messages": messages, **({"stream": True} if self.is_stream else {})}
        return json.dumps(body, indent=self.indent, ensure_ascii=self.indent is not None).encode()

    def call(self, body: bytes | None = None) -> tuple[int, bytes]:
        """Send the next request, or this one."""
        path = "/v1/messages?beta=true"
        return self.sender.post(path, self.spell() if body is None else body, **{"x-fake-turn": str(self.turn)})

    def step(self) -> None:
        """Call the model, and add its reply and what follows it."""
        status, data = self.call()
        assert status == 200, data
        self.take(read_content(data))

    def take(self, content: list[dict[str, Any]]) -> None:
        self.messages.append({"role": "assistant", "content": content})
        self.turn += 1
        results: list[dict[str, Any]] = []
        for block in content:
            if block["type"] == "tool_use":
                text = run_tool(block["name"], block["input"], self.result_chars)
                results.append({"type": "tool_result", "tool_use_id": block["id"], "content": text})
        self.messages.append({"role": "user", "content": results or ask_next(self.turn)})

    # Moves

    def remind(self, text: str) -> None:
        """Add a system message behind the last message of the user."""
        self.messages.append({"role": "system", "content": text})

    def fork(self, keep: int) -> None:
        """Go back to the user's message before this one, and say something else."""
        users = [at for at, message in enumerate(self.messages) if _is_prompt(message)]
        at = users[keep % len(users)]
        self.messages = [*copy.deepcopy(self.messages[:at]), {"role": "user", "content": f"No: {ask_next(at)}"}]

    def edit_reply(self) -> None:
        """Change the last reply as clients do: the same calls, with other arguments."""
        content = self.messages[-2]["content"]
        edited = [{**block, "input": {**block["input"], "cwd": ""}} if "input" in block else block for block in content]
        self.messages[-2] = {"role": "assistant", "content": edited}

    def edit_results(self, kind: str) -> None:
        """Write the last results in another way."""
        last = self.messages[-1]
        content = last["content"] if last["role"] == "user" and isinstance(last["content"], list) else []
        results = [block for block in content if block["type"] == "tool_result"]
        if not results:
            return
        texts = [block for block in content if block["type"] == "text"]
        if kind == "reverse":
            results.reverse()
        elif kind == "error":
            results[0] = {**results[0], "is_error": False}
        elif kind == "list":
            results[-1] = {**results[-1], "content": [{"type": "text", "text": "As a list: " + "word " * 500}]}
        elif kind == "image":
            text = {"type": "text", "text": "The screen:"}
            results[0] = {**results[0], "content": [text, {"type": "image", "source": IMAGE}]}
        elif kind == "empty":
            results[0] = {**results[0], "content": ""}
        elif kind == "text":
            texts.append({"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"})
        self.messages[-1] = {**last, "content": [*results, *texts]}

    def compact(self) -> None:
        """Begin anew with a summary, as /compact does."""
        text = f"This session is being continued from a previous conversation. Turn {self.turn}."
        self.messages = [{"role": "user", "content": text}]

    def close(self) -> None:
        self.sender.close()


def _is_prompt(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and isinstance(message["content"], str)


def read_content(data: bytes) -> list[dict[str, Any]]:
    """The blocks of a reply, given in one piece or as a stream."""
    if not data.startswith(b"event:"):
        content: list[dict[str, Any]] = json.loads(data)["content"]
        return content
    blocks: list[dict[str, Any]] = []
    pieces: list[str] = []
    for frame in data.decode().split("\n\n"):
        event = json.loads(frame.partition("data: ")[2] or "{}")
        match event.get("type"):
            case "content_block_start":
                blocks.append(event["content_block"])
                pieces = []
            case "content_block_delta":
                delta = event["delta"]
                for name in ("text", "thinking", "signature"):
                    if name in delta:
                        blocks[-1][name] += delta[name]
                pieces.append(delta.get("partial_json", ""))
            case "content_block_stop" if blocks[-1]["type"] == "tool_use":
                blocks[-1]["input"] = json.loads("".join(pieces) or "{}")
    return blocks
