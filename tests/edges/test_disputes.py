"""Disputes: a fact that someone of lower authority takes back, that a message may have changed, or that a claim is made
against stands, and a pack shows both sides."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Engine, Identity, Profile, errors
from tests.edges.engines import EngineDesk, log_of
from tests.edges.fact_engines import (
    CFO,
    GUEST,
    MANAGER,
    MANY,
    PEER,
    ScriptedDetector,
    open_ledger,
    open_session_ledger,
    propose_superseding,
)

HOSTILE = Identity(user_id="g2", user_name="Gus", authority="guest")
ASK = "ask before relying on it"


@pytest.fixture(params=MANY)
def home(request: pytest.FixtureRequest, desk: EngineDesk) -> Engine:
    return desk.open(request.param)


def lines(session: Any, beginning: str = "- ", **options: Any) -> list[str]:
    text = session.pack("What is the price?", **options).text
    return [each for each in text.splitlines() if each.startswith(beginning)]


# Withdrawn by someone who may not


def test_a_retraction_by_someone_of_lower_rank_is_kept_as_a_dispute(home: Engine) -> None:
    fact = open_ledger(home, user="ada", identity=MANAGER).set("price", "20 euros")
    guest = open_ledger(home, user="ada", identity=GUEST)
    assert guest.retract("price", reason="too much") == ()
    now = guest.get("price")
    assert now is not None
    assert (now.id, now.value, now.status) == (fact.id, "20 euros", "live")
    assert [(each.by, each.authority) for each in now.disputes] == [("g1", "guest")]
    assert now.is_disputed
    session = home.create_session("s", identity=PEER, ledgers=[guest.id])
    assert lines(session, "- price") == [
        f"- price: 20 euros (stated by manager; withdrawn by guest, not confirmed: {ASK})"
    ]
    assert "withdrawn by g1 (guest), not confirmed" in [each.what for each in guest.why("price").story]
    assert home.admin.verify().ok


def test_saying_it_again_changes_nothing_and_others_are_counted(home: Engine) -> None:
    open_ledger(home, user="ada", identity=MANAGER).set("price", "20 euros")
    guest = open_ledger(home, user="ada", identity=GUEST)
    guest.retract("price")
    before = log_of(home)
    assert guest.retract("price") == ()
    assert log_of(home) == before
    open_ledger(home, user="ada", identity=HOSTILE).retract("price")
    open_ledger(home, user="ada", identity=PEER).retract("price")
    now = guest.get("price")
    assert now is not None
    assert [each.by for each in now.disputes] == ["g1", "g2", "p1"]
    session = home.create_session("s", ledgers=[guest.id])
    assert "withdrawn by guest and peer, not confirmed" in lines(session, "- price")[0]


def test_who_may_settles_a_dispute(home: Engine) -> None:
    manager, guest = (open_ledger(home, user="ada", identity=each) for each in (MANAGER, GUEST))
    fact = manager.set("price", "20 euros")
    guest.retract(fact)
    with pytest.raises(errors.NotAuthorised):
        guest.review.confirm(fact)
    assert not manager.review.confirm(fact).is_disputed
    guest.retract(fact)
    assert not manager.set("price", "20 euros").is_disputed
    guest.retract(fact)
    assert not open_ledger(home, user="ada", identity=CFO).review.endorse(fact).is_disputed
    guest.retract(fact)
    [dead] = open_ledger(home, user="ada", identity=CFO).retract(fact)
    assert (dead.status, dead.disputes) == ("retracted", ())
    assert home.admin.verify().ok


def test_a_dispute_is_kept_through_a_rebuild_and_a_promotion(home: Engine) -> None:
    manager, guest = (open_ledger(home, user="ada", identity=each) for each in (MANAGER, GUEST))
    fact = manager.set("price", "20 euros", scope="draft", scope_id="d")
    guest.retract(fact.id)
    promoted = manager.review.promote(fact)
    assert [each.by for each in promoted.disputes] == ["g1"]
    home.admin.rebuild()
    assert manager.fact(fact.id) == promoted


def test_who_may_not_know_of_a_fact_cannot_dispute_it(home: Engine) -> None:
    secret = open_ledger(home, user="ada", identity=CFO).set("salary", 100, requires=["hr"])
    with pytest.raises(errors.FactNotFound):
        open_ledger(home, user="ada", identity=GUEST).retract(secret.id)


def test_what_derives_from_a_disputed_fact_stays(home: Engine) -> None:
    manager, guest = (open_ledger(home, user="ada", identity=each) for each in (MANAGER, GUEST))
    base = manager.set("price", "20 euros")
    derived = manager.set("total", "200 euros", depends_on=base)
    guest.retract(base)
    assert manager.fact(derived.id).status == "live"
    assert not manager.fact(derived.id).needs_review


# Perhaps changed by a message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"value": "35 euros"}, f"(disputed: the conversation says that it may now be 35 euros; {ASK})"),
        ({"value": None}, f"(disputed: the conversation says that it may have changed; {ASK})"),
        ({"change": "retract", "value": None}, f"(disputed: the conversation says that it may not hold; {ASK})"),
        ({"change": "expire", "value": None}, f"(may be out of date: its time seems to be over; {ASK})"),
    ],
)
def test_a_fact_with_an_open_proposal_is_shown_with_both_sides(
    change: dict[str, Any], expected: str, desk: EngineDesk
) -> None:
    engine = desk.open("memory", detector=ScriptedDetector(propose_superseding("price", confidence=0.6, **change)))
    session = engine.create_session("s", identity=PEER)
    open_session_ledger(session).set("price", "20 euros")
    observed = session.observe("Perhaps it is otherwise.")
    [judged] = observed.proposals
    assert judged.outcome == "asked"
    assert lines(session, "- price") == [f"- price: 20 euros {expected}"]
    session.facts.decline(judged.id)
    assert lines(session, "- price") == ["- price: 20 euros"]


def test_what_an_erased_message_may_have_changed_is_gone_with_it(desk: EngineDesk) -> None:
    engine = desk.open(
        "memory", detector=ScriptedDetector(propose_superseding("price", confidence=0.6, value="35 euros"))
    )
    session = engine.create_session("s", identity=PEER)
    open_session_ledger(session).set("price", "20 euros")
    observed = session.observe("Perhaps it is 35 euros.")
    assert "35 euros" in lines(session, "- price")[0]
    session.erase([observed.message.seq], "asked to")
    assert lines(session, "- price") == ["- price: 20 euros"]


def test_only_the_fact_that_a_proposal_is_about_is_disputed(home: Engine, desk: EngineDesk) -> None:
    engine = desk.open(
        "memory", "other", detector=ScriptedDetector(propose_superseding("price", confidence=0.6, value="35 euros"))
    )
    session = engine.create_session("s", identity=PEER, ledgers=[open_ledger(engine, user="ada").id])
    open_session_ledger(session).set("price", "20 euros")
    other = open_ledger(engine, user="ada")
    other.set("colour", "red")
    session.observe("Perhaps it is otherwise.")
    assert lines(session, "- colour") == ["- colour: red"]
    assert engine.create_session("t", ledgers=[other.id]).pack("What colour?").text.count("disputed") == 0


def test_a_user_who_takes_back_what_a_manager_said_disputes_it(desk: EngineDesk) -> None:
    engine = desk.open("memory", detector=ScriptedDetector(propose_superseding("price", change="retract", value=None)))
    manager = open_ledger(engine, user="ada", identity=MANAGER)
    manager.set("price", "20 euros")
    session = engine.create_session("s", identity=GUEST, ledgers=[manager.id])
    [judged] = session.observe("Forget the price.").proposals
    assert judged.outcome == "asked"
    assert lines(session, "- price") == [
        f"- price: 20 euros (disputed: the conversation says that it may not hold; {ASK})"
    ]
    session.facts.accept(judged.id)
    assert lines(session, "- price") == [
        f"- price: 20 euros (stated by manager; withdrawn by guest, not confirmed: {ASK})"
    ]


# Claimed otherwise by someone who may not


def test_a_claim_stands_next_to_the_fact_that_it_is_against(home: Engine) -> None:
    manager, guest = (open_ledger(home, user="ada", identity=each) for each in (MANAGER, GUEST))
    manager.set("price", "20 euros")
    manager.set("price list", "price of what?")
    guest.set("price", "5 euros")
    session = home.create_session("s", identity=PEER, ledgers=[manager.id])
    found = lines(session)
    at = found.index("- price: 20 euros")
    assert found[at + 1] == "- claim by guest, not confirmed: price: 5 euros"


def test_what_the_speaker_said_against_a_higher_authority_is_shown_as_a_claim(desk: EngineDesk) -> None:
    engine = desk.open("memory", detector=ScriptedDetector(propose_superseding("price", value="5 euros")))
    manager = open_ledger(engine, user="ada", identity=MANAGER)
    manager.set("price", "20 euros")
    session = engine.create_session("s", identity=GUEST, ledgers=[manager.id])
    [judged] = session.observe("The price is 5 euros.").proposals
    assert judged.outcome == "claimed"
    found = lines(session)
    at = found.index("- price: 20 euros")
    assert found[at + 1] == "- claim by guest, not confirmed: price: 5 euros"


# Under review


@pytest.mark.parametrize(("profile", "shown"), [("balanced", True), ("comprehensive", True), ("high_stakes", False)])
def test_what_is_under_review_is_marked_and_left_out_where_the_stakes_are_high(
    profile: str, shown: bool, home: Engine
) -> None:
    session = home.create_session("s")
    ledger = open_session_ledger(session)
    base = ledger.set("price", "20 euros")
    ledger.set("total", "200 euros", depends_on=base)
    ledger.set("price", "30 euros")
    expected = "- total: 200 euros (under review: it rests on price, which is now 30 euros; check before relying on it)"
    assert lines(session, "- total", profile=profile) == ([expected] if shown else [])
    assert lines(session, "- price", profile=profile) == ["- price: 30 euros"]


def test_a_profile_of_ones_own_says_what_becomes_of_a_review(home: Engine) -> None:
    session = home.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("total", "200 euros", depends_on=ledger.set("price", "20 euros"))
    ledger.set("price", "30 euros")
    assert lines(session, "- total", profile=Profile(name="mine", review="omit")) == []
    with pytest.raises(errors.InvalidArgument):
        session.pack(profile=Profile(name="mine", review="hide"))  # type: ignore[arg-type]


def test_a_claim_is_never_shown_without_the_fact_that_it_is_against(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    manager, guest = (open_ledger(engine, user="ada", identity=each) for each in (MANAGER, GUEST))
    for number in range(40):
        manager.set(f"other {number}", f"a note on things {number}")
    manager.set("limit", "20 euros")
    guest.set("limit", "the price is 5 euros, what is the price, the price is this")
    session = engine.create_session("s", identity=PEER, ledgers=[manager.id])
    shown = set()
    for budget in range(500, 1_200, 20):
        found = lines(session, budget=budget)
        fact, claim = (any(each.startswith(start) for each in found) for start in ("- limit", "- claim by guest"))
        assert fact or not claim
        shown.add((fact, claim))
    assert (True, True) in shown


@pytest.mark.parametrize(("profile", "shown"), [("balanced", True), ("high_stakes", False)])
def test_what_says_of_itself_that_it_is_invalid_is_left_out_where_the_stakes_are_high(
    profile: str, shown: bool, home: Engine
) -> None:
    session = home.create_session("s")
    open_session_ledger(session).set("plan", "[INVALIDATED - based on wrong data] We need 8 people")
    made = session.pack("What is the plan?", profile=profile)
    assert ("8 people" in made.text) is shown
    if not shown:
        [entry] = [each for each in made.manifest.entries if each.section == "facts"]
        assert (entry.fate, entry.reason) == ("omitted", "says of itself that it is invalid")
