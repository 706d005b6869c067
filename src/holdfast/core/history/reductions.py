"""Pieces of messages that may be shown in part, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from holdfast.core.history.previews import MESSAGE_TAIL, RESULT_TAIL, cut_ends, split_ends
from holdfast.core.history.views import piece_digest, piece_ref, piece_size, pieces_of
from holdfast.model.content import Body, Part, text_of
from holdfast.model.history.plans import PieceForm, Reduction
from holdfast.model.history.views import HistoryItem
from holdfast.model.sessions.messages import Message, MessageGroup


class ReduciblePiece(NamedTuple):
    """A piece of a message that may be shown in part."""

    message: Message
    number: int
    parts: tuple[Part, ...]
    call: str | None
    reduction: Reduction | None
    """How it is shown; None if as recorded."""
    item: int
    """The number of its item."""


def find_shown_extent(piece: ReduciblePiece, form: PieceForm, chars: int, text: str, stored: bool) -> tuple[int, int]:
    """How many characters of the start and of the end of a piece are shown."""
    if form != "spool":
        return chars // 2, chars // 4 if form == "snip" else chars // 2
    if stored:
        return max(chars, len(text)), 0
    body, share = text.encode(), RESULT_TAIL if piece.message.tool_results else MESSAGE_TAIL
    head, tail = split_ends(*cut_ends(body, body, len(body), chars, share))
    return len(head), len(tail)


def bind_reductions(
    reductions: Iterable[Reduction], items: Iterable[HistoryItem], stored: Mapping[tuple[int, int], tuple[Part, ...]]
) -> list[Reduction]:
    """The reductions with digest, size, whole tokens and blob. `stored` are the recorded parts of pieces with stored
    bodies."""
    by_piece = {(reduction.message, reduction.piece): reduction for reduction in reductions}
    bound: list[Reduction] = []
    for message in (message for item in items if isinstance(item, MessageGroup) for message in item.messages):
        for number, parts, _ in pieces_of(message):
            reduction = by_piece.get((message.seq, number))
            if reduction is None:
                continue
            recorded = stored.get((message.seq, number), parts)
            more = sum(part.whole_tokens - part.shown_tokens for part in parts if isinstance(part, Body))
            bound.append(
                msgspec.structs.replace(
                    reduction,
                    size=piece_size(recorded),
                    digest=piece_digest(recorded),
                    ref=piece_ref(recorded),
                    whole=reduction.tokens + more if more else 0,
                )
            )
    return bound


def count_piece_tokens(parts: tuple[Part, ...], count: Callable[[str], int]) -> int:
    """The tokens of a piece as it is shown without a reduction."""
    bodies = sum(part.shown_tokens for part in parts if isinstance(part, Body))
    texts = (text_of([part]) for part in parts if not isinstance(part, Body))
    return bodies + sum(count(text) for text in texts if text)
