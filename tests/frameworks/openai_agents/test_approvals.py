"""Approvals: a run waits for a person, perhaps for days, and goes on in another process."""

from __future__ import annotations

from typing import Any, cast

import pytest

import holdfast
from agents import Agent, GuardrailFunctionOutput, Runner, RunState, UserError, function_tool, output_guardrail
from holdfast.errors import CallAnswered, OutcomeUnknown
from holdfast.openai_agents import BoundSession, bind
from tests.frameworks.openai_agents.support import call, run, say, script, texts, think, without_tail

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


@pytest.mark.parametrize("talk", [ask, stream], ids=["awaited", "streamed"])
def test_an_approval_that_comes_after_other_turns_runs_the_tools(engine: holdfast.Engine, talk: Any) -> None:
    """The conversation went on without the calls. They had not run, so they run now, under keys."""
    calls = [call("pay", "c1", euros=5), call("find", "c2", order="7"), call("pay", "c3", euros=6)]
    model = script([*calls], [say("Later.")], [say("Paid.")], [say("Yes.")])
    agent = Agent(name="desk", model=model, tools=[pay, find])
    stored = ask(agent, "Pay 5 and 6 euros.", bind(engine, "order-1")).to_state().to_string()
    talk(agent, "Wait. Do you ship on Sundays?", bind(engine, "order-1"))

    hf = bind(engine, "order-1")
    state = run(cast("Any", RunState.from_string(agent, stored)))
    for approval in state.get_interruptions():
        state.approve(approval)
    talk(agent, state, hf)
    assert sorted(paid) == [5, 6]
    talk(agent, "Did you pay?", bind(engine, "order-1"))

    sent = cast("Any", without_tail(model.calls[-1].input))
    outputs = {item["call_id"]: item["output"] for item in sent if item.get("type") == "function_call_output"}
    assert outputs == {"c1": "paid 5", "c2": "Order 7 is at the depot.", "c3": "paid 6"}
    made = [item["call_id"] for item in sent if item.get("type") == "function_call"]
    assert sorted(made) == ["c1", "c2", "c3"]
    assert texts(item for item in sent if item.get("role")) == [
        "Pay 5 and 6 euros.",
        "Wait. Do you ship on Sundays?",
        "Later.",
        "Paid.",
        "Did you pay?",
    ]
    session = engine.session("order-1")
    results = [each.text for each in session.messages() if each.role == "tool" and not each.withdrawn]
    assert {"paid 5", "paid 6"} < {*results}
    assert session.recover().pending_work == ()
    with pytest.raises(UserError) as raised:  # a state that is resumed again pays nothing
        talk(agent, _approve(agent, stored), bind(engine, "order-1"))
    assert isinstance(raised.value.__cause__, CallAnswered)
    assert sorted(paid) == [5, 6]
    assert engine.admin.verify().ok


@pytest.mark.parametrize("approve", [True, False], ids=["approved", "rejected"])
def test_reasoning_stays_before_its_call_when_the_answer_comes_after_other_turns(
    file_engine: holdfast.Engine, *, approve: bool
) -> None:
    """Providers refuse a call without its reasoning. Here, the reasoning items differ in nothing but their ids."""
    steps: list[Any] = [[think(f"rs_{n}"), say(f"Answer {n}.", f"msg_{n}")] for n in range(1, 4)]
    model = script([think("rs_0"), call("pay", "c1", euros=5)], *steps)
    agent = Agent(name="desk", model=model, tools=[pay])
    stored = ask(agent, "Pay 5 euros.", bind(file_engine, "order-1")).to_state().to_string()
    ask(agent, "Do you ship on Sundays?", bind(file_engine, "order-1"))
    state = run(cast("Any", RunState.from_string(agent, stored)))
    (approval,) = state.get_interruptions()
    state.approve(approval) if approve else state.reject(approval)
    ask(agent, state, bind(file_engine, "order-1"))
    ask(agent, "And now?", bind(file_engine, "order-1"))

    for made in model.calls[2:]:
        ids = [item.get("id") for item in cast("Any", made.input)]
        assert ids[ids.index("rs_0") + 1] == "fc_c1"
        assert ids.count("fc_c1") == 1
    order = [item.get("id") for item in cast("Any", without_tail(model.calls[-1].input)) if item.get("id")]
    first, late = ["rs_0", "fc_c1"], ["rs_1", "msg_1"]
    assert order == [*(late + first if approve else first + late), "rs_2", "msg_2"]


