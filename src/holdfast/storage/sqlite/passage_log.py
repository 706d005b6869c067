"""Passages on the writing connection: they are stored, taken, removed and given vectors inside its transactions.

Laws: the words of a passage are in the index under the number of its shelf, and nowhere else. A removed passage leaves the
index with the commit that removes it: the index is merged, which drops the bytes of its words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import apsw
import msgspec

from holdfast import codec
from holdfast.errors import VersionConflict
from holdfast.model.log import StreamHead
from holdfast.model.memory.passages import (
    IndexedPassage,
    IndexMark,
    MemorySubject,
    PassageBatch,
    PassageKey,
    StreamSpan,
)
from holdfast.model.memory.recall import ForgetReport
from holdfast.model.names import StreamId
from holdfast.storage import passages
from holdfast.storage.sql import load_statements
from holdfast.storage.sqlite.connections import FOLDER
from holdfast.storage.vectors import pack_vector

SQL = load_statements(FOLDER, "passages.sql")


def to_json(value: object) -> str:
    return codec.encode(value).decode()


def read_mark(connection: apsw.Connection, stream_no: int) -> IndexMark | None:
    for version, form, places, user, speaker, permissions in connection.execute(SQL["mark"], (stream_no,)):
        return IndexMark(
            version=version,
            format=form,
            places=places,
            user=user,
            speaker=speaker,
            permissions=tuple(msgspec.json.decode(permissions, type=list[str])),
        )
    return None


class PassageLog:
    """The passages of a file, for its writing connection."""

    def __init__(self, connection: apsw.Connection, find_head: Callable[[StreamId], tuple[int, StreamHead]]) -> None:
        self._connection = connection
        self._find_head = find_head
        self.needs_purge = False
        """Passages were removed: the index still has their words, marked as deleted."""

    def finish(self) -> None:
        """Drop the words of removed passages, before the commit."""
        if self.needs_purge:
            self._run(SQL["purge_passage_words"])
            self.needs_purge = False

    def index(self, batch: PassageBatch) -> bool:
        stream_no, head = self._find_head(batch.stream)
        if read_mark(self._connection, stream_no) != batch.before:
            return False
        if batch.mark.version > head.version:
            raise VersionConflict(stream=batch.stream, expected=batch.mark.version, actual=head.version)
        seqs = to_json(sorted({each.passage.seq for each in batch.passages}))
        live = {seq for (seq,) in self._run(SQL["live_seqs"], (stream_no, seqs))}
        taken: set[int] = set()
        for row_no, seq, is_taken in self._run(
            SQL["covered_passages"], (stream_no, batch.start + 1, batch.mark.version)
        ).fetchall():
            taken |= {seq} if is_taken else set()
            self._run(SQL["drop_passage"], (row_no,))
        kept = [each for each in batch.passages if each.passage.seq in live]
        self._replace(stream_no, kept, taken)
        mark = batch.mark
        values = (mark.version, mark.format, mark.places, mark.user, mark.speaker, to_json(mark.permissions))
        self._run(SQL["put_mark"], (stream_no, *values))
        return True

    def adopt(self, indexed: Sequence[IndexedPassage]) -> None:
        by_stream: dict[StreamId, list[IndexedPassage]] = {}
        for each in indexed:
            by_stream.setdefault(each.passage.scope.stream, []).append(each)
        for stream, some in by_stream.items():
            stream_no, _ = self._find_head(stream)
            if not stream_no:
                raise VersionConflict(stream=stream, expected=some[0].passage.seq, actual=0)
            self._replace(stream_no, some, {each.passage.seq for each in some})

    def _replace(self, stream_no: int, indexed: Sequence[IndexedPassage], taken: Collection[int]) -> None:
        """Put passages in the place of those with the same keys. Those of the events in `taken` are taken, as were those
        before."""
        keys = {(each.passage.seq, each.passage.part) for each in indexed}
        was_taken = {*taken}
        seqs = to_json(sorted({seq for seq, _ in keys}))
        for row_no, seq, part, is_taken in self._run(SQL["passages_of_seqs"], (stream_no, seqs)).fetchall():
            was_taken |= {seq} if is_taken else set()
            if (seq, part) in keys:
                self._run(SQL["drop_passage"], (row_no,))
        shelves: dict[tuple[Any, ...], int] = {}
        for each in indexed:
            self._add(stream_no, each, shelves, is_taken=each.passage.is_taken or each.passage.seq in was_taken)

    def _add(
        self, stream_no: int, indexed: IndexedPassage, shelves: dict[tuple[Any, ...], int], *, is_taken: bool
    ) -> None:
        passage = indexed.passage
        requires = to_json(passage.requires) if passage.requires else ""
        labels = (passage.role, passage.kind, requires)
        shelf_no = self._find_shelf((passage.scope.tenant, passage.user, stream_no, *labels), shelves)
        if is_taken:
            shelf_no = self._find_shelf((passage.scope.tenant, passage.user, 0, *labels), shelves)
        self._run(
            SQL["add_passage"],
            (
                *(stream_no, passage.seq, passage.part, shelf_no, passage.time_us, passage.place, passage.start),
                *(passage.speaker, passage.frame, passage.handle, passage.text),
            ),
        )
        terms = dict.fromkeys(filter(str.isalnum, indexed.terms))
        self._add_words(self._connection.last_insert_rowid(), shelf_no, terms)

    def _add_words(self, row_no: int, shelf_no: int, terms: Iterable[str]) -> None:
        self._run(SQL["add_words"], (row_no, " ".join(f"{shelf_no}x{term}" for term in terms)))

    def _find_shelf(self, names: tuple[Any, ...], shelves: dict[tuple[Any, ...], int]) -> int:
        if names not in shelves:
            found = self._run(SQL["find_shelf"], names).get
            if found is None:
                self._run(SQL["add_shelf"], names)
                found = self._connection.last_insert_rowid()
            shelves[names] = found
        return shelves[names]

    def take(self, span: StreamSpan, hidden: Sequence[StreamSpan]) -> int:
        stream_no, _ = self._find_head(span.stream)
        found = self._run(SQL["span_passages"], (stream_no, span.first, span.last)).fetchall()
        found = [row for row in found if not passages.is_hidden(hidden, span.stream, row[1])]
        waiting = [(row_no, shelf_no) for row_no, _, shelf_no, is_taken in found if not is_taken]
        terms = self._read_terms({shelf_no for _, shelf_no in waiting})
        homes: dict[int, int] = {}
        shelves: dict[tuple[Any, ...], int] = {}
        last: int = self._run(SQL["last_row"]).get
        for row_no, shelf_no in waiting:  # side by side, so that the rows of a session are a range
            if shelf_no not in homes:
                tenant, user, *labels = self._run(SQL["shelf"], (shelf_no,)).get
                homes[shelf_no] = self._find_shelf((tenant, user, 0, *labels), shelves)
            last += 1
            self._run(SQL["drop_words"], (row_no,))
            self._run(SQL["move_passage"], (last, homes[shelf_no], row_no))
            self._add_words(last, homes[shelf_no], terms.get(row_no, ()))
        if waiting:
            self._run(SQL["set_last_row"], (last,))
        return len(found)

    def _read_terms(self, shelf_nos: Iterable[int]) -> dict[int, list[str]]:
        """The terms of the passages on these shelves, by their rows, as the index has them."""
        terms: dict[int, list[str]] = {}
        for shelf_no in shelf_nos:
            prefix = f"{shelf_no}x"
            for row_no, term in self._run(SQL["terms_of_shelf"], (prefix, f"{shelf_no}y")):
                terms.setdefault(row_no, []).append(term.removeprefix(prefix))
        return terms

    def erase(self, stream_no: int, seqs: Sequence[int], keep_taken: Sequence[int]) -> None:
        """Remove the passages of erased events, but not taken ones of those in `keep_taken`. The mark goes too: it has the
        identity after its event."""
        before = self._connection.total_changes()
        shelves = [shelf_no for (shelf_no,) in self._run(SQL["shelves_of_stream"], (stream_no,))]
        self._run(SQL["erase_passages"], (stream_no, to_json([*{*seqs} - {*keep_taken}]), False))
        self._run(SQL["erase_passages"], (stream_no, to_json([*keep_taken]), True))
        if self._connection.total_changes() != before:
            self._drop_shelves(stream_no, shelves)
            self.needs_purge = True
        self._run(SQL["drop_mark"], (stream_no,))

    def _drop_shelves(self, stream_no: int, shelves: Sequence[int]) -> None:
        self._run(SQL["drop_stream_shelves"], (stream_no,))
        self._run(SQL["drop_empty_shelves"], (to_json(shelves),))

    def forget(self, subject: MemorySubject) -> ForgetReport:
        before = self._count(subject)
        if subject.scope is None:
            names = (subject.tenant, subject.user)
            streams = [stream_no for (stream_no,) in self._run(SQL["streams_of_user"], names)]
            self._run(SQL["forget_user"], names)
            self._run(SQL["drop_user_shelves"], names)
        else:
            stream_no, _ = self._find_head(subject.scope.stream)
            streams = [stream_no]
            shelves = [shelf_no for (shelf_no,) in self._run(SQL["shelves_of_stream"], (stream_no,))]
            if subject.seqs:
                self._run(SQL["erase_passages"], (stream_no, to_json(subject.seqs), False))
            else:
                self._run(SQL["forget_stream"], (stream_no,))
            self._drop_shelves(stream_no, shelves)
        for stream_no in streams:
            self._run(SQL["drop_mark"], (stream_no,))
        self.needs_purge = True
        residue = self._count(subject)
        return ForgetReport(passages=before - residue, residue=residue)

    def _count(self, subject: MemorySubject) -> int:
        if subject.scope is None:
            return int(self._run(SQL["count_user"], (subject.tenant, subject.user)).get)
        stream_no, head = self._find_head(subject.scope.stream)
        if subject.seqs:
            return len(self._run(SQL["passages_of_seqs"], (stream_no, to_json(subject.seqs))).fetchall())
        return len(self._run(SQL["span_rows"], (stream_no, 0, head.version)).fetchall())

    def put_vectors(self, embedder: str, vectors: Sequence[tuple[PassageKey, Sequence[float]]]) -> None:
        self._run(SQL["add_embedder"], (embedder,))
        embedder_no = self._run(SQL["embedder"], (embedder,)).get
        for key, vector in vectors:
            stream_no, _ = self._find_head(key.stream)
            for (row_no,) in self._run(SQL["row_of_key"], (stream_no, key.seq, key.part)).fetchall():
                self._run(SQL["put_vector"], (embedder_no, row_no, pack_vector(vector)))

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        return self._connection.execute(statement, values)
