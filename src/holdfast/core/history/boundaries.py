"""Boundaries: events that change what a model is shown of a conversation. The recorded messages stay as they are.

Laws:
- A boundary takes effect only if nothing changed what it was planned on. What it folds begins and ends where groups do,
  and has no open call.
- A piece is shown in one form at a time. The table of reductions has the pieces in view and no others.
- A summary takes effect only if nothing changed its messages since it was drafted, and it is shorter than they are. Two
  summaries in effect never overlap. A summary of something erased is void.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from holdfast import errors
from holdfast.core.frames import decide as frames_decide
from holdfast.core.sessions.messages import calls_open_error
from holdfast.model import limits
from holdfast.model.content import calling_seq
from holdfast.model.events import Event
from holdfast.model.frames.frames import frame_seq
from holdfast.model.history.commands import CompactContext, MoveHandle, RedactContext, Summarize
from holdfast.model.history.events import (
    ContextCompacted,
    ContextRedacted,
    HandleMoved,
    HandleReplaced,
    SummaryRecorded,
)
from holdfast.model.history.handles import handle_seq, piece_id
from holdfast.model.history.plans import Fold, Redaction, Reduction
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import check_size
from holdfast.model.state import SessionState, SummaryRef, ViewState

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MARK = re.compile(r"([0-9a-f]{8})?")
_FACT = re.compile(r"[0-9]{1,2}:k[1-9][0-9]{0,18}")
_PLANNED_FORMS = ("excerpt", "snip", "spool", "lines", "reread", "rewritten")
"""The forms in which a plan shows a piece."""
_FOLD_HINT = "Fold the oldest messages first: compact()."


def decide_boundary(
    state: SessionState, command: CompactContext | RedactContext | MoveHandle, inputs: DecisionInput
) -> tuple[Event, ...]:
    if command.frame is not None:
        frames_decide.check_live_frame(state, command.scope, command.frame, inputs)
    if isinstance(command, MoveHandle):
        return _decide_move(state, command)
    if isinstance(command, CompactContext) and not (command.reduced or command.fold or command.handles):
        return ()
    if state.changed > command.version or state.view(command.frame).boundary > command.version:
        changed = max(state.changed, state.view(command.frame).boundary)
        raise errors.PlanStale(version=command.version, changed=changed)
    if isinstance(command, RedactContext):
        return _decide_redaction(state, command, inputs)
    if command.fold is not None:
        _check_fold(state, command.fold, command)
    after = _reductions_after(state, command.frame, command.reduced, command.fold)
    check_size("the view", len(after), "reduced pieces", "REDUCED_PIECES", _FOLD_HINT)
    event = ContextCompacted(
        frame=command.frame,
        policy=command.policy,
        why=command.why,
        ops=command.ops,
        reduced=command.reduced,
        fold=command.fold,
        first_changed=command.first_changed,
        original=command.original,
        final=command.final,
        level=command.level,
        target_met=command.target_met,
        counter=inputs.counter,
        figures=command.figures,
        handles=command.handles,
    )
    for fault in boundary_faults(state, event):
        raise errors.InvalidArgument(argument="plan", reason=f"it cannot be carried out: {fault}")
    return (event,)


def _decide_redaction(state: SessionState, command: RedactContext, inputs: DecisionInput) -> tuple[Event, ...]:
    """The event has only what changes."""
    before = {redaction.at: redaction for redaction in state.view(command.frame).redacted}
    changed = tuple(
        redaction for redaction in command.redacted if before.get(redaction.at, Redaction(redaction.at)) != redaction
    )
    if not changed:
        return ()
    event = ContextRedacted(
        frame=command.frame,
        redacted=changed,
        why=command.why,
        first_changed=command.first_changed,
        original=command.original,
        final=command.final,
        counter=inputs.counter,
    )
    for fault in boundary_faults(state, event):
        raise errors.InvalidArgument(argument="redacted", reason=f"it cannot be carried out: {fault}")
    return (event,)


def _check_fold(state: SessionState, fold: Fold, command: CompactContext) -> None:
    first, last = fold.first, fold.last
    if not state.start < first <= last <= command.version <= state.version or not fold.text.strip():
        raise errors.InvalidArgument(argument="plan", reason=f"events {first} to {last} cannot be folded")
    waiting = [call for call in state.open_calls if call.frame == command.frame]
    if any((calling_seq(call.id) or 0) <= last for call in waiting):
        raise calls_open_error(command.scope, waiting, "their messages cannot leave the view yet")
    summaries = state.summaries_of(command.frame)
    if any(cuts_through(summary, first, last) for summary in summaries):
        raise errors.InvalidArgument(argument="plan", reason=f"events {first} to {last} cut through a summary")
    count = 1 + sum(not first <= summary.first <= last for summary in summaries)
    check_size("the conversation", count, "summaries", "SUMMARIES", "Fold several of them as one.")


def check_in_view(state: SessionState, frame: str | None, message: int, piece: int) -> None:
    """Raises if a piece belongs to a message that is not shown, or is always shown whole."""
    for fault in _visibility_faults(state, frame, [(message, piece)]):
        raise errors.InvalidArgument(argument="handle", reason=f"{fault}; handles.read() still reads it")


def _decide_move(state: SessionState, command: MoveHandle) -> tuple[Event, ...]:
    piece = command.piece
    check_in_view(state, command.frame, piece.message, piece.piece)
    for reduction in state.view(command.frame).reduced:
        if (reduction.message, reduction.piece) == (piece.message, piece.piece):
            if reduction == piece:
                return ()
            break
    else:
        if command.residency == "resident" and piece.form != "whole":
            return ()
    after = len(state.view(command.frame).reduced) + 1
    check_size("the view", after, "reduced pieces", "REDUCED_PIECES", _FOLD_HINT)
    return (HandleMoved(frame=command.frame, residency=command.residency, piece=piece),)


def fold_boundary(
    state: SessionState, event: ContextCompacted | ContextRedacted | HandleMoved, seq: int, time_us: int
) -> dict[str, Any]:
    """The changes of the state by a boundary: none, if its frame was erased."""
    name = event.frame or ""
    if event.frame is not None and event.frame not in state.frames:
        return {}
    if isinstance(event, HandleMoved):
        reduced = _remove_reductions(state.view(event.frame).reduced, [event.piece])
        if event.residency != "resident" or event.piece.form == "whole":
            reduced = _sort_reductions((*reduced, event.piece))
        return {"views": {**state.views, name: _next_view(state, event.frame, seq, time_us, reduced)}}
    if isinstance(event, ContextRedacted):
        return {"views": {**state.views, name: _view_after_redaction(state, event, seq, time_us)}}
    changes: dict[str, Any] = {}
    fold = event.fold
    if fold is not None:
        others = [
            summary
            for summary in state.summaries
            if summary.frame != event.frame or not fold.first <= summary.first <= fold.last
        ]
        new = SummaryRef(seq, fold.first, fold.last, fold.count, fold.tokens, event.frame, fold.replaced, fold.kept)
        changes["summaries"] = tuple(sorted((*others, new), key=lambda summary: (summary.first, summary.seq)))
    reduced = _reductions_after(state, event.frame, event.reduced, fold)
    figures = event.figures
    redacted = state.view(event.frame).redacted
    if fold is not None:
        redacted = _redactions_in_view(redacted, fold.last, fold.summaries, fold.kept)
    counted = figures.calls, figures.grown
    learned = figures.results, figures.repeats
    left_out = _left_out_handles(state, event, seq)
    view = ViewState(seq, reduced, seq, *counted, redacted, time_us, *learned, left_out, figures.earned)
    return {**changes, "views": {**state.views, name: view}}


def changes_after_replacement(state: SessionState, event: HandleReplaced) -> dict[str, Any]:
    """A handle that comes back is no longer collapsed. The history is shown as before: this is no boundary."""
    view = state.view(event.frame)
    left_out = tuple((name, seq) for name, seq in view.left_out if name != event.handle)
    if event.residency != "resident" or len(left_out) == len(view.left_out):
        return {}
    return {"views": {**state.views, event.frame: msgspec.structs.replace(view, left_out=left_out)}}


def _next_view(
    state: SessionState, frame: str | None, seq: int, time_us: int, reduced: tuple[Reduction, ...], **changes: Any
) -> ViewState:
    return msgspec.structs.replace(state.view(frame), boundary=seq, reduced=reduced, settled_us=time_us, **changes)


def _view_after_redaction(state: SessionState, event: ContextRedacted, seq: int, time_us: int) -> ViewState:
    """A change that only extends the view is no boundary: everything before it is shown as it was."""
    view = state.view(event.frame)
    by_seq = {redaction.at: redaction for redaction in (*view.redacted, *event.redacted)}
    redacted = tuple(by_seq[at] for at in sorted(by_seq) if by_seq[at].mark)
    if event.first_changed is None:
        return msgspec.structs.replace(view, redacted=redacted)
    return _next_view(state, event.frame, seq, time_us, view.reduced, redacted=redacted)


def _redactions_in_view(
    redacted: tuple[Redaction, ...], last: int, summaries: Collection[int], kept: Collection[int]
) -> tuple[Redaction, ...]:
    """Without the redactions of messages that were folded up to `last`, and of the summaries in the fold."""
    return tuple(
        redaction
        for redaction in redacted
        if (redaction.at > last or redaction.at in kept) and redaction.at not in summaries
    )


def _reductions_after(
    state: SessionState, frame: str | None, new: tuple[Reduction, ...], fold: Fold | None
) -> tuple[Reduction, ...]:
    """The reductions after a boundary, without those of pieces that left the view."""
    pieces = (*_remove_reductions(state.view(frame).reduced, new), *new)
    last, kept = (0, frozenset[int]()) if fold is None else (fold.last, frozenset(fold.kept))
    return _sort_reductions(piece for piece in pieces if piece.message > last or piece.message in kept)


def _sort_reductions(pieces: Iterable[Reduction]) -> tuple[Reduction, ...]:
    return tuple(sorted(pieces, key=lambda piece: (piece.message, piece.piece)))


def _remove_reductions(pieces: tuple[Reduction, ...], removed: Collection[Reduction]) -> tuple[Reduction, ...]:
    names = {(piece.message, piece.piece) for piece in removed}
    return tuple(piece for piece in pieces if (piece.message, piece.piece) not in names)


def views_after_summary(state: SessionState, event: SummaryRecorded, seq: int, time_us: int) -> dict[str, ViewState]:
    """The views after a summary."""
    frame, view = event.frame, state.view(event.frame)
    reduced = tuple(piece for piece in view.reduced if piece.message > event.last or piece.message in event.kept)
    folded = {summary.seq for summary in state.summaries_of(frame) if event.first <= summary.first <= event.last}
    redacted = _redactions_in_view(view.redacted, event.last, folded, event.kept)
    return {**state.views, frame or "": _next_view(state, frame, seq, time_us, reduced, redacted=redacted)}


def views_after_erasure(state: SessionState, seqs: Collection[int], seq: int, time_us: int) -> dict[str, ViewState]:
    """The views without what was erased. Each may be shown differently after it."""
    erased = {*seqs}
    views: dict[str, ViewState] = {}
    for name, view in state.views.items():
        reduced = tuple(reduction for reduction in view.reduced if reduction.message not in erased)
        redacted = tuple(redaction for redaction in view.redacted if redaction.at not in erased)
        views[name] = _next_view(state, name or None, seq, time_us, reduced, redacted=redacted)
    return views


def boundary_faults(state: SessionState, event: Event | None, erased: Collection[int] = frozenset()) -> Iterator[str]:
    """Why no command can have made this event."""
    if not isinstance(event, ContextCompacted | ContextRedacted | HandleMoved):
        return
    if event.frame is not None and event.frame not in state.frames and frame_seq(event.frame) not in erased:
        yield "a boundary is of a live frame, or of the session"
    if isinstance(event, ContextRedacted):
        yield from _redaction_faults(state, event)
        return
    pieces = (event.piece,) if isinstance(event, HandleMoved) else event.reduced
    if not all(1 <= piece.message <= state.version and piece.piece >= 0 for piece in pieces):
        yield f"a boundary reduces pieces of messages before it, not {piece_id(pieces[0].message, pieces[0].piece)}"
    yield from _visibility_faults(state, event.frame, [(piece.message, piece.piece) for piece in pieces])
    yield from _piece_faults(pieces)
    if isinstance(event, HandleMoved):
        yield from _move_faults(event)
        return
    if not all(piece.form in _PLANNED_FORMS for piece in pieces):
        yield "a plan shows a long piece in part"
    learned = event.figures
    figures = [event.original, event.final, event.first_changed or 0]
    figures += [learned.calls, learned.grown, learned.results, learned.repeats]
    if event.fold is not None:
        yield from _fold_faults(state, event.fold, event.frame)
        figures += [event.fold.tokens, event.fold.count, event.fold.replaced]
    elif not event.reduced and not event.handles:
        yield "a boundary changes something"
    yield from _handle_faults(state, event)
    if not all(0 <= figure <= limits.WHOLE_NUMBER for figure in figures):
        yield "the figures of a boundary are whole numbers"
    if len(_reductions_after(state, event.frame, event.reduced, event.fold)) > limits.REDUCED_PIECES:
        yield "there are more reduced pieces than any view has"


def _handle_faults(state: SessionState, event: ContextCompacted) -> Iterator[str]:
    seqs = [handle_seq(handle) for handle in event.handles]
    if event.handles and (event.frame is None or not all(0 < seq <= state.version for seq in seqs)):
        yield "collapsed handles belong to a frame, and were added before"
    if len(_left_out_handles(state, event, 0)) > limits.LEFT_OUT_HANDLES:
        yield "there are more collapsed handles than a view lists"


def _left_out_handles(state: SessionState, event: ContextCompacted, seq: int) -> tuple[tuple[str, int], ...]:
    """The handles that packs leave out after a boundary."""
    handles = dict(state.view(event.frame).left_out)
    handles |= dict.fromkeys(event.handles, seq)
    return tuple(handles.items())


def _piece_faults(pieces: Sequence[Reduction]) -> Iterator[str]:
    figures = [
        figure
        for piece in pieces
        for figure in (piece.tokens, piece.whole, piece.size, piece.head, piece.tail, abs(piece.saved))
    ]
    if not all(0 <= figure <= limits.WHOLE_NUMBER for figure in figures):
        yield "the figures of a piece are whole numbers"
    if not all(_DIGEST.fullmatch(piece.digest) for piece in pieces):
        yield "a piece has a digest"
    if len({(piece.message, piece.piece) for piece in pieces}) != len(pieces):
        yield "a piece is shown in one form"
    if not all(map(_has_sound_lines, pieces)):
        yield "the lines that are shown of a piece are ranges in order"


def _has_sound_lines(piece: Reduction) -> bool:
    ends = [end for line_range in piece.lines for end in line_range]
    is_rising = all(one < two for one, two in itertools.pairwise(ends))
    in_bounds = not ends or 0 <= ends[0] <= ends[-1] <= limits.WHOLE_NUMBER
    return is_rising and in_bounds and (piece.form == "lines" or not ends)


def _redaction_faults(state: SessionState, event: ContextRedacted) -> Iterator[str]:
    seqs = [redaction.at for redaction in event.redacted]
    summaries = state.summaries_of(event.frame)
    shown = {summary.seq for summary in summaries}
    withdrawn = state.hidden_ranges(event.frame)
    if not seqs or seqs != sorted({*seqs}) or not 1 <= seqs[0] <= seqs[-1] <= state.version:
        yield "a redaction names items before it, in order"
    for at in seqs:
        hidden = at <= state.start_of(event.frame) or find_covering_summary(summaries, at) is not None
        hidden = hidden or at in withdrawn
        if at in state.pinned or (hidden and at not in shown):
            yield f"event {at} is out of view, or always shown as it is"
    for redaction in event.redacted:
        if not _MARK.fullmatch(redaction.mark) or (redaction.facts and not redaction.mark):
            yield "a replacement text has a digest"
        if len(redaction.facts) > limits.REDACTED_FACTS or not all(map(_FACT.fullmatch, redaction.facts)):
            yield "a redaction names facts of ledgers"
    figures = (event.original, event.final, event.first_changed or 0)
    if len(seqs) > limits.REDACTED_ITEMS or not all(0 <= figure <= limits.WHOLE_NUMBER for figure in figures):
        yield "the figures of a redaction are whole numbers, and its items are bounded"


def _move_faults(event: HandleMoved) -> Iterator[str]:
    """What is paged out is in the blob store. What is paged in is shown as it was recorded, or whole."""
    forms = ("page",) if event.residency == "paged_out" else ("page", "whole")
    stored = event.piece.ref is not None or event.residency == "resident"
    if event.residency not in ("resident", "paged_out") or event.piece.form not in forms or not stored:
        yield "a piece is paged out or in"


def _visibility_faults(state: SessionState, frame: str | None, pieces: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Whether a piece belongs to a message that is not shown, or to a pinned one, which stays as it is."""
    summaries, withdrawn = state.summaries_of(frame), state.hidden_ranges(frame)
    for message, piece in pieces:
        name = piece_id(message, piece)
        if message in state.pinned:
            yield f"{name} belongs to a system message, which is always shown whole"
        elif message <= state.start or find_covering_summary(summaries, message) is not None:
            yield f"{name} is out of view"
        elif message in withdrawn:
            yield f"{name} belongs to a message that was withdrawn"


