"""Withdraw messages from a conversation, and restore them.

Laws: a withdrawal, and what it does to facts, is one append. The messages and facts are read at the version that the append
expects: if another process was first, they are read again.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.history.withdrawals import CLOSING_REASON, find_withdrawal, find_withdrawn_calls
from holdfast.errors import InvalidArgument, describe_value
from holdfast.flows import effects
from holdfast.flows.context import SessionContext, build_input, execute_on_state, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.facts import withdrawals as fact_flows
from holdfast.flows.history.visibility import measure_withdrawal
from holdfast.flows.sessions.transcript import message_of, read_messages_in, read_withdrawn_messages
from holdfast.model.facts.events import FactsRestored
from holdfast.model.facts.fact import withdrawal_label
from holdfast.model.history.commands import RestoreMessages, WithdrawMessages
from holdfast.model.history.events import MessagesRestored, MessagesWithdrawn
from holdfast.model.history.ranges import LedgerFacts
from holdfast.model.history.withdrawals import Restoration, Withdrawal
from holdfast.model.log import StoredEvent
from holdfast.model.names import check_size, check_whole
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.sessions.messages import Message
from holdfast.model.state import SessionState


def withdraw(
    context: SessionContext,
    after: Message | int | None = None,
    *,
    reason: str = "",
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Withdrawal | None]:
    """Take messages out of the conversation: all after a message, or the newest call group or single message; None if
    there is none."""
    seq = None if after is None else (yield from _resolve_message(context, after))
    command = WithdrawMessages(scope=context.scope, frame=context.frame, after=seq, reason=_check_reason(reason))
    content = codec.encode_commands([command])

    def build(state: SessionState) -> Flow[list[CommandRequest]]:
        return _build_withdrawal_requests(context, state, command)

    events = yield from execute_on_state(context, build, content, key, expect, cause)
    context.engine.cache.packs.drop(context.scope.stream, context.frame)
    return (yield from _read_withdrawal(context, events)) if events else None


def restore(
    context: SessionContext,
    withdrawal: Withdrawal | int,
    *,
    reason: str = "",
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Restoration]:
    """Undo a withdrawal."""
    seq = check_withdrawal(context, withdrawal)
    command = RestoreMessages(scope=context.scope, frame=context.frame, withdrawal=seq, reason=_check_reason(reason))
    content = codec.encode_commands([command])

    def build(state: SessionState) -> Flow[list[CommandRequest]]:
        return _build_restoration_requests(context, state, command)

    events = yield from execute_on_state(context, build, content, key, expect, cause)
    context.engine.cache.packs.drop(context.scope.stream, context.frame)
    return (yield from _read_restoration(context, events))


def _build_withdrawal_requests(
    context: SessionContext, state: SessionState, command: WithdrawMessages
) -> Flow[list[CommandRequest]]:
    inputs = build_input(context.engine, closing_reason=CLOSING_REASON)
    measured = yield from measure_withdrawal(command, state)
    if measured is None:
        return [CommandRequest(command, inputs)]
    inside = yield from read_messages_in(context.scope.stream, context.frame, measured.ranges)
    messages = [each for each in inside if each.seq in measured.seqs]
    facts = yield from fact_flows.find_stated_facts(context, state, messages)
    calls = find_withdrawn_calls(state, context.frame, measured.seqs)
    seq = state.version + 1 + bool(calls)  # the open calls are of one message, and closed by one
    label = withdrawal_label(context.scope.stream, seq)
    command = WithdrawMessages(
        scope=command.scope, frame=command.frame, after=command.after, facts=facts, reason=command.reason
    )
    return [CommandRequest(command, inputs), *fact_flows.build_withdrawals(context, facts, label)]


def _build_restoration_requests(
    context: SessionContext, state: SessionState, command: RestoreMessages
) -> Flow[list[CommandRequest]]:
    requests = [CommandRequest(command, build_input(context.engine))]
    find_withdrawal(state, context.scope, context.frame, command.withdrawal)
    for recorded in (yield from effects.read(context.scope.stream, command.withdrawal - 1, 1)):
        event = upcast.decode_event(recorded)
        if isinstance(event, MessagesWithdrawn):
            label = withdrawal_label(context.scope.stream, recorded.seq)
            requests += yield from fact_flows.build_restorations(context, event.facts, label)
    return requests


def _read_withdrawal(context: SessionContext, events: Sequence[StoredEvent]) -> Flow[Withdrawal]:
    """The withdrawal, from its events: also if its key was used before."""
    recorded = next(each for each in events if each.type == MessagesWithdrawn.name)
    event = upcast.decode_event(recorded)
    assert isinstance(event, MessagesWithdrawn), "a withdrawal is one event"
    state = yield from load_session(context)
    before = yield from read_withdrawn_messages(context.scope.stream, recorded.seq)
    messages = yield from read_messages_in(context.scope.stream, event.frame, event.ranges)
    shown = [each for each in messages if not before.find(each.seq, each.frame)]
    before.add(event, recorded.seq)
    return Withdrawal(
        scope=context.scope,
        frame=event.frame,
        seq=recorded.seq,
        messages=tuple(before.mark(each) for each in shown),
        grown=event.grown,
        facts=(yield from fact_flows.filter_known_facts(context, state, event.facts)),
        reason=event.reason,
    )


def _read_restoration(context: SessionContext, events: Sequence[StoredEvent]) -> Flow[Restoration]:
    recorded = next(each for each in events if each.type == MessagesRestored.name)
    event = upcast.decode_event(recorded)
    assert isinstance(event, MessagesRestored), "a restoration is one event"
    state = yield from load_session(context)
    stream = context.scope.stream
    withdrawn = yield from read_withdrawn_messages(stream, recorded.seq + 1)
    messages: list[Message] = []
    for stored in (yield from effects.read(stream, event.withdrawal - 1, 1)):
        original = upcast.decode_event(stored)
        if isinstance(original, MessagesWithdrawn):
            messages = yield from read_messages_in(stream, original.frame, original.ranges)
    restored = [
        LedgerFacts(each.stream.key, change.facts)
        for each in events
        if isinstance(change := upcast.decode_event(each), FactsRestored)
    ]
    return Restoration(
        scope=context.scope,
        frame=event.frame,
        seq=recorded.seq,
        withdrawal=event.withdrawal,
        messages=tuple(each for each in messages if not withdrawn.find(each.seq, each.frame)),
        facts=(yield from fact_flows.filter_known_facts(context, state, restored)),
        reason=event.reason,
    )


def _resolve_message(context: SessionContext, after: object) -> Flow[int]:
    """The seq of a message of this session, or the seq that was passed."""
    if type(after) is not Message:
        if type(after) is not int:
            reason = f"{describe_value(after)} is neither a message nor a seq"
            raise InvalidArgument(argument="after", reason=reason)
        return check_whole("after", after)
    seq = check_whole("after.seq", after.seq, 1)
    for recorded in (yield from effects.read(context.scope.stream, seq - 1, 1)):
        stored = message_of(recorded)
        if recorded.type == MessageRecorded.name and (recorded.seq, stored.id) == (seq, after.id):
            return seq
    raise InvalidArgument(argument="after", reason=f"{describe_value(after)} is not a message of this session")


def check_withdrawal(context: SessionContext, withdrawal: object) -> int:
    """The seq of a withdrawal of this conversation."""
    if type(withdrawal) is not Withdrawal:
        if type(withdrawal) is not int:
            reason = f"{describe_value(withdrawal)} is neither what withdraw() returned nor its seq"
            raise InvalidArgument(argument="withdrawal", reason=reason)
        return check_whole("withdrawal", withdrawal, 1)
    if (withdrawal.scope, withdrawal.frame) != (context.scope, context.frame):
        owner = "the session itself" if withdrawal.frame is None else f"the frame {withdrawal.frame}"
        raise InvalidArgument(argument="withdrawal", reason=f"it is of another conversation: restore it with {owner}")
    return check_whole("withdrawal.seq", withdrawal.seq, 1)


def _check_reason(reason: object) -> str:
    text = codec.check_text("the reason", reason)
    check_size("the reason", len(text.encode()), "bytes", "BRIEF_BYTES", "Shorten it.")
    return text
