"""Handles: what is in view, what is not, and the way out and back in.

Law: page-out and then page-in is the identity, checked by digest.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import get_args

import msgspec

from holdfast import codec, errors
from holdfast.core import boundaries
from holdfast.core.previews import is_text
from holdfast.core.project import piece_handle
from holdfast.core.sessions import check_open
from holdfast.core.shown import by_message, digest_of, pieces_of, reduced_text, ref_of, size_of, stored_in
from holdfast.core.stack import content_of
from holdfast.core.summaries import covering
from holdfast.core.units import group_seq
from holdfast.errors import HandleNotFound, InvalidContent
from holdfast.flows import effects, ingest
from holdfast.flows.effects import Flow
from holdfast.flows.frames import checked_handle, find_handle, one_of
from holdfast.flows.history import in_view, read_whole
from holdfast.flows.inform_frames import event_at, handle_of, session_where
from holdfast.flows.load import load
from holdfast.flows.place import Context, Place, order
from holdfast.flows.read import message as message_of
from holdfast.flows.read import piece_at
from holdfast.flows.views import steady
from holdfast.model.commands import MoveHandle, ReplaceHandle
from holdfast.model.content import BlobRef, Body, File, Image, Opaque, Part
from holdfast.model.handles import SCORES, Handle, Priority, handle_seq, piece_of
from holdfast.model.messages import Message, Unit
from holdfast.model.names import check_size
from holdfast.model.plan import Form, Reduction, Residency, Tier
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
    priority = yield from _priority_of(place, message)
    _check_movable(name, message, parts, residency, priority)
    counter = place.context.counter
    ref = ref_of(parts)
    recorded, whole = ingest.count_parts(counter, parts), ingest.count_whole(counter, parts)
    form: Form = "page"
    if residency == "resident":
        yield from _check_archived(place, message, found[1])
        form = "whole" if stored_in(parts) else "page"
    elif ref is None:
        ref = yield from _archived(place.context, parts)
    piece = Reduction(
        message=message.seq,
        piece=found[1],
        form=form,
        tokens=recorded,
        whole=whole if stored_in(parts) else 0,
        size=size_of(parts),
        digest=digest_of(parts),
        ref=ref,
        tier=tier,
        source=call,
    )
    now = whole if form == "whole" else recorded
    if residency == "paged_out":
        now = counter.count(reduced_text(parts, piece, name))
        if now >= whole and not any(isinstance(part, Image | File) for part in parts):
            reason = f"{name} has {whole} tokens, and the line that would stand for it {now}: leave it where it is"
            raise InvalidContent(reason=reason)
    piece = msgspec.structs.replace(piece, saved=recorded - now)
    command = MoveHandle(scope=place.scope, frame=message.frame, residency=residency, piece=piece)
    yield from order(place, command, key=key, bodies=[] if ref is None else [ref])
    return piece_handle(piece, message.frame, residency, priority)


def _priority_of(place: Place, message: Message) -> Flow[Priority]:
    """The priority of the unit of a message: the highest of its messages' as far as the call and this result say."""
    found = message.priority
    if group_seq(message) != message.seq:
        for recorded in (yield from effects.read(place.scope.stream, group_seq(message) - 1, 1)):
            found = max(found, message_of(recorded).priority, key=SCORES.__getitem__)
    return found


def _check_movable(
    name: str, message: Message, parts: tuple[Part, ...], residency: Residency, priority: Priority
) -> None:
    """What is Critical is always in view; a provider's own parts, and what is signed with them, stay as they are; what is
    no text is not shown as text."""
    if residency == "paged_out" and priority == "critical":
        raise InvalidContent(reason=f"{name} is Critical, and Critical content is always shown: leave it in view")
    own = parts if message.tool_results else message.content
    if residency == "paged_out" and any(isinstance(part, Opaque) for part in own):
        raise InvalidContent(
            reason=f"{name} belongs to a provider's own parts, which are never edited: leave it, or fold it"
        )
    for part in parts if residency == "resident" else ():
        if not isinstance(part, Body):
            continue
        if not is_text(part.ref):
            kind = part.ref.media_type or "binary"
            raise InvalidContent(reason=f"{name} is no text but {kind}: read_text() shows its bytes")
        check_size(name, part.ref.size, "bytes", "WHOLE_BYTES", "Read in it: read_text().")


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
        if digest_of(parts) != handle.digest and not row.result:
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
    priority = yield from _priority_of(place, message)
    known_as = _handle(place.context, message, found[1], parts, call, known.get(found[1]), priority)
    gone = message.seq <= state.start or covering(state.summaries_of(message.frame), message.seq) is not None
    return msgspec.structs.replace(known_as, residency="collapsed") if gone else known_as


def pieces(place: Place) -> Flow[list[Handle]]:
    """The handles of what is in view, oldest first: tool results, and what else is in the blob store or reduced.

    `residency` says which of them take room in the context; `read_handle`, `read_text` and page_in() take their ids."""
    return (yield from steady(place, lambda state: _pieces(place, state)))


def _pieces(place: Place, state: SessionState) -> Flow[list[Handle]]:
    items = yield from in_view(place, state)
    reductions = by_message(state.view(place.frame).reduced)
    return [
        each
        for item in items
        if isinstance(item, Unit)
        for message in item.messages
        for each in handles_in(place.context, message, reductions.get(message.seq, {}), item.priority)
    ]


def handles_in(
    context: Context, message: Message, known: Mapping[int, Reduction], priority: Priority = "medium"
) -> Iterator[Handle]:
    """The handles of a message: tool results, and what else is stored as a blob or reduced."""
    for number, parts, call in pieces_of(message):
        if call is not None or number in known or stored_in(parts):
            yield _handle(context, message, number, parts, call, known.get(number), priority)


def _handle(
    context: Context,
    message: Message,
    number: int,
    parts: tuple[Part, ...],
    call: str | None,
    how: Reduction | None,
    priority: Priority,
) -> Handle:
    whole = ingest.count_whole(context.counter, parts) if stored_in(parts) else 0
    if how is None:
        how = Reduction(
            message=message.seq,
            piece=number,
            form="spool",
            tokens=ingest.count_parts(context.counter, parts),
            whole=whole,
            size=size_of(parts),
            digest=digest_of(parts),
            ref=ref_of(parts),
            source=call,
        )
        return piece_handle(how, message.frame, "spooled_out" if stored_in(parts) else "resident", priority)
    forms: dict[str, Residency] = {"page": "paged_out", "whole": "resident"}
    how = msgspec.structs.replace(how, whole=whole)
    return piece_handle(how, message.frame, forms.get(how.form, "spooled_out"), priority)
