"""Running a suite on a copy of the tree, until the first test fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants import plugin, trees
from tests.mutants.catalogue import Mutant

LEAVE_OUT = ("tests/tidy", "tests/docs")
"""Tests of the texts, not of what the code does: some of them fail for any change, and in any copy."""

RUN_LIMIT_S = 5_400
"""A run that takes longer hangs: the mutant is found, by the clock."""

CRASHES = 3
"""A mutant is found by a crash of pytest itself only if every one of so many runs crashes."""

OUTPUT_CHARS = 4_000
"""As much is shown of the end of what pytest wrote, if pytest itself failed."""

_UNWANTED = ("PYTEST_", "HOLDFAST_SOAK", "HOLDFAST_QUICK", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
"""Variables that would change what the tests do, or how fast."""

HANG = "(the run did not end)"
CRASH = "(pytest itself failed)"


class Suite(NamedTuple):
    """The tests that a `make` target runs. To be kept equal to the Makefile."""

    arguments: tuple[str, ...] = ("tests",)
    """Paths come first, then options."""
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(each for each in self.arguments if each.startswith("tests"))

    @property
    def options(self) -> tuple[str, ...]:
        return self.arguments[len(self.paths) :]

    def narrow(self, tests: Iterable[str]) -> tuple[str, ...]:
        """Those of some tests that are in the suite."""
        return tuple(test for test in tests if any(test == each or test.startswith(f"{each}/") for each in self.paths))


SUITES = {
    "full": Suite(("tests", "--timeout", "0"), (("HOLDFAST_SOAK", "1"),)),
    "short": Suite(),
    "quick": Suite(("tests/core", "tests/text", "tests/render", "-k", "not busy"), (("HOLDFAST_QUICK", "1"),)),
}
"""Every test at the figures of `make soak`, which takes hours for a mutant that is not found; `make test`; `make quick`."""


class RunResult(NamedTuple):
    """What became of some tests."""

    failures: tuple[str, ...]
    seconds: float
    tests: int = 0


class Finding(NamedTuple):
    """Whether a suite finds a mutant."""

    id: str
    suite: str
    is_found: bool
    by: str
    """The first test that failed; empty if none did."""
    stage: str
    """`near` or `rest`: which part of the suite it was in, or how far the tests went."""
    is_steady: bool
    """The test failed again when it was run alone."""
    seconds: float
    file: str
    breaks: str
    commit: str

    @property
    def line(self) -> str:
        return json.dumps(self._asdict() | {"seconds": round(self.seconds, 1)})


class SuiteRunner:
    """Runs a suite on copies of the tree, all in one folder, several at a time if asked to."""

    def __init__(self, folder: Path, suite: str) -> None:
        self._folder = folder
        self._name, self._suite = suite, SUITES[suite]
        self._commit = _read_commit()
        self._lock = threading.Lock()
        self._faulty_tests: dict[str, None] = {}
        """Tests that fail without a mutant."""
        self.clean = trees.copy_clean(folder / "clean")

    def run(self, mutant: Mutant, *, near_only: bool = False) -> Finding:
        """Whether the suite finds a mutant."""
        start = time.monotonic()
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=f"{mutant.id}-") as folder:
            tree = trees.copy_mutated(self.clean, Path(folder) / "tree", mutant)
            near, stage = self._suite.narrow(mutant.near), "near"
            by = self._find_failure(tree, mutant, near)
            if not by and not near_only:
                stage = "rest"
                by = self._find_failure(tree, mutant, self._suite.paths, leave_out=near)
            is_steady = by in ("", HANG, CRASH) or bool(self._run_tests(tree, [by], mutant=mutant).failures)
        return Finding(
            id=mutant.id,
            suite=self._name,
            is_found=bool(by),
            by=by,
            stage=stage,
            is_steady=is_steady,
            seconds=time.monotonic() - start,
            file=mutant.file,
            breaks=mutant.breaks,
            commit=self._commit,
        )

    def _find_failure(self, tree: Path, mutant: Mutant, tests: Sequence[str], *, leave_out: Sequence[str] = ()) -> str:
        """The first of these tests that fails because of the mutant; empty if none does."""
        while True:
            failures = self._run_tests(tree, tests, leave_out=leave_out, options=("-x",), mutant=mutant).failures
            if not failures:
                return ""
            if failures[0] in (HANG, CRASH) or not self._fails_without_mutant(failures[0]):
                return failures[0]

    def _fails_without_mutant(self, test: str) -> bool:
        """Whether a test finds nothing, since it fails in any case. The others of its file that do are noted with it."""
        with self._lock:
            if test in self._faulty_tests or not self._run_tests(self.clean, [test]).failures:
                return test in self._faulty_tests
            file = test.partition("::")[0]
            failures = self._run_tests(self.clean, [file]).failures
            for each in dict.fromkeys((test, *failures)):
                print(f"fails without a mutant: {each}", file=sys.stderr)
                self._faulty_tests[each] = None
            return True

    def _run_tests(
        self,
        tree: Path,
        tests: Sequence[str],
        *,
        leave_out: Sequence[str] = (),
        options: Sequence[str] = (),
        mutant: Mutant | None = None,
    ) -> RunResult:
        start = time.monotonic()
        leave_out = [*LEAVE_OUT, *self._faulty_tests, *leave_out]
        tests = [each for each in tests if each not in leave_out]
        if not tests:
            return RunResult((), 0)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            report = Path(folder) / "report.json"
            settings: dict[str, Any] = {"root": str(tree), "leave_out": leave_out, "report": str(report)}
            settings["modules"] = [] if mutant is None else _list_modules(mutant)
            settings_file = Path(folder) / "settings.json"
            settings_file.write_text(json.dumps(settings))
            files = [f"--ignore={each}" for each in leave_out if "::" not in each]
            command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:xdist", "-p", plugin.__name__]
            command += [*tests, *self._suite.options, *options, *files]
            for _ in range(CRASHES):  # somebody else may have ended it
                code, output = _run_command(command, tree, self._build_environment(tree, settings_file), RUN_LIMIT_S)
                seconds = time.monotonic() - start
                if code is None:
                    return RunResult((HANG,), seconds)
                if code == plugin.WRONG_TREE:
                    raise trees.MutantError(output)
                if report.exists():
                    answer = json.loads(report.read_text())
                    return RunResult(tuple(answer["failures"]), seconds, answer["tests"])
            print(output, file=sys.stderr)
            return RunResult((CRASH,), seconds)

    def _build_environment(self, tree: Path, settings: Path) -> dict[str, str]:
        """The copy comes first on the path of every process that the tests start."""
        paths = os.pathsep.join((str(tree / "src"), str(tree)))
        variables = {key: value for key, value in os.environ.items() if not key.startswith(_UNWANTED)}
        return {**variables, **dict(self._suite.environment), "PYTHONPATH": paths, plugin.SETTINGS: str(settings)}


def _run_command(
    command: Sequence[str], folder: Path, environment: dict[str, str], limit_s: float
) -> tuple[int | None, str]:
    """The exit code of a command and the end of its output. One that takes too long is ended with all that it started; its
    code is None. The output goes to a file: a server that is left behind keeps no reader waiting."""
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        file.seek(0)
        return process.returncode, file.read().decode(errors="replace")[-OUTPUT_CHARS:]


def _list_modules(mutant: Mutant) -> list[str]:
    """The module that a mutant is in; none if it is in SQL, which the modules beside it read."""
    path = Path(mutant.file)
    if path.suffix != ".py":
        return []
    parts = path.relative_to("src").with_suffix("").parts
    return [".".join(parts[:-1] if parts[-1] == "__init__" else parts)]


def _read_commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=trees.ROOT, capture_output=True, text=True, check=True).stdout.strip()
