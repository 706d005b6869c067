"""Turns over HTTP: take one, renew it, give it back.

Law: each request tries once and returns at once, so that no connection waits for another owner.
"""

from __future__ import annotations

import re
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from starlette.responses import Response

import holdfast
from holdfast.api.parts import TurnDemand, TurnOffer, TurnRenewal
from holdfast.api.wire import write_turn
from holdfast.errors import InvalidArgument
from holdfast.flows.sessions import turns
from holdfast.flows.sessions.ingest import to_microseconds
from holdfast.model.names import check_whole
from holdfast.model.sessions.turns import TurnFence
from holdfast.runtime.async_driver import run_uncancelled
from holdfast.server.native.calls import Answer, Call
from holdfast.server.native.objects import bind_turn, open_conversation

T = TypeVar("T", bound=msgspec.Struct)
_FIELD = re.compile(r" - at `\$\.(\w+)`$")
"""Where a message of msgspec names the field that it is about."""


async def read_demand(call: Call, kind: type[T]) -> T:
    """The body of a request as a struct."""
    try:
        return msgspec.convert(await call.read_json(), kind)
    except msgspec.ValidationError as error:
        raise _describe(kind, str(error)) from None


def _describe(kind: type[msgspec.Struct], reason: str) -> InvalidArgument:
    """Name the field that is wrong, and what it may be."""
    hints = get_type_hints(kind)
    if (found := _FIELD.search(reason)) is None or found[1] not in hints:
        return InvalidArgument(argument="body", reason=f"{reason}; its fields are {', '.join(hints)}")
    hint = hints[found[1]]
    if get_origin(hint) is Literal:
        return InvalidArgument(argument=found[1], reason=f"it is not one of {', '.join(get_args(hint))}")
    return InvalidArgument(argument=found[1], reason=reason[: found.start()])


async def take_turn(call: Call) -> Response:
    """Try once to take the turn."""
    demand = await read_demand(call, TurnDemand)
    conversation = await open_conversation(call)
    request = turns.check_request(demand.owner, demand.lease_s, demand.wait_s)
    ticket = check_whole("ticket", demand.ticket)
    answer = await run_uncancelled(conversation._drive(turns.take(conversation._context, request, ticket)))
    turn = None if answer.context is None else answer.context.engine.turn
    if turn is None:
        return Answer(msgspec.json.encode(TurnOffer(ticket=answer.ticket, lease_us=request.lease_us)), 202)
    offer = TurnOffer(
        number=turn.number,
        ticket=answer.ticket,
        lease_us=turn.lease_us,
        frame=turn.frame,
        header=write_turn(turn),
    )
    return Answer(msgspec.json.encode(offer), 201)


async def renew_turn(call: Call) -> Response:
    """Keep a turn for its time from now."""
    lease_us = to_microseconds("lease_s", (await read_demand(call, TurnRenewal)).lease_s)
    bound = await _open_bound(call, lease_us)
    await bound._drive(turns.renew(bound._context))
    return Response(status_code=204)


async def end_turn(call: Call) -> Response:
    """Give a turn back."""
    bound = await _open_bound(call, 0)
    await bound._drive(turns.end(bound._context))
    return Response(status_code=204)


async def _open_bound(call: Call, lease_us: int) -> holdfast.AsyncSession | holdfast.AsyncFrame:
    text = call.names["number"]
    is_number = text.isascii() and text.isdigit() and len(text) <= 19
    number = check_whole("the number of the turn", int(text) if is_number else text)
    opened = await open_conversation(call)
    fence = TurnFence(opened.scope, opened._context.frame, number, lease_us)
    return bind_turn(opened, fence)
