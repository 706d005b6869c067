"""Forks at their edges: what they take over, what stays with the parent, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Engine, Session, errors
from holdfast.flows.sessions import lifecycle
from holdfast.model.rows import SessionRow, TokenRow
from tests.edges.engines import EngineDesk, ManualClock, contents, expect_refusal, rows_of

CALLS = [{"name": "find", "args": {}, "id": "p"}, {"name": "read", "args": {}, "id": "q"}]


def talk(engine: Engine, name: str = "s") -> Session:
    session = engine.session(name, user="ada", create=True)
    session.record("user", "Where is the lamp?")
    session.record("assistant", "Which lamp do you mean?")
    session.record("user", "The green one.")
    return session


def texts(session: Any) -> list[str]:
    return [message.text for message in session.messages()[::-1]]


def check(engine: Engine) -> None:
    report = engine.admin.verify()
    assert report.ok, report.problems
    rows = rows_of(engine)
    engine.admin.rebuild()
    assert rows_of(engine) == rows


def test_a_fork_goes_on_from_a_message_and_its_parent_does_not_see_it(engine: Engine) -> None:
    session = talk(engine)
    at = session.messages()[1]
    forks = [session.fork(at, as_="a"), session.fork(at.seq, as_="b"), session.fork(at.id, as_="c")]
    for number, fork in enumerate(forks):
        fork.record("user", f"The red one, {number}.")
        assert texts(fork) == [f"The red one, {number}.", *texts(session)[1:]]
        assert fork.state().origin == forks[0].state().origin
    assert texts(session) == ["The green one.", "Which lamp do you mean?", "Where is the lamp?"]
    with pytest.raises(errors.InvalidArgument, match="`at`"):
        session.fork("")
    second = forks[0].fork(as_="d")
    second.record("user", "And the blue one.")
    assert texts(second)[1:] == texts(forks[0])
    assert session.fork().scope.session.startswith("s~")
    names = {row.session for row in rows_of(engine) if isinstance(row, SessionRow)}
    assert {"a", "b", "c", "d", "s"} < names
    check(engine)


def test_calls_that_were_open_are_closed_in_the_fork_alone(engine: Engine) -> None:
    session = talk(engine)
    session.record("assistant", "", tool_calls=CALLS)
    session.start_call("p")
    fork = session.fork(as_="f")
    assert fork.open_calls() == ()
    for each in (fork, session.fork("p", as_="g")):  # in the second one, the call has not been started
        closed = [message for message in each.messages() if message.closing]
        assert "branched off before the tool returned; in the other branch the call may have" in closed[0].text
    assert [call.provider_id for call in session.open_calls()] == ["p", "q"]
    session.result("p", "in the hall")
    session.result("q", "it is on")
    assert fork.result("p", "too late").late
    fork.record("user", "Never mind.")
    check(engine)


def test_frames_and_tokens_stay_with_the_parent(engine: Engine) -> None:
    session = talk(engine)
    outer = session.frame("find the lamp", budget=9_000)
    inner = outer.frame("look in the hall", budget=1_000)
    inner.record("user", "Look well.")
    token = inner.suspend(reason="wait for Ada")
    fork = session.fork(as_="f")
    assert dict(fork.state().frames) == {}
    assert {frame.id: frame.status for frame in fork.frames.list()} == {outer.id: "cancelled", inner.id: "cancelled"}
    assert {row.session for row in rows_of(engine) if isinstance(row, TokenRow)} == {"s"}
    assert inner.id not in str(fork.recover())
    resumed = engine.resume(token)
    assert (resumed.scope.session, resumed.id) == ("s", inner.id)
    with pytest.raises(errors.HoldfastError):
        engine.resume(token)
    assert dict(fork.state().frames) == {}
    inner.pop("completed", "found")
    outer.pop("completed", "found")
    check(engine)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_turn_stays_with_the_parent_and_a_fork_under_a_lost_turn_is_refused(desk: EngineDesk, kind: str) -> None:
    clock = ManualClock()
    engine = desk.open(kind, clock=clock)
    session = talk(engine)
    with session.turn(owner="one", lease_s=10) as turn:
        fork = turn.fork(as_="f")
        fork.record("user", "Free.")
        with fork.turn(wait_s=0):
            pass
        clock.now_s += 60
        with session.turn(owner="two", wait_s=0), expect_refusal(engine, errors.LeaseLost):
            turn.fork(as_="g")
    check(engine)


def test_a_crash_in_the_destruction_of_a_fork_leaves_nothing_readable(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a fork that has no messages of its own."""
    session = talk(engine)
    fork = session.fork(as_="f")
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "_erase_destroyed", lambda _: iter(()))
        fork.destroy(offload=False)
    session.erase([2], "wrong lamp")
    check(engine)
    engine.admin.sweep()
    (row,) = (row for row in rows_of(engine) if isinstance(row, SessionRow) and row.session == "f")
    assert row.residue == 0
    check(engine)


