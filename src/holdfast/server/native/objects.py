"""The objects that a request works on, opened as the caller may use them.

Laws: every name in a request is checked against the access of the caller before the engine sees it, also a name inside an
argument: a session to compare with, the ledger of a fact, a body of a message. What the caller may not use is not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

import holdfast
from holdfast.access import access as rules
from holdfast.access.access import Access
from holdfast.api.operations import SESSION_LEDGER_PATH, ApiOperation
from holdfast.api.requests import IDENTITY_HEADER, TURN_HEADER, decode_json, read_turn, unquote_name
from holdfast.api.wire import SessionAddress
from holdfast.core.sessions.decide import session_not_found
from holdfast.errors import InvalidArgument, LocalOnly, describe_value
from holdfast.flows.frames.frames import TOP, check_frame_id
from holdfast.model.content import BlobRef
from holdfast.model.names import LedgerId, LedgerKind, Scope, check_choice, check_name
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message
from holdfast.model.sessions.turns import TurnFence
from holdfast.server.native.calls import Call

C = TypeVar("C", bound=holdfast.AsyncSession | holdfast.AsyncFrame)
LEDGER_KINDS: tuple[LedgerKind, ...] = ("user", "project", "organization", "session")
_BODY_FIELDS = frozenset(BlobRef.__struct_fields__)


async def open_owner(call: Call, operation: ApiOperation) -> Any:
    """Open the object that has the method of an operation."""
    owner: Any
    if operation.path.startswith(SESSION_LEDGER_PATH):
        owner = await open_session_ledger(call)
    elif "frame" in call.names and operation.path.startswith("/sessions/{session}/frames/{frame}"):
        owner = await open_frame(call)
    elif operation.path.startswith("/sessions/{session}"):
        owner = await open_session(call)
    elif operation.path.startswith("/ledgers/{kind}"):
        owner = await open_ledger(call)
    else:
        owner = call.engine
    return getattr(owner, operation.facet) if operation.facet else owner


async def open_conversation(call: Call) -> holdfast.AsyncSession | holdfast.AsyncFrame:
    """Open the frame that a path names, or else its session."""
    return await (open_frame(call) if "frame" in call.names else open_session(call))


async def open_session(call: Call) -> holdfast.AsyncSession:
    """Open the session that a path names, under the turn of the request, if it has one."""
    opened = await rules.open_session(
        call.engine,
        call.access,
        call.names["session"],
        actor=call.query.get("actor"),
        thread=call.query.get("thread"),
    )
    header = call.header(TURN_HEADER)
    return opened if header is None else bind_turn(opened, read_turn(header, opened.scope))


def bind_turn(opened: C, turn: TurnFence) -> C:
    """The session or frame, bound to a turn: all that is written through it is refused once the turn is over."""
    engine = msgspec.structs.replace(opened._context.engine, turn=turn)
    return type(opened)(opened._drive, msgspec.structs.replace(opened._context, engine=engine))


async def open_frame(call: Call) -> holdfast.AsyncFrame:
    """Open the frame that a path names."""
    session = await open_session(call)
    name = call.names["frame"]
    if name == TOP:
        return await session.frames.get(name)
    context = msgspec.structs.replace(session._context, frame=check_frame_id(name))
    return holdfast.AsyncFrame(session._drive, context)  # what is done with it finds out whether it is there


async def open_session_ledger(call: Call) -> holdfast.AsyncLedger:
    """Open a ledger that a session reads, with the identity of the session."""
    session = await open_session(call)
    kind, name = check_kind(call), call.names["ledger"]
    if kind == "session":
        if name != session.scope.session:
            reason = f"{describe_value(name)} is another session; the own ledger has the name of the session"
            raise InvalidArgument(argument="ledger", reason=reason)
        return await session.ledger()
    options: dict[str, Any] = {kind: name}
    return await session.ledger(**options)


def check_kind(call: Call) -> LedgerKind:
    return check_choice("kind", call.names["kind"], LEDGER_KINDS)


async def open_ledger(call: Call) -> holdfast.AsyncLedger:
    """Open a ledger by its kind and name, as the key or the identity of the request sees it."""
    ledger = name_ledger(call)
    opened = await rules.ledger_for(call.engine, call.access, ledger)
    identity = read_identity(call)
    return opened if identity is None else call.engine.ledger(ledger, identity=identity)


def name_ledger(call: Call) -> LedgerId:
    """The ledger that a path names. That of a session has the name of the session."""
    kind, name = check_kind(call), check_name("name of a ledger", call.names["ledger"])
    names: tuple[str, ...] = (name,)
    if kind == "session":
        actor = call.query.get("actor")
        scope = Scope.check(call.access.tenant, call.access.choose_actor(actor), name, call.query.get("thread"))
        if not call.access.allows_actor(actor):
            raise rules.ledger_not_found(LedgerId(scope.tenant, "session", (str(actor), name)))
        names = scope.stream.key
    return LedgerId(call.access.tenant, kind, names)


def read_identity(call: Call) -> Identity | None:
    """The identity in the header of a request, for a program that acts for a user."""
    text = call.header(IDENTITY_HEADER)
    if text is None:
        return None
    try:
        identity = msgspec.convert(decode_json(unquote_name(text).encode(), IDENTITY_HEADER), Identity)
    except msgspec.ValidationError as error:
        raise InvalidArgument(argument=IDENTITY_HEADER, reason=str(error)) from None
    return call.access.check_identity_claim(identity)


async def open_place(call: Call, name: str, place: object) -> holdfast.AsyncSession:
    """Open the session that an argument names."""
    if not isinstance(place, SessionAddress):
        raise InvalidArgument(argument=name, reason=f"{describe_value(place)} is not a session: send its scope")
    scope = place.scope
    if scope.tenant != call.access.tenant:
        raise session_not_found(scope)
    opened = await rules.open_session(call.engine, call.access, scope.session, actor=scope.actor, thread=scope.thread)
    return opened if place.turn is None else bind_turn(opened, read_turn(place.turn, opened.scope))


async def resolve_arguments(call: Call, owner: Any, arguments: Mapping[str, object]) -> dict[str, object]:
    """Replace what arguments name by what they mean, and check every name in them."""
    resolved = dict(arguments)
    for name, value in arguments.items():
        if isinstance(value, SessionAddress):
            resolved[name] = await open_place(call, name, value)
        else:
            await check_names(call.engine, call.access, value)
    if resolved.get("ephemeral") is True:
        raise LocalOnly(what="an ephemeral fork", reason="it lives in the memory of the program that made it")
    if resolved.get("audit") is True:
        call.access.check_whole_tenant()  # the manifest would name what a user may not know of
    if isinstance(owner, holdfast.AsyncSession) and type(resolved.get("message")) is int:
        resolved["message"] = await find_recorded(owner, resolved["message"])  # type: ignore[arg-type]
    return resolved


async def find_recorded(session: holdfast.AsyncSession, seq: int) -> Message:
    """The recorded message with a seq."""
    for message in await session.messages(before=seq + 1, limit=1):
        if message.seq == seq:
            return message
    raise InvalidArgument(argument="message", reason=f"the session has no message with the seq {seq}")


async def check_names(engine: holdfast.AsyncEngine, access: Access, value: object) -> None:
    """Refuse an argument with a session, a ledger or a body that the caller may not use."""
    for named in _find_names(value, is_program=access.actor is None):
        match named:
            case Scope():
                if named.tenant != access.tenant:
                    raise session_not_found(named)
                if access.actor is not None:
                    await rules.open_session(engine, access, named.session, actor=named.actor, thread=named.thread)
            case LedgerId():
                await rules.check_ledger_use(engine, access, named)
            case BlobRef():
                await rules.check_blob(engine, access, named)


def names_body(value: object) -> bool:
    """Whether a value refers to a body in the blob store."""
    return any(isinstance(each, BlobRef) for each in _find_names(value, is_program=False))


def _find_names(value: object, *, is_program: bool) -> Iterator[Scope | LedgerId | BlobRef]:
    """Find what a value names, also inside of it. A program may name any body of its tenant."""
    match value:
        case Scope() | LedgerId():
            yield value
        case BlobRef():
            if not is_program:
                yield value
        case msgspec.Struct():
            for field in value.__struct_fields__:
                yield from _find_names(getattr(value, field), is_program=is_program)
        case list() | tuple():
            for each in value:
                yield from _find_names(each, is_program=is_program)
        case dict():
            if not is_program and _BODY_FIELDS >= value.keys() >= {"digest", "size"}:
                yield BlobRef(str(value["digest"]), 0)
            for each in value.values():
                yield from _find_names(each, is_program=is_program)
