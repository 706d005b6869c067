"""Facts: what is known, who said so, for how long it holds, and what became of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Json
from holdfast.model.names import LedgerId, number_in

FactScope: TypeAlias = Literal["global", "project", "task", "session", "hypothetical", "draft"]
"""The widest first."""
FACT_SCOPES: tuple[FactScope, ...] = ("global", "project", "task", "session", "hypothetical", "draft")

SourceType: TypeAlias = Literal["conversation", "state_write", "system", "policy"]
SOURCE_TYPES: tuple[SourceType, ...] = ("conversation", "state_write", "system", "policy")

MemoryType: TypeAlias = Literal["user", "capability", "organizational"]
MEMORY_TYPES: tuple[MemoryType, ...] = ("user", "capability", "organizational")

FactStatus: TypeAlias = Literal["live", "superseded", "retracted", "expired"]

SupersessionRule: TypeAlias = Literal["explicit", "implicit", "authority", "temporal"]
"""Something names what it replaces · the same key has another value · a higher source speaks · older news came late."""


def fact_id(seq: int) -> str:
    """A fact is named after the event that asserted it."""
    return f"k{seq}"


def fact_seq(fact: str | None) -> int:
    """The number in a fact's id; 0 for any other text."""
    return number_in("k", fact)


class Mention(msgspec.Struct, frozen=True, omit_defaults=True, order=True):
    """Where a message states a fact: characters `start` to `end` of its text."""

    actor: str
    session: str
    seq: int
    """The message's; 0 for the one that is recorded together with the fact."""
    start: int
    end: int
    thread: str = ""


class FactSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Where a fact comes from."""

    type: SourceType = "state_write"
    name: str = ""
    """What it is called: a system, a document, a role, "observation"."""
    identity: str = ""
    """Who said it, as the channel knows."""
    authority: str = "peer"
    """The rung of the ladder that it stands on."""
    turn: int | None = None
    """The seq of the message, for what was said in a conversation."""
    event: int | None = None
    """The number of the event elsewhere, for what another system wrote."""


class Dispute(msgspec.Struct, frozen=True, omit_defaults=True):
    """Someone with too little authority to end a fact took it back."""

    by: str
    """Who, as the channel knows."""
    authority: str
    at_us: int = 0


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """One thing that is, or was, held to be true. Dead ones stay, so that every chain can be walked."""

    id: str
    key: str
    value: Json
    ledger: LedgerId | None = None
    """Where it lives: filled in when it is read. An id means something only together with it."""
    ref: str = ""
    """Its name in the world outside, which may use a name twice."""
    source: FactSource = FactSource()
    memory_type: MemoryType = "user"
    scope: FactScope = "global"
    scope_id: str = ""
    at_us: int = 0
    """When it was recorded."""
    valid_from_us: int = 0
    expires_us: int | None = None
    status: FactStatus = "live"
    """`live` also when it has run out and nobody swept it: ask `current_at`."""
    against: str = ""
    """For a claim: the fact of a higher authority that it disagrees with. Empty for what is no claim."""
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    depends_on: tuple[str, ...] = ()
    derived_facts: tuple[str, ...] = ()
    """Those that live and depend on it: filled in when it is read."""
    review: str = ""
    """The dead fact because of which this one needs a review; empty if it needs none."""
    disputes: tuple[Dispute, ...] = ()
    """Who took it back without the authority to end it, until someone who has it confirms it."""
    is_constraint: bool = False
    constraint_type: str | None = None
    requires: tuple[str, ...] = ()
    """The permissions that it takes to know of it."""
    provenance: tuple[str, ...] = ()
    """The messages, calls or facts that it came from, by their ids."""
    mentions: tuple[Mention, ...] = ()
    reason: str = ""
    """Why it was asserted."""
    ended_us: int | None = None
    ended_seq: int = 0
    """The version of its ledger at which it ended; 0 while it lives."""
    rule: SupersessionRule | None = None
    """Which rule superseded it."""
    why: str = ""
    """Why it ended."""

    @property
    def claim(self) -> bool:
        return bool(self.against)

    @property
    def is_valid(self) -> bool:
        """Nothing has ended it. Whether it has run out is for the clock to say."""
        return self.status == "live"

    @property
    def needs_review(self) -> bool:
        return bool(self.review)

    @property
    def is_disputed(self) -> bool:
        return bool(self.disputes)

    @property
    def authority(self) -> str:
        return self.source.authority

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.at_us / 1e6, UTC)

    def current_at(self, time_us: int) -> bool:
        """Whether it lives, is no claim, and has not run out by then."""
        return self.is_valid and not self.claim and not self.ran_out(time_us)

    def ran_out(self, time_us: int) -> bool:
        return self.expires_us is not None and self.expires_us <= time_us


class FactState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact as its row keeps it."""

    fact: Fact
    sources: bool = False
    """Others depend on it."""
    guarded: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Facts that it is linked to and that it takes more permissions to know of than it does for itself: which ones."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that fits what was asked for, and how well."""

    fact: Fact
    ledger: LedgerId
    score: float


class Link(msgspec.Struct, frozen=True):
    """A step in a fact's story."""

    time_us: int
    fact: str
    what: str


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """All there is to say about why a key has the value that it has."""

    key: str
    current: Fact | None
    chain: tuple[Fact, ...]
    """What came before the current fact, or before the last one that there was, the newest first."""
    claims: tuple[Fact, ...]
    depends_on: tuple[Fact, ...]
    derived: tuple[Fact, ...]
    story: tuple[Link, ...]
    """What happened to it, oldest first."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What an index of facts is asked. Nothing outside of these bounds may be ranked, counted or returned."""

    tenant: str
    ledgers: tuple[str, ...]
    """Keys of their streams, as `encode_stream_key` writes them."""
    words: tuple[str, ...]
    """Stems of words, and their kin, as rows have them: lower-case letters and digits; any of them may match, and only what
    is equal does. None at all: nothing matches."""
    permissions: tuple[str, ...] | None = None
    """The reader's; None for one who may know everything."""
    scopes: tuple[tuple[FactScope, str], ...] = (("global", ""),)
    """The scopes, with their ids, that may be looked into."""
    now_us: int = 0
    """Facts that have run out by then are left out."""
    live: bool = True
    """Live facts, or dead ones."""
    limit: int = 50
