"""What the tests in the browser share: a Chromium, and servers on the stores.

The browser lives as long as a process has tests of this folder: the sync API of Playwright keeps an event loop in its
thread, and other tests use loops of their own. Pages are used again, emptied: no test sees what another one stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tools.browser import ADVICE, find_browser

from tests.inspector.browser import WAIT_MS, PagePool, Watched, launch, open_page
from tests.inspector.conftest import copy_store
from tests.inspector.serving import Site, serve_store

OpenPage = Callable[..., Watched]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A Chromium; without one, the tests are skipped, or fail where CI is true."""
    if find_browser() is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(ADVICE)
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


@pytest.fixture(scope="package")
def site(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on a copy of the sample store, for whoever may do everything on this machine. What a test writes there is
    there for the others: it writes to a session of its own."""
    with serve_store(copy_store(sample, tmp_path_factory.mktemp("site") / "desk.db")) as served:
        yield served


@pytest.fixture(scope="package")
def pages(browser: Browser) -> PagePool:
    return PagePool(browser)


@pytest.fixture
def visit(browser: Browser, pages: PagePool) -> Iterator[OpenPage]:
    """Open watched pages: visit(site, "#/s/trip-1"), with the time `now` in them. At the end of the test, nothing may have
    gone wrong in them."""
    with ExitStack() as opened:

        def open_one(place: Site | str, route: str = "#/", now: datetime | None = None, **options: Any) -> Watched:
            origin = place.url if isinstance(place, Site) else ""
            if now is None:
                watched = opened.enter_context(pages.open(origin, **options))
            else:  # the clock of a context stays as it is set
                watched = opened.enter_context(open_page(browser, origin, **options))
                watched.page.clock.set_fixed_time(now)
            watched.page.goto(place.address(route) if isinstance(place, Site) else f"{place}{route}")
            return watched

        yield open_one
