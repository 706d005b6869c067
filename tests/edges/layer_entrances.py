"""The entrances of the layers beside the facts, as data: who speaks, what is at hand, what is around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast import Identity
from holdfast.model.names import LedgerId
from tests.edges.entrance import (
    Entrance,
    as_given,
    as_json,
    converts,
    is_int,
    is_number,
    is_text,
    never,
    or_none,
)


def _made(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}")


def _identified(field: str) -> Callable[[Any, Any, int], object]:
    """Someone whose identity has the value in this field."""

    def use(engine: Any, value: Any, number: int) -> object:
        identity = msgspec.structs.replace(Identity(), **{field: value})
        return getattr(engine.create_session(f"s{number}", identity=identity).state().identity, field)

    return use


def _reads(back: Callable[[Any], object], **field: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    """A session that reads a ledger with something made of the value in this field, and what its state says of that."""

    def use(engine: Any, value: Any, number: int) -> object:
        usual = LedgerId(engine.session("s").scope.tenant, "user", ("a",))
        ledger = msgspec.structs.replace(usual, **{name: make(value) for name, make in field.items()})
        return back(engine.create_session(f"s{number}", ledgers=[ledger]).state().ledgers[0])

    return use


def _created(option: str, make: Callable[[Any], Any] = as_given) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        engine.create_session(f"s{number}", **{option: make(value)})
        return value

    return use


def _kept(layer: str, back: Callable[[str, Any], object], **given: Any) -> Callable[[Any, Any, int], object]:
    """Something at hand or around, with the value where `given` has none; and what the state says of it."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        set_it = session.set_working if layer == "working" else session.set_environment
        set_it(**{"name": "a", "value": 1} | {name: value if each is ... else each for name, each in given.items()})
        [(name, item)] = getattr(session.state(), layer).items()
        return back(name, item)

    return use


def _name(name: str, _: Any) -> str:
    return name


def _value(_: str, item: Any) -> object:
    return item.value


def _span_us(_: str, item: Any) -> int | None:
    since: int = getattr(item, "at_us", None) or item.observed_us
    return None if item.expires_us is None else item.expires_us - since


def _is_span(value: object) -> bool:
    return value is None or (is_number(value) and value > 0)  # type: ignore[operator]


def _in_us(value: Any) -> int | None:
    return None if value is None else max(1, int(value * 1_000_000))


def _seen(engine: Any, value: Any, number: int) -> object:
    seen_us = _kept("environment", lambda _, item: item.observed_us, observed_at_us=...)(engine, value, number)
    return None if value is None else seen_us  # else it was now


def _done(method: str, **option: Any) -> Callable[[Any, Any, int], object]:
    """With the value as the one argument, or as the option that has none."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = () if option else (value,)
        getattr(engine.session(f"s{number}"), method)(*given, **dict.fromkeys(option, value))
        return value

    return use


def _refreshed(field: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        session.refresh_identity(msgspec.structs.replace(Identity(), **{field: value}))
        return getattr(session.state().identity, field)

    return use


IDENTITY_ENTRANCES: dict[str, Entrance] = {
    "create_session(identity)": Entrance(_created("identity"), or_none(never)),
    "create_session(identity's user_name)": Entrance(_identified("user_name"), is_text),
    "create_session(identity's permissions)": Entrance(
        _identified("permissions"),
        lambda value: type(value) in (tuple, list, set, frozenset),
        lambda value: tuple(sorted({*value})),
    ),
    "create_session(identity's one permission)": Entrance(
        lambda engine, value, number: _identified("permissions")(engine, (value,), number),
        is_text,
        lambda value: (value,),
    ),
    "create_session(ledgers)": Entrance(_created("ledgers"), lambda value: type(value) in (tuple, list)),
    "create_session([ledger])": Entrance(_created("ledgers", lambda value: [value]), never),
    "create_session(ledger's kind)": Entrance(
        _reads(lambda key: key[0], kind=as_given), lambda value: value in ("user", "project", "organization")
    ),
    "create_session(ledger's names)": Entrance(
        _reads(lambda key: key[1:], names=as_given), lambda value: type(value) is tuple
    ),
    "create_session(ledger's one name)": Entrance(_reads(lambda key: key[1], names=lambda value: (value,)), is_text),
    "create_session(ledger's tenant)": Entrance(_reads(as_given, tenant=as_given), never),
}

LAYER_ENTRANCES: dict[str, Entrance] = {
    "refresh_identity(identity)": Entrance(_done("refresh_identity"), never),
    "refresh_identity(identity's authority)": Entrance(_refreshed("authority"), is_text),
    "refresh_identity(identity's department)": Entrance(_refreshed("department"), is_text),
    "set_working(name)": Entrance(_kept("working", _name, name=...), is_text),
    "set_working(value)": Entrance(_kept("working", _value, value=...), converts, as_json),
    "set_working(ttl_s)": Entrance(_kept("working", _span_us, ttl_s=...), _is_span, _in_us),
    "clear_working(name)": Entrance(_done("clear_working"), is_text),
    "clear_environment(key)": Entrance(_done("clear_environment", key=...), or_none(is_text)),
    "set_environment(name)": Entrance(_kept("environment", _name, name=..., value="UTC"), is_text),
    "set_environment(value)": Entrance(_kept("environment", _value, name="location", value=...), converts, as_json),
    "set_environment(value of timezone)": Entrance(_kept("environment", _value, name="timezone", value=...), is_text),
    "set_environment(ttl_s)": Entrance(_kept("environment", _span_us, ttl_s=...), _is_span, _in_us),
    "set_environment(expires_at_us)": Entrance(
        _kept("environment", lambda _, item: item.expires_us, expires_at_us=...), or_none(is_int)
    ),
    "set_environment(observed_at_us)": Entrance(_seen, or_none(is_int)),
}
"""Each with a session of its own."""

ENTRANCES = IDENTITY_ENTRANCES | {name: each._replace(prepare=_made) for name, each in LAYER_ENTRANCES.items()}
