"""What a frame does with its budget. Tokens are spend: what model calls consume, not what a context holds."""

from __future__ import annotations

from holdfast.errors import InvalidNumber, shown
from holdfast.flows import ingest
from holdfast.flows.effects import Flow
from holdfast.flows.frames import own
from holdfast.flows.place import Place, order
from holdfast.model import limits
from holdfast.model.commands import CancelTokens, CommitTokens, GrantTokens, ReserveTokens
from holdfast.model.content import Usage
from holdfast.model.frames import Reservation, reservation_id
from holdfast.model.names import checked_name, checked_whole


def reserve(
    place: Place,
    purpose: str,
    amount: int,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Reservation]:
    """Keep tokens for a purpose, until they are committed or cancelled, once; InsufficientTokens if there are fewer."""
    command = ReserveTokens(
        scope=place.scope,
        frame=own(place),
        purpose=checked_name("purpose", purpose),
        amount=checked_whole("the amount", amount),
    )
    (recorded,) = (yield from order(place, command, key=key, expect=expect, cause=cause)).events
    return Reservation(reservation_id(recorded.seq), purpose, amount)


def commit(
    place: Place,
    reservation: Reservation | str,
    actual: int | Usage,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """What was reserved is over, and this is what was used: tokens, or the provider's figures. It may be more than was
    reserved, and more than there was."""
    tokens, usage = _spent(place, actual)
    command = CommitTokens(
        scope=place.scope, frame=own(place), reservation=_checked(reservation), tokens=tokens, usage=usage
    )
    yield from order(place, command, key=key, expect=expect, cause=cause)


def cancel(
    place: Place,
    reservation: Reservation | str,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """What was reserved is not needed."""
    command = CancelTokens(scope=place.scope, frame=own(place), reservation=_checked(reservation))
    yield from order(place, command, key=key, expect=expect, cause=cause)


def use(
    place: Place,
    actual: int | Usage,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Tokens were used that nobody reserved. Replies that are recorded in the frame are counted already."""
    tokens, usage = _spent(place, actual)
    command = CommitTokens(scope=place.scope, frame=own(place), reservation=None, tokens=tokens, usage=usage)
    yield from order(place, command, key=key, expect=expect, cause=cause)


def grant(
    place: Place,
    amount: int,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Let the frame spend so many tokens more. They come from its parent's budget, if it has a parent."""
    command = GrantTokens(scope=place.scope, frame=own(place), amount=checked_whole("the amount", amount))
    yield from order(place, command, key=key, expect=expect, cause=cause)


def _checked(reservation: object) -> str:
    return checked_name("reservation", reservation.id if type(reservation) is Reservation else reservation)


def _spent(place: Place, actual: object) -> tuple[int, Usage | None]:
    if type(actual) is int:
        return checked_whole("the tokens used", actual), None
    if type(actual) not in (Usage, dict):
        raise InvalidNumber(what="the tokens used", value=shown(actual), low=0, high=limits.WHOLE_NUMBER)
    usage = ingest.checked_usage(actual)
    assert usage is not None, "only None has no usage"
    return min(place.context.weights.spend(usage), limits.WHOLE_NUMBER), usage
