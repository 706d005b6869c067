"""The operations of an engine and of its memory, as the caller may use them.

Laws: with the key of a user, sessions and ledgers are made for that user and in their namespace, and only their memory is
read; a program passes who it acts for. What concerns all of a tenant is for programs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import holdfast
from holdfast.access import access as rules
from holdfast.api.operations import ApiOperation
from holdfast.core.sessions.decide import session_not_found
from holdfast.errors import AccessRefused, InvalidArgument, SessionExists, SessionNotFound, describe_value
from holdfast.model.names import Scope, check_flag
from holdfast.runtime.memory import MemoryFacet
from holdfast.server.native.calls import Call

Arguments = dict[str, Any]
_TENANT_WIDE = frozenset({"embed", "deliver", "backlog", "requeue"})
"""The methods of a memory that work on all of a tenant."""


async def list_sessions(call: Call, arguments: Arguments) -> Any:
    return await rules.list_sessions(call.engine, call.access, **arguments)


async def create_session(call: Call, arguments: Arguments) -> holdfast.AsyncSession:
    check_ledgers(arguments)
    return await rules.create_session(call.engine, call.access, arguments.pop("session"), **arguments)


async def open_session(call: Call, arguments: Arguments) -> holdfast.AsyncSession:
    """Open a session, or create it with `create`. The options apply only if it is created now."""
    name, create = arguments.pop("session"), check_flag("create", arguments.pop("create", False))
    check_ledgers(arguments)
    place = {each: arguments.get(each) for each in ("actor", "thread")}
    try:
        return await rules.open_session(call.engine, call.access, name, **place)
    except SessionNotFound:
        if not create:
            raise
    try:
        return await rules.create_session(call.engine, call.access, name, **arguments)
    except SessionExists:  # another request was first
        return await rules.open_session(call.engine, call.access, name, **place)


def check_ledgers(arguments: Arguments) -> None:
    """Refuse ledgers that are no list: the access looks at each of them."""
    ledgers = arguments.get("ledgers", [])
    if not isinstance(ledgers, list):
        raise InvalidArgument(argument="ledgers", reason=f"{describe_value(ledgers)} is not a list of ledgers")


async def list_ledgers(call: Call, arguments: Arguments) -> Any:
    return await rules.list_ledgers(call.engine, call.access, **arguments)


async def resume(call: Call, arguments: Arguments) -> holdfast.AsyncFrame:
    token = arguments.pop("token")
    if type(token) is not str:
        raise InvalidArgument(argument="token", reason="it is not a text")
    return await rules.resume_frame(call.engine, call.access, token, **arguments)


async def list_suspended(call: Call, arguments: Arguments) -> Any:
    return await rules.list_suspended(call.engine, call.access, **arguments)


ENGINE_CALLS: dict[str, Callable[[Call, Arguments], Awaitable[Any]]] = {
    "sessions": list_sessions,
    "create_session": create_session,
    "session": open_session,
    "ledgers": list_ledgers,
    "resume": resume,
    "suspended": list_suspended,
}


def complete_user(call: Call, operation: ApiOperation, arguments: Arguments) -> None:
    """With the key of a user, a request about a memory need not say whose it is."""
    identity = call.access.identity
    if identity is None or operation.method in _TENANT_WIDE or arguments.get("session") is not None:
        return
    if arguments.get("user") is None:
        arguments["user"] = identity.user_id


async def complete_memory(call: Call, operation: ApiOperation, arguments: Arguments) -> None:
    """Check whose memory a request is about; with the key of a user, it is their own."""
    access = call.access
    if operation.owner is not MemoryFacet:
        return
    if operation.method in _TENANT_WIDE or (access.identity is None and arguments.get("user") is not None):
        access.check_whole_tenant()  # the memory of a user quotes their sessions in every namespace
    if operation.method in _TENANT_WIDE:
        return
    if "identity" in arguments or (access.identity is not None and operation.method in ("recall", "bootstrap")):
        arguments["identity"] = access.check_identity_claim(arguments.get("identity"))
    user, scope = arguments.get("user"), arguments.get("session")
    if type(user) is str and not access.allows_memory(user):
        raise AccessRefused(reason="the key is of a user, and reads the memory of that user only")
    if isinstance(scope, Scope):
        if scope.tenant != access.tenant:
            raise session_not_found(scope)
        if access.actor is not None:
            await rules.open_session(call.engine, access, scope.session, actor=scope.actor, thread=scope.thread)
