"""Recovery: continue a session after its process ended."""

from __future__ import annotations

from holdfast.core.frames import recovery
from holdfast.core.frames.stack import find_ancestry, find_top
from holdfast.flows.context import SessionContext, execute_command
from holdfast.flows.effects import Flow
from holdfast.flows.load import load_session_state
from holdfast.model.frames.commands import ResumeActor
from holdfast.model.frames.frames import Recovery


def recover(
    context: SessionContext, *, key: str | None = None, expect: int | None = None, cause: str | None = None
) -> Flow[Recovery]:
    """The current frames and the pending work, with tool calls of unknown outcome. Records that the session is resumed."""
    clock = context.engine.clock
    begun_us = clock.now_us()
    appended = yield from execute_command(
        context, ResumeActor(scope=context.scope), key=key, expect=expect, cause=cause
    )
    # Loaded again: another reader may have put an older state into the cache.
    state = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=True)
    turn = 0 if context.engine.turn is None else context.engine.turn.number
    current = find_top(state.frames)
    frames = () if current is None else tuple(find_ancestry(state.frames, current.id))
    return Recovery(
        frame_stack=frames,
        pending_work=tuple(recovery.find_pending_work(state, clock.now_us(), turn)),
        frames_recovered=len(frames),
        last_event_seq=appended.events[-1].seq,
        recovery_ms=max(0, clock.now_us() - begun_us) // 1_000,
    )
