"""A model of LlamaIndex that follows a script, and remembers what it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata, MessageRole, ToolCallBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection


class ScriptedLLM(FunctionCallingLLM):
    """Each step is a text, or calls: (id, name, arguments)."""

    _steps: list[Any] = PrivateAttr(default_factory=list)
    _sent: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, steps: Sequence[Any]) -> None:
        super().__init__()
        self._steps = [*steps]

    @property
    def sent(self) -> list[list[ChatMessage]]:
        return self._sent

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    def _answer(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        self._sent.append([message.model_copy(deep=True) for message in messages])
        step = self._steps.pop(0)
        if callable(step):
            step = step()
        if isinstance(step, str):
            return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=step))
        blocks: Any = [
            ToolCallBlock(tool_call_id=call, tool_name=name, tool_kwargs=arguments) for call, name, arguments in step
        ]
        return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks))

    def _prepare_chat_with_tools(
        self,
        tools: Any,
        user_msg: Any = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        return {"messages": [*(chat_history or [])]}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(
                tool_id=str(block.tool_call_id), tool_name=block.tool_name, tool_kwargs=dict(block.tool_kwargs)
            )
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock) and isinstance(block.tool_kwargs, dict)
        ]

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._answer(messages)

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._answer(messages)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        yield self._answer(messages)

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        answer = self._answer(messages)

        async def stream() -> Any:
            yield answer

        return stream()

    def complete(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a chat model")

    async def acomplete(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a chat model")

    def stream_complete(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a chat model")

    async def astream_complete(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a chat model")
