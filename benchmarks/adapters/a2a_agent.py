"""A2A: the desk as an executor behind the SDK's server and client, with the SDK's task store on SQLite, and with ours.

The conversation is one task that waits for input after each reply. Progress is told as A2A does it, by messages of the
status: the call before the tool runs, and its result. The executor keeps nothing: it builds each request from the task.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import httpx
from a2a.client.client import Client, ClientConfig
from a2a.client.client_factory import create_client
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, TaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    ROLE_USER,
    TASK_STATE_CANCELED,
    TASK_STATE_SUBMITTED,
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    ListTasksRequest,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskStatus,
)
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct, Value
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

import holdfast
from benchmarks.adapters.messages_api import shown_in
from benchmarks.adapters.workload import (
    BUDGET,
    KEY,
    SYSTEM,
    USER,
    Model,
    Survivors,
    address,
    order,
    question,
    strings_in,
)
from holdfast.a2a import HoldfastTaskStore

CARD = AgentCard(
    name="desk",
    description="The order desk.",
    version="1",
    capabilities=AgentCapabilities(streaming=False),
    skills=[AgentSkill(id="orders", name="orders", description="Looks orders up.", tags=["orders"])],
    default_input_modes=["text"],
    default_output_modes=["text"],
    supported_interfaces=[AgentInterface(url="http://desk/rpc", protocol_binding="JSONRPC", protocol_version="1.0")],
)


class Context(Protocol):
    """What the model is shown of a task before this turn has its first reply."""

    async def __call__(self, request: RequestContext, task: Task) -> list[Any]: ...


async def read_history(request: RequestContext, task: Task) -> list[Any]:
    """The history of the task as it is."""
    return [show(each) for each in task.history]


def show(message: Message) -> list[str]:
    return [part.text or json.dumps(MessageToDict(part.data)) for part in message.parts]


class PackedHistory:
    """The pack of the session that the task store keeps for the task."""

    def __init__(self, engine: holdfast.Engine, store: HoldfastTaskStore) -> None:
        self._engine, self._store = engine, store

    async def __call__(self, request: RequestContext, task: Task) -> list[Any]:
        session = self._engine.session(task.context_id, thread=task.id, user=USER, create=True)
        await self._store.save(task, request.call_context)  # with the question, whose facts are read here
        return shown_in(session.pack(budget=BUDGET).anthropic())


RunTool = Callable[[RequestContext, str], Awaitable[str]]
"""Runs the tool of a task, with the number of an order."""


class Desk(AgentExecutor):
    def __init__(self, context: Context, model: Model, run_tool: RunTool) -> None:
        self._context, self._model, self._run_tool = context, model, run_tool

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        assert context.message is not None
        if context.current_task is None:
            begun = TaskStatus(state=TASK_STATE_SUBMITTED)
            task = Task(id=context.task_id, context_id=context.context_id, status=begun, history=[context.message])
            await event_queue.enqueue_event(task)
        else:
            task = join(context.current_task, context.message)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        shown = await self._context(context, task)
        step = self._model.answer(SYSTEM, shown, answers_tool=False)
        assert not isinstance(step, str)
        name = f"call_{step.order}"
        asked = updater.new_agent_message([make_data({"call": name, "tool": "look_up", "number": step.order})])
        await updater.start_work(asked)
        found = json.loads(await self._run_tool(context, step.order))
        result = updater.new_agent_message([make_data({"call": name, "result": found})])
        await updater.start_work(result)
        reply = self._model.answer(SYSTEM, shown, show(asked), show(result), answers_tool=True)
        await updater.requires_input(updater.new_agent_message([Part(text=str(reply))]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).update_status(TASK_STATE_CANCELED)


def join(current: Task, message: Message) -> Task:
    """The task with what was said last, and with the new question."""
    task = Task()
    task.CopyFrom(current)
    if task.status.HasField("message"):
        task.history.append(task.status.message)
        task.status.ClearField("message")
    if all(each.message_id != message.message_id for each in task.history):
        task.history.append(message)
    return task


def make_data(fields: dict[str, Any]) -> Part:
    struct = Struct()
    struct.update(fields)
    return Part(data=Value(struct_value=struct))


class TaskAgent:
    """A client with one task."""

    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._opened: holdfast.Engine | None = None
        store: TaskStore
        context: Context = read_history

        async def run_plainly(_request: RequestContext, number: str) -> str:
            return await asyncio.to_thread(look_up, number)

        run_tool: RunTool = run_plainly
        if side == "ours":
            self._opened = holdfast.open(folder / "ours.db")
            self._opened.ledger(user=USER).set(KEY, address(0))
            store = tasks = HoldfastTaskStore(self._opened)
            context = PackedHistory(self._opened, store)

            async def run_observed(request: RequestContext, number: str) -> str:
                assert request.task_id is not None
                found: str = await tasks.run_tool(request.task_id, request.call_context, look_up, number=number)
                return found

            run_tool = run_observed
        else:
            store = DatabaseTaskStore(create_async_engine(f"sqlite+aiosqlite:///{folder / 'own.db'}"))
        desk = Desk(context, model, run_tool)
        handler = DefaultRequestHandler(agent_executor=desk, task_store=store, agent_card=CARD)
        app = Starlette(routes=[*create_agent_card_routes(CARD), *create_jsonrpc_routes(handler, "/rpc")])
        transport = httpx.ASGITransport(app=app)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://desk", timeout=60)
        self._client: Client = self._loop.run_until_complete(
            create_client(CARD, ClientConfig(httpx_client=self._http, streaming=False))
        )
        self._task = Task()

    def turn(self, text: str) -> None:
        self._loop.run_until_complete(self._turn(text))

    async def _turn(self, text: str) -> None:
        sent = Message(
            message_id=f"user {text}",
            role=ROLE_USER,
            parts=[Part(text=text)],
            task_id=self._task.id,
            context_id=self._task.context_id,
        )
        brief = SendMessageConfiguration(history_length=1)  # the client has seen the rest
        async for event in self._client.send_message(SendMessageRequest(message=sent, configuration=brief)):
            self._task = event.task

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


open_agent = TaskAgent


def survey(side: str, folder: Path, turns: int) -> Survivors:
    if side == "ours":
        with holdfast.open(folder / "ours.db") as engine:
            store = HoldfastTaskStore(engine)
            [task] = asyncio.run(store.list(ListTasksRequest(), ServerCallContext())).tasks
            session = engine.session(task.context_id, thread=task.id)
            stored = "\n".join(message.text for message in session.messages(limit=20))
            unknown = store.tool_runs(task.id, ServerCallContext()).recover().unknown_outcomes
    else:
        [(history, status)] = sqlite3.connect(folder / "own.db").execute("SELECT history, status FROM tasks")
        stored = "\n".join(strings_in([json.loads(history), json.loads(status)]))
        unknown = ()
    asked, called = question(turns - 1) in stored, f"call_{order(turns - 1)}" in stored
    return Survivors(question=asked, call=called, unknown=bool(unknown and unknown[0].key))
