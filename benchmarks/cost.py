"""What a context costs: real sessions of agents, replayed call by call under policies side by side.

Before each model call a policy says what is sent. An ideal prompt cache and a provider's prices say what that costs; the
arguments of the call that the agent really made next say what of it was needed, and what was lost is priced at reading it
again. So each policy is a point of cost against grounding; `--picture FILE.svg` draws them. Goals are judged on the half of
the sessions that the summarizer's weights were fitted without. The planner's rules have no fitted weights, but they and
their shares were chosen with figures of both halves at hand.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks import cost_plan_time
from benchmarks.cost_baselines import KEPT_RESULTS, Langchain, send_newest
from benchmarks.cost_curve import Point, find_dominating, points
from benchmarks.cost_folds import FoldCosts, Shape, find_optimal_folds
from benchmarks.cost_picture import Panel, picture
from benchmarks.cost_planner import PlannedSession
from benchmarks.cost_policies import (
    BASELINE,
    CLASSIC,
    CUT,
    FAITHFUL,
    FORETOLD,
    FRUGAL,
    HISTORY,
    NONE,
    OPTIMUM,
    SHORT,
    SLIDING,
    VARIANTS,
    Family,
    build_contenders,
)
from benchmarks.cost_recordings import Recording, read_recordings
from benchmarks.cost_score import PREFIX_TOKENS, Score, score, tokens_of
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from holdfast.model.history.plans import Frugal
from holdfast.model.history.prices import Prices, find_prices

NAME = "cost"
TITLE = "what a context costs"
MODEL = "claude-sonnet-4-5"
OTHER_MODELS = ("claude-sonnet-5-5", "gpt-5.1", "gpt-4.1", "gpt-4o", "gemini-2.5-pro", "deepseek-v4-pro")
WINDOWS = (32_000, 64_000, 200_000)
QUICK = 8
"""A quick run takes one file in so many."""
COMMAND = "python -m benchmarks cost --picture docs/explanation/cost-curve.svg"

NEAR = Goal("at most", 1.05)
NEAR_ELSEWHERE = Goal("at most", 1.10)
WORST = Goal("at most", 1.2)
NO_DEARER = Goal("at most", 1)
CHEAPER = Goal("below", 1)
FAR_CHEAPER = Goal("at most", 0.35)
AS_GROUNDED = Goal("at least", 1)
GROUNDED = {64_000: Goal("at least", 99.5), 200_000: Goal("at least", 99.9)}
NOBODY = Goal("at most", 0)
FAR_WINDOWS = (32_000, 64_000)
AGREED = 0.01
"""How far the cost of a session's packs may be from what the planner foretells: the tail of a pack takes a little of the
window, which the planner alone knows nothing of."""
STEP_TOKENS = 50

Scores = dict[str, Score]
"""By policy."""


class WindowScores(msgspec.Struct):
    """What was measured at one window."""

    scores: dict[str, Scores] = msgspec.field(default_factory=dict)
    """By session."""
    families: dict[str, Family] = msgspec.field(default_factory=dict)
    """By policy; those that are points of the curve."""

    def total(self, sessions: Sequence[Recording], policy: str) -> Score:
        """Of the sessions that the policy could serve."""
        return Score.total(self.scores[each.name][policy] for each in self.served(sessions, policy))

    def served(self, sessions: Sequence[Recording], policy: str) -> list[Recording]:
        return [each for each in sessions if policy in self.scores[each.name]]

    def sums(self, sessions: Sequence[Recording]) -> Scores:
        policies = dict.fromkeys(policy for each in sessions for policy in self.scores[each.name])
        return {policy: self.total(sessions, policy) for policy in policies if policy != FORETOLD}

    def points(self, sessions: Sequence[Recording]) -> list[Point]:
        """Of the policies that could serve all of them."""
        sums = self.sums(sessions)
        able = {
            name: each
            for name, each in sums.items()
            if name in self.families and len(self.served(sessions, name)) == len(sessions)
        }
        return points(able, self.families, sums[OPTIMUM].cost)


def run(bench: Bench) -> list[Table]:
    return [*contexts(bench), *cost_plan_time.run(bench)]


def contexts(bench: Bench) -> list[Table]:
    data = bench.data / "trajectories" / "coding-agent"
    files = sorted(data.glob("*.jsonl"), key=lambda file: (file.stat().st_size, file.name))
    files = files[QUICK // 2 :: QUICK] if bench.quick else files
    if not files:
        note = f"There is no data in {data}: nothing was measured. --data names another folder."
        return [Table(name=NAME, title=TITLE, ours="", theirs="", lines=[], notes=[note])]
    sessions = list(read_recordings(files))
    held_out = [each for each in sessions if each.held_out]
    tables: list[Table] = []
    panels: list[Panel] = []
    with Langchain() as langchain:
        about = langchain.about()
        for window in WINDOWS:
            found = measure(sessions, held_out, data, prices_at(MODEL, window), langchain)
            panels.append(Panel(f"window of {window:,} tokens", found.points(held_out)))
            tables.append(table(f"{window:,} tokens, held-out half", window, held_out, found, goals=True))
            tables.append(table(f"{window:,} tokens, all sessions", window, sessions, found))
    tables[0].notes.extend(notes(sessions, data, about))
    if bench.picture is not None:
        bench.picture.write_text(picture(panels, (FAITHFUL, FRUGAL, CLASSIC), COMMAND), encoding="utf-8")
    return [*tables, other_prices(sessions)]


def measure(
    sessions: Sequence[Recording], held_out: Sequence[Recording], data: Path, prices: Prices, langchain: Langchain
) -> WindowScores:
    """Every policy on every session."""
    found, window = WindowScores(), prices.window
    for each in sessions:
        sent = build_contenders(each, data, prices, langchain)
        found.families |= {name: policy.family for name, policy in sent.items() if not policy.aside}
        found.scores[each.name] = {name: score(each, policy.prompts, window, prices) for name, policy in sent.items()}
    shorter = find_equal_window(held_out, found.total(held_out, FRUGAL).sent, window)
    for each in sessions:
        found.scores[each.name][SHORT] = score(each, send_newest(each, shorter), window, prices)
    found.families[SHORT] = "sliding"
    return found


def prices_at(model: str, window: int) -> Prices:
    prices = find_prices(model)
    assert prices is not None
    return msgspec.structs.replace(prices, window=window)


def find_equal_window(sessions: Sequence[Recording], tokens: int, window: int) -> int:
    """The window in which a sliding one sends no more than so many tokens."""
    low, high = PREFIX_TOKENS, window
    while high - low > STEP_TOKENS:
        middle = (low + high) // 2
        sent = sum(PREFIX_TOKENS + tokens_of(prompt) for each in sessions for prompt in send_newest(each, middle))
        low, high = (low, middle) if sent > tokens else (middle, high)
    return low


def table(title: str, window: int, sessions: Sequence[Recording], found: WindowScores, *, goals: bool = False) -> Table:
    sums = found.sums(sessions)
    lines = []
    for policy, own in sums.items():
        if policy in VARIANTS and not goals:
            continue
        served = found.served(sessions, policy)
        few = f"{len(served)} of {len(sessions)} sessions fit" if len(served) < len(sessions) else ""
        over = f"{own.over} prompts too long" if own.over else ""
        cost, again, both = (each / 1e12 for each in (own.cost, own.rereading, own.total_cost))
        lines.append(
            Line(
                what=policy,
                ours=f"${cost:.2f} + ${again:.2f} = ${both:.2f}, hits {own.hits:.1%}, grounding {own.grounding:.2%}",
                theirs=f"{own.sent / own.calls:,.0f} in {own.boundaries:,}",
                ratio=Spread.of([own.cost / found.total(served, OPTIMUM).cost]),
                goal=NEAR if goals and policy == FRUGAL else None,
                limit=few or over,
            )
        )
    lines.append(worst(sessions, found, WORST if goals else None))
    if goals:
        lines += [*faithful_goals(window, sums), *frugal_goals(window, sums), *frontier_goals(found.points(sessions))]
    return Table(
        name=f"{NAME}, {title}",
        title="cost ÷ that of the optimum, of all calls",
        ours="input cost + reading again = total, cache hits, grounding",
        theirs="tokens a call, boundaries",
        lines=lines,
        wrong=disagreement(sessions, found),
    )


def disagreement(sessions: Sequence[Recording], found: WindowScores) -> str:
    """Where the engine's packs are not what the planner foretells of the same session."""
    ratios = {
        each.name[:8]: found.scores[each.name][HISTORY].cost / found.scores[each.name][FORETOLD].cost
        for each in sessions
    }
    apart = [f"{name} ({ratio:.3f})" for name, ratio in ratios.items() if abs(ratio - 1) > AGREED]
    return f"packs and planner disagree on {', '.join(apart)}" if apart else ""


