"""Pack columns as binary arrays of PostgreSQL.

psycopg packs lists in Python and guesses their types. For the many columns of an append, that took longer than all
the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

_LENGTH = struct.Struct(">i").pack
_NULL = _LENGTH(-1)


class PackedColumn(bytes):
    """A packed column; its subclasses have the type."""

    element = 0
    """The OID of the type of its elements."""


class TextColumn(PackedColumn):
    element = 25


class BytesColumn(PackedColumn):
    element = 17


class IntegerColumn(PackedColumn):
    element = 23


class BigintColumn(PackedColumn):
    element = 20


_ARRAY_OIDS: dict[type[PackedColumn], int] = {
    TextColumn: 1009,
    BytesColumn: 1001,
    IntegerColumn: 1007,
    BigintColumn: 1016,
}


def _register_dumper(column: type[PackedColumn]) -> None:
    class Packed(Dumper):
        format = Format.BINARY
        oid = _ARRAY_OIDS[column]

        def dump(self, obj: Any) -> Buffer | None:
            packed: bytes = obj
            return packed

    psycopg.adapters.register_dumper(column, Packed)


for _column in _ARRAY_OIDS:
    _register_dumper(_column)


def _varying_packer(kind: type[PackedColumn]) -> Callable[[Sequence[Any]], PackedColumn]:
    empty = kind(_array_header(kind, ()))
    single = _array_header(kind, (b"",))

    def pack(values: Sequence[str | bytes | None]) -> PackedColumn:
        if not values:
            return empty
        if len(values) == 1 and values[0] is not None:
            data = values[0].encode() if isinstance(values[0], str) else values[0]
            return kind(b"%b%b%b" % (single, _LENGTH(len(data)), data))
        parts = [_array_header(kind, values)]
        for value in values:
            if value is None:
                parts.append(_NULL)
            else:
                data = value.encode() if isinstance(value, str) else value
                parts += (_LENGTH(len(data)), data)
        return kind(b"".join(parts))

    return pack


def _fixed_packer(kind: type[PackedColumn], width: int, code: str) -> Callable[[Sequence[Any]], PackedColumn]:
    empty = kind(_array_header(kind, ()))
    single = struct.Struct(">iiIiii" + code).pack

    def pack(values: Sequence[int]) -> PackedColumn:
        if not values:
            return empty
        if len(values) == 1:
            return kind(single(1, 0, kind.element, 1, 1, width, values[0]))
        numbers = [number for value in values for number in (width, value)]
        return kind(_array_header(kind, values) + struct.pack(">" + ("i" + code) * len(values), *numbers))

    return pack


def _array_header(kind: type[PackedColumn], values: Sequence[Any]) -> bytes:
    if not values:
        return struct.pack(">iiI", 0, 0, kind.element)
    return struct.pack(">iiIii", 1, None in values, kind.element, len(values), 1)


pack_texts = _varying_packer(TextColumn)
pack_blobs = _varying_packer(BytesColumn)
pack_integers = _fixed_packer(IntegerColumn, 4, "i")
pack_bigints = _fixed_packer(BigintColumn, 8, "q")
