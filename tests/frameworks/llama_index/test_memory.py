"""An agent of LlamaIndex with our memory: what its model is sent, what is stored, and what survives kill -9."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, JsonSerializer

import holdfast
from holdfast.frameworks import current_call
from holdfast.llama_index import HoldfastChatStore, HoldfastFacts, HoldfastMemory
from tests.frameworks.llama_index.scripted import ScriptedLLM

CALL = [("call_1", "look_up", {"order": "4711"})]
CHILD = """
import asyncio, os, sys
import holdfast
from llama_index.core.agent.workflow import FunctionAgent
from holdfast.llama_index import HoldfastMemory
from tests.frameworks.llama_index.scripted import ScriptedLLM

def pay(euros: int) -> str:
    "Pay."
    os.kill(os.getpid(), 9)

async def main():
    memory = HoldfastMemory(holdfast.open(sys.argv[1]), "chat", user="ada")
    llm = ScriptedLLM([[("call_9", "pay", {"euros": 40})]])
    agent = FunctionAgent(llm=llm, tools=memory.observe_tools([pay]), streaming=False)
    await agent.run("Pay the rent.", memory=memory)

asyncio.run(main())
"""


def look_up(order: str) -> str:
    """Say where an order is."""
    return f"Order {order} is at the depot."


def run_agent(memory: Any, llm: ScriptedLLM, *questions: str, tools: Any = None, streaming: bool = False) -> list[str]:
    async def scenario() -> list[str]:
        used = memory.observe_tools([look_up]) if tools is None else tools
        agent = FunctionAgent(llm=llm, tools=used, system_prompt="You are the order desk.", streaming=streaming)
        answers: list[Any] = [await agent.run(question, memory=memory) for question in questions]
        return [str(answer.response.content) for answer in answers]

    return asyncio.run(scenario())


@pytest.mark.parametrize("streaming", [False, True])
def test_an_agent_remembers_across_processes(engine: holdfast.Engine, streaming: bool) -> None:
    llm = ScriptedLLM([CALL, "It is at the depot.", "You asked about 4711."])
    memory = HoldfastMemory(engine, "chat", user="ada")
    assert run_agent(memory, llm, "Where is order 4711?", streaming=streaming) == ["It is at the depot."]
    again = HoldfastMemory(engine, "chat", user="ada")
    assert run_agent(again, llm, "What did I ask?", streaming=streaming) == ["You asked about 4711."]
    sent = [(message.role.value, message.content) for message in llm.sent[2]]
    assert sent[0] == ("system", "You are the order desk.")
    asked = [text for role, text in sent[1:] if role == "user" and text is not None and "holdfast-context" not in text]
    assert asked == ["Where is order 4711?", "What did I ask?"]
    assert ("tool", "Order 4711 is at the depot.") in sent
    session = engine.session("chat")
    assert [message.role for message in session.messages() if message.frame is None] == [
        *("user", "assistant", "tool", "assistant", "user", "assistant")
    ]
    assert memory.tool_runs.recover().pending_work == ()
    assert "Finished work" not in session.pack().text
    assert engine.admin.verify().ok


def test_a_call_may_have_the_id_of_an_earlier_one(file_engine: holdfast.Engine) -> None:
    """LlamaIndex's integration of Ollama gives each call the name of its tool as id."""
    orders = [[("look_up", "look_up", {"order": order}) for order in group] for group in (["1"], ["2", "3"], ["4"])]
    llm = ScriptedLLM([orders[0], "One.", orders[1], "Two and three.", orders[2], "Four.", "Bye."])
    run_agent(HoldfastMemory(file_engine, "chat"), llm, "Where is 1?", "And 2 and 3?", "And 4?")
    run_agent(HoldfastMemory(file_engine, "chat"), llm, "Thanks.")
    results = [message.content for message in llm.sent[-1] if message.role == MessageRole.TOOL]
    assert results == [f"Order {number} is at the depot." for number in (1, 2, 3, 4)]
    assert file_engine.session("chat").evidence() == []


