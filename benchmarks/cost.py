"""What a context costs: real sessions of agents, replayed call by call under policies side by side.

Before each model call a policy says what is sent. An ideal prompt cache and a provider's prices say what that costs; the
arguments of the call that the agent really made next say what of it was needed. Goals are judged on the half of the
sessions that the summarizer's weights were fitted without. The planner's rule has no fitted weights, but it and its shares
were chosen with figures of both halves at hand.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from benchmarks import cost_planning
from benchmarks.cost_folds import (
    Folding,
    Rule,
    Shape,
    Summarizer,
    at_threshold,
    break_even,
    folds,
    in_hindsight,
    prompts,
)
from benchmarks.cost_material import Recording, recordings
from benchmarks.cost_others import KEPT_RESULTS, TRIGGER, Langchain, cleared, everything, sliding
from benchmarks.cost_ours import Planned, cut
from benchmarks.cost_packs import Packed, without_tails
from benchmarks.cost_score import PREFIX_TOKENS, Prompt, Score, score, tokens_of
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from holdfast.model.plan import Classic, Frugal, Prices
from holdfast.model.prices import prices_of

NAME = "cost"
TITLE = "what a context costs"
MODEL = "claude-sonnet-4-5"
OTHER_MODELS = ("claude-sonnet-5-5", "gpt-5.1", "gpt-4.1", "gpt-4o", "gemini-2.5-pro", "deepseek-v4-pro")
WINDOWS = (32_000, 64_000, 200_000)
THRESHOLDS = (0.50, 0.65, 0.80, 0.95)
CLEARINGS = (0.50, 0.80)
QUICK = 8
"""A quick run takes one file in so many."""

NEAR = Goal("at most", 1.10)
CHEAPER = Goal("below", 1)
FAR_CHEAPER = Goal("at most", 0.35)
AS_GROUNDED = Goal("at least", 1)
FAR_WINDOWS = (32_000, 64_000)
AGREED = 0.01
"""How far the cost of a session's packs may be from what the planner foretells: the tail of a pack takes a little of the
window, which the planner alone knows nothing of."""
STEP_TOKENS = 50

OPTIMUM, PRICED, NONE, SLIDING = "hindsight optimum", "priced planner", "no compaction", "sliding window"
FORETOLD = "priced planner, without an engine"
SHORT, CLASSIC = "sliding window, as few tokens", "classic thresholds"
CUT, TAILED = "priced planner, summaries cut head and tail", "priced planner, packs with their tails"

Scores = dict[str, Score]
"""By policy."""


def run(bench: Bench) -> list[Table]:
    return [*contexts(bench), *cost_planning.run(bench)]


def contexts(bench: Bench) -> list[Table]:
    data = bench.data / "trajectories" / "coding-agent"
    files = sorted(data.glob("*.jsonl"), key=lambda file: (file.stat().st_size, file.name))
    files = files[QUICK // 2 :: QUICK] if bench.quick else files
    if not files:
        note = f"There is no data in {data}: nothing was measured. --data names another folder."
        return [Table(name=NAME, title=TITLE, ours="", theirs="", lines=[], notes=[note])]
    sessions = list(recordings(files))
    tables: list[Table] = []
    with Langchain() as langchain:
        about = langchain.about()
        for window in WINDOWS:
            found = {each.name: scores(each, data, priced_at(MODEL, window), langchain) for each in sessions}
            held_out = [each for each in sessions if each.held_out]
            shorter = as_short(held_out, total(held_out, found, PRICED).sent, window)
            for each in sessions:
                prices = priced_at(MODEL, window)
                found[each.name][SHORT] = score(each, sliding(each, shorter), window, prices)
            tables.append(table(f"{window:,} tokens, held-out half", window, held_out, found, goals=True))
            tables.append(table(f"{window:,} tokens, all sessions", window, sessions, found))
    tables[0].notes.extend(notes(sessions, data, about))
    return [*tables, other_prices(sessions)]


def priced_at(model: str, window: int) -> Prices:
    prices = prices_of(model)
    assert prices is not None
    return msgspec.structs.replace(prices, window=window)


def scores(recording: Recording, data: Path, prices: Prices, langchain: Langchain) -> Scores:
    """Of every policy on one session."""
    window = prices.window
    packs = list(Packed(recording, data / f"{recording.name}.jsonl", prices, window).prompts())
    shape = Shape.of(Frugal(), window)
    folding, summarizer = Folding(recording, shape, prices), Summarizer(recording, shape)
    langchain.take(recording)

    def folded(rule: Rule) -> Iterable[Prompt]:
        return prompts(recording, summarizer, folds(folding, rule))

    sent: dict[str, Iterable[Prompt]] = {
        OPTIMUM: prompts(recording, summarizer, in_hindsight(folding)),
        PRICED: without_tails(packs),
        TAILED: packs,
        FORETOLD: Planned(recording, Frugal(), prices, window).prompts(),
        CUT: Planned(recording, Frugal(), prices, window, cut).prompts(),
        CLASSIC: Planned(recording, Classic(), prices, window).prompts(),
        "break-even rule": folded(break_even),
    }
    sent |= {f"folded at {share:.2f}": folded(at_threshold(share)) for share in THRESHOLDS}
    sent |= {f"results cleared at {share:.2f}": cleared(recording, window, share) for share in CLEARINGS}
    sent |= {
        "langchain, summarised": langchain.summarized(recording, summarizer, window),
        "langchain, trimmed": langchain.trimmed(recording, window),
        SLIDING: sliding(recording, window),
    }
    if PREFIX_TOKENS + recording.tokens <= window:
        sent[NONE] = everything(recording)
    return {name: score(recording, made, window, prices) for name, made in sent.items()}


def as_short(sessions: Sequence[Recording], tokens: int, window: int) -> int:
    """The window in which a sliding one sends no more than so many tokens."""
    low, high = PREFIX_TOKENS, window
    while high - low > STEP_TOKENS:
        middle = (low + high) // 2
        sent = sum(PREFIX_TOKENS + tokens_of(prompt) for each in sessions for prompt in sliding(each, middle))
        low, high = (low, middle) if sent > tokens else (middle, high)
    return low


def total(sessions: Sequence[Recording], found: dict[str, Scores], policy: str) -> Score:
    """Of the sessions that the policy could serve."""
    return Score.total(found[each.name][policy] for each in sessions if policy in found[each.name])


def table(
    title: str, window: int, sessions: Sequence[Recording], found: dict[str, Scores], *, goals: bool = False
) -> Table:
    policies = dict.fromkeys(policy for each in sessions for policy in found[each.name] if policy != FORETOLD)
    sums = {policy: total(sessions, found, policy) for policy in policies}
    lines = []
    for policy, own in sums.items():
        served = [each for each in sessions if policy in found[each.name]]
        best = total(served, found, OPTIMUM)
        few = f"{len(served)} of {len(sessions)} sessions fit" if len(served) < len(sessions) else ""
        over = f"{own.over} prompts too long" if own.over else ""
        lines.append(
            Line(
                what=policy,
                ours=f"${own.cost / 1e12:.2f}, hits {own.hits:.1%}, grounding {own.grounding:.2%}",
                theirs=f"{own.sent / own.calls:,.0f} in {own.boundaries:,}",
                ratio=Spread.of([own.cost / best.cost]),
                goal=NEAR if goals and policy == PRICED else None,
                limit=few or over,
            )
        )
    return Table(
        name=f"{NAME}, {title}",
        title="cost ÷ that of the optimum, of all calls",
        ours="input cost, cache hits, grounding",
        theirs="tokens a call, boundaries",
        lines=[*lines, worst(sessions, found), *(verdicts(window, sums) if goals else ())],
        wrong=disagreement(sessions, found),
    )


def disagreement(sessions: Sequence[Recording], found: dict[str, Scores]) -> str:
    """Where the engine's packs are not what the planner foretells of the same session."""
    ratios = {each.name[:8]: found[each.name][PRICED].cost / found[each.name][FORETOLD].cost for each in sessions}
    apart = [f"{name} ({ratio:.3f})" for name, ratio in ratios.items() if abs(ratio - 1) > AGREED]
    return f"packs and planner disagree on {', '.join(apart)}" if apart else ""


