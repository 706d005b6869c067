"""The gateway as a service: who may use it, how it starts and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.gateway import choose_store
from holdfast.cli.settings import Settings
from holdfast.errors import InvalidArgument
from holdfast.gateway.proxy import Gateway, GatewayOptions
from holdfast.gateway.service import GatewayService, ServiceOptions
from holdfast.gateway.stores import default_store
from tests.gateway.conftest import Bench, ScriptedDesk
from tests.gateway.raw_upstream import (
    WAIT_S,
    RawRequest,
    RawUpstream,
    answer_with,
    build_answer,
    frame_chunk,
    open_client,
)
from tests.gateway.run_processes import end_with_tests
from tests.gateway.test_streams import END, SSE_HEAD, START, delta

BODY = json.dumps(
    {
        "model": "claude-x",
        "max_tokens": 9,
        "stream": True,
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "hello"}],
    }
).encode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: localhost\r\n", 200),
        ("Host: LOCALHOST:1\r\n", 200),
        ("Host: 127.0.0.1:99\r\n", 200),
        ("Host: [::1]:99\r\n", 200),
        ("Host: evil.example\r\n", 403),
        ("Host: 127.0.0.1.evil.example\r\n", 403),
        ("Host: localhost@evil.example\r\n", 403),
        ("Host: 192.168.0.9\r\n", 403),
        ("Host: localhost\r\nOrigin: http://localhost:3000\r\n", 200),
        ("Host: localhost\r\nOrigin: http://[::1]\r\n", 200),
        ("Host: localhost\r\nOrigin: https://evil.example\r\n", 403),
        ("Host: localhost\r\nOrigin: null\r\n", 403),
        ("Host: localhost\r\nOrigin: http://localhost.evil.example\r\n", 403),
    ],
)
def test_web_pages_cannot_use_it(bench: Bench, headers: str, status: int) -> None:
    bench.upstream.script = answer_with(build_answer(b"{}"))
    for path in ("/v1/models", "/holdfast/health"):
        with open_client(bench.url) as client:
            client.connection.sendall(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
            assert client.read_answer()[0] == status
    assert len(bench.upstream.requests) == (status == 200)


def test_it_tells_that_it_is_well(bench: Bench) -> None:
    with open_client(bench.url) as client:
        client.send("GET /holdfast/health")
        status, headers, body = client.read_answer()
    assert (status, json.loads(body)["status"]) == (200, "ok")
    assert {name.lower() for name, _ in headers} == {b"content-type", b"content-length"}
    assert bench.upstream.requests == []


@pytest.mark.parametrize("target", ["http://127.0.0.1/v1/models", "*"])
def test_a_target_that_is_no_path_is_refused(bench: Bench, target: str) -> None:
    with open_client(bench.url) as client:
        client.send(f"GET {target}")
        assert client.read_answer()[0] == 400


def test_an_address_for_other_machines_needs_a_word() -> None:
    gateway = Gateway(ScriptedDesk(), GatewayOptions())
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(InvalidArgument, match="allow-remote"):
            GatewayService(gateway, ServiceOptions(host=host))


def test_a_gateway_is_not_its_own_provider() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for host in ("127.0.0.1", "localhost", "[::1]"):
        url = f"http://{host}:{port}/v1"
        with pytest.raises(InvalidArgument, match="this gateway"):
            GatewayService(Gateway(ScriptedDesk(), GatewayOptions(openai_url=url)), ServiceOptions(port=port))


@pytest.mark.parametrize("url", ["api.example", "ftp://x", "http://", "http://u:p@x", "http://x?a=1", "http://x:99999"])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="base URL"):
        GatewayService(Gateway(ScriptedDesk(), GatewayOptions(anthropic_url=url)), ServiceOptions())


def test_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InvalidArgument, match="cannot be used"):
        GatewayService(Gateway(ScriptedDesk(), GatewayOptions()), ServiceOptions(port=taken.getsockname()[1]))


def test_the_store_is_that_of_the_user_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_store() == str(tmp_path / "home/.local/share/holdfast/gateway.db")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    settings = Settings()
    choose_store(settings)
    assert settings.file == str(tmp_path / "data/holdfast/gateway.db")
    assert (tmp_path / "data/holdfast").stat().st_mode & 0o777 == 0o700
    named = Settings(file="other.db", has_file=True)
    choose_store(named)
    assert named.file == "other.db"
    choose_store(named, "third.db")
    assert named.file == "third.db"


class GatewayProcess:
    """`holdfast gateway` in a process of its own."""

    def __init__(self, upstream: RawUpstream, store: Path) -> None:
        clean = {key: value for key, value in os.environ.items() if not key.endswith("_BASE_URL")}
        command = [sys.executable, "-m", "holdfast", "gateway", str(store), "--port", "0", "--json", "--grace", "20"]
        command += ["--anthropic-url", upstream.url, "--openai-url", f"{upstream.url}/v1"]
        self.process = subprocess.Popen(
            end_with_tests(*command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean
        )
        assert self.process.stdout is not None
        self.url: str = json.loads(self.process.stdout.readline())["url"]

    def wait(self) -> tuple[int, bytes]:
        _, errors = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, errors


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    upstream = RawUpstream(answer_with(b""))
    yield upstream
    upstream.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(upstream: RawUpstream, tmp_path: Path, number: int) -> None:
    """An open stream goes on to its end, its reply is in the store, and the exit code is 0."""
    is_stopped = threading.Event()

    def script(request: RawRequest, connection: socket.socket) -> None:
        connection.sendall(SSE_HEAD + frame_chunk(START) + frame_chunk(delta("before ")))
        assert is_stopped.wait(WAIT_S)
        connection.sendall(frame_chunk(delta("after")) + frame_chunk(END) + b"0\r\n\r\n")

    upstream.script = script
    gateway = GatewayProcess(upstream, tmp_path / "g.db")
    with open_client(gateway.url) as client:
        client.send("POST /v1/messages", "X-Api-Key: k\r\n", BODY)
        _, _, head = client.read_start()
        while b"before" not in client.rest:
            client.fill()
        gateway.process.send_signal(number)
        is_stopped.set()
        _, body = client.read_body(head)
    assert body == START + delta("before ") + delta("after") + END
    assert gateway.wait() == (0, b"")
    assert upstream.requests[0].body == BODY
    with holdfast.open(str(tmp_path / "g.db")) as engine:
        (row,) = [row for row in engine.sessions() if row.messages]
        messages = engine.session(row.session, actor=row.actor).messages()
        assert [message.text for message in messages] == ["hello", "before after"]
