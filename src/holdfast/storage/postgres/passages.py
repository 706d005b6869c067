"""Passages and deliveries on PostgreSQL, for both drivers: generators that yield queries and receive rows.

Laws: a query of the index names the shelves that may be seen, so it walks over nothing else. Common terms only add to
scores. Each query is a transaction of its own: what another removes between two of them is left out.
"""

from __future__ import annotations

import array
import heapq
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import psycopg

from holdfast import codec, errors
from holdfast.model import limits
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
from holdfast.model.memory.recall import ForgetReport
from holdfast.model.names import Scope, StreamId
from holdfast.model.rows import OutboxRow
from holdfast.storage import common
from holdfast.storage.passages import (
    COMMON_ROWS,
    SCAN_ROWS,
    SIDES,
    Shelf,
    Sight,
    build_shelf,
    check_terms,
    count_limit,
    keep_best,
    score_rows,
    share_limit,
    side_of,
    total_passages,
)
from holdfast.storage.postgres.arrays import pack_bigints, pack_blobs, pack_integers, pack_texts
from holdfast.storage.postgres.connect import FOLDER
from holdfast.storage.postgres.log import Operation, Query
from holdfast.storage.sql import load_statements, row_of
from holdfast.storage.vectors import find_nearest, pack_vector

SQL = load_statements(FOLDER, "passages.sql")
T = TypeVar("T")

_SCANNED_LISTS = SCAN_ROWS // 200
"""The lists of a term that are read, newest first. Each has up to 256 rows, and fewer where some were removed."""
_VECTORS = 4_000
"""Vectors that are compared at once."""
_LONGEST = (1 << 31) - 1


def _json(value: object) -> str:
    return codec.encode(value).decode()


