"""Decode stored events. Old payloads are upcast, version by version; newer versions are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from holdfast import codec
from holdfast.errors import EventUnreadable
from holdfast.model.events import EVENTS, Event
from holdfast.model.log import StoredEvent

Upcaster: TypeAlias = Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]
"""From a payload of one version to (type, payload) of the next; the type may change on the way."""


def _keep_payload(name: str) -> Upcaster:
    """The next version only added optional fields."""
    return lambda payload: (name, payload)


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("session.created", 1): _keep_payload("session.created"),  # 2: a timeout
    ("session.created", 2): _keep_payload("session.created"),  # 3: an identity and ledgers
    ("session.created", 3): _keep_payload("session.created"),  # 4: a memory
    ("message.recorded", 1): _keep_payload("message.recorded"),  # 2: tool calls, results, usage, source, metadata
    ("message.recorded", 2): _keep_payload("message.recorded"),  # 3: a frame
    ("message.recorded", 3): _keep_payload(
        "message.recorded"
    ),  # 4: priority, skipped replies, raw arguments, tokens of bodies
    ("summary.recorded", 1): _keep_payload("summary.recorded"),  # 2: a frame
    ("summary.recorded", 2): _keep_payload("summary.recorded"),  # 3: messages that stay in view
    ("frame.compacted", 1): _keep_payload("frame.compacted"),  # 2: what is kept, and the tokens of stored bodies
    ("frame.compacted", 2): _keep_payload("frame.compacted"),  # 3: results by lines, outdated ones, and what was earned
    ("pack.recorded", 1): _keep_payload("pack.recorded"),  # 2: what the pack counted, for calibration
    ("evidence.kept", 1): _keep_payload("evidence.kept"),  # 2: the tokens of stored bodies; so are those below
    ("handle.moved", 1): _keep_payload("handle.moved"),
    ("handle.moved", 2): _keep_payload("handle.moved"),  # 3: results by lines, outdated ones
    ("handle.replaced", 1): _keep_payload("handle.replaced"),
    ("frame.popped", 1): _keep_payload("frame.popped"),
    ("call.started", 1): _keep_payload("call.started"),  # 2: the turn
    ("frame.handle_added", 1): _keep_payload("frame.handle_added"),
    ("facts.proposed", 1): _keep_payload("facts.proposed"),  # 2: the origin of merged facts
}
"""By (type, version) as stored."""


def decode_event(
    recorded: StoredEvent,
    upcasters: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
    events: Mapping[str, type[Event]] = EVENTS,
) -> Event | None:
    """The event in its current version; None if its payload was erased."""
    if recorded.payload is None:
        return None
    kind = events.get(recorded.type)
    try:
        if kind is not None and kind.version == recorded.version:
            return codec.decode(recorded.payload, kind)
        return _upcast(recorded, upcasters, events)
    except (msgspec.MsgspecError, RecursionError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable_error(recorded, f"{type(error).__name__}: {error}") from error


def _upcast(
    recorded: StoredEvent, upcasters: Mapping[tuple[str, int], Upcaster], events: Mapping[str, type[Event]]
) -> Event:
    name, version = recorded.type, recorded.version
    payload = codec.decode_object(recorded.payload or b"")
    while (upcaster := upcasters.get((name, version))) is not None:
        name, payload = upcaster(payload)
        version += 1
    kind = events.get(name)
    if kind is None:
        raise _unreadable_error(recorded, "no event of this type is known here")
    if kind.version != version:
        raise _unreadable_error(recorded, f"this Holdfast knows version {kind.version} of it")
    return codec.convert(payload, kind)


def _unreadable_error(recorded: StoredEvent, reason: str) -> EventUnreadable:
    return EventUnreadable(
        stream=recorded.stream, seq=recorded.seq, type=recorded.type, version=recorded.version, reason=reason
    )
