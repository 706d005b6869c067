"""The entrances of frames, as data: those of the budget, of handles, of suspension and of tools among them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast import errors
from holdfast.model.frames.frames import ENDINGS, LIVE_STATUSES, SuspendedFrame
from holdfast.model.history.handles import HANDLE_KINDS, PRIORITY_SCORES
from holdfast.types import Scope
from tests import hostile
from tests.edges.input_cases import (
    InputCase,
    accept_nothing,
    as_json,
    as_json_object,
    expected_return,
    is_bool,
    is_convertible,
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

BUDGET = 1_000


FIRST = "f2"


RESERVED = "r3"
"""The first event makes the session, the second its frame, and the third a reservation."""


def _create_session(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}")


def _create_frame(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").frame("work", budget=BUDGET)


def _create_reservation(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").frame("work", budget=BUDGET).budget.reserve("room", 1)


def _frame(engine: Any, number: int) -> Any:
    return engine.session(f"s{number}").frames.get(FIRST)


def _record_open_call(engine: Any, number: int) -> None:
    """A call waits in a frame."""
    frame = engine.create_session(f"s{number}").frame("work", budget=BUDGET)
    frame.record("assistant", None, tool_calls=[{"name": "read", "id": "p"}])


def _suspend_frame(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").frame("work", budget=BUDGET).suspend("approval")


def _suspend_shared_frame(engine: Any, _: int) -> None:
    """One frame for all who only ask."""
    session = engine.session("s")
    if not session.frames.list(limit=1):
        session.frame("work", budget=BUDGET).suspend("approval")


def _push_option(option: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """Push a frame with this option, and take the value out of what it then is."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = {"goal": "work", "budget": 1, option: value}
        return back(engine.session(f"s{number}").frame(**given).state())

    return use


def _call_method(
    method: str, back: Callable[[Any], object], *before: Any, **option: str
) -> Callable[[Any, Any, int], object]:
    """Have a frame do something with the value: its last argument, or the option named so."""

    def use(engine: Any, value: Any, number: int) -> object:
        frame = _frame(engine, number)
        given = (*before, value) if not option else before
        call(frame, method)(*given, **dict.fromkeys(option.values(), value))
        return back(frame.state())

    return use


def _spend(method: str, *before: str) -> InputCase:
    def use(engine: Any, value: Any, number: int) -> object:
        frame = _frame(engine, number)
        call(frame, method)(*before, value)
        return frame.state().budget.used

    return InputCase(use, lambda value: type(value) in (int, dict), lambda value: value if type(value) is int else 0)


def _name_target(method: str, *more: Any) -> Callable[[Any, Any, int], object]:
    """Name a reservation, a frame or a handle; if that is answered at all, the value was fine."""

    def use(engine: Any, value: Any, number: int) -> object:
        call(_frame(engine, number), method)(value, *more)
        return value

    return use


