"""An exported file, opened from a disk: every view of it shows what the page of the server shows, and runs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from playwright.sync_api import expect

import holdfast
from holdfast.cli import main
from holdfast.inspector import collection
from holdfast.inspector.shared_parts import count_common
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.inspector.browser import Watched, route_to
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.conftest import build_once, copy_store
from tests.inspector.logs import ClaudeLines, write_lines
from tests.inspector.sample import EMPTY, TRIP
from tests.inspector.serving import TOKEN, Site
from tests.inspector.views import go_to, squeeze, wait_ready
from tests.server.running import running

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
"""The time in both pages: they say how long ago something was."""
FORMATS = ("anthropic", "openai", "openai-responses", "gemini", "bedrock", "litellm", "text")
UNFOLD = """() => {
  for (const each of document.querySelectorAll("main details:not([open]) > summary")) each.click();
}"""
MAIN_TEXT = """() => {
  const main = document.querySelector("main").cloneNode(true);
  const drawn = ".tick, .beyond, .span-inside, .span-text, .span-mark, button[title$='to /api that has this']";
  for (const each of main.querySelectorAll(drawn)) each.remove();
  return main.textContent;
}"""
ERRORS = "() => [...document.querySelectorAll('.error-note')].map((each) => each.innerText)"


def export(what: str | Path, target: Path, *words: str) -> str:
    """Export in a thread of its own: the thread of the test may have the event loop of Playwright."""
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(main, ["inspect", str(what), "-o", str(target), *words]).result() == 0
    return target.as_uri()


@pytest.fixture(scope="module")
def served(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The sample store, for somebody who only reads it, as a file does."""
    store = copy_store(sample, tmp_path_factory.mktemp("served") / "desk.db")
    settings = ServerSettings(store=str(store), token=TOKEN, background=False, local_rights=("read",))
    with running(build_app(settings)) as url:
        yield Site(url, TOKEN, store)


