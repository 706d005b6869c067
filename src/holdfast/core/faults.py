"""Faults of events: why no command can have made an event. Imported events are checked for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from holdfast.conversion import is_spelling
from holdfast.core.entries.decide import entry_faults
from holdfast.core.facts.proposals import proposal_faults
from holdfast.core.frames.faults import frame_faults
from holdfast.core.history.boundaries import boundary_faults, cuts_through, kept_faults
from holdfast.core.history.withdrawals import withdrawal_faults
from holdfast.core.packs.records import pack_faults
from holdfast.core.sessions.forks import fork_faults
from holdfast.core.sessions.layers import find_layer_faults
from holdfast.core.sessions.messages import open_calls_in
from holdfast.core.sessions.turns import find_turn_faults
from holdfast.core.situation.faults import situation_faults
from holdfast.model import limits
from holdfast.model.content import call_id, calling_seq
from holdfast.model.events import LEDGER_EVENTS, OFFLOAD_EVENTS, Event
from holdfast.model.history.events import SummaryRecorded
from holdfast.model.sessions.events import (
    EvidenceKept,
    IdentityRefreshed,
    MessageRecorded,
    ModelUsed,
    OffloadAcknowledged,
    PayloadsErased,
    SessionBranched,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionForked,
    SessionReset,
    SessionTimedOut,
)
from holdfast.model.state import SessionState

_EVENTS_AFTER_CLOSE = {
    EvidenceKept.name,
    IdentityRefreshed.name,
    ModelUsed.name,
    SummaryRecorded.name,
    SessionBranched.name,
    SessionDestroyed.name,
    SessionForked.name,
    OffloadAcknowledged.name,
    PayloadsErased.name,
}
_EVENTS_AFTER_DESTRUCTION = {OffloadAcknowledged.name, PayloadsErased.name}


def find_fault(
    state: SessionState, event: Event | None, event_type: str, erased: Collection[int] = frozenset()
) -> str | None:
    """The first fault of an event in this state; None for a sound or an erased one. `erased` are the seqs of erased events
    before it, whose content is unknown."""
    return next(_find_faults(state, event, event_type, erased), None)


def _open_own_calls(state: SessionState) -> list[str]:
    """The open calls of a session. A fork closes those that it shares at once; if one is open, its closing was erased with
    the rest of a destroyed fork."""
    cut = 0 if state.origin is None else state.origin.cut
    return [call.id for call in state.open_calls if (calling_seq(call.id) or 0) > cut]


def _find_faults(state: SessionState, event: Event | None, event_type: str, erased: Collection[int]) -> Iterator[str]:
    if event_type in LEDGER_EVENTS and event_type != PayloadsErased.name:
        yield "it is not an event of a session"
    if (event_type == SessionCreated.name) != (state.status == "absent"):
        yield "a session begins with its creation, once"
    if state.status == "closed" and event_type not in _EVENTS_AFTER_CLOSE:
        yield "a closed session takes no more events of this type"
    if state.status == "destroyed" and event_type not in _EVENTS_AFTER_DESTRUCTION:
        yield "a destroyed session takes no more events of this type"
    if event_type in OFFLOAD_EVENTS and event is not None and _open_own_calls(state):
        yield "a conversation ends without open calls"
    yield from frame_faults(state, event, erased)
    yield from find_layer_faults(state, event, erased)
    yield from find_turn_faults(state, event, erased)
    yield from proposal_faults(state, event, erased)
    yield from boundary_faults(state, event, erased)
    yield from withdrawal_faults(state, event, erased)
    yield from situation_faults(state, event, erased)
    yield from pack_faults(state, event)
    yield from entry_faults(state, event)
    yield from fork_faults(state, event)
    match event:
        case MessageRecorded():
            yield from _message_faults(state, event, erased)
        case SummaryRecorded():
            yield from _summary_faults(state, event)
        case PayloadsErased():
            yield from _erasure_faults(state, event)
        case _:
            yield from _lifecycle_faults(state, event)


def _lifecycle_faults(state: SessionState, event: Event | None) -> Iterator[str]:
    match event:
        case EvidenceKept(reason=reason, tokens=tokens):
            if not reason or not 0 <= tokens <= limits.WHOLE_NUMBER:
                yield "evidence has a reason and a number of tokens"
        case SessionReset(reason="") | SessionClosed(reason="") | SessionDestroyed(reason=""):
            yield "the end of a conversation has a reason"
        case SessionTimedOut(idle_us=idle_us):
            if not 0 < idle_us <= limits.WHOLE_NUMBER or idle_us < state.idle_timeout_us:
                yield "a session times out only after its idle timeout"
        case SessionCreated(idle_timeout_us=timeout_us):
            if not 0 <= timeout_us <= limits.WHOLE_NUMBER:
                yield "the idle timeout of a session is in range"
        case ModelUsed(purpose=purpose, usage=usage):
            figures = msgspec.structs.astuple(usage)
            if not purpose or not all(0 <= figure <= limits.WHOLE_NUMBER for figure in figures):
                yield "the use of a model has a purpose and numbers of tokens"
        case OffloadAcknowledged(entry=entry, first=first, last=last):
            if not 1 <= first <= last < entry <= state.version:
                yield "an acknowledgement names an entry before it"


def _message_faults(state: SessionState, event: MessageRecorded, erased: Collection[int]) -> Iterator[str]:
    yield from _reply_faults(event)
    if not (event.content or event.tool_calls or event.tool_results or event.skipped):
        yield "a message has content, tool calls or tool results"
    figures = [event.tokens, *(msgspec.structs.astuple(event.usage) if event.usage else ())]
    if not all(0 <= figure <= limits.WHOLE_NUMBER for figure in figures):
        yield "a message has numbers of tokens"
    if event.role != "assistant" and event.tool_calls:
        yield "only the assistant makes tool calls"
    if event.tool_results and (event.role != "tool" or event.content):
        yield "a tool message has tool results and nothing else"
    if event.role == "assistant" and open_calls_in(state, event.frame):
        yield "there is no reply while calls are open"
    if len(event.tool_calls) > limits.MESSAGE_CALLS or len(state.pinned) > limits.PINNED_MESSAGES:
        yield "there are more tool calls or system messages than a session takes"
    if any(call.id != call_id(state.version + 1, at) for at, call in enumerate(event.tool_calls)):
        yield "the id of a call is made of its position"
    provider_ids = [call.provider_id for call in event.tool_calls if call.provider_id is not None]
    answered = [result.tool_call_id for result in event.tool_results]
    if len({*provider_ids}) != len(provider_ids) or len({*answered}) != len(answered):
        yield "a call has an id of its own, and one result"
    if len({calling_seq(call) for call in answered}) > 1:
        yield "results of one message answer the calls of one"
    waiting = {call.id for call in state.open_calls}
    if not all(call in waiting or calling_seq(call) in erased for call in answered):
        yield "a result answers an open call"


def _reply_faults(event: MessageRecorded) -> Iterator[str]:
    if event.skipped and (event.role != "assistant" or event.tool_calls or event.tool_results):
        yield "only a reply is skipped, and it has no open calls"
    if event.dropped_calls and not event.skipped:
        yield "only a skipped reply has dropped calls"
    calls = (*event.tool_calls, *event.dropped_calls)
    if not all(call.raw is None or is_spelling(call.raw, call.args) for call in calls):
        yield "the raw text of arguments matches them"


def _summary_faults(state: SessionState, event: SummaryRecorded) -> Iterator[str]:
    if not state.start < event.first <= event.last <= state.version or not event.text.strip():
        yield "a summary covers events before it"
    if any(cuts_through(each, event.first, event.last) for each in state.summaries_of(event.frame)):
        yield "a summary does not cut through another"
    yield from kept_faults(event.kept, event.first, event.last)
    if not 0 <= event.tokens <= limits.WHOLE_NUMBER or not 0 <= event.messages <= event.last:
        yield "a summary has numbers of tokens and messages"
    same = ((each.seq, each.first, each.last) for each in state.summaries_of(event.frame))
    if event.replaces and (event.replaces, event.first, event.last) not in same:
        yield "a summary replaces one in view, of the same messages"
    if not all(
        0 <= figure <= limits.WHOLE_NUMBER for figure in (event.first_changed or 0, event.original, event.final)
    ):
        yield "a summary that replaces another has numbers of tokens"


def _erasure_faults(state: SessionState, event: PayloadsErased) -> Iterator[str]:
    if not event.seqs or list(event.seqs) != sorted(set(event.seqs)):
        yield "an erasure names events in order"
    elif event.seqs[0] < 1 or event.seqs[-1] > state.version:
        yield "an erasure names events before it"
    elif {calling_seq(call) for call in _open_own_calls(state)} & {*event.seqs}:
        yield "a message with open calls is not erased"
    elif state.origin is not None and state.origin.cut + 1 in event.seqs:
        yield "the event that begins a fork is not erased"
