"""The work of every agent: a desk that answers one customer for hundreds of turns, while the customer moves now and then.

Each turn is a question, a call of a tool, its result and a reply. Every so often the customer gives a new address; the ones
before are superseded. A model that is shown one of them may send a parcel there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.adapters.tokens import EstimatingCounter

SYSTEM = "You are the order desk of a shop. Look orders up before you answer, and name the address that they go to."
USER = "ada"
SESSION = "desk-1"
KEY = "shipping_address"
BUDGET = 24_000
ADDRESSES = (
    *("14 Birch Lane", "9 Cedar Court", "230 Harbour Street", "77 Mill Road", "5 Orchard Close", "18 Station Parade"),
    *(
        "61 Quarry Hill",
        "402 Lakeside Drive",
        "33 Abbey Gardens",
        "120 Foundry Walk",
        "8 Heather Rise",
        "95 Castle View",
    ),
)
MOVES_EVERY = 25
"""Turns between two moves."""
DETAIL = "The parcel has been packed, weighed and labelled, and waits for the courier of the afternoon. "


def address(turn: int) -> str:
    """The address of the customer in this turn."""
    return ADDRESSES[min(turn // MOVES_EVERY, len(ADDRESSES) - 1)]


def correction(turn: int) -> str:
    """What the customer says of a new address; empty if it is the one of before."""
    has_moved = turn > 0 and address(turn) != address(turn - 1)
    return f"Actually, my shipping address is now {address(turn)}. " if has_moved else ""


def question(turn: int) -> str:
    """What the customer says."""
    asked = f"Where is order {order(turn)}? I ordered it some days ago, and would like to know when it arrives."
    return f"{correction(turn)}{asked}"


def order(turn: int) -> str:
    return str(4_000 + turn)


def look_up(number: str) -> str:
    """What the tool answers."""
    lines = [{"line": line, "article": f"A-{number}-{line}", "state": "packed"} for line in range(4)]
    return json.dumps({"order": number, "note": DETAIL * 3, "lines": lines})


def strings_in(value: Any) -> Iterator[str]:
    """All texts in a request, without the names of its fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings_in(each)


class CallTool(NamedTuple):
    order: str


class ModelCall(NamedTuple):
    """What one call of the model was sent."""

    tokens: int
    superseded: int
    """How many addresses of before it was shown."""


class Model:
    """A model that follows the script, and remembers what it was sent."""

    def __init__(self) -> None:
        self.turn = 0
        self.calls: list[ModelCall] = []
        self.cpu_s = 0.0
        """How long the processor counted what was sent: no part of the agent."""
        self._counter = EstimatingCounter()

    def note(self, sent: Any) -> None:
        """Remember what a call was sent."""
        cpu = time.process_time()
        text = "\n".join(strings_in(sent))
        past = {address(turn) for turn in range(self.turn)} - {address(self.turn)}
        self.calls.append(ModelCall(self._counter.count(text), sum(each in text for each in past)))
        self.cpu_s += time.process_time() - cpu

    def answer(self, *sent: Any, answers_tool: bool) -> CallTool | str:
        """The next step, given all parts of a request: a call of the tool, or, after its result, the reply."""
        self.note(sent)
        if not answers_tool:
            return CallTool(order(self.turn))
        return f"Order {order(self.turn)} is packed and goes to {address(self.turn)}. It arrives tomorrow."


class RunFigures(msgspec.Struct, frozen=True):
    """What a run of the agent took."""

    seconds: float
    cpu_s: float
    """Seconds of the processor, in the process of the agent, without those in which the model counted what it was sent."""
    calls: int
    tokens: int
    last_tokens: int
    """Of the last call."""
    shown_superseded: int
    """Calls that were shown an address of before."""

    @classmethod
    def of(cls, model: Model, seconds: float, cpu_s: float) -> RunFigures:
        return cls(
            seconds=seconds,
            cpu_s=cpu_s - model.cpu_s,
            calls=len(model.calls),
            tokens=sum(call.tokens for call in model.calls),
            last_tokens=model.calls[-1].tokens,
            shown_superseded=sum(call.superseded > 0 for call in model.calls),
        )


class Survivors(msgspec.Struct, frozen=True):
    """What another process finds after kill -9 in the middle of a tool."""

    question: bool
    """The question of the user."""
    call: bool
    """The call that was running."""
    unknown: bool
    """That its outcome is unknown, with a key to ask the other system about it."""


class GrowthFigures(msgspec.Struct, frozen=True):
    """What checkpoints of a growing conversation cost, with our saver ("ours") and theirs ("own")."""

    wall_s: dict[str, float]
    cpu_s: dict[str, float]
    size: dict[str, int]
    """Bytes on disk, closed."""
