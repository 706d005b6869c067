"""What the views show is what the library answers: tokens, fates, dollars, struck values, facts and differences."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import holdfast
from tests.inspector.browser import Watched, route_to
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.conftest import copy_store
from tests.inspector.sample import OTHER_TENANT, REFUND, TRIP
from tests.inspector.serving import Site
from tests.inspector.views import go_to, squeeze, view_route, wait_ready, walk

WRONG_ANSWER = "You are in the Hotel Avenida"
FATES = ("included", "reduced", "omitted", "missing", "withheld")


@pytest.fixture(scope="module")
def calls(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The model calls of the trip, newest first, as the library lists them."""
    with holdfast.open(copy_store(sample, tmp_path_factory.mktemp("calls") / "desk.db")) as engine:
        return engine.session(TRIP).packs.calls(limit=200)


def money(micro: int) -> str:
    """Micro-dollars as the page writes them."""
    dollars = micro / 1e6
    digits = 2 if dollars == 0 or dollars >= 1 else 3 if dollars >= 0.01 else 5 if dollars >= 0.0001 else 6
    return f"${dollars:.{digits}f}"


def main_text(watched: Watched) -> str:
    return squeeze(watched.page.locator("main").inner_text())


def find_wrong_call(site: Site) -> str:
    """The call whose answer named the wrong hotel."""
    messages = site.get(f"/sessions/{TRIP}/messages", limit=400)["items"]
    reply = next(each["seq"] for each in messages if WRONG_ANSWER in str(each["content"]))
    packs = site.get(f"/sessions/{TRIP}/packs", limit=200)["items"]
    return str(next(each["id"] for each in packs if each["reply"] == reply))


def test_a_call_has_its_tokens_its_dollars_and_every_candidate(site: Site, visit: OpenPage, calls: list[Any]) -> None:
    watched = visit(site, route_to("s", TRIP, "call", calls[0].id))
    for call in (calls[0], next(each for each in calls if each.budget == 2_600), calls[-1]):
        go_to(watched, route_to("s", TRIP, "call", call.id))
        expect(watched.page.get_by_role("heading", name=f"Call {call.id}")).to_be_visible()
        shown = main_text(watched)
        for figure in (f"{call.used:,}", f"{call.budget:,}", f"{call.usage.input_tokens:,}", money(call.cost.total)):
            assert squeeze(figure) in shown, (call.id, figure)
        manifest = site.get(f"/sessions/{TRIP}/packs/{call.id}/manifest")
        fates = Counter(entry["fate"] for entry in manifest["entries"])
        assert f"All{len(manifest['entries'])}" in shown
        for fate in FATES:
            assert (f"{fate.capitalize()}{fates[fate]}" in shown) == (fates[fate] > 0), (call.id, fate)
        seen = squeeze(walk(watched, opened=0))
        missing = [entry["id"] for entry in manifest["entries"] if squeeze(entry["id"])[:40] not in seen]
        assert not missing, missing


def test_the_call_that_was_wrong_shows_the_dead_value_and_the_fact_that_ended_it(site: Site, visit: OpenPage) -> None:
    pack = find_wrong_call(site)
    found = site.get(f"/sessions/{TRIP}/packs/{pack}/redactions")["items"]
    exposed = [each for each in found if each["mode"] == "exposed"]
    assert {each["value"] for each in exposed} >= {"Hotel Avenida"}
    watched = visit(site, route_to("s", TRIP, "call", pack, show="read"))
    wait_ready(watched)
    watched.page.get_by_role("button", name="History").first.click()
    marks = watched.page.locator(".dead.is-exposed")
    expect(marks.first).to_be_visible()
    assert "Hotel Avenida" in marks.first.inner_text()
    marks.first.get_by_role("link").click()
    watched.page.wait_for_url(re.compile("/facts/"))
    wait_ready(watched)
    expect(watched.page.locator("main")).to_contain_text("Casa do Rio")


def test_a_hidden_value_is_struck_where_the_model_would_have_read_it(
    site: Site, visit: OpenPage, calls: list[Any]
) -> None:
    call = next(each for each in calls if each.redacted)
    watched = visit(site, route_to("s", TRIP, "call", call.id, show="read"))
    wait_ready(watched)
    watched.page.get_by_role("button", name="History").first.click()
    struck = watched.page.locator(".dead.is-redacted").first
    expect(struck.locator("s")).to_have_text("Hotel Avenida")
    struck.get_by_role("link", name="hotel → Casa do Rio").click()
    watched.page.wait_for_url(re.compile("/facts/session%20main%2Ftrip-1/k9"))


