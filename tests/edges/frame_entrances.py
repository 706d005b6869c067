"""The entrances of frames, as data: those of the budget, of handles, of suspension and of tools among them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast import Scope, errors
from holdfast.model.frames import ENDINGS, LIVE, Suspended
from holdfast.model.handles import HANDLE_KINDS, SCORES
from holdfast.testing import hostile
from tests.edges.entrance import (
    Entrance,
    as_json,
    as_json_object,
    as_returned,
    asked,
    converts,
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

BUDGET = 1_000
FIRST = "f2"
RESERVED = "r3"
"""The first event makes the session, the second its frame, and the third a reservation."""


def _made(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}")


def _begun(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").frame("work", budget=BUDGET)


def _reserved(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").frame("work", budget=BUDGET).reserve("room", 1)


def _frame(engine: Any, number: int) -> Any:
    return engine.session(f"s{number}").get_frame(FIRST)


def _called(engine: Any, number: int) -> None:
    """A call waits in a frame."""
    frame = engine.create_session(f"s{number}").frame("work", budget=BUDGET)
    frame.record("assistant", None, tool_calls=[{"name": "read", "id": "p"}])


def _resting(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").frame("work", budget=BUDGET).suspend("approval")


def _asking(engine: Any, _: int) -> None:
    """One frame for all who only ask."""
    session = engine.session("s")
    if not session.frames(limit=1):
        session.frame("work", budget=BUDGET).suspend("approval")


def _pushed(option: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """Push a frame with this option, and take the value out of what it then is."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = {"goal": "work", "budget": 1, option: value}
        return back(engine.session(f"s{number}").frame(**given).state())

    return use


def _done(method: str, back: Callable[[Any], object], *before: Any, **option: str) -> Callable[[Any, Any, int], object]:
    """Have a frame do something with the value: its last argument, or the option named so."""

    def use(engine: Any, value: Any, number: int) -> object:
        frame = _frame(engine, number)
        given = (*before, value) if not option else before
        getattr(frame, method)(*given, **dict.fromkeys(option.values(), value))
        return back(frame.state())

    return use


def _spent(method: str, *before: str) -> Entrance:
    def use(engine: Any, value: Any, number: int) -> object:
        frame = _frame(engine, number)
        getattr(frame, method)(*before, value)
        return frame.state().budget.used

    return Entrance(use, lambda value: type(value) in (int, dict), lambda value: value if type(value) is int else 0)


def _named(method: str, *more: Any) -> Callable[[Any, Any, int], object]:
    """Name a reservation, a frame or a handle; if that is answered at all, the value was fine."""

    def use(engine: Any, value: Any, number: int) -> object:
        getattr(_frame(engine, number), method)(value, *more)
        return value

    return use


