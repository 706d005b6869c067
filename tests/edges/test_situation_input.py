"""Situations and actions at the entrances: what models and careless callers hand in, what they are told, and what others
see of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import UPDATE_SITUATION, errors
from holdfast.core.situation.reasoning import NO_ACTIONS
from holdfast.model import limits
from holdfast.model.situation.situations import ACTION_MODES, FIELDS
from holdfast.types import Situation
from tests.core.json_strategies import json_objects, json_values
from tests.edges.cli import HOSTILE, CommandRunner
from tests.edges.engines import EngineDesk, contents, expect_refusal
from tests.edges.fact_engines import GUEST, open_ledger
from tests.edges.hostile_inputs import check_inputs
from tests.edges.situation_inputs import SITUATION_INPUTS
from tests.edges.surface import call, find_method, list_parameters
from tests.support import CountingIds, SteppingClock, figure

SAMPLE = figure(97, 1)
"""One value in so many is handed in, other ones at each entrance."""
EXAMPLES = figure(30, 5_000)
METHODS = tuple(f"situation.{name}" for name in ("get", "update", "refresh", "act", "actions", "reasoning"))


def test_every_argument_of_every_method_has_an_entrance() -> None:
    options = {
        f"{name}({option})" for name in METHODS for option in list_parameters(find_method(holdfast.Session, name))
    }
    assert options - {*SITUATION_INPUTS} == set()


@pytest.mark.parametrize("kind", ["memory", "memory awaited"])
def test_every_value_at_every_entrance_is_taken_or_refused(kind: str, desk: EngineDesk) -> None:
    engine = check_inputs(desk, kind, SITUATION_INPUTS, SAMPLE, lambda tenant: tenant.create_session("s"))
    assert engine.admin.verify().problems == ()


# What a model writes


@given(json_values | st.dictionaries(st.sampled_from([*FIELDS, "summary_update", "other"]), json_values, max_size=4))
@settings(max_examples=EXAMPLES)
def test_any_json_is_taken_as_far_as_it_goes(value: Any) -> None:
    """As an object or as its text, in a fence or not: the same comes of it, and nothing breaks."""
    told: list[tuple[object, ...]] = []
    for update in (value, json.dumps(value), f"```json\n{json.dumps(value)}\n```"):
        if type(update) is str and type(value) is str and update == value:
            continue  # that text is JSON, or is none, by itself
        session = holdfast.open("memory:", clock=SteppingClock()).create_session("s", actor="a")
        try:
            made = session.situation.update(update)
        except errors.InvalidInput as error:
            assert session.state().version == 1
            told.append((type(error).__name__, None, None))
        else:
            assert made.situation == session.situation.get()
            assert {*made.changed} == {name for name, _ in made.situation.fields}
            told.append(("", made.situation.fields, made.ignored))
    assert len({*map(str, told)}) == 1


@given(json_objects)
@settings(max_examples=EXAMPLES)
def test_the_tool_answers_whatever_its_arguments(arguments: dict[str, Any]) -> None:
    session = holdfast.open("memory:").create_session("s", actor="a")
    answer = session.situation.tool()(**arguments, goal="a goal")
    assert answer.startswith("Updated: goal.")
    assert len(answer) < 2_000
    assert ("Ignored" in answer) == bool(arguments.keys() - {"goal"})


def test_a_model_keeps_the_situation_by_a_tool(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "Where do we ship order 4711?")
    args = {"goal": "Ship order\n4711", "next_focus": None, "progress": "  ", "mood": "fine", "key_findings": ["a", 2]}
    reply = session.record("assistant", None, tool_calls=[{"name": UPDATE_SITUATION.name, "args": args}])
    done = session.run(reply.tool_calls[0], session.situation.tool())
    assert done.text == (
        "Updated: goal, key_findings. Ignored: 'mood'. "
        "The fields are goal, progress, current_approach, key_findings, next_focus."
    )
    found = session.situation.get()
    assert found.fields == (("goal", "Ship order 4711"), ("key_findings", "a; 2"))
    assert (found.iteration, found.by) == (1, "model")
    assert str(found) == "goal: Ship order 4711; key_findings: a; 2"
    assert [*UPDATE_SITUATION.parameters["properties"]] == [*FIELDS]


def test_what_cannot_be_read_is_told_and_changes_nothing(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.situation.update({"goal": "a goal"})
    updates: tuple[Any, ...] = (
        "{",
        "goal: x",
        "[1]",
        '"text"',
        "12",
        ["goal"],
        3,
        {"summary_update": [1]},
        {1j: "x"},
        "[" * 5_000,
    )
    for update in updates:
        with (
            expect_refusal(engine, errors.InvalidArgument)
            if type(update) is not dict
            else pytest.raises(errors.InvalidInput)
        ):
            session.situation.update(update)
    for nothing in (None, {}, "", " ", "{}", '{"summary_update": null}', {"goal": " \n"}, {"goal": None}):
        made = session.situation.update(nothing)
        assert (made.changed, made.situation.goal) == ((), "a goal")
    assert session.state().version == 2


def test_what_is_read_can_be_changed_and_ours_stays(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.situation.update({"goal": "a goal"})
    session.situation.get().origins.clear()
    session.state().standings[""].fields.clear()
    session.state().standings.clear()
    assert session.situation.update({"progress": "some"}).situation.goal == "a goal"
    assert session.state().standings[""].version == 3


def test_contradictions_are_refused(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    for given_ in (
        {"update": {"goal": "x"}, "clear": ["goal"]},
        {"clear": ["mood"]},
        {"clear": "goal"},
        {"update": {"goal": "x"}, "by": "rules"},
    ):
        with expect_refusal(engine, errors.InvalidArgument):
            session.situation.update(**given_)
    with expect_refusal(engine, errors.InvalidArgument):
        session.situation.act(tool_calls=[], outcomes={"c1_0": "timeout"})
    with expect_refusal(engine, errors.TooLarge):
        session.situation.act(tool_calls=[{"name": "read"}] * (limits.ACTION_CALLS + 1))
    with expect_refusal(engine, errors.TooLarge):
        session.situation.act(thinking="x" * limits.ACTION_TEXT_BYTES)
    calls: tuple[Any, ...] = ({}, {"name": "read", "more": 1}, "read", {"args": {}})
    for each in calls:
        with expect_refusal(engine, errors.InvalidArgument):
            session.situation.act(tool_calls=[each])


def test_what_is_too_long_is_cut_at_a_word_and_told(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    made = session.situation.update({"goal": "ship it " * 1_000, "progress": "x" * 100_000, "next_focus": "short"})
    assert made.truncated == ("goal", "progress")
    assert made.situation.goal.endswith(("ship…", "it…"))
    assert made.situation.next_focus == "short"
    for _, text in made.situation.fields:
        assert len(text.encode()) <= limits.SITUATION_BYTES


def test_clearing_is_explicit(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.situation.update({"goal": "a", "progress": "b"}, iteration=7, by="ada")
    made = session.situation.update({"goal": ""}, clear=["progress", "next_focus"], iteration=9)
    assert (made.changed, made.cleared) == ((), ("progress",))
    assert made.situation.fields == (("goal", "a"),)
    assert (made.situation.iteration, made.situation.origins["goal"].iteration) == (9, 7)
    assert session.situation.update(clear=["progress"]).cleared == ()


def test_a_retry_changes_nothing(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "Find the order.")
    first: list[Any] = [
        session.situation.update({"goal": "a"}, key="update"),
        session.situation.refresh(key="refresh"),
        session.situation.act(thinking="hm", key="act"),
    ]
    session.record("user", "And now something else.")
    before = contents(engine)
    again: list[Any] = [
        session.situation.update({"goal": "a"}, key="update"),
        session.situation.refresh(key="refresh"),
        session.situation.act(thinking="hm", key="act"),
    ]
    assert [each.changed for each in again[:2]] == [each.changed for each in first[:2]]
    assert again[2] == first[2]
    assert contents(engine) == before
    with expect_refusal(engine, errors.KeyConflict):
        session.situation.update({"goal": "b"}, key="update")
    with expect_refusal(engine, errors.KeyConflict):
        session.situation.act(thinking="ha", key="act")


# Rules


def test_rules_leave_to_others_what_they_wrote_not_long_ago(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "Where do we ship order 4711?")
    session.situation.update({"goal": "Ship order 4711"}, by="ada")
    for reply in range(limits.SITUATION_AGE):
        made = session.situation.refresh()
        assert (made.situation.goal, made.preserved) == ("Ship order 4711", ("goal",))
        assert made.situation.origins["goal"].by == "ada"
        session.record("assistant", f"This is reply {reply}.")
    made = session.situation.refresh()
    assert (made.situation.goal, made.preserved) == ("Where do we ship order 4711?", ())
    assert made.situation.by == made.situation.origins["goal"].by == "rules"
    assert made.situation.iteration == limits.SITUATION_AGE


def test_rules_empty_what_they_said_and_no_more_holds(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "Where do we ship order 4711?")
    assert session.situation.refresh().situation.next_focus == "The user waits for an answer"
    session.record("assistant", "To Lisbon.")
    made = session.situation.refresh()
    assert made.cleared == ("next_focus",)
    assert made.situation.key_findings == "To Lisbon."


# Frames, other conversations, ends


def test_a_frame_stands_for_itself(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.situation.update({"goal": "all of it"})
    frame = session.frame("find a hotel", budget=100)
    assert frame.situation.get() == Situation()
    assert frame.situation.refresh().situation.goal == "find a hotel"
    assert frame.situation.reasoning() == "SITUATION\ngoal: find a hotel"
    frame.situation.act(approach="look around")
    session.situation.act(approach="wait")
    assert [each.approach for each in frame.situation.actions()] == ["look around"]
    assert [each.approach for each in session.situation.actions()] == ["wait"]
    assert session.situation.get().fields == (("goal", "all of it"),)
    frame.pop("completed")
    assert frame.situation.get() == Situation()
    assert [each.approach for each in frame.situation.actions()] == ["look around"]
    with expect_refusal(engine, errors.AlreadyTerminal):
        frame.situation.act()
    assert engine.admin.verify().ok


def test_what_ends_a_conversation_ends_its_situation(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.situation.update({"goal": "a"})
    session.situation.act(approach="try")
    session.reset("anew")
    assert session.situation.get() == Situation()
    assert session.situation.reasoning() == NO_ACTIONS
    assert session.state().bulk == 0
    session.situation.update({"goal": "b"})
    session.end("done")
    assert session.situation.get() == Situation()
    for method, given_ in (("situation.update", ({"goal": "c"},)), ("situation.act", ())):
        with pytest.raises(errors.SessionClosedError):
            call(session, method)(*given_)
    session.destroy("gone", offload=False)
    for method in ("situation.get", "situation.actions", "situation.reasoning"):
        with expect_refusal(engine, errors.SessionDestroyedError):
            call(session, method)()
    with expect_refusal(engine, errors.SessionNotFound):
        engine.acting_as(tenant="other").session("s").situation.get()


def test_it_is_all_there_after_moving_house(engine: holdfast.Engine, desk: EngineDesk, tmp_path: Path) -> None:
    session = engine.create_session("s")
    session.situation.update({"goal": "a"}, iteration=3)
    session.situation.act("deep", approach="try", tool_calls=[{"name": "read", "outcome": "timeout"}])
    engine.admin.export(tmp_path / "all.jsonl")
    other = desk.open("memory", "other")
    other.admin.import_(tmp_path / "all.jsonl")
    assert other.session("s").situation.get() == session.situation.get()
    assert other.session("s").situation.actions() == session.situation.actions()
    engine.admin.rebuild()
    assert engine.session("s").situation.get() == session.situation.get()
    assert engine.admin.verify().ok


# Actions


def test_tool_calls_are_taken_from_the_transcript_once(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    calls = [{"name": name, "args": {"n": at}, "id": f"p{at}"} for at, name in enumerate(("search", "pay", "wait"))]
    reply = session.record("assistant", None, tool_calls=calls)
    session.result("p0", {"found": ["x" * 2_000]})
    first = session.situation.act("fast", outcomes={"p0": "failure"})
    assert [(each.name, each.outcome, each.call) for each in first.tool_calls] == [
        ("search", "failure", reply.tool_calls[0].id)
    ]
    assert len(first.tool_calls[0].result) == limits.ACTION_RESULT_CHARS
    assert first.tool_calls[0].args == {"n": 0}

    def pay(n: int) -> None:
        raise TimeoutError(f"{n} s are over")

    session.run(reply.tool_calls[1], pay)
    session.close_calls("the user left")
    second = session.situation.act("deep", reflection="it went wrong")
    assert [(each.name, each.outcome) for each in second.tool_calls] == [("pay", "timeout"), ("wait", "error")]
    assert session.situation.act().tool_calls == ()
    assert [each.seq for each in session.situation.actions(limit=2)] == [second.seq, second.seq + 1]
    assert session.situation.actions(before=second.seq) == [first]
    with expect_refusal(engine, errors.InvalidArgument):
        session.situation.act(outcomes={"p1": "timeout"})


def test_both_modes_show_the_latest_results(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    assert session.situation.reasoning() == session.situation.reasoning("deep") == NO_ACTIONS
    for number in range(5):
        session.situation.act(
            "fast", approach=f"way {number}", tool_calls=[{"name": "read", "result": f"found {number}"}]
        )
    for mode in ACTION_MODES:
        told = session.situation.reasoning(mode)
        assert [f"way {number}" in told for number in range(5)] == [False, True, True, True, True]
        assert [f"found {number}" in told for number in range(5)] == [False, True, True, True, True]
    assert "way 3" not in session.situation.reasoning(max_history=0)
    assert "way 0" in session.situation.reasoning(max_history=4)
    session.situation.update({"goal": "a"})
    fast, deep = session.situation.reasoning("fast"), session.situation.reasoning("deep")
    assert fast == "SITUATION\ngoal: a\n\nLATEST RESULTS\n- read(): success: found 4"
    assert "LATEST DETAILS\niteration 0, fast, " in deep
    assert deep.endswith("approach: way 4\n- read(): success\n  | found 4")
    reply = session.record("assistant", None, tool_calls=[{"name": "look"}])
    session.result(reply.tool_calls[0], "something newer")
    assert session.situation.reasoning().endswith("LATEST RESULTS\n- look({}): success: something newer")
    assert session.situation.reasoning("deep").endswith("- look({}): success\n  | something newer")


def test_a_dead_value_is_marked_in_what_there_is_to_reason_on(engine: holdfast.Engine) -> None:
    """Arguments of calls are shown as they were, and so is what came after the end of the fact."""
    session = engine.create_session("s")
    facts = session.ledger()
    facts.set("shipping city", "Valparaiso")
    session.situation.update({"key_findings": "The shipping city is Valparaiso.", "goal": "Ship it"})
    session.situation.act(
        thinking="The shipping city is Valparaiso.",
        tool_calls=[{"name": "look", "args": {"city": "Valparaiso"}, "result": "Valparaiso has a port."}],
    )
    for mode in ACTION_MODES:
        assert "shipping city is Valparaiso." in session.situation.reasoning(mode)
    facts.set("shipping city", "Lisbon")
    for mode in ACTION_MODES:
        context = session.situation.reasoning(mode)
        assert "The shipping city is [outdated: shipping city]." in context
        assert "shipping city is Valparaiso." not in context
        assert "Valparaiso has a port." in context
        assert "goal: Ship it" in context
    session.situation.update({"key_findings": "The shipping city was Valparaiso."})
    assert "The shipping city was Valparaiso." in session.situation.reasoning()
    assert session.situation.get().key_findings == "The shipping city was Valparaiso."


def test_what_the_reader_may_not_know_is_withheld_there(engine: holdfast.Engine) -> None:
    ledger = open_ledger(engine, user="ada")
    ledger.set("partner", "Globex Corporation 77", requires=["board"])
    session = engine.create_session("s", identity=GUEST, ledgers=[ledger.id])
    session.situation.act(
        tool_calls=[{"name": "look", "args": {"for": "Globex Corporation 77"}, "result": "Globex Corporation 77"}]
    )
    for mode in ACTION_MODES:
        assert "Globex" not in session.situation.reasoning(mode)
        assert "[withheld]" in session.situation.reasoning(mode)


# The command line


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    with holdfast.open(path, clock=SteppingClock(), ids=CountingIds()) as engine:
        session = engine.create_session("s")
        session.situation.update({"goal": f"be careful {HOSTILE}", "progress": "some"}, iteration=2)
        for number in range(5):
            outcome = "timeout" if number == 3 else "success"
            calls = [{"name": "read", "result": HOSTILE, "outcome": outcome}, {"name": "look"}]
            session.situation.act("deep", approach=f"way {number} {HOSTILE}", tool_calls=calls, iteration=number)
        session.frame("a part", budget=10).situation.update({"goal": "its own"})
        engine.create_session("empty")
    return path


def test_the_command_line_shows_it(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = CommandRunner(written, capsys)
    ran = cli("situation", "s")
    assert ran.code == 0
    assert "\x1b" not in ran.out
    fields, actions = ran.out.split("\n\n")
    assert [line.split()[0] for line in fields.splitlines()[2:]] == ["goal", "progress"]
    assert len(actions.splitlines()) == 1 + 4
    assert "timeout" in actions.splitlines()[3]
    assert len(cli("situation", "s", "-n", "0").out.split("\n\n")[1].splitlines()) == 1 + 5
    details = cli("situation", "s", "--details").out
    assert "LATEST DETAILS" in details
    assert "\x1b" not in details
    document = cli("situation", "s", "--json").document
    assert (document["iteration"], document["by"], len(document["actions"])) == (2, "model", 4)
    assert document["origins"]["progress"]["text"] == "some"
    assert cli("situation", "s", "--frame", "f8", "--json").document["goal"] == "its own"
    assert cli("situation", "empty").out == "There is no situation yet in the session 'empty'.\n"
    log = cli("log", "s").out
    assert "model, in iteration 2: goal: be careful" in log
    assert "deep, in iteration 3: read, look" in log
