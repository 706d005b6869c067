"""The examples of the pages about a framework run, with the framework."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, run_page
from tests.frameworks.environment import EXAMPLES

FOLDER = ROOT / "docs" / "frameworks"


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_examples_of_a_page_run_and_print_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(FOLDER / page)
