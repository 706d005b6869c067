"""What users open: an engine, which has the sessions of a store. Each operation is a flow; here it blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeAlias, TypeVar

import msgspec

from holdfast.core import sessions
from holdfast.core.layers import checked_identity
from holdfast.errors import InvalidContent, shown
from holdfast.flows import ingest, knowing, maintain, recovering, suspending
from holdfast.flows import ledgers as ledger_flows
from holdfast.flows import sessions as session_flows
from holdfast.flows.effects import Flow
from holdfast.flows.maintain import Count, Report
from holdfast.flows.place import Context, LedgerPlace, Place
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.frames import Recovery
from holdfast.model.layers import Identity
from holdfast.model.log import Totals
from holdfast.model.names import LedgerId, Scope, checked_flag, checked_name
from holdfast.ports import BlobStore, EventStore
from holdfast.runtime import care, transfer
from holdfast.runtime.drive import Turns, drive
from holdfast.runtime.held import Ledger, Session, blocking, held
from holdfast.runtime.sweeper import sweeping

T = TypeVar("T")

DEFAULT_ACTOR = "main"

Progress: TypeAlias = Callable[[int, int], None]
"""Told now and then how much is done, and of how much: events, or bytes for a backup or an import."""


class Engine:
    """A store, opened. Threads may share it; a forked process must open its own."""

    def __init__(self, store: EventStore, blobs: BlobStore, context: Context, turns: Turns | None = None) -> None:
        self.store = store
        self.blobs = blobs
        self._place = context
        self._turns = turns or Turns()

    sessions = blocking(session_flows.listed)
    sweep = blocking(session_flows.sweep)
    outbox = blocking(session_flows.outbox)
    history = blocking(session_flows.history)
    acknowledge = blocking(session_flows.acknowledge)
    feed = blocking(session_flows.feed)
    ledgers = blocking(knowing.ledgers)
    suspended = blocking(suspending.suspended)
    resume = held(suspending.resume)

    def ledger(
        self,
        ledger: LedgerId | None = None,
        /,
        *,
        user: str | None = None,
        project: str | None = None,
        organization: str | None = None,
        identity: Identity | None = None,
    ) -> Ledger:
        """A ledger of facts: a user's, a project's or an organisation's, or one by its id, as this identity may see it and
        write to it. Without one, the program itself speaks: it sees everything and may claim any authority."""
        named = ledger_flows.ledger_named(self._place, ledger, user=user, project=project, organization=organization)
        writer = ledger_flows.writer_for(self._place, None if identity is None else checked_identity(identity))
        return Ledger(self._drive, LedgerPlace(self._place, named, writer))

    def acting_as(self, *, tenant: str | None = None, principal: str | None = None) -> Engine:
        """The same engine for another tenant or in another's name; close either one to close both."""
        return Engine(self.store, self.blobs, renamed(self._place, tenant, principal), self._turns)

    def create_session(
        self,
        session: str,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        metadata: dict[str, Any] | None = None,
        idle_timeout_s: float | None = None,
        identity: Identity | None = None,
        ledgers: Sequence[LedgerId] = (),
        key: str | None = None,
        cause: str | None = None,
    ) -> Session:
        """A new session; SessionExists if there is one of that name. `idle_timeout_s` is how long it may be idle before
        `sweep` ends it, `identity` who speaks in it until the program refreshes it, and `ledgers` are those that it reads
        after its own."""
        place = place_of(self._place, actor, session, thread)
        made = session_flows.create(
            place, metadata, idle_timeout_s=idle_timeout_s, identity=identity, ledgers=ledgers, key=key, cause=cause
        )
        self._drive(made)
        return Session(self._drive, place)

    def session(
        self,
        session: str,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        create: bool = False,
        identity: Identity | None = None,
        ledgers: Sequence[LedgerId] = (),
    ) -> Session:
        """A session that is there already; SessionNotFound otherwise, unless it is to be created then. `identity` and
        `ledgers` are used only if it is created now: one that is there keeps its own, which state() tells."""
        place = place_of(self._place, actor, session, thread)
        if checked_flag("create", create):
            self._drive(session_flows.ensure(place, identity=identity, ledgers=ledgers))
        else:
            self._drive(session_flows.state(place))
        return Session(self._drive, place)

    def recover(self, scope: Scope, *, key: str | None = None, cause: str | None = None) -> Recovery:
        place = place_in(self._place, scope)
        recovery: Recovery = self._drive(recovering.recover(place, key=key, cause=cause))
        return recovery

    recover.__doc__ = recovering.recover.__doc__

    def sweeper(self, every_s: float = 60.0) -> AbstractContextManager[None]:
        """Sweep in the background for as long as this is entered: `with engine.sweeper(): …`"""
        return sweeping(self.sweep, every_s)

    def put_blob(self, body: bytes | BinaryIO | Iterable[bytes], *, media_type: str | None = None) -> BlobRef:
        """Keep a large body, streamed; the reference goes into a message."""
        return self._place.bodies.put(self._place.tenant, body, media_type)

    def blob_chunks(self, ref: BlobRef) -> Iterator[bytes]:
        """A body in pieces, checked on the way. The last piece may end in StorageCorrupt: use nothing before it ended."""
        return self.blobs.chunks(self._place.tenant, ingest.checked_ref(ref))

    def read_blob(self, ref: BlobRef) -> bytes:
        return b"".join(self.blob_chunks(ref))

    def verify(self, *, progress: Progress | None = None) -> Report:
        """Compare everything with everything: hash chains, heads, snapshots, rows, and the bodies that events name."""
        return care.verify(self._drive, self.blobs, self._counting(progress))

    def rebuild(self, *, progress: Progress | None = None) -> int:
        """Make all rows anew from the log; how many streams there were."""
        return self._drive(maintain.rebuild(self._counting(progress)))

    def collect_blobs(self, *, grace_s: float = limits.BLOB_GRACE_S) -> int:
        """Remove bodies that no event names and that nobody put within the grace period; how many."""
        return care.collect_blobs(self._drive, self.blobs, self._place.clock, grace_s)

    def backup(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """A copy of the file and its blobs, complete in itself, while others write."""
        care.backup(self.store, self.blobs, care.checked_path(target), progress)

    def export(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """All tenants' events and blobs as JSON lines; how many events."""
        return transfer.export(self._drive, self.blobs, care.checked_path(target), self._counting(progress))

    def import_(self, source: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Take in an export; events that are here already are passed over. How many were new."""
        return transfer.import_(self._drive, self.blobs, care.checked_path(source), progress)

    def import_transcript(
        self,
        source: str | os.PathLike[str],
        session: str,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Session:
        """A new session from JSON lines that another system wrote: role, content, tool_calls, tool_results, usage. What
        breaks a session's rules is kept as evidence. Repeating it after an interruption goes on where it was."""
        place = place_of(self._place, actor, session, thread)
        _transcripts().import_transcript(self._drive, place, care.checked_path(source), metadata)
        return Session(self._drive, place)

    def export_transcript(
        self,
        target: str | os.PathLike[str],
        session: str,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
    ) -> int:
        """A session's messages as JSON lines for other systems; how many. What was imported comes out as it went in."""
        place = place_of(self._place, actor, session, thread)
        count: int = _transcripts().export_transcript(self._drive, place, care.checked_path(target))
        return count

    def totals(self) -> Totals:
        return self.store.totals()

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drive(self, flow: Flow[T]) -> T:
        return drive(flow, self.store, self._turns)

    def _counting(self, progress: Progress | None) -> Count | None:
        """`progress` is told how much of the whole is done; those who do it only know how far they are."""
        if progress is None:
            return None
        total = self.totals().events
        return lambda done: progress(min(done, total), total)


def _transcripts() -> Any:
    from holdfast.runtime import transcripts  # noqa: PLC0415 - loaded when it is needed, with what reads responses

    return transcripts


def place_of(context: Context, actor: object, session: object, thread: object) -> Place:
    return Place(context, Scope.checked(context.tenant, actor, session, thread))


def place_in(context: Context, scope: object) -> Place:
    """A session by its scope; one of another tenant is not there."""
    if type(scope) is not Scope:
        raise InvalidContent(reason=f"{shown(scope)} is not a scope: pass that of a session")
    checked = Scope.checked(scope.tenant, scope.actor, scope.session, scope.thread)
    if checked.tenant != context.tenant:
        raise sessions.not_found(checked)
    return Place(context, checked)


def renamed(context: Context, tenant: str | None, principal: str | None) -> Context:
    return msgspec.structs.replace(
        context,
        tenant=context.tenant if tenant is None else checked_name("tenant", tenant),
        principal=context.principal if principal is None else checked_name("principal", principal),
    )
