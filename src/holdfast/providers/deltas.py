"""A reply that arrives in pieces.

    deltas = Deltas()
    for event in stream:
        deltas.add(event)
    session.record(deltas)

Laws: the cost of an event depends on the event only, not on earlier ones. Memory is bounded. An event of an unknown
type is ignored, so that a newer API does not break an older Holdfast. An error that the provider reports is raised;
`partial()` returns what had arrived before.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidArgument, describe_value
from holdfast.providers import bedrock, gemini, streams
from holdfast.providers.converse_streams import ConverseStream
from holdfast.providers.fields import dump, get_text, read_attribute, read_fields
from holdfast.providers.gemini_streams import GeminiStream
from holdfast.providers.openai import provider_error

SKIPPED_FIELDS = {
    "content_block_stop": frozenset({"content_block"}),
    "message_stop": frozenset({"message"}),
}
"""Fields in which stream helpers repeat everything so far. Copying them each time would have a quadratic cost."""


class Deltas:
    """Collects the events of one stream: OpenAI chat chunks (also of LiteLLM), OpenAI responses events, Anthropic message
    events, Gemini responses, or events of Bedrock's converse_stream().

    Events are objects of the official clients, with or without their stream helpers, or dicts."""

    def __init__(self) -> None:
        self._stream: streams.ReplyStream | None = None

    def add(self, event: object) -> None:
        """Add an event. Raises InvalidArgument if it reports an error, and TooLarge over STREAM_BYTES."""
        plain = _read_event(event)
        if plain is None:
            return
        kind = get_text(plain, "type")
        if kind == "error" or (plain.get("error") is not None and (kind is None or "choices" in plain)):
            raise provider_error(plain, "event")
        failed = next((name for name in streams.BEDROCK_ERRORS if name in plain), None) if kind is None else None
        if failed is not None:
            raise provider_error({"type": failed, **(read_fields(plain[failed]) or {})}, "event")
        expected = _stream_type(plain, kind)
        if expected is None:
            return
        if self._stream is None:
            self._stream = expected()
        if type(self._stream) is not expected:
            raise InvalidArgument(
                argument="event", reason=f"{describe_value(kind or 'chunk')} is an event of another kind of stream"
            )
        self._stream.add(plain)

    @property
    def text(self) -> str:
        """The text so far."""
        return "" if self._stream is None else self._stream.text

    @property
    def complete(self) -> bool:
        """Whether the reply is complete. The usage may still follow: read the stream to its end."""
        return self._stream is not None and self._stream.complete

    def response(self) -> dict[str, Any]:
        """Return the reply as the provider would have sent it in one piece."""
        stream = self._require_stream()
        if not stream.complete:
            raise InvalidArgument(
                argument="message",
                reason="the stream is not complete: add the other events, or record deltas.partial()",
            )
        return stream.response()

    def partial(self) -> dict[str, Any]:
        """Return what is usable of an interrupted reply: text, complete tool calls, and the reasoning before them."""
        stream = self._require_stream()
        return stream.response() if stream.complete else stream.partial()

    def _require_stream(self) -> streams.ReplyStream:
        if self._stream is None:
            raise InvalidArgument(argument="message", reason="the Deltas has no event of a known stream")
        return self._stream


def _read_event(event: object) -> dict[str, Any] | None:
    """Return the event as a dict; None for a type without new content, which is not read at all."""
    if type(event) is not dict:
        kind = read_attribute(event, "type")
        if type(kind) is str:
            if kind == "chunk":
                return _read_event(read_attribute(event, "chunk"))
            if kind not in streams.EVENTS:
                return None
            return _require_event(event, dump(event, SKIPPED_FIELDS.get(kind, frozenset({"snapshot"}))))
        return _require_event(event, dump(event))
    plain = _require_event(event, event)
    return _require_event(event, plain.get("chunk")) if get_text(plain, "type") == "chunk" else plain


def _require_event(event: object, plain: object) -> dict[str, Any]:
    fields = read_fields(plain)
    if fields is None:
        raise InvalidArgument(argument="event", reason=f"{describe_value(event)} is not an event of a stream")
    return fields


def _stream_type(event: dict[str, Any], kind: str | None) -> type[streams.ReplyStream] | None:
    if kind in streams.RESPONSES_EVENTS:
        return streams.ResponsesStream
    if kind in streams.ANTHROPIC_EVENTS:
        return streams.AnthropicStream
    name = get_text(event, "object")
    if kind == "message" or name in ("chat.completion", "response"):
        raise InvalidArgument(argument="event", reason="this is a complete message: record it directly")
    if kind is None and (name == "chat.completion.chunk" or "choices" in event):
        return streams.ChatStream
    if kind is not None or name is not None:
        return None
    if bedrock.is_response(event):
        raise InvalidArgument(argument="event", reason="this is a complete message: record it directly")
    if not streams.BEDROCK_EVENTS.isdisjoint(event):
        return ConverseStream
    return GeminiStream if gemini.is_response(event) else None
