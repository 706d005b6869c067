"""The public API as a user meets it: the same on every backend, blocking and awaited."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast import File, Image, Text, errors
from holdfast.model import limits
from holdfast.model.names import StreamId
from holdfast.types import Body, Opaque, Part
from tests.edges.engines import DURABLE_KINDS, KINDS, EngineDesk, contents, store_of

ROOT = Path(__file__).parents[2]


def _texts(session: Any, **options: Any) -> list[str]:
    return [message.text for message in session.messages(**options)]


# Sessions


def test_a_session_is_created_and_found_again(engine: holdfast.Engine) -> None:
    made = engine.create_session("trip", actor="ada", thread="hotel", metadata={"city": "Bern"})
    found = engine.session("trip", actor="ada", thread="hotel")
    assert found.id == made.id == "trip"
    assert found.scope == holdfast.types.Scope("default", "ada", "trip", "hotel")
    assert found.state().metadata == {"city": "Bern"}
    assert "ada/trip/hotel" in repr(found)
    with pytest.raises(errors.SessionNotFound):
        engine.session("trip", actor="ada")


def test_threads_and_actors_are_sessions_of_their_own(engine: holdfast.Engine) -> None:
    places: list[dict[str, Any]] = [
        {},
        {"thread": "a"},
        {"thread": "b"},
        {"actor": "ada"},
        {"actor": "ada", "thread": "a"},
    ]
    for number, place in enumerate(places):
        engine.create_session("s", **place).record("user", f"text {number}")
    for number, place in enumerate(places):
        assert _texts(engine.session("s", **place)) == [f"text {number}"]


def test_sessions_are_listed_in_pages_and_by_actor(engine: holdfast.Engine) -> None:
    names = [(actor, f"s{number:02}") for actor in ("ada", "bob") for number in range(7)]
    for actor, name in reversed(names):
        engine.create_session(name, actor=actor)
    engine.acting_as(tenant="other").create_session("s99", actor="ada")
    listed: list[tuple[str, str]] = []
    last: holdfast.types.SessionRow | None = None
    while page := engine.sessions(after=last, limit=3):
        assert len(page) <= 3
        listed += [(row.actor, row.session) for row in page]
        last = page[-1]
    assert listed == names
    assert [row.session for row in engine.sessions(actor="bob")] == [name for actor, name in names if actor == "bob"]
    assert engine.sessions(actor="nobody") == ()


def test_a_row_says_where_its_session_stands(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "three words here")
    session.end("done")
    [row] = engine.sessions()
    state = session.state()
    assert (row.status, row.version, row.messages, row.tokens) == ("closed", 3, 1, state.tokens)
    assert (row.created_us, row.updated_us) == (state.created_us, state.updated_us)
    assert (state.status, state.close_reason, state.version, state.messages) == ("closed", "done", 3, 1)
    assert state.tokens > 0


def test_what_the_caller_does_with_its_metadata_afterwards_changes_nothing(engine: holdfast.Engine) -> None:
    inner: list[Any] = [1, {"deep": "before"}]
    metadata: dict[str, Any] = {"list": inner}
    session = engine.create_session("s", metadata=metadata)
    inner[1]["deep"] = "after"
    inner.append(2)
    metadata["more"] = True
    assert session.state().metadata == {"list": [1, {"deep": "before"}]}


def test_what_the_caller_does_with_a_state_changes_nothing(engine: holdfast.Engine) -> None:
    session = engine.create_session("s", metadata={"list": [1]})
    session.state().metadata["list"].append(2)  # type: ignore[union-attr]
    session.state().metadata["more"] = True
    assert session.state().metadata == {"list": [1]}


# Messages


def _parts(engine: holdfast.Engine) -> list[Part]:
    ref = engine.blobs.put(b"%PDF", media_type="application/pdf")
    return [
        Text("text"),
        Body(ref, "preview"),
        Body(ref),
        Image(ref=ref),
        Image(url="https://example.org/cat.png"),
        File(ref, "report.pdf"),
        File(ref),
        Opaque("anthropic", '{"signature": "\\u0000"}'),
        Opaque("openai", ref),
    ]


def _as_given(parts: tuple[Part, ...]) -> list[Part]:
    """Without the tokens that were counted when they came in."""
    return [replace(part, tokens=0, preview_tokens=0) if isinstance(part, Body) else part for part in parts]


def test_every_kind_of_part_comes_back_as_it_went_in(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    parts = _parts(engine)
    said = session.record("user", parts)
    for part in parts:
        session.record("user", part)
    messages = session.messages()
    assert messages[0] == said
    assert _as_given(messages[0].content) == parts
    assert [_as_given(message.content) for message in messages[1:]] == [[part] for part in parts]
    assert messages[0].text == "text\npreview\n"


def test_a_message_says_who_when_and_what(engine: holdfast.Engine) -> None:
    session = engine.acting_as(principal="ada@example.org").create_session("s")
    message = session.record("user", ["hello", "world"], key="k", cause="c", expect=1)
    [_, event] = session.events()
    assert (message.role, message.text, message.seq, message.principal) == (
        "user",
        "hello\nworld",
        2,
        "ada@example.org",
    )
    assert (event.id, event.key, event.cause, event.principal) == (message.id, "k", "c", "ada@example.org")
    assert message.at.timestamp() == pytest.approx(message.time_us / 1e6)
    assert not message.erased


def test_messages_are_read_backwards_in_pages(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    for number in range(10):
        session.record("user", str(number))
    session.end()
    assert _texts(session, limit=3) == ["7", "8", "9"]
    pages: list[list[str]] = []
    before: int | None = None
    while page := session.messages(before=before, limit=4):
        pages.append([message.text for message in page])
        before = page[0].seq
    assert pages == [["6", "7", "8", "9"], ["2", "3", "4", "5"], ["0", "1"]]
    assert session.messages(before=1) == []


def test_events_are_read_forwards_in_pages(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    for number in range(10):
        session.record("user", str(number))
    assert [event.seq for event in session.events(after=4, limit=3)] == [5, 6, 7]
    assert [event.type for event in session.events(limit=2)] == ["session.created", "message.recorded"]
    assert session.events(after=11) == ()


# The feed


def test_the_feed_has_every_tenants_events_in_one_order(engine: holdfast.Engine) -> None:
    for number in range(12):
        tenant = engine.acting_as(tenant=f"t{number % 3}")
        tenant.create_session(f"s{number}").record("user", "text")
    seen: list[tuple[StreamId, int]] = []
    cursor = ""
    while (page := engine.admin.feed(cursor, limit=5)).events:
        seen += [(event.stream, event.seq) for event in page.events]
        cursor = page.cursor
    assert seen == [
        (StreamId(f"t{number % 3}", "session", ("main", f"s{number}")), seq) for number in range(12) for seq in (1, 2)
    ]
    assert engine.admin.feed(cursor).cursor == cursor


@pytest.mark.parametrize("kind", DURABLE_KINDS)
def test_a_cursor_goes_on_after_reopening(kind: str, desk: EngineDesk) -> None:
    with desk.open(kind) as engine:
        engine.create_session("s").record("user", "before")
        cursor = engine.admin.feed(limit=1).cursor
    with desk.open(kind) as engine:
        engine.session("s").record("user", "after")
        page = engine.admin.feed(cursor)
        assert [(event.seq, event.type) for event in page.events] == [(2, "message.recorded"), (3, "message.recorded")]
        assert engine.admin.feed(page.cursor).events == ()


@pytest.mark.parametrize("kind", DURABLE_KINDS)
def test_everything_is_there_after_reopening(kind: str, desk: EngineDesk) -> None:
    with desk.open(kind) as engine:
        session = engine.create_session("s", metadata={"a": [1, None]})
        session.record("assistant", _parts(engine))
        before, messages, state = contents(engine), session.messages(), session.state()
    with desk.open(kind) as engine:
        session = engine.session("s")
        assert (contents(engine), session.messages(), session.state()) == (before, messages, state)
        assert engine.admin.verify().ok


# Opening and closing


ADDRESSES: dict[str, Callable[[Path], Any]] = {
    "a file name": str,
    "a path": lambda path: path,
    "a URL": lambda path: f"sqlite:///{path}",
    "a name with blanks and marks": lambda path: path.with_name("a b%20?c=d#e 'f'.db"),
    "a name of other letters": lambda path: path.with_name("Größe 日本.db"),
}


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize("name", ADDRESSES)
def test_a_store_is_opened_by_its_address(name: str, awaited: bool, desk: EngineDesk) -> None:
    address = ADDRESSES[name](desk.folder / "agent.db")
    with desk.open_url(address, awaited=awaited) as engine:
        engine.create_session("s")
        assert os.path.samefile(store_of(engine).path, str(address).removeprefix("sqlite:///"))  # type: ignore[attr-defined]
    with desk.open_url(address, awaited=awaited) as engine:
        assert [row.session for row in engine.sessions()] == ["s"]


def test_a_relative_address_is_taken_from_here(desk: EngineDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)
    desk.open_url("sqlite:///relative.db").close()
    desk.open_url("plain.db").close()
    assert {path.name for path in desk.folder.glob("*.db")} == {"relative.db", "plain.db"}


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize("address", ["memory:", ":memory:"])
def test_a_store_in_memory_is_gone_with_its_engine(address: str, awaited: bool, desk: EngineDesk) -> None:
    with desk.open_url(address, awaited=awaited) as engine:
        engine.create_session("s")
    with desk.open_url(address, awaited=awaited) as engine:
        assert engine.sessions() == ()


BAD_ADDRESSES = [
    "",
    "\0",
    "a\0b.db",
    "sqlite://",
    "sqlite:///",
    "sqlite://agent.db",
    "sqlite:///:memory:",
    "sqlite:///a\0b.db",
    "mysql://localhost/agents",
    "http://localhost/agent.db",
    "SQLITE:///agent.db",
    "://",
    "a\ud800.db",
]


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize("address", BAD_ADDRESSES, ids=ascii)
def test_an_address_that_nothing_can_open_is_an_invalid_url(
    address: object, awaited: bool, desk: EngineDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.folder)
    with pytest.raises(errors.InvalidUrl) as refusal:
        desk.open_url(address, awaited=awaited)
    assert "sqlite:///path/to/file.db" in str(refusal.value)
    assert list(desk.folder.iterdir()) == []


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
def test_a_place_where_no_file_can_be_is_a_typed_error(awaited: bool, desk: EngineDesk) -> None:
    loop = desk.folder / "loop.db"
    loop.symlink_to(loop)
    (desk.folder / "file").write_bytes(b"")
    places = ["missing/agent.db", "file/agent.db", "", "loop.db", "x" * 300, "x" * 300 + "/agent.db", "x/" * 3000 + "y"]
    for place in places:
        with pytest.raises(errors.StorageUnavailable):
            desk.open_url(f"{desk.folder}/{place}", awaited=awaited)


USES: dict[str, Callable[[Any, Any], object]] = {
    "create_session": lambda engine, _: engine.create_session("t"),
    "session": lambda engine, _: engine.session("s"),
    "sessions": lambda engine, _: engine.sessions(),
    "feed": lambda engine, _: engine.admin.feed(),
    "record": lambda _, session: session.record("user", "text"),
    "record with a key": lambda _, session: session.record("user", "text", key="k"),
    "messages": lambda _, session: session.messages(),
    "events": lambda _, session: session.events(),
    "state": lambda _, session: session.state(),
    "close a session": lambda _, session: session.end(),
    "erase": lambda _, session: session.erase([1], "a test"),
    "verify": lambda engine, _: engine.admin.verify(),
    "rebuild": lambda engine, _: engine.admin.rebuild(),
    "totals": lambda engine, _: engine.admin.totals(),
    "another name": lambda engine, _: engine.acting_as(tenant="other").sessions(),
    "export": lambda engine, _: engine.admin.export("export.jsonl"),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_closed_says_so(kind: str, name: str, desk: EngineDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)
    engine = desk.open(kind)
    session = engine.create_session("s")
    engine.close()
    with pytest.raises(errors.StoreClosed):
        USES[name](engine, session)


@pytest.mark.parametrize("kind", KINDS)
def test_closing_twice_is_fine_and_leaving_a_block_closes(kind: str, desk: EngineDesk) -> None:
    with desk.open(kind) as engine:
        engine.create_session("s")
        engine.close()
    engine.close()
    with pytest.raises(errors.StoreClosed):
        engine.sessions()
    with pytest.raises(ZeroDivisionError), desk.open(kind) as engine:
        raise ZeroDivisionError
    with pytest.raises(errors.StoreClosed):
        engine.sessions()


def test_acting_as_another_closes_with_the_first(engine: holdfast.Engine) -> None:
    other = engine.acting_as(tenant="other", principal="bob")
    session = other.create_session("s")
    assert (session.scope.tenant, session.record("user", "text").principal) == ("other", "bob")
    assert engine.sessions() == ()
    other.close()
    with pytest.raises(errors.StoreClosed):
        engine.sessions()


# The price of a long history


class CountingStore:
    """A store that counts the events it hands out."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.events_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, *args: Any, **kwargs: Any) -> Any:
        found = self._store.read(*args, **kwargs)
        self.events_read += len(found)
        return found


