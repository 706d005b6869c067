"""The page with the figures of the gateway, and its picture, are what the command writes."""

from __future__ import annotations

import re

from benchmarks.gateway.findings import (
    FAITHFUL,
    FRUGAL,
    OURS,
    PEERS,
    PLAIN,
    GatewayFindings,
    InstalledSize,
    ReplayFinding,
    TimeFindings,
    VariantFinding,
    Work,
)
from benchmarks.gateway.latencies import CLASSES, Latencies, MemoryUse
from benchmarks.gateway.pages import PARTIAL, write_page
from benchmarks.gateway.parts import RECORDED, RESTART
from benchmarks.gateway.pictures import draw_picture
from benchmarks.gateway.scores import SessionScore
from benchmarks.gateway.variants import COURSES

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "explanation"


def build_findings(*, grounded: float = 1.0) -> GatewayFindings:
    """What a whole run finds."""
    score = SessionScore(cost=1, billed=1, sent=1, calls=1, judged=1, grounded=grounded, streams=1, intact=1)
    found = {name: ReplayFinding(name, {"one": score}, {"one": 1}) for name in (PLAIN, *OURS, *PEERS)}
    courses = (RECORDED, RESTART, *COURSES)
    return GatewayFindings(
        version="0.0.0",
        date="2026-01-01",
        machine="2 cores, x86_64, Python 3.11",
        sessions=69,
        calls=1,
        small_head=1,
        large_head=1,
        small=found,
        large={name: found[name] for name in (PLAIN, *OURS, PEERS[0])},
        few=9,
        variants=[
            VariantFinding(course, name, 1, 1, 1, 0, 0)
            for course in courses
            for name in ((*OURS, PEERS[0]) if course == RECORDED else (PEERS[0], *OURS))
        ],
        times=TimeFindings([Latencies(name, 1, 1, 1, 1, 1, 1) for name in CLASSES], MemoryUse(1, 1, 1, 1, 1), 1),
        size=InstalledSize(1, 1),
        works=[Work(name, "2026-01-01 00:00", "2026-01-01 00:00") for name in ("times and memory", *found)],
        held_out=frozenset({"one"}),
    )


def test_every_line_of_the_page_is_one_that_the_command_writes() -> None:
    """In their order; a run that left something out may lack some."""
    page = (FOLDER / "gateway.md").read_text("utf-8").replace(PARTIAL, "")
    written = iter(_without_figures(write_page(build_findings())).splitlines())
    for line in _without_figures(page).splitlines():
        assert line in written, f"the command does not write this line there: {line}"


def test_the_picture_has_the_contenders_of_the_page() -> None:
    picture = (FOLDER / "gateway-savings.svg").read_text("utf-8")
    labels = {*re.findall(r">([^<>]+)</text>", draw_picture(build_findings()))}
    shown = {*re.findall(r">([^<>]+)</text>", picture)}
    assert {*map(_without_figures, shown)} == {*map(_without_figures, labels)}


def test_the_page_says_which_goals_were_met() -> None:
    rows = {line.split(" | ")[0]: line for line in write_page(build_findings(grounded=0.995)).splitlines()}
    assert rows[f"| {FAITHFUL}: grounding, in percent"].endswith("| at least 99.9 | 99.500 | **missed** |")
    assert rows[f"| {FRUGAL}: grounding, in percent"].endswith("| at least 99.4 | 99.500 | met |")
    assert rows[f"| {FRUGAL}: input cost ÷ plain"].endswith("| at most 0.55 | 1.000 | **missed** |")


def _without_figures(page: str) -> str:
    page = re.sub(r"\| (met|\*\*missed\*\*) \|", "| verdict |", page)
    return re.sub(r"[+-]?(?:\d[\d,.]*\d|\d)", "0", page)
