"""Turns: one owner at a time, numbers that only rise, a queue in order, and a fence around what is over."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.core import faults, invariants
from holdfast.core.decide import decide_session
from holdfast.core.fold import fold_session
from holdfast.core.sessions.turns import find_lease
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import Scope
from holdfast.model.sessions.commands import (
    CloseSession,
    CreateSession,
    EndTurn,
    RenewTurn,
    TakeTurn,
)
from holdfast.model.sessions.events import TurnTaken
from holdfast.model.sessions.turns import TurnFence
from holdfast.model.state import SessionState
from tests.support import figure

SCOPE = Scope("t", "a", "s")
LEASE_US = 60_000_000
SECOND_US = 1_000_000
OWNERS = ("ada", "bob", "cy", "dan")


class World:
    """A session in memory, with a clock that is set by hand."""

    def __init__(self) -> None:
        self.state = SessionState()
        self.now_us = 1_000
        self.execute(CreateSession(scope=SCOPE))

    def execute(self, command: SessionCommand, turn: int | None = None, frame: str | None = None) -> tuple[Event, ...]:
        fence = None if turn is None else TurnFence(SCOPE, frame, turn, LEASE_US)
        inputs = DecisionInput(time_us=self.now_us, tokens=(1,), counter="c", turn=fence)
        events = decide_session(self.state, command, inputs)
        for event in events:
            assert faults.find_fault(self.state, event, event.name) is None
            if isinstance(event, TurnTaken):
                lease = find_lease(self.state, event.frame)
                assert not lease.is_held(self.now_us), "a turn in force is not taken from its owner"
            self.state = fold_session(self.state, event, event.name, self.now_us)
            assert invariants.find_violations(self.state) == []
        return events

    def take(self, owner: str, ticket: int = 0, wait_us: int = 0, lease_us: int = LEASE_US) -> int:
        """The number of the turn, or minus the ticket; 0 if it goes on waiting."""
        command = TakeTurn(scope=SCOPE, owner=owner, lease_us=lease_us, wait_us=wait_us, ticket=ticket)
        events = self.execute(command)
        if not events:
            return 0
        return self.state.version if isinstance(events[0], TurnTaken) else -self.state.version

    def end(self, number: int) -> None:
        self.execute(EndTurn(scope=SCOPE, number=number))


@pytest.fixture
def world() -> World:
    return World()


def test_who_has_the_turn_is_named_to_who_wants_it(world: World) -> None:
    world.take("ada")
    with pytest.raises(errors.TurnBusy) as busy:
        world.take("bob")
    assert (busy.value.owner, busy.value.until_us, busy.value.waiters) == ("ada", 1_000 + LEASE_US, 0)
    assert busy.value.until == "1970-01-01 00:01:00 UTC"


def test_a_turn_that_was_given_back_or_has_expired_is_free(world: World) -> None:
    first = world.take("ada")
    world.end(first)
    second = world.take("bob")
    world.now_us += LEASE_US
    third = world.take("cy")
    assert first < second < third
    world.end(second)  # it is over: nothing happens to the third
    assert world.state.leases[""].owner == "cy"


@pytest.mark.parametrize("end", ["given back", "overtaken"])
def test_nothing_is_stored_under_a_turn_that_is_over(world: World, end: str) -> None:
    number = world.take("ada")
    if end == "given back":
        world.end(number)
    else:
        world.now_us += LEASE_US
        world.take("bob")
    before = world.state
    for command in (CloseSession(scope=SCOPE, reason="done"), RenewTurn(scope=SCOPE, number=number, lease_us=1)):
        with pytest.raises(errors.LeaseLost) as lost:
            world.execute(command, number)
        assert lost.value.owner == ("" if end == "given back" else "bob")
    assert world.state == before


def test_an_expired_turn_that_nobody_took_can_still_be_used_and_renewed(world: World) -> None:
    number = world.take("ada")
    world.now_us += 2 * LEASE_US
    world.execute(RenewTurn(scope=SCOPE, number=number, lease_us=LEASE_US), number)
    with pytest.raises(errors.TurnBusy):
        world.take("bob")


def test_what_is_done_without_a_turn_is_not_affected(world: World) -> None:
    world.take("ada")
    world.execute(CloseSession(scope=SCOPE, reason="done"))
    assert world.state.status == "closed"
    assert world.state.leases == {}


def test_the_end_of_a_session_ends_its_turn_and_the_owner_may_still_leave(world: World) -> None:
    number = world.take("ada")
    world.execute(CloseSession(scope=SCOPE, reason="done"), number)
    world.end(number)
    with pytest.raises(errors.SessionClosedError):
        world.take("bob")


def test_those_who_wait_are_served_in_order(world: World) -> None:
    number = world.take("ada")
    tickets = {owner: -world.take(owner, wait_us=LEASE_US) for owner in OWNERS[1:]}
    assert all(world.take(owner, ticket) == 0 for owner, ticket in tickets.items())
    for owner, ticket in tickets.items():
        world.end(number)
        later = [name for name in tickets if tickets[name] > ticket]
        assert all(world.take(name, tickets[name]) == 0 for name in later), "they wait for those before them"
        number = world.take(owner, ticket)
        assert number > ticket


def test_one_that_does_not_come_in_time_loses_its_place(world: World) -> None:
    number = world.take("ada")
    bob, cy = (-world.take(owner, wait_us=LEASE_US) for owner in ("bob", "cy"))
    world.end(number)
    assert world.take("cy", cy) == 0
    world.now_us += limits.TURN_GRACE_US
    assert world.take("cy", cy) > 0
    assert world.take("bob", bob, wait_us=1) < 0, "bob begins again at the end of the queue"


def test_the_queue_is_bounded_and_forgets_those_who_wait_no_longer(world: World) -> None:
    world.take("ada")
    for number in range(limits.TURN_WAITERS):
        world.take(f"w{number}", wait_us=SECOND_US)
    with pytest.raises(errors.TurnBusy) as busy:
        world.take("bob", wait_us=SECOND_US)
    assert busy.value.waiters == limits.TURN_WAITERS
    world.now_us += SECOND_US
    assert world.take("bob", wait_us=SECOND_US) < 0
    assert len(world.state.leases[""].waiters) == 1


def test_if_the_event_of_a_turn_was_erased_no_turn_is_in_force(world: World) -> None:
    number = world.take("ada")
    world.state = fold_session(world.state, None, TurnTaken.name, world.now_us)
    with pytest.raises(errors.LeaseLost):
        world.execute(CloseSession(scope=SCOPE, reason="done"), number)
    assert world.take("bob") > number


class Client:
    """Somebody who tries to work in turns: takes one, holds it for a while, and may die at any time."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name, self._rng = name, rng
        self.ticket = self.number = self.until_us = 0

    def act(self, world: World, served: list[tuple[str, int]]) -> None:
        if self.number:
            if self._rng.random() < 0.3:
                world.end(self.number)
                self.number = 0
            elif self._rng.random() < 0.2:
                self.number = 0  # it dies
            return
        try:
            answer = world.take(self.name, self.ticket, wait_us=LEASE_US * 10)
        except errors.TurnBusy:
            return
        if answer > 0:
            served.append((self.name, self.ticket))
            self.number, self.ticket = answer, 0
        elif answer < 0:
            self.ticket = -answer


@settings(max_examples=figure(60, 5_000), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6))
def test_in_random_days_one_owner_at_a_time_works_and_turns_go_by_tickets(seed: int, clients: int) -> None:
    rng, world = random.Random(seed), World()
    people = [Client(f"p{number}", rng) for number in range(clients)]
    last = 0
    served: list[tuple[str, int]] = []
    for _ in range(120):
        for each in rng.sample(people, len(people)):  # all of them try at every instant, in any order
            each.act(world, served)
        lease = find_lease(world.state, None)
        assert sum(each.number == lease.number for each in people if each.number and lease.owner) <= 1
        assert lease.number >= last
        last = lease.number
        world.now_us += rng.choice([1, 1_000, SECOND_US // 10])
    tickets = [ticket for _, ticket in served if ticket]
    assert tickets == sorted(tickets), "whoever keeps trying is served in the order of arrival"


def test_a_turn_that_ends_after_the_last_date_is_still_named(world: World) -> None:
    world.now_us = limits.WHOLE_NUMBER - 1
    world.take("ada")
    with pytest.raises(errors.TurnBusy) as busy:
        world.take("bob")
    assert (busy.value.until_us, busy.value.until) == (limits.WHOLE_NUMBER, "9999-12-31 23:59:59 UTC")
