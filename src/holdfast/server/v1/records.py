"""Responses as they are stored: entries of a session beside its messages.

A response begins with an entry: its request. It ends with another one: how it ended, and which messages are its output. No
text of the conversation is in either, so what is erased from the messages is nowhere else.

Laws: a response without an end is in progress as long as the turn on its conversation is its own; after that it has failed,
or it was complete and only its end is missing. Its state is the same whichever replica looks.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from typing import Any

import msgspec

import holdfast
from holdfast.model.content import Usage, calling_seq
from holdfast.model.entries.entry import Entry
from holdfast.model.sessions.messages import Message
from holdfast.server.v1.bodies import Fields
from holdfast.server.v1.ids import ResponseAddress, ResponseIds
from holdfast.server.v1.items import ENGINE_CALLS, ItemReader, is_visible

START_ENTRY = "v1.response"
END_ENTRY = "v1.response.end"
CANCEL_ENTRY = "v1.response.cancel"
SESSION_METADATA = "holdfast_session"
PACK_METADATA = "holdfast_pack"
"""The metadata of a response that name its session and its pack."""
CANCELLED = "cancelled"
"""The reason of a response that somebody cancelled."""
STOPPED_TEXT = "The server stopped before the response was complete. Send the request again."


class ResponseState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a response is."""

    status: str
    replies: tuple[int, ...] = ()
    """The seqs of the messages that are its output."""
    input: tuple[int, int] = (0, 0)
    """Its input are the messages after the first seq, up to the second one."""
    usage: Usage | None = None
    model: str = ""
    reason: str = ""
    """Why it is incomplete, or was cancelled."""
    error: Fields | None = None
    session: str = ""
    pack: str = ""
    ended_us: int = 0

    @property
    def is_over(self) -> bool:
        return self.status not in ("queued", "in_progress")

    @property
    def is_abandoned(self) -> bool:
        """Whether the same request again asks the upstream anew: it failed, or nobody waited for its end."""
        return self.status == "failed" or (self.status == "cancelled" and self.reason != CANCELLED)

    @property
    def has_answer(self) -> bool:
        """Whether the same request again gets this."""
        return self.is_over and not self.is_abandoned