def worst(sessions: Sequence[Recording], found: dict[str, Scores]) -> Line:
    ratios = {each.name: found[each.name][PRICED].cost / found[each.name][OPTIMUM].cost for each in sessions}
    name = max(ratios, key=lambda each: ratios[each])
    return Line(
        what="  priced ÷ optimum, where it is worst",
        ours=f"session {name[:8]}",
        theirs=f"median {statistics.median(ratios.values()):.2f}",
        ratio=Spread.of([ratios[name]]),
    )


def verdicts(window: int, sums: Scores) -> list[Line]:
    ours = sums[PRICED]
    fixed = {name: each for name, each in sums.items() if name == CLASSIC or name.startswith("folded at")}
    best = min(fixed, key=lambda name: fixed[name].cost)
    served = {name: each for name, each in sums.items() if name not in (PRICED, TAILED, OPTIMUM, NONE)}
    smaller = {name: each.grounding for name, each in served.items() if each.sent <= ours.sent}
    rival = max(smaller, key=lambda name: smaller[name])
    return [
        Line(
            what="  priced ÷ best fixed threshold",
            ours=PRICED,
            theirs=best,
            ratio=Spread.of([ours.cost / fixed[best].cost]),
            goal=CHEAPER,
        ),
        Line(
            what="  priced ÷ sliding window",
            ours=PRICED,
            theirs=SLIDING,
            ratio=Spread.of([ours.cost / sums[SLIDING].cost]),
            goal=FAR_CHEAPER if window in FAR_WINDOWS else None,
        ),
        Line(
            what="  grounding ÷ the best that sends no more tokens",
            ours=PRICED,
            theirs=rival,
            ratio=Spread.of([ours.grounding / smaller[rival]]),
            goal=AS_GROUNDED,
        ),
        Line(
            what="  grounding ÷ the same with summaries cut head and tail",
            ours=PRICED,
            theirs=CUT,
            ratio=Spread.of([ours.grounding / sums[CUT].grounding]),
            goal=AS_GROUNDED,
        ),
    ]


