"""What Anthropic refuses in a request for a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.gateway.upstreams.refusals import Refusal, require, require_fields
from tests.gateway.upstreams.seals import Sealer

MID_SYSTEM_BETA = "mid-conversation-system-2026-04-07"
MAX_MARKS = 4
_ID = re.compile(r"[a-zA-Z0-9_-]{1,256}")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOP = frozenset(
    "model max_tokens messages system tools tool_choice metadata stop_sequences stream temperature top_k top_p thinking"
    " context_management output_config output_format container mcp_servers service_tier inference_geo speed"
    " cache_control compaction diagnostics fallbacks fallback_credit_token thread user_profile_id workspace_id".split()
)
_FIELDS: dict[str, tuple[str, str]] = {
    "text": ("text cache_control citations", "text"),
    "image": ("source cache_control transformations", "source"),
    "document": ("source cache_control citations context title", "source"),
    "search_result": ("content source title cache_control citations", "content source title"),
    "thinking": ("thinking signature", "signature"),
    "redacted_thinking": ("data", "data"),
    "tool_use": ("id name input cache_control caller toolset_name", "id name input"),
    "tool_result": ("tool_use_id content is_error cache_control toolset_name", "tool_use_id"),
    "server_tool_use": ("id name input cache_control caller", "id name input"),
    "web_search_tool_result": ("tool_use_id content cache_control caller", "tool_use_id content"),
    "web_fetch_tool_result": ("tool_use_id content cache_control caller", "tool_use_id content"),
    "tool_search_tool_result": ("tool_use_id content cache_control", "tool_use_id content"),
    "tool_reference": ("tool_name cache_control", "tool_name"),
    "container_upload": ("file_id cache_control", "file_id"),
    "compaction": ("content encrypted_content signature tool_changes cache_control", ""),
    "mcp_tool_use": ("id name input server_name cache_control", "id name input"),
    "mcp_tool_result": ("tool_use_id content is_error cache_control", "tool_use_id"),
    "tool_addition": ("tool cache_control", "tool"),
    "tool_removal": ("tool cache_control", "tool"),
}
_BLOCKS = {
    kind: (frozenset(known.split()) | {"type"}, frozenset(needed.split())) for kind, (known, needed) in _FIELDS.items()
}
_SYSTEM_ONLY = frozenset({"clear_at", "output_config"})
_MESSAGE = frozenset({"role", "content"}) | _SYSTEM_ONLY
_ASSISTANT_ONLY = {"tool_use", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"}


class Turn(NamedTuple):
    """Messages of one role that follow each other, as one."""

    role: str
    number: int
    blocks: list[dict[str, Any]]


class MessageRules:
    """Checks requests of one server."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self.thoughtful: set[str] = set()
        """Calls that this server made after thinking: their turn must come back with it while it is the last one."""
        self.extra_types: set[str] = set()
        """Types of blocks that this server takes as well, with any fields: those of a newer API."""

    def check(self, request: dict[str, Any], betas: frozenset[str], *, is_count: bool = False) -> None:
        for name in request:
            require(name in _TOP, f"{name}: Extra inputs are not permitted")
        _check_head(request, is_count=is_count)
        messages = request.get("messages")
        if not isinstance(messages, list):
            raise Refusal("messages: Field required" if messages is None else "messages: Input should be a valid list")
        require(messages, "messages: at least one message is required")
        turns = self._read_turns(messages, MID_SYSTEM_BETA in betas)
        _check_marks(request)
        _check_pairs(turns)
        self._check_last_thinking(request, turns)

    def _read_turns(self, messages: list[Any], takes_system: bool) -> list[Turn]:
        turns: list[Turn] = []
        for number, message in enumerate(messages):
            where = f"messages.{number}"
            value = require_fields(message, where, _MESSAGE, frozenset({"role"}))
            role = value["role"]
            allowed = ("user", "assistant", "system") if takes_system else ("user", "assistant")
            if role not in allowed:
                names = "' or '".join(allowed)
                raise Refusal(f"messages: Unexpected role \"{role}\". Input should be '{names}'.")
            if number == 0:
                require(role == "user", 'messages: first message must use the "user" role')
            if role == "system" and value.get("output_config") and value.get("content") == []:
                continue  # a directive may stand anywhere
            require(
                role == "system" or len(value.keys() & _SYSTEM_ONLY) == 0, f"{where}: Extra inputs are not permitted"
            )
            is_last = number == len(messages) - 1
            blocks = self._read_content(value.get("content"), f"{where}.content", role, is_last)
            if turns and turns[-1].role == role:
                turns[-1].blocks.extend(blocks)
            else:
                turns.append(Turn(role, number, blocks))
        _check_places(turns)
        last = turns[-1]
        if last.role == "assistant" and last.blocks and last.blocks[-1]["type"] == "text":
            text = last.blocks[-1]["text"]
            require(text == text.rstrip(), "messages: final assistant content cannot end with trailing whitespace")
        return turns

    def _read_content(self, content: object, where: str, role: str, is_last: bool) -> list[dict[str, Any]]:
        if isinstance(content, str):
            is_prefill = is_last and role == "assistant"
            message = f"{where.removesuffix('.content')}: all messages must have non-empty content"
            require(content or is_prefill, f"{message} except for the optional final assistant message")
            return [{"type": "text", "text": content}]
        if not isinstance(content, list):
            raise Refusal(f"{where}: Input should be a valid list")
        require(content or (is_last and role == "assistant"), f"{where}: must have non-empty content")
        return [self._read_block(block, f"{where}.{number}", role) for number, block in enumerate(content)]

    def _read_block(self, block: Any, where: str, role: str) -> dict[str, Any]:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in self.extra_types:
            return dict(block)
        if kind not in _BLOCKS:
            expected = "', '".join(_BLOCKS)
            raise Refusal(f"{where}: Input tag '{kind}' found using 'type' does not match any of: '{expected}'")
        known, needed = _BLOCKS[kind]
        value = require_fields(block, f"{where}.{kind}", known, needed)
        _check_mark(value.get("cache_control"), f"{where}.{kind}")
        if role != "assistant":
            require(kind not in _ASSISTANT_ONLY, f"{where}: `{kind}` blocks can only be in `assistant` messages")
        else:
            require(kind != "tool_result", f"{where}: `tool_result` blocks can only be in `user` messages")
        match kind:
            case "text":
                _check_text(value, where)
            case "thinking":
                self._check_thinking(value, where)
            case "redacted_thinking":
                good = self._sealer.has_sealed(value["data"], "Eo")
                require(good, f"{where}: Invalid `data` in `redacted_thinking` block")
            case "tool_use":
                require(_ID.fullmatch(str(value["id"])), f"{where}.tool_use.id: String should match pattern")
                require(isinstance(value["input"], dict), f"{where}.tool_use.input: Input should be a valid dictionary")
            case "tool_result":
                self._check_result(value, where, role)
            case "image" | "document":
                _check_source(value["source"], f"{where}.{kind}.source")
        return value

    def _check_thinking(self, block: dict[str, Any], where: str) -> None:
        text = block.get("thinking")
        require(isinstance(text, str), f"{where}.thinking.thinking: Field required")
        good = self._sealer.has_signed(str(text), block["signature"])
        require(good, f"{where}: Invalid `signature` in `thinking` block")

    def _check_result(self, block: dict[str, Any], where: str, role: str) -> None:
        content = block.get("content")
        if isinstance(content, list):
            for number, inner in enumerate(content):
                kind = inner.get("type") if isinstance(inner, dict) else None
                good = kind in ("text", "image", "document", "search_result", "tool_reference")
                require(good, f"{where}.tool_result.content.{number}: Input tag '{kind}' is not permitted")
                self._read_block(inner, f"{where}.tool_result.content.{number}", role)
        else:
            require(content is None or isinstance(content, str), f"{where}.tool_result.content: Input should be a list")
        error = block.get("is_error")
        require(error is None or isinstance(error, bool), f"{where}.tool_result.is_error: Input should be a boolean")

    def _check_last_thinking(self, request: dict[str, Any], turns: list[Turn]) -> None:
        """The last turn of the assistant in an open tool loop has its thinking."""
        thinking = request.get("thinking") or {}
        if thinking.get("type") not in ("enabled", "adaptive"):
            return
        last = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
        if last is None or turns[-1].role == "assistant":
            return
        calls = [block["id"] for block in last.blocks if block["type"] == "tool_use"]
        if not calls:
            return
        is_needed = thinking["type"] == "enabled" or any(call in self.thoughtful for call in calls)
        first = last.blocks[0]["type"]
        require(
            first in ("thinking", "redacted_thinking") or not is_needed,
            f"messages.{last.number}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{first}`."
            " When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the"
            " lastmost set of `tool_use` and `tool_result` blocks).",
        )


