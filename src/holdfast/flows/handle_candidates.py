"""Handles as candidates for a pack: those in reach of its frame, and those that were asked for by name.

Laws: a handle is shown whole if it takes no more than its share of the budget, else by a preview that the manifest tells
of; a Critical one is whole, or it is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec

from holdfast.context.assemble import Piece
from holdfast.context.breadcrumbs import NO_RESULT
from holdfast.core import stack
from holdfast.core.display import Amount, Display
from holdfast.core.previews import PREVIEW_TOKEN_BYTES, is_text, shown_as, shown_bytes
from holdfast.core.shown import Shown, describe_parts, share_of, size_of
from holdfast.errors import BlobNotFound, CriticalOverflow, HandleNotFound, InvalidContent
from holdfast.flows import effects
from holdfast.flows.bodies import displayer, read_start
from holdfast.flows.candidates import fitting
from holdfast.flows.effects import Flow
from holdfast.flows.frames import checked_handle, handles, read_handle
from holdfast.flows.inform_frames import event_at, handle_of, session_where
from holdfast.flows.place import Place
from holdfast.flows.read import piece_at
from holdfast.model import limits
from holdfast.model.content import Body, Part, text_of
from holdfast.model.handles import Handle, handle_seq, piece_of
from holdfast.model.pack import Request
from holdfast.model.rows import HandleRow


def handle_pieces(
    place: Place, request: Request, calls: Callable[[], frozenset[str]], display: Display
) -> Flow[list[Piece]]:
    """What is in reach of the frame, and what was asked for by name; not what stands in the history anyway: `calls` tells
    whose results do."""
    fits = fitting(request.query)
    found: dict[str, Handle] = {}
    if place.frame is not None:
        found = {each.id: each for each in (yield from _in_reach(place))}
    pieces: list[Piece] = []
    in_view = calls() if found else frozenset()
    order = sorted(found.values(), key=lambda each: (-each.score, -fits(_about(each)), -each.at))
    for each in order:
        score = fits(_about(each))
        piece = _handle_piece(each, score, each.id in request.include)
        gone = "" if each.id in request.include else _left_out(each, score, in_view, request)
        if each.id in request.exclude:
            if each.priority == "critical" and not request.force:
                raise InvalidContent(reason=f"{each.id} is Critical: to exclude it, pass force=True")
            gone = "excluded by the request"
        if gone:
            pieces.append(_replaced(piece, gone=gone))
            continue
        takes = _shown_tokens(place, each, request)
        if takes > request.effective and not piece.wanted and each.priority != "critical":
            gone = f"does not fit: {takes:,} tokens, {each.priority} priority"
            pieces.append(_replaced(piece, gone=gone, too_large=True))
            continue
        pieces.append((yield from _read(place, each.id, piece, display, each)))
    for name in request.include:
        if name not in found:
            at = handle_seq(name) or (piece_of(name) or (0,))[0]
            piece = Piece(id=name, section="handles", text="", source=name, wanted=True, at=at, origin=at)
            if name in request.exclude:
                pieces.append(_replaced(piece, gone="excluded by the request"))
                continue
            result: Handle | None = None
            for added in (yield from _added(place, name)):
                piece = _replaced(piece, priority=added.priority)
                result = added if added.kind == "sub_agent_join" else None
            pieces.append((yield from _read(place, name, piece, display, result)))
    return pieces


def _added(place: Place, name: str) -> Flow[list[Handle]]:
    """A handle that was added to a frame, as its row has it."""
    if not handle_seq(name):
        return []
    where = session_where(place.scope) | {"handle": handle_seq(name)}
    return [handle_of(row) for row in (yield from effects.rows(HandleRow, where, None, 1))]


def _shown_tokens(place: Place, handle: Handle, request: Request) -> int:
    """About what a handle takes in the pack: its tokens, or those of a preview, if it is more than its share."""
    spooling = place.context.spooling
    if handle.priority == "critical" or handle.tokens <= request.effective * spooling.result_share:
        return handle.tokens
    return min(handle.tokens, spooling.preview_bytes(request.effective) // PREVIEW_TOKEN_BYTES)


def _in_reach(place: Place) -> Flow[list[Handle]]:
    """The newest handles of a frame; and of those before them, what is Critical."""
    page, most = (yield from handles(place, limit=limits.PACK_HANDLES)), limits.PACK_HANDLES
    found = [*page]
    while len(page) == most:
        most = limits.READ_EVENTS
        page = yield from handles(place, before=page[0].id, limit=most)
        found += (each for each in page if each.priority == "critical")
    return found


def _about(handle: Handle) -> str:
    return f"{handle.title} {handle.source or ''}"


def _handle_piece(handle: Handle, score: float, wanted: bool) -> Piece:
    title = " ".join(handle.title.split())  # anyone's text: it stays on its line
    origin = " ".join(filter(None, (handle.kind, f'"{title}"' if title else "", handle.source or "")))
    return Piece(
        id=handle.id,
        section="handles",
        text="",
        priority=handle.priority,
        score=score,
        recency=handle.at,
        source=origin,
        at=handle.at,
        origin=handle.at,
        wanted=wanted,
    )


def _left_out(handle: Handle, score: float, in_view: frozenset[str], request: Request) -> str:
    if handle.priority == "critical":
        return ""
    if not handle.occupies_context:
        return f"{handle.residency}: read_handle reads it"
    if handle.source in in_view:
        return "stands in the history"
    if score < request.profile.least_score:
        return f"does not fit the question ({score:.2f})"
    return ""


def _replaced(piece: Piece, **changes: object) -> Piece:
    return msgspec.structs.replace(piece, **changes)


def _read(place: Place, name: str, piece: Piece, display: Display, handle: Handle | None) -> Flow[Piece]:
    """The piece with its text, quoted as what it is: data, and where it is from. The `handle` says which event has it, if
    that is known."""
    partly: list[Shown] = []
    texts: list[str] = []
    origin, empty = piece.source, ""
    try:
        parts, ending = yield from _parts(place, name, handle)
        if ending and handle is not None:
            origin, empty = _describe_result(handle, ending), f" {NO_RESULT}"
        for part in parts:
            texts.append((yield from _text(place, part, name, piece.priority == "critical", display, partly)))
    except (HandleNotFound, BlobNotFound) as error:
        if piece.priority == "critical":
            raise
        return _replaced(piece, gone=str(error), fate="missing")
    lines = [f"> {line}" for text in texts for line in text.splitlines()]
    text = "\n".join([f"[{name}] {origin}:", *(lines or [f">{empty}"])])
    words = describe_parts(partly, display.readable) if partly else ""
    return _replaced(piece, text=text, label=len(f"[{name}] "), share=share_of(partly), partly=words)


def _describe_result(handle: Handle, ending: str) -> str:
    title = " ".join(handle.title.split())
    return " ".join(filter(None, ("Result of sub-task", handle.source, f"'{title}'" if title else "", f"({ending})")))


def _parts(place: Place, name: str, handle: Handle | None) -> Flow[tuple[Sequence[Part], str]]:
    """The content of a handle, and how the child ended that brought it; empty if none did."""
    if handle is not None:
        event = yield from event_at(place.scope.stream, handle.at)
        return stack.content_of(event), stack.ending_of(event)
    found = piece_of(name)
    if found is not None:
        _, parts, _ = yield from piece_at(place.scope, *found)
        return parts, ""
    return (yield from read_handle(place, checked_handle(name))), ""


def _text(place: Place, part: Part, name: str, critical: bool, display: Display, partly: list[Shown]) -> Flow[str]:
    """A part as it is shown; `partly` is told of a body that is shown in part."""
    if not isinstance(part, Body):
        return text_of([part])
    if critical and is_text(part.ref):
        _check_room(part, display)
        amount: Amount | None = Amount(part.ref, part.ref.size, True)
    else:
        amount = displayer(place, display).amount(part, place.context.spooling.result_share)
    shown: Part = part
    if amount is not None:
        start = yield from effects.outside(functools.partial(read_start, place.context, amount.ref, amount.size))
        shown, _ = displayer(place, display).part(part, start, amount.whole, name, "text")
    if not isinstance(shown, Body):
        return text_of([shown])
    partly.append(Shown(name, shown_bytes(shown), size_of([part])))
    return shown_as(shown, name, "text", readable=display.readable)


def _check_room(body: Body, display: Display) -> None:
    """What is Critical is whole, or it is an error: it is not read if it cannot fit."""
    budget = display.budget or 0
    if body.whole_tokens > budget or body.ref.size > limits.WHOLE_BYTES:
        raise CriticalOverflow(needed=max(body.whole_tokens, budget + 1), budget=budget)
