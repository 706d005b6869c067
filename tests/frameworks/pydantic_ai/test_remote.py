"""The store and the capability on the engine of a server."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults

import holdfast
from holdfast.pydantic_ai import Holdfast, HoldfastConversationStore
from tests.frameworks.pydantic_ai.histories import answer, ask, every_kind
from tests.frameworks.pydantic_ai.test_capability import Script, calls, live, split_tail


def test_a_conversation_comes_back_and_two_writers_conflict(remote_engine: holdfast.Engine) -> None:
    async def work() -> None:
        store = HoldfastConversationStore(remote_engine)
        await store.save(Conversation(conversation_id="c1", messages=[*every_kind()]))
        one, two = await store.load("c1"), await HoldfastConversationStore(remote_engine).load("c1")
        assert one is not None
        assert two is not None
        assert len(one.messages) == len(every_kind())
        one.messages += [ask("one"), answer("1")]
        await store.save(one)
        two.messages += [ask("two"), answer("2")]
        with pytest.raises(ConversationConflict):
            await store.save(two)

    asyncio.run(work())
    assert remote_engine.admin.verify().ok


def test_an_agent_gets_packs_and_its_tools_run_once(remote_engine: holdfast.Engine) -> None:
    script = Script(calls(ToolCallPart("pay", {"euros": 4}, tool_call_id="x1")), "Paid.", "Yes.")
    agent = Agent(script.model, capabilities=[Holdfast(remote_engine, budget=8_000)])
    ran: list[int] = []

    @agent.tool_plain
    def pay(euros: int) -> str:
        ran.append(euros)
        return f"paid {euros}"

    result = agent.run_sync("Pay 4 euros.", conversation_id="c1")
    agent.run_sync("Did you?", message_history=result.all_messages(), conversation_id="c1")
    assert ran == [4]
    shown, tail = split_tail(script.sent[-1])
    assert "tool-return: paid 4" in shown
    assert "<holdfast-context>" in tail
    session = remote_engine.session("c1")
    assert [role for role, _ in live(session)] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert session.recover().pending_work == ()
    assert remote_engine.admin.verify().ok


def test_an_approval_after_another_prompt_runs_the_tool(remote_engine: holdfast.Engine) -> None:
    called = [ToolCallPart(name, {}, tool_call_id=name) for name in ("pay", "look")]
    script = Script(calls(*called), "Later.", "Paid.")
    agent = Agent(script.model, output_type=[str, DeferredToolRequests], capabilities=[Holdfast(remote_engine)])

    @agent.tool_plain(requires_approval=True)
    def pay() -> str:
        return "paid"

    @agent.tool_plain
    def look() -> str:
        return "seen"

    history = agent.run_sync("Pay.", conversation_id="c1").all_messages()
    agent.run_sync("Do you ship on Sundays?", message_history=history, conversation_id="c1")
    results = DeferredToolResults(approvals={"pay": True})
    agent.run_sync(message_history=history, deferred_tool_results=results, conversation_id="c1")
    assert "tool-return: paid" in split_tail(script.sent[-1])[0]
    assert remote_engine.session("c1").recover().pending_work == ()
