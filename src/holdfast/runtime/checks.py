"""Checks of the doctor outside the engine: library, disk, files and other processes; or, for a store on a server, its
version, role, settings and connections."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import apsw

from holdfast.errors import HoldfastError, StorageUnavailable, UnsafeSqlite
from holdfast.ports import EventStore
from holdfast.runtime.figures import format_count, format_duration, format_size
from holdfast.storage.sqlite.connections import check_sqlite
from holdfast.storage.sqlite.migrate import shipped_migrations

if TYPE_CHECKING:
    import psycopg

    from holdfast.storage.postgres.store import PostgresStore


LOW_SPACE = 1_000_000_000
NO_SPACE = 50_000_000
LARGE_WAL = 64_000_000
"""SQLite empties the write-ahead log long before this size, unless a process keeps a read open."""
LOCK_MS = 2_000
"""The doctor waits this long for the write lock before it reports a problem."""
LONG_TRANSACTION_S = 300
CROWDED = 0.9
"""The share of used connections from which the doctor warns."""
MAX_TABLES = 3
"""The maximum number of tables that a line names."""
COMMAND_CHARS = 60
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph"})
"""File systems that several machines share. The locks of SQLite are not reliable on them."""
Verdict = Literal["ok", "warn", "bad"]


class Check(NamedTuple):
    name: str
    verdict: Verdict
    finding: str
    advice: str = ""


def check_file(path: str) -> Iterator[Check]:
    """Run the checks that do not open the store."""
    yield _check_library()
    yield _check_space(path)
    yield _check_file_system(path)
    yield _check_permissions(path)
    yield _check_wal(path)
    yield _check_leftovers(path)
    yield _check_users(path)
    yield _check_schema(path)


def _check_library() -> Check:
    version = apsw.sqlite_lib_version()
    finding = f"SQLite {version}, apsw {apsw.apsw_version()}, Python {sys.version.split()[0]}"
    try:
        check_sqlite(version)
    except UnsafeSqlite as error:
        return Check("library", "bad", finding, str(error))
    return Check("library", "ok", finding)


def _check_space(path: str) -> Check:
    free = shutil.disk_usage(_parent_folder(path)).free
    finding = f"{format_size(free)} free"
    if free < NO_SPACE:
        return Check("disk space", "bad", finding, "Free some space: writes will fail. Acknowledged writes are safe.")
    needed = max(LOW_SPACE, os.path.getsize(path))
    if free < needed:
        return Check("disk space", "warn", finding, "A backup or a long write may not fit.")
    return Check("disk space", "ok", finding)


def _check_file_system(path: str) -> Check:
    kind = _file_system_type(os.path.realpath(path))
    if kind in NETWORK_FILE_SYSTEMS:
        advice = "File locks are not reliable there. Move the file to a local disk."
        return Check("file system", "bad", f"{kind}, a network file system", advice)
    return Check("file system", "ok", kind or "unknown on this system")


def _file_system_type(path: str) -> str:
    """Return the type of the file system of `path`, or "" if this machine does not report it."""
    best, kind = "", ""
    for line in _read_lines("/proc/self/mounts"):
        mount, mounted = line.split()[1:3]
        mount = mount.encode().decode("unicode_escape")
        if len(mount) >= len(best) and (path + "/").startswith(mount.rstrip("/") + "/"):
            best, kind = mount, mounted
    return kind


def _check_permissions(path: str) -> Check:
    for file in (path, _parent_folder(path), path + ".blobs"):
        if os.path.exists(file) and not os.access(file, os.R_OK | os.W_OK):
            return Check(
                "permissions", "bad", f"{file} is not writable", "Run the command as the owner, or change the mode."
            )
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & stat.S_IWOTH:
        return Check("permissions", "warn", f"mode {mode:o}: every user can write to it", f"chmod o-w {path}")
    is_open = mode & stat.S_IROTH and _can_everybody_enter(_parent_folder(path))
    readable = ", readable by every user of this machine" if is_open else ""
    return Check("permissions", "ok", f"mode {mode:o}{readable}")


def _can_everybody_enter(folder: str) -> bool:
    """Whether other users reach the files in a folder: none of the folders above keeps them out."""
    while os.stat(folder).st_mode & stat.S_IXOTH:
        above = os.path.dirname(folder)
        if above == folder:
            return True
        folder = above
    return False


def _check_wal(path: str) -> Check:
    wal = path + "-wal"
    wal_bytes = os.path.getsize(wal) if os.path.exists(wal) else 0
    finding = f"{format_size(os.path.getsize(path))}, write-ahead log {format_size(wal_bytes)}"
    if wal_bytes > LARGE_WAL:
        return Check("file", "warn", finding, "A process keeps a read open, so SQLite cannot empty the log: find it.")
    return Check("file", "ok", finding)


def _check_leftovers(path: str) -> Check:
    """Look for files of writes, backups and collections that did not finish."""
    leftovers = [name for name in (path + ".partial",) if os.path.exists(name)]
    for folder, _, names in os.walk(path + ".blobs"):
        leftovers += [os.path.join(folder, name) for name in names if name.endswith((".partial", ".dropped"))]
    if not leftovers:
        return Check("leftovers", "ok", "none")
    finding = f"{format_count(len(leftovers), 'file')} of unfinished or running writes, such as {leftovers[0]}"
    return Check("leftovers", "warn", finding, "`holdfast collect` removes them when they are a day old.")


def _check_users(path: str) -> Check:
    """Find the processes that hold a lock on the file. Only Linux reports them."""
    if not os.path.exists("/proc/locks"):
        return Check("used by", "ok", "unknown on this system")
    others = sorted(set(_find_lock_holders(path)) - {os.getpid()})
    if not others:
        return Check("used by", "ok", "no other process")
    named = ", ".join(f"{pid} ({_command_line(pid)})" for pid in others)
    return Check("used by", "ok", f"{format_count(len(others), 'process', 'processes')}: {named}")


def _find_lock_holders(path: str) -> Iterator[int]:
    files = {os.stat(name).st_ino for name in (path, path + "-shm", path + "-wal") if os.path.exists(name)}
    for line in _read_lines("/proc/locks"):
        fields = line.replace("-> ", "").split()
        device, _, inode = fields[5].rpartition(":")
        if device and int(inode) in files and int(fields[4]) > 0:
            yield int(fields[4])


def _command_line(pid: int) -> str:
    words = "".join(_read_lines(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()
    return (words if len(words) <= COMMAND_CHARS else words[:COMMAND_CHARS] + "…") or "unknown"


def _check_schema(path: str) -> Check:
    """Compare the schema with that of this Holdfast. The file is opened for reading only.

    If it is not readable, the check that opens the store reports the reason.
    """
    known = shipped_migrations()[-1].number
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            version = connection.pragma("user_version")
        finally:
            connection.close()
    except apsw.Error as error:
        return Check("schema", "warn", f"unknown ({error})")
    if version < known:
        advice = "Opening the store upgrades it. This command opens it."
        return Check("schema", "warn", f"{version}, older than {known}", advice)
    return Check("schema", "ok" if version == known else "bad", f"{version}; this Holdfast has {known}")


def check_write_lock(path: str) -> Check:
    """Take the write lock and release it. Nothing is written."""
    connection = apsw.Connection(path)
    try:
        connection.set_busy_timeout(LOCK_MS)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except apsw.BusyError:
        others = ", ".join(
            f"{pid} ({_command_line(pid)})" for pid in sorted(set(_find_lock_holders(path)) - {os.getpid()})
        )
        advice = f"A process keeps a transaction open: {others or 'find it'}."
        return Check("write lock", "bad", f"taken for more than {LOCK_MS / 1_000:g} s", advice)
    except apsw.Error as error:
        return Check("write lock", "bad", str(error))
    finally:
        connection.close()
    return Check("write lock", "ok", "free")


def _parent_folder(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))


def _read_lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


# On a server

_MIGRATIONS_SQL = "SELECT number, breaks FROM migrations ORDER BY number"
_ROLE_SQL = "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"


_DURABILITY_SQL = (
    "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')"
)
_ROW_SECURITY_SQL = """
SELECT c.relname::text, c.relrowsecurity AND c.relforcerowsecurity
       AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'tenant_alone'),
       EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'maintenance'
               AND c.relowner = ANY (p.polroles))
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
WHERE c.relnamespace = to_regnamespace(%s)::oid AND c.relkind IN ('r', 'p') ORDER BY 1
"""


_LONG_TRANSACTIONS_SQL = """
SELECT 'process ' || pid, coalesce(datname, '?'), extract(epoch FROM now() - xact_start)::float8, backend_xid IS NOT NULL
FROM pg_stat_activity
WHERE now() - xact_start > make_interval(secs => %s) AND pid <> pg_backend_pid()
  AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL AND backend_type = 'client backend')
