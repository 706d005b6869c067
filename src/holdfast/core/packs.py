"""Packs that were recorded: what a model was called with, kept beside its reply.

Laws: the record of a pack is of a moment before it; it names what it shows, so that nothing of what is erased stays in it;
the frame that it is of knows the hash of its last one.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator

from holdfast import errors
from holdfast.core import frames
from holdfast.model import limits
from holdfast.model.commands import Given, RecordPack
from holdfast.model.content import BlobRef
from holdfast.model.events import Event
from holdfast.model.state import SessionState
from holdfast.model.view_events import PackRecorded

_DIGEST = re.compile(r"[0-9a-f]{64}")


def record(state: SessionState, command: RecordPack, given: Given) -> tuple[Event, ...]:
    """The messages that it came with are in the state already, one event for each, from `given.message` on."""
    if command.frame is not None:
        frames.live(state, command.scope, command.frame, given)
    event = PackRecorded(
        frame=command.frame,
        at=command.at,
        context_hash=command.context_hash,
        budget=command.budget,
        used=command.used,
        counted=command.counted,
        messages=command.messages,
        counter=command.counter,
        level=command.level,
        query=command.query,
        shown=command.shown,
        manifest=command.manifest,
        brief=command.brief,
        reply=given.message + command.reply - 1 if command.reply else 0,
        reservation=command.reservation,
    )
    for fault in pack_faults(state, event):
        raise errors.InvalidContent(reason=f"the pack cannot be recorded: {fault}")
    return (event,)


def pack_faults(state: SessionState, event: Event | None) -> Iterator[str]:
    """Why no command can have made this event."""
    if not isinstance(event, PackRecorded):
        return
    if not 1 <= event.at <= state.version:
        yield "a pack tells of events before it"
    if not _DIGEST.fullmatch(event.context_hash):
        yield "a pack has a hash"
    if not 0 <= event.used <= event.budget <= limits.WHOLE_NUMBER:
        yield "a pack takes no more than its budget"
    if not 0 <= event.counted <= limits.WHOLE_NUMBER or not 0 <= event.messages <= limits.WHOLE_NUMBER:
        yield "a pack has so many tokens in so many messages"
    ends = [end for stretch in event.shown for end in stretch]
    if ends != sorted(ends) or any(not 1 <= end <= event.at for end in ends) or _touching(event.shown):
        yield "a pack shows stretches of events, in order"
    told = 0 if isinstance(event.manifest, BlobRef) else len(event.manifest)
    sizes = (len(event.shown), len(event.query), told)
    if any(map(operator.gt, sizes, (limits.PACK_STRETCHES, limits.PACK_QUERY_CHARS, limits.PACK_MANIFEST_BYTES))):
        yield "the record of a pack is short"
    said = [each for each in (event.asked, event.reply) if each]
    if said != sorted({*said}) or any(not event.at < each <= state.version for each in said):
        yield "a pack is answered after it was made, and asked before that"


def _touching(shown: Iterable[tuple[int, int]]) -> bool:
    last = 0
    for first, end in shown:
        if last and first <= last + 1:
            return True
        last = end
    return False


def stretches(shown: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """These as few, in order: what touches is joined, and if there are too many, what is closest as well."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(shown):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    spare = len(joined) - limits.PACK_STRETCHES
    if spare <= 0:
        return tuple(joined)
    gaps = sorted(range(1, len(joined)), key=lambda at: (joined[at][0] - joined[at - 1][1], at))
    closed = {*gaps[:spare]}
    made: list[tuple[int, int]] = []
    for at, (first, last) in enumerate(joined):
        if at in closed:
            made[-1] = (made[-1][0], last)
        else:
            made.append((first, last))
    return tuple(made)
