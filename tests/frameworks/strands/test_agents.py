"""Strands' agents keep their conversations in Holdfast: packs, facts, restarts, redaction, several writers."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.multiagent import GraphBuilder
from strands.session import RepositorySessionManager
from strands.types.exceptions import SessionException

import holdfast
from holdfast.errors import InvalidArgument
from holdfast.strands import HoldfastSessionManager, PackedConversationManager, StrandsRepository
from tests.frameworks.strands.scripted import ScriptedModel, texts, use
from tests.frameworks.strands.tools import KEYS, pay


def build(engine: holdfast.Engine, model: ScriptedModel, name: str = "s1", **options: Any) -> Agent:
    manager = HoldfastSessionManager(engine, name, **{"budget": 4_000, **options})
    return Agent(model=model, tools=[pay], system_prompt="You pay.", session_manager=manager, callback_handler=None)


def roles(session: holdfast.Session) -> list[str | None]:
    return [each.role for each in session.messages() if not each.withdrawn]


def test_a_conversation_is_a_session(engine: holdfast.Engine) -> None:
    KEYS.clear()
    model = ScriptedModel([use("c1", "pay", euros=3), use("c2", "pay", euros=4)], "Both are paid.")
    build(engine, model)("Pay 3 and 4.")
    session = engine.session("s1")
    assert roles(session) == ["user", "assistant", "tool", "tool", "assistant"]
    assert "Both are paid." in session.pack().text
    assert [each.usage.input_tokens for each in session.messages() if each.usage] == [100, 100]
    assert len(set(KEYS)) == 2
    assert all(KEYS)
    assert session.open_calls() == ()
    assert len(session.packs.list()) == 2
    assert engine.admin.verify().ok


def test_the_model_is_sent_a_pack_of_the_conversation(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel([use("c1", "pay", euros=3), use("c2", "pay", euros=4)], "Both are paid.", "You are welcome.")
    agent = build(file_engine, model, pack_options={"time": False})
    agent("Pay 3 and 4.")
    agent("Thank you.")
    assert texts(model.requests[-1]) == [
        ("user", "Pay 3 and 4."),
        ("assistant", "call c1 pay|call c2 pay"),
        ("user", "result c1 paid 3|result c2 paid 4"),
        ("assistant", "Both are paid."),
        ("user", "Thank you."),
    ]
    assert model.prompts == ["You pay."] * 3
    assert set(model.tools[0]) == {"pay", "read_handle"}


def test_a_superseded_value_is_redacted(file_engine: holdfast.Engine) -> None:
    session = file_engine.create_session("s1", user="ada")
    session.facts.set("shipping_address", "123 Main St")
    model = ScriptedModel("To 123 Main St.", "Noted.", "To 456 Oak Ave.")
    agent = build(file_engine, model)
    agent("Where does it go?")
    agent("Actually, my shipping address is now 456 Oak Ave.")
    agent("Where does it go?")
    shown = str(model.requests[-1])
    assert "123 Main St" not in shown
    assert "456 Oak Ave" in shown
    assert "The user is ada." in str(model.prompts[-1])


def test_a_restart_goes_on_where_it_stopped(engine: holdfast.Engine) -> None:
    build(engine, ScriptedModel(use("c1", "pay", euros=3), "It is paid."))("Pay 3.")
    model = ScriptedModel("3 euros.")
    agent = build(engine, model, pack_options={"time": False})
    agent.state.set("paid", 3)
    assert len(agent.messages) == 4
    agent("How much?")
    assert texts(model.requests[0]) == [
        ("user", "Pay 3."),
        ("assistant", "call c1 pay"),
        ("user", "result c1 paid 3"),
        ("assistant", "It is paid."),
        ("user", "How much?"),
    ]
    again = build(engine, ScriptedModel())
    assert again.messages == agent.messages
    assert again.state.get() == {"paid": 3}
    version = engine.session("s1").state().version
    build(engine, ScriptedModel())
    assert engine.session("s1").state().version == version


def test_without_a_budget_the_model_is_sent_the_list(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel(use("c1", "pay", euros=3), "Paid.")
    build(file_engine, model, budget=None)("Pay 3.")
    assert texts(model.requests[-1]) == [
        ("user", "Pay 3."),
        ("assistant", "call c1 pay"),
        ("user", "result c1 paid 3"),
    ]
    assert model.tools[0] == ["pay"]
    assert roles(file_engine.session("s1")) == ["user", "assistant", "tool", "assistant"]


def test_long_conversations_fit_into_the_budget(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel(*(f"Answer {number}. " + "word " * 200 for number in range(40)))
    agent = build(file_engine, model, budget=2_000)
    for number in range(40):
        agent(f"Question {number}? " + "text " * 100)
    packs = file_engine.session("s1").packs.list(limit=100)
    assert all(pack.used <= 2_000 for pack in packs)
    assert len(str(model.requests[-1])) < 12_000
    assert "Question 39?" in str(model.requests[-1])
    roles_sent = [message["role"] for message in model.requests[-1]]
    assert roles_sent[0] == "user"
    assert all(first != second for first, second in itertools.pairwise(roles_sent))


def test_a_large_result_can_be_read_by_its_handle(file_engine: holdfast.Engine) -> None:
    from strands import tool

    @tool
    def fetch() -> str:
        """Fetch a long text."""
        return "\n".join(f"line {number}: " + "x" * 60 for number in range(2_000))

    model = ScriptedModel(use("c1", "fetch"), "Long.")
    manager = HoldfastSessionManager(file_engine, "s1", budget=3_000)
    agent = Agent(model=model, tools=[fetch], session_manager=manager, callback_handler=None)
    agent("Fetch it.")
    handle = manager.conversation().handles.list()[0].id
    assert handle in str(model.requests[-1])
    model.replies = [use("c2", "read_handle", handle=handle, search="line 1234:"), "Found."]
    agent("Find line 1234.")
    assert "line 1234: xxx" in str(model.requests[-1])
    assert len(str(model.requests[-1])) < 15_000


def test_a_second_process_does_not_lose_a_turn(engine: holdfast.Engine) -> None:
    build(engine, ScriptedModel("One."))("First.")
    behind, ahead = build(engine, ScriptedModel("Lost.")), build(engine, ScriptedModel("Two."))
    ahead("Second.")
    with pytest.raises(SessionException, match="another process"):
        behind("Third.")
    again = build(engine, ScriptedModel("Three."))
    again("Third.")
    session = engine.session("s1")
    assert [each.text for each in session.messages() if not each.withdrawn] == [
        "First.",
        "One.",
        "Second.",
        "Two.",
        "Third.",
        "Three.",
    ]


def test_a_message_that_the_program_took_back_is_withdrawn(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel("A bad answer.", "A good answer.")
    agent = build(file_engine, model)
    agent("Question?")
    del agent.messages[-1]
    agent(None)
    assert "A bad answer." not in str(model.requests[-1])
    assert "A bad answer." not in file_engine.session("s1").pack().text
    assert "A good answer." in file_engine.session("s1").pack().text


def test_a_redacted_message_is_withdrawn(engine: holdfast.Engine) -> None:
    agent = build(engine, ScriptedModel("Fine."))
    agent("My password is hunter2.")
    repository = StrandsRepository(engine)
    record = repository.read_message("s1", "default", 0)
    assert record is not None
    record.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
    repository.update_message("s1", "default", record)
    assert [each.to_message()["content"] for each in repository.list_messages("s1", "default")] == [
        [{"text": "[redacted]"}],
        [{"text": "Fine."}],
    ]
    text = engine.session("s1").pack().text
    assert "hunter2" not in text
    assert "[redacted]" in text
    assert "Fine." in text


def test_any_repository_manager_can_use_the_repository(engine: holdfast.Engine) -> None:
    """Strands' own session manager, and the sliding window that an agent has by default."""
    model = ScriptedModel(*(f"Answer {number}." for number in range(6)))
    window = SlidingWindowConversationManager(window_size=4)
    manager = RepositorySessionManager("s1", StrandsRepository(engine))
    agent = Agent(model=model, session_manager=manager, conversation_manager=window, callback_handler=None)
    for number in range(5):
        agent(f"Question {number}?")
    restored = Agent(
        model=model,
        session_manager=RepositorySessionManager("s1", StrandsRepository(engine)),
        conversation_manager=SlidingWindowConversationManager(window_size=4),
        callback_handler=None,
    )
    assert restored.messages == agent.messages
    restored("One more?")
    assert len(engine.session("s1").messages()) == 12
    assert "Question 0?" in engine.session("s1").pack().text


