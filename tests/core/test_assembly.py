"""The tail of a pack: what is in, what is out, and that it fits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast.adapters.tokens import EstimatingCounter
from holdfast.core.history import levels
from holdfast.core.packs.assembly import HEADINGS, PackCandidate, PackTail, PlacedCandidate, fit_tail
from holdfast.errors import CriticalOverflow, StrategyRefused
from holdfast.model.history.handles import PRIORITY_SCORES, Priority
from holdfast.model.history.plans import LEVELS, Level
from holdfast.model.packs.pack import TAIL_SECTIONS, PackRequest, Profile
from holdfast.text.fence import SEPARATOR

COUNT = EstimatingCounter().count


SECTIONS = [each for each in TAIL_SECTIONS if each != "query"]


PRIORITIES: list[Priority] = list(PRIORITY_SCORES)


def measure(tokens: int, messages: int) -> int:
    return tokens + 4 * messages


def request(share: float = 0.7, floor: Level = "none", recall: float = 0.05) -> PackRequest:
    return PackRequest(
        budget=10_000,
        effective=10_000,
        fact_share=share,
        recall_share=recall,
        profile=Profile(name="any"),
        as_of_us=0,
        min_compaction=floor,
    )


TEXTS = st.one_of(
    st.text(st.sampled_from("ab \n"), max_size=60),
    st.integers(1, 120).map(lambda words: "word " * words),
    st.integers(1, 6).map(lambda lines: "the same line\n" * lines),
)


@st.composite
def pieces(draw: st.DrawFn) -> list[PackCandidate]:
    made: list[PackCandidate] = []
    for number in range(draw(st.integers(0, 14))):
        made.append(
            PackCandidate(
                id=f"p{number}",
                section=draw(st.sampled_from(SECTIONS)),
                text=f"x{draw(TEXTS)}",
                priority=draw(st.sampled_from(PRIORITIES)),
                score=draw(st.sampled_from([0.0, 0.5, 1.0])),
                recency=draw(st.integers(0, 3)),
                wanted=draw(st.booleans()) and draw(st.booleans()),
                omission=draw(st.sampled_from(["", "", "", "", "not today"])),
            )
        )
    made = [each if each.section != "recall" else _passage(each, draw(st.integers(0, 2))) for each in made]
    return [each if each.section != "facts" else _steady(each) for each in made]


def _passage(piece: PackCandidate, day: int) -> PackCandidate:
    """A passage ranks below everything else, and stands under its day."""
    return structs.replace(piece, priority="background", wanted=False, group=f"On day {day}:")


def _steady(piece: PackCandidate) -> PackCandidate:
    """The texts of facts are as light as they get when they come."""
    return PackCandidate(
        id=piece.id,
        section="facts",
        text=levels.lighten(piece.text) or "x",
        priority=piece.priority,
        score=piece.score,
        recency=piece.recency,
        wanted=piece.wanted,
        omission=piece.omission,
    )


def fitted(asked: PackRequest, given_: list[PackCandidate], room: int) -> PackTail | None:
    try:
        return fit_tail(asked, given_, room, count=COUNT, measure=measure)
    except CriticalOverflow:
        return None


ROOMS = st.integers(0, 900)


SHARES = st.sampled_from([0.0, 0.3, 0.7, 1.0])


FLOORS: st.SearchStrategy[Level] = st.sampled_from(LEVELS)


@given(pieces(), ROOMS, SHARES, FLOORS)
def test_it_fits_and_is_recounted(given_: list[PackCandidate], room: int, share: float, floor: Level) -> None:
    tail = fitted(request(share, floor), given_, room)
    if tail is None:
        return
    assert tail.tokens <= room
    counted = sum(measure(COUNT(text + SEPARATOR), 0) for text in tail.texts)
    assert tail.tokens == counted + (measure(0, 1) if tail.texts else 0) == sum(tail.breakdown.values())
    shown = "\n".join(tail.texts)
    for each in tail.placed:
        assert (each.fate in ("included", "reduced")) == bool(each.text)
        assert not each.text or each.text in shown
        assert each.reason
    assert [each.candidate for each in tail.placed] == given_


@given(pieces(), ROOMS, SHARES, FLOORS)
def test_what_is_critical_is_in_or_it_is_an_error(
    given_: list[PackCandidate], room: int, share: float, floor: Level
) -> None:
    tail = fitted(request(share, floor), given_, room)
    critical = [each for each in given_ if each.priority == "critical" and not each.omission]
    if tail is None:
        assert critical
        return
    placed = {each.candidate.id: each for each in tail.placed}
    for each in critical:
        assert placed[each.id].fate == "included"
        assert placed[each.id].text == each.text


def laid_out(placed: Sequence[PlacedCandidate]) -> int:
    total = 0
    for section in SECTIONS:
        lines: list[str] = []
        last = ""
        for each in placed:
            if each.candidate.section == section:
                lines += [each.candidate.group] if each.candidate.group != last else []
                lines.append(each.text)
                last = each.candidate.group
        total += measure(COUNT("\n".join([HEADINGS[section], *lines]) + SEPARATOR), 0) if lines else 0
    return total + measure(0, 1)


@given(pieces(), ROOMS, SHARES)
def test_nothing_lower_is_in_while_something_higher_that_fits_is_out(
    given_: list[PackCandidate], room: int, share: float
) -> None:
    tail = fitted(request(share), given_, room)
    if tail is None:
        return
    for out in tail.placed:
        if out.fate != "omitted" or out.candidate.omission or "share" in out.reason:
            continue
        shown = [each for each in tail.placed if each.text]
        stays = [
            each
            for each in shown
            if each.candidate.wanted
            or each.candidate.section == "breadcrumbs"
            or PRIORITY_SCORES[each.candidate.priority] >= PRIORITY_SCORES[out.candidate.priority]
        ]
        if len(stays) < len(shown):
            text = out.candidate.text
            text = text if out.candidate.wanted else min(text, levels.lighten(text), key=COUNT)
            assert laid_out([*stays, structs.replace(out, text=text)]) > room


@given(pieces(), ROOMS, SHARES, FLOORS)
def test_the_level_is_that_of_the_worst_that_happened(
    given_: list[PackCandidate], room: int, share: float, floor: Level
) -> None:
    tail = fitted(request(share, floor), given_, room)
    if tail is None:
        return
    happened: list[Level] = [floor]
    for each in tail.placed:
        low = each.candidate.priority in ("low", "background") and not each.candidate.wanted
        low = low and each.candidate.section != "breadcrumbs"
        if each.fate == "reduced":
            happened.append("light")
        elif each.candidate.section == "recall":
            assert each.fate in ("included", "omitted"), "no level depends on it"
        elif each.fate == "omitted" and not each.candidate.omission and "least compaction" not in each.reason:
            happened.append("aggressive" if low else "critical")
    assert tail.level == max(happened, key=LEVELS.index)


@given(pieces(), ROOMS, st.integers(1, 400), SHARES, FLOORS)
def test_a_larger_budget_never_raises_the_level(
    given_: list[PackCandidate], room: int, more: int, share: float, floor: Level
) -> None:
    small, large = fitted(request(share, floor), given_, room), fitted(request(share, floor), given_, room + more)
    if small is None:
        return
    assert large is not None
    assert LEVELS.index(large.level) <= LEVELS.index(small.level)


@given(pieces(), ROOMS)
def test_facts_stay_within_their_share(given_: list[PackCandidate], room: int) -> None:
    given_ = [each for each in given_ if not each.wanted]
    tail = fitted(request(0.3), given_, room)
    if tail is None:
        return
    facts = [each for each in tail.placed if each.candidate.section == "facts" and each.text]
    assert sum(each.tokens for each in facts if each.candidate.priority != "critical") <= room * 0.3


@given(pieces(), ROOMS, SHARES, FLOORS, st.sampled_from([0.0, 0.01, 0.05, 1.0]))
def test_passages_displace_nothing_and_stay_within_their_share(
    given_: list[PackCandidate], room: int, share: float, floor: Level, recall: float
) -> None:
    asked = request(share, floor, recall)
    tail, without = (
        fitted(asked, given_, room),
        fitted(asked, [each for each in given_ if each.section != "recall"], room),
    )
    if tail is None or without is None:
        assert tail is without
        return
    others = [(each.text, each.fate, each.reason) for each in tail.placed if each.candidate.section != "recall"]
    assert others == [(each.text, each.fate, each.reason) for each in without.placed]
    assert tail.level == without.level
    around = measure(0, 1)
    assert tail.breakdown.get("recall", 0) <= max(0, asked.effective * recall) + around
    assert recall or "recall" not in tail.breakdown


def test_the_best_passages_are_in_and_they_are_read_in_their_order_under_their_group() -> None:
    day = {"section": "recall", "priority": "background"}
    passages = [
        PackCandidate(id="old", text="> Ada: " + "word " * 20, group="Monday:", recency=-1, **day),  # type: ignore[arg-type]
        PackCandidate(id="poor", text="> Ada: " + "word " * 40, group="Monday:", recency=-2, **day),  # type: ignore[arg-type]
        PackCandidate(id="best", text="> Ada: yes", group="Tuesday:", recency=0, **day),  # type: ignore[arg-type]
    ]
    tail = fitted(request(), passages, 75)
    assert tail is not None
    assert [each.fate for each in tail.placed] == ["included", "omitted", "included"]
    assert tail.texts == ("\n".join([HEADINGS["recall"], "Monday:", passages[0].text, "Tuesday:", "> Ada: yes"]),)
    assert "share" in tail.placed[1].reason


@given(pieces(), ROOMS)
def test_the_same_gives_the_same_bytes(given_: list[PackCandidate], room: int) -> None:
    one, two = fitted(request(), given_, room), fitted(request(), given_, room)
    if one is None or two is None:
        assert one is two
        return
    assert one.texts == two.texts
    assert one.placed == two.placed
    assert (one.breakdown, one.level, one.tokens) == (two.breakdown, two.level, two.tokens)


@given(pieces())
def test_with_room_for_all_all_is_in(given_: list[PackCandidate]) -> None:
    tail = fitted(request(1.0, recall=1.0), given_, 9_000)
    assert tail is not None
    assert all(each.fate == "included" for each in tail.placed if not each.candidate.omission)
    assert tail.level == "none"


def test_what_was_asked_for_takes_no_more_than_three_quarters() -> None:
    large = PackCandidate(id="h1", section="handles", text="word " * 300, wanted=True)
    small = PackCandidate(id="h2", section="handles", text="word " * 20, wanted=True)
    tail = fitted(request(), [large, small], 300)
    assert tail is not None
    assert [each.fate for each in tail.placed] == ["omitted", "included"]
    assert "three quarters" in tail.placed[0].reason


def test_a_strategy_of_ones_own_may_not_touch_what_is_critical() -> None:
    critical = PackCandidate(id="k1", section="facts", text="word", priority="critical")
    rest = [PackCandidate(id=f"w{number}", section="working_set", text="word " * 50) for number in range(10)]

    def none(given_: tuple[levels.CompactionCandidate, ...], budget: int) -> list[levels.CompactionCandidate]:
        return []

    with pytest.raises(StrategyRefused):
        fit_tail(request(), [critical, *rest], 200, count=COUNT, measure=measure, strategy=none)
