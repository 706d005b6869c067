"""The life of a session: created, listed, reset, closed, destroyed, timed out; and what it leaves to long-term memory.

Laws: whatever ends a conversation puts its history into the outbox in the same transaction; nothing is erased before
long-term memory has acknowledged it, unless the caller says that it shall not have it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import msgspec

from holdfast import codec
from holdfast.core import sessions as core
from holdfast.core.layers import checked_identity, checked_ledgers
from holdfast.core.situation import own_standings
from holdfast.errors import DataError, HoldfastError, InvalidContent, InvalidCursor, SessionExists, shown
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.frames import time_out
from holdfast.flows.inform_frames import session_where
from holdfast.flows.ingest import checked_object, microseconds
from holdfast.flows.layers import owned
from holdfast.flows.ledgers import erase_ledger, run_out
from holdfast.flows.load import load
from holdfast.flows.place import Context, Place, order
from holdfast.flows.read import message
from holdfast.model import limits
from holdfast.model.commands import (
    AcknowledgeOffload,
    CloseSession,
    CreateSession,
    DestroySession,
    ErasePayloads,
    ResetSession,
    TimeOutSession,
)
from holdfast.model.content import Json
from holdfast.model.events import BARE, EvidenceKept, MessageRecorded
from holdfast.model.frames import Swept
from holdfast.model.layers import Identity
from holdfast.model.log import FeedPage
from holdfast.model.messages import Message, Offload
from holdfast.model.names import LedgerId, Scope, check_size, checked_flag, checked_name, checked_whole
from holdfast.model.rows import IN_ORDER_OF_KEY, Order, OutboxRow, SessionRow, scope_of
from holdfast.model.state import SessionState

_ORDERS = {"name": IN_ORDER_OF_KEY, "recent": Order(("updated_us",), backwards=True)}


def create(
    place: Place,
    metadata: dict[str, Any] | None = None,
    *,
    idle_timeout_s: float | None = None,
    identity: Identity | None = None,
    ledgers: Sequence[LedgerId] = (),
    key: str | None = None,
    cause: str | None = None,
) -> Flow[None]:
    yield from order(place, _creation(place, metadata, idle_timeout_s, identity, ledgers), key=key, cause=cause)


def _creation(
    place: Place, metadata: object, idle_timeout_s: object, identity: object, ledgers: object
) -> CreateSession:
    scope = place.scope
    return CreateSession(
        scope=scope,
        metadata=_checked_metadata({} if metadata is None else metadata),
        idle_timeout_us=0 if idle_timeout_s is None else microseconds("idle_timeout_s", idle_timeout_s),
        identity=None if identity is None else checked_identity(identity),
        ledgers=checked_ledgers(ledgers, scope.stream.key, scope.tenant),
    )


def _checked_metadata(metadata: object) -> dict[str, Json]:
    """It is part of the live state, and so of every snapshot."""
    data = checked_object("metadata", metadata)
    size = len(codec.encode(data))
    check_size(
        "the metadata of the session",
        size,
        "bytes",
        "METADATA_BYTES",
        "Put large values into the blob store with put_blob() and keep a reference.",
    )
    return data


def ensure(
    place: Place,
    metadata: dict[str, Any] | None = None,
    *,
    idle_timeout_s: float | None = None,
    identity: Identity | None = None,
    ledgers: Sequence[LedgerId] = (),
) -> Flow[None]:
    """Create the session unless it is there."""
    command = _creation(place, metadata, idle_timeout_s, identity, ledgers)
    found = yield from load(place.scope.stream, place.context.cache, fresh=True)
    if found.status == "absent":
        try:
            yield from order(place, command)
        except SessionExists:  # somebody else was first, which is as good
            pass
    yield from state(place)


def state(place: Place) -> Flow[SessionState]:
    """Where the session stands now, whoever wrote last."""
    found = yield from load(place.scope.stream, place.context.cache, fresh=True)
    core.check_there(found, place.scope)
    if found.metadata or found.frames:  # the caller may do with it as he likes; ours stays
        copy = checked_object("metadata", found.metadata)
        found = msgspec.structs.replace(found, metadata=copy, frames=dict(found.frames))
    if found.standings:
        found = msgspec.structs.replace(found, standings=own_standings(found))
    return owned(found) if found.working or found.environment else found


def reset(
    place: Place,
    reason: str = "reset",
    *,
    keep_system: bool = True,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Start the conversation anew. What was said stays in the transcript and goes to long-term memory; views begin here,
    with the system messages unless `keep_system` is False."""
    keeps = checked_flag("keep_system", keep_system)
    command = ResetSession(scope=place.scope, reason=_checked_reason(reason), keep_system=keeps)
    yield from order(place, command, closing=reason, key=key, expect=expect, cause=cause)


