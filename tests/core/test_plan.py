"""The planner keeps its laws on any conversation: what it reports is what happens, it pays, and it comes to an end."""

from __future__ import annotations

import copy
import itertools

from hypothesis import event, given, reject, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.history.draft import PlanInput, meets_targets
from holdfast.core.history.planner import build_plan, plan_strategy
from holdfast.core.history.views import pieces_of
from holdfast.errors import CriticalOverflow
from holdfast.model.content import Text, ToolResult, text_of
from holdfast.model.history.handles import piece_id
from holdfast.model.history.plans import (
    Faithful,
    Frugal,
    Plan,
    PlanPolicy,
    Reduction,
    Spool,
    Strategy,
    SummarizeOldest,
    TruncateAt,
    op_name,
)
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import Calibration
from tests.core.plan_inputs import (
    PRICES,
    SECOND_US,
    GrowingConversation,
    apply_plan,
    calibrations,
    count_quarters,
    count_tokens,
    faithful,
    first_difference,
    frugal,
    last_seq,
    make_prose,
    plan_inputs,
    plan_tools,
    policies,
    show_items,
)
from tests.support import figure

EXAMPLES = figure(20, 5_000)


strategies: st.SearchStrategy[Strategy | None] = st.one_of(
    st.none(),
    st.none(),
    st.none(),
    st.builds(SummarizeOldest, st.integers(0, 12)),
    st.builds(TruncateAt, st.integers(0, 12)),
)


costs = st.sampled_from([0, 0, 15_000_000])


def planned(
    ground: PlanInput, policy: PlanPolicy, strategy: Strategy | None, calibration: Calibration, cost: int
) -> Plan:
    made_with = plan_tools(calibration=calibration, summarizing=cost)
    try:
        found = (
            build_plan(ground, policy, made_with)
            if strategy is None
            else plan_strategy(ground, strategy, policy, made_with)
        )
    except CriticalOverflow:
        assert strategy is not None
        assert ground.system > ground.window, "nothing here is Critical but what stands before the conversation"
        reject()
    event(f"{found.policy}, {found.why}")
    return found


PLANS = (plan_inputs(), policies, strategies, calibrations, costs)


@settings(max_examples=EXAMPLES)
@given(*PLANS)
def test_a_plan_reports_what_it_does(
    ground: PlanInput, policy: PlanPolicy, strategy: Strategy | None, calibration: Calibration, cost: int
) -> None:
    found = planned(ground, policy, strategy, calibration, cost)
    made_with = plan_tools(calibration=calibration)
    after = apply_plan(ground, found)
    assert found.first_changed == first_difference(show_items(ground), show_items(after))
    assert found.figures.before == count_tokens(ground, made_with)
    assert found.target_met == (count_tokens(after, made_with) <= ground.window and meets_targets(found.steps))
    if found.empty:
        assert (found.why, found.steps, found.reduced, found.fold) == (None, (), (), None)
        return
    assert found.why is not None
    assert found.figures.after == count_tokens(after, made_with) < found.figures.before
    figures = [found.figures.before, *(each.after for each in found.steps)]
    assert [each.before for each in found.steps] == figures[:-1]
    assert figures[-1] == found.figures.after
    assert figures == sorted(figures, reverse=True)


@settings(max_examples=EXAMPLES)
@given(*PLANS)
def test_what_is_shown_has_the_tokens_that_it_is_said_to_have(
    ground: PlanInput, policy: PlanPolicy, strategy: Strategy | None, calibration: Calibration, cost: int
) -> None:
    """What of several parts is cut short is one text, whose tokens are counted at once: one token more or less for it."""
    after = apply_plan(ground, planned(ground, policy, strategy, calibration, cost))
    recorded = {message.seq: message for item in ground.items for message in messages_in(item)}
    for item in show_items(after):
        if isinstance(item, Summary):
            assert item.tokens == count_quarters(item.text)
        for message in messages_in(item):
            was, now = pieces_of(recorded[message.seq]), pieces_of(message)
            less = several = 0
            for (_, before, _), (_, parts, _) in zip(was, now, strict=True):
                less += sum(count_quarters(text_of([part])) for part in before) - sum(
                    count_quarters(text_of([each])) for each in parts
                )
                several += len(before) > len(parts)
            assert abs(recorded[message.seq].tokens - message.tokens - less) <= several


