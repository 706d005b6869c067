"""The resources: sessions, packs, handles and facts, under addresses that tools return.

Laws: a resource that the caller may not read does not exist for them, and no list, count, cursor or completion tells of
it. Lists come in pages; large texts come in parts, by the parameters of their address.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.request_state import InvalidRequestState, RequestStateCodec
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ListResourcesResult,
    PaginatedRequestParams,
    Resource,
    ResourceTemplateReference,
)

from holdfast.errors import HoldfastError, InvalidInput, NotFound
from holdfast.mcp.caller import Caller, CallerSource
from holdfast.mcp.results import SCHEME, format_time, session_uri, view_fact
from holdfast.mcp.tools import read_text
from holdfast.model.rows import SessionRow

PAGE = 50
"""The resources of one page."""
_RAW_PAGE = 100
_MOST_ROWS = 2_000
"""The rows that are looked at for one page: others may be of other users."""
_MOST_COMPLETIONS = 100
_LISTED = 20
"""The packs, frames and handles that the resource of a session names."""
P = ParamSpec("P")
T = TypeVar("T")


def resource_errors(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Show the errors of Holdfast to the client."""

    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await function(*args, **kwargs)
        except (NotFound, InvalidInput) as error:
            raise ResourceNotFoundError(str(error)) from error
        except HoldfastError as error:
            raise ResourceError(str(error)) from error

    return run


class AgentResources:
    """The resources and their lists. `source` says who makes a request; `codec` seals cursors."""

    def __init__(self, source: CallerSource, codec: RequestStateCodec) -> None:
        self._source = source
        self._codec = codec

    def add_to(self, server: MCPServer[Any]) -> None:
        """Add the templates to a server, and its lists."""
        json, text = "application/json", "text/plain"
        for path, function, name, kind in (
            ("sessions/{session}", self.read_session, "Session", json),
            ("sessions/{session}/packs/{pack}", self.read_manifest, "Manifest of a pack", json),
            ("sessions/{session}/packs/{pack}/text{?start,stop}", self.read_pack, "Context of a pack", text),
            ("sessions/{session}/handles/{handle}{?start,stop}", self.read_handle, "Handle", text),
            ("facts/{kind}/{name}/{key}", self.read_fact, "Fact", json),
        ):
            described = " ".join((function.__doc__ or "").split())
            server.resource(f"{SCHEME}://{path}", name=name, description=described, mime_type=kind)(function)
        lowlevel = server._lowlevel_server  # MCPServer has no public way to list by caller, or in pages
        lists = functools.partial(self._list, server)
        lowlevel.add_request_handler("resources/list", PaginatedRequestParams, lists)
        lowlevel.add_request_handler("completion/complete", CompleteRequestParams, self._complete)

    # Resources

    @resource_errors
    async def read_session(self, session: str, ctx: Context) -> str:
        """What a session has: its user, situation, frames at work, and the newest packs and handles, with their
        addresses."""
        opened = await self._source(ctx.request_context).open(session)
        state = await opened.state()
        packs = await opened.packs.list(limit=_LISTED)
        handles = (await opened.handles.list())[-_LISTED:]
        return _encode(
            {
                "session": session,
                "status": state.status,
                "user": state.identity.user_id,
                "messages": state.messages,
                "tokens": state.tokens,
                "created": format_time(state.created_us),
                "updated": format_time(state.updated_us),
                "situation": dict((await opened.situation.get()).fields),
                "frames": [
                    {"frame": each.id, "status": each.status, "goal": each.goal}
                    for each in await opened.frames.list(status="live", limit=_LISTED)
                ],
                "packs": [
                    {"pack": each.id, "tokens": each.used, "uri": session_uri(session, "packs", each.id)}
                    for each in packs
                ],
                "handles": [
                    {"handle": each.id, "kind": each.kind, "uri": session_uri(session, "handles", each.id)}
                    for each in handles
                ],
            }
        )

    @resource_errors
    async def read_manifest(self, session: str, pack: str, ctx: Context) -> str:
        """Why a stored pack is as it is: for every candidate, whether it is in the pack, and the reason."""
        opened = await self._source(ctx.request_context).open(session)
        manifest = await opened.packs.manifest(pack)
        return _encode(msgspec.to_builtins(manifest))

    @resource_errors
    async def read_pack(self, session: str, pack: str, ctx: Context, start: int = 0, stop: int | None = None) -> str:
        """The context of a stored pack as text, from byte start to stop. The last line says how to read on."""
        opened = await self._source(ctx.request_context).open(session)
        return await read_text(opened, pack, _build_range(start, stop))

    @resource_errors
    async def read_handle(
        self, session: str, handle: str, ctx: Context, start: int = 0, stop: int | None = None
    ) -> str:
        """A stored text or tool result, from byte start to stop. The last line says how to read on."""
        opened = await self._source(ctx.request_context).open(session)
        return await read_text(opened, handle, _build_range(start, stop))

    @resource_errors
    async def read_fact(self, kind: str, name: str, key: str, ctx: Context) -> str:
        """The current fact for a key: of a user, a session, a project or an organization (kind), by its name."""
        ledger = await self._source(ctx.request_context).ledger(kind, name)
        fact = await ledger.get(key)
        if fact is None:
            raise ResourceNotFoundError(f"There is no fact {key!r} of {kind} {name!r}.")
        return _encode({**view_fact(fact).model_dump(mode="json"), "value": fact.value, "is_preview": False})

    # Lists

    async def _list(
        self, server: MCPServer[Any], ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams
    ) -> ListResourcesResult:
        caller = self._source(ctx)
        after = self._read_cursor(caller, params.cursor)
        fixed = [] if params.cursor else await server.list_resources()
        shown: list[Resource] = []
        seen, last = 0, after
        async for row in _iterate_rows(caller, after):
            if len(shown) == PAGE or seen == _MOST_ROWS:
                cursor = self._seal_cursor(caller, last)
                return ListResourcesResult(resources=[*fixed, *shown], next_cursor=cursor)
            seen, last = seen + 1, row.session
            if await _is_visible(caller, row):
                shown.append(_describe_session(row))
        return ListResourcesResult(resources=[*fixed, *shown])

    def _seal_cursor(self, caller: Caller, session: str) -> str:
        """A cursor may name a session of somebody else: nobody can read it."""
        return self._codec.seal(msgspec.json.encode([caller.fingerprint, session]))

    def _read_cursor(self, caller: Caller, cursor: str | None) -> str:
        if cursor is None:
            return ""
        try:
            fingerprint, session = msgspec.json.decode(self._codec.unseal(cursor), type=tuple[str, str])
        except (InvalidRequestState, msgspec.MsgspecError) as error:
            raise MCPError(INVALID_PARAMS, "The cursor is not one of this list. Begin without a cursor.") from error
        if fingerprint != caller.fingerprint:
            raise MCPError(INVALID_PARAMS, "The cursor is not one of this list. Begin without a cursor.")
        return session

    # Completions

    async def _complete(self, ctx: ServerRequestContext[Any, Any], params: CompleteRequestParams) -> CompleteResult:
        values: list[str] = []
        if isinstance(params.ref, ResourceTemplateReference) and params.ref.uri.startswith(f"{SCHEME}://"):
            known = (params.context.arguments if params.context else None) or {}
            try:
                values = await self._find_values(self._source(ctx), params.argument.name, params.argument.value, known)
            except (NotFound, InvalidInput):
                values = []
        more = len(values) > _MOST_COMPLETIONS
        return CompleteResult(completion=Completion(values=values[:_MOST_COMPLETIONS], has_more=more))

    async def _find_values(self, caller: Caller, argument: str, typed: str, known: dict[str, str]) -> list[str]:
        match argument:
            case "session":
                rows = [row async for row in _iterate_rows(caller, "") if row.session.startswith(typed)]
                found = [row.session for row in rows[: _MOST_COMPLETIONS + 1] if await _is_visible(caller, row)]
            case "kind":
                found = ["user", "session", "project", "organization"]
            case "name" if known.get("kind") == "user":
                found = [caller.user] if caller.user else []
            case "key" if "kind" in known and "name" in known:
                ledger = await caller.ledger(known["kind"], known["name"])
                found = sorted({fact.key for fact in await ledger.items(limit=1_000)})
            case "pack" if "session" in known:
                found = [each.id for each in await (await caller.open(known["session"])).packs.list()]
            case "handle" if "session" in known:
                found = [each.id for each in await (await caller.open(known["session"])).handles.list()]
            case _:
                found = []
        return [each for each in found if each.startswith(typed)]


