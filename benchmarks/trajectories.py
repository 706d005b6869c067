"""Real sessions of agents: each is taken in and given back, and not a line may differ. How fast that is, what it takes on
disk, and how well the next prompt of those with usage figures was foretold."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from operator import truediv
from pathlib import Path

import msgspec

import holdfast
from benchmarks.harness import Bench, Sample, Spread, measure_time, rate
from benchmarks.report import Goal, Line, Table, per_second
from holdfast.core import upcast
from holdfast.core.fold import fold_session
from holdfast.core.packs import calibration
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.state import Calibration, SessionState

NAME = "trajectories"
TITLE = "real sessions, in and out again"
EQUAL = Goal("at most", 0)
BETTER = Goal("below", 1)
PAGE = 1_000
QUICK = 8
"""A quick run takes one file in so many."""


class Growth(msgspec.Struct, frozen=True):
    """By how many tokens a prompt was longer than the one before."""

    real: int
    counted: int
    """As the counter says."""
    calibrated: int
    """As the counter says, corrected by what the session had taught until then."""

    @property
    def misses(self) -> tuple[int, int]:
        return abs(self.calibrated - self.real), abs(self.counted - self.real)


class Replies(msgspec.Struct):
    """What the usage figures of all sessions say."""

    grown: list[Growth] = msgspec.field(default_factory=list)
    sessions: int = 0
    shrunk: int = 0
    """Prompts that were shorter than the one before: something was left out of them, which no count foretells."""


def run(bench: Bench) -> Table:
    data = bench.data / NAME
    files = sorted(data.rglob("*.jsonl"))[:: bench.pick(1, QUICK)]
    if not files:
        note = f"There is no data in {data}: nothing was measured. --data names another folder."
        return Table(name=NAME, title=TITLE, ours="", theirs="", lines=[], notes=[note])
    path = bench.file("agent.db")
    total = sum(1 for file in files for _ in objects(file))
    with holdfast.open(path) as engine:
        taken = measure_time(total, lambda: [engine.admin.import_transcript(file, file.stem) for file in files])
        given = measure_time(
            total, lambda: [engine.admin.export_transcript(bench.file(file.name), file.stem) for file in files]
        )
        replies = Replies()
        for file in files:
            learn(engine.session(file.stem), replies)
        assert engine.admin.verify().ok
    differing = sum(differences(file, bench.file(file.name)) for file in files)
    return Table(
        name=NAME,
        title=TITLE,
        ours="ours",
        theirs="compared with",
        lines=[
            Line(
                what="lines that differ",
                ours=f"{differing:,}",
                theirs=f"{total:,} lines",
                ratio=Spread.of([differing]),
                goal=EQUAL,
            ),
            Line(what="messages taken in", ours=speed(taken)),
            Line(what="messages given back", ours=speed(given)),
            on_disk(path, files),
            *forecast_lines(replies),
        ],
        notes=[
            f"{len(files)} sessions from {data}, one after the other; every line is tried before any is stored.",
            f"{replies.sessions} have usage figures: {len(replies.grown):,} prompts grew, {replies.shrunk} others shrank.",
        ],
        wrong=f"{differing} lines did not come out as they went in" if differing else "",
    )


def objects(path: Path) -> Iterator[object]:
    with path.open("rb") as file:
        yield from map(msgspec.json.decode, filter(bytes.strip, file))


def differences(one: Path, other: Path) -> int:
    """Lines that are not equal, as canonical JSON: there 1 is not true, and not 1.0."""
    canonical = msgspec.json.Encoder(order="deterministic").encode
    pairs = zip_longest(map(canonical, objects(one)), map(canonical, objects(other)))
    return sum(a != b for a, b in pairs)


def speed(sample: Sample) -> str:
    return per_second(rate([sample]))


def on_disk(path: Path, files: Sequence[Path]) -> Line:
    blobs = (file for file in Path(f"{path}.blobs").rglob("*") if file.is_file())
    ours = sum(file.stat().st_size for file in (path, *blobs))
    theirs = sum(file.stat().st_size for file in files)
    return Line(
        what="bytes on disk, beside those of the JSON lines",
        ours=f"{ours:,}",
        theirs=f"{theirs:,}",
        ratio=Spread.of([ours / theirs]),
    )


def learn(session: holdfast.Session, replies: Replies) -> None:
    """Go through a session as it grew, and look at every prompt that its replies tell of. No pack was recorded in it: each
    prompt was the whole transcript, so that is what a prompt is compared with."""
    state, known = SessionState(), Calibration()
    prompts = 0
    while page := session.events(after=state.version, limit=PAGE):
        for recorded in page:
            event = upcast.decode_event(recorded)
            if isinstance(event, MessageRecorded) and event.usage is not None and event.usage.input_tokens:
                prompts += 1
                record_growth(state, known, event.usage.input_tokens, replies)
                seq = state.version + 1
                known = calibration.note_usage_report(known, event.usage, event.source, seq)
                known = calibration.learn_from_pack(known, seq, event.counter, state.live_tokens, state.live)
            state = fold_session(state, event, recorded.type, recorded.time_us)
    replies.sessions += prompts > 0


def record_growth(state: SessionState, before: Calibration, prompt: int, replies: Replies) -> None:
    """At a prompt, in the state before its reply. Two lines of one reply have the same figures, and say nothing new."""
    real = prompt - before.prompt
    counted, messages = state.live_tokens - before.estimate, state.live - before.messages
    if not before.prompt or not real or not messages:
        return
    if real < 0:
        replies.shrunk += 1
    else:
        replies.grown.append(Growth(real, counted, before.measure(counted, messages)))


def forecast_lines(replies: Replies) -> list[Line]:
    """How far off the growth of a prompt was foretold, with calibration and without."""
    grown = replies.grown
    if not grown:
        return []
    ours, theirs = zip(*(growth.misses for growth in grown), strict=True)
    sizes = [growth.real for growth in grown]
    typical = [statistics.median(map(truediv, misses, sizes)) for misses in (ours, theirs)]
    overall = [sum(misses) / sum(sizes) for misses in (ours, theirs)]
    return [
        Line(
            what=f"error of the foretold growth of a prompt, {what}",
            ours=f"{errors[0]:.1%}",
            theirs=f"{errors[1]:.1%} uncalibrated",
            ratio=Spread.of([errors[0] / errors[1]]),
            goal=BETTER,
        )
        for what, errors in (("median", typical), ("all tokens", overall))
    ]
