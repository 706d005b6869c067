"""The server: requests a second and p99 of appends, packs and items of conversations, against the library in this process,
a bare route, and another server of the same API.

Every contender takes its turns in the same run: 16 clients, each with a conversation of its own and a connection that
stays open. `holdfast serve` runs with its default settings; every append is durable before it is answered.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
from tests.postgres_server import SOCKET_FOLDER, PostgresServer

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import Bench, Sample, Samples, Turn, environment, rate, rate_ratio
from benchmarks.report import Line, Table, per_second
from benchmarks.server_clients import (
    CONNECTIONS,
    Address,
    Turns,
    measure_requests,
    measure_tasks,
    serve_bare,
    serve_devui,
    serve_store,
)

HERE = Path(__file__).parent
LOCK = HERE / "server.lock"
ENVIRONMENT = HERE.parent / ".venv-server"
DEVUI = HERE / "server_devui.py"
OPERATIONS = ("append", "pack", "items")
FILLED = 60
"""Messages of a conversation that is packed."""
BUDGET = 4_000
_numbers = itertools.count()


def run(bench: Bench) -> list[Table]:
    with ExitStack() as stack:
        server = PostgresServer(parent=SOCKET_FOLDER)
        stack.callback(server.remove)
        tables = [measure_store(bench, "SQLite", str(bench.file("agent.db")))]
        tables.append(measure_store(bench, "PostgreSQL", server.url()))
    tables.append(measure_peer(bench))
    return tables


def measure_store(bench: Bench, kind: str, store: str) -> Table:
    """`holdfast serve` with one and two workers on a store, the library on the same store, and bare routes."""
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        engine = runner.run(holdfast.open_async(store))
        stack.callback(lambda: runner.run(engine.close()))
        turns: dict[str, Turn] = {}
        noted: dict[str, Turns] = {}

        def add(name: str, measure: Callable[[Turns], Sample]) -> None:
            noted[name] = Turns()
            turns[name] = lambda: measure(noted[name])

        requests = bench.pick(15, 8)
        for operation, work in library_works(engine, runner, requests).items():
            add(f"{operation} library", lambda own, work=work: measure_tasks(work(), runner, own))  # type: ignore[misc]
        for workers in (1, 2):
            bare = stack.enter_context(serve_bare(workers, bench.folder))
            add(f"bare {workers}", lambda own, bare=bare: measure_requests(bare, bare_requests(bare, requests), own))  # type: ignore[misc]
            address = stack.enter_context(serve_store(store, workers, bench.folder))
            for operation, make in server_requests(address, requests).items():
                add(
                    f"{operation} {workers}",
                    lambda own, make=make, address=address: measure_requests(address, make(), own),  # type: ignore[misc]
                )
        samples = bench.in_turns(bench.pick(5, 3), turns, slices=bench.pick(3, 2))
    return build_table(kind, samples, noted)


def build_table(kind: str, samples: Samples, noted: dict[str, Turns]) -> Table:
    lines = []
    for workers in (1, 2):
        bare = f"bare {workers}"
        for operation in OPERATIONS:
            name, library = f"{operation} {workers}", f"{operation} library"
            lines.append(
                Line(
                    what=f"{operation}, {workers} worker{'s' if workers > 1 else ''}, against the library",
                    ours=show(samples, noted, name),
                    theirs=show(samples, noted, library),
                    ratio=rate_ratio(samples[name], samples[library]),
                )
            )
            lines.append(
                Line(
                    what=f"{operation}, {workers} worker{'s' if workers > 1 else ''}, against a bare route",
                    ours=show(samples, noted, name),
                    theirs=show(samples, noted, bare),
                    ratio=rate_ratio(samples[name], samples[bare]),
                )
            )
    text = len(sample_messages.text(0))
    notes = [
        f"{CONNECTIONS} clients with a conversation each; p99 in brackets. The client shares the cores with the server.",
        f"append: a message of {text} characters. items: the same through /v1/conversations.",
        f"pack: {BUDGET:,} tokens of a conversation of {FILLED} messages.",
        "library: the async engine in the process of the client, with as many tasks as there are clients.",
        "bare: one Starlette route that reads JSON and writes it back, on the same uvicorn and h11; it stores nothing.",
    ]
    return Table(
        name="server", title=f"holdfast serve on {kind}", ours="server", theirs="other", lines=lines, notes=notes
    )


def show(samples: Samples, noted: dict[str, Turns], name: str) -> str:
    return f"{per_second(rate(samples[name]))} ({noted[name].p99_ms:.0f} ms)"


def library_works(
    engine: holdfast.AsyncEngine, runner: asyncio.Runner, requests: int
) -> dict[str, Callable[[], list[Callable[[], Iterator[Coroutine[Any, Any, Any]]]]]]:
    """The same work through the library, by operation."""
    run_number = next(_numbers)

    async def fill(name: str, count: int) -> holdfast.AsyncSession:
        session = await engine.create_session(f"library {run_number} {name}")
        for number in range(count):
            await session.record("user" if number % 2 == 0 else "assistant", sample_messages.text(number))
        return session

    sessions = [runner.run(fill(str(number), 0)) for number in range(CONNECTIONS)]
    filled = [runner.run(fill(f"filled {number}", FILLED)) for number in range(CONNECTIONS)]

    def record(session: holdfast.AsyncSession) -> Iterator[Coroutine[Any, Any, Any]]:
        return (session.record("user", sample_messages.text(next(_numbers))) for _ in range(requests))

    def pack(session: holdfast.AsyncSession) -> Iterator[Coroutine[Any, Any, Any]]:
        return (session.pack(budget=BUDGET) for _ in range(requests))

    def append_works() -> list[Callable[[], Iterator[Coroutine[Any, Any, Any]]]]:
        return [lambda each=each: record(each) for each in sessions]  # type: ignore[misc]

    def pack_works() -> list[Callable[[], Iterator[Coroutine[Any, Any, Any]]]]:
        return [lambda each=each: pack(each) for each in filled]  # type: ignore[misc]

    return {"append": append_works, "items": append_works, "pack": pack_works}


def server_requests(address: Address, requests: int) -> dict[str, Callable[[], list[list[bytes]]]]:
    """The requests of a turn, by operation: a list for each client."""
    with httpx2.Client(base_url=address.url, headers=address.headers, timeout=60) as client:
        run_number = next(_numbers)
        sessions = [f"server-{run_number}-{number}" for number in range(CONNECTIONS)]
        filled = [f"{name}-filled" for name in sessions]
        for name in [*sessions, *filled]:
            client.put(f"/api/sessions/{name}", json={"create": True}).raise_for_status()
        roles = itertools.cycle(["user", "assistant"])
        batch = {"messages": [[next(roles), sample_messages.text(number)] for number in range(FILLED)]}
        for name in filled:
            client.post(f"/api/sessions/{name}/messages/batch", json=batch).raise_for_status()
        conversations = [create_conversation(client) for _ in range(CONNECTIONS)]

    def build(path: str, body: Callable[[], object]) -> list[bytes]:
        return [address.request(path, body()) for _ in range(requests)]

    return {
        "append": lambda: [build(f"/api/sessions/{name}/messages", new_message) for name in sessions],
        "pack": lambda: [build(f"/api/sessions/{name}/packs", lambda: {"budget": BUDGET}) for name in filled],
        "items": lambda: [build(f"/v1/conversations/{name}/items", new_item) for name in conversations],
    }


def create_conversation(client: httpx2.Client) -> str:
    created = client.post("/v1/conversations", json={})
    created.raise_for_status()
    return str(created.json()["id"])


def new_message() -> dict[str, Any]:
    return {"message": "user", "content": sample_messages.text(next(_numbers))}


def new_item() -> dict[str, Any]:
    content = [{"type": "input_text", "text": sample_messages.text(next(_numbers))}]
    return {"items": [{"type": "message", "role": "user", "content": content}]}


def bare_requests(address: Address, requests: int) -> list[list[bytes]]:
    return [[address.request("/", new_message()) for _ in range(requests)] for _ in range(CONNECTIONS)]


def measure_peer(bench: Bench) -> Table:
    """Items of conversations, against DevUI."""
    requests = bench.pick(25, 8)
    with ExitStack() as stack:
        ours = stack.enter_context(serve_store(str(bench.file("peer.db")), 1, bench.folder))
        folder = bench.file("devui")
        folder.mkdir()
        theirs = stack.enter_context(serve_devui(environment(ENVIRONMENT, LOCK), DEVUI, folder))
        names = {}
        for address in (ours, theirs):
            with httpx2.Client(base_url=address.url, headers=address.headers, timeout=60) as client:
                names[address] = [create_conversation(client) for _ in range(CONNECTIONS)]
        noted = {"ours": Turns(), "devui": Turns()}

        def build(address: Address) -> list[list[bytes]]:
            return [
                [address.request(f"/v1/conversations/{name}/items", new_item()) for _ in range(requests)]
                for name in names[address]
            ]

        samples = bench.in_turns(
            bench.pick(7, 3),
            {
                "ours": lambda: measure_requests(ours, build(ours), noted["ours"]),
                "devui": lambda: measure_requests(theirs, build(theirs), noted["devui"]),
            },
            slices=bench.pick(4, 2),
        )
    line = Line(
        what="items, 1 worker",
        ours=show(samples, noted, "ours"),
        theirs=show(samples, noted, "devui"),
        ratio=rate_ratio(samples["ours"], samples["devui"]),
    )
    notes = ["DevUI keeps conversations in memory, and they are gone with its process; ours are durable when answered."]
    return Table(
        name="server",
        title="another server of the same API",
        ours="holdfast serve",
        theirs="agent-framework-devui",
        lines=[line],
        notes=notes,
    )
