"""Sessions: what a command makes happen, and what that makes of the state.

Laws: `decide` looks only at its arguments and changes nothing; `fold` accepts every event that `decide` ever made, also one
whose payload was erased (then only its header speaks); a closed session stays closed.
"""

from __future__ import annotations

import msgspec

from holdfast import errors
from holdfast.model import limits
from holdfast.model.commands import CloseSession, Command, CreateSession, ErasePayloads, Given, RecordMessage
from holdfast.model.events import Event, MessageRecorded, PayloadsErased, SessionClosed, SessionCreated
from holdfast.model.names import Scope
from holdfast.model.state import SessionState


def decide(state: SessionState, command: Command, given: Given) -> tuple[Event, ...]:
    """The events that this command makes now; none if it changes nothing. Refusals are raised."""
    if isinstance(command, CreateSession):
        if state.status != "absent":
            raise errors.SessionExists(session=command.scope.session, actor=command.scope.actor)
        return (SessionCreated(metadata=command.metadata),)
    if state.status == "absent":
        raise not_found(command.scope)
    match command:
        case RecordMessage():
            if state.status == "closed":
                raise errors.SessionClosed(session=command.scope.session, reason=state.close_reason)
            return (
                MessageRecorded(role=command.role, content=command.content, tokens=given.tokens, counter=given.counter),
            )
        case CloseSession():
            return () if state.status == "closed" else (SessionClosed(reason=command.reason),)
        case ErasePayloads():
            return _erase(state, command)


def _erase(state: SessionState, command: ErasePayloads) -> tuple[Event, ...]:
    seqs = tuple(sorted(set(command.seqs)))
    if len(seqs) > limits.ERASE_EVENTS:
        raise errors.TooLarge(
            what="the erasure",
            size=len(seqs),
            unit="events",
            limit_name="ERASE_EVENTS",
            limit=limits.ERASE_EVENTS,
            advice="Erase in several steps.",
        )
    outside = [seq for seq in seqs if not 1 <= seq <= state.version]
    if outside:
        raise errors.InvalidContent(reason=f"there is no event {outside[0]} to erase; the last is {state.version}")
    return (PayloadsErased(seqs=seqs, reason=command.reason),) if seqs else ()


def fold(state: SessionState, event: Event | None, event_type: str, time_us: int) -> SessionState:
    """The state after one more event; `event` is None when its payload was erased."""
    changes: dict[str, object] = {"version": state.version + 1, "updated_us": time_us}
    if event_type == MessageRecorded.name:
        changes["messages"] = state.messages + 1
        if isinstance(event, MessageRecorded):
            changes["tokens"] = state.tokens + event.tokens
    elif event_type == SessionCreated.name:
        changes |= {"status": "open", "created_us": time_us}
        if isinstance(event, SessionCreated):
            changes["metadata"] = event.metadata
    elif event_type == SessionClosed.name:
        changes["status"] = "closed"
        changes["close_reason"] = event.reason if isinstance(event, SessionClosed) else "erased"
    return msgspec.structs.replace(state, **changes)


def fault(state: SessionState, event: Event | None, event_type: str) -> str | None:
    """Why no command can have made this event in this state, or None. For events that come from elsewhere."""
    if (event_type == SessionCreated.name) != (state.status == "absent"):
        return "a session begins with its creation, once"
    match event:
        case MessageRecorded():
            if state.status == "closed":
                return "a closed session takes no messages"
            if not event.content or not 0 <= event.tokens <= limits.WHOLE_NUMBER:
                return "a message has content and a number of tokens"
        case SessionClosed():
            if state.status == "closed" or not event.reason:
                return "a session is closed once, for a reason"
        case PayloadsErased():
            if not event.seqs or list(event.seqs) != sorted(set(event.seqs)):
                return "an erasure names events in order"
            if event.seqs[0] < 1 or event.seqs[-1] > state.version:
                return "an erasure names events before it"
    return None


def not_found(scope: Scope) -> errors.SessionNotFound:
    return errors.SessionNotFound(tenant=scope.tenant, actor=scope.actor, session=scope.session, thread=scope.thread)
