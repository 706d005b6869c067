"""The JSON documents of the commands. Fields are added, never renamed or removed."""

from __future__ import annotations

import json
from typing import Any

import msgspec

import holdfast
from holdfast import codec
from holdfast.cli.output import format_timestamp
from holdfast.model.names import Scope
from holdfast.model.rows import ledger_of

_ROW_FIELDS = (
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
_STATE_FIELDS = (
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
    "identity",
    "ledgers",
    "working",
    "environment",
    "proposals",
    "created_us",
    "updated_us",
)


def to_plain(value: Any) -> Any:
    """Convert a value to JSON types: structs to objects with all their fields, bytes to hexadecimal text."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        fields = {name: to_plain(getattr(value, name)) for name in value.__struct_fields__}
        return fields if config.tag is None else {str(config.tag_field): config.tag, **fields}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: to_plain(item) for name, item in value.items()}
    return value


def session_row(row: holdfast.types.SessionRow) -> dict[str, Any]:
    return {
        "tenant": row.tenant,
        "actor": row.actor,
        "session": row.session,
        "thread": row.thread or None,
        "parent": parent_session(row),
        "cut": row.cut or None,
        **{name: getattr(row, name) for name in _ROW_FIELDS},
        "created": format_timestamp(row.created_us),
        "updated": format_timestamp(row.updated_us),
    }


def parent_session(row: holdfast.types.SessionRow) -> str | None:
    """The session that a fork comes from; None if it is no fork."""
    return codec.decode_stream_key(row.parent)[1] if row.parent else None


def delivery(entry: holdfast.types.Delivery) -> dict[str, Any]:
    fields = to_plain(entry)
    offload = fields.pop("offload")
    return {**offload.pop("scope"), **offload, **fields}


def session_diff(diff: holdfast.types.SessionDiff) -> dict[str, Any]:
    return {
        "shared": diff.shared,
        "ours": [message(each) for each in diff.ours],
        "theirs": [message(each) for each in diff.theirs],
        "facts": [to_plain(each) for each in diff.facts],
        "is_complete": diff.is_complete,
    }


def session_state(scope: Scope, state: holdfast.types.SessionState) -> dict[str, Any]:
    return {
        **to_plain(scope),
        **{name: to_plain(getattr(state, name)) for name in _STATE_FIELDS},
        "origin": to_plain(state.origin),
        "live_frames": len(state.frames),
        "created": format_timestamp(state.created_us),
        "updated": format_timestamp(state.updated_us),
    }


def frame(scope: Scope, frame: holdfast.types.FrameState) -> dict[str, Any]:
    """A frame, without the digest of its token."""
    fields = to_plain(frame)
    fields.pop("scope", None)
    if frame.suspension is not None:
        del fields["suspension"]["digest"]
    budget = {**fields["budget"], "available": frame.budget.available, "overdrawn": frame.budget.is_overdrawn}
    return {
        **to_plain(scope),
        **fields,
        "budget": budget,
        "live": frame.is_live,
        "created": format_timestamp(frame.created_us),
        "completed": _format_optional_time(frame.completed_us),
        "deadline": _format_optional_time(frame.deadline_us),
    }


def suspension(entry: holdfast.types.SuspendedFrame) -> dict[str, Any]:
    fields = to_plain(entry)
    return {
        **fields.pop("scope"),
        **fields,
        "at": format_timestamp(entry.at_us),
        "expires": _format_optional_time(entry.expires_us),
    }


def recovery(scope: Scope, recovered: holdfast.types.Recovery) -> dict[str, Any]:
    current = recovered.current_frame
    return {
        **to_plain(scope),
        "frame_stack": [frame(scope, state) for state in recovered.frame_stack],
        "current_frame": None if current is None else current.id,
        "unknown": to_plain(recovered.unknown_outcomes),
        "pending_work": to_plain(recovered.pending_work),
        "frames_recovered": recovered.frames_recovered,
        "pending_items": len(recovered.pending_work),
        "last_event_seq": recovered.last_event_seq,
        "recovery_ms": recovered.recovery_ms,
    }


def ledger(row: holdfast.types.LedgerRow) -> dict[str, Any]:
    return {
        "tenant": row.tenant,
        **_ledger_fields(ledger_of(row)),
        "facts": row.facts,
        "version": row.version,
        "created_us": row.created_us,
        "updated_us": row.updated_us,
        "created": format_timestamp(row.created_us),
        "updated": format_timestamp(row.updated_us),
    }


def _ledger_fields(ledger: holdfast.types.LedgerId) -> dict[str, Any]:
    return {"ledger": ledger.kind, "names": list(ledger.names)}


def fact(ledger: holdfast.types.LedgerId, fact: holdfast.Fact) -> dict[str, Any]:
    return {
        "tenant": ledger.tenant,
        **_ledger_fields(ledger),
        **(to_plain(fact) | _ledger_fields(ledger)),
        "claim": fact.is_claim,
        "is_valid": fact.is_valid,
        "needs_review": fact.needs_review,
        "disputed_by": [dispute.by for dispute in fact.disputes],
        "at": format_timestamp(fact.at_us),
        "valid_from": format_timestamp(fact.valid_from_us),
        "expires": _format_optional_time(fact.expires_us),
        "ended": _format_optional_time(fact.ended_us),
    }


def explanation(ledger: holdfast.types.LedgerId, why: holdfast.types.FactExplanation) -> dict[str, Any]:
    groups = {name: getattr(why, name) for name in ("chain", "claims", "depends_on", "derived")}
    return {
        "tenant": ledger.tenant,
        **_ledger_fields(ledger),
        "key": why.key,
        "current": None if why.current is None else fact(ledger, why.current),
        **{name: [fact(ledger, member) for member in group] for name, group in groups.items()},
        "story": [{**to_plain(link), "time": format_timestamp(link.time_us)} for link in why.story],
    }


def _format_optional_time(time_us: int | None) -> str | None:
    return None if time_us is None else format_timestamp(time_us)


def message(message: holdfast.Message) -> dict[str, Any]:
    return {
        **to_plain(message),
        "time": format_timestamp(message.time_us),
        "text": message.text,
        "erased": message.erased,
    }


def withdrawal(change: holdfast.types.Withdrawal | holdfast.types.Restoration) -> dict[str, Any]:
    """A withdrawal, or what undid one."""
    fields = to_plain(change)
    return {**fields.pop("scope"), **fields, "messages": [message(each) for each in change.messages]}


def event(event: holdfast.types.StoredEvent, cursor: str | None = None) -> dict[str, Any]:
    """An event. `cursor` is the position of the feed after it, if it is known."""
    fields = to_plain(event)
    del fields["salt"]
    return {
        **fields,
        "id": event.id,
        "time": format_timestamp(event.time_us),
        "payload": payload(event),
        "erased": event.payload is None,
        "cursor": cursor,
    }


def payload(event: holdfast.types.StoredEvent) -> Any:
    """The payload of an event: None if it was erased, text if it is not valid JSON."""
    if event.payload is None:
        return None
    try:
        return json.loads(event.payload)
    except ValueError:
        return event.payload.decode("utf-8", "backslashreplace")
