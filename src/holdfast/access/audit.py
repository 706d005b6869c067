"""The audit: who made and revoked keys, who was refused, and who maintained the store. Entries in SYSTEM_TENANT.

What happened to keys is in the entries that made it so (see `records`): it cannot happen without them.

Laws: no entry and no line of the log has a secret or content of a user. A flood of refused requests stores at most
REFUSALS_PER_MINUTE entries from each process; the rest is counted in the next one.
"""

from __future__ import annotations

import logging
import secrets
import time
from typing import Any

import msgspec

import holdfast
from holdfast.access import records
from holdfast.access.rates import TokenBucket
from holdfast.access.system import body_of, find_system_session, read_newest_entries, system_session
from holdfast.model.entries.entry import Entry

REFUSALS_PER_MINUTE = 10
"""The most refused requests that one process stores in a minute."""
TEXT_CHARS = 200
"""The most characters of a text in an entry: a request chooses its path."""
REFUSED = "login.refused"
ADMIN = "admin"
ACTOR, SESSION = "audit", "audit"
logger = logging.getLogger("holdfast.access")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the audit keeps."""

    at_us: int
    action: str
    by: str
    details: dict[str, Any]


def log_change(action: str, key: str, by: str) -> None:
    """Log a change of a key."""
    logger.info("%s", action, extra={"fields": {"action": action, "key": key, "by": by}})


async def append_audit(engine: holdfast.AsyncEngine, action: str, *, by: str, **details: object) -> None:
    """Store an entry of the audit, and log it."""
    plain = {name: _to_plain(value) for name, value in details.items() if value is not None}
    logger.info("%s", action, extra={"fields": {"action": action, "by": by, **plain}})
    session = await system_session(engine, SESSION, actor=ACTOR)
    await session.entries.append(action, secrets.token_hex(8), {"by": by[:TEXT_CHARS], **plain})


def _to_plain(value: object) -> object:
    if isinstance(value, int):
        return value
    text = str(value)[:TEXT_CHARS]
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


async def list_audit(engine: holdfast.AsyncEngine, *, action: str | None = None, limit: int = 100) -> list[AuditEntry]:
    """The entries of the audit, newest first; 0 for all. The entries about keys are part of it."""
    found: list[AuditEntry] = []
    for actor, name in ((ACTOR, SESSION), (records.ACTOR, records.SESSION)):
        session = await find_system_session(engine, name, actor=actor)
        if session is not None:
            found += [_describe(entry) for entry in await read_newest_entries(session, limit, kind=action)]
    found.sort(key=lambda entry: entry.at_us, reverse=True)
    return found[:limit] if limit else found


def _describe(entry: Entry) -> AuditEntry:
    """An entry, without digests and what a key allows."""
    body = body_of(entry)
    by = str(body.pop("by", ""))
    if entry.kind in (records.KEY_CREATED, records.KEY_ROTATED, records.KEY_REVOKED):
        grant, reason = body.get("grant"), body.get("reason")
        body = {"key": entry.parent or entry.key}
        if grant:
            body |= {"name": grant.get("name"), "tenant": grant.get("tenant", "default")}
        if reason:
            body["reason"] = reason
    return AuditEntry(at_us=entry.at_us, action=entry.kind, by=by, details=body)


class Audit:
    """The audit of one process of a server."""

    def __init__(self, engine: holdfast.AsyncEngine, *, stores_refusals: bool = True) -> None:
        self._engine = engine
        self._stores_refusals = stores_refusals
        self._bucket = TokenBucket(REFUSALS_PER_MINUTE, time.monotonic())
        self._suppressed = 0

    async def refuse(self, *, path: str, client: str, key_id: str) -> None:
        """A request without a valid key. `key_id` is the id that its key names, which may be invented."""
        if not self._stores_refusals:
            logger.warning("%s", REFUSED)
            return
        if not self._bucket.take(time.monotonic()).is_allowed:
            self._suppressed += 1
            return
        suppressed, self._suppressed = self._suppressed, 0
        await append_audit(
            self._engine, REFUSED, by="server", path=path, client=client, key=key_id, suppressed=suppressed or None
        )

    async def maintain(self, *, by: str, key_id: str, operation: str) -> None:
        """An operation on the whole store."""
        await append_audit(self._engine, ADMIN, by=by, key=key_id, operation=operation)
