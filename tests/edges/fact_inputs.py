"""The entrances of facts, as data: those of ledgers, of what a session knows, and of what is observed in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast import Identity, errors
from holdfast.core.facts.authority import rung
from holdfast.model.facts.fact import FACT_SCOPES, MEMORY_TYPES, SOURCE_TYPES
from holdfast.model.policy import AuthorityLadder
from holdfast.types import FactSource
from tests.edges.fact_engines import open_ledger, open_session_ledger
from tests.edges.input_cases import (
    InputCase,
    accept_nothing,
    as_json,
    identity,
    is_bool,
    is_convertible,
    is_int,
    is_number,
    is_text,
    or_none,
    query_only,
)
from tests.edges.session_inputs import read_returned
from tests.edges.surface import call

FIRST = "k1"
"""A ledger's first fact."""


def _ledger(engine: Any, number: int) -> Any:
    return open_ledger(engine, user=f"u{number}")


def _assert_known(engine: Any, number: int) -> None:
    _ledger(engine, number).set("known", "before")


def _assert_two(engine: Any, number: int) -> None:
    _assert_known(engine, number)
    _ledger(engine, number).set("other", 1)


def _assert_draft(engine: Any, number: int) -> None:
    _ledger(engine, number).set("known", "before", scope="draft", scope_id="d")


def _create_session(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}", ledgers=[_ledger(engine, number).id])


