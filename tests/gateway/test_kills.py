"""A gateway that is killed at any point: restarted, it sends the same bytes, and the conversation ends as without it.

Only what a gateway has learned of the provider's count of tokens may be lost with it, so a boundary can come a turn later.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.gateway.agents import MessagesAgent, read_content
from tests.gateway.loops import write_script
from tests.gateway.processes import GatewayProcess, GatewayTask, Nursery
from tests.gateway.upstreams import FakeProvider, Fault

TURNS = 9
WINDOW = 7_000
POINTS = 8
"""The points at which a gateway is killed, of all that it passes."""


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with FakeProvider(write_script(TURNS, thinking=True)) as server:
        yield server


def run(provider: FakeProvider, gateway: GatewayProcess) -> tuple[MessagesAgent, list[set[bytes]]]:
    """A conversation whose client sends a request again until it has an answer, and what left in each turn."""
    provider.exchanges.clear()
    agent = MessagesAgent(gateway.url, "line", thinking="enabled", **{"x-claude-code-session-id": "kill"})
    agent.is_stream = True
    try:
        while agent.turn < TURNS:
            try:
                status, data = agent.call()
                assert status == 200, data
                agent.take(read_content(data))
            except (OSError, HTTPException, ValueError):
                gateway.wait()
                gateway.start()
    finally:
        agent.close()
    assert provider.refusals == []
    return agent, [{call.body for call in provider.calls if call.turn == turn} for turn in range(TURNS)]


def find_boundary(agent: MessagesAgent, left: list[set[bytes]]) -> int:
    """The first turn whose request was changed."""
    pairs = zip(agent.sender.sent, left, strict=True)
    return next(turn for turn, (sent, bodies) in enumerate(pairs) if sent not in bodies)


def check_cache(provider: FakeProvider, boundaries: int = 3) -> None:
    """All but a few calls read from the cache what the one before had written."""
    usages = [call.usage for call in provider.calls if call.is_whole]
    misses = 0
    for before, usage in itertools.pairwise(usages):
        known = before["cache_read_input_tokens"] + before["cache_creation_input_tokens"]
        misses += usage["cache_read_input_tokens"] < known
    assert misses <= boundaries


def test_a_killed_gateway_sends_the_same_bytes(nursery: Nursery, provider: FakeProvider, tmp_path: Path) -> None:
    points = tmp_path / "points"
    task = GatewayTask(store=str(tmp_path / "whole.db"), upstream=provider.url, window=WINDOW, points=str(points))
    with GatewayProcess(nursery, task) as gateway:
        whole, left = run(provider, gateway)
    assert all(len(bodies) == 1 for bodies in left)
    assert sum(sent not in bodies for sent, bodies in zip(whole.sender.sent, left, strict=True)) > 2, "boundaries"
    total = os.stat(points).st_size
    for number in range(POINTS):
        at = 1 + (2 * number + 1) * total // (2 * POINTS)
        task = GatewayTask(store=str(tmp_path / f"{at}.db"), upstream=provider.url, window=WINDOW, die_at=at)
        with GatewayProcess(nursery, task) as gateway:
            task.die_at = 0
            agent, bodies = run(provider, gateway)
            assert agent.messages == whole.messages
            assert [len(each) for each in bodies] == [1] * TURNS, f"killed at point {at} of {total}"
            first = min(
                find_boundary(whole, left), find_boundary(agent, bodies)
            )  # it may be in time for the next request
            assert bodies[:first] == left[:first]
            check_cache(provider)


@pytest.mark.parametrize("fault", [Fault(stall=60), Fault(stall=60, stall_at=300)])
def test_a_gateway_that_is_killed_in_an_answer_sends_the_same_request_again(
    nursery: Nursery, provider: FakeProvider, tmp_path: Path, fault: Fault
) -> None:
    provider.exchanges.clear()
    task = GatewayTask(store=str(tmp_path / "gateway.db"), upstream=provider.url, window=WINDOW)
    with GatewayProcess(nursery, task) as gateway:
        agent = MessagesAgent(gateway.url, "stalled", thinking="enabled")
        agent.is_stream = True
        for _ in range(7):
            agent.step()

        def kill() -> None:
            provider.stalled.wait(60)
            gateway.end()

        provider.faults.append(fault)
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises((OSError, HTTPException)):
            agent.call()
        killer.join()
        provider.resume()
        gateway.start()
        agent.step()
        agent.close()
    first, second = provider.calls[-2:]
    assert first.turn == second.turn == 7
    assert first.body == second.body != agent.sender.sent[-1]
    assert provider.refusals == []


def test_lives_follow_each_other(nursery: Nursery, provider: FakeProvider, tmp_path: Path) -> None:
    """A gateway with a life for each turn sends what one gateway sends."""
    sent = []
    for lives in (1, TURNS):
        provider.exchanges.clear()
        task = GatewayTask(store=str(tmp_path / f"{lives}.db"), upstream=provider.url, window=WINDOW)
        with GatewayProcess(nursery, task) as gateway:
            agent = MessagesAgent(gateway.url, "lives", thinking="enabled")
            for turn in itertools.count():
                if turn == TURNS:
                    break
                if turn and lives > 1:
                    gateway.restart()
                    agent.close()
                agent.step()
            agent.close()
        sent.append([call.body for call in provider.calls])
        assert agent.turn == TURNS
        check_cache(provider)
    assert provider.refusals == []
    assert sent[0][:4] == sent[1][:4]
