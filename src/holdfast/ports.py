"""The interfaces that Holdfast needs from outside, as Protocols. Any object with these methods can be used.

The contract of the event store is described here, and tested for any backend by `holdfast.testing.EventStoreContract`.
`AsyncEventStore` has the same methods, awaited.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol, TypeVar

from holdfast.model.content import BlobRef, Body, Text
from holdfast.model.facts.detection import Observation
from holdfast.model.facts.fact import FactQuery
from holdfast.model.history.prices import Prices
from holdfast.model.history.views import SummaryDraft
from holdfast.model.log import Append, AppendResult, FeedPage, Snapshot, StoredEvent, StoreTotals, StreamHead
from holdfast.model.memory.deliveries import Delivery
from holdfast.model.memory.passages import (
    IndexedPassage,
    IndexMark,
    MemorySubject,
    NeighbourSpan,
    Passage,
    PassageBatch,
    PassageFilter,
    PassageKey,
    PassageMatches,
    PassageQuery,
    PassageTotals,
    StreamSpan,
    VectorQuery,
)
from holdfast.model.memory.recall import ForgetReport, MemoryRange, MemoryReader, RecalledPassage, SessionHistory
from holdfast.model.names import StreamId
from holdfast.model.rows import BY_KEY, ColumnValues, FactRow, Row, RowOrder
from holdfast.model.sessions.model_uses import ProposalAnswer, SummaryAnswer

R = TypeVar("R", bound=Row)


class FactIndex(Protocol):
    """Finds facts by their words. Every store has one; a vector index can replace it."""

    def search(self, search: FactQuery) -> tuple[tuple[FactRow, float], ...]:
        """Return the facts that match the query and have any of its words, best first, each with its score.

        Scores are above 0, and higher for a better match; they compare within one answer only. At most `limit`
        facts, none twice. A word counts for more in a key than in a value. Words are stemmed by the caller, and must
        be equal. Scores may depend on how common a word is among the live, or the dead, facts of the ledgers in the
        query; of other ledgers only on their total size."""


class EventStore(FactIndex, Protocol):
    """An append-only log of streams, with rows and snapshots that are updated in the same transaction."""

    def append(self, append: Append) -> AppendResult:
        """Store the effect of one command. When this returns, it survives a power failure.

        The key is looked up before any version is checked. A known key with the same order returns the events of the
        first time; with another order it raises KeyConflict. A stream that is not at its expected version raises
        VersionConflict. In both cases, and on any other error, nothing is stored. A new stream with a `base` is a fork: its
        events are numbered and chained after the base, and the store has no events of it before them."""

    def adopt(
        self,
        events: Sequence[StoredEvent],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
        snapshots: Mapping[StreamId, Snapshot] = MappingProxyType({}),
        bases: Mapping[StreamId, StreamHead] = MappingProxyType({}),
        keep_taken: Mapping[StreamId, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        """Store events of another store unchanged, in one transaction. Each must continue the hash chain of its stream.

        For a stream in `erase`, these payloads are removed and `rows` replace all its rows, as in an append.
        `snapshots` are stored. `bases` are what new streams continue that are forks. Of the erased events in `keep_taken`,
        passages that long-term memory has taken stay; a store without a PassageIndex is never given any."""

    def find(self, tenant: str, key: str) -> tuple[StoredEvent, ...]:
        """Return the events of the command that used this idempotency key; empty if none did."""

    def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[StoredEvent, ...]:
        """Return events with seq > after, in order."""

    def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[StoredEvent, ...]:
        """Return events with seq < before, newest first; only of these types, if any are named."""

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        """Return events of all streams and tenants after the cursor: none skipped, repeated or out of order."""

    def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return the positions of these events in the feed; an empty tuple for an event that does not exist.

        Positions compare like the order of the feed. They compare within one store only."""

    def head(self, stream: StreamId) -> StreamHead | None:
        """Return the head of a stream; None if it has no events."""

    def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[StreamHead, ...]:
        """Return the heads of all streams, ordered by tenant, kind and key; the key as `encode_stream_key` writes
        it."""

    def snapshot(self, stream: StreamId) -> Snapshot | None:
        """Return the stored snapshot of a stream, if any."""

    def rows(
        self,
        table: type[R],
        where: Mapping[str, str | int],
        *,
        after: R | None = None,
        limit: int,
        order: RowOrder = BY_KEY,
        least: Mapping[str, int] = MappingProxyType({}),
        most: Mapping[str, int] = MappingProxyType({}),
        among: ColumnValues = MappingProxyType({}),
    ) -> tuple[R, ...]:
        """Return rows of a table in this order, after the row `after`.

        A row must be equal to `where` in every named column, at least `least`, at most `most`, and have one of the
        values in `among`, which may be thousands."""

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        """Replace all rows of a stream that is at this version; otherwise raise VersionConflict."""

    def projection_version(self) -> int:
        """Return the last value of `set_projection_version`; 0 if there is none."""

    def set_projection_version(self, version: int) -> None:
        """Store the version of the code that built the rows."""

    def check(self) -> tuple[str, ...]:
        """Return faults of the storage itself, which reading the streams does not show; empty if it is sound."""

    def backup(self, target: str) -> None:
        """Write a consistent copy to a new file, while others write. The caller copies the blobs."""

    def totals(self) -> StoreTotals:
        """Return how much is stored."""

    def close(self) -> None:
        """Close the store. After that, every other call raises StoreClosed; closing it again does nothing."""


