"""Whose session it was, event by event.

Laws: an identity holds from its event on. Where it was erased, nobody is known: no words pass to the user before. A fork
begins with the identity that its parent had at the last shared event.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from holdfast.core import upcast
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.names import StreamId
from holdfast.model.sessions.events import IdentityRefreshed, SessionCreated
from holdfast.model.sessions.layers import Identity

IDENTITY_EVENTS = (SessionCreated.name, IdentityRefreshed.name)


class IdentityTimeline:
    """Whose session it was, event by event."""

    def __init__(self, changes: Sequence[tuple[int, Identity | None]]) -> None:
        """`changes` have the seqs of the events that set an identity, in order; None for an erased one."""
        self._seqs = [seq for seq, _ in changes]
        self._identities = [identity for _, identity in changes]

    @property
    def first(self) -> Identity | None:
        return self._identities[0] if self._identities else None

    def find(self, seq: int) -> Identity | None:
        """The identity at an event; None if it was erased."""
        at = bisect.bisect_right(self._seqs, seq)
        return self._identities[at - 1] if at else None

    def find_user(self, seq: int) -> str:
        """The user at an event; empty for none, or an unknown one."""
        identity = self.find(seq)
        return "" if identity is None else identity.user_id

    def split(self, first: int, last: int) -> Iterator[tuple[int, int, str]]:
        """Yield the parts of a range of events that have one user each, with that user."""
        starts = [first, *(seq for seq in self._seqs if first < seq <= last)]
        for start, after in zip(starts, [*starts[1:], last + 1], strict=True):
            yield start, after - 1, self.find_user(start)


def read_identities(stream: StreamId, last: int) -> Flow[IdentityTimeline]:
    """The identities of a session up to an event."""
    changes: list[tuple[int, Identity | None]] = []
    before: int | None = last + 1
    while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, IDENTITY_EVENTS)):
        before = page[-1].seq
        for recorded in page:
            event = upcast.decode_event(recorded)
            known = event.identity if isinstance(event, SessionCreated | IdentityRefreshed) else None
            changes.append((recorded.seq, known))
    return IdentityTimeline(changes[::-1])
