"""A coding agent with a budget: 300 turns, 900 model calls, results of up to 5 MB, on a store in a file.

Before each call a pack is built and rendered, as an agent does it, under the default policy and under frugal. Reported is
how much of the budget is used, how often the view changes, whether a file that was read stays whole until the window
presses, what it costs beside a sliding window, and what it takes of the processor.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

import holdfast
from benchmarks.coding_agent_tasks import Task, tasks
from benchmarks.cost_baselines import fit_newest
from benchmarks.cost_recordings import count
from benchmarks.cost_score import Meter, Prompt, PromptPiece
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from holdfast.model.history.events import ContextCompacted
from holdfast.model.history.plans import Faithful, Frugal, PlanPolicy
from holdfast.model.history.prices import Prices, find_prices
from holdfast.model.log import StoredEvent
from holdfast.model.packs.pack import Brief
from holdfast.render.pack import Pack
from holdfast.types import MessageGroup, Summary

NAME = "coding agent"
MODEL = "claude-sonnet-4-5"
BUDGET = 64_000
ENOUGH = 40_000
"""Tokens of a pack that is used: from the first one that has them on, packs should have as many on average."""
TURNS = 300
ROLE = "coder"
PROMPT = "You change code on request. Read before you edit, and run the tests."
WHOLE_SHARE = 0.25
"""The share of the budget up to which a result is shown whole."""
LONG = 200_000
"""Characters that are no file in any case, and need not be counted."""
EDGE = 200
"""Tokens below a threshold that count as at it: the tail of a pack is not the last one's."""
STRETCH = 100
"""Calls at the beginning and at the end whose times are compared."""
PAGE = 1_000

USED = Goal("at least", ENOUGH)
FEW = Goal("at most", 30)
NEVER = Goal("at most", 0)
WITHIN = Goal("at most", 1)
CHEAPER = Goal("below", 1)
FLAT = Goal("at most", 1.5)


class Read(msgspec.Struct):
    """A result that a pack should show whole: it takes no more than its share of the budget."""

    call: str
    marks: tuple[str, ...]
    """What its beginning, middle and end say."""

    def is_whole(self, shown: str) -> bool:
        return all(mark in shown for mark in self.marks)


class Outcome(msgspec.Struct):
    """What was seen of one run."""

    used: list[int] = msgspec.field(default_factory=list)
    """Tokens of each pack."""
    cpu_s: list[float] = msgspec.field(default_factory=list)
    """Processor time of each call: building, rendering and recording."""
    boundaries: int = 0
    early: list[str] = msgspec.field(default_factory=list)
    """Results that were shortened though the window did not press."""
    reads: int = 0
    cost: int = 0
    sliding_cost: int = 0

    @property
    def mean_used(self) -> float:
        """Once there is so much to show."""
        first = next((at for at, used in enumerate(self.used) if used >= ENOUGH), None)
        return statistics.mean(self.used[first:]) if first is not None else statistics.mean(self.used)

    @property
    def growth(self) -> float:
        """What the last calls take, over what those take in which the budget was first used."""
        first = next((at for at, used in enumerate(self.used) if used >= ENOUGH), 0)
        early = self.cpu_s[first : first + STRETCH]
        return statistics.median(self.cpu_s[-STRETCH:]) / statistics.median(early)


