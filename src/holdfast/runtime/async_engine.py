"""The engine for an event loop: the twin of `engine` and `admin`, awaited. Imported only when needed."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, ParamSpec, Self, TypeVar, Unpack

from holdfast.errors import HoldfastError, StoreClosed
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Flow
from holdfast.flows.facts import queries
from holdfast.flows.frames import recovery, suspension
from holdfast.flows.maintain import VerificationReport
from holdfast.flows.sessions import lifecycle
from holdfast.flows.watch import WatchTarget
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.frames.frames import Recovery, SuspendedFrame, SuspensionToken, SweepResult
from holdfast.model.log import FeedPage, StoreTotals
from holdfast.model.names import DEFAULT_ACTOR, LedgerId, Scope, check_flag, check_name, check_options
from holdfast.model.rows import LedgerRow, SessionRow
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message, Offload
from holdfast.ports import BlobStore
from holdfast.runtime.admin import Admin, Progress
from holdfast.runtime.async_base import AwaitableFrame
from holdfast.runtime.async_driver import AsyncStreamLocks, drive_async
from holdfast.runtime.async_ledgers import AsyncLedger
from holdfast.runtime.async_memory import AsyncMemoryFacet
from holdfast.runtime.async_sessions import AsyncSession
from holdfast.runtime.async_watch import AsyncWatch
from holdfast.runtime.async_worker import AsyncWorker
from holdfast.runtime.bodies import split_chunk
from holdfast.runtime.engine import (
    Blobs,
    Engine,
    add_user,
    build_ledger_context,
    build_session_context,
    check_scope_context,
    derive_context,
)
from holdfast.runtime.logs import log_answer, log_blob
from holdfast.runtime.options import SessionOptions
from holdfast.runtime.sweeper import check_pause, log_failure
from holdfast.runtime.watch import WatchProgress, add_features, build_target, find_source
from holdfast.storage.threaded import ThreadedStore

if TYPE_CHECKING:
    from holdfast.runtime.telemetry import Telemetry

P = ParamSpec("P")
T = TypeVar("T")


class AsyncEngine:
    """An open store for an event loop, and the entry to its sessions and ledgers. Get one with `holdfast.open_async()`.

    It has the methods of Engine as coroutines. Maintenance of the whole store runs in a thread."""

    def __init__(
        self,
        store: ThreadedStore,
        blobs: BlobStore,
        context: EngineContext,
        locks: AsyncStreamLocks | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.store = store
        self._blob_store = blobs
        self._engine = Engine(store.blocking, blobs, context, telemetry=telemetry)
        self._context = self._engine._context
        self._locks = locks or AsyncStreamLocks()
        self._telemetry = telemetry

    @property
    def admin(self) -> AsyncAdmin:
        """Maintenance: verify, rebuild, collect, backup, export, import, sweep, the outbox and the feed."""
        return AsyncAdmin(self)

    @property
    def memory(self) -> AsyncMemoryFacet:
        """Long-term memory: recall, bootstrap, forget, and the deliveries to it."""
        return AsyncMemoryFacet(self._drive, self._context)

    @property
    def blobs(self) -> AsyncBlobs:
        """Large bodies: put, read, and read in chunks."""
        return AsyncBlobs(self.store, self._blob_store, self._context)

    async def create_session(
        self,
        session: str,
        *,
        user: str | None = None,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        key: str | None = None,
        cause: str | None = None,
        **options: Unpack[SessionOptions],
    ) -> AsyncSession:
        """Create a session. Raises SessionExists if there is one with this name.

            session = await engine.create_session("support-7", user="ada")

        `user` is short for an identity with that id and name, and for the user's ledger, first in `ledgers`.
        SessionOptions lists all options."""
        check_options("create_session", SessionOptions, options)
        context = build_session_context(self._context, actor, session, thread)
        completed = add_user(self._context, user, options)
        await self._drive(lifecycle.create(context, key=key, cause=cause, **completed))
        return AsyncSession(self._drive, context)

    async def session(
        self,
        session: str,
        *,
        user: str | None = None,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        create: bool = False,
        **options: Unpack[SessionOptions],
    ) -> AsyncSession:
        """Open a session by its name. Raises SessionNotFound if there is none, unless `create` is True.

            session = await engine.session("support-7", user="ada", create=True)

        `user` and the options apply only if the session is created now: an existing session keeps its own, as
        state() shows. `actor` is the agent that the session belongs to; `thread` separates several conversations
        under one name."""
        check_options("session", SessionOptions, options)
        context = build_session_context(self._context, actor, session, thread)
        completed = add_user(self._context, user, options)
        if check_flag("create", create):
            await self._drive(lifecycle.ensure(context, **completed))
        else:
            await self._drive(lifecycle.state(context))
        return AsyncSession(self._drive, context)

    async def sessions(
        self,
        *,
        actor: str | None = None,
        status: Literal["open", "closed", "destroyed"] | None = None,
        active_since_us: int | None = None,
        idle_since_us: int | None = None,
        order: Literal["name", "recent"] = "name",
        after: SessionRow | None = None,
        limit: int = 100,
    ) -> tuple[SessionRow, ...]:
        """List the sessions of the tenant by name, or, with `order="recent"`, the last active first.

        `active_since_us` and `idle_since_us` limit the time of the last event, both inclusive. Destroyed sessions
        are listed only with `status="destroyed"`. For the next page, pass the last row of this one as `after`."""
        return await self._drive(
            lifecycle.list_sessions(
                self._context,
                actor=actor,
                status=status,
                active_since_us=active_since_us,
                idle_since_us=idle_since_us,
                order=order,
                after=after,
                limit=limit,
            )
        )

    def ledger(
        self,
        ledger: LedgerId | None = None,
        /,
        *,
        user: str | None = None,
        project: str | None = None,
        organization: str | None = None,
        identity: Identity | None = None,
    ) -> AsyncLedger:
        """Open a ledger of facts: of a user, a project or an organization, or any ledger by its id.

            ledger = engine.ledger(user="ada")

        With `identity`, the ledger shows and accepts what that identity may read and write. Without it, the program
        itself acts: it sees everything and may use any authority."""
        context = build_ledger_context(self._context, ledger, user, project, organization, identity)
        return AsyncLedger(self._drive, context)

    async def ledgers(
        self,
        *,
        kind: Literal["user", "project", "organization", "session"] | None = None,
        after: LedgerRow | None = None,
        limit: int = 100,
    ) -> tuple[LedgerRow, ...]:
        """List the ledgers of the tenant by name. For the next page, pass the last row of this one as `after`."""
        return await self._drive(queries.ledgers(self._context, kind=kind, after=after, limit=limit))

    def resume(self, token: SuspensionToken | str, *, cause: str | None = None) -> AwaitableFrame:
        """Resume the suspended frame that this token belongs to, and return it.

        A token works once, also if several processes use it at the same time."""
        return AwaitableFrame(self._drive, suspension.resume(self._context, token, cause=cause))

    async def suspended(
        self,
        *,
        actor: str | None = None,
        session: str | None = None,
        after: SuspendedFrame | None = None,
        limit: int = 100,
    ) -> list[SuspendedFrame]:
        """List the suspended frames of the tenant by session, without their tokens.

        For the next page, pass the last item of this one as `after`."""
        return await self._drive(
            suspension.list_suspended(self._context, actor=actor, session=session, after=after, limit=limit)
        )

    async def recover(self, scope: Scope, *, key: str | None = None, cause: str | None = None) -> Recovery:
        """Take over a session after an interruption, by its scope. See Session.recover()."""
        return await self._drive(recovery.recover(check_scope_context(self._context, scope), key=key, cause=cause))

    def watch(
        self,
        session: str | None = None,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        ledger: LedgerId | None = None,
        after: str | int | None = "",
        timeout_s: float | None = None,
    ) -> AsyncWatch:
        """Follow the events of a session, of a ledger, or of the whole tenant, and wait for new ones.

            async for event in engine.watch("support-7", after=last_cursor):
                print(event.type, event.cursor)

        Events come in order, and none is skipped, whichever process stores them. `after` is the cursor of the last
        event that you have; without it, the watch begins with the first event, and with None, with the next one.
        In a
        session or a ledger the cursor is the seq of the event, so `after=session.state().version` works too.

        The watch ends when the loop is left, when the engine is closed, or after `timeout_s` seconds without an event:
        0 for what is stored now. Events are shown in full, whoever may read them: choose what you pass on to a
        user."""
        target = build_target(self._context, self.store.blocking, session, actor, thread, ledger)
        return AsyncWatch(
            self._drive, self.store, WatchProgress(target, after, timeout_s, find_source(self.store.blocking))
        )

    def worker(self, *, every_s: float = 5.0, limit: int = 100) -> AsyncWorker:
        """Deliver conversations that ended to long-term memory in the background, while the block runs.

            async with engine.worker():
                await serve()

        Facts that the users stated are learned with it. The worker looks every `every_s` seconds, and when the store
        announces a change; at most `limit` entries are one round. Any number of workers, in any number of processes, share
        the work. What fails is logged, tried again later, and set aside after DELIVERY_TRIES: `holdfast doctor` shows it.
        `holdfast worker` does the same in a process of its own."""
        return AsyncWorker(self._drive, self._context, self.store, every_s, limit)

    def acting_as(self, *, tenant: str | None = None, principal: str | None = None) -> AsyncEngine:
        """Return an engine on the same store for another tenant or principal. Closing one closes both."""
        context = derive_context(self._context, tenant, principal)
        return AsyncEngine(self.store, self._blob_store, context, self._locks, self._telemetry)

    async def close(self) -> None:
        """Close the store. Stored data stays."""
        await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _drive(self, flow: Flow[T], /) -> T:
        if self._telemetry is not None:
            flow = self._telemetry._trace(flow)
        answer = await drive_async(flow, self.store, self._locks)
        log_answer(answer)
        return answer


class AsyncBlobs:
    """The large bodies of one tenant, stored by their content: `engine.blobs`."""

    def __init__(self, store: ThreadedStore, blobs: BlobStore, context: EngineContext) -> None:
        self._threads = store
        self._store = blobs
        self._context = context
        self._blocking = Blobs(blobs, context)

    async def put(
        self, body: bytes | BinaryIO | Iterable[bytes] | AsyncIterable[bytes], *, media_type: str | None = None
    ) -> BlobRef:
        """Store a large body, streamed, and return the reference to use in a message."""
        if not isinstance(body, AsyncIterable):
            return await self._threads.call(self._blocking.put, body, media_type=media_type)
        if media_type is not None:
            check_name("media type", media_type)
        writer = await self._threads.call(self._store.writer, self._context.tenant)
        try:
            async for chunk in body:
                for piece in split_chunk(chunk):
                    await self._threads.call(writer.write, piece)
            ref = await self._threads.call(writer.commit, media_type)
        except BaseException:
            writer.abort()
            raise
        self._context.bodies.note(self._context.tenant, ref)
        log_blob(self._context.tenant, ref)
        return ref

    async def chunks(self, ref: BlobRef) -> AsyncIterator[bytes]:
        """Read a body in chunks. It is verified at the end: StorageCorrupt may be raised after the last chunk."""
        chunks = await self._threads.call(self._blocking.chunks, ref)
        while (chunk := await self._threads.call(next, chunks, None)) is not None:
            yield chunk

    async def read(self, ref: BlobRef) -> bytes:
        """Read a complete body."""
        return await self._threads.call(self._blocking.read, ref)


class AsyncAdmin:
    """Maintenance of a store for an event loop: `engine.admin`. Long operations run in a thread."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._drive = engine._drive
        self._context = engine._context
        self._blocking: Admin = engine._engine.admin

    async def _call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a blocking function in a thread, in the context of this task: spans in it have the right parent."""
        call = functools.partial(contextvars.copy_context().run, method)
        return await self._engine.store.call(functools.partial(call, *args, **kwargs))

    async def verify(self, *, progress: Progress | None = None) -> VerificationReport:
        """Check hash chains, stream heads, snapshots and rows against the log, and all bodies that events refer to.

        Changes nothing. `report.problems` is empty if all is well."""
        return await self._call(self._blocking.verify, progress=progress)

    async def rebuild(self, *, progress: Progress | None = None) -> int:
        """Build all rows again from the log. Returns the number of streams."""
        return await self._call(self._blocking.rebuild, progress=progress)

    async def collect(self, *, grace_s: float = limits.BLOB_GRACE_S) -> int:
        """Remove bodies that no event refers to, unless they were put within the last `grace_s` seconds. Returns how
        many.

        The grace period protects a body whose message is not stored yet."""
        return await self._call(self._blocking.collect, grace_s=grace_s)

    async def backup(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """Copy an SQLite store and its bodies to a new file, while others write. The copy is a complete store."""
        await self._call(self._blocking.backup, target, progress=progress)

    async def export(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Write the events and bodies of all tenants to a file of JSON lines. Returns the number of events.

        import_() reads it into any store, also of another kind."""
        return await self._call(self._blocking.export, target, progress=progress)

    async def import_(self, source: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Read a file that export() wrote. Events that are stored already are skipped. Returns the number of new
        events.

        The file is checked completely first: nothing is stored from a file that is damaged or contradicts this
        store."""
        return await self._call(self._blocking.import_, source, progress=progress)

    async def import_transcript(
        self,
        source: str | os.PathLike[str],
        session: str,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AsyncSession:
        """Create a session from a file of JSON lines with role, content, tool_calls, tool_results and usage.

        Messages that break the rules of a session, such as a result without a call, are kept as evidence. After an
        interruption, call it again: it continues where it stopped."""
        call = functools.partial(self._blocking.import_transcript, actor=actor, thread=thread, metadata=metadata)
        await self._call(call, source, session)
        return await self._engine.session(session, actor=actor, thread=thread)

    async def export_transcript(
        self, target: str | os.PathLike[str], session: str, *, actor: str = DEFAULT_ACTOR, thread: str | None = None
    ) -> int:
        """Write the messages of a session to a file of JSON lines. Returns how many. Imported lines come out
        unchanged."""
        call = functools.partial(self._blocking.export_transcript, actor=actor, thread=thread)
        return await self._call(call, target, session)

    async def sweep(self, *, limit: int = 1_000) -> SweepResult:
        """End idle sessions and frames past their deadline, expire facts, and finish destructions.

        Any number of processes can sweep at the same time. `limit` is the most items of each kind."""
        return await self._drive(lifecycle.sweep(self._context, limit=limit))

    @asynccontextmanager
    async def sweeper(self, every_s: float = 60.0) -> AsyncIterator[None]:
        """Sweep every `every_s` seconds in the background, while the block runs: `async with engine.admin.sweeper():
        …`"""
        pause = check_pause(every_s)

        async def run() -> None:
            while True:
                await asyncio.sleep(pause)
                try:
                    await self.sweep()
                except StoreClosed:
                    return
                except HoldfastError:
                    log_failure(pause)

        task = asyncio.create_task(run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def outbox(self, *, after: Offload | None = None, limit: int = 100) -> list[Offload]:
        """List the conversations that wait for long-term memory, by session.

        For the next page, pass the last entry of this one as `after`."""
        return await self._drive(lifecycle.outbox(self._context, after=after, limit=limit))

    async def offloaded(self, offload: Offload, *, after: int = 0, limit: int = 100) -> list[Message]:
        """Return the messages and the evidence of an outbox entry, oldest first, after the seq `after`; also of a
        destroyed session."""
        return await self._drive(lifecycle.history(self._context, offload, after=after, limit=limit))

    async def acknowledge(self, offload: Offload, *, key: str | None = None) -> None:
        """Confirm that long-term memory has stored this outbox entry. Confirming it again changes nothing."""
        await self._drive(lifecycle.acknowledge(self._context, offload, key=key))

    async def feed(self, cursor: str = "", *, limit: int = 100) -> FeedPage:
        """Return events of all sessions, ledgers and tenants in one order, after `cursor`.

        Pass the cursor of a page to get the next one. Cursors stay valid after a restart."""
        return await self._drive(lifecycle.feed(self._context, cursor, limit=limit))

    def watch(self, *, after: str | None = "", timeout_s: float | None = None) -> AsyncWatch:
        """Follow the events of all sessions, ledgers and tenants. See Engine.watch()."""
        store = self._engine.store
        progress = WatchProgress(
            add_features(WatchTarget(), store.blocking), after, timeout_s, find_source(store.blocking)
        )
        return AsyncWatch(self._drive, store, progress)

    async def totals(self) -> StoreTotals:
        """Return how many streams, events and keys the store has, and its size."""
        return await self._call(self._blocking.totals)
