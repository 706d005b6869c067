"""What Holdfast needs from outside, as Protocols. Whoever satisfies one can take its place.

The event store's promises are spelled out here once and checked, for any backend, by
`holdfast.testing.EventStoreContract`. `AsyncEventStore` is the same contract, awaited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import BinaryIO, Protocol, TypeVar

from holdfast.model.content import BlobRef, Body, Text
from holdfast.model.detection import Observation, Proposal
from holdfast.model.facts import Search
from holdfast.model.log import Append, Appended, FeedPage, Head, Recorded, Snapshot, Totals
from holdfast.model.messages import SummaryDraft
from holdfast.model.names import StreamId
from holdfast.model.plan import Prices
from holdfast.model.rows import IN_ORDER_OF_KEY, Among, FactRow, Order, Row

R = TypeVar("R", bound=Row)


class Index(Protocol):
    """What finds facts by their words. A store has one of its own; a vector index can take its place."""

    def search(self, search: Search) -> tuple[tuple[FactRow, float], ...]:
        """The facts within the bounds of the search in which any of its words is, best first, each with its score: above 0,
        and higher for a better one. No more than `limit`, none twice.

        A word stands for its other forms ("meetings", "meeting"), with or without accents, and counts for more in a key
        than in a value. Scores compare within one answer only. They may tell how common a word is among all the live, or
        all the dead, facts of a ledger that was searched; of other ledgers no more than how much they hold together."""


class EventStore(Index, Protocol):
    """An append-only log of streams, with rows and snapshots kept in step by the same transaction."""

    def append(self, append: Append) -> Appended:
        """Store one command's effect; when this returns, it survives power loss.

        The key is looked up before any version is checked: known with the same order, the answer is the events of the
        first time; known with another, KeyConflict. A stream that is not at its expected version: VersionConflict. In
        both cases, and on any other error, nothing is stored."""

    def adopt(
        self,
        events: Sequence[Recorded],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
        snapshots: Mapping[StreamId, Snapshot] = MappingProxyType({}),
    ) -> None:
        """Store events recorded elsewhere, as they are, in one transaction. Each must continue its stream's chain. For a
        stream in `erase`, these payloads go away and `rows` replace all its rows, as in an append; `snapshots` are put."""

    def find(self, tenant: str, key: str) -> tuple[Recorded, ...]:
        """The events of the command that used this idempotency key; empty if none did."""

    def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[Recorded, ...]:
        """Events with seq > after, in order."""

    def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[Recorded, ...]:
        """Events with seq < before, newest first; only of these types, if any are named."""

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        """Events of all streams and tenants after the cursor: none skipped, repeated or out of order."""

    def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Where these events stand in the order of the feed: values that compare as the events of all streams do; an empty
        tuple for an event that is not there. They compare within one store only: another one counts in its own way."""

    def head(self, stream: StreamId) -> Head | None: ...

    def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[Head, ...]:
        """The heads of all streams, ordered by tenant, kind and key, the key as `encode_stream_key` writes it."""

    def snapshot(self, stream: StreamId) -> Snapshot | None: ...

    def rows(
        self,
        table: type[R],
        where: Mapping[str, str | int],
        *,
        after: R | None = None,
        limit: int,
        order: Order = IN_ORDER_OF_KEY,
        least: Mapping[str, int] = MappingProxyType({}),
        most: Mapping[str, int] = MappingProxyType({}),
        among: Among = MappingProxyType({}),
    ) -> tuple[R, ...]:
        """Rows equal to `where` in every named column, not under `least` and not over `most`, and one of the values in
        `among` in each column that it names, in this order, beyond the row `after`. There may be thousands of those."""

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        """Make these the stream's rows, if it is still at this version; VersionConflict otherwise."""

    def projection_version(self) -> int:
        """What `set_projection_version` last said; 0 if it never did."""

    def set_projection_version(self, version: int) -> None: ...

    def check(self) -> tuple[str, ...]:
        """Faults of the storage itself, beyond what reading the streams shows; empty if it is sound."""

    def backup(self, target: str) -> None:
        """A consistent copy while others write; `target` must not exist. Blobs are copied by the caller."""

    def totals(self) -> Totals: ...

    def close(self) -> None: ...


