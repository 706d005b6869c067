"""A fact knows its ledger, and another ledger refuses it by name: ids are alike everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast import Engine, Fact, Ledger, LedgerId, codec, errors
from tests.edges.engines import Desk, contents, refused
from tests.edges.fact_engines import own, shelf

COMMANDS: dict[str, Callable[[Ledger, Fact], object]] = {
    "assert_ supersedes": lambda ledger, fact: ledger.assert_("new", 1, supersedes=fact),
    "assert_ supersedes one of several": lambda ledger, fact: ledger.assert_("new", 1, supersedes=["city", fact]),
    "assert_ depends_on": lambda ledger, fact: ledger.assert_("new", 1, depends_on=[fact]),
    "assert_ provenance": lambda ledger, fact: ledger.assert_("new", 1, provenance=[fact]),  # type: ignore[list-item]
    "assert_all": lambda ledger, fact: ledger.assert_all([{"key": "new", "value": 1, "depends_on": fact}]),
    "supersede": lambda ledger, fact: ledger.supersede(fact, "city"),
    "supersede by": lambda ledger, fact: ledger.supersede("city", fact),
    "retract": lambda ledger, fact: ledger.retract(fact),
    "expire": lambda ledger, fact: ledger.expire(fact),
    "promote": lambda ledger, fact: ledger.promote(fact),
    "endorse": lambda ledger, fact: ledger.endorse(fact),
    "confirm": lambda ledger, fact: ledger.confirm(fact),
    "reinstate": lambda ledger, fact: ledger.reinstate(fact),
    "erase": lambda ledger, fact: ledger.erase(fact, "asked to"),
    "erase one of several": lambda ledger, fact: ledger.erase(["k1", fact], "asked to"),
    "get": lambda ledger, fact: ledger.get(fact),
    "history": lambda ledger, fact: ledger.history(fact),
    "why": lambda ledger, fact: ledger.why(fact),
    "facts after": lambda ledger, fact: ledger.facts(after=fact),
    "review after": lambda ledger, fact: ledger.review(after=fact),
    "constraints after": lambda ledger, fact: ledger.constraints(after=fact),
}


def test_a_fact_of_another_ledger_is_refused_by_name_and_nothing_changes(engine: Engine) -> None:
    ada, bob = shelf(engine, user="ada"), shelf(engine, user="bob")
    mine, other = ada.assert_("city", "Lisbon"), bob.assert_("city", "Porto")
    assert mine.id == other.id
    before = contents(engine)
    for command in COMMANDS.values():
        with pytest.raises(errors.ForeignFact, match=r"user bob.*user ada"):
            command(ada, other)
    assert contents(engine) == before
    assert ada.current("city") == mine
    assert bob.current("city") == other


def test_its_own_ledger_takes_it_from_wherever_it_was_read(engine: Engine) -> None:
    ada = shelf(engine, user="ada")
    home = LedgerId("default", "user", ("ada",))
    session = engine.create_session("s", ledgers=[home])
    made = ada.assert_("city", "Lisbon")
    again = ada.assert_all([{"key": "food", "value": "plums"}])[0]
    found = [
        made,
        again,
        ada.get("city"),
        ada.get(made),
        *ada.facts(),
        *ada.history("city"),
        *(each.fact for each in ada.search("city")),
        *(each.fact for each in session.search("city")),
        session.fact("city"),
        own(session, user="ada").get("city"),
        ada.why("city").current,
        ada.why(made).current,
    ]
    assert {each.ledger for each in found if each is not None} == {home}
    assert None not in found
    assert ada.history(made) == ada.history("city")
    own_fact = own(session).assert_("city", "Faro")
    assert own_fact.ledger == LedgerId("default", "session", session.scope.stream.key)
    with refused(engine, errors.ForeignFact):
        ada.retract(own_fact)
    assert ada.retract(made)[0].ledger == home


def test_an_id_alone_is_taken_as_it_is(engine: Engine) -> None:
    """Also that of a fact that was put together by hand, and says nothing of a ledger."""
    ada = shelf(engine, user="ada")
    made = ada.assert_("city", "Lisbon")
    assert ada.get(made.id) == made
    bare = msgspec.structs.replace(made, ledger=None)
    assert ada.get(bare) == made
    strange: Any = msgspec.structs.replace(made, ledger="ada")
    with refused(engine, errors.InvalidContent):
        ada.get(strange)


def test_a_fact_of_another_tenant_names_both_tenants(desk: Desk) -> None:
    one, other = desk.open("memory"), desk.open("memory", tenant="rival")
    shelf(one, user="ada").assert_("city", "Lisbon")
    theirs = shelf(other, user="ada").assert_("city", "Porto")
    with pytest.raises(errors.ForeignFact, match=r"rival: user ada.*default: user ada"):
        shelf(one, user="ada").retract(theirs)


def test_a_fact_survives_a_round_trip_with_its_ledger(desk: Desk) -> None:
    made = shelf(desk.open("memory"), user="ada").assert_("city", "Lisbon")
    assert codec.decode(codec.encode(made), Fact) == made
    assert made != msgspec.structs.replace(made, ledger=LedgerId("default", "user", ("bob",)))


def test_the_stored_row_does_not_repeat_the_ledger(desk: Desk) -> None:
    """It is filled in when a fact is read: a row lies in its ledger anyway, and a copy must not disagree."""
    engine = desk.open("memory")
    shelf(engine, user="ada").assert_("city", "Lisbon")
    assert engine.verify().problems == ()
