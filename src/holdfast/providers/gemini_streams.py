"""Collect the stream of Gemini into the response that it would have sent in one piece."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.providers.fields import get_text, read_fields, read_list, require_fields
from holdfast.providers.gemini import read_part_list, read_word, snake_fields
from holdfast.providers.streams import StreamMeter, read_index

MERGED_FIELDS = frozenset({"text", "thought"})
"""A part with no other fields is a piece of the text before it. A signature stays with its part."""


class GeminiStream:
    """Collects the responses of generate_content_stream()."""

    def __init__(self) -> None:
        self.complete = False
        self._meter = StreamMeter()
        self._header: dict[str, str] = {}
        self._parts: list[dict[str, Any]] = []
        self._texts: list[list[str]] = []
        self._text_pieces: list[str] = []
        self._stop: str | None = None
        self._block_reason: str | None = None
        self._usage: dict[str, Any] = {}

    @property
    def text(self) -> str:
        return "".join(self._text_pieces)

    def add(self, event: dict[str, Any]) -> None:
        response = snake_fields(event)
        for key in ("model_version", "response_id"):
            if get_text(response, key) and key not in self._header:
                self._header[key] = self._meter.count_text(response[key])
        usage = read_fields(response.get("usage_metadata"))
        if usage is not None:  # figures are totals: a later one replaces an earlier one
            figures = {key: value for key, value in snake_fields(usage).items() if type(value) is int}
            self._usage.update((key, value) for key, value in figures.items() if key.endswith("_token_count"))
        feedback = snake_fields(read_fields(response.get("prompt_feedback")) or {})
        reason = read_word(feedback, "block_reason")
        if reason is not None:
            self._block_reason, self.complete = reason, True
        for candidate in read_list(response.get("candidates"), "'candidates'"):
            self._add_candidate(snake_fields(require_fields(candidate, "a candidate")))

    def _add_candidate(self, candidate: dict[str, Any]) -> None:
        if read_index(candidate, "index"):
            raise InvalidArgument(
                argument="event", reason="the stream has several candidates: add the events of one of them"
            )
        content = read_fields(candidate.get("content")) or {}
        for part in read_part_list(content.get("parts")):
            self._add_part(part)
        stop = read_word(candidate, "finish_reason")
        if stop is not None and stop != "FINISH_REASON_UNSPECIFIED":
            self._stop, self.complete = stop, True

    def _add_part(self, part: dict[str, Any]) -> None:
        text = get_text(part, "text")
        thought = part.get("thought") is True
        if text and not thought:
            self._text_pieces.append(text)
        last = self._parts[-1] if self._parts else {}
        if text is not None and part.keys() <= MERGED_FIELDS:
            if last and last.keys() <= MERGED_FIELDS and (last.get("thought") is True) == thought:
                self._texts[-1].append(self._meter.count_text(text))
                return
            if not text:
                return
        self._meter.count_value(part)
        self._parts.append(part)
        self._texts.append([text or ""])

    def response(self) -> dict[str, Any]:
        return self._build_response(self._build_parts(), self._stop)

    def partial(self) -> dict[str, Any]:
        """Return what has arrived. A call arrives in one piece."""
        parts = self._build_parts()
        while parts and parts[-1].get("thought") is True:  # thoughts that led to nothing
            parts.pop()
        return self._build_response(parts, "partial")

    def _build_parts(self) -> list[dict[str, Any]]:
        return [
            {**part, "text": "".join(pieces)} if "text" in part and type(part["text"]) is str else part
            for part, pieces in zip(self._parts, self._texts, strict=True)
        ]

    def _build_response(self, parts: list[dict[str, Any]], stop: str | None) -> dict[str, Any]:
        response: dict[str, Any] = {**self._header, "usage_metadata": self._usage, "candidates": []}
        if self._block_reason is not None and not parts:
            return {**response, "prompt_feedback": {"block_reason": self._block_reason}}
        candidate = {"content": {"role": "model", "parts": parts}, "finish_reason": stop}
        return {**response, "candidates": [candidate]}
