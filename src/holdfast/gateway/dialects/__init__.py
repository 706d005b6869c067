"""The dialects of providers: a client's request as messages and pieces, and the drafts that a session records of them.

Laws:
- Pure, apart from caches of what was read. What cannot be read raises UnreadableBody, and no other error.
- A message has the same digest however a client writes it: fields that clients add or drop on the way back do not count,
  and whatever a model sees does. Messages with the same digest have the same pieces.
- The digest of a reply is that of the message by which a client sends it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from holdfast.gateway.bodies import UnreadableBody, decode
from holdfast.gateway.dialects import anthropic, chat, responses
from holdfast.gateway.dialects.drafts import check_draft
from holdfast.gateway.dialects.recent import KnownMessages, OpenedBody, RecentBodies
from holdfast.gateway.model import BodyEnd, ClientRequest, Dialect, Draft, Slice

__all__ = ["build_drafts", "cut_body", "digest_reply", "read_request", "reply_message"]


class _DialectModule(Protocol):
    """What a module of a dialect has."""

    def read_request(self, headers: Mapping[str, str], opened: OpenedBody) -> ClientRequest: ...

    def build_drafts(self, values: list[Any]) -> list[Draft]: ...

    def reply_message(self, reply: dict[str, Any]) -> dict[str, Any]: ...

    def digest_message(self, canonical: dict[str, Any]) -> bytes: ...


_DIALECTS: dict[Dialect, _DialectModule] = {"anthropic": anthropic, "chat": chat, "responses": responses}
_RECENT = RecentBodies()
_HOSTILE = (TypeError, ValueError, KeyError, AttributeError, RecursionError, msgspec.MsgspecError)
"""What a reply of any shape may raise: it comes from a provider, and is not checked before."""


def read_request(dialect: Dialect, headers: Iterable[tuple[str, str]], body: bytes) -> ClientRequest:
    """Read a request for a reply. The names of headers are in lower case."""
    opened = _RECENT.open(dialect, body)
    named: dict[str, str] = {}
    for name, value in headers:
        named.setdefault(name, value)
    request = _DIALECTS[dialect].read_request(named, opened)
    if not request.model:
        raise UnreadableBody("`model` is not a text")
    opened.known = KnownMessages(request.messages, request.chain, len(opened.slots))
    _RECENT.keep(opened)
    return request


def cut_body(request: ClientRequest, body: bytes, first: int) -> BodyEnd:
    """The messages of a request from this number on, without the bytes around them."""
    if first >= len(request.messages):
        return BodyEnd(first, 0, b"")
    start, end = request.messages[first].at.start, request.messages[-1].at.end
    return BodyEnd(first, start, body[start:end])


def build_drafts(request: ClientRequest, part: BodyEnd, index: int) -> list[Draft]:
    """The message of this number as a session records it, with session.record_all(…, as_found=True)."""
    message = request.messages[index]
    slices = [message.at]
    if message.pieces[0].at.start == message.at.start:  # the items of a reply
        slices = [piece.at for piece in message.pieces]
    values = [decode(part.text, Slice(at.start - part.start, at.end - part.start)) for at in slices]
    return [check_draft(draft) for draft in _DIALECTS[request.dialect].build_drafts(values)]


def reply_message(dialect: Dialect, reply: dict[str, Any]) -> dict[str, Any]:
    """The canonical form of the message by which a client sends a reply back. `reply` is the provider's, in one piece."""
    try:
        return _DIALECTS[dialect].reply_message(reply)
    except _HOSTILE as error:
        raise UnreadableBody(f"no message can be read from the reply: {error}") from error


def digest_reply(dialect: Dialect, reply: dict[str, Any]) -> bytes:
    """The digest of the message by which a client sends a reply back."""
    try:
        return _DIALECTS[dialect].digest_message(reply_message(dialect, reply))
    except _HOSTILE as error:
        raise UnreadableBody(f"the reply has no canonical form: {error}") from error
