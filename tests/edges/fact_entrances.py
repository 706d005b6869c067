"""The entrances of facts, as data: those of ledgers, of what a session knows, and of what is observed in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast import FactSource, Identity, errors
from holdfast.core.authority import rung
from holdfast.model.facts import FACT_SCOPES, MEMORY_TYPES, SOURCE_TYPES
from holdfast.model.policy import Ladder
from tests.edges.entrance import (
    Entrance,
    as_given,
    as_json,
    asked,
    converts,
    is_bool,
    is_int,
    is_number,
    is_text,
    never,
    or_none,
)
from tests.edges.entrances import came_back
from tests.edges.fact_engines import own, shelf

FIRST = "k1"
"""A ledger's first fact."""


def _ledger(engine: Any, number: int) -> Any:
    return shelf(engine, user=f"u{number}")


def _known(engine: Any, number: int) -> None:
    _ledger(engine, number).assert_("known", "before")


def _two(engine: Any, number: int) -> None:
    _known(engine, number)
    _ledger(engine, number).assert_("other", 1)


def _drafted(engine: Any, number: int) -> None:
    _ledger(engine, number).assert_("known", "before", scope="draft", scope_id="d")


def _open(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}", ledgers=[_ledger(engine, number).id])


def _asserted(option: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """Assert something with this option, and take the value out of what is then known."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = {"name": "a", "value": 1, option: value}
        ledger = _ledger(engine, number)
        fact = ledger.assert_(given.pop("name"), given.pop("value"), **given)
        return back(ledger.get(fact.id))

    return use


def _source(field: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        source = msgspec.structs.replace(FactSource(), **{field: value})
        return getattr(_ledger(engine, number).assert_("a", 1, source=source).source, field)

    return use


def _accepted(option: str) -> Callable[[Any, Any, int], object]:
    """With this option; if that is answered at all, the value was fine."""

    def use(engine: Any, value: Any, number: int) -> object:
        _ledger(engine, number).assert_("a", 1, **{option: value})
        return value

    return use


def _in_batch(field: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """The last of several."""

    def use(engine: Any, value: Any, number: int) -> object:
        ledger = _ledger(engine, number)
        facts = ledger.assert_all([{"key": "first", "value": 0}, {"key": "a", "value": 1, field: value}])
        return back(ledger.get(facts[-1].id))

    return use


def _because(engine: Any, value: Any, number: int) -> object:
    """Why something was superseded."""
    ledger = _ledger(engine, number)
    ledger.assert_("known", "after", reason=value)
    return ledger.get(FIRST).why


def _changed(method: str, back: Callable[[Any], object], **option: Any) -> Callable[[Any, Any, int], object]:
    """Change the first fact with the value as this option, and take it out of what the fact then is."""

    def use(engine: Any, value: Any, number: int) -> object:
        ledger = _ledger(engine, number)
        getattr(ledger, method)(FIRST, **{name: value if each is ... else each for name, each in option.items()})
        return back(ledger.get(FIRST))

    return use


def _named(method: str, *more: Any) -> Callable[[Any, Any, int], object]:
    """Name a fact; if that is answered at all, the value was fine."""

    def use(engine: Any, value: Any, number: int) -> object:
        getattr(_ledger(engine, number), method)(value, *more)
        return value

    return use


def _asked(method: str, *before: Any, **option: Any) -> Callable[[Any, Any, int], object]:
    """Ask the ledger that all have, with the value as its argument, or as the option that has none."""

    def ask(engine: Any, value: Any) -> None:
        ledger = shelf(engine, user="all")
        given = {name: value if each is ... else each for name, each in option.items()}
        getattr(ledger, method)(*before, *([] if option else [value]), **given)

    return asked(ask)


def _in_session(method: str, *before: Any, **option: Any) -> Callable[[Any, Any, int], object]:
    def ask(engine: Any, value: Any) -> None:
        given = {name: value if each is ... else each for name, each in option.items()}
        getattr(engine.session("s"), method)(*before, *([] if option else [value]), **given)

    return asked(ask)


def _observed(engine: Any, value: Any, number: int) -> object:
    message = engine.session(f"s{number}").observe(value).message
    return came_back(engine, message.content, value)


def _observed_as(option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        engine.session(f"s{number}").observe("hello", **{option: value})
        return value

    return use


def _own_named(engine: Any, value: Any, number: int) -> object:
    """The session was opened with one ledger, and no other can be named."""
    return own(engine.session(f"s{number}"), user=value).id.names[0]


def _by(identity: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    def ask(engine: Any, value: Any) -> None:
        shelf(engine, user="all", identity=identity(value)).facts()

    return asked(ask)


def _one_of(*names: str) -> Callable[[object], bool]:
    return lambda value: is_text(value) and value in names


def _is_list(value: object) -> bool:
    return type(value) in (list, tuple)


def _names(value: object) -> bool:
    return is_text(value) or _is_list(value)


def _as_names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _is_span(value: object) -> bool:
    return value is None or (is_number(value) and value > 0)  # type: ignore[operator]


def _in_us(value: Any) -> int | None:
    return None if value is None else max(1, int(value * 1_000_000))


def _span_us(fact: Any) -> int | None:
    return None if fact.expires_us is None else fact.expires_us - fact.at_us


_ABSENT = (errors.FactNotFound,)

STORED: dict[str, Entrance] = {
    "assert_(name)": Entrance(_asserted("name", lambda fact: fact.key), is_text),
    "assert_(value)": Entrance(_asserted("value", lambda fact: fact.value), converts, as_json),
    "assert_([permission])": Entrance(
        lambda engine, value, number: _asserted("requires", lambda fact: fact.requires[0])(engine, [value], number),
        is_text,
    ),
    "search(query)": Entrance(_asked("search"), is_text),
}
"""Where a value comes to a store in a place of its own."""

OTHERS: dict[str, Entrance] = {
    "ledger(user)": Entrance(
        lambda engine, value, _: (
            shelf(engine, user=value).assert_("a", 1).value and shelf(engine, user=value).id.names[0]
        ),
        is_text,
    ),
    "assert_(value, nested)": Entrance(
        lambda engine, value, number: _asserted("value", lambda fact: fact.value["a"][0])(
            engine, {"a": [value]}, number
        ),
        converts,
        as_json,
    ),
    "assert_(source's name)": Entrance(_source("name"), is_text),
    "assert_(scope_id)": Entrance(_asserted("scope_id", lambda fact: fact.scope_id), is_text),
    "assert_(ref)": Entrance(_asserted("ref", lambda fact: fact.ref), is_text),
    "assert_(constraint_type)": Entrance(
        _asserted("constraint_type", lambda fact: fact.constraint_type), or_none(is_text)
    ),
    "assert_(provenance)": Entrance(_asserted("provenance", lambda fact: fact.provenance), _names, _as_names),
    "assert_(reason)": Entrance(_because, is_text, prepare=_known),
    "assert_(ttl_s)": Entrance(_asserted("ttl_s", _span_us), _is_span, _in_us),
    "retract(reason)": Entrance(_changed("retract", lambda fact: fact.why, reason=...), is_text, prepare=_known),
    "promote(scope_id)": Entrance(
        _changed("promote", lambda fact: fact.scope_id, scope="task", scope_id=...), is_text, prepare=_drafted
    ),
    "supersede(fact)": Entrance(_named("supersede", "known"), is_text, also=_ABSENT, prepare=_known),
    "current(name)": Entrance(_asked("current"), is_text),
    "get(fact)": Entrance(_asked("get"), is_text, also=_ABSENT),
    "observe(said)": Entrance(_observed, is_text, prepare=_open),
}

WRITES: dict[str, Entrance] = {
    "assert_(supersedes)": Entrance(_accepted("supersedes"), _names, also=_ABSENT),
    "assert_([supersedes])": Entrance(
        lambda engine, value, number: _accepted("supersedes")(engine, [value], number) and value, is_text, also=_ABSENT
    ),
    "assert_(depends_on)": Entrance(_accepted("depends_on"), _names, also=_ABSENT),
    "assert_(source)": Entrance(
        _asserted("source", lambda fact: fact.source.name), or_none(is_text), lambda value: value or ""
    ),
    "assert_(source's type)": Entrance(_source("type"), _one_of(*SOURCE_TYPES)),
    "assert_(source's identity)": Entrance(_source("identity"), is_text),
    "assert_(source's turn)": Entrance(_source("turn"), or_none(is_int)),
    "assert_(source's event)": Entrance(_source("event"), or_none(is_int)),
    "assert_(authority)": Entrance(
        _asserted("authority", lambda fact: fact.authority),
        or_none(is_text),
        lambda value: "peer" if value is None else rung(Ladder(), value),
    ),
    "assert_(scope)": Entrance(
        _asserted("scope", lambda fact: fact.scope),
        or_none(_one_of(*FACT_SCOPES)),
        lambda value: value or "global",
    ),
    "assert_(memory_type)": Entrance(
        _asserted("memory_type", lambda fact: fact.memory_type),
        or_none(_one_of(*MEMORY_TYPES)),
        lambda value: value or "user",
    ),
    "assert_(is_constraint)": Entrance(
        _asserted("is_constraint", lambda fact: fact.is_constraint), or_none(is_bool), bool
    ),
    "assert_(requires)": Entrance(
        _asserted("requires", lambda fact: fact.requires), _is_list, lambda value: tuple(sorted({*value}))
    ),
    "assert_(valid_from_us)": Entrance(_accepted("valid_from_us"), or_none(is_int)),
    "assert_(expires_at_us)": Entrance(_asserted("expires_at_us", lambda fact: fact.expires_us), or_none(is_int)),
    "assert_(time_sensitive)": Entrance(_accepted("time_sensitive"), or_none(is_bool)),
    "assert_all(facts)": Entrance(lambda engine, value, number: _ledger(engine, number).assert_all(value), never),
    "assert_all([fact])": Entrance(lambda engine, value, number: _ledger(engine, number).assert_all([value]), never),
    "assert_all(a fact's key)": Entrance(_in_batch("key", lambda fact: fact.key), is_text),
    "assert_all(a fact's value)": Entrance(_in_batch("value", lambda fact: fact.value), converts, as_json),
    "assert_all(a fact's ref)": Entrance(_in_batch("ref", lambda fact: fact.ref), is_text),
    "assert_all(expect)": Entrance(
        lambda engine, value, number: (
            _ledger(engine, number).assert_all([{"key": "a", "value": 1}], expect=value) and value
        ),
        or_none(is_int),
        also=(errors.VersionConflict,),
    ),
    "assert_(key)": Entrance(_accepted("key"), or_none(is_text)),
    "assert_(cause)": Entrance(_accepted("cause"), or_none(is_text)),
    "assert_(expect)": Entrance(_accepted("expect"), or_none(is_int), also=(errors.VersionConflict,)),
}

CHANGES: dict[str, Entrance] = {
    **{
        f"{method}(fact)": Entrance(_named(method, *more), is_text, also=_ABSENT)
        for method, more in {
            "retract": (),
            "expire": (),
            "confirm": (),
            "endorse": (),
            "reinstate": (),
            "promote": (),
        }.items()
    },
    "erase(facts)": Entrance(_named("erase", "a test"), _names, also=_ABSENT),
    "erase(reason)": Entrance(
        lambda engine, value, number: _ledger(engine, number).erase(FIRST, value) or value, is_text
    ),
    "supersede(by)": Entrance(
        lambda engine, value, number: _ledger(engine, number).supersede("known", value) and value, is_text, also=_ABSENT
    ),
    "supersede(reason)": Entrance(
        lambda engine, value, number: _ledger(engine, number).supersede(FIRST, "other", reason=value).why,
        is_text,
        prepare=_two,
    ),
    "endorse(authority)": Entrance(
        _changed("endorse", lambda fact: fact.authority, authority=...),
        or_none(is_text),
        lambda value: "policy" if value is None else max("peer", rung(Ladder(), value), key=Ladder().rungs[::-1].index),
    ),
    **{
        f"{method}({option})": Entrance(
            lambda engine, value, number, method=method, option=option: _changed(  # type: ignore[misc]
                method, lambda _: value, **{option: ...}
            )(engine, value, number),
            or_none(is_text) if option in ("key", "cause") else is_text,
        )
        for method in ("retract", "expire", "confirm", "endorse")
        for option in ("reason", "key", "cause")
        if (method, option) != ("retract", "reason")
    },
    "promote(scope)": Entrance(
        _changed("promote", lambda fact: fact.scope, scope=...), _one_of("global"), prepare=_drafted
    ),
}
"""Each with a ledger of its own, in which something is known."""

QUESTIONS: dict[str, Entrance] = {
    "current(scope)": Entrance(_asked("current", "a", scope=...), _one_of(*FACT_SCOPES)),
    "current(scope_id)": Entrance(_asked("current", "a", scope_id=...), is_text),
    "history(name)": Entrance(_asked("history"), is_text),
    "history(limit)": Entrance(_asked("history", "a", limit=...), is_int),
    "why(name)": Entrance(_asked("why"), is_text, also=_ABSENT),
    "why(scope)": Entrance(_asked("why", "a", scope=...), _one_of(*FACT_SCOPES), also=_ABSENT),
    "why(scope_id)": Entrance(_asked("why", "a", scope_id=...), is_text, also=_ABSENT),
    "facts(status)": Entrance(_asked("facts", status=...), _one_of("live", "dead")),
    "facts(memory_type)": Entrance(_asked("facts", memory_type=...), or_none(_one_of(*MEMORY_TYPES))),
    "facts(within)": Entrance(_asked("facts", within=...), lambda value: _is_list(value) or _one_of("any")(value)),
    "constraints(within)": Entrance(_asked("constraints", within=...), _is_list),
    "facts([scope])": Entrance(
        lambda engine, value, number: _asked("facts", within=...)(engine, [value], number) and value, never
    ),
    "facts(scope's id)": Entrance(
        lambda engine, value, number: _asked("facts", within=...)(engine, [("task", value)], number) and value, is_text
    ),
    **{
        f"{method}(after)": Entrance(_asked(method, after=...), or_none(is_text))
        for method in ("facts", "review", "constraints")
    },
    **{
        f"{method}(limit)": Entrance(_asked(method, limit=...), is_int) for method in ("facts", "review", "constraints")
    },
    "search(within)": Entrance(_asked("search", "a", within=...), _is_list),
    "search(limit)": Entrance(_asked("search", "a", limit=...), is_int),
    "ledger(project)": Entrance(asked(lambda engine, value: shelf(engine, project=value).facts()), is_text),
    "ledger(organization)": Entrance(asked(lambda engine, value: shelf(engine, organization=value).facts()), is_text),
    "ledger(identity)": Entrance(_by(as_given), or_none(never)),
    "ledger(identity's authority)": Entrance(_by(lambda value: Identity(authority=value)), is_text),
    "ledger(identity's permissions)": Entrance(
        _by(lambda value: Identity(permissions=value)), lambda value: type(value) in (tuple, list, set, frozenset)
    ),
    "ledgers(kind)": Entrance(
        asked(lambda engine, value: engine.ledgers(kind=value)),
        or_none(_one_of("user", "project", "organization", "session")),
    ),
    "ledgers(after)": Entrance(asked(lambda engine, value: engine.ledgers(after=value)), or_none(never)),
    "ledgers(limit)": Entrance(asked(lambda engine, value: engine.ledgers(limit=value)), is_int),
    "session.fact(name)": Entrance(_in_session("fact"), is_text),
    "session.fact(scope)": Entrance(_in_session("fact", "a", scope=...), _one_of(*FACT_SCOPES)),
    "session.fact(scope_id)": Entrance(_in_session("fact", "a", scope_id=...), is_text),
    "session.search(query)": Entrance(_in_session("search"), is_text),
    "session.search(within)": Entrance(_in_session("search", "a", within=...), _is_list),
    "session.search(limit)": Entrance(_in_session("search", "a", limit=...), is_int),
    "session.ledger(project)": Entrance(
        asked(lambda engine, value: own(engine.session("s"), project=value)), or_none(never)
    ),
    "accept(proposal)": Entrance(_in_session("accept"), is_text, also=(errors.ProposalNotFound,)),
    "decline(proposal)": Entrance(_in_session("decline"), is_text, also=(errors.ProposalNotFound,)),
}
"""They change nothing, whatever they are asked."""

OBSERVED: dict[str, Entrance] = {
    "observe(role)": Entrance(_observed_as("role"), _one_of("user", "assistant", "system")),
    "observe(key)": Entrance(_observed_as("key"), or_none(is_text)),
    "observe(cause)": Entrance(_observed_as("cause"), or_none(is_text)),
    "session.ledger(user)": Entrance(_own_named, or_none(never), lambda _: "main"),
}
"""Each with a session of its own."""

MORE: dict[str, Entrance] = {
    **OTHERS,
    **WRITES,
    **{
        name: each if each.prepare in (_drafted, _two) else each._replace(prepare=_known)
        for name, each in CHANGES.items()
    },
    **QUESTIONS,
    **{name: each._replace(prepare=_open) for name, each in OBSERVED.items()},
}
FACT_ENTRANCES: dict[str, Entrance] = STORED | MORE
