"""`python -m benchmarks [names…]`: measure, print a table each, and say which goals were met."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec

from benchmarks.harness import Bench, Spread, file_system, measure_fsyncs
from benchmarks.report import Machine, Results, Table

NAMES = (
    "append",
    "group",
    "peer",
    "growth",
    "disk",
    "entries",
    "forks",
    "startup",
    "inspect_log",
    "agents",
    "tokens",
    "trajectories",
    "dialogues",
    "truth",
    "guard_dialogues",
    "statebench",
    "postgres",
    "frames",
    "facts",
    "cost",
    "coding_agent",
    "packs",
    "telemetry",
    "structure",
    "recall",
    "refusals",
    "server",
    "adapters",
    "gateway",
)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all of them if none is named")
    parser.add_argument("--folder", type=Path, help="where to write; a new folder in this one if not given")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="recorded sessions and dialogues")
    parser.add_argument("--samples", type=Path, help="a folder for packs to read (guard_dialogues)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="an SVG of cost against grounding (cost, gateway)")
    parser.add_argument(
        "--source", type=Path, metavar="DIR", help="another checkout to compare with (agents, structure)"
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="a page with the figures (adapters, gateway)")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="finished parts are kept there, and a second run goes on (gateway)"
    )
    parser.add_argument("--quick", action="store_true", help="a small run: the ratios are rougher")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder or Path.cwd()) as folder:
        bench = Bench(
            Path(folder),
            options.quick,
            options.data,
            options.samples,
            options.picture,
            options.source,
            options.table,
            options.keep,
        )
        results = measure(options.names or NAMES, bench)
    if options.json is not None:
        options.json.write_bytes(results.json() + b"\n")
    return 1 if results.failed else 0


def measure(names: Sequence[str], bench: Bench) -> Results:
    machine = describe(bench.folder)
    print(machine)
    if machine.file_system == "tmpfs":
        print("This is memory: nothing here is durable, and no ratio says anything of a disk.")
    tables: list[Table] = []
    failed: list[str] = []
    for name in names:
        own = msgspec.structs.replace(bench, folder=bench.file(name))
        own.folder.mkdir()
        try:
            found: Table | list[Table] = importlib.import_module(f"benchmarks.{name}").run(own)
        except Exception:  # noqa: BLE001 - one that cannot run takes no other with it
            print(f"\n{name}: could not be measured\n{traceback.format_exc()}", flush=True)
            failed.append(name)
            continue
        for table in [found] if isinstance(found, Table) else found:
            tables.append(table)
            failed += [name] if table.wrong else []
            print(f"\n{table}", flush=True)
    lines = [line for table in tables for line in table.lines if line.met is not None]
    missed = [line for line in lines if not line.met]
    print(f"\n{len(lines) - len(missed)} of {len(lines)} goals met.")
    return Results(machine, bench.quick, tables, failed)


def describe(folder: Path) -> Machine:
    costs = [measure_fsyncs(folder).each_us for _ in range(5)]
    return Machine(
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        cores=os.cpu_count() or 1,
        folder=str(folder.parent),
        file_system=file_system(folder),
        fsync_us=Spread.of(costs),
        load=os.getloadavg()[0],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
