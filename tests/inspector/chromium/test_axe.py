"""Accessibility: axe-core finds nothing in any view, light and dark, wide and narrow."""

from __future__ import annotations

from importlib import resources
from typing import Any, Literal

from playwright.sync_api import Browser, Page, expect

from tests.inspector.browser import NARROW, WIDE, Watched
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.sample import EMPTY, TRIP
from tests.inspector.serving import Site
from tests.inspector.views import SESSION_VIEWS, STORE_VIEWS, axe_rules, go_to, view_route, wait_ready
from tests.support import SOAK

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa")
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
LOOKS: tuple[tuple[tuple[int, int], Literal["light", "dark"]], ...] = ((WIDE, "light"), (NARROW, "dark"))
LOOK_RULES = ("color-contrast", "target-size", "link-in-text-block", "scrollable-region-focusable", "bypass", "region")
LOOKS += ((WIDE, "dark"), (NARROW, "light")) if SOAK else ()


def run_axe(page: Page, rules: tuple[str, ...]) -> dict[str, Any]:
    """Run axe on a page: these rules, or all. It comes in through the debugger, which no content policy stops."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE)
    only = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": [*TAGS, "best-practice"]}
    found: dict[str, Any] = page.evaluate(
        "(only) => axe.run(document, { runOnly: only, resultTypes: ['violations'] })", only
    )
    return found


def check(watched: Watched, what: str, only: tuple[str, ...] = ()) -> None:
    """Fail on each violation; print what is only advice."""
    found = run_axe(watched.page, only)
    rules = {each["id"]: each for each in found["violations"]}
    advice = [each for each in rules.values() if not set(each["tags"]) & set(TAGS)]
    for each in advice:
        print(f"{what}: best practice: {each['id']}: {each['nodes'][0]['html'][:160]}")
    broken = {**found, "violations": [each for each in rules.values() if each not in advice]}
    assert not broken["violations"], f"{what}:\n" + "\n".join(axe_rules(broken))


def check_looks(watched: Watched, what: str) -> None:
    """Check a view in each look: all rules in the first one, and in the others those that a look can break."""
    for number, (size, scheme) in enumerate(LOOKS):
        watched.page.set_viewport_size({"width": size[0], "height": size[1]})
        watched.page.emulate_media(color_scheme=scheme)
        wait_ready(watched)
        check(watched, f"{what}, {scheme}, {size[0]} px", LOOK_RULES if number and not SOAK else ())


def test_axe_finds_nothing_in_any_view(site: Site, visit: OpenPage) -> None:
    watched = visit(site, view_route(TRIP, "home"))
    for view in (*STORE_VIEWS, *SESSION_VIEWS):
        go_to(watched, view_route(TRIP, view))
        check_looks(watched, view)


def test_axe_finds_nothing_in_an_empty_session_and_in_dialogs(site: Site, visit: OpenPage) -> None:
    watched = visit(site, view_route(EMPTY, "call"))
    wait_ready(watched)
    check(watched, "an empty session")
    for key in ("?", "/"):
        watched.page.keyboard.press(key)
        watched.page.get_by_role("dialog").wait_for()
        check(watched, f"the dialog of {key}")
        watched.page.keyboard.press("Escape")
        expect(watched.page.locator("dialog[open]")).to_have_count(0)


def test_axe_finds_nothing_in_the_prompt_for_a_key(site: Site, browser: Browser, visit: OpenPage) -> None:
    watched = visit(Site(site.url, "", site.store))
    watched.expect("401|Unauthorized")
    watched.page.get_by_label("Key").wait_for()
    check(watched, "the prompt for a key")
