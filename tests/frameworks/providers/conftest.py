"""A server for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.frameworks.providers.loopback import Loopback, open_loopback


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with open_loopback() as opened:
        yield opened
