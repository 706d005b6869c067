"""The fake model of LlamaIndex with a script, which remembers what it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.mock import MockFunctionCallingLLM


class ScriptedLLM(MockFunctionCallingLLM):
    """Each step is a text, or calls: (id, name, arguments)."""

    _steps: list[Any] = PrivateAttr(default_factory=list)
    _sent: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, steps: Sequence[Any]) -> None:
        super().__init__(response_generator=self._answer, is_chat_model=True)
        self._steps = [*steps]

    @property
    def sent(self) -> list[list[ChatMessage]]:
        return self._sent

    def _answer(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
        self._sent.append([message.model_copy(deep=True) for message in messages])
        step = self._steps.pop(0)
        if callable(step):
            step = step()
        if isinstance(step, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=step)
        blocks: Any = [
            ToolCallBlock(tool_call_id=call, tool_name=name, tool_kwargs=arguments) for call, name, arguments in step
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)
