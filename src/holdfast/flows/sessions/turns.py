"""Turns: take one, renew it, give it back."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.core.upcast import decode_event
from holdfast.flows.context import SessionContext, execute_command
from holdfast.flows.effects import Flow
from holdfast.flows.sessions.ingest import to_microseconds
from holdfast.model.names import check_name
from holdfast.model.sessions.commands import EndTurn, RenewTurn, TakeTurn
from holdfast.model.sessions.events import TurnAwaited, TurnTaken
from holdfast.model.sessions.turns import TurnFence


class TurnRequest(NamedTuple):
    """What an owner asks for."""

    owner: str
    lease_us: int
    wait_us: int


class TurnAnswer(NamedTuple):
    """The answer to one try: the context of the turn, or the place in the queue."""

    context: SessionContext | None
    ticket: int


def check_request(owner: object, lease_s: object, wait_s: object) -> TurnRequest:
    wait_us = 0 if wait_s == 0 else to_microseconds("wait_s", wait_s)
    return TurnRequest(check_name("owner", owner), to_microseconds("lease_s", lease_s), wait_us)


def take(context: SessionContext, request: TurnRequest, ticket: int = 0) -> Flow[TurnAnswer]:
    """Try once to take the turn. Raises TurnBusy if there is no place in the queue, or no time to wait."""
    command = TakeTurn(
        scope=context.scope,
        owner=request.owner,
        lease_us=request.lease_us,
        wait_us=request.wait_us,
        ticket=ticket,
        frame=context.frame,
    )
    appended = yield from execute_command(context, command)
    for recorded in appended.events:
        event = decode_event(recorded)
        if isinstance(event, TurnTaken):
            fence = TurnFence(context.scope, context.frame, recorded.seq, request.lease_us)
            engine = msgspec.structs.replace(context.engine, turn=fence)
            return TurnAnswer(msgspec.structs.replace(context, engine=engine), recorded.seq)
        if isinstance(event, TurnAwaited):
            return TurnAnswer(None, recorded.seq)
    return TurnAnswer(None, ticket)


def renew(context: SessionContext) -> Flow[None]:
    """Keep the turn for its time from now. Raises LeaseLost if it is over."""
    turn = _turn_of(context)
    command = RenewTurn(scope=turn.scope, number=turn.number, lease_us=turn.lease_us, frame=turn.frame)
    yield from execute_command(context, command)


def end(context: SessionContext) -> Flow[None]:
    """Give the turn back. Changes nothing if it is over."""
    turn = _turn_of(context)
    yield from execute_command(context, EndTurn(scope=turn.scope, number=turn.number, frame=turn.frame))


def _turn_of(context: SessionContext) -> TurnFence:
    turn = context.engine.turn
    assert turn is not None, "the context of a turn has one"
    return turn
