"""Runs the examples of a page of the documentation."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n+^```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def run_page(page: Path) -> None:
    """Run the examples of a page in order. A block of text right after an example is what it prints."""
    names: dict[str, object] = {"__name__": "example"}
    for code, expected in BLOCK.findall(page.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec", dont_inherit=True), names)
        if expected:
            assert printed.getvalue() == expected
