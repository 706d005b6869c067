"""The reply of a provider, read from a copy of its bytes: a stream of events, or JSON in one piece.

Laws: how the bytes are split changes nothing. Memory is bounded: of a reply that is larger than STREAM_BYTES nothing is
kept. No byte of a reply raises an error here; a reply that cannot be read is None.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import HoldfastError, InvalidArgument, TooLarge
from holdfast.gateway.codings import BodyDecoder, Undecodable
from holdfast.providers import Deltas
from holdfast.providers.streams import STREAM_BYTES

DECODED_BYTES = STREAM_BYTES * 16
"""The most bytes of a stream that are looked at, after decoding. Most of them frame its events, and are not kept."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape in a text of JSON; the group is half a character."""


class CollectedReply(NamedTuple):
    """What could be read of a reply."""

    reply: dict[str, Any] | None
    is_complete: bool
    error: str = ""
    """What the provider reported in the stream, or why the reply could not be read."""


class EventSplitter:
    """Splits server-sent events into the data of each. Bounded by STREAM_BYTES an event."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._is_first = True

    def add(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that this chunk completes. Raises TooLarge."""
        has_line_end = b"\n" in chunk or b"\r" in chunk or self._rest.endswith(b"\r")
        self._rest += chunk
        if not has_line_end:
            self._check_size()
            return []
        is_open = self._rest.endswith(b"\r")  # the other half of CR LF may follow
        *lines, last = _LINE_END.split(bytes(self._rest[:-1] if is_open else self._rest))
        self._rest = bytearray(last + (b"\r" if is_open else b""))
        events = [event for line in lines if (event := self._add_line(line)) is not None]
        self._check_size()
        return events

    def end(self) -> list[bytes]:
        """Return the data of an event without its empty line, of a stream that ended so."""
        lines = _LINE_END.split(bytes(self._rest))
        self._rest.clear()
        return [event for line in (*lines, b"") if (event := self._add_line(line)) is not None]

    def _add_line(self, line: bytes) -> bytes | None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            data = b"\n".join(self._data)
            self._data, self._size = [], 0
            return data or None
        if line == b"data":
            line = b"data:"
        if line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._size += len(value)
        return None

    def _check_size(self) -> None:
        size = self._size + len(self._rest)
        if size > STREAM_BYTES:
            raise TooLarge(
                what="an event of the stream",
                size=size,
                unit="bytes",
                limit_name="STREAM_BYTES",
                limit=STREAM_BYTES,
                advice="Nothing of this reply is recorded.",
            )


class ReplyReader:
    """Reads one reply. `add` never raises; `finish` may be called in another thread."""

    def __init__(self, content_type: str, coding: str) -> None:
        """`content_type` and `coding` are the headers Content-Type and Content-Encoding, in lower case."""
        self._kind = content_type.partition(";")[0].strip()
        self._coding = coding.strip()
        self._decoder: BodyDecoder | None = None
        self._deltas = Deltas()
        self._events = EventSplitter()
        self._body = bytearray()
        self._error = ""
        self._is_lost = False
        if self._coding not in ("", "identity"):
            try:
                self._decoder = BodyDecoder(self._coding, DECODED_BYTES)
            except Undecodable as error:
                self._lose(str(error))
        if self._kind and not self._is_stream and self._kind != "application/json" and not self._kind.endswith("+json"):
            self._lose(f"the content type is {self._kind!r}")

    @property
    def _is_stream(self) -> bool:
        return self._kind == "text/event-stream"

    def add(self, chunk: bytes) -> None:
        """Add the next bytes of the reply, as they were sent."""
        if self._is_lost or self._error or not chunk:
            return
        try:
            data = chunk if self._decoder is None else self._decoder.decode(chunk)
            if not self._kind and data.strip():
                self._kind = "application/json" if data.lstrip()[:1] == b"{" else "text/event-stream"
            if self._is_stream:
                self._add_events(self._events.add(data))
            else:
                self._add_body(data)
        except (Undecodable, HoldfastError) as error:
            self._fail(error)

    def finish(self, *, has_ended: bool) -> CollectedReply:
        """Return the reply. `has_ended`: its last byte has come."""
        if self._is_stream and not self._error:
            try:
                self._add_events(self._events.end())
            except HoldfastError as error:
                self._fail(error)
        if self._is_lost:
            return CollectedReply(None, False, self._error)
        if not self._is_stream:
            return self._read_body(has_ended)
        try:
            return CollectedReply(self._deltas.partial(), self._deltas.complete and not self._error, self._error)
        except HoldfastError as error:
            return CollectedReply(None, False, self._error or str(error))

    def _add_events(self, events: list[bytes]) -> None:
        for data in events:
            if data.strip() == b"[DONE]":
                continue
            try:
                event = _read_json(data)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise InvalidArgument(argument="event", reason=f"it is not JSON: {error}") from error
            if type(event) is dict:
                self._deltas.add(event)

    def _add_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > STREAM_BYTES:
            self._lose(f"the reply has more than {STREAM_BYTES} bytes")

    def _read_body(self, has_ended: bool) -> CollectedReply:
        if self._error or not has_ended:
            return CollectedReply(None, False, self._error or "the reply was cut")
        try:
            reply = _read_json(bytes(self._body))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            return CollectedReply(None, False, f"the reply is not JSON: {error}")
        return (
            CollectedReply(reply, True)
            if type(reply) is dict
            else CollectedReply(None, False, "the reply is not an object")
        )

    def _fail(self, error: Exception) -> None:
        """Read no more. What came before is kept, unless it is too large."""
        if isinstance(error, TooLarge):
            self._lose(str(error))
        self._error = self._error or str(error) or type(error).__name__

    def _lose(self, error: str) -> None:
        self._is_lost, self._error = True, error
        self._body, self._deltas, self._events, self._decoder = bytearray(), Deltas(), EventSplitter(), None


def _read_json(data: bytes) -> Any:
    """The value. Half a character is a replacement character: the rest of the reply, and its usage, are worth more. Raises
    MsgspecError, ValueError or RecursionError."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError):
        text = data.decode("utf-8", "replace")
        return msgspec.json.decode(_ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], text))
