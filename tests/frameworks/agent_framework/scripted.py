"""A chat client of the Agent Framework that answers as a script says, and keeps what it was sent."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterable, Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

T = TypeVar("T")
Reply = str | Content | list[Content] | Exception


def call(call_id: str, name: str, **arguments: object) -> Content:
    """A tool call."""
    return Content.from_function_call(call_id, name, arguments=arguments)


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers with the replies of a script, in their order: texts, tool calls, or errors."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__()
        self.replies = [*replies]
        self.requests: list[list[Message]] = []
        self.options: list[Mapping[str, Any]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        self.requests.append(copy.deepcopy(list(messages)))
        self.options.append(options)
        reply = self.replies.pop(0) if self.replies else "Done."
        contents: Any = [reply] if isinstance(reply, str | Content) else reply
        usage: Any = {"input_token_count": 100, "output_token_count": 10}
        if stream:

            async def updates() -> AsyncIterable[ChatResponseUpdate]:
                if isinstance(reply, Exception):
                    raise reply
                for each in contents:
                    yield ChatResponseUpdate(
                        role="assistant", contents=[each] if isinstance(each, Content) else [Content.from_text(each)]
                    )
                yield ChatResponseUpdate(role="assistant", contents=[Content.from_usage(usage)])

            return self._build_response_stream(updates())

        async def respond() -> ChatResponse:
            if isinstance(reply, Exception):
                raise reply
            return ChatResponse(messages=[Message("assistant", contents)], usage_details=usage)

        return respond()


def wait(answer: Awaitable[T]) -> T:
    """Wait for an answer of the framework, in an event loop of its own."""

    async def get() -> T:
        return await answer

    return asyncio.run(get())


def texts(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Who says what in these messages, with tool calls and results as text."""
    return [(message.role, "|".join(map(_read, message.contents))) for message in messages]


def _read(content: Content) -> str:
    if content.type == "function_call":
        return f"call {content.call_id} {content.name}"
    if content.type == "function_result":
        return f"result {content.call_id} {content.result}"
    return str(content.text if content.type == "text" else content.type)
