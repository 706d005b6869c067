"""Recorded sessions as a cost model sees them: units in order, with sizes as the library counts them, and the model calls.

A call is a reply of the assistant; before it stands every unit that began earlier. It is sent when the newest message
before it was there, and the cache is as old as the reply before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

import holdfast
from benchmarks.cost_grounding import Index, identifiers, strings
from holdfast import Message, codec
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.core.history.views import group_messages
from holdfast.model.state import SessionState
from holdfast.types import MessageGroup

PAGE = 100


MICROS = 1_000_000


count = EstimatingCounter().count


class Call(msgspec.Struct, frozen=True):
    """A model call, as the session had it."""

    units: int
    """So many units stand before it."""
    sent_us: int
    replied_us: int
    wanted: tuple[str, ...]
    """The identifiers of its tool calls that could be read before."""


class Recording(msgspec.Struct, frozen=True):
    """One session."""

    name: str
    units: list[MessageGroup]
    sizes: list[int]
    """Tokens of each unit."""
    seen: list[int]
    """For each number of units, the first of them that holds something the model has not seen: its last reply, and what
    followed."""
    calls: list[Call]
    texts: list[str]
    """Two for each unit: what was said and called, and what came back."""
    text_sizes: list[int]
    """Tokens of each."""
    index: Index

    @property
    def held_out(self) -> bool:
        """Whether the summarizer's weights were fitted without this session: half of them, by a hash of the file's name."""
        return is_held_out(self.name)

    @property
    def tokens(self) -> int:
        return sum(self.sizes)


def is_held_out(name: str) -> bool:
    """Whether the summarizer's weights were fitted without this session."""
    return hashlib.sha256(f"{name}.jsonl".encode()).digest()[0] % 2 == 1


def read_recordings(files: Sequence[Path]) -> Iterator[Recording]:
    for file in files:
        with holdfast.open("memory:", spooling=holdfast.types.Spooling(threshold=0)) as engine:
            engine.admin.import_transcript(file, file.stem)
            messages = _all(engine.session(file.stem))
        yield build_recording(file.stem, messages)


def _all(session: holdfast.Session) -> list[Message]:
    messages: list[Message] = []
    before: int | None = None
    while page := session.messages(before=before, limit=PAGE):
        messages[:0] = page
        before = page[0].seq
    return messages


def build_recording(name: str, recorded: Sequence[Message]) -> Recording:
    times = _times(recorded)
    messages = [msgspec.structs.replace(message, time_us=time) for message, time in zip(recorded, times, strict=True)]
    units = [item for item in group_messages(messages, SessionState()) if isinstance(item, MessageGroup)]
    texts = [text for unit in units for text in (spoken_text(unit), result_text(unit))]
    index = Index(texts)
    begins = [unit.seq for unit in units]
    calls: list[Call] = []
    before = 0
    for number, message in enumerate(messages):
        while before < len(units) and begins[before] < message.seq:
            before += 1
        if message.role == "assistant":
            sent_us = times[max(0, number - 1)]
            calls.append(
                Call(before, sent_us, times[number], tuple(sorted(find_needed_identifiers(message, index, before))))
            )
    return Recording(
        name=name,
        units=units,
        sizes=[unit.tokens for unit in units],
        seen=_seen_units(units),
        calls=calls,
        texts=texts,
        text_sizes=[count(text) for text in texts],
        index=index,
    )


def find_needed_identifiers(message: Message, index: Index, units: int) -> Iterator[str]:
    """The identifiers in a message's tool calls that are in a text of one of the first so many units."""
    text = "\n".join(each for call in message.tool_calls for each in strings(call.args))
    for identifier in identifiers(text):
        holding = index.holding(identifier)
        if holding and holding[0] < 2 * units:
            yield identifier


def spoken_text(unit: MessageGroup) -> str:
    calls = (f"{call.name} {codec.encode(call.args).decode()}" for each in unit.messages for call in each.tool_calls)
    return "\n".join([each.text for each in unit.messages if each.role != "tool"] + list(calls))


def result_text(unit: MessageGroup) -> str:
    return "\n".join(each.text for each in unit.messages if each.role == "tool")


def _seen_units(units: Sequence[MessageGroup]) -> list[int]:
    seen = [0]
    for number, unit in enumerate(units):
        seen.append(number if unit.messages[0].role == "assistant" else seen[-1])
    return seen


def _times(messages: Sequence[Message]) -> list[int]:
    """When each was written, as the recording says; never before the one ahead of it."""
    times: list[int] = []
    latest = 0
    for message in messages:
        noted = message.metadata.get("import")
        put = noted.get("put") if isinstance(noted, dict) else None
        at = put.get("at") if isinstance(put, dict) else None
        if isinstance(at, str):
            latest = max(latest, int(datetime.fromisoformat(at).timestamp() * MICROS))
        times.append(latest)
    return times
