"""For random callers and random stores: nothing outside of an access can be read, counted or written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.access.access import (
    RIGHTS,
    SYSTEM_TENANT,
    Access,
    check_blob,
    create_session,
    engine_for,
    ledger_for,
    list_ledgers,
    list_sessions,
    list_suspended,
    open_session,
    resume_frame,
)
from holdfast.errors import (
    AccessRefused,
    BlobNotFound,
    HoldfastError,
    InvalidInput,
    LedgerNotFound,
    RightMissing,
    SessionNotFound,
    TokenInvalid,
)
from holdfast.types import LedgerId
from tests.support import figure

TENANTS, ACTORS, USERS, NAMES = ("acme", "globex"), ("ada", "bob", "main"), ("", "ada", "bob"), ("s1", "s2")
PERMISSIONS = ((), ("hr",), ("hr", "pay"))
LEDGERS = (
    ("user", ("ada",)),
    ("user", ("bob",)),
    ("organization", ("desk",)),
    ("organization", ("board",)),
    ("project", ("moon",)),
)


class StoredSession(NamedTuple):
    tenant: str
    actor: str
    name: str
    user: str
    permissions: tuple[str, ...]

    @property
    def marker(self) -> str:
        return f"words of {self.tenant}/{self.actor}/{self.name}"


class StoredFact(NamedTuple):
    ledger: LedgerId
    requires: tuple[str, ...]


def facts() -> st.SearchStrategy[StoredFact]:
    sessions = st.tuples(st.just("session"), st.tuples(st.sampled_from(ACTORS), st.sampled_from(NAMES)))
    ledgers = st.tuples(st.sampled_from(TENANTS), st.one_of(st.sampled_from(LEDGERS), sessions))
    return st.builds(
        StoredFact,
        ledgers.map(lambda each: LedgerId(each[0], *each[1])),
        st.sampled_from(PERMISSIONS),
    )


STORES = st.tuples(
    st.lists(
        st.builds(StoredSession, *map(st.sampled_from, (TENANTS, ACTORS, NAMES, USERS, PERMISSIONS))),
        max_size=8,
        unique_by=lambda each: each[:3],
    ),
    st.lists(facts(), max_size=6, unique_by=lambda each: each.ledger),
)
IDENTITIES = st.builds(
    holdfast.Identity,
    user_id=st.sampled_from(USERS[1:]),
    permissions=st.sampled_from(PERMISSIONS),
    organization=st.sampled_from(("", "desk")),
)
CALLERS = st.builds(
    Access,
    tenant=st.sampled_from(TENANTS),
    rights=st.frozensets(st.sampled_from(RIGHTS)),
    actor=st.none() | st.sampled_from(ACTORS),
    identity=st.none() | IDENTITIES,
)


def reaches(access: Access, stored: StoredSession) -> bool:
    """The law, said again in other words."""
    if stored.tenant != access.tenant or (access.actor or stored.actor) != stored.actor:
        return False
    user = access.identity
    if user is None:
        return True
    is_own = stored.user == user.user_id or (stored.user == "" and stored.actor == user.user_id)
    return is_own and ("write" in access.rights or {*stored.permissions} <= {*user.permissions})


def reaches_ledger(access: Access, ledger: LedgerId, stored: list[StoredSession]) -> bool:
    if ledger.tenant != access.tenant:
        return False
    if ledger.kind == "session":
        if access.identity is None:
            return access.actor in (None, ledger.names[0])
        return any(reaches(access, each) and (each.actor, each.name) == ledger.names for each in stored)
    if access.identity is None:
        return True
    own = {("user", access.identity.user_id), ("organization", access.identity.organization)}
    return (ledger.kind, ledger.names[0]) in own


async def fill(engine: holdfast.AsyncEngine, stored: list[StoredSession], known: list[StoredFact]) -> None:
    for each in stored:
        identity = holdfast.Identity(user_id=each.user, permissions=each.permissions)
        session = await engine.acting_as(tenant=each.tenant).create_session(
            each.name, actor=each.actor, identity=identity
        )
        await session.record("user", each.marker)
    for fact in known:
        names = {(each.tenant, each.actor, each.name) for each in stored}
        if fact.ledger.kind != "session" or (fact.ledger.tenant, *fact.ledger.names) in names:
            await (
                engine.acting_as(tenant=fact.ledger.tenant)
                .ledger(fact.ledger)
                .set("city", str(fact.ledger), requires=fact.requires)
            )


async def answer_of(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except HoldfastError as error:
        return f"{type(error).__name__}: {error}"


async def events(engine: holdfast.AsyncEngine) -> list[Any]:
    return list((await engine.admin.feed(limit=1_000)).events)


def run(body: Callable[[holdfast.AsyncEngine, holdfast.AsyncEngine], Awaitable[None]]) -> None:
    """Run on a store, and on an empty one."""

    async def opened() -> None:
        async with await holdfast.open_async("memory:") as full, await holdfast.open_async("memory:") as empty:
            await body(full, empty)

    asyncio.run(opened())


@settings(max_examples=figure(150, 2_000), deadline=None)
@given(STORES, CALLERS)
def test_a_caller_opens_and_lists_their_own_sessions_only(
    store: tuple[list[StoredSession], list[StoredFact]], access: Access
) -> None:
    stored, known = store

    async def body(full: holdfast.AsyncEngine, empty: holdfast.AsyncEngine) -> None:
        await fill(full, stored, known)
        engine, nothing = engine_for(full, access), engine_for(empty, access)
        before = await events(full)
        rows = await list_sessions(engine, access, limit=2)
        while len(rows) % 2 == 0 and (more := await list_sessions(engine, access, after=rows[-1] if rows else None)):
            rows = (*rows, *more)
        listed = sorted((row.tenant, row.actor, row.session) for row in rows)
        assert listed == sorted(each[:3] for each in stored if reaches(access, each))
        for actor in (None, *ACTORS):
            for name in NAMES:
                wanted = (access.tenant, access.choose_actor(None) if actor is None else actor, name)
                own = [each for each in stored if each[:3] == wanted and reaches(access, each)]
                answer = await answer_of(open_session(engine, access, name, actor=actor))
                if own:
                    assert [message.text for message in await answer.messages()] == [own[0].marker]
                    state = await answer.state()
                    if access.identity is not None and "write" in access.rights:
                        assert state.identity == access.identity
                    elif access.identity is not None:
                        assert {*state.identity.permissions} <= {*access.identity.permissions}
                else:
                    assert answer == await answer_of(open_session(nothing, access, name, actor=actor))
                    assert answer.startswith("SessionNotFound")
        if "write" not in access.rights or access.identity is None:
            assert await events(full) == before, "to look changes nothing"

    run(body)


@settings(max_examples=figure(150, 2_000), deadline=None)
@given(STORES, CALLERS)
def test_a_caller_uses_their_own_ledgers_only(
    store: tuple[list[StoredSession], list[StoredFact]], access: Access
) -> None:
    stored, known = store

    async def body(full: holdfast.AsyncEngine, empty: holdfast.AsyncEngine) -> None:
        await fill(full, stored, known)
        engine, nothing = engine_for(full, access), engine_for(empty, access)
        all_rows = [row for tenant in TENANTS for row in await full.acting_as(tenant=tenant).ledgers()]
        rows = await list_ledgers(engine, access)
        expected = [row.id for row in all_rows if reaches_ledger(access, row.id, stored)]
        assert sorted(row.id for row in rows) == sorted(expected)
        if rows:
            assert await list_ledgers(engine, access, after=rows[0]) == rows[1:]
        for fact in known:
            answer = await answer_of(ledger_for(engine, access, fact.ledger))
            if not reaches_ledger(access, fact.ledger, stored):
                assert answer == await answer_of(ledger_for(nothing, access, fact.ledger))
                assert answer.startswith("LedgerNotFound")
                continue
            shown = [item.value for item in await answer.items()]
            is_stored = any(row.id == fact.ledger for row in all_rows)
            may_know = access.identity is None or {*fact.requires} <= {*access.identity.permissions}
            assert shown == ([str(fact.ledger)] if is_stored and may_know else [])

    run(body)


@settings(max_examples=figure(150, 2_000), deadline=None)
@given(STORES, CALLERS, st.sampled_from((None, *ACTORS)), st.sampled_from((None, *USERS[1:])), st.booleans())
def test_a_caller_creates_sessions_for_themselves_only(
    store: tuple[list[StoredSession], list[StoredFact]],
    access: Access,
    actor: str | None,
    user: str | None,
    memory: bool,
) -> None:
    async def body(full: holdfast.AsyncEngine, empty: holdfast.AsyncEngine) -> None:
        await fill(full, *store)
        before = await events(full)
        answer = await answer_of(
            create_session(engine_for(full, access), access, "new", actor=actor, user=user, memory=memory)
        )
        if isinstance(answer, str):
            assert await events(full) == before
            assert answer.split(":")[0] in ("RightMissing", "SessionNotFound", "AccessRefused")
            return
        assert "write" in access.rights
        assert answer.scope.tenant == access.tenant
        assert access.actor in (None, answer.scope.actor)
        state = await answer.state()
        if access.identity is not None:
            assert state.identity == access.identity
            organization = access.identity.organization
            own = [("user", access.identity.user_id), *([("organization", organization)] if organization else [])]
            assert list(state.ledgers) == own
        assert state.has_memory == memory

    run(body)


# Single laws

ADA = Access(identity=holdfast.Identity(user_id="ada", organization="desk"))
BOB = Access(identity=holdfast.Identity(user_id="bob"))


def test_a_user_has_a_namespace_of_their_own() -> None:
    assert ADA.actor == "ada"
    assert ADA.choose_actor("main") == "ada"
    assert Access().choose_actor("main") == "main"
    with pytest.raises(InvalidInput):
        Access(identity=holdfast.Identity(user_name="Ada"))


def test_nobody_gets_into_the_tenant_of_the_server() -> None:
    with pytest.raises(InvalidInput, match="for the server itself"):
        Access(tenant=SYSTEM_TENANT)
    with pytest.raises(InvalidInput):
        msgspec.structs.replace(ADA, tenant=SYSTEM_TENANT)


def test_a_user_acts_as_themselves_and_a_program_as_anyone() -> None:
    eve = holdfast.Identity(user_id="eve", authority="manager")
    assert Access().check_identity_claim(eve) == eve
    assert Access().check_identity_claim(None) is None
    assert ADA.check_identity_claim(None) == ADA.identity == ADA.check_identity_claim(ADA.identity)
    with pytest.raises(AccessRefused, match="that user only"):
        ADA.check_identity_claim(eve)
    with pytest.raises(AccessRefused):
        ADA.check_identity_claim(holdfast.Identity(user_id="ada", authority="manager"))


def test_a_memory_is_of_its_user_and_a_whole_tenant_of_programs() -> None:
    assert ADA.allows_memory("ada")
    assert not ADA.allows_memory("bob")
    assert Access().allows_memory("bob")
    Access().check_whole_tenant()
    for part in (ADA, Access(actor="main")):
        with pytest.raises(AccessRefused, match="all of the tenant"):
            part.check_whole_tenant()


def test_a_right_that_is_missing_is_named() -> None:
    with pytest.raises(RightMissing, match="'write'"):
        Access(rights=frozenset(("read",))).check("write")


def test_a_session_of_a_user_reads_no_ledger_that_they_may_not_use() -> None:
    async def body(full: holdfast.AsyncEngine, _empty: holdfast.AsyncEngine) -> None:
        for ledger in (LedgerId("default", "user", ("bob",)), LedgerId("default", "project", ("moon",))):
            with pytest.raises(LedgerNotFound):
                await create_session(full, ADA, "s1", ledgers=(ledger,))
        session = await create_session(full, ADA, "s1", ledgers=(LedgerId("default", "organization", ("desk",)),))
        assert (await session.state()).ledgers == (("user", "ada"), ("organization", "desk"))
        await create_session(full, ADA, "s2", ledgers=(LedgerId("default", "session", ("ada", "s1")),))
        with pytest.raises(LedgerNotFound):
            await create_session(full, BOB, "s3", ledgers=(LedgerId("default", "session", ("ada", "s1")),))

    run(body)


def test_permissions_of_the_key_count_whatever_the_session_had() -> None:
    async def body(full: holdfast.AsyncEngine, _empty: holdfast.AsyncEngine) -> None:
        organization = full.ledger(organization="desk")
        await organization.set("salary", 100, requires=("hr",))
        ledger = LedgerId("default", "organization", ("desk",))
        strong = holdfast.Identity(user_id="ada", permissions=("hr",))
        await full.create_session("s1", actor="ada", identity=strong, ledgers=(ledger,))
        session = await open_session(full, ADA, "s1")
        assert await session.facts.get("salary") is None
        session = await open_session(full, Access(identity=strong), "s1")
        assert (await session.facts.get("salary")).value == 100  # type: ignore[union-attr]
        reader = msgspec.structs.replace(ADA, rights=frozenset(("read",)))
        with pytest.raises(SessionNotFound):
            await open_session(full, reader, "s1")

    run(body)


def test_a_destroyed_session_is_not_found() -> None:
    async def body(full: holdfast.AsyncEngine, _empty: holdfast.AsyncEngine) -> None:
        unknown = await answer_of(open_session(full, ADA, "s1"))
        session = await create_session(full, ADA, "s1")
        await session.destroy("gone")
        assert await answer_of(open_session(full, ADA, "s1")) == unknown
        assert await list_sessions(full, ADA, status="destroyed") == ()

    run(body)


def test_a_closed_session_can_still_be_read_with_new_permissions() -> None:
    async def body(full: holdfast.AsyncEngine, _empty: holdfast.AsyncEngine) -> None:
        session = await create_session(full, ADA, "s1")
        await session.record("user", "hello")
        await session.end("done")
        other = Access(identity=holdfast.Identity(user_id="ada", permissions=("hr",)))
        assert [message.text for message in await (await open_session(full, other, "s1")).messages()] == ["hello"]

    run(body)


def test_frames_wait_for_their_own_user() -> None:
    async def body(full: holdfast.AsyncEngine, _empty: holdfast.AsyncEngine) -> None:
        session = await create_session(full, ADA, "s1")
        frame = await session.frame("Pay the bill", budget=1_000)
        token = await frame.suspend("approval", resumable_by=("bob", "ada"))
        for caller, shown in ((ADA, 1), (BOB, 0), (Access(), 1), (Access(actor="main"), 0)):
            engine = engine_for(full, caller)
            assert len(await list_suspended(engine, caller)) == shown
            assert await list_suspended(engine, caller, actor="eve") == []
        for caller in (BOB, Access(actor="main", principal="ada")):
            unknown = await answer_of(resume_frame(engine_for(full, caller), caller, "hfs_" + "A" * 43))
            assert await answer_of(resume_frame(engine_for(full, caller), caller, token)) == unknown
            assert unknown.startswith(TokenInvalid.__name__)
        with pytest.raises(RightMissing):
            await resume_frame(full, Access(rights=frozenset(("read",))), token)
        ada = msgspec.structs.replace(ADA, principal="ada")
        assert (await resume_frame(engine_for(full, ada), ada, token)).id == frame.id

    run(body)


def test_a_body_belongs_to_those_whose_sessions_have_it() -> None:
    async def body(full: holdfast.AsyncEngine, _empty: holdfast.AsyncEngine) -> None:
        ref = await full.blobs.put(b"x" * 100_000, media_type="text/plain")
        session = await create_session(full, ADA, "s1")
        await session.record("user", [holdfast.types.Body(ref)])
        await check_blob(full, ADA, ref)
        await check_blob(full, Access(), ref)
        for caller in (BOB, Access(actor="main")):
            with pytest.raises(BlobNotFound):
                await check_blob(full, caller, ref)

    run(body)
