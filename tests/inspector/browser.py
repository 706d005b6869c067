"""Pages in a real Chromium, and what may not happen in them.

Laws: nothing that a page does goes unseen. An error in the console, an error of a script, a breach of the content policy,
a dialog, a new window or a request to another origin fails the test that opened the page, unless the test says beforehand
that it expects it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Playwright
from tools.browser import find_browser

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
)
WAIT_MS = 30_000
"""How long a page may take to show what is waited for: a bound on a busy machine, not a measurement."""
WIDE, NARROW = (1280, 900), (400, 800)
CANARY = """
window.__owned = [];
document.addEventListener("securitypolicyviolation", (event) => {
  console.error("content policy: " + event.violatedDirective + " " + event.blockedURI);
});
"""


@dataclass
class Watched:
    """A page, and everything that went wrong in it."""

    page: Page
    origin: str
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    expected: list[re.Pattern[str]] = field(default_factory=list)

    def begin(self, origin: str, size: tuple[int, int], dark: bool) -> None:
        """Watch anew: nothing of an earlier use is left."""
        self.origin = origin
        self.problems, self.requests, self.answers, self.expected = [], [], [], []
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme="dark" if dark else "light")

    def clear(self) -> None:
        """Leave the page as a new one: no storage, no routes, no other tabs."""
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self.page.goto("about:blank")
        self.page.unroute_all()
        for other in self.page.context.pages:
            if other is not self.page:
                other.close()

    def expect(self, pattern: str) -> None:
        """Say that a problem with this text is part of the test."""
        self.expected.append(re.compile(pattern))

    def check(self) -> None:
        """Fail if something went wrong that no one expected, or if a foreign script ran."""
        owned = None if self.page.is_closed() else self.page.evaluate("() => window.__owned")
        problems = [each for each in self.problems if not any(known.search(each) for known in self.expected)]
        assert not problems, problems
        assert not owned, f"a script ran: {owned}"

    def note(self, what: str) -> Callable[[Any], None]:
        def add(value: Any) -> None:
            self.problems.append(f"{what}: {getattr(value, 'text', value)}")

        return add

    def text(self) -> str:
        """What a reader sees."""
        return self.page.inner_text("body")


def launch(playwright: Playwright) -> Browser:
    """A Chromium without a window and with an empty profile."""
    path = find_browser()
    assert path is not None
    return playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=WAIT_MS)


def watch_page(context: BrowserContext, origin: str) -> Watched:
    """A new page whose every step is watched. `origin` is where its requests may go; "" is nowhere."""
    context.add_init_script(CANARY)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    watched = Watched(page, origin)

    def see_console(message: Any) -> None:
        if message.type == "error":
            watched.problems.append(f"console: {message.text} {message.location.get('url', '')}")

    page.on("pageerror", watched.note("script error"))
    page.on("console", see_console)
    page.on("crash", watched.note("crash"))
    page.on("popup", watched.note("new window"))
    page.on("download", watched.note("download"))

    def refuse(dialog: Any) -> None:
        watched.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def see_request(request: Any) -> None:
        watched.requests.append(request.url)
        scheme = urlsplit(request.url).scheme
        if scheme in ("blob", "data", "about") or (watched.origin and request.url.startswith(watched.origin + "/")):
            return
        if not watched.origin and scheme == "file":
            return
        watched.problems.append(f"request beyond the origin: {request.url}")

    def see_answer(answer: Any) -> None:
        watched.answers.append(answer)

    page.on("dialog", refuse)
    page.on("request", see_request)
    page.on("response", see_answer)
    return watched


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    return browser.new_context(reduced_motion="reduce", locale="en-GB", timezone_id="UTC", **options)


@contextmanager
def open_page(
    browser: Browser,
    origin: str,
    *,
    size: tuple[int, int] = WIDE,
    dark: bool = False,
    **options: Any,
) -> Iterator[Watched]:
    """A watched page of its own context, closed with the block; then its problems are counted."""
    context = new_context(browser, **options)
    try:
        watched = watch_page(context, origin)
        watched.begin(origin, size, dark)
        yield watched
        watched.check()
    finally:
        context.close()


class PagePool:
    """Pages that tests use one after the other: a new context takes as much time as the page in it."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: dict[str, list[Watched]] = {}

    @contextmanager
    def open(
        self, origin: str, *, size: tuple[int, int] = WIDE, dark: bool = False, **options: Any
    ) -> Iterator[Watched]:
        """A watched page, as `open_page` has it. It is used again unless something went wrong in it."""
        free = self._free.setdefault(repr(sorted(options.items())), [])
        watched = free.pop() if free else watch_page(new_context(self._browser, **options), origin)
        watched.begin(origin, size, dark)
        try:
            yield watched
            watched.check()
            watched.clear()
        except BaseException:
            watched.page.context.close()
            raise
        free.append(watched)


def route_to(*segments: str, **query: str) -> str:
    """A route of the page: route_to("s", "trip-1", "facts") is #/s/trip-1/facts."""
    path = "/".join(quote(each, safe="") for each in segments)
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(query.items()))
    return f"#/{path}" + (f"?{asked}" if asked else "")
