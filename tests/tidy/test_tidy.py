"""Style is a test: what the linters cannot say, said once."""

from __future__ import annotations

import ast
import functools
import re
import string
import subprocess
from collections.abc import Iterator
from pathlib import Path

from holdfast import errors

ROOT = Path(__file__).parents[2]
FUNCTION_LINES = 70
MODULE_LINES = 1_000
FILE_BYTES = 1_000_000
README_LINES = 125

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


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_there_is_something_to_check() -> None:
    assert len(SOURCES) > 20
    assert len(TEXT) > len(SOURCES)


def test_every_module_is_short_and_says_what_it_is_for() -> None:
    for path in SOURCES:
        tree = parse(path)
        assert ast.get_docstring(tree), f"{name(path)} has no docstring"
        assert path.read_text().count("\n") <= MODULE_LINES, name(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= FUNCTION_LINES, f"{node.name} in {name(path)} has {lines} lines"


def test_no_module_imports_anything_unsafe_or_prints() -> None:
    for path in SOURCES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported = {alias.name.split(".")[0] for alias in node.names} if isinstance(node, ast.Import) else set()
                imported.add((getattr(node, "module", None) or "").split(".")[0])
                assert not imported & UNSAFE, name(path)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "__import__", "print"}, name(path)


def executed_sql(path: Path) -> Iterator[ast.expr]:
    for node in ast.walk(parse(path)):
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


def test_the_promises_name_only_what_is_there() -> None:
    promises = (ROOT / "docs/promises.md").read_text()
    named = re.findall(r"`((?:tests|docs|examples|benchmarks|src)/[\w./-]*)`", promises)
    assert len(named) > 50
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= README_LINES


def test_every_link_between_documents_leads_somewhere() -> None:
    for path in (each for each in FILES if each.suffix == ".md"):
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{name(path)} -> {target}"


def built_errors(path: Path) -> Iterator[tuple[ast.Call, type[errors.HoldfastError]]]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            kind = getattr(errors, node.func.id if isinstance(node.func, ast.Name) else node.func.attr, None)
            if isinstance(kind, type) and issubclass(kind, errors.HoldfastError):
                yield node, kind


def test_every_error_is_built_with_the_fields_of_its_text() -> None:
    count = 0
    for path in SOURCES:
        for call, kind in built_errors(path):
            names = {keyword.arg for keyword in call.keywords}
            fields = {field for _, field, _, _ in string.Formatter().parse(kind.__doc__ or "") if field}
            assert None in names or fields <= names, f"{name(path)}:{call.lineno} lacks {fields - names}"
            count += 1
    assert count > 100
