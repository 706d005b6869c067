"""Every Python example in the documentation runs, in order, one page after the other in its own folder."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import reference

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n+^```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if BLOCK.search(page.read_text())
]


def test_there_are_examples() -> None:
    assert len(PAGES) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_and_print_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block of text right after an example is what it prints."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for code, expected in BLOCK.findall(page.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec", dont_inherit=True), names)
        if expected:
            assert printed.getvalue() == expected


def test_every_page_is_found_from_the_readme() -> None:
    """By links alone, so that nothing is written that nobody comes across."""
    found: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page.suffix == ".md" and page not in found:
            found.add(page)
            ahead += [(page.parent / target).resolve() for target in LINK.findall(page.read_text())]
    assert {*(ROOT / "docs").rglob("*.md")} <= found


def test_the_decisions_are_listed_one_after_the_other() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"^(\d+)\. \[.*\]\((.*)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in listed] == [*range(1, len(listed) + 1)]
    assert [name for _, name in listed] == sorted(path.name for path in folder.glob("0*.md"))
    assert all(name.startswith(f"{int(number):04}-") for number, name in listed)


def test_the_demo_plays_to_its_end() -> None:
    """It kills a real process and asserts on the way that nothing was lost or doubled, and that what holds, holds."""
    played = subprocess.run(
        [sys.executable, str(ROOT / "examples/demo.py")], capture_output=True, text=True, timeout=120, check=False
    )
    assert played.returncode == 0, played.stderr
    told = played.stdout
    assert "kill -9" in told
    assert re.search(r" 0 lost; (\d+) of \1 results, 0 doubled", told)
    assert "the bank has 1 payment" in told
    assert "applied: shipping_address = 456 Oak Ave" in told
    assert "claimed: refund_limit = 500 euros" in told
    assert "To do, since the window forces it" in told
    (pack, dead), (transcript, told_dead) = re.findall(
        r"(?:this pack|transcript) +([\d,]+) tokens.*\n.* dead one (\d+) times", told
    )
    assert int(dead) == 0 < int(told_dead)
    assert int(pack.replace(",", "")) < int(transcript.replace(",", "")) / 5
    assert re.search(r"k2  shipping_address = 456 Oak Ave  current .*\nin p\d+ ", told)
    assert "the payload does not match its digest" in told


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_reference_says_what_the_code_says(page: str) -> None:
    assert (reference.FOLDER / page).read_text() == reference.PAGES[page](), "run `make reference`"
