"""The history view of a session as changes to a client's request.

A session says which of its messages a summary replaces, and which tool results are shown shorter. Here these become
pieces of the client's list, by the places where its messages were recorded.

Laws: a call is removed with its result, or neither is. A boundary removes nothing from the last reply on. A message that
must stay does, and so do the calls and results beside it. The same log gives the same view, however long the list is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.core.history.views import reduction_text
from holdfast.gateway.lines import Line
from holdfast.gateway.model import ClientMessage, ClientRequest, SentView
from holdfast.model.history.handles import piece_id
from holdfast.model.history.plans import Reduction
from holdfast.model.history.views import SUMMARY_LABEL

_encode = msgspec.json.Encoder().encode


class FoldedRange(NamedTuple):
    """The messages from one seq to another are replaced by a summary, except those that are kept."""

    first: int
    last: int
    kept: frozenset[int]
    at: int
    """The seq of the event that made the summary."""

    def has(self, seq: int) -> bool:
        return self.first <= seq <= self.last and seq not in self.kept


class ViewChanges(NamedTuple):
    """What a session changes in its history view."""

    boundary: int
    folded: tuple[FoldedRange, ...] = ()
    texts: tuple[str, ...] = ()
    reduced: tuple[Reduction, ...] = ()


def read_changes(line: Line) -> ViewChanges:
    """The changes in effect, as the log has them."""
    state = line.session.state()
    view = state.view(line.frame)
    refs = state.summaries_of(line.frame)
    boundary = max([state.changed, view.boundary, *(ref.seq for ref in refs)])
    if not refs and not view.reduced:
        return ViewChanges(boundary)
    summaries = line.conversation.context.summaries()
    if [(each.first, each.last) for each in summaries] != [(ref.first, ref.last) for ref in refs]:
        return read_changes(line)  # another process made a boundary between the two reads
    texts = tuple(summary.text for summary in summaries)
    folded = tuple(FoldedRange(ref.first, ref.last, frozenset(ref.kept), ref.seq) for ref in refs)
    return ViewChanges(boundary, folded, texts, view.reduced)


def build_view(
    line: Line,
    request: ClientRequest,
    changes: ViewChanges,
    *,
    notes: str = "",
    reword: Callable[[str], str] = str,
) -> SentView:
    """The changes as pieces of the client's list. `notes` stands behind the summary; `reword` names how originals are
    read."""
    staying = _find_staying(line, request.messages)
    removed: set[tuple[int, int]] = set()
    for folded in changes.folded:
        for index in range(min(_find_last_reply(line, folded.at), len(request.messages))):
            for place in line.places[index] if index not in staying else ():
                if folded.has(place.seq):
                    is_reply = line.nodes[index].role == "assistant"
                    pieces = range(len(request.messages[index].pieces)) if is_reply else place.pieces
                    removed.update((index, piece) for piece in pieces)
    replaced = {
        at: _encode(reword(text))
        for at, text in _read_reductions(line, changes.reduced).items()
        if at not in removed and at[0] not in staying
    }
    earlier = _note_earlier(request.messages, {index for index, _ in removed})
    text = "\n\n".join(filter(None, (*map(reword, changes.texts), notes, earlier)))
    indexes = [index for index, _ in (*removed, *replaced)]
    return SentView(
        summary=_encode(f"{SUMMARY_LABEL}{text}") if removed else b"",
        removed=frozenset(removed),
        replaced=replaced,
        depth=max(indexes, default=-1) + 1,
    )


def _note_earlier(messages: Sequence[ClientMessage], removed: set[int]) -> str:
    """What to say of messages of the user that stay among removed ones: they stand behind the summary, which has what was
    done for them."""
    between = range(min(removed, default=0), max(removed, default=0))
    asked = [messages[index] for index in between if index not in removed and messages[index].role == "user"]
    count = sum(all(piece.kind != "result" for piece in message.pieces) for message in asked)
    if not count:
        return ""
    which = "message of the user below, which is not a new request" if count == 1 else ""
    which = which or f"{count} messages of the user below, which are not new requests"
    return f"Some of this was done after the first {which}."


def _find_last_reply(line: Line, before: int) -> int:
    """The number of the last reply that was recorded before an event; 0 for none."""
    found = 0
    for index, (node, places) in enumerate(zip(line.nodes, line.places, strict=True)):
        if places[0].seq > before:
            break
        if node.role == "assistant":
            found = index
    return found


def _find_staying(line: Line, messages: Sequence[ClientMessage]) -> set[int]:
    """The messages that stay as they are, with those that make or answer the same calls."""
    staying: set[int] = set()
    groups = _group_calls(messages)
    for index, message in enumerate(messages):
        is_lost = index < len(line.places) and any(place.is_lost for place in line.places[index])
        if message.stays or is_lost:
            staying |= groups.get(index, {index})
    return staying


def _group_calls(messages: Sequence[ClientMessage]) -> dict[int, set[int]]:
    """For each message with calls or results, the messages of the same group: the calls of one reply, and their results."""
    groups: dict[int, set[int]] = {}
    owner: dict[str, int] = {}
    for index, message in enumerate(messages):
        for piece in message.pieces:
            if piece.kind == "call":
                owner[piece.call] = index
                groups.setdefault(index, {index})
            elif piece.kind == "result" and piece.call in owner:
                group = groups[owner[piece.call]]
                group |= groups.get(index, set()) | {index}
                for member in group:
                    groups[member] = group
    return groups


def _read_reductions(line: Line, reduced: Iterable[Reduction]) -> dict[tuple[int, int], str]:
    """The texts of shortened tool results, by their places in the client's list."""
    where = {place.seq: (index, place.pieces) for index, places in enumerate(line.places) for place in places}
    texts: dict[tuple[int, int], str] = {}
    for reduction in reduced:
        found = where.get(reduction.message)
        if found is None or reduction.piece != 0 or len(found[1]) != 1 or reduction.form == "whole":
            continue
        index, (piece,) = found
        for message in line.session.messages(before=reduction.message + 1, limit=1):
            for result in message.tool_results[:1]:
                handle = piece_id(message.seq, 0)
                texts[index, piece] = reduction_text(result.content, reduction, handle)
    return texts


