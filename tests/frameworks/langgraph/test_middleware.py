"""The middleware of LangChain: what models are sent, and what the session has afterwards."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRequest,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    dynamic_prompt,
    wrap_model_call,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel

import holdfast
from holdfast.errors import InsufficientTokens, InvalidArgument
from holdfast.langchain import HoldfastMiddleware
from holdfast.langgraph import HoldfastSaver
from tests.frameworks.langgraph.chat_models import ScriptedModel, calls, describe

PROMPT = "You are a shop assistant."


def find_order(number: int) -> str:
    """Find an order."""
    return f"Order {number} was sent on Monday."


def find_rows(count: int) -> str:
    """Find rows of a table."""
    return "".join(f"row {number}: some figures\n" for number in range(count))


def thread(name: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": name, **more}}


def ask(agent: Any, text: str, config: Any) -> list[BaseMessage]:
    messages: list[BaseMessage] = agent.invoke({"messages": [("user", text)]}, config)["messages"]
    return messages


def build(model: ScriptedModel, *middleware: Any, tools: Any = (find_order, find_rows), **options: Any) -> Any:
    options = {"system_prompt": PROMPT, "checkpointer": InMemorySaver(), **options}
    return create_agent(model, list(tools), middleware=list(middleware), **options)


def conversation(messages: list[BaseMessage]) -> list[tuple[str, str]]:
    """What a model was sent, without the system prompt and the tail."""
    return [each for each in describe(messages) if each[0] != "system" and not each[1].startswith("<holdfast-context>")]


def tail(messages: list[BaseMessage]) -> str:
    assert messages[-1].text.startswith("<holdfast-context>")
    return str(messages[-1].text)


def test_an_agent_gets_a_session_and_its_model_gets_packs(engine: holdfast.Engine) -> None:
    usage = {"input_tokens": 90, "output_tokens": 5, "total_tokens": 95}
    final = AIMessage("It was sent on Monday.", usage_metadata=usage)
    model = ScriptedModel([calls(("find_order", {"number": 7})), final, "You are welcome."])
    agent = build(model, HoldfastMiddleware(engine, user="ada"))
    ask(agent, "Where is order 7?", thread("t1"))
    state = ask(agent, "Thanks.", thread("t1"))
    assert [each.type for each in state] == ["human", "ai", "tool", "ai", "human", "ai"]
    assert model.sent[2][0].text.startswith(PROMPT)
    assert conversation(model.sent[2]) == [
        ("human", "Where is order 7?"),
        ("ai", " find_order{'number': 7}"),
        ("tool", "Order 7 was sent on Monday."),
        ("ai", "It was sent on Monday."),
        ("human", "Thanks."),
    ]
    session = engine.session("t1")
    assert [message.role for message in session.messages()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    replies = [message for message in session.messages() if message.role == "assistant"]
    assert replies[1].usage is not None
    assert replies[1].usage.input_tokens == 90
    assert len(session.packs.list()) == 3
    assert "Order 7 was sent" in str(session.pack().anthropic())
    assert session.recover().pending_work == ()
    assert engine.admin.verify().ok


def test_an_agent_that_is_awaited_gives_the_same(engine: holdfast.Engine) -> None:
    model = ScriptedModel([calls(("find_order", {"number": 7}), ("find_rows", {"count": 2})), "Sent."])
    agent = build(model, HoldfastMiddleware(engine))
    asyncio.run(agent.ainvoke({"messages": [("user", "Where is order 7?")]}, thread("t1")))
    assert conversation(model.sent[1])[2:] == [
        ("tool", "Order 7 was sent on Monday."),
        ("tool", "row 0: some figures\nrow 1: some figures\n"),
    ]
    session = engine.session("t1")
    assert [message.role for message in session.messages()] == ["user", "assistant", "tool", "tool", "assistant"]
    assert all(not message.withdrawn for message in session.messages())
    assert engine.admin.verify().ok


def test_each_prompt_extends_the_one_before_it_up_to_the_tail(file_engine: holdfast.Engine) -> None:
    def reply(messages: list[BaseMessage]) -> AIMessage:
        asked = [each for each in messages if each.type == "human"][-2]
        if messages[-2].type == "tool" or "order" not in asked.text:
            return AIMessage(f"Answer to: {asked.text}")
        return calls(("find_order", {"number": 7}, f"call-{len(messages)}"))

    model = ScriptedModel(reply)
    agent = build(model, HoldfastMiddleware(file_engine, user="ada"))
    for number in range(20):
        ask(
            agent, f"Question {number} about order {number}?" if number % 2 else f"Tell me about {number}.", thread("t")
        )
    assert len(model.sent) == 30
    prompts = [[(each.type, each.content, getattr(each, "tool_calls", None)) for each in sent] for sent in model.sent]
    for before, after in itertools.pairwise(prompts):
        assert after[: len(before) - 1] == before[:-1]
    assert all(not message.withdrawn for message in file_engine.session("t").messages())


def test_superseded_values_are_not_shown_and_current_ones_are(file_engine: holdfast.Engine) -> None:
    file_engine.ledger(user="ada").set("shipping_address", "12 Elm Street")
    model = ScriptedModel(["We ship to 12 Elm Street.", "Noted.", "456 Oak Ave."])
    agent = build(model, HoldfastMiddleware(file_engine))
    for text in ["Where do you ship?", "Actually, my shipping address is now 456 Oak Ave.", "Where do you ship?"]:
        state = ask(agent, text, thread("t", user_id="ada"))
    assert "shipping_address: 12 Elm Street" in tail(model.sent[0])
    assert "shipping_address: 456 Oak Ave" in tail(model.sent[2])
    assert "12 Elm" not in str(describe(model.sent[2]))
    assert state[1].text == "We ship to 12 Elm Street."
    quiet = ScriptedModel(["We ship to 456 Oak Ave.", "Noted."])
    other = build(quiet, HoldfastMiddleware(file_engine, observe=False))
    ask(other, "Actually, my shipping address is now 1 New Road.", thread("quiet", user_id="ada"))
    address = file_engine.ledger(user="ada").get("shipping_address")
    assert address is not None
    assert address.value == "456 Oak Ave"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_large_result_is_a_preview_that_the_model_reads_on(file_engine: holdfast.Engine, is_async: bool) -> None:
    def reply(messages: list[BaseMessage]) -> AIMessage:
        results = [each for each in messages if isinstance(each, ToolMessage)]
        if not results:
            return calls(("find_rows", {"count": 5_000}))
        if len(results) == 1:
            found = re.search(r"\bh\d+_\d+\b", results[0].text)
            assert found is not None
            return calls(("read_handle", {"handle": found[0], "first_line": 3_001, "last_line": 3_002}, "c2"))
        return AIMessage("done")

    model = ScriptedModel(reply)
    agent = build(model, HoldfastMiddleware(file_engine, budget=6_000))
    if is_async:
        state = asyncio.run(agent.ainvoke({"messages": [("user", "Rows?")]}, thread("t")))["messages"]
    else:
        state = ask(agent, "Rows?", thread("t"))
    assert len(state[2].text) > 100_000
    assert len(model.sent[1][3].text) < 5_000
    assert "read_handle" in model.sent[1][3].text
    assert "row 3000: some figures\nrow 3001: some figures" in state[4].text
    assert "row 3002" not in state[4].text
    assert file_engine.admin.verify().ok


def test_the_situation_that_the_model_writes_is_in_the_tail(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel([calls(("update_situation", {"goal": "refund order 7"})), "Yes."])
    agent = build(model, HoldfastMiddleware(file_engine))
    ask(agent, "Refund order 7.", thread("t"))
    assert "goal: refund order 7" in tail(model.sent[1])
    assert model.offered[0][:2] == ["read_handle", "update_situation"]
    quiet = ScriptedModel(["Yes."])
    ask(build(quiet, HoldfastMiddleware(file_engine, situation=False)), "Hi", thread("u"))
    assert quiet.offered[0] == ["read_handle", "find_order", "find_rows"]


def test_a_session_with_a_memory_recalls_earlier_sessions(file_engine: holdfast.Engine) -> None:
    early = file_engine.create_session("early", user="ada", memory=True)
    early.record("user", "My dog Rex is afraid of thunder.")
    early.end()
    file_engine.memory.deliver()
    model = ScriptedModel([calls(("recall_memory", {"query": "dog"})), "Rex."])
    agent = build(model, HoldfastMiddleware(file_engine, user="ada", memory=True))
    state = ask(agent, "What do you know about thunder?", thread("late"))
    assert "recall_memory" in model.offered[0]
    assert "Rex" in state[2].text


def test_a_run_ends_when_its_budget_is_used_up(engine: holdfast.Engine) -> None:
    def reply(messages: list[BaseMessage]) -> AIMessage:
        answer = calls(("find_order", {"number": 7}, f"c{len(messages)}"))
        answer.usage_metadata = {"input_tokens": 1_500, "output_tokens": 100, "total_tokens": 1_600}
        return answer

    model = ScriptedModel(reply)
    agent = build(model, HoldfastMiddleware(engine, run_budget=4_000))
    with pytest.raises(InsufficientTokens) as caught:
        ask(agent, "Go on for ever.", thread("t"))
    assert caught.value.available < 1_000
    assert len(model.sent) == 3
    with pytest.raises(InsufficientTokens):
        agent.invoke(None, thread("t"))  # the same message of the user has the same budget
    model.script = ["Short answer."]
    assert ask(agent, "Stop.", thread("t"))[-1].text == "Short answer."
    model.script = reply
    kind = build(model, HoldfastMiddleware(engine, run_budget=4_000, spent="end"))
    state = ask(kind, "Go on for ever.", thread("u"))
    assert "token budget of this run (4,000) is used up" in state[-1].text
    frames = engine.session("u", thread="runs").frames.list()
    assert [frame.budget.used for frame in frames] == [4_800]
    assert "Finished work" not in tail(model.sent[-1])
    assert engine.admin.verify().ok


class Answer(BaseModel):
    """The answer."""

    text: str


def test_structured_output(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel([calls(("Answer", {"text": "Rome"})), calls(("Answer", {"text": "Oslo"}, "c2"))])
    agent = build(model, HoldfastMiddleware(file_engine), response_format=ToolStrategy(Answer))
    state = agent.invoke({"messages": [("user", "Where?")]}, thread("t"))
    assert state["structured_response"] == Answer(text="Rome")
    agent.invoke({"messages": [("user", "Where else?")]}, thread("t"))
    assert [each[0] for each in conversation(model.sent[1])] == ["human", "ai", "tool", "human"]
    session = file_engine.session("t")
    assert [message.role for message in session.messages()] == ["user", "assistant", "tool"] * 2
    assert session.open_calls() == ()
    assert all(not message.withdrawn for message in session.messages())


def test_replies_are_streamed(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel([calls(("find_order", {"number": 7})), "It was sent on Monday."])
    agent = build(model, HoldfastMiddleware(file_engine))
    stream = agent.stream({"messages": [("user", "Where?")]}, thread("t"), stream_mode="messages")
    words = [chunk.text for chunk, _ in stream if chunk.type == "AIMessageChunk" and chunk.text.strip()]
    assert words == ["It ", "was ", "sent ", "on ", "Monday. "]
    assert [message.role for message in file_engine.session("t").messages()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_a_dynamic_prompt_is_sent_and_the_original_blocks_stay(file_engine: holdfast.Engine) -> None:
    blocks: list[Any] = [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]

    @dynamic_prompt
    def prompt(request: ModelRequest) -> Any:
        return SystemMessage(blocks) if len(request.messages) > 1 else "Be brief."

    model = ScriptedModel(["One.", "Two."])
    agent = build(
        model, prompt, HoldfastMiddleware(file_engine, user="ada", brief=holdfast.Brief(invariants=("No oaths.",)))
    )
    ask(agent, "1?", thread("t"))
    ask(agent, "2?", thread("t"))
    assert model.sent[0][0].text.startswith("Be brief.")
    assert "No oaths." in model.sent[0][0].text
    assert model.sent[1][0].content[: len(blocks)] == blocks
    assert model.sent[1][0].text.startswith("Be kind.\n\nThe user is ada.")  # providers join blocks without a space
    assert model.sent[1][0].text.count("Be kind.") == 1
    assert "No oaths." in model.sent[1][0].text
    assert "The user is ada." in model.sent[1][0].text


def test_the_brief_of_a_role_is_used(folder: Any) -> None:
    briefs = {"desk": holdfast.Brief(prompt="You are the desk.", invariants=("Never promise dates.",))}
    with holdfast.open(folder / "agent.db", briefs=briefs) as engine:
        model = ScriptedModel(["Yes."])
        ask(build(model, HoldfastMiddleware(engine, role="desk"), system_prompt=None), "Hi", thread("t"))
        assert model.sent[0][0].text.startswith("You are the desk.")
        assert "Never promise dates." in model.sent[0][0].text
        with pytest.raises(InvalidArgument):
            HoldfastMiddleware(engine, role="other")


def test_messages_without_ids_and_without_a_checkpointer(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel(["One.", "Two."])
    agent = build(model, HoldfastMiddleware(file_engine, session="fixed"), checkpointer=None)
    state = agent.invoke({"messages": [HumanMessage("1?")]})["messages"]
    plain: list[Any] = [("user", "1?"), ("assistant", "One."), ("user", "2?")]
    agent.invoke({"messages": plain})
    assert conversation(model.sent[1]) == [("human", "1?"), ("ai", "One."), ("human", "2?")]
    agent = build(ScriptedModel(["Three."]), HoldfastMiddleware(file_engine, session="fixed"), checkpointer=None)
    agent.invoke({"messages": [*state, ("user", "3?")]})
    assert file_engine.admin.verify().ok


def test_the_history_stays_when_another_middleware_summarizes(file_engine: holdfast.Engine) -> None:
    writer = ScriptedModel(lambda messages: AIMessage("A summary."))
    summarization = SummarizationMiddleware(model=writer, trigger=("messages", 6), keep=("messages", 2))
    model = ScriptedModel([f"Answer {number}." for number in range(8)])
    agent = build(model, summarization, HoldfastMiddleware(file_engine))
    for number in range(8):
        state = ask(agent, f"Question {number}?", thread("t"))
    assert len(state) < 10
    assert [text for kind, text in conversation(model.sent[-1]) if kind == "human"] == [
        f"Question {n}?" for n in range(8)
    ]
    assert "A summary." not in str(describe(model.sent[-1]))
    assert all(not message.withdrawn for message in file_engine.session("t").messages())


def test_what_other_middleware_adds_and_changes_is_sent(file_engine: holdfast.Engine) -> None:
    @wrap_model_call
    def change(request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        changed = [
            each.model_copy(update={"content": each.text.replace("secret", "***")}) if "secret" in each.text else each
            for each in request.messages
        ]
        return handler(request.override(messages=[HumanMessage("(weather: rain)"), *changed, HumanMessage("(hurry)")]))

    model = ScriptedModel(["One.", "Two."])
    agent = build(model, change, HoldfastMiddleware(file_engine))
    ask(agent, "My secret.", thread("t"))
    ask(agent, "Well?", thread("t"))
    assert conversation(model.sent[1]) == [
        ("human", "(weather: rain)"),
        ("human", "My ***."),
        ("ai", "One."),
        ("human", "Well?"),
        ("human", "(hurry)"),
    ]
    texts = [message.text for message in file_engine.session("t").messages()]
    assert texts == ["My secret.", "One.", "Well?", "Two."]


def test_what_another_middleware_redacts_in_the_state_is_redacted(file_engine: holdfast.Engine) -> None:
    def find_mail() -> str:
        """Find the mail address."""
        return "ada@example.com " + "x" * 60_000

    model = ScriptedModel([calls(("find_mail", {})), "Found."])
    redaction = PIIMiddleware("email", strategy="redact", apply_to_tool_results=True)
    agent = build(model, redaction, HoldfastMiddleware(file_engine, budget=4_000), tools=[find_mail])
    ask(agent, "Which address?", thread("t"))
    assert "ada@example.com" not in str(describe(model.sent[1]))


@pytest.mark.parametrize("is_own", [False, True])
def test_what_another_middleware_redacts_in_a_result_is_never_shown(file_engine: holdfast.Engine, is_own: bool) -> None:
    """Neither whole, nor as a preview, nor in a summary; and a large result stays within the budget."""

    def list_owners(rows: int) -> str:
        """List owners."""
        return "".join(f"row {row}: owner{row}@example.com\n" for row in range(rows))

    replies: list[AIMessage | str | Exception] = [
        calls(("list_owners", {"rows": 3}, "c1"), ("list_owners", {"rows": 3_000}, "c2")),
        *["Well."] * 30,
    ]
    redact = PIIMiddleware("email", strategy="redact", apply_to_tool_results=True)
    saver: Any = HoldfastSaver(file_engine) if is_own else InMemorySaver()
    model = ScriptedModel(replies)
    agent = build(model, redact, HoldfastMiddleware(file_engine, budget=3_000), tools=[list_owners], checkpointer=saver)
    for number in range(15):
        ask(agent, f"Question {number}? " + "Tell me more. " * 40, thread("t"))
    for sent in model.sent:
        assert all("@example.com" not in each.text for each in sent)
        assert sum(len(each.text) for each in sent) < 15_000
    assert any("Summary of earlier context" in each.text for each in model.sent[-1])
    session = file_engine.session("t")
    results = [each for each in session.messages(limit=100) if each.tool_results and not each.withdrawn]
    assert ["[REDACTED_EMAIL]" in str(each.tool_results[0].value) for each in results] == [True, True]
    assert file_engine.admin.verify().ok


def test_system_messages_in_the_state_come_first(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel(["One.", "Two."])
    agent = build(model, HoldfastMiddleware(file_engine))
    agent.invoke({"messages": [SystemMessage("Speak French."), HumanMessage("1?")]}, thread("t"))
    ask(agent, "2?", thread("t"))
    assert [(each.type, each.text) for each in model.sent[1][:2]] == [("system", PROMPT), ("system", "Speak French.")]
    assert conversation(model.sent[1]) == [("human", "1?"), ("ai", "One."), ("human", "2?")]


def test_blocks_of_providers_go_back_as_they_came(file_engine: holdfast.Engine) -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
    reply = AIMessage(
        [
            thinking,
            {"type": "text", "text": "A dog."},
            {"type": "tool_use", "id": "c1", "name": "find_order", "input": {"number": 7}},
        ],
        tool_calls=[{"name": "find_order", "args": {"number": 7}, "id": "c1", "type": "tool_call"}],
        additional_kwargs={"reasoning_content": "Hm."},
    )
    image = {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"}
    model = ScriptedModel([reply, "Two."])
    agent = build(model, HoldfastMiddleware(file_engine))
    question = HumanMessage([{"type": "text", "text": "What is it?"}, image])
    agent.invoke({"messages": [question]}, thread("t"))
    assert model.sent[1][1].content == question.content
    assert model.sent[1][2].content == reply.content
    assert model.sent[1][2].additional_kwargs == reply.additional_kwargs
    assert model.sent[1][3].type == "tool"


def test_a_failed_model_call_leaves_no_reply(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel([ConnectionError("down"), "One."])
    agent = build(model, ModelRetryMiddleware(max_retries=1, initial_delay=0.0), HoldfastMiddleware(file_engine))
    assert ask(agent, "1?", thread("t"))[-1].text == "One."
    assert [message.role for message in file_engine.session("t").messages()] == ["user", "assistant"]


def test_a_reply_that_is_asked_for_again_replaces_the_old_one(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel(["One.", "Uno.", "Dos."])
    agent = build(model, HoldfastMiddleware(file_engine))
    ask(agent, "1?", thread("t"))
    before = next(each for each in agent.get_state_history(thread("t")) if each.next == ("model",))
    agent.invoke(None, before.config)
    assert conversation(model.sent[1]) == [("human", "1?")]
    ask(agent, "2?", thread("t"))
    assert conversation(model.sent[2]) == [("human", "1?"), ("ai", "Uno."), ("human", "2?")]
    shown = [message.text for message in file_engine.session("t").messages() if not message.withdrawn]
    assert shown == ["1?", "Uno.", "2?", "Dos."]


def test_threads_of_one_agent_do_not_mix(engine: holdfast.Engine) -> None:
    def reply(messages: list[BaseMessage]) -> AIMessage:
        name = messages[1].text.split()[-1]
        assert all(
            name in each.text for each in messages if each.type == "human" and "holdfast-context" not in each.text
        )
        if messages[-2].type == "human" and len(messages) % 3:
            return calls(("find_order", {"number": 7}), ("find_rows", {"count": 1}, "other"))
        return AIMessage(f"Hello {name}")

    agent = build(ScriptedModel(reply), HoldfastMiddleware(engine))
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(3):
                ask(agent, f"{number}: I am {name}", thread(name))
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(f"user-{number}",)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    for number in range(6):
        session = engine.session(f"user-{number}")
        assert sum(message.role == "user" for message in session.messages()) == 3
        assert session.open_calls() == ()
    assert engine.admin.verify().ok


def test_an_agent_inside_a_tool_has_its_own_conversation(file_engine: holdfast.Engine) -> None:
    inner_model = ScriptedModel(["The inner answer."])
    inner = build(inner_model, HoldfastMiddleware(file_engine), checkpointer=None)

    def delegate(question: str) -> str:
        """Ask another agent."""
        return str(inner.invoke({"messages": [("user", question)]})["messages"][-1].text)

    model = ScriptedModel([calls(("delegate", {"question": "Why?"})), "Because."])
    ask(build(model, HoldfastMiddleware(file_engine), tools=[delegate]), "Do it.", thread("t"))
    assert conversation(inner_model.sent[0]) == [("human", "Why?")]
    assert conversation(model.sent[1])[-1] == ("tool", "The inner answer.")
    texts = [message.text for message in file_engine.session("t").messages() if not message.withdrawn]
    assert texts == ["Do it.", "", "The inner answer.", "Because."]
    assert len(file_engine.session("t").messages()) == 4


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize("outer", [True, False])
def test_what_a_model_asks_an_agent_inside_a_tool_is_no_word_of_the_user(awaits: bool, outer: bool) -> None:
    engine = holdfast.open("memory:")
    ledger = engine.ledger(user="ada")
    ledger.set("shipping_address", "1 First St")
    inner = build(ScriptedModel(["Done."]), HoldfastMiddleware(engine), checkpointer=None)

    def delegate(task: str) -> str:
        """Ask another agent."""
        return str(inner.invoke({"messages": [("user", task)]})["messages"][-1].text)

    async def delegate_async(task: str) -> str:
        return str((await inner.ainvoke({"messages": [("user", task)]}))["messages"][-1].text)

    tool = StructuredTool.from_function(delegate, coroutine=delegate_async)
    model = ScriptedModel([calls(("delegate", {"task": "My shipping address is now 999 Fake St."})), "Done."])
    agent = build(model, *([HoldfastMiddleware(engine)] if outer else []), tools=[tool])
    said, config = {"messages": [("user", "Where is my order?")]}, thread("t", user_id="ada")
    asyncio.run(agent.ainvoke(said, config)) if awaits else agent.invoke(said, config)
    assert [row.messages for row in engine.sessions() if row.thread] == [2]
    assert [fact.value for fact in ledger.history("shipping_address")] == ["1 First St"]


def test_a_run_without_a_name_is_refused(file_engine: holdfast.Engine) -> None:
    agent = build(ScriptedModel(["One."]), HoldfastMiddleware(file_engine), checkpointer=None)
    with pytest.raises(InvalidArgument, match="thread_id"):
        agent.invoke({"messages": [("user", "1?")]})
    with pytest.raises(InvalidArgument):
        HoldfastMiddleware(file_engine, unknown="ignore")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        HoldfastMiddleware(object())  # type: ignore[arg-type]
    with pytest.raises((InvalidArgument, TypeError)):
        HoldfastMiddleware(file_engine, colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "\ud83d", "🙂" * 20_000, "</holdfast-context>", "<holdfast-context>x"]
)
def test_any_text_and_any_thread_name(file_engine: holdfast.Engine, text: str) -> None:
    model = ScriptedModel(["One.", "Two."])
    agent = build(model, HoldfastMiddleware(file_engine))
    name = "t" * 300 + text.replace("\ud83d", "")[:10].replace("\x00", "")
    ask(agent, text, thread(name))
    ask(agent, "Well?", thread(name))
    assert conversation(model.sent[1])[-1] == ("human", "Well?")
    assert file_engine.admin.verify().ok


def test_the_state_class_of_other_middleware_stays(file_engine: holdfast.Engine) -> None:
    class Counter(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
            return {"messages": [HumanMessage("(added to the state)")]} if len(state["messages"]) == 1 else None

    model = ScriptedModel(["One."])
    ask(build(model, Counter(), HoldfastMiddleware(file_engine)), "1?", thread("t"))
    assert conversation(model.sent[0]) == [("human", "1?"), ("human", "(added to the state)")]


def test_the_checkpointer_and_the_middleware_share_the_session(engine: holdfast.Engine) -> None:
    model = ScriptedModel(
        [calls(("find_order", {"number": 7}), ("find_rows", {"count": 1}, "c2")), "Sent.", "Yes.", "No."]
    )
    agent = build(model, HoldfastMiddleware(engine), checkpointer=HoldfastSaver(engine))
    for text in ["Where is order 7?", "Sure?", "Really?"]:
        ask(agent, text, thread("t", user_id="ada"))
    session = engine.session("t")
    roles = ["user", "assistant", "tool", "tool", "assistant", "user", "assistant", "user", "assistant"]
    assert [message.role for message in session.messages()] == roles
    assert all(not message.withdrawn for message in session.messages())
    assert len(session.packs.list()) == 4
    assert engine.admin.verify().ok


def test_a_long_conversation_is_shortened_and_stays_in_the_state(file_engine: holdfast.Engine) -> None:
    def reply(messages: list[BaseMessage]) -> AIMessage:
        return AIMessage(f"Answer {len(messages)}: " + "word " * 200)

    model = ScriptedModel(reply)
    agent = build(model, HoldfastMiddleware(file_engine, budget=3_000))
    for number in range(30):
        state = ask(agent, f"Question {number}? " + "word " * 100, thread("t"))
    assert len(state) == 60
    shown = conversation(model.sent[-1])
    assert sum(len(text) for _, text in shown) < 14_000
    assert shown[-1][1].startswith("Question 29?")
    assert all(len(str(describe(sent))) < 20_000 for sent in model.sent)
    changes = [
        before[1:-1] != after[1 : len(before) - 1] for before, after in itertools.pairwise(map(describe, model.sent))
    ]
    assert sum(changes) < 12  # the history view changes only at boundaries
    assert file_engine.admin.verify().ok


def test_a_result_that_is_newer_than_a_correction_stays_as_the_tool_gave_it(file_engine: holdfast.Engine) -> None:
    """What another system has may be an error there, or newer: the model needs both, and the current fact comes last."""

    def look_up(order: str) -> str:
        """Look an order up."""
        return f"Order {order}: ship to 123 Main St."

    file_engine.ledger(user="ada").set("shipping_address", "123 Main St")
    model = ScriptedModel(
        [
            calls(("look_up", {"order": "4711"})),
            "To 123 Main St.",
            "Noted.",
            calls(("look_up", {"order": "4711"})),
            "Hm.",
        ]
    )
    agent: Any = create_agent(
        model, [look_up], middleware=[HoldfastMiddleware(file_engine, user="ada")], checkpointer=InMemorySaver()
    )
    for text in ("Where does it go?", "Actually, my shipping address is now 456 Oak Ave.", "Is it changed?"):
        agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "t"}})

    before, after = [each.text for each in model.sent[-1] if each.type == "tool"]
    assert "[outdated: shipping_address]" in before
    assert after == "Order 4711: ship to 123 Main St."
    assert model.sent[-1][-1].text.count("- shipping_address: 456 Oak Ave") == 1


def test_what_the_user_said_in_earlier_turns_is_not_read_again_by_an_agent_inside_a_graph() -> None:
    engine = holdfast.open("memory:")
    ledger = engine.ledger(user="ada")
    ledger.set("shipping_address", "1 First St")
    model = ScriptedModel(lambda _: AIMessage("Noted."))
    builder = StateGraph(MessagesState)
    builder.add_node("desk", build(model, HoldfastMiddleware(engine), checkpointer=None))
    builder.add_edge(START, "desk")
    builder.add_edge("desk", END)
    graph = builder.compile(checkpointer=HoldfastSaver(engine))
    config = thread("t1", user_id="ada")
    ask(graph, "My shipping address is now 123 Main St.", config)
    assert [fact.value for fact in ledger.history("shipping_address")] == ["1 First St", "123 Main St"]
    ledger.set("shipping_address", "456 Oak Ave")
    ask(graph, "Where is my order?", config)
    assert "shipping_address: 456 Oak Ave" in tail(model.sent[-1])
    assert [fact.value for fact in ledger.history("shipping_address")][2:] == ["456 Oak Ave"]
    ask(graph, "My shipping address is now 789 Pine Rd.", config)
    assert "shipping_address: 789 Pine Rd" in tail(model.sent[-1])


def test_what_was_said_before_the_agent_had_the_middleware_overrules_no_fact() -> None:
    engine, checkpoints = holdfast.open("memory:"), InMemorySaver()
    engine.ledger(user="ada").set("shipping_address", "1 First St")
    before = build(ScriptedModel(lambda _: AIMessage("Noted.")), checkpointer=checkpoints)
    ask(before, "My shipping address is now 123 Main St.", thread("old", user_id="ada"))
    ask(before, "What is the weather like?", thread("old", user_id="ada"))
    model = ScriptedModel(lambda _: AIMessage("Noted."))
    agent = build(model, HoldfastMiddleware(engine), checkpointer=checkpoints)
    ask(agent, "My shipping address is now 456 Oak Ave.", thread("new", user_id="ada"))
    ask(agent, "Where is my order?", thread("old", user_id="ada"))
    assert "shipping_address: 456 Oak Ave" in tail(model.sent[-1])
