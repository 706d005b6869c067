"""The view of a conversation that goes to a model: read, planned, changed at boundaries, and never the transcript itself.

Laws: reading changes nothing; what it costs follows the view, not the length of the history; a boundary is one event.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

import msgspec

from holdfast import chain, codec, errors
from holdfast.context import plan as planning
from holdfast.context.plan import Ground, Tools
from holdfast.core import upcast
from holdfast.core.calibrate import calibrated
from holdfast.core.messages import group_of
from holdfast.core.shown import by_message, item_shown, pieces_of
from holdfast.core.units import grouped
from holdfast.errors import InvalidContent, PlanStale
from holdfast.flows import effects, ingest
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Part
from holdfast.flows.frames import one_of
from holdfast.flows.guarding import guard_text, shown_guarded
from holdfast.flows.load import Viewed
from holdfast.flows.place import Context, Place, given_to, together
from holdfast.flows.read import message as message_of
from holdfast.flows.views import late_of, newest, oldest, pinned, steady
from holdfast.model import limits
from holdfast.model.commands import CompactContext
from holdfast.model.content import BlobRef, Body, File, Image, Opaque, Text, text_of
from holdfast.model.events import ContextCompacted, MessageRecorded
from holdfast.model.frames import frame_seq
from holdfast.model.handles import piece_id
from holdfast.model.log import Appended
from holdfast.model.messages import History, Item, Message, Summary, SummaryDraft, Unit
from holdfast.model.names import check_size, checked_flag, checked_name, checked_whole
from holdfast.model.plan import (
    Fold,
    Plan,
    PlanPolicy,
    Prices,
    Strategy,
    SummarizeOldest,
    TruncateAt,
    checked_policy,
    folds,
)
from holdfast.model.prices import checked_prices, prices_of
from holdfast.model.state import SessionState

Dialect = Literal["text", "openai", "openai-responses", "anthropic"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
_LATE_CHARS = 200
_ISSUERS: dict[Dialect, str] = {"openai": "openai", "openai-responses": "openai", "anthropic": "anthropic"}

UNKNOWN = Prices(
    provider="unknown",
    model="unknown",
    input=1_000_000,
    cache_read=100_000,
    cache_write=1_000_000,
    output=5_000_000,
    window=limits.WINDOW_TOKENS,
    max_output=0,
)
"""For a model of which nothing is known: only what is dearer than what counts."""


def history(place: Place) -> Flow[History]:
    """The conversation as a model is shown it, since the last boundary: of the frame, or of the session outside of frames.

    The values of dead facts are kept out of it, as the policy's guard says; the transcript has them. What is large is shown
    by a preview or an excerpt, and a marker names the handle that reads the rest."""
    return (yield from steady(place, lambda state: history_at(place, state)))


def unguarded(place: Place, state: SessionState) -> Flow[Viewed]:
    """What is in view as it was recorded, or is shown since a boundary. What was read before and is still as it was is not
    read again, nor looked at."""
    stream, frame, views = place.scope.stream, place.frame, place.context.cache.views
    start = max(state.start, frame_seq(frame))
    known = views.get(stream, frame)
    if known is not None and known.start == start and known.version == state.version:
        return known
    items, new = yield from _items(place, state, known, start)
    if new is None or known is None:
        bodies = yield from _whole(place, state, items)
        reductions = by_message(state.view(frame).reduced)
        known, new = Viewed(state.version, start, (), (), 0, 0, False, None), items
        looked = [item_shown(item, reductions, bodies) for item in items]
    else:
        looked = [item_shown(item, {}, {}) for item in new]
    made = Viewed(
        state.version,
        start,
        (*known.recorded, *new),
        (*known.shown, *looked),
        known.tokens + sum(each.tokens for each in looked),
        known.blocks + sum(each.blocks for each in looked),
        known.bodied or any(map(_bodied, looked)),
        _asked(new) or known.asked or (yield from _asked_before(place, state, start)),
    )
    if not any(call.frame == frame for call in state.open_calls):  # else what is behind them is not in it
        views.put(stream, frame, made)
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
    own = [each for each in said if each.role not in (None, "system") and each.frame == place.frame]
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


def history_at(place: Place, state: SessionState) -> Flow[History]:
    stream = place.scope.stream
    recorded = (yield from unguarded(place, state)).shown
    late = yield from late_of(stream, state, place.frame)
    notes = late_note(late, recorded)
    guarded, watch = yield from shown_guarded(place, state, recorded, notes)
    visible, tail = guarded.items, tuple(guard_text(watch, each) for each in notes)
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
        late=late,
        tail=tail,
        tokens=sum(measure(each.tokens, 1) for each in system)
        + sum(sizes)
        + sum(measure(place.context.counter.count(each), 1) for each in tail),
    )


def late_note(late: Sequence[Message], items: Sequence[Item]) -> tuple[str, ...]:
    """What a model is told, until it has replied, of results that came too late to stand behind their call."""
    reply = _last_reply(items)
    lines = [
        f"{result.tool_call_id}: {' '.join(text_of(result.content)[:_LATE_CHARS].split())}"
        f' (read_handle("{piece_id(each.seq, number)}") reads it)'
        for each in late
        if reply is None or each.seq > reply.seq
        for number, result in enumerate(each.tool_results)
    ]
    return ("\n".join(["Results that came after their call had been closed:", *lines]),) if lines else ()


def _last_reply(items: Sequence[Item]) -> Message | None:
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
    items, whole = yield from _read(place, state)
    if not whole:
        check_size("the view", limits.LIVE_MESSAGES + 1, "messages", "LIVE_MESSAGES", "Fold the oldest: compact().")
    return items


def _read(place: Place, state: SessionState) -> Flow[tuple[list[Item], bool]]:
    """All that is in view, as it was recorded, and whether that is all; if it is too much, its beginning. What came after a
    call that still waits stands behind its result: until then it is not shown."""
    known = place.context.cache.views.get(place.scope.stream, place.frame)
    if known is not None and (known.version, known.start) == (state.version, max(state.start, frame_seq(place.frame))):
        return list(known.recorded), True
    items, whole = yield from newest(place.scope.stream, state, place.frame, limits.WINDOW_TOKENS)
    if not whole:
        items = yield from oldest(place.scope.stream, state, place.frame)
    waiting = [group_of(call.id) or 0 for call in state.open_calls if call.frame == place.frame]
    first = min(waiting, default=state.version + 1)
    return [item for item in items if item.seq < first or isinstance(item, Summary)], whole


def _whole(place: Place, state: SessionState, items: Iterable[Item]) -> Flow[dict[str, str]]:
    """The texts of bodies that are shown whole."""
    wanted = {(each.message, each.piece) for each in state.view(place.frame).reduced if each.form == "whole"}
    texts: dict[str, str] = {}
    for item in items if wanted else ():
        for message in item.messages if isinstance(item, Unit) else ():
            for number, parts, _ in pieces_of(message):
                if (message.seq, number) in wanted:
                    for part in parts:
                        if isinstance(part, Body):
                            texts[part.ref.digest] = yield from text_of_body(place.context, part.ref)
    return texts


def text_of_body(context: Context, ref: BlobRef) -> Flow[str]:
    return (yield from effects.outside(lambda: read_whole(context, ref).decode("utf-8", "replace")))


def read_whole(context: Context, ref: BlobRef) -> bytes:
    return b"".join(context.bodies.chunks(context.tenant, ref))


def render(place: Place, to: Dialect = "anthropic") -> Flow[Any]:
    """The history in the words of a provider: `anthropic` gives `system` and `messages`, `openai` the messages of a chat,
    `openai-responses` gives `instructions` and `input`, `text` something to read."""
    from holdfast import render as renderers  # noqa: PLC0415 - a good part of the time of an import

    one_of("dialect", to, DIALECTS)
    found = yield from history(place)
    if to == "text":
        return renderers.text(found)
    bodies: dict[str, bytes] = {}
    for ref in renderers.bodies_of(found, _ISSUERS[to]):
        if ref.size <= limits.INLINE_BYTES:
            bodies[ref.digest] = yield from effects.outside(functools.partial(read_whole, place.context, ref))
    if to == "anthropic":
        return renderers.anthropic(found, bodies)
    return renderers.openai_chat(found, bodies) if to == "openai" else renderers.openai_responses(found, bodies)


# Planning


def plan(
    place: Place,
    *,
    window: int | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    policy: PlanPolicy | Literal["priced", "classic"] | None = None,
    before: int = 0,
    cold: bool = False,
) -> Flow[Plan]:
    """What would be done to the history now, what it frees, what it costs, and when it pays back. Changes nothing.

    The model is the one that answered last, unless `model` or `prices` says otherwise; `window` is what all may take, if
    that is less than its window without its longest answer. `before` are the tokens of what stands before the conversation
    and is not in it: tools, a system prompt. `cold` says that the cache is lost, as after a change of tools."""
    asked = _request(place, window, model, prices, policy, before, cold)
    return (yield from steady(place, lambda state: _plan(place, state, asked, None)))


class _Asked(msgspec.Struct, frozen=True):
    window: int | None
    model: str | None
    prices: Prices | None
    policy: PlanPolicy
    before: int
    cold: bool


def _request(
    place: Place, window: object, model: object, prices: object, policy: object, before: object, cold: object
) -> _Asked:
    return _Asked(
        None if window is None else checked_whole("window", window, 1, limits.WINDOW_TOKENS),
        None if model is None else checked_name("model", model),
        None if prices is None else checked_prices(prices),
        checked_policy(policy, place.context.compaction),
        checked_whole("before", before, 0, limits.WINDOW_TOKENS),
        checked_flag("cold", cold),
    )


def _plan(place: Place, state: SessionState, asked: _Asked, strategy: Strategy | None) -> Flow[Plan]:
    ground = yield from _ground(place, state, asked, strategy)
    return _planned(place.context, state, ground, asked.policy, strategy)


def _planned(
    context: Context, state: SessionState, ground: Ground, policy: PlanPolicy, strategy: Strategy | None
) -> Plan:
    tools = _tools(context, state)
    if strategy is not None and not ground.unread:
        return planning.asked(ground, strategy, policy, tools)
    return planning.plan(ground, policy, tools)


def _tools(context: Context, state: SessionState) -> Tools:
    count = context.counter.count
    return Tools(
        measure=functools.partial(calibrated, state.calibration),
        count=count,
        summarizing=_summarizing(context),
    )


def _extracted(count: Callable[[str], int], items: Sequence[Item], tokens: int) -> str:
    from holdfast.context.extract import extract  # noqa: PLC0415 - a good part of the time of an import

    return extract(items, tokens, count)


def _summarizing(context: Context) -> Callable[[int, int], int]:
    """What a summary costs: nothing, unless a model makes it."""
    prices = None if context.summarizer is None else context.summarizer.prices
    if prices is None:
        return lambda _tokens, _summary: 0
    return lambda tokens, summary: prices.input * tokens + prices.output * summary


def _ground(place: Place, state: SessionState, asked: _Asked, strategy: Strategy | None) -> Flow[Ground]:
    frame = place.frame
    measure = functools.partial(calibrated, state.calibration)
    items, whole = yield from _read(place, state)
    reply = _last_reply(items)
    answered = "" if reply is None or reply.source is None else reply.source.model or ""
    last = answered or (state.calibration.model if frame is None else "")
    prices = asked.prices or _prices(place.context, asked.model or last)
    if prices is None:
        if asked.window is None and strategy is None:
            model = asked.model or last
            told = f"nothing is known of the model {errors.shown(model)}" if model else "no model has answered yet"
            raise InvalidContent(reason=f"{told}; say window=, or prices=")
        prices = UNKNOWN
    window = prices.window - prices.max_output
    system = yield from system_messages(place, state)
    late = yield from late_of(place.scope.stream, state, frame)
    notes = late_note(late, items)
    known = _prices(place.context, answered)
    changed = known is not None and known != prices and asked.prices is None
    pinned_since = reply is not None and any(each.seq > reply.seq for each in system)
    return Ground(
        scope=place.scope,
        frame=frame,
        version=state.version,
        system=asked.before
        + sum(measure(each.tokens, 1) for each in system)
        + sum(measure(place.context.counter.count(each), 1) for each in notes),
        items=tuple(items),
        view=state.view(frame),
        window=min(window, asked.window or window),
        prices=prices,
        now_us=place.context.clock.now_us(),
        cold=asked.cold or changed or pinned_since,
        unread=not whole,
        bodies=(yield from _whole(place, state, items)),
    )


def _prices(context: Context, model: str) -> Prices | None:
    return prices_of(model, context.prices) if model else None


def compact(
    place: Place,
    plan: Plan | None = None,
    *,
    strategy: Strategy | None = None,
    window: int | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    policy: PlanPolicy | Literal["priced", "classic"] | None = None,
    before: int = 0,
    cold: bool = False,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Plan]:
    """Carry out what plan() says, if it says anything; the plan that comes back has the event in `at`.

    With a `plan` from before, exactly that: PlanStale if what is shown has changed since. With a `strategy`
    (SummarizeOldest, TruncateAt), what that asks for, whatever it costs. The transcript stays as it is."""
    if plan is not None:
        plan = _made(place, plan)
    if strategy is not None:
        _check_strategy(strategy)
    asked = _request(place, window, model, prices, policy, before, cold)
    said = None if plan is None else msgspec.structs.replace(plan, considered=(), at=None)
    bound = codec.encode(["compact", place.scope, place.frame, asked, strategy, said])
    if key is not None:
        first = yield from effects.find(place.scope.tenant, checked_name("idempotency key", key))
        if first:
            return _as_plan(place, chain.repeated(key, bound, first))
    if plan is not None:
        kept = plan
        sound = yield from steady(place, lambda state: _checked_plan(place, state, kept))
        return (yield from _carried_out(place, (yield from _filled(place, sound)), key, cause, bound))
    for tries in range(limits.VIEW_TRIES):
        try:
            made = yield from _from_the_beginning(place, asked, strategy, cause)
            made = yield from _filled(place, made)
            return (yield from _carried_out(place, made, key, cause, bound))
        except PlanStale:
            if tries + 1 == limits.VIEW_TRIES:
                raise
    raise AssertionError("the last try returns or raises")


def _made(place: Place, plan: object) -> Plan:
    """Whether this can be a plan that plan() made: what a caller put into one is of no type that it should have."""
    try:
        made = codec.decode(codec.encode(plan), Plan) if type(plan) is Plan else None
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError, BufferError):
        made = None
    if made is None or made != plan or (made.scope, made.frame) != (place.scope, place.frame):
        raise InvalidContent(reason="a plan to carry out is what plan() of this conversation returned")
    return made


def _from_the_beginning(place: Place, asked: _Asked, strategy: Strategy | None, cause: str | None) -> Flow[Plan]:
    """A plan for what can be looked at as a whole; what is longer is folded from its beginning until it can."""
    done: Plan | None = None
    while True:
        made = yield from steady(place, lambda state: _plan(place, state, asked, strategy))
        if made.empty and done is not None:
            return done
        if not made.more or made.empty:
            return made
        made = yield from _filled(place, made)
        done = yield from _carried_out(place, made, None, cause, None)


def _checked_plan(place: Place, state: SessionState, plan: Plan) -> Flow[Plan]:
    """A plan that someone kept, if it is one of this view: it folds whole items, and reduces pieces that are there. A text
    that was put into it is counted."""
    plan = msgspec.structs.replace(plan, at=None)
    if max(state.changed, state.view(place.frame).boundary) > plan.version:
        return plan  # and refused as that
    items, _ = yield from _read(place, state)
    units = [item for item in items if isinstance(item, Unit)]
    there = {(each.seq, number) for unit in units for each in unit.messages for number, _, _ in pieces_of(each)}
    sound = all((each.message, each.piece) in there for each in plan.reduced)
    fold = plan.fold
    if fold is None:
        if sound:
            return plan
        raise InvalidContent(reason=_FOREIGN)
    inside = [item for item in items if item.last <= fold.last]
    messages = tuple(message.seq for item in inside if isinstance(item, Unit) for message in item.messages)
    cut = any(item.seq <= fold.last < item.last for item in units)
    if not inside or not sound or cut or not any(map(folds, plan.ops)) or {*messages} != {*fold.messages}:
        raise InvalidContent(reason=_FOREIGN)
    fold = msgspec.structs.replace(
        fold,
        first=min(item.first for item in inside),
        messages=tuple(sorted(messages)),
        summaries=tuple(item.seq for item in inside if isinstance(item, Summary)),
        count=sum(item.count for item in inside),
        replaced=sum(item.replaced for item in inside),
    )
    plan = msgspec.structs.replace(plan, fold=fold)
    if not fold.text:
        return plan
    codec.checked_text("the summary", fold.text)
    check_size("the summary", len(fold.text.encode()), "bytes", "SPOOL_BYTES", "Make it shorter.")
    tools = _tools(place.context, state)
    tokens, most = tools.count(fold.text), sum(item.tokens for item in inside)
    if not fold.text.strip() or tokens >= most:
        raise InvalidContent(reason=f"the summary has {tokens} tokens, and what it stands for has {most}")
    return planning.filled(plan, inside, fold.text, tools)


_FOREIGN = "the plan does not fit the view: it was made for another, or changed by hand"


def _as_plan(place: Place, appended: Appended) -> Plan:
    """A plan as the event tells that carried it out."""
    for recorded in appended.events:
        event = upcast.current(recorded)
        if isinstance(event, ContextCompacted):
            return Plan(
                scope=place.scope,
                frame=event.frame,
                version=recorded.seq - 1,
                policy=event.policy,
                why=event.why,
                reduced=event.reduced,
                fold=event.fold,
                figures=event.figures,
                target_met=event.target_met,
                at=recorded.seq,
            )
    raise InvalidContent(reason="what was done under this key was erased since")


def _check_strategy(strategy: object) -> None:
    match strategy:
        case SummarizeOldest(keep_recent=figure) | TruncateAt(message_count=figure):
            checked_whole("the messages to keep", figure, 0, limits.LIVE_MESSAGES)
        case _:
            reason = f"a strategy is SummarizeOldest(…) or TruncateAt(…), not {errors.shown(strategy)}"
            raise InvalidContent(reason=reason)


def _filled(place: Place, plan: Plan) -> Flow[Plan]:
    """The plan with the text of its summary: a model's, if one is at hand and says something that fits, or an extract."""
    if plan.fold is None or plan.fold.text:
        return plan
    return (yield from steady(place, lambda state: _with_text(place, state, plan, plan.fold)))


