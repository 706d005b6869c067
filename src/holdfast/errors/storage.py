"""Errors of stored data and of stores."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError

# Data


class DataError(HoldfastError):
    """The data is damaged."""


class EventUnreadable(DataError):
    """Event {seq} of {stream} (type {type!r}, version {version}) cannot be read: {reason}. If a newer Holdfast wrote
    it, upgrade. Otherwise run verify, and restore from a backup."""

    stream: object
    seq: int
    type: str
    version: int
    reason: str


class StorageCorrupt(DataError):
    """{what} is damaged: {reason}. Keep the file as it is, run verify, and restore from a backup."""

    what: str
    reason: str


class ImportRefused(DataError):
    """The import stopped at line {line}: {reason}. Export it again, correct that line, or use the Holdfast that
    wrote it."""

    line: int
    reason: str


class LogRefused(DataError):
    """{path!r} is not a log that can be inspected: {reason}. Pass a log of Claude Code, messages of OpenAI, Anthropic,
    LangGraph or LangChain, or a transcript of Holdfast, as JSON or JSON lines. Nothing was stored."""

    path: str
    reason: str


# Storage


class StorageError(HoldfastError):
    """The store could not do its work; nothing was acknowledged."""


class StorageBusy(StorageError):
    """{what} was locked by another process for {waited_ms} ms. Try again, or look for a process with a long
    transaction."""

    what: str
    waited_ms: int


class QueueFull(StorageBusy):
    """{limit} commands wait for {what} already (QUEUED_COMMANDS). Nothing was stored. Send fewer at a time, and try
    again."""

    what: str
    limit: int


class PoolExhausted(StorageBusy):
    """All {limit} connections to {what} were in use for {waited_ms} ms. Raise pool= in the address, or run fewer
    tasks at the same time."""

    limit: int


class StorageFull(StorageError):
    """No space is left to write {what}. Free some space and try again. Acknowledged data is safe, and reads still
    work."""

    what: str


class StorageReadOnly(StorageError):
    """{what} cannot be written. Check the permissions of the file and its folder; on a server, those of the role,
    and that it is not a replica. Reads still work."""

    what: str


class StorageUnavailable(StorageError):
    """{what} could not be used: {reason}. Check the path and the disk, or the server. A command that was in progress
    may have been stored: repeat it with its idempotency key."""

    what: str
    reason: str


class StoreNotOpened(StorageUnavailable):
    """{what} could not be opened: {reason}. Check the path and the disk, or the database server. Nothing was stored."""


class StoreClosed(StorageError):
    """{what} was closed. Open it again."""

    what: str


class StoreFeatureMissing(StorageError):
    """{store} has no {feature}, which this needs. Missing methods: {methods}. Use a store of Holdfast, or add them: see
    holdfast.ports.{feature}."""

    store: str
    feature: str
    methods: str


class ForkedHandle(StorageError):
    """{what} was opened by process {opener} and is used in process {user} after a fork. Open it in each process."""

    what: str
    opener: int
    user: int


class ForeignFile(StorageError):
    """{path!r} is not a Holdfast file: {reason}. Choose another file name; this one was not changed."""

    path: str
    reason: str


class SchemaTooNew(StorageError):
    """{path!r} has schema {found}; this Holdfast knows schemas up to {known}. Upgrade Holdfast; the file was not
    changed."""

    path: str
    found: int
    known: int


class SchemaTooOld(StorageError):
    """{path} has schema {found}, this Holdfast needs {known}, and the role {role!r} may not migrate it. Open it once
    with the role that owns it."""

    path: str
    found: int
    known: int
    role: str


class SchemaChanged(StorageError):
    """Migration {number} of {path!r} was applied with a text that differs from the shipped one. Use the Holdfast
    that created the file, or restore from an export."""

    path: str
    number: int


class RoleTooNarrow(StorageError):
    """The role {role!r} sees one tenant of {what} at a time, and this operation covers all tenants. Use the role
    that owns the tables."""

    what: str
    role: str


class ServerTooOld(StorageError):
    """{what} is version {found}. Use PostgreSQL {needed} or later."""

    what: str
    found: int
    needed: int


class UnsafeSqlite(StorageError):
    """SQLite {version} has the WAL-reset bug, which can corrupt a file. Install an apsw with SQLite {needed} or
    later."""

    version: str
    needed: str
