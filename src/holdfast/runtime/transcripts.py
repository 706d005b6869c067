"""Transcripts as JSON lines, one message a line: import from other systems, and export to them.

    {"role": "user", "content": "…", "at": "2026-01-22T19:57:17.484Z"}
    {"role": "assistant", "content": "…", "tool_calls": [{"id": …, "name": …, "args": {…}}], "usage": {…}, "at": …}
    {"role": "tool", "tool_results": [{"tool_call_id": …, "result": …, "is_error": false}], "at": …}

Laws: an imported line comes out equal in an export. This is tried for every line before the first is stored, and a
line that would change is refused with its number. Messages that break the rules of a session (a result without its
call, a second result, an empty message, a call without a result) are kept as evidence. An interrupted import
continues when it is repeated.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.decide import decide_session
from holdfast.core.fold import fold_session
from holdfast.errors import ImportRefused, InvalidArgument, InvalidInput
from holdfast.flows import effects
from holdfast.flows.context import SessionContext
from holdfast.flows.sessions import ingest
from holdfast.flows.sessions import lifecycle as session_flows
from holdfast.flows.sessions import messages as message_flows
from holdfast.flows.sessions.transcript import read_withdrawn_messages
from holdfast.model import limits
from holdfast.model.content import BlobRef, ToolCall, blob_refs, calling_seq
from holdfast.model.events import event_parts
from holdfast.model.inputs import DecisionInput
from holdfast.model.log import StoredEvent
from holdfast.model.names import check_size
from holdfast.model.sessions.commands import RecordMessages
from holdfast.model.sessions.events import EvidenceKept, MessageRecorded
from holdfast.model.sessions.messages import MessageDraft
from holdfast.model.state import SessionState
from holdfast.runtime.base import Driver
from holdfast.runtime.transcript_lines import (
    ROLES,
    CallNamer,
    Line,
    LinePart,
    LineReader,
    StoredMessage,
    build_line,
    join_parts,
    read_note,
)
from holdfast.storage.files import atomic_file, translate_os_errors

_BATCH_MESSAGES = 100
"""The most messages of one command, unless one line has more."""
_BATCH_BYTES = 1 << 20
_PAGE = 100
_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


def import_transcript(drive: Driver, context: SessionContext, source: str, metadata: dict[str, Any] | None) -> int:
    """Create a session from a file, or continue an earlier import of the same file. Returns the number of lines."""
    checked = ingest.check_object("metadata", {} if metadata is None else metadata)
    with translate_os_errors(source), open(source, "rb") as file:
        size = os.fstat(file.fileno()).st_size  # lines that are appended later are not imported
        count, digest = _check_file(drive, context, file, size)
        scope = context.scope
        identity = codec.encode([digest, scope.actor, scope.session, scope.thread, checked])
        key = f"transcript-{hashlib.sha256(identity).hexdigest()}"
        drive(session_flows.create(context, checked, key=key))
        file.seek(0)
        for number, drafts in _build_batches(_read_lines(file, size)):
            drive(message_flows.record_drafts(context, drafts, key=f"{key}-{number}", as_found=True))
    return count


def _build_batches(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, list[MessageDraft]]]:
    """Yield drafts to record in one command, with the number of their first line. The drafts of a line stay
    together."""
    reader = LineReader()
    first = size = 0
    batch: list[MessageDraft] = []
    for number, text in lines:
        drafts = reader.read_drafts(number, codec.decode_object(text))
        if batch and (len(batch) + len(drafts) > _BATCH_MESSAGES or size + len(text) > _BATCH_BYTES):
            yield first, batch
            first = size = 0
            batch = []
        first = first or number
        size += len(text)
        batch += drafts
    if batch:
        yield first, batch


def _read_lines(file: BinaryIO, size: int, digest: Any = None) -> Iterator[tuple[int, bytes]]:
    """Yield every line that is not blank, with its number. `digest` is updated with all lines."""
    number = 0
    while raw := file.readline(min(limits.EXPORT_LINE_BYTES + 1, size)):
        number += 1
        size -= len(raw)
        if digest is not None:
            digest.update(raw)
        if len(raw) > limits.EXPORT_LINE_BYTES:
            reason = f"it is longer than {limits.EXPORT_LINE_BYTES} bytes (EXPORT_LINE_BYTES)"
            raise ImportRefused(line=number, reason=reason)
        text = raw.removeprefix(_BOM) if number == 1 else raw
        if text.strip():
            yield number, text


# The check before anything is stored


class _MemoryBodies:
    """The bodies of one line, in memory."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def put(self, _tenant: str, body: bytes | Iterable[bytes], media_type: str | None) -> BlobRef:
        data = body if isinstance(body, bytes) else b"".join(body)
        digest = hashlib.sha256(data).hexdigest()
        self._bodies[digest] = data
        return BlobRef(digest, len(data), media_type)

    def read(self, ref: BlobRef) -> bytes:
        return self._bodies[ref.digest]


