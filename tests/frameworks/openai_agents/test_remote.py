"""Runs of the SDK on the engine of a server."""

from __future__ import annotations

from typing import Any

import holdfast
from agents import Agent, RunState
from holdfast.openai_agents import HoldfastSession, bind
from tests.frameworks.openai_agents.support import call, run, say, script, texts, without_tail
from tests.frameworks.openai_agents.test_approvals import pay
from tests.frameworks.openai_agents.test_runs import ask, find, roles


def test_a_run_gets_packs_and_leaves_a_transcript(remote_engine: holdfast.Engine) -> None:
    model = script([call("find", "c1", order="7")], [say("At the depot.")], [say("Noted.")], [say("Order 7.")])
    agent = Agent[Any](name="desk", model=model, tools=[find])

    async def work() -> None:
        for text in ("Where is order 7?", "My address is 456 Oak Ave.", "Which order?"):
            await ask(agent, text, bind(remote_engine, "order-1"))

    run(work())
    shown = texts(without_tail(model.calls[-1].input))
    assert shown[:4] == ["Where is order 7?", '{"order": "7"}', "Order 7 is at the depot.", "At the depot."]
    assert roles(remote_engine) == ["user", "assistant", "tool", "assistant", "user", "assistant", "user", "assistant"]
    items = run(HoldfastSession(remote_engine, "order-1").get_items())
    assert texts(items)[-1] == "Order 7."
    popped: Any = run(HoldfastSession(remote_engine, "order-1").pop_item())
    assert texts([popped]) == ["Order 7."]
    assert roles(remote_engine)[-1] == "user"
    session = remote_engine.session("order-1")
    assert [each.proposal.value for each in session.facts.proposals()] == ["456 Oak Ave"]
    assert session.recover().pending_work == ()
    assert remote_engine.admin.verify().ok


def test_an_approval_after_another_turn_runs_the_tool(remote_engine: holdfast.Engine) -> None:
    model = script([call("pay", "c1", euros=5)], [say("Later.")], [say("Paid.")])
    agent = Agent[Any](name="desk", model=model, tools=[pay])

    async def work() -> None:
        stored = (await ask(agent, "Pay 5 euros.", bind(remote_engine, "order-1"))).to_state().to_string()
        await ask(agent, "Do you ship on Sundays?", bind(remote_engine, "order-1"))
        state = await RunState.from_string(agent, stored)
        state.approve(state.get_interruptions()[0])
        await ask(agent, state, bind(remote_engine, "order-1"))

    run(work())
    items = texts(run(HoldfastSession(remote_engine, "order-1").get_items()))
    assert items[-3:] == ['{"euros": 5}', "paid 5", "Paid."]
    assert remote_engine.session("order-1").recover().pending_work == ()
