"""Units: grouping loses and repeats nothing; what fits is cut only between units, best where a turn begins."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.history.views import count_fitting, group_messages, group_seq, has_whole_groups
from holdfast.model.content import Role, Text, ToolCall, ToolResult, call_id, calling_seq
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import OpenCall, SessionState
from tests.support import figure

EXAMPLES = figure(150, 10_000)


def _message(seq: int, role: Role | None, tokens: int = 1, **content: tuple[ToolCall | ToolResult, ...]) -> Message:
    said = () if content or role is None else (Text("text"),)
    return Message(id=str(seq), seq=seq, role=role, content=said, tokens=tokens, time_us=seq, principal="p", **content)  # type: ignore[arg-type]


@st.composite
def transcripts(draw: st.DrawFn) -> tuple[list[Message | Summary], SessionState]:
    """What may stand in a log: single messages, erased ones, summaries, and groups whose results come in any order, in any
    number of messages, with a user's words between them. The last group may be open."""
    entries: list[Message | Summary] = []
    seq = 1
    open_calls: tuple[OpenCall, ...] = ()
    for kind in draw(
        st.lists(st.sampled_from(["user", "assistant", "erased", "summary", "group", "group"]), max_size=8)
    ):
        tokens = draw(st.integers(0, 9))
        if kind == "group" and not open_calls:
            calls = [call_id(seq, at) for at in range(draw(st.integers(1, 4)))]
            entries.append(
                _message(seq, "assistant", tokens, tool_calls=tuple(ToolCall(call, "t", {}) for call in calls))
            )
            order = draw(st.permutations(calls))
            left = draw(st.sampled_from([0, 0, 0, 1]))
            for call in order[left:]:
                seq += 1
                if draw(st.booleans()):
                    entries.append(_message(seq, "user", tokens))
                    seq += 1
                entries.append(_message(seq, "tool", tokens, tool_results=(ToolResult(call, ()),)))
            open_calls = tuple(OpenCall(call, "t") for call in order[:left])
        elif kind == "summary":
            entries.append(Summary(seq=900 + seq, first=seq, last=seq + 3, messages=4, text="s", tokens=tokens))
            seq += 3
        elif kind == "erased":
            entries.append(_message(seq, None))
        else:
            entries.append(_message(seq, "user" if kind != "assistant" or open_calls else "assistant", tokens))
        seq += 1
    return entries, SessionState(version=seq, status="open", open_calls=open_calls)


def _first(item: HistoryItem) -> int:
    return item.first if isinstance(item, Summary) else item.seq


def _members(items: Sequence[HistoryItem]) -> list[Message | Summary]:
    return [each for item in items for each in ([item] if isinstance(item, Summary) else item.messages)]


@given(transcripts())
@settings(max_examples=EXAMPLES)
def test_grouping_loses_nothing_and_repeats_nothing(made: tuple[list[Message | Summary], SessionState]) -> None:
    entries, state = made
    items = group_messages(entries, state)
    there = [each for each in entries if isinstance(each, Summary) or not each.erased]
    place = {id(each): at for at, each in enumerate(there)}
    assert sorted(place[id(each)] for each in _members(items)) == list(range(len(there)))
    assert [_first(item) for item in items] == sorted({_first(item) for item in items})
    waiting = {calling_seq(call.id) for call in state.open_calls}
    for unit in (item for item in items if isinstance(item, MessageGroup)):
        seqs = [message.seq for message in unit.messages]
        assert seqs == sorted(seqs)
        assert {group_seq(message) for message in unit.messages} == {unit.seq}
        assert unit.open == (unit.seq in waiting)
        assert unit.open or has_whole_groups(unit.messages)
        assert unit.tokens == sum(message.tokens for message in unit.messages)
        assert unit.starts_turn == (unit.messages[0].role == "user")


@given(transcripts(), st.integers(0, 20))
@settings(max_examples=EXAMPLES)
def test_a_result_whose_call_was_left_behind_is_left_out(
    made: tuple[list[Message | Summary], SessionState], cut: int
) -> None:
    entries, state = made
    kept = entries[cut:]
    units = [item for item in group_messages(kept, state) if isinstance(item, MessageGroup) and not item.open]
    assert all(has_whole_groups(unit.messages) for unit in units)
    assert [unit.messages for unit in units] == [
        item.messages
        for item in group_messages(entries, state)
        if isinstance(item, MessageGroup) and not item.open and all(message in kept for message in item.messages)
    ]


@given(transcripts(), st.integers(0, 60))
@settings(max_examples=EXAMPLES)
def test_what_fits_is_the_newest_and_never_more_than_the_budget(
    made: tuple[list[Message | Summary], SessionState], budget: int
) -> None:
    items = group_messages(*made)
    sizes = [item.tokens for item in items]
    count = count_fitting(items, sizes, budget)
    newest = [at for at in range(len(items) + 1) if sum(sizes[len(sizes) - at :]) <= budget]
    most = newest[-1]
    used, most_used = sum(sizes[len(sizes) - count :]), sum(sizes[len(sizes) - most :])
    assert used <= budget
    assert most_used <= 2 * used
    assert count == most or _begins_well(items[len(items) - count])
    if most == len(items):
        assert count == most
    for better in range(count + 1, most + 1):
        assert most < len(items)
        assert not _begins_well(items[len(items) - better])
    if count == most and most < len(items) and most and not _begins_well(items[len(items) - most]):
        cuts = [at for at in range(1, most) if _begins_well(items[len(items) - at])]
        assert all(2 * sum(sizes[len(sizes) - at :]) < most_used for at in cuts)


def _begins_well(item: HistoryItem) -> bool:
    return isinstance(item, Summary) or item.starts_turn


@given(transcripts(), st.integers(0, 60), st.integers(0, 60))
@settings(max_examples=EXAMPLES)
def test_a_larger_budget_shows_at_least_half_of_what_a_smaller_one_does(
    made: tuple[list[Message | Summary], SessionState], one: int, other: int
) -> None:
    """Where a turn begins may lie later in a larger window, but never so late that more than half is lost."""
    items = group_messages(*made)
    sizes = [item.tokens for item in items]
    low, high = (sum(sizes[len(sizes) - count_fitting(items, sizes, each) :]) for each in sorted((one, other)))
    assert high * 2 >= low


def test_nothing_fits_into_nothing_and_everything_into_enough() -> None:
    items: list[HistoryItem] = [MessageGroup((_message(seq, "assistant"),)) for seq in range(1, 6)]
    sizes = [3] * 5
    assert [count_fitting(items, sizes, budget) for budget in (0, 2, 3, 14, 15, 99)] == [0, 0, 1, 4, 5, 5]
    assert count_fitting([], [], 0) == 0


def test_a_turn_is_the_better_cut_only_if_it_keeps_half() -> None:
    roles: list[Role] = ["user", "assistant", "assistant", "user", "assistant"]
    items: list[HistoryItem] = [MessageGroup((_message(seq, role),)) for seq, role in enumerate(roles, 1)]
    assert count_fitting(items, [1, 1, 1, 1, 1], 4) == 2
    assert count_fitting(items, [1, 5, 5, 1, 1], 12) == 4
