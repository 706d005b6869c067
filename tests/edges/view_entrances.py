"""The entrances of views, as data: of what is shown, planned, folded, paged out and in, and read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

import holdfast
from holdfast import Classic, Frugal, Prices, Spooling, SummarizeOldest, TruncateAt, errors
from holdfast.flows.history import DIALECTS
from holdfast.model.handles import SCORES
from holdfast.testing import hostile
from tests.edges.entrance import (
    Entrance,
    as_json_object,
    as_returned,
    asked,
    converts_to_object,
    is_bool,
    is_int,
    is_number,
    is_returned,
    is_text,
    never,
    or_none,
)
from tests.edges.entrances import came_back

WINDOW = 3_000
PIECE = "h2_0"
"""Of the first message."""
HANDLE = "h3"
"""The first event makes the session, the second its frame, and the third a handle."""
PRICES = Prices(
    provider="p", model="m", input=10, cache_read=1, cache_write=12, output=50, window=200_000, max_output=8_000
)


def _talked(engine: Any, number: int) -> None:
    """A conversation that can be folded."""
    session = engine.create_session(f"s{number}")
    for _ in range(2):
        session.record("user", "what about this? " * 60)
        session.record("assistant", "this and that " * 60)


def _asking(engine: Any, _: int) -> None:
    """The same for all who only ask."""
    if engine.session("s").state().messages < 2:
        engine.session("s").record("assistant", "this and that " * 60)


def _with_handle(engine: Any, number: int) -> None:
    frame = engine.create_session(f"s{number}").frame("work", budget=1_000)
    frame.add_handle("document", "a page", title="a title")


def _session(engine: Any, number: int) -> Any:
    return engine.session(f"s{number}")


def _question(method: str, option: str, *before: Any, **usual: Any) -> Callable[[Any, Any, int], object]:
    """A question that keeps nothing: if it is answered at all, the value was fine."""
    return asked(lambda engine, value: getattr(engine.session("s"), method)(*before, **{**usual, option: value}))


def _planned(make: Callable[[Any], Any], option: str) -> Callable[[Any, Any, int], object]:
    """An option of plan() made of the value."""
    return asked(lambda engine, value: engine.session("s").plan(**{"window": WINDOW, option: make(value)}))


def _figure(kind: type[Any], field: str) -> Callable[[Any], Any]:
    return lambda value: msgspec.structs.replace(PRICES if kind is Prices else kind(), **{field: value})


def _compacted(**option: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    """compact() with an option made of the value; the event says what became of it, where it does."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = {"strategy": SummarizeOldest(2), "window": WINDOW} | {
            name: make(value) for name, make in option.items()
        }
        done = _session(engine, number).compact(**given)
        if done.at is None or not {"key", "cause"} & {*option}:
            return value
        (event,) = _session(engine, number).events(after=done.at - 1, limit=1)
        return getattr(event, next(iter(option)))

    return use


def _by_plan(field: str) -> Callable[[Any, Any, int], object]:
    """A plan that someone changed by hand."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = _session(engine, number)
        session.compact(msgspec.structs.replace(session.plan(window=500), **{field: value}))
        return value

    return use


def _in_plan(where: str, field: str) -> Callable[[Any, Any, int], object]:
    """The same inside of its fold, or of its figures."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = _session(engine, number)
        made = session.plan(window=500)
        inside = msgspec.structs.replace(getattr(made, where), **{field: value})
        session.compact(msgspec.structs.replace(made, **{where: inside}))
        return value

    return use


