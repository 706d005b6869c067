"""Runs of the SDK, end to end, with its own scripted model."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any, cast

import pytest
from agents.extensions import handoff_filters
from agents.testing import ModelStep
from agents.tool_context import ToolContext
from agents.usage import Usage
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

import holdfast
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelSettings,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    SessionSettings,
    UserError,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from holdfast.errors import InsufficientTokens
from holdfast.frameworks import current_call
from holdfast.openai_agents import BoundSession, HoldfastSession, bind
from tests.frameworks.openai_agents.support import (
    Items,
    assistant,
    call,
    run,
    say,
    script,
    sdk,
    texts,
    think,
    user,
    without_tail,
)

USAGE = Usage(
    requests=1,
    input_tokens=900,
    output_tokens=30,
    total_tokens=930,
    input_tokens_details=InputTokensDetails(cached_tokens=512, cache_write_tokens=0),
    output_tokens_details=OutputTokensDetails(reasoning_tokens=7),
)


@function_tool
def find(order: str) -> str:
    """Find an order."""
    return f"Order {order} is at the depot."


@function_tool
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


def ask(agent: Agent[Any], text: Any, hf: BoundSession, **options: Any) -> Any:
    config = hf.config(tracing_disabled=True)
    return Runner.run(agent, text, session=hf.session, hooks=hf.hooks, run_config=config, **options)


async def stream(agent: Agent[Any], text: str, hf: BoundSession) -> None:
    config = hf.config(tracing_disabled=True)
    result = Runner.run_streamed(agent, text, session=hf.session, hooks=hf.hooks, run_config=config)
    async for _ in result.stream_events():
        pass


def roles(engine: holdfast.Engine, name: str = "order-1", *, all_of_them: bool = False) -> list[str]:
    messages = engine.session(name).messages(limit=1_000)
    return [str(each.role) for each in messages if all_of_them or not each.withdrawn]


def test_a_session_alone_remembers_and_leaves_a_transcript(engine: holdfast.Engine) -> None:
    model = script([call("find", "c1", order="7")], [say("At the depot.")], [say("You asked for order 7.")])
    agent = Agent(name="desk", model=model, tools=[find])
    config = RunConfig(tracing_disabled=True)

    async def work() -> None:
        await Runner.run(agent, "Where is order 7?", session=HoldfastSession(engine, "order-1"), run_config=config)
        await Runner.run(agent, "Which order?", session=HoldfastSession(engine, "order-1"), run_config=config)

    run(work())
    items = run(HoldfastSession(engine, "order-1").get_items())
    assert model.calls[-1].input == items[:-1]
    assert cast("Items", items)[1]["arguments"] == '{"order": "7"}'
    session = engine.session("order-1")
    assert roles(engine, all_of_them=True) == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert "Order 7 is at the depot." in session.pack().text
    assert session.recover().pending_work == ()
    assert engine.admin.verify().ok


def test_a_run_with_everything_stores_each_message_once_with_its_pack_and_usage(engine: holdfast.Engine) -> None:
    hf = bind(engine, "order-1", user="ada", budget=4_000)
    model = script(
        [think("rs_1"), call("find", "c1", order="7"), call("wait", "c2", seconds=0.1)],
        [say("At the depot.")],
        usage=USAGE,
    )
    agent = Agent(name="desk", instructions="You are the desk.", model=model, tools=[find, wait, *hf.tools])

    result = run(ask(agent, "Where is order 7?", hf))

    assert result.final_output == "At the depot."
    session = engine.session("order-1")
    messages = session.messages()
    assert roles(engine, all_of_them=True) == ["user", "assistant", "tool", "tool", "assistant"]
    assert [each.usage.input_tokens for each in messages if each.usage] == [900, 900]
    assert session.state().usage == holdfast.Usage(1800, 60, 1024, 0, 14)
    assert sorted(each.reply for each in session.packs.list()) == [messages[1].seq, messages[4].seq]
    first, second = model.calls
    assert first.system_instructions is not None
    assert first.system_instructions.startswith("You are the desk.")
    assert "The user is ada." in first.system_instructions
    shown = cast("Items", second.input)
    assert [item.get("type", item.get("role")) for item in shown] == [
        "user",
        "reasoning",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "developer",
    ]
    assert shown[1] == {"id": "rs_1", "summary": [], "type": "reasoning", "encrypted_content": "c2VjcmV0"}
    assert shown[2]["id"] == "fc_c1"
    assert shown[2]["arguments"] == '{"order": "7"}'
    assert shown[:-1] == run(hf.session.get_items())[:-1]
    assert hf.last_input == shown
    assert "tokens used" in hf.why()
    assert session.recover().pending_work == ()
    assert engine.admin.verify().ok


def test_nothing_was_called_yet(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")

    assert hf.why() == "There was no model call yet."
    assert hf.last_input == []
    assert hf.last_pack is None
    assert repr(hf) == "<BoundSession 'order-1'>"


def test_streamed_and_blocking_runs(engine: holdfast.Engine) -> None:
    hf = bind(engine, "order-1")
    model = script([call("find", "c1", order="7")], [say("At the depot.")], [say("Still there.")])
    agent = Agent(name="desk", model=model, tools=[find])

    async def work() -> None:
        result = Runner.run_streamed(
            agent, "Where is order 7?", session=hf.session, hooks=hf.hooks, run_config=hf.config(tracing_disabled=True)
        )
        assert len([event async for event in result.stream_events()]) > 5
        assert result.final_output == "At the depot."

    run(work())
    again = Runner.run_sync(
        agent, "And now?", session=hf.session, hooks=hf.hooks, run_config=hf.config(tracing_disabled=True)
    )
    assert again.final_output == "Still there."
    assert roles(engine, all_of_them=True) == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert without_tail(model.calls[2].input) == run(hf.session.get_items())[:-1]
    packs = engine.session("order-1").packs.list()
    assert sorted(each.query for each in packs) == ["And now?", "Where is order 7?", "Where is order 7?"]
    for each in model.calls:
        assert "<holdfast-context>" in str(cast("Items", each.input)[-1]["content"])


def test_a_handoff_goes_on_in_the_same_conversation(engine: holdfast.Engine) -> None:
    hf = bind(engine, "order-1", agent_budget=5_000)
    refunds = Agent(name="refunds", instructions="You refund.", model=script([say("Refunded.")], usage=USAGE))
    first = script([call("transfer_to_refunds", "c1")], usage=USAGE)
    desk = Agent(name="desk", instructions="You are the desk.", model=first, handoffs=[refunds])

    result = run(ask(desk, "I want my money back.", hf))

    assert result.final_output == "Refunded."
    assert result.last_agent is refunds
    session = engine.session("order-1")
    assert roles(engine, all_of_them=True) == ["user", "assistant", "tool", "assistant"]
    model = cast("Any", refunds.model)
    assert texts(without_tail(model.calls[0].input)) == ["I want my money back.", "{}", '{"assistant": "refunds"}']
    frames = session.frames.list()
    assert [(each.goal, each.status, each.budget.used) for each in frames] == [
        ("Agent desk", "completed", 930),
        ("Agent refunds", "completed", 930),
    ]
    assert [session.messages()[n].metadata["openai_agents"]["agent"] for n in (1, 3)] == ["desk", "refunds"]  # type: ignore[index,call-overload]
    assert engine.admin.verify().ok


def test_a_filter_of_a_handoff_stays_in_force(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([say("Refunded.")])
    refunds = Agent(name="refunds", model=model)
    to_refunds = handoff(refunds, input_filter=handoff_filters.remove_all_tools)
    steps = script([call("find", "c1", order="7")], [call("transfer_to_refunds", "c2")])
    desk = Agent(name="desk", model=steps, tools=[find], handoffs=[to_refunds])

    run(ask(desk, "I want my money back.", hf))

    assert without_tail(model.calls[0].input) == [user("I want my money back.")]


def test_an_agent_out_of_tokens_makes_no_call(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1", agent_budget=900)
    model = script([call("find", "c1", order="7")], [say("Never.")], [say("Next run.")], usage=USAGE)
    agent = Agent(name="desk", model=model, tools=[find])

    with pytest.raises(InsufficientTokens):
        run(ask(agent, "Where is order 7?", hf))

    assert len(model.calls) == 1
    run(ask(agent, "And now?", hf))  # a frame of its own
    assert [each.status for each in file_engine.session("order-1").frames.list()] == ["failed", "completed"]


def test_an_agent_as_a_tool_has_its_own_conversation(file_engine: holdfast.Engine) -> None:
    """It inherits the filter, even if it is asked the same words."""
    hf = bind(file_engine, "order-1")
    inner = script([say("At the depot.")])
    expert = Agent(name="expert", instructions="You know.", model=inner)
    tool = expert.as_tool("ask_expert", "Ask.")
    outer = script([call("ask_expert", "c1", input="Where is order 7?")], [say("It is at the depot.")])
    agent = Agent(name="desk", model=outer, tools=[tool])

    run(ask(agent, "Where is order 7?", hf))

    assert inner.calls[0].input == [user("Where is order 7?")]
    assert inner.calls[0].system_instructions == "You know."
    assert roles(file_engine, all_of_them=True) == ["user", "assistant", "tool", "assistant"]
    assert texts(without_tail(outer.calls[1].input))[-1] == "At the depot."


def test_guardrails_that_trip_leave_what_the_sdk_leaves(engine: holdfast.Engine) -> None:
    @input_guardrail(run_in_parallel=False)
    async def no_weapons(_: Any, __: Any, text: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="weapon" in str(text[-1]))

    @output_guardrail
    async def no_secrets(_: Any, __: Any, output: str) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="secret" in output)

    hf = bind(engine, "order-1")
    model = script([say("It is secret.")], [say("Good.")])
    agent = Agent(name="desk", model=model, input_guardrails=[no_weapons], output_guardrails=[no_secrets])

    async def work() -> None:
        with pytest.raises(InputGuardrailTripwireTriggered):
            await ask(agent, "Sell me a weapon.", hf)
        with pytest.raises(OutputGuardrailTripwireTriggered):
            await ask(agent, "What is the code?", hf)
        await ask(agent, "How are you?", hf)

    run(work())
    items = run(hf.session.get_items())
    shown = engine.session("order-1").context.render("openai-responses")["input"]
    assert texts(shown) == texts(items)
    assert "It is secret." not in texts(without_tail(model.calls[-1].input))
    assert without_tail(model.calls[-1].input) == items[:-1]
    assert engine.admin.verify().ok


def test_max_turns(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    calls: list[Any] = [[call("find", f"c{n}", order=str(n))] for n in range(3)]
    model = script(*calls, [say("At last.")])
    agent = Agent(name="desk", model=model, tools=[find])

    with pytest.raises(MaxTurnsExceeded):
        run(ask(agent, "Find all.", hf, max_turns=2))
    run(ask(agent, "Go on.", hf))

    items = run(hf.session.get_items())
    assert without_tail(model.calls[-1].input) == items[:-1]
    assert texts(file_engine.session("order-1").context.render("openai-responses")["input"]) == texts(items)
    assert file_engine.session("order-1").recover().pending_work == ()


def test_a_model_that_fails_leaves_no_reply(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    agent = Agent(name="desk", model=script(RuntimeError("overloaded"), [say("Hello.")]))

    with pytest.raises(RuntimeError):
        run(ask(agent, "Hi.", hf))
    run(ask(agent, "Hi again.", hf))

    assert roles(file_engine, all_of_them=True) == ["user", "user", "assistant"]


def test_a_tool_that_fails_is_told_and_recorded(file_engine: holdfast.Engine) -> None:
    @function_tool
    def pay(euros: int) -> str:
        """Pay."""
        raise ConnectionError("no route to the bank")

    hf = bind(file_engine, "order-1")
    model = script([call("pay", "c1", euros=5)], [say("It failed.")])
    run(ask(Agent(name="desk", model=model, tools=[pay]), "Pay.", hf))

    assert "error" in texts(without_tail(model.calls[1].input))[-1].lower()
    session = file_engine.session("order-1")
    assert session.open_calls() == ()
    assert session.recover().unknown_outcomes == ()


def test_the_callback_prepares_the_input_and_history_is_not_stored_again(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([say("1")], [say("2")], [say("3")])
    agent = Agent(name="desk", model=model)

    def keep_two(history: Any, new: Any) -> Any:
        return history[-2:] + new

    async def work() -> None:
        for text in ("a", "b", "c"):
            config = hf.config(tracing_disabled=True, session_input_callback=keep_two)
            await Runner.run(agent, sdk([user(text)]), session=hf.session, hooks=hf.hooks, run_config=config)

    run(work())
    assert texts(run(hf.session.get_items())) == ["a", "1", "b", "2", "c", "3"]
    assert texts(without_tail(model.calls[2].input)) == ["b", "2", "c"]


@pytest.mark.parametrize("limit", [None, 1, 2, 3])
@pytest.mark.parametrize("kept", [None, 1, 2, 3])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_same_words_again_are_a_new_message(
    file_engine: holdfast.Engine, limit: int | None, kept: int | None, *, streamed: bool
) -> None:
    """Whatever the SDK leaves out of the list, the new message is the last one."""
    said = ["ok", "ok", "What?", "ok", "ok"]
    model = script()
    for number in range(len(said)):
        model.enqueue(ModelStep(output=[say("Yes.", f"m{number}")]))
    agent = Agent(name="desk", model=model)

    async def ask_all() -> None:
        hf = bind(file_engine, "order-1", session_settings={"limit": limit} if limit is not None else None)
        cut = (lambda history, new: history[-kept:] + new) if kept is not None else None
        for text in said:
            config = hf.config(session_input_callback=cut, tracing_disabled=True)
            if streamed:
                result = Runner.run_streamed(agent, text, session=hf.session, hooks=hf.hooks, run_config=config)
                async for _ in result.stream_events():
                    pass
            else:
                await Runner.run(agent, text, session=hf.session, hooks=hf.hooks, run_config=config)

    run(ask_all())
    least = min(limit or 99, kept or 99)
    for number, made in enumerate(model.calls):
        before = [text for each in said[:number] for text in (each, "Yes.")]
        assert texts(without_tail(made.input)) == [*before[-least:], said[number]]
    items = run(bind(file_engine, "order-1").session.get_items())
    assert texts(items) == [text for each in said for text in (each, "Yes.")]


def test_the_same_words_in_a_run_that_was_stopped_before_its_first_call(file_engine: holdfast.Engine) -> None:
    """Its state goes on with a list that the SDK has not read from the session again."""
    model = script([say("Yes.", "m1")], [say("Yes, yes.", "m2")])
    agent = Agent(name="desk", model=model)

    async def work() -> None:
        hf = bind(file_engine, "order-1")
        await ask(agent, "ok", hf)
        config = hf.config(tracing_disabled=True)
        stopped = Runner.run_streamed(agent, "ok", session=hf.session, hooks=hf.hooks, run_config=config)
        stopped.cancel(mode="after_turn")
        async for _ in stopped.stream_events():
            pass
        hf = bind(file_engine, "order-1")
        await ask(agent, stopped.to_state(), hf)

    run(work())
    assert texts(without_tail(model.calls[1].input)) == ["ok", "Yes.", "ok"]


@pytest.mark.parametrize("streamed", [False, True])
def test_the_same_words_after_a_question_that_nobody_answered(file_engine: holdfast.Engine, *, streamed: bool) -> None:
    """The SDK leaves the call out, with its reasoning, which differs from other reasoning in nothing but its id."""

    @function_tool(needs_approval=True)
    def ship() -> str:
        """Ship it."""
        return "shipped"

    model = script([think("rs_1"), call("ship", "c1")], [think("rs_2"), say("Yes.", "m2")], [say("Yes, yes.", "m3")])
    agent = Agent(name="desk", model=model, tools=[ship])
    for text in ("ok", "What?", "ok"):
        run((stream if streamed else ask)(agent, text, bind(file_engine, "order-1")))

    assert texts(without_tail(model.calls[2].input)) == ["ok", "What?", "", "Yes.", "ok"]


def test_a_limit_of_the_run_applies_to_the_pack(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([call("find", "c1", order="7")], [say("1")], [say("2")])
    agent = Agent(name="desk", model=model, tools=[find])

    async def work() -> None:
        await ask(agent, "a", hf)
        config = hf.config(tracing_disabled=True, session_settings=SessionSettings(limit=2))
        await Runner.run(agent, "b", session=hf.session, hooks=hf.hooks, run_config=config)

    run(work())
    assert texts(without_tail(model.calls[2].input)) == ["1", "b"]  # the output without its call is left out


def test_an_error_of_the_store_reaches_the_caller(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    file_engine.session("order-1").end()
    agent = Agent(name="desk", model=script([say("Hello.")]))

    async def work() -> None:
        with pytest.raises(holdfast.errors.HoldfastError):
            await ask(agent, "Hi.", hf)
        result = Runner.run_streamed(
            agent, "Hi.", session=hf.session, hooks=hf.hooks, run_config=hf.config(tracing_disabled=True)
        )
        with pytest.raises(holdfast.errors.HoldfastError):
            [_ async for _ in result.stream_events()]

    run(work())


@pytest.mark.parametrize("streamed", [False, True], ids=["awaited", "streamed"])
def test_tools_know_their_key(file_engine: holdfast.Engine, streamed: bool) -> None:
    """Plain functions, in a thread or in the loop, several at once; each with the key of its own call."""
    hf = bind(file_engine, "order-1")
    keys: dict[str, str] = {}

    @function_tool
    def pay(context: ToolContext[Any], euros: int) -> str:
        """Pay."""
        started, current = hf.call(context), current_call()
        assert started is not None
        assert current == started
        keys[started.call] = started.key
        return f"paid {euros}"

    @function_tool
    async def send(euros: int) -> str:
        """Send."""
        await asyncio.sleep(0.05)
        current = current_call()
        assert current is not None
        keys[current.call] = current.key
        return f"sent {euros}"

    step = [
        call("pay", "c1", euros=5),
        call("send", "c2", euros=6),
        call("pay", "c3", euros=7),
        call("send", "c4", euros=8),
    ]
    agent = Agent(name="desk", model=script(cast("Any", step), [say("Paid.")]), tools=[pay, send])
    run(stream(agent, "Pay.", hf) if streamed else ask(agent, "Pay.", hf))

    made = [each.id for message in hf.holdfast.messages() for each in message.tool_calls]
    assert {*keys} == {*made}
    assert len({*keys.values()}) == 4
    assert all(len(key) == 32 for key in keys.values())
    assert current_call() is None


def test_tools_of_an_agent_that_is_a_tool_have_no_key_of_the_outer_call(file_engine: holdfast.Engine) -> None:
    """Two payments under one key would be one payment."""
    hf = bind(file_engine, "order-1")
    keys: list[object] = []

    @function_tool
    def pay(euros: int) -> str:
        """Pay."""
        keys.append(current_call())
        return f"paid {euros}"

    inner = Agent(name="till", model=script([call("pay", "i1", euros=1)], [say("Done.")]), tools=[pay])
    tool = inner.as_tool("till", "Pays.")
    run(
        ask(
            Agent(name="desk", model=script([call("till", "c1", input="Pay")], [say("Good.")]), tools=[tool]),
            "Pay.",
            hf,
        )
    )

    assert keys == [None]


def ask_at_once(engine: holdfast.Engine, *, is_shared: bool, in_turns: bool, delay: float) -> list[Any]:
    """Two runs with tools on one session. Returns their outputs, or their errors."""
    shared = bind(engine, "order-1")

    async def work(number: int) -> Any:
        await asyncio.sleep(number * delay)
        hf = shared if is_shared else bind(engine, "order-1")
        steps: Any = [call("wait", f"{number}-1", seconds=0.3)], [call("wait", f"{number}-2", seconds=0.1)]
        agent = Agent(name=f"desk-{number}", model=script(*steps, [say(f"Answer {number}")]), tools=[wait])
        async with hf.turn() if in_turns else contextlib.nullcontext():
            return (await ask(agent, f"Question {number}", hf)).final_output

    async def both() -> list[Any]:
        return [*await asyncio.gather(work(0), work(1), return_exceptions=True)]

    return run(both())


@pytest.mark.parametrize("is_shared", [False, True], ids=["two-bound", "one-bound"])
def test_a_run_does_not_give_up_the_running_tool_of_another(engine: holdfast.Engine, is_shared: bool) -> None:
    """It is refused before anything is stored, and the first one goes on."""
    first, second = ask_at_once(engine, is_shared=is_shared, in_turns=False, delay=0.15)

    hf = bind(engine, "order-1")
    items = texts(run(hf.session.get_items()))
    for end, number in ((first, 0), (second, 1)):
        if isinstance(end, BaseException):  # on a slow machine, both may begin before the first tool
            error = end.__cause__ or end
            assert isinstance(error, holdfast.errors.CallsOpen | holdfast.errors.CallAnswered)
        else:
            assert end == f"Answer {number}"
            assert end in items
    assert not any("outcome of this call is unknown" in text for text in items)
    run(ask(Agent(name="desk", model=script([say("Good.")])), "And now?", hf))
    assert engine.session("order-1").recover().pending_work == ()
    assert engine.admin.verify().ok


def test_the_error_names_the_call_that_runs(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")

    @function_tool
    async def interfere() -> str:
        """Ask in the middle of a tool."""
        with pytest.raises(holdfast.errors.CallsOpen, match=r"\(c1\); another run is at work") as caught:
            await ask(Agent(name="second", model=script([say("No.")])), "Second", bind(file_engine, "order-1"))
        return caught.value.what

    model = script([call("interfere", "c1")], [say("Done.")])
    run(ask(Agent(name="desk", model=model, tools=[interfere]), "First", hf))

    assert texts(run(hf.session.get_items()))[0] == "First"
    assert texts(run(hf.session.get_items()))[-1] == "Done."
    assert "Second" not in texts(run(hf.session.get_items()))
    assert not any(message.withdrawn for message in hf.holdfast.messages())


@pytest.mark.parametrize("is_shared", [False, True], ids=["two-bound", "one-bound"])
def test_runs_in_turns_come_one_after_another(engine: holdfast.Engine, is_shared: bool) -> None:
    assert ask_at_once(engine, is_shared=is_shared, in_turns=True, delay=0) == ["Answer 0", "Answer 1"]

    assert roles(engine) == ["user", "assistant", "tool", "assistant", "tool", "assistant"] * 2
    assert len(run(bind(engine, "order-1").session.get_items())) == 12


def test_a_turn_that_is_not_free_is_not_waited_for_forever(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")

    async def take() -> None:
        async with hf.turn(wait_s=0):
            pass

    async def work() -> None:
        async with hf.turn():
            with pytest.raises(holdfast.errors.TurnBusy):
                await take()
            waiting = asyncio.ensure_future(bind(file_engine, "order-1").turn().__aenter__())
            await asyncio.sleep(0.1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await take()

    run(work())


def test_the_result_of_a_call_that_was_given_up_is_kept_as_evidence(file_engine: holdfast.Engine) -> None:
    """Another process cannot see that the tool is running."""
    hf = bind(file_engine, "order-1")

    @function_tool
    def pay() -> str:
        """Pay."""
        started = current_call()
        assert started is not None
        file_engine.session("order-1").result(started.call, "Error: unknown", is_error=True)
        return "paid, receipt 77"

    model = script([call("pay", "c1")], [say("Done.")])
    with pytest.raises(UserError) as caught:
        run(ask(Agent(name="desk", model=model, tools=[pay]), "Pay.", hf))
    assert isinstance(caught.value.__cause__, holdfast.errors.CallAnswered)
    assert [message.text for message in hf.holdfast.evidence()] == ["paid, receipt 77"]


def test_a_cancelled_run_is_taken_up(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([call("wait", "c1", seconds=30)], [say("Not again.")])
    agent = Agent(name="desk", model=model, tools=[wait])

    async def work() -> None:
        task = asyncio.ensure_future(ask(agent, "Wait.", hf))
        for _ in range(500):
            if file_engine.session("order-1").recover().unknown_outcomes:
                break
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ask(agent, "Did you wait?", hf)

    run(work())
    shown = texts(without_tail(model.calls[1].input))
    assert shown[:2] == ["Wait.", '{"seconds": 30}']
    assert "outcome of this call is unknown" in shown[2]
    assert shown[3:] == ["Did you wait?"]


def test_a_tool_may_end_while_its_call_is_given_up(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is cancelled while the result of a tool is being stored; the next one begins at once."""
    hf = bind(file_engine, "order-1")

    @function_tool(failure_error_function=None)
    def break_off() -> str:
        """Break off."""
        raise ValueError("broken off")

    with pytest.raises(UserError):
        run(ask(Agent(name="desk", model=script([call("break_off", "c1")]), tools=[break_off]), "Go.", hf))
    read = holdfast.Session.open_calls

    def read_and_answer(session: holdfast.Session) -> Any:
        monkeypatch.undo()
        waiting = read(session)
        session.result(waiting[0].id, "it has worked")
        return waiting

    monkeypatch.setattr(holdfast.Session, "open_calls", read_and_answer)
    model = script([say("Good.")])
    run(ask(Agent(name="desk", model=model), "And?", hf))

    assert texts(without_tail(model.calls[0].input)) == ["Go.", "{}", "it has worked", "And?"]


