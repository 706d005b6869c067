"""Rates, spending and the audit: what is counted, once, and across processes."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import holdfast
from holdfast.access import audit, rates
from holdfast.access.access import SYSTEM_TENANT, Access
from holdfast.access.audit import Audit, append_audit, list_audit
from holdfast.access.keys import create_key, revoke_key, rotate_key
from holdfast.access.rates import RateLimiter, TokenBucket, rate_exceeded, rate_headers
from holdfast.access.records import KeyGrant
from holdfast.access.spend import HOUR_US, KeySpending
from holdfast.errors import InvalidInput, SpendExceeded
from tests.access.test_keys import opened, store_address
from tests.edges.engines import ManualClock

KEY = Access(key_id="k1", requests_per_minute=3, tokens_per_hour=100)


# Rates


def test_a_key_may_send_its_requests_at_once_and_then_one_by_one() -> None:
    limiter = RateLimiter()
    states = [limiter.take(KEY, 100.0) for _ in range(4)]
    assert [state and (state.is_allowed, state.remaining) for state in states] == [
        (True, 2),
        (True, 1),
        (True, 0),
        (False, 0),
    ]
    refused = states[-1]
    assert refused is not None
    assert rate_headers(refused) == {"ratelimit-limit": "3", "ratelimit-remaining": "0", "ratelimit-reset": "20"}
    assert rate_exceeded(refused).retry_s == 20
    after = limiter.take(KEY, 120.0)
    assert after is not None
    assert after.is_allowed
    other = limiter.take(Access(key_id="k2", requests_per_minute=3), 120.0)
    assert other is not None
    assert other.remaining == 2
    assert limiter.take(Access(key_id="k3"), 0.0) is None


@given(st.integers(1, 600), st.lists(st.floats(0, 30), max_size=200))
@example(1, [13.1, 5.0])  # the fractions add up to a little less than one
def test_no_minute_has_more_than_twice_the_limit_and_a_wait_of_the_time_named_helps(
    limit: int, steps: list[float]
) -> None:
    now, bucket, allowed = 0.0, TokenBucket(limit, 0.0), []
    for step in steps:
        now += step
        state = bucket.take(now)
        assert 0 <= state.remaining <= limit
        if state.is_allowed:
            allowed.append(now)
        else:
            now += state.reset_s
            assert bucket.take(now).is_allowed
            allowed.append(now)
    for start in allowed:
        assert sum(start <= each < start + 60 for each in allowed) <= 2 * limit + 1


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(1, 100.0)
    assert bucket.take(100.0).is_allowed
    assert not bucket.take(0.0).is_allowed


def test_a_process_remembers_a_bounded_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MOST_BUCKETS", 2)
    limiter = RateLimiter()
    for number in range(5):
        limiter.take(Access(key_id=f"k{number}", requests_per_minute=1), 0.0)
    assert len(limiter._buckets) == 2


# KeySpending


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_one_process_adds_another_one_counts_once(kind: str, tmp_path: Path) -> None:
    clock = ManualClock(HOUR_US // 1_000_000 * 500_000)

    async def run(address: str) -> None:
        async with opened(address, clock) as here, opened(address, clock) as there:
            one, other = KeySpending(here, clock=clock.now_us), KeySpending(there, clock=clock.now_us)
            await other.check(KEY)
            assert await other.total(KEY) == 0
            await one.add(KEY, 60, key="call-1")
            await other.add(KEY, 60, key="call-1")
            await other.add(KEY, 61, key="call-1")
            assert await other.total(KEY) == await one.total(KEY) == 60
            await other.check(KEY)
            await asyncio.gather(*(each.add(KEY, 10, key=f"more-{n}") for n in range(2) for each in (one, other)))
            await one.add(KEY, 20, key="call-2")
            assert await other.total(KEY) == await one.total(KEY) == 100
            clock.now_s += 600
            with pytest.raises(SpendExceeded) as refused:
                await other.check(KEY)
            assert (refused.value.limit, refused.value.spent, refused.value.retry_s) == (100, 100, 3_000)
            await other.check(Access(key_id="k1"))
            await other.check(Access(key_id="k2", tokens_per_hour=1))
            clock.now_s += 3_000
            await other.check(KEY)
            await other.add(KEY, 5, key="call-1")
            assert await other.total(KEY) == 0, "the call was counted in the hour before"
            assert await KeySpending(here, clock=clock.now_us).total(KEY) == 0

    with store_address(kind, tmp_path) as address:
        asyncio.run(run(address))


def test_the_sum_is_that_of_the_entries_however_they_are_looked_at() -> None:
    async def run() -> None:
        clock = ManualClock()
        async with opened("memory:", clock) as engine:
            looking = KeySpending(engine, clock=clock.now_us)
            expected = 0
            for number in range(250):
                await looking.add(KEY, number, key=f"call-{number}")
                expected += number
                if number % 7 == 0:
                    assert await looking.total(KEY) == expected
            assert await looking.total(KEY) == await KeySpending(engine, clock=clock.now_us).total(KEY) == expected
            with pytest.raises(InvalidInput):
                await looking.add(KEY, -1, key="x")
            with pytest.raises(InvalidInput):
                await looking.add(KEY, 1, key="")
            await looking.add(KEY, 1, key="k" * 2_000)
            await looking.add(Access(), 1_000, key="nobody")
            names = [row.session for row in await engine.acting_as(tenant=SYSTEM_TENANT).sessions(actor="spending")]
            assert names == ["k1"]

    asyncio.run(run())


# Audit


def test_the_audit_shows_what_happened_to_keys_and_no_secret() -> None:
    async def run() -> None:
        clock = ManualClock()
        async with opened("memory:", clock) as engine:
            record, first = await create_key(engine, KeyGrant(name="bot", tenant="acme"), by="root", clock=clock.now_us)
            clock.now_s += 1
            _, second = await rotate_key(engine, record.id, by="eve", clock=clock.now_us)
            clock.now_s += 1
            await append_audit(engine, audit.ADMIN, by="bot", key=record.id, operation="collect")
            clock.now_s += 1
            await revoke_key(engine, record.id, by="root", reason="lost")
            shown = await list_audit(engine)
            assert [(each.action, each.by, each.details) for each in shown] == [
                ("key.revoked", "root", {"key": record.id, "reason": "lost"}),
                ("admin", "bot", {"key": record.id, "operation": "collect"}),
                ("key.rotated", "eve", {"key": record.id}),
                ("key.created", "root", {"key": record.id, "name": "bot", "tenant": "acme"}),
            ]
            assert await list_audit(engine, action="key.rotated") == [shown[2]]
            assert await list_audit(engine, limit=2) == shown[:2]
            for secret in (first[16:], second[16:], record.digests[0].digest):
                assert secret not in repr(shown)

    asyncio.run(run())


def test_a_flood_of_refused_requests_fills_neither_store_nor_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with await holdfast.open_async("memory:") as engine:
            watched = Audit(engine)
            for number in range(500):
                await watched.refuse(path=f"/api/{'x' * 10_000}", client="10.0.0.1", key_id=f"{number:012x}")
            shown = await list_audit(engine, limit=0)
            assert len(shown) == audit.REFUSALS_PER_MINUTE
            assert all(len(each.details["path"]) <= audit.TEXT_CHARS for each in shown)
            later: Any = TokenBucket(1, 0.0)
            monkeypatch.setattr(watched, "_bucket", later)
            await watched.refuse(path="/api", client="10.0.0.1", key_id="")
            [newest] = await list_audit(engine, limit=1)
            assert newest.details["suppressed"] == 500 - audit.REFUSALS_PER_MINUTE

    with caplog.at_level(logging.INFO, "holdfast.access"):
        asyncio.run(run())
    assert len(caplog.records) == audit.REFUSALS_PER_MINUTE + 1


def test_hostile_text_in_the_audit_is_plain() -> None:
    async def run() -> None:
        async with await holdfast.open_async("memory:") as engine:
            await Audit(engine).refuse(path="/\ud800\x1b[31m", client="\ud800", key_id="")
            [entry] = await list_audit(engine)
            assert entry.details["path"].encode()

    asyncio.run(run())


def test_admin_operations_name_who_did_them() -> None:
    async def run() -> None:
        async with await holdfast.open_async("memory:") as engine:
            await Audit(engine).maintain(by="ops", key_id="k1", operation="collect")
            [entry] = await list_audit(engine, action="admin")
            assert (entry.by, entry.details) == ("ops", {"key": "k1", "operation": "collect"})

    asyncio.run(run())
