"""The guard on random text, in both directions: nothing but superseded values is lost, and no distinctive one goes
unmarked."""

from __future__ import annotations

import re

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.model.content import Json
from holdfast.model.packs.pack import GUARD_MODES, GuardMode
from holdfast.text.guard.finder import anchors_of, edit_text, find_facts_by_value, find_statements, lookup_terms
from holdfast.text.guard.patterns import GuardFact, GuardStatement, Strength, ValueSpan, strength_of
from tests.support import figure

EXAMPLES = settings(max_examples=figure(50, 20_000), deadline=None)
FEWER = settings(max_examples=figure(25, 10_000), deadline=None)

DISTINCTIVE = (
    *("12 Main St", "12 Main St Springfield", "SD-2210", "korallenriff77", "Flat 5678 B", "ada@a.example"),
    *("https://a.example/x", "+1 555 123 4567", "we ship every parcel by courier"),
)
TYPED = ("9:30", "9:30 am", "March 6th", "2026-03-06", "$1,200.00", "5,000 euros", "Ada Smith", "MySQL", "Friday 3 pm")
NAMES = ("Oslo", "Bergen", "Ada", "Smith", "Springfield", "Ünal", "Ελλάδα")
SMALL: tuple[Json, ...] = (15, 7, True, "yes", "ok", "on", "no", 3.5, None, "blue", "dark blue", "four", "東京")
DEEP: tuple[Json, ...] = ({"city": "Oslo", "zip": "SD-0150"}, ["blue", {"to": "12 Main St"}], [], {"none": ""})
VALUES = (*DISTINCTIVE, *DISTINCTIVE, *TYPED, *NAMES, *SMALL, *DEEP)
KEYS = (
    "shipping_address",
    "city",
    "budget",
    "ticket.colour",
    "partySize",
    "meeting_time",
    "owner",
    "current",
    "value",
    "",
)
FILLING = (
    *(
        "well",
        "I think",
        "the order",
        "went out",
        "please",
        "(see below)",
        "👍🏽",
        "e\u0301te",
        "שלום",
        "مرحبا",
        "50%",
        "a",
    ),
    *("the city is", "my party size is", "budget:", "'quoted'", "[note]", "§ 4", "___", "ok", "yes", "no", "on", "- "),
    *("my sister's", "their budget", "the 6th floor", "`code", "x = 3", "outdated", "[outdated", "we live in", "```"),
)
BETWEEN = (
    ". ",
    ", ",
    "; ",
    " ",
    "! ",
    "\n",
    " - ",
    " and ",
    " but ",
    "? ",
    " — ",
    "\n\n* ",
    " | ",
    "。",
    " instead of ",
)
GAPS = (" ", " ", "  ", ", ", "\u00a0")
AROUND = ("{}", "{}", "({})", '"{}"', "'{}'", "*{}*", "{}.", '"city": "{}"', "`{}`", "\n{}\n")
MARKER = re.compile(
    r"\[(?:outdated(?:: [^\[\]\n]{1,80})?|withheld|[^\[\]\n]{1,80} (?:has changed since|no longer applies))\]"
)
Scene = tuple[str, tuple[GuardFact, ...], tuple[ValueSpan, ...]]


def leaves(value: object) -> list[str]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value if isinstance(value, str) else msgspec.json.encode(value).decode()]


@st.composite
def stated(draw: st.DrawFn) -> tuple[GuardFact, ...]:
    """Facts of every standing, some within others, some with the same value."""
    values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=7))
    return tuple(
        GuardFact(
            f"k{at}",
            draw(st.sampled_from(KEYS)),
            value,
            draw(st.sampled_from(("dead", "live", "dead", "live", "withheld"))),
            draw(st.booleans()),
        )
        for at, value in enumerate(values)
    )


@st.composite
def written(draw: st.DrawFn, value: str) -> str:
    """A value as someone may write it."""
    shown = draw(st.sampled_from(GAPS)).join(value.split(" "))
    case = draw(st.sampled_from(("as it is", "as it is", "lower", "upper")))
    shown = {"lower": shown.lower(), "upper": shown.upper()}.get(case, shown)
    return draw(st.sampled_from(AROUND)).format(shown)


