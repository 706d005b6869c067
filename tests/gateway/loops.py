"""Agents of the tests: the official clients in loops with tools, and a tap on what they send and get."""

from __future__ import annotations

import hashlib
import json
import re
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import httpx2
import openai

from tests.gateway.upstreams import Ask, Call, Reply, Thinking, say

TOOL_NAMES = ("read", "search")
MODELS = {"anthropic": "claude-sonnet-5", "chat": "gpt-5", "responses": "gpt-5"}
Dialog = list[dict[str, Any]]


class Tap:
    """What a client sent and got, as bytes."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.got: list[bytearray] = []
        self.statuses: list[int] = []

    def open(self) -> httpx2.Client:
        client = httpx2.Client(transport=_TapTransport(self), timeout=60)
        weakref.finalize(self, client.close)
        return client

    def open_async(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=_AsyncTapTransport(self), timeout=60)

    def note(self, request: bytes, status: int) -> bytearray:
        self.sent.append(request)
        self.statuses.append(status)
        self.got.append(bytearray())
        return self.got[-1]


class _TapStream(httpx2.SyncByteStream):
    def __init__(self, inner: Any, copy: bytearray) -> None:
        self._inner, self._copy = inner, copy

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._inner:
            self._copy += piece
            yield piece

    def close(self) -> None:
        self._inner.close()


class _TapTransport(httpx2.BaseTransport):
    def __init__(self, tap: Tap) -> None:
        self._tap, self._inner = tap, httpx2.HTTPTransport(verify=False)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._inner.handle_request(request)
        copy = self._tap.note(request.read(), response.status_code)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_TapStream(response.stream, copy),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._inner.close()


class _AsyncTapStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, copy: bytearray) -> None:
        self._inner, self._copy = inner, copy

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._copy += piece
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class _AsyncTapTransport(httpx2.AsyncBaseTransport):
    def __init__(self, tap: Tap) -> None:
        self._tap, self._inner = tap, httpx2.AsyncHTTPTransport(verify=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        copy = self._tap.note(await request.aread(), response.status_code)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_AsyncTapStream(response.stream, copy),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


def run_tool(name: str, args: dict[str, Any], size: int = 2_400) -> str:
    """What a tool returns: a text of about this size that follows from the call alone."""
    seed = hashlib.sha256(f"{name}{json.dumps(args, sort_keys=True)}".encode()).hexdigest()
    lines = [f"{at:>4}  def handler_{seed[at % 50 : at % 50 + 8]}(request):  # ä {args}" for at in range(size // 60)]
    return "\n".join(lines)


def find_read(ask: Ask) -> Reply | None:
    """A call of the gateway's tool, if there is something to read, and it was not read in this turn."""
    spelled = json.dumps(ask.request)
    handles = re.findall(r"\bh\d+_\d+\b", json.dumps(ask.request.get("messages") or ask.request["input"]))
    name = f"call_read_{ask.turn}"
    if '"holdfast_read"' not in json.dumps(ask.request["tools"]) or not handles or f'"{name}"' in spelled:
        return None
    thought = Thinking(f"I have to read {handles[-1]} first.")
    return Reply((thought, Call("holdfast_read", {"handle": handles[-1], "first_line": 1, "last_line": 3}, name)))


def write_script(turns: int, *, thinking: bool = False, reads: bool = False) -> Callable[[Ask], Reply]:
    """A model that calls tools in every turn but the last of each six; every third time two at once. With `reads`, it
    reads what the gateway has shortened before it replies."""

    def choose(ask: Ask) -> Reply:
        read = find_read(ask) if reads and ask.turn % 2 else None
        if read is not None:
            return read
        turn = ask.turn
        if turn >= turns - 1 or turn % 6 == 5:
            return say(f"Done with step {turn} of {ask.line}.", thinking=f"All of {turn} is fine." if thinking else "")
        calls: list[tuple[str, dict[str, Any]]] = [("read", {"path": f"src/{ask.line}/{turn}.py"})]
        if turn % 3 == 0:
            calls.append(("search", {"pattern": f"x{turn}", "in": ["a", "ü"]}))
        thought = f"Step {turn}: first the file, then the tests." if thinking else ""
        return say(f"I look at {turn}. 😀" if turn % 2 else "", *calls, thinking=thought)

    return choose


def build_tools(dialect: str) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    if dialect == "anthropic":
        return [{"name": name, "description": f"Runs {name}.", "input_schema": schema} for name in TOOL_NAMES]
    functions = [{"name": name, "description": f"Runs {name}.", "parameters": schema} for name in TOOL_NAMES]
    if dialect == "chat":
        return [{"type": "function", "function": function} for function in functions]
    return [{"type": "function", "strict": False, **function} for function in functions]


def ask_next(step: int) -> str:
    return f"Go on with part {step}: check the handlers, and say what you changed."


