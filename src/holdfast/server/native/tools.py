"""The tools of the engine over HTTP: read_handle, recall_memory and update_situation, for a model at the other end."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.api.parts import RunDemand, ToolText
from holdfast.errors import CallNotFound, InvalidArgument, describe_value
from holdfast.model.situation.situations import UPDATE_SITUATION
from holdfast.model.tools.tool import READ_HANDLE, RECALL_MEMORY
from holdfast.server.native.calls import Answer, Call
from holdfast.server.native.objects import open_conversation
from holdfast.server.native.turns import read_demand

TOOLS = (READ_HANDLE.name, RECALL_MEMORY.name, UPDATE_SITUATION.name)


async def use_tool(call: Call) -> Response:
    """Call a tool of the engine."""
    name = call.names["tool"]
    if name not in TOOLS:
        reason = f"{describe_value(name)} is not one of {', '.join(TOOLS)}; the program runs its own tools"
        raise InvalidArgument(argument="tool", reason=reason)
    if name == UPDATE_SITUATION.name:
        call.access.check("write")
    arguments = await call.read_json()
    conversation = await open_conversation(call)
    tools: dict[str, Any] = {
        READ_HANDLE.name: conversation.handles.tool,
        RECALL_MEMORY.name: conversation.recall_tool,
        UPDATE_SITUATION.name: conversation.situation.tool,
    }
    return Answer(msgspec.json.encode(ToolText(await tools[name]().function(**arguments))))


async def run_call(call: Call) -> Response:
    """Run an open call of a tool of the engine, and store its result."""
    demand = await read_demand(call, RunDemand)
    conversation = await open_conversation(call)
    wanted = call.names["call"]
    found = [each for each in await conversation.open_calls() if wanted in (each.id, each.provider_id)]
    if not found:
        raise CallNotFound(call=wanted, session=conversation.scope.session)
    if found[-1].name not in TOOLS:
        reason = f"{describe_value(found[-1].name)} is a tool of the program: run it there, and send its result"
        raise InvalidArgument(argument="call", reason=reason)
    functions = [conversation.handles.tool(), conversation.recall_tool(), conversation.situation.tool()]
    message = await conversation.run(found[-1], functions, call_key=demand.call_key, again=demand.again)
    return Answer(msgspec.json.encode(message))
