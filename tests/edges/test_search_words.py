"""A question finds a fact whatever the form of its words, and the same one in every store."""

from __future__ import annotations

import pytest

from holdfast import Engine
from tests.edges.engines import EngineDesk
from tests.edges.fact_engines import MANY, open_ledger

FACTS = {
    "price": "19 euros a month",
    "allergies": "peanuts",
    "delivery_address": "12 Rua Augusta",
    "meeting_room": "Café Blue, 2nd floor",
    "subscription": "renews on 1 May",
    "police_report": "filed",
    "travel_policy": "economy only",
    "favourite_colour": "green",
    "order_number": "PO-84417",
}
QUESTIONS = {
    "Which prices apply?": "price",
    "How is it priced?": "price",
    "Am I allergic to anything?": "allergies",
    "Does the user have an allergy?": "allergies",
    "Where do you deliver?": "delivery_address",
    "Where are deliveries going?": "delivery_address",
    "Where are our meetings?": "meeting_room",
    "Is it in the cafe?": "meeting_room",
    "What do I subscribe to?": "subscription",
    "What do the policies say?": "travel_policy",
    "What did the police say?": "police_report",
    "Status of 84417?": "order_number",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_its_fact_first(engine: Engine, question: str) -> None:
    ledger = open_ledger(engine, user="ada")
    ledger.set_all([{"key": key, "value": value} for key, value in FACTS.items()])
    found = ledger.search(question)
    assert found, question
    assert found[0].fact.key == QUESTIONS[question]


def test_every_store_finds_the_same_in_the_same_order(desk: EngineDesk) -> None:
    found = []
    for kind in MANY:
        ledger = open_ledger(desk.open(kind), user="ada")
        ledger.set_all([{"key": key, "value": value} for key, value in FACTS.items()])
        questions = [*QUESTIONS, *(value for value in FACTS.values()), "Ένας σας", "zebra"]
        found.append([[(known.fact.key, known.score) for known in ledger.search(each)] for each in questions])
    assert all(each == found[0] for each in found)
