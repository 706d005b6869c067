"""What one caller may do, whatever protocol they use: /api, /v1 or MCP.

Laws: the tenant, the principal, the namespace of sessions and the authority of all that is written come from the key or
the token, never from the content of a request. What a caller may not use does not exist for them: the same error as for
an unknown name. A program (no identity) may use all of its tenant, or one namespace of it; a user may use their own
sessions in their own namespace, their own ledger, and that of their organization with their permissions. Nobody uses
SYSTEM_TENANT.

The functions that take an engine, which acts for the caller, keep these laws: routes and tools use them wherever a request
names something.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Literal, TypeAlias, Unpack, get_args

import msgspec

import holdfast
from holdfast import codec
from holdfast.core.sessions.decide import session_not_found
from holdfast.core.sessions.layers import check_identity
from holdfast.errors import (
    AccessRefused,
    BlobNotFound,
    InvalidArgument,
    LedgerNotFound,
    RightMissing,
    SessionNotFound,
    TokenInvalid,
)
from holdfast.flows import effects
from holdfast.flows.context import SessionContext
from holdfast.flows.frames.lookup import find_token_row
from holdfast.model.content import BlobRef
from holdfast.model.frames.frames import SuspendedFrame
from holdfast.model.limits import READ_EVENTS
from holdfast.model.names import DEFAULT_ACTOR, LedgerId, LedgerKind, Scope, check_choice, check_name, check_whole
from holdfast.model.rows import BlobRow, LedgerRow, SessionRow, scope_of
from holdfast.model.sessions.layers import Identity
from holdfast.model.state import SessionState
from holdfast.runtime.options import SessionOptions

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
    """The only namespace of sessions that the caller may use; None for all of the tenant. A user always has one: by
    default their `user_id`."""
    identity: Identity | None = None
    """The user whose authority and permissions the caller has; None for a program, which acts for anyone of the
    tenant."""
    key_id: str = ""
    """The id of the key; empty for a caller without one."""
    requests_per_minute: int | None = None
    tokens_per_hour: int | None = None

    def __post_init__(self) -> None:
        if check_name("tenant", self.tenant) == SYSTEM_TENANT:
            raise InvalidArgument(argument="tenant", reason=f"{SYSTEM_TENANT!r} is for the server itself")
        check_name("principal", self.principal)
        for right in self.rights:
            check_choice("right", right, RIGHTS)
        if self.identity is not None:
            msgspec.structs.force_setattr(self, "identity", check_identity(self.identity))
            if not self.identity.user_id:
                raise InvalidArgument(argument="identity.user_id", reason="a user needs an id")
            if self.actor is None:
                msgspec.structs.force_setattr(self, "actor", self.identity.user_id)
        if self.actor is not None:
            check_name("actor", self.actor)

    @property
    def is_program(self) -> bool:
        """Whether the caller acts for anyone of the tenant."""
        return self.identity is None

    def check(self, right: Right) -> None:
        """Refuse a caller without this right."""
        if right not in self.rights:
            raise RightMissing(right=right, reason="")

    def check_whole_tenant(self) -> None:
        """Refuse a caller who may not use all of their tenant: for the feed, totals and other views of everything."""
        if self.identity is not None or self.actor is not None:
            raise AccessRefused(
                reason="this is for programs that may use all of the tenant; the key is for a part of it"
            )

    def choose_actor(self, actor: str | None) -> str:
        """The namespace of a session: the caller's own, or the one that a program names."""
        if self.actor is None:
            return DEFAULT_ACTOR if actor is None else actor
        return self.actor

    def allows_actor(self, actor: str | None) -> bool:
        return self.actor is None or actor is None or actor == self.actor

    def allows_state(self, actor: str, state: SessionState) -> bool:
        """Whether a session of this namespace is one of the caller's: of the user themselves, or of nobody in the
        namespace that has the name of the user. The sessions of nobody in DEFAULT_ACTOR are those of programs, whoever
        has that name. A caller who cannot refresh its identity may not borrow permissions."""
        if not self.allows_actor(actor):
            return False
        mine, its = self.identity, state.identity
        if mine is None:
            return True
        if its.user_id != mine.user_id and (its.user_id or actor != mine.user_id or actor == DEFAULT_ACTOR):
            return False
        return "write" in self.rights or set(its.permissions) <= set(mine.permissions)

    def allows_memory(self, user: str) -> bool:
        """Whether the caller may read and forget the long-term memory of this user."""
        return self.identity is None or user == self.identity.user_id

    def allows_ledger(self, ledger: LedgerId) -> bool:
        """Whether the caller may use a ledger by its name. For that of a session, the session must be theirs, too."""
        if ledger.tenant != self.tenant:
            return False
        if ledger.kind == "session":
            return self.allows_actor(ledger.names[0])
        if self.identity is None:
            return True
        own = {"user": self.identity.user_id, "organization": self.identity.organization}.get(ledger.kind, "")
        return bool(own) and ledger.names == (own,)

    def check_ledger(self, ledger: LedgerId) -> None:
        """Refuse a ledger that the caller may not use. It does not exist for them."""
        if not self.allows_ledger(ledger):
            raise ledger_not_found(ledger)

    def separate_key(self, key: str) -> str:
        """An idempotency key of the caller, as the engine uses it. Keys are of a whole tenant there: those of a caller who
        may use a part of it meet no key of another one."""
        if self.actor is None:
            return key
        words = [self.actor, "" if self.identity is None else self.identity.user_id, key]
        return f"own-{hashlib.sha256(codec.encode(words)).hexdigest()}"

    def check_identity_claim(self, identity: Identity | None) -> Identity | None:
        """The identity to act with, where a request may name one: a program may name anyone, a user only themselves."""
        checked = None if identity is None else check_identity(identity)
        if self.identity is None:
            return checked
        if checked not in (None, self.identity):
            raise AccessRefused(reason="the key is of a user and acts as that user only; leave the identity out")
        return self.identity


