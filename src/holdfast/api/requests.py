"""Requests: the arguments of an operation as a path, a query, headers and a body, and back.

Laws: both sides use this module, so what one writes the other reads. In a query, numbers and texts are written as they
are, lists as JSON, and structs as base64url of JSON. Where a parameter takes a text or a struct, the struct has the name
of the parameter and `.json`. Values of headers, and names in a path, are percent-encoded UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin
from urllib.parse import quote, unquote_to_bytes

import msgspec

from holdfast import codec
from holdfast.api.operations import FRAME_PATH, LEDGER_PATH, SESSION_PATH, ApiOperation
from holdfast.api.signatures import ApiParameter, is_union, read_signature
from holdfast.api.wire import decode_argument, encode_argument, wire_type
from holdfast.errors import InvalidArgument, InvalidJson, InvalidText, describe_value
from holdfast.model import limits
from holdfast.model.names import Scope
from holdfast.model.sessions.turns import TurnFence
from holdfast.render.pack import Pack

API = "/api"
"""The path of the native API on a server."""
TURN_HEADER = "Holdfast-Turn"
IDENTITY_HEADER = "Holdfast-Identity"
CURSOR_HEADER = "Holdfast-Cursor"
"""Of the answer of a feed: where it begins. Who continues there misses nothing, also before the first event."""
STREAM_TYPE = "application/octet-stream"
STRUCT_SUFFIX = ".json"
PAGE = "page"
"""The query parameter of lists that takes the `next` of the page before."""
RENDER_TO = "to"
"""The query parameter of packs: the provider that the pack is rendered for, or text."""
JSON_DEPTH = 2 * limits.JSON_DEPTH
"""Nested lists and objects of a request: a value of the deepest kind, and what it is in."""
STREAMED = {"result": "value", "add": "content", "replace": "content"}
"""The methods that take a body of bytes, and the parameter that it is. The others are then in the query."""
_SAFE = "-._~!$'()*+,:@"
_HEADER_SAFE = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")
_BRACES = re.compile(r"{(\w+)}")
_WHOLE = re.compile(r"-?[0-9]{1,30}")
_TURN = re.compile(r"([0-9]{1,19});\s*lease=([0-9]{1,19})(?:;\s*frame=(\S{1,1000}))?")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_VERSION = re.compile(r'"?([0-9]{1,19})"?')


class Request(NamedTuple):
    """A request below /api."""

    verb: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: dict[str, Any] | None
    """The JSON object to send; None for a request without a body, or with one of bytes."""


def build_request(
    operation: ApiOperation,
    place: Mapping[str, str | None],
    arguments: Mapping[str, object],
    *,
    is_streamed: bool = False,
) -> Request:
    """Build the request of an operation.

    `place` has the names of its path that are no parameters of the method (session, frame, kind, ledger), and the actor
    and the thread of a session. `arguments` has what the caller passed, by name. With `is_streamed`, the bytes that
    STREAMED names are sent as the body, and are not among the arguments."""
    values: dict[str, str] = {name: value for name, value in place.items() if value is not None}
    query: list[tuple[str, str]] = []
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    parameters = {each.name: each for each in read_signature(operation).parameters}
    for name, value in arguments.items():
        parameter = parameters[name]
        if parameter.place == "path":
            values[name] = str(encode_argument(name, value))
        elif parameter.place == "header":
            headers.update(write_header(parameter, value))
        elif parameter.place == "query" or is_streamed:
            query += write_query(parameter, value)
        else:
            body[name] = encode_argument(name, value)
    in_path = _BRACES.findall(operation.path)
    path = _BRACES.sub(lambda found: quote(values[found[1]], safe=_SAFE), operation.path)
    names = {name for name, _ in query} | body.keys()
    query += [(name, value) for name, value in values.items() if name not in in_path and name not in names]
    has_body = operation.verb not in ("GET", "DELETE") and not is_streamed
    return Request(operation.verb, path, query, headers, body if has_body else None)


def takes_place(path: str) -> bool:
    """Whether a path has a session, or the ledger of one: the actor and the thread of it are in the query."""
    return path.startswith((SESSION_PATH, FRAME_PATH, LEDGER_PATH))


# Texts in a path or a header


def quote_name(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe=_SAFE)


def unquote_name(segment: str | bytes) -> str:
    """The name that a segment of a path, or the value of a header, has."""
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise InvalidText(where="the request", reason=f"a name in it is not UTF-8: {error.reason}") from None


def write_header(parameter: ApiParameter, value: object) -> dict[str, str]:
    """The header of an idempotency key, an expected version or a cause."""
    if value is None:
        return {}
    if parameter.name == "expect":
        if type(value) is not int:
            raise InvalidArgument(argument="expect", reason=f"{describe_value(value)} is not a version")
        return {parameter.header: f'"{value}"'}
    if type(value) is not str:
        raise InvalidArgument(argument=parameter.name, reason=f"{describe_value(value)} is not a text")
    try:
        return {parameter.header: quote(value, safe=_HEADER_SAFE)}
    except UnicodeEncodeError:
        raise InvalidText(where=parameter.name, reason="it has a lone surrogate") from None


def read_header(parameter: ApiParameter, text: str) -> object:
    """The value of the header of a parameter."""
    if parameter.name != "expect":
        return unquote_name(text)
    found = _VERSION.fullmatch(text)
    if found is None:
        reason = f'{describe_value(text)} is not a version: send it as If-Match: "12"'
        raise InvalidArgument(argument="expect", reason=reason)
    return int(found[1])


def read_turn(text: str, scope: Scope) -> TurnFence:
    """The turn of a header, on a session."""
    found = _TURN.fullmatch(text.strip())
    if found is None:
        reason = f"{describe_value(text)} is not a turn: send it as {TURN_HEADER}: 12; lease=60000000"
        raise InvalidArgument(argument=TURN_HEADER, reason=reason)
    number, lease_us, frame = found.groups()
    return TurnFence(scope, None if frame is None else unquote_name(frame), int(number), int(lease_us))


# Values in a query


class _QueryForm(NamedTuple):
    """How the values of a parameter are written in a query."""

    has_text: bool
    has_struct: bool
    has_list: bool
    scalars: frozenset[type]


@functools.cache
def _form_of(annotation: Any) -> _QueryForm:
    wanted = wire_type(annotation)
    members = _flatten(wanted)
    return _QueryForm(
        has_text=str in members or Any in members,
        has_struct=any(_is_struct(each) for each in members),
        has_list=any(get_origin(each) in (list, tuple, dict) for each in members),
        scalars=frozenset({bool, int, float} & members),
    )


def _flatten(wanted: Any) -> set[Any]:
    return set().union(*map(_flatten, get_args(wanted))) if is_union(wanted) else {wanted}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def takes_struct(parameter: ApiParameter) -> Literal["no", "only", "too"]:
    """Whether a parameter takes a struct: no, only a struct, or a text too."""
    form = _form_of(parameter.annotation)
    return "no" if not form.has_struct else "too" if form.has_text else "only"


def write_query(parameter: ApiParameter, value: object) -> list[tuple[str, str]]:
    """A value as parameters of a query: none for None."""
    if value is None:
        return []
    name = parameter.name
    encoded = encode_argument(name, value)
    if isinstance(encoded, dict) and takes_struct(parameter) != "no":
        suffix = STRUCT_SUFFIX if takes_struct(parameter) == "too" else ""
        return [(name + suffix, write_token(encoded))]
    if isinstance(encoded, str):
        return [(name, encoded)]
    return [(name, msgspec.json.encode(encoded).decode())]


def read_query(parameter: ApiParameter, query: Mapping[str, str]) -> object:
    """The value of a parameter in a query. Raises KeyError if it has none."""
    name, form = parameter.name, _form_of(parameter.annotation)
    if form.has_struct and form.has_text and name + STRUCT_SUFFIX in query:
        return decode_argument(name, read_token(name, query[name + STRUCT_SUFFIX]), parameter.annotation)
    text = query[name]
    if form.has_list and text[:1] in ("[", "{"):
        return decode_argument(name, decode_json(text.encode("utf-8", "surrogatepass"), name), parameter.annotation)
    if form.has_text:
        return text
    if form.has_struct:
        return decode_argument(name, read_token(name, text), parameter.annotation)
    return decode_argument(name, read_scalar(text, form.scalars), parameter.annotation)


def read_scalar(text: str, kinds: frozenset[type]) -> object:
    """A number, or true or false; any other text as it is: the engine says what is wrong with it."""
    if bool in kinds and text in ("true", "false"):
        return text == "true"
    if int in kinds and _WHOLE.fullmatch(text):
        return int(text)
    if float in kinds:
        try:
            return float(text)
        except ValueError:
            return text
    return text


def write_token(value: object) -> str:
    """JSON as one word of a query."""
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


def read_token(name: str, text: str) -> Any:
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        data = base64.b64decode(padded, altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raise InvalidArgument(argument=name, reason=f"{describe_value(text)} is not base64url of JSON") from None
    return decode_json(data, name)


# JSON


def decode_json(data: bytes, where: str) -> Any:
    """Decode JSON strictly: one value of each name, no lone surrogates, no NaN, not too deep."""
    try:
        value = codec.decode(data, Any)
        has_duplicate = _STRING.sub(b"", data).count(b":") != _count_names(value)
    except msgspec.MsgspecError as error:
        raise InvalidJson(where=where, reason=str(error)) from None
    except RecursionError:
        raise InvalidJson(where=where, reason="it is nested too deep") from None
    if has_duplicate:
        raise InvalidJson(where=where, reason="an object in it has the same name twice")
    return value


def _count_names(value: object, depth: int = 0) -> int:
    """Count the names of all objects in a value. Its text has more colons if a name was there twice."""
    if depth > JSON_DEPTH:
        raise RecursionError
    if type(value) is dict:
        return len(value) + sum(_count_names(each, depth + 1) for each in value.values())
    return sum(_count_names(each, depth + 1) for each in value) if type(value) is list else 0


# Arguments on the side of the server


def read_arguments(
    operation: ApiOperation,
    path: Mapping[str, str],
    query: Mapping[str, str],
    header: Callable[[str], str | None],
    body: Mapping[str, Any] | None,
) -> dict[str, object]:
    """Read the arguments that a request has, by name. `body` is its JSON object; None if it has none, or bytes.

    Raises InvalidArgument for a name that is no parameter, and for one that is missing."""
    arguments: dict[str, object] = {}
    for name in body or ():
        _check_field(operation, name)
    for parameter in read_signature(operation).parameters:
        name = parameter.name
        match parameter.place:
            case "path":
                scalars = _form_of(parameter.annotation).scalars
                arguments[name] = (
                    path[name] if str in _flatten(wire_type(parameter.annotation)) else read_scalar(path[name], scalars)
                )
            case "header":
                if (text := header(parameter.header)) is not None:
                    arguments[name] = read_header(parameter, text)
            case "body" if body is not None:
                if name in body:
                    arguments[name] = decode_argument(name, body[name], parameter.annotation)
            case _:
                if name in query or name + STRUCT_SUFFIX in query:
                    arguments[name] = read_query(parameter, query)
    return arguments


def _check_field(operation: ApiOperation, name: str) -> None:
    """Refuse a field that would be ignored: an idempotency key that is not read stores a message twice."""
    parameters = read_signature(operation).parameters
    for parameter in parameters:
        if parameter.name == name and parameter.place == "body":
            return
        if parameter.name == name and parameter.place == "header":
            raise InvalidArgument(argument=name, reason=f"send it as the header {parameter.header}, not in the body")
        if parameter.name == name:
            raise InvalidArgument(argument=name, reason=f"it is in the {parameter.place}, not in the body")
    fields = [parameter.name for parameter in parameters if parameter.place == "body"]
    known = f"its body has {', '.join(fields)}" if fields else "its body has no fields"
    raise InvalidArgument(argument=name, reason=f"{operation.name} has no such parameter; {known}")


def check_query(operation: ApiOperation, query: Mapping[str, str], has_body: bool) -> None:
    """Refuse a name in a query that means nothing: it may be misspelled."""
    known = {"actor", "thread"} if takes_place(operation.path) else set()
    known |= {RENDER_TO} if read_signature(operation).answer is Pack else set()
    for parameter in read_signature(operation).parameters:
        if parameter.place == "query" or (parameter.place == "body" and not has_body):
            known |= {parameter.name, parameter.name + STRUCT_SUFFIX, PAGE}
    for name in query:
        if name not in known:
            listed = ", ".join(sorted(known)) or "no parameters"
            raise InvalidArgument(
                argument=name, reason=f"{operation.name} has no such parameter; its query has {listed}"
            )


def check_complete(operation: ApiOperation, arguments: Mapping[str, object]) -> None:
    """Refuse a request without a parameter that has no default."""
    for parameter in read_signature(operation).parameters:
        if parameter.is_required and parameter.name not in arguments:
            raise InvalidArgument(argument=parameter.name, reason="it is missing")


def arrange_call(operation: ApiOperation, arguments: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
    """The arguments in the order and by the names that the method takes."""
    positional: list[object] = []
    named: dict[str, object] = {}
    for parameter in read_signature(operation).parameters:
        if parameter.name not in arguments:
            continue
        value: Any = arguments[parameter.name]
        if parameter.is_list:
            if not isinstance(value, list):
                raise InvalidArgument(argument=parameter.name, reason=f"{describe_value(value)} is not a list")
            positional += value
        elif parameter.is_positional:
            positional.append(value)
        else:
            named[parameter.name] = value
    return positional, named
