"""Boundaries: events that change what a model is shown of a conversation. What was recorded stays as it is.

Laws: a boundary takes effect only if nothing changed what it was planned on; what it folds begins and ends where units do,
and holds no call that waits; a piece is shown in one form at a time; the table of pieces holds those in view, no others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from holdfast import errors
from holdfast.core import frames
from holdfast.core.messages import calls_open, group_of
from holdfast.core.summaries import covering, kept_faults, partly
from holdfast.model import limits
from holdfast.model.commands import CompactContext, Given, MoveHandle, RedactContext
from holdfast.model.events import Event, HandleMoved, HandleReplaced
from holdfast.model.frames import frame_seq
from holdfast.model.handles import handle_seq, piece_id
from holdfast.model.names import check_size
from holdfast.model.plan import Fold, Redacted, Reduction
from holdfast.model.state import SessionState, SummaryRef, ViewState
from holdfast.model.view_events import ContextCompacted, ContextRedacted, SummaryRecorded

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MARK = re.compile(r"([0-9a-f]{8})?")
_FACT = re.compile(r"[0-9]{1,2}:k[1-9][0-9]{0,18}")
_PLANNED = ("excerpt", "snip", "spool")
"""The forms in which a plan shows a piece."""
_TOO_MANY = "Fold the oldest messages first: compact()."


def decide(
    state: SessionState, command: CompactContext | RedactContext | MoveHandle, given: Given
) -> tuple[Event, ...]:
    if command.frame is not None:
        frames.live(state, command.scope, command.frame, given)
    if isinstance(command, MoveHandle):
        return _move(state, command)
    if isinstance(command, CompactContext) and not (command.reduced or command.fold or command.handles):
        return ()
    if state.changed > command.version or state.view(command.frame).boundary > command.version:
        changed = max(state.changed, state.view(command.frame).boundary)
        raise errors.PlanStale(version=command.version, changed=changed)
    if isinstance(command, RedactContext):
        return _redact(state, command, given)
    if command.fold is not None:
        _check_fold(state, command.fold, command)
    after = _reduced(state, command.frame, command.reduced, command.fold)
    check_size("the view", len(after), "reduced pieces", "REDUCED_PIECES", _TOO_MANY)
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
        counter=given.counter,
        figures=command.figures,
        handles=command.handles,
    )
    for fault in boundary_faults(state, event):
        raise errors.InvalidContent(reason=f"the plan cannot be carried out: {fault}")
    return (event,)


def _redact(state: SessionState, command: RedactContext, given: Given) -> tuple[Event, ...]:
    """Only what changes is told."""
    known = {each.at: each for each in state.view(command.frame).redacted}
    new = tuple(each for each in command.redacted if known.get(each.at, Redacted(each.at)) != each)
    if not new:
        return ()
    event = ContextRedacted(
        frame=command.frame,
        redacted=new,
        why=command.why,
        first_changed=command.first_changed,
        original=command.original,
        final=command.final,
        counter=given.counter,
    )
    for fault in boundary_faults(state, event):
        raise errors.InvalidContent(reason=f"the redaction cannot be carried out: {fault}")
    return (event,)


def _check_fold(state: SessionState, fold: Fold, command: CompactContext) -> None:
    first, last = fold.first, fold.last
    if not state.start < first <= last <= command.version <= state.version or not fold.text.strip():
        raise errors.InvalidContent(reason=f"events {first} to {last} are no stretch that could be folded")
    waiting = [call for call in state.open_calls if call.frame == command.frame]
    if any((group_of(call.id) or 0) <= last for call in waiting):
        raise calls_open(command.scope, waiting, "what they belong to cannot leave the view yet")
    own = state.summaries_of(command.frame)
    if any(partly(each, first, last) for each in own):
        raise errors.InvalidContent(reason=f"events {first} to {last} cut through a summary")
    kept = [each for each in own if not first <= each.first <= last]
    check_size("the conversation", len(kept) + 1, "summaries", "SUMMARIES", "Fold several of them as one.")


def check_in_view(state: SessionState, frame: str | None, message: int, piece: int) -> None:
    """Raises if a piece is of a message that is not shown, or always is."""
    for fault in _out_of_view(state, frame, [(message, piece)]):
        raise errors.InvalidContent(reason=f"{fault}; read_handle reads it all the same")


def _move(state: SessionState, command: MoveHandle) -> tuple[Event, ...]:
    piece = command.piece
    check_in_view(state, command.frame, piece.message, piece.piece)
    for each in state.view(command.frame).reduced:
        if (each.message, each.piece) == (piece.message, piece.piece):
            if each == piece:
                return ()
            break
    else:
        if command.residency == "resident" and piece.form != "whole":
            return ()
    after = len(state.view(command.frame).reduced) + 1
    check_size("the view", after, "reduced pieces", "REDUCED_PIECES", _TOO_MANY)
    return (HandleMoved(frame=command.frame, residency=command.residency, piece=piece),)


def folded(
    state: SessionState, event: ContextCompacted | ContextRedacted | HandleMoved, seq: int, time_us: int
) -> dict[str, Any]:
    """What a boundary changes in the state: nothing, if its frame was erased."""
    name = event.frame or ""
    if event.frame is not None and event.frame not in state.frames:
        return {}
    if isinstance(event, HandleMoved):
        reduced = _without(state.view(event.frame).reduced, [event.piece])
        if event.residency != "resident" or event.piece.form == "whole":
            reduced = _sorted((*reduced, event.piece))
        return {"views": {**state.views, name: _next(state, event.frame, seq, time_us, reduced)}}
    if isinstance(event, ContextRedacted):
        return {"views": {**state.views, name: _after_redaction(state, event, seq, time_us)}}
    changes: dict[str, Any] = {}
    fold = event.fold
    if fold is not None:
        inside = fold.first, fold.last
        kept = [
            each for each in state.summaries if each.frame != event.frame or not inside[0] <= each.first <= inside[1]
        ]
        new = SummaryRef(seq, fold.first, fold.last, fold.count, fold.tokens, event.frame, fold.replaced, fold.kept)
        changes["summaries"] = tuple(sorted((*kept, new), key=lambda each: (each.first, each.seq)))
    reduced = _reduced(state, event.frame, event.reduced, fold)
    figures = event.figures
    redacted = state.view(event.frame).redacted
    if fold is not None:
        redacted = _still_in_view(redacted, fold.last, fold.summaries, fold.kept)
    counted = figures.calls, figures.grown
    learned = figures.results, figures.repeats
    view = ViewState(seq, reduced, seq, *counted, redacted, time_us, *learned, _left_out(state, event, seq))
    return {**changes, "views": {**state.views, name: view}}


def after_replacement(state: SessionState, event: HandleReplaced) -> dict[str, Any]:
    """A handle that comes back is not collapsed any more. The history is shown as it was: this is no boundary."""
    view = state.view(event.frame)
    kept = tuple(each for each in view.left_out if each[0] != event.handle)
    if event.residency != "resident" or len(kept) == len(view.left_out):
        return {}
    return {"views": {**state.views, event.frame: msgspec.structs.replace(view, left_out=kept)}}


def _next(
    state: SessionState, frame: str | None, seq: int, time_us: int, reduced: tuple[Reduction, ...], **changes: Any
) -> ViewState:
    return msgspec.structs.replace(state.view(frame), boundary=seq, reduced=reduced, settled_us=time_us, **changes)


def _after_redaction(state: SessionState, event: ContextRedacted, seq: int, time_us: int) -> ViewState:
    """What only extends the view is no boundary: whatever was shown before is shown as it was."""
    view = state.view(event.frame)
    told = {each.at: each for each in (*view.redacted, *event.redacted)}
    redacted = tuple(told[at] for at in sorted(told) if told[at].mark)
    if event.first_changed is None:
        return msgspec.structs.replace(view, redacted=redacted)
    return _next(state, event.frame, seq, time_us, view.reduced, redacted=redacted)


def _still_in_view(
    redacted: tuple[Redacted, ...], last: int, summaries: Collection[int], kept: Collection[int]
) -> tuple[Redacted, ...]:
    """Without what was folded up to `last`, and the summaries that it took in."""
    return tuple(each for each in redacted if (each.at > last or each.at in kept) and each.at not in summaries)


def _reduced(
    state: SessionState, frame: str | None, new: tuple[Reduction, ...], fold: Fold | None
) -> tuple[Reduction, ...]:
    """The table after a boundary: what left the view leaves the table."""
    kept = _without(state.view(frame).reduced, new)
    last, stay = (0, frozenset[int]()) if fold is None else (fold.last, frozenset(fold.kept))
    return _sorted(each for each in (*kept, *new) if each.message > last or each.message in stay)


def _sorted(pieces: Any) -> tuple[Reduction, ...]:
    return tuple(sorted(pieces, key=lambda each: (each.message, each.piece)))


def _without(pieces: tuple[Reduction, ...], gone: Collection[Reduction]) -> tuple[Reduction, ...]:
    named = {(each.message, each.piece) for each in gone}
    return tuple(each for each in pieces if (each.message, each.piece) not in named)


def after_summary(state: SessionState, event: SummaryRecorded, seq: int, time_us: int) -> dict[str, ViewState]:
    """The views after a summary of what came up to its last event."""
    frame, view = event.frame, state.view(event.frame)
    kept = tuple(each for each in view.reduced if each.message > event.last or each.message in event.kept)
    gone = {each.seq for each in state.summaries_of(frame) if event.first <= each.first <= event.last}
    redacted = _still_in_view(view.redacted, event.last, gone, event.kept)
    return {**state.views, frame or "": _next(state, frame, seq, time_us, kept, redacted=redacted)}


def after_erasure(state: SessionState, seqs: Collection[int], seq: int, time_us: int) -> dict[str, ViewState]:
    """The views without what was erased; what is shown of a conversation may have changed by it."""
    gone = {*seqs}
    views: dict[str, ViewState] = {}
    for name, view in state.views.items():
        reduced = tuple(each for each in view.reduced if each.message not in gone)
        redacted = tuple(each for each in view.redacted if each.at not in gone)
        views[name] = _next(state, name or None, seq, time_us, reduced, redacted=redacted)
    return views


def boundary_faults(state: SessionState, event: Event | None, erased: Collection[int] = frozenset()) -> Iterator[str]:
    """Why no command can have made this event."""
    if not isinstance(event, ContextCompacted | ContextRedacted | HandleMoved):
        return
    if event.frame is not None and event.frame not in state.frames and frame_seq(event.frame) not in erased:
        yield "the conversation of a live frame is shown otherwise, or that of the session"
    if isinstance(event, ContextRedacted):
        yield from _redaction_faults(state, event)
        return
    pieces = (event.piece,) if isinstance(event, HandleMoved) else event.reduced
    if not all(1 <= each.message <= state.version and each.piece >= 0 for each in pieces):
        yield f"pieces of messages before it are reduced, not {piece_id(pieces[0].message, pieces[0].piece)}"
    yield from _out_of_view(state, event.frame, [(each.message, each.piece) for each in pieces])
    yield from _piece_faults(pieces)
    if isinstance(event, HandleMoved):
        yield from _move_faults(event)
        return
    if not all(each.form in _PLANNED for each in pieces):
        yield "a plan shows what is too long by a part of it"
    counted = event.figures
    figures = [event.original, event.final, event.first_changed or 0]
    figures += [counted.calls, counted.grown, counted.results, counted.repeats]
    if event.fold is not None:
        yield from _fold_faults(state, event.fold, event.frame)
        figures += [event.fold.tokens, event.fold.count, event.fold.replaced]
    elif not event.reduced and not event.handles:
        yield "a boundary changes something"
    yield from _handle_faults(state, event)
    if not all(0 <= figure <= limits.WHOLE_NUMBER for figure in figures):
        yield "a boundary has numbers of tokens"
    if len(_reduced(state, event.frame, event.reduced, event.fold)) > limits.REDUCED_PIECES:
        yield "there are more of them than any view has"


def _handle_faults(state: SessionState, event: ContextCompacted) -> Iterator[str]:
    seqs = [handle_seq(each) for each in event.handles]
    if event.handles and (event.frame is None or not all(0 < seq <= state.version for seq in seqs)):
        yield "handles that packs leave out are of a frame, and were there before"
    if len(_left_out(state, event, 0)) > limits.LEFT_OUT_HANDLES:
        yield "packs leave out no more handles than a view notes"


def _left_out(state: SessionState, event: ContextCompacted, seq: int) -> tuple[tuple[str, int], ...]:
    """The handles that packs leave out after a boundary."""
    known = dict(state.view(event.frame).left_out)
    known |= dict.fromkeys(event.handles, seq)
    return tuple(known.items())


def _piece_faults(pieces: Sequence[Reduction]) -> Iterator[str]:
    figures = [
        figure
        for each in pieces
        for figure in (each.tokens, each.whole, each.size, each.head, each.tail, abs(each.saved))
    ]
    if not all(0 <= figure <= limits.WHOLE_NUMBER for figure in figures):
        yield "a piece has numbers of tokens and bytes"
    if not all(_DIGEST.fullmatch(each.digest) for each in pieces):
        yield "a piece has a digest"
    if len({(each.message, each.piece) for each in pieces}) != len(pieces):
        yield "a piece is shown in one form"


def _redaction_faults(state: SessionState, event: ContextRedacted) -> Iterator[str]:
    places = [each.at for each in event.redacted]
    summaries = state.summaries_of(event.frame)
    shown = {each.seq for each in summaries}
    if not places or places != sorted({*places}) or not 1 <= places[0] <= places[-1] <= state.version:
        yield "a redaction tells of items before it, in order"
    for at in places:
        hidden = at <= max(state.start, frame_seq(event.frame)) or covering(summaries, at) is not None
        if at in state.pinned or (hidden and at not in shown):
            yield f"event {at} is out of view, or always shown as it is"
    for each in event.redacted:
        if not _MARK.fullmatch(each.mark) or (each.facts and not each.mark):
            yield "what is put in place of something has a digest"
        if len(each.facts) > limits.REDACTED_FACTS or not all(map(_FACT.fullmatch, each.facts)):
            yield "what an item tells are facts of ledgers"
    figures = (event.original, event.final, event.first_changed or 0)
    if len(places) > limits.REDACTED_ITEMS or not all(0 <= figure <= limits.WHOLE_NUMBER for figure in figures):
        yield "a redaction has numbers of tokens, and not too many items"


def _move_faults(event: HandleMoved) -> Iterator[str]:
    """What is paged out lies in the blob store; what comes back is as it was recorded, or the whole of what lies there."""
    forms = ("page",) if event.residency == "paged_out" else ("page", "whole")
    stored = event.piece.ref is not None or event.residency == "resident"
    if event.residency not in ("resident", "paged_out") or event.piece.form not in forms or not stored:
        yield "a piece is paged out or in"


def _out_of_view(state: SessionState, frame: str | None, pieces: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Whether a piece is of a message that is not shown, or pinned: those stay as they are."""
    summaries = state.summaries_of(frame)
    for message, piece in pieces:
        name = piece_id(message, piece)
        if message in state.pinned:
            yield f"{name} belongs to a system message, which is always shown whole"
        elif message <= state.start or covering(summaries, message) is not None:
            yield f"{name} is out of view"


def _fold_faults(state: SessionState, fold: Fold, frame: str | None) -> Iterator[str]:
    start = max(state.start, frame_seq(frame))
    if not start < fold.first <= fold.last <= state.version or not fold.text.strip():
        yield "a fold stands for events before it"
    inside = [each for each in state.summaries_of(frame) if fold.first <= each.first <= fold.last]
    if {*fold.summaries} != {each.seq for each in inside}:
        yield "a fold tells of the summaries that it takes in"
    within = all(fold.first <= seq <= fold.last for seq in fold.messages)
    if not within or list(fold.messages) != sorted({*fold.messages}):
        yield "a fold tells of messages that it stands for, in order"
    yield from kept_faults(fold.kept, fold.first, fold.last)
    if {*fold.kept} & {*fold.messages}:
        yield "a fold does not stand for what stays in view"
    if any(partly(each, fold.first, fold.last) for each in state.summaries_of(frame)):
        yield "a fold does not cut through a summary"
    if any((group_of(call.id) or 0) <= fold.last for call in state.open_calls if call.frame == frame):
        yield "what waits for results is not folded"
