"""A ConversationStore of Pydantic AI in a Holdfast store.

The framework awaits; each call runs in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord, ConversationStore

import holdfast
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.pydantic_ai.conversation_log import ConversationLog


class HoldfastConversationStore(ConversationStore):
    """Keeps conversations in a Holdfast store.

        store = HoldfastConversationStore(holdfast.open("agent.db"))
        conversation = await store.load("c1") or Conversation(conversation_id="c1")
        result = await agent.run("Where is my order?", conversation=conversation)
        await store.save(result)

    The conversation "c1" is in the session "c1" of `actor`. With `scope_is_user`, the scope of a new conversation is the
    user of its session, so that all conversations of that user share facts.

    delete() erases the session with all of its messages. If forks of the conversation exist, what they share stays until
    the last of them is deleted."""

    def __init__(self, engine: holdfast.Engine, *, actor: str = "main", scope_is_user: bool = False) -> None:
        self._log = ConversationLog(check_engine(engine), actor=actor, scope_is_user=scope_is_user)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation; None if there is none."""
        return await run_blocking(self._log.read_record, conversation_id)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, newest `updated_at` first. Only records that changed since the last call are read."""
        return await run_blocking(self._log.read_records, scope, limit)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries: both, or neither."""
        await run_blocking(self._log.write_record, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation, and erase its messages, except for what forks share."""
        await run_blocking(self._log.delete_record, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with this id. Raises LookupError if there is none.

        An entry that this process has not seen is searched in the conversations, the last active first."""
        return await run_blocking(self._log.read_entry, entry_id)

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to `head_id`, or the last `limit` of them. Raises LookupError if one is missing."""
        return await run_blocking(self._log.read_history, head_id, limit)
