"""Appends, rows and helpers for tests of stores."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from holdfast import chain, codec
from holdfast.adapters.system import RandomIds
from holdfast.errors import VersionConflict
from holdfast.model import limits
from holdfast.model.log import GENESIS, Append, NewEvent, Snapshot, StoredEvent, StreamHead, StreamWrite
from holdfast.model.names import LedgerKind, StreamId, StreamKind
from holdfast.model.rows import (
    BlobRow,
    ChunkRow,
    DependRow,
    EntryRow,
    FactRow,
    FrameRow,
    HandleRow,
    LedgerRow,
    MentionRow,
    OutboxRow,
    PageRow,
    Row,
    SessionRow,
    TokenRow,
)
from holdfast.ports import EventStore

T = TypeVar("T")

_IDS = RandomIds()

ORDER = b'{"command":"note"}'
TYPES = ("noted", "revised", "struck")
PAGE = limits.READ_EVENTS

LOOKALIKES = (
    ("alice", "alice2"),
    ("alice", "Alice"),
    ("alice", "alice "),
    ("a/b", "a"),
    ('a","b', "a"),
    ("%", "a"),
    ("_", "a"),
    ("'", "''"),
    ("a'; DROP TABLE events; --", "a"),
    ("é", "e\u0301"),
    ("ﬁ", "fi"),
    ("👍", "👍🏽"),
    ("x" * limits.NAME_BYTES, "x" * (limits.NAME_BYTES - 1) + "y"),
)
"""Pairs of names that a prefix match, a separator, a pattern, a collation or a length limit would confuse."""


def session_stream(
    session: str = "s", *, actor: str = "alice", tenant: str = "acme", kind: StreamKind = "session"
) -> StreamId:
    return StreamId(tenant, kind, (actor, session))


def ledger_stream(name: str = "l", *, kind: LedgerKind = "user", tenant: str = "acme") -> StreamId:
    """Return the stream of a ledger; not of a session's own ledger, which has more names."""
    return StreamId(tenant, "ledger", (kind, name))


ONE, TWO = session_stream("one"), session_stream("two")
LEDGER, OTHER_LEDGER = ledger_stream("one"), ledger_stream("two")


def new_events(*payloads: bytes, kind: str = TYPES[0]) -> tuple[NewEvent, ...]:
    salts = _IDS.salts(len(payloads))
    return tuple(NewEvent(kind, 1, payload, salt) for payload, salt in zip(payloads, salts, strict=True))


def write_to(
    stream: StreamId,
    expected: int,
    *payloads: bytes,
    kind: str = TYPES[0],
    rows: Sequence[Row] = (),
    snapshot: Snapshot | None = None,
    erase: Sequence[int] = (),
) -> StreamWrite:
    """Build the write of an append for one stream; the default payload is `{}`."""
    return StreamWrite(
        stream, expected, new_events(*payloads or (b"{}",), kind=kind), tuple(rows), snapshot, tuple(erase)
    )


def append_of(*writes: StreamWrite, key: str | None = None, order: bytes = ORDER, cause: str | None = None) -> Append:
    return Append(_IDS.command_id(), order, 1_700_000_000_000_000, "tester", writes, cause, key)


def _session_columns(stream: StreamId) -> dict[str, str]:
    actor, session, *thread = stream.key
    return {"tenant": stream.tenant, "actor": actor, "session": session, "thread": "".join(thread)}


def session_row(stream: StreamId, version: int = 1) -> SessionRow:
    return SessionRow(
        **_session_columns(stream),
        status="open",
        version=version,
        messages=version - 1,
        tokens=version * 10,
        open_calls=0,
        input_tokens=0,
        cache_read_tokens=0,
        output_tokens=0,
        created_us=1,
        updated_us=version,
        expires_us=None if version % 2 else version,
        residue=version,
        gone=0,
        parent="",
        cut=0,
    )


def outbox_row(stream: StreamId, entry: int) -> OutboxRow:
    return OutboxRow(**_session_columns(stream), entry=entry, why="reset", first=1, last=entry, at_us=entry, done=0)