def test_superseded_values_are_not_shown(engine: holdfast.Engine) -> None:
    engine.ledger(user="ada").set("shipping_address", "123 Main St")
    llm = ScriptedLLM(["It goes to 123 Main St.", "Noted.", "To 456 Oak Ave."])
    memory = HoldfastMemory(engine, "chat", user="ada")
    run_agent(
        memory,
        llm,
        "Where does my lamp go?",
        "Actually, my shipping address is now 456 Oak Ave.",
        "So where does it go?",
    )
    last = "\n".join(message.content or "" for message in llm.sent[-1])
    assert "123 Main St" not in last
    assert "456 Oak Ave" in last
    assert [each.content for each in memory.get_all()][1] == "It goes to 123 Main St."
    assert len(engine.session("chat").packs.list()) == 3


def test_packs_are_bounded_and_extend_each_other(file_engine: holdfast.Engine) -> None:
    turns = 20
    llm = ScriptedLLM(
        [
            step
            for number in range(turns)
            for step in ([(f"c{number}", "look_up", {"order": str(number)})], f"answer {number}")
        ]
    )
    memory = HoldfastMemory(file_engine, "chat", budget=24_000)
    run_agent(memory, llm, *(f"Where is order {number}?" for number in range(turns)))
    firsts = [[(each.role, each.content) for each in sent] for sent in llm.sent[::2]]
    for earlier, later in itertools.pairwise(firsts):
        stable = [each for each in earlier if "<holdfast-context>" not in (each[1] or "")]
        assert later[: len(stable)] == stable


def test_many_turns_stay_within_the_budget(file_engine: holdfast.Engine) -> None:
    memory = HoldfastMemory(file_engine, "chat", budget=2_000)
    for number in range(60):
        memory.put(ChatMessage(role=MessageRole.USER, content=f"question {number} " + "word " * 60))
        memory.put(ChatMessage(role=MessageRole.ASSISTANT, content=f"answer {number} " + "word " * 60))
    shown = memory.get()
    assert sum(len(message.content or "") for message in shown) < 2_000 * 6
    assert "answer 59" in "\n".join(message.content or "" for message in shown)
    assert len(memory.get_all()) == 120


def test_a_large_result_can_be_read(file_engine: holdfast.Engine) -> None:
    def dump() -> str:
        """Print everything."""
        return "\n".join(f"line {number}" for number in range(20_000))

    memory = HoldfastMemory(file_engine, "chat", budget=4_000, reads_handles=True)
    llm = ScriptedLLM([[("c1", "dump", {})], "Long.", "Again."])
    run_agent(memory, llm, "Print it.", "And now?", tools=[dump, *memory.read_tools()])
    [shown] = [message for message in llm.sent[2] if message.role == MessageRole.TOOL]
    assert len(shown.content or "") < 20_000
    [handle] = [each for each in file_engine.session("chat").handles.list() if each.id in (shown.content or "")]
    [tool] = memory.read_tools()
    assert "line 19999" in str(tool.call(handle=handle.id, first_line=-1))


def test_a_conversation_can_be_replaced_and_reset(engine: holdfast.Engine) -> None:
    memory = HoldfastMemory(engine, "chat")
    one, two = ChatMessage(content="one"), ChatMessage(role=MessageRole.ASSISTANT, content="two")
    memory.set([one, two])
    memory.set([one])
    assert memory.get_all() == [one]
    assert "two" not in engine.session("chat").pack().text
    memory.reset()
    assert memory.get_all() == []
    memory.put(two)
    assert memory.get_all() == [two]


