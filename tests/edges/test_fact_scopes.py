"""Facts of a task, a session, a project, a draft or a supposition are seen where they are asked for, and nowhere else;
promoting one lets it hold further out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Engine, Fact, errors
from holdfast.model.facts.fact import FACT_SCOPES
from tests.edges.engines import EngineDesk, expect_refusal, log_of
from tests.edges.fact_engines import (
    CFO,
    GUEST,
    MANY,
    PEER,
    ScriptedDetector,
    open_ledger,
    open_session_ledger,
    proposal,
    values_by_key,
)
from tests.support import figure

NARROW: tuple[Any, ...] = FACT_SCOPES[1:]


@pytest.fixture(scope="module", params=MANY)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    desk = EngineDesk(Path(tmp_path_factory.mktemp("facts")))
    yield desk.open(request.param)
    desk.close()


@pytest.fixture
def home(shared: Engine, request: pytest.FixtureRequest) -> Engine:
    """An engine of one test's own tenant."""
    return shared.acting_as(tenant=request.node.name)


def _ids(facts: Any) -> list[str]:
    return [getattr(each, "fact", each).id for each in facts]


@pytest.mark.parametrize("scope", NARROW)
def test_a_scope_is_entered_where_it_is_asked_for_by_its_id(scope: Any, home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    wide = ledger.set("budget", "must stay below 100")
    fact = ledger.set("budget", "must stay below 900", scope=scope, scope_id="one")
    assert (fact.scope, fact.scope_id, fact.supersedes) == (scope, "one", ())
    assert ledger.get("budget") == wide
    assert ledger.get("budget", scope=scope, scope_id="one") == fact
    for other in ((scope, "two"), (scope, ""), *((each, "one") for each in NARROW if each != scope)):
        assert ledger.get("budget", scope=other[0], scope_id=other[1]) is None
        for read in (ledger.items, ledger.constraints):
            assert read(within=[other]) == (wide,)
        assert _ids(ledger.search("budget", within=[other])) == [wide.id]
    for read in (ledger.items, ledger.constraints):
        assert read() == (wide,)
        assert read(within=[(scope, "one")]) == (wide, fact)
    assert {*_ids(ledger.search("budget", within=[(scope, "one")]))} == {wide.id, fact.id}
    assert ledger.items(within="any") == (wide, fact)


def test_a_session_looks_into_its_own_scope_by_itself(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    for name in ("one", "two"):
        ledger.set("mood", f"mood of {name}", scope="session", scope_id=name)
    ledger.set("mood", "what if it were good", scope="hypothetical", scope_id="one")
    hearing = {name: home.create_session(name, identity=PEER, ledgers=[ledger.id]) for name in ("one", "two")}
    for name, session in hearing.items():
        assert [known.fact.value for known in session.facts.search("mood")] == [f"mood of {name}"]
        assert session.facts.get("mood") is None
        fact = session.facts.get("mood", scope="session", scope_id=name)
        assert fact is not None
        assert fact.value == f"mood of {name}"


def test_a_detector_is_shown_what_holds_everywhere_and_in_its_session() -> None:
    hearing = ScriptedDetector()
    engine = holdfast.open("memory:", detector=hearing)
    ledger = open_ledger(engine, user="ada")
    for number, scope in enumerate(FACT_SCOPES):
        for name in ("s", "t") if scope != "global" else ("",):
            ledger.set("mood", number, scope=scope, scope_id=name)
    for number in range(40):  # newer, and none of its business
        ledger.set(f"draft {number}", number, scope="draft", scope_id="s")
    engine.create_session("s", identity=PEER, ledgers=[ledger.id]).observe("about my mood")
    assert {(each.scope, each.scope_id) for each in hearing.shown[0].facts} == {("global", ""), ("session", "s")}


def test_what_is_supposed_in_a_session_is_kept_apart() -> None:
    said = (
        proposal(key="budget", value="900", scope="hypothetical", rule="hypothetical"),
        proposal(key="title", value="rough", scope="draft", rule="draft"),
    )
    engine = holdfast.open("memory:", detector=ScriptedDetector(lambda _: said))
    session = engine.create_session("s", identity=GUEST)
    session.observe("what if the budget were 900?")
    assert session.facts.get("budget") is None
    assert open_session_ledger(session).items() == ()
    assert values_by_key(open_session_ledger(session).items(within=[("hypothetical", "s"), ("draft", "s")])) == {
        "budget": "900",
        "title": "rough",
    }
    assert open_session_ledger(session).items(within=[("hypothetical", "t"), ("draft", "")]) == ()


@pytest.mark.parametrize(
    "text", ["What if it were 5?", "Suppose it is 5", "hypothetically 5", "Draft: 5", "tentative: 5"]
)
def test_what_a_text_says_of_itself_first_narrows_it(text: str) -> None:
    ledger = open_ledger(holdfast.open("memory:"), user="ada")
    fact = ledger.set("budget", text)
    assert fact.scope in ("hypothetical", "draft")
    assert ledger.items() == ()
    assert ledger.set("budget", text, scope="global").scope == "global"
    assert ledger.set("note", f"the plan; {text}").scope == "global"


# Promotion


def test_a_promoted_draft_holds_and_is_the_same_fact(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    old = ledger.set("title", "old")
    total = ledger.set("cover", "cover of old", depends_on=old)
    draft = ledger.set("title", "new", scope="draft", scope_id="d")
    promoted = ledger.review.promote(draft)
    assert (promoted.id, promoted.scope, promoted.scope_id, promoted.supersedes) == (draft.id, "global", "", (old.id,))
    assert values_by_key(ledger.items()) == {"title": "new", "cover": "cover of old"}
    assert ledger.fact(total.id).review == old.id
    assert ledger.items(within=[("draft", "d")]) == ledger.items()
    assert ledger.review.promote(draft) == promoted
    names = [event.type for event in log_of(home) if event.stream.tenant == ledger.id.tenant]
    assert names[3:] == ["fact.promoted", "fact.superseded", "fact.marked"]


def test_what_is_promoted_against_a_higher_authority_is_a_claim(home: Engine) -> None:
    company = open_ledger(home, organization="acme")
    held = company.set("limit", 1, authority="CFO")
    ledger = open_ledger(home, organization="acme", identity=PEER)
    draft = ledger.set("limit", 9, scope="draft", scope_id="d")
    assert ledger.review.promote(draft).against == held.id
    assert company.get("limit") == company.fact(held.id)
    higher = open_ledger(home, organization="acme", identity=CFO)
    other = higher.set("limit", 5, scope="draft", scope_id="e")
    assert not higher.review.promote(other).is_claim
    holds = company.get("limit")
    assert holds is not None
    assert holds.value == 5


@pytest.mark.parametrize(("first", "second"), [("peer", "CFO"), ("CFO", "peer"), ("peer", "peer")])
def test_promoting_what_holds_already_keeps_the_higher_authority(first: str, second: str, home: Engine) -> None:
    ledger = open_ledger(home, organization="acme")
    ledger.set("limit", 1, authority=first)
    ledger.review.promote(ledger.set("limit", 1, authority=second, scope="draft", scope_id="d"))
    [fact] = ledger.items(within=[("draft", "d")])
    assert (fact.value, fact.authority) == (1, "executive" if "CFO" in (first, second) else "peer")


def test_nothing_is_promoted_inwards_or_after_its_end(home: Engine) -> None:
    ledger = open_ledger(home, user="ada")
    fact = ledger.set("title", "x")
    with expect_refusal(home, errors.InvalidArgument):
        ledger.review.promote(fact, scope="draft", scope_id="d")
    dead = ledger.set("title", "y", scope="draft", scope_id="d")
    ledger.retract(dead)
    with expect_refusal(home, errors.FactNotLive, status="retracted"):
        ledger.review.promote(dead)


# Whatever is asserted where


_PLACE = st.sampled_from([("global", ""), *((scope, name) for scope in NARROW for name in ("", "x", "y"))])


@settings(max_examples=figure(20, 10_000))
@given(
    st.lists(st.tuples(st.sampled_from(["plan", "note"]), st.integers(0, 2), _PLACE), max_size=12),
    st.lists(_PLACE, max_size=4),
)
def test_each_slot_has_its_own_story(said: list[tuple[str, int, Any]], within: list[Any]) -> None:
    ledger = open_ledger(holdfast.open("memory:"), user="ada")
    held: dict[tuple[str, Any], int] = {}
    for key, value, (scope, scope_id) in said:
        ledger.set(key, value, scope=scope, scope_id=scope_id)
        held[key, (scope, scope_id)] = value

    def told(fact: Fact) -> tuple[str, Any, Any]:
        return fact.key, (fact.scope, fact.scope_id), fact.value

    wanted = {(key, place, value) for (key, place), value in held.items() if place in {("global", ""), *within}}
    assert {told(fact) for fact in ledger.items(within=within)} == wanted
    assert {told(known.fact) for known in ledger.search("plan note", within=within)} == wanted
    for (key, place), value in held.items():
        current = ledger.get(key, scope=place[0], scope_id=place[1])
        assert current is not None
        assert told(current) == (key, place, value)
