"""Numbered migrations with checksums. The first process migrates, the others wait.

Laws: a migration only adds to the schema, unless its text starts with "-- contract". So older code keeps working,
and is refused only after something that it needs was removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from holdfast import errors
from holdfast.storage.postgres.connect import FOLDER, OLDEST_SERVER, PostgresAddress, parse_address, translate_errors
from holdfast.storage.sql import Migration, check_checksums, load_migrations

_MIGRATIONS_TABLE = """
CREATE TABLE IF NOT EXISTS migrations (
    number   integer PRIMARY KEY,
    name     text NOT NULL,
    checksum text NOT NULL,
    breaks   boolean NOT NULL
)
"""

_ROLE_QUERY = """
SELECT current_user::text, r.rolbypassrls OR EXISTS (
    SELECT FROM pg_policy p, unnest(p.polroles) AS maintainer
    WHERE p.polname = 'maintenance' AND p.polrelid = 'streams'::regclass AND pg_has_role(current_user, maintainer, 'USAGE'))
FROM pg_roles r WHERE r.rolname = current_user
"""


class RoleStatus(NamedTuple):
    """The role of a connection, and what it may do."""

    role: str
    is_maintainer: bool
    """Whether the role can work on all tenants."""
    is_durable: bool
    """Whether a commit waits for the disk by the settings of the server."""


def shipped_migrations() -> tuple[Migration, ...]:
    """Return the migrations of this version."""
    return load_migrations(FOLDER)


def has_store(url: str) -> bool:
    """Whether there are tables at this address. Nothing is created."""
    address = parse_address(url)
    with translate_errors(address.what), psycopg.connect(address.info, autocommit=True) as connection:
        ((found,),) = connection.execute(
            "SELECT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = to_regnamespace(%s)::oid "
            "AND c.relkind IN ('r', 'p', 'v', 'm'))",
            (address.schema,),
        ).fetchall()
        return bool(found)


def prepare_schema(address: PostgresAddress, migrations: Sequence[Migration]) -> RoleStatus:
    """Upgrade the schema if necessary and allowed. Returns the status of the role."""
    with translate_errors(address.what), psycopg.connect(address.info, autocommit=True) as connection:
        version = connection.info.server_version // 10_000
        if version < OLDEST_SERVER:
            raise errors.ServerTooOld(what=address.what, found=version, needed=OLDEST_SERVER)
        if _find_missing(connection, address, migrations):
            _migrate(connection, address, migrations)
        role, maintains = connection.execute(_ROLE_QUERY).fetchone() or ("", False)
        connection.execute("SELECT begin_era()")
        ((commit,),) = connection.execute("SHOW synchronous_commit").fetchall()
        return RoleStatus(role, maintains, commit != "off")


def _find_missing(
    connection: psycopg.Connection[tuple[object, ...]], address: PostgresAddress, migrations: Sequence[Migration]
) -> list[Migration]:
    """Return the migrations to apply. Raises if the schema is of another program, was changed, or is too new."""
    ((is_own, tables),) = connection.execute(
        "SELECT (SELECT count(*) = 4 FROM pg_attribute a WHERE a.attrelid = to_regclass(%s) "
        "AND a.attname IN ('number', 'name', 'checksum', 'breaks')), (SELECT count(*) FROM pg_class c "
        "WHERE c.relnamespace = to_regnamespace(%s)::oid AND c.relkind IN ('r', 'p', 'v', 'm'))",
        (f"{address.schema}.migrations", address.schema),
    ).fetchall()
    if not is_own and tables:
        raise errors.ForeignFile(path=address.what, reason="another program created this schema")
    if not is_own:
        return list(migrations)
    found = connection.execute("SELECT number, checksum, breaks FROM migrations").fetchall()
    applied = {int(str(number)): str(checksum) for number, checksum, _ in found}
    check_checksums(address.what, applied, migrations)
    known = {migration.number for migration in migrations}
    newer = [int(str(number)) for number, _, breaks in found if breaks and int(str(number)) not in known]
    if newer:
        raise errors.SchemaTooNew(path=address.what, found=max(newer), known=migrations[-1].number)
    return [migration for migration in migrations if migration.number not in applied]


def _migrate(
    connection: psycopg.Connection[tuple[object, ...]], address: PostgresAddress, migrations: Sequence[Migration]
) -> None:
    lock = int.from_bytes(hashlib.sha256(f"holdfast {address.schema}".encode()).digest()[:8], signed=True)
    try:
        with connection.transaction():
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute("SET LOCAL lock_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
            connection.execute("RESET lock_timeout")
            missing = _find_missing(connection, address, migrations)
            if missing:
                if connection.execute("SELECT to_regnamespace(%s)", (address.schema,)).fetchone() == (None,):
                    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(address.schema)))
                connection.execute(_MIGRATIONS_TABLE)
            for migration in missing:
                connection.execute(sql.SQL(migration.sql))
                breaks = migration.sql.startswith("-- contract")
                values = (migration.number, migration.name, migration.checksum, breaks)
                connection.execute("INSERT INTO migrations VALUES (%s, %s, %s, %s)", values)
    except psycopg.errors.InsufficientPrivilege as error:
        raise errors.SchemaTooOld(
            path=address.what,
            found=_newest_applied(connection, address, migrations),
            known=migrations[-1].number,
            role=connection.info.user,
        ) from error


def _newest_applied(
    connection: psycopg.Connection[tuple[object, ...]], address: PostgresAddress, migrations: Sequence[Migration]
) -> int:
    """Return the number of the newest applied migration."""
    missing = _find_missing(connection, address, migrations)
    return max((migration.number for migration in migrations if migration not in missing), default=0)
