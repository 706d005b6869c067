"""Transcripts as JSON lines, one message a line: what other systems keep of a session, and what they can read.

    {"role": "user", "content": "…", "at": "2026-01-22T19:57:17.484Z"}
    {"role": "assistant", "content": "…", "tool_calls": [{"id": …, "name": …, "args": {…}}], "usage": {…}, "at": …}
    {"role": "tool", "tool_results": [{"tool_call_id": …, "result": …, "is_error": false}], "at": …}

Laws: what is imported comes out again equal, line by line, and this is tried on every line before the first is stored: one
that would not is refused, with its number. What breaks the rules of a session (a result without its call, a second result,
an empty message, a call that never got a result) is kept as evidence, not refused. An import that was interrupted goes on
where it was when it is repeated.
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
from holdfast.core import sessions as core
from holdfast.core import upcast
from holdfast.core.fold import fold
from holdfast.core.messages import group_of
from holdfast.errors import ImportRefused, InvalidContent, InvalidInput
from holdfast.flows import effects, ingest
from holdfast.flows import messages as message_flows
from holdfast.flows import sessions as session_flows
from holdfast.flows.place import Place
from holdfast.model import limits
from holdfast.model.commands import Given, RecordMessages
from holdfast.model.content import BlobRef, ToolCall, blob_refs
from holdfast.model.drafts import Draft
from holdfast.model.events import EvidenceKept, MessageRecorded
from holdfast.model.log import Recorded
from holdfast.model.names import check_size
from holdfast.model.needs import parts_of
from holdfast.model.state import SessionState
from holdfast.runtime.care import Drive
from holdfast.runtime.transcript_lines import ROLES, Kept, Line, Names, Piece, Reader, event_line, joined, note_of
from holdfast.storage.files import appearing, typed_os_errors

_BATCH = 100
"""Messages in one command, unless one line becomes more."""
_BATCH_BYTES = 1 << 20
_PAGE = 100
_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


def import_transcript(drive: Drive, place: Place, source: str, metadata: dict[str, Any] | None) -> int:
    """How many lines there are. The session is made by this, or was by an import of the same file."""
    about = ingest.checked_object("metadata", {} if metadata is None else metadata)
    with typed_os_errors(source), open(source, "rb") as file:
        size = os.fstat(file.fileno()).st_size  # what another process still appends belongs to another import
        count, digest = _examine(drive, place, file, size)
        scope = place.scope
        identity = codec.encode([digest, scope.actor, scope.session, scope.thread, about])
        key = f"transcript-{hashlib.sha256(identity).hexdigest()}"
        drive(session_flows.create(place, about, key=key))
        file.seek(0)
        for number, drafts in _batches(_lines(file, size)):
            drive(message_flows.record_drafts(place, drafts, key=f"{key}-{number}", as_found=True))
    return count


def _batches(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, list[Draft]]]:
    """Drafts to record together, with the number of their first line; what one line becomes is never torn apart."""
    reader = Reader()
    first = size = 0
    batch: list[Draft] = []
    for number, text in lines:
        drafts = reader.drafts(number, codec.decode_object(text))
        if batch and (len(batch) + len(drafts) > _BATCH or size + len(text) > _BATCH_BYTES):
            yield first, batch
            first = size = 0
            batch = []
        first = first or number
        size += len(text)
        batch += drafts
    if batch:
        yield first, batch


def _lines(file: BinaryIO, size: int, digest: Any = None) -> Iterator[tuple[int, bytes]]:
    """Every line that is not blank, with its number; `digest` is told of the blank ones as well."""
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


# The trial before anything is stored


class _Held:
    """Bodies of one line, in memory."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def put(self, _tenant: str, body: bytes | Iterable[bytes], media_type: str | None) -> BlobRef:
        whole = body if isinstance(body, bytes) else b"".join(body)
        digest = hashlib.sha256(whole).hexdigest()
        self._bodies[digest] = whole
        return BlobRef(digest, len(whole), media_type)

    def read(self, ref: BlobRef) -> bytes:
        return self._bodies[ref.digest]


def _examine(drive: Drive, place: Place, file: BinaryIO, size: int) -> tuple[int, str]:
    """The first reading: every line can be kept, and would come out as it went in. How many, and the file's digest."""
    digest = hashlib.sha256()
    reader = Reader()
    state = SessionState(version=1, status="open")
    count = 0
    for number, text in _lines(file, size, digest):
        count += 1
        line = _checked_line(text, number)
        try:
            state = _tried(drive, place, state, reader.drafts(number, line), line)
        except (InvalidInput, RecursionError) as error:
            raise ImportRefused(line=number, reason=str(error)) from error
    return count, digest.hexdigest()


def _checked_line(text: bytes, number: int) -> Line:
    try:
        line = codec.decode_object(text)
        twice = _STRING.sub(b"", text).count(b":") != _keys(line)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ImportRefused(line=number, reason=f"it is not a JSON object ({error})") from error
    if twice:
        raise ImportRefused(line=number, reason="an object in it has the same key twice")
    if type(line.get("role")) is not str or line["role"] not in ROLES:
        raise ImportRefused(line=number, reason=f"its role is not one of {', '.join(ROLES)}")
    return line


