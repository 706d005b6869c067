"""A realistic agent session, side by side with what agents are built on: appends, windows, bytes on disk, kills.

Every contender, Holdfast too, is a process of its own that runs `worker` and times itself. The peers' processes have an
environment without Holdfast, so nothing that they import may import it: not this module either, hence the late import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness import Bench, Turn
    from benchmarks.report import Table


def run(bench: Bench) -> list[Table]:
    from benchmarks.agents import measure, tables, targets

    return tables.build_tables(measure.collect_findings(bench, targets.on_files(bench.folder, bench.source)))


def on_postgres(bench: Bench, url: Callable[[str], str], metered: Callable[[Turn], Turn]) -> list[Table]:
    """The same on databases of one server; `url` says the address of one by its name."""
    from benchmarks.agents import measure, tables, targets

    return tables.build_tables(measure.collect_findings(bench, targets.on_postgres(url, metered)))
