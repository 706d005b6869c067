"""What the commands show, as plain data for JSON. Fields are added here, never renamed or dropped."""

from __future__ import annotations

import json
from typing import Any

import msgspec

import holdfast
from holdfast.cli.words import stamp
from holdfast.model.names import Scope
from holdfast.model.rows import ledger_of

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
    "identity",
    "ledgers",
    "working",
    "environment",
    "proposals",
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
        "live_frames": len(state.frames),
        "created": stamp(state.created_us),
        "updated": stamp(state.updated_us),
    }


def frame(scope: Scope, frame: holdfast.FrameState) -> dict[str, Any]:
    """Without the digest of its token, which is no use to anyone who looks."""
    fields = plain(frame)
    fields.pop("scope", None)
    if frame.suspension is not None:
        del fields["suspension"]["digest"]
    budget = {**fields["budget"], "available": frame.budget.available, "overdrawn": frame.budget.overdrawn}
    return {
        **plain(scope),
        **fields,
        "budget": budget,
        "live": frame.live,
        "created": stamp(frame.created_us),
        "completed": _stamped(frame.completed_us),
        "deadline": _stamped(frame.deadline_us),
    }


def suspended(entry: holdfast.Suspended) -> dict[str, Any]:
    fields = plain(entry)
    return {**fields.pop("scope"), **fields, "at": stamp(entry.at_us), "expires": _stamped(entry.expires_us)}


def recovery(scope: Scope, found: holdfast.Recovery) -> dict[str, Any]:
    current = found.current_frame
    return {
        **plain(scope),
        "frame_stack": [frame(scope, each) for each in found.frame_stack],
        "current_frame": None if current is None else current.id,
        "unknown": plain(found.unknown),
        "pending_work": plain(found.pending_work),
        "frames_recovered": found.frames_recovered,
        "pending_items": len(found.pending_work),
        "last_event_seq": found.last_event_seq,
        "recovery_ms": found.recovery_ms,
    }


def ledger(row: holdfast.LedgerRow) -> dict[str, Any]:
    return {
        "tenant": row.tenant,
        **_home(ledger_of(row)),
        "facts": row.facts,
        "version": row.version,
        "created_us": row.created_us,
        "updated_us": row.updated_us,
        "created": stamp(row.created_us),
        "updated": stamp(row.updated_us),
    }


def _home(ledger: holdfast.LedgerId) -> dict[str, Any]:
    return {"ledger": ledger.kind, "names": list(ledger.names)}


def fact(ledger: holdfast.LedgerId, fact: holdfast.Fact) -> dict[str, Any]:
    return {
        "tenant": ledger.tenant,
        **_home(ledger),
        **(plain(fact) | _home(ledger)),
        "claim": fact.claim,
        "is_valid": fact.is_valid,
        "needs_review": fact.needs_review,
        "disputed_by": [each.by for each in fact.disputes],
        "at": stamp(fact.at_us),
        "valid_from": stamp(fact.valid_from_us),
        "expires": _stamped(fact.expires_us),
        "ended": _stamped(fact.ended_us),
    }


def why(ledger: holdfast.LedgerId, why: holdfast.Why) -> dict[str, Any]:
    groups = {name: getattr(why, name) for name in ("chain", "claims", "depends_on", "derived")}
    return {
        "tenant": ledger.tenant,
        **_home(ledger),
        "key": why.key,
        "current": None if why.current is None else fact(ledger, why.current),
        **{name: [fact(ledger, each) for each in found] for name, found in groups.items()},
        "story": [{**plain(link), "time": stamp(link.time_us)} for link in why.story],
    }


def _stamped(time_us: int | None) -> str | None:
    return None if time_us is None else stamp(time_us)


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
