"""Export and import: the same bytes on the other side, or a refusal that names the line and changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import BlobRef, Text, chain, errors
from holdfast.model import limits
from holdfast.model.log import GENESIS, StoredEvent
from holdfast.model.names import StreamId
from holdfast.model.rows import BlobRow
from holdfast.types import Body
from tests.edges.engines import FEW_KINDS, FEWER_KINDS, EngineDesk, contents, log_of, record_busy_session, rows_of
from tests.support import figure

MANY = 1_100  # events: more than two pages of an import


def _fill(engine: holdfast.Engine, messages: int = 8) -> None:
    """Two tenants, a thread, a closed session, frames, keys, an erasure and bodies, one of them shared."""
    shared = engine.blobs.put(b"shared" * 100, media_type="text/plain")
    large = engine.blobs.put(os.urandom(limits.BLOB_CHUNK_BYTES + 1))
    session = engine.create_session("s", metadata={"a": [1, -0.0, None, "\u2028"]}, key="create")
    for number in range(messages):
        session.record("user", [Text(f"message {number}"), Body(shared, "preview")], key=f"k{number}", cause="c")
    session.record("assistant", "let me see", tool_calls=[{"name": "look", "args": {"at": 1}, "id": "p1"}])
    session.result("p1", Body(large))
    session.erase([3], "asked to")
    engine.create_session("s", thread="t").end("done")
    record_busy_session(engine.create_session("framed"))
    other = engine.acting_as(tenant="other", principal="ada")
    other.create_session("s", actor="bob").record("user", Body(other.blobs.put(b"theirs")))


def exported_to(engine: holdfast.Engine, desk: EngineDesk, name: str = "export.jsonl") -> Path:
    path = desk.folder / name
    engine.admin.export(path)
    return path


@pytest.fixture
def exported(desk: EngineDesk) -> Path:
    engine = desk.open("memory")
    _fill(engine)
    return exported_to(engine, desk)


def _bodies(engine: holdfast.Engine) -> dict[tuple[str, str], bytes]:
    """Every body that a row names."""
    return {
        (row.tenant, row.digest): engine.acting_as(tenant=row.tenant).blobs.read(BlobRef(row.digest, row.size))
        for row in rows_of(engine)
        if isinstance(row, BlobRow)
    }


def _event_lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines() if line.startswith(b'{"event"')]


# There and back


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_events_rows_and_bodies_arrive_as_they_were(kind: str, desk: EngineDesk) -> None:
    """From memory to this kind of store, and from there to another one in memory."""
    first = desk.open("memory")
    _fill(first)
    out = exported_to(first, desk)
    second, third = desk.open(kind, name="second"), desk.open("memory")
    assert second.admin.import_(out) == len(log_of(first))
    again = exported_to(second, desk, "again.jsonl")
    assert third.admin.import_(again) == len(log_of(first))
    for copy in (second, third):
        assert (log_of(copy), rows_of(copy), _bodies(copy)) == (log_of(first), rows_of(first), _bodies(first))
        assert copy.admin.verify().ok
    assert _event_lines(again) == _event_lines(out)


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_an_empty_store_can_be_exported_and_imported(kind: str, desk: EngineDesk) -> None:
    path = exported_to(desk.open(kind), desk)
    assert desk.open(kind, name="copy").admin.import_(path) == 0


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_importing_twice_changes_nothing(kind: str, desk: EngineDesk, exported: Path) -> None:
    engine = desk.open(kind)
    assert engine.admin.import_(exported) > 0
    before = contents(engine)
    assert engine.admin.import_(exported) == 0
    assert contents(engine) == before


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_what_came_later_is_added_to_what_is_here(kind: str, desk: EngineDesk) -> None:
    source, target = desk.open("memory"), desk.open(kind)
    _fill(source, messages=MANY)
    target.admin.import_(exported_to(source, desk))
    source.session("s").record("user", "later")
    source.create_session("new").record("user", "later")
    assert target.admin.import_(exported_to(source, desk)) == 3
    assert (log_of(target)[-3:], rows_of(target)) == (log_of(source)[-3:], rows_of(source))
    assert target.admin.verify().ok


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_an_older_export_takes_nothing_away(kind: str, desk: EngineDesk) -> None:
    source, target = desk.open("memory"), desk.open(kind)
    _fill(source)
    older = exported_to(source, desk, "older.jsonl")
    source.session("s").erase([4], "asked to")
    target.admin.import_(exported_to(source, desk))
    before = contents(target)
    assert target.admin.import_(older) == 0
    assert contents(target)[:2] == before[:2]


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_an_erasure_made_there_erases_here_too(kind: str, desk: EngineDesk) -> None:
    source, target = desk.open("memory"), desk.open(kind)
    _fill(source, messages=MANY)
    target.admin.import_(exported_to(source, desk))
    handle = target.session("s")
    assert handle.messages(before=5, limit=1)[0].text.startswith("message 2")
    source.session("s").erase([1, 4], "asked to")
    source.session("s").record("user", "and on")
    assert target.admin.import_(exported_to(source, desk)) == 2
    assert handle.messages(before=5, limit=1)[0].erased
    assert handle.state() == source.session("s").state()
    assert (log_of(target), rows_of(target)) == (log_of(source), rows_of(source))
    assert target.admin.verify().ok


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_a_session_goes_on_after_an_import(kind: str, desk: EngineDesk, exported: Path) -> None:
    engine = desk.open(kind)
    engine.admin.import_(exported)
    session = engine.session("s")
    with pytest.raises(errors.KeyConflict):
        session.record("user", "another text", key="k0")
    assert session.record("user", "going on").seq == session.state().version
    assert engine.admin.verify().ok


def test_an_export_replaces_an_older_one_only_when_it_is_whole(desk: EngineDesk, exported: Path) -> None:
    """The disk is full on the way: the name still has the whole older export."""
    before = exported.read_bytes()
    engine = desk.open("memory")
    _fill(engine)
    (exported.parent / f"{exported.name}.partial").symlink_to("/dev/full")
    with pytest.raises(errors.StorageFull):
        engine.admin.export(exported)
    assert exported.read_bytes() == before


# Refusals


def refused_at(engine: holdfast.Engine, path: Path) -> int:
    """The line at which the file is refused; it is a failure if anything changed."""
    before = contents(engine)
    with pytest.raises(errors.ImportRefused) as refusal:
        engine.admin.import_(path)
    assert contents(engine) == before
    assert f"line {refusal.value.line}" in str(refusal.value)
    return refusal.value.line


def _written(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(lines))
    return path


def sealed_file(path: Path, lines: list[bytes]) -> Path:
    """With an end that fits: the work of someone who means to deceive, not of a failing disk."""
    events = sum(line.startswith(b'{"event"') for line in lines[:-1])
    digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    end = b'{"end":{"events":%d,"sha256":"%s"}}\n' % (events, digest.encode())
    return _written(path, [*lines[:-1], end])


@pytest.fixture(params=FEW_KINDS)
def target(request: pytest.FixtureRequest, desk: EngineDesk) -> holdfast.Engine:
    """Somewhere with a session of its own already."""
    engine = desk.open(request.param, name="target")
    engine.create_session("mine").record("user", Body(engine.blobs.put(b"mine")))
    return engine


NOT_EXPORTS: dict[str, bytes] = {
    "an empty file": b"",
    "an empty line": b"\n",
    "text": b"hello\n",
    "other JSON": b'{"a":1}\n',
    "a list": b"[]\n",
    "bytes": bytes(range(256)),
    "another kind": b'{"holdfast":"backup","format":1}\n',
    "another format": b'{"holdfast":"export","format":2}\n',
    "no format": b'{"holdfast":"export"}\n',
    "another spelling": b'{"holdfast": "export", "format": 1}\n',
    "a key twice": b'{"holdfast":"export","holdfast":"export","format":1}\n',
    "only a beginning": b'{"holdfast":"export","format":1}\n',
    "a line without an end": b"x" * 100_000,
    "lists without an end": b"[" * 100_000,
}


@pytest.mark.parametrize("name", NOT_EXPORTS)
def test_what_is_no_export_is_refused_at_its_first_line(name: str, target: holdfast.Engine, desk: EngineDesk) -> None:
    assert refused_at(target, _written(desk.folder / "bad.jsonl", [NOT_EXPORTS[name]])) in (0, 1)


def test_a_file_cut_at_any_line_is_refused(target: holdfast.Engine, exported: Path, desk: EngineDesk) -> None:
    lines = exported.read_bytes().splitlines(keepends=True)
    for count in range(1, len(lines)):
        assert refused_at(target, _written(desk.folder / "bad.jsonl", lines[:count])) == count


def test_a_file_cut_at_any_byte_is_refused(target: holdfast.Engine, exported: Path, desk: EngineDesk) -> None:
    whole = exported.read_bytes()
    rng = random.Random(3)
    for size in [*(rng.randrange(len(whole)) for _ in range(figure(25, 500))), len(whole) - 1]:
        cut = whole[:size]
        line = refused_at(target, _written(desk.folder / "bad.jsonl", [cut]))
        assert line in (cut.count(b"\n"), cut.count(b"\n") + 1)


def test_a_flipped_bit_anywhere_is_refused(target: holdfast.Engine, exported: Path, desk: EngineDesk) -> None:
    whole = exported.read_bytes()
    rng = random.Random(4)
    for _ in range(figure(40, 2_000)):
        flipped = bytearray(whole)
        flipped[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        refused_at(target, _written(desk.folder / "bad.jsonl", [bytes(flipped)]))


def test_lines_in_another_order_are_refused(target: holdfast.Engine, exported: Path, desk: EngineDesk) -> None:
    lines = exported.read_bytes().splitlines(keepends=True)
    for at in range(len(lines) - 1):
        swapped = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
        refused_at(target, _written(desk.folder / "bad.jsonl", swapped))


Edit = Callable[[list[bytes]], list[bytes]]


def _replaced(old: bytes, new: bytes) -> Edit:
    def edit(lines: list[bytes]) -> list[bytes]:
        at = next(number for number, line in enumerate(lines) if old in line)
        return [*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]]

    return edit


def _without(start: bytes) -> Edit:
    return lambda lines: [line for line in lines if not line.startswith(start)]


EDITS: dict[str, Edit] = {
    "more after the end": lambda lines: [*lines, lines[1]],
    "two ends": lambda lines: [*lines, lines[-1]],
    "an empty line": lambda lines: [lines[0], b"\n", *lines[1:]],
    "a beginning in the middle": lambda lines: [*lines[:3], lines[0], *lines[3:]],
    "a line twice": lambda lines: [*lines[:-1], lines[-2], lines[-1]],
    "a key twice": _replaced(b'"seq":2,', b'"seq":2,"seq":2,'),
    "an unknown key": _replaced(b'"seq":2,', b'"seq":2,"more":1,'),
    "a blank": _replaced(b'"seq":2,', b'"seq": 2,'),
    "another text": _replaced(b"message 4", b"message 5"),
    "another seq": _replaced(b'"seq":2,', b'"seq":3,'),
    "a number too large": _replaced(b'"time_us":1', b'"time_us":99999999999999999999999'),
    "no events": _without(b'{"event"'),
    "no bodies": _without(b'{"blob"'),
    "a body without its last piece": lambda lines: [line for line in lines if b'"last":true' not in line],
    "a body of another tenant": _replaced(b'{"blob":{"tenant":"default"', b'{"blob":{"tenant":"rival"'),
}


@pytest.mark.parametrize("sealed", [False, True], ids=["by a failing disk", "on purpose"])
@pytest.mark.parametrize("name", EDITS)
def test_an_edited_file_is_refused(
    name: str, sealed: bool, target: holdfast.Engine, exported: Path, desk: EngineDesk
) -> None:
    """Also with a checksum that fits the edit."""
    lines = EDITS[name](exported.read_bytes().splitlines(keepends=True))
    write = sealed_file if sealed and name not in {"more after the end", "two ends"} else _written
    refused_at(target, write(desk.folder / "bad.jsonl", lines))
    assert list(desk.folder.rglob("*.partial")) == []


def test_a_body_with_other_content_is_refused_before_anything_is_taken(
    target: holdfast.Engine, exported: Path, desk: EngineDesk
) -> None:
    """Even with a checksum that fits, and far behind the first page of events."""
    source = desk.open("memory")
    session = source.create_session("long")
    for number in range(MANY):
        session.record("user", f"message {number}")
    session.record("user", Body(source.blobs.put(b"the body")))
    path = exported_to(source, desk, "long.jsonl")
    edit = _replaced(b'"data":"dGhlIGJvZHk="', b'"data":"VEhFIEJPRFk="')
    lines = edit(path.read_bytes().splitlines(keepends=True))
    refused_at(target, sealed_file(desk.folder / "bad.jsonl", lines))


def test_another_history_of_the_same_session_is_refused(target: holdfast.Engine, desk: EngineDesk) -> None:
    source = desk.open("memory")
    source.create_session("mine", metadata={"another": "history"}).record("user", "text")
    source.create_session("new")
    assert refused_at(target, exported_to(source, desk)) in (2, 3)


def test_another_history_is_found_when_only_its_beginning_is_in_the_file(
    target: holdfast.Engine, desk: EngineDesk
) -> None:
    """The last event there stands in the middle of the history here."""
    source = desk.open("memory")
    source.create_session("mine", metadata={"another": "history"})
    assert refused_at(target, exported_to(source, desk)) == 2


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_a_message_that_names_a_body_nobody_put_stops_no_export(kind: str, desk: EngineDesk) -> None:
    """It is refused when it is recorded, or it does no harm later: one session must not hold up all tenants."""
    engine = desk.open(kind)
    session = engine.create_session("s")
    with suppress(errors.InvalidInput, errors.NotFound):
        session.record("user", Body(BlobRef("0" * 64, 1)))
    assert desk.open("memory").admin.import_(exported_to(engine, desk)) == len(log_of(engine))


# Forged files: chains that verify, of events that no engine would have made


def _forged(desk: EngineDesk, **changes: Any) -> Path:
    """An export of one session of two events, the second with these changes, hashes and checksum made to fit."""
    source = desk.open("memory")
    source.create_session("forged").record("user", "text")
    lines = exported_to(source, desk, "true.jsonl").read_bytes().splitlines(keepends=True)
    first, second = log_of(source)
    if "stream" in changes:
        first = chained(GENESIS, msgspec.structs.replace(first, stream=changes["stream"]))
    second = chained(first.hash, msgspec.structs.replace(second, **changes))
    return sealed_file(desk.folder / "forged.jsonl", [lines[0], line_of(first), line_of(second), lines[-1]])


def chained(previous: bytes, event: StoredEvent) -> StoredEvent:
    if event.payload is not None and event.salt is not None:
        event = msgspec.structs.replace(event, payload_digest=chain.payload_digest(event.salt, event.payload))
    return msgspec.structs.replace(event, hash=chain.event_hash(previous, event))


def line_of(event: StoredEvent) -> bytes:
    data = msgspec.structs.asdict(event)
    for name in ("command_digest", "payload_digest", "hash", "salt"):
        data[name] = data[name].hex() if data[name] is not None else None
    data["payload"] = msgspec.Raw(event.payload or b"null")
    return msgspec.json.encode({"event": data}) + b"\n"


FORGERIES: dict[str, dict[str, Any]] = {
    "a command that is no id": {"command": "not hexadecimal"},
    "a long command": {"command": "0" * 64},
    "a time before the epoch": {"time_us": -1},
    "a time beyond every store": {"time_us": 2**63},
    "a version beyond every store": {"version": 2**63},
    "an ordinal beyond every store": {"ordinal": 2**63},
    "a principal that is no name": {"principal": ""},
    "a cause that is no name": {"cause": "\0"},
    "a key that is no name": {"key": "\n"},
    "a stream of one name": {"stream": StreamId("default", "session", ("forged",))},
    "a stream of four names": {"stream": StreamId("default", "session", ("a", "b", "c", "d"))},
    "a stream of no tenant": {"stream": StreamId("", "session", ("main", "forged"))},
    "a stream with an empty thread": {"stream": StreamId("default", "session", ("main", "forged", ""))},
    "a ledger": {"stream": StreamId("default", "ledger", ("main", "forged"))},
    "an unknown type": {"type": "nonsense"},
    "a newer version": {"version": 99},
    "a payload of another shape": {"payload": b"[]"},
    "a role that is none": {"payload": b'{"content":[],"counter":"c","role":"root","tokens":1}'},
    "negative tokens": {"payload": b'{"content":[],"counter":"c","role":"user","tokens":-5}'},
    "tokens beyond every store": {
        "payload": b'{"content":[],"counter":"c","role":"user","tokens":9223372036854775808}'
    },
    "a second beginning": {"type": "session.created", "payload": b"{}"},
    "an erasure of what is not there": {"type": "payloads.erased", "payload": b'{"reason":"r","seqs":[99]}'},
    "an erasure of the event before the first": {"type": "payloads.erased", "payload": b'{"reason":"r","seqs":[0]}'},
    "an erasure backwards": {"type": "payloads.erased", "payload": b'{"reason":"r","seqs":[-1]}'},
    "an erasure of nothing": {"type": "payloads.erased", "payload": b'{"reason":"r","seqs":[]}'},
    "a body that is not there": {
        "payload": b'{"content":[{"ref":{"digest":"%s","size":1},"type":"body"}],"counter":"c","role":"user","tokens":1}'
        % (b"0" * 64)
    },
    "a digest that is a path": {
        "payload": b'{"content":[{"ref":{"digest":"../x","size":1},"type":"body"}],"counter":"c","role":"user","tokens":1}'
    },
    "a salt that is too short": {"salt": b"x"},
}


def test_a_forgery_without_changes_is_taken(target: holdfast.Engine, desk: EngineDesk) -> None:
    """So that the refusals below have no other reason than the change."""
    assert target.admin.import_(_forged(desk)) == 2
    assert target.admin.verify().ok


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_event_is_refused(name: str, target: holdfast.Engine, desk: EngineDesk) -> None:
    refused_at(target, _forged(desk, **FORGERIES[name]))


# Disks


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_a_path_that_cannot_be_used_is_a_typed_error(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    folder = desk.folder / "folder"
    folder.mkdir()
    for path in (desk.folder / "missing" / "export.jsonl", folder):
        with pytest.raises(errors.StorageError):
            engine.admin.export(path)
        with pytest.raises(errors.StorageError):
            engine.admin.import_(path)
    assert [path for path in desk.folder.rglob("*") if "partial" in path.name] == []


def test_every_line_is_json(exported: Path) -> None:
    for line in exported.read_bytes().splitlines():
        assert json.loads(line).keys() <= {"holdfast", "format", "blob", "event", "end"}
