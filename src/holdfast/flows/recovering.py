"""Taking up a session where it was left, whatever ended the process."""

from __future__ import annotations

from holdfast.core import pending, stack
from holdfast.flows.effects import Flow
from holdfast.flows.load import load
from holdfast.flows.place import Place, order
from holdfast.model.commands import ResumeActor
from holdfast.model.frames import Recovery


def recover(
    place: Place, *, key: str | None = None, expect: int | None = None, cause: str | None = None
) -> Flow[Recovery]:
    """What was being done: the frames from the root to the current one, and what is pending, tool calls of unknown outcome
    among it. Whoever calls this takes up the session, and the log says so; nothing else is changed, nothing repeated."""
    clock = place.context.clock
    begun_us = clock.now_us()
    appended = yield from order(place, ResumeActor(scope=place.scope), key=key, expect=expect, cause=cause)
    # Looked up anew: a reader may have left an older state behind since.
    state = yield from load(place.scope.stream, place.context.cache, fresh=True)
    current = stack.top(state.frames)
    frames = () if current is None else tuple(stack.ancestry(state.frames, current.id))
    return Recovery(
        frame_stack=frames,
        pending_work=tuple(pending.found(state)),
        frames_recovered=len(frames),
        last_event_seq=appended.events[-1].seq,
        recovery_ms=max(0, clock.now_us() - begun_us) // 1_000,
    )
