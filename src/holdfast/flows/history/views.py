"""Read the history view of a conversation, and the sliding window.

Laws:
- Reading changes nothing. A view has whole groups only, in order.
- The cost follows what is shown, not the length of the history.
- No more is read of a stored body than is shown of it, or its preview is made from. A body that cannot be shown whole
  is never read whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal, TypeVar, get_args

import msgspec

from holdfast.core import upcast
from holdfast.core.history.boundaries import find_surrounding_summary
from holdfast.core.history.guard import guard_items, guard_text
from holdfast.core.history.previews import UNREADABLE
from holdfast.core.history.views import (
    BodyPresenter,
    Display,
    PresentedItems,
    ReadAmount,
    count_fitting,
    find_newest,
    group_messages,
    group_seq,
    insert_system_messages,
    pieces_of,
    split_system_messages,
)
from holdfast.errors import Contended, InvalidArgument, WindowTooSmall
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, SessionContext, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.history.guard import load_guard_input, load_guarded_items, load_guarded_messages
from holdfast.flows.load import CachedView
from holdfast.flows.sessions import ingest
from holdfast.flows.sessions.transcript import is_in_conversation, load_hidden_ranges, message_of, read_kept_messages
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, File, Image, Opaque, Text, calling_seq, text_of
from holdfast.model.frames.frames import MessagePositions
from holdfast.model.history.events import ContextCompacted, SummaryRecorded
from holdfast.model.history.handles import piece_id
from holdfast.model.history.plans import Reduction
from holdfast.model.history.views import HistoryItem, HistoryView, Summary, TranscriptView
from holdfast.model.names import StreamId, check_choice, check_flag, check_name, check_size, check_whole
from holdfast.model.sessions.events import EvidenceKept, MessageRecorded
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import Calibration, SessionState, SummaryRef
from holdfast.text.fence import fence_texts

Dialect = Literal["text", "openai", "openai-responses", "anthropic", "gemini", "bedrock", "litellm"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
_ISSUERS = {"openai-responses": "openai", "gemini": "google"}
"""The issuer whose own parts a dialect shows, where the names differ."""
_LATE_CHARS = 200
_MIN_PAGE = 16
"""The fewest events that are read at once."""
T = TypeVar("T")


class _ErasedMeanwhile(Exception):
    """Something that the state refers to was erased."""


# The history view


def history(context: SessionContext, *, budget: int | None = None) -> Flow[HistoryView]:
    """The history view of the conversation since the last boundary. With a `budget`, stored bodies are shown as in a
    pack of so many tokens, else by their stored previews."""
    display = Display(check_budget(budget))
    return (yield from with_steady_state(context, lambda state: build_history(context, state, display)))


def check_budget(budget: object) -> int | None:
    """The budget of a view, if one is passed."""
    return None if budget is None else check_whole("budget", budget, 1, limits.WINDOW_TOKENS)


def read_unguarded(context: SessionContext, state: SessionState, display: Display = Display()) -> Flow[CachedView]:
    """The items in view, without the guard. What an earlier call read, and is unchanged, is not read again."""
    stream, frame, views = context.scope.stream, context.frame, context.engine.cache.views
    start = state.start_of(frame)
    cached = views.get(stream, frame, display)
    if cached is not None and cached.start == start and cached.version == state.version:
        return cached
    items, new = yield from _read_new_items(context, state, cached, start)
    reduced: tuple[Reduction, ...] = ()
    if new is None or cached is None:
        reduced = state.view(frame).reduced
        cached, new = CachedView(state.version, start, (), (), 0, 0, False, None, {}), items
    presented = yield from present_bodies(context, new, display, reduced)
    shown, partly = build_displayer(context, display).show(presented)
    view = CachedView(
        state.version,
        start,
        (*cached.recorded, *new),
        (*cached.shown, *shown),
        cached.tokens + sum(item.tokens for item in shown),
        cached.blocks + sum(item.blocks for item in shown),
        cached.bodied or any(map(_has_media, shown)),
        find_newest(new, "user") or cached.asked or (yield from _find_folded_user_message(context, state, start)),
        {**cached.partly, **partly},
    )
    if not any(call.frame == frame for call in state.open_calls):  # else the messages behind them are missing
        views.put(stream, frame, display, view)
    return view


def _read_new_items(
    context: SessionContext, state: SessionState, cached: CachedView | None, start: int
) -> Flow[tuple[list[HistoryItem], list[HistoryItem] | None]]:
    """All items in view, and None; or, if the cached ones are unchanged, the new items twice."""
    changed = max(state.changed, state.view(context.frame).boundary)
    fits = cached is not None and cached.start == start and changed <= cached.version <= state.version
    waits = any(call.frame == context.frame for call in state.open_calls)
    if cached is None or not fits or waits or state.version - cached.version >= limits.READ_EVENTS:
        return (yield from read_view(context, state)), None
    page = yield from effects.read(context.scope.stream, cached.version, state.version - cached.version)
    messages = (message_of(event) for event in page if event.type == MessageRecorded.name)
    new_messages = [message for message in messages if is_in_conversation(message, context.frame)]
    if cached.blocks + len(new_messages) > limits.LIVE_MESSAGES:
        return (yield from read_view(context, state)), None
    new = group_messages(new_messages, state)
    return new, new


def _find_folded_user_message(context: SessionContext, state: SessionState, start: int) -> Flow[Message | None]:
    """The newest message of the user that was folded: a turn of an agent may be longer than any window."""
    folded = state.summaries_of(context.frame)
    before = folded[-1].last + 1 if folded else 0
    hidden = yield from load_hidden_ranges(context.scope.stream, state, context.frame)
    while before > start + 1:
        page = yield from effects.read_back(context.scope.stream, before, limits.READ_EVENTS, (MessageRecorded.name,))
        for message in map(message_of, page):
            if message.seq <= start or message.seq in hidden:
                continue
            if message.role == "user" and message.frame == context.frame:
                return message
        before = page[-1].seq if page else 0
    return None


def _has_media(item: HistoryItem) -> bool:
    messages = item.messages if isinstance(item, MessageGroup) else ()
    return any(
        isinstance(part, Image | File) or (isinstance(part, Opaque) and isinstance(part.body, BlobRef))
        for message in messages
        for _, parts, _ in pieces_of(message)
        for part in parts
    )


def build_history(context: SessionContext, state: SessionState, display: Display = Display()) -> Flow[HistoryView]:
    stream = context.scope.stream
    recorded = (yield from read_unguarded(context, state, display)).shown
    late = yield from read_late_results(stream, state, context.frame)
    notes = build_late_note(late, recorded)
    engine, late_seq = context.engine, late[-1].seq if late else 0
    policy, now = engine.policy.guard, engine.clock.now_us()
    guard_input = yield from load_guard_input(
        context, state, recorded, [(late_seq, note) for note in notes], policy=policy, as_of_us=now
    )
    visible = guard_items(guard_input, recorded, engine.counter.count).items
    tail = fence_texts(guard_text(guard_input, note, late_seq) for note in notes)
    system, later = yield from read_system_messages(context, state)
    visible = insert_system_messages(visible, later)
    measure = state.calibration.measure
    sizes = [measure(item.tokens, item.blocks) for item in visible]
    boundary = state.view(context.frame).boundary
    return HistoryView(
        scope=context.scope,
        frame=context.frame,
        version=state.version,
        system=system,
        items=visible,
        frozen=sum(1 for _ in itertools.takewhile(lambda item: item.last <= boundary, visible)),
        open_calls=tuple(call for call in state.open_calls if call.frame == context.frame),
        late=(yield from load_guarded_messages(context, state, late)),
        tail=tail,
        tokens=sum(measure(message.tokens, 1) for message in system)
        + sum(sizes)
        + sum(measure(engine.counter.count(text), 1) for text in tail),
    )


def build_late_note(late: Sequence[Message], items: Sequence[HistoryItem], readable: bool = True) -> tuple[str, ...]:
    """The note on results that came after their call was closed. It is shown until the model has replied."""
    reply = find_newest(items, "assistant")
    lines = [
        f"{result.tool_call_id}: {' '.join(text_of(result.content)[:_LATE_CHARS].split())}"
        + (f' (read_handle("{piece_id(message.seq, number)}") reads it)' if readable else f" ({UNREADABLE})")
        for message in late
        if reply is None or message.seq > reply.seq
        for number, result in enumerate(message.tool_results)
    ]
    return ("\n".join(["Results that came after their call had been closed:", *lines]),) if lines else ()


def read_system_messages(
    context: SessionContext, state: SessionState
) -> Flow[tuple[tuple[Message, ...], tuple[Message, ...]]]:
    """The system messages, whole, also those that are too long for the log: those that come first, and those that are
    shown where they were recorded."""
    messages: list[Message] = []
    for message in (yield from read_pinned(context.scope.stream, state, context.frame)):
        refs = [part.ref for part in message.content if isinstance(part, Body)]
        texts = {}
        for ref in refs:
            texts[ref.digest] = (yield from read_body(context.engine, ref)).decode("utf-8", "replace")
        parts = tuple(Text(texts[part.ref.digest]) if isinstance(part, Body) else part for part in message.content)
        tokens = ingest.count_parts(context.engine.counter, parts) if refs else message.tokens
        messages.append(msgspec.structs.replace(message, content=parts, tokens=tokens))
    first = (yield from _find_first_message(context, state)) if messages else 0
    waiting = (calling_seq(call.id) or 0 for call in state.open_calls if call.frame == context.frame)
    return split_system_messages(messages, first, min(waiting, default=state.version + 1))


def _find_first_message(context: SessionContext, state: SessionState) -> Flow[int]:
    """The seq of the first message of a conversation that is no system message; 0 if there is none. Of a frame that has
    ended, the log is read."""
    frame = context.frame
    if frame is None or frame in state.frames:
        return _message_range(state, frame).first
    after = state.start_of(frame)
    while page := (yield from effects.read(context.scope.stream, after, limits.READ_EVENTS)):
        for recorded in page:
            if recorded.type == MessageRecorded.name and is_in_conversation(message_of(recorded), frame):
                return recorded.seq
        after = page[-1].seq
    return 0


def read_view(context: SessionContext, state: SessionState) -> Flow[list[HistoryItem]]:
    """All items in view, as they were recorded."""
    items, complete = yield from read_items(context, state)
    if not complete:
        check_size("the view", limits.LIVE_MESSAGES + 1, "messages", "LIVE_MESSAGES", "Fold the oldest: compact().")
    return items


def read_items(
    context: SessionContext, state: SessionState, display: Display = Display()
) -> Flow[tuple[list[HistoryItem], bool]]:
    """The items in view, as they were recorded, and whether these are all; if there are too many, the oldest ones.
    Messages behind an open call are not shown until its result is there."""
    cached = context.engine.cache.views.get(context.scope.stream, context.frame, display)
    start = state.start_of(context.frame)
    if cached is not None and (cached.version, cached.start) == (state.version, start):
        return list(cached.recorded), True
    items, complete = yield from read_newest(context.scope.stream, state, context.frame, limits.WINDOW_TOKENS)
    if not complete:
        items = yield from read_oldest(context.scope.stream, state, context.frame)
    waiting = [calling_seq(call.id) or 0 for call in state.open_calls if call.frame == context.frame]
    first = min(waiting, default=state.version + 1)
    return [item for item in items if item.seq < first or isinstance(item, Summary)], complete


def read_body(engine: EngineContext, ref: BlobRef) -> Flow[bytes]:
    return (yield from effects.run_outside(lambda: b"".join(engine.bodies.chunks(engine.tenant, ref))))


def build_displayer(context: SessionContext, display: Display, reduced: Sequence[Reduction] = ()) -> BodyPresenter:
    """The presenter of stored bodies for this display."""
    return BodyPresenter(display, context.engine.spooling, context.engine.counter.count, reduced)


def present_bodies(
    context: SessionContext, items: Sequence[HistoryItem], display: Display, reduced: Sequence[Reduction]
) -> Flow[PresentedItems]:
    """The items with their stored bodies as a pack shows them, and the reductions that go with them."""
    presenter = build_displayer(context, display, reduced)
    amounts = presenter.amounts(items)
    read: dict[str, bytes] = {}
    for digest, amount in _largest_amounts(amounts.values()).items():
        read[digest] = yield from read_start(context.engine, amount.ref, amount.size)
    return presenter.present(items, amounts, read)


def _largest_amounts(amounts: Iterable[ReadAmount]) -> dict[str, ReadAmount]:
    """How much is read of each body: several items may show it."""
    largest: dict[str, ReadAmount] = {}
    for amount in amounts:
        other = largest.get(amount.ref.digest)
        if other is None or other.size < amount.size:
            largest[amount.ref.digest] = amount
    return largest


def read_start(engine: EngineContext, ref: BlobRef, size: int) -> Flow[bytes]:
    """The first bytes of a body; if that is all of it, its digest is checked."""
    return (yield from effects.run_outside(lambda: _read_chunks(engine, ref, size)))


def _read_chunks(engine: EngineContext, ref: BlobRef, size: int) -> bytes:
    start = bytearray()
    for chunk in engine.bodies.chunks(engine.tenant, ref):
        start += chunk
        if len(start) > size or (len(start) == size < ref.size):
            break
    return bytes(start[:size])


def render(
    context: SessionContext,
    to: Dialect = "anthropic",
    *,
    budget: int | None = None,
    ids: bool = False,
    model: str | None = None,
) -> Flow[Any]:
    """The history in the format of a provider; with `ids`, each item has one. `model` is the one that is to see it."""
    from holdfast import render as renderers  # noqa: PLC0415 - a good part of the time of an import

    check_choice("to", to, DIALECTS)
    if check_flag("ids", ids) and to != "openai-responses":
        raise InvalidArgument(argument="ids", reason=f"only items have ids, in openai-responses; not in {to}")
    if model is not None:
        check_name("model", model)
    view = yield from history(context, budget=budget)
    if to == "text":
        return renderers.render_text(view)
    bodies: dict[str, bytes] = {}
    for ref in renderers.bodies_of(view, _ISSUERS.get(to, to)):
        if ref.size <= limits.INLINE_BYTES:
            bodies[ref.digest] = yield from read_body(context.engine, ref)
    if to == "openai-responses":
        return renderers.render_openai_responses(view, bodies, ids=ids)
    if to == "anthropic":
        return renderers.render_anthropic(view, bodies, model=model)
    render_view: dict[str, Callable[..., Any]] = {
        "bedrock": renderers.render_bedrock,
        "gemini": renderers.render_gemini,
        "litellm": renderers.render_litellm,
        "openai": renderers.render_openai_chat,
    }
    return render_view[to](view, bodies)


# The sliding window


def window(context: SessionContext, tokens: int = 8_000) -> Flow[TranscriptView]:
    """The system messages and the newest groups that fit into so many tokens. A cut is preferred where a turn begins."""
    check_whole("tokens", tokens, 1, limits.WINDOW_TOKENS)
    return (yield from with_steady_state(context, lambda state: _build_window(context, state, tokens)))


def with_steady_state(context: SessionContext, build: Callable[[SessionState], Flow[T]]) -> Flow[T]:
    """Build something of the current state; again if something that it needs was erased meanwhile."""
    for _ in range(limits.VIEW_TRIES):
        state = yield from load_session(context)
        try:
            return (yield from build(state))
        except _ErasedMeanwhile:
            continue
    at, stream = state.version, context.scope.stream
    raise Contended(stream=stream, expected=at, actual=at, tries=limits.VIEW_TRIES, limit_name="VIEW_TRIES")


def _build_window(context: SessionContext, state: SessionState, tokens: int) -> Flow[TranscriptView]:
    stream = context.scope.stream
    system = yield from read_pinned(stream, state, context.frame)
    left = tokens - sum(state.calibration.measure(message.tokens, 1) for message in system)
    if left < 0:
        raise WindowTooSmall(what="its system messages", budget=tokens, needed=tokens - left)
    recorded, _ = yield from read_newest(stream, state, context.frame, left)
    items = (yield from load_guarded_items(context, state, recorded)).items
    sizes = [state.calibration.measure(item.tokens, item.blocks) for item in items]
    if sizes and sizes[-1] > left:
        needed = tokens - left + sizes[-1]
        raise WindowTooSmall(what="the newest message, with the system messages,", budget=tokens, needed=needed)
    start = len(items) - count_fitting(items, sizes, left)
    fitting = items[start:]
    late = yield from read_late_results(stream, state, context.frame)
    return TranscriptView(
        system=tuple(system),
        items=tuple(fitting),
        open_calls=tuple(call for call in state.open_calls if call.frame == context.frame),
        late=(yield from load_guarded_messages(context, state, late)),
        tokens=tokens - left + sum(sizes[start:]),
        omitted=max(0, _count_messages(state, context.frame) - sum(item.count for item in fitting)),
    )


def _count_messages(state: SessionState, frame: str | None) -> int:
    """The messages of a conversation since the last reset."""
    if frame is None:
        return state.live
    return state.frames[frame].messages if frame in state.frames else 0


def read_late_results(stream: StreamId, state: SessionState, frame: str | None) -> Flow[tuple[Message, ...]]:
    """The newest results that came after their call was closed, newest last."""
    if not state.late:
        return ()
    newest = yield from effects.read_back(stream, None, limits.LATE_SHOWN, (EvidenceKept.name,))
    events = [event for event in reversed(newest) if event.seq > state.start and event.payload is not None]
    results: list[Message] = []
    hidden = yield from load_hidden_ranges(stream, state, frame)
    for message in map(message_of, events):
        if any((calling_seq(each.tool_call_id) or 0) in hidden for each in message.tool_results):
            continue
        if (yield from _find_call_frame(stream, message)) == frame:
            results.append(message)
    return tuple(results)


def _find_call_frame(stream: StreamId, answer: Message) -> Flow[str | None]:
    """The frame of the call that a result answers; None outside of frames."""
    for result in answer.tool_results[:1]:
        for recorded in (yield from effects.read(stream, (calling_seq(result.tool_call_id) or 1) - 1, 1)):
            return message_of(recorded).frame
    return None


def read_pinned(stream: StreamId, state: SessionState, frame: str | None) -> Flow[list[Message]]:
    """The system messages of the session and of the frame."""
    messages: list[Message] = []
    for seq in state.pinned:
        messages += map(message_of, (yield from effects.read(stream, seq - 1, 1)))
    if any(message.erased for message in messages):
        raise _ErasedMeanwhile
    return [message for message in messages if message.frame in (None, frame)]


def read_newest(
    stream: StreamId, state: SessionState, frame: str | None, budget: int
) -> Flow[tuple[list[HistoryItem], bool]]:
    """Items of a conversation from the newest back until they exceed the budget, or its start is reached; and whether
    these are no more than LIVE_MESSAGES."""
    waiting = frozenset(calling_seq(call.id) for call in state.open_calls)
    entries = yield from read_backwards(stream, state, frame, budget, waiting)
    return group_messages(reversed(entries), state), len(entries) <= limits.LIVE_MESSAGES


def _message_range(state: SessionState, frame: str | None) -> MessagePositions:
    """Where the messages of a conversation are. Of a conversation that has ended this is unknown: they may be anywhere."""
    if frame is None:
        return state.spoken
    return state.frames[frame].spoken if frame in state.frames else MessagePositions(state.version)


def read_backwards(
    stream: StreamId, state: SessionState, frame: str | None, budget: int, excluded: Collection[int | None]
) -> Flow[list[Message | Summary]]:
    """Messages and summaries from the newest back, without those of the `excluded` groups."""
    entries: list[Message | Summary] = []
    size = _ReadTokens(state.calibration)
    start = state.start_of(frame)
    summaries = state.summaries_of(frame)
    spoken = _message_range(state, frame)
    hidden = yield from load_hidden_ranges(stream, state, frame)
    long_ranges = (each for each in hidden.ranges if each[1] - each[0] >= limits.GAP_EVENTS)
    gaps = (*spoken.gaps, *long_ranges)
    before = spoken.last + 1
    page_size = _page_size(state, budget)
    while before - 1 > start and not size.passes(budget) and len(entries) <= limits.LIVE_MESSAGES:
        summary = find_surrounding_summary(summaries, before - 1)
        if summary is not None:
            for message in reversed((yield from read_kept_messages(stream, summary))):
                entries.append(message)
                size.add(message)
            entries.append((yield from read_summary(stream, summary)))
            size.add_whole(summary.tokens, 1)
            before = summary.first
            continue
        gap = next((first for first, last in gaps if first < before <= last + 1), None)
        if gap is not None:
            before = gap
            continue
        ends = (*(ref.last for ref in summaries), *(last for _, last in gaps))
        first = max([start, *(end for end in ends if end < before)]) + 1
        most = min(page_size, before - first)
        page = yield from effects.read_back(stream, before, most, (MessageRecorded.name,))
        before = page[-1].seq if len(page) == most and page[-1].seq >= first else first
        for recorded in page:
            if recorded.seq < first or size.passes(budget):
                break
            message = message_of(recorded)
            if message.seq in hidden or group_seq(message) in excluded:
                continue
            if is_in_conversation(message, frame):
                entries.append(message)
                size.add(message)
    return entries


def read_oldest(stream: StreamId, state: SessionState, frame: str | None) -> Flow[list[HistoryItem]]:
    """Items of a conversation from its start, in whole groups, up to half of LIVE_MESSAGES: for a conversation that has
    more."""
    entries: list[Message | Summary] = []
    summaries = state.summaries_of(frame)
    after = state.start_of(frame)
    hidden = yield from load_hidden_ranges(stream, state, frame)
    while after < state.version and len(entries) < limits.LIVE_MESSAGES // 2:
        summary = find_surrounding_summary(summaries, after + 1)
        if summary is not None:
            entries.append((yield from read_summary(stream, summary)))
            entries += yield from read_kept_messages(stream, summary)
            after = summary.last
            continue
        end = min([state.version, *(ref.first - 1 for ref in summaries if ref.first > after)])
        for recorded in (yield from effects.read(stream, after, min(limits.READ_EVENTS, end - after))):
            message = message_of(recorded)
            shown = recorded.type == MessageRecorded.name and message.seq not in hidden
            if shown and is_in_conversation(message, frame):
                entries.append(message)
            after = recorded.seq
    entries = entries[: limits.LIVE_MESSAGES // 2]
    closed, _ = cut_open_groups([entry for entry in entries if isinstance(entry, Message)], after)
    seqs = {message.seq for message in closed}
    return group_messages((entry for entry in entries if isinstance(entry, Summary) or entry.seq in seqs), state)


class _ReadTokens:
    """Counts what was read so far, from the newest back. Results count once their call is read."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._tokens = self._messages = 0
        self._results: dict[int, tuple[int, int]] = {}

    def add(self, message: Message) -> None:
        group = group_seq(message)
        tokens, messages = self._results.pop(group, (0, 0))
        if group == message.seq:
            self.add_whole(tokens + message.tokens, messages + 1)
        else:
            self._results[group] = (tokens + message.tokens, messages + 1)

    def add_whole(self, tokens: int, messages: int) -> None:
        self._tokens += tokens
        self._messages += messages

    def passes(self, budget: int) -> bool:
        return self._calibration.measure(self._tokens, self._messages) > budget


