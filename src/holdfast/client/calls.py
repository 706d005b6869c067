"""Calls of the public surface as requests, and answers as what the method returns.

Laws: the table of operations and the signatures of the methods decide; nothing is listed here again. Only arguments that
the caller passed are sent. A value that cannot be sent as it is, is refused with the error that the embedded engine raises
for it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import secrets
from collections.abc import Mapping
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints
from urllib.parse import quote

import msgspec

import holdfast
from holdfast.api import requests
from holdfast.api.operations import FRAME_PATH, LEDGER_PATH, OPERATIONS, SESSION_LEDGER_PATH, SESSION_PATH, ApiOperation
from holdfast.api.signatures import IDEMPOTENCY_HEADER, read_signature
from holdfast.api.wire import SessionAddress, decode_answer, encode_argument, write_turn
from holdfast.client.exchanges import OCTETS, RemoteFlow, RemoteRequest, RemoteResponse, Upload, ask, is_absent
from holdfast.conversion import to_json
from holdfast.errors import (
    HoldfastError,
    InvalidArgument,
    InvalidInput,
    ScopeMismatch,
    ServerFailed,
    TokenInvalid,
    describe_value,
)
from holdfast.flows.context import EngineContext, LedgerContext, SessionContext
from holdfast.model.frames.frames import FrameRecord, FrameState, SuspensionToken
from holdfast.model.names import DEFAULT_ACTOR, LedgerId, Scope, check_options
from holdfast.model.sessions.layers import Identity
from holdfast.render.bedrock import restore_bytes

RemoteContext: TypeAlias = EngineContext | SessionContext | LedgerContext
_REPEATABLE = frozenset({"Engine.session", "EntriesFacet.append"})
"""Writes without an idempotency key that do the same when they are sent twice."""
_INT_BITS = 63


class RemoteLedgerContext(LedgerContext, frozen=True):
    """A ledger, as an identity that the program names sees it."""

    identity: Identity | None = None


class RemoteEngineContext(EngineContext, frozen=True):
    """Who acts through a server. Its ports are never asked."""

    actor: str | None = None
    """The namespace of sessions of the key; None if it has all of the tenant."""


class AnswerPage(msgspec.Struct):
    """A list in an answer."""

    items: msgspec.Raw


@dataclasses.dataclass(frozen=True, eq=False)
class RemoteMethod:
    """A method of the public surface, and the operations that reach it, by the beginnings of their paths."""

    owner: type[Any]
    name: str
    python: inspect.Signature
    operations: Mapping[str, ApiOperation]

    def choose(self, context: RemoteContext) -> ApiOperation:
        """The operation that reaches the method of an object with this context."""
        return self.operations[prefix_of(context)]

    @property
    def full_name(self) -> str:
        return f"{self.owner.__name__}.{self.name}"


@functools.cache
def list_methods(owner: type[Any]) -> Mapping[str, RemoteMethod]:
    """The methods of a class that are requests."""
    found: dict[str, dict[str, ApiOperation]] = {}
    for operation in OPERATIONS:
        if operation.owner is owner:
            found.setdefault(operation.method, {})[_prefix_in(operation)] = operation
    return {
        name: RemoteMethod(owner, name, inspect.signature(getattr(owner, name)), operations)
        for name, operations in found.items()
    }


def _prefix_in(operation: ApiOperation) -> str:
    if operation.owner.__name__ == "Engine":
        return ""
    prefixes = (FRAME_PATH, SESSION_LEDGER_PATH, SESSION_PATH, LEDGER_PATH)  # the longer ones first
    return next((each for each in prefixes if operation.path.startswith(each)), "")


def prefix_of(context: RemoteContext) -> str:
    if isinstance(context, EngineContext):
        return ""
    if isinstance(context, SessionContext):
        return SESSION_PATH if context.frame is None else FRAME_PATH
    return LEDGER_PATH if context.session is None else SESSION_LEDGER_PATH


# Arguments


def bind_arguments(
    method: RemoteMethod, holder: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments that the caller passed, by name. Raises TypeError as Python does."""
    arguments = dict(method.python.bind(holder, *args, **kwargs).arguments)
    names = list(method.python.parameters)
    del arguments[names[0]]
    if method.python.parameters[names[-1]].kind is inspect.Parameter.VAR_KEYWORD:
        options = arguments.pop(names[-1], {})
        check_options(method.name, _options_type(method), options)
        arguments |= options
    return arguments


@functools.cache
def _options_type(method: RemoteMethod) -> type:
    hints = get_type_hints(getattr(method.owner, method.name))
    (options,) = get_args(hints[list(method.python.parameters)[-1]])
    kind: type = options
    return kind


