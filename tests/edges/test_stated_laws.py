"""Laws that the documentation states of packs, handles and manifests, each on the shortest session that could break it."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.errors import CriticalOverflow, InvalidArgument
from holdfast.model import limits
from holdfast.model.history.plans import LEVELS, SummarizeOldest, TruncateAt


def _session(**options: Any) -> Any:
    return holdfast.open("memory:", **options).create_session("s")


def _critical_call(session: Any, size: int) -> Any:
    asked = [{"name": "look", "args": {}}]
    (call,) = session.record("assistant", "I look.", tool_calls=asked, priority="critical").tool_calls
    return session.result(call, "word " * (size // 5))


def test_the_result_of_a_critical_call_is_critical() -> None:
    session = _session()
    session.record("user", "Look.")
    message = _critical_call(session, 140_000)
    assert session.handles.get(f"h{message.seq}_0").priority == "critical"
    assert [each.priority for each in session.handles.list()] == ["critical"]
    with pytest.raises(CriticalOverflow):
        session.pack(budget=8_000, settle=False)
    whole = session.pack(budget=200_000)
    assert whole.text.count("word ") > 27_000
    assert [each.priority for each in whole.manifest.entries if each.section == "history"] == ["medium", "critical"]


def test_critical_text_above_what_is_ever_shown_whole_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WHOLE_BYTES", 100_000)
    session = _session()
    _critical_call(session, 140_000)
    with pytest.raises(CriticalOverflow):
        session.pack(budget=8_000)
    with pytest.raises(holdfast.errors.TooLarge):
        session.pack(budget=200_000)


def test_what_is_critical_is_not_paged_out() -> None:
    session = _session()
    message = session.record("user", "NEVER refund. " * 100, priority="critical")
    result = _critical_call(session, 2_000)
    for each in (message, result):
        with pytest.raises(InvalidArgument, match="Critical"):
            session.handles.page_out(f"h{each.seq}_0")
    assert "NEVER refund." in session.pack().text


def test_a_manifest_names_what_is_in_view_once_and_nothing_that_was_folded() -> None:
    session = _session()
    first = session.record("user", "Never refund more than 50 euros.", priority="critical")
    for number in range(5):
        session.record("user", f"Question {number} about the invoice. " * 20)
        session.record("assistant", f"Answer {number} about the invoice. " * 20)
    second = session.record("user", "Always write to Ada.", priority="critical")
    session.record("assistant", "Yes.")
    session.record("user", "And now?")
    session.context.compact(strategy=SummarizeOldest(2), window=100_000)
    pack = session.pack()
    entries = [each for each in pack.manifest.entries if each.section == "history"]
    assert len({each.id for each in entries}) == len(entries)
    included = [each for each in entries if each.fate == "included"]
    shown = {each.seq for each in pack.history.messages if each.role != "system"}
    assert {seq for each in included for seq in range(each.at, each.to + 1)} == shown
    assert {each.at: each.priority for each in included} == {
        first.seq: "critical",
        second.seq: "critical",
        second.seq + 1: "medium",
    }


@pytest.mark.parametrize("level", LEVELS)
def test_the_least_compaction_is_carried_out_with_a_custom_strategy(level: str) -> None:
    session = _session(strategies={"same": lambda items, _budget: items})
    session.working.set("a", "x7" * 400)
    with_strategy, without = (session.pack(strategy=each, min_compaction=level) for each in ("same", None))
    assert with_strategy.tokens.level == without.tokens.level
    fates = [[(each.id, each.fate) for each in pack.manifest.entries] for pack in (with_strategy, without)]
    assert fates[0] == fates[1]


def test_a_summary_shows_a_share_and_a_line_is_no_summary() -> None:
    for strategy, words in (
        (SummarizeOldest(4), "a summary of 20 messages"),
        (TruncateAt(4), "20 messages left out of view"),
    ):
        session = _session()
        for number in range(12):
            session.record("user", f"Question {number} about the invoice. " * 20)
            session.record("assistant", f"Answer {number} about the invoice. " * 20)
        session.context.compact(strategy=strategy, window=100_000)
        (entry,) = [each for each in session.pack().manifest.entries if each.fate == "reduced"]
        assert entry.reason.startswith(words)
        assert 0 < entry.share < 0.5


def test_a_pack_that_shows_text_in_part_is_moderate_until_the_budget_shows_it_whole() -> None:
    session = _session()
    session.record("user", "log line\n" * 20_000 + "Why?")
    seen = [session.pack(budget=budget).tokens.level for budget in (8_000, 64_000, 400_000)]
    assert seen == ["moderate", "moderate", "none"]
