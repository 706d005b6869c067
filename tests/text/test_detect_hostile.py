"""The default detector under any text: what always holds, and that nothing keeps it busy."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support import figure

from holdfast.model.facts.detection import FactCandidate, MessageSpan, Observation, Utterance
from holdfast.text.detect.detector import RuleDetector
from holdfast.text.detect.scene import CANDIDATES, LAST_CHARACTERS, READ_CHARACTERS

EXAMPLES = settings(max_examples=figure(30, 3_000), deadline=None)


VALUES = [
    *(
        "$50,000",
        "15%",
        "3 pm",
        "half past 7",
        "Tuesday",
        "March 15, 2026",
        "tomorrow",
        "4",
        "twelve",
        "12 months",
        "first",
    ),
    *("Oslo", "San Jose", "1546 Maurice Lane", "TICKET-5678", "blue theme", "yes", "no", "Bob Smith", "savings"),
    *("Approved $50,000 for Acme until Friday", "İstanbul’da", "１２", "²", "", " ", "(x)", "\ud7ff"),
]


PHRASES = [
    *(
        "actually",
        "make it",
        "instead of",
        "no, wait",
        "scratch that",
        "cancel that",
        "what if",
        "is now",
        "not",
        "from",
        "to",
    ),
    *(
        "how about",
        "sure, that works",
        "per the CEO,",
        "[VP]",
        "hold on -",
        "back to the",
        "the budget",
        "meeting_time",
        "?",
    ),
    *(".", ",", "!", "'", "’", "\n", "\u2028", "for my mother", "we don't need", "was:", "the", "please", "draft:"),
]


KEYS = [
    "meeting_time",
    "budget",
    "Restaurants_2.party_size",
    "city",
    "call.day",
    "owner",
    "",
    "...",
    "ÄÖ",
    "parking",
    "fact_3",
]


LEADING_ON = [["at"], ["on"], ["to"], ["from"], ["for"], ["of"], ["the"], ["and"], ["with"]]


TEXTS = st.lists(st.sampled_from(VALUES + PHRASES) | st.text(max_size=8), max_size=14).map(" ".join)


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    before = draw(st.lists(st.tuples(TEXTS, st.sampled_from(["user", "assistant"]), st.integers(0, 3)), max_size=4))
    facts = draw(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES), st.integers(0, 2**60)), max_size=6))
    return Observation(
        message=Utterance(draw(TEXTS), draw(st.sampled_from(["user", "assistant", "system", "tool"]))),
        previous=tuple(Utterance(text, role, seq) for text, role, seq in before),  # type: ignore[arg-type]
        facts=tuple(
            FactCandidate(
                fact=f"f{at}", key=key, value=value, text=value, since_us=since, spans=(MessageSpan(9, 0, 4),)
            )
            for at, (key, value, since) in enumerate(facts)
        ),
        now_us=draw(st.integers(0, 2**62)),
    )


@EXAMPLES
@given(observations())
def test_what_is_proposed_is_well_formed(observation: Observation) -> None:
    proposals = RuleDetector().detect(observation)
    assert proposals == RuleDetector().detect(observation)
    texts = {each.seq: each.text for each in observation.previous if each.seq} | {0: observation.message.text}
    known = {each.fact: each for each in observation.facts}
    about = [each.fact for each in proposals if each.fact is not None]
    assert len(about) == len(set(about))
    for each in proposals:
        assert 0 <= each.confidence <= 1
        assert (each.fact is not None) == (each.change in {"supersede", "retract", "expire"})
        if each.fact is not None:
            assert known[each.fact].key == each.key
        assert each.change != "supersede" or each.value is not None
        if each.change == "supersede" and isinstance(each.value, str):
            assert each.value.split()[-1:] not in LEADING_ON
            assert each.value.lower() not in {each.key.lower(), f"the {each.key.lower()}"}
        for span in (*each.old, *([each.new] if each.new else [])):
            assert 0 <= span.start < span.end
            if span.seq in texts:
                assert texts[span.seq][span.start : span.end].strip()
            else:
                assert span.seq == 9


@EXAMPLES
@given(observations())
def test_without_candidates_nothing_is_superseded(observation: Observation) -> None:
    alone = Observation(message=observation.message, previous=observation.previous, now_us=observation.now_us)
    assert all(each.change in {"assert", "switch"} for each in RuleDetector().detect(alone))


@EXAMPLES
@example("Oslo", "Restaurants_2.party_size", 4)
@example("4", "Restaurants_2.party_size", 4)
@given(
    st.sampled_from([each for each in VALUES[:20] if each not in {"yes", "no"}]),
    st.sampled_from(KEYS[:6]),
    st.integers(0, 5),
)
def test_a_value_that_is_repeated_changes_nothing(value: str, key: str, frame: int) -> None:
    again = (f"It is now {value}.", f"As I said, the {key.replace('_', ' ')} is {value} now.", f"It is {value} now")
    said = [f"{value}", f"Yes, {value} please.", f"Actually, make it {value}.", *again][frame]
    candidate = FactCandidate(fact="f", key=key, value=value, text=value)
    before = (Utterance(f"It is {value}.", "user", 1), Utterance(f"So {value}, right?", "assistant", 2))
    found = RuleDetector().detect(Observation(message=Utterance(said), previous=before, facts=(candidate,)))
    assert [each for each in found if each.fact is not None] == []


WORDS = st.sampled_from(["apple", "bridge", "candle", "dust", "engine", "forest", "glass", "harbor", "ink", "juniper"])


@EXAMPLES
@given(st.lists(WORDS, max_size=12).map(" ".join), st.sampled_from(VALUES[:11]), st.sampled_from(KEYS[:6]))
def test_a_text_without_values_and_cues_proposes_nothing(text: str, value: str, key: str) -> None:
    candidate = FactCandidate(fact="f", key=key, value=value, text=value, since_us=1)
    assert RuleDetector().detect(Observation(message=Utterance(text), facts=(candidate,))) == ()


@EXAMPLES
@given(
    st.text(alphabet=string.printable + "’–é漢🙂\u202e\u0000", max_size=200), st.text(max_size=40), st.text(max_size=20)
)
def test_any_text_is_read(text: str, value: str, key: str) -> None:
    candidate = FactCandidate(fact="f", key=key, value=value, text=value)
    observation = Observation(
        message=Utterance(text), previous=(Utterance(value, "assistant", 1),), facts=(candidate,), now_us=1
    )
    for each in RuleDetector().detect(observation):
        for span in each.old:
            assert (text if span.seq == 0 else value)[span.start : span.end]


@pytest.mark.parametrize(
    "part",
    [
        "a ",
        "[",
        "no ",
        "x",
        "move it, ",
        "if a ",
        "San Jose ",
        "1",
        "1,",
        "the 1 ",
        "3 pm ",
        "$1 ",
        "is is ",
        "'",
        "\n",
        "was: ",
    ],
)
def test_a_long_text_is_read_up_to_a_bound(part: str) -> None:
    """Only its beginning and its end are looked at: a text many times as long gives the same changes."""
    facts = tuple(
        FactCandidate(fact=f"f{at}", key=KEYS[at % 6], value=VALUES[at % 20], text=VALUES[at % 20]) for at in range(30)
    )
    size = READ_CHARACTERS + LAST_CHARACTERS + 60
    short, long = (
        [
            (each.change, each.fact, each.value, each.confidence)
            for each in RuleDetector().detect(
                Observation(message=Utterance(part * (length // len(part) + 1)), facts=facts)
            )
        ]
        for length in (size, size * 12)
    )
    assert short == long


def test_only_so_many_candidates_are_looked_at() -> None:
    late = FactCandidate(fact="late", key="time", value="3 pm", text="3 pm")
    others = tuple(FactCandidate(fact=str(at), key=f"note_{at}", value="-", text="-") for at in range(CANDIDATES))
    said = Utterance("Actually, change the time to 4 pm instead.")
    assert RuleDetector().detect(Observation(message=said, facts=(late, *others)))[0].fact == "late"
    assert all(each.fact != "late" for each in RuleDetector().detect(Observation(message=said, facts=(*others, late))))