def _assert_option(option: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """Assert something with this option, and take the value out of what is then known."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = {"name": "a", "value": 1, option: value}
        ledger = _ledger(engine, number)
        fact = ledger.set(given.pop("name"), given.pop("value"), **given)
        return back(ledger.fact(fact.id))

    return use


def _assert_source(field: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        source = msgspec.structs.replace(FactSource(), **{field: value})
        return getattr(_ledger(engine, number).set("a", 1, source=source).source, field)

    return use


def _assert_accepts(option: str) -> Callable[[Any, Any, int], object]:
    """With this option; if that is answered at all, the value was fine."""

    def use(engine: Any, value: Any, number: int) -> object:
        _ledger(engine, number).set("a", 1, **{option: value})
        return value

    return use


def _assert_in_batch(field: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """The last of several."""

    def use(engine: Any, value: Any, number: int) -> object:
        ledger = _ledger(engine, number)
        facts = ledger.set_all([{"key": "first", "value": 0}, {"key": "a", "value": 1, field: value}])
        return back(ledger.fact(facts[-1].id))

    return use


def _supersede_with_reason(engine: Any, value: Any, number: int) -> object:
    """Why something was superseded."""
    ledger = _ledger(engine, number)
    ledger.set("known", "after", reason=value)
    return ledger.fact(FIRST).why


def _change_fact(method: str, back: Callable[[Any], object], **option: Any) -> Callable[[Any, Any, int], object]:
    """Change the first fact with the value as this option, and take it out of what the fact then is."""

    def use(engine: Any, value: Any, number: int) -> object:
        ledger = _ledger(engine, number)
        call(ledger, method)(FIRST, **{name: value if each is ... else each for name, each in option.items()})
        return back(ledger.fact(FIRST))

    return use


def _name_fact(method: str, *more: Any) -> Callable[[Any, Any, int], object]:
    """Name a fact; if that is answered at all, the value was fine."""

    def use(engine: Any, value: Any, number: int) -> object:
        call(_ledger(engine, number), method)(value, *more)
        return value

    return use


def _query_ledger(method: str, *before: Any, **option: Any) -> Callable[[Any, Any, int], object]:
    """Ask the ledger that all have, with the value as its argument, or as the option that has none."""

    def ask(engine: Any, value: Any) -> None:
        ledger = open_ledger(engine, user="all")
        given = {name: value if each is ... else each for name, each in option.items()}
        call(ledger, method)(*before, *([] if option else [value]), **given)

    return query_only(ask)


def _query_session(method: str, *before: Any, **option: Any) -> Callable[[Any, Any, int], object]:
    def ask(engine: Any, value: Any) -> None:
        given = {name: value if each is ... else each for name, each in option.items()}
        call(engine.session("s"), method)(*before, *([] if option else [value]), **given)

    return query_only(ask)


def _create_branch(engine: Any, number: int) -> None:
    """A session, and a fork of it with a fact of its own."""
    engine.create_session(f"s{number}").fork(as_=f"b{number}").ledger().set("a", 1)


def _merge_option(name: str) -> Callable[[Any, Any, int], object]:
    """Merge a fact with this option, and take the value out of the log of the session that it goes to."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        engine.session(f"b{number}").facts.merge(session, **{name: value})
        return getattr(session.events()[-1], name, value)

    return use


def _observe(engine: Any, value: Any, number: int) -> object:
    message = engine.session(f"s{number}").observe(value).message
    return read_returned(engine, message.content, value)


def _observe_option(option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        engine.session(f"s{number}").observe("hello", **{option: value})
        return value

    return use


def _open_named_ledger(engine: Any, value: Any, number: int) -> object:
    """The session was opened with one ledger, and no other can be named."""
    return open_session_ledger(engine.session(f"s{number}"), user=value).id.names[0]


def _query_as_identity(identity: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    def ask(engine: Any, value: Any) -> None:
        open_ledger(engine, user="all", identity=identity(value)).items()

    return query_only(ask)


def _is_one_of(*names: str) -> Callable[[object], bool]:
    return lambda value: is_text(value) and value in names


def _is_list(value: object) -> bool:
    return type(value) in (list, tuple)


def _is_names(value: object) -> bool:
    return is_text(value) or _is_list(value)


def _as_names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _is_span(value: object) -> bool:
    return value is None or (is_number(value) and value > 0)  # type: ignore[operator]


def _to_us(value: Any) -> int | None:
    return None if value is None else max(1, int(value * 1_000_000))


def _span_us(fact: Any) -> int | None:
    return None if fact.expires_us is None else fact.expires_us - fact.at_us


_NOT_FOUND = (errors.FactNotFound,)


STORE_INPUTS: dict[str, InputCase] = {
    "set(name)": InputCase(_assert_option("name", lambda fact: fact.key), is_text),
    "set(value)": InputCase(_assert_option("value", lambda fact: fact.value), is_convertible, as_json),
    "set([permission])": InputCase(
        lambda engine, value, number: _assert_option("requires", lambda fact: fact.requires[0])(
            engine, [value], number
        ),
        is_text,
    ),
    "search(query)": InputCase(_query_ledger("search"), is_text),
}
"""Where a value comes to a store in a place of its own."""


LEDGER_INPUTS: dict[str, InputCase] = {
    "ledger(user)": InputCase(
        lambda engine, value, _: (
            open_ledger(engine, user=value).set("a", 1).value and open_ledger(engine, user=value).id.names[0]
        ),
        is_text,
    ),
    "set(value, nested)": InputCase(
        lambda engine, value, number: _assert_option("value", lambda fact: fact.value["a"][0])(
            engine, {"a": [value]}, number
        ),
        is_convertible,
        as_json,
    ),
    "set(source's name)": InputCase(_assert_source("name"), is_text),
    "set(scope_id)": InputCase(_assert_option("scope_id", lambda fact: fact.scope_id), is_text),
    "set(ref)": InputCase(_assert_option("ref", lambda fact: fact.ref), is_text),
    "set(constraint_type)": InputCase(
        _assert_option("constraint_type", lambda fact: fact.constraint_type), or_none(is_text)
    ),
    "set(provenance)": InputCase(_assert_option("provenance", lambda fact: fact.provenance), _is_names, _as_names),
    "set(reason)": InputCase(_supersede_with_reason, is_text, prepare=_assert_known),
    "set(ttl_s)": InputCase(_assert_option("ttl_s", _span_us), _is_span, _to_us),
    "retract(reason)": InputCase(
        _change_fact("retract", lambda fact: fact.why, reason=...), is_text, prepare=_assert_known
    ),
    "review.promote(scope_id)": InputCase(
        _change_fact("review.promote", lambda fact: fact.scope_id, scope="task", scope_id=...),
        is_text,
        prepare=_assert_draft,
    ),
    "review.supersede(fact)": InputCase(
        _name_fact("review.supersede", "known"), is_text, also=_NOT_FOUND, prepare=_assert_known
    ),
    "get(name)": InputCase(_query_ledger("get"), is_text),
    "fact(fact)": InputCase(_query_ledger("fact"), is_text, also=_NOT_FOUND),
    "observe(message)": InputCase(_observe, is_text, prepare=_create_session),
}


WRITES: dict[str, InputCase] = {
    "set(supersedes)": InputCase(_assert_accepts("supersedes"), _is_names, also=_NOT_FOUND),
    "set([supersedes])": InputCase(
        lambda engine, value, number: _assert_accepts("supersedes")(engine, [value], number) and value,
        is_text,
        also=_NOT_FOUND,
    ),
    "set(depends_on)": InputCase(_assert_accepts("depends_on"), _is_names, also=_NOT_FOUND),
    "set(source)": InputCase(
        _assert_option("source", lambda fact: fact.source.name), or_none(is_text), lambda value: value or ""
    ),
    "set(source's type)": InputCase(_assert_source("type"), _is_one_of(*SOURCE_TYPES)),
    "set(source's identity)": InputCase(_assert_source("identity"), is_text),
    "set(source's turn)": InputCase(_assert_source("turn"), or_none(is_int)),
    "set(source's event)": InputCase(_assert_source("event"), or_none(is_int)),
    "set(authority)": InputCase(
        _assert_option("authority", lambda fact: fact.authority),
        or_none(is_text),
        lambda value: "peer" if value is None else rung(AuthorityLadder(), value),
    ),
    "set(scope)": InputCase(
        _assert_option("scope", lambda fact: fact.scope),
        or_none(_is_one_of(*FACT_SCOPES)),
        lambda value: value or "global",
    ),
    "set(memory_type)": InputCase(
        _assert_option("memory_type", lambda fact: fact.memory_type),
        or_none(_is_one_of(*MEMORY_TYPES)),
        lambda value: value or "user",
    ),
    "set(is_constraint)": InputCase(
        _assert_option("is_constraint", lambda fact: fact.is_constraint), or_none(is_bool), bool
    ),
    "set(requires)": InputCase(
        _assert_option("requires", lambda fact: fact.requires), _is_list, lambda value: tuple(sorted({*value}))
    ),
    "set(valid_from_us)": InputCase(_assert_accepts("valid_from_us"), or_none(is_int)),
    "set(expires_at_us)": InputCase(_assert_option("expires_at_us", lambda fact: fact.expires_us), or_none(is_int)),
    "set(time_sensitive)": InputCase(_assert_accepts("time_sensitive"), or_none(is_bool)),
    "set_all(facts)": InputCase(lambda engine, value, number: _ledger(engine, number).set_all(value), accept_nothing),
    "set_all([fact])": InputCase(
        lambda engine, value, number: _ledger(engine, number).set_all([value]), accept_nothing
    ),
    "set_all(a fact's key)": InputCase(_assert_in_batch("key", lambda fact: fact.key), is_text),
    "set_all(a fact's value)": InputCase(_assert_in_batch("value", lambda fact: fact.value), is_convertible, as_json),
    "set_all(a fact's ref)": InputCase(_assert_in_batch("ref", lambda fact: fact.ref), is_text),
    "set_all(expect)": InputCase(
        lambda engine, value, number: (
            _ledger(engine, number).set_all([{"key": "a", "value": 1}], expect=value) and value
        ),
        or_none(is_int),
        also=(errors.VersionConflict,),
    ),
    "set(key)": InputCase(_assert_accepts("key"), or_none(is_text)),
    "set(cause)": InputCase(_assert_accepts("cause"), or_none(is_text)),
    "set(expect)": InputCase(_assert_accepts("expect"), or_none(is_int), also=(errors.VersionConflict,)),
}


CHANGES: dict[str, InputCase] = {
    **{
        f"{method}(fact)": InputCase(_name_fact(method, *more), is_text, also=_NOT_FOUND)
        for method, more in {
            "retract": (),
            "review.expire": (),
            "review.confirm": (),
            "review.endorse": (),
            "review.reinstate": (),
            "review.promote": (),
        }.items()
    },
    "erase(facts)": InputCase(_name_fact("erase", "a test"), _is_names, also=_NOT_FOUND),
    "erase(reason)": InputCase(
        lambda engine, value, number: _ledger(engine, number).erase(FIRST, value) or value, is_text
    ),
    "review.supersede(by)": InputCase(
        lambda engine, value, number: _ledger(engine, number).review.supersede("known", value) and value,
        is_text,
        also=_NOT_FOUND,
    ),
    "review.supersede(reason)": InputCase(
        lambda engine, value, number: _ledger(engine, number).review.supersede(FIRST, "other", reason=value).why,
        is_text,
        prepare=_assert_two,
    ),
    "review.endorse(authority)": InputCase(
        _change_fact("review.endorse", lambda fact: fact.authority, authority=...),
        or_none(is_text),
        lambda value: (
            "policy"
            if value is None
            else max("peer", rung(AuthorityLadder(), value), key=AuthorityLadder().rungs[::-1].index)
        ),
    ),
    **{
        f"{method}({option})": InputCase(
            lambda engine, value, number, method=method, option=option: _change_fact(  # type: ignore[misc]
                method, lambda _: value, **{option: ...}
            )(engine, value, number),
            or_none(is_text) if option in ("key", "cause") else is_text,
        )
        for method in ("retract", "review.expire", "review.confirm", "review.endorse")
        for option in ("reason", "key", "cause")
        if (method, option) != ("retract", "reason")
    },
    "review.promote(scope)": InputCase(
        _change_fact("review.promote", lambda fact: fact.scope, scope=...), _is_one_of("global"), prepare=_assert_draft
    ),
}
"""Each with a ledger of its own, in which something is known."""


QUESTIONS: dict[str, InputCase] = {
    "get(scope)": InputCase(_query_ledger("get", "a", scope=...), _is_one_of(*FACT_SCOPES)),
    "get(scope_id)": InputCase(_query_ledger("get", "a", scope_id=...), is_text),
    "history(name)": InputCase(_query_ledger("history"), is_text),
    "history(limit)": InputCase(_query_ledger("history", "a", limit=...), is_int),
    "why(name)": InputCase(_query_ledger("why"), is_text, also=_NOT_FOUND),
    "why(scope)": InputCase(_query_ledger("why", "a", scope=...), _is_one_of(*FACT_SCOPES), also=_NOT_FOUND),
    "why(scope_id)": InputCase(_query_ledger("why", "a", scope_id=...), is_text, also=_NOT_FOUND),
    "items(status)": InputCase(_query_ledger("items", status=...), _is_one_of("live", "dead")),
    "items(memory_type)": InputCase(_query_ledger("items", memory_type=...), or_none(_is_one_of(*MEMORY_TYPES))),
    "items(within)": InputCase(
        _query_ledger("items", within=...), lambda value: _is_list(value) or _is_one_of("any")(value)
    ),
    "constraints(within)": InputCase(_query_ledger("constraints", within=...), _is_list),
    "items([scope])": InputCase(
        lambda engine, value, number: _query_ledger("items", within=...)(engine, [value], number) and value,
        accept_nothing,
    ),
    "items(scope's id)": InputCase(
        lambda engine, value, number: _query_ledger("items", within=...)(engine, [("task", value)], number) and value,
        is_text,
    ),
    **{
        f"{method}(after)": InputCase(_query_ledger(method, after=...), or_none(is_text))
        for method in ("items", "review.list", "constraints")
    },
    **{
        f"{method}(limit)": InputCase(_query_ledger(method, limit=...), is_int)
        for method in ("items", "review.list", "constraints")
    },
    "search(within)": InputCase(_query_ledger("search", "a", within=...), _is_list),
    "search(limit)": InputCase(_query_ledger("search", "a", limit=...), is_int),
    "ledger(project)": InputCase(query_only(lambda engine, value: open_ledger(engine, project=value).items()), is_text),
    "ledger(organization)": InputCase(
        query_only(lambda engine, value: open_ledger(engine, organization=value).items()), is_text
    ),
    "ledger(identity)": InputCase(_query_as_identity(identity), or_none(accept_nothing)),
    "ledger(identity's authority)": InputCase(_query_as_identity(lambda value: Identity(authority=value)), is_text),
    "ledger(identity's permissions)": InputCase(
        _query_as_identity(lambda value: Identity(permissions=value)),
        lambda value: type(value) in (tuple, list, set, frozenset),
    ),
    "ledgers(kind)": InputCase(
        query_only(lambda engine, value: engine.ledgers(kind=value)),
        or_none(_is_one_of("user", "project", "organization", "session")),
    ),
    "ledgers(after)": InputCase(query_only(lambda engine, value: engine.ledgers(after=value)), or_none(accept_nothing)),
    "ledgers(limit)": InputCase(query_only(lambda engine, value: engine.ledgers(limit=value)), is_int),
    "session.facts.get(name)": InputCase(_query_session("facts.get"), is_text),
    "session.facts.get(scope)": InputCase(_query_session("facts.get", "a", scope=...), _is_one_of(*FACT_SCOPES)),
    "session.facts.get(scope_id)": InputCase(_query_session("facts.get", "a", scope_id=...), is_text),
    "session.facts.search(query)": InputCase(_query_session("facts.search"), is_text),
    "session.facts.search(within)": InputCase(_query_session("facts.search", "a", within=...), _is_list),
    "session.facts.search(limit)": InputCase(_query_session("facts.search", "a", limit=...), is_int),
    "session.ledger(project)": InputCase(
        query_only(lambda engine, value: open_session_ledger(engine.session("s"), project=value)),
        or_none(accept_nothing),
    ),
    "session.facts.accept(proposal)": InputCase(
        _query_session("facts.accept"), is_text, also=(errors.ProposalNotFound,)
    ),
    "session.facts.decline(proposal)": InputCase(
        _query_session("facts.decline"), is_text, also=(errors.ProposalNotFound,)
    ),
    "session.facts.merge(into)": InputCase(_query_session("facts.merge"), accept_nothing),
}
"""They change nothing, whatever they are asked."""


OBSERVE_INPUTS: dict[str, InputCase] = {
    "observe(role)": InputCase(_observe_option("role"), _is_one_of("user", "assistant", "system")),
    "observe(key)": InputCase(_observe_option("key"), or_none(is_text)),
    "observe(cause)": InputCase(_observe_option("cause"), or_none(is_text)),
    "session.ledger(user)": InputCase(_open_named_ledger, or_none(accept_nothing), lambda _: "main"),
}
"""Each with a session of its own."""


MERGE_INPUTS: dict[str, InputCase] = {
    "session.facts.merge(apply)": InputCase(_merge_option("apply"), is_bool),
    "session.facts.merge(key)": InputCase(_merge_option("key"), or_none(is_text)),
    "session.facts.merge(cause)": InputCase(_merge_option("cause"), or_none(is_text)),
}
"""Each with a session and a branch of its own."""


MORE: dict[str, InputCase] = {
    **LEDGER_INPUTS,
    **WRITES,
    **{
        name: each if each.prepare in (_assert_draft, _assert_two) else each._replace(prepare=_assert_known)
        for name, each in CHANGES.items()
    },
    **QUESTIONS,
    **{name: each._replace(prepare=_create_session) for name, each in OBSERVE_INPUTS.items()},
    **{name: each._replace(prepare=_create_branch) for name, each in MERGE_INPUTS.items()},
}


FACT_INPUTS: dict[str, InputCase] = STORE_INPUTS | MORE
