"""The tree of live frames: order, descendants, ancestry and the top of the stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from holdfast.model.content import Part, Text
from holdfast.model.events import Event
from holdfast.model.frames.events import (
    FramePopped,
)
from holdfast.model.frames.frames import (
    FrameLimits,
    FrameState,
    frame_seq,
)
from holdfast.model.history.events import HandleAdded, HandleReplaced

FrameMap: TypeAlias = Mapping[str, FrameState]
_MAX_NAMED = 10


def sort_by_age(frames: FrameMap) -> list[FrameState]:
    """The oldest first; a parent always comes before its children."""
    return sorted(frames.values(), key=lambda frame: (len(frame.id), frame.id))


def group_by_parent(frames: FrameMap) -> dict[str | None, list[FrameState]]:
    """The live frames by their parents."""
    groups: dict[str | None, list[FrameState]] = {}
    for frame in sort_by_age(frames):
        groups.setdefault(frame.parent, []).append(frame)
    return groups


def format_ids(frames: Sequence[FrameState]) -> str:
    """The ids of the first frames, for people to read."""
    more = f" and {len(frames) - _MAX_NAMED} more" if len(frames) > _MAX_NAMED else ""
    return ", ".join(each.id for each in frames[:_MAX_NAMED]) + more


def find_descendants(frames: FrameMap, frame: str) -> list[FrameState]:
    """All live frames below one, the deepest first."""
    if not frames[frame].children:
        return []
    children = group_by_parent(frames)
    descendants: list[FrameState] = []
    level = children.get(frame, [])
    while level:
        descendants += level
        level = [child for each in level for child in children.get(each.id, [])]
    return descendants[::-1]


def is_blocked_by_suspension(frames: FrameMap, frame: str) -> bool:
    """Whether a frame waits only for suspended frames."""
    inner = find_descendants(frames, frame)
    return bool(inner) and all(each.suspension is not None or each.children for each in inner)


def find_ancestry(frames: FrameMap, frame: str) -> list[FrameState]:
    """The frames from the root to this one."""
    path: list[FrameState] = []
    at: str | None = frame
    while at is not None and at in frames:
        path.append(frames[at])
        at = frames[at].parent
    return path[::-1]


def find_top(frames: FrameMap) -> FrameState | None:
    """The top of the stack: the frame, not suspended, with the newest activity; of several, the deepest and newest."""
    working = [frame for frame in frames.values() if frame.status != "suspended"]
    newest = max((frame.touched for frame in working), default=0)
    latest = (frame for frame in working if frame.touched == newest)
    return max(latest, key=lambda frame: (frame.depth, frame_seq(frame.id)), default=None)


def is_narrower(inner: FrameLimits, outer: FrameLimits) -> bool:
    """Whether no limit of the inner frame is wider than that of the outer one."""
    pairs = ((inner.max_tool_calls, outer.max_tool_calls), (inner.timeout_us, outer.timeout_us))
    return inner.max_subframe_depth <= outer.max_subframe_depth and all(
        wide is None or (narrow is not None and narrow <= wide) for narrow, wide in pairs
    )


def latest_token_expiry(frames: FrameMap) -> int | None:
    """When the last valid token of these frames expires; None for never, 0 if there is none."""
    until = 0
    for frame in frames.values():
        suspension = frame.suspension
        if suspension is not None and suspension.digest and not suspension.revoked:
            if suspension.expires_us is None:
                return None
            until = max(until, suspension.expires_us)
    return until


def content_of(event: Event | None) -> tuple[Part, ...]:
    """The content of the event that a handle points to."""
    if isinstance(event, HandleAdded | HandleReplaced):
        return event.content or ()
    if isinstance(event, FramePopped):
        return (Text(event.summary), *event.result) if event.summary else event.result
    return ()


def ending_of(event: Event | None) -> str:
    """The ending of the child frame whose result the event has; empty for other events."""
    if isinstance(event, FramePopped):
        return event.status
    return event.result if isinstance(event, HandleReplaced) else ""