def _handle(option: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        frame = _frame(engine, number)
        given = {"kind": "document", "content": "a page", option: value}
        return back(frame.add_handle(given.pop("kind"), given.pop("content"), **given))

    return use


def _content(engine: Any, value: Any, number: int) -> object:
    frame = _frame(engine, number)
    return came_back(engine, frame.read_handle(frame.add_handle("document", value)), value)


def _returned(engine: Any, value: Any, number: int) -> object:
    frame = _frame(engine, number)
    frame.pop(result=value)
    return None if value is None else came_back(engine, frame.state().result, value)


def _microseconds(at: datetime | None) -> int | None:
    return None if at is None else (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _is_time(value: object) -> bool:
    return isinstance(value, datetime)


def _started(option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        started = _frame(engine, number).start("p", **{option: value})
        return started.key if option == "call_key" and value is not None else value

    return use


def _ran(engine: Any, value: Any, number: int) -> object:
    return _frame(engine, number).run("p", value).role


def _key_as(engine: Any, value: Any, number: int) -> object:
    seen: dict[str, str] = {}
    _frame(engine, number).run("p", lambda **args: seen.update(args), key_as=value)
    return next(iter(seen), None)


def _in_scope(engine: Any, value: Any) -> object:
    return engine.recover(Scope(engine.session("s").scope.tenant, "main", value))


def _page(engine: Any, **changes: Any) -> list[Any]:
    last: Suspended = engine.suspended(limit=1)[0]
    found: list[Any] = engine.suspended(after=msgspec.structs.replace(last, **changes))
    return found


def _nothing_equal(_: object) -> object:
    """What is accepted here was wrongly so."""
    return object()


PUSHES: dict[str, Entrance] = {
    "frame(goal)": Entrance(_pushed("goal", lambda state: state.goal), is_text),
    "frame(budget)": Entrance(_pushed("budget", lambda state: state.budget.total), is_int),
    "frame(inputs)": Entrance(_pushed("inputs", lambda state: state.inputs), converts, as_json),
    "frame(parent)": Entrance(
        _pushed("parent", lambda state: state.parent), or_none(is_text), also=(errors.ParentFrameNotFound,)
    ),
    "frame(max_subframe_depth)": Entrance(
        _pushed("max_subframe_depth", lambda state: state.limits.max_subframe_depth),
        or_none(is_int),
        lambda value: 3 if value is None else value,
    ),
    "frame(max_tool_calls)": Entrance(
        _pushed("max_tool_calls", lambda state: state.limits.max_tool_calls), or_none(is_int)
    ),
    "frame(timeout_s)": Entrance(
        _pushed("timeout_s", lambda state: state.limits.timeout_us),
        or_none(is_number),
        lambda value: None if value is None else max(1, int(value * 1_000_000)),
    ),
    "frame(key)": Entrance(lambda *given: _pushed("key", lambda _: None)(*given) or given[1], or_none(is_text)),
}

FRAMES: dict[str, Entrance] = {
    "update(goal)": Entrance(
        _done("update", lambda state: state.goal, option="goal"),
        or_none(is_text),
        lambda value: "work" if value is None else value,
    ),
    "update(inputs)": Entrance(_done("update", lambda state: state.inputs, option="inputs"), converts, as_json),
    "update(context_hash)": Entrance(
        _done("update", lambda state: state.context_hash, option="context_hash"), or_none(is_text)
    ),
    "pop(status)": Entrance(_done("pop", lambda state: state.status), lambda value: value in ENDINGS),
    "pop(summary)": Entrance(_done("pop", lambda state: state.summary, "failed"), is_text),
    "pop(result)": Entrance(
        _returned,
        is_returned,
        as_returned,
        (hostile.Spite,),
    ),
    "pop(cascade)": Entrance(_done("pop", lambda _: True, "completed", option="cascade"), is_bool, lambda _: True),
    "reserve(purpose)": Entrance(
        lambda engine, value, number: _frame(engine, number).reserve(value, 1).purpose, is_text
    ),
    "reserve(amount)": Entrance(
        lambda engine, value, number: _frame(engine, number).reserve("room", value).amount,
        is_int,
        also=(errors.InsufficientTokens,),
    ),
    "commit(reservation)": Entrance(_named("commit", 1), is_text, also=(errors.ReservationNotFound,)),
    "cancel(reservation)": Entrance(_named("cancel"), is_text, also=(errors.ReservationNotFound,)),
    "use(actual)": _spent("use"),
    "grant(amount)": Entrance(_done("grant", lambda state: state.budget.total - BUDGET), is_int),
    "record(reservation)": Entrance(
        lambda engine, value, number: _frame(engine, number).record("user", "text", reservation=value) and value,
        or_none(is_text),
        also=(errors.ReservationNotFound,),
    ),
    "add_handle(kind)": Entrance(_handle("kind", lambda handle: handle.kind), lambda value: value in HANDLE_KINDS),
    "add_handle(content)": Entrance(
        _content,
        is_returned,
        as_returned,
        (hostile.Spite,),
    ),
    "add_handle(priority)": Entrance(
        _handle("priority", lambda handle: handle.priority), lambda value: value in SCORES
    ),
    "add_handle(title)": Entrance(_handle("title", lambda handle: handle.title), is_text),
    "add_handle(source)": Entrance(_handle("source", lambda handle: handle.source), or_none(is_text)),
    "add_handle(metadata)": Entrance(
        _handle("metadata", lambda handle: handle.metadata), converts_to_object, as_json_object
    ),
    "suspend(reason)": Entrance(_done("suspend", lambda state: state.suspension.reason), is_text),
    "suspend(expires_at)": Entrance(
        _done("suspend", lambda state: state.suspension.expires_us, "approval", option="expires_at"),
        or_none(_is_time),
        _microseconds,
    ),
    "suspend(resumable_by)": Entrance(
        _done("suspend", lambda state: state.suspension.resumable_by, "approval", option="resumable_by"),
        lambda value: type(value) in (str, list, tuple),
        lambda value: (value,) if type(value) is str else tuple(value),
    ),
    "suspend([resumable_by])": Entrance(
        lambda engine, value, number: _frame(engine, number).suspend("approval", resumable_by=["ada", value]) and value,
        is_text,
    ),
    "suspend(cascade)": Entrance(
        _done("suspend", lambda _: True, "approval", option="cascade"), is_bool, lambda _: True
    ),
}
"""Each with a frame of its own."""

RESTING: dict[str, Entrance] = {
    "reissue(expires_at)": Entrance(
        _done("reissue", lambda state: state.suspension.expires_us, option="expires_at"),
        or_none(_is_time),
        _microseconds,
    ),
    "revoke(reason)": Entrance(_done("revoke", lambda state: state.suspension.revoked), is_text, lambda _: True),
}
"""Each with a suspended frame of its own."""

TOOLS: dict[str, Entrance] = {
    "start(call)": Entrance(_named("start"), is_text, also=(errors.CallNotFound,)),
    "start(call_key)": Entrance(_started("call_key"), or_none(is_text)),
    "start(again)": Entrance(_started("again"), is_bool),
    "run(function)": Entrance(_ran, callable, lambda _: "tool"),
    "run(key_as)": Entrance(_key_as, or_none(is_text)),
}
"""Each with a call of its own that waits."""

ASKING: dict[str, Entrance] = {
    "get_frame(frame)": Entrance(
        asked(lambda engine, value: engine.session("s").get_frame(value)), is_text, also=(errors.FrameNotFound,)
    ),
    "read_handle(handle)": Entrance(
        asked(lambda engine, value: engine.session("s").read_handle(value)), is_text, also=(errors.HandleNotFound,)
    ),
    "resume(token)": Entrance(
        asked(lambda engine, value: engine.resume(value)), lambda _: True, _nothing_equal, (errors.TokenInvalid,)
    ),
    "recover(scope)": Entrance(asked(lambda engine, value: engine.recover(value)), never),
    "recover(scope's session)": Entrance(asked(_in_scope), is_text, also=(errors.SessionNotFound,)),
    "suspended(entry's session)": Entrance(
        asked(lambda engine, value: _page(engine, scope=Scope(engine.session("s").scope.tenant, "main", value))),
        is_text,
    ),
    "suspended(entry's frame)": Entrance(asked(lambda engine, value: _page(engine, frame=value)), is_text),
    **{
        f"frames({option})": Entrance(
            asked(lambda engine, value, option=option: engine.session("s").frames(**{option: value})),  # type: ignore[misc]
            fits,
        )
        for option, fits in {
            "status": lambda value: value in (None, "live", *LIVE, *ENDINGS),
            "parent": or_none(is_text),
            "after": or_none(is_text),
            "limit": is_int,
        }.items()
    },
    **{
        f"suspended({option})": Entrance(
            asked(lambda engine, value, option=option: engine.suspended(**{option: value})),  # type: ignore[misc]
            fits,
        )
        for option, fits in {
            "actor": or_none(is_text),
            "session": or_none(is_text),
            "after": lambda value: value is None,
            "limit": is_int,
        }.items()
    },
    "handles(before)": Entrance(
        asked(lambda engine, value: engine.session("s").get_frame("f3").handles(before=value)), or_none(is_text)
    ),
    "handles(limit)": Entrance(
        asked(lambda engine, value: engine.session("s").get_frame("f3").handles(limit=value)), is_int
    ),
}
"""With a suspended frame in the session that all have."""


def _after(prepare: Callable[[Any, int], object], entrances: dict[str, Entrance]) -> dict[str, Entrance]:
    return {name: entrance._replace(prepare=prepare) for name, entrance in entrances.items()}


FRAME_ENTRANCES: dict[str, Entrance] = {
    **_after(_made, PUSHES),
    **_after(_begun, FRAMES),
    **_after(_reserved, {"commit(actual)": _spent("commit", RESERVED)}),
    **_after(_resting, RESTING),
    **_after(_called, TOOLS),
    **_after(_asking, ASKING),
}
