"""The result of an observation: the proposals and their outcomes."""

from __future__ import annotations

import msgspec

from holdfast.model.facts.detection import Proposal, ProposalOutcome
from holdfast.model.names import LedgerId
from holdfast.model.sessions.messages import Message


class ObservedProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal and its outcome."""

    proposal: Proposal
    outcome: ProposalOutcome
    ledger: LedgerId
    """The ledger of the fact."""
    id: str = ""
    """For accept() and decline(), if it waits for a decision."""
    why: str = ""
    """Why it was not applied, or only as a claim."""


class ObservationResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a detector found in a message."""

    message: Message
    proposals: tuple[ObservedProposal, ...] = ()
    error: str = ""
    """The error of the detector, if it failed. The message is stored anyway."""
