"""The server of MCP: the tools, resources and tasks of Holdfast, for the callers that a source names.

Laws: a caller who may only read is not shown the tools that write, and is refused when they call one. What clients keep
for us, the state of a question, is sealed with a key of the store, so that any process reads it, and nobody
else.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp.server.mcpserver.tools import Tool
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, CallToolResult, InputRequiredResult
from pydantic import ValidationError

import holdfast
from holdfast.access.system import system_session
from holdfast.errors import EntryConflict, RightMissing
from holdfast.mcp.ask import ask_tool
from holdfast.mcp.caller import Caller, CallerSource
from holdfast.mcp.mistakes import explain_arguments
from holdfast.mcp.resources import AgentResources
from holdfast.mcp.subscriptions import Subscriptions
from holdfast.mcp.tasks import Tasks
from holdfast.mcp.tools import READ_TOOLS, AgentTools

ANSWER_S = 86_400.0
"""How long a person may take to answer a question that the client shows."""
_SECRET_BYTES = 32
_OPEN_METHODS = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})
"""What tells nothing of the store."""
_WRITING_METHODS = frozenset({"tasks/update", "tasks/cancel"})
INSTRUCTIONS = (
    "Holdfast keeps what you must not forget, in a store that survives you: facts, the conversation, and where the work "
    "stands. At the start, call recall or pack to learn what is known. When the user states or changes something that "
    "lasts, call remember: the old value is then outdated for everyone. Before you ask the user for something, call "
    "recall. For work of several steps use begin and finish, keep the situation up to date, and use ask before you do what "
    "cannot be undone. When the conversation is over, call finish."
)


class StoreCodec:
    """Seals what clients keep, with a key that is in the store: the same for every process. load() reads it."""

    def __init__(self) -> None:
        self._codec: AESGCMRequestStateCodec | None = None

    async def load(self, engine: holdfast.AsyncEngine | None) -> None:
        """Read the key of the store, or make it. Without an engine, the key is of this process."""
        secret = secrets.token_bytes(_SECRET_BYTES) if engine is None else await _load_secret(engine)
        self._codec = AESGCMRequestStateCodec([secret])

    def seal(self, payload: bytes) -> str:
        assert self._codec is not None, "load() comes first"
        return self._codec.seal(payload)

    def unseal(self, token: str) -> bytes:
        if self._codec is None:
            raise InvalidRequestState("no key is loaded")
        return self._codec.unseal(token)


async def _load_secret(engine: holdfast.AsyncEngine) -> bytes:
    session = await system_session(engine, "mcp", actor="secrets")
    entry = await session.entries.get("request-state-key")
    if entry is None:
        try:
            entry = await session.entries.append("secret", "request-state-key", secrets.token_hex(_SECRET_BYTES))
        except EntryConflict:
            entry = await session.entries.get("request-state-key")
    assert entry is not None, "it was stored by this process, or by another one"
    return bytes.fromhex(str(entry.body))


@contextmanager
def _own_logging() -> Iterator[None]:
    """MCPServer sets up the logging of the whole process, unless there is a handler: that is for the program to do."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _ToolServer(MCPServer[Any]):
    """A server of MCP that says in our words what is wrong with the arguments of a tool."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            tool = self._tool_manager.get_tool(name)
            if tool is None or not isinstance(error.__cause__, ValidationError):
                raise
            raise explain_arguments(tool, arguments, error) from error.__cause__


class AgentServer:
    """A server with the tools of Holdfast. `mcp` is the MCPServer, for tools of your own beside them."""

    def __init__(
        self,
        source: CallerSource,
        *,
        name: str = "holdfast",
        has_connections: bool = False,
        task_options: dict[str, float] | None = None,
    ) -> None:
        self._source = source
        self._codec = StoreCodec()
        self.tasks = Tasks(lambda ctx: source(ctx).task_owner, **(task_options or {}))
        security = RequestStateSecurity(
            codec=self._codec, ttl=ANSWER_S, bind_principal=lambda ctx: source(ctx).fingerprint
        )
        with _own_logging():
            self.mcp: MCPServer[Any] = _ToolServer(
                name,
                title="Holdfast",
                description="Durable memory and state for agents.",
                instructions=INSTRUCTIONS,
                version=holdfast.__version__,
                extensions=[self.tasks],
                request_state_security=security,
                resource_security=ResourceSecurity(reject_path_traversal=False, reject_absolute_paths=False),
                middleware=[self._guard],
            )
        AgentTools(source).add_to(self.mcp)
        self.add_task_tool(ask_tool(source))
        AgentResources(source).add_to(self.mcp)
        Subscriptions(source, self.tasks).add_to(self.mcp, has_connections=has_connections)

    async def load(self, engine: holdfast.AsyncEngine | None) -> None:
        """Read the key that the store keeps for all servers. Call it once, before the first request. A server of one client
        passes None: what the client keeps ends with the connection."""
        await self._codec.load(engine)

    def add_task_tool(self, tool: Tool | Callable[..., Any], **options: bool) -> None:
        """Add a tool whose calls become tasks. `options` are those of Tasks.adopt()."""
        added = tool if isinstance(tool, Tool) else Tool.from_function(tool)
        self.mcp.add_tool(
            added.fn, name=added.name, title=added.title, description=added.description, annotations=added.annotations
        )
        self.tasks.adopt(added, **options)

    async def _guard(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Show and allow what the caller may do."""
        if ctx.method in _OPEN_METHODS or ctx.request_id is None:
            return await call_next(ctx)
        caller = self._source(ctx)
        try:
            caller.access.check("read")
            if ctx.method in _WRITING_METHODS:
                caller.access.check("write")
            if ctx.method == "tools/call" and self._is_writer(str((ctx.params or {}).get("name"))):
                caller.access.check("write")
        except RightMissing as error:
            raise MCPError(INVALID_REQUEST, str(error)) from error
        answer = await call_next(ctx)
        return self._select_tools(caller, answer) if ctx.method == "tools/list" else answer

    def _select_tools(self, caller: Caller, listed: HandlerResult) -> HandlerResult:
        if caller.may_write or not isinstance(listed, dict):
            return listed
        tools = [tool for tool in listed["tools"] if not self._is_writer(tool["name"])]
        for tool in tools:
            if tool["name"] in READ_TOOLS:
                tool["annotations"] = {**tool.get("annotations", {}), "readOnlyHint": True}
        return {**listed, "tools": tools}

    def _is_writer(self, tool: str) -> bool:
        """Whether a tool changes something. Tools that are not ours say so by their hints."""
        if tool in READ_TOOLS:
            return False
        found = self.mcp._tool_manager.get_tool(tool)
        hints = None if found is None else found.annotations
        return hints is None or not hints.read_only_hint
