"""Replies that are odd or that others change: calls that cannot be parsed, usage, lost answers, and late checkpoints."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState
from langchain.agents.middleware import after_model, wrap_model_call, wrap_tool_call
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import holdfast
from holdfast.errors import CallAnswered
from holdfast.frameworks import current_call
from holdfast.langchain import HoldfastMiddleware
from holdfast.langgraph import HoldfastSaver
from tests.frameworks.langgraph.chat_models import ScriptedModel, calls, describe
from tests.frameworks.langgraph.test_middleware_tools import TIMEOUT_S, ask, build, run, thread

BROKEN = '{"euros": 4'
USAGE: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def broken(call_id: str | None = "w1", *, text: str = "", beside: AIMessage | None = None) -> AIMessage:
    """A reply with a call whose arguments cannot be parsed."""
    call = {"name": "pay", "args": BROKEN, "id": call_id, "error": "x", "type": "invalid_tool_call"}
    return AIMessage(text, tool_calls=beside.tool_calls if beside else [], invalid_tool_calls=[call])


def live(session: holdfast.Session) -> list[tuple[str, str]]:
    return [(str(each.role), each.text) for each in session.messages(limit=100) if not each.withdrawn]


def withdrawn(session: holdfast.Session) -> int:
    return sum(1 for each in session.messages(limit=100) if each.withdrawn)


@pytest.mark.parametrize("with_holdfast", [False, True])
@pytest.mark.parametrize("durability", ["async", "sync"])  # "sync": the saver records what the user said first
@pytest.mark.parametrize("text", ["", "I pay."])
def test_a_call_that_cannot_be_parsed_is_recorded_and_shown_with_its_answer(
    file_engine: holdfast.Engine, text: str, durability: str, with_holdfast: bool
) -> None:
    saver: BaseCheckpointSaver[Any] = HoldfastSaver(file_engine) if with_holdfast else InMemorySaver()
    model = ScriptedModel([broken(text=text), "Sorry.", "Yes."])
    agent = build(model, HoldfastMiddleware(file_engine), tools=[pay], checkpointer=saver)
    for said in ("Pay.", "And?", "Really?"):
        agent.invoke({"messages": [("user", said)]}, thread("t"), durability=durability)
    session = file_engine.session("t")
    (made,) = [call for each in session.messages() for call in each.tool_calls]
    assert (made.name, made.args, made.provider_id) == ("pay", BROKEN, "w1")
    roles = [role for role, _ in live(session)]
    assert roles.count("tool") == 1
    assert [role for role in roles if role != "tool"] == ["user", "assistant"] * 3
    assert withdrawn(session) == 0
    assert not session.evidence()
    assert session.open_calls() == ()
    for sent in model.sent[1:]:
        reply, answer = sent[1:3]
        assert isinstance(reply, AIMessage)
        assert reply.invalid_tool_calls[0]["id"] == "w1"
        assert isinstance(answer, ToolMessage)
        assert (answer.tool_call_id, answer.status) == ("w1", "error")
        assert "malformed" in answer.text
        assert sum(isinstance(each, ToolMessage) for each in sent) == 1


def test_a_call_that_cannot_be_parsed_beside_one_that_can(file_engine: holdfast.Engine) -> None:
    model = ScriptedModel([broken(beside=calls(("pay", {"euros": 3}, "ok"))), "Paid.", "Yes."])
    agent = build(model, HoldfastMiddleware(file_engine), tools=[pay])
    ask(agent, "Pay.")
    ask(agent, "And?")
    session = file_engine.session("t")
    assert withdrawn(session) == 0
    assert not session.evidence()
    for sent in model.sent[1:]:
        answers = [each for each in sent if isinstance(each, ToolMessage)]
        assert sorted(each.tool_call_id for each in answers) == ["ok", "w1"]
        assert sent[1].type == "ai"
        assert {each.type for each in sent[2:4]} == {"tool"}


def test_a_call_without_an_id_that_cannot_be_parsed_is_shown_as_one_that_was_not_run(
    file_engine: holdfast.Engine,
) -> None:
    model = ScriptedModel([broken(None), "Sorry."])
    agent = build(model, HoldfastMiddleware(file_engine), tools=[pay])
    ask(agent, "Pay.")
    ask(agent, "And?")
    reply, answer = model.sent[-1][1:3]
    assert isinstance(reply, AIMessage)
    assert isinstance(answer, ToolMessage)
    assert [call["id"] for call in reply.tool_calls] == [answer.tool_call_id]
    assert reply.tool_calls[0]["args"] == {"input": BROKEN}
    assert not reply.invalid_tool_calls
    assert answer.text == "Error: the arguments of this call could not be parsed. It was not run."


@pytest.mark.parametrize("with_holdfast", [False, True])
def test_the_usage_of_a_reply_that_is_replaced_counts_once(file_engine: holdfast.Engine, with_holdfast: bool) -> None:
    @wrap_model_call
    def shout(request: Any, handler: Any) -> Any:
        response = handler(request)
        response.result[0] = response.result[0].model_copy(update={"content": response.result[0].content.upper()})
        return response

    saver: BaseCheckpointSaver[Any] = HoldfastSaver(file_engine) if with_holdfast else InMemorySaver()
    hello, bye = (AIMessage(text, usage_metadata=USAGE) for text in ("hello", "bye"))
    model = ScriptedModel([hello, bye, "Done."])
    for _ in range(2):  # in a new process, too
        ask(build(model, shout, HoldfastMiddleware(file_engine), tools=[], checkpointer=saver), "Hello.")
    session = file_engine.session("t")
    ask(build(model, shout, HoldfastMiddleware(file_engine), tools=[], checkpointer=saver), "Hello.")
    assert [text for role, text in live(session) if role == "assistant"][:2] == ["HELLO", "BYE"]
    assert (session.state().usage.input_tokens, session.state().usage.output_tokens) == (20, 10)


class Basket(AgentState[Any]):
    basket: list[str]


class Odd:
    """A value that no serializer builds again."""


@tool
def put_in(item: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Put something into the basket."""
    RUNS.append(item)
    value = Odd() if item == "odd" else item
    return Command(update={"basket": [value], "messages": [ToolMessage(f"{item} is in", tool_call_id=tool_call_id)]})


