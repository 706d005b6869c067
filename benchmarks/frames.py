"""What nested work costs: frames and tools over a durable append, recovery with a history behind, many frames at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import (
    FSYNC,
    Bench,
    Sample,
    Samples,
    Turn,
    each_us,
    limit_met,
    measure_each,
    measure_time,
    time_ratio,
)
from benchmarks.report import Goal, Line, Table, micros

APPEND = "session.record"
TWO_APPENDS = Goal("at most", 2.0)
FLAT = Goal("at most", 1.5)
HISTORIES = (100, 1_000, 10_000, 100_000)
CROWDS = (10, 100, 1_000, 10_000)
WARM, COLD = RECOVERIES = ("recover()", "open to recover()")
BUDGET = 1_000_000_000
CALL = {"name": "look_up", "args": {"key": "vendor A"}}


def run(bench: Bench) -> list[Table]:
    return [_over_an_append(bench), _measure_histories(bench), _measure_crowds(bench)]


def _over_an_append(bench: Bench) -> Table:
    times, rounds, slices = 20, bench.pick(11, 3), bench.pick(20, 4)
    numbers = itertools.count()
    with holdfast.open(bench.file("append.db")) as engine:
        sample_messages.warm(engine.store)
        plain, nested, handy = (engine.create_session(name) for name in ("plain", "nested", "handy"))
        root = nested.frame("the whole", budget=BUDGET)

        def record() -> Sample:
            texts = [sample_messages.text(next(numbers)) for _ in range(times)]
            return measure_each(lambda text: plain.record(sample_messages.ROLE, text), texts)

        def run_tool() -> Sample:
            """Only the intent and the outcome: the reply that calls for them is recorded before."""
            calls = handy.record("assistant", tool_calls=[CALL] * times).tool_calls
            return measure_each(lambda call: handy.run(call, lambda key: key), calls)

        turns: dict[str, Turn] = {
            APPEND: record,
            "push and pop a root": _repeat_turn(times, lambda: nested.frame("a part", budget=1_000).pop()),
            "push and pop a child": _repeat_turn(
                times, lambda: root.frame("a part", budget=1_000).pop("completed", "Done.")
            ),
            "run a tool: intent and outcome": run_tool,
            "reserve and commit": _repeat_turn(
                times, lambda: root.budget.commit(root.budget.reserve("a reply", 100), 90)
            ),
        }
        samples = bench.in_turns(rounds, turns, slices=slices)
    lines = [
        Line(
            what=what,
            ours=micros(each_us(samples[what])),
            theirs=micros(each_us(samples[APPEND])),
            ratio=time_ratio(samples[what], samples[APPEND]),
            goal=TWO_APPENDS,
            limit=limit_met([_two_commits(each) for each in samples[what]], samples[FSYNC]),
        )
        for what in list(turns)[1:]
    ]
    notes = [f"{rounds} rounds of {slices} turns; the append records {len(sample_messages.text(0))} characters."]
    return Table(
        name="frames", title="each is two durable appends", ours="ours", theirs="one append", lines=lines, notes=notes
    )


def _repeat_turn(times: int, work: Callable[[], object]) -> Turn:
    return lambda: measure_each(lambda _: work(), range(times))


def _two_commits(sample: Sample) -> Sample:
    return msgspec.structs.replace(sample, commits=2 * sample.operations)


def _measure_histories(bench: Bench) -> Table:
    sizes = HISTORIES[: bench.pick(4, 3)]
    rounds, slices = bench.pick(9, 3), bench.pick(5, 3)
    paths = {size: _history(bench.file(f"history-{size}.db"), size) for size in sizes}
    with ExitStack() as stack:
        warm = {size: stack.enter_context(holdfast.open(path)) for size, path in paths.items()}
        turns = {_name(WARM, size): _recover_turn(engine) for size, engine in warm.items()}
        turns |= {_name(COLD, size): _open_turn(path) for size, path in paths.items()}
        samples = bench.in_turns(rounds, turns, slices=slices)
    return Table(
        name="recovery",
        title="three frames and a tool of unknown outcome, with a history behind",
        ours="ours",
        theirs=f"{sizes[0]} events",
        lines=_compare_sizes(samples, RECOVERIES, sizes, _name, FLAT),
    )


def _name(action: str, size: int) -> str:
    return f"{action}, {size:,} events"


def _history(path: Path, events: int) -> Path:
    with holdfast.open(path) as engine:
        sample_messages.fill(engine.store, "long", events)
        session = engine.session("long")
        frame = session.frame("the whole", budget=9_000)
        frame = frame.frame("a part", budget=6_000).frame("a part of the part", budget=3_000)
        frame.start_call(frame.record("assistant", tool_calls=[CALL]).tool_calls[0])
    return path


def _recover_turn(engine: holdfast.Engine) -> Turn:
    scope = engine.session("long").scope
    return _repeat_turn(10, lambda: _check_recovery(engine.recover(scope)))


def _check_recovery(recovery: holdfast.types.Recovery) -> None:
    assert (recovery.frames_recovered, len(recovery.unknown_outcomes)) == (3, 1), recovery


def _open_turn(path: Path) -> Turn:
    """A new process after a crash, but for the import."""

    def work() -> None:
        with holdfast.open(path) as engine:
            _check_recovery(engine.recover(engine.session("long").scope))

    return lambda: measure_time(1, work, commits=1)


def _measure_crowds(bench: Bench) -> Table:
    sizes = CROWDS[: bench.pick(4, 3)]
    rounds, slices = bench.pick(9, 3), bench.pick(5, 3)
    actions: dict[str, Callable[[holdfast.Session, holdfast.Frame], object]] = {
        "push and pop a child": lambda _, root: root.frame("one more", budget=1).pop("completed", "Done."),
        "use tokens": lambda _, root: root.budget.use(1),
        "stack()": lambda session, _: session.frames.stack(),
        "recover()": lambda session, _: session.recover(),
    }
    paths = {size: _crowd(bench.file(f"crowd-{size}.db"), size) for size in sizes}
    with ExitStack() as stack:
        turns: dict[str, Turn] = {}
        for size, path in paths.items():
            session = stack.enter_context(holdfast.open(path)).session("crowd")
            root = session.frames.get(session.frames.list(limit=1)[0].id)
            for action, work in actions.items():
                turns[_crowd_name(action, size)] = _repeat_turn(5, _bound(work, session, root))
            turns[_crowd_name("open to stack()", size)] = _stack_turn(path)
        samples = bench.in_turns(rounds, turns, slices=slices)
    return Table(
        name="live frames",
        title="in one session",
        ours="ours",
        theirs=f"{sizes[0]} live frames",
        lines=_compare_sizes(samples, [*actions, "open to stack()"], sizes, _crowd_name, None),
        notes=["What looks at all frames that live grows with them; nothing grows with those that have ended."],
    )


def _bound(
    work: Callable[[holdfast.Session, holdfast.Frame], object], session: holdfast.Session, root: holdfast.Frame
) -> Callable[[], object]:
    return lambda: work(session, root)


def _crowd_name(action: str, size: int) -> str:
    return f"{action}, {size:,} live"


def _crowd(path: Path, frames: int) -> Path:
    with holdfast.open(path) as engine:
        root = engine.create_session("crowd").frame("the whole", budget=BUDGET)
        for number in range(frames - 1):
            root.frame(f"part {number} of many", budget=1_000)
    return path


def _stack_turn(path: Path) -> Turn:
    def work() -> None:
        with holdfast.open(path) as engine:
            assert engine.session("crowd").frames.stack()

    return lambda: measure_time(1, work)


def _compare_sizes(
    samples: Samples, actions: Sequence[str], sizes: Sequence[int], name: Callable[[str, int], str], goal: Goal | None
) -> list[Line]:
    """Each action at each size, over the same at the smallest."""
    return [
        Line(
            what=name(action, size),
            ours=micros(each_us(samples[name(action, size)])),
            theirs=micros(each_us(samples[name(action, sizes[0])])),
            ratio=time_ratio(samples[name(action, size)], samples[name(action, sizes[0])]),
            goal=goal,
            limit=limit_met(samples[name(action, size)], samples[FSYNC]),
        )
        for action in actions
        for size in sizes[1:]
    ]
