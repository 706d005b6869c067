"""Handles: what is in view, what is not, and the way out and back in.

Laws: page-out and then page-in is the identity, checked by digest; what is resident and what is not add up to all there is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import get_args

import msgspec

from holdfast import codec, errors
from holdfast.core import boundaries
from holdfast.core.calibrate import calibrated
from holdfast.core.project import piece_handle
from holdfast.core.sessions import check_open
from holdfast.core.shown import by_message, pieces_of, reduced_text, ref_of, size_of
from holdfast.core.stack import content_of
from holdfast.core.summaries import covering
from holdfast.errors import HandleNotFound, InvalidContent
from holdfast.flows import effects, ingest
from holdfast.flows.effects import Flow
from holdfast.flows.frames import checked_handle, find_handle, handles, one_of
from holdfast.flows.history import history_at, in_view, read_whole, text_of_body
from holdfast.flows.inform_frames import event_at, handle_of, session_where
from holdfast.flows.load import load
from holdfast.flows.place import Context, Place, order
from holdfast.flows.read import piece_at
from holdfast.flows.views import steady
from holdfast.model import limits
from holdfast.model.commands import MoveHandle, ReplaceHandle
from holdfast.model.content import BlobRef, Body, File, Image, Opaque, Part, Text
from holdfast.model.handles import Handle, handle_seq, piece_of
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.plan import Occupancy, Reduction, Residency, Tier
from holdfast.model.rows import HandleRow
from holdfast.model.state import SessionState


def page_out(place: Place, handle: Handle | str, *, tier: Tier = "durable", key: str | None = None) -> Flow[Handle]:
    """Take a piece out of view, or a handle of a frame out of reach: a line stays that names it, and page_in() brings it
    back, exactly. Its content goes to the blob store. This is a boundary: what is shown behind it is written anew."""
    one_of("tier", tier, get_args(Tier))
    return (yield from _move(place, handle, "paged_out", tier, key))


def page_in(place: Place, handle: Handle | str, *, key: str | None = None) -> Flow[Handle]:
    """Show a piece whole again, as it was recorded, also one that went to the blob store when it came in; checked by its
    digest. This is a boundary: what is shown behind it is written anew."""
    return (yield from _move(place, handle, "resident", "durable", key))


def _move(place: Place, handle: Handle | str, residency: Residency, tier: Tier, key: str | None) -> Flow[Handle]:
    name = handle.id if isinstance(handle, Handle) else handle
    found = piece_of(name) if type(name) is str else None
    if found is None:
        return (yield from _move_added(place, checked_handle(handle), residency, tier, key))
    message, parts, call = yield from piece_at(place.scope, *found, late=False)
    if place.frame not in (None, message.frame):
        raise HandleNotFound(session=place.scope.session, handle=name)
    state = yield from load(place.scope.stream, place.context.cache, fresh=True)
    check_open(state, place.scope)
    boundaries.check_in_view(state, message.frame, *found)
    _check_movable(name, message, parts, residency)
    counter = place.context.counter
    digest = codec.digest(parts)
    ref = ref_of(parts)
    now = 0
    for part in parts if residency == "resident" else ():
        whole = Text((yield from text_of_body(place.context, part.ref))) if isinstance(part, Body) else part
        now += ingest.count_parts(counter, (whole,))
    if residency == "paged_out" and ref is None:
        ref = yield from _archived(place.context, parts)
    if residency == "resident":
        yield from _check_archived(place, message, found[1])
    shown_now = sum(ingest.count_parts(counter, (part,)) for part in parts)
    piece = Reduction(
        message=message.seq,
        piece=found[1],
        form="page" if residency == "paged_out" else "whole" if _stored(parts) else "page",
        tokens=shown_now,
        size=size_of(parts),
        digest=digest,
        ref=ref,
        tier=tier,
        source=call,
    )
    if residency == "paged_out":
        now = counter.count(reduced_text(parts, piece, name))
        if now >= shown_now and not any(isinstance(part, Image | File) for part in parts):
            reason = f"{name} has {shown_now} tokens, and the line that would stand for it {now}: leave it where it is"
            raise InvalidContent(reason=reason)
    piece = msgspec.structs.replace(
        piece, saved=shown_now - now if residency == "paged_out" or piece.form == "whole" else 0
    )
    command = MoveHandle(scope=place.scope, frame=message.frame, residency=residency, piece=piece)
    yield from order(place, command, key=key, bodies=[] if ref is None else [ref])
    return piece_handle(piece, message.frame, residency)


def _check_movable(name: str, message: Message, parts: tuple[Part, ...], residency: Residency) -> None:
    """A provider's own parts, and what is signed with them, stay as they are; what is no text is not shown as text."""
    own = parts if message.tool_results else message.content
    if residency == "paged_out" and any(isinstance(part, Opaque) for part in own):
        raise InvalidContent(
            reason=f"{name} belongs to a provider's own parts, which are never edited: leave it, or fold it"
        )
    for part in parts if residency == "resident" else ():
        kind = part.ref.media_type if isinstance(part, Body) else "text/plain"
        if kind is None or not (kind.startswith("text/") or kind.endswith("json")):
            raise InvalidContent(reason=f"{name} is no text but {kind or 'binary'}: read_text() shows its bytes")


