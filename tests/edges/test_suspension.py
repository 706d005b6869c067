"""Suspension: a frame rests until its token comes; what the token is, nobody can find out afterwards."""

from __future__ import annotations

import base64
import hashlib
import logging
import pickle
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import holdfast
from holdfast import Engine, Frame, Session, Usage, errors
from holdfast.adapters.system import RandomIds
from holdfast.core import invariants
from holdfast.errors import HoldfastError
from holdfast.model.frames.frames import Budget, SuspensionToken
from holdfast.types import SweepResult
from tests.edges.engines import (
    DURABLE_KINDS,
    FEWER_KINDS,
    KINDS,
    EngineDesk,
    ManualClock,
    contents,
    expect_refusal,
    read_raw_contents,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _at(clock: ManualClock, seconds: float) -> datetime:
    """So many seconds from now, by this clock."""
    return EPOCH + timedelta(microseconds=clock.now_us()) + timedelta(seconds=seconds)


def _resting(session: Session, **options: Any) -> tuple[Frame, SuspensionToken]:
    frame = session.frame("work", budget=10)
    return frame, frame.suspend("approval", **options)


@pytest.fixture(params=KINDS)
def timed(request: pytest.FixtureRequest, desk: EngineDesk) -> tuple[Engine, ManualClock]:
    clock = ManualClock()
    return desk.open(request.param, clock=clock), clock


# Resting


def test_a_suspended_frame_rests_until_its_token_comes_once(engine: Engine) -> None:
    session = engine.create_session("s")
    frame, token = _resting(session)
    state = frame.state()
    assert (state.status, state.suspension is not None and state.suspension.reason) == ("suspended", "approval")
    woken = engine.resume(token)
    assert (woken.id, woken.scope, woken.state().status, woken.state().suspension) == (
        frame.id,
        session.scope,
        "active",
        None,
    )
    with expect_refusal(engine, errors.TokenConsumed, frame=frame.id):
        engine.resume(token)
    second = frame.suspend("once more")
    assert second != token
    with expect_refusal(engine, errors.TokenConsumed, frame=frame.id):
        engine.resume(token)
    engine.resume(str(second))
    frame.pop()
    for used in (token, second):
        with expect_refusal(engine, errors.TokenConsumed, frame=frame.id):
            engine.resume(used)


def test_nothing_new_begins_in_a_frame_that_rests_and_what_happened_is_recorded(engine: Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=100)
    child = root.frame("child", budget=10)
    kept = root.budget.reserve("a call", 5)
    call = root.record("assistant", "", tool_calls=[{"name": "look"}]).tool_calls[0]
    root.suspend("approval")
    for begin in (
        lambda: root.frame("another", budget=1),
        lambda: root.budget.reserve("another", 1),
        lambda: root.start_call(call),
        lambda: session.run(call, lambda: pytest.fail("it must not run")),
        lambda: child.budget.grant(1),
    ):
        with expect_refusal(engine, errors.FrameSuspendedError, frame=root.id, reason="approval"):
            begin()
    with expect_refusal(engine, errors.AlreadySuspended, frame=root.id, reason="approval"):
        root.suspend("again")
    root.budget.commit(kept, 3)
    root.result(call, "seen")
    root.record("assistant", "well", usage=Usage(2, 2))
    root.update(goal="another")
    root.handles.add("url", "example")
    root.budget.grant(1)
    assert root.state().budget == Budget(101, used=7, delegated=10)
    child.budget.use(1)
    child.frame("goes on", budget=1).pop()
    child.pop()
    assert (root.state().status, root.state().budget.used) == ("suspended", 8)
    root.pop("cancelled", "nobody approved")
    assert invariants.find_violations(session.state()) == []


def test_a_suspended_frame_is_never_on_top_and_wakes_as_it_stands(engine: Engine) -> None:
    session = engine.create_session("s")
    other, root = session.frame("other", budget=1), session.frame("root", budget=10)
    child = root.frame("child", budget=1)
    token = root.suspend("approval")
    assert [each.id for each in session.frames.stack()] == [root.id, child.id]
    child.suspend("approval")
    assert [each.id for each in session.frames.stack()] == [other.id]
    assert engine.resume(token).state().status == "waiting"
    assert [each.id for each in session.frames.stack()] == [root.id]
    child.pop("cancelled")
    assert root.state().status == "active"


def test_what_rests_below_rests_under_the_one_token(engine: Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=10)
    child = root.frame("child", budget=5)
    leaf, alone = child.frame("leaf", budget=1), child.frame("alone", budget=1)
    own = alone.suspend("on its own")
    token = root.suspend("all of it", cascade=True)
    assert [each.state().status for each in (root, child, leaf, alone)] == ["suspended"] * 4
    with expect_refusal(engine, errors.FrameSuspendedError, frame=leaf.id, reason="all of it"):
        leaf.budget.reserve("a call", 1)
    for frame in (child, leaf):
        with expect_refusal(engine, errors.NotSuspended, frame=frame.id, status="suspended"):
            frame.reissue()
        with expect_refusal(engine, errors.AlreadySuspended, frame=frame.id):
            frame.suspend("again")
    assert [each.frame for each in engine.suspended()] == [root.id, alone.id]
    leaf.pop()
    engine.resume(token)
    assert [each.state().status for each in (root, child, alone)] == ["waiting", "waiting", "suspended"]
    assert engine.resume(own).state().status == "active"
    assert invariants.find_violations(session.state()) == []


# Tokens


def test_a_token_is_bound_to_its_tenant_and_to_those_it_is_for(engine: Engine) -> None:
    ada = engine.acting_as(principal="ada")
    session = ada.create_session("s")
    own, by_one, by_some = (
        _resting(session),
        _resting(session, resumable_by="bob"),
        _resting(session, resumable_by=["bob", "eve"]),
    )
    rival = engine.acting_as(tenant="rival", principal="ada")
    for _, token in (own, by_one, by_some):
        with expect_refusal(engine, errors.TokenInvalid, tenant="rival"):
            rival.resume(token)
        with expect_refusal(engine, errors.TokenForbidden, principal="mallory"):
            engine.acting_as(principal="mallory").resume(token)
    for principal, (frame, token) in (("bob", own), ("eve", by_one)):
        other = engine.acting_as(principal=principal)
        with expect_refusal(engine, errors.TokenForbidden, frame=frame.id, principal=principal):
            other.resume(token)
        with expect_refusal(engine, errors.TokenForbidden, frame=frame.id, principal=principal):
            other.session("s").frames.get(frame.id).reissue()
    ada.resume(own[1])
    engine.acting_as(principal="bob").resume(by_one[1])
    eve = engine.acting_as(principal="eve")
    replaced = eve.session("s").frames.get(by_some[0].id).reissue()
    with expect_refusal(engine, errors.TokenRevokedError, frame=by_some[0].id):
        ada.resume(by_some[1])
    ada.resume(replaced)
    assert [event.principal for event in session.events(limit=100) if event.type == "frame.resumed"] == [
        "ada",
        "bob",
        "ada",
    ]


FORGED: tuple[Any, ...] = (
    "",
    "hfs_",
    "hfs_" + "A" * 43,
    "hfs_" + "A" * 42,
    "hfs_" + "A" * 44,
    "HFS_" + "A" * 43,
    "hfs_" + "A" * 43 + "\n",
    "hfs_" + "=" * 43,
    "0" * 64,
    "x" * 1_000_000,
    "hfs_" + "\ud800" * 43,
    None,
    5,
    b"hfs_" + b"A" * 43,
    [],
)


def test_a_forged_token_is_none(engine: Engine) -> None:
    frame, token = _resting(engine.create_session("s"))
    digest = hashlib.sha256(token.encode()).hexdigest()
    twisted = token[:-1] + ("A" if token[-1] != "A" else "B")
    for forged in (*FORGED, digest, twisted, token[4:], token + "A", token.lower(), f" {token}"):
        with expect_refusal(engine, errors.TokenInvalid, tenant="default"):
            engine.resume(forged)
    engine.resume(token)
    assert frame.state().status == "active"


def test_tokens_expire_are_replaced_and_are_taken_back(timed: tuple[Engine, ManualClock]) -> None:
    engine, clock = timed
    session = engine.create_session("s")
    frame, token = _resting(session, expires_at=_at(clock, 60))
    clock.now_s += 61.5
    with expect_refusal(engine, errors.TokenExpired, frame=frame.id, late_us=1_500_000):
        engine.resume(token)
    second = frame.reissue(expires_at=_at(clock, 60).astimezone(timezone(timedelta(hours=-5))))
    with expect_refusal(engine, errors.TokenRevokedError, frame=frame.id, reason="another was issued in its place"):
        engine.resume(token)
    engine.acting_as(principal="whoever finds it").session("s").frames.get(frame.id).revoke("in the wrong hands")
    before = contents(engine)
    frame.revoke("twice")
    assert contents(engine) == before
    with expect_refusal(engine, errors.TokenRevokedError, frame=frame.id, reason="it was taken back"):
        engine.resume(second)
    assert frame.state().status == "suspended"
    third = frame.reissue()  # for as long as the one before
    clock.now_s += 60
    with expect_refusal(engine, errors.TokenExpired, frame=frame.id, late_us=0):
        engine.resume(third)
    last = frame.reissue()
    clock.now_s += 10**6
    engine.resume(last)
    ended, fourth = _resting(session)
    ended.pop("cancelled")
    with expect_refusal(engine, errors.TokenRevokedError, frame=ended.id, reason="the frame has ended"):
        engine.resume(fourth)
    for do in (frame.reissue, frame.revoke):
        with expect_refusal(engine, errors.NotSuspended, frame=frame.id, status="active"):
            do()


NO_TIMES: tuple[Any, ...] = (
    5,
    "2024-01-01",
    EPOCH.replace(year=2040, tzinfo=None),
    EPOCH,
    EPOCH - timedelta(1),
    timedelta(1),
    1e18,
    "",
)


def test_a_time_that_is_none_or_has_passed_is_refused(timed: tuple[Engine, ManualClock]) -> None:
    engine, clock = timed
    session = engine.create_session("s")
    frame = session.frame("work", budget=1)
    other, _ = _resting(session)
    before = contents(engine)
    for expires_at in (*NO_TIMES, _at(clock, 0), _at(clock, -1)):
        with pytest.raises(errors.InvalidInput):
            frame.suspend("approval", expires_at=expires_at)
        with pytest.raises(errors.InvalidInput):
            other.reissue(expires_at=expires_at)
    assert contents(engine) == before
    frame.suspend("approval", expires_at=datetime.max.replace(tzinfo=UTC))


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_time_stands_still_for_a_frame_that_rests(kind: str, desk: EngineDesk) -> None:
    clock = ManualClock()
    engine = desk.open(kind, clock=clock)
    session = engine.create_session("s")
    root = session.frame("root", budget=10, timeout_s=100)
    child = root.frame("child", budget=1, timeout_s=30)
    clock.now_s += 20
    token = root.suspend("approval", cascade=True)
    assert (root.state().deadline_us, child.state().deadline_us) == (None, None)
    clock.now_s += 10**6
    assert engine.admin.sweep() == SweepResult()
    engine.resume(token)
    now = clock.now_us()
    assert (root.state().deadline_us, child.state().deadline_us) == (now + 80_000_000, now + 10_000_000)
    clock.now_s += 9
    assert engine.admin.sweep() == SweepResult()
    clock.now_s += 1
    assert engine.admin.sweep().frames == ((session.scope, child.id),)
    clock.now_s += 70
    assert engine.admin.sweep().frames == ((session.scope, root.id),)


@pytest.mark.parametrize("kind", DURABLE_KINDS)
def test_a_token_works_in_another_process_a_year_later(kind: str, desk: EngineDesk) -> None:
    clock = ManualClock()
    engine = desk.open(kind, clock=clock)
    frame, token = _resting(engine.create_session("s", actor="ada", thread="t"))
    engine.close()
    clock.now_s += 365 * 24 * 3600
    again = desk.open(kind, clock=clock)
    [listed] = again.suspended()
    assert (listed.scope, listed.frame, listed.reason) == (frame.scope, frame.id, "approval")
    assert again.resume(token).state().status == "active"
    assert again.suspended() == []


def test_what_rests_is_listed_in_pages_and_by_name(timed: tuple[Engine, ManualClock]) -> None:
    engine, clock = timed
    made = []
    for actor, name in (("ada", "a"), ("ada", "b"), ("bob", "a")):
        session = engine.create_session(name, actor=actor)
        made += [_resting(session, resumable_by=["eve"])[0] for _ in range(2)]
    _resting(engine.acting_as(tenant="rival").create_session("a", actor="ada"))
    made[0].revoke()
    made[1].reissue(expires_at=_at(clock, 5))
    clock.now_s += 5
    listed = engine.suspended()
    assert [(each.scope, each.frame) for each in listed] == [(each.scope, each.id) for each in made]
    assert [each.status for each in listed] == ["revoked", "expired", *["live"] * 4]
    assert {(each.by, each.resumable_by, each.reason) for each in listed} == {("local", ("eve",), "approval")}
    assert [each.frame for each in engine.suspended(actor="bob")] == [each.id for each in made[4:]]
    assert len(engine.suspended(session="a")) == 4
    pages, last = [], None
    while page := engine.suspended(after=last, limit=4):
        pages.append(page)
        last = page[-1]
    assert [each for page in pages for each in page] == listed
    assert [len(page) for page in pages] == [4, 2]


# Secrecy


def test_a_token_has_256_bits_and_does_not_show_itself() -> None:
    secrets = [RandomIds().secret() for _ in range(100)]
    assert len({*secrets}) == len(secrets)
    assert {len(secret) for secret in secrets} == {32}
    engine = holdfast.open("memory:")
    tokens = [_resting(engine.create_session(f"s{number}"))[1] for number in range(20)]
    assert len({*tokens}) == len(tokens)
    for token in tokens:
        assert len(base64.urlsafe_b64decode(token.removeprefix("hfs_") + "=")) == 32
        for shown in (repr(token), f"{token!r}", repr([token]), repr({"t": token}), ascii(token)):
            assert token[4:] not in shown
        assert f"{token}" == str(token) == "".join(token)
        assert pickle.loads(pickle.dumps(token)) == token
    engine.close()


def _uses(engine: Engine, clock: ManualClock, tokens: list[str]) -> list[HoldfastError]:
    """Use tokens in all wrong ways: what was said."""
    said: list[HoldfastError] = []

    def wrong(do: Callable[[], object]) -> None:
        with pytest.raises(HoldfastError) as refusal:
            do()
        said.append(refusal.value)

    session = engine.create_session("s")
    frame, token = _resting(session, expires_at=_at(clock, 60), resumable_by="eve")
    tokens.append(token)
    wrong(lambda: frame.suspend("again"))
    wrong(lambda: engine.acting_as(principal="mallory").resume(token))
    wrong(lambda: engine.acting_as(tenant="rival").resume(token))
    wrong(lambda: engine.resume(token[:-1]))
    clock.now_s += 60
    wrong(lambda: engine.resume(token))
    replaced = frame.reissue()
    tokens.append(replaced)
    wrong(lambda: engine.resume(token))
    engine.resume(replaced)
    wrong(lambda: engine.resume(replaced))
    tokens.append(frame.suspend("once more"))
    frame.revoke()
    wrong(lambda: engine.resume(tokens[-1]))
    other, last = _resting(session)
    tokens.append(last)
    other.pop()
    wrong(lambda: engine.resume(last))
    tokens.append(_resting(session)[1])
    return said


def test_a_token_is_in_no_event_no_row_no_error_and_no_log(
    timed: tuple[Engine, ManualClock], desk: EngineDesk, caplog: pytest.LogCaptureFixture
) -> None:
    engine, clock = timed
    caplog.set_level(logging.DEBUG)
    tokens: list[str] = []
    said = _uses(engine, clock, tokens)
    told = "\n".join("".join(traceback.TracebackException.from_exception(each).format()) for each in said)
    listed = f"{engine.suspended()} {engine.session('s').frames.list()} {engine.session('s').recover()}"
    export = desk.folder / "export.jsonl"
    engine.admin.export(export)
    stored = read_raw_contents(engine, desk) + export.read_bytes()
    assert len(tokens) == 5
    for token in tokens:
        secret = base64.urlsafe_b64decode(token.removeprefix("hfs_") + "=")
        digest = hashlib.sha256(token.encode())
        assert digest.hexdigest().encode() in stored, "the search finds nothing at all"
        for trace in (token.encode(), token[4:].encode(), secret, secret.hex().encode()):
            assert trace not in stored
        for text in (caplog.text, listed, told, "\n".join(map(repr, said))):
            assert token[4:] not in text
