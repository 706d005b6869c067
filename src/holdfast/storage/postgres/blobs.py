"""Blobs in the database itself, so that every process on every machine reaches them. In pieces, each compressed.

Laws: a body has a name only when all of it is committed; what is read back has the size and the digest that were asked for,
or it is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from holdfast import errors
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.storage.blobs.packing import ZstdError, check_blob_size, checked_digest, damaged, packed, unpacked
from holdfast.storage.postgres.log import SQL, Ask, Operation
from holdfast.storage.postgres.store import PostgresStore

PIECE_BYTES = limits.BLOB_CHUNK_BYTES


class PostgresBlobs:
    """On the connections of the store."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def writer(self, tenant: str) -> PostgresWriter:
        return PostgresWriter(self._ask, tenant)

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        found = self._ask(tenant, "blob", (tenant, checked_digest(ref.digest)))
        if not found:
            raise errors.BlobNotFound(tenant=tenant, digest=ref.digest)
        return self._chunks(tenant, ref, found[0][0])

    def _chunks(self, tenant: str, ref: BlobRef, body: int) -> Iterator[bytes]:
        digest = hashlib.sha256()
        size = number = 0
        while pieces := self._ask(tenant, "piece", (tenant, body, number)):
            try:
                piece = unpacked(pieces[0][0])
            except ZstdError as error:
                raise damaged(ref, str(error)) from error
            size += len(piece)
            if size > ref.size:
                raise damaged(ref, f"it has more than {ref.size} bytes")
            digest.update(piece)
            number += 1
            if piece:
                yield piece
        if self._ask(tenant, "blob", (tenant, ref.digest)) != [(body,)]:
            raise errors.BlobNotFound(tenant=tenant, digest=ref.digest)  # dropped while we looked
        if size != ref.size:
            raise damaged(ref, f"it has {size} bytes, not {ref.size}")
        if digest.hexdigest() != ref.digest:
            raise damaged(ref, "its digest is another one")

    def stored(self) -> Iterator[tuple[str, str, float]]:
        after = ("", "")
        while page := self._ask(None, "blobs", (*after, limits.READ_EVENTS)):
            yield from page
            after = page[-1][:2]

    def drop(self, tenant: str, digest: str, *, unless_put_after_s: float) -> bool:
        self._ask(tenant, "drop_blob", (tenant, checked_digest(digest), unless_put_after_s))
        return not self._ask(tenant, "blob", (tenant, digest))

    def sweep(self, *, before_s: float) -> int:
        return len(self._ask(None, "sweep_bodies", (before_s,)))

    def _ask(self, tenant: str | None, name: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        def operation(_: bool) -> Operation[list[tuple[Any, ...]]]:
            return (yield Ask(tenant, SQL[name], values))

        return self._store.run(operation)


class PostgresWriter:
    """Hashes and compresses on the way in. Pieces are stored as they come, under a number that nobody knows yet."""

    def __init__(self, ask: Callable[[str | None, str, tuple[Any, ...]], list[tuple[Any, ...]]], tenant: str) -> None:
        self._ask = ask
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
        if self._ask(self._tenant, "touch_blob", (self._tenant, digest)):
            self.abort()
        else:
            if self._buffer or not self._pieces:
                self._put(bytes(self._buffer))
            if self._ask(self._tenant, "name_blob", (self._tenant, digest, self._body)) == [(self._body,)]:
                self._closed = True
            else:  # another put the same body meanwhile
                self.abort()
        return BlobRef(digest, self._size, media_type)

    def abort(self) -> None:
        """What cannot be removed now is swept later: the error that led here is the one to tell."""
        closed, self._closed = self._closed, True
        if not closed and self._body is not None:
            try:
                self._ask(self._tenant, "drop_body", (self._tenant, self._body))
            except (errors.StorageError, psycopg.Error):
                return

    def _put(self, piece: bytes) -> None:
        if self._body is None:
            ((self._body,),) = self._ask(self._tenant, "begin_body", (self._tenant,))
        self._ask(self._tenant, "put_piece", (self._body, self._pieces, self._tenant, packed(piece)))
        self._pieces += 1

    def _check_open(self) -> None:
        if self._closed:
            raise errors.StoreClosed(what="the blob writer")
