"""The command: `python -m tests.mutants`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.mutants import runs, trees
from tests.mutants.catalogue import MUTANTS


def main(arguments: Sequence[str] | None = None) -> int:
    options = _build_parser().parse_args(arguments)
    if options.compare:
        return compare(*(Path(each) for each in options.compare))
    faults = [fault for mutant in MUTANTS if (fault := trees.find_fault(mutant))]
    if faults or options.check:
        print("\n".join(faults) or f"{len(MUTANTS)} mutants apply.")
        return 1 if faults else 0
    unknown = {*options.only} - {mutant.id for mutant in MUTANTS}
    if unknown:
        print(f"There is no mutant {min(unknown)!r}.", file=sys.stderr)
        return 2
    return run(options)


def run(options: argparse.Namespace) -> int:
    """One line for each mutant, in the order of the catalogue; the exit code is 1 if one of them is not found.

    A run that was cut off goes on when it is repeated: a mutant that has its line in the file is not run again."""
    lines = _read_findings(Path(options.out)) if options.out and Path(options.out).exists() else {}
    mutants = [mutant for mutant in MUTANTS if not options.only or mutant.id in options.only]
    mutants = [mutant for mutant in mutants if mutant.id not in lines]
    survivors, unsteady = [], []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        runner = runs.SuiteRunner(Path(folder).resolve(), options.suite)
        for finding in pool.map(lambda mutant: runner.run(mutant, near_only=options.near), mutants):
            print(finding.line, flush=True)
            if options.out:
                with Path(options.out).open("a") as file:
                    file.write(finding.line + "\n")
            survivors += [] if finding.is_found else [finding.id]
            unsteady += [] if finding.is_steady else [finding.id]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} found.", file=sys.stderr)
    for what, names in (("Not found", survivors), ("Found by a test that passed when it was run again", unsteady)):
        if names:
            print(f"{what}: {', '.join(names)}.", file=sys.stderr)
    return 1 if survivors else 0


def compare(first: Path, second: Path) -> int:
    """Which mutants each of two runs found; the exit code is 1 if the second run lost one that the first run found."""
    one, other = _read_findings(first), _read_findings(second)
    losses = 0
    for name in dict.fromkeys((*one, *other)):
        was, now = one.get(name), other.get(name)
        losses += bool(was and was["is_found"] and not (now and now["is_found"]))
        print(f"{name:32} {_describe(was):12} {_describe(now):12} {now['by'] if now else ''}".rstrip())
    counts = [sum(each["is_found"] for each in findings.values()) for findings in (one, other)]
    print(f"{counts[0]} and {counts[1]} found, {losses} lost.")
    return 1 if losses else 0


def _read_findings(path: Path) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in map(json.loads, path.read_text().splitlines())}


def _describe(finding: dict[str, Any] | None) -> str:
    if finding is None:
        return "not run"
    if not finding["is_found"]:
        return "NOT FOUND"
    return f"{finding['stage']} {finding['seconds']:.0f} s{'' if finding['is_steady'] else ' ?'}"


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Which planted bugs the tests find.")
    parser.add_argument("--suite", choices=[*runs.SUITES], default="short")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants at a time")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="this mutant; may be repeated")
    parser.add_argument("--near", action="store_true", help="only the tests nearest to each mutant")
    parser.add_argument("--out", metavar="FILE", help="append lines to this file; skip mutants that it has")
    parser.add_argument("--check", action="store_true", help="only say whether every mutant applies")
    parser.add_argument("--compare", nargs=2, metavar="FILE", help="compare the lines of two runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
