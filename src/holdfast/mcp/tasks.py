"""Durable tasks for servers of MCP: the extension `io.modelcontextprotocol/tasks` (SEP-2663), on frames.

    tasks = Tasks(engine)

    @tasks.tool()
    async def build_report(year: int) -> str: ...

    server = MCPServer("reports", extensions=[tasks])

A client that declares the extension gets a task for a call of such a tool, at once, and asks for it with `tasks/get`;
any other client waits for the result as usual.

Laws:
- A task is in the log before the client hears of it, and so is every change of it. Any process on the same store answers
  `tasks/get`, `tasks/update` and `tasks/cancel`.
- A task is "working" only while a process works on it. If that process stops, the task fails with `outcome_unknown` as
  soon as its turn has ended: nothing runs twice, unless the tool was declared with `restart=True`.
- A tool asks the client by returning an InputRequiredResult, or by `Resolve`. The task then waits as a suspended frame,
  without a process. When all answers are stored, the tool is called again with them, by the process that has the last one.
- A task is of the caller who began it. To all others it does not exist; after its time to live, to nobody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding, ToolBinding
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.server import require_client_extension
from mcp.server.mcpserver.tools import Tool
from mcp.server.request_state import authenticated_principal
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    RequestParams,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field, ValidationError

import holdfast
from holdfast.access.system import now_us
from holdfast.errors import AlreadyTerminal, HoldfastError, TurnBusy
from holdfast.mcp import task_frames
from holdfast.mcp.background import background_context
from holdfast.mcp.mistakes import explain_arguments
from holdfast.mcp.task_frames import StoredTask, TaskCall, TaskOwner

EXTENSION_ID = "io.modelcontextprotocol/tasks"
DEFAULT_TTL_S = 3_600.0
"""How long a task lives, from its creation, unless its tool says something else."""
DEFAULT_LEASE_S = 15.0
"""How long after the death of its process a task is reported as failed at the latest."""
DEFAULT_POLL_S = 1.0
"""How often a client should ask."""
MAX_ATTEMPTS = 3
"""How often a tool with `restart=True` is started."""
_HANDOVER_S = 5.0
"""How long a process waits for another one to put a task down before it goes on with it."""
_SWEEP_S = 60.0
_SWEEP_TASKS = 100
_SUMMARY_CHARS = 200
F = TypeVar("F", bound=Callable[..., Any])
OwnerSource = Callable[[ServerRequestContext[Any, Any]], TaskOwner]
_logger = logging.getLogger(__name__)


class TaskParams(RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


class TaskTool(NamedTuple):
    """A tool whose calls may become tasks."""

    tool: Tool
    is_required: bool
    asks_first: bool
    restart: bool
    ttl_s: float | None


class Tasks(Extension):
    """The extension: pass it to `MCPServer(extensions=[…])`, and its tools with it.

    `owner` is the engine, or a function that returns the engine and the name of the caller for a request; with an engine,
    a task belongs to the authenticated principal of the SDK. While the server runs, keep `running()` open, so that tasks of
    a server that is stopped end at once."""

    identifier = EXTENSION_ID

    def __init__(
        self,
        owner: holdfast.AsyncEngine | OwnerSource,
        *,
        ttl_s: float = DEFAULT_TTL_S,
        lease_s: float = DEFAULT_LEASE_S,
        poll_s: float = DEFAULT_POLL_S,
    ) -> None:
        self._owner_of = _fixed_owner(owner) if isinstance(owner, holdfast.AsyncEngine) else owner
        self._ttl_s, self._lease_s, self._poll_s = ttl_s, lease_s, poll_s
        self._tools: dict[str, TaskTool] = {}
        self._bindings: list[ToolBinding] = []
        self._runs: dict[str, asyncio.Task[None]] = {}
        """What this process began, by the ids of the tasks."""
        self._continued: dict[str, asyncio.Task[None]] = {}
        """What this process goes on with."""
        self._next_sweep = 0.0

    def tool(
        self,
        *,
        required: bool = False,
        asks_first: bool = False,
        restart: bool = False,
        ttl_s: float | None = None,
        **options: Any,
    ) -> Callable[[F], F]:
        """Declare a tool whose calls become tasks. `options` are those of `MCPServer.tool()`.

        `required`: a client without the extension is refused. `asks_first`: the tool asks the client before it works, so
        its first call is answered at once, and the task begins with the answers. `restart`: the tool may run again from its
        beginning if the process stopped; only for tools that take effect once however often they run."""

        def declare(function: F) -> F:
            self._bindings.append(ToolBinding(fn=function, kwargs=options))
            self.adopt(
                Tool.from_function(function, **options),
                required=required,
                asks_first=asks_first,
                restart=restart,
                ttl_s=ttl_s,
            )
            return function

        return declare

    def adopt(
        self,
        tool: Tool,
        *,
        required: bool = False,
        asks_first: bool = False,
        restart: bool = False,
        ttl_s: float | None = None,
    ) -> None:
        """Make tasks of the calls of a tool that the server itself has."""
        self._tools[tool.name] = TaskTool(tool, required, asks_first, restart, ttl_s)

    def tools(self) -> Sequence[ToolBinding]:
        return tuple(self._bindings)

    def methods(self) -> Sequence[MethodBinding]:
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return (
            MethodBinding("tasks/get", TaskParams, self._get, versions),
            MethodBinding("tasks/update", UpdateParams, self._update, versions),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, versions),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep this open while the server runs and its store is open. At the end, the tasks of this process end: as
        failed, or, with `restart=True`, for another process to start again."""
        try:
            yield
        finally:
            runs = [*self._runs.values(), *self._continued.values()]
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    # Calls

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        task_tool = self._tools.get(params.name)
        if task_tool is None:
            return await call_next(ctx)
        if not declares_tasks(ctx):
            if task_tool.is_required:
                require_client_extension(ctx, EXTENSION_ID)
            return await call_next(ctx)
        if task_tool.asks_first and params.input_responses is None:
            return await call_next(ctx)
        return await self._create(task_tool, params, ctx)

    async def _create(
        self, task_tool: TaskTool, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any]
    ) -> HandlerResult:
        owner = self._owner_of(ctx)
        await self._sweep(owner.engine)
        capabilities = ctx.session.client_capabilities
        client = ctx.session.client_params.client_info if ctx.session.client_params else None
        raw = ctx.params or {}
        ttl_s = self._ttl_s if task_tool.ttl_s is None else task_tool.ttl_s
        call = TaskCall(
            tool=params.name,
            arguments=params.arguments or {},
            owner=owner.name,
            ttl_ms=max(1, int(ttl_s * 1_000)),
            version=ctx.protocol_version,
            capabilities={} if capabilities is None else _dump(capabilities),
            client=None if client is None else _dump(client),
            responses=raw.get("inputResponses"),
            state=params.request_state,
        )
        task_id = task_frames.new_task_id()
        created: asyncio.Future[StoredTask] = asyncio.get_running_loop().create_future()
        _start(self._runs, task_id, self._begin(task_id, owner, call, ctx, created))
        try:
            task = await created
        except HoldfastError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        return {**(await self._describe(task, ctx)), "resultType": "task"}

    def _continue(self, task_id: str, ctx: ServerRequestContext[Any, Any]) -> None:
        """Go on with a task in the background, unless this process does so already."""
        if task_id not in self._continued:
            _start(self._continued, task_id, self._go_on(task_id, self._owner_of(ctx), ctx))

    async def _begin(
        self,
        task_id: str,
        owner: TaskOwner,
        call: TaskCall,
        ctx: ServerRequestContext[Any, Any],
        created: asyncio.Future[StoredTask],
    ) -> None:
        try:
            session = await task_frames.create_task_session(owner, task_id, call)
            async with session.turn(lease_s=self._lease_s, wait_s=0) as bound:
                await task_frames.push_task_frame(bound, call)
                task = await self._require(owner, task_id, bound)
                created.set_result(task)
                await self._work(task, ctx)
        except HoldfastError as error:
            if created.done():
                raise
            created.set_exception(error)
        except asyncio.CancelledError:
            created.cancel()
            raise

    async def _go_on(self, task_id: str, owner: TaskOwner, ctx: ServerRequestContext[Any, Any]) -> None:
        """Go on with a task whose answers are complete, or which was abandoned and may start again. If another process is
        faster, this one does nothing."""
        session = await task_frames.open_task_session(owner, task_id)
        if session is None:
            return
        try:
            async with session.turn(lease_s=self._lease_s, wait_s=_HANDOVER_S) as bound:
                task = await self._require(owner, task_id, bound)
                if not await self._may_go_on(task):
                    return
                if task.record.status == "suspended":
                    await owner.engine.resume(await task.frame.reissue())
                    task = await self._require(owner, task_id, bound)
                await self._work(task, ctx)
        except TurnBusy:
            return

    async def _may_go_on(self, task: StoredTask) -> bool:
        """Whether the tool may run: all is answered, or it was abandoned and takes effect once. The caller has the turn."""
        task_tool = self._tools.get(task.call.tool)
        if task_tool is None:
            return False  # a process that has the tool goes on with it
        if task.record.status == "suspended":
            rounds = await task.rounds()
            return not rounds[-1].outstanding
        return task.record.is_live and task_tool.restart and await task.count_attempts() < MAX_ATTEMPTS

    # Work

    async def _work(self, task: StoredTask, ctx: ServerRequestContext[Any, Any]) -> None:
        """Call the tool, and store what comes of it. The caller has the turn of the session."""
        await task.note_attempt()
        run = asyncio.ensure_future(self._call(task, ctx))
        end = asyncio.ensure_future(_wait_for_end(task))
        left_s = max(0.0, (task.expires_us - now_us()) / 1_000_000)
        try:
            await asyncio.wait({run, end}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._stop(run, end)
            if not self._tools[task.call.tool].restart:
                await asyncio.shield(_fail(task, _outcome_unknown(task.call.tool, "was stopped")))
            raise
        if not run.done():
            await self._stop(run, end)
            if not end.done() or end.cancelled():
                await _fail(task, MCPError(INTERNAL_ERROR, "The time of the task is over.", {"reason": "expired"}))
            return
        await self._stop(end)
        await self._store(task, run)

    async def _stop(self, *futures: asyncio.Future[Any]) -> None:
        for each in futures:
            each.cancel()
        await asyncio.gather(*futures, return_exceptions=True)

    async def _call(
        self, task: StoredTask, ctx: ServerRequestContext[Any, Any]
    ) -> CallToolResult | InputRequiredResult:
        call = task.call
        answered = [one for one in await task.rounds() if not one.outstanding]
        responses, state = (
            (answered[-1].tool_responses, answered[-1].state) if answered else (call.responses, call.state)
        )
        body = {"name": call.tool, "arguments": call.arguments, "inputResponses": responses, "requestState": state}
        params = CallToolRequestParams.model_validate(
            {name: value for name, value in body.items() if value is not None}, by_name=False
        )
        context: Context[Any, Any] = Context(
            request_context=background_context(ctx, task.id, call.version, call.capabilities, call.client),
            input_params=params,
            subscriptions=InMemorySubscriptionBus(),
        )
        try:
            result = await self._tools[call.tool].tool.run(call.arguments, context, convert_result=True)
        except ToolError as error:
            if isinstance(error, UnexpectedToolError):
                _logger.exception("The tool %r raised an unexpected exception", call.tool)
            explained = explain_arguments(self._tools[call.tool].tool, call.arguments, error)
            return CallToolResult(content=[TextContent(type="text", text=str(explained))], is_error=True)
        assert isinstance(result, CallToolResult | InputRequiredResult)
        return result

    async def _store(self, task: StoredTask, run: asyncio.Future[CallToolResult | InputRequiredResult]) -> None:
        try:
            result = run.result()
            if isinstance(result, InputRequiredResult):
                requests = {name: _dump(each) for name, each in (result.input_requests or {}).items()}
                if not requests:
                    raise MCPError(INTERNAL_ERROR, "The tool waits for input, but asks for none.")
                await task.ask(requests, result.request_state)
                await task.frame.suspend(
                    "waits for answers of the client", expires_at=datetime.fromtimestamp(task.expires_us / 1e6, UTC)
                )
                return
            await task.frame.pop("completed", "the tool has answered", result=_dump(result))
        except MCPError as error:
            await _fail(task, error)
        except ValidationError as error:
            await _fail(task, MCPError(INTERNAL_ERROR, "The answers do not fit what the tool asked for."))
            _logger.info("Answers to the tool %r do not fit: %s", task.call.tool, error)
        except AlreadyTerminal:
            return  # it was cancelled meanwhile

    # Requests about a task

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        return await self._describe(await self._find(ctx, params.task_id), ctx)

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> HandlerResult:
        task = await self._find(ctx, params.task_id)
        if not task.record.is_live:
            return {}
        rounds = await task.rounds()  # a question can be answered from when it is stored, before the task waits
        outstanding = rounds[-1].outstanding if rounds else {}
        answers = {key: answer for key, answer in params.input_responses.items() if key in outstanding}
        _check_answers(answers)
        await task.answer(answers)
        await self._describe(await self._find(ctx, params.task_id), ctx)
        return {}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        task = await self._find(ctx, params.task_id)
        with suppress(AlreadyTerminal):
            await task.frame.pop("cancelled", "cancelled by the client", cascade=True)
        for runs in (self._runs, self._continued):
            if (run := runs.get(params.task_id)) is not None:
                run.cancel()
        return {}

    async def describe(self, ctx: ServerRequestContext[Any, Any], task_id: str) -> dict[str, Any] | None:
        """The task as `tasks/get` shows it to this caller; None if it does not exist for them."""
        try:
            return await self._describe(await self._find(ctx, task_id), ctx)
        except MCPError:
            return None

    def owner_of(self, ctx: ServerRequestContext[Any, Any]) -> TaskOwner:
        return self._owner_of(ctx)

    async def _find(self, ctx: ServerRequestContext[Any, Any], task_id: str) -> StoredTask:
        require_client_extension(ctx, EXTENSION_ID)
        if ctx.method.startswith("tasks/"):
            _check_name_header(ctx, task_id)
        task = await task_frames.load_task(self._owner_of(ctx), task_id)
        if task is None:
            raise MCPError(INVALID_PARAMS, "There is no such task.", {"taskId": task_id})
        if task.has_expired:
            await task_frames.discard_task(task.session)
            raise MCPError(INVALID_PARAMS, "The task has expired.", {"taskId": task_id})
        return task

    async def _require(self, owner: TaskOwner, task_id: str, session: holdfast.AsyncSession) -> StoredTask:
        task = await task_frames.load_task(owner, task_id, session)
        assert task is not None, "the caller has its session"
        return task

    async def _describe(self, task: StoredTask, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        """The task as the client sees it. What was abandoned is settled first."""
        record = task.record
        shown: dict[str, Any] = {
            "taskId": task.id,
            "status": "working",
            "createdAt": _format_time(record.created_us),
            "lastUpdatedAt": _format_time(max(record.created_us, task.updated_us)),
            "ttlMs": task.call.ttl_ms,
            "pollIntervalMs": max(1, int(self._poll_s * 1_000)),
        }
        match record.status:
            case "completed":
                return shown | {"status": "completed", "result": await task.result()}
            case "failed":
                return shown | {"status": "failed", "statusMessage": record.summary, "error": await task.result()}
            case "cancelled":
                return shown | {"status": "cancelled", "statusMessage": record.summary}
            case "suspended":
                rounds = await task.rounds()
                if outstanding := rounds[-1].outstanding:
                    return shown | {"status": "input_required", "inputRequests": outstanding}
                self._continue(task.id, ctx)
                return shown
        return shown if task.has_worker else await self._settle(task, ctx, shown)

    async def _settle(
        self, task: StoredTask, ctx: ServerRequestContext[Any, Any], shown: dict[str, Any]
    ) -> dict[str, Any]:
        """A task that nobody works on: start it again if it may, else it has failed."""
        if task.id in self._runs or task.id in self._continued:
            return shown
        if await self._may_go_on(task):
            self._continue(task.id, ctx)
            return shown
        await _fail(task, _outcome_unknown(task.call.tool, "has stopped"))
        settled = await self._find(ctx, task.id)
        return shown if settled.record.is_live else await self._describe(settled, ctx)

    async def _sweep(self, engine: holdfast.AsyncEngine) -> None:
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + _SWEEP_S
            await task_frames.discard_expired(engine, int(self._ttl_s * 1_000), _SWEEP_TASKS)


def _start(runs: dict[str, asyncio.Task[None]], task_id: str, run: Coroutine[Any, Any, None]) -> None:
    """Run something for a task in the background, and keep hold of it until it ends."""
    task = runs[task_id] = asyncio.get_running_loop().create_task(run, name=f"mcp-task-{task_id[:8]}")

    def forget(done: asyncio.Task[None]) -> None:
        del runs[task_id]
        if not done.cancelled() and (error := done.exception()) is not None:
            _logger.warning("The work on a task of MCP ended without an outcome: %s", error, exc_info=error)

    task.add_done_callback(forget)


def declares_tasks(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client can be given a task in answer to this request."""
    capabilities = ctx.session.client_capabilities
    declared = capabilities.extensions if capabilities else None
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION_ID in (declared or {})


def _fixed_owner(engine: holdfast.AsyncEngine) -> OwnerSource:
    return lambda ctx: TaskOwner(engine, authenticated_principal(ctx) or "")


def _outcome_unknown(tool: str, what: str) -> MCPError:
    text = (
        f"The process that ran the tool {tool!r} {what} before the tool had answered. Whether the tool has taken effect is "
        "unknown: check that before you call it again."
    )
    return MCPError(INTERNAL_ERROR, text, {"reason": "outcome_unknown"})


async def _fail(task: StoredTask, error: MCPError) -> None:
    with suppress(AlreadyTerminal):
        await task.frame.pop("failed", error.error.message[:_SUMMARY_CHARS], result=_dump(error.error), cascade=True)


async def _wait_for_end(task: StoredTask) -> None:
    """Wait until the frame of the task ends, whichever process ends it."""
    version = (await task.session.state()).version
    async with task.engine.watch(task.id, actor=task_frames.TASKS_ACTOR, after=version) as events:
        async for _ in events:
            if not (await task.frame.state()).is_live:
                return


def _check_answers(answers: dict[str, Any]) -> None:
    try:
        CallToolRequestParams.model_validate({"name": "task", "inputResponses": answers}, by_name=False)
    except ValidationError as error:
        raise MCPError(
            INVALID_PARAMS, "An answer is not of the kind that was asked for. Nothing was stored."
        ) from error


def _check_name_header(ctx: ServerRequestContext[Any, Any], task_id: str) -> None:
    """Over HTTP, the header Mcp-Name must name the same task, so that what routes requests can rely on it."""
    headers = getattr(ctx.request, "headers", None)
    if isinstance(headers, Mapping) and decode_header_value(headers.get(MCP_NAME_HEADER)) != task_id:
        raise MCPError(HEADER_MISMATCH, "The header Mcp-Name is missing, or names another task than the request.")


def _format_time(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat().replace("+00:00", "Z")


def _dump(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped
