"""The function that runs the tool READ_HANDLE, for programs that keep a table of their tools' functions."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.flows import reading_tool
from holdfast.model.tools import READ_HANDLE


def reader(held: Any) -> Callable[..., str]:
    """The function of the tool READ_HANDLE: what it returns is for the model, and so is what is wrong with its arguments.
    session.run(call) runs it without being told; session.run(call, session.reader()) is the same."""

    def read_handle(**arguments: object) -> str:
        answer: str = held._drive(reading_tool.answer(held._place, arguments))
        return answer

    return READ_HANDLE.with_function(read_handle)


def async_reader(held: Any) -> Callable[..., Coroutine[Any, Any, str]]:
    """The function of the tool READ_HANDLE: what it returns is for the model, and so is what is wrong with its arguments.
    await session.run(call) runs it without being told; await session.run(call, session.reader()) is the same."""

    async def read_handle(**arguments: object) -> str:
        answer: str = await held._drive(reading_tool.answer(held._place, arguments))
        return answer

    return READ_HANDLE.with_function(read_handle)
