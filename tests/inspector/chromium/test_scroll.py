"""Long conversations: the first view costs no more than a screenful, and any place is one step away."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.inspector.browser import Watched
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.conftest import copy_store
from tests.inspector.serving import Site, serve_store
from tests.inspector.views import go_to, view_route, wait_ready

NODES = 6_000
"""The most elements that a view of a long conversation may have in the document."""
ROUNDS = 3
SLOWER = 4.0
"""How many times as long as that of an empty session the first view of 10,000 messages may take. A page of messages is
read and drawn, whatever their number: on a machine on its own, that is less than twice."""
FIRST_MS, EMPTY_MS = 1_000, 400
"""The most that the first view of 10,000 messages may take, on a machine that shows an empty session in EMPTY_MS."""
FRAME_MS = 100
"""The median frame while somebody scrolls: a bound on a busy machine. On one on its own, it is a sixtieth of a second."""


class Cost(NamedTuple):
    """What the first view of a session took."""

    nodes: int
    requests: int
    bytes: int
    milliseconds: float


@pytest.fixture(scope="module")
def large_site(large: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serve_store(copy_store(large, tmp_path_factory.mktemp("large") / "desk.db")) as served:
        yield served


def count_nodes(watched: Watched) -> int:
    return int(watched.page.evaluate("() => document.querySelectorAll('*').length"))


def measure(site: Site, visit: OpenPage, session: str) -> Cost:
    """Open the messages of a session in a new page."""
    watched = visit(site, view_route(session, "messages"))
    wait_ready(watched)
    shown_ms = float(watched.page.evaluate("() => performance.now()"))
    answers = [each for each in watched.answers if "/api/" in each.url and "/feed" not in each.url]
    size = sum(len(each.body()) for each in answers)
    return Cost(count_nodes(watched), len(answers), size, shown_ms)


def test_the_first_view_of_a_long_session_costs_a_screenful(
    large_site: Site, visit: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(large_site, visit, "large-10000")  # the first page of a browser compiles the script
    empty, long = [], []
    for _ in range(ROUNDS):  # in turns, so that a machine that gets busy is busy for both
        empty.append(measure(large_site, visit, "large-0"))
        long.append(measure(large_site, visit, "large-10000"))
    longest = measure(large_site, visit, "large-100000")
    times = [min(cost.milliseconds for cost in costs) for costs in (empty, long)]
    with capsys.disabled():
        print(
            f"\nfirst view: empty {times[0]:.0f} ms, 10,000 messages {times[1]:.0f} ms: {times[1] / times[0]:.2f} times"
        )
    assert times[1] <= SLOWER * times[0], times
    assert times[1] <= FIRST_MS * max(1.0, times[0] / EMPTY_MS), times
    worst = max(long)
    assert worst.nodes < NODES
    assert worst.requests <= max(empty).requests + 6
    assert worst.bytes < 1_000_000
    assert longest.nodes < NODES
    assert longest.bytes < 2 * worst.bytes, "ten times as many messages are no more to load"


IN_VIEW = """(region) => {
  const frame = region.getBoundingClientRect();
  const isShown = (box) => box.bottom > frame.top && box.top < frame.bottom;
  const shown = [...region.querySelectorAll("article")].find((each) => isShown(each.getBoundingClientRect()));
  return shown ? shown.innerText : "";
}"""


def read_first(watched: Watched) -> str:
    """The first message that is in view, when one is."""
    region = watched.page.locator("main .virtual").first.element_handle()
    watched.page.wait_for_function(IN_VIEW, arg=region)
    return str(watched.page.evaluate(IN_VIEW, region))


@pytest.mark.parametrize("size", [10_000, 100_000])
def test_any_place_of_a_long_session_is_one_step_away(large_site: Site, visit: OpenPage, size: int) -> None:
    session = f"large-{size}"
    newest = large_site.get(f"/sessions/{session}/messages", limit=1)["items"][-1]
    offset = newest["seq"] - (size - 1)
    watched = visit(large_site, view_route(session, "messages"))
    wait_ready(watched)
    for number in (0, size // 2, size - 1, 1, size // 3):
        word = f"{'Answer' if number % 2 else 'Question'} {number}:"
        go_to(watched, f"{view_route(session, 'messages')}/{number + offset}")
        row = watched.page.get_by_role("article", name=f"message {number + offset}", exact=False).first
        row.wait_for()
        assert word in row.inner_text()
        box = row.bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 900, "the message is in view"
        assert count_nodes(watched) < NODES


def test_scrolling_through_keeps_the_document_small(large_site: Site, visit: OpenPage) -> None:
    session = "large-100000"
    watched = visit(large_site, view_route(session, "messages"))
    wait_ready(watched)
    region = watched.page.locator("main .virtual").first
    seen: set[str] = set()
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        region.evaluate("(each, part) => { each.scrollTop = each.scrollHeight * part; }", part)
        wait_ready(watched)
        seen.add(read_first(watched))
        assert count_nodes(watched) < NODES
    assert len(seen) == 5, "each place shows other messages"


SCROLL = """async (each) => {
  const frames = [];
  let before = performance.now();
  for (let step = 0; step < 60; step += 1) {
    each.scrollTop += 240;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    frames.push(now - before);
    before = now;
  }
  return frames;
}"""


def test_scrolling_a_long_session_is_smooth(
    large_site: Site, visit: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    frames: dict[int, list[float]] = {}
    for size in (10_000, 100_000):
        watched = visit(large_site, f"{view_route(f'large-{size}', 'messages')}/{size // 2}")
        wait_ready(watched)
        frames[size] = watched.page.locator("main .virtual").first.evaluate(SCROLL)
        wait_ready(watched)
        assert watched.page.locator("main article").count(), "messages are there when the scrolling ends"
    medians = {size: statistics.median(each) for size, each in frames.items()}
    with capsys.disabled():
        for size, each in frames.items():
            print(f"\nscrolling {size:,} messages: {medians[size]:.0f} ms a frame, {max(each):.0f} ms at most")
    assert medians[100_000] <= 2 * max(medians[10_000], 1_000 / 60), medians
    assert medians[100_000] <= FRAME_MS, medians
