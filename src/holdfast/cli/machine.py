"""What the doctor looks at from outside: the library, the disk, the files and who else uses them."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from typing import Literal, NamedTuple

import apsw

from holdfast.cli.words import count, size
from holdfast.errors import UnsafeSqlite
from holdfast.storage.sqlite.connect import check_sqlite
from holdfast.storage.sqlite.migrate import shipped

LOW_SPACE = 1_000_000_000
NO_SPACE = 50_000_000
LARGE_WAL = 64_000_000
"""SQLite empties the write-ahead log long before, unless a reader holds it open."""
LOCK_MS = 2_000
"""How long the write lock may be taken before that is odd."""
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
