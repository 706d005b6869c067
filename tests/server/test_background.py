"""What a server does between requests: for all tenants, with any number of processes, and whatever one of them meets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import StorageUnavailable
from holdfast.server import background
from tests.edges.engines import EngineDesk

TENANTS = ["a", "a b", "a\U0010ffff", "default", "z"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    desk = EngineDesk(tmp_path)
    yield desk.address(request.param)
    desk.close()


async def fill(engine: holdfast.AsyncEngine) -> None:
    """In each tenant: a conversation that ended, and a session that is idle for too long."""
    for tenant in TENANTS:
        own = engine.acting_as(tenant=tenant)
        ended = await own.create_session("ended", user="ada")
        await ended.record("user", "My dog is called Rex.")
        await ended.end()
        for number in range(3):
            await own.create_session(f"idle {number}", idle_timeout_s=0.001)


async def wait_until(condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_all_tenants_are_served(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "EVERY_S", 0.02)
    monkeypatch.setattr(background, "SWEEP_S", 0.02)

    async def main() -> None:
        async with await holdfast.open_async(address) as engine:
            await fill(engine)
            assert sorted(await background.list_tenants(engine)) == sorted(TENANTS)

            async def is_done() -> bool:
                for tenant in TENANTS:
                    own = engine.acting_as(tenant=tenant)
                    if await own.sessions(status="open") or await own.admin.outbox():
                        return False
                return True

            async with background.run_background(engine), background.run_background(engine):
                await wait_until(is_done)
            for tenant in TENANTS:
                found = await engine.acting_as(tenant=tenant).memory.recall("dog", user="ada")
                assert found.passages, tenant

    asyncio.run(main())


def test_a_store_that_fails_for_a_while_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "EVERY_S", 0.01)
    monkeypatch.setattr(background, "SWEEP_S", 0.01)
    calls = 0

    async def list_tenants(engine: holdfast.AsyncEngine) -> list[str]:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise StorageUnavailable(what="a secret", reason="a secret")
        return TENANTS

    monkeypatch.setattr(background, "list_tenants", list_tenants)

    async def main() -> None:
        async with await holdfast.open_async("memory:") as engine:
            await fill(engine)

            async def is_done() -> bool:
                return not await engine.acting_as(tenant="z").sessions(status="open")

            async with background.run_background(engine):
                await wait_until(is_done)

    asyncio.run(main())
    assert "StorageUnavailable" in caplog.text
    assert "a secret" not in caplog.text
