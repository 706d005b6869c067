"""Keys: what opens, what does not any more, and that both cost the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.access import keys, records, system
from holdfast.access.access import SYSTEM_TENANT, Access
from holdfast.access.keys import KeyRing, create_key, find_key, list_keys, revoke_key, rotate_key
from holdfast.access.records import KeyGrant
from holdfast.access.system import system_session
from holdfast.errors import InvalidArgument, InvalidInput, KeyNotFound
from holdfast.model.entries.entry import Entry
from tests.edges.engines import ManualClock
from tests.postgres import empty_url

DAY_US = 86_400_000_000
ADA = holdfast.Identity(user_id="ada", permissions=("hr",))


@contextmanager
def store_address(kind: str, folder: Path) -> Iterator[str]:
    if kind == "postgres":
        with empty_url() as url:
            yield url
    else:
        yield str(folder / "agent.db")


@asynccontextmanager
async def opened(address: str, clock: ManualClock) -> AsyncIterator[holdfast.AsyncEngine]:
    async with await holdfast.open_async(address, clock=clock) as engine:
        yield engine


def run_on(
    address: str, body: Callable[[holdfast.AsyncEngine, KeyRing, ManualClock], Awaitable[None]], clock: ManualClock
) -> None:
    async def run() -> None:
        async with opened(address, clock) as engine:
            await body(engine, KeyRing(engine, clock=clock.now_us), clock)

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_key_works_in_every_process_until_it_is_revoked(kind: str, tmp_path: Path) -> None:
    clock, now = ManualClock(), [0.0]

    async def run(address: str) -> None:
        async with opened(address, clock) as here, opened(address, clock) as there:
            ring = KeyRing(there, clock=clock.now_us, timer=lambda: now[0])
            assert not await ring.has_live_keys()
            grant = KeyGrant(name="bot", tenant="acme", rights=("write", "read"), tokens_per_hour=9)
            record, key = await create_key(here, grant, by="root", clock=clock.now_us)
            expected = Access(
                tenant="acme", principal="bot", rights=frozenset(("read", "write")), key_id=record.id, tokens_per_hour=9
            )
            assert await ring.find(key) == expected, "a new key works at once"
            await revoke_key(here, record.id, by="root", reason="lost")
            assert await ring.find(key) == expected, "known for a while"
            now[0] += keys.KEY_CACHE_S + 0.001
            assert await ring.find(key) is None
            assert not await ring.has_live_keys()

    with store_address(kind, tmp_path) as address:
        asyncio.run(run(address))


def test_a_rotated_key_has_two_secrets_for_a_while() -> None:
    async def body(engine: holdfast.AsyncEngine, ring: KeyRing, clock: ManualClock) -> None:
        record, first = await create_key(engine, KeyGrant(name="bot"), by="root", clock=clock.now_us)
        assert await ring.find(first)
        _, second = await rotate_key(engine, record.id, by="root", overlap_s=60, clock=clock.now_us)
        assert await ring.find(second), "the new secret works at once"
        assert await ring.find(first)
        _, third = await rotate_key(engine, record.prefix, by="root", overlap_s=600, clock=clock.now_us)
        clock.now_s += 59
        assert [bool(await ring.find(key)) for key in (first, second, third)] == [True, True, True]
        clock.now_s += 1
        assert [bool(await ring.find(key)) for key in (first, second, third)] == [False, True, True]
        clock.now_s += 540
        assert [bool(await ring.find(key)) for key in (first, second, third)] == [False, False, True]
        await revoke_key(engine, record.id, by="root")
        assert await KeyRing(engine, clock=clock.now_us).find(third) is None
        with pytest.raises(InvalidArgument, match="revoked"):
            await rotate_key(engine, record.id, by="root", clock=clock.now_us)
        again = await revoke_key(engine, record.id, by="root", reason="again")
        assert again.revocation_reason == "", "the first revocation stands"

    run_on("memory:", body, ManualClock())


def test_an_expired_key_opens_nothing() -> None:
    async def body(engine: holdfast.AsyncEngine, ring: KeyRing, clock: ManualClock) -> None:
        grant = KeyGrant(name="bot", expires_us=clock.now_us() + 10)
        record, key = await create_key(engine, grant, by="root", clock=clock.now_us)
        assert await ring.find(key)
        clock.now_s += 0.00001
        assert await ring.find(key) is None
        assert record.status(clock.now_us()) == "expired"
        with pytest.raises(InvalidArgument, match="past"):
            await create_key(engine, grant, by="root", clock=clock.now_us)

    run_on("memory:", body, ManualClock())


def test_the_store_never_has_a_secret(tmp_path: Path) -> None:
    path, made = tmp_path / "agent.db", []

    async def body(engine: holdfast.AsyncEngine, ring: KeyRing, clock: ManualClock) -> None:
        record, first = await create_key(engine, KeyGrant(name="bot"), by="root", clock=clock.now_us)
        _, second = await rotate_key(engine, record.id, by="root", clock=clock.now_us)
        made.extend([first, second])
        assert await ring.find(first)
        for text in (repr(first), repr((record, first)), repr(await list_keys(engine))):
            assert first[16:] not in text
        with pytest.raises(KeyNotFound) as refused:
            await find_key(engine, first)
        assert first[16:] not in str(refused.value)

    run_on(str(path), body, ManualClock())
    stored = b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
    assert len(stored) > 10_000
    for key in made:
        assert key[16:].encode() not in stored
        assert records.digest_key(key).encode() in stored


def test_every_refusal_costs_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured as work, not as time: looks into the store, and digests."""
    work = {"looks": 0, "digests": 0}
    look, digest = system.find_system_session, records.digest_key

    async def counted_look(*args: Any, **options: Any) -> Any:
        work["looks"] += 1
        return await look(*args, **options)

    def counted_digest(key: str) -> str:
        work["digests"] += 1
        return digest(key)

    async def body(engine: holdfast.AsyncEngine, ring: KeyRing, clock: ManualClock) -> None:
        short = KeyGrant(name="short", expires_us=clock.now_us() + DAY_US)
        _, expired = await create_key(engine, short, by="root", clock=clock.now_us)
        _, live = await create_key(engine, KeyGrant(name="live"), by="root", clock=clock.now_us)
        record, revoked = await create_key(engine, KeyGrant(name="revoked"), by="root", clock=clock.now_us)
        await revoke_key(engine, record.id, by="root")
        clock.now_s += 2 * 86_400
        assert await ring.find(live)
        monkeypatch.setattr(keys, "find_system_session", counted_look)
        monkeypatch.setattr(records, "digest_key", counted_digest)
        costs = []
        for key in (records.make_key()[1], live[:-1] + ("A" if live[-1] != "A" else "B"), expired, revoked, "", "sk-1"):
            work.update(looks=0, digests=0)
            assert await ring.find(key) is None
            costs.append(dict(work))
        assert costs == [{"looks": 1, "digests": 2}] * len(costs)
        work.update(looks=0, digests=0)
        answers = await asyncio.gather(*(ring.find(records.make_key()[1]) for _ in range(200)))
        assert not any(answers)
        assert work["looks"] <= 2, "a flood shares its looks"

    run_on("memory:", body, ManualClock())


