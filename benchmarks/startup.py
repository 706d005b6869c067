"""What a program pays before its first line runs: time to import, and packages to install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import holdfast
from benchmarks.harness import FSYNC, Bench, Sample, Spread, each_us, limit_met, time_ratio
from benchmarks.report import Goal, Line, Table, micros

GOAL = Goal("at most", 2)
GOAL_PACKAGES = Goal("at most", 10)
CORE_LOCK = Path("requirements/core.lock")

_TIMED_IMPORT = """
import sys, time
sys.modules["typing_extensions"] = None
cpu, wall = time.process_time(), time.perf_counter()
import {modules}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def measure_import(modules: str, bytecode: Path) -> Sample:
    """The import alone, in an interpreter that has just started and finds everything compiled, as after an install.

    `typing_extensions` is hidden: msgspec takes it where it is found, and only the tools of development bring it here."""
    command = [sys.executable, "-c", _TIMED_IMPORT.format(modules=modules)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    wall_s, cpu_s = map(float, answer.split())
    return Sample(1, wall_s, cpu_s)


def core_packages() -> int:
    """What installing the core brings, the core itself not counted."""
    return len(re.findall(r"^[\w.-]+==", CORE_LOCK.read_text(), flags=re.MULTILINE))


def run(bench: Bench) -> Table:
    rounds = bench.pick(31, 15)
    bytecode = bench.file("bytecode")
    turns = {
        "ours": lambda: measure_import("holdfast", bytecode),
        "theirs": lambda: measure_import("apsw, msgspec", bytecode),
    }
    samples = bench.in_turns(rounds, turns)
    packages = core_packages()
    lines = [
        Line(
            what=f"import holdfast {holdfast.__version__}",
            ours=micros(each_us(samples["ours"])),
            theirs=micros(each_us(samples["theirs"])),
            ratio=time_ratio(samples["ours"], samples["theirs"]),
            goal=GOAL,
            limit=limit_met(samples["ours"], samples[FSYNC]),
        ),
        Line(
            what="packages that the core needs",
            ours=str(packages),
            ratio=Spread(packages, packages, packages),
            goal=GOAL_PACKAGES,
        ),
    ]
    return Table(
        name="startup",
        title="import in a fresh interpreter",
        ours="ours",
        theirs="import apsw, msgspec",
        lines=lines,
        notes=[f"{rounds} interpreters each, in turns; the start of the interpreter itself is not counted."],
    )
