"""What a key that may write can do in the page: resume, withdraw and fork. Each is done once, and does what it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

import holdfast
from tests.inspector.browser import Watched, route_to
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.serving import Site, serve_store
from tests.inspector.views import view_route, wait_ready

SESSION = "order-9"
TEXTS = ("Ship to 12 Elm Street.", "It ships tomorrow.", "Gift wrap it.", "It is wrapped.")


@pytest.fixture
def order(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    """A store with a conversation and a frame that waits, and the token that resumes the frame."""
    path = tmp_path_factory.mktemp("order") / "agent.db"
    with holdfast.open(path) as engine:
        session = engine.create_session(SESSION)
        for number, text in enumerate(TEXTS):
            session.record("assistant" if number % 2 else "user", text)
        frame = session.frame("Ask the manager", budget=1_000)
        token = frame.suspend("waits for the manager", resumable_by=["local"])
    with serve_store(path) as site:
        yield site, str(token)


def read(site: Site) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = site.get(f"/sessions/{SESSION}/messages", limit=50)["items"]
    return messages


def press_twice(watched: Watched, action: str) -> None:
    """Press the button of a dialog as somebody impatient does."""
    watched.page.get_by_role("dialog").get_by_role("button", name=action, exact=True).dblclick()


def open_span(site: Site, visit: OpenPage, message: int) -> Watched:
    """The run with the turn that begins with a message."""
    spans = site.get(f"/sessions/{SESSION}/activity", limit=50)["items"]
    span = next(each for each in spans if each["kind"] == "turn" and each["seq"] == message)
    watched = visit(site, route_to("s", SESSION, "run", span["id"]))
    wait_ready(watched)
    return watched


def test_a_suspended_frame_is_resumed_by_its_token_only(order: tuple[Site, str], visit: OpenPage) -> None:
    site, token = order
    watched = visit(site, view_route(SESSION, "run"))
    watched.expect("40[0-9]|422|Not Found|Forbidden|Conflict|Unprocessable")
    wait_ready(watched)
    watched.page.get_by_role("link", name="waits for the manager").first.click()
    watched.page.get_by_role("button", name="Resume").first.click()
    field = watched.page.get_by_label("Suspension token")
    field.fill("no token")
    watched.page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(watched.page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    frames = site.get(f"/sessions/{SESSION}/frames")["items"]
    assert [each.get("status", "active") for each in frames] == ["suspended"]
    field.fill(token)
    watched.page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(watched.page.get_by_role("dialog")).to_have_count(0)
    frames = site.get(f"/sessions/{SESSION}/frames")["items"]
    assert [each.get("status", "active") for each in frames] == ["active"]


def test_messages_are_withdrawn_from_a_point_on_and_stay_in_the_transcript(
    order: tuple[Site, str], visit: OpenPage
) -> None:
    site, _ = order
    messages = read(site)
    watched = open_span(site, visit, messages[2]["seq"])
    watched.page.get_by_role("button", name=f"Withdraw from m{messages[2]['seq']} on").click()
    watched.page.get_by_label("Reason").fill("a mistake")
    press_twice(watched, "Withdraw")
    expect(watched.page.get_by_role("dialog")).to_have_count(0)
    after = read(site)
    assert [bool(each.get("withdrawn")) for each in after] == [False, False, True, True]
    events = site.get(f"/sessions/{SESSION}/events", limit=100)["items"]
    assert sum(event["type"] == "messages.withdrawn" for event in events) == 1


def test_a_fork_begins_at_a_message_and_leaves_the_session_as_it_is(order: tuple[Site, str], visit: OpenPage) -> None:
    site, _ = order
    messages = read(site)
    watched = open_span(site, visit, messages[2]["seq"])
    watched.page.get_by_role("button", name="Fork").first.click()
    watched.page.get_by_label("The last message that both share").fill(str(messages[1]["seq"]))
    watched.page.get_by_label("Name of the new session").fill("order-9-b")
    press_twice(watched, "Fork")
    watched.page.wait_for_url(f"**/{route_to('s', 'order-9-b', 'run')}*")
    assert read(site) == messages
    events = site.get(f"/sessions/{SESSION}/events", limit=100)["items"]
    assert sum(event["type"] == "session.branched" for event in events) == 1
    shared = site.get("/sessions/order-9-b/messages", limit=50)["items"]
    assert [each["content"][0]["text"] for each in shared] == list(TEXTS[:2])
