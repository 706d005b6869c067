"""What came of observing something: what was proposed, and what became of that."""

from __future__ import annotations

import msgspec

from holdfast.model.detection import Outcome, Proposal
from holdfast.model.messages import Message
from holdfast.model.names import LedgerId


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a proposal."""

    proposal: Proposal
    outcome: Outcome
    ledger: LedgerId
    """The one that it is about."""
    id: str = ""
    """For one that waits for someone's word: what to decide on it by."""
    why: str = ""
    """Why it was not simply applied."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What a detector made of what was said."""

    message: Message
    judged: tuple[Judged, ...] = ()
    trouble: str = ""
    """How the detector failed, if it did. What was said is kept all the same."""