def ledger_not_found(ledger: LedgerId) -> LedgerNotFound:
    return LedgerNotFound(ledger=str(ledger), tenant=ledger.tenant)


def engine_for(engine: holdfast.AsyncEngine, access: Access) -> holdfast.AsyncEngine:
    """The engine, acting in the tenant of the caller and as their principal."""
    return engine.acting_as(tenant=access.tenant, principal=access.principal)


# Sessions


async def open_session(
    engine: holdfast.AsyncEngine, access: Access, session: str, *, actor: str | None = None, thread: str | None = None
) -> holdfast.AsyncSession:
    """Open a session as the caller may use it.

    With a key of a user, the session has the identity of the key from then on, so that all that is read and written has
    its permissions and authority. A session of another user, or of another namespace, is not found."""
    scope = Scope.check(access.tenant, access.choose_actor(None) if actor is None else actor, session, thread)
    if not access.allows_actor(actor):
        raise session_not_found(scope)
    if access.identity is None:
        if engine._context.cache.get(scope.stream) is not None:  # it was there: what is done with it finds out the rest
            return holdfast.AsyncSession(engine._drive, SessionContext(engine._context, scope))
        return await engine.session(session, actor=scope.actor, thread=thread)
    try:
        opened = await engine.session(session, actor=scope.actor, thread=thread)
        state = await opened.state()
    except SessionNotFound:
        raise session_not_found(scope) from None  # also for one that was destroyed: it may have been of another user
    if not access.allows_state(scope.actor, state):
        raise session_not_found(scope)
    if state.identity != access.identity and "write" in access.rights:
        await opened.refresh_identity(access.identity)
    return opened


