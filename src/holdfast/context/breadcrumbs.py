"""What a pack says of frames: to a frame, which ones it stands in; to a session, which ones are live.

Laws: what is listed is bounded in number and in tokens, however many frames live; a frame that is listed comes after the
one above it, which is listed too; the rest are counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.context.assemble import Piece
from holdfast.core import stack
from holdfast.core.situation import one_line, shortened
from holdfast.core.stack import Frames
from holdfast.model import limits
from holdfast.model.frames import FrameState, frame_seq

_SHARE = 16
"""Live frames take up to one in so many tokens of a session's pack."""
_GOAL_CHARS = 240
_REASON_CHARS = 120
_NAMED = 5
"""Frames that one is said to wait for."""
_INDENTED = 8
"""Levels that are shown by indentation; what lies deeper stands under the last of them."""


def ancestry_pieces(frames: Frames, frame: str) -> list[Piece]:
    """The frames from the root to this one."""
    pieces: list[Piece] = []
    for each in stack.ancestry(frames, frame):
        label = f"{'  ' * each.depth}- {each.id} ({each.status}): "
        left = f" [{each.budget.available:,} of {each.budget.total:,} tokens left]" if each.budget.total else ""
        pieces.append(_piece(each, label, f"{one_line(each.goal)}{left}"))
    return pieces


def live_pieces(frames: Frames, budget: int, count: Callable[[str], int]) -> list[Piece]:
    """The live frames of a session, for the session's own pack of so many tokens: those with the newest activity, and the
    ones above them."""
    if not frames:
        return []
    newest = heapq.nlargest(limits.PACK_FRAMES, frames.values(), key=lambda each: (each.touched, frame_seq(each.id)))
    near = {each.id: each for frame in newest for each in stack.ancestry(frames, frame.id)}
    children: dict[str, list[str]] = {name: [] for name in near}
    for each in frames.values():
        if each.parent in children:
            children[each.parent].append(each.id)
    left, chosen = budget // _SHARE, dict[str, Piece]()
    for frame in newest:
        new = [each for each in stack.ancestry(frames, frame.id) if each.id not in chosen]
        pieces = [_live_piece(each, children[each.id]) for each in new]
        size = sum(count(each.text) for each in pieces)
        if len(chosen) + len(new) <= limits.PACK_FRAMES and size <= left:
            chosen |= {each.id: each for each in pieces}
            left -= size
    found = [chosen[name] for name in _in_order([near[name] for name in chosen])]
    return [*found, *_rest(len(frames) - len(found), len(found))]


def _in_order(frames: Iterable[FrameState]) -> Iterator[str]:
    """These, each right before those below it, the oldest first."""
    children = stack.children_of({each.id: each for each in frames})
    ahead = children.get(None, [])[::-1]
    while ahead:
        frame = ahead.pop()
        yield frame.id
        ahead += children.get(frame.id, [])[::-1]


def _live_piece(frame: FrameState, children: Sequence[str]) -> Piece:
    status: str = frame.status
    if status == "waiting":
        more = f" and {len(children) - _NAMED:,} more" if len(children) > _NAMED else ""
        named = heapq.nsmallest(_NAMED, children, key=frame_seq)
        status = f"waiting for {', '.join(named)}{more}"
    label = f"{'  ' * min(frame.depth, _INDENTED)}- {frame.id} ({status}): "
    goal = shortened(one_line(frame.goal), _GOAL_CHARS)
    rest = frame.suspension
    reason = "" if rest is None else shortened(one_line(rest.reason), _REASON_CHARS)
    return _piece(frame, label, f"{goal} [reason: {reason}]" if reason else goal)


def _rest(more: int, listed: int) -> list[Piece]:
    if not more:
        return []
    what = "frame is live" if more == 1 else "frames are live"
    text = f"- and {more:,} more {'frame' if more == 1 else 'frames'}" if listed else f"- {more:,} {what}"
    return [Piece(id="other frames", section="breadcrumbs", text=text, priority="high", recency=-1, source="frames")]


def _piece(frame: FrameState, label: str, text: str) -> Piece:
    return Piece(
        id=frame.id,
        section="breadcrumbs",
        text=f"{label}{text}",
        label=len(label),
        priority="high",
        recency=frame.depth,
        source="frame",
        at=frame.touched,
        origin=frame_seq(frame.id),
    )
