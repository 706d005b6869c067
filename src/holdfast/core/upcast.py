"""From stored events to current ones. Old payloads are lifted, version by version; what is newer is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from holdfast import codec
from holdfast.errors import EventUnreadable
from holdfast.model.events import EVENTS, Event
from holdfast.model.log import Recorded

Upcaster: TypeAlias = Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]
"""From a payload of one version to (type, payload) of the next; the type may change on the way."""


def _same(name: str) -> Upcaster:
    """The next version only added what may be left out."""
    return lambda payload: (name, payload)


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("session.created", 1): _same("session.created"),  # 2: a timeout
    ("session.created", 2): _same("session.created"),  # 3: an identity and ledgers
    ("message.recorded", 1): _same("message.recorded"),  # 2: tool calls, results, usage, source, metadata
    ("message.recorded", 2): _same("message.recorded"),  # 3: a frame
    ("message.recorded", 3): _same("message.recorded"),  # 4: priority, skipped replies, raw arguments, tokens of bodies
    ("summary.recorded", 1): _same("summary.recorded"),  # 2: a frame
    ("summary.recorded", 2): _same("summary.recorded"),  # 3: messages that stay in view
    ("frame.compacted", 1): _same("frame.compacted"),  # 2: what is kept, and the tokens of stored bodies
    ("pack.recorded", 1): _same("pack.recorded"),  # 2: what the pack counted, for calibration
    ("evidence.kept", 1): _same("evidence.kept"),  # 2: the tokens of stored bodies; so are those below
    ("handle.moved", 1): _same("handle.moved"),
    ("handle.replaced", 1): _same("handle.replaced"),
    ("frame.popped", 1): _same("frame.popped"),
    ("frame.handle_added", 1): _same("frame.handle_added"),
}
"""By (type, version) as stored."""


def current(
    recorded: Recorded,
    upcasters: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
    events: Mapping[str, type[Event]] = EVENTS,
) -> Event | None:
    """The event in today's shape; None if its payload was erased."""
    if recorded.payload is None:
        return None
    kind = events.get(recorded.type)
    try:
        if kind is not None and kind.version == recorded.version:
            return codec.decode(recorded.payload, kind)
        return _lifted(recorded, upcasters, events)
    except (msgspec.MsgspecError, RecursionError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(recorded, f"{type(error).__name__}: {error}") from error


def _lifted(
    recorded: Recorded, upcasters: Mapping[tuple[str, int], Upcaster], events: Mapping[str, type[Event]]
) -> Event:
    name, version = recorded.type, recorded.version
    payload = codec.decode_object(recorded.payload or b"")
    while (upcaster := upcasters.get((name, version))) is not None:
        name, payload = upcaster(payload)
        version += 1
    kind = events.get(name)
    if kind is None:
        raise _unreadable(recorded, "no event of this type is known here")
    if kind.version != version:
        raise _unreadable(recorded, f"this Holdfast knows version {kind.version} of it")
    return codec.convert(payload, kind)


def _unreadable(recorded: Recorded, reason: str) -> EventUnreadable:
    return EventUnreadable(
        stream=recorded.stream, seq=recorded.seq, type=recorded.type, version=recorded.version, reason=reason
    )