def _moved(method: str, option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        getattr(_session(engine, number), method)(**{"handle": PIECE, option: value})
        return value

    return use


def _replaced(option: str, back: Callable[[Any, Any], object]) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        frame = _session(engine, number).get_frame("f2")
        return back(frame, frame.replace_handle(**{"handle": HANDLE, option: value}))

    return use


def _new_content(engine: Any, value: Any, number: int) -> object:
    frame = _session(engine, number).get_frame("f2")
    frame.replace_handle(HANDLE, value)
    return None if value is None else came_back(engine, frame.read_handle(HANDLE), value)


def _opened(option: str, make: Callable[[Any], Any] = lambda value: value) -> Callable[[Any, Any, int], object]:
    return asked(lambda _, value: holdfast.open("memory:", **{option: make(value)}).close())


def _as_int(value: object) -> bool:
    """A number, or something that is written as one."""
    return isinstance(value, int) and type(value) is not bool


def _as_text(value: object) -> bool:
    return isinstance(value, str)


def _is_share(value: object) -> bool:
    return is_number(value) and 0 < value <= 1  # type: ignore[operator]


def _fits(kind: type[Any], field: str) -> Callable[[object], bool]:
    if kind is Prices:
        return is_text if field in ("provider", "model") else is_int
    if field.endswith(("share", "ratio")) or field == "target":
        return _is_share
    return or_none(_is_share) if field in ("snip", "micro", "collapse", "auto") else is_int


READS = {
    "start": or_none(is_int),
    "stop": or_none(is_int),
    "first_line": or_none(is_int),
    "last_line": or_none(is_int),
    "search": or_none(is_text),
    "limit": is_int,
}
PLANS: dict[str, Callable[[object], bool]] = {
    "window": or_none(is_int),
    "model": or_none(is_text),
    "prices": or_none(never),
    "policy": lambda value: value in (None, "frugal", "classic"),
    "before": is_int,
    "cold": is_bool,
}

QUESTIONS: dict[str, Entrance] = {
    "render(to)": Entrance(_question("render", "to"), lambda value: value in DIALECTS),
    "render(budget)": Entrance(_question("render", "budget"), or_none(is_int)),
    "history(budget)": Entrance(_question("history", "budget"), or_none(is_int)),
    "handle(name)": Entrance(_question("handle", "name"), is_text, also=(errors.HandleNotFound,)),
    "read_text(handle)": Entrance(_question("read_text", "handle"), is_text, also=(errors.HandleNotFound,)),
    **{f"read_text({option})": Entrance(_question("read_text", option, PIECE), fits) for option, fits in READS.items()},
    **{f"plan({option})": Entrance(_planned(lambda value: value, option), fits) for option, fits in PLANS.items()},
    **{
        f"plan({option}'s {field})": Entrance(_planned(_figure(kind, field), option), _fits(kind, field))
        for option, kind in (("prices", Prices), ("policy", Frugal), ("policy", Classic))
        for field in kind.__struct_fields__
    },
    "open(compaction)": Entrance(_opened("compaction"), PLANS["policy"]),
    "open(prices)": Entrance(_opened("prices"), lambda value: value in ([], ())),
    "open([prices])": Entrance(_opened("prices", lambda value: [value]), never),
    "open(summarizer)": Entrance(_opened("summarizer"), or_none(never)),
    "open(spooling)": Entrance(_opened("spooling"), or_none(never)),
    "open(spooling's threshold)": Entrance(_opened("spooling", Spooling), is_int),
    "open(spooling's preview)": Entrance(_opened("spooling", lambda value: Spooling(9, value)), is_int),
}
"""They change nothing, whatever they are asked."""

BOUNDARIES: dict[str, Entrance] = {
    **{f"compact({option})": Entrance(_compacted(**{option: lambda value: value}), PLANS[option]) for option in PLANS},
    "compact(key)": Entrance(_compacted(key=lambda value: value), or_none(is_text)),
    "compact(cause)": Entrance(_compacted(cause=lambda value: value), or_none(is_text)),
    "compact(strategy)": Entrance(_compacted(strategy=lambda value: value), or_none(never)),
    "compact(keep_recent)": Entrance(_compacted(strategy=SummarizeOldest), is_int),
    "compact(message_count)": Entrance(_compacted(strategy=TruncateAt), is_int),
    "compact(plan)": Entrance(_compacted(plan=lambda value: value), or_none(never)),
    "compact(plan's version)": Entrance(_by_plan("version"), _as_int, also=(errors.PlanStale,)),
    "compact(plan's policy)": Entrance(_by_plan("policy"), _as_text),
    "compact(plan's why)": Entrance(_by_plan("why"), lambda value: value is None or value in ("pays", "asked")),
    **{
        f"compact(plan's {field})": Entrance(_by_plan(field), fits)
        for field, fits in {
            "steps": never,
            "reduced": lambda value: value == (),
            "fold": or_none(never),
            "figures": never,
            "target_met": is_bool,
        }.items()
    },
    **{
        f"compact(fold's {field})": Entrance(_in_plan("fold", field), fits)
        for field, fits in {
            "first": _as_int,
            "last": _as_int,
            "messages": never,
            "summaries": lambda value: type(value) is tuple and all(map(_as_int, value)),  # looked up all the same
            "count": _as_int,
            "text": _as_text,
            "tokens": _as_int,
        }.items()
    },
    **{f"compact(figures' {field})": Entrance(_in_plan("figures", field), _as_int) for field in ("before", "grown")},
    "page_out(handle)": Entrance(_moved("page_out", "handle"), is_text, also=(errors.HandleNotFound,)),
    "page_out(tier)": Entrance(_moved("page_out", "tier"), lambda value: value in ("durable", "semantic")),
    "page_out(key)": Entrance(_moved("page_out", "key"), or_none(is_text)),
    "piece(handle)": Entrance(_moved("piece", "handle"), is_text, also=(errors.HandleNotFound,)),
    "page_in(handle)": Entrance(_moved("page_in", "handle"), is_text, also=(errors.HandleNotFound,)),
    "page_in(key)": Entrance(_moved("page_in", "key"), or_none(is_text)),
}
"""Each with a conversation of its own."""

HANDLES: dict[str, Entrance] = {
    "replace_handle(handle)": Entrance(
        _replaced("handle", lambda _, handle: handle.id), is_text, also=(errors.HandleNotFound,)
    ),
    "replace_handle(content)": Entrance(
        _new_content,
        is_returned,
        as_returned,
        (hostile.Spite,),
    ),
    "replace_handle(priority)": Entrance(
        _replaced("priority", lambda _, handle: handle.priority),
        lambda value: value is None or value in SCORES,
        lambda value: value or "medium",
    ),
    "replace_handle(title)": Entrance(
        _replaced("title", lambda _, handle: handle.title),
        or_none(is_text),
        lambda value: "a title" if value is None else value,
    ),
    "replace_handle(metadata)": Entrance(
        _replaced("metadata", lambda _, handle: handle.metadata), converts_to_object, as_json_object
    ),
    "replace_handle(key)": Entrance(
        lambda *given: _replaced("key", lambda *_: None)(*given) or given[1], or_none(is_text)
    ),
    "replace_handle(cause)": Entrance(
        lambda *given: _replaced("cause", lambda *_: None)(*given) or given[1], or_none(is_text)
    ),
}
"""Each with a handle of its own."""

VIEW_ENTRANCES: dict[str, Entrance] = {
    **{name: each._replace(prepare=_asking) for name, each in QUESTIONS.items()},
    **{name: each._replace(prepare=_talked) for name, each in BOUNDARIES.items()},
    **{name: each._replace(prepare=_with_handle) for name, each in HANDLES.items()},
}