def _fold_faults(state: SessionState, fold: Fold, frame: str | None) -> Iterator[str]:
    start = state.start_of(frame)
    if not start < fold.first <= fold.last <= state.version or not fold.text.strip():
        yield "a fold replaces events before it"
    summaries = state.summaries_of(frame)
    if {*fold.summaries} != {summary.seq for summary in summaries if fold.first <= summary.first <= fold.last}:
        yield "a fold names the summaries that it replaces"
    is_inside = all(fold.first <= seq <= fold.last for seq in fold.messages)
    if not is_inside or list(fold.messages) != sorted({*fold.messages}):
        yield "a fold names the messages that it replaces, in order"
    yield from kept_faults(fold.kept, fold.first, fold.last)
    if {*fold.kept} & {*fold.messages}:
        yield "a fold does not replace what stays in view"
    if any(cuts_through(summary, fold.first, fold.last) for summary in summaries):
        yield "a fold does not cut through a summary"
    if any((calling_seq(call.id) or 0) <= fold.last for call in state.open_calls if call.frame == frame):
        yield "a message with open calls is not folded"


def decide_summary(state: SessionState, command: Summarize, inputs: DecisionInput) -> tuple[SummaryRecorded, ...]:
    first, last = command.first, command.last
    if command.replaces:
        return _decide_replacement(state, command, inputs)
    changed = max(state.changed, state.view(command.frame).boundary)
    if changed > command.version:
        raise errors.SummaryStale(first=first, last=last, version=command.version, changed=changed)
    if not state.start < first <= last <= state.version:
        reason = f"events {first} to {last} are not among events {state.start + 1} to {state.version}"
        raise errors.InvalidArgument(argument="draft", reason=reason)
    if not last <= command.version <= state.version:
        reason = f"a summary up to event {last} cannot be drafted at version {command.version}"
        raise errors.InvalidArgument(argument="draft", reason=reason)
    waiting = [call for call in state.open_calls if call.frame == command.frame]
    if any((calling_seq(call.id) or 0) <= last for call in waiting):
        raise calls_open_error(command.scope, waiting, "their messages cannot be summarised yet")
    summaries = state.summaries_of(command.frame)
    if any(cuts_through(summary, first, last) for summary in summaries) or inputs.summary is None:
        reason = f"events {first} to {last} do not begin and end where call groups and summaries do"
        raise errors.InvalidArgument(argument="draft", reason=reason)
    _check_summary_text(command, inputs, inputs.summary.tokens)
    count = 1 + sum(not first <= summary.first <= last for summary in summaries)
    check_size("the session", count, "summaries", "SUMMARIES", "Summarise several of them as one.")
    return (
        SummaryRecorded(
            first=first,
            last=last,
            messages=inputs.summary.messages,
            text=command.text,
            tokens=inputs.tokens[0],
            counter=inputs.counter,
            frame=command.frame,
            replaced=inputs.summary.whole_tokens,
            kept=inputs.summary.kept,
        ),
    )