def test_a_tool_knows_its_key_and_its_errors_are_stored(file_engine: holdfast.Engine) -> None:
    keys: list[str] = []

    def pay(euros: int) -> str:
        """Pay."""
        started = current_call()
        assert started is not None
        keys.append(started.key)
        raise ConnectionError("no route to the bank")

    memory = HoldfastMemory(file_engine, "chat")
    llm = ScriptedLLM([[("c1", "pay", {"euros": 1}), ("c2", "pay", {"euros": 2})], "It failed."])
    run_agent(memory, llm, "Pay twice.", tools=memory.observe_tools([pay]))
    assert len({*keys}) == 2
    assert all("no route to the bank" in (each.content or "") for each in llm.sent[1] if each.role == MessageRole.TOOL)
    assert memory.tool_runs.recover().unknown_outcomes == ()
    assert current_call() is None


def test_a_tool_gets_the_context_of_its_agent(file_engine: holdfast.Engine) -> None:
    async def note(ctx: Context, name: str) -> str:
        """Note a name."""
        await ctx.store.set("name", name)
        return f"Noted {await ctx.store.get('name')}."

    note.__annotations__["ctx"] = Context  # as in a module without deferred annotations
    memory = HoldfastMemory(file_engine, "chat")
    llm = ScriptedLLM([[("c1", "note", {"name": "Ada"})], "Hello Ada."])
    run_agent(memory, llm, "I am Ada.", tools=memory.observe_tools([note]))
    assert [each.content for each in llm.sent[1] if each.role == MessageRole.TOOL] == ["Noted Ada."]
    [asked] = [each for each in memory.tool_runs.messages() if each.tool_calls]
    arguments: Any = asked.tool_calls[0].args
    assert arguments["name"] == "Ada"


def test_a_tool_that_ran_has_not_failed_for_its_text(file_engine: holdfast.Engine) -> None:
    memory = HoldfastMemory(file_engine, "chat")
    tool: Any
    [tool] = memory.observe_tools([FunctionTool.from_defaults(lambda x: f"a \ud800 {x}", name="f", description="f")])
    assert tool.call(x=1).content == "a \ud800 1"
    assert not tool.call(x=object()).is_error
    assert memory.tool_runs.recover().unknown_outcomes == ()


def test_a_context_is_stored_without_the_memory(file_engine: holdfast.Engine) -> None:
    """LlamaIndex says that a memory is passed again: then the run goes on."""

    async def scenario() -> str:
        memory = HoldfastMemory(file_engine, "chat")
        agent = FunctionAgent(llm=ScriptedLLM(["Hello.", "Again."]), tools=[], streaming=False)
        context: Context[Any] = Context(agent)
        await agent.run("Hello.", ctx=context, memory=memory)
        with pytest.warns(Warning, match="memory"):
            stored = context.to_dict(serializer=JsonSerializer())
        restored: Context[Any] = Context.from_dict(agent, stored, serializer=JsonSerializer())
        again = HoldfastMemory(file_engine, "chat")
        answer: Any = await agent.run("And now?", ctx=restored, memory=again)
        assert len(again.get_all()) == 4
        return str(answer.response.content)

    assert asyncio.run(scenario()) == "Again."


def test_a_call_without_a_result_does_not_stop_the_chat(engine: holdfast.Engine) -> None:
    call: Any = ToolCallBlock(tool_call_id="c1", tool_name="look_up", tool_kwargs={"order": "7"})
    memory = HoldfastMemory(engine, "chat")
    memory.put(ChatMessage(content="Where is order 7?"))
    memory.put(ChatMessage(role=MessageRole.ASSISTANT, blocks=[call]))
    llm = ScriptedLLM(["At the depot.", "You are welcome."])
    assert run_agent(memory, llm, "Well?", "Thanks.") == ["At the depot.", "You are welcome."]
    roles = [each.role.value for each in llm.sent[1]]
    assert roles == ["system", "user", "assistant", "tool", "user", "assistant", "user", "user"]
    assert not any(each.withdrawn for each in engine.session("chat").messages())


def test_deleted_messages_of_a_memory_can_be_erased(file_engine: holdfast.Engine) -> None:
    memory = HoldfastMemory(file_engine, "chat")
    memory.put(ChatMessage(content="the secret"))
    memory.reset()
    assert memory.erase_deleted() == 1
    payloads = b"".join(event.payload or b"" for event in memory.session.events())
    assert b"the secret" not in payloads


