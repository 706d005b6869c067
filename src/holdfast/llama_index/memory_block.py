"""A memory block of LlamaIndex with the current facts: `memory_blocks=[HoldfastFacts(engine, "chat-1")]`."""

from __future__ import annotations

import uuid
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.memory import BaseMemoryBlock

import holdfast
from holdfast import Brief
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.frameworks.shadows import ShadowMessage, mark_message
from holdfast.llama_index.chat_log import ChatLog, open_chat
from holdfast.llama_index.messages import OpenCalls, to_shadow
from holdfast.text.fence import CLOSING, OPENING

MIN_TOKENS = 500
"""The least budget of a pack."""


class HoldfastFacts(BaseMemoryBlock[str]):
    """What holds now: the facts that fit the question, constraints first, the situation, and what memory recalls.

    Messages that LlamaIndex flushes from its queue are recorded in the session, unless a HoldfastChatStore has them
    already."""

    name: str = Field(default="facts", description="The name of the memory block.")
    budget: int = Field(default=2_000, description="The most tokens of the text.")

    _log: Any = PrivateAttr()

    def __init__(
        self,
        engine: holdfast.Engine,
        session_id: str,
        *,
        budget: int = 2_000,
        user: str | None = None,
        actor: str = "main",
        priority: int = 0,
        name: str = "facts",
    ) -> None:
        fields: dict[str, Any] = {"name": name, "budget": budget, "priority": priority}
        super().__init__(**fields)
        self._log = ChatLog(open_chat(check_engine(engine), session_id, actor, user))

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:  # noqa: ARG002
        asked = [each.content for each in messages or () if each.role == MessageRole.USER and each.content]
        return await run_blocking(self._read, asked[-1] if asked else None, self.budget)

    def _read(self, query: str | None, budget: int) -> str:
        """What a pack says beside the conversation. It is built in a fork that leaves nothing, and has the question alone:
        the conversation is LlamaIndex's own. Its fence is left out: nobody keeps it out of LlamaIndex's messages."""
        what_if = self._log.session.fork(ephemeral=True)
        what_if.reset()
        what_if.record("user", query or "(Continue.)")
        pack = what_if.pack(budget=max(budget, MIN_TOKENS), time=False, brief=Brief(read_handle=False))
        return "\n\n".join(text for text in pack.history.tail if text not in (OPENING, CLOSING))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await run_blocking(self._record, messages)

    def _record(self, messages: list[ChatMessage]) -> None:
        if not messages or _remove_mark(messages[0]) in [_remove_mark(row.message) for row in self._log.rows(None)]:
            return
        calls = OpenCalls()  # each flush is new: a message like an earlier one is another message
        read = [to_shadow(uuid.uuid4().hex, message, calls) for message in messages]
        self._log.session.record_all([_mark(each) for each in read], as_found=True)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:  # noqa: ARG002
        """A shorter text, from a smaller budget; None if nothing would be left."""
        left = self.budget - tokens_to_truncate
        return await run_blocking(self._read, None, left) or None if left >= MIN_TOKENS else None


def _remove_mark(message: ChatMessage) -> ChatMessage:
    """A message without what LlamaIndex adds to those that it flushes: the id of its session."""
    added = {name: value for name, value in message.additional_kwargs.items() if name != "session_id"}
    return message.model_copy(update={"additional_kwargs": added})


def _mark(message: ShadowMessage) -> dict[str, Any]:
    return {**message.message, "metadata": mark_message(message)}
