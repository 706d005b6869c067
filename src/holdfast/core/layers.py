"""The layers of a session beside its facts: who speaks, what is at hand, what is around.

Laws: an identity is set with its session, and changes only when the program refreshes it, as a whole; what is at hand goes
with the conversation, what is around stays until the session ends; no observation replaces a newer one; what has run out
counts for nothing, and makes room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, get_args

from holdfast import codec
from holdfast.core.validity import read_validity
from holdfast.errors import InvalidContent, InvalidInput, shown
from holdfast.model import limits
from holdfast.model.commands import (
    ClearEnvironment,
    ClearWorking,
    Given,
    LayerCommand,
    ObserveEnvironment,
    RefreshIdentity,
    SetWorking,
)
from holdfast.model.content import Json
from holdfast.model.events import (
    EnvironmentCleared,
    EnvironmentObserved,
    Event,
    SessionCreated,
    WorkingCleared,
    WorkingSet,
)
from holdfast.model.layers import Identity, IdentityRefreshed, Surrounding, WorkingItem
from holdfast.model.names import LedgerId, LedgerKind, check_size, checked_name
from holdfast.model.state import SessionState

OF_LAYERS = {
    IdentityRefreshed.name,
    WorkingSet.name,
    WorkingCleared.name,
    EnvironmentObserved.name,
    EnvironmentCleared.name,
}

TIMEZONE = "timezone"
LOCATION = "location"
"""What is around under these names has places of its own in an environment."""

UNKNOWN = Identity(authority="")
"""Who spoke in a session when the event that said so was erased: unknown, so at the foot of every ladder, without any
permission."""

_KINDS: tuple[LedgerKind, ...] = get_args(LedgerKind)
_NAMES = ("user_name", "user_id", "department", "organization")

_Item: TypeAlias = WorkingItem | Surrounding
_Layer: TypeAlias = Mapping[str, _Item]


def ran_out(item: _Item, time_us: int) -> bool:
    return item.expires_us is not None and item.expires_us <= time_us


# What commands make happen


def decide(state: SessionState, command: LayerCommand, given: Given) -> tuple[Event, ...]:
    match command:
        case RefreshIdentity(identity=identity):
            return () if identity == state.identity else (IdentityRefreshed(identity=identity),)
        case SetWorking():
            return _set(state, command, given)
        case ObserveEnvironment():
            return _observed(state, command, given)
        case ClearWorking():
            gone = _named(state.working, command.items)
            return (WorkingCleared(items=gone),) if gone else ()
        case ClearEnvironment():
            gone = _named(state.environment, command.items)
            return (EnvironmentCleared(items=gone),) if gone else ()


def _set(state: SessionState, command: SetWorking, given: Given) -> tuple[Event, ...]:
    expires_us = None if command.ttl_us is None else _later(given.time_us, command.ttl_us)
    there = state.working.get(command.item)
    if there is not None and there.expires_us == expires_us and _same(there.value, command.value):
        return ()
    event = WorkingSet(item=command.item, value=command.value, expires_us=expires_us)
    at_hand = folded(state, event, event.name, given.time_us)["working"]
    _check_room("the working set", at_hand, "Clear what is over with clear_working().")
    return (event,)


def _observed(state: SessionState, command: ObserveEnvironment, given: Given) -> tuple[Event, ...]:
    there = state.environment.get(command.item)
    seen_us = given.time_us if command.observed_us is None else command.observed_us
    expires_us = command.expires_us if command.ttl_us is None else _later(seen_us, command.ttl_us)
    if expires_us is None and (stated := read_validity(command.value, seen_us)) is not None:
        expires_us = stated.until_us
    if there is not None and seen_us < there.observed_us:
        if command.observed_us is not None:
            return ()
        seen_us = there.observed_us  # what is seen now is news, also after the clock was set back
    same_times = there is not None and (there.observed_us, there.expires_us) == (seen_us, expires_us)
    if there is not None and same_times and _same(there.value, command.value):
        return ()
    event = EnvironmentObserved(item=command.item, value=command.value, observed_us=seen_us, expires_us=expires_us)
    around = folded(state, event, event.name, given.time_us)["environment"]
    if _within(around):
        return (event,)
    over = sorted(
        name for name, item in state.environment.items() if name != event.item and ran_out(item, given.time_us)
    )
    _check_room("the environment", _without(around, over), "Clear what matters no more with clear_environment().")
    return EnvironmentCleared(items=tuple(over)), event


def _later(time_us: int, more_us: int) -> int:
    return min(time_us + more_us, limits.WHOLE_NUMBER)


def _same(one: Json, other: Json) -> bool:
    """As JSON: there, true is not 1, and 1 is not 1.0."""
    return codec.encode(one) == codec.encode(other)


def _named(layer: _Layer, items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*items} & {*layer} if items else layer))


def _within(layer: _Layer) -> bool:
    return len(layer) <= limits.LAYER_ITEMS and _sizes(layer) <= limits.LAYER_BYTES


def _check_room(what: str, layer: _Layer, advice: str) -> None:
    advice += " Put large values into the blob store with put_blob()."
    check_size(what, len(layer), "items", "LAYER_ITEMS", advice)
    check_size(what, _sizes(layer), "bytes", "LAYER_BYTES", advice)


# What events make of a state


def begun(event: Event | None) -> dict[str, Any]:
    """What the creation of a session sets for good."""
    if not isinstance(event, SessionCreated):
        return {"identity": UNKNOWN}
    changes: dict[str, Any] = {"ledgers": event.ledgers} if event.ledgers else {}
    if event.identity != Identity():
        changes["identity"] = event.identity
    return changes | {"bulk": sum(len(codec.encode(each)) for each in (event.metadata, *changes.values()) if each)}


def folded(state: SessionState, event: Event | None, event_type: str, time_us: int) -> dict[str, Any]:
    """What an event about a layer changes. Of one that was erased nobody knows what it set; but if it cleared something,
    all may have been meant, and nothing must come back."""
    seq = state.version + 1
    if event_type == IdentityRefreshed.name:
        return _refreshed(state, event.identity if isinstance(event, IdentityRefreshed) else UNKNOWN)
    match event:
        case WorkingSet():
            new = WorkingItem(event.value, time_us, event.expires_us, seq)
            return _changed(state, "working", {**_lasting(state.working, time_us), event.item: new})
        case EnvironmentObserved():
            seen = Surrounding(event.value, event.observed_us, event.expires_us, seq)
            return _changed(state, "environment", {**state.environment, event.item: seen})
        case WorkingCleared(items=items):
            return _changed(state, "working", _without(state.working, items))
        case EnvironmentCleared(items=items):
            return _changed(state, "environment", _without(state.environment, items))
    if event_type == WorkingSet.name:
        return _changed(state, "working", _lasting(state.working, time_us))
    if event_type == EnvironmentObserved.name:
        return {}
    return _changed(state, "working" if event_type == WorkingCleared.name else "environment", {})


def _refreshed(state: SessionState, identity: Identity) -> dict[str, Any]:
    return {"identity": identity, "bulk": state.bulk + _identity_size(identity) - _identity_size(state.identity)}


def _identity_size(identity: Identity) -> int:
    """What an identity adds to the weight of a state; one of whom nothing is known adds nothing."""
    return 0 if identity in (Identity(), UNKNOWN) else len(codec.encode(identity))


def ended(state: SessionState, *, closing: bool) -> dict[str, Any]:
    """What is at hand goes with the conversation, what is around with the session."""
    changes = _changed(state, "working", {})
    if closing and state.environment:
        bulk = changes.get("bulk", state.bulk) - _sizes(state.environment)
        changes |= {"environment": {}, "bulk": bulk}
    return changes


def _changed(state: SessionState, layer: str, after: _Layer) -> dict[str, Any]:
    before: _Layer = getattr(state, layer)
    if not before and not after:
        return {}
    come = sum(_size(name, item.value) for name, item in after.items() if before.get(name) is not item)
    gone = sum(_size(name, item.value) for name, item in before.items() if after.get(name) is not item)
    return {layer: after, "bulk": state.bulk + come - gone}


def _lasting(layer: Mapping[str, WorkingItem], time_us: int) -> dict[str, WorkingItem]:
    return {name: item for name, item in layer.items() if not ran_out(item, time_us)}


def _without(layer: _Layer, items: Iterable[str]) -> dict[str, _Item]:
    gone = {*items}
    return {name: item for name, item in layer.items() if name not in gone}


def seqs_of(state: SessionState) -> Iterator[int]:
    """The numbers of the events that what is at hand and around came with."""
    yield from (item.seq for item in state.working.values())
    yield from (item.seq for item in state.environment.values())


def weight_of(state: SessionState) -> int:
    """The bytes of what is at hand and around."""
    return _sizes(state.working) + _sizes(state.environment)


def _sizes(layer: _Layer) -> int:
    return sum(_size(name, item.value) for name, item in layer.items())


def _size(name: str, value: Json) -> int:
    return len(codec.encode(name)) + len(codec.encode(value))


# What may come in


def checked_identity(identity: object) -> Identity:
    """An identity that can be kept: made of names, its permissions in order, each once."""
    if type(identity) is not Identity:
        raise InvalidContent(reason=f"an identity is a holdfast.Identity, not {shown(identity)}")
    named = {field: getattr(identity, field) for field in _NAMES}
    for field, value in named.items():
        if type(value) is not str or value:  # empty is what nobody knows
            checked_name(field, value)
    granted: Any = identity.permissions
    if type(granted) not in (tuple, list, set, frozenset):
        raise InvalidContent(reason=f"permissions are a tuple of names, not {shown(granted)}")
    advice = "Name roles instead of single rights."
    check_size("the identity", len(granted), "permissions", "PERMISSIONS", advice)
    permissions = {checked_name("permission", each) for each in granted}
    if checked_name("authority", identity.authority) != Identity().authority:
        named["authority"] = identity.authority  # else left out, for the same bytes whichever way it was said
    return Identity(**named, permissions=tuple(sorted(permissions)))


def checked_ledger(ledger: object, tenant: str) -> LedgerId:
    """A ledger that is, or could be, in this tenant."""
    if type(ledger) is not LedgerId:
        raise InvalidContent(reason=f"{shown(ledger)} is not a ledger: pass a holdfast.LedgerId")
    if type(ledger.names) is not tuple:
        raise InvalidContent(reason=f"the names of a ledger are a tuple, not {shown(ledger.names)}")
    _check_key((ledger.kind, *ledger.names))
    if checked_name("tenant", ledger.tenant) != tenant:
        raise InvalidContent(reason=f"the ledger {ledger} is one of another tenant")
    return ledger


def _check_key(key: tuple[object, ...]) -> None:
    """That the stream of a ledger can have this key: a kind, and a name; or the two or three of a session."""
    kind, *names = key or ("",)
    if type(kind) is not str or kind not in _KINDS:
        raise InvalidContent(reason=f"the kind of a ledger is one of {', '.join(_KINDS)}, not {shown(kind)}")
    for name in names:
        checked_name("name of a ledger", name)
    if len(names) not in ((2, 3) if kind == "session" else (1,)):
        wanted = "an actor, a session and perhaps a thread" if kind == "session" else "one name"
        raise InvalidContent(reason=f"a ledger of the kind {kind} goes by {wanted}, not by {len(names)} names")


def checked_ledgers(ledgers: object, own: tuple[str, ...], tenant: str) -> tuple[tuple[str, ...], ...]:
    """The keys of the ledgers that a session reads after its `own`, each once, in the order in which they have a say."""
    if type(ledgers) not in (list, tuple):
        raise InvalidContent(reason=f"ledgers are a list of them, not {shown(ledgers)}")
    given: Any = ledgers
    check_size("the session", len(given), "ledgers", "SESSION_LEDGERS", "Name fewer.")
    keys = tuple(checked_ledger(each, tenant).stream.key for each in given)
    if len({*keys}) != len(keys):
        raise InvalidContent(reason="a ledger is named twice: name each once, those with more say first")
    if ("session", *own) in keys:
        raise InvalidContent(reason="a session reads its own ledger anyway: leave it out")
    return keys


# What no command can have made


def layer_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    match event:
        case SessionCreated():
            yield from _of_creation(event)
        case IdentityRefreshed(identity=identity):
            yield from _of_identity(identity)
        case WorkingSet():
            yield from _of_item(event.item, event.value, (event.expires_us,))
            if not erased and not _within(state.working):  # what ran out since may have made room for this one
                yield "a working set is bounded"
        case EnvironmentObserved():
            yield from _of_item(event.item, event.value, (event.observed_us, event.expires_us))
            there = state.environment.get(event.item)
            if there is not None and event.observed_us < there.observed_us:
                yield "an observation never replaces a newer one"
            if event.item == TIMEZONE and not _sound(checked_name, TIMEZONE, event.value):
                yield "a timezone has a name"
            if not erased and not _within(folded(state, event, event.name, 0)["environment"]):
                yield "an environment is bounded"
        case WorkingCleared(items=items) | EnvironmentCleared(items=items):
            layer: _Layer = state.working if isinstance(event, WorkingCleared) else state.environment
            if not items or list(items) != sorted({*items}):
                yield "what is cleared is named in order"
            if not erased and not {*items} <= {*layer}:
                yield "what is cleared was there"


def _of_creation(event: SessionCreated) -> Iterator[str]:
    yield from _of_identity(event.identity)
    keys = event.ledgers
    if len({*keys}) != len(keys) or len(keys) > limits.SESSION_LEDGERS:
        yield "a session reads so many ledgers at most, each once"
    if not all(_sound(_check_key, key) for key in keys):
        yield "a ledger goes by its kind and its names"


def _of_identity(identity: Identity) -> Iterator[str]:
    if not _sound(checked_identity, identity) or checked_identity(identity) != identity:
        yield "an identity is made of names, its permissions in order"


def _of_item(name: str, value: Json, times_us: Iterable[int | None]) -> Iterator[str]:
    if not _sound(checked_name, "item", name):
        yield "an item has a name"
    if not _sound(codec.checked_json, "the value", value) or _size(name, value) > limits.LAYER_BYTES:
        yield "an item has a value of a bounded size"
    if not all(0 <= (each or 0) <= limits.WHOLE_NUMBER for each in times_us):
        yield "an item has times that a clock can tell"


def _sound(check: Callable[..., object], *given: object) -> bool:
    try:
        check(*given)
    except InvalidInput:
        return False
    return True