def place_of(context: RemoteContext) -> dict[str, str | None]:
    """The names in the path of what an object works on, and in the query that belongs to it."""
    if isinstance(context, EngineContext):
        return {}
    if isinstance(context, SessionContext):
        return {**_scope_place(context.scope), **({} if context.frame is None else {"frame": context.frame})}
    if context.session is not None:
        return {**_scope_place(context.session), **_ledger_names(context.ledger)}
    if context.ledger.kind != "session":
        return dict(_ledger_names(context.ledger))
    actor, session, *thread = context.ledger.names
    place = _scope_place(Scope(context.ledger.tenant, actor, session, thread[0] if thread else None))
    del place["session"]
    return {**place, **_ledger_names(context.ledger)}


def _scope_place(scope: Scope) -> dict[str, str | None]:
    return {
        "session": scope.session,
        "actor": None if scope.actor == DEFAULT_ACTOR else scope.actor,
        "thread": scope.thread,
    }


def scope_query(scope: Scope) -> tuple[tuple[str, str], ...]:
    """The actor and the thread of a session, as a query."""
    place = _scope_place(scope)
    return tuple((name, value) for name in ("actor", "thread") if (value := place[name]) is not None)


def ledger_place(ledger: LedgerId) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The path of a ledger, and its query."""
    path = LEDGER_PATH
    for name, value in _ledger_names(ledger).items():
        path = path.replace("{" + name + "}", requests.quote_name(value))
    if ledger.kind != "session":
        return path, ()
    actor, session, *thread = ledger.names
    return path, scope_query(Scope(ledger.tenant, actor, session, thread[0] if thread else None))


def _ledger_names(ledger: LedgerId) -> dict[str, str]:
    return {"kind": ledger.kind, "ledger": ledger.names[1 if ledger.kind == "session" else 0]}


def build_request(method: RemoteMethod, context: RemoteContext, arguments: Mapping[str, Any]) -> RemoteRequest:
    """The request of a call. Raises InvalidInput for an argument that cannot be sent as it is."""
    operation = method.choose(context)
    built = requests.build_request(operation, place_of(context), arguments)
    for name, value in arguments.items():
        check_sendable(name, encode_argument(name, value))
    return finish_request(method, context, built, None if built.body is None else msgspec.json.encode(built.body))


def build_upload(
    method: RemoteMethod, context: RemoteContext, arguments: Mapping[str, Any], upload: Upload
) -> RemoteRequest:
    """The request of a call whose value is a body of bytes: the other arguments are in the query."""
    built = requests.build_request(method.choose(context), place_of(context), arguments, is_streamed=True)
    return finish_request(method, context, built, upload)


def finish_request(
    method: RemoteMethod, context: RemoteContext, built: requests.Request, body: bytes | Upload | None
) -> RemoteRequest:
    """A request with its idempotency key, its turn and its identity."""
    operation = method.choose(context)
    headers = {**built.headers, **context_headers(context)}
    is_keyed = any(
        each.place == "header" and each.header == IDEMPOTENCY_HEADER for each in read_signature(operation).parameters
    )
    if is_keyed:
        headers.setdefault(IDEMPOTENCY_HEADER, make_key())
    return RemoteRequest(
        built.verb,
        built.path,
        tuple(built.query),
        tuple(headers.items()),
        body,
        OCTETS if isinstance(body, Upload) else "application/json",
        is_safe=built.verb == "GET" or operation.need == "read" or is_keyed or method.full_name in _REPEATABLE,
    )


def make_key() -> str:
    """An idempotency key for one call."""
    return f"call-{secrets.token_hex(16)}"


def context_headers(context: RemoteContext) -> dict[str, str]:
    """The turn under which a request is made, and the identity that uses a ledger."""
    engine = context if isinstance(context, EngineContext) else context.engine
    headers: dict[str, str] = {}
    if engine.turn is not None:
        headers[requests.TURN_HEADER] = write_turn(engine.turn)
    if isinstance(context, RemoteLedgerContext) and context.identity is not None:
        document = msgspec.json.encode(encode_argument("identity", context.identity)).decode()
        headers[requests.IDENTITY_HEADER] = quote(document, safe=' "{}[]:,')
    return headers


def check_sendable(name: str, value: Any) -> None:
    """Refuse what JSON has no form for: msgspec would write null for a number that is not finite."""
    kind = type(value)
    if kind is float and not math.isfinite(value):
        raise InvalidArgument(argument=name, reason=f"{describe_value(value)} is no number of JSON")
    if kind is int and value.bit_length() > _INT_BITS:
        raise InvalidArgument(argument=name, reason=f"{describe_value(value)} has more than 64 bits")
    if kind is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(argument=name, reason="it has a lone surrogate") from None
    for each in value if kind is list else [*value, *value.values()] if kind is dict else ():
        check_sendable(name, each)


def is_read_otherwise(method: RemoteMethod, context: RemoteContext, arguments: Mapping[str, Any]) -> bool:
    """Whether the server would read another value than the one passed: a text for a number, None for a default."""
    operation = method.choose(context)
    for parameter in read_signature(operation).parameters:
        if parameter.name not in arguments:
            continue
        value = arguments[parameter.name]
        if parameter.name in ("frame", "parent") and not isinstance(value, str | FrameState | None):
            return True
        if parameter.place == "path" and not _is_path_name(encode_argument(parameter.name, value)):
            return True
        if _has_odd_keys(value) or (type(value) is dict and requests.takes_struct(parameter) == "only"):
            return True
        if parameter.place == "query":
            if value is None:
                if parameter.default is not None:
                    return True
                continue
            written = dict(requests.write_query(parameter, value))
            if not isinstance(value, msgspec.Struct | list | tuple) and (
                type(requests.read_query(parameter, written)) is not type(value)
            ):
                return True
    return False


def _is_path_name(value: object) -> bool:
    return type(value) is str and value.isprintable() and bool(value)


def _has_odd_keys(value: object) -> bool:
    """Whether an object in a value has a key that is no text: it would become one."""
    if type(value) is dict:
        return any(type(key) is not str or _has_odd_keys(each) for key, each in value.items())
    return type(value) in (list, tuple) and any(map(_has_odd_keys, value))  # type: ignore[call-overload]


# Answers


def call_method(method: RemoteMethod, context: RemoteContext, arguments: Mapping[str, Any]) -> RemoteFlow[Any]:
    """Send a call, and return its answer. A session or a frame is returned as its context."""
    try:
        if is_read_otherwise(method, context, arguments):
            probe_arguments(method, context, arguments)
        request = build_request(method, context, _name_frames(arguments))
    except (InvalidInput, UnicodeEncodeError, RecursionError, OverflowError):
        probe_arguments(method, context, arguments)
        request = build_request(method, context, _convert_values(_name_frames(arguments)))
    answer = read_answer(method, context, (yield from ask(request)))
    if method.name == "render" and arguments.get("to") == "bedrock":
        return restore_bytes(answer)  # boto3 takes bytes, and JSON has none
    return answer


def _convert_values(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values that the engine takes, as JSON: sets, dates and others."""
    converted = dict(arguments)
    for name, value in arguments.items():
        try:
            check_sendable(name, encode_argument(name, value))
        except (InvalidInput, UnicodeEncodeError, RecursionError, OverflowError):
            converted[name] = to_json(name, value)
    return converted


