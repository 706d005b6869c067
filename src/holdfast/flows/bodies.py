"""Stored bodies: read as far as they are shown, and put into what a model is shown.

Law: no more is read of a body than is shown of it, or its preview is made from; one that cannot be shown whole is never
read whole.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from holdfast.core.display import Amount, Display, Displayer, Presented
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.place import Context, Place
from holdfast.model.content import BlobRef
from holdfast.model.messages import Item
from holdfast.model.plan import Reduction


def displayer(place: Place, display: Display, reduced: Sequence[Reduction] = ()) -> Displayer:
    """What shows stored bodies here."""
    return Displayer(display, place.context.spooling, place.context.counter.count, reduced)


def present(place: Place, items: Sequence[Item], display: Display, reduced: Sequence[Reduction]) -> Flow[Presented]:
    """The items with their stored bodies as a pack shows them, and the reductions that go with them."""
    shows = displayer(place, display, reduced)
    amounts = shows.amounts(items)
    read: dict[str, bytes] = {}
    for digest, amount in _largest(amounts.values()).items():
        read[digest] = yield from effects.outside(functools.partial(read_start, place.context, amount.ref, amount.size))
    return shows.present(items, amounts, read)


def _largest(amounts: Iterable[Amount]) -> dict[str, Amount]:
    """How much is read of each body: it may be shown in several places."""
    found: dict[str, Amount] = {}
    for each in amounts:
        known = found.get(each.ref.digest)
        if known is None or known.size < each.size:
            found[each.ref.digest] = each
    return found


def read_start(context: Context, ref: BlobRef, size: int) -> bytes:
    """The first bytes of a body; if that is all of it, its digest is checked."""
    start = bytearray()
    for chunk in context.bodies.chunks(context.tenant, ref):
        start += chunk
        if len(start) > size or (len(start) == size < ref.size):
            break
    return bytes(start[:size])
