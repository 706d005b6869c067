"""The task store answers as the SDK's own does; its tasks are conversations; the SDK's server and client work on it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.auth.user import User
from a2a.client.client import ClientConfig
from a2a.client.client_factory import create_client
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    ROLE_AGENT,
    ROLE_USER,
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_SUBMITTED,
    TASK_STATE_WORKING,
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    SendMessageRequest,
    Task,
    TaskStatus,
)
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

import holdfast
from holdfast.a2a import HoldfastTaskStore, current_call


class Named(User):
    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._name


NOBODY = ServerCallContext()
ADA, BO, MAIN = (ServerCallContext(user=Named(name)) for name in ("ada", "bo", "main"))


def message(text: str, role: Any = ROLE_USER, name: str = "") -> Message:
    return Message(message_id=name or f"m-{text}", role=role, parts=[Part(text=text)])


def task(name: str = "t1", *texts: str, state: Any = TASK_STATE_WORKING, at_s: int | None = 1) -> Task:
    status = TaskStatus(state=state, timestamp=None if at_s is None else Timestamp(seconds=at_s))
    return Task(id=name, context_id="c1", status=status, history=[message(text) for text in texts])


def rich_task() -> Task:
    made = task("rich", "hello")
    made.metadata.CopyFrom(Struct())
    made.metadata.update({"a": [1, 2.5, None, True], "b": {"c": "ü\0"}})
    made.history.append(
        Message(
            message_id="m2",
            role=ROLE_AGENT,
            parts=[
                Part(raw=b"\x00\xff", filename="a.bin", media_type="application/octet-stream"),
                Part(url="https://example.org/x"),
                Part(data=Value(number_value=3)),
            ],
        )
    )
    made.artifacts.append(Artifact(artifact_id="a1", name="report", parts=[Part(text="all is well")]))
    return made


def run(work: Any) -> Any:
    return asyncio.run(work)


def test_a_task_comes_back_as_it_was_saved(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(engine)
        odd = task("odd")
        odd.metadata.update({"nan": float("nan")})
        for saved in (rich_task(), task("plain", "hi"), Task(id="bare"), task("x" * 400, "long name")):
            await store.save(saved, ADA)
            assert await HoldfastTaskStore(engine).get(saved.id, ADA) == saved
        await store.save(odd, ADA)
        found = await store.get("odd", ADA)
        assert found is not None
        assert found.SerializeToString(deterministic=True) == odd.SerializeToString(deterministic=True)

    run(scenario())
    assert engine.admin.verify().ok


def test_a_task_is_a_conversation(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(engine)
        saved = task("t1", "Where is my order?")
        await store.save(saved, ADA)
        saved.status.message.CopyFrom(message("Which one?", ROLE_AGENT))
        await store.save(saved, ADA)
        saved.history.append(saved.status.message)
        saved.history.append(message("The lamp."))
        saved.status.ClearField("message")
        await store.save(saved, ADA)
        saved.status.state = TASK_STATE_COMPLETED
        saved.artifacts.append(Artifact(artifact_id="a1", parts=[Part(text="It is at the depot.")]))
        await store.save(saved, ADA)
        await store.save(saved, ADA)

    run(scenario())
    session = engine.session("c1", actor="ada", thread="t1")
    said = [(each.role, each.text) for each in session.messages() if not each.withdrawn]
    assert said == [
        ("user", "Where is my order?"),
        ("assistant", "Which one?"),
        ("user", "The lamp."),
        ("assistant", "It is at the depot."),
    ]
    assert "It is at the depot." in session.pack().text
    assert len(session.entries.list()) == 4


def test_owners_do_not_see_each_other(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(engine)
        for owner, text in ((ADA, "ada's"), (BO, "bo's"), (NOBODY, "nobody's"), (MAIN, "main's")):
            await store.save(task("t1", text), owner)
        for owner, text in ((ADA, "ada's"), (BO, "bo's"), (NOBODY, "nobody's"), (MAIN, "main's")):
            found = await store.get("t1", owner)
            assert found is not None
            assert found.history[0].parts[0].text == text
            assert (await store.list(ListTasksRequest(), owner)).total_size == 1
        await store.delete("t1", ADA)
        assert await store.get("t1", ADA) is None
        assert await store.get("t1", BO) is not None

    run(scenario())


def test_a_deleted_task_is_gone_and_its_id_is_free(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(engine)
        for text in ("first", "second", "third"):
            await store.save(task("t1", f"{text} secret"), ADA)
            found = await store.get("t1", ADA)
            assert found is not None
            assert found.history[0].parts[0].text == f"{text} secret"
            await store.delete("t1", ADA)
            assert await store.get("t1", ADA) is None
            assert (await store.list(ListTasksRequest(), ADA)).total_size == 0
        await store.delete("t1", ADA)

    run(scenario())
    payloads = b"".join(event.payload or b"" for event in engine.admin.feed().events)
    assert b"secret" not in payloads


def test_growing_histories_are_stored_once(file_engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(file_engine)
        saved = task("t1")
        for number in range(60):
            saved.history.append(message(f"message {number} " + "word " * 100))
            await store.save(saved, ADA)

    run(scenario())
    session = file_engine.session("c1", actor="ada", thread="t1")
    given = sum(entry.size for entry in session.entries.list(bodies=False))
    stored = sum(len(event.payload or b"") for event in session.events(limit=1_000))
    assert given > 4 * stored


def test_two_processes_save_one_task(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        first, second = HoldfastTaskStore(engine), HoldfastTaskStore(engine)
        saves = [
            store.save(task("t1", f"{at} {number}"), ADA)
            for at, store in enumerate((first, second))
            for number in range(5)
        ]
        await asyncio.gather(*saves)
        assert await first.get("t1", ADA) == await second.get("t1", ADA)

    run(scenario())
    assert len(engine.session("c1", actor="ada", thread="t1").entries.list()) >= 2
    assert engine.admin.verify().ok


def test_any_text_may_be_asked_for(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(engine)
        for name in ("", "\0", "a\nb", "x" * 9_000):
            assert await store.get(name, ADA) is None
            await store.delete(name, ADA)

    run(scenario())


def test_a_task_that_cannot_be_stored_is_not_listed(file_engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(file_engine)
        large = task("t1")
        large.history.append(Message(message_id="m1", role=ROLE_USER, parts=[Part(raw=bytes(60 << 20))]))
        with pytest.raises(holdfast.errors.TooLarge):
            await store.save(large, ADA)
        assert (await store.list(ListTasksRequest(), ADA)).total_size == 0
        await store.save(task("t1", "small"), ADA)
        assert (await store.list(ListTasksRequest(), ADA)).total_size == 1
        with pytest.raises(holdfast.errors.TooLarge):
            await store.save(large, ADA)
        assert await store.get("t1", ADA) == task("t1", "small")

    run(scenario())


def test_a_message_of_many_parts(file_engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(file_engine)
        saved = task("t1")
        parts = [Part(text=f"part {number}") for number in range(1_500)]
        saved.history.append(Message(message_id="m1", role=ROLE_USER, parts=parts))
        await store.save(saved, ADA)
        assert await store.get("t1", ADA) == saved

    run(scenario())
    [recorded] = file_engine.session("c1", actor="ada", thread="t1").messages()
    assert "part 1499" in recorded.text


def test_messages_without_ids(file_engine: holdfast.Engine) -> None:
    """They are told apart by their content, so a history that is cut off at the front goes on."""

    async def scenario() -> None:
        store = HoldfastTaskStore(file_engine)
        saved = task("t1")
        saved.history.extend(Message(role=ROLE_USER, parts=[Part(text=text)]) for text in ("one", "yes", "yes", "two"))
        await store.save(saved, ADA)
        del saved.history[:1]
        saved.history.append(Message(role=ROLE_USER, parts=[Part(text="three")]))
        await store.save(saved, ADA)

    run(scenario())
    messages = file_engine.session("c1", actor="ada", thread="t1").messages()
    assert [each.text for each in messages] == ["one", "yes", "yes", "two", "three"]
    assert not any(each.withdrawn for each in messages)


def test_a_task_whose_session_was_destroyed_begins_again(file_engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(file_engine)
        await store.save(task("t1", "one"), ADA)
        file_engine.session("c1", actor="ada", thread="t1").destroy(offload=False)
        assert await store.get("t1", ADA) is None
        await store.save(task("t1", "two"), ADA)
        assert await store.get("t1", ADA) == task("t1", "two")
        for _ in range(25):
            await store.delete("t1", ADA)
            await store.save(task("t1", "three"), ADA)
        assert await store.get("t1", ADA) == task("t1", "three")

    run(scenario())


def test_saves_and_deletes_at_once(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(engine)
        await asyncio.gather(
            *(
                store.save(task("t1", f"message {number}"), ADA) if number % 3 else store.delete("t1", ADA)
                for number in range(12)
            )
        )
        await store.save(task("t1", "last"), ADA)
        assert await store.get("t1", ADA) == task("t1", "last")

    run(scenario())
    assert engine.admin.verify().ok


STATES = (TASK_STATE_SUBMITTED, TASK_STATE_WORKING, TASK_STATE_COMPLETED)
OPERATIONS = st.one_of(
    st.tuples(
        st.just("save"),
        st.builds(
            lambda name, text, state, at: task(name, text, state=state, at_s=at),
            st.sampled_from(["t1", "t2", "t3"]),
            st.sampled_from(["one", "two"]),
            st.sampled_from(STATES),
            st.sampled_from([None, 1, 2, 3]),
        ),
    ),
    st.tuples(st.sampled_from(["get", "delete"]), st.sampled_from(["t1", "t2", "none"])),
    st.tuples(
        st.just("list"),
        st.builds(
            lambda context, state, size: ListTasksRequest(context_id=context, status=state, page_size=size),
            st.sampled_from(["", "c1", "c2"]),
            st.sampled_from([0, *STATES]),
            st.sampled_from([0, 1, 2]),
        ),
    ),
)


@settings(max_examples=25)
@given(st.lists(OPERATIONS, max_size=12))
def test_it_answers_as_their_own_store_does(operations: list[tuple[str, Any]]) -> None:
    async def scenario() -> None:
        with holdfast.open("memory:") as engine:
            theirs, ours = InMemoryTaskStore(), HoldfastTaskStore(engine)
            for name, argument in operations:
                one, other = [await getattr(store, name)(argument, ADA) for store in (theirs, ours)]
                assert one == other, name
                while name == "list" and one.next_page_token:
                    argument.page_token = one.next_page_token
                    one, other = [await getattr(store, name)(argument, ADA) for store in (theirs, ours)]
                    assert one == other

    asyncio.run(scenario())


class Desk(AgentExecutor):
    """An agent that asks which order, and then answers."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        if context.current_task is None:
            assert context.message is not None
            status = TaskStatus(state=TASK_STATE_SUBMITTED)
            await event_queue.enqueue_event(
                Task(id=context.task_id, context_id=context.context_id, status=status, history=[context.message])
            )
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        text = context.get_user_input()
        if "lamp" not in text:
            await updater.requires_input(updater.new_agent_message([Part(text="Which order?")]))
            return
        await updater.add_artifact([Part(text="The lamp is at the depot.")], name="answer")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).update_status(TASK_STATE_CANCELED)


