"""The built files of the page: they are those of the sources, small, in the wheel, and made of nothing forbidden."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tools.inspector_build import BUILT, NAMES, ROOT, SOURCES, digest_sources, list_sources

from holdfast.inspector.files import FOLDER, PAGE, PATHS, SCRIPT, STYLE

SCRIPT_BYTES = 250_000
"""The script, compressed."""
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function\(|"
    r"\bsetTimeout\(\s*[\"'`]|\bsrcdoc\b|javascript:"
)
ADDRESSES = re.compile(r"""(?:src|href)=["'](?:https?:)?//|import\(["'`]https?:|@import|url\(["']?(?:https?:)?//""")


@pytest.mark.parametrize("name", NAMES)
def test_the_built_files_are_those_of_the_sources(name: str) -> None:
    stamps = re.findall(r"holdfast-sources\W+(?:content=\")?([0-9a-f]{64})", (BUILT / name).read_text())
    assert stamps == [digest_sources()], f"{name} is older than its sources. Run `make inspector` and commit the files."


def test_the_script_is_small() -> None:
    size = len(gzip.compress((BUILT / SCRIPT).read_bytes(), 9))
    assert size <= SCRIPT_BYTES, f"{size} bytes compressed"


def test_the_page_has_what_the_server_and_the_export_rely_on() -> None:
    page = (BUILT / PAGE).read_text()
    assert Path(FOLDER) == BUILT
    assert sorted(PATHS.values()) == sorted(NAMES)
    assert len(re.findall(r'<link rel="stylesheet" href="/inspector/inspector\.css">', page)) == 1
    assert len(re.findall(r'<script[^>]* src="/inspector/inspector\.js"[^>]*></script>', page)) == 1
    assert page.count("<head>") == page.count("</body>") == 1
    assert not re.search(r"\son[a-z]+=|<style|style=", page)


def test_nothing_in_the_sources_makes_markup_or_code_of_a_text() -> None:
    for path in list_sources():
        if path.suffix in (".ts", ".tsx", ".html", ".css"):
            found = FORBIDDEN.search(path.read_text()) or ADDRESSES.search(path.read_text())
            assert found is None, f"{path.relative_to(SOURCES)}: {found}"


def test_the_built_files_ask_no_other_place() -> None:
    for name in NAMES:
        assert not ADDRESSES.search((BUILT / name).read_text()), name
    assert "sourceMappingURL" not in (BUILT / SCRIPT).read_text() + (BUILT / STYLE).read_text()


def test_the_lock_file_names_no_registry() -> None:
    text = (SOURCES / "package-lock.json").read_text()
    assert "://" not in re.sub(r'"(?:funding|url)": "[^"]*"', "", text)
    assert '"integrity": "sha512-' in text


def test_the_wheel_has_the_page_and_not_its_sources(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for name in NAMES:
            assert archive.read(f"holdfast/inspector/static/{name}") == (BUILT / name).read_bytes()
    assert not [name for name in names if name.endswith((".ts", ".tsx", ".mjs")) or "node_modules" in name]
