"""SQL that lies beside the code: named statements and numbered migrations."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import NamedTuple

from holdfast import errors


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