def build_app(engine: holdfast.Engine) -> tuple[Starlette, AgentCard]:
    card = AgentCard(
        name="desk",
        description="The order desk.",
        version="1",
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["text"],
        default_output_modes=["text"],
        supported_interfaces=[
            AgentInterface(url="http://desk/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
    )
    handler = DefaultRequestHandler(agent_executor=Desk(), task_store=HoldfastTaskStore(engine), agent_card=card)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]), card


SERVERS: list[Starlette] = []
"""They are held: one that is collected ends its requests in whatever thread that happens, where the SDK waits forever for a
lock of its own."""


async def send(engine: holdfast.Engine, text: str, name: str = "", context: str = "") -> Task:
    """Send a message with the SDK's client to a server that was just started."""
    app, card = build_app(engine)
    SERVERS.append(app)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://desk") as http:
        client = await create_client(card, ClientConfig(httpx_client=http, streaming=False))
        sent = Message(
            message_id=f"u-{text}", role=ROLE_USER, parts=[Part(text=text)], task_id=name, context_id=context
        )
        last: Any = None
        async for event in client.send_message(SendMessageRequest(message=sent)):
            last = event
        found = last.task if last.HasField("task") else None
        assert found is not None
        return await client.get_task(GetTaskRequest(id=found.id))