def run(bench: Bench) -> Table:
    turns = bench.pick(TURNS, TURNS // 5)
    work = tasks(turns)
    calls = sum(len(task.steps) for task in work)
    ours = Agent(bench.file("faithful.db"), Faithful()).run(work)
    frugal = Agent(bench.file("frugal.db"), Frugal()).run(work)
    size = sum(len(step.result) for task in work for step in task.steps)
    share = bench.pick(1, 5)
    return Table(
        name=NAME,
        title=f"{turns} turns, {calls} calls, {size / 1e6:.0f} MB of results, a budget of {BUDGET:,}",
        ours="faithful, the default",
        theirs="frugal",
        lines=[*lines_of_packs(ours, frugal, calls, share), *lines_of_costs(ours, frugal)],
        notes=notes(),
    )


def notes() -> list[str]:
    wholeness = (
        f"Used: the mean of all packs from the first one on that has {ENOUGH:,} tokens. A result may be shown in part if "
        f"it takes more than {WHOLE_SHARE:.0%} of the budget; it is shortened early if it was shown whole, or is new, and "
        "is not whole now, though the pack with it would have stayed below the policy's threshold."
    )
    costs = (
        "Costs are those of an ideal cache that never gets cold. The sliding window has the same budget, and is given "
        "what the packs first showed of each message, so that it has no results of megabytes."
    )
    return [wholeness, costs, "Processor time is that of building, rendering and recording, in a file."]


def lines_of_packs(ours: Outcome, frugal: Outcome, calls: int, share: int) -> list[Line]:
    few = msgspec.structs.replace(FEW, value=FEW.value / share)
    return [
        _line("tokens of a pack, mean once the budget is used", ours.mean_used, frugal.mean_used, USED),
        _line("tokens of the largest pack ÷ budget", max(ours.used) / BUDGET, max(frugal.used) / BUDGET, WITHIN),
        _line(f"boundaries in {calls} calls", ours.boundaries, frugal.boundaries, few),
        _line(
            f"of {ours.reads} results read whole, shortened early",
            len(ours.early),
            len(frugal.early),
            NEVER,
            limit=", ".join(ours.early[:3]),
        ),
    ]


def lines_of_costs(ours: Outcome, frugal: Outcome) -> list[Line]:
    mean_ms = 1_000 * statistics.mean(ours.cpu_s), 1_000 * statistics.mean(frugal.cpu_s)
    return [
        Line(
            what="cost ÷ that of frugal",
            ours=f"${ours.cost / 1e12:.2f}",
            theirs=f"${frugal.cost / 1e12:.2f}",
            ratio=Spread.of([ours.cost / frugal.cost]),
        ),
        Line(
            what="cost ÷ that of a sliding window",
            ours=f"${ours.cost / 1e12:.2f}",
            theirs=f"${ours.sliding_cost / 1e12:.2f}",
            ratio=Spread.of([ours.cost / ours.sliding_cost]),
            goal=CHEAPER,
        ),
        Line(
            what="processor time of a call, in ms; the last calls ÷ the first full ones",
            ours=f"{mean_ms[0]:.1f}",
            theirs=f"{mean_ms[1]:.1f}",
            ratio=Spread.of([ours.growth]),
            goal=FLAT,
        ),
    ]


def _line(what: str, ours: float, theirs: float, goal: Goal, limit: str = "") -> Line:
    figures = [f"{each:,.0f}" if each == round(each) or each >= 10 else f"{each:,.2f}" for each in (ours, theirs)]
    return Line(what=what, ours=figures[0], theirs=figures[1], ratio=Spread.of([ours]), goal=goal, limit=limit)


class Agent:
    """One run on an engine of its own."""

    def __init__(self, path: Path, policy: PlanPolicy) -> None:
        prices = find_prices(MODEL)
        assert prices is not None
        self._path, self._policy, self._prices = path, policy, prices
        self._found = Outcome()
        self._reads: list[Read] = []
        """Results that were whole in the last pack, or are new."""
        self._pressing = BUDGET * (policy.threshold if isinstance(policy, Faithful) else 1) - EDGE
        self._costs = Costs(prices)

    def run(self, work: Sequence[Task]) -> Outcome:
        with holdfast.open(self._path, briefs={ROLE: Brief(prompt=PROMPT)}, compaction=self._policy) as engine:
            session = engine.create_session("work")
            for task in work:
                session.record("user", task.question)
                for step in task.steps:
                    self._step(session, step.text, step.tool, step.path, step.result)
            self._found.boundaries = sum(event.type == ContextCompacted.name for event in _events(session))
        self._found.cost, self._found.sliding_cost = self._costs.ours.found.cost, self._costs.sliding.found.cost
        return self._found

    def _step(self, session: holdfast.Session, text: str, tool: str, path: str, result: str) -> None:
        start = time.process_time()
        pack = session.pack(budget=BUDGET, role=ROLE, model=MODEL)
        rendered = pack.openai()
        spent = time.process_time() - start
        self._look(
            pack, {each["tool_call_id"]: each["content"] for each in rendered["messages"] if each["role"] == "tool"}
        )
        self._costs.take(pack)
        start = time.process_time()
        calls = [{"name": tool, "args": {"path": path}}] if tool else []
        reply = session.record("assistant", text, tool_calls=calls)
        for call in reply.tool_calls:
            session.result(call, result)
            if len(result) <= LONG and count(result) <= WHOLE_SHARE * BUDGET:
                lines = result.split("\n")
                self._reads.append(Read(call.id, (lines[0], lines[len(lines) // 2], lines[-1])))
                self._found.reads += 1
        self._found.cpu_s.append(spent + time.process_time() - start)

    def _look(self, pack: Pack, results: dict[str, str]) -> None:
        """Whether all that was whole still is; what is not is forgiven if the pack with it would have been too large."""
        whole = [each for each in self._reads if each.is_whole(results.get(each.call, ""))]
        gone = [each for each in self._reads if each not in whole]
        before = self._found.used[-1] + self._costs.new_tokens(pack) if self._found.used else 0
        if gone and before < self._pressing:
            self._found.early += [each.marks[0].removeprefix("# ").removesuffix(" begins") for each in gone]
        self._reads = whole
        self._found.used.append(pack.tokens.used)


class Costs:
    """What the packs cost, and a sliding window beside them."""

    def __init__(self, prices: Prices) -> None:
        self.ours, self.sliding = Meter(prices, 0), Meter(prices, 0)
        self._first: dict[int, PromptPiece] = {}
        """Each message as it was first shown, by its seq."""
        self._begun = False

    def take(self, pack: Pack) -> None:
        prompt = self._prompt(pack)
        for each in prompt:
            if each.key[0] == "unit":
                self._first.setdefault(each.key[1], each)
        tail = pack.tokens.used - sum(each.tokens for each in prompt)
        passing = [PromptPiece(("tail", 0), max(0, tail), passing=True)]
        self.ours.take([*prompt, *passing], lost=not self._begun)
        self.sliding.take(fit_newest(list(self._first.values()), BUDGET), lost=not self._begun)
        self._begun = True

    def new_tokens(self, pack: Pack) -> int:
        """Tokens of the messages that no pack showed before."""
        new = [each for each in self._prompt(pack) if each.key[0] == "unit" and each.key[1] not in self._first]
        return sum(each.tokens for each in new)

    def _prompt(self, pack: Pack) -> Prompt:
        return [_prompt_piece(item) for item in pack.history.items]


def _prompt_piece(item: MessageGroup | Summary) -> PromptPiece:
    kind = "summary" if isinstance(item, Summary) else "unit"
    return PromptPiece((kind, item.seq), item.tokens)


def _events(session: holdfast.Session) -> Iterator[StoredEvent]:
    after = 0
    while page := session.events(after=after, limit=PAGE):
        yield from page
        after = page[-1].seq
