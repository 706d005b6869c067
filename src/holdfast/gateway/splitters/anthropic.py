"""The gateway's calls in replies of Anthropic: blocks of the content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from holdfast.gateway.splitters.base import (
    EventFrame,
    ReadCall,
    ReplySplitter,
    add_usage,
    encode,
    is_own,
    parse_arguments,
    read_event,
    write_frame,
)

_BLOCK_EVENTS = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})
_END_EVENTS = frozenset({"message_delta", "message_stop"})


class AnthropicSplitter(ReplySplitter):
    def _pass_event(self, frame: EventFrame, event: dict[str, Any]) -> bytes:
        kind = event.get("type")
        if kind == "message_start":
            return b"" if self._round else frame.raw
        if kind in _BLOCK_EVENTS:
            return self._pass_block(frame, event)
        if kind in _END_EVENTS and self._own:
            self._held.append(frame)
            return b""
        return self._write_delta(event) if kind == "message_delta" and self._round else frame.raw

    def _pass_block(self, frame: EventFrame, event: dict[str, Any]) -> bytes:
        index = event.get("index")
        block = event.get("content_block")
        if type(index) is not int:
            return frame.raw
        if isinstance(block, dict) and block.get("type") == "tool_use" and is_own(block.get("name")):
            self._own.add(index)
        if index in self._own:
            return b""
        number = self._number(index)
        return frame.raw if number == index else write_frame({**event, "index": number}, named=True)

    def _write_delta(self, event: dict[str, Any], **changes: object) -> bytes:
        """The end of the message, with the usage of all rounds."""
        own = self._deltas.partial().get("usage")
        usage = self._sum_usage(own if isinstance(own, dict) else {})
        delta = {**event.get("delta", {}), **changes}
        return write_frame(
            {**event, "delta": delta, "usage": usage} if self._round else {**event, "delta": delta}, named=True
        )

    def _write_end(self, *, has_client_calls: bool) -> bytes:
        changes = {} if has_client_calls or self._last.get("stop_reason") != "tool_use" else {"stop_reason": "end_turn"}
        parts = []
        for frame in self._held:
            event = read_event(frame.data) or {}
            is_changed = event.get("type") == "message_delta" and (changes or self._round)
            parts.append(self._write_delta(event, **changes) if is_changed else frame.raw)
        return b"".join(parts)

    def _read_calls(self, reply: dict[str, Any]) -> tuple[list[ReadCall], int, bool]:
        calls, client_calls = [], 0
        for block in _read_blocks(reply):
            if block.get("type") == "tool_use" and is_own(block.get("name")):
                calls.append(ReadCall(str(block.get("id")), parse_arguments(block.get("input")), block))
            else:
                client_calls += block.get("type") == "tool_use"
        return calls, client_calls, reply.get("stop_reason") == "tool_use"

    def _list_names(self, reply: dict[str, Any]) -> list[object]:
        return [block.get("name") for block in _read_blocks(reply) if block.get("type") == "tool_use"]

    def _list_client_calls(self, reply: dict[str, Any]) -> list[str]:
        return [str(block.get("id")) for block in _show_blocks(reply) if block.get("type") == "tool_use"]

    def _count_shown(self, reply: dict[str, Any]) -> int:
        return len(_show_blocks(reply))

    def _find_position(self, reply: dict[str, Any]) -> int:
        return len(list(takewhile(lambda block: not is_own_block(block), _read_blocks(reply))))

    def _merge(self, replies: Sequence[dict[str, Any]], *, ended: bool) -> dict[str, Any]:
        last, usage = replies[-1], dict[str, Any]()
        for reply in replies:
            usage = add_usage(usage, self._read_usage(reply))
        content = [block for reply in replies for block in _show_blocks(reply)]
        changes = {"stop_reason": "end_turn"} if ended and last.get("stop_reason") == "tool_use" else {}
        return {**last, "id": replies[0].get("id"), "content": content, "usage": usage, **changes}

    def _build_addition(self, reply: dict[str, Any], calls: Sequence[ReadCall], results: Sequence[str]) -> bytes:
        said = [block for block in _show_blocks(reply) if block.get("type") != "text" or block.get("text")]
        blocks = [call.block for call in calls]
        return encode({"role": "assistant", "content": [*said, *blocks]}) + b"," + write_results(blocks, results)


def write_results(calls: Sequence[Mapping[str, Any]], results: Sequence[str]) -> bytes:
    """The message with the results of calls."""
    return encode({"role": "user", "content": build_results(calls, results)})


def build_results(calls: Sequence[Mapping[str, Any]], results: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"type": "tool_result", "tool_use_id": call["id"], "content": result}
        for call, result in zip(calls, results, strict=True)
    ]


def is_own_block(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_use" and is_own(block.get("name"))


def _read_blocks(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = reply.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _show_blocks(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [block for block in _read_blocks(reply) if not is_own_block(block)]
