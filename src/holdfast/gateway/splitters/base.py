"""What the splitters of all dialects share: frames of a stream, and the rounds of a reply."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from holdfast.errors import HoldfastError
from holdfast.gateway.read_back import READ_TOOL
from holdfast.providers import Deltas

ROUNDS = 3
"""How often the gateway asks the model to go on in one reply."""
_FRAME_END = re.compile(rb"(?:\r\n|\n|\r(?=[^\n])){2}")
_LINE_END = re.compile(rb"\r\n|\n|\r")
encode = msgspec.json.Encoder().encode


class ReadCall(NamedTuple):
    """A call of the gateway's tool."""

    id: str
    arguments: dict[str, Any]
    block: dict[str, Any]
    """The call as the provider takes it back."""


class HiddenRead(msgspec.Struct, frozen=True, omit_defaults=True):
    """Calls of the gateway's tool in a reply, which the client was not shown, and their results."""

    position: int
    """The number of pieces that the client was shown before them."""
    calls: tuple[dict[str, Any], ...]
    results: tuple[str, ...]
    is_mixed: bool = False
    """The reply ended with calls of the client, so the results stand with those of the client."""


class ReadReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reads of one reply, as they are stored: what the client was not shown of its own message."""

    shown: int
    """The pieces of the message that the client was shown."""
    calls: tuple[str, ...]
    """The ids of the client's own calls in it."""
    reads: tuple[HiddenRead, ...]


class RoundEnd(NamedTuple):
    """What to do when the provider has ended a stream."""

    data: bytes = b""
    """The rest for the client. If there are calls, it is sent after the results are known, and stored."""
    calls: Sequence[ReadCall] = ()
    """The calls to answer."""
    goes_on: bool = False
    """The model has only called the gateway's tool, and gets its results in another request."""


class EventFrame(NamedTuple):
    """One event of a stream, as it came."""

    raw: bytes
    data: bytes


class FrameReader:
    """Cuts a stream into its events, in whatever pieces it comes. The bytes of all frames are those of the stream."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> list[EventFrame]:
        self._rest += data
        frames, start = [], 0
        for match in _FRAME_END.finditer(self._rest):
            frames.append(_read_frame(self._rest[start : match.end()]))
            start = match.end()
        self._rest = self._rest[start:]
        return frames

    def end(self) -> list[EventFrame]:
        rest, self._rest = self._rest, b""
        return [_read_frame(rest)] if rest else []


def _read_frame(raw: bytes) -> EventFrame:
    lines = _LINE_END.split(raw)
    values = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    return EventFrame(raw, b"\n".join(values))


def write_frame(event: Mapping[str, Any], *, named: bool) -> bytes:
    """An event of a stream; `named` ones say their type before the data."""
    name = b"event: " + str(event["type"]).encode() + b"\n" if named else b""
    return name + b"data: " + encode(event) + b"\n\n"


def read_event(data: bytes) -> dict[str, Any] | None:
    """The event in the data of a frame; None if it is no JSON object."""
    try:
        event = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return event if type(event) is dict else None


def add_usage(total: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two reports of usage in one: numbers are added, at every depth."""
    summed = dict(total)
    for name, value in more.items():
        before = summed.get(name)
        if isinstance(value, dict):
            summed[name] = add_usage(before if isinstance(before, dict) else {}, value)
        elif type(value) in (int, float) and type(before) in (int, float):
            summed[name] = before + value
        elif value is not None:
            summed[name] = value
    return summed


def is_own(name: object) -> bool:
    return name == READ_TOOL


def parse_arguments(text: object) -> dict[str, Any]:
    """The arguments of a call; what is no object has none."""
    try:
        value = msgspec.json.decode(text) if isinstance(text, str) and text else text
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    return value if type(value) is dict else {}


