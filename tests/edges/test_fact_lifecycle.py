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
    DURABLE_KINDS,
    FEWER_KINDS,
    EngineDesk,
    ManualClock,
    contents,
    expect_refusal,
    log_of,
    read_raw_contents,
    rows_of,
    store_of,
)
from tests.edges.fact_engines import (
    GUEST,
    MANY,
    PEER,
    STORES,
    ScriptedDetector,
    open_ledger,
    open_session_ledger,
    proposal,
    propose_superseding,
    values_by_key,
)
from tests.edges.surface import call

SECRET = "zanzibarsecret7f3a9c"
ALL_KNOWING = Identity(user_id="a1", authority="policy", permissions=("facts:endorse", "hr"))


@pytest.fixture(scope="module", params=MANY)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    desk = EngineDesk(Path(tmp_path_factory.mktemp("facts")))
    yield desk.open(request.param)
    desk.close()


@pytest.fixture
def home(shared: Engine, request: pytest.FixtureRequest) -> Engine:
    """An engine of one test's own tenant."""
    return shared.acting_as(tenant=request.node.name)


# Erasure


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_an_erased_fact_leaves_no_trace(kind: str, desk: EngineDesk) -> None:
    """Not in an event, a row, an index or a file, however often it was touched: live, dead, derived, marked."""
    engine = desk.open(kind)
    ledger = open_ledger(engine, user="ada")
    before = ledger.set("plan", f"{SECRET} first", ref=f"{SECRET}-ref", key="once")
    live = ledger.set("plan", {SECRET: [f"{SECRET} second"]}, source=SECRET, provenance=[SECRET])
    derived = ledger.set(f"{SECRET} key", f"{SECRET} third", depends_on=live, requires=["hr"])
    kept = ledger.set("sum", "a number", depends_on=[derived])
    for number in range(30):
        ledger.set(f"other {number}", f"filler {number} " * 20)
    assert SECRET.encode() in read_raw_contents(engine, desk)
    ledger.erase([before, live, derived], "asked to")
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    assert ledger.search(SECRET) == ()
    assert ledger.history("plan") == ()
    assert ledger.get("plan") is None
    for gone in (before, live, derived):
        with pytest.raises(errors.FactNotFound):
            ledger.fact(gone.id)
    assert ledger.fact(kept.id).review != ""
    assert values_by_key(ledger.items())["other 7"].startswith("filler 7")
    assert engine.admin.verify().ok
    assert ledger.set("plan", "anew").supersedes == ()
    engine.admin.rebuild()
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    assert engine.admin.verify().ok