def _keys(value: object) -> int:
    """How many keys the objects in a value have together: fewer than its text has colons if one was there twice."""
    if type(value) is dict:
        return len(value) + sum(map(_keys, value.values()))
    return sum(map(_keys, value)) if type(value) is list else 0


def _check_results(line: Line) -> None:
    """One command records all of a line, and there is an end to what it may record."""
    results = line.get("tool_results")
    if type(results) is list:
        check_size("the line", len(results), "tool results", "MESSAGE_CALLS", "Make it several lines.")


def _tried(drive: Drive, place: Place, state: SessionState, drafts: list[Draft], line: Line) -> SessionState:
    """The state after this line; InvalidInput if it cannot be kept exactly."""
    _check_results(line)
    held = _Held()
    context = msgspec.structs.replace(place.context, bodies=held)
    messages = tuple(drive(ingest.taken_in(context, draft, as_found=True)) for draft in drafts)
    longest = (limits.WHOLE_NUMBER,) * len(messages)
    given = Given(time_us=0, tokens=longest, counter=context.counter.name)
    names: dict[str, str] = {}  # of the calls that wait, when the line comes or once it has
    pieces: list[Piece] = []

    def named(call: str) -> str:
        return names.get(call, call)

    for event in core.decide(state, RecordMessages(scope=place.scope, messages=messages, as_found=True), given):
        codec.encode_event(event)
        names.update((call.id, call.provider_id or call.id) for call in state.open_calls)
        state = fold(state, event, event.name, 0)
        assert isinstance(event, MessageRecorded | EvidenceKept), "recording makes nothing else"
        note = note_of(event)
        if note is not None and not note.added:
            pieces.append(Piece(note, event_line(event, named, held.read)))
    if codec.encode(joined(pieces)) != codec.encode(line):
        raise InvalidContent(reason="it would not come out as it went in")
    return state


# From messages to lines


def export_transcript(drive: Drive, place: Place, target: str) -> int:
    """Every message a line, from the first on; how many lines."""
    count = 0
    with appearing(target) as partial, open(partial, "wb") as file:
        for line in _exported(drive, place):
            file.write(codec.encode(line) + b"\n")
            count += 1
    return count


def _exported(drive: Drive, place: Place) -> Iterator[Line]:
    names = _Names(drive, place)
    held: tuple[object, list[Piece]] = (None, [])
    for recorded, event in _kept(drive, place):
        if isinstance(event, MessageRecorded):
            names.learn(event.tool_calls)
        note = note_of(event)
        if note is not None and note.added:
            continue
        of = None if note is None else (recorded.command, note.line)
        if held[1] and held[0] != of:
            yield joined(held[1])
            held = (None, [])
        if note is None:
            yield _own_line(place, recorded, event, names)
        else:
            line = event_line(event, names, lambda ref: _body(place, ref))
            held = (of, [*held[1], Piece(note, line)])
    if held[1]:
        yield joined(held[1])


def _kept(drive: Drive, place: Place) -> Iterator[tuple[Recorded, Kept]]:
    """The messages and the evidence that are there now; not what others add meanwhile, nor what was erased."""
    end: int = drive(session_flows.state(place)).version
    for after in range(0, end, _PAGE):
        page: tuple[Recorded, ...] = drive(effects.read(place.scope.stream, after, min(_PAGE, end - after)))
        for recorded in page:
            event = upcast.current(recorded)
            if isinstance(event, MessageRecorded | EvidenceKept):
                yield recorded, event


class _Names:
    """From a call's id in the session to its id in the transcript: known from a little while ago, or read again."""

    def __init__(self, drive: Drive, place: Place) -> None:
        self._drive = drive
        self._place = place
        self._known: dict[str, str] = {}

    def learn(self, calls: tuple[ToolCall, ...]) -> None:
        if calls:
            self._known = {call.id: call.provider_id or call.id for call in calls}

    def __call__(self, call: str) -> str:
        seq = group_of(call)
        if call in self._known or seq is None:
            return self._known.get(call, call)
        for recorded in self._drive(effects.read(self._place.scope.stream, seq - 1, 1)):
            event = upcast.current(recorded)
            for each in event.tool_calls if isinstance(event, MessageRecorded) else ():
                if each.id == call:
                    return each.provider_id or call
        return call


def _body(place: Place, ref: BlobRef) -> bytes:
    return b"".join(place.context.bodies.chunks(place.context.tenant, ref))


def _own_line(place: Place, recorded: Recorded, event: Kept, names: Names) -> Line:
    """The line of a message that was recorded here. It is short enough to be imported: bodies that are not stay where they
    are, and the line refers to them."""
    at: Line = {}
    with suppress(ValueError, OverflowError, OSError):  # a clock may say anything
        second = datetime.fromtimestamp(recorded.time_us // 1_000_000, UTC)
        at["at"] = second.replace(microsecond=recorded.time_us % 1_000_000).isoformat()
    if sum(ref.size for ref in blob_refs(parts_of(event))) <= limits.EXPORT_LINE_BYTES:
        line = event_line(event, names, lambda ref: _body(place, ref)) | at
        if len(codec.encode(line)) < limits.EXPORT_LINE_BYTES:
            return line
    return event_line(event, names, lambda _: None) | at