def test_the_server_and_the_client_of_the_sdk(engine: holdfast.Engine) -> None:
    """Each message reaches another server on the same store."""

    async def scenario() -> Task:
        asked = await send(engine, "Where is my order?")
        return await send(engine, "The lamp.", asked.id, asked.context_id)

    done = run(scenario())
    assert done.status.state == TASK_STATE_COMPLETED
    session = engine.session(done.context_id, thread=done.id)
    said = [each.text for each in session.messages() if not each.withdrawn]
    assert said == ["Where is my order?", "Which order?", "The lamp.", "The lamp is at the depot."]
    assert engine.admin.verify().ok


CHILD = """
import asyncio, os, sys
import holdfast
from tests.frameworks.a2a.test_task_store import ADA, HoldfastTaskStore, task

async def main():
    store = HoldfastTaskStore(holdfast.open(sys.argv[1]))
    for number in range(1_000):
        await store.save(task("t1", *(f"message {each}" for each in range(number + 1))), ADA)
        print(number, flush=True)

asyncio.run(main())
"""


def test_kill_9_loses_no_saved_task(url: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, url], cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    acknowledged = [int(next(child.stdout)) for _ in range(12)][-1]
    child.kill()
    rest = [int(line) for line in child.stdout]
    child.wait()
    acknowledged = max([acknowledged, *rest])
    with holdfast.open(url) as engine:
        found = run(HoldfastTaskStore(engine).get("t1", ADA))
        assert found is not None
        assert len(found.history) >= acknowledged + 1
        run(HoldfastTaskStore(engine).save(found, ADA))
        session = engine.session("c1", actor="ada", thread="t1")
        assert [each.text for each in session.messages(limit=1_000)] == [
            f"message {n}" for n in range(len(found.history))
        ]
        assert engine.admin.verify().ok


