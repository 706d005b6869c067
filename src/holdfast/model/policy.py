"""Policy as data: the order of authorities, expiry, and what happens to proposals."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.model.packs.pack import GuardMode

_ALIASES = {
    "board": "policy",
    "compliance": "policy",
    "legal": "policy",
    "owner": "executive",
    "admin": "executive",
    "administrator": "executive",
    "president": "executive",
    "founder": "executive",
    "c-level": "executive",
    "ceo": "executive",
    "cfo": "executive",
    "coo": "executive",
    "cto": "executive",
    "cio": "executive",
    "chro": "executive",
    "cmo": "executive",
    "vp": "executive",
    "system": "manager",
    "supervisor": "manager",
    "user": "peer",
    "employee": "peer",
    "colleague": "peer",
    "staff": "peer",
    "member": "peer",
    "customer": "guest",
    "client": "guest",
    "visitor": "guest",
    "subordinate": "guest",
    "intern": "guest",
    "trainee": "guest",
    "contractor": "guest",
    "assistant": "agent",
    "bot": "agent",
    "model": "agent",
    "anonymous": "unverified",
}

_TITLES = {
    "officer": "executive",
    "vp": "executive",
    "manager": "manager",
    "director": "manager",
    "head": "manager",
    "lead": "manager",
    "counsel": "manager",
    "agent": "peer",
    "executive": "peer",
    "engineer": "peer",
    "developer": "peer",
    "designer": "peer",
    "rep": "peer",
    "representative": "peer",
    "specialist": "peer",
    "analyst": "peer",
    "recruiter": "peer",
    "auditor": "peer",
    "accountant": "peer",
    "consultant": "peer",
    "ops": "peer",
}


class AuthorityLadder(msgspec.Struct, frozen=True):
    """Authorities, the highest first, with other names for them. An unknown name is the lowest."""

    rungs: tuple[str, ...] = ("policy", "executive", "manager", "peer", "guest", "agent", "tool", "unverified")
    aliases: dict[str, str] = msgspec.field(default_factory=lambda: dict(_ALIASES))
    """Whole names, lower-case."""
    titles: dict[str, str] = msgspec.field(default_factory=lambda: dict(_TITLES))
    """The last or the first word of a title: "Vendor Manager", "VP Sales"."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How facts are judged. A policy counts when a decision is made; past decisions stay in the log."""

    ladder: AuthorityLadder = AuthorityLadder()
    channel: str = "peer"
    """The authority of writes without an identity, by the program itself."""
    speakers: dict[str, str] = msgspec.field(
        default_factory=lambda: {"assistant": "agent", "tool": "tool", "system": "policy"}
    )
    """The highest authority of text of these roles, whatever the text claims."""
    source_types: dict[str, str] = msgspec.field(default_factory=lambda: {"policy": "policy", "system": "manager"})
    """The lowest authority that may name a source of these types. The program itself may name any."""
    time_sensitive: tuple[str, ...] = (
        "price",
        "rate",
        "balance",
        "stock",
        "inventory",
        "status",
        "weather",
        "temperature",
        "score",
        "level",
        "count",
        "position",
        "location",
        "reading",
        "quote",
    )
    """Words in a key that make it time-sensitive: the newest observation counts, not the last to arrive."""
    apply_from: float = 0.8
    """A proposal of at least this confidence is applied without a question."""
    ask_from: float = 0.5
    """A proposal of at least this confidence waits for a decision; others are dropped."""
    learn_into: Literal["user", "session"] = "user"
    """The ledger for a new fact that a detector reads in a user message: the user's, if the session reads one, or the
    session's own. A superseded fact stays in its ledger."""
    review: Literal["mark", "omit"] = "mark"
    """What a pack does with a fact under review: show it with a mark, beside the current value; or omit it."""
    endorse: str = "facts:endorse"
    """The permission to raise the authority of a fact."""
    withdrawal: Literal["review", "retract"] = "review"
    """What happens to a fact that only withdrawn messages state: it needs a review, or it is retracted."""
    guard: GuardMode = "redact"
    """What the guard does where a conversation repeats a superseded value."""
    deaths: Literal["boundary", "deferred"] = "boundary"
    """When a fact ends, the guard changes earlier messages at once, or with the next boundary."""
