"""What the commands show, as plain data for JSON. Fields are added here, never renamed or dropped."""

from __future__ import annotations

import json
from typing import Any

import msgspec

import holdfast
from holdfast.cli.words import stamp
from holdfast.model.names import Scope

_ROW = (
    "status",
    "version",
    "messages",
    "tokens",
    "open_calls",
    "input_tokens",
    "cache_read_tokens",
    "output_tokens",
    "created_us",
    "updated_us",
)
_STATE = (
    "status",
    "version",
    "messages",
    "tokens",
    "turns",
    "late",
    "open_calls",
    "usage",
    "metadata",
    "close_reason",
    "idle_timeout_us",
    "created_us",
    "updated_us",
)


def plain(value: Any) -> Any:
    """Structs as objects with all their fields, present or not; bytes in hexadecimal."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        return fields if config.tag is None else {str(config.tag_field): config.tag, **fields}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value


def row(row: holdfast.SessionRow) -> dict[str, Any]:
    return {
        "tenant": row.tenant,
        "actor": row.actor,
        "session": row.session,
        "thread": row.thread or None,
        **{name: getattr(row, name) for name in _ROW},
        "created": stamp(row.created_us),
        "updated": stamp(row.updated_us),
    }


def state(scope: Scope, state: holdfast.SessionState) -> dict[str, Any]:
    return {
        **plain(scope),
        **{name: plain(getattr(state, name)) for name in _STATE},
        "created": stamp(state.created_us),
        "updated": stamp(state.updated_us),
    }


def message(message: holdfast.Message) -> dict[str, Any]:
    return {**plain(message), "time": stamp(message.time_us), "text": message.text, "erased": message.erased}


def event(event: holdfast.Recorded, cursor: str | None = None) -> dict[str, Any]:
    """`cursor`, where it is known, is where the feed goes on after this event."""
    fields = plain(event)
    del fields["salt"]
    return {
        **fields,
        "id": event.id,
        "time": stamp(event.time_us),
        "payload": payload(event),
        "erased": event.payload is None,
        "cursor": cursor,
    }


def payload(event: holdfast.Recorded) -> Any:
    """What the event says; null once it was erased, and text if it is not the JSON that it should be."""
    if event.payload is None:
        return None
    try:
        return json.loads(event.payload)
    except ValueError:
        return event.payload.decode("utf-8", "backslashreplace")
