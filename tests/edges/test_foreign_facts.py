"""A fact knows its ledger, and another ledger refuses it by name: ids are alike everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast import Engine, Fact, Ledger, codec, errors
from holdfast.types import LedgerId
from tests.edges.engines import EngineDesk, contents, expect_refusal
from tests.edges.fact_engines import open_ledger, open_session_ledger

COMMANDS: dict[str, Callable[[Ledger, Fact], object]] = {
    "assert_ supersedes": lambda ledger, fact: ledger.set("new", 1, supersedes=fact),
    "assert_ supersedes one of several": lambda ledger, fact: ledger.set("new", 1, supersedes=["city", fact]),
    "assert_ depends_on": lambda ledger, fact: ledger.set("new", 1, depends_on=[fact]),
    "assert_ provenance": lambda ledger, fact: ledger.set("new", 1, provenance=[fact]),  # type: ignore[list-item]
    "assert_all": lambda ledger, fact: ledger.set_all([{"key": "new", "value": 1, "depends_on": fact}]),
    "supersede": lambda ledger, fact: ledger.review.supersede(fact, "city"),
    "supersede by": lambda ledger, fact: ledger.review.supersede("city", fact),
    "retract": lambda ledger, fact: ledger.retract(fact),
    "expire": lambda ledger, fact: ledger.review.expire(fact),
    "promote": lambda ledger, fact: ledger.review.promote(fact),
    "endorse": lambda ledger, fact: ledger.review.endorse(fact),
    "confirm": lambda ledger, fact: ledger.review.confirm(fact),
    "reinstate": lambda ledger, fact: ledger.review.reinstate(fact),
    "erase": lambda ledger, fact: ledger.erase(fact, "asked to"),
    "erase one of several": lambda ledger, fact: ledger.erase(["k1", fact], "asked to"),
    "get": lambda ledger, fact: ledger.fact(fact),
    "history": lambda ledger, fact: ledger.history(fact),
    "why": lambda ledger, fact: ledger.why(fact),
    "facts after": lambda ledger, fact: ledger.items(after=fact),
    "review after": lambda ledger, fact: ledger.review.list(after=fact),
    "constraints after": lambda ledger, fact: ledger.constraints(after=fact),
}


def test_a_fact_of_another_ledger_is_refused_by_name_and_nothing_changes(engine: Engine) -> None:
    ada, bob = open_ledger(engine, user="ada"), open_ledger(engine, user="bob")
    mine, other = ada.set("city", "Lisbon"), bob.set("city", "Porto")
    assert mine.id == other.id
    before = contents(engine)
    for command in COMMANDS.values():
        with pytest.raises(errors.ForeignFact, match=r"user bob.*user ada"):
            command(ada, other)
    assert contents(engine) == before
    assert ada.get("city") == mine
    assert bob.get("city") == other


def test_its_own_ledger_takes_it_from_wherever_it_was_read(engine: Engine) -> None:
    ada = open_ledger(engine, user="ada")
    home = LedgerId("default", "user", ("ada",))
    session = engine.create_session("s", ledgers=[home])
    made = ada.set("city", "Lisbon")
    again = ada.set_all([{"key": "food", "value": "plums"}])[0]
    found = [
        made,
        again,
        ada.fact("city"),
        ada.fact(made),
        *ada.items(),
        *ada.history("city"),
        *(each.fact for each in ada.search("city")),
        *(each.fact for each in session.facts.search("city")),
        session.facts.get("city"),
        open_session_ledger(session, user="ada").fact("city"),
        ada.why("city").current,
        ada.why(made).current,
    ]
    assert {each.ledger for each in found if each is not None} == {home}
    assert None not in found
    assert ada.history(made) == ada.history("city")
    own_fact = open_session_ledger(session).set("city", "Faro")
    assert own_fact.ledger == LedgerId("default", "session", session.scope.stream.key)
    with expect_refusal(engine, errors.ForeignFact):
        ada.retract(own_fact)
    assert ada.retract(made)[0].ledger == home


def test_an_id_alone_is_taken_as_it_is(engine: Engine) -> None:
    """Also that of a fact that was put together by hand, and says nothing of a ledger."""
    ada = open_ledger(engine, user="ada")
    made = ada.set("city", "Lisbon")
    assert ada.fact(made.id) == made
    bare = msgspec.structs.replace(made, ledger=None)
    assert ada.fact(bare) == made
    strange: Any = msgspec.structs.replace(made, ledger="ada")
    with expect_refusal(engine, errors.InvalidArgument):
        ada.fact(strange)


def test_a_fact_of_another_tenant_names_both_tenants(desk: EngineDesk) -> None:
    one, other = desk.open("memory"), desk.open("memory", tenant="rival")
    open_ledger(one, user="ada").set("city", "Lisbon")
    theirs = open_ledger(other, user="ada").set("city", "Porto")
    with pytest.raises(errors.ForeignFact, match=r"rival: user ada.*default: user ada"):
        open_ledger(one, user="ada").retract(theirs)


def test_a_fact_survives_a_round_trip_with_its_ledger(desk: EngineDesk) -> None:
    made = open_ledger(desk.open("memory"), user="ada").set("city", "Lisbon")
    assert codec.decode(codec.encode(made), Fact) == made
    assert made != msgspec.structs.replace(made, ledger=LedgerId("default", "user", ("bob",)))


def test_the_stored_row_does_not_repeat_the_ledger(desk: EngineDesk) -> None:
    """It is filled in when a fact is read: a row lies in its ledger anyway, and a copy must not disagree."""
    engine = desk.open("memory")
    open_ledger(engine, user="ada").set("city", "Lisbon")
    assert engine.admin.verify().problems == ()
