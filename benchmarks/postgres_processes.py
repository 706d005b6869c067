"""Several processes on one database, each with several sessions: how much they append together, and what stops them.

Run as a program, this is one of the processes: `python -m benchmarks.postgres_processes URL NAME`. It is told how much
to append line by line, and answers what that took of its processor.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import holdfast
from benchmarks import group, peer, sample_messages
from benchmarks.harness import FSYNC, Bench, Sample, Turn, limit_met, rate, rate_ratio
from benchmarks.postgres_meter import Meter
from benchmarks.report import Line, Table, per_second

PROCESSES = (1, 2, 4)
SESSIONS = 16
ROOT = Path(__file__).parents[1]


class Process(peer.Peer):
    def __init__(self, url: str, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "benchmarks.postgres_processes", url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )


def measure_processes(bench: Bench, url: str, meter: Meter) -> Table:
    rounds, slices, each = bench.pick(7, 2), bench.pick(3, 1), bench.pick(64, 32)
    with ExitStack() as stack:
        names = [f"process-{number}" for number in range(PROCESSES[-1])]
        holdfast.open(f"{url}&schema=processes").close()
        processes = [stack.enter_context(Process(f"{url}&schema=processes", name)) for name in names]
        turns = {str(count): meter.metered(joint_turn(processes[:count], each)) for count in PROCESSES}
        samples = bench.in_turns(rounds, turns, slices=slices)
    alone = samples[str(PROCESSES[0])]
    lines = [
        Line(
            what=f"{count} process{'es' if count > 1 else ''} of {SESSIONS} sessions",
            ours=per_second(rate(samples[str(count)])),
            theirs=per_second(rate(alone)),
            ratio=rate_ratio(samples[str(count)], alone),
            limit=limit_met(samples[str(count)], samples[FSYNC]),
        )
        for count in PROCESSES
    ]
    notes = [f"{rounds} rounds; the server is on the same {os.cpu_count()} cores. CPU is that of all clients."]
    notes += [f"{count}: {Sample.total(samples[str(count)]).batch:.1f} appends a transaction." for count in PROCESSES]
    return Table(
        name="postgres",
        title="processes on one database, appends a second of all",
        ours="ours",
        theirs="one process",
        lines=lines,
        notes=notes,
    )


def joint_turn(processes: Sequence[Process], each: int) -> Turn:
    def turn() -> Sample:
        start = time.perf_counter()
        for process in processes:
            process.tell(each)
        cpu_s = [float(process.hear()) for process in processes]
        return Sample(len(processes) * SESSIONS * each, time.perf_counter() - start, sum(cpu_s))

    return turn


async def main(url: str, name: str) -> None:
    engine = await holdfast.open_async(url)
    sessions = [await engine.create_session(f"{name}-{number}") for number in range(SESSIONS)]
    for line in sys.stdin:
        (each,) = json.loads(line)
        texts = [sample_messages.text(number) for number in range(each)]
        start = time.process_time()
        await group.write_in_tasks(sessions, texts)
        print(time.process_time() - start, flush=True)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
