"""The fixtures that ask the client before they answer: multi round trip requests, and tasks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    ToolAnnotations,
)

from holdfast.mcp.server import AgentServer
from tests.conformance_mcp.fixtures import text


def elicit(message: str, **properties: str) -> ElicitRequest:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str) -> CreateMessageRequest:
    asked = [SamplingMessage(role="user", content=text(prompt))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=asked, max_tokens=100))


def given(answer: Any, name: str) -> str:
    return str((answer.content or {}).get(name)) if isinstance(answer, ElicitResult) else "?"


def add_single_rounds(server: MCPServer[Any]) -> None:
    @server.tool()
    async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        if "user_name" in answers:
            return f"Hello, {given(answers['user_name'], 'name')}!"
        return InputRequiredResult(input_requests={"user_name": elicit("What is your name?", name="string")})

    @server.tool()
    async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
        answer = (ctx.input_responses or {}).get("capital_question")
        if isinstance(answer, CreateMessageResult) and answer.content.type == "text":
            return f"The model said: {answer.content.text}"
        return InputRequiredResult(input_requests={"capital_question": sample("What is the capital of France?")})

    @server.tool()
    async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
        answer = (ctx.input_responses or {}).get("client_roots")
        if isinstance(answer, ListRootsResult):
            return f"The client has {len(answer.roots)} roots."
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})


def add_states(server: MCPServer[Any]) -> None:
    @server.tool()
    async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
        if "confirm" in (ctx.input_responses or {}) and ctx.request_state == "asked":
            return "state-ok: confirmed"
        return InputRequiredResult(input_requests={"confirm": elicit("Confirm", ok="boolean")}, request_state="asked")

    @server.tool()
    async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state is not None:
            return f"state-ok: {ctx.request_state}"
        return InputRequiredResult(input_requests={"confirm": elicit("Confirm", ok="boolean")}, request_state="asked")

    @server.tool()
    async def test_input_required_result_capabilities(ctx: Context) -> InputRequiredResult:
        declared = ctx.client_capabilities
        requests: dict[str, InputRequest] = {}
        if declared is None or declared.sampling is not None:
            requests["sample"] = sample("Say hello")
        if declared is None or declared.elicitation is not None:
            requests["ask"] = elicit("What is your name?", name="string")
        return InputRequiredResult(input_requests=requests, request_state="asked")


def add_more_rounds(server: MCPServer[Any]) -> None:
    @server.tool()
    async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
        requests: dict[str, InputRequest] = {
            "user_name": elicit("What is your name?", name="string"),
            "greeting": sample("Write a greeting"),
            "client_roots": ListRootsRequest(),
        }
        if requests.keys() <= (ctx.input_responses or {}).keys():
            return "All inputs received."
        return InputRequiredResult(input_requests=requests, request_state="asked")

    @server.tool()
    async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        state = json.loads(ctx.request_state) if ctx.request_state else {}
        if "color" in answers and "name" in state:
            return f"{state['name']} likes {given(answers['color'], 'color')}."
        if "name" in answers and state:
            kept = json.dumps({"round": 2, "name": given(answers["name"], "name")})
            return InputRequiredResult(
                input_requests={"color": elicit("Which color?", color="string")}, request_state=kept
            )
        first: dict[str, InputRequest] = {"name": elicit("What is your name?", name="string")}
        return InputRequiredResult(input_requests=first, request_state=json.dumps({"round": 1}))

    @server.prompt()
    async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | InputRequiredResult:
        answers = ctx.input_responses or {}
        if "user_context" in answers:
            return [UserMessage(content=text(f"Use this context: {given(answers['user_context'], 'context')}"))]
        return InputRequiredResult(input_requests={"user_context": elicit("Which context?", context="string")})


def add_tasks(agent: AgentServer) -> None:
    """The tools whose calls are tasks."""

    @agent.mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    async def slow_compute(seconds: float, label: str = "") -> str:
        await asyncio.sleep(seconds)
        return f"{label}: computed for {seconds} s"

    async def failing_job() -> str:
        raise RuntimeError("the job failed")

    async def protocol_error_job() -> str:
        raise MCPError(INTERNAL_ERROR, "the job broke the protocol")

    async def confirm_delete(filename: str, ctx: Context) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        if "confirm" in answers:
            return f"{filename}: {given(answers['confirm'], 'confirm')}"
        return InputRequiredResult(input_requests={"confirm": elicit(f"Delete {filename}?", confirm="boolean")})

    async def multi_input(ctx: Context) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        if {"first", "second"} <= answers.keys():
            return f"{given(answers['first'], 'name')} and {given(answers['second'], 'name')}"
        requests: dict[str, InputRequest] = {
            "first": elicit("First name?", name="string"),
            "second": elicit("Second name?", name="string"),
        }
        return InputRequiredResult(input_requests=requests)

    async def test_tool_with_task(ctx: Context) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        if "user_name" in answers:
            return f"Hello, {given(answers['user_name'], 'name')}!"
        return InputRequiredResult(input_requests={"user_name": elicit("Your name?", name="string")}, request_state="1")

    agent.add_task_tool(slow_compute)
    agent.add_task_tool(failing_job, required=True)
    agent.add_task_tool(protocol_error_job)
    agent.add_task_tool(confirm_delete)
    agent.add_task_tool(multi_input)
    agent.add_task_tool(test_tool_with_task, required=True, asks_first=True)


def add_input_fixtures(agent: AgentServer) -> None:
    add_single_rounds(agent.mcp)
    add_states(agent.mcp)
    add_more_rounds(agent.mcp)
    add_tasks(agent)
