"""The entrances of packs, as data: what they are asked for, what is kept of them, and what is asked of them later. Each is
there twice: for a session, and for a frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec

import holdfast
from holdfast import Brief, Profile, errors
from holdfast.context.levels import LEVELS
from holdfast.model.facts import FactScope
from holdfast.model.pack import GUARDS, PROFILES, PackRecord
from holdfast.model.tools import Tool
from tests.edges.entrance import (
    Entrance,
    as_given,
    asked,
    is_bool,
    is_int,
    is_json_object,
    is_number,
    is_text,
    never,
    or_none,
)

BUDGET = 2_000
FRAME = "f2"
"""The first event makes the session, and the second its frame."""
TOOL = Tool(name="track", description="Where a parcel is.", parameters={"type": "object"})
RECORD = PackRecord(id="p9", seq=9, context_hash="", budget=BUDGET, used=9, level="none", query="", time_us=0)

Where = Callable[[Any], Any]


def _session(engine: Any) -> Any:
    return engine.session("s")


def _frame(engine: Any) -> Any:
    return engine.session("s").get_frame(FRAME)


def opened(engine: Any) -> None:
    """A session and a frame, both with something to say, and two packs of each."""
    session = engine.create_session("s")
    session.frame("find the parcel", budget=10**9)
    for where in (_session, _frame):
        where(engine).record("user", "Where is the parcel?")
        for _ in range(2):
            where(engine).keep(where(engine).pack(budget=BUDGET))


def _something_dies(where: Where) -> Callable[[Any, int], None]:
    """There is a boundary to be settled, so that something would be stored if a value were looked at too late."""

    def prepare(engine: Any, number: int) -> None:
        ledger = _session(engine).ledger()
        ledger.assert_("harbour", f"Harbour {number:04}")
        where(engine).record("user", f"It is in Harbour {number:04}.")
        where(engine).record("assistant", "I see.", pack=False)
        ledger.assert_("harbour", f"Quay {number:04}")

    return prepare


def _packed(where: Where, option: str, make: Callable[[Any], Any] = as_given) -> Callable[[Any, Any, int], object]:
    """A pack with an option made of the value. What it shows and tells can be had in every form."""

    def use(engine: Any, value: Any, _: int) -> object:
        made = where(engine).pack(**{"budget": BUDGET, "model": "m", option: make(value)})
        assert made.tokens.used <= made.tokens.budget
        for told in (made.anthropic(), made.openai(), made.openai_responses(), [made.text, made.explain()]):
            assert msgspec.json.encode(told)
        kept = where(engine).keep(made)
        assert where(engine).manifest(kept) == made.manifest
        if option == "query" and value is not None:
            return made.query
        return value

    return use


def _asked(where: Where, method: str, option: str, make: Callable[[Any], Any] = as_given) -> Callable[..., object]:
    return asked(lambda engine, value: getattr(where(engine), method)(**{option: make(value)}))


def _kept(where: Where, option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, _: int) -> object:
        record = where(engine).keep(where(engine).pack(budget=BUDGET), **{option: value})
        (event,) = _session(engine).events(after=record.seq - 1, limit=1)
        return getattr(event, option)

    return use


def _replied(where: Where) -> Callable[[Any, Any, int], object]:
    """A reply is recorded once, whatever it is said to answer."""

    def use(engine: Any, value: Any, _: int) -> object:
        where(engine).record("assistant", "On its way.", pack=value)
        return value

    return use


def _opened(make: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    return asked(lambda _, value: holdfast.open("memory:", briefs=make(value)).close())


def _named(value: Any) -> dict[Any, Brief]:
    try:
        return {value: Brief()}
    except Exception as error:
        raise TypeError("it can be no key at all") from error


def _changed(usual: Any, field: str) -> Callable[[Any], Any]:
    return lambda value: msgspec.structs.replace(usual, **{field: value})


def _is_share(value: object) -> bool:
    return is_number(value) and 0 <= value <= 1  # type: ignore[operator]


def _as_text(value: object) -> bool:
    """A text, or something that is written as one: a brief is kept as it is written."""
    return isinstance(value, str)


def _one_of(known: tuple[str, ...]) -> Callable[[object], bool]:
    return lambda value: type(value) is str and value in known


def _is_empty(value: object) -> bool:
    return type(value) in (list, tuple) and not value


OPTIONS: dict[str, Callable[[object], bool]] = {
    "query": or_none(is_text),
    "budget": is_int,
    "role": lambda value: value == "",
    "brief": or_none(never),
    "include": _is_empty,
    "exclude": _is_empty,
    "force": is_bool,
    "within": _is_empty,
    "min_compaction": _one_of(LEVELS),
    "fact_share": or_none(_is_share),
    "profile": _one_of(tuple(PROFILES)),
    "model": or_none(is_text),
    "max_output": or_none(is_int),
    "guard": lambda value: value is None or value in GUARDS,
    "strategy": lambda value: value is None or callable(value),
    "as_of_us": or_none(is_int),
    "settle": is_bool,
    "audit": is_bool,
    "time": is_bool,
}
PROFILE: dict[str, Callable[[object], bool]] = {
    "name": is_text,
    "fact_share": _is_share,
    "least_score": _is_share,
    "history": _one_of(("whole", "relevant")),
    "recent_turns": is_int,
}
BRIEF: dict[str, Callable[[object], bool]] = {
    "prompt": _as_text,
    "invariants": lambda value: value == () and type(value) is tuple,
    "working_context": _as_text,
    "tools": lambda value: value == () and type(value) is tuple,
}
INSIDE: dict[str, tuple[str, Callable[[Any], Any], Callable[[object], bool]]] = {
    "pack([handle])": ("include", lambda value: [value], is_text),
    "pack([excluded handle])": ("exclude", lambda value: [value], is_text),
    "pack([scope])": ("within", lambda value: [value], never),
    "pack(name of a scope)": ("within", lambda value: [(value, "t")], _one_of(get_args(FactScope))),
    "pack(id of a scope)": ("within", lambda value: [("task", value)], is_text),
    **{f"pack(profile's {name})": ("profile", _changed(Profile(name="own"), name), PROFILE[name]) for name in PROFILE},
    **{f"pack(brief's {name})": ("brief", _changed(Brief(), name), BRIEF[name]) for name in BRIEF},
    "pack(brief's invariant)": ("brief", lambda value: Brief(invariants=(value,)), _as_text),
    "pack(brief's tool)": ("brief", lambda value: Brief(tools=(value,)), never),
    "pack(name of a tool)": ("brief", lambda value: Brief(tools=(_changed(TOOL, "name")(value),)), _as_text),
    "pack(description of a tool)": (
        "brief",
        lambda value: Brief(tools=(_changed(TOOL, "description")(value),)),
        _as_text,
    ),
    "pack(parameters of a tool)": (
        "brief",
        lambda value: Brief(tools=(_changed(TOOL, "parameters")(value),)),
        is_json_object,
    ),
}

OF_ENGINES: dict[str, Entrance] = {
    "open(briefs)": Entrance(_opened(as_given), lambda value: value is None or (isinstance(value, dict) and not value)),
    "open(role)": Entrance(_opened(_named), is_text, also=(TypeError,)),
    "open(brief)": Entrance(_opened(lambda value: {"role": value}), never),
}


def _entrances(where: Where) -> dict[str, Entrance]:
    dies = _something_dies(where)
    names: dict[str, Any] = {"also": (errors.PackNotFound,)}
    return {
        **{f"pack({name})": Entrance(_packed(where, name), fits, prepare=dies) for name, fits in OPTIONS.items()},
        **{
            name: Entrance(_packed(where, option, make), fits, prepare=dies)
            for name, (option, make, fits) in INSIDE.items()
        },
        "packs(before)": Entrance(_asked(where, "packs", "before"), or_none(is_int)),
        "packs(limit)": Entrance(_asked(where, "packs", "limit"), is_int),
        "manifest(pack)": Entrance(_asked(where, "manifest", "pack"), is_text, **names),
        "manifest(id of a record)": Entrance(
            _asked(where, "manifest", "pack", _changed(RECORD, "id")), is_text, **names
        ),
        "reproduce(pack)": Entrance(_asked(where, "reproduce", "pack"), is_text, **names),
        "diff(first)": Entrance(_asked(where, "diff", "first"), or_none(is_text), **names),
        "diff(second)": Entrance(_asked(where, "diff", "second"), or_none(is_text), **names),
        "keep(pack)": Entrance(_asked(where, "keep", "pack"), never),
        "keep(key)": Entrance(_kept(where, "key"), or_none(is_text)),
        "keep(cause)": Entrance(_kept(where, "cause"), or_none(is_text)),
        "record(pack)": Entrance(_replied(where), lambda value: value is None or value is False),
    }


PACK_ENTRANCES: dict[str, Entrance] = {
    **OF_ENGINES,
    **_entrances(_session),
    "pack(frame)": Entrance(_packed(_session, "frame"), or_none(is_text), also=(errors.FrameNotFound,)),
    "frame.pack(frame)": Entrance(_packed(_frame, "frame"), or_none(never)),
    "pack(reserve)": Entrance(_packed(_session, "reserve"), or_none(never), prepare=_something_dies(_session)),
    **{f"frame.{name}": entrance for name, entrance in _entrances(_frame).items()},
    "frame.pack(reserve)": Entrance(
        _packed(_frame, "reserve"),
        or_none(is_int),
        also=(errors.InsufficientTokens,),
    ),
}
