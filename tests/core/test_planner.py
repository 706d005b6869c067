"""The planners that programs call by themselves: the vectors of the eviction planner, and laws on random conversations."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import errors, planner
from holdfast.model.content import Text
from holdfast.model.history.plans import AutoCompact, Collapse, Op, Snip, Spool, TimeDecayMicro, op_name
from holdfast.model.sessions.messages import Message
from holdfast.types import Classic, Faithful
from tests.core.plan_inputs import PRICES, conversations, count_quarters
from tests.support import figure

# Spooling


def test_small_bodies_stay_inline() -> None:
    assert planner.plan_spool("small", 50, 16) is None
    assert planner.plan_spool("x" * 1000, 0, 16) is None, "a threshold of 0 switches it off"
    assert planner.plan_spool("x" * 50, 50, 16) is None, "just as long as the threshold"


def test_large_bodies_are_shown_by_a_preview() -> None:
    body = "y" * 1000
    found = planner.plan_spool(body, 100, 32)
    assert found is not None
    assert (found.original_size, found.shown_bytes) == (1000, 32)
    assert found.preview.startswith("y" * 32 + "\n")
    assert "1000 bytes total" in found.preview
    assert len(found.preview) < len(body)
    named = planner.plan_spool(body, 100, 32, handle="h7_0")
    assert named is not None
    assert 'read_handle("h7_0")' in named.preview


def test_a_preview_splits_no_character() -> None:
    found = planner.plan_spool("🚀" * 100, 50, 10)
    assert found is not None
    assert found.preview.startswith("🚀🚀\n")
    assert "400 bytes total" in found.preview


@settings(max_examples=figure(50, 5_000))
@given(
    body=st.text() | st.lists(st.text(max_size=40), max_size=60), threshold=st.integers(0, 400), size=st.integers(0, 90)
)
def test_a_body_is_spooled_only_if_that_is_shorter(body: str | list[str], threshold: int, size: int) -> None:
    found = planner.plan_spool(body, threshold, size)  # type: ignore[arg-type]
    if found is not None:
        assert 0 < threshold < found.original_size
        assert found.shown_bytes <= size
        assert len(found.preview.encode()) < found.original_size
    assert found == planner.plan_spool(body, threshold, size)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"threshold": -1}, {"preview": "many"}, {"threshold": 1.5}])
def test_what_is_no_number_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidInput):
        planner.plan_spool("text", **wrong)  # type: ignore[arg-type]


# The classic policy, piece by piece

POLICY = Classic(target=0.5, preserve_turns=3)


WINDOW = 24_690


def test_without_pressure_and_idleness_nothing_is_done() -> None:
    assert planner.eviction_ops("none", False, WINDOW, POLICY) == ()


def test_an_operation_carries_its_real_parameters() -> None:
    (auto,) = planner.eviction_ops("auto", False, WINDOW, POLICY)
    assert isinstance(auto, AutoCompact)
    assert auto.preserve_turns == 3
    assert planner.eviction_ops("collapse", False, WINDOW, POLICY) == (Collapse(12_345),)
    (snip,) = planner.eviction_ops("snip", False, WINDOW, POLICY)
    assert isinstance(snip, Snip)
    assert snip.per_msg_ratio == 0.10


def test_idle_decay_comes_before_pressure() -> None:
    ops = planner.eviction_ops("collapse", True, WINDOW, POLICY)
    assert [op_name(op) for op in ops] == ["time_decay_micro", "collapse"]
    assert [op_name(op) for op in planner.eviction_ops("none", True, WINDOW, POLICY)] == ["time_decay_micro"]


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("pressing", ["none", "snip", "micro", "collapse", "auto"])
def test_idleness_implies_decay_and_each_operation_comes_once(pressing: str, idle: bool) -> None:
    ops = [op_name(op) for op in planner.eviction_ops(pressing, idle, WINDOW, POLICY)]  # type: ignore[arg-type]
    assert "time_decay_micro" in ops or not idle
    assert ("time_decay_micro" in ops) == (idle or pressing == "micro")
    assert len(ops) == len({*ops})


def test_operations_have_labels() -> None:
    ops: list[Op] = [Spool("h1"), Snip(0.1, 9), TimeDecayMicro(9, 1), Collapse(5_000), AutoCompact(2, 9)]
    assert [op_name(op) for op in ops] == ["spool", "snip", "time_decay_micro", "collapse", "auto_compact"]


def test_pressure_and_idleness_follow_their_thresholds() -> None:
    found = [planner.pressure(tokens, 100, Classic()) for tokens in (0, 69, 70, 80, 90, 95, 400)]
    assert found == ["none", "none", "snip", "micro", "collapse", "auto", "auto"]
    assert planner.is_idle(3_600_000_001, 1, 3_600)
    assert not planner.is_idle(1, 3_600_000_001, 3_600), "a clock that runs backwards makes nothing idle"


# Plans


def _messages(count: int, chars: int) -> list[Message]:
    found: list[Message] = []
    for number in range(1, count + 1):
        text = f"{number}: " + "word " * (chars // 5)
        role = "user" if number % 2 else "assistant"
        found.append(
            Message(
                id=f"m{number}",
                seq=number,
                role=role,  # type: ignore[arg-type]
                content=(Text(text),),
                tokens=count_quarters(text),
                time_us=number,
                principal="program",
            )
        )
    return found


@pytest.mark.parametrize("policy", ["faithful", "frugal", "classic", Faithful(threshold=0.6, target=0.3), None])
def test_a_conversation_that_is_too_long_is_planned_to_fit(policy: object) -> None:
    messages = _messages(60, 800)
    made = planner.plan_eviction(messages, window=4_000, policy=policy, count=count_quarters)  # type: ignore[arg-type]
    assert made.steps
    assert made.target_met
    assert made.figures.after <= 4_000 < made.figures.before
    assert made.fold is not None
    assert made.fold.text
    assert made == planner.plan_eviction(messages, window=4_000, policy=policy, count=count_quarters)  # type: ignore[arg-type]
    roomy = planner.plan_eviction(messages, window=200_000, policy="faithful", count=count_quarters)
    assert (roomy.steps, roomy.fold) == ((), None), "nothing is shortened while it fits"


@settings(max_examples=figure(13, 500))
@given(
    talk=conversations(), window=st.integers(2_000, 40_000), policy=st.sampled_from(["faithful", "frugal", "classic"])
)
def test_a_plan_tells_the_truth_of_itself(talk: object, window: int, policy: str) -> None:
    items = talk.items  # type: ignore[attr-defined]
    named = {"window": window, "policy": policy, "prices": PRICES, "now_us": talk.now_us, "count": count_quarters}  # type: ignore[attr-defined]
    made = planner.plan_eviction(items, view=talk.view, **named)  # type: ignore[attr-defined]
    assert made.figures.after <= made.figures.before
    assert made.target_met == (made.figures.after <= window)
    for step in made.steps:
        assert step.first_changed_index is None or step.first_changed_index < len(items)


def test_a_session_is_planned_from_outside_as_by_its_engine() -> None:
    with holdfast.open(":memory:") as engine:
        session = engine.create_session("s")
        for number in range(40):
            session.record("user", f"What about {number}? " + "please " * 90)
            session.record("assistant", f"It is {number}. " + "indeed " * 90)
        inside = session.context.plan(window=6_000)
        outside = holdfast.types.plan_eviction(session.messages(limit=1_000), window=6_000)
        assert [op_name(each.op) for each in outside.steps] == [op_name(each.op) for each in inside.steps]
        assert outside.fold is not None
        assert inside.fold is not None
        assert outside.fold.messages == inside.fold.messages


def test_what_is_no_conversation_is_refused() -> None:
    for wrong in (["text"], [None], [_messages(1, 9)[0], "text"]):
        with pytest.raises(errors.InvalidArgument):
            planner.plan_eviction(wrong, window=1_000)  # type: ignore[arg-type]
    for options in ({"window": 0}, {"window": 1_000, "policy": "best"}, {"window": 1_000, "cold": 1}):
        with pytest.raises(errors.InvalidInput):
            planner.plan_eviction([], **options)
    assert planner.plan_eviction([], window=1_000).steps == ()