def _name_frames(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Frames that an argument names, as their ids."""
    names = {
        name: arguments[name].id
        for name in ("frame", "parent")
        if isinstance(arguments.get(name), FrameRecord)
        or isinstance(getattr(type(arguments.get(name)), "frame_id", None), property)
    }
    return {**arguments, **names} if names else arguments


def read_answer(method: RemoteMethod, context: RemoteContext, response: RemoteResponse) -> Any:
    annotation = read_signature(method.choose(context)).answer
    if annotation is None or is_absent(response):
        return None
    try:
        is_list = get_origin(annotation) in (list, tuple)
        body = bytes(msgspec.json.decode(response.body, type=AnswerPage).items) if is_list else response.body
        answer = decode_answer(body, annotation)
    except (msgspec.MsgspecError, UnicodeError) as error:
        reason = f"its answer cannot be read: {error}. It may be of another version of Holdfast"
        raise ServerFailed(server="of Holdfast", reason=reason) from error
    if isinstance(answer, SessionAddress):
        engine = context if isinstance(context, EngineContext) else context.engine
        return SessionContext(engine, answer.scope, answer.frame)
    return SuspensionToken(answer) if annotation is SuspensionToken else answer


def probe_arguments(method: RemoteMethod, context: RemoteContext, arguments: Mapping[str, Any]) -> None:
    """Raise what the embedded engine raises for these arguments: an empty one in memory is asked."""
    engine = context if isinstance(context, EngineContext) else context.engine
    positional, named = _split_arguments(method, arguments)
    with holdfast.open("memory:", tenant=engine.tenant, principal=engine.principal) as probe:
        holder = _open_holder(probe, method.owner, context)
        try:
            getattr(method.owner, method.name)(holder, *positional, **named)
        except (InvalidInput, TokenInvalid, ScopeMismatch):
            raise
        except HoldfastError:
            pass  # it has not what the server has


def _open_holder(probe: holdfast.Engine, owner: type[Any], context: RemoteContext) -> Any:
    """The object with the method, on an empty store."""
    if isinstance(context, EngineContext):
        facets = (probe, probe.memory, probe.admin)
        return next(each for each in facets if type(each) is owner)
    scope = context.scope if isinstance(context, SessionContext) else context.session
    if scope is not None:
        probe.create_session(scope.session, actor=scope.actor, thread=scope.thread)
    return owner(probe._drive, msgspec.structs.replace(context, engine=probe._context))


def _split_arguments(method: RemoteMethod, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional: list[Any] = []
    named = dict(arguments)
    for parameter in list(method.python.parameters.values())[1:]:
        if parameter.name in named and parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(named.pop(parameter.name))
        elif parameter.name in named and parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += named.pop(parameter.name)
    return positional, named
