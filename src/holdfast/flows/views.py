"""Views of a transcript: the sliding window, and summaries. They read; the transcript stays as it is.

Laws: a view holds whole units only, in order; what it costs depends on what it shows, not on the length of the history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.calibrate import calibrated
from holdfast.core.messages import group_of
from holdfast.core.sessions import check_there
from holdfast.core.summaries import around
from holdfast.core.units import fitting, group_seq, grouped, kept_seqs
from holdfast.errors import Contended, InvalidContent, WindowTooSmall
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.guard import show_guarded, show_messages
from holdfast.flows.load import load
from holdfast.flows.place import Place, order
from holdfast.flows.read import is_said, kept_by, message, stretch_of
from holdfast.model import limits
from holdfast.model.commands import Summarize
from holdfast.model.events import EvidenceKept, MessageRecorded
from holdfast.model.frames import Spoken, frame_seq
from holdfast.model.messages import Item, Message, Summary, SummaryDraft, View
from holdfast.model.names import StreamId, check_size, checked_whole
from holdfast.model.state import Calibration, SessionState, SummaryRef
from holdfast.model.view_events import ContextCompacted, SummaryRecorded

T = TypeVar("T")

_SHORTEST = 2
"""Tokens that something shorter can be said for."""
_PAGE = 16
"""The fewest events that are read at once."""


def window(place: Place, tokens: int = 8_000) -> Flow[View]:
    """What of the session fits into so many tokens: the system messages, then the newest units, each whole.

    Where a turn begins is the preferred cut. Counts are corrected by what the provider's usage figures taught so far. What
    was summarised is shown as its summary. Superseded values are kept out, as the policy's guard says: messages() has what
    was said."""
    checked_whole("tokens", tokens, 1, limits.WINDOW_TOKENS)
    return (yield from steady(place, lambda state: _window(place, state, tokens)))


class _Erased(Exception):
    """Something that the state told of is gone."""


def steady(place: Place, make: Callable[[SessionState], Flow[T]]) -> Flow[T]:
    """A view of a state that stays as it is while the view is made; anew if something was erased under our hands."""
    for _ in range(limits.VIEW_TRIES):
        state = yield from load(place.scope.stream, place.context.cache, fresh=True)
        check_there(state, place.scope)
        try:
            return (yield from make(state))
        except _Erased:
            continue
    at = state.version
    raise Contended(stream=place.scope.stream, expected=at, actual=at, tries=limits.VIEW_TRIES, limit_name="VIEW_TRIES")


def _window(place: Place, state: SessionState, tokens: int) -> Flow[View]:
    stream = place.scope.stream
    system = yield from pinned(stream, state, place.frame)
    left = tokens - sum(calibrated(state.calibration, each.tokens, 1) for each in system)
    if left < 0:
        raise WindowTooSmall(what="its system messages", budget=tokens, needed=tokens - left)
    recorded, _ = yield from newest(stream, state, place.frame, left)
    items = (yield from show_guarded(place, state, recorded)).items
    sizes = [calibrated(state.calibration, item.tokens, item.blocks) for item in items]
    if sizes and sizes[-1] > left:
        needed = tokens - left + sizes[-1]
        raise WindowTooSmall(what="the newest message, with the system messages,", budget=tokens, needed=needed)
    shown = fitting(items, sizes, left)
    kept = items[len(items) - shown :]
    return View(
        system=tuple(system),
        items=tuple(kept),
        open_calls=tuple(call for call in state.open_calls if call.frame == place.frame),
        late=(yield from show_messages(place, state, (yield from late_of(stream, state, place.frame)))),
        tokens=tokens - left + sum(sizes[len(items) - shown :]),
        omitted=max(0, _live(state, place.frame) - sum(item.count for item in kept)),
    )


def _live(state: SessionState, frame: str | None) -> int:
    """How many messages a conversation has since the last reset."""
    if frame is None:
        return state.live
    return state.frames[frame].messages if frame in state.frames else 0


def late_of(stream: StreamId, state: SessionState, frame: str | None) -> Flow[tuple[Message, ...]]:
    """The newest results of a conversation that came after their call was closed, newest last."""
    if not state.late:
        return ()
    last = yield from effects.read_back(stream, None, limits.LATE_SHOWN, (EvidenceKept.name,))
    found = [message(each) for each in reversed(last) if each.seq > state.start and each.payload is not None]
    own: list[Message] = []
    for each in found:
        if (yield from _called_in(stream, each)) == frame:
            own.append(each)
    return tuple(own)


def _called_in(stream: StreamId, answer: Message) -> Flow[str | None]:
    """The frame of the call that a result answers; None for none."""
    for result in answer.tool_results[:1]:
        for recorded in (yield from effects.read(stream, (group_of(result.tool_call_id) or 1) - 1, 1)):
            return message(recorded).frame
    return None


def pinned(stream: StreamId, state: SessionState, frame: str | None) -> Flow[list[Message]]:
    """The system messages of the session, and of the frame."""
    found: list[Message] = []
    for seq in state.pinned:
        found += map(message, (yield from effects.read(stream, seq - 1, 1)))
    if any(each.erased for each in found):
        raise _Erased
    return [each for each in found if each.frame in (None, frame)]


def newest(stream: StreamId, state: SessionState, frame: str | None, budget: int) -> Flow[tuple[list[Item], bool]]:
    """Items of a conversation from the newest back until they pass the budget, or its beginning is reached; and whether
    these were no more than LIVE_MESSAGES."""
    waiting = frozenset(group_of(call.id) for call in state.open_calls)
    entries = yield from back(stream, state, frame, budget, waiting)
    return grouped(reversed(entries), state), len(entries) <= limits.LIVE_MESSAGES


def _spoken(state: SessionState, frame: str | None) -> Spoken:
    """Where the messages of a conversation stand. Of one that has ended nobody knows: they may stand anywhere."""
    if frame is None:
        return state.spoken
    return state.frames[frame].spoken if frame in state.frames else Spoken(state.version)


def back(
    stream: StreamId, state: SessionState, frame: str | None, budget: int, but: Collection[int | None]
) -> Flow[list[Message | Summary]]:
    """Messages and summaries from the newest back, those of the groups `but` left out."""
    entries: list[Message | Summary] = []
    size = _Size(state.calibration)
    start = max(state.start, frame_seq(frame))
    summaries = state.summaries_of(frame)
    spoken = _spoken(state, frame)
    before = spoken.last + 1
    page_size = _page_size(state, budget)
    while before - 1 > start and not size.passes(budget) and len(entries) <= limits.LIVE_MESSAGES:
        summary = around(summaries, before - 1)
        if summary is not None:
            for each in reversed((yield from kept_by(stream, summary))):
                entries.append(each)
                size.add(each)
            entries.append((yield from summary_of(stream, summary)))
            size.add_whole(summary.tokens, 1)
            before = summary.first
            continue
        gap = next((each for each in spoken.gaps if each[0] < before <= each[1] + 1), None)
        if gap is not None:
            before = gap[0]
            continue
        ends = (*(each.last for each in summaries), *(each[1] for each in spoken.gaps))
        first = max([start, *(end for end in ends if end < before)]) + 1
        most = min(page_size, before - first)
        page = yield from effects.read_back(stream, before, most, (MessageRecorded.name,))
        before = page[-1].seq if len(page) == most and page[-1].seq >= first else first
        for recorded in page:
            if recorded.seq < first or size.passes(budget):
                break
            each = message(recorded)
            if is_said(each, frame) and group_seq(each) not in but:
                entries.append(each)
                size.add(each)
    return entries


def oldest(stream: StreamId, state: SessionState, frame: str | None) -> Flow[list[Item]]:
    """Items of a conversation from its beginning on, whole units, up to half of LIVE_MESSAGES: for one that has more."""
    entries: list[Message | Summary] = []
    summaries = state.summaries_of(frame)
    after = max(state.start, frame_seq(frame))
    while after < state.version and len(entries) < limits.LIVE_MESSAGES // 2:
        summary = around(summaries, after + 1)
        if summary is not None:
            entries.append((yield from summary_of(stream, summary)))
            entries += yield from kept_by(stream, summary)
            after = summary.last
            continue
        end = min([state.version, *(each.first - 1 for each in summaries if each.first > after)])
        for recorded in (yield from effects.read(stream, after, min(limits.READ_EVENTS, end - after))):
            each = message(recorded)
            if recorded.type == MessageRecorded.name and is_said(each, frame):
                entries.append(each)
            after = recorded.seq
    entries = entries[: limits.LIVE_MESSAGES // 2]
    read = [each for each in entries if isinstance(each, Message)]
    kept, _ = _whole_units(read, after)
    kept_seqs = {each.seq for each in kept}
    return grouped((each for each in entries if isinstance(each, Summary) or each.seq in kept_seqs), state)


class _Size:
    """How much was read so far, from the newest back: results count once their call is there."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._tokens = self._messages = 0
        self._results: dict[int, tuple[int, int]] = {}

    def add(self, each: Message) -> None:
        group = group_seq(each)
        tokens, messages = self._results.pop(group, (0, 0))
        if group == each.seq:
            self.add_whole(tokens + each.tokens, messages + 1)
        else:
            self._results[group] = (tokens + each.tokens, messages + 1)

    def add_whole(self, tokens: int, messages: int) -> None:
        self._tokens += tokens
        self._messages += messages

    def passes(self, budget: int) -> bool:
        return calibrated(self._calibration, self._tokens, self._messages) > budget


