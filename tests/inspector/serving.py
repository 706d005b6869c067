"""Servers for the tests of the inspector: the real application on real sockets, and keys for those who use it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2

import holdfast
from holdfast.access.keys import create_key
from holdfast.access.records import KeyGrant
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.server.running import running

TOKEN = "hf_local_inspector_test"
T = TypeVar("T")


@dataclass(frozen=True)
class Site:
    """A running server: its address, and the key that its page is opened with."""

    url: str
    key: str
    store: Path

    def address(self, route: str = "#/") -> str:
        """The address of a view with the key in its fragment. The page takes the key out of it."""
        if not self.key:
            return f"{self.url}/{route}"
        return f"{self.url}/#key={quote(self.key, safe='')}&to={quote(route.removeprefix('#'), safe='')}"

    def get(self, path: str, **query: Any) -> Any:
        """The answer of the API, as the page gets it."""
        answer = httpx2.get(
            f"{self.url}/api{path}", params=query, headers={"authorization": f"Bearer {self.key}"}, timeout=60
        )
        answer.raise_for_status()
        return answer.json()


@contextmanager
def serve_store(store: Path, key: str = TOKEN) -> Iterator[Site]:
    """Serve a store as `holdfast inspect` does: with a token that may do everything."""
    with running(build_app(ServerSettings(store=str(store), token=TOKEN, background=False))) as url:
        yield Site(url, key, store)


def make_key(store: Path, **grant: Any) -> str:
    """A key of a store that has keys from now on."""

    async def make() -> str:
        async with await holdfast.open_async(str(store)) as engine:
            _record, secret = await create_key(engine, KeyGrant(**grant), by="test")
            return str(secret)

    return run_apart(make())


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own: the thread of the test has the event loop of Playwright."""
    answers: list[T] = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(work)))
    thread.start()
    thread.join()
    assert answers, "it failed: see the output of the thread"
    return answers[0]
