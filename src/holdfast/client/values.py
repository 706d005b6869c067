"""Values of a program on their way to a server: what has a JSON form, parts of messages, and streams of bytes.

Laws: a value arrives as the embedded engine would store it. Bytes, files and iterators of bytes are streamed. A value that
has no JSON form is refused with the error of the engine.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdfast.api.wire import PartList
from holdfast.client.calls import (
    RemoteContext,
    RemoteMethod,
    build_upload,
    call_method,
    probe_arguments,
    read_answer,
)
from holdfast.client.exchanges import RemoteFlow, Upload, ask, run_outside
from holdfast.conversion import to_json
from holdfast.errors import (
    InvalidArgument,
    InvalidInput,
)
from holdfast.flows.context import SessionContext
from holdfast.flows.sessions.ingest import build_call_draft
from holdfast.model import limits
from holdfast.model.content import Body, Data, File, Image, Opaque, Text, ToolCall
from holdfast.model.facts.fact import Fact
from holdfast.providers.fields import dump
from holdfast.runtime.bodies import read_chunks

_BYTE_TYPES = (bytes, bytearray, memoryview)
_PARTS = (Text, Data, Body, Image, File, Opaque)
_ROLES = ("system", "user", "assistant", "tool")


def plain_value(where: str, value: object) -> Any:
    """A value that has a JSON form, as JSON; parts of a message stay parts."""
    if type(value) in _PARTS:
        return PartList((value,))
    if type(value) in (list, tuple) and any(type(each) in _PARTS for each in value):  # type: ignore[attr-defined]
        items: Any = value
        return PartList(tuple(Text(each) if type(each) is str else each for each in items))
    return to_json(where, value)


def plain_content(value: Any) -> Any:
    """Content of a message, with objects of official clients as their data."""
    kind = type(value)
    if kind in (list, tuple):
        return [plain_content(each) for each in value]
    if kind is dict:
        return {key: plain_content(each) for key, each in value.items()}
    if isinstance(value, ToolCall):
        return describe_call(value)
    dumped = dump(value) if hasattr(kind, "model_dump") else None
    return value if dumped is None else plain_content(dumped)


def describe_call(call: object) -> dict[str, Any]:
    """A tool call as a dict, as a caller writes it."""
    draft = build_call_draft(call)
    provider = {} if draft.provider_id is None else {"id": draft.provider_id}
    return {"name": draft.name, "args": draft.args, **provider}


def convert_value(name: str, where: str) -> Callable[..., RemoteFlow[Any]]:
    """A method with a parameter that takes any value with a JSON form."""

    def send(method: RemoteMethod, context: RemoteContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
        sent = dict(arguments)
        if name in sent:
            sent[name] = _convert(method, context, arguments, name, where)
        return (yield from call_method(method, context, sent))

    return send


def _convert(method: RemoteMethod, context: RemoteContext, arguments: dict[str, Any], name: str, where: str) -> Any:
    try:
        return to_json(where, arguments[name])
    except InvalidInput:
        probe_arguments(method, context, arguments)
        raise


def set_fact(method: RemoteMethod, context: RemoteContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    sent = {**arguments, "value": _convert(method, context, arguments, "value", "the value of a fact")}
    if _has_facts(arguments.get("provenance")):
        probe_arguments(method, context, arguments)  # a fact of another ledger has the same ids
        sent["provenance"] = _name_facts(arguments["provenance"])
    return (yield from call_method(method, context, sent))


def set_all(method: RemoteMethod, context: RemoteContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    facts: Any = arguments.get("facts")
    if type(facts) in (list, tuple) and all(type(each) is dict for each in facts):
        if any(_has_facts(value) for each in facts for value in each.values()):
            probe_arguments(method, context, arguments)
        try:
            arguments = {**arguments, "facts": [_plain_fact(each) for each in facts]}
        except InvalidInput:
            probe_arguments(method, context, arguments)
            raise
    return (yield from call_method(method, context, arguments))


def _plain_fact(fact: dict[str, Any]) -> dict[str, Any]:
    named = {name: value if name == "value" else _name_facts(value) for name, value in fact.items()}
    return {**named, "value": to_json("the value of a fact", fact["value"])} if "value" in fact else named


def _has_facts(value: object) -> bool:
    return isinstance(value, Fact) or (type(value) in (list, tuple) and any(map(_has_facts, value)))  # type: ignore[call-overload]


def _name_facts(value: Any) -> Any:
    """Facts as their ids, which are those of one ledger."""
    if isinstance(value, Fact):
        return value.id
    return [_name_facts(each) for each in value] if type(value) in (list, tuple) else value


def append_entry(method: RemoteMethod, context: RemoteContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    body = arguments.get("body")
    if "body" in arguments and type(body) not in _BYTE_TYPES:
        arguments = {**arguments, "body": to_json("the body of the entry", body, limits.ENTRY_VALUES)}
    return (yield from call_method(method, context, arguments))


def append_entries(method: RemoteMethod, context: RemoteContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    new: Any = arguments.get("new")
    if type(new) in (list, tuple):
        arguments = {**arguments, "new": [_plain_entry(each) for each in new]}
    return (yield from call_method(method, context, arguments))


def _plain_entry(entry: Any) -> Any:
    if not isinstance(entry, msgspec.Struct) or type(getattr(entry, "body", b"")) in _BYTE_TYPES:
        return entry
    return msgspec.structs.replace(entry, body=to_json("the body of the entry", entry.body, limits.ENTRY_VALUES))  # type: ignore[attr-defined]


def send_value(name: str) -> Callable[..., RemoteFlow[Any]]:
    """A method with a value that may also be parts, or bytes from memory, a file or an iterator, which are streamed."""

    def send(method: RemoteMethod, context: RemoteContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
        if name not in arguments:
            return (yield from call_method(method, context, arguments))
        value = arguments[name]
        others = {each: value for each, value in arguments.items() if each != name}
        kind = type(value)
        if hasattr(kind, "__next__") and not hasattr(kind, "read"):
            first, items = yield from run_outside(functools.partial(_peek, value))
            if type(first) is str:
                items = map(_encode_piece, items)
            if type(first) is str or type(first) in _BYTE_TYPES:
                return (yield from _send_stream(method, context, others, items))
            value = yield from run_outside(functools.partial(list, items))
        elif kind in _BYTE_TYPES or hasattr(kind, "read"):
            return (yield from _send_stream(method, context, others, value))
        if method.name == "replace" and value is None:
            return (yield from call_method(method, context, others))
        return (yield from call_method(method, context, {**others, name: plain_value("the result", value)}))

    return send


def _peek(items: Iterator[Any]) -> tuple[object, Iterator[Any]]:
    first = next(items, "")
    return first, itertools.chain([first], items)


def _encode_piece(text: object) -> bytes:
    if type(text) is not str:
        raise InvalidArgument(argument="value", reason="a piece of the result is no text")
    return text.encode()


def _send_stream(
    method: RemoteMethod, context: RemoteContext, arguments: dict[str, Any], source: Any
) -> RemoteFlow[Any]:
    request = build_upload(method, context, arguments, upload_of(source))
    return read_answer(method, context, (yield from ask(request)))


def upload_of(source: Any) -> Upload:
    """A body to send, in chunks."""
    is_repeatable = type(source) in (*_BYTE_TYPES, list, tuple)
    return Upload(functools.partial(read_chunks, source), is_repeatable)


def pop(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    """End a frame. Its result is what a tool may return; a stream is read to its end."""
    value = arguments.get("result")
    kind = type(value)
    if hasattr(kind, "read") or hasattr(kind, "__next__"):
        value = yield from run_outside(functools.partial(_read_all, value))
    if value is not None:
        arguments = {**arguments, "result": value if type(value) in _BYTE_TYPES else plain_value("the result", value)}
    return (yield from call_method(method, context, arguments))


def _read_all(source: Any) -> Any:
    items: list[Any] = list(read_chunks(source)) if hasattr(type(source), "read") else list(source)
    if all(type(each) in _BYTE_TYPES for each in items):
        return b"".join(items)
    return "".join(items) if all(type(each) is str for each in items) else items


def act(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    """Store an action: its calls have arguments and results of any type with a JSON form."""
    calls: Any = arguments.get("tool_calls")
    if type(calls) in (list, tuple):
        plain = [to_json("the call", each) if type(each) is dict else each for each in calls]
        arguments = {**arguments, "tool_calls": plain}
    return (yield from call_method(method, context, arguments))
