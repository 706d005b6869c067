"""The source itself: lines by room, public names, the path of three operations, import and append; with `--source DIR`
beside another checkout, in the same run."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec

from benchmarks import sample_messages
from benchmarks.harness import FSYNC, Bench, Sample, Spread, Turn, each_us, limit_met, measure_each, time_ratio
from benchmarks.raw_sqlite import RawLog
from benchmarks.report import Goal, Line, Table, micros

HERE = Path(__file__).resolve().parent.parent
PROBE = Path(__file__).with_name("structure_probe.py")
GOALS = {
    "lines of src": Goal("at most", 43_000),
    "pack, messages only: files": Goal("at most", 35),
    "import": Goal("at most", 100),
    "append": Goal("at most", 1.05),
}
IMPORT = "import time; start = time.process_time(); import holdfast; print(time.process_time() - start)"
"""In CPU time: on a busy machine the time of the clock says little."""


class Checkout(msgspec.Struct, frozen=True):
    folder: Path
    bytecode: Path
    """Where its compiled modules are kept, so that an import finds everything compiled, as after an install."""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return kept | {"PYTHONPATH": str(self.folder / "src"), "PYTHONPYCACHEPREFIX": str(self.bytecode)}

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=self.environment)

    def probe(self, order: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.python(str(PROBE), str(self.folder), order).stdout)
        return answer

    def append_worker(self, file: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", str(PROBE), str(self.folder), "append", str(file)]
        return subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=self.environment)


def run(bench: Bench) -> list[Table]:
    here = Checkout(HERE, bench.file("bytecode-here"))
    other = None if bench.source is None else Checkout(bench.source.resolve(), bench.file("bytecode-other"))
    return [
        compare("lines of source", count_lines, here, other),
        compare("public names", lambda checkout: checkout.probe("names"), here, other),
        compare("files and rooms on the way of one call", count_path, here, other),
        measure_imports(bench, here, other),
        *([] if other is None else [measure_appends(bench, here, other)]),
    ]


def compare(title: str, measure: Callable[[Checkout], dict[str, int]], here: Checkout, other: Checkout | None) -> Table:
    """A line for each thing that is counted on either side."""
    ours = measure(here)
    theirs = {} if other is None else measure(other)
    lines = []
    for name in ours | theirs:
        count, goal = ours.get(name, 0), GOALS.get(name)
        ratio = Spread(count, count, count) if goal else None
        before = "" if other is None else f"{theirs.get(name, 0):,}"
        lines.append(Line(what=name, ours=f"{count:,}", theirs=before, ratio=ratio, goal=goal))
    return new_table(title, other, lines, [])


def new_table(title: str, other: Checkout | None, lines: list[Line], notes: list[str]) -> Table:
    theirs = "" if other is None else str(other.folder)
    return Table(name="structure", title=title, ours="here", theirs=theirs, lines=lines, notes=notes)


def count_lines(checkout: Checkout) -> dict[str, int]:
    """All lines of each folder of the package, two levels deep, and totals."""
    package = checkout.folder / "src" / "holdfast"
    rooms: dict[str, int] = {}
    files = sorted(package.rglob("*.py"))
    for file in files:
        room = "/".join(file.relative_to(package).parts[:-1][:2])
        rooms[room] = rooms.get(room, 0) + line_count(file)
    tests = sorted((checkout.folder / "tests").rglob("*.py"))
    return {f"holdfast/{room}": rooms[room] for room in sorted(rooms)} | {
        "lines of src": sum(rooms.values()),
        "of these code": sum(map(code_line_count, files)),
        "files of src": len(files),
        "lines of tests": sum(map(line_count, tests)),
        "files of tests": len(tests),
    }


def line_count(file: Path) -> int:
    return len(file.read_text().splitlines())


def code_line_count(file: Path) -> int:
    """Lines that are neither empty nor a comment nor part of a docstring."""
    source = file.read_text()
    code = {number for number, line in enumerate(source.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def count_path(checkout: Checkout) -> dict[str, int]:
    labels = {"files": "files", "rooms": "rooms", "file_changes": "changes of file", "room_changes": "changes of room"}
    labels |= {"layer_changes": "changes of layer", "calls": "functions entered"}
    return {
        f"{name}: {label}": len(path[key]) if isinstance(path[key], list) else path[key]
        for name, path in checkout.probe("paths").items()
        for key, label in labels.items()
    }


def measure_imports(bench: Bench, here: Checkout, other: Checkout | None) -> Table:
    rounds = bench.pick(9, 3)
    checkouts = {"here": here} | ({} if other is None else {"other": other})
    turns: dict[str, Turn] = {"pass": lambda: measure_process(here, "pass")}
    for name, checkout in checkouts.items():
        turns[f"process {name}"] = lambda checkout=checkout: measure_process(checkout, "import holdfast")  # type: ignore[misc]
        turns[f"import {name}"] = lambda checkout=checkout: measure_import(checkout)  # type: ignore[misc]
    samples = bench.in_turns(rounds, turns)
    times = {name: Spread.of([each.cpu_s * 1e3 for each in samples[f"import {name}"]]) for name in checkouts}
    starts = {name: str(time_ratio(samples[f"process {name}"], samples["pass"])) for name in checkouts}
    shown = {name: f"{spread.median:.0f} ms" for name, spread in times.items()}
    goal = GOALS["import"]
    lines = [
        Line(what="CPU time", ours=shown["here"], theirs=shown.get("other", ""), ratio=times["here"], goal=goal),
        Line(what="process, in times of `python -c pass`", ours=starts["here"], theirs=starts.get("other", "")),
    ]
    modules = find_slowest_modules(here)
    notes = [f"{rounds} interpreters each, in turns. The slowest modules here, without their imports: {modules}."]
    return new_table("import in a fresh interpreter", other, lines, notes)


def measure_process(checkout: Checkout, code: str) -> Sample:
    start = time.perf_counter()
    checkout.python("-c", code)
    return Sample(1, time.perf_counter() - start, 0.0)


def measure_import(checkout: Checkout) -> Sample:
    seconds = float(checkout.python("-c", IMPORT).stdout)
    return Sample(1, seconds, seconds)


def find_slowest_modules(checkout: Checkout) -> str:
    times: dict[str, int] = {}  # the least of three runs
    for _ in range(3):
        report = checkout.python("-X", "importtime", "-c", "import holdfast").stderr
        for us, name in re.findall(r"(\d+) \|\s+\d+ \|\s+(\S+)", report):
            times[name] = min(int(us), times.get(name, int(us)))
    slowest = sorted(times, key=lambda name: times[name], reverse=True)[:10]
    return ", ".join(f"{name} {times[name] / 1e3:.1f} ms" for name in slowest)


def measure_appends(bench: Bench, here: Checkout, other: Checkout) -> Table:
    """Both write to files of one folder, in turns with the raw commits that are their limit."""
    appends, rounds, slices = 50, bench.pick(11, 3), bench.pick(10, 3)
    raw = RawLog(bench.file("raw.db"))
    payloads = [sample_messages.payload(number) for number in range(appends)]
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(checkout.append_worker(bench.file(f"{name}.db")))
            for name, checkout in {"here": here, "other": other}.items()
        }
        turns: dict[str, Turn] = {"raw": lambda: measure_each(raw.commit_one, payloads)}
        for name, worker in workers.items():
            turns[name] = lambda worker=worker: order_appends(worker, appends)  # type: ignore[misc]
        samples = bench.in_turns(rounds, turns, slices=slices)
        for worker in workers.values():
            worker.communicate()
    raw.close()
    raws = {name: str(time_ratio(samples[name], samples["raw"])) for name in workers}
    lines = [
        Line(
            what="append",
            ours=micros(each_us(samples["here"])),
            theirs=micros(each_us(samples["other"])),
            ratio=time_ratio(samples["here"], samples["other"]),
            goal=GOALS["append"],
            limit=limit_met(samples["here"], samples[FSYNC]),
        ),
        Line(what="append, in times of a raw commit", ours=raws["here"], theirs=raws["other"]),
    ]
    cpu = Spread.of([a.cpu_s / b.cpu_s for a, b in zip(samples["here"], samples["other"], strict=True)])
    notes = [f"{rounds} rounds of {slices} turns of {appends} appends. Ratio of CPU time: {cpu}."]
    return new_table("one durable append of about 400 bytes", other, lines, notes)


def order_appends(worker: subprocess.Popen[str], appends: int) -> Sample:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{appends}\n")
    worker.stdin.flush()
    wall_s, cpu_s = json.loads(worker.stdout.readline())
    return Sample(appends, wall_s, cpu_s, commits=appends)
