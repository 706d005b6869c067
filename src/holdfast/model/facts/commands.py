"""Commands about facts."""

from __future__ import annotations

from typing import TypeAlias

from holdfast.model.command import LedgerCommandBase, SessionCommandBase
from holdfast.model.content import Json
from holdfast.model.facts.detection import Proposal, SettledProposal
from holdfast.model.facts.fact import FactScope, FactSource, MemoryType, Mention
from holdfast.model.names import LedgerId


class ProposeFacts(SessionCommandBase, frozen=True, kw_only=True, tag="propose_facts"):
    """Store the proposals of a detector."""

    detector: str
    message: int
    """The seq of the message; 0 for the one that is recorded in the same batch."""
    proposals: tuple[tuple[tuple[str, ...], Proposal], ...]
    why: tuple[str, ...] = ()
    settled: tuple[SettledProposal, ...] = ()


class DecideProposal(SessionCommandBase, frozen=True, kw_only=True, tag="decide_proposal"):
    """Accept or decline a proposal."""

    proposal: str
    accepted: bool


class AssertFact(LedgerCommandBase, frozen=True, kw_only=True, tag="assert_fact"):
    """Assert a fact. None means: infer it from the source and the value."""

    key: str
    value: Json
    ref: str = ""
    source: FactSource | None = None
    authority: str | None = None
    memory_type: MemoryType | None = None
    scope: FactScope | None = None
    scope_id: str = ""
    valid_from_us: int | None = None
    expires_us: int | None = None
    ttl_us: int | None = None
    """How long the fact is valid from now on; an alternative to `expires_us`."""
    supersedes: tuple[str, ...] = ()
    """Facts by their ids, refs or keys."""
    depends_on: tuple[str, ...] = ()
    is_constraint: bool | None = None
    constraint_type: str | None = None
    requires: tuple[str, ...] = ()
    provenance: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()
    old_mentions: tuple[Mention, ...] = ()
    """Where messages state the superseded facts."""
    time_sensitive: bool | None = None
    reason: str = ""


class _FactCommandBase(LedgerCommandBase, frozen=True, kw_only=True):
    fact: str
    """Its id, ref or key."""
    reason: str = ""


class SupersedeFact(_FactCommandBase, frozen=True, kw_only=True, tag="supersede_fact"):
    """Supersede a fact by another one."""

    by: str


class RetractFact(_FactCommandBase, frozen=True, kw_only=True, tag="retract_fact"):
    """Retract a fact and the facts derived from it."""

    mentions: tuple[Mention, ...] = ()


class ExpireFact(_FactCommandBase, frozen=True, kw_only=True, tag="expire_fact"):
    """End a fact because its time is over."""


class PromoteFact(_FactCommandBase, frozen=True, kw_only=True, tag="promote_fact"):
    """Move a fact to a wider scope."""

    scope: FactScope = "global"
    scope_id: str = ""


class EndorseFact(_FactCommandBase, frozen=True, kw_only=True, tag="endorse_fact"):
    """Raise the authority of a fact."""

    authority: str | None = None
    """None for that of the endorser."""


class ConfirmFact(_FactCommandBase, frozen=True, kw_only=True, tag="confirm_fact"):
    """Confirm a fact that needs a review or is disputed."""


class ReinstateFact(_FactCommandBase, frozen=True, kw_only=True, tag="reinstate_fact"):
    """Make a superseded fact current again."""


class WithdrawFacts(LedgerCommandBase, frozen=True, kw_only=True, tag="withdraw_facts"):
    """Doubt facts whose messages were withdrawn, or retract them."""

    facts: tuple[str, ...]
    withdrawal: str
    retract: bool = False


class RestoreFacts(LedgerCommandBase, frozen=True, kw_only=True, tag="restore_facts"):
    """Undo what a withdrawal did to these facts."""

    facts: tuple[str, ...]
    withdrawal: str


class ExpireFacts(LedgerCommandBase, frozen=True, kw_only=True, tag="expire_facts"):
    """End up to `limit` facts whose time is over."""

    limit: int


class EraseFacts(LedgerCommandBase, frozen=True, kw_only=True, tag="erase_facts"):
    """Erase facts for good."""

    facts: tuple[str, ...] = ()
    seqs: tuple[int, ...] = ()
    """Events to erase, whatever they are: for a ledger that is erased with its session."""
    reason: str
    shared: bool = False
    """The facts are erased in the ledger that stores them, too."""


class ForkLedger(LedgerCommandBase, frozen=True, kw_only=True, tag="fork_ledger"):
    """Begin the ledger of a fork with the events of the ledger of its parent, up to `cut`."""

    parent: LedgerId
    cut: int


class BranchLedger(LedgerCommandBase, frozen=True, kw_only=True, tag="branch_ledger"):
    """Note that a ledger is forked from this one, so that both are changed together."""

    fork: LedgerId
    cut: int


FactCommand: TypeAlias = (
    SupersedeFact | RetractFact | ExpireFact | PromoteFact | EndorseFact | ConfirmFact | ReinstateFact
)
LedgerCommand: TypeAlias = (
    AssertFact | FactCommand | WithdrawFacts | RestoreFacts | ExpireFacts | EraseFacts | ForkLedger | BranchLedger
)
