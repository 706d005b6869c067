"""The entrances of views, as data: of what is shown, planned, folded, paged out and in, and read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

import holdfast
from holdfast import Prices, errors
from holdfast.flows.history.views import DIALECTS
from holdfast.model.history.handles import PRIORITY_SCORES
from holdfast.types import Classic, Frugal, Spooling, SummarizeOldest, TruncateAt
from tests import hostile
from tests.edges.input_cases import (
    InputCase,
    accept_nothing,
    as_json_object,
    expected_return,
    is_bool,
    is_convertible_object,
    is_int,
    is_number,
    is_text,
    is_tool_return,
    or_none,
    query_only,
)
from tests.edges.session_inputs import read_returned
from tests.edges.surface import call

WINDOW = 3_000


PIECE = "h2_0"
"""Of the first message."""


HANDLE = "h3"
"""The first event makes the session, the second its frame, and the third a handle."""


PRICES = Prices(
    provider="p", model="m", input=10, cache_read=1, cache_write=12, output=50, window=200_000, max_output=8_000
)


def _record_conversation(engine: Any, number: int) -> None:
    """A conversation that can be folded."""
    session = engine.create_session(f"s{number}")
    for _ in range(2):
        session.record("user", "what about this? " * 60)
        session.record("assistant", "this and that " * 60)


def _extend_shared_session(engine: Any, _: int) -> None:
    """The same for all who only ask."""
    if engine.session("s").state().messages < 2:
        engine.session("s").record("assistant", "this and that " * 60)


def _add_handle(engine: Any, number: int) -> None:
    frame = engine.create_session(f"s{number}").frame("work", budget=1_000)
    frame.handles.add("document", "a page", title="a title")


def _session(engine: Any, number: int) -> Any:
    return engine.session(f"s{number}")


def _query_session(method: str, option: str, *before: Any, **usual: Any) -> Callable[[Any, Any, int], object]:
    """A question that keeps nothing: if it is answered at all, the value was fine."""
    return query_only(lambda engine, value: call(engine.session("s"), method)(*before, **{**usual, option: value}))


def _plan_option(make: Callable[[Any], Any], option: str) -> Callable[[Any, Any, int], object]:
    """An option of plan() made of the value."""
    return query_only(lambda engine, value: engine.session("s").context.plan(**{"window": WINDOW, option: make(value)}))


def _replace_figure(kind: type[Any], field: str) -> Callable[[Any], Any]:
    return lambda value: msgspec.structs.replace(PRICES if kind is Prices else kind(), **{field: value})


def _compact_option(**option: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    """compact() with an option made of the value; the event says what became of it, where it does."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = {"strategy": SummarizeOldest(2), "window": WINDOW} | {
            name: make(value) for name, make in option.items()
        }
        done = _session(engine, number).context.compact(**given)
        if done.at is None or not {"key", "cause"} & {*option}:
            return value
        (event,) = _session(engine, number).events(after=done.at - 1, limit=1)
        return getattr(event, next(iter(option)))

    return use


def _compact_changed_plan(field: str) -> Callable[[Any, Any, int], object]:
    """A plan that someone changed by hand."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = _session(engine, number)
        session.context.compact(msgspec.structs.replace(session.context.plan(window=500), **{field: value}))
        return value

    return use


def _compact_changed_part(where: str, field: str) -> Callable[[Any, Any, int], object]:
    """The same inside of its fold, or of its figures."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = _session(engine, number)
        made = session.context.plan(window=500)
        inside = msgspec.structs.replace(getattr(made, where), **{field: value})
        session.context.compact(msgspec.structs.replace(made, **{where: inside}))
        return value

    return use


