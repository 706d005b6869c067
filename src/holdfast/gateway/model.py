"""Requests of agents, as slices of their bytes, and what is changed in them. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

Dialect: TypeAlias = Literal["anthropic", "chat", "responses"]
"""`/v1/messages` · `/v1/chat/completions` · `/v1/responses`."""
PieceKind: TypeAlias = Literal["text", "call", "result", "reasoning", "other"]
"""`other` is what the gateway does not know, such as an image or a block of a newer API."""
MessageRole: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Slice(NamedTuple):
    """A part of a body, from one byte up to another."""

    start: int
    end: int


class ClientPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a client's message: a block of its content, or an item of the Responses API."""

    at: Slice
    """The element of the array; of a content that is one string, that string."""
    kind: PieceKind
    call: str = ""
    """The client's id of the tool call, of a call or its result."""
    content: Slice | None = None
    """The value that a shorter text may replace: what a tool returned, or the text; None for all else."""


class ClientMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a client's transcript. In the Responses API, the items of one reply are one message."""

    at: Slice
    role: MessageRole
    pieces: tuple[ClientPiece, ...]
    digest: bytes
    """Of its canonical form: the same message has the same digest, however it is written. Messages with the same digest
    have the same pieces: a piece's number names the same piece in both."""
    stays: bool = False
    """No boundary may remove it: a system message, content that only the provider can read in full, or an image or a file
    of the user."""


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a reply, read from its bytes."""

    dialect: Dialect
    model: str
    is_stream: bool
    client: str = ""
    """The agent that sent it, if its headers name a known one: `claude` or `codex`."""
    family: str = ""
    """The client's own id of the conversation; empty if it sends none."""
    cache_key: str = ""
    """By which the client routes its prompt cache, if it sends no id."""
    agent: str = ""
    """The client's id of the sub-agent; empty on the main line."""
    parent_agent: str = ""
    side: str = ""
    """Why it is no step of a conversation, and never planned; empty if it is one."""
    head: bytes
    """A digest of everything that a provider caches before the messages: model, tools and system."""
    head_bytes: int = 0
    array: Slice
    """The list of messages or items."""
    messages: tuple[ClientMessage, ...]
    chain: Sequence[bytes]
    """The hash of every beginning of the list of messages."""
    marks: int = 0
    """Cache marks that the client set."""
    ttl_s: int | None = None
    """How long the client asks its cache to stay warm: the longest of its marks, or of its request. None if it does not."""
    mark: bytes = b""
    """The client's mark of the longest time in the messages, or behind them, as it is written; empty for none."""
    max_output: int = 0

    def count_pieces(self) -> int:
        """The pieces of all messages."""
        return sum(len(message.pieces) for message in self.messages)


class BodyEnd(NamedTuple):
    """The last messages of a request, in the client's bytes."""

    first: int
    """The number of the first of them."""
    start: int
    """Where it stands in the body."""
    text: bytes


class Draft(NamedTuple):
    """A message as the session records it, and the pieces of the client's message that it has."""

    message: dict[str, Any]
    pieces: tuple[int, ...]


class SentView(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """What is changed in the requests of a conversation since its last boundary: nothing, if it is empty.

    Messages and pieces are named by their numbers in the client's list. Texts are JSON, as they leave in every request."""

    summary: bytes = b""
    """The text that replaces the removed pieces; empty for none."""
    removed: frozenset[tuple[int, int]] = frozenset()
    replaced: dict[tuple[int, int], bytes] = {}
    """The texts of shortened pieces."""
    depth: int = 0
    """The messages that a request must have, and share with the recorded conversation, for this view to fit."""

    @property
    def is_empty(self) -> bool:
        return not self.removed and not self.replaced


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came, with a decoded body."""

    dialect: Dialect
    headers: tuple[tuple[str, str], ...]
    """With names in lower case."""
    body: bytes


class PreparedRequest(msgspec.Struct, kw_only=True):
    """A request as it leaves."""

    arrival: Arrival
    body: bytes
    """The bytes to send: the client's own object, if nothing is changed."""
    step: object = None
    """What the desk needs to record the reply; None if nothing is recorded."""
    family: str = ""
    """Whose step it is: the replies of a family are recorded in the order in which they ended."""
    kept_bytes: int = 0
    """What of the client's bytes the step keeps until the reply is recorded."""
    reading: object = None
    """What the desk needs to answer calls of the gateway's own tool; None if the request does not have that tool."""

    @property
    def is_changed(self) -> bool:
        return self.body is not self.arrival.body

    def drop_bodies(self) -> None:
        """Give up the bytes of a request that has left: they may be large, and its reply may take minutes."""
        self.body = b""
        self.arrival = msgspec.structs.replace(self.arrival, body=b"")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request."""

    status: int
    """Of the last answer; 0 if there was none."""
    reply: dict[str, Any] | None = None
    """The reply as the provider would have sent it in one piece; None if it could not be read."""
    is_complete: bool = True
    sent_us: int
    ended_us: int
    was_resent: bool = False
    """The provider refused the changed body, and not the client's own, which it got then."""
    rounds: int = 1
    """The requests that the reply took: more than one, if the model read with the gateway's own tool. Its usage is that of
    all of them."""
