"""The conversation that packs are built of, the same for everybody. Standard library only.

All but its last turns are folded at boundaries on the way. Those last turns are always alike, so that what is in view is
the same however much lies behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.agents import workload
from benchmarks.agents.workload import Turn

BUDGET = 8_000


LEVEL = (44, 45, 46, 48)
"""The turns that the last ones are like: about 4,600 tokens, so that a summary and some facts fit as well."""


LARGE = 47
"""One of about 5,000 tokens."""


PROMPT = (
    "You run the orders desk of a wholesaler. Look things up before you answer, say where you found them, and never "
    "promise a date that no shipment confirms. Amounts are in euros. Ask before you cancel anything."
)


QUESTION = "Where do we ship the order that was late last week, and who has to be told?"


ANSWER = (
    "It goes to the second warehouse in Hamburg, since the first one is full until Thursday. The carrier has confirmed the "
    "new address; the customer was told yesterday, and the billing desk still has to be."
)


def turns_in_view(number: int) -> list[Turn]:
    """The turns that stand in view when a pack is measured, numbered from here on."""
    return [workload.turn(number + at, like) for at, like in enumerate(LEVEL)]


def short(number: int) -> list[Turn]:
    """The same without the longest."""
    return [workload.turn(number + at, like) for at, like in enumerate(LEVEL[1:])]


def turns_before(messages: int) -> Iterator[Turn]:
    """What lies before them, so that all together are about so many messages."""
    count = sum(map(len, turns_in_view(0)))
    for turn in workload.turns():
        count += len(turn)
        if count > messages:
            return
        yield turn


def history(messages: int) -> Iterator[Turn]:
    number = 0
    for turn in turns_before(messages):
        number = turn.number + 1
        yield turn
    yield from turns_in_view(number)