def test_agents_of_one_session_have_conversations_of_their_own(file_engine: holdfast.Engine) -> None:
    manager = HoldfastSessionManager(file_engine, "s1", budget=4_000)
    for name in ("planner", "writer"):
        model = ScriptedModel(f"I am the {name}.")
        Agent(model=model, agent_id=name, session_manager=manager, callback_handler=None)("Who are you?")
    assert file_engine.session("s1", thread="planner").messages()[-1].text == "I am the planner."
    assert file_engine.session("s1", thread="writer").messages()[-1].text == "I am the writer."
    assert file_engine.session("s1").messages() == []


def test_agents_that_work_together_keep_their_state(engine: holdfast.Engine) -> None:
    def build_graph() -> Any:
        builder = GraphBuilder()
        builder.add_node(Agent(model=ScriptedModel("A plan."), callback_handler=None), "plan")
        builder.add_node(Agent(model=ScriptedModel("A text."), callback_handler=None), "write")
        builder.add_edge("plan", "write")
        builder.set_entry_point("plan")
        builder.set_graph_id("g1")
        builder.set_session_manager(HoldfastSessionManager(engine, "s1"))
        return builder.build()

    result = build_graph()("Write.")
    assert result.status.value == "completed"
    stored = StrandsRepository(engine).read_multi_agent("s1", "g1")
    assert stored is not None
    assert stored["status"] == "completed"
    build_graph()


def test_agents_may_be_awaited_side_by_side(engine: holdfast.Engine) -> None:
    async def run(number: int) -> str:
        agent = build(engine, ScriptedModel(use("c1", "pay", euros=number), f"Paid {number}."), f"s{number}")
        return str(await agent.invoke_async(f"Pay {number}.")).strip()

    async def run_all() -> list[str]:
        return await asyncio.gather(*(run(number) for number in range(4)))

    assert asyncio.run(run_all()) == [f"Paid {number}." for number in range(4)]
    assert all(roles(engine.session(f"s{number}")) == ["user", "assistant", "tool", "assistant"] for number in range(4))


def test_other_session_managers_are_refused(file_engine: holdfast.Engine) -> None:
    manager = RepositorySessionManager("s1", StrandsRepository(file_engine))
    agent = Agent(
        model=ScriptedModel("Hm."),
        session_manager=manager,
        conversation_manager=PackedConversationManager(),
        callback_handler=None,
    )
    with pytest.raises(InvalidArgument, match="HoldfastSessionManager"):
        agent("Hello.")
    with pytest.raises(InvalidArgument, match="engine"):
        HoldfastSessionManager("agent.db", "s1")  # type: ignore[arg-type] # it is the test