def _add_handle(option: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        frame = _frame(engine, number)
        given = {"kind": "document", "content": "a page", option: value}
        return back(frame.handles.add(given.pop("kind"), given.pop("content"), **given))

    return use


def _add_content(engine: Any, value: Any, number: int) -> object:
    frame = _frame(engine, number)
    return read_returned(engine, frame.handles.parts(frame.handles.add("document", value)), value)


def _pop_result(engine: Any, value: Any, number: int) -> object:
    frame = _frame(engine, number)
    frame.pop(result=value)
    return None if value is None else read_returned(engine, frame.state().result, value)


def _microseconds(at: datetime | None) -> int | None:
    return None if at is None else (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _is_time(value: object) -> bool:
    return isinstance(value, datetime)


def _start_option(option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        started = _frame(engine, number).start_call("p", **{option: value})
        return started.key if option == "call_key" and value is not None else value

    return use


def _run_tool(engine: Any, value: Any, number: int) -> object:
    return _frame(engine, number).run("p", value).role


def _run_key_as(engine: Any, value: Any, number: int) -> object:
    seen: dict[str, str] = {}
    _frame(engine, number).run("p", lambda **args: seen.update(args), key_as=value)
    return next(iter(seen), None)


def _recover_scope(engine: Any, value: Any) -> object:
    return engine.recover(Scope(engine.session("s").scope.tenant, "main", value))


def _suspended_after(engine: Any, **changes: Any) -> list[Any]:
    last: SuspendedFrame = engine.suspended(limit=1)[0]
    found: list[Any] = engine.suspended(after=msgspec.structs.replace(last, **changes))
    return found


def _unequal_object(_: object) -> object:
    """What is accepted here was wrongly so."""
    return object()


PUSHES: dict[str, InputCase] = {
    "frame(goal)": InputCase(_push_option("goal", lambda state: state.goal), is_text),
    "frame(budget)": InputCase(_push_option("budget", lambda state: state.budget.total), is_int),
    "frame(inputs)": InputCase(_push_option("inputs", lambda state: state.inputs), is_convertible, as_json),
    "frame(parent)": InputCase(
        _push_option("parent", lambda state: state.parent), or_none(is_text), also=(errors.ParentFrameNotFound,)
    ),
    "frame(max_subframe_depth)": InputCase(
        _push_option("max_subframe_depth", lambda state: state.limits.max_subframe_depth),
        or_none(is_int),
        lambda value: 3 if value is None else value,
    ),
    "frame(max_tool_calls)": InputCase(
        _push_option("max_tool_calls", lambda state: state.limits.max_tool_calls), or_none(is_int)
    ),
    "frame(timeout_s)": InputCase(
        _push_option("timeout_s", lambda state: state.limits.timeout_us),
        or_none(is_number),
        lambda value: None if value is None else max(1, int(value * 1_000_000)),
    ),
    "frame(key)": InputCase(lambda *given: _push_option("key", lambda _: None)(*given) or given[1], or_none(is_text)),
}


FRAMES: dict[str, InputCase] = {
    "update(goal)": InputCase(
        _call_method("update", lambda state: state.goal, option="goal"),
        or_none(is_text),
        lambda value: "work" if value is None else value,
    ),
    "update(inputs)": InputCase(
        _call_method("update", lambda state: state.inputs, option="inputs"), is_convertible, as_json
    ),
    "update(context_hash)": InputCase(
        _call_method("update", lambda state: state.context_hash, option="context_hash"), or_none(is_text)
    ),
    "pop(status)": InputCase(_call_method("pop", lambda state: state.status), lambda value: value in ENDINGS),
    "pop(summary)": InputCase(_call_method("pop", lambda state: state.summary, "failed"), is_text),
    "pop(result)": InputCase(
        _pop_result,
        is_tool_return,
        expected_return,
        (hostile.HostileError,),
    ),
    "pop(cascade)": InputCase(
        _call_method("pop", lambda _: True, "completed", option="cascade"), is_bool, lambda _: True
    ),
    "budget.reserve(purpose)": InputCase(
        lambda engine, value, number: _frame(engine, number).budget.reserve(value, 1).purpose, is_text
    ),
    "budget.reserve(amount)": InputCase(
        lambda engine, value, number: _frame(engine, number).budget.reserve("room", value).amount,
        is_int,
        also=(errors.InsufficientTokens,),
    ),
    "budget.commit(reservation)": InputCase(
        _name_target("budget.commit", 1), is_text, also=(errors.ReservationNotFound,)
    ),
    "budget.cancel(reservation)": InputCase(_name_target("budget.cancel"), is_text, also=(errors.ReservationNotFound,)),
    "budget.use(actual)": _spend("budget.use"),
    "budget.grant(amount)": InputCase(_call_method("budget.grant", lambda state: state.budget.total - BUDGET), is_int),
    "record(reservation)": InputCase(
        lambda engine, value, number: _frame(engine, number).record("user", "text", reservation=value) and value,
        or_none(is_text),
        also=(errors.ReservationNotFound,),
    ),
    "handles.add(kind)": InputCase(
        _add_handle("kind", lambda handle: handle.kind), lambda value: value in HANDLE_KINDS
    ),
    "handles.add(content)": InputCase(
        _add_content,
        is_tool_return,
        expected_return,
        (hostile.HostileError,),
    ),
    "handles.add(priority)": InputCase(
        _add_handle("priority", lambda handle: handle.priority), lambda value: value in PRIORITY_SCORES
    ),
    "handles.add(title)": InputCase(_add_handle("title", lambda handle: handle.title), is_text),
    "handles.add(source)": InputCase(_add_handle("source", lambda handle: handle.source), or_none(is_text)),
    "handles.add(metadata)": InputCase(
        _add_handle("metadata", lambda handle: handle.metadata), is_convertible_object, as_json_object
    ),
    "suspend(reason)": InputCase(_call_method("suspend", lambda state: state.suspension.reason), is_text),
    "suspend(expires_at)": InputCase(
        _call_method("suspend", lambda state: state.suspension.expires_us, "approval", option="expires_at"),
        or_none(_is_time),
        _microseconds,
    ),
    "suspend(resumable_by)": InputCase(
        _call_method("suspend", lambda state: state.suspension.resumable_by, "approval", option="resumable_by"),
        lambda value: type(value) in (str, list, tuple),
        lambda value: (value,) if type(value) is str else tuple(value),
    ),
    "suspend([resumable_by])": InputCase(
        lambda engine, value, number: _frame(engine, number).suspend("approval", resumable_by=["ada", value]) and value,
        is_text,
    ),
    "suspend(cascade)": InputCase(
        _call_method("suspend", lambda _: True, "approval", option="cascade"), is_bool, lambda _: True
    ),
}
"""Each with a frame of its own."""


SUSPENSION_INPUTS: dict[str, InputCase] = {
    "reissue(expires_at)": InputCase(
        _call_method("reissue", lambda state: state.suspension.expires_us, option="expires_at"),
        or_none(_is_time),
        _microseconds,
    ),
    "revoke(reason)": InputCase(
        _call_method("revoke", lambda state: state.suspension.revoked), is_text, lambda _: True
    ),
}
"""Each with a suspended frame of its own."""


TOOLS: dict[str, InputCase] = {
    "start_call(call)": InputCase(_name_target("start_call"), is_text, also=(errors.CallNotFound,)),
    "start_call(call_key)": InputCase(_start_option("call_key"), or_none(is_text)),
    "start_call(again)": InputCase(_start_option("again"), is_bool),
    "run(function)": InputCase(_run_tool, callable, lambda _: "tool"),
    "run(key_as)": InputCase(_run_key_as, or_none(is_text)),
}
"""Each with a call of its own that waits."""


QUERY_INPUTS: dict[str, InputCase] = {
    "frames.get(frame)": InputCase(
        query_only(lambda engine, value: engine.session("s").frames.get(value)), is_text, also=(errors.FrameNotFound,)
    ),
    "handles.parts(handle)": InputCase(
        query_only(lambda engine, value: engine.session("s").handles.parts(value)),
        is_text,
        also=(errors.HandleNotFound,),
    ),
    "resume(token)": InputCase(
        query_only(lambda engine, value: engine.resume(value)), lambda _: True, _unequal_object, (errors.TokenInvalid,)
    ),
    "recover(scope)": InputCase(query_only(lambda engine, value: engine.recover(value)), accept_nothing),
    "recover(scope's session)": InputCase(query_only(_recover_scope), is_text, also=(errors.SessionNotFound,)),
    "suspended(entry's session)": InputCase(
        query_only(
            lambda engine, value: _suspended_after(engine, scope=Scope(engine.session("s").scope.tenant, "main", value))
        ),
        is_text,
    ),
    "suspended(entry's frame)": InputCase(
        query_only(lambda engine, value: _suspended_after(engine, frame=value)), is_text
    ),
    **{
        f"frames({option})": InputCase(
            query_only(lambda engine, value, option=option: engine.session("s").frames.list(**{option: value})),  # type: ignore[misc]
            fits,
        )
        for option, fits in {
            "status": lambda value: value in (None, "live", *LIVE_STATUSES, *ENDINGS),
            "parent": or_none(is_text),
            "after": or_none(is_text),
            "limit": is_int,
        }.items()
    },
    **{
        f"suspended({option})": InputCase(
            query_only(lambda engine, value, option=option: engine.suspended(**{option: value})),  # type: ignore[misc]
            fits,
        )
        for option, fits in {
            "actor": or_none(is_text),
            "session": or_none(is_text),
            "after": lambda value: value is None,
            "limit": is_int,
        }.items()
    },
    "handles.attachments(before)": InputCase(
        query_only(lambda engine, value: engine.session("s").frames.get("f3").handles.attachments(before=value)),
        or_none(is_text),
    ),
    "handles.attachments(limit)": InputCase(
        query_only(lambda engine, value: engine.session("s").frames.get("f3").handles.attachments(limit=value)), is_int
    ),
}
"""With a suspended frame in the session that all have."""


def _with_preparation(prepare: Callable[[Any, int], object], entrances: dict[str, InputCase]) -> dict[str, InputCase]:
    return {name: entrance._replace(prepare=prepare) for name, entrance in entrances.items()}


FRAME_INPUTS: dict[str, InputCase] = {
    **_with_preparation(_create_session, PUSHES),
    **_with_preparation(_create_frame, FRAMES),
    **_with_preparation(_create_reservation, {"budget.commit(actual)": _spend("budget.commit", RESERVED)}),
    **_with_preparation(_suspend_frame, SUSPENSION_INPUTS),
    **_with_preparation(_record_open_call, TOOLS),
    **_with_preparation(_suspend_shared_frame, QUERY_INPUTS),
}
