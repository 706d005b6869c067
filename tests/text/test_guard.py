"""The guard on text, by examples: what states a fact, what is shown in its place, and what stays."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Literal

import pytest
from tests.support import figure

from holdfast.model.content import Json
from holdfast.model.packs.pack import GUARD_MODES, GuardMode
from holdfast.text.guard.clauses import TextStructure
from holdfast.text.guard.finder import (
    COMPOSITE_ANCHOR,
    anchor_of,
    anchors_of,
    edit_text,
    find_facts_by_value,
    find_past_keys,
    find_statements,
    lookup_terms,
)
from holdfast.text.guard.patterns import KEY_CHARS, GuardFact, Strength, ValueSpan, leaf_texts, strength_of
from holdfast.text.guard.subjects import root_of, subject_of
from holdfast.text.guard.terms import Terms

MARK = "[outdated: shipping_address]"


def fact(
    value: Json,
    key: str = "shipping_address",
    standing: Literal["live", "dead", "withheld"] = "dead",
    *,
    name: str = "k1",
    replaced: bool = True,
) -> GuardFact:
    return GuardFact(name, key, value, standing, replaced)


def shown(
    text: str,
    *facts: GuardFact,
    policy: GuardMode = "redact",
    spans: tuple[ValueSpan, ...] = (),
    sources: tuple[str, ...] = (),
    before: str = "",
    label: str = "",
    sure: bool = True,
) -> str:
    found = find_statements(text, facts, spans=spans, sources=sources, before=before, label=label, sure=sure)
    return edit_text(text, found, policy)


MAIN, ELM = fact("12 Main St"), fact("5 Elm Rd", standing="live", name="k2")


# A distinctive value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We ship to 12 Main St.", f"We ship to {MARK}."),
        ("we ship to 12 MAIN STREET!", f"we ship to {MARK}!"),
        ("We ship to 12,  Main St", f"We ship to {MARK}"),
        ("We ship to 12\nMain St", f"We ship to 12\nMain St {MARK}"),
        ("We ship to 12\n\nMain St", "We ship to 12\n\nMain St"),
        ("Thanks. It goes to 12 Main St; fine", f"Thanks. It goes to {MARK}; fine"),
        ("I met Ada in 12 Main St yesterday.", f"I met Ada in {MARK} yesterday."),
        ("We moved from 12 Main St to 5 Elm Rd.", f"We moved from {MARK} to 5 Elm Rd."),
        ("She said “12 Main St” twice", f"She said “{MARK}” twice"),
        ("112 Main St, 12 Main Rd, 12 Mainst", "112 Main St, 12 Main Rd, 12 Mainst"),
        ("12 North Main St", "12 North Main St"),
        ("A12 Main St", "A12 Main St"),
        ("It is number 12. Main St is closed.", "It is number 12. Main St is closed."),
        ("", ""),
        ("…!?", "…!?"),
    ],
)
def test_only_the_value_gives_way(text: str, expected: str) -> None:
    assert shown(text, MAIN, ELM) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"to": "12 Main St", "count": 5}', f'{{"to": "12 Main St {MARK}", "count": 5}}'),
        ('["12 Main St", "7 Hill Dr"]', f'["12 Main St {MARK}", "7 Hill Dr"]'),
        ("| to | 12 Main St |\n| count | 5 |", f"| to | 12 Main St {MARK} |\n| count | 5 |"),
        ("to\t12 Main St\tcount\t5", f"to\t12 Main St {MARK}\tcount\t5"),
        ("- 12 Main St\n- 7 Hill Dr", f"- 12 Main St {MARK}\n- 7 Hill Dr"),
        ("1. 12 Main St\n2. 7 Hill Dr", f"1. 12 Main St {MARK}\n2. 7 Hill Dr"),
        ("to = '12 Main St'\ncount = 5", f"to = '12 Main St' {MARK}\ncount = 5"),
        ("```\nship 12 Main St now\n```\nBye", f"```\nship 12 Main St now {MARK}\n```\nBye"),
        ("Run `ship 12 Main St` now", f"Run `ship 12 Main St {MARK}` now"),
        (
            "We know: 7 Hill Dr, 12 Main St, 4 Low Rd, and more",
            f"We know: 7 Hill Dr, 12 Main St {MARK}, 4 Low Rd, and more",
        ),
        (
            "We know: 7 Hill Dr, 8 Up Ln, 4 Low Rd, 12 Main St",
            f"We know: 7 Hill Dr, 8 Up Ln, 4 Low Rd, 12 Main St {MARK}",
        ),
        (
            "We know: 7 Hill Dr, 8 Up Ln, 4 Low Rd, and 12 Main St",
            f"We know: 7 Hill Dr, 8 Up Ln, 4 Low Rd, and 12 Main St {MARK}",
        ),
    ],
)
def test_where_a_gap_would_falsify_a_note_is_added(text: str, expected: str) -> None:
    assert shown(text, MAIN) == expected
    assert expected.replace(f" {MARK}", "") == text


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("one, two, three, four", "rrrr"),
        ("We saw one thing, and two more of the others there, three", "ppp"),
        ("Team: one (lead), two, three, and four", "rrrr"),
        ("a | one | two", "rr"),
        ("one\n- two\nthree", "prp"),
        ("`one` two `three", "cpp"),
        ("```\none\n```\ntwo\n```three", "cpc"),
    ],
)
def test_the_forms_of_lines(text: str, places: str) -> None:
    names = {"r": "rows", "p": "prose", "c": "code"}
    starts = [text.find(word) for word in ("one", "two", "three", "four") if word in text]
    structure = TextStructure(text)
    assert [structure.form_at(at, at + 3) for at in starts] == [names[each] for each in places]


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        ("$1,200.00", "The rent is $1200", True),
        ("€1.200,00", "The rent is 1200", True),
        ("50,000", "The rent is $50k", True),
        ("5,000 euros", "The rent is $5,000", False),
        ("5,000 euros", "The rent is five thousand euros", True),
        (1200, "The rent is 1200.5, 11,200, 12001 or a1200", False),
        ("+1 555 123 4567", "Call (555) 123-4567", True),
        ("https://a.example/x", "see http://www.a.example/x/.", True),
        ("https://a.example/x", "see https://a.example/xy", False),
        ("Ada@A.example", "write to ada@a.example", True),
        ("Straße 15 Nord", "In der STRASSE 15, Nord", True),
        ("Caf\u00e9 Nord 77", "at the cafe\u0301 nord 77", True),
        ("१२ शिमला 99 मार्ग", "हम १२ शिमला 99 मार्ग में", True),
        ("10.0.0.1", "the rent server is 10.0.0.12", False),
    ],
)
def test_values_are_compared_and_not_how_they_are_written(value: Json, text: str, found: bool) -> None:
    dead = fact(value, "rent")
    assert bool(find_statements(text, [dead])) is found
    assert not found or not lookup_terms(text).isdisjoint(anchors_of(value))


def test_a_longer_url_keeps_its_rest() -> None:
    docs = fact("https://a.example/x", "docs")
    assert shown("See https://A.example/x/y/ for it", docs) == "See [outdated: docs]/y/ for it"
    annotated = shown("See https://a.example/x/y/ for it", docs, policy="annotate")
    assert annotated in (
        "See https://a.example/x/y/ [outdated: docs] for it",
        "See https://a.example/x/y [outdated: docs]/ for it",
    )


# The strength of a value


@pytest.mark.parametrize(
    ("strength", "values"),
    [
        (
            Strength.DISTINCTIVE,
            "12 Main St|SD-2210|korallenriff77|a@b.example|www.a.example/b|+1 555 123 4567|DE89370400440532013000",
        ),
        (Strength.DISTINCTIVE, "ship every parcel by courier|5551234567|TP 571|5 Oak Ave|5 Oak Avenue"),
        (Strength.TYPED, "9:30|March 6th|5,000 euros|1234|Ada Byron|MySQL|3 pm Friday|2026-03-06"),
        (Strength.NAME, "Rome|Alice|Globex"),
        (Strength.COMMON, "yes|3|green|ok|15%|2027|five|Yes|swordfish|3 pm|no"),
    ],
)
def test_how_well_a_value_is_known_by_itself(strength: Strength, values: str) -> None:
    wrong = {value: strength_of(value) for value in values.split("|") if strength_of(value) != strength}
    assert wrong in ({}, {"3 pm": Strength.TYPED})


@pytest.mark.parametrize(
    ("key", "value", "text", "expected"),
    [
        ("home_city", "Rome", "I live in Rome.", "I live in [outdated: home_city]."),
        (
            "home_city",
            "Rome",
            "My home city is Rome, as you know.",
            "My home city is [outdated: home_city], as you know.",
        ),
        ("home_city", "Rome", "Book me a flight to Rome.", "Book me a flight to Rome."),
        ("home_city", "Rome", "We love Rome, Ada says.", "We love Rome, Ada says."),
        ("home_city", "Rome", "My sister lives in Rome.", "My sister lives in Rome."),
        ("home_city", "Rome", "i live in rome", "i live in [outdated: home_city]"),
        ("project_lead", "Alice", "Send the invoice to Alice, please.", "Send the invoice to Alice, please."),
        ("project_lead", "Alice", "Alice is the project lead.", "[outdated: project_lead] is the project lead."),
        ("project_lead", "Alice", "Tom's project lead is Alice.", "Tom's project lead is Alice."),
        ("college", "no", "There are no colleges in the north.", "There are no colleges in the north."),
        ("has_parking", "no", "parking: no", "parking: [outdated: has_parking]"),
        ("has_parking", "no", "There is no parking.", "There is no parking."),
        ("meeting_time", "9:30", "The meeting is at 09:30.", "The meeting is at [outdated: meeting_time]."),
        (
            "meeting_time",
            "9:30",
            "The train leaves at 09:30.",
            "The train leaves at 09:30 [meeting_time has changed since].",
        ),
        ("meeting_time", "9:30 am", "The meeting is at 21:30.", "The meeting is at 21:30."),
        ("meeting_date", "March 6th", "The meeting is on the 6th.", "The meeting is on the [outdated: meeting_date]."),
        ("meeting_date", "March 6th", "The meeting is on the 6th floor.", "The meeting is on the 6th floor."),
        ("meeting_date", "March 6th", "The meeting is on April 6th.", "The meeting is on April 6th."),
        ("meeting_date", "the 6th", "The meeting is on March 6th.", "The meeting is on [outdated: meeting_date]."),
        ("party_size", 4, "A table for four people at 4 pm.", "A table for [outdated: party_size] people at 4 pm."),
        ("party_size", 4, "four windows and 4 doors", "four windows and 4 doors"),
        (
            "favourite_colour",
            "green",
            "My favorite color is green.",
            "My favorite color is [outdated: favourite_colour].",
        ),
        ("favourite_colour", "green", "I like green tea.", "I like green tea."),
        ("favourite_fruit", "apples", "My favorite fruit: apple", "My favorite fruit: [outdated: favourite_fruit]"),
        ("trip_budget", "5,000 euros", "The trip budget is €5k.", "The trip budget is [outdated: trip_budget]."),
        (
            "trip_budget",
            "5,000 euros",
            "The marketing budget is €5k.",
            "The marketing budget is €5k [trip_budget has changed since].",
        ),
        ("town", "Rome", "Please ship to our town, Rome.", "Please ship to our town, Rome [town has changed since]."),
        ("town", "Rome", "Oslo is our town, Rome says.", "Oslo is our town, Rome says."),
        ("database", "MySQL", "We run MySQL on it.", "We run [outdated: database] on it."),
    ],
)
def test_the_strength_decides_what_else_must_be_said(key: str, value: Json, text: str, expected: str) -> None:
    assert shown(text, fact(value, key)) == expected


def test_a_bare_answer_is_read_with_its_question() -> None:
    rome = fact("Rome", "home_city")
    assert shown("Rome.", rome, before="Which is your home city?") == "[outdated: home_city]."
    assert shown("Rome.", rome, before="Your home city is nice.") == "Rome."
    assert shown("Rome.", rome, before="Where shall we meet?") == "Rome."
    long = "Rome was where they all went to see the old stones."
    assert shown(long, rome, before="Which is your home city?") == long


def test_a_label_names_the_key_and_only_adds_notes() -> None:
    assert shown("Rome", fact("Rome", "home_city"), label="home_city") == "Rome [outdated: home_city]"
    assert shown("Rome", fact("Rome", "home_city"), label="city") == "Rome [home_city has changed since]"
    assert shown("Rome", fact("Rome", "home_city"), label="destination") == "Rome"
    assert shown("4", fact(4, "party_size"), label="party_size") == "4 [outdated: party_size]"


def test_a_note_says_what_is_true_either_way() -> None:
    text = "See you at 9:30."
    assert shown(text, fact("9:30", "meeting_time")) == "See you at 9:30 [meeting_time has changed since]."
    gone = fact("9:30", "meeting_time", replaced=False)
    assert shown(text, gone) == "See you at 9:30 [meeting_time no longer applies]."
    moved = "We ship to 12 Main St [shipping_address has changed since]."
    assert shown("We ship to 12 Main St.", MAIN, sure=False) == moved


# What is live


def test_a_live_value_is_never_touched() -> None:
    again = fact("12 Main St", standing="live", name="k2")
    assert shown("We ship to 12 Main St.", MAIN, again) == "We ship to 12 Main St."
    other = fact("12 Main St", "office_address", "live", name="k2")
    assert shown("The office address is 12 Main St.", MAIN, other) == "The office address is 12 Main St."
    assert shown("I saw 12 Main St.", MAIN, other) == "I saw 12 Main St."
    assert shown("The shipping address is 12 Main St.", MAIN, other) == f"The shipping address is {MARK}."
    street, full = fact("Main Street 5", "street"), fact("12 Main Street 5", "home", "live", name="k2")
    assert shown("Main Street 5, no, 12 Main Street 5", street, full) == "[outdated: street], no, 12 Main Street 5"
    assert (
        shown("The limit is 15 May", fact(15, "limit"), fact("15 May", "day", "live", name="k2"))
        == "The limit is 15 May"
    )


def test_the_values_inside_a_value_are_stated_one_by_one() -> None:
    old = fact({"city": "Oslo", "zip": "SD-0150", "floor": 3})
    new = fact({"city": "Oslo", "zip": "SD-0151", "floor": 3}, standing="live", name="k2")
    assert shown("Oslo SD-0150, not SD-0151", old, new) == f"Oslo {MARK}, not SD-0151"
    assert leaf_texts({"b": [1, {"c": "x"}], "a": None}) == ["null", "1", "x"]


# What provenance says


def test_provenance_is_believed() -> None:
    text = "Well, the usual place, and call 5 Elm Rd 👍"
    assert shown(text, MAIN, ELM, spans=(ValueSpan(6, 21, "k1"),)) == f"Well, {MARK}, and call 5 Elm Rd 👍"
    assert shown(text, MAIN, spans=(ValueSpan(len(text) - 1, len(text), "k1"),)) == text[:-1] + MARK
    assert (
        shown(text, MAIN, ELM, spans=(ValueSpan(6, 21, "k2"), ValueSpan(6, 21, "k9"), ValueSpan(30, 10, "k1"))) == text
    )
    again = fact("the usual place", standing="live", name="k2")
    assert shown(text, MAIN, again, spans=(ValueSpan(6, 21, "k1"),)) == text
    assert shown("", MAIN, spans=(ValueSpan(0, 5, "k1"),)) == ""
    assert shown("at that place", MAIN, spans=(ValueSpan(-4, 900, "k1"),)) == MARK


def test_the_source_of_a_fact_states_it_in_any_clause() -> None:
    rome = fact("Rome", "home_city")
    assert shown("Well, Rome it is.", rome) == "Well, Rome it is."
    assert shown("Well, Rome it is.", rome, sources=("k1",)) == "Well, [outdated: home_city] it is."
    assert shown("Well, Oslo it is.", rome, sources=("k1",)) == "Well, Oslo it is."
    oslo = fact("Oslo", "work_city", standing="live", name="k2")
    assert shown("Well, Oslo it is.", rome, oslo, sources=("k2",)) == "Well, Oslo it is."


# What is withheld


def test_what_is_withheld_is_taken_out_under_any_policy_and_names_no_key() -> None:
    pay = fact(90_000, "salary", "withheld")
    text = 'Ada has 90,000, she said.\n{"salary": 90000, "desk": 4}'
    found = find_statements(text, [pay])
    hidden = 'Ada has [withheld], she said.\n{"salary": [withheld], "desk": 4}'
    assert {edit_text(text, found, policy) for policy in GUARD_MODES} == {hidden}
    assert {each.key for each in found} == {""}
    both = find_statements("The salary is 90000", [pay, fact(90_000, "salary", name="k2")])
    assert [(each.action, each.ids, each.key) for each in both] == [("withhold", ("k1", "k2"), "")]


def test_what_a_text_repeats_is_known_whatever_it_means_there() -> None:
    facts = [fact("Rome", "home_city", "withheld"), fact(7, "pin", "withheld", name="k2")]
    assert find_facts_by_value("Is it Rome? No, seven.", facts) == ("k1", "k2")
    assert find_facts_by_value("Is it Oslo, 17?", facts) == ()


# Policies and markers


def test_policies() -> None:
    text = "We moved from 12 Main St to 5 Elm Rd. So 12 Main St is past, fine."
    assert shown(text, MAIN, ELM) == f"We moved from {MARK} to 5 Elm Rd. So {MARK} is past, fine."
    noted = shown(text, MAIN, ELM, policy="annotate")
    assert noted == f"We moved from 12 Main St {MARK} to 5 Elm Rd. So 12 Main St {MARK} is past, fine."
    assert shown(noted, MAIN, ELM, policy="annotate") == noted
    assert shown(text, MAIN, ELM, policy="off") is text


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("place", "[outdated: place]"),
        ("the place of it", "[outdated: the place of it]"),
        ("main_street_12", "[outdated]"),
        ("12 main st", "[outdated]"),
        ("k" * KEY_CHARS, f"[outdated: {'k' * KEY_CHARS}]"),
        ("k" * (KEY_CHARS + 1), "[outdated]"),
        ("a]b", "[outdated]"),
        ("a\nb", "[outdated]"),
    ],
)
def test_a_marker_names_a_key_only_if_that_is_safe(key: str, expected: str) -> None:
    assert shown("We ship to 12 Main St", fact("12 Main St", key)) == f"We ship to {expected}"


def test_its_own_markers_are_not_read() -> None:
    outdated = fact("outdated", "status", name="k2")
    text = f"The status was {MARK} here"
    assert shown(text, outdated, MAIN) == text
    assert shown("[outdated: 12 Main St] x", MAIN) == "[outdated: 12 Main St] x"
    secret = fact("12 Main St", standing="withheld")
    assert shown("[outdated: 12 Main St] x", secret) == "[outdated: [withheld]] x", "anybody can write a marker"
    assert shown(f"12 {MARK} Main St", MAIN) == f"12 {MARK} Main St"


# Anchors


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("12 Springfield Avenue", "at 12 springfield ave"),
        ("$1,200.00", "1200"),
        ("March 6th", "the 6th"),
        ("the 6th", "2026-03-06"),
        ("9:30", "half past nine"),
        ("https://a.example/x", "https://a.example/x/y/z"),
        ("5 hours", "five hours"),
        ("colours", "color"),
        ("京都 12", "京都 12"),
        ({"a": [1, "Oslo"], "b": "SD-0150"}, "oslo"),
        ("x" * 500, "x" * 500),
    ],
)
def test_a_text_that_states_a_value_is_found_by_its_terms(value: Json, text: str) -> None:
    assert not lookup_terms(text).isdisjoint(anchors_of(value))


@pytest.mark.parametrize("value", ["yes", "ok", True, None, "", "!?", "👍", [], {}])
def test_a_common_value_has_no_anchor_of_its_own(value: Json) -> None:
    assert anchor_of(value) == ""
    assert all(len(each) <= 64 for each in anchors_of("y" * 200))
    assert COMPOSITE_ANCHOR not in lookup_terms(COMPOSITE_ANCHOR)


@pytest.mark.parametrize(
    ("key", "named", "other"),
    [
        ("home_city", "my home town is", "a city hall in"),
        ("user.shipping_address", "the address is", "ship ships"),
        ("partySize", "a party of", "the size is"),
        ("appointment_time", "my appointment is at", "a good thing"),
    ],
)
def test_a_key_is_named_by_its_words(key: str, named: str, other: str) -> None:
    assert subject_of(key).is_named(frozenset(map(root_of, Terms(named).norms)))
    if key == "appointment_time":
        assert not subject_of(key).is_named(frozenset(map(root_of, Terms(other).norms)))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What was my old address?", ["shipping_address"]),
        ("Tell me my previous address", ["shipping_address"]),
        ("Where did I live before?", ["shipping_address"]),
        ("which address did we use originally", ["shipping_address"]),
        ("Who was the project lead before Marcus?", ["project lead"]),
        ("What was it before?", ["budget"]),
        ("What is my address?", []),
        ("I moved to an old house.", []),
        ("Tell me about the history of Rome.", []),
        ("I need it before noon.", []),
        ("", []),
    ],
)
def test_a_question_about_the_past_names_the_keys_that_it_asks_for(question: str, expected: list[str]) -> None:
    assert find_past_keys(question, ["shipping_address", "project lead", "budget"], ["budget"]) == expected


SEED = """
from holdfast.text.guard.finder import edit_text, find_facts_by_value, find_statements
from holdfast.text.guard.patterns import GuardFact, ValueSpan
names = ["Oslo", "Bergen", "12 Main St", "Main St 4", "9:30", "March 6th", 7]
facts = [GuardFact(f"k{at}", f"key_{at % 3}", name, ("dead", "live")[at % 2]) for at, name in enumerate(names)]
text = "Oslo, Bergen and 12 Main St at half past nine. On the 6th we ship from Main St 4, key 12 and key 7. " * 3
found = find_statements(text, facts, spans=[ValueSpan(5, 30, "k0"), ValueSpan(5, 30, "k2")])
print(found, edit_text(text, found, "redact"), find_facts_by_value(text, facts))
"""


def test_the_seed_of_hashes_changes_nothing() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SEED], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
    assert b"Statement(" in said.pop()


LENGTH = figure(5_000, 60_000)


HOSTILE = {
    "dots": ".",
    "dots and quotes": ".'",
    "dashes": " -",
    "one dash": "-",
    "quotes": '"',
    "backticks": "`",
    "backticks and letters": "`a",
    "fences": "```\n",
    "rows": "- a\n",
    "bars": "|",
    "cells": "| a ",
    "tabs": "\t",
    "digits": "1",
    "commas": "1,",
    "commas and blanks": ", ",
    "items": "ab, ",
    "semicolons": ";",
    "points": "1.",
    "markers": "[outdated: ",
    "brackets": "[",
    "braces": "{",
    "parentheses": "(",
    "equals": "a=",
    "blanks": " \n",
    "marks": "e\u0301",
    "joiners": "\u200d",
    "letters": "a",
    "words": "ab ",
    "conjunctions": "and ",
    "possessives": "Tom's ",
    "ideographs": "東京",
    "names": "Oslo ",
    "names and words": "Oslo ab ",
    "keys and names": "office Oslo ",
    "addresses": "12 Main St ",
    "addresses in lists": "12 Main St, ",
    "URLs": "https://a.example/x/",
    "live and dead": "Bergen ab Oslo, ",
    "times": "9:30 ",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_keeps_it_busy(unit: str) -> None:
    """Whatever takes more than one pass over such a text takes longer than any test may."""
    text = f"{unit * (LENGTH // len(unit))}\n\nThe office is in Oslo 77-B"
    nested = [fact("ab " * size, "other", name=f"a{size}") for size in range(2, 12)]
    facts = [
        fact("Oslo 77-B", "office"),
        fact("Oslo", "office", name="o"),
        MAIN,
        fact("https://a.example/x", "docs", name="u"),
        fact("9:30", "office_hour", name="h"),
        *nested,
        fact("ab " * 500 + "x", name="b"),
        fact("Bergen ab", standing="live", name="c"),
    ]
    for policy in GUARD_MODES:
        left = shown(text, *facts, policy=policy)
        assert (
            left.endswith("Oslo 77-B") is (policy == "off") or "77-B [outdated" in left or "[outdated: office]" in left
        )
