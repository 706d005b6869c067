"""Forks. A fork and its parent are equal until one of them goes on alone. What one does is not seen by the other, except an
erasure in the session that stores the events."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

import holdfast
from holdfast import codec, errors
from holdfast.core.invariants import find_violations
from holdfast.flows.load import StateCache, load_session_state, replay_stream
from holdfast.model.rows import MentionRow, OutboxRow, SessionRow, scope_of
from holdfast.runtime.driver import StreamLocks, drive
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from tests.property.fork_player import (
    KEYS,
    WEIGHTS,
    World,
    draw_steps,
    find_marks,
    hide_names,
    read_all,
)
from tests.property.store_tools import all_events, all_rows, rows_dump, session_events
from tests.support import figure

HISTORIES = figure(4, 400)
STEPS = 30
MEDDLING_THREADS = 9
CALM = {name: weight for name, weight in WEIGHTS.items() if name not in ("delete", "wait")}
"""Steps that change nothing but the session in which they are played."""


def tree_of(world: World, chance: Random, steps: int = STEPS, weights: dict[str, float] | None = None) -> list[Any]:
    """A session with forks, and forks of forks, at any points."""
    sessions = [world.create("talk-0")]
    for step in draw_steps(chance, steps, weights or CALM):
        session = chance.choice(sessions)
        world.play(session, step)
        if chance.random() < 0.15 and len(sessions) < 6:
            at = chance.choice([None, chance.randint(1, session.state().version)])
            sessions.append(session.fork(at, as_=f"talk-{len(sessions)}"))
    return sessions


def own_rows(engine: holdfast.Engine, session: holdfast.Session) -> list[tuple[str, bytes]]:
    """The rows of a session and of its ledger, with its name replaced and without the one row that tells when it began."""
    name = session.scope.session
    ledger = codec.encode_stream_key(session.ledger().id.stream)
    rows = [
        row
        for row in all_rows(engine)
        if not isinstance(row, SessionRow)
        and (
            (not hasattr(row, "ledger") and getattr(row, "session", "") == name) or getattr(row, "ledger", "") == ledger
        )
    ]
    return sorted((type(row).table, hide_names(codec.encode(row))) for row in rows)


def check_store(world: World, sessions: list[Any], folder: Path | None = None) -> None:
    """The store is sound, its rows follow from its events, and others read the same from it and from copies of it."""
    engine = world.engine
    report = engine.admin.verify()
    assert report.ok, report.problems
    rows = rows_dump(engine)
    read = {session.scope.session: read_all(session) for session in sessions}
    assert engine.admin.rebuild()
    assert rows_dump(engine) == rows
    readers = [world.open(), world.open(cached_streams=1)]
    copied = world.open(MemoryStore(), MemoryBlobs())
    holdfast.copy(engine, copied)
    readers.append(copied)
    if folder is not None:
        engine.admin.export(folder / "log.jsonl")
        imported = world.open(MemoryStore(), MemoryBlobs())
        imported.admin.import_(folder / "log.jsonl")
        assert imported.admin.import_(folder / "log.jsonl") == 0
        readers.append(imported)
    for reader in readers:
        report = reader.admin.verify()
        assert report.ok, report.problems
        assert rows_dump(reader) == rows
        for name, before in read.items():
            assert_same(read_all(reader.session(name)), before)


def assert_same(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    for name, value in one.items():
        assert value == other[name], name


# A fork and its parent


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_fork_and_its_parent_stay_equal_under_the_same_commands(seed: int) -> None:
    world, chance = World(), Random(seed)
    session = world.create("talk-0")
    for step in draw_steps(chance, STEPS):
        world.play(session, step)
    world.settle(session)
    branch = session.fork(as_="talk-1")
    assert branch.state().version == session.state().version
    assert session_events(session)[-1].type == "session.branched"
    assert session_events(branch)[-1].type == "session.forked"
    assert_same(read_all(branch), read_all(session))
    for step in draw_steps(chance, STEPS):
        if step.name == "wait":
            world.play(session, step)
            continue
        if step.pick % 9 == 0:
            world.engine.ledger(user="ada").set(KEYS[step.pick % 3], f"{step.mark} square")
        went = world.play(branch, step)
        if went == "EventShared":  # an entry that is stored in the parent: deleted there, it is deleted in both
            went = ""
        assert world.play(session, step) == went, step
        assert find_violations(branch.state()) == []
    assert_same(read_all(branch), read_all(session))
    if seed % 3 == 0:
        check_store(world, [session, branch])


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_fork_at_an_older_point_is_as_one_that_was_made_there(seed: int) -> None:
    world, chance = World(), Random(seed)
    session = world.create("talk-0")
    early: list[tuple[int, Any]] = []
    for step in draw_steps(chance, STEPS, CALM):
        world.play(session, step)
        if chance.random() < 0.2:
            early.append((session.state().version, session.fork(as_=f"talk-{len(early) + 1}")))
    for number, (cut, branch) in enumerate(early):
        late = session.fork(cut, as_=f"talk-{number + 100}")
        assert find_violations(late.state()) == []
        assert_same(read_all(late), read_all(branch))
        assert own_rows(world.engine, late) == own_rows(world.engine, branch)
    assert world.engine.admin.verify().problems == ()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_sessions_of_one_tree_do_not_see_each_other(seed: int, tmp_path: Path) -> None:
    world, chance = World(), Random(seed)
    sessions = tree_of(world, chance)
    for step in draw_steps(chance, 8, CALM):
        session, *others = chance.sample(sessions, len(sessions))
        before = [read_all(other) for other in others[:2]]
        world.play(session, step)
        for other, read in zip(others, before, strict=False):
            assert_same(read_all(other), read)
    check_store(world, sessions, tmp_path)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_fork_can_begin_at_any_event(seed: int) -> None:
    world, chance = World(), Random(seed)
    session = world.create("talk-0")
    for step in draw_steps(chance, 15):
        world.play(session, step)
    for cut in chance.sample(range(1, session.state().version + 1), 6):
        branch = session.fork(cut, as_=f"talk-{cut}")
        state = branch.state()
        assert find_violations(state) == []
        assert (state.open_calls, dict(state.frames), state.leases) == ((), {}, {})
        assert [event.seq for event in session_events(branch)] == [*range(1, state.version + 1)]
        branch.record("user", "Go on.")
        read_all(branch)
    assert world.engine.admin.verify().problems == ()


# Erasure


def texts_of(world: World, sessions: list[Any], folder: Path) -> bytes:
    """All text of a store: its events, rows, snapshots, bodies in use, an export, and all that can be read."""
    engine = world.engine
    engine.admin.collect(grace_s=0)
    engine.admin.export(folder / "log.jsonl")
    found = [event.payload or b"" for event in all_events(engine)] + [rows_dump(engine)]
    found += [(folder / "log.jsonl").read_bytes()]
    for stream in {event.stream for event in all_events(engine)}:
        snapshot = engine.store.snapshot(stream)
        found += [snapshot.state] if snapshot else []
    found += [b"".join(read_all(session).values()) for session in sessions]
    return b"\n".join(found)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_what_is_erased_in_a_session_is_nowhere_in_its_forks(seed: int, tmp_path: Path) -> None:
    world, chance = World(), Random(seed)
    sessions = tree_of(world, chance)
    for _ in range(5):
        session = chance.choice(sessions[:3])
        before = [marks_by_seq(other) for other in sessions]
        own = before[sessions.index(session)]
        with suppress(errors.EventShared, errors.CallsOpen, errors.InvalidArgument):
            session.erase([chance.choice([seq for seq in own if own[seq]] or [1])], "asked to")
        after = [marks_by_seq(other) for other in sessions]
        check_reach(session, sessions, before, after)
        gone = {mark for old, new in zip(before, after, strict=True) for seq in old for mark in old[seq] - new[seq]}
        if gone:
            assert not gone & find_marks(texts_of(world, sessions, tmp_path))
    check_store(world, sessions, tmp_path)


def check_reach(session: Any, sessions: list[Any], before: list[Any], after: list[Any]) -> None:
    """An erasure reaches what a fork shares, the calls' results that it has of its own, and nothing else."""
    for other, old, new in zip(sessions, before, after, strict=True):
        origin = other.state().origin
        lineage = origin.lineage if origin else ()
        roles = {message.seq: message.role for message in other.messages(limit=1_000)}
        for seq in (seq for seq in old if old[seq] and not new[seq] and other is not session):
            owner = next((each.key[1] for each in lineage if seq <= each.last), None)
            assert roles.get(seq) == "tool" if owner is None else not stored(sessions, owner, after)[seq]


