"""What deciding a command needs to know beyond the live state: looked up in the log, so that the state can stay small."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.core import upcast
from holdfast.core.messages import NO_SUCH_CALL, group_of, waiting_for
from holdfast.core.situation import OF_SITUATIONS, told_by
from holdfast.core.units import group_seq, kept_seqs, whole
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.inform_actions import answered
from holdfast.flows.inform_frames import about_frames, session_where, whole_tree
from holdfast.flows.read import message, stretch_of
from holdfast.model import limits
from holdfast.model.commands import (
    AcknowledgeOffload,
    Command,
    ErasePayloads,
    Fate,
    Given,
    RecordAction,
    RecordMessages,
    StartCall,
    Summarize,
)
from holdfast.model.content import ToolCall
from holdfast.model.events import (
    OF_FRAMES,
    CallStarted,
    EvidenceKept,
    FactsProposed,
    HandleMoved,
    MessageRecorded,
    PayloadsErased,
)
from holdfast.model.log import Recorded
from holdfast.model.messages import Message
from holdfast.model.names import StreamId
from holdfast.model.rows import OutboxRow
from holdfast.model.situation import ActionRecorded, SituationUpdated
from holdfast.model.state import SessionState, SummaryRef
from holdfast.model.view_events import ContextCompacted, PackRecorded, SummaryRecorded


def informed(command: Command, given: Given, state: SessionState) -> Flow[tuple[Command, Given]]:
    """The command and what is given with it, completed from the log."""
    stream = command.scope.stream
    given = yield from about_frames(command, given, state)
    match command:
        case RecordMessages():
            known = yield from _fates(command, state)
            return command, msgspec.structs.replace(given, fates=known) if known else given
        case StartCall() if waiting_for(state, command.call) is None:
            fate = yield from _fate(stream, command.call, state.version)
            return command, given if fate is None else msgspec.structs.replace(given, fates={command.call: fate})
        case Summarize():
            return command, (yield from _replaced(command, given, state))
        case AcknowledgeOffload():
            return command, msgspec.structs.replace(given, offload=(yield from _entry(command)))
        case RecordAction(tool_calls=None):
            done = yield from answered(stream, state, command.frame)
            return command, msgspec.structs.replace(given, answered=done)
        case ErasePayloads(alone=False):
            seqs = yield from _erased(stream, command.seqs)
            return msgspec.structs.replace(command, seqs=tuple(sorted(seqs))), given
    return command, given


def _fates(command: RecordMessages, state: SessionState) -> Flow[dict[str, Fate]]:
    """What became of the calls that results name and that do not wait."""
    known: dict[str, Fate] = {}
    own: set[str | None] = set()
    for new in command.messages:
        own |= {call.provider_id for call in new.tool_calls}
        for result in new.tool_results:
            if result.call in own or result.call in known or waiting_for(state, result.call, command.frame):
                continue
            fate = yield from _fate(command.scope.stream, result.call, state.version, command.frame)
            if fate is not None:
                known[result.call] = fate
    return known


def _fate(stream: StreamId, call: str, version: int, frame: str | None = None) -> Flow[Fate | None]:
    """A call by our id is found where that says; by the provider's, only among the newest messages."""
    seq = group_of(call)
    if seq is None:
        for recorded in (yield from effects.read_back(stream, None, limits.READ_EVENTS, (MessageRecorded.name,))):
            said = message(recorded)
            for each in said.tool_calls if frame in (None, said.frame) else ():
                if each.provider_id == call:
                    return (yield from _outcome(stream, each, recorded.seq, version))
        return None
    if seq <= version:
        for recorded in (yield from effects.read(stream, seq - 1, 1)):
            for each in message(recorded).tool_calls:
                if each.id == call:
                    return (yield from _outcome(stream, each, seq, version))
    return None


def _outcome(stream: StreamId, call: ToolCall, seq: int, version: int) -> Flow[Fate | None]:
    for each in (yield from _results_of(stream, seq, version)):
        if any(result.tool_call_id == call.id for result in each.tool_results):
            return Fate("closed" if each.closing else "answered", call.id)
    return None


def _results_of(stream: StreamId, seq: int, version: int) -> Flow[list[Message]]:
    """The messages with the results of the calls that event `seq` made. They follow before the next reply in the same
    conversation does."""
    found: list[Message] = []
    frame: str | None = None
    for recorded in (yield from effects.read(stream, seq - 1, 1)):
        frame = message(recorded).frame
    after = seq
    while after < version:
        page = yield from effects.read(stream, after, limits.READ_EVENTS)
        for recorded in page:
            if recorded.type != MessageRecorded.name:
                continue
            each = message(recorded)
            if each.role == "assistant" and each.frame == frame:
                return found
            if group_seq(each) == seq:
                found.append(each)
        if not page:
            break
        after = page[-1].seq
    return found