def _with_text(place: Place, state: SessionState, plan: Plan, fold: Fold | None) -> Flow[Plan]:
    assert fold is not None, "that is what a text is made for"
    items, _ = yield from _read(place, state)
    reductions = by_message((*state.view(place.frame).reduced, *plan.reduced))
    bodies = yield from _whole(place, state, items)
    recorded = [item_shown(item, reductions, bodies) for item in items if item.last <= fold.last]
    guarded, _ = yield from shown_guarded(place, state, recorded, deferring=False)
    inside = guarded.items
    tools = _tools(place.context, state)
    draft = SummaryDraft(
        scope=place.scope,
        frame=place.frame,
        first=fold.first,
        last=fold.last,
        version=plan.version,
        items=inside,
        tokens=sum(item.tokens for item in inside),
    )
    text = yield from _told(place.context, draft, fold.tokens)
    if not text:
        text = _extracted(place.context.counter.count, inside, fold.tokens)
    if not text.strip() or tools.measure(tools.count(text), 1) > tools.measure(fold.tokens, 1):
        text = planning.outline(inside)
    return planning.filled(plan, inside, text, tools)


def _told(context: Context, draft: SummaryDraft, tokens: int) -> Flow[str]:
    """What the summarizer says, if there is one, and it says something that fits; else nothing."""
    if context.summarizer is None:
        return ""
    try:
        text = yield from effects.outside(functools.partial(context.summarizer.summarize, draft, tokens))
        codec.checked_text("the summary", text)
    except Exception:  # noqa: BLE001 - whatever goes wrong in there, what is extracted serves
        return ""
    fits = text.strip() and context.counter.count(text) <= tokens and len(text.encode()) <= limits.SPOOL_BYTES
    return text if fits else ""


def _carried_out(place: Place, plan: Plan, key: str | None, cause: str | None, bound: bytes | None) -> Flow[Plan]:
    if plan.empty or plan.at is not None:
        return plan
    command = CompactContext(
        scope=place.scope,
        frame=place.frame,
        version=plan.version,
        policy=plan.policy,
        why=plan.why or "asked",
        ops=plan.ops,
        reduced=plan.reduced,
        fold=plan.fold,
        first_changed=plan.first_changed,
        original=plan.figures.before,
        final=plan.figures.after,
        level="moderate" if plan.fold is not None else "light",
        target_met=plan.target_met,
        figures=plan.figures,
    )
    refs = [each.ref for each in plan.reduced if each.ref is not None]
    part = Part(command, given_to(place.context))
    appended = yield from together(place.context, [part], key=key, cause=cause, bodies=refs, bound=bound)
    for recorded in appended.events:
        if isinstance(upcast.current(recorded), ContextCompacted):
            return msgspec.structs.replace(plan, at=recorded.seq)
    return plan
