"""Tool calls of several branches of a thread: who goes back in time, and returns, meets what has happened."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import holdfast
from holdfast.errors import OutcomeUnknown
from holdfast.frameworks import current_call
from holdfast.langchain import HoldfastMiddleware
from holdfast.langgraph import HoldfastSaver
from tests.frameworks.langgraph.chat_models import ScriptedModel, calls

T: Any = {"configurable": {"thread_id": "t"}}


class PowerFailure(BaseException):
    """Stands for a process that is killed."""


class Desk:
    """An agent that pays; `ends` says how each run of the tool ends."""

    def __init__(self, engine: holdfast.Engine, *ends: BaseException | None, is_own: bool = False) -> None:
        self.engine = engine
        self.ends = list(ends)
        self.keys: list[str] = []
        self.before: Any = None
        self.saver: Any = HoldfastSaver(engine) if is_own else InMemorySaver()
        self.model = ScriptedModel(self._reply)
        self.agent = self.build()

    def build(self, *middleware: Any, **options: Any) -> Any:
        def pay(euros: int) -> Any:
            """Pay."""
            call = current_call()
            assert call is not None
            self.keys.append(call.key)
            end = self.ends.pop(0) if self.ends else None
            if end is not None:
                raise end
            return f"paid {euros}, number {len(self.keys)}"

        every = [*middleware, HoldfastMiddleware(self.engine, **options)]
        return create_agent(self.model, [pay], middleware=every, checkpointer=self.saver)

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        last = [each for each in messages if not each.text.startswith("<holdfast-context>")][-1]
        if last.type == "human" and last.text.startswith("Pay"):
            return calls(("pay", {"euros": 40}))
        return AIMessage(f"To {last.text!r}.")

    def say(self, text: str, config: Any = T) -> None:
        self.go({"messages": [("user", text)]}, config)

    def go(self, command: Any, config: Any = T) -> list[BaseMessage]:
        messages: list[BaseMessage] = self.agent.invoke(command, config, durability="sync")["messages"]
        return messages

    def branch(self, error: type[BaseException] | None) -> Any:
        """Pay, then go on from before that. Returns the checkpoint at which the tool of the first branch runs."""
        self.say("Hello.")
        self.before = self.agent.get_state(T).config
        if error is None:
            self.say("Pay 40.")
        else:
            with pytest.raises(error):
                self.say("Pay 40.")
        pending = next(each for each in self.agent.get_state_history(T) if each.next == ("tools",))
        self.say("Something else.", self.before)
        return pending.config


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("unknown", ["raise", "tell", "repeat"])
def test_a_call_of_unknown_outcome_is_not_repeated_in_silence(
    file_engine: holdfast.Engine, unknown: str, is_own: bool
) -> None:
    desk = Desk(file_engine, PowerFailure(), is_own=is_own)
    pending = desk.branch(PowerFailure)
    (key,) = desk.keys
    for _ in range(2):  # in the same process, and in another one
        desk.agent = desk.build(unknown=unknown)
        if unknown == "raise":
            with pytest.raises(OutcomeUnknown) as caught:
                desk.go(None, pending)
            assert caught.value.key == key
            assert desk.keys == [key]
        else:
            desk.go(None, pending)
            assert set(desk.keys) == {key}
            (result,) = [each.text for each in desk.model.sent[-1] if isinstance(each, ToolMessage)]
            assert (key in result) is (unknown == "tell")
    assert len(desk.keys) == (2 if unknown == "repeat" else 1)
    desk.say("Something else.", desk.before)
    if unknown == "raise":
        desk.agent = desk.build(unknown="tell")
    desk.go(None, pending)
    assert len(desk.keys) == (2 if unknown == "repeat" else 1)
    assert file_engine.admin.verify().ok


@pytest.mark.parametrize("is_own", [False, True])
def test_a_call_that_has_a_result_in_another_branch_is_not_run_again(
    file_engine: holdfast.Engine, is_own: bool
) -> None:
    desk = Desk(file_engine, is_own=is_own)
    pending = desk.branch(None)
    for _ in range(2):
        assert desk.go(None, pending)[-1].text == "To 'paid 40, number 1'."
        assert len(desk.keys) == 1
        desk.agent = desk.build()
    assert file_engine.session("t").open_calls() == ()
    assert file_engine.admin.verify().ok


@pytest.mark.parametrize("is_own", [False, True])
def test_a_tool_that_raised_in_another_branch_is_run_again(file_engine: holdfast.Engine, is_own: bool) -> None:
    desk = Desk(file_engine, ValueError("no power"), is_own=is_own)
    pending = desk.branch(ValueError)
    assert desk.go(None, pending)[-1].text == "To 'paid 40, number 2'."
    assert len(set(desk.keys)) == 1  # it is the same call
    assert file_engine.admin.verify().ok


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("error", [PowerFailure("no power"), ValueError("no power"), None])
def test_who_goes_on_without_a_result_is_told_what_is_known_of_the_call(
    file_engine: holdfast.Engine, error: BaseException | None, is_own: bool
) -> None:
    desk = Desk(file_engine, error, is_own=is_own)
    pending = desk.branch(None if error is None else type(error))
    desk.say("And now?", pending)
    (result,) = [each.text for each in desk.model.sent[-1] if isinstance(each, ToolMessage)]
    known = {PowerFailure: desk.keys[0], ValueError: "no power", type(None): "paid 40, number 1"}
    assert known[type(error)] in result
    assert "not run" not in result.replace("It did not run now", "")
    assert len(desk.keys) == 1


@pytest.mark.parametrize("is_own", [False, True])
def test_a_call_that_a_person_refused_and_then_approved_runs(file_engine: holdfast.Engine, is_own: bool) -> None:
    desk = Desk(file_engine, is_own=is_own)
    desk.agent = desk.build(HumanInTheLoopMiddleware(interrupt_on={"pay": True}))
    desk.say("Pay 40.")
    waiting = desk.agent.get_state(T)
    desk.go(Command(resume={"decisions": [{"type": "reject", "message": "too much"}]}))
    assert desk.keys == []

    desk.go(None, desk.agent.update_state(waiting.config, {"messages": []}, as_node="model"))
    assert desk.go(Command(resume={"decisions": [{"type": "approve"}]}))[-1].text == "To 'paid 40, number 1'."
    assert "too much" not in str(desk.model.sent[-1])
    session = file_engine.session("t")
    assert session.open_calls() == ()
    assert [each.text for each in session.messages() if each.tool_results and not each.withdrawn] == [
        "paid 40, number 1"
    ]
    assert file_engine.admin.verify().ok


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_call_that_the_user_left_waiting_and_then_approved_runs(
    file_engine: holdfast.Engine, is_own: bool, again: bool
) -> None:
    desk = Desk(file_engine, is_own=is_own)
    desk.agent = desk.build(review := HumanInTheLoopMiddleware(interrupt_on={"pay": True}))
    desk.say("Pay 40.")
    waiting = desk.agent.get_state(T)
    desk.say("Wait. What is the time?")
    assert "was not run" in str(desk.model.sent[-1])
    if again:
        desk.agent = desk.build(review)
    approved: Any = Command(resume={"decisions": [{"type": "approve"}]})
    assert desk.go(approved, waiting.config)[-1].text == "To 'paid 40, number 1'."
    assert "not run" not in str(desk.model.sent[-1])
    assert file_engine.session("t").open_calls() == ()
    assert file_engine.admin.verify().ok


def test_one_of_two_calls_that_were_refused_is_approved(file_engine: holdfast.Engine) -> None:
    desk = Desk(file_engine)
    desk.agent = desk.build(HumanInTheLoopMiddleware(interrupt_on={"pay": True}))
    desk.model.script = lambda messages: (
        calls(("pay", {"euros": 1}), ("pay", {"euros": 2})) if messages[-2].type == "human" else AIMessage("Done.")
    )
    refuse = {"type": "reject", "message": "too much"}
    desk.say("Pay.")
    waiting = desk.agent.get_state(T)
    desk.go(Command(resume={"decisions": [refuse, refuse]}))
    desk.go(None, desk.agent.update_state(waiting.config, {"messages": []}, as_node="model"))
    desk.go(Command(resume={"decisions": [refuse, {"type": "approve"}]}))
    results = [each.text for each in desk.model.sent[-1] if isinstance(each, ToolMessage)]
    assert ["too much" in results[0], results[1]] == [True, "paid 2, number 1"]
    assert file_engine.session("t").open_calls() == ()
    assert file_engine.admin.verify().ok
