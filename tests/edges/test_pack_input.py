"""What careless callers get to see at the entrances of packs: typed errors with advice, and nothing stored, not even what
was to be settled first; or a pack that can be shown, kept, and read again."""

from __future__ import annotations

import inspect

import pytest

import holdfast
from tests.edges.engines import EngineDesk
from tests.edges.hostile_inputs import check_inputs
from tests.edges.pack_inputs import PACK_INPUTS, create_conversations
from tests.edges.surface import find_method, list_parameters
from tests.support import figure

SAMPLE = figure(211, 1)
"""One value in so many is handed in, other ones at each entrance."""
METHODS = ("pack", "packs.list", "packs.manifest", "packs.diff", "packs.reproduce", "packs.store")


@pytest.mark.parametrize("kind", [holdfast.Session, holdfast.Frame, holdfast.AsyncSession, holdfast.AsyncFrame])
def test_every_argument_of_every_method_has_an_entrance(kind: type) -> None:
    """So that what is added is asked, too."""
    before = "frame." if kind in (holdfast.Frame, holdfast.AsyncFrame) else ""
    options = {f"{before}{name}({option})" for name in METHODS for option in list_parameters(find_method(kind, name))}
    assert "pack" in inspect.signature(kind.record).parameters  # type: ignore[attr-defined]
    assert {*options, f"{before}record(pack)"} - {*PACK_INPUTS} == set()
    assert len(options) > 20


@pytest.mark.parametrize("kind", ["memory", "memory awaited"])
def test_every_value_at_every_entrance_is_taken_or_refused(kind: str, desk: EngineDesk) -> None:
    engine = check_inputs(desk, kind, PACK_INPUTS, SAMPLE, create_conversations)
    assert engine.admin.verify().problems == ()
