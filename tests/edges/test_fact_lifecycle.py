"""What becomes of facts: erased without a trace, swept when they run out, gone with their session; retried, refused and
carried elsewhere like everything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Engine, Identity, Policy, errors
from holdfast.model import limits
from holdfast.model.rows import PROJECTION_VERSION, FactRow
from tests.edges.engines import (
    FEWER,
    LASTING,
    Desk,
    HandClock,
    contents,
    everything,
    log_of,
    refused,
    rows_of,
    store_of,
)
from tests.edges.fact_engines import GUEST, MANY, PEER, STORES, Hearing, about, own, proposal, shelf, values

SECRET = "zanzibarsecret7f3a9c"
ALL_KNOWING = Identity(user_id="a1", authority="policy", permissions=("facts:endorse", "hr"))


@pytest.fixture(scope="module", params=MANY)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    desk = Desk(Path(tmp_path_factory.mktemp("facts")))
    yield desk.open(request.param)
    desk.close()


@pytest.fixture
def home(shared: Engine, request: pytest.FixtureRequest) -> Engine:
    """An engine of one test's own tenant."""
    return shared.acting_as(tenant=request.node.name)


# Erasure


@pytest.mark.parametrize("kind", FEWER)
def test_an_erased_fact_leaves_no_trace(kind: str, desk: Desk) -> None:
    """Not in an event, a row, an index or a file, however often it was touched: live, dead, derived, marked."""
    engine = desk.open(kind)
    ledger = shelf(engine, user="ada")
    before = ledger.assert_("plan", f"{SECRET} first", ref=f"{SECRET}-ref", key="once")
    live = ledger.assert_("plan", {SECRET: [f"{SECRET} second"]}, source=SECRET, provenance=[SECRET])
    derived = ledger.assert_(f"{SECRET} key", f"{SECRET} third", depends_on=live, requires=["hr"])
    kept = ledger.assert_("sum", "a number", depends_on=[derived])
    for number in range(30):
        ledger.assert_(f"other {number}", f"filler {number} " * 20)
    assert SECRET.encode() in everything(engine, desk)
    ledger.erase([before, live, derived], "asked to")
    assert SECRET.encode() not in everything(engine, desk)
    assert ledger.search(SECRET) == ()
    assert ledger.history("plan") == ()
    assert ledger.current("plan") is None
    for gone in (before, live, derived):
        with pytest.raises(errors.FactNotFound):
            ledger.get(gone.id)
    assert ledger.get(kept.id).review != ""
    assert values(ledger.facts())["other 7"].startswith("filler 7")
    assert engine.verify().ok
    assert ledger.assert_("plan", "anew").supersedes == ()
    engine.rebuild()
    assert SECRET.encode() not in everything(engine, desk)
    assert engine.verify().ok


def test_erasing_a_link_of_a_chain_keeps_the_others(home: Engine) -> None:
    ledger = shelf(home, user="ada")
    facts = [ledger.assert_("plan", number) for number in range(4)]
    ledger.erase(facts[1], "asked to")
    assert [fact.value for fact in ledger.history("plan")] == [0, 2, 3]
    current = ledger.current("plan")
    assert current is not None
    assert (current.value, ledger.assert_("plan", 4).supersedes) == (3, (facts[3].id,))
    ledger.erase([facts[3].id, facts[0].id, facts[3].id], "asked to")
    assert [fact.value for fact in ledger.history("plan")] == [2, 4]
    assert home.verify().ok


def test_an_erasure_names_facts_that_are_there(home: Engine) -> None:
    ledger = shelf(home, user="ada")
    fact = ledger.assert_("plan", 1)
    with refused(home, errors.FactNotFound, fact="k9"):
        ledger.erase([fact, "k9"], "asked to")
    before = contents(home)
    ledger.erase([], "nothing")
    assert contents(home) == before
    ledger.erase(fact, "asked to")
    with refused(home, errors.FactNotFound, fact=fact.id):
        ledger.erase(fact, "again")


def test_a_key_whose_fact_was_erased_is_not_used_again(home: Engine) -> None:
    ledger = shelf(home, user="ada")
    ledger.erase(ledger.assert_("plan", SECRET, key="once"), "asked to")
    for value in ("other", SECRET):
        with refused(home, errors.KeyConflict):
            ledger.assert_("plan", value, key="once")
    assert ledger.facts() == ()