TOOL_CHILD = """
import asyncio, os, signal, sys
import holdfast
from holdfast.a2a import current_call
from tests.frameworks.a2a.test_task_store import ADA, HoldfastTaskStore, task

def pay(to, euros):
    print(current_call().key, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    store = HoldfastTaskStore(holdfast.open(sys.argv[1]))
    await store.save(task("t1", "Pay Rossi."), ADA)
    await store.run_tool("t1", ADA, pay, to="Rossi", euros=40)

asyncio.run(main())
"""


def test_kill_9_in_a_tool_leaves_an_unknown_outcome_with_its_key(url: str) -> None:
    command = [sys.executable, "-c", TOOL_CHILD, url]
    key = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False).stdout
    with holdfast.open(url) as engine:
        store = HoldfastTaskStore(engine)
        runs = store.tool_runs("t1", ADA)
        (unknown,) = runs.recover().unknown_outcomes
        assert unknown.key == key.strip() != ""
        (call,) = runs.messages()[-1].tool_calls
        assert (call.name, call.args) == ("pay", {"to": "Rossi", "euros": 40})
        assert runs.frames.get(str(unknown.frame)).result(str(unknown.call), "The bank says: paid.").text
        assert not runs.recover().unknown_outcomes
        assert run(store.run_tool("t1", ADA, lambda: 1)) == 1
        assert [each.text for each in engine.session("c1", actor="ada", thread="t1").messages()] == ["Pay Rossi."]
        assert engine.admin.verify().ok


def test_tools_of_a_task_run_once_each_with_any_value(engine: holdfast.Engine) -> None:
    store, keys = HoldfastTaskStore(engine), set[str]()
    run(store.save(task("t1", "hello"), ADA))
    odd = object()

    def look_up(order: str) -> Any:
        call = current_call()
        assert call is not None
        keys.add(call.key)
        return {"order": order} if order != "odd" else odd

    async def wait(order: str) -> str:
        call = current_call()
        assert call is not None
        keys.add(call.key)
        await asyncio.sleep(0)
        return order

    def fail() -> None:
        raise ValueError("no route to the bank")

    async def scenario() -> list[Any]:
        runs = [store.run_tool("t1", ADA, look_up, order=each) for each in ("7", "odd")]
        return await asyncio.gather(*runs, store.run_tool("t1", ADA, wait, order="8"))

    assert run(scenario()) == [{"order": "7"}, odd, "8"]
    assert len(keys) == 3
    with pytest.raises(ValueError, match="no route"):
        run(store.run_tool("t1", ADA, fail))
    runs = store.tool_runs("t1", ADA)
    said = sorted(each.text for each in runs.messages() if each.role == "tool")
    assert said == ["8", "ValueError: no route to the bank", "[a value of type object]", '{"order":"7"}']
    assert not runs.recover().unknown_outcomes
    assert [each.status for each in runs.frames.list()].count("failed") == 1
    with pytest.raises(holdfast.errors.InvalidArgument, match="save"):
        run(store.run_tool("t1", BO, look_up, order="7"))
    assert run(store.list(ListTasksRequest(), ADA)).total_size == 1
    assert "hello" in engine.session("c1", actor="ada", thread="t1").pack().text
    assert "look_up" not in engine.session("c1", actor="ada", thread="t1").pack().text
    run(store.delete("t1", ADA))
    with pytest.raises(holdfast.errors.SessionNotFound):
        runs.state()
    run(store.save(task("t1", "again"), ADA))
    assert run(store.run_tool("t1", ADA, wait, order="9")) == "9"
    assert engine.admin.verify().ok


def test_a_tool_that_is_cancelled_may_have_taken_effect(file_engine: holdfast.Engine) -> None:
    store = HoldfastTaskStore(file_engine)
    run(store.save(task("t1", "hello"), ADA))

    async def scenario() -> None:
        begun = asyncio.Event()

        async def book() -> None:
            begun.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(store.run_tool("t1", ADA, book))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(scenario())
    (unknown,) = store.tool_runs("t1", ADA).recover().unknown_outcomes
    assert unknown.key is not None
    assert len(unknown.key) == 32


def test_an_awaited_engine_is_refused() -> None:
    with pytest.raises(holdfast.errors.InvalidArgument, match="blocking"):
        HoldfastTaskStore(object())  # type: ignore[arg-type]
