"""The curve of cost against grounding: a frontier has nobody above it, the picture shows every policy, and what was lost is
priced at reading it again."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from benchmarks import cost
from benchmarks.coding_agent import Agent, Read
from benchmarks.coding_agent_tasks import MEAN_CALLS, SIZES, tasks
from benchmarks.cost_baselines import send_everything
from benchmarks.cost_curve import Point, dominates, find_dominating, frontier
from benchmarks.cost_picture import Panel, picture
from benchmarks.cost_policies import BASELINE, FAITHFUL, FRUGAL, Family
from benchmarks.cost_score import PREFIX_TOKENS, Score, reread_tokens, score
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.history.plans import Faithful, Frugal
from tests.edges.test_costs import PRICES, SHAPE, session
from tests.support import figure

families = st.sampled_from(("ours", "folding", "langchain", "sliding", "clearing"))
drawn = st.builds(
    Point,
    name=st.text("abc,<&", min_size=1, max_size=8),
    family=families,
    cost=st.floats(0.9, 6).map(lambda each: round(each, 1)),
    grounding=st.floats(0.8, 1).map(lambda each: round(each, 2)),
)
curves = st.lists(drawn, min_size=1, max_size=20)


@given(curves)
def test_a_frontier_has_nobody_above_it_and_whoever_is_off_it_has_somebody(points: list[Point]) -> None:
    best = frontier(points)
    assert best
    assert not any(find_dominating(each, points) for each in best)
    for each in points:
        assert each in best or any(dominates(other, each) for other in best)
    costs = [each.cost for each in best]
    assert costs == sorted(costs)
    assert [each.grounding for each in best] == sorted(each.grounding for each in best)


@given(curves)
def test_nobody_dominates_itself_or_whom_it_is_dominated_by(points: list[Point]) -> None:
    for one in points:
        assert not dominates(one, one)
        assert not any(dominates(one, other) and dominates(other, one) for other in points)


@given(st.lists(curves, min_size=1, max_size=3))
def test_a_picture_is_xml_and_names_every_policy(drawn: list[list[Point]]) -> None:
    panels = [Panel(f"window {number}", points) for number, points in enumerate(drawn)]
    root = Xml.fromstring(picture(panels, ("a",), "python -m benchmarks cost"))
    labels = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    for panel in panels:
        assert panel.title in labels
        assert all(each.name in labels for each in panel.points)


def test_what_is_missing_costs_a_further_call_and_the_smallest_result_that_held_it() -> None:
    told = session([(1, 10, False), (1, 10, True), (1, 10, False)])
    whole = score(told, send_everything(told), SHAPE.window, PRICES)
    assert (whole.rereading, whole.total_cost) == (0, whole.cost)
    lost = score(told, ([] for _ in told.calls), SHAPE.window, PRICES)
    again = [reread_tokens(told, call.wanted, call.units) for call in told.calls if call.wanted]
    assert all(again)
    expected = sum(PRICES.cache_read * PREFIX_TOKENS + PRICES.cache_write * tokens for tokens in again)
    assert lost.rereading == expected
    assert lost.total_cost == lost.cost + expected


def test_two_identifiers_of_one_result_are_read_together() -> None:
    told = session([(1, 10, False), (1, 10, False)])
    both = reread_tokens(told, ("src/part_0.py", "part_0.py"), 2)
    assert both == reread_tokens(told, ("src/part_0.py",), 2) == told.text_sizes[3]


def points_at(**figures: tuple[Family, float, float]) -> list[Point]:
    return [Point(name, family, paid, grounding) for name, (family, paid, grounding) in figures.items()]


def test_who_dominates_a_policy_of_ours_is_named() -> None:
    curve = points_at(
        faithful=("ours", 1.5, 0.997),
        frugal=("ours", 1.0, 0.97),
        other=("sliding", 1.4, 0.998),
        dear=("langchain", 3, 1),
    )
    lines = cost.frontier_goals(curve)
    assert [(line.what.strip().split(":")[0], line.met) for line in lines] == [
        (FAITHFUL, False),
        (FAITHFUL, True),
        (FRUGAL, True),
        (FRUGAL, True),
    ]
    assert lines[0].theirs.startswith("other (1.40, 99.80%)")


def test_goals_of_faithful_are_judged_at_the_windows_that_have_them() -> None:
    sums = {FAITHFUL: Score(cost=90, grounded=996.0, judged=1_000), BASELINE: Score(cost=100, grounded=9.0, judged=10)}
    assert [line.met for line in cost.faithful_goals(64_000, sums)] == [True, True, None]
    assert [line.met for line in cost.faithful_goals(200_000, sums)] == [False, True, None]
    assert [line.met for line in cost.faithful_goals(32_000, sums)] == [None, None, None]


@settings(max_examples=figure(6, 200))
@given(st.integers(1, 60), st.integers(0, 5))
def test_an_agent_has_as_many_calls_as_it_should_and_is_the_same_each_time(turns: int, seed: int) -> None:
    work = tasks(turns, seed)
    assert len(work) == turns
    assert sum(len(task.steps) for task in work) == turns * MEAN_CALLS
    for task in work:
        assert [bool(step.tool) for step in task.steps] == [True] * (len(task.steps) - 1) + [False]
        for step in task.steps[:-1]:
            low, high = SIZES[step.tool]
            assert low <= len(step.result) <= high + 300
    assert tasks(turns, seed)[-1] == work[-1]


@pytest.mark.parametrize(("policy", "early"), [(Faithful(), False), (Frugal(least=0, least_share=0.001), True)])
def test_a_short_run_shows_files_whole_unless_its_policy_is_frugal(
    tmp_path: Path, policy: Faithful | Frugal, early: bool
) -> None:
    work = tasks(14, seed=3)
    found = Agent(tmp_path / "agent.db", policy).run(work)
    assert len(found.used) == len(found.cpu_s) == 14 * MEAN_CALLS
    assert bool(found.early) == early
    assert found.cost < found.sliding_cost or not found.boundaries


def test_a_file_is_whole_if_its_beginning_middle_and_end_are_there() -> None:
    file = Read("c1", ("# begins", "# middle", "# ends"))
    assert file.is_whole("# begins\nx\n# middle\ny\n# ends")
    assert not file.is_whole("# begins\n…\n# ends")
