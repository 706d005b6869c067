"""The layers around the routes: ids, logs, errors, sizes, times and numbers of requests, and clients that hold it up."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette

from holdfast import errors
from holdfast.access.records import KeyGrant
from holdfast.api.problems import raise_problem
from holdfast.errors import TooLarge
from holdfast.server import connections, metrics, state
from holdfast.server.app import build_app
from holdfast.server.logs import ACCESS, JsonFormatter, build_log_config
from holdfast.server.settings import ServerSettings
from holdfast.storage.blobs import folder as blob_folder
from tests.disk import QuotaDisk, TapFiles, TapVFS
from tests.server import workload
from tests.server.native.serving import make_keys
from tests.server.running import running
from tests.support import PATIENCE_S

TOKEN = "a-token-of-this-test"
HEADERS = {"authorization": f"Bearer {TOKEN}"}


@contextmanager
def serve(folder: Path, **settings: object) -> Iterator[tuple[Starlette, httpx2.Client]]:
    chosen = ServerSettings(store=str(folder / "agent.db"), token=TOKEN, background=False, **settings)  # type: ignore[arg-type]
    app = build_app(chosen, more=workload.routes())
    with running(app) as url, httpx2.Client(base_url=url, headers=HEADERS, timeout=PATIENCE_S) as client:
        yield app, client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client of a server that these tests share."""
    with serve(tmp_path_factory.mktemp("server")) as (_, client):
        yield client


def sample(name: str, **labels: str) -> float:
    found = [value for each, has, value in metrics.iterate_samples() if each == name and has == {**has, **labels}]
    return sum(found)