def stored(sessions: list[Any], name: str, marks: list[Any]) -> Any:
    return next(each for session, each in zip(sessions, marks, strict=True) if session.scope.session == name)


def marks_by_seq(session: holdfast.Session) -> dict[int, set[str]]:
    messages = (*session.messages(limit=1_000), *session.evidence(limit=1_000))
    return {message.seq: find_marks(codec.encode(message)) for message in messages}


class MeddlingStore(MemoryStore):
    """A store in which something happens right after somebody looked for forks, once."""

    meddle: Callable[[], object] | None = None
    parent = ""

    def rows(self, table: Any, where: Any, **options: Any) -> Any:
        found = super().rows(table, where, **options)
        if table is SessionRow and where.get("parent") == self.parent and self.meddle is not None:
            meddle, self.meddle = self.meddle, None
            meddle()
        return found


@pytest.mark.parametrize("what", ["message", "fact", "entry"])
@pytest.mark.parametrize("of", [0, 1])
def test_a_fork_that_begins_during_an_erasure_has_nothing_of_what_is_erased(what: str, of: int) -> None:
    store = MeddlingStore()
    world = World(store)
    first = world.create("talk-0")
    message = first.record("user", "a secret")
    fact = first.ledger().set("city", "a secret")
    first.entries.append("checkpoint", "k", "a secret")
    second = first.fork(as_="talk-1")
    other = world.open()
    store.parent = codec.encode_stream_key((first, second)[of].scope.stream)
    store.meddle = lambda: other.session(f"talk-{of}").fork(as_="talk-2")
    first = world.open().session("talk-0")  # with nothing in its cache
    match what:
        case "message":
            first.erase([message.seq], "asked to")
        case "fact":
            first.ledger().erase(fact.id, "asked to")
        case _:
            first.entries.delete(["k"])
    third = world.open().session("talk-2")
    read = read_all(third)
    about = {"message": ("messages", "view"), "fact": ("ledger", "search"), "entry": ("entries",)}[what]
    assert not any(b"secret" in read[name] for name in about)
    assert world.engine.admin.verify().problems == ()