def _stored(parts: tuple[Part, ...]) -> bool:
    """Whether some of a piece went to the blob store when it came in."""
    return any(isinstance(part, Body) for part in parts)


def _check_archived(place: Place, message: Message, number: int) -> Flow[None]:
    """Make sure that what was paged out is still what it was: its digest is checked while it is read."""
    state = yield from load(place.scope.stream, place.context.cache, fresh=True)
    for each in state.view(message.frame).reduced:
        if (each.message, each.piece) == (message.seq, number) and each.form == "page" and each.ref is not None:
            yield from effects.outside(functools.partial(read_whole, place.context, each.ref))


def _move_added(place: Place, name: str, residency: Residency, tier: Tier, key: str | None) -> Flow[Handle]:
    """A handle of a frame."""
    where = session_where(place.scope) | {"handle": handle_seq(name)}
    for row in (yield from effects.rows(HandleRow, where, None, 1)):
        handle = handle_of(row)
        parts = content_of((yield from event_at(place.scope.stream, handle.at)))
        if codec.digest(parts) != handle.digest and not row.result:
            raise errors.StorageCorrupt(where=f"the handle {name}", reason="its content is not what its digest says")
        ref = (yield from _archived(place.context, parts)) if residency == "paged_out" else None
        frame = handle.frame or ""
        command = ReplaceHandle(
            scope=place.scope, frame=frame, handle=name, residency=residency, tier=tier, ref=ref, size=size_of(parts)
        )
        yield from order(place, command, key=key, bodies=[] if ref is None else [ref])
        return (yield from find_handle(place, name))
    raise HandleNotFound(session=place.scope.session, handle=name)


def _archived(context: Context, parts: tuple[Part, ...]) -> Flow[BlobRef]:
    """A piece in the blob store, as the log has it."""
    data = codec.encode(parts)
    return (yield from effects.outside(functools.partial(context.bodies.put, context.tenant, data, "application/json")))


def piece(place: Place, handle: Handle | str) -> Flow[Handle]:
    """A piece of a message by its handle, wherever it is now: `collapsed` if a summary stands for its message."""
    name = handle.id if isinstance(handle, Handle) else handle
    found = piece_of(name) if type(name) is str else None
    if found is None:
        given = name if type(name) is str else errors.shown(name)
        raise errors.InvalidName(what="handle", value=given, reason="it is h, a number, _ and a number", limit=40)
    message, parts, call = yield from piece_at(place.scope, *found)
    state = yield from load(place.scope.stream, place.context.cache, fresh=True)
    known = by_message(state.view(message.frame).reduced).get(message.seq, {})
    known_as = _handle(place.context, message, found[1], parts, call, known.get(found[1]))
    gone = message.seq <= state.start or covering(state.summaries_of(message.frame), message.seq) is not None
    return msgspec.structs.replace(known_as, residency="collapsed") if gone else known_as


