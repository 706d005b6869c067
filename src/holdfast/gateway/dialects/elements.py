"""Elements of a list of messages, read once each: what a dialect says of one message or item, by the hash of its bytes.

Laws: the same bytes give the same element. Digests are stored with conversations, so a change of a canonical form makes
every conversation look like a new one: the tests keep some digests as they are.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from holdfast.gateway.bodies import UnreadableBody
from holdfast.gateway.model import ClientMessage, ClientPiece, MessageRole, Slice
from holdfast.model import limits

_CACHED = 3_072
"""Elements whose reading is kept: those used last. Each takes about 1 kB."""
_WHOLE_FLOAT = 1e21
"""Up to here, JavaScript writes a number without a fraction as digits."""
_TEXTS = ("text", "input_text", "output_text")
_encode = msgspec.json.Encoder(order="deterministic").encode


class Element(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message or an item, with slices that count from its first byte."""

    role: MessageRole
    pieces: tuple[ClientPiece, ...]
    digest: bytes
    stays: bool = False
    joins: bool = False
    """It is an item of a reply: with its neighbours of this kind, it is one message."""
    is_reference: bool = False
    """It names an item that only the provider has."""
    has_tools: bool = False
    """It offers tools to the model."""
    marks: int = 0
    ttl_s: int = 0
    mark: bytes = b""
    """Its cache mark of the longest time, as it is written."""


Reader: TypeAlias = Callable[[bytes], Element]


class PlacedElement(msgspec.Struct):
    """An element, and the message that it is at a place: most stand where they stood at the last request."""

    element: Element
    message: ClientMessage


class ElementCache:
    """The elements that were read last, by the hash of their bytes. Threads can share it."""

    def __init__(self, read: Reader, most: int = _CACHED) -> None:
        self._read = read
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Element] = OrderedDict()

    def read(self, body: bytes, slices: Sequence[Slice], known: Sequence[PlacedElement] = ()) -> list[PlacedElement]:
        """The elements at these slices, of which the first are known."""
        slices = slices[len(known) :]
        keys = [hashlib.sha256(body[start:end]).digest() for start, end in slices]
        with self._lock:
            found = [self._known.get(key) for key in keys]
        read = [
            self._read(body[at.start : at.end]) if before is None else before
            for at, before in zip(slices, found, strict=True)
        ]
        with self._lock:
            for key, element in zip(keys, read, strict=True):
                self._known[key] = element
                self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        placed = (PlacedElement(element, build_message(at, element)) for at, element in zip(slices, read, strict=True))
        return [*known, *placed]


def build_message(at: Slice, element: Element) -> ClientMessage:
    """The message that an element is at a place."""
    return ClientMessage(
        at=at,
        role=element.role,
        pieces=tuple(move_piece(piece, at.start) for piece in element.pieces),
        digest=element.digest,
        stays=element.stays,
    )


def move_piece(piece: ClientPiece, offset: int) -> ClientPiece:
    """The piece of an element that begins at this offset."""
    content = piece.content
    return ClientPiece(
        at=Slice(piece.at.start + offset, piece.at.end + offset),
        kind=piece.kind,
        call=piece.call,
        content=None if content is None else Slice(content.start + offset, content.end + offset),
    )


def digest_value(value: object) -> bytes:
    """A digest of a canonical value; the order of keys does not count."""
    return hashlib.sha256(_encode(value)).digest()


def digest_parts(parts: Iterable[bytes]) -> bytes:
    """A digest of digests."""
    return hashlib.sha256(b"".join(parts)).digest()


def normalize_numbers(value: Any) -> Any:
    """The value with whole numbers as such: a client in JavaScript sends 1.0 back as 1."""
    if type(value) is dict:
        return {key: normalize_numbers(item) for key, item in value.items()}
    if type(value) is list:
        return [normalize_numbers(item) for item in value]
    if type(value) is float and value.is_integer() and abs(value) < _WHOLE_FLOAT:
        return int(value)
    return value


def drop_empty(value: Any, free: frozenset[str]) -> Any:
    """The value without null fields, which clients add and drop. Below a field in `free` the fields are a model's own."""
    if type(value) is dict:
        return {
            key: normalize_numbers(item) if key in free else drop_empty(item, free)
            for key, item in value.items()
            if item is not None
        }
    if type(value) is list:
        return [drop_empty(item, free) for item in value]
    return normalize_numbers(value)


def require_object(value: object, what: str) -> dict[str, Any]:
    """The object; refuses any other value."""
    if type(value) is not dict:
        raise UnreadableBody(f"{what} is not an object")
    return value


def get_text(fields: dict[str, Any], key: str) -> str:
    """The text of a field; empty if it has none."""
    value = fields.get(key)
    return value if type(value) is str else ""


def is_blank(block: object) -> bool:
    """Whether a block is an empty text: providers refuse it, so that clients drop it from replies. It is no piece."""
    return type(block) is dict and block.get("type") in _TEXTS and block.get("text") == ""


def require_call(call: str) -> str:
    """The id of the call that a result answers; refuses a result that answers none."""
    if not 1 <= len(call) <= limits.CALL_ID_CHARS:
        raise UnreadableBody("a result does not name its call")
    return call
