"""Replies of the fake provider: what a script says, and how each API spells it in one piece."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tests.gateway.upstreams.seals import Sealer

CUSTOM = "custom_input"


class Text(NamedTuple):
    text: str


class Thinking(NamedTuple):
    """Thinking of Anthropic, reasoning of the Responses API; chat has none."""

    text: str


class Redacted(NamedTuple):
    """Thinking that is encrypted."""

    text: str


class Call(NamedTuple):
    name: str
    args: dict[str, Any]
    id: str = ""
    """Empty: made from the line and the turn."""

    @property
    def custom_input(self) -> str | None:
        """The text that a custom tool of the Responses API gets: the only argument, if its name is `CUSTOM`."""
        return str(self.args[CUSTOM]) if [*self.args] == [CUSTOM] else None


Part: TypeAlias = Text | Thinking | Redacted | Call


class Reply(NamedTuple):
    parts: tuple[Part, ...]
    stop: str = ""
    """Anthropic's name of why it ends; empty for "tool_use" with calls, and "end_turn" without."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(part for part in self.parts if isinstance(part, Call))

    @property
    def stop_reason(self) -> str:
        return self.stop or ("tool_use" if self.calls else "end_turn")


def say(text: str, *calls: tuple[str, dict[str, Any]], thinking: str = "", redacted: str = "") -> Reply:
    """A reply with these parts, in the usual order."""
    parts: list[Part] = []
    if thinking:
        parts.append(Thinking(thinking))
    if redacted:
        parts.append(Redacted(redacted))
    if text:
        parts.append(Text(text))
    parts.extend(Call(name, args) for name, args in calls)
    return Reply(tuple(parts))


def read_reply(value: object) -> Reply:
    """A reply from JSON: a text, the blocks of an Anthropic message, or {"content": blocks, "stop_reason": …}."""
    if isinstance(value, str):
        return Reply((Text(value),))
    stop, blocks = "", value
    if isinstance(value, Mapping):
        stop, blocks = str(value.get("stop_reason") or ""), value.get("content", [])
    if isinstance(blocks, str):
        return Reply((Text(blocks),), stop)
    if not isinstance(blocks, Sequence):
        raise ValueError(f"not a reply: {value!r:.100}")
    return Reply(tuple(_read_part(block) for block in blocks), stop)


def _read_part(block: Mapping[str, Any]) -> Part:
    match block["type"]:
        case "text":
            return Text(block["text"])
        case "thinking":
            return Thinking(block["thinking"])
        case "redacted_thinking":
            return Redacted(block["data"])
        case "tool_use":
            return Call(block["name"], block["input"], block.get("id", ""))
        case other:
            raise ValueError(f"a reply cannot have a block of type {other!r}")


class Names(NamedTuple):
    """Ids that follow from the line, the turn and the reply alone, so that a repeated run makes the same ones."""

    line: str
    turn: int
    reply: str = ""

    def make(self, prefix: str, number: int = 0) -> str:
        digest = hashlib.sha256(f"{self.line}\0{self.turn}\0{self.reply}\0{prefix}\0{number}".encode()).hexdigest()
        return f"{prefix}{digest[:24]}"


def spell(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def build_message(reply: Reply, names: Names, sealer: Sealer, model: str, usage: dict[str, Any]) -> dict[str, Any]:
    """The reply as a message of Anthropic."""
    content: list[dict[str, Any]] = []
    for number, part in enumerate(reply.parts):
        match part:
            case Text(text):
                content.append({"type": "text", "text": text})
            case Thinking(text):
                content.append({"type": "thinking", "thinking": text, "signature": sealer.sign(text)})
            case Redacted(text):
                content.append({"type": "redacted_thinking", "data": sealer.seal(text, "Eo")})
            case Call(name, args, given):
                block_id = given or names.make("toolu_", number)
                content.append({"type": "tool_use", "id": block_id, "name": name, "input": args})
    return {
        "model": model,
        "id": names.make("msg_"),
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": reply.stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


_CHAT_STOPS = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length", "refusal": "content_filter"}


def build_completion(reply: Reply, names: Names, model: str, usage: dict[str, Any]) -> dict[str, Any]:
    """The reply as a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None, "annotations": []}
    calls = [
        {
            "id": call.id or names.make("call_", number),
            "type": "function",
            "function": {"name": call.name, "arguments": spell(call.args)},
        }
        for number, call in enumerate(reply.calls)
    ]
    if calls:
        message["tool_calls"] = calls
    stop = _CHAT_STOPS.get(reply.stop_reason, "stop")
    return {
        "id": names.make("chatcmpl-"),
        "object": "chat.completion",
        "created": 1_790_000_000 + names.turn,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": stop}],
        "usage": usage,
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def build_output(reply: Reply, names: Names, sealer: Sealer, *, has_encrypted: bool) -> list[dict[str, Any]]:
    """The reply as items of the Responses API."""
    output: list[dict[str, Any]] = []
    for number, part in enumerate(reply.parts):
        match part:
            case Text(text):
                content = [{"type": "output_text", "annotations": [], "logprobs": [], "text": text}]
                item = {"id": names.make("msg_", number), "type": "message", "status": "completed"}
                output.append({**item, "content": content, "role": "assistant"})
            case Thinking(text) | Redacted(text):
                summary = [{"type": "summary_text", "text": text}] if isinstance(part, Thinking) else []
                item = {"id": names.make("rs_", number), "type": "reasoning"}
                sealed = {"encrypted_content": sealer.seal(text)} if has_encrypted else {}
                output.append({**item, "summary": summary, **sealed})
            case Call(name, _, given) if part.custom_input is not None:
                item = {"id": names.make("ctc_", number), "type": "custom_tool_call", "status": "completed"}
                call_id = given or names.make("call_", number)
                output.append({**item, "input": part.custom_input, "call_id": call_id, "name": name})
            case Call(name, args, given):
                item = {"id": names.make("fc_", number), "type": "function_call", "status": "completed"}
                call_id = given or names.make("call_", number)
                output.append({**item, "arguments": spell(args), "call_id": call_id, "name": name})
    return output


def build_response(
    request: dict[str, Any], output: list[dict[str, Any]], names: Names, usage: dict[str, Any], stop: str
) -> dict[str, Any]:
    """A response of the Responses API around these items."""
    is_cut = stop == "max_tokens"
    return {
        "id": names.make("resp_"),
        "object": "response",
        "created_at": 1_790_000_000 + names.turn,
        "status": "incomplete" if is_cut else "completed",
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "metadata": request.get("metadata") or {},
        "model": request["model"],
        "output": output,
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "previous_response_id": request.get("previous_response_id"),
        "prompt_cache_key": request.get("prompt_cache_key"),
        "reasoning": request.get("reasoning") or {"effort": None, "summary": None},
        "store": request.get("store", True),
        "temperature": 1.0,
        "text": request.get("text") or {"format": {"type": "text"}},
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
    }
