"""The entrances of the layers beside the facts, as data: who speaks, what is at hand, what is around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast import Identity
from holdfast.model.names import LedgerId
from tests.edges.input_cases import (
    InputCase,
    accept_nothing,
    as_json,
    identity,
    is_convertible,
    is_int,
    is_number,
    is_text,
    or_none,
)
from tests.edges.surface import call


def _create_session(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}")


def _create_with_identity(field: str) -> Callable[[Any, Any, int], object]:
    """Someone whose identity has the value in this field."""

    def use(engine: Any, value: Any, number: int) -> object:
        identity = msgspec.structs.replace(Identity(), **{field: value})
        return getattr(engine.create_session(f"s{number}", identity=identity).state().identity, field)

    return use


def _create_with_ledger(
    back: Callable[[Any], object], **field: Callable[[Any], Any]
) -> Callable[[Any, Any, int], object]:
    """A session that reads a ledger with something made of the value in this field, and what its state says of that."""

    def use(engine: Any, value: Any, number: int) -> object:
        usual = LedgerId(engine.session("s").scope.tenant, "user", ("a",))
        ledger = msgspec.structs.replace(usual, **{name: make(value) for name, make in field.items()})
        return back(engine.create_session(f"s{number}", ledgers=[ledger]).state().ledgers[0])

    return use


def _create_with(option: str, make: Callable[[Any], Any] = identity) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        engine.create_session(f"s{number}", **{option: make(value)})
        return value

    return use


def _set_item(layer: str, back: Callable[[str, Any], object], **given: Any) -> Callable[[Any, Any, int], object]:
    """Something at hand or around, with the value where `given` has none; and what the state says of it."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        arguments = {"name": "a", "value": 1} | {name: value if each is ... else each for name, each in given.items()}
        getattr(session, layer).set(**arguments)
        [(name, item)] = getattr(session.state(), layer).items()
        return back(name, item)

    return use


def _item_name(name: str, _: Any) -> str:
    return name


def _item_value(_: str, item: Any) -> object:
    return item.value


def _span_us(_: str, item: Any) -> int | None:
    since: int = getattr(item, "at_us", None) or item.observed_us
    return None if item.expires_us is None else item.expires_us - since


def _is_span(value: object) -> bool:
    return value is None or (is_number(value) and value > 0)  # type: ignore[operator]


def _to_us(value: Any) -> int | None:
    return None if value is None else max(1, int(value * 1_000_000))


def _set_observed_time(engine: Any, value: Any, number: int) -> object:
    seen_us = _set_item("environment", lambda _, item: item.observed_us, observed_at_us=...)(engine, value, number)
    return None if value is None else seen_us  # else it was now


def _call_method(method: str, **option: Any) -> Callable[[Any, Any, int], object]:
    """With the value as the one argument, or as the option that has none."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = () if option else (value,)
        call(engine.session(f"s{number}"), method)(*given, **dict.fromkeys(option, value))
        return value

    return use


def _refresh_identity(field: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        session.refresh_identity(msgspec.structs.replace(Identity(), **{field: value}))
        return getattr(session.state().identity, field)

    return use


IDENTITY_INPUTS: dict[str, InputCase] = {
    "create_session(identity)": InputCase(_create_with("identity"), or_none(accept_nothing)),
    "create_session(identity's user_name)": InputCase(_create_with_identity("user_name"), is_text),
    "create_session(identity's permissions)": InputCase(
        _create_with_identity("permissions"),
        lambda value: type(value) in (tuple, list, set, frozenset),
        lambda value: tuple(sorted({*value})),
    ),
    "create_session(identity's one permission)": InputCase(
        lambda engine, value, number: _create_with_identity("permissions")(engine, (value,), number),
        is_text,
        lambda value: (value,),
    ),
    "create_session(ledgers)": InputCase(_create_with("ledgers"), lambda value: type(value) in (tuple, list)),
    "create_session([ledger])": InputCase(_create_with("ledgers", lambda value: [value]), accept_nothing),
    "create_session(ledger's kind)": InputCase(
        _create_with_ledger(lambda key: key[0], kind=identity),
        lambda value: value in ("user", "project", "organization"),
    ),
    "create_session(ledger's names)": InputCase(
        _create_with_ledger(lambda key: key[1:], names=identity), lambda value: type(value) is tuple
    ),
    "create_session(ledger's one name)": InputCase(
        _create_with_ledger(lambda key: key[1], names=lambda value: (value,)), is_text
    ),
    "create_session(ledger's tenant)": InputCase(_create_with_ledger(identity, tenant=identity), accept_nothing),
}


LAYER_INPUTS: dict[str, InputCase] = {
    "refresh_identity(identity)": InputCase(_call_method("refresh_identity"), accept_nothing),
    "refresh_identity(identity's authority)": InputCase(_refresh_identity("authority"), is_text),
    "refresh_identity(identity's department)": InputCase(_refresh_identity("department"), is_text),
    "working.set(name)": InputCase(_set_item("working", _item_name, name=...), is_text),
    "working.set(value)": InputCase(_set_item("working", _item_value, value=...), is_convertible, as_json),
    "working.set(ttl_s)": InputCase(_set_item("working", _span_us, ttl_s=...), _is_span, _to_us),
    "working.clear(name)": InputCase(_call_method("working.clear"), is_text),
    "environment.clear(key)": InputCase(_call_method("environment.clear", key=...), or_none(is_text)),
    "environment.set(name)": InputCase(_set_item("environment", _item_name, name=..., value="UTC"), is_text),
    "environment.set(value)": InputCase(
        _set_item("environment", _item_value, name="location", value=...), is_convertible, as_json
    ),
    "environment.set(value of timezone)": InputCase(
        _set_item("environment", _item_value, name="timezone", value=...), is_text
    ),
    "environment.set(ttl_s)": InputCase(_set_item("environment", _span_us, ttl_s=...), _is_span, _to_us),
    "environment.set(expires_at_us)": InputCase(
        _set_item("environment", lambda _, item: item.expires_us, expires_at_us=...), or_none(is_int)
    ),
    "environment.set(observed_at_us)": InputCase(_set_observed_time, or_none(is_int)),
}
"""Each with a session of its own."""


ALL_LAYER_INPUTS = IDENTITY_INPUTS | {
    name: each._replace(prepare=_create_session) for name, each in LAYER_INPUTS.items()
}