class ChangeSource(Protocol):
    """What a store can have beside EventStore, so that watch() hears of new events at once. A store without it is read
    at an interval."""

    recheck_s: float | None
    """How long a watch waits at most before it reads again; None if every change is announced."""

    def subscribe(self, listener: Callable[[], None], stream: StreamId | None) -> None:
        """Call `listener` after each commit, of any process, that adds events to this stream, or to any stream; and when
        the store is closed. It may be called more often than that, in any thread. It returns at once, and raises
        nothing."""

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        """Do not call this listener any more. Repeating it does nothing."""

    def end_cursor(self, tenant: str | None) -> str:
        """Return the cursor at the end of the feed of a tenant, or of all."""


class TenantFeed(Protocol):
    """What a store can have beside EventStore, so that watch() reads the events of one tenant alone."""

    def tenant_feed(self, tenant: str, cursor: str = "", *, limit: int) -> FeedPage:
        """Return the events of a tenant after the cursor, as feed() does."""


class PassageIndex(Protocol):
    """What a store can have beside EventStore, so that conversations can be searched and remembered. The stores of
    Holdfast have it.

    Passages are no rows: they follow the log, and are caught up before a search. An append that erases events removes
    the passages of these events in the same transaction; of a session that is destroyed, only those that long-term
    memory has not taken."""

    def index_passages(self, batch: PassageBatch) -> bool:
        """Store passages and the mark of their stream. False, and nothing is stored, if the mark is not the one before:
        another process was faster. The batch replaces what is stored of the messages between the two marks, or up to the
        new mark if its format is another one; what was taken stays taken. Passages of erased events are left out. A mark
        beyond the end of the stream raises VersionConflict."""

    def adopt_passages(self, passages: Sequence[IndexedPassage]) -> None:
        """Store taken passages of another store, whose events may be erased. Those that exist already are replaced. Their
        streams must exist. No mark changes."""

    def index_marks(self, streams: Sequence[StreamId]) -> dict[StreamId, IndexMark]:
        """Return the marks of these streams; those without any are left out."""

    def take_passages(self, span: StreamSpan, hidden: Sequence[StreamSpan] = ()) -> int:
        """Note that long-term memory has the passages of these events, but not the hidden ones. Returns how many it has.
        A second time changes nothing."""

    def match_passages(self, query: PassageQuery) -> PassageMatches:
        """Return the visible passages that have any of the terms: those with the most and the rarest ones. With a limit of
        0, only the counts."""

    def passages_at(self, visible: PassageFilter, places: Sequence[NeighbourSpan], limit: int) -> tuple[Passage, ...]:
        """Return the visible passages at these places, in their order: the neighbours of a match."""

    def read_passages(self, visible: PassageFilter, keys: Sequence[PassageKey]) -> tuple[Passage, ...]:
        """Return these passages, as far as they exist and are visible."""

    def recent_passages(self, visible: PassageFilter, limit: int) -> tuple[Passage, ...]:
        """Return the newest visible passages, newest first."""

    def passage_totals(self, visible: PassageFilter) -> PassageTotals:
        """Return how many passages are visible, and of how many sessions."""

    def forget_passages(self, subject: MemorySubject) -> ForgetReport:
        """Remove passages, with their terms and vectors. Nothing of them stays in the files of the store."""

    def unembedded_passages(self, tenant: str, embedder: str, limit: int) -> tuple[Passage, ...]:
        """Return taken passages that have no vector of this embedder, oldest first."""

    def put_vectors(self, embedder: str, vectors: Sequence[tuple[PassageKey, Sequence[float]]]) -> None:
        """Store the vectors of passages. One whose passage is gone is ignored."""

    def match_vectors(self, query: VectorQuery) -> tuple[tuple[Passage, float], ...]:
        """Return the visible passages nearest to a vector, with the cosine of each, best first. Exact."""


