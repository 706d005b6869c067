"""Whole packs of random sessions: each session is packed with budgets that rise, and every pack is held against the laws of
levels and priorities."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import holdfast
from holdfast.adapters.tokens import EstimatingCounter, ExactCounter
from holdfast.core.history.levels import lighten
from holdfast.core.packs.assembly import HEADINGS, PlacedCandidate
from holdfast.errors import CriticalOverflow, WindowTooSmall
from holdfast.flows.memory.index import take_history
from holdfast.model.history.handles import PRIORITY_SCORES
from holdfast.model.history.plans import LEVELS
from holdfast.model.history.views import Summary
from holdfast.model.packs.pack import TAIL_SECTIONS
from holdfast.render.pack import Pack
from holdfast.text.fence import SEPARATOR
from tests.edges.engines import ManualClock
from tests.support import CountingIds

PRIORITIES = tuple(PRIORITY_SCORES)
NOUNS = ("garden", "invoice", "harbour", "ticket", "engine", "letter", "recipe", "bridge", "window", "salary")
DROPPED = {"low": "aggressive", "background": "aggressive"}
STATED_ERROR = 0.10
"""What the estimate may be off by, of what it counts (tests/core/test_tokens.py)."""
FENCE = 60
"""The fence counts to the first section in it."""
FRAMING = 4
"""Tokens that a message takes beside its text."""


class RandomPacks:
    """A session made from a seed, and what was found wrong with its packs, by kind of fault."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._clock = ManualClock()
        self._exact = ExactCounter() if seed % 4 == 0 else None
        self._has_memory = seed % 3 == 0
        self._counter = self._exact or EstimatingCounter()
        self.engine: Any = holdfast.open("memory:", clock=self._clock, ids=CountingIds(), counter=self._counter)
        self.faults: list[tuple[str, object]] = []
        self.levels: Counter[str] = Counter()
        self.packs = 0
        self.recalled = 0
        self._fill()

    def _text(self) -> str:
        """Short or long, with blanks, repeated lines and long strings that a lighter form has less of."""
        words = " ".join(self._random.choices(NOUNS, k=self._random.choice([2, 5, 12, 40, 150])))
        return self._random.choice(
            [
                words,
                words,
                f"{words}   \n\n\n\n{words}",
                "the same line\n" * self._random.randint(2, 30),
                f"{words} {'x7' * 150}",
            ]
        )

    def _remember(self, options: dict[str, Any]) -> None:
        """Let memory take an earlier session."""
        before = self.engine.create_session("before", **options)
        for _ in range(self._random.choice([1, 5, 20])):
            before.record(self._random.choice(["user", "assistant"]), self._text())
        before.end()
        for offload in self.engine.admin.outbox():
            self.engine._drive(take_history(self.engine._context, offload))

    def _fill(self) -> None:
        random = self._random
        ledger = self.engine.ledger(user="ada")
        ada = holdfast.Identity(user_id="ada", user_name="Ada")
        options: dict[str, Any] = {"identity": ada, "memory": True} if self._has_memory else {}
        if self._has_memory:
            self._remember(options)
        self.session: Any = self.engine.create_session("s", ledgers=[ledger.id], **options)
        for number in range(random.choice([0, 3, 12, 40])):
            ledger.set(f"{random.choice(NOUNS)}_{number}", self._text()[:600], is_constraint=random.random() < 0.06)
        for name in NOUNS[: random.choice([0, 2, 8])]:
            self.session.working.set(name, self._text())
        for name in ("location", *NOUNS[: random.choice([0, 3])]):
            if random.random() < 0.5:
                self.session.environment.set(name, self._text())
        if random.random() < 0.5:
            self.session.situation.update({"current_state": self._text(), "next_focus": self._text()})
        self.place = self.session
        self.handles: list[str] = []
        if random.random() < 0.8:
            self.place = self.session.frame(f"Look into the {random.choice(NOUNS)}.", budget=1_000_000)
            if random.random() < 0.4:
                self.place = self.place.frame(f"Then the {random.choice(NOUNS)}.", budget=100_000)
            for _ in range(random.choice([0, 2, 6, 15])):
                priority = random.choices(PRIORITIES, [1, 4, 6, 4, 4])[0]
                handle = self.place.handles.add("document", self._text(), priority=priority, title=random.choice(NOUNS))
                self.handles.append(handle.id)
        for _ in range(random.choice([0, 1, 4, 12])):
            self.place.record("user", self._text())
            self.place.record("assistant", self._text())

    def sweep(self, count: int) -> None:
        """Pack with so many budgets, each larger than the one before."""
        random = self._random
        least, most = random.choice([(500, 3_000), (500, 12_000), (1_000, 5_000)])
        asked: dict[str, Any] = {
            "query": random.choice([None, f"What of the {random.choice(NOUNS)} and the {random.choice(NOUNS)}?"]),
            "fact_share": random.choice([None, None, 0.0, 0.2, 0.5, 1.0]),
            "min_compaction": random.choice(["none"] * 6 + list(LEVELS[1:])),
            "include": random.sample(self.handles, min(len(self.handles), random.choice([0, 0, 1, 3]))),
            "profile": random.choice(["balanced", "balanced", "comprehensive", "high_stakes"]),
            "recall": random.choice([None, None, None, False, 0.5, 1.0]) if self._has_memory else None,
        }
        if self.handles and random.random() < 0.3:
            asked |= {"exclude": random.sample(self.handles, 1), "force": True}
        last: tuple[int, str] | None = None
        for budget in sorted(random.sample(range(least, most), count)):
            try:
                pack: Pack = self.place.pack(budget=budget, **asked)
            except (CriticalOverflow, WindowTooSmall) as error:
                if error.needed <= error.budget or last is not None:
                    self._fault("refused", (budget, error, last))
                continue
            self.packs += 1
            level = pack.tokens.level
            self.levels[level] += 1
            if last is not None and LEVELS.index(level) > LEVELS.index(last[1]):
                self._fault("raised", (last, budget, level))
            last = budget, level
            self._check(pack)

    def _fault(self, kind: str, what: object) -> None:
        self.faults.append((kind, what))

    def _check(self, pack: Pack) -> None:
        self._check_level(pack)
        self._check_priorities(pack)
        self._check_size(pack)

    def _check_level(self, pack: Pack) -> None:
        """The level is that of the worst that happened to a candidate; or the floor, and all that it asks for was done."""
        request = pack.manifest.request
        floor = LEVELS.index(request.min_compaction)
        items = pack.history.items
        worst = "moderate" if any(isinstance(each, Summary) for each in items) else "none"
        for each in pack._assembled.tail.placed:
            happened = "none"
            if each.candidate.section == "recall":
                self.recalled += each.fate == "included"
                continue  # no level depends on it
            if each.fate == "reduced":
                happened = "light"
            elif each.fate == "omitted" and (not each.candidate.omission or each.candidate.too_large):
                happened = "critical" if each.candidate.wanted else DROPPED.get(each.candidate.priority, "critical")
                if floor >= LEVELS.index("aggressive") and LEVELS.index(happened) <= floor:
                    happened = "none"
            worst = max(worst, happened, key=LEVELS.index)
            if each.fate == "included" and not each.candidate.wanted and each.candidate.priority != "critical":
                below = (floor >= 3 and each.candidate.priority in DROPPED) or floor == 4
                if below and each.candidate.section != "breadcrumbs":
                    self._fault("floor", (request.min_compaction, each.candidate.priority))
        if pack.tokens.level != max(worst, request.min_compaction, key=LEVELS.index):
            self._fault("untrue", (pack.tokens.level, worst, request.min_compaction))

    def _check_priorities(self, pack: Pack) -> None:
        """Without what ranks lower, nothing that was left out for lack of room would fit; facts only within their share."""
        request, tail = pack.manifest.request, pack._assembled.tail
        if request.min_compaction in ("aggressive", "critical"):
            return
        room = request.effective - (pack.tokens.used - tail.tokens)
        if not tail.texts and pack._assembled.tokens.breakdown.get("query") is None:
            return  # without a tail there is no fence either
        for out in tail.placed:
            late = out.candidate.too_large
            if out.fate != "omitted" or (out.candidate.omission and not late) or "share" in out.reason:
                continue
            stays = [
                each
                for each in tail.placed
                if each.text
                and (
                    each.candidate.wanted
                    or each.candidate.priority == "critical"
                    or PRIORITY_SCORES[each.candidate.priority] >= PRIORITY_SCORES[out.candidate.priority]
                )
            ]
            if len(stays) == sum(bool(each.text) for each in tail.placed):
                continue  # nothing that ranks lower is in
            text = out.candidate.text
            if not out.candidate.wanted:
                text = min(text, lighten(text), key=self._counter.count)
            if not late and self._laid_out([*stays, _included(out, text)]) <= room:
                self._fault("inversion", (out.candidate.id, out.reason))
            if late and int(out.reason.split()[3].replace(",", "")) <= request.effective:
                self._fault("inversion", (out.candidate.id, out.reason))

    def _laid_out(self, placed: list[PlacedCandidate]) -> int:
        calibration = self.session.state().calibration
        total = 0
        for section in TAIL_SECTIONS:
            lines = [each.text for each in placed if each.candidate.section == section != "recall"]
            if lines:
                text = "\n".join([HEADINGS[section], *lines] if section in HEADINGS else lines)
                total += calibration.measure(self._counter.count(text + SEPARATOR), 0)
        return int(total + calibration.measure(0, 1))

    def _check_size(self, pack: Pack) -> None:
        """The rendered pack, counted anew."""
        if pack.tokens.used > pack.tokens.budget:
            self._fault("over", (pack.tokens.used, pack.tokens.budget))
        request = pack.manifest.request
        if pack.tokens.breakdown.get("recall", 0) > request.effective * request.recall_share + FENCE:
            self._fault("beyond the share", pack.tokens.breakdown)
        shown = pack.openai()["messages"]
        texts = [each["content"] if type(each["content"]) is str else str(each["content"]) for each in shown]
        counter = self._exact or _exact()
        counted = sum(counter.count(text) + FRAMING for text in texts)
        allowed = pack.tokens.budget * (1 if self._exact else 1 + STATED_ERROR)
        if counted > allowed:
            self._fault("over by an exact count", (counted, pack.tokens.used, pack.tokens.budget))

    def close(self) -> None:
        self.engine.close()


