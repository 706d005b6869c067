"""Every Python example in the documentation runs, in order, one page after the other in its own folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.system import SystemClock
from tests.client.serving import engine_server
from tests.docs import reference
from tests.docs.pages import BLOCK, ROOT, run_page
from tests.protocols import Reply, Talk
from tests.provider import Provider, serve_provider

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
TREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCUMENTS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts]
FRAMEWORKS = ROOT / "docs" / "frameworks"
"""Pages that run in the environment of their framework: tests/frameworks/test_pages.py."""
PAGES = [
    page for page in [ROOT / "README.md", *DOCUMENTS] if page.parent != FRAMEWORKS and BLOCK.search(page.read_text())
]


CALLS = {"order_status": {"order": "4711"}}
"""What the model of the examples calls each tool with."""


ANSWERS: dict[str, Any] = {
    "You shorten conversations": "Ada looks for a quiet hotel in Lyon, and asked twelve questions about it.",
    "You compare one message": {
        "changes": [
            {"change": "supersede", "fact": "f1", "key": "", "quote": "12 Rue Cler, Paris", "confidence": 0.97},
        ]
    },
    "You keep the summary of a situation": {"goal": "Book a quiet hotel in Lyon."},
    "Which city is the customer in?": {"city": "Paris"},
}
"""What the model of the examples answers to prompts, by their beginning."""


def answer_prompt(talk: Talk) -> Reply | None:
    for beginning, answer in ANSWERS.items():
        if talk.system.startswith(beginning) or talk.turns[0].text.startswith(beginning):
            if "answer" in talk.tools:
                return Reply("", (("answer", answer),))
            return Reply(answer if isinstance(answer, str) else json.dumps(answer))
    return None


def reply_to(talk: Talk) -> Reply:
    """A model that calls the first tool that it knows, once for each message of the user, and repeats the result."""
    if (answered := answer_prompt(talk)) is not None:
        return answered
    if talk.turns[-1].results:
        return Reply(talk.turns[-1].results[0][1])
    calls = [(name, CALLS[name]) for name in talk.tools if name in CALLS]
    return Reply("", tuple(calls[:1])) if calls else Reply("Hello.")


@pytest.fixture
def _one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """What packs say of the time changes with the minute: here one begins with the page."""
    late_ns = time.time_ns() % 60_000_000_000
    monkeypatch.setattr(SystemClock, "now_us", lambda self: (time.time_ns() - late_ns) // 1_000)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A server at the addresses that the official clients of OpenAI and Anthropic read from the environment."""
    provider = Provider(reply_to)
    provider.keep_alive = False
    with serve_provider(provider) as address:
        for name, value in {"OPENAI": f"{address}/v1", "ANTHROPIC": address}.items():
            monkeypatch.setenv(f"{name}_BASE_URL", value)
            monkeypatch.setenv(f"{name}_API_KEY", "none")
        yield provider


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server at the address in the environment, for examples that connect to one."""
    address, served = engine_server().open("memory:")
    monkeypatch.setenv("SERVER", address)
    monkeypatch.delenv("HOLDFAST_KEY", raising=False)
    yield
    engine_server().close(address, served)


def test_there_are_examples() -> None:
    assert len(PAGES) >= 3


@pytest.mark.usefixtures("_one_minute", "server")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_and_print_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: Provider
) -> None:
    """A block of text right after an example is what it prints. No request of an example is refused."""
    monkeypatch.chdir(tmp_path)
    run_page(page)
    assert provider.refused == []


def test_every_page_is_found_from_the_readme() -> None:
    """By links and tables of contents alone, so that no page is written that nobody comes across."""
    found: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page.suffix == ".md" and page not in found:
            found.add(page)
            ahead += [(page.parent / target).resolve() for target in LINK.findall(page.read_text())]
            entries = [line for tree in TREE.findall(page.read_text()) for line in tree.splitlines()]
            ahead += [path for entry in entries if entry[:1].isalnum() for path in page.parent.glob(f"{entry}.md")]
    assert {*DOCUMENTS} <= found


def test_the_decisions_are_listed_one_after_the_other() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"^(\d+)\. \[.*\]\((.*)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in listed] == [*range(1, len(listed) + 1)]
    assert [name for _, name in listed] == sorted(path.name for path in folder.glob("0*.md"))
    assert all(name.startswith(f"{int(number):04}-") for number, name in listed)


def test_the_demo_runs_to_its_end() -> None:
    """It kills a real process, and asserts that no message is lost and that only current values are in the packs."""
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples/demo.py")], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    output = run.stdout
    assert "kill -9" in output
    assert re.search(r" 0 lost; (\d+) of \1 results, 0 duplicates", output)
    assert "the bank has 1 payment" in output
    assert "applied: shipping_address = 456 Oak Ave" in output
    assert "claimed: refund_limit = 500 euros" in output
    assert "Plan, because the window forces it" in output
    (pack, pack_outdated), (transcript, transcript_outdated) = re.findall(
        r"(?:this pack|transcript) +([\d,]+) tokens.*\n.* outdated address (\d+) times", output
    )
    assert int(pack_outdated) == 0 < int(transcript_outdated)
    assert int(pack.replace(",", "")) < int(transcript.replace(",", "")) / 5
    assert re.search(r"k2  shipping_address = 456 Oak Ave  current .*\nincluded in p\d+ ", output)
    assert "> Ada: Hello, I am Ada. Please ship my lamp to [outdated: shipping_address]." in output
    assert "the agent answers: The shade of your lamp. The new one goes to 456 Oak Ave." in output
    assert "the payload does not match its digest" in output


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_reference_says_what_the_code_says(page: str) -> None:
    assert (reference.FOLDER / page).read_text() == reference.PAGES[page](), "run `make reference`"
