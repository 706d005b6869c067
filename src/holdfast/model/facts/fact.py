"""Facts: their values, sources, validity, status and links."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Json
from holdfast.model.names import LedgerId, StreamId, parse_id_number

FactScope: TypeAlias = Literal["global", "project", "task", "session", "hypothetical", "draft"]
"""The widest first."""
FACT_SCOPES: tuple[FactScope, ...] = ("global", "project", "task", "session", "hypothetical", "draft")
SourceType: TypeAlias = Literal["conversation", "state_write", "system", "policy"]
SOURCE_TYPES: tuple[SourceType, ...] = ("conversation", "state_write", "system", "policy")
MemoryType: TypeAlias = Literal["user", "capability", "organizational"]
MEMORY_TYPES: tuple[MemoryType, ...] = ("user", "capability", "organizational")
FactStatus: TypeAlias = Literal["live", "superseded", "retracted", "expired"]
SupersessionRule: TypeAlias = Literal["explicit", "implicit", "authority", "temporal"]
"""The new fact names the old one · same key, another value · a higher authority · the times of validity."""


def fact_id(seq: int) -> str:
    """The id of the fact that the event with this seq asserted."""
    return f"k{seq}"


@functools.lru_cache(maxsize=1 << 12)
def fact_seq(fact: str | None) -> int:
    """The seq in the id of a fact; 0 for any other text. Cached, because facts are sorted by it at every call."""
    return parse_id_number("k", fact)


def withdrawal_label(session: StreamId, seq: int) -> str:
    """The name of a withdrawal in a ledger, which several sessions may share."""
    return f"w{seq}:{msgspec.json.encode(session.key).decode()}"


def is_withdrawal_label(label: str) -> bool:
    return _read_label(label) is not None


def _read_label(label: str) -> tuple[int, tuple[str, ...]] | None:
    number, _, key = label.partition(":")
    seq = parse_id_number("w", number)
    try:
        return (seq, msgspec.json.decode(key, type=tuple[str, ...])) if seq else None
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None


def describe_withdrawal(label: str) -> str:
    """A withdrawal in words, from its label."""
    seq, key = _read_label(label) or (0, ())
    return f"its message was withdrawn at event {seq:,} of session {'/'.join(key[1:])}"


class Mention(msgspec.Struct, frozen=True, omit_defaults=True, order=True):
    """Where a message states a fact: characters `start` to `end` of its text."""

    actor: str
    session: str
    seq: int
    """The seq of the message; 0 for the one that is recorded together with the fact."""
    start: int
    end: int
    thread: str = ""


class FactSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """The source of a fact."""

    type: SourceType = "state_write"
    name: str = ""
    """A system, a document, a role, "observation"."""
    identity: str = ""
    """Who stated it, according to the channel."""
    authority: str = "peer"
    """A rung of the authority ladder."""
    turn: int | None = None
    """The seq of the message, for a statement in a conversation."""
    event: int | None = None
    """The number of the event in another system that wrote the fact."""


class Dispute(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt to retract a fact with too little authority."""

    by: str
    """Who tried, according to the channel."""
    authority: str
    at_us: int = 0


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """A keyed statement. Ended facts are kept, so that every chain of supersessions can be followed."""

    id: str
    key: str
    value: Json
    ledger: LedgerId | None = None
    """Its ledger, set when the fact is read. An id is unique only within its ledger."""
    ref: str = ""
    """Its name in another system. It need not be unique."""
    source: FactSource = FactSource()
    memory_type: MemoryType = "user"
    scope: FactScope = "global"
    scope_id: str = ""
    at_us: int = 0
    """When it was recorded."""
    valid_from_us: int = 0
    expires_us: int | None = None
    status: FactStatus = "live"
    """Also `live` if it has expired and was not swept yet: use `is_current_at`."""
    against: str = ""
    """For a claim: the fact of higher authority that it contradicts. Empty if it is no claim."""
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    depends_on: tuple[str, ...] = ()
    derived_facts: tuple[str, ...] = ()
    """The live facts that depend on it, set when it is read."""
    review: str = ""
    """The ended fact, or the withdrawal of messages, because of which it needs a review; empty if it needs none."""
    disputes: tuple[Dispute, ...] = ()
    """Attempts to retract it with too little authority, until the fact is confirmed."""
    is_constraint: bool = False
    constraint_type: str | None = None
    requires: tuple[str, ...] = ()
    """The permissions needed to read it."""
    provenance: tuple[str, ...] = ()
    """The ids of the messages, calls or facts that it came from."""
    mentions: tuple[Mention, ...] = ()
    reason: str = ""
    """Why it was asserted."""
    ended_us: int | None = None
    ended_seq: int = 0
    """The version of its ledger at which it ended; 0 for a live fact."""
    rule: SupersessionRule | None = None
    """The rule that superseded it."""
    why: str = ""
    """Why it ended."""

    @property
    def is_claim(self) -> bool:
        return bool(self.against)

    @property
    def is_valid(self) -> bool:
        """Whether no event ended it. It may have expired: see has_expired()."""
        return self.status == "live"

    @property
    def needs_review(self) -> bool:
        return bool(self.review)

    @property
    def review_reason(self) -> str:
        """Why it needs a review, in words; empty if it needs none."""
        if is_withdrawal_label(self.review):
            return describe_withdrawal(self.review)
        return f"{self.review} has ended" if self.review else ""

    @property
    def is_disputed(self) -> bool:
        return bool(self.disputes)

    @property
    def authority(self) -> str:
        return self.source.authority

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.at_us / 1e6, UTC)

    def is_current_at(self, time_us: int) -> bool:
        """Whether it is live, not a claim, and not expired at that time."""
        return self.is_valid and not self.is_claim and not self.has_expired(time_us)

    def has_expired(self, time_us: int) -> bool:
        return self.expires_us is not None and self.expires_us <= time_us


class FactState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact as it is stored in its row."""

    fact: Fact
    sources: bool = False
    """Whether other facts depend on it, or did."""
    guarded: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Linked facts that need more permissions than this one, with their permissions."""


class FactMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that matches a query, and its score."""

    fact: Fact
    ledger: LedgerId
    score: float


class FactStep(msgspec.Struct, frozen=True):
    """One thing that happened to a fact."""

    time_us: int
    fact: str
    what: str


class FactExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a key has its value."""

    key: str
    current: Fact | None
    chain: tuple[Fact, ...]
    """The predecessors of the current fact, or of the last one if none is current; the newest first."""
    claims: tuple[Fact, ...]
    depends_on: tuple[Fact, ...]
    derived: tuple[Fact, ...]
    story: tuple[FactStep, ...]
    """What happened to the facts of the key, oldest first."""


class FactQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query to the index of facts. Nothing outside of these limits may be ranked, counted or returned."""

    tenant: str
    ledgers: tuple[str, ...]
    """Their stream keys, as `encode_stream_key` writes them."""
    words: tuple[str, ...]
    """Stems of words as they are in rows, in lower case. A fact matches if it has any of them; without words nothing
    matches."""
    permissions: tuple[str, ...] | None = None
    """Those of the reader; None for one who may read everything."""
    scopes: tuple[tuple[FactScope, str], ...] = (("global", ""),)
    """The scopes to search, with their ids."""
    now_us: int = 0
    """Facts that are expired at this time are left out."""
    live: bool = True
    """Live facts, or ended ones."""
    ranked: int | None = None
    """A store need not rank more facts of a ledger than about so many: those with the rarest words. None for all."""
    limit: int = 50