class LogLines(logging.Handler):
    """The lines that a server writes."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, object]] = []
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def log() -> Iterator[LogLines]:
    lines = LogLines()
    loggers = [logging.getLogger(name) for name in (ACCESS, "holdfast.server", "uvicorn.error")]
    for each in loggers:
        each.addHandler(lines)
        each.setLevel(logging.DEBUG)
    yield lines
    for each in loggers:
        each.removeHandler(lines)
        each.setLevel(logging.NOTSET)


# Ids and logs


@pytest.mark.parametrize("sent", ["trace-1", "a" * 128, "0.1:2_3"])
def test_the_id_of_a_request_comes_back(client: httpx2.Client, sent: str) -> None:
    assert client.get("/healthz", headers={"x-request-id": sent}).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["a" * 129, "two words", 'quo"te', "", "é"])
def test_an_id_that_is_unfit_for_logs_is_replaced(client: httpx2.Client, sent: str) -> None:
    own = client.get("/healthz", headers={b"x-request-id": sent.encode()}).headers["x-request-id"]
    assert own != sent
    assert len(own) == 32


def test_two_ids_are_none(client: httpx2.Client) -> None:
    answer = client.get("/healthz", headers=[("x-request-id", "one"), ("x-request-id", "two")])
    assert answer.headers["x-request-id"] not in ("one", "two")


def test_a_line_of_the_log_has_names_and_numbers_and_no_contents(client: httpx2.Client, log: LogLines) -> None:
    answer = client.post("/load/fail?q=secret-query", content="a secret body", headers={"x-request-id": "r-1"})
    assert answer.status_code == 500
    own = {"logger": ACCESS, "request_id": "r-1"}  # the line of an earlier request may come late
    wait_until(lambda: any(own.items() <= line.items() for line in log.lines))  # it is written after the answer
    request = next(line for line in log.lines if own.items() <= line.items())
    assert request.pop("ms") > 0  # type: ignore[operator]
    del request["time"]
    assert request == {
        "level": "info",
        "logger": ACCESS,
        "request_id": "r-1",
        "method": "POST",
        "route": "/load/fail",
        "status": 500,
        "stream": False,
        "key_id": "local",
        "tenant": "default",
    }
    failure = next(line for line in log.lines if line["logger"] == "holdfast.server")
    assert failure["request_id"] == "r-1"
    assert failure["error"]["type"] == "RuntimeError"  # type: ignore[index]
    assert any("workload.py" in frame for frame in failure["error"]["frames"])  # type: ignore[index]
    text = json.dumps(log.lines)
    assert "secret" not in text
    assert TOKEN not in text


def test_probes_are_not_in_the_log(client: httpx2.Client, log: LogLines) -> None:
    logging.getLogger(ACCESS).setLevel(logging.INFO)
    client.get("/healthz")
    client.get("/readyz")
    assert log.lines == []


# Errors


def test_every_error_is_a_problem_document(client: httpx2.Client) -> None:
    cases = [
        (client.get("/load/nobody/messages"), 404, "SessionNotFound"),
        (client.get("/nowhere"), 404, "about:blank"),
        (client.delete("/load/x/messages"), 405, "about:blank"),
        (client.post("/load/fail"), 500, "ServerFailed"),
        (client.post("/load/fail?how=full"), 507, "StorageFull"),
        (httpx2.get(f"{client.base_url}/load/x/messages"), 401, "KeyRefused"),
    ]
    for answer, status, name in cases:
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert (problem["type"], problem["status"]) == (name, status)
        assert problem["instance"] == answer.headers["x-request-id"]


def test_a_client_raises_the_error_of_the_engine(client: httpx2.Client) -> None:
    with pytest.raises(errors.SessionNotFound) as raised:
        raise_problem(client.get("/load/nobody/messages").json())
    assert (raised.value.session, raised.value.tenant) == ("nobody", "default")


def test_the_methods_of_an_address_are_named(client: httpx2.Client) -> None:
    assert client.put("/load/echo").headers["allow"] == "POST"


def test_a_full_disk_is_507_and_writes_resume_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = QuotaDisk(1 << 30)
    vfs = TapVFS(disk, default=True)
    monkeypatch.setattr(blob_folder, "Disk", lambda: TapFiles(disk))
    try:
        with serve(tmp_path) as (_, client):
            assert client.post("/load/a/messages", json={"text": "first"}).status_code == 201
            disk.room = disk.used + 10_000
            answers = [client.post("/load/a/messages", json={"text": "x" * 5_000}) for _ in range(20)]
            refused = answers[-1]
            assert refused.status_code == 507
            assert {each.status_code for each in answers} <= {201, 507}
            with pytest.raises(errors.StorageFull):
                raise_problem(refused.json())
            assert "agent.db" not in refused.text
            stored = [each for each in answers if each.status_code == 201]
            assert len(client.get("/load/a/messages").json()) == 1 + len(stored)
            disk.room = 1 << 30
            assert client.post("/load/a/messages", json={"text": "again"}).status_code == 201
    finally:
        vfs.unregister()


# Sizes and times


def test_a_body_over_the_limit_is_refused_by_its_length_and_by_its_bytes(tmp_path: Path) -> None:
    with serve(tmp_path, body_bytes=1_000) as (_, client):
        assert client.post("/load/echo", content=b"x" * 1_000).content == b"x" * 1_000
        for content in (b"x" * 1_001, iter([b"x" * 600, b"x" * 600])):
            answer = client.post("/load/echo", content=content)
            assert answer.status_code == 413
            with pytest.raises(TooLarge) as raised:
                raise_problem(answer.json())
            assert raised.value.limit == 1_000
        assert client.post("/load/echo", content=b"y").content == b"y"


def test_a_request_that_takes_too_long_is_504(tmp_path: Path) -> None:
    with serve(tmp_path, request_s=1) as (_, client):
        answer = client.post("/load/sleep?s=60")
        assert answer.status_code == 504
        with pytest.raises(errors.RequestTimeout) as raised:
            raise_problem(answer.json())
        assert raised.value.limit_s == 1
        assert client.post("/load/sleep?s=1.3&extend=30").json() == {"slept": True}


def test_long_answers_are_compressed_and_streams_are_not(client: httpx2.Client) -> None:
    client.post("/load/long/messages", json={"text": "word " * 500})
    answer = client.get("/load/long/messages")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json() == ["word " * 500]
    with client.stream("GET", "/load/flood", headers={"accept-encoding": "gzip"}) as stream:
        assert "content-encoding" not in stream.headers
        first = next(stream.iter_raw())
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(first)


def test_a_head_over_the_limit_is_refused(client: httpx2.Client) -> None:
    assert client.get("/healthz", headers={"x-long": "y" * (connections.HEADER_BYTES // 2)}).status_code == 200
    with connect(client) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"y" * connections.HEADER_BYTES)
        assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")


# Numbers


def test_requests_over_the_bound_wait_and_those_over_the_queue_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "RUNNING", 2)
    monkeypatch.setattr(state, "WAITING", 3)
    monkeypatch.setattr(state, "WAIT_S", 60)
    with serve(tmp_path) as (app, client), ThreadPoolExecutor(12) as threads:
        server: state.ServerState = app.state.server
        app.state.gate = threading.Event()
        jobs = [threads.submit(client.post, "/load/hold") for _ in range(12)]
        wait_until(lambda: sum(job.done() for job in jobs) == 7)
        app.state.gate.set()
        answers = [job.result() for job in jobs]
        assert sorted(each.status_code for each in answers) == [200] * 5 + [503] * 7
        for each in answers:
            if each.status_code == 503:
                assert each.headers["retry-after"] == "1"
                with pytest.raises(errors.ServerBusy):
                    raise_problem(each.json())
        assert client.get("/healthz").status_code == 200
        assert client.post("/load/sleep?s=0").status_code == 200
        wait_until(lambda: (server._waiting, server._places._value, server._requests) == (0, 2, set()))


def test_a_request_waits_no_longer_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "RUNNING", 1)
    monkeypatch.setattr(state, "WAIT_S", 0.2)
    with serve(tmp_path) as (app, client), ThreadPoolExecutor(2) as threads:
        app.state.gate = threading.Event()
        first = threads.submit(client.post, "/load/hold")
        wait_until(app.state.server._places.locked)
        assert client.post("/load/sleep?s=0").status_code == 503
        app.state.gate.set()
        assert first.result().status_code == 200


def test_streams_have_a_bound_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "RUNNING", 2)
    monkeypatch.setattr(state, "STREAMS", 5)
    with serve(tmp_path) as (app, client):
        client.post("/load/a/messages", json={"text": "hi"})
        streams = [client.stream("GET", "/load/a/events") for _ in range(5)]
        opened = [each.__enter__() for each in streams]
        assert {each.status_code for each in opened} == {200}
        assert client.post("/load/a/messages", json={"text": "more"}).status_code == 201
        refused = client.get("/load/a/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        for each in streams:
            each.__exit__(None, None, None)
        wait_until(lambda: app.state.server._streams == 0)
        with client.stream("GET", "/load/a/events") as again:
            assert again.status_code == 200


def wait_until(condition: object, seconds: float = PATIENCE_S) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.01)


# Clients that hold things up


@contextmanager
def connect(client: httpx2.Client) -> Iterator[socket.socket]:
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=PATIENCE_S) as connection:
        yield connection


def send_request(connection: socket.socket, line: str) -> None:
    connection.sendall(f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())


def read_to_end(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    pieces = []
    try:
        while piece := connection.recv(65_536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


@pytest.mark.parametrize("begin", ["", "GET /healthz HT", "GET /healthz HTTP/1.1\r\nHost: a\r\n"])
def test_a_client_that_sends_no_complete_head_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: str
) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.3)
    with serve(tmp_path) as (_, client), connect(client) as connection:
        connection.sendall(begin.encode())
        assert read_to_end(connection) == b""


def test_a_second_request_that_is_never_completed_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.3)
    with serve(tmp_path) as (_, client), connect(client) as connection:
        send_request(connection, "GET /healthz")
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):
            answer += connection.recv(65_536)
        connection.sendall(b"GET /healthz HT")
        assert read_to_end(connection) == b""


def test_a_client_that_does_not_read_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALL_S", 0.3)
    with serve(tmp_path) as (app, client), connect(client) as connection:
        send_request(connection, "GET /load/flood")
        wait_until(lambda: app.state.server._streams == 1)
        wait_until(lambda: app.state.server._streams == 0)
        assert app.state.server._requests == set()


@pytest.mark.parametrize("path", ["/load/flood", "/load/a/events"])
def test_a_client_that_half_closes_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(connections, "STALL_S", 0.3)
    with serve(tmp_path) as (app, client):
        client.post("/load/a/messages", json={"text": "hi"})
        with connect(client) as connection:
            send_request(connection, f"GET {path}")
            wait_until(lambda: app.state.server._streams == 1)
            connection.shutdown(socket.SHUT_WR)
            wait_until(lambda: app.state.server._streams == 0)
            assert app.state.server._requests == set()


def test_streams_end_in_order_when_the_server_stops(tmp_path: Path) -> None:
    read: list[str] = []
    with serve(tmp_path) as (_, client):
        client.post("/load/a/messages", json={"text": "hi"})

        def follow() -> None:
            own = httpx2.Client(base_url=client.base_url, headers=HEADERS, timeout=PATIENCE_S)
            with own, own.stream("GET", "/load/a/events") as stream:
                read.extend(stream.iter_lines())
            read.append("complete")

        thread = threading.Thread(target=follow)
        thread.start()
        wait_until(lambda: len(read) > 3)
    thread.join(PATIENCE_S)
    assert read[-1] == "complete"


# Probes


def test_a_server_is_ready_while_its_store_answers(tmp_path: Path) -> None:
    with serve(tmp_path) as (app, client):
        assert client.get("/readyz").json() == {"status": "ready"}
        app.state.probe._until = 0.0
        (tmp_path / "agent.db").rename(tmp_path / "elsewhere.db")
        gone = client.get("/readyz")
        assert (gone.status_code, gone.json()["status"]) == (503, "unavailable")
        (tmp_path / "elsewhere.db").rename(tmp_path / "agent.db")
        app.state.probe._until = 0.0
        assert client.get("/readyz").status_code == 200
        app.state.server.is_draining = True
        assert client.get("/readyz").json() == {"status": "stopping"}
        assert client.get("/healthz").json() == {"status": "ok"}


def test_however_many_ask_the_store_is_read_once_in_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(tmp_path) as (app, client):
        reads = 0
        head = app.state.engine.store.head

        async def count(stream: object) -> object:
            nonlocal reads
            reads += 1
            await asyncio.sleep(0.05)
            return await head(stream)

        app.state.engine.store.head = count
        app.state.probe._until = 0.0
        monkeypatch.setattr("holdfast.server.probes.CACHE_S", 60)
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda _: client.get("/readyz").status_code, range(16)))
        assert (set(answers), reads) == ({200}, 1)


def test_metrics_count_by_route_template(client: httpx2.Client) -> None:
    route = "/load/{session}/messages"
    before = sample("holdfast_requests_total", route=route, method="POST", status="2xx")
    events = sample("holdfast_events_appended_total")
    for number in range(3):
        client.post(f"/load/s{number}/messages", json={"text": "hi"})
    client.get("/nobody/knows/this")
    assert sample("holdfast_requests_total", route=route, method="POST", status="2xx") == before + 3
    assert sample("holdfast_events_appended_total") >= events + 6
    text = client.get("/metrics").text
    assert 'route="unmatched"' in text
    assert "nobody" not in text
    assert 'holdfast_store{what="queue"}' in text
    assert "holdfast_requests_running 0.0" in text


def test_a_method_that_is_not_known_is_no_label(client: httpx2.Client) -> None:
    client.request("BREW", "/healthz")
    assert "BREW" not in client.get("/metrics").text


def test_metrics_need_a_key_where_others_can_reach_the_server(tmp_path: Path) -> None:
    (key,) = make_keys(tmp_path, KeyGrant(name="scraper", rights=("admin",)))
    with serve(tmp_path, behind_tls=True) as (_, client):
        assert client.get("/metrics", headers={"authorization": f"Bearer {key}"}).status_code == 200
        assert httpx2.get(f"{client.base_url}/metrics").status_code == 401


@pytest.mark.parametrize("path", ["/inspector", "/foo"])
def test_an_address_without_anything_names_the_parts(client: httpx2.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "/api" in answer.json()["detail"]
    assert "/v1 and /mcp" in answer.json()["detail"]


@pytest.mark.parametrize(("level", "count"), [("debug", 3), ("info", 3), ("warning", 2), ("error", 1)])
def test_lines_of_uvicorn_have_our_name_and_the_death_of_a_worker_is_a_warning(level: str, count: int) -> None:
    config = build_log_config(level)
    assert config["loggers"]["uvicorn.error"]["filters"] == ["uvicorn"]
    options = config["filters"]["uvicorn"]
    kept, formatter = options["()"](options["level"]), JsonFormatter()
    lines = []
    for number, text in (
        (logging.INFO, "Waiting for child process [7]"),
        (logging.INFO, "Child process [7] died"),
        (logging.ERROR, "Child process [7] failed to start"),
    ):
        assert number >= config["loggers"]["uvicorn.error"]["level"]
        record = logging.LogRecord("uvicorn.error", number, "", 0, text, None, None)
        lines += [json.loads(formatter.format(record))] if kept.filter(record) else []
    assert {each["logger"] for each in lines} == {"holdfast.server"}
    assert [each["level"] for each in lines] == ["info", "warning", "error"][-count:]
