"""The chunks of JSON bodies: large values, and runs of the elements of long lists. Pure.

Laws: `join_body` gives back what `split_body` was given. The same content gives the same chunks. Where a run or a row of
chunks ends depends only on the elements themselves: a list that grows, or loses its oldest elements, shares all but the
ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast import codec
from holdfast.model import limits
from holdfast.model.content import BlobRef, Json
from holdfast.model.entries.commands import ChunkDraft, JsonDraft, PartDraft
from holdfast.model.entries.entry import Chunk, ChunkRef, SharedPart

JSON_TYPE = "application/json"
_PART_BYTES = 64
"""The approximate size of a part that is stored in chunks, where it is referred to."""
_LARGEST = 4
"""Times the average that a run, or a row of chunks, may have."""


class SplitBody(NamedTuple):
    """A JSON body, its chunks, and the bodies that belong into the blob store."""

    draft: JsonDraft
    chunks: dict[str, ChunkDraft]
    """By digest; each after the chunks that it needs."""
    blobs: dict[str, bytes]
    """By the digest of the chunk."""
    digest: str
    size: int


class _Piece(NamedTuple):
    """A value without the parts that are stored in chunks."""

    value: Json
    parts: tuple[PartDraft, ...]
    size: int


def split_body(value: Json) -> SplitBody:
    """A JSON value, with large values and long lists taken out of it."""
    encoded = codec.encode(value)
    splitter = _Splitter()
    piece = splitter.split(value, len(encoded))
    if piece.size > limits.SPOOL_BYTES:
        piece = splitter.lift(piece)
    return SplitBody(
        JsonDraft(piece.value, piece.parts),
        splitter.chunks,
        splitter.blobs,
        hashlib.sha256(encoded).hexdigest(),
        len(encoded),
    )


class _Splitter:
    def __init__(self) -> None:
        self.chunks: dict[str, ChunkDraft] = {}
        self.blobs: dict[str, bytes] = {}

    def split(self, value: Json, size: int) -> _Piece:
        """A value of this size, without its large parts."""
        if size <= limits.SHARED_BYTES or not isinstance(value, dict | list):
            return _Piece(value, (), size)
        if isinstance(value, dict):
            return self._split_items(dict(value), value.items())
        if len(value) < limits.SHARED_ELEMENTS:
            return self._split_items(list(value), enumerate(value))
        return self._split_list(value)

    def _split_items(self, container: Any, items: Any) -> _Piece:
        """An object or a short list: each large item is a chunk."""
        parts: list[PartDraft] = []
        size = 2
        for name, item in items:
            piece = self._place(item)
            container[name] = piece.value
            parts += (PartDraft((name, *each.path), each.digests, each.is_list) for each in piece.parts)
            size += piece.size + 2 + (len(codec.encode(name)) if isinstance(name, str) else 0)
        return _Piece(container, tuple(parts), size)

    def _place(self, value: Json) -> _Piece:
        """A value inside another: itself if it is small, else a reference to its chunk."""
        piece = self.split(value, len(codec.encode(value)))
        return self.lift(piece) if piece.size > limits.SHARED_BYTES else piece

    def lift(self, piece: _Piece) -> _Piece:
        """Store a value as a chunk."""
        digest = self._store("value", piece.value, piece.parts, piece.size)
        return _Piece(None, (PartDraft((), (digest,)),), _PART_BYTES)

    def _split_list(self, elements: Sequence[Json]) -> _Piece:
        """A long list: runs of elements are chunks, except for the last run, which is not complete."""
        runs: list[str] = []
        run: list[Json] = []
        parts: list[PartDraft] = []
        size = 0
        for element in elements:
            piece = self._place(element)
            parts += (PartDraft((len(run), *each.path), each.digests, each.is_list) for each in piece.parts)
            run.append(piece.value)
            size += piece.size
            if size >= _LARGEST * limits.RUN_BYTES or _ends_run(piece):
                runs.append(self._store("run", run, tuple(parts), size))
                run, parts, size = [], [], 0
        refs = self._store_rows(runs)
        if refs:
            parts.append(PartDraft((), refs, is_list=True))
        return _Piece(run, tuple(parts), size + _PART_BYTES // 4 * len(refs))

    def _store_rows(self, runs: Sequence[str]) -> tuple[str, ...]:
        """The chunks that list these, highest first: rows of rows, and the last of each level that are in no row."""
        levels: list[Sequence[str]] = []
        while runs:
            rows: list[str] = []
            start = 0
            for at, digest in enumerate(runs):
                count = at + 1 - start
                if count == _LARGEST * limits.NODE_RUNS or (count > 1 and _ends_row(digest)):
                    rows.append(self._store_row(tuple(runs[start : at + 1])))
                    start = at + 1
            levels.append(runs[start:])
            runs = rows
        return tuple(digest for level in reversed(levels) for digest in level)

    def _store_row(self, children: tuple[str, ...]) -> str:
        digest = _digest_of(("row", children))
        draft = ChunkDraft(digest=digest, children=children, size=_PART_BYTES // 4 * len(children))
        self.chunks.setdefault(digest, draft)
        return digest

    def _store(self, form: str, value: Json, parts: tuple[PartDraft, ...], size: int) -> str:
        digest = _digest_of((form, value, parts))
        if digest not in self.chunks:
            ref: BlobRef | None = None
            if size > limits.SPOOL_BYTES:
                encoded = codec.encode(value)
                self.blobs[digest] = encoded
                ref = BlobRef(hashlib.sha256(encoded).hexdigest(), len(encoded), JSON_TYPE)
                value, size = None, _PART_BYTES * len(parts)
            self.chunks[digest] = ChunkDraft(digest=digest, value=value, parts=parts, ref=ref, size=size)
        return digest


def _digest_of(content: object) -> str:
    return hashlib.sha256(codec.encode(content)).hexdigest()


def _ends_run(piece: _Piece) -> bool:
    """Whether a run ends after this element: more likely after a large one, so that runs have RUN_BYTES on average."""
    content = codec.encode((piece.value, piece.parts))
    return int.from_bytes(hashlib.sha256(content).digest()[:4]) * limits.RUN_BYTES < piece.size << 32


def _ends_row(digest: str) -> bool:
    return int(digest[:8], 16) * limits.NODE_RUNS < 1 << 32


class ChunkContent(NamedTuple):
    """A chunk as it was read; its value also if that is in the blob store."""

    chunk: Chunk
    encoded: bytes
    """The value, as JSON."""


def join_body(value: Json, parts: Sequence[SharedPart], find: Callable[[ChunkRef], ChunkContent]) -> Json:
    """The whole value. It may change `value`, and shares nothing with other values."""
    for part in parts:
        if part.is_list:
            elements = [element for ref in part.refs for element in _join_elements(ref, find)]
            value = _replace_at(value, part.path, [*elements, *_value_at(value, part.path)])
        else:
            value = _replace_at(value, part.path, _join_chunk(find(part.refs[0]), find))
    return value


def _join_chunk(content: ChunkContent, find: Callable[[ChunkRef], ChunkContent]) -> Any:
    return join_body(codec.decode(content.encoded, object), content.chunk.parts, find)  # type: ignore[arg-type]


def _join_elements(ref: ChunkRef, find: Callable[[ChunkRef], ChunkContent]) -> list[Any]:
    content = find(ref)
    if not content.chunk.children:
        run: list[Any] = _join_chunk(content, find)
        return run
    return [element for child in content.chunk.children for element in _join_elements(child, find)]


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _replace_at(value: Any, path: Sequence[str | int], new: Any) -> Any:
    if not path:
        return new
    _value_at(value, path[:-1])[path[-1]] = new
    return value
