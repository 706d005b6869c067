"""Messages, decided and folded at random: calls and results pair up, order is kept, and nothing else gets in.

Laws: after every command the log says what a plain model says; every state is sound and survives being a snapshot; a
refused command changes nothing; what a command made is found in order, and what none can have made is found out.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import codec, errors
from holdfast.core.decide import decide_session
from holdfast.core.faults import find_fault
from holdfast.core.fold import find_offload, fold_session
from holdfast.model import limits
from holdfast.model.content import call_id, calling_seq
from holdfast.model.history.commands import Summarize
from holdfast.model.inputs import CallInput, DecisionInput, ResolvedCall, SummaryInput
from holdfast.model.sessions.commands import CloseCalls, RecordMessages
from holdfast.model.sessions.events import EvidenceKept, PayloadsErased, SessionDestroyed, SessionTimedOut
from holdfast.model.state import SessionState
from tests.property import transcript_model as model
from tests.property.decisions import (
    SCOPE,
    DecisionLog,
    entry_of,
    fold_events,
    histories,
    lively,
    new_message,
    run_commands,
)
from tests.property.transcript_model import (
    TIMEOUT_US,
    Abandon,
    Answer,
    Ask,
    Entry,
    Erase,
    Record,
    Reset,
    Say,
    Summarise,
    TranscriptRefusal,
)
from tests.support import figure

EXAMPLES = figure(100, 5_000)


@given(histories)
@settings(max_examples=EXAMPLES)
def test_whatever_is_ordered_comes_to_what_a_plain_model_says(commands: list[model.Command]) -> None:
    run_commands(commands)


@given(lively, st.integers(0, 100))
@settings(max_examples=EXAMPLES)
def test_folding_on_from_a_snapshot_is_folding_from_the_beginning(commands: list[model.Command], at: int) -> None:
    log = run_commands(commands)
    at %= len(log.events)
    state = codec.decode(codec.encode(fold_events(log.events[:at])), SessionState)
    for event, name, time_us in log.events[at:]:
        state = fold_session(state, event, name, time_us)
    if any(isinstance(event, PayloadsErased) and event.seqs[0] <= at for event, _, _ in log.events[at:]):
        return  # what was erased later was still there in the snapshot: nobody folds on from that
    assert state == log.state == fold_events(log.events)


@given(histories)
@settings(max_examples=EXAMPLES)
def test_what_ends_a_conversation_offers_all_of_it_once(commands: list[model.Command]) -> None:
    log = run_commands(commands)
    state, offered = SessionState(), list[tuple[int, str, int, int]]()
    for event, name, time_us in log.events:
        stretch = find_offload(state, event, name)
        if stretch is not None:
            offered.append((state.version + 1, name.removeprefix("session."), *stretch))
        state = fold_session(state, event, name, time_us)
    assert offered == log.said.offers


@given(st.lists(model.batches, min_size=1, max_size=8))
@settings(max_examples=EXAMPLES)
def test_a_batch_is_as_good_as_one_at_a_time(batches: list[Record]) -> None:
    together, apart = run_commands(batches), DecisionLog()
    for batch in batches:
        items = [Record((item,)) for item in batch.items]
        ahead = apart.said.copy()
        try:
            for item in items:
                ahead = ahead.apply(ahead.resolved(item))
        except TranscriptRefusal:
            continue
        for item in items:
            apart.give(item)
    assert [event for event, _, _ in together.events] == [event for event, _, _ in apart.events]


def _size_after(rounds: int) -> int:
    """The size of a state in which all has happened that may happen in an open session, so many times."""
    log = DecisionLog()
    summary = SummaryInput(tokens=100, messages=5)
    inputs = DecisionInput(time_us=2, tokens=(9, 9), counter="c", summary=summary)
    one = msgspec.structs.replace(inputs, tokens=(9,))
    talk = RecordMessages(scope=SCOPE, messages=(new_message(Say("user", "hi")), new_message(Ask("", ("p", "q")))))
    for _ in range(rounds):
        log.decide(talk, inputs)
        call = log.state.open_calls[0].id
        log.decide(RecordMessages(scope=SCOPE, messages=(new_message(Answer((("q", "hi", False),))),)), one)
        log.decide(CloseCalls(scope=SCOPE, reason="gone"), inputs)
        late = RecordMessages(scope=SCOPE, messages=(new_message(Answer(((call, "hi", False),))),))
        resolved = CallInput(resolved={call: ResolvedCall("closed", call)})
        log.decide(late, msgspec.structs.replace(one, calls=resolved))
        version = log.state.version
        log.decide(Summarize(scope=SCOPE, first=1, last=version, version=version, text="s"), one)
    log.decide(talk, inputs)
    return len(codec.encode(log.state))


def test_a_hundred_times_the_history_is_no_larger_a_state() -> None:
    """The figures get longer by a digit or two, and nothing else does."""
    short, long = _size_after(12), _size_after(1_250)
    assert short <= long < short + 60


# Sentences of their own

ASKED = (Record((Ask("", ("p", "q")),)),)


@pytest.mark.parametrize(
    ("commands", "refusal"),
    [
        ((*ASKED, Record((Say("assistant", "hi"),))), errors.CallsOpen),
        ((*ASKED, Record((Ask("hi", (None,)),))), errors.CallsOpen),
        ((Record((Ask("", ("p", "p")),)),), errors.InvalidArgument),
        ((*ASKED, Record((Answer((("p", "", False), ("c2_0", "", False))),))), errors.CallAnswered),
        ((*ASKED, Record((Answer((("p", "", False),)), Answer((("p", "", False),))))), errors.CallAnswered),
        ((*ASKED, Record((Answer((("nowhere", "", False),)),))), errors.CallNotFound),
        ((*ASKED, Erase((1,))), errors.CallsOpen),
        ((*ASKED, Summarise(0, 0, 0, "s")), errors.CallsOpen),
        ((Record((Say("user", "x" * 40),) * 3), Reset(keep_system=True), Summarise(1, 1, 1, "s")), errors.SummaryStale),
    ],
)
def test_what_breaks_the_rules_is_refused(
    commands: tuple[model.Command, ...], refusal: type[errors.HoldfastError]
) -> None:
    *before, last = commands
    log = run_commands(before)
    with pytest.raises(refusal):
        decide_session(log.state, *log.order(log.said.resolved(last)))


def test_a_provider_may_use_an_id_again_and_the_newest_call_has_it() -> None:
    log = run_commands(
        [*ASKED, Abandon("gone"), *ASKED, Record((Answer((("p", "new", False), ("c2_1", "old", False))),))]
    )
    assert [entry_of(event) for event, _, _ in log.events[-2:] if event] == [
        Entry("message", role="tool", results=(("c4_0", "new", False),), tokens=6),
        Entry("evidence", role="tool", results=(("c2_1", "old", False),)),
    ]


def test_a_call_that_was_closed_in_the_same_batch_takes_late_results() -> None:
    found = Record((Ask("", ("p",)), Say("assistant", "hi"), Answer((("p", "late", False),))), as_found=True)
    last, _, _ = run_commands([found]).events[-1]
    assert isinstance(last, EvidenceKept)
    assert (last.reason, last.tool_results[0].tool_call_id) == ("the call was closed before", "c2_0")


def test_an_erased_reset_does_not_bring_system_messages_back() -> None:
    log = run_commands([Record((Say("system", "hi"),)), Reset(keep_system=False)])
    assert log.state.pinned == ()
    log.forget(range(3, log.state.version + 1))
    assert log.state.pinned == ()


def test_an_erased_end_offers_nothing_that_was_not_to_be_kept() -> None:
    destroyed = SessionDestroyed(reason="r", offload=False)
    log = run_commands([Record((Say("user", "hi"),))])
    assert find_offload(log.state, destroyed, destroyed.name) is None
    assert find_offload(log.state, None, destroyed.name) is None


def test_a_timeout_is_sound_also_when_the_creation_that_set_it_was_erased() -> None:
    log = run_commands([Record((Say("user", "hi"),)), Erase((2,))])
    assert log.state.idle_timeout_us == 0
    assert find_fault(log.state, SessionTimedOut(idle_us=TIMEOUT_US), SessionTimedOut.name) is None


@given(st.integers(1, 10**18), st.integers(0, limits.MESSAGE_CALLS))
def test_the_id_of_a_call_tells_its_message(seq: int, ordinal: int) -> None:
    assert calling_seq(call_id(seq, ordinal)) == seq


@pytest.mark.parametrize(
    "name", ["", "c", "c0_0", "c1", "c1_", "c1_00", "c01_0", "C1_0", "c1_0 ", "c-1_0", "c¹_0", "x"]
)
def test_other_names_tell_nothing(name: str) -> None:
    assert calling_seq(name) is None
