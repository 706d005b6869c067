"""Passages: words of a session that can be recalled, in this session or in a later one.

Laws: a passage names the event that has its words. It is a copy, so it is removed when that event is erased. One that
long-term memory has taken outlives the destruction of its session, and nothing else.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.model.content import Role
from holdfast.model.names import Scope, StreamId

PASSAGE_FORMAT = 1
"""Raised whenever the same message gives other passages or other terms: older passages are then made again."""

PassageKind: TypeAlias = Literal["message", "situation"]
"""Words of a message; or what a conversation had come to at its end."""


class PassageKey(NamedTuple):
    """The identity of a passage in a store."""

    stream: StreamId
    seq: int
    """The event that has its words."""
    part: int
    """Its number among the passages of that event, from 0."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or a part of a long one, as it can be recalled."""

    scope: Scope
    """The session that it is from."""
    seq: int
    part: int = 0
    kind: PassageKind = "message"
    role: Role
    speaker: str = ""
    """The name of who said it, if it is known: `metadata["speaker"]` of the message, or the user's name."""
    user: str = ""
    """The user of the session at that time, whose memory it belongs to; empty for none."""
    frame: str = ""
    """The frame in whose conversation it was said; empty for none."""
    time_us: int
    place: int = 0
    """The number of its message among those of the session, from 1 without gaps: how near two passages are."""
    requires: tuple[str, ...] = ()
    """The permissions that a reader needs: those that the session had when a tool or the assistant said it."""
    handle: str = ""
    """The handle of the content that it is from, for read_handle; empty for the text of a message."""
    start: int = 0
    """Where it begins in that content, in characters."""
    text: str
    is_taken: bool = False
    """Long-term memory has taken it."""

    @property
    def key(self) -> PassageKey:
        return PassageKey(self.scope.stream, self.seq, self.part)


class IndexedPassage(msgspec.Struct, frozen=True):
    """A passage with the terms that it is found by. No store changes the terms."""

    passage: Passage
    terms: tuple[str, ...]
    """Stems of its words, in order, repeated as often as they occur. Letters and digits only."""


class IndexMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far the passages of a stream are indexed, and what the next ones continue."""

    version: int = 0
    """The last event that was looked at."""
    format: int = PASSAGE_FORMAT
    places: int = 0
    """How many messages were counted."""
    user: str = ""
    speaker: str = ""
    permissions: tuple[str, ...] = ()
    """The identity of the session after that event."""


class PassageBatch(msgspec.Struct, frozen=True, kw_only=True):
    """New passages of one stream. They are stored together with the mark, or not at all."""

    stream: StreamId
    before: IndexMark | None
    """The mark that they continue; None for the first ones. If the stored mark is another one, nothing is stored."""
    mark: IndexMark
    passages: tuple[IndexedPassage, ...]

    @property
    def start(self) -> int:
        """The last event before those that the batch covers. 0 if the stream is indexed again from its start."""
        before = self.before
        is_next = before is not None and before.format == self.mark.format and before.version <= self.mark.version
        return before.version if before is not None and is_next else 0


class StreamSpan(NamedTuple):
    """The events `first` to `last` of a stream."""

    stream: StreamId
    first: int
    last: int


class PassageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which passages may be seen at all: applied before anything is ranked, counted or compared."""

    tenant: str
    user: str = ""
    """The passages of this user that long-term memory has taken; empty for none."""
    spans: tuple[StreamSpan, ...] = ()
    """And the passages of these events, taken or not."""
    hidden: tuple[StreamSpan, ...] = ()
    """But none of these: they are in view, or withdrawn."""
    permissions: tuple[str, ...] | None = None
    """What the reader may know; None for the program itself, which may know all."""
    roles: tuple[Role, ...] = ()
    """Only of these; empty for all."""
    kinds: tuple[PassageKind, ...] = ()
    sessions: tuple[str, ...] = ()
    """Only of sessions with these names; empty for all."""
    since_us: int | None = None
    until_us: int | None = None
    """Both inclusive."""


class PassageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search for passages that have any of the terms."""

    visible: PassageFilter
    terms: tuple[str, ...]
    limit: int
    """The most candidates; 0 for the counts of the terms alone."""


class PassageMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The best candidates for a query, and what a ranking needs to weigh its terms."""

    passages: tuple[Passage, ...]
    """Those with the most, and the rarest, of the terms; an approximate order. The caller ranks them."""
    counts: dict[str, int]
    """How many visible passages have each term; a count may stop at a bound, and a term without any is left out."""
    total: int
    """How many passages are visible; approximate."""


class NeighbourSpan(NamedTuple):
    """The messages `first` to `last` of a session, by their places."""

    stream: StreamId
    first: int
    last: int


class PassageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """How much is remembered."""

    passages: int
    sessions: int
    text_bytes: int
    oldest_us: int | None = None
    newest_us: int | None = None


class VectorQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search for the passages nearest in meaning."""

    visible: PassageFilter
    embedder: str
    vector: tuple[float, ...]
    limit: int


class MemorySubject(msgspec.Struct, frozen=True, kw_only=True):
    """What long-term memory is to forget: all of a user, all of a session, or some events of a session. Exactly one of
    `user` and `scope` is set."""

    tenant: str
    user: str = ""
    scope: Scope | None = None
    seqs: tuple[int, ...] = ()
    """Only these events of the session; empty for all."""
