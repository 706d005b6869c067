"""A process is killed in the middle of a tool: the outcome is unknown, and nothing is repeated silently."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ToolCallPart, ToolReturnPart

import holdfast
from holdfast.pydantic_ai import Holdfast, HoldfastConversationStore
from tests.frameworks.pydantic_ai.histories import answer, ask
from tests.frameworks.pydantic_ai.test_capability import Script, calls, show, split_tail

CHILD = """
    import sys, time
    import asyncio
    import holdfast
    from pydantic_ai import Agent
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel
    from holdfast.pydantic_ai import Holdfast, HoldfastConversationStore, current_call

    def reply(messages, info):
        done = any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
        if done:
            print("second request", flush=True)
            time.sleep(60)
        return ModelResponse(parts=[ToolCallPart("pay", {"euros": 40}, tool_call_id="x1")])

    engine = holdfast.open(sys.argv[1])
    agent = Agent(FunctionModel(reply), capabilities=[Holdfast(engine)])

    @agent.tool_plain
    def pay(euros: int) -> str:
        print(current_call().key, flush=True)
        if sys.argv[2] == "in the tool":
            time.sleep(60)
        return f"paid {euros}"

    async def main():
        store = HoldfastConversationStore(engine)
        conversation = await store.load("c1") or Conversation(conversation_id="c1")
        await agent.run("Pay 40.", conversation=conversation)

    asyncio.run(main())
