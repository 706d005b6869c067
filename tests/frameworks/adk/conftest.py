"""The services of these tests."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.adk import SessionService


@pytest.fixture
def service(engine: holdfast.Engine) -> SessionService:
    return SessionService(engine)


@pytest.fixture
def file_service(file_engine: holdfast.Engine) -> SessionService:
    return SessionService(file_engine)
