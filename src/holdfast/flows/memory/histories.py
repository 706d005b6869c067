"""Ended conversations, read for long-term memory: their messages, whose they were, and what they came to.

Law: where a part of a conversation begins and ends depends on the log alone, so that its key always means the same part.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from holdfast.core import upcast
from holdfast.flows import effects
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Flow
from holdfast.flows.memory.index import find_situation
from holdfast.flows.sessions import lifecycle
from holdfast.model import limits
from holdfast.model.memory.recall import SessionHistory
from holdfast.model.sessions.events import IdentityRefreshed, SessionCreated
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message, Offload


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


def read_identities(offload: Offload) -> Flow[IdentityTimeline]:
    """The identities of a session up to the end of a conversation."""
    changes: list[tuple[int, Identity | None]] = []
    before: int | None = offload.last + 1
    types = (SessionCreated.name, IdentityRefreshed.name)
    while page := (yield from effects.read_back(offload.scope.stream, before, limits.READ_EVENTS, types)):
        before = page[-1].seq
        for recorded in page:
            event = upcast.decode_event(recorded)
            known = event.identity if isinstance(event, SessionCreated | IdentityRefreshed) else None
            changes.append((recorded.seq, known))
    return IdentityTimeline(changes[::-1])


def read_history_pages(engine: EngineContext, offload: Offload, after: int) -> Flow[list[Message]]:
    """The next messages of a conversation, oldest first: erased and withdrawn ones, too. Empty at its end."""
    if after >= offload.last:
        return []
    return (yield from lifecycle.history(engine, offload, after=after, limit=limits.DELIVERY_MESSAGES))


def read_situation(offload: Offload) -> Flow[dict[str, str]]:
    """What a conversation had come to, by field."""
    return {name: text for name, (_, _, text) in (yield from find_situation(offload)).items()}


class HistoryParts:
    """The parts of a conversation for a memory of the caller, one after the other. A part ends where the session went over
    to another identity: no memory gets the words of one user as those of another."""

    def __init__(self, engine: EngineContext, offload: Offload, identities: IdentityTimeline) -> None:
        self._engine = engine
        self._offload = offload
        self._identities = identities
        self._messages: list[Message] = []
        self._read = 0
        self._part = 0

    def next_part(self) -> Flow[SessionHistory | None]:
        """The next part, without withdrawn and erased messages; None after the last one."""
        yield from self._fill()
        if not self._messages:
            return None
        owner = self._identities.find(self._messages[0].seq)
        size = 0
        for message in self._messages[: limits.DELIVERY_MESSAGES]:
            if self._identities.find(message.seq) != owner:
                break
            size += 1
        chosen, self._messages = self._messages[:size], self._messages[size:]
        yield from self._fill()
        offload, part = self._offload, self._part
        self._part += 1
        is_last = not self._messages
        return SessionHistory(
            key=f"{offload.key}.{part}",
            scope=offload.scope,
            identity=owner or Identity(),
            why=offload.why,
            part=part,
            is_last=is_last,
            messages=tuple(each for each in chosen if not each.erased and not each.withdrawn),
            situation=(yield from read_situation(offload)) if is_last else {},
        )

    def _fill(self) -> Flow[None]:
        if not self._messages:
            self._messages = yield from read_history_pages(self._engine, self._offload, self._read)
            self._read = self._messages[-1].seq if self._messages else self._offload.last
