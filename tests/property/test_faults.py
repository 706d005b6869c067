"""What no command can have made is found out, in any history: for events that come from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.faults import find_fault
from holdfast.core.fold import fold_session
from holdfast.model import limits
from holdfast.model.content import Text, ToolCall, ToolResult, Usage, call_id, calling_seq
from holdfast.model.events import Event
from holdfast.model.history.events import SummaryRecorded
from holdfast.model.sessions.events import (
    EvidenceKept,
    MessageRecorded,
    OffloadAcknowledged,
    PayloadsErased,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionReset,
    SessionTimedOut,
)
from holdfast.model.state import SessionState
from tests.property import transcript_model as model
from tests.property.decisions import DecisionLog, histories, lively, run_commands
from tests.property.transcript_model import (
    TIMEOUT_US,
    TOOL,
    Abandon,
    Answer,
    Ask,
    Close,
    Destroy,
    Erase,
    Expire,
    Record,
    Reset,
    Say,
    Summarise,
)
from tests.support import figure

EXAMPLES = figure(100, 5_000)

CROWD: tuple[model.Command, ...] = (
    Record((Say("user", "hello there"),)),
    Record((Ask("x" * 40, ("p", "q", None)),)),
    Record((Answer(((1, "hi", False),)),)),
    Record((Say("user", "hurry up"),)),
    Abandon("interrupted"),
    Record((Answer((("q", "late", False),)),)),
    Record((Answer((("q", "and nowhere", True), ("nowhere", "", False))),), as_found=True),
    Summarise(3, 2, 0, "s"),
    Summarise(8, 0, 0, "so"),
)


Mutation = Callable[[SessionState, Any], Event | None]


def _changed(**changes: object) -> Mutation:
    return lambda _, event: msgspec.structs.replace(event, **changes)


def _calls(state: SessionState, event: MessageRecorded, **changes: object) -> MessageRecorded | None:
    """The same message with these changes made to its last call, if it makes any."""
    if not event.tool_calls:
        return None
    *others, last = event.tool_calls
    return msgspec.structs.replace(event, tool_calls=(*others, msgspec.structs.replace(last, **changes)))


def _results(event: MessageRecorded, *more: ToolResult) -> MessageRecorded | None:
    return msgspec.structs.replace(event, tool_results=(*event.tool_results, *more)) if event.tool_results else None


def _goes_on(state: SessionState, event: MessageRecorded) -> MessageRecorded | None:
    waits = state.open_calls and not event.tool_results
    return msgspec.structs.replace(event, role="assistant") if waits else None


def _same_ids(state: SessionState, event: MessageRecorded) -> MessageRecorded | None:
    if len(event.tool_calls) < 2:
        return None
    calls = tuple(msgspec.structs.replace(call, provider_id="p") for call in event.tool_calls)
    return msgspec.structs.replace(event, tool_calls=calls)


def _crowded(state: SessionState, event: MessageRecorded) -> MessageRecorded | None:
    calls = (ToolCall(call_id(state.version + 1, at), TOOL, {}) for at in range(limits.MESSAGE_CALLS + 1))
    return None if event.role != "assistant" else msgspec.structs.replace(event, tool_calls=tuple(calls))


def _cutting(state: SessionState, event: SummaryRecorded) -> SummaryRecorded | None:
    wide = [each for each in state.summaries if each.first < each.last]
    return msgspec.structs.replace(event, first=wide[0].first, last=wide[0].last - 1) if wide else None


def _of_what_waits(state: SessionState, event: Event) -> PayloadsErased | None:
    waiting = {calling_seq(call.id) or 0 for call in state.open_calls}
    return PayloadsErased(seqs=tuple(waiting), reason="r") if waiting else None


def _ended(state: SessionState, event: Event) -> SessionReset | None:
    return SessionReset(reason="r") if state.open_calls else None


def _acknowledged(entry: int, first: int, last: int) -> Mutation:
    """Of an entry so many events ahead."""
    return lambda state, _: OffloadAcknowledged(
        entry=state.version + entry, why="reset", first=first, last=state.version + last, at_us=0
    )


MESSAGE, SUMMARY, EVIDENCE, ERASURE = MessageRecorded, SummaryRecorded, EvidenceKept, PayloadsErased

MUTATIONS: dict[str, tuple[type[Event], Mutation]] = {
    "a call under another id": (MESSAGE, lambda state, event: _calls(state, event, id="c999_0")),
    "a call under the id of its neighbour": (
        MESSAGE,
        lambda state, event: _calls(state, event, id=call_id(state.version + 1, len(event.tool_calls))),
    ),
    "two calls under one id of the provider": (MESSAGE, _same_ids),
    "more calls than any message makes": (MESSAGE, _crowded),
    "calls of a user": (MESSAGE, lambda _, event: _changed(role="user")(_, event) if event.tool_calls else None),
    "a reply while calls wait": (MESSAGE, _goes_on),
    "a result for a call that never was": (MESSAGE, lambda _, event: _results(event, ToolResult("c999_9", ()))),
    "a result for an id that is none": (MESSAGE, lambda _, event: _results(event, ToolResult("p", ()))),
    "a second result in one message": (MESSAGE, lambda _, event: _results(event, *event.tool_results[:1])),
    "results with other content": (
        MESSAGE,
        lambda _, event: _changed(content=(Text("x"),))(_, event) if event.tool_results else None,
    ),
    "results of a user": (MESSAGE, lambda _, event: _changed(role="user")(_, event) if event.tool_results else None),
    "nothing at all": (MESSAGE, _changed(content=(), tool_calls=(), tool_results=())),
    "tokens below none": (MESSAGE, _changed(tokens=-1)),
    "tokens beyond number": (MESSAGE, _changed(tokens=limits.WHOLE_NUMBER + 1)),
    "usage below none": (MESSAGE, _changed(usage=Usage(output_tokens=-1))),
    "a second creation": (MESSAGE, lambda *_: SessionCreated()),
    "a timeout below none": (SessionCreated, _changed(idle_timeout_us=-1)),
    "an end while calls wait": (MESSAGE, _ended),
    "a summary of what is to come": (SUMMARY, lambda state, event: _changed(last=state.version + 1)(state, event)),
    "a summary of what was reset": (SUMMARY, lambda state, event: _changed(first=state.start)(state, event)),
    "a summary that ends before it begins": (SUMMARY, lambda _, event: _changed(first=event.last + 1)(_, event)),
    "a summary that says nothing": (SUMMARY, _changed(text=" \n")),
    "a summary that cuts through another": (SUMMARY, _cutting),
    "a summary of fewer tokens than none": (SUMMARY, _changed(tokens=-1)),
    "a summary of more messages than there are": (
        SUMMARY,
        lambda _, event: _changed(messages=event.last + 1)(_, event),
    ),
    "evidence for no reason": (EVIDENCE, _changed(reason="")),
    "evidence of fewer tokens than none": (EVIDENCE, _changed(tokens=-1)),
    "a reset for no reason": (SessionReset, _changed(reason="")),
    "a closing for no reason": (SessionClosed, _changed(reason="")),
    "a timeout before its time": (SessionTimedOut, _changed(idle_us=TIMEOUT_US - 1)),
    "a destruction for no reason": (SessionDestroyed, _changed(reason="")),
    "an erasure of nothing": (ERASURE, _changed(seqs=())),
    "an erasure out of order": (ERASURE, _changed(seqs=(2, 1))),
    "an erasure of one event twice": (ERASURE, _changed(seqs=(1, 1))),
    "an erasure before the beginning": (ERASURE, _changed(seqs=(0,))),
    "an erasure of itself": (ERASURE, lambda state, event: _changed(seqs=(state.version + 1,))(state, event)),
    "an erasure of what waits": (MESSAGE, _of_what_waits),
    "an acknowledgement of itself": (MESSAGE, _acknowledged(1, 1, 0)),
    "an acknowledgement of what came later": (MESSAGE, _acknowledged(0, 1, 0)),
    "an acknowledgement of nothing": (MESSAGE, _acknowledged(0, 1_000, -1)),
}

EVENTFUL: tuple[model.Command, ...] = (
    *CROWD,
    Record((Ask("", ("p", "q")),)),
    Reset(keep_system=True),
    Erase((3,)),
    Record((Say("user", "hello there"), Say("assistant", "x" * 40), Say("user", "x" * 40))),
    Summarise(1, 0, 0, "s"),
    Record((Say("user", "x" * 40),)),
    Summarise(4, 0, 0, "s"),
)
ENDINGS: tuple[model.Command, ...] = (Close(), Expire(TIMEOUT_US), Destroy(offload=True))


def _mutants(log: DecisionLog, name: str) -> list[tuple[SessionState, Event]]:
    """All that this mutation makes of the events of a log, each with the state in which it would have happened."""
    kind, mutation = MUTATIONS[name]
    state, made = SessionState(), list[tuple[SessionState, Event]]()
    for event, event_type, time_us in log.events:
        mutant = mutation(state, event) if isinstance(event, kind) else None
        if mutant is not None:
            made.append((state, mutant))
        state = fold_session(state, event, event_type, time_us)
    return made


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_no_command_can_have_made_is_found_out(name: str) -> None:
    mutants = [each for ending in ENDINGS for each in _mutants(run_commands([*EVENTFUL, ending]), name)]
    assert mutants
    for state, mutant in mutants:
        assert find_fault(state, mutant, mutant.name), mutant


@given(histories, st.sampled_from(sorted(MUTATIONS)))
@settings(max_examples=EXAMPLES)
def test_and_so_it_is_in_any_history(commands: list[model.Command], name: str) -> None:
    for state, mutant in _mutants(run_commands(commands), name):
        assert find_fault(state, mutant, mutant.name), mutant


@given(lively)
@settings(max_examples=EXAMPLES // 4)
def test_an_answered_call_takes_no_second_result_from_anywhere(commands: list[model.Command]) -> None:
    log, state, answered = run_commands(commands), SessionState(), set[str]()
    for event, name, time_us in log.events:
        if isinstance(event, MessageRecorded) and state.status == "open":
            for call in answered:
                again = msgspec.structs.replace(
                    event, role="tool", content=(), tool_calls=(), tool_results=(ToolResult(call, ()),)
                )
                assert find_fault(state, again, again.name) == "a result answers an open call"
            answered |= {each.tool_call_id for each in event.tool_results}
        state = fold_session(state, event, name, time_us)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", [MESSAGE, SessionCreated, SessionReset, SessionClosed, SessionTimedOut])
def test_nothing_new_comes_after_the_end(ending: model.Command, kind: type[Event]) -> None:
    log = run_commands([*EVENTFUL, ending])
    events = [
        event
        for event, _, _ in (*log.events, *run_commands([*EVENTFUL, *ENDINGS[:2]]).events)
        if isinstance(event, kind)
    ]
    for event in events or [SessionTimedOut(idle_us=TIMEOUT_US)]:
        assert find_fault(log.state, event, event.name)