@settings(max_examples=EXAMPLES * 2)
@given(*PLANS)
def test_once_plans_are_carried_out_there_is_nothing_more_to_do(
    ground: PlanInput, policy: PlanPolicy, strategy: Strategy | None, calibration: Calibration, cost: int
) -> None:
    """One plan is nearly always enough. In a few views a second one follows, and frees more."""
    after = apply_plan(ground, planned(ground, policy, strategy, calibration, cost))
    again = planned(after, policy, strategy, calibration, cost)
    if not again.empty:
        assert again.figures.after < again.figures.before, again.explain()
        again = planned(apply_plan(after, again), policy, strategy, calibration, cost)
    assert again.empty, again.explain()


@settings(max_examples=EXAMPLES * 2)
@given(plan_inputs(5) | plan_inputs(5, fitting=True), frugal, calibrations, costs)
def test_what_is_chosen_costs_no_more_than_doing_nothing_or_than_any_single_operation(
    ground: PlanInput, policy: Frugal, calibration: Calibration, cost: int
) -> None:
    """A summary takes all the room that it has, as it is counted on."""
    made_with = plan_tools(calibration, cost, summarize=lambda items, tokens: "s" * tokens)
    found = build_plan(ground, policy, made_with)
    event(f"{found.why} {[op_name(op) for op in found.ops]}")
    if found.why == "pays":
        assert found.figures.before - found.figures.after >= policy.least
        assert found.figures.net <= min([0, *(figures.net for _, figures in found.considered)])
    elif found.why is None:
        assert found.figures.before <= ground.window or not found.target_met
        assert all(figures.net > 0 for _, figures in found.considered)
    else:
        assert found.why == "forced"
        assert found.figures.before > ground.window


@settings(max_examples=EXAMPLES)
@given(*PLANS)
def test_planning_changes_nothing_and_says_the_same_each_time(
    ground: PlanInput, policy: PlanPolicy, strategy: Strategy | None, calibration: Calibration, cost: int
) -> None:
    before = copy.deepcopy(ground)
    found = planned(ground, policy, strategy, calibration, cost)
    assert ground == before
    assert planned(before, policy, strategy, calibration, cost) == found
    assert found.explain()


@settings(max_examples=EXAMPLES)
@given(*PLANS)
def test_what_the_model_has_not_seen_is_shown_as_recorded_but_for_a_preview(
    ground: PlanInput, policy: PlanPolicy, strategy: Strategy | None, calibration: Calibration, cost: int
) -> None:
    found = planned(ground, policy, strategy, calibration, cost)
    replies = [message.seq for item in ground.items for message in messages_in(item) if message.role == "assistant"]
    last = max(replies, default=0)
    after = {message.seq: message for item in show_items(apply_plan(ground, found)) for message in messages_in(item)}
    spooled = {each.op.handle for each in found.steps if isinstance(each.op, Spool)}
    for item in show_items(ground):
        for message in messages_in(item):
            if message.seq < last:
                continue
            for (number, was, _), (_, now, _) in zip(pieces_of(message), pieces_of(after[message.seq]), strict=True):
                assert now == was or piece_id(message.seq, number) in spooled
    assert all(handle_of(each) in spooled for each in found.reduced if each.form == "spool")


@settings(max_examples=EXAMPLES)
@given(*PLANS)
def test_a_fold_takes_the_oldest_units_whole_and_names_each_message(
    ground: PlanInput, policy: PlanPolicy, strategy: Strategy | None, calibration: Calibration, cost: int
) -> None:
    found = planned(ground, policy, strategy, calibration, cost)
    folded = found.fold
    if folded is None:
        return
    inside = [item for item in ground.items if last_seq(item) <= folded.last]
    outside = ground.items[len(inside) :]
    assert [*inside, *outside] == [*ground.items], "the oldest"
    assert all(start(item) > folded.last for item in outside), "none is cut"
    assert (folded.first, folded.last) == (min(map(start, inside)), max(map(last_seq, inside)))
    told = sorted(message.seq for item in inside for message in messages_in(item))
    assert sorted((*folded.messages, *folded.kept)) == told
    assert folded.summaries == tuple(item.seq for item in inside if isinstance(item, Summary))
    counts = [item.messages if isinstance(item, Summary) else len(item.messages) for item in inside]
    assert folded.count + len(folded.kept) == sum(counts)
    assert folded.tokens == count_quarters(folded.text)
    assert not {each.message for each in found.reduced} & {*folded.messages}, "what left is not shown otherwise as well"