_COUNTERS: list[ExactCounter] = []


def _exact() -> ExactCounter:
    if not _COUNTERS:
        _COUNTERS.append(ExactCounter())
    return _COUNTERS[0]


def _included(placed: PlacedCandidate, text: str) -> PlacedCandidate:
    return PlacedCandidate(candidate=placed.candidate, fate="included", reason="", text=text)


def run_campaign(packs: int, first: int = 0, step: int = 1) -> tuple[int, Counter[str], list[tuple[int, str, object]]]:
    """So many packs: how many were made, their levels, and the faults with the seeds of their sessions."""
    made, seen, faults, seed = 0, Counter[str](), list[tuple[int, str, object]](), first
    while made < packs:
        session = RandomPacks(seed)
        session.sweep(8)
        session.close()
        made += session.packs
        seen += session.levels
        faults += ((seed, *each) for each in session.faults)
        seed += step
    return made, seen, faults


if __name__ == "__main__":
    import sys

    made, seen, faults = run_campaign(int(sys.argv[1]))
    kinds = Counter(kind for _, kind, _ in faults)
    print(f"{made:,} packs, levels {dict(seen)}; faults {dict(kinds)}")
    shown_kinds: Counter[str] = Counter()
    for fault in faults:
        shown_kinds[fault[1]] += 1
        if shown_kinds[fault[1]] <= 5:
            print(*fault)