class DeliveryQueue(Protocol):
    """What a store can have beside EventStore, so that several workers can share the outbox. The stores of Holdfast have
    it."""

    def claim_offloads(
        self, tenant: str, *, owner: str, now_us: int, lease_us: int, limit: int
    ) -> tuple[Delivery, ...]:
        """Claim entries of the outbox that are due, oldest first. Until the lease is over, no other worker gets them."""

    def renew_offload(self, delivery: Delivery) -> bool:
        """Keep a claim until `delivery.until_us`. False, and nothing is stored, if the entry is acknowledged, or another
        worker has claimed it since."""

    def release_offload(self, delivery: Delivery) -> bool:
        """Store the outcome of a failed delivery: when to try it again, its error, whether it is set aside. False, and
        nothing is stored, if another worker has claimed it since."""

    def deliveries(self, tenant: str, *, set_aside: bool | None = None, limit: int) -> tuple[Delivery, ...]:
        """Return the entries of the outbox that are not acknowledged, oldest first, with their deliveries: only those
        that are set aside, only the others, or all."""

    def requeue_offload(self, delivery: Delivery, now_us: int) -> None:
        """Make an entry due at once, with no failures counted."""


class AsyncEventStore(Protocol):
    """The event store for an event loop: the methods of EventStore, awaited. The driver calls the others by name."""

    async def append(self, append: Append) -> AppendResult: ...

    async def close(self) -> None: ...


class BlobWriter(Protocol):
    """A body that is being written. It has no name until `commit` returns; then it survives a power failure."""

    def write(self, chunk: bytes) -> None: ...

    def commit(self, media_type: str | None = None) -> BlobRef: ...

    def abort(self) -> None: ...


class BlobStore(Protocol):
    """Large bodies by their content, separate for each tenant."""

    def writer(self, tenant: str) -> BlobWriter: ...

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        """Return a body in pieces. Its size and digest are checked: raises BlobNotFound or StorageCorrupt."""

    def stored(self) -> Iterator[tuple[str, str, float]]:
        """Yield every blob: its tenant, its digest, and when it was last put, in seconds since the epoch."""

    def drop(self, tenant: str, digest: str, *, unless_put_after_s: float) -> bool:
        """Remove a blob, unless it was put again after this time. Returns True if it is gone."""

    def sweep(self, *, before_s: float) -> int:
        """Remove the remains of interrupted puts and drops from before this time. Returns how many there were."""


