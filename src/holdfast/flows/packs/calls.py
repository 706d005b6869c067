"""The model calls of a session: replies and recorded packs, each compared with the call before in its conversation.

Laws: the cost follows the number of calls that are listed, not the length of the log: it is read back only as far as
these calls and the one before each of them, and never further than CALL_EVENTS. What was erased is not shown. What an
audited pack withholds from the reader is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core import upcast
from holdfast.core.history.boundary_figures import BOUNDARY_TYPES, describe_boundary
from holdfast.core.packs.cache_reports import CallFigures, compare_fronts, price_usage, report_cache
from holdfast.core.packs.explanations import Comparison, DiffEvidence, HistoryChange, compare_manifests
from holdfast.errors import BlobNotFound
from holdfast.flows import effects
from holdfast.flows.context import SessionContext, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.packs.records import build_record, list_changes, read_stored_pack
from holdfast.flows.sessions.transcript import build_message
from holdfast.model import limits
from holdfast.model.content import Usage
from holdfast.model.events import Event
from holdfast.model.frames.frames import frame_seq
from holdfast.model.history.prices import find_prices
from holdfast.model.log import StoredEvent
from holdfast.model.names import check_whole
from holdfast.model.packs.calls import Boundary, CacheReport, ModelCall
from holdfast.model.packs.events import PackRecorded
from holdfast.model.packs.pack import Manifest, PackChange, PackRecord
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.sessions.messages import Message

_CALL_TYPES = (MessageRecorded.name, PackRecorded.name, *BOUNDARY_TYPES)
_EVENTS_PER_CALL = 6
"""The events that are read at once for each call: with tools, a call has about so many."""
_MIN_PAGE = 50
_REDACTED = "superseded values redacted"
"""In the reason of an entry: manifests of older versions do not list these values."""


class _ScannedCall:
    """A call as it is found in the log, newest event first: its record, then its reply."""

    def __init__(self, seq: int, frame: str | None, command: str, time_us: int) -> None:
        self.seq, self.frame, self.command, self.time_us = seq, frame, command, time_us
        self.record: PackRecord | None = None
        self.at = 0
        """The last event that its pack covers."""
        self.replies: list[Message] = []
        """The messages of the reply, newest first."""

    @property
    def id(self) -> str:
        return f"m{self.seq}" if self.record is None else self.record.id

    @property
    def reply(self) -> int:
        return self.replies[0].seq if self.replies else 0 if self.record is None else self.record.reply

    @property
    def usage(self) -> Usage | None:
        reported = [message.usage for message in self.replies if message.usage is not None]
        return sum(reported[1:], reported[0]) if reported else None


class _SeenMessage(NamedTuple):
    seq: int
    frame: str | None
    tokens: int


class _LogScan:
    """Reads the log back, and finds calls, messages and boundaries in it."""

    def __init__(self, frame: str | None) -> None:
        self._frame = frame
        self.calls: list[_ScannedCall] = []
        """Newest first."""
        self.messages: list[_SeenMessage] = []
        self.boundaries: list[tuple[int, Event]] = []
        """Newest first."""
        self._open: _ScannedCall | None = None
        """The call whose reply may continue with the next event."""
        self.skipped: str = ""
        """The command of a call that is on the page before: its messages are no call of their own."""

    def add(self, stored: StoredEvent) -> None:
        event = upcast.decode_event(stored)
        if isinstance(event, PackRecorded):
            self._add_pack(stored, event)
        elif isinstance(event, MessageRecorded):
            self._add_message(stored, event)
        elif event is not None:
            self._open = None
            self.boundaries.append((stored.seq, event))

    def _add_pack(self, stored: StoredEvent, event: PackRecorded) -> None:
        self._open = None
        if self._frame in (None, event.frame):
            call = _ScannedCall(stored.seq, event.frame, stored.command, stored.time_us)
            call.record, call.at = build_record(stored), event.at
            self.calls.append(call)
            self._open = call if event.reply else None

    def _add_message(self, stored: StoredEvent, event: MessageRecorded) -> None:
        message = build_message(stored, event)
        if not message.skipped:
            self.messages.append(_SeenMessage(message.seq, message.frame, message.tokens))
        if message.role != "assistant" or self._frame not in (None, message.frame):
            self._open = None
            return
        if stored.command == self.skipped:
            return
        call = self._open
        if call is None or call.command != stored.command or call.frame != message.frame:
            call = self._open = _ScannedCall(stored.seq, message.frame, stored.command, stored.time_us)
            self.calls.append(call)
        call.replies.append(message)
        call.at = call.at if call.record is not None else stored.seq - 1


def model_calls(context: SessionContext, *, before: int | None = None, limit: int = 100) -> Flow[list[ModelCall]]:
    """The calls, newest first; with `before`, those before that seq. Of a frame, its own; of a session, all."""
    if before is not None:
        check_whole("before", before)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    yield from load_session(context)
    scan = _LogScan(context.frame)
    if before is not None:
        scan.skipped = yield from _find_answered_command(context, before)
    is_complete = yield from _scan_log(context, scan, before, limit)
    shown = scan.calls[:limit]
    previous = {call.seq: _find_previous(scan.calls, number) for number, call in enumerate(shown)}
    manifests: dict[int, Manifest | None] = {}
    for call in (*shown, *previous.values()):
        if call is not None and call.seq not in manifests:
            manifests[call.seq] = yield from _read_manifest(context, call)
    builder = _CallBuilder(context, scan, manifests, is_complete)
    return [builder.build(call, previous[call.seq]) for call in shown]


def _find_answered_command(context: SessionContext, before: int) -> Flow[str]:
    """The command whose reply comes before a seq and whose pack does not; empty for none."""
    if before <= 1:
        return ""
    command = ""
    for stored in (yield from effects.read(context.scope.stream, before - 2, limits.BATCH_MESSAGES)):
        if stored.seq == before - 1:
            command = stored.command
        elif stored.command != command:
            break
        elif stored.type == PackRecorded.name:
            return command
    return ""


def _scan_log(context: SessionContext, scan: _LogScan, before: int | None, limit: int) -> Flow[bool]:
    """Read back until there are so many calls, with all between each and the one before it. Whether it was read that
    far."""
    first = frame_seq(context.frame)
    page_size = min(limits.READ_EVENTS, max(_MIN_PAGE, limit * _EVENTS_PER_CALL))
    read, end = 0, before
    while True:
        page = yield from effects.read_back(context.scope.stream, end, page_size, _CALL_TYPES)
        for stored in page:
            if stored.seq > first:
                scan.add(stored)
        read += len(page)
        end = page[-1].seq if page else 0
        if len(page) < page_size or end <= first:
            return True
        if len(scan.calls) > limit and _is_far_enough(scan.calls, limit, end):
            return True
        if read >= limits.CALL_EVENTS and len(scan.calls) > limit:
            return False


def _is_far_enough(calls: Sequence[_ScannedCall], limit: int, end: int) -> bool:
    """Whether the call before each of these is found, and all that happened since its pack was built was read. The last
    call may go on before `end`."""
    for number, call in enumerate(calls[:limit]):
        previous = _find_previous(calls, number)
        if previous is None:
            if end > frame_seq(call.frame) + 1:
                return False
        elif previous is calls[-1] or previous.at < end - 1:
            return False
    return True


def _find_previous(calls: Sequence[_ScannedCall], number: int) -> _ScannedCall | None:
    """The call before, in the same conversation."""
    return next((each for each in calls[number + 1 :] if each.frame == calls[number].frame), None)


def _read_manifest(context: SessionContext, call: _ScannedCall) -> Flow[Manifest | None]:
    """The manifest of a call; None if it has none, or if a store that was restored in part has lost it."""
    if call.record is None:
        return None
    try:
        return (yield from read_stored_pack(context, call.record))[1]
    except BlobNotFound:
        return None


class _CallBuilder:
    def __init__(
        self, context: SessionContext, scan: _LogScan, manifests: dict[int, Manifest | None], is_complete: bool
    ) -> None:
        self._prices = context.engine.prices
        self._scan, self._manifests, self._is_complete = scan, manifests, is_complete

    def build(self, call: _ScannedCall, previous: _ScannedCall | None) -> ModelCall:
        figures = self._figures(call)
        manifest, record = figures.manifest, call.record
        since = 0 if previous is None else previous.at
        boundaries = self._boundaries(call, since, is_priced=figures.prices is not None)
        cache, comparison = self._compare(call, previous, figures, boundaries)
        changes = [] if comparison is None else [each for each in comparison.changes if not _is_withheld(each)]
        kinds = [each.what for each in changes]
        usage = figures.usage
        source = next((each.source for each in call.replies if each.source is not None), None)
        provider = (source and source.provider) or (figures.prices.provider if figures.prices is not None else "")
        return ModelCall(
            id=call.id,
            seq=call.seq,
            reply=call.reply,
            pack=record,
            frame=call.frame,
            time_us=figures.ended_us,
            started_us=figures.started_us,
            model=figures.model,
            provider=provider,
            usage=usage,
            budget=0 if record is None else record.budget,
            used=0 if record is None else record.used,
            breakdown={} if manifest is None else manifest.tokens.breakdown,
            cost=None
            if usage is None or figures.prices is None
            else price_usage(usage, figures.prices, cache.rewritten),
            cache=cache,
            added=kinds.count("added") + kinds.count("in"),
            gone=kinds.count("gone") + kinds.count("out"),
            changed=kinds.count("changed"),
            redacted=0 if manifest is None else _count_redacted(manifest),
            exposed=0 if manifest is None else len(manifest.exposed),
            boundaries=boundaries,
        )

    def _figures(self, call: _ScannedCall) -> CallFigures:
        manifest = self._manifests[call.seq]
        models = [each.source.model for each in call.replies if each.source is not None and each.source.model]
        model = models[0] if models else "" if manifest is None else manifest.request.model
        return CallFigures(
            id=call.id,
            manifest=manifest,
            model=model,
            usage=call.usage,
            started_us=0 if manifest is None else manifest.request.as_of_us,
            ended_us=call.replies[0].time_us if call.replies else call.time_us,
            prices=find_prices(model, self._prices) if model else None,
        )

    def _boundaries(self, call: _ScannedCall, since: int, *, is_priced: bool) -> tuple[Boundary, ...]:
        described = (
            describe_boundary(seq, event, is_priced=is_priced)
            for seq, event in reversed(self._scan.boundaries)
            if since < seq <= call.at and _concerns(event, call.frame)
        )
        return tuple(each for each in described if each is not None)

    def _compare(
        self,
        call: _ScannedCall,
        previous: _ScannedCall | None,
        figures: CallFigures,
        boundaries: Sequence[Boundary],
    ) -> tuple[CacheReport, Comparison | None]:
        if previous is None and not self._is_complete:
            why = f"The call before is more than {limits.CALL_EVENTS:,} events earlier."
            return CacheReport(cause="unknown", why=why), None
        if previous is None:
            return report_cache(figures, None, None), None
        before = self._figures(previous)
        if before.manifest is None or figures.manifest is None:
            return report_cache(figures, before, None, boundaries), None
        events = self._changes(call, previous)
        new = {
            each.seq: each.tokens
            for each in reversed(self._scan.messages)
            if each.frame == call.frame and previous.at < each.seq <= call.at
        }
        evidence = DiffEvidence(events=events, messages=tuple(new))
        comparison = compare_manifests(before.manifest, figures.manifest, evidence)
        front = compare_fronts(before.manifest, figures.manifest, comparison, events, new)
        return report_cache(figures, before, front, boundaries), comparison

    def _changes(self, call: _ScannedCall, previous: _ScannedCall) -> tuple[HistoryChange, ...]:
        return tuple(
            change
            for seq, event in self._scan.boundaries
            if previous.at < seq <= call.at and _concerns(event, call.frame)
            for change in list_changes(seq, event)
        )


def _concerns(event: Event, frame: str | None) -> bool:
    """Whether a boundary is of a conversation; those without a frame are of all."""
    return bool(getattr(event, "frame", frame) == frame)


def _is_withheld(change: PackChange) -> bool:
    """Whether the reader sees nothing of a change."""
    fates = {each.fate for each in (change.entry, change.before) if each is not None}
    return fates == {"withheld"}


def _count_redacted(manifest: Manifest) -> int:
    return len(manifest.redacted) or sum(_REDACTED in entry.reason for entry in manifest.entries)
