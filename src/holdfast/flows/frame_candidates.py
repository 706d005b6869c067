"""Frames as candidates for a pack: to a frame, where it is in the tree, its inputs and its live children; to a session, the
live frames and the results of finished ones.

Laws: the number of reads and the size of each candidate are bounded; all of it follows from the log up to the version of
the pack.
"""

from __future__ import annotations

import functools

from holdfast.context.assemble import Piece
from holdfast.context.breadcrumbs import ancestry_pieces, child_pieces, finished_piece, input_pieces, live_pieces
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.inform_frames import event_at, session_where, state_of
from holdfast.flows.pack_sizes import counted
from holdfast.flows.place import Place
from holdfast.model import limits
from holdfast.model.events import FramePopped, FramePushed, FrameUpdated
from holdfast.model.pack import Request
from holdfast.model.rows import FrameRow, Order
from holdfast.model.state import SessionState

_NEWEST = Order(backwards=True)


def frame_pieces(place: Place, state: SessionState, request: Request) -> Flow[list[Piece]]:
    """What the pack of a frame, or of a session's own conversation, can say of frames."""
    count, budget = functools.partial(counted, place), request.effective
    if place.frame is None:
        return [*(yield from _finished_pieces(place, state, budget)), *live_pieces(state.frames, budget, count)]
    frame = state.frames[place.frame]
    source = yield from event_at(place.scope.stream, frame.inputs_at)
    inputs = source.inputs if isinstance(source, FramePushed | FrameUpdated) else None
    return [
        *ancestry_pieces(state.frames, frame.id),
        *input_pieces(frame, inputs, budget, count),
        *child_pieces(state.frames, frame.id, budget, count),
    ]


def _finished_pieces(place: Place, state: SessionState, budget: int) -> Flow[list[Piece]]:
    """The results of the root frames that ended last since the last reset, oldest first, among the newest roots."""
    if state.popped <= state.start:
        return []
    where = session_where(place.scope) | {"parent": 0}
    rows = yield from effects.rows(FrameRow, where, None, limits.PACK_ROOTS, order=_NEWEST)
    roots = [state_of(row) for row in rows if row.ended is not None]
    ended = [each for each in roots if state.start < each.touched <= state.version]
    ended.sort(key=lambda each: each.touched)
    pieces: list[Piece] = []
    for frame in ended[-limits.PACK_FINISHED :]:
        event = yield from event_at(place.scope.stream, frame.touched)
        if isinstance(event, FramePopped) and event.frame == frame.id:
            pieces.append(finished_piece(frame, event, budget))
    return pieces
