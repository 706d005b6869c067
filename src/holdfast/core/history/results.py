"""Old tool results that are shortened in place: which, and from where on that pays. Pure.

A fold writes the whole view again. A result that is shortened where it stands makes only what follows it be written again,
and all messages stay. So it pays earlier, and more so the nearer it is to the end. Results that later ones made outdated
leave first, at any age; then those of more than `recent` groups ago, of which the lines stay that have names of their own.
On a cold cache, those of earlier turns are old. What is written again in any case is looked at again: of results that were
shortened before, lines leave whose names all stand elsewhere by now.

Laws:
- What is chosen saves its price within `payback_share` of the calls so far, and before as much again has gathered: nobody
  knows how long a conversation goes on, but it has gone on for so long. On a cold cache it has no price.
- If the conversation ends with the next call, its calls have cost no more than `draft.RISK` above what they would have
  cost with everything shown, as far as these boundaries are concerned: a price is paid from what was saved before.
- Every name of a shortened result stays in view, as far as the room for its lines allows. Of one that is looked at again,
  every name that was in view stays there.
- Nothing is counted but the sizes of messages, until something is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

import msgspec

from holdfast.core.history.draft import PlanDraft
from holdfast.core.history.outdated import find_outdated
from holdfast.core.history.reductions import ReduciblePiece
from holdfast.core.history.views import find_line_spans, has_stored_body, reduction_text, show_item
from holdfast.model.content import text_of
from holdfast.model.history.handles import piece_id
from holdfast.model.history.plans import DropOutdated, Faithful, Frugal, KeepLines, PieceForm, Reduction

LEAST_TOKENS = 150
"""A result is not shortened for fewer tokens."""
LEAST_SAVED = 1_000
"""Nor is a boundary made for fewer."""
MIN_LINES = 60
"""Tokens that the lines of a result may always have."""
NOTE_TOKENS = 40
"""Of the line that says what is left out, at most."""


class _OldResult(NamedTuple):
    """A result that may be shortened."""

    piece: ReduciblePiece
    form: PieceForm
    room: int
    """Tokens that its lines may have."""
    saved: int
    """At least so many tokens leave the view."""


def shorten_results(draft: PlanDraft, policy: Faithful | Frugal) -> bool:
    """Shorten the results for which that pays; whether there were any."""
    if not policy.recent:
        return False
    done = False
    risked = 0
    while (found := _choose_results(draft, policy, risked)) is not None:
        chosen, risk = found
        risked += risk
        outdated = [each for each in chosen if each.form != "lines"]
        others = [each for each in chosen if each.form == "lines"]
        applied = False
        if outdated:
            applied |= draft.apply_op(DropOutdated(), reduce=tuple(_mark_outdated(draft, outdated)))
        if others:
            op = KeepLines(policy.recent, policy.result_share)
            applied |= draft.apply_op(op, reduce=tuple(_keep_lines(draft, others)))
        if not applied:
            break
        done = True
    return _drop_known_lines(draft, policy) or done


def _choose_results(draft: PlanDraft, policy: Faithful | Frugal, risked: int) -> tuple[list[_OldResult], int] | None:
    """The results from the item on for which the savings exceed the price the most, and what would be lost if the next
    call is the last; None if they do so nowhere."""
    found = list(_find_results(draft, policy))
    cached = draft.cached_until()
    saved = _sum_saved(found)
    total = sum(size for number, size in saved.items() if number >= cached)
    start, best, risk = cached, 0, 0
    if not draft.cold:
        prices, growth = draft.inputs.prices, draft.growth
        most = int(policy.payback_share * draft.calls)
        rewritten = 0
        for number in range(cached - 1, min(saved, default=cached) - 1, -1):
            here = saved.get(number, 0)
            rewritten += draft.sizes[number] - here
            total += here
            if here:
                earned = prices.cache_read * total * min(most, total // growth)
                price = (prices.cache_write - prices.cache_read) * (rewritten + draft.count_before(number))
                net = earned - price
                loss = price - prices.cache_read * total
                if net > best and risked + loss <= draft.credit:
                    start, best, risk = number, net, loss
    else:
        start = 0
    chosen = [each for each in found if each.piece.item >= start]
    return (chosen, risk) if sum(each.saved for each in chosen) >= LEAST_SAVED else None


def _sum_saved(found: Iterable[_OldResult]) -> dict[int, int]:
    saved: dict[int, int] = {}
    for each in found:
        saved[each.piece.item] = saved.get(each.piece.item, 0) + each.saved
    return saved


def _find_results(draft: PlanDraft, policy: Faithful | Frugal) -> Iterator[_OldResult]:
    """The results that may be shortened, in their order, with the most that would stay of each."""
    before = _find_newest(draft, policy)
    outdated = find_outdated(draft.items)
    for piece in draft.reducible_pieces(0, draft.unseen, results=True, least=LEAST_TOKENS, forms=("whole", "lines")):
        if piece.call is None or has_stored_body(piece.parts):
            continue
        form = outdated.get((piece.message.seq, piece.number), "lines")
        was = piece.reduction
        if form == "lines" and (piece.item >= before or was is not None):
            continue
        tokens = _estimate_tokens(piece) if was is None else was.tokens - was.saved
        room = 0 if form != "lines" else max(MIN_LINES, int(policy.result_share * tokens))
        saved = draft.tools.measure(max(0, tokens - room - NOTE_TOKENS), 0)
        if saved >= LEAST_TOKENS:
            yield _OldResult(piece, form, room, saved)


def _find_newest(draft: PlanDraft, policy: Faithful | Frugal) -> int:
    """The number of the first item whose results are not old. On a cold cache these are of the current turn: what the last
    reply stood on is written again for nothing, if the user goes on after a while."""
    number = max(0, len(draft.items) - policy.recent)
    return min(draft.unseen, max(number, draft.turn()) if draft.cold else number)


def _estimate_tokens(piece: ReduciblePiece) -> int:
    """The tokens of a piece: those of its message, or its share of them by length."""
    message = piece.message
    if len(message.tool_results) == 1 and not message.content:
        return message.tokens
    length = sum(len(text_of(result.content)) for result in message.tool_results) + len(text_of(message.content))
    return message.tokens * len(text_of(piece.parts)) // max(1, length)


def _mark_outdated(draft: PlanDraft, chosen: Iterable[_OldResult]) -> Iterator[Reduction]:
    for each in chosen:
        yield from _reduce(draft, each.piece, each.form)


def _keep_lines(draft: PlanDraft, chosen: Sequence[_OldResult]) -> Iterator[Reduction]:
    """The results by their lines with names that nothing else in view has; the newest first, so that of a name that
    several have, the newest line stays."""
    from holdfast.text.extract.lines import choose_lines, find_names  # noqa: PLC0415 - see summaries

    known = _find_known(draft, {(each.piece.message.seq, each.piece.number) for each in chosen})
    for each in reversed(chosen):
        text = text_of(each.piece.parts)
        for reduction in _reduce(draft, each.piece, "lines", choose_lines(text, known, each.room)):
            known |= find_names(reduction_text(each.piece.parts, reduction, ""))
            yield reduction


def _drop_known_lines(draft: PlanDraft, policy: Faithful | Frugal) -> bool:
    """Look again at the results that are shown by their lines, where they are written again in any case: on a cold cache,
    or behind the first change of this boundary. Whether any became shorter."""
    if draft.changed is None and not draft.cold:
        return False
    start = 0 if draft.cold else draft.changed or 0
    pieces = [*draft.reducible_pieces(start, draft.unseen, results=True, forms=("lines",))]
    reduced = [*_find_shorter(draft, [each for each in pieces if each.reduction is not None])]
    saved = sum(each.saved - draft.reductions[each.message][each.piece].saved for each in reduced)
    if saved < (1 if draft.steps else LEAST_SAVED):
        return False
    return draft.apply_op(KeepLines(policy.recent, policy.result_share), reduce=tuple(reduced))


def _find_shorter(draft: PlanDraft, pieces: Sequence[ReduciblePiece]) -> Iterator[Reduction]:
    """Those of these results that keep fewer of their lines, as all names of the others stand elsewhere in view: in what
    is as it was recorded, or in a newer one of them."""
    from holdfast.text.extract.lines import find_names, select_unknown  # noqa: PLC0415 - see summaries

    known = _find_known(draft, {(piece.message.seq, piece.number) for piece in pieces}) if pieces else set()
    for piece in reversed(pieces):
        assert piece.reduction is not None, "it is shown by its lines"
        text = text_of(piece.parts)
        lines = select_unknown(text, piece.reduction.lines, known)
        reduction = next(_reduce(draft, piece, "lines", lines), None) if lines != piece.reduction.lines else None
        if reduction is None or reduction.saved <= piece.reduction.saved:
            lines = piece.reduction.lines
        else:
            yield reduction
        known |= find_names("\n".join(text[start:end] for start, end in find_line_spans(text, lines)))


def _find_known(draft: PlanDraft, leaving: Set[tuple[int, int]]) -> set[str]:
    """The names in view, except those in some tool results."""
    from holdfast.text.extract.lines import find_item_names  # noqa: PLC0415 - see summaries

    return set[str]().union(*(find_item_names(show_item(item, draft.reductions), leaving) for item in draft.items))


def _reduce(
    draft: PlanDraft, piece: ReduciblePiece, form: PieceForm, lines: tuple[tuple[int, int], ...] = ()
) -> Iterator[Reduction]:
    """The reduction of a piece to this form, if that is shorter."""
    tokens = draft.count_piece(piece)
    reduction = Reduction(
        message=piece.message.seq,
        piece=piece.number,
        form=form,
        lines=lines,
        tokens=tokens,
        size=0,
        digest="",
        source=piece.call,
    )
    after = draft.tools.count(reduction_text(piece.parts, reduction, piece_id(piece.message.seq, piece.number)))
    if after < tokens:
        yield msgspec.structs.replace(reduction, saved=tokens - after)
