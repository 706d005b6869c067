"""`holdfast.open` on a store object: any object that has the methods of the store contract."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import InvalidArgument, StoreClosed
from holdfast.ports import EventStore
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from holdfast.storage.sqlite.store import SqliteStore

LONG = "line of a long report\n" * 20_000


class CountingStore:
    """A store of a user: it counts the appends, and passes everything on."""

    def __init__(self, inner: EventStore) -> None:
        self._inner = inner
        self.appends = 0

    def append(self, append: Any) -> Any:
        self.appends += 1
        return self._inner.append(append)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class WholeStore(MemoryStore, MemoryBlobs):
    """A store that keeps large bodies too."""

    def __init__(self) -> None:
        MemoryStore.__init__(self)
        MemoryBlobs.__init__(self)


def use_engine(store: object, awaited: bool, **options: Any) -> tuple[list[str], int]:
    """Record a few messages, one of them large; return all texts as read back, and the number of bodies put."""
    opened: Any = store

    async def use() -> tuple[list[str], int]:
        async with await holdfast.open_async(opened, **options) as engine:
            session = await engine.create_session("s")
            await session.record("user", "Where is my order?")
            await session.record("user", LONG)
            parts = [part for message in await session.messages() for part in message.content]
            bodies = [part.ref for part in parts if isinstance(part, holdfast.types.Body)]
            texts = [part.text for part in parts if isinstance(part, holdfast.Text)]
            texts += [(await engine.blobs.read(ref)).decode() for ref in bodies]
            assert (await engine.admin.verify()).problems == ()
            return texts, len(bodies)

    if awaited:
        return asyncio.run(use())
    with holdfast.open(opened, **options) as engine:
        session = engine.create_session("s")
        session.record("user", "Where is my order?")
        session.record("user", LONG)
        parts = [part for message in session.messages() for part in message.content]
        bodies = [part.ref for part in parts if isinstance(part, holdfast.types.Body)]
        texts = [part.text for part in parts if isinstance(part, holdfast.Text)]
        texts += [engine.blobs.read(ref).decode() for ref in bodies]
        assert engine.admin.verify().problems == ()
        return texts, len(bodies)


AWAITED = pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])


@AWAITED
def test_an_engine_works_on_a_store_of_holdfast_and_closes_it(awaited: bool) -> None:
    store = MemoryStore()
    assert use_engine(store, awaited) == (["Where is my order?", LONG], 1)
    with pytest.raises(StoreClosed):
        store.totals()


@AWAITED
def test_a_file_store_keeps_its_bodies_beside_the_file(awaited: bool, tmp_path: Path) -> None:
    assert use_engine(SqliteStore(tmp_path / "a.db"), awaited) == (["Where is my order?", LONG], 1)
    assert len(list(FolderBlobs(tmp_path / "a.db.blobs").stored())) == 1


@AWAITED
def test_an_engine_works_on_a_store_of_a_user(awaited: bool) -> None:
    store, blobs = CountingStore(MemoryStore()), MemoryBlobs()
    assert use_engine(store, awaited, blobs=blobs) == (["Where is my order?", LONG], 1)
    assert store.appends == 3
    assert len(list(blobs.stored())) == 1


@AWAITED
def test_a_store_that_keeps_bodies_needs_no_other(awaited: bool) -> None:
    store = WholeStore()
    assert use_engine(store, awaited) == (["Where is my order?", LONG], 1)
    assert len(list(store.stored())) == 1


@AWAITED
def test_the_bodies_of_a_file_can_be_stored_elsewhere(awaited: bool, tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    assert use_engine(tmp_path / "a.db", awaited, blobs=blobs) == (["Where is my order?", LONG], 1)
    assert len(list(blobs.stored())) == 1
    assert not (tmp_path / "a.db.blobs").exists()


@AWAITED
def test_a_store_of_a_user_needs_a_place_for_bodies(awaited: bool) -> None:
    store = CountingStore(MemoryStore())
    with pytest.raises(InvalidArgument, match=r"`blobs`: CountingStore is not a store of Holdfast") as caught:
        use_engine(store, awaited)
    assert caught.value.argument == "blobs"
    assert store.totals().streams == 0  # still open: it is not the engine's to close


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@AWAITED
@pytest.mark.parametrize(
    "value", [b"agent.db", None, 7, object(), MemoryBlobs(), Hostile()], ids=lambda v: type(v).__name__
)
def test_an_object_that_is_no_store_is_refused(value: object, awaited: bool) -> None:
    with pytest.raises(InvalidArgument, match=r"Invalid argument `store`: .*holdfast\.ports\.EventStore") as caught:
        use_engine(value, awaited)
    assert caught.value.argument == "store"


@AWAITED
@pytest.mark.parametrize("value", [b"folder", 7, MemoryStore(), Hostile()], ids=lambda v: type(v).__name__)
def test_an_object_that_is_no_blob_store_is_refused(value: Any, awaited: bool, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"Invalid argument `blobs`: .*has no method writer\(\)"):
        use_engine(tmp_path / "a.db", awaited, blobs=value)
    assert list(tmp_path.iterdir()) == []


@AWAITED
def test_an_option_that_does_not_exist_is_refused(awaited: bool, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="polcy"):
        use_engine(tmp_path / "a.db", awaited, polcy=None)
    assert list(tmp_path.iterdir()) == []
