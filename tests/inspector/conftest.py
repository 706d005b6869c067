"""What the browser tests share: a Chromium, the sample store, and servers on it.

The browser lives as long as the tests of a module: the sync API of Playwright keeps an event loop in its thread, and tests
of other modules use loops of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tools.browser import ADVICE, find_browser

from tests.inspector.browser import WAIT_MS, Watched, launch, open_page
from tests.inspector.sample import build_large, build_sample
from tests.inspector.serving import Site, serve_store
from tests.support import common_folder

OpenPage = Callable[..., Watched]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium; without one, the tests are skipped, or fail where CI is true."""
    if find_browser() is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(ADVICE)
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


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
    """A store that is made once for all processes of the run. Copy it: nobody writes to it."""
    with common_folder(factory.getbasetemp(), "inspector") as folder:
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


@pytest.fixture(scope="module")
def site(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on a copy of the sample store, for whoever may do everything on this machine."""
    with serve_store(copy_store(sample, tmp_path_factory.mktemp("site") / "desk.db")) as served:
        yield served


@pytest.fixture
def visit(browser: Browser) -> Iterator[OpenPage]:
    """Open watched pages: visit(site, "#/s/trip-1"), with the time `now` in them. At the end of the test, nothing may have
    gone wrong in them."""
    with ExitStack() as opened:

        def open_one(place: Site | str, route: str = "#/", now: datetime | None = None, **options: Any) -> Watched:
            origin = place.url if isinstance(place, Site) else ""
            watched: Watched = opened.enter_context(_open(browser, origin, **options))
            if now is not None:
                watched.page.clock.set_fixed_time(now)
            watched.page.goto(place.address(route) if isinstance(place, Site) else f"{place}{route}")
            return watched

        yield open_one


def _open(browser: Browser, origin: str, **options: Any) -> AbstractContextManager[Watched]:
    return open_page(browser, origin, **options)
