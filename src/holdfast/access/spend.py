"""Tokens per hour: what each key has spent on the upstream model, across all processes of all servers on a store.

Laws: spending is entries in SYSTEM_TENANT, one session for each key, summed for each hour of UTC. The same `key` is counted
once, also by another process or in another hour. The check counts what was added before it: calls that run at the same time
can pass it together, so the last of an hour may exceed the limit by what is under way.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

import holdfast
from holdfast.access.access import Access
from holdfast.access.system import Clock, body_of, find_system_session, now_us, read_entries_after, system_session
from holdfast.errors import EntryConflict, SpendExceeded
from holdfast.model.names import check_whole

HOUR_US = 3_600_000_000
ACTOR = "spending"
MOST_SUMS = 10_000
"""The keys whose sum one process remembers; of another one, the entries of the hour are read again."""


class HourSum(msgspec.Struct, frozen=True):
    """What a key has spent in an hour, up to an event of its session."""

    hour: int
    tokens: int = 0
    seq: int = 0


class KeySpending:
    """The spending of all keys, as one process sees it."""

    def __init__(self, engine: holdfast.AsyncEngine, *, clock: Clock = now_us) -> None:
        self._engine = engine
        self._clock = clock
        self._sums: OrderedDict[str, HourSum] = OrderedDict()

    async def check(self, access: Access) -> None:
        """Refuse a caller who has spent the tokens of this hour. Before a call of the model."""
        limit = access.tokens_per_hour
        if limit is None or not access.key_id:
            return
        spent = await self.total(access)
        if spent >= limit:
            left_us = HOUR_US - self._clock() % HOUR_US
            raise SpendExceeded(limit=limit, spent=spent, retry_s=-(-left_us // 1_000_000), reason="")

    async def add(self, access: Access, tokens: int, *, key: str) -> None:
        """Add the tokens of a call of the model, once for each `key`. After the call, also if it failed halfway."""
        check_whole("tokens", tokens)
        if not access.key_id or not tokens:
            return
        session = await system_session(self._engine, access.key_id, actor=ACTOR)
        try:
            await session.entries.append(_hour_name(self._hour()), key, {"tokens": tokens})
        except EntryConflict:
            pass  # it was added before, with other tokens or in another hour: the first one counts

    async def total(self, access: Access) -> int:
        """The tokens that the caller has spent in this hour."""
        hour = self._hour()
        known = self._sums.get(access.key_id)
        if known is None or known.hour != hour:
            known = HourSum(hour)
        session = await find_system_session(self._engine, access.key_id, actor=ACTOR)
        if session is None:
            return 0
        entries = await read_entries_after(session, known.seq, kind=_hour_name(hour))
        if entries:
            more = sum(int(body_of(entry).get("tokens", 0)) for entry in entries)
            known = HourSum(hour, known.tokens + more, entries[-1].seq)
        current = self._sums.get(access.key_id)
        if current is None or (current.hour, current.seq) <= (known.hour, known.seq):
            self._sums[access.key_id] = known
            self._sums.move_to_end(access.key_id)
        if len(self._sums) > MOST_SUMS:
            self._sums.popitem(last=False)
        return known.tokens

    def _hour(self) -> int:
        return self._clock() // HOUR_US


def _hour_name(hour: int) -> str:
    return f"hour-{hour}"
