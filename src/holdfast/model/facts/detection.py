"""The input and the output of a detector.

Law: a detector only proposes. Policy decides, within the authority of the speaker.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Json, Role
from holdfast.model.facts.fact import FactScope

FactChange: TypeAlias = Literal["supersede", "retract", "expire", "assert", "switch"]
"""Another value · no longer true · time is over · a new fact · a change of topic."""
DetectionRule: TypeAlias = Literal[
    "explicit", "implicit", "authority", "temporal", "hypothetical", "draft", "stated", "topic"
]
"""Why it was proposed: a cue in the text · the same key with another value · a person with authority is named · time has
passed · a hypothesis · a draft · a plain statement · a change of topic."""


class MessageSpan(msgspec.Struct, frozen=True, order=True):
    """Part of the text of a message: characters `start` to `end`, the end not included."""

    seq: int
    """The seq of the message; 0 for the observed one."""
    start: int
    end: int


class Utterance(msgspec.Struct, frozen=True):
    """A message as a detector reads it."""

    text: str
    role: Role = "user"
    seq: int = 0
    """0 for the observed message."""
    time_us: int = 0


class FactCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A live fact that the message may be about."""

    fact: str
    """Its id, unique among the candidates."""
    key: str
    value: Json
    text: str
    """The value as text."""
    authority: str = "peer"
    scope: FactScope = "global"
    scope_id: str = ""
    since_us: int = 0
    expires_us: int | None = None
    spans: tuple[MessageSpan, ...] = ()
    """Where messages state it, if known."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a detector."""

    message: Utterance
    previous: tuple[Utterance, ...] = ()
    """The last few messages before it, oldest first."""
    facts: tuple[FactCandidate, ...] = ()
    """Live facts, the best matches first."""
    now_us: int = 0


class Proposal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """A change of a fact that a message seems to state."""

    change: FactChange
    rule: DetectionRule
    reason: str
    """The cue and the key. It quotes no value, so that none is left after the fact is erased."""
    confidence: float
    """From 0 to 1: the share of such proposals that are right."""
    fact: str | None = None
    """The id of the candidate; None for a new fact."""
    key: str = ""
    """The key of the fact, or a new one from the words of the message."""
    value: Json = None
    """The new value; None if the message states none."""
    scope: FactScope = "global"
    scope_id: str = ""
    authority: str = ""
    """The source that the text names. It is evidence only and gives no authority."""
    old: tuple[MessageSpan, ...] = ()
    """Where messages state the old value."""
    new: MessageSpan | None = None
    """Where a message states the new value. The proposal is erased together with that message."""
    origin: str = ""
    """For a fact that is merged from another session: that session and the fact; otherwise empty."""


ProposalOutcome: TypeAlias = Literal["applied", "claimed", "asked", "ignored", "noted"]
"""Applied · applied as a claim, because a higher authority set the fact · waits for a decision · ignored, too uncertain or
refused · noted, because it changes no fact."""


class SettledProposal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A proposal that needs no decision, and its outcome."""

    ledger: tuple[str, ...]
    """The stream key of its ledger."""
    proposal: Proposal
    outcome: ProposalOutcome
    why: str = ""