def test_the_raw_request_is_that_of_the_provider(site: Site, visit: OpenPage, calls: list[Any]) -> None:
    watched = visit(site, route_to("s", TRIP, "call", calls[0].id, show="raw"))
    wait_ready(watched)
    watched.page.get_by_role("button", name="JSON", exact=True).click()
    wait_ready(watched)
    shown = squeeze(walk(watched))
    assert '"max_completion_tokens":600' in shown
    assert squeeze("Never book above the hotel limit.") in shown
    expect(watched.page.get_by_role("button", name="Copy JSON")).to_be_visible()


REQUESTS = ("anthropic", "openai", "openai-responses", "gemini", "bedrock", "litellm")
STUB = "curl() { cat; }; aws() { cat; }; ANTHROPIC_API_KEY= OPENAI_API_KEY= GEMINI_API_KEY= LITELLM_API_KEY="


def read_copies(watched: Watched) -> dict[str, str]:
    """What the buttons of a raw request put on the clipboard."""
    copied: dict[str, str] = {}
    for button in ("Copy as curl", "Copy as Python"):
        watched.page.evaluate("() => navigator.clipboard.writeText('')")
        watched.page.get_by_role("button", name=button).click()
        watched.page.wait_for_function("() => navigator.clipboard.readText().then((text) => text !== '')")
        copied[button] = watched.page.evaluate("() => navigator.clipboard.readText()")
    return copied


def test_a_copied_request_is_the_request(site: Site, visit: OpenPage, calls: list[Any]) -> None:
    pack = calls[0].id
    watched = visit(site, permissions=["clipboard-read", "clipboard-write"])
    for to in REQUESTS:
        rendered = site.get(f"/sessions/{TRIP}/packs/{pack}", to=to)["rendered"]
        go_to(watched, route_to("s", TRIP, "call", pack, show="raw", to=to))
        copied = read_copies(watched)
        program = copied["Copy as Python"]
        request = next(each for each in ast.parse(program).body if isinstance(each, ast.Assign))
        assert ast.literal_eval(request.value) == rendered, to
        shell = copied["Copy as curl"]
        sent = subprocess.run(["sh", "-uc", f"{STUB}\n{shell}"], capture_output=True, text=True, check=True, timeout=60)
        body = json.loads(sent.stdout)
        if to == "gemini":  # the body of the REST API has other names than the arguments of the client
            assert rendered["model"] in shell
            assert body["contents"] == rendered["contents"]
            assert body["systemInstruction"]["parts"][0]["text"] == rendered["config"]["system_instruction"]
            assert body["generationConfig"]["maxOutputTokens"] == 600
            assert body["tools"] == rendered["config"]["tools"]
        else:
            assert body == rendered, to


def test_the_timeline_has_every_call_with_its_cost_and_its_break(site: Site, visit: OpenPage, calls: list[Any]) -> None:
    watched = visit(site, view_route(TRIP, "timeline"), size=(1280, 6_000))
    wait_ready(watched)
    shown = squeeze(walk(watched, opened=0))
    assert not [call.id for call in calls if call.id not in shown]
    assert not [call.id for call in calls if call.cost and squeeze(money(call.cost.total)) not in shown]
    assert squeeze(money(sum(call.cost.total for call in calls if call.cost))) in shown
    boundaries = [boundary for call in calls for boundary in call.boundaries]
    assert boundaries
    assert not [boundary.seq for boundary in boundaries if f"event{boundary.seq}" not in shown]


def test_the_difference_of_two_calls_is_that_of_the_library(site: Site, visit: OpenPage) -> None:
    pack = find_wrong_call(site)
    with holdfast.open(site.store) as engine:
        diff = engine.session(TRIP).packs.diff(second=pack)
    watched = visit(site, route_to("s", TRIP, "timeline", pack), size=(1280, 4_000))
    wait_ready(watched)
    shown = squeeze(walk(watched, opened=0))
    missing = [each.entry.id for each in diff.changes if squeeze(each.entry.id) not in shown]
    assert not missing, missing


def test_the_facts_are_those_of_the_ledgers(site: Site, visit: OpenPage) -> None:
    watched = visit(site, view_route(TRIP, "facts"), size=(1280, 3_000))
    wait_ready(watched)
    shown = squeeze(walk(watched))
    for ledger in (f"session/{TRIP}", "user/maya", "organization/northwind"):
        kind, name = ledger.split("/", 1)
        for fact in site.get(f"/sessions/{TRIP}/ledgers/{kind}/{name}/facts", within="any", limit=100)["items"]:
            assert squeeze(str(fact["value"])) in shown, (ledger, fact["key"])
            assert squeeze(fact["key"]) in shown
    for word in ("claim", "disputed", "review", "constraint", "proposal"):
        assert word in shown, word
    go_to(watched, route_to("s", TRIP, "facts", show="ended"))
    ended = main_text(watched)
    for value in ("Hotel Avenida", "Lisbon", "taxi, 20 euros"):
        assert squeeze(value) in ended, value


