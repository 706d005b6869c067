"""A desk of engines for every test of the edges, and a file with a history for those of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import holdfast
from tests.edges.cli import CommandRunner, copy_store, write_history
from tests.edges.engines import EngineDesk, kinds_for
from tests.support import SHARED_MEMORY


@pytest.fixture
def desk() -> Iterator[EngineDesk]:
    """In shared memory, where there is some: what survives power loss is not the question here."""
    with TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        made = EngineDesk(Path(folder))
        try:
            yield made
        finally:
            made.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        many = any(metafunc.definition.iter_markers("parametrize"))
        metafunc.parametrize("engine", kinds_for(metafunc.function.__name__, many=many), indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest, desk: EngineDesk) -> holdfast.Engine:
    return desk.open(request.param)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once for each module; who changes it takes a copy."""
    path = tmp_path_factory.mktemp("history") / "agent.db"
    write_history(path)
    return path


@pytest.fixture
def cli(history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(copy_store(history, tmp_path / "agent.db"), capsys)
