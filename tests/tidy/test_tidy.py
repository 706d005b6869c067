"""Style is a test: what the linters cannot say, said once."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUNCTION_LINES = 70
MODULE_LINES = 600
FILE_BYTES = 1_000_000

UNSAFE = {"pickle", "marshal", "shelve", "dill", "sqlite3"}
"""Deserialisers that run code, and a second SQLite that drops the file locks of the first."""

LEFTOVER = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|NotImplementedError|breakpoint\(\)|pytest\.mark\.(?:skip|xfail)")
ADDRESS = re.compile(r"https?://")
PLACES = [f"{place}/" for place in (ROOT, Path.home()) if place != Path("/")]
"""Where this copy and its reader happen to live."""


def tracked() -> list[Path]:
    """What git would commit; in a copy without git, everything but the environments."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    names = listing.stdout.split("\n") if listing.returncode == 0 else []
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


FILES = tracked()
SOURCES = [path for path in FILES if path.suffix == ".py" and path.is_relative_to(ROOT / "src")]
PYTHON = [path for path in FILES if path.suffix == ".py"]
TEXT = [
    path for path in FILES if path.suffix in {".py", ".md", ".toml", ".sql", ".lock", ""} and path.name != "LICENSE"
]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_is_something_to_check() -> None:
    assert len(SOURCES) > 20
    assert len(TEXT) > len(SOURCES)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_module_is_short_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no docstring"
    assert text.count("\n") <= MODULE_LINES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= FUNCTION_LINES, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_module_imports_nothing_unsafe_and_prints_nothing(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = {alias.name.split(".")[0] for alias in node.names} if isinstance(node, ast.Import) else set()
            imported.add((getattr(node, "module", None) or "").split(".")[0])
            assert not imported & UNSAFE
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"eval", "exec", "__import__", "print"}


def executed_sql(path: Path) -> Iterator[ast.expr]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if node.func.attr in {"execute", "executemany"}:
            yield node.args[0]


def test_sql_is_fixed_text_and_parameters() -> None:
    """What is put together at run time is put together from constants and the columns of row types only."""
    allowed = {"PRAGMA synchronous=", "PRAGMA application_id=", "PRAGMA user_version="}
    for path in SOURCES:
        for sql in executed_sql(path):
            if isinstance(sql, ast.JoinedStr):
                opening = sql.values[0]
                assert isinstance(opening, ast.Constant), f"{name(path)}:{sql.lineno}"
                assert opening.value in allowed, f"{name(path)}:{sql.lineno}"


def test_nothing_is_left_over_and_no_place_is_named() -> None:
    for path in TEXT:
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert path.suffix == ".py" or not ADDRESS.search(line), f"{name(path)}:{number}: {line.strip()[:80]}"
            assert not any(place in line for place in PLACES), f"{name(path)}:{number}: {line.strip()[:80]}"
            if path.suffix == ".py":
                assert not LEFTOVER.search(line), f"{name(path)}:{number}: {line.strip()[:80]}"


def test_no_file_is_large() -> None:
    for path in FILES:
        assert path.stat().st_size <= FILE_BYTES, name(path)


def test_the_readme_names_only_what_is_there() -> None:
    readme = (ROOT / "README.md").read_text()
    named = re.findall(r"`((?:tests|docs|examples|benchmarks|src)/[\w./-]*)`", readme)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_every_link_between_documents_leads_somewhere() -> None:
    for path in (each for each in FILES if each.suffix == ".md"):
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{name(path)} -> {target}"
