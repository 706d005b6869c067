"""The guard on text, in both directions: nothing dead is told any more, and all that is live can be read where it stood.

What is told is read here in the plainest way, by splitting a text into words and comparing at every place.
"""

from __future__ import annotations

import re

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.guard import Cut, Span, Stated, anchor, cuts, guarded, tells, words
from holdfast.model.content import Json
from holdfast.model.pack import GUARDS
from tests.support import figure

EXAMPLES = settings(max_examples=figure(100, 20_000), deadline=None)
FEWER = settings(max_examples=figure(50, 10_000), deadline=None)

VALUES = (
    *(
        "Oslo",
        "Bergen",
        "Oslo Bergen",
        "12 Main St",
        "Main St",
        "12 Main St Springfield",
        "North Main St",
        "Springfield",
    ),
    *(
        "$1,200.00",
        "1200",
        "1,250",
        "$50k",
        "50,000",
        "2,000,000",
        "May 15",
        "15 May",
        "15 May 2027",
        "TICKET-5678",
        "5678",
    ),
    *("Ada Smith", "Ada", "Smith", "Dr Smith", "blue", "dark blue", "Ünal", "STRASSE", "東京", "東京都港区", "Ελλάδα"),
)
SMALL = (15, 7, True, "yes", "ok", "on", "LA", "no", 3.5, "A", None)
DEEP: tuple[Json, ...] = (
    {"city": "Oslo", "zip": "0150"},
    ["blue", {"to": "12 Main St"}],
    {"a": {"b": ["Bergen", 7]}},
    [],
    {"none": ""},
)
LONG = (
    "We ship all parcels weekly by express courier",
    "We ship all parcels daily by express courier",
    "Approved $50,000 budget for Acme until Friday",
    "Approved $60,000 budget for Acme until Friday",
    "Use the blue box. Send it to 12 Main St before noon",
)
KEYS = ("shipping_address", "city", "budget", "ticket.colour", "partySize", "limit", "owner", "current", "value", "")
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
    *("superseded", "the city", "my limit", "budget:", "'quoted'", "[note]", "§ 4", "___", "ok", "yes", "no", "on"),
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
GAPS = (" ", " ", "  ", ", ", "\u00a0", " / ", "\n")
AROUND = ("{}", "{}", "({})", '"{}"', "'{}'", "*{}*", "{}.", '"city": "{}"', "-{}-")
MARKER = re.compile(r" ?\[(?:superseded: [\w.:/@-]+ has a current value|outdated|withheld|–)\]")
NOTE = re.compile(r" \[no longer true(?:: [\w.:/@-]+ has a current value)?\]")


@st.composite
def stated(draw: st.DrawFn) -> tuple[Stated, ...]:
    """Facts of every standing, some within others, some with the same value."""
    values = draw(st.lists(st.sampled_from([*VALUES, *VALUES, *SMALL, *DEEP, *LONG]), min_size=1, max_size=7))
    return tuple(
        Stated(
            f"k{at}",
            draw(st.sampled_from(KEYS)),
            value,
            draw(st.sampled_from(("dead", "live", "dead", "live", "withheld"))),
            draw(st.sampled_from(KEYS)),
        )
        for at, value in enumerate(values)
    )


@st.composite
def written(draw: st.DrawFn, value: str) -> str:
    """A value as someone may write it."""
    shown = draw(st.sampled_from(GAPS)).join(value.split(" "))
    case = draw(st.sampled_from(("as it is", "lower", "upper", "title")))
    shown = {"lower": shown.lower(), "upper": shown.upper(), "title": shown.title()}.get(case, shown)
    return draw(st.sampled_from(AROUND)).format(shown)


def leaves(value: object) -> list[str]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value if isinstance(value, str) else msgspec.json.encode(value).decode()]


