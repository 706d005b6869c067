"""Export and import of a whole store as JSON lines.

    {"holdfast": "export", "format": 1}
    {"blob": {"tenant": …, "digest": …, "size": …, "last": …, "data": base64}}    in pieces, before the event that names it
    {"event": {"stream": …, "seq": 1, …, "hash": …, "payload": {…}}}              in the order of the feed
    {"passage": {"scope": …, "seq": 1, …, "text": …}}                             what long-term memory has taken
    {"end": {"events": 2, "sha256": of all lines before}}

Laws: events are exported byte for byte. An import reads the file three times, and stores nothing from a file that is cut
off, edited, or contradicts this store. Importing a file again changes nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

from holdfast import chain, codec
from holdfast.core import upcast
from holdfast.core.facts import fold as facts_fold
from holdfast.core.facts import invariants
from holdfast.core.facts.faults import find_fact_fault
from holdfast.core.faults import find_fault
from holdfast.core.fold import fold_session
from holdfast.core.sessions.forks import find_origin_fault
from holdfast.errors import HoldfastError, ImportRefused, InvalidArgument
from holdfast.flows import effects, maintain
from holdfast.flows.load import StateCache, empty_state
from holdfast.flows.maintain import CountCallback
from holdfast.flows.sessions.ingest import check_parts, check_ref
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.events import Event, event_blob_refs, event_parts
from holdfast.model.facts.events import LedgerForked
from holdfast.model.facts.fact import FactState
from holdfast.model.log import GENESIS, StoredEvent, StreamHead
from holdfast.model.memory.passages import Passage
from holdfast.model.names import LedgerId, Scope, StreamId, check_ledger, check_name, check_whole
from holdfast.model.sessions.events import SessionForked
from holdfast.model.sessions.forks import FORK_EVENTS, ForkOrigin
from holdfast.model.state import LedgerState, SessionState, StreamState
from holdfast.ports import BlobStore, BlobWriter, PassageIndex
from holdfast.runtime.base import Driver
from holdfast.runtime.taken_passages import check_passage, put_taken, read_taken
from holdfast.storage.files import atomic_file, translate_os_errors

FORMAT = 1
_PAGE = 500
_DIGESTS = ("command_digest", "payload_digest", "hash", "salt")


class _EventLine(msgspec.Struct, frozen=True):
    """The fields of a StoredEvent, with digests in hexadecimal and the payload as JSON."""

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
    def from_stored(cls, event: StoredEvent) -> _EventLine:
        fields = msgspec.structs.asdict(event)
        digests = {name: value.hex() for name in _DIGESTS if (value := fields[name]) is not None}
        return cls(**(fields | digests | {"payload": msgspec.Raw(b"null" if event.payload is None else event.payload)}))

    def to_stored(self) -> StoredEvent:
        fields = msgspec.structs.asdict(self)
        digests = {name: bytes.fromhex(value) for name in _DIGESTS if (value := fields[name]) is not None}
        payload = bytes(self.payload)
        return StoredEvent(**(fields | digests | {"payload": None if payload == b"null" else payload}))


class _BlobLine(msgspec.Struct, frozen=True):
    tenant: str
    digest: str
    size: int
    last: bool
    data: bytes


class _EndLine(msgspec.Struct, frozen=True):
    events: int
    sha256: str


class _ExportLine(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    holdfast: str | None = None
    format: int | None = None
    blob: _BlobLine | None = None
    event: _EventLine | None = None
    passage: Passage | None = None
    end: _EndLine | None = None


def export(
    drive: Driver,
    blobs: BlobStore,
    target: str,
    progress: CountCallback | None,
    index: PassageIndex | None,
    without: frozenset[str] = frozenset(),
) -> int:
    """Write all events and bodies to a file, and what long-term memory has taken; `without` names tenants to leave out.
    Returns the number of events."""
    with atomic_file(target) as partial, open(partial, "wb") as file:
        return _write_lines(drive, blobs, file, progress, index, without)


def _write_lines(
    drive: Driver,
    blobs: BlobStore,
    file: BinaryIO,
    progress: CountCallback | None,
    index: PassageIndex | None,
    without: frozenset[str],
) -> int:
    digest = hashlib.sha256()

    def write(line: _ExportLine) -> None:
        data = codec.encode(line) + b"\n"
        digest.update(data)
        file.write(data)

    write(_ExportLine(holdfast="export", format=FORMAT))
    count = 0
    sent: set[tuple[str, str]] = set()
    streams: dict[StreamId, None] = {}
    for page in _read_log(drive):
        for event in page:
            if event.stream.tenant in without:
                continue
            streams[event.stream] = None
            for line in _build_blob_lines(event, blobs, sent):
                write(line)
            write(_ExportLine(event=_EventLine.from_stored(event)))
            count += 1
        if progress is not None:
            progress(count)
    for stream in streams if index is not None else ():
        if stream.kind == "session" and index is not None:
            for passage in read_taken(index, stream):
                write(_ExportLine(passage=passage))
    file.write(codec.encode(_ExportLine(end=_EndLine(count, digest.hexdigest()))) + b"\n")
    return count


def _read_log(drive: Driver) -> Iterator[tuple[StoredEvent, ...]]:
    """Yield the log in the order of the feed; at the end, events that the feed does not show yet because a
    transaction of another process has not ended."""
    shown: dict[StreamId, int] = {}
    cursor = ""
    while (page := drive(effects.feed(cursor, _PAGE))).events:
        shown.update((event.stream, event.seq) for event in page.events)
        yield page.events
        cursor = page.cursor
    after: StreamId | None = None
    while heads := drive(effects.heads(after, limits.READ_EVENTS)):
        for head in heads:
            after_seq = shown.get(head.stream, 0)
            while after_seq < head.version and (events := drive(effects.read_own(head.stream, after_seq, _PAGE))):
                yield events
                after_seq = events[-1].seq
        after = heads[-1].stream


def _build_blob_lines(event: StoredEvent, blobs: BlobStore, sent: set[tuple[str, str]]) -> Iterator[_ExportLine]:
    tenant = event.stream.tenant
    for ref in event_blob_refs(upcast.decode_event(event)):
        if (tenant, ref.digest) in sent:
            continue
        sent.add((tenant, ref.digest))
        for chunk in blobs.chunks(tenant, ref):
            yield _ExportLine(blob=_BlobLine(tenant, ref.digest, ref.size, last=False, data=chunk))
        yield _ExportLine(blob=_BlobLine(tenant, ref.digest, ref.size, last=True, data=b""))


def import_(
    drive: Driver,
    blobs: BlobStore,
    source: str,
    progress: Callable[[int, int], None] | None,
    index: PassageIndex | None,
) -> int:
    """Read a file that export() wrote. `progress` counts the bytes of both readings. Returns the number of new
    events."""
    size = 0 if progress is None else _file_size(source)
    _check_file(drive, blobs, source, progress and (lambda done: progress(done, 2 * size)))
    cache = StateCache(limits.CACHED_STREAMS)
    versions: dict[StreamId, int] = {}
    imported = 0
    page: list[StoredEvent] = []
    taken: list[Passage] = []
    writer: BlobWriter | None = None
    for number, line in _read_lines(source, progress and (lambda done: progress(size + done, 2 * size))):
        if line.blob is not None:
            writer = _write_blob(blobs, writer, line.blob, number)
        elif line.event is not None:
            event = line.event.to_stored()
            if event.stream not in versions:
                head: StreamHead | None = drive(effects.head(event.stream))
                versions[event.stream] = head.version if head else 0
            if event.seq > versions[event.stream]:
                page.append(event)
        elif line.passage is not None:
            taken.append(line.passage)
        is_end = line.end is not None
        if len(page) == _PAGE or (page and (is_end or len(taken) == _PAGE)):
            drive(maintain.adopt(page, cache))
            imported += len(page)
            page = []
        if is_end or len(taken) == _PAGE:
            if index is not None:  # a store without an index has no long-term memory
                put_taken(drive, index, taken)
            taken = []
    return imported


def _write_blob(blobs: BlobStore, writer: BlobWriter | None, piece: _BlobLine, number: int) -> BlobWriter | None:
    writer = writer or blobs.writer(piece.tenant)
    writer.write(piece.data)
    if not piece.last:
        return writer
    ref = writer.commit()
    if ref != BlobRef(piece.digest, piece.size):
        raise ImportRefused(line=number, reason=f"the content of the blob {piece.digest} does not match its digest")
    return None


def _file_size(source: str) -> int:
    with translate_os_errors(source):
        return os.path.getsize(source)


def _check_file(drive: Driver, blobs: BlobStore, source: str, count: CountCallback | None) -> None:
    """The first reading: the file is complete and sound, and continues the streams of this store."""
    checker = _ImportChecker(drive, blobs, _find_cuts(source))
    ended = False
    for number, line in _read_lines(source, count):
        if ended:
            raise ImportRefused(line=number, reason="there are lines after the end")
        if (number == 1) != (line.holdfast is not None):
            raise ImportRefused(line=number, reason="this is not an export of Holdfast")
        if number == 1 and (line.holdfast != "export" or line.format != FORMAT):
            raise ImportRefused(
                line=number, reason=f"its format is {line.format}, and this Holdfast reads format {FORMAT}"
            )
        if line.blob is not None:
            checker.check_blob(line.blob, number)
        if line.event is not None:
            checker.check_event(line.event, number)
        if line.passage is not None:
            checker.check_passage(line.passage, number)
        if line.end is not None:
            ended = True
            checker.check_end(number)
            if line.end.events != checker.events:
                reason = f"{line.end.events} events were exported, and the file has {checker.events}"
                raise ImportRefused(line=number, reason=reason)
    if not ended:
        raise ImportRefused(line=number, reason="the file is cut off: its end is missing")


class _ForkStart(NamedTuple):
    """The stream that a fork continues, at its cut."""

    hash: bytes
    state: StreamState
    facts: dict[str, FactState]
    erased: frozenset[int]


def _find_cuts(source: str) -> frozenset[tuple[StreamId, int]]:
    """The streams that forks in this file continue, and where. Faults of the file are found by the checker."""
    cuts: set[tuple[StreamId, int]] = set()
    try:
        for _, line in _read_lines(source, None):
            if line.event is not None and line.event.type in FORK_EVENTS:
                event = line.event.to_stored()
                current = upcast.decode_event(event)
                if isinstance(current, SessionForked | LedgerForked):
                    cuts.add((event.stream.beside(current.parent), current.cut))
    except (ValueError, HoldfastError):
        pass
    return frozenset(cuts)


class _ImportChecker:
    """Checks a file like the input of a caller, since it may come from anyone."""

    def __init__(self, drive: Driver, blobs: BlobStore, cuts: frozenset[tuple[StreamId, int]]) -> None:
        self._drive = drive
        self._cuts = cuts
        """The streams that forks continue, and where."""
        self._bases: dict[tuple[StreamId, int], _ForkStart] = {}
        self._origins: dict[StreamId, ForkOrigin] = {}
        self._blobs = blobs
        self._imported_heads: dict[StreamId, tuple[StreamHead, StreamState]] = {}
        self._facts: dict[StreamId, dict[str, FactState]] = {}
        self._local_heads: dict[StreamId, StreamHead | None] = {}
        self._erased_seqs: dict[StreamId, set[int]] = {}
        self._lines: dict[StreamId, int] = {}
        self._bodies: set[tuple[str, str]] = set()
        self._unreferenced: set[tuple[str, str]] = set()
        self._body: tuple[_BlobLine, Any, int] | None = None
        self.events = 0

    def check_blob(self, piece: _BlobLine, number: int) -> None:
        """Check that the pieces of a body follow each other and match its digest."""
        first, digest, size = self._body or (piece, hashlib.sha256(), 0)
        digest.update(piece.data)
        size += len(piece.data)
        if (piece.tenant, piece.digest, piece.size) != (first.tenant, first.digest, first.size):
            raise ImportRefused(line=number, reason=f"the blob {first.digest} is cut off")
        self._body = None if piece.last else (first, digest, size)
        if piece.last:
            if (digest.hexdigest(), size) != (piece.digest, piece.size):
                raise ImportRefused(
                    line=number, reason=f"the content of the blob {piece.digest} does not match its digest"
                )
            self._bodies.add((piece.tenant, piece.digest))
            self._unreferenced.add((piece.tenant, piece.digest))

    def check_end(self, number: int) -> None:
        """Check what is known only at the end: complete bodies, sound ledgers, the same history as in this store."""
        if self._body or self._unreferenced:
            raise ImportRefused(line=number, reason="a blob is cut off, or no event refers to it")
        for stream, (head, state) in self._imported_heads.items():
            violations = (
                invariants.find_violations(state, self._facts[stream]) if isinstance(state, LedgerState) else []
            )
            if violations:
                raise ImportRefused(line=self._lines[stream], reason=f"{stream} breaks a rule: {violations[0]}")
            local = self._local_heads[stream]
            if local is not None and head.version < local.version:
                (event,) = self._drive(effects.read(stream, head.version - 1, 1))
                if event.hash != head.hash:
                    raise ImportRefused(
                        line=self._lines[stream], reason=f"{stream} has a different history in this store"
                    )

    def check_passage(self, passage: Passage, number: int) -> None:
        """Check a passage that long-term memory had taken: it comes after all events."""
        stream = passage.scope.stream
        head, _ = self._imported_heads.get(stream) or (StreamHead(stream, 0, GENESIS), None)
        check_passage(passage, {stream: head.version}, number)

    def check_event(self, line: _EventLine, number: int) -> None:
        """Check an event: its names, its bodies, its hash chain, and the rules of its stream."""
        self.events += 1
        try:
            event = _check_event_names(line.to_stored())
            current = upcast.decode_event(event)
            self._check_bodies(event, current)
        except (ValueError, HoldfastError) as error:
            raise ImportRefused(line=number, reason=str(error)) from error
        stream = event.stream
        if stream not in self._imported_heads and event.seq > 1:
            self._begin_fork(event, current, number)
        elif event.type in FORK_EVENTS:
            raise ImportRefused(line=number, reason=f"event {event.seq} of {stream}: only a new stream is a fork")
        head, state = self._imported_heads.get(stream) or (StreamHead(stream, 0, GENESIS), empty_state(stream))
        erased = self._erased_seqs.setdefault(stream, set())
        fault = chain.find_chain_fault(head, event) or self._find_fault(state, event, current, erased)
        if fault:
            raise ImportRefused(line=number, reason=f"event {event.seq} of {stream}: {fault}")
        if current is None:
            erased.add(event.seq)
        state = self._fold_event(state, event, current)
        self._imported_heads[stream] = (StreamHead(stream, event.seq, event.hash), state)
        if (stream, event.seq) in self._cuts:
            facts = dict(self._facts.get(stream, {}))
            self._bases[stream, event.seq] = _ForkStart(event.hash, state, facts, frozenset(erased))
        self._lines[stream] = number
        if stream not in self._local_heads:
            self._local_heads[stream] = self._drive(effects.head(stream))
        local = self._local_heads[stream]
        if local is not None and event.seq == local.version and event.hash != local.hash:
            raise ImportRefused(line=number, reason=f"{stream} has a different history in this store")

    def _begin_fork(self, event: StoredEvent, current: Event | None, number: int) -> None:
        """Begin a stream with the state of the one that it continues."""
        origin = current if isinstance(current, SessionForked | LedgerForked) else None
        parent = None if origin is None else event.stream.beside(origin.parent)
        fault = find_origin_fault(event.stream, event.seq, current, self._origins.get(parent) if parent else None)
        base = None if origin is None or parent is None else self._bases.get((parent, origin.cut))
        if fault or origin is None or base is None:
            reason = f"event {event.seq} of {event.stream}: {fault or 'it continues no stream of this file'}"
            raise ImportRefused(line=number, reason=reason)
        self._origins[event.stream] = ForkOrigin(parent=origin.parent, cut=origin.cut, lineage=origin.lineage)
        self._imported_heads[event.stream] = (StreamHead(event.stream, event.seq - 1, base.hash), base.state)
        self._facts[event.stream] = dict(base.facts)
        self._erased_seqs[event.stream] = {*base.erased}

    def _find_fault(
        self, state: StreamState, event: StoredEvent, current: Event | None, erased: set[int]
    ) -> str | None:
        if isinstance(state, SessionState):
            return find_fault(state, current, event.type, erased)
        try:
            return find_fact_fault(state, self._facts.setdefault(event.stream, {}), current, event.type, erased)
        except HoldfastError as error:
            return str(error)

    def _fold_event(self, state: StreamState, event: StoredEvent, current: Event | None) -> StreamState:
        if isinstance(state, SessionState):
            return fold_session(state, current, event.type, event.time_us)
        facts = self._facts[event.stream]
        facts |= facts_fold.apply_event(facts, current, event.seq, event.time_us)
        return facts_fold.step(state, event.type, event.time_us)

    def _check_bodies(self, event: StoredEvent, current: Event | None) -> None:
        check_parts(tuple(event_parts(current)), empty=True)
        for ref in map(check_ref, event_blob_refs(current)):
            body = (event.stream.tenant, ref.digest)
            self._unreferenced.discard(body)
            if body not in self._bodies:
                self._blobs.chunks(event.stream.tenant, ref)  # raises if this store does not have it


def _check_event_names(event: StoredEvent) -> StoredEvent:
    """Check the names and numbers of an event like those of a caller."""
    stream = event.stream
    if stream.kind == "ledger":
        check_ledger(LedgerId.from_stream(stream), stream.tenant)
    elif len(stream.key) not in (2, 3):
        raise InvalidArgument(argument="stream", reason=f"{stream} is not the stream of a session")
    else:
        Scope.check(stream.tenant, *stream.key)
    check_name("principal", event.principal)
    for what, name in (("cause", event.cause), ("idempotency key", event.key)):
        if name is not None:
            check_name(what, name)
    for what, number in (("seq", event.seq), ("version", event.version), ("time", event.time_us)):
        check_whole(what, number)
    check_whole("ordinal", event.ordinal, 0, limits.COMMAND_EVENTS)
    if len(event.command) != 32 or len(bytes.fromhex(event.command)) != 16:
        raise InvalidArgument(argument="command", reason="it is not 32 hexadecimal digits")
    sizes = [len(event.command_digest), len(event.payload_digest), len(event.hash), len(event.salt or bytes(16))]
    if sizes != [32, 32, 32, 16]:
        raise InvalidArgument(argument="hash", reason="a digest or salt has a wrong length")
    return event


def _read_lines(source: str, count: CountCallback | None) -> Iterator[tuple[int, _ExportLine]]:
    """Yield every line with its number. Each must be exactly what an export writes."""
    digest = hashlib.sha256()
    number = 0
    with translate_os_errors(source), open(source, "rb") as file:
        while raw := file.readline(limits.EXPORT_LINE_BYTES):
            number += 1
            line = _decode_line(raw, number)
            if line.end is not None and line.end.sha256 != digest.hexdigest():
                raise ImportRefused(line=number, reason="the file was changed after the export")
            digest.update(raw)
            yield number, line
            if count is not None and (number % _PAGE == 0 or line.end is not None):
                count(file.tell())
    if number == 0:
        raise ImportRefused(line=0, reason="the file is empty")


def _decode_line(raw: bytes, number: int) -> _ExportLine:
    try:
        line: Any = codec.decode(raw, _ExportLine)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ImportRefused(line=number, reason=f"it is not a line of an export: {error}") from error
    if codec.encode(line) + b"\n" != raw:
        raise ImportRefused(line=number, reason="export() does not write it this way: the file was edited")
    checked: _ExportLine = line
    return checked
