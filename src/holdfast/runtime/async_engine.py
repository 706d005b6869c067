"""What users of an event loop open: the twin of `engine`, awaited. Imported only when asked for."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeVar

from holdfast.core.layers import checked_identity
from holdfast.errors import HoldfastError, StoreClosed
from holdfast.flows import knowing, recovering, suspending
from holdfast.flows import ledgers as ledger_flows
from holdfast.flows import sessions as session_flows
from holdfast.flows.effects import Flow
from holdfast.flows.maintain import Report
from holdfast.flows.place import Context, LedgerPlace
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.frames import Recovery
from holdfast.model.layers import Identity
from holdfast.model.log import Totals
from holdfast.model.names import LedgerId, Scope, checked_flag, checked_name
from holdfast.ports import BlobStore
from holdfast.runtime import care
from holdfast.runtime.async_held import AsyncLedger, AsyncSession, awaiting, waking
from holdfast.runtime.drive_async import AsyncTurns, drive_async
from holdfast.runtime.engine import DEFAULT_ACTOR, Engine, Progress, place_in, place_of, renamed
from holdfast.runtime.sweeper import checked_pause, tell
from holdfast.storage.threaded import ThreadedStore

T = TypeVar("T")


class AsyncEngine:
    """The engine for an event loop. Care of the whole store runs in a thread."""

    def __init__(
        self, store: ThreadedStore, blobs: BlobStore, context: Context, turns: AsyncTurns | None = None
    ) -> None:
        self.store = store
        self.blobs = blobs
        self._blocking = Engine(store.blocking, blobs, context)
        self._place = self._blocking._place
        self._turns = turns or AsyncTurns()

    sessions = awaiting(session_flows.listed)
    sweep = awaiting(session_flows.sweep)
    outbox = awaiting(session_flows.outbox)
    history = awaiting(session_flows.history)
    acknowledge = awaiting(session_flows.acknowledge)
    feed = awaiting(session_flows.feed)
    ledgers = awaiting(knowing.ledgers)
    suspended = awaiting(suspending.suspended)
    resume = waking(suspending.resume)

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
        """A ledger of facts: a user's, a project's or an organisation's, or one by its id, as this identity may see it and
        write to it. Without one, the program itself speaks: it sees everything and may claim any authority."""
        named = ledger_flows.ledger_named(self._place, ledger, user=user, project=project, organization=organization)
        writer = ledger_flows.writer_for(self._place, None if identity is None else checked_identity(identity))
        return AsyncLedger(self._drive, LedgerPlace(self._place, named, writer))

    def acting_as(self, *, tenant: str | None = None, principal: str | None = None) -> AsyncEngine:
        """The same engine for another tenant or in another's name; close either one to close both."""
        return AsyncEngine(self.store, self.blobs, renamed(self._place, tenant, principal), self._turns)

    async def create_session(
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
    ) -> AsyncSession:
        """A new session; SessionExists if there is one of that name. `idle_timeout_s` is how long it may be idle before
        `sweep` ends it, `identity` who speaks in it until the program refreshes it, and `ledgers` are those that it reads
        after its own."""
        place = place_of(self._place, actor, session, thread)
        made = session_flows.create(
            place, metadata, idle_timeout_s=idle_timeout_s, identity=identity, ledgers=ledgers, key=key, cause=cause
        )
        await self._drive(made)
        return AsyncSession(self._drive, place)

    async def session(
        self,
        session: str,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        create: bool = False,
        identity: Identity | None = None,
        ledgers: Sequence[LedgerId] = (),
    ) -> AsyncSession:
        """A session that is there already; SessionNotFound otherwise, unless it is to be created then. `identity` and
        `ledgers` are used only if it is created now: one that is there keeps its own, which state() tells."""
        place = place_of(self._place, actor, session, thread)
        if checked_flag("create", create):
            await self._drive(session_flows.ensure(place, identity=identity, ledgers=ledgers))
        else:
            await self._drive(session_flows.state(place))
        return AsyncSession(self._drive, place)

    async def recover(self, scope: Scope, *, key: str | None = None, cause: str | None = None) -> Recovery:
        return await self._drive(recovering.recover(place_in(self._place, scope), key=key, cause=cause))

    recover.__doc__ = recovering.recover.__doc__

    @asynccontextmanager
    async def sweeper(self, every_s: float = 60.0) -> AsyncIterator[None]:
        """Sweep in the background for as long as this is entered: `async with engine.sweeper(): …`"""
        pause = checked_pause(every_s)

        async def run() -> None:
            while True:
                await asyncio.sleep(pause)
                try:
                    await self.sweep()
                except StoreClosed:
                    return
                except HoldfastError:
                    tell(pause)

        task = asyncio.create_task(run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def put_blob(
        self,
        body: bytes | BinaryIO | Iterable[bytes] | AsyncIterable[bytes],
        *,
        media_type: str | None = None,
    ) -> BlobRef:
        """Keep a large body, streamed; the reference goes into a message."""
        if not isinstance(body, AsyncIterable):
            return await self.store.call(self._blocking.put_blob, body, media_type=media_type)
        if media_type is not None:
            checked_name("media type", media_type)
        writer = await self.store.call(self.blobs.writer, self._place.tenant)
        try:
            async for chunk in body:
                for piece in care.pieces(chunk):
                    await self.store.call(writer.write, piece)
            ref = await self.store.call(writer.commit, media_type)
        except BaseException:
            writer.abort()
            raise
        self._place.bodies.note(self._place.tenant, ref)
        return ref

    async def blob_chunks(self, ref: BlobRef) -> AsyncIterator[bytes]:
        """A body in pieces, checked on the way. The last piece may end in StorageCorrupt: use nothing before it ended."""
        chunks = await self.store.call(self._blocking.blob_chunks, ref)
        while (chunk := await self.store.call(next, chunks, None)) is not None:
            yield chunk

    async def read_blob(self, ref: BlobRef) -> bytes:
        return await self.store.call(self._blocking.read_blob, ref)

    async def verify(self, *, progress: Progress | None = None) -> Report:
        """Compare everything with everything: hash chains, heads, snapshots, rows, and the bodies that events name."""
        return await self.store.call(self._blocking.verify, progress=progress)

    async def rebuild(self, *, progress: Progress | None = None) -> int:
        """Make all rows anew from the log; how many streams there were."""
        return await self.store.call(self._blocking.rebuild, progress=progress)

    async def collect_blobs(self, *, grace_s: float = limits.BLOB_GRACE_S) -> int:
        """Remove bodies that no event names and that nobody put within the grace period; how many."""
        return await self.store.call(self._blocking.collect_blobs, grace_s=grace_s)

    async def backup(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """A copy of the file and its blobs, complete in itself, while others write."""
        await self.store.call(self._blocking.backup, target, progress=progress)

    async def export(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """All tenants' events and blobs as JSON lines; how many events."""
        return await self.store.call(self._blocking.export, target, progress=progress)

    async def import_(self, source: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Take in an export; events that are here already are passed over. How many were new."""
        return await self.store.call(self._blocking.import_, source, progress=progress)

    async def import_transcript(
        self,
        source: str | os.PathLike[str],
        session: str,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AsyncSession:
        """A new session from JSON lines that another system wrote: role, content, tool_calls, tool_results, usage. What
        breaks a session's rules is kept as evidence. Repeating it after an interruption goes on where it was."""
        call = functools.partial(self._blocking.import_transcript, actor=actor, thread=thread, metadata=metadata)
        await self.store.call(call, source, session)
        return await self.session(session, actor=actor, thread=thread)

    async def export_transcript(
        self,
        target: str | os.PathLike[str],
        session: str,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
    ) -> int:
        """A session's messages as JSON lines for other systems; how many. What was imported comes out as it went in."""
        call = functools.partial(self._blocking.export_transcript, actor=actor, thread=thread)
        return await self.store.call(call, target, session)

    async def totals(self) -> Totals:
        return await self.store.call(self._blocking.totals)

    async def close(self) -> None:
        await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _drive(self, flow: Flow[T]) -> T:
        return await drive_async(flow, self.store, self._turns)
