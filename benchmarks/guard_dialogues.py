"""Dialogues of people, with a fact for each slot that the annotators saw: what does the guard hide of them, and what does
it leave readable? `--samples` writes packs to read, beside what was said."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

import holdfast
from benchmarks import dialogues
from benchmarks.dialogues import Dialogue
from benchmarks.harness import Bench, Spread
from benchmarks.loose_values import Span, find_mentions, is_bare_number
from benchmarks.report import Goal, Line, Table
from benchmarks.truth.guard_outcomes import NEAR
from benchmarks.truth.world import open_engine

NAME = "guard_dialogues"
TITLE = "what the guard hides in the talk of people"
SOURCE = "sgd"
"""The dialogues whose annotation is good enough."""
SAMPLES = 50
SEED = 8
QUICK = 8
"""A quick run takes one dialogue in so many."""
NO_VALUE = ("dontcare", "none")
"""What the annotators write where the user has no wish: nothing that a text could show."""
WRONGLY_HIDDEN = Goal("at most", 0.01)
READABLE = Goal("at most", 0.08)

_MARKER = re.compile(r"\[[^\[\]]{3,300}\]")

FaultKind = Literal["hidden", "marked", "live elsewhere", "readable", "readable number", "not aligned"]
"""Something hidden or marked that is no dead value there · a dead value hidden that is live under another key · a dead
value readable without a note · the same for a bare number, which may mean something else · a text that is neither as it was
nor as it was but for the markers."""


class Death(msgspec.Struct, frozen=True):
    """A value that was superseded. Turns count from 0."""

    key: str
    value: str
    new: str
    said: int
    died: int


class Fault(msgspec.Struct, frozen=True):
    kind: FaultKind
    turn: int
    text: str


class PackView(msgspec.Struct):
    """A pack, as it was after a turn, with what was true then."""

    dialogue: str
    turn: int
    said: list[str]
    shown: list[str]
    text: str
    deaths: list[Death]
    live: dict[str, str]
    faults: list[Fault] = []
    counts: Counter[str] = msgspec.field(default_factory=Counter)


class NamedDialogue(Dialogue):
    id: str = ""


def run(bench: Bench) -> Table:
    files = sorted((bench.data / dialogues.NAME).glob(f"{SOURCE}-*.jsonl"))
    if not files:
        note = f"There is no data in {bench.data / dialogues.NAME}: nothing was measured. --data names another folder."
        return Table(name=NAME, title=TITLE, ours="", theirs="", lines=[], notes=[note])
    found = [each for file in files for each in read(file) if each.changes][:: bench.pick(1, QUICK)]
    places = [(at, turn) for at, dialogue in enumerate(found) for turn in pack_turns(dialogue)]
    sampled = set(random.Random(SEED).sample(places, min(SAMPLES, len(places))))
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    for at, dialogue in enumerate(found):
        for view in play(dialogue):
            check(view)
            counts += view.counts
            failures += [
                {"dialogue": view.dialogue, "pack": view.turn} | msgspec.to_builtins(each) for each in view.faults
            ]
            if bench.samples is not None and (at, view.turn) in sampled:
                write_sample(bench.samples, view)
    notes = [f"{len(found):,} dialogues with changes; a pack after each turn with a change, and one at the end."]
    notes += [] if bench.samples is None else [f"{len(sampled)} packs were written to {bench.samples}."]
    return Table(name=NAME, title=TITLE, ours="share", theirs="of", lines=lines(counts), notes=notes, failures=failures)


def read(path: Path) -> list[NamedDialogue]:
    decode = msgspec.json.Decoder(NamedDialogue).decode
    return [decode(line) for line in path.read_bytes().splitlines() if line.strip()]


def pack_turns(dialogue: Dialogue) -> list[int]:
    """The turns after which a pack is made."""
    return sorted({change.turn for change in dialogue.changes} | {len(dialogue.turns) - 1})


def play(dialogue: NamedDialogue, guard: str | None = None) -> Iterator[PackView]:
    """Record each turn, and assert what the annotators saw in it, with the message as its provenance."""
    turns = pack_turns(dialogue)
    live: dict[str, str] = {}
    since: dict[str, int] = {}
    deaths: list[Death] = []
    with open_engine(guard) as engine:
        ledger = engine.ledger(user="ada")
        session = engine.create_session("talk", actor="ada", ledgers=[ledger.id])
        messages: list[holdfast.Message] = []
        for at, turn in enumerate(dialogue.turns):
            messages.append(session.record("user" if turn.speaker == "user" else "assistant", turn.text))
            for key, value in turn.set.items():
                if live.get(key) == value:
                    continue
                ledger.set(key, value, provenance=messages[-1].id)
                if key in live:
                    deaths.append(Death(key, live[key], value, since[key], at))
                live[key], since[key] = value, at
            if at in turns:
                pack = session.pack()
                shown = {message.id: message.text for message in pack.history.messages}
                yield PackView(
                    dialogue.id,
                    at,
                    [message.text for message in messages],
                    [shown.get(message.id, "") for message in messages],
                    str(pack),
                    [death for death in deaths if not is_live(death, live)],
                    dict(live),
                )


def is_live(death: Death, live: dict[str, str]) -> bool:
    """The key has the same value again, or never had one that a text could show."""
    return death.value.lower() in NO_VALUE or bool(find_mentions(death.value, live[death.key]))


def check(view: PackView) -> None:
    """Count what is hidden and what is readable, and note what should not be so."""
    view.faults, view.counts = [], Counter(packs=1, messages=len(view.said))
    for turn, (said, shown) in enumerate(zip(view.said, view.shown, strict=True)):
        if said != shown:
            check_hidden(view, turn, said, shown)
    for death in view.deaths:
        check_readable(view, death)
    wrong = {fault.turn for fault in view.faults if fault.kind in ("hidden", "marked", "not aligned")}
    view.counts["messages wrongly changed"] = len(wrong)
    view.counts.update(fault.kind for fault in view.faults)


def check_hidden(view: PackView, turn: int, said: str, shown: str) -> None:
    view.counts["messages changed"] += 1
    pieces = align(said, shown)
    if pieces is None:
        view.faults.append(Fault("not aligned", turn, shown))
        return
    deaths = [death for death in view.deaths if death.died >= turn]
    for span in pieces:
        hidden = said[span.start : span.end].strip()
        where = hidden or said[max(0, span.start - NEAR) : span.start]
        view.counts["pieces hidden" if hidden else "pieces marked"] += 1
        mentions = [(death, mention) for death in deaths for mention in find_mentions(death.value, where)]
        if not mentions:
            view.faults.append(Fault("hidden" if hidden else "marked", turn, where))
            continue
        if hidden:
            longest = max(len(where[mention.start : mention.end].split()) for _, mention in mentions)
            view.counts["words hidden beside the value"] += len(hidden.split()) - longest
        if all(is_live_elsewhere(death, view.live) for death, _ in mentions):
            view.faults.append(Fault("live elsewhere", turn, where))


def is_live_elsewhere(death: Death, live: dict[str, str]) -> bool:
    return any(key != death.key and find_mentions(death.value, value) for key, value in live.items())


def align(said: str, shown: str) -> list[Span] | None:
    """The pieces of what was said in whose place a marker is shown; an empty piece for a marker that only was added.
    None if the rest is not as it was said."""
    pattern, last = "", 0
    for marker in _MARKER.finditer(shown):
        if marker.group() in said:
            continue
        pattern += re.escape(shown[last : marker.start()].rstrip()) + r"\s*(.*?)"
        last = marker.end()
    found = re.fullmatch(pattern + re.escape(shown[last:]), said, re.DOTALL)
    return None if found is None else [Span(*found.span(group)) for group in range(1, (found.re.groups or 0) + 1)]


def check_readable(view: PackView, death: Death) -> None:
    """Look for a dead value in the messages before the one that changed it."""
    if is_live_elsewhere(death, view.live):
        view.counts["dead values live elsewhere"] += 1
        return
    number = is_bare_number(death.value)
    before = range(death.died)
    if not any(find_mentions(death.value, view.said[turn]) for turn in before):
        view.counts["dead values nobody said"] += 1
        return
    view.counts["dead numbers" if number else "dead values"] += 1
    for turn in before:
        if is_readable(death, view.said[turn], view.shown[turn]):
            kind: FaultKind = "readable number" if number else "readable"
            view.faults.append(Fault(kind, turn, f"{death.key}: {death.value}"))
            return


def is_readable(death: Death, said: str, shown: str) -> bool:
    """A mention of the dead value is shown without a marker that names its key, in it or right behind it."""
    markers = [
        Span(*found.span())
        for found in _MARKER.finditer(shown)
        if found.group() not in said and letters(death.key) in letters(found.group())
    ]
    return any(
        not any(marker.start - NEAR <= end and start < marker.end for marker in markers)
        for start, end in find_mentions(death.value, shown)
    )


def letters(text: str) -> str:
    """Letters and digits alone: a key is shown with or without its punctuation."""
    return re.sub(r"[\W_]", "", text.lower())


def lines(counts: Counter[str]) -> list[Line]:
    messages, hidden = counts["messages"], counts["pieces hidden"]
    rows = (
        ("messages in packs in which something is hidden or marked", counts["messages changed"], messages, None),
        (
            "messages in which something else than a dead value is",
            counts["messages wrongly changed"],
            messages,
            WRONGLY_HIDDEN,
        ),
        ("pieces hidden that are no dead value there", counts["hidden"], hidden, None),
        ("pieces hidden whose value is live under another key", counts["live elsewhere"], hidden, None),
        ("pieces marked that are no dead value there", counts["marked"], counts["pieces marked"], None),
        ("words hidden beside the value, by piece", counts["words hidden beside the value"], hidden, None),
        ("dead values readable without a note", counts["readable"], counts["dead values"], READABLE),
        ("dead bare numbers readable, in any meaning", counts["readable number"], counts["dead numbers"], None),
    )
    return [
        Line(
            what=what,
            ours=f"{part / whole:.2f}" if what.startswith("words") else f"{part / whole:.1%}",
            theirs=f"{part:,} of {whole:,}",
            ratio=Spread.of([part / whole]),
            goal=goal,
        )
        for what, part, whole, goal in rows
        if whole
    ]


def write_sample(folder: Path, view: PackView) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{view.dialogue}-{view.turn:02}.txt").write_text(describe(view), encoding="utf-8")


def describe(view: PackView) -> str:
    """All that it takes to judge a pack by reading."""
    conversation = [f"{turn:2}  {text}" for turn, text in enumerate(view.said)]
    deaths = [
        f"- {each.key}: {each.value!r}, said in turn {each.said}, replaced by {each.new!r} after turn {each.died}"
        for each in view.deaths
    ]
    live = [f"- {key}: {value}" for key, value in sorted(view.live.items())]
    faults = [f"- {each.kind}, turn {each.turn}: {each.text}" for each in view.faults]
    sections: Sequence[tuple[str, list[str]]] = (
        (f"DIALOGUE {view.dialogue}, AFTER TURN {view.turn}: AS SAID", conversation),
        ("DEAD VALUES", deaths),
        ("LIVE VALUES", live),
        ("FAULTS FOUND BY COUNTING", faults),
        ("THE PACK", [view.text]),
    )
    return "\n".join(f"=== {title}\n" + "\n".join(body or ["none"]) + "\n" for title, body in sections)
