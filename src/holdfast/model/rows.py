"""Rows: tables derived from the log. They can be rebuilt at any time, to the same bytes.

Law: a row belongs to one stream and its key names that stream, so two streams never write the same row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias

import msgspec

from holdfast.model.names import LedgerId, Scope, StreamId

PROJECTION_VERSION = 10
"""Raised whenever a row type, or its content, changes: opening an older store then rebuilds the rows."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a table are the fields of its row type."""

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]


class RowOrder(msgspec.Struct, frozen=True):
    """The order of rows: by these columns, then by their key; forwards or backwards."""

    columns: tuple[str, ...] = ()
    backwards: bool = False


BY_KEY = RowOrder()

ColumnValues: TypeAlias = Mapping[str, Sequence[str | int]]
"""For each column, the values that a row may have."""


class SessionRow(Row, frozen=True, kw_only=True):
    table = "session_rows"
    key = ("tenant", "actor", "session", "thread")

    tenant: str
    actor: str
    session: str
    thread: str
    """Empty for no thread: a name is never empty, and a key has no nulls."""
    status: Literal["open", "closed", "destroyed"]
    version: int
    messages: int
    tokens: int
    open_calls: int
    input_tokens: int
    cache_read_tokens: int
    output_tokens: int
    created_us: int
    updated_us: int
    expires_us: int | None
    """When it times out if nothing happens before; None for never."""
    residue: int
    """Events whose content has not been erased."""
    gone: int
    """1 once it was destroyed: lists leave it out."""
    parent: str
    """The key of the stream that it was forked from, as `encode_stream_key` writes it; empty if it is no fork."""
    cut: int
    """The last event that it shares with its parent."""


class OutboxRow(Row, frozen=True, kw_only=True):
    """A part of the history of a session, events `first` to `last`, for long-term memory."""

    table = "outbox_rows"
    key = ("tenant", "actor", "session", "thread", "entry")

    tenant: str
    actor: str
    session: str
    thread: str
    entry: int
    why: str
    first: int
    last: int
    at_us: int
    done: int
    """1 once it was acknowledged."""


class BlobRow(Row, frozen=True, kw_only=True):
    """Event `seq` of a session needs the blob `digest`."""

    table = "blob_rows"
    key = ("tenant", "digest", "actor", "session", "thread", "seq")

    tenant: str
    digest: str
    actor: str
    session: str
    thread: str
    seq: int
    size: int


class FrameRow(Row, frozen=True, kw_only=True):
    """A frame, live or ended."""

    table = "frame_rows"
    key = ("tenant", "actor", "session", "thread", "frame")

    tenant: str
    actor: str
    session: str
    thread: str
    frame: int
    """The number in its id."""
    parent: int
    """0 for none."""
    ended: str | None
    """How it ended; None while it is live."""
    deadline_us: int | None
    state: str
    """The full state, as JSON."""


class HandleRow(Row, frozen=True, kw_only=True):
    """A handle of a frame."""

    table = "handle_rows"
    key = ("tenant", "actor", "session", "thread", "handle")

    tenant: str
    actor: str
    session: str
    thread: str
    handle: int
    """The number in its id."""
    frame: int
    source: str | None
    """None also for results of children, which are added once."""
    result: str
    """The ending of the child frame that added it; empty for other handles."""
    state: str
    """The full state, as JSON."""


class PageRow(Row, frozen=True, kw_only=True):
    """A piece of a message that is, or once was, not shown as recorded."""

    table = "page_rows"
    key = ("tenant", "actor", "session", "thread", "message", "piece")

    tenant: str
    actor: str
    session: str
    thread: str
    message: int
    """The seq of the message."""
    piece: int
    frame: int
    """0 for none."""
    residency: Literal["resident", "spooled_out", "paged_out", "collapsed"]
    state: str
    """The handle, as JSON."""


class TokenRow(Row, frozen=True, kw_only=True):
    """A suspension token, by its SHA-256. The row stays when the token is used."""

    table = "token_rows"
    key = ("tenant", "actor", "session", "thread", "frame", "digest")

    tenant: str
    actor: str
    session: str
    thread: str
    frame: int
    digest: str
    status: Literal["live", "consumed", "replaced", "revoked", "ended"]
    """`live` also after it has expired: rows do not depend on the clock."""
    suspended: int
    """1 while it is the newest token of a suspended frame, live or revoked: lists show these."""
    state: str
    """The suspension, as JSON."""


