"""The policies that are compared: what each of them sends before every call of a session, and to which family it belongs.

Faithful, frugal and classic are measured on whole packs: an engine records the session anew, builds a pack before each
call, and all of that pack counts, its tail too. Whatever else folds with the library's summarizer is replayed without an
engine, and its prompts get the tails of faithful's packs, so that both sides send the same. What others send has no tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from benchmarks.cost_baselines import Langchain, send_cleared, send_everything, send_newest
from benchmarks.cost_folds import (
    FoldCosts,
    Rule,
    Shape,
    Summarizer,
    at_threshold,
    break_even,
    build_prompts,
    choose_folds,
    find_optimal_folds,
)
from benchmarks.cost_packs import PackedSession, with_tails, without_tails
from benchmarks.cost_planner import PlannedSession, cut_summary
from benchmarks.cost_recordings import Recording
from benchmarks.cost_score import PREFIX_TOKENS, Prompt
from holdfast.model.history.plans import Classic, Faithful, Frugal, PlanPolicy
from holdfast.model.history.prices import Prices

Family: TypeAlias = Literal["ours", "folding", "clearing", "langchain", "sliding", "none", "optimum"]

OPTIMUM, NONE = "hindsight optimum", "no compaction"
FAITHFUL, FRUGAL, CLASSIC = "faithful", "frugal", "classic"
HISTORY, FORETOLD, CUT = "frugal, history alone", "frugal, without an engine", "frugal, summaries cut head and tail"
BREAK_EVEN, SHORT = "break-even rule", "sliding window, as few tokens"
SLIDING, TRIMMED = "sliding window", "langchain, trimmed"
BASELINE = "folded at 0.80"

THRESHOLDS = (0.50, 0.65, 0.80, 0.95)
CLEARINGS = (0.50, 0.80)
TRIGGERS = (0.50, 0.85)
"""The shares of the window at which langchain's middleware is told to summarise."""
SLIDES = (0.25, 0.35, 0.50, 0.70, 1.0)
"""The shares of the window that a sliding one is given."""

VARIANTS: dict[str, PlanPolicy] = {
    "faithful, never when cold": Faithful(cold=1.0),
    "faithful, target 0.35": Faithful(target=0.35),
    "faithful, cold from 0.30": Faithful(cold=0.30),
    "faithful, threshold 0.65": Faithful(threshold=0.65, target=0.35),
    "faithful, threshold 0.50": Faithful(threshold=0.50, target=0.30, cold=0.30),
    "frugal, from 0.30 of the window on": Frugal(least_share=0.30),
    "frugal, from 0.15 of the window on": Frugal(least_share=0.15),
    "frugal, more verbatim": Frugal(tail_share=0.25, summary_share=0.25),
}
"""The family of the library's own policies, planned without an engine."""


class PolicyPrompts(msgspec.Struct, frozen=True):
    """What a policy sends at the calls of one session."""

    family: Family
    prompts: Iterable[Prompt]
    aside: bool = False
    """It is there to explain another one, and is no point of the curve."""


def build_contenders(
    recording: Recording, data: Path, prices: Prices, langchain: Langchain
) -> dict[str, PolicyPrompts]:
    """By name, in the order of the tables."""
    window, file = prices.window, data / f"{recording.name}.jsonl"
    packs = {
        policy.name: list(PackedSession(recording, file, policy, prices, window).prompts())
        for policy in (Faithful(), Frugal(), Classic())
    }
    shape = Shape.of(Frugal(), window)
    folding, summarizer = FoldCosts(recording, shape, prices), Summarizer(recording, shape)
    langchain.take(recording)

    def whole(made: Iterable[Prompt]) -> Iterator[Prompt]:
        return with_tails(made, packs[FAITHFUL])

    def folded(rule: Rule) -> Iterator[Prompt]:
        return whole(build_prompts(recording, summarizer, choose_folds(folding, rule)))

    def planned(policy: PlanPolicy) -> Iterator[Prompt]:
        return whole(PlannedSession(recording, policy, prices, window).prompts())

    sent = {OPTIMUM: PolicyPrompts("optimum", whole(build_prompts(recording, summarizer, find_optimal_folds(folding))))}
    sent |= {name: PolicyPrompts("ours", packs[name]) for name in (FAITHFUL, FRUGAL, CLASSIC)}
    sent[HISTORY] = PolicyPrompts("ours", without_tails(packs[FRUGAL]), aside=True)
    sent[FORETOLD] = PolicyPrompts("ours", PlannedSession(recording, Frugal(), prices, window).prompts(), aside=True)
    sent[CUT] = PolicyPrompts(
        "ours", whole(PlannedSession(recording, Frugal(), prices, window, cut_summary).prompts()), aside=True
    )
    if recording.held_out:  # the curve is drawn of these; the others are spared the time
        sent |= {name: PolicyPrompts("ours", planned(policy)) for name, policy in VARIANTS.items()}
    sent[BREAK_EVEN] = PolicyPrompts("folding", folded(break_even))
    sent |= {f"folded at {share:.2f}": PolicyPrompts("folding", folded(at_threshold(share))) for share in THRESHOLDS}
    sent |= build_baselines(recording, summarizer, window, langchain)
    return sent


def build_baselines(
    recording: Recording, summarizer: Summarizer, window: int, langchain: Langchain
) -> dict[str, PolicyPrompts]:
    sent = {
        f"results cleared at {share:.2f}": PolicyPrompts("clearing", send_cleared(recording, window, share))
        for share in CLEARINGS
    }
    for share in TRIGGERS:
        made = langchain.summarized(recording, summarizer, window, share)
        sent[f"langchain, summarised at {share:.2f}"] = PolicyPrompts("langchain", list(made))
    sent[TRIMMED] = PolicyPrompts("langchain", langchain.trimmed(recording, window))
    for share in SLIDES:
        name = SLIDING if share == 1 else f"{SLIDING} of {share:.2f}"
        sent[name] = PolicyPrompts("sliding", send_newest(recording, round(share * window)))
    if PREFIX_TOKENS + recording.tokens <= window:
        sent[NONE] = PolicyPrompts("none", send_everything(recording))
    return sent
