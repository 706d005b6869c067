"""The costs as a picture: SVG written by hand, a bar for each contender."""

from __future__ import annotations

from xml.sax.saxutils import escape

from benchmarks.cost_picture import FONT, STYLE
from benchmarks.gateway.findings import OURS, PLAIN, Comparison, GatewayFindings
from benchmarks.gateway.pages import COMMAND

WIDTH, LEFT, FULL, TOP, ROW, BAR = 900, 190, 420, 70, 46, 24
OWN, PEER, GROUND = "#0b7d3e", "#b3541e", "#6b6b6b"
TITLE = "Input cost of recorded coding sessions, as a share of plain requests"


def draw_picture(findings: GatewayFindings) -> str:
    """The contenders with the small head, the cheapest last."""
    compared = sorted((findings.compare(name) for name in findings.small), key=lambda each: -each.cost)
    height = TOP + ROW * len(compared) + 40
    about = f"{findings.sessions} sessions, {findings.calls:,} calls over HTTP; one price model with the prompt cache"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {FONT}>',
        f"<title>{escape(TITLE)}</title>",
        f"<desc>{escape(f'Made by: {COMMAND}')}</desc>",
        STYLE,
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        f'<text class="ink" x="20" y="24" font-size="15" font-weight="600">{escape(TITLE)}</text>',
        f'<text class="soft" x="20" y="44">{escape(about)}</text>',
    ]
    for number, each in enumerate(compared):
        parts += _draw_bar(each, TOP + ROW * number)
    right = LEFT + FULL
    parts.append(f'<line class="line" x1="{right}" x2="{right}" y1="{TOP - 8}" y2="{height - 40}"/>')
    note = "grounding: what the next call needed and its request held · dearest: the dearest session against its plain cost"
    parts.append(f'<text class="soft" x="20" y="{height - 14}">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _draw_bar(compared: Comparison, top: int) -> list[str]:
    own = compared.own
    colour = OWN if own.name in OURS else GROUND if own.name == PLAIN else PEER
    width = FULL * compared.cost
    look = f'text-anchor="end" font-size="13" font-weight="{700 if own.name in OURS else 400}"'
    middle = top + BAR / 2 + 4
    said = f"{compared.cost:.2f}"
    if own.name != PLAIN:
        said += f" · grounding {own.total.grounding:.2%} · dearest {compared.worst:.2f}"
    place = max(LEFT + width, LEFT + FULL) + 10 if own.name == PLAIN else LEFT + width + 10
    return [
        f'<text class="ink" x="{LEFT - 10}" y="{middle:.0f}" {look}>{escape(own.name)}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>',
        f'<text class="ink" x="{place:.0f}" y="{middle:.0f}">{escape(said)}</text>',
    ]
