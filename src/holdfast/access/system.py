"""What a server stores for itself: entries of sessions in SYSTEM_TENANT, which every replica on the store sees."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import holdfast
from holdfast.access.access import SYSTEM_TENANT
from holdfast.errors import SessionNotFound
from holdfast.model.entries.entry import Entry

Clock: TypeAlias = Callable[[], int]
"""Returns the time in microseconds since the epoch."""
PAGE = 100
"""The entries that are read at a time."""


def now_us() -> int:
    return time.time_ns() // 1_000


async def system_session(
    engine: holdfast.AsyncEngine, session: str, *, actor: str, principal: str = "server"
) -> holdfast.AsyncSession:
    """Open a session of the server itself; it is created at its first use."""
    system = engine.acting_as(tenant=SYSTEM_TENANT, principal=principal)
    return await system.session(session, actor=actor, create=True)


async def find_system_session(
    engine: holdfast.AsyncEngine, session: str, *, actor: str
) -> holdfast.AsyncSession | None:
    """Open a session of the server itself to read it; None if it was never used. Nothing is stored."""
    system = engine.acting_as(tenant=SYSTEM_TENANT)
    try:
        return await system.session(session, actor=actor)
    except SessionNotFound:
        return None


async def read_entries_after(session: holdfast.AsyncSession, seq: int, *, kind: str | None = None) -> list[Entry]:
    """The entries after an event, oldest first. If there are none, which is the rule, no body is read."""
    newest = await session.entries.list(kind=kind, limit=1, bodies=False)
    if not newest or newest[0].seq <= seq:
        return []
    found: list[Entry] = []
    before: int | None = None
    while True:
        page = await session.entries.list(kind=kind, before=before, limit=PAGE)
        found += [entry for entry in page if entry.seq > seq]
        if len(page) < PAGE or page[-1].seq <= seq:
            return found[::-1]
        before = page[-1].seq


async def read_newest_entries(session: holdfast.AsyncSession, limit: int, *, kind: str | None = None) -> list[Entry]:
    """The newest entries, newest first; 0 for all."""
    found: list[Entry] = []
    before: int | None = None
    while not limit or len(found) < limit:
        page = await session.entries.list(kind=kind, before=before, limit=PAGE)
        found += page
        if len(page) < PAGE:
            break
        before = page[-1].seq
    return found[:limit] if limit else found


def body_of(entry: Entry) -> dict[str, Any]:
    """The body of an entry of the server; empty for one that the server did not write."""
    return dict(entry.body) if isinstance(entry.body, dict) else {}
