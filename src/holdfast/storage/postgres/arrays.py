"""Columns as PostgreSQL's binary arrays. psycopg packs lists in Python, guessing at types as it goes: for the many columns
of an append that took longer than everything else together."""

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


class Column(bytes):
    """A packed column; its subclasses say of what."""

    element = 0
    """The OID of the type of what is in it."""


class TextColumn(Column):
    element = 25


class BytesColumn(Column):
    element = 17


class IntegerColumn(Column):
    element = 23


class BigintColumn(Column):
    element = 20


_OF_ARRAY: dict[type[Column], int] = {TextColumn: 1009, BytesColumn: 1001, IntegerColumn: 1007, BigintColumn: 1016}


def _register(column: type[Column]) -> None:
    class Packed(Dumper):
        format = Format.BINARY
        oid = _OF_ARRAY[column]

        def dump(self, obj: Any) -> Buffer | None:
            packed: bytes = obj
            return packed

    psycopg.adapters.register_dumper(column, Packed)


for _column in _OF_ARRAY:
    _register(_column)


def _varying(kind: type[Column]) -> Callable[[Sequence[Any]], Column]:
    none = kind(_head(kind, ()))
    one = _head(kind, (b"",))

    def pack(values: Sequence[str | bytes | None]) -> Column:
        if not values:
            return none
        if len(values) == 1 and values[0] is not None:
            data = values[0].encode() if isinstance(values[0], str) else values[0]
            return kind(b"%b%b%b" % (one, _LENGTH(len(data)), data))
        parts = [_head(kind, values)]
        for value in values:
            if value is None:
                parts.append(_NULL)
            else:
                data = value.encode() if isinstance(value, str) else value
                parts += (_LENGTH(len(data)), data)
        return kind(b"".join(parts))

    return pack


def _fixed(kind: type[Column], width: int, code: str) -> Callable[[Sequence[Any]], Column]:
    none = kind(_head(kind, ()))
    one = struct.Struct(">iiIiii" + code).pack

    def pack(values: Sequence[int]) -> Column:
        if not values:
            return none
        if len(values) == 1:
            return kind(one(1, 0, kind.element, 1, 1, width, values[0]))
        numbers = [each for value in values for each in (width, value)]
        return kind(_head(kind, values) + struct.pack(">" + ("i" + code) * len(values), *numbers))

    return pack


def _head(kind: type[Column], values: Sequence[Any]) -> bytes:
    if not values:
        return struct.pack(">iiI", 0, 0, kind.element)
    return struct.pack(">iiIii", 1, None in values, kind.element, len(values), 1)


texts = _varying(TextColumn)
blobs = _varying(BytesColumn)
integers = _fixed(IntegerColumn, 4, "i")
bigints = _fixed(BigintColumn, 8, "q")
