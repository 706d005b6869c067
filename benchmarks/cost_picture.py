"""The curve as a picture: SVG written by hand, one panel for each window.

To the right is dearer, on a logarithmic scale; up is better grounded. What was lost is on a logarithmic scale too, since
all that matters lies between 95% and 100%; whoever lost nothing is on the uppermost line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

import msgspec

from benchmarks.cost_curve import Point, frontier
from benchmarks.cost_policies import Family

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 430, 80, 190, 44, 52
LEGEND = 64
COSTS = (0.9, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
LOST = (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.10, 0.30, 1.0)
"""What was lost at the lines of the scale; the first is for nothing."""
FLOOR = 0.00012
"""Where nothing is put on the logarithmic scale."""
COLOURS: dict[Family, str] = {
    "ours": "#0b7d3e",
    "folding": "#3b6fb6",
    "langchain": "#b3541e",
    "sliding": "#a23b72",
    "clearing": "#7a6a00",
    "none": "#6b6b6b",
    "optimum": "#6b6b6b",
}
LABELS: dict[Family, str] = {
    "ours": "Holdfast's policies",
    "folding": "folding at a threshold",
    "langchain": "LangChain",
    "sliding": "sliding window",
    "clearing": "old results cleared",
    "none": "no compaction",
    "optimum": "cheapest in hindsight",
}
FONT = 'font-family="system-ui, sans-serif" font-size="11"'
STYLE = (
    "<style>.ground{fill:#fff}.ink{fill:#222}.soft{fill:#666}.line{stroke:#ddd}"
    "@media (prefers-color-scheme:dark){.ground{fill:#15181c}.ink{fill:#e6e6e6}.soft{fill:#a0a0a0}"
    ".line{stroke:#3a3f45}}</style>"
)
"""Readable on light and on dark ground."""
LARGE, SMALL = 6.0, 3.5
"""Radii of points."""
GAP, FAR = 9, 20
"""From a point to its label; from where on a line joins them."""
LABEL_HEIGHT = 11
LABEL_WIDTH = 5.6
"""Of a letter, about: enough to keep labels apart."""


class Panel(msgspec.Struct, frozen=True):
    title: str
    points: Sequence[Point]


class Scale(msgspec.Struct, frozen=True):
    """From figures to places in one panel."""

    top: float
    most: float
    """The dearest that is shown."""
    worst: float
    """The most that was lost, as far as the scale goes."""

    def x(self, cost: float) -> float:
        low, high = math.log(COSTS[0]), math.log(self.most)
        share = (math.log(max(cost, COSTS[0])) - low) / (high - low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, lost: float) -> float:
        low, high = math.log(FLOOR), math.log(self.worst)
        share = (math.log(max(lost, FLOOR)) - low) / (high - low)
        return self.top + TOP + share * (HEIGHT - TOP - BOTTOM)


def picture(panels: Sequence[Panel], main: Sequence[str], command: str) -> str:
    """All panels, one under the other. The main policies have larger points and bold labels."""
    height = len(panels) * HEIGHT + LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {FONT}>',
        "<title>Cost against grounding, by policy and window</title>",
        f"<desc>{escape(f'Made by: {command}')}</desc>",
        STYLE,
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        *legend(panels),
    ]
    for number, panel in enumerate(panels):
        most = max(1.5, *(each.cost for each in panel.points)) * 1.05
        worst = next(each for each in LOST[2:] if all(point.lost <= each for point in panel.points))
        parts += draw(panel, Scale(LEGEND + number * HEIGHT, most, worst), main)
    return "\n".join([*parts, "</svg>", ""])


def legend(panels: Sequence[Panel]) -> list[str]:
    used = [family for family in COLOURS if any(each.family == family for panel in panels for each in panel.points)]
    parts = ['<text class="ink" x="20" y="22" font-size="15" font-weight="600">Cost against grounding</text>']
    x = 20.0
    for family in used:
        parts.append(f'<circle cx="{x + 5:.0f}" cy="44" r="5" fill="{COLOURS[family]}"/>')
        parts.append(f'<text class="ink" x="{x + 15:.0f}" y="48">{escape(LABELS[family])}</text>')
        x += 34 + 6.2 * len(LABELS[family])
    return parts


def draw(panel: Panel, scale: Scale, main: Sequence[str]) -> list[str]:
    return [*axes(panel.title, scale), *lines(panel.points, scale), *marks(panel.points, scale, main)]


def axes(title: str, scale: Scale) -> list[str]:
    left, right = LEFT, WIDTH - RIGHT
    top, bottom = scale.y(0), scale.y(scale.worst)
    parts = [f'<text class="ink" x="{left}" y="{top - 14:.0f}" font-size="13" font-weight="600">{escape(title)}</text>']
    for lost in LOST[: LOST.index(scale.worst) + 1]:
        y = scale.y(lost)
        parts.append(f'<line class="line" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        grounding = f"{100 * (1 - lost):.4g}%"
        parts.append(f'<text class="soft" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{grounding}</text>')
    for cost in COSTS:
        if cost <= scale.most:
            x = scale.x(cost)
            parts.append(f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>')
            parts.append(f'<text class="soft" x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{cost:g}</text>')
    middle = (top + bottom) / 2
    parts.append(
        f'<text class="ink" x="{(left + right) / 2:.0f}" y="{bottom + 34:.1f}" text-anchor="middle">'
        "input cost ÷ that of the cheapest folding in hindsight (left is cheaper)</text>"
    )
    parts.append(
        f'<text class="ink" x="22" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 22 {middle:.0f})">'
        "grounding (up is better)</text>"
    )
    return parts


def lines(points: Sequence[Point], scale: Scale) -> list[str]:
    """The frontier of each family."""
    parts = []
    for family, colour in COLOURS.items():
        own = frontier([each for each in points if each.family == family])
        if len(own) > 1:
            places = " ".join(f"{scale.x(each.cost):.1f},{scale.y(each.lost):.1f}" for each in own)
            parts.append(
                f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5" opacity="0.7"/>'
            )
    return parts


def marks(points: Sequence[Point], scale: Scale, main: Sequence[str]) -> list[str]:
    """Points and labels; a label that would lie on something else moves, and a line joins it to its point."""
    parts = []
    taken = [(scale.x(each.cost) - SMALL, scale.y(each.lost), 2 * SMALL) for each in points]
    for each in sorted(points, key=lambda point: (point.name not in main, point.lost, point.cost)):
        x, y, colour = scale.x(each.cost), scale.y(each.lost), COLOURS[each.family]
        first = each.name in main
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{LARGE if first else SMALL}" fill="{colour}"/>')
        width = LABEL_WIDTH * len(each.name) * (1.3 if first else 1)
        left, middle = _free(x, y, width, taken, scale)
        taken.append((left, middle, width))
        if abs(middle - y) > LABEL_HEIGHT or left > x + FAR or left + width < x - FAR:
            near = left if left > x else left + width
            parts.append(
                f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{near:.1f}" y2="{middle:.1f}" stroke="{colour}" opacity="0.4"/>'
            )
        look = 'font-size="13" font-weight="700"' if first else 'font-size="10"'
        name = escape(each.name)
        parts.append(f'<text x="{left:.1f}" y="{middle + 4:.1f}" fill="{colour}" {look}>{name}</text>')
    return parts


def _free(
    x: float, y: float, width: float, taken: Sequence[tuple[float, float, float]], scale: Scale
) -> tuple[float, float]:
    """The left side and the middle of the nearest place for a label beside a point, right of it rather than left."""
    top, bottom = scale.y(0) - LABEL_HEIGHT / 2, scale.y(scale.worst)
    for away in range(0, HEIGHT, 3):
        for left, middle in (
            (x + GAP, y + away),
            (x + GAP, y - away),
            (x - GAP - width, y - away),
            (x - GAP - width, y + away),
        ):
            place = left, middle, width
            inside = top <= middle <= bottom and left > LEFT
            if inside and not any(_overlap(place, other) for other in taken):
                return left, middle
    return x + GAP, y


def _overlap(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Whether two labels, each by its left side, its middle and its width, are in each other's way."""
    apart = one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0]
    return not apart and abs(one[1] - other[1]) < LABEL_HEIGHT
