"""What a docstring says of a function and of its parameters, in the three styles that are in use.

Args:                      Parameters                 :param city: Where to look.
    city: Where to look.   ----------
                           city : str
                               Where to look.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PARAMETERS = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
)
_SECTIONS = _PARAMETERS | {
    "attributes",
    "example",
    "examples",
    "note",
    "notes",
    "raises",
    "references",
    "return",
    "returns",
    "see also",
    "todo",
    "warning",
    "warnings",
    "warns",
    "yield",
    "yields",
}
_GOOGLE = re.compile(r"(\*{0,2}\w{1,200})\s{0,8}(?:\([^()\n]{0,400}\))?\s{0,8}:\s{0,8}(.{0,4000})")
_NUMPY = re.compile(r"(\*{0,2}\w{1,200}(?:\s{0,8},\s{0,8}\w{1,200}){0,20})\s{0,8}(?::.{0,4000})?")
_FIELD = re.compile(r":(\w{1,40})(?:\s[^:\n]{0,400}?)??(?:\s(\*{0,2}\w{1,200}))?\s{0,8}:(?:\s(.{0,4000}))?")
_UNDERLINE = re.compile(r"\s{0,40}-{3,400}\s{0,40}")


class Docstring(NamedTuple):
    text: str
    """What is said of the function, without its sections."""
    parameters: dict[str, str]


def read_docstring(text: str) -> Docstring:
    lines = _dedented(text)
    prose: list[str] = []
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        section, used = _heading(lines, at)
        if not section and not lines[at].startswith(":"):
            prose.append(lines[at].strip())
            at += 1
            continue
        at += used
        body, at = (_fields if not section else _section)(lines, at, section)
        if not section or section in _PARAMETERS:
            _take(body, section != "" and used == 2, found)
    paragraphs = "\n".join(prose).split("\n\n")
    whole = "\n\n".join(" ".join(each.split()) for each in paragraphs if each.strip())
    return Docstring(whole, {name: " ".join(" ".join(words).split()) for name, words in found.items()})


def _dedented(text: str) -> list[str]:
    """The lines without what they are indented by, the first one apart."""
    lines = text.expandtabs().splitlines()
    margins = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(margins, default=0)
    return [line.strip() if number == 0 else line[margin:].rstrip() for number, line in enumerate(lines)]


def _heading(lines: list[str], at: int) -> tuple[str, int]:
    """The section that begins here, and how many lines its heading has; no name for none."""
    line = lines[at]
    if line.endswith(":") and line[:-1].strip().lower() in _SECTIONS and not line.startswith((" ", ":")):
        return line[:-1].strip().lower(), 1
    underlined = at + 1 < len(lines) and _UNDERLINE.fullmatch(lines[at + 1])
    if underlined and line.strip().lower() in _SECTIONS:
        return line.strip().lower(), 2
    return "", 0


def _section(lines: list[str], at: int, _: str) -> tuple[list[str], int]:
    """What belongs to a section: up to the next one."""
    start = at
    while at < len(lines) and not _heading(lines, at)[0] and not lines[at].startswith(":"):
        at += 1
    return lines[start:at], at


def _fields(lines: list[str], at: int, _: str) -> tuple[list[str], int]:
    """A field of reStructuredText, with the lines that go on with it."""
    start = at
    at += 1
    while at < len(lines) and lines[at].startswith(" "):
        at += 1
    return lines[start:at], at


def _take(body: list[str], underlined: bool, found: dict[str, list[str]]) -> None:
    """The parameters of a section: each begins at its margin, and what is indented further goes on with it."""
    filled = [line for line in body if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    current: list[str] = []
    for line in filled:
        said = line.strip()
        if len(line) - len(line.lstrip()) > margin:
            current.append(said)
            continue
        current = []
        if said.startswith(":"):
            match = _FIELD.fullmatch(said)
            if match and match[1] in ("param", "parameter", "arg", "argument", "key", "keyword") and match[2]:
                current = found.setdefault(match[2].lstrip("*"), [])
                current.append(match[3] or "")
        elif underlined:
            match = _NUMPY.fullmatch(said)
            for name in match[1].split(",") if match else ():
                found[name.strip().lstrip("*")] = current
        else:
            match = _GOOGLE.fullmatch(said)
            if match:
                current = found.setdefault(match[1].lstrip("*"), [])
                current.append(match[2])
