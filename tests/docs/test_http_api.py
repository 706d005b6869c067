"""The commands of the page about the HTTP API, against a server: they print what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.docs.pages import ROOT
from tests.server.native.serving import serving

PAGE = ROOT / "docs" / "howto" / "http-api.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```(?:\n+^```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
PATIENCE_S = 120
MARK = "--- next ---"


def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    assert shutil.which("curl"), "the page uses curl"
    assert shutil.which("jq"), "the page uses jq"
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 10
    script = f"\necho '{MARK}'\n".join(commands for commands, _ in blocks)
    with serving(tmp_path) as api:
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            check=False,
            cwd=tmp_path,
            env={**os.environ, "SERVER": api.url, "KEY": api.key},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    printed = [part.strip() for part in ran.stdout.split(MARK)]
    assert printed == [expected.strip() for _, expected in blocks], ran.stderr
