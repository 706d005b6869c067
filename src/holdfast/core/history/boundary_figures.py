"""Boundaries as a reader of model calls sees them: what kind each is, why it came, and its figures."""

from __future__ import annotations

from holdfast.model.event import count_noun
from holdfast.model.events import Event
from holdfast.model.history.events import (
    ContextCompacted,
    ContextRedacted,
    HandleMoved,
    MessagesRestored,
    MessagesWithdrawn,
    SummaryRecorded,
)
from holdfast.model.history.handles import piece_id
from holdfast.model.history.plans import BOUNDARY_REASONS, Classic, Pressure, RedactionReason, op_name
from holdfast.model.packs.calls import Boundary
from holdfast.model.sessions.events import PayloadsErased, SessionReset

BOUNDARY_TYPES = (
    ContextCompacted.name,
    SummaryRecorded.name,
    HandleMoved.name,
    ContextRedacted.name,
    MessagesWithdrawn.name,
    MessagesRestored.name,
    SessionReset.name,
    PayloadsErased.name,
)
"""The events that change how a history is shown."""
_PICO_TO_MICRO = 10**6
_REDACTION_WORDS: dict[RedactionReason, str] = {
    "died": "a fact in view ended",
    "returned": "a fact came back",
    "told": "new text states an ended fact",
}
_STEPS: dict[str, Pressure] = {
    "snip": "snip",
    "time_decay_micro": "micro",
    "collapse": "collapse",
    "auto_compact": "auto",
}
"""The step of the classic policy of an operation, the strongest last."""


def describe_boundary(seq: int, event: Event | None, *, is_priced: bool = True) -> Boundary | None:
    """An event as a boundary; None for an event of another kind, or an erased one. If the prices of the model are not
    known, its plan has only ratios: without `is_priced`, its costs are left out."""
    match event:
        case ContextCompacted():
            return _describe_compaction(seq, event, is_priced)
        case SummaryRecorded():
            sizes = (event.original, event.final) if event.replaces else (event.replaced, event.tokens)
            why = (
                f"the summary of event {event.replaces:,} was replaced" if event.replaces else "a summary was recorded"
            )
            return _build(seq, "summary", why, *sizes, event.messages)
        case HandleMoved():
            name, saved = piece_id(event.piece.message, event.piece.piece), event.piece.saved
            verb = "is shown again" if event.residency == "resident" else "was moved out of view"
            return _build(seq, "excerpt", f"{name} {verb}", max(0, saved), max(0, -saved), 1)
        case ContextRedacted():
            why = _REDACTION_WORDS[event.why]
            return _build(seq, "guard", why, event.original, event.final, len(event.redacted))
        case MessagesWithdrawn():
            number = event.change.messages + len(event.change.system)
            why = event.reason or f"{count_noun(number, 'message')} withdrawn"
            return _build(seq, "withdrawal", why, event.change.tokens, 0, number)
        case MessagesRestored():
            number = event.change.messages + len(event.change.system)
            why = event.reason or f"{count_noun(number, 'message')} restored"
            return _build(seq, "restoration", why, 0, event.change.tokens, number)
        case SessionReset():
            return _build(seq, "reset", event.reason)
        case PayloadsErased():
            return _build(seq, "erasure", event.reason, messages=len(event.seqs))
    return None


def _build(seq: int, kind: str, why: str, before: int = 0, after: int = 0, messages: int = 0) -> Boundary:
    return Boundary(seq=seq, kind=kind, why=why, before=before, after=after, messages=messages)  # type: ignore[arg-type]


def _describe_compaction(seq: int, event: ContextCompacted, is_priced: bool) -> Boundary:
    figures = event.figures
    names = [op_name(op) for op in event.ops] if event.policy == Classic.name else []
    steps = [step for name, step in _STEPS.items() if name in names]
    folded = 0 if event.fold is None else event.fold.count
    return Boundary(
        seq=seq,
        kind="excerpt" if event.fold is None else "fold",
        why=BOUNDARY_REASONS[event.why],
        before=event.original,
        after=event.final,
        window=figures.window,
        cost=(figures.rewriting + figures.summarizing) // _PICO_TO_MICRO if is_priced else 0,
        saves=figures.saves // _PICO_TO_MICRO if is_priced else 0,
        messages=folded + len({each.message for each in event.reduced}),
        policy=event.policy,
        pressure=steps[-1] if steps else "none",
    )
