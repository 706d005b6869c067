"""Deciding about facts: pure, sound whatever led to it; folding takes every event, whatever is missing; who outranks whom,
what a fact is by its source and text, and which facts fit a query."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.core.facts import invariants
from holdfast.core.facts.authority import lowest_rung, may_know, outranks, rank, rung
from holdfast.core.facts.decide import decide
from holdfast.core.facts.fold import apply_event, needed_facts, step
from holdfast.model import limits
from holdfast.model.events import Event
from holdfast.model.facts.commands import (
    AssertFact,
    ConfirmFact,
    EndorseFact,
    ExpireFact,
    LedgerCommand,
    PromoteFact,
    ReinstateFact,
    RetractFact,
    SupersedeFact,
)
from holdfast.model.facts.events import (
    FactAsserted,
    FactConfirmed,
    FactDisputed,
    FactEndorsed,
    FactExpired,
    FactMarked,
    FactPromoted,
    FactReinstated,
    FactRetracted,
    FactSuperseded,
)
from holdfast.model.facts.fact import FACT_SCOPES, Fact, FactSource, FactState, Mention
from holdfast.model.inputs import DecisionInput, FactWriter, LedgerInput, LedgerSlice
from holdfast.model.names import LedgerId
from holdfast.model.policy import AuthorityLadder, Policy
from holdfast.model.state import LedgerState
from holdfast.text import inference
from holdfast.text.relevance import query_words, rank_facts
from holdfast.text.stems import split_words
from tests.support import figure

LEDGER = LedgerId("tenant", "user", ("ada",))
LADDER = AuthorityLadder()
KEYS = ("town", "price")

# Who outranks whom


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("policy", "policy"),
        ("CFO", "executive"),
        ("  Admin ", "executive"),
        ("employee", "peer"),
        ("subordinate", "guest"),
        ("intern", "guest"),
        ("Vendor Manager", "manager"),
        ("VP Sales", "executive"),
        ("account_executive", "peer"),
        ("assistant", "agent"),
        ("whoever", "unverified"),
        ("", "unverified"),
    ],
)
def test_a_name_stands_on_a_rung(name: str, expected: str) -> None:
    assert rung(LADDER, name) == expected
    assert rung(LADDER, name.upper()) == expected


_names = st.sampled_from([*LADDER.rungs, *LADDER.aliases, "nobody knows"]) | st.text(max_size=20)


@given(st.lists(_names, min_size=1, max_size=4), _names, _names)
def test_of_two_names_one_outranks_the_other_or_they_are_equal(some: list[str], one: str, other: str) -> None:
    assert rung(LADDER, one) in LADDER.rungs
    assert outranks(LADDER, one, other) == (rank(LADDER, one) > rank(LADDER, other))
    assert not (outranks(LADDER, one, other) and outranks(LADDER, other, one))
    assert (rank(LADDER, one) == rank(LADDER, other)) == (rung(LADDER, one) == rung(LADDER, other))
    assert not any(outranks(LADDER, lowest_rung(LADDER, some), each) for each in some)
    assert lowest_rung(LADDER, some) in {rung(LADDER, each) for each in some}


def test_a_ladder_is_what_the_policy_says() -> None:
    own = AuthorityLadder(rungs=("captain", "crew"), aliases={"skipper": "captain", "ghost": "nowhere"}, titles={})
    assert [rung(own, name) for name in ("skipper", "crew", "cfo", "ghost")] == ["captain", "crew", "crew", "crew"]


_permissions = st.lists(st.sampled_from("pqr"), max_size=3)


@given(_permissions, st.none() | _permissions)
def test_who_lacks_one_permission_may_not_know(requires: list[str], has: list[str] | None) -> None:
    assert may_know(requires, has) == (has is None or all(each in has for each in requires))


# What a fact is


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FactSource(), "user"),
        (FactSource(name="decision"), "user"),
        (FactSource(name="preference"), "user"),
        (FactSource(name="hr_system"), "organizational"),
        (FactSource(name="finance system"), "organizational"),
        (FactSource(name="policy"), "organizational"),
        (FactSource(name="the Handbook"), "organizational"),
        (FactSource(name="systematic doubts"), "user"),
        (FactSource(type="policy"), "organizational"),
        (FactSource(type="system", name="observation"), "organizational"),
        (FactSource(name="observation"), "capability"),
        (FactSource(name="learned heuristics"), "capability"),
        (FactSource(type="conversation", name="CFO"), "user"),
    ],
)
def test_a_source_says_which_memory_it_is(source: FactSource, expected: str) -> None:
    assert inference.infer_memory_type(source) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Oslo", "global"),
        ("What if we move to Oslo?", "hypothetical"),
        ("Suppose the budget is 5", "hypothetical"),
        ("  (Hypothetically, 5)", "hypothetical"),
        ("let's say five", "hypothetical"),
        ("We suppose nothing", "global"),
        ("Draft: five", "draft"),
        ("Tentative: Tuesday", "draft"),
        ("[DRAFT] Discount is 22%", "draft"),
        ("(draft) 22%", "draft"),
        ("[Draft - not approved] 22%", "draft"),
        ("[tentative] Tuesday", "draft"),
        ("[hypothetical] 22%", "hypothetical"),
        ("Draft contract was signed", "global"),
        ("[Drafting team] Ada, Bo", "global"),
        ("Contract with Acme (draft)", "global"),
        ("draft", "global"),
        ("[draft", "global"),
        ("supposedly five", "global"),
        (5, "global"),
        (["Suppose"], "global"),
    ],
)
def test_only_what_a_text_says_of_itself_first_narrows_it(value: Any, expected: str) -> None:
    assert inference.infer_scope(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[INVALIDATED - based on wrong data] 800 points", True),
        ("[invalid] 800 points", True),
        ("(superseded) Plan A", True),
        ("[OBSOLETE: see plan B] Plan A", True),
        ("[No longer valid] 22%", True),
        ("  [Outdated] 22%", True),
        ("invalid", False),
        ("Plan A (superseded)", False),
        ("[Validated] 22%", False),
        ("[CANCELLED] flight LH 123", False),
        ("[Invalid parking] fined 20 euros", False),
        ("The old contract is void", False),
        ("[invalid", False),
        (["[INVALIDATED] 800 points"], False),
        (None, False),
    ],
)
def test_a_text_may_say_of_itself_that_it_is_invalid(value: Any, expected: bool) -> None:
    assert inference.is_labelled_invalid(value) is expected


@pytest.mark.parametrize(
    ("key", "value", "type_", "expected"),
    [
        ("discount", "at most 15%", "state_write", "budget"),
        ("discount", "15%", "state_write", None),
        ("discount", "15%", "policy", "budget"),
        ("room", "no more than 12 people", "conversation", "capacity"),
        ("report", "must be filed, due by Friday", "conversation", "deadline"),
        ("report_deadline", "Friday", "conversation", "deadline"),
        ("travel", "never on Sundays", "conversation", "policy"),
        ("town", "Oslo", "policy", "policy"),
        ("town", "Oslo", "system", None),
        ("maximal", "mustard", "conversation", None),
        ("limits", {"max": 5}, "state_write", "policy"),
    ],
)
def test_what_binds_is_a_constraint_of_its_kind(key: str, value: Any, type_: Any, expected: str | None) -> None:
    assert inference.infer_constraint(key, value, FactSource(type=type_)) == expected


@pytest.mark.parametrize(
    ("key", "expected"), [("stock_price", True), ("Order Status", True), ("priceless", False), ("town", False)]
)
def test_some_words_in_a_key_make_the_newest_news_count(key: str, expected: bool) -> None:
    assert inference.is_time_sensitive(Policy(), key) is expected
    assert inference.is_time_sensitive(Policy(time_sensitive=()), key) is False


def test_whoever_knows_better_says_so() -> None:
    ledger = Shelf()
    told = ledger.give(AssertFact(ledger=LEDGER, key="discount", value="Suppose at most 5%", scope="task"))
    assert (told.scope, told.constraint_type, told.memory_type) == ("task", "budget", "user")
    told = ledger.give(
        AssertFact(ledger=LEDGER, key="cap", value="at most 5%", is_constraint=False, memory_type="capability")
    )
    assert (told.is_constraint, told.constraint_type, told.memory_type) == (False, None, "capability")
    told = ledger.give(AssertFact(ledger=LEDGER, key="rule", value="5", is_constraint=True, constraint_type="seats"))
    assert (told.is_constraint, told.constraint_type) == (True, "seats")


# A ledger held in the hand


class Shelf:
    """All facts of a ledger, and every command decided with all of them at hand."""

    def __init__(self) -> None:
        self.state = LedgerState()
        self.facts: dict[str, FactState] = {}
        self.events: list[Event] = []

    def build_input(self, now: int = 0, writer: FactWriter = FactWriter()) -> DecisionInput:
        live = [each.fact for each in self.facts.values() if each.fact.is_valid]
        below = {
            source: tuple(each.id for each in live if source in each.depends_on)
            for source in {source for each in live for source in each.depends_on}
        }
        named = {name: each.fact.id for each in self.facts.values() for name in (each.fact.key, each.fact.id)}
        return DecisionInput(
            time_us=now,
            ledger=LedgerInput(writer=writer, slice=LedgerSlice(facts=dict(self.facts), named=named, below=below)),
        )

    def decided(self, command: LedgerCommand, now: int = 0, writer: FactWriter = FactWriter()) -> tuple[Event, ...]:
        inputs = self.build_input(now, writer)
        before = copy.deepcopy(inputs)
        events = decide(self.state, command, inputs)
        assert inputs == before, "to decide changes nothing"
        assert decide(self.state, command, inputs) == events
        return events

    def take(self, events: Iterable[Event], now: int = 0) -> None:
        for event in events:
            self.facts |= apply_event(self.facts, event, self.state.version + 1, now)
            self.state = step(self.state, event.name, now)
            self.events.append(event)

    def give(self, command: LedgerCommand, now: int = 0, writer: FactWriter = FactWriter()) -> Fact:
        """The newest fact after it."""
        self.take(self.decided(command, now, writer), now)
        return next(reversed(self.facts.values())).fact


_ids = st.integers(1, 12).map(lambda seq: f"k{seq}")
_rungs = st.sampled_from([None, "policy", "manager", "peer", "guest"])
_values = st.sampled_from([1, 1.0, True, None, "Oslo", [1], {"a": 1}])
_asserts = st.builds(
    AssertFact,
    ledger=st.just(LEDGER),
    key=st.sampled_from(KEYS),
    value=_values,
    source=st.none(),
    authority=_rungs,
    memory_type=st.none(),
    scope=st.sampled_from(["global", "global", "draft"]),
    scope_id=st.just(""),
    valid_from_us=st.none() | st.integers(0, 20),
    expires_us=st.none() | st.integers(0, 40),
    ttl_us=st.none(),
    supersedes=st.lists(_ids, max_size=1).map(tuple),
    depends_on=st.lists(_ids, max_size=2).map(tuple),
    is_constraint=st.none(),
    constraint_type=st.none(),
    requires=st.sampled_from([(), (), ("p",)]),
    provenance=st.just(()),
    mentions=st.just(()),
    old_mentions=st.just(()),
    time_sensitive=st.none(),
    ref=st.just(""),
    reason=st.just(""),
)
_on = {"ledger": st.just(LEDGER), "fact": _ids, "reason": st.just("")}
_changes = st.one_of(
    st.builds(SupersedeFact, by=_ids, **_on),
    st.builds(RetractFact, mentions=st.just(()), **_on),
    st.builds(ExpireFact, **_on),
    st.builds(PromoteFact, scope=st.just("global"), scope_id=st.just(""), **_on),
    st.builds(EndorseFact, authority=_rungs, **_on),
    st.builds(ConfirmFact, **_on),
    st.builds(ReinstateFact, **_on),
)
_writers = st.sampled_from(
    [
        FactWriter(),
        FactWriter(),
        FactWriter(identity="ann", authority="peer", default="peer", permissions=()),
        FactWriter(identity="eve"),
    ]
)
_stories = st.lists(
    st.tuples(_asserts | _asserts | _changes, st.integers(0, 30), _writers), min_size=1, max_size=figure(14, 30)
)


@settings(max_examples=figure(75, 20_000))
@given(_stories)
def test_whatever_is_decided_leads_to_a_sound_ledger(story: list[tuple[LedgerCommand, int, FactWriter]]) -> None:
    shelf = Shelf()
    for command, now, writer in story:
        before = dict(shelf.facts)
        try:
            shelf.give(command, now, writer)
        except errors.HoldfastError:
            assert shelf.facts == before
            continue
        assert invariants.find_violations(shelf.state, shelf.facts) == []
        check_ends(shelf)
        for each, state in before.items():
            if state.fact.is_valid and not state.fact.has_expired(now) and not shelf.facts[each].fact.is_valid:
                assert not outranks(LADDER, state.fact.authority, writer.authority), "a lower one ended a higher one's"
    for command, now, writer in story[-1:]:
        if isinstance(command, AssertFact) and not command.supersedes and command.valid_from_us is None:
            check_repeated(shelf, command, now, writer)


def check_ends(shelf: Shelf) -> None:
    """What is dead ended with the last event that ended it."""
    for each, state in shelf.facts.items():
        ends = [seq for seq, event in enumerate(shelf.events, 1) if each in ended_by(event)]
        assert state.fact.ended_seq == (0 if state.fact.is_valid else ends[-1])


def ended_by(event: Event) -> tuple[str, ...]:
    match event:
        case FactSuperseded(fact=fact):
            return (fact,)
        case FactRetracted(facts=facts) | FactExpired(facts=facts) | FactReinstated(instead=facts):
            return facts
    return ()


def test_a_fact_that_ended_has_the_version_of_its_ledger_at_which_it_did() -> None:
    """Whatever the clock says: the order is that of the events."""
    shelf = Shelf()
    for number, value in enumerate(("Oslo", "Rome", "Bern")):
        shelf.give(AssertFact(ledger=LEDGER, key="town", value=value), now=100 - number)
    shelf.give(AssertFact(ledger=LEDGER, key="plan", value="a walk", depends_on=("k4",)), now=50)
    assert [state.fact.ended_seq for state in shelf.facts.values()] == [3, 5, 0, 0]
    shelf.give(RetractFact(ledger=LEDGER, fact="k6"), now=40)
    assert shelf.facts["k6"].fact.ended_seq == 7
    shelf.give(ReinstateFact(ledger=LEDGER, fact="k1"), now=30)
    assert [state.fact.ended_seq for state in shelf.facts.values()] == [0, 5, 8, 7]
    shelf.give(ExpireFact(ledger=LEDGER, fact="k1"), now=20)
    assert shelf.facts["k1"].fact.ended_seq == shelf.state.version == 9


@pytest.mark.parametrize("wrong", [{"ended_seq": 0}, {"ended_seq": 4}, {"ended_seq": 1}, {"status": "live"}])
def test_an_end_at_a_version_that_cannot_be_is_found_out(wrong: dict[str, Any]) -> None:
    shelf = Shelf()
    for value in ("Oslo", "Rome"):
        shelf.give(AssertFact(ledger=LEDGER, key="town", value=value))
    first = shelf.facts["k1"]
    assert (first.fact.ended_seq, invariants.find_violations(shelf.state, shelf.facts)) == (3, [])
    shelf.facts["k1"] = msgspec.structs.replace(first, fact=msgspec.structs.replace(first.fact, **wrong))
    broken = invariants.find_violations(shelf.state, shelf.facts)
    assert "an ended fact, and only that, has the version at which it ended" in broken


def check_repeated(shelf: Shelf, command: AssertFact, now: int, writer: FactWriter) -> None:
    """Said twice in a row, the second time nothing happens, unless what was said has run out, or cannot be said at all."""
    try:
        shelf.give(command, now, writer)
    except errors.HoldfastError:
        return
    if command.expires_us is None or command.expires_us > now:
        assert shelf.decided(command, now, writer) == ()


def test_what_was_so_before_is_a_new_fact() -> None:
    shelf = Shelf()
    first, _, third = (shelf.give(AssertFact(ledger=LEDGER, key="town", value=value)) for value in ("A", "B", "A"))
    assert (third.value, third.id != first.id) == ("A", True)
    assert [each.fact.superseded_by for each in shelf.facts.values()] == ["k2", third.id, None]
    assert shelf.facts[third.id].fact.supersedes == ("k2",)


# Folding


_texts = st.sampled_from(["", "heard it"])
_some_ids = st.lists(_ids, min_size=1, max_size=3, unique=True).map(tuple)
_mentions = st.lists(
    st.builds(
        Mention,
        actor=st.just("a"),
        session=st.just("s"),
        seq=st.integers(1, 3),
        start=st.integers(0, 3),
        end=st.just(9),
    ),
    max_size=2,
).map(tuple)
_some_permissions = st.sampled_from([(), ("p",)])
_asserted = st.builds(
    FactAsserted,
    key=st.sampled_from(KEYS),
    value=_values,
    source=st.just(FactSource()),
    memory_type=st.just("user"),
    scope=st.sampled_from(FACT_SCOPES),
    scope_id=_texts,
    valid_from_us=st.integers(0, 9),
    expires_us=st.none() | st.integers(0, 9),
    against=st.just("") | _ids,
    depends_on=st.lists(_ids, max_size=2, unique=True).map(tuple),
    review=st.just("") | _ids,
    is_constraint=st.booleans(),
    constraint_type=st.none(),
    requires=_some_permissions,
    provenance=st.just(()),
    mentions=_mentions,
    ref=_texts,
    reason=_texts,
)
_fact_events: st.SearchStrategy[Event] = st.one_of(
    _asserted,
    st.builds(
        FactSuperseded,
        fact=_ids,
        by=_ids,
        rule=st.just("implicit"),
        reason=_texts,
        late=st.booleans(),
        followers=st.just(()) | _some_ids,
        mentions=_mentions,
    ),
    st.builds(FactRetracted, facts=_some_ids, reason=_texts, mentions=_mentions),
    st.builds(FactExpired, facts=_some_ids, reason=_texts),
    st.builds(FactMarked, facts=_some_ids, because=_ids),
    st.builds(FactDisputed, fact=_ids, by=_texts, authority=st.just("guest"), reason=_texts),
    st.builds(FactReinstated, fact=_ids, instead=st.just(()) | _some_ids, reason=_texts),
    st.builds(FactConfirmed, fact=_ids, by=_texts, reason=_texts, depends_on=st.just(()) | _some_ids),
    st.builds(
        FactEndorsed,
        fact=_ids,
        authority=st.just("policy"),
        by=_texts,
        against=st.just("") | _ids,
        requires=_some_permissions,
        reason=_texts,
    ),
    st.builds(
        FactPromoted,
        fact=_ids,
        scope=st.just("global"),
        scope_id=_texts,
        against=st.just("") | _ids,
        requires=_some_permissions,
        reason=_texts,
    ),
)


@settings(max_examples=figure(50, 20_000))
@given(st.lists(_asserted, max_size=8), _fact_events, st.sets(_ids))
def test_folding_takes_every_event_whatever_is_missing(made: list[Event], event: Event, gone: set[str]) -> None:
    facts: dict[str, FactState] = {}
    for seq, each in enumerate(made, 1):
        facts |= apply_event(facts, each, seq, 5)
    before, seq = copy.deepcopy(facts), len(made) + 1
    whole = apply_event(facts, event, seq, 7)
    assert facts == before, "folding changes nothing in place"
    assert {*whole} <= {*needed_facts(event), f"k{seq}"}
    needed = {each: state for each, state in facts.items() if each in needed_facts(event)}
    assert apply_event(needed, event, seq, 7) == whole, "nothing else is needed than what it touches"
    left = {each: state for each, state in facts.items() if each not in gone}
    some = apply_event(left, event, seq, 7)
    assert {*some} <= {*left, f"k{seq}"}
    for fact in {*some} & {*whole}:
        one, other = some[fact].fact, whole[fact].fact
        assert (one.status, one.review, one.depends_on, one.scope) == (
            other.status,
            other.review,
            other.depends_on,
            other.scope,
        )


@given(st.integers(1, 99))
def test_an_event_that_was_erased_makes_no_fact(seq: int) -> None:
    assert apply_event({}, None, seq, 5) == {}
    assert step(LedgerState(), FactAsserted.name, 5) == LedgerState(version=1, facts=1, created_us=5, updated_us=5)


# Which facts fit


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What is the price of Oslo?", ("price", "oslo")),
        ("what is it", ("what", "is", "it")),
        ("Price price PRICE", ("price",)),
        ("", ()),
        ("?!", ()),
        ("snake_case-word", ("snake", "case", "word")),
    ],
)
def test_a_query_is_looked_for_by_its_rare_words(query: str, expected: tuple[str, ...]) -> None:
    assert query_words(query) == expected


@given(st.text(max_size=400))
def test_words_are_short_plain_and_found_again(text: str) -> None:
    found = query_words(text)
    assert len(found) <= limits.SEARCH_WORDS
    assert {*found} <= {*split_words(text)}
    assert all(word == word.lower() and word.isalnum() for word in found if word.isascii())


_hits = st.lists(
    st.tuples(
        st.sampled_from(["town", "price of the town", "plan"]),
        st.sampled_from(["Oslo", "Rome 2024", "at home"]),
        st.integers(0, 3),
    ),
    max_size=8,
)


@given(st.sampled_from(["the town", "Oslo", "Rome 2024 price", "", "nothing of it"]), _hits, st.randoms())
def test_the_same_facts_stand_in_the_same_order(query: str, hits: list[Any], rng: Any) -> None:
    facts = [Fact(id=f"k{at}", key=key, value=value, at_us=time) for at, (key, value, time) in enumerate(hits, 1)]
    ranked = rank_facts(query, facts)
    assert sorted(at for at, _ in ranked) == [*range(len(facts))]
    assert all(0 <= score <= 3 for _, score in ranked)
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)
    shuffled = rng.sample(facts, len(facts))
    again = rank_facts(query, shuffled)
    assert [(shuffled[at].id, score) for at, score in again] == [(facts[at].id, score) for at, score in ranked]


def test_keys_and_names_count_for_more() -> None:
    facts = [
        Fact(id="k1", key="town", value="somewhere"),
        Fact(id="k2", key="plan", value="to see Oslo"),
        Fact(id="k3", key="plan", value="the town"),
        Fact(id="k4", key="plan", value="the town", against="k3"),
    ]
    assert next(at for at, _ in rank_facts("towns", facts)) == 0
    assert next(at for at, _ in rank_facts("of Oslo", facts)) == 1
    ranked = [at for at, _ in rank_facts("the plan", facts)]
    assert ranked.index(2) < ranked.index(3), "of equals, claims come last"
    assert ranked[-1] == 0
