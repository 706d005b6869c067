"""The server in processes of its own: workers that are killed, replicas that are restarted, SIGTERM in the middle of work,
more clients than a store has connections, and streams that their clients abandon."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

import holdfast
from holdfast import errors
from holdfast.api.problems import read_problem
from holdfast.server.settings import ServerSettings
from holdfast.server.state import RUNNING, WAITING
from tests.postgres import empty_url
from tests.server.processes import ServerProcess, serving, wait_for
from tests.support import PATIENCE_S, figure

CLIENTS = 8
MESSAGES = figure(25, 500)
"""Of each client."""
KILLS = figure(3, 40)
RESTARTS = figure(2, 20)
MANY = 200
"""Clients at the same time, for a store with four connections."""
ABANDONED = figure(300, 10_000)
TRY_AGAIN = (httpx2.TransportError,)
"""What a client sees of a server that is killed or restarted: it sends its request again, under the same key."""


async def send_messages(client: httpx2.AsyncClient, servers: list[ServerProcess], name: str, count: int) -> list[str]:
    """Send messages as a careful client does: each under a key of its own, again and again until it is acknowledged."""
    sent = [f"{name} says {number}" for number in range(count)]
    session = f"/api/sessions/{name}"
    await send_until_acknowledged(client, servers, "PUT", session, {"create": True}, f"{name} begins")
    for text in sent:
        body = {"message": "user", "content": text}
        await send_until_acknowledged(client, servers, "POST", f"{session}/messages", body, text)
    return sent


async def send_until_acknowledged(
    client: httpx2.AsyncClient, servers: list[ServerProcess], method: str, path: str, body: object, key: str
) -> None:
    """Send a request to any of the servers, again after a lost connection or a 503, under the same key."""
    while True:
        server = random.choice(servers)
        headers = {**server.headers, "idempotency-key": key}
        try:
            answer = await client.request(method, f"{server.url}{path}", json=body, headers=headers)
        except TRY_AGAIN:
            await asyncio.sleep(0.02)
            continue
        if answer.status_code in (200, 201):
            return
        assert answer.status_code == 503, answer.text
        await asyncio.sleep(0.02)


class Load(threading.Thread):
    """Clients that send messages in the background."""

    def __init__(self, servers: list[ServerProcess], clients: int, messages: int) -> None:
        super().__init__()
        self._servers = servers
        self._names = [f"client{number}" for number in range(clients)]
        self._messages = messages
        self.sent: dict[str, list[str]] = {}

    def run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:
            jobs = [send_messages(client, self._servers, name, self._messages) for name in self._names]
            self.sent = dict(zip(self._names, await asyncio.gather(*jobs), strict=True))


def check_stored(store: str, sent: dict[str, list[str]]) -> None:
    """Everything that was acknowledged is stored, once and in order."""
    assert sent
    with holdfast.open(store) as engine:
        for name, texts in sent.items():
            stored = [message.text for message in engine.session(name).messages(limit=1_000)]
            assert stored == texts
        assert engine.admin.verify().ok


def read_metric(server: ServerProcess, name: str, *labels: str) -> float:
    lines = httpx2.get(f"{server.url}/metrics").text.splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith((f"{name} ", f"{name}{{")) and all(label in line for label in labels)
    )


def test_a_killed_worker_is_started_again_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    store = str(tmp_path / "agent.db")
    with serving(ServerSettings(store=store, workers=2)) as server:
        load = Load([server], CLIENTS, MESSAGES)
        load.start()
        for _ in range(KILLS):
            before = server.workers()
            victim = random.choice(before)
            os.kill(victim, signal.SIGKILL)
            wait_for(
                lambda victim=victim: len(server.workers()) == 2 and victim not in server.workers(),  # type: ignore[misc]
                "the worker was not started again",
            )
        load.join(PATIENCE_S)
        server.wait_until_ready()
        counted = read_metric(server, "holdfast_requests_total", 'method="POST"', 'status="2xx"')
        assert counted >= CLIENTS * (MESSAGES - KILLS)  # a killed worker may not have counted its last answers
        wait_for(lambda: read_metric(server, "holdfast_requests_running") == 0, "a dead worker is still in the sum")
        seen = {read_metric(server, "holdfast_requests_total", 'method="POST"') for _ in range(10)}
        assert len(seen) == 1, "the workers tell different totals"
        assert server.stop() == 0
    check_stored(store, load.sent)


def test_replicas_are_restarted_one_after_the_other_while_clients_go_on() -> None:
    with empty_url() as store, ExitStack() as stack:
        settings = ServerSettings(store=store, grace_s=10)
        servers = [stack.enter_context(serving(settings)) for _ in range(2)]
        load = Load(servers, CLIENTS, MESSAGES)
        load.start()
        for _ in range(RESTARTS):
            for place in range(len(servers)):
                assert servers[place].stop() == 0
                servers[place] = stack.enter_context(serving(settings))
        load.join(PATIENCE_S)
        for server in servers:
            assert server.stop() == 0
        check_stored(store, load.sent)


class Follower(threading.Thread):
    """A client that reads an answer to its end."""

    def __init__(self, server: ServerProcess, method: str, path: str) -> None:
        super().__init__()
        self._client = server.client(timeout=60)
        self._request = (method, path)
        self.lines: list[str] = []
        self.status = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with self._client, self._client.stream(*self._request) as stream:
                self.status = stream.status_code
                self.lines.extend(stream.iter_lines())
        except httpx2.HTTPError as error:
            self.error = error


def test_sigterm_drains_ends_streams_and_gives_turns_back(tmp_path: Path) -> None:
    store = str(tmp_path / "agent.db")
    with serving(ServerSettings(store=store, grace_s=1, drain_s=2)) as server, server.client() as client:
        client.post("/load/a/messages", json={"text": "hi"})
        followers = [
            Follower(server, "GET", "/load/a/events"),
            Follower(server, "POST", "/load/streamed/turn?stream=1"),
            Follower(server, "POST", "/load/waited/turn"),
        ]
        for each in followers:
            each.start()
        wait_for(lambda: len(followers[0].lines) > 3 and len(followers[1].lines) > 0, "the streams do not begin")
        wait_for(lambda: read_metric(server, "holdfast_requests_running") == 1, "the request does not begin")
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: client.get("/readyz").status_code == 503, "it says that it is ready", 2)
        assert client.post("/load/a/messages", json={"text": "while it drains"}).status_code == 201
        assert server.process.wait(PATIENCE_S) == 0
        for each in followers:
            each.join(PATIENCE_S)
            assert each.error is None, "the answer was cut off"
        assert [each.status for each in followers] == [200, 200, 504]
        assert '"RequestTimeout"' in followers[2].lines[0]
        levels = Counter(line["level"] for line in server.log_lines())
        assert levels["error"] == 1  # that of the request which had no time left
    with holdfast.open(store) as engine:
        for name in ("streamed", "waited"):
            with engine.session(name).turn(wait_s=0):
                pass
        assert [message.text for message in engine.session("a").messages()] == ["hi", "while it drains"]


STORES = ["sqlite", "postgres"]


@pytest.fixture(params=STORES)
def small_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store that can serve few at a time."""
    if request.param == "sqlite":
        yield str(tmp_path / "agent.db")
        return
    with empty_url() as url:
        yield f"{url}&pool=4"