@st.composite
def texts(draw: st.DrawFn, facts: tuple[Stated, ...]) -> str:
    """Statements of these values and of others, in any form, one after another."""
    told = [leaf for each in facts for leaf in leaves(each.value)] or ["nothing"]
    parts: list[str] = []
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.integers(0, 5))
        if kind == 0:
            parts.append(draw(st.sampled_from(FILLING)))
        elif kind == 1:
            parts.append(draw(st.sampled_from(VALUES)))
        elif kind == 2:
            parts.append(draw(st.sampled_from([each.key.replace("_", " ") for each in facts])))
        else:
            parts.append(draw(written(draw(st.sampled_from(told)))))
        parts.append(draw(st.sampled_from(BETWEEN)))
    return "".join(parts)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[str, tuple[Stated, ...], tuple[Span, ...], str]:
    facts = draw(stated())
    text = draw(texts(facts))
    spans = [
        Span(start, start + draw(st.integers(0, 30)), draw(st.sampled_from(facts)).id)
        for start in draw(st.lists(st.integers(0, max(len(text), 1)), max_size=2))
    ]
    question = draw(st.one_of(st.just(""), st.just(text), texts(facts), st.sampled_from(VALUES)))
    return text, facts, tuple(spans), question


# How a text is read here


def plain_words(text: str) -> list[str]:
    """The words of a text, with a stop where a marker stands."""
    text = NOTE.sub(" \0 ", MARKER.sub(" \0 ", text))
    text = re.sub(r"(?<=\d)[,\u00a0](?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<=\d)\.(\d*?)0+(?!\d)", lambda found: f".{found[1]}" if found[1] else "", text)
    text = re.sub(r"(?<![\w.])(\d+)[kK]\b", r"\g<1>000", text)
    text = re.sub("([\u3040-\u9fff])", r" \1 ", text)
    return re.findall(r"\0|\d+\.\d+|\d+|(?:[^\W\d_]|[\u0300-\u036f])+", text.casefold())


def places(said: list[str], sought: list[str]) -> list[range]:
    size = len(sought)
    return (
        [range(at, at + size) for at in range(len(said) - size + 1) if said[at : at + size] == sought] if size else []
    )


def live_in(said: list[str], facts: tuple[Stated, ...]) -> tuple[set[int], set[int]]:
    """The words that tell something live, and those that tell it together with the word behind them."""
    kept: set[int] = set()
    joined: set[int] = set()
    for leaf in (leaf for each in facts if each.standing == "live" for leaf in leaves(each.value)):
        for found in places(said, plain_words(leaf)):
            kept |= {*found}
            joined |= {*found[:-1]}
    return kept, joined


def plainly_told(text: str, facts: tuple[Stated, ...]) -> list[str]:
    """The dead values that stand in a text and are not all live there; short ones may be about something else."""
    said = plain_words(text)
    kept, joined = live_in(said, facts)
    return [
        leaf
        for each in facts
        if each.standing != "live"
        for leaf in leaves(each.value)
        if leaf in VALUES or leaf in LONG
        for found in places(said, plain_words(leaf))
        if not (kept.issuperset(found) and joined.issuperset(found[:-1]))
    ]


# The promises


@EXAMPLES
@given(scenes())
def test_nothing_dead_is_told_and_all_that_is_live_can_be_read(
    scene: tuple[str, tuple[Stated, ...], tuple[Span, ...], str],
) -> None:
    text, facts, spans, _ = scene
    found = cuts(text, facts, spans)
    shown = guarded(text, found, "redact")
    assert plainly_told(shown, facts) == []
    assert tells(shown, facts) == ()
    before, after = plain_words(text), plain_words(shown)
    for leaf in (leaf for each in facts if each.standing == "live" for leaf in leaves(each.value)):
        sought = plain_words(leaf)
        assert len(places(after, sought)) == len(places(before, sought)), leaf
    assert {*tells(text, facts)} <= {name for cut in found for name in cut.ids}


@EXAMPLES
@given(scenes())
def test_a_second_look_finds_nothing_more_and_nothing_else_is_touched(
    scene: tuple[str, tuple[Stated, ...], tuple[Span, ...], str],
) -> None:
    text, facts, spans, question = scene
    found = cuts(text, facts, spans, question)
    shown = guarded(text, found, "redact")
    assert cuts(shown, facts, question=question) == ()
    at = here = 0
    for cut in found:
        assert at <= cut.start <= cut.stop <= len(text)
        assert here == 0 or cut.start > at
        assert shown.startswith(text[at : cut.start], here)
        marker = MARKER.match(shown, here + cut.start - at)
        assert marker is not None
        at, here = cut.stop, marker.end()
    assert shown[here:] == text[at:]


