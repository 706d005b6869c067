"""Approvals: a run waits for a person, perhaps for days, and goes on in another process."""

from __future__ import annotations

from typing import Any, cast

import pytest

import holdfast
from agents import Agent, GuardrailFunctionOutput, Runner, RunState, UserError, function_tool, output_guardrail
from holdfast.errors import OutcomeUnknown
from holdfast.openai_agents import BoundSession, bind
from tests.frameworks.openai_agents.support import call, run, say, script, texts, without_tail

paid: list[int] = []


@function_tool(needs_approval=True)
def pay(euros: int) -> str:
    """Pay."""
    paid.append(euros)
    return f"paid {euros}"


@function_tool
def find(order: str) -> str:
    """Find an order."""
    return f"Order {order} is at the depot."


@output_guardrail
async def no_secrets(_: Any, __: Any, output: str) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="secret" in output)


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


def ask(agent: Agent[Any], given: Any, hf: BoundSession) -> Any:
    config = hf.config(tracing_disabled=True)
    return run(cast("Any", Runner.run(agent, given, session=hf.session, hooks=hf.hooks, run_config=config)))


@pytest.mark.parametrize("guarded", [False, True], ids=["plain", "with an output guardrail"])
@pytest.mark.parametrize("approve", [True, False], ids=["approved", "rejected"])
def test_a_serialised_state_goes_on_in_another_process(engine: holdfast.Engine, approve: bool, guarded: bool) -> None:
    model = script([call("pay", "c1", euros=5), call("find", "c2", order="7")], [say("Done.")], [say("Yes.")])
    guardrails = [no_secrets] if guarded else []
    agent = Agent(name="desk", model=model, tools=[pay, find], output_guardrails=guardrails)
    result = ask(agent, "Pay 5 euros.", bind(engine, "order-1"))
    assert len(result.interruptions) == 1
    assert paid == []
    stored = result.to_state().to_string()

    hf = bind(engine, "order-1")  # as in a new process
    state = run(cast("Any", RunState.from_string(agent, stored)))
    (approval,) = state.get_interruptions()
    state.approve(approval) if approve else state.reject(approval)
    assert ask(agent, state, hf).final_output == "Done."
    assert ask(agent, "Really?", hf).final_output == "Yes."

    assert paid == ([5] if approve else [])
    items = run(hf.session.get_items())
    assert without_tail(model.calls[-1].input) == items[:-1]
    kinds = [each.get("type", each.get("role")) for each in cast("Any", items)]
    assert sorted(kinds) == sorted(
        ["user", *["function_call"] * 2, *["function_call_output"] * 2, "user", *["message"] * 2]
    )
    session = engine.session("order-1")
    roles = [each.role for each in session.messages() if not each.withdrawn]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]
    assert session.recover().pending_work == ()
    assert engine.admin.verify().ok


def test_a_question_that_nobody_answers_does_not_block_the_session(file_engine: holdfast.Engine) -> None:
    model = script([call("pay", "c1", euros=5)], [say("Not paid.")])
    agent = Agent(name="desk", model=model, tools=[pay])
    hf = bind(file_engine, "order-1")
    ask(agent, "Pay 5 euros.", hf)
    result = ask(agent, "Never mind.", hf)

    assert result.final_output == "Not paid."
    assert paid == []
    assert texts(without_tail(model.calls[1].input)) == ["Pay 5 euros.", "Never mind."]
    assert file_engine.session("order-1").recover().pending_work == ()


def test_a_state_that_is_resumed_twice_does_not_run_the_tool_twice(file_engine: holdfast.Engine) -> None:
    """The first process that resumed it died in the tool."""

    class Killed(BaseException):
        pass

    @function_tool(needs_approval=True)
    def pay_and_die(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        raise Killed

    model = script([call("pay_and_die", "c1", euros=5)], [say("Done.")])
    agent = Agent(name="desk", model=model, tools=[pay_and_die])
    stored = ask(agent, "Pay 5 euros.", bind(file_engine, "order-1")).to_state().to_string()

    def resume() -> None:
        state = run(cast("Any", RunState.from_string(agent, stored)))
        state.approve(state.get_interruptions()[0])
        ask(agent, state, bind(file_engine, "order-1"))

    with pytest.raises(Killed):
        resume()
    (unknown,) = bind(file_engine, "order-1").recover().unknown_outcomes
    with pytest.raises(UserError) as raised:
        resume()

    assert paid == [5]
    assert isinstance(raised.value.__cause__, OutcomeUnknown)
    assert raised.value.__cause__.key == unknown.key


class PowerFailure(BaseException):
    """Stands for the end of a process."""


@function_tool(needs_approval=True)
def die(euros: int) -> str:
    """Die."""
    raise PowerFailure


def stream(agent: Agent[Any], given: Any, hf: BoundSession) -> None:
    async def work() -> None:
        config = hf.config(tracing_disabled=True)
        result = Runner.run_streamed(agent, given, session=hf.session, hooks=hf.hooks, run_config=config)
        async for _ in result.stream_events():
            pass

    run(work())


@pytest.mark.parametrize("talk", [ask, stream], ids=["awaited", "streamed"])
@pytest.mark.parametrize("beside", [False, True])
def test_an_approved_tool_that_was_killed_is_told_in_the_next_turn(
    engine: holdfast.Engine, talk: Any, beside: bool
) -> None:
    """The SDK has the call already, without a result: it leaves it out of its list."""
    calls = [call("find", "c2", order="7"), call("die", "c1", euros=5)] if beside else [call("die", "c1", euros=5)]
    agent = Agent(name="desk", model=script([*calls]), tools=[die, find])
    result = ask(agent, "Pay 5 euros.", bind(engine, "order-1"))
    state = run(cast("Any", RunState.from_string(agent, result.to_state().to_string())))
    (approval,) = state.get_interruptions()
    state.approve(approval)
    with pytest.raises(PowerFailure):
        ask(agent, state, bind(engine, "order-1"))

    (unknown,) = bind(engine, "order-1").recover().unknown_outcomes
    with pytest.raises(OutcomeUnknown) as caught:
        talk(agent, "And now?", bind(engine, "order-1", abandoned="raise"))
    assert caught.value.key == unknown.key
    model = script([say("I will check.")], [say("Still checking.")])
    agent = Agent(name="desk", model=model, tools=[die, find])
    for number in range(2):
        talk(agent, "And now?", bind(engine, "order-1"))
        sent = without_tail(model.calls[number].input)
        outputs = {item["call_id"]: item["output"] for item in sent if item.get("type") == "function_call_output"}
        made = [item["call_id"] for item in sent if item.get("type") == "function_call"]
        assert made == [each.call_id for each in calls]
        assert unknown.key in outputs["c1"]
        assert sent[-1 - 2 * number]["content"] == "And now?"
    assert bind(engine, "order-1").recover().unknown_outcomes == ()
    assert engine.admin.verify().ok


def test_a_question_that_nobody_answers_is_not_taken_for_a_call_that_ran(engine: holdfast.Engine) -> None:
    model = script([call("die", "c1", euros=5)], [say("Well.")], [say("Yes.")])
    agent = Agent(name="desk", model=model, tools=[die])
    ask(agent, "Pay 5 euros.", bind(engine, "order-1"))
    for text in ("Never mind.", "Thanks."):
        ask(agent, text, bind(engine, "order-1", abandoned="raise"))
    assert texts(without_tail(model.calls[-1].input)) == ["Pay 5 euros.", "Never mind.", "Well.", "Thanks."]
