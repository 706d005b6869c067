"""SQL that lies beside the code: named statements and numbered migrations."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from holdfast import errors
from holdfast.model.rows import Among, FactRow, Order, Row
from holdfast.storage import common

R = TypeVar("R", bound=Row)

_FLAGS: Mapping[type[Row], Sequence[str]] = {FactRow: ("live", "review", "constrains")}
"""Columns that indexes are made for where they are 1. A statement has to say so in itself: a value that it gets later
proves nothing to a planner."""


def read_sql(folder: str, name: str) -> str:
    """Not through importlib.resources, whose import costs more than all of ours."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def load_statements(folder: str, name: str = "queries.sql") -> dict[str, str]:
    """Named SQL from a file: `-- name: x` opens a block."""
    statements: dict[str, str] = {}
    current = ""
    for line in read_sql(folder, name).splitlines():
        if line.startswith("-- name: "):
            current = line.removeprefix("-- name: ").strip()
            statements[current] = ""
        elif current and not line.startswith("--"):
            statements[current] += line + "\n"
    return {name: text.strip() for name, text in statements.items()}


class Migration(NamedTuple):
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def shipped_in(folder: str) -> tuple[Migration, ...]:
    names = sorted(name for name in os.listdir(os.path.join(folder, "migrations")) if name.endswith(".sql"))
    return tuple(
        Migration(int(name[:4]), name.removesuffix(".sql"), read_sql(folder, os.path.join("migrations", name)))
        for name in names
    )


def check_applied(what: str, applied: dict[int, str], migrations: Sequence[Migration]) -> None:
    """What was applied must be what is shipped; `applied` holds the checksums by number."""
    for migration in migrations:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise errors.SchemaChanged(path=what, number=migration.number)


class Wording(NamedTuple):
    """How a database says what others say otherwise."""

    mark: str
    """Stands for a value."""
    among: Callable[[str, Sequence[str | int]], tuple[str, Any]]
    """That a column has one of these values, which are of one kind, and they themselves as one value."""
    unfolded: Callable[[Sequence[str | int]], str] | None = None
    """A list of values as a table, for a planner that would else rather walk through all rows in their order than look up
    each of them; None for one that knows better."""


def select_rows(
    table: type[Row],
    where: Mapping[str, str | int],
    after: Row | None,
    limit: int,
    order: Order,
    least: Mapping[str, int],
    most: Mapping[str, int],
    among: Among,
    wording: Wording,
) -> tuple[str, list[Any]] | None:
    """The statement for a look-up of rows and its values, a mark standing for each; None if nothing can match."""
    common.check_limit(limit)
    common.check_columns(table, (*where, *order.columns, *least, *most, *among))
    among = common.matching(table, among)
    if not common.can_match(table, (where, least, most)) or not all(among.values()):
        return None
    mark = wording.mark
    flags = [column for column in _FLAGS.get(table, ()) if where.get(column) == 1]
    equal = {column: value for column, value in where.items() if column not in flags}
    terms = [f"{column} = {mark}" for column in equal] + [f"{column} = 1" for column in flags]
    terms += ["ref <> ''"] if equal.get("ref") else []  # few facts have one, and its index has no others
    terms += [f"{column} >= {mark}" for column in least] + [f"{column} <= {mark}" for column in most]
    values: list[Any] = [*equal.values(), *least.values(), *most.values()]
    for number, (column, some) in enumerate(among.items()):
        term, value = wording.among(column, some)
        is_first = wording.unfolded is not None and number == 0
        terms.append(f"{column} = among.value" if is_first else term)
        values.insert(0 if is_first else len(values), value)
    columns = common.order_columns(table, order, {*where, *least, *most})
    if after is not None:
        place, sign = _beyond(where, after, columns, backwards=order.backwards)
        if place:
            terms.append(f"({', '.join(place)}) {sign} ({', '.join([mark] * len(place))})")
            values += (getattr(after, column) for column in place)
        elif sign in "<>":
            return None
    condition = f"WHERE {' AND '.join(terms)} " if terms else ""
    fields = ", ".join(table.__struct_fields__)
    direction = " DESC" if order.backwards else ""
    laid_out = ", ".join(column + direction for column in columns)
    source = f"{table.table} {condition}"
    if among and wording.unfolded is not None:
        each = wording.unfolded(next(iter(among.values())))
        source = f"{each} AS among (value) CROSS JOIN LATERAL (SELECT {fields} FROM {source}OFFSET 0) found "
    return f"SELECT {fields} FROM {source}ORDER BY {laid_out} LIMIT {mark}", [*values, limit]


def _beyond(
    where: Mapping[str, str | int], after: Row, columns: Sequence[str], *, backwards: bool
) -> tuple[list[str], str]:
    """How a row beyond `after` compares with it, and in which columns; without any, "<=" and ">=" hold for all rows, "<" or
    ">" for none. What `where` fixes is left out, since an index finds its place only by what comes behind that."""
    place: list[str] = []
    for column in columns:
        if column not in where:
            place.append(column)
        elif (fixed := where[column]) != (value := getattr(after, column)):  # no later column has a say
            is_beyond = fixed < value if backwards else fixed > value
            return place, ("<" if backwards else ">") + ("=" if is_beyond else "")
    return place, "<" if backwards else ">"


def row_of(table: type[R], values: Sequence[object]) -> R:
    return table(**dict(zip(table.__struct_fields__, values, strict=True)))
