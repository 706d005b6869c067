"""The function of the tool UPDATE_SITUATION, by which a model says how things stand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.errors import InvalidInput, shown
from holdfast.flows import situations
from holdfast.flows.effects import Flow
from holdfast.flows.place import Place
from holdfast.model.situation import FIELDS, UPDATE_SITUATION, SituationUpdate

_NAMED = 5


def situation_tool(held: Any) -> Callable[..., str]:
    """The function of the tool UPDATE_SITUATION: what it returns is for the model, and so is what is wrong with its
    arguments. Run it as any other tool: session.run(call, session.situation_tool())."""

    def update_situation(**arguments: object) -> str:
        answer: str = held._drive(_told(held._place, arguments))
        return answer

    return UPDATE_SITUATION.with_function(update_situation)


def async_situation_tool(held: Any) -> Callable[..., Coroutine[Any, Any, str]]:
    """The function of the tool UPDATE_SITUATION: what it returns is for the model, and so is what is wrong with its
    arguments. Run it as any other tool: await session.run(call, session.situation_tool())."""

    async def update_situation(**arguments: object) -> str:
        answer: str = await held._drive(_told(held._place, arguments))
        return answer

    return UPDATE_SITUATION.with_function(update_situation)


def _told(place: Place, arguments: dict[str, object]) -> Flow[str]:
    try:
        made = yield from situations.update_situation(place, arguments)
    except InvalidInput as error:
        return f"Error: {error}"
    return told(made)


def told(made: SituationUpdate) -> str:
    """An update in words, for the model that made it."""
    lines = [f"Updated: {', '.join(made.changed)}." if made.changed else "Nothing was changed."]
    if made.ignored:
        more = ", …" if len(made.ignored) > _NAMED else ""
        lines.append(
            f"Ignored: {', '.join(map(shown, made.ignored[:_NAMED]))}{more}. The fields are {', '.join(FIELDS)}."
        )
    if made.cut:
        lines.append(f"Cut, as it was too long: {', '.join(made.cut)}.")
    return " ".join(lines)
