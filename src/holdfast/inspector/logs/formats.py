"""Find out what a file is, and read it as entries.

Laws: a line that is broken, or no part of a conversation, is counted and skipped. Reading takes memory for one line or
request at a time, and a digest for each message.
"""

from __future__ import annotations

import collections
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import FileAbsent, HoldfastError, LogRefused
from holdfast.frameworks.claude_import import find_logs
from holdfast.frameworks.claude_lines import is_log_line
from holdfast.inspector.logs.claude import ClaudeReader
from holdfast.inspector.logs.entries import LogEntry
from holdfast.inspector.logs.files import Record, read_records
from holdfast.inspector.logs.messages import find_role, find_type, read_message, unwrap_message
from holdfast.inspector.logs.reports import LogKind
from holdfast.inspector.logs.requests import RequestReader, read_exchange

_LOOKS = 50
"""How many objects are read to find out what a file is."""
_SUFFIXES = frozenset({".jsonl", ".json", ".ndjson", ".log", ".txt", ""})
_STATES = ("values", "channel_values", "state")
_ITEMS = frozenset(
    {"function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output"}
)
_BLOCKS = frozenset({"tool_use", "tool_result", "thinking"})
_LANGCHAIN = frozenset({"human", "ai", "AIMessageChunk"})
_SUMMARY = "This session is being continued from a previous conversation that ran out of context."


class Log:
    """A file that was recognised. `lines` and `skipped` count what was read so far."""

    def __init__(self, path: Path, kind: LogKind) -> None:
        self.path = path
        self.kind: LogKind = kind
        self.lines = 0
        self.skipped = 0

    def read(self) -> Iterator[LogEntry]:
        """Read all entries, from the beginning. Entries of several threads alternate as in the file."""
        self.lines = self.skipped = 0
        if self.kind == "claude-code":
            yield from self._read_claude(self.path, "")
            for file in _find_subagents(self.path):
                yield from self._read_claude(file, file.stem)
        else:
            yield from self._read_messages()

    def _read_claude(self, path: Path, thread: str) -> Iterator[LogEntry]:
        reader = ClaudeReader(thread)
        for number, record in self._count(path):
            if record is None or type(record.get("type")) is not str:
                self.skipped += 1
            else:
                yield from reader.read(record, number)
        yield from reader.finish()

    def _read_messages(self) -> Iterator[LogEntry]:
        reader = RequestReader()
        reply: LogEntry | None = None
        for number, record in self._count(self.path):
            entries = None if record is None else _read_record(reader, record, number)
            if entries is None:
                self.skipped += 1
                continue
            for entry in entries:
                _mark_summary(entry)
                if reply is not None and _continues(reply, entry, self.kind):
                    reply.text = "\n".join(filter(None, (reply.text, entry.text)))
                    reply.calls = [*reply.calls, *entry.calls]
                    continue
                if reply is not None:
                    yield reply
                reply = entry if entry.kind == "reply" else None
                if reply is None:
                    yield entry
        if reply is not None:
            yield reply

    def _count(self, path: Path) -> Iterator[Record]:
        for number, record in read_records(path):
            self.lines += 1
            yield number, record


def _mark_summary(entry: LogEntry) -> None:
    """Recognise the summary of Claude Code in logs of other formats."""
    if entry.kind == "prompt" and entry.keep is None and entry.text.startswith(_SUMMARY):
        entry.kind, entry.keep = "summary", []


def _continues(reply: LogEntry, entry: LogEntry, kind: LogKind) -> bool:
    """Whether this is another item of the same reply, as OpenAI's responses list them."""
    return kind == "openai-responses" and entry.kind == "reply" and entry.figures.usage is None and not reply.results


def _read_record(reader: RequestReader, record: dict[str, Any], number: int) -> Iterator[LogEntry] | None:
    """The entries of an object; None if it is no part of a conversation."""
    for name in _STATES:
        inner = record.get(name)
        if type(inner) is dict and type(inner.get("messages")) is list:
            record = inner
    exchange = read_exchange(record, number)
    if exchange is not None:
        return reader.read(exchange, number)
    entry = read_message(record, number)
    if entry is not None:
        return iter([entry])
    return iter(()) if find_role(unwrap_message(record)) or find_type(record) in _ITEMS else None


def _find_subagents(path: Path) -> list[Path]:
    folder = path.with_suffix("")
    return list(find_logs(folder)) if folder.is_dir() else []


def is_log(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a log that can be inspected. A file that cannot be read is none."""
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES or not target.is_file():
        return False
    try:
        read_log(target)
    except (HoldfastError, OSError):
        return False
    return True


def read_log(path: str | os.PathLike[str]) -> Log:
    """Recognise a log. Raises FileAbsent, or LogRefused with what was tried."""
    target = Path(path)
    if not target.is_file():
        raise FileAbsent(path=str(path))
    head = list(itertools.islice(read_records(target), _LOOKS))
    objects = [record for _, record in head if record is not None]
    kinds = collections.Counter(kind for record in objects if (kind := find_kind(record)) is not None)
    if not kinds:
        what = (
            f"of its first {len(head)} lines, {len(objects)} are JSON objects" if objects else "it has no JSON objects"
        )
        tried = "lines of Claude Code, requests and responses, and single messages were looked for"
        raise LogRefused(path=target.name, reason=f"{what}, and none is a message; {tried}")
    plain = kinds.pop("openai-chat", 0)  # a plain message could be of any program: one that is not decides
    return Log(target, kinds.most_common(1)[0][0] if kinds or not plain else "openai-chat")


def find_kind(record: dict[str, Any]) -> LogKind | None:
    """Which program wrote an object of a log; None if it is none. A plain message counts as one of OpenAI."""
    if is_log_line(record):
        return "claude-code"
    if any(type(record.get(name)) is dict and "messages" in record[name] for name in _STATES):
        return "langgraph"
    message = unwrap_message(record)
    if message is not record or find_type(message) in _LANGCHAIN:
        return "langgraph"
    exchange = read_exchange(record, 1)
    if exchange is None:
        return _find_message_kind(record)
    inner = next(
        (each for each in exchange.sent or () if type(each) is dict and find_kind(each) != "openai-chat"), None
    )
    if inner is not None and (kind := find_kind(inner)) is not None:
        return kind
    text = repr([*record])[:1_000]
    if "'output'" in text or "'input'" in text:
        return "openai-responses"
    return "anthropic" if "'system'" in text or record.get("type") == "message" else "openai-chat"


def _find_message_kind(record: dict[str, Any]) -> LogKind | None:
    if find_type(record) in _ITEMS:
        return "openai-responses"
    if not find_role(record):
        return None
    content = record.get("content")
    types = {find_type(each) for each in content if type(each) is dict} if type(content) is list else set()
    if types & {"input_text", "output_text"}:
        return "openai-responses"
    if types & _BLOCKS:
        return "anthropic"
    calls = record.get("tool_calls")
    is_own = "tool_results" in record or (
        type(calls) is list and any("args" in each for each in calls if type(each) is dict)
    )
    if is_own or ("at" in record and "role" in record):
        return "holdfast" if "role" in record else "langgraph"
    return "openai-chat" if "content" in record or "tool_calls" in record else None