def worst(sessions: Sequence[Recording], found: WindowScores, goal: Goal | None) -> Line:
    ratios = {
        each.name: found.scores[each.name][FRUGAL].cost / found.scores[each.name][OPTIMUM].cost for each in sessions
    }
    name = max(ratios, key=lambda each: ratios[each])
    return Line(
        what="  frugal ÷ optimum, where it is worst",
        ours=f"session {name[:8]}",
        theirs=f"median {statistics.median(ratios.values()):.2f}",
        ratio=Spread.of([ratios[name]]),
        goal=goal,
    )


def faithful_goals(window: int, sums: Scores) -> list[Line]:
    ours, fixed = sums[FAITHFUL], sums[BASELINE]
    return [
        Line(
            what="  grounding of faithful, in percent",
            ours=FAITHFUL,
            theirs=f"{BASELINE}: {fixed.grounding:.2%}",
            ratio=Spread.of([100 * ours.grounding]),
            goal=GROUNDED.get(window),
        ),
        Line(
            what=f"  faithful ÷ {BASELINE}",
            ours=FAITHFUL,
            theirs=BASELINE,
            ratio=Spread.of([ours.cost / fixed.cost]),
            goal=NO_DEARER if window in GROUNDED else None,
        ),
        Line(
            what=f"  faithful ÷ {BASELINE}, with what is read again",
            ours=FAITHFUL,
            theirs=BASELINE,
            ratio=Spread.of([ours.total_cost / fixed.total_cost]),
        ),
    ]