def test_a_fact_leads_to_the_words_that_said_it(site: Site, visit: OpenPage) -> None:
    watched = visit(site, route_to("s", TRIP, "facts", f"session main/{TRIP}", "k9"))
    wait_ready(watched)
    pane = watched.page.get_by_role("region", name="Fact", exact=True)
    expect(pane).to_contain_text("Casa do Rio")
    expect(pane).to_contain_text("Hotel Avenida")
    expect(pane).to_contain_text("Take Casa do Rio.")
    panel = pane.locator(".panel").filter(has_text="Rests on an earlier value")
    expect(panel).to_contain_text("per_night")
    expect(panel).to_contain_text("review")


def test_what_if_makes_the_pack_anew_and_stores_nothing(site: Site, visit: OpenPage) -> None:
    pack = find_wrong_call(site)
    version = site.get(f"/sessions/{TRIP}")["version"]
    watched = visit(site, route_to("s", TRIP, "what-if", pack))
    wait_ready(watched)
    expect(watched.page.locator("main")).to_contain_text("same bytes")
    watched.page.get_by_role("group", name="Guard").get_by_role("button", name="redact").click()
    expect(watched.page.locator("main")).to_contain_text("other bytes")
    assert "guard=redact" in watched.page.url
    answer = next(each for each in reversed(watched.answers) if each.url.endswith("/vary")).json()
    assert squeeze(f"{answer['manifest']['tokens']['used']:,} of") in main_text(watched)
    assert site.get(f"/sessions/{TRIP}")["version"] == version


def test_the_work_of_a_session_has_its_spans_frames_and_unknown_outcomes(site: Site, visit: OpenPage) -> None:
    watched = visit(site, view_route(TRIP, "run"), size=(1280, 3_000))
    wait_ready(watched)
    shown = walk(watched)
    for goal in ("Compare three hotels by the river", "Book Casa do Rio", "Approve the night above 150 euros"):
        assert squeeze(goal) in squeeze(shown), goal
    for word in ("unknown", "travel-office", "book_hotel"):
        assert word in shown, word
    go_to(watched, view_route(REFUND, "run"))
    expect(watched.page.locator("main")).to_contain_text("unknown")


def test_the_store_is_checked_and_names_its_tenants(site: Site, visit: OpenPage) -> None:
    watched = visit(site, view_route(TRIP, "store"))
    wait_ready(watched)
    totals = site.get("/admin/totals")
    assert squeeze(f"Events{totals['events']:,}") in main_text(watched)
    tenants = watched.page.get_by_role("table", name="Tenants")
    expect(tenants).to_contain_text(OTHER_TENANT)
    expect(tenants.get_by_role("row").filter(has_text="shown here")).to_contain_text("default")
    watched.page.get_by_role("button", name="Verify now").click()
    expect(watched.page.locator("main")).to_contain_text("no damage")
    watched.page.get_by_role("button", name="Examine now").click()
    checks = watched.page.get_by_role("table", name="Checks of the doctor")
    expect(checks).to_contain_text("2 tool calls without a result")
    expect(watched.page.locator("main")).to_contain_text("Nothing waits for long-term memory.")


def test_nobody_is_refused_before_their_rights_are_known(site: Site, visit: OpenPage) -> None:
    watched = visit(site)
    wait_ready(watched)
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    with watched.page.expect_response("**/api/caller"):
        watched.page.route("**/api/caller", hold)
        watched.page.goto("about:blank")
        watched.page.goto(site.address("#/store"))
        expect(watched.page.locator("header")).to_be_visible()
        watched.page.wait_for_timeout(500)
        assert held
        assert "may not" not in watched.text()
        held[0].continue_()
    expect(watched.page.get_by_role("heading", name="Store")).to_be_visible()


def test_memory_recalls_what_earlier_sessions_said(site: Site, visit: OpenPage) -> None:
    watched = visit(site, view_route(TRIP, "memory"))
    wait_ready(watched)
    field = (
        watched.page.locator("main").get_by_role("searchbox").or_(watched.page.locator("main").get_by_role("textbox"))
    )
    field.first.fill("hotel by the river")
    field.first.press("Enter")
    expect(watched.page.locator("main")).to_contain_text("late breakfast")
    expect(watched.page.locator("main")).to_contain_text("trip-2026-oslo")
