"""Tools of the Agent Framework run under intents: crashes, failures, approvals."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, Content, Message, tool

import holdfast
from holdfast.agent_framework import HoldfastHistoryProvider, current_call
from holdfast.errors import OutcomeUnknown
from tests.docs.pages import ROOT
from tests.frameworks.agent_framework.scripted import ScriptedClient, call, texts, wait
from tests.frameworks.agent_framework.tools import pay


def kill_in_a_tool(url: str) -> None:
    """Let a process die in the middle of a tool."""
    command = [sys.executable, "-m", "tests.frameworks.agent_framework.crashing", url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def build(engine: holdfast.Engine, client: ScriptedClient, **options: Any) -> Agent[Any]:
    provider = HoldfastHistoryProvider(engine, **{"budget": 4_000, "pack_options": {"time": False}, **options})
    return Agent(client=client, tools=[pay], context_providers=[provider])


def run(agent: Agent[Any], text: Any) -> Any:
    return wait(agent.run(text, session=AgentSession(session_id="s1")))


def test_a_crash_in_a_tool_is_an_unknown_outcome(url: str) -> None:
    kill_in_a_tool(url)
    with holdfast.open(url) as engine:
        session = engine.session("s1")
        (unknown,) = session.recover().unknown_outcomes
        assert "die" in unknown.description
        assert unknown.key is not None
        with pytest.raises(OutcomeUnknown, match=unknown.key):
            run(build(engine, ScriptedClient()), "What happened?")
        session.result(str(unknown.call), "The bank says: not paid.")
        client = ScriptedClient("It was not paid.")
        run(build(engine, client), "What happened?")
        assert texts(client.requests[0])[-2:] == [
            ("tool", "result c2 The bank says: not paid."),
            ("user", "What happened?"),
        ]
        assert engine.admin.verify().ok


@pytest.mark.parametrize("budget", [4_000, None])
def test_after_a_crash_the_model_can_be_told(folder: Path, budget: int | None) -> None:
    """What the crashed run did is in the history, with a pack and without."""
    url = str(folder / "agent.db")
    kill_in_a_tool(url)
    with holdfast.open(url) as engine:
        client = ScriptedClient("I will look first.")
        run(build(engine, client, unknown="tell", budget=budget), "What happened?")
        shown = texts(client.requests[0])
        assert shown[:4] == [
            ("user", "Pay, then stop."),
            ("assistant", "call c1 pay"),
            ("tool", "result c1 paid 3"),
            ("assistant", "call c2 die"),
        ]
        assert "the outcome of this call is unknown" in shown[4][1]
        assert shown[5] == ("user", "What happened?")
        assert engine.session("s1").open_calls() == ()


def test_a_tool_that_fails_has_an_error_as_its_outcome(file_engine: holdfast.Engine) -> None:
    @tool(approval_mode="never_require")
    def fail() -> str:
        """Fail."""
        raise ConnectionError("no route")

    provider = HoldfastHistoryProvider(file_engine, budget=4_000)
    client = ScriptedClient(call("c1", "fail"), "It failed.")
    run(Agent(client=client, tools=[fail], context_providers=[provider]), "Try.")
    result = file_engine.session("s1").messages()[2].tool_results[0]
    assert result.is_error
    assert "no route" in str(result.value)


@pytest.mark.parametrize("budget", [4_000, None])
def test_a_call_that_waits_for_approval_runs_in_another_process(engine: holdfast.Engine, budget: int | None) -> None:
    paid: list[str] = []

    @tool(approval_mode="always_require")
    def transfer(euros: int) -> str:
        """Transfer money."""
        running = current_call()
        assert running is not None
        paid.append(running.key)
        return f"transferred {euros}"

    def build_asking(client: ScriptedClient) -> Agent[Any]:
        provider = HoldfastHistoryProvider(engine, budget=budget, pack_options={"time": False})
        return Agent(client=client, tools=[transfer], context_providers=[provider])

    client = ScriptedClient(call("c1", "transfer", euros=3), "It is transferred.")
    session = AgentSession(session_id="s1")
    response = wait(build_asking(client).run("Transfer 3.", session=session))
    (request,) = response.user_input_requests
    assert paid == []
    assert engine.session("s1").recover().unknown_outcomes == ()
    answer = Message("user", [request.to_function_approval_response(approved=True)])
    restored = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
    wait(build_asking(client).run(answer, session=restored))
    assert len(paid) == 1
    assert texts(client.requests[-1])[:3] == [
        ("user", "Transfer 3."),
        ("assistant", "call c1 transfer"),
        ("tool", "result c1 transferred 3"),
    ]
    assert engine.session("s1").open_calls() == ()


@pytest.mark.parametrize("budget", [4_000, None])
def test_a_call_may_have_the_id_of_an_earlier_one(engine: holdfast.Engine, budget: int | None) -> None:
    """Some providers name calls after their tool. After a restart, the result of the first is not that of the second."""
    paid: list[int] = []

    @tool(approval_mode="always_require")
    def transfer(euros: int) -> str:
        """Transfer money."""
        assert current_call() is not None
        paid.append(euros)
        return f"transferred {euros}"

    def build_asking(client: ScriptedClient) -> Agent[Any]:
        provider = HoldfastHistoryProvider(engine, budget=budget, pack_options={"time": False})
        return Agent(client=client, tools=[transfer], context_providers=[provider])

    session = AgentSession(session_id="s1")
    expected: list[tuple[str, str]] = []
    for euros in (3, 5, 7):
        client = ScriptedClient(call("transfer", "transfer", euros=euros), "Done.")
        response = wait(build_asking(client).run(f"Transfer {euros}.", session=session))
        (request,) = response.user_input_requests
        session = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
        answer = Message("user", [request.to_function_approval_response(approved=True)])
        wait(build_asking(client).run(answer, session=session))
        expected += [
            ("user", f"Transfer {euros}."),
            ("assistant", "call transfer transfer"),
            ("tool", f"result transfer transferred {euros}"),
        ]
        assert texts(client.requests[-1]) == expected
        expected.append(("assistant", "Done."))
    assert paid == [3, 5, 7]
    assert [each.text for each in engine.session("s1").messages() if each.role == "tool"] == [
        f"transferred {euros}" for euros in paid
    ]
    listed = wait(HoldfastHistoryProvider(engine).get_messages("s1"))
    assert [each for each in texts(listed) if each[0] == "tool"] == [each for each in expected if each[0] == "tool"]


@pytest.mark.parametrize("budget", [4_000, None])
def test_a_lost_result_is_not_that_of_an_earlier_call_with_its_id(
    file_engine: holdfast.Engine, budget: int | None
) -> None:
    """The process stops before the second result: the model is told so, and not the first one again."""
    client = ScriptedClient(call("pay", "pay", euros=3), "Paid.", call("pay", "pay", euros=5))
    agent = build(file_engine, client, budget=budget)
    run(agent, "Pay 3.")

    class Stop(BaseException):
        pass

    def stop(*_: Any, **__: Any) -> None:
        raise Stop

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(holdfast.Session, "start_call", stop)
        with pytest.raises(Stop):
            run(agent, "Pay 5.")
    client = ScriptedClient("Shall I pay 5?")
    run(build(file_engine, client, budget=budget), "Hello?")
    results = [text for role, text in texts(client.requests[0]) if role == "tool"]
    assert results[0] == "result pay paid 3"
    assert results[1].startswith("result pay ")
    assert "paid 3" not in results[1]


def test_parallel_results_are_shown_in_the_order_of_their_calls(file_engine: holdfast.Engine) -> None:
    @tool(approval_mode="never_require")
    async def rest(ms: int) -> str:
        """Wait."""
        await asyncio.sleep(ms / 1_000)
        return f"waited {ms}"

    provider = HoldfastHistoryProvider(file_engine, budget=4_000, pack_options={"time": False})
    client = ScriptedClient([call("c1", "rest", ms=120), call("c2", "rest", ms=1)], "Done.", "Again.")
    agent = Agent(client=client, tools=[rest], context_providers=[provider])
    run(agent, "Wait.")
    run(agent, "Thanks.")
    assert texts(client.requests[-1])[2] == ("tool", "result c1 waited 120|result c2 waited 1")
    assert file_engine.session("s1").evidence() == []
    assert len(file_engine.session("s1").messages()) == 7


def test_a_result_with_an_image_comes_back(file_engine: holdfast.Engine) -> None:
    image = Content.from_data(b"\x89PNG\r\n\x1a\n" + b"\x00" * 20, "image/png")

    @tool(approval_mode="never_require")
    def draw() -> list[Content]:
        """Draw."""
        return [Content.from_text("a square"), image]

    provider = HoldfastHistoryProvider(file_engine, budget=8_000, pack_options={"time": False})
    client = ScriptedClient(call("c1", "draw"), "Nice.", "Yes.")
    agent = Agent(client=client, tools=[draw], context_providers=[provider])
    run(agent, "Draw.")
    run(agent, "Really?")
    (result,) = client.requests[-1][2].contents
    assert result.items is not None
    assert [each.type for each in result.items] == ["text", "data"]
    assert result.items[1].uri == image.uri
