"""Forks: sessions and ledgers that share the first events of another one."""

from __future__ import annotations

import msgspec

from holdfast.model.names import StreamId


class ForkSegment(msgspec.Struct, frozen=True):
    """Shared events up to seq `last`, after those of the segment before: they are stored in another stream."""

    key: tuple[str, ...]
    """The key of that stream; it has the tenant and the kind of the fork."""
    last: int

    def stream_beside(self, fork: StreamId) -> StreamId:
        return fork.beside(self.key)


class ForkOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a fork comes from, as its first own event says."""

    parent: tuple[str, ...]
    """The key of the stream that has the last shared event."""
    cut: int
    """The seq of the last shared event."""
    lineage: tuple[ForkSegment, ...] = ()
    """Where the shared events are, the oldest first; empty if the fork has a copy of them."""


FORK_EVENTS = ("session.forked", "ledger.forked")
"""The first own event of a fork."""
