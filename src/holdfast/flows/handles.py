"""Handles by their id or by what they came from, and the account of what is resident and what is not.

Laws: a name that several live handles have is refused; what is resident and what is not add up to the same total, wherever
things move.
"""

from __future__ import annotations

import functools

from holdfast import errors
from holdfast.core.calibrate import calibrated
from holdfast.core.messages import group_of
from holdfast.core.project import with_residency
from holdfast.core.shown import by_message, pieces_of
from holdfast.errors import AmbiguousHandle, HandleNotFound
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.frames import find_handle
from holdfast.flows.history import history_at, in_view
from holdfast.flows.inform_frames import handle_from, handle_of, session_where
from holdfast.flows.paging import handles_in, piece
from holdfast.flows.place import Place
from holdfast.flows.read import message as message_of
from holdfast.flows.views import steady
from holdfast.model import limits
from holdfast.model.content import ToolCall
from holdfast.model.events import MessageRecorded
from holdfast.model.frames import frame_seq
from holdfast.model.handles import Handle, handle_seq, piece_id, piece_of
from holdfast.model.messages import Summary, Unit
from holdfast.model.plan import Occupancy, Residency
from holdfast.model.rows import HandleRow
from holdfast.model.state import OpenCall, SessionState


def handle(place: Place, name: Handle | ToolCall | OpenCall | str) -> Flow[Handle]:
    """A handle by its id, or by what it came from: the id of a tool call, ours or the provider's, or the source that a
    handle of a frame was added with.

    HandleNotFound if there is none. AmbiguousHandle if several live handles have that name: a provider may give two calls
    the same id."""
    given = name.id if isinstance(name, Handle | ToolCall | OpenCall) else name
    if type(given) is not str or not 0 < len(given) <= limits.CALL_ID_CHARS:
        reason = "it is the id of a handle or of a tool call"
        raise errors.InvalidName(what="handle", value=errors.shown(given), reason=reason, limit=limits.CALL_ID_CHARS)
    if piece_of(given) is not None:
        return (yield from piece(place, given))
    return (yield from steady(place, lambda state: _named(place, state, given)))


def _named(place: Place, state: SessionState, name: str) -> Flow[Handle]:
    if handle_seq(name):
        return (yield from find_handle(place, name))
    added: list[Handle] = []
    for frame in _frames(place, state):
        found = yield from handle_from(place.scope, frame, name)
        added += () if found is None else (_as_it_stands(found, state),)
    results = yield from _results(place, state, name)
    names = (*(each.id for each in added), *(piece_id(*each) for each in results))
    if len(names) > 1:
        raise AmbiguousHandle(session=place.scope.session, source=name, handles=", ".join(names))
    if added:
        return added[0]
    if results:
        return (yield from piece(place, names[0]))
    raise HandleNotFound(session=place.scope.session, handle=name)


def _as_it_stands(found: Handle, state: SessionState) -> Handle:
    """A handle of a live frame, with what a compaction says about it."""
    return with_residency(found, dict(state.view(found.frame).left_out))


def _frames(place: Place, state: SessionState) -> tuple[str, ...]:
    """The frames whose handles are within reach: the frame itself; of a session, those that live."""
    return tuple(state.frames) if place.frame is None else (place.frame,)


def _results(place: Place, state: SessionState, call: str) -> Flow[list[tuple[int, int]]]:
    """Where the results of calls of this id are, by message and piece. A provider's id is looked for in view: it may have
    named another call before."""
    group = group_of(call)
    if group is not None:
        return (yield from _result(place, state, call, group))
    found: list[tuple[int, int]] = []
    for item in (yield from in_view(place, state)):
        messages = item.messages if isinstance(item, Unit) else ()
        ids = {each.id for message in messages for each in message.tool_calls if each.provider_id == call}
        for message in messages if ids else ():
            found += ((message.seq, number) for number, _, source in pieces_of(message) if source in ids)
    return found


def _result(place: Place, state: SessionState, call: str, after: int) -> Flow[list[tuple[int, int]]]:
    """Where the result of one of our calls is: behind the call, and near, since the next model call waits for it."""
    if any(each.id == call for each in state.open_calls):
        return []
    while after < state.version:
        page = yield from effects.read(place.scope.stream, after, min(limits.READ_EVENTS, state.version - after))
        for recorded in page:
            answer = message_of(recorded) if recorded.type == MessageRecorded.name else None
            for number, _, source in pieces_of(answer) if answer is not None else ():
                if source == call:
                    return [(recorded.seq, number)]
        if not page:
            break
        after = page[-1].seq
    return []


def occupancy(place: Place) -> Flow[Occupancy]:
    """What takes how much of the context, and what was taken out of it: of the frame with its handles, or of the session
    with the handles of its live frames. What is resident and what is not add up to the same total, wherever it moves."""
    return (yield from steady(place, lambda state: _occupancy(place, state)))


def _occupancy(place: Place, state: SessionState) -> Flow[Occupancy]:
    found = yield from history_at(place, state)
    measure = functools.partial(calibrated, state.calibration)
    system = sum(measure(each.tokens, 1) for each in found.system)
    summaries = [item for item in found.items if isinstance(item, Summary)]
    condensed = sum(measure(item.tokens, 1) for item in summaries)
    account, handles = yield from _account(place, state)
    account["resident"] += sum(each.tokens for each in found.system)
    return Occupancy(
        tokens=found.tokens,
        system=system,
        summaries=condensed,
        messages=found.tokens - system - condensed,
        resident_tokens=account["resident"],
        spooled_tokens=account["spooled_out"],
        paged_tokens=account["paged_out"],
        collapsed_tokens=account["collapsed"],
        handles=handles,
        folded=sum(item.messages for item in summaries),
        boundary=state.view(place.frame).boundary,
    )


def _account(place: Place, state: SessionState) -> Flow[tuple[dict[Residency, int], int]]:
    """Whole tokens by where they are, and how many handles there are."""
    account: dict[Residency, int] = {"resident": 0, "spooled_out": 0, "paged_out": 0, "collapsed": 0}
    reductions = by_message(state.view(place.frame).reduced)
    handles = 0
    for item in (yield from in_view(place, state)):
        if isinstance(item, Summary):
            account["collapsed"] += item.replaced
            continue
        for message in item.messages:
            left = message.whole_tokens
            for each in handles_in(place.context, message, reductions.get(message.seq, {})):
                handles += 1
                taken = 0 if each.occupies_context else min(left, each.tokens)
                account[each.residency] += taken
                left -= taken
            account["resident"] += left
    for added in (yield from _added(place, state)):
        handles += 1
        account[added.residency] += added.tokens
    return account, handles


def _added(place: Place, state: SessionState) -> Flow[list[Handle]]:
    """The handles of the frames within reach."""
    found: list[Handle] = []
    for frame in _frames(place, state):
        where = session_where(place.scope) | {"frame": frame_seq(frame)}
        last: HandleRow | None = None
        while page := (yield from effects.rows(HandleRow, where, last, limits.READ_EVENTS)):
            found += (_as_it_stands(handle_of(row), state) for row in page)
            last = page[-1]
            if len(page) < limits.READ_EVENTS:
                break
    return found
