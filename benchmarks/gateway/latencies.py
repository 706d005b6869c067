"""The time to the first byte of an answer through the gateway, beside a direct connection, and the memory of the gateway.

Each call is sent both ways, and the difference is what counts. The clients are tasks of this process; the provider, which
answers at once, and the gateway have a process each.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.gateway.contenders import Contender, GatewayProcess, build_holdfast, run_contender
from benchmarks.gateway.heads import LARGE_HEAD, Head
from benchmarks.gateway.material import BodyBuilder, ReplaySession
from benchmarks.gateway.replays import build_headers

LARGE_BYTES = 400_000
"""From here on, a body counts as large."""
PAUSE_S = 0.05
"""Between the calls of one client."""
THINK_S = 2.0
"""On average, between the calls of each of many clients: less than recorded tools and models take."""
MANY = 32
CLASSES = (
    "1 client, bodies under 400 kB",
    "1 client, bodies from 400 kB on",
    "1 client, all bodies",
    f"{MANY} clients",
)


class FirstByte(msgspec.Struct, frozen=True):
    """The times of one call, in seconds."""

    bytes: int
    direct_s: float
    gateway_s: float

    @property
    def added_ms(self) -> float:
        return (self.gateway_s - self.direct_s) * 1_000


class MemoryUse(msgspec.Struct, frozen=True):
    requests: int
    start: int
    middle: int
    end: int
    wall_s: float


@contextlib.contextmanager
def serve_quickly(sessions: Sequence[ReplaySession], folder: Path) -> Iterator[str]:
    """A provider that answers at once; yields its address."""
    path = folder / "replies.json"
    path.write_text(json.dumps({f"{each.name}/{call.number}": call.reply for each in sessions for call in each.calls}))
    command = [sys.executable, "-m", "benchmarks.gateway.quick_upstream", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


class Connection:
    """One connection of a client."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._reader: asyncio.StreamReader | None = None

    async def call(self, session: str, number: int, body: bytes) -> float:
        """Send a call and read its answer. Returns the seconds until the first byte of its body."""
        if self._reader is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=1 << 22)
        headers = {**build_headers(session), "Host": "127.0.0.1", "x-fake-reply": f"{session}/{number}"}
        head = "".join(f"{key}: {value}\r\n" for key, value in {**headers, "Content-Length": len(body)}.items())
        begun = time.perf_counter()
        self._writer.write(f"POST /v1/messages?beta=true HTTP/1.1\r\n{head}\r\n".encode() + body)
        status = await self._reader.readuntil(b"\r\n\r\n")
        size = await self._reader.readline()
        taken = time.perf_counter() - begun
        if b" 200 " not in status.partition(b"\r\n")[0]:
            raise ConnectionError(status.partition(b"\r\n")[0].decode())
        while length := int(size, 16):
            await self._reader.readexactly(length + 2)
            size = await self._reader.readline()
        await self._reader.readline()
        return taken

    def close(self) -> None:
        if self._reader is not None:
            self._writer.close()


async def _measure(
    session: ReplaySession, name: str, direct: str, gateway: str, head: Head, calls: slice, think: random.Random | None
) -> list[FirstByte]:
    """Send calls of a session both ways, in turns. The first one is not counted: the gateway reads all of it."""
    straight, through = Connection(direct), Connection(gateway)
    bodies = BodyBuilder(head, name)
    found: list[FirstByte] = []
    for place, call in enumerate(session.calls[calls]):
        await asyncio.sleep(PAUSE_S if think is None else think.expovariate(1 / THINK_S))
        body = bodies.build(call.turns)
        ways = (straight, through) if place % 2 else (through, straight)
        times = {way: await way.call(name, call.number, body) for way in ways}
        if place:
            found.append(FirstByte(len(body), times[straight], times[through]))
    straight.close()
    through.close()
    return found


def measure_one(sessions: Sequence[ReplaySession], direct: str, gateway: str) -> list[FirstByte]:
    """One client, from the beginning of each session to its end."""

    async def run() -> list[FirstByte]:
        found = []
        for session in sessions:
            found += await _measure(session, session.name, direct, gateway, LARGE_HEAD, slice(None), None)
        return found

    return asyncio.run(run())


def measure_many(sessions: Sequence[ReplaySession], direct: str, gateway: str, each: int) -> list[FirstByte]:
    """Many clients at once, each with calls from the middle of a session on."""

    async def run() -> list[FirstByte]:
        chosen = list(itertools.islice(itertools.cycle(sessions), MANY))
        works = []
        for number, session in enumerate(chosen):
            start = max(0, len(session.calls) // 2 - each // 2)
            name = f"{session.name}+many{number}"
            calls = slice(start, start + each + 1)
            works.append(_measure(session, name, direct, gateway, LARGE_HEAD, calls, random.Random(number)))
        return [each for found in await asyncio.gather(*works) for each in found]

    return asyncio.run(run())


def measure_memory(sessions: Sequence[ReplaySession], process: GatewayProcess, requests: int) -> MemoryUse:
    """The memory of the gateway, at the start, in the middle and at the end of so many requests, without a pause."""

    async def run() -> MemoryUse:
        start = middle = process.read_rss()
        begun, sent = time.perf_counter(), 0
        connection = Connection(process.url.removeprefix("http://"))
        for number, session in enumerate(itertools.cycle(sessions)):
            name = f"{session.name}+memory{number}"
            bodies = BodyBuilder(LARGE_HEAD, name)
            for call in session.calls:
                await connection.call(name, call.number, bodies.build(call.turns))
                sent += 1
                if sent == requests // 2:
                    middle = process.read_rss()
                if sent == requests:
                    connection.close()
                    return MemoryUse(sent, start, middle, process.read_rss(), time.perf_counter() - begun)
        raise AssertionError("the cycle has no end")

    return asyncio.run(run())


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Latencies(msgspec.Struct, frozen=True):
    """Added milliseconds to the first byte."""

    what: str
    calls: int
    body: int
    """The median bytes of a body."""
    direct_ms: float
    p50: float
    p95: float
    most: float

    @classmethod
    def of(cls, what: str, found: Sequence[FirstByte]) -> Latencies:
        added = [each.added_ms for each in found]
        return cls(
            what,
            len(found),
            int(statistics.median([each.bytes for each in found])),
            statistics.median([each.direct_s for each in found]) * 1_000,
            percentile(added, 0.5),
            percentile(added, 0.95),
            max(added),
        )


def measure_latencies(
    sessions: Sequence[ReplaySession], folder: Path, *, each: int, requests: int, contender: Contender | None = None
) -> tuple[list[Latencies], MemoryUse]:
    """One client, many clients, and the memory of a gateway that began with neither."""
    contender = build_holdfast("faithful") if contender is None else contender
    with serve_quickly(sessions, folder) as upstream:
        with run_contender(contender, f"http://{upstream}", folder / "one") as process:
            one = measure_one(sessions[:: max(1, len(sessions) // 8)], upstream, process.url.removeprefix("http://"))
            many = measure_many(sessions, upstream, process.url.removeprefix("http://"), each)
        with run_contender(contender, f"http://{upstream}", folder / "memory") as process:
            memory = measure_memory(sessions, process, requests)
    large = [each for each in one if each.bytes >= LARGE_BYTES]
    usual = [each for each in one if each.bytes < LARGE_BYTES]
    pairs = zip(CLASSES, (usual, large, one, many), strict=True)
    return [Latencies.of(what, found) for what, found in pairs if found], memory
