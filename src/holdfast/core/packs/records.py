"""Records of packs: what a model was called with, stored beside its reply.

Laws: the record of a pack is of an earlier moment. It names the events that it shows, so that nothing erased stays in
it. The frame of a pack knows the hash of its last pack.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator

from holdfast import errors
from holdfast.core.frames import decide
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput
from holdfast.model.packs.commands import RecordPack
from holdfast.model.packs.events import PackRecorded
from holdfast.model.state import SessionState

_DIGEST = re.compile(r"[0-9a-f]{64}")


def decide_pack(state: SessionState, command: RecordPack, inputs: DecisionInput) -> tuple[Event, ...]:
    """The event that records a pack. The messages that it came with are in the state already, one event for each, from
    `inputs.message` on."""
    if command.frame is not None:
        decide.check_live_frame(state, command.scope, command.frame, inputs)
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
        reply=inputs.message + command.reply - 1 if command.reply else 0,
        reservation=command.reservation,
    )
    for fault in pack_faults(state, event):
        raise errors.InvalidArgument(argument="pack", reason=f"it cannot be recorded: {fault}")
    return (event,)


def pack_faults(state: SessionState, event: Event | None) -> Iterator[str]:
    """Why no command can have made this event."""
    if not isinstance(event, PackRecorded):
        return
    if not 1 <= event.at <= state.version:
        yield "a pack shows events before it"
    if not _DIGEST.fullmatch(event.context_hash):
        yield "a pack has a hash"
    if not 0 <= event.used <= event.budget <= limits.WHOLE_NUMBER:
        yield "a pack takes no more than its budget"
    if not 0 <= event.counted <= limits.WHOLE_NUMBER or not 0 <= event.messages <= limits.WHOLE_NUMBER:
        yield "the tokens and messages of a pack are whole numbers"
    ends = [end for stretch in event.shown for end in stretch]
    if ends != sorted(ends) or any(not 1 <= end <= event.at for end in ends) or _has_touching(event.shown):
        yield "a pack shows stretches of events, in order"
    inline = 0 if isinstance(event.manifest, BlobRef) else len(event.manifest)
    sizes = (len(event.shown), len(event.query), inline)
    if any(map(operator.gt, sizes, (limits.PACK_STRETCHES, limits.PACK_QUERY_CHARS, limits.PACK_MANIFEST_BYTES))):
        yield "the record of a pack is short"
    messages = [seq for seq in (event.asked, event.reply) if seq]
    if messages != sorted({*messages}) or any(not event.at < seq <= state.version for seq in messages):
        yield "a pack is answered after it was built, and its question comes before its reply"


def _has_touching(shown: Iterable[tuple[int, int]]) -> bool:
    last = 0
    for first, end in shown:
        if last and first <= last + 1:
            return True
        last = end
    return False


def join_stretches(shown: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """These stretches in order, those that touch joined. If there are more than PACK_STRETCHES, the closest are joined
    too."""
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
    stretches: list[tuple[int, int]] = []
    for at, (first, last) in enumerate(joined):
        if at in closed:
            stretches[-1] = (stretches[-1][0], last)
        else:
            stretches.append((first, last))
    return tuple(stretches)
