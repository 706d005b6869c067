"""What one caller may do, whatever protocol they use: /api, /v1 or MCP.

Laws: the tenant, the principal, the namespace of sessions and the authority of all that is written come from the key or
the token, never from the content of a request. What a caller may not use does not exist for them: the same error as for
an unknown name.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

import holdfast
from holdfast.core.sessions.decide import session_not_found
from holdfast.errors import RightMissing
from holdfast.model.names import DEFAULT_ACTOR, Scope
from holdfast.model.sessions.layers import Identity

Right: TypeAlias = Literal["read", "write", "model", "admin"]
"""Read what is stored · change it · ask the upstream model · maintain the whole store, of all tenants."""
RIGHTS: tuple[Right, ...] = get_args(Right)
SYSTEM_TENANT = "holdfast.system"
"""The tenant of what servers store for themselves: keys, spending, audit. No key gives access to it."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes a request, and what they may do."""

    tenant: str = "default"
    principal: str = "local"
    """Who acts, as the events of the log say."""
    rights: frozenset[Right] = frozenset(RIGHTS)
    actor: str | None = None
    """The only namespace of sessions that the caller may use; None for all of the tenant."""
    identity: Identity | None = None
    """The user whose authority and permissions the caller has; None for a program, which acts for anyone of the
    tenant."""
    key_id: str = ""
    """The id of the key; empty for a caller without one."""
    requests_per_minute: int | None = None
    tokens_per_hour: int | None = None

    def check(self, right: Right) -> None:
        """Refuse a caller without this right."""
        if right not in self.rights:
            raise RightMissing(right=right, reason="")

    def choose_actor(self, actor: str | None) -> str:
        """The namespace of a session: the caller's own, or the one that a program names."""
        if self.actor is None:
            return DEFAULT_ACTOR if actor is None else actor
        return self.actor

    def allows_actor(self, actor: str | None) -> bool:
        return self.actor is None or actor is None or actor == self.actor


def engine_for(engine: holdfast.AsyncEngine, access: Access) -> holdfast.AsyncEngine:
    """The engine, acting in the tenant of the caller and as their principal."""
    return engine.acting_as(tenant=access.tenant, principal=access.principal)


async def open_session(
    engine: holdfast.AsyncEngine, access: Access, session: str, *, actor: str | None = None, thread: str | None = None
) -> holdfast.AsyncSession:
    """Open a session as the caller may use it. `engine` acts for the caller.

    With a key of a user, the session has the identity of the key from then on, so that all that is read and written has
    its permissions and authority. A session of another user, or of another namespace, is not found."""
    scope = Scope.check(access.tenant, DEFAULT_ACTOR if actor is None else actor, session, thread)
    if not access.allows_actor(actor):
        raise session_not_found(scope)
    opened = await engine.session(session, actor=access.choose_actor(actor), thread=thread)
    if access.identity is None:
        return opened
    identity = (await opened.state()).identity
    if identity == access.identity:
        return opened
    if identity.user_id not in ("", access.identity.user_id):
        raise session_not_found(opened.scope)
    if "write" in access.rights:
        await opened.refresh_identity(access.identity)
    elif not set(identity.permissions) <= set(access.identity.permissions):
        raise session_not_found(opened.scope)
    return opened