def _decide_replacement(state: SessionState, command: Summarize, inputs: DecisionInput) -> tuple[SummaryRecorded, ...]:
    """Another text for a summary in view. While it is in view, its messages are unchanged: whatever erases or folds one
    of them takes the summary out of view."""
    ref = next((summary for summary in state.summaries_of(command.frame) if summary.seq == command.replaces), None)
    if ref is None:
        changed = max(state.changed, state.view(command.frame).boundary)
        raise errors.PlanStale(version=command.replaces, changed=changed)
    _check_summary_text(command, inputs, ref.replaced or ref.tokens)
    return (
        SummaryRecorded(
            first=ref.first,
            last=ref.last,
            messages=ref.messages,
            text=command.text,
            tokens=inputs.tokens[0],
            counter=inputs.counter,
            frame=command.frame,
            replaced=ref.replaced,
            kept=ref.kept,
            replaces=ref.seq,
            first_changed=command.first_changed,
            original=command.original,
            final=command.final,
        ),
    )


def _check_summary_text(command: Summarize, inputs: DecisionInput, most: int | None) -> None:
    if not command.text.strip():
        raise errors.InvalidArgument(argument="text", reason="the summary is empty")
    (tokens,) = inputs.tokens
    if most is not None and tokens >= most:
        reason = f"the summary has {tokens} tokens, and the messages that it replaces have {most}"
        raise errors.InvalidArgument(argument="text", reason=reason)


def cuts_through(summary: SummaryRef, first: int, last: int) -> bool:
    """Whether a stretch cuts through the messages of a summary."""
    overlaps = summary.first <= last and first <= summary.last
    return overlaps and not (first <= summary.first and summary.last <= last)


def find_covering_summary(summaries: tuple[SummaryRef, ...], seq: int) -> SummaryRef | None:
    """The summary in effect that replaces this event; None if the event is in view, also inside a summary."""
    summary = find_surrounding_summary(summaries, seq)
    return None if summary is None or seq in summary.kept else summary


def find_surrounding_summary(summaries: tuple[SummaryRef, ...], seq: int) -> SummaryRef | None:
    """The summary in effect around this event, between its ends."""
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
