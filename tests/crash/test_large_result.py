"""Killed while a large result streams in: nothing of it is recorded, nothing half is visible, and it can be tried again.

Run as a program, this module is what gets killed: it says the number of every piece that it hands over, and after the one
that it was told it waits for its end.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast import BlobRef, Engine, ToolCall
from holdfast.adapters.system import SystemClock
from holdfast.errors import BlobNotFound
from holdfast.model import limits
from holdfast.types import Body
from tests.crash.worker import Nursery, serve_nursery
from tests.support import figure

ROUNDS = figure(4, 100)

pytestmark = pytest.mark.promise(12, "a 100 MB tool result in 64 MB")
PIECES = 64
PIECE_BYTES = 256 << 10
DAY_S = 24 * 3600


def pieces(name: str) -> Iterator[bytes]:
    """Bytes that do not compress: others for every name."""
    rng = random.Random(name)
    for _ in range(PIECES):
        yield rng.randbytes(PIECE_BYTES)


def ref_of(name: str) -> BlobRef:
    digest = hashlib.sha256()
    for piece in pieces(name):
        digest.update(piece)
    return BlobRef(digest.hexdigest(), PIECES * PIECE_BYTES)


def said(name: str, stop: int) -> Iterator[bytes]:
    for number, piece in enumerate(pieces(name), 1):
        yield piece
        os.write(1, b"%d\n" % number)
        if number == stop:
            time.sleep(DAY_S)


async def said_awaited(name: str, stop: int) -> AsyncIterator[bytes]:
    for piece in said(name, stop):
        yield piece


def stream_blocking(path: str, name: str, what: str, stop: int) -> None:
    with holdfast.open(path) as engine:
        if what == "result":
            session = engine.session(name)
            session.result(session.state().open_calls[0], said(name, stop), key=name)
        else:
            engine.blobs.put(said(name, stop))
        os.write(1, b"done\n")
        time.sleep(DAY_S)


async def stream_awaited(path: str, name: str, what: str, stop: int) -> None:
    async with await holdfast.open_async(path) as engine:
        if what == "result":
            session = await engine.session(name)
            await session.result((await session.state()).open_calls[0], said(name, stop), key=name)
        else:
            await engine.blobs.put(said_awaited(name, stop))
        os.write(1, b"done\n")
        await asyncio.sleep(DAY_S)


class LaterClock:
    """Two days ahead: what the file system dates now is old to it."""

    def now_us(self) -> int:
        return SystemClock().now_us() + 2 * DAY_S * 1_000_000


class Stream(msgspec.Struct, frozen=True):
    """What a process is to do: `stop` is the piece after which it waits for its end, if any."""

    how: str
    path: str
    name: str
    what: str
    stop: int


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery("tests.crash.test_large_result")
    yield nursery
    nursery.close()


def _check(engine: Engine, name: str, call: ToolCall, lines: list[str], what: str) -> None:
    """All of it is there, or nothing: whether anything was acknowledged, or the last piece was not even asked for."""
    session = engine.session(name)
    ref = ref_of(name)
    stored = {digest for _, digest, _ in engine._blob_store.stored()}
    if "done" in lines:
        assert ref.digest in stored
    elif str(PIECES) not in lines:
        assert ref.digest not in stored
        with pytest.raises(BlobNotFound):
            engine.blobs.read(ref)
    recorded = session.state().open_calls == ()
    if what == "result":
        assert recorded or "done" not in lines
        assert not recorded or ref.digest in stored
    else:
        assert not recorded
    assert session.state().messages == 1 + recorded
    for _, digest, _ in engine._blob_store.stored():
        body = b"".join(engine._blob_store.chunks("default", BlobRef(digest, ref.size)))
        assert hashlib.sha256(body).hexdigest() == digest
    message = session.result(call, pieces(name), key=name)
    [part] = message.tool_results[0].content
    assert isinstance(part, Body)
    assert (part.ref.digest, part.ref.size) == (ref.digest, ref.size)
    assert session.state().messages == 2


@pytest.mark.parametrize("what", ["result", "put_blob"])
@pytest.mark.parametrize("how", ["blocking", "awaited"])
def test_a_kill_in_the_middle_of_a_stream_leaves_nothing_half(
    how: str, what: str, tmp_path: Path, nursery: Nursery
) -> None:
    path = tmp_path / "agent.db"
    rng = random.Random(f"{how} {what}")
    for number in range(ROUNDS):
        name = f"{number} {how} {what}"
        with holdfast.open(path) as engine:
            call = engine.create_session(name).record("assistant", None, tool_calls=[{"name": "cat"}]).tool_calls[0]
        last = rng.randrange(1, PIECES) if number % 2 == 0 else PIECES
        delay_s = rng.uniform(0, 0.05) if last == PIECES else 0.0
        stream = Stream(how, str(path), name, what, stop=last if last < PIECES else 0)
        lines = [line.decode().strip() for line in nursery.run_and_kill(stream, last, delay_s)]
        with holdfast.open(path) as engine:
            assert (last < PIECES) == (str(PIECES) not in lines)
            _check(engine, name, call, lines, what)
            assert engine.admin.verify().ok
    _check_cleared(path, tmp_path)


def _check_cleared(path: Path, folder: Path) -> None:
    """What the kills left behind goes when it is old, and nothing else does."""
    with holdfast.open(path) as engine:
        engine.admin.collect()
        assert list(folder.rglob("*.partial"))
    with holdfast.open(path, clock=LaterClock()) as engine:
        assert engine.admin.collect(grace_s=limits.BLOB_GRACE_S) == 0
        assert list(folder.rglob("*.partial")) == []
        assert engine.admin.verify().ok


def stream_until_killed(line: bytes) -> None:
    task = msgspec.json.decode(line, type=Stream)
    if task.how == "awaited":
        asyncio.run(stream_awaited(task.path, task.name, task.what, task.stop))
    else:
        stream_blocking(task.path, task.name, task.what, task.stop)


if __name__ == "__main__":
    serve_nursery(stream_until_killed)
