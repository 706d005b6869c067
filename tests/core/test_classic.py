"""The classic policy: thresholds of pressure, each with its operation, and what the executor makes of it.

The tests of the system that this vocabulary comes from are here by their names."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import holdfast
from holdfast.core.history.draft import PlanInput
from holdfast.core.history.outlines import OUTLINE_TOKENS
from holdfast.core.history.planner import build_plan, eviction_ops, is_idle, pressure
from holdfast.model.content import Text, ToolResult
from holdfast.model.history.handles import Handle
from holdfast.model.history.plans import (
    AutoCompact,
    Classic,
    Collapse,
    Occupancy,
    Op,
    Pressure,
    Residency,
    Snip,
    Spool,
    SummarizeOldest,
    TimeDecayMicro,
    TruncateAt,
    op_name,
)
from holdfast.model.history.views import Summary
from holdfast.model.sessions.messages import MessageGroup
from tests.core.plan_inputs import (
    PRICES,
    SECOND_US,
    GrowingConversation,
    apply_plan,
    classic,
    count_tokens,
    last_seq,
    make_prose,
    measure_items,
    plan_inputs,
    plan_tools,
    show_items,
)
from tests.support import figure

EXAMPLES = figure(20, 3_000)


PRESSURES: tuple[Pressure, ...] = get_args(Pressure)


CLASSIC = Classic()


# By name, from where the vocabulary comes from


def test_resident_tokens_counts_only_resident() -> None:
    held = Occupancy(
        tokens=100,
        system=0,
        summaries=0,
        messages=100,
        resident_tokens=100,
        spooled_tokens=5_000,
        paged_tokens=70,
        collapsed_tokens=200,
        handles=3,
        folded=0,
        boundary=1,
    )
    assert held.resident_tokens == 100
    assert held.non_resident_tokens == 5_270
    assert held.total_tokens == 5_370


def test_handle_table_insert_is_idempotent_by_id() -> None:
    """A piece is in the table once, as it was moved last."""
    session = holdfast.open("memory:").create_session("s")
    session.record("user", "read it")
    call = session.record("assistant", None, tool_calls=[{"name": "read", "args": {}}]).tool_calls[0]
    session.result(call, "line\n" * 100)
    (piece,) = session.handles.list()
    session.handles.page_out(piece)
    session.handles.page_out(piece, tier="semantic")
    session.handles.page_out(piece, tier="semantic")
    (row,) = session.state().views[""].reduced
    assert row.tier == "semantic"
    assert [(each.id, each.residency, each.tier) for each in session.handles.list()] == [
        (piece.id, "paged_out", "semantic")
    ]


def test_residency_occupies_context_only_when_resident() -> None:
    for residency in get_args(Residency):
        handle = Handle(id="h1", kind="tool_result", digest="", at=1, residency=residency)
        assert handle.is_in_context == (residency == "resident")


def test_plan_eviction_empty_when_no_pressure_and_no_idle() -> None:
    assert eviction_ops("none", False, 50_000, CLASSIC) == ()


def test_plan_eviction_emits_specific_op_for_recommended_action() -> None:
    """With the figures of the policy, not placeholders."""
    assert eviction_ops("auto", False, 1_000, replace(CLASSIC, preserve_turns=3)) == (
        AutoCompact(3, round(1_000 * CLASSIC.tail_share)),
    )
    assert eviction_ops("snip", False, 1_000, CLASSIC) == (Snip(0.10, 100),)


def test_plan_eviction_collapse_carries_caller_target_tokens() -> None:
    assert eviction_ops("collapse", False, 24_690, replace(CLASSIC, target=0.5)) == (Collapse(12_345),)


def test_plan_eviction_orders_time_decay_before_pressure() -> None:
    assert eviction_ops("collapse", True, 1_000, CLASSIC) == (TimeDecayMicro(2_000, 200), Collapse(650))


def test_plan_eviction_time_decay_only() -> None:
    assert eviction_ops("none", True, 1_000, CLASSIC) == (TimeDecayMicro(2_000, 200),)


def test_plan_eviction_micro_compact_emits_time_decay_without_idle() -> None:
    assert eviction_ops("micro", False, 1_000, CLASSIC) == (TimeDecayMicro(2_000, 200),)
    for pressing in PRESSURES:
        for idle in (False, True):
            ops = eviction_ops(pressing, idle, 1_000, CLASSIC)
            assert not idle or isinstance(ops[0], TimeDecayMicro)
            assert len({*map(op_name, ops)}) == len(ops), "each once"


def test_eviction_op_labels() -> None:
    labels: dict[Op, str] = {
        Spool("h1_0"): "spool",
        Snip(0.1, 5): "snip",
        TimeDecayMicro(5, 1): "time_decay_micro",
        Collapse(5_000): "collapse",
        AutoCompact(2, 100): "auto_compact",
        SummarizeOldest(): "summarize_oldest",
        TruncateAt(3): "truncate_at",
    }
    assert {op: op_name(op) for op in labels} == labels


# Pressure, and idling

FIRST: dict[Pressure, float] = {"snip": 0.70, "micro": 0.80, "collapse": 0.90, "auto": 0.95}


@pytest.mark.parametrize("pressing", FIRST)
def test_a_threshold_is_reached_with_its_first_token(pressing: Pressure) -> None:
    first = round(FIRST[pressing] * 1_000)
    assert pressure(first, 1_000, CLASSIC) == pressing
    assert PRESSURES.index(pressure(first - 1, 1_000, CLASSIC)) == PRESSURES.index(pressing) - 1
    assert pressure(5_000, 1_000, CLASSIC) == "auto"


@given(st.integers(0, 3_000), st.integers(0, 3_000), st.integers(1, 2_000))
def test_more_tokens_never_press_less(fewer: int, more: int, window: int) -> None:
    fewer, more = sorted((fewer, more))
    assert PRESSURES.index(pressure(fewer, window, CLASSIC)) <= PRESSURES.index(pressure(more, window, CLASSIC))


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 60), st.integers(0, 100_000))
def test_idling_takes_that_long_and_a_clock_that_goes_on(now_us: int, last_us: int, idle_s: int) -> None:
    idle = is_idle(now_us, last_us, idle_s)
    assert not idle or now_us - last_us >= idle_s * SECOND_US > 0
    assert not is_idle(last_us, last_us, idle_s)
    assert not is_idle(min(now_us, last_us), last_us, idle_s)
    assert not last_us or not idle_s or is_idle(last_us + idle_s * SECOND_US, last_us, idle_s)


# What is done is what the operation says


@settings(max_examples=EXAMPLES * 2)
@given(plan_inputs(), classic)
def test_what_is_done_first_is_what_the_pressure_asks_for(ground: PlanInput, policy: Classic) -> None:
    """Only what frees nothing is left out."""
    made_with = plan_tools()
    found = build_plan(ground, policy, made_with)
    replies = [message.time_us for item in ground.items for message in _messages(item) if message.role == "assistant"]
    idle = bool(replies) and is_idle(ground.now_us, replies[-1], policy.idle_s)
    pressing = pressure(count_tokens(ground, made_with), ground.window, policy)
    ops = eviction_ops(pressing, idle, ground.window, policy)
    done = [op for op in found.ops if op in ops]
    assert [*found.ops][: len(done)] == done
    assert done == [op for op in ops if op in done]
    assert len({*map(op_name, found.ops)}) == len(found.ops) or found.why == "forced", "each once"
    if not found.empty and found.why == "idle":
        assert (pressing, [op_name(op) for op in found.ops]) == ("none", ["time_decay_micro"])


def test_pressure_that_is_left_is_met_in_the_same_plan() -> None:
    """Excerpts come first; what is left is still too much, and there is a long text to snip."""
    talk = GrowingConversation()
    talk.say("user", Text(make_prose(14_500 * 4)))
    reply = talk.say("assistant", calls=1)
    talk.say("tool", results=[ToolResult(reply.tool_calls[0].id, (Text(make_prose(2_050 * 4)),))])
    for number in range(3):
        talk.say("user", Text(f"And {number}?"))
        talk.say("assistant", Text("Yes."))
    ground = talk.ground(20_000, PRICES)
    found = build_plan(ground, CLASSIC, plan_tools())
    assert [op_name(op) for op in found.ops] == ["time_decay_micro", "snip"]
    assert build_plan(apply_plan(ground, found), CLASSIC, plan_tools()).empty


def test_what_is_folded_is_not_shown_by_an_excerpt_as_well() -> None:
    talk = GrowingConversation()
    for number in range(4):
        talk.say("user", Text(make_prose(400, f"q{number}")))
        reply = talk.say("assistant", calls=1)
        talk.say("tool", results=[ToolResult(reply.tool_calls[0].id, (Text(make_prose(9_000, f"r{number}")),))])
    ground = replace(talk.ground(1, PRICES), now_us=talk.now_us + 4_000 * SECOND_US)
    ground = replace(ground, window=round(count_tokens(ground, plan_tools()) / 0.92))
    policy = Classic(
        preserve_turns=0, large=100, excerpt=1, snip=0.01, collapse=0.01, micro=None, auto=None, target=0.1
    )
    found = build_plan(ground, policy, plan_tools())
    assert [op_name(op) for op in found.ops] == ["time_decay_micro", "collapse"]
    assert found.fold is not None
    assert found.reduced == ()


def _messages(item: MessageGroup | Summary) -> tuple[holdfast.Message, ...]:
    return () if isinstance(item, Summary) else item.messages


def only(**step: float) -> Classic:
    """One threshold and no other."""
    none: dict[str, float | None] = {"snip": None, "micro": None, "collapse": None, "auto": None}
    return Classic(**{**none, **step}, large=300, excerpt=30)  # type: ignore[arg-type]


def roomy(ground: PlanInput) -> PlanInput:
    """A window that presses, and forces nothing."""
    return replace(ground, window=count_tokens(ground, plan_tools()) + 1, now_us=0)


@settings(max_examples=EXAMPLES)
@given(plan_inputs(), st.sampled_from([0.2, 0.65, 0.9]))
def test_collapse_takes_out_no_more_than_it_must(ground: PlanInput, target: float) -> None:
    ground = roomy(ground)
    found = build_plan(ground, replace(only(collapse=0.01), target=target), plan_tools())
    assume(found.fold is not None)
    assert found.fold is not None
    (step,) = found.steps
    assert isinstance(step.op, Collapse)
    gone = [item for item in ground.items if last_seq(item) <= found.fold.last]
    clean = [at for at in range(len(gone)) if all(last_seq(item) < gone[at].first for item in gone[:at])]
    stay = {*found.fold.kept}
    sized = zip(ground.items[: clean[-1]], measure_items(ground, plan_tools()), strict=False)
    left = step.before - sum(size for item, size in sized if isinstance(item, Summary) or item.seq not in stay)
    line = OUTLINE_TOKENS + sum(item.tokens for item in gone if isinstance(item, Summary))
    assert left + line > step.op.target_tokens, "at the clean cut before it would not have been enough"
    assert f"{found.fold.count:,} earlier messages are out of view" in found.fold.text


@settings(max_examples=EXAMPLES)
@given(plan_inputs(), st.integers(0, 3), st.sampled_from([0.1, 0.5, 1.0]))
def test_auto_compact_leaves_the_last_turns_if_they_fit(ground: PlanInput, turns: int, share: float) -> None:
    ground = roomy(ground)
    found = build_plan(ground, replace(only(auto=0.01), preserve_turns=turns, tail_share=share), plan_tools())
    assume(found.fold is not None)
    assert found.fold is not None
    (step,) = found.steps
    assert isinstance(step.op, AutoCompact)
    gone = [item for item in ground.items if last_seq(item) <= found.fold.last]
    kept = ground.items[len(gone) :]
    begun = sum(isinstance(item, MessageGroup) and item.starts_turn for item in kept)
    last = next(number for number in range(len(ground.items) - 1, -1, -1) if _replies(ground.items[number]))
    too_large = sum(measure_items(ground, plan_tools())[len(gone) - 1 :]) > step.op.tail_tokens
    assert begun >= turns or too_large or isinstance(gone[-1], Summary) or len(gone) <= last
    assert len(gone) <= last, "what the model has not seen stays, and its reply"


def _replies(item: MessageGroup | Summary) -> bool:
    return any(message.role == "assistant" for message in _messages(item))


@settings(max_examples=EXAMPLES)
@given(plan_inputs(), st.sampled_from(["snip", "micro"]))
def test_what_is_cut_short_keeps_its_beginning_and_end_and_says_where_the_rest_is(
    ground: PlanInput, which: str
) -> None:
    ground = roomy(ground)
    found = build_plan(ground, only(**{which: 0.01}), plan_tools())
    assume(found.reduced)
    (step,) = found.steps
    over = step.op.limit if isinstance(step.op, Snip) else step.op.over if isinstance(step.op, TimeDecayMicro) else 0
    before = {message.seq: message for item in show_items(ground) for message in _messages(item)}
    after = {message.seq: message for item in show_items(apply_plan(ground, found)) for message in _messages(item)}
    for each in found.reduced:
        was, now = before[each.message], after[each.message]
        assert was.tokens > over
        assert each.form == ("snip" if which == "snip" else "excerpt")
        assert which == "snip" or each.source is not None
        assert now.tokens < was.tokens
        assert f'read_handle("h{each.message}_{each.piece}")' in now.text
        kept = min(10, each.head)
        assert now.text[:kept] == was.text[:kept]
    touched = {each.message for each in found.reduced}
    assert all(after[seq] == message for seq, message in before.items() if seq not in touched)


def test_every_operation_is_known_by_a_name_of_its_own() -> None:
    kinds = get_args(Op)
    assert len({kind.__struct_config__.tag for kind in kinds}) == len(kinds)


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(plan_inputs(), st.sampled_from([0.3, 0.5, 0.65]))
def test_a_collapse_reaches_its_target_or_the_plan_says_that_it_does_not(ground: PlanInput, target: float) -> None:
    """The line that takes the place of what left is counted, also when it carries what earlier summaries said."""
    policy = Classic(snip=None, micro=None, collapse=target, auto=None, target=target, idle_s=0)
    made = build_plan(ground, policy, plan_tools())
    collapses = [step for step in made.steps if isinstance(step.op, Collapse)]
    if not collapses:
        return
    reached = all(step.after <= step.op.target_tokens for step in collapses if isinstance(step.op, Collapse))
    after = count_tokens(apply_plan(ground, made), plan_tools())
    assert made.figures.after == after
    assert made.target_met == (reached and after <= ground.window)
