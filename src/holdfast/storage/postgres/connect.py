"""Addresses and connection settings, and typed errors for errors of PostgreSQL."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
import psycopg
import psycopg_pool
from psycopg import conninfo

from holdfast import errors
from holdfast.model import limits
from holdfast.storage.addresses import check_address, mask_address

FOLDER = os.path.dirname(os.path.abspath(__file__))

OLDEST_SERVER = 15
DEFAULT_SCHEMA = "holdfast"

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")

SESSION_OPTIONS = (
    f"-c statement_timeout={limits.STATEMENT_MS}",
    f"-c lock_timeout={limits.BUSY_MS}",
    "-c idle_in_transaction_session_timeout=60000",
    "-c default_transaction_isolation=read\\ committed",
    "-c row_security=on",
    "-c jit=off",  # statements are short
    "-c enable_seqscan=off",  # … and have an index in their order, also before a table has statistics
    "-c enable_bitmapscan=off",
    "-c enable_sort=off",  # … so sorting all rows is never cheaper
    "-c plan_cache_mode=force_generic_plan",  # planned once for each connection
)


class PostgresAddress(NamedTuple):
    """The address of a store: server and database for libpq, and the schema."""

    info: str
    schema: str
    pool: int
    what: str
    """A description without secrets."""

    def __repr__(self) -> str:
        return f"<{self.what}>"


def parse_address(url: str) -> PostgresAddress:
    """Parse a URL of libpq with two more parameters: `schema` and `pool`."""
    check_address(url)
    base, mark, query = url.partition("?")
    own: dict[str, str] = {}
    others: list[str] = []
    for word in query.split("&"):
        name, _, value = word.partition("=")
        if name in ("schema", "pool"):
            own[name] = value
        elif word:
            others.append(word)
    schema = own.get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise _invalid_url(url, f"schema={schema} is not a name of small letters, digits and underscores")
    pool = own.get("pool", str(limits.POOL_CONNECTIONS))
    if not (pool.isascii() and pool.isdigit() and 1 <= int(pool[:9]) <= limits.MOST_CONNECTIONS):
        raise _invalid_url(url, f"pool={pool} is not a number from 1 to {limits.MOST_CONNECTIONS} (MOST_CONNECTIONS)")
    try:
        parts = conninfo.conninfo_to_dict(base + (mark + "&".join(others) if others else ""))
    except (psycopg.Error, UnicodeError) as error:
        detail = f": {str(error).strip()}" if mask_address(url) == url else ""  # it may quote secrets
        raise _invalid_url(url, f"libpq cannot read it{detail}") from None
    options = " ".join([str(parts.pop("options", "") or ""), *SESSION_OPTIONS, f"-c search_path={schema}"])
    settings = {
        "application_name": "holdfast",
        "connect_timeout": str(limits.CONNECT_S),
        **parts,
        "client_encoding": "utf8",
        "options": options,
    }
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    what = f"PostgreSQL at {host}, database {parts.get('dbname') or 'of the user'}, schema {schema}"
    return PostgresAddress(conninfo.make_conninfo("", **settings), schema, int(pool), what)


def _invalid_url(url: str, reason: str) -> errors.InvalidUrl:
    return errors.InvalidUrl(url=mask_address(url), reason=reason)


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Turn errors of psycopg into typed errors."""
    try:
        yield
    except (psycopg.Error, psycopg_pool.PoolClosed) as error:
        raise translate_error(what, error) from error
    except (UnicodeError, msgspec.MsgspecError) as error:
        raise errors.StorageCorrupt(what=what, reason=f"a value cannot be read or written ({error})") from error


def translate_error(what: str, error: Exception) -> errors.HoldfastError:
    """Return the typed error for an error of psycopg."""
    match error:
        case psycopg_pool.PoolClosed():
            return errors.StoreClosed(what=what)
        case psycopg.errors.LockNotAvailable() | psycopg.errors.DeadlockDetected():
            return errors.StorageBusy(what=what, waited_ms=limits.BUSY_MS)
        case psycopg.errors.SerializationFailure():
            return errors.StorageBusy(what=what, waited_ms=limits.BUSY_MS)
        case psycopg.errors.QueryCanceled():
            return errors.StorageBusy(what=what, waited_ms=limits.STATEMENT_MS)
        case psycopg.errors.DiskFull():
            return errors.StorageFull(what=what)
        case psycopg.errors.ReadOnlySqlTransaction() | psycopg.errors.InsufficientPrivilege():
            return errors.StorageReadOnly(what=what)
        case psycopg.errors.DataCorrupted() | psycopg.errors.IndexCorrupted():
            return errors.StorageCorrupt(what=what, reason=_first_line(error))
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedFunction():
            return errors.StorageUnavailable(what=what, reason=f"its tables are missing ({_first_line(error)})")
        case _:
            return errors.StorageUnavailable(what=what, reason=_first_line(error))


def is_connection_lost(error: Exception) -> bool:
    """Whether the connection was lost, so that the outcome of the statement is unknown."""
    if isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable):
        return False
    if isinstance(error, psycopg.errors.AdminShutdown | psycopg.errors.CrashShutdown | psycopg.errors.CannotConnectNow):
        return True
    return (
        isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        and getattr(error, "sqlstate", None) is None
    )


def _first_line(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    text = first.rpartition(" failed: ")[2]  # without the address, which the error has already
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