@settings(max_examples=EXAMPLES)
@given(plan_inputs(6, fitting=True), st.integers(0, 8), st.booleans())
def test_a_strategy_keeps_as_many_of_the_newest_messages_as_it_says_whole_units(
    ground: PlanInput, keep: int, summarised: bool
) -> None:
    """Fewer if a unit has more than there is room for; more if the model has not seen them, one reaches into another,
    or it is the question that waits for an answer."""
    strategy = SummarizeOldest(keep) if summarised else TruncateAt(keep)
    found = plan_strategy(ground, strategy, Frugal(), plan_tools())
    if found.fold is None:
        return
    assert [step.op for step in found.steps] == [strategy]
    stay = {*found.fold.kept}
    kept = [item for item in apply_plan(ground, found).items[1:] if start(item) not in stay]
    gone = [item for item in ground.items if item not in kept]
    messages = sum(len(messages_in(item)) for item in kept)
    assert messages + max(1, len(messages_in(gone[-1]))) > keep
    replies = [any(message.role == "assistant" for message in messages_in(item)) for item in kept]
    unseen = sum(replies) == 1 and replies[0]
    reaches = any(start(later) < last_seq(item) for at, item in enumerate(kept) for later in kept[at + 1 :])
    assert messages <= keep or unseen or reaches
    assert summarised or f"{found.fold.count:,} earlier messages are out of view" in found.fold.text


@settings(max_examples=EXAMPLES)
@given(plan_inputs(), policies, calibrations, st.sampled_from([0, 1, 3_600 * SECOND_US, 1 << 50]))
def test_a_clock_that_stands_still_or_runs_backwards_makes_nothing_idle_nor_cold(
    ground: PlanInput, policy: PlanPolicy, calibration: Calibration, back_us: int
) -> None:
    times = [message.time_us for item in ground.items for message in messages_in(item) if message.role == "assistant"]
    ground = replace(ground, now_us=max(0, times[-1] - back_us) if times else 0, cold=False)
    found = planned(ground, policy, None, calibration, 0)
    assert found.why != "idle"
    assert not found.figures.cold or not times, "before the first reply nothing is in any cache"


def messages_in(item: HistoryItem) -> tuple[Message, ...]:
    return () if isinstance(item, Summary) else item.messages


def start(item: HistoryItem) -> int:
    return item.first if isinstance(item, Summary) else item.seq


def handle_of(piece: Reduction) -> str:
    return piece_id(piece.message, piece.piece)


# Boundary after boundary


@settings(max_examples=figure(2, 200))
@given(st.sampled_from([SummarizeOldest(2), TruncateAt(2), None]), st.integers(1, 3), st.integers(0, 1 << 30))
def test_folds_of_folds_stay_small_and_stand_for_all_that_was_said(
    strategy: Strategy | None, calls: int, seed: int
) -> None:
    talk, policy, said = GrowingConversation(), Frugal(preserve_turns=1), 0
    for turn in range(50):
        talk.say("user", Text(make_prose(300, f"q{seed + turn}")))
        reply = talk.say("assistant", Text(make_prose(300, f"a{turn}")), calls=calls)
        for call in reply.tool_calls:
            talk.say("tool", results=[ToolResult(call.id, (Text(make_prose(1_500, f"r{turn}")),))])
        said += 2 + calls
        ground = talk.ground(8_000, PRICES)
        talk.change(ground, planned(ground, policy, strategy, Calibration(overhead=0), 0))
        summaries = [item for item in talk.items if isinstance(item, Summary)]
        assert len(summaries) <= 1
        assert sum(item.tokens for item in summaries) <= 8_000 // 8
        assert sum(item.messages if isinstance(item, Summary) else len(item.messages) for item in talk.items) == said
    assert [item for item in talk.items if isinstance(item, Summary)]


