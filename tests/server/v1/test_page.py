"""The page for users of the official client: its examples run against a server, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from tests.server.v1.conftest import Desk

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "openai-client.md"
BLOCK = re.compile(r"^```py\n(.*?)^```(?:\n+^```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_run(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", desk.url)
    monkeypatch.setenv("OPENAI_API_KEY", desk.client.api_key)
    names: dict[str, object] = {"__name__": "example"}
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 5
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec", dont_inherit=True), names)
        assert printed.getvalue() == expected
    names["client"].close()  # type: ignore[attr-defined]
    assert desk.model.refused == []
