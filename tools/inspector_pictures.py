"""Take the pictures of the inspector in the documentation: every view, light and dark. `make pictures` writes them.

The store and the log are the samples of the tests, the browser is the one of the tests, and the time is fixed: a picture
changes only if the page does. The report is the file that `holdfast inspect LOG -o FILE` writes. Each picture has 1280
pixels in width and at most PICTURE_BYTES.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright
from tests.inspector.browser import Watched, launch, open_page, route_to
from tests.inspector.sample import TRIP, build_sample
from tests.inspector.sample_log import write_sample_log
from tests.inspector.serving import Site, serve_store
from tests.inspector.views import wait_ready

from holdfast.cli.inspect import TIME_VARIABLE
from tools.browser import ADVICE, find_browser

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures" / "inspector"
NOW = datetime(2026, 11, 14, 12, 0, tzinfo=UTC)
"""The time on the pictures: a few hours after the last turn of the trip."""
SIZE = (1280, 860)
PICTURE_BYTES = 200_000
WRONG_ANSWER = "You are in the Hotel Avenida"
QUESTION = "hotel by the river"


class Picture(NamedTuple):
    """A picture: its name, the route of its view, and what is done there first."""

    name: str
    route: str
    keys: tuple[str, ...] = ()
    click: str = ""
    """The name of a button that is pressed first."""
    themes: tuple[str, ...] = ("light", "dark")


REPORT = Picture("report", "")


def find_wrong_call(site: Site) -> tuple[str, int]:
    """The call whose answer was wrong, and the seq of its reply."""
    messages = site.get(f"/sessions/{TRIP}/messages", limit=400)["items"]
    reply = next(each["seq"] for each in messages if WRONG_ANSWER in str(each["content"]))
    packs = site.get(f"/sessions/{TRIP}/packs", limit=200)["items"]
    return next(each["id"] for each in packs if each["reply"] == reply), reply


def list_pictures(site: Site) -> list[Picture]:
    """All pictures, in the order of the guided page."""
    pack, reply = find_wrong_call(site)
    return [
        Picture("sessions", "#/"),
        Picture("call", route_to("s", TRIP, "call", pack), click="History"),
        Picture("request", route_to("s", TRIP, "call", pack, show="raw"), themes=("light",)),
        Picture("timeline", route_to("s", TRIP, "timeline", pack)),
        Picture("run", route_to("s", TRIP, "run")),
        Picture("facts", route_to("s", TRIP, "facts")),
        Picture("fact", route_to("s", TRIP, "facts", f"session main/{TRIP}", "k9"), themes=("light",)),
        Picture("what-if", route_to("s", TRIP, "what-if", pack, guard="redact")),
        Picture("memory", route_to("s", TRIP, "memory", query=QUESTION)),
        Picture("messages", route_to("s", TRIP, "messages", str(reply))),
        Picture("store", "#/store"),
        Picture("search", route_to("s", TRIP, "call", pack), keys=("/", *"Avenida"), themes=("light",)),
        Picture("help", route_to("s", TRIP, "call", pack), keys=("?",), themes=("light",)),
    ]


def build_report(folder: Path) -> str:
    """The address of the report of the sample log. The command runs in a process of its own, as everybody runs it."""
    log = write_sample_log(folder / "session.jsonl")
    page = folder / "report.html"
    command = [sys.executable, "-m", "holdfast", "inspect", str(log), "-o", str(page)]
    environment = {**os.environ, TIME_VARIABLE: str(int(NOW.timestamp()))}
    subprocess.run(command, check=True, env=environment)
    return page.as_uri()


def take(site: Site | str, browser: Browser, picture: Picture, theme: str) -> None:
    """Take one picture of a server or of a file. A page with an error gives none."""
    origin = site.url if isinstance(site, Site) else ""
    with open_page(browser, origin, size=SIZE, dark=theme == "dark") as watched:
        watched.page.clock.set_fixed_time(NOW)
        watched.page.goto(site.address(picture.route) if isinstance(site, Site) else site)
        wait_ready(watched)
        if picture.click:
            watched.page.get_by_role("button", name=picture.click).first.click()
            wait_ready(watched)
        press_all(watched, picture.keys)
        target = FOLDER / f"{picture.name}-{theme}.png"
        watched.page.screenshot(path=target, animations="disabled", caret="hide", scale="css")
        size = target.stat().st_size
        assert size < PICTURE_BYTES, f"{target.name} has {size:,} bytes"
        print(f"{target.relative_to(ROOT)}  {size:,} bytes")


def press_all(watched: Watched, keys: tuple[str, ...]) -> None:
    """Open a dialog by the first key, and type the others into it."""
    if not keys:
        return
    watched.page.keyboard.press(keys[0])
    dialog = watched.page.get_by_role("dialog")
    dialog.wait_for()
    if keys[1:]:
        dialog.locator("input").first.fill("".join(keys[1:]))
        dialog.get_by_text("Searching").wait_for(state="hidden")
    wait_ready(watched)


def main(names: list[str]) -> None:
    if find_browser() is None:
        raise SystemExit(ADVICE)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "desk.db"
        build_sample(store)
        with serve_store(store) as site, sync_playwright() as playwright:
            browser = launch(playwright)
            for picture in list_pictures(site):
                for theme in picture.themes:
                    if not names or picture.name in names:
                        take(site, browser, picture, theme)
            if not names or REPORT.name in names:
                address = build_report(Path(folder))
                for theme in REPORT.themes:
                    take(address, browser, REPORT, theme)
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
