"""What hypothesis needs to know of situations and actions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from holdfast.model.commands import SessionCommand
from holdfast.model.events import Event
from holdfast.model.names import Scope
from holdfast.model.situation.commands import RecordAction, UpdateSituation
from holdfast.model.situation.events import ActionRecorded, SituationUpdated
from holdfast.model.situation.situations import ACTION_MODES, ACTION_OUTCOMES, FIELDS, ActionCall
from tests.core.json_strategies import json_values, names, texts

frame_ids = st.none() | st.integers(1, 9).map("f{}".format)
iterations = st.integers(0, 50)
some_fields = st.lists(st.sampled_from(FIELDS), max_size=3, unique=True).map(
    lambda named: tuple(each for each in FIELDS if each in named)
)
seqs = st.lists(st.integers(1, 50), max_size=3, unique=True).map(lambda each: tuple(sorted(each)))
calls = st.builds(
    ActionCall,
    name=names,
    args=json_values,
    result=texts,
    outcome=st.sampled_from(ACTION_OUTCOMES),
    call=st.just("") | st.integers(1, 50).map("c{}_0".format),
)
some_calls = st.lists(calls, max_size=3).map(tuple)
step: dict[str, st.SearchStrategy[Any]] = {
    "frame": frame_ids,
    "mode": st.sampled_from(ACTION_MODES),
    "thinking": texts,
    "planning": texts,
    "reflection": texts,
    "approach": texts,
}
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        SituationUpdated,
        frame=frame_ids,
        fields=st.dictionaries(st.sampled_from(FIELDS), names, max_size=3),
        cleared=some_fields,
        iteration=iterations,
        by=names,
        tells=seqs,
    ),
    st.builds(ActionRecorded, **step, iteration=iterations, tool_calls=some_calls),
)


def commands(scope: st.SearchStrategy[Scope]) -> st.SearchStrategy[SessionCommand]:
    return st.one_of(
        st.builds(
            UpdateSituation,
            scope=scope,
            frame=frame_ids,
            fields=st.dictionaries(st.sampled_from(FIELDS), names, max_size=3),
            clear=some_fields,
            iteration=st.none() | iterations,
            by=names,
            tells=seqs,
            rules=st.booleans(),
        ),
        st.builds(
            RecordAction,
            scope=scope,
            **step,
            iteration=st.none() | iterations,
            tool_calls=st.none() | some_calls,
            outcomes=st.dictionaries(names, st.sampled_from(ACTION_OUTCOMES), max_size=2),
        ),
    )
