"""Who sees and does what: the rights and permissions of a key decide what is in the page at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from holdfast import Identity
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.conftest import copy_store
from tests.inspector.sample import REFUND, SECRET, TRIP, USER
from tests.inspector.serving import Site, make_key, serve_store
from tests.inspector.views import SESSION_VIEWS, go_to, view_route, wait_ready, walk

WRITES = ("Withdraw", "Fork", "Recover", "Resume", "Retract", "Accept", "Decline", "Confirm")
"""The words on buttons that change the store."""


@pytest.fixture(scope="module")
def guarded(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on a store with keys."""
    store = copy_store(sample, tmp_path_factory.mktemp("keys") / "desk.db")
    key = make_key(store, name="office", tenant="default", rights=("read", "write"))
    with serve_store(store, key) as served:
        yield served


def buttons(page_text: list[str]) -> list[str]:
    return [text for text in page_text if any(word.lower() in text.lower() for word in WRITES)]


def test_a_key_that_may_not_write_finds_no_button_that_does(guarded: Site, visit: OpenPage) -> None:
    reader = dataclasses.replace(
        guarded, key=make_key(guarded.store, name="reader", tenant="default", rights=("read",))
    )
    watched = visit(reader, view_route(TRIP, "call"))
    wait_ready(watched)
    for view in SESSION_VIEWS:
        go_to(watched, view_route(TRIP, view))
        found = buttons(watched.page.locator("main button, main [role=button]").all_inner_texts())
        assert not found, (view, found)
    assert all(each.request.method == "GET" or "/vary" in each.url or "/packs" in each.url for each in watched.answers)


def test_a_key_that_may_write_finds_them(guarded: Site, visit: OpenPage) -> None:
    watched = visit(guarded, view_route(TRIP, "run"))
    wait_ready(watched)
    found = set(buttons(watched.page.locator("main button").all_inner_texts()))
    go_to(watched, view_route(TRIP, "messages"))
    found |= set(buttons(watched.page.locator("main button").all_inner_texts()))
    assert found, "no button writes"


MAYA = Identity(user_name="Maya Lindqvist", user_id=USER, organization="northwind", permissions=("travel",))
JONAS = Identity(user_name="Jonas Berg", user_id="jonas", organization="northwind")


def test_a_program_that_may_know_a_fact_sees_it(guarded: Site, visit: OpenPage) -> None:
    watched = visit(guarded, view_route(TRIP, "facts"))
    wait_ready(watched)
    assert SECRET in walk(watched)


@pytest.mark.parametrize(("identity", "actor"), [(MAYA, "main"), (JONAS, "jonas")])
def test_a_reader_without_a_permission_sees_no_trace_of_a_fact(
    guarded: Site, visit: OpenPage, identity: Identity, actor: str
) -> None:
    key = make_key(guarded.store, name=identity.user_id, actor=actor, identity=identity, rights=("read", "write"))
    watched = visit(dataclasses.replace(guarded, key=key), view_route(TRIP, "facts"))
    watched.expect("404|403|409|Not Found|Forbidden|Conflict")
    wait_ready(watched)
    for view in ("call", "messages", "memory", "run", "timeline", "home"):
        go_to(watched, view_route(TRIP, view))
        walk(watched, steps=3)
        for trace in (SECRET, "passport_number"):
            assert trace not in watched.page.content(), (view, trace)
    for answer in watched.answers:
        if "/api/" in answer.url and "/feed" not in answer.url:
            body = answer.body()
            assert SECRET.encode() not in body, answer.url
            assert b"passport_number" not in body, answer.url


def test_a_recovery_is_one_press_and_is_written_once(guarded: Site, visit: OpenPage) -> None:
    before = len(guarded.get(f"/sessions/{REFUND}/events", limit=1000)["items"])
    watched = visit(guarded, view_route(REFUND, "run"))
    wait_ready(watched)
    expect(watched.page.locator("main")).to_contain_text("unknown")
    watched.page.get_by_role("button", name="Recover").first.click()
    dialog = watched.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Recover").click()
    expect(watched.page.get_by_role("heading", name="What was in progress")).to_be_visible()
    events = guarded.get(f"/sessions/{REFUND}/events", limit=1000)["items"]
    assert len(events) == before + 1
    assert events[-1]["type"] == "actor.resumed"