@pytest.mark.parametrize("kind", FEWER)
def test_a_destroyed_session_takes_its_own_ledger_along(kind: str, desk: Desk) -> None:
    said = (proposal(key="plan", value=f"{SECRET} plan"), proposal(key="odd", value=f"{SECRET} odd", confidence=0.6))
    engine = desk.open(kind, detector=Hearing(lambda _: said), policy=Policy(learn_into="session"))
    shared = shelf(engine, user="ada")
    shared.assert_("kept", "for others")
    session = engine.create_session("s", identity=GUEST, ledgers=[shared.id])
    session.observe(f"{SECRET} was said")
    own(session).assert_("note", f"{SECRET} note")
    assert SECRET.encode() in everything(engine, desk)
    session.destroy("asked to", offload=False)
    assert SECRET.encode() not in everything(engine, desk)
    assert values(shared.facts()) == {"kept": "for others"}
    assert engine.verify().ok


# Running out


def test_sweeping_expires_what_has_run_out(desk: Desk) -> None:
    for kind in STORES:
        clock = HandClock()
        engine = desk.open(kind, clock=clock)
        ledgers = [
            shelf(engine, user="ada"),
            shelf(engine, project="x"),
            shelf(engine.acting_as(tenant="t"), user="ada"),
        ]
        for ledger in ledgers:
            source = ledger.assert_("offer", "10%", ttl_s=60)
            ledger.assert_("price", 9, depends_on=source)
            ledger.assert_("draft", 1, scope="draft", scope_id="d", ttl_s=60)
            ledger.assert_("late", 1, ttl_s=61)
        clock.now_s += 60
        assert engine.sweep().facts == 4
        assert engine.sweep().facts == 0
        for ledger in ledgers[:2]:
            dead = ledger.facts(status="dead", within=[("draft", "d")])
            assert [(fact.key, fact.status) for fact in dead] == [("offer", "expired"), ("draft", "expired")]
            assert [(fact.key, fact.review) for fact in ledger.review()] == [("price", dead[0].id)]
        assert ledgers[2].facts(status="dead") == ()
        clock.now_s += 1
        assert engine.sweep(limit=1).facts == 1
        assert engine.sweep(limit=1).facts == 1
        assert engine.verify().ok


def test_what_has_run_out_makes_room_whether_or_not_it_was_swept(desk: Desk) -> None:
    clock = HandClock()
    engine = desk.open("memory", clock=clock)
    company, ledger = shelf(engine, organization="acme"), shelf(engine, organization="acme", identity=GUEST)
    policy = company.assert_("limit", 1, authority="policy", ttl_s=60)
    assert ledger.assert_("limit", 2).claim
    clock.now_s += 60
    fact = ledger.assert_("limit", 3)
    assert not fact.claim
    assert company.current("limit") == company.get(fact.id)
    assert company.get(policy.id).status == "expired"
    with refused(engine, errors.FactNotLive, status="expired"):
        ledger.reinstate(policy)


# Again with the same key


def test_an_assertion_that_is_retried_is_the_same_answer(home: Engine) -> None:
    ledger = shelf(home, user="ada")
    first = ledger.assert_("plan", "A", key="once")
    ledger.assert_("plan", "B")
    before = contents(home)
    again = ledger.assert_("plan", "A", key="once")
    assert (again.id, again.status) == (first.id, "superseded")
    assert contents(home) == before


def test_a_key_of_another_command_is_a_conflict(home: Engine) -> None:
    ledger = shelf(home, user="ada")
    ledger.assert_("plan", "A", key="once")
    other = shelf(home, user="bob")
    session = home.create_session("s")
    attempts: list[Any] = [
        lambda: ledger.assert_("plan", "B", key="once"),
        lambda: ledger.assert_("plans", "A", key="once"),
        lambda: ledger.assert_("plan", "A", key="once", requires=["hr"]),
        lambda: other.assert_("plan", "A", key="once"),
        lambda: ledger.retract("plan", key="once"),
        lambda: ledger.assert_all([{"key": "plan", "value": "A"}, {"key": "b", "value": 1}], key="once"),
        lambda: session.observe("hello", key="once"),
        lambda: session.record("user", "hello", key="once"),
        lambda: session.decline("p1.0", key="once"),
    ]
    for attempt in attempts:
        with refused(home, errors.KeyConflict):
            attempt()


@pytest.mark.parametrize("method", ["retract", "expire", "reinstate", "confirm", "endorse", "promote"])
def test_a_change_that_is_retried_happens_once(method: str, home: Engine) -> None:
    ledger = shelf(home, user="ada")
    source = ledger.assert_("source", 0)
    fact = ledger.assert_("plan", "A", depends_on=source, scope="draft" if method == "promote" else "global")
    if method == "confirm":
        ledger.assert_("source", 1)
    if method == "reinstate":
        ledger.assert_("plan", "B")
    do = getattr(ledger, method)
    first = do(fact, key="once")
    before = contents(home)
    assert do(fact, key="once") == first
    assert contents(home) == before
    with refused(home, errors.KeyConflict):
        do(source, key="once")