@st.composite
def texts(draw: st.DrawFn, facts: tuple[GuardFact, ...]) -> str:
    """Statements of these values and of others, in any form, one after another."""
    said = [leaf for each in facts for leaf in leaves(each.value)] or ["nothing"]
    parts: list[str] = []
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.integers(0, 5))
        if kind == 0:
            parts.append(draw(st.sampled_from(FILLING)))
        elif kind == 1:
            parts.append(draw(st.sampled_from((*DISTINCTIVE, *TYPED, *NAMES))))
        elif kind == 2:
            parts.append(draw(st.sampled_from([each.key.replace("_", " ") for each in facts])))
        else:
            parts.append(draw(written(draw(st.sampled_from(said)))))
        parts.append(draw(st.sampled_from(BETWEEN)))
    return "".join(parts)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    facts = draw(stated())
    text = draw(texts(facts))
    spans = [
        ValueSpan(start, start + draw(st.integers(0, 30)), draw(st.sampled_from(facts)).id)
        for start in draw(st.lists(st.integers(0, max(len(text), 1)), max_size=2))
    ]
    return text, facts, tuple(spans)


def replaced(found: tuple[GuardStatement, ...], policy: GuardMode) -> list[GuardStatement]:
    """What is taken out of a text under a policy."""
    return [each for each in found if each.action == "withhold" or (policy == "redact" == each.action)]


# The promises


@EXAMPLES
@given(scenes(), st.sampled_from(GUARD_MODES))
def test_nothing_is_lost_but_the_redacted_values(scene: Scene, policy: GuardMode) -> None:
    """Without what the guard put in, the text is the original without exactly the values that were redacted."""
    text, facts, spans = scene
    found = find_statements(text, facts, spans=spans)
    shown = edit_text(text, found, policy)
    left = "".join(
        text[start:stop]
        for start, stop in zip(
            [0, *(each.stop for each in replaced(found, policy))],
            [*(each.start for each in replaced(found, policy)), len(text)],
            strict=True,
        )
    )
    assume(not MARKER.search(text))
    assert re.sub(r"\s", "", MARKER.sub("", shown)) == re.sub(r"\s", "", MARKER.sub("", left))
    assert len(MARKER.findall(shown)) >= len(replaced(found, policy))


@EXAMPLES
@given(scenes())
def test_what_is_found_stands_in_order_and_apart_and_is_stated_by_dead_facts(scene: Scene) -> None:
    text, facts, spans = scene
    standing = {each.id: each.status for each in facts}
    at = 0
    for each in find_statements(text, facts, spans=spans):
        assert at <= each.start < each.stop <= each.note_at <= len(text)
        assert each.ids
        assert "live" not in {standing[name] for name in each.ids}
        assert (each.action == "withhold") == ("withheld" in {standing[name] for name in each.ids})
        assert each.action != "withhold" or each.key == ""
        at = each.stop


@EXAMPLES
@given(scenes(), st.sampled_from(GUARD_MODES))
def test_a_text_without_any_value_of_a_dead_fact_is_returned_as_it_is(scene: Scene, policy: GuardMode) -> None:
    text, facts, _ = scene
    dead = [each for each in facts if each.status != "live"]
    if not find_facts_by_value(text, dead):
        assert edit_text(text, find_statements(text, facts), policy) is text
    live = tuple(each for each in facts if each.status == "live")
    assert find_statements(text, live) == ()


@EXAMPLES
@given(scenes())
def test_a_live_value_stays_readable_beside_any_other_key(scene: Scene) -> None:
    """A live fact whose value nobody states under another key can be read wherever it could be."""
    text, facts, _ = scene
    shown = edit_text(text, find_statements(text, facts), "redact")
    for each in (one for one in facts if one.status == "live"):
        for leaf in leaves(each.value):
            alone = [GuardFact("x", each.key, leaf, "dead")]
            others = [one for one in facts if one.status != "live" and find_facts_by_value(leaf, [one])]
            if not others and not any(
                find_facts_by_value(value, alone) for one in facts if one is not each for value in leaves(one.value)
            ):
                assert len(find_facts_by_value(text, alone)) == len(find_facts_by_value(shown, alone)), leaf