def _move_piece(method: str, option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        call(_session(engine, number), method)(**{"handle": PIECE, option: value})
        return value

    return use


def _replace_handle(option: str, back: Callable[[Any, Any], object]) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        frame = _session(engine, number).frames.get("f2")
        return back(frame, frame.handles.replace(**{"handle": HANDLE, option: value}))

    return use


def _replace_content(engine: Any, value: Any, number: int) -> object:
    frame = _session(engine, number).frames.get("f2")
    frame.handles.replace(HANDLE, value)
    return None if value is None else read_returned(engine, frame.handles.parts(HANDLE), value)


def _open_with(option: str, make: Callable[[Any], Any] = lambda value: value) -> Callable[[Any, Any, int], object]:
    return query_only(lambda _, value: holdfast.open("memory:", **{option: make(value)}).close())


def _is_integral(value: object) -> bool:
    """A number, or something that is written as one."""
    return isinstance(value, int) and type(value) is not bool


def _is_textual(value: object) -> bool:
    return isinstance(value, str)


def _is_share(value: object) -> bool:
    return is_number(value) and 0 < value <= 1  # type: ignore[operator]


def _choose_check(kind: type[Any], field: str) -> Callable[[object], bool]:
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
    "prices": or_none(accept_nothing),
    "policy": lambda value: value in (None, "frugal", "classic"),
    "before": is_int,
    "cold": is_bool,
}


QUESTIONS: dict[str, InputCase] = {
    "context.render(to)": InputCase(_query_session("context.render", "to"), lambda value: value in DIALECTS),
    "context.render(ids)": InputCase(_query_session("context.render", "ids", "openai-responses"), is_bool),
    "context.render(budget)": InputCase(_query_session("context.render", "budget"), or_none(is_int)),
    "context.render(model)": InputCase(_query_session("context.render", "model"), or_none(is_text)),
    "context.view(budget)": InputCase(_query_session("context.view", "budget"), or_none(is_int)),
    "handles.get(name)": InputCase(_query_session("handles.get", "name"), is_text, also=(errors.HandleNotFound,)),
    "handles.read(handle)": InputCase(_query_session("handles.read", "handle"), is_text, also=(errors.HandleNotFound,)),
    **{
        f"handles.read({option})": InputCase(_query_session("handles.read", option, PIECE), fits)
        for option, fits in READS.items()
    },
    **{
        f"context.plan({option})": InputCase(_plan_option(lambda value: value, option), fits)
        for option, fits in PLANS.items()
    },
    **{
        f"context.plan({option}'s {field})": InputCase(
            _plan_option(_replace_figure(kind, field), option), _choose_check(kind, field)
        )
        for option, kind in (("prices", Prices), ("policy", Frugal), ("policy", Classic))
        for field in kind.__struct_fields__
    },
    "open(compaction)": InputCase(_open_with("compaction"), PLANS["policy"]),
    "open(prices)": InputCase(_open_with("prices"), lambda value: value in ([], ())),
    "open([prices])": InputCase(_open_with("prices", lambda value: [value]), accept_nothing),
    "open(summarizer)": InputCase(_open_with("summarizer"), or_none(accept_nothing)),
    "open(spooling)": InputCase(_open_with("spooling"), or_none(accept_nothing)),
    "open(spooling's threshold)": InputCase(_open_with("spooling", Spooling), is_int),
    "open(spooling's preview)": InputCase(_open_with("spooling", lambda value: Spooling(9, value)), is_int),
}
"""They change nothing, whatever they are asked."""