def _long_session(engine: holdfast.Engine) -> holdfast.Session:
    session = engine.create_session("long")
    for number in range(1_200):
        session.record("user", f"message {number}")
    return session


def _events_read_to_open(engine: holdfast.Engine) -> int:
    counting = CountingStore(engine.store)
    fresh = holdfast.Engine(counting, engine._blob_store, holdfast.open("memory:")._context)
    assert fresh.session("long").state().messages == 1_200
    return counting.events_read


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_opening_a_long_session_reads_no_more_than_lies_behind_its_snapshot(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    _long_session(engine)
    assert _events_read_to_open(engine) <= limits.SNAPSHOT_EVERY


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_so_it_is_after_an_erasure(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    _long_session(engine).erase([5], "asked to")
    assert _events_read_to_open(engine) <= limits.SNAPSHOT_EVERY


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_so_it_is_after_an_import(kind: str, desk: EngineDesk) -> None:
    source = desk.open("memory")
    _long_session(source)
    source.admin.export(desk.folder / "export.jsonl")
    engine = desk.open(kind, name="copy")
    engine.admin.import_(desk.folder / "export.jsonl")
    assert _events_read_to_open(engine) <= limits.SNAPSHOT_EVERY


# What the package brings with it


def test_importing_holdfast_brings_in_no_test_tools_and_no_second_sqlite() -> None:
    """The standard library's sqlite3 in the same process would drop the file locks of ours."""
    code = "import sys, holdfast; holdfast.open; print(*sorted(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(answer.stdout.split())
    assert "apsw" in loaded
    assert loaded.isdisjoint({"pytest", "hypothesis", "sqlite3", "_sqlite3", "pickle", "holdfast.testing"})


def test_the_core_needs_at_most_ten_packages() -> None:
    lock = (ROOT / "requirements" / "core.lock").read_text("utf-8")
    packages = re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE)
    assert 0 < len(packages) <= 10
