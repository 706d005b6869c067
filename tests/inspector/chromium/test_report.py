"""The report on a log in the page: what it claims about money, caches and times is what the log can show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from holdfast.inspector import collection
from tests.inspector.browser import NARROW, Watched
from tests.inspector.chromium.conftest import OpenPage
from tests.inspector.chromium.test_axe import check_looks
from tests.inspector.chromium.test_export import export
from tests.inspector.conftest import build_once
from tests.inspector.logs import ClaudeLines, write_lines
from tests.inspector.views import go_to, wait_ready

TURNS = 190


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a log of many calls, whose cache broke once."""
    lines = ClaudeLines()
    for number in range(TURNS):
        lines.say(f"Question {number}?")
        lines.text(f"Answer {number}.", read=0 if number == TURNS - 1 else None)

    def build(target: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(collection, "CALLS", 2)  # these tests look at the report, and at no pack
            export(write_lines(target.with_suffix(".jsonl"), lines.lines), target)

    return build_once(tmp_path_factory, "long.html", build).as_uri()


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Messages without usage, times and a model, in which an address is corrected."""
    path = tmp_path_factory.mktemp("chat") / "chat.json"
    texts = (
        "Hi.\nMy address is 123 Main St. Ship it there.",
        "Hello",
        "Actually my address is 456 Oak Ave now.",
        "Changed",
    )
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate((*texts, "Thanks", "Bye"))]
    path.write_text(json.dumps({"messages": messages}))
    return path


def figure(watched: Watched, label: str) -> str:
    cell = watched.page.locator(".figure-cell").filter(has=watched.page.get_by_text(label, exact=True))
    return " ".join(cell.first.inner_text().split())


def test_the_chart_of_many_calls_stays_on_a_narrow_screen(long_log: str, visit: OpenPage) -> None:
    file = visit(long_log, "", size=NARROW)
    wait_ready(file)
    expect(file.page.locator(".report-column")).to_have_count(TURNS)
    beyond = file.page.evaluate(
        """() => {
             const chart = document.querySelector(".report-columns").getBoundingClientRect();
             return [...document.querySelectorAll(".report-column")]
               .filter((each) => each.getBoundingClientRect().right > chart.right + 1).length;
           }"""
    )
    assert beyond == 0


def test_axe_finds_nothing_in_a_report(long_log: str, visit: OpenPage) -> None:
    file = visit(long_log, "")
    wait_ready(file)
    file.page.locator("main details:not([open]) > summary").first.click()
    check_looks(file, "a report")


def test_holdfast_is_compared_with_the_log_in_the_same_cache(long_log: str, visit: OpenPage) -> None:
    file = visit(long_log, "")
    wait_ready(file)
    ours = figure(file, "With Holdfast")
    assert "in the same ideal cache" in ours
    is_dearer = "more than" in ours
    assert is_dearer or "less than" in ours, ours
    cell = file.page.locator(".figure-cell").filter(has_text="With Holdfast")
    assert ("tone-cached" in str(cell.get_attribute("class"))) != is_dearer, "a higher cost is not green"


def test_a_log_without_usage_prices_and_times_claims_none(chat: Path, visit: OpenPage) -> None:
    file = visit(export(chat, chat.with_name("chat.html")), "")
    wait_ready(file)
    line = file.page.locator(".report-list li").filter(has_text="address")
    assert [each.strip(".") for each in line.locator("s").all_inner_texts()] == ["123 Main St"]
    expect(line).to_contain_text("My address is 123 Main St. Ship it there.")
    assert "estimated: the log has no usage" in figure(file, "Sent")
    assert "the log has no usage" in figure(file, "Cache breaks")
    assert "$" not in figure(file, "Sent") + figure(file, "With Holdfast")
    for view in ("", "s/chat/call", "s/chat/timeline", "s/chat/run", "s/chat/messages"):
        go_to(file, f"#/{view}")
        assert "1970" not in file.text(), view
    go_to(file, "#/s/chat/timeline")
    assert figure(file, "Read from cache") == "Read from cache – not reported"
    assert "% from cache" not in file.text()
