"""The entrances of situations and actions, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.situation.reasoning import format_value, shorten_args, shorten_result
from holdfast.model.situation.situations import ACTION_MODES, ACTION_OUTCOMES
from holdfast.text.lines import one_line
from tests.edges.input_cases import (
    InputCase,
    as_json,
    as_key,
    is_convertible,
    is_int,
    is_key,
    is_text,
    or_none,
    query_only,
)
from tests.edges.surface import call


def _create_session(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}")


def _record_question(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").record("user", "Find the order.")


def _record_tool_answer(engine: Any, number: int) -> None:
    """A session in which a tool has answered."""
    session = engine.create_session(f"s{number}")
    session.record("assistant", None, tool_calls=[{"name": "read", "id": "p"}])
    session.result("p", "text")


def _update_goal(engine: Any, value: Any, number: int) -> object:
    """A field, as long as it is: what is cut is told, and begins as the whole does."""
    made = engine.session(f"s{number}").situation.update({"goal": value})
    goal: str = made.situation.goal
    if made.truncated:
        whole = one_line(format_value(value))
        assert whole.startswith(goal.removesuffix("…"))
        return whole
    return goal


def _single_key(key: Any, value: str) -> dict[Any, str]:
    try:
        return {key: value}
    except Exception as error:
        raise TypeError("it can be no key at all") from error


def _update_whole(engine: Any, value: Any, number: int) -> object:
    engine.session(f"s{number}").situation.update(value)
    return value


def _update_unknown_key(engine: Any, value: Any, number: int) -> object:
    return engine.session(f"s{number}").situation.update(_single_key(value, "text")).ignored[0]


def _update_option(option: str) -> Callable[[Any, Any, int], object]:
    """update_situation() with the value as an option, and what became of that."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        made = session.situation.update({"goal": "a goal"}, **{option: value})
        (event,) = session.events(after=made.situation.version - 1, limit=1)
        if option == "iteration":
            return None if value is None else made.situation.iteration
        return made.situation.by if option == "by" else getattr(event, option, value)

    return use


def _refresh_option(option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        made = session.situation.refresh(**{option: value})
        return made.situation.iteration if option == "iteration" and value is not None else value

    return use


def _act_option(option: str, back: Callable[[Any], object] | None = None) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        session.situation.act(**{option: value})
        (made,) = session.situation.actions()
        if back is not None:
            return back(made)
        return getattr(made, option, value) if value is not None else None

    return use


def _act_call(field: str) -> Callable[[Any, Any, int], object]:
    """An action with a call that has the value in this field."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        session.situation.act(tool_calls=[{"name": "read", field: value}])
        (call,) = session.situation.actions()[0].tool_calls
        return getattr(call, field)

    return use


def _act_outcome(engine: Any, value: Any, number: int) -> object:
    engine.session(f"s{number}").situation.act(outcomes={"p": value})
    return engine.session(f"s{number}").situation.actions()[0].tool_calls[0].outcome


def _act_call_id(engine: Any, value: Any, number: int) -> object:
    engine.session(f"s{number}").situation.act(outcomes=_single_key(value, "timeout"))
    return value


def _query_session(method: str, option: str) -> Callable[[Any, Any, int], object]:
    return query_only(lambda engine, value: call(engine.session("s"), method)(**{option: value}))


def _is_empty(value: object) -> bool:
    """What a whole update, a list of fields or a list of calls may be: nothing, in one of these forms."""
    return value is None or (type(value) in (list, tuple, set, frozenset, dict) and not value)


def _is_one_of(known: tuple[str, ...]) -> Callable[[object], bool]:
    return lambda value: type(value) is str and value in known


SITUATION_INPUTS: dict[str, InputCase] = {
    "situation.update(update)": InputCase(
        _update_whole, lambda value: value is None or type(value) in (str, dict), prepare=_create_session
    ),
    "situation.update(goal)": InputCase(
        _update_goal, is_convertible, lambda value: one_line(format_value(as_json(value))), prepare=_create_session
    ),
    "situation.update(unknown key)": InputCase(
        _update_unknown_key, is_key, as_key, also=(TypeError,), prepare=_create_session
    ),
    "situation.update(iteration)": InputCase(_update_option("iteration"), or_none(is_int), prepare=_create_session),
    "situation.update(by)": InputCase(_update_option("by"), is_text, prepare=_create_session),
    "situation.update(clear)": InputCase(_update_option("clear"), _is_empty, prepare=_create_session),
    "situation.update(key)": InputCase(_update_option("key"), or_none(is_text), prepare=_create_session),
    "situation.update(cause)": InputCase(_update_option("cause"), or_none(is_text), prepare=_create_session),
    "situation.refresh(iteration)": InputCase(_refresh_option("iteration"), or_none(is_int), prepare=_record_question),
    "situation.refresh(key)": InputCase(_refresh_option("key"), or_none(is_text), prepare=_record_question),
    "situation.refresh(cause)": InputCase(_refresh_option("cause"), or_none(is_text), prepare=_record_question),
    "situation.act(mode)": InputCase(_act_option("mode"), _is_one_of(ACTION_MODES), prepare=_create_session),
    "situation.act(thinking)": InputCase(_act_option("thinking"), is_text, prepare=_create_session),
    "situation.act(planning)": InputCase(_act_option("planning"), is_text, prepare=_create_session),
    "situation.act(reflection)": InputCase(_act_option("reflection"), is_text, prepare=_create_session),
    "situation.act(approach)": InputCase(_act_option("approach"), is_text, prepare=_create_session),
    "situation.act(tool_calls)": InputCase(
        _act_option("tool_calls", lambda _: None), _is_empty, lambda _: None, prepare=_create_session
    ),
    "situation.act(name of a call)": InputCase(_act_call("name"), is_text, prepare=_create_session),
    "situation.act(args of a call)": InputCase(
        _act_call("args"), is_convertible, lambda value: shorten_args(as_json(value)), prepare=_create_session
    ),
    "situation.act(result of a call)": InputCase(
        _act_call("result"),
        is_convertible,
        lambda value: shorten_result(format_value(as_json(value))),
        prepare=_create_session,
    ),
    "situation.act(outcome of a call)": InputCase(
        _act_call("outcome"), _is_one_of(ACTION_OUTCOMES), prepare=_create_session
    ),
    "situation.act(outcomes)": InputCase(
        _act_option("outcomes"),
        lambda value: value is None or (isinstance(value, Mapping) and not value),
        prepare=_create_session,
    ),
    "situation.act(outcome of a call by id)": InputCase(
        _act_outcome, _is_one_of(ACTION_OUTCOMES), prepare=_record_tool_answer
    ),
    "situation.act(id of a call)": InputCase(
        _act_call_id, _is_one_of(("p",)), also=(TypeError,), prepare=_record_tool_answer
    ),
    "situation.act(iteration)": InputCase(_act_option("iteration"), or_none(is_int), prepare=_create_session),
    "situation.act(key)": InputCase(_act_option("key"), or_none(is_text), prepare=_create_session),
    "situation.act(cause)": InputCase(_act_option("cause"), or_none(is_text), prepare=_create_session),
    "situation.actions(before)": InputCase(_query_session("situation.actions", "before"), or_none(is_int)),
    "situation.actions(limit)": InputCase(_query_session("situation.actions", "limit"), is_int),
    "situation.reasoning(mode)": InputCase(_query_session("situation.reasoning", "mode"), _is_one_of(ACTION_MODES)),
    "situation.reasoning(max_history)": InputCase(_query_session("situation.reasoning", "max_history"), is_int),
}
