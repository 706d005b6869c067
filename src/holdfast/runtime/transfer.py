"""Export and import as JSON lines: events byte for byte, the bodies they name, and an end that shows nothing is missing.

    {"holdfast": "export", "format": 1}
    {"blob": {"tenant": …, "digest": …, "size": …, "last": …, "data": base64}}      pieces, before the event that names it
    {"event": {"stream": …, "seq": 1, …, "hash": …, "payload": {…}}}                in the order of the feed
    {"end": {"events": 2, "sha256": of all lines before}}

Laws: the file is read twice, and nothing is taken from one that is cut, edited or at odds with what is here; importing the
same file again changes nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from holdfast import chain, codec
from holdfast.core import fact_rules, ledgers, upcast
from holdfast.core.fact_faults import fact_fault
from holdfast.core.faults import fault
from holdfast.core.fold import fold
from holdfast.core.layers import checked_ledger
from holdfast.errors import HoldfastError, ImportRefused, InvalidContent
from holdfast.flows import effects, maintain
from holdfast.flows.ingest import checked_parts, checked_ref
from holdfast.flows.load import State, StateCache, nothing_of
from holdfast.flows.maintain import Count
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.events import Event
from holdfast.model.facts import FactState
from holdfast.model.log import GENESIS, Head, Recorded
from holdfast.model.names import LedgerId, Scope, StreamId, checked_name, checked_whole
from holdfast.model.needs import parts_of, refs_of
from holdfast.model.state import LedgerState, SessionState
from holdfast.ports import BlobStore, BlobWriter
from holdfast.runtime.care import Drive
from holdfast.storage.files import appearing, typed_os_errors

FORMAT = 1
_PAGE = 500


class _Event(msgspec.Struct, frozen=True):
    """An event as a line: digests in hexadecimal, the payload as the JSON that it is."""

    stream: StreamId
    seq: int
    command: str
    ordinal: int
    type: str
    version: int
    time_us: int
    principal: str
    cause: str | None
    key: str | None
    command_digest: str
    payload_digest: str
    hash: str
    salt: str | None
    payload: msgspec.Raw

    @classmethod
    def of(cls, event: Recorded) -> _Event:
        return cls(
            event.stream,
            event.seq,
            event.command,
            event.ordinal,
            event.type,
            event.version,
            event.time_us,
            event.principal,
            event.cause,
            event.key,
            event.command_digest.hex(),
            event.payload_digest.hex(),
            event.hash.hex(),
            None if event.salt is None else event.salt.hex(),
            msgspec.Raw(b"null" if event.payload is None else event.payload),
        )

    def recorded(self) -> Recorded:
        payload = bytes(self.payload)
        return Recorded(
            self.stream,
            self.seq,
            self.command,
            self.ordinal,
            self.type,
            self.version,
            self.time_us,
            self.principal,
            self.cause,
            self.key,
            bytes.fromhex(self.command_digest),
            bytes.fromhex(self.payload_digest),
            bytes.fromhex(self.hash),
            None if self.salt is None else bytes.fromhex(self.salt),
            None if payload == b"null" else payload,
        )


class _Blob(msgspec.Struct, frozen=True):
    tenant: str
    digest: str
    size: int
    last: bool
    data: bytes


class _End(msgspec.Struct, frozen=True):
    events: int
    sha256: str


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    holdfast: str | None = None
    format: int | None = None
    blob: _Blob | None = None
    event: _Event | None = None
    end: _End | None = None


def export(drive: Drive, blobs: BlobStore, target: str, progress: Count | None) -> int:
    with appearing(target) as partial, open(partial, "wb") as file:
        return _write_lines(drive, blobs, file, progress)


def _write_lines(drive: Drive, blobs: BlobStore, file: BinaryIO, progress: Count | None) -> int:
    digest = hashlib.sha256()

    def write(line: _Line) -> None:
        data = codec.encode(line) + b"\n"
        digest.update(data)
        file.write(data)

    write(_Line(holdfast="export", format=FORMAT))
    count = 0
    sent: set[tuple[str, str]] = set()
    for page in _pages(drive):
        for event in page:
            for line in _blob_lines(event, blobs, sent):
                write(line)
            write(_Line(event=_Event.of(event)))
            count += 1
        if progress is not None:
            progress(count)
    file.write(codec.encode(_Line(end=_End(count, digest.hexdigest()))) + b"\n")
    return count


def _pages(drive: Drive) -> Iterator[tuple[Recorded, ...]]:
    """The whole log in the order of its feed; at the end, from the streams themselves, what a feed does not show yet since
    someone's transaction has not ended."""
    shown: dict[StreamId, int] = {}
    cursor = ""
    while (page := drive(effects.feed(cursor, _PAGE))).events:
        shown.update((event.stream, event.seq) for event in page.events)
        yield page.events
        cursor = page.cursor
    after: StreamId | None = None
    while heads := drive(effects.heads(after, limits.READ_EVENTS)):
        for head in heads:
            at = shown.get(head.stream, 0)
            while at < head.version and (events := drive(effects.read(head.stream, at, _PAGE))):
                yield events
                at = events[-1].seq
        after = heads[-1].stream


