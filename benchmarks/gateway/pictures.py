"""The costs as a picture: SVG written by hand, a bar for each contender and its figures beside it."""

from __future__ import annotations

from xml.sax.saxutils import escape

from benchmarks.cost_picture import FONT, STYLE
from benchmarks.gateway.findings import OURS, PLAIN, Comparison, GatewayFindings
from benchmarks.gateway.pages import COMMAND

WIDTH, LEFT, FULL, TOP, ROW, BAR = 900, 190, 400, 104, 42, 24
KEPT, DEAREST = 760, 880
"""Where the columns of figures end."""
OWN, PEER, GROUND = "#0b7d3e", "#b3541e", "#6b6b6b"
TITLE = "What the input of recorded coding sessions costs through each gateway"
NAMES = {PLAIN: "no gateway"}
NOTES = (
    "Names kept: of the paths, names, ids and numbers that the next call used, those that its request still held.",
    "Dearest session: the session that came out worst, against what it costs without a gateway.",
)


def draw_picture(findings: GatewayFindings) -> str:
    """The contenders with the small head, the cheapest last."""
    compared = sorted((findings.compare(name) for name in findings.small), key=lambda each: -each.cost)
    end = TOP + ROW * len(compared)
    height = end + 18 * len(NOTES) + 14
    about = (
        f"Shorter is cheaper. {findings.sessions} sessions, {findings.calls:,} model calls; prices with a prompt cache."
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {FONT}>',
        f"<title>{escape(TITLE)}</title>",
        f"<desc>{escape(f'Made by: {COMMAND}')}</desc>",
        STYLE,
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        f'<text class="ink" x="20" y="28" font-size="16" font-weight="600">{escape(TITLE)}</text>',
        f'<text class="soft" x="20" y="50" font-size="13">{escape(about)}</text>',
    ]
    for place, said in ((KEPT, "names kept"), (DEAREST, "dearest session")):
        parts.append(f'<text class="soft" x="{place}" y="{TOP - 14}" text-anchor="end" font-size="12">{said}</text>')
    right = LEFT + FULL
    parts.append(f'<line class="line" x1="{right}" x2="{right}" y1="{TOP - 8}" y2="{end - ROW + BAR + 8}"/>')
    for number, each in enumerate(compared):
        parts += _draw_bar(each, TOP + ROW * number)
    for number, note in enumerate(NOTES):
        parts.append(f'<text class="soft" x="20" y="{end + 18 * (number + 1)}" font-size="12">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _draw_bar(compared: Comparison, top: int) -> list[str]:
    own = compared.own
    colour = OWN if own.name in OURS else GROUND if own.name == PLAIN else PEER
    width = FULL * compared.cost
    weight = f'font-size="13" font-weight="{700 if own.name in OURS else 400}"'
    middle = f"{top + BAR / 2 + 5:.0f}"
    name = NAMES.get(own.name, own.name)
    parts = [
        f'<text class="ink" x="{LEFT - 10}" y="{middle}" text-anchor="end" {weight}>{escape(name)}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>',
        f'<text fill="#fff" x="{LEFT + width - 8:.0f}" y="{middle}" text-anchor="end" {weight}>{compared.cost:.1%}</text>',
    ]
    figures = ((KEPT, f"{own.total.grounding:.2%}"), (DEAREST, f"{compared.worst:.1%}"))
    for place, said in figures if own.name != PLAIN else ():
        parts.append(f'<text class="ink" x="{place}" y="{middle}" text-anchor="end" font-size="13">{said}</text>')
    return parts
