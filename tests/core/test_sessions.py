"""Deciding and folding: pure, with refusals that are typed and a closed session that stays closed."""

from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.core import invariants
from holdfast.core.decide import decide_session
from holdfast.core.fold import fold_session
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.content import Text
from holdfast.model.events import EVENTS, RETAINED_EVENTS, Event
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import Scope
from holdfast.model.sessions.commands import (
    CloseSession,
    CreateSession,
    ErasePayloads,
    ForkSession,
    NewMessage,
    RecordMessages,
)
from holdfast.model.sessions.events import (
    MessageRecorded,
    PayloadsErased,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionReset,
)
from holdfast.model.state import SessionState
from tests.core import json_strategies, strategies
from tests.support import figure

EXAMPLES = figure(40, 10_000)

SCOPE = Scope("tenant", "actor", "session")
INPUTS = DecisionInput(time_us=5, tokens=(3,), counter="c")
ABSENT = SessionState()
OPEN = SessionState(version=2, status="open", created_us=1, updated_us=2, messages=1, tokens=3, live=1, live_tokens=3)
CLOSED = msgspec.structs.replace(OPEN, version=3, status="closed", close_reason="done")
RECORD = RecordMessages(scope=SCOPE, messages=(NewMessage(role="user", content=(Text("text"),)),))


def _outcome(state: SessionState, command: SessionCommand, inputs: DecisionInput) -> object:
    try:
        return decide_session(state, command, inputs)
    except errors.HoldfastError as error:
        return type(error), str(error)


def _after(state: SessionState, events: tuple[Event, ...], time_us: int) -> SessionState:
    for event in events:
        state = fold_session(state, event, event.name, time_us)
    return state


def _run(commands: list[tuple[SessionCommand, DecisionInput]]) -> tuple[SessionState, list[tuple[Event, int]]]:
    """A history: each command decided on the state that those before it led to; refusals change nothing."""
    state = ABSENT
    history: list[tuple[Event, int]] = []
    for command, inputs in commands:
        try:
            events = decide_session(state, command, inputs)
        except errors.HoldfastError:
            continue
        state = _after(state, events, inputs.time_us)
        history += [(event, inputs.time_us) for event in events]
    return state, history


own_commands = strategies.commands(st.just(SCOPE)).filter(lambda command: not isinstance(command, ForkSession))
"""A fork is decided on the state of its parent, and begins a stream of its own."""
histories = st.lists(st.tuples(own_commands, strategies.inputs), max_size=8).map(
    lambda orders: [(CreateSession(scope=SCOPE), INPUTS), *orders]
)


@given(strategies.states, strategies.commands(), strategies.inputs)
@settings(max_examples=EXAMPLES)
def test_the_same_question_gets_the_same_answer_and_changes_nothing(
    state: SessionState, command: SessionCommand, inputs: DecisionInput
) -> None:
    before = copy.deepcopy((state, command, inputs))
    assert _outcome(state, command, inputs) == _outcome(state, command, inputs)
    assert (state, command, inputs) == before


@given(strategies.states, strategies.events, json_strategies.whole_numbers)
@settings(max_examples=EXAMPLES)
def test_folding_counts_one_version_and_changes_nothing_else_than_its_answer(
    state: SessionState, event: Event, time_us: int
) -> None:
    before = copy.deepcopy((state, event))
    after = fold_session(state, event, event.name, time_us)
    assert after == fold_session(state, event, event.name, time_us)
    assert (after.version, after.updated_us) == (state.version + 1, time_us)
    assert (state, event) == before


@given(histories)
@settings(max_examples=EXAMPLES)
def test_every_history_leads_to_a_sound_state(commands: list[tuple[SessionCommand, DecisionInput]]) -> None:
    state, history = _run(commands)
    assert invariants.find_violations(state) == []
    assert state.version == len(history)
    assert state.messages == sum(isinstance(event, MessageRecorded) for event, _ in history)


