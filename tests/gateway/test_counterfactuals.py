"""What calls would have cost without the gateway, against two caches that are sent what the client wrote and what left."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from holdfast.gateway.model import PreparedRequest
from holdfast.gateway.options import DeskOptions
from holdfast.gateway.statistics import read_calls, sum_calls
from holdfast.model.history.bills import CallBill
from holdfast.model.history.prices import find_prices
from tests.gateway.clients import MessagesClient
from tests.gateway.harness import Harness
from tests.gateway.upstreams.caches import CacheUse, MarkCache
from tests.gateway.upstreams.prompts import PromptReader

OUTPUT = 9
MODELS = ("claude-sonnet-4-5", "claude-sonnet-4-6")
"""They have the same prices."""
PRICES = find_prices(MODELS[0])
COURSES = ("take", "edit", "retry", "rewind", "switch", "compact", "restart", "fall", "lose", "fail", "cut", "late")


class WordyClient(MessagesClient):
    """A client whose messages are so long that a provider caches them."""

    model = MODELS[0]

    def build_plain_request(self) -> dict[str, Any]:
        return {**super().build_plain_request(), "model": self.model}

    def text(self, words: int = 60) -> str:
        return super().text(6 * words)


class Bills(Harness):
    """Prices each request twice: as the client wrote it, and as it left."""

    client: WordyClient

    def __init__(self, seed: int, window: int | None = 30_000) -> None:
        super().__init__(seed, DeskOptions(window=window), kind=WordyClient)
        self._reader = PromptReader()
        self._plain_cache, self._cache = MarkCache(), MarkCache()
        self._uses: dict[int, tuple[int, CacheUse, CacheUse]] = {}
        self._failing = False
        self.plain_cost = 0
        self.cost = 0

    def exchange(self, name: str) -> None:
        self._failing = name == "fail"
        super().exchange(name)

    def check(self, prepared: PreparedRequest) -> None:
        """The laws have their own tests."""
        if not self._failing:
            self.use(prepared)

    def use(self, prepared: PreparedRequest) -> None:
        plain, sent = (
            cache.use(self.client.model, self._reader.read_message(json.loads(body)), 0.0)
            for cache, body in ((self._plain_cache, prepared.arrival.body), (self._cache, prepared.body))
        )
        self._uses[id(prepared)] = self.engine._context.clock.now_us(), plain, sent

    def settle(self, prepared: PreparedRequest, reply: dict[str, Any] | None, **fields: Any) -> None:
        if reply is not None:
            if id(prepared) not in self._uses:
                self.use(prepared)
            fields["sent_us"], plain, sent = self._uses.pop(id(prepared))
            reply["usage"] = {
                "input_tokens": sent.fresh,
                "cache_read_input_tokens": sent.read,
                "cache_creation_input_tokens": sent.write_5m,
                "output_tokens": OUTPUT,
            }
            self.plain_cost += price(plain)
            self.cost += price(sent)
        super().settle(prepared, reply, **fields)


def price(use: CacheUse) -> int:
    assert PRICES is not None
    return CallBill(use.read, use.write_5m, use.write_1h, use.fresh, OUTPUT).price(PRICES)


@pytest.mark.parametrize("course", COURSES)
def test_whatever_a_client_does_the_stated_cost_without_the_gateway_is_near_the_truth(course: str) -> None:
    bills, chance = Bills(3), random.Random(3)
    for _ in range(45):
        bills.step(course if chance.random() < 0.15 else "take")
    totals = sum_calls(call.figures for call in read_calls(bills.engine))
    assert totals.boundaries
    assert totals.cost == pytest.approx(bills.cost)
    lowest = 0.96 if course == "late" else 0.98
    assert lowest <= totals.plain_cost / bills.plain_cost <= 1.02


@pytest.mark.parametrize("calls", [1, 2, 9])
def test_a_provider_keeps_the_prompt_of_each_model(calls: int) -> None:
    """A client takes another model for some calls, and goes back; the gateway is restarted now and then."""
    bills = Bills(3)
    for number in range(45):
        bills.client.model = MODELS[number // calls % 2]
        bills.step("take")
        if number % 10 == 9:
            bills.step("restart")
    totals = sum_calls(call.figures for call in read_calls(bills.engine))
    assert totals.boundaries
    assert totals.cost == pytest.approx(bills.cost)
    assert totals.plain_cost == pytest.approx(bills.plain_cost, rel=0.02)
    assert totals.cost < 0.9 * totals.plain_cost


def test_no_boundary_breaks_the_prompts_of_several_models() -> None:
    bills = Bills(3, window=None)
    for number in range(45):
        bills.client.model = MODELS[number % 2]
        bills.step("take")
    assert bills.cost == bills.plain_cost
    for _ in range(20):  # one of them is out of reach then
        bills.step("take")
    assert bills.cost < bills.plain_cost