def _check_head(request: dict[str, Any], *, is_count: bool) -> None:
    model = request.get("model")
    require(model is not None, "model: Field required")
    require(isinstance(model, str) and model, "model: String should have at least 1 character")
    if not is_count:
        limit = request.get("max_tokens")
        require(limit is not None, "max_tokens: Field required")
        require(type(limit) is int, "max_tokens: Input should be a valid integer")
        require(isinstance(limit, int) and limit >= 1, "max_tokens: must be greater than or equal to 1")
    _check_thinking_config(request)
    system = request.get("system")
    require(system is None or isinstance(system, str | list), "system: Input should be a valid string or list")
    for number, block in enumerate(system if isinstance(system, list) else []):
        where = f"system.{number}"
        value = require_fields(block, where, _BLOCKS["text"][0], frozenset({"type", "text"}))
        require(value["type"] == "text", f"{where}.type: Input should be 'text'")
        _check_mark(value.get("cache_control"), where)
        _check_text(value, where)
    tools = request.get("tools")
    require(tools is None or isinstance(tools, list), "tools: Input should be a valid list")
    names = set()
    for number, tool in enumerate(tools or []):
        require(isinstance(tool, dict), f"tools.{number}: Input should be a valid dictionary")
        name = tool.get("name")
        if name is not None:
            require(isinstance(name, str) and _TOOL_NAME.fullmatch(name), f"tools.{number}.name: should match pattern")
            require(name not in names, "tools: Tool names must be unique.")
            names.add(name)
        _check_mark(tool.get("cache_control"), f"tools.{number}")


