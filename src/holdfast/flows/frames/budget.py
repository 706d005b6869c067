"""The budget of a frame. It counts the tokens that model calls consume, not the size of a context."""

from __future__ import annotations

from holdfast.errors import InvalidNumber, describe_value
from holdfast.flows.context import SessionContext, execute_command
from holdfast.flows.effects import Flow
from holdfast.flows.frames.frames import require_frame
from holdfast.flows.sessions import ingest
from holdfast.model import limits
from holdfast.model.content import Usage
from holdfast.model.frames.commands import CancelTokens, CommitTokens, GrantTokens, ReserveTokens
from holdfast.model.frames.frames import Reservation, reservation_id
from holdfast.model.names import check_name, check_whole


def reserve(
    context: SessionContext,
    purpose: str,
    amount: int,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Reservation]:
    """Reserve tokens for a purpose; InsufficientTokens if there are fewer."""
    command = ReserveTokens(
        scope=context.scope,
        frame=require_frame(context),
        purpose=check_name("purpose", purpose),
        amount=check_whole("the amount", amount),
    )
    (recorded,) = (yield from execute_command(context, command, key=key, expect=expect, cause=cause)).events
    return Reservation(reservation_id(recorded.seq), purpose, amount)


def commit(
    context: SessionContext,
    reservation: Reservation | str,
    actual: int | Usage,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """End a reservation with the tokens that were used, which may be more than the reservation or the budget."""
    tokens, usage = _check_spend(context, actual)
    command = CommitTokens(
        scope=context.scope,
        frame=require_frame(context),
        reservation=_check_reservation(reservation),
        tokens=tokens,
        usage=usage,
    )
    yield from execute_command(context, command, key=key, expect=expect, cause=cause)


def cancel(
    context: SessionContext,
    reservation: Reservation | str,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """End a reservation that is not needed."""
    command = CancelTokens(
        scope=context.scope, frame=require_frame(context), reservation=_check_reservation(reservation)
    )
    yield from execute_command(context, command, key=key, expect=expect, cause=cause)


def use(
    context: SessionContext,
    actual: int | Usage,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Record tokens that were used without a reservation."""
    tokens, usage = _check_spend(context, actual)
    command = CommitTokens(
        scope=context.scope, frame=require_frame(context), reservation=None, tokens=tokens, usage=usage
    )
    yield from execute_command(context, command, key=key, expect=expect, cause=cause)


def grant(
    context: SessionContext,
    amount: int,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Add tokens to the budget, from the budget of the parent if there is one."""
    command = GrantTokens(scope=context.scope, frame=require_frame(context), amount=check_whole("the amount", amount))
    yield from execute_command(context, command, key=key, expect=expect, cause=cause)


def _check_reservation(reservation: object) -> str:
    return check_name("reservation", reservation.id if type(reservation) is Reservation else reservation)


def _check_spend(context: SessionContext, actual: object) -> tuple[int, Usage | None]:
    if type(actual) is int:
        return check_whole("the tokens used", actual), None
    if type(actual) not in (Usage, dict):
        raise InvalidNumber(what="the tokens used", value=describe_value(actual), low=0, high=limits.WHOLE_NUMBER)
    usage = ingest.check_usage(actual)
    assert usage is not None, "actual is not None here"
    return min(context.engine.weights.count_spend(usage), limits.WHOLE_NUMBER), usage