def _page_size(state: SessionState, budget: int) -> int:
    """About as many events as the budget is worth."""
    average = max(1, state.live_tokens // max(1, state.live))
    return max(_PAGE, min(limits.READ_EVENTS, budget * 5 // (average * 4)))


def summary_of(stream: StreamId, ref: SummaryRef) -> Flow[Summary]:
    """A summary in effect, with its text."""
    (recorded,) = yield from effects.read(stream, ref.seq - 1, 1)
    event = upcast.current(recorded)
    if isinstance(event, ContextCompacted) and event.fold is not None:
        text, made_by = event.fold.text, event.fold.made_by
    elif isinstance(event, SummaryRecorded):
        text, made_by = event.text, "model"
    else:
        raise _Erased
    return Summary(
        seq=ref.seq,
        first=ref.first,
        last=ref.last,
        messages=ref.messages,
        text=text,
        tokens=ref.tokens,
        replaced=ref.replaced,
        made_by=made_by,
    )


def draft_summary(place: Place, keep_turns: int = 2) -> Flow[SummaryDraft | None]:
    """The oldest part of what is in view, up to the last turns: something to summarise. None if there is nothing.

    Let a model summarise `draft.text` or `draft.items`, then pass the draft and the summary to `summarize`."""
    checked_whole("keep_turns", keep_turns, 0, limits.READ_EVENTS)
    return (yield from steady(place, lambda state: _draft(place, state, keep_turns)))


def _draft(place: Place, state: SessionState, keep_turns: int) -> Flow[SummaryDraft | None]:
    stream = place.scope.stream
    frame = place.frame
    first = max(state.start, frame_seq(frame)) + 1
    last = min((yield from _before_turns(stream, state, frame, keep_turns)), _reach(state, frame, first))
    for call in state.open_calls:
        if call.frame == frame:
            last = min(last, (group_of(call.id) or 0) - 1)
    within = around(state.summaries_of(frame), last)
    if within is not None and within.last > last:
        last = within.first - 1
    stretch = (yield from stretch_of(stream, state, frame, first, last)) if last >= first else []
    assert stretch is not None, "_reach keeps within what is read at once"
    kept, last = _whole_units(stretch, last)
    stay = kept_seqs(kept)
    kept = [each for each in kept if isinstance(each, SummaryRef) or each.seq not in stay]
    if len(kept) < 2 and all(isinstance(each, SummaryRef) for each in kept):
        return None
    tokens = sum(each.tokens for each in kept)
    if tokens < _SHORTEST:
        return None
    entries: list[Message | Summary] = []
    for each in kept:
        entries.append((yield from summary_of(stream, each)) if isinstance(each, SummaryRef) else each)
    guarded = yield from show_guarded(place, state, grouped(entries, state), turn=0, deferring=False)
    return SummaryDraft(
        scope=place.scope,
        frame=frame,
        first=first,
        last=last,
        version=state.version,
        items=guarded.items,
        tokens=tokens,
    )


def _before_turns(stream: StreamId, state: SessionState, frame: str | None, turns: int) -> Flow[int]:
    """The last seq before so many turns."""
    before = state.version + 1
    while turns > 0 and before > state.start + 1:
        page = yield from effects.read_back(stream, before, limits.READ_EVENTS, (MessageRecorded.name,))
        for recorded in page:
            if recorded.seq <= state.start:
                return state.start
            each = message(recorded)
            turns -= each.role == "user" and each.frame == frame
            if not turns:
                return recorded.seq - 1
        if not page:
            return state.start
        before = page[-1].seq
    return before - 1 if not turns else state.start


def _reach(state: SessionState, frame: str | None, first: int) -> int:
    """The last seq of a stretch of SUMMARY_EVENTS events, those that are summarised already not counted."""
    last = first + limits.SUMMARY_EVENTS - 1
    for summary in state.summaries_of(frame):
        if summary.first > last:
            break
        last += summary.last - summary.first + 1
    return min(last, state.version)


def _whole_units(stretch: Sequence[Message | SummaryRef], last: int) -> tuple[list[Message | SummaryRef], int]:
    """The stretch, cut before the first call whose results lie beyond its end."""
    messages = [each for each in stretch if isinstance(each, Message)]
    answered = {result.tool_call_id for each in messages for result in each.tool_results}
    for each in messages:
        if any(call.id not in answered for call in each.tool_calls):
            last = each.seq - 1
            break
    return [each for each in stretch if (each.seq if isinstance(each, Message) else each.last) <= last], last


def summarize(
    place: Place,
    draft: SummaryDraft,
    text: str,
    *,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Summary]:
    """Show what the draft holds as `text` from now on; the messages stay in the transcript.

    Refused if the text is empty or not shorter, and with SummaryStale if the history changed since the draft."""
    if type(draft) is not SummaryDraft or (draft.scope, draft.frame) != (place.scope, place.frame):
        raise InvalidContent(reason="a summary goes with a draft of this session: see draft_summary()")
    first, last = checked_whole("first", draft.first, 1), checked_whole("last", draft.last, 1)
    version = checked_whole("the version of the draft", draft.version, 1)
    codec.checked_text("the summary", text)
    size = len(text.encode())
    check_size("the summary", size, "bytes", "SPOOL_BYTES", "Make it shorter.")
    command = Summarize(scope=place.scope, first=first, last=last, version=version, text=text, frame=place.frame)
    tokens = place.context.counter.count(text)
    (recorded,) = (yield from order(place, command, tokens=[tokens], key=key, cause=cause)).events
    event = upcast.current(recorded)
    assert isinstance(event, SummaryRecorded), "that is what the command makes"
    return Summary(
        seq=recorded.seq,
        first=event.first,
        last=event.last,
        messages=event.messages,
        text=event.text,
        tokens=event.tokens,
        replaced=event.replaced,
        made_by="model",
    )
