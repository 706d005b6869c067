"""What people say that changes nothing, through `observe` with the default settings; and what they say that does, whole."""

from __future__ import annotations

import pytest

import holdfast
from tests.edges.fact_engines import open_ledger

HARMLESS = {
    "My phone is broken.": ("phone", "0171 555 1010"),
    "Is my budget 5,000 euros?": ("budget", "3,000 euros"),
    "Don't change my address to 5 Elm Street.": ("address", "12 Main Street"),
    "The client's budget is 20,000 euros.": ("budget", "3,000 euros"),
    "Write an email that says: the meeting is moved to Friday.": ("meeting", "Tuesday"),
    "Should the deadline be Monday?": ("deadline", "Friday"),
    "For this task only, the deadline is Monday.": ("deadline", "Friday"),
    "wip - the deadline moved to Monday": ("deadline", "Friday"),
    "Draft: nobody has read this. The deadline is Monday.": ("deadline", "Friday"),
}
WHOLE = {
    "My email is ada.b@mail.example.org.": ("email", "ada@old.example", "ada.b@mail.example.org"),
    "My address is 88 Harbour Lane, Bristol BS1 4QA.": (
        "address",
        "12 Main Street",
        "88 Harbour Lane, Bristol BS1 4QA",
    ),
}
DRAFTS = {
    "Draft: my address is 5 Elm Street.": ("address", "12 Main Street"),
    "[Draft] My address is 5 Elm Street.": ("address", "12 Main Street"),
    "(draft, not sent) I moved to 5 Elm Street.": ("address", "12 Main Street"),
    "Rough draft: the deadline is Monday now.": ("deadline", "Friday"),
    "In the draft, the deadline is Monday.": ("deadline", "Friday"),
    "For my draft the deadline is Monday.": ("deadline", "Friday"),
    "WIP: my address is 5 Elm Street.": ("address", "12 Main Street"),
    "Work in progress: my new address is 5 Elm Street.": ("address", "12 Main Street"),
}
"""Statements that say first that they are drafts."""


def heard(engine: holdfast.Engine, text: str, key: str, value: str) -> tuple[holdfast.Fact | None, list[str]]:
    """What holds for a key once this was said, and all keys that the session knows."""
    ledger = open_ledger(engine, user="ada")
    ledger.set(key, value)
    session = engine.create_session("s", ledgers=[ledger.id])
    session.observe(text)
    places = (ledger, session.ledger())
    return session.facts.get(key), [fact.key for place in places for fact in place.items(limit=50)]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_change_changes_nothing(engine: holdfast.Engine, text: str) -> None:
    key, value = HARMLESS[text]
    fact, keys = heard(engine, text, key, value)
    assert fact is not None
    assert fact.value == value
    assert keys == [key]


@pytest.mark.parametrize("text", WHOLE)
def test_a_plain_statement_is_applied_with_its_whole_value(engine: holdfast.Engine, text: str) -> None:
    key, value, wanted = WHOLE[text]
    fact, keys = heard(engine, text, key, value)
    assert fact is not None
    assert fact.value == wanted
    assert keys == [key]


@pytest.mark.parametrize("text", DRAFTS)
def test_a_draft_is_kept_apart_and_nobody_is_asked(engine: holdfast.Engine, text: str) -> None:
    key, value = DRAFTS[text]
    ledger = open_ledger(engine, user="ada")
    ledger.set(key, value)
    session = engine.create_session("s", ledgers=[ledger.id])
    assert [(each.outcome, each.proposal.scope) for each in session.observe(text).proposals] == [("applied", "draft")]
    fact = session.facts.get(key)
    assert fact is not None
    assert fact.value == value
    assert session.facts.proposals() == ()
    assert [each.value for each in session.ledger().items(within=[("draft", "s")]) if each.scope == "draft"] == [text]


@pytest.mark.parametrize(
    ("text", "key", "value", "wanted"),
    [
        ("The title of the draft is Field Notes.", "title of the draft", "Daybreak", "Field Notes"),
        ("My draft deadline is Monday.", "draft deadline", "Friday", "Monday"),
    ],
)
def test_a_fact_about_a_draft_is_no_draft(
    engine: holdfast.Engine, text: str, key: str, value: str, wanted: str
) -> None:
    """What the word `draft` names is what is spoken of: it is asked about, and not left alone."""
    ledger = open_ledger(engine, user="ada")
    ledger.set(key, value)
    session = engine.create_session("s", ledgers=[ledger.id])
    [judged] = [each for each in session.observe(text).proposals if each.proposal.scope == "global"]
    if judged.outcome == "asked":
        session.facts.accept(judged.id)
    fact = session.facts.get(key)
    assert fact is not None
    assert fact.value == wanted


@pytest.mark.parametrize(
    "text",
    [
        "Forget my city. It's Berlin now.",
        "My city is Berlin, not Paris any more.",
        "Forget Paris. My city is Berlin.",
        "I no longer live in Paris, I live in Berlin now.",
    ],
)
def test_a_message_that_is_read_again_does_not_change_what_it_set(engine: holdfast.Engine, text: str) -> None:
    session = engine.create_session("s")
    session.facts.set("city", "Paris")
    message = session.observe(text).message
    assert [session.observe(message).proposals for _ in range(2)] == [(), ()]
    fact = session.facts.get("city")
    assert fact is not None
    assert fact.value == "Berlin"
