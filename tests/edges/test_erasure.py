"""What is erased is gone from every place it was in; bodies that nothing needs any more are collected."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast import BlobRef, errors
from holdfast.adapters.system import SystemClock
from holdfast.flows.load import StateCache, load_session_state
from holdfast.model import limits
from holdfast.model.log import StoredEvent
from holdfast.model.names import StreamId
from holdfast.runtime.driver import StreamLocks, drive
from holdfast.storage.memory import MemoryStore
from holdfast.storage.postgres.store import PostgresStore
from holdfast.types import Body
from tests.edges.engines import (
    DURABLE_KINDS,
    KINDS,
    SQLITE_KINDS,
    EngineDesk,
    blobs_of,
    contents,
    expect_refusal,
    log_of,
    read_raw_contents,
    rows_of,
    store_of,
)

SECRET = "the-secret-7f3a9c"
DAY_S = 24 * 3600


def _on_disk(folder: Path, secret: str) -> list[str]:
    """The files below this folder in which the secret can be read."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in files if secret.encode() in path.read_bytes())


@pytest.mark.parametrize("kind", SQLITE_KINDS)
def test_an_erased_text_is_on_no_page_of_any_file(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    session = engine.create_session("s", metadata={"note": f"{SECRET} in metadata"})
    said = [session.record("user", f"{SECRET} number {number} " + "x" * 3_000) for number in range(150)]
    session.record("user", "harmless")
    assert _on_disk(desk.folder, SECRET)
    session.erase([1, *(message.seq for message in said)], "asked to")
    assert _on_disk(desk.folder, SECRET) == []
    messages = session.messages(limit=1_000)
    assert [message.text for message in messages] == [""] * 150 + ["harmless"]
    assert [message.erased for message in messages] == [True] * 150 + [False]
    assert session.state().metadata == {}
    assert engine.admin.verify().ok
    engine.close()
    assert _on_disk(desk.folder, SECRET) == []


@pytest.mark.parametrize("kind", SQLITE_KINDS)
def test_a_reason_for_closing_can_be_erased_and_the_session_stays_closed(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    session = engine.create_session("s")
    session.end(f"{SECRET} was the reason")
    session.erase([2], "asked to")
    assert _on_disk(desk.folder, SECRET) == []
    assert session.state().status == "closed"
    with pytest.raises(errors.SessionClosedError):
        session.record("user", "text")
    assert engine.admin.verify().ok


def test_erasing_keeps_everything_else(engine: holdfast.Engine) -> None:
    session = engine.create_session("s", metadata={"a": 1})
    for number in range(5):
        session.record("user", f"message {number}")
    before = log_of(engine)
    session.erase([3, 5, 3], "asked to")
    after = log_of(engine)
    assert [event.seq for event in after if event.payload is None] == [3, 5]
    assert [event.hash for event in after[:-1]] == [event.hash for event in before]
    assert [message.text for message in session.messages()] == ["message 0", "", "message 2", "", "message 4"]
    assert session.state().messages == 5
    assert engine.admin.verify().ok


def test_erasing_twice_and_erasing_the_erasure_is_fine(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", SECRET)
    session.erase([2], f"asked to by {SECRET}")
    session.erase([2], "again")
    session.erase([3, 4], "and why")
    assert all(SECRET.encode() not in (event.payload or b"") for event in log_of(engine))
    assert session.state().version == 5
    assert engine.admin.verify().ok


def test_nothing_named_means_nothing_erased(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    before = contents(engine)
    session.erase([], "nothing")
    assert contents(engine) == before


@pytest.mark.parametrize("seqs", [[0], [-1], [3], [2**62], [1, 99]])
def test_an_event_that_is_not_there_cannot_be_erased(seqs: list[int], engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "text")
    before = contents(engine)
    with pytest.raises(errors.InvalidInput):
        session.erase(seqs, "a test")
    assert contents(engine) == before


def test_a_key_whose_message_was_erased_is_not_used_again(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "text", key="k")
    session.erase([2], "asked to")
    with pytest.raises(errors.KeyConflict, match="erased"):
        session.record("user", "text", key="k")


@pytest.mark.parametrize("kind", DURABLE_KINDS)
def test_a_state_read_before_an_erasure_elsewhere_is_thrown_away(kind: str, desk: EngineDesk) -> None:
    """Two engines on one store, each with what it remembers of the session."""
    one, two = desk.open(kind), desk.open(kind)
    session = one.create_session("s", metadata={"note": SECRET})
    assert two.session("s").state().metadata == {"note": SECRET}
    session.erase([1], "asked to")
    assert two.session("s").state().metadata == {}
    two.session("s").record("user", "text")
    assert one.admin.verify().ok


# Frames


def _secretive(session: holdfast.Session) -> tuple[holdfast.Frame, holdfast.Frame]:
    """A tree that knows a secret in all its places; its root, and a frame below."""
    root = session.frame(f"{SECRET} goal", budget=1_000, inputs={SECRET: [SECRET]})
    child = root.frame(f"{SECRET} below", budget=100)
    kept = child.budget.reserve(SECRET, 5)
    child.budget.commit(kept, 3)
    child.update(goal=f"{SECRET} still", inputs=SECRET, context_hash=SECRET)
    child.handles.add("document", f"{SECRET} content", title=SECRET, source=SECRET, metadata={SECRET: SECRET})
    child.suspend(f"{SECRET} reason", resumable_by=[SECRET])
    child.revoke(f"{SECRET} again")
    session.frames.get(child.id).reissue()
    child.pop("failed", f"{SECRET} summary", result={"found": SECRET})
    return root, child


def test_an_event_of_a_frame_is_erased_with_its_whole_tree(engine: holdfast.Engine, desk: EngineDesk) -> None:
    session = engine.create_session("s")
    other = session.frame("another matter", budget=10)
    root, child = _secretive(session)
    (handle,) = root.handles.attachments()
    with expect_refusal(engine, errors.InvalidArgument):
        session.erase([session.state().version], "asked to")
    root.pop("completed", SECRET)
    assert SECRET.encode() in read_raw_contents(engine, desk)
    of_tree = {event.seq for event in session.events(limit=100) if event.seq > 2}
    session.erase([session.state().version - 3], "asked to")
    erased = {event.seq for event in session.events(limit=100) if event.payload is None}
    assert erased == of_tree
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    for gone in (root, child):
        with expect_refusal(engine, errors.FrameNotFound, frame=gone.id):
            gone.state()
    with expect_refusal(engine, errors.HandleNotFound):
        session.handles.parts(handle)
    assert [each.id for each in session.frames.list()] == [other.id]
    with expect_refusal(engine, errors.InvalidArgument):
        session.erase([2], "it lives")
    assert session.frame("and on", budget=1).state().status == "active"
    assert engine.admin.verify().ok
    before = rows_of(engine)
    engine.admin.rebuild()
    assert rows_of(engine) == before


def test_a_message_of_a_frame_is_erased_alone(engine: holdfast.Engine, desk: EngineDesk) -> None:
    session = engine.create_session("s")
    with session.frame("work", budget=10) as frame:
        said = frame.record("assistant", SECRET, usage=holdfast.Usage(2, 2))
        session.erase([said.seq], "asked to")
    assert (frame.state().status, frame.state().budget.used) == ("completed", 4)
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    assert engine.admin.verify().ok


def test_a_destroyed_session_leaves_nothing_of_its_frames(engine: holdfast.Engine, desk: EngineDesk) -> None:
    session = engine.create_session("s")
    root, _ = _secretive(session)
    live = root.frame(f"{SECRET} live", budget=10)
    call = live.record("assistant", SECRET, tool_calls=[{"name": SECRET, "args": {SECRET: 1}}]).tool_calls[0]
    live.start_call(call, call_key=SECRET)
    root.suspend(SECRET, resumable_by=SECRET, cascade=True)
    session.recover()
    assert SECRET.encode() in read_raw_contents(engine, desk)
    session.destroy(offload=False)
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    assert [row for row in rows_of(engine) if not isinstance(row, holdfast.types.SessionRow)] == []
    assert engine.admin.verify().ok


# Bodies


def _age(engine: holdfast.Engine, by_s: float, folder: Path) -> None:
    """Make every body this much older."""
    bodies: Any = getattr(engine._blob_store, "_bodies", {})
    for key, (body, touched_s) in list(bodies.items()):
        bodies[key] = (body, touched_s - by_s)
    for path in folder.rglob("*.zst*"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - by_s))
    store = store_of(engine)
    if isinstance(store, PostgresStore):
        with psycopg.connect(store.info) as connection:
            connection.execute("SELECT act_for(NULL)")
            connection.execute("UPDATE blobs SET put_s = put_s - %s", (by_s,))


@pytest.fixture(params=KINDS)
def keeper(request: pytest.FixtureRequest, desk: EngineDesk) -> holdfast.Engine:
    """An engine with the system's clock: what counts as old is a matter of real time."""
    return desk.open(request.param, clock=SystemClock())


def test_bodies_that_nobody_names_go_after_the_grace_period(keeper: holdfast.Engine, desk: EngineDesk) -> None:
    named, unnamed = keeper.blobs.put(b"named"), keeper.blobs.put(b"unnamed")
    keeper.create_session("s").record("user", Body(named))
    assert keeper.admin.collect() == 0
    assert keeper.blobs.read(unnamed) == b"unnamed"
    _age(keeper, 2 * DAY_S, desk.folder)
    assert keeper.admin.collect(grace_s=3 * DAY_S) == 0
    assert keeper.admin.collect() == 1
    assert keeper.blobs.read(named) == b"named"
    with pytest.raises(errors.BlobNotFound):
        keeper.blobs.read(unnamed)
    assert keeper.admin.verify().ok


def test_a_body_goes_when_the_only_message_that_named_it_was_erased(keeper: holdfast.Engine, desk: EngineDesk) -> None:
    only, shared = keeper.blobs.put(b"only"), keeper.blobs.put(b"shared")
    session, other = keeper.create_session("s"), keeper.create_session("t")
    session.record("user", [Body(only), Body(shared)])
    other.record("user", Body(shared))
    session.erase([2], "asked to")
    _age(keeper, 2 * DAY_S, desk.folder)
    assert keeper.admin.collect() == 1
    assert blobs_of(keeper) == [("default", shared.digest)]
    assert keeper.admin.verify().ok


def test_a_body_put_again_within_the_grace_period_stays(keeper: holdfast.Engine, desk: EngineDesk) -> None:
    ref = keeper.blobs.put(b"wanted again")
    _age(keeper, 2 * DAY_S, desk.folder)
    assert keeper.blobs.put(b"wanted again") == ref
    assert keeper.admin.collect() == 0
    assert keeper.blobs.read(ref) == b"wanted again"


def test_a_body_that_one_tenant_names_does_not_keep_anothers(keeper: holdfast.Engine, desk: EngineDesk) -> None:
    other = keeper.acting_as(tenant="other")
    mine, theirs = keeper.blobs.put(b"same bytes"), other.blobs.put(b"same bytes")
    assert mine == theirs
    keeper.create_session("s").record("user", Body(mine))
    _age(keeper, 2 * DAY_S, desk.folder)
    assert keeper.admin.collect() == 1
    assert blobs_of(keeper) == [("default", mine.digest)]


class LaterClock:
    """The system's clock, two days ahead: what the file system dates now is old to it."""

    def now_us(self) -> int:
        return SystemClock().now_us() + 2 * DAY_S * 1_000_000


@pytest.mark.parametrize("kind", SQLITE_KINDS)
def test_what_an_interruption_left_behind_is_swept(kind: str, desk: EngineDesk) -> None:
    now, later = desk.open(kind, clock=SystemClock()), desk.open(kind, clock=LaterClock())
    kept, lost = now.blobs.put(b"kept"), now.blobs.put(b"lost")
    now.create_session("s").record("user", Body(kept))
    [kept_file], [lost_file] = (list(desk.folder.rglob(f"{ref.digest}.zst")) for ref in (kept, lost))
    shutil.copy2(kept_file, f"{kept_file}.dropped")
    lost_file.rename(f"{lost_file}.dropped")
    half = kept_file.parent.parent / "0123.partial"
    half.write_bytes(b"half a bo")
    assert now.blobs.read(lost) == b"lost"
    assert now.admin.collect() == 0
    assert half.exists()
    for _ in range(2):  # the first puts back what nobody made sure of, the second decides anew
        later.admin.collect()
    assert not half.exists()
    assert list(desk.folder.rglob("*.dropped")) == []
    assert now.blobs.read(kept) == b"kept"
    assert blobs_of(now) == [("default", kept.digest)]


def test_a_body_may_come_in_any_shape(engine: holdfast.Engine) -> None:
    body = bytes(range(256)) * 3_000
    shapes: list[Any] = [
        body,
        bytearray(body),
        memoryview(body),
        io.BytesIO(body),
        [body[:1000], b"", body[1000:]],
        (memoryview(body)[at : at + 7_000] for at in range(0, len(body), 7_000)),
    ]
    refs = {engine.blobs.put(shape, media_type="image/png") for shape in shapes}
    assert len(refs) == 1
    ref = refs.pop()
    assert (ref.size, ref.media_type) == (len(body), "image/png")
    assert engine.blobs.read(ref) == b"".join(engine.blobs.chunks(ref)) == body
    assert engine.blobs.read(engine.blobs.put(b"")) == b""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("awaited")])
def test_a_body_may_be_awaited_piece_by_piece(kind: str, desk: EngineDesk) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one ", b"two ", b"three"):
            yield piece

    engine = desk.open(kind)
    assert engine.blobs.read(engine.blobs.put(pieces())) == b"one two three"  # type: ignore[arg-type]


def test_a_body_that_fails_on_its_way_leaves_nothing(engine: holdfast.Engine, desk: EngineDesk) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x" * limits.BLOB_CHUNK_BYTES
        raise ConnectionError("the other side is gone")

    with pytest.raises(ConnectionError, match="the other side"):
        engine.blobs.put(pieces())
    assert blobs_of(engine) == []
    assert list(desk.folder.rglob("*.partial")) == []


def test_a_wrong_size_is_told_when_the_body_is_read(engine: holdfast.Engine) -> None:
    ref = engine.blobs.put(b"body")
    for size in (0, 3, 5, 2**34):
        with pytest.raises(errors.StorageCorrupt):
            engine.blobs.read(BlobRef(ref.digest, size))


class ErasedWhileRead(MemoryStore):
    """A store in which somebody erases an event right after the first page of a stream was read."""

    erase: Callable[[], None] | None = None

    def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[StoredEvent, ...]:
        page = super().read(stream, after=after, limit=limit)
        if self.erase is not None:
            erase, self.erase = self.erase, None
            erase()
        return page


def test_a_state_that_is_loaded_while_others_erase_has_nothing_of_what_is_erased(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The events are read in pages. An event of an earlier page is erased before the next one is read."""
    store = ErasedWhileRead()
    session = holdfast.open(store).session("talk", create=True)
    session.working.set("secret", "swordfish")
    session.record_all([("user", f"line {number}") for number in range(4)])
    monkeypatch.setattr(limits, "READ_EVENTS", 3)
    store.erase = lambda: session.erase([2], "asked to")
    cache = StateCache(4)
    state = drive(load_session_state(session.scope.stream, cache, fresh=True), store, StreamLocks())
    assert "swordfish" not in str(state)
    assert state == session.state() == cache.get(session.scope.stream)


def test_facts_that_another_process_has_just_set_are_erased_with_their_session(tmp_path: Path) -> None:
    """The engine that destroys it still remembers the ledger without them."""
    path = tmp_path / "agent.db"
    with holdfast.open(path) as engine, holdfast.open(path) as other:
        session = engine.create_session("s")
        session.facts.set("lamp", "green")
        other.session("s").facts.set("room", "a secret room")
        session.destroy(offload=False)
        assert all(event.payload is None or b"secret" not in event.payload for event in engine.admin.feed().events)
        assert engine.admin.verify().ok
