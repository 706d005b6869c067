"""What agents live through, step by step, drawn from a seed: parallel calls, words between a call and its result, results
of all sizes, boundaries of all kinds, erasures."""

from __future__ import annotations

from random import Random
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from holdfast.model.history.plans import Classic, Frugal, Strategy, SummarizeOldest, TruncateAt
from holdfast.model.history.prices import Prices
from tests.core.plan_inputs import PRICES


class Say(NamedTuple):
    where: int
    role: str
    length: int


class Work(NamedTuple):
    """A reply with calls, and what comes back: how long each result is; what is left over stays open."""

    where: int
    calls: int
    lengths: tuple[int, ...]
    kind: str
    between: bool
    at_once: bool


class Answer(NamedTuple):
    where: int
    length: int


class GiveUp(NamedTuple):
    where: int


class TooLate(NamedTuple):
    """A result for a call that was closed."""

    length: int


class Compact(NamedTuple):
    where: int
    how: Frugal | Classic | Strategy
    share: float
    """The window, by what is in view."""
    prices: Prices | None
    cold: bool
    before: int
    """Tokens of what stands before the conversation."""


class Late(NamedTuple):
    """A plan that is carried out when something came between."""

    where: int
    what: str


class Page(NamedTuple):
    where: int
    pick: int
    out: bool
    tier: str


class OutAndIn(NamedTuple):
    where: int
    pick: int


class Summarise(NamedTuple):
    where: int
    turns: int


class Push(NamedTuple):
    pass


class Pop(NamedTuple):
    where: int


class Reset(NamedTuple):
    keep_system: bool


class Erase(NamedTuple):
    pick: int


class Wait(NamedTuple):
    seconds: int


class Reopen(NamedTuple):
    """Another process goes on."""


Spoken: TypeAlias = Say | Work | Answer | GiveUp


Shortened: TypeAlias = Compact | Late | Page | OutAndIn | Summarise


Step: TypeAlias = Spoken | TooLate | Shortened | Push | Pop | Reset | Erase | Wait | Reopen


LENGTHS = (5, 150, 150, 590, 2_900, 3_100, 7_000)
"""Around what is spooled, among others."""


POLICIES: tuple[Frugal | Classic | Strategy, ...] = (
    Frugal(),
    Frugal(least=0, large=100, excerpt=20, preserve_turns=1),
    Frugal(least=0, preserve_turns=0, tail_share=0.01),
    Frugal(recent=1, payback_share=1.0),
    Frugal(recent=2, result_share=0.05, payback_share=1.0, least=0),
    Classic(),
    Classic(large=200, excerpt=30),
    Classic(snip=0.01, micro=None, collapse=None, auto=None),
    Classic(snip=None, micro=0.01, collapse=None, auto=None, large=200, excerpt=20, preserve_turns=0),
    Classic(snip=None, micro=None, collapse=0.01, auto=None, target=0.5),
    SummarizeOldest(0),
    SummarizeOldest(4),
    TruncateAt(0),
    TruncateAt(5),
)


KINDS: dict[type, int] = {
    Say: 4,
    Work: 6,
    Answer: 2,
    GiveUp: 1,
    TooLate: 1,
    Compact: 7,
    Late: 1,
    Page: 2,
    OutAndIn: 1,
    Summarise: 1,
    Push: 1,
    Pop: 1,
    Reset: 1,
    Erase: 1,
    Wait: 1,
    Reopen: 1,
}
"""How often each comes, by the others."""


def draw_day(seed: int, steps: int = 26) -> list[Step]:
    """What an agent may live through; the same for the same seed."""
    chance = Random(seed)
    kinds = chance.choices(list(KINDS), list(KINDS.values()), k=steps)
    return [_step(kind, chance) for kind in kinds]


def _step(kind: type, chance: Random) -> Step:
    where, length, pick = chance.choice([0, 0, 0, 1, 2]), chance.choice(LENGTHS), chance.randrange(13)
    if kind is Say:
        return Say(where, chance.choice(["user", "user", "user", "assistant", "assistant", "system"]), length)
    if kind is Work:
        results = chance.choices(LENGTHS, k=chance.choice([0, 1, 2, 3, 3, 3, 3]))
        what = chance.choice(["text", "text", "json", "parts", "image", "error"])
        return Work(where, chance.randint(1, 3), tuple(results), what, chance.random() < 0.3, chance.random() < 0.5)
    if kind is Compact:
        prices = chance.choice(
            [None, None, PRICES, replace(PRICES, cache_read=3_000_000), replace(PRICES, cache_read=0)]
        )
        share, cold, before = (
            chance.choice([0.2, 0.6, 0.9, 1.02, 1.2, 5]),
            chance.random() < 0.5,
            chance.choice([0, 0, 300]),
        )
        return Compact(where, chance.choice(POLICIES), share, prices, cold, before)
    made: dict[type, Step] = {
        Answer: Answer(where, length),
        GiveUp: GiveUp(where),
        TooLate: TooLate(length),
        Late: Late(where, chance.choice(["words", "page"])),
        Page: Page(where, pick, chance.random() < 0.5, chance.choice(["durable", "semantic"])),
        OutAndIn: OutAndIn(where, pick),
        Summarise: Summarise(where, chance.randrange(3)),
        Push: Push(),
        Pop: Pop(where),
        Reset: Reset(chance.random() < 0.5),
        Erase: Erase(pick),
        Wait: Wait(chance.choice([1, 400, 4_000, -90_000])),
        Reopen: Reopen(),
    }
    return made[kind]
