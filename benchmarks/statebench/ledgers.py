"""StateBench: timelines of what was written, said and superseded, replayed through sessions and ledgers. At every query:
which values that must not be spoken of any more are still live, and which that are needed are not?

The events are the system of record. They are written by the program itself, with the authority that they state, raised to
that of what they supersede. What the data marks as restricted takes a permission that no reader has. Turns of the
conversation come through the session, and have the authority of whoever speaks in it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from benchmarks.statebench.mapping import NO_ID, split_restriction
from holdfast.model.content import Role

NAME = "statebench"
SPLITS = ("train", "dev")
ALL = Goal("at least", 1)
NONE = Goal("at most", 0)
MOST = Goal("at least", 0.8)
FEW = Goal("at most", 0.02)
EVENTS, BOTH, TALK = MODES = ("events alone", "events and talk", "talk alone")
"""What says that a fact is superseded: events, with the conversation only recorded; both; or the conversation, and events
that supersede something are left out."""
TALKING = "supersession_detection"
"""The track in which the data says what must be told from the conversation. Its events only set the scene."""
QUICK = 8
"""A quick run takes one timeline in so many."""
LARGEST = 1_000
RUNGS = holdfast.types.AuthorityLadder().rungs
_TOLD_VALUES = re.compile(r"Must detect supersession of: (\[.*\])")


class FactSource(msgspec.Struct):
    type: str
    authority: str | None = None
    identity: str | None = None


class Write(msgspec.Struct):
    id: str
    key: str
    value: str
    source: FactSource
    layer: str = "persistent_facts"
    scope: str = "global"
    supersedes: str | None = None
    depends_on: list[str] = []
    is_constraint: bool = False
    constraint_type: str | None = None


class Item(msgspec.Struct):
    item_type: str
    content: str


class Who(msgspec.Struct):
    user_name: str
    authority: str
    department: str | None = None
    organization: str | None = None


class Start(msgspec.Struct):
    identity_role: Who
    persistent_facts: list[Write]
    working_set: list[Item]
    environment: dict[str, str]


class Truth(msgspec.Struct):
    must_mention: list[str]
    must_not_mention: list[str]
    reasoning: str | None = None


class TimelineEvent(msgspec.Struct):
    ts: str
    type: str
    speaker: str = ""
    text: str = ""
    writes: list[Write] = []
    ground_truth: Truth | None = None


class Timeline(msgspec.Struct):
    id: str
    track: str
    initial_state: Start
    events: list[TimelineEvent]


class Tally(msgspec.Struct):
    """Phrases that were ever in a value, at all queries; and facts, at the end."""

    forbidden: int = 0
    forbidden_live: int = 0
    at_hand: int = 0
    """Forbidden ones that are live in the working set or in the environment, and in no fact."""
    unnamed: int = 0
    """Forbidden ones that are live in facts, all of them such as nothing in the data calls superseded."""
    required: int = 0
    required_live: int = 0
    named: int = 0
    """Facts that an event calls superseded."""
    named_dead: int = 0
    told: int = 0
    """Facts of which the label says that their end must be told from the conversation."""
    told_dead: int = 0
    suspect: int = 0
    """Other facts with a forbidden phrase and no required one: if anything ends them, it is the conversation."""
    suspect_dead: int = 0
    others: int = 0
    others_dead: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, each) + getattr(other, each) for each in self.__struct_fields__))


def share(some: int, of: int, none: float = 0.0) -> float:
    return some / of if of else none


class Clock:
    def __init__(self) -> None:
        self.time_us = 0

    def now_us(self) -> int:
        return self.time_us

    def at(self, ts: str) -> int:
        """Time goes on, also between two events that bear the same."""
        self.time_us = max(self.time_us + 1, int(datetime.fromisoformat(ts).replace(tzinfo=UTC).timestamp() * 1e6))
        return self.time_us


def run(bench: Bench) -> list[Table]:
    tables: list[Table] = []
    for split in SPLITS:
        path = bench.data / NAME / f"{split}.jsonl"
        if not path.exists():
            note = f"There is no {path}: nothing was measured. --data names another folder."
            tables.append(Table(name=NAME, title=split, ours="", theirs="", lines=[], notes=[note]))
            continue
        timelines = read(path)[:: bench.pick(1, QUICK)]
        scores = {mode: score(timelines, mode) for mode in MODES}
        tables += [table(split, mode, scores[mode]) for mode in MODES]
        tables.append(build_table(split, len(timelines), scores))
    return tables


def read(path: Path) -> list[Timeline]:
    decode = msgspec.json.Decoder(Timeline).decode
    return [decode(line) for line in path.read_bytes().splitlines() if line.strip()]


def score(timelines: Sequence[Timeline], mode: str) -> dict[str, Tally]:
    """What came of each track."""
    tallies: dict[str, Tally] = {}
    for timeline in timelines:
        tally = Replay(timeline, mode).run()
        tallies[timeline.track] = tallies.get(timeline.track, Tally()) + tally
    return dict(sorted(tallies.items()))


class Replay:
    """One timeline, in a store of its own."""

    def __init__(self, timeline: Timeline, mode: str) -> None:
        self._timeline = timeline
        self._mode = mode
        self._tally = Tally()
        self._written: dict[str, Write] = {}
        """By our ids."""
        self._named: set[str] = set()
        self._values: list[str] = []
        """All that ever were."""

    def run(self) -> Tally:
        clock, start = Clock(), self._timeline.initial_state
        begun = clock.at(start.environment["now"])
        who = start.identity_role
        identity = holdfast.Identity(
            user_name=who.user_name,
            authority=who.authority,
            department=who.department or "",
            organization=who.organization or "",
        )
        with holdfast.open("memory:", clock=clock) as engine:
            self._ledger = engine.ledger(project="timeline")
            self._session = engine.create_session(self._timeline.id, identity=identity, ledgers=[self._ledger.id])
            for write in start.persistent_facts:
                self._write(write, begun)
            for number, item in enumerate(start.working_set):
                self._session.working.set(f"{item.item_type} {number}", item.content)
            for name, value in start.environment.items():
                if name != "now":
                    self._session.environment.set(name, value, observed_at_us=begun)
            self._remember()
            for event in sorted(self._timeline.events, key=lambda each: each.ts):
                self._happen(event, clock.at(event.ts))
                self._remember()
            self._judge_facts()
        return self._tally

    def _happen(self, event: TimelineEvent, time_us: int) -> None:
        if event.ground_truth is not None:
            self._judge_phrases(event.ground_truth)
        elif event.type == "conversation_turn":
            role: Role = "user" if event.speaker == "user" else "assistant"
            if self._mode == EVENTS:
                self._session.record(role, event.text)
            else:
                observed = self._session.observe(event.text, role=role)
                assert not observed.error, observed.error
        for write in event.writes:
            if write.supersedes is not None:
                self._named |= {fact for fact, old in self._written.items() if write.supersedes in (old.id, old.key)}
            if write.supersedes is None or self._mode != TALK or self._timeline.track == TALKING:
                self._write(write, time_us)

    def _write(self, write: Write, time_us: int) -> None:
        if write.layer == "environment":
            self._session.environment.set(write.key, write.value, observed_at_us=time_us)
            return
        fact = self._ledger.set(
            write.key,
            write.value,
            ref="" if write.id == NO_ID else write.id,
            source=write.source.type,
            authority=self._authority(write),
            depends_on=write.depends_on,
            supersedes=() if write.supersedes is None else write.supersedes,
            requires=("restricted",) if split_restriction(write.value)[0] else (),
            is_constraint=write.is_constraint or None,
            constraint_type=write.constraint_type,
        )
        self._written[fact.id] = write
        self._values.append(plain(write.value))

    def _authority(self, write: Write) -> str:
        """As it is stated; but the record is kept by whoever may end what it ends."""
        stated = write.source.authority or "peer"
        if write.supersedes is None:
            return stated
        ended = self._ledger.fact(write.supersedes)
        while ended.superseded_by is not None:
            ended = self._ledger.fact(ended.superseded_by)
        return min(
            stated,
            ended.authority,
            key=lambda each: RUNGS.index(holdfast.types.AuthorityLadder().aliases.get(each, each)),
        )

    def _remember(self) -> None:
        self._values += [value for value in self._visible() if value not in self._values]

    def _visible(self) -> list[str]:
        return [*self._facts(), *self._at_hand()]

    def _facts(self) -> dict[str, list[str]]:
        """What the reader may take for true, each value with the facts that have it."""
        found: dict[str, list[str]] = {}
        own = ("session", self._session.scope.session)
        for ledger in (self._session.ledger(), self._session.ledger(project="timeline")):
            for fact in ledger.items(within=[own], limit=LARGEST):  # type: ignore[list-item]
                holds = self._session.facts.get(fact.key, scope=fact.scope, scope_id=fact.scope_id)
                if holds is not None:
                    found.setdefault(plain(holds.value), []).append(holds.id)
        return found

    def _at_hand(self) -> list[str]:
        working, around = self._session.working.items(), self._session.environment.get().external_data
        return [plain(each.value) for each in working.values()] + [plain(each.value) for each in around.values()]

    def _judge_phrases(self, truth: Truth) -> None:
        tally, facts, at_hand = self._tally, self._facts(), self._at_hand()
        for phrase in map(plain, truth.must_mention):
            if any(phrase in value for value in self._values):
                tally.required += 1
                tally.required_live += any(phrase in value for value in (*facts, *at_hand))
        for phrase in map(plain, truth.must_not_mention):
            if not any(phrase in value for value in self._values):
                continue
            tally.forbidden += 1
            holding = [fact for value, ids in facts.items() if phrase in value for fact in ids]
            beside = any(phrase in value for value in at_hand)
            tally.forbidden_live += bool(holding) or beside
            tally.at_hand += beside and not holding
            tally.unnamed += bool(holding) and not self._named.intersection(holding)

    def _judge_facts(self) -> None:
        """What became of the facts that the data wrote."""
        tally, truths = self._tally, [each.ground_truth for each in self._timeline.events if each.ground_truth]
        forbidden = [plain(phrase) for truth in truths for phrase in truth.must_not_mention]
        required = [plain(phrase) for truth in truths for phrase in truth.must_mention]
        labelled = find_told_values(truths)
        dead = {fact for fact in self._written if self._ledger.fact(fact).status != "live"}
        for fact, write in self._written.items():
            value, ended = plain(write.value), fact in dead
            if write.id in labelled:
                tally.told += 1
                tally.told_dead += ended
            elif fact in self._named:
                tally.named += 1
                tally.named_dead += ended
            elif any(each in value for each in forbidden) and not any(each in value for each in required):
                tally.suspect += 1
                tally.suspect_dead += ended
            else:
                tally.others += 1
                tally.others_dead += ended


def find_told_values(truths: Sequence[Truth]) -> set[str]:
    """What the labels say must be told from the conversation."""
    found = (_TOLD_VALUES.search(truth.reasoning or "") for truth in truths)
    return {str(each) for match in found if match for each in ast.literal_eval(match[1])}


def plain(value: Any) -> str:
    return " ".join(str(value).lower().split())


def table(split: str, mode: str, scores: dict[str, Tally]) -> Table:
    total = sum(scores.values(), Tally())
    return Table(
        name=NAME,
        title=f"{split}, {mode}",
        ours="phrases that are live",
        theirs="facts that are dead",
        lines=[line(track, tally) for track, tally in (*scores.items(), ("all", total))],
        notes=[
            f"Of the forbidden phrases that are live, {total.unnamed} stand only in facts that nothing supersedes.",
            f"{total.at_hand} stand in no fact, only in the working set or the environment.",
        ],
    )


def line(track: str, tally: Tally) -> Line:
    return Line(
        what=track,
        ours=f"forbidden {format_share(tally.forbidden_live, tally.forbidden)}, "
        f"required {format_share(tally.required_live, tally.required)}",
        theirs=f"superseded {format_share(tally.named_dead, tally.named)}, "
        f"told {format_share(tally.told_dead, tally.told)}, "
        f"suspect {format_share(tally.suspect_dead, tally.suspect)}, "
        f"others {format_share(tally.others_dead, tally.others)}",
    )


def format_share(some: int, all_: int) -> str:
    return f"{some:,} of {all_:,}"


def build_table(split: str, timelines: int, scores: dict[str, dict[str, Tally]]) -> Table:
    return Table(
        name=NAME,
        title=f"{split}, {timelines:,} timelines",
        ours="ours",
        theirs="facts",
        lines=list(goals(scores)),
        notes=[
            f"What must be told in the talk is labelled in the track {TALKING}, which is left out of the last three lines.",
            "A suspect fact has a forbidden phrase and no required one, and nothing says that it is superseded.",
            "Where events are left out, the facts that they would have written are missing, and so are their phrases.",
        ],
    )


def goals(scores: dict[str, dict[str, Tally]]) -> Iterator[Line]:
    for mode in (EVENTS, BOTH):
        total = sum(scores[mode].values(), Tally())
        yield goal(f"{mode}: superseded by an event and dead", total.named_dead, total.named, ALL)
        yield goal(f"{mode}: live values killed", total.others_dead, total.others, NONE if mode == EVENTS else FEW)
        yield goal(f"{mode}: told in the talk and dead", total.told_dead, total.told, MOST if mode == BOTH else None)
    alone = sum((tally for track, tally in scores[TALK].items() if track != TALKING), Tally())
    yield goal(f"{TALK}: an event would supersede it, and dead", alone.named_dead, alone.named, None)
    yield goal(f"{TALK}: live values killed", alone.others_dead, alone.others, FEW)
    right = alone.named_dead + alone.suspect_dead
    yield goal(f"{TALK}: precision", right, right + alone.others_dead, None)


def goal(what: str, some: int, all_: int, wanted: Goal | None) -> Line:
    if not all_:
        return Line(what=what, ours="none", theirs="none")
    figure = share(some, all_)
    return Line(
        what=what, ours=f"{figure:.1%}", theirs=format_share(some, all_), ratio=Spread.of([figure]), goal=wanted
    )