def test_large_results_are_read_through_the_tool(file_engine: holdfast.Engine) -> None:
    @function_tool
    def dump() -> str:
        """Dump the log."""
        return "\n".join(f"line {n}: all is well" for n in range(20_000)) + "\nthe last line"

    hf = bind(file_engine, "order-1", budget=4_000)
    assert [tool.name for tool in hf.tools] == ["read_handle"]
    model = script([call("dump", "c1")], [say("Long.")])
    agent = Agent(name="desk", model=model, tools=[dump, *hf.tools])
    run(ask(agent, "Dump.", hf))

    shown = texts(without_tail(model.calls[1].input))[-1]
    assert len(shown) < 20_000
    assert "read_handle" in shown
    (handle,) = {*re.findall(r"h\d+_\d+", shown)}
    model.enqueue([call("read_handle", "c2", handle=handle, search="the last line")])
    model.enqueue([say("Read.")])
    run(ask(agent, "How does it end?", hf))
    assert "the last line" in texts(without_tail(model.calls[3].input))[-1]


def test_memory_is_offered_as_a_tool(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1", user="ada", memory=True)
    assert [tool.name for tool in hf.tools] == ["read_handle", "recall_memory"]
    model = script([call("recall_memory", "c1", query="lamp")], [say("I do not know.")])
    run(ask(Agent(name="desk", model=model, tools=list(hf.tools)), "Which lamp?", hf))

    assert isinstance(texts(without_tail(model.calls[1].input))[-1], str)
    tool = hf.tools[0]
    assert "not a JSON object" in run(cast("Any", tool.on_invoke_tool(cast("Any", None), "[1]")))


def test_other_items_of_the_caller_are_stored_and_shown(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([say("Seen.")], [say("Yes.")])
    items: Items = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Look:"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]},
        assistant("I looked."),
        user("And?"),
    ]
    agent = Agent(name="desk", model=model, model_settings=ModelSettings(store=False))
    run(ask(agent, sdk(items), hf))
    run(ask(agent, "Sure?", hf))

    assert without_tail(model.calls[0].input) == items
    assert without_tail(model.calls[1].input)[:5] == items


@pytest.mark.parametrize("streamed", [False, True], ids=["awaited", "streamed"])
def test_the_runner_compacts_what_models_are_shown(file_engine: holdfast.Engine, streamed: bool) -> None:
    """A session alone is enough: the view is compacted after a turn, and the SDK still has all items."""
    words = "More words about it. " * 80
    answers: list[Any] = [[say(f"Answer {n}. {words}", f"m{n}")] for n in range(20)]
    agent = Agent(name="desk", model=script(*answers))
    session = HoldfastSession(file_engine, "order-1", window=4_000, model="gpt-5")

    async def ask_all() -> None:
        for number in range(20):
            config, text = RunConfig(tracing_disabled=True), f"Question {number}. {words}"
            if streamed:
                result = Runner.run_streamed(agent, text, session=session, run_config=config)
                async for _ in result.stream_events():
                    pass
            else:
                await Runner.run(agent, text, session=session, run_config=config)

    run(ask_all())
    assert len(run(session.get_items())) == 40
    shown = session.session.context.render("openai-responses")["input"]
    assert len(shown) < 40
    assert texts(shown)[-1].startswith("Answer 19.")
