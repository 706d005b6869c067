"""Change a request as a view says: replace slices of its bytes, and nothing else.

Laws:
- Without removed and replaced pieces, the same bytes object comes back.
- All bytes outside of the edited slices stay, in their order, whitespace included.
- The same view on a request that goes on with more messages gives bytes that begin with the same edited messages.
- The result is JSON with no empty list of blocks and no comma too many. Whether calls and results are in pairs is the
  caller's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.gateway.bodies import elements, is_array, members
from holdfast.gateway.model import ClientMessage, ClientRequest, SentView, Slice

_MARKS = 4
"""Cache marks that a request may have."""
_LISTS = frozenset({"content", "tool_calls"})
"""Fields of a message whose elements are pieces."""
_PLAIN_MARK = b'{"type":"ephemeral"}'
_BRIDGE = b'{"role":"assistant","content":"(My earlier replies are in the summary.)"}'
"""Stands between a system message and a message of the user, where replies were removed."""
_encode = msgspec.json.Encoder().encode


class Edit(NamedTuple):
    """A replaced slice."""

    start: int
    end: int
    text: bytes = b""


def apply_view(
    body: bytes, request: ClientRequest, view: SentView, *, mark: bool, others: Sequence[Edit] = ()
) -> bytes:
    """The body with the view's changes: the removed pieces give way to one message with the summary, where the first of
    them stood, and replaced pieces have the shorter text.

    The view must fit the request: it names only messages and pieces that the request has. With `mark`, the summary of an
    Anthropic request has a cache mark, if the client uses some and one is left. `others` are edits outside of what the view
    changes; they come with it, or not at all."""
    if view.is_empty:
        return body
    if not is_array(body, request.array):  # an input that is one text
        return _edit_text(body, request, view)
    edits = [*_replace_pieces(request, view), *_remove_pieces(body, request, view, mark=mark)]
    return splice(body, [*edits, *others])


def _edit_text(body: bytes, request: ClientRequest, view: SentView) -> bytes:
    text = view.replaced.get((0, 0)) if (0, 0) not in view.removed else view.summary
    return body if text is None else splice(body, [Edit(*request.array, _encode(text))])


def _replace_pieces(request: ClientRequest, view: SentView) -> list[Edit]:
    edits = []
    for (number, piece), text in view.replaced.items():
        content = request.messages[number].pieces[piece].content
        if content is not None and (number, piece) not in view.removed:
            edits.append(Edit(*content, _encode(text)))
    return edits


def _remove_pieces(body: bytes, request: ClientRequest, view: SentView, *, mark: bool) -> list[Edit]:
    removed: dict[int, set[int]] = {}
    for number, piece in view.removed:
        removed.setdefault(number, set()).add(piece)
    if not removed:
        return []
    gone: set[Slice] = set()
    edits: list[Edit] = []
    for number, pieces in removed.items():
        message = request.messages[number]
        if len(pieces) == len(message.pieces):
            gone.update(_array_slices(message))
        elif _is_reply_of_items(message):
            gone.update(message.pieces[piece].at for piece in pieces)
        else:
            edits += _edit_message(body, message, pieces)
    first = request.messages[min(removed)]
    slots = [at for message in request.messages for at in _array_slices(message)]
    summary = _build_summary(request, view.summary, mark=mark) if view.summary else b""
    for at in _find_gaps(request, gone, first.at.start if summary else -1):
        if at == first.at.start and summary:
            summary = _BRIDGE + b"," + summary
        else:
            edits.append(Edit(at, at, _BRIDGE + b","))
    return edits + _remove_elements(slots, gone, first.at.start, summary)


def _find_gaps(request: ClientRequest, gone: set[Slice], summary_at: int) -> list[int]:
    """Where a message of the user would follow a system message, because the replies between them are removed.

    Anthropic takes a system message only before a reply, or as the last message."""
    if request.dialect != "anthropic":
        return []
    gaps: list[int] = []
    role, has_gap = "", False
    for message in request.messages:
        if message.at.start == summary_at:
            if role == "system":
                gaps.append(message.at.start)
            role, has_gap = "user", False
        if message.at in gone:
            has_gap = has_gap or message.role == "assistant"
            continue
        if role == "system" and has_gap and message.role not in ("assistant", "system"):
            gaps.append(message.at.start)
        role, has_gap = message.role, False
    return gaps


def _array_slices(message: ClientMessage) -> Sequence[Slice]:
    """The elements of the client's list that a message has: the items of a reply, or itself."""
    return [piece.at for piece in message.pieces] if _is_reply_of_items(message) else [message.at]


def _is_reply_of_items(message: ClientMessage) -> bool:
    return message.pieces[0].at.start == message.at.start


def _remove_elements(slots: Sequence[Slice], gone: set[Slice], at: int, text: bytes) -> list[Edit]:
    """Remove elements with their commas, and put one in at a place: instead of what stood there, or before it."""
    edits = []
    previous: Slice | None = None
    has_kept = False
    for number, slot in enumerate(slots):
        if slot.start == at and text:
            edits.append(
                Edit(slot.start, slot.end if slot in gone else slot.start, text if slot in gone else text + b",")
            )
            has_kept = True
        elif slot in gone and has_kept and previous is not None:
            edits.append(Edit(previous.end, slot.end))
        elif slot in gone:
            edits.append(Edit(slot.start, slots[number + 1].start if number + 1 < len(slots) else slot.end))
        else:
            has_kept = True
        previous = slot
    return edits


def _edit_message(body: bytes, message: ClientMessage, pieces: set[int]) -> list[Edit]:
    """Remove some pieces of a message; at least one stays."""
    gone = {message.pieces[piece].at for piece in pieces}
    kept = {piece.at for piece in message.pieces} - gone
    fields = members(body, message.at)
    edits: list[Edit] = []
    for name, at in fields.items():
        slots = elements(body, at) if name in _LISTS and is_array(body, at) else (at,)
        if gone.isdisjoint(slots):
            continue
        if not kept.isdisjoint(slots):
            edits += _remove_elements(slots, gone, -1, b"")
        elif name == "content":
            edits.append(Edit(*at, b"null"))
        else:
            edits.append(_remove_member(body, message.at, fields, name))
    return edits


def _remove_member(body: bytes, at: Slice, fields: dict[str, Slice], name: str) -> Edit:
    """Remove a member of an object that has others, with its comma."""
    names = list(fields)
    place = names.index(name)
    if place:
        return Edit(fields[names[place - 1]].end, fields[name].end)
    return Edit(at.start + 1, body.index(b",", fields[name].end) + 1)


def _build_summary(request: ClientRequest, summary: str, *, mark: bool) -> bytes:
    text = _encode(summary)
    if request.dialect == "chat":
        return b'{"role":"user","content":' + text + b"}"
    if request.dialect == "responses":
        return b'{"type":"message","role":"user","content":[{"type":"input_text","text":' + text + b"}]}"
    end = b""
    if mark and 0 < request.marks < _MARKS:
        end = b',"cache_control":' + (request.mark or _PLAIN_MARK)
    return b'{"role":"user","content":[{"type":"text","text":' + text + end + b"}]}"


def splice(body: bytes, edits: Sequence[Edit]) -> bytes:
    """The body with these edits, none of which overlap."""
    if not edits:
        return body
    parts = []
    position = 0
    for edit in sorted(edits):
        parts += [body[position : edit.start], edit.text]
        position = edit.end
    parts.append(body[position:])
    return b"".join(parts)
