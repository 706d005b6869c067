"""What the gateway saves: recorded sessions of a coding agent, replayed over HTTP through it, beside plain requests and
headroom's proxy.

Every contender gets the same requests at the recorded times, and one scorer prices what comes to the provider. The clients'
bodies, the fake provider and the price model are in `material`, `upstream` and `scores`; other courses of the sessions in
`variants`; times and memory in `latencies`; what is measured by itself, and kept, in `parts`.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import holdfast
from benchmarks.cost_recordings import is_held_out
from benchmarks.gateway.contenders import ENVIRONMENT, LOCK
from benchmarks.gateway.findings import (
    OURS,
    PEERS,
    PLAIN,
    Comparison,
    GatewayFindings,
    ReplayFinding,
    TimeFindings,
    VariantFinding,
    Work,
)
from benchmarks.gateway.heads import LARGE_HEAD, SMALL_HEAD
from benchmarks.gateway.latencies import measure_latencies
from benchmarks.gateway.material import ReplaySession, find_files, read_sessions
from benchmarks.gateway.pages import write_page
from benchmarks.gateway.parts import (
    RECORDED,
    Binder,
    Made,
    Part,
    PartFolder,
    collect,
    list_parts,
    measure_part,
    run_parts,
)
from benchmarks.gateway.pictures import draw_picture
from benchmarks.gateway.sizes import measure_size
from benchmarks.gateway.tables import build_tables
from benchmarks.harness import Bench, environment
from benchmarks.report import Table

NAME = "gateway"
QUICK = 8
"""A quick run takes one session in so many; so do other courses, always."""
QUICK_REQUESTS, REQUESTS = 500, 10_000


def run(bench: Bench) -> list[Table]:
    files = find_files(bench.data)
    if not files:
        folder = bench.data / "trajectories" / "coding-agent"
        note = f"There is no data in {folder}: nothing was measured. --data names another folder."
        return [Table(name=NAME, title="what the gateway saves", ours="", theirs="", lines=[], notes=[note])]
    findings = measure(bench, files[QUICK // 2 :: QUICK] if bench.quick else files)
    if bench.table is not None:
        bench.table.write_text(write_page(findings), "utf-8")
    if bench.picture is not None:
        bench.picture.write_text(draw_picture(findings), "utf-8")
    return build_tables(findings)


def measure(bench: Bench, files: Sequence[Path]) -> GatewayFindings:
    keep_bytecode(bench.folder / "bytecode")
    sessions = read_sessions(files)
    few = sessions if bench.quick else sessions[QUICK // 2 :: QUICK]
    missing = find_missing(bench)
    kept, binder = PartFolder(bench.keep), Binder(sessions, few)
    times = measure_times(bench, few, kept, binder)  # first and alone: the parts would disturb it
    parts = list_parts(() if missing else PEERS)
    names = [each.name for each in few]
    found, failed = run_parts(parts, binder, kept, files, names, bench.folder, os.cpu_count() or 1)
    small = collect(found, "small")
    return GatewayFindings(
        version=holdfast.__version__,
        date=time.strftime("%Y-%m-%d"),
        machine=f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        sessions=len(sessions),
        calls=sum(len(each.calls) for each in sessions),
        small_head=SMALL_HEAD.tokens,
        large_head=LARGE_HEAD.tokens,
        small=small,
        large=collect(found, "large"),
        few=len(few),
        variants=list(compare_courses(found, small, frozenset(names))),
        times=times.found,
        size=measure_size(),
        works=[Work("times and memory", times.begun, times.ended), *list_works(found)],
        held_out=frozenset(each.name for each in sessions if is_held_out(each.name)),
        missing=missing or "; ".join(failed.values()),
    )


def keep_bytecode(folder: Path) -> None:
    """Let the processes of contenders start from bytecode, as they do where pip has installed them: a process that compiles
    what it imports takes more memory."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def find_missing(bench: Bench) -> str:
    """Why headroom cannot run here; nothing if it can."""
    if bench.quick:
        return "a quick run leaves it out"
    try:
        environment(ENVIRONMENT, LOCK)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"it could not be installed: {error}"
    return ""


def measure_times(bench: Bench, few: Sequence[ReplaySession], kept: PartFolder, binder: Binder) -> Made[TimeFindings]:
    requests = bench.pick(REQUESTS, QUICK_REQUESTS)

    def work() -> TimeFindings:
        load = os.getloadavg()[0]
        latencies, memory = measure_latencies(few, bench.folder, each=bench.pick(20, 3), requests=requests)
        return TimeFindings(latencies, memory, load)

    return measure_part(kept, "times and memory", binder.bind_times(requests), TimeFindings, work)


def list_works(found: Mapping[Part, Made[ReplayFinding]]) -> Iterator[Work]:
    """When the parts of each contender were made."""
    for name in (PLAIN, *OURS, *PEERS):
        own = [made for part, made in found.items() if part.contender == name]
        if own:
            yield Work(name, min(made.begun for made in own), max(made.ended for made in own))


def compare_courses(
    found: Mapping[Part, Made[ReplayFinding]], small: Mapping[str, ReplayFinding], few: frozenset[str]
) -> Iterator[VariantFinding]:
    """Other courses of some sessions, each beside the plain replay of the same course."""
    others = {(part.course, part.contender): made.found for part, made in found.items() if part.is_few}
    varied = {contender for _, contender in others}
    for name in (*OURS, *PEERS):
        if name in varied and name in small:
            yield build_variant(RECORDED, Comparison(small[name], small[PLAIN]).on(few))
    for (course, name), own in others.items():
        if name != PLAIN:
            plain = others.get((course, PLAIN))
            yield build_variant(course, Comparison(own, plain or Comparison(own, small[PLAIN]).on(few).plain))


def build_variant(course: str, compared: Comparison) -> VariantFinding:
    total = compared.own.total
    return VariantFinding(
        course, compared.own.name, compared.cost, compared.worst, total.grounding, total.failed, total.resent
    )
