"""Who outranks whom.

Law: nothing here reads what a message says; authority is what the channel says it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.policy import Ladder


def rung(ladder: Ladder, name: str) -> str:
    """The rung that a name stands on; the lowest for one that nobody knows."""
    known = " ".join(name.lower().replace("_", " ").split())
    if known in ladder.rungs:
        return known
    found = ladder.aliases.get(known)
    if found is None and known:
        first, last = known.split()[0], known.split()[-1]
        found = ladder.titles.get(last) or ladder.aliases.get(last) or ladder.titles.get(first)
    return found if found in ladder.rungs else ladder.rungs[-1]


def rank(ladder: Ladder, name: str) -> int:
    """How high a name stands: the higher, the more it has to say."""
    return len(ladder.rungs) - ladder.rungs.index(rung(ladder, name))


def outranks(ladder: Ladder, one: str, other: str) -> bool:
    return rank(ladder, one) > rank(ladder, other)


def lowest(ladder: Ladder, names: Iterable[str]) -> str:
    return min((rung(ladder, name) for name in names), key=lambda each: rank(ladder, each))


def may_know(requires: Iterable[str], permissions: Iterable[str] | None) -> bool:
    """Whether a reader with these permissions may know of something; one without bounds may know everything."""
    return permissions is None or set(requires) <= set(permissions)
