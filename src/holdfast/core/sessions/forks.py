"""Forks: sessions that share the first events of another one.

Laws: a fork reads as the events of its parent up to the cut, and its own after them; seqs continue, so ids stay valid. Live
frames, leases and suspension tokens belong to the parent: in the fork, the frames are cancelled and open calls are closed.
Usage and history that waits for long-term memory are counted where they were recorded: in the parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast import errors
from holdfast.model import limits
from holdfast.model.content import Usage
from holdfast.model.events import Event
from holdfast.model.facts.events import LedgerForked
from holdfast.model.frames.frames import FrameState
from holdfast.model.names import StreamId
from holdfast.model.sessions.commands import BranchSession
from holdfast.model.sessions.events import SessionBranched, SessionForked
from holdfast.model.sessions.forks import ForkOrigin, ForkSegment
from holdfast.model.state import SessionState


def decide_branch(state: SessionState, command: BranchSession) -> tuple[Event, ...]:
    if command.cut > state.version:
        raise errors.InvalidArgument(
            argument="at", reason=f"there is no event {command.cut}; the last one is {state.version}"
        )
    return (SessionBranched(fork=command.fork.stream.key, cut=command.cut),)


def fold_fork(state: SessionState, event: Event | None, _: str, time_us: int) -> dict[str, Any]:
    """The changes by the first own event of a fork."""
    if not isinstance(event, SessionForked):
        return {}
    changes: dict[str, Any] = {
        "status": "open",
        "created_us": time_us,
        "active_us": time_us,
        "close_reason": "",
        "waiting": 0,
        "offered": state.version + 1,
        "usage": Usage(),
        "leases": {},
        "resting": 0,
        "origin": ForkOrigin(parent=event.parent, cut=event.cut, lineage=event.lineage),
    }
    if state.resting:
        changes["frames"] = {name: _wake(frame) for name, frame in state.frames.items()}
    if state.proposals:
        own, parent = ("session", *event.session), ("session", *event.parent)
        changes["proposals"] = tuple(
            msgspec.structs.replace(each, ledger=own) if each.ledger == parent else each for each in state.proposals
        )
    return changes


def _wake(frame: FrameState) -> FrameState:
    """A frame without its suspension: the token is the parent's."""
    if frame.suspension is None:
        return frame
    return msgspec.structs.replace(frame, suspension=None, status="waiting" if frame.children else "active")


def extend_lineage(origin: ForkOrigin | None, key: tuple[str, ...], cut: int) -> tuple[ForkSegment, ...]:
    """Where the events of a stream up to `cut` are, the oldest first."""
    before = () if origin is None else origin.lineage
    shared = []
    for segment in before:
        shared.append(ForkSegment(segment.key, min(segment.last, cut)))
        if cut <= segment.last:
            return tuple(shared)
    return (*shared, ForkSegment(key, cut))


def find_origin_fault(stream: StreamId, seq: int, event: Event | None, before: ForkOrigin | None) -> str | None:
    """Why no command can have begun a fork with this event, if so. `before` is the origin of the stream that it names as
    its parent."""
    if not isinstance(event, SessionForked | LedgerForked):
        return "it begins in the middle, and names no stream before it"
    if isinstance(event, SessionForked) and event.session != stream.key:
        return "it begins a fork of another name"
    if event.cut != seq - 1 or event.lineage != extend_lineage(before, event.parent, event.cut):
        return "it does not name the events before it"
    return None


class SharedStretch(NamedTuple):
    """Events `first` to `last` of a stream, and the stream that stores them."""

    stream: StreamId
    first: int
    last: int


def stretches_of(
    origin: ForkOrigin | None, stream: StreamId, version: int = limits.WHOLE_NUMBER
) -> list[SharedStretch]:
    """Where the events of a stream are stored, the oldest first: in itself, unless it is a fork."""
    stretches: list[SharedStretch] = []
    first = 1
    for segment in origin.lineage if origin else ():
        stretches.append(SharedStretch(segment.stream_beside(stream), first, segment.last))
        first = segment.last + 1
    return [*stretches, SharedStretch(stream, first, version)]


def find_shared(one: Iterable[SharedStretch], other: Iterable[SharedStretch]) -> int:
    """The seq of the last event that two streams have in common; 0 for none."""
    shared = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours.stream != theirs.stream:
            break
        shared = min(ours.last, theirs.last)
        if ours.last != theirs.last:
            break
    return shared


def fork_faults(state: SessionState, event: Event | None) -> Iterator[str]:
    match event:
        case SessionForked(cut=cut, lineage=lineage):
            lasts = [each.last for each in lineage]
            if cut != state.version or (lasts and lasts[-1] != cut) or lasts != sorted({*lasts}):
                yield "a fork begins right after its cut"
            if lineage and lineage[-1].key != event.parent:
                yield "a fork names the session that has its last shared event"
        case SessionBranched(cut=cut):
            if not 1 <= cut <= state.version:
                yield "a fork shares past events"


def check_own(state: SessionState, seqs: tuple[int, ...], session: str) -> None:
    """Refuse to erase events that are stored in another session, and the one that names that session."""
    origin = state.origin
    if origin is None or not origin.lineage:
        return
    if origin.cut + 1 in seqs:
        raise errors.InvalidArgument(argument="seqs", reason=f"event {origin.cut + 1} begins the fork, and has no text")
    shared = [seq for seq in seqs if seq <= origin.cut]
    if shared:
        owner = next(each for each in origin.lineage if shared[0] <= each.last)
        raise errors.EventShared(session=session, seq=shared[0], owner=owner.key[1])
