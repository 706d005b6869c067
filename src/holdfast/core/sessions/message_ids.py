"""The ids by which a message is known, beside its seq: those of Holdfast, and those that clients and providers brought.

Laws: an id of Holdfast says where it belongs, so it is found without a search. An id of a client that looks like one of
Holdfast's is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from holdfast import codec
from holdfast.model.content import Opaque
from holdfast.model.log import StoredEvent
from holdfast.model.sessions.messages import Message

_OWN_ID = re.compile(r"[mhc]([1-9][0-9]{0,18})_(?:0|[1-9][0-9]{0,6})(?:_[1-9][0-9]{0,6})?|s[1-9][0-9]{0,18}|tail")
"""The items of a message (m12_0), its handles (h12_0) and its calls (c12_0); summaries, and the text behind them."""
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:-]+")
"""Characters that JSON is written with as they are, unless somebody escapes them without need."""
_ESCAPE = rb"\u"


def item_id(seq: int, piece: int) -> str:
    """The id of an item that shows a piece of a message."""
    return f"m{seq}_{piece}"


def is_own_id(text: str) -> bool:
    """Whether this is an id of Holdfast, or looks like one."""
    return _OWN_ID.fullmatch(text) is not None


def parse_seq(text: str) -> int:
    """The seq of the message in an id of Holdfast; 0 for any other text."""
    match = _OWN_ID.fullmatch(text)
    return int(match[1] or 0) if match else 0


def may_have_id(event: StoredEvent, text: str) -> bool:
    """Whether the message of an event can be known by this id. False rules it out without decoding the event."""
    if event.id == text:
        return True
    if event.payload is None:
        return False
    return _PLAIN_ID.fullmatch(text) is None or text.encode() in event.payload or _ESCAPE in event.payload


def ids_of(message: Message) -> Iterator[str]:
    """Yield the ids that a message is known by, without those of Holdfast for its parts."""
    yield message.id
    if message.source is not None and message.source.id is not None:
        yield message.source.id
    if isinstance(brought := message.metadata.get("id"), str):
        yield brought
    for call in (*message.tool_calls, *message.dropped_calls):
        if call.provider_id is not None:
            yield call.provider_id
    for part in (*message.content, *(part for result in message.tool_results for part in result.content)):
        if isinstance(part, Opaque) and isinstance(part.body, str) and '"id"' in part.body:
            yield from _read_ids(part.body)


def _read_ids(body: str) -> Iterator[str]:
    """The id of a provider's item, or of the shell of one."""
    try:
        block = codec.decode_object(body.encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return
    for fields in (block, block.get("around")):
        if isinstance(fields, dict) and isinstance(name := fields.get("id"), str):
            yield name
