"""The one stemmer: which forms are one word, which are kin, and that it stays as it is."""

from __future__ import annotations

import string
import subprocess
import sys
import threading
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import limits
from holdfast.model.facts.fact import Fact
from holdfast.text import relevance, stems

PINNED = {
    "allergies": "allergi",
    "allergic": "allerg",
    "prices": "price",
    "pricing": "price",
    "deliveries": "deliveri",
    "delivered": "deliv",
    "meetings": "meet",
    "shipped": "ship",
    "addresses": "address",
    "policies": "polici",
    "police": "polic",
    "running": "run",
    "news": "news",
    "happily": "happili",
    "generalizations": "general",
    "skies": "sky",
    "organisation": "organis",
    "universities": "universiti",
}


def test_stems_stay_as_they_are() -> None:
    """When this fails, the library has another algorithm: raise PROJECTION_VERSION, since the indexes hold the old stems,
    and record the new ones."""
    assert {word: stems.stem(word) for word in PINNED} == PINNED


@pytest.mark.parametrize(
    "forms",
    [
        ("price", "prices", "priced", "pricing"),
        ("meeting", "meetings", "meet", "meets"),
        ("café", "cafe", "cafés", "CAFÉ".lower(), unicodedata.normalize("NFD", "café")),
        ("address", "addresses"),
        ("customer", "customers", "customer's", "customers’", "customer’s"),
        ("reservation", "reserve", "reserved"),
        ("cancel", "cancelled", "cancellation"),
    ],
)
def test_the_forms_of_a_word_are_one(forms: tuple[str, ...]) -> None:
    assert len({stems.stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("allergic", "allergies"),
        ("subscription", "subscribe"),
        ("delivery", "deliver"),
        ("delivery", "delivered"),
        ("economic", "economy"),
        ("historical", "history"),
        ("vegetarian", "vegetables"),
        ("electricity", "electrician"),
    ],
)
def test_long_words_that_begin_alike_are_kin(one: str, other: str) -> None:
    assert stems.term_of(one).kin == stems.term_of(other).kin != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [("policy", "police"), ("card", "care"), ("mark", "market"), ("plan", "plane"), ("ab123456", "ab123457")],
)
def test_short_words_and_codes_have_no_kin(one: str, other: str) -> None:
    assert stems.stem(one) != stems.stem(other)
    assert (
        "" in {stems.term_of(one).kin, stems.term_of(other).kin} or stems.term_of(one).kin != stems.term_of(other).kin
    )


@pytest.mark.parametrize("word", ["7", "po84417", "北京", "привет", "𞤢𞤣", "שלום", "2026", "x1s"])
def test_codes_and_other_scripts_stay_as_they_are(word: str) -> None:
    assert stems.stem(word) == unicodedata.normalize("NFD", word)
    assert stems.index_terms([word]) == [stems.stem(word)]


@given(st.text(min_size=1, max_size=80).map(str.lower))
def test_every_text_has_a_stem_that_an_index_can_hold(word: str) -> None:
    found = stems.index_terms([word])
    assert 1 <= len(found) <= 2
    assert stems.index_terms([word]) == found
    assert found[0]
    assert word.isalnum() <= all(term.isalnum() or term == stems.stem(word) for term in found)


@given(st.text(string.ascii_lowercase, min_size=1, max_size=64))
def test_a_stem_is_never_taken_for_kin(word: str) -> None:
    found = stems.term_of(word)
    assert found.stem.isalpha()
    assert not found.kin.isalpha()


def test_threads_that_stem_at_once_get_the_same() -> None:
    words = [f"{start}{end}" for start in PINNED for end in ("", "ly", "ness", "ing")]
    expected = [stems.term_of.__wrapped__(word) for word in words]
    found: list[list[stems.Term]] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        found.append([stems.term_of.__wrapped__(word) for word in words])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [expected] * 4


def test_only_english_is_loaded() -> None:
    code = (
        "import sys, holdfast\n"
        "from holdfast.text import stems\n"
        "assert stems.stem('prices') == 'price'\n"
        "loaded = {name for name in sys.modules if 'stemmer' in name}\n"
        "assert loaded == {'holdfast_snowball.english_stemmer', 'holdfast_snowball.basestemmer'}, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_asked_for_is_bounded_and_has_stems_first() -> None:
    found = relevance.query_terms("What about my subscriptions and prices?")
    assert found == ("subscript", "price", "subscr0", "prices0")
    assert len(relevance.query_terms(" ".join(f"word{at}ings" for at in range(500)))) == limits.SEARCH_WORDS


def _fact(number: int, key: str, value: str) -> Fact:
    return Fact(id=f"k{number}", key=key, value=value)


def test_the_word_itself_ranks_before_its_kin_and_kin_before_nothing() -> None:
    facts = [_fact(1, "colour", "blue"), _fact(2, "community", "the chess club"), _fact(3, "communication", "e-mail")]
    order = [facts[at].id for at, _ in relevance.rank_facts("Which communications do I get?", facts)]
    assert order == ["k3", "k2", "k1"]
    scores = dict(relevance.rank_facts("Am I allergic to anything?", [_fact(1, "allergies", "nuts"), facts[0]]))
    assert scores[0] > 0 == scores[1]
