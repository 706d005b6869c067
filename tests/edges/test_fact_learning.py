"""Which ledger a new fact goes into that is read in what was said."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import Policy
from tests.edges.fact_engines import (
    ScriptedDetector,
    open_ledger,
    open_session_ledger,
    proposal,
    propose_superseding,
    values_by_key,
)


def _learned(answer: Any, *ledgers: dict[str, Any], policy: Policy | None = None, role: Any = "user") -> dict[str, Any]:
    """The ledgers that hold something once it was observed, by name."""
    more: dict[str, Any] = {} if policy is None else {"policy": policy}
    with holdfast.open("memory:", detector=ScriptedDetector(answer), **more) as engine:
        homes = {str(ledger.id): ledger for ledger in (open_ledger(engine, **each) for each in ledgers)}
        session = engine.create_session("s", actor="ada", ledgers=[each.id for each in homes.values()])
        session.observe("the key is v", role=role)
        homes["session"] = open_session_ledger(session)
        return {name: found for name, ledger in homes.items() if (found := values_by_key(ledger.items()))}


def _new(**changes: Any) -> Any:
    return lambda _: (proposal(**changes),)


USER: dict[str, Any] = {"user": "ada"}
OTHER: dict[str, Any] = {"user": "ben"}
PROJECT: dict[str, Any] = {"project": "apollo"}


@pytest.mark.parametrize(
    ("ledgers", "home"),
    [
        ((), "session"),
        ((PROJECT,), "session"),
        ((USER,), "user ada"),
        ((PROJECT, USER), "user ada"),
        ((OTHER,), "user ben"),
        ((OTHER, USER), "user ada"),
        (({"user": "cai"}, OTHER), "session"),
    ],
)
def test_what_the_user_says_of_something_new_is_the_users(ledgers: tuple[dict[str, Any], ...], home: str) -> None:
    assert _learned(_new(), *ledgers) == {home: {"k": "v"}}


def test_by_policy_it_stays_in_the_session() -> None:
    assert _learned(_new(), USER, policy=Policy(learn_into="session")) == {"session": {"k": "v"}}


def test_what_others_say_and_what_holds_only_here_stays_in_the_session() -> None:
    assert _learned(_new(), USER, role="assistant") == {"session": {"k": "v"}}
    assert "user ada" not in _learned(_new(scope="draft"), USER)


def test_what_is_asked_first_goes_where_it_belongs_once_it_is_accepted() -> None:
    with holdfast.open("memory:", detector=ScriptedDetector(_new(confidence=0.6))) as engine:
        user = open_ledger(engine, **USER)
        session = engine.create_session("s", actor="ada", ledgers=[user.id])
        (judged,) = session.observe("the key is v").proposals
        assert (judged.outcome, judged.ledger) == ("asked", user.id)
        assert judged.id
        session.facts.accept(judged.id)
        assert values_by_key(user.items()) == {"k": "v"}


def test_a_fact_that_is_superseded_stays_in_its_ledger() -> None:
    with holdfast.open("memory:", detector=ScriptedDetector(propose_superseding("k", value="w"))) as engine:
        user, project = open_ledger(engine, **USER), open_ledger(engine, **PROJECT)
        project.set("k", "v")
        engine.create_session("s", actor="ada", ledgers=[user.id, project.id]).observe("the key is w")
        assert values_by_key(project.items()) == {"k": "w"}
        assert values_by_key(user.items()) == {}


def test_a_claim_beside_a_fact_does_not_make_a_statement_unclear(engine: holdfast.Engine) -> None:
    """Of several facts with one key, the one that has the say is what a statement is about."""
    acme = open_ledger(engine, organization="acme")
    acme.set("hotel limit", "120 euros", authority="policy")
    acme.set("hotel limit", "300 euros", authority="peer")
    session = engine.create_session("s", identity=holdfast.Identity(user_id="ada"), ledgers=[acme.id])
    for _ in range(2):  # the second time, the session's own ledger has what was said
        (one,) = session.observe("The hotel limit is now 250 euros.").proposals
        assert (one.outcome, one.proposal.value) == ("claimed", "250 euros")
    held = session.facts.get("hotel limit")
    assert held is not None
    assert held.value == "120 euros"
