"""What careless callers get to see at the entrances of packs: typed errors with advice, and nothing stored, not even what
was to be settled first; or a pack that can be shown, kept, and read again."""

from __future__ import annotations

import inspect
import zlib
from collections import defaultdict

import pytest

import holdfast
from holdfast.testing import hostile
from tests.edges.engines import Desk
from tests.edges.pack_entrances import PACK_ENTRANCES, opened
from tests.edges.test_fact_input import _trouble
from tests.support import figure

SAMPLE = figure(36, 1)
"""One value in so many is handed in, other ones at each entrance."""
METHODS = ("pack", "packs", "manifest", "diff", "reproduce", "keep")


@pytest.mark.parametrize("kind", [holdfast.Session, holdfast.Frame, holdfast.AsyncSession, holdfast.AsyncFrame])
def test_every_argument_of_every_method_has_an_entrance(kind: type) -> None:
    """So that what is added is asked, too."""
    before = "frame." if kind in (holdfast.Frame, holdfast.AsyncFrame) else ""
    options = {
        f"{before}{name}({option})"
        for name in METHODS
        for option in [*inspect.signature(getattr(kind, name)).parameters][1:]
    }
    assert "pack" in inspect.signature(kind.record).parameters  # type: ignore[attr-defined]
    assert {*options, f"{before}record(pack)"} - {*PACK_ENTRANCES} == set()
    assert len(options) > 20


@pytest.mark.parametrize("kind", ["memory", "memory awaited"])
def test_every_value_at_every_entrance_is_taken_or_refused(kind: str, desk: Desk) -> None:
    wrong: dict[str, list[str]] = defaultdict(list)
    engine = desk.open(kind)
    for number, (name, entrance) in enumerate(PACK_ENTRANCES.items()):
        tenant = engine.acting_as(tenant=f"t{number}")
        opened(tenant)
        shift = zlib.crc32(name.encode())
        for at, case in enumerate(hostile.CASES):
            if (at + shift) % (SAMPLE if kind == "memory" else 4 * SAMPLE) == 0:
                trouble = _trouble(tenant, entrance, case, at)
                if trouble:
                    wrong[f"{name}: {trouble}"].append(case.name)
    assert not wrong, (
        "\n".join(f"{said}: {cases[:5]}" for said, cases in wrong.items()).encode(errors="replace").decode()
    )
    assert engine.verify().problems == ()
