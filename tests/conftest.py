"""Settings for all tests, and the table of promises that `--promises` prints."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import SHARED_MEMORY, SOAK, figure

settings.register_profile(
    "holdfast",
    max_examples=figure(40, 100),
    deadline=None,
    derandomize=bool(os.environ.get("CI")) and not SOAK,  # there, what is tried changes with the code only
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("holdfast")

PROMISE = "promise"
LONG = (
    "tests/property/",
    "tests/crash/",
    "tests/edges/test_hostile.py",
    "tests/edges/test_large_results.py",
    "tests/server/test_openapi.py",
    "tests/server/test_processes.py",
    "tests/server/test_serve.py",
    "tests/mcp/",
)
"""Where most of the tests are that take many seconds each."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--promises", action="store_true", help="print a table of the promises and what became of them")


def pytest_configure(config: pytest.Config) -> None:
    """Folders of tests are in memory. Where no bytecode is to lie beside the code, it lies with what pytest keeps: the
    tests start many processes, and each would compile all that it imports."""
    if SHARED_MEMORY is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", SHARED_MEMORY)
    kept = getattr(config, "cache", None)
    if sys.dont_write_bytecode and kept is not None:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(kept.mkdir("bytecode"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Whatever is read in stays: nothing is looked through for rubbish before all tests are known."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take long come first, so that no process has one left when the others are done. What a test shows travels
    with its report, also from the processes that share the work."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    for item in items:
        for mark in item.iter_markers(PROMISE):
            number, told = mark.args
            item.user_properties.append((PROMISE, [number, told]))


def pytest_collection_finish() -> None:
    """What is in memory once all tests are known stays there: it is not looked through for rubbish again and again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--promises"):
        return
    lines: dict[tuple[int, str], list[Any]] = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in report.user_properties:
                if name == PROMISE:
                    lines.setdefault((value[0], value[1]), []).append(report)
    if not lines:
        return
    terminalreporter.section("promises")
    for (number, told), reports in sorted(lines.items()):
        broken = sum(report.outcome != "passed" for report in reports)
        kept = "kept" if not broken else f"BROKEN in {broken}"
        seconds = sum(report.duration for report in reports)
        terminalreporter.write_line(f"{number:>2}  {told:<96}  {len(reports):>4} tests  {seconds:>7.0f} s  {kept}")
