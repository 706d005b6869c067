"""Authority and permissions.

Law: authority comes from the channel, never from the text of a message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.model.policy import AuthorityLadder


def rung(ladder: AuthorityLadder, name: str) -> str:
    """The rung of a name; the lowest rung for an unknown name."""
    title = " ".join(name.lower().replace("_", " ").split())
    if title in ladder.rungs:
        return title
    alias = ladder.aliases.get(title)
    if alias is None and title:
        first, last = title.split()[0], title.split()[-1]
        alias = ladder.titles.get(last) or ladder.aliases.get(last) or ladder.titles.get(first)
    return alias if alias in ladder.rungs else ladder.rungs[-1]


def rank(ladder: AuthorityLadder, name: str) -> int:
    """The rank of a name: the highest authority has the greatest."""
    return len(ladder.rungs) - ladder.rungs.index(rung(ladder, name))


def outranks(ladder: AuthorityLadder, one: str, other: str) -> bool:
    """Whether the first name has more authority than the second."""
    return rank(ladder, one) > rank(ladder, other)


def lowest_rung(ladder: AuthorityLadder, names: Iterable[str]) -> str:
    """The rung with the least authority among these names."""
    return min((rung(ladder, name) for name in names), key=lambda each: rank(ladder, each))


def may_know(requires: Collection[str], permissions: Iterable[str] | None) -> bool:
    """Whether a reader with these permissions may read something; None for a reader without limits."""
    return permissions is None or not requires or set(requires) <= set(permissions)
