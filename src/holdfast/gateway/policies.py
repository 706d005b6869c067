"""The two policies of the gateway, as figures of those that every session has.

An agent's request shows everything; the gateway has no budget to fill, and shortens only where that saves money. Results
that later ones made outdated leave first, then old results are shortened in place to their lines with names; both as soon
as that pays. On a cold cache nothing is written twice, so the oldest messages may be folded then; with the faithful policy
only if shorter results are not enough.
"""

from __future__ import annotations

from holdfast.errors import InvalidArgument, describe_value
from holdfast.gateway.options import PolicyChoice
from holdfast.model.history.plans import Faithful, Frugal, PlanPolicy
from holdfast.model.history.prices import Prices

FAITHFUL = Faithful(recent=6, result_share=0.35, payback_share=0.25)
FRUGAL = Frugal(recent=4, result_share=0.20, payback_share=0.30, tail_share=0.06)
PLAN_WINDOW = 200_000
"""The shares of the policies are of so many tokens, or of the model's window if that is smaller."""
LEAST_WINDOW = 8_000
"""A plan is made for no fewer tokens, whatever stands before the conversation, unless less is configured."""
GROWTH_STEP = 1_500
"""A conversation is planned again after it grew by so many tokens, or by a small part of its window."""


def choose_policy(name: PolicyChoice) -> PlanPolicy:
    """The figures of a policy by its name."""
    if name == "faithful":
        return FAITHFUL
    if name == "frugal":
        return FRUGAL
    raise InvalidArgument(argument="policy", reason=f"pass 'faithful' or 'frugal', not {describe_value(name)}")


def plan_window(prices: Prices, max_output: int = 0, head_tokens: int = 0, configured: int | None = None) -> int:
    """The tokens that a conversation may have, for `plan(window=…)`: the model's window without its reply, and no more
    than is configured (PLAN_WINDOW without that), minus what the client sends before the conversation."""
    room = prices.window - min(max_output or prices.max_output, prices.window // 2)
    most = min(room, configured or PLAN_WINDOW)
    return max(min(LEAST_WINDOW, most), most - head_tokens)
