"""Agents that run at the same time, compaction by ADK, and sessions of another generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.apps.app import EventsCompactionConfig
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.workflow import START, JoinNode, Workflow
from google.genai import types

import holdfast
from holdfast.adk import Plugin, SessionService
from tests.frameworks.adk.support import ScriptedModel, ask, build_runner, call, create, load, run, show

Build = Callable[[holdfast.Engine], BaseSessionService]

# ADK has named a newer way to run agents in parallel; both are in use.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def look(what: str) -> dict[str, Any]:
    """Look something up."""
    return {"seen": what}


def build_team(one: ScriptedModel, two: ScriptedModel, merger: ScriptedModel) -> BaseAgent:
    siblings: list[BaseAgent] = [
        LlmAgent(name="one", model=one, tools=[look]),
        LlmAgent(name="two", model=two, tools=[look]),
    ]
    pair = ParallelAgent(name="pair", sub_agents=siblings)
    return SequentialAgent(name="team", sub_agents=[pair, LlmAgent(name="merger", model=merger)])


@pytest.mark.parametrize("build", [SessionService, lambda _: InMemorySessionService()], ids=["own", "in memory"])
def test_siblings_have_conversations_of_their_own(engine: holdfast.Engine, build: Build) -> None:
    """An agent in a branch sees the main conversation and its own events; one without a branch sees all."""
    one = ScriptedModel.of(call("look", what="sun"), "One: sun.", call("look", what="sea"), "One: sea.")
    two = ScriptedModel.of(call("look", what="moon"), "Two: moon.", call("look", what="land"), "Two: land.")
    merger = ScriptedModel.of("Merged.", "Merged again.")
    service = build(engine)
    runner = build_runner(build_team(one, two, merger), service, Plugin(engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        await ask(runner, "Look at both.")
        await ask(runner, "Once more.")

    run(talk())
    assert show(one.requests[1])[:-1] == [
        "user: Look at both.",
        "model: call look {'what': 'sun'}",
        "user: result look {'seen': 'sun'}",
    ]
    last = show(one.requests[3])[:-1]
    assert last[:4] == [*show(one.requests[1])[:-1], "model: One: sun."]
    assert [line for line in last if not line.startswith("user: For context")][5:] == [
        "user: Once more.",
        "model: call look {'what': 'sea'}",
        "user: result look {'seen': 'sea'}",
    ]
    sent = "\n".join(show(merger.requests[1]))
    for word in ("'sun'", "'moon'", "One: sea.", "Two: land.", "Merged.", "Look at both."):
        assert sent.count(word) == (2 if "'" in word else 1), word
    threads = {row.thread: row for row in engine.sessions(actor="desk/ada") if not row.thread.startswith("#")}
    assert set(threads) == {"", "pair.one", "pair.two"}
    assert all(row.open_calls == 0 for row in threads.values())
    branch = engine.session("s1", actor="desk/ada", thread="pair.one")
    assert [len(message.tool_calls) for message in branch.messages() if message.role == "assistant"] == [1, 0, 0, 1, 0]
    assert len(branch.packs.list()) == 4
    main = engine.session("s1", actor="desk/ada")
    assert not any(message.tool_calls for message in main.messages())
    assert len(main.packs.list()) == 2
    assert engine.admin.verify().ok


@pytest.mark.parametrize("build", [SessionService, lambda _: InMemorySessionService()], ids=["own", "in memory"])
def test_agents_of_a_workflow_have_conversations_of_their_own(file_engine: holdfast.Engine, build: Build) -> None:
    """What a workflow gives to an agent as its input is in the list of events only while the agent runs."""
    one = ScriptedModel.of(call("look", what="sun"), "One: sun.", "One: sea.")
    two, merger = ScriptedModel.of("Two: moon.", "Two: land."), ScriptedModel.of("Merged.", "Merged again.")
    first = LlmAgent(name="one", model=one, tools=[look])
    both = JoinNode(name="both")
    last = LlmAgent(name="last", model=merger)
    edges: Any = [(START, first, both), (START, LlmAgent(name="two", model=two), both), (both, last)]
    service = build(file_engine)
    runner = build_runner(Workflow(name="team", edges=edges), service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        await ask(runner, "Look at both.")
        await ask(runner, "Once more.")

    run(talk())
    assert show(one.requests[1]) == [
        "user: Look at both.",
        "model: call look {'what': 'sun'}",
        "user: result look {'seen': 'sun'}",
    ]
    main = file_engine.session("s1", actor="desk/ada")
    said = [message.text for message in main.messages()]
    assert [each for each in said if not each.startswith(("One", "Two", "["))] == [
        "Look at both.",
        "Merged.",
        "Once more.",
        "Merged again.",
    ]
    assert len(said) == 10
    threads = [row.thread for row in file_engine.sessions(actor="desk/ada") if not row.thread.startswith("#")]
    for thread in threads:
        state = file_engine.session("s1", actor="desk/ada", thread=thread or None).state()
        assert (state.withdrawn, state.open_calls) == (0, ()), thread
    assert len(threads) == 3
    assert file_engine.admin.verify().ok


@pytest.mark.parametrize("build", [SessionService, lambda _: InMemorySessionService()], ids=["own", "in memory"])
def test_an_agent_with_a_task_talks_with_the_user_in_a_conversation_of_its_own(
    engine: holdfast.Engine, build: Build
) -> None:
    """ADK isolates it: the agent that gave the task is shown the result alone. Facts from there hold everywhere."""
    said = "Actually, my shipping address is now 456 Oak Ave."
    helper = ScriptedModel.of("Which address?", call("look", what="oak"), call("finish_task", result="Ship there."))
    main_model = ScriptedModel.of(call("helper", request="find the address"), "I ship it.", "Bye.")
    agent = LlmAgent(name="helper", description="asks", model=helper, tools=[look], mode="task")
    service = build(engine)
    root = LlmAgent(name="root", model=main_model, sub_agents=[agent])
    runner = build_runner(root, service, Plugin(engine, budget=8_000))
    ledger = engine.ledger(user="desk/ada")
    ledger.set("shipping_address", "12 Main Street")

    async def talk() -> None:
        await create(service)
        for text in ("Where does it go?", said, "Thanks."):
            await ask(runner, text)

    run(talk())
    assert show(helper.requests[2])[:-1] == [
        'user: {"request": "find the address"}',
        "model: Which address?",
        f"user: {said}",
        "model: call look {'what': 'oak'}",
        "user: result look {'seen': 'oak'}",
    ]
    assert show(main_model.requests[2])[:-1] == [
        "user: Where does it go?",
        "model: call helper {'request': 'find the address'}",
        "user: result helper {'result': 'Ship there.'}",
        "model: I ship it.",
        "user: Thanks.",
    ]
    fact = ledger.get("shipping_address")
    assert fact is not None
    assert fact.value == "456 Oak Ave"
    assert "shipping_address: 456 Oak Ave" in show(main_model.requests[2])[-1]
    threads = [row for row in engine.sessions(actor="desk/ada") if not row.thread.startswith("#")]
    states = [engine.session("s1", actor="desk/ada", thread=row.thread or None).state() for row in threads]
    assert all((state.withdrawn, state.open_calls) == (0, ()) for state in states)
    assert engine.admin.verify().ok


@pytest.mark.parametrize("name", [None, "call_7"], ids=["id of ADK", "id of the model"])
@pytest.mark.parametrize("build", [SessionService, lambda _: InMemorySessionService()], ids=["own", "in memory"])
def test_an_agent_that_a_call_runs_answers_by_its_result(
    file_engine: holdfast.Engine, build: Build, name: str | None
) -> None:
    """What it says meanwhile comes before the result, in a branch of the call, and is not for the agent that called."""
    asked = [
        types.Part(function_call=types.FunctionCall(id=name and f"{name}{who}", name=who, args={"request": "sky"}))
        for who in ("one", "two")
    ]
    one = ScriptedModel.of(call("look", what="sun"), "One: sun.")
    two = ScriptedModel.of(call("look", what="moon"), "Two: moon.")
    helpers: list[BaseAgent] = [
        LlmAgent(name=who, description="looks", model=model, tools=[look], mode="single_turn")
        for who, model in (("one", one), ("two", two))
    ]
    main_model = ScriptedModel.of(asked, "Both.", "Bye.")
    service = build(file_engine)
    root = LlmAgent(name="root", model=main_model, sub_agents=helpers)
    runner = build_runner(root, service, Plugin(file_engine, budget=8_000))

    async def talk() -> None:
        await create(service)
        await ask(runner, "Look at both.")
        await ask(runner, "Thanks.")

    run(talk())
    assert show(one.requests[1]) == [
        "user: sky",
        "model: call look {'what': 'sun'}",
        "user: result look {'seen': 'sun'}",
    ]
    assert show(main_model.requests[2])[:-1] == [
        "user: Look at both.",
        "model: call one {'request': 'sky'}",
        "model: call two {'request': 'sky'}",
        "user: result one {'result': 'One: sun.'}",
        "user: result two {'result': 'Two: moon.'}",
        "model: Both.",
        "user: Thanks.",
    ]
    session = file_engine.session("s1", actor="desk/ada")
    said = [message.text for message in session.messages()]
    assert said[:2] + sorted(said[2:4]) + said[4:] == [
        "Look at both.",
        "",
        "One: sun.",
        "Two: moon.",
        "Both.",
        "Thanks.",
        "Bye.",
    ]
    assert session.state().withdrawn == 0
    assert file_engine.admin.verify().ok


def test_a_deleted_session_takes_its_branches_with_it(file_engine: holdfast.Engine) -> None:
    service = SessionService(file_engine)

    async def talk() -> None:
        for _ in range(3):
            await create(service)
            models = [ScriptedModel.of("Here.") for _ in range(3)]
            runner = build_runner(build_team(*models), service, Plugin(file_engine, budget=8_000))
            await ask(runner, "Look.")
            assert show(models[0].requests[0])[:-1] == ["user: Look."]
            assert service.session(app_name="desk", user_id="ada", session_id="s1", branch="pair.one").messages()
            await service.delete_session(app_name="desk", user_id="ada", session_id="s1")
            assert not file_engine.sessions(actor="desk/ada")

    run(talk())
    assert len(file_engine.sessions(actor="desk/ada", status="destroyed")) == 9
    assert file_engine.admin.verify().ok


def test_compaction_by_adk_goes_on(file_engine: holdfast.Engine) -> None:
    """ADK's own summary takes the place of its events in requests; the transcript keeps them."""
    model = ScriptedModel.of("R1.", "R2.", "ADK summary of two turns.", "R3.", "R4.")
    service = SessionService(file_engine)
    agent = LlmAgent(name="desk_agent", model=model)
    config = EventsCompactionConfig(compaction_interval=2, overlap_size=0)
    runner = build_runner(agent, service, Plugin(file_engine, budget=8_000), app={"events_compaction_config": config})

    async def talk() -> None:
        await create(service)
        for number in range(1, 4):
            await ask(runner, f"Q{number}?")
        session = await load(service)
        assert sum(event.actions.compaction is not None for event in session.events) == 1

    run(talk())
    sent = [line for line in show(model.requests[-1]) if not line.startswith("user: <holdfast-context>")]
    assert sent[-1] == "user: Q3?"
    assert "ADK summary of two turns." in sent[0]
    assert "Q1?" not in "".join(sent)
    texts = [message.text for message in file_engine.session("s1", actor="desk/ada").messages()]
    assert texts == ["Q1?", "R1.", "Q2?", "R2.", "Q3?", "R3."]
