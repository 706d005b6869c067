"""Tools of Strands run under intents: crashes, retries, interrupts, cancellation."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest
from strands import Agent, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.types.content import ContentBlock
from strands.types.exceptions import SessionException
from strands.types.tools import ToolContext

import holdfast
from holdfast.errors import OutcomeUnknown
from holdfast.strands import HoldfastSessionManager, current_call
from tests.docs.pages import ROOT
from tests.frameworks.strands.scripted import ScriptedModel, texts, use
from tests.frameworks.strands.tools import KEYS, pay

RUNS: list[str] = []


@tool(name="die")
def survive() -> str:
    """Stands in for the tool that died."""
    call = current_call()
    assert call is not None
    RUNS.append(call.key)
    return "alive"


def kill_in_a_tool(url: str, kind: str = "called by the model") -> None:
    """Let a process die in the middle of a tool."""
    command = [sys.executable, "-m", "tests.frameworks.strands.crashing", url, kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    RUNS.clear()


def build(engine: holdfast.Engine, model: ScriptedModel, **options: Any) -> Agent:
    manager = HoldfastSessionManager(engine, "s1", budget=4_000, pack_options={"time": False}, **options)
    return Agent(model=model, tools=[pay, survive], session_manager=manager, callback_handler=None)


def test_a_crash_in_a_tool_is_an_unknown_outcome(url: str) -> None:
    kill_in_a_tool(url)
    with holdfast.open(url) as engine:
        (unknown,) = engine.session("s1").recover().unknown_outcomes
        assert "die" in unknown.description
        assert unknown.key is not None
        assert len(unknown.key) == 32
        with pytest.raises(Exception, match="may have taken effect") as caught:
            build(engine, ScriptedModel())(None)
        assert isinstance(caught.value.__cause__ or caught.value, OutcomeUnknown)
        assert RUNS == []
        assert engine.admin.verify().ok


def test_after_a_crash_the_model_can_be_told(folder: Any) -> None:
    url = str(folder / "agent.db")
    kill_in_a_tool(url)
    with holdfast.open(url) as engine:
        model = ScriptedModel("I will look first.")
        build(engine, model, unknown="tell")(None)
        assert RUNS == []
        role, text = texts(model.requests[0])[-1]
        assert role == "user"
        assert "the outcome of this call is unknown" in text
        assert engine.session("s1").open_calls() == ()


def test_after_a_crash_a_tool_may_be_repeated_under_its_key(folder: Any) -> None:
    url = str(folder / "agent.db")
    kill_in_a_tool(url)
    with holdfast.open(url) as engine:
        (unknown,) = engine.session("s1").recover().unknown_outcomes
        model = ScriptedModel("It lives.")
        build(engine, model, repeatable=["die"])(None)
        assert [unknown.key] == RUNS
        assert texts(model.requests[0])[-1] == ("user", "result c2 alive")


def test_after_a_crash_a_new_message_says_what_is_unknown(folder: Any) -> None:
    """Strands would call it an interruption."""
    url = str(folder / "agent.db")
    kill_in_a_tool(url)
    with holdfast.open(url) as engine:
        (unknown,) = engine.session("s1").recover().unknown_outcomes
        model = ScriptedModel("I see.")
        agent = build(engine, model)
        agent("What happened?")
        sent = str(model.requests[0])
        assert str(unknown.key) in sent
        assert "Tool was interrupted" not in sent
        assert str(unknown.key) in str(agent.messages)
        assert RUNS == []


def test_a_tool_that_fails_has_an_error_as_its_outcome(file_engine: holdfast.Engine) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ConnectionError("no route")

    manager = HoldfastSessionManager(file_engine, "s1")
    model = ScriptedModel(use("c1", "fail"), "It failed.")
    Agent(model=model, tools=[fail], session_manager=manager, callback_handler=None)("Try.")
    result = file_engine.session("s1").messages()[2].tool_results[0]
    assert result.is_error
    assert "no route" in str(result.value)


def test_a_hook_may_repeat_and_change_a_result(file_engine: holdfast.Engine) -> None:
    KEYS.clear()
    agent = build(file_engine, ScriptedModel(use("c1", "pay", euros=3), "Done."))

    def change(event: AfterToolCallEvent[Any]) -> None:
        event.retry = len(KEYS) == 1
        event.result["content"] = [{"text": f"attempt {len(KEYS)}"}]

    agent.add_hook(change)
    agent("Pay.")
    assert len(KEYS) == 2
    assert len(set(KEYS)) == 1
    session = file_engine.session("s1")
    assert session.messages()[2].tool_results[0].value == "attempt 2"
    assert session.evidence() == []


def test_a_cancelled_tool_is_not_started(file_engine: holdfast.Engine) -> None:
    KEYS.clear()
    agent = build(file_engine, ScriptedModel(use("c1", "pay", euros=3), "Not allowed."))

    def cancel(event: BeforeToolCallEvent[Any]) -> None:
        event.cancel_tool = "The limit is 2 euros."

    agent.add_hook(cancel)
    agent("Pay.")
    assert KEYS == []
    assert file_engine.session("s1").messages()[2].tool_results[0].value == "The limit is 2 euros."


def test_a_tool_that_waits_for_input_goes_on_in_another_process(engine: holdfast.Engine) -> None:
    @tool(context=True)
    def ask(tool_context: ToolContext) -> str:
        """Ask before paying."""
        call = current_call()
        assert call is not None
        return f"{tool_context.interrupt('approval', reason='pay?')} with {len(call.key)}"

    def build_asking(model: ScriptedModel) -> Agent:
        manager = HoldfastSessionManager(engine, "s1", budget=4_000, pack_options={"time": False})
        return Agent(model=model, tools=[ask], session_manager=manager, callback_handler=None)

    result = build_asking(ScriptedModel(use("c1", "ask")))("Pay.")
    assert result.stop_reason == "interrupt"
    assert result.interrupts is not None
    model = ScriptedModel("Approved.")
    answer = {"interruptResponse": {"interruptId": result.interrupts[0].id, "response": "yes"}}
    build_asking(model)([answer])  # type: ignore[arg-type] # Strands' types lack this input
    assert texts(model.requests[0])[-1] == ("user", "result c1 yes with 32")
    assert engine.session("s1").open_calls() == ()


def test_a_hook_may_ask_before_a_tool_starts(file_engine: holdfast.Engine) -> None:
    KEYS.clear()

    def approve(event: BeforeToolCallEvent[Any]) -> None:
        if event.interrupt("approval", reason="pay?") != "yes":
            event.cancel_tool = "denied"

    first = build(file_engine, ScriptedModel(use("c1", "pay", euros=3)))
    first.add_hook(approve)
    result = first("Pay.")
    assert result.interrupts
    assert file_engine.session("s1").recover().unknown_outcomes == ()
    second = build(file_engine, ScriptedModel("Paid."))
    second.add_hook(approve)
    second([{"interruptResponse": {"interruptId": result.interrupts[0].id, "response": "yes"}}])  # type: ignore[arg-type]
    assert len(KEYS) == 1


def test_parallel_results_are_shown_in_the_order_of_their_calls(file_engine: holdfast.Engine) -> None:
    import time

    @tool
    def wait(ms: int) -> str:
        """Wait.

        Args:
            ms: How long.
        """
        time.sleep(ms / 1_000)
        return f"waited {ms}"

    manager = HoldfastSessionManager(file_engine, "s1", budget=4_000, pack_options={"time": False})
    model = ScriptedModel([use("c1", "wait", ms=120), use("c2", "wait", ms=1)], "Done.", "Again.")
    agent = Agent(model=model, tools=[wait], session_manager=manager, callback_handler=None)
    agent("Wait.")
    agent("Thanks.")
    assert texts(model.requests[-1])[2] == ("user", "result c1 waited 120|result c2 waited 1")
    session = file_engine.session("s1")
    assert [each.role for each in session.messages()] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert session.evidence() == []


def test_after_a_cancelled_run_the_model_is_told_the_results_that_came(file_engine: holdfast.Engine) -> None:
    """Strands has no result of any call of that reply, and would call all of them interrupted."""
    import asyncio

    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(30)
        return "waited"

    def build_waiting(model: ScriptedModel) -> Agent:
        manager = HoldfastSessionManager(file_engine, "s1", budget=4_000, pack_options={"time": False}, unknown="tell")
        return Agent(model=model, tools=[pay, wait], session_manager=manager, callback_handler=None)

    async def cancel() -> None:
        calls = [use("c1", "pay", euros=3), use("c2", "wait")]
        run = asyncio.ensure_future(build_waiting(ScriptedModel(calls)).invoke_async("Pay, then wait."))
        session = file_engine.session("s1")
        while [call.name for call in session.open_calls() if call.attempts] != ["wait"]:  # noqa: ASYNC110 - a thread runs it
            await asyncio.sleep(0.05)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    KEYS.clear()
    asyncio.run(cancel())
    model = ScriptedModel("I see.", "Again.")
    build_waiting(model)("What happened?")
    assert texts(model.requests[0])[-1][1].startswith("result c1 paid 3|result c2 Error: the outcome of this call is")
    assert "Tool was interrupted" not in str(model.requests)
    assert len(KEYS) == 1


def test_a_restart_does_not_repeat_a_call_that_has_its_result(file_engine: holdfast.Engine) -> None:
    from strands.tools.executors import SequentialToolExecutor

    @tool
    def stop() -> str:
        """Stop the process, once."""
        RUNS.append("stop")
        if len(RUNS) == 1:
            raise KeyboardInterrupt
        return "stopped"

    def build_stopping(model: ScriptedModel) -> Agent:
        manager = HoldfastSessionManager(
            file_engine, "s1", budget=4_000, pack_options={"time": False}, repeatable=["stop"]
        )
        executor = SequentialToolExecutor()
        return Agent(
            model=model, tools=[pay, stop], tool_executor=executor, session_manager=manager, callback_handler=None
        )

    KEYS.clear()
    RUNS.clear()
    with pytest.raises(KeyboardInterrupt):
        build_stopping(ScriptedModel([use("c1", "pay", euros=3), use("c2", "stop")]))("Pay, then stop.")
    model = ScriptedModel("Done.")
    build_stopping(model)(None)
    assert texts(model.requests[0])[-1] == ("user", "result c1 paid 3|result c2 stopped")
    assert len(KEYS) == 1
    assert file_engine.session("s1").evidence() == []


def test_after_a_restart_a_call_that_lost_its_result_is_shown_as_recorded(file_engine: holdfast.Engine) -> None:
    """Strands loses a result if a tool raises what is no Exception, and calls it interrupted once it is restored."""

    class LeftError(BaseException):
        """No Exception."""

    @tool
    def leave() -> str:
        """Leave."""
        raise LeftError

    def build_leaving(model: ScriptedModel) -> Agent:
        manager = HoldfastSessionManager(file_engine, "s1", budget=4_000, pack_options={"time": False})
        return Agent(model=model, tools=[leave], session_manager=manager, callback_handler=None)

    agent = build_leaving(ScriptedModel(use("c1", "leave"), "I go on.", "Still here."))
    agent("Leave.")
    agent("Are you there?")
    model = ScriptedModel("I see.")
    build_leaving(model)("What happened?")
    assert "and may have taken effect" in texts(model.requests[0])[2][1]
    assert "Tool was interrupted" not in str(model.requests)


def test_a_tool_that_still_runs_is_not_taken_for_an_interrupted_one(file_engine: holdfast.Engine) -> None:
    import threading

    entered, gate = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        entered.set()
        gate.wait(20)
        return "waited"

    def build_waiting(model: ScriptedModel) -> Agent:
        manager = HoldfastSessionManager(file_engine, "s1", budget=4_000, pack_options={"time": False}, unknown="tell")
        return Agent(model=model, tools=[wait], session_manager=manager, callback_handler=None)

    model = ScriptedModel(use("c1", "wait"), "Done.")
    first = threading.Thread(target=build_waiting(model), args=("Wait.",))
    first.start()
    try:
        assert entered.wait(20)
        with pytest.raises(SessionException, match="runs the tool wait"):
            build_waiting(ScriptedModel("Hm."))("And now?")
        with pytest.raises(Exception, match="runs the tool wait"):
            build_waiting(ScriptedModel("Hm."))(None)
    finally:
        gate.set()
        first.join()
    assert texts(model.requests[-1])[-1] == ("user", "result c1 waited")
    assert [each.role for each in file_engine.session("s1").messages()] == ["user", "assistant", "tool", "assistant"]


def test_a_result_that_comes_after_its_call_was_given_up_is_kept_as_evidence(file_engine: holdfast.Engine) -> None:
    @tool
    def give_up() -> str:
        """Another process answers the call meanwhile."""
        call = current_call()
        assert call is not None
        file_engine.session("s1").result(call.call, "given up", is_error=True)
        return "late"

    manager = HoldfastSessionManager(file_engine, "s1")
    model = ScriptedModel(use("c1", "give_up"), "Done.")
    Agent(model=model, tools=[give_up], session_manager=manager, callback_handler=None)("Go.")
    assert texts(model.requests[-1])[-1] == ("user", "result c1 late")
    assert [each.tool_results[0].value for each in file_engine.session("s1").evidence()] == ["late"]


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ([{"json": {"a": float("nan"), "b": 2**80}}], '{"a":"nan"'),
        ([{"json": {"k\ud800": "x\ud800"}}], '{"k?":"x?"}'),
        ([{"text": f"part {number}"} for number in range(1_500)], "part 0\npart 1\n"),
    ],
)
def test_a_tool_that_ran_has_not_failed_for_the_form_of_its_result(
    file_engine: holdfast.Engine, content: Any, shown: str
) -> None:
    @tool
    def give() -> dict[str, Any]:
        """Give."""
        return {"status": "success", "content": content}

    def build_giving(model: ScriptedModel) -> Agent:
        manager = HoldfastSessionManager(file_engine, "s1", budget=24_000)
        return Agent(model=model, tools=[give], session_manager=manager, callback_handler=None)

    build_giving(ScriptedModel(use("c1", "give"), "Done."))("Go.")
    build_giving(ScriptedModel("Again."))("And?")
    message = file_engine.session("s1").messages()[2]
    assert not message.tool_results[0].is_error
    assert message.text.startswith(shown)


@pytest.mark.parametrize(
    "reply",
    [
        use("c1", "a b\n" + "x" * 300),
        use("c1", "pay", euros=2**80),
        [use(f"c{number}", "nothing") for number in range(300)],
    ],
)
def test_an_odd_reply_does_not_spoil_the_conversation(file_engine: holdfast.Engine, reply: Any) -> None:
    build(file_engine, ScriptedModel(reply, "Done."))("Go.")
    model = ScriptedModel("Again.")
    build(file_engine, model)("And?")
    assert "And?" in str(model.requests[-1])
    uses = [
        block["toolUse"]["toolUseId"] for each in model.requests[-1] for block in each["content"] if "toolUse" in block
    ]
    results = [
        block["toolResult"]["toolUseId"]
        for each in model.requests[-1]
        for block in each["content"]
        if "toolResult" in block
    ]
    assert uses == results
    assert file_engine.admin.verify().ok


def test_a_prompt_of_many_parts_does_not_spoil_the_conversation(file_engine: holdfast.Engine) -> None:
    parts: list[ContentBlock] = [{"text": f"{number}"} for number in range(1_100)]
    build(file_engine, ScriptedModel("Done."))(parts)
    model = ScriptedModel("Again.")
    build(file_engine, model)("And?")
    assert "And?" in str(model.requests[-1])
    assert "\n1099" in file_engine.session("s1").messages()[0].text


def test_a_tool_that_the_program_calls_has_an_intent_beside_the_conversation(engine: holdfast.Engine) -> None:
    KEYS.clear()
    model = ScriptedModel("Done.")
    agent = build(engine, model)
    tries: list[int] = []

    def again(event: AfterToolCallEvent[Any]) -> None:
        tries.append(1)
        event.retry = len(tries) == 1

    agent.add_hook(again, AfterToolCallEvent)
    assert agent.tool.pay(euros=3)["content"] == [{"text": "paid 3"}]
    first, second = KEYS
    assert first == second, "a hook repeats it under the same key"
    assert len(first) == 32
    agent("Did you?")
    assert ("user", "result") in [(role, text.split()[0]) for role, text in texts(model.requests[-1])]
    beside = engine.session("s1", thread="default#tools")
    (run,) = beside.frames.list()
    assert run.status == "completed"
    assert [message.text for message in beside.messages()] == ["", "paid 3"]
    said = engine.session("s1").messages()
    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert engine.admin.verify().ok


def test_a_crash_in_a_tool_that_the_program_called_is_an_unknown_outcome(url: str) -> None:
    kill_in_a_tool(url, "called by the program")
    with holdfast.open(url) as engine:
        agent = build(engine, ScriptedModel("Hello."))
        manager = agent._session_manager
        assert isinstance(manager, HoldfastSessionManager)
        (unknown,) = manager.tool_runs().recover().unknown_outcomes
        assert "die" in unknown.description
        assert not engine.session("s1").recover().unknown_outcomes
        assert agent("Hi.").stop_reason == "end_turn"
        assert engine.admin.verify().ok


def test_a_called_tool_that_fails_or_asks_for_input_has_ended(file_engine: holdfast.Engine) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError("no money")

    @tool(context=True)
    def ask(tool_context: ToolContext) -> str:
        """Ask for input."""
        return str(tool_context.interrupt("sure", reason="?"))

    manager = HoldfastSessionManager(file_engine, "s1", budget=4_000)
    agent = Agent(model=ScriptedModel(), tools=[fail, ask], session_manager=manager, callback_handler=None)
    assert agent.tool.fail(record_direct_tool_call=False)["status"] == "error"
    with pytest.raises(RuntimeError, match="interrupt"):
        agent.tool.ask()
    runs = manager.tool_runs()
    assert not runs.recover().unknown_outcomes
    assert [run.status for run in runs.frames.list()] == ["completed", "completed"]
    assert manager._beside == {}