def notes(sessions: Sequence[Recording], data: Path, about: str) -> list[str]:
    calls = sum(len(each.calls) for each in sessions)
    judged = sum(bool(call.wanted) for each in sessions for call in each.calls)
    held = (
        f"{len(sessions)} sessions from {data} with {calls:,} model calls, {judged:,} of which name something that was "
        f"there before; prices of {MODEL}. {PREFIX_TOKENS:,} tokens of instructions and tools stand before each."
    )
    cache = (
        "The cache holds the last prompt until it was unused for its time to live, by the messages' own times. Replies "
        "cost the same under every policy and are left out."
    )
    packs = (
        "What the priced planner sends is the history of packs that an engine built and settled before each call, of the "
        "session recorded anew; the planner on its own has to foretell the same, call by call. What else stands in those "
        "packs, behind the history, no other policy sends: it counts where the line says so."
    )
    cuts = (
        f"In '{CUT}' the same planner folds at its own times, but a summary is the beginning and the end of what it stands "
        "for, as much as the same tokens hold."
    )
    optimum = (
        "The optimum knows all that is to come, and folds at the best places there are, with the planner's own verbatim "
        "tail. All summaries are made by the library's summarizer, which needs no model; so they cost nothing."
    )
    others = (
        f"langchain {about}: trim_messages to the window, and SummarizationMiddleware at {TRIGGER:.0%} of it, with the "
        f"messages kept that it keeps by itself. Clearing keeps the last {KEPT_RESULTS} results."
    )
    halves = (
        "Held out are the sessions that the summarizer's weights were fitted without. The planner's rule and its shares "
        "were chosen with figures of both halves at hand."
    )
    short = "The recorded airline sessions are left out: none of them comes near to any of these windows."
    return [held, halves, cache, packs, cuts, optimum, others, short]


def other_prices(sessions: Sequence[Recording]) -> Table:
    """The planner at other prices; only costs, so a summary is as many tokens as it may have, and says nothing."""
    lines = []
    for model in OTHER_MODELS:
        ratios = []
        for window in WINDOWS:
            prices = priced_at(model, window)
            shape = Shape.of(Frugal(), window)
            ours = best = 0
            for each in sessions:
                if each.held_out:
                    folding = Folding(each, shape, prices)
                    best += folding.total(in_hindsight(folding))
                    ours += score(each, Planned(each, Frugal(), prices, window, blank).prompts(), window, prices).cost
            ratios.append(ours / best)
        lines.append(
            Line(
                what=f"{prices.provider}, {model}",
                ours=" ".join(f"{each:.3f}" for each in ratios),
                theirs=relative(prices),
                ratio=Spread.of([max(ratios)]),
                goal=NEAR,
            )
        )
    return Table(
        name=f"{NAME}, other prices",
        title="priced planner ÷ optimum on the held-out half; the ratio is that of the worst window",
        ours=" ".join(f"{window // 1_000}k" for window in WINDOWS),
        theirs="read, write ÷ input, lifetime",
        lines=lines,
    )


def relative(prices: Prices) -> str:
    read, write = prices.cache_read / prices.input, prices.cache_write / prices.input
    return f"{read:.2f}, {write:.2f}, {prices.ttl_s:,} s"


def blank(_items: object, tokens: int) -> str:
    """A text of so many tokens, as the library counts signs that nobody writes."""
    return "\x01" * (tokens - 1)