def test_a_destroyed_fork_that_waits_for_the_outbox_loses_what_it_shares_with_its_parent(engine: Engine) -> None:
    session = talk(engine)
    session.facts.set("lamp", "a secret")
    fork = session.fork(as_="f")
    fork.record("user", "And the red one.")
    fork.destroy()
    session.destroy(offload=False)
    assert "a secret" not in str(rows_of(engine))
    check(engine)
    waiting = engine.admin.outbox()
    assert "And the red one." in [message.text for each in waiting for message in engine.admin.offloaded(each)]
    for each in waiting:
        engine.admin.acknowledge(each)
    check(engine)


def test_a_closed_session_can_be_forked_and_a_destroyed_one_cannot(engine: Engine) -> None:
    session = talk(engine)
    session.end("done")
    fork = session.fork(as_="f")
    assert fork.state().status == "open"
    fork.record("user", "One more thing.")
    assert session.state().status == "closed"
    fork.destroy(offload=False)
    for offload in engine.admin.outbox():
        engine.admin.acknowledge(offload)
    session.destroy(offload=False)
    with pytest.raises(errors.SessionNotFound):
        session.fork(as_="g")
    with pytest.raises(errors.SessionExists):
        engine.create_session("f")
    check(engine)


def test_a_session_is_destroyed_after_its_forks_or_with_them(engine: Engine) -> None:
    session = talk(engine)
    first = session.fork(as_="a")
    first.record("user", "a secret")
    second = first.fork(as_="b")
    with expect_refusal(engine, errors.SessionHasForks, session="s", count=1, forks="a"):
        session.destroy()
    with expect_refusal(engine, errors.InvalidArgument):
        session.destroy(forks="keep")  # type: ignore[arg-type]
    session.destroy(offload=False, forks="destroy")
    for each in (session, first, second):
        with pytest.raises(errors.SessionNotFound):
            each.messages()
    assert all(event.payload is None or b"secret" not in event.payload for event in engine.admin.feed().events)
    check(engine)


def test_facts_fork_with_the_session_and_shared_ledgers_do_not(engine: Engine) -> None:
    session = talk(engine)
    session.ledger().set("lamp", "green")
    engine.ledger(user="ada").set("city", "Lisbon")
    at = session.record("user", "Go on.")
    session.ledger().set("lamp", "red")
    early, late = session.fork(3, as_="early"), session.fork(as_="late")
    assert early.ledger().get("lamp") is None
    assert [fact.value for fact in late.ledger().history("lamp")] == ["green", "red"]
    between = session.fork(at, as_="between")
    late.ledger().set("lamp", "blue")
    assert [each.ledger().get("lamp").value for each in (session, late, between)] == ["red", "blue", "red"]  # type: ignore[union-attr]
    engine.ledger(user="ada").set("city", "Porto")
    assert {each.facts.get("city").value for each in (session, early, late)} == {"Porto"}  # type: ignore[union-attr]
    check(engine)


def test_erased_facts_are_erased_in_all_forks_and_in_the_parent_only_from_there(engine: Engine) -> None:
    session = talk(engine)
    fact = session.ledger().set("lamp", "a secret colour")
    first = session.fork(as_="a")
    second = first.fork(as_="b")
    own = second.ledger().set("chair", "brown")
    with expect_refusal(engine, errors.EventShared, session="b", owner="s"):
        second.ledger().erase(fact.id, "asked to")
    session.ledger().erase(fact.id, "asked to")
    for each in (session, first, second):
        assert each.ledger().history("lamp") == ()
        assert each.facts.search("secret") == ()
    assert "secret" not in str(rows_of(engine))
    assert second.ledger().get("chair") == own
    second.ledger().erase(own, "asked to")
    check(engine)


def test_erased_entries_leave_the_chunks_that_forks_need(engine: Engine) -> None:
    session = talk(engine)
    rows = [{"text": "word " * 700, "id": number} for number in range(9)]
    session.entries.append("checkpoint", "one", {"rows": rows})
    fork = session.fork(as_="f")
    body = {"rows": [*rows, "one more"]}
    fork.entries.append("checkpoint", "two", body)
    with expect_refusal(engine, errors.EventShared):
        fork.entries.delete(["one"])
    session.entries.delete(["one"])
    assert (session.entries.get("one"), fork.entries.get("one")) == (None, None)
    entry = fork.entries.get("two")
    assert entry is not None
    assert entry.body == body
    fork.entries.append("checkpoint", "three", body)
    check(engine)


