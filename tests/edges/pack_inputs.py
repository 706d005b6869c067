"""The entrances of packs, as data: what they are asked for, what is kept of them, and what is asked of them later. Each is
there twice: for a session, and for a frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec

import holdfast
from holdfast import Brief, Profile, errors
from holdfast.model.facts.fact import FactScope
from holdfast.model.history.plans import LEVELS
from holdfast.model.packs.pack import GUARD_MODES, PROFILES, PackRecord
from holdfast.model.tools.tool import Tool
from tests.edges.input_cases import (
    InputCase,
    accept_nothing,
    identity,
    is_bool,
    is_int,
    is_json_object,
    is_number,
    is_text,
    or_none,
    query_only,
)
from tests.edges.surface import call

BUDGET = 2_000


FRAME = "f2"
"""The first event makes the session, and the second its frame."""


TOOL = Tool(name="track", description="Where a parcel is.", parameters={"type": "object"})


RECORD = PackRecord(id="p9", seq=9, context_hash="", budget=BUDGET, used=9, level="none", query="", time_us=0)


Conversation = Callable[[Any], Any]


def _session(engine: Any) -> Any:
    return engine.session("s")


def _frame(engine: Any) -> Any:
    return engine.session("s").frames.get(FRAME)


def create_conversations(engine: Any) -> None:
    """A session and a frame, both with something to say, and two packs of each."""
    session = engine.create_session("s")
    session.frame("find the parcel", budget=10**9)
    for where in (_session, _frame):
        where(engine).record("user", "Where is the parcel?")
        for _ in range(2):
            where(engine).packs.store(where(engine).pack(budget=BUDGET))


def _supersede_fact(where: Conversation) -> Callable[[Any, int], None]:
    """There is a boundary to be settled, so that something would be stored if a value were looked at too late."""

    def prepare(engine: Any, number: int) -> None:
        ledger = _session(engine).ledger()
        ledger.set("harbour", f"Harbour {number:04}")
        where(engine).record("user", f"It is in Harbour {number:04}.")
        where(engine).record("assistant", "I see.", pack=False)
        ledger.set("harbour", f"Quay {number:04}")

    return prepare


def _pack_option(
    where: Conversation, option: str, make: Callable[[Any], Any] = identity
) -> Callable[[Any, Any, int], object]:
    """A pack with an option made of the value. What it shows and tells can be had in every form."""

    def use(engine: Any, value: Any, _: int) -> object:
        made = where(engine).pack(**{"budget": BUDGET, "model": "m", option: make(value)})
        assert made.tokens.used <= made.tokens.budget
        for told in (made.anthropic(), made.openai(), made.openai_responses(), [made.text, made.explain()]):
            assert msgspec.json.encode(told)
        kept = where(engine).packs.store(made)
        assert where(engine).packs.manifest(kept) == made.manifest
        if option == "query" and value is not None:
            return made.query
        return value

    return use


def _query_method(
    where: Conversation, method: str, option: str, make: Callable[[Any], Any] = identity
) -> Callable[..., object]:
    return query_only(lambda engine, value: call(where(engine), method)(**{option: make(value)}))


def _store_pack(where: Conversation) -> Callable[[Any, int], None]:
    def prepare(engine: Any, _: int) -> None:
        where(engine).packs.store(where(engine).pack(budget=BUDGET))

    return prepare


def _vary_option(where: Conversation, option: str) -> Callable[[Any, Any, int], object]:
    """The stored pack with another option. Nothing is stored of it."""

    def use(engine: Any, value: Any, _: int) -> object:
        (record,) = where(engine).packs.list(limit=1)
        varied = where(engine).packs.vary(record, **{option: value})
        assert varied.tokens.used <= varied.tokens.budget
        assert _session(engine).state().version == record.seq
        return varied.query if option == "query" and value is not None else value

    return use


def _keep_option(where: Conversation, option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, _: int) -> object:
        record = where(engine).packs.store(where(engine).pack(budget=BUDGET), **{option: value})
        (event,) = _session(engine).events(after=record.seq - 1, limit=1)
        return getattr(event, option)

    return use


def _record_reply(where: Conversation) -> Callable[[Any, Any, int], object]:
    """A reply is recorded once, whatever it is said to answer."""

    def use(engine: Any, value: Any, _: int) -> object:
        where(engine).record("assistant", "On its way.", pack=value)
        return value

    return use


def _open_with_briefs(make: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    return query_only(lambda _, value: holdfast.open("memory:", briefs=make(value)).close())


def _briefs_by_name(value: Any) -> dict[Any, Brief]:
    try:
        return {value: Brief()}
    except Exception as error:
        raise TypeError("it can be no key at all") from error


def _replace_field(usual: Any, field: str) -> Callable[[Any], Any]:
    return lambda value: msgspec.structs.replace(usual, **{field: value})


def _is_share(value: object) -> bool:
    return is_number(value) and 0 <= value <= 1  # type: ignore[operator]


def _is_textual(value: object) -> bool:
    """A text, or something that is written as one: a brief is kept as it is written."""
    return isinstance(value, str)


def _is_one_of(known: tuple[str, ...]) -> Callable[[object], bool]:
    return lambda value: type(value) is str and value in known


def _is_empty(value: object) -> bool:
    return type(value) in (list, tuple) and not value


OPTIONS: dict[str, Callable[[object], bool]] = {
    "query": or_none(is_text),
    "budget": is_int,
    "role": lambda value: value == "",
    "brief": or_none(accept_nothing),
    "include": _is_empty,
    "exclude": _is_empty,
    "force": is_bool,
    "within": _is_empty,
    "min_compaction": _is_one_of(LEVELS),
    "fact_share": or_none(_is_share),
    "recall": lambda value: value is None or is_bool(value) or _is_share(value),
    "profile": _is_one_of(tuple(PROFILES)),
    "model": or_none(is_text),
    "max_output": or_none(is_int),
    "guard": lambda value: value is None or value in GUARD_MODES,
    "strategy": lambda value: value is None or callable(value),
    "as_of_us": or_none(is_int),
    "settle": is_bool,
    "audit": is_bool,
    "time": is_bool,
}


VARIED: dict[str, Callable[[object], bool]] = {
    **{name: or_none(OPTIONS[name]) for name in ("query", "budget", "profile", "model", "max_output", "guard")},
    "policy": or_none(_is_one_of(("faithful", "frugal", "classic"))),
}
"""The options of a stored pack that is built again."""


PROFILE: dict[str, Callable[[object], bool]] = {
    "name": is_text,
    "fact_share": _is_share,
    "recall_share": _is_share,
    "least_score": _is_share,
    "history": _is_one_of(("whole", "relevant")),
    "recent_turns": is_int,
}


BRIEF: dict[str, Callable[[object], bool]] = {
    "prompt": _is_textual,
    "invariants": lambda value: type(value) is tuple and all(map(_is_textual, value)),
    "working_context": _is_textual,
    "tools": lambda value: value == () and type(value) is tuple,
}


NESTED_OPTIONS: dict[str, tuple[str, Callable[[Any], Any], Callable[[object], bool]]] = {
    "pack([handle])": ("include", lambda value: [value], is_text),
    "pack([excluded handle])": ("exclude", lambda value: [value], is_text),
    "pack([scope])": ("within", lambda value: [value], accept_nothing),
    "pack(name of a scope)": ("within", lambda value: [(value, "t")], _is_one_of(get_args(FactScope))),
    "pack(id of a scope)": ("within", lambda value: [("task", value)], is_text),
    **{
        f"pack(profile's {name})": ("profile", _replace_field(Profile(name="own"), name), PROFILE[name])
        for name in PROFILE
    },
    **{f"pack(brief's {name})": ("brief", _replace_field(Brief(), name), BRIEF[name]) for name in BRIEF},
    "pack(brief's invariant)": ("brief", lambda value: Brief(invariants=(value,)), _is_textual),
    "pack(brief's tool)": ("brief", lambda value: Brief(tools=(value,)), accept_nothing),
    "pack(name of a tool)": ("brief", lambda value: Brief(tools=(_replace_field(TOOL, "name")(value),)), _is_textual),
    "pack(description of a tool)": (
        "brief",
        lambda value: Brief(tools=(_replace_field(TOOL, "description")(value),)),
        _is_textual,
    ),
    "pack(parameters of a tool)": (
        "brief",
        lambda value: Brief(tools=(_replace_field(TOOL, "parameters")(value),)),
        is_json_object,
    ),
}


ENGINE_INPUTS: dict[str, InputCase] = {
    "open(briefs)": InputCase(
        _open_with_briefs(identity), lambda value: value is None or (isinstance(value, dict) and not value)
    ),
    "open(role)": InputCase(_open_with_briefs(_briefs_by_name), is_text, also=(TypeError,)),
    "open(brief)": InputCase(_open_with_briefs(lambda value: {"role": value}), accept_nothing),
}


def _build_inputs(where: Conversation) -> dict[str, InputCase]:
    dies = _supersede_fact(where)
    names: dict[str, Any] = {"also": (errors.PackNotFound,)}
    return {
        **{f"pack({name})": InputCase(_pack_option(where, name), fits, prepare=dies) for name, fits in OPTIONS.items()},
        **{
            name: InputCase(_pack_option(where, option, make), fits, prepare=dies)
            for name, (option, make, fits) in NESTED_OPTIONS.items()
        },
        "packs.list(before)": InputCase(_query_method(where, "packs.list", "before"), or_none(is_int)),
        "packs.list(limit)": InputCase(_query_method(where, "packs.list", "limit"), is_int),
        "packs.calls(before)": InputCase(_query_method(where, "packs.calls", "before"), or_none(is_int)),
        "packs.calls(limit)": InputCase(_query_method(where, "packs.calls", "limit"), is_int),
        "packs.redactions(pack)": InputCase(_query_method(where, "packs.redactions", "pack"), is_text, **names),
        "packs.vary(pack)": InputCase(_query_method(where, "packs.vary", "pack"), is_text, **names),
        **{
            f"packs.vary({name})": InputCase(_vary_option(where, name), fits, prepare=_store_pack(where))
            for name, fits in VARIED.items()
        },
        "packs.manifest(pack)": InputCase(_query_method(where, "packs.manifest", "pack"), is_text, **names),
        "packs.manifest(id of a record)": InputCase(
            _query_method(where, "packs.manifest", "pack", _replace_field(RECORD, "id")), is_text, **names
        ),
        "packs.reproduce(pack)": InputCase(_query_method(where, "packs.reproduce", "pack"), is_text, **names),
        "packs.diff(first)": InputCase(_query_method(where, "packs.diff", "first"), or_none(is_text), **names),
        "packs.diff(second)": InputCase(_query_method(where, "packs.diff", "second"), or_none(is_text), **names),
        "packs.store(pack)": InputCase(_query_method(where, "packs.store", "pack"), accept_nothing),
        "packs.store(key)": InputCase(_keep_option(where, "key"), or_none(is_text)),
        "packs.store(cause)": InputCase(_keep_option(where, "cause"), or_none(is_text)),
        "record(pack)": InputCase(_record_reply(where), lambda value: value is None or value is False),
    }


PACK_INPUTS: dict[str, InputCase] = {
    **ENGINE_INPUTS,
    **_build_inputs(_session),
    "pack(frame)": InputCase(_pack_option(_session, "frame"), or_none(is_text), also=(errors.FrameNotFound,)),
    "frame.pack(frame)": InputCase(_pack_option(_frame, "frame"), or_none(accept_nothing)),
    "pack(reserve)": InputCase(
        _pack_option(_session, "reserve"), or_none(accept_nothing), prepare=_supersede_fact(_session)
    ),
    **{f"frame.{name}": entrance for name, entrance in _build_inputs(_frame).items()},
    "frame.pack(reserve)": InputCase(
        _pack_option(_frame, "reserve"),
        or_none(is_int),
        also=(errors.InsufficientTokens,),
    ),
}
