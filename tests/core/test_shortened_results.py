"""Old tool results in random conversations: what is shortened in place keeps what it says to keep, and is final."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.history.draft import PlanInput
from holdfast.core.history.planner import build_plan
from holdfast.core.history.views import group_by_message, show_message
from holdfast.model.content import Text, ToolResult
from holdfast.model.history.plans import Faithful, Reduction
from holdfast.model.sessions.messages import MessageGroup
from holdfast.text.extract.lines import find_item_names, find_names
from tests.core.plan_inputs import PRICES, SECOND_US, GrowingConversation, plan_tools, show_items

WINDOW = 1_000_000
"""Nothing is folded, and nothing is forced."""
POLICY = Faithful(recent=3, result_share=0.4, payback_share=0.5, cold=1.0)


class Did(NamedTuple):
    """A call with its result: lines, each with one of a few names, and a number of its own or none."""

    names: tuple[int, ...]
    is_numbered: bool
    gap_s: int
    asks: bool
    """A message of the user comes before it."""


DEEDS = st.lists(
    st.builds(
        Did,
        st.builds(
            lambda first, count: tuple(range(first, first + count)),
            st.sampled_from([0, 30, 200, 400, 600]),
            st.sampled_from([3, 40, 90]),
        ),
        st.booleans(),
        st.sampled_from([5, 5, 600]),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=6,
    max_size=14,
)


def write_lines(did: Did) -> str:
    lines = (f"the function parse_row_{name} is called where the table table_{name // 2} is read" for name in did.names)
    return "\n".join(f"{at:6}→{line}" if did.is_numbered else line for at, line in enumerate(lines, 1))


def do(talk: GrowingConversation, did: Did) -> None:
    if did.asks:
        talk.say("assistant", Text("It is done."))
        talk.now_us += did.gap_s * SECOND_US
        talk.say("user", Text("Go on."))
    reply = talk.say("assistant", Text("I look."), calls=1)
    talk.now_us += did.gap_s * SECOND_US
    talk.say("tool", results=[ToolResult(reply.tool_calls[0].id, (Text(write_lines(did)),))])


def names_in_view(ground: PlanInput) -> set[str]:
    return set[str]().union(*map(find_item_names, show_items(ground)))


def names_of(ground: PlanInput, piece: Reduction) -> set[str]:
    """The names in a result as it is shown, without its marker."""
    reduced = group_by_message(ground.view.reduced)
    message = next(
        message
        for item in ground.items
        if isinstance(item, MessageGroup)
        for message in item.messages
        if message.seq == piece.message
    )
    shown = show_message(message, reduced)[0].text
    return find_names(shown.partition("\n")[2] if piece.form == "lines" else shown)


@given(DEEDS)
def test_results_that_are_shortened_again_lose_no_name(deeds: list[Did]) -> None:
    talk = GrowingConversation()
    talk.say("user", Text("Look at the tables."))
    for did in deeds:
        do(talk, did)
        ground = talk.ground(WINDOW, PRICES)
        plan = build_plan(ground, POLICY, plan_tools())
        assert plan == build_plan(ground, POLICY, plan_tools())
        if plan.empty:
            continue
        before = {(each.message, each.piece): each for each in ground.view.reduced}
        shown = {place: names_of(ground, each) for place, each in before.items()}
        talk.change(ground, plan)
        after = talk.ground(WINDOW, PRICES)
        assert plan.fold is None
        left = names_in_view(after)
        replies = [
            item.seq for item in after.items if isinstance(item, MessageGroup) and item.messages[0].role == "assistant"
        ]
        for each in plan.reduced:
            assert each.message < replies[-1], "the model has seen it"
            was = before.get((each.message, each.piece))
            if was is not None and each.form == "lines":
                event("shortened again")
                assert each.saved > was.saved
                assert all(
                    any(first <= start and end <= last for first, last in was.lines) for start, end in each.lines
                )
                assert shown[each.message, each.piece] <= left
        assert build_plan(after, POLICY, plan_tools()).empty


@given(DEEDS)
def test_what_is_shown_stays_until_the_next_boundary(deeds: list[Did]) -> None:
    """A reduction stores its lines: nothing that comes later changes what they are."""
    talk = GrowingConversation()
    talk.say("user", Text("Look at the tables."))
    for did in deeds:
        do(talk, did)
        ground = talk.ground(WINDOW, PRICES, cold=True)
        talk.change(ground, build_plan(ground, POLICY, plan_tools()))
        shown = show_items(talk.ground(WINDOW, PRICES))
        do(talk, did)
        assert show_items(talk.ground(WINDOW, PRICES))[: len(shown)] == shown


def test_on_a_cold_cache_the_results_of_earlier_turns_are_old() -> None:
    deeds = [Did(tuple(range(number, number + 60)), True, 5, False) for number in range(2)]
    for asks, is_cold, has_old in ((True, True, True), (False, True, False), (True, False, False)):
        talk = GrowingConversation()
        talk.say("user", Text("Look at the tables."))
        for did in deeds:
            do(talk, did)
        talk.say("assistant", Text("It is done."))
        if asks:
            talk.say("user", Text("Go on."))
        plan = build_plan(talk.ground(WINDOW, PRICES, cold=is_cold), replace(POLICY, recent=9), plan_tools())
        assert (not plan.empty) == has_old


def test_a_result_keeps_the_lines_with_names_of_its_own() -> None:
    talk = GrowingConversation()
    talk.say("user", Text("Look at the tables."))
    for number in range(6):
        lines = ["There is nothing to be seen in this line of the long output."] * 60
        lines[20] = f"the table table_{number} is read"
        reply = talk.say("assistant", Text("I look."), calls=1)
        talk.say("tool", results=[ToolResult(reply.tool_calls[0].id, (Text("\n".join(lines)),))])
    before = names_in_view(talk.ground(WINDOW, PRICES))
    ground = talk.ground(WINDOW, PRICES, cold=True)
    plan = build_plan(ground, POLICY, plan_tools())
    talk.change(ground, plan)
    assert [each.form for each in plan.reduced] == ["lines"] * 3, "the newest three stay"
    assert before <= names_in_view(talk.ground(WINDOW, PRICES))