def _check_file(drive: Driver, context: SessionContext, file: BinaryIO, size: int) -> tuple[int, str]:
    """Check that every line can be stored and exported again. Returns the number of lines and the digest of the
    file."""
    digest = hashlib.sha256()
    reader = LineReader()
    state = SessionState(version=1, status="open")
    count = 0
    for number, text in _read_lines(file, size, digest):
        count += 1
        line = _check_line(text, number)
        try:
            state = _try_line(drive, context, state, reader.read_drafts(number, line), line)
        except (InvalidInput, RecursionError) as error:
            raise ImportRefused(line=number, reason=str(error)) from error
    return count, digest.hexdigest()


def _check_line(text: bytes, number: int) -> Line:
    try:
        line = codec.decode_object(text)
        has_duplicate = _STRING.sub(b"", text).count(b":") != _count_keys(line)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ImportRefused(line=number, reason=f"it is not a JSON object ({error})") from error
    if has_duplicate:
        raise ImportRefused(line=number, reason="an object in it has the same key twice")
    if type(line.get("role")) is not str or line["role"] not in ROLES:
        raise ImportRefused(line=number, reason=f"its role is not one of {', '.join(ROLES)}")
    return line


def _count_keys(value: object) -> int:
    """Count the keys of all objects in a value. Its text has more colons if a key was there twice."""
    if type(value) is dict:
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if type(value) is list else 0


def _check_results(line: Line) -> None:
    """Check that one command can store the line."""
    results = line.get("tool_results")
    if type(results) is list:
        check_size("the line", len(results), "tool results", "MESSAGE_CALLS", "Split it into several lines.")


def _try_line(
    drive: Driver, context: SessionContext, state: SessionState, drafts: list[MessageDraft], line: Line
) -> SessionState:
    """Return the state after this line. Raises InvalidInput if the line cannot be stored exactly."""
    _check_results(line)
    bodies = _MemoryBodies()
    engine = msgspec.structs.replace(context.engine, bodies=bodies)
    messages = tuple(drive(ingest.ingest_draft(engine, draft, as_found=True)) for draft in drafts)
    tokens = (limits.WHOLE_NUMBER,) * len(messages)  # the longest number, so that the event is as large as it can be
    decision = DecisionInput(time_us=0, tokens=tokens, counter=engine.counter.name)
    names: dict[str, str] = {}  # of the calls that are open before or after the line
    pieces: list[LinePart] = []

    def find_name(call: str) -> str:
        return names.get(call, call)

    for event in decide_session(state, RecordMessages(scope=context.scope, messages=messages, as_found=True), decision):
        codec.encode_event(event)
        names.update((call.id, call.provider_id or call.id) for call in state.open_calls)
        state = fold_session(state, event, event.name, 0)
        assert isinstance(event, MessageRecorded | EvidenceKept), "recording stores nothing else"
        note = read_note(event)
        if note is not None and not note.added:
            pieces.append(LinePart(note, build_line(event, find_name, bodies.read)))
    if codec.encode(join_parts(pieces)) != codec.encode(line):
        raise InvalidArgument(argument="source", reason="the line would change in an export")
    return state


# From messages to lines


