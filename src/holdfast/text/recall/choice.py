"""Which passages a budget has room for.

Laws: the budget is never exceeded. Better passages come first; one that does not fit is skipped, and a smaller one behind
it may still fit. What the assistant and tools said takes at most a quarter, unless the question asks for it. If the best
passage of all is theirs, it may take half: a small budget is not filled with what fits less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.model.memory.passages import Passage
from holdfast.model.names import Scope
from holdfast.text.recall.scores import PassageScore

ASSISTANT_SHARE = 4
"""What the assistant and tools said takes at most one part of so many of the budget."""
BEST_SHARE = 2
"""The best passage of all takes at most one part of so many, whoever said it."""
_TOKEN_CHARS = 12
"""No token of a passage has more characters, on the average."""


def choose_passages(
    ranked: Sequence[PassageScore],
    budget: int,
    cost: Callable[[Passage], int],
    *,
    heading: Callable[[Passage], int] = lambda _: 0,
    asks_assistant: bool = False,
) -> list[PassageScore]:
    """Choose passages, best first.

    `cost` is what a passage takes of the budget, `heading` what the first passage of a session takes in addition."""
    chosen: list[PassageScore] = []
    shown: set[Scope] = set()
    left, assistant_left = budget, budget if asks_assistant else budget // ASSISTANT_SHARE
    for item in ranked:
        passage = item.passage
        if len(passage.text) > left * _TOKEN_CHARS:  # counting is slow, and most of what is left does not fit
            continue
        tokens = cost(passage) + (0 if passage.scope in shown else heading(passage))
        is_user = passage.role == "user" or passage.kind != "message"
        most = max(assistant_left, budget // BEST_SHARE) if item is ranked[0] else assistant_left
        if tokens > left or (not is_user and tokens > most):
            continue
        left -= tokens
        assistant_left -= 0 if is_user else tokens
        shown.add(passage.scope)
        chosen.append(item)
    return chosen