async def create_session(
    engine: holdfast.AsyncEngine,
    access: Access,
    session: str,
    *,
    actor: str | None = None,
    thread: str | None = None,
    user: str | None = None,
    key: str | None = None,
    cause: str | None = None,
    **options: Unpack[SessionOptions],
) -> holdfast.AsyncSession:
    """Create a session as the caller may: a program for anyone of the tenant, a user for themselves.

    The session of a user reads their ledger and that of their organization, and may have their memory."""
    access.check("write")
    scope = Scope.check(access.tenant, access.choose_actor(None) if actor is None else actor, session, thread)
    if not access.allows_actor(actor):
        raise session_not_found(scope)
    for ledger in options.get("ledgers", ()):
        await check_ledger_use(engine, access, ledger)
    if options.get("memory") and access.identity is None:
        access.check_whole_tenant()  # the memory of a user quotes their sessions in every namespace
    if access.identity is not None:
        claim = options.get("identity")
        if user not in (None, access.identity.user_id):
            claim = holdfast.Identity(user_id=str(user))
        options["identity"] = access.check_identity_claim(claim)
        options["ledgers"] = _complete_ledgers(access, options)
        user = access.identity.user_id
    return await engine.create_session(
        session, user=user, actor=scope.actor, thread=thread, key=key, cause=cause, **options
    )


def _complete_ledgers(access: Access, options: SessionOptions) -> tuple[LedgerId, ...]:
    """The ledgers of a user's session: their own first, then those that the request names, then their organization's."""
    assert access.identity is not None
    own = LedgerId(access.tenant, "user", (access.identity.user_id,))
    named = (own, *options.get("ledgers", ()))
    if access.identity.organization:
        named = (*named, LedgerId(access.tenant, "organization", (access.identity.organization,)))
    return tuple(dict.fromkeys(named))


async def list_sessions(
    engine: holdfast.AsyncEngine,
    access: Access,
    *,
    actor: str | None = None,
    status: Literal["open", "closed", "destroyed"] | None = None,
    active_since_us: int | None = None,
    idle_since_us: int | None = None,
    order: Literal["name", "recent"] = "name",
    after: SessionRow | None = None,
    limit: int = 100,
) -> tuple[SessionRow, ...]:
    """List the sessions of the caller, as engine.sessions() does. Users do not see destroyed sessions."""
    check_whole("limit", limit, 1, READ_EVENTS)
    if not access.allows_actor(actor):
        return ()
    actor = access.actor if access.actor is not None else actor
    read = functools.partial(
        engine.sessions,
        actor=actor,
        status=status,
        active_since_us=active_since_us,
        idle_since_us=idle_since_us,
        order=order,
        limit=limit,
    )
    if access.identity is None:
        return await read(after=after)
    shown: list[SessionRow] = []
    while len(shown) < limit:
        page = await read(after=after)
        for row in page:
            if await allows_scope(engine, access, scope_of(row)):
                shown.append(row)
        if len(page) < limit:
            break
        after = page[-1]
    return tuple(shown[:limit])


async def allows_scope(engine: holdfast.AsyncEngine, access: Access, scope: Scope) -> bool:
    """Whether a session exists and is one of the caller's."""
    if scope.tenant != access.tenant or not access.allows_actor(scope.actor):
        return False
    try:
        opened = await engine.session(scope.session, actor=scope.actor, thread=scope.thread)
        return access.allows_state(scope.actor, await opened.state())
    except SessionNotFound:
        return False


# Ledgers


async def ledger_for(engine: holdfast.AsyncEngine, access: Access, ledger: LedgerId) -> holdfast.AsyncLedger:
    """Open a ledger as the caller may use it: with the identity of a user, or without one for a program."""
    await check_ledger_use(engine, access, ledger)
    return engine.ledger(ledger, identity=access.identity)


async def check_ledger_use(engine: holdfast.AsyncEngine, access: Access, ledger: LedgerId) -> None:
    """Refuse a ledger that the caller may not use. It does not exist for them."""
    access.check_ledger(ledger)
    if access.identity is None or ledger.kind != "session":
        return
    if not await allows_scope(engine, access, Scope(ledger.tenant, *ledger.names)):
        raise ledger_not_found(ledger)