def _check_thinking_config(request: dict[str, Any]) -> None:
    thinking = request.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    require(kind in ("enabled", "disabled", "adaptive"), "thinking: Input tag does not match the expected tags")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        require(type(budget) is int, "thinking.enabled.budget_tokens: Field required")
        require(budget >= 1_024, "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        require(
            request.get("max_tokens", budget + 1) > budget, "`max_tokens` must be greater than `thinking.budget_tokens`"
        )


def _check_text(block: dict[str, Any], where: str) -> None:
    text = block["text"]
    require(isinstance(text, str), f"{where}.text.text: Input should be a valid string")
    if not text:
        require("cache_control" not in block, f"{where}.text: cache_control cannot be set for empty text blocks")
        raise Refusal("messages: text content blocks must be non-empty")
    require(text.strip(), "messages: text content blocks must contain non-whitespace text")


def _check_source(source: object, where: str) -> None:
    if not isinstance(source, dict):
        raise Refusal(f"{where}: Input should be a valid dictionary")
    kind = source.get("type")
    require(kind in ("base64", "url", "file", "text", "content"), f"{where}: Input tag '{kind}' is not expected")
    if kind == "base64":
        require(source.get("data"), f"{where}.base64.data: Field required")
        require(source.get("media_type"), f"{where}.base64.media_type: Field required")


def _check_mark(mark: object, where: str) -> None:
    if mark is None:
        return
    known = frozenset({"type", "ttl", "scope"})
    value = require_fields(mark, f"{where}.cache_control", known, frozenset({"type"}))
    require(value["type"] == "ephemeral", f"{where}.cache_control: Input tag is not 'ephemeral'")
    require(
        value.get("ttl", "5m") in ("5m", "1h"), f"{where}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
    )


