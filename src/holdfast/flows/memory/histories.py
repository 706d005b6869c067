"""Ended conversations, read for long-term memory: their messages, whose they were, and what they came to.

Law: where a part of a conversation begins and ends depends on the log alone, so that its key always means the same part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from holdfast.errors import MemoryFailed
from holdfast.flows import effects
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Flow
from holdfast.flows.memory.identities import IdentityTimeline
from holdfast.flows.memory.index import find_situation
from holdfast.flows.sessions import lifecycle
from holdfast.model import limits
from holdfast.model.memory.recall import SessionHistory
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message, Offload
from holdfast.ports import Memory


def read_history_pages(engine: EngineContext, offload: Offload, after: int) -> Flow[list[Message]]:
    """The next messages of a conversation, oldest first: erased and withdrawn ones, too. Empty at its end."""
    if after >= offload.last:
        return []
    return (yield from lifecycle.history(engine, offload, after=after, limit=limits.DELIVERY_MESSAGES))


def read_situation(offload: Offload, identities: IdentityTimeline, user: str) -> Flow[dict[str, str]]:
    """What a conversation had come to, by field: what was written down while it was that of this user."""
    fields = yield from find_situation(offload)
    return {name: text for name, (seq, _, text) in fields.items() if identities.find_user(seq) == user}


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
        user = "" if owner is None else owner.user_id
        return SessionHistory(
            key=f"{offload.key}.{part}",
            scope=offload.scope,
            identity=owner or Identity(),
            why=offload.why,
            part=part,
            is_last=is_last,
            messages=tuple(each for each in chosen if not each.erased and not each.withdrawn),
            situation=(yield from read_situation(offload, self._identities, user)) if is_last else {},
        )

    def _fill(self) -> Flow[None]:
        if not self._messages:
            self._messages = yield from read_history_pages(self._engine, self._offload, self._read)
            self._read = self._messages[-1].seq if self._messages else self._offload.last


def give_part(memory: Memory, part: SessionHistory) -> Flow[None]:
    """Let a memory of the caller take a part. Raises MemoryFailed."""
    take: Callable[[], object] = functools.partial(memory.take, part)
    try:
        answer = yield from effects.run_outside(take, timeout_s=limits.DELIVERY_TIMEOUT_S)
    except Exception as error:
        raise MemoryFailed(memory=memory.name, operation="take", reason=type(error).__name__) from error
    if answer is not None:
        reason = f"it returned {type(answer).__name__}; it must return None, and raise an error if it did not store it"
        raise MemoryFailed(memory=memory.name, operation="take", reason=reason)
