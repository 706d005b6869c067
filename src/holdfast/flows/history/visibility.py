"""Read which messages a withdrawal takes out of a conversation, or a restoration brings back, and how it ends then.

Laws: a call is withdrawn with its results, never without. The newest call group or message is the one that begins last:
the last item of the view.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from holdfast.core import upcast
from holdfast.core.frames.fold import add_failures, is_question_open
from holdfast.core.history.views import group_seq
from holdfast.core.history.withdrawals import SITUATION_AUTHOR, find_withdrawal
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.sessions.transcript import build_message, message_of, read_messages_in, read_results
from holdfast.model import limits
from holdfast.model.frames.frames import frame_seq
from holdfast.model.history.commands import RestoreMessages, WithdrawMessages
from holdfast.model.history.ranges import SeqRanges, VisibilityChange
from holdfast.model.inputs import WithdrawalInput
from holdfast.model.names import StreamId, check_size
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.sessions.messages import Message
from holdfast.model.situation.events import SituationUpdated
from holdfast.model.situation.situations import FIELDS, FieldName
from holdfast.model.state import SessionState


class _BackwardReader:
    """Reads the recorded messages of a conversation from the newest back, without withdrawn and erased ones."""

    def __init__(self, stream: StreamId, state: SessionState, frame: str | None, hidden: SeqRanges) -> None:
        self._stream = stream
        self._frame = frame
        self._hidden = hidden
        self._start = state.start_of(frame)
        self._before = state.version + 1
        self._page: list[tuple[Message, MessageRecorded]] = []

    def next(self) -> Flow[tuple[Message, MessageRecorded] | None]:
        """The next older message; None at the start of the conversation."""
        while not self._page and self._before > self._start + 1:
            page = yield from effects.read_back(self._stream, self._before, _PAGE_EVENTS, (MessageRecorded.name,))
            self._before = page[-1].seq if len(page) == _PAGE_EVENTS else 0
            for recorded in page:
                event = upcast.decode_event(recorded)
                if recorded.seq <= self._start or not isinstance(event, MessageRecorded):
                    continue
                if event.frame == self._frame and recorded.seq not in self._hidden:
                    self._page.append((build_message(recorded, event), event))
            self._page.reverse()
        return self._page.pop() if self._page else None


_PAGE_EVENTS = 100
"""Messages that are read at once: most withdrawals are of the newest few."""


def measure_withdrawal(command: WithdrawMessages, state: SessionState) -> Flow[WithdrawalInput | None]:
    """What the command takes out of its conversation; None if there is no such message."""
    stream, frame = command.scope.stream, command.frame
    hidden = state.hidden_ranges(frame)
    if command.after is None:
        messages = yield from _read_newest_group(_BackwardReader(stream, state, frame, hidden))
        inside, added = messages, list[Message]()
    else:
        inside = yield from _read_after(_BackwardReader(stream, state, frame, hidden), command.after)
        added = yield from _read_cut_groups(stream, state, inside, command.after)
        messages = [*added, *inside]
    if not messages:
        return None
    seqs = tuple(sorted(message.seq for message in messages))
    ranges = [(seq, seq) for seq in seqs]
    if command.after is not None:  # as few ranges as possible: what is between them is withdrawn, or no message
        ranges = [
            *((each.seq, each.seq) for each in added),
            *hidden.gaps_in(min(each.seq for each in inside), seqs[-1]),
        ]
    ranges = list(SeqRanges(ranges).ranges)
    fields, cleared = yield from _find_situation(stream, state, frame, ranges[0][0])
    end = yield from _find_end(_BackwardReader(stream, state, frame, hidden), state, frame, {*seqs})
    return WithdrawalInput(
        seqs=seqs,
        ranges=tuple(ranges),
        change=_count_messages(messages, end),
        grown=bool(added),
        fields=fields,
        cleared=cleared,
    )


def measure_restoration(command: RestoreMessages, state: SessionState) -> Flow[WithdrawalInput]:
    """What the command brings back into its conversation."""
    stream, frame = command.scope.stream, command.frame
    ref = find_withdrawal(state, command.scope, frame, command.withdrawal)
    others = SeqRanges(
        each for one in state.withdrawals if one.frame == frame and one.seq != ref.seq for each in one.ranges
    )
    messages = yield from read_messages_in(stream, frame, ref.ranges)
    fields, cleared = yield from _find_situation_before(stream, state, frame, ref.seq)
    end = yield from _find_end(_BackwardReader(stream, state, frame, others), state, frame, ())
    return WithdrawalInput(
        seqs=tuple(each.seq for each in messages),
        ranges=ref.ranges,
        change=_count_messages(messages, end),
        fields=fields,
        cleared=cleared,
    )


def _read_newest_group(reader: _BackwardReader) -> Flow[list[Message]]:
    """The call group, or the single message, that begins last."""
    results: list[Message] = []
    while (entry := (yield from reader.next())) is not None:
        message, _ = entry
        if group_seq(message) == message.seq:
            return [message, *(each for each in reversed(results) if group_seq(each) == message.seq)]
        results.append(message)
    return []


def _read_after(reader: _BackwardReader, after: int) -> Flow[list[Message]]:
    inside: list[Message] = []
    while (entry := (yield from reader.next())) is not None and entry[0].seq > after:
        inside.append(entry[0])
        check_size("the withdrawal", len(inside), "messages", "LIVE_MESSAGES", "Reset the session instead.")
    return inside[::-1]


def _read_cut_groups(
    stream: StreamId, state: SessionState, inside: Iterable[Message], after: int
) -> Flow[list[Message]]:
    """The messages up to `after` that belong to groups with results behind it."""
    added: list[Message] = []
    for head in dict.fromkeys(group_seq(message) for message in inside):
        if head > after:
            continue
        for recorded in (yield from effects.read(stream, head - 1, 1)):
            added.append(message_of(recorded))
        added += (each for each in (yield from read_results(stream, head, state.version)) if each.seq <= after)
    return added


def _count_messages(messages: Iterable[Message], end: VisibilityChange) -> VisibilityChange:
    spoken = [each for each in messages if each.role != "system" and not each.skipped]
    return msgspec.structs.replace(
        end,
        messages=len(spoken),
        tokens=sum(each.tokens for each in messages),
        turns=sum(each.role == "user" for each in messages),
        replies=sum(each.role == "assistant" for each in spoken),
        system=tuple(sorted(each.seq for each in messages if each.role == "system")),
    )


def _find_end(
    reader: _BackwardReader, state: SessionState, frame: str | None, withdrawn: Collection[int]
) -> Flow[VisibilityChange]:
    """How a conversation ends without these messages: whether with a question, and what failed since the last reply."""
    asks: bool | None = None
    since: list[MessageRecorded] = []
    replied = False
    while not replied or asks is None:
        entry = yield from reader.next()
        if entry is None:
            break
        message, event = entry
        if message.seq in withdrawn or event.skipped:
            continue
        if asks is None and is_question_open(True, event) == is_question_open(False, event):
            asks = is_question_open(False, event)
        if not replied and event.role == "assistant":
            replied = True
        elif not replied:
            since.append(event)
    known = state.frames[frame].errors if frame in state.frames else ()
    errors = tuple(each for each in known if frame_seq(each))  # of ended children
    for event in reversed(since):
        errors = add_failures(errors, event)
    return VisibilityChange(asks=bool(asks), errors=errors)


# The situation


def _find_situation(
    stream: StreamId, state: SessionState, frame: str | None, first: int
) -> Flow[tuple[dict[FieldName, str], tuple[FieldName, ...]]]:
    """The fields that were written since event `first`, as they were before it: their texts, and those without one."""
    fields = state.standing(frame).fields
    names = [name for name in FIELDS if name in fields and fields[name].seq >= first]
    texts = yield from _read_situation(stream, state, frame, first, names)
    return texts, tuple(name for name in names if name not in texts)


def _find_situation_before(
    stream: StreamId, state: SessionState, frame: str | None, seq: int
) -> Flow[tuple[dict[FieldName, str], tuple[FieldName, ...]]]:
    """The fields that the withdrawal at event `seq` changed, and nothing since, as they were before it."""
    fields = state.standing(frame).fields
    names: list[FieldName] = []
    for recorded in (yield from effects.read(stream, seq, 1)):
        event = upcast.decode_event(recorded)
        if isinstance(event, SituationUpdated) and event.by == SITUATION_AUTHOR and event.frame == frame:
            names += (name for name in event.fields if name in fields and fields[name].seq == seq + 1)
            names += (name for name in event.cleared if name not in fields)
    texts = yield from _read_situation(stream, state, frame, seq, names)
    ordered = (name for name in FIELDS if name in names)
    return texts, tuple(name for name in ordered if name not in texts and name in fields)


def _read_situation(
    stream: StreamId, state: SessionState, frame: str | None, before: int, names: Iterable[FieldName]
) -> Flow[dict[FieldName, str]]:
    """The texts that these fields had before an event."""
    texts: dict[FieldName, str] = {}
    left, start = {*names}, state.start_of(frame)
    while left and before > start + 1:
        page = yield from effects.read_back(stream, before, limits.READ_EVENTS, (SituationUpdated.name,))
        for recorded in page:
            event = upcast.decode_event(recorded)
            if recorded.seq <= start or not isinstance(event, SituationUpdated):
                return texts  # what was erased, and what it had replaced, does not come back
            if event.frame == frame:
                texts |= {name: event.fields[name] for name in FIELDS if name in left and name in event.fields}
                left -= {*event.fields, *event.cleared}
        before = page[-1].seq if len(page) == limits.READ_EVENTS else 0
    return {name: texts[name] for name in FIELDS if name in texts}
