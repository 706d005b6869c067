"""The policies of the gateway: an engine plans as the pure planner does, outdated results leave first, and no call is
wasted on a boundary that cannot pay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from benchmarks.cost_planner import PlannedSession
from benchmarks.cost_recordings import build_recording
from benchmarks.cost_score import PREFIX_TOKENS
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import Message, Session
from holdfast.core.history.outdated import find_outdated
from holdfast.core.history.views import show_message
from holdfast.errors import InvalidArgument
from holdfast.flows.history.guard import _move_spans
from holdfast.gateway.policies import FAITHFUL, FRUGAL, LEAST_WINDOW, choose_policy, plan_window
from holdfast.model.history.plans import DropOutdated, KeepLines, Plan, PlanPolicy, Reduction
from holdfast.model.history.prices import Prices, find_prices
from holdfast.text.guard.patterns import ValueSpan
from holdfast.types import MessageGroup, Spooling
from tests.property.session_model import ManualClock

WINDOW = 200_000
CALLS = 90
STEP_US = 20_000_000
COLD_AT = 60
"""Before this call the cache is lost."""


def find_listed(model: str) -> Prices:
    prices = find_prices(model)
    assert prices is not None
    return prices


PRICES = find_listed("claude-sonnet-4-6")


def show_file(name: str, version: int, lines: int = 120) -> str:
    return "\n".join(f"{at:6}→def {name}_{at}_v{version}(first, second): ..." for at in range(1, lines + 1))


def list_steps() -> list[tuple[dict[str, Any], str]]:
    """Calls with their results: files are read, edited and read again."""
    steps: list[tuple[dict[str, Any], str]] = []
    for number in range(CALLS):
        name = f"module_{number % 25}"
        path = f"/src/{name}.py"
        if number % 3 == 2:
            args = {"file_path": path, "old_string": f"old {number}", "new_string": f"new {number}"}
            steps.append(({"name": "Edit", "args": args}, "done"))
        else:
            steps.append(({"name": "Read", "args": {"file_path": path}}, show_file(name, number // 25)))
    return steps


def open_session(clock: ManualClock) -> tuple[holdfast.Engine, Session]:
    engine = holdfast.open("memory:", clock=clock, spooling=Spooling(threshold=0))
    return engine, engine.create_session("agent")


def record_step(session: Session, clock: ManualClock, number: int, step: tuple[dict[str, Any], str]) -> None:
    call, result = step
    clock.us += STEP_US
    reply = session.record("assistant", f"Step {number}.", tool_calls=[{"id": f"c{number}", **call}])
    clock.us += 600_000_000 if number == COLD_AT else 1_000_000
    session.result(reply.tool_calls[0].id, result)


def describe(plan: Plan) -> list[tuple[str, tuple[tuple[int, int], ...], int]]:
    return [(piece.form, piece.lines, piece.tokens) for piece in plan.reduced]


def plan_in_engine(policy: PlanPolicy) -> Sequence[tuple[int, str | None, list[Any], int]]:
    clock = ManualClock()
    engine, session = open_session(clock)
    found: list[tuple[int, str | None, list[Any], int]] = []
    with engine:
        session.record("user", "Clean up all modules.")
        for number, step in enumerate(list_steps()):
            plan = session.context.plan(policy=policy, prices=PRICES, window=WINDOW, before=PREFIX_TOKENS)
            if not plan.empty:
                session.context.compact(plan)
                found.append((number, plan.why, describe(plan), 0 if plan.fold is None else plan.fold.count))
            record_step(session, clock, number, step)
    return found


def plan_alone(policy: PlanPolicy) -> Sequence[tuple[int, str | None, list[Any], int]]:
    """By the pure planner, on the same messages."""
    clock = ManualClock()
    engine, session = open_session(clock)
    with engine:
        session.record("user", "Clean up all modules.")
        for number, step in enumerate(list_steps()):
            record_step(session, clock, number, step)
        messages: list[Message] = []
        while page := session.messages(before=messages[0].seq if messages else None, limit=100):
            messages[:0] = page
    recording = build_recording("agent", [with_time(message) for message in messages])
    found: list[tuple[int, str | None, list[Any], int]] = []

    class Watched(PlannedSession):
        calls = 0

        def _filled(self, made: Plan) -> Plan:
            if not made.empty:
                found.append((self.calls, made.why, describe(made), 0 if made.fold is None else made.fold.count))
            self.calls += 1
            return super()._filled(made)

    for _ in Watched(recording, policy, PRICES, WINDOW).prompts():
        pass
    return found


def with_time(message: Message) -> Message:
    at = datetime.fromtimestamp(message.time_us / 1_000_000, UTC).isoformat()
    return msgspec.structs.replace(message, metadata={"import": {"put": {"at": at}}})


@pytest.mark.parametrize("policy", [FAITHFUL, FRUGAL], ids=["faithful", "frugal"])
def test_an_engine_makes_the_boundaries_of_the_pure_planner(policy: PlanPolicy) -> None:
    found = plan_in_engine(policy)
    assert found == plan_alone(policy)
    forms = {form for _, _, pieces, _ in found for form, _, _ in pieces}
    assert {"lines", "reread"} <= forms
    assert COLD_AT + 1 in [number for number, *_ in found]


def test_outdated_results_leave_first_and_the_others_keep_their_names() -> None:
    clock = ManualClock()
    engine, session = open_session(clock)
    with engine:
        session.record("user", "Clean up all modules.")
        for number, step in enumerate(list_steps()[:60]):
            record_step(session, clock, number, step)
        plan = session.context.plan(policy=FAITHFUL, prices=PRICES, window=WINDOW, cold=True)
        assert plan.fold is None
        assert any(isinstance(op, DropOutdated) for op in plan.ops)
        assert any(isinstance(op, KeepLines) for op in plan.ops)
        before = session.context.view()
        session.context.compact(plan)
        shown = "\n".join(message.text for item in session.context.view().items for message in list_messages(item))
        assert "[outdated: the same was read again later in this conversation; read_handle(" in shown
        for piece in plan.reduced:
            handle = f"h{piece.message}_{piece.piece}"
            whole = next(
                message.text for item in before.items for message in list_messages(item) if message.seq == piece.message
            )
            assert session.handles.read(handle).text == whole


def test_on_a_cold_cache_messages_are_folded_only_if_shorter_results_are_not_enough() -> None:
    clock = ManualClock()
    engine, session = open_session(clock)
    with engine:
        for number in range(30):
            if number % 5 == 0:
                session.record("user", f"Look at the next modules, from {number} on.")
            args = {"file_path": f"/src/module_{number}.py"}
            record_step(session, clock, number, ({"name": "Read", "args": args}, show_file(f"module_{number}", 1)))

        def plan(tokens: float) -> Plan:
            """With a window whose cold share is so many tokens."""
            window = round(tokens / FAITHFUL.cold)
            return session.context.plan(policy=FAITHFUL, prices=PRICES, window=window, cold=True)

        shorter = plan(WINDOW).figures
        assert shorter.after < shorter.before
        enough = plan((shorter.before + shorter.after) / 2)
        assert enough.fold is None
        assert enough.figures.after == shorter.after
        folded = plan(shorter.after * 0.95)
        assert (folded.why, folded.fold is None) == ("cold", False)
        assert folded.figures.after < shorter.after
        session.context.compact(folded)
        assert plan(shorter.after * 0.95).empty


def list_messages(item: object) -> tuple[Message, ...]:
    return item.messages if isinstance(item, MessageGroup) else ()


def find_forms(*steps: tuple[str, dict[str, Any], str]) -> list[str]:
    """The forms of the results of these calls, in order; empty for those that are not outdated."""
    clock = ManualClock()
    engine, session = open_session(clock)
    with engine:
        for number, (name, args, result) in enumerate(steps):
            record_step(session, clock, number, ({"name": name, "args": args}, result))
        items = session.context.view().items
    outdated = find_outdated(items)
    results = [message for item in items for message in list_messages(item) if message.tool_results]
    return [outdated.get((message.seq, 0), "") for message in results]


PATH = {"file_path": "/src/a.py"}
PART = {"file_path": "/src/a.py", "offset": 3, "limit": 2}


@pytest.mark.parametrize(
    ("steps", "forms"),
    [
        ([("Read", PATH, show_file("a", 1)), ("Read", PATH, show_file("a", 2))], ["reread", ""]),
        ([("Read", PART, "     3→x\n     4→y"), ("Read", PATH, show_file("a", 2))], ["reread", ""]),
        ([("Read", PART, "   300→x\n   301→y"), ("Read", PATH, show_file("a", 2))], ["", ""]),
        ([("Read", PATH, show_file("a", 1)), ("Read", PART, "     3→x\n     4→y")], ["", ""]),
        ([("Read", PATH, show_file("a", 1)), ("Read", PATH, "File unchanged since last read.")], ["", ""]),
        ([("Read", PATH, show_file("a", 1)), ("Read", PATH, "Error: no such file")], ["", ""]),
        ([("Read", PATH, show_file("a", 1)), ("Write", {**PATH, "content": "new"}, "done")], ["rewritten", ""]),
        ([("Read", PATH, show_file("a", 1)), ("Edit", {**PATH, "old_string": "a", "new_string": "b"}, "ok")], ["", ""]),
        ([("Bash", {"command": "git status"}, "M a"), ("Bash", {"command": "git status"}, "M b")], ["reread", ""]),
        (
            [
                ("Bash", {"command": "git status"}, "M a"),
                ("Bash", {"command": "cd lib"}, ""),
                ("Bash", {"command": "git status"}, "M b"),
            ],
            ["", "", ""],
        ),
        ([("Bash", {"command": "make x"}, "1"), ("Bash", {"command": "make x"}, "2")], ["", ""]),
        ([("Grep", {"path": "/src", "pattern": "a"}, "x"), ("Grep", {"path": "/src", "pattern": "b"}, "x")], ["", ""]),
    ],
)
def test_only_what_is_certain_is_outdated(steps: list[tuple[str, dict[str, Any], str]], forms: list[str]) -> None:
    assert find_forms(*steps) == forms


def test_policies_have_names() -> None:
    assert choose_policy("faithful") is FAITHFUL
    assert choose_policy("frugal") is FRUGAL
    with pytest.raises(InvalidArgument, match="policy"):
        choose_policy("classic")  # type: ignore[arg-type]


@given(st.integers(0, 300_000), st.integers(0, 300_000), st.none() | st.integers(1, 2_000_000))
def test_a_plan_is_made_for_what_the_model_can_read(max_output: int, head: int, configured: int | None) -> None:
    for model in ("claude-sonnet-4-6", "claude-sonnet-4-5", "gpt-4o"):
        prices = find_listed(model)
        window = plan_window(prices, max_output, head, configured)
        least = min(LEAST_WINDOW, configured or LEAST_WINDOW)
        assert least <= window <= max(least, prices.window)
        assert window == least or window + head <= (configured or WINDOW)


def test_values_are_found_in_the_lines_that_are_shown() -> None:
    """The guard knows where values are in what was recorded; it has to find them in what is shown."""
    clock = ManualClock()
    engine, session = open_session(clock)
    with engine:
        session.record("user", "Clean up all modules.")
        text = "port = 8080\nnothing\nnothing more\nhost = db_7.internal\nend"
        record_step(session, clock, 0, ({"name": "Read", "args": PATH}, text))
        recorded = session.messages()[-1]
    reduction = Reduction(
        message=recorded.seq, piece=0, form="lines", lines=((0, 1), (3, 4)), tokens=20, size=0, digest=""
    )
    shown = show_message(recorded, {recorded.seq: {0: reduction}})[0]
    spans = [ValueSpan(text.index(value), text.index(value) + len(value), value) for value in ("8080", "more", "db_7")]
    moved = _move_spans(spans, recorded, shown, {0: reduction})
    assert [shown.text[span.start : span.stop] for span in moved] == ["8080", "db_7"]
