"""Events of ledgers, and of proposals in sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from holdfast.model.content import Json
from holdfast.model.event import (
    EventBase,
    Identifier,
    OwnContent,
    Quotation,
    QuotedEvents,
    add_text,
    count_noun,
    format_json,
    quote_each,
)
from holdfast.model.facts.detection import Proposal, SettledProposal
from holdfast.model.facts.fact import (
    FactScope,
    FactSource,
    MemoryType,
    Mention,
    SupersessionRule,
    describe_withdrawal,
    fact_id,
)
from holdfast.model.sessions.forks import ForkSegment


class FactAsserted(EventBase, frozen=True, kw_only=True):
    """A fact was asserted. Its id is made of the seq of this event.

    `against` is set for a claim: the fact of higher authority that it contradicts. `review` is set for a fact with a
    doubtful source: the ended fact behind the doubt."""

    name = "fact.asserted"
    key: OwnContent[str]
    value: OwnContent[Json]
    ref: OwnContent[str] = ""
    source: OwnContent[FactSource]
    memory_type: MemoryType = "user"
    scope: FactScope = "global"
    scope_id: Identifier[str] = ""
    valid_from_us: int
    expires_us: int | None = None
    against: Identifier[str] = ""
    depends_on: Identifier[tuple[str, ...]] = ()
    review: Identifier[str] = ""
    is_constraint: bool = False
    constraint_type: OwnContent[str | None] = None
    requires: Identifier[tuple[str, ...]] = ()
    provenance: Identifier[tuple[str, ...]] = ()
    mentions: Identifier[tuple[Mention, ...]] = ()
    reason: OwnContent[str] = ""

    def describe(self, seq: int) -> str:
        return f"{fact_id(seq)}{_name_opponent(self.against)}, {self.key}: {format_json(self.value)}"


class FactSuperseded(EventBase, frozen=True, kw_only=True):
    """A fact was superseded by another one.

    `late`: the fact was out of date when it was asserted. `followers`: facts that depend on the successor from now on,
    because its value is the same. `mentions`: more places where messages state the superseded fact."""

    name = "fact.superseded"
    fact: Identifier[str]
    by: Identifier[str]
    rule: SupersessionRule
    reason: OwnContent[str] = ""
    late: bool = False
    followers: Identifier[tuple[str, ...]] = ()
    mentions: Identifier[tuple[Mention, ...]] = ()

    def describe(self, seq: int) -> str:
        return add_text(f"{self.fact}, by {self.by}, {self.rule}", self.reason)


class FactRetracted(EventBase, frozen=True, kw_only=True):
    """The first of these facts was retracted, and with it the others, which were derived from it."""

    name = "fact.retracted"
    facts: Identifier[tuple[str, ...]]
    reason: OwnContent[str] = ""
    mentions: Identifier[tuple[Mention, ...]] = ()

    def describe(self, seq: int) -> str:
        return add_text(", ".join(self.facts), self.reason)


class FactExpired(EventBase, frozen=True, kw_only=True):
    """The time of these facts is over."""

    name = "fact.expired"
    facts: Identifier[tuple[str, ...]]
    reason: OwnContent[str] = ""

    def describe(self, seq: int) -> str:
        return add_text(", ".join(self.facts), self.reason)


class FactPromoted(EventBase, frozen=True, kw_only=True):
    """A fact was moved to a wider scope, for example from a draft to global."""

    name = "fact.promoted"
    fact: Identifier[str]
    scope: FactScope
    scope_id: Identifier[str] = ""
    against: Identifier[str] = ""
    requires: Identifier[tuple[str, ...]] = ()
    """If it is a claim now: the permissions to read it from now on. Empty if they do not change."""
    reason: OwnContent[str] = ""

    def describe(self, seq: int) -> str:
        scope = f"{self.scope} {self.scope_id}".rstrip()
        return add_text(f"{self.fact}{_name_opponent(self.against)}, now {scope}", self.reason)


class FactEndorsed(EventBase, frozen=True, kw_only=True):
    """The authority of a fact was raised by someone with the permission to do so."""

    name = "fact.endorsed"
    fact: Identifier[str]
    authority: Identifier[str]
    by: Identifier[str]
    against: Identifier[str] = ""
    requires: Identifier[tuple[str, ...]] = ()
    """If it is a claim now: the permissions to read it from now on. Empty if they do not change."""
    reason: OwnContent[str] = ""

    def describe(self, seq: int) -> str:
        return add_text(f"{self.fact}{_name_opponent(self.against)}, {self.authority}, by {self.by}", self.reason)


class FactConfirmed(EventBase, frozen=True, kw_only=True):
    """A fact was reviewed and is still valid. `depends_on` are its new sources; empty if they do not change."""

    name = "fact.confirmed"
    fact: Identifier[str]
    by: Identifier[str]
    reason: OwnContent[str] = ""
    depends_on: Identifier[tuple[str, ...]] = ()

    def describe(self, seq: int) -> str:
        return add_text(f"{self.fact}, by {self.by}", self.reason)


class FactDisputed(EventBase, frozen=True, kw_only=True):
    """Someone with too little authority tried to retract a fact: it stays valid and is shown as disputed."""

    name = "fact.disputed"
    fact: Identifier[str]
    by: Identifier[str]
    authority: Identifier[str]
    reason: OwnContent[str] = ""

    def describe(self, seq: int) -> str:
        return add_text(f"{self.fact}, by {self.by}, {self.authority}", self.reason)


class FactReinstated(EventBase, frozen=True, kw_only=True):
    """A superseded fact is current again, and its successors were retracted."""

    name = "fact.reinstated"
    fact: Identifier[str]
    instead: Identifier[tuple[str, ...]] = ()
    reason: OwnContent[str] = ""

    def describe(self, seq: int) -> str:
        instead = f", instead of {', '.join(self.instead)}" if self.instead else ""
        return add_text(f"{self.fact}{instead}", self.reason)


class FactMarked(EventBase, frozen=True, kw_only=True):
    """These facts need a review, because they depend on an ended fact, directly or not."""

    name = "fact.marked"
    facts: Identifier[tuple[str, ...]]
    because: Identifier[str]

    def describe(self, seq: int) -> str:
        return f"{', '.join(self.facts)}, since {self.because} has ended"


class FactsWithdrawn(EventBase, frozen=True, kw_only=True):
    """The messages that state these facts were withdrawn from their session: the facts need a review. With `retracted`,
    they are retracted instead, and so are the facts that were derived from them."""

    name = "fact.withdrawn"
    facts: Identifier[tuple[str, ...]]
    withdrawal: Identifier[str]
    """The label of the withdrawal: its seq and the key of the session."""
    retracted: bool = False

    def describe(self, seq: int) -> str:
        what = "retracted" if self.retracted else "under review"
        return f"{', '.join(self.facts)}, {what}, {describe_withdrawal(self.withdrawal)}"


class FactsRestored(EventBase, frozen=True, kw_only=True):
    """A withdrawal was undone: these facts are as they were before it."""

    name = "fact.restored"
    facts: Identifier[tuple[str, ...]]
    withdrawal: Identifier[str]

    def describe(self, seq: int) -> str:
        return f"{', '.join(self.facts)}, {describe_withdrawal(self.withdrawal)}, and that was undone"


class LedgerForked(EventBase, frozen=True, kw_only=True):
    """The ledger of a fork begins: it shares the events of the ledger of another session up to `cut`."""

    name = "ledger.forked"
    parent: Identifier[tuple[str, ...]]
    """The key of the stream that has the last shared event."""
    cut: int
    lineage: Identifier[tuple[ForkSegment, ...]] = ()
    """Where the shared events are, the oldest first; empty if the fork has a copy of them."""

    def describe(self, seq: int) -> str:
        return f"from {' '.join(self.parent)}, after event {self.cut:,}"


class LedgerBranched(EventBase, frozen=True, kw_only=True):
    """The ledger of a fork shares the events of this one up to `cut`."""

    name = "ledger.branched"
    fork: Identifier[tuple[str, ...]]
    """The key of the stream of that ledger."""
    cut: int

    def describe(self, seq: int) -> str:
        return f"{' '.join(self.fork)}, after event {self.cut:,}"


MERGE = "merge"
"""The name under which the facts of a branch are proposed."""


class FactsProposed(EventBase, frozen=True, kw_only=True):
    """A detector found changes of facts in a message.

    `proposals` wait for a decision, for the reasons `why`; their ids are made of the seq of this event and their order.
    `settled` are the other proposals, with their outcomes."""

    name = "facts.proposed"
    version = 2
    detector: Identifier[str]
    message: int
    """The seq of the message; of a merge, the event that began the session."""
    proposals: Quotation[tuple[tuple[tuple[str, ...], Proposal], ...]]
    """Each with the stream key of its ledger."""
    why: Quotation[tuple[str, ...]] = ()
    settled: Quotation[tuple[SettledProposal, ...]] = ()

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        """The message, and the messages that state the new values: a user may agree to an earlier offer. Old values are
        only positions, so they quote nothing."""
        spans = (each.new for each in (*(one for _, one in self.proposals), *(one.proposal for one in self.settled)))
        return quote_each({self.message, *(span.seq for span in spans if span is not None and span.seq)})

    def describe(self, seq: int) -> str:
        number = count_noun(len(self.proposals), "proposal")
        where = "" if self.detector == MERGE else f", in message {self.message:,}"
        return f"{number}, by {self.detector}{where}"


class ProposalDecided(EventBase, frozen=True, kw_only=True):
    """A proposal was accepted or declined."""

    name = "proposal.decided"
    proposal: Identifier[str]
    accepted: bool

    def describe(self, seq: int) -> str:
        return f"{self.proposal} {'accepted' if self.accepted else 'declined'}"


def _name_opponent(fact: str) -> str:
    return f", a claim against {fact}" if fact else ""


LedgerEvent: TypeAlias = (
    FactAsserted
    | FactSuperseded
    | FactRetracted
    | FactExpired
    | FactPromoted
    | FactEndorsed
    | FactConfirmed
    | FactDisputed
    | FactReinstated
    | FactMarked
    | FactsWithdrawn
    | FactsRestored
    | LedgerForked
    | LedgerBranched
)
"""All events of ledgers except erasures."""
ProposalEvent: TypeAlias = FactsProposed | ProposalDecided
