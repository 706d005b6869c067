"""Connect to a server: addresses, keys, and who may see them."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.access.keys import create_key
from holdfast.access.records import KeyGrant
from holdfast.errors import (
    ExtraMissing,
    HoldfastError,
    InvalidArgument,
    InvalidNumber,
    InvalidServerUrl,
    InvalidUrl,
    KeyRefused,
    LocalOnly,
    RightMissing,
    ServerUnreachable,
    StoreClosed,
)
from holdfast.server.app import build_app
from tests.client.faulty import TOKEN, free_port, server_process, settings_of
from tests.server.running import running
from tests.support import PATIENCE_S

SECRET = "hf_live_very-secret"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(build_app(settings_of(tmp_path_factory.mktemp("server") / "agent.db"))) as address:
        yield address


@pytest.mark.parametrize(
    "address",
    [
        "agent.db",
        "postgresql://db/agents",
        "ftp://example.org",
        "http://",
        "http://[::1",
        "https://example.org:port",
        "https://ada:hf_live_very-secret@example.org",
        "https://example.org/?key=hf_live_very-secret",
        "https://example.org/#hf_live_very-secret",
        b"https://example.org",
        None,
        7,
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_sent(address: Any) -> None:
    with pytest.raises(InvalidUrl) as refusal:
        holdfast.connect(address, key=SECRET)
    assert SECRET not in str(refusal.value)
    with pytest.raises(InvalidUrl):
        asyncio.run(holdfast.connect_async(address, key=SECRET))


def test_plain_http_goes_to_this_machine_only() -> None:
    with pytest.raises(InvalidUrl, match="in the clear"):
        holdfast.connect("http://agents.example", key=SECRET)
    for address in ("http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9", "http://127.8.8.8:9"):
        with pytest.raises(ServerUnreachable):
            holdfast.connect(address, key=SECRET, retries=0)
    with pytest.raises(ServerUnreachable):
        holdfast.connect("http://agents.invalid:9", key=SECRET, retries=0, insecure=True)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"timeout_s": 0}, InvalidArgument),
        ({"timeout_s": "5"}, InvalidArgument),
        ({"retries": -1}, InvalidNumber),
        ({"retries": True}, InvalidNumber),
        ({"insecure": 1}, InvalidArgument),
        ({"key": "two words"}, KeyRefused),
        ({"key": "k\nHost: x"}, KeyRefused),
        ({"key": 7}, KeyRefused),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], kind: type[HoldfastError]) -> None:
    with pytest.raises(kind):
        holdfast.connect("https://agents.example", **options)


@pytest.mark.parametrize("path", ["/api", "/v1", "/mcp", "/healthz", "/elsewhere"])
@pytest.mark.parametrize("key", [TOKEN, "hf_other"])
def test_a_wrong_path_of_a_server_is_told_as_such(url: str, path: str, key: str) -> None:
    with pytest.raises((InvalidServerUrl, KeyRefused)) as refusal:
        holdfast.connect(url + path, key=key)
    assert key not in str(refusal.value)
    if key == TOKEN:
        assert refusal.type is InvalidServerUrl
        assert url + path in str(refusal.value)
        assert "holdfast serve" in str(refusal.value)


@pytest.mark.parametrize("status", [200, 301, 401, 404])
def test_a_server_of_something_else_is_told_as_such(status: int) -> None:
    async def answer(scope: Any, _receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
            return
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"hello": "world"}'})

    with running(answer) as url, pytest.raises(InvalidServerUrl, match=r"not as Holdfast|not that of Holdfast"):
        holdfast.connect(url, key=TOKEN)


@pytest.mark.parametrize("address", ["127.0.0.1:8787", "localhost:8787/api", "[::1]:8787", "agents.example:443"])
def test_an_address_without_a_scheme_is_shown(address: str) -> None:
    with pytest.raises(InvalidServerUrl, match="begins with https:// or http://") as refusal:
        holdfast.connect(address, key=SECRET)
    assert repr(address.partition("/")[0]) in str(refusal.value)


@pytest.mark.parametrize("address", ["hf_3b4eda_tkA24", f"ada:{SECRET}@host:1", "a.b.c", "agent.db"])
def test_what_may_be_a_secret_is_not_shown(address: str) -> None:
    with pytest.raises(InvalidServerUrl) as refusal:
        holdfast.connect(address, key="k")
    assert address not in str(refusal.value)
    assert SECRET not in str(refusal.value)


def test_the_key_is_an_argument_or_in_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_KEY", raising=False)
    for key in (None, "", "hf_other"):
        with pytest.raises(KeyRefused):
            holdfast.connect(url, key=key)
    monkeypatch.setenv("HOLDFAST_KEY", TOKEN)
    with holdfast.connect(url) as engine:
        assert engine.sessions() == ()
    with pytest.raises(KeyRefused):
        holdfast.connect(url, key="hf_other")


def test_nothing_shows_the_key(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with holdfast.connect(url, key=TOKEN) as engine:
        session = engine.session("shown", create=True)
        shown = [repr(each) for each in (engine, engine._drive, engine._drive.address, session, engine.admin)]  # type: ignore[attr-defined]
        shown.append(repr(vars(engine)))
        try:
            session.find_message("")
        except HoldfastError:
            shown.append(traceback.format_exc())
    with pytest.raises(ServerUnreachable) as refusal:
        holdfast.connect("http://127.0.0.1:9", key=TOKEN, retries=1)
    shown += [
        str(refusal.value),
        *traceback.format_exception(refusal.value),
        *(each.getMessage() for each in caplog.records),
    ]
    assert not [each for each in shown if TOKEN in each]


def test_a_closed_engine_is_closed(url: str) -> None:
    engine = holdfast.connect(url, key=TOKEN)
    session = engine.session("closed", create=True)
    engine.close()
    engine.close()
    with pytest.raises(StoreClosed, match="connection to http"):
        session.state()


def test_threads_share_an_engine(url: str) -> None:
    with holdfast.connect(url, key=TOKEN) as engine:
        session = engine.session("threads", create=True)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: session.record("user", f"message {number}"), range(40)))
        assert {each.text for each in session.messages()} == {f"message {number}" for number in range(40)}


def test_an_engine_works_in_several_event_loops(url: str) -> None:
    async def open_engine() -> holdfast.AsyncEngine:
        return await holdfast.connect_async(url, key=TOKEN)

    async def use(engine: holdfast.AsyncEngine) -> int:
        session = await engine.session("loops", create=True)
        await session.record("user", "hi")
        return len(await session.messages())

    engine = asyncio.run(open_engine())
    assert [asyncio.run(use(engine)) for _ in range(2)] == [1, 2]
    with warnings.catch_warnings():  # the connections of a loop that has ended without close() are dropped
        warnings.simplefilter("ignore", ResourceWarning)
        del engine
        gc.collect()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_opens_its_own_connections(url: str) -> None:
    with holdfast.connect(url, key=TOKEN) as engine:
        session = engine.session("forked", create=True)
        session.record("user", "parent")
        child = os.fork()
        if child == 0:
            try:
                session.record("user", "child")
                engine.close()
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        session.record("user", "parent again")
        assert [each.text for each in session.messages()] == ["parent", "child", "parent again"]


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    for name in [each for each in sys.modules if each.startswith("holdfast.client.transport")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ExtraMissing, match=r"holdfast\[client\]"):
        holdfast.connect("https://agents.example")


def test_what_is_impossible_says_why(url: str) -> None:
    with holdfast.connect(url, key=TOKEN) as engine:
        session = engine.session("local", create=True)
        session.record("user", "hi")
        with pytest.raises(LocalOnly, match="ephemeral fork"):
            session.fork(ephemeral=True)
        with pytest.raises(LocalOnly, match="strategy of your own"):
            session.pack(strategy=lambda candidates, _budget: candidates)
        with pytest.raises(LocalOnly, match="another tenant"):
            engine.acting_as(tenant="other")
        assert engine.acting_as().session("local").messages() == session.messages()
        with pytest.raises(LocalOnly, match="by itself"):
            engine.worker()
        with pytest.raises(LocalOnly, match="the store itself"):
            _ = engine.store


def test_a_key_of_a_user_works_in_the_namespace_of_that_user(tmp_path: Path) -> None:
    app = build_app(settings_of(tmp_path / "agent.db"))

    async def create() -> str:
        async with await holdfast.open_async(tmp_path / "agent.db") as engine:
            identity = holdfast.Identity(user_id="ada", user_name="Ada")
            grant = KeyGrant(name="ada", rights=("read", "write"), actor="ada", identity=identity)
            _, secret = await create_key(engine, grant, by="test")
            return secret

    key = asyncio.run(create())
    with running(app) as url, holdfast.connect(url, key=key) as engine:
        session = engine.session("s", create=True)
        assert session.scope.actor == "ada"
        session.record("user", "hi")
        assert [each.type for each in engine.watch("s", timeout_s=0)][-1] == "message.recorded"
        assert session.state().identity.user_id == "ada"
        session.ledger(user="ada").set("city", "Rome")
        assert engine.ledger(user="ada").get("city") is not None
        with session.frame("work", budget=10) as frame:
            frame.record("user", "inside")
        with session.turn() as bound:
            bound.record("user", "in a turn")
        with pytest.raises(RightMissing):
            engine.admin.totals()


def test_a_watch_goes_on_when_the_server_was_killed(tmp_path: Path) -> None:
    """None is missed and none comes twice, also if the connection is lost before the first event."""
    store, mark, port = tmp_path / "agent.db", tmp_path / "mark", free_port()
    mark.touch()
    with server_process(store, port, mark):
        engine = holdfast.connect(f"http://127.0.0.1:{port}", key=TOKEN, retries=20)
        session = engine.session("s", create=True)
        watch, early = engine.watch("s", after=None), engine.watch("s")
        assert next(early).type == "session.created"
    with holdfast.open(store) as embedded:  # while nobody listens
        for number in range(3):
            embedded.session("s").record("user", f"message {number}")
    with server_process(store, port, mark):
        session.record("user", "message 3")
        for each in (watch, early):
            assert [next(each).seq for _ in range(4)] == [2, 3, 4, 5]
            assert each.cursor == "5"
            each.close()
        engine.close()


def test_a_watch_that_is_closed_ends_its_waiting_thread(url: str) -> None:
    with holdfast.connect(url, key=TOKEN) as engine:
        engine.session("waits", create=True)
        watch = engine.watch("waits", after=None)
        ended = threading.Event()

        def wait() -> None:
            assert list(watch) == []
            ended.set()

        threading.Thread(target=wait, daemon=True).start()
        watch.close()
        assert ended.wait(PATIENCE_S)
