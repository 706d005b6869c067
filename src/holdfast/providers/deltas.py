"""A reply that arrives in pieces.

    deltas = Deltas()
    for event in stream:
        deltas.add(event)
    session.record(deltas)

Laws: an event costs what it brings, never what came before; what is held is bounded; an event of an unknown type is
passed over, so that a newer API does not break an older Holdfast; an error that the provider reports is raised, and what
had arrived until then can still be had with `partial()`.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidContent, shown
from holdfast.providers import streams
from holdfast.providers.openai import error_text
from holdfast.providers.plain import attribute, dumped, fields, word

SKIPPED_FIELDS = {
    "content_block_stop": frozenset({"content_block"}),
    "message_stop": frozenset({"message"}),
}
"""The clients' helpers add what came so far to each event; copying it every time would cost the square of the reply."""


class Deltas:
    """Collects the events of one stream: OpenAI chat chunks, OpenAI responses events, Anthropic message events.

    They may be objects of the official clients, with or without their stream helpers, or the dicts that came over the wire.
    """

    def __init__(self) -> None:
        self._stream: streams.Stream | None = None

    def add(self, event: object) -> None:
        """Takes one event. Raises InvalidContent when it reports an error, and TooLarge past STREAM_BYTES."""
        plain = _plain(event)
        if plain is None:
            return
        kind = word(plain, "type")
        if kind == "error" or (plain.get("error") is not None and (kind is None or "choices" in plain)):
            raise InvalidContent(reason=f"the provider reported an error: {error_text(plain)}")
        expected = _stream_of(plain, kind)
        if expected is None:
            return
        if self._stream is None:
            self._stream = expected()
        if type(self._stream) is not expected:
            raise InvalidContent(reason=f"the event {shown(kind or 'chunk')} belongs to another kind of stream")
        self._stream.add(plain)

    @property
    def text(self) -> str:
        """What the model has said so far."""
        return "" if self._stream is None else self._stream.text

    @property
    def complete(self) -> bool:
        """Whether the reply is whole. Figures of its usage may still follow: read the stream to its end."""
        return self._stream is not None and self._stream.complete

    def response(self) -> dict[str, Any]:
        """The reply, as if it had come in one piece."""
        stream = self._begun()
        if not stream.complete:
            raise InvalidContent(reason="the stream is not complete: add the rest, or record partial()")
        return stream.response()

    def partial(self) -> dict[str, Any]:
        """What can be kept of a reply that broke off: text, the calls that were whole, and the reasoning before them."""
        stream = self._begun()
        return stream.response() if stream.complete else stream.partial()

    def _begun(self) -> streams.Stream:
        if self._stream is None:
            raise InvalidContent(reason="no event of a known stream was added")
        return self._stream


def _plain(event: object) -> dict[str, Any] | None:
    """The event as a dict; None for one of a type that brings nothing, which is not even looked at."""
    if type(event) is not dict:
        kind = attribute(event, "type")
        if type(kind) is str:
            if kind == "chunk":
                return _plain(attribute(event, "chunk"))
            if kind not in streams.EVENTS:
                return None
            return _checked(event, dumped(event, SKIPPED_FIELDS.get(kind, frozenset({"snapshot"}))))
        return _checked(event, dumped(event))
    plain = _checked(event, event)
    return _checked(event, plain.get("chunk")) if word(plain, "type") == "chunk" else plain


def _checked(event: object, plain: object) -> dict[str, Any]:
    found = fields(plain)
    if found is None:
        raise InvalidContent(reason=f"{shown(event)} is no event of a stream")
    return found


def _stream_of(event: dict[str, Any], kind: str | None) -> type[streams.Stream] | None:
    if kind in streams.RESPONSES_EVENTS:
        return streams.Responses
    if kind in streams.ANTHROPIC_EVENTS:
        return streams.Anthropic
    name = word(event, "object")
    if kind == "message" or name in ("chat.completion", "response"):
        raise InvalidContent(reason="this is no event of a stream but a whole message: record it itself")
    if kind is None and (name == "chat.completion.chunk" or "choices" in event):
        return streams.Chat
    return None
