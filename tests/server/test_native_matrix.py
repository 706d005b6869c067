"""Every operation of the native API, from the side of those who may not use what it is about."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast.access import keys
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.server import access_matrix
from tests.server.access_matrix import ApiRequest, Side, ask_as_owner, find_faults, prepare_store
from tests.server.native_content import fill
from tests.server.running import running
from tests.support import SOAK

PUBLIC = ("/openapi.json",)
"""Paths that need no key."""
MOST_MISSING = 25
"""The most requests that read and find nothing even as the owner: they need what no document says."""


CURSORS = re.compile(r'\bid: \d+\b|"cursor":"\d+"')
"""The cursors of the feed of a tenant. They are positions in the log of all tenants, so they tell how much is stored."""


def creates_session(request: ApiRequest) -> bool:
    return request.method in ("post", "put") and re.fullmatch(r"/api/sessions(/[^/]+)?", request.path) is not None


def test_no_operation_tells_anybody_what_is_not_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "REFUSAL_PAUSE_S", 0.0)
    monkeypatch.setattr(access_matrix, "VOLATILE", (*access_matrix.VOLATILE, (CURSORS, "<cursor>")))
    samples: dict[str, Any] = {}

    async def fill_for_owner(engine: holdfast.AsyncEngine) -> None:
        samples.update(await fill(engine))

    with contextlib.ExitStack() as stack:
        sides = []
        for name, filled in (("full", fill_for_owner), ("empty", None)):
            store = str(tmp_path / f"{name}.db")
            callers = prepare_store(store, filled)
            url = stack.enter_context(running(build_app(ServerSettings(store=store, background=False))))
            sides.append(Side(url, store, callers))
        full, empty = sides
        document = httpx2.get(f"{full.url}/api/openapi.json", headers=full.keys["owner"]).json()
        assert len(document["paths"]) > 100
        document["paths"] = {path: item for path, item in document["paths"].items() if path not in PUBLIC}
        faults = find_faults(document, full, empty, samples, is_late=creates_session, is_thorough=SOAK)
        assert faults == []
        statuses = ask_as_owner(document, full, samples)
        missing = {request: status for request, status in statuses.items() if status != 200}
        assert len(missing) <= MOST_MISSING, missing