@EXAMPLES
@given(scenes())
def test_the_other_policies_show_what_is_dead_and_nothing_that_is_withheld(
    scene: tuple[str, tuple[Stated, ...], tuple[Span, ...], str],
) -> None:
    text, facts, spans, question = scene
    found = cuts(text, facts, spans, question)
    secret = {each.id for each in facts if each.standing == "withheld"}
    for policy in GUARDS:
        assert secret.isdisjoint(tells(guarded(text, found, policy), facts, question))
    hidden = [cut for cut in found if cut.withheld]
    assert guarded(text, found, "off") == guarded(text, hidden, "redact")
    assert all(cut.key == "" for cut in hidden)
    noted = guarded(text, found, "annotate")
    if not hidden:
        assert NOTE.sub("", noted) == NOTE.sub("", text)
        assert guarded(text, found, "off") is text
    if not hidden and not spans:
        open_ = tuple(each for each in facts if each.standing != "withheld")
        assert guarded(noted, cuts(noted, open_, question=question), "annotate") == noted


@FEWER
@given(scenes())
def test_who_is_asked_about_is_not_silenced_in_the_question(
    scene: tuple[str, tuple[Stated, ...], tuple[Span, ...], str],
) -> None:
    text, facts, spans, question = scene
    assert cuts(text, facts, spans, text) == () or not words(text)
    assert tells(text, facts, text) == ()
    quoted = f"{question}\n{text}"
    if words(question) and not question.rstrip().endswith(("and", "but", "instead of", "-", ",", ";", "|", "—", "*")):
        assert not any(cut.start < len(question) for cut in cuts(quoted, facts, (), question) if cut.stop > cut.start)


@FEWER
@given(scenes())
def test_without_anything_dead_a_text_stays_the_same_object(
    scene: tuple[str, tuple[Stated, ...], tuple[Span, ...], str],
) -> None:
    text, facts, spans, question = scene
    live = tuple(each for each in facts if each.standing == "live")
    assert cuts(text, live, spans, question) == ()
    assert all(guarded(text, (), policy) is text for policy in GUARDS)
    assert tells(text, live) == ()


@FEWER
@given(scenes(), st.randoms(use_true_random=False))
def test_the_order_of_the_facts_decides_nothing(
    scene: tuple[str, tuple[Stated, ...], tuple[Span, ...], str], random: object
) -> None:
    text, facts, spans, question = scene

    def where(found: tuple[Cut, ...]) -> list[tuple[int, int, bool, bool, list[str]]]:
        return [(each.start, each.stop, each.withheld, each.whole, sorted(each.ids)) for each in found]

    mixed = [*facts]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert where(cuts(text, facts, spans, question)) == where(cuts(text, mixed, spans, question))


@EXAMPLES
@given(st.data())
def test_a_value_that_is_told_is_found_by_its_anchor(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([*VALUES, *LONG]))
    fact = (Stated("k1", "key", value, "dead"),)
    text = f"{data.draw(texts(fact))} {data.draw(written(value))}"
    assert anchor(value)
    if anchor(value) not in words(text):
        assert tells(text, fact) == ()
    assert plainly_told(text, fact) == [] or anchor(value) in words(text)


ANY = st.text(st.characters(codec="utf-8") | st.sampled_from("aab15,. -\n$%é\u0301東京ßİ\u200d"), max_size=60)


@EXAMPLES
@given(ANY, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.booleans()), max_size=5), ANY)
def test_any_text_at_all(text: str, slices: list[tuple[int, int, bool]], other: str) -> None:
    values = [(text[start : start + size], live) for start, size, live in slices] + [(other, False)]
    facts = [Stated(f"k{at}", "a1", value, "live" if live else "dead") for at, (value, live) in enumerate(values)]
    found = cuts(text, facts)
    shown = guarded(text, found, "redact")
    assert tells(shown, facts) == ()
    assert cuts(shown, facts) == ()
    for each in facts:
        if each.standing == "live":
            alone = [Stated(each.id, each.key, each.value, "dead")]
            assert tells(text, alone) == () or tells(shown, alone) != ()
