"""What langchain would send: a process of its own, since its environment has no Holdfast.

It is told of messages by role and size alone. Orders come as lines of JSON, and each is answered with one; but before it
answers, it may ask how large a summary of some messages is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware  # type: ignore[import-not-found]
from langchain_core.language_models.fake_chat_models import FakeListChatModel  # type: ignore[import-not-found]
from langchain_core.messages import (  # type: ignore[import-not-found]
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    trim_messages,
)

KEPT_MESSAGES = 20
"""What the middleware keeps unless told otherwise."""


class Conversation:
    """The messages of one session, and their sizes by id."""

    def __init__(self, told: Sequence[tuple[str, int, list[str]]]) -> None:
        self.messages = [build_message(number, role, ids) for number, (role, _, ids) in enumerate(told)]
        self.sizes = {str(number): tokens for number, (_, tokens, _) in enumerate(told)}

    def count(self, messages: Iterable[Any]) -> int:
        return sum(self.sizes[message.id] for message in messages)


def build_message(number: int, role: str, ids: Sequence[str]) -> BaseMessage:
    if role == "assistant":
        calls = [{"name": "tool", "args": {}, "id": each} for each in ids]
        return AIMessage(content="-", tool_calls=calls, id=str(number))
    if role == "tool":
        return ToolMessage(content="-", tool_call_id=ids[0], id=str(number))
    return HumanMessage(content="-", id=str(number))


def trim_calls(talk: Conversation, tokens: int, known: Sequence[int]) -> list[int]:
    """For each call, before which so many messages are known: the first that is sent."""
    firsts = []
    for end in known:
        kept = trim_messages(
            talk.messages[:end],
            max_tokens=tokens,
            token_counter=talk.count,
            strategy="last",
            start_on=("human", "ai"),
        )
        firsts.append(int(kept[0].id or 0) if kept else end)
    return firsts


class SummarizingSession:
    """The middleware, before each call of a session."""

    def __init__(self, talk: Conversation, trigger: int) -> None:
        self._talk = talk
        self._made = 0
        self._middleware: Any = SummarizationMiddleware(
            FakeListChatModel(responses=["-"]),
            trigger=("tokens", trigger),
            keep=("messages", KEPT_MESSAGES),
            token_counter=talk.count,
            trim_tokens_to_summarize=None,
            summarizer=lambda _: "-",
        )

    def firsts(self, known: Sequence[int]) -> list[int]:
        messages: list[BaseMessage] = []
        firsts, first, taken = [], 0, 0
        for end in known:
            messages += self._talk.messages[taken:end]
            taken = end
            answer = self._middleware.before_model({"messages": messages}, None)
            if answer is not None:
                _, summary, *kept = answer["messages"]
                first = int(kept[0].id) if kept else end
                self._made += 1
                summary.id = f"summary {self._made}"
                self._talk.sizes[summary.id] = request_size("size", first)
                messages = [summary, *kept]
            firsts.append(first)
        return firsts


def request_size(*question: object) -> int:
    print(json.dumps(question), flush=True)
    (answer,) = json.loads(sys.stdin.readline())
    return int(answer)


def main() -> None:
    talk = Conversation([])
    for line in sys.stdin:
        order, *given = json.loads(line)
        answer: object = None
        if order == "about":
            answer = version("langchain")
        elif order == "session":
            talk = Conversation(given[0])
        elif order == "trim":
            answer = trim_calls(talk, *given)
        else:
            answer = SummarizingSession(talk, given[0]).firsts(given[1])
        print(json.dumps(["done", answer]), flush=True)


if __name__ == "__main__":
    main()