async def overload(server: ServerProcess) -> Counter[int]:
    """All clients at once, without patience; then what was refused, again."""
    limits = httpx2.Limits(max_connections=MANY, max_keepalive_connections=MANY)
    async with server.async_client(limits=limits, timeout=60) as client:

        async def send(number: int) -> httpx2.Response:
            return await client.post(
                f"/load/s{number}/messages", json={"text": f"m{number}"}, headers={"idempotency-key": f"k{number}"}
            )

        answers = await asyncio.gather(*(send(number) for number in range(MANY)))
        statuses = Counter(answer.status_code for answer in answers)
        waiting = [number for number, answer in enumerate(answers) if answer.status_code != 201]
        for number in waiting:
            assert int(answers[number].headers["retry-after"]) >= 1
            assert isinstance(read_problem(answers[number].json()), errors.ServerBusy | errors.StorageBusy)
        while waiting:
            again = await asyncio.gather(*(send(number) for number in waiting))
            waiting = [number for number, answer in zip(waiting, again, strict=True) if answer.status_code != 201]
        reads = await asyncio.gather(*(client.get(f"/load/s{number}/messages") for number in range(20)))
        assert [answer.json() for answer in reads] == [[f"m{number}"] for number in range(20)]
    return statuses


def test_more_clients_than_the_store_can_serve(small_store: str) -> None:
    with serving(ServerSettings(store=small_store)) as server:
        for _ in range(figure(1, 20)):
            statuses = asyncio.run(overload(server))
            assert set(statuses) <= {201, 503}
            assert statuses[201] >= min(MANY, RUNNING + WAITING) // 2
        assert read_metric(server, "holdfast_requests_running") == 0
        assert read_metric(server, "holdfast_requests_waiting") == 0
        assert server.stop() == 0
    check_stored(small_store, {f"s{number}": [f"m{number}"] for number in range(MANY)})


def resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))


def abandon(server: ServerProcess, number: int) -> None:
    """Open a stream and go away, in one of the ways in which clients do."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"GET /load/a/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n\r\n"
        connection.sendall(head.encode())
        match number % 4:
            case 0:  # at once, with a reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case 1:  # after the first bytes
                connection.recv(100)
            case 2:  # half, and then without reading
                connection.shutdown(socket.SHUT_WR)
                time.sleep(0.001)
            case 3:  # with a reset in the middle of the stream
                connection.recv(100)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_abandoned_streams_leave_nothing_behind(tmp_path: Path) -> None:
    """The memory of the process is compared with what it was after a first round, which fills caches and pools that stay.
    Private dirty pages are what the process itself holds; before each look, garbage is collected and the allocator
    returns what it keeps for later (malloc_trim)."""
    with (
        serving(ServerSettings(store=str(tmp_path / "agent.db"), background=False)) as server,
        server.client() as client,
    ):
        client.post("/load/a/messages", json={"text": "hi"})

        def settle() -> int:
            wait_for(lambda: read_metric(server, "holdfast_streams_open") == 0, "streams stay open")
            assert client.post("/load/rest").status_code == 204
            return resident_kb(server.process.pid)

        for number in range(100):
            abandon(server, number)
        before = settle()
        for number in range(ABANDONED):
            abandon(server, number)
        after = settle()
        assert after <= before * 1.1, f"{before} kB before, {after} kB after"
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < 40
        assert client.post("/load/a/messages", json={"text": "still here"}).status_code == 201
        assert server.stop() == 0