@EXAMPLES
@given(scenes())
def test_a_distinctive_dead_value_is_gone_or_marked_everywhere(scene: Scene) -> None:
    text, facts, _ = scene
    live = [each for each in facts if each.status == "live"]
    assume(not MARKER.search(text))
    for policy in ("redact", "annotate"):
        shown = edit_text(text, find_statements(text, facts), policy)
        for each in facts:
            for leaf in leaves(each.value) if each.status == "dead" else ():
                if strength_of(leaf) is not Strength.DISTINCTIVE or any(
                    find_facts_by_value(leaf, [one]) or find_facts_by_value(str(one.value), [each]) for one in live
                ):
                    continue
                for found in find_statements(shown, [each]):
                    behind = shown[found.stop : shown.find("\n", found.stop) % (len(shown) + 1)]
                    assert MARKER.search(behind), (leaf, shown)


@EXAMPLES
@given(scenes())
def test_what_is_withheld_is_in_no_text_under_any_policy(scene: Scene) -> None:
    text, facts, spans = scene
    found = find_statements(text, facts, spans=spans)
    secret = [each for each in facts if each.status == "withheld"]
    live = [each for each in facts if each.status == "live"]
    assume(not any(find_facts_by_value(str(leaf), live) for each in secret for leaf in leaves(each.value)))
    assume(not any(find_facts_by_value(leaf, secret) for each in live for leaf in leaves(each.value)))
    for policy in GUARD_MODES:
        shown = edit_text(text, found, policy)
        for each in secret:
            for leaf in leaves(each.value):
                if strength_of(leaf) is Strength.DISTINCTIVE:
                    assert not find_facts_by_value(shown, [GuardFact(each.id, each.key, leaf, "withheld")]), (
                        leaf,
                        shown,
                    )


@EXAMPLES
@given(scenes())
def test_the_other_policies_lose_nothing_that_is_not_withheld(scene: Scene) -> None:
    text, facts, spans = scene
    known = tuple(each for each in facts if each.status != "withheld")
    found = find_statements(text, known, spans=spans)
    assert edit_text(text, found, "off") is text
    noted = edit_text(text, found, "annotate")
    assume(not MARKER.search(text))
    assert re.sub(r"\s", "", MARKER.sub("", noted)) == re.sub(r"\s", "", text)


@FEWER
@given(scenes(), st.randoms(use_true_random=False))
def test_the_same_text_and_facts_give_the_same_in_any_order(scene: Scene, random: object) -> None:
    text, facts, spans = scene

    def where(found: tuple[GuardStatement, ...]) -> list[tuple[int, int, str, list[str]]]:
        return [(each.start, each.stop, each.action, sorted(each.ids)) for each in found]

    found = find_statements(text, facts, spans=spans)
    assert find_statements(text, facts, spans=spans) == found
    mixed = [*facts]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert where(find_statements(text, mixed, spans=spans)) == where(found)


@EXAMPLES
@given(st.data())
def test_a_value_that_is_stated_is_found_by_its_anchor(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([*DISTINCTIVE, *TYPED, *NAMES, *SMALL]))
    fact = (GuardFact("k1", "key", value, "dead"),)
    text = f"{data.draw(texts(fact))} {data.draw(written(leaves(value)[0]))}"
    if find_facts_by_value(text, fact):
        assert not lookup_terms(text).isdisjoint(anchors_of(value))


ANY = st.text(st.characters(codec="utf-8") | st.sampled_from("aab15,. -\n$%é\u0301東京ßİ\u200d[]`|:/"), max_size=60)


@EXAMPLES
@given(ANY, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.booleans()), max_size=5), ANY)
def test_any_text_at_all(text: str, slices: list[tuple[int, int, bool]], other: str) -> None:
    values = [(text[start : start + size], live) for start, size, live in slices] + [(other, False)]
    facts = [GuardFact(f"k{at}", "a1", value, "live" if live else "dead") for at, (value, live) in enumerate(values)]
    found = find_statements(text, facts)
    shown = edit_text(text, found, "redact")
    assert edit_text(text, find_statements(text, facts), "redact") == shown
    assert len(shown) >= len(text) - sum(each.stop - each.start for each in replaced(found, "redact"))
    assert edit_text(text, found, "off") is text
