"""Strategies and priorities: what each does to a conversation and to the handles of a frame, in packs and in compact."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.core.history.levels import CompactionCandidate
from holdfast.core.history.views import show_item
from holdfast.errors import CriticalOverflow, InvalidArgument, StrategyRefused, StrategyUnknown
from holdfast.model.history.events import ContextCompacted
from holdfast.model.history.handles import PRIORITY_SCORES
from holdfast.model.history.views import Summary
from holdfast.model.sessions.messages import MessageGroup
from tests.support import figure

PRIORITIES = tuple(PRIORITY_SCORES)


def drop_low(items: Sequence[CompactionCandidate], budget: int) -> list[CompactionCandidate]:
    return [each for each in items if each.priority not in ("low", "background")]


def first_words(items: Sequence[CompactionCandidate], budget: int) -> list[Any]:
    from msgspec.structs import replace

    return [
        replace(each, text=f"[{each.id}]") if each.kind == "message" and each.priority == "medium" else each
        for each in items
    ]


def drop_all(items: Sequence[CompactionCandidate], budget: int) -> list[CompactionCandidate]:
    return []


@pytest.fixture
def opened() -> Iterator[Any]:
    with holdfast.open("memory:", strategies={"drop_low": drop_low, "first_words": first_words}) as made:
        yield made


def talk(place: Any, count: int, words: int = 40, **said: str) -> list[Any]:
    """So many messages, in turns."""
    made = []
    for number in range(count):
        role = ("user", "assistant")[number % 2]
        made.append(place.record(role, f"message {number} " + "word " * words, **said))
    return made


def shown(pack: Any) -> list[int]:
    """The seqs of the messages that a pack shows as they are."""
    return [each.seq for item in pack.history.items if isinstance(item, MessageGroup) for each in item.messages]


def test_a_message_has_the_priority_it_was_recorded_with(opened: Any) -> None:
    session = opened.create_session("s")
    assert session.record("system", "Be brief.").priority == "critical"
    assert session.record("user", "one").priority == "medium"
    assert session.record("user", "two", priority="low").priority == "low"
    call = session.record("assistant", "x", tool_calls=[{"name": "look", "args": {}}], priority="critical")
    assert session.result(call.tool_calls[0], "found").priority == "medium"
    assert [each.priority for each in session.messages()] == ["critical", "medium", "low", "critical", "medium"]
    for role, priority in (("system", "low"), ("user", "urgent"), ("user", 3)):
        with pytest.raises(InvalidArgument):
            session.record(role, "no", priority=priority)


@pytest.mark.parametrize(
    "strategy", [holdfast.types.TruncateAt(6), holdfast.types.SummarizeOldest(6), "summarize_oldest"]
)
def test_a_pack_keeps_as_many_of_the_newest_messages_as_its_strategy_says(opened: Any, strategy: Any) -> None:
    session = opened.create_session("s")
    seqs = [each.seq for each in talk(session, 30)]
    keep = 10 if strategy == "summarize_oldest" else 6
    pack = session.pack(budget=50_000, strategy=strategy)
    assert shown(pack) == seqs[-keep:]
    assert isinstance(pack.history.items[0], Summary)
    assert pack.tokens.level == "moderate"
    talk(session, 2)
    assert len(shown(session.pack(budget=50_000, strategy=strategy))) == keep


def test_what_is_critical_is_never_folded_nor_cut(opened: Any) -> None:
    session = opened.create_session("s")
    talk(session, 6)
    rule = session.record("user", "Never delete the archive. " + "word " * 50, priority="critical")
    call = session.record("assistant", "", tool_calls=[{"name": "look", "args": {}}], priority="critical")
    answer = session.result(call.tool_calls[0], "line\n" * 3_000)
    kept = [rule.seq, call.seq, answer.seq]
    for _ in range(3):
        newest = talk(session, 12)
        plan = session.context.compact(strategy=holdfast.types.TruncateAt(4), window=60_000)
        assert plan.at is not None
        assert not {f"m{seq}" for seq in kept} & {*plan.removed, *plan.summarised}
        pack = session.pack(budget=20_000)
        assert shown(pack) == [*kept, *(each.seq for each in newest[-4:])]
        assert "Never delete the archive." in str(pack)
    assert opened.admin.verify().ok
    with pytest.raises(CriticalOverflow):
        session.pack(budget=800)


def test_the_view_is_the_same_when_it_is_read_anew(opened: Any) -> None:
    session = opened.create_session("s")
    session.record("user", "Keep this. " + "word " * 30, priority="critical")
    talk(session, 20)
    session.record("user", "And this. " + "word " * 30, priority="critical")
    talk(session, 20)
    assert session.context.compact(strategy=holdfast.types.SummarizeOldest(4), window=60_000).at
    before = session.context.view().items
    fresh = opened.session("s")
    fresh._context.engine.cache.drop(fresh.scope.stream)
    assert fresh.context.view().items == before
    draft = session.context.draft_summary(keep_turns=1)
    assert draft is not None
    assert not any(
        "Keep this" in each.text for item in draft.items if isinstance(item, MessageGroup) for each in item.messages
    )
    session.context.summarize(draft, "All of it.")
    assert "Keep this." in session.context.render("text")
    assert "And this." in session.context.render("text")
    assert opened.admin.verify().ok


@settings(max_examples=figure(13, 500), deadline=None)
@given(st.lists(st.sampled_from(PRIORITIES), min_size=4, max_size=24), st.integers(300, 2_000))
def test_priority_based_drops_the_lowest_first_and_of_those_the_oldest(priorities: list[Any], window: int) -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        frame = session.frame("Work.", budget=100_000)
        ranks: dict[str, tuple[int, int]] = {}
        for number, priority in enumerate(priorities):
            if number % 3 == 2:
                handle = frame.handles.add("document", f"document {number} " + "word " * 60, priority=priority)
                ranks[handle.id] = PRIORITY_SCORES[priority], handle.at
            else:
                said = frame.record(("user", "assistant")[number % 2], "word " * 60, priority=priority)
                ranks[f"m{said.seq}"] = PRIORITY_SCORES[priority], said.seq
        newest = frame.record("assistant", "Done.")
        overflow: CriticalOverflow | None = None
        try:
            plan = frame.context.compact(strategy="priority_based", window=window)
        except CriticalOverflow as error:
            overflow = error
        if overflow is not None:
            assert overflow.needed > overflow.budget == window
            assert any(rank == PRIORITY_SCORES["critical"] for rank, _ in ranks.values())
            return
        removed = {*plan.removed}
        assert plan.target_met == (plan.final <= window)
        assert plan.final <= plan.original
        assert not any(ranks[each][0] == PRIORITY_SCORES["critical"] for each in removed)
        left = [rank for each, rank in ranks.items() if each not in removed and rank[0] < PRIORITY_SCORES["critical"]]
        assert all(ranks[each] < rank for each in removed for rank in left)
        assert plan.target_met or not left or plan.empty
        assert plan.items_removed == len(removed)
        assert f"m{newest.seq}" not in removed
        if plan.at is not None:
            pack = frame.pack(budget=50_000)
            assert f"m{newest.seq}" in {f"m{seq}" for seq in shown(pack)}
            assert {f"m{seq}" for seq in shown(pack)} == {each for each in ranks if each[0] == "m"} - removed | {
                f"m{newest.seq}"
            }
            gone = {each.id for each in pack.manifest.entries if each.section == "handles" and each.fate == "omitted"}
            assert {each for each in removed if each[0] == "h"} == gone
        assert frame.context.compact(strategy="priority_based", window=window).empty or not plan.target_met
        assert engine.admin.verify().ok


def test_compacting_a_frame_counts_what_it_did_and_names_every_id(opened: Any) -> None:
    session = opened.create_session("s")
    frame = session.frame("Work.", budget=100_000)
    low = frame.handles.add("document", "word " * 300, priority="low", title="an old page")
    critical = frame.handles.add("document", "word " * 300, priority="critical", title="the rules")
    talk(frame, 10)
    frame.record("assistant", "Done.")
    full = frame.context.compact(strategy="priority_based", window=100_000)
    assert (full.empty, full.level, full.target_met) == (True, "none", True)
    plan = frame.context.compact(strategy="priority_based", window=full.original - 100)
    assert (plan.level, plan.target_met) == ("aggressive", True)
    assert (plan.removed, plan.items_removed, plan.items_summarised) == ((low.id,), 1, 0)
    assert plan.original - plan.final == plan.freed_tokens > 250
    events = [each for each in session.events(limit=1_000) if each.type == "frame.compacted"]
    (event,) = map(holdfast_event, events)
    assert event.handles == (low.id,)
    assert (event.original, event.final, event.level) == (plan.original, plan.final, "aggressive")
    said = str(frame.pack(budget=20_000))
    assert f"[{low.id}]" not in said
    assert f"[{critical.id}]" in said
    assert f"[{low.id}]" in str(frame.pack(budget=20_000, include=[low.id]))
    frame.handles.replace(low.id, "something new")
    assert "something new" in str(frame.pack(budget=20_000))
    done = frame.context.compact(strategy=holdfast.types.SummarizeOldest(4), window=20_000, key="once")
    assert (done.level, done.items_summarised, done.items_removed) == ("moderate", 7, 0)
    again = frame.context.compact(strategy=holdfast.types.SummarizeOldest(4), window=20_000, key="once")
    assert (again.at, again.removed, again.summarised, again.level) == (
        done.at,
        done.removed,
        done.summarised,
        done.level,
    )
    assert (again.original, again.final) == (done.original, done.final)


def holdfast_event(recorded: Any) -> ContextCompacted:
    from holdfast.core import upcast

    event = upcast.decode_event(recorded)
    assert isinstance(event, ContextCompacted)
    return event


def test_a_strategy_of_ones_own_acts_on_the_conversation_and_is_held_to_the_rules(opened: Any) -> None:
    session = opened.create_session("s")
    kept = talk(session, 4)
    low = talk(session, 4, priority="low")
    rule = session.record("user", "A rule.", priority="critical")
    session.record("assistant", "Done.")
    assert len(shown(session.pack(budget=20_000, strategy="drop_low"))) == 10, "what fits, it is not asked about"
    plan = session.context.compact(strategy="drop_low", window=session.context.occupancy().tokens - 50)
    assert plan.removed == tuple(f"m{each.seq}" for each in low)
    assert plan.level == "aggressive"
    assert kept[0].seq in shown(session.pack(budget=20_000))
    told = session.context.compact(strategy=first_words, window=session.context.occupancy().tokens - 50)
    assert told.summarised == tuple(f"m{each.seq}" for each in kept)
    pack = session.pack(budget=20_000)
    assert f"[m{kept[0].seq}]" in str(pack)
    assert rule.seq in shown(pack)
    talk(session, 6)
    with pytest.raises(StrategyRefused):
        session.context.compact(strategy=drop_all, window=300)
    with pytest.raises(StrategyUnknown):
        session.pack(strategy="mine")
    with pytest.raises(InvalidArgument):
        session.context.compact(strategy="truncate_at", window=300)
    with pytest.raises(InvalidArgument):
        holdfast.open("memory:", strategies={"priority_based": drop_all})
    assert opened.admin.verify().ok


@pytest.mark.parametrize(
    "strategy", ["drop_low", "priority_based", holdfast.types.TruncateAt(4), holdfast.types.SummarizeOldest(4)]
)
def test_a_pack_that_was_made_with_a_strategy_can_be_made_again(opened: Any, strategy: Any) -> None:
    session = opened.create_session("s")
    for number in range(8):
        session.working.set(f"thing_{number}", "word " * 60)
    talk(session, 8, priority="low")
    session.record("user", "What now?")
    pack = session.pack(budget=900, strategy=strategy)
    session.record("assistant", "This.", pack=pack)
    record = session.packs.list()[-1]
    made = session.packs.reproduce(record)
    assert made.context_hash == pack.context_hash
    assert made.manifest.request == pack.manifest.request


def test_a_pack_of_a_strategy_that_is_not_registered_is_refused_by_name(opened: Any) -> None:
    session = opened.create_session("s")
    talk(session, 3)

    def passing(items: Sequence[CompactionCandidate], budget: int) -> Sequence[CompactionCandidate]:
        return items

    pack = session.pack(budget=5_000, strategy=passing)
    session.record("assistant", "This.", pack=pack)
    with pytest.raises(StrategyUnknown, match="passing"):
        session.packs.reproduce(session.packs.list()[-1])


def test_the_least_compaction_summarises_what_is_older_than_ten_messages(opened: Any) -> None:
    session = opened.create_session("s")
    seqs = [each.seq for each in talk(session, 30)]
    pack = session.pack(budget=50_000, min_compaction="moderate")
    assert shown(pack) == seqs[-10:]
    assert pack.tokens.level == "moderate"


def call(place: Any, result: str) -> None:
    made = place.record("assistant", tool_calls=[{"name": "look", "args": {"at": "it"}}]).tool_calls[0]
    place.result(made, result)


@pytest.mark.parametrize("strategy", [holdfast.types.TruncateAt(2), "priority_based"])
def test_what_left_is_named_by_handles_that_can_be_read_if_there_are_any(opened: Any, strategy: Any) -> None:
    plain, working = opened.create_session("plain", actor="ada"), opened.create_session("working", actor="ada")
    talk(plain, 12)
    for number in range(6):
        call(working, f"result {number} " + "word " * 60)
    talk(working, 4)
    for session in (plain, working):
        assert session.context.compact(strategy=strategy, window=300).steps
    (line,) = (each.text for each in plain.context.view().items if isinstance(each, Summary))
    assert "handle" not in line
    (line,) = (each.text for each in working.context.view().items if isinstance(each, Summary))
    handles = re.findall(r"h\d+_\d+", line.partition("read_handle reads their results: ")[2])
    assert 1 <= len(handles) <= 4
    for handle in handles:
        assert working.handles.read(handle).text.startswith("result ")


def test_a_summary_names_handles_that_can_be_read_unless_there_is_no_tool_to_read_them(opened: Any) -> None:
    session = opened.create_session("s", actor="ada")
    for number in range(6):
        call(session, f"result {number} " + "word " * 600)
    talk(session, 4)
    session.context.compact(strategy=holdfast.types.SummarizeOldest(keep_recent=2), window=60_000)
    (text,) = (each.text for each in session.context.view().items if isinstance(each, Summary))
    (handle,) = set(re.findall(r"^Called look x6 with at=it \[(h\d+_\d+)\]", text, re.MULTILINE))
    assert "read_handle reads the results named in [brackets]:" in text.partition("\n")[0]
    assert session.handles.read(handle).text.startswith("result 5 ")
    (summary,) = (each for each in session.context.view().items if isinstance(each, Summary))
    hidden = show_item(summary, {}, readable=False)
    assert isinstance(hidden, Summary)
    assert "handle" not in hidden.text
    assert handle not in hidden.text
    assert hidden.text.startswith("Excerpts, oldest first:\n")


def test_of_a_short_conversation_a_summary_keeps_more_than_a_fifth(opened: Any) -> None:
    session = opened.create_session("s", actor="ada")
    asked = [f"Please see to order {number}, and write to desk{number}@example.com only." for number in range(8)]
    for each in asked:
        session.record("user", each)
        session.record(
            "assistant", f"I will. Thank you for telling me this about it, and have a nice day. {'It rains. ' * 9}"
        )
    session.context.compact(strategy=holdfast.types.SummarizeOldest(keep_recent=2), window=60_000)
    (text,) = (each.text for each in session.context.view().items if isinstance(each, Summary))
    assert all(each in text for each in asked[:-1])