"""


def crash(url: str, where: str, folder: Path) -> str:
    """Run an agent in another process, and kill it at this point. Returns the key of the call."""
    program = folder / "child.py"
    program.write_text(textwrap.dedent(CHILD))
    with subprocess.Popen(
        [sys.executable, str(program), url, where], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    ) as child:
        assert child.stdout is not None
        key = child.stdout.readline().strip()
        if where != "in the tool":
            assert child.stdout.readline().strip() == "second request"
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    return key


def build(engine: holdfast.Engine, ran: list[int], *replies: Any, **options: Any) -> tuple[Agent, Script]:
    script = Script(*replies)
    agent = Agent(script.model, capabilities=[Holdfast(engine, **options)])

    @agent.tool_plain
    def pay(euros: int) -> str:
        ran.append(euros)
        return f"paid {euros}"

    return agent, script


def start(url: str) -> HoldfastConversationStore:
    store = HoldfastConversationStore(holdfast.open(url))
    asyncio.run(store.save(Conversation(conversation_id="c1", messages=[ask("Hello."), answer("Hello!")])))
    return store


def load(store: HoldfastConversationStore) -> Conversation:
    loaded = asyncio.run(store.load("c1"))
    assert loaded is not None
    return loaded


def test_a_kill_in_a_tool_leaves_an_unknown_outcome(url: str, folder: Path) -> None:
    start(url)
    key = crash(url, "in the tool", folder)
    ran: list[int] = []
    with holdfast.open(url) as engine:
        store, session = HoldfastConversationStore(engine), engine.session("c1")
        [work] = session.recover().unknown_outcomes
        assert work.key == key
        agent, _ = build(engine, ran)
        for _ in range(2):
            with pytest.raises(holdfast.errors.OutcomeUnknown) as raised:
                asyncio.run(agent.run("Pay 40.", conversation=load(store)))
            assert raised.value.key == key
        session.result("x1", "paid 40, as the bank says")  # someone looked
        agent, script = build(engine, ran, "Paid.")
        result = asyncio.run(agent.run("Pay 40.", conversation=load(store)))
        asyncio.run(store.save(result))
        assert ran == []
        assert split_tail(script.sent[0])[0][-2:] == [
            'tool-call: pay({"euros":40})',
            "tool-return: paid 40, as the bank says",
        ]
        assert show(load(store).messages)[-2:] == ["tool-return: paid 40, as the bank says", "text: Paid."]
        assert engine.admin.verify().ok


def test_the_model_can_be_told(url: str, folder: Path) -> None:
    start(url)
    key = crash(url, "in the tool", folder)
    with holdfast.open(url) as engine:
        store = HoldfastConversationStore(engine)
        agent, script = build(engine, [], "I look first.", "Yes?", unknown="tell")
        result = asyncio.run(agent.run("Pay 40.", conversation=load(store)))
        asyncio.run(store.save(result))
        asyncio.run(agent.run("And?", conversation=load(store)))
        for messages in script.sent:
            [line] = [line for line in show(messages) if line.startswith("tool-return")]
            assert "outcome of this call is unknown" in line
            assert key in line
        assert engine.session("c1").recover().unknown_outcomes == ()


def test_a_kill_after_a_tool_repeats_nothing(url: str, folder: Path) -> None:
    """The result is known: the next run goes on with it."""
    start(url)
    crash(url, "after the tool", folder)
    ran: list[int] = []
    with holdfast.open(url) as engine:
        store = HoldfastConversationStore(engine)
        assert engine.session("c1").recover().unknown_outcomes == ()

        def decide(messages: list[ModelMessage]) -> Any:
            is_paid = any(isinstance(part, ToolReturnPart) for each in messages for part in each.parts)
            return "Paid." if is_paid else calls(ToolCallPart("pay", {"euros": 40}, tool_call_id="x2"))

        agent, _ = build(engine, ran, decide)
        assert asyncio.run(agent.run("Pay 40.", conversation=load(store))).output == "Paid."
        assert ran == []


def test_a_kill_without_a_history(url: str, folder: Path) -> None:
    """Also a program that keeps no history goes on from the session."""
    crash(url, "after the tool", folder)
    with holdfast.open(url) as engine:
        agent, script = build(engine, [], "Paid.")
        agent.run_sync("Is it paid?", conversation_id="c1")
        assert split_tail(script.sent[0])[0] == [
            "user-prompt: Pay 40.",
            'tool-call: pay({"euros":40})',
            "tool-return: paid 40",
            "user-prompt: Is it paid?",
        ]


WRITER = """
    import asyncio, sys
    import holdfast
    from pydantic_ai import Agent
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import ConversationConflict
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from holdfast.pydantic_ai import Holdfast, HoldfastConversationStore

    def reply(messages, info):
        prompts = [part.content for message in messages for part in message.parts if part.part_kind == "user-prompt"]
        return ModelResponse(parts=[TextPart("You said " + [each for each in prompts if each.startswith("turn")][-1])])

    engine = holdfast.open(sys.argv[1])
    agent = Agent(FunctionModel(reply), capabilities=[Holdfast(engine)] if sys.argv[3] == "both" else [])

    async def main():
        store = HoldfastConversationStore(engine)
        conflicts = number = 0
        while number < 6:
            conversation = await store.load("c1")
            result = await agent.run(f"turn {sys.argv[2]}-{number}", conversation=conversation)
            try:
                await store.save(result)
                number += 1
            except ConversationConflict:
                conflicts += 1
        print(conflicts, flush=True)

    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(main())
"""


@pytest.mark.parametrize("pieces", ["store", "both"])
def test_two_processes_lose_no_turn_and_add_none_twice(url: str, folder: Path, pieces: str) -> None:
    store = start(url)
    program = folder / "writer.py"
    program.write_text(textwrap.dedent(WRITER))
    writers = [
        subprocess.Popen(
            [sys.executable, str(program), url, name, pieces],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        for name in "ab"
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=60)
        assert writer.returncode == 0

    lines = show(load(store).messages)
    assert lines[:2] == ["user-prompt: Hello.", "text: Hello!"]
    prompts = [line.removeprefix("user-prompt: ") for line in lines[2::2]]
    assert sorted(prompts) == sorted(f"turn {name}-{number}" for name in "ab" for number in range(6))
    assert lines[3::2] == [f"text: You said {prompt}" for prompt in prompts]
    asyncio.run(store.save(load(store)))
    with holdfast.open(url) as engine:
        shown = [each.text for each in engine.session("c1").messages(limit=1_000) if not each.withdrawn]
        assert shown == [line.partition(": ")[2] for line in lines]
        assert engine.admin.verify().ok
