"""Who speaks in a session, what is at hand in it, and what is around it.

Law: only these operations set it. Nothing that is said in the conversation does, whoever says it, and no tool's result.
"""

from __future__ import annotations

from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from holdfast import codec
from holdfast.conversion import to_json
from holdfast.core import layers
from holdfast.core.sessions import check_there
from holdfast.errors import InvalidContent, shown
from holdfast.flows.effects import Flow
from holdfast.flows.ingest import microseconds
from holdfast.flows.load import load
from holdfast.flows.place import Place, order
from holdfast.model.commands import ClearEnvironment, ClearWorking, ObserveEnvironment, RefreshIdentity, SetWorking
from holdfast.model.layers import Environment, Identity, Surrounding, WorkingItem
from holdfast.model.names import check_size, checked_name, checked_whole
from holdfast.model.state import SessionState

T = TypeVar("T", WorkingItem, Surrounding)

LAST_DATE_US = 253_370_764_800_000_000
"""The year 9999 begins: the last one that a calendar has."""


def refresh_identity(
    place: Place,
    identity: Identity,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Replace the identity of the session with what the authenticated channel says now: all of its fields.

    From then on a pack, a search, a read or a write through the session has these permissions and this authority, in every
    process; what needs a revoked permission is withheld. This is for the program that runs the session: nothing in the
    conversation can do it. The same identity again changes nothing. A closed session can be refreshed too."""
    command = RefreshIdentity(scope=place.scope, identity=layers.checked_identity(identity))
    yield from order(place, command, key=key, expect=expect, cause=cause)


def set_working(
    place: Place,
    name: str,
    value: Any,
    *,
    ttl_s: float | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Keep something at hand under this name, in place of what was there: until its time has run out, and not beyond the
    conversation. Setting the same again changes nothing."""
    command = SetWorking(
        scope=place.scope,
        item=checked_name("item", name),
        value=to_json("the value", value),
        ttl_us=None if ttl_s is None else microseconds("ttl_s", ttl_s),
    )
    yield from order(place, command, key=key, cause=cause)


def working(place: Place) -> Flow[dict[str, WorkingItem]]:
    """What is at hand now, by name."""
    found = yield from _there(place)
    now_us = place.context.clock.now_us()
    return {name: _own(item) for name, item in sorted(found.working.items()) if not layers.ran_out(item, now_us)}


def clear_working(place: Place, *names: str, key: str | None = None, cause: str | None = None) -> Flow[None]:
    """Put away what goes by these names; without any, all that is at hand."""
    yield from order(place, ClearWorking(scope=place.scope, items=_checked(names)), key=key, cause=cause)


def set_environment(
    place: Place,
    name: str,
    value: Any,
    *,
    observed_at_us: int | None = None,
    ttl_s: float | None = None,
    expires_at_us: int | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Say how something around the session was found: `timezone`, `location`, or anything else that changes without it.

    This is for the program that runs the session: nothing in the conversation can do it, whatever the role, and no tool's
    result. What was observed earlier than what is known changes nothing. `ttl_s` counts from the observation."""
    if ttl_s is not None and expires_at_us is not None:
        raise InvalidContent(reason="either ttl_s or expires_at_us says how long it holds, not both")
    item = checked_name("item", name)
    command = ObserveEnvironment(
        scope=place.scope,
        item=item,
        value=_checked_timezone(value) if item == layers.TIMEZONE else to_json("the value", value),
        observed_us=None if observed_at_us is None else checked_whole("observed_at_us", observed_at_us),
        ttl_us=None if ttl_s is None else microseconds("ttl_s", ttl_s),
        expires_us=None if expires_at_us is None else checked_whole("expires_at_us", expires_at_us),
    )
    yield from order(place, command, key=key, cause=cause)


def environment(place: Place, *, as_of_us: int | None = None) -> Flow[Environment]:
    """What is around now, or at another moment: the time and the date, and what was observed and has not run out by then.
    Nothing in the conversation can change it."""
    time_us = None if as_of_us is None else checked_whole("as_of_us", as_of_us, 0, LAST_DATE_US)
    found = yield from _there(place)
    if time_us is None:
        time_us = place.context.clock.now_us()
    around = {name: _own(item) for name, item in found.environment.items() if not layers.ran_out(item, time_us)}
    timezone, location = around.pop(layers.TIMEZONE, None), around.pop(layers.LOCATION, None)
    return Environment(
        time_us=time_us,
        timezone="UTC" if timezone is None else _checked_timezone(timezone.value),  # another machine may not know it
        location=None if location is None else location.value,
        external_data=dict(sorted(around.items())),
    )


def clear_environment(place: Place, *names: str, key: str | None = None, cause: str | None = None) -> Flow[None]:
    """Forget what was observed under these names; without any, all of it. Nothing in the conversation can do that."""
    yield from order(place, ClearEnvironment(scope=place.scope, items=_checked(names)), key=key, cause=cause)


def _there(place: Place) -> Flow[SessionState]:
    found = yield from load(place.scope.stream, place.context.cache, fresh=True)
    check_there(found, place.scope)
    return found


def owned(found: SessionState) -> SessionState:
    """A state whose layers the caller may do with as he likes; ours stays."""
    return msgspec.structs.replace(
        found,
        working={name: _own(item) for name, item in found.working.items()},
        environment={name: _own(item) for name, item in found.environment.items()},
    )


def _own(item: T) -> T:
    return msgspec.structs.replace(item, value=codec.checked_json("the value", item.value))


def _checked(names: tuple[object, ...]) -> tuple[str, ...]:
    check_size("the call", len(names), "names", "LAYER_ITEMS", "Without any name, all is cleared.")
    return tuple(checked_name("item", name) for name in names)


def _checked_timezone(value: object) -> str:
    name = checked_name("timezone", value)
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        reason = f"the timezone {shown(name)} is not known here; name one as in Europe/Lisbon, or install tzdata"
        raise InvalidContent(reason=reason) from error
    return name
