"""The table of the five documents: its rows, and what the names in them stand for."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import click

import holdfast
import holdfast.model
import holdfast.types
from holdfast import errors
from holdfast.cli.commands import root
from holdfast.model.events import EVENTS
from holdfast.runtime import options as call_options

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "documents.md"
SECTION = re.compile(r"^## Document (\d{3}): ", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
NAME = re.compile(r"(?P<path>\w+(?:\.\w+)*)(?:\((?P<parameters>[\w, ]*)\)|\[\"(?P<value>\w+)\"\])?")
DOTTED = re.compile(r"(?:errors|[A-Z]\w*)\.\w")
CELLS = 3
"""The document's name, the name here, the difference."""


class Row(NamedTuple):
    document: str
    heading: str
    """Of the part of the document that it is in."""
    theirs: str
    ours: str
    difference: str

    @property
    def names(self) -> list[str]:
        """The code in the column of names here, and the dotted names in the column of differences."""
        return [*SPAN.findall(self.ours), *filter(DOTTED.match, SPAN.findall(self.difference))]


def read_rows() -> list[Row]:
    """All rows of the page, in order."""
    found: list[Row] = []
    document = heading = ""
    for line in PAGE.read_text().splitlines():
        if match := SECTION.match(line):
            document = match[1]
        elif line.startswith("### "):
            heading = line.removeprefix("### ")
        elif document and line.startswith("| ") and not line.startswith("| document "):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            assert len(cells) == CELLS, line
            found.append(Row(document, heading, *cells))
    return found


def find_fault(name: str) -> str:
    """Why a name stands for nothing; an empty text if it stands for something."""
    if name.startswith("tests/"):
        return "" if _is_test(name) else "no such test"
    if name.startswith("holdfast "):
        return "" if _is_command(name) else "no such command"
    if name in EVENTS:
        return ""
    match = NAME.fullmatch(name)
    if match is None:
        return "not a name"
    try:
        found = _resolve(match["path"])
    except (AttributeError, ImportError):
        return "no such name"
    if match["value"] is not None:
        return "" if match["value"] in get_args(found) else f"{match['value']} is none of its values"
    for parameter in filter(None, re.split(r", *", match["parameters"] or "")):
        if parameter not in _list_parameters(found):
            return f"no parameter {parameter}"
    return ""


def _list_parameters(function: object) -> set[str]:
    """The names that a call may use, those of an options struct included."""
    if not callable(function):
        return set()
    parameters = inspect.signature(function).parameters
    options = (
        re.fullmatch(r"Unpack\[(\w+)\]", str(parameters["options"].annotation)) if "options" in parameters else None
    )
    return {*parameters, *(getattr(call_options, options[1]).__annotations__ if options else ())}


def _resolve(path: str) -> object:
    """What a dotted name stands for: public, in full from `holdfast.` on, or of the data model."""
    first, *rest = path.split(".")
    if first == "holdfast":
        return pkgutil.resolve_name(path)
    if first == "errors" and len(rest) > 1 and f"{{{rest[1]}" in (getattr(errors, rest[0]).__doc__ or ""):
        return getattr(errors, rest[0])  # the values of an error are in braces in its message
    for owner in (holdfast, holdfast.types, *_list_models()):
        if hasattr(owner, first):
            return functools.reduce(_get_member, rest, getattr(owner, first))
    raise AttributeError(path)


def _get_member(owner: object, name: str) -> object:
    """A member of a class; of a facet, such as `Session.facts`, the member of the class that it returns."""
    if isinstance(owner, property):
        assert owner.fget is not None
        owner = owner.fget.__globals__[owner.fget.__annotations__["return"]]
    return getattr(owner, name)


def _list_models() -> Iterator[object]:
    for each in pkgutil.walk_packages(holdfast.model.__path__, "holdfast.model."):
        yield importlib.import_module(each.name)
    yield holdfast.model


def _is_test(name: str) -> bool:
    path, _, function = name.partition("::")
    if not (ROOT / path).is_file():
        return False
    body = ast.parse((ROOT / path).read_text()).body
    return not function or any(isinstance(node, ast.FunctionDef) and node.name == function for node in body)


def _is_command(name: str) -> bool:
    context = click.Context(root)
    command: click.Command | None = root
    for part in name.split()[1:]:
        command = command.get_command(context, part) if isinstance(command, click.Group) else None
    return command is not None
