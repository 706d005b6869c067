"""The page follows a session while another process writes to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

import holdfast
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.serving import Site, serve_store
from tests.inspector.views import go_to, view_route, wait_ready

EMPTY = "trip-new"
WRITER = """
import sys, holdfast
with holdfast.open(sys.argv[1]) as engine:
    session = engine.session(sys.argv[2])
    session.record("user", sys.argv[3])
    session.record("assistant", sys.argv[4], tool_calls=[{"name": "look_up", "args": {"part": "lamp"}}])
    session.start_call(session.open_calls()[0].id)
"""


def write(site: Site, question: str, answer: str) -> None:
    """Another process records two messages, and starts a tool."""
    command = [sys.executable, "-c", WRITER, str(site.store), EMPTY, question, answer]
    subprocess.run(command, check=True, timeout=120)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A store of its own: what is written to it would be in the way of other tests."""
    with holdfast.open(tmp_path / "agent.db") as engine:
        engine.create_session(EMPTY)
    with serve_store(tmp_path / "agent.db") as served:
        yield served


def test_messages_of_another_process_appear_by_themselves(site: Site, visit: OpenPage) -> None:
    messages = visit(site, view_route(EMPTY, "messages"))
    run = visit(site, view_route(EMPTY, "run"))
    for watched in (messages, run):
        wait_ready(watched)
        expect(watched.page.get_by_text("Live", exact=True)).to_be_visible()
    write(site, "Is the lamp in stock?", "I look.")
    expect(messages.page.get_by_text("Is the lamp in stock?").first).to_be_visible()
    expect(messages.page.get_by_text("I look.").first).to_be_visible()
    expect(run.page.get_by_text("look_up").first).to_be_visible()
    go_to(messages, view_route(EMPTY, "call"))
    expect(messages.page.get_by_text("I look.").first).to_be_visible()
