"""From events and the states around them to rows. Pure, so that a rebuild gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.fold import offers
from holdfast.model.content import blob_refs
from holdfast.model.events import Event, OffloadAcknowledged, parts_of
from holdfast.model.names import Scope
from holdfast.model.rows import BlobRow, OutboxRow, Row, SessionRow
from holdfast.model.state import SessionState


def rows_of(scope: Scope, before: SessionState, event: Event | None, event_type: str, time_us: int) -> Iterator[Row]:
    """The rows that one event puts in place, beside that of its session."""
    tenant, actor, session, thread = scope.tenant, scope.actor, scope.session, scope.thread or ""
    seq = before.version + 1
    for ref in dict.fromkeys(blob_refs(parts_of(event))):
        yield BlobRow(
            tenant=tenant, digest=ref.digest, actor=actor, session=session, thread=thread, seq=seq, size=ref.size
        )
    stretch = offers(before, event, event_type)
    if stretch is not None:
        entry, why, at_us, done = seq, event_type.removeprefix("session."), time_us, 0
    elif isinstance(event, OffloadAcknowledged):
        stretch = (event.first, event.last)
        entry, why, at_us, done = event.entry, event.why, event.at_us, 1
    else:
        return
    yield OutboxRow(
        tenant=tenant,
        actor=actor,
        session=session,
        thread=thread,
        entry=entry,
        why=why,
        first=stretch[0],
        last=stretch[1],
        at_us=at_us,
        done=done,
    )


def session_row(scope: Scope, state: SessionState) -> SessionRow | None:
    """The row of the session itself."""
    if state.status == "absent":
        return None
    expires = state.idle_timeout_us and state.status == "open"
    return SessionRow(
        tenant=scope.tenant,
        actor=scope.actor,
        session=scope.session,
        thread=scope.thread or "",
        status=state.status,
        version=state.version,
        messages=state.messages,
        tokens=state.tokens,
        open_calls=len(state.open_calls),
        input_tokens=state.usage.input_tokens,
        cache_read_tokens=state.usage.cache_read_tokens,
        output_tokens=state.usage.output_tokens,
        created_us=state.created_us,
        updated_us=state.updated_us,
        expires_us=state.active_us + state.idle_timeout_us if expires else None,
        residue=state.residue,
        gone=int(state.status == "destroyed"),
    )
