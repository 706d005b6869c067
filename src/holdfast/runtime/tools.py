"""The functions of the tools READ_HANDLE, RECALL_MEMORY and UPDATE_SITUATION. They return text for the model, also for
wrong arguments."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.errors import InvalidInput, describe_value
from holdfast.flows.context import SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.history import handle_text
from holdfast.flows.situation import situations
from holdfast.model.situation.situations import FIELDS, UPDATE_SITUATION, SituationUpdate
from holdfast.model.tools.tool import READ_HANDLE, RECALL_MEMORY

_MAX_NAMED = 5


def read_handle_tool(owner: Any) -> Callable[..., str]:
    """Build the function of the tool READ_HANDLE."""

    def read_handle(**arguments: object) -> str:
        answer: str = owner._drive(handle_text.run_read_handle(owner._context, arguments))
        return answer

    return READ_HANDLE.with_function(read_handle)


def async_read_handle_tool(owner: Any) -> Callable[..., Coroutine[Any, Any, str]]:
    """Build the function of the tool READ_HANDLE as a coroutine function."""

    async def read_handle(**arguments: object) -> str:
        answer: str = await owner._drive(handle_text.run_read_handle(owner._context, arguments))
        return answer

    return READ_HANDLE.with_function(read_handle)


def recall_memory_tool(owner: Any) -> Callable[..., str]:
    """Build the function of the tool RECALL_MEMORY."""

    def recall_memory(**arguments: object) -> str:
        answer: str = owner._drive(_recall_for_model(owner._context, arguments))
        return answer

    return RECALL_MEMORY.with_function(recall_memory)


def async_recall_memory_tool(owner: Any) -> Callable[..., Coroutine[Any, Any, str]]:
    """Build the function of the tool RECALL_MEMORY as a coroutine function."""

    async def recall_memory(**arguments: object) -> str:
        answer: str = await owner._drive(_recall_for_model(owner._context, arguments))
        return answer

    return RECALL_MEMORY.with_function(recall_memory)


def _recall_for_model(context: SessionContext, arguments: dict[str, object]) -> Flow[str]:
    from holdfast.flows.memory.answers import run_recall_memory  # noqa: PLC0415 - a good part of an import's time

    return (yield from run_recall_memory(context, arguments))


def situation_tool(owner: Any) -> Callable[..., str]:
    """Build the function of the tool UPDATE_SITUATION."""

    def update_situation(**arguments: object) -> str:
        answer: str = owner._drive(_update_for_model(owner._context, arguments))
        return answer

    return UPDATE_SITUATION.with_function(update_situation)


def async_situation_tool(owner: Any) -> Callable[..., Coroutine[Any, Any, str]]:
    """Build the function of the tool UPDATE_SITUATION as a coroutine function."""

    async def update_situation(**arguments: object) -> str:
        answer: str = await owner._drive(_update_for_model(owner._context, arguments))
        return answer

    return UPDATE_SITUATION.with_function(update_situation)


def _update_for_model(context: SessionContext, arguments: dict[str, object]) -> Flow[str]:
    try:
        update = yield from situations.update_situation(context, arguments)
    except InvalidInput as error:
        return f"Error: {error}"
    return describe_update(update)


def describe_update(update: SituationUpdate) -> str:
    """Describe an update to the model that made it."""
    lines = [f"Updated: {', '.join(update.changed)}." if update.changed else "Nothing was changed."]
    if update.ignored:
        more = ", …" if len(update.ignored) > _MAX_NAMED else ""
        names = ", ".join(map(describe_value, update.ignored[:_MAX_NAMED]))
        lines.append(f"Ignored: {names}{more}. The fields are {', '.join(FIELDS)}.")
    if update.truncated:
        lines.append(f"Cut, as it was too long: {', '.join(update.truncated)}.")
    return " ".join(lines)
