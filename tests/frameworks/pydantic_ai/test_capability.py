"""The capability: what the model is sent, what is recorded, and what happens to tools."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.conversation import Conversation
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, UnexpectedModelBehavior
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.output import NativeOutput, ToolOutput
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDenied

import holdfast
from holdfast.frameworks.shadows import Shadow
from holdfast.pydantic_ai import Holdfast, HoldfastConversationStore, current_call
from holdfast.pydantic_ai.runs import ConversationRun, RunSettings
from tests.frameworks.pydantic_ai.histories import answer, ask, every_kind

Reply = str | ModelResponse | Callable[[list[ModelMessage]], "Reply"]


class Script:
    """A model that gives these replies in order, and remembers what it was sent."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.sent: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []
        self.model = FunctionModel(self.answer, stream_function=self.stream)

    def next(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.sent.append(messages)
        self.infos.append(info)
        reply: Any = self.replies.pop(0) if self.replies else f"reply {len(self.sent)}"
        while callable(reply):
            reply = reply(messages)
        return reply if isinstance(reply, ModelResponse) else ModelResponse(parts=[TextPart(reply)])

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return self.next(messages, info)

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for number, part in enumerate(self.next(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {number: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                for word in part.content.split(" "):
                    yield word + " "


def calls(*called: ToolCallPart) -> ModelResponse:
    return ModelResponse(parts=list(called))


def show(messages: Sequence[ModelMessage]) -> list[str]:
    """What a model was sent, a line for each part."""
    lines = []
    for message in messages:
        for part in message.parts:
            content = (
                f"{part.tool_name}({part.args_as_json_str()})"
                if isinstance(part, ToolCallPart)
                else part.model_response_str()
                if isinstance(part, ToolReturnPart)
                else getattr(part, "content", "")
            )
            lines.append(f"{part.part_kind}: {content}")
    return lines


def split_tail(messages: Sequence[ModelMessage]) -> tuple[list[str], str]:
    """The lines before the texts of Holdfast, and these."""
    lines = show(messages)
    if lines and "<holdfast-context>" in lines[-1]:
        return lines[:-1], lines[-1]
    return lines, ""


def live(session: holdfast.Session) -> list[tuple[str | None, str]]:
    return [(each.role, each.text) for each in session.messages(limit=1_000) if not each.withdrawn]


def test_what_the_model_is_sent_word_by_word(engine: holdfast.Engine) -> None:
    script = Script(calls(ToolCallPart("find", {"order": 7}, tool_call_id="x1")), "It is packed.", "Changed.")
    agent = Agent(
        script.model, system_prompt="You help.", instructions="Be brief.", capabilities=[Holdfast(engine, budget=8_000)]
    )

    @agent.tool_plain
    def find(order: int) -> dict[str, Any]:
        return {"order": order, "to": "123 Main St"}

    engine.create_session("c1").facts.set("shipping_address", "123 Main St")
    result = agent.run_sync("Where is order 7? Ship it to 123 Main St.", conversation_id="c1")
    agent.run_sync(
        "Actually, my shipping address is now 456 Oak Ave.", message_history=result.all_messages(), conversation_id="c1"
    )
    assert [tool.name for tool in script.infos[0].function_tools] == ["find", "read_handle"]
    assert {info.instructions for info in script.infos} == {"Be brief."}
    first, tail = split_tail(script.sent[0])
    assert first == ["system-prompt: You help.", "user-prompt: Where is order 7? Ship it to 123 Main St."]
    assert "shipping_address: 123 Main St" in tail
    second, _ = split_tail(script.sent[1])
    assert second == [*first, 'tool-call: find({"order":7})', 'tool-return: {"order":7,"to":"123 Main St"}']
    third, tail = split_tail(script.sent[2])
    assert third == [
        "system-prompt: You help.",
        "user-prompt: Where is order 7? Ship it to [outdated: shipping_address].",
        'tool-call: find({"order":7})',
        'tool-return: {"order":7,"to":"123 Main St [outdated: shipping_address]"}',  # evidence is marked, not cut
        "text: It is packed.",
        "user-prompt: Actually, my shipping address is now 456 Oak Ave.",
    ]
    assert "shipping_address: 456 Oak Ave" in tail
    assert "123 Main St" not in tail
    assert [part.content for part in result.all_messages()[0].parts] == [  # type: ignore[union-attr]
        "You help.",
        "Where is order 7? Ship it to 123 Main St.",
    ]  # nothing of the framework's was changed


def test_a_run_is_a_transcript_with_packs_and_usage(engine: holdfast.Engine) -> None:
    script = Script(calls(ToolCallPart("find", {"order": 7}, tool_call_id="x1")), "It is packed.")
    agent = Agent(script.model, capabilities=[Holdfast(engine)])

    @agent.tool_plain
    def find(order: int) -> str:
        return f"{order}: packed"

    agent.run_sync("Where is order 7?", conversation_id="c1")
    session = engine.session("c1")
    assert live(session) == [
        ("user", "Where is order 7?"),
        ("assistant", ""),
        ("tool", "7: packed"),
        ("assistant", "It is packed."),
    ]
    replies = [each for each in session.messages() if each.role == "assistant"]
    assert all(each.usage is not None and each.usage.input_tokens for each in replies)
    assert [record.reply for record in session.packs.list()] == [each.seq for each in reversed(replies)]
    assert session.recover().unknown_outcomes == ()
    assert "7: packed" in session.pack("?").text
    assert [each.text for each in session.search("packed")]
    assert engine.admin.verify().ok


def test_between_boundaries_a_request_extends_the_one_before(file_engine: holdfast.Engine) -> None:
    replies: list[Reply] = []
    for number in range(20):
        replies += [
            ModelResponse(
                parts=[
                    ThinkingPart("hm", signature="s"),
                    TextPart(f"Look {number}."),
                    ToolCallPart("look", {"n": number}, tool_call_id=f"x{number}"),
                ]
            ),
            f"Answer {number}.",
        ]
    script = Script(*replies)
    agent = Agent(script.model, system_prompt="You help.", capabilities=[Holdfast(file_engine, budget=100_000)])

    @agent.tool_plain
    def look(n: int) -> list[int]:
        return [n] * 20

    history: list[ModelMessage] = []
    for number in range(20):
        result = agent.run_sync(f"Question {number}?", message_history=history, conversation_id="c1")
        history = result.all_messages()
    assert len(script.sent) == 40
    before: list[str] = []
    for messages in script.sent:
        lines, tail = split_tail(messages)
        assert tail
        assert lines[: len(before)] == before
        assert len(lines) > len(before)
        before = lines
    originals = {id(part) for message in history for part in message.parts}
    last = [part for message in script.sent[-1] for part in message.parts][:-1]
    assert all(id(part) in originals for part in last)


def test_a_run_without_history_goes_on_from_the_session(engine: holdfast.Engine) -> None:
    thinking = ModelResponse(parts=[ThinkingPart("hm", signature="sig", provider_name="p"), TextPart("Noted.")])
    script = Script(thinking, "Ada.", "Yes.", "Yes again.")
    agent = Agent(script.model, system_prompt="You help.", capabilities=[Holdfast(engine)])
    for prompt in ("I am Ada.", "Who am I?", "yes", "yes"):
        agent.run_sync(prompt, conversation_id="c1")
    lines, _ = split_tail(script.sent[-1])
    assert lines == [
        "system-prompt: You help.",
        "user-prompt: I am Ada.",
        "thinking: hm",
        "text: Noted.",
        "user-prompt: Who am I?",
        "text: Ada.",
        "user-prompt: yes",
        "text: Yes.",
        "user-prompt: yes",
    ]
    restored = next(part for each in script.sent[-1] for part in each.parts if isinstance(part, ThinkingPart))
    assert (restored.signature, restored.provider_name) == ("sig", "p")
    assert [text for _, text in live(engine.session("c1"))][-2:] == ["yes", "Yes again."]


def test_a_window_of_the_history_is_enough(engine: holdfast.Engine) -> None:
    """Also if the same words were said before."""
    store = HoldfastConversationStore(engine)
    script = Script(*["pong"] * 6)
    agent = Agent(script.model, capabilities=[Holdfast(engine)])

    async def turn(limit: int) -> None:
        conversation = await store.load("c1", limit=limit) or Conversation(conversation_id="c1")
        await store.save(await agent.run("ping", conversation=conversation))

    for limit in (10, 10, 2, 2, 1, 3):
        asyncio.run(turn(limit))
    assert live(engine.session("c1")) == [("user", "ping"), ("assistant", "pong")] * 6
    loaded = asyncio.run(store.load("c1"))
    assert loaded is not None
    assert len(loaded.messages) == 12
    assert len(split_tail(script.sent[-1])[0]) == 11
    assert all(not each.withdrawn for each in engine.session("c1").messages())


def test_a_store_and_the_capability_share_one_transcript(engine: holdfast.Engine) -> None:
    store = HoldfastConversationStore(engine)
    script = Script()
    agent = Agent(script.model, system_prompt="You help.", capabilities=[Holdfast(engine)])

    async def turn(prompt: str) -> None:
        conversation = await store.load("c1", scope="ada") or Conversation(conversation_id="c1")
        await store.save(await agent.run(prompt, conversation=conversation), scope="ada")

    for number in range(4):
        asyncio.run(turn(f"Question {number}?"))
    session = engine.session("c1")
    assert len(live(session)) == 8
    assert all(not each.withdrawn for each in session.messages())
    assert len(session.packs.list()) == 4
    record = asyncio.run(store.read_record("c1"))
    assert record is not None
    branched = asyncio.run(store.branch("c1", at=2, expected_revision=record.revision))
    asyncio.run(store.save(asyncio.run(agent.run("Another?", conversation=branched))))
    assert split_tail(script.sent[-1])[0][1:] == ["user-prompt: Question 0?", "text: reply 1", "user-prompt: Another?"]
    assert len(live(session)) == 4


def test_the_budget_bounds_the_request(file_engine: holdfast.Engine) -> None:
    script = Script(*[f"Reply {number}: " + "words " * 200 for number in range(40)])
    agent = Agent(script.model, instructions="Be brief.", capabilities=[Holdfast(file_engine, budget=4_000)])
    history: list[ModelMessage] = []
    for number in range(40):
        prompt = f"Question {number}: " + "please " * 100
        history = agent.run_sync(prompt, message_history=history, conversation_id="c1").all_messages()
    sizes = [sum(map(len, show(messages))) for messages in script.sent]
    assert max(sizes) < 4_000 * 6
    assert len(history) == 80
    assert "Question 39" in show(script.sent[-1])[-2]


def test_a_large_result_is_read_by_its_handle(file_engine: holdfast.Engine) -> None:
    def read(messages: list[ModelMessage]) -> ModelResponse:
        shown = next(line for line in show(messages) if line.startswith("tool-return"))
        assert len(shown) < 10_000
        found = re.search(r'read_handle\("(\w+)"\)', shown)
        assert found
        handle = found[1]
        args = {"handle": handle, "search": "needle"}
        return calls(ToolCallPart("read_handle", args, tool_call_id="x2"))

    script = Script(calls(ToolCallPart("dump", {}, tool_call_id="x1")), read, "Found.")
    agent = Agent(script.model, capabilities=[Holdfast(file_engine, budget=8_000)])

    @agent.tool_plain
    def dump() -> str:
        return "hay\n" * 50_000 + "the needle is here\n" + "hay\n" * 50_000

    result = agent.run_sync("Look.", conversation_id="c1")
    assert result.output == "Found."
    assert any("the needle is here" in line for line in show(script.sent[-1]))


def test_tools_for_memory_and_the_situation(file_engine: holdfast.Engine) -> None:
    script = Script(
        calls(
            ToolCallPart("update_situation", {"goal": "Paint the hall."}, tool_call_id="x1"),
            ToolCallPart("recall_memory", {"query": "colour"}, tool_call_id="x2"),
        ),
        "Done.",
    )
    capability = Holdfast(file_engine, user=lambda ctx: ctx.deps, memory=True, situation=True)
    agent = Agent(script.model, deps_type=str, capabilities=[capability])
    agent.run_sync("Help me.", conversation_id="c1", deps="ada")
    assert "Paint the hall." in split_tail(script.sent[-1])[1]
    names = [tool.name for tool in script.infos[0].function_tools]
    assert names == ["read_handle", "recall_memory", "update_situation"]
    state = file_engine.session("c1").state()
    assert state.identity is not None
    assert state.identity.user_id == "ada"


class Trip(BaseModel):
    city: str
    nights: int


@pytest.mark.parametrize("kind", ["tool", "native"])
def test_output_types(engine: holdfast.Engine, kind: str) -> None:
    args = '{"city": "Rome", "nights": 2}'
    good: ModelResponse = (
        calls(ToolCallPart("final_result", args, tool_call_id="o2"))
        if kind == "tool"
        else ModelResponse(parts=[TextPart(args)])
    )
    bad: ModelResponse = (
        calls(ToolCallPart("final_result", '{"city": 1}', tool_call_id="o1"))
        if kind == "tool"
        else ModelResponse(parts=[TextPart("no JSON")])
    )
    script = Script(bad, good, good)
    output: Any = ToolOutput(Trip, name="final_result") if kind == "tool" else NativeOutput(Trip)
    agent = Agent(script.model, output_type=output, capabilities=[Holdfast(engine)], retries=2)
    result = agent.run_sync("A trip.", conversation_id="c1")
    assert result.output == Trip(city="Rome", nights=2)
    session = engine.session("c1")
    assert session.open_calls() == ()
    result = agent.run_sync("Another.", message_history=result.all_messages(), conversation_id="c1")
    lines, _ = split_tail(script.sent[-1])
    assert len([line for line in lines if line.startswith("user-prompt: A trip.")]) == 1
    assert lines[-1] == "user-prompt: Another."
    assert all(not each.withdrawn for each in session.messages())


def test_streams(engine: holdfast.Engine) -> None:
    script = Script(calls(ToolCallPart("look", {}, tool_call_id="x1")), "It is here.")
    agent = Agent(script.model, capabilities=[Holdfast(engine)])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    async def main() -> None:
        async with agent.run_stream("Look.", conversation_id="c1") as stream:
            assert (await stream.get_output()).strip() == "It is here."

    asyncio.run(main())
    session = engine.session("c1")
    assert [role for role, _ in live(session)] == ["user", "assistant", "tool", "assistant"]
    assert len(session.packs.list()) == 2
    assert split_tail(script.sent[1])[0][-1] == "tool-return: seen"


def test_iter(engine: holdfast.Engine) -> None:
    script = Script(calls(ToolCallPart("look", {}, tool_call_id="x1")), "Here.")
    agent = Agent(script.model, capabilities=[Holdfast(engine)])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    async def main() -> None:
        async with agent.iter("Look.", conversation_id="c1") as run:
            async for _ in run:
                pass
        assert run.result is not None
        assert run.result.output == "Here."

    asyncio.run(main())
    assert [role for role, _ in live(engine.session("c1"))] == ["user", "assistant", "tool", "assistant"]


def test_the_frameworks_test_model(file_engine: holdfast.Engine) -> None:
    agent = Agent(TestModel(), capabilities=[Holdfast(file_engine)])

    @agent.tool_plain
    def look(n: int) -> int:
        return n

    for _ in range(3):
        agent.run_sync("Look.", conversation_id="c1")
    assert file_engine.session("c1").open_calls() == ()
    assert file_engine.admin.verify().ok


def test_parallel_tools_retries_and_failures(engine: holdfast.Engine) -> None:
    called = [ToolCallPart("work", {"n": number}, tool_call_id=f"x{number}") for number in range(6)]
    script = Script(calls(*called), calls(ToolCallPart("work", {"n": 10}, tool_call_id="y")), "Done.")
    agent = Agent(script.model, capabilities=[Holdfast(engine)], retries=3)
    keys: list[str] = []

    @agent.tool_plain
    async def work(n: int) -> str:
        current = current_call()
        assert current is not None
        assert current.args == {"n": n}
        keys.append(current.key)
        await asyncio.sleep(0.01 * (6 - n % 6))
        if n == 3:
            raise ModelRetry("not three")
        return f"worked {n}"

    agent.run_sync("Work.", conversation_id="c1")
    assert len({*keys}) == 7
    lines, _ = split_tail(script.sent[1])
    returns = [line for line in lines if line.startswith("tool-return")]
    assert len(returns) == 6
    assert "worked 0" in returns[0]
    assert "not three" in returns[3]
    session = engine.session("c1")
    results = {each.tool_calls[0].args["n"] if each.tool_calls else None for each in session.messages()}  # type: ignore[index,call-overload]
    assert 0 in results
    assert all(not each.withdrawn for each in session.messages())
    failed = [each for each in session.messages() if each.tool_results and each.tool_results[0].is_error]
    assert [each.text for each in failed] == ["not three"]


def test_an_exception_of_a_tool_is_recorded_and_raised(engine: holdfast.Engine) -> None:
    script = Script(calls(ToolCallPart("work", {}, tool_call_id="x")), "Sorry.")
    agent = Agent(script.model, capabilities=[Holdfast(engine)])

    @agent.tool_plain
    def work() -> str:
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError):
        agent.run_sync("Work.", conversation_id="c1")
    session = engine.session("c1")
    assert session.messages()[-1].text == "ConnectionError: no route"
    assert session.recover().unknown_outcomes == ()
    result = agent.run_sync("And now?", conversation_id="c1")
    assert result.output == "Sorry."
    assert any("ConnectionError: no route" in line for line in show(script.sent[-1]))


def test_approvals_and_deferred_tools(engine: holdfast.Engine) -> None:
    called = [
        ToolCallPart("pay", {"euros": 40}, tool_call_id="x1"),
        ToolCallPart("wait", {}, tool_call_id="x2"),
        ToolCallPart("erase", {}, tool_call_id="x3"),
    ]
    script = Script(calls(*called), "Paid.")
    agent = Agent(
        script.model,
        output_type=[str, DeferredToolRequests],
        capabilities=[
            Holdfast(engine),
        ],
        retries=2,
    )
    paid: list[str] = []

    @agent.tool
    def pay(ctx: RunContext[None], euros: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        current = current_call()
        assert current is not None
        paid.append(current.key)
        return f"paid {euros}"

    @agent.tool_plain
    def wait() -> str:
        raise CallDeferred

    @agent.tool_plain(requires_approval=True)
    def erase() -> str:
        raise AssertionError("it was denied")

    first = agent.run_sync("Pay.", conversation_id="c1")
    assert isinstance(first.output, DeferredToolRequests)
    session = engine.session("c1")
    assert len(session.open_calls()) == 3
    assert paid == []
    results = DeferredToolResults(approvals={"x1": True, "x3": ToolDenied("never")}, calls={"x2": "it came"})
    second = agent.run_sync(message_history=first.all_messages(), deferred_tool_results=results, conversation_id="c1")
    assert second.output == "Paid."
    assert len(paid) == 1
    lines, _ = split_tail(script.sent[-1])
    assert [line for line in lines if line.startswith("tool-return")] == [
        "tool-return: paid 40",
        "tool-return: it came",
        "tool-return: never",
    ]
    assert session.open_calls() == ()
    assert all(not each.withdrawn for each in session.messages())


def test_a_call_that_was_put_off_is_not_said_to_have_done_nothing(engine: holdfast.Engine) -> None:
    """Its tool may have started work elsewhere. The result may still come."""
    called = [ToolCallPart(name, {}, tool_call_id=f"x{n}") for n, name in enumerate(("order", "pay", "look"))]
    script = Script(calls(*called), "Wait.", "Done.")
    agent = Agent(script.model, output_type=[str, DeferredToolRequests], capabilities=[Holdfast(engine)])

    @agent.tool_plain
    def order() -> str:
        raise CallDeferred

    @agent.tool_plain(requires_approval=True)
    def pay() -> str:
        return "paid"

    @agent.tool_plain
    def look() -> str:
        return "seen"

    history = agent.run_sync("Order and pay.", conversation_id="c1").all_messages()
    agent.run_sync("And now?", message_history=history, conversation_id="c1")
    lines, _ = split_tail(script.sent[-1])
    ordered, paid, _ = [line for line in lines if line.startswith("tool-return")]
    assert "put it off" in ordered
    assert "may still go on" in ordered
    assert "did not run" in paid
    results = DeferredToolResults(calls={"x0": "it is ordered"}, approvals={"x1": True})
    agent.run_sync(message_history=history, deferred_tool_results=results, conversation_id="c1")
    lines, _ = split_tail(script.sent[-1])
    assert [line for line in lines if line.startswith("tool-return")] == [
        "tool-return: it is ordered",
        "tool-return: paid",
        "tool-return: seen",
    ]


@pytest.mark.parametrize("prompts", [0, 1, 2])
def test_approvals_run_the_tools_also_after_other_prompts(engine: holdfast.Engine, prompts: int) -> None:
    """Calls that waited were closed when the conversation went on. They had not run, so they run when they are approved,
    and the conversation is again that of the history."""
    called = [ToolCallPart(name, {}, tool_call_id=f"x{n}") for n, name in enumerate(("pay", "look", "ship", "wait"))]
    script = Script(calls(*called), *[f"Answer {n}." for n in range(prompts)], "Paid.", "Yes.")
    agent = Agent(script.model, output_type=[str, DeferredToolRequests], capabilities=[Holdfast(engine)])
    keys: dict[str, str] = {}

    def note(name: str) -> str:
        current = current_call()
        assert current is not None
        assert name not in keys
        keys[name] = current.key
        return f"{name}: done"

    @agent.tool_plain(requires_approval=True)
    def pay() -> str:
        return note("pay")

    @agent.tool_plain
    def look() -> str:
        return note("look")

    @agent.tool
    def ship(ctx: RunContext[None]) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return note("ship")

    @agent.tool_plain
    def wait() -> str:
        raise CallDeferred

    history = agent.run_sync("Pay.", conversation_id="c1").all_messages()
    for number in range(prompts):
        agent.run_sync(f"Question {number}?", message_history=history, conversation_id="c1")
    results = DeferredToolResults(approvals={"x0": True, "x2": True}, calls={"x3": "it came"})
    result = agent.run_sync(message_history=history, deferred_tool_results=results, conversation_id="c1")
    again = agent.run_sync("Did you?", message_history=result.all_messages(), conversation_id="c1")

    assert again.output == "Yes."
    assert keys.keys() == {"pay", "look", "ship"}
    assert len({*keys.values()}) == 3
    lines, _ = split_tail(script.sent[-1])
    assert [line for line in lines if line.startswith("tool-return")] == [
        "tool-return: pay: done",
        "tool-return: look: done",
        "tool-return: ship: done",
        "tool-return: it came",
    ]
    session = engine.session("c1")
    assert [text for role, text in live(session) if role == "tool" and text.startswith("ship")] == ["ship: done"]
    assert [text for role, text in live(session) if role == "user"] == ["Pay.", "Did you?"]
    assert session.open_calls() == ()
    agent.run_sync(message_history=history, deferred_tool_results=results, conversation_id="c1")  # runs nothing again
    assert engine.admin.verify().ok


def test_a_late_approval_does_not_take_back_what_may_have_run(engine: holdfast.Engine) -> None:
    called = [ToolCallPart(name, {}, tool_call_id=name) for name in ("pay", "look")]
    script = Script(calls(*called), calls(ToolCallPart("die", {}, tool_call_id="x2")))
    agent = Agent(script.model, output_type=[str, DeferredToolRequests], capabilities=[Holdfast(engine)])

    class PowerFailure(BaseException):
        pass

    @agent.tool_plain(requires_approval=True)
    def pay() -> str:
        return "paid"

    @agent.tool_plain
    def look() -> str:
        return "seen"

    @agent.tool_plain
    def die() -> str:
        raise PowerFailure

    history = agent.run_sync("Pay.", conversation_id="c1").all_messages()
    with pytest.raises(PowerFailure):
        agent.run_sync("Die.", message_history=history, conversation_id="c1")
    results = DeferredToolResults(approvals={"pay": True})
    with pytest.raises(holdfast.errors.OutcomeUnknown):
        agent.run_sync(message_history=history, deferred_tool_results=results, conversation_id="c1")
    (unknown,) = engine.session("c1").recover().unknown_outcomes
    assert unknown.call is not None
    engine.session("c1").result(unknown.call, "it is dead")
    result = agent.run_sync(message_history=history, deferred_tool_results=results, conversation_id="c1")
    assert "tool-return: paid" in show(result.all_messages())


def test_a_late_approval_in_two_processes_runs_the_tool_once(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one starts the call between two steps of the first one."""
    called = [ToolCallPart(name, {}, tool_call_id=name) for name in ("pay", "look")]
    script = Script(calls(*called), "Later.", "Paid.")
    keys: list[str] = []

    def build(engine: holdfast.Engine) -> Agent[None, Any]:
        agent = Agent(script.model, output_type=[str, DeferredToolRequests], capabilities=[Holdfast(engine)])

        @agent.tool_plain(requires_approval=True)
        def pay() -> str:
            keys.append(str(current_call()))
            return "paid"

        @agent.tool_plain
        def look() -> str:
            return "seen"

        return agent

    history = build(file_engine).run_sync("Pay.", conversation_id="c1").all_messages()
    build(file_engine).run_sync("Question?", message_history=history, conversation_id="c1")
    results = DeferredToolResults(approvals={"pay": True})
    check = ConversationRun.check_unknown

    def check_and_start_elsewhere(self: ConversationRun) -> None:
        monkeypatch.undo()
        check(self)
        shadow, settings = Shadow(self.session), RunSettings(None, "raise", (), {})
        other = ConversationRun(self.session, shadow, settings, run_id="other", has_history=True)
        other.start_tool([*history], "pay", "pay", None)

    monkeypatch.setattr(ConversationRun, "check_unknown", check_and_start_elsewhere)
    with pytest.raises(holdfast.errors.OutcomeUnknown):
        build(file_engine).run_sync(message_history=history, deferred_tool_results=results, conversation_id="c1")
    assert keys == []
    assert len(file_engine.session("c1").recover().unknown_outcomes) == 1


def test_a_started_call_is_not_run_again(engine: holdfast.Engine) -> None:
    """The history ends with a call that another process started: its outcome is unknown."""
    history: list[ModelMessage] = [ask("Pay."), calls(ToolCallPart("pay", {}, tool_call_id="x1"))]
    ran: list[str] = []

    def build(**options: Any) -> tuple[Agent, Script]:
        script = Script("Fine.")
        agent = Agent(script.model, capabilities=[Holdfast(engine, **options)])

        @agent.tool_plain
        def pay() -> str:
            ran.append("paid")
            return "paid"

        return agent, script

    for name in ("c1", "c2", "c3"):
        asyncio.run(HoldfastConversationStore(engine).save(Conversation(conversation_id=name, messages=[*history])))
        engine.session(name).start_call("x1")
    agent, _ = build()
    with pytest.raises(holdfast.errors.OutcomeUnknown) as raised:
        agent.run_sync(message_history=history, conversation_id="c1")
    assert raised.value.key
    with pytest.raises(holdfast.errors.OutcomeUnknown):
        agent.run_sync("And now?", conversation_id="c1")
    assert len(engine.session("c1").recover().unknown_outcomes) == 1
    engine.session("c1").result("x1", "it was paid")
    assert agent.run_sync(message_history=history, conversation_id="c1").output == "Fine."
    agent, script = build(unknown="tell")
    agent.run_sync(message_history=history, conversation_id="c2")
    assert any("outcome of this call is unknown" in line for line in show(script.sent[-1]))
    assert ran == []
    agent, script = build(repeatable=["pay"])
    agent.run_sync(message_history=history, conversation_id="c3")
    assert ran == ["paid"]


def test_a_run_that_was_interrupted_goes_on(engine: holdfast.Engine) -> None:
    """Tools that ran are not run again: the model sees their results, and so does the framework's history."""
    store = HoldfastConversationStore(engine)
    asyncio.run(store.save(Conversation(conversation_id="c1", messages=[ask("Hello."), answer("Hello!")])))
    ran: list[int] = []

    def fail(_: list[ModelMessage]) -> Reply:
        raise ConnectionError("the model is gone")

    script = Script(calls(ToolCallPart("pay", {"n": 1}, tool_call_id="x1")), fail, "Paid.")
    agent = Agent(script.model, capabilities=[Holdfast(engine)])

    @agent.tool_plain
    def pay(n: int) -> str:
        ran.append(n)
        return f"paid {n}"

    async def turn(prompt: str) -> Any:
        conversation = await store.load("c1")
        assert conversation is not None
        result = await agent.run(prompt, conversation=conversation)
        await store.save(result)
        return result.output

    with pytest.raises(ConnectionError):
        asyncio.run(turn("Pay one."))
    assert asyncio.run(turn("Pay one.")) == "Paid."
    assert ran == [1]
    whole = [
        "user-prompt: Hello.",
        "text: Hello!",
        "user-prompt: Pay one.",
        'tool-call: pay({"n":1})',
        "tool-return: paid 1",
    ]
    assert split_tail(script.sent[-1])[0] == whole
    loaded = asyncio.run(store.load("c1"))
    assert loaded is not None
    assert show(loaded.messages) == [*whole, "text: Paid."]
    assert asyncio.run(turn("And now?")) == "reply 4"
    assert split_tail(script.sent[-1])[0] == [*whole, "text: Paid.", "user-prompt: And now?"]
    assert [text for _, text in live(engine.session("c1"))].count("paid 1") == 1


def test_another_prompt_after_an_interruption(engine: holdfast.Engine) -> None:
    def fail(_: list[ModelMessage]) -> Reply:
        raise ConnectionError("the model is gone")

    script = Script("Hello!", calls(ToolCallPart("pay", {}, tool_call_id="x1")), fail, "It is paid.")
    agent = Agent(script.model, capabilities=[Holdfast(engine)])

    @agent.tool_plain
    def pay() -> str:
        return "paid 40"

    history = agent.run_sync("Hello.", conversation_id="c1").all_messages()
    with pytest.raises(ConnectionError):
        agent.run_sync("Pay.", message_history=history, conversation_id="c1")
    result = agent.run_sync("Is it paid?", message_history=history, conversation_id="c1")
    assert split_tail(script.sent[-1])[0] == [
        "user-prompt: Hello.",
        "text: Hello!",
        "user-prompt: Pay.",
        "tool-call: pay({})",
        "tool-return: paid 40",
        "user-prompt: Is it paid?",
    ]
    assert show(result.all_messages())[2:] == [*split_tail(script.sent[-1])[0][2:], "text: It is paid."]


def test_a_long_conversation_that_was_interrupted_goes_on(file_engine: holdfast.Engine) -> None:
    def fail(_: list[ModelMessage]) -> Reply:
        raise ConnectionError("the model is gone")

    history: list[ModelMessage] = []
    for number in range(150):
        history += [ask(f"Question {number}?"), answer(f"Answer {number}.")]
    script = Script(calls(ToolCallPart("pay", {}, tool_call_id="x1")), fail, "Paid.")
    agent = Agent(script.model, capabilities=[Holdfast(file_engine)])

    @agent.tool_plain
    def pay() -> str:
        return "paid 40"

    with pytest.raises(ConnectionError):
        agent.run_sync("Pay.", message_history=history, conversation_id="c1")
    agent.run_sync("Pay.", message_history=history, conversation_id="c1")
    assert split_tail(script.sent[-1])[0][-3:] == ["user-prompt: Pay.", "tool-call: pay({})", "tool-return: paid 40"]


def test_asking_again_replaces_the_answer(engine: holdfast.Engine) -> None:
    """The same prompt after a finished run is a wish for another answer."""
    script = Script("Hello!", calls(ToolCallPart("look", {}, tool_call_id="x1")), "A chandelier.", "A brass lamp.")
    agent = Agent(script.model, capabilities=[Holdfast(engine)])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    history = agent.run_sync("Hello.", conversation_id="c1").all_messages()
    agent.run_sync("A lamp?", message_history=history, conversation_id="c1")
    agent.run_sync("A lamp?", message_history=history, conversation_id="c1")
    assert split_tail(script.sent[-1])[0] == ["user-prompt: Hello.", "text: Hello!", "user-prompt: A lamp?"]
    assert [text for _, text in live(engine.session("c1"))] == ["Hello.", "Hello!", "A lamp?", "A brass lamp."]


def test_every_kind_of_part_is_sent_back(file_engine: holdfast.Engine) -> None:
    history = every_kind()
    script = Script()
    agent = Agent(script.model, capabilities=[Holdfast(file_engine, budget=50_000)])
    agent.run_sync("And now?", message_history=history, conversation_id="c1")
    plain = Script()
    Agent(plain.model).run_sync("And now?", message_history=history, conversation_id="c1")
    ours = [repr(part) for message in script.sent[0] for part in message.parts][:-2]
    theirs = [repr(part) for message in plain.sent[0] for part in message.parts][:-1]
    assert ours == theirs


def test_an_image_stays_beside_a_text_that_changed(file_engine: holdfast.Engine) -> None:
    image = BinaryContent(b"\x89PNG\r\n\x1a\n\x00\xff", media_type="image/png")
    file_engine.create_session("c1").facts.set("shipping_address", "123 Main St")
    script = Script()
    agent = Agent(script.model, capabilities=[Holdfast(file_engine)])
    history = agent.run_sync(["To 123 Main St:", image], conversation_id="c1").all_messages()
    agent.run_sync("Actually, my shipping address is now 456 Oak Ave.", message_history=history, conversation_id="c1")
    part = script.sent[-1][0].parts[0]
    assert isinstance(part, UserPromptPart)
    assert part.content == ["To [outdated: shipping_address]:", image]


def test_no_pack_without_a_budget(engine: holdfast.Engine) -> None:
    script = Script(calls(ToolCallPart("look", {}, tool_call_id="x1")), "Here.")
    agent = Agent(script.model, capabilities=[Holdfast(engine, budget=None)])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    agent.run_sync("Look.", conversation_id="c1")
    assert show(script.sent[1]) == ["user-prompt: Look.", "tool-call: look({})", "tool-return: seen"]
    assert [role for role, _ in live(engine.session("c1"))] == ["user", "assistant", "tool", "assistant"]


def test_histories_with_loose_ends(engine: holdfast.Engine) -> None:
    """Calls without results, results without calls, empty messages and system prompts in the middle."""
    history: list[ModelMessage] = [
        ModelRequest(parts=[ToolReturnPart("gone", "lost", tool_call_id="none")]),
        calls(ToolCallPart("pay", {}, tool_call_id="x1")),
        ModelRequest(parts=[UserPromptPart("")]),
        ModelResponse(parts=[]),
        ModelRequest(parts=[SystemPromptPart("Now in French."), UserPromptPart("Bonjour")]),
        answer("Salut"),
    ]
    script = Script()
    agent = Agent(script.model, capabilities=[Holdfast(engine)])
    result = agent.run_sync("Ça va?", message_history=history, conversation_id="c1")
    lines, _ = split_tail(script.sent[0])
    assert lines[-1] == "user-prompt: Ça va?"
    assert sum("Now in French." in line for line in lines) == 1
    session = engine.session("c1")
    count = len(session.messages(limit=1_000))
    agent.run_sync("Et toi?", message_history=result.all_messages(), conversation_id="c1")
    assert len(session.messages(limit=1_000)) == count + 2
    assert session.open_calls() == ()


def test_a_run_that_gives_up(engine: holdfast.Engine) -> None:
    script = Script(*[calls(ToolCallPart("look", {}, tool_call_id=f"x{number}")) for number in range(3)])
    agent = Agent(script.model, capabilities=[Holdfast(engine)], retries=1)

    @agent.tool_plain
    def look() -> str:
        raise ModelRetry("look again")

    with pytest.raises(UnexpectedModelBehavior):
        agent.run_sync("Look.", conversation_id="c1")
    script.replies = ["Fine."]
    assert agent.run_sync("Never mind.", conversation_id="c1").output == "Fine."


def test_a_cancelled_tool_has_an_unknown_outcome(engine: holdfast.Engine) -> None:
    script = Script(calls(ToolCallPart("work", {}, tool_call_id="x1")))
    agent = Agent(script.model, capabilities=[Holdfast(engine)])
    started = asyncio.Event()

    @agent.tool_plain
    async def work() -> str:
        started.set()
        await asyncio.sleep(30)
        return "done"

    async def main() -> None:
        task = asyncio.create_task(agent.run("Work.", conversation_id="c1"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    [unknown] = engine.session("c1").recover().unknown_outcomes
    assert unknown.key


def test_conversations_can_be_named_by_the_program(engine: holdfast.Engine) -> None:
    script = Script()
    agent = Agent(
        script.model, deps_type=str, capabilities=[Holdfast(engine, conversation=lambda ctx: f"chat-{ctx.deps}")]
    )
    agent.run_sync("Hello.", deps="ada")
    agent.run_sync("Again.", deps="ada")
    assert [row.session for row in engine.sessions()] == ["chat-ada"]
    assert len(live(engine.session("chat-ada"))) == 4
    Agent(script.model, capabilities=[Holdfast(engine)]).run_sync("Hello.")
    assert len(engine.sessions()) == 2


def test_runs_at_the_same_time(engine: holdfast.Engine) -> None:
    script = Script()
    agent = Agent(script.model, capabilities=[Holdfast(engine)])

    async def main() -> None:
        await asyncio.gather(*(agent.run(f"Hello {number}.", conversation_id=f"c{number}") for number in range(8)))
        await asyncio.gather(*(agent.run(f"Same {number}.", conversation_id="same") for number in range(4)))

    asyncio.run(main())
    assert all(len(live(engine.session(f"c{number}"))) == 2 for number in range(8))
    same = [text for _, text in live(engine.session("same"))]
    assert {text for text in same if text.startswith("Same")} == {f"Same {number}." for number in range(4)}
    assert engine.admin.verify().ok


@pytest.mark.parametrize("with_capability", [False, True])
def test_huge_arguments_and_files_of_a_reply_stop_no_later_run(
    file_engine: holdfast.Engine, *, with_capability: bool
) -> None:
    huge = "q" * 3_000_000
    reply = ModelResponse(
        parts=[
            ThinkingPart(huge),
            FilePart(BinaryContent(b"\x01" * 3_000_000, media_type="image/png")),
            ToolCallPart("write", {"text": huge}, tool_call_id="x1"),
            ToolCallPart("write", {"text": "short"}, tool_call_id="x2"),
        ]
    )
    script = Script(reply, "Written.", "Yes.", "Still.")
    agent = Agent(script.model, capabilities=[Holdfast(file_engine)] if with_capability else [])
    store = HoldfastConversationStore(file_engine)
    lengths: list[int] = []

    @agent.tool_plain
    def write(text: str) -> str:
        lengths.append(len(text))
        return f"{len(text)} characters"

    async def turn(prompt: str) -> None:
        conversation = await store.load("c1") or Conversation(conversation_id="c1")
        await store.save(await agent.run(prompt, conversation=conversation))

    asyncio.run(turn("Write it."))
    asyncio.run(turn("Is it there?"))
    assert sorted(lengths) == [5, 3_000_000]
    assert len([call for message in script.sent[1] for call in message.parts if isinstance(call, ToolCallPart)]) == 2
    session = file_engine.session("c1")
    assert [message.text for message in session.messages(limit=2)] == ["Is it there?", "Yes."]
    assert sum(len(message.tool_calls) for message in session.messages()) == 2
    if with_capability:
        agent.run_sync("Still?", conversation_id="c1")
    assert file_engine.admin.verify().ok


def test_a_run_without_a_history_waits_for_tools_of_another(engine: holdfast.Engine) -> None:
    script = Script(calls(ToolCallPart("wait", {}, tool_call_id="x1")), "First answer.", "Second answer.")
    first = Agent(script.model, capabilities=[Holdfast(engine)])
    second = Agent(script.model, capabilities=[Holdfast(engine, unknown="tell")])
    running, go_on = asyncio.Event(), asyncio.Event()

    @first.tool_plain
    async def wait() -> str:
        running.set()
        await go_on.wait()
        return "waited"

    async def main() -> None:
        task = asyncio.create_task(first.run("First.", conversation_id="c1"))
        await running.wait()
        with pytest.raises(holdfast.errors.CallsOpen, match="another run"):
            await second.run("Second.", conversation_id="c1")
        go_on.set()
        await task
        await second.run("Second.", conversation_id="c1")

    asyncio.run(main())
    expected = ["user-prompt: First.", "tool-call: wait({})", "tool-return: waited"]
    assert split_tail(script.sent[1])[0] == expected
    assert split_tail(script.sent[2])[0] == [*expected, "text: First answer.", "user-prompt: Second."]


@pytest.mark.parametrize("waits", ["in a tool", "for the model"])
def test_a_run_at_work_is_not_taken_for_an_interrupted_one(file_engine: holdfast.Engine, waits: str) -> None:
    two = calls(ToolCallPart("find", {}, tool_call_id="x1"), ToolCallPart("wait", {}, tool_call_id="x2"))
    script = Script("Hello.", two)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def answer_slowly(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if waits == "for the model" and len(messages) > 3:
            entered.set()
            await go_on.wait()
        return script.answer(messages, info)

    slow = Agent(FunctionModel(answer_slowly), capabilities=[Holdfast(file_engine)])
    quick = Agent(script.model, capabilities=[Holdfast(file_engine)])
    found = asyncio.Event()

    @slow.tool_plain
    async def find() -> str:
        found.set()
        return "seen"

    @slow.tool_plain
    async def wait() -> str:
        if waits == "in a tool":
            await found.wait()
            await asyncio.sleep(0.2)
            entered.set()
            await go_on.wait()
        return "waited"

    async def main() -> None:
        history = (await slow.run("Hi.", conversation_id="c1")).all_messages()
        task = asyncio.create_task(slow.run("First.", conversation_id="c1", message_history=history))
        await entered.wait()
        result = await quick.run("Second.", conversation_id="c1", message_history=history)
        assert show(result.new_messages())[0] == "user-prompt: Second."
        go_on.set()
        await task

    asyncio.run(main())
    before = ["user-prompt: Hi.", "text: Hello."]
    assert split_tail(script.sent[2])[0] == [*before, "user-prompt: Second."]
    assert split_tail(script.sent[3])[0][:3] == [*before, "user-prompt: First."]
    assert file_engine.admin.verify().ok


def test_runs_without_a_history_that_meet_repeat_nothing(engine: holdfast.Engine) -> None:
    script = Script("Second answer.", calls(ToolCallPart("find", {}, tool_call_id="x1")), "First answer.")
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def answer_slowly(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        entered.set()
        await go_on.wait()
        return script.answer(messages, info)

    slow = Agent(FunctionModel(answer_slowly), capabilities=[Holdfast(engine)])
    quick = Agent(script.model, capabilities=[Holdfast(engine)])

    @slow.tool_plain
    def find() -> str:
        return "seen"

    async def main() -> None:
        task = asyncio.create_task(slow.run("First.", conversation_id="c1"))
        await entered.wait()
        await quick.run("Second.", conversation_id="c1")
        go_on.set()
        await task

    asyncio.run(main())
    session = engine.session("c1")
    texts = [text for _, text in live(session)]
    assert texts == ["First.", "Second.", "Second answer.", "", "seen", "First answer."]
    assert not session.open_calls()
    assert engine.admin.verify().ok


def test_a_tool_that_was_cancelled_while_it_started_does_not_run_any_more(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(calls(ToolCallPart("find", {}, tool_call_id="x1")))
    agent = Agent(script.model, capabilities=[Holdfast(file_engine)])
    starts, start = threading.Event(), ConversationRun.start_tool

    def start_slowly(self: ConversationRun, *args: Any) -> Any:
        starts.set()
        time.sleep(0.2)
        return start(self, *args)

    monkeypatch.setattr(ConversationRun, "start_tool", start_slowly)

    @agent.tool_plain
    def find() -> str:
        return "seen"

    async def main() -> None:
        task = asyncio.create_task(agent.run("Go.", conversation_id="c1"))
        await asyncio.to_thread(starts.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    with pytest.raises(holdfast.errors.OutcomeUnknown):
        agent.run_sync("Again.", conversation_id="c1")


@pytest.mark.parametrize("options", [{"unknown": "maybe"}, {"budjet": 1}, {"engine": "x"}])
def test_wrong_options_are_refused(file_engine: holdfast.Engine, options: dict[str, Any]) -> None:
    with pytest.raises((holdfast.errors.InvalidArgument, TypeError)):
        Holdfast(**({"engine": file_engine} | options))
