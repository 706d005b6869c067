"""Prompts as a provider caches them: blocks with a key and a count of tokens, and the marks among them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from holdfast.adapters.tokens import EstimatingCounter, ExactCounter
from tests.gateway.upstreams.messages_rules import find_marks, iterate_blocks

Tokens = Literal["estimate", "exact"]
BLOCK_TOKENS = 4
"""What a block costs beside its text."""
IMAGE_TOKENS = 1_500
MEMORY = 200_000
"""The most blocks whose counts are remembered."""


class PromptBlock(NamedTuple):
    key: bytes
    tokens: int
    ttl: int = 0
    """The seconds of the mark on it; 0 without one."""
    text: str = ""
    """Only where prefixes inside of a block count."""


class PromptReader:
    """Reads requests as blocks."""

    def __init__(self, tokens: Tokens = "estimate") -> None:
        counter = EstimatingCounter() if tokens == "estimate" else ExactCounter()
        self.count: Callable[[str], int] = counter.count
        self._counts: dict[bytes, int] = {}

    def read_message(self, request: dict[str, Any]) -> list[PromptBlock]:
        """The blocks of a request to Anthropic. The settings that the cache of messages depends on are part of their
        keys, as a change of thinking or of the choice of tools empties it."""
        settings = json.dumps([request.get("thinking"), request.get("tool_choice")], sort_keys=True)
        blocks = []
        for place, block in iterate_blocks(request):
            marks = find_marks(block)
            ttl = (3_600 if marks[-1].get("ttl") == "1h" else 300) if marks else 0
            salt = place if place in ("tools", "system") else f"{place}\0{settings}"
            blocks.append(self._build(salt, _without_marks(block), ttl))
        automatic = request.get("cache_control")
        if automatic is not None and blocks and not blocks[-1].ttl:
            blocks[-1] = blocks[-1]._replace(ttl=3_600 if automatic.get("ttl") == "1h" else 300)
        return blocks

    def read_chat(self, request: dict[str, Any]) -> list[PromptBlock]:
        """The tools and the messages of a chat, one block each."""
        items = [*(request.get("tools") or []), *request["messages"]]
        return [self._build("", item, keeps_text=True) for item in items]

    def read_response(self, request: dict[str, Any], items: list[dict[str, Any]]) -> list[PromptBlock]:
        """The tools, the instructions and the items of a request for a response, one block each."""
        head = [*(request.get("tools") or []), request.get("instructions") or ""]
        return [self._build("", item, keeps_text=True) for item in [*head, *items]]

    def _build(self, salt: str, block: object, ttl: int = 0, *, keeps_text: bool = False) -> PromptBlock:
        text = json.dumps(block, ensure_ascii=False)
        key = hashlib.sha256(f"{salt}\0{text}".encode("utf-8", "surrogatepass")).digest()
        tokens = self._counts.get(key)
        if tokens is None:
            if len(self._counts) >= MEMORY:
                self._counts.clear()
            plain, images = _without_images(block)
            counted = self.count(json.dumps(plain, ensure_ascii=False) if images else text)
            tokens = self._counts[key] = BLOCK_TOKENS + counted + IMAGE_TOKENS * images
        return PromptBlock(key, tokens, ttl, text if keeps_text else "")


def _without_images(value: Any) -> tuple[Any, int]:
    """The value without the bytes of its images, and how many these were."""
    if isinstance(value, dict):
        if value.get("type") == "base64" and "data" in value:
            return {**value, "data": ""}, 1
        pairs = {key: _without_images(inner) for key, inner in value.items()}
        return {key: inner for key, (inner, _) in pairs.items()}, sum(count for _, count in pairs.values())
    if isinstance(value, list):
        inner = [_without_images(each) for each in value]
        return [each for each, _ in inner], sum(count for _, count in inner)
    if isinstance(value, str) and value.startswith("data:image/"):
        return "", 1
    return value, 0


def _without_marks(block: dict[str, Any]) -> dict[str, Any]:
    """The block as the cache compares it: no marks, its own fields in a fixed order, all else as it is written."""
    plain = {key: block[key] for key in sorted(block) if key != "cache_control"}
    if plain.get("is_error") is False:
        del plain["is_error"]
    inner = plain.get("content")
    if plain.get("type") == "tool_result" and isinstance(inner, list):
        plain["content"] = [_without_marks(each) for each in inner]
    return plain
