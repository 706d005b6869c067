"""The planner keeps its laws on any conversation: what it reports is what happens, it pays, and it comes to an end."""

from __future__ import annotations

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast import codec
from holdfast.context.plan import Ground, asked, plan
from holdfast.core.shown import pieces_of
from holdfast.model.messages import Summary, Unit
from holdfast.model.plan import (
    AutoCompact,
    Classic,
    Collapse,
    Plan,
    PlanPolicy,
    Priced,
    Snip,
    Spool,
    Strategy,
    SummarizeOldest,
    TimeDecayMicro,
    TruncateAt,
)
from holdfast.model.state import Calibration
from tests.context.grounds import (
    SECOND_US,
    applied,
    as_shown,
    calibrations,
    end,
    first_difference,
    grounds,
    policies,
    priced,
    sizes,
    tokens_of,
    tools,
)
from tests.support import figure

EXAMPLES = figure(60, 5_000)

strategies: st.SearchStrategy[Strategy | None] = st.one_of(
    st.none(),
    st.none(),
    st.none(),
    st.builds(SummarizeOldest, st.integers(0, 12)),
    st.builds(TruncateAt, st.integers(0, 12)),
)
costs = st.sampled_from([0, 0, 15_000_000])


def planned(ground: Ground, policy: PlanPolicy, strategy: Strategy | None, calibration: Calibration, cost: int) -> Plan:
    made_with = tools(calibration=calibration, summarizing=cost)
    found = plan(ground, policy, made_with) if strategy is None else asked(ground, strategy, policy, made_with)
    event(f"{found.policy}, {found.why}")
    return found


PLANS = (grounds(), policies, strategies, calibrations, costs)


@settings(max_examples=EXAMPLES)
@given(*PLANS)
def test_a_plan_reports_what_it_does(
    ground: Ground, policy: PlanPolicy, strategy: Strategy | None, calibration: Calibration, cost: int
) -> None:
    found = planned(ground, policy, strategy, calibration, cost)
    made_with = tools(calibration=calibration)
    before, after = ground, applied(ground, found)
    assert found.first_changed == first_difference(as_shown(before), as_shown(after))
    assert found.figures.before == tokens_of(before, made_with)
    assert found.target_met == (tokens_of(after, made_with) <= ground.window)
    if found.empty:
        assert (found.why, found.steps, found.reduced, found.fold) == (None, (), (), None)
        return
    assert found.why is not None
    assert found.figures.after == tokens_of(after, made_with)
    figures = [found.figures.before, *(each.after for each in found.steps)]
    assert [each.before for each in found.steps] == figures[:-1]
    assert figures[-1] == found.figures.after
