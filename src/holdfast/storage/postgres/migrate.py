"""Numbered migrations with checksums. The first to come migrates, the others wait for it.

Laws: a migration adds (expand) unless its text begins with "-- contract"; so code that does not know the newest additions
works on, and is refused only once something it needs was taken away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from holdfast import errors
from holdfast.storage.postgres.connect import FOLDER, OLDEST_SERVER, Address, address_of, typed_errors
from holdfast.storage.sql import Migration, check_applied, shipped_in

_LEDGER = """
CREATE TABLE IF NOT EXISTS migrations (
    number   integer PRIMARY KEY,
    name     text NOT NULL,
    checksum text NOT NULL,
    breaks   boolean NOT NULL
)
"""

_STANDING = """
SELECT current_user::text, r.rolbypassrls OR EXISTS (
    SELECT FROM pg_policy p, unnest(p.polroles) AS maintainer
    WHERE p.polname = 'maintenance' AND p.polrelid = 'streams'::regclass AND pg_has_role(current_user, maintainer, 'USAGE'))
FROM pg_roles r WHERE r.rolname = current_user
"""


class Standing(NamedTuple):
    role: str
    maintains: bool
    """Whether the role may look after all tenants."""
    durable: bool
    """Whether the server's own settings wait for the disk at a commit."""


def shipped() -> tuple[Migration, ...]:
    return shipped_in(FOLDER)


def present(url: str) -> bool:
    """Whether there is anything at this address; opening it tells what. Nothing is made."""
    address = address_of(url)
    with typed_errors(address.what), psycopg.connect(address.info, autocommit=True) as connection:
        ((found,),) = connection.execute(
            "SELECT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = to_regnamespace(%s)::oid "
            "AND c.relkind IN ('r', 'p', 'v', 'm'))",
            (address.schema,),
        ).fetchall()
        return bool(found)


def prepare(address: Address, migrations: Sequence[Migration]) -> Standing:
    """Bring the schema up to date, if it is not and the role may; who we are there."""
    with typed_errors(address.what), psycopg.connect(address.info, autocommit=True) as connection:
        version = connection.info.server_version // 10_000
        if version < OLDEST_SERVER:
            raise errors.ServerTooOld(what=address.what, found=version, needed=OLDEST_SERVER)
        if _missing(connection, address, migrations):
            _migrate(connection, address, migrations)
        role, maintains = connection.execute(_STANDING).fetchone() or ("", False)
        connection.execute("SELECT begin_era()")
        ((commit,),) = connection.execute("SHOW synchronous_commit").fetchall()
        return Standing(role, maintains, commit != "off")


def _missing(
    connection: psycopg.Connection[tuple[object, ...]], address: Address, migrations: Sequence[Migration]
) -> list[Migration]:
    """What has yet to be applied. Raises if what is there is not ours, was changed, or has left this code behind."""
    ((ours, tables),) = connection.execute(
        "SELECT (SELECT count(*) = 4 FROM pg_attribute a WHERE a.attrelid = to_regclass(%s) "
        "AND a.attname IN ('number', 'name', 'checksum', 'breaks')), (SELECT count(*) FROM pg_class c "
        "WHERE c.relnamespace = to_regnamespace(%s)::oid AND c.relkind IN ('r', 'p', 'v', 'm'))",
        (f"{address.schema}.migrations", address.schema),
    ).fetchall()
    if not ours and tables:
        raise errors.ForeignFile(path=address.what, reason="another program made this schema")
    if not ours:
        return list(migrations)
    found = connection.execute("SELECT number, checksum, breaks FROM migrations").fetchall()
    applied = {int(str(number)): str(checksum) for number, checksum, _ in found}
    check_applied(address.what, applied, migrations)
    known = {migration.number for migration in migrations}
    beyond = [int(str(number)) for number, _, breaks in found if breaks and int(str(number)) not in known]
    if beyond:
        raise errors.SchemaTooNew(path=address.what, found=max(beyond), known=migrations[-1].number)
    return [migration for migration in migrations if migration.number not in applied]


def _migrate(
    connection: psycopg.Connection[tuple[object, ...]], address: Address, migrations: Sequence[Migration]
) -> None:
    turn = int.from_bytes(hashlib.sha256(f"holdfast {address.schema}".encode()).digest()[:8], signed=True)
    try:
        with connection.transaction():
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute("SET LOCAL lock_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (turn,))
            connection.execute("RESET lock_timeout")
            missing = _missing(connection, address, migrations)
            if missing:
                if connection.execute("SELECT to_regnamespace(%s)", (address.schema,)).fetchone() == (None,):
                    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(address.schema)))
                connection.execute(_LEDGER)
            for migration in missing:
                connection.execute(sql.SQL(migration.sql))
                breaks = migration.sql.startswith("-- contract")
                values = (migration.number, migration.name, migration.checksum, breaks)
                connection.execute("INSERT INTO migrations VALUES (%s, %s, %s, %s)", values)
    except psycopg.errors.InsufficientPrivilege as error:
        raise errors.SchemaTooOld(
            path=address.what,
            found=_newest(connection, address, migrations),
            known=migrations[-1].number,
            role=connection.info.user,
        ) from error


def _newest(
    connection: psycopg.Connection[tuple[object, ...]], address: Address, migrations: Sequence[Migration]
) -> int:
    """Of those that were applied."""
    missing = _missing(connection, address, migrations)
    return max((each.number for each in migrations if each not in missing), default=0)