def test_a_process_that_dies_in_a_tool_leaves_its_outcome_unknown(url: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", CHILD, url], cwd=Path(__file__).parents[3], capture_output=True, timeout=120, check=False
    )
    assert run.returncode == -9, run.stderr.decode()
    with holdfast.open(url) as engine:
        memory = HoldfastMemory(engine, "chat")
        session = memory.session
        [unknown] = memory.tool_runs.recover().unknown_outcomes
        assert unknown.key
        assert "pay" in unknown.description
        assert [message.text for message in session.messages() if message.role == "user"] == ["Pay the rent."]
        assert engine.admin.verify().ok


def test_a_memory_block_states_what_holds_now(file_engine: holdfast.Engine) -> None:
    ledger = file_engine.ledger(user="ada")
    ledger.set("shipping_address", "123 Main St")
    ledger.set("discount", "at most 15%", is_constraint=True)
    ledger.set("shipping_address", "456 Oak Ave")

    async def scenario() -> list[ChatMessage]:
        block = HoldfastFacts(file_engine, "chat", user="ada")
        memory = Memory.from_defaults(session_id="chat", token_limit=300, token_flush_size=100, memory_blocks=[block])
        for number in range(20):
            await memory.aput(ChatMessage(content=f"question {number} " + "word " * 10))
            await memory.aput(ChatMessage(role=MessageRole.ASSISTANT, content=f"answer {number} " + "word " * 10))
        assert await block.atruncate("", 5_000) is None
        return await memory.aget()

    first = asyncio.run(scenario())[0].content or ""
    assert "discount: at most 15%" in first
    assert "shipping_address: 456 Oak Ave" in first
    assert "123 Main St" not in first
    flushed = [message.text for message in file_engine.session("chat").messages()]
    assert flushed[0].startswith("question 0")
    assert len(flushed) == len({*flushed})


def test_a_memory_block_records_nothing_that_the_chat_store_has(file_engine: holdfast.Engine) -> None:
    """LlamaIndex marks the messages that it flushes with the id of its session."""

    async def scenario() -> None:
        block = HoldfastFacts(file_engine, "chat")
        memory = Memory.from_defaults(
            session_id="chat",
            token_limit=200,
            token_flush_size=50,
            chat_store=HoldfastChatStore(file_engine),
            memory_blocks=[block],
        )
        for number in range(12):
            await memory.aput(ChatMessage(content=f"question {number} " + "word " * 10))
            await memory.aput(ChatMessage(role=MessageRole.ASSISTANT, content=f"answer {number} " + "word " * 10))
        assert len(await memory.aget_all(status=MessageStatus.ARCHIVED)) > 4

    asyncio.run(scenario())
    session = file_engine.session("chat")
    said = [" ".join(message.text.split()[:2]) for message in session.messages()]
    assert said == [f"{role} {number}" for number in range(12) for role in ("question", "answer")]
    assert session.state().withdrawn == 0


def test_a_memory_block_records_equal_messages_each_time(file_engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        block = HoldfastFacts(file_engine, "chat")
        for _ in range(2):
            await block.aput([ChatMessage(content="Yes."), ChatMessage(role=MessageRole.ASSISTANT, content="Good.")])
        await block.aput([])

    asyncio.run(scenario())
    assert [each.text for each in file_engine.session("chat").messages()] == ["Yes.", "Good."] * 2


def test_memories_are_made_from_defaults(file_engine: holdfast.Engine) -> None:
    assert HoldfastMemory.from_defaults(engine=file_engine, session_id="chat").get_all() == []
    with pytest.raises(holdfast.errors.InvalidArgument, match="session_id"):
        HoldfastMemory.from_defaults(engine=file_engine)
    assert FunctionTool.from_defaults(look_up).metadata.get_name() == "look_up"
