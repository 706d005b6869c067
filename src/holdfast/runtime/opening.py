"""From an address to an engine."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.adapters.system import RandomIds, SystemClock
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.errors import InvalidUrl
from holdfast.flows import maintain
from holdfast.flows.load import StateCache
from holdfast.flows.place import Context
from holdfast.model import limits
from holdfast.model.names import checked_name, checked_whole
from holdfast.ports import BlobStore, Clock, EventStore, IdSource, TokenCounter
from holdfast.runtime.care import BLOB_FOLDER, Bodies, checked_path
from holdfast.runtime.drive import Turns, drive
from holdfast.runtime.engine import Engine
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from holdfast.storage.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from holdfast.runtime.async_engine import AsyncEngine

_SQLITE = "sqlite:///"


def open(
    url: str | os.PathLike[str],
    *,
    tenant: str = "default",
    principal: str = "local",
    clock: Clock | None = None,
    ids: IdSource | None = None,
    counter: TokenCounter | None = None,
    cached_streams: int = limits.CACHED_STREAMS,
) -> Engine:
    """Open a store: a file name, "sqlite:///path/to/file.db", or "memory:" for one that is gone with the process."""
    context = _context(tenant, principal, clock, ids, counter, cached_streams)
    store, blobs = _stores(url)
    return Engine(store, blobs, context(Bodies(blobs)))


async def open_async(
    url: str | os.PathLike[str],
    *,
    tenant: str = "default",
    principal: str = "local",
    clock: Clock | None = None,
    ids: IdSource | None = None,
    counter: TokenCounter | None = None,
    cached_streams: int = limits.CACHED_STREAMS,
) -> AsyncEngine:
    """`open` for an event loop: the same engine, awaited."""
    import asyncio  # noqa: PLC0415 - who blocks has no need of it, and it is half the time of an import

    from holdfast.runtime.async_engine import AsyncEngine  # noqa: PLC0415 - the same
    from holdfast.storage.threaded import ThreadedStore  # noqa: PLC0415 - the same

    context = _context(tenant, principal, clock, ids, counter, cached_streams)
    store, blobs = await asyncio.to_thread(_stores, url)
    return AsyncEngine(ThreadedStore(store), blobs, context(Bodies(blobs)))


def _context(
    tenant: str,
    principal: str,
    clock: Clock | None,
    ids: IdSource | None,
    counter: TokenCounter | None,
    cached_streams: int,
) -> Callable[[Bodies], Context]:
    """What everything is done in, but for the blob store: that is opened only when all this is found to be in order."""
    return functools.partial(
        Context,
        checked_name("tenant", tenant),
        checked_name("principal", principal),
        StateCache(checked_whole("cached_streams", cached_streams, 1)),
        clock or SystemClock(),
        ids or RandomIds(),
        counter or EstimatingCounter(),
    )


def _stores(url: str | os.PathLike[str]) -> tuple[EventStore, BlobStore]:
    address = checked_path(url)
    if address in ("memory:", ":memory:"):
        return MemoryStore(), MemoryBlobs()
    path = _path(address)
    store = SqliteStore(path)
    try:
        drive(maintain.rebuild_if_old(), store, Turns())
    except BaseException:
        store.close()
        raise
    return store, FolderBlobs(path + BLOB_FOLDER)


def _path(address: str) -> str:
    scheme, separator, _ = address.partition("://")
    if not separator:
        return address
    path = address.removeprefix(_SQLITE)
    if path not in (address, "", ":memory:"):
        return path
    raise InvalidUrl(url=address, reason=f"no store for {scheme!r} is known here")
