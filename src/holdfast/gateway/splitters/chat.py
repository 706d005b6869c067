"""The gateway's calls in replies of OpenAI chat: tool calls beside a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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

_GAP = "\n\n"
"""Between the texts of two rounds, which are one text for the client."""


class ChatSplitter(ReplySplitter):
    is_named: ClassVar[bool] = False

    def __init__(self, *, is_stream: bool, rounds: int = 3) -> None:
        self._first: dict[str, Any] = {}
        """The fields that all chunks of a reply share."""
        self._has_text = False
        self._text_round = 0
        super().__init__(is_stream=is_stream, rounds=rounds)

    def _pass_other(self, frame: EventFrame) -> bytes:
        if frame.data and self._own:
            self._held.append(frame)
            return b""
        return frame.raw

    def _pass_event(self, frame: EventFrame, event: dict[str, Any]) -> bytes:
        if not self._first:
            self._first = {name: event[name] for name in ("id", "created") if name in event}
        choice = _first_choice(event)
        if self._own and (choice is None or choice.get("finish_reason")):
            self._held.append(frame)
            return b""
        return self._write_chunk(frame, event, choice)

    def _write_chunk(self, frame: EventFrame, event: dict[str, Any], choice: dict[str, Any] | None) -> bytes:
        if choice is None:
            return self._write_usage(frame, event)
        delta = choice.get("delta")
        shown = self._show_delta(delta) if isinstance(delta, dict) else delta
        if self._own and choice.get("finish_reason"):  # the whole call came with its end
            self._held.append(EventFrame(frame.raw, encode({**event, "choices": [{**choice, "delta": {}}]})))
            choice = {**choice, "finish_reason": None}
            event = {name: value for name, value in event.items() if name != "usage"}
        elif shown == delta and not self._round:
            return frame.raw
        if not choice.get("finish_reason") and not shown:
            return b""
        changed = {**event, **self._first, "choices": [{**choice, "delta": shown}]}
        return self._write_usage(None, changed)

    def _write_usage(self, frame: EventFrame | None, event: dict[str, Any]) -> bytes:
        usage = event.get("usage")
        if self._round:
            event = {**event, **self._first}
            if isinstance(usage, dict):
                event["usage"] = self._sum_usage(usage)
        elif frame is not None:
            return frame.raw
        return write_frame(event, named=False)

    def _show_delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        """A delta without the gateway's calls; in a later round, as a part of the same message."""
        shown = dict(delta)
        calls = shown.get("tool_calls")
        if isinstance(calls, list):
            shown["tool_calls"] = [each for call in calls if (each := self._show_call(call)) is not None]
            if not shown["tool_calls"]:
                del shown["tool_calls"]
        if self._round:
            shown.pop("role", None)
        text = shown.get("content")
        if isinstance(text, str) and text:
            if self._has_text and self._text_round != self._round:
                shown["content"] = _GAP + text
            self._has_text, self._text_round = True, self._round
        is_empty = all(value in (None, "", []) for value in shown.values())
        return {} if is_empty and (self._round or len(shown) < len(delta)) else shown

    def _show_call(self, call: Any) -> Any:
        index = call.get("index", 0) if isinstance(call, dict) else 0
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and is_own(function.get("name")):
            self._own.add(index)
        if index in self._own:
            return None
        number = self._number(index)
        return call if number == index else {**call, "index": number}

    def _write_end(self, *, has_client_calls: bool) -> bytes:
        parts = []
        for frame in self._held:
            event = read_event(frame.data)
            choice = None if event is None else _first_choice(event)
            if event is None:
                parts.append(frame.raw)
            elif choice is None:
                parts.append(self._write_usage(frame, event))
            else:
                if not has_client_calls and choice.get("finish_reason") == "tool_calls":
                    choice = {**choice, "finish_reason": "stop"}
                parts.append(self._write_usage(None, {**event, "choices": [choice]}))
        return b"".join(parts)

    def _read_calls(self, reply: dict[str, Any]) -> tuple[list[ReadCall], int, bool]:
        calls, client_calls = [], 0
        for call in _read_tool_calls(reply):
            if is_own_call(call):
                calls.append(ReadCall(str(call.get("id")), parse_arguments(call["function"].get("arguments")), call))
            else:
                client_calls += 1
        choice = _first_choice(reply) or {}
        return calls, client_calls, choice.get("finish_reason") in ("tool_calls", "stop")

    def _list_names(self, reply: dict[str, Any]) -> list[object]:
        return [(call.get("function") or {}).get("name") for call in _read_tool_calls(reply)]

    def _list_client_calls(self, reply: dict[str, Any]) -> list[str]:
        return [str(call.get("id")) for call in _read_tool_calls(reply) if not is_own_call(call)]

    def _count_shown(self, reply: dict[str, Any]) -> int:
        return sum(not is_own_call(call) for call in _read_tool_calls(reply))

    def _find_position(self, reply: dict[str, Any]) -> int:  # noqa: ARG002 - they stand before the client's message
        return 0

    def _merge(self, replies: Sequence[dict[str, Any]], *, ended: bool) -> dict[str, Any]:
        last, usage, texts = replies[-1], dict[str, Any](), []
        for reply in replies:
            usage = add_usage(usage, self._read_usage(reply))
            texts.append(((_first_choice(reply) or {}).get("message") or {}).get("content") or "")
        choice = _first_choice(last) or {}
        message = {**(choice.get("message") or {}), "content": _GAP.join(filter(None, texts)) or None}
        calls = [call for call in _read_tool_calls(last) if not is_own_call(call)]
        message.pop("tool_calls", None)
        if calls:
            message["tool_calls"] = calls
        merged = {**choice, "message": message, **({"finish_reason": "stop"} if ended else {})}
        return {**last, "id": replies[0].get("id"), "choices": [merged], "usage": usage}

    def _build_addition(self, reply: dict[str, Any], calls: Sequence[ReadCall], results: Sequence[str]) -> bytes:
        content = ((_first_choice(reply) or {}).get("message") or {}).get("content")
        return write_calls([call.block for call in calls], results, content)


def write_calls(calls: Sequence[Mapping[str, Any]], results: Sequence[str], content: object = None) -> bytes:
    """The message with calls, and those with their results."""
    said = {"role": "assistant", "content": content or None, "tool_calls": calls}
    answers = [
        {"role": "tool", "tool_call_id": call["id"], "content": result}
        for call, result in zip(calls, results, strict=True)
    ]
    return b",".join(map(encode, (said, *answers)))


def is_own_call(call: Mapping[str, Any]) -> bool:
    function = call.get("function")
    return isinstance(function, dict) and is_own(function.get("name"))


def _first_choice(event: Mapping[str, Any]) -> dict[str, Any] | None:
    choices = event.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def _read_tool_calls(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    message = (_first_choice(reply) or {}).get("message")
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