def frugal_goals(window: int, sums: Scores) -> list[Line]:
    ours = sums[FRUGAL]
    fixed = {name: each for name, each in sums.items() if name == CLASSIC or name.startswith("folded at")}
    best = min(fixed, key=lambda name: fixed[name].cost)
    mine = (FAITHFUL, FRUGAL, HISTORY, OPTIMUM, NONE, *VARIANTS)
    smaller = {name: each.grounding for name, each in sums.items() if name not in mine and each.sent <= ours.sent}
    rival = max(smaller, key=lambda name: smaller[name])
    pairs = [
        ("best fixed threshold", best, ours.cost / fixed[best].cost, CHEAPER),
        ("sliding window", SLIDING, ours.cost / sums[SLIDING].cost, FAR_CHEAPER if window in FAR_WINDOWS else None),
        ("best that sends no more tokens, grounding", rival, ours.grounding / smaller[rival], AS_GROUNDED),
        ("summaries cut head and tail, grounding", CUT, ours.grounding / sums[CUT].grounding, AS_GROUNDED),
    ]
    return [
        Line(what=f"  frugal ÷ {what}", ours=FRUGAL, theirs=theirs, ratio=Spread.of([ratio]), goal=goal)
        for what, theirs, ratio, goal in pairs
    ]


def frontier_goals(curve: Sequence[Point]) -> list[Line]:
    """Whether any other policy is both cheaper and better grounded than ours: of others, and of fixed thresholds."""
    rivals = {
        "others": [each for each in curve if each.family not in ("ours", "optimum", "folding")],
        "fixed thresholds": [each for each in curve if each.family == "folding" or each.name == CLASSIC],
    }
    lines = []
    for name in (FAITHFUL, FRUGAL):
        ours = next(each for each in curve if each.name == name)
        for group, among in rivals.items():
            above = find_dominating(ours, among)
            lines.append(
                Line(
                    what=f"  {name}: how many of the {group} dominate it",
                    ours=f"{ours.cost:.2f}, {ours.grounding:.2%}",
                    theirs=", ".join(f"{each.name} ({each.cost:.2f}, {each.grounding:.2%})" for each in above)
                    or "none",
                    ratio=Spread.of([len(above)]),
                    goal=NOBODY,
                )
            )
    return lines


