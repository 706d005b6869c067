"""The programs of the documentation run unchanged on a server: with `connect` in place of `open`, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.client.serving import engine_server
from tests.docs.pages import BLOCK, ROOT
from tests.docs.test_examples import PAGES as EXAMPLES
from tests.docs.test_examples import provider
from tests.provider import Provider
from tests.support import SOAK

__all__ = ["provider"]
NOT_OVER_HTTP = {
    "docs/howto/approval.md": "acts as two principals with one engine: through a server, each has a key",
    "docs/howto/external-system.md": "the same",
    "docs/howto/fork.md": "an ephemeral fork lives in the memory of its program",
    "docs/howto/telemetry.md": "the spans of what an engine does are those of the server",
}
"""Pages that need the store itself, and why."""
ALWAYS = (
    "README.md",
    "docs/howto/web-service.md",
    "docs/tutorial/agent.md",
    "docs/howto/tools.md",
    "docs/howto/watch.md",
)
NAMES = [str(page.relative_to(ROOT)) for page in EXAMPLES if "holdfast.open" in page.read_text()]
PAGES = [name for name in NAMES if name not in NOT_OVER_HTTP and (SOAK or name in ALWAYS)]


class Desk:
    """Opens each store on the server once, and connects to it as often as a program opens it."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._addresses: dict[tuple[str, ...], str] = {}

    def find(self, store: Any, options: dict[str, Any]) -> str:
        name = (str(store), *sorted(options))
        if name not in self._addresses or store == "memory:":
            address, served = engine_server().open(store, **options)
            self._stack.callback(engine_server().close, address, served)
            self._addresses[name] = address
        return self._addresses[name]

    def connect(self, store: Any, **options: Any) -> holdfast.Engine:
        engine = holdfast.connect(self.find(store, options))
        self._stack.callback(engine.close)
        return engine

    async def connect_async(self, store: Any, **options: Any) -> holdfast.AsyncEngine:
        find = functools.partial(self.find, store, options)
        return await holdfast.connect_async(await asyncio.to_thread(find))


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.ExitStack() as stack:
        yield Desk(stack)


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("page", PAGES)
def test_a_program_moves_to_a_server_by_one_line(
    page: str, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: Provider
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example", "connect": desk.connect, "connect_async": desk.connect_async}
    moved = 0
    for code, expected in BLOCK.findall((ROOT / page).read_text()):
        program = code.replace("holdfast.open_async(", "connect_async(").replace("holdfast.open(", "connect(")
        moved += program != code
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, page, "exec", dont_inherit=True), names)
        if expected:
            assert printed.getvalue() == expected
    assert moved
    assert provider.refused == []
