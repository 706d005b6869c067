"""Entries of other frameworks, through the public API. Everywhere the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from benchmarks.entries import disk_bytes, write

import holdfast
from holdfast import Engine, codec, errors
from holdfast.core import upcast
from holdfast.model import limits
from holdfast.model.entries.events import chunk_refs
from holdfast.model.rows import BlobRow, ChunkRow, EntryRow
from holdfast.types import NewEntry, SummaryDraft, shorten_name
from tests.edges.engines import (
    DURABLE_KINDS,
    EngineDesk,
    ManualClock,
    contents,
    expect_refusal,
    log_of,
    read_raw_contents,
    replace_store,
    rows_of,
    store_of,
)
from tests.edges.test_view_reads import Counting

LATER_S = 4_000_000_000.0
"""Long after any body was put, by the clock of this machine."""
SECRET = "the-secret-7f3a9c"


def grow(session: Any, steps: int, name: str = "c") -> list[dict[str, Any]]:
    """Checkpoints of a list that grows, each after the one before."""
    bodies = [
        {"step": step, "messages": [f"message {each} of {name} " * 20 for each in range(step + 1)]}
        for step in range(steps)
    ]
    for step, body in enumerate(bodies):
        session.entries.append("checkpoint", f"{name}{step}", body, parent=f"{name}{step - 1}" if step else None)
    return bodies


def test_entries_come_back_by_key_kind_and_parent_newest_first(engine: Engine) -> None:
    session: Any = engine.create_session("s")
    bodies = grow(session, 12)
    session.record("user", "Between them.")
    blob = random.Random(1).randbytes(70_000)
    written = [
        session.entries.append("write", f"w{number}", body, parent="c3") for number, body in enumerate([None, blob])
    ]
    entries = session.entries
    assert [entries.get(f"c{step}").body for step in range(12)] == bodies
    assert [entry.key for entry in entries.list(limit=3)] == ["w1", "w0", "c11"]
    assert entries.list(kind="write") == written[::-1]
    assert [entry.key for entry in entries.list(parent="c3")] == ["w1", "w0", "c4"]
    assert [entry.key for entry in entries.list(parent="c3", kind="checkpoint")] == ["c4"]
    page = entries.list(kind="checkpoint", limit=5)
    assert [entry.key for entry in entries.list(kind="checkpoint", before=page[-1].seq, limit=2)] == ["c6", "c5"]
    assert entries.get("nothing") is None
    assert entries.list(kind="nothing") == entries.list(parent="nothing") == []
    assert [(entry.key, entry.body, entry.size) for entry in entries.list(kind="write", bodies=False)] == [
        ("w1", None, 70_000),
        ("w0", None, 4),
    ]


def test_a_key_names_one_entry(engine: Engine) -> None:
    session: Any = engine.create_session("s")
    first = session.entries.append("checkpoint", "a", {"n": 1}, parent="p")
    before = contents(engine)
    assert session.entries.append("checkpoint", "a", {"n": 1}, parent="p") == first
    for other in (
        ("checkpoint", "a", {"n": 1.0}, "p"),
        ("other", "a", {"n": 1}, "p"),
        ("checkpoint", "a", {"n": 1}, None),
    ):
        kind, key, body, parent = other
        with pytest.raises(errors.EntryConflict, match="an entry 'a' with another kind"):
            session.entries.append(kind, key, body, parent=parent)
    with pytest.raises(errors.EntryConflict):
        session.entries.append("checkpoint", "a", b'{"n":1}', parent="p")  # bytes are no JSON
    assert contents(engine) == before
    engine.create_session("t").entries.append("checkpoint", "a", "another session")


def test_several_are_appended_at_once_or_not_at_all(engine: Engine) -> None:
    session: Any = engine.create_session("s")
    new = [NewEntry("write", f"w{number}", number) for number in range(5)]
    entries = session.entries.append_all(new, expect=1, key="once", cause="a task")
    assert [entry.body for entry in entries] == [0, 1, 2, 3, 4]
    assert session.entries.append_all(new, expect=1, key="once") == entries
    before = contents(engine)
    with pytest.raises(errors.VersionConflict):
        session.entries.append_all([NewEntry("write", "w9", 9)], expect=1)
    with pytest.raises(errors.KeyConflict):
        session.entries.append_all(new[:2], key="once")
    with pytest.raises(errors.EntryConflict):
        session.entries.append_all([NewEntry("write", "w9", 9), NewEntry("write", "w0", "other")])
    assert session.entries.append_all([]) == []
    assert contents(engine) == before
    assert {event.cause for event in session.events(after=1)} == {"a task"}


def test_what_is_deleted_is_gone_with_all_that_only_it_had(engine: Engine) -> None:
    session: Any = engine.create_session("s")
    bodies = grow(session, 12)
    session.entries.append("write", "w", {"text": [SECRET * 9_000]}, parent="c3")
    session.entries.append("write", "v", {"texts": [f"{SECRET} {number} " * 30 for number in range(20)]})
    session.entries.delete(["w", "v", "unknown"], reason="asked to", key="delete", cause="a task")
    version = session.state().version
    session.entries.delete(["w", "v", "unknown"], reason="asked to", key="delete", cause="a task")
    session.entries.delete(["unknown"])
    session.entries.delete([])
    assert session.state().version == version
    assert session.entries.get("w") is None
    assert not [event for event in log_of(engine) if SECRET.encode() in (event.payload or b"")]
    assert not [row for row in rows_of(engine) if isinstance(row, BlobRow)]
    assert session.entries.append("write", "w", "anew").body == "anew"
    session.entries.delete([f"c{step}" for step in range(11)])
    assert session.entries.get("c11").body == bodies[11]
    session.entries.delete({"c11", "w"})
    assert not [row for row in rows_of(engine) if isinstance(row, EntryRow | ChunkRow)]
    assert engine.admin.verify().ok


def test_what_is_deleted_takes_nothing_of_the_conversation_with_it(engine: Engine) -> None:
    """No model sees entries, so neither a summary nor a situation can quote one."""
    session: Any = engine.create_session("s")
    first = session.record("user", "Where is the parcel? " * 20)
    grow(session, 12)
    last = session.record("assistant", "On its way. " * 20)
    draft = SummaryDraft(
        scope=session.scope, first=first.seq, last=last.seq, version=session.state().version, items=(), tokens=0
    )
    session.context.summarize(draft, "a parcel")
    session.situation.update({"goal": "find the parcel"})
    pack = session.packs.store(session.pack())
    before = (session.context.render("text"), session.situation.get(), session.packs.reproduce(pack).text)
    session.entries.delete([f"c{step}" for step in range(6)])
    session.erase([session.entries.get("c7").seq], "asked to")
    assert (session.context.render("text"), session.situation.get(), session.packs.reproduce(pack).text) == before
    assert engine.admin.verify().ok


def test_a_deletion_searches_only_where_chunks_can_be(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    session: Any = engine.create_session("s")
    grow(session, 12)
    session.entries.append("write", "w", "small")
    for start in range(0, limits.READ_EVENTS, 200):
        session.entries.append_all([NewEntry("write", str(start + each), "between") for each in range(200)])
    grow(session, 12, "d")
    counting = Counting(store_of(engine))
    with replace_store(engine, counting):
        replay = session.state().version
        counting.take()
        session.entries.delete(["w"])
        assert counting.take() < replay + 10, "the replay, and the entry"
        session.entries.delete(["d3"])
        assert counting.take() < replay + limits.READ_EVENTS + 10, "and one page of the newest entries"
    assert [session.entries.get(key) is None for key in ("w", "d3", "d4", "c3")] == [True, True, False, False]


def test_who_erases_a_chunk_erases_the_entries_that_refer_to_it(engine: Engine) -> None:
    session: Any = engine.create_session("s")
    grow(session, 12)
    entry = session.entries.get("c6")
    session.erase([entry.seq], "asked to")
    assert session.entries.get("c6") is None
    assert len(session.entries.list()) == 11
    chunk = next(event for event in session.events() if event.type == "entry.chunks_stored" and event.payload)
    session.erase([chunk.seq], "asked to")
    left = session.entries.list()
    assert len(left) < 11
    assert all(len(entry.body["messages"]) == entry.body["step"] + 1 for entry in left)
    referring = {ref.seq for event in session.events() for ref in chunk_refs(upcast.decode_event(event))}
    assert chunk.seq not in referring
    report = engine.admin.verify()
    assert report.ok, report.problems


@pytest.mark.parametrize("kind", DURABLE_KINDS)
def test_nothing_of_a_destroyed_session_is_left(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind, clock=ManualClock(LATER_S))
    session: Any = engine.create_session("s")
    session.entries.append("checkpoint", "a", {"texts": [f"{SECRET} {number} " * 30 for number in range(20)]})
    session.entries.append("checkpoint", f"{SECRET} " * 40, SECRET.encode() * 9_000)
    session.destroy("asked to", offload=False)
    assert engine.admin.collect() == 1
    with pytest.raises(errors.SessionDestroyedError):
        session.entries.get("a")
    with pytest.raises(errors.SessionDestroyedError):
        session.entries.append("checkpoint", "b", 1)
    assert not [row for row in rows_of(engine) if isinstance(row, EntryRow | ChunkRow | BlobRow)]
    assert engine.admin.verify().ok
    assert SECRET.encode() not in read_raw_contents(engine, desk)


def test_a_closed_session_keeps_its_entries_and_takes_no_more(engine: Engine) -> None:
    session: Any = engine.create_session("s")
    session.entries.append("checkpoint", "a", 1)
    session.entries.append("checkpoint", "b", 2)
    session.reset("anew")
    session.end("done")
    with pytest.raises(errors.SessionClosedError):
        session.entries.append("checkpoint", "c", 3)
    assert [entry.key for entry in session.entries.list()] == ["b", "a"]
    session.entries.delete(["a"])
    assert [entry.key for entry in session.entries.list()] == ["b"]


def test_long_names_are_kept_in_full(engine: Engine) -> None:
    session: Any = engine.create_session("s")
    long = "node:" * 100
    names = [long, shorten_name(long), f"{long}x", "~" + "0" * 64, "é" * 2_000]
    for name in names:
        session.entries.append(f"kind {name}", name, {"of": name}, parent=f"parent {name}")
    for name in names:
        entry = session.entries.get(name)
        assert (entry.kind, entry.key, entry.parent, entry.body) == (
            f"kind {name}",
            name,
            f"parent {name}",
            {"of": name},
        )
        assert session.entries.list(kind=f"kind {name}") == session.entries.list(parent=f"parent {name}") == [entry]
    assert [entry.key for entry in session.entries.list(bodies=False)] == names[::-1]
    session.entries.delete(names[:2])
    assert [entry.key for entry in session.entries.list()] == names[:1:-1]


TOO_LARGE: dict[str, tuple[str, Any]] = {
    "entries": (
        "BATCH_ENTRIES",
        lambda entries: entries.append_all([NewEntry("a", "b", 1)] * (limits.BATCH_ENTRIES + 1)),
    ),
    "keys": ("DELETED_ENTRIES", lambda entries: entries.delete(["a"] * (limits.DELETED_ENTRIES + 1))),
    "bytes": ("ENTRY_BYTES", lambda entries: entries.append("a", "b", bytes(limits.ENTRY_BYTES + 1))),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_too_much_is_refused_by_the_name_of_the_limit(name: str, engine: Engine) -> None:
    session: Any = engine.create_session("s")
    limit, use = TOO_LARGE[name]
    with expect_refusal(engine, errors.TooLarge, limit_name=limit):
        use(session.entries)


def test_entries_are_exported_and_imported(engine: Engine, desk: EngineDesk) -> None:
    session: Any = engine.create_session("s")
    bodies = grow(session, 12)
    session.entries.append("write", "w", b"bytes " * 20_000)
    session.entries.delete(["c4"])
    path = desk.folder / "export.jsonl"
    engine.admin.export(path)
    other: Any = desk.open("sqlite", "other")
    other.admin.import_(path)
    assert other.session("s").entries.list() == session.entries.list()
    assert other.session("s").entries.get("c11").body == bodies[11]
    assert other.admin.verify().ok


def test_entries_are_counted_with_the_bytes_that_were_given(engine: Engine) -> None:
    session: Any = engine.create_session("s")
    bodies = grow(session, 12)
    engine.create_session("t").entries.append("write", "w", b"bytes " * 20_000)
    totals = engine.admin.totals()
    assert (totals.entries, totals.entry_bytes) == (13, 120_000 + sum(len(codec.encode(body)) for body in bodies))
    session.entries.delete([f"c{step}" for step in range(12)])
    totals = engine.admin.totals()
    assert (totals.entries, totals.entry_bytes) == (1, 120_000)


def test_verify_reports_a_lost_part_of_an_entry(desk: EngineDesk) -> None:
    engine = desk.open("sqlite")
    session: Any = engine.create_session("s")
    session.entries.append("checkpoint", "a", {"large": "word " * 20_000})
    session.entries.append("checkpoint", "b", b"bytes " * 20_000)
    assert engine.admin.verify().ok
    for path in Path(f"{desk.path('sqlite')}.blobs").rglob("*.zst"):
        path.unlink()
    problems = [problem.what for problem in engine.admin.verify().problems]
    assert len(problems) == 2
    assert all("body" in problem or "blob" in problem for problem in problems), problems
    with pytest.raises(errors.StorageCorrupt, match="a part of its body is missing"):
        session.entries.get("a")


def test_400_checkpoints_of_a_list_of_400_take_5_megabytes_at_most(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    raw = write(path, 400, at_once=20)
    assert raw > 50_000_000
    assert disk_bytes(path) <= 5_000_000


def test_a_session_without_entries_costs_nothing_for_them(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "a.db") as engine:
        session: Any = engine.create_session("s")
        session.record("user", "hello")
        assert session.entries.list() == []
        assert not [row for row in rows_of(engine) if isinstance(row, EntryRow | ChunkRow)]
