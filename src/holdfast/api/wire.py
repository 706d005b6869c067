"""Arguments and answers as JSON.

Laws: what the engine would refuse, it refuses here too: values are not made to fit. An argument that names something
stored, such as a message or a tool call, is sent as its id. Bytes inside JSON are `{"$bytes": base64}`.
"""

from __future__ import annotations

import base64
import binascii
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, get_args, get_origin
from urllib.parse import quote

import msgspec

from holdfast.api.packs import PackDocument, PackReceipt, describe_pack, read_receipt, receive_pack, write_receipt
from holdfast.api.signatures import is_union
from holdfast.errors import InvalidArgument, InvalidNumber, describe_value
from holdfast.flows.frames.frames import FrameReference
from holdfast.flows.situation.situations import CALL_KEYS
from holdfast.model import limits
from holdfast.model.content import Part, ToolCall
from holdfast.model.entries.entry import Entry, NewEntry
from holdfast.model.frames.frames import FrameState, Reservation, SuspensionToken
from holdfast.model.history.handles import Handle
from holdfast.model.history.plans import Classic, Faithful, Frugal, PolicyName
from holdfast.model.history.withdrawals import Withdrawal
from holdfast.model.names import Scope
from holdfast.model.packs.pack import PackRecord
from holdfast.model.sessions.messages import Message
from holdfast.model.sessions.turns import TurnFence
from holdfast.model.situation.situations import ActionCall
from holdfast.model.state import OpenCall
from holdfast.model.tools.tool import FunctionTool
from holdfast.render.pack import Pack
from holdfast.runtime.base import ContextHolder

BYTES = "$bytes"
VALUE = "$value"
"""Around an object that looks like bytes and is none."""
PARTS = "$parts"
"""Around the parts of a message, where any other value could be."""
_REFERENCES: dict[type, str] = {
    ToolCall: "id",
    OpenCall: "id",
    Message: "seq",
    Handle: "id",
    FrameState: "id",
    Reservation: "id",
    Withdrawal: "seq",
    PackRecord: "id",
}
"""Stored things that an argument names, and the field that names them."""
_POLICIES: dict[str, type[Any]] = {each.name: each for each in (Faithful, Frugal, Classic)}


class SessionAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A session, or a frame of it: the answer of operations that open one."""

    scope: Scope
    frame: str | None = None
    turn: str | None = None
    """In an argument: the turn that it is bound to, as in the header Holdfast-Turn."""


class PartList(NamedTuple):
    """The parts of a message as a value: an argument that could be any other value."""

    parts: tuple[Any, ...]


class PolicyDocument(msgspec.Struct, frozen=True):
    """A policy of compaction with figures of its own."""

    policy: PolicyName
    figures: dict[str, float | None] = {}


@functools.cache
def wire_type(annotation: Any) -> Any:
    """The type of an argument or an answer as JSON, for the schema and for decoding."""
    if annotation in (object, Any) or isinstance(annotation, str):
        return Any
    replaced = {Pack: PackReceipt, SuspensionToken: str, FrameReference: str}.get(annotation)
    if replaced is not None:
        return replaced
    if is_union(annotation):
        return _wire_union(get_args(annotation))
    origin, args = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, ContextHolder):
        return SessionAddress
    if origin in (list, tuple, set, frozenset, dict) and args:
        return origin[tuple(wire_type(each) if each is not Ellipsis else each for each in args)]
    if isinstance(origin, type) and issubclass(origin, Sequence) and args:
        return list[wire_type(args[0])]  # type: ignore[misc]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, Any]
    return annotation


def _wire_union(members: Sequence[Any]) -> Any:
    """A union without functions, with ids in place of what they name. One that no schema can tell apart is Any."""
    kept: list[Any] = []
    has_name = any(member in (str, int) for member in members)
    for member in members:
        if member is Message and int not in members:
            kept.append(int)  # its seq
        elif member in (Faithful, Frugal, Classic):
            kept.append(PolicyDocument)
        elif get_origin(member) is not Callable and not (has_name and member in _REFERENCES):
            kept.append(wire_type(member))
    union: Any = functools.reduce(operator.or_, dict.fromkeys(kept))
    try:
        msgspec.json.schema(union)
    except TypeError:
        return Any
    return union


# Arguments


def encode_argument(name: str, value: object) -> Any:
    """A value of a program as JSON. Raises InvalidArgument for one that has no JSON form. Stored things that are the
    argument itself are sent by their ids, and inside of another value with all that they have."""
    kind = type(value)
    return getattr(value, _REFERENCES[kind]) if kind in _REFERENCES else _encode_value(name, value)


def _encode_value(name: str, value: object) -> Any:
    """A value, or one inside of another, with all that it has."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    document = _to_document(value)
    if document is not None:
        return msgspec.to_builtins(document)
    if isinstance(value, ActionCall):  # as the dict that a program may pass in its place: JSON cannot tell them apart
        return _encode_object(name, {each: getattr(value, each) for each in CALL_KEYS})
    if isinstance(value, msgspec.Struct):
        return _encode_struct(name, value.declaration if isinstance(value, FunctionTool) else value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.isoformat()
    if kind is dict:
        return _encode_object(name, value)  # type: ignore[arg-type]
    if kind in (list, tuple):
        return [_encode_value(name, each) for each in value]  # type: ignore[attr-defined]
    raise InvalidArgument(argument=name, reason=f"{describe_value(value)} cannot be sent to a server")


def _to_document(value: object) -> object:
    """What is sent in place of an object that has no JSON form of its own; None for any other value."""
    if isinstance(value, Faithful | Frugal | Classic):
        return {"policy": value.name, "figures": msgspec.to_builtins(value)}
    if isinstance(value, Pack):
        return write_receipt(value)
    if isinstance(value, ContextHolder):
        turn = value._context.engine.turn
        return SessionAddress(value.scope, value._context.frame, None if turn is None else write_turn(turn))
    if isinstance(value, PartList):
        return {PARTS: [_encode_value("content", each) for each in value.parts]}
    return None


def write_turn(turn: TurnFence) -> str:
    """A turn as the value of the header Holdfast-Turn."""
    frame = "" if turn.frame is None else f"; frame={quote(turn.frame, safe='')}"
    return f"{turn.number}; lease={turn.lease_us}{frame}"


def _encode_object(name: str, value: dict[object, object]) -> dict[str, Any]:
    encoded = {str(key): _encode_value(name, each) for key, each in value.items()}
    if len(value) == 1 and next(iter(encoded)) in (BYTES, VALUE, PARTS):
        return {VALUE: encoded}
    return encoded


def _encode_struct(name: str, value: msgspec.Struct) -> Any:
    """A struct with all its fields; bytes anywhere in it keep their form."""
    config = value.__struct_config__
    fields = {
        encoded: _encode_value(name, getattr(value, field))
        for field, encoded in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    }
    if config.array_like:
        return list(fields.values())
    return {config.tag_field: config.tag, **fields} if config.tag_field else fields


def decode_argument(name: str, value: Any, annotation: Any) -> Any:
    """An argument of the engine from JSON. Structs are built; all else is left as it is, and the engine checks it."""
    wanted = wire_type(annotation)
    if wanted is Any or value is None or isinstance(value, bool | int | float):
        return decode_bytes(value)
    if isinstance(value, str) and not _has(wanted, datetime):
        return value
    try:
        converted = msgspec.convert(value, wanted)
    except (msgspec.ValidationError, binascii.Error) as error:
        raise InvalidArgument(argument=name, reason=str(error)) from None
    _check_numbers(name, converted)
    return _rebuild(converted)


def _check_numbers(name: str, value: object) -> None:
    """Refuse a number inside of a struct that no store can hold: an engine makes none, and does not look for one."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            _check_numbers(name, getattr(value, field))
    elif isinstance(value, list | tuple):
        for each in value:
            _check_numbers(name, each)
    elif type(value) is int and value.bit_length() > limits.JSON_INT_BITS - 1:
        raise InvalidNumber(what=name, value=describe_value(value), low=-limits.WHOLE_NUMBER, high=limits.WHOLE_NUMBER)


def _rebuild(value: Any) -> Any:
    if isinstance(value, list):
        return [_rebuild(each) for each in value]
    if isinstance(value, dict):
        return decode_bytes(value)
    if isinstance(value, NewEntry):
        return msgspec.structs.replace(value, body=decode_bytes(value.body))
    if isinstance(value, PackReceipt):
        return read_receipt(value)
    if isinstance(value, PolicyDocument):
        try:
            return msgspec.convert(value.figures, _POLICIES[value.policy])
        except msgspec.ValidationError as error:
            raise InvalidArgument(argument="policy", reason=str(error)) from None
    return value


def _has(wanted: Any, kind: type) -> bool:
    return wanted is kind or kind in get_args(wanted)


def decode_bytes(value: Any) -> Any:
    """A JSON value, with the bytes in it as bytes."""
    if isinstance(value, list):
        return [decode_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name == BYTES and isinstance(inner, str):
            try:
                return base64.b64decode(inner, validate=True)
            except binascii.Error:
                raise InvalidArgument(argument=BYTES, reason="it is not base64") from None
        if name == VALUE and isinstance(inner, dict):
            return {key: decode_bytes(each) for key, each in inner.items()}
        if name == PARTS and isinstance(inner, list):
            return _decode_parts(inner)
    return {key: decode_bytes(each) for key, each in value.items()}


def _decode_parts(parts: list[Any]) -> list[Part]:
    try:
        return msgspec.convert(parts, list[Part])
    except msgspec.ValidationError as error:
        raise InvalidArgument(argument=PARTS, reason=str(error)) from None


# Answers


def encode_answer(value: object) -> Any:
    """An answer of the engine as something that msgspec encodes as JSON."""
    if isinstance(value, Pack):
        return describe_pack(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, ContextHolder):
        return SessionAddress(value.scope, value._context.frame)
    if isinstance(value, Entry):
        return {**msgspec.structs.asdict(value), "body": encode_argument("body", value.body)}
    if isinstance(value, list | tuple) and value and isinstance(value[0], Entry):
        return [encode_answer(each) for each in value]
    return value


def decode_answer(body: bytes, annotation: Any) -> Any:
    """The answer of an operation from JSON. A session or a frame is a SessionAddress: the caller opens it."""
    if annotation is Pack:
        return receive_pack(msgspec.json.decode(body, type=PackDocument))
    if annotation is Entry or Entry in get_args(annotation):
        return _decode_entries(msgspec.json.decode(body))
    return msgspec.json.decode(body, type=answer_type(annotation))


def answer_type(annotation: Any) -> Any:
    """The type of an answer as JSON."""
    if annotation is Pack:
        return PackDocument
    is_place = isinstance(annotation, type) and issubclass(annotation, ContextHolder | str)
    return wire_type(annotation) if is_place else annotation


def _decode_entries(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode_entries(each) for each in value]
    return None if value is None else Entry(**{**value, "body": decode_bytes(value["body"])})
