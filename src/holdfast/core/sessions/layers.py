"""The layers of a session beside its facts: identity, working set and environment.

Laws: an identity is set with its session, and changes only when the program refreshes it, in full. The working set ends
with the conversation, the environment with the session. No observation replaces a newer one. Expired items count for
nothing, and make room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from holdfast import codec
from holdfast.errors import InvalidArgument, InvalidInput, describe_value
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import (
    check_ledger_key,
    check_name,
    check_size,
)
from holdfast.model.sessions.commands import (
    ClearEnvironment,
    ClearWorking,
    LayerCommand,
    ObserveEnvironment,
    RefreshIdentity,
    SetWorking,
)
from holdfast.model.sessions.events import (
    EnvironmentCleared,
    EnvironmentObserved,
    IdentityRefreshed,
    SessionCreated,
    WorkingCleared,
    WorkingSet,
)
from holdfast.model.sessions.layers import EnvironmentItem, Identity, WorkingItem
from holdfast.model.state import SessionState
from holdfast.text.validity import read_validity

LAYER_EVENTS = {
    IdentityRefreshed.name,
    WorkingSet.name,
    WorkingCleared.name,
    EnvironmentObserved.name,
    EnvironmentCleared.name,
}


TIMEZONE = "timezone"
LOCATION = "location"
"""Items of these names have fields of their own in an environment."""
UNKNOWN_IDENTITY = Identity(authority="")
"""The identity after its event was erased: the lowest authority, and no permissions."""
_IDENTITY_NAMES = ("user_name", "user_id", "department", "organization")
_LayerItem: TypeAlias = WorkingItem | EnvironmentItem
_Layer: TypeAlias = Mapping[str, _LayerItem]


def is_expired(item: _LayerItem, time_us: int) -> bool:
    return item.expires_us is not None and item.expires_us <= time_us


# Decisions


def decide(state: SessionState, command: LayerCommand, inputs: DecisionInput) -> tuple[Event, ...]:
    match command:
        case RefreshIdentity(identity=identity):
            return () if identity == state.identity else (IdentityRefreshed(identity=identity),)
        case SetWorking():
            return _decide_working(state, command, inputs)
        case ObserveEnvironment():
            return _decide_observation(state, command, inputs)
        case ClearWorking():
            items = _select_items(state.working, command.items)
            return (WorkingCleared(items=items),) if items else ()
        case ClearEnvironment():
            items = _select_items(state.environment, command.items)
            return (EnvironmentCleared(items=items),) if items else ()


def _decide_working(state: SessionState, command: SetWorking, inputs: DecisionInput) -> tuple[Event, ...]:
    expires_us = None if command.ttl_us is None else _add_time(inputs.time_us, command.ttl_us)
    current = state.working.get(command.item)
    if current is not None and current.expires_us == expires_us and _is_same_json(current.value, command.value):
        return ()
    event = WorkingSet(item=command.item, value=command.value, expires_us=expires_us)
    working = fold_event(state, event, event.name, inputs.time_us)["working"]
    _check_room("the working set", working, "Remove items with session.working.clear().")
    return (event,)


def _decide_observation(state: SessionState, command: ObserveEnvironment, inputs: DecisionInput) -> tuple[Event, ...]:
    current = state.environment.get(command.item)
    observed_us = inputs.time_us if command.observed_us is None else command.observed_us
    expires_us = command.expires_us if command.ttl_us is None else _add_time(observed_us, command.ttl_us)
    if expires_us is None and (validity := read_validity(command.value, observed_us)) is not None:
        expires_us = validity.until_us
    if current is not None and observed_us < current.observed_us:
        if command.observed_us is not None:
            return ()
        observed_us = (
            current.observed_us
        )  # an observation without a time is the newest, also after the clock was set back
    same_times = current is not None and (current.observed_us, current.expires_us) == (observed_us, expires_us)
    if current is not None and same_times and _is_same_json(current.value, command.value):
        return ()
    event = EnvironmentObserved(item=command.item, value=command.value, observed_us=observed_us, expires_us=expires_us)
    environment = fold_event(state, event, event.name, inputs.time_us)["environment"]
    if _is_within_limits(environment):
        return (event,)
    expired_items = sorted(
        name for name, item in state.environment.items() if name != event.item and is_expired(item, inputs.time_us)
    )
    _check_room(
        "the environment",
        _drop_items(environment, expired_items),
        "Remove items with session.environment.clear().",
    )
    return EnvironmentCleared(items=tuple(expired_items)), event


def _add_time(time_us: int, more_us: int) -> int:
    return min(time_us + more_us, limits.WHOLE_NUMBER)


def _is_same_json(one: Json, other: Json) -> bool:
    """Compared as JSON: true is not 1, and 1 is not 1.0."""
    return codec.encode(one) == codec.encode(other)


def _select_items(layer: _Layer, items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*items} & {*layer} if items else layer))


def _is_within_limits(layer: _Layer) -> bool:
    return len(layer) <= limits.LAYER_ITEMS and _layer_size(layer) <= limits.LAYER_BYTES


def _check_room(what: str, layer: _Layer, advice: str) -> None:
    advice += " Put large values into the blob store with engine.blobs.put()."
    check_size(what, len(layer), "items", "LAYER_ITEMS", advice)
    check_size(what, _layer_size(layer), "bytes", "LAYER_BYTES", advice)


# Fold


def fold_creation(event: Event | None) -> dict[str, Any]:
    """The changes by the creation of a session."""
    if not isinstance(event, SessionCreated):
        return {"identity": UNKNOWN_IDENTITY}
    changes: dict[str, Any] = {"ledgers": event.ledgers} if event.ledgers else {}
    if event.identity != Identity():
        changes["identity"] = event.identity
    return changes | {"bulk": sum(len(codec.encode(each)) for each in (event.metadata, *changes.values()) if each)}


def fold_event(state: SessionState, event: Event | None, event_type: str, time_us: int) -> dict[str, Any]:
    """The changes by an event about a layer. An erased event sets nothing; if it cleared items, all items are cleared, so
    that none comes back."""
    seq = state.version + 1
    if event_type == IdentityRefreshed.name:
        return _replace_identity(state, event.identity if isinstance(event, IdentityRefreshed) else UNKNOWN_IDENTITY)
    match event:
        case WorkingSet():
            new = WorkingItem(event.value, time_us, event.expires_us, seq)
            return _replace_layer(state, "working", {**_drop_expired(state.working, time_us), event.item: new})
        case EnvironmentObserved():
            seen = EnvironmentItem(event.value, event.observed_us, event.expires_us, seq)
            return _replace_layer(state, "environment", {**state.environment, event.item: seen})
        case WorkingCleared(items=items):
            return _replace_layer(state, "working", _drop_items(state.working, items))
        case EnvironmentCleared(items=items):
            return _replace_layer(state, "environment", _drop_items(state.environment, items))
    if event_type == WorkingSet.name:
        return _replace_layer(state, "working", _drop_expired(state.working, time_us))
    if event_type == EnvironmentObserved.name:
        return {}
    return _replace_layer(state, "working" if event_type == WorkingCleared.name else "environment", {})


def _replace_identity(state: SessionState, identity: Identity) -> dict[str, Any]:
    return {"identity": identity, "bulk": state.bulk + _identity_size(identity) - _identity_size(state.identity)}


def _identity_size(identity: Identity) -> int:
    """The bytes that an identity adds to the weight of a state."""
    return 0 if identity in (Identity(), UNKNOWN_IDENTITY) else len(codec.encode(identity))


def fold_end(state: SessionState, *, closing: bool) -> dict[str, Any]:
    """The changes by the end of a conversation, or of the session."""
    changes = _replace_layer(state, "working", {})
    if closing and state.environment:
        bulk = changes.get("bulk", state.bulk) - _layer_size(state.environment)
        changes |= {"environment": {}, "bulk": bulk}
    return changes


def _replace_layer(state: SessionState, layer: str, after: _Layer) -> dict[str, Any]:
    before: _Layer = getattr(state, layer)
    if not before and not after:
        return {}
    new_size = sum(_item_size(name, item.value) for name, item in after.items() if before.get(name) is not item)
    old_size = sum(_item_size(name, item.value) for name, item in before.items() if after.get(name) is not item)
    return {layer: after, "bulk": state.bulk + new_size - old_size}


def _drop_expired(layer: Mapping[str, WorkingItem], time_us: int) -> dict[str, WorkingItem]:
    return {name: item for name, item in layer.items() if not is_expired(item, time_us)}


def _drop_items(layer: _Layer, items: Iterable[str]) -> dict[str, _LayerItem]:
    names = {*items}
    return {name: item for name, item in layer.items() if name not in names}


def layer_seqs(state: SessionState) -> Iterator[int]:
    """The seqs of the events that set the items of the layers."""
    yield from (item.seq for item in state.working.values())
    yield from (item.seq for item in state.environment.values())


def layer_weight(state: SessionState) -> int:
    """The bytes of the working set and the environment."""
    return _layer_size(state.working) + _layer_size(state.environment)


def _layer_size(layer: _Layer) -> int:
    return sum(_item_size(name, item.value) for name, item in layer.items())


def _item_size(name: str, value: Json) -> int:
    return len(codec.encode(name)) + len(codec.encode(value))


# Checks


def check_identity(identity: object) -> Identity:
    """The identity, checked: names, and sorted permissions, each once."""
    if type(identity) is not Identity:
        raise InvalidArgument(argument="identity", reason=f"{describe_value(identity)} is not a holdfast.Identity")
    named = {field: getattr(identity, field) for field in _IDENTITY_NAMES}
    for field, value in named.items():
        if type(value) is not str or value:  # empty means unknown
            check_name(field, value)
    granted: Any = identity.permissions
    if type(granted) not in (tuple, list, set, frozenset):
        raise InvalidArgument(
            argument="identity.permissions", reason=f"{describe_value(granted)} is not a tuple of names"
        )
    advice = "Name roles instead of single rights."
    check_size("the identity", len(granted), "permissions", "PERMISSIONS", advice)
    permissions = {check_name("permission", each) for each in granted}
    if check_name("authority", identity.authority) != Identity().authority:
        named["authority"] = identity.authority  # the default is left out, so that equal identities have equal bytes
    return Identity(**named, permissions=tuple(sorted(permissions)))


# Faults


def find_layer_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    match event:
        case SessionCreated():
            yield from _creation_faults(event)
        case IdentityRefreshed(identity=identity):
            yield from _identity_faults(identity)
        case WorkingSet():
            yield from _item_faults(event.item, event.value, (event.expires_us,))
            # Only the state before is checked: expired items may have made room for this one.
            if not erased and not _is_within_limits(state.working):
                yield "a working set is bounded"
        case EnvironmentObserved():
            yield from _item_faults(event.item, event.value, (event.observed_us, event.expires_us))
            current = state.environment.get(event.item)
            if current is not None and event.observed_us < current.observed_us:
                yield "an observation never replaces a newer one"
            if event.item == TIMEZONE and not _passes(check_name, TIMEZONE, event.value):
                yield "a timezone has a name"
            if not erased and not _is_within_limits(fold_event(state, event, event.name, 0)["environment"]):
                yield "an environment is bounded"
        case WorkingCleared(items=items) | EnvironmentCleared(items=items):
            layer: _Layer = state.working if isinstance(event, WorkingCleared) else state.environment
            if not items or list(items) != sorted({*items}):
                yield "cleared items are named in order"
            if not erased and not {*items} <= {*layer}:
                yield "cleared items existed"


def _creation_faults(event: SessionCreated) -> Iterator[str]:
    yield from _identity_faults(event.identity)
    keys = event.ledgers
    if len({*keys}) != len(keys) or len(keys) > limits.SESSION_LEDGERS:
        yield "a session reads at most SESSION_LEDGERS ledgers, each once"
    if not all(_passes(check_ledger_key, key) for key in keys):
        yield "a ledger has a kind and names"


def _identity_faults(identity: Identity) -> Iterator[str]:
    if not _passes(check_identity, identity) or check_identity(identity) != identity:
        yield "an identity consists of names, with sorted permissions"


def _item_faults(name: str, value: Json, times_us: Iterable[int | None]) -> Iterator[str]:
    if not _passes(check_name, "item", name):
        yield "an item has a name"
    if not _passes(codec.check_json, "the value", value) or _item_size(name, value) > limits.LAYER_BYTES:
        yield "an item has a value of a bounded size"
    if not all(0 <= (each or 0) <= limits.WHOLE_NUMBER for each in times_us):
        yield "the times of an item are in range"


def _passes(check: Callable[..., object], *arguments: object) -> bool:
    try:
        check(*arguments)
    except InvalidInput:
        return False
    return True