UNION ALL
SELECT 'prepared as ' || gid, database, extract(epoch FROM now() - prepared)::float8, true
FROM pg_prepared_xacts WHERE now() - prepared > make_interval(secs => %s)
ORDER BY 4 DESC, 3 DESC
"""
"""Transactions with writes come first: they delay the feed, in every database of the server."""


_HIDDEN_TRANSACTIONS_SQL = "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NULL AND backend_xid IS NOT NULL"
_CONNECTIONS_SQL = """
SELECT count(*), current_setting('max_connections')::integer FROM pg_stat_activity WHERE backend_type = 'client backend'
"""


def check_server(url: str) -> Iterator[Check]:
    """Run the checks of a server that do not open the store."""
    import psycopg  # noqa: PLC0415 - an extra

    from holdfast.storage.postgres.connect import OLDEST_SERVER, parse_address, translate_errors  # noqa: PLC0415 - the same

    libpq = psycopg.pq.version()
    versions = f"psycopg {psycopg.__version__}, libpq {libpq // 10_000}.{libpq % 10_000}"
    yield Check("library", "ok", f"{versions}, Python {sys.version.split()[0]}")
    address = parse_address(url)
    try:
        with translate_errors(address.what), psycopg.connect(address.info, autocommit=True) as connection:
            number = connection.info.server_version
            finding = f"version {number // 10_000}.{number % 10_000} of {address.what}"
            if number // 10_000 < OLDEST_SERVER:
                yield Check("server", "bad", finding, f"Use PostgreSQL {OLDEST_SERVER} or later.")
                return
            yield Check("server", "ok", finding)
            yield _check_server_schema(connection)
    except HoldfastError as error:
        yield report_unreachable(error)


def report_unreachable(error: HoldfastError) -> Check:
    """Report a server that cannot be used, with its full reason: the message of the error is truncated."""
    advice = "Check that the address is right, that the server runs, and that this role may connect."
    if isinstance(error, StorageUnavailable):
        return Check("server", "bad", f"{error.what}: {error.reason}", advice)
    return Check("server", "bad", str(error))


def _check_server_schema(connection: psycopg.Connection[tuple[Any, ...]]) -> Check:
    """Compare the schema with that of this Holdfast.

    If it is not readable, the check that opens the store reports the reason.
    """
    import psycopg  # noqa: PLC0415 - an extra

    from holdfast.storage.postgres.migrate import shipped_migrations  # noqa: PLC0415 - the same

    known = {migration.number for migration in shipped_migrations()}
    try:
        breaks = dict(connection.execute(_MIGRATIONS_SQL).fetchall())
    except psycopg.Error as error:
        return Check("schema", "warn", f"unknown ({_first_line(error)})")
    finding = f"{max(breaks, default=0)}; this Holdfast has {max(known)}"
    if known - breaks.keys():
        advice = (
            "Opening the store as the owner of the tables upgrades it. This command does so if it runs as that role."
        )
        return Check("schema", "warn", finding, advice)
    if any(breaks[number] for number in breaks.keys() - known):
        return Check("schema", "bad", finding, "Upgrade Holdfast here: a newer version changed this schema for good.")
    added = ", with additions of a newer one" if breaks.keys() - known else ""
    return Check("schema", "ok", finding + added)


def check_open_server(store: EventStore) -> Iterator[Check]:
    """Run the checks of a server that need the open store, with its role and its settings."""
    import psycopg  # noqa: PLC0415 - an extra

    from holdfast.storage.postgres.store import PostgresStore  # noqa: PLC0415 - the same

    assert isinstance(store, PostgresStore), "the address of a server always opens a PostgresStore"
    try:
        with psycopg.connect(store.info, autocommit=True) as connection:
            for name, check in (
                ("role", _check_role),
                ("durability", _check_durability),
                ("row security", _check_row_security),
                ("transactions", _check_transactions),
                ("used by", _check_connections),
            ):
                try:
                    yield check(connection, store)
                except psycopg.Error as error:
                    yield Check(name, "warn", f"unknown ({_first_line(error)})")
    except psycopg.Error as error:
        yield Check("server", "bad", _first_line(error))


def _check_role(connection: psycopg.Connection[tuple[Any, ...]], store: PostgresStore) -> Check:
    ((is_super, bypasses),) = connection.execute(_ROLE_SQL).fetchall()
    status = store.role_status
    access = "may maintain all tenants" if status.is_maintainer else "sees one tenant at a time"
    if not is_super and not bypasses:
        return Check("role", "ok", f"{status.role}, which {access}")
    privilege = "a superuser" if is_super else "which has BYPASSRLS"
    advice = (
        "Row-level security does not apply to this role. Let applications connect as a role without this privilege."
    )
    return Check("role", "warn", f"{status.role}, {privilege}; {access}", advice)


def _check_durability(connection: psycopg.Connection[tuple[Any, ...]], store: PostgresStore) -> Check:
    settings = dict(connection.execute(_DURABILITY_SQL).fetchall())
    values = ", ".join(f"{name} {setting}" for name, setting in sorted(settings.items()))
    if "off" in settings.values():
        advice = "Acknowledged writes may be lost if the machine fails. Turn these settings on."
        return Check("durability", "warn", values, advice)
    note = "" if store.role_status.is_durable else " (off by default here; Holdfast turns it on)"
    return Check("durability", "ok", values + note)


def _check_row_security(connection: psycopg.Connection[tuple[Any, ...]], store: PostgresStore) -> Check:
    tables = connection.execute(_ROW_SECURITY_SQL, (store.address.schema,)).fetchall()
    if open_ := [name for name, guarded, _ in tables if not guarded]:
        advice = "ENABLE and FORCE row-level security there: only the SQL of Holdfast separates the tenants now."
        return Check("row security", "bad", f"not in force on {_name_tables(open_)}", advice)
    if hidden := [name for name, _, maintained in tables if not maintained]:
        advice = "Run ALTER POLICY maintenance ON each table TO its owner. Until then, verify sees no rows there."
        return Check("row security", "bad", f"the owner cannot maintain {_name_tables(hidden)}", advice)
    return Check("row security", "ok", f"forced on all {len(tables)} tables with data of tenants")


def _name_tables(names: list[str]) -> str:
    return ", ".join(names[:MAX_TABLES]) + (", …" if len(names) > MAX_TABLES else "")


def _check_transactions(connection: psycopg.Connection[tuple[Any, ...]], _store: PostgresStore) -> Check:
    long = connection.execute(_LONG_TRANSACTIONS_SQL, (LONG_TRANSACTION_S, LONG_TRANSACTION_S)).fetchall()
    if long:
        who, database, age_s, wrote = long[0]
        effect = "has written, and delays the feed" if wrote else "reads, and keeps VACUUM from removing erased data"
        first = f"{who} in database {database}, for {format_duration(age_s)}, {effect}"
        finding = f"{format_count(len(long), 'transaction')} open for too long: {first}"
        return Check("transactions", "warn", finding, "Find out why it does not end, or call pg_terminate_backend().")
    ((hidden,),) = connection.execute(_HIDDEN_TRANSACTIONS_SQL).fetchall()
    unseen = f"; {format_count(hidden, 'transaction')} of other roles not visible" if hidden else ""
    return Check("transactions", "ok", f"none open for longer than {format_duration(LONG_TRANSACTION_S)}{unseen}")


def _check_connections(connection: psycopg.Connection[tuple[Any, ...]], _store: PostgresStore) -> Check:
    ((used, most),) = connection.execute(_CONNECTIONS_SQL).fetchall()
    finding = f"{used} of {format_count(most, 'connection')}"
    if used < CROWDED * most:
        return Check("used by", "ok", finding)
    return Check("used by", "warn", finding, "Lower pool= in the addresses, or raise max_connections.")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
