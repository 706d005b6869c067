"""Search passages with FTS5.

Laws: a query of the index names the shelves that may be seen, so it walks over nothing else. Common terms only add to
scores.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apsw

from holdfast.model import limits
from holdfast.model.memory.passages import (
    NeighbourSpan,
    Passage,
    PassageFilter,
    PassageKey,
    PassageMatches,
    PassageQuery,
    PassageTotals,
    VectorQuery,
)
from holdfast.model.names import Scope, StreamId
from holdfast.storage import common
from holdfast.storage.passages import (
    COMMON_ROWS,
    SCAN_ROWS,
    SIDES,
    Shelf,
    Sight,
    build_shelf,
    count_limit,
    keep_best,
    score_rows,
    share_limit,
    side_of,
    total_passages,
)
from holdfast.storage.sqlite.log import read_head
from holdfast.storage.sqlite.passage_log import SQL, to_json
from holdfast.storage.vectors import find_nearest, pack_vector

_TIMES = (-limits.WHOLE_NUMBER, limits.WHOLE_NUMBER)


class PassageReader:
    """Reads of the passages that a filter lets through."""

    def __init__(self, connection: apsw.Connection, visible: PassageFilter) -> None:
        self._connection = connection
        streams = {span.stream for span in (*visible.spans, *visible.hidden) if span.stream.tenant == visible.tenant}
        numbers = {stream: read_head(connection, stream)[0] for stream in streams}
        numbers = {stream: number for stream, number in numbers.items() if number}
        shelves: dict[int, Shelf] = {}
        if visible.user:
            shelves |= self._read_shelves("user_shelves", (visible.tenant, visible.user))
        for stream in {span.stream for span in visible.spans} & numbers.keys():
            shelves |= self._read_shelves("stream_shelves", (numbers[stream],))
            shelves |= self._read_shelves("taken_shelves", (numbers[stream],))
        sessions: set[int] | None = None
        if visible.sessions:
            names = (visible.tenant, to_json(visible.sessions))
            sessions = {number for (number,) in connection.execute(SQL["named_sessions"], names)}
        self._sight = Sight(visible, numbers, shelves.values(), sessions)
        bounds = (visible.since_us, visible.until_us)
        self._times = tuple(
            default if bound is None else common.clamp_position(bound)
            for bound, default in zip(bounds, _TIMES, strict=True)
        )
        self._streams: dict[int, Scope] = {}
        self._shelves = dict(self._sight.shelves)

    def _read_shelves(self, statement: str, values: tuple[Any, ...]) -> dict[int, Shelf]:
        found = self._connection.execute(SQL[statement], values)
        return {row[0]: build_shelf(row) for row in found}

    def match(self, query: PassageQuery, terms: Sequence[str]) -> PassageMatches:
        walk = _IndexWalk(self._connection, self._sight)
        counts: dict[str, int] = {}
        if not query.limit and walk.is_whole:
            return PassageMatches(passages=(), counts=walk.count_rows(terms), total=walk.total)
        sides = [walk.find_rows(side, terms, counts) for side in range(SIDES)]
        counts = {term: count for term, count in counts.items() if count}
        scores = []
        for side, found in enumerate(sides):
            scored = score_rows(found.rare, counts, walk.total)
            if found.common and scored:
                scored = keep_best(scored, query.limit)
                having = walk.score_common(side, found, scored)
                for row, score in score_rows(having, counts, walk.total).items():
                    scored[row] += score
            elif found.common:
                scored = score_rows(found.common, counts, walk.total)
            scores.append(keep_best(scored, query.limit))
        best = share_limit(scores, query.limit)
        found_passages = self.load(best)
        return PassageMatches(
            passages=tuple(found_passages[row] for row in best if row in found_passages),
            counts=counts,
            total=walk.total,
        )

    def at(self, places: Sequence[NeighbourSpan], limit: int) -> tuple[Passage, ...]:
        found: dict[int, tuple[Any, ...]] = {}
        for span in places:
            number = self._number(span.stream)
            rows = self._connection.execute(SQL["passages_by_place"], (number, span.first, span.last))
            found |= {row[0]: row for row in rows if self._sees(row)}
            if len(found) >= limit:
                break
        return tuple(self._build(row) for row in [*found.values()][:limit])

    def read(self, keys: Sequence[PassageKey]) -> tuple[Passage, ...]:
        found: list[Passage] = []
        for key in dict.fromkeys(keys):
            rows = self._connection.execute(
                SQL["passages_by_key"], (self._number(key.stream), key.seq, key.part)
            ).fetchall()
            found += (self._build(row) for row in rows if self._sees(row))
        return tuple(found)

    def newest(self, limit: int) -> tuple[Passage, ...]:
        """Newest first: the shelves are read side by side until there are enough."""
        cursors = [
            self._connection.cursor().execute(SQL["newest_of_shelf"], (number, *self._times))
            for number in self._sight.shelves
        ]
        rows: list[int] = []
        sees = self._sight.sees
        for time_us, row_no, stream_no, seq, shelf_no in heapq.merge(*cursors, reverse=True):
            if sees(shelf_no, stream_no, seq, time_us):
                rows.append(row_no)
                if len(rows) == limit:
                    break
        for cursor in cursors:
            cursor.close()
        found = self.load(rows)
        return tuple(found[row] for row in rows)

    def totals(self) -> PassageTotals:
        return total_passages(self._iter_sizes())

    def _iter_sizes(self) -> Iterator[tuple[int, int, int]]:
        sees = self._sight.sees
        for number in self._sight.shelves:
            found = self._connection.execute(SQL["sizes_of_shelf"], (number, *self._times))
            for shelf_no, stream_no, seq, time_us, size in found:
                if sees(shelf_no, stream_no, seq, time_us):
                    yield stream_no, size, time_us

    def nearest(self, query: VectorQuery) -> tuple[tuple[Passage, float], ...]:
        embedder_no = self._connection.execute(SQL["embedder"], (query.embedder,)).get
        if embedder_no is None:
            return ()
        best = find_nearest(pack_vector(query.vector), self._iter_vectors(embedder_no), query.limit)
        found = self.load([row for _, row in best])
        return tuple((found[row], cosine) for cosine, row in best)

    def _iter_vectors(self, embedder_no: int) -> Iterator[tuple[int, bytes]]:
        sees = self._sight.sees
        for number in self._sight.shelves:
            rows = self._connection.execute(SQL["vectors_of_shelf"], (number, embedder_no, *self._times))
            for row_no, shelf_no, stream_no, seq, time_us, vector in rows:
                if sees(shelf_no, stream_no, seq, time_us):
                    yield row_no, vector

    def _number(self, stream: StreamId) -> int:
        return read_head(self._connection, stream)[0] if stream.tenant == self._sight.visible.tenant else 0

    def _sees(self, row: Sequence[Any]) -> bool:
        return self._sight.sees(row[4], row[1], row[2], row[5])

    def load(self, rows: Iterable[int]) -> dict[int, Passage]:
        """Return passages by their rows, visible or not."""
        found: list[Any] = self._connection.execute(SQL["passages_by_row"], (to_json([*rows]),)).fetchall()
        self._load_streams({row[1] for row in found})
        return {row[0]: self._build(row) for row in found}

    def _load_streams(self, numbers: set[int]) -> None:
        unknown = to_json([*(numbers - self._streams.keys())])
        for number, *names in self._connection.execute(SQL["streams_of"], (unknown,)):
            self._streams[number] = Scope.from_stream(common.stream_of(*names))

    def _build(self, row: Sequence[Any]) -> Passage:
        _, stream_no, seq, part, shelf_no, time_us, place, start, speaker, frame, handle, text = row
        if stream_no not in self._streams:
            self._load_streams({stream_no})
        if shelf_no not in self._shelves:
            self._shelves |= self._read_shelves("shelves_by_number", (shelf_no,))
        shelf = self._shelves[shelf_no]
        return Passage(
            scope=self._streams[stream_no],
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


def read_unembedded(connection: apsw.Connection, tenant: str, embedder: str, limit: int) -> tuple[Passage, ...]:
    """Return taken passages without a vector, oldest first."""
    number = connection.execute(SQL["embedder"], (embedder,)).get or 0
    rows = [row for (row,) in connection.execute(SQL["unembedded"], (tenant, number, limit))]
    found = PassageReader(connection, PassageFilter(tenant=tenant)).load(rows)
    return tuple(found[row] for row in rows)


class _SideRows:
    """The rows of one side that have the terms."""

    def __init__(self) -> None:
        self.rare: dict[str, list[int]] = {}
        self.common: dict[str, list[int]] = {}
        """The newest of them."""


class _IndexWalk:
    """Walks over the lists of terms on the shelves that a filter lets through."""

    def __init__(self, connection: apsw.Connection, sight: Sight) -> None:
        self._connection = connection
        self._sight = sight
        self._hidden = self._rows_of(sight.hidden)
        span_rows: set[int] | None = None
        self._open: list[list[Shelf]] = [[] for _ in range(SIDES)]
        """Shelves that may be seen as a whole, for each side."""
        self._partial: list[list[Shelf]] = [[] for _ in range(SIDES)]
        whole = {number for number, spans in sight.spans.items() if self._covers(number, spans)}
        for shelf in sight.shelves.values():
            is_open = sight.is_open(shelf) or shelf.stream_no in whole
            (self._open if is_open else self._partial)[side_of(shelf.role)].append(shelf)
        if any(self._partial):
            span_rows = self._rows_of(sight.spans)
        self._allowed = span_rows or set()
        opened = sum(shelf.size for side in self._open for shelf in side)
        self.total = max(0, opened + len(self._allowed) - len(self._hidden))
        """How many passages are visible, roughly."""
        self.is_whole = not (sight.has_bounds or self._hidden or self._allowed)
        """All passages of the open shelves are visible, and no others."""

    def count_rows(self, terms: Sequence[str]) -> dict[str, int]:
        """Count the rows with each term, where all of them are visible."""
        counts: dict[str, int] = {}
        most = count_limit(self.total)
        for term in terms:
            queries = filter(None, (_match_query(shelves, term) for shelves in self._open))
            counts[term] = sum(self._connection.execute(SQL["count_with"], (query, most)).get for query in queries)
        return {term: count for term, count in counts.items() if count}

    def _rows_of(self, spans: dict[int, list[tuple[int, int]]]) -> set[int]:
        found: set[int] = set()
        for number, ranges in spans.items():
            for first, last in ranges:
                found.update(row for (row,) in self._connection.execute(SQL["span_rows"], (number, first, last)))
        return found

    def _covers(self, number: int, spans: Sequence[tuple[int, int]]) -> bool:
        low, high = self._connection.execute(SQL["end_seqs"], (number,)).get
        return low is None or any(first <= low and high <= last for first, last in spans)

    def find_rows(self, side: int, terms: Sequence[str], counts: dict[str, int]) -> _SideRows:
        """Find the rows with each term, and add their numbers to the counts."""
        found = _SideRows()
        for term in terms:
            rows = self._rows_with(side, term)
            count = len(rows)
            if count > COMMON_ROWS:
                found.common[term] = rows[:COMMON_ROWS]
                query = _match_query(self._open[side], term)
                if query and not self._sight.has_bounds:
                    count = max(count, self._connection.execute(SQL["count_with"], (query, SCAN_ROWS)).get)
            elif rows:
                found.rare[term] = rows
            counts[term] = counts.get(term, 0) + count
        return found

    def _rows_with(self, side: int, term: str) -> list[int]:
        most = SCAN_ROWS if self._sight.has_bounds else COMMON_ROWS + 1 + len(self._hidden)
        rows: list[int] = []
        if query := _match_query(self._open[side], term):
            rows = [row for (row,) in self._connection.execute(SQL["rows_with"], (query, most))]
        if self._allowed and (query := _match_query(self._partial[side], term)):
            bounds = (query, min(self._allowed), max(self._allowed), SCAN_ROWS)
            some = self._connection.execute(SQL["rows_with_between"], bounds)
            rows += (row for (row,) in some if row in self._allowed)
        if self._hidden:
            rows = [row for row in rows if row not in self._hidden]
        if self._sight.has_bounds and rows:
            sees = self._sight.sees
            found = self._connection.execute(SQL["bounds_of"], (to_json(rows),))
            rows = [row for row, *bounds in found if sees(*bounds)]
        return rows

    def score_common(self, side: int, found: _SideRows, rows: dict[int, float]) -> dict[str, list[int]]:
        """Return which of the candidates have each common term."""
        shelves = (*self._open[side], *self._partial[side])
        rare = " OR ".join(_match_query(shelves, term) for term in found.rare)
        having: dict[str, list[int]] = {}
        for term in found.common:
            query = f"({rare}) AND ({_match_query(shelves, term)})"
            matching = self._connection.execute(SQL["rows_with"], (query, SCAN_ROWS))
            having[term] = [row for (row,) in matching if row in rows]
        return having


def _match_query(shelves: Iterable[Shelf], term: str) -> str:
    """Return a query of FTS5 for a term on these shelves. A term has letters and digits only, so no quoting is needed."""
    return " OR ".join(f'"{shelf.number}x{term}"' for shelf in shelves)
