"""Tools that a framework runs: intents, unknown outcomes, and calls that wait for input."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.errors import OutcomeUnknown
from holdfast.frameworks.tool_runs import ToolRuns, current_call


@pytest.fixture
def session() -> holdfast.Session:
    session = holdfast.open("memory:").create_session("s")
    session.record("assistant", tool_calls=[{"id": "c1", "name": "pay", "args": {}}], pack=False)
    return session


def test_a_run_has_a_key_inside_and_an_outcome_after_it(session: holdfast.Session) -> None:
    with ToolRuns(session).run("c1") as run:
        call = current_call()
        assert call is not None
        run.finish(call.key)
    assert current_call() is None
    assert session.messages()[-1].tool_results[0].value == call.key


def test_a_call_without_an_outcome_is_not_started_again(session: holdfast.Session) -> None:
    ToolRuns(session).start("c1")
    with pytest.raises(OutcomeUnknown):
        ToolRuns(session).start("c1")
    assert ToolRuns(session, repeatable=["pay"]).start("c1", "pay").started is not None


def test_a_call_that_waits_for_input_may_start_again_once(session: holdfast.Session) -> None:
    first = ToolRuns(session).start("c1")
    first.pause()
    second = ToolRuns(session).start("c1")
    assert first.started is not None
    assert second.started is not None
    assert (second.started.key, second.started.attempt) == (first.started.key, 2)
    with pytest.raises(OutcomeUnknown):
        ToolRuns(session).start("c1")
