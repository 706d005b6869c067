"""The resources: sessions, packs, handles and facts, under addresses that tools return.

Laws: a resource that the caller may not read does not exist for them, and no list, count, cursor or completion tells of
it. Lists come in pages; large texts come in parts, by the parameters of their address.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
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

import holdfast
from holdfast.access.access import list_sessions
from holdfast.errors import HoldfastError, InvalidInput, NotFound
from holdfast.mcp.caller import Caller, CallerSource
from holdfast.mcp.results import SCHEME, format_time, session_uri, view_fact
from holdfast.mcp.tools import read_text
from holdfast.model.rows import SessionRow

PAGE = 50
"""The resources of one page."""
_MOST_ROWS = 1_000
"""The sessions among which a name is completed."""
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
    """The resources and their lists. `source` says who makes a request."""

    def __init__(self, source: CallerSource) -> None:
        self._source = source

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

    async def _open(self, ctx: Context, session: str) -> holdfast.AsyncSession:
        if not session:
            raise ResourceNotFoundError("The address names no session.")
        return await self._source(ctx.request_context).open(session)

    @resource_errors
    async def read_session(self, session: str, ctx: Context) -> str:
        """What a session has: its user, situation, frames at work, and the newest packs and handles, with their
        addresses."""
        opened = await self._open(ctx, session)
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
        opened = await self._open(ctx, session)
        manifest = await opened.packs.manifest(pack)
        return _encode(msgspec.to_builtins(manifest))

    @resource_errors
    async def read_pack(self, session: str, pack: str, ctx: Context, start: str = "0", stop: str = "") -> str:
        """The context of a stored pack as text, from byte start to stop. The last line says how to read on."""
        opened = await self._open(ctx, session)
        return await read_text(opened, pack, _build_range(start, stop))

    @resource_errors
    async def read_handle(self, session: str, handle: str, ctx: Context, start: str = "0", stop: str = "") -> str:
        """A stored text or tool result, from byte start to stop. The last line says how to read on."""
        opened = await self._open(ctx, session)
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
        after = None if params.cursor is None else _read_cursor(caller, params.cursor)
        rows = await list_sessions(caller.engine, caller.access, actor=caller.actor, after=after, limit=PAGE + 1)
        shown = [_describe_session(row) for row in rows[:PAGE] if not row.thread]  # an address names no thread
        fixed = [] if params.cursor else await server.list_resources()
        cursor = _write_cursor(rows[PAGE - 1]) if len(rows) > PAGE else None
        return ListResourcesResult(resources=[*fixed, *shown], next_cursor=cursor)

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
                rows = await list_sessions(caller.engine, caller.access, actor=caller.actor, limit=_MOST_ROWS)
                found = [row.session for row in rows if not row.thread]
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


def _write_cursor(row: SessionRow) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([row.session, row.thread])).decode()


def _read_cursor(caller: Caller, cursor: str) -> SessionRow:
    try:
        session, thread = msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[str, str])
    except (ValueError, msgspec.MsgspecError) as error:
        raise MCPError(INVALID_PARAMS, "The cursor is not one of this list. Begin without a cursor.") from error
    return _row_after(caller, session, thread)


def _row_after(caller: Caller, session: str, thread: str) -> SessionRow:
    """A row with the key of a session: lists go on after it."""
    numbers = dict.fromkeys(
        ("version", "messages", "tokens", "open_calls", "input_tokens", "cache_read_tokens", "output_tokens"), 0
    )
    others = dict.fromkeys(("created_us", "updated_us", "residue", "gone", "cut"), 0)
    return SessionRow(
        tenant=caller.access.tenant,
        actor=caller.actor,
        session=session,
        thread=thread,
        status="open",
        expires_us=None,
        parent="",
        **numbers,
        **others,
    )


def _describe_session(row: SessionRow) -> Resource:
    return Resource(
        uri=session_uri(row.session),
        name=row.session,
        description=f"Session, {row.status}: {row.messages:,} messages, last active {format_time(row.updated_us)}.",
        mime_type="application/json",
    )


def _build_range(start: str, stop: str) -> dict[str, int]:
    try:
        wanted = {"start": int(start), "stop": int(stop)} if stop else {"start": int(start)}
    except ValueError:
        raise ResourceNotFoundError(
            "start and stop must be whole numbers: the first byte, and the one to stop before."
        ) from None
    return wanted


def _encode(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")
