"""What long-term memory is given and asked, and what it answers."""

from __future__ import annotations

import msgspec

from holdfast.model.content import Role
from holdfast.model.facts.fact import Fact
from holdfast.model.memory.passages import PassageKey, PassageKind
from holdfast.model.names import Scope, StreamId
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message


class SessionHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a conversation that ended, for Memory.take(). It comes at least once, with the same key each time."""

    key: str
    scope: Scope
    identity: Identity
    why: str
    """How the conversation ended: reset, closed, timed out or destroyed."""
    part: int = 0
    """Long conversations come in several parts, from 0."""
    is_last: bool = True
    messages: tuple[Message, ...]
    """Oldest first, without withdrawn ones."""
    situation: dict[str, str] = msgspec.field(default_factory=dict)
    """What the conversation had come to, by field; with the last part."""


class MemoryReader(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: only this user's memory is searched, and only what these permissions allow."""

    tenant: str
    user: str
    permissions: tuple[str, ...] | None = ()
    """None for the program itself, which may know all."""


class MemoryRange(msgspec.Struct, frozen=True, kw_only=True):
    """Where to search; without any of these, everywhere."""

    sessions: tuple[str, ...] = ()
    since_us: int | None = None
    until_us: int | None = None
    roles: tuple[Role, ...] = ()


class RecalledPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that was recalled, and why."""

    id: str
    """Its name in a manifest. Two passages of one answer never share it."""
    text: str
    score: float = 0.0
    """How well it fits the question; it compares within one answer only."""
    reason: str = ""
    """Why it was recalled, in words."""
    kind: PassageKind = "message"
    role: Role = "user"
    speaker: str = ""
    session: str = ""
    """The session that it is from, by name."""
    time_us: int | None = None
    tokens: int = 0
    stream: StreamId | None = None
    """Where its words are in the log; None for an engine that does not know."""
    seq: int = 0
    part: int = 0
    handle: str = ""
    """What reads more of it, with read_handle."""
    start: int = 0
    """Where it begins in its content, in characters."""

    @property
    def key(self) -> PassageKey | None:
        return None if self.stream is None else PassageKey(self.stream, self.seq, self.part)


class MemoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was recalled for a question: best first."""

    query: str
    budget: int
    passages: tuple[RecalledPassage, ...]
    tokens: int = 0
    """Of all of them, as `text` shows them."""
    candidates: int = 0
    """How many passages were ranked."""
    left_out: int = 0
    """How many of them did not fit into the budget."""
    engine: str = "holdfast"
    """The memory that answered."""
    error: str = ""
    """Why it could not answer; empty if it did."""


class UserKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a user, for the start of a session."""

    user: str
    facts: tuple[Fact, ...] = ()
    """The current facts of the user's ledger, constraints first."""
    passages: tuple[RecalledPassage, ...] = ()
    """What earlier conversations had come to, newest first; then what the user said last."""
    tokens: int = 0
    error: str = ""
    """Why the memory could not be asked; empty if it was."""


class ForgetReport(msgspec.Struct, frozen=True, kw_only=True):
    """What long-term memory has forgotten."""

    passages: int
    """How many were removed."""
    residue: int = 0
    """How many of the subject are left. Anything but 0 is a fault."""
