"""Turns through sessions: one owner at a time, on every store, blocking and awaited."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import errors
from tests.edges.engines import EngineDesk, ManualClock, expect_refusal

LEASE_S = 60


def types_of(session: holdfast.Session) -> list[str]:
    return [event.type for event in session.events()]


def test_a_turn_is_taken_and_given_back(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    with session.turn(owner="ada") as turn:
        turn.record("user", "Hello.")
        with expect_refusal(engine, errors.TurnBusy, owner="ada", session="s", frame=None, waiters=0):
            session.turn(wait_s=0).__enter__()
    assert types_of(session) == ["session.created", "turn.taken", "message.recorded", "turn.ended"]
    with session.turn(wait_s=0):
        pass


def test_all_that_is_done_through_a_turn_is_refused_once_it_is_over(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    with session.turn() as turn:
        call = turn.record("assistant", "", tool_calls=[{"name": "look"}]).tool_calls[0]
        frame = turn.frame("work", budget=1_000)
        turn.record("user", "Forget it.")
        withdrawal = turn.withdraw()
        assert withdrawal is not None
    writes = (
        lambda: turn.record("user", "Hello."),
        lambda: turn.result(call, "Done."),
        lambda: turn.start_call(call),
        lambda: turn.facts.set("city", "Rome"),
        lambda: turn.ledger().set("city", "Rome"),
        lambda: turn.observe("My city is Rome."),
        lambda: turn.working.set("a", 1),
        lambda: turn.environment.set("a", 1),
        lambda: turn.frame("more", budget=10),
        lambda: frame.record("user", "Hello."),
        lambda: frame.pop("completed", "Done."),
        turn.withdraw,
        lambda: turn.restore(withdrawal),
        lambda: turn.reset("again"),
        lambda: turn.erase([2], "asked to"),
        turn.end,
    )
    for write in writes:
        with expect_refusal(engine, errors.LeaseLost, session="s", owner=""):
            write()
    assert turn.pack(budget=1_000, settle=False).manifest is not None, "it can still be read"
    session.record("user", "Hello.")


def test_facts_under_a_turn_are_stored_with_a_check_of_the_turn(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    with session.turn() as turn:
        assert turn.facts.set("city", "Rome", key="k") == turn.facts.set("city", "Rome", key="k")
    assert types_of(session).count("turn.renewed") == 1
    fact = session.facts.set("city", "Rome", key="k")  # the same command without a turn
    assert fact.value == "Rome"


def test_a_frame_has_turns_of_its_own(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    one, other = (session.frame(goal, budget=1_000) for goal in ("one", "other"))
    with session.turn() as outer, one.turn() as first, other.turn() as second:
        with pytest.raises(errors.TurnBusy):
            one.turn(wait_s=0).__enter__()
        outer.record("user", "in the session")
        first.record("user", "in one")
        second.pop("completed", "Done.")
    assert session.state().leases.keys() == {"", one.id}
    with pytest.raises(errors.AlreadyTerminal):
        other.turn().__enter__()


def test_the_owner_of_an_expired_turn_is_overtaken_and_stores_nothing_more(desk: EngineDesk) -> None:
    for kind in ("memory", "sqlite", "postgres"):
        clock = ManualClock()
        engine = desk.open(kind, clock=clock)
        session = engine.create_session("s")
        first = session.turn(lease_s=LEASE_S, owner="first")
        slow = first.__enter__()
        said = slow.record("user", "Hello.")
        slow.facts.set("greeting", "Hello.", provenance=said.id)
        slow.record("user", "Are you there?")
        withdrawal = slow.withdraw()
        assert withdrawal is not None
        clock.now_s += LEASE_S + 1
        with session.turn(owner="second") as turn:
            turn.record("assistant", "Hello, I am the second.")
            with expect_refusal(engine, errors.LeaseLost, owner="second"):
                slow.record("assistant", "Hello, I am the first.")
            with expect_refusal(engine, errors.LeaseLost, owner="second"):
                slow.withdraw(after=0)  # with a fact of a ledger
            with expect_refusal(engine, errors.LeaseLost, owner="second"):
                slow.restore(withdrawal)
        first.__exit__(None, None, None)
        shown = session.context.view().messages
        assert [message.text for message in shown] == ["Hello.", "Hello, I am the second."]
        assert engine.admin.verify().ok


def test_a_turn_is_renewed_while_its_block_runs() -> None:
    with holdfast.open("memory:", clock=ManualClock()) as engine:  # which stands still: no turn ends by being late
        session = engine.create_session("s")
        with session.turn(lease_s=0.1) as turn:
            while types_of(session).count("turn.renewed") < 3:
                time.sleep(0.01)
            turn.record("user", "Still here.")
        threads = [each.name for each in threading.enumerate()]
        assert "holdfast-turn" not in threads


def test_an_awaited_turn_is_renewed_and_leaves_no_task_behind() -> None:
    async def main() -> None:
        async with await holdfast.open_async("memory:", clock=ManualClock()) as engine:
            session = await engine.create_session("s")
            async with session.turn(lease_s=0.1) as turn:
                while [event.type for event in await session.events()].count("turn.renewed") < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await turn.record("user", "Still here.")
            assert {task.get_name() for task in asyncio.all_tasks()} & {"holdfast-turn"} == set()

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_it_waits_or_works_gives_its_turn_back() -> None:
    async def main() -> None:
        async with await holdfast.open_async("memory:") as engine:
            session = await engine.create_session("s")

            async def work() -> None:
                async with session.turn():
                    await asyncio.sleep(3_600)

            tasks = [asyncio.create_task(work()) for _ in range(3)]
            while sum(event.type == "turn.awaited" for event in await session.events()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            async with session.turn(wait_s=10) as turn:
                await turn.record("user", "Hello.")

    asyncio.run(main())


def test_a_task_that_is_cancelled_again_and_again_gives_its_turn_back() -> None:
    """As anyio cancels, and with it every stream of a web server whose client goes away."""

    async def main() -> None:
        async with await holdfast.open_async("memory:") as engine:
            session = await engine.create_session("s")

            async def work() -> None:
                async with session.turn():
                    await asyncio.sleep(3_600)

            task = asyncio.create_task(work())
            while (await session.state()).version < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            async with session.turn(wait_s=0) as turn:
                await turn.record("user", "Hello.")

    asyncio.run(main())


@pytest.mark.parametrize("how", ["threads", "tasks"])
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_turns_of_many_do_not_mix(kind: str, how: str, desk: EngineDesk, tmp_path: Path) -> None:
    """Each turn records a question and a reply; none comes between them."""
    people, rounds = 6, 3

    def work(session: Any, name: str) -> None:
        for number in range(rounds):
            with session.turn() as turn:
                turn.record("user", f"{name} {number}")
                turn.record("assistant", f"{name} {number}")

    async def work_awaited(session: Any, name: str) -> None:
        for number in range(rounds):
            async with session.turn() as turn:
                await turn.record("user", f"{name} {number}")
                await turn.record("assistant", f"{name} {number}")

    async def gather(url: str) -> None:
        async with await holdfast.open_async(url) as engine:
            session = await engine.session("s")
            await asyncio.gather(*(work_awaited(session, f"p{number}") for number in range(people)))

    url = "memory:" if kind == "memory" else desk.address(kind)
    with holdfast.open(url) as engine:
        session = engine.create_session("s")
        if how == "tasks" and kind != "memory":
            asyncio.run(gather(url))
        else:
            threads = [threading.Thread(target=work, args=(session, f"p{number}")) for number in range(people)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        texts = [message.text for message in session.messages(limit=1_000)]
        assert len(texts) == 2 * people * rounds
        assert texts[::2] == texts[1::2]
        assert engine.admin.verify().ok


def test_a_tool_that_runs_in_a_turn_runs_elsewhere_and_after_the_turn_its_outcome_is_unknown(desk: EngineDesk) -> None:
    clock = ManualClock()
    engine = desk.open("memory", clock=clock)
    session = engine.create_session("s")
    block = session.turn(lease_s=LEASE_S, owner="worker 1")
    turn = block.__enter__()
    call = turn.record("assistant", "", tool_calls=[{"name": "pay"}]).tool_calls[0]
    turn.start_call(call)
    [pending] = session.recover().pending_work
    assert (pending.kind, pending.description) == ("tool_running", "pay is running in the turn of worker 1")
    assert session.recover().unknown_outcomes == ()
    for again in (False, True):
        with expect_refusal(engine, errors.TurnBusy, owner="worker 1"):
            session.start_call(call, again=again)
    assert [each.kind for each in turn.recover().pending_work] == ["tool_in_progress"]
    clock.now_s += LEASE_S + 1  # the worker died
    [pending] = session.recover().unknown_outcomes
    assert pending.call == call.id
    with session.turn() as other, pytest.raises(errors.OutcomeUnknown):
        other.start_call(call)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"lease_s": 0}, "lease_s"),
        ({"lease_s": "60"}, "lease_s"),
        ({"lease_s": float("inf")}, "lease_s"),
        ({"wait_s": -1}, "wait_s"),
        ({"wait_s": None}, "wait_s"),
        ({"owner": ""}, "owner"),
        ({"owner": "a\nb"}, "owner"),
        ({"owner": 7}, "owner"),
    ],
)
def test_what_cannot_be_is_refused(engine: holdfast.Engine, options: dict[str, Any], argument: str) -> None:
    session = engine.create_session("s")
    with pytest.raises(errors.InvalidInput, match=f"`{argument}`"):
        session.turn(**options).__enter__()
    assert types_of(session) == ["session.created"]