def notes(sessions: Sequence[Recording], data: Path, about: str) -> list[str]:
    calls = sum(len(each.calls) for each in sessions)
    judged = sum(bool(call.wanted) for each in sessions for call in each.calls)
    sources = (
        f"{len(sessions)} sessions from {data} with {calls:,} model calls, {judged:,} of which name something that was "
        f"there before; prices of {MODEL}. {PREFIX_TOKENS:,} tokens of instructions and tools stand before each."
    )
    halves = (
        "Held out are the sessions that the summarizer's weights were fitted without. The planner's rules and their shares "
        "were chosen with figures of both halves at hand."
    )
    cache = (
        "The cache holds the last prompt until it was unused for its time to live, by the messages' own times. Replies "
        "cost the same under every policy and are left out."
    )
    again = (
        "Reading again: a call that needs what its context lacks takes one further call, which reads the context from the "
        "cache, and writes the smallest earlier result that held each missing identifier."
    )
    packs = (
        "Faithful, frugal and classic are whole packs, with their tails, that an engine built and settled before each call "
        "of the session recorded anew; frugal's planner on its own has to foretell the history of its packs. Variants, the "
        "optimum and folding at thresholds are planned without an engine, and get the tails of faithful's packs. Nobody "
        "else sends a tail."
    )
    cuts = (
        f"In '{CUT}' the same planner folds at its own times, but a summary is the beginning and the end of what it stands "
        "for, as much as the same tokens hold."
    )
    optimum = (
        "The optimum knows all that is to come, and folds at the best places there are, with frugal's own verbatim tail. "
        "All summaries are made by the library's summarizer, which needs no model; so they cost nothing."
    )
    others = (
        f"langchain {about}: trim_messages to the window, and SummarizationMiddleware at a share of it, with the messages "
        f"kept that it keeps by itself. Clearing keeps the last {KEPT_RESULTS} results."
    )
    dominated = (
        "One policy dominates another if it costs no more and grounds no worse, and is better in one of the two."
    )
    short = "The recorded airline sessions are left out: none of them comes near to any of these windows."
    return [sources, halves, cache, again, packs, cuts, optimum, others, dominated, short]


def other_prices(sessions: Sequence[Recording]) -> Table:
    """The planner at other prices; only costs, so a summary is as many tokens as it may have, and says nothing."""
    lines = []
    for model in OTHER_MODELS:
        ratios = []
        for window in WINDOWS:
            prices = prices_at(model, window)
            shape = Shape.of(Frugal(), window)
            ours = best = 0
            for each in sessions:
                if each.held_out:
                    folding = FoldCosts(each, shape, prices)
                    best += folding.total(find_optimal_folds(folding))
                    ours += score(
                        each, PlannedSession(each, Frugal(), prices, window, blank_summary).prompts(), window, prices
                    ).cost
            ratios.append(ours / best)
        lines.append(
            Line(
                what=f"{prices.provider}, {model}",
                ours=" ".join(f"{each:.3f}" for each in ratios),
                theirs=format_relative_prices(prices),
                ratio=Spread.of([max(ratios)]),
                goal=NEAR_ELSEWHERE,
            )
        )
    return Table(
        name=f"{NAME}, other prices",
        title="frugal ÷ optimum on the held-out half; the ratio is that of the worst window",
        ours=" ".join(f"{window // 1_000}k" for window in WINDOWS),
        theirs="read, write ÷ input, lifetime",
        lines=lines,
    )


def format_relative_prices(prices: Prices) -> str:
    read, write = prices.cache_read / prices.input, prices.cache_write / prices.input
    return f"{read:.2f}, {write:.2f}, {prices.ttl_s:,} s"


def blank_summary(_items: object, tokens: int) -> str:
    """A text of so many tokens, as the library counts signs that nobody writes."""
    return "\x01" * (tokens - 1)
