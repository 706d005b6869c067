"""What became of a prompt cache, and what a call cost, against a plain model of what two prompts begin with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.history.boundary_figures import BOUNDARY_TYPES, describe_boundary
from holdfast.core.history.guard_trace import GuardPlacement, move_into_json, place_statements, split_into_parts
from holdfast.core.packs.cache_reports import (
    CallFigures,
    FrontComparison,
    compare_fronts,
    count_cached,
    price_usage,
    report_cache,
)
from holdfast.core.packs.explanations import DiffEvidence, HistoryChange, compare_manifests
from holdfast.model.content import Usage
from holdfast.model.events import EVENTS
from holdfast.model.history.prices import PRICES, UNKNOWN_PRICES, find_prices
from holdfast.model.names import Scope
from holdfast.model.packs.calls import Boundary
from holdfast.model.packs.pack import Manifest, ManifestEntry, PackRequest, Profile, TokenSummary
from holdfast.text.guard.finder import edit_text
from holdfast.text.guard.patterns import GuardStatement
from tests.support import figure

EXAMPLES = figure(100, 10_000)
CLAUDE = find_prices("claude-sonnet-5")
GPT = find_prices("gpt-5")
MINUTE_US = 60_000_000


def manifest(history: list[tuple[int, str]], *, brief: str = "b", tools: str = "t", tail: str = "") -> Manifest:
    """A pack with these messages, each with a mark of how it is shown: empty for as it was recorded."""
    prefix = [
        ManifestEntry(id="brief", section="system", fate="included", reason="r", tokens=100, digest=brief),
        ManifestEntry(id="tools", section="tools", fate="included", reason="r", tokens=200, digest=tools),
    ]
    entries: list[ManifestEntry] = []
    for seq, mark in history:
        last = entries[-1] if entries else None
        if not mark and last is not None and not last.digest and max(last.at, last.to) == seq - 1:
            entries[-1] = entry(last.at, seq, last.tokens + 50, "")
        else:
            entries.append(entry(seq, seq, 50, mark))
    ending = ManifestEntry(id="time", section="environment", fate="included", reason="r", tokens=20, digest=tail)
    used = sum(each.tokens for each in (*prefix, *entries, ending))
    return Manifest(
        scope=Scope("t", "a", "s"),
        version=max((seq for seq, _ in history), default=0),
        request=PackRequest(budget=9_000, effective=9_000, fact_share=0.5, profile=Profile(name="p"), as_of_us=1),
        entries=(*prefix, *entries, ending),
        tokens=TokenSummary(budget=9_000, used=used, breakdown={}),
        counter="c",
        renderer="1",
        policy="p",
        context_hash="0" * 64,
    )


def entry(first: int, last: int, tokens: int, mark: str) -> ManifestEntry:
    fate: Any = "reduced" if mark else "included"
    name = f"m{first}" if first == last else f"m{first}-m{last}"
    return ManifestEntry(
        id=name, section="history", fate=fate, reason="r", tokens=tokens, at=first, to=last, digest=mark
    )


def compared(before: Manifest, after: Manifest, *events: HistoryChange) -> FrontComparison:
    new = {seq: 50 for each in after.entries for seq in range(each.at, each.to + 1) if seq > before.version}
    comparison = compare_manifests(before, after, DiffEvidence(events=events, messages=tuple(new)))
    return compare_fronts(before, after, comparison, events, new)


def call(name: str, pack: Manifest | None = None, **known: Any) -> CallFigures:
    return CallFigures(**{"id": name, "manifest": pack, "model": "claude-sonnet-5", "prices": CLAUDE, **known})


def run(last: int, mark: dict[int, str] | None = None) -> list[tuple[int, str]]:
    return [(seq, (mark or {}).get(seq, "")) for seq in range(2, last + 1)]


# The fronts of two packs


@given(
    st.integers(2, 20),
    st.integers(0, 6),
    st.dictionaries(st.integers(2, 20), st.just("x"), max_size=3),
    st.sampled_from(["b", "c"]),
    st.sampled_from(["t", "u"]),
)
@settings(max_examples=EXAMPLES)
def test_what_is_shared_is_what_both_texts_begin_with(
    last: int, more: int, changed: dict[int, str], brief: str, tools: str
) -> None:
    before, after = manifest(run(last)), manifest(run(last + more, changed), brief=brief, tools=tools)
    events = tuple(HistoryChange(90, "guard", seq, seq) for seq in sorted(changed))
    found = compared(before, after, *events)
    old = [("tools", "t", 200), ("brief", "b", 100), *((seq, "", 50) for seq in range(2, last + 1))]
    new = [("tools", tools, 200), ("brief", brief, 100), *((seq, changed.get(seq, ""), 50) for seq, _ in run(last))]
    shared = 0
    for one, other in zip(old, new, strict=True):
        if one != other:
            break
        shared += one[2]
    shown_again = [one for one, other in zip(old, new, strict=True) if one == other or other[1] == "x"]
    assert found.same == sum(one[2] for one in shown_again), "also what only the guard has edited"
    assert found.front == sum(each[2] for each in old)
    assert found.shared == shared
    assert found.kept == (shared == found.front)
    broken = next((other for one, other in zip(old, new, strict=True) if one != other), None)
    if broken is not None:
        expected = "tools" if (tools, brief) == ("u", "b") else "brief" if brief == "c" else "guard"
        assert (found.cause, bool(found.at), bool(found.why)) == (expected, True, True)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("fold", "boundary"),
        ("cut", "boundary"),
        ("erasure", "boundary"),
        ("guard", "guard"),
        ("restoration", "withdrawal"),
    ],
)
def test_the_event_that_changed_the_history_is_the_cause(kind: Any, cause: str) -> None:
    before, after = manifest(run(9)), manifest(run(11, {4: "x"}))
    assert compared(before, after, HistoryChange(10, kind, 4, 4, 1)).cause == cause


def test_a_withdrawn_message_breaks_the_front_where_it_was() -> None:
    before = manifest(run(9))
    after = manifest([each for each in run(11) if each[0] != 5])
    found = compared(before, after, HistoryChange(10, "withdrawal", 5, 5))
    assert (found.cause, found.at, found.shared) == ("withdrawal", "m5", 300 + 3 * 50)
    assert found.same == 300 + 7 * 50


def test_a_history_that_is_chosen_for_each_call_is_the_doing_of_the_request() -> None:
    before, after = manifest(run(9)), manifest(run(9, {4: "x"}))
    assert compared(before, after).cause == "unknown"
    chosen = Profile(name="high", history="relevant")
    request = PackRequest(budget=9_000, effective=9_000, fact_share=0.5, profile=chosen, as_of_us=1)
    assert compared(before, Manifest(**{**_fields(after), "request": request})).cause == "request"


def _fields(pack: Manifest) -> dict[str, Any]:
    return {name: getattr(pack, name) for name in pack.__struct_fields__}


# The cache


def report(
    before: CallFigures | None, after: CallFigures, front: FrontComparison | None = None, *events: Boundary
) -> Any:
    if before is not None and front is None and before.manifest is not None and after.manifest is not None:
        front = compared(before.manifest, after.manifest)
    return report_cache(after, before, front, events)


KEPT = (manifest(run(9)), manifest(run(11)))


def test_the_first_call_has_nothing_to_lose() -> None:
    found = report(None, call("p3", KEPT[0], usage=Usage(900, 10, 0, 800)))
    assert (found.cause, found.previous, found.read, found.written, found.rewritten) == ("first", "", 0, 800, 0)


def test_a_cache_that_was_read_was_kept() -> None:
    first = call("p1", KEPT[0], usage=Usage(1_000, 10, 0, 900))
    found = report(first, call("p2", KEPT[1], usage=Usage(1_100, 10, 900, 100)))
    assert (found.kept, found.cause, found.previous, found.rewritten) == (True, "kept", "p1", 0)
    assert "read 900 tokens" in found.why


def test_without_figures_the_packs_say_that_it_was_kept() -> None:
    first, second = (call(f"p{number}", pack, usage=Usage(1_000, 10)) for number, pack in enumerate(KEPT))
    found = report(first, second)
    assert (found.kept, found.cause, found.read, found.written) == (True, "kept", None, None)
    assert "reports no cached tokens" in found.why


def test_a_cache_that_the_provider_lost_is_paid_again() -> None:
    first = call("p1", KEPT[0], usage=Usage(10_000, 10, 0, 9_000))
    found = report(first, call("p2", KEPT[1], usage=Usage(11_000, 10, 0, 10_000)))
    assert (found.kept, found.cause) == (False, "provider")
    assert 8_000 < found.rewritten <= 9_000, "what it had in the cache, as far as it is shown again"


def test_after_a_pause_nothing_is_paid_again_since_nothing_was_warm() -> None:
    first = call("p1", KEPT[0], usage=Usage(10_000, 10, 0, 9_000), ended_us=MINUTE_US)
    second = call("p2", KEPT[1], usage=Usage(11_000, 10, 0, 10_000), started_us=10 * MINUTE_US)
    found = report(first, second)
    assert (found.kept, found.cause, found.rewritten) == (False, "idle", 0)
    assert "540 seconds" in found.why
    assert "300" in found.why
    warm = second._replace(usage=Usage(11_000, 10, 9_000, 1_000))
    assert report(first, warm).cause == "kept", "the provider knows better than a clock"


def test_a_break_in_a_cold_cache_is_the_doing_of_the_pause() -> None:
    after = manifest(run(11, {4: "x"}))
    first = call("p1", KEPT[0], usage=Usage(10_000, 10, 0, 9_000), ended_us=MINUTE_US)
    late = call("p2", after, usage=Usage(11_000, 10, 0, 10_000), started_us=10 * MINUTE_US)
    event = HistoryChange(10, "guard", 4, 4)
    front = compared(KEPT[0], after, event)
    assert report(first, late, front).cause == "idle"
    soon = late._replace(started_us=2 * MINUTE_US)
    assert report(first, soon, front).cause == "guard"


def test_another_model_has_another_cache() -> None:
    first = call("p1", KEPT[0], usage=Usage(10_000, 10, 0, 9_000))
    other = call("p2", KEPT[1], model="gpt-5", prices=GPT, usage=Usage(11_000, 10, 0))
    found = report(first, other)
    assert (found.cause, found.kept, found.read) == ("model", False, 0)
    assert found.rewritten > 8_000
    alias = call("p2", KEPT[1], model="claude-sonnet-5-20260901", usage=Usage(11_000, 10, 9_000, 900))
    assert report(first, alias).cause == "kept", "another name of the same model"
    unnamed = call("p2", KEPT[1], model="", prices=None, usage=Usage(11_000, 10, 9_000, 900))
    assert report(first, unnamed).cause == "kept"


def test_an_estimate_says_that_it_is_one() -> None:
    after = manifest(run(11, {4: "x"}))
    front = compared(KEPT[0], after, HistoryChange(10, "guard", 4, 4))
    found = report(call("p1", KEPT[0], usage=Usage(1_000)), call("p2", after, usage=Usage(1_100)), front)
    assert found.rewritten == (front.same - front.shared) * 1_100 // after.tokens.used
    assert "estimated" in found.why


def test_without_packs_the_figures_alone_say_it() -> None:
    first = call("m1", usage=Usage(10_000, 10, 0, 9_000))
    assert report(first, call("m2", usage=Usage(11_000, 10, 9_000, 900))).cause == "kept"
    lost = call("m2", usage=Usage(11_000, 10, 0, 9_900))
    assert report(first, lost).cause == "unknown"
    assert report(first, lost, None, Boundary(seq=7, kind="fold")).cause == "boundary"
    assert report(first, lost, None, Boundary(seq=7, kind="withdrawal")).cause == "withdrawal"
    assert report(call("m1"), call("m2")).cause == "unknown"


usages = st.builds(
    lambda plain, read, written, output: Usage(plain + read + written, output, read, written),
    *(st.integers(0, 50_000) for _ in range(4)),
)


@given(
    st.none() | usages,
    st.none() | usages,
    st.sampled_from([*PRICES[:3], GPT, None]),
    st.sampled_from([*PRICES[:3], GPT, None]),
    st.integers(0, 10),
    st.dictionaries(st.integers(2, 9), st.just("x"), max_size=3),
    st.booleans(),
)
@settings(max_examples=EXAMPLES)
def test_a_report_is_true_to_the_figures(
    first: Any, second: Any, old: Any, new: Any, minutes: int, changed: dict[int, str], packed: bool
) -> None:
    after = manifest(run(11, changed))
    events = tuple(HistoryChange(10, "guard", seq, seq) for seq in changed)
    front = compared(KEPT[0], after, *events) if packed else None
    one = call("p1", KEPT[0] if packed else None, usage=first, prices=old, model="" if old is None else old.model)
    other = call(
        "p2", after if packed else None, usage=second, prices=new, model="" if new is None else new.model
    )._replace(started_us=minutes * MINUTE_US)
    found = report_cache(other, one, front)
    assert report_cache(other, one, front) == found
    assert found.kept == (found.cause == "kept")
    assert found.why
    assert not (found.kept and found.rewritten)
    assert not (found.cause == "idle" and found.rewritten)
    assert (found.read is None) == (found.written is None)
    if found.read is not None:
        assert (found.read, found.written) == (second.cache_read_tokens, second.cache_write_tokens)
        assert found.rewritten <= max(0, second.input_tokens - second.cache_read_tokens)
        assert found.rewritten <= count_cached(one, None if front is None else front.front)
    if found.kept and front is not None:
        assert front.kept
    if second is not None and new is not None:
        cost = price_usage(second, new, found.rewritten)
        assert cost.total == cost.fresh + cost.cache_read + cost.cache_write + cost.output
        assert 0 <= cost.rewritten <= cost.fresh + cost.cache_write + 1


def test_a_call_costs_what_the_price_list_says() -> None:
    assert CLAUDE is not None
    cost = price_usage(Usage(1_000_000, 100_000, 600_000, 300_000), CLAUDE, 200_000)
    assert (cost.fresh, cost.cache_read, cost.cache_write, cost.output) == (200_000, 120_000, 750_000, 1_000_000)
    assert (cost.total, cost.rewritten, cost.model) == (2_070_000, 500_000, "claude-sonnet-5")
    assert price_usage(Usage(), UNKNOWN_PRICES, 500).total == 0


# Boundaries and places


def test_every_event_that_changes_a_history_is_a_boundary_and_no_other_one() -> None:
    assert set(BOUNDARY_TYPES) <= EVENTS.keys()
    assert describe_boundary(1, None) is None


texts = st.text('ab ["\\é\n', min_size=1, max_size=12)


@st.composite
def stated(draw: st.DrawFn) -> tuple[str, list[GuardStatement]]:
    text = draw(st.text("abc ", min_size=4, max_size=30))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    actions: Any = st.sampled_from(["redact", "annotate", "withhold"])
    return text, [
        GuardStatement(start, stop, (f"0:k{start}",), "key", draw(actions), True, False, stop)
        for start, stop in pairs
        if start < stop
    ]


@given(stated(), st.sampled_from(["redact", "annotate"]), st.data())
@settings(max_examples=EXAMPLES)
def test_a_placement_is_where_the_marker_or_the_value_is_shown(
    found: tuple[str, list[GuardStatement]], policy: Any, data: st.DataObject
) -> None:
    text, statements = found
    left = [one for one in statements if one.action != "withhold" and data.draw(st.booleans())]
    guarded = [one for one in statements if one not in left]
    shown = edit_text(text, guarded, policy)
    placed = list(place_statements(text, guarded, left, policy))
    assert {one for one, *_ in placed} == {one for one in statements if one.action != "withhold"}
    for one, start, stop, mode in placed:
        if mode == "redacted":
            assert shown[start:stop] == "[outdated: key]"
        else:
            assert shown[start:stop] == text[one.start : one.stop]
        assert (mode == "exposed") == (one in left)


@given(st.lists(texts, min_size=1, max_size=4), st.data())
@settings(max_examples=EXAMPLES)
def test_a_place_in_one_of_several_texts_stays_the_same_words(parts: list[str], data: st.DataObject) -> None:

    number = data.draw(st.integers(0, len(parts) - 1))
    start = data.draw(st.integers(0, len(parts[number]) - 1))
    stop = data.draw(st.integers(start + 1, len(parts[number])))
    first = sum(map(len, parts[:number]))
    one = GuardPlacement(3, "", 5, first + start, first + stop, ("0:k1",), "exposed", "".join(parts))
    (split,) = split_into_parts([one], parts)
    assert parts[split.part - 5][split.start : split.stop] == parts[number][start:stop]
    encoded = msgspec.json.encode({"n": 7, "text": parts[number]}).decode()
    (moved,) = move_into_json([one._replace(start=start, stop=stop, shown=parts[number])], encoded)
    assert encoded[moved.start : moved.stop] == msgspec.json.encode(parts[number][start:stop]).decode()[1:-1]
