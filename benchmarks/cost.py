"""What a context costs: real sessions of agents, replayed call by call under policies side by side.

Before each model call a policy says what is sent. An ideal prompt cache and a provider's prices say what that costs; the
arguments of the call that the agent really made next say what of it was needed. Half of the sessions, by a hash of their
names, are those that nothing was tuned on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from benchmarks import cost_planning
from benchmarks.cost_folds import Folding, Rule, Shape, Summarizer, at_threshold, break_even, folds, in_hindsight, prompts
from benchmarks.cost_material import Recording, recordings
from benchmarks.cost_others import KEPT_RESULTS, TRIGGER, Langchain, cleared, everything, sliding
from benchmarks.cost_ours import Planned
from benchmarks.cost_score import PREFIX_TOKENS, Prompt, Score, score
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from holdfast.model.plan import Classic, Priced, Prices
from holdfast.model.prices import prices_of

NAME = "cost"
TITLE = "what a context costs"
MODEL = "claude-sonnet-4-5"
OTHER_MODELS = ("claude-sonnet-5-5", "gpt-5.1", "gpt-4.1", "gpt-4o", "gemini-2.5-pro", "deepseek-v4-pro")
WINDOWS = (32_000, 64_000, 200_000)
THRESHOLDS = (0.50, 0.65, 0.80, 0.95)
QUICK = 8
"""A quick run takes one file in so many."""

NEAR = Goal("at most", 1.10)
CHEAPER = Goal("below", 1)
FAR_CHEAPER = Goal("at most", 0.35)
AS_GROUNDED = Goal("at least", 0)
FAR_WINDOWS = (32_000, 64_000)

OPTIMUM, PRICED, NONE, SLIDING = "hindsight optimum", "priced planner", "no compaction", "sliding window"
CLASSIC = "classic thresholds"

Scores = dict[str, Score]
"""By policy."""


def run(bench: Bench) -> list[Table]:
    data = bench.data / "trajectories" / "coding-agent"
    files = sorted(data.glob("*.jsonl"))[:: bench.pick(1, QUICK)]
    if not files:
        note = f"There is no data in {data}: nothing was measured. --data names another folder."
        return [Table(name=NAME, title=TITLE, ours="", theirs="", lines=[], notes=[note]), *cost_planning.run(bench)]
    sessions = list(recordings(files))
    tables: list[Table] = []
    with Langchain() as langchain:
        about = langchain.about()
        for window in WINDOWS:
            found = {each.name: scores(each, priced_at(MODEL, window), langchain) for each in sessions}
            unseen = [each for each in sessions if each.unseen]
            tables.append(table(f"{window:,} tokens, unseen sessions", window, unseen, found, goals=True))
            tables.append(table(f"{window:,} tokens, all sessions", window, sessions, found))
    tables[0].notes.extend(notes(sessions, data, about))
    return [*tables, other_prices(sessions), *cost_planning.run(bench)]


def priced_at(model: str, window: int) -> Prices:
    prices = prices_of(model)
    assert prices is not None
    return msgspec.structs.replace(prices, window=window)


def scores(recording: Recording, prices: Prices, langchain: Langchain) -> Scores:
    """Of every policy on one session."""
    window = prices.window
    shape = Shape.of(Priced(), window)
    folding = Folding(recording, shape, prices)
    langchain.take(recording)

    def folded(rule: Rule) -> Iterable[Prompt]:
        return prompts(recording, Summarizer(recording, shape), folds(folding, rule))

    sent: dict[str, Callable[[], Iterable[Prompt]]] = {
        OPTIMUM: lambda: prompts(recording, Summarizer(recording, shape), in_hindsight(folding)),
        PRICED: lambda: Planned(recording, Priced(), prices, window).prompts(),
        CLASSIC: lambda: Planned(recording, Classic(), prices, window).prompts(),
        "break-even rule": lambda: folded(break_even),
        **{f"folded at {share:.2f}": lambda share=share: folded(at_threshold(share)) for share in THRESHOLDS},
        **{f"results cleared at {share:.2f}": lambda share=share: cleared(recording, window, share) for share in (0.5, 0.8)},
        "langchain, summarised": lambda: langchain.summarized(recording, shape),
        "langchain, trimmed": lambda: langchain.trimmed(recording, window),
        SLIDING: lambda: sliding(recording, window),
    }
    if PREFIX_TOKENS + recording.tokens <= window:
        sent[NONE] = lambda: everything(recording)
    return {name: score(recording, made(), window, prices) for name, made in sent.items()}


def total(sessions: Sequence[Recording], found: dict[str, Scores], policy: str) -> Score:
    """Of the sessions that the policy could serve."""
    return Score.total(found[each.name][policy] for each in sessions if policy in found[each.name])


def table(
    title: str, window: int, sessions: Sequence[Recording], found: dict[str, Scores], *, goals: bool = False
) -> Table:
    policies = list(dict.fromkeys(policy for each in sessions for policy in found[each.name]))
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
        lines=[*lines, *(verdicts(window, sums) if goals else ())],
    )


def verdicts(window: int, sums: Scores) -> list[Line]:
    ours = sums[PRICED]
    fixed = {name: each for name, each in sums.items() if name == CLASSIC or name.startswith("folded at")}
    best = min(fixed, key=lambda name: fixed[name].cost)
    served = {name: each for name, each in sums.items() if name not in (PRICED, OPTIMUM, NONE)}
    smaller = {name: each.grounding for name, each in served.items() if each.sent <= ours.sent}
    lines = [
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
    ]
    rival = max(smaller, key=lambda name: smaller[name], default="nobody")
    lead = ours.grounding - smaller.get(rival, 0.0)
    lines.append(
        Line(
            what="  grounding, beyond the best that sends no more",
            ours=f"{ours.grounding:.2%}",
            theirs=rival,
            ratio=Spread.of([lead * 100]),
            goal=AS_GROUNDED,
        )
    )
    return lines


def notes(sessions: Sequence[Recording], data: Path, about: str) -> list[str]:
    calls = sum(len(each.calls) for each in sessions)
    judged = sum(bool(call.wanted) for each in sessions for call in each.calls)
    return [
        f"{len(sessions)} sessions from {data} with {calls:,} model calls, {judged:,} of which name something that was there "
        f"before; prices of {MODEL}. {PREFIX_TOKENS:,} tokens of instructions and tools stand before each.",
        "The cache holds the last prompt until it was unused for its time to live, by the messages' own times. Replies cost "
        "the same under every policy and are left out.",
        "The optimum knows all that is to come, and folds at the best places there are, with the planner's own verbatim tail. "
        "All summaries are made by the library's summarizer, which needs no model; so they cost nothing.",
        f"langchain {about}: trim_messages to the window, and SummarizationMiddleware at {TRIGGER:.0%} of it, with the messages "
        f"kept that it keeps by itself. Clearing keeps the last {KEPT_RESULTS} results.",
        "The recorded airline sessions are left out: none of them comes near to any of these windows.",
    ]


def other_prices(sessions: Sequence[Recording]) -> Table:
    """The planner at other prices; only costs, so a summary is as many tokens as it may have, and says nothing."""
    lines = []
    for model in OTHER_MODELS:
        ratios = []
        for window in WINDOWS:
            prices = priced_at(model, window)
            shape = Shape.of(Priced(), window)
            ours = best = 0
            for each in sessions:
                if each.unseen:
                    folding = Folding(each, shape, prices)
                    best += folding.total(in_hindsight(folding))
                    ours += score(each, Planned(each, Priced(), prices, window, blank).prompts(), window, prices).cost
            ratios.append(ours / best)
        lines.append(
            Line(
                what=f"{prices.provider}, {model}",
                ours=" ".join(f"{each:.3f}" for each in ratios),
                theirs=f"{prices.cache_read / prices.input:.2f}, {prices.cache_write / prices.input:.2f}, {prices.ttl_s:,} s",
                ratio=Spread.of([max(ratios)]),
                goal=NEAR,
            )
        )
    return Table(
        name=f"{NAME}, other prices",
        title="priced planner ÷ optimum on unseen sessions; the ratio is that of the worst window",
        ours=" ".join(f"{window // 1_000}k" for window in WINDOWS),
        theirs="read, write ÷ input, lifetime",
        lines=lines,
    )


def blank(_items: object, tokens: int) -> str:
    """A text of so many tokens, as the library counts signs that nobody writes."""
    return "\x01" * (tokens - 1)