def test_an_approval_after_the_session_was_cleared_runs_the_tool(file_engine: holdfast.Engine) -> None:
    model = script([call("pay", "c1", euros=5)], [say("Paid.")], [say("Yes.")])
    agent = Agent(name="desk", model=model, tools=[pay])
    hf = bind(file_engine, "order-1")
    stored = ask(agent, "Pay 5 euros.", hf).to_state().to_string()
    run(hf.session.clear_session())
    ask(agent, _approve(agent, stored), bind(file_engine, "order-1"))
    ask(agent, "Did you pay?", bind(file_engine, "order-1"))

    assert paid == [5]
    assert texts(without_tail(model.calls[-1].input)) == ['{"euros": 5}', "paid 5", "Paid.", "Did you pay?"]
    assert file_engine.admin.verify().ok


def test_a_late_approval_in_two_processes_runs_the_tool_once(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one starts the call between two steps of the first one."""
    model = script([call("pay", "c1", euros=5)], [say("Later.")], [say("Never.")])
    agent = Agent(name="desk", model=model, tools=[pay])
    stored = ask(agent, "Pay 5 euros.", bind(file_engine, "order-1")).to_state().to_string()
    ask(agent, "Do you ship on Sundays?", bind(file_engine, "order-1"))
    find = holdfast.Session.find_message

    def find_and_start_elsewhere(session: holdfast.Session, name: str) -> Any:
        monkeypatch.undo()
        found = find(session, name)
        bind(file_engine, "order-1").session.conversation.start_tool("c1", "pay")
        return found

    monkeypatch.setattr(holdfast.Session, "find_message", find_and_start_elsewhere)
    with pytest.raises(UserError) as raised:
        ask(agent, _approve(agent, stored), bind(file_engine, "order-1"))

    assert isinstance(raised.value.__cause__, OutcomeUnknown)
    assert paid == []
    (unknown,) = bind(file_engine, "order-1").recover().unknown_outcomes
    assert unknown.key == raised.value.__cause__.key


@pytest.mark.parametrize("first", [0, 1])
def test_two_late_approvals_in_any_order(file_engine: holdfast.Engine, first: int) -> None:
    """Each waits in a reply of its own, and the second one is not answered yet when the first one runs."""
    model = script(
        [call("pay", "c0", euros=5)], [call("pay", "c1", euros=6)], [say("One.")], [say("Two.")], [say("Yes.")]
    )
    agent = Agent(name="desk", model=model, tools=[pay])
    stored = [ask(agent, text, bind(file_engine, "order-1")).to_state().to_string() for text in ("Pay 5.", "Pay 6.")]
    for number in (first, 1 - first):
        ask(agent, _approve(agent, stored[number]), bind(file_engine, "order-1"))
    ask(agent, "Both?", bind(file_engine, "order-1"))

    assert paid == [(5, 6)[first], (6, 5)[first]]
    sent = cast("Any", without_tail(model.calls[-1].input))
    assert [item["output"] for item in sent if "output" in item] == [f"paid {euros}" for euros in paid]
    assert file_engine.session("order-1").recover().pending_work == ()


def _approve(agent: Agent[Any], stored: str) -> Any:
    state = run(cast("Any", RunState.from_string(agent, stored)))
    for approval in state.get_interruptions():
        state.approve(approval)
    return state


@pytest.mark.parametrize("turns", [1, 2])
def test_a_late_approval_whose_tool_was_killed_is_told_in_the_next_turn(engine: holdfast.Engine, turns: int) -> None:
    model = script([call("die", "c1", euros=5)], *cast("Any", [[say("Later.", f"m{n}")] for n in range(turns)]))
    agent = Agent(name="desk", model=model, tools=[die])
    stored = ask(agent, "Pay 5 euros.", bind(engine, "order-1")).to_state().to_string()
    for number in range(turns):
        ask(agent, f"Question {number}", bind(engine, "order-1"))
    with pytest.raises(PowerFailure):
        ask(agent, _approve(agent, stored), bind(engine, "order-1"))

    (unknown,) = bind(engine, "order-1").recover().unknown_outcomes
    with pytest.raises(UserError) as raised:
        ask(agent, _approve(agent, stored), bind(engine, "order-1"))
    assert isinstance(raised.value.__cause__, OutcomeUnknown)
    model.enqueue([say("I will check.")])
    ask(agent, "And now?", bind(engine, "order-1"))
    sent = cast("Any", without_tail(model.calls[-1].input))
    (output,) = [item["output"] for item in sent if item.get("type") == "function_call_output"]
    assert unknown.key in output
    assert [item["call_id"] for item in sent if item.get("type") == "function_call"] == ["c1"]
    assert engine.admin.verify().ok