def pieces(place: Place) -> Flow[list[Handle]]:
    """The handles of what is in view, oldest first: tool results, and what else is in the blob store or reduced.

    `residency` says which of them take room in the context; `read_handle`, `read_text` and page_in() take their ids."""
    return (yield from steady(place, lambda state: _pieces(place, state)))


def _pieces(place: Place, state: SessionState) -> Flow[list[Handle]]:
    items = yield from in_view(place, state)
    reductions = by_message(state.view(place.frame).reduced)
    found: list[Handle] = []
    for item in items:
        for message in item.messages if isinstance(item, Unit) else ():
            known = reductions.get(message.seq, {})
            for number, parts, call in pieces_of(message):
                if call is not None or number in known or _stored(parts):
                    found.append(_handle(place.context, message, number, parts, call, known.get(number)))
    return found


def _handle(
    context: Context, message: Message, number: int, parts: tuple[Part, ...], call: str | None, how: Reduction | None
) -> Handle:
    if how is None:
        how = Reduction(
            message=message.seq,
            piece=number,
            form="spool",
            tokens=ingest.count_parts(context.counter, parts),
            size=size_of(parts),
            digest=codec.digest(parts),
            ref=ref_of(parts),
            source=call,
        )
        return piece_handle(how, message.frame, "spooled_out" if _stored(parts) else "resident")
    if how.form == "whole":
        how = msgspec.structs.replace(how, tokens=how.tokens - how.saved)
    forms: dict[str, Residency] = {"page": "paged_out", "whole": "resident"}
    return piece_handle(how, message.frame, forms.get(how.form, "spooled_out"))


def occupancy(place: Place) -> Flow[Occupancy]:
    """What takes how much of the context, and what was taken out of it."""
    return (yield from steady(place, lambda state: _occupancy(place, state)))


def _occupancy(place: Place, state: SessionState) -> Flow[Occupancy]:
    found = yield from history_at(place, state)
    measure = functools.partial(calibrated, state.calibration)
    view = state.view(place.frame)
    system = sum(measure(each.tokens, 1) for each in found.system)
    summaries = [item for item in found.items if isinstance(item, Summary)]
    condensed = sum(measure(item.tokens, 1) for item in summaries)
    paged = sum(each.saved for each in view.reduced if each.form == "page")
    pieces = yield from _pieces(place, state)
    added = yield from _added_handles(place, found.items)
    return Occupancy(
        tokens=found.tokens,
        system=system,
        summaries=condensed,
        messages=found.tokens - system - condensed,
        resident_tokens=sum(each.tokens for each in (*found.system, *found.items)) + _tokens_of(added, "resident"),
        spooled_tokens=sum(each.saved for each in view.reduced if each.form in ("excerpt", "snip", "spool")),
        paged_tokens=paged + _tokens_of(added, "paged_out"),
        collapsed_tokens=sum(item.replaced for item in summaries) + _tokens_of(added, "collapsed"),
        handles=len(pieces) + len(added),
        folded=sum(item.messages for item in summaries),
        boundary=view.boundary,
    )


def _tokens_of(handles: list[Handle], residency: Residency) -> int:
    return sum(each.tokens for each in handles if each.residency == residency)


def _added_handles(place: Place, items: Sequence[Item]) -> Flow[list[Handle]]:
    """What was added to the frame, but for results that stand in the history anyway."""
    if place.frame is None:
        return []
    results = (
        result for item in items if isinstance(item, Unit) for each in item.messages for result in each.tool_results
    )
    in_view = {result.tool_call_id for result in results}
    found = page = yield from handles(place, limit=limits.READ_EVENTS)
    while len(page) == limits.READ_EVENTS:
        page = yield from handles(place, before=page[0].id, limit=limits.READ_EVENTS)
        found = page + found
    return [each for each in found if each.source not in in_view]
