"""Answers: what a method returned as JSON, with its version, and pages of lists.

Laws: a list is `{"items": […], "next": …}`; `next` is there if the page is full, and asks for the next one as `?page=`.
Nothing is 204. What a GET request does not find is a problem of type Absent. The version in an ETag is never newer than
the answer that it comes with.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec
from starlette.responses import Response

import holdfast
from holdfast import codec
from holdfast.api.operations import ApiOperation
from holdfast.api.packs import describe_pack
from holdfast.api.requests import API, PAGE, quote_name, read_token, write_token
from holdfast.api.signatures import is_union, read_signature
from holdfast.api.wire import SessionAddress, encode_answer
from holdfast.errors import Absent, InvalidArgument
from holdfast.flows import effects
from holdfast.flows.context import LedgerContext, SessionContext
from holdfast.model.log import StoredEvent
from holdfast.render.pack import Pack
from holdfast.server.native.calls import Answer

VERSIONED = frozenset({"Session.state", "Frame.state", "Session.messages", "Session.evidence", "Session.events"})
"""The answers that change only with the version of the session: 304 says that they are as before."""
_OLDEST_FIRST = frozenset({"messages", "evidence", "actions", "attachments"})
"""Lists of the newest, in the order of time: the page before them ends at their first item."""


def is_list(operation: ApiOperation) -> bool:
    """Whether an operation answers with a list."""
    answer = read_signature(operation).answer
    members = get_args(answer) if is_union(answer) else (answer,)
    return any(get_origin(each) in (list, tuple) for each in members)


def build_answer(
    operation: ApiOperation, value: Any, arguments: Mapping[str, object], *, to: str | None = None
) -> Response:
    """The response to a request whose method returned this value. `to` is the format of a pack."""
    if isinstance(value, Pack):
        return Answer(msgspec.json.encode(describe_pack(value, to)))
    if value is None:
        if operation.verb == "GET":
            raise Absent(what=operation.name)
        return Response(status_code=204)
    if isinstance(value, holdfast.AsyncSession | holdfast.AsyncFrame):
        place = SessionAddress(value.scope, value._context.frame)
        status = 201 if operation.verb == "POST" and operation.method != "resume" else 200
        return Answer(msgspec.json.encode(place), status, {"Location": locate(place)})
    if is_list(operation):
        document: dict[str, Any] = {
            "items": [describe_event(each) if isinstance(each, StoredEvent) else encode_answer(each) for each in value]
        }
        cursor = find_next(operation, value, arguments)
        if cursor is not None:
            document["next"] = cursor
        return Answer(msgspec.json.encode(document))
    return Answer(msgspec.json.encode(encode_answer(value)))


def describe_event(event: StoredEvent) -> dict[str, Any]:
    """A stored event as JSON, with its payload as bytes and, to read it, as JSON under `data`."""
    fields: dict[str, Any] = msgspec.to_builtins(event)
    try:
        fields["data"] = None if event.payload is None else codec.decode_object(event.payload)
    except msgspec.MsgspecError:
        fields["data"] = None
    return fields


def locate(place: SessionAddress) -> str:
    """The path of a session or a frame."""
    scope = place.scope
    path = f"{API}/sessions/{quote_name(scope.session)}"
    if place.frame is not None:
        path += f"/frames/{quote_name(place.frame)}"
    query = [
        f"{name}={quote_name(value)}" for name, value in (("actor", scope.actor), ("thread", scope.thread)) if value
    ]
    return f"{path}?{'&'.join(query)}"


def find_next(operation: ApiOperation, items: Any, arguments: Mapping[str, object]) -> str | None:
    """What asks for the page after this one; None if it is not full, or the list has no pages."""
    parameters = {each.name: each for each in read_signature(operation).parameters}
    turning = next((name for name in ("after", "before") if name in parameters), None)
    if turning is None or "limit" not in parameters or not items:
        return None
    if len(items) < arguments.get("limit", parameters["limit"].default):  # type: ignore[operator]
        return None
    last = items[0] if operation.method in _OLDEST_FIRST else items[-1]
    wanted = parameters[turning].annotation
    members = set(get_args(wanted) if is_union(wanted) else (wanted,)) - {types.NoneType}
    mark = last.seq if int in members else last.id if str in members else msgspec.to_builtins(last)
    return write_token({turning: mark})


def read_page(operation: ApiOperation, query: dict[str, str]) -> dict[str, Any]:
    """The arguments in the `page` of a query, as JSON."""
    text = query.pop(PAGE, None)
    if text is None:
        return {}
    value = read_token(PAGE, text)
    known = {each.name for each in read_signature(operation).parameters} & {"after", "before"}
    if not isinstance(value, dict) or not value.keys() <= known:
        raise InvalidArgument(argument=PAGE, reason="it is not the `next` of an answer to this request")
    return value


async def read_version(owner: Any) -> int | None:
    """The version of the session or the ledger that an object belongs to; None for an engine."""
    match getattr(owner, "_context", None):
        case SessionContext(scope=scope):
            stream = scope.stream
        case LedgerContext(ledger=ledger):
            stream = ledger.stream
        case _:
            return None
    head = await owner._drive(effects.head(stream))
    return 0 if head is None else head.version


def matches(header: str | None, version: int) -> bool:
    """Whether an If-None-Match header names this version."""
    if header is None:
        return False
    return f'"{version}"' in [each.strip().removeprefix("W/") for each in header.split(",")]
