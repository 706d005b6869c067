"""The seed's test vectors, its four rules with their own examples, its checklist and its anti-patterns, as they are named
there. What the context contains is what listing and searching give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Engine, Identity, errors
from holdfast.types import FactSource
from tests.edges.engines import EngineDesk, ManualClock, expect_refusal
from tests.edges.fact_engines import (
    CLERK,
    GUEST,
    MANAGER,
    MANY,
    PEER,
    ledger_context,
    open_ledger,
    open_session_ledger,
    values_by_key,
)

DAY_US = 86_400_000_000
JANUARY_1 = 1_767_225_600_000_000
INTERN = Identity(user_name="Ivo", user_id="i1", authority="intern")


@pytest.fixture(scope="module", params=MANY)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, ManualClock]]:
    clock = ManualClock()
    desk = EngineDesk(Path(tmp_path_factory.mktemp("seed")))
    yield desk.open(request.param, clock=clock), clock
    desk.close()


@pytest.fixture
def clock(shared: tuple[Engine, ManualClock]) -> ManualClock:
    return shared[1]


@pytest.fixture
def home(shared: tuple[Engine, ManualClock], request: pytest.FixtureRequest) -> Engine:
    """An engine of one test's own tenant."""
    return shared[0].acting_as(tenant=request.function.__name__)


# Test vectors


