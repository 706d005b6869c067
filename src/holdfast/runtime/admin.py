"""Maintenance of a whole store: `engine.admin`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import holdfast
from holdfast.flows import maintain
from holdfast.flows.context import EngineContext, SessionContext
from holdfast.flows.maintain import CountCallback, VerificationReport
from holdfast.flows.sessions import lifecycle
from holdfast.flows.watch import WatchTarget
from holdfast.model import limits
from holdfast.model.frames.frames import SweepResult
from holdfast.model.log import FeedPage, StoreTotals
from holdfast.model.names import Scope
from holdfast.model.sessions.messages import Message, Offload
from holdfast.ports import BlobStore, EventStore
from holdfast.runtime import maintenance, transfer
from holdfast.runtime.base import Driver
from holdfast.runtime.store_features import find_index
from holdfast.runtime.sweeper import run_sweeper
from holdfast.runtime.watch import Watch, WatchProgress, add_features, find_source

Progress: TypeAlias = Callable[[int, int], None]
"""Called from time to time with the amount done and the total: events, or bytes for a backup or an import."""


class Admin:
    """Maintenance of a store: `engine.admin`.

    verify(), rebuild(), export(), import_(), collect(), backup(), feed(), watch() and totals() cover all tenants, the
    others one."""

    def __init__(self, drive: Driver, store: EventStore, blobs: BlobStore, context: EngineContext) -> None:
        self._drive = drive
        self._store = store
        self._blob_store = blobs
        self._context = context

    def verify(self, *, progress: Progress | None = None) -> VerificationReport:
        """Check hash chains, stream heads, snapshots and rows against the log, and all bodies that events refer to.

        Changes nothing. `report.problems` is empty if all is well."""
        return maintenance.verify(self._drive, self._blob_store, self._count_events(progress))

    def rebuild(self, *, progress: Progress | None = None) -> int:
        """Build all rows again from the log. Returns the number of streams."""
        return self._drive(maintain.rebuild(self._count_events(progress)))

    def collect(self, *, grace_s: float = limits.BLOB_GRACE_S) -> int:
        """Remove bodies that no event refers to, unless they were put within the last `grace_s` seconds. Returns how
        many.

        The grace period protects a body whose message is not stored yet."""
        return maintenance.collect_blobs(self._drive, self._blob_store, self._context.clock, grace_s)

    def backup(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """Copy an SQLite store and its bodies to a new file, while others write. The copy is a complete store."""
        maintenance.backup(self._store, self._blob_store, maintenance.check_path(target), progress)

    def export(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Write the events and bodies of all tenants to a file of JSON lines, and what long-term memory has taken. Returns
        the number of events.

        import_() reads it into any store, also of another kind."""
        path = maintenance.check_path(target)
        return transfer.export(
            self._drive, self._blob_store, path, self._count_events(progress), find_index(self._store)
        )

    def import_(self, source: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Read a file that export() wrote. Events that are stored already are skipped. Returns the number of new
        events.

        The file is checked completely first: nothing is stored from a file that is damaged or contradicts this
        store."""
        return transfer.import_(
            self._drive, self._blob_store, maintenance.check_path(source), progress, find_index(self._store)
        )

    def import_transcript(
        self,
        source: str | os.PathLike[str],
        session: str,
        *,
        actor: str = "main",
        thread: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> holdfast.Session:
        """Create a session from a file of JSON lines with role, content, tool_calls, tool_results and usage.

        Messages that break the rules of a session, such as a result without a call, are kept as evidence. After an
        interruption, call it again: it continues where it stopped."""
        from holdfast.runtime import transcripts  # noqa: PLC0415 - rarely needed, and slow to load

        context = self._session_context(session, actor, thread)
        transcripts.import_transcript(self._drive, context, maintenance.check_path(source), metadata)
        return holdfast.Session(self._drive, context)

    def export_transcript(
        self, target: str | os.PathLike[str], session: str, *, actor: str = "main", thread: str | None = None
    ) -> int:
        """Write the messages of a session to a file of JSON lines. Returns how many. Imported lines come out
        unchanged, and withdrawn messages are left out."""
        from holdfast.runtime import transcripts  # noqa: PLC0415 - rarely needed, and slow to load

        context = self._session_context(session, actor, thread)
        return transcripts.export_transcript(self._drive, context, maintenance.check_path(target))

    def sweep(self, *, limit: int = 1_000) -> SweepResult:
        """End idle sessions and frames past their deadline, expire facts, and finish destructions.

        Any number of processes can sweep at the same time. `limit` is the most items of each kind."""
        return self._drive(lifecycle.sweep(self._context, limit=limit))

    def sweeper(self, every_s: float = 60.0) -> AbstractContextManager[None]:
        """Sweep every `every_s` seconds in the background, while the block runs: `with engine.admin.sweeper(): …`"""
        return run_sweeper(self.sweep, every_s)

    def outbox(self, *, after: Offload | None = None, limit: int = 100) -> list[Offload]:
        """List the conversations that wait for long-term memory, by session.

        For the next page, pass the last entry of this one as `after`."""
        return self._drive(lifecycle.outbox(self._context, after=after, limit=limit))

    def offloaded(self, offload: Offload, *, after: int = 0, limit: int = 100) -> list[Message]:
        """Return the messages and the evidence of an outbox entry, oldest first, after the seq `after`; also of a
        destroyed session."""
        return self._drive(lifecycle.history(self._context, offload, after=after, limit=limit))

    def acknowledge(self, offload: Offload, *, key: str | None = None) -> None:
        """Confirm that long-term memory has stored this outbox entry. Confirming it again changes nothing."""
        self._drive(lifecycle.acknowledge(self._context, offload, key=key))

    def feed(self, cursor: str = "", *, limit: int = 100) -> FeedPage:
        """Return events of all sessions, ledgers and tenants in one order, after `cursor`.

        Pass the cursor of a page to get the next one. Cursors stay valid after a restart."""
        return self._drive(lifecycle.feed(self._context, cursor, limit=limit))

    def watch(self, *, after: str | None = "", timeout_s: float | None = None) -> Watch:
        """Follow the events of all sessions, ledgers and tenants. See Engine.watch()."""
        target = add_features(WatchTarget(), self._store)
        return Watch(self._drive, WatchProgress(target, after, timeout_s, find_source(self._store)))

    def totals(self) -> StoreTotals:
        """Return how many streams, events and keys the store has, and its size."""
        return self._store.totals()

    def _session_context(self, session: object, actor: object, thread: object) -> SessionContext:
        return SessionContext(self._context, Scope.check(self._context.tenant, actor, session, thread))

    def _count_events(self, progress: Progress | None) -> CountCallback | None:
        """Return a callback that adds the total number of events."""
        if progress is None:
            return None
        total = self.totals().events
        return lambda done: progress(min(done, total), total)
