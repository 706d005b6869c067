"""API keys in the store: create, rotate, revoke, list, and the ring that a server looks them up in.

Laws: keys are entries in SYSTEM_TENANT, so any replica sees them. A change counts everywhere within KEY_CACHE_S; a new key
or a new secret counts at once. A refused key costs the same, whatever is wrong with it: one look into the store, which all
refused requests of a process share.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

import holdfast
from holdfast.access import records
from holdfast.access.access import Access
from holdfast.access.audit import log_change
from holdfast.access.records import ACTOR, SESSION, KeyGrant, KeyRecord, KeySecret
from holdfast.access.system import Clock, find_system_session, now_us, read_entries_after, system_session
from holdfast.errors import (
    EntryConflict,
    InvalidArgument,
    KeyNotFound,
    VersionConflict,
    describe_value,
)
from holdfast.model.entries.entry import NewEntry
from holdfast.model.names import check_whole

KEY_CACHE_S = 2.0
"""How long a server may use a key without a look into the store: so long can a revoked key work."""
REFUSAL_PAUSE_S = 0.02
"""The least time between two looks into the store for refused keys. Requests wait for it: a flood costs no more."""
RELOAD_S = 300.0
"""How often all keys are read anew, in place of the changes only."""
DEFAULT_OVERLAP_S = 86_400
"""How long the old secret of a rotated key works, unless said otherwise: a day."""
CREATE_TRIES = 20
"""How often a key is tried to be created while other processes change keys."""


# Changes


async def create_key(
    engine: holdfast.AsyncEngine, grant: KeyGrant, *, by: str, clock: Clock = now_us
) -> tuple[KeyRecord, KeySecret]:
    """Create a key. The secret is in the answer, and nowhere else.

    All live keys of a user have the same identity and namespace, since they share the user's sessions; and no other user
    has that namespace."""
    grant = grant.check()
    if grant.expires_us is not None and grant.expires_us <= clock():
        raise InvalidArgument(argument="expires", reason="it is in the past")
    key_id, key = records.make_key()
    body = msgspec.to_builtins(records.StoredGrant(grant, records.digest_key(key), by))
    session = await system_session(engine, SESSION, actor=ACTOR, principal=by)
    for tries_left in reversed(range(CREATE_TRIES)):
        version = (await session.state()).version
        for other in await list_keys(engine):
            if other.status(clock()) == "live":
                _check_neighbour(grant, other)
        try:
            await session.entries.append_all([NewEntry(records.KEY_CREATED, key_id, body)], expect=version)
            break
        except VersionConflict:  # another process changed keys: look at them again
            if not tries_left:
                raise
    log_change(records.KEY_CREATED, key_id, by)
    return await find_key(engine, key_id), key


def _check_neighbour(grant: KeyGrant, other: KeyRecord) -> None:
    theirs = other.grant.identity
    if grant.identity is None or theirs is None or other.grant.tenant != grant.tenant:
        return
    if theirs.user_id == grant.identity.user_id:
        if (theirs, other.grant.actor) != (grant.identity, grant.actor):
            reason = (
                f"the user {describe_value(theirs.user_id)} has the key {other.id} with another identity or namespace; "
                "all keys of a user have the same: revoke that key first, or pass what it has"
            )
            raise InvalidArgument(argument="identity", reason=reason)
    elif other.grant.actor == grant.actor:
        reason = f"{describe_value(grant.actor)} is the namespace of another user, who has the key {other.id}"
        raise InvalidArgument(argument="actor", reason=reason)


async def rotate_key(
    engine: holdfast.AsyncEngine, key_id: str, *, by: str, overlap_s: int = DEFAULT_OVERLAP_S, clock: Clock = now_us
) -> tuple[KeyRecord, KeySecret]:
    """Give a key a new secret. The old one works for `overlap_s` seconds more."""
    check_whole("overlap_s", overlap_s, 0, 366 * 86_400)
    record = await find_key(engine, key_id)
    if (status := record.status(clock())) != "live":
        raise InvalidArgument(argument="key", reason=f"the key {record.id} is {status}; create another one")
    _, key = records.make_key(record.id)
    session = await system_session(engine, SESSION, actor=ACTOR, principal=by)
    rotation = records.StoredRotation(records.digest_key(key), overlap_s * 1_000_000, by)
    name, body = f"{record.id}.{rotation.digest[:16]}", msgspec.to_builtins(rotation)
    await session.entries.append(records.KEY_ROTATED, name, body, parent=record.id)
    log_change(records.KEY_ROTATED, record.id, by)
    return await find_key(engine, key_id), key


async def revoke_key(engine: holdfast.AsyncEngine, key_id: str, *, by: str, reason: str = "") -> KeyRecord:
    """Revoke a key for good. To revoke it again changes nothing."""
    record = await find_key(engine, key_id)
    if record.revoked_us is not None:
        return record
    session = await system_session(engine, SESSION, actor=ACTOR, principal=by)
    body = msgspec.to_builtins(records.StoredRevocation(by, reason))
    try:
        await session.entries.append(records.KEY_REVOKED, f"{record.id}.revoked", body, parent=record.id)
    except EntryConflict:  # another process was first
        return await find_key(engine, record.id)
    log_change(records.KEY_REVOKED, record.id, by)
    return await find_key(engine, record.id)


# Reads


async def list_keys(engine: holdfast.AsyncEngine) -> list[KeyRecord]:
    """All keys, oldest first, also those that are expired or revoked."""
    found: dict[str, KeyRecord] = {}
    session = await find_system_session(engine, SESSION, actor=ACTOR)
    if session is not None:
        records.fold_entries(found, await read_entries_after(session, 0))
    return list(found.values())


async def find_key(engine: holdfast.AsyncEngine, key_id: str) -> KeyRecord:
    """One key, by its id or its prefix."""
    wanted = key_id.removeprefix("hf_")
    for record in await list_keys(engine):
        if record.id == wanted:
            return record
    raise KeyNotFound(key=key_id if len(wanted) <= 2 * records.ID_BYTES else "(not an id)")  # it may be a secret


class KeyRing:
    """The keys of the store, as a server looks them up."""

    def __init__(
        self, engine: holdfast.AsyncEngine, *, clock: Clock = now_us, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._timer = timer
        self._records: dict[str, KeyRecord] = {}
        self._seq = 0
        self._read_at = self._loaded_at = float("-inf")
        """When the last look into the store began, and when all keys were read."""
        self._lock = asyncio.Lock()

    async def find(self, key: str) -> Access | None:
        """What the key allows; None if it opens nothing."""
        await self._refresh(self._timer() - KEY_CACHE_S)
        access = self._open(key)
        if access is None:
            await self._refresh(self._timer(), REFUSAL_PAUSE_S)
            access = self._open(key)
        return access

    async def has_live_keys(self) -> bool:
        """Whether the store has a key that works, as it was at most KEY_CACHE_S ago."""
        await self._refresh(self._timer() - KEY_CACHE_S)
        return any(record.status(self._clock()) == "live" for record in self._records.values())

    def _open(self, key: str) -> Access | None:
        record = self._records.get(records.read_key_id(key))
        if not records.is_opened_by(record, key, self._clock()) or record is None:
            return None
        return record.grant.build_access(record.id)

    async def _refresh(self, since: float, pause_s: float = 0.0) -> None:
        """Look into the store, unless a look has begun since then. Looks of one process follow one another."""
        if self._read_at > since:
            return
        async with self._lock:
            if self._read_at > since:
                return
            await asyncio.sleep(max(0.0, self._read_at + pause_s - self._timer()))
            began = self._timer()
            if began - self._loaded_at >= RELOAD_S:
                self._seq, self._loaded_at = 0, began
            await self._read()
            self._read_at = began

    async def _read(self) -> None:
        session = await find_system_session(self._engine, SESSION, actor=ACTOR)
        if session is None:
            self._records, self._seq = {}, 0
            return
        found = {} if self._seq == 0 else self._records
        entries = await read_entries_after(session, self._seq)
        records.fold_entries(found, entries)
        self._records = found
        self._seq = entries[-1].seq if entries else self._seq
