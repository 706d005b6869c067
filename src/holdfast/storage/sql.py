"""SQL files: named statements and numbered migrations; and the query for rows."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from holdfast import errors
from holdfast.model.rows import ColumnValues, FactRow, Row, RowOrder
from holdfast.storage import common

R = TypeVar("R", bound=Row)

_FLAG_COLUMNS: Mapping[type[Row], Sequence[str]] = {FactRow: ("live", "review", "constrains")}
"""Columns with partial indexes for the value 1. A statement must have this value as a literal: the planner cannot use a
parameter for it."""


def read_sql(folder: str, name: str) -> str:
    """Read an SQL file. importlib.resources is not used because it is slow to load."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def load_statements(folder: str, name: str = "queries.sql") -> dict[str, str]:
    """Load named statements from a file; `-- name: x` starts one."""
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
    """A numbered step of the schema."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return _digest(self.sql)


@functools.cache  # of the migrations that a program has; every store that is opened is compared with them
def _digest(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()


@functools.cache
def load_migrations(folder: str) -> tuple[Migration, ...]:
    names = sorted(name for name in os.listdir(os.path.join(folder, "migrations")) if name.endswith(".sql"))
    return tuple(
        Migration(int(name[:4]), name.removesuffix(".sql"), read_sql(folder, os.path.join("migrations", name)))
        for name in names
    )


def check_checksums(what: str, applied: dict[int, str], migrations: Sequence[Migration]) -> None:
    """Check that the applied migrations are the shipped ones. `applied` has the checksums by number."""
    for migration in migrations:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise errors.SchemaChanged(path=what, number=migration.number)


class SqlDialect(NamedTuple):
    """How the SQL of a database differs."""

    placeholder: str
    """The mark for a value."""
    among: Callable[[str, Sequence[str | int]], tuple[str, Any]]
    """Returns the condition that a column has one of these values, and the values as one parameter."""
    unnest: Callable[[Sequence[str | int]], str] | None = None
    """Returns a list of values as a table, for a planner that would otherwise scan all rows in their order; None if
    it is not needed."""


def select_rows(
    table: type[Row],
    where: Mapping[str, str | int],
    after: Row | None,
    limit: int,
    order: RowOrder,
    least: Mapping[str, int],
    most: Mapping[str, int],
    among: ColumnValues,
    dialect: SqlDialect,
) -> tuple[str, list[Any]] | None:
    """Return the statement of a query for rows, and its values; None if no row can match."""
    common.check_limit(limit)
    common.check_columns(table, (*where, *order.columns, *least, *most, *among))
    among = common.matching_values(table, among)
    if not common.can_match(table, (where, least, most)) or not all(among.values()):
        return None
    mark = dialect.placeholder
    flags = [column for column in _FLAG_COLUMNS.get(table, ()) if where.get(column) == 1]
    equal = {column: value for column, value in where.items() if column not in flags}
    terms = [f"{column} = {mark}" for column in equal] + [f"{column} = 1" for column in flags]
    terms += ["ref <> ''"] if equal.get("ref") else []  # a partial index
    terms += [f"{column} >= {mark}" for column in least] + [f"{column} <= {mark}" for column in most]
    values: list[Any] = [*equal.values(), *least.values(), *most.values()]
    for number, (column, some) in enumerate(among.items()):
        term, value = dialect.among(column, some)
        is_first = dialect.unnest is not None and number == 0
        terms.append(f"{column} = among.value" if is_first else term)
        values.insert(0 if is_first else len(values), value)
    columns = common.order_columns(table, order, {*where, *least, *most})
    if after is not None:
        compared, sign = _page_condition(where, after, columns, backwards=order.backwards)
        if compared:
            terms.append(f"({', '.join(compared)}) {sign} ({', '.join([mark] * len(compared))})")
            values += (getattr(after, column) for column in compared)
        elif sign in "<>":
            return None
    condition = f"WHERE {' AND '.join(terms)} " if terms else ""
    fields = ", ".join(table.__struct_fields__)
    direction = " DESC" if order.backwards else ""
    ordering = ", ".join(column + direction for column in columns)
    source = f"{table.table} {condition}"
    if among and dialect.unnest is not None:
        table_of_values = dialect.unnest(next(iter(among.values())))
        source = f"{table_of_values} AS among (value) CROSS JOIN LATERAL (SELECT {fields} FROM {source}OFFSET 0) found "
    return f"SELECT {fields} FROM {source}ORDER BY {ordering} LIMIT {mark}", [*values, limit]


def _page_condition(
    where: Mapping[str, str | int], after: Row, columns: Sequence[str], *, backwards: bool
) -> tuple[list[str], str]:
    """Return the columns in which a row after `after` is compared with it, and the operator.

    Without columns, "<=" and ">=" match all rows, "<" and ">" none. Columns that `where` fixes are left out, so that
    an index can find the start of the page."""
    compared: list[str] = []
    for column in columns:
        if column not in where:
            compared.append(column)
        elif (fixed := where[column]) != (value := getattr(after, column)):  # later columns do not matter
            is_beyond = fixed < value if backwards else fixed > value
            return compared, ("<" if backwards else ">") + ("=" if is_beyond else "")
    return compared, "<" if backwards else ">"


def row_of(table: type[R], values: Sequence[object]) -> R:
    """Build a row from its values."""
    return table(**dict(zip(table.__struct_fields__, values, strict=True)))