def iterate_blocks(request: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The blocks of a valid request in the order of the cache, each with its place: tools, system and messages."""
    for tool in request.get("tools") or []:
        yield "tools", tool
    system = request.get("system") or []
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield "system", block
    for message in request["messages"]:
        content = message.get("content") or []
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield message["role"], block


def find_marks(block: dict[str, Any]) -> list[dict[str, Any]]:
    """The marks of a block, those inside of a tool result first."""
    inner = block.get("content") if block.get("type") == "tool_result" else None
    nested = [mark for each in inner for mark in find_marks(each)] if isinstance(inner, list) else []
    own = block.get("cache_control")
    return [*nested, own] if own is not None else nested


def _check_marks(request: dict[str, Any]) -> None:
    marks = [mark for _, block in iterate_blocks(request) for mark in find_marks(block)]
    if request.get("cache_control") is not None:
        marks.append(request["cache_control"])
    limit = f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {len(marks)}."
    require(len(marks) <= MAX_MARKS, limit)
    seen_short = False
    for mark in marks:
        is_long = mark.get("ttl") == "1h"
        require(
            not (is_long and seen_short),
            "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
            " Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
        )
        seen_short = seen_short or not is_long


def _check_places(turns: list[Turn]) -> None:
    """System messages stand behind what a user said, and before a reply or at the end."""
    more = "the directive-only form (content: [] with output_config) is accepted at any position"
    for at, turn in enumerate(turns):
        if turn.role != "system":
            continue
        before, after = turns[at - 1], turns[at + 1 : at + 2]
        kind = before.blocks[-1]["type"] if before.blocks else ""
        is_server = kind.endswith("tool_result") and before.role == "assistant"
        must_follow = "must follow a 'user' message or an 'assistant' message ending in a server tool result"
        require(before.role == "user" or is_server, f"messages.{turn.number}: role 'system' {must_follow}; {more}")
        must_precede = "must precede an 'assistant' message or end the array"
        good = not after or after[0].role == "assistant"
        require(good, f"messages.{turn.number}: role 'system' {must_precede}; {more}")


def _check_pairs(turns: list[Turn]) -> None:
    """Each call has one result, at the beginning of the next turn of the user, and each result has its call."""
    seen: set[str] = set()
    for at, turn in enumerate(turns):
        calls = [block["id"] for block in turn.blocks if block["type"] == "tool_use"]
        for call in calls:
            require(call not in seen, f"messages.{turn.number}: `tool_use` ids must be unique: {call}")
            seen.add(call)
        if turn.role == "assistant":
            following = turns[at + 1] if at + 1 < len(turns) else None
            _check_answers(turn, calls, following)
        elif turn.role == "user":
            before = turns[at - 1] if at else None
            known = {block.get("id") for block in before.blocks} if before and before.role == "assistant" else set()
            for number, block in enumerate(turn.blocks):
                if block["type"] == "tool_result" and block["tool_use_id"] not in known:
                    raise Refusal(
                        f"messages.{turn.number}.content.{number}: unexpected `tool_use_id` found in `tool_result`"
                        f" blocks: {block['tool_use_id']}. Each `tool_result` block must have a corresponding"
                        " `tool_use` block in the previous message."
                    )


def _check_answers(turn: Turn, calls: list[str], following: Turn | None) -> None:
    if not calls:
        return
    answers: list[str] = []
    for block in following.blocks if following and following.role == "user" else []:
        if block["type"] != "tool_result":
            break
        answers.append(block["tool_use_id"])
    missing = [call for call in calls if call not in answers]
    require(
        not missing,
        f"messages.{turn.number}: `tool_use` ids were found without `tool_result` blocks immediately after:"
        f" {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next"
        " message.",
    )
    for call in calls:
        one = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call}"
        require(answers.count(call) == 1, f"messages.{turn.number + 1}: {one}")
