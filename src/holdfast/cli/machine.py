"""What the doctor looks at from outside: the library, the disk, the files and who else uses them; or, where there is no
file, the server: what it is, who we are there, and how it is set up."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import apsw

from holdfast.cli.words import count, size, span
from holdfast.errors import HoldfastError, StorageUnavailable, UnsafeSqlite
from holdfast.ports import EventStore
from holdfast.storage.sqlite.connect import check_sqlite
from holdfast.storage.sqlite.migrate import shipped

if TYPE_CHECKING:
    import psycopg

    from holdfast.storage.postgres.store import PostgresStore

LOW_SPACE = 1_000_000_000
NO_SPACE = 50_000_000
LARGE_WAL = 64_000_000
"""SQLite empties the write-ahead log long before, unless a reader holds it open."""
LOCK_MS = 2_000
"""How long the write lock may be taken before that is odd."""
LONG_TRANSACTION_S = 300
CROWDED = 0.9
"""The share of a server's connections that may be in use."""
NAMED = 3
"""Tables that a line names, at most."""
COMMAND_CHARS = 60
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph"})
"""File systems on which processes of several machines meet, and SQLite's locks do not."""

Verdict = Literal["ok", "warn", "bad"]


class Check(NamedTuple):
    name: str
    verdict: Verdict
    found: str
    advice: str = ""


def checks(path: str) -> Iterator[Check]:
    """All that can be said before the file is opened."""
    yield _library()
    yield _space(path)
    yield _file_system(path)
    yield _permissions(path)
    yield _wal(path)
    yield _leftovers(path)
    yield _users(path)
    yield _schema(path)


def _library() -> Check:
    version = apsw.sqlite_lib_version()
    found = f"SQLite {version}, apsw {apsw.apsw_version()}, Python {sys.version.split()[0]}"
    try:
        check_sqlite(version)
    except UnsafeSqlite as error:
        return Check("library", "bad", found, str(error))
    return Check("library", "ok", found)


def _space(path: str) -> Check:
    free = shutil.disk_usage(_folder(path)).free
    found = f"{size(free)} free"
    if free < NO_SPACE:
        return Check("disk space", "bad", found, "Free some space: writes will fail. What was acknowledged is safe.")
    needed = max(LOW_SPACE, os.path.getsize(path))
    if free < needed:
        return Check("disk space", "warn", found, "A backup or a long write may not fit.")
    return Check("disk space", "ok", found)


def _file_system(path: str) -> Check:
    kind = _mounted_as(os.path.realpath(path))
    if kind in NETWORK:
        advice = "Its locks cannot be relied on: move the file."
        return Check("file system", "bad", f"{kind}, a network file system", advice)
    return Check("file system", "ok", kind or "unknown on this system")


def _mounted_as(path: str) -> str:
    """The type of the file system that the path is on, where the system says so."""
    best, kind = "", ""
    for line in _lines("/proc/self/mounts"):
        place, mounted = line.split()[1:3]
        place = place.encode().decode("unicode_escape")
        if len(place) >= len(best) and (path + "/").startswith(place.rstrip("/") + "/"):
            best, kind = place, mounted
    return kind


def _permissions(path: str) -> Check:
    for place in (path, _folder(path), path + ".blobs"):
        if os.path.exists(place) and not os.access(place, os.R_OK | os.W_OK):
            return Check("permissions", "bad", f"{place} cannot be written", "Run as its owner, or change the mode.")
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & stat.S_IWOTH:
        return Check("permissions", "warn", f"mode {mode:o}: anybody may write", f"chmod o-w {path}")
    readable = ", readable by every user of this machine" if mode & stat.S_IROTH else ""
    return Check("permissions", "ok", f"mode {mode:o}{readable}")


def _wal(path: str) -> Check:
    wal = path + "-wal"
    found = os.path.getsize(wal) if os.path.exists(wal) else 0
    shown = f"{size(os.path.getsize(path))}, its write-ahead log {size(found)}"
    if found > LARGE_WAL:
        return Check("file", "warn", shown, "A process keeps a read open, so the log cannot be emptied; look for it.")
    return Check("file", "ok", shown)


def _leftovers(path: str) -> Check:
    """Of puts, backups and collections that did not come to their end."""
    left = [name for name in (path + ".partial",) if os.path.exists(name)]
    for folder, _, names in os.walk(path + ".blobs"):
        left += [os.path.join(folder, name) for name in names if name.endswith((".partial", ".dropped"))]
    if not left:
        return Check("leftovers", "ok", "none")
    found = f"{count(len(left), 'file')} of interrupted writes, or of some under way, such as {left[0]}"
    return Check("leftovers", "warn", found, "`holdfast collect` clears them away once they are a day old.")


def _users(path: str) -> Check:
    """Processes that hold a lock on the file; only Linux says which."""
    if not os.path.exists("/proc/locks"):
        return Check("used by", "ok", "unknown on this system")
    others = sorted(set(_holders(path)) - {os.getpid()})
    if not others:
        return Check("used by", "ok", "no other process just now")
    named = ", ".join(f"{pid} ({_command(pid)})" for pid in others)
    return Check("used by", "ok", f"{count(len(others), 'process', 'processes')}: {named}")


