"""Two hundred hostile payloads in every field: no script runs, nothing leaves the page, and the text is shown as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.inspector.browser import Watched
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.chromium.test_export import export
from tests.inspector.conftest import build_once, copy_store
from tests.inspector.hostile_store import FILES, SESSION, build_hostile
from tests.inspector.payloads import HOST, PAYLOADS, SHORT
from tests.inspector.serving import Site, serve_store
from tests.inspector.views import SESSION_VIEWS, go_to, squeeze, view_route, wait_ready, walk

TALL = (1280, 6_000)
"""A window that shows many rows at once, so that a walk has few steps."""
LEAST = {"session": 170, "message": 200, "tool": 180, "owner": 180, "media_type": 180, "url": 190, "entry": 180}
"""How many of the payloads a field must have taken, for the test to be one."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_once(tmp_path_factory, "hostile.db", build_hostile)


@pytest.fixture(scope="module")
def hostile_site(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serve_store(copy_store(hostile, tmp_path_factory.mktemp("hostile") / "desk.db")) as served:
        yield served


def start_of(session: str, view: str) -> str:
    """Where the walk through a view begins. The messages open at their end."""
    return f"{view_route(session, view)}/1" if view == "messages" else view_route(session, view)


def check_harmless(watched: Watched) -> None:
    """No script of the data ran, nothing was fetched, and the data made no elements."""
    watched.check()
    assert not [each for each in watched.requests if urlsplit(each).hostname == HOST.strip("/")]
    made = watched.page.evaluate(
        """() => [...document.querySelectorAll("iframe, object, embed, base, form[action], meta[http-equiv=refresh], "
             + "[onerror], [onload], [onfocus], link[href*='owned.invalid'], script[src*='owned.invalid'], template, "
             + "a[href^='javascript'], a[href^='data'], [style*='owned.invalid']")]
             .map((each) => each.outerHTML.slice(0, 200))"""
    )
    assert not made, made
    assert watched.page.evaluate("() => ({}).x === undefined && ({}).__html === undefined"), "the prototype was changed"


def count_shown(seen: str, payloads: tuple[str, ...]) -> list[str]:
    """The payloads that a text does not show. Of a long one, the start counts."""
    text = squeeze(seen)
    return [payload[:80] for payload in payloads if squeeze(payload)[:600] not in text]


def test_the_store_has_the_payloads(hostile: Path) -> None:
    stored = json.loads(Path(f"{hostile}.fields.json").read_text())
    assert len(PAYLOADS) == 200
    assert not {field: stored.get(field) for field, least in LEAST.items() if stored.get(field, 0) < least}


def walk_view(watched: Watched, session: str, view: str) -> str:
    """Look at all that a view shows, and return what was seen. Nothing may have run."""
    go_to(watched, start_of(session, view))
    seen = walk(watched, steps=80)
    check_harmless(watched)
    return seen


def walk_session(watched: Watched) -> None:
    """Look at each view of the session once."""
    shown = {view: walk_view(watched, SESSION, view) for view in SESSION_VIEWS}
    assert not count_shown(shown.pop("messages"), PAYLOADS)
    empty = [view for view, seen in shown.items() if len(count_shown(seen, SHORT)) == len(SHORT)]
    assert not empty, f"these views show no payload at all: {empty}"


def test_no_payload_runs_in_any_view(hostile_site: Site, visit: OpenPage) -> None:
    watched = visit(hostile_site, "#/", size=TALL)
    wait_ready(watched)
    names = tuple(row["session"] for row in hostile_site.get("/sessions", limit=50, order="recent")["items"])
    assert not count_shown(walk_view(watched, SESSION, "home"), names)
    links: list[str] = watched.page.locator("main a[href^='#/s/']").evaluate_all(
        "(links) => links.map((each) => each.getAttribute('href'))"
    )
    assert len(links) >= len(names)
    for link in links[::9]:
        go_to(watched, link)
        check_harmless(watched)
    walk_view(watched, SESSION, "store")
    walk_session(watched)
    files = walk_view(watched, FILES, "messages")
    assert len(count_shown(files, SHORT)) < 20, "most of the payloads are shown as names of files"
    watched.page.keyboard.press("/")
    field = watched.page.get_by_role("dialog").locator("input").first
    for payload in SHORT[::25]:
        field.fill(payload)
        wait_ready(watched)
    check_harmless(watched)


def test_no_payload_runs_in_an_exported_file(hostile: Path, visit: OpenPage, tmp_path: Path) -> None:
    store = copy_store(hostile, tmp_path / "desk.db")
    page = export(SESSION, tmp_path / "hostile.html", "--file", str(store), "--redact", "none")
    watched = visit(page, "#/", size=TALL)
    wait_ready(watched)
    walk_session(watched)
    assert [urls for urls in watched.requests if urls.startswith("http")] == []
