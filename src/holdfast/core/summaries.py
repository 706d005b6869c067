"""Summaries: views of messages, never messages.

Laws: a summary takes effect only if nothing changed what it stands for since it was drafted; it is shorter than that; two
summaries in effect never overlap; one that stood for something erased is void.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast import errors
from holdfast.core.messages import calls_open, group_of
from holdfast.model import limits
from holdfast.model.commands import Given, Summarize
from holdfast.model.events import SummaryRecorded
from holdfast.model.names import check_size
from holdfast.model.state import SessionState, SummaryRef


def record(state: SessionState, command: Summarize, given: Given) -> tuple[SummaryRecorded, ...]:
    first, last = command.first, command.last
    changed = max(state.changed, state.view(command.frame).boundary)
    if changed > command.version:
        raise errors.SummaryStale(first=first, last=last, version=command.version, changed=changed)
    if not state.start < first <= last <= state.version:
        reason = (
            f"events {first} to {last} are not a stretch of the {state.version - state.start} since {state.start + 1}"
        )
        raise errors.InvalidContent(reason=reason)
    if not last <= command.version <= state.version:
        raise errors.InvalidContent(reason=f"the summary of what came up to {last} was drafted at {command.version}")
    waiting = [call for call in state.open_calls if call.frame == command.frame]
    if any((group_of(call.id) or 0) <= last for call in waiting):
        raise calls_open(command.scope, waiting, "what they belong to cannot be summarised yet")
    own = state.summaries_of(command.frame)
    if any(partly(each, first, last) for each in own) or given.replaced_tokens is None:
        raise errors.InvalidContent(reason=f"events {first} to {last} do not begin and end where units do")
    _check_text(command, given)
    kept = [summary for summary in own if not first <= summary.first <= last]
    check_size("the session", len(kept) + 1, "summaries", "SUMMARIES", "Summarise several of them as one.")
    return (
        SummaryRecorded(
            first=first,
            last=last,
            messages=given.replaced_messages,
            text=command.text,
            tokens=given.tokens[0],
            counter=given.counter,
            frame=command.frame,
            replaced=given.replaced_whole,
            kept=given.kept,
        ),
    )


def _check_text(command: Summarize, given: Given) -> None:
    if not command.text.strip():
        raise errors.InvalidContent(reason="the summary is empty")
    (tokens,) = given.tokens
    if given.replaced_tokens is not None and tokens >= given.replaced_tokens:
        reason = f"the summary has {tokens} tokens, and what it stands for has {given.replaced_tokens}"
        raise errors.InvalidContent(reason=reason)


def partly(summary: SummaryRef, first: int, last: int) -> bool:
    """Whether a stretch cuts through what the summary stands for."""
    overlaps = summary.first <= last and first <= summary.last
    return overlaps and not (first <= summary.first and summary.last <= last)


def covering(summaries: tuple[SummaryRef, ...], seq: int) -> SummaryRef | None:
    """The summary in effect that stands for this event; None if it is in view, also between the ends of a summary."""
    summary = around(summaries, seq)
    return None if summary is None or seq in summary.kept else summary


def around(summaries: tuple[SummaryRef, ...], seq: int) -> SummaryRef | None:
    """The summary in effect between whose ends this event is."""
    for summary in summaries:
        if summary.first <= seq <= summary.last:
            return summary
    return None


def kept_faults(kept: Sequence[int], first: int, last: int) -> Iterator[str]:
    """Why these cannot be messages that a summary leaves in view."""
    if list(kept) != sorted({*kept}) or (kept and not first <= kept[0] <= kept[-1] <= last):
        yield "a summary leaves messages between its ends in view, in order"
    if len(kept) > limits.LIVE_MESSAGES:
        yield "a summary leaves no more messages in view than a view has"