class ResponseRecord:
    """One stored response."""

    def __init__(self, session: holdfast.AsyncSession, entry: Entry, name: str) -> None:
        self.session = session
        self.entry = entry
        self.name = name

    @property
    def mark(self) -> str:
        """The id under which its replies are recorded: short, also if the names in its own id are long."""
        return f"v1-{hashlib.sha256(self.name.encode()).hexdigest()[:40]}"

    @property
    def body(self) -> Fields:
        assert isinstance(self.entry.body, dict), "the entry of a response is an object"
        return self.entry.body

    async def read_state(self) -> ResponseState:
        """How far the response is."""
        ends = await self.session.entries.list(kind=END_ENTRY, parent=self.entry.key, limit=1)
        if ends:
            state = msgspec.convert(ends[0].body, ResponseState)
            return msgspec.structs.replace(state, ended_us=ends[0].at_us)
        lease = (await self.session.state()).leases.get("")
        if lease is not None and lease.owner == self.entry.key and lease.is_held(time.time_ns() // 1_000):
            cancelled = await self.session.entries.get(f"{self.entry.key}:cancel")
            return ResponseState(status="in_progress" if cancelled is None else "cancelled")
        return await self._derive_state()

    async def read_answer(self) -> ResponseState:
        """How the response ended, for the owner of the turn: nobody else works on it."""
        ends = await self.session.entries.list(kind=END_ENTRY, parent=self.entry.key, limit=1)
        return await self.read_state() if ends else await self._derive_state()

    async def find_replies(self) -> list[Message]:
        """The messages that are its output so far, oldest first."""
        newest = await self.session.find_message(self.mark)
        if newest is None or newest.seq <= self.entry.seq:
            return []
        replies: list[Message] = []
        before = newest.seq + 1
        while before > self.entry.seq + 1:
            page = await self.session.messages(before=before, limit=100)
            for message in reversed(page):
                source = message.source
                if message.seq > self.entry.seq and source is not None and source.id == self.mark:
                    replies.append(message)
            if not page or page[0].seq <= self.entry.seq:
                break
            before = page[0].seq
        return replies[::-1]

    async def is_continued_by(self, message: Message) -> bool:
        """Whether a message is of the work on this response, which is not over: a reply that reads for itself, or what it
        read."""
        replies = [reply for reply in await self.find_replies() if reply.skipped != "incomplete"]
        if not replies or is_final(replies[-1]):
            return False
        read = {calling_seq(result.tool_call_id) for result in message.tool_results}
        return message.seq == replies[-1].seq or replies[-1].seq in read

    async def _derive_state(self) -> ResponseState:
        """The state of a response whose end was not stored, after its process has died."""
        replies = await self.find_replies()
        if replies and is_final(replies[-1]):
            last = replies[-1]
            stop = (last.source.stop if last.source is not None else None) or "completed"
            return ResponseState(
                status="completed" if stop == "completed" else "incomplete",
                reason="" if stop == "completed" else stop,
                replies=tuple(message.seq for message in replies),
                input=(self.entry.seq, replies[0].seq - 1),
                usage=sum_usage(message.usage for message in replies),
                model=(last.source.model if last.source is not None else None) or "",
                ended_us=last.time_us,
            )
        return ResponseState(status="failed", error={"code": "server_error", "message": STOPPED_TEXT})

    async def describe(self, state: ResponseState, output: list[Fields]) -> Fields:
        """The response as OpenAI shows it."""
        return build_response(self.body["echo"], self.name, self.entry.at_us, state, output)

    async def read_output(self, blobs: Any, state: ResponseState, include: Iterable[str] = ()) -> list[Fields]:
        reader = ItemReader(self.session, blobs)
        output: list[Fields] = []
        for seq in state.replies:
            found = await self.session.messages(before=seq + 1, limit=1)
            if found and found[0].seq == seq and is_visible(found[0]):
                output += (await reader.show(found))[0]
        return show_sealed(output, [*include, *self.body["echo"].get("include", ())])


def is_final(message: Message) -> bool:
    """Whether a reply ends its response: it has no calls, or some that the client runs."""
    hidden = message.metadata.get(ENGINE_CALLS)
    hidden = hidden if isinstance(hidden, list) else []
    calls = [call.provider_id for call in (*message.tool_calls, *message.dropped_calls)]
    return message.skipped != "incomplete" and (not calls or any(name not in hidden for name in calls))


async def find_record(
    session: holdfast.AsyncSession, place: ResponseAddress, ids: ResponseIds
) -> ResponseRecord | None:
    """The response at a place; None if it was deleted."""
    found = await session.entries.list(kind=START_ENTRY, before=place.seq + 1, limit=1)
    if not found or found[0].seq != place.seq:
        return None
    return ResponseRecord(session, found[0], ids.sign(session.scope.tenant, place))


def show_sealed(items: list[Fields], include: Iterable[str]) -> list[Fields]:
    """The items; sealed reasoning only for a client that asked for it."""
    if "reasoning.encrypted_content" in include:
        return items
    return [
        {key: value for key, value in item.items() if key != "encrypted_content"}
        if item.get("type") == "reasoning"
        else item
        for item in items
    ]


def sum_usage(usages: Iterable[Usage | None]) -> Usage | None:
    known = [usage for usage in usages if usage is not None]
    return sum(known[1:], known[0]) if known else None


def show_usage(usage: Usage) -> Fields:
    """The usage of a response as OpenAI shows it."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def build_response(echo: Fields, name: str, created_us: int, state: ResponseState, output: list[Fields]) -> Fields:
    """A response object. The parameters of the request are repeated in it."""
    own = {SESSION_METADATA: state.session, PACK_METADATA: state.pack} if state.pack else {}
    return {
        "id": name,
        "object": "response",
        "created_at": created_us // 1_000_000,
        "completed_at": state.ended_us // 1_000_000 if state.status == "completed" and state.ended_us else None,
        "status": state.status,
        "error": state.error,
        "incomplete_details": {"reason": state.reason} if state.status == "incomplete" else None,
        **{key: value for key, value in echo.items() if key != "include"},
        "model": state.model or echo["model"],
        "metadata": {**echo.get("metadata", {}), **own},
        "output": output,
        "usage": None if state.usage is None else show_usage(state.usage),
    }
