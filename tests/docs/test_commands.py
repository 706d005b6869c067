"""Every command of Holdfast in the shell blocks of the documents is one: its name, its arguments and its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.cli.commands import root

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
END = re.compile(r"\s(?:[|&;]|\d?>)")


def iterate_commands() -> Iterator[tuple[str, str]]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in BLOCK.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                text = line.removeprefix("$ ")
                if text.startswith("holdfast "):
                    yield page.name, END.split(text)[0]


def find_fault(line: str) -> str:
    """Why a line is no command of Holdfast; empty if it is one."""
    command: click.Command = root
    context: click.Context | None = None
    _, *words = shlex.split(line, comments=True)
    try:
        while True:
            context = command.make_context(command.name, words, parent=context)
            if not isinstance(command, click.Group):
                return ""
            _, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
            assert found is not None
            command = found
    except click.exceptions.Exit:
        return ""  # --help and --version
    except click.BadParameter as error:
        return "" if "does not exist" in error.message else error.format_message()
    except click.UsageError as error:
        return error.format_message()


def test_every_command_in_the_documents_is_one() -> None:
    lines = list(iterate_commands())
    assert len(lines) > 50
    assert [(page, line, fault) for page, line in lines if (fault := find_fault(line))] == []


@pytest.mark.parametrize("line", ["holdfast sessions", "holdfast facts x", "holdfast nothing", "holdfast run --x y"])
def test_a_line_that_is_no_command_is_found(line: str) -> None:
    assert find_fault(line)
