"""The gateway's calls in replies of OpenAI's Responses API: items of the output."""

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

_BEGIN_EVENTS = frozenset({"response.created", "response.in_progress", "response.queued"})
_END_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_CLIENT_CALLS = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call"}
)
"""Items that the client answers."""
_SHARED = ("id", "created_at")
"""Fields of the first response that the client knows it by."""


class ResponsesSplitter(ReplySplitter):
    def __init__(self, *, is_stream: bool, rounds: int = 3) -> None:
        self._first: dict[str, Any] = {}
        self._items: list[dict[str, Any]] = []
        """What the client was shown in earlier rounds."""
        self._sequence = 0
        super().__init__(is_stream=is_stream, rounds=rounds)

    def _pass_event(self, frame: EventFrame, event: dict[str, Any]) -> bytes:
        kind = event.get("type")
        if kind in _BEGIN_EVENTS:
            if self._round:
                return b""
            self._first = self._first or _read_shared(event)
        elif kind in _END_EVENTS:
            if self._own:
                self._held.append(frame)
                return b""
            if self._round:
                event = self._merge_end(event)
        elif "output_index" in event:
            shown = self._show_item(event)
            if shown is None:
                return b""
            event = shown
        return self._write(frame, event)

    def _show_item(self, event: dict[str, Any]) -> dict[str, Any] | None:
        index, item = event["output_index"], event.get("item")
        if isinstance(item, dict) and is_own_item(item):
            self._own.add(index)
        if index in self._own:
            return None
        number = self._number(index)
        return event if number == index else {**event, "output_index": number}

    def _write(self, frame: EventFrame, event: dict[str, Any]) -> bytes:
        """The event with its number in the client's stream."""
        number, is_first = event.get("sequence_number"), not self._round and not self._own
        if type(number) is int:
            if is_first:
                self._sequence = number
            elif number != self._sequence:
                event = {**event, "sequence_number": self._sequence}
            self._sequence += 1
        return frame.raw if event == read_event(frame.data) else write_frame(event, named=True)

    def _merge_end(self, event: dict[str, Any]) -> dict[str, Any]:
        response = event.get("response")
        if not isinstance(response, dict):
            return event
        merged = {**response, **self._first, "output": [*self._items, *_show_items(response)]}
        usage = response.get("usage")
        if isinstance(usage, dict):
            merged["usage"] = self._sum_usage(usage)
        return {**event, "response": merged}

    def _write_end(self, *, has_client_calls: bool) -> bytes:  # noqa: ARG002 - the end says nothing of calls
        parts = []
        for frame in self._held:
            parts.append(self._write(frame, self._merge_end(read_event(frame.data) or {})))
        return b"".join(parts)

    def _read_calls(self, reply: dict[str, Any]) -> tuple[list[ReadCall], int, bool]:
        calls, client_calls = [], 0
        for item in _read_items(reply):
            if is_own_item(item):
                calls.append(ReadCall(str(item.get("call_id")), parse_arguments(item.get("arguments")), item))
            else:
                client_calls += item.get("type") in _CLIENT_CALLS
        return calls, client_calls, reply.get("status") in (None, "completed")

    def _list_names(self, reply: dict[str, Any]) -> list[object]:
        return [item.get("name") for item in _read_items(reply) if item.get("type") == "function_call"]

    def _list_client_calls(self, reply: dict[str, Any]) -> list[str]:
        return [str(item["call_id"]) for item in _show_items(reply) if "call_id" in item]

    def _count_shown(self, reply: dict[str, Any]) -> int:
        return len(_show_items(reply))

    def _find_position(self, reply: dict[str, Any]) -> int:
        return len(list(takewhile(lambda item: not is_own_item(item), _read_items(reply))))

    def _merge(self, replies: Sequence[dict[str, Any]], *, ended: bool) -> dict[str, Any]:  # noqa: ARG002
        usage = dict[str, Any]()
        for reply in replies:
            usage = add_usage(usage, self._read_usage(reply))
        output = [item for reply in replies for item in _show_items(reply)]
        shared = {name: replies[0][name] for name in _SHARED if name in replies[0]}
        return {**replies[-1], **shared, "output": output, "usage": usage}

    def _build_addition(self, reply: dict[str, Any], calls: Sequence[ReadCall], results: Sequence[str]) -> bytes:
        shown = _show_items(reply)
        self._items += shown
        items = [*map(encode, shown), write_calls([call.block for call in calls], results)]
        return b",".join(items)


def write_calls(calls: Sequence[Mapping[str, Any]], results: Sequence[str]) -> bytes:
    """The items with calls, and those with their results."""
    answers = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": result}
        for call, result in zip(calls, results, strict=True)
    ]
    return b",".join(map(encode, (*calls, *answers)))


def is_own_item(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call" and is_own(item.get("name"))


def _read_shared(event: Mapping[str, Any]) -> dict[str, Any]:
    response = event.get("response")
    return {name: response[name] for name in _SHARED if name in response} if isinstance(response, dict) else {}


def _read_items(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    output = reply.get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def _show_items(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [item for item in _read_items(reply) if not is_own_item(item)]
