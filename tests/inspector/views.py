"""The views of the inspector as tests use them: their routes, when they are ready, and a walk through them."""

from __future__ import annotations

import re
from typing import Any

from tests.inspector.browser import Watched, route_to

SESSION_VIEWS = ("call", "timeline", "run", "facts", "what-if", "memory", "messages")
STORE_VIEWS = ("home", "store")
READY = """() => {
  const main = document.querySelector("main");
  if (!main || !main.innerText.trim()) return false;
  return !document.querySelector(".loading, [aria-busy=true], .message-gap") && !/Loading…/.test(main.innerText);
}"""
OPEN_ALL = """(most) => {
  let opened = 0;
  const closed = "main details:not([open]) > summary, main button[aria-expanded=false], main button.more";
  for (const each of [...document.querySelectorAll(closed)].slice(0, most)) {
    each.click();
    opened += 1;
  }
  return opened;
}"""
SCROLL_STEP = """() => {
  let moved = false;
  for (const each of document.querySelectorAll("main, main *")) {
    if (each.scrollHeight <= each.clientHeight + 4) continue;
    const style = getComputedStyle(each).overflowY;
    if (style !== "auto" && style !== "scroll") continue;
    const before = each.scrollTop;
    each.scrollTop = before + Math.max(200, each.clientHeight * 0.9);
    moved ||= each.scrollTop !== before;
  }
  const page = document.scrollingElement;
  const before = page.scrollTop;
  page.scrollTop = before + innerHeight * 0.9;
  return moved || page.scrollTop !== before;
}"""
SEEN = "() => ['header', 'main'].map((each) => document.querySelector(each)?.textContent ?? '').join('\\n')"
"""Not the body: an exported file has all of its data there, whatever it shows."""
HIDDEN = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def view_route(session: str, view: str, **query: str) -> str:
    """The route of a view: of a session, or of the store."""
    if view == "home":
        return "#/"
    return route_to("store", **query) if view == "store" else route_to("s", session, view, **query)


def wait_ready(watched: Watched) -> None:
    """Wait until the view has its data, and has drawn it."""
    watched.page.wait_for_function(READY)
    watched.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def go_to(watched: Watched, route: str) -> None:
    """Go to a route within the page, and wait for its view."""
    watched.page.evaluate("(route) => { location.hash = route; }", route)
    watched.page.wait_for_function("(route) => location.hash.startsWith(route.split('?')[0])", arg=route)
    wait_ready(watched)


def walk(watched: Watched, *, steps: int = 40, opened: int = 30) -> str:
    """Unfold and scroll through all that a view shows, and return the text that was seen on the way."""
    seen: list[str] = []
    for _ in range(steps):
        watched.page.evaluate(OPEN_ALL, opened)
        wait_ready(watched)
        seen.append(watched.page.evaluate(SEEN))
        if not watched.page.evaluate(SCROLL_STEP):
            break
        wait_ready(watched)
    return "\n".join(seen)


def squeeze(text: str) -> str:
    """A text without white space, with hidden characters as the page shows them: what can be compared with a page."""
    shown = HIDDEN.sub(lambda match: f"U+{ord(match[0]):04X}", text)
    return re.sub(r"\s+", "", shown)


def axe_rules(found: dict[str, Any]) -> list[str]:
    """Violations of axe as lines: the rule, and where."""
    return [
        f"{each['id']} ({each['impact']}): {node['html'][:160]} | {node.get('failureSummary', '')[:300]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
