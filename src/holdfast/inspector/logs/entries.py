"""The entries of a log, whatever wrote it: messages as text, tool calls and tool results, with what is known of the
model call.

Law: every text is valid Unicode, and every name can be stored.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.model.content import Usage
from holdfast.types import shorten_name

EntryKind: TypeAlias = Literal["system", "prompt", "note", "reply", "result", "summary"]
"""Instructions · what the user said · what the program said in the place of the user · a reply of the model · tool
results · a summary that replaces all before it."""
_MICROS = 1_000_000
_LATEST_S = 1 << 33
"""Seconds since the epoch beyond this, in the year 2242, are milliseconds."""


class LogCall(msgspec.Struct, frozen=True):
    """A tool call."""

    id: str
    name: str
    args: Any
    """An object, or text."""


class LogResult(msgspec.Struct, frozen=True):
    """The result of a tool call."""

    call: str
    text: str
    is_error: bool = False


class ModelFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says of a model call."""

    model: str = ""
    usage: Usage | None = None
    long_writes: int = 0
    """Of the tokens written to the cache, those for an hour in place of five minutes."""
    reply: str = ""
    """The provider's id of the reply: all entries with it are one call."""
    system: str = ""
    """A digest of the system prompt of the request, if the log has requests."""
    tools: str = ""


class LogEntry(msgspec.Struct, kw_only=True):
    """A message of a log."""

    kind: EntryKind
    line: int
    text: str = ""
    calls: list[LogCall] = msgspec.field(default_factory=list)
    results: list[LogResult] = msgspec.field(default_factory=list)
    time_us: int = 0
    """0 if the log does not say."""
    thread: str = ""
    figures: ModelFigures = ModelFigures()
    keep: list[int] | None = None
    """The earlier entries of the thread that are still in the context, by their index; None for all."""
    is_rewind: bool = False
    """The user took back what is not kept."""

    @property
    def digest(self) -> str:
        """Of its content: two entries that say the same have the same."""
        role = "user" if self.kind in ("prompt", "note", "summary") else self.kind
        calls = [(call.name, call.args) for call in self.calls]
        results = [(result.call, result.text) for result in self.results]
        content = json.dumps([role, self.text, calls, results], sort_keys=True, default=str)
        return hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=12).hexdigest()


def clean_text(text: object) -> str:
    """A text without lone surrogates; empty if it is none."""
    return text.encode("utf-8", "replace").decode() if type(text) is str else ""


def clean_name(name: object, default: str) -> str:
    """A name of a tool, a call or a model without what names cannot have."""
    text = "".join(each for each in clean_text(name) if each.isprintable())
    return shorten_name(text) if text.strip() else default


def clean_args(args: object) -> Any:
    """Arguments as an object that can be stored, or as text."""
    if args is None:
        return {}
    text = args if type(args) is str else json.dumps(args, ensure_ascii=False, default=str)
    text = clean_text(text)
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return value if type(value) is dict else text


def read_time(value: object) -> int:
    """A time in microseconds, from ISO 8601 or seconds or milliseconds since the epoch; 0 for anything else."""
    try:
        if type(value) is str:
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            return max(0, int(moment.timestamp() * _MICROS))
        if type(value) in (int, float):
            seconds = float(value) if value < _LATEST_S else float(value) / 1_000  # type: ignore[operator, arg-type]
            return int(seconds * _MICROS) if 0 < seconds < _LATEST_S else 0
    except (ValueError, OverflowError, OSError):
        pass
    return 0
