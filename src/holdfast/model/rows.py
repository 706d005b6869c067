"""Rows: what the log says, laid out for look-up. Dropped and rebuilt at will, to the same bytes.

Law: a row belongs to one stream and its key names that stream, so two streams never write the same row.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

PROJECTION_VERSION = 1
"""Raised whenever a row type, or what projecting puts into it, changes: opening an older store then rebuilds."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a table are the fields of its row type."""

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]


class SessionRow(Row, frozen=True, kw_only=True):
    table = "session_rows"
    key = ("tenant", "actor", "session", "thread")

    tenant: str
    actor: str
    session: str
    thread: str
    """Empty for no thread: a name is never empty, and a key has no nulls."""
    status: Literal["open", "closed"]
    version: int
    messages: int
    tokens: int
    created_us: int
    updated_us: int


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


TABLES: tuple[type[Row], ...] = (SessionRow, BlobRow)