def _replaced(command: Summarize, given: Given, state: SessionState) -> Flow[Given]:
    """How much the summary stands for; nothing at all if it begins or ends inside a unit."""
    if command.replaces or not state.start < command.first <= command.last <= state.version:
        return given
    stretch = yield from stretch_of(command.scope.stream, state, command.frame, command.first, command.last)
    if stretch is None or not whole(each for each in stretch if isinstance(each, Message)):
        return given
    tokens = count = whole_tokens = 0
    kept = kept_seqs(stretch)
    for each in stretch:
        if isinstance(each, Message) and each.seq in kept:
            continue
        tokens += each.tokens
        count += each.messages if isinstance(each, SummaryRef) else 1
        whole_tokens += each.replaced if isinstance(each, SummaryRef) else each.whole_tokens
    return msgspec.structs.replace(
        given, replaced_tokens=tokens, replaced_messages=count, replaced_whole=whole_tokens, kept=tuple(sorted(kept))
    )


def _entry(command: AcknowledgeOffload) -> Flow[OutboxRow | None]:
    where = session_where(command.scope) | {"entry": command.entry}
    for row in (yield from effects.rows(OutboxRow, where, None, 1)):
        return row
    return None


def _erased(stream: StreamId, seqs: tuple[int, ...]) -> Flow[set[int]]:
    """What goes with what: an erased call takes its results along and the reverse, an erased message the summaries and the
    late results that tell of it, an event of a frame its whole tree; an erased erasure is taken over, so that what is gone
    is always named by one that can be read."""
    gone = {*seqs}
    for seq in seqs:
        for recorded in (yield from effects.read(stream, seq - 1, 1)):
            if recorded.seq == seq:
                gone |= yield from _goes_with(recorded)
    for told in (yield from _tellers(stream)):
        if any(told.first <= seq <= told.last for seq in gone) or not gone.isdisjoint(told.among):
            gone.add(told.seq)
    return gone


def _goes_with(recorded: Recorded) -> Flow[set[int]]:
    event = upcast.current(recorded)
    if isinstance(event, PayloadsErased):
        return {*event.seqs}
    if recorded.type in OF_FRAMES and event is not None:
        return (yield from whole_tree(recorded, event))
    if isinstance(event, CallStarted):  # without it, a call of unknown outcome would look as if it had never been tried
        return (yield from _group(recorded.stream, group_of(event.call) or recorded.seq))
    if not isinstance(event, MessageRecorded | EvidenceKept):
        return set()
    each = message(recorded)
    first = group_seq(each)
    if first == each.seq and not each.tool_calls:
        return set()
    if first > each.seq or not (yield from _called(recorded.stream, first, each)):
        return set()
    return (yield from _group(recorded.stream, first))


def _group(stream: StreamId, seq: int) -> Flow[set[int]]:
    """The message that made some calls, and those with their results."""
    results = yield from _results_of(stream, seq, limits.WHOLE_NUMBER)
    return {seq, *(result.seq for result in results)}


def _called(stream: StreamId, seq: int, answer: Message) -> Flow[bool]:
    """Whether the event made a call that this answers: evidence may answer what never was."""
    for recorded in (yield from effects.read(stream, seq - 1, 1)):
        calls = {call.id for call in message(recorded).tool_calls}
        return answer.seq == seq or any(result.tool_call_id in calls for result in answer.tool_results)
    return False


class _Told(msgspec.Struct, frozen=True):
    """An event that tells of others."""

    seq: int
    first: int = 1
    last: int = 0
    among: frozenset[int] = frozenset()
    """Those that it names one by one."""


def _tellers(stream: StreamId) -> Flow[list[_Told]]:
    """All summaries, late results, proposals, packs and the like, the oldest first: one that is in no view any more tells
    its story all the same, and so does one that it was taken into."""
    found: list[_Told] = []
    before: int | None = None
    told = (SummaryRecorded.name, ContextCompacted.name, HandleMoved.name, EvidenceKept.name, FactsProposed.name)
    kinds = (*told, PackRecorded.name, *OF_SITUATIONS)
    while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, kinds)):
        for recorded in page:
            found += _told(recorded)
        before = page[-1].seq
    return found[::-1]


def _among(event: ContextCompacted | HandleMoved) -> Iterator[int]:
    """What a boundary tells of: by a text, by the digest of a piece, or by a copy of it in the blob store."""
    if isinstance(event, HandleMoved):
        yield event.piece.message
        return
    yield from (each.message for each in event.reduced)
    if event.fold is not None:
        yield from (*event.fold.messages, *event.fold.summaries)


def _told(recorded: Recorded) -> Iterator[_Told]:
    event = upcast.current(recorded)
    if isinstance(event, SummaryRecorded):
        yield _Told(recorded.seq, event.first, event.last)
    elif isinstance(event, ContextCompacted | HandleMoved):
        yield _Told(recorded.seq, among=frozenset(_among(event)))
    elif isinstance(event, PackRecorded):
        yield from (_Told(recorded.seq, first, last) for first, last in event.shown)
        yield _Told(recorded.seq, among=frozenset({event.asked}))
    elif isinstance(event, SituationUpdated | ActionRecorded):
        told = told_by(event)
        yield _Told(recorded.seq, 1, recorded.seq - 1) if told is None else _Told(recorded.seq, among=frozenset(told))
    elif isinstance(event, FactsProposed):
        yield _Told(recorded.seq, event.message, event.message)
    elif isinstance(event, EvidenceKept) and event.reason != NO_SUCH_CALL:
        for result in event.tool_results:
            seq = group_of(result.tool_call_id)
            if seq is not None:
                yield _Told(recorded.seq, seq, seq)
