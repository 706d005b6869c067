"""What an agent's next call stands on: the identifiers in its arguments that were there to be read before.

An identifier is a path, each of its longer components, a number of two digits or more, and a name that is no plain word:
CamelCase, snake_case, dotted, hyphened or with a digit in it. It is present in a text where no letter or digit touches it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

_WORD = re.compile(r"[A-Za-z0-9_@~.][\w./@:~\-]*\w|[0-9]{2,}")
_ATOM = re.compile(r"[A-Za-z0-9]+")
_CAMEL = re.compile(r"[a-z][A-Z]")
_EDGES = ".:/-~@"
SHORTEST_COMPONENT = 4
"""Letters of a path's component that count as an identifier of its own."""


def identifiers(text: str) -> set[str]:
    found: set[str] = set()
    for match in _WORD.findall(text):
        word = match.strip(_EDGES)
        if "/" in word:
            found.add(word)
            found.update(part for part in word.split("/") if len(part) >= SHORTEST_COMPONENT)
        elif _is_identifier(word):
            found.add(word)
            if ":" in word:
                found.update(filter(_is_identifier, word.split(":")))
    return {each for each in found if _ATOM.search(each)}


def _is_identifier(word: str) -> bool:
    """Whether this is a name or a number, and no plain word."""
    if word.isdigit():
        return len(word) >= 2
    inner = word.strip("_.-")
    return len(inner) >= 3 and (any(mark in inner for mark in "_.-:0123456789") or bool(_CAMEL.search(inner)))


def present(identifier: str, text: str) -> bool:
    start = text.find(identifier)
    while start >= 0:
        end = start + len(identifier)
        if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
            return True
        start = text.find(identifier, start + 1)
    return False


def strings(value: object) -> Iterator[str]:
    """Every text and number in a call's arguments."""
    if isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


class Index:
    """In which of some texts an identifier is. Looked for only where all of its letters and digits are."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._atoms: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            for atom in set(_ATOM.findall(text)):
                self._atoms[atom].append(number)
        self._found: dict[str, tuple[int, ...]] = {}

    def holding(self, identifier: str) -> tuple[int, ...]:
        """The numbers of the texts that hold it, rising."""
        found = self._found.get(identifier)
        if found is None:
            candidates = self._candidates(_ATOM.findall(identifier))
            found = tuple(each for each in candidates if present(identifier, self._texts[each]))
            self._found[identifier] = found
        return found

    def _candidates(self, atoms: Iterable[str]) -> list[int]:
        lists = sorted((self._atoms.get(atom, []) for atom in atoms), key=len)
        others = [set(each) for each in lists[1:]]
        return [each for each in lists[0] if all(each in other for other in others)] if lists else []
