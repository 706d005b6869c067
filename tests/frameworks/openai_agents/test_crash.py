"""Processes that are killed, and processes that share a session."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from agents.testing import ModelStep

import holdfast
from agents import Agent, Runner, UserError, function_tool
from holdfast.errors import OutcomeUnknown
from holdfast.openai_agents import BoundSession, bind
from holdfast.openai_agents.item_log import ItemLog
from tests.frameworks.openai_agents.crash_worker import SESSIONS
from tests.frameworks.openai_agents.support import call, run, say, script, sdk, texts, think, user, without_tail

WORKER = "tests.frameworks.openai_agents.crash_worker"


def start(url: str, folder: Path, mode: str, number: int = 0) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", WORKER, url, str(folder), mode, str(number)])


def kill_in_tools(url: str, folder: Path) -> None:
    process = start(url, folder, "die")
    deadline = time.monotonic() + 60
    while sum((folder / f"in_tool-{name}").exists() for name in SESSIONS) < len(SESSIONS):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()


def ask(agent: Agent[Any], text: str, hf: BoundSession, *, streamed: bool = False) -> Any:
    config = hf.config(tracing_disabled=True)
    if streamed:
        return run(stream(agent, text, hf))
    return run(cast("Any", Runner.run(agent, text, session=hf.session, hooks=hf.hooks, run_config=config)))


async def stream(agent: Agent[Any], text: str, hf: BoundSession) -> None:
    config = hf.config(tracing_disabled=True)
    result = Runner.run_streamed(agent, text, session=hf.session, hooks=hf.hooks, run_config=config)
    async for _ in result.stream_events():
        pass


@function_tool
def pay(euros: int) -> str:
    """Pay."""
    raise AssertionError("a second payment")


def test_killed_tools_are_reported_with_their_keys_and_not_repeated(url: str, folder: Path) -> None:
    """One process is killed in the middle of four runs; what comes next differs."""
    kill_in_tools(url, folder)
    ledger = (folder / "paid").read_text()
    keys = dict(line.split() for line in ledger.splitlines())
    assert len({*keys.values()}) == len(SESSIONS)

    with holdfast.open(url) as engine:
        check_model_is_informed(engine, "awaited", keys["awaited"], streamed=False)
        check_model_is_informed(engine, "streamed", keys["streamed"], streamed=True)
        check_program_can_find_out_first(engine, "raise", keys["raise"])
        check_calls_are_forgotten(engine, "forget")
        assert engine.admin.verify().ok
    assert (folder / "paid").read_text() == ledger


def check_model_is_informed(engine: holdfast.Engine, name: str, key: str, *, streamed: bool) -> None:
    hf = bind(engine, name)
    assert texts(run(hf.session.get_items())) == ["Pay 5 euros."]  # the SDK never saw the call
    (unknown,) = hf.recover().unknown_outcomes
    assert unknown.key == key
    assert "pay" in unknown.description

    model = script([say("I will check.")], [say("Still checking.")])
    agent = Agent(name="desk", model=model, tools=[pay])
    ask(agent, "Did you pay?", hf, streamed=streamed)
    shown = without_tail(model.calls[0].input)
    kinds = [item.get("type", item.get("role")) for item in shown]
    assert kinds == ["user", "function_call", "function_call_output", "user"]
    assert shown[1]["arguments"] == '{"euros": 5}'
    assert shown[1]["call_id"] == shown[2]["call_id"] == "c1"
    assert key in shown[2]["output"]
    assert "may have taken effect" in shown[2]["output"]
    ask(agent, "And now?", hf, streamed=streamed)
    assert without_tail(model.calls[1].input) == run(hf.session.get_items())[:-1]
    assert without_tail(model.calls[1].input)[: len(shown)] == shown
    roles = [each.role for each in engine.session(name).messages()]
    assert roles == ["user", "assistant", "tool", "user", "assistant", "user", "assistant"]


def check_program_can_find_out_first(engine: holdfast.Engine, name: str, key: str) -> None:
    hf = bind(engine, name, abandoned="raise")
    model = script([say("You have paid.")])
    agent = Agent(name="desk", model=model, tools=[pay])
    with pytest.raises(OutcomeUnknown) as caught:
        ask(agent, "Did you pay?", hf)
    assert caught.value.key == key
    assert texts(run(hf.session.get_items())) == ["Pay 5 euros."]  # nothing was stored
    (unknown,) = hf.recover().unknown_outcomes
    assert unknown.call is not None
    hf.holdfast.result(unknown.call, "paid 5")
    ask(agent, "Did you pay?", hf)
    assert texts(without_tail(model.calls[0].input)) == ["Pay 5 euros.", '{"euros": 5}', "paid 5", "Did you pay?"]


def check_calls_are_forgotten(engine: holdfast.Engine, name: str) -> None:
    hf = bind(engine, name, abandoned="forget")
    model = script([say("Hello.")])
    ask(Agent(name="desk", model=model, tools=[pay]), "Hi.", hf)

    assert texts(without_tail(model.calls[0].input)) == ["Pay 5 euros.", "Hi."]
    with pytest.raises(holdfast.errors.InvalidArgument):
        bind(engine, name, abandoned=cast("Any", "ignore"))


class PowerFailure(BaseException):
    """Stands for the end of a process."""


@function_tool
def die(euros: int) -> str:
    """Die."""
    raise PowerFailure


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("turns", [0, 1, 2])
def test_the_same_words_again_after_a_crash(engine: holdfast.Engine, *, streamed: bool, turns: int) -> None:
    """Who asks again says the same: the call of the run that broke off is not overlooked."""
    model = script()
    for number in range(turns):
        model.enqueue(ModelStep(output=[say("Hello.", f"m{number}")]))
    model.enqueue(ModelStep(output=[call("die", "c1", euros=5)]))
    agent = Agent(name="desk", model=model, tools=[die])
    for _ in range(turns):
        ask(agent, "Pay 5 euros.", bind(engine, "order-1"), streamed=streamed)
    with pytest.raises(PowerFailure):
        ask(agent, "Pay 5 euros.", bind(engine, "order-1"), streamed=streamed)

    with pytest.raises(OutcomeUnknown) as caught:
        ask(agent, "Pay 5 euros.", bind(engine, "order-1", abandoned="raise"), streamed=streamed)
    model = script([say("I will check.")], [say("Still checking.")])
    agent = Agent(name="desk", model=model, tools=[die])
    before = [text for _ in range(turns) for text in ("Pay 5 euros.", "Hello.")]
    for number in range(2):
        ask(agent, "Pay 5 euros.", bind(engine, "order-1"), streamed=streamed)
        shown = texts(without_tail(model.calls[number].input))
        assert shown[: len(before) + 2] == [*before, "Pay 5 euros.", '{"euros": 5}']
        assert "outcome of this call is unknown" in shown[len(before) + 2]
        assert caught.value.key in shown[len(before) + 2]
        assert shown[len(before) + 3 :] == ["Pay 5 euros.", "I will check.", "Pay 5 euros."][: 1 + 2 * number]
    assert engine.session("order-1").recover().unknown_outcomes == ()


@function_tool
def quote(euros: int) -> str:
    """Quote."""
    return f"it costs {euros}"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("abandoned", ["tell", "raise", "recorded"])
@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("order", [("fail", "quote"), ("quote", "fail", "quote")])
def test_a_tool_that_raises_beside_others_is_not_forgotten(
    engine: holdfast.Engine, *, streamed: bool, abandoned: str, is_shared: bool, order: tuple[str, ...]
) -> None:
    """The SDK adds the calls that ended, and leaves out the one that raised."""

    @function_tool(failure_error_function=None)
    async def fail(euros: int) -> str:
        """Fail, when the others have ended."""
        deadline = time.monotonic() + 60
        while len(await asyncio.to_thread(engine.session("order-1").open_calls)) > 1:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        raise ValueError("the line is down")

    made = [call(name, f"c{number}", euros=number) for number, name in enumerate(order)]
    model = script()
    model.enqueue(ModelStep(output=[*made]))
    agent = Agent(name="desk", model=model, tools=[fail, quote])
    mode: Any = "raise" if abandoned == "recorded" else "tell"
    hf = bind(engine, "order-1", abandoned=mode)
    with pytest.raises(UserError, match="the line is down"):
        ask(agent, "Pay.", hf, streamed=streamed)
    (unknown,) = hf.recover().unknown_outcomes
    if abandoned != "tell":
        for _ in range(2):
            with pytest.raises(OutcomeUnknown) as caught:
                ask(agent, "And now?", bind(engine, "order-1", abandoned="raise"), streamed=streamed)
            assert caught.value.key == unknown.key
    if abandoned == "recorded":
        assert unknown.call is not None
        hf.holdfast.result(unknown.call, "paid, says the bank")

    model = script([say("I will check.")], [say("Still checking.")])
    agent = Agent(name="desk", model=model, tools=[fail, quote])
    for number in range(2):
        hf = hf if is_shared else bind(engine, "order-1", abandoned=mode)
        ask(agent, "And now?", hf, streamed=streamed)
        sent = without_tail(model.calls[number].input)
        outputs = {item["call_id"]: item["output"] for item in sent if item.get("type") == "function_call_output"}
        assert [item["call_id"] for item in sent if item.get("type") == "function_call"] == [
            each.call_id for each in made
        ]
        for each in made:
            if each.name == "quote":
                assert outputs[each.call_id].startswith("it costs ")
            elif abandoned == "recorded":
                assert outputs[each.call_id] == "paid, says the bank"
            else:
                assert unknown.key in outputs[each.call_id]
    assert hf.recover().unknown_outcomes == ()
    assert engine.admin.verify().ok


@pytest.mark.parametrize(("name", "has_hooks"), [("c2", True), ("c2", False), ("c1", True)])
def test_replies_that_repeat_what_an_adopted_one_says_are_whole(
    file_engine: holdfast.Engine, name: str, *, has_hooks: bool
) -> None:
    """Reasoning often has nothing but its id, and models say the same before each call; some use ids of calls again."""
    said = say("Let me see.", "m1")
    model = script([think("rs_1"), said, call("die", "c1", euros=5)])
    with pytest.raises(PowerFailure):
        ask(Agent(name="desk", model=model, tools=[die]), "Pay 5 euros.", bind(file_engine, "order-1"))
    again = say("Let me see.", "m2")
    model = script([think("rs_2"), again, call("quote", name, euros=6)], [say("It costs 6.", "m3")], [say("6.", "m4")])
    agent = Agent(name="desk", model=model, tools=[quote])
    for text in ("And 6?", "How much?"):
        hf = bind(file_engine, "order-1")
        if has_hooks:
            ask(agent, text, hf)
        else:
            run(cast("Any", Runner.run(agent, text, session=hf.session)))

    items = cast("Any", run(bind(file_engine, "order-1").session.get_items()))
    shown = [item.get("id") or item.get("call_id") or item["content"] for item in items]
    replies = ["rs_2", "m2", f"fc_{name}", name, "m3"]
    assert shown == ["Pay 5 euros.", "rs_1", "m1", "fc_c1", "c1", "And 6?", *replies, "How much?", "m4"]
    if name != "c1":  # the SDK shows a call and a result of each id only once
        sent = [item.get("id") for item in cast("Any", model.calls[-1].input)]
        assert sent[sent.index("rs_2") :][:3] == replies[:3]


def test_two_processes_lose_no_item(url: str, folder: Path) -> None:
    folders = [folder / "aaaa", folder / "bbbb"]
    processes = [start(url, each, "write", 12) for each in folders]
    assert [process.wait(60) for process in processes] == [0, 0]

    with holdfast.open(url) as engine:
        hf = bind(engine, "order-1")
        items = texts(run(hf.session.get_items()))
        for each in folders:
            assert [text for text in items if text.startswith(each.name)] == [f"{each.name} {n}" for n in range(12)]
        model = script([say("Hello.")])
        ask(Agent(name="desk", model=model), "Hi.", hf)
        assert texts(without_tail(model.calls[0].input)) == [*items, "Hi."]
        assert engine.admin.verify().ok


def test_messages_follow_items_that_a_killed_process_added(file_engine: holdfast.Engine) -> None:
    """It was killed between the items and the messages, or between the end of a session and its view."""
    hf = bind(file_engine, "order-1")
    run(hf.session.add_items(sdk([user("a")])))
    lone = bind(file_engine, "order-1").session.conversation
    lone.log.load()
    lone.log.append(lone._group_items([user("b")], []))
    model = script([say("1")], [say("2")])
    agent = Agent(name="desk", model=model)
    ask(agent, "c", hf)
    assert texts(without_tail(model.calls[0].input)) == ["a", "b", "c"]

    log = ItemLog(file_engine.session("order-1"))
    log.clear()
    ask(agent, "d", bind(file_engine, "order-1"))
    assert texts(without_tail(model.calls[1].input)) == ["d"]
    assert file_engine.session("order-1").context.render("text") == "[user]\nd\n\n[assistant]\n2"


def test_the_cost_on_disk_is_linear(file_engine: holdfast.Engine, folder: Path) -> None:
    def size() -> int:
        return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())

    hf = bind(file_engine, "order-1", budget=4_000)
    sizes: list[int] = []
    for _ in range(3):
        for number in range(15):
            model = script([call("look", f"c{number}")], [say(f"Answer {number}: " + "all is well. " * 20)])

            @function_tool
            def look() -> str:
                """Look."""
                return "It is there. " * 40

            ask(Agent(name="desk", model=model, tools=[look]), f"Question {number}? " + "Tell me. " * 20, hf)
        file_engine.admin.verify()
        sizes.append(len(b"".join(event.payload or b"" for event in all_events(file_engine.session("order-1")))))
    first, second, third = sizes[0], sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert second < 1.6 * first
    assert third < 1.3 * second
    assert size() > 0


def all_events(session: holdfast.Session) -> list[Any]:
    events: list[Any] = []
    while page := session.events(after=events[-1].seq if events else 0, limit=500):
        events += page
    return events
