"""Deciding and folding: pure, with refusals that are typed and a closed session that stays closed."""

from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.core import invariants, sessions
from holdfast.core.fold import fold
from holdfast.model import limits
from holdfast.model.commands import (
    CloseSession,
    Command,
    CreateSession,
    ErasePayloads,
    Given,
    NewMessage,
    RecordMessages,
)
from holdfast.model.content import Text
from holdfast.model.events import (
    EVENTS,
    Event,
    MessageRecorded,
    PayloadsErased,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionReset,
)
from holdfast.model.names import Scope
from holdfast.model.state import SessionState
from tests.core import basics, strategies
from tests.support import figure

EXAMPLES = figure(80, 10_000)

SCOPE = Scope("tenant", "actor", "session")
GIVEN = Given(time_us=5, tokens=(3,), counter="c")
ABSENT = SessionState()
OPEN = SessionState(version=2, status="open", created_us=1, updated_us=2, messages=1, tokens=3, live=1, live_tokens=3)
CLOSED = msgspec.structs.replace(OPEN, version=3, status="closed", close_reason="done")
RECORD = RecordMessages(scope=SCOPE, messages=(NewMessage(role="user", content=(Text("text"),)),))


def _outcome(state: SessionState, command: Command, given: Given) -> object:
    try:
        return sessions.decide(state, command, given)
    except errors.HoldfastError as error:
        return type(error), str(error)


def _after(state: SessionState, events: tuple[Event, ...], time_us: int) -> SessionState:
    for event in events:
        state = fold(state, event, event.name, time_us)
    return state


def _run(commands: list[tuple[Command, Given]]) -> tuple[SessionState, list[tuple[Event, int]]]:
    """A history: each command decided on the state that those before it led to; refusals change nothing."""
    state = ABSENT
    history: list[tuple[Event, int]] = []
    for command, given_ in commands:
        try:
            events = sessions.decide(state, command, given_)
        except errors.HoldfastError:
            continue
        state = _after(state, events, given_.time_us)
        history += [(event, given_.time_us) for event in events]
    return state, history


histories = st.lists(st.tuples(strategies.commands(st.just(SCOPE)), strategies.givens), max_size=8).map(
    lambda orders: [(CreateSession(scope=SCOPE), GIVEN), *orders]
)


@given(strategies.states, strategies.commands(), strategies.givens)
@settings(max_examples=EXAMPLES)
def test_the_same_question_gets_the_same_answer_and_changes_nothing(
    state: SessionState, command: Command, given: Given
) -> None:
    before = copy.deepcopy((state, command, given))
    assert _outcome(state, command, given) == _outcome(state, command, given)
    assert (state, command, given) == before


@given(strategies.states, strategies.events, basics.whole_numbers)
@settings(max_examples=EXAMPLES)
def test_folding_counts_one_version_and_changes_nothing_else_than_its_answer(
    state: SessionState, event: Event, time_us: int
) -> None:
    before = copy.deepcopy((state, event))
    after = fold(state, event, event.name, time_us)
    assert after == fold(state, event, event.name, time_us)
    assert (after.version, after.updated_us) == (state.version + 1, time_us)
    assert (state, event) == before


@given(histories)
@settings(max_examples=EXAMPLES)
def test_every_history_leads_to_a_sound_state(commands: list[tuple[Command, Given]]) -> None:
    state, history = _run(commands)
    assert invariants.check(state) == []
    assert state.version == len(history)
    assert state.messages == sum(isinstance(event, MessageRecorded) for event, _ in history)


@given(histories, st.sets(st.integers(0, 8)))
@settings(max_examples=EXAMPLES)
def test_a_history_with_erased_payloads_folds_to_a_sound_state(
    commands: list[tuple[Command, Given]], erased: set[int]
) -> None:
    """Whatever is erased, the header still says what happened: counts and status stay, contents go."""
    whole, history = _run(commands)
    state = ABSENT
    for at, (event, time_us) in enumerate(history):
        state = fold(state, None if at in erased else event, event.name, time_us)
    assert invariants.check(state) == []
    assert (state.version, state.status, state.messages) == (whole.version, whole.status, whole.messages)
    assert (state.created_us, state.updated_us) == (whole.created_us, whole.updated_us)
    assert state.tokens <= whole.tokens
    if 0 in erased:
        assert state.metadata == {}


@given(histories)
@settings(max_examples=EXAMPLES)
def test_a_closed_session_stays_closed(commands: list[tuple[Command, Given]]) -> None:
    _, history = _run([*commands, (CloseSession(scope=SCOPE, reason="end"), GIVEN), *commands])
    ends = [at for at, (event, _) in enumerate(history) if isinstance(event, SessionClosed | SessionDestroyed)]
    after = [event for event, _ in history[ends[0] + 1 :]]
    assert not any(isinstance(event, MessageRecorded | SessionCreated | SessionReset) for event in after)


REFUSALS: list[tuple[SessionState, Command, type[errors.HoldfastError]]] = [
    (OPEN, CreateSession(scope=SCOPE), errors.SessionExists),
    (CLOSED, CreateSession(scope=SCOPE), errors.SessionExists),
    (ABSENT, RECORD, errors.SessionNotFound),
    (ABSENT, CloseSession(scope=SCOPE, reason="r"), errors.SessionNotFound),
    (ABSENT, ErasePayloads(scope=SCOPE, seqs=(1,), reason="r"), errors.SessionNotFound),
    (CLOSED, RECORD, errors.SessionClosed),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(3,), reason="r"), errors.InvalidInput),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(0,), reason="r"), errors.InvalidInput),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(1, -1), reason="r"), errors.InvalidInput),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=tuple(range(limits.ERASE_EVENTS + 1)), reason="r"), errors.TooLarge),
]


@pytest.mark.parametrize(("state", "command", "refusal"), REFUSALS)
def test_what_the_state_does_not_allow_is_refused(
    state: SessionState, command: Command, refusal: type[errors.HoldfastError]
) -> None:
    with pytest.raises(refusal):
        sessions.decide(state, command, GIVEN)


DECISIONS: list[tuple[SessionState, Command, tuple[Event, ...]]] = [
    (ABSENT, CreateSession(scope=SCOPE, metadata={"a": 1}), (SessionCreated(metadata={"a": 1}),)),
    (OPEN, RECORD, (MessageRecorded(role="user", content=(Text("text"),), tokens=3, counter="c"),)),
    (OPEN, CloseSession(scope=SCOPE, reason="r"), (SessionClosed(reason="r"),)),
    (CLOSED, CloseSession(scope=SCOPE, reason="again"), ()),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(2, 1, 2), reason="r"), (PayloadsErased(seqs=(1, 2), reason="r"),)),
    (CLOSED, ErasePayloads(scope=SCOPE, seqs=(1,), reason="r"), (PayloadsErased(seqs=(1,), reason="r"),)),
    (OPEN, ErasePayloads(scope=SCOPE, seqs=(), reason="r"), ()),
]


@pytest.mark.parametrize(("state", "command", "events"), DECISIONS)
def test_what_the_state_allows_becomes_events(state: SessionState, command: Command, events: tuple[Event, ...]) -> None:
    assert sessions.decide(state, command, GIVEN) == events


def test_an_erased_reason_still_says_why_in_a_word() -> None:
    state = fold(OPEN, None, SessionClosed.name, 9)
    assert (state.status, state.close_reason) == ("closed", "erased")


def test_every_kind_of_event_is_folded_and_none_needs_its_payload() -> None:
    for name in EVENTS:
        assert fold(OPEN, None, name, 9).version == OPEN.version + 1