def is_sound(messages: Sequence[ClientMessage], view: SentView) -> bool:
    """Whether a provider takes a request with this view: every call that is left has its result, and the reverse; and
    no system message comes to stand behind a reply."""
    calls: dict[str, bool] = {}
    for index, message in enumerate(messages):
        for number, piece in enumerate(message.pieces):
            is_removed = (index, number) in view.removed
            if piece.kind == "call":
                calls[piece.call] = is_removed
            elif piece.kind == "result" and calls.get(piece.call, is_removed) != is_removed:
                return False
    return _has_sound_places(messages, view)


def _has_sound_places(messages: Sequence[ClientMessage], view: SentView) -> bool:
    first = min(view.removed, default=(-1, 0))[0]
    before = kept = ""
    for index, message in enumerate(messages):
        if index == first and view.summary:
            kept = "user"
        is_gone = all((index, piece) in view.removed for piece in range(len(message.pieces)))
        if message.role != "system":
            before = message.role
            kept = kept if is_gone else message.role
        elif kept == "assistant" and before != "assistant":
            return False
    return True


def count_saved(line: Line, view: SentView, changes: ViewChanges, count: Callable[[str], int]) -> int:
    """The tokens that a view takes out of a request, in the engine's count."""
    saved = -count(msgspec.json.decode(view.summary, type=str)) if view.summary else 0
    savings: Mapping[int, int] = {reduction.message: reduction.saved for reduction in changes.reduced}
    for index, places in enumerate(line.places):
        for place in places:
            if any((index, piece) in view.removed for piece in place.pieces):
                saved += place.tokens
            elif any((index, piece) in view.replaced for piece in place.pieces):
                saved += savings.get(place.seq, 0)
    return saved
