"""Read the text and the parameters of a docstring, in three styles.

Args:                      Parameters                 :param city: Where to look.
    city: Where to look.   ----------
                           city : str
                               Where to look.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PARAMETER_SECTIONS = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
)
_SECTIONS = (
    _PARAMETER_SECTIONS
    | {"attributes", "example", "examples", "note", "notes", "raises", "references", "return", "returns", "see also"}
    | {"todo", "warning", "warnings", "warns", "yield", "yields"}
)
_GOOGLE = re.compile(r"(\*{0,2}\w{1,200})\s{0,8}(?:\([^()\n]{0,400}\))?\s{0,8}:\s{0,8}(.{0,4000})")
_NUMPY = re.compile(r"(\*{0,2}\w{1,200}(?:\s{0,8},\s{0,8}\w{1,200}){0,20})\s{0,8}(?::.{0,4000})?")
_FIELD = re.compile(r":(\w{1,40})(?:\s[^:\n]{0,400}?)??(?:\s(\*{0,2}\w{1,200}))?\s{0,8}:(?:\s(.{0,4000}))?")
_UNDERLINE = re.compile(r"\s{0,40}-{3,400}\s{0,40}")


class Docstring(NamedTuple):
    text: str
    """The description of the function, without sections."""
    parameters: dict[str, str]


def read_docstring(text: str) -> Docstring:
    lines = _dedent(text)
    prose: list[str] = []
    parameters: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        section, used = _find_heading(lines, at)
        if not section and not lines[at].startswith(":"):
            prose.append(lines[at].strip())
            at += 1
            continue
        at += used
        body, at = (_read_field if not section else _read_section)(lines, at, section)
        if not section or section in _PARAMETER_SECTIONS:
            _collect_parameters(body, section != "" and used == 2, parameters)
    paragraphs = "\n".join(prose).split("\n\n")
    description = "\n\n".join(" ".join(each.split()) for each in paragraphs if each.strip())
    return Docstring(description, {name: " ".join(" ".join(words).split()) for name, words in parameters.items()})


def _dedent(text: str) -> list[str]:
    """The lines without their common indentation; the first line is stripped by itself."""
    lines = text.expandtabs().splitlines()
    margins = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(margins, default=0)
    return [line.strip() if number == 0 else line[margin:].rstrip() for number, line in enumerate(lines)]


def _find_heading(lines: list[str], at: int) -> tuple[str, int]:
    """The section that begins here, and the number of lines of its heading; an empty name for none."""
    line = lines[at]
    if line.endswith(":") and line[:-1].strip().lower() in _SECTIONS and not line.startswith((" ", ":")):
        return line[:-1].strip().lower(), 1
    underlined = at + 1 < len(lines) and _UNDERLINE.fullmatch(lines[at + 1])
    if underlined and line.strip().lower() in _SECTIONS:
        return line.strip().lower(), 2
    return "", 0


def _read_section(lines: list[str], at: int, _: str) -> tuple[list[str], int]:
    """The lines of a section, up to the next one."""
    start = at
    while at < len(lines) and not _find_heading(lines, at)[0] and not lines[at].startswith(":"):
        at += 1
    return lines[start:at], at


def _read_field(lines: list[str], at: int, _: str) -> tuple[list[str], int]:
    """A field of reStructuredText, with its continuation lines."""
    start = at
    at += 1
    while at < len(lines) and lines[at].startswith(" "):
        at += 1
    return lines[start:at], at


def _collect_parameters(body: list[str], underlined: bool, parameters: dict[str, list[str]]) -> None:
    """Add the parameters of a section: each begins at the margin, and lines that are indented further continue it."""
    filled = [line for line in body if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    current: list[str] = []
    for line in filled:
        text = line.strip()
        if len(line) - len(line.lstrip()) > margin:
            current.append(text)
            continue
        current = []
        if text.startswith(":"):
            match = _FIELD.fullmatch(text)
            if match and match[1] in ("param", "parameter", "arg", "argument", "key", "keyword") and match[2]:
                current = parameters.setdefault(match[2].lstrip("*"), [])
                current.append(match[3] or "")
        elif underlined:
            match = _NUMPY.fullmatch(text)
            for name in match[1].split(",") if match else ():
                parameters[name.strip().lstrip("*")] = current
        else:
            match = _GOOGLE.fullmatch(text)
            if match:
                current = parameters.setdefault(match[1].lstrip("*"), [])
                current.append(match[2])