def test_what_a_fork_shares_is_not_erased_there(engine: Engine) -> None:
    session = talk(engine)
    fork = session.fork(as_="f")
    own = fork.record("user", "mine")
    with expect_refusal(engine, errors.EventShared, session="f", seq=2, owner="s"):
        fork.erase([2, own.seq], "asked to")
    fork.erase([own.seq], "asked to")
    assert texts(fork)[0] == ""
    check(engine)


def test_the_event_that_begins_a_fork_is_not_erased(engine: Engine) -> None:
    session = talk(engine)
    fork = session.fork(as_="f")
    fork.record("user", "mine")
    with expect_refusal(engine, errors.InvalidArgument):
        fork.erase([5, 6], "asked to")
    session.erase([5], "asked to")
    assert texts(fork)[1:] == texts(session)
    check(engine)


def test_packs_from_before_the_fork_can_be_reproduced_in_it(engine: Engine) -> None:
    session = talk(engine)
    session.ledger().set("lamp", "green")
    packs = {}
    for place in (session, *[session.fork(as_="f"), session.fork(as_="g")]):
        place.ledger().set("chair", place.scope.session)
        pack = place.pack(budget=2_000)
        place.record("assistant", "Yes.", pack=pack)
        packs[place.scope.session] = str(pack)
    deep = engine.session("f").fork(as_="deep")
    pack = deep.pack(budget=2_000)
    deep.record("assistant", "No.", pack=pack)
    for name, expected in (("s", [packs["s"]]), ("f", [packs["f"]]), ("deep", [str(pack), packs["f"]])):
        records = engine.session(name).packs.list()
        assert [str(engine.session(name).packs.reproduce(each)) for each in records] == expected


def test_the_guard_reads_shared_messages_as_it_does_in_the_parent(engine: Engine) -> None:
    session = talk(engine)
    session.observe("My address is 12 Elm Street.")
    session.ledger().set("courier", "Swift Parcel")
    session.record("assistant", "I send it to 12 Elm Street with Swift Parcel.")
    fork = session.fork(as_="f")
    for each in (session, fork):
        each.ledger().set("courier", "Owl Post")
    engine.ledger(user="ada").set("address", "456 Oak Ave")
    one, other = (each.pack(budget=3_000) for each in (session, fork))
    assert one.anthropic() == other.anthropic()
    assert "Swift Parcel" not in str(one) or "outdated" in str(one)


def test_a_retry_with_a_key_means_the_same_fork(engine: Engine) -> None:
    session = talk(engine)
    first = session.fork(key="k")
    session.record("user", "Meanwhile.")
    assert session.fork(key="k").scope == first.scope
    named = session.fork(3, as_="f", key="n")
    assert session.fork(3, as_="f", key="n").scope == named.scope
    with expect_refusal(engine, errors.KeyConflict):
        session.fork(2, as_="f", key="n")
    with expect_refusal(engine, errors.KeyConflict):
        session.fork(key="n")
    check(engine)


def test_bad_points_and_names_are_refused(engine: Engine) -> None:
    session, other = talk(engine), talk(engine, "other")
    foreign = other.record("user", "elsewhere")
    version = session.state().version
    before = contents(engine)
    for at in (0, -1, version + 1, 2**70, 1.5, True, "", foreign.id, b"x"):
        with pytest.raises((errors.InvalidArgument, errors.InvalidNumber)):
            session.fork(at, as_="f")  # type: ignore[arg-type]
    for name in ("", "x" * 2_000, 7, "a\x00b"):
        with pytest.raises(errors.InvalidName):
            session.fork(as_=name)  # type: ignore[arg-type]
    assert contents(engine) == before
    for name in ("s", "other"):
        with expect_refusal(engine, errors.SessionExists, session=name):
            session.fork(as_=name)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_copies_and_exports_have_the_forks(desk: EngineDesk, kind: str, tmp_path: Path) -> None:
    engine = desk.open(kind)
    session = talk(engine)
    session.ledger().set("lamp", "green")
    fork = session.fork(3, as_="f")
    fork.record("user", "Go on.")
    deep = fork.fork(as_="deep")
    deep.record("user", "Deeper.")
    engine.admin.export(tmp_path / "log.jsonl")
    imported, copied = desk.open("sqlite", "imported"), holdfast.open("memory:")
    imported.admin.import_(tmp_path / "log.jsonl")
    holdfast.copy(engine, copied)
    session.erase([2], "asked to")
    deep.destroy(offload=False)
    holdfast.copy(engine, copied)
    assert rows_of(copied) == rows_of(engine)
    check(copied)
    assert texts(imported.session("deep")) == ["Deeper.", "Go on.", "Which lamp do you mean?", "Where is the lamp?"]
    check(imported)
    copied.close()
