"""Copies of the working tree, with a mutant in them or without one."""

from __future__ import annotations

import compileall
import difflib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.catalogue import Mutant

ROOT = Path(__file__).parents[2]

NEAREST_LINES = 3
"""Lines that are shown for a snippet that is not there."""


class MutantError(Exception):
    """A mutant does not apply, or was not what the tests ran on."""


def list_files(root: Path = ROOT) -> list[str]:
    """The files that git knows or would add, by their paths from the root."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listing = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [name for name in listing.stdout.splitlines() if (root / name).is_file()]


def copy_clean(target: Path) -> Path:
    """A copy of the working tree as it is, with its bytecode, so that no copy of the copy has to compile it."""
    for name in list_files():
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place)
    compileall.compile_dir(target / "src", quiet=2)
    return target


def copy_mutated(clean: Path, target: Path, mutant: Mutant) -> Path:
    """A copy of a clean copy, with a mutant in it."""
    shutil.copytree(clean, target, ignore=shutil.ignore_patterns(".pytest_cache", ".hypothesis"))
    place = target / mutant.file
    place.write_text(mutate(place.read_text(), mutant))
    ahead = time.time() + 10  # never the time of the clean file: its bytecode must not pass for that of the mutant
    os.utime(place, (ahead, ahead))
    return target


def mutate(text: str, mutant: Mutant) -> str:
    """The text of a mutant's file, with the mutant in it."""
    count = text.count(mutant.old)
    if count != 1:
        advice = "\n".join(find_nearest(mutant)) if not count else ""
        raise MutantError(
            f"{mutant.id}: the snippet occurs {count} times in {mutant.file}, not once: {mutant.old!r}\n{advice}".rstrip()
        )
    return text.replace(mutant.old, mutant.new)


def find_fault(mutant: Mutant) -> str:
    """Why a mutant does not apply to the working tree; empty if it does."""
    place = ROOT / mutant.file
    if not place.is_file():
        return "\n".join([f"{mutant.id}: there is no file {mutant.file}", *find_nearest(mutant)])
    try:
        text = mutate(place.read_text(), mutant)
        if place.suffix == ".py":
            compile(text, mutant.file, "exec")
    except (MutantError, SyntaxError) as error:
        return str(error)
    missing = [path for path in mutant.near if not (ROOT / path.partition("::")[0]).exists()]
    return f"{mutant.id}: there is no test {missing[0]}" if missing else ""


def find_nearest(mutant: Mutant) -> Iterator[str]:
    """Where a snippet may be now: in another file as it is, or in the same file in other words."""
    for place in sorted((ROOT / "src").rglob(f"*{Path(mutant.file).suffix}")):
        if mutant.old in place.read_text():
            yield f"  it is in {place.relative_to(ROOT)}"
    place = ROOT / mutant.file
    if not place.is_file():
        return
    lines = place.read_text().splitlines()
    wanted = max(mutant.old.splitlines(), key=len).strip()
    texts = {line.strip(): number for number, line in reversed([*enumerate(lines, 1)])}
    for text in difflib.get_close_matches(wanted, texts, NEAREST_LINES, cutoff=0.3):
        yield f"  {mutant.file}:{texts[text]}: {text}"
