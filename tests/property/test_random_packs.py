"""Whole packs of random sessions, with budgets that rise: levels are true, no priority is inverted, none is too large."""

from __future__ import annotations

import pytest

from tests.property.random_packs import run_campaign
from tests.support import figure

PACKS = figure(400, 10_000)
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_levels_are_true_and_never_rise_with_the_budget_and_no_priority_is_inverted(group: int) -> None:
    made, levels, faults = run_campaign(PACKS // GROUPS, group, GROUPS)
    assert made >= PACKS // GROUPS
    assert {"none", "moderate", "critical"} <= {*levels}
    assert faults == []