def blob_row(stream: StreamId, seq: int, digest: str = "d") -> BlobRow:
    return BlobRow(**_session_columns(stream), digest=digest, seq=seq, size=seq)


def frame_row(stream: StreamId, frame: int, parent: int = 0, **changes: Any) -> FrameRow:
    row = FrameRow(
        **_session_columns(stream),
        frame=frame,
        parent=parent,
        ended=None,
        deadline_us=None,
        state="{}",
    )
    return msgspec.structs.replace(row, **changes)


def handle_row(stream: StreamId, handle: int, frame: int = 1, **changes: Any) -> HandleRow:
    row = HandleRow(**_session_columns(stream), handle=handle, frame=frame, source=None, result="", state="{}")
    return msgspec.structs.replace(row, **changes)


def page_row(stream: StreamId, message: int, piece: int = 0, **changes: Any) -> PageRow:
    row = PageRow(**_session_columns(stream), message=message, piece=piece, frame=0, residency="paged_out", state="{}")
    return msgspec.structs.replace(row, **changes)


def token_row(stream: StreamId, digest: str, frame: int = 1, **changes: Any) -> TokenRow:
    row = TokenRow(**_session_columns(stream), digest=digest, frame=frame, status="live", suspended=1, state="{}")
    return msgspec.structs.replace(row, **changes)


def entry_row(stream: StreamId, entry: str, seq: int = 1, **changes: Any) -> EntryRow:
    row = EntryRow(
        **_session_columns(stream),
        entry=entry,
        kind="checkpoint",
        parent="",
        seq=seq,
        at_us=seq,
        size=seq,
        digest="d",
        names="",
    )
    return msgspec.structs.replace(row, **changes)


def chunk_row(stream: StreamId, digest: str, seq: int = 1, at: int = 0) -> ChunkRow:
    return ChunkRow(**_session_columns(stream), digest=digest, seq=seq, at=at)


def _ledger_columns(stream: StreamId) -> dict[str, str]:
    return {"tenant": stream.tenant, "ledger": codec.encode_stream_key(stream)}


def ledger_row(stream: StreamId, version: int = 1) -> LedgerRow:
    kind: Any = stream.key[0]
    return LedgerRow(
        **_ledger_columns(stream), kind=kind, version=version, facts=version, created_us=1, updated_us=version
    )


def fact_row(stream: StreamId, fact: int, subject: str = "subject", words: str = "", **changes: Any) -> FactRow:
    """Build a fact that is found by the words of its subject and by `words`."""
    row = FactRow(
        **_ledger_columns(stream),
        fact=fact,
        subject=subject,
        scope="global",
        scope_id="",
        ref="",
        live=1,
        claim=0,
        review=0,
        constrains=0,
        expires_us=None,
        requires="",
        key_words=subject.lower(),
        words=words or f"number {fact}",
        memory_type="user",
        anchor=str(fact),
        state="{}",
    )
    return msgspec.structs.replace(row, **changes)


def depend_row(stream: StreamId, source: int, fact: int, live: int = 1) -> DependRow:
    return DependRow(**_ledger_columns(stream), source=source, fact=fact, live=live)


def mention_row(stream: StreamId, fact: int, where: StreamId = ONE, **changes: Any) -> MentionRow:
    """Build a mention in a message of the session `where`."""
    names = {name: value for name, value in _session_columns(where).items() if name != "tenant"}
    row = MentionRow(**_ledger_columns(stream), fact=fact, **names, seq=fact, start=0, stop=fact, live=1)
    return msgspec.structs.replace(row, **changes)


def rows_of_every_table(stream: StreamId, number: int = 1) -> tuple[Row, ...]:
    """Build a row of each table of a session, or of a ledger. Another number gives other keys, except for the first
    row."""
    if stream.kind == "ledger":
        return (
            ledger_row(stream, number),
            fact_row(stream, number),
            depend_row(stream, number, number + 1),
            mention_row(stream, number),
        )
    return (
        session_row(stream, number),
        outbox_row(stream, number),
        blob_row(stream, number),
        frame_row(stream, number),
        handle_row(stream, number),
        page_row(stream, number),
        token_row(stream, f"{number:064x}"),
        entry_row(stream, f"entry {number}", number),
        chunk_row(stream, f"{number:064x}", number),
    )