def _page_size(state: SessionState, budget: int) -> int:
    """About as many events as the budget has room for."""
    average = max(1, state.live_tokens // max(1, state.live))
    return max(_MIN_PAGE, min(limits.READ_EVENTS, budget * 5 // (average * 4)))


def read_summary(stream: StreamId, ref: SummaryRef) -> Flow[Summary]:
    """A summary in effect, with its text."""
    (recorded,) = yield from effects.read(stream, ref.seq - 1, 1)
    event = upcast.decode_event(recorded)
    if isinstance(event, ContextCompacted) and event.fold is not None:
        text, made_by = event.fold.text, event.fold.made_by
    elif isinstance(event, SummaryRecorded):
        text, made_by = event.text, "model"
    else:
        raise _ErasedMeanwhile
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


def cut_open_groups(stretch: Sequence[Message | SummaryRef], last: int) -> tuple[list[Message | SummaryRef], int]:
    """The stretch, cut before the first call whose results are beyond its end."""
    messages = [entry for entry in stretch if isinstance(entry, Message)]
    answered = {result.tool_call_id for message in messages for result in message.tool_results}
    for message in messages:
        if any(call.id not in answered for call in message.tool_calls):
            last = message.seq - 1
            break
    return [entry for entry in stretch if (entry.seq if isinstance(entry, Message) else entry.last) <= last], last