# The faithful policy


def begins_turn(item: HistoryItem) -> bool:
    return isinstance(item, MessageGroup) and item.starts_turn


@settings(max_examples=EXAMPLES * 2)
@given(plan_inputs(5) | plan_inputs(5, fitting=True), faithful, calibrations, costs)
def test_faithful_changes_nothing_while_the_history_fits_and_the_cache_is_warm(
    ground: PlanInput, policy: Faithful, calibration: Calibration, cost: int
) -> None:
    policy = replace(policy, recent=0)  # else old results are shortened as soon as that pays
    found = planned(ground, policy, None, calibration, cost)
    share = found.figures.before / ground.window
    if share < (policy.cold if found.figures.cold else policy.threshold):
        assert found.empty
    elif found.why == "cold":
        assert found.figures.cold
        assert found.figures.net < 0, "and only if it pays"


@settings(max_examples=EXAMPLES * 2)
@given(plan_inputs(5) | plan_inputs(5, fitting=True), faithful, calibrations, costs)
def test_faithful_leaves_the_current_turn_alone_unless_the_window_forces_it(
    ground: PlanInput, policy: Faithful, calibration: Calibration, cost: int
) -> None:
    policy = replace(policy, recent=0)  # else old results are shortened as soon as that pays
    found = planned(ground, policy, None, calibration, cost)
    current = max((number for number, item in enumerate(ground.items) if begins_turn(item)), default=0)
    kept = ground.items[current:]
    if found.why == "forced":
        assert found.figures.before > ground.window
    else:
        assert found.reduced == ()
        assert found.fold is None or found.fold.last < kept[0].first
        assert found.empty or show_items(apply_plan(ground, found))[-len(kept) :] == show_items(ground)[current:]


def test_a_boundary_lasts_and_is_cut_at_a_turn() -> None:
    """Turns of about 400 tokens in a window of 10,000: one boundary for some eight turns, each time to about a half."""
    talk, policy, made_with = GrowingConversation(), Faithful(), plan_tools()
    boundaries: list[int] = []
    for number in range(100):
        talk.say("user", Text(make_prose(400, f"question{number}")))
        ground = talk.ground(10_000, PRICES)
        found = build_plan(ground, policy, made_with)
        if not found.empty:
            boundaries.append(number)
            assert found.why == "threshold"
            assert 0.85 * 10_000 <= found.figures.before <= 0.90 * 10_000
            assert 0.30 * 10_000 <= found.figures.after <= 0.50 * 10_000
            assert found.fold is not None
            assert begins_turn(next(item for item in ground.items if item.first > found.fold.last))
        talk.change(ground, found)
        talk.say("assistant", Text(make_prose(1_200, f"answer{number}")))
    assert len(boundaries) <= 12
    assert all(after - before >= 7 for before, after in itertools.pairwise(boundaries))


def test_what_was_asked_for_again_raises_the_price_of_forgetting() -> None:
    def lost(again: int) -> int:
        talk = GrowingConversation()
        for number in range(30):
            talk.say("user", Text(f"question {number}"))
            reply = talk.say("assistant", Text("I look."), calls=1)
            same = replace(reply.tool_calls[0], args={"file": "same"})
            if number < again:
                message = replace(reply, tool_calls=(same,))
                talk.items[-1] = MessageGroup((message,))
            talk.say("tool", results=[ToolResult(reply.tool_calls[0].id, (Text(make_prose(900, "file")),))])
        talk.say("user", Text("and now?"))
        found = build_plan(talk.ground(8_000, PRICES), Faithful(), plan_tools())
        assert found.figures.repeats == max(0, again - 1)
        assert found.figures.results == 30
        return found.figures.lost

    assert 0 < lost(0) < lost(10) < lost(30)
    assert build_plan(GrowingConversation().ground(9_000, PRICES), Frugal(), plan_tools()).figures.lost == 0
