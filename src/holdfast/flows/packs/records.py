"""Recorded packs: stored beside a reply, read back, and compared.

Laws: the record of a pack and the reply are one append. A query that is no message is in the manifest, and never
becomes a message. A body is in the blob store before an event names it. A retry under the same key is the same message,
whatever pack it comes with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.facts.authority import may_know
from holdfast.core.history.boundary_figures import BOUNDARY_TYPES
from holdfast.core.packs import records as core
from holdfast.core.packs.explanations import (
    DiffEvidence,
    HistoryChange,
    compare_manifests,
    fact_of_entry,
    find_changed_facts,
)
from holdfast.errors import BlobNotFound, InvalidArgument, PackChanged, PackNotFound, StorageCorrupt, describe_value
from holdfast.flows import effects
from holdfast.flows.context import LedgerContext, SessionContext, build_input, execute_commands, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.facts import queries
from holdfast.flows.facts.changes import writer_for
from holdfast.flows.history.views import read_body
from holdfast.flows.sessions.transcript import message_of
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.events import Event
from holdfast.model.facts.fact import Fact
from holdfast.model.frames.frames import frame_seq
from holdfast.model.history.events import (
    ContextCompacted,
    ContextRedacted,
    HandleMoved,
    MessagesRestored,
    MessagesWithdrawn,
    SummaryRecorded,
)
from holdfast.model.log import StoredEvent
from holdfast.model.names import LedgerId, check_name, check_whole
from holdfast.model.packs.commands import RecordPack
from holdfast.model.packs.events import PackRecorded
from holdfast.model.packs.pack import Brief, Manifest, PackDiff, PackRecord, pack_id, pack_seq
from holdfast.model.rows import BlobRow
from holdfast.model.sessions.events import MessageRecorded, PayloadsErased, SessionReset
from holdfast.model.sessions.messages import MessageDraft
from holdfast.model.state import SessionState

if TYPE_CHECKING:
    from holdfast.render.pack import Pack


T = TypeVar("T")

# Recording


def find_answered_pack(context: SessionContext, drafts: Sequence[MessageDraft], pack: object) -> Pack | None:
    """The pack that these messages answer, if any: the one in the argument, else the newest one that this engine built
    for the conversation and that has no reply yet."""
    if pack is False:
        return None
    is_reply = all(draft.role == "assistant" for draft in drafts)
    if pack is None:
        pending = context.engine.cache.packs.get(context.scope.stream, context.frame) if is_reply else None
        return None if pending is None else check_pack(context, pending)
    if not is_reply:
        raise InvalidArgument(argument="pack", reason="only a reply of the assistant is recorded with a pack")
    return check_storable(check_pack(context, pack))


def check_pack(context: SessionContext, pack: object) -> Pack:
    from holdfast.render.pack import Pack  # noqa: PLC0415 - needed only where packs are built

    if not isinstance(pack, Pack):
        raise InvalidArgument(
            argument="pack", reason=f"{describe_value(pack)} is not a pack: pass what pack() returned"
        )
    manifest = pack.manifest
    if manifest.scope != context.scope:
        reason = f"it is a pack of {manifest.scope.stream}, not of {context.scope.stream}"
        raise InvalidArgument(argument="pack", reason=reason)
    if manifest.frame != context.frame:
        owner = "the session itself" if manifest.frame is None else f"the frame {manifest.frame}"
        reason = f"it is a pack of {owner}: record its reply there, or pass pack=False"
        raise InvalidArgument(argument="pack", reason=reason)
    return pack


def check_storable(pack: Pack) -> Pack:
    """Refuse a varied pack with a history that is in no log."""
    if pack.manifest.boundary > pack.manifest.version:
        reason = "it was varied, and shows a history that is in no log: build it with pack()"
        raise InvalidArgument(argument="pack", reason=reason)
    return pack


def has_erased_content(context: SessionContext, pack: Pack) -> Flow[bool]:
    """Whether something that a pack shows was erased since: then nothing of the pack may be stored."""
    after, shown = pack.manifest.version, core.join_stretches(_shown_events(pack.manifest))
    while page := (yield from effects.read(context.scope.stream, after, limits.READ_EVENTS)):
        for recorded in page:
            event = upcast.decode_event(recorded) if recorded.type == PayloadsErased.name else None
            erased = event.seqs if isinstance(event, PayloadsErased) else ()
            if any(first <= seq <= last for seq in erased for first, last in shown):
                return True
        after = page[-1].seq
    return False


def prepare_record(
    context: SessionContext, pack: Pack, *, reply: int = 0, reservation: str | None = None
) -> Flow[tuple[CommandRequest, list[BlobRef]]]:
    """The command that records a pack, and the bodies that it refers to. `reply` says which of the messages recorded
    with it answers the pack."""
    manifest, brief = pack.manifest, pack.brief
    body = codec.encode(manifest)
    short = codec.compress(body)
    is_short = len(short) <= limits.PACK_MANIFEST_BYTES and len(body) <= limits.PAYLOAD_BYTES
    stored_manifest = short if is_short else (yield from _store_body(context, body))
    stored_brief = None if brief == Brief() else (yield from _store_body(context, codec.encode(brief), reuse=True))
    command = RecordPack(
        scope=context.scope,
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
        shown=core.join_stretches(_shown_events(manifest)),
        manifest=stored_manifest,
        brief=stored_brief,
        reply=reply,
        reservation=reservation,
    )
    refs = [ref for ref in (stored_manifest, stored_brief) if isinstance(ref, BlobRef)]
    return CommandRequest(command, build_input(context.engine)), refs


def _store_body(context: SessionContext, body: bytes, *, reuse: bool = False) -> Flow[BlobRef]:
    """Put a body into the blob store. With `reuse`, a body that an event names already is not written twice."""
    engine = context.engine
    ref = BlobRef(hashlib.sha256(body).hexdigest(), len(body))
    if reuse and (yield from effects.rows(BlobRow, {"tenant": engine.tenant, "digest": ref.digest}, None, 1)):
        with suppress(BlobNotFound):  # a store that was restored in part may have the event without the body
            yield from effects.run_outside(lambda: engine.bodies.check(engine.tenant, ref))
            return ref
    return (yield from effects.run_outside(lambda: engine.bodies.put(engine.tenant, body, None)))


def _shown_events(manifest: Manifest) -> Iterator[tuple[int, int]]:
    """The events of the session that a pack shows. Facts are events of their ledgers."""
    for entry in manifest.entries:
        if entry.fate not in ("included", "reduced") or entry.section == "facts":
            continue
        first = (frame_seq(entry.id) if entry.section == "breadcrumbs" else 0) or entry.at
        if 1 <= first <= manifest.version:
            yield first, min(max(first, entry.to), manifest.version)


def store(context: SessionContext, pack: Pack, *, key: str | None = None, cause: str | None = None) -> Flow[PackRecord]:
    """Store the manifest of a pack without a reply."""
    if (yield from has_erased_content(context, check_storable(check_pack(context, pack)))):
        raise PackChanged(pack="to store", reason="something that it shows was erased")
    part, bodies = yield from prepare_record(context, pack)
    appended = yield from execute_commands(context.engine, [part], key=key, cause=cause, bodies=bodies)
    return build_record(appended.events[0])


# Reading


def packs(context: SessionContext, *, before: int | None = None, limit: int = 100) -> Flow[list[PackRecord]]:
    """The recorded packs, the newest first; with `before`, those before that seq. Of a frame, its own; of a session,
    all. Erased records are left out."""
    if before is not None:
        check_whole("before", before)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    yield from load_session(context)
    listed: list[PackRecord] = []
    while len(listed) < limit:
        page = yield from effects.read_back(context.scope.stream, before, limits.READ_EVENTS, (PackRecorded.name,))
        if not page:
            break
        records = (build_record(recorded) for recorded in page if recorded.payload is not None)
        listed += (record for record in records if context.frame in (None, record.frame))
        before = page[-1].seq
    return listed[:limit]


def manifest(context: SessionContext, pack: PackRecord | str) -> Flow[Manifest]:
    """The manifest of a recorded pack."""
    return (yield from read_pack(context, pack))[1]


def read_pack(context: SessionContext, pack: PackRecord | str) -> Flow[tuple[PackRecord, Manifest, Brief]]:
    """The record of a pack, its manifest and its brief. SessionNotFound if the session does not exist."""
    yield from load_session(context)
    return (yield from read_stored_pack(context, pack))


def shows_unknown_facts(context: SessionContext, manifest: Manifest, permissions: Sequence[str] | None) -> Flow[bool]:
    """Whether a manifest names facts that a reader with these permissions may not know."""
    program = writer_for(context.engine, None)
    for entry in manifest.entries:
        named = fact_of_entry(manifest, entry) if entry.section == "facts" else None
        if named is None:
            continue
        ledger, name = named
        fact = yield from queries.read_by_id(LedgerContext(context.engine, ledger, program), name, absent_ok=True)
        if fact is not None and not may_know(fact.requires, permissions):
            return True
    return False


def read_stored_pack(context: SessionContext, pack: PackRecord | str) -> Flow[tuple[PackRecord, Manifest, Brief]]:
    """The record of a pack, its manifest and its brief."""
    recorded = yield from _find_record_event(context, pack)
    event = upcast.decode_event(recorded)
    name = pack_id(recorded.seq)
    if not isinstance(event, PackRecorded):
        raise PackChanged(pack=name, reason="its record was erased, with something that it shows")
    manifest = yield from _read_struct(context, name, event.manifest, Manifest)
    brief = Brief() if event.brief is None else (yield from _read_struct(context, name, event.brief, Brief))
    return build_record(recorded), manifest, brief


def _find_record_event(context: SessionContext, pack: object) -> Flow[StoredEvent]:
    name = check_name("pack", pack.id if type(pack) is PackRecord else pack)
    seq = pack_seq(name)
    for recorded in (yield from effects.read(context.scope.stream, seq - 1, 1)) if seq else ():
        if recorded.seq == seq and recorded.type == PackRecorded.name:
            return recorded
    raise PackNotFound(session=context.scope.session, pack=name)


def _read_struct(context: SessionContext, name: str, stored: BlobRef | bytes, kind: type[T]) -> Flow[T]:
    body = b"" if isinstance(stored, bytes) else (yield from read_body(context.engine, stored))
    try:
        return codec.decode(codec.decompress(stored, limits.PAYLOAD_BYTES) if isinstance(stored, bytes) else body, kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = f"it cannot be read ({error})"
        raise StorageCorrupt(what=f"the {kind.__name__.lower()} of {name}", reason=reason) from error


def build_record(recorded: StoredEvent) -> PackRecord:
    event = upcast.decode_event(recorded)
    assert isinstance(event, PackRecorded), "only records of packs are read"
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


# Comparing


def diff(
    context: SessionContext, first: Pack | PackRecord | str | None = None, second: Pack | PackRecord | str | None = None
) -> Flow[PackDiff]:
    """The changes from one pack to another. `second` is by default the last recorded pack, `first` the one before it in the
    same conversation."""
    state = yield from load_session(context)
    newer, after = yield from _resolve_pack(context, second, None, 0)
    older, before = yield from _resolve_pack(context, first, after, newer.seq)
    evidence = DiffEvidence(
        facts=(yield from _read_facts(context, state, find_changed_facts(before, after))),
        events=(yield from _find_changes(context, before, after)),
        messages=(yield from _find_new_messages(context, before, after)),
    )
    result = compare_manifests(before, after, evidence)
    return PackDiff(first=older, second=newer, changes=result.changes, same=result.same, prefix_kept=result.prefix_kept)


def _resolve_pack(
    context: SessionContext, pack: object, after: Manifest | None, before: int
) -> Flow[tuple[PackRecord, Manifest]]:
    """A pack by its id, or itself. None is the last recorded pack before event `before`, of the same conversation as
    `after`."""
    if pack is None:
        at: int | None = before or None
        while page := (yield from packs(context, before=at, limit=limits.READ_EVENTS)):
            for record in page:
                if after is None or record.frame == after.frame:
                    return record, (yield from read_stored_pack(context, record))[1]
            at = page[-1].seq
        raise PackNotFound(session=context.scope.session, pack="the last" if after is None else "the one before")
    if type(pack) is str or type(pack) is PackRecord:
        record, manifest, _ = yield from read_stored_pack(context, pack)
        return record, manifest
    frame = getattr(getattr(pack, "manifest", None), "frame", None)
    manifest = check_pack(SessionContext(context.engine, context.scope, frame), pack).manifest
    return _unsaved_record(manifest), manifest


def _unsaved_record(manifest: Manifest) -> PackRecord:
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


def _read_facts(
    context: SessionContext, state: SessionState, names: Sequence[tuple[LedgerId, str]]
) -> Flow[dict[tuple[LedgerId, str], Fact]]:
    """These facts as the reader of the session may see them."""
    writer = writer_for(context.engine, state.identity)
    facts: dict[tuple[LedgerId, str], Fact] = {}
    for ledger, name in names:
        fact = yield from queries.read_by_id(LedgerContext(context.engine, ledger, writer), name, absent_ok=True)
        if fact is not None:
            facts[ledger, name] = fact
    return facts


def _read_events_between(
    context: SessionContext, before: Manifest, after: Manifest, types: Sequence[str]
) -> Flow[list[StoredEvent]]:
    """The events of these types between two packs, the newest first."""
    events: list[StoredEvent] = []
    end = after.version + 1
    while len(events) < limits.DIFF_EVENTS:
        page = yield from effects.read_back(context.scope.stream, end, limits.READ_EVENTS, types)
        events += (event for event in page if event.seq > before.version)
        if len(page) < limits.READ_EVENTS or page[-1].seq <= before.version:
            break
        end = page[-1].seq
    return events


def _find_new_messages(context: SessionContext, before: Manifest, after: Manifest) -> Flow[tuple[int, ...]]:
    events = yield from _read_events_between(context, before, after, (MessageRecorded.name,))
    messages = (message for message in map(message_of, events) if message.frame == after.frame)
    return tuple(sorted(message.seq for message in messages if not message.erased and not message.skipped))


def _find_changes(context: SessionContext, before: Manifest, after: Manifest) -> Flow[tuple[HistoryChange, ...]]:
    changes: list[HistoryChange] = []
    for recorded in (yield from _read_events_between(context, before, after, BOUNDARY_TYPES)):
        event = upcast.decode_event(recorded)
        if event is not None and getattr(event, "frame", after.frame) == after.frame:
            changes += list_changes(recorded.seq, event)
    return tuple(changes)


def list_changes(seq: int, event: Event) -> Iterator[HistoryChange]:
    """What an event changed in the history, as far as it is a boundary."""
    match event:
        case ContextCompacted():
            if event.fold is not None:
                yield HistoryChange(seq, "fold", event.fold.first, event.fold.last, event.fold.count)
            yield from (HistoryChange(seq, "cut", reduction.message, reduction.message) for reduction in event.reduced)
        case SummaryRecorded():
            yield HistoryChange(seq, "fold", event.first, event.last, event.messages)
        case HandleMoved():
            yield HistoryChange(seq, "cut", event.piece.message, event.piece.message)
        case ContextRedacted():
            yield from (HistoryChange(seq, "guard", redaction.at, redaction.at) for redaction in event.redacted)
        case MessagesWithdrawn():
            yield from (HistoryChange(seq, "withdrawal", first, last) for first, last in event.ranges)
        case MessagesRestored():
            yield HistoryChange(seq, "restoration", 1, event.withdrawal)
        case SessionReset():
            yield HistoryChange(seq, "reset", 1, seq)
        case PayloadsErased():
            yield from (HistoryChange(seq, "erasure", erased, erased) for erased in event.seqs)
