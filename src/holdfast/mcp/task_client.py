"""The client of tasks, for the official client of MCP: a call that became a task is waited for.

    async with Client(url, extensions=[TasksClient(elicit=show_form)]) as client:
        result = await client.call_tool("build_report", {"year": 2026})

Laws: it asks no more often than the server wants; each question of a task is shown once; an error of the protocol that the
task ended with is raised, as if there had been no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Literal

from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, ElicitRequestParams, ElicitResult, Request, RequestParams, Result
from pydantic import TypeAdapter

from holdfast.mcp.tasks import EXTENSION_ID

Elicitation = Callable[[ClientSession, ElicitRequestParams], Awaitable[ElicitResult]]
_POLL_S = 1.0
_FORM: TypeAdapter[ElicitRequestParams] = TypeAdapter(ElicitRequestParams)


class TaskStarted(Result):
    """What a server returns for a call that became a task."""

    result_type: Literal["task"]
    task_id: str
    poll_interval_ms: int | None = None


class TaskAnswer(Result, extra="allow"):
    """The answer to a request about a task."""


class TaskParameters(RequestParams):
    """The parameters of these requests."""

    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParameters, str]):
    """A request about a task. Over HTTP, a header names the task, too."""

    name_param: ClassVar[str | None] = "taskId"


class TasksClient(ClientExtension):
    """Lets a client call tools that become tasks. `elicit` shows the questions of a task to the user; without it, a task
    that asks is cancelled."""

    identifier = EXTENSION_ID

    def __init__(self, elicit: Elicitation | None = None) -> None:
        self._elicit = elicit

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=TaskStarted, resolve=self._wait),)

    async def _wait(self, started: TaskStarted, context: ClaimContext) -> CallToolResult:
        session, task_id = context.session, started.task_id
        pause_s = _POLL_S if started.poll_interval_ms is None else started.poll_interval_ms / 1_000
        shown: set[str] = set()
        while True:
            state = await self._send(session, "tasks/get", TaskParameters(task_id=task_id))
            match state.get("status"):
                case "completed":
                    return CallToolResult.model_validate(state["result"], by_name=False)
                case "failed":
                    error = state["error"]
                    raise MCPError(error["code"], error["message"], error.get("data"))
                case "cancelled":
                    raise MCPError(INTERNAL_ERROR, f"The task was cancelled. {state.get('statusMessage', '')}".strip())
                case "input_required":
                    await self._answer(session, task_id, state["inputRequests"], shown)
            await asyncio.sleep(pause_s)

    async def _answer(
        self, session: ClientSession, task_id: str, requests: dict[str, dict[str, Any]], shown: set[str]
    ) -> None:
        for key, request in requests.items():
            if key in shown:
                continue
            shown.add(key)
            if self._elicit is None or request["method"] != "elicitation/create":
                await self._send(session, "tasks/cancel", TaskParameters(task_id=task_id))
                return
            answer = await self._elicit(session, _FORM.validate_python(request["params"], by_name=False))
            given = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
            await self._send(session, "tasks/update", TaskParameters(task_id=task_id, input_responses={key: given}))

    async def _send(self, session: ClientSession, method: str, params: TaskParameters) -> dict[str, Any]:
        answer = await session.send_request(TaskRequest(method=method, params=params), TaskAnswer)
        return answer.model_extra or {}
