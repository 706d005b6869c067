"""Withdrawals: messages that are taken out of a conversation, and restorations, which undo that.

Laws:
- The transcript keeps withdrawn messages, and no view shows them. A call is withdrawn with its results, never without.
- Open calls of withdrawn messages are closed first: a late result becomes evidence.
- A summary that tells of a withdrawn message is void, as if the message had been erased: the other messages that it
  replaced are in view again. To withdraw all that it covers would take out more than anyone asked for.
- A message is withdrawn by one withdrawal at a time: each has messages of its own.
- A restoration puts back all that its withdrawal took out of the state, unless something else has replaced it since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from holdfast import errors
from holdfast.core.frames import decide as frames_decide
from holdfast.core.history.boundaries import find_covering_summary
from holdfast.core.sessions.messages import close_calls, open_calls_in
from holdfast.core.situation.fold import fold_situation, total_size
from holdfast.model import limits
from holdfast.model.content import calling_seq
from holdfast.model.events import Event
from holdfast.model.facts.fact import fact_seq
from holdfast.model.frames.frames import frame_seq
from holdfast.model.history.commands import RestoreMessages, WithdrawMessages
from holdfast.model.history.events import MessagesRestored, MessagesWithdrawn
from holdfast.model.history.ranges import LedgerFacts, SeqRanges, VisibilityChange
from holdfast.model.inputs import DecisionInput, WithdrawalInput
from holdfast.model.names import Scope, check_size
from holdfast.model.situation.events import SituationUpdated
from holdfast.model.situation.situations import SituationState
from holdfast.model.state import OpenCall, SessionState, SummaryRef, WithdrawalRef

WITHDRAWAL_EVENTS = (MessagesWithdrawn.name, MessagesRestored.name)
CLOSING_REASON = "the call was withdrawn"
"""Why an open call of a withdrawn message is closed."""
SITUATION_AUTHOR = "withdrawal"
"""The author of the situation after a withdrawal or a restoration: the text is that of an earlier time."""


# Decisions


def decide(
    state: SessionState, command: WithdrawMessages | RestoreMessages, inputs: DecisionInput
) -> tuple[Event, ...]:
    if isinstance(command, WithdrawMessages):
        return decide_withdrawal(state, command, inputs)
    return decide_restoration(state, command, inputs)


def decide_withdrawal(state: SessionState, command: WithdrawMessages, inputs: DecisionInput) -> tuple[Event, ...]:
    """The events of a withdrawal; none if there is no such message."""
    if command.frame is not None:
        frames_decide.check_live_frame(state, command.scope, command.frame, inputs)
    measured = inputs.withdrawal
    if measured is None:
        return ()
    count = len(state.withdrawals) + 1
    check_size("the session", count, "withdrawals", "WITHDRAWALS", "Reset the session, or start a new one.")
    closings = close_calls(state, find_withdrawn_calls(state, command.frame, measured.seqs), CLOSING_REASON, inputs)
    added = range(state.version + 1, state.version + len(closings) + 1)
    change = msgspec.structs.replace(
        measured.change,
        messages=measured.change.messages + len(closings),
        tokens=measured.change.tokens + sum(each.tokens for each in closings),
    )
    event = MessagesWithdrawn(
        frame=command.frame,
        ranges=SeqRanges((*measured.ranges, *((seq, seq) for seq in added))).ranges,
        change=change,
        grown=measured.grown,
        facts=command.facts,
        reason=command.reason,
    )
    return (*closings, event, *_build_update(state, command.frame, measured))


def find_withdrawn_calls(state: SessionState, frame: str | None, seqs: Collection[int]) -> list[OpenCall]:
    """The open calls of these messages."""
    return [call for call in open_calls_in(state, frame) if calling_seq(call.id) in seqs]


def decide_restoration(state: SessionState, command: RestoreMessages, inputs: DecisionInput) -> tuple[Event, ...]:
    """The events of a restoration."""
    ref = find_withdrawal(state, command.scope, command.frame, command.withdrawal)
    summaries = state.summaries_of(command.frame)
    ranges = SeqRanges(ref.ranges)
    since = next((each for each in summaries if ranges.overlaps(each.first, each.last)), None)
    if since is not None:
        reason = f"the summary at event {since.seq} was made without them, and covers their place"
        raise errors.RestoreRefused(withdrawal=ref.seq, reason=reason)
    assert inputs.withdrawal is not None, "the messages of a withdrawal are read before its restoration"
    event = MessagesRestored(
        frame=command.frame,
        withdrawal=ref.seq,
        change=inputs.withdrawal.change,
        reason=command.reason,
    )
    return (event, *_build_update(state, command.frame, inputs.withdrawal))


def find_withdrawal(state: SessionState, scope: Scope, frame: str | None, seq: int) -> WithdrawalRef:
    """The withdrawal of this conversation at this event, if it is in effect."""
    for each in state.withdrawals:
        if (each.seq, each.frame) == (seq, frame):
            return each
    reason = (
        f"it is not in effect in this conversation of {scope.session!r}: it was undone, the session was reset, or that "
        f"event is no withdrawal"
    )
    raise errors.RestoreRefused(withdrawal=seq, reason=reason)


def _build_update(state: SessionState, frame: str | None, measured: WithdrawalInput) -> tuple[SituationUpdated, ...]:
    if not measured.fields and not measured.cleared:
        return ()
    update = SituationUpdated(
        frame=frame,
        fields=measured.fields,
        cleared=measured.cleared,
        iteration=state.standing(frame).iteration,
        by=SITUATION_AUTHOR,
    )
    after = msgspec.structs.replace(state, **fold_situation(state, update, update.name, 0))
    return (update,) if total_size(after) <= limits.SITUATIONS_BYTES else ()


# State


def fold_event(state: SessionState, event: Event | None, _event_type: str, time_us: int) -> dict[str, Any]:
    """The changes by a withdrawal or a restoration."""
    seq = state.version + 1
    changes: dict[str, Any] = {"withdrawn": seq}
    if isinstance(event, MessagesWithdrawn):
        changes |= fold_withdrawal(state, event, seq, time_us)
    elif isinstance(event, MessagesRestored):
        changes |= fold_restoration(state, event, seq, time_us)
    return changes


def fold_withdrawal(state: SessionState, event: MessagesWithdrawn, seq: int, time_us: int) -> dict[str, Any]:
    """The changes by a withdrawal; those of its frame are folded with the frames."""
    frame = event.frame
    if not event.ranges or (frame is not None and frame not in state.frames):
        return {}  # its frame was erased
    hidden, view = SeqRanges(event.ranges), state.view(frame)
    void = tuple(each for each in state.summaries_of(frame) if hidden.overlaps(each.first, each.last))
    void_seqs = {each.seq for each in void}
    reduced = tuple(each for each in view.reduced if each.message in hidden)
    redacted = tuple(each for each in view.redacted if each.at in hidden or each.at in void_seqs)
    proposals = tuple(each for each in state.proposals if frame is None and each.message in hidden)
    first = event.ranges[0][0]
    actions = tuple(each for each in state.standing(frame).actions if each >= first)
    pinned = tuple(each for each in state.pinned if each in event.change.system)
    ref = WithdrawalRef(seq, frame, event.ranges, void, reduced, redacted, proposals, pinned, actions)
    after = msgspec.structs.replace(
        view,
        boundary=seq,
        settled_us=time_us,
        reduced=tuple(each for each in view.reduced if each.message not in hidden),
        redacted=tuple(each for each in view.redacted if each not in redacted),
    )
    return {
        "withdrawals": (*state.withdrawals, ref),
        "views": {**state.views, frame or "": after},
        "summaries": tuple(each for each in state.summaries if each.seq not in void_seqs),
        "proposals": tuple(each for each in state.proposals if each not in proposals),
        "pinned": tuple(each for each in state.pinned if each not in pinned),
        "turns": max(0, state.turns - event.change.turns),
        **_change_standing(state, frame, -event.change.replies, state.standing(frame).actions[: -len(actions) or None]),
        **(_change_session(state, event.change, -1) if frame is None else {}),
    }


def fold_restoration(state: SessionState, event: MessagesRestored, seq: int, time_us: int) -> dict[str, Any]:
    """The changes by a restoration: none, if the withdrawal was erased."""
    ref = next((each for each in state.withdrawals if each.seq == event.withdrawal), None)
    if ref is None or ref.frame != event.frame:
        return {}
    frame, view = ref.frame, state.view(ref.frame)
    others = _Others(each for each in state.withdrawals if each.seq != ref.seq)
    others.forget_summaries(ref)
    summaries = (*state.summaries, *(others.take_summaries(ref, state.summaries_of(frame))))
    shown = tuple(each for each in summaries if each.frame == frame)
    reduced = {(each.message, each.piece): each for each in (*ref.reduced, *view.reduced)}
    redacted = {each.at: each for each in (*ref.redacted, *view.redacted)}
    seqs = {each.seq for each in shown}
    after = msgspec.structs.replace(
        view,
        boundary=seq,
        settled_us=time_us,
        reduced=tuple(reduced[at] for at in sorted(reduced) if find_covering_summary(shown, at[0]) is None),
        redacted=tuple(
            redacted[at] for at in sorted(redacted) if at in seqs or find_covering_summary(shown, at) is None
        ),
    )
    proposals = sorted((*state.proposals, *ref.proposals), key=lambda each: each.message)
    actions = (*state.standing(frame).actions, *ref.actions)
    return {
        "withdrawals": others.build(),
        "views": {**state.views, frame or "": after},
        "summaries": tuple(sorted(summaries, key=lambda each: (each.first, each.seq))),
        "proposals": tuple(proposals)[-limits.OPEN_PROPOSALS :],
        "pinned": tuple(sorted({*state.pinned, *ref.pinned})),
        "turns": state.turns + event.change.turns,
        **_change_standing(state, frame, event.change.replies, tuple(sorted({*actions}))[-limits.ACTIONS_KEPT :]),
        **(_change_session(state, event.change, 1) if frame is None else {}),
    }


class _Others:
    """The other withdrawals in effect. One that also took a message of a void summary keeps that summary."""

    def __init__(self, refs: Iterator[WithdrawalRef]) -> None:
        self._refs = {each.seq: each for each in refs}

    def build(self) -> tuple[WithdrawalRef, ...]:
        return tuple(self._refs.values())

    def forget_summaries(self, ref: WithdrawalRef) -> None:
        """Drop the void summaries that were made without the messages that come back."""
        ranges = SeqRanges(ref.ranges)
        for each in self._refs.values():
            if each.frame == ref.frame and each.summaries:
                left = (one for one in each.summaries if one.seq < ref.seq or not ranges.overlaps(one.first, one.last))
                self._refs[each.seq] = msgspec.structs.replace(each, summaries=tuple(left))

    def take_summaries(self, ref: WithdrawalRef, shown: Sequence[SummaryRef]) -> Iterator[SummaryRef]:
        """The void summaries that take effect again: not those that a newer one overlaps."""
        for summary in ref.summaries:
            other = self._find(ref.frame, summary.first, summary.last, summary.seq)
            if other is not None:
                self._refs[other.seq] = msgspec.structs.replace(other, summaries=(*other.summaries, summary))
            elif not any(each.first <= summary.last and summary.first <= each.last for each in shown):
                yield summary

    def _find(self, frame: str | None, first: int, last: int, after: int = 0) -> WithdrawalRef | None:
        """A withdrawal after event `after` that covers one of these events."""
        for each in self._refs.values():
            if each.frame == frame and each.seq > after and SeqRanges(each.ranges).overlaps(first, last):
                return each
        return None


def _change_session(state: SessionState, change: VisibilityChange, sign: int) -> dict[str, Any]:
    """The figures of the conversation outside of frames. Its next prompt cannot be compared with the last one."""
    calibration = msgspec.structs.replace(state.calibration, report=None, prompt=0, estimate=0, messages=0)
    return {
        "live": max(0, state.live + sign * change.messages),
        "live_tokens": min(max(0, state.live_tokens + sign * change.tokens), state.tokens),
        "asks": change.asks,
        "errors": change.errors,
        "calibration": calibration,
    }


def _change_standing(state: SessionState, frame: str | None, replies: int, actions: tuple[int, ...]) -> dict[str, Any]:
    standing = state.standings.get(frame or "")
    if standing is None:
        return {}
    after = msgspec.structs.replace(standing, replies=max(0, standing.replies + replies), actions=actions)
    standings: dict[str, SituationState] = {**state.standings, frame or "": after}
    return {"standings": standings}


def withdrawals_after_erasure(state: SessionState, erased: Collection[int]) -> tuple[WithdrawalRef, ...]:
    """The withdrawals, without what was erased."""
    return tuple(
        msgspec.structs.replace(
            each,
            summaries=tuple(one for one in each.summaries if one.seq not in erased),
            reduced=tuple(one for one in each.reduced if one.message not in erased),
            redacted=tuple(one for one in each.redacted if one.at not in erased),
            proposals=tuple(one for one in each.proposals if one.message not in erased),
            pinned=tuple(one for one in each.pinned if one not in erased),
        )
        for each in state.withdrawals
    )


# Faults


def withdrawal_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    """Why no command can have made this event."""
    if not isinstance(event, MessagesWithdrawn | MessagesRestored):
        return
    if event.frame is not None and event.frame not in state.frames and frame_seq(event.frame) not in erased:
        yield "a withdrawal is of a live frame, or of the session"
    change = event.change
    figures = (change.messages, change.tokens, change.turns, change.replies)
    if not all(0 <= each <= limits.WHOLE_NUMBER for each in figures):
        yield "the figures of a withdrawal are whole numbers"
    if len(change.errors) > limits.ERRORS_KEPT:
        yield "a conversation lists only the newest errors"
    if isinstance(event, MessagesRestored):
        yield from _restoration_faults(state, event, erased)
        return
    yield from _range_faults(state, event)
    yield from _fact_faults(state, event.facts, erased)
    inside = SeqRanges(event.ranges)
    if not all(seq in erased or (seq in state.pinned and seq in inside) for seq in change.system):
        yield "a withdrawn system message was in view"


def _restoration_faults(state: SessionState, event: MessagesRestored, erased: Collection[int]) -> Iterator[str]:
    ref = next((each for each in state.withdrawals if each.seq == event.withdrawal), None)
    if event.withdrawal in erased:
        return
    if ref is None or ref.frame != event.frame:
        yield "a restoration names a withdrawal in effect"
    elif not {*event.change.system} <= {*ref.pinned, *erased}:
        yield "a restored system message was withdrawn"


def _range_faults(state: SessionState, event: MessagesWithdrawn) -> Iterator[str]:
    ranges = event.ranges
    if not ranges or SeqRanges(ranges).ranges != ranges or not all(first <= last for first, last in ranges):
        yield "the ranges of a withdrawal are in order, and apart"
    elif ranges[0][0] <= state.start_of(event.frame) or ranges[-1][1] > state.version:
        yield "a withdrawal names events of its conversation before it"
    hidden = state.hidden_ranges(event.frame)
    if any(hidden.overlaps(first, last) for first, last in ranges):
        yield "a withdrawn message was in view"
    if any(find_withdrawn_calls(state, event.frame, range(first, last + 1)) for first, last in ranges):
        yield "the open calls of withdrawn messages are closed first"
    if len(state.withdrawals) >= limits.WITHDRAWALS:
        yield "there are more withdrawals than a session takes"


def _fact_faults(state: SessionState, facts: Sequence[LedgerFacts], erased: Collection[int]) -> Iterator[str]:
    if len({each.ledger for each in facts}) != len(facts):
        yield "the facts of a withdrawal are listed by ledger, each once"
    if not all(1 <= len(each.facts) <= limits.WITHDRAWN_FACTS for each in facts):
        yield "a withdrawal names some facts of each ledger, and at most WITHDRAWN_FACTS"
    if not all(fact_seq(fact) for each in facts for fact in each.facts):
        yield "a withdrawal names facts by their ids"
    for each in facts:
        if each.ledger[:1] != ("session",) and each.ledger not in state.ledgers and 1 not in erased:
            yield "a withdrawal names facts of ledgers that the session reads"
