"""Which messages were in the context of which model calls: the figures of a log without its texts.

Laws: a call has what came before its reply and did not leave the context since. Entries of one reply are one call. A
prompt that is much shorter than the one before, where the log has no reason for it, ends the context: what it still
had is unknown, and nothing is accused of being in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec

from holdfast.adapters.tokens import EstimatingCounter
from holdfast.inspector.logs.entries import LogEntry, ModelFigures
from holdfast.inspector.logs.stale import StaleFinder, StaleText

SHRUNK_SHARE = 0.7
"""A prompt below this share of the one before has lost some of it."""
LEAST_PROMPT = 2_000
"""Shorter prompts say nothing about that."""
NEVER = 1 << 62

ContextChange: TypeAlias = Literal["", "compaction", "rewind", "context"]


class TraceMessage(msgspec.Struct):
    """A message of a thread."""

    kind: str
    tokens: int
    offset: int
    """The tokens of the context before it."""
    enters: int
    """The number of the first call that was shown it."""
    leaves: int = NEVER
    """The number of the first call that was not."""
    seq: int = 0
    """In the session that the log was replayed into."""


class TraceCall(msgspec.Struct):
    """A model call of a thread."""

    index: int
    """Of the entry with its reply."""
    figures: ModelFigures
    context: int
    """The tokens of the messages before it, by the counter."""
    kept: int
    """Of these, the tokens at the front that the call before had, too."""
    sent_us: int
    replied_us: int
    change: ContextChange = ""
    """What happened to the context since the call before."""


class TraceThread(msgspec.Struct):
    """A conversation of a log."""

    name: str
    messages: list[TraceMessage] = msgspec.field(default_factory=list)
    calls: list[TraceCall] = msgspec.field(default_factory=list)
    stale: list[StaleText] = msgspec.field(default_factory=list)


class Survey(msgspec.Struct):
    """The figures of a log."""

    threads: dict[str, TraceThread] = msgspec.field(default_factory=dict)
    has_times: bool = False
    has_system: bool = False
    first_us: int = 0
    last_us: int = 0

    @property
    def calls(self) -> int:
        return sum(len(thread.calls) for thread in self.threads.values())


def survey_entries(entries: Iterable[LogEntry]) -> Survey:
    """Read the entries of a log once."""
    survey = Survey()
    tracers: dict[str, _Tracer] = {}
    for entry in entries:
        if entry.thread not in tracers:
            tracers[entry.thread] = _Tracer(entry.thread)
            survey.threads[entry.thread] = tracers[entry.thread].thread
        tracers[entry.thread].add(entry)
        survey.has_system |= entry.kind == "system"
        if entry.time_us:
            survey.has_times = True
            survey.first_us = min(survey.first_us or entry.time_us, entry.time_us)
            survey.last_us = max(survey.last_us, entry.time_us)
    return survey


def is_same_call(before: ModelFigures, after: ModelFigures) -> bool:
    """Whether two replies are parts of one: by their id, or by the same figures for a prompt that must have grown."""
    if before.reply and before.reply == after.reply:
        return True
    one, other = before.usage, after.usage
    if one is None or other is None or not one.input_tokens:
        return False
    return (one.input_tokens, one.cache_read_tokens, one.cache_write_tokens) == (
        other.input_tokens,
        other.cache_read_tokens,
        other.cache_write_tokens,
    )


class _Tracer:
    """Follows one thread."""

    def __init__(self, name: str) -> None:
        self.thread = TraceThread(name)
        self._count = EstimatingCounter().count
        self._finder = StaleFinder(self._count)
        self.thread.stale = self._finder.found
        self._context: set[int] = set()
        self._tokens = 0
        self._kept = 0
        """What of the last call's context is still there, from the front."""
        self._change: ContextChange = ""
        self._last_us = 0

    def add(self, entry: LogEntry) -> None:
        index = len(self.thread.messages)
        if entry.keep is not None:
            change: ContextChange = "rewind" if entry.is_rewind else "context"
            self._keep({*entry.keep}, "compaction" if entry.kind == "summary" else change)
        if entry.kind == "reply":
            self._add_call(entry, index)
        enters = len(self.thread.calls)
        tokens = count_entry(entry, self._count)
        self.thread.messages.append(TraceMessage(entry.kind, tokens, self._tokens, enters))
        self._context.add(index)
        self._tokens += tokens
        self._last_us = max(self._last_us, entry.time_us)
        self._finder.add(entry, index)

    def _add_call(self, entry: LogEntry, index: int) -> None:
        calls = self.thread.calls
        before = calls[-1] if calls else None
        if before is not None and is_same_call(before.figures, entry.figures):
            before.replied_us = max(before.replied_us, entry.time_us)
            before.figures = _join_figures(before.figures, entry.figures)
            return
        if before is not None and not self._change and _has_shrunk(before.figures, entry.figures):
            self._keep(set(), "context")
        sent = self._last_us or entry.time_us
        call = TraceCall(index, entry.figures, self._tokens, self._kept, sent, max(sent, entry.time_us), self._change)
        calls.append(call)
        self._kept, self._change = self._tokens, ""

    def _keep(self, indexes: set[int], change: ContextChange) -> None:
        """End the context of all other messages."""
        calls = len(self.thread.calls)
        gone = self._context - indexes
        if not gone:
            return
        for index in gone:
            self.thread.messages[index].leaves = calls
        first = self.thread.messages[min(gone)].offset
        self._context -= gone
        self._tokens = sum(self.thread.messages[index].tokens for index in self._context)
        self._kept = min(self._kept, first, self._tokens)
        self._change = change
        self._finder.keep(self._context)


def count_entry(entry: LogEntry, count: Callable[[str], int]) -> int:
    """The tokens of an entry, by a counter."""
    texts = [entry.text, *(result.text for result in entry.results)]
    calls = [f"{call.name} {json.dumps(call.args, ensure_ascii=False, default=str)}" for call in entry.calls]
    return sum(count(text) for text in (*texts, *calls) if text)


def _join_figures(before: ModelFigures, after: ModelFigures) -> ModelFigures:
    one, other = before.usage, after.usage
    if one is None or other is None:
        return after if one is None else before
    most = max(one.output_tokens, other.output_tokens)
    return msgspec.structs.replace(before, usage=msgspec.structs.replace(one, output_tokens=most))


def _has_shrunk(before: ModelFigures, after: ModelFigures) -> bool:
    one, other = before.usage, after.usage
    if one is None or other is None or one.input_tokens < LEAST_PROMPT or not other.input_tokens:
        return False
    return other.input_tokens < SHRUNK_SHARE * one.input_tokens