def _plain(text: str) -> str:
    """A text as PostgreSQL can store it."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _repeat(build: Callable[[], Operation[T]]) -> Operation[T]:
    """Run an operation again that met another one halfway."""
    for _ in range(limits.REDECIDE_TRIES):
        try:
            return (yield from build())
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure, psycopg.errors.UniqueViolation):
            continue
    raise errors.StorageBusy(what="the index of passages", waited_ms=limits.BUSY_MS)


# Writing


def index_passages(batch: PassageBatch) -> Operation[bool]:
    def run() -> Operation[bool]:
        values = (
            *common.stream_key(batch.stream),
            None if batch.before is None else _mark_json(batch.before),
            _mark_json(batch.mark),
            batch.start,
            _items_json(batch.passages),
        )
        ((version, is_stored),) = yield Query(batch.stream.tenant, SQL["index_passages"], values, sets_tenant=True)
        if is_stored and batch.mark.version > version:
            raise errors.VersionConflict(stream=batch.stream, expected=batch.mark.version, actual=version)
        return bool(is_stored)

    return (yield from _repeat(run))


def _mark_json(mark: IndexMark) -> str:
    return _json(msgspec.to_builtins(mark))


def _items_json(indexed: Iterable[IndexedPassage]) -> str:
    return _json([_build_item(each) for each in indexed])


def _build_item(indexed: IndexedPassage) -> dict[str, Any]:
    passage = indexed.passage
    texts = {name: _plain(getattr(passage, name)) for name in ("speaker", "frame", "handle", "text", "role", "kind")}
    numbers = {name: getattr(passage, name) for name in ("seq", "part", "time_us", "place", "start", "is_taken")}
    requires = _json([_plain(name) for name in passage.requires]) if passage.requires else ""
    terms = [*dict.fromkeys(filter(str.isalnum, indexed.terms))]
    return {**texts, **numbers, "user_name": _plain(passage.user), "requires": requires, "terms": terms}


def adopt_passages(indexed: Sequence[IndexedPassage]) -> Operation[None]:
    by_stream: dict[StreamId, list[IndexedPassage]] = {}
    for each in indexed:
        taken = msgspec.structs.replace(each.passage, is_taken=True)
        by_stream.setdefault(taken.scope.stream, []).append(IndexedPassage(taken, each.terms))
    for stream, some in by_stream.items():

        def run(stream: StreamId = stream, some: list[IndexedPassage] = some) -> Operation[int]:
            values = (*common.stream_key(stream), _items_json(some))
            ((number,),) = yield Query(stream.tenant, SQL["adopt_passages"], values, sets_tenant=True)
            return int(number)

        if not (yield from _repeat(run)):
            raise errors.VersionConflict(stream=stream, expected=some[0].passage.seq, actual=0)


def take_passages(span: StreamSpan, hidden: Sequence[StreamSpan]) -> Operation[int]:
    def run() -> Operation[int]:
        own = [each for each in hidden if each.stream == span.stream]
        firsts = pack_bigints([common.clamp_position(each.first) for each in own])
        lasts = pack_bigints([common.clamp_position(each.last) for each in own])
        bounds = (common.clamp_position(span.first), common.clamp_position(span.last))
        values = (*common.stream_key(span.stream), *bounds, firsts, lasts)
        ((count,),) = yield Query(span.stream.tenant, SQL["take_passages"], values, sets_tenant=True)
        return int(count or 0)

    return (yield from _repeat(run))


def forget_passages(subject: MemorySubject) -> Operation[ForgetReport]:
    def run() -> Operation[ForgetReport]:
        stream = None if subject.scope is None else subject.scope.stream
        names = (None, None) if stream is None else common.stream_key(stream)[1:]
        values = (subject.tenant, _plain(subject.user), *names, pack_bigints(subject.seqs))
        ((dropped, residue),) = yield Query(subject.tenant, SQL["forget_passages"], values, sets_tenant=True)
        return ForgetReport(passages=dropped, residue=residue)

    return (yield from _repeat(run))


def put_vectors(embedder: str, vectors: Sequence[tuple[PassageKey, Sequence[float]]]) -> Operation[None]:
    tenants: dict[str, dict[PassageKey, bytes]] = {}
    for key, vector in vectors:
        tenants.setdefault(key.stream.tenant, {})[key] = pack_vector(vector)
    for tenant, packed in tenants.items():
        columns = (
            pack_texts([common.stream_key(key.stream)[2] for key in packed]),
            pack_bigints([key.seq for key in packed]),
            pack_integers([key.part for key in packed]),
            pack_blobs([*packed.values()]),
        )
        yield Query(tenant, SQL["put_vectors"], (embedder, *columns, tenant))


# Reading


def index_marks(streams: Sequence[StreamId]) -> Operation[dict[StreamId, IndexMark]]:
    marks: dict[StreamId, IndexMark] = {}
    for tenant in {stream.tenant for stream in streams}:
        own = {common.stream_key(stream)[2]: stream for stream in streams if stream.tenant == tenant}
        found = yield Query(tenant, SQL["marks"], (tenant, pack_texts([*own])))
        for key, version, form, places, user, speaker, permissions in found:
            marks[own[key]] = IndexMark(
                version=version,
                format=form,
                places=places,
                user=user,
                speaker=speaker,
                permissions=tuple(msgspec.json.decode(permissions, type=list[str])),
            )
    return marks


class _Reader:
    """Reads of the passages that a filter lets through."""

    def __init__(self, sight: Sight, numbers: Mapping[StreamId, int]) -> None:
        visible = sight.visible
        self.tenant = visible.tenant
        self.sight = sight
        self.numbers = numbers
        self.times = (
            common.clamp_position(-limits.WHOLE_NUMBER if visible.since_us is None else visible.since_us),
            common.clamp_position(limits.WHOLE_NUMBER if visible.until_us is None else visible.until_us),
        )
        self.shelf_nos = pack_integers([*sight.shelves])

    def sees(self, row: Sequence[Any]) -> bool:
        return self.sight.sees(row[4], row[1], row[2], row[5])

    def load(self, rows: Sequence[int]) -> Operation[dict[int, Passage]]:
        if not rows:
            return {}
        values = (pack_integers(rows), self.tenant, self.tenant)
        found = yield Query(self.tenant, SQL["passages_by_row"], values)
        return build_passages(self.tenant, found, self.sight.shelves)


def build_passages(tenant: str, found: Sequence[Sequence[Any]], shelves: Mapping[int, Shelf]) -> dict[int, Passage]:
    """Build passages from their rows, in the same order, by number."""
    scopes = {key: Scope.from_stream(common.stream_of(tenant, "session", key)) for key in {row[12] for row in found}}
    return {row[0]: _build_passage(row, scopes[row[12]], shelves[row[4]]) for row in found if row[4] in shelves}


def _build_passage(row: Sequence[Any], scope: Scope, shelf: Shelf) -> Passage:
    _, _, seq, part, _, time_us, place, start, speaker, frame, handle, text, _ = row
    return Passage(
        scope=scope,
        seq=seq,
        part=part,
        kind=shelf.kind,
        role=shelf.role,
        speaker=speaker,
        user=shelf.user,
        frame=frame,
        time_us=time_us,
        place=place,
        requires=shelf.requires,
        handle=handle,
        start=start,
        text=text,
        is_taken=not shelf.stream_no,
    )


def _open_reader(visible: PassageFilter, streams: Iterable[StreamId] = ()) -> Generator[Query, Any, _Reader]:
    """Look up the streams of a filter, and the shelves that it lets through."""
    tenant = visible.tenant
    wanted = {*(span.stream for span in (*visible.spans, *visible.hidden)), *streams}
    own = {common.stream_key(stream)[2]: stream for stream in wanted if stream.tenant == tenant}
    numbers: dict[StreamId, int] = {}
    if own:
        found = yield Query(tenant, SQL["numbers"], (tenant, pack_texts([*own])))
        numbers = {own[key]: number for key, number in found}
    spans = pack_bigints([numbers[stream] for stream in {span.stream for span in visible.spans} & numbers.keys()])
    values = (tenant, _plain(visible.user), spans, tenant, spans, tenant, tenant)
    shelves = map(build_shelf, (yield Query(tenant, SQL["shelves"], values)))
    sessions: set[int] | None = None
    if visible.sessions:
        names = pack_texts([name for name in visible.sessions if "\0" not in name])
        sessions = {number for (number,) in (yield Query(tenant, SQL["named_sessions"], (tenant, names)))}
    return _Reader(Sight(visible, numbers, shelves, sessions), numbers)


def match_passages(query: PassageQuery) -> Operation[PassageMatches]:
    terms = [term for term in check_terms(query) if "\0" not in term]
    reader = yield from _open_reader(query.visible)
    walk = yield from _open_walk(reader)
    if not query.limit and walk.is_whole:
        return PassageMatches(passages=(), counts=(yield from walk.count_rows(terms)), total=walk.total)
    counts, sides = yield from walk.find_rows(terms)
    scores = [walk.score(side, counts, query.limit) for side in sides]
    best = share_limit(scores, query.limit)
    loaded = yield from reader.load(best)
    return PassageMatches(passages=tuple(loaded[row] for row in best if row in loaded), counts=counts, total=walk.total)


class _PackedRows:
    """Rows of one list of a term. They are unpacked when they are read."""

    __slots__ = ("_data", "_first", "_width")

    def __init__(self, first: int, width: int, data: bytes) -> None:
        """`data` has the distances of the rows from the first, the highest byte first."""
        self._first = first
        self._width = width
        self._data = data

    def __len__(self) -> int:
        return len(self._data) // self._width

    def __iter__(self) -> Iterator[int]:
        distances = array.array(_CODES[self._width], self._data)
        if sys.byteorder == "little":
            distances.byteswap()
        return map(self._first.__add__, distances)


_CODES = {2: "H", 4: "I"}

_RowLists: TypeAlias = "list[_PackedRows | list[int]]"
"""Rows, in lists; the lists of one shelf come newest first."""


class _SideLists(NamedTuple):
    """The rows of one side that have the terms. Rare ones are visible, common ones may be hidden."""

    rare: dict[str, list[int]]
    common: dict[str, _RowLists]


class _TermLists:
    """Walks over the lists of terms on the shelves that a filter lets through."""

    def __init__(self, reader: _Reader, hidden: set[int], allowed: set[int], whole: set[int]) -> None:
        """`allowed` are the rows of the spans that are not whole streams; `whole` the streams that are."""
        sight = reader.sight
        self._reader = reader
        self._hidden = hidden
        self._allowed = allowed
        self._open: list[int] = []
        """Shelves that may be seen as a whole."""
        self._partial: list[int] = []
        opened = 0
        for shelf in sight.shelves.values():
            is_open = sight.is_open(shelf) or shelf.stream_no in whole
            opened += shelf.size if is_open else 0
            (self._open if is_open else self._partial).append(shelf.number)
        self.total = max(0, opened + len(allowed) - len(hidden))
        has_drafts = any(sight.shelves[number].stream_no for number in self._open)
        self.is_whole = not (sight.has_bounds or hidden or allowed or has_drafts)
        """All passages of the open shelves are visible, and no others; all are taken."""

    def _read_lists(self, shelves: Sequence[int], terms: Sequence[str]) -> Operation[dict[tuple[int, str], _RowLists]]:
        """Read the rows of each shelf and term."""
        found: dict[tuple[int, str], _RowLists] = {}
        tenant, of = self._reader.tenant, self._reader.sight.shelves
        drafts = [shelf for shelf in shelves if of[shelf].stream_no]
        taken = [shelf for shelf in shelves if not of[shelf].stream_no]
        if taken and terms:
            values = (*_pair_columns(taken, terms), tenant, _SCANNED_LISTS)
            for shelf, term, *packed in (yield Query(tenant, SQL["term_lists"], values)):
                found.setdefault((shelf, term), []).append(_PackedRows(*packed))
        if drafts and terms:
            wanted = (pack_integers(drafts), tenant, pack_texts(terms))
            for shelf, term, rows in (yield Query(tenant, SQL["draft_rows"], wanted)):
                found[shelf, term] = [rows]
        return found

    def find_rows(self, terms: Sequence[str]) -> Operation[tuple[dict[str, int], list[_SideLists]]]:
        """Find the rows with each term, for each side, and count them."""
        sides: list[dict[str, _RowLists]] = [{} for _ in range(SIDES)]
        for (shelf, term), lists in (yield from self._read_lists(self._open, terms)).items():
            sides[self._side(shelf)].setdefault(term, []).extend(lists)
        if self._allowed:
            for (shelf, term), lists in (yield from self._read_lists(self._partial, terms)).items():
                some = [row for rows in lists for row in self._allowed.intersection(rows)]
                sides[self._side(shelf)].setdefault(term, []).append(some)
        if self._reader.sight.has_bounds:
            every = {row for side in sides for lists in side.values() for rows in lists for row in rows}
            seen = yield from self._check_bounds(every)
            sides = [
                {term: [[row for rows in lists for row in rows if row in seen]] for term, lists in side.items()}
                for side in sides
            ]
        counts = dict.fromkeys(terms, 0)
        found = [self._divide(side, counts) for side in sides]
        return {term: count for term, count in counts.items() if count}, found

    def _divide(self, side: Mapping[str, _RowLists], counts: dict[str, int]) -> _SideLists:
        """Tell rare terms of a side from common ones, and count both."""
        found = _SideLists({}, {})
        hidden = self._hidden
        for term in counts:
            lists = side.get(term, ())
            count = sum(map(len, lists))
            rows: list[int] | None = None
            if count <= COMMON_ROWS + len(hidden):
                rows = [row for some in lists for row in some if row not in hidden]
            if rows is None or len(rows) > COMMON_ROWS:
                found.common[term] = [*lists]
                counts[term] += min(count, SCAN_ROWS)
            elif rows:
                found.rare[term] = rows
                counts[term] += len(rows)
        return found

    def score(self, side: _SideLists, counts: Mapping[str, int], limit: int) -> dict[int, float]:
        """Score the best rows of a side. Common terms only add to the scores of others, unless there are no others."""
        if not side.rare:
            newest = {term: self._newest(lists) for term, lists in side.common.items()}
            return keep_best(score_rows(newest, counts, self.total), limit)
        best = keep_best(score_rows(side.rare, counts, self.total), limit)
        wanted = frozenset(best)
        having = {
            term: [row for rows in lists for row in wanted.intersection(rows)] for term, lists in side.common.items()
        }
        for row, score in score_rows(having, counts, self.total).items():
            best[row] += score
        return best

    def _newest(self, lists: _RowLists) -> list[int]:
        rows = (row for some in lists for row in some if row not in self._hidden)
        return heapq.nlargest(COMMON_ROWS, rows)

    def _side(self, shelf: int) -> int:
        return side_of(self._reader.sight.shelves[shelf].role)

    def count_rows(self, terms: Sequence[str]) -> Operation[dict[str, int]]:
        """Count the rows with each term, where all of them are visible."""
        sides: list[dict[str, int]] = [{} for _ in range(SIDES)]
        tenant = self._reader.tenant
        if terms and self._open:
            values = (*_pair_columns(self._open, terms), tenant, _SCANNED_LISTS)
            for shelf, term, count in (yield Query(tenant, SQL["term_counts"], values)):
                side = sides[self._side(shelf)]
                side[term] = side.get(term, 0) + count
        most = count_limit(self.total)
        counts = {term: sum(min(side.get(term, 0), most) for side in sides) for term in terms}
        return {term: count for term, count in counts.items() if count}

    def _check_bounds(self, rows: set[int]) -> Operation[set[int]]:
        if not rows:
            return set()
        tenant, sees = self._reader.tenant, self._reader.sight.sees
        found = yield Query(tenant, SQL["bounds_of"], (pack_integers([*rows]), tenant))
        return {row for row, *bounds in found if sees(*bounds)}


def _pair_columns(shelves: Sequence[int], terms: Sequence[str]) -> tuple[Any, Any]:
    pairs = [(shelf, term) for term in terms for shelf in shelves]
    return pack_integers([shelf for shelf, _ in pairs]), pack_texts([term for _, term in pairs])


def _open_walk(reader: _Reader) -> Operation[_TermLists]:
    sight, tenant = reader.sight, reader.tenant
    whole: set[int] = set()
    if sight.spans:
        for number, low, high in (yield Query(tenant, SQL["end_seqs"], (pack_bigints([*sight.spans]), tenant))):
            ranges = sight.spans[number]
            if low is None or any(first <= low and high <= last for first, last in ranges):
                whole.add(number)
    hidden = yield from _read_span_rows(tenant, sight.hidden)
    taken_users = {shelf.user for shelf in sight.shelves.values() if not shelf.stream_no and not sight.is_open(shelf)}
    is_partial = bool(taken_users) or bool(sight.spans.keys() - whole)
    allowed = (yield from _read_span_rows(tenant, sight.spans)) if is_partial else set()
    return _TermLists(reader, hidden, allowed, whole)


def _read_span_rows(tenant: str, spans: Mapping[int, Sequence[tuple[int, int]]]) -> Operation[set[int]]:
    parts = [(number, first, last) for number, ranges in spans.items() for first, last in ranges]
    if not parts:
        return set()
    columns = [pack_bigints([common.clamp_position(value) for value in column]) for column in zip(*parts, strict=True)]
    return {row for (row,) in (yield Query(tenant, SQL["span_rows"], (*columns, tenant)))}


def passages_at(visible: PassageFilter, places: Sequence[NeighbourSpan], limit: int) -> Operation[tuple[Passage, ...]]:
    common.check_limit(limit)
    reader = yield from _open_reader(visible)
    own = [span for span in places if span.stream.tenant == visible.tenant]
    if not own:
        return ()
    columns = (
        pack_texts([common.stream_key(span.stream)[2] for span in own]),
        pack_bigints([common.clamp_position(span.first) for span in own]),
        pack_bigints([common.clamp_position(span.last) for span in own]),
    )
    found = yield Query(visible.tenant, SQL["passages_by_place"], (*columns, visible.tenant, visible.tenant))
    seen = {row[0]: row for row in found if reader.sees(row)}
    built = build_passages(visible.tenant, [*seen.values()][:limit], reader.sight.shelves)
    return tuple(built.values())


def read_passages(visible: PassageFilter, keys: Sequence[PassageKey]) -> Operation[tuple[Passage, ...]]:
    reader = yield from _open_reader(visible, (key.stream for key in keys))
    wanted = [
        (reader.numbers[key.stream], key.seq, key.part) for key in dict.fromkeys(keys) if key.stream in reader.numbers
    ]
    if not wanted:
        return ()
    streams, seqs, parts = zip(*wanted, strict=True)
    columns = (pack_bigints(streams), pack_bigints(seqs), pack_integers(parts))
    found = yield Query(visible.tenant, SQL["passages_by_key"], (*columns, visible.tenant, visible.tenant))
    seen = [row for row in found if reader.sees(row)]
    return tuple((build_passages(visible.tenant, seen, reader.sight.shelves)).values())


def recent_passages(visible: PassageFilter, limit: int) -> Operation[tuple[Passage, ...]]:
    """Newest first: a page of each shelf at a time, until there are enough."""
    common.check_limit(limit)
    reader = yield from _open_reader(visible)
    sees = reader.sight.sees
    size, rows = limit + 1, list[tuple[int, int]]()
    while reader.sight.shelves:
        values = (reader.shelf_nos, *reader.times, visible.tenant, size, 0)
        found = yield Query(visible.tenant, SQL["newest_of_shelves"], values)
        pages: dict[int, int] = {}
        for row in found:
            pages[row[4]] = pages.get(row[4], 0) + 1
        # a shelf with more passages than its page says nothing about the time before its page
        ends = [min(row[0] for row in found if row[4] == shelf) for shelf, count in pages.items() if count == size]
        known = max(ends, default=-limits.WHOLE_NUMBER)
        rows = [(row[0], row[1]) for row in found if row[0] >= known and sees(row[4], row[2], row[3], row[0])]
        if len(rows) >= limit or not ends:
            break
        size *= 4
    order = [row for _, row in rows[:limit]]
    loaded = yield from reader.load(order)
    return tuple(loaded[row] for row in order if row in loaded)


def passage_totals(visible: PassageFilter) -> Operation[PassageTotals]:
    reader = yield from _open_reader(visible)
    found = yield Query(visible.tenant, SQL["sizes_of_shelves"], (reader.shelf_nos, *reader.times, visible.tenant))
    return total_passages((row[1], row[4], row[3]) for row in found if reader.sight.sees(*row[:4]))


def unembedded_passages(tenant: str, embedder: str, limit: int) -> Operation[tuple[Passage, ...]]:
    common.check_limit(limit)
    found = yield Query(tenant, SQL["unembedded"], (embedder, limit, tenant, limit))
    numbers = pack_integers([*{row[4] for row in found}])
    shelves = map(build_shelf, (yield Query(tenant, SQL["shelves_by_number"], (numbers, tenant))))
    return tuple((build_passages(tenant, found, {shelf.number: shelf for shelf in shelves})).values())


def match_vectors(query: VectorQuery) -> Operation[tuple[tuple[Passage, float], ...]]:
    common.check_limit(query.limit)
    reader = yield from _open_reader(query.visible)
    sight, tenant = reader.sight, query.visible.tenant
    wanted = pack_vector(query.vector)
    best: list[tuple[float, int]] = []
    for shelf in sight.shelves:
        low, high = reader.times
        last = -1
        while True:
            values = (shelf, low, high, low, last, tenant, _VECTORS, query.embedder, tenant)
            found = yield Query(tenant, SQL["vectors_of_shelf"], values)
            vectors = [(row[0], row[5]) for row in found if row[5] is not None and sight.sees(*row[1:5])]
            best = heapq.nlargest(query.limit, [*best, *find_nearest(wanted, vectors, query.limit)])
            if len(found) < _VECTORS:
                break
            last, low = found[-1][0], found[-1][4]
    loaded = yield from reader.load([row for _, row in best])
    return tuple((loaded[row], cosine) for cosine, row in best if row in loaded)


# Deliveries


def claim_offloads(tenant: str, owner: str, now_us: int, lease_us: int, limit: int) -> Operation[tuple[Delivery, ...]]:
    common.check_limit(limit)

    def run() -> Operation[tuple[Delivery, ...]]:
        values = (tenant, _plain(owner), now_us, lease_us, limit)
        found = yield Query(tenant, SQL["claim"], values, sets_tenant=True)
        return tuple(map(_build_delivery, found))

    return (yield from _repeat(run))


def deliveries(tenant: str, set_aside: bool | None, limit: int) -> Operation[tuple[Delivery, ...]]:
    common.check_limit(limit)
    found = yield Query(tenant, SQL["pending"], (tenant, set_aside, set_aside, limit))
    return tuple(map(_build_delivery, found))


def renew_offload(delivery: Delivery) -> Operation[bool]:
    values = (delivery.until_us, *_delivery_key(delivery), _plain(delivery.owner), delivery.attempts)
    return bool((yield Query(delivery.offload.scope.tenant, SQL["renew"], values)))


def release_offload(delivery: Delivery) -> Operation[bool]:
    outcome = (delivery.next_us, _plain(delivery.error), delivery.is_set_aside)
    values = (*outcome, *_delivery_key(delivery), _plain(delivery.owner), delivery.attempts)
    return bool((yield Query(delivery.offload.scope.tenant, SQL["release"], values)))


def requeue_offload(delivery: Delivery, now_us: int) -> Operation[None]:
    yield Query(delivery.offload.scope.tenant, SQL["requeue"], (*_delivery_key(delivery), now_us))


def _build_delivery(row: Sequence[Any]) -> Delivery:
    width = len(OutboxRow.__struct_fields__)
    owner, until_us, attempts, next_us, error, is_set_aside = row[width:]
    return Delivery(
        offload=codec.build_offload(row_of(OutboxRow, row[:width])),
        owner=owner,
        until_us=until_us,
        attempts=attempts,
        next_us=next_us,
        error=error,
        is_set_aside=is_set_aside,
    )


def _delivery_key(delivery: Delivery) -> tuple[str | int, ...]:
    return (*delivery.offload.scope.columns.values(), delivery.offload.entry)
