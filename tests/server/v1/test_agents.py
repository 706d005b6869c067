"""The Agents SDK, unmodified: its own conversation session and its own model for the Responses API on this server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.protocols import Reply, Talk
from tests.server.v1.conftest import Desk

agents = pytest.importorskip("agents")

CALLS: list[int] = []


def build_agent(client: AsyncOpenAI) -> Any:
    @agents.function_tool  # type: ignore[untyped-decorator]
    def find_order(number: int) -> str:
        """Find an order."""
        CALLS.append(number)
        return f"Order {number} is at the depot."

    model = agents.OpenAIResponsesModel(model="m1", openai_client=client)
    return agents.Agent(name="desk", instructions="You are the order desk.", tools=[find_order], model=model)


def order_desk(talk: Talk) -> Reply:
    last = talk.turns[-1]
    if last.results:
        return Reply(f"Here it is: {last.results[-1][1]}")
    if "order" in last.text and "find_order" in talk.tools:
        return Reply("", (("find_order", {"number": 7}),))
    return Reply(f"You said: {last.text.splitlines()[0]}")


def quiet() -> Any:
    return agents.RunConfig(tracing_disabled=True)


def test_the_conversation_session_of_the_sdk(desk: Desk) -> None:
    desk.script(order_desk)

    async def run() -> None:
        async with AsyncOpenAI(base_url=desk.url, api_key=desk.client.api_key) as client:
            session = agents.OpenAIConversationsSession(openai_client=client)
            agent = build_agent(client)
            first = await agents.Runner.run(agent, "Where is my order?", session=session, run_config=quiet())
            assert first.final_output == "Here it is: Order 7 is at the depot."
            second = await agents.Runner.run(agent, "Thanks!", session=session, run_config=quiet())
            assert second.final_output == "You said: Thanks!"
            items = await session.get_items()
            kinds = [item.get("type") for item in items]
            assert kinds == ["message", "function_call", "function_call_output", "message", "message", "message"]
            assert [item["role"] for item in items if item.get("type") == "message"] == [
                "user",
                "assistant",
                "user",
                "assistant",
            ]
            assert items[1]["arguments"] == '{"number": 7}'
            assert len(await session.get_items(limit=2)) == 2
            popped = await session.pop_item()
            assert popped is not None
            assert popped["content"][0]["text"] == "You said: Thanks!"
            assert len(await session.get_items()) == 5
            await session.clear_session()
            assert await session.get_items() == []

    asyncio.run(run())
    assert desk.model.refused == []


def test_the_responses_model_of_the_sdk_with_state_on_the_server(desk: Desk) -> None:
    desk.script(order_desk)

    async def run() -> None:
        async with AsyncOpenAI(base_url=desk.url, api_key=desk.client.api_key) as client:
            agent = build_agent(client)
            conversation = (await client.conversations.create()).id
            options: Any = {"conversation_id": conversation, "run_config": quiet()}
            first = await agents.Runner.run(agent, "Where is my order?", **options)
            assert first.final_output == "Here it is: Order 7 is at the depot."
            streamed = agents.Runner.run_streamed(agent, "And the order again?", **options)
            kinds = [event.type async for event in streamed.stream_events()]
            assert "raw_response_event" in kinds
            assert streamed.final_output == "Here it is: Order 7 is at the depot."
            listed = [item async for item in client.conversations.items.list(conversation, order="asc")]
            assert [item.type for item in listed] == [
                "message",
                "function_call",
                "function_call_output",
                "message",
            ] * 2
            chained = await agents.Runner.run(agent, "hello", run_config=quiet(), auto_previous_response_id=True)
            assert chained.final_output == "You said: hello"
            follow = await agents.Runner.run(
                agent, "my order?", run_config=quiet(), previous_response_id=chained.last_response_id
            )
            assert follow.final_output == "Here it is: Order 7 is at the depot."
            assert "You said: hello" in json.dumps(desk.sent)

    asyncio.run(run())
    assert desk.model.refused == []
