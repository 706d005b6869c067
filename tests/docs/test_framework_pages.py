"""The pages about frameworks: each runs in an environment that `make frameworks` makes, and the figures come from the
command."""

from __future__ import annotations

import re

from benchmarks import adapters
from benchmarks.adapters.workload import GrowthFigures, RunFigures, Survivors

from tests.docs.pages import BLOCK, ROOT
from tests.frameworks.environment import list_pages

FOLDER = ROOT / "docs" / "frameworks"
ENVIRONMENTS = {path.parent.name for path in (ROOT / "tests" / "frameworks").glob("*/__init__.py")}


def test_every_environment_is_made_from_a_lock_and_tested() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = re.search(r"^FRAMEWORKS := (.*)$", makefile, re.MULTILINE)
    assert named is not None
    assert {*named[1].split()} == ENVIRONMENTS
    assert {path.stem for path in (ROOT / "requirements" / "frameworks").glob("*.lock")} == ENVIRONMENTS


def test_every_page_with_examples_runs_in_one_environment() -> None:
    run = [page for name in ENVIRONMENTS for page in list_pages(name)]
    assert sorted(run) == sorted(page.name for page in FOLDER.glob("*.md") if BLOCK.search(page.read_text("utf-8")))


def test_the_page_of_figures_is_what_the_command_writes() -> None:
    side = adapters.SideFindings(RunFigures(1, 1, 1, 1, 1, 1), 1, (Survivors(question=True, call=True, unknown=True),))
    compared = [adapters.Comparison(contender, side, side) for contender in adapters.CONTENDERS]
    sides = {"own": 1, "ours": 1}
    figures = GrowthFigures(wall_s={**sides}, cpu_s={**sides}, size=sides)
    written = adapters.write_page(compared, dict.fromkeys(adapters.GROWTH, figures), adapters.TURNS, adapters.KILLS)
    assert _without_figures((FOLDER / "figures.md").read_text("utf-8")) == _without_figures(written)


def _without_figures(page: str) -> str:
    return re.sub(r"\d[\d,.]*\d|\d", "0", page)