def export_transcript(drive: Driver, context: SessionContext, target: str) -> int:
    """Write every message of a session as a line. Returns the number of lines."""
    count = 0
    with atomic_file(target) as partial, open(partial, "wb") as file:
        for line in _build_lines(drive, context):
            file.write(codec.encode(line) + b"\n")
            count += 1
    return count


def _build_lines(drive: Driver, context: SessionContext) -> Iterator[Line]:
    names = _CallNames(drive, context)
    line_id: object = None
    parts: list[LinePart] = []
    for stored, event in _read_shown_messages(drive, context):
        if isinstance(event, MessageRecorded):
            names.learn(event.tool_calls)
        note = read_note(event)
        if note is not None and note.added:
            continue
        own_id = None if note is None else (stored.command, note.line)
        if parts and line_id != own_id:
            yield join_parts(parts)
            parts = []
        line_id = own_id
        if note is None:
            yield _build_own_line(context, stored, event, names)
        else:
            parts.append(LinePart(note, build_line(event, names, lambda ref: _read_body(context, ref))))
    if parts:
        yield join_parts(parts)


def _read_shown_messages(drive: Driver, context: SessionContext) -> Iterator[tuple[StoredEvent, StoredMessage]]:
    """Yield the messages without withdrawn ones: who imports the transcript gets the conversation as it is now."""
    messages = _read_messages(drive, context)
    if not drive(session_flows.state(context)).withdrawn:
        yield from messages
        return
    withdrawn = drive(read_withdrawn_messages(context.scope.stream))
    for stored, event in messages:
        calls = [calling_seq(result.tool_call_id) or 0 for result in event.tool_results]
        frame = event.frame if isinstance(event, MessageRecorded) else None
        if not any(withdrawn.find(seq, frame) for seq in (stored.seq, *calls)):
            yield stored, event


def _read_messages(drive: Driver, context: SessionContext) -> Iterator[tuple[StoredEvent, StoredMessage]]:
    """Yield the messages and the evidence that are stored now, without erased ones."""
    end: int = drive(session_flows.state(context)).version
    for after in range(0, end, _PAGE):
        page: tuple[StoredEvent, ...] = drive(effects.read(context.scope.stream, after, min(_PAGE, end - after)))
        for stored in page:
            event = upcast.decode_event(stored)
            if isinstance(event, MessageRecorded | EvidenceKept):
                yield stored, event


class _CallNames:
    """Maps the id of a call in the session to its id in the transcript, which is read from the log if necessary."""

    def __init__(self, drive: Driver, context: SessionContext) -> None:
        self._drive = drive
        self._context = context
        self._names: dict[str, str] = {}

    def learn(self, calls: tuple[ToolCall, ...]) -> None:
        if calls:
            self._names = {call.id: call.provider_id or call.id for call in calls}

    def __call__(self, call: str) -> str:
        seq = calling_seq(call)
        if call in self._names or seq is None:
            return self._names.get(call, call)
        for stored in self._drive(effects.read(self._context.scope.stream, seq - 1, 1)):
            event = upcast.decode_event(stored)
            for tool_call in event.tool_calls if isinstance(event, MessageRecorded) else ():
                if tool_call.id == call:
                    return tool_call.provider_id or call
        return call


def _read_body(context: SessionContext, ref: BlobRef) -> bytes:
    return b"".join(context.engine.bodies.chunks(context.engine.tenant, ref))


def _build_own_line(context: SessionContext, stored: StoredEvent, event: StoredMessage, names: CallNamer) -> Line:
    """Build the line of a message that was not imported. A large body is not in the line, so that it can be
    imported."""
    at: Line = {}
    with suppress(ValueError, OverflowError, OSError):  # a clock may return any number
        second = datetime.fromtimestamp(stored.time_us // 1_000_000, UTC)
        at["at"] = second.replace(microsecond=stored.time_us % 1_000_000).isoformat()
    if sum(ref.size for ref in blob_refs(event_parts(event))) <= limits.EXPORT_LINE_BYTES:
        line = build_line(event, names, lambda ref: _read_body(context, ref)) | at
        if len(codec.encode(line)) < limits.EXPORT_LINE_BYTES:
            return line
    return build_line(event, names, lambda _: None) | at
