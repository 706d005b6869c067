"""The model's commands given to an engine, and what the engine then shows compared with what the model says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

import holdfast
from holdfast import Usage, errors
from holdfast.flows.sessions.messages import record_drafts
from holdfast.model import limits
from holdfast.model.content import text_of
from holdfast.model.history.views import Summary, TranscriptView
from holdfast.model.sessions.messages import CallDraft, Message, MessageDraft, MessageGroup, ResultDraft
from holdfast.model.state import SummaryRef
from holdfast.types import SummaryDraft
from tests.property.session_model import ManualClock
from tests.property.transcript_model import (
    TOOL,
    Abandon,
    Answer,
    Ask,
    Close,
    Command,
    Destroy,
    Empty,
    Entry,
    Erase,
    Item,
    Record,
    Reset,
    Say,
    Summarise,
    Transcript,
    TranscriptRefusal,
)

Outcome = type[errors.HoldfastError] | None


def execute(engine: holdfast.Engine, session: holdfast.Session, command: Command, said: Transcript) -> None:
    """Give a command, its picks resolved, to an engine."""
    match command:
        case Record(items, as_found):
            _record(engine, session, items, as_found=as_found, version=said.version)
        case Abandon(reason):
            session.close_calls(reason)
        case Summarise(text=text):
            first, last, drafted = said.bounds(command)
            draft = SummaryDraft(scope=session.scope, first=first, last=last, version=drafted, items=(), tokens=0)
            session.context.summarize(draft, text)
        case Erase():
            session.erase(said.seqs(command), "asked to")
        case Reset(keep_system):
            session.reset("again", keep_system=keep_system)
        case Close():
            session.end("done")
        case Destroy(offload):
            session.destroy("over" if offload else "not to be kept", offload=offload)


def _record(
    engine: holdfast.Engine, session: holdfast.Session, items: tuple[Item, ...], *, as_found: bool, version: int
) -> None:
    own = [name for item in items if isinstance(item, Ask) for name in item.own if name is not None]
    if as_found or len({*own}) != len(own):
        engine._drive(record_drafts(session._context, [_draft(item) for item in items], as_found=as_found))
    elif len(items) > 1:
        session.record_all([_to_record_args(item) for item in items])
    else:
        _record_one(session, items[0], Usage(input_tokens=30 * version, output_tokens=7))


def _record_one(session: holdfast.Session, item: Item, usage: Usage) -> None:
    """The usage teaches the counter something, sane or not: views must hold whatever it is multiplied by."""
    match item:
        case Say(role, text):
            session.record(role, text, usage=usage if role == "assistant" else None)
        case Ask(text, own):
            calls: list[dict[str, object]] = [{"name": TOOL, "args": {}, "id": name} for name in own]
            session.record("assistant", text or None, tool_calls=calls, usage=usage)
        case Answer(results) if len(results) == 1:
            ((call, text, wrong),) = results
            session.result(str(call), text, is_error=wrong)
        case _:
            session.record(_to_record_args(item))


def _to_record_args(item: Item) -> dict[str, object] | tuple[str, str]:
    match item:
        case Say(role, text):
            return (role, text)
        case Ask(text, own):
            calls: list[dict[str, object]] = [{"name": TOOL, "args": {}, "id": name} for name in own]
            return {"role": "assistant", "content": text or None, "tool_calls": calls}
        case Answer(results):
            some = [{"tool_call_id": call, "result": text, "is_error": wrong} for call, text, wrong in results]
            return {"role": "tool", "tool_results": some}
        case Empty(role):
            return {"role": role, "content": ""}


def _draft(item: Item) -> MessageDraft:
    match item:
        case Say(role, text):
            return MessageDraft(role=role, content=text)
        case Ask(text, own):
            calls = tuple(CallDraft(TOOL, {}, name) for name in own)
            return MessageDraft(role="assistant", content=text, tool_calls=calls)
        case Answer(results):
            return MessageDraft(role="tool", tool_results=tuple(ResultDraft(*result) for result in results))
        case Empty(role):
            return MessageDraft(role=role)


def catch_error(action: Callable[[], object]) -> Outcome:
    try:
        action()
    except errors.HoldfastError as error:
        return type(error)
    return None


SessionOrder = tuple[str, Command, int]
"""To a session, a command, and a budget for a look at it afterwards."""


def collect_answers(engine: holdfast.Engine, clock: ManualClock, orders: Sequence[SessionOrder]) -> list[object]:
    """What an engine answers to these commands and shows after each."""
    answers = list[object]()
    names = sorted({name for name, _, _ in orders})
    sessions = {name: engine.create_session(name) for name in names}
    said = {name: Transcript() for name in names}
    for name, command, budget in orders:
        clock.us += 1
        command = said[name].resolved(command)
        answers.append(catch_error(lambda: execute(engine, sessions[name], command, said[name])))  # noqa: B023
        try:
            said[name] = said[name].apply(command)
        except TranscriptRefusal as refused:
            answers.append(refused.errors)
        try:
            answers.append(sessions[name].context.window(budget))
        except errors.WindowTooSmall as small:
            answers.append(str(small))
    return answers


def expect_outcome(said: Transcript, command: Command) -> tuple[Transcript, tuple[type[errors.HoldfastError], ...]]:
    """What becomes of the transcript, and the errors of which one is met; none if it is carried out."""
    numbers: tuple[int, ...] = ()
    if isinstance(command, Erase):
        numbers = said.seqs(command)
    elif isinstance(command, Summarise):
        numbers = said.bounds(command)
    if 0 in numbers:  # that is no number of an event, whatever else there is to say
        return said, (errors.InvalidInput,)
    try:
        return said.apply(command), ()
    except TranscriptRefusal as refused:
        return said, refused.errors


# What is shown


def entry_of(message: Message) -> Entry:
    return Entry(
        "evidence" if message.late else "message",
        role=message.role or "",
        text=text_of(message.content),
        calls=tuple((call.id, call.provider_id) for call in message.tool_calls),
        results=tuple((each.tool_call_id, text_of(each.content), each.is_error) for each in message.tool_results),
        tokens=message.tokens,
        closing=message.closing,
    )


def read_pages(read: Callable[..., list[Message]], limit: int) -> list[Message]:
    """All messages, read in pages from the newest back."""
    found = read(limit=limit)
    while found and (page := read(before=found[0].seq, limit=limit)):
        assert len(page) <= limit
        found = page + found
    return found


def check_transcript(session: holdfast.Session, said: Transcript, limit: int = 7) -> None:
    """The transcript is all that was ever said, in order, with holes only where something was erased."""
    for read, kind in ((session.messages, "message"), (session.evidence, "evidence")):
        kept = [(seq, entry) for seq, entry in said.numbered() if entry.kind == kind]
        found = read_pages(read, limit)
        assert [each.seq for each in found] == [seq for seq, _ in kept]
        assert [each.erased for each in found] == [seq in said.erased for seq, _ in kept]
        assert [entry_of(each) for each in found if not each.erased] == [
            entry for seq, entry in kept if seq not in said.erased
        ]


def check_state(state: holdfast.types.SessionState, said: Transcript) -> None:
    assert (state.version, state.status) == (said.version, said.status)
    assert {call.id: call.provider_id for call in state.open_calls} == said.open_calls
    assert (list(state.pinned), state.live, state.start) == (said.pinned, said.live, said.start)
    assert tuple(msgspec.structs.replace(each, replaced=0) for each in state.summaries) == tuple(
        SummaryRef(seq, each.first, each.last, each.count, each.tokens) for seq, each in said.in_effect
    )
    assert all(each.replaced > each.tokens for each in state.summaries), "they are shorter than what they stand for"


def check_window(session: holdfast.Session, said: Transcript, budget: int) -> None:
    """A view is exactly what the model says of it."""
    calibration = session.state().calibration

    def size(tokens: int, messages: int) -> int:
        return calibration.measure(tokens, messages)

    try:
        shown, tokens = said.view(budget, size)
    except TranscriptRefusal as refused:
        with pytest.raises(refused.errors):
            session.context.window(budget)
        return
    view = session.context.window(budget)
    check_pairs(view)
    assert view.tokens == tokens <= budget
    assert [message.seq for message in view.system] == said.pinned
    assert [_seqs(item) for item in view.items] == [each.seqs for each in shown]
    assert view.omitted == said.live - sum(each.messages for each in shown)
    assert {call.id: call.provider_id for call in view.open_calls} == said.open_calls
    evidence = [(seq, entry) for seq, entry in said.numbered() if entry.kind == "evidence"][-limits.LATE_SHOWN :]
    assert [entry_of(each) for each in view.late] == [
        entry for seq, entry in evidence if seq > said.start and seq not in said.erased
    ]
    for item in view.items:
        told = [said.entries[seq - 1] for seq in _seqs(item)]
        if isinstance(item, Summary):
            assert [(item.first, item.last, item.text)] == [(each.first, each.last, each.text) for each in told]
        else:
            assert [entry_of(message) for message in item.messages] == told


def _seqs(item: MessageGroup | Summary) -> tuple[int, ...]:
    return (item.seq,) if isinstance(item, Summary) else tuple(message.seq for message in item.messages)


def check_pairs(view: TranscriptView) -> None:
    """No call without its result and no result without its call, each in the unit of the other, the call first."""
    for unit in view.groups:
        assert not unit.open
        waiting: set[str] = set()
        for message in unit.messages:
            waiting |= {call.id for call in message.tool_calls}
            for result in message.tool_results:
                waiting.remove(result.tool_call_id)
        assert not waiting
    assert not any(message.tool_calls or message.tool_results for message in view.system)
    assert {call.id for call in view.open_calls}.isdisjoint(
        call.id for message in view.messages for call in message.tool_calls
    )