class EntryRow(Row, frozen=True, kw_only=True):
    """An entry of another framework."""

    table = "entry_rows"
    key = ("tenant", "actor", "session", "thread", "entry")

    tenant: str
    actor: str
    session: str
    thread: str
    entry: str
    """Its key; shortened, if it is long, as are its kind and its parent."""
    kind: str
    parent: str
    """Empty for none."""
    seq: int
    at_us: int
    size: int
    digest: str
    names: str
    """The kind, the key and the parent in full, as a JSON array, if one of them is shortened; otherwise empty."""


class ChunkRow(Row, frozen=True, kw_only=True):
    """Where the chunk `digest` of the bodies of entries is: number `at` in event `seq`."""

    table = "chunk_rows"
    key = ("tenant", "actor", "session", "thread", "digest")

    tenant: str
    actor: str
    session: str
    thread: str
    digest: str
    seq: int
    at: int


class LedgerRow(Row, frozen=True, kw_only=True):
    """A ledger."""

    table = "ledger_rows"
    key = ("tenant", "ledger")

    tenant: str
    ledger: str
    """The key of its stream, as `encode_stream_key` writes it."""
    kind: Literal["user", "project", "organization", "session"]
    version: int
    facts: int
    """How many were ever asserted."""
    created_us: int
    updated_us: int

    @property
    def id(self) -> LedgerId:
        return ledger_of(self)


class FactRow(Row, frozen=True, kw_only=True):
    """A fact, live or dead."""

    table = "fact_rows"
    key = ("tenant", "ledger", "fact")

    tenant: str
    ledger: str
    fact: int
    """The number in its id."""
    subject: str
    """Its key."""
    scope: str
    scope_id: str
    ref: str
    """Its external name; empty for none."""
    live: int
    """1 until an event ends it, also after its expiry: rows do not depend on the clock."""
    claim: int
    review: int
    """1 while it is live and needs a review."""
    constrains: int
    """1 while it is live and a constraint."""
    expires_us: int | None
    requires: str
    """The permissions to read it: a sorted JSON array; empty for none."""
    key_words: str
    """The search terms of its key: stems and related words, with blanks between them. Queries are stemmed alike; no store
    changes the terms."""
    words: str
    """The search terms of its value."""
    memory_type: str
    """The kind of memory that it is."""
    anchor: str
    """A word that every mention of its value contains; of the key, if the value has no distinctive word."""
    state: str
    """The full state, as JSON."""


class DependRow(Row, frozen=True, kw_only=True):
    """Fact `fact` depends on fact `source`, or once did."""

    table = "depend_rows"
    key = ("tenant", "ledger", "source", "fact")

    tenant: str
    ledger: str
    source: int
    fact: int
    live: int
    """1 while the fact is live and depends on it."""


class MentionRow(Row, frozen=True, kw_only=True):
    """Message `seq` of a session states a fact, from one character to another."""

    table = "mention_rows"
    key = ("tenant", "ledger", "fact", "actor", "session", "thread", "seq", "start")

    tenant: str
    ledger: str
    fact: int
    actor: str
    session: str
    thread: str
    seq: int
    start: int
    stop: int
    live: int
    """1 while the fact is live; 0 marks text that a view must not show."""


TABLES: tuple[type[Row], ...] = (
    SessionRow,
    OutboxRow,
    BlobRow,
    FrameRow,
    HandleRow,
    PageRow,
    TokenRow,
    EntryRow,
    ChunkRow,
    LedgerRow,
    FactRow,
    DependRow,
    MentionRow,
)


def ledger_of(row: LedgerRow | FactRow | DependRow | MentionRow) -> LedgerId:
    """The ledger that a row belongs to."""
    return LedgerId.from_stream(StreamId(row.tenant, "ledger", msgspec.json.decode(row.ledger, type=tuple[str, ...])))


def scope_of(row: SessionRow | OutboxRow | BlobRow | FrameRow | HandleRow | PageRow | TokenRow | EntryRow) -> Scope:
    """The session that a row belongs to."""
    return Scope(row.tenant, row.actor, row.session, row.thread or None)