@given(st.text(st.characters(), max_size=80))
def test_no_text_but_a_key_opens_anything(text: str) -> None:
    grant = KeyGrant(name="bot").check()
    key_id, key = records.make_key()
    record = records.KeyRecord(
        id=key_id, grant=grant, digests=(records.KeyDigest(records.digest_key(key)),), created_us=0
    )
    assert records.is_opened_by(record, key, 1)
    for wrong in (text, key + text if text else "", key[: len(text)], f"hf_{key_id}_{text}"):
        assert not records.is_opened_by(record, wrong, 1)
    assert not records.is_opened_by(None, key, 1)


CHANGES = st.lists(
    st.tuples(st.sampled_from(["rotate", "revoke", "other", "broken"]), st.integers(1, 50), st.integers(0, 100)),
    max_size=8,
)


@given(CHANGES, st.integers(0, 600))
def test_entries_add_up_to_what_opens(changes: list[tuple[str, int, int]], later_us: int) -> None:
    """A secret opens until its overlap with the next one ends, and never after a revocation."""
    stored = {"grant": {"name": "bot"}, "digest": "d0", "by": "root"}
    entries = [entry_of(records.KEY_CREATED, "k", stored, None, at_us=0, seq=1)]
    now_us, is_revoked, until = 0, False, {"d0": float("inf")}
    for number, (kind, step_us, overlap_us) in enumerate(changes, 1):
        now_us += step_us
        seq = len(entries) + 1
        if kind == "rotate":
            until = {digest: min(end, now_us + overlap_us) for digest, end in until.items()} | {
                f"d{number}": float("inf")
            }
            body: Any = {"digest": f"d{number}", "overlap_us": overlap_us, "by": "root"}
            entries.append(entry_of(records.KEY_ROTATED, f"k.{number}", body, "k", at_us=now_us, seq=seq))
        elif kind == "revoke":
            is_revoked = True
            entries.append(entry_of(records.KEY_REVOKED, f"k.{number}", {"by": "root"}, "k", at_us=now_us, seq=seq))
        elif kind == "other":
            entries.append(entry_of(records.KEY_REVOKED, f"x.{number}", {"by": "root"}, "x", at_us=now_us, seq=seq))
        else:
            entries.append(entry_of(records.KEY_ROTATED, f"k.{number}", ["?"], "k", at_us=now_us, seq=seq))
    found: dict[str, records.KeyRecord] = {}
    records.fold_entries(found, entries)
    [record] = found.values()
    at_us = now_us + later_us
    opened_by = {each.digest for each in record.digests if each.until_us is None or at_us < each.until_us}
    assert opened_by == {digest for digest, end in until.items() if at_us < end}
    assert record.status(at_us) == ("revoked" if is_revoked else "live")


