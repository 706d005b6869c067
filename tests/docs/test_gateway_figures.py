"""The page with the figures of the gateway, and its picture, are what the command writes."""

from __future__ import annotations

import re

from benchmarks.gateway.findings import (
    CACHE_MODE,
    FAITHFUL,
    FRUGAL,
    PLAIN,
    GatewayFindings,
    InstalledSize,
    ReplayFinding,
)
from benchmarks.gateway.latencies import MemoryUse
from benchmarks.gateway.pages import write_page
from benchmarks.gateway.pictures import draw_picture
from benchmarks.gateway.scores import SessionScore

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "explanation"
REMARK = (
    "These figures were not made by one run of the whole command: its parts were called one by one. The row of headroom is "
    "from an earlier run, beside the same plain requests; the large head, other courses, times and memory were not "
    "measured with this version."
)
"""Goes with the next run of the whole command."""


def build_findings() -> GatewayFindings:
    score = SessionScore(cost=1, billed=1, sent=1, calls=1, judged=1)
    found = {name: ReplayFinding(name, {"one": score}, {"one": 1}) for name in (PLAIN, FAITHFUL, FRUGAL, CACHE_MODE)}
    return GatewayFindings(
        date="2026-01-01",
        machine="2 cores, x86_64, Python 3.11",
        sessions=69,
        calls=1,
        small_head=1,
        large_head=1,
        small=found,
        large={},  # this and other courses were not measured with the version of the page
        few=9,
        variants=[],
        latencies=[],
        memory=MemoryUse(1, 1, 1, 1, 1),
        size=InstalledSize(1, 1),
        load=1,
        held_out=frozenset({"one"}),
        remark=REMARK,
    )


def test_the_page_of_figures_is_what_the_command_writes() -> None:
    page = (FOLDER / "gateway.md").read_text("utf-8")
    assert _without_figures(page) == _without_figures(write_page(build_findings()))


def test_the_picture_has_the_contenders_of_the_page() -> None:
    picture = (FOLDER / "gateway-savings.svg").read_text("utf-8")
    labels = {*re.findall(r">([^<>]+)</text>", draw_picture(build_findings()))}
    shown = {*re.findall(r">([^<>]+)</text>", picture)}
    assert {*map(_without_figures, shown)} == {*map(_without_figures, labels)}


def _without_figures(page: str) -> str:
    return re.sub(r"[+-]?(?:\d[\d,.]*\d|\d)", "0", page)
