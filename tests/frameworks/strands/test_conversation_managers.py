"""Prompts that are too long for a model make the next packs smaller, or the error is raised."""

from __future__ import annotations

import pytest
from strands import Agent
from strands.types.exceptions import ContextWindowOverflowException

import holdfast
from holdfast.errors import InvalidNumber
from holdfast.strands import HoldfastSessionManager, PackedConversationManager
from tests.frameworks.strands.scripted import ScriptedModel, use
from tests.frameworks.strands.tools import pay


def build(
    engine: holdfast.Engine, model: ScriptedModel, budget: int | None = 100_000, max_messages: int = 400
) -> Agent:
    return Agent(
        model=model,
        tools=[pay],
        session_manager=HoldfastSessionManager(engine, "s1", budget=budget),
        conversation_manager=PackedConversationManager(max_messages=max_messages),
        callback_handler=None,
    )


@pytest.mark.parametrize("budget", [100_000, None])
def test_an_overflow_makes_the_next_pack_smaller(file_engine: holdfast.Engine, budget: int | None) -> None:
    model = ScriptedModel(*("word " * 300 for _ in range(10)))
    agent = build(file_engine, model, budget)
    for number in range(10):
        agent(f"Question {number}?")
    before = len(str(model.requests[-1]))
    model.replies = [ContextWindowOverflowException("too long"), "Shorter."]
    agent("And now?")
    assert len(str(model.requests[-2])) > before
    assert len(str(model.requests[-1])) < before
    assert "And now?" in str(model.requests[-1])
    assert len(agent.messages) == 22
    again = build(file_engine, model, budget)
    again("Once more?")
    assert len(str(model.requests[-1])) < before


def test_an_overflow_of_the_smallest_pack_is_raised(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel(*(ContextWindowOverflowException("too long") for _ in range(40)))
    with pytest.raises(ContextWindowOverflowException, match="smallest pack"):
        build(file_engine, model)("Hello?")
    assert len(model.requests) < 10


def test_the_list_is_cut_where_a_turn_begins(file_engine: holdfast.Engine) -> None:
    replies = [each for number in range(12) for each in (use(f"c{number}", "pay", euros=number), f"Paid {number}.")]
    model = ScriptedModel(*replies)
    agent = build(file_engine, model, max_messages=10)
    for number in range(12):
        agent(f"Pay {number}.")
        assert len(agent.messages) <= 10
        assert agent.messages[0]["content"][0].get("text", "").startswith("Pay ")
    assert "Pay 0." in str(model.requests[-1])
    restored = build(file_engine, model, max_messages=10)
    assert restored.messages == agent.messages
    restored("Thank you.")
    assert len(file_engine.session("s1").messages()) == 50
    assert [each for each in file_engine.session("s1").messages() if each.withdrawn] == []


def test_a_bound_below_two_messages_is_refused() -> None:
    with pytest.raises(InvalidNumber):
        PackedConversationManager(max_messages=1)
