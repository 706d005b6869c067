"""A session made of nothing but decisions and folds, beside the model of it, and strategies for its histories."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import strategies as st

from holdfast import codec
from holdfast.core import invariants
from holdfast.core.decide import decide_session
from holdfast.core.faults import find_fault
from holdfast.core.fold import fold_session
from holdfast.model.commands import SessionCommand
from holdfast.model.content import Text, text_of
from holdfast.model.events import Event
from holdfast.model.history.commands import Summarize
from holdfast.model.history.events import SummaryRecorded
from holdfast.model.inputs import CallInput, DecisionInput, ResolvedCall, SummaryInput
from holdfast.model.names import Scope
from holdfast.model.sessions.commands import (
    CloseCalls,
    CloseSession,
    CreateSession,
    DestroySession,
    ErasePayloads,
    NewCall,
    NewMessage,
    NewResult,
    RecordMessages,
    ResetSession,
    TimeOutSession,
)
from holdfast.model.sessions.events import (
    EvidenceKept,
    MessageRecorded,
    PayloadsErased,
    SessionClosed,
    SessionDestroyed,
    SessionReset,
    SessionTimedOut,
)
from holdfast.model.state import SessionState, SummaryRef
from tests.property import transcript_model as model
from tests.property.transcript_model import (
    CALL_TOKENS,
    TIMEOUT_US,
    TOOL,
    Abandon,
    Answer,
    Ask,
    Close,
    Destroy,
    Empty,
    Entry,
    Erase,
    Expire,
    Item,
    Record,
    Reset,
    Say,
    Summarise,
    Transcript,
    TranscriptRefusal,
)

SCOPE = Scope("tenant", "actor", "session")


ordinary = model.one_at_a_time | model.one_at_a_time | model.one_at_a_time | model.batches | model.abandons


histories = st.lists(
    ordinary | ordinary | model.found | model.summaries | model.summaries | model.resets | model.erasures | model.ends,
    max_size=25,
)


lively = st.lists(ordinary | ordinary | model.summaries | model.resets | model.erasures, min_size=5, max_size=40)


class DecisionLog:
    """A session made of nothing but decisions and folds, beside the model of it."""

    def __init__(self) -> None:
        self.said = Transcript()
        self.events: list[tuple[Event | None, str, int]] = []
        self.state = SessionState()
        self.time_us = 1
        self.decide(CreateSession(scope=SCOPE, idle_timeout_us=TIMEOUT_US), DecisionInput(time_us=1))

    def give(self, command: model.Command) -> None:
        command = self.said.resolved(command)
        self.time_us += command.idle_us if isinstance(command, Expire) else 1
        order, inputs = self.order(command)
        try:
            said = self.said.apply(command)
        except TranscriptRefusal as refused:
            with pytest.raises(refused.errors):
                decide_session(self.state, order, inputs)
            return
        made = self.decide(order, inputs)
        assert [entry_of(event) for event in made] == [_drop_reason(each) for each in said.entries[self.said.version :]]
        self.said = said
        check_session_state(self.state, self.said)

    def decide(self, order: SessionCommand, inputs: DecisionInput) -> tuple[Event, ...]:
        made = decide_session(self.state, order, inputs)
        assert made == decide_session(self.state, order, inputs)
        for event in made:
            assert find_fault(self.state, event, event.name) is None
            if isinstance(event, PayloadsErased):
                self.forget(event.seqs)
            self.events.append((event, event.name, inputs.time_us))
            self.state = fold_session(self.state, event, event.name, inputs.time_us)
            assert invariants.find_violations(self.state) == []
        return made

    def forget(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            self.events[seq - 1] = (None, *self.events[seq - 1][1:])
        self.state = fold_events(self.events)

    def order(self, command: model.Command) -> tuple[SessionCommand, DecisionInput]:
        """A command and what the log says beside it."""
        match command:
            case Record(items, as_found):
                messages = tuple(new_message(item) for item in items)
                tokens, resolved = tuple(map(_tokens, items)), self.find_resolved_calls(items)
                order: SessionCommand = RecordMessages(scope=SCOPE, messages=messages, as_found=as_found)
                return order, self.build_input(tokens, "the log has none", resolved=resolved)
            case Abandon(reason):
                return CloseCalls(scope=SCOPE, reason=reason), self.build_input((), reason)
            case Summarise(text=text):
                first, last, drafted = self.said.bounds(command)
                replaced = self.said.stretch(first, last)
                calls = {call for _, each in replaced for call, _ in each.calls}
                whole = calls == {call for _, each in replaced for call, _, _ in each.results}
                tokens = (len(text),)
                inputs = self.build_input(tokens, "") if not whole else self.build_input(tokens, "", replaced=replaced)
                return Summarize(scope=SCOPE, first=first, last=last, version=drafted, text=text), inputs
            case Erase():
                seqs = self.said.seqs(command)
                if all(1 <= seq <= self.said.version for seq in seqs):
                    seqs = tuple(self.said.goes_with(seqs))
                return ErasePayloads(scope=SCOPE, seqs=seqs, reason="asked to"), self.build_input((), "")
            case Reset(keep_system):
                return ResetSession(scope=SCOPE, reason="again", keep_system=keep_system), self.build_input((), "again")
            case Close():
                return CloseSession(scope=SCOPE, reason="done"), self.build_input((), "done")
            case Expire():
                return TimeOutSession(scope=SCOPE), self.build_input((), "the session was idle for too long")
            case Destroy(offload):
                reason = "over" if offload else "not to be kept"
                return DestroySession(scope=SCOPE, reason=reason, offload=offload), self.build_input((), reason)

    def build_input(
        self,
        tokens: tuple[int, ...],
        closing: str,
        resolved: dict[str, ResolvedCall] | None = None,
        replaced: list[tuple[int, Entry]] | None = None,
    ) -> DecisionInput:
        summary = None
        if replaced is not None:
            total = sum(each.tokens for _, each in replaced)
            summary = SummaryInput(tokens=total, messages=sum(each.count or 1 for _, each in replaced))
        return DecisionInput(
            time_us=self.time_us,
            tokens=tokens,
            counter="characters",
            calls=CallInput(resolved=resolved or {}, closing_tokens=len(f"No result: {closing}")),
            summary=summary,
        )

    def find_resolved_calls(self, items: Iterable[Item]) -> dict[str, ResolvedCall]:
        found: dict[str, ResolvedCall] = {}
        for name in (str(call) for item in items if isinstance(item, Answer) for call, _, _ in item.results):
            fate = self.said.fate(name)
            if fate is not None and self.said.waiting_for(name) is None:
                found[name] = ResolvedCall("closed" if fate[1] == "closed" else "answered", fate[0])
        return found


def fold_events(events: Iterable[tuple[Event | None, str, int]]) -> SessionState:
    state = SessionState()
    for event, name, time_us in events:
        state = fold_session(state, event, name, time_us)
        assert invariants.find_violations(state) == []
    return state


def run_commands(commands: Iterable[model.Command]) -> DecisionLog:
    log = DecisionLog()
    for command in commands:
        log.give(command)
    return log


def new_message(item: Item) -> NewMessage:
    match item:
        case Say(role, text):
            return NewMessage(role=role, content=(Text(text),))
        case Ask(text, own):
            calls = tuple(NewCall(TOOL, {}, name) for name in own)
            return NewMessage(role="assistant", content=(Text(text),) if text else (), tool_calls=calls)
        case Answer(results):
            some = tuple(NewResult(str(call), (Text(text),), wrong) for call, text, wrong in results)
            return NewMessage(role="tool", tool_results=some)
        case Empty(role):
            return NewMessage(role=role)


def _tokens(item: Item) -> int:
    match item:
        case Answer(results):
            return sum(len(text) for _, text, _ in results)
        case Ask(text, own):
            return len(text) + CALL_TOKENS * len(own)
        case Say(_, text):
            return len(text)
    return 0


def entry_of(event: Event) -> Entry:
    match event:
        case MessageRecorded() | EvidenceKept():
            return Entry(
                "message" if isinstance(event, MessageRecorded) else "evidence",
                role=event.role,
                text=text_of(event.content),
                calls=tuple((call.id, call.provider_id) for call in getattr(event, "tool_calls", ())),
                results=tuple((each.tool_call_id, text_of(each.content), each.is_error) for each in event.tool_results),
                tokens=event.tokens,
                closing=getattr(event, "closing", False),
            )
        case SummaryRecorded(first=first, last=last, messages=count, text=text, tokens=tokens):
            return Entry("summary", text=text, first=first, last=last, count=count, tokens=tokens)
        case SessionReset(keep_system=keep_system):
            return Entry("reset", keep_system=keep_system)
        case PayloadsErased(seqs=seqs):
            return Entry("erasure", seqs=seqs)
        case SessionClosed():
            return Entry("closed")
        case SessionTimedOut():
            return Entry("timed_out")
        case SessionDestroyed():
            return Entry("destroyed")
    raise AssertionError(f"{event} is not expected here")


def _drop_reason(entry: Entry) -> Entry:
    return Entry(**{**entry.__dict__, "reason": ""})


def check_session_state(state: SessionState, said: Transcript) -> None:
    """The state is what the model says, and a snapshot of it is as good."""
    messages = [entry for _, entry in said.readable("message")]
    bare = ("erasure", "acknowledged", "destroyed")
    assert (state.version, state.status, state.start, state.changed) == (
        said.version,
        said.status,
        said.start,
        said.changed,
    )
    assert {call.id: call.provider_id for call in state.open_calls} == said.open_calls
    assert list(state.pinned) == said.pinned
    assert state.live == said.live
    assert state.tokens == sum(entry.tokens for entry in messages)
    assert state.turns == sum(entry.role == "user" for entry in messages)
    assert state.messages == sum(entry.kind == "message" for entry in said.entries)
    assert state.late == sum(entry.kind == "evidence" for entry in said.entries)
    assert state.residue == sum(
        entry.kind not in bare and seq not in said.erased for seq, entry in enumerate(said.entries, 1)
    )
    assert state.summaries == tuple(
        SummaryRef(seq, each.first, each.last, each.count, each.tokens) for seq, each in said.in_effect
    )
    assert codec.decode(codec.encode(state), SessionState) == state