class MessagesLoop:
    """An agent on the client of Anthropic, which marks its prompts as Claude Code does."""

    dialect = "anthropic"

    def __init__(self, url: str, line: str, *, style: str = "create", thinking: bool = False, **headers: str) -> None:
        self.tap, self.line, self.style = Tap(), line, style
        self.messages: Dialog = [{"role": "user", "content": ask_next(0)}]
        self.turn = 0
        self.headers = {"x-fake-line": line, **headers}
        self.request: dict[str, Any] = {
            "model": MODELS["anthropic"],
            "max_tokens": 4_000,
            "tools": build_tools("anthropic"),
            "system": [{"type": "text", "text": "You are careful. " * 300, "cache_control": {"type": "ephemeral"}}],
        }
        if thinking:
            self.request["thinking"] = {"type": "enabled", "budget_tokens": 2_000}
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, http_client=self.tap.open())

    def build(self) -> dict[str, Any]:
        return {**self.request, "messages": mark_last(self.messages)}

    def call(self) -> list[dict[str, Any]]:
        """One call of the model: the blocks of its reply."""
        options: Any = {"extra_headers": {**self.headers, "x-fake-turn": str(self.turn)}}
        if self.style == "stream":
            with self.client.messages.stream(**self.build(), **options) as stream:
                message = stream.get_final_message()
        else:
            message = self.client.messages.create(**self.build(), **options)
        return [block.model_dump(exclude_none=True) for block in message.content]

    def take(self, content: list[dict[str, Any]]) -> None:
        """Add a reply, and what follows it."""
        self.messages.append({"role": "assistant", "content": content})
        self.turn += 1
        calls = [block for block in content if block["type"] == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": run_tool(call["name"], call["input"])}
            for call in calls
        ]
        self.messages.append({"role": "user", "content": results or ask_next(self.turn)})

    def run(self, turns: int) -> None:
        while self.turn < turns:
            self.take(self.call())

    def close(self) -> None:
        self.client.close()


def mark_last(messages: Dialog, ttl: str = "") -> Dialog:
    """The messages with a mark on the last block of the last one."""
    *before, last = messages
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}}
    return [*before, {**last, "content": blocks}]


class ChatLoop:
    """An agent on the client of OpenAI, with chat completions."""

    dialect = "chat"

    def __init__(self, url: str, line: str, *, style: str = "create", thinking: bool = False, **headers: str) -> None:
        self.tap, self.line, self.style = Tap(), line, style
        self.messages: Dialog = [
            {"role": "system", "content": "You are careful. " * 300},
            {"role": "user", "content": ask_next(0)},
        ]
        self.turn = 0
        self.headers = {"x-fake-line": line, **headers}
        http = self.tap.open()
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http)

    def build(self) -> dict[str, Any]:
        return {"model": MODELS["chat"], "messages": self.messages, "tools": build_tools("chat")}

    def call(self) -> dict[str, Any]:
        options: Any = {"extra_headers": {**self.headers, "x-fake-turn": str(self.turn)}}
        if self.style == "stream":
            usage: Any = {"include_usage": True}
            with self.client.chat.completions.stream(**self.build(), stream_options=usage, **options) as stream:
                completion: Any = stream.get_final_completion()
        else:
            completion = self.client.chat.completions.create(**self.build(), **options)
        message = completion.choices[0].message.model_dump(exclude_none=True)
        for call in message.get("tool_calls", []):
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
        for name in ("parsed", "annotations"):
            message.pop(name, None)
        return dict(message)

    def take(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self.turn += 1
        for call in message.get("tool_calls", []):
            result = run_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if not message.get("tool_calls"):
            self.messages.append({"role": "user", "content": ask_next(self.turn)})

    def run(self, turns: int) -> None:
        while self.turn < turns:
            self.take(self.call())

    def close(self) -> None:
        self.client.close()


class ResponsesLoop:
    """An agent on the client of OpenAI, with responses that are not stored, as Codex sends them."""

    dialect = "responses"

    def __init__(self, url: str, line: str, *, style: str = "create", thinking: bool = False, **headers: str) -> None:
        self.tap, self.line, self.style = Tap(), line, style
        self.messages: Dialog = [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are careful."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ask_next(0)}]},
        ]
        self.turn = 0
        self.headers = {"x-fake-line": line, **headers}
        http = self.tap.open()
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http)

    def build(self) -> dict[str, Any]:
        return {
            "model": MODELS["responses"],
            "instructions": "You are careful. " * 300,
            "input": self.messages,
            "tools": build_tools("responses"),
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": self.line,
        }

    def call(self) -> Dialog:
        options: Any = {"extra_headers": {**self.headers, "x-fake-turn": str(self.turn)}}
        if self.style == "stream":
            with self.client.responses.stream(**self.build(), **options) as stream:
                response: Any = stream.get_final_response()
        else:
            response = self.client.responses.create(**self.build(), **options)
        output = [item.model_dump(exclude_none=True) for item in response.output]
        for item in output:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or []:
                part.pop("parsed", None)
        return output

    def take(self, output: Dialog) -> None:
        self.messages.extend(output)
        self.turn += 1
        calls = [item for item in output if item["type"] == "function_call"]
        for call in calls:
            result = run_tool(call["name"], json.loads(call["arguments"]))
            self.messages.append({"type": "function_call_output", "call_id": call["call_id"], "output": result})
        if not calls:
            content = [{"type": "input_text", "text": ask_next(self.turn)}]
            self.messages.append({"type": "message", "role": "user", "content": content})

    def run(self, turns: int) -> None:
        while self.turn < turns:
            self.take(self.call())

    def close(self) -> None:
        self.client.close()


Loop = MessagesLoop | ChatLoop | ResponsesLoop
LOOPS: dict[str, type[MessagesLoop] | type[ChatLoop] | type[ResponsesLoop]] = {
    "anthropic": MessagesLoop,
    "chat": ChatLoop,
    "responses": ResponsesLoop,
}
