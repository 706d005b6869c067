"""What hypothesis needs to know of facts, and of what is proposed about them."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from holdfast.model import limits
from holdfast.model.events import Event
from holdfast.model.facts.commands import (
    AssertFact,
    BranchLedger,
    ConfirmFact,
    EndorseFact,
    EraseFacts,
    ExpireFact,
    ExpireFacts,
    ForkLedger,
    LedgerCommand,
    PromoteFact,
    ReinstateFact,
    RestoreFacts,
    RetractFact,
    SupersedeFact,
    WithdrawFacts,
)
from holdfast.model.facts.detection import (
    DetectionRule,
    FactChange,
    MessageSpan,
    Proposal,
    ProposalOutcome,
    SettledProposal,
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
    FactsProposed,
    FactsRestored,
    FactSuperseded,
    FactsWithdrawn,
    LedgerBranched,
    LedgerForked,
    ProposalDecided,
)
from holdfast.model.facts.fact import FACT_SCOPES, MEMORY_TYPES, SOURCE_TYPES, FactSource, Mention, SupersessionRule
from holdfast.model.names import LedgerId
from holdfast.model.sessions.forks import ForkSegment
from tests.core.json_strategies import json_values, names, texts

times = st.none() | st.integers(0, limits.WHOLE_NUMBER)
numbers = st.integers(0, 60)
fact_ids = st.integers(1, 60).map(lambda seq: f"k{seq}")
some_facts = st.lists(fact_ids, max_size=3, unique=True).map(tuple)
some_names = st.lists(names, max_size=3, unique=True).map(sorted).map(tuple)
scopes = st.sampled_from(FACT_SCOPES)
memory_types = st.sampled_from(MEMORY_TYPES)
rules = st.sampled_from(get_args(SupersessionRule))
ledgers = st.builds(
    LedgerId, names, st.sampled_from(["user", "project", "organization"]), st.tuples(names)
) | st.builds(LedgerId, names, st.just("session"), st.tuples(names, names))
keys = st.tuples(names, names) | st.tuples(names, names, names)
lineages = st.lists(st.builds(ForkSegment, keys, numbers), max_size=3).map(tuple)
mentions = st.lists(
    st.builds(Mention, actor=names, session=names, seq=numbers, start=numbers, end=numbers, thread=st.just("") | names),
    max_size=2,
    unique=True,
).map(tuple)
sources = st.builds(
    FactSource,
    type=st.sampled_from(SOURCE_TYPES),
    name=texts,
    identity=texts,
    authority=names,
    turn=st.none() | numbers,
    event=st.none() | numbers,
)
spans = st.builds(MessageSpan, seq=numbers, start=numbers, end=numbers)
proposals = st.builds(
    Proposal,
    change=st.sampled_from(get_args(FactChange)),
    rule=st.sampled_from(get_args(DetectionRule)),
    reason=texts,
    confidence=st.floats(0, 1),
    fact=st.none() | fact_ids,
    key=texts,
    value=json_values,
    scope=scopes,
    scope_id=texts,
    authority=texts,
    old=st.lists(spans, max_size=2).map(tuple),
    new=st.none() | spans,
)
proposed = st.lists(st.tuples(st.tuples(st.just("user"), names), proposals), max_size=2).map(tuple)
settled = st.lists(
    st.builds(
        SettledProposal,
        ledger=st.tuples(st.just("user"), names),
        proposal=proposals,
        outcome=st.sampled_from(get_args(ProposalOutcome)),
        why=texts,
    ),
    max_size=2,
).map(tuple)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        FactAsserted,
        key=names,
        value=json_values,
        ref=texts,
        source=sources,
        memory_type=memory_types,
        scope=scopes,
        scope_id=texts,
        valid_from_us=numbers,
        expires_us=times,
        against=st.just("") | fact_ids,
        depends_on=some_facts,
        review=st.just("") | fact_ids,
        is_constraint=st.booleans(),
        constraint_type=st.none() | names,
        requires=some_names,
        provenance=some_names,
        mentions=mentions,
        reason=texts,
    ),
    st.builds(
        FactSuperseded,
        fact=fact_ids,
        by=fact_ids,
        rule=rules,
        reason=texts,
        late=st.booleans(),
        followers=some_facts,
        mentions=mentions,
    ),
    st.builds(FactRetracted, facts=some_facts, reason=texts, mentions=mentions),
    st.builds(FactExpired, facts=some_facts, reason=texts),
    st.builds(FactMarked, facts=some_facts, because=fact_ids),
    st.builds(FactsWithdrawn, facts=some_facts, withdrawal=names, retracted=st.booleans()),
    st.builds(FactsRestored, facts=some_facts, withdrawal=names),
    st.builds(LedgerForked, parent=keys, cut=numbers, lineage=lineages),
    st.builds(LedgerBranched, fork=keys, cut=numbers),
    st.builds(FactDisputed, fact=fact_ids, by=names, authority=names, reason=texts),
    st.builds(
        FactPromoted,
        fact=fact_ids,
        scope=scopes,
        scope_id=texts,
        against=st.just("") | fact_ids,
        requires=some_names,
        reason=texts,
    ),
    st.builds(
        FactEndorsed,
        fact=fact_ids,
        authority=names,
        by=names,
        against=st.just("") | fact_ids,
        requires=some_names,
        reason=texts,
    ),
    st.builds(FactConfirmed, fact=fact_ids, by=names, reason=texts, depends_on=some_facts),
    st.builds(FactReinstated, fact=fact_ids, instead=some_facts, reason=texts),
    st.builds(FactsProposed, detector=names, message=numbers, proposals=proposed, why=some_names, settled=settled),
    st.builds(ProposalDecided, proposal=names, accepted=st.booleans()),
)


def commands() -> st.SearchStrategy[LedgerCommand]:
    own: dict[str, Any] = {"ledger": ledgers, "fact": names, "reason": texts}
    return st.one_of(
        st.builds(
            AssertFact,
            ledger=ledgers,
            key=names,
            value=json_values,
            ref=texts,
            source=st.none() | sources,
            authority=st.none() | names,
            memory_type=st.none() | memory_types,
            scope=st.none() | scopes,
            scope_id=texts,
            valid_from_us=times,
            expires_us=times,
            ttl_us=times,
            supersedes=some_names,
            depends_on=some_names,
            is_constraint=st.none() | st.booleans(),
            constraint_type=st.none() | names,
            requires=some_names,
            provenance=some_names,
            mentions=mentions,
            old_mentions=mentions,
            time_sensitive=st.none() | st.booleans(),
            reason=texts,
        ),
        st.builds(SupersedeFact, **own, by=names),
        st.builds(RetractFact, **own, mentions=mentions),
        st.builds(ExpireFact, **own),
        st.builds(PromoteFact, **own, scope=scopes, scope_id=texts),
        st.builds(EndorseFact, **own, authority=st.none() | names),
        st.builds(ConfirmFact, **own),
        st.builds(ReinstateFact, **own),
        st.builds(ExpireFacts, ledger=ledgers, limit=numbers),
        st.builds(WithdrawFacts, ledger=ledgers, facts=some_facts, withdrawal=names, retract=st.booleans()),
        st.builds(RestoreFacts, ledger=ledgers, facts=some_facts, withdrawal=names),
        st.builds(ForkLedger, ledger=ledgers, parent=ledgers, cut=numbers),
        st.builds(BranchLedger, ledger=ledgers, fork=ledgers, cut=numbers),
        st.builds(EraseFacts, ledger=ledgers, facts=some_names, seqs=st.just(()), reason=texts),
    )