@tool(response_format="content_and_artifact")
def draw() -> tuple[Any, Any]:
    """Draw."""
    RUNS.append("draw")
    return [{"type": "image", "base64": "aGk=", "mime_type": "image/png"}], {"size": 2}


RUNS: list[str] = []


def lose_first() -> Any:
    """A middleware that stands for a process that stops before LangChain has stored the answer of a tool."""
    lost: list[int] = []

    @wrap_tool_call
    def lose(request: Any, handler: Any) -> Any:
        answer = handler(request)
        if not lost:
            lost.append(1)
            raise ConnectionError("lost")
        return answer

    return lose


@pytest.mark.parametrize("unknown", ["raise", "repeat"])
def test_a_command_that_langchain_had_not_stored_is_returned_again(file_engine: holdfast.Engine, unknown: Any) -> None:
    RUNS.clear()
    model = ScriptedModel([calls(("put_in", {"item": "tea"})), "Done."])
    agent = build(
        model, lose_first(), HoldfastMiddleware(file_engine, unknown=unknown), tools=[put_in], state_schema=Basket
    )
    with pytest.raises(ConnectionError):
        ask(agent, "Tea.")
    state = agent.invoke(None, thread("t"))
    assert state["basket"] == ["tea"]
    assert RUNS == ["tea"]
    assert ("tool", "tea is in") in describe(model.sent[-1])
    assert file_engine.session("t").open_calls() == ()


def test_a_command_with_a_value_that_cannot_be_built_again_is_not_guessed(file_engine: holdfast.Engine) -> None:
    RUNS.clear()
    model = ScriptedModel([calls(("put_in", {"item": "odd"})), "Done."])
    agent = build(model, lose_first(), HoldfastMiddleware(file_engine), tools=[put_in], state_schema=Basket)
    with pytest.raises(ConnectionError):
        ask(agent, "Tea.")
    with pytest.raises(CallAnswered):
        run(agent, None)
    assert RUNS == ["odd"]