def _holders(path: str) -> Iterator[int]:
    files = {os.stat(name).st_ino for name in (path, path + "-shm", path + "-wal") if os.path.exists(name)}
    for line in _lines("/proc/locks"):
        fields = line.replace("-> ", "").split()
        device, _, inode = fields[5].rpartition(":")
        if device and int(inode) in files and int(fields[4]) > 0:
            yield int(fields[4])


def _command(pid: int) -> str:
    words = "".join(_lines(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()
    return (words if len(words) <= COMMAND_CHARS else words[:COMMAND_CHARS] + "…") or "unknown"


def _schema(path: str) -> Check:
    """As it is found. The file is opened to be read only; what cannot be read, opening it in earnest will tell."""
    known = shipped()[-1].number
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            found = connection.pragma("user_version")
        finally:
            connection.close()
    except apsw.Error as error:
        return Check("schema", "warn", f"unknown ({error})")
    if found < known:
        return Check("schema", "warn", f"{found}, older than {known}", "Opening it, as this command does, upgrades it.")
    return Check("schema", "ok" if found == known else "bad", f"{found}; this Holdfast makes {known}")


def lock(path: str) -> Check:
    """Whether the write lock can be had; nothing is written."""
    connection = apsw.Connection(path)
    try:
        connection.set_busy_timeout(LOCK_MS)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except apsw.BusyError:
        others = ", ".join(f"{pid} ({_command(pid)})" for pid in sorted(set(_holders(path)) - {os.getpid()}))
        advice = f"Some process has a long transaction open: {others or 'look for it'}."
        return Check("write lock", "bad", f"taken for {LOCK_MS / 1_000:g} s and more", advice)
    except apsw.Error as error:
        return Check("write lock", "bad", str(error))
    finally:
        connection.close()
    return Check("write lock", "ok", "free")


def _folder(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


# On a server

_MIGRATIONS = "SELECT number, breaks FROM migrations ORDER BY number"

_ROLE = "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"

_DURABILITY = "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')"

_ROW_SECURITY = """
SELECT c.relname::text, c.relrowsecurity AND c.relforcerowsecurity
       AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'tenant_alone'),
       EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'maintenance'
               AND c.relowner = ANY (p.polroles))
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
WHERE c.relnamespace = to_regnamespace(%s)::oid AND c.relkind IN ('r', 'p') ORDER BY 1
"""

_LONG = """
SELECT 'process ' || pid, coalesce(datname, '?'), extract(epoch FROM now() - xact_start)::float8, backend_xid IS NOT NULL
FROM pg_stat_activity
WHERE now() - xact_start > make_interval(secs => %s) AND pid <> pg_backend_pid()
  AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL AND backend_type = 'client backend')
UNION ALL
SELECT 'prepared as ' || gid, database, extract(epoch FROM now() - prepared)::float8, true
FROM pg_prepared_xacts WHERE now() - prepared > make_interval(secs => %s)
ORDER BY 4 DESC, 3 DESC
"""
"""Those that have written come first: they hold back the feed, in whichever database they are."""

_HIDDEN = "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NULL AND backend_xid IS NOT NULL"

_USED = """
SELECT count(*), current_setting('max_connections')::integer FROM pg_stat_activity WHERE backend_type = 'client backend'
"""


def server_checks(url: str) -> Iterator[Check]:
    """All that can be said before the store on a server is opened."""
    import psycopg  # noqa: PLC0415 - an extra

    from holdfast.storage.postgres.connect import OLDEST_SERVER, address_of, typed_errors  # noqa: PLC0415 - the same

    libpq = psycopg.pq.version()
    versions = f"psycopg {psycopg.__version__}, libpq {libpq // 10_000}.{libpq % 10_000}"
    yield Check("library", "ok", f"{versions}, Python {sys.version.split()[0]}")
    address = address_of(url)
    try:
        with typed_errors(address.what), psycopg.connect(address.info, autocommit=True) as connection:
            number = connection.info.server_version
            found = f"version {number // 10_000}.{number % 10_000} of {address.what}"
            if number // 10_000 < OLDEST_SERVER:
                yield Check("server", "bad", found, f"Use PostgreSQL {OLDEST_SERVER} or later.")
                return
            yield Check("server", "ok", found)
            yield _server_schema(connection)
    except HoldfastError as error:
        yield unreachable(error)


def unreachable(error: HoldfastError) -> Check:
    """A server that cannot be asked, with all that it had to say: the message of an error is cut."""
    advice = "Check the address, that the server is up, and that it lets this role in."
    if isinstance(error, StorageUnavailable):
        return Check("server", "bad", f"{error.what}: {error.reason}", advice)
    return Check("server", "bad", str(error))


def _server_schema(connection: psycopg.Connection[tuple[Any, ...]]) -> Check:
    """As it is found. What cannot be read, opening it in earnest will tell."""
    import psycopg  # noqa: PLC0415 - an extra

    from holdfast.storage.postgres.migrate import shipped  # noqa: PLC0415 - the same

    known = {migration.number for migration in shipped()}
    try:
        breaks = dict(connection.execute(_MIGRATIONS).fetchall())
    except psycopg.Error as error:
        return Check("schema", "warn", f"unknown ({_first_line(error)})")
    found = f"{max(breaks, default=0)}; this Holdfast makes {max(known)}"
    if known - breaks.keys():
        advice = "Opening it as the role that owns it, as this command may have done, upgrades it."
        return Check("schema", "warn", found, advice)
    if any(breaks[number] for number in breaks.keys() - known):
        return Check("schema", "bad", found, "Upgrade Holdfast here: a newer one took away what this one needs.")
    added = ", to which a newer one has added" if breaks.keys() - known else ""
    return Check("schema", "ok", found + added)


def open_server_checks(store: EventStore) -> Iterator[Check]:
    """What can be said of a server once the store on it is open, as the role and with the settings that it works with."""
    import psycopg  # noqa: PLC0415 - an extra

    from holdfast.storage.postgres.store import PostgresStore  # noqa: PLC0415 - the same

    assert isinstance(store, PostgresStore), "an address of a server opens nothing else"
    try:
        with psycopg.connect(store.info, autocommit=True) as connection:
            for name, check in (
                ("role", _role),
                ("durability", _durability),
                ("row security", _row_security),
                ("transactions", _transactions),
                ("used by", _connections),
            ):
                try:
                    yield check(connection, store)
                except psycopg.Error as error:
                    yield Check(name, "warn", f"unknown ({_first_line(error)})")
    except psycopg.Error as error:
        yield Check("server", "bad", _first_line(error))


def _role(connection: psycopg.Connection[tuple[Any, ...]], store: PostgresStore) -> Check:
    ((is_super, bypasses),) = connection.execute(_ROLE).fetchall()
    standing = store.standing
    sees = "may look after all tenants" if standing.maintains else "sees one tenant at a time"
    if not is_super and not bypasses:
        return Check("role", "ok", f"{standing.role}, which {sees}")
    how = "a superuser" if is_super else "which has BYPASSRLS"
    advice = "Row-level security does not bind it. Let applications connect as a role that it binds."
    return Check("role", "warn", f"{standing.role}, {how}; {sees}", advice)


def _durability(connection: psycopg.Connection[tuple[Any, ...]], store: PostgresStore) -> Check:
    found = dict(connection.execute(_DURABILITY).fetchall())
    told = ", ".join(f"{name} {setting}" for name, setting in sorted(found.items()))
    if "off" in found.values():
        advice = "What was acknowledged may be lost when the machine fails: turn on what is off."
        return Check("durability", "warn", told, advice)
    asked = "" if store.standing.durable else " (off by default here; Holdfast asks for it)"
    return Check("durability", "ok", told + asked)


def _row_security(connection: psycopg.Connection[tuple[Any, ...]], store: PostgresStore) -> Check:
    tables = connection.execute(_ROW_SECURITY, (store.address.schema,)).fetchall()
    if open_ := [name for name, guarded, _ in tables if not guarded]:
        advice = "ENABLE and FORCE it there: only Holdfast's own statements keep tenants apart now."
        return Check("row security", "bad", f"not in force on {_some(open_)}", advice)
    if hidden := [name for name, _, maintained in tables if not maintained]:
        advice = "ALTER POLICY maintenance ON each of them TO the role that owns it; until then verify finds nothing."
        return Check("row security", "bad", f"the owner cannot look after {_some(hidden)}", advice)
    return Check("row security", "ok", f"forced on all {len(tables)} tables that hold tenants' data")


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")


def _transactions(connection: psycopg.Connection[tuple[Any, ...]], _store: PostgresStore) -> Check:
    long = connection.execute(_LONG, (LONG_TRANSACTION_S, LONG_TRANSACTION_S)).fetchall()
    if long:
        who, database, age_s, wrote = long[0]
        what = (
            "has written, and holds back the feed" if wrote else "reads, and keeps VACUUM from removing what was erased"
        )
        found = (
            f"{count(len(long), 'transaction')} open for long: {who} in database {database}, for {span(age_s)}, {what}"
        )
        return Check("transactions", "warn", found, "Find out why it does not end, or end it: pg_terminate_backend().")
    ((hidden,),) = connection.execute(_HIDDEN).fetchall()
    unseen = f"; {count(hidden, 'transaction')} of other roles could not be looked at" if hidden else ""
    return Check("transactions", "ok", f"none open for longer than {span(LONG_TRANSACTION_S)}{unseen}")


def _connections(connection: psycopg.Connection[tuple[Any, ...]], _store: PostgresStore) -> Check:
    ((used, most),) = connection.execute(_USED).fetchall()
    found = f"{used} of {count(most, 'connection')}"
    if used < CROWDED * most:
        return Check("used by", "ok", found)
    return Check("used by", "warn", found, "Lower pool= in the addresses, or raise max_connections.")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
