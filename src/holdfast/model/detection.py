"""What a detector is shown, and what it proposes. It decides nothing: policy does, within what the speaker may do."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Json, Role
from holdfast.model.facts import FactScope

Change: TypeAlias = Literal["supersede", "retract", "expire", "assert", "switch"]
"""A fact gets another value · is no longer true · has run out · something new is said · the talk turns elsewhere."""

Rule: TypeAlias = Literal["explicit", "implicit", "authority", "temporal", "hypothetical", "draft", "stated", "topic"]
"""Why: a cue says so · the same thing with another value · someone with authority is named · time has passed · it is only
supposed · it is only a draft · it is plainly said · the talk turned."""


class Span(msgspec.Struct, frozen=True, order=True):
    """Part of a message's text: characters `start` to `end`, the end not included. `seq` is the message's; 0 for the one
    that is being observed."""

    seq: int
    start: int
    end: int


class Said(msgspec.Struct, frozen=True):
    """A message as a detector reads it."""

    text: str
    role: Role = "user"
    seq: int = 0
    """0 for the one that is being observed."""
    time_us: int = 0


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A live fact that what is said may be about."""

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
    stated: tuple[Span, ...] = ()
    """Where messages state it, as far as that is known."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """All that a detector knows."""

    said: Said
    before: tuple[Said, ...] = ()
    """What was said before, oldest first: the last few messages."""
    facts: tuple[Candidate, ...] = ()
    """Live ones, those that fit the text best first."""
    now_us: int = 0


class Proposal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """A change that what was said seems to call for."""

    change: Change
    rule: Rule
    reason: str
    """What it was told by: the cue, the key. It quotes no value, so that erasing a fact leaves none behind."""
    confidence: float
    """From 0 to 1: the share of such proposals that are right."""
    fact: str | None = None
    """The fact that it is about, by the candidate's id; None for something new."""
    key: str = ""
    """What it is about: the fact's key, or one made of the words said."""
    value: Json = None
    """The new value; None if it was not said."""
    scope: FactScope = "global"
    scope_id: str = ""
    authority: str = ""
    """Whom the text names as the source. Evidence only: it grants nothing."""
    old: tuple[Span, ...] = ()
    """Where the old value is stated."""
    new: Span | None = None
    """Where the new one is."""


Outcome: TypeAlias = Literal["applied", "claimed", "asked", "ignored", "noted"]
"""It was done · it was done as a claim, since a higher authority holds the key · someone is asked · it was too unsure · it
changes no fact."""


class Settled(msgspec.Struct, frozen=True, omit_defaults=True):
    """A proposal that waits for nobody: what became of it at once."""

    ledger: tuple[str, ...]
    """The key of the stream of the ledger that it was about."""
    proposal: Proposal
    outcome: Outcome
    why: str = ""
