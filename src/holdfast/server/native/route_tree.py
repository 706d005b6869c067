"""Which operation a path means.

Laws: a path is taken apart at its slashes before anything in it is decoded, so a name may have any character: %2F is a
slash in a name. A literal segment wins over a parameter, unless the verb is one that only the parameter has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from holdfast.api.requests import unquote_name

E = TypeVar("E")
_PARAMETER = re.compile(r"{(\w+)}")


class RouteMatch(NamedTuple, Generic[E]):
    """The endpoint of a request."""

    endpoint: E
    template: str
    names: dict[str, str]
    """The parameters in the path."""


class _Leaf(NamedTuple, Generic[E]):
    endpoint: E
    template: str
    names: tuple[str, ...]


class _Node(Generic[E]):
    def __init__(self) -> None:
        self.literals: dict[str, _Node[E]] = {}
        self.parameter: _Node[E] | None = None
        self.leaves: dict[str, _Leaf[E]] = {}


class RouteTree(Generic[E]):
    """Templates of paths, and the endpoint of each verb."""

    def __init__(self) -> None:
        self._root: _Node[E] = _Node()

    def add(self, verb: str, template: str, endpoint: E) -> None:
        node, names = self._root, []
        for segment in template.strip("/").split("/"):
            if found := _PARAMETER.fullmatch(segment):
                names.append(found[1])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(segment, _Node())
        assert verb not in node.leaves, f"{verb} {template} is there twice"
        node.leaves[verb] = _Leaf(endpoint, template, tuple(names))

    def find(self, verb: str, segments: list[str]) -> RouteMatch[E] | list[str]:
        """Find the endpoint of a path, given by its segments as they were sent. Otherwise returns the verbs that it has:
        none for an unknown path."""
        texts = [unquote_name(segment) for segment in segments]
        verbs: list[str] = []
        for leaves, values in _walk(self._root, texts, ()):
            leaf = leaves.get(verb)
            if leaf is not None:
                return RouteMatch(leaf.endpoint, leaf.template, dict(zip(leaf.names, values, strict=True)))
            verbs += leaves
        return sorted(set(verbs))


def _walk(
    node: _Node[E], texts: list[str], values: tuple[str, ...]
) -> Iterator[tuple[dict[str, _Leaf[E]], tuple[str, ...]]]:
    """Yield the verbs of every template that fits, with the values of its parameters; literal segments first."""
    if not texts:
        if node.leaves:
            yield node.leaves, values
        return
    first, rest = texts[0], texts[1:]
    if first in node.literals:
        yield from _walk(node.literals[first], rest, values)
    if node.parameter is not None and first:
        yield from _walk(node.parameter, rest, (*values, first))
