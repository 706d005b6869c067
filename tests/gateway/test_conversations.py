"""Conversations of every kind through a gateway with a small window: no provider refuses what leaves it, answers arrive as
they came, and what must not change does not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.gateway.agents import MessagesAgent, read_content
from tests.gateway.loops import mark_last, write_script
from tests.gateway.processes import GatewayProcess, GatewayTask, Nursery
from tests.gateway.upstreams import Exchange, FakeProvider

TURNS = 1_000
WINDOW = 9_000
LINES = itertools.count()


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with FakeProvider(write_script(TURNS, thinking=True)) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(
    nursery: Nursery, provider: FakeProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    store: Path = tmp_path_factory.mktemp("gateway") / "gateway.db"
    with GatewayProcess(nursery, GatewayTask(store=str(store), upstream=provider.url, window=WINDOW)) as process:
        yield process


def find_calls(provider: FakeProvider, agent: MessagesAgent) -> list[Exchange]:
    line = agent.sender.headers["x-fake-line"]
    return [call for call in provider.calls if call.line == line]


def check(provider: FakeProvider, agent: MessagesAgent) -> int:
    """Check all that an agent sent and got. Returns how many of its requests were changed."""
    calls = find_calls(provider, agent)
    assert [call.refusal for call in calls if call.refusal] == []
    assert len(calls) == len(agent.sender.sent)
    changed = 0
    for call, sent, got in zip(calls, agent.sender.sent, agent.sender.got, strict=True):
        assert call.answer == got
        if call.body != sent:
            changed += 1
            check_changes(json.loads(sent), call.request)
    return changed


def check_changes(sent: dict[str, Any], left: dict[str, Any]) -> None:
    """What a boundary may not touch is as it was."""
    assert {**sent, "messages": 0, "tools": 0} == {**left, "messages": 0, "tools": 0}
    added = left["tools"][len(sent["tools"]) :]
    assert left["tools"] == sent["tools"] + added
    assert [tool["name"] for tool in added] in ([], ["holdfast_read"])
    last = max((at for at, each in enumerate(sent["messages"]) if each["role"] == "assistant"), default=0)
    tail = sent["messages"][last:]
    assert left["messages"][-len(tail) :] == tail, "the last reply and all behind it"
    assert find_systems(sent) == find_systems(left)
    original = {json.dumps(block) for message in sent["messages"] for block in iterate(message)}
    for message in left["messages"]:
        for block in iterate(message):
            if block["type"] not in ("text", "tool_result"):
                assert json.dumps(block) in original, "only texts and results are replaced"


def find_systems(request: dict[str, Any]) -> list[Any]:
    return [message for message in request["messages"] if message["role"] == "system"]


def iterate(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def new_line() -> str:
    return f"line-{next(LINES)}"


@pytest.mark.parametrize("ttls", [("1h", "5m"), ("1h", "1h"), ("5m", "5m")])
def test_a_mark_of_the_gateway_keeps_the_order_of_the_clients_marks(
    provider: FakeProvider, gateway: GatewayProcess, ttls: tuple[str, str]
) -> None:
    """The client marks its last two messages; an hour may not come behind five minutes."""
    agent = MessagesAgent(gateway.url, new_line(), thinking="adaptive")
    agent.marks = False
    for block in agent.request["system"]:
        block["cache_control"] = {"type": "ephemeral", "ttl": ttls[0]}
    for _ in range(12):
        kept = agent.messages
        users = [at for at, message in enumerate(kept) if message["role"] == "user"][-2:]
        agent.messages = [
            mark_last([message], ttls[number])[0] if (number := find(users, at)) is not None else message
            for at, message in enumerate(kept)
        ]
        status, data = agent.call()
        assert status == 200
        agent.messages = kept
        agent.take(read_content(data))
    assert check(provider, agent) > 0
    agent.close()


def find(numbers: list[int], wanted: int) -> int | None:
    """The place of a number from the end of two."""
    return numbers.index(wanted) + 2 - len(numbers) if wanted in numbers else None


MOVES = (
    ["step"] * 8
    + ["retry", "fork", "edit", "remind", "remind again", "compact", "string", "indent", "stream", "no marks"]
    + [f"results {kind}" for kind in ("reverse", "error", "list", "image", "empty", "text")]
)


def move(agent: MessagesAgent, name: str, number: int) -> None:
    kind, _, how = name.partition(" ")
    is_open = agent.messages[-1]["role"] == "system"
    match kind:
        case "step":
            agent.step()
        case "retry":
            body = agent.spell()
            assert agent.call(body)[0] == agent.call(body)[0] == 200
        case "fork":
            agent.fork(number)
        case "edit" if not is_open and len(agent.messages) > 2:
            agent.edit_reply()
        case "remind" if len(agent.messages) > 1:
            if is_open and how:
                agent.messages.pop()
            agent.remind(f"Reminder {number}: be brief." * (1 + number % 40))
        case "results" if not is_open:
            agent.edit_results(how)
        case "compact":
            agent.compact()
        case "indent":
            agent.indent = 1 if agent.indent is None else None
        case "stream":
            agent.is_stream = not agent.is_stream
        case "no":
            agent.marks = not agent.marks


@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to make a failure smaller would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(["", "enabled", "adaptive"]),
    st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 50)), min_size=10, max_size=40),
    st.booleans(),
)
def test_any_conversation_goes_through(
    provider: FakeProvider, gateway: GatewayProcess, thinking: str, moves: list[tuple[str, int]], has_id: bool
) -> None:
    line = new_line()
    agent = MessagesAgent(
        gateway.url, line, thinking=thinking, **({"x-claude-code-session-id": line} if has_id else {})
    )
    try:
        for name, number in moves:
            move(agent, name, number)
        agent.step()
        check(provider, agent)
    finally:
        agent.close()
