"""Rows: what the log says, laid out for look-up. Dropped and rebuilt at will, to the same bytes.

Law: a row belongs to one stream and its key names that stream, so two streams never write the same row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias

import msgspec

from holdfast.model.names import LedgerId, Scope, StreamId

PROJECTION_VERSION = 8
"""Raised whenever a row type, or what projecting puts into it, changes: opening an older store then rebuilds."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a table are the fields of its row type."""

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]


class Order(msgspec.Struct, frozen=True):
    """How rows are laid out: by these columns, then by their key; all of it forwards, or all of it backwards."""

    columns: tuple[str, ...] = ()
    backwards: bool = False


IN_ORDER_OF_KEY = Order()

Among: TypeAlias = Mapping[str, Sequence[str | int]]
"""Columns, and for each the values of which a row has one."""


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


class OutboxRow(Row, frozen=True, kw_only=True):
    """A piece of a session's history, events `first` to `last`, for long-term memory to take up."""

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
    """How; None while it lives."""
    deadline_us: int | None
    state: str
    """All of it, as JSON."""


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
    """None also for what children bring: they do so once."""
    result: str
    """How the child ended that brought it; empty if it is no child's result."""
    state: str
    """All of it, as JSON."""


class PageRow(Row, frozen=True, kw_only=True):
    """A piece of a message that is not shown as it was recorded, or was not once."""

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
    """A suspension token that was handed out, by its SHA-256. It stays when the token is used."""

    table = "token_rows"
    key = ("tenant", "actor", "session", "thread", "frame", "digest")

    tenant: str
    actor: str
    session: str
    thread: str
    frame: int
    digest: str
    status: Literal["live", "consumed", "replaced", "revoked", "ended"]
    """`live` also when it has expired: that is for the clock to say."""
    suspended: int
    """1 while it is the newest token of a suspended frame, live or revoked: what a list of those shows."""
    state: str
    """The suspension, as JSON."""


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
    """Its name in the world outside; empty for none."""
    live: int
    """1 until an event ends it: running out is for the clock to say."""
    claim: int
    review: int
    """1 while it lives and needs a review."""
    constrains: int
    """1 while it lives and is a constraint."""
    expires_us: int | None
    requires: str
    """The permissions that it takes to know of it: a JSON array, sorted; empty for none."""
    key_words: str
    """What a search finds it by: the words of its key as stems, and their kin, with blanks between them. No store changes
    them: what is looked for is stemmed alike."""
    words: str
    """And those of its value."""
    memory_type: str
    """The kind of memory that it is."""
    anchor: str
    """A word without which its value is told nowhere; of the key, if the value has none that stands out."""
    state: str
    """All of it, as JSON."""


class DependRow(Row, frozen=True, kw_only=True):
    """Fact `fact` depends on fact `source`, or did."""

    table = "depend_rows"
    key = ("tenant", "ledger", "source", "fact")

    tenant: str
    ledger: str
    source: int
    fact: int
    live: int
    """1 while it lives and does."""


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
    """1 while the fact is: what a view of the session must not show is found by 0."""


TABLES: tuple[type[Row], ...] = (
    SessionRow,
    OutboxRow,
    BlobRow,
    FrameRow,
    HandleRow,
    PageRow,
    TokenRow,
    LedgerRow,
    FactRow,
    DependRow,
    MentionRow,
)


def ledger_of(row: LedgerRow | FactRow | DependRow | MentionRow) -> LedgerId:
    """The ledger that a row belongs to."""
    return LedgerId.of(StreamId(row.tenant, "ledger", msgspec.json.decode(row.ledger, type=tuple[str, ...])))


def scope_of(row: SessionRow | OutboxRow | BlobRow | FrameRow | HandleRow | PageRow | TokenRow) -> Scope:
    """The session that a row belongs to."""
    return Scope(row.tenant, row.actor, row.session, row.thread or None)
