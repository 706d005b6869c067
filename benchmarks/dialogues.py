"""Dialogues of people: which of the facts so far does what they say next replace? The default detector against what
annotators say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from holdfast.model.content import Role
from holdfast.model.facts.detection import FactCandidate, Observation, Utterance
from holdfast.text.detect.detector import RuleDetector

NAME = "dialogues"
TITLE = "values that change in the talk of people"
THRESHOLDS = (0.5, 0.8)
"""From the first on a change is asked for, from the second on it is made."""
GOALS = {
    ("sgd", 0.8): (Goal("at least", 0.95), Goal("at least", 0.5)),
    ("multiwoz", 0.8): (Goal("at least", 0.95), None),
}
"""Precision and recall, where the annotation is good enough to ask for them."""
BEFORE = 8
"""Messages before that the detector is shown."""
QUICK = 8
"""A quick run takes one dialogue in so many."""


class Turn(msgspec.Struct):
    speaker: str
    text: str
    set: dict[str, str]


class Change(msgspec.Struct):
    turn: int
    slot: str


class Dialogue(msgspec.Struct):
    turns: list[Turn]
    changes: list[Change]


class Score(msgspec.Struct):
    """How often a change was found, missed, or seen where there was none."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        return self.right / ((self.right + self.wrong) or 1)

    @property
    def recall(self) -> float:
        return self.right / ((self.right + self.missed) or 1)

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def run(bench: Bench) -> Table:
    data = bench.data / NAME
    files = sorted(data.glob("*.jsonl"))
    if not files:
        note = f"There is no data in {data}: nothing was measured. --data names another folder."
        return Table(name=NAME, title=TITLE, ours="", theirs="", lines=[], notes=[note])
    lines: list[Line] = []
    notes: list[str] = []
    for file in files:
        dialogues = read(file)[:: bench.pick(1, QUICK)]
        begun = time.process_time()
        scores, turns = score(dialogues)
        spent = time.process_time() - begun
        for threshold in THRESHOLDS:
            lines += score_lines(file.stem, threshold, scores[threshold])
        notes.append(
            f"{file.stem}: {len(dialogues):,} dialogues, {turns:,} turns, {spent / turns * 1e3:.2f} ms a turn."
        )
    return Table(name=NAME, title=TITLE, ours="found", theirs="of", lines=lines, notes=notes)


def read(path: Path) -> list[Dialogue]:
    decode = msgspec.json.Decoder(Dialogue).decode
    return [decode(line) for line in path.read_bytes().splitlines() if line.strip()]


def observations(dialogue: Dialogue) -> Iterator[tuple[Observation, set[str]]]:
    """What a detector is shown before each turn of the user, with the slots that the turn changes."""
    facts: dict[str, FactCandidate] = {}
    said: list[Utterance] = []
    for at, turn in enumerate(dialogue.turns, 1):
        role: Role = "user" if turn.speaker == "user" else "assistant"
        if role == "user":
            changed = {change.slot for change in dialogue.changes if change.turn == at - 1}
            now = Utterance(turn.text, role, time_us=at)
            yield Observation(message=now, previous=tuple(said[-BEFORE:]), facts=tuple(facts.values())), changed
        for slot, value in turn.set.items():
            if slot not in facts or facts[slot].value != value:
                facts[slot] = FactCandidate(fact=slot, key=slot, value=value, text=value, since_us=at)
        said.append(Utterance(turn.text, role, seq=at, time_us=at))


def score(dialogues: list[Dialogue]) -> tuple[dict[float, Score], int]:
    rules = RuleDetector()
    scores = {threshold: Score() for threshold in THRESHOLDS}
    turns = 0
    for dialogue in dialogues:
        for observation, changed in observations(dialogue):
            turns += 1
            proposals = [each for each in rules.detect(observation) if each.change in {"supersede", "retract"}]
            for threshold, counted in scores.items():
                found = {each.fact for each in proposals if each.confidence >= threshold}
                counted.right += len(found & changed)
                counted.wrong += len(found - changed)
                counted.missed += len(changed - found)
    return scores, turns


def score_lines(name: str, threshold: float, counted: Score) -> Iterator[Line]:
    goals = next(
        (goals for (stem, at), goals in GOALS.items() if name.startswith(stem) and at == threshold), (None, None)
    )
    seen, real = counted.right + counted.wrong, counted.right + counted.missed
    for what, figure, of, goal in (
        ("precision", counted.precision, f"{counted.right:,} of {seen:,} seen", goals[0]),
        ("recall", counted.recall, f"{counted.right:,} of {real:,} real", goals[1]),
        ("F1", counted.f1, "", None),
    ):
        yield Line(
            what=f"{name}, confidence {threshold} and up: {what}",
            ours=f"{figure:.1%}",
            theirs=of,
            ratio=Spread.of([figure]),
            goal=goal,
        )