class ReplySplitter(ABC):
    """Takes the gateway's own calls out of a reply, over all of its rounds. Sans-io: bytes in, bytes out.

        out = splitter.feed(chunk)                 # for each chunk of the provider's answer
        end = splitter.finish()                    # at its end
        if end.goes_on:                            # ask again, with extend_request(body, splitter.answer(results))
        elif end.calls:                            # splitter.answer(results), store splitter.hidden
        out = end.data

    Laws: a reply without calls of the gateway comes out byte for byte. Texts go on as they come; only the gateway's own
    calls and the end behind them are held back. The client gets one valid reply, with the usage of all rounds."""

    is_named: ClassVar[bool] = True

    def __init__(self, *, is_stream: bool, rounds: int = ROUNDS) -> None:
        self.hidden: list[HiddenRead] = []
        """What the client was not shown, in order."""
        self._is_stream = is_stream
        self._rounds = rounds
        self._round = 0
        self._usage: dict[str, Any] = {}
        """Of the rounds before this one."""
        self._shown = 0
        """The pieces that the client was shown."""
        self._replies: list[dict[str, Any]] = []
        """The replies of all rounds, if they come in one piece."""
        self._last: dict[str, Any] = {}
        self._begin_round()

    def _begin_round(self) -> None:
        self._frames, self._deltas, self._body = FrameReader(), Deltas(), bytearray()
        self._held: list[EventFrame] = []
        self._own: set[int] = set()
        """The numbers of the gateway's calls in this round, as the provider counts."""
        self._numbers: dict[int, int] = {}
        """The numbers of other pieces: by the provider's, the client's."""
        self._pending: RoundEnd | None = None
        self._base = self._shown
        """The pieces that the client was shown before this round."""

    # Streams

    def feed(self, data: bytes) -> bytes:
        """The bytes for the client."""
        if not self._is_stream:
            self._body += data
            return b""
        return b"".join(map(self._pass_frame, self._frames.add(data)))

    def _pass_frame(self, frame: EventFrame) -> bytes:
        event = read_event(frame.data)
        if event is None:
            return self._pass_other(frame)
        try:
            self._deltas.add(event)
        except HoldfastError:
            return frame.raw  # it reports an error, which is the end
        return self._pass_event(frame, event)

    def _pass_other(self, frame: EventFrame) -> bytes:
        """Pass on what is no event: a comment, or the end of a stream of OpenAI."""
        return frame.raw

    @abstractmethod
    def _pass_event(self, frame: EventFrame, event: dict[str, Any]) -> bytes:
        """What the client gets of an event."""

    def _number(self, number: int) -> int:
        """The client's number of a piece."""
        if number not in self._numbers:
            self._numbers[number] = self._shown
            self._shown += 1
        return self._numbers[number]

    # Ends

    def finish(self) -> RoundEnd:
        """The provider's answer has ended."""
        if not self._is_stream:
            return self._finish_body()
        out = b"".join(map(self._pass_frame, self._frames.end()))
        if not self._own and not self.hidden:
            return RoundEnd(out)
        try:
            reply = self._deltas.response()
        except HoldfastError:
            return RoundEnd(out)  # it was cut, and its client sees that
        end = self._choose(reply)
        if not self._own:
            return RoundEnd(out)
        if not end.goes_on:
            end = end._replace(data=out + self._write_end(has_client_calls=bool(end.calls)))
        self._pending = end
        return end

    def _choose(self, reply: dict[str, Any]) -> RoundEnd:
        self._last = reply
        calls, client_calls, wants_results = self._read_calls(reply)
        if not calls or not wants_results:
            return RoundEnd()
        if client_calls:
            return RoundEnd(calls=calls)
        return RoundEnd(calls=calls, goes_on=True) if self._round < self._rounds else RoundEnd()

    def _finish_body(self) -> RoundEnd:
        body = bytes(self._body)
        reply = read_event(body)
        if reply is None:
            return RoundEnd(body)
        end = self._choose(reply)
        self._shown += self._count_shown(reply)
        if not any(is_own(call) for call in self._list_names(reply)):
            return RoundEnd(encode(self._merge([*self._replies, reply], ended=False)) if self._replies else body)
        if not end.goes_on:
            end = end._replace(data=encode(self._merge([*self._replies, reply], ended=not end.calls)))
        self._replies.append(reply)
        self._pending = end
        return end

    def answer(self, results: Sequence[str]) -> bytes:
        """Note the results of the calls. Returns the messages to add to the request, if the reply goes on."""
        end = self._pending
        assert end is not None, "the answer has ended"
        assert len(results) == len(end.calls), "every call has a result"
        calls = tuple(call.block for call in end.calls)
        position = self._shown if end.goes_on else self._base + self._find_position(self._last)
        self.hidden.append(HiddenRead(position, calls, tuple(results), is_mixed=not end.goes_on))
        if not end.goes_on:
            return b""
        addition = self._build_addition(self._last, end.calls, results)
        self._usage = add_usage(self._usage, self._read_usage(self._last))
        self._round += 1
        self._begin_round()
        return addition

    def read_reply(self) -> ReadReply:
        """What is to be stored of a reply that has ended."""
        return ReadReply(self._shown, tuple(self._list_client_calls(self._last)), tuple(self.hidden))

    def fail(self, status: int, body: bytes) -> bytes:
        """The end of the client's reply, if the request for the rest was refused."""
        reported = read_event(body) or {}
        error = reported.get("error")
        if not isinstance(error, dict):
            error = {"type": "api_error", "message": f"The rest of the reply was refused with status {status}."}
        document = {"type": "error", "error": error}
        return write_frame(document, named=self.is_named) if self._is_stream else encode(document)

    def _sum_usage(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        return add_usage(self._usage, usage)

    # The dialect

    @abstractmethod
    def _read_calls(self, reply: dict[str, Any]) -> tuple[list[ReadCall], int, bool]:
        """The gateway's calls in a reply, how many the client has, and whether the model waits for results."""

    @abstractmethod
    def _list_names(self, reply: dict[str, Any]) -> list[object]:
        """The names of the tools that a reply calls."""

    @abstractmethod
    def _list_client_calls(self, reply: dict[str, Any]) -> list[str]:
        """The ids of the client's calls in a reply."""

    @abstractmethod
    def _count_shown(self, reply: dict[str, Any]) -> int:
        """How many pieces of a reply the client is shown."""

    @abstractmethod
    def _find_position(self, reply: dict[str, Any]) -> int:
        """How many pieces of a reply the client was shown before the gateway's calls."""

    def _read_usage(self, reply: dict[str, Any]) -> dict[str, Any]:
        usage = reply.get("usage")
        return usage if isinstance(usage, dict) else {}

    @abstractmethod
    def _write_end(self, *, has_client_calls: bool) -> bytes:
        """The events that were held back, without the gateway's calls."""

    @abstractmethod
    def _merge(self, replies: Sequence[dict[str, Any]], *, ended: bool) -> dict[str, Any]:
        """The replies of all rounds as one. `ended`: it ends here, although the model wants results."""

    @abstractmethod
    def _build_addition(self, reply: dict[str, Any], calls: Sequence[ReadCall], results: Sequence[str]) -> bytes:
        """What a request gets for the next round: the reply, and the results of the gateway's calls."""
