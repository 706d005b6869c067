"""What a careless caller or a failing disk gets to see: typed errors that reveal nothing and say what to do."""

from __future__ import annotations

import inspect
import os
import pickle
import random
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

import holdfast
from holdfast import BlobRef, Image, Text, errors
from holdfast.errors import HoldfastError
from holdfast.model import limits
from holdfast.model.log import StoredEvent
from holdfast.types import Body
from tests.edges.engines import EngineDesk, contents, log_of
from tests.support import figure

# Tenants, versions, sessions


def test_another_tenants_session_is_not_found_and_nothing_is_revealed(engine: holdfast.Engine) -> None:
    engine.create_session("secret-plans", metadata={"topic": "merger"}).record("user", "the merger is on")
    other = engine.acting_as(tenant="rival")
    with pytest.raises(errors.SessionNotFound) as there:
        other.session("secret-plans")
    with pytest.raises(errors.SessionNotFound) as nowhere:
        other.session("no-such-plans")
    assert str(there.value).replace("secret-plans", "") == str(nowhere.value).replace("no-such-plans", "")
    assert other.sessions() == ()


def test_a_name_that_begins_like_another_opens_only_itself(engine: holdfast.Engine) -> None:
    for tenant in ("alice", "alice2", "alice%", "alic_", "ALICE"):
        engine.acting_as(tenant=tenant).create_session("s").record("user", f"for {tenant}")
    for tenant in ("alice", "alice2", "alice%", "alic_", "ALICE"):
        own = engine.acting_as(tenant=tenant)
        assert [row.tenant for row in own.sessions()] == [tenant]
        assert [message.text for message in own.session("s").messages()] == [f"for {tenant}"]


def test_another_tenants_blob_is_not_found(engine: holdfast.Engine) -> None:
    ref = engine.blobs.put(b"private")
    other = engine.acting_as(tenant="rival")
    with pytest.raises(errors.BlobNotFound):
        other.blobs.read(ref)
    assert engine.blobs.read(ref) == b"private"


def test_a_key_is_bound_to_its_tenant(engine: holdfast.Engine) -> None:
    for tenant in ("one", "two"):
        session = engine.acting_as(tenant=tenant).create_session("s", key="create")
        session.record("user", f"from {tenant}", key="same key")
    assert [event.stream.tenant for event in log_of(engine)] == ["one", "one", "two", "two"]


def test_a_stale_writer_gets_a_conflict_and_nothing_is_kept(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "first", expect=1)
    before = contents(engine)
    with pytest.raises(errors.VersionConflict) as conflict:
        session.record("user", "second", expect=1)
    assert (conflict.value.expected, conflict.value.actual) == (1, 2)
    assert contents(engine) == before


