"""Why no command can have made an event: for events that come from elsewhere, which are not taken on trust."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from holdfast.core.arguments import is_spelling
from holdfast.core.boundaries import boundary_faults
from holdfast.core.frame_faults import frame_faults
from holdfast.core.layers import layer_faults
from holdfast.core.messages import call_id, group_of, waiting_in
from holdfast.core.packs import pack_faults
from holdfast.core.proposals import proposal_faults
from holdfast.core.situation import situation_faults
from holdfast.core.summaries import kept_faults, partly
from holdfast.model import limits
from holdfast.model.events import (
    OF_LEDGERS,
    OFFLOADING,
    Event,
    EvidenceKept,
    MessageRecorded,
    OffloadAcknowledged,
    PayloadsErased,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionReset,
    SessionTimedOut,
    SummaryRecorded,
)
from holdfast.model.layers import IdentityRefreshed
from holdfast.model.state import SessionState

_AFTER_CLOSING = {
    EvidenceKept.name,
    IdentityRefreshed.name,
    SummaryRecorded.name,
    SessionDestroyed.name,
    OffloadAcknowledged.name,
    PayloadsErased.name,
}
_AFTER_DESTROYING = {OffloadAcknowledged.name, PayloadsErased.name}


def fault(
    state: SessionState, event: Event | None, event_type: str, erased: Collection[int] = frozenset()
) -> str | None:
    """The first thing that is wrong with an event in this state; None for a sound one, or one that was erased. `erased` are
    the seqs of those that were before it: what they called for, nobody knows any more."""
    return next(_faults(state, event, event_type, erased), None)


def _faults(state: SessionState, event: Event | None, event_type: str, erased: Collection[int]) -> Iterator[str]:
    if event_type in OF_LEDGERS and event_type != PayloadsErased.name:
        yield "it is no event of a session"
    if (event_type == SessionCreated.name) != (state.status == "absent"):
        yield "a session begins with its creation, once"
    if state.status == "closed" and event_type not in _AFTER_CLOSING:
        yield "a closed session takes no more"
    if state.status == "destroyed" and event_type not in _AFTER_DESTROYING:
        yield "a destroyed session takes no more"
    if event_type in OFFLOADING and state.open_calls and event is not None:
        yield "a conversation ends when no call waits any more"
    yield from frame_faults(state, event, erased)
    yield from layer_faults(state, event, erased)
    yield from proposal_faults(state, event, erased)
    yield from boundary_faults(state, event, erased)
    yield from situation_faults(state, event, erased)
    yield from pack_faults(state, event)
    match event:
        case MessageRecorded():
            yield from _message(state, event, erased)
        case SummaryRecorded():
            yield from _summary(state, event)
        case PayloadsErased():
            yield from _erasure(state, event)
        case _:
            yield from _other(state, event)


def _other(state: SessionState, event: Event | None) -> Iterator[str]:
    match event:
        case EvidenceKept(reason=reason, tokens=tokens):
            if not reason or not 0 <= tokens <= limits.WHOLE_NUMBER:
                yield "evidence is kept for a reason, with a number of tokens"
        case SessionReset(reason="") | SessionClosed(reason="") | SessionDestroyed(reason=""):
            yield "a conversation ends for a reason"
        case SessionTimedOut(idle_us=idle_us):
            if not 0 < idle_us <= limits.WHOLE_NUMBER or idle_us < state.idle_timeout_us:
                yield "a session times out when it was idle for long enough"
        case SessionCreated(idle_timeout_us=timeout_us):
            if not 0 <= timeout_us <= limits.WHOLE_NUMBER:
                yield "a session has a timeout that a clock can tell, or none"
        case OffloadAcknowledged(entry=entry, first=first, last=last):
            if not 1 <= first <= last < entry <= state.version:
                yield "an acknowledgement names an entry before it"


def _message(state: SessionState, event: MessageRecorded, erased: Collection[int]) -> Iterator[str]:
    yield from _reply(event)
    if not (event.content or event.tool_calls or event.tool_results or event.skipped):
        yield "a message has content, tool calls or tool results"
    figures = [event.tokens, *(msgspec.structs.astuple(event.usage) if event.usage else ())]
    if not all(0 <= figure <= limits.WHOLE_NUMBER for figure in figures):
        yield "a message has numbers of tokens"
    if event.role != "assistant" and event.tool_calls:
        yield "only the assistant makes tool calls"
    if event.tool_results and (event.role != "tool" or event.content):
        yield "tool results, and nothing else, make a tool message"
    if event.role == "assistant" and waiting_in(state, event.frame):
        yield "the assistant does not go on while calls wait"
    if len(event.tool_calls) > limits.MESSAGE_CALLS or len(state.pinned) > limits.PINNED_MESSAGES:
        yield "there are more of them than any session takes"
    if any(call.id != call_id(state.version + 1, at) for at, call in enumerate(event.tool_calls)):
        yield "a call has the id that its place gives it"
    own = [call.provider_id for call in event.tool_calls if call.provider_id is not None]
    answered = [result.tool_call_id for result in event.tool_results]
    if len({*own}) != len(own) or len({*answered}) != len(answered):
        yield "a call has an id of its own, and one result"
    if len({group_of(call) for call in answered}) > 1:
        yield "results of one message answer the calls of one"
    waiting = {call.id for call in state.open_calls}
    if not all(call in waiting or group_of(call) in erased for call in answered):
        yield "a result answers a call that waits"


def _reply(event: MessageRecorded) -> Iterator[str]:
    if event.skipped and (event.role != "assistant" or event.tool_calls or event.tool_results):
        yield "only a reply is skipped, and none of its calls waits"
    if event.dropped_calls and not event.skipped:
        yield "only a skipped reply has calls that were dropped"
    calls = (*event.tool_calls, *event.dropped_calls)
    if not all(call.raw is None or is_spelling(call.raw, call.args) for call in calls):
        yield "the text of a call's arguments spells them"


def _summary(state: SessionState, event: SummaryRecorded) -> Iterator[str]:
    if not state.start < event.first <= event.last <= state.version or not event.text.strip():
        yield "a summary stands for events before it"
    if any(partly(each, event.first, event.last) for each in state.summaries_of(event.frame)):
        yield "a summary does not cut through another"
    yield from kept_faults(event.kept, event.first, event.last)
    if not 0 <= event.tokens <= limits.WHOLE_NUMBER or not 0 <= event.messages <= event.last:
        yield "a summary has numbers of tokens and messages"


def _erasure(state: SessionState, event: PayloadsErased) -> Iterator[str]:
    if not event.seqs or list(event.seqs) != sorted(set(event.seqs)):
        yield "an erasure names events in order"
    elif event.seqs[0] < 1 or event.seqs[-1] > state.version:
        yield "an erasure names events before it"
    elif {group_of(call.id) for call in state.open_calls} & {*event.seqs}:
        yield "what waits for results is not erased"