def _blob_lines(event: Recorded, blobs: BlobStore, sent: set[tuple[str, str]]) -> Iterator[_Line]:
    tenant = event.stream.tenant
    for ref in refs_of(upcast.current(event)):
        if (tenant, ref.digest) in sent:
            continue
        sent.add((tenant, ref.digest))
        for chunk in blobs.chunks(tenant, ref):
            yield _Line(blob=_Blob(tenant, ref.digest, ref.size, last=False, data=chunk))
        yield _Line(blob=_Blob(tenant, ref.digest, ref.size, last=True, data=b""))


def import_(drive: Drive, blobs: BlobStore, source: str, progress: Callable[[int, int], None] | None) -> int:
    """`progress` is told of bytes, those of both readings."""
    size = 0 if progress is None else _size(source)
    _examine(drive, blobs, source, progress and (lambda done: progress(done, 2 * size)))
    cache = StateCache(limits.CACHED_STREAMS)
    known: dict[StreamId, int] = {}
    taken = 0
    page: list[Recorded] = []
    writer: BlobWriter | None = None
    for number, line in _lines(source, progress and (lambda done: progress(size + done, 2 * size))):
        if line.blob is not None:
            writer = _take_blob(blobs, writer, line.blob, number)
        elif line.event is not None:
            event = line.event.recorded()
            if event.stream not in known:
                head: Head | None = drive(effects.head(event.stream))
                known[event.stream] = head.version if head else 0
            if event.seq > known[event.stream]:
                page.append(event)
        if len(page) == _PAGE or (line.end is not None and page):
            drive(maintain.adopt(page, cache))
            taken += len(page)
            page = []
    return taken


def _take_blob(blobs: BlobStore, writer: BlobWriter | None, piece: _Blob, number: int) -> BlobWriter | None:
    writer = writer or blobs.writer(piece.tenant)
    writer.write(piece.data)
    if not piece.last:
        return writer
    ref = writer.commit()
    if ref != BlobRef(piece.digest, piece.size):
        raise ImportRefused(line=number, reason=f"the blob {piece.digest} has other content than its name says")
    return None


def _size(source: str) -> int:
    with typed_os_errors(source):
        return os.path.getsize(source)


def _examine(drive: Drive, blobs: BlobStore, source: str, count: Count | None) -> None:
    """The first reading: the whole file holds together, and continues what is here."""
    examiner = _Examiner(drive, blobs)
    ended = False
    for number, line in _lines(source, count):
        if ended:
            raise ImportRefused(line=number, reason="there is more after the end")
        if (number == 1) != (line.holdfast is not None):
            raise ImportRefused(line=number, reason="this is not a Holdfast export")
        if number == 1 and (line.holdfast != "export" or line.format != FORMAT):
            raise ImportRefused(line=number, reason=f"format {line.format} is not {FORMAT}; use a matching Holdfast")
        if line.blob is not None:
            examiner.piece(line.blob, number)
        if line.event is not None:
            examiner.event(line.event, number)
        if line.end is not None:
            ended = True
            examiner.end(number)
            if line.end.events != examiner.events:
                reason = f"{line.end.events} events were exported, {examiner.events} are here"
                raise ImportRefused(line=number, reason=reason)
    if not ended:
        raise ImportRefused(line=number, reason="the file is cut off: its end is missing; export it again")


