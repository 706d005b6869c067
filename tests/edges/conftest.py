"""A desk of engines for every test of the edges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import holdfast
from tests.edges.engines import KINDS, Desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    """In shared memory, where there is some: what survives power loss is not the question here."""
    shared_memory = Path("/dev/shm")
    with TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else None) as folder:
        made = Desk(Path(folder))
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, desk: Desk) -> holdfast.Engine:
    return desk.open(request.param)