def test_erasing_a_link_of_a_chain_keeps_the_others(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    facts = [ledger.set("plan", number) for number in range(4)]
    ledger.erase(facts[1], "asked to")
    assert [fact.value for fact in ledger.history("plan")] == [0, 2, 3]
    current = ledger.get("plan")
    assert current is not None
    assert (current.value, ledger.set("plan", 4).supersedes) == (3, (facts[3].id,))
    ledger.erase([facts[3].id, facts[0].id, facts[3].id], "asked to")
    assert [fact.value for fact in ledger.history("plan")] == [2, 4]
    assert home.admin.verify().ok


def test_an_erasure_names_facts_that_are_there(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    fact = ledger.set("plan", 1)
    with expect_refusal(home, errors.FactNotFound, fact="k9"):
        ledger.erase([fact, "k9"], "asked to")
    before = contents(home)
    ledger.erase([], "nothing")
    assert contents(home) == before
    ledger.erase(fact, "asked to")
    with expect_refusal(home, errors.FactNotFound, fact=fact.id):
        ledger.erase(fact, "again")


def test_a_key_whose_fact_was_erased_is_not_used_again(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    ledger.erase(ledger.set("plan", SECRET, key="once"), "asked to")
    for value in ("other", SECRET):
        with expect_refusal(home, errors.KeyConflict):
            ledger.set("plan", value, key="once")
    assert ledger.items() == ()


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_a_destroyed_session_takes_its_own_ledger_along(kind: str, desk: EngineDesk) -> None:
    said = (proposal(key="plan", value=f"{SECRET} plan"), proposal(key="odd", value=f"{SECRET} odd", confidence=0.6))
    engine = desk.open(kind, detector=ScriptedDetector(lambda _: said), policy=Policy(learn_into="session"))
    shared = open_ledger(engine, user="ada")
    shared.set("kept", "for others")
    session = engine.create_session("s", identity=GUEST, ledgers=[shared.id])
    session.observe(f"{SECRET} was said")
    open_session_ledger(session).set("note", f"{SECRET} note")
    assert SECRET.encode() in read_raw_contents(engine, desk)
    session.destroy("asked to", offload=False)
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    assert values_by_key(shared.items()) == {"kept": "for others"}
    assert engine.admin.verify().ok


# Running out


def test_sweeping_expires_what_has_run_out(desk: EngineDesk) -> None:
    for kind in STORES:
        clock = ManualClock()
        engine = desk.open(kind, clock=clock)
        ledgers = [
            open_ledger(engine, user="ada"),
            open_ledger(engine, project="x"),
            open_ledger(engine.acting_as(tenant="t"), user="ada"),
        ]
        for ledger in ledgers:
            source = ledger.set("offer", "10%", ttl_s=60)
            ledger.set("price", 9, depends_on=source)
            ledger.set("draft", 1, scope="draft", scope_id="d", ttl_s=60)
            ledger.set("late", 1, ttl_s=61)
        clock.now_s += 60
        assert engine.admin.sweep().facts == 4
        assert engine.admin.sweep().facts == 0
        for ledger in ledgers[:2]:
            dead = ledger.items(status="dead", within=[("draft", "d")])
            assert [(fact.key, fact.status) for fact in dead] == [("offer", "expired"), ("draft", "expired")]
            assert [(fact.key, fact.review) for fact in ledger.review.list()] == [("price", dead[0].id)]
        assert ledgers[2].items(status="dead") == ()
        clock.now_s += 1
        assert engine.admin.sweep(limit=1).facts == 1
        assert engine.admin.sweep(limit=1).facts == 1
        assert engine.admin.verify().ok


def test_what_has_run_out_makes_room_whether_or_not_it_was_swept(desk: EngineDesk) -> None:
    clock = ManualClock()
    engine = desk.open("memory", clock=clock)
    company, ledger = open_ledger(engine, organization="acme"), open_ledger(engine, organization="acme", identity=GUEST)
    policy = company.set("limit", 1, authority="policy", ttl_s=60)
    assert ledger.set("limit", 2).is_claim
    clock.now_s += 60
    fact = ledger.set("limit", 3)
    assert not fact.is_claim
    assert company.get("limit") == company.fact(fact.id)
    assert company.fact(policy.id).status == "expired"
    with expect_refusal(engine, errors.FactNotLive, status="expired"):
        ledger.review.reinstate(policy)


# Again with the same key


def test_an_assertion_that_is_retried_is_the_same_answer(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    first = ledger.set("plan", "A", key="once")
    ledger.set("plan", "B")
    before = contents(home)
    again = ledger.set("plan", "A", key="once")
    assert (again.id, again.status) == (first.id, "superseded")
    assert contents(home) == before


def test_a_key_of_another_command_is_a_conflict(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    ledger.set("plan", "A", key="once")
    other = open_ledger(home, user="bob")
    session = home.create_session("s")
    attempts: list[Any] = [
        lambda: ledger.set("plan", "B", key="once"),
        lambda: ledger.set("plans", "A", key="once"),
        lambda: ledger.set("plan", "A", key="once", requires=["hr"]),
        lambda: other.set("plan", "A", key="once"),
        lambda: ledger.retract("plan", key="once"),
        lambda: ledger.set_all([{"key": "plan", "value": "A"}, {"key": "b", "value": 1}], key="once"),
        lambda: session.observe("hello", key="once"),
        lambda: session.record("user", "hello", key="once"),
        lambda: session.facts.decline("p1.0", key="once"),
    ]
    for attempt in attempts:
        with expect_refusal(home, errors.KeyConflict):
            attempt()


@pytest.mark.parametrize(
    "method", ["retract", *(f"review.{name}" for name in ("expire", "reinstate", "confirm", "endorse", "promote"))]
)
def test_a_change_that_is_retried_happens_once(method: str, home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    source = ledger.set("source", 0)
    fact = ledger.set("plan", "A", depends_on=source, scope="draft" if method == "review.promote" else "global")
    if method == "review.confirm":
        ledger.set("source", 1)
    if method == "review.reinstate":
        ledger.set("plan", "B")
    do = call(ledger, method)
    first = do(fact, key="once")
    before = contents(home)
    assert do(fact, key="once") == first
    assert contents(home) == before
    with expect_refusal(home, errors.KeyConflict):
        do(source, key="once")


@pytest.mark.parametrize("confidence", [0.9, 0.6], ids=["applied", "asked"])
def test_what_is_observed_again_with_its_key_is_heard_once(confidence: float, desk: EngineDesk) -> None:
    for kind in (*STORES, "memory awaited"):
        engine = desk.open(
            kind,
            name=f"{confidence}",
            detector=ScriptedDetector(propose_superseding("plan", value="B", confidence=confidence)),
        )
        ledger = open_ledger(engine, user="ada")
        ledger.set("plan", "A")
        session = engine.create_session("s", identity=PEER, ledgers=[ledger.id])
        first = session.observe("the plan is B", key="once")
        before = contents(engine)
        again = session.observe("the plan is B", key="once")
        assert contents(engine) == before
        assert again == first
        assert [each.outcome for each in first.proposals] == ["applied" if confidence > 0.8 else "asked"]
        for text, role in (("the plan is C", "user"), ("the plan is B", "assistant")):
            with expect_refusal(engine, errors.KeyConflict):
                session.observe(text, role=role, key="once")  # type: ignore[arg-type]


def test_what_was_observed_is_the_same_answer_after_the_session_was_closed(home: Engine) -> None:
    session = home.create_session("s")
    first = session.observe("hello", key="once")
    session.end("over")
    assert session.observe("hello", key="once").message == first.message
    with expect_refusal(home, errors.SessionClosedError):
        session.observe("hello", key="twice")


def test_a_recorded_message_that_is_observed_again_with_its_key_is_heard_once(desk: EngineDesk) -> None:
    engine = desk.open("memory", detector=ScriptedDetector(propose_superseding("plan", value="B", confidence=0.6)))
    ledger = open_ledger(engine, user="ada")
    ledger.set("plan", "A")
    session = engine.create_session("s", identity=PEER, ledgers=[ledger.id])
    message = session.record("user", "the plan is B")
    first = session.observe(message, key="once")
    again = session.observe(message, key="once")
    assert again == first
    assert [each.id for each in first.proposals] == [session.facts.proposals()[0].id]


# Proposals


def _asking(desk: EngineDesk, kind: str = "memory", **changes: Any) -> tuple[Engine, Any, Any]:
    """A session in which each message makes a proposal that waits."""
    engine = desk.open(
        kind, detector=ScriptedDetector(propose_superseding("plan", **{"value": "B", "confidence": 0.6, **changes}))
    )
    ledger = open_ledger(engine, user="ada")
    ledger.set("plan", "A")
    return engine, ledger, engine.create_session("s", identity=PEER, ledgers=[ledger.id])


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_a_proposal_is_decided_once(kind: str, desk: EngineDesk) -> None:
    engine, ledger, session = _asking(desk, kind)
    one, two = (session.observe(text).proposals[0] for text in ("it is B", "it is B, really"))
    assert [each.id for each in session.facts.proposals()] == [one.id, two.id]
    session.facts.decline(one.id, key="no")
    session.facts.decline(one.id, key="no")
    session.facts.accept(two.id, key="yes")
    before = contents(engine)
    session.facts.accept(two.id, key="yes")
    for decide, name in (
        (session.facts.accept, two.id),
        (session.facts.decline, one.id),
        (session.facts.accept, "p9.9"),
    ):
        with pytest.raises(errors.ProposalNotFound):
            decide(name)
    with pytest.raises(errors.KeyConflict):
        session.facts.accept(one.id, key="yes")
    assert contents(engine) == before
    assert values_by_key(ledger.items()) == {"plan": "B"}
    assert session.facts.proposals() == ()
    assert engine.admin.verify().ok


def test_a_proposal_that_came_too_late_is_refused_and_waits_on(desk: EngineDesk) -> None:
    engine, ledger, session = _asking(desk, change="retract", value=None)
    judged = session.observe("the plan is off").proposals[0]
    open_ledger(engine, user="ada").set("plan", "C", authority="policy")
    with expect_refusal(engine, errors.FactNotLive):
        session.facts.accept(judged.id)
    assert values_by_key(ledger.items()) == {"plan": "C"}
    assert [each.id for each in session.facts.proposals()] == [judged.id]
    session.facts.decline(judged.id)


def test_the_oldest_proposals_lapse_and_all_do_when_the_conversation_ends(desk: EngineDesk) -> None:
    engine, _, session = _asking(desk)
    ids = [session.observe(f"it is B, {number}").proposals[0].id for number in range(limits.OPEN_PROPOSALS + 3)]
    assert [each.id for each in session.facts.proposals()] == ids[3:]
    with expect_refusal(engine, errors.ProposalNotFound):
        session.facts.accept(ids[0])
    session.reset("over")
    assert session.facts.proposals() == ()
    session.observe("it is B")
    session.end("over")
    with expect_refusal(engine, errors.SessionClosedError):
        session.observe("it is B")
    assert session.facts.proposals() == ()


def test_what_is_said_and_what_it_changes_are_stored_together_or_not_at_all(desk: EngineDesk) -> None:
    engine, ledger, session = _asking(desk, confidence=0.9)
    session.end("over")
    with expect_refusal(engine, errors.SessionClosedError):
        session.observe("the plan is B")
    assert values_by_key(ledger.items()) == {"plan": "A"}


# Versions, batches, tenants


def test_an_expected_version_is_the_ledgers_own(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    ledger.set("plan", 1, expect=0)
    with expect_refusal(home, errors.VersionConflict, expected=0, actual=1):
        ledger.set("plan", 2, expect=0)
    ledger.set("plan", 2, expect=1)
    with expect_refusal(home, errors.VersionConflict, expected=2, actual=3):
        ledger.set_all([{"key": "plan", "value": 3}], expect=2)
    assert len(ledger.set_all([{"key": "plan", "value": 3}], expect=3)) == 1


def test_a_batch_is_stored_whole_or_not_at_all(home: Engine) -> None:
    ledger = open_ledger(home, user="ada", identity=GUEST)
    open_ledger(home, user="ada").set("limit", 1, authority="policy")
    for bad, kind in (
        ({"key": "b", "value": 1, "depends_on": "nothing"}, errors.FactNotFound),
        ({"key": "b", "value": 1, "authority": "policy"}, errors.AuthorityExceeded),
        ({"key": "b", "value": float("nan")}, errors.InvalidJson),
        ({"key": "b", "value": 1, "requires": ["hr"]}, errors.PermissionMissing),
        ({"key": "b", "value": 1, "colour": "red"}, errors.InvalidArgument),
        ({"key": "b"}, errors.InvalidArgument),
    ):
        with expect_refusal(home, kind):
            ledger.set_all([{"key": "a", "value": 1}, bad])
    one, two, three = ledger.set_all(
        [
            {"key": "a", "value": 1, "ref": "first"},
            {"key": "b", "value": 2, "depends_on": "first"},
            {"key": "a", "value": 3},
        ]
    )
    assert (two.depends_on, three.supersedes) == ((one.id,), (one.id,))
    assert ledger.fact(two.id).review == one.id
    assert home.admin.verify().ok


def test_a_ledger_of_another_tenant_is_another_ledger(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    fact = ledger.set("plan", SECRET)
    other = open_ledger(home.acting_as(tenant="rival"), user="ada")
    assert (other.items(), other.search(SECRET), other.get("plan"), other.history("plan")) == ((), (), None, ())
    with pytest.raises(errors.FactNotFound):
        other.fact(fact.id)
    assert home.acting_as(tenant="rival").ledgers() == ()
    with pytest.raises(errors.InvalidInput):
        home.acting_as(tenant="rival").create_session("s", ledgers=[ledger.id])


@pytest.mark.parametrize("kind", DURABLE_KINDS)
def test_facts_are_there_after_reopening_and_after_an_export(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    ledger = open_ledger(engine, user="ada", identity=ALL_KNOWING)
    ledger.set_all([{"key": f"k {number}", "value": number, "ref": "r"} for number in range(5)])
    ledger.set("k 1", "new", depends_on="k 0", requires=["hr"])
    ledger.set("k 0", "newer")
    ledger.erase(ledger.set("gone", SECRET), "asked to")
    known = (ledger.items(), ledger.items(status="dead"), ledger.review.list(), rows_of(engine), log_of(engine))
    path = desk.folder / "facts.jsonl"
    engine.admin.export(path)
    copy = desk.open("memory", name="copy")
    copy.admin.import_(path)
    for other in (desk.open(kind), copy):
        mine = open_ledger(other, user="ada", identity=ALL_KNOWING)
        assert (mine.items(), mine.items(status="dead"), mine.review.list(), rows_of(other), log_of(other)) == known
        assert other.admin.verify().ok


@pytest.mark.parametrize("kind", DURABLE_KINDS)
def test_rows_of_an_older_engine_get_the_version_at_which_a_fact_ended(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    ledger = open_ledger(engine, user="ada")
    for town in ("Oslo", "Rome", "Bern"):
        ledger.set("town", town)
    rows, store = rows_of(engine), store_of(engine)
    older = [
        msgspec.structs.replace(row, state=re.sub(r',"ended_seq":\d+', "", row.state))
        for row in rows
        if isinstance(row, FactRow)
    ]
    store.replace_rows(ledger.id.stream, 5, [*(row for row in rows if not isinstance(row, FactRow)), *older])
    assert [ledger.fact(f"k{number}").ended_seq for number in (1, 2, 4)] == [0, 0, 0]
    store.set_projection_version(PROJECTION_VERSION - 1)
    again = desk.open(kind)
    assert rows_of(again) == rows
    assert [open_ledger(again, user="ada").fact(f"k{number}").ended_seq for number in (1, 2, 4)] == [3, 5, 0]