def test_a_key_of_another_command_is_a_conflict(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    first = session.record("user", "pay 10", key="payment")
    assert session.record("user", "pay 10", key="payment") == first
    before = contents(engine)
    for again in (
        lambda: session.record("user", "pay 11", key="payment"),
        lambda: session.record("assistant", "pay 10", key="payment"),
        lambda: session.end("payment", key="payment"),
        lambda: engine.create_session("other", key="payment"),
    ):
        with pytest.raises(errors.KeyConflict):
            again()
    assert contents(engine) == before


def test_a_closed_session_takes_no_more_messages(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "hello")
    session.end("the user left")
    before = contents(engine)
    with pytest.raises(errors.SessionClosedError, match="the user left"):
        session.record("user", "one more")
    session.end("again")
    assert contents(engine) == before


def test_a_session_is_created_once(engine: holdfast.Engine) -> None:
    engine.create_session("s", metadata={"first": True})
    before = contents(engine)
    with pytest.raises(errors.SessionExists):
        engine.create_session("s", metadata={"first": False})
    assert contents(engine) == before


BAD_MESSAGES: dict[str, tuple[Any, Any]] = {
    "an unknown role": ("developer", "text"),
    "a role in capitals": ("User", "text"),
    "no role": (None, "text"),
    "no content": ("user", None),
    "an empty text": ("user", ""),
    "no parts": ("user", []),
    "one empty text": ("user", [""]),
    "one empty text part": ("user", [Text("")]),
    "only empty texts": ("user", ["", Text("")]),
    "a number": ("user", 5),
    "a dict that is no part": ("user", {"hello": "world"}),
    "a part of no known type": ("user", [{"type": "song", "text": "hello"}]),
    "bytes": ("user", b"text"),
    "parts in parts": ("user", [["text"]]),
    "an image of nothing": ("user", Image()),
    "an image of two": ("user", Image(ref=BlobRef("0" * 64, 1), url="https://example.org")),
    "a body without a reference": ("user", Body(None)),  # type: ignore[arg-type]
    "a digest in capitals": ("user", Body(BlobRef("A" * 64, 1))),
    "a short digest": ("user", Body(BlobRef("a" * 63, 1))),
    "a digest with a line end": ("user", Body(BlobRef("a" * 64 + "\n", 1))),
    "a negative size": ("user", Body(BlobRef("a" * 64, -1))),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_a_message_that_says_nothing_or_nothing_sensible_is_refused(name: str, engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    before = contents(engine)
    with pytest.raises(errors.InvalidInput):
        session.record(*BAD_MESSAGES[name])
    assert contents(engine) == before


TOO_LARGE: dict[str, tuple[str, Callable[[Any], object]]] = {
    "arguments": (
        "PAYLOAD_BYTES",
        lambda session: session.record(
            "assistant", tool_calls=[{"name": "write", "args": {"text": "x" * limits.PAYLOAD_BYTES}}]
        ),
    ),
    "many parts": ("CONTENT_PARTS", lambda session: session.record("user", ["x"] * (limits.CONTENT_PARTS + 1))),
    "a reason": ("PAYLOAD_BYTES", lambda session: session.end("x" * (limits.PAYLOAD_BYTES + 1))),
    "an erasure": ("ERASE_EVENTS", lambda session: session.erase(list(range(1, limits.ERASE_EVENTS + 2)), "all")),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_too_much_is_refused_by_the_name_of_the_limit_with_advice(name: str, engine: holdfast.Engine) -> None:
    limit_name, do = TOO_LARGE[name]
    session = engine.create_session("s")
    before = contents(engine)
    with pytest.raises(errors.TooLarge) as refusal:
        do(session)
    message = str(refusal.value)
    limit = getattr(limits, limit_name)
    assert limit_name in message
    assert str(limit) in message
    assert refusal.value.limit == limit < refusal.value.size
    assert message.rstrip(".").split(". ")[-1] != message.rstrip(".")
    assert contents(engine) == before


def test_metadata_over_the_limit_is_refused(engine: holdfast.Engine) -> None:
    with pytest.raises(errors.TooLarge):
        engine.create_session("s", metadata={"large": "x" * limits.PAYLOAD_BYTES})
    assert contents(engine) == ([], [], [])


# Damaged files


class Filled(NamedTuple):
    path: Path
    log: list[StoredEvent]

    def copy(self, folder: Path, name: str = "copy.db") -> Path:
        target = folder / name
        shutil.copy(self.path, target)
        shutil.copytree(f"{self.path}.blobs", f"{target}.blobs", dirs_exist_ok=True)
        return target


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A file with something in every table, closed."""
    path = tmp_path_factory.mktemp("filled") / "whole.db"
    with holdfast.open(path) as engine:
        for number in range(4):
            session = engine.create_session(f"s{number}", metadata={"number": number}, key=f"create {number}")
            for turn in range(120):
                session.record("user", f"message {turn} of session {number} " + "x" * 100, key=f"{number}/{turn}")
            session.record("user", Body(engine.blobs.put(b"body %d" % number)))
        return Filled(path, log_of(engine))


def _seen(path: Path) -> tuple[list[StoredEvent], bool]:
    """All that can be read of a file through every door, and whether something was said to be wrong."""
    with holdfast.open(path) as engine:
        log = log_of(engine)
        for row in engine.sessions(limit=1_000):
            session = engine.session(row.session, actor=row.actor, thread=row.thread or None)
            session.messages(limit=1_000)
            session.events(limit=1_000)
        engine.admin.feed(limit=1_000)
        report = engine.admin.verify()
        assert all(str(problem).encode() for problem in report.problems)
        return log, not report.ok


def _told(path: Path, log: list[StoredEvent]) -> str:
    """How a damaged file shows: a typed error or a report; or it holds all that it held. Anything else is a failure."""
    try:
        seen, wrong = _seen(path)
    except (errors.DataError, errors.StorageError, errors.NotFound) as error:
        return type(error).__name__
    if wrong:
        return "reported"
    assert seen == log, f"{len(seen)} of {len(log)} events are left, and nobody said so"
    return "whole"


def test_random_damage_anywhere_in_the_file_is_an_error_or_a_report(filled: Filled, tmp_path: Path) -> None:
    whole = filled.path.read_bytes()
    rng = random.Random(20240229)
    told = set()
    copy = filled.copy(tmp_path)
    for _ in range(figure(70, 3_000)):
        damaged = bytearray(whole)
        start = rng.randrange(len(whole))
        end = min(len(whole), start + rng.choice((1, 1, 8, 100, 4096)))
        damaged[start:end] = rng.randbytes(end - start)
        copy.write_bytes(damaged)
        told.add(_told(copy, filled.log))
    assert told - {"whole"}, "no damage was noticed at all"


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_cut_file_is_an_error_or_a_report(share: float, filled: Filled, tmp_path: Path) -> None:
    """Down to its first bytes. A file of no bytes at all is a new one."""
    copy = filled.copy(tmp_path)
    os.truncate(copy, int(copy.stat().st_size * share))
    assert _told(copy, filled.log) != "whole"


@pytest.mark.parametrize(
    "content",
    [b"not a database at all", b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 5000],
    ids=["text", "NULs", "header"],
)
def test_a_file_that_is_no_database_is_refused_and_not_touched(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(content)
    with pytest.raises((errors.ForeignFile, errors.StorageCorrupt)):
        holdfast.open(path)
    assert path.read_bytes() == content


def test_someone_elses_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    _edit(path, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    before = path.read_bytes()
    with pytest.raises(errors.ForeignFile):
        holdfast.open(path)
    assert path.read_bytes() == before


def test_garbage_beside_a_closed_file_does_no_harm(filled: Filled, tmp_path: Path) -> None:
    copy = filled.copy(tmp_path)
    rng = random.Random(1)
    for ending in ("-wal", "-shm"):
        Path(f"{copy}{ending}").write_bytes(rng.randbytes(50_000))
    assert _told(copy, filled.log) == "whole"


def test_a_damaged_write_ahead_log_leaves_a_true_beginning(desk: EngineDesk, tmp_path: Path) -> None:
    """What only the log had is cut at the damage, as SQLite does it. What is left is in order, with nothing made up."""
    engine = desk.open("sqlite")
    session = engine.create_session("s")
    for number in range(200):
        session.record("user", f"message {number}")
    log = log_of(engine)
    path = desk.folder / "sqlite-agent.db"
    wal = Path(f"{path}-wal").read_bytes()
    rng = random.Random(2)
    for number in range(figure(20, 500)):
        copy = tmp_path / f"copy-{number}.db"
        shutil.copy(path, copy)
        damaged = bytearray(wal)
        at = rng.randrange(len(wal))
        damaged[at : at + 16] = rng.randbytes(16)
        Path(f"{copy}-wal").write_bytes(damaged[: len(wal)])
        with suppress(errors.DataError, errors.StorageError):
            seen, _ = _seen(copy)
            assert seen == log[: len(seen)]


@pytest.mark.parametrize(
    "state", [b"", b"{", b"[]", b'{"version": "x"}', b"\xff\xfe", b'{"status": "odd"}', b'{"close_reason": "\xf6"}']
)
def test_a_damaged_snapshot_is_passed_over_or_typed_and_always_reported(
    state: bytes, filled: Filled, tmp_path: Path
) -> None:
    copy = filled.copy(tmp_path)
    _edit(copy, "UPDATE snapshots SET state = ?", (state,))
    assert _told(copy, filled.log) in {"StorageCorrupt", "reported"}


def _edit(path: Path, statement: str, values: tuple[bytes, ...] = ()) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement, values)
    connection.close()


DAMAGE: dict[str, str] = {
    "a stream's key": "UPDATE streams SET key = 'not json' WHERE stream_no = 1",
    "a stream's key, of one name": "UPDATE streams SET key = '[\"a\"]' WHERE stream_no = 1",
    "a stream's key, not UTF-8": "UPDATE streams SET key = CAST(x'5b22ff225d' AS TEXT) WHERE stream_no = 1",
    "a stream's kind": "UPDATE streams SET kind = 'nonsense' WHERE stream_no = 1",
    "a tenant, not UTF-8": "UPDATE streams SET tenant = CAST(x'ff' AS TEXT) WHERE stream_no = 1",
    "a payload": "UPDATE events SET payload = x'ff' WHERE seq = 5",
    "a payload, not UTF-8": "UPDATE events SET payload = CAST('{\"counter\":\"' || x'f6' || '\"}' AS BLOB) WHERE seq = 5",
    "a payload of another shape": "UPDATE events SET payload = CAST('[1]' AS BLOB) WHERE seq = 5",
    "a type": "UPDATE events SET type = 'nonsense' WHERE seq = 5",
    "a type, not UTF-8": "UPDATE events SET type = CAST(x'ff' AS TEXT) WHERE seq = 5",
    "a version": "UPDATE events SET version = 99 WHERE seq = 5",
    "a principal, not UTF-8": "UPDATE events SET principal = CAST(x'ff' AS TEXT) WHERE seq = 5",
    "a command": "UPDATE events SET command = x'' WHERE seq = 5",
    "a seq": "UPDATE events SET seq = 5000 WHERE seq = 5",
    "a key": "UPDATE events SET key = 'other' WHERE seq = 5",
    "a row's status": "UPDATE session_rows SET status = 'odd'",
    "a row's name, not UTF-8": "UPDATE session_rows SET actor = CAST(x'ff' AS TEXT) WHERE session = 's0'",
    "a blob's digest": "UPDATE blob_rows SET digest = '../../etc/passwd'",
    "a blob's size": "UPDATE blob_rows SET size = -1",
    "a missing row": "DELETE FROM session_rows",
    "a missing event": "PRAGMA foreign_keys=OFF; DELETE FROM events WHERE seq = 5",
    "a missing stream": "PRAGMA foreign_keys=OFF; DELETE FROM streams WHERE stream_no = 1",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_an_edited_row_is_an_error_or_a_report(name: str, filled: Filled, tmp_path: Path) -> None:
    copy = filled.copy(tmp_path)
    _edit(copy, DAMAGE[name])
    assert _told(copy, filled.log) != "whole"


def test_a_damaged_blob_is_told_on_reading_and_by_verify(desk: EngineDesk) -> None:
    engine = desk.open("sqlite")
    ref = engine.blobs.put(b"a body that matters" * 1000)
    engine.create_session("s").record("user", Body(ref))
    [file] = desk.folder.rglob(f"{ref.digest}.zst")
    whole = file.read_bytes()
    for damaged in (b"", whole[:-5], bytes([whole[0] ^ 1]) + whole[1:], b"\0" * len(whole)):
        file.write_bytes(damaged)
        with pytest.raises(errors.StorageCorrupt, match=ref.digest):
            engine.blobs.read(ref)
        assert not engine.admin.verify().ok
    file.unlink()
    with pytest.raises(errors.BlobNotFound):
        engine.blobs.read(ref)
    assert not engine.admin.verify().ok


# The errors themselves


def _classes() -> list[type[HoldfastError]]:
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, HoldfastError)]
    return sorted(found, key=lambda kind: kind.__name__)


def _leaves() -> list[type[HoldfastError]]:
    return [kind for kind in _classes() if not kind.__subclasses__()]


def _fields(kind: type[HoldfastError]) -> list[str]:
    return list(dict.fromkeys(re.findall(r"{(\w+)", kind.__doc__ or "")))


def _example(kind: type[HoldfastError]) -> HoldfastError:
    return kind(**{field: f"the {field}" for field in _fields(kind)})


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"^    ([│├└─ ]*)([A-Z]\w+)", line):
            depth = len(found.group(1)) // 4
            above[depth:] = [found.group(2)]
            drawn[found.group(2)] = above[depth - 1] if depth else "Exception"
    real = {kind.__name__: kind.__bases__[0].__name__ for kind in _classes()}
    assert drawn == real


def test_every_error_is_in_one_tree_and_invalid_input_is_a_value_error() -> None:
    assert issubclass(errors.InvalidInput, ValueError)
    assert issubclass(errors.NotFound, LookupError)
    assert all(kind.__module__.startswith("holdfast.errors") for kind in _classes())


@pytest.mark.parametrize("kind", _classes(), ids=lambda kind: kind.__name__)
def test_an_error_shows_its_data_keeps_it_and_survives_pickling(kind: type[HoldfastError]) -> None:
    error = _example(kind)
    for field in _fields(kind):
        assert f"the {field}" in str(error)
        assert getattr(error, field) == f"the {field}"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    assert "\n" not in str(error)


_ORDERS = (
    "Use Decode Pass Start Create Put Read Choose Keep Try Free Check Open Install Upgrade upgrade repeat Send Export"
    " Record Allow Draft Copy Raise Ask Do Close Pop Push Plan Act Leave look Change Set Build Settle Return Erase Destroy"
)


@pytest.mark.parametrize("kind", _leaves(), ids=lambda kind: kind.__name__)
def test_an_error_says_what_to_do(kind: type[HoldfastError]) -> None:
    """By an order in its text, or by a place for advice."""
    text = inspect.cleandoc(kind.__doc__ or "")
    is_named = text.startswith("Invalid argument `")  # the reason says which values are valid
    assert is_named or re.search(rf"\b({_ORDERS.replace(' ', '|')})\b", text) or "{advice}" in text


@pytest.mark.parametrize("kind", _leaves(), ids=lambda kind: kind.__name__)
def test_a_message_stays_short_and_printable_whatever_is_in_it(kind: type[HoldfastError]) -> None:
    for field in _fields(kind):
        for value in ("\ud800\0" * 100_000, "\n\x1b" * 100_000, b"\xff" * 100_000, ["x" * 1_000] * 1_000, 10**5_000):
            error = kind(**{**dict.fromkeys(_fields(kind), "short"), field: value})
            assert str(error).encode("utf-8")
            assert len(str(error)) < 2_000


def test_the_drivers_error_stays_as_the_cause(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"not a database at all")
    with pytest.raises(errors.ForeignFile) as foreign:
        holdfast.open(tmp_path / "other.db")
    assert isinstance(foreign.value.__cause__, apsw.NotADBError)
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(errors.StorageUnavailable) as folder:
        holdfast.open(tmp_path / "folder.db")
    assert isinstance(folder.value.__cause__, apsw.CantOpenError)
    with holdfast.open("memory:") as engine, pytest.raises(errors.InvalidText) as text:
        engine.create_session("s").record("user", "\ud800")
    assert isinstance(text.value.__cause__, UnicodeEncodeError)
