"""The tables of the reference, generated from the code: `make reference` writes them, and a test fails when they are out of
date. The reference of the public names is part of the documentation site (`make docs`)."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from holdfast import errors
from holdfast.model import limits
from holdfast.model.events import EVENTS

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def _first(text: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def errors_page() -> str:
    lines = [
        "# Errors",
        "",
        "Every error is a `holdfast.errors.HoldfastError`. The message says what happened, with which value,",
        "and what to do; the values in braces are attributes; the driver's own error is the `__cause__`.",
        "",
        "| error | is a | message |",
        "|---|---|---|",
    ]
    for each in vars(errors).values():
        if isinstance(each, type) and issubclass(each, errors.HoldfastError):
            bases = ", ".join(f"`{base.__name__}`" for base in each.__bases__)
            lines.append(f"| `{each.__name__}` | {bases} | {_cell(_first(each.__doc__))} |")
    return "\n".join([*lines, ""])


def limits_page() -> str:
    lines = [
        "# Limits",
        "",
        "Every bound has a name (`holdfast.model.limits`). Passing one is a typed error.",
        "",
        "| name | value | of |",
        "|---|---|---|",
    ]
    body = ast.parse(inspect.getsource(limits)).body[1:]
    for name, text in zip(body[::2], body[1::2], strict=True):
        assert isinstance(name, ast.Assign)
        assert isinstance(text, ast.Expr)
        assert isinstance(name.targets[0], ast.Name)
        bound = name.targets[0].id
        lines.append(f"| `{bound}` | {getattr(limits, bound):,} | {_first(ast.literal_eval(text.value))} |")
    return "\n".join([*lines, ""])


def events_page() -> str:
    lines = [
        "# Events",
        "",
        "What the logs of sessions and ledgers are made of. A stored event never changes: a new shape gets a higher",
        "version, and older ones are read as the newest.",
        "",
        "| event | version | fields | what it says |",
        "|---|---|---|---|",
    ]
    for each in EVENTS.values():
        fields = ", ".join(f"`{field}`" for field in each.__struct_fields__)
        lines.append(f"| `{each.name}` | {each.version} | {fields} | {_cell(_first(vars(each).get('__doc__')))} |")
    return "\n".join([*lines, ""])


PAGES = {"errors.md": errors_page, "events.md": events_page, "limits.md": limits_page}

if __name__ == "__main__":
    for file, page in PAGES.items():
        (FOLDER / file).write_text(page())