@pytest.fixture(scope="module")
def trip(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the file of the trip, with all that its reader may see."""
    store = copy_store(sample, tmp_path_factory.mktemp("exported") / "desk.db")

    def build(target: Path) -> None:
        export(TRIP, target, "--file", str(store), "--redact", "none", "--permission", "passport")

    return build_once(tmp_path_factory, "trip.html", build).as_uri()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of Claude Code in which a file is read, changed, and asked about."""
    lines = ClaudeLines()
    lines.say("Fix the rate in rates.py.")
    lines.call("Read", "RATE = 19\n" * 60, file_path="/srv/shop/rates.py")
    lines.call("Edit", "The file was changed.", file_path="/srv/shop/rates.py", old_string="19", new_string="21")
    lines.text("It is 21 now.")
    lines.say("What is the rate?")
    lines.text("21.", read=0)
    return write_lines(tmp_path_factory.mktemp("log") / "session.jsonl", lines.lines)


def read_view(watched: Watched, route: str) -> str:
    """The text of a view, which may have no error in it."""
    go_to(watched, route)
    if "/messages" not in route:  # a list of which only a part is drawn: how much depends on what is unfolded
        watched.page.evaluate(UNFOLD)
        wait_ready(watched)
    return " ".join([*watched.page.evaluate(ERRORS), squeeze(str(watched.page.evaluate(MAIN_TEXT)))])


def compare(file: Watched, live: Watched, routes: list[str]) -> None:
    """Compare the texts of views, and name the first difference of each."""
    different = []
    for route in routes:
        one, other = read_view(file, route), read_view(live, route)
        if one != other:
            at = count_common(one, other)
            different.append((route, one[at - 40 : at + 80], other[at - 40 : at + 80]))
    assert not different, "\n".join(map(str, different))


def list_trip_routes(site: Site) -> list[str]:
    """Each view with its tabs, filters, panels and deep links."""
    calls = site.get(f"/sessions/{TRIP}/model-calls", limit=200)["items"]
    newest, guarded = calls[0], next(each for each in calls if each.get("redacted"))
    routes = [route_to("s", TRIP, view) for view in ("call", "timeline", "run", "facts")]
    manifest = site.get(f"/sessions/{TRIP}/packs/{guarded['id']}/manifest")
    entries = {entry["section"]: entry["id"] for entry in manifest["entries"]}
    routes += [
        route_to("s", TRIP, "call", guarded["id"], show="candidate", candidate=each) for each in entries.values()
    ]
    for call in (guarded, calls[-1]):
        routes += [route_to("s", TRIP, "call", call["id"], show="read"), route_to("s", TRIP, "timeline", call["id"])]
    routes += [route_to("s", TRIP, "call", newest["id"], show="raw", to=to) for to in FORMATS]
    routes += [route_to("s", TRIP, "timeline", newest["id"], only=only) for only in ("breaks", "boundaries", "exposed")]
    routes.append(route_to("s", TRIP, "facts", show="ended"))
    for ledger, status in (("", "dead"), ("", ""), ("/ledgers/user/maya", ""), ("/ledgers/organization/northwind", "")):
        query = {"status": status} if status else {}
        facts = site.get(f"/sessions/{TRIP}{ledger}/facts", within="any", limit=500, **query)["items"]
        places = {fact.get("scope"): fact for fact in facts}
        routes += [route_to("s", TRIP, "facts", name_ledger(fact), fact["id"]) for fact in places.values()]
    spans = {span["kind"]: span["id"] for span in site.get(f"/sessions/{TRIP}/activity", limit=400)["items"]}
    routes += [route_to("s", TRIP, "run", each) for each in spans.values()]
    messages = site.get(f"/sessions/{TRIP}/messages", limit=400)["items"]
    return [*routes, route_to("s", TRIP, "messages", str(messages[0]["seq"]))]


def name_ledger(fact: dict[str, Any]) -> str:
    return f"{fact['ledger']['kind']} {'/'.join(fact['ledger']['names'])}"


def test_every_view_of_a_file_shows_what_the_server_shows(served: Site, trip: str, visit: OpenPage) -> None:
    file, live = visit(trip, "", now=NOW), visit(served, route_to("s", TRIP), now=NOW)
    wait_ready(live)
    compare(file, live, list_trip_routes(served))


TRAPS: tuple[Any, ...] = (
    {"$ref": 0},
    {"$join": [{"$part": [0, 0, 9]}], "x": "y" * 200},
    {"$real": {"$ref": 1}, "__proto__": {"polluted": "yes " * 40}, "constructor": {"prototype": 1}},
    ["long and told twice " * 20, "𝄞" * 700, {"$ref": {"$ref": 2}}],
)


def test_data_that_looks_like_the_format_of_a_file_is_shown_as_it_is(visit: OpenPage, tmp_path: Path) -> None:
    store = tmp_path / "traps.db"
    with holdfast.open(store) as engine:
        session = engine.create_session("traps")
        for number, trap in enumerate((*TRAPS, list(TRAPS))):
            session.facts.set(f"trap{number}", trap)
            session.record("user", json.dumps(trap))
    routes = [
        route_to("s", "traps", "messages"),
        *(route_to("s", "traps", "facts", "session main/traps", f"k{n + 1}") for n in range(5)),
    ]
    file = visit(export("traps", tmp_path / "traps.html", "--file", str(store), "--redact", "none"), "", now=NOW)
    settings = ServerSettings(store=str(store), token=TOKEN, background=False, local_rights=("read",))
    with running(build_app(settings)) as url:
        live = visit(Site(url, TOKEN, store), routes[0], now=NOW)
        compare(file, live, routes)
        expect(live.page.locator("main")).to_contain_text("trap4")
        live.page.goto("about:blank")
    assert file.page.evaluate("() => ({}).polluted === undefined")


def test_a_file_opens_on_its_session_and_lists_it(trip: str, visit: OpenPage) -> None:
    file = visit(trip, "")
    wait_ready(file)
    assert file.page.evaluate("() => location.hash") == route_to("s", TRIP, "call")
    expect(file.page.get_by_role("heading", name="Call p")).to_be_visible()
    file.page.get_by_role("link", name="Holdfast: sessions").click()
    file.page.get_by_role("table").get_by_role("link", name=TRIP).click()
    expect(file.page.get_by_role("heading", name="Call p")).to_be_visible()


def test_what_a_file_cannot_do_is_said_plainly(trip: str, visit: OpenPage) -> None:
    file = visit(trip, "")
    said = {
        route_to("store"): "A file holds one session",
        route_to("s", TRIP, "what-if"): "An exported file cannot make packs",
        route_to("s", TRIP, "memory", query="hotel"): "A file answers no new question",
        route_to("s", TRIP, "messages"): "112 messages",
        route_to("s", TRIP, "facts", "user bob", "k1"): "Not in this file",
        route_to("s", EMPTY, "messages"): "Not in this file",
    }
    for route, text in said.items():
        go_to(file, route)
        expect(file.page.locator("main")).to_contain_text(text)
        assert not file.page.locator(".error-note").count(), route
    go_to(file, route_to("s", TRIP, "messages"))
    file.page.keyboard.press("/")
    file.page.get_by_role("combobox").fill("hotel")
    expect(file.page.get_by_role("option").first).to_be_visible()
    assert "Casa do Rio" in file.text()
    file.page.keyboard.press("Escape")
    expect(file.page.locator("dialog[open]")).to_have_count(0)
    file.page.keyboard.press("?")
    expect(file.page.get_by_role("dialog")).to_contain_text("This file holds the answers")


def test_the_file_of_a_log_opens_on_its_report(log: Path, visit: OpenPage) -> None:
    file = visit(export(log, log.with_name("log.html")), "")
    wait_ready(file)
    expect(file.page.locator("main")).to_contain_text("Report on Claude Code")
    expect(file.page.locator("main")).to_contain_text("rates.py")
    link = file.page.get_by_role("table").get_by_role("link").first
    link.click()
    expect(file.page.get_by_role("heading", name="Call p")).to_be_visible()
    session = file.page.evaluate("() => location.hash").split("/")[2]
    for view in ("timeline", "run", "facts", "messages", "memory", "what-if"):
        go_to(file, f"#/s/{session}/{view}")
        assert not file.page.locator(".error-note").count(), view
        assert "Not in this file" not in file.text(), view


def test_a_call_without_its_pack_shows_its_reply_and_says_why(
    log: Path, visit: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "CALLS", 1)
    file = visit(export(log, log.with_name("short.html")), "")
    wait_ready(file)
    expect(file.page.get_by_label("Not in this file")).to_contain_text("the newest 1 packs")
    file.page.get_by_role("table").get_by_role("link").first.click()
    file.page.get_by_role("link", name="← Before").click()
    expect(file.page.locator("main")).to_contain_text("is not in this file")
    expect(file.page.locator("main")).to_contain_text("It is 21 now.")
    file.page.get_by_role("link", name="Timeline").click()
    expect(file.page.get_by_role("region", name="Difference").last).to_contain_text("change")
    assert not file.page.locator(".error-note").count()


INJECT = """() => {
  const script = document.createElement("script");
  try { script.textContent = "window.__owned.push('text')"; } catch (error) { window.__refused = String(error); }
  script.append("window.__owned.push('node')");
  document.body.append(script);
  try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=window.__owned.push('html')>"); } catch {}
  return { refused: window.__refused ?? "", owned: window.__owned };
}"""


def test_a_script_that_is_put_into_a_file_does_not_run(trip: str, visit: OpenPage, tmp_path: Path) -> None:
    text = Path(url2pathname(urlsplit(trip).path)).read_text()
    evil = "<script>window.__owned.push('inline')</script><img src=x onerror=\"window.__owned.push('handler')\">"
    changed = tmp_path / "changed.html"
    changed.write_text(text.replace('<div id="app">', f'{evil}<div id="app">', 1))
    assert evil in changed.read_text()
    file = visit(changed.as_uri(), "")
    for known in ("content policy: ", "Content Security Policy", "Trusted", "ERR_FILE_NOT_FOUND"):
        file.expect(known)
    wait_ready(file)
    expect(file.page.get_by_role("heading", name="Call p")).to_be_visible()
    broken = [each for each in file.problems if each.startswith("console: content policy: script-src")]
    assert len(broken) == 2, file.problems
    found = file.page.evaluate(INJECT)
    assert "Trusted" in found["refused"]
    assert found["owned"] == []