class BlobAccess(Protocol):
    """The blob store as flows use it."""

    def check(self, tenant: str, ref: BlobRef) -> None:
        """Verify a body before an event refers to it: raises BlobNotFound or StorageCorrupt."""

    def note(self, tenant: str, ref: BlobRef) -> None:
        """Note that this body was just put, so that it need not be verified."""

    def put(self, tenant: str, body: bytes | BinaryIO | Iterable[bytes], media_type: str | None) -> BlobRef: ...

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]: ...

    def take(self, tenant: str, source: bytes | BinaryIO | Iterable[bytes]) -> Text | Body:
        """Read a stream: return a short text as text; store everything else, with a preview."""


class Clock(Protocol):
    """Tells the time."""

    def now_us(self) -> int:
        """Return the microseconds since the epoch, UTC."""


class IdSource(Protocol):
    """Makes ids and random bytes."""

    def command_id(self) -> str:
        """Return 32 hexadecimal digits, never the same twice."""

    def salts(self, count: int) -> list[bytes]:
        """Return salts of 16 random bytes."""

    def secret(self) -> bytes:
        """Return 32 random bytes that nobody can guess."""


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    name: str
    """Stored with every count, so that counts of different counters are never mixed."""

    def count(self, text: str) -> int: ...


class Summarizer(Protocol):
    """Summarizes a part of a conversation, usually with a model. If it fails, an extract by rules is used."""

    prices: Prices | None
    """The prices of the model; None if it costs nothing."""

    def summarize(self, draft: SummaryDraft, tokens: int) -> SummaryAnswer | Awaitable[SummaryAnswer]:
        """Return a summary of `draft.items` with at most so many tokens. `draft.text` has them as plain text. A coroutine
        function needs an engine of open_async(). What a MeteredAnswer says it cost is recorded in the session."""


class PrefixSummarizer(Summarizer, Protocol):
    """A summarizer that also takes the pack of the last model call. Its request can begin with the same bytes, which the
    provider has in its cache."""

    def summarize_pack(self, draft: SummaryDraft, tokens: int, pack: Any) -> SummaryAnswer | Awaitable[SummaryAnswer]:
        """As `summarize`. `pack` is the pack that was passed to `context.prepare()`."""


class Detector(Protocol):
    """Proposes which facts a message adds, supersedes, retracts or expires. It changes nothing itself."""

    name: str
    """Stored with its proposals."""

    def detect(self, observation: Observation) -> ProposalAnswer | Awaitable[ProposalAnswer]:
        """Return the changes that the message seems to state. A coroutine function needs an engine of open_async(). What a
        MeteredAnswer says it cost is recorded in the session."""


class Memory(Protocol):
    """A long-term memory of your own, in place of the built-in one: `holdfast.open(memory=…)`.

    Each method may be a coroutine function under an engine of open_async(). Whatever it raises loses nothing: a delivery
    is tried again, and a pack is built without a recall."""

    name: str
    """Shown in manifests."""

    def take(self, history: SessionHistory) -> None:
        """Store a conversation that ended. It comes at least once, with the same key each time."""

    def recall(
        self, query: str, *, budget: int, reader: MemoryReader, within: MemoryRange
    ) -> Sequence[RecalledPassage]:
        """Return what helps to answer a question, best first, in at most `budget` tokens. Nothing of another user."""

    def bootstrap(self, reader: MemoryReader, budget: int) -> Sequence[RecalledPassage]:
        """Return what is known of a user, for the start of a session: the most important first."""

    def forget(self, subject: MemorySubject) -> ForgetReport:
        """Remove all that is known of a user, a session, or some messages."""


class Embedder(Protocol):
    """Turns texts into vectors of one length."""

    name: str
    """Stored with the vectors: those of another embedder are not compared with them."""
    dimensions: int

    def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Sequence[Sequence[float]]:
        """Return a vector of length 1 for each text."""


class Extractor(Protocol):
    """Proposes the facts that a conversation taught, usually with a model. It changes nothing itself."""

    name: str
    """Stored with its proposals."""

    def extract(self, observation: Observation) -> ProposalAnswer | Awaitable[ProposalAnswer]:
        """Return the facts in `observation.message`, a message of the user; the messages before it are its context. It may
        be a coroutine function, and return a MeteredAnswer, as a detector may."""