@pytest.mark.parametrize("confidence", [0.9, 0.6], ids=["applied", "asked"])
def test_what_is_observed_again_with_its_key_is_heard_once(confidence: float, desk: Desk) -> None:
    for kind in (*STORES, "memory awaited"):
        engine = desk.open(
            kind, name=f"{confidence}", detector=Hearing(about("plan", value="B", confidence=confidence))
        )
        ledger = shelf(engine, user="ada")
        ledger.assert_("plan", "A")
        session = engine.create_session("s", identity=PEER, ledgers=[ledger.id])
        first = session.observe("the plan is B", key="once")
        before = contents(engine)
        again = session.observe("the plan is B", key="once")
        assert contents(engine) == before
        assert again == first
        assert [each.outcome for each in first.judged] == ["applied" if confidence > 0.8 else "asked"]
        for text, role in (("the plan is C", "user"), ("the plan is B", "assistant")):
            with refused(engine, errors.KeyConflict):
                session.observe(text, role=role, key="once")  # type: ignore[arg-type]


def test_what_was_observed_is_the_same_answer_after_the_session_was_closed(home: Engine) -> None:
    session = home.create_session("s")
    first = session.observe("hello", key="once")
    session.close("over")
    assert session.observe("hello", key="once").message == first.message
    with refused(home, errors.SessionClosed):
        session.observe("hello", key="twice")


def test_a_recorded_message_that_is_observed_again_with_its_key_is_heard_once(desk: Desk) -> None:
    engine = desk.open("memory", detector=Hearing(about("plan", value="B", confidence=0.6)))
    ledger = shelf(engine, user="ada")
    ledger.assert_("plan", "A")
    session = engine.create_session("s", identity=PEER, ledgers=[ledger.id])
    message = session.record("user", "the plan is B")
    first = session.observe(message, key="once")
    again = session.observe(message, key="once")
    assert again == first
    assert [each.id for each in first.judged] == [session.proposals()[0].id]


# Proposals


def _asking(desk: Desk, kind: str = "memory", **changes: Any) -> tuple[Engine, Any, Any]:
    """A session in which each message makes a proposal that waits."""
    engine = desk.open(kind, detector=Hearing(about("plan", **{"value": "B", "confidence": 0.6, **changes})))
    ledger = shelf(engine, user="ada")
    ledger.assert_("plan", "A")
    return engine, ledger, engine.create_session("s", identity=PEER, ledgers=[ledger.id])


@pytest.mark.parametrize("kind", FEWER)
def test_a_proposal_is_decided_once(kind: str, desk: Desk) -> None:
    engine, ledger, session = _asking(desk, kind)
    one, two = (session.observe(text).judged[0] for text in ("it is B", "it is B, really"))
    assert [each.id for each in session.proposals()] == [one.id, two.id]
    session.decline(one.id, key="no")
    session.decline(one.id, key="no")
    session.accept(two.id, key="yes")
    before = contents(engine)
    session.accept(two.id, key="yes")
    for decide, name in ((session.accept, two.id), (session.decline, one.id), (session.accept, "p9.9")):
        with pytest.raises(errors.ProposalNotFound):
            decide(name)
    with pytest.raises(errors.KeyConflict):
        session.accept(one.id, key="yes")
    assert contents(engine) == before
    assert values(ledger.facts()) == {"plan": "B"}
    assert session.proposals() == ()
    assert engine.verify().ok


def test_a_proposal_that_came_too_late_is_refused_and_waits_on(desk: Desk) -> None:
    engine, ledger, session = _asking(desk, change="retract", value=None)
    judged = session.observe("the plan is off").judged[0]
    shelf(engine, user="ada").assert_("plan", "C", authority="policy")
    with refused(engine, errors.FactNotLive):
        session.accept(judged.id)
    assert values(ledger.facts()) == {"plan": "C"}
    assert [each.id for each in session.proposals()] == [judged.id]
    session.decline(judged.id)


def test_the_oldest_proposals_lapse_and_all_do_when_the_conversation_ends(desk: Desk) -> None:
    engine, _, session = _asking(desk)
    ids = [session.observe(f"it is B, {number}").judged[0].id for number in range(limits.OPEN_PROPOSALS + 3)]
    assert [each.id for each in session.proposals()] == ids[3:]
    with refused(engine, errors.ProposalNotFound):
        session.accept(ids[0])
    session.reset("over")
    assert session.proposals() == ()
    session.observe("it is B")
    session.close("over")
    with refused(engine, errors.SessionClosed):
        session.observe("it is B")
    assert session.proposals() == ()


def test_what_is_said_and_what_it_changes_are_stored_together_or_not_at_all(desk: Desk) -> None:
    engine, ledger, session = _asking(desk, confidence=0.9)
    session.close("over")
    with refused(engine, errors.SessionClosed):
        session.observe("the plan is B")
    assert values(ledger.facts()) == {"plan": "A"}


