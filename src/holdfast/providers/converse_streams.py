"""Collect the stream of Bedrock's converse_stream() into the response of converse()."""

from __future__ import annotations

import binascii
from typing import Any

from holdfast.conversion import parse_object
from holdfast.errors import InvalidArgument
from holdfast.providers.bedrock import copy_block
from holdfast.providers.fields import get_text, read_fields, read_list, require_fields
from holdfast.providers.streams import StreamMeter, read_index


class _ConverseBlock:
    """A content block: its start, and the deltas after it."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.is_stopped = False
        self._texts: list[str] = []
        self._inputs: list[str] = []
        self._reasoning: list[str] = []
        self._signature: str | None = None
        self._redacted: list[str] = []
        self._citations: list[Any] = []
        self._results: list[Any] = []
        self._others: dict[str, Any] = {}

    def add(self, delta: dict[str, Any], meter: StreamMeter) -> str:
        """Add a delta. Returns its visible text."""
        text = get_text(delta, "text")
        if text is not None:
            self._texts.append(meter.count_text(text))
            return text
        use = read_fields(delta.get("toolUse"))
        if use is not None:
            self._inputs.append(meter.count_text(get_text(use, "input") or ""))
        reasoning = read_fields(delta.get("reasoningContent"))
        if reasoning is not None:
            self._add_reasoning(copy_block(reasoning), meter)
        if delta.get("citation") is not None:
            self._citations.append(meter.count_value(_copy_citation(delta["citation"])))
        self._results += meter.count_value(
            copy_block({"toolResult": read_list(delta.get("toolResult"), "'toolResult'")})
        )["toolResult"]
        if delta.get("image") is not None:
            fields = copy_block(require_fields(delta["image"], "'image'"))
            self._others.update(meter.count_value(fields))
        return ""

    def _add_reasoning(self, reasoning: dict[str, Any], meter: StreamMeter) -> None:
        text, redacted = get_text(reasoning, "text"), get_text(reasoning, "redactedContent")
        if text is not None:
            self._reasoning.append(meter.count_text(text))
        if get_text(reasoning, "signature") is not None:
            self._signature = (self._signature or "") + meter.count_text(reasoning["signature"])
        if redacted is not None:
            self._redacted.append(meter.count_text(redacted))

    @property
    def has_call(self) -> bool:
        return "toolUse" in self.start

    def build(self) -> dict[str, Any] | None:
        """The block; None if it has nothing in it."""
        if self.has_call:
            text = "".join(self._inputs)
            parsed = parse_object(text) if text else {}
            return {"toolUse": {**self.start["toolUse"], "input": text if parsed is None else parsed}}
        if "toolResult" in self.start:
            return {"toolResult": {**self.start["toolResult"], "content": self._results}}
        if "image" in self.start:
            return {"image": {**self.start["image"], **self._others}}
        if self._reasoning or self._signature is not None:
            signature = {} if self._signature is None else {"signature": self._signature}
            return {"reasoningContent": {"reasoningText": {"text": "".join(self._reasoning), **signature}}}
        if self._redacted:
            return {"reasoningContent": {"redactedContent": _join_base64(self._redacted)}}
        text = "".join(self._texts)
        if self._citations:
            return {"citationsContent": {"content": [{"text": text}], "citations": self._citations}}
        return {"text": text} if text else None


def _copy_citation(citation: object) -> Any:
    return copy_block(require_fields(citation, "'citation'"))


def _join_base64(pieces: list[str]) -> str:
    """The bytes of several pieces together; if one is no base64, the texts."""
    try:
        data = b"".join(binascii.a2b_base64(piece) for piece in pieces)
    except ValueError:
        return "".join(pieces)
    return binascii.b2a_base64(data, newline=False).decode()


class ConverseStream:
    """Collects the events of converse_stream()."""

    def __init__(self) -> None:
        self.complete = False
        self._meter = StreamMeter()
        self._blocks: dict[int, _ConverseBlock] = {}
        self._text_pieces: list[str] = []
        self._stop: str | None = None
        self._usage: Any = None
        self._trace: Any = None

    @property
    def text(self) -> str:
        return "".join(self._text_pieces)

    def add(self, event: dict[str, Any]) -> None:
        for kind in ("contentBlockStart", "contentBlockDelta", "contentBlockStop"):
            fields = read_fields(event.get(kind))
            if fields is not None:
                self._add_block_event(kind, fields)
        stop = read_fields(event.get("messageStop"))
        if stop is not None:
            self._stop = get_text(stop, "stopReason") or "end_turn"
            self.complete = True
        metadata = read_fields(event.get("metadata"))
        if metadata is not None:
            self._usage, self._trace = metadata.get("usage"), metadata.get("trace")

    def _add_block_event(self, kind: str, fields: dict[str, Any]) -> None:
        index = read_index(fields, "contentBlockIndex")
        if kind == "contentBlockStart":
            start = self._meter.count_value(copy_block(read_fields(fields.get("start")) or {}))
            at = len(self._blocks) if index is None else index
            begun = self._blocks.setdefault(at, _ConverseBlock({}))  # a delta may have come first
            begun.start |= {key: value for key, value in start.items() if type(value) is dict}
            return
        block = self._blocks.get(-1 if index is None else index)
        if block is None and kind == "contentBlockDelta":  # text and reasoning have no start
            self._meter.count_slot()
            block = self._blocks.setdefault(len(self._blocks) if index is None else index, _ConverseBlock({}))
        if block is None:
            raise InvalidArgument(argument="event", reason=f"{kind!r} is for a block that did not start")
        if kind == "contentBlockStop":
            block.is_stopped = True
            return
        text = block.add(read_fields(fields.get("delta")) or {}, self._meter)
        if text:
            self._text_pieces.append(text)

    def response(self) -> dict[str, Any]:
        built = (self._blocks[index].build() for index in sorted(self._blocks))
        return self._build_response([block for block in built if block is not None], self._stop)

    def partial(self) -> dict[str, Any]:
        """Return what has arrived: text, and the complete calls with the reasoning before them."""
        content: list[dict[str, Any]] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            built = block.build()
            if built is not None and ("text" in built or "citationsContent" in built or block.is_stopped):
                content.append(built)
        while content and "reasoningContent" in content[-1]:  # refused without the next block
            content.pop()
        return self._build_response(content, "partial")

    def _build_response(self, content: list[dict[str, Any]], stop: str | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": content}
        response = {"output": {"message": message}, "stopReason": stop or "partial", "usage": self._usage}
        return response if self._trace is None else {**response, "trace": self._trace}
