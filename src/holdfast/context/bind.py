"""Reductions of a plan, bound to what was recorded: what is only worked out for those that are carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from holdfast.core.shown import digest_of, pieces_of, ref_of, size_of
from holdfast.model.content import Body, Part, text_of
from holdfast.model.messages import Item, Unit
from holdfast.model.plan import Reduction


def bind(
    reduce: Iterable[Reduction], items: Iterable[Item], stored: Mapping[tuple[int, int], tuple[Part, ...]]
) -> list[Reduction]:
    """The reductions with digest, size, whole tokens and place in the blob store. `stored` are the recorded parts of pieces
    that hold stored bodies: the items have them as they are shown."""
    wanted = {(each.message, each.piece): each for each in reduce}
    found: list[Reduction] = []
    for message in (message for item in items if isinstance(item, Unit) for message in item.messages):
        for number, parts, _ in pieces_of(message):
            each = wanted.get((message.seq, number))
            if each is None:
                continue
            recorded = stored.get((message.seq, number), parts)
            more = sum(part.whole_tokens - part.shown_tokens for part in parts if isinstance(part, Body))
            found.append(
                msgspec.structs.replace(
                    each,
                    size=size_of(recorded),
                    digest=digest_of(recorded),
                    ref=ref_of(recorded),
                    whole=each.tokens + more if more else 0,
                )
            )
    return found


def piece_tokens(parts: tuple[Part, ...], count: Callable[[str], int]) -> int:
    """What a piece takes as it is shown without a reduction."""
    bodies = sum(part.shown_tokens for part in parts if isinstance(part, Body))
    texts = (text_of([part]) for part in parts if not isinstance(part, Body))
    return bodies + sum(count(text) for text in texts if text)