def test_vector_1_basic_supersession(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    ledger.set("status_v1", "approved")
    ledger.set("status_v2", "cancelled", supersedes="status_v1")
    told = ledger_context(ledger, "What is the current status?")
    assert "cancelled" in told
    assert "approved" not in told


def test_vector_2_emphatic_repetition(home: Engine) -> None:
    """However often it was said before, and is said of the dead one after."""
    ledger = open_ledger(home, user="ada")
    for _ in range(3):
        ledger.set("order_v1", "approved")
    ledger.set("order_v2", "cancelled", supersedes="order_v1")
    told = ledger_context(ledger, "Should we proceed with the order?")
    assert "cancelled" in told
    assert "approved" not in told
    current = ledger.get("order_v1")
    assert current is not None
    assert (current.key, current.value) == ("order_v2", "cancelled")
    assert [fact.value for fact in ledger.history("order_v1")] == ["approved", "cancelled"]


def test_vector_3_authority_override(home: Engine) -> None:
    company = open_ledger(home, organization="acme")
    policy = company.set("policy", "max 15%", source="CFO", authority="CFO")
    session = home.create_session("s", identity=INTERN, ledgers=[company.id])
    session.observe("Let's offer 25%")
    session.observe("Actually, the policy is max 25% now.")
    claim = open_session_ledger(session, organization="acme").set("policy", "max 25%")
    assert claim.against == policy.id
    holds = session.facts.get("policy")
    assert holds is not None
    assert (holds.value, holds.authority) == ("max 15%", "executive")
    told = [
        known.fact for known in session.facts.search("Can we offer 25%? What is the policy?") if not known.fact.is_claim
    ]
    assert "max 15%" in [fact.value for fact in told]
    assert "max 25%" not in [fact.value for fact in told]
    assert company.fact(policy.id).is_valid


# The four rules


def test_rule_1_explicit_supersession(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    first = ledger.set("address", "123 Main St", ref="address_v1")
    session = home.create_session("s", identity=PEER, ledgers=[ledger.id])
    session.observe("I moved to 456 Oak Ave")
    second = ledger.get("address")
    assert second is not None
    assert (second.value, second.supersedes) == ("456 Oak Ave", (first.id,))
    assert ledger.fact(first.id).rule == "explicit"
    assert ledger.set("home", "789 Elm Rd", supersedes="address", ref="address_v3").supersedes == (second.id,)
    assert values_by_key(ledger.items()) == {"home": "789 Elm Rd"}


def test_rule_2_implicit_supersession(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    ledger.set("meeting", "Tuesday at 2pm")
    ledger.set("meeting", "Thursday at 3pm")
    old, new = ledger.history("meeting")
    assert (old.status, old.rule, old.superseded_by) == ("superseded", "implicit", new.id)
    assert values_by_key(ledger.items()) == {"meeting": "Thursday at 3pm"}


def test_rule_2_implicit_supersession_as_it_is_said(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    ledger.set("meeting", "Tuesday at 2pm")
    session = home.create_session("s", identity=PEER, ledgers=[ledger.id])
    [judged] = session.observe("Let's do the meeting Thursday at 3pm").proposals
    assert (judged.proposal.key, judged.proposal.value) == ("meeting", "Thursday at 3pm")
    if judged.outcome == "asked":
        session.facts.accept(judged.id)
    assert values_by_key(ledger.items()) == {"meeting": "Thursday at 3pm"}


def test_rule_3_authority_based_supersession(home: Engine) -> None:
    """Policy over manager over employee over guest, one above the other."""
    ladder = ["guest", "employee", "manager", "policy"]
    ledger = open_ledger(home, organization="acme")
    before = ledger.set("discount", "we can offer 40%", authority=ladder[0])
    for name in ladder[1:]:
        fact = ledger.set("discount", f"the {name} says so", authority=name)
        assert fact.supersedes == (before.id,)
        assert ledger.fact(before.id).rule == "authority"
        before = fact
    for name in ladder[:-1]:
        claim = ledger.set("discount", f"the {name} objects", authority=name)
        assert (claim.is_claim, claim.against) == (True, before.id)
        assert ledger.get("discount") == ledger.fact(before.id)


def test_rule_3_policy_supersedes_an_employees_statement(home: Engine) -> None:
    """Whichever of the two comes first."""
    for number, names in enumerate([("employee", "policy"), ("policy", "employee")]):
        ledger = open_ledger(home, project=f"p{number}")
        for name in names:
            said = "we can offer 25% discount" if name == "employee" else "max discount is 15%"
            ledger.set("discount", said, authority=name, source=name)
        holds = ledger.get("discount")
        assert holds is not None
        assert holds.value == "max discount is 15%"
        assert [fact.value for fact in ledger.constraints()] == ["max discount is 15%"]


@pytest.mark.parametrize("late", [False, True], ids=["in order", "old news late"])
def test_rule_4_temporal_supersession(late: bool, home: Engine) -> None:
    ledger = open_ledger(home, user=f"late {late}")
    news = [("$100", JANUARY_1), ("$95", JANUARY_1 + 14 * DAY_US)]
    for price, since_us in reversed(news) if late else news:
        ledger.set("stock price", price, valid_from_us=since_us)
    assert values_by_key(ledger.items()) == {"stock price": "$95"}
    old = next(fact for fact in ledger.history("stock price") if fact.value == "$100")
    assert (old.status, old.rule) == ("superseded", "temporal")
    assert old.superseded_by == ledger.items()[0].id


# The checklist


def test_supersession_tracking(home: Engine) -> None:
    """The flag, the pointer, and a chain that can be walked both ways."""
    ledger = open_ledger(home, user="ada")
    made = [ledger.set("status", f"version {number}") for number in range(5)]
    facts = [ledger.fact(fact.id) for fact in made]
    assert [fact.is_valid for fact in facts] == [False] * 4 + [True]
    assert [fact.superseded_by for fact in facts] == [*(fact.id for fact in made[1:]), None]
    assert [fact.supersedes for fact in facts] == [(), *((fact.id,) for fact in made[:-1])]
    why = ledger.why("status")
    assert why.current == facts[-1]
    assert [fact.id for fact in why.chain] == [fact.id for fact in reversed(made[:-1])]


def test_derived_facts_need_a_review_when_their_source_is_superseded(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    price = ledger.set("price", 10)
    total = ledger.set("total", 100, depends_on=price)
    bill = ledger.set("bill", "100 to pay", depends_on=total)
    other = ledger.set("other", 1)
    ledger.set("price", 12)
    marked = {fact.id: fact.review for fact in ledger.items()}
    assert marked == {total.id: price.id, bill.id: price.id, other.id: ""} | {ledger.items()[-1].id: ""}
    assert [fact.id for fact in ledger.review.list()] == [total.id, bill.id]
    assert ledger.fact(price.id).derived_facts == (total.id,)


def test_valid_only_reads(home: Engine, clock: ManualClock) -> None:
    """Nothing that was superseded, taken back or has run out is read by any road that does not ask for the dead."""
    ledger = open_ledger(home, user="ada")
    ledger.set("plan", "deadword one")
    ledger.set("plan", "good")
    ledger.retract(ledger.set("rumour", "deadword two must not be told"))
    ledger.review.expire(ledger.set("offer", "deadword three"))
    ledger.set("quote", "deadword four", ttl_s=60)
    clock.now_s += 60
    session = home.create_session("s", identity=PEER, ledgers=[ledger.id])
    found = [*ledger.items(), *ledger.constraints(), *ledger.review.list()]
    found += [known.fact for known in (*ledger.search("deadword plan"), *session.facts.search("deadword plan"))]
    found += [ledger.get(key) or ledger.items()[0] for key in ("plan", "rumour", "offer", "quote")]
    assert {fact.value for fact in found} == {"good"}
    assert [session.facts.get(key) for key in ("rumour", "offer", "quote")] == [None] * 3


def test_authority_awareness(home: Engine) -> None:
    """Who may not know of a fact is not shown it, and cannot write over it."""
    company = open_ledger(home, organization="acme")
    secret = company.set("salary", 100_000, requires=["hr"], authority="policy")
    for identity, known in ((GUEST, ()), (CLERK, (secret,))):
        reader = open_ledger(home, organization="acme", identity=identity)
        assert reader.items() == known
        assert [each.fact for each in reader.search("salary")] == list(known)
        assert reader.get("salary") == (known[0] if known else None)
    with expect_refusal(home, errors.FactNotFound):
        open_ledger(home, organization="acme", identity=GUEST).retract(secret.id)
    clerk = open_ledger(home, organization="acme", identity=CLERK)
    with expect_refusal(home, errors.NotAuthorised, needs="policy", has="manager"):
        clerk.review.expire(secret.id)
    assert clerk.retract(secret.id) == ()
    assert clerk.fact(secret.id).is_disputed


def test_temporal_awareness(home: Engine, clock: ManualClock) -> None:
    """The time is at hand, and what has run out is never current, whether or not somebody swept."""
    ledger = open_ledger(home, user="ada")
    session = home.create_session("s", ledgers=[ledger.id])
    assert session.environment.get().time_us == clock.now_us()
    fact = ledger.set("offer", "10%", ttl_s=3_600)
    assert fact.expires_us == clock.now_us() + 3_600_000_000
    clock.now_s += 3_599
    assert ledger.get("offer") == fact
    clock.now_s += 1
    assert ledger.get("offer") is None
    assert session.facts.get("offer") is None
    assert ledger.items() == ()
    assert home.admin.sweep().facts == 1
    assert [each.status for each in ledger.history("offer")] == ["expired"]
    assert ledger.get("offer") is None


def test_temporal_awareness_a_fact_may_be_older_than_its_record(home: Engine, clock: ManualClock) -> None:
    ledger = open_ledger(home, user="ada")
    fact = ledger.set("balance", 5, valid_from_us=clock.now_us() - DAY_US)
    assert (fact.at_us, fact.valid_from_us) == (clock.now_us(), clock.now_us() - DAY_US)


# Schema: memory types, scopes, constraints


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("policy", "organizational"),
        ("finance_system", "organizational"),
        ("hr_system", "organizational"),
        ("observation", "capability"),
        ("pattern", "capability"),
        ("heuristic", "capability"),
        ("decision", "user"),
        ("user", "user"),
        ("preference", "user"),
        (FactSource(type="policy"), "organizational"),
        (FactSource(type="system", name="crm"), "organizational"),
        (None, "user"),
    ],
    ids=str,
)
def test_memory_type_classification(source: str | FactSource | None, kind: str) -> None:
    with holdfast.open("memory:") as engine:
        assert engine.ledger(user="ada").set("k", 1, source=source).memory_type == kind


def test_constraints_are_told_apart_with_their_kind(home: Engine) -> None:
    ledger = open_ledger(home, organization="acme")
    texts = {
        "spending": ("must not exceed $5,000", "budget"),
        "launch deadline": ("March 3", "deadline"),
        "room": ("at most 40 people", "capacity"),
        "travel policy": ("economy class", "policy"),
    }
    for key, (text, _) in texts.items():
        ledger.set(key, text)
    ledger.set("colour", "blue")
    assert {fact.key: fact.constraint_type for fact in ledger.constraints()} == {
        key: kind for key, (_, kind) in texts.items()
    }


def test_a_hypothetical_or_a_draft_does_not_affect_what_holds(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    fact = ledger.set("budget", "100")
    ledger.set("budget", "what if it were 500?")
    ledger.set("budget", "Draft: 300", scope_id="d")
    assert ledger.items() == (fact,)
    assert ledger.get("budget") == fact


# Anti-patterns


def test_anti_pattern_including_superseded_facts(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    for number in range(10):
        ledger.set("count", number)
    assert [fact.value for fact in ledger.items()] == [9]
    assert [fact.value for fact in ledger.items(status="dead")] == list(range(9))
    assert [known.fact.value for known in ledger.search("count")] == [9]


def test_anti_pattern_recency_bias_without_supersession(home: Engine) -> None:
    """The last to be mentioned is not the one that holds: the chain says which."""
    ledger = open_ledger(home, user="ada")
    first = ledger.set("address", "123 Main St", ref="v1")
    ledger.set("new address", "456 Oak Ave", supersedes=first)
    session = home.create_session("s", identity=PEER, ledgers=[ledger.id])
    session.observe("Do you still remember 123 Main St? My address, 123 Main St, was so nice.")
    holds = ledger.get("address")
    assert holds is not None
    assert (holds.key, holds.value) == ("new address", "456 Oak Ave")


def test_anti_pattern_ignoring_authority(home: Engine) -> None:
    company = open_ledger(home, organization="acme")
    company.set("discount_policy", "15%", authority="policy")
    for identity in (GUEST, PEER, MANAGER):
        written = open_ledger(home, organization="acme", identity=identity).set("discount_policy", "50%")
        assert written.is_claim
        with expect_refusal(home, errors.AuthorityExceeded):
            open_ledger(home, organization="acme", identity=identity).set("discount_policy", "50%", authority="policy")
    holds = company.get("discount_policy")
    assert holds is not None
    assert holds.value == "15%"


def test_resurrection_of_a_dead_fact_is_a_new_one(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    one, _, three = (ledger.set("plan", value) for value in ("A", "B", "A"))
    assert ledger.get("plan") == ledger.fact(three.id)
    assert one.id != three.id
    assert not ledger.fact(one.id).is_valid