BOUNDARIES: dict[str, InputCase] = {
    **{
        f"context.compact({option})": InputCase(_compact_option(**{option: lambda value: value}), PLANS[option])
        for option in PLANS
    },
    "context.compact(key)": InputCase(_compact_option(key=lambda value: value), or_none(is_text)),
    "context.compact(cause)": InputCase(_compact_option(cause=lambda value: value), or_none(is_text)),
    "context.compact(strategy)": InputCase(_compact_option(strategy=lambda value: value), or_none(accept_nothing)),
    "context.compact(keep_recent)": InputCase(_compact_option(strategy=SummarizeOldest), is_int),
    "context.compact(message_count)": InputCase(_compact_option(strategy=TruncateAt), is_int),
    "context.compact(plan)": InputCase(_compact_option(plan=lambda value: value), or_none(accept_nothing)),
    "context.compact(plan's version)": InputCase(
        _compact_changed_plan("version"), _is_integral, also=(errors.PlanStale,)
    ),
    "context.compact(plan's policy)": InputCase(_compact_changed_plan("policy"), _is_textual),
    "context.compact(plan's why)": InputCase(
        _compact_changed_plan("why"), lambda value: value is None or value in ("pays", "asked")
    ),
    **{
        f"context.compact(plan's {field})": InputCase(_compact_changed_plan(field), fits)
        for field, fits in {
            "steps": accept_nothing,
            "reduced": lambda value: value == (),
            "fold": or_none(accept_nothing),
            "figures": accept_nothing,
            "target_met": is_bool,
        }.items()
    },
    **{
        f"context.compact(fold's {field})": InputCase(_compact_changed_part("fold", field), fits)
        for field, fits in {
            "first": _is_integral,
            "last": _is_integral,
            "messages": accept_nothing,
            "summaries": lambda value: type(value) is tuple and all(map(_is_integral, value)),  # looked up all the same
            "count": _is_integral,
            "text": _is_textual,
            "tokens": _is_integral,
        }.items()
    },
    **{
        f"context.compact(figures' {field})": InputCase(_compact_changed_part("figures", field), _is_integral)
        for field in ("before", "grown")
    },
    "handles.page_out(handle)": InputCase(
        _move_piece("handles.page_out", "handle"), is_text, also=(errors.HandleNotFound,)
    ),
    "handles.page_out(tier)": InputCase(
        _move_piece("handles.page_out", "tier"), lambda value: value in ("durable", "semantic")
    ),
    "handles.page_out(key)": InputCase(_move_piece("handles.page_out", "key"), or_none(is_text)),
    "handles.page_in(handle)": InputCase(
        _move_piece("handles.page_in", "handle"), is_text, also=(errors.HandleNotFound,)
    ),
    "handles.page_in(key)": InputCase(_move_piece("handles.page_in", "key"), or_none(is_text)),
    "handles.page_in(query)": InputCase(
        query_only(lambda engine, value: engine.session("s").handles.page_in(query=value)),
        is_text,
        also=(errors.NoHandleFits,),
    ),
}
"""Each with a conversation of its own."""


HANDLES: dict[str, InputCase] = {
    "handles.replace(handle)": InputCase(
        _replace_handle("handle", lambda _, handle: handle.id), is_text, also=(errors.HandleNotFound,)
    ),
    "handles.replace(content)": InputCase(
        _replace_content,
        is_tool_return,
        expected_return,
        (hostile.HostileError,),
    ),
    "handles.replace(priority)": InputCase(
        _replace_handle("priority", lambda _, handle: handle.priority),
        lambda value: value is None or value in PRIORITY_SCORES,
        lambda value: value or "medium",
    ),
    "handles.replace(title)": InputCase(
        _replace_handle("title", lambda _, handle: handle.title),
        or_none(is_text),
        lambda value: "a title" if value is None else value,
    ),
    "handles.replace(metadata)": InputCase(
        _replace_handle("metadata", lambda _, handle: handle.metadata), is_convertible_object, as_json_object
    ),
    "handles.replace(key)": InputCase(
        lambda *given: _replace_handle("key", lambda *_: None)(*given) or given[1], or_none(is_text)
    ),
    "handles.replace(cause)": InputCase(
        lambda *given: _replace_handle("cause", lambda *_: None)(*given) or given[1], or_none(is_text)
    ),
}
"""Each with a handle of its own."""


VIEW_INPUTS: dict[str, InputCase] = {
    **{name: each._replace(prepare=_extend_shared_session) for name, each in QUESTIONS.items()},
    **{name: each._replace(prepare=_record_conversation) for name, each in BOUNDARIES.items()},
    **{name: each._replace(prepare=_add_handle) for name, each in HANDLES.items()},
}