def test_an_erasure_succeeds_beside_a_thread_that_forks_without_pause() -> None:
    store = MeddlingStore()
    session = World(store).create("talk-0")
    message = session.record("user", "a secret")
    store.parent = codec.encode_stream_key(session.scope.stream)
    threads: list[Thread] = []

    def fork() -> None:
        """Fork in another thread, which may have to wait for the erasure."""
        threads.append(Thread(target=session.fork))
        threads[-1].start()
        threads[-1].join(0.05)
        store.meddle = fork if len(threads) < MEDDLING_THREADS else None

    store.meddle = fork
    session.erase([message.seq], "asked to")
    store.meddle = None
    for thread in threads:
        thread.join()
    assert len(threads) < MEDDLING_THREADS, "it was done only when there were no more forks"
    assert len(session.forks()) == len(threads)


# Destruction


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_destroyed_fork_leaves_nothing_of_its_own_and_its_parent_as_it_was(seed: int, tmp_path: Path) -> None:
    world, chance = World(), Random(seed)
    sessions = tree_of(world, chance)
    while len(sessions) > 1:
        live = {row.parent for row in all_rows(world.engine) if isinstance(row, SessionRow) and not row.gone}
        victim = chance.choice(sessions)
        others = [each for each in sessions if each is not victim]
        if codec.encode_stream_key(victim.scope.stream) in live:
            with pytest.raises(errors.SessionHasForks):
                victim.destroy()
            continue
        acknowledge(world.engine)
        before = [read_all(other) for other in others]
        own = find_marks(b"".join(read_all(victim).values()))
        victim.destroy(offload=False)
        acknowledge(world.engine)
        for other, read in zip(others, before, strict=True):
            assert_same(read_all(other), read)
        own -= find_marks(b"".join(b"".join(each.values()) for each in before))
        assert not own & find_marks(texts_of(world, others, tmp_path))
        left = {type(row) for row in all_rows(world.engine) if getattr(row, "session", "") == victim.scope.session}
        assert left <= {SessionRow, OutboxRow, MentionRow}, left
        check_states(world.engine)
        sessions = others
        check_store(world, sessions, tmp_path)


def acknowledge(engine: holdfast.Engine) -> None:
    for offload in engine.admin.outbox(limit=1_000):
        engine.admin.acknowledge(offload)


def check_states(engine: holdfast.Engine) -> None:
    """The states of sessions, also of destroyed ones, are those that a replay gives."""
    for row in all_rows(engine):
        if isinstance(row, SessionRow):
            stream = scope_of(row).stream
            state = drive(load_session_state(stream, StateCache(1), fresh=True), engine.store, StreamLocks())
            assert drive(replay_stream(stream, state.version), engine.store, StreamLocks())[0] == state
