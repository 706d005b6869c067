"""What the tests of the inspector share: stores and files that are made once for a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.sample import build_large, build_sample
from tests.support import common_folder


def copy_store(source: Path, target: Path) -> Path:
    """A copy of a store that no process has open."""
    for path in source.parent.glob(f"{source.name}*"):
        other = target.with_name(path.name.replace(source.name, target.name))
        if path.is_dir():
            shutil.copytree(path, other)
        else:
            shutil.copyfile(path, other)
    return target


def build_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], Any]) -> Path:
    """A store or a file that is made once for all processes of the run. Copy it: nobody writes to it."""
    with common_folder(factory.getbasetemp(), f"inspector-{name}") as folder:
        path = folder / name
        if not path.exists():
            making = folder / f"making-{name}"
            build(making)
            for part in sorted(folder.glob(f"{making.name}*"), reverse=True):
                part.rename(part.with_name(part.name.removeprefix("making-")))
        return path


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample store: read it, or copy it."""
    return build_once(tmp_path_factory, "sample.db", build_sample)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of long conversations."""
    return build_once(tmp_path_factory, "large.db", lambda path: build_large(path, (0, 10_000, 100_000)))
