"""A chat store of LlamaIndex on sessions: `Memory.from_defaults(chat_store=HoldfastChatStore(engine))`."""

from __future__ import annotations

import builtins
import threading
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

import holdfast
from holdfast.errors import SessionNotFound
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.llama_index.chat_log import METADATA, ChatLog, open_chat
from holdfast.types import shorten_name

_PAGE = 200
_CHATS = 1_000
"""The chats that a store has in memory: those that were used last."""


class HoldfastChatStore(AsyncDBChatStore):
    """Chats of LlamaIndex as sessions: the key of a chat is the name of its session.

    `user` is the user of sessions that are created here: facts go into the user's ledger. With `observe`, facts are read
    from what the user says. What is deleted here leaves the conversation; the log keeps it until it is erased."""

    _engine: Any = PrivateAttr()
    _options: Any = PrivateAttr()
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _logs: dict[str, ChatLog] = PrivateAttr(default_factory=dict)

    def __init__(
        self, engine: holdfast.Engine, *, user: str | None = None, actor: str = "main", observe: bool = True
    ) -> None:
        super().__init__()
        self._engine = check_engine(engine)
        self._options = (actor, user, observe)

    @classmethod
    def class_name(cls) -> str:
        return "HoldfastChatStore"

    def log(self, key: str) -> ChatLog:
        """The chat of a key. Its session is created if there is none."""
        with self._lock:
            log = self._logs.pop(key, None)
            if log is None:
                actor, user, observe = self._options
                log = ChatLog(open_chat(self._engine, key, actor, user), observe=observe)
            self._logs[key] = log
            while len(self._logs) > _CHATS:
                del self._logs[next(iter(self._logs))]
            return log

    def _find(self, key: str) -> ChatLog | None:
        """The chat of a key, if there is one: reading creates nothing."""
        try:
            self._engine.session(shorten_name(key), actor=self._options[0]).state()
        except SessionNotFound:  # there is none, or it was destroyed
            with self._lock:
                self._logs.pop(key, None)
            return None
        return self.log(key)

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """The messages of a chat, oldest first."""

        def read() -> list[ChatMessage]:
            log = self._find(key)
            rows = [] if log is None else log.rows(None if status is None else status.value)
            first = offset or 0
            chosen = rows[first:] if limit is None else rows[first : first + limit]
            return [row.message.model_copy(deep=True) for row in chosen]

        return await run_blocking(read)

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """How many messages a chat has."""

        def count() -> int:
            log = self._find(key)
            return 0 if log is None else len(log.rows(None if status is None else status.value))

        return await run_blocking(count)

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Append a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: builtins.list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Append messages."""
        await run_blocking(lambda: self.log(key).add(messages, status.value))

    async def set_messages(
        self, key: str, messages: builtins.list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Replace the messages of a chat. Those that are the same at its beginning stay."""
        await run_blocking(lambda: self.log(key).replace(messages, status.value))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete a message by the number of its entry, and return it; None if there is none."""

        def delete() -> ChatMessage | None:
            log = self._find(key)
            if log is None:
                return None
            deleted = log.change(lambda rows: [row for row in rows if row.seq == idx], "deleted")
            return deleted[0] if deleted else None

        return await run_blocking(delete)

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete the messages of a chat, or those with a status."""

        def delete() -> None:
            log = self._find(key)
            if log is not None:
                log.change(
                    lambda rows: [row for row in rows if status is None or row.status == status.value], "deleted"
                )

        await run_blocking(delete)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Delete the oldest active messages, and return them."""
        return await run_blocking(self._change_oldest, key, n, "deleted")

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Take the oldest active messages out of the queue, and return them. They stay in the conversation."""
        return await run_blocking(self._change_oldest, key, n, "archived")

    def _change_oldest(self, key: str, n: int, to: Any) -> list[ChatMessage]:
        log = self._find(key)
        if log is None:
            return []
        return log.change(lambda rows: [row for row in rows if row.status == "active"][: max(n, 0)], to)

    async def erase_deleted(self, key: str) -> int:
        """Erase the deleted messages of a chat for good. Returns how many there were."""

        def erase() -> int:
            log = self._find(key)
            return 0 if log is None else log.erase_deleted()

        return await run_blocking(erase)

    async def get_keys(self) -> list[str]:
        """The keys of the chats that have messages."""
        return await run_blocking(self._read_keys)

    def _read_keys(self) -> list[str]:
        keys: list[str] = []
        after = None
        while rows := self._engine.sessions(actor=self._options[0], after=after, limit=_PAGE):
            for row in rows:
                session = self._engine.session(row.session, actor=row.actor, thread=row.thread or None)
                key = session.state().metadata.get(METADATA)
                if isinstance(key, str) and ChatLog(session, observe=False).rows(None):
                    keys.append(key)
            after = rows[-1]
        return keys
