"""Names: each class has one of its own, and modules and classes are named with nouns."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "holdfast"
MODULES = sorted(SOURCE.rglob("*.py"))
BANNED = {"told", "said", "held", "place", "stands", "made", "found"}
NOUNS = {"reasoning"}
"""Words in -ing that name a thing."""


def module_name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@functools.cache
def classes_by_name() -> dict[str, list[str]]:
    classes: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(f"{module_name(path)}:{node.lineno}")
    return classes


def test_no_two_classes_share_a_name() -> None:
    classes = classes_by_name()
    assert len(classes) > 300
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}


def test_no_class_is_named_with_a_banned_word() -> None:
    wrong = {
        name: places
        for name, places in classes_by_name().items()
        if BANNED & {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name.removesuffix("NotFound"))}
    }
    assert wrong == {}


def test_every_module_is_named_with_a_noun() -> None:
    for path in MODULES:
        words = set(path.stem.strip("_").split("_"))
        assert not words & BANNED, module_name(path)
        assert [word for word in words - NOUNS if word.endswith("ing")] == [], module_name(path)
