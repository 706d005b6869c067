"""What a pack says of frames: to a frame, which ones it stands in, its inputs and its live children; to a session, which
ones are live, and the results of finished ones.

Laws: what is listed is bounded in number and in tokens, however many frames live; a frame that is listed comes after the
one above it, which is listed too; the rest are counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast import codec
from holdfast.context.assemble import Piece
from holdfast.core import stack
from holdfast.core.shown import size_of
from holdfast.core.situation import one_line, shortened
from holdfast.core.stack import Frames
from holdfast.model import limits
from holdfast.model.content import Json, text_of
from holdfast.model.events import FramePopped
from holdfast.model.frames import FrameState, frame_seq

_SHARE = 16
"""Live frames take up to one in so many tokens of a session's pack."""
_GOAL_CHARS = 240
_REASON_CHARS = 120
_NAMED = 5
"""Frames that one is said to wait for."""
_INDENTED = 8
"""Levels that are shown by indentation; what lies deeper stands under the last of them."""
_LEAST_VALUE_CHARS = 16
"""Values of inputs are not shortened further: then the end of the line is cut."""
_RESULT_CHARS = (160, 1_000)
"""The least and the most that is shown of the result of a finished frame."""
NO_RESULT = "(no result)"


def ancestry_pieces(frames: Frames, frame: str) -> list[Piece]:
    """The frames from the root to this one."""
    pieces: list[Piece] = []
    for each in stack.ancestry(frames, frame):
        own = ", your current task" if each.id == frame else ""
        label = f"{'  ' * each.depth}- {each.id} ({each.status}{own}): "
        left = f" [{each.budget.available:,} of {each.budget.total:,} tokens left]" if each.budget.total else ""
        pieces.append(_piece(each, label, f"{one_line(each.goal)}{left}{_reason(each)}"))
    return pieces


def child_pieces(frames: Frames, frame: str, budget: int, count: Callable[[str], int]) -> list[Piece]:
    """The live frames below one, as the pack of a session lists its live frames."""
    return live_pieces({each.id: each for each in stack.below(frames, frame)}, budget, count)


def input_pieces(frame: FrameState, inputs: Json, budget: int, count: Callable[[str], int]) -> list[Piece]:
    """The inputs of a frame on one line, for its own pack of so many tokens; nothing if it has none."""
    if inputs is None:
        return []
    label = f"{'  ' * (frame.depth + 1)}Inputs: "
    whole = _inputs_text(inputs, None)
    text = _fit_inputs(inputs, whole, budget // _SHARE, count)
    shown, size = len(text.encode()), len(whole.encode())
    is_whole = text == whole
    return [
        Piece(
            id=f"{frame.id} inputs",
            section="breadcrumbs",
            text=f"{label}{text}",
            label=len(label),
            priority="high",
            recency=frame.depth,
            source="frame",
            at=frame.inputs_at,
            origin=frame.inputs_at,
            share=1.0 if is_whole else shown / size,
            partly="" if is_whole else f"shown in part: {shown:,} of {size:,} bytes",
        )
    ]


def _fit_inputs(inputs: Json, whole: str, room: int, count: Callable[[str], int]) -> str:
    """As much of the inputs as the room holds: the longest values are shortened first, then the end is cut."""
    text, chars = whole, len(whole)
    while count(text) > room and chars > _LEAST_VALUE_CHARS:
        chars //= 2
        text = _inputs_text(inputs, chars)
    while count(text) > room and len(text) > 1:
        text = shortened(text, len(text) // 2)
    return text


def _inputs_text(inputs: Json, chars: int | None) -> str:
    if isinstance(inputs, dict):
        return ", ".join(f"{one_line(name)} = {_value_text(value, chars)}" for name, value in inputs.items())
    return _value_text(inputs, chars)


def _value_text(value: Json, chars: int | None) -> str:
    text = one_line(value if isinstance(value, str) else codec.encode(value).decode())
    return text if chars is None else shortened(text, chars)


def finished_piece(frame: FrameState, ending: FramePopped, budget: int) -> Piece:
    """The result of a root frame that has ended, for the session's own pack of so many tokens, quoted as data."""
    least, most = _RESULT_CHARS
    parts = stack.content_of(ending)
    text, size = text_of(parts).strip(), size_of(parts)
    excerpt = shortened(text, max(least, min(most, budget // _SHARE)))
    shown = min(size, len(excerpt.encode()))
    is_whole = excerpt == text and shown == size
    lines = excerpt.splitlines() or [NO_RESULT]
    if not is_whole:
        lines.append(f"[only {shown:,} of {size:,} bytes are shown]")
    goal = shortened(one_line(frame.goal), _GOAL_CHARS)
    label = f"Finished work: {frame.id} "
    return Piece(
        id=frame.id,
        section="handles",
        text="\n".join([f"{label}'{goal}' ({ending.status}):", *(f"> {line}" for line in lines)]),
        label=len(label),
        recency=frame.touched,
        source=f"finished frame, {ending.status}",
        at=frame.touched,
        origin=frame_seq(frame.id),  # its goal is as old as the frame
        share=1.0 if is_whole else shown / size,
        partly="" if is_whole else f"{shown:,} of {size:,} bytes shown",
    )


def live_pieces(frames: Frames, budget: int, count: Callable[[str], int]) -> list[Piece]:
    """These live frames, for a pack of so many tokens: those with the newest activity, and the ones above them."""
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
    known = {each.id: each for each in frames}
    children = stack.children_of(known)
    ahead = [each for each in stack.by_age(known) if each.parent not in known][::-1]
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
    return _piece(frame, label, f"{shortened(one_line(frame.goal), _GOAL_CHARS)}{_reason(frame)}")


def _reason(frame: FrameState) -> str:
    """Why a frame is suspended; empty if it is not."""
    rest = frame.suspension
    reason = "" if rest is None else shortened(one_line(rest.reason), _REASON_CHARS)
    return f" [reason: {reason}]" if reason else ""


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
        at=frame_seq(frame.id),
        origin=frame_seq(frame.id),
    )
