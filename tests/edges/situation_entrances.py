"""The entrances of situations and actions, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.situation import as_text, bounded_args, bounded_result, one_line
from holdfast.model.situation import MODES, OUTCOMES
from tests.edges.entrance import (
    Entrance,
    as_json,
    as_key,
    asked,
    converts,
    is_int,
    is_key,
    is_text,
    or_none,
)


def _made(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}")


def _spoken(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").record("user", "Find the order.")


def _answered(engine: Any, number: int) -> None:
    """A session in which a tool has answered."""
    session = engine.create_session(f"s{number}")
    session.record("assistant", None, tool_calls=[{"name": "read", "id": "p"}])
    session.result("p", "text")


def _field(engine: Any, value: Any, number: int) -> object:
    """A field, as long as it is: what is cut is told, and begins as the whole does."""
    made = engine.session(f"s{number}").update_situation({"goal": value})
    goal: str = made.situation.goal
    if made.cut:
        whole = one_line(as_text(value))
        assert whole.startswith(goal.removesuffix("…"))
        return whole
    return goal


def _keyed(key: Any, value: str) -> dict[Any, str]:
    try:
        return {key: value}
    except Exception as error:
        raise TypeError("it can be no key at all") from error


def _whole(engine: Any, value: Any, number: int) -> object:
    engine.session(f"s{number}").update_situation(value)
    return value


def _ignored(engine: Any, value: Any, number: int) -> object:
    return engine.session(f"s{number}").update_situation(_keyed(value, "text")).ignored[0]


def _updated(option: str) -> Callable[[Any, Any, int], object]:
    """update_situation() with the value as an option, and what became of that."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        made = session.update_situation({"goal": "a goal"}, **{option: value})
        (event,) = session.events(after=made.situation.version - 1, limit=1)
        if option == "iteration":
            return None if value is None else made.situation.iteration
        return made.situation.by if option == "by" else getattr(event, option, value)

    return use


def _refreshed(option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        made = session.refresh_situation(**{option: value})
        return made.situation.iteration if option == "iteration" and value is not None else value

    return use


def _acted(option: str, back: Callable[[Any], object] | None = None) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        session.act(**{option: value})
        (made,) = session.actions()
        if back is not None:
            return back(made)
        return getattr(made, option, value) if value is not None else None

    return use


def _called(field: str) -> Callable[[Any, Any, int], object]:
    """An action with a call that has the value in this field."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        session.act(tool_calls=[{"name": "read", field: value}])
        (call,) = session.actions()[0].tool_calls
        return getattr(call, field)

    return use


def _outcome(engine: Any, value: Any, number: int) -> object:
    engine.session(f"s{number}").act(outcomes={"p": value})
    return engine.session(f"s{number}").actions()[0].tool_calls[0].outcome


def _named(engine: Any, value: Any, number: int) -> object:
    engine.session(f"s{number}").act(outcomes=_keyed(value, "timeout"))
    return value


def _question(method: str, option: str) -> Callable[[Any, Any, int], object]:
    return asked(lambda engine, value: getattr(engine.session("s"), method)(**{option: value}))


def _is_empty(value: object) -> bool:
    """What a whole update, a list of fields or a list of calls may be: nothing, in one of these forms."""
    return value is None or (type(value) in (list, tuple, set, frozenset, dict) and not value)


def _one_of(known: tuple[str, ...]) -> Callable[[object], bool]:
    return lambda value: type(value) is str and value in known


SITUATION_ENTRANCES: dict[str, Entrance] = {
    "update_situation(update)": Entrance(
        _whole, lambda value: value is None or type(value) in (str, dict), prepare=_made
    ),
    "update_situation(goal)": Entrance(
        _field, converts, lambda value: one_line(as_text(as_json(value))), prepare=_made
    ),
    "update_situation(unknown key)": Entrance(_ignored, is_key, as_key, also=(TypeError,), prepare=_made),
    "update_situation(iteration)": Entrance(_updated("iteration"), or_none(is_int), prepare=_made),
    "update_situation(by)": Entrance(_updated("by"), is_text, prepare=_made),
    "update_situation(clear)": Entrance(_updated("clear"), _is_empty, prepare=_made),
    "update_situation(key)": Entrance(_updated("key"), or_none(is_text), prepare=_made),
    "update_situation(cause)": Entrance(_updated("cause"), or_none(is_text), prepare=_made),
    "refresh_situation(iteration)": Entrance(_refreshed("iteration"), or_none(is_int), prepare=_spoken),
    "refresh_situation(key)": Entrance(_refreshed("key"), or_none(is_text), prepare=_spoken),
    "refresh_situation(cause)": Entrance(_refreshed("cause"), or_none(is_text), prepare=_spoken),
    "act(mode)": Entrance(_acted("mode"), _one_of(MODES), prepare=_made),
    "act(thinking)": Entrance(_acted("thinking"), is_text, prepare=_made),
    "act(planning)": Entrance(_acted("planning"), is_text, prepare=_made),
    "act(reflection)": Entrance(_acted("reflection"), is_text, prepare=_made),
    "act(approach)": Entrance(_acted("approach"), is_text, prepare=_made),
    "act(tool_calls)": Entrance(_acted("tool_calls", lambda _: None), _is_empty, lambda _: None, prepare=_made),
    "act(name of a call)": Entrance(_called("name"), is_text, prepare=_made),
    "act(args of a call)": Entrance(
        _called("args"), converts, lambda value: bounded_args(as_json(value)), prepare=_made
    ),
    "act(result of a call)": Entrance(
        _called("result"), converts, lambda value: bounded_result(as_text(as_json(value))), prepare=_made
    ),
    "act(outcome of a call)": Entrance(_called("outcome"), _one_of(OUTCOMES), prepare=_made),
    "act(outcomes)": Entrance(
        _acted("outcomes"), lambda value: value is None or (isinstance(value, Mapping) and not value), prepare=_made
    ),
    "act(outcome of a call by id)": Entrance(_outcome, _one_of(OUTCOMES), prepare=_answered),
    "act(id of a call)": Entrance(_named, _one_of(("p",)), also=(TypeError,), prepare=_answered),
    "act(iteration)": Entrance(_acted("iteration"), or_none(is_int), prepare=_made),
    "act(key)": Entrance(_acted("key"), or_none(is_text), prepare=_made),
    "act(cause)": Entrance(_acted("cause"), or_none(is_text), prepare=_made),
    "actions(before)": Entrance(_question("actions", "before"), or_none(is_int)),
    "actions(limit)": Entrance(_question("actions", "limit"), is_int),
    "reasoning_context(mode)": Entrance(_question("reasoning_context", "mode"), _one_of(MODES)),
    "reasoning_context(max_history)": Entrance(_question("reasoning_context", "max_history"), is_int),
}