@given(histories, st.sets(st.integers(0, 8)))
@settings(max_examples=EXAMPLES)
def test_a_history_with_erased_payloads_folds_to_a_sound_state(
    commands: list[tuple[SessionCommand, DecisionInput]], erased: set[int]
) -> None:
    """Whatever is erased, the header still says what happened: counts and status stay, contents go."""
    whole, history = _run(commands)
    state = ABSENT
    for at, (event, time_us) in enumerate(history):
        is_erased = at in erased and event.name not in RETAINED_EVENTS
        state = fold_session(state, None if is_erased else event, event.name, time_us)
    assert invariants.find_violations(state) == []
    assert (state.version, state.status, state.messages) == (whole.version, whole.status, whole.messages)
    assert (state.created_us, state.updated_us) == (whole.created_us, whole.updated_us)
    assert state.tokens <= whole.tokens
    if 0 in erased:
        assert state.metadata == {}


@given(histories)
@settings(max_examples=EXAMPLES)
def test_a_closed_session_stays_closed(commands: list[tuple[SessionCommand, DecisionInput]]) -> None:
    _, history = _run([*commands, (CloseSession(scope=SCOPE, reason="end"), INPUTS), *commands])
    ends = [at for at, (event, _) in enumerate(history) if isinstance(event, SessionClosed | SessionDestroyed)]
    after = [event for event, _ in history[ends[0] + 1 :]]
    assert not any(isinstance(event, MessageRecorded | SessionCreated | SessionReset) for event in after)


REFUSALS: list[tuple[SessionState, SessionCommand, type[errors.HoldfastError]]] = [
    (OPEN, CreateSession(scope=SCOPE), errors.SessionExists),
    (CLOSED, CreateSession(scope=SCOPE), errors.SessionExists),
    (ABSENT, RECORD, errors.SessionNotFound),
    (ABSENT, CloseSession(scope=SCOPE, reason="r"), errors.SessionNotFound),
    (ABSENT, ErasePayloads(scope=SCOPE, seqs=(1,), reason="r"), errors.SessionNotFound),
    (CLOSED, RECORD, errors.SessionClosedError),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(3,), reason="r"), errors.InvalidInput),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(0,), reason="r"), errors.InvalidInput),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(1, -1), reason="r"), errors.InvalidInput),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=tuple(range(limits.ERASE_EVENTS + 1)), reason="r"), errors.TooLarge),
]


@pytest.mark.parametrize(("state", "command", "refusal"), REFUSALS)
def test_what_the_state_does_not_allow_is_refused(
    state: SessionState, command: SessionCommand, refusal: type[errors.HoldfastError]
) -> None:
    with pytest.raises(refusal):
        decide_session(state, command, INPUTS)


DECISIONS: list[tuple[SessionState, SessionCommand, tuple[Event, ...]]] = [
    (ABSENT, CreateSession(scope=SCOPE, metadata={"a": 1}), (SessionCreated(metadata={"a": 1}),)),
    (OPEN, RECORD, (MessageRecorded(role="user", content=(Text("text"),), tokens=3, counter="c"),)),
    (OPEN, CloseSession(scope=SCOPE, reason="r"), (SessionClosed(reason="r"),)),
    (CLOSED, CloseSession(scope=SCOPE, reason="again"), ()),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(2, 1, 2), reason="r"), (PayloadsErased(seqs=(1, 2), reason="r"),)),
    (CLOSED, ErasePayloads(scope=SCOPE, seqs=(1,), reason="r"), (PayloadsErased(seqs=(1,), reason="r"),)),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(), reason="r"), ()),
]


@pytest.mark.parametrize(("state", "command", "events"), DECISIONS)
def test_what_the_state_allows_becomes_events(
    state: SessionState, command: SessionCommand, events: tuple[Event, ...]
) -> None:
    assert decide_session(state, command, INPUTS) == events


def test_an_erased_reason_still_says_why_in_a_word() -> None:
    state = fold_session(OPEN, None, SessionClosed.name, 9)
    assert (state.status, state.close_reason) == ("closed", "erased")


def test_every_kind_of_event_is_folded_and_none_needs_its_payload() -> None:
    for name in EVENTS:
        assert fold_session(OPEN, None, name, 9).version == OPEN.version + 1
