"""The layers of a session: identity, working set and environment.

Law: only these operations set them. No message and no tool result does.
"""

from __future__ import annotations

from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from holdfast import codec
from holdfast.conversion import to_json
from holdfast.core.sessions import layers
from holdfast.errors import InvalidArgument, describe_value
from holdfast.flows.context import SessionContext, execute_command, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.sessions.ingest import to_microseconds
from holdfast.model.names import check_name, check_size, check_whole
from holdfast.model.sessions.commands import (
    ClearEnvironment,
    ClearWorking,
    ObserveEnvironment,
    RefreshIdentity,
    SetWorking,
)
from holdfast.model.sessions.layers import Environment, EnvironmentItem, Identity, WorkingItem
from holdfast.model.state import SessionState

T = TypeVar("T", WorkingItem, EnvironmentItem)


LAST_DATE_US = 253_370_764_800_000_000
"""The start of the year 9999, the last one that `datetime` knows."""


def refresh_identity(
    context: SessionContext,
    identity: Identity,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Replace the identity of the session, all of its fields."""
    command = RefreshIdentity(scope=context.scope, identity=layers.check_identity(identity))
    yield from execute_command(context, command, key=key, expect=expect, cause=cause)


def set_working(
    context: SessionContext,
    name: str,
    value: Any,
    *,
    ttl_s: float | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Set an item of the working set."""
    command = SetWorking(
        scope=context.scope,
        item=check_name("item", name),
        value=to_json("the value", value),
        ttl_us=None if ttl_s is None else to_microseconds("ttl_s", ttl_s),
    )
    yield from execute_command(context, command, key=key, cause=cause)


def working(context: SessionContext) -> Flow[dict[str, WorkingItem]]:
    """The items of the working set that have not expired, by name."""
    state = yield from load_session(context)
    now_us = context.engine.clock.now_us()
    return {
        name: _copy_item(item) for name, item in sorted(state.working.items()) if not layers.is_expired(item, now_us)
    }


def clear_working(context: SessionContext, *names: str, key: str | None = None, cause: str | None = None) -> Flow[None]:
    """Remove these items from the working set; without names, all of them."""
    yield from execute_command(
        context, ClearWorking(scope=context.scope, items=_check_items(names)), key=key, cause=cause
    )


def set_environment(
    context: SessionContext,
    name: str,
    value: Any,
    *,
    observed_at_us: int | None = None,
    ttl_s: float | None = None,
    expires_at_us: int | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Record an observation of the environment: `timezone`, `location`, or any other item."""
    if ttl_s is not None and expires_at_us is not None:
        raise InvalidArgument(argument="expires_at_us", reason="pass either ttl_s or expires_at_us, not both")
    item = check_name("item", name)
    command = ObserveEnvironment(
        scope=context.scope,
        item=item,
        value=_check_timezone(value) if item == layers.TIMEZONE else to_json("the value", value),
        observed_us=None if observed_at_us is None else check_whole("observed_at_us", observed_at_us),
        ttl_us=None if ttl_s is None else to_microseconds("ttl_s", ttl_s),
        expires_us=None if expires_at_us is None else check_whole("expires_at_us", expires_at_us),
    )
    yield from execute_command(context, command, key=key, cause=cause)


def environment(context: SessionContext, *, as_of_us: int | None = None) -> Flow[Environment]:
    """The environment now, or at another time: the time, and the observations that have not expired by then."""
    time_us = None if as_of_us is None else check_whole("as_of_us", as_of_us, 0, LAST_DATE_US)
    state = yield from load_session(context)
    if time_us is None:
        time_us = context.engine.clock.now_us()
    items = {name: _copy_item(item) for name, item in state.environment.items() if not layers.is_expired(item, time_us)}
    timezone, location = items.pop(layers.TIMEZONE, None), items.pop(layers.LOCATION, None)
    return Environment(
        time_us=time_us,
        timezone="UTC" if timezone is None else _check_timezone(timezone.value),  # this machine may not know it
        location=None if location is None else location.value,
        external_data=dict(sorted(items.items())),
    )


def clear_environment(
    context: SessionContext, *names: str, key: str | None = None, cause: str | None = None
) -> Flow[None]:
    """Remove the observations under these names; without names, all of them."""
    yield from execute_command(
        context, ClearEnvironment(scope=context.scope, items=_check_items(names)), key=key, cause=cause
    )


def copy_layers(state: SessionState) -> SessionState:
    """The state with copies of its layers, which the caller may change."""
    return msgspec.structs.replace(
        state,
        working={name: _copy_item(item) for name, item in state.working.items()},
        environment={name: _copy_item(item) for name, item in state.environment.items()},
    )


def _copy_item(item: T) -> T:
    return msgspec.structs.replace(item, value=codec.check_json("the value", item.value))


def _check_items(names: tuple[object, ...]) -> tuple[str, ...]:
    check_size("the call", len(names), "names", "LAYER_ITEMS", "Pass no names to clear all items.")
    return tuple(check_name("item", name) for name in names)


def _check_timezone(value: object) -> str:
    name = check_name("timezone", value)
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        reason = f"{describe_value(name)} is not known here; pass a name like Europe/Lisbon, or install tzdata"
        raise InvalidArgument(argument="timezone", reason=reason) from error
    return name
