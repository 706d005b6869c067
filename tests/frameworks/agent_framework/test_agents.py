"""Agents of the Agent Framework keep their conversations in Holdfast: packs, facts, restarts, failures, several writers."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    ContextProvider,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
    RawAgent,
    SessionContext,
    tool,
)
from agent_framework import _sessions as framework_sessions

import holdfast
from holdfast.agent_framework import HoldfastHistoryProvider, IntentMiddleware
from holdfast.errors import InvalidArgument
from tests.frameworks.agent_framework.scripted import ScriptedClient, call, texts
from tests.frameworks.agent_framework.tools import KEYS, pay

MODES = [*itertools.product([False, True], [False, True])]
"""Streamed or not, and history per service call or per run."""


def build(engine: holdfast.Engine, client: ScriptedClient, *, per_call: bool = False, **options: Any) -> Agent[Any]:
    provider = HoldfastHistoryProvider(engine, **{"budget": 4_000, **options})
    return Agent(
        client=client,
        instructions="You pay.",
        tools=[pay],
        context_providers=[provider],
        require_per_service_call_history_persistence=per_call,
        middleware=[IntentMiddleware(provider)] if per_call else None,
    )


def run(agent: Agent[Any], text: str, *, stream: bool = False, name: str = "s1") -> str:
    async def answer() -> str:
        session = AgentSession(session_id=name)
        if not stream:
            return (await agent.run(text, session=session)).text
        response = agent.run(text, session=session, stream=True)
        async for _ in response:
            pass
        return (await response.get_final_response()).text

    return asyncio.run(answer())


def roles(session: holdfast.Session) -> list[str | None]:
    return [each.role for each in session.messages() if not each.withdrawn]


@pytest.mark.parametrize(("stream", "per_call"), MODES)
def test_a_conversation_is_a_session(engine: holdfast.Engine, stream: bool, per_call: bool) -> None:
    KEYS.clear()
    client = ScriptedClient([call("c1", "pay", euros=3), call("c2", "pay", euros=4)], "Both are paid.", "Welcome.")
    agent = build(engine, client, per_call=per_call, pack_options={"time": False})
    assert run(agent, "Pay 3 and 4.", stream=stream) == "Both are paid."
    session = engine.session("s1")
    assert roles(session) == ["user", "assistant", "tool", "tool", "assistant"]
    assert [each.usage.input_tokens for each in session.messages() if each.usage] == [100, 100]
    assert len(session.packs.list()) == 2
    assert len({*KEYS} - {""}) == 2
    assert session.evidence() == []
    again = build(engine, client, per_call=per_call, pack_options={"time": False})
    run(again, "Thank you.", stream=stream)
    assert texts(client.requests[-1]) == [
        ("user", "Pay 3 and 4."),
        ("assistant", "call c1 pay|call c2 pay"),
        ("tool", "result c1 paid 3|result c2 paid 4"),
        ("assistant", "Both are paid."),
        ("user", "Thank you."),
    ]
    assert client.options[-1]["instructions"] == "You pay."
    assert [each.name for each in client.options[-1]["tools"]] == ["pay", "read_handle"]
    assert roles(session)[5:] == ["user", "assistant"]
    assert engine.admin.verify().ok


@pytest.mark.parametrize(("stream", "per_call"), MODES)
def test_without_a_budget_the_model_is_sent_the_history(
    file_engine: holdfast.Engine, stream: bool, per_call: bool
) -> None:
    client = ScriptedClient(call("c1", "pay", euros=3), "Paid.", "Welcome.")
    agent = build(file_engine, client, per_call=per_call, budget=None)
    run(agent, "Pay 3.", stream=stream)
    run(agent, "Thank you.", stream=stream)
    assert texts(client.requests[1]) == [
        ("user", "Pay 3."),
        ("assistant", "call c1 pay"),
        ("tool", "result c1 paid 3"),
    ]
    assert texts(client.requests[2])[3:] == [("assistant", "Paid."), ("user", "Thank you.")]
    assert roles(file_engine.session("s1")) == ["user", "assistant", "tool", "assistant", "user", "assistant"]


def test_a_superseded_value_is_redacted(file_engine: holdfast.Engine) -> None:
    session = file_engine.create_session("s1", user="ada")
    session.facts.set("shipping_address", "123 Main St")
    client = ScriptedClient("To 123 Main St.", "Noted.", "To 456 Oak Ave.")
    agent = build(file_engine, client)
    for text in ("Where does it go?", "Actually, my shipping address is now 456 Oak Ave.", "Where does it go?"):
        run(agent, text)
    shown = str(texts(client.requests[-1]))
    assert "123 Main St" not in shown
    assert "456 Oak Ave" in shown
    assert "The user is ada." in client.options[-1]["instructions"]


def test_equal_turns_are_both_kept(engine: holdfast.Engine) -> None:
    """Messages have no ids: only the place of a message tells it from an equal one."""
    client = ScriptedClient("Yes?", "Yes?", "Yes?")
    agent = build(engine, client)
    for _ in range(3):
        run(agent, "Hello.")
    session = engine.session("s1")
    assert [each.text for each in session.messages()] == ["Hello.", "Yes?"] * 3
    messages = asyncio.run(HoldfastHistoryProvider(engine).get_messages("s1"))
    assert [each.text for each in messages] == ["Hello.", "Yes?"] * 3


@pytest.mark.parametrize("per_call", [False, True])
def test_a_run_that_failed_may_be_tried_again(file_engine: holdfast.Engine, per_call: bool) -> None:
    client = ScriptedClient(ConnectionError("no route"), "Hello, Ada.")
    agent = build(file_engine, client, per_call=per_call, pack_options={"time": False})
    with pytest.raises(ConnectionError):
        run(agent, "Hello?")
    assert asyncio.run(HoldfastHistoryProvider(file_engine).get_messages("s1")) == []
    run(agent, "Hello?")
    assert texts(client.requests[-1]) == [("user", "Hello?")]
    assert [each.text for each in file_engine.session("s1").messages()] == ["Hello?", "Hello, Ada."]


def test_long_conversations_fit_into_the_budget(file_engine: holdfast.Engine) -> None:
    client = ScriptedClient(*(f"Answer {number}. " + "word " * 200 for number in range(30)))
    agent = build(file_engine, client, budget=2_000)
    for number in range(30):
        run(agent, f"Question {number}? " + "text " * 100)
    packs = file_engine.session("s1").packs.list(limit=100)
    assert len(packs) == 30
    assert all(pack.used <= 2_000 for pack in packs)
    shown = str(texts(client.requests[-1]))
    assert len(shown) < 12_000
    assert "Question 29?" in shown


def test_a_large_result_can_be_read_by_its_handle(file_engine: holdfast.Engine) -> None:
    @tool(approval_mode="never_require")
    def fetch() -> str:
        """Fetch a long text."""
        return "\n".join(f"line {number}: " + "x" * 60 for number in range(2_000))

    client = ScriptedClient(call("c1", "fetch"), "Long.")
    provider = HoldfastHistoryProvider(file_engine, budget=3_000)
    agent = Agent(client=client, tools=[fetch], context_providers=[provider])
    run(agent, "Fetch it.")
    handle = provider.conversation("s1").handles.list()[0].id
    assert handle in str(texts(client.requests[-1]))
    client.replies = [call("c2", "read_handle", handle=handle, search="line 1234:"), "Found."]
    run(agent, "Find line 1234.")
    shown = str(texts(client.requests[-1]))
    assert "line 1234: xxx" in shown
    assert len(shown) < 15_000


def test_context_of_other_providers_is_shown_and_not_stored(file_engine: holdfast.Engine) -> None:
    class Weather(ContextProvider):
        async def before_run(
            self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
        ) -> None:
            context.extend_messages(self, [Message("user", ["It rains."])])

    client = ScriptedClient("Take an umbrella.", "Yes.")
    providers = [Weather("weather"), HoldfastHistoryProvider(file_engine, budget=4_000, pack_options={"time": False})]
    agent = Agent(client=client, context_providers=providers)
    run(agent, "What do I need?")
    run(agent, "Really?")
    assert texts(client.requests[-1]) == [
        ("user", "It rains."),
        ("user", "What do I need?"),
        ("assistant", "Take an umbrella."),
        ("user", "Really?"),
    ]
    assert "It rains." not in file_engine.session("s1").pack().text


def test_a_provider_may_only_store(file_engine: holdfast.Engine) -> None:
    client = ScriptedClient("One.", "Two.")
    audit = HoldfastHistoryProvider(file_engine, "audit", load_messages=False)
    agent = Agent(client=client, context_providers=[InMemoryHistoryProvider(), audit])
    session = AgentSession(session_id="s1")

    async def talk() -> None:
        await agent.run("First.", session=session)
        await agent.run("Second.", session=session)

    asyncio.run(talk())
    stored = file_engine.session("s1", thread="audit").messages()
    assert [each.text for each in stored] == ["First.", "One.", "Second.", "Two."]
    with pytest.raises(InvalidArgument, match="packs need the whole conversation"):
        HoldfastHistoryProvider(file_engine, budget=4_000, store_inputs=False)


def test_two_processes_lose_no_turn(url: str) -> None:
    """Each has an engine and a provider of its own, and both run at the same time."""

    async def talk(engines: list[holdfast.Engine]) -> None:
        agents = [
            build(engine, ScriptedClient(*(f"{name} {number}" for number in range(5))))
            for name, engine in zip("ab", engines, strict=True)
        ]

        async def speak(name: str, agent: Agent[Any]) -> None:
            for number in range(5):
                await agent.run(f"{name}? {number}", session=AgentSession(session_id="s1"))

        await asyncio.gather(speak("a", agents[0]), speak("b", agents[1]))

    with holdfast.open(url) as first, holdfast.open(url) as second:
        asyncio.run(talk([first, second]))
        said = [each.text for each in first.session("s1").messages() if not each.withdrawn]
        assert sorted(said) == sorted(
            f"{name}{mark} {number}" for name in "ab" for mark in ("", "?") for number in range(5)
        )
        listed = asyncio.run(HoldfastHistoryProvider(second).get_messages("s1"))
        assert sorted(each.text for each in listed) == sorted(said)
        assert first.admin.verify().ok


def test_a_cancelled_run_leaves_what_was_said(file_engine: holdfast.Engine) -> None:
    started = asyncio.Event()

    @tool(approval_mode="never_require")
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    provider = HoldfastHistoryProvider(file_engine, unknown="tell", budget=4_000, pack_options={"time": False})
    client = ScriptedClient(call("c1", "wait"), "I do not know.")
    agent = Agent(client=client, tools=[wait], context_providers=[provider])

    async def cancel() -> None:
        task = asyncio.ensure_future(agent.run("Wait.", session=AgentSession(session_id="s1")))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert len(file_engine.session("s1").recover().unknown_outcomes) == 1
    run(agent, "What happened?")
    assert [role for role, _ in texts(client.requests[-1])] == ["user", "assistant", "tool", "user"]
    assert "the outcome of this call is unknown" in texts(client.requests[-1])[2][1]


@pytest.mark.parametrize(("budget", "permitted"), [(4_000, True), (4_000, False), (None, True), (None, False)])
def test_what_the_framework_holds_back_is_stored_late_or_never(
    file_engine: holdfast.Engine, budget: int | None, permitted: bool
) -> None:
    agent = build(file_engine, ScriptedClient(call("c1", "pay", euros=3), "Secret."), budget=budget)

    async def run_gated() -> None:
        gate = framework_sessions._RunPersistenceGate()
        with gate:
            framework_sessions._offer_run_persistence_gate_claim(gate, agent)
            await RawAgent.run(agent, "Tell me.", session=AgentSession(session_id="s1"))
        assert file_engine.session("s1").messages() == []
        if permitted:
            await gate.flush()

    asyncio.run(run_gated())
    expected = ["user", "assistant", "tool", "assistant"] if permitted else []
    assert roles(file_engine.session("s1")) == expected


def test_tools_of_the_engine_are_tools_of_the_framework(file_engine: holdfast.Engine) -> None:
    client = ScriptedClient("Hi.")
    run(build(file_engine, client), "Hello.")
    (reader,) = [each for each in client.options[0]["tools"] if each.name == "read_handle"]
    assert isinstance(reader, FunctionTool)
    assert reader.parameters()["required"] == ["handle"]
