"""Inside pytest: the code under test is that of the copy, and the tests that fail are written down.

The runner names a file of settings in MUTANT_SETTINGS.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

SETTINGS = "MUTANT_SETTINGS"
WRONG_TREE = 97
"""The exit code of a run that did not import the code of its copy."""

LONG = ("tests/property/", "tests/crash/")
"""Tests that take long: most mutants are found before them."""

_settings: dict[str, Any] = json.loads(Path(os.environ[SETTINGS]).read_text()) if SETTINGS in os.environ else {}
_failures: list[str] = []


def _is_inside(path: str | None, folder: str) -> bool:
    return path is not None and Path(path).resolve().is_relative_to(Path(folder).resolve())


def _check_origin() -> None:
    """Ends the run if a module of holdfast is not from the copy. The mutant's module is imported here, if not before."""
    source = _settings["root"] + "/src"
    modules = ["holdfast", *_settings["modules"]]
    for name in modules:
        importlib.import_module(name)
    loaded = {name: module for name, module in [*sys.modules.items()] if name.partition(".")[0] == "holdfast"}
    for name, module in loaded.items():
        path = getattr(module, "__file__", None)
        if path is not None and not _is_inside(path, source):
            pytest.exit(f"{name} is imported from {path}, not from {source}", WRONG_TREE)


def _is_left_out(test: str) -> bool:
    return any(test == each or test.startswith((f"{each}::", f"{each}/")) for each in _settings["leave_out"])


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """A failing example counts as it is: to make it smaller takes minutes."""
    phases = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target)
    settings.register_profile("mutants", settings(), phases=phases, report_multiple_bugs=False)
    settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the tests that are left out, and those that take long at the end."""
    out = [item for item in items if _is_left_out(item.nodeid)]
    items[:] = sorted(
        (item for item in items if not _is_left_out(item.nodeid)), key=lambda item: item.nodeid.startswith(LONG)
    )
    config.hook.pytest_deselected(items=out)


def pytest_collection_finish() -> None:
    _check_origin()


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _failures.append(report.nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failures.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    _check_origin()
    report = {"failures": [*dict.fromkeys(_failures)], "tests": session.testscollected}
    Path(_settings["report"]).write_text(json.dumps(report))
