"""The application as a whole."""

from __future__ import annotations

from pathlib import Path

import httpx2

from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.server.running import running


def test_a_server_says_that_it_is_alive(tmp_path: Path) -> None:
    with running(build_app(ServerSettings(store=str(tmp_path / "agent.db")))) as url:
        assert httpx2.get(f"{url}/healthz").json() == {"status": "ok"}
