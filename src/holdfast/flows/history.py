"""The view of a conversation that goes to a model: read, planned, changed at boundaries, and never the transcript itself.

Laws: reading changes nothing; what it costs follows the view, not the length of the history; a boundary is one event.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec

from holdfast.context.fence import fenced
from holdfast.core.calibrate import calibrated
from holdfast.core.display import Display
from holdfast.core.messages import group_of
from holdfast.core.previews import UNREADABLE
from holdfast.core.shown import pieces_of
from holdfast.core.units import grouped
from holdfast.flows import effects, ingest
from holdfast.flows.bodies import displayer, present
from holdfast.flows.effects import Flow
from holdfast.flows.frames import one_of
from holdfast.flows.guard import guard_items, guard_text, show_messages, watch
from holdfast.flows.load import Viewed
from holdfast.flows.place import Context, Place
from holdfast.flows.read import is_said
from holdfast.flows.read import message as message_of
from holdfast.flows.views import late_of, newest, oldest, pinned, steady
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, File, Image, Opaque, Text, text_of
from holdfast.model.events import MessageRecorded
from holdfast.model.frames import frame_seq
from holdfast.model.handles import piece_id
from holdfast.model.messages import History, Item, Message, Summary, Unit
from holdfast.model.names import check_size, checked_whole
from holdfast.model.plan import Reduction
from holdfast.model.state import SessionState

Dialect = Literal["text", "openai", "openai-responses", "anthropic"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
_LATE_CHARS = 200
_ISSUERS: dict[Dialect, str] = {"openai": "openai", "openai-responses": "openai", "anthropic": "anthropic"}


def history(place: Place, *, budget: int | None = None) -> Flow[History]:
    """The conversation as a model is shown it, since the last boundary: of the frame, or of the session outside of frames.

    The values of dead facts are kept out of it, as the policy's guard says; the transcript has them. With a `budget`,
    stored bodies are shown as in a pack of so many tokens: whole, or by a preview. Without one, each is shown by the
    preview that was stored with it. A marker names the handle that reads the rest."""
    display = Display(checked_budget(budget))
    return (yield from steady(place, lambda state: history_at(place, state, display)))


def checked_budget(budget: object) -> int | None:
    """The tokens for which stored bodies are shown, if any are given."""
    return None if budget is None else checked_whole("budget", budget, 1, limits.WINDOW_TOKENS)


def unguarded(place: Place, state: SessionState, display: Display = Display()) -> Flow[Viewed]:
    """What is in view as it was recorded, or is shown since a boundary. What was read before and is still as it was is not
    read again, nor looked at."""
    stream, frame, views = place.scope.stream, place.frame, place.context.cache.views
    start = max(state.start, frame_seq(frame))
    known = views.get(stream, frame, display)
    if known is not None and known.start == start and known.version == state.version:
        return known
    items, new = yield from _items(place, state, known, start)
    reduced: tuple[Reduction, ...] = ()
    if new is None or known is None:
        reduced = state.view(frame).reduced
        known, new = Viewed(state.version, start, (), (), 0, 0, False, None, {}), items
    presented = yield from present(place, new, display, reduced)
    looked, partly = displayer(place, display).show(presented)
    made = Viewed(
        state.version,
        start,
        (*known.recorded, *new),
        (*known.shown, *looked),
        known.tokens + sum(each.tokens for each in looked),
        known.blocks + sum(each.blocks for each in looked),
        known.bodied or any(map(_bodied, looked)),
        _asked(new) or known.asked or (yield from _asked_before(place, state, start)),
        {**known.partly, **partly},
    )
    if not any(call.frame == frame for call in state.open_calls):  # else what is behind them is not in it
        views.put(stream, frame, display, made)
    return made


def _items(
    place: Place, state: SessionState, known: Viewed | None, start: int
) -> Flow[tuple[list[Item], list[Item] | None]]:
    """All that is in view; or, if what was seen before is as it was, only what came since."""
    changed = max(state.changed, state.view(place.frame).boundary)
    fits = known is not None and known.start == start and changed <= known.version <= state.version
    waits = any(call.frame == place.frame for call in state.open_calls)
    if known is None or not fits or waits or state.version - known.version >= limits.READ_EVENTS:
        return (yield from in_view(place, state)), None
    page = yield from effects.read(place.scope.stream, known.version, state.version - known.version)
    said = (message_of(each) for each in page if each.type == MessageRecorded.name)
    own = [each for each in said if is_said(each, place.frame)]
    if known.blocks + len(own) > limits.LIVE_MESSAGES:
        return (yield from in_view(place, state)), None
    new = grouped(own, state)
    return new, new


def _asked(items: Sequence[Item]) -> Message | None:
    """The newest message of the user among these."""
    for item in reversed(items):
        for message in reversed(item.messages) if isinstance(item, Unit) else ():
            if message.role == "user":
                return message
    return None


def _asked_before(place: Place, state: SessionState, start: int) -> Flow[Message | None]:
    """The newest message of the user that was folded: a turn of an agent may be longer than any window."""
    folded = state.summaries_of(place.frame)
    before = folded[-1].last + 1 if folded else 0
    while before > start + 1:
        page = yield from effects.read_back(place.scope.stream, before, limits.READ_EVENTS, (MessageRecorded.name,))
        for each in map(message_of, page):
            if each.seq > start and each.role == "user" and each.frame == place.frame:
                return each
        before = page[-1].seq if page else 0
    return None


def _bodied(item: Item) -> bool:
    messages = item.messages if isinstance(item, Unit) else ()
    return any(
        isinstance(part, Image | File) or (isinstance(part, Opaque) and isinstance(part.body, BlobRef))
        for each in messages
        for _, parts, _ in pieces_of(each)
        for part in parts
    )


def history_at(place: Place, state: SessionState, display: Display = Display()) -> Flow[History]:
    stream = place.scope.stream
    recorded = (yield from unguarded(place, state, display)).shown
    late = yield from late_of(stream, state, place.frame)
    notes = late_note(late, recorded)
    context, came = place.context, late[-1].seq if late else 0
    policy, now = context.policy.guard, context.clock.now_us()
    looked = yield from watch(place, state, recorded, [(came, each) for each in notes], policy=policy, as_of_us=now)
    visible = guard_items(looked, recorded, context.counter.count).items
    tail = fenced(guard_text(looked, each, came) for each in notes)
    system = yield from system_messages(place, state)
    measure = functools.partial(calibrated, state.calibration)
    sizes = [measure(item.tokens, item.blocks) for item in visible]
    boundary = state.view(place.frame).boundary
    return History(
        scope=place.scope,
        frame=place.frame,
        version=state.version,
        system=system,
        items=visible,
        frozen=sum(1 for _ in itertools.takewhile(lambda item: item.last <= boundary, visible)),
        open_calls=tuple(call for call in state.open_calls if call.frame == place.frame),
        late=(yield from show_messages(place, state, late)),
        tail=tail,
        tokens=sum(measure(each.tokens, 1) for each in system)
        + sum(sizes)
        + sum(measure(place.context.counter.count(each), 1) for each in tail),
    )


def late_note(late: Sequence[Message], items: Sequence[Item], readable: bool = True) -> tuple[str, ...]:
    """What a model is told, until it has replied, of results that came too late to stand behind their call."""
    reply = last_reply(items)
    lines = [
        f"{result.tool_call_id}: {' '.join(text_of(result.content)[:_LATE_CHARS].split())}"
        + (f' (read_handle("{piece_id(each.seq, number)}") reads it)' if readable else f" ({UNREADABLE})")
        for each in late
        if reply is None or each.seq > reply.seq
        for number, result in enumerate(each.tool_results)
    ]
    return ("\n".join(["Results that came after their call had been closed:", *lines]),) if lines else ()


def last_reply(items: Sequence[Item]) -> Message | None:
    for item in reversed(items):
        for message in reversed(item.messages) if isinstance(item, Unit) else ():
            if message.role == "assistant":
                return message
    return None


def system_messages(place: Place, state: SessionState) -> Flow[tuple[Message, ...]]:
    """The system messages, whole: also those that are too long for the log."""
    found: list[Message] = []
    for message in (yield from pinned(place.scope.stream, state, place.frame)):
        refs = [part.ref for part in message.content if isinstance(part, Body)]
        texts = {}
        for ref in refs:
            texts[ref.digest] = yield from text_of_body(place.context, ref)
        parts = tuple(Text(texts[part.ref.digest]) if isinstance(part, Body) else part for part in message.content)
        tokens = ingest.count_parts(place.context.counter, parts) if refs else message.tokens
        found.append(msgspec.structs.replace(message, content=parts, tokens=tokens))
    return tuple(found)


def in_view(place: Place, state: SessionState) -> Flow[list[Item]]:
    """All that is in view, as it was recorded."""
    items, whole = yield from read(place, state)
    if not whole:
        check_size("the view", limits.LIVE_MESSAGES + 1, "messages", "LIVE_MESSAGES", "Fold the oldest: compact().")
    return items


def read(place: Place, state: SessionState, display: Display = Display()) -> Flow[tuple[list[Item], bool]]:
    """All that is in view, as it was recorded, and whether that is all; if it is too much, its beginning. What came after a
    call that still waits stands behind its result: until then it is not shown."""
    known = place.context.cache.views.get(place.scope.stream, place.frame, display)
    if known is not None and (known.version, known.start) == (state.version, max(state.start, frame_seq(place.frame))):
        return list(known.recorded), True
    items, whole = yield from newest(place.scope.stream, state, place.frame, limits.WINDOW_TOKENS)
    if not whole:
        items = yield from oldest(place.scope.stream, state, place.frame)
    waiting = [group_of(call.id) or 0 for call in state.open_calls if call.frame == place.frame]
    first = min(waiting, default=state.version + 1)
    return [item for item in items if item.seq < first or isinstance(item, Summary)], whole


def text_of_body(context: Context, ref: BlobRef) -> Flow[str]:
    return (yield from effects.outside(lambda: read_whole(context, ref).decode("utf-8", "replace")))


def read_whole(context: Context, ref: BlobRef) -> bytes:
    return b"".join(context.bodies.chunks(context.tenant, ref))


def render(place: Place, to: Dialect = "anthropic", *, budget: int | None = None) -> Flow[Any]:
    """The history in the words of a provider: `anthropic` gives `system` and `messages`, `openai` the messages of a chat,
    `openai-responses` gives `instructions` and `input`, `text` something to read. `budget` is that of history()."""
    from holdfast import render as renderers  # noqa: PLC0415 - a good part of the time of an import

    one_of("dialect", to, DIALECTS)
    found = yield from history(place, budget=budget)
    if to == "text":
        return renderers.text(found)
    bodies: dict[str, bytes] = {}
    for ref in renderers.bodies_of(found, _ISSUERS[to]):
        if ref.size <= limits.INLINE_BYTES:
            bodies[ref.digest] = yield from effects.outside(functools.partial(read_whole, place.context, ref))
    if to == "anthropic":
        return renderers.anthropic(found, bodies)
    return renderers.openai_chat(found, bodies) if to == "openai" else renderers.openai_responses(found, bodies)