def test_an_artifact_and_an_image_that_langchain_had_not_stored_are_returned_again(
    file_engine: holdfast.Engine,
) -> None:
    RUNS.clear()
    model = ScriptedModel([calls(("draw", {})), "Done."])
    agent = build(model, lose_first(), HoldfastMiddleware(file_engine), tools=[draw])
    with pytest.raises(ConnectionError):
        ask(agent, "Draw.")
    (result,) = [each for each in run(agent, None) if isinstance(each, ToolMessage)]
    assert result.artifact == {"size": 2}
    assert result.content == [{"type": "image", "base64": "aGk=", "mime_type": "image/png"}]
    assert RUNS == ["draw"]


class LateSaver(HoldfastSaver):
    """A saver that is slow with the checkpoint that has the first reply."""

    def __init__(self, engine: holdfast.Engine) -> None:
        super().__init__(engine)
        self.may_store, self.has_stored = threading.Event(), threading.Event()

    def put(self, config: Any, checkpoint: Any, *others: Any) -> Any:
        messages = checkpoint["channel_values"].get("messages") or [None]
        is_reply = isinstance(messages[-1], AIMessage) and messages[-1].text == "I pay with card 4711."
        if is_reply:
            assert self.may_store.wait(TIMEOUT_S)
        stored = super().put(config, checkpoint, *others)
        if is_reply:
            self.has_stored.set()
        return stored


def test_a_checkpoint_that_is_stored_late_does_not_undo_a_call_that_runs(file_engine: holdfast.Engine) -> None:
    saver = LateSaver(file_engine)
    keys: list[tuple[str, str]] = []

    def buy(euros: int) -> str:
        """Buy."""
        saver.may_store.set()
        assert saver.has_stored.wait(TIMEOUT_S)
        call = current_call()
        assert call is not None
        (is_open,) = file_engine.session("t").open_calls()
        keys.append((call.key, is_open.key))
        return f"paid {euros}"

    @after_model
    def redact(state: Any, runtime: Any) -> Any:
        reply = state["messages"][-1]
        text = reply.text.replace("4711", "****")
        return {"messages": [reply.model_copy(update={"content": text})]} if text != reply.text else None

    model = ScriptedModel([calls(("buy", {"euros": 40}), text="I pay with card 4711."), "Paid."])
    agent = build(model, redact, HoldfastMiddleware(file_engine), tools=[buy], checkpointer=saver)
    agent.invoke({"messages": [("user", "Pay.")]}, thread("t"), durability="async")
    ((key, open_key),) = keys
    assert key == open_key
    session = file_engine.session("t")
    assert live(session) == [
        ("user", "Pay."),
        ("assistant", "I pay with card ****."),
        ("tool", "paid 40"),
        ("assistant", "Paid."),
    ]
    assert [each.text for each in session.messages() if each.withdrawn and each.role == "assistant"] == [
        "I pay with card 4711."
    ]


def test_runs_on_one_thread_at_the_same_time_do_not_fail(file_engine: holdfast.Engine) -> None:
    def reply(messages: list[Any]) -> AIMessage:
        last = next(each for each in reversed(messages) if not each.text.startswith("<holdfast-context>"))
        if last.type == "tool":
            return AIMessage("Paid.")
        return calls(*(("pay", {"euros": number}, f"{last.text}-{number}") for number in range(3)))

    agent = build(
        ScriptedModel(reply), HoldfastMiddleware(file_engine), tools=[pay], checkpointer=HoldfastSaver(file_engine)
    )
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: ask(agent, f"Pay {number}.", f"t{number // 4}")[-1].text, range(24)))
    assert answers == ["Paid."] * 24
    for number in range(6):
        ask(agent, "And now?", f"t{number}")
        session = file_engine.session(f"t{number}")
        assert session.open_calls() == ()
    assert file_engine.admin.verify().ok
