"""A chat model for tests: it plays a script, accepts tools, and records what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

Script = Sequence[AIMessage | str | Exception] | Callable[[list[BaseMessage]], AIMessage]


class ScriptedModel(BaseChatModel):
    """Plays replies in turn, or those of a function. `sent` has the messages of each call, as they were at that time."""

    script: Any = None
    sent: list[list[BaseMessage]] = Field(default_factory=list)
    offered: list[list[str]] = Field(default_factory=list)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, script: Script, **fields: Any) -> None:
        super().__init__(**fields)
        self.script = script if callable(script) else list(script)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        names = [
            each.name if isinstance(each, BaseTool) else convert_to_openai_tool(each)["function"]["name"]
            for each in tools
        ]
        return self.bind(offered=names, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages, kwargs))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._reply(messages, kwargs)
        for word in str(reply.content).split(" "):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word + " ", id=reply.id))
            if run_manager is not None:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk
        calls = [
            tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=number)
            for number, call in enumerate(reply.tool_calls)
        ]
        yield ChatGenerationChunk(
            message=AIMessageChunk(content="", id=reply.id, tool_call_chunks=calls, usage_metadata=reply.usage_metadata)
        )

    def _reply(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        with self._lock:
            self.sent.append([message.model_copy(deep=True) for message in messages])
            self.offered.append(kwargs.get("offered", []))
            reply = self.script(messages) if callable(self.script) else self.script.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(reply) if isinstance(reply, str) else reply


def calls(*named: tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str], text: str = "") -> AIMessage:
    """A reply that calls tools: (name, arguments) or (name, arguments, id)."""
    made = [
        {"name": each[0], "args": each[1], "id": each[2] if len(each) == 3 else f"call_{number}", "type": "tool_call"}
        for number, each in enumerate(named)
    ]
    return AIMessage(text, tool_calls=made)


def describe(messages: Sequence[BaseMessage]) -> list[tuple[str, str]]:
    """The type and the text of each message, with its calls."""
    return [
        (each.type, each.text + "".join(f" {call['name']}{call['args']}" for call in getattr(each, "tool_calls", [])))
        for each in messages
    ]