class AsyncEventStore(Protocol):
    async def append(self, append: Append) -> Appended: ...

    async def find(self, tenant: str, key: str) -> tuple[Recorded, ...]: ...

    async def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[Recorded, ...]: ...

    async def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[Recorded, ...]: ...

    async def feed(self, cursor: str = "", *, limit: int) -> FeedPage: ...

    async def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]: ...

    async def head(self, stream: StreamId) -> Head | None: ...

    async def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[Head, ...]: ...

    async def snapshot(self, stream: StreamId) -> Snapshot | None: ...

    async def rows(
        self,
        table: type[R],
        where: Mapping[str, str | int],
        *,
        after: R | None = None,
        limit: int,
        order: Order = IN_ORDER_OF_KEY,
        least: Mapping[str, int] = MappingProxyType({}),
        most: Mapping[str, int] = MappingProxyType({}),
        among: Among = MappingProxyType({}),
    ) -> tuple[R, ...]: ...

    async def search(self, search: Search) -> tuple[tuple[FactRow, float], ...]: ...

    async def close(self) -> None: ...


class BlobWriter(Protocol):
    """A body on its way in. Until `commit` returns, it has no name; after, it survives power loss."""

    def write(self, chunk: bytes) -> None: ...

    def commit(self, media_type: str | None = None) -> BlobRef: ...

    def abort(self) -> None: ...


class BlobStore(Protocol):
    """Bodies by content, each tenant's apart from every other's."""

    def writer(self, tenant: str) -> BlobWriter: ...

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        """The body, piece by piece. Its size and digest are checked on the way: BlobNotFound or StorageCorrupt."""

    def stored(self) -> Iterator[tuple[str, str, float]]:
        """Every blob: its tenant, its digest, and when it was last put, in seconds since the epoch."""

    def drop(self, tenant: str, digest: str, *, unless_put_after_s: float) -> bool:
        """Remove a blob, unless someone put it again meanwhile. True if it is gone."""

    def sweep(self, *, before_s: float) -> int:
        """Clear away what interrupted puts and drops left behind before this time; how many there were."""


class Bodies(Protocol):
    """The blob store as recording sees it."""

    def check(self, tenant: str, ref: BlobRef) -> None:
        """Make sure that a body is there before an event names it: BlobNotFound or StorageCorrupt."""

    def note(self, tenant: str, ref: BlobRef) -> None:
        """This body was just put by other means: it need not be read to be checked."""

    def put(self, tenant: str, body: bytes | BinaryIO | Iterable[bytes], media_type: str | None) -> BlobRef: ...

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]: ...

    def take(self, tenant: str, source: bytes | BinaryIO | Iterable[bytes]) -> Text | Body:
        """What a stream holds: as text if that is short, else put piece by piece, with a preview."""


class Clock(Protocol):
    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""


class IdSource(Protocol):
    def command_id(self) -> str:
        """32 hexadecimal digits, never the same twice."""

    def salts(self, count: int) -> list[bytes]:
        """16 random bytes each."""

    def secret(self) -> bytes:
        """32 random bytes that nobody can guess."""


class TokenCounter(Protocol):
    name: str
    """Stored beside every count, so that counts of different counters are never mixed up."""

    def count(self, text: str) -> int: ...


class Summarizer(Protocol):
    """Says what a stretch of conversation comes to. A model, as a rule; when it fails, an extract made by rules serves."""

    prices: Prices | None
    """What its work costs; None for nothing."""

    def summarize(self, draft: SummaryDraft, tokens: int) -> str:
        """A text of at most so many tokens that stands for `draft.items`; `draft.text` has them as plain text."""


class Detector(Protocol):
    """Finds in what is said which facts it replaces, takes back or adds. It only proposes."""

    name: str
    """Stored beside what it proposed."""

    def detect(self, observation: Observation) -> tuple[Proposal, ...]: ...