def close(
    place: Place,
    reason: str = "done",
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """End the session; it takes no more messages, and what was said goes to long-term memory. Closing it again changes
    nothing."""
    command = CloseSession(scope=place.scope, reason=_checked_reason(reason))
    yield from order(place, command, closing=reason, key=key, expect=expect, cause=cause)


def destroy(
    place: Place,
    reason: str = "destroyed",
    *,
    offload: bool = True,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """End the session for good: nobody can read it any more, and its id is not used again. Its content is erased once
    long-term memory has acknowledged what it was offered; with `offload=False` it is not offered this last part, and if
    nothing waits from before, all is erased at once. The reason stays."""
    offers = checked_flag("offload", offload)
    command = DestroySession(scope=place.scope, reason=_checked_reason(reason), offload=offers)
    yield from order(place, command, closing=reason, key=key, cause=cause)
    yield from _erase_destroyed(place)


def erase(place: Place, seqs: Sequence[int], reason: str, *, key: str | None = None) -> Flow[None]:
    """Remove the content of these events for good. Their headers and digests stay, so the hash chain still verifies.

    A tool call goes together with its results, and a message with the summaries that tell of it."""
    if type(seqs) not in (list, tuple, range):
        raise InvalidContent(reason="the events to erase are a list of their seqs")
    named = tuple(checked_whole("an event to erase", seq, 1) for seq in seqs)
    check_size("the erasure", len({*named}), "events", "ERASE_EVENTS", "Erase in several steps.")  # each is to be read
    command = ErasePayloads(scope=place.scope, seqs=named, reason=codec.checked_text("the reason", reason))
    yield from order(place, command, key=key)


def _checked_reason(reason: object) -> str:
    text = codec.checked_text("the reason", reason)
    if not text:
        raise InvalidContent(reason="ending a conversation needs a reason")
    return text


def _erase_destroyed(place: Place) -> Flow[None]:
    """Erase what a destroyed session still holds, if nothing of it waits for long-term memory."""
    where = session_where(place.scope) | {"done": 0}
    if (yield from effects.rows(OutboxRow, where, None, 1)):
        return
    stream = place.scope.stream
    yield from erase_ledger(place.context, LedgerId(place.scope.tenant, "session", stream.key), "destroyed")
    found = yield from load(stream, place.context.cache, fresh=True)
    after, end = 0, found.version
    while found.residue and after < end:
        seqs: list[int] = []
        while after < end and len(seqs) < limits.ERASE_EVENTS:
            page = yield from effects.read(stream, after, min(limits.READ_EVENTS, limits.ERASE_EVENTS - len(seqs)))
            seqs += (each.seq for each in page if each.payload is not None and each.type not in BARE)
            after = page[-1].seq
        if seqs:
            command = ErasePayloads(scope=place.scope, seqs=tuple(seqs), reason="destroyed", alone=True)
            yield from order(place, command)


def listed(
    context: Context,
    *,
    actor: str | None = None,
    status: Literal["open", "closed", "destroyed"] | None = None,
    active_since_us: int | None = None,
    idle_since_us: int | None = None,
    order: Literal["name", "recent"] = "name",
    after: SessionRow | None = None,
    limit: int = 100,
) -> Flow[tuple[SessionRow, ...]]:
    """The tenant's sessions in order of their names, or the most recently active first; `after` is the last row of the page
    before. Destroyed ones are listed only if `status` asks for them. `active_since_us` and `idle_since_us` bound the time
    of the last event, both included."""
    where: dict[str, str | int] = {"tenant": context.tenant}
    if actor is not None:
        where["actor"] = checked_name("actor", actor)
    if status is None:
        where["gone"] = 0
    else:
        where["status"] = _one_of("status", status, ("open", "closed", "destroyed"))
    if after is not None:
        _check_row(after)
    least = {} if active_since_us is None else {"updated_us": checked_whole("active_since_us", active_since_us)}
    most = {} if idle_since_us is None else {"updated_us": checked_whole("idle_since_us", idle_since_us)}
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    laid_out = _ORDERS[_one_of("order", order, _ORDERS)]
    return (yield from effects.rows(SessionRow, where, after, limit, order=laid_out, least=least, most=most))


def _one_of(what: str, value: object, known: Collection[str]) -> str:
    if type(value) is str and value in known:
        return value
    raise InvalidContent(reason=f"the {what} {shown(value)} is not one of {', '.join(known)}")


def _check_row(after: object) -> None:
    if type(after) is not SessionRow:
        raise InvalidContent(reason="a page goes on after the last row of the one before")
    for column in SessionRow.key:
        codec.checked_text(f"the {column} of the row before", getattr(after, column))
    checked_whole("the time of the row before", after.updated_us)


def sweep(context: Context, *, limit: int = 1_000) -> Flow[Swept]:
    """Time out the sessions that were idle for longer than they may be and the frames that are out of time, expire the
    facts that have run out, and finish what destroying left undone; which ones were timed out. Any number of processes may
    sweep at once."""
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    tenant: dict[str, str | int] = {"tenant": context.tenant}
    most = {"expires_us": context.clock.now_us()}
    soonest = Order(("expires_us",))
    due = yield from effects.rows(SessionRow, tenant | {"status": "open"}, None, limit, order=soonest, most=most)
    swept: list[Scope] = []
    trouble: HoldfastError | None = None
    for row in due:
        place = Place(context, scope_of(row))
        command = TimeOutSession(scope=place.scope)
        try:
            if (yield from order(place, command, closing="the session was idle for too long")).events:
                swept.append(place.scope)
        except DataError as error:  # one damaged session does not keep the others
            trouble = error
    frames, wrong = yield from time_out(context, limit)
    facts, odd = yield from run_out(context, limit)
    trouble = trouble or wrong or odd
    where, last = tenant | {"status": "destroyed"}, None
    while page := (yield from effects.rows(SessionRow, where, last, limits.READ_EVENTS, least={"residue": 1})):
        for last in page:
            try:
                yield from _erase_destroyed(Place(context, scope_of(last)))
            except DataError as error:
                trouble = error
    if trouble is not None:
        raise trouble
    return Swept(tuple(swept), tuple(frames), facts)


def outbox(context: Context, *, after: Offload | None = None, limit: int = 100) -> Flow[list[Offload]]:
    """What waits for long-term memory, in order of the sessions' names; `after` is the last one of the page before."""
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    where: dict[str, str | int] = {"tenant": context.tenant, "done": 0}
    beyond = None if after is None else _outbox_row(_checked_offload(context, after))
    return [_offload(row) for row in (yield from effects.rows(OutboxRow, where, beyond, limit))]


def history(context: Context, offload: Offload, *, after: int = 0, limit: int = 100) -> Flow[list[Message]]:
    """The messages and the evidence in this piece of history, oldest first, from seq `after` on; also of a session that is
    destroyed."""
    _checked_offload(context, offload)
    checked_whole("after", after)
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    found: list[Message] = []
    at = max(after, offload.first - 1)
    while at < offload.last and len(found) < limit:
        page = yield from effects.read(offload.scope.stream, at, min(limits.READ_EVENTS, offload.last - at))
        kept = [message(each) for each in page if each.type in (MessageRecorded.name, EvidenceKept.name)]
        found += kept[: limit - len(found)]
        if not page:
            break
        at = page[-1].seq
    return found


def acknowledge(context: Context, offload: Offload, *, key: str | None = None) -> Flow[None]:
    """Long-term memory has this piece of history. Saying so again changes nothing."""
    _checked_offload(context, offload)
    place = Place(context, offload.scope)
    yield from order(place, AcknowledgeOffload(scope=offload.scope, entry=offload.entry), key=key)
    found = yield from load(offload.scope.stream, context.cache, fresh=True)
    if found.status == "destroyed":
        yield from _erase_destroyed(place)


def _checked_offload(context: Context, offload: object) -> Offload:
    if type(offload) is not Offload or type(offload.scope) is not Scope:
        raise InvalidContent(reason=f"{shown(offload)} is not an entry of the outbox: pass what outbox() returned")
    scope = offload.scope
    Scope.checked(scope.tenant, scope.actor, scope.session, scope.thread)
    if scope.tenant != context.tenant:
        raise core.not_found(scope)
    for what in ("entry", "first", "last"):
        checked_whole(what, getattr(offload, what), 1)
    return offload


def _offload(row: OutboxRow) -> Offload:
    scope = scope_of(row)
    return Offload(
        scope=scope,
        entry=row.entry,
        why=row.why,
        first=row.first,
        last=row.last,
        at_us=row.at_us,
        key=codec.digest([scope.tenant, scope.actor, scope.session, scope.thread, row.entry]),
    )


def _outbox_row(offload: Offload) -> OutboxRow:
    scope = offload.scope
    return OutboxRow(
        **scope.columns,
        entry=offload.entry,
        why=offload.why,
        first=offload.first,
        last=offload.last,
        at_us=offload.at_us,
        done=0,
    )


def feed(_context: Context, cursor: str = "", *, limit: int = 100) -> Flow[FeedPage]:
    """Events of all sessions and tenants in one order, from a cursor that survives restarts."""
    if type(cursor) is not str:
        raise InvalidCursor(cursor=shown(cursor))
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    return (yield from effects.feed(cursor, limit))
