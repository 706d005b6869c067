"""Addresses, connections, and the typed errors that PostgreSQL's become."""

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
from holdfast.model.addresses import check_address, shown_address

FOLDER = os.path.dirname(os.path.abspath(__file__))

OLDEST_SERVER = 15
DEFAULT_SCHEMA = "holdfast"

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")

SESSION = (
    f"-c statement_timeout={limits.STATEMENT_MS}",
    f"-c lock_timeout={limits.BUSY_MS}",
    "-c idle_in_transaction_session_timeout=60000",
    "-c default_transaction_isolation=read\\ committed",
    "-c row_security=on",
    "-c jit=off",  # every statement is short
    "-c enable_seqscan=off",  # … and has its index, in its order, also while the statistics know nothing of a table
    "-c enable_bitmapscan=off",
    "-c enable_sort=off",  # … and is asked for its rows in that order: to gather all of them first is never cheaper
    "-c plan_cache_mode=force_generic_plan",  # planned once a connection, not at every call
)


class Address(NamedTuple):
    """Where a store is: a server and database as libpq knows them, and the schema that holds it."""

    info: str
    schema: str
    pool: int
    what: str
    """How to speak of it: nothing secret in it."""

    def __repr__(self) -> str:
        return f"<{self.what}>"


def address_of(url: str) -> Address:
    """A URL as libpq takes it, with two parameters of our own: `schema` and `pool`."""
    check_address(url)
    base, mark, query = url.partition("?")
    ours: dict[str, str] = {}
    theirs: list[str] = []
    for word in query.split("&"):
        name, _, value = word.partition("=")
        if name in ("schema", "pool"):
            ours[name] = value
        elif word:
            theirs.append(word)
    schema = ours.get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise _refused(url, f"schema={schema} is not a name of small letters, digits and underscores")
    pool = ours.get("pool", str(limits.POOL_CONNECTIONS))
    if not (pool.isascii() and pool.isdigit() and 1 <= int(pool[:9]) <= limits.MOST_CONNECTIONS):
        raise _refused(url, f"pool={pool} is not a number from 1 to {limits.MOST_CONNECTIONS} (MOST_CONNECTIONS)")
    try:
        parts = conninfo.conninfo_to_dict(base + (mark + "&".join(theirs) if theirs else ""))
    except (psycopg.Error, UnicodeError) as error:
        told = f": {str(error).strip()}" if shown_address(url) == url else ""  # it quotes what it cannot read
        raise _refused(url, f"libpq cannot read it{told}") from None
    options = " ".join([str(parts.pop("options", "") or ""), *SESSION, f"-c search_path={schema}"])
    settings = {
        "application_name": "holdfast",
        "connect_timeout": str(limits.CONNECT_S),
        **parts,
        "client_encoding": "utf8",
        "options": options,
    }
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    what = f"PostgreSQL at {host}, database {parts.get('dbname') or 'of the user'}, schema {schema}"
    return Address(conninfo.make_conninfo("", **settings), schema, int(pool), what)


def _refused(url: str, reason: str) -> errors.InvalidUrl:
    return errors.InvalidUrl(url=shown_address(url), reason=reason)


@contextmanager
def typed_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, psycopg_pool.PoolClosed) as error:
        raise typed(what, error) from error
    except (UnicodeError, msgspec.MsgspecError) as error:
        raise errors.StorageCorrupt(what=what, reason=f"a value cannot be read or written ({error})") from error


def typed(what: str, error: Exception) -> errors.HoldfastError:
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
            return errors.StorageCorrupt(what=what, reason=_said(error))
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedFunction():
            return errors.StorageUnavailable(what=what, reason=f"its tables are gone ({_said(error)})")
        case _:
            return errors.StorageUnavailable(what=what, reason=_said(error))


def lost(error: Exception) -> bool:
    """Whether the connection is gone, so that what became of the statement is not known."""
    if isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable):
        return False
    if isinstance(error, psycopg.errors.AdminShutdown | psycopg.errors.CrashShutdown | psycopg.errors.CannotConnectNow):
        return True
    return (
        isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        and getattr(error, "sqlstate", None) is None
    )


def _said(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    said = first.rpartition(" failed: ")[2]  # the address before it is told already, and a message is cut
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
