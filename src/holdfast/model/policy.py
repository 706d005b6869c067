"""Policy as data: who outranks whom, what grows old, and what is done about a proposal."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.model.pack import Guard

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


class Ladder(msgspec.Struct, frozen=True):
    """Authorities, the highest first, and the names that others use for them. A name that nobody knows is the lowest."""

    rungs: tuple[str, ...] = ("policy", "executive", "manager", "peer", "guest", "agent", "tool", "unverified")
    aliases: dict[str, str] = msgspec.field(default_factory=lambda: dict(_ALIASES))
    """Whole names, lower-case."""
    titles: dict[str, str] = msgspec.field(default_factory=lambda: dict(_TITLES))
    """The last or the first word of a title: "Vendor Manager", "VP Sales"."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How facts are judged. It speaks when something is decided; what was decided is in the log and stays."""

    ladder: Ladder = Ladder()
    channel: str = "peer"
    """The rung of what comes in without an identity: the program that opened the store speaks itself."""
    speakers: dict[str, str] = msgspec.field(
        default_factory=lambda: {"assistant": "agent", "tool": "tool", "system": "policy"}
    )
    """The most that the text of these roles may have. What it says of itself counts for nothing."""
    source_types: dict[str, str] = msgspec.field(default_factory=lambda: {"policy": "policy", "system": "manager"})
    """The rung that it takes at least to name a source of these types. The program itself may name any."""
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
    """Words in a key that make it one for which the newest news count, not the latest to arrive."""
    apply_from: float = 0.8
    """The confidence from which on a proposal is applied without asking."""
    ask_from: float = 0.5
    """The confidence from which on someone is asked; what is below is left alone."""
    learn_into: Literal["user", "session"] = "user"
    """Which ledger a new fact goes into that a detector reads in the user's own words: the user's, if the session reads
    one, or the session's own. A fact that is superseded stays in its ledger."""
    review: Literal["mark", "omit"] = "mark"
    """What a pack does with a fact under review: it is shown with a mark, beside what holds now; or left out."""
    endorse: str = "facts:endorse"
    """The permission that it takes to raise a fact's authority."""
    guard: Guard = "redact"
    """What is done where a conversation tells the value of a dead fact."""
    deaths: Literal["boundary", "deferred"] = "boundary"
    """A death changes what was shown before at once; or at the next boundary: until then the value stays where it is."""
