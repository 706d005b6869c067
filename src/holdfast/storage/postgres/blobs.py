"""Blobs in the database, so that every process on every machine can read them. Stored in pieces, each compressed.

Laws: a body has a name only when all of it is committed. A body is checked against its size and digest when it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from holdfast import errors
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.storage.blobs.compression import (
    BodyChecker,
    ZstdError,
    check_blob_size,
    check_digest,
    compress_piece,
    damage_error,
    decompress_piece,
)
from holdfast.storage.postgres.log import SQL, Operation, Query
from holdfast.storage.postgres.store import PostgresStore

PIECE_BYTES = limits.BLOB_CHUNK_BYTES


class PostgresBlobs:
    """A blob store on the connections of the event store."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def writer(self, tenant: str) -> PostgresBlobWriter:
        return PostgresBlobWriter(self._query, tenant)

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        rows = self._query(tenant, "blob", (tenant, check_digest(ref.digest)))
        if not rows:
            raise errors.BlobNotFound(tenant=tenant, digest=ref.digest)
        return self._chunks(tenant, ref, rows[0][0])

    def _chunks(self, tenant: str, ref: BlobRef, body: int) -> Iterator[bytes]:
        checker = BodyChecker(ref)
        number = 0
        while pieces := self._query(tenant, "piece", (tenant, body, number)):
            try:
                piece = decompress_piece(pieces[0][0])
            except ZstdError as error:
                raise damage_error(ref, str(error)) from error
            checker.add(piece)
            number += 1
            if piece:
                yield piece
        if self._query(tenant, "blob", (tenant, ref.digest)) != [(body,)]:
            raise errors.BlobNotFound(tenant=tenant, digest=ref.digest)  # dropped meanwhile
        checker.finish()

    def stored(self) -> Iterator[tuple[str, str, float]]:
        after = ("", "")
        while page := self._query(None, "blobs", (*after, limits.READ_EVENTS)):
            yield from page
            after = page[-1][:2]

    def drop(self, tenant: str, digest: str, *, unless_put_after_s: float) -> bool:
        self._query(tenant, "drop_blob", (tenant, check_digest(digest), unless_put_after_s))
        return not self._query(tenant, "blob", (tenant, digest))

    def sweep(self, *, before_s: float) -> int:
        return len(self._query(None, "sweep_bodies", (before_s,)))

    def _query(self, tenant: str | None, name: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        def operation(_: bool) -> Operation[list[tuple[Any, ...]]]:
            return (yield Query(tenant, SQL[name], values))

        return self._store.run(operation)


class PostgresBlobWriter:
    """Hashes and compresses a body. Pieces are stored at once, under a number without a name."""

    def __init__(self, query: Callable[[str | None, str, tuple[Any, ...]], list[tuple[Any, ...]]], tenant: str) -> None:
        self._query = query
        self._tenant = tenant
        self._hash = hashlib.sha256()
        self._size = self._pieces = 0
        self._buffer = bytearray()
        self._closed = False
        self._body: int | None = None

    def write(self, chunk: bytes) -> None:
        self._check_open()
        self._size += len(chunk)
        try:
            check_blob_size(self._size)
        except errors.TooLarge:
            self.abort()
            raise
        self._hash.update(chunk)
        self._buffer += chunk
        while len(self._buffer) >= PIECE_BYTES:
            self._put(bytes(self._buffer[:PIECE_BYTES]))
            del self._buffer[:PIECE_BYTES]

    def commit(self, media_type: str | None = None) -> BlobRef:
        self._check_open()
        digest = self._hash.hexdigest()
        if self._query(self._tenant, "touch_blob", (self._tenant, digest)):
            self.abort()
        else:
            if self._buffer or not self._pieces:
                self._put(bytes(self._buffer))
            if self._query(self._tenant, "name_blob", (self._tenant, digest, self._body)) == [(self._body,)]:
                self._closed = True
            else:  # the same body was put meanwhile
                self.abort()
        return BlobRef(digest, self._size, media_type)

    def abort(self) -> None:
        """Remove the partial body. What cannot be removed is swept later; the first error is raised."""
        closed, self._closed = self._closed, True
        if not closed and self._body is not None:
            try:
                self._query(self._tenant, "drop_body", (self._tenant, self._body))
            except (errors.StorageError, psycopg.Error):
                return

    def _put(self, piece: bytes) -> None:
        if self._body is None:
            ((self._body,),) = self._query(self._tenant, "begin_body", (self._tenant,))
        self._query(self._tenant, "put_piece", (self._body, self._pieces, self._tenant, compress_piece(piece)))
        self._pieces += 1

    def _check_open(self) -> None:
        if self._closed:
            raise errors.StoreClosed(what="the blob writer")
