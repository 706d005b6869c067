"""What a model used that the engine asked on its own: for a summary, a detection, an extraction or a situation.

Law: the answer of a port carries what it cost. Whoever asked records it in the session, or in the frame, that caused it.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

import msgspec

from holdfast.model.content import Usage
from holdfast.model.facts.detection import Proposal

T = TypeVar("T")


class ModelUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One use of a model beside the conversation."""

    purpose: str
    """What it was asked for: summary, detection, extraction, situation, or a name of your own."""
    model: str = ""
    usage: Usage = Usage()
    prompt: str = ""
    """The name, version and digest of the prompt: "detect@1:0a1b2c3d"."""


class MeteredAnswer(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The answer of a summarizer, detector or extractor that is also told what it cost. Each of these may return its
    plain answer instead."""

    value: T
    uses: tuple[ModelUse, ...] = ()
    error: str = ""
    """Why the model failed; empty if it did not. `value` is then what serves instead."""


SummaryAnswer: TypeAlias = str | MeteredAnswer[str]
"""The text of a summary, alone or with what it cost."""
ProposalAnswer: TypeAlias = tuple[Proposal, ...] | MeteredAnswer[tuple[Proposal, ...]]
"""Proposals, alone or with what they cost."""
