"""The installed size of what the gateway needs, beside that of the core."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from benchmarks.gateway.findings import InstalledSize

ROOT = Path(__file__).parent.parent.parent
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def measure_size() -> InstalledSize:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    core = _find_needed(project["dependencies"])
    extra = _find_needed(project["optional-dependencies"]["gateway"]) - core
    own = sum(file.stat().st_size for file in (ROOT / "src").rglob("*") if file.is_file() and file.suffix != ".pyc")
    return InstalledSize(own + sum(map(_measure, core)), sum(map(_measure, extra)))


def _find_needed(requirements: Iterable[str]) -> set[str]:
    """The packages that these need, with all that those need, as far as they are installed."""
    queue, found = list(requirements), set[str]()
    while queue:
        requirement, _, marker = queue.pop().partition(";")
        match = _NAME.match(requirement.strip())
        assert match is not None
        name = re.sub(r"[-_.]+", "-", match[0]).lower()
        if name in found or "extra" in marker:
            continue
        try:
            queue += importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for other machines
        found.add(name)
    return found


def _measure(name: str) -> int:
    paths = (Path(str(file.locate())) for file in importlib.metadata.files(name) or [])
    return sum(path.stat().st_size for path in paths if path.is_file() and path.suffix != ".pyc")
