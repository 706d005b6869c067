"""The native API: every operation of the table over HTTP, from the signatures of the methods.

Laws: an operation needs its right, opens its object as the caller may, and calls the method of the same name of the async
engine. Errors are raised: the layers around it answer with problem documents.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.access.access import SYSTEM_TENANT
from holdfast.api.operations import OPERATIONS, ApiOperation, Need
from holdfast.api.problems import MEDIA_TYPE, build_http_problem
from holdfast.api.requests import (
    API,
    RENDER_TO,
    STREAMED,
    arrange_call,
    check_complete,
    check_query,
    read_arguments,
    takes_place,
)
from holdfast.api.signatures import IDEMPOTENCY_HEADER, VERSION_HEADER, read_signature
from holdfast.api.wire import decode_argument
from holdfast.errors import InvalidArgument, KeyConflict, PackNotFound, StorageCorrupt
from holdfast.flows.packs import records
from holdfast.model.log import FeedPage
from holdfast.model.names import check_name
from holdfast.model.packs.pack import PackDiff
from holdfast.render.pack import Pack
from holdfast.runtime.admin import Admin
from holdfast.runtime.engine import Engine
from holdfast.runtime.facets import PacksFacet
from holdfast.runtime.memory import MemoryFacet
from holdfast.server.native.answers import VERSIONED, build_answer, matches, read_page, read_version
from holdfast.server.native.calls import Call
from holdfast.server.native.engine_calls import ENGINE_CALLS, complete_memory, complete_user
from holdfast.server.native.feed import hide_payload
from holdfast.server.native.objects import names_body, open_owner, resolve_arguments
from holdfast.server.native.route_tree import RouteTree
from holdfast.server.native.streams import wrong_reference

Endpoint: TypeAlias = Callable[[Call], Awaitable[Response]]


class NativeApi:
    """The application at /api."""

    def __init__(self) -> None:
        self._tree: RouteTree[tuple[Need | None, Endpoint]] = RouteTree()
        for operation in OPERATIONS:
            self.add(operation.verb, operation.path, operation.need, functools.partial(run_operation, operation))

    def add(self, verb: str, path: str, need: Need | None, endpoint: Endpoint) -> None:
        """Add an endpoint that needs a right, or none."""
        self._tree.add(verb, path, (need, endpoint))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return  # nothing of its body is stored, and nobody reads the answer
        if scope["method"] == "HEAD":
            response = Response(status_code=response.status_code, headers=dict(response.headers))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        verb = "GET" if request.method == "HEAD" else request.method
        found = self._tree.find(verb, split_path(request.scope))
        if isinstance(found, list):
            return answer_unknown(request, found)
        need, endpoint = found.endpoint
        request.scope["route_template"] = API + found.template
        call = Call(request, found.template, found.names)
        if need is not None:
            call.access.check(need)
        return await endpoint(call)


def split_path(scope: Scope) -> list[str]:
    """The segments of the path below the mount, as they were sent."""
    raw = scope.get("raw_path") or scope["path"].encode()
    segments: list[str] = raw.decode("latin-1").split("?", 1)[0].lstrip("/").split("/")
    mounted = scope.get("root_path", "").strip("/")
    return segments[len(mounted.split("/")) if mounted else 0 :]


def answer_unknown(request: Request, verbs: list[str]) -> Response:
    """The answer for a path, or a verb of it, that the API does not have."""
    request_id = str(getattr(request.state, "request_id", ""))
    if verbs:
        detail = f"{request.url.path} has {', '.join(verbs)}, not {request.method}."
        problem = build_http_problem(405, "Method not allowed", detail, request_id)
        return Response(msgspec.json.encode(problem), 405, {"Allow": ", ".join(verbs)}, MEDIA_TYPE)
    detail = f"There is no such address. {API}/openapi.json lists all."
    return Response(
        msgspec.json.encode(build_http_problem(404, "Not found", detail, request_id)), 404, None, MEDIA_TYPE
    )


async def run_operation(operation: ApiOperation, call: Call) -> Response:
    """Run an operation of the table."""
    if operation.owner is Engine:
        arguments = await read_request(operation, call)
        checked = await resolve_arguments(call, None, arguments)
        with separate_keys(operation, call, checked):
            return build_answer(operation, await ENGINE_CALLS[operation.method](call, checked), arguments)
    if operation.method in STREAMED and call.is_streamed and operation.verb != "GET":
        return await _run_streamed(operation, call)
    arguments = await read_request(operation, call)
    return await _run_method(operation, call, arguments)


async def _run_streamed(operation: ApiOperation, call: Call) -> Response:
    """Run an operation whose body is bytes, which are streamed into the blob store."""
    arguments = await read_request(operation, call)
    async with call.spool() as file:
        return await _run_method(operation, call, {**arguments, STREAMED[operation.method]: file})


async def read_request(operation: ApiOperation, call: Call) -> dict[str, Any]:
    """Read the arguments of a request."""
    query = dict(call.query)
    page = read_page(operation, query)
    is_streamed = call.is_streamed and operation.method in STREAMED
    has_body = operation.verb not in ("GET", "DELETE") and not is_streamed
    body = await call.read_json() if has_body else None
    check_query(operation, query, has_body)
    arguments = read_arguments(operation, call.names, query, call.header, body)
    parameters = {each.name: each for each in read_signature(operation).parameters}
    if "expect" not in parameters and operation.verb != "GET" and call.header(VERSION_HEADER) is not None:
        reason = f"{operation.name} compares no version; leave {VERSION_HEADER} out"
        raise InvalidArgument(argument="expect", reason=reason)
    for name, value in page.items():
        arguments[name] = decode_argument(name, value, parameters[name].annotation)
    if operation.owner is Engine and takes_place(operation.path):
        arguments = {**{name: query[name] for name in ("actor", "thread") if name in query}, **arguments}
    if is_streamed and STREAMED[operation.method] in arguments:
        raise InvalidArgument(argument=STREAMED[operation.method], reason="it is the body of the request")
    if operation.owner is MemoryFacet:
        complete_user(call, operation, arguments)
    if not is_streamed:
        check_complete(operation, arguments)
    return arguments


async def _run_method(operation: ApiOperation, call: Call, arguments: dict[str, Any]) -> Response:
    owner = await open_owner(call, operation)
    checked = await resolve_arguments(call, owner, arguments)
    await complete_memory(call, operation, checked)
    complete_pack(operation, call, checked)
    await complete_write(operation, call, checked)
    version: int | None = None
    if operation.verb == "GET":
        version = await read_version(owner)
        if operation.name in VERSIONED and matches(call.header("if-none-match"), version or 0):
            return Response(status_code=304, headers={"ETag": f'"{version}"'})
    with separate_keys(operation, call, checked):
        value = await call_method(owner, operation, checked)
    value = await hide_answer(call, operation, owner, value)
    response = build_answer(operation, value, arguments, to=call.query.get(RENDER_TO))
    if version is not None:
        response.headers["ETag"] = f'"{version}"'
    return response


async def call_method(owner: Any, operation: ApiOperation, arguments: dict[str, Any]) -> Any:
    """Call the method of an operation."""
    positional, named = arrange_call(operation, arguments)
    try:
        value = getattr(owner, operation.method)(*positional, **named)
        answer = await value if inspect.isawaitable(value) else value
    except StorageCorrupt as error:
        if not names_body(list(arguments.values())):
            raise
        raise wrong_reference() from error
    while isinstance(answer, FeedPage) and answer.events:
        shown = hide_system(answer)
        if shown.events:
            return shown
        answer = await owner.feed(**{**named, "cursor": answer.cursor})  # a page without events would be the end
    return answer


@contextlib.contextmanager
def separate_keys(operation: ApiOperation, call: Call, arguments: dict[str, Any]) -> Iterator[None]:
    """Keep the idempotency key of a caller apart from those of others: neither a conflict nor its absence says anything
    of them. Errors name the key as it was sent."""
    sent = arguments.get("key")
    parameters = read_signature(operation).parameters
    is_header = any(each.place == "header" and each.header == IDEMPOTENCY_HEADER for each in parameters)
    if type(sent) is not str or not is_header:
        yield
        return
    arguments["key"] = call.access.separate_key(check_name("idempotency key", sent))
    try:
        yield
    except KeyConflict as error:
        raise KeyConflict(tenant=error.tenant, key=sent, reason=error.reason) from None


async def hide_answer(call: Call, operation: ApiOperation, owner: Any, value: Any) -> Any:
    """An answer without what the caller may not know. A stored pack that shows facts which the caller may not know now, as
    they might when it was built, is not found."""
    if call.access.identity is None:
        return value
    if operation.method == "events":
        return tuple(map(hide_payload, value))
    if operation.owner is not PacksFacet:
        return value
    names = [value.first.id, value.second.id] if isinstance(value, PackDiff) else [call.names.get("pack", "")]
    manifests = [await owner.manifest(name) for name in names if name]
    if isinstance(value, Pack):
        manifests.append(value.manifest)
    for manifest in manifests:
        check = records.shows_unknown_facts(owner._context, manifest, call.access.identity.permissions)
        if manifest.request.audit or await owner._drive(check):
            raise PackNotFound(session=call.names["session"], pack=names[-1])
    return value


def hide_system(page: FeedPage) -> FeedPage:
    """A page of the feed without what the server stores for itself."""
    shown = [number for number, event in enumerate(page.events) if event.stream.tenant != SYSTEM_TENANT]
    cursors = tuple(page.cursors[number] for number in shown) if page.cursors else ()
    return FeedPage(tuple(page.events[number] for number in shown), page.cursor, cursors)


def complete_pack(operation: ApiOperation, call: Call, arguments: dict[str, Any]) -> None:
    """With the right to read only, a pack is built and nothing is written: what would write needs the right for it."""
    if operation.method != "pack" or "write" in call.access.rights:
        return
    if arguments.get("reserve") is not None or arguments.get("settle", False) is not False:
        call.access.check("write")
    arguments["settle"] = False


async def complete_write(operation: ApiOperation, call: Call, arguments: dict[str, Any]) -> None:
    """Say of a write what only the server knows: whose identity it is, that no pack of this process is meant, and that
    maintenance is in the audit."""
    if operation.method == "record":
        arguments.setdefault("pack", False)  # the newest pack of this process may be of another program
    if operation.method == "record_all" and isinstance(arguments["messages"], list):
        pairs = (tuple(each) if isinstance(each, list) else each for each in arguments["messages"])
        arguments["messages"] = list(pairs)  # JSON has no tuples
    if operation.method == "refresh_identity":
        arguments["identity"] = call.access.check_identity_claim(arguments["identity"])
    if operation.owner is Admin and operation.verb != "GET":
        await call.request.app.state.audit.maintain(
            by=call.access.principal, key_id=call.access.key_id, operation=operation.name
        )
