"""A server of models for each test."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from holdfast.models import embedders, model
from tests.models.servers import ModelServer, serve_models
from tests.support import PATIENCE_S


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    for module in (model, embedders):
        monkeypatch.setattr(module, "RETRY_PAUSES_S", (0.01, 0.02))
    with serve_models() as served:
        yield served


@pytest.fixture
def quick() -> Iterator[None]:
    """The test comes to its end, whatever the server does."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < PATIENCE_S / 2