# Versions, batches, tenants


def test_an_expected_version_is_the_ledgers_own(home: Engine) -> None:
    ledger = shelf(home, user="ada")
    ledger.assert_("plan", 1, expect=0)
    with refused(home, errors.VersionConflict, expected=0, actual=1):
        ledger.assert_("plan", 2, expect=0)
    ledger.assert_("plan", 2, expect=1)
    with refused(home, errors.VersionConflict, expected=2, actual=3):
        ledger.assert_all([{"key": "plan", "value": 3}], expect=2)
    assert len(ledger.assert_all([{"key": "plan", "value": 3}], expect=3)) == 1


def test_a_batch_is_stored_whole_or_not_at_all(home: Engine) -> None:
    ledger = shelf(home, user="ada", identity=GUEST)
    shelf(home, user="ada").assert_("limit", 1, authority="policy")
    for bad, kind in (
        ({"key": "b", "value": 1, "depends_on": "nothing"}, errors.FactNotFound),
        ({"key": "b", "value": 1, "authority": "policy"}, errors.AuthorityExceeded),
        ({"key": "b", "value": float("nan")}, errors.InvalidJson),
        ({"key": "b", "value": 1, "requires": ["hr"]}, errors.PermissionMissing),
        ({"key": "b", "value": 1, "colour": "red"}, errors.InvalidContent),
        ({"key": "b"}, errors.InvalidContent),
    ):
        with refused(home, kind):
            ledger.assert_all([{"key": "a", "value": 1}, bad])
    one, two, three = ledger.assert_all(
        [
            {"key": "a", "value": 1, "ref": "first"},
            {"key": "b", "value": 2, "depends_on": "first"},
            {"key": "a", "value": 3},
        ]
    )
    assert (two.depends_on, three.supersedes) == ((one.id,), (one.id,))
    assert ledger.get(two.id).review == one.id
    assert home.verify().ok


def test_a_ledger_of_another_tenant_is_another_ledger(home: Engine) -> None:
    ledger = shelf(home, user="ada")
    fact = ledger.assert_("plan", SECRET)
    other = shelf(home.acting_as(tenant="rival"), user="ada")
    assert (other.facts(), other.search(SECRET), other.current("plan"), other.history("plan")) == ((), (), None, ())
    with pytest.raises(errors.FactNotFound):
        other.get(fact.id)
    assert home.acting_as(tenant="rival").ledgers() == ()
    with pytest.raises(errors.InvalidInput):
        home.acting_as(tenant="rival").create_session("s", ledgers=[ledger.id])


@pytest.mark.parametrize("kind", LASTING)
def test_facts_are_there_after_reopening_and_after_an_export(kind: str, desk: Desk) -> None:
    engine = desk.open(kind)
    ledger = shelf(engine, user="ada", identity=ALL_KNOWING)
    ledger.assert_all([{"key": f"k {number}", "value": number, "ref": "r"} for number in range(5)])
    ledger.assert_("k 1", "new", depends_on="k 0", requires=["hr"])
    ledger.assert_("k 0", "newer")
    ledger.erase(ledger.assert_("gone", SECRET), "asked to")
    known = (ledger.facts(), ledger.facts(status="dead"), ledger.review(), rows_of(engine), log_of(engine))
    path = desk.folder / "facts.jsonl"
    engine.export(path)
    copy = desk.open("memory", name="copy")
    copy.import_(path)
    for other in (desk.open(kind), copy):
        mine = shelf(other, user="ada", identity=ALL_KNOWING)
        assert (mine.facts(), mine.facts(status="dead"), mine.review(), rows_of(other), log_of(other)) == known
        assert other.verify().ok


@pytest.mark.parametrize("kind", LASTING)
def test_rows_of_an_older_engine_get_the_version_at_which_a_fact_ended(kind: str, desk: Desk) -> None:
    engine = desk.open(kind)
    ledger = shelf(engine, user="ada")
    for town in ("Oslo", "Rome", "Bern"):
        ledger.assert_("town", town)
    rows, store = rows_of(engine), store_of(engine)
    older = [
        msgspec.structs.replace(row, state=re.sub(r',"ended_seq":\d+', "", row.state))
        for row in rows
        if isinstance(row, FactRow)
    ]
    store.replace_rows(ledger.id.stream, 5, [*(row for row in rows if not isinstance(row, FactRow)), *older])
    assert [ledger.get(f"k{number}").ended_seq for number in (1, 2, 4)] == [0, 0, 0]
    store.set_projection_version(PROJECTION_VERSION - 1)
    again = desk.open(kind)
    assert rows_of(again) == rows
    assert [shelf(again, user="ada").get(f"k{number}").ended_seq for number in (1, 2, 4)] == [3, 5, 0]
