"""What planning itself takes: against rendering the same view once, and with more and more history behind a boundary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import FSYNC, Bench, Sample, Turn, each_us, limit_met, measure_each, time_ratio
from benchmarks.report import Goal, Line, Table, micros
from holdfast.model.history.plans import Frugal, SummarizeOldest
from holdfast.model.history.prices import find_prices

CHEAP = Goal("at most", 1)


FLAT = Goal("at most", 1.5)


LIVE = 2_000
"""Messages in view."""


BEHIND = (2_000, 20_000)


KEPT = 200
"""Messages that a boundary leaves in view."""


MODEL = "claude-sonnet-4-5"


WINDOW = 1_000_000


PATIENT = Frugal(least=WINDOW)
"""Looks at everything, and never finds it worth a boundary."""


RENDER, LOOK, FOLD = "render", "plan, nothing pays", "plan, a fold pays"


def run(bench: Bench) -> list[Table]:
    behind = BEHIND[0], bench.pick(BEHIND[1], BEHIND[1] // 4)
    with holdfast.open(bench.file("planning.db")) as engine:
        live = conversation(engine, bench.file("live.jsonl"), LIVE)
        sessions = {size: conversation(engine, bench.file(f"{size}.jsonl"), size) for size in behind}
        for session in sessions.values():
            session.context.compact(strategy=SummarizeOldest(keep_recent=KEPT), model=MODEL)
        turns: dict[str, Turn] = {
            RENDER: render_turn(live),
            LOOK: plan_turn(live, PATIENT, folds=False),
            FOLD: plan_turn(live, Frugal(), folds=True),
        }
        turns |= {str(size): plan_turn(session, PATIENT, folds=False) for size, session in sessions.items()}
        samples = bench.in_turns(bench.pick(9, 3), turns, slices=bench.pick(3, 1))
    small, large = map(str, behind)
    pairs = [
        (f"{LOOK}, {LIVE:,} messages in view", LOOK, RENDER, CHEAP),
        (f"{FOLD}, {LIVE:,} messages in view", FOLD, RENDER, CHEAP),
        (f"plan, {behind[1]:,} messages behind", large, small, FLAT),
    ]
    lines = [
        Line(
            what=what,
            ours=micros(each_us(samples[ours])),
            theirs=micros(each_us(samples[theirs])),
            ratio=time_ratio(samples[ours], samples[theirs]),
            goal=goal,
            limit=limit_met(samples[ours], samples[FSYNC]),
        )
        for what, ours, theirs, goal in pairs
    ]
    return [
        Table(
            name="cost, planning",
            title="what a plan takes",
            ours="a plan",
            theirs=f"rendering it once; with {behind[0]:,} behind",
            lines=lines,
            notes=[
                f"Of what lies behind a boundary, a summary and {KEPT} messages are in view.",
                "The text of a summary is made when a plan is carried out, not when it is made.",
            ],
        )
    ]


def conversation(engine: holdfast.Engine, path: Path, messages: int) -> holdfast.Session:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines_of(messages))
    engine.admin.import_transcript(path, path.stem)
    return engine.session(path.stem)


def lines_of(messages: int) -> Iterator[dict[str, object]]:
    """A user who asks every tenth time, and calls with their results in between."""
    for number in range(messages):
        text = sample_messages.text(number)
        if number % 10 == 0:
            yield {"role": "user", "content": text}
        elif number % 10 == 9:
            yield {"role": "assistant", "content": text}
        elif number % 2:
            call = {"id": f"call-{number}", "name": "read", "args": {"path": f"src/part_{number % 97}.py"}}
            yield {"role": "assistant", "content": "", "tool_calls": [call]}
        else:
            result = {"tool_call_id": f"call-{number - 1}", "result": text, "is_error": False}
            yield {"role": "tool", "tool_results": [result]}


def render_turn(session: holdfast.Session) -> Turn:
    def render(_: int) -> None:
        session.context.render("anthropic")

    return turn(render)


def plan_turn(session: holdfast.Session, policy: Frugal, *, folds: bool) -> Turn:
    prices = find_prices(MODEL)
    assert prices is not None
    prices = msgspec.structs.replace(prices, window=WINDOW + prices.max_output)

    def plan(_: int) -> None:
        made = session.context.plan(prices=prices, policy=policy)
        assert (made.fold is not None) == folds

    return turn(plan)


def turn(work: Callable[[int], None]) -> Turn:
    def take() -> Sample:
        return msgspec.structs.replace(measure_each(work, [0]), commits=0)

    return take
