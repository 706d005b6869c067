"""The contenders as processes: Holdfast's gateway by its command, and headroom's proxy in an environment of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from benchmarks.gateway.clocks import RecordedClock

HERE = Path(__file__).parent
LOG = "log.txt"
LOCK = HERE / "headroom.lock"
ENVIRONMENT = HERE.parent.parent / ".venv-headroom"
START_S = 120
NO_VOCABULARY = ("tiktoken_counter.py",)
LOOK_S = 0.004
"""How often a working process is looked at."""
STILL_S = 0.000_5
"""The CPU time between two looks up to which a process counts as still."""
LOOKS = 2
"""So many times in a row."""


class Contender(msgspec.Struct, frozen=True):
    """A command that listens at a port."""

    name: str
    command: tuple[str, ...]
    """With {port}, {upstream} and {folder}."""
    health: str
    environment: dict[str, str] = {}
    failures: tuple[str, ...] = ()
    """What its log says when it does not do its work; then its figures would not be fair."""

    def check_log(self, folder: Path) -> None:
        log = (folder / LOG).read_text("utf-8", "replace")
        for failure in self.failures:
            if failure in log:
                raise RuntimeError(f"the log says {failure!r}")


def build_holdfast(policy: str) -> Contender:
    """The command as a user runs it, with its defaults."""
    command = f"{sys.executable} -m holdfast gateway {{folder}}/gateway.db --port {{port}} --anthropic-url {{upstream}}"
    given = (*command.split(), *(("--policy", policy) if policy != "faithful" else ()))
    return Contender(f"Holdfast, {policy}", given, "/holdfast/health")


def build_headroom(mode: str, python: Path) -> Contender:
    """Its proxy with its defaults, except that it limits no rate and polls no subscription.

    Its tokenizer loads a vocabulary from the network. A package that it installs has the same file."""
    command = f"{python.parent}/headroom proxy --port {{port}} --anthropic-api-url {{upstream}}"
    given = (*command.split(), "--no-rate-limit", "--no-subscription-tracking", "--mode", mode)
    (tokenizers,) = python.parent.parent.glob("lib/python*/site-packages/litellm/litellm_core_utils/tokenizers")
    environment = {
        "HOME": "{folder}",
        "TIKTOKEN_CACHE_DIR": str(tokenizers),
        "HEADROOM_TELEMETRY": "off",
        "HF_HUB_OFFLINE": "1",
    }
    return Contender(f"headroom, {mode} mode", given, "/health", environment, NO_VOCABULARY)


class GatewayProcess:
    """A running contender. It can be killed and started again at the same port."""

    def __init__(self, contender: Contender, upstream: str, folder: Path, clock: RecordedClock | None) -> None:
        self.contender, self.folder = contender, folder
        self.port = find_port()
        values = {"port": str(self.port), "upstream": upstream, "folder": str(folder)}
        self._command = [each.format(**values) for each in contender.command]
        own = {key: value.format(**values) for key, value in contender.environment.items()}
        shifted: Mapping[str, str] = clock.environment if clock is not None else {}
        self._environment = {**os.environ, **shifted, **own}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        log = (self.folder / LOG).open("ab")
        with log:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=log, stderr=log, cwd=self.folder
            )
        wait_until_healthy(self.url + self.contender.health, self._process)

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def read_rss(self) -> int:
        """The memory that the process has, in bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        return 0

    def wait_until_idle(self, timeout_s: float) -> None:
        """Wait until no thread of the process runs, waits for a core or for the disk."""
        end = time.monotonic() + timeout_s
        before, still = self._read_threads(), 0
        while still < LOOKS and (left := end - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left))
            now = self._read_threads()
            is_still = now is not None and before is not None and now - before <= STILL_S
            before, still = now, still + 1 if is_still else 0

    def _read_threads(self) -> float | None:
        """The CPU time of all threads, in seconds; None if one of them is at work just now."""
        total = 0
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
                if (thread / "stat").read_text().rpartition(")")[2].split()[0] in "RD":
                    return None
                total += int((thread / "schedstat").read_text().split()[0])
        return total / 1e9

    def read_cpu_s(self) -> float:
        """The CPU time that the process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def run_contender(
    contender: Contender, upstream: str, folder: Path, clock: RecordedClock | None = None
) -> Iterator[GatewayProcess]:
    folder.mkdir(parents=True, exist_ok=True)
    process = GatewayProcess(contender, upstream, folder, clock)
    try:
        yield process
    finally:
        process.stop()


def find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the contender ended with {process.returncode} before it listened")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise TimeoutError(f"{url} did not answer")