async def _iterate_rows(caller: Caller, after: str) -> AsyncIterator[SessionRow]:
    """The sessions of the caller's namespace by name, without threads: an address names none."""
    last = _row_after(caller, after) if after else None
    while page := await caller.engine.sessions(actor=caller.actor, after=last, limit=_RAW_PAGE):
        for row in page:
            if not row.thread:
                yield row
        last = page[-1]


def _row_after(caller: Caller, session: str) -> SessionRow:
    """A row with the key of a session: lists go on after it."""
    numbers = dict.fromkeys(
        ("version", "messages", "tokens", "open_calls", "input_tokens", "cache_read_tokens", "output_tokens"), 0
    )
    others = dict.fromkeys(("created_us", "updated_us", "residue", "gone", "cut"), 0)
    return SessionRow(
        tenant=caller.access.tenant,
        actor=caller.actor,
        session=session,
        thread="",
        status="open",
        expires_us=None,
        parent="",
        **numbers,
        **others,
    )


async def _is_visible(caller: Caller, row: SessionRow) -> bool:
    """Whether the caller may open the session: a user opens their own."""
    identity = caller.access.identity
    if identity is None:
        return True
    try:
        state = await (await caller.engine.session(row.session, actor=row.actor)).state()
    except NotFound:
        return False
    return state.identity.user_id in ("", identity.user_id)


def _describe_session(row: SessionRow) -> Resource:
    return Resource(
        uri=session_uri(row.session),
        name=row.session,
        description=f"Session, {row.status}: {row.messages:,} messages, last active {format_time(row.updated_us)}.",
        mime_type="application/json",
    )


def _build_range(start: int, stop: int | None) -> dict[str, Any]:
    return {"start": start} if stop is None else {"start": start, "stop": stop}


def _encode(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")
