"""Who calls by MCP, and what of the store they may use.

Laws: the tenant, the principal, the namespace and the user come from the access, never from the arguments of a tool. What
the caller may not use does not exist for them. A caller without the right to write changes nothing, not even by reading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, get_args

import msgspec
from mcp.server.context import ServerRequestContext

import holdfast
from holdfast.access.access import Access, create_session, engine_for, ledger_for, open_session
from holdfast.errors import SessionDestroyedError, SessionExists, SessionNotFound
from holdfast.mcp.task_frames import TaskOwner
from holdfast.model.names import LedgerId, LedgerKind, check_choice, shorten_name

DEFAULT_SESSION = "mcp"
"""The session of a caller who names none."""
LEDGER_KINDS: tuple[LedgerKind, ...] = get_args(LedgerKind)


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The one who makes a request, with the engine that acts for them."""

    engine: holdfast.AsyncEngine
    access: Access
    default_session: str = ""

    @classmethod
    def of(cls, engine: holdfast.AsyncEngine, access: Access, default_session: str = "") -> Caller:
        """The caller with this access. `engine` may be the engine of anyone."""
        return cls(engine=engine_for(engine, access), access=access, default_session=default_session)

    @property
    def may_write(self) -> bool:
        return "write" in self.access.rights

    @property
    def user(self) -> str:
        """The user that the caller is; empty for a program."""
        return "" if self.access.identity is None else self.access.identity.user_id

    @property
    def actor(self) -> str:
        """The namespace of the sessions that the caller uses."""
        return self.access.choose_actor(None)

    def session_name(self, session: str | None) -> str:
        """The session that a request means. Users who share a namespace have usual sessions of their own."""
        if session or self.default_session:
            return session or self.default_session
        return DEFAULT_SESSION if self.user in ("", self.actor) else shorten_name(f"{DEFAULT_SESSION}-{self.user}")

    async def open(self, session: str | None) -> holdfast.AsyncSession:
        """Open a session that exists."""
        return await open_session(self.engine, self.access, self.session_name(session))

    async def find(self, session: str | None) -> holdfast.AsyncSession | None:
        """The session, or None: the default session of a new caller does not exist yet. One that is named must exist."""
        try:
            return await self.open(session)
        except SessionNotFound:
            if session and session != self.session_name(None):
                raise
            return None

    async def ensure(self, session: str | None) -> holdfast.AsyncSession:
        """Open a session, and create it if there is none."""
        self.access.check("write")
        name = self.session_name(session)
        try:
            return await self.open(name)
        except SessionDestroyedError:
            raise
        except SessionNotFound as missing:
            try:
                return await create_session(self.engine, self.access, name, memory=bool(self.user))
            except SessionExists:
                try:
                    return await self.open(name)  # another request has created it just now
                except SessionNotFound:
                    raise missing from None  # it is of another user

    async def user_of(self, session: holdfast.AsyncSession) -> str:
        """The user whose facts the session reads; empty for none."""
        state = await session.state()
        own = state.identity.user_id
        return own if any(key == ("user", own) for key in state.ledgers) else ""

    async def ledger(self, kind: str, name: str) -> holdfast.AsyncLedger:
        """A ledger by its kind and name, as the caller may use it."""
        chosen = check_choice("kind", kind, LEDGER_KINDS)
        names = (self.actor, name) if chosen == "session" else (name,)
        return await ledger_for(self.engine, self.access, LedgerId(self.access.tenant, chosen, names))

    @property
    def task_owner(self) -> TaskOwner:
        """Tasks are of the user, or of the principal of a program."""
        kind, name = ("user", self.user) if self.user else ("principal", self.access.principal)
        return TaskOwner(self.engine, msgspec.json.encode([self.actor, kind, name]).decode())

    @property
    def fingerprint(self) -> str:
        """What no other caller has, for the state that clients keep for us."""
        return msgspec.json.encode([self.access.tenant, self.task_owner.name]).decode()


CallerSource: TypeAlias = Callable[[ServerRequestContext[Any, Any]], Caller]