def erase_event(event: StoredEvent) -> StoredEvent:
    return msgspec.structs.replace(event, payload=None, salt=None)


def all_heads(store: EventStore, *, limit: int = limits.READ_EVENTS) -> Iterator[StreamHead]:
    last: StreamId | None = None
    while page := store.heads(after=last, limit=limit):
        yield from page
        last = page[-1].stream


def all_events(store: EventStore, cursor: str = "", *, limit: int = limits.READ_EVENTS) -> Iterator[StoredEvent]:
    """Yield the feed after a cursor, page by page."""
    while (page := store.feed(cursor, limit=limit)).events:
        yield from page.events
        cursor = page.cursor


def stream_events(store: EventStore, stream: StreamId) -> Iterator[StoredEvent]:
    after = 0
    while page := store.read(stream, after=after, limit=limits.READ_EVENTS):
        yield from page
        after = page[-1].seq


def positions_in_feed_order(store: EventStore) -> list[tuple[int, ...]]:
    """The positions of all events, one after the other as the feed has the events."""
    places = [(event.stream, event.seq) for event in all_events(store, limit=limits.READ_EVENTS)]
    seqs: dict[StreamId, list[int]] = defaultdict(list)
    for stream, seq in places:
        seqs[stream].append(seq)
    positions: dict[tuple[StreamId, int], tuple[int, ...]] = {}
    for stream, some in seqs.items():
        positions.update(zip([(stream, seq) for seq in some], store.positions(stream, some), strict=True))
    return [positions[place] for place in places]


def _chain_start(store: EventStore, stream: StreamId) -> StreamHead:
    """The head before the first event of a stream: of nothing, or of the stream that a fork continues."""
    (first,) = store.read(stream, limit=1)
    bases = (StreamHead(stream, event.seq, event.hash) for event in all_events(store) if event.seq == first.seq - 1)
    whole = StreamHead(stream, 0, GENESIS)
    return whole if first.seq == 1 else next((each for each in bases if not chain.find_chain_fault(each, first)), whole)


def assert_sound(store: EventStore) -> None:
    """Every chain runs from its beginning, or from an event of another stream, to its head, and the feed holds the same
    events as the streams, in the order of their positions."""
    assert store.check() == ()
    events = 0
    for head in all_heads(store):
        at = _chain_start(store, head.stream)
        for event in stream_events(store, head.stream):
            assert chain.find_chain_fault(at, event) is None
            at = StreamHead(head.stream, event.seq, event.hash)
            events += 1
        assert at == head
    positions = positions_in_feed_order(store)
    assert len(positions) == events == store.totals().events
    assert () not in positions
    assert positions == sorted(set(positions))


def fill_stream(store: EventStore, stream: StreamId, count: int) -> tuple[StoredEvent, ...]:
    """Add some events to a stream, with one append each."""
    head = store.head(stream)
    version = head.version if head else 0
    appends = [append_of(write_to(stream, at, b'{"n":%d}' % (at + 1))) for at in range(version, version + count)]
    return tuple(event for append in appends for event in store.append(append).events)


def append_with_retries(store: EventStore, stream: StreamId, payload: bytes, tries: int = 10_000) -> StoredEvent:
    """Append at any version: read the version again after each conflict."""
    for _ in range(tries):
        head = store.head(stream)
        with suppress(VersionConflict):
            return store.append(append_of(write_to(stream, head.version if head else 0, payload))).events[0]
    raise AssertionError("every attempt had a conflict")


def run_in_threads(count: int, work: Callable[[int], T]) -> list[T]:
    """Run a function in several threads that start at the same time."""
    start = threading.Barrier(count)

    def run(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
