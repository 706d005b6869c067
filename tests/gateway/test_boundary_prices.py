"""What a boundary makes the provider write again, beside what stands behind its first change: the whole prompt, where it
adds the gateway's tool, and the prompts of other models."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import takewhile
from typing import Any

import pytest

import holdfast
from holdfast.gateway.desk import Desk
from holdfast.gateway.engines import SPOOLING
from holdfast.gateway.model import Arrival, Outcome
from holdfast.gateway.options import DeskOptions, ReadBackChoice
from holdfast.gateway.read_back import READ_TOOL
from tests.gateway.upstreams.bills import build_usage, compute_money, get_prices
from tests.gateway.upstreams.caches import CacheUse
from tests.gateway.upstreams.prompts import PromptBlock, PromptReader
from tests.property.session_model import ManualClock

MODELS = ("claude-sonnet-4-5", "claude-sonnet-4-6")
"""They have the same prices."""
MARK = {"type": "ephemeral"}
SYSTEM = [{"type": "text", "text": "You are careful, and you say what you did. " * 1_600, "cache_control": MARK}]
TOOLS = [{"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}]
HEADERS = (("x-session-id", "3fb2c91e"), ("x-api-key", "secret"))
STEP_US = 10_000_000
ROUND = 10
"""In each round of so many calls, a file is read, and deleted soon after."""


def list_lines(count: int) -> str:
    return "\n".join(f"{at:6}→def handler_{at}(request): return request" for at in range(1, count + 1))


class IdealCache:
    """Has the blocks of each model's last prompt for five minutes, wherever the next one leaves them."""

    def __init__(self) -> None:
        self._prompts: dict[str, tuple[list[PromptBlock], float]] = {}

    def use(self, model: str, blocks: list[PromptBlock], now: float) -> CacheUse:
        before, until = self._prompts.get(model, ([], 0.0))
        before = before if now <= until else []
        pairs = takewhile(lambda pair: pair[0].key == pair[1].key, zip(blocks, before, strict=False))
        read = sum(block.tokens for block, _ in pairs)
        self._prompts[model] = blocks, now + 300
        return CacheUse(0, read, sum(block.tokens for block in blocks) - read)


class Agent:
    """A client of Anthropic behind a desk. Its requests are priced twice: as it wrote them, and as they left."""

    def __init__(self, read_back: ReadBackChoice, large: int = 100) -> None:
        """`large`: the lines of a large file, which is read behind the deletion."""
        self._large = large
        self._clock = ManualClock()
        engine = holdfast.open("memory:", clock=self._clock, spooling=SPOOLING)
        self._desk = Desk(engine, DeskOptions(read_back=read_back))
        self._caches, self._reader = (IdealCache(), IdealCache()), PromptReader()
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Clean up."}]}]
        self.costs = [Fraction(), Fraction()]
        self.ratios: list[Fraction] = []
        self.sent: dict[str, Any] = {}
        self.calls = 0
        self.model = MODELS[0]

    def wait(self, seconds: int) -> None:
        self._clock.us += seconds * 1_000_000

    def step(self) -> None:
        number, self.calls = self.calls, self.calls + 1
        *before, last = self._messages
        *blocks, block = last["content"]
        messages = [*before, {**last, "content": [*blocks, {**block, "cache_control": MARK}]}]
        own: dict[str, Any] = {
            "model": self.model,
            "max_tokens": 8_000,
            "system": SYSTEM,
            "tools": TOOLS,
            "messages": messages,
        }
        prepared = self._desk.prepare(Arrival(dialect="anthropic", headers=HEADERS, body=json.dumps(own).encode()))
        self.sent = json.loads(prepared.body)
        uses = [
            cache.use(self.model, self._reader.read_message(each), self._clock.us / 1_000_000)
            for cache, each in zip(self._caches, (own, self.sent), strict=True)
        ]
        for at, use in enumerate(uses):
            self.costs[at] += compute_money(get_prices(self.model), use, 0)
        self.ratios.append(self.costs[1] / self.costs[0])
        content, result = self._choose(number)
        reply: dict[str, Any] = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [content],
        }
        reply |= {"stop_reason": "tool_use", "usage": build_usage("anthropic", uses[1], 9, 0)}
        sent_us = self._clock.us
        self._clock.us += STEP_US
        self._desk.settle(prepared, Outcome(status=200, reply=reply, sent_us=sent_us, ended_us=self._clock.us))
        answer = {"type": "tool_result", "tool_use_id": content["id"], "content": result}
        self._messages += [{"role": "assistant", "content": [content]}, {"role": "user", "content": [answer]}]

    def _choose(self, number: int) -> tuple[dict[str, Any], str]:
        call: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read"}
        match number % ROUND:
            case 1:
                return {**call, "input": {"file_path": "/src/server.py"}}, list_lines(250)
            case 2:
                return {**call, "name": "delete_file", "input": {"file_path": "/src/server.py"}}, "done"
            case 3:
                return {**call, "input": {"file_path": f"/src/large_{number}.py"}}, list_lines(self._large)
        return {**call, "input": {"file_path": f"/src/small_{number}.py"}}, list_lines(3)


@pytest.mark.parametrize("read_back", ["shell", "tool"])
def test_no_conversation_becomes_much_dearer_on_the_way(read_back: ReadBackChoice) -> None:
    agent = Agent(read_back)
    for _ in range(4 * ROUND):
        agent.step()
    assert max(agent.ratios) < 1.05
    has_boundary = "holdfast read" in json.dumps(agent.sent["messages"])
    assert has_boundary == (read_back == "shell")  # it pays there, without the prompt that is written again
    assert len(agent.sent["tools"]) == len(TOOLS)


def test_the_tool_comes_with_the_first_boundary_on_a_cold_cache() -> None:
    agent = Agent("tool")
    for number in range(4 * ROUND):
        if number == 2 * ROUND:
            agent.wait(1_000)
        agent.step()
        assert (agent.sent["tools"][-1]["name"] == READ_TOOL) == (number >= 2 * ROUND)
    assert max(agent.ratios) == 1
    assert agent.ratios[-1] < 0.95


def test_one_call_of_another_model_breaks_no_prompt() -> None:
    """Its cache is empty, so that a boundary would cost nothing there; but the client goes back to the first model."""
    agent = Agent("shell", large=900)
    for number in range(ROUND):
        agent.model = MODELS[number == 6]
        agent.step()
    assert max(agent.ratios) == 1