class _Examiner:
    """A file may come from anyone: what it says is checked as if a caller said it."""

    def __init__(self, drive: Drive, blobs: BlobStore) -> None:
        self._drive = drive
        self._blobs = blobs
        self._ends: dict[StreamId, tuple[Head, State]] = {}
        self._facts: dict[StreamId, dict[str, FactState]] = {}
        self._here: dict[StreamId, Head | None] = {}
        self._gone: dict[StreamId, set[int]] = {}
        self._lines: dict[StreamId, int] = {}
        self._bodies: set[tuple[str, str]] = set()
        self._unnamed: set[tuple[str, str]] = set()
        self._body: tuple[_Blob, Any, int] | None = None
        self.events = 0

    def piece(self, piece: _Blob, number: int) -> None:
        """The pieces of a body follow each other and make what its name says."""
        first, digest, size = self._body or (piece, hashlib.sha256(), 0)
        digest.update(piece.data)
        size += len(piece.data)
        if (piece.tenant, piece.digest, piece.size) != (first.tenant, first.digest, first.size):
            raise ImportRefused(line=number, reason=f"the blob {first.digest} is cut off")
        self._body = None if piece.last else (first, digest, size)
        if piece.last:
            if (digest.hexdigest(), size) != (piece.digest, piece.size):
                raise ImportRefused(line=number, reason=f"the blob {piece.digest} has other content than its name says")
            self._bodies.add((piece.tenant, piece.digest))
            self._unnamed.add((piece.tenant, piece.digest))

    def end(self, number: int) -> None:
        if self._body or self._unnamed:
            raise ImportRefused(line=number, reason="a blob is cut off, or no event names it")
        for stream, (head, state) in self._ends.items():
            broken = fact_rules.check(state, self._facts[stream]) if isinstance(state, LedgerState) else []
            if broken:
                raise ImportRefused(line=self._lines[stream], reason=f"{stream} breaks a rule: {broken[0]}")
            here = self._here[stream]
            if here is not None and head.version < here.version:
                (event,) = self._drive(effects.read(stream, head.version - 1, 1))
                if event.hash != head.hash:
                    raise ImportRefused(line=self._lines[stream], reason=f"{stream} has another history here")

    def event(self, line: _Event, number: int) -> None:
        self.events += 1
        try:
            event = _checked(line.recorded())
            current = upcast.current(event)
            self._check_bodies(event, current)
        except (ValueError, HoldfastError) as error:
            raise ImportRefused(line=number, reason=str(error)) from error
        stream = event.stream
        head, state = self._ends.get(stream) or (Head(stream, 0, GENESIS), nothing_of(stream))
        gone = self._gone.setdefault(stream, set())
        wrong = chain.fault(head, event) or self._fault(state, event, current, gone)
        if wrong:
            raise ImportRefused(line=number, reason=f"event {event.seq} of {stream}: {wrong}")
        if current is None:
            gone.add(event.seq)
        state = self._further(state, event, current)
        self._ends[stream] = (Head(stream, event.seq, event.hash), state)
        self._lines[stream] = number
        if stream not in self._here:
            self._here[stream] = self._drive(effects.head(stream))
        here = self._here[stream]
        if here is not None and event.seq == here.version and event.hash != here.hash:
            raise ImportRefused(line=number, reason=f"{stream} has another history here")

    def _fault(self, state: State, event: Recorded, current: Event | None, gone: set[int]) -> str | None:
        if isinstance(state, SessionState):
            return fault(state, current, event.type, gone)
        try:
            return fact_fault(state, self._facts.setdefault(event.stream, {}), current, event.type, gone)
        except HoldfastError as error:
            return str(error)

    def _further(self, state: State, event: Recorded, current: Event | None) -> State:
        if isinstance(state, SessionState):
            return fold(state, current, event.type, event.time_us)
        facts = self._facts[event.stream]
        facts |= ledgers.applied(facts, current, event.seq, event.time_us)
        return ledgers.step(state, event.type, event.time_us)

    def _check_bodies(self, event: Recorded, current: Event | None) -> None:
        checked_parts(tuple(parts_of(current)), empty=True)
        for ref in map(checked_ref, refs_of(current)):
            body = (event.stream.tenant, ref.digest)
            self._unnamed.discard(body)
            if body not in self._bodies:
                self._blobs.chunks(event.stream.tenant, ref)  # raises if it is not here either


def _checked(event: Recorded) -> Recorded:
    """A file may come from anyone: its names and numbers are checked as those of any caller."""
    stream = event.stream
    if stream.kind == "ledger":
        checked_ledger(LedgerId.of(stream), stream.tenant)
    elif len(stream.key) not in (2, 3):
        raise InvalidContent(reason=f"{stream} is not the stream of a session")
    else:
        Scope.checked(stream.tenant, *stream.key)
    checked_name("principal", event.principal)
    for what, name in (("cause", event.cause), ("idempotency key", event.key)):
        if name is not None:
            checked_name(what, name)
    for what, number in (("seq", event.seq), ("version", event.version), ("time", event.time_us)):
        checked_whole(what, number)
    checked_whole("ordinal", event.ordinal, 0, limits.COMMAND_EVENTS)
    if len(event.command) != 32 or len(bytes.fromhex(event.command)) != 16:
        raise InvalidContent(reason="the id of the command is not 32 hexadecimal digits")
    sizes = [len(event.command_digest), len(event.payload_digest), len(event.hash), len(event.salt or bytes(16))]
    if sizes != [32, 32, 32, 16]:
        raise InvalidContent(reason="a digest or salt is of another length")
    return event


def _lines(source: str, count: Count | None) -> Iterator[tuple[int, _Line]]:
    """Every line, checked to be exactly what an export writes: no other spelling, no second key of the same name."""
    digest = hashlib.sha256()
    number = 0
    with typed_os_errors(source), open(source, "rb") as file:
        while raw := file.readline(limits.EXPORT_LINE_BYTES):
            number += 1
            line = _line(raw, number)
            if line.end is not None and line.end.sha256 != digest.hexdigest():
                raise ImportRefused(line=number, reason="the file was changed since it was exported")
            digest.update(raw)
            yield number, line
            if count is not None and (number % _PAGE == 0 or line.end is not None):
                count(file.tell())
    if number == 0:
        raise ImportRefused(line=0, reason="the file is empty")


def _line(raw: bytes, number: int) -> _Line:
    try:
        line: Any = codec.decode(raw, _Line)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ImportRefused(line=number, reason=f"it is not a line of an export ({error})") from error
    if codec.encode(line) + b"\n" != raw:
        raise ImportRefused(line=number, reason="it was written by another hand than export")
    checked: _Line = line
    return checked
