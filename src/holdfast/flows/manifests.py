"""Packs that were recorded: kept beside the reply, read back, and compared.

Laws: the record of a pack and the reply are one append; a query that nobody said is in the manifest, and never becomes a
message; what lies in the blob store is there before an event names it; a retry under the same key is the same message,
whatever pack it comes with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast import codec
from holdfast.context.differences import Grounds, Happened, compared, facts_to_ask_for
from holdfast.core import packs as core
from holdfast.core import upcast
from holdfast.core.sessions import check_there
from holdfast.errors import BlobNotFound, InvalidContent, PackChanged, PackNotFound, StorageCorrupt, shown
from holdfast.flows import effects, knowing
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Part
from holdfast.flows.history import read_whole
from holdfast.flows.ledgers import writer_for
from holdfast.flows.load import load
from holdfast.flows.place import LedgerPlace, Place, given_to, together
from holdfast.flows.read import message
from holdfast.model import limits
from holdfast.model.commands import RecordPack
from holdfast.model.content import BlobRef
from holdfast.model.drafts import Draft
from holdfast.model.events import Event, HandleMoved, MessageRecorded, PayloadsErased, SessionReset
from holdfast.model.facts import Fact
from holdfast.model.frames import frame_seq
from holdfast.model.log import Recorded
from holdfast.model.names import LedgerId, checked_name, checked_whole
from holdfast.model.pack import Brief, Manifest, PackDiff, PackRecord, pack_id, pack_seq
from holdfast.model.rows import BlobRow
from holdfast.model.state import SessionState
from holdfast.model.view_events import ContextCompacted, ContextRedacted, PackRecorded, SummaryRecorded

if TYPE_CHECKING:
    from holdfast.render.packs import Pack

T = TypeVar("T")

_HAPPENED = (
    "frame.compacted",
    "summary.recorded",
    "handle.moved",
    "context.redacted",
    "session.reset",
    "payloads.erased",
)
"""What changes how a history is shown."""


class Built(msgspec.Struct, frozen=True):
    """The pack that was built last through a handle: it goes with the next reply, if that is what is recorded."""

    pack: Any


# Recording


def tied(place: Place, drafts: Sequence[Draft], pack: object) -> Pack | None:
    """The pack that these messages answer, if any."""
    if pack is None or pack is False:
        return None
    replies = all(draft.role == "assistant" for draft in drafts)
    if isinstance(pack, Built):
        return checked_pack(place, pack.pack) if replies else None
    if not replies:
        raise InvalidContent(reason="a pack goes with a reply of the assistant")
    return checked_pack(place, pack)


def checked_pack(place: Place, pack: object) -> Pack:
    from holdfast.render.packs import Pack  # noqa: PLC0415 - who never builds a pack has no need of it

    if not isinstance(pack, Pack):
        raise InvalidContent(reason=f"{shown(pack)} is no pack: pass what pack() returned")
    manifest = pack.manifest
    if manifest.scope != place.scope:
        raise InvalidContent(reason=f"the pack is of {manifest.scope.stream}, not of {place.scope.stream}")
    if manifest.frame != place.frame:
        whose = "the session itself" if manifest.frame is None else f"the frame {manifest.frame}"
        raise InvalidContent(reason=f"the pack is of {whose}: record its reply there, or pass pack=False")
    return pack


def shows_erased(place: Place, pack: Pack) -> Flow[bool]:
    """Whether something that a pack shows was erased since it was made, so that nothing of it is to be kept."""
    after, shown = pack.manifest.version, core.stretches(_shown(pack.manifest))
    while page := (yield from effects.read(place.scope.stream, after, limits.READ_EVENTS)):
        for recorded in page:
            event = upcast.current(recorded) if recorded.type == PayloadsErased.name else None
            erased = event.seqs if isinstance(event, PayloadsErased) else ()
            if any(first <= seq <= last for seq in erased for first, last in shown):
                return True
        after = page[-1].seq
    return False


def recording(
    place: Place, pack: Pack, *, reply: int = 0, reservation: str | None = None
) -> Flow[tuple[Part, list[BlobRef]]]:
    """What it takes to keep a pack, and the bodies that must be there. `reply` is which of the messages that are recorded
    with it answers it."""
    manifest, brief = pack.manifest, pack.brief
    whole = codec.encode(manifest)
    short = codec.compressed(whole)
    is_short = len(short) <= limits.PACK_MANIFEST_BYTES and len(whole) <= limits.PAYLOAD_BYTES
    told = short if is_short else (yield from _put(place, whole))
    kept = None if brief == Brief() else (yield from _put(place, codec.encode(brief), again=True))
    command = RecordPack(
        scope=place.scope,
        frame=manifest.frame,
        at=manifest.version,
        context_hash=manifest.context_hash,
        budget=manifest.tokens.budget,
        used=manifest.tokens.used,
        counted=manifest.tokens.counted,
        messages=manifest.tokens.messages,
        counter=manifest.counter,
        level=manifest.tokens.level,
        query=manifest.request.query[: limits.PACK_QUERY_CHARS],
        shown=core.stretches(_shown(manifest)),
        manifest=told,
        brief=kept,
        reply=reply,
        reservation=reservation,
    )
    return Part(command, given_to(place.context)), [each for each in (told, kept) if isinstance(each, BlobRef)]


def _put(place: Place, body: bytes, *, again: bool = False) -> Flow[BlobRef]:
    """Into the blob store. What is likely to be there `again`, since an event names it, is not written twice."""
    context = place.context
    ref = BlobRef(hashlib.sha256(body).hexdigest(), len(body))
    if again and (yield from effects.rows(BlobRow, {"tenant": context.tenant, "digest": ref.digest}, None, 1)):
        with suppress(BlobNotFound):  # events come before bodies where a store was put back in part
            yield from effects.outside(lambda: context.bodies.check(context.tenant, ref))
            return ref
    return (yield from effects.outside(lambda: context.bodies.put(context.tenant, body, None)))


def _shown(manifest: Manifest) -> Iterator[tuple[int, int]]:
    """The events of the session that a pack shows something of. Facts are events of their ledgers."""
    for entry in manifest.entries:
        if entry.fate not in ("included", "reduced") or entry.section == "facts":
            continue
        first = (frame_seq(entry.id) if entry.section == "breadcrumbs" else 0) or entry.at
        if 1 <= first <= manifest.version:
            yield first, min(max(first, entry.to), manifest.version)


def keep(place: Place, pack: Pack, *, key: str | None = None, cause: str | None = None) -> Flow[PackRecord]:
    """Keep why a pack is as it is, without a reply."""
    if (yield from shows_erased(place, checked_pack(place, pack))):
        raise PackChanged(pack="to be kept", reason="something that it shows was erased")
    part, bodies = yield from recording(place, pack)
    appended = yield from together(place.context, [part], key=key, cause=cause, bodies=bodies)
    return _record(appended.events[0])


# Reading


def packs(place: Place, *, before: int | None = None, limit: int = 100) -> Flow[list[PackRecord]]:
    """The packs that were recorded, the newest first; with `before`, those before that seq. Of a frame, its own; of a
    session, all of them. What was erased is left out."""
    if before is not None:
        checked_whole("before", before)
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    yield from _there(place)
    found: list[PackRecord] = []
    while len(found) < limit:
        page = yield from effects.read_back(place.scope.stream, before, limits.READ_EVENTS, (PackRecorded.name,))
        if not page:
            break
        records = (_record(recorded) for recorded in page if recorded.payload is not None)
        found += (each for each in records if place.frame in (None, each.frame))
        before = page[-1].seq
    return found[:limit]


def manifest(place: Place, pack: PackRecord | str) -> Flow[Manifest]:
    """Why a recorded pack was as it was."""
    return (yield from read(place, pack))[1]


def read(place: Place, pack: PackRecord | str) -> Flow[tuple[PackRecord, Manifest, Brief]]:
    """What is stored of a pack, if its session is there."""
    yield from _there(place)
    return (yield from stored(place, pack))


def stored(place: Place, pack: PackRecord | str) -> Flow[tuple[PackRecord, Manifest, Brief]]:
    """The record of a pack, its manifest, and the brief that it was made with."""
    recorded = yield from _recorded(place, pack)
    event = upcast.current(recorded)
    name = pack_id(recorded.seq)
    if not isinstance(event, PackRecorded):
        raise PackChanged(pack=name, reason="its record was erased, with something that it shows")
    told = yield from _read(place, name, event.manifest, Manifest)
    brief = Brief() if event.brief is None else (yield from _read(place, name, event.brief, Brief))
    return _record(recorded), told, brief


def _recorded(place: Place, pack: object) -> Flow[Recorded]:
    name = checked_name("pack", pack.id if type(pack) is PackRecord else pack)
    seq = pack_seq(name)
    for recorded in (yield from effects.read(place.scope.stream, seq - 1, 1)) if seq else ():
        if recorded.seq == seq and recorded.type == PackRecorded.name:
            return recorded
    raise PackNotFound(session=place.scope.session, pack=name)


def _read(place: Place, name: str, kept: BlobRef | bytes, kind: type[T]) -> Flow[T]:
    body = kept if isinstance(kept, bytes) else (yield from effects.outside(lambda: read_whole(place.context, kept)))
    try:
        return codec.decode(codec.decompressed(kept, limits.PAYLOAD_BYTES) if body is kept else body, kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = f"it cannot be read ({error})"
        raise StorageCorrupt(what=f"the {kind.__name__.lower()} of {name}", reason=reason) from error


def _record(recorded: Recorded) -> PackRecord:
    event = upcast.current(recorded)
    assert isinstance(event, PackRecorded), "only records of packs are asked for"
    return PackRecord(
        id=pack_id(recorded.seq),
        seq=recorded.seq,
        frame=event.frame,
        context_hash=event.context_hash,
        budget=event.budget,
        used=event.used,
        level=event.level,
        query=event.query,
        reply=event.reply,
        time_us=recorded.time_us,
    )


def _there(place: Place) -> Flow[SessionState]:
    state = yield from load(place.scope.stream, place.context.cache, fresh=True)
    check_there(state, place.scope)
    return state


# Comparing


def diff(
    place: Place, first: Pack | PackRecord | str | None = None, second: Pack | PackRecord | str | None = None
) -> Flow[PackDiff]:
    """What changed from one pack to another, and why. Packs are named by their ids, or given. Without a second, it is the
    last that was recorded; without a first, the one before the second in the same conversation."""
    state = yield from _there(place)
    newer, now = yield from _one(place, second, None, 0)
    older, was = yield from _one(place, first, now, newer.seq)
    asked = facts_to_ask_for(was, now)
    grounds = Grounds(
        facts=(yield from _facts(place, state, asked)),
        happened=(yield from _happened(place, was, now)),
        said=(yield from _said(place, was, now)),
    )
    found = compared(was, now, grounds)
    return PackDiff(first=older, second=newer, changes=found.changes, same=found.same, prefix_kept=found.prefix_kept)


def _one(place: Place, pack: object, after: Manifest | None, before: int) -> Flow[tuple[PackRecord, Manifest]]:
    """A pack by its name, or itself; None for the last one that was recorded: before event `before`, and in the same
    conversation, if there is another to compare it with."""
    if pack is None:
        at: int | None = before or None
        while page := (yield from packs(place, before=at, limit=limits.READ_EVENTS)):
            for record in page:
                if after is None or record.frame == after.frame:
                    return record, (yield from stored(place, record))[1]
            at = page[-1].seq
        raise PackNotFound(session=place.scope.session, pack="the last" if after is None else "the one before")
    if type(pack) is str or type(pack) is PackRecord:
        record, told, _ = yield from stored(place, pack)
        return record, told
    given: Any = pack
    given = checked_pack(
        Place(place.context, place.scope, getattr(getattr(given, "manifest", None), "frame", None)), given
    )
    return _unrecorded(given.manifest), given.manifest


def _unrecorded(manifest: Manifest) -> PackRecord:
    return PackRecord(
        id="",
        seq=0,
        frame=manifest.frame,
        context_hash=manifest.context_hash,
        budget=manifest.tokens.budget,
        used=manifest.tokens.used,
        level=manifest.tokens.level,
        query=manifest.request.query[: limits.PACK_QUERY_CHARS],
        time_us=manifest.request.as_of_us,
    )


def _facts(
    place: Place, state: SessionState, asked: Sequence[tuple[LedgerId, str]]
) -> Flow[dict[tuple[LedgerId, str], Fact]]:
    """These as the reader of the session may see them."""
    writer = writer_for(place.context, state.identity)
    found: dict[tuple[LedgerId, str], Fact] = {}
    for ledger, name in asked:
        fact = yield from knowing.by_id(LedgerPlace(place.context, ledger, writer), name, absent_ok=True)
        if fact is not None:
            found[ledger, name] = fact
    return found


def _between(place: Place, was: Manifest, now: Manifest, types: Sequence[str]) -> Flow[list[Recorded]]:
    """The events of these types between two packs, the newest first."""
    found: list[Recorded] = []
    before = now.version + 1
    while len(found) < limits.DIFF_EVENTS:
        page = yield from effects.read_back(place.scope.stream, before, limits.READ_EVENTS, types)
        found += (each for each in page if each.seq > was.version)
        if len(page) < limits.READ_EVENTS or page[-1].seq <= was.version:
            break
        before = page[-1].seq
    return found


def _said(place: Place, was: Manifest, now: Manifest) -> Flow[tuple[int, ...]]:
    found = yield from _between(place, was, now, (MessageRecorded.name,))
    own = (each for each in map(message, found) if not each.erased and not each.skipped and each.frame == now.frame)
    return tuple(sorted(each.seq for each in own))


def _happened(place: Place, was: Manifest, now: Manifest) -> Flow[tuple[Happened, ...]]:
    found: list[Happened] = []
    for recorded in (yield from _between(place, was, now, _HAPPENED)):
        event = upcast.current(recorded)
        if event is not None and getattr(event, "frame", now.frame) == now.frame:
            found += _told(recorded.seq, event)
    return tuple(found)


def _told(seq: int, event: Event) -> Iterator[Happened]:
    match event:
        case ContextCompacted():
            if event.fold is not None:
                yield Happened(seq, "fold", event.fold.first, event.fold.last, event.fold.count)
            yield from (Happened(seq, "cut", each.message, each.message) for each in event.reduced)
        case SummaryRecorded():
            yield Happened(seq, "fold", event.first, event.last, event.messages)
        case HandleMoved():
            yield Happened(seq, "cut", event.piece.message, event.piece.message)
        case ContextRedacted():
            yield from (Happened(seq, "guard", each.at, each.at) for each in event.redacted)
        case SessionReset():
            yield Happened(seq, "reset", 1, seq)
        case PayloadsErased():
            yield from (Happened(seq, "erasure", each, each) for each in event.seqs)
