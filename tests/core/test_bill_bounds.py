"""What a conversation costs with the boundaries of a gateway's policy, against sending everything, call by call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.history.draft import RISK
from holdfast.core.history.planner import build_plan
from holdfast.gateway.policies import FAITHFUL, FRUGAL
from holdfast.model.content import Text, ToolResult
from holdfast.model.history.plans import PlanPolicy
from holdfast.model.history.prices import Prices
from holdfast.model.history.views import HistoryItem
from tests.core.plan_inputs import PRICES, SECOND_US, GrowingConversation, plan_tools, show_items

LINE = "the function parse_row_{0} is called where the table table_{0} is read, in src/tables/table_{0}.py\n"


class Work(NamedTuple):
    """A call with its result, and what comes before it."""

    lines: int
    gap_s: int
    asks: bool


WORK = st.builds(Work, st.sampled_from([1, 40, 200]), st.sampled_from([5] * 30 + [600]), st.integers(0, 9).map(bool))
HEADS = st.sampled_from([0, 2_000, 17_500])
RATES = st.sampled_from([PRICES, replace(PRICES, cache_write=3_000_000), replace(PRICES, cache_write=6_000_000)])


class Cache:
    """A provider that reads what a prompt has in common with the last one, and writes the rest."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._last: Sequence[HistoryItem] | None = None
        self.cost = 0

    def send(self, head: int, items: Sequence[HistoryItem], *, is_warm: bool) -> None:
        common = 0
        if self._last is not None and is_warm:
            while common < len(self._last) and items[common] == self._last[common]:
                common += 1
        read = sum(item.tokens for item in items[:common]) + (head if self._last is not None and is_warm else 0)
        total = head + sum(item.tokens for item in items)
        self.cost += self._prices.cache_read * read + self._prices.cache_write * (total - read)
        self._last = items


@given(st.lists(WORK, min_size=30, max_size=70), HEADS, RATES, st.sampled_from([FAITHFUL, FRUGAL]))
def test_a_conversation_that_fits_costs_hardly_more_wherever_it_ends(
    works: list[Work], head: int, prices: Prices, policy: PlanPolicy
) -> None:
    talk, plain = GrowingConversation(), GrowingConversation()
    for each in (talk, plain):
        each.say("user", Text("Look at the tables."))
    sent, whole = Cache(prices), Cache(prices)
    replied_us = 0
    for number, work in enumerate(works):
        is_warm = talk.now_us - replied_us <= prices.ttl_s * SECOND_US
        ground = talk.ground(1_000_000, prices, system=head)
        plan = build_plan(ground, policy, plan_tools())
        if not plan.empty:
            event(f"{policy.name}: {plan.why}, {'cold' if not is_warm else 'warm'}")
            talk.change(ground, plan)
        sent.send(head, show_items(talk.ground(1_000_000, prices)), is_warm=is_warm)
        whole.send(head, show_items(plain.ground(1_000_000, prices)), is_warm=is_warm)
        assert sent.cost <= whole.cost * (1 + RISK[0] / RISK[1])
        replied_us = talk.now_us
        text = "".join(LINE.format(number * 1_000 + at) for at in range(work.lines))
        for each in (talk, plain):
            each.now_us = replied_us
            if not work.asks and number:
                each.say("assistant", Text("It is done."))
                each.now_us += work.gap_s * SECOND_US
                each.say("user", Text("Go on."))
            else:
                reply = each.say("assistant", Text("I look."), calls=1)
                each.now_us += work.gap_s * SECOND_US
                each.say("tool", results=[ToolResult(reply.tool_calls[0].id, (Text(text),))])
