"""The index of passages follows the log: it is caught up before a search, and by workers.

Laws:
- Recording a message costs nothing more. The index can be dropped and made again from the log, except for what destroyed
  sessions left to long-term memory.
- Each event is looked at once. If two processes index a session, one of them stores each batch.
- An erasure removes passages in the same transaction as the events, and what was erased is never indexed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core import upcast
from holdfast.core.frames.stack import content_of
from holdfast.core.history.views import pieces_of
from holdfast.core.memory.passages import (
    build_attachment_passages,
    build_passages,
    build_situation_passages,
    find_bodies,
    follow_identity,
    is_remembered,
)
from holdfast.errors import BlobNotFound, StorageCorrupt, StorageReadOnly
from holdfast.flows import effects
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Flow
from holdfast.flows.frames.lookup import read_event
from holdfast.flows.history.views import read_start
from holdfast.flows.load import load_session_state
from holdfast.flows.memory.identities import IDENTITY_EVENTS, IdentityTimeline, read_identities
from holdfast.flows.sessions.transcript import build_message, read_withdrawn_messages
from holdfast.model import limits
from holdfast.model.content import Part, calling_seq
from holdfast.model.events import Event
from holdfast.model.history.events import HandleReplaced
from holdfast.model.log import StoredEvent
from holdfast.model.memory.passages import PASSAGE_FORMAT, IndexedPassage, IndexMark, PassageBatch, StreamSpan
from holdfast.model.names import Scope, StreamId
from holdfast.model.sessions.events import EvidenceKept, IdentityRefreshed, MessageRecorded, SessionCreated
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message, Offload
from holdfast.model.situation.events import SituationUpdated
from holdfast.model.situation.situations import FieldName
from holdfast.model.state import SessionState
from holdfast.model.tools.tool import RECALL_MEMORY

_SITUATION_UPDATES = 200
"""Updates that are read back at most to find what a conversation had come to."""


def index_stream(engine: EngineContext, scope: Scope, upto: int) -> Flow[IndexMark]:
    """Index the events of a session up to a seq; of a fork, its own events. Returns how far the index is then."""
    stored = (yield from effects.index_marks([scope.stream])).get(scope.stream)
    mark = stored
    if mark is None or mark.format != PASSAGE_FORMAT:
        mark = yield from _build_first_mark(engine, scope)
    last = min(upto, mark.version + limits.INDEX_EVENTS)
    while mark.version < last:
        size = min(limits.PASSAGE_EVENTS, last - mark.version)
        page = yield from effects.read_own(scope.stream, mark.version, size)
        page = tuple(event for event in page if event.seq <= last)
        if not page:
            break
        passages, after = yield from _build_page(engine, scope, mark, page)
        batch = PassageBatch(stream=scope.stream, before=stored, mark=after, passages=passages)
        try:
            is_stored = yield from effects.index_passages(batch)
        except StorageReadOnly:  # a replica, or a file that may only be read: search what is indexed
            break
        if not is_stored:  # another process was faster: continue where it is
            newer = (yield from effects.index_marks([scope.stream])).get(scope.stream)
            if newer is None or newer.format != PASSAGE_FORMAT or newer.version <= mark.version:
                break
            after = newer
        stored = mark = after
    return mark


def _build_first_mark(engine: EngineContext, scope: Scope) -> Flow[IndexMark]:
    """The mark before the first event. A fork begins with the identity of its parent; other sessions say theirs in their
    first event."""
    state = yield from load_session_state(scope.stream, engine.cache, fresh=True)
    if state.origin is None:
        return IndexMark()
    identities = yield from read_identities(scope.stream, state.origin.cut)
    return follow_identity(IndexMark(), identities.find(state.origin.cut) or Identity())


def _build_page(
    engine: EngineContext, scope: Scope, mark: IndexMark, page: Sequence[StoredEvent]
) -> Flow[tuple[tuple[IndexedPassage, ...], IndexMark]]:
    """The passages of these events, and the mark after them."""
    passages: list[IndexedPassage] = []
    recalls: set[str] = set()
    for recorded in page:
        event = upcast.decode_event(recorded)
        mark = msgspec.structs.replace(_apply_identity(mark, recorded, event), version=recorded.seq)
        if isinstance(event, HandleReplaced) and event.residency == "paged_out" and event.tier == "semantic":
            parts = content_of((yield from read_event(scope.stream, event.at)))
            bodies = yield from _read_bodies(engine, parts)
            passages += build_attachment_passages(scope, event, recorded.time_us, mark, parts, bodies)
        if not isinstance(event, MessageRecorded | EvidenceKept):
            continue
        message = build_message(recorded, event)
        if is_remembered(message):
            mark = msgspec.structs.replace(mark, places=mark.places + 1)
            bodies = yield from _read_bodies(engine, (part for _, parts, _ in pieces_of(message) for part in parts))
            recalls |= yield from _find_recalls(scope, message, page[0].seq)
            passages += build_passages(scope, message, mark, bodies, recalls)
    return tuple(passages), mark


def _find_recalls(scope: Scope, message: Message, first: int) -> Flow[set[str]]:
    """The calls of recall_memory that a message makes, or answers if they were made before event `first`."""
    calls = [*message.tool_calls]
    for seq in {calling_seq(result.tool_call_id) or 0 for result in message.tool_results}:
        event = (yield from read_event(scope.stream, seq)) if 0 < seq < first else None
        calls += event.tool_calls if isinstance(event, MessageRecorded) else ()
    return {call.id for call in calls if call.name == RECALL_MEMORY.name}


def _apply_identity(mark: IndexMark, recorded: StoredEvent, event: Event | None) -> IndexMark:
    if recorded.type not in IDENTITY_EVENTS:
        return mark
    if isinstance(event, SessionCreated | IdentityRefreshed):
        return follow_identity(mark, event.identity)
    return follow_identity(mark, Identity())  # it was erased: nobody is known


def _read_bodies(engine: EngineContext, parts: Iterable[Part]) -> Flow[Mapping[str, bytes]]:
    """The beginnings of the stored bodies of a content. One that cannot be read is left to its preview."""
    bodies: dict[str, bytes] = {}
    for ref in find_bodies(parts):
        if ref.digest not in bodies:
            try:
                bodies[ref.digest] = yield from read_start(engine, ref, limits.PASSAGE_BODY_BYTES)
            except (BlobNotFound, StorageCorrupt):
                continue
    return bodies


def index_conversation(
    engine: EngineContext, scope: Scope, state: SessionState, upto: int | None = None
) -> Flow[tuple[StreamSpan, ...]]:
    """Index a session up to a seq, and what it shares with the sessions that it was forked from. Returns where its events
    are since the last reset."""
    spans: list[StreamSpan] = []
    start, end = state.start, state.version if upto is None else upto
    for segment in () if state.origin is None else state.origin.lineage:
        last = min(segment.last, end)
        if last > start:
            shared = Scope.from_stream(segment.stream_beside(scope.stream))
            yield from index_stream(engine, shared, last)
            spans.append(StreamSpan(shared.stream, start + 1, last))
            start = last
    if end > start:
        yield from index_stream(engine, scope, end)
        spans.append(StreamSpan(scope.stream, start + 1, end))
    return tuple(spans)


def take_history(engine: EngineContext, offload: Offload, without: str = "") -> Flow[int]:
    """Let the built-in memory take a conversation that ended, but nothing of the user `without`, nor what belongs to no
    user. Returns how many passages it has of it. A second time changes nothing."""
    scope, stream = offload.scope, offload.scope.stream
    mark = yield from index_stream(engine, scope, offload.last)
    while mark.version < offload.last:
        before = mark.version
        mark = yield from index_stream(engine, scope, offload.last)
        if mark.version == before:
            break
    identities = yield from read_identities(stream, offload.last)
    yield from _index_situation(offload, identities)
    hidden = yield from _find_hidden_spans(stream, offload)
    hidden += (
        StreamSpan(stream, first, last)
        for first, last, user in identities.split(offload.first, offload.last)
        if user in ("", without)
    )
    return (yield from effects.take_passages(StreamSpan(stream, offload.first, offload.last), hidden))


def _find_hidden_spans(stream: StreamId, offload: Offload) -> Flow[list[StreamSpan]]:
    """The withdrawn messages of a conversation: memory does not take them."""
    withdrawn = yield from read_withdrawn_messages(stream)
    return [
        StreamSpan(stream, first, last)
        for first, last in withdrawn.all_ranges()
        if first <= offload.last and last >= offload.first
    ]


def _index_situation(offload: Offload, identities: IdentityTimeline) -> Flow[None]:
    """Index what the conversation had come to, for the user of that time. The mark does not move."""
    fields = yield from find_situation(offload)
    if not fields:
        return
    stored = (yield from effects.index_marks([offload.scope.stream])).get(offload.scope.stream)
    if stored is not None:
        passages: list[IndexedPassage] = []
        for name, field in fields.items():
            then = follow_identity(stored, identities.find(field[0]) or Identity())
            passages += build_situation_passages(offload.scope, then, {name: field})
        batch = PassageBatch(stream=offload.scope.stream, before=stored, mark=stored, passages=tuple(passages))
        yield from effects.index_passages(batch)


def find_situation(offload: Offload) -> Flow[dict[FieldName, tuple[int, int, str]]]:
    """The situation at the end of a conversation, by field: the event that set it, its time, and its text."""
    fields: dict[FieldName, tuple[int, int, str]] = {}
    decided: set[str] = set()
    page = yield from effects.read_back(
        offload.scope.stream, offload.last + 1, _SITUATION_UPDATES, (SituationUpdated.name,)
    )
    for recorded in page:
        event = upcast.decode_event(recorded)
        if recorded.seq < offload.first or not isinstance(event, SituationUpdated) or event.frame is not None:
            continue
        for name, text in event.fields.items():
            if name not in decided:
                fields[name] = (recorded.seq, recorded.time_us, text)
        decided |= {*event.fields, *event.cleared}
    return fields
