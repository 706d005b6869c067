"""Read the log of Claude Code as entries, line by line.

Laws: the lines of one reply are one entry, unless results come between them; all of them have the id of the reply. A
sub-agent is a thread of its own. A summary ends the context before it, and a prompt that follows an earlier message
takes back what came after that message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.frameworks.claude_lines import (
    Line,
    LogMessage,
    find_kept_lines,
    is_sidechain,
    join_reply,
    line_id,
    read_line,
)
from holdfast.inspector.logs.entries import LogEntry, ModelFigures, clean_name, read_time
from holdfast.inspector.logs.messages import read_long_writes, read_message, read_usage


class _Pending(msgspec.Struct):
    """A message that may still grow by further lines of its reply."""

    message: LogMessage
    entry: LogEntry


class _Thread(msgspec.Struct):
    """How far a conversation of the log was read."""

    name: str
    count: int = 0
    """Its entries."""
    pending: list[_Pending] = msgspec.field(default_factory=list)
    """The newest reply, and the results and notes after it."""
    turns: list[int] = msgspec.field(default_factory=list)
    """The indexes of its prompts and replies."""


class ClaudeReader:
    """Reads lines of one file."""

    def __init__(self, thread: str = "") -> None:
        self._thread = thread
        """Of a file of a sub-agent: its name."""
        self._threads: dict[str, _Thread] = {}
        self._indexes: dict[str, int] = {}
        """By the uuid of a line: the index of the last entry up to it."""
        self._silent: dict[str, list[str]] = {}
        """The lines without an entry, by their uuids, with the lines that they say a compaction keeps."""
        self._roots: dict[str, str] = {}
        """By the uuid of a line of a sub-agent: its thread."""

    def read(self, line: Line, number: int) -> Iterator[LogEntry]:
        """The entries that are complete with this line."""
        thread = self._find_thread(line)
        message = read_line(line, number)
        uuid, parent = line_id(line), line.get("parentUuid")
        entry = None if message is None else _build_entry(message, line, thread.name, number)
        if message is None or entry is None:
            if uuid:
                self._indexes[uuid] = self._indexes.get(parent, -1) if type(parent) is str else -1
                self._silent[uuid] = find_kept_lines(line)
            return
        if message.kind == "reply":
            reply = _find_reply(thread.pending, message)
            if reply is not None:
                self._indexes[uuid] = thread.count - len(thread.pending) + thread.pending.index(reply)
                _join(reply, message, entry)
                return
            yield from _flush(thread)
        self._note_rewind(thread, message, entry, parent)
        if uuid:
            self._indexes[uuid] = thread.count
        if entry.kind in ("prompt", "reply"):
            thread.turns.append(thread.count)
        thread.count += 1
        thread.pending.append(_Pending(message, entry))
        if thread.pending[0].message.kind != "reply":
            yield from _flush(thread)

    def finish(self) -> Iterator[LogEntry]:
        """The entries that are left at the end."""
        for thread in self._threads.values():
            yield from _flush(thread)

    def _find_thread(self, line: Line) -> _Thread:
        name = self._thread
        if is_sidechain(line) and not name:
            agent, parent = line.get("agentId"), line.get("parentUuid")
            root = self._roots.get(parent) if type(parent) is str else None
            name = (
                f"agent-{clean_name(agent, 'unknown')}" if type(agent) is str else root or f"agent-{line_id(line)[:8]}"
            )
            self._roots[line_id(line)] = name
        if name not in self._threads:
            self._threads[name] = _Thread(name)
        return self._threads[name]

    def _note_rewind(self, thread: _Thread, message: LogMessage, entry: LogEntry, parent: object) -> None:
        if message.kind == "summary":
            kept = {*self._silent.get(parent, ())} - {*self._silent} if type(parent) is str else ()
            entry.keep = sorted({self._indexes[uuid] for uuid in kept if uuid in self._indexes})
            return
        at = self._indexes.get(parent) if type(parent) is str else None
        if message.kind != "prompt" or at is None or at < 0:
            return
        if any(index > at for index in thread.turns):
            entry.keep, entry.is_rewind = list(range(at + 1)), True


def _find_reply(pending: list[_Pending], new: LogMessage) -> _Pending | None:
    """The reply that goes on with this line: it is the newest message, or a call of it has no result yet."""
    if not pending or not new.group or pending[0].message.group != new.group:
        return None
    answered = {call for each in pending[1:] for call in each.message.answers}
    is_open = not {*pending[0].message.calls} <= answered
    return pending[0] if is_open or len(pending) == 1 else None


def _join(reply: _Pending, message: LogMessage, entry: LogEntry) -> None:
    known = {call.id for call in reply.entry.calls}
    reply.entry.text = "\n".join(filter(None, (reply.entry.text, entry.text)))
    reply.entry.calls = [*reply.entry.calls, *(call for call in entry.calls if call.id not in known)]
    reply.entry.figures = entry.figures if entry.figures.usage is not None else reply.entry.figures
    join_reply(reply.message, message)


def _flush(thread: _Thread) -> Iterator[LogEntry]:
    pending, thread.pending = thread.pending, []
    for each in pending:
        yield each.entry


def _build_entry(message: LogMessage, line: Line, thread: str, number: int) -> LogEntry | None:
    entry = read_message({"role": message.message["role"], "content": message.message["content"]}, number)
    if entry is None:
        if message.kind != "reply":
            return None
        entry = LogEntry(kind="reply", line=number)  # a line with reasoning alone: its call counts
    entry.kind = message.kind
    entry.thread = thread
    entry.time_us = read_time(line.get("timestamp"))
    if message.kind == "reply":
        raw: Any = line["message"]
        entry.figures = ModelFigures(
            model=clean_name(raw.get("model"), ""),
            usage=read_usage(raw.get("usage")),
            long_writes=read_long_writes(raw.get("usage")),
            reply=message.group,
        )
    return entry
