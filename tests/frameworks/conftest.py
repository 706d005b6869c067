"""Engines for the tests of adapters. A folder is collected only in the environment of its framework."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import holdfast
from tests.frameworks.environment import ENVIRONMENT
from tests.support import SHARED_MEMORY

HERE = Path(__file__).parent

collect_ignore = [
    *(each.name for each in HERE.iterdir() if each.is_dir() and each.name != ENVIRONMENT),
    *([] if ENVIRONMENT else ["test_pages.py"]),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=SHARED_MEMORY) as path:
        yield Path(path)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """An empty store: a file, and a schema of PostgreSQL."""
    if request.param == "sqlite":
        yield str(folder / "agent.db")
        return
    from tests.postgres import empty_url

    with empty_url() as address:
        yield address


@pytest.fixture
def engine(url: str) -> Iterator[holdfast.Engine]:
    """An engine on a file, and one on PostgreSQL."""
    with holdfast.open(url) as opened:
        yield opened


@pytest.fixture
def file_engine(folder: Path) -> Iterator[holdfast.Engine]:
    """An engine on a file alone, for tests that do not depend on the store."""
    with holdfast.open(folder / "agent.db") as opened:
        yield opened


@pytest.fixture
def remote_engine(folder: Path) -> Iterator[holdfast.Engine]:
    """An engine of holdfast.connect(), and the server that it asks: in the environments that have one."""
    from tests.client.serving import engine_server

    server = engine_server()
    address, own = server.open(str(folder / "agent.db"))
    with holdfast.connect(address) as connected:
        yield connected
    server.close(address, own)
