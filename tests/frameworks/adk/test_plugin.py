"""Apps of ADK with the plugin: what the model is sent, what is recorded, and what a crash leaves."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode  # type: ignore[attr-defined]  # as its pages have it
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

import holdfast
from holdfast.adk import ArtifactService, Plugin, PluginOptions, SessionService, current_call
from tests.frameworks.adk.support import ScriptedModel, ask, build_runner, call, create, load, run, show

Build = Callable[[holdfast.Engine], BaseSessionService]
TAIL = "user: <holdfast-context>"
BOTH = pytest.mark.parametrize("build", [SessionService, lambda _: InMemorySessionService()], ids=["own", "in memory"])
"""The plugin records the same with a session service of Holdfast, and with one of ADK."""


def look(what: str) -> dict[str, Any]:
    """Look something up."""
    return {"seen": what}


def without_tail(request: LlmRequest) -> list[str]:
    lines = show(request)
    assert lines[-1].startswith(TAIL)
    assert not any(line.startswith(TAIL) for line in lines[:-1])
    return lines[:-1]


def opened(engine: holdfast.Engine, thread: str | None = None) -> holdfast.Session:
    return engine.session("s1", actor="desk/ada", thread=thread)


def lines_of(session: holdfast.Session) -> list[str]:
    return [
        f"{message.role}: {message.text}{''.join(f' {each.name}' for each in message.tool_calls)}"
        for message in session.messages()
        if not message.withdrawn
    ]


@BOTH
def test_what_the_model_is_sent_word_by_word(engine: holdfast.Engine, build: Build) -> None:
    """Parallel tools, then another turn. Each request extends the one before it, up to the tail."""
    keys: list[str] = []

    def pay(amount: int) -> dict[str, Any]:
        """Pay."""
        started = current_call()
        assert started is not None
        keys.append(started.key)
        return {"paid": amount}

    model = ScriptedModel.of(
        ["One moment.", call("pay", amount=3), call("look", what="lamp")], "Paid.", "You are welcome."
    )
    agent = LlmAgent(name="desk_agent", model=model, tools=[pay, look], instruction="Help.")
    service = build(engine)
    runner = build_runner(agent, service, Plugin(engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        await ask(runner, "Pay 3 for the lamp.")
        await ask(runner, "Thanks!")

    run(talk())
    first, second, third = (without_tail(request) for request in model.requests)
    assert first == ["user: Pay 3 for the lamp."]
    assert second == [
        "user: Pay 3 for the lamp.",
        "model: One moment.",
        "model: call pay {'amount': 3}",
        "model: call look {'what': 'lamp'}",
        "user: result pay {'paid': 3}",
        "user: result look {'seen': 'lamp'}",
    ]
    assert third == [*second, "model: Paid.", "user: Thanks!"]
    for request in model.requests:
        assert list(request.tools_dict) == ["pay", "look", "read_handle"]
    session = opened(engine)
    lines = lines_of(session)
    assert sorted(lines[2:4]) == ['tool: {"paid":3}', 'tool: {"seen":"lamp"}']  # as they ended
    assert lines[:2] + lines[4:] == [
        "user: Pay 3 for the lamp.",
        "assistant: One moment. pay look",
        "assistant: Paid.",
        "user: Thanks!",
        "assistant: You are welcome.",
    ]
    assert len(keys) == 1
    assert len(keys[0]) == 32
    replies = [message for message in session.messages() if message.role == "assistant"]
    usage = holdfast.Usage(input_tokens=100, output_tokens=10, cache_read_tokens=60, reasoning_tokens=3)
    assert [message.usage for message in replies] == [usage] * 3
    assert len(session.packs.list()) == 3
    assert session.recover().unknown_outcomes == ()
    assert "You are welcome." in session.pack().text
    assert engine.admin.verify().ok


@BOTH
def test_a_superseded_value_is_redacted_and_the_current_fact_shown(engine: holdfast.Engine, build: Build) -> None:
    model = ScriptedModel.of("To 12 Main Street, then.", "Noted.", "To 456 Oak Ave.")
    service = build(engine)
    runner = build_runner(LlmAgent(name="desk_agent", model=model), service, Plugin(engine, budget=8_000))
    ledger = engine.ledger(user="desk/ada")

    async def talk() -> None:
        await create(service)
        ledger.set("shipping_address", "12 Main Street")
        await ask(runner, "Ship it to 12 Main Street.")
        await ask(runner, "Actually, my shipping address is now 456 Oak Ave.")
        await ask(runner, "Where does it go?")

    run(talk())
    fact = ledger.get("shipping_address")
    assert fact is not None
    assert fact.value == "456 Oak Ave"
    assert without_tail(model.requests[-1]) == [
        "user: Ship it to [outdated: shipping_address].",
        "model: To [outdated: shipping_address], then.",
        "user: Actually, my shipping address is now 456 Oak Ave.",
        "model: Noted.",
        "user: Where does it go?",
    ]
    assert "shipping_address: 456 Oak Ave" in show(model.requests[-1])[-1]


def test_values_are_redacted_in_what_other_agents_said(file_engine: holdfast.Engine) -> None:
    """ADK quotes it; the quotation is redacted in its place."""
    front = ScriptedModel.of(
        ["It goes to 12 Main Street. I hand over.", call("transfer_to_agent", agent_name="billing")]
    )
    second = ScriptedModel.of("Paid.", "456 Oak Ave.")
    billing = LlmAgent(name="billing", description="Bills.", model=second)
    service = SessionService(file_engine)
    agent = LlmAgent(name="front", model=front, sub_agents=[billing])
    runner = build_runner(agent, service, Plugin(file_engine, budget=8_000))
    ledger = file_engine.ledger(user="desk/ada")

    async def talk() -> None:
        await create(service)
        ledger.set("shipping_address", "12 Main Street")
        await ask(runner, "Where does it go? And the bill?")
        ledger.set("shipping_address", "456 Oak Ave")
        await ask(runner, "And now?")

    run(talk())
    before, after = (without_tail(request) for request in second.requests)
    assert "\nIt goes to 12 Main Street. I hand over.\n" in before[2]
    assert before[2].startswith("user: [front] said:")
    assert before[4].startswith("user: [front] called tool `transfer_to_agent`") or "transfer_to_agent" in before[3]
    assert "12 Main Street" not in "".join(after)
    assert "\nIt goes to [outdated: shipping_address]. I hand over.\n" in after[2]
    assert after[-1] == "user: And now?"
    session = opened(file_engine)
    assert [message.metadata["adk"]["author"] for message in session.messages() if message.role == "assistant"] == [  # type: ignore[call-overload,index]  # an object
        "front",
        "billing",
        "billing",
    ]


@BOTH
def test_the_history_is_bounded(file_engine: holdfast.Engine, build: Build) -> None:
    """Old turns become a summary at boundaries; in between, each request extends the one before it."""
    model = ScriptedModel.of(*[f"Reply {number}. " + "More words here. " * 30 for number in range(30)])
    service = build(file_engine)
    runner = build_runner(LlmAgent(name="desk_agent", model=model), service, Plugin(file_engine, budget=3_000))

    async def talk() -> None:
        await create(service)
        for number in range(30):
            await ask(runner, f"Question {number}? " + "And so on. " * 20)

    run(talk())
    sizes = [sum(map(len, show(request))) // 4 for request in model.requests]
    assert max(sizes) < 3_000
    requests = [without_tail(request) for request in model.requests]
    boundaries = sum(later[: len(earlier)] != earlier for earlier, later in itertools.pairwise(requests))
    assert 1 <= boundaries <= 4
    assert "Summary of earlier context" in requests[-1][0]
    assert sum("Summary of earlier context" in line for line in requests[-1]) == 1
    assert requests[-1][-1].startswith("user: Question 29?")
    assert file_engine.admin.verify().ok


@BOTH
def test_a_large_result_is_shown_in_part_and_can_be_read(file_engine: holdfast.Engine, build: Build) -> None:
    def report() -> dict[str, Any]:
        """Make a report."""
        return {"rows": "\n".join(f"row {number} of the report" for number in range(9_000))}

    def read(request: LlmRequest) -> types.Part:
        handle = re.search(r"h\d+_\d+", "".join(show(request)))
        assert handle is not None
        return call("read_handle", handle=handle[0], search="row 8765")

    model = ScriptedModel.of(call("report"), read, "Found.", "Again.")
    service = build(file_engine)
    agent = LlmAgent(name="desk_agent", model=model, tools=[report])
    runner = build_runner(agent, service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        await ask(runner, "What is row 8765?")
        await ask(runner, "And?")

    run(talk())
    for request in model.requests:
        assert sum(map(len, show(request))) < 32_000
    answer = next(line for line in show(model.requests[2]) if line.startswith("user: result read_handle"))
    assert "row 8765 of the report" in answer
    assert without_tail(model.requests[3])[: len(show(model.requests[2])) - 1] == without_tail(model.requests[2])


@BOTH
def test_streaming_stores_the_reply_once(engine: holdfast.Engine, build: Build) -> None:
    model = ScriptedModel.of(["Hel", "lo."], "Bye.")
    service = build(engine)
    runner = build_runner(LlmAgent(name="desk_agent", model=model), service, Plugin(engine, budget=8_000))

    async def talk() -> list[Any]:
        await create(service)
        events = await ask(runner, "Hi", run_config=RunConfig(streaming_mode=StreamingMode.SSE))
        await ask(runner, "Bye")
        return events

    events = run(talk())
    assert [event.partial for event in events] == [True, True, None]
    assert lines_of(opened(engine)) == ["user: Hi", "assistant: Hello.", "user: Bye", "assistant: Bye."]
    assert len(opened(engine).packs.list()) == 2


def test_tools_change_state_and_save_artifacts(engine: holdfast.Engine) -> None:
    async def write(tool_context: ToolContext) -> dict[str, Any]:
        """Write a file."""
        tool_context.state["written"] = 1
        tool_context.state["user:files"] = ["a.txt"]
        tool_context.state["temp:secret"] = 2
        part = types.Part.from_bytes(data=b"content", mime_type="text/plain")
        version = await tool_context.save_artifact("a.txt", part)
        return {"version": version}

    model = ScriptedModel.of(call("write"), "Written.")
    service, artifacts = SessionService(engine), ArtifactService(engine)
    agent = LlmAgent(name="desk_agent", model=model, tools=[write], output_key="last")
    runner = build_runner(agent, service, Plugin(engine, budget=8_000), artifact_service=artifacts)

    async def talk() -> None:
        await create(service)
        await ask(runner, "Write.")
        session = await load(service)
        assert session.state == {"written": 1, "user:files": ["a.txt"], "last": "Written."}
        deltas = [event.actions.artifact_delta for event in session.events if event.actions.artifact_delta]
        assert deltas == [{"a.txt": 0}]
        where: dict[str, Any] = {"app_name": "desk", "user_id": "ada", "session_id": "s1"}
        assert await artifacts.list_artifact_keys(**where) == ["a.txt"]

    run(talk())


def test_a_rewind_takes_the_conversation_back(engine: holdfast.Engine) -> None:
    """Also the state, and artifacts; and no model sees what was rewound."""

    async def write(text: str, tool_context: ToolContext) -> dict[str, Any]:
        """Write a file."""
        tool_context.state["text"] = text
        await tool_context.save_artifact("a.txt", types.Part(text=text))
        return {}

    model = ScriptedModel.of(call("write", text="one"), "One.", call("write", text="two"), "Two.", "Three.")
    service, artifacts = SessionService(engine), ArtifactService(engine)
    agent = LlmAgent(name="desk_agent", model=model, tools=[write])
    runner = build_runner(agent, service, Plugin(engine, budget=8_000), artifact_service=artifacts)

    async def talk() -> None:
        await create(service)
        await ask(runner, "Write one.")
        events = await ask(runner, "Write two.")
        await runner.rewind_async(user_id="ada", session_id="s1", rewind_before_invocation_id=events[0].invocation_id)
        assert (await load(service)).state == {"text": "one"}
        loaded = await artifacts.load_artifact(app_name="desk", user_id="ada", session_id="s1", filename="a.txt")
        assert loaded == types.Part(text="one")
        assert lines_of(opened(engine)) == ["user: Write one.", "assistant:  write", "tool: {}", "assistant: One."]
        await ask(runner, "Write three.")

    run(talk())
    assert without_tail(model.requests[-1])[-1] == "user: Write three."
    assert "two" not in "".join(show(model.requests[-1])).lower()
    assert lines_of(opened(engine))[-2:] == ["user: Write three.", "assistant: Three."]
    assert engine.admin.verify().ok


@BOTH
def test_a_tool_that_runs_long_gets_its_result_later(file_engine: holdfast.Engine, build: Build) -> None:
    def approve() -> dict[str, Any]:
        """Ask for approval."""
        return {"status": "pending"}

    model = ScriptedModel.of(call("approve"), "I wait.", "Approved!")
    service = build(file_engine)
    agent = LlmAgent(name="desk_agent", model=model, tools=[LongRunningFunctionTool(approve)])
    runner = build_runner(agent, service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        events = await ask(runner, "Approve it.")
        asked = next(each for event in events for each in event.get_function_calls())
        answer = types.FunctionResponse(id=asked.id, name="approve", response={"status": "approved by Eve"})
        message = types.Content(role="user", parts=[types.Part(function_response=answer)])
        async for _ in runner.run_async(user_id="ada", session_id="s1", new_message=message):
            pass

    run(talk())
    sent = "\n".join(show(model.requests[-1]))
    assert "result approve {'status': 'approved by Eve'}" in sent
    assert "approved by Eve" in opened(file_engine).pack().text
    assert file_engine.admin.verify().ok


@BOTH
@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_tool_that_needs_a_confirmation_runs_once_it_has_it(
    file_engine: holdfast.Engine, build: Build, meanwhile: bool
) -> None:
    """ADK starts the same call a second time: that is no unknown outcome. Also if the user says something else before."""
    keys: list[str] = []

    def pay(amount: int) -> dict[str, Any]:
        """Pay."""
        started = current_call()
        keys.append(started.key if started else "")
        return {"paid": amount}

    model = ScriptedModel.of(call("pay", amount=3), *(["I wait."] if meanwhile else []), "Paid.", "Yes.")
    service = build(file_engine)
    agent = LlmAgent(name="desk_agent", model=model, tools=[FunctionTool(pay, require_confirmation=True)])
    runner = build_runner(agent, service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        events = await ask(runner, "Pay 3.")
        assert opened(file_engine).open_calls()
        asked = [each for event in events for each in event.get_function_calls()][-1]
        assert asked.name == "adk_request_confirmation"
        if meanwhile:
            await ask(runner, "One moment.")
        answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
        message = types.Content(role="user", parts=[types.Part(function_response=answer)])
        async for _ in runner.run_async(user_id="ada", session_id="s1", new_message=message):
            pass
        await ask(runner, "Done?")

    run(talk())
    assert [len(key) for key in keys] == [32]
    sent = without_tail(model.requests[-1])
    assert sum(line == "user: result pay {'paid': 3}" for line in sent) == 1
    assert sum(line.startswith("model: call pay") for line in sent) == 1
    assert sent[-1] == "user: Done?"
    assert opened(file_engine).recover().unknown_outcomes == ()
    if not meanwhile or isinstance(service, SessionService):
        assert re.search(r'"paid": ?3', opened(file_engine).pack().text)
    assert file_engine.admin.verify().ok


@BOTH
def test_the_error_of_a_tool_is_recorded_and_raised(file_engine: holdfast.Engine, build: Build) -> None:
    def fail() -> None:
        """Fail."""
        raise ConnectionError("no route to the bank")

    model = ScriptedModel.of(call("fail"), "I see.")
    service = build(file_engine)
    agent = LlmAgent(name="desk_agent", model=model, tools=[fail])
    runner = build_runner(agent, service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        with pytest.raises(ConnectionError):
            await ask(runner, "Do it.")
        await ask(runner, "And now?")

    run(talk())
    sent = without_tail(model.requests[-1])
    assert sent == [
        "user: Do it.",
        "model: call fail {}",
        "user: result fail {'error': 'ConnectionError: no route to the bank'}",
        "user: And now?",
    ]
    assert opened(file_engine).recover().unknown_outcomes == ()


def test_a_cancelled_tool_has_an_unknown_outcome_and_the_model_is_told(file_engine: holdfast.Engine) -> None:
    started = asyncio.Event()

    async def pay() -> dict[str, Any]:
        """Pay."""
        started.set()
        await asyncio.sleep(60)
        return {}

    model = ScriptedModel.of(call("pay"), "I will find out.")
    service = SessionService(file_engine)
    runner = build_runner(
        LlmAgent(name="desk_agent", model=model, tools=[pay]), service, Plugin(file_engine, budget=8_000)
    )

    async def talk() -> str:
        await create(service)
        task = asyncio.ensure_future(ask(runner, "Pay."))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (unknown,) = opened(file_engine).recover().unknown_outcomes
        await ask(runner, "Did you pay?")
        return str(unknown.key)

    key = run(talk())
    sent = without_tail(model.requests[-1])
    assert sent[:2] == ["user: Pay.", "model: call pay {}"]
    assert key in sent[2]
    assert "may have taken effect" in sent[2]
    assert sent[3:] == ["user: Did you pay?"]


def test_a_call_that_was_started_is_not_run_again(file_engine: holdfast.Engine) -> None:
    """ADK resumes an invocation that died in a tool. What then happens is for the program to say."""
    runs: list[str] = []

    async def before(plugin: Plugin, call_id: str) -> dict[str, Any] | None:
        service = SessionService(file_engine)
        agent = LlmAgent(name="desk_agent", model=ScriptedModel.of(), tools=[look])
        runner = build_runner(agent, service, plugin)
        session = await load(service)
        context = runner._new_invocation_context(session)
        tool = (await agent.canonical_tools())[0]
        asked = ToolContext(context, function_call_id=call_id)
        return await plugin.before_tool_callback(tool=tool, tool_args={}, tool_context=asked)

    async def talk() -> None:
        service = SessionService(file_engine)
        await create(service)
        model = ScriptedModel.of(call("look", what="x"), "Seen.")
        agent = LlmAgent(name="desk_agent", model=model, tools=[look])
        runner = build_runner(agent, service, Plugin(file_engine))
        async for event in runner.run_async(
            user_id="ada", session_id="s1", new_message=types.Content(role="user", parts=[types.Part(text="Look.")])
        ):
            if event.get_function_calls():
                runs.append(event.get_function_calls()[0].id or "")
                break
        call_id = runs[0]
        assert await before(Plugin(file_engine), call_id) is None
        with pytest.raises(holdfast.errors.OutcomeUnknown):
            await before(Plugin(file_engine), call_id)
        assert await before(Plugin(file_engine, repeatable=["look"]), call_id) is None
        told = await before(Plugin(file_engine, unknown="tell"), call_id)
        assert told is not None
        assert "outcome of this call is unknown" in told["error"]

    run(talk())


def test_an_agent_as_a_tool_has_its_own_conversation(file_engine: holdfast.Engine) -> None:
    """Its messages are written by a model: no fact is read from them."""
    inner = ScriptedModel.of("The name is Bob.")
    outer = ScriptedModel.of(call("helper", request="Actually, my shipping address is now 9 Elm Road."), "Done.")
    file_engine.ledger(user="desk/ada").set("shipping_address", "12 Main Street")
    helper = LlmAgent(name="helper", description="Helps.", model=inner)
    service = SessionService(file_engine)
    agent = LlmAgent(name="desk_agent", model=outer, tools=[AgentTool(helper)])
    runner = build_runner(agent, service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        await ask(runner, "Ask for help.")

    run(talk())
    assert without_tail(inner.requests[0]) == ["user: Actually, my shipping address is now 9 Elm Road."]
    assert without_tail(outer.requests[1])[-1] == "user: result helper {'result': 'The name is Bob.'}"
    fact = file_engine.ledger(user="desk/ada").get("shipping_address")
    assert fact is not None
    assert fact.value == "12 Main Street"
    assert file_engine.admin.verify().ok


def test_without_a_budget_requests_stay_as_they_are(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel.of("Hello.")
    service = SessionService(file_engine)
    runner = build_runner(LlmAgent(name="desk_agent", model=model, tools=[look]), service, Plugin(file_engine))

    async def talk() -> None:
        await create(service)
        await ask(runner, "Hi")

    run(talk())
    assert show(model.requests[0]) == ["user: Hi"]
    assert list(model.requests[0].tools_dict) == ["look"]
    assert lines_of(opened(file_engine)) == ["user: Hi", "assistant: Hello."]


def test_an_agent_without_history_stays_so(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel.of("One.", "Two.")
    service = SessionService(file_engine)
    agent = LlmAgent(name="desk_agent", model=model, include_contents="none")
    runner = build_runner(agent, service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        await ask(runner, "First.")
        await ask(runner, "Second.")

    run(talk())
    assert show(model.requests[1]) == ["user: Second."]


def test_a_session_with_a_memory_recalls_and_offers_it(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel.of("Noted.", call("recall_memory", query="lamp"), "Brass.")
    service = SessionService(file_engine, memory=True)
    runner = build_runner(LlmAgent(name="desk_agent", model=model), service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service, "s0")
        await ask(runner, "My lamp is made of brass.", "s0")
        service.session(app_name="desk", user_id="ada", session_id="s0").end()
        file_engine.memory.deliver()
        await create(service, "s1")
        await ask(runner, "What is my lamp made of?", "s1")

    run(talk())
    assert list(model.requests[1].tools_dict) == ["read_handle", "recall_memory"]
    assert "My lamp is made of brass." in show(model.requests[1])[-1]
    answer = next(line for line in show(model.requests[2]) if line.startswith("user: result recall_memory"))
    assert "brass" in answer


def test_a_model_that_fails_leaves_no_pack_for_the_next_reply(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel.of(RuntimeError("overloaded"), "Here.")
    service = SessionService(file_engine)
    runner = build_runner(LlmAgent(name="desk_agent", model=model), service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        with pytest.raises(RuntimeError, match="overloaded"):
            await ask(runner, "Hi")
        await ask(runner, "Again")

    run(talk())
    assert without_tail(model.requests[1]) == ["user: Hi", "user: Again"]
    assert len(opened(file_engine).packs.list()) == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [({"a": float("nan"), "b": 2**80}, '{"a":"nan"'), ({"k\ud800": "x\ud800"}, '{"k?":"x?"}')],
)
def test_a_tool_that_ran_has_not_failed_for_the_form_of_its_result(
    file_engine: holdfast.Engine, value: dict[str, Any], shown: str
) -> None:
    def give() -> dict[str, Any]:
        """Give."""
        return value

    async def talk() -> None:
        service = SessionService(file_engine)
        agent = LlmAgent(name="desk_agent", model=ScriptedModel.of(call("give"), "Done."), tools=[give])
        runner = build_runner(agent, service, Plugin(file_engine, budget=4_000))
        await create(service)
        await ask(runner, "Go.")
        await ask(runner, "And?")
        session = service.session(app_name="desk", user_id="ada", session_id="s1")
        assert session.messages()[2].text.startswith(shown)
        assert not session.messages()[2].tool_results[0].is_error
        assert session.recover().unknown_outcomes == ()

    run(talk())


@pytest.mark.parametrize(
    "reply",
    [
        call("a b\n" + "x" * 300),
        call("nothing", euros=2**80),
        [call("nothing") for _ in range(300)],
        ["part"] * 1_500,
        types.Part(function_call=types.FunctionCall(id="c\n\ud800", name="nothing", args={})),
    ],
)
def test_an_odd_reply_is_recorded(file_engine: holdfast.Engine, reply: Any) -> None:
    def nothing(euros: int = 0) -> dict[str, Any]:
        """Nothing."""
        return {}

    async def talk() -> None:
        service, model = SessionService(file_engine), ScriptedModel.of(reply, "Done.", "Again.")
        agent = LlmAgent(name="desk_agent", model=model, tools=[nothing])
        runner = build_runner(agent, service, Plugin(file_engine, budget=40_000))
        await create(service)
        await ask(runner, "Go.")
        await ask(runner, "And?")
        sent = [part for content in model.requests[-1].contents for part in content.parts or []]
        assert len([part for part in sent if part.function_call]) == len(
            [part for part in sent if part.function_response]
        )
        session = service.session(app_name="desk", user_id="ada", session_id="s1")
        assert session.messages(limit=1_000)[1].role == "assistant"
        assert session.open_calls() == ()

    run(talk())


def test_only_options_are_accepted(file_engine: holdfast.Engine) -> None:
    options: PluginOptions = {"name": "desk", "offer_tools": False}
    assert Plugin(file_engine, **options).name == "desk"
    assert Plugin(file_engine).name == "holdfast"
    with pytest.raises(TypeError, match="unexpected keyword argument 'budgets'"):
        Plugin(file_engine, budgets=4)  # type: ignore[call-arg] # it is the test
