"""Cost against grounding: which policies are on a frontier, and who is dominated by whom.

A policy dominates another one if it costs no more and grounds no worse, and is better in one of the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from benchmarks.cost_policies import Family
from benchmarks.cost_score import Score


class Point(msgspec.Struct, frozen=True):
    """A policy on the curve."""

    name: str
    family: Family
    cost: float
    """Over that of the optimum."""
    grounding: float

    @property
    def lost(self) -> float:
        """The share of what calls needed that was not there."""
        return max(0.0, 1 - self.grounding)


def dominates(one: Point, other: Point) -> bool:
    no_worse = one.cost <= other.cost and one.grounding >= other.grounding
    return no_worse and (one.cost, one.grounding) != (other.cost, other.grounding)


def find_dominating(point: Point, among: Iterable[Point]) -> list[Point]:
    return [each for each in among if dominates(each, point)]


def frontier(points: Sequence[Point]) -> list[Point]:
    """Those that no other one dominates, the cheapest first."""
    best = [each for each in points if not find_dominating(each, points)]
    return sorted(best, key=lambda each: (each.cost, each.grounding))


def points(sums: Mapping[str, Score], families: Mapping[str, Family], optimum: int) -> list[Point]:
    """The points of policies that were measured on the same sessions, by the cost of the optimum."""
    return [Point(name, families[name], each.cost / optimum, each.grounding) for name, each in sums.items()]
