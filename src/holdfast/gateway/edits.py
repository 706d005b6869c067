"""Change a request as a view says: replace slices of its bytes, and nothing else.

Laws:
- Without removed and replaced pieces, the same bytes object comes back.
- All bytes outside of the edited slices stay, in their order, whitespace included.
- The same view on a request that goes on with more messages gives bytes that begin with the same edited messages.
- The result is JSON with no empty list of blocks and no comma too many. Whether calls and results are in pairs is the
  caller's business.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.gateway.bodies import elements, is_array, members
from holdfast.gateway.model import ClientMessage, ClientRequest, SentView, Slice

_MARKS = 4
"""Cache marks that a request may have."""
_VIEWS = 32
"""The views whose removals are known."""
_ALL = 1 << 62
_LISTS = frozenset({"content", "tool_calls"})
"""Fields of a message whose elements are pieces."""
_PLAIN_MARK = b'{"type":"ephemeral"}'
_BRIDGE = b'{"role":"assistant","content":"(My earlier replies are in the summary.)"}'
"""Stands between a system message and a message of the user, where replies were removed."""


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
    return body if text is None else splice(body, [Edit(*request.array, text)])


def _replace_pieces(request: ClientRequest, view: SentView) -> list[Edit]:
    edits = []
    for (number, piece), text in view.replaced.items():
        content = request.messages[number].pieces[piece].content
        if content is not None and (number, piece) not in view.removed:
            edits.append(Edit(*content, text))
    return edits


class _Removal(NamedTuple):
    """What a view removes from a list of messages, by their numbers, wherever they stand in a body."""

    runs: list[tuple[int, int]]
    """The first and the last of messages in a row that are removed as a whole."""
    parts: dict[int, set[int]]
    """The pieces that are removed from a message of which others stay."""
    gaps: list[int]
    """Where a message of the user would follow a system message, because the replies between them are removed."""


class _Removals:
    """The removals of the views that were used last: a view is the same for many requests. Threads can share it. A view
    itself is large, and lives no longer for it."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, bytes], tuple[weakref.ref[SentView], _Removal]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, request: ClientRequest, view: SentView) -> _Removal:
        # A removal depends on the messages up to the first one that the view does not reach.
        key = id(view), request.chain[min(view.depth or _ALL, len(request.chain) - 1)]
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0]() is view:
            return known[1]
        removal = _build_removal(request, view)
        with self._lock:
            self._known[key] = weakref.ref(view), removal
            while len(self._known) > _VIEWS:
                self._known.popitem(last=False)
        return removal


_REMOVALS = _Removals()


def _build_removal(request: ClientRequest, view: SentView) -> _Removal:
    removed: dict[int, set[int]] = {}
    for number, piece in view.removed:
        removed.setdefault(number, set()).add(piece)
    runs: list[tuple[int, int]] = []
    parts: dict[int, set[int]] = {}
    for number in sorted(removed):
        if len(removed[number]) < len(request.messages[number].pieces):
            parts[number] = removed[number]
        elif runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    gone = {number for number in removed if number not in parts}
    gaps = _find_gaps(request, gone, min(removed) if removed and view.summary else -1)
    return _Removal(runs, parts, gaps)


def _remove_pieces(body: bytes, request: ClientRequest, view: SentView, *, mark: bool) -> list[Edit]:
    removal = _REMOVALS.find(request, view)
    runs, parts, gaps = removal
    if not runs and not parts:
        return []
    first = min([*parts, *(start for start, _ in runs)])
    edits: list[Edit] = []
    summary = _build_summary(request, view.summary, mark=mark) if view.summary else b""
    for number in gaps:
        if number == first and summary:
            summary = _BRIDGE + b"," + summary
        else:
            at = request.messages[number].at.start
            edits.append(Edit(at, at, _BRIDGE + b","))
    for run in runs:
        edits.append(_remove_run(request, run, summary if run[0] == first else b"", has_kept=bool(summary or run[0])))
    for number, pieces in parts.items():
        message, text = request.messages[number], summary if number == first else b""
        if _is_reply_of_items(message):
            has_kept = bool(summary) or (number > 0 and runs[:1] != [(0, number - 1)])
            edits += _remove_items(request, number, pieces, text, has_kept=has_kept)
        else:
            edits += [Edit(message.at.start, message.at.start, text + b",")] if text else []
            edits += _edit_message(body, message, pieces)
    return edits


def _remove_run(request: ClientRequest, run: tuple[int, int], text: bytes, *, has_kept: bool) -> Edit:
    """Remove messages in a row with their commas, or put a text in their place. `has_kept`: something stands before."""
    messages, (first, last) = request.messages, run
    if text:
        return Edit(messages[first].at.start, messages[last].at.end, text)
    if has_kept:
        return Edit(messages[first - 1].at.end, messages[last].at.end)
    end = messages[last + 1].at.start if last + 1 < len(messages) else messages[last].at.end
    return Edit(messages[first].at.start, end)


def _remove_items(request: ClientRequest, number: int, pieces: set[int], text: bytes, *, has_kept: bool) -> list[Edit]:
    """Remove some items of a reply."""
    message = request.messages[number]
    slots = [piece.at for piece in message.pieces]
    gone = {slots[piece] for piece in pieces}
    before = request.messages[number - 1].at if number else None
    return _remove_elements(slots, gone, message.at.start, text, before=before, has_kept=has_kept)


def _find_gaps(request: ClientRequest, gone: set[int], summary_at: int) -> list[int]:
    """The messages of the user that would follow a system message, because the replies between them are removed.

    Anthropic takes a system message only before a reply, or as the last message."""
    if request.dialect != "anthropic":
        return []
    gaps: list[int] = []
    role, has_gap = "", False
    for number, message in enumerate(request.messages):
        if number == summary_at:
            if role == "system":
                gaps.append(number)
            role, has_gap = "user", False
        if number in gone:
            has_gap = has_gap or message.role == "assistant"
            continue
        if role == "system" and has_gap and message.role not in ("assistant", "system"):
            gaps.append(number)
        role, has_gap = message.role, False
    return gaps


def _is_reply_of_items(message: ClientMessage) -> bool:
    return message.pieces[0].at.start == message.at.start


def _remove_elements(
    slots: Sequence[Slice],
    gone: set[Slice],
    at: int,
    text: bytes,
    *,
    before: Slice | None = None,
    has_kept: bool = False,
) -> list[Edit]:
    """Remove elements with their commas, and put one in at a place: instead of what stood there, or before it. `before` is
    the element before these; `has_kept`: something stands before them."""
    edits = []
    previous = before
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


def _build_summary(request: ClientRequest, text: bytes, *, mark: bool) -> bytes:
    if request.dialect == "chat":
        return b'{"role":"user","content":' + text + b"}"
    if request.dialect == "responses":
        return b'{"type":"message","role":"user","content":[{"type":"input_text","text":' + text + b"}]}"
    end = b""
    if mark and _has_room_for_mark(request):
        end = b',"cache_control":' + (request.mark or _PLAIN_MARK)
    return b'{"role":"user","content":[{"type":"text","text":' + text + end + b"}]}"


def _has_room_for_mark(request: ClientRequest) -> bool:
    return request.dialect == "anthropic" and 0 < request.marks < _MARKS


def has_own_mark(request: ClientRequest, view: SentView) -> bool:
    """Whether a request with this view has a cache mark that the client did not set."""
    return bool(view.summary) and _has_room_for_mark(request)


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