def entry_of(kind: str, key: str, body: Any, parent: str | None, *, at_us: int, seq: int) -> Entry:
    return Entry(kind=kind, key=key, parent=parent, seq=seq, at_us=at_us, size=1, body=body)


def test_entries_that_nobody_knows_lock_nobody_out() -> None:
    async def body(engine: holdfast.AsyncEngine, ring: KeyRing, clock: ManualClock) -> None:
        _, key = await create_key(engine, KeyGrant(name="bot"), by="root", clock=clock.now_us)
        session = await system_session(engine, records.SESSION, actor=records.ACTOR)
        bodies: list[Any] = [[], None, {"grant": {"name": 5}}, b"x", {"grant": {}, "digest": 1}]
        for number, odd in enumerate(bodies):
            await session.entries.append(records.KEY_CREATED, f"odd-{number}", odd)
        assert await ring.find(key)
        assert [record.grant.name for record in await list_keys(engine)] == ["bot"]

    run_on("memory:", body, ManualClock())


def test_keys_that_are_gone_open_nothing() -> None:
    async def body(engine: holdfast.AsyncEngine, ring: KeyRing, clock: ManualClock) -> None:
        _, key = await create_key(engine, KeyGrant(name="bot"), by="root", clock=clock.now_us)
        assert await ring.find(key)
        session = await system_session(engine, records.SESSION, actor=records.ACTOR)
        await session.destroy("all keys are lost")
        assert await ring.find("") is None
        assert await ring.find(key) is None

    run_on("memory:", body, ManualClock())


def test_all_keys_of_a_user_act_alike_and_a_namespace_has_one_user(tmp_path: Path) -> None:
    async def run() -> None:
        address, clock = str(tmp_path / "agent.db"), ManualClock()
        async with opened(address, clock) as here, opened(address, clock) as there:
            first, _ = await create_key(here, KeyGrant(name="laptop", identity=ADA), by="root", clock=clock.now_us)
            assert first.grant.actor == first.grant.principal == "ada"
            await create_key(here, KeyGrant(name="phone", identity=ADA), by="root", clock=clock.now_us)
            stronger = holdfast.Identity(user_id="ada", permissions=("hr", "pay"))
            with pytest.raises(InvalidArgument, match="another identity"):
                await create_key(here, KeyGrant(name="other", identity=stronger), by="root", clock=clock.now_us)
            elsewhere = KeyGrant(name="elsewhere", tenant="acme", identity=holdfast.Identity(user_id="ada"))
            await create_key(here, elsewhere, by="root", clock=clock.now_us)
            both = [
                create_key(
                    engine,
                    KeyGrant(name=user, identity=holdfast.Identity(user_id=user), actor="desk"),
                    by="root",
                    clock=clock.now_us,
                )
                for engine, user in ((here, "bob"), (there, "eve"))
            ]
            answers = await asyncio.gather(*both, return_exceptions=True)
            assert sorted(isinstance(answer, InvalidArgument) for answer in answers) == [False, True]

    asyncio.run(run())


@pytest.mark.parametrize(
    "grant",
    [
        KeyGrant(name="bot", tenant=SYSTEM_TENANT),
        KeyGrant(name=""),
        KeyGrant(name="bot", rights=()),
        KeyGrant(name="bot", rights=("root",)),  # type: ignore[arg-type]
        KeyGrant(name="bot", identity=holdfast.Identity()),
        KeyGrant(name="bot", identity=ADA, rights=("read", "admin")),
        KeyGrant(name="bot", requests_per_minute=0),
        KeyGrant(name="bot", tokens_per_hour=-1),
        KeyGrant(name="bot", actor=""),
        KeyGrant(name="bot", tenant="a\0b"),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused(grant: KeyGrant) -> None:
    async def body(engine: holdfast.AsyncEngine, ring: KeyRing, clock: ManualClock) -> None:
        with pytest.raises(InvalidInput):
            await create_key(engine, grant, by="root", clock=clock.now_us)
        assert await list_keys(engine) == []

    run_on("memory:", body, ManualClock())
