"""Entries of the outbox, and the rules of their claims, for every store."""

from __future__ import annotations

from holdfast import codec
from holdfast.model.memory.deliveries import Delivery
from holdfast.model.names import Scope
from holdfast.model.rows import OutboxRow
from holdfast.model.sessions.messages import Offload


def build_offload(row: OutboxRow) -> Offload:
    """Return the entry of the outbox that a row describes."""
    scope = Scope(row.tenant, row.actor, row.session, row.thread or None)
    return Offload(
        scope=scope,
        entry=row.entry,
        why=row.why,
        first=row.first,
        last=row.last,
        at_us=row.at_us,
        key=codec.digest([scope.tenant, scope.actor, scope.session, scope.thread, row.entry]),
    )


def is_due(delivery: Delivery, now_us: int) -> bool:
    """Whether a worker may claim an entry now."""
    return not delivery.is_set_aside and delivery.until_us <= now_us and delivery.next_us <= now_us