async def list_ledgers(
    engine: holdfast.AsyncEngine,
    access: Access,
    *,
    kind: LedgerKind | None = None,
    after: LedgerRow | None = None,
    limit: int = 100,
) -> tuple[LedgerRow, ...]:
    """List the ledgers of the caller by name, as engine.ledgers() does."""
    check_whole("limit", limit, 1, READ_EVENTS)
    shown: list[LedgerRow] = []
    if access.identity is None:
        while len(shown) < limit and (page := await engine.ledgers(kind=kind, after=after, limit=limit)):
            shown += [row for row in page if access.allows_ledger(row.id)]
            after = page[-1]
        return tuple(shown[:limit])
    names = {codec.encode_stream_key(each.stream) for each in await _list_own_ledgers(engine, access, kind)}
    for name in sorted(names):
        if len(shown) < limit and (after is None or name > after.ledger):
            shown += await engine._drive(effects.rows(LedgerRow, {"tenant": access.tenant, "ledger": name}, None, 1))
    return tuple(shown)


async def _list_own_ledgers(engine: holdfast.AsyncEngine, access: Access, kind: LedgerKind | None) -> list[LedgerId]:
    """The ledgers that a user may use, whether they have facts or not."""
    assert access.identity is not None
    found = [LedgerId(access.tenant, "user", (access.identity.user_id,))]
    if access.identity.organization:
        found.append(LedgerId(access.tenant, "organization", (access.identity.organization,)))
    if kind in (None, "session"):
        after: SessionRow | None = None
        while page := await list_sessions(engine, access, after=after, limit=READ_EVENTS):
            found += [LedgerId(access.tenant, "session", scope_of(row).stream.key) for row in page]
            after = page[-1]
    return [each for each in found if kind in (None, each.kind)]


# Suspended frames and bodies


async def list_suspended(
    engine: holdfast.AsyncEngine,
    access: Access,
    *,
    actor: str | None = None,
    session: str | None = None,
    after: SuspendedFrame | None = None,
    limit: int = 100,
) -> list[SuspendedFrame]:
    """List the suspended frames of the caller's sessions, as engine.suspended() does."""
    check_whole("limit", limit, 1, READ_EVENTS)
    if not access.allows_actor(actor):
        return []
    actor = access.actor if access.actor is not None else actor
    shown: list[SuspendedFrame] = []
    while len(shown) < limit:
        page = await engine.suspended(actor=actor, session=session, after=after, limit=limit)
        for frame in page:
            if access.identity is None or await allows_scope(engine, access, frame.scope):
                shown.append(frame)
        if len(page) < limit:
            break
        after = page[-1]
    return shown[:limit]


async def resume_frame(
    engine: holdfast.AsyncEngine, access: Access, token: str, *, cause: str | None = None
) -> holdfast.AsyncFrame:
    """Resume the frame of a token, if it is in a session of the caller. Any other token is not one of the tenant."""
    access.check("write")
    if access.actor is not None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        row = await engine._drive(find_token_row(access.tenant, digest))
        if row is None:
            raise TokenInvalid(tenant=access.tenant)
        scope = scope_of(row)
        try:
            await open_session(engine, access, scope.session, actor=scope.actor, thread=scope.thread)
        except SessionNotFound:
            raise TokenInvalid(tenant=access.tenant) from None
    return await engine.resume(token, cause=cause)


async def check_blob(engine: holdfast.AsyncEngine, access: Access, ref: BlobRef) -> None:
    """Refuse a body that no session of the caller refers to. It does not exist for them."""
    if access.actor is None:
        return
    where: dict[str, str | int] = {"tenant": access.tenant, "digest": ref.digest, "actor": access.actor}
    after: BlobRow | None = None
    while rows := await engine._drive(effects.rows(BlobRow, where, after, READ_EVENTS)):
        for scope in dict.fromkeys(map(scope_of, rows)):
            if await allows_scope(engine, access, scope):
                return
        after = rows[-1]
    raise BlobNotFound(tenant=access.tenant, digest=ref.digest)
