"""From events and the state they lead to, to rows. Pure, so that a rebuild gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.content import blob_refs
from holdfast.model.events import Event, MessageRecorded
from holdfast.model.names import Scope
from holdfast.model.rows import BlobRow, Row, SessionRow
from holdfast.model.state import SessionState


def project(scope: Scope, state: SessionState, events: Iterable[tuple[int, Event | None]]) -> list[Row]:
    """The rows that these events (each with its seq) put in place; `state` is the one after the last of them."""
    rows: list[Row] = []
    for seq, event in events:
        if isinstance(event, MessageRecorded):
            rows += (
                BlobRow(
                    tenant=scope.tenant,
                    digest=ref.digest,
                    actor=scope.actor,
                    session=scope.session,
                    thread=scope.thread or "",
                    seq=seq,
                    size=ref.size,
                )
                for ref in dict.fromkeys(blob_refs(event.content))
            )
    if state.status != "absent":
        rows.append(
            SessionRow(
                tenant=scope.tenant,
                actor=scope.actor,
                session=scope.session,
                thread=scope.thread or "",
                status=state.status,
                version=state.version,
                messages=state.messages,
                tokens=state.tokens,
                created_us=state.created_us,
                updated_us=state.updated_us,
            )
        )
    return rows
