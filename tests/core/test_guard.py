"""The guard on text, by examples: what is told, what is cut, and what stays."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Literal

import pytest

from holdfast.core.guard import Cut, Span, Stated, anchor, cuts, guarded, tells, words
from holdfast.model.content import Json
from holdfast.model.pack import GUARDS

NOW = "[superseded: shipping_address has a current value]"


def fact(
    value: Json,
    standing: Literal["live", "dead", "withheld"] = "dead",
    key: str = "shipping_address",
    now: str = "shipping_address",
    name: str = "k1",
) -> Stated:
    return Stated(name, key, value, standing, now)


def shown(text: str, *facts: Stated, spans: tuple[Span, ...] = (), question: str = "") -> str:
    return guarded(text, cuts(text, facts, spans, question), "redact")


NOT_TELLING: list[Json] = ["yes", "ok", True, None, 5, "", "!?", "👍", [], {}]
MAIN, ELM = fact("12 Main St"), fact("5 Elm Rd", "live", name="k2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We ship to 12 Main St.", f"{NOW}."),
        ("we ship to 12 MAIN ST!", f"{NOW}!"),
        ("We ship to 12,  Main\nSt", f"{NOW}"),
        ("Thanks. We ship to 12-Main-St; fine", f"Thanks. {NOW}; fine"),
        ("We ship to 12 Main St and bill to Oslo.", f"{NOW} and bill to Oslo."),
        ("As I said, we ship to 12 Main St, so hurry", f"As I said, {NOW}, so hurry"),
        ("We moved from 12 Main St to 5 Elm Rd.", f"We moved from {NOW} to 5 Elm Rd."),
        ("Ship to 5 Elm Rd instead of 12 Main St", f"Ship to 5 Elm Rd instead {NOW}"),
        ('{"to": "12 Main St", "count": 5}', f'{{"to": "{NOW}", "count": 5}}'),
        ('{"to":"12 Main St","count":5}', f'{{"to":"{NOW}","count":5}}'),
        ("She said “12 Main St” twice", f"She said “{NOW}” twice"),
        ("12 Main St 12 Main St", f"{NOW}"),
        ("| to | 12 Main St |\n| count | 5 |", f"| to | {NOW} |\n| count | 5 |"),
        ("112 Main St, 12 Main Street, 12 Mainst", "112 Main St, 12 Main Street, 12 Mainst"),
        ("12 North Main St", "12 North Main St"),
        ("", ""),
        ("…!?", "…!?"),
    ],
)
def test_the_clause_gives_way_but_for_what_is_live(text: str, expected: str) -> None:
    assert shown(text, MAIN, ELM) == expected
    assert tells(text, (MAIN, ELM)) == (() if text == expected else ("k1",))


@pytest.mark.parametrize(
    ("dead", "text", "told"),
    [
        ("$1,200.00", "It was $1200", True),
        (1200, "It was 1,200", True),
        (1200.5, "It was $1,200.50", True),
        ("1200", "It was 1’200 or so", True),
        ("€1.200,00", "It was 1200", True),
        ("50,000", "It was $50k", True),
        (1500, "It was 1.5k", True),
        (1200, "It was 1200.5, 11,200, 1200-15, 12001 or a1200", False),
        (1500, "[1200,1500,1800]", True),
        (200, "It was 1,200", False),
        (200, "[100,200,300]", True),
        ("15 May", "on the 15th May", True),
        ("May 15", "on May 150", False),
        ("555 123 4567", "Call (555) 123-4567", True),
        ("123 4567", "Call 555-123-4567", False),
        ("2027-03-01", "on 2027/03/01", True),
        (2027, "on 2027-03-01", False),
        ("10.0.0.1", "ping 10.0.0.1", True),
        ("10.0.0.1", "ping 10.0.0.12", False),
        ("Straße", "In der STRASSE", True),
        ("Caf\u00e9 Nord", "at the cafe\u0301 nord", True),
        ("Café", "at the Cafeteria", False),
        ("शिमला", "हम शिमला में", True),
        ("שלום עולם", "\u200fשלום, עולם\u200f!", True),
        ("東京", "明日東京へ行く", True),
        ("서울", "서울에서 만나요", True),
        ("กรุงเทพ", "ไปกรุงเทพครับ", True),
        ("١٢٠٠", "it was 1200", True),
        ("Oslo", "Os\u00adlo it is", True),
        ("Oslo", "❤\ufe0fOslo it is", True),
        ("Oslo", "in Oslo's harbour", True),
        ("C3PO", "c3po", True),
        ("Oslo", "Oslofjord", False),
    ],
)
def test_words_are_compared_and_not_how_they_are_written(dead: Json, text: str, told: bool) -> None:
    assert tells(text, [fact(dead, key="other")]) == (("k1",) if told else ())
    assert (anchor(dead) in words(text)) or not told


@pytest.mark.parametrize(
    ("dead", "text", "told"),
    [
        (15, "The limit is 15.", True),
        (15, "15 is fine for me", False),
        (15, "The limit is 150, or 15.5", False),
        (15, "The limit is not known, 15 came", False),
        (True, "limit: true", True),
        ("yes", "Yes, of course", False),
        ("ok", "the limits are ok", True),
        ("LA", "la la la", False),
        ("$15", "that makes $15", True),
        ("15%", "that makes 15% in all", True),
        ("15%", "that makes 15 in all", False),
    ],
)
def test_a_short_value_needs_its_key(dead: Json, text: str, told: bool) -> None:
    assert tells(text, [fact(dead, key="order.upper_limit")]) == (("k1",) if told else ())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((each, "") for each in NOT_TELLING),
        ("12 Main St", "main"),
        ("12 Springfield Avenue", "springfield"),
        ("ticket 5678", "5678"),
        ("$1,200.00", "1200"),
        ("May 15, 2027 in Springfield", "springfield"),
        ("15%", "15"),
        ("NY", "ny"),
        ("東京都", "東京"),
        ({"a": [1, "Oslo"], "b": "0150"}, "0150"),
        ("x" * 500, "x" * 64),
    ],
)
def test_an_anchor_is_the_most_telling_word(value: Json, expected: str) -> None:
    assert anchor(value) == expected


def test_what_is_live_is_spared_wherever_it_stands() -> None:
    day = fact(15, key="limit", now="limit")
    assert shown("The limit is 15 May", day, fact("15 May", "live", name="k2")) == "The limit is 15 May"
    street = fact("Main St")
    full = fact("12 Main St", "live", name="k2")
    assert shown("Main St, no, 12 Main St", street, full) == f"{NOW}, no, 12 Main St"
    assert shown("in Oslo", fact("Oslo"), fact("OSLO", "live", name="k2")) == "in Oslo"
    assert shown("at Gate 1, Oslo", fact("Gate 1, Oslo"), fact("Oslo", "live", name="k2")) == f"at {NOW}, Oslo"
    ada, smith = fact("Ada", "live", name="k2"), fact("Smith", "live", name="k3")
    assert shown("Call Ada Smith", fact("Ada Smith"), ada, smith) == f"Call Ada {NOW} Smith"
    chain = fact("Ada B", "live", name="k2"), fact("B Smith", "live", name="k3")
    assert shown("Call Ada B Smith", fact("Ada B Smith"), *chain) == "Call Ada B Smith"


def test_the_values_inside_a_value_are_told_one_by_one() -> None:
    old = fact({"city": "Oslo", "zip": "0150", "floor": 3})
    new = fact({"city": "Oslo", "zip": "0151", "floor": 3}, "live", name="k2")
    assert shown("Oslo 0150, not 0151", old, new) == f"Oslo {NOW}, not 0151"


def test_a_statement_is_known_in_other_words() -> None:
    old = fact("We ship all parcels weekly by express courier", key="how", now="")
    new = fact("We ship all parcels daily by express courier", "live", key="how", name="k2")
    assert shown("By express courier, each parcel is shipped weekly.", old) == "[outdated]."
    assert (
        shown("By express courier we ship the parcels daily.", old, new)
        == "By express courier we ship the parcels daily."
    )
    assert (
        shown("Express parcels are dear, and weekly is fine.", old) == "Express parcels are dear, and weekly is fine."
    )
    sums = (
        fact("Approved $50,000 for Acme until Friday", now=""),
        fact("Approved $60,000 for Acme until Friday", "live"),
    )
    text = "Until Friday, approved for Acme: first $50,000, then $60,000"
    assert shown(text, *sums) == "Until Friday, approved for Acme: first [outdated], then $60,000"
    assert shown("Acme had approved it until Friday", *sums) == "Acme had approved it until Friday"


def test_what_a_cut_brings_together_is_looked_at_again() -> None:
    much = " ".join(f"word{chr(97 + at)}" for at in range(20)) + " Oslo" + " more" * 40
    old = fact("We ship all parcels weekly by express courier", now="", name="k2")
    text = f"{much}, by express courier, each parcel is shipped weekly."
    assert shown(text, fact("Oslo"), old) == f"{NOW}, [outdated]."
    assert [each.ids for each in cuts(text, [fact("Oslo"), old])] == [("k1",), ("k2",)]


def test_a_value_that_ends_another_one_is_seen_where_that_breaks_off() -> None:
    longer, shorter = fact("North Main Oslo"), fact("Main", name="k2")
    assert shown("Oslo, then North Main", longer, shorter) == f"Oslo, {NOW}"


def test_a_value_of_several_sentences_takes_them_whole() -> None:
    note = fact("Use the blue box. Send it to Oslo.", now="")
    assert shown("Hello. Please: use the blue box. Send it to Oslo, please. Bye.", note) == "Hello. [outdated]. Bye."


def test_provenance_is_believed() -> None:
    text = "Well, the usual place, and call 5 Elm Rd 👍"
    usual = Span(6, 21, "k1")
    assert shown(text, MAIN, ELM, spans=(usual,)) == f"Well, {NOW}, and call 5 Elm Rd 👍"
    assert shown(text, MAIN, ELM, spans=(Span(6, 40, "k1"),)) == f"Well, {NOW} 5 Elm Rd 👍"
    assert shown(text, MAIN, spans=(Span(len(text) - 1, len(text), "k1"),)) == text[:-1] + NOW
    assert shown(text, MAIN, ELM, spans=(Span(6, 21, "k2"), Span(6, 21, "k9"), Span(30, 10, "k1"))) == text
    again = fact("12 Main St", "live", name="k2")
    assert shown(text, MAIN, again, spans=(usual,)) == text
    assert shown("", MAIN, spans=(Span(0, 5, "k1"),)) == ""
    assert shown("at that place", MAIN, spans=(Span(-4, 900, "k1"),)) == NOW


def test_the_question_is_not_touched_and_shields_nothing_else() -> None:
    question = "Is it still 12 Main St?"
    assert shown(question, MAIN, question=question) == question
    assert shown(f"{question} We ship to 12 Main St.", MAIN, question=question) == f"{question} {NOW}."
    assert shown("We ship to Oslo", fact("Oslo"), question="Oslo?") == NOW
    assert tells(question, [MAIN], question) == ()
    assert tells(question, [MAIN]) == ("k1",)


def test_what_is_withheld_is_cut_under_any_policy_and_names_no_key() -> None:
    pay = fact(90_000, "withheld", key="salary", now="salary")
    text = 'Ada has 90,000, she said. {"salary": 90000, "desk": 4}'
    found = cuts(text, [pay])
    hidden = '[withheld], she said. {"[withheld], "desk": 4}'
    assert {guarded(text, found, policy) for policy in GUARDS} == {hidden}
    both = cuts("We ship to 12 Main St for 90000", [pay, fact("12 Main St", name="k2")])
    assert both == (Cut(0, 31, ("k1", "k2"), "", True, True),)


def test_notes_stand_behind_what_they_are_about() -> None:
    text = "We moved from 12 Main St to 5 Elm Rd. So 12 Main St is past, fine."
    noted = guarded(text, cuts(text, [MAIN, ELM]), "annotate")
    note = "[no longer true: shipping_address has a current value]"
    assert noted == f"We moved from 12 Main St {note} to 5 Elm Rd. So 12 Main St is past {note}, fine."
    assert guarded(noted, cuts(noted, [MAIN, ELM]), "annotate") == noted
    assert guarded(text, cuts(text, [MAIN, ELM]), "off") is text


@pytest.mark.parametrize(
    ("value", "now", "expected"),
    [
        ("Oslo", "office_oslo", "[outdated]"),
        ("Oslo", "the office", "[outdated]"),
        ("Oslo", "k" * 81, "[outdated]"),
        ("Oslo", "", "[outdated]"),
        ("current value", "office", "[outdated]"),
        ("outdated", "office", "[superseded: office has a current value]"),
        ("outdated", "", "[–]"),
    ],
)
def test_a_marker_tells_nothing_itself(value: str, now: str, expected: str) -> None:
    dead = fact(value, key="place", now=now)
    text = f"The place: {value}"
    assert shown(text, dead) == expected
    assert cuts(expected, [dead]) == ()


def test_only_its_own_markers_are_not_read() -> None:
    assert shown(f"[superseded: 12 Main St has a current value] {NOW}", MAIN) == f"[{NOW}] {NOW}"
    assert shown(f"St {NOW} 12 Main {NOW} St", fact("12 Main St")) == f"St {NOW} 12 Main {NOW} St"


SEED = """
from holdfast.core.guard import Span, Stated, cuts, guarded, tells
names = ["Oslo", "Bergen", "12 Main St", "Main St"]
names += ["ship parcels weekly by express courier", "ship parcels daily by express"]
facts = [Stated(f"k{at}", f"key_{at % 3}", name, ("dead", "live")[at % 2], f"key_{at}") for at, name in enumerate(names)]
text = "Oslo, Bergen and 12 Main St. We ship parcels by express courier weekly from Main St, key 12. " * 3
found = cuts(text, facts, [Span(5, 30, "k0"), Span(5, 30, "k2")])
print(found, guarded(text, found, "redact"), tells(text, facts))
"""


def test_the_seed_of_hashes_changes_nothing() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SEED], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
    assert b"Cut(" in said.pop()


LENGTH = 300_000
HOSTILE = {
    "dots": ".",
    "dots and quotes": ".'",
    "dashes": " -",
    "one dash": "-",
    "quotes": '"',
    "digits": "1",
    "commas": "1,",
    "groups": ",000",
    "points": "1.",
    "markers": "[superseded: ",
    "brackets": "[",
    "blanks": " \n",
    "marks": "e\u0301",
    "joiners": "\u200d",
    "letters": "a",
    "words": "ab ",
    "conjunctions": "and ",
    "ideographs": "東京",
    "values": "Oslo ab ",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_keeps_it_busy(unit: str) -> None:
    """Whatever takes more than one pass over such a text takes longer than any test may."""
    text = unit * (LENGTH // len(unit)) + " Oslo"
    nested = [fact("ab " * size, key="other", name=f"a{size}") for size in range(2, 12)]
    facts = [fact("Oslo"), *nested, fact("ab " * 500 + "x", name="b"), fact("Bergen ab", "live", name="c")]
    left = shown(text, *facts)
    assert left.endswith(NOW)
    assert tells(left, facts) == ()
