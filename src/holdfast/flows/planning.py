"""Plans for the view of a conversation, and carrying them out: what is folded, what it frees, what it costs.

Laws: planning changes nothing; a boundary is one event, and does exactly what its plan says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast import chain, codec, errors
from holdfast.context import plan as planning
from holdfast.context import strategies
from holdfast.context.ahead import fold_prepared, plan_ahead
from holdfast.context.fence import fenced
from holdfast.context.ground import Ground, Tools
from holdfast.context.levels import Asked
from holdfast.core import upcast
from holdfast.core.calibrate import calibrated
from holdfast.core.display import Display
from holdfast.core.shown import pieces_of
from holdfast.errors import InvalidContent, PlanStale
from holdfast.flows import effects
from holdfast.flows.bodies import displayer, present
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Part
from holdfast.flows.frames import handles
from holdfast.flows.guard import show_guarded
from holdfast.flows.history import last_reply, late_note, read, system_messages
from holdfast.flows.place import Context, Place, given_to, together
from holdfast.flows.prepared import PreparedSummary, digest_items
from holdfast.flows.strategies import Followed, find_strategy
from holdfast.flows.summaries import ask_summarizer
from holdfast.flows.views import late_of, steady
from holdfast.model import limits
from holdfast.model.commands import CompactContext
from holdfast.model.handles import Handle
from holdfast.model.log import Appended
from holdfast.model.messages import Item, Summary, SummaryDraft, Unit
from holdfast.model.names import check_size, checked_flag, checked_name, checked_whole
from holdfast.model.plan import (
    Fold,
    Op,
    Plan,
    PlanPolicy,
    PolicyName,
    Prices,
    Step,
    checked_policy,
    folds,
)
from holdfast.model.prices import UNKNOWN, checked_prices, prices_of
from holdfast.model.state import SessionState
from holdfast.model.view_events import ContextCompacted

if TYPE_CHECKING:
    from holdfast.render.packs import Pack


def plan(
    place: Place,
    *,
    window: int | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    policy: PlanPolicy | PolicyName | None = None,
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
    for_pack: bool = False
    """Whether a pack asks: it chooses among the handles itself, and its tail gives way."""


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


def _plan(place: Place, state: SessionState, asked: _Asked, strategy: Followed | None) -> Flow[Plan]:
    ground = yield from _ground(place, state, asked, strategy)
    made = _planned(place.context, state, ground, asked.policy, strategy)
    return (yield from _with_whole_tokens(place, state, made, Display(asked.window)))


def _with_whole_tokens(place: Place, state: SessionState, plan: Plan, display: Display) -> Flow[Plan]:
    """The plan, with the tokens of what its summary stands for counted on what was recorded, whatever the window."""
    if plan.fold is None:
        return plan
    items, _ = yield from read(place, state, display)
    fold = plan.fold
    replaced = sum(item.replaced for item in items if item.last <= fold.last and not _is_kept(item, fold))
    return msgspec.structs.replace(plan, fold=msgspec.structs.replace(plan.fold, replaced=replaced))


def _planned(
    context: Context, state: SessionState, ground: Ground, policy: PlanPolicy, strategy: Followed | None
) -> Plan:
    tools = _tools(context, state)
    if strategy is not None and not ground.unread:
        return strategies.asked(ground, strategy.asked, policy, tools, strategy.custom)
    due = planning.plan(ground, policy, tools)
    prepared = None if due.fold is None else _prepared(context, state, ground)
    return due if prepared is None else fold_prepared(ground, policy, tools, due, prepared.last)


def _prepared(context: Context, state: SessionState, ground: Ground) -> PreparedSummary | None:
    since = max(state.changed, state.view(ground.frame).boundary)
    return context.cache.prepared.get(ground.scope.stream, ground.frame, since)


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


def _ground(place: Place, state: SessionState, asked: _Asked, strategy: Followed | None) -> Flow[Ground]:
    frame = place.frame
    measure = functools.partial(calibrated, state.calibration)
    recorded, whole = yield from read(place, state, Display(asked.window))
    reply = last_reply(recorded)
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
    notes = fenced(late_note(late, recorded))
    known = _prices(place.context, answered)
    changed = known is not None and known != prices and asked.prices is None
    pinned_since = reply is not None and any(each.seq > reply.seq for each in system)
    window = min(window, asked.window or window)
    view = state.view(frame)
    presented = yield from present(place, recorded, _display(window), view.reduced)
    return Ground(
        scope=place.scope,
        frame=frame,
        version=state.version,
        system=asked.before
        + sum(measure(each.tokens, 1) for each in system)
        + sum(measure(place.context.counter.count(each), 1) for each in notes),
        items=presented.items,
        view=msgspec.structs.replace(view, reduced=presented.reduced),
        window=window,
        prices=prices,
        now_us=place.context.clock.now_us(),
        cold=asked.cold or changed or pinned_since,
        unread=not whole,
        stored=presented.stored,
        handles=(yield from _handles(place)) if strategy is not None and not asked.for_pack else (),
        flexible=asked.for_pack,
    )


def _display(window: int) -> Display:
    """Stored bodies count as in a pack of this window; where neither a window nor a model is known, by their previews."""
    return Display(window if 0 < window < UNKNOWN.window else None)


def _handles(place: Place) -> Flow[tuple[Handle, ...]]:
    """The newest handles of a frame that its packs may show, beside what stands in the history."""
    if place.frame is None:
        return ()
    found = yield from handles(place, limit=limits.LEFT_OUT_HANDLES)
    return tuple(each for each in found if each.occupies_context)


def _prices(context: Context, model: str) -> Prices | None:
    return prices_of(model, context.prices) if model else None


def compact(
    place: Place,
    plan: Plan | None = None,
    *,
    strategy: Asked | None = None,
    window: int | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    policy: PlanPolicy | PolicyName | None = None,
    before: int = 0,
    cold: bool = False,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Plan]:
    """Carry out what plan() says, if it says anything; the plan that comes back has the event in `at`.

    With a `plan` from before, exactly that: PlanStale if what is shown has changed since. With a `strategy`, what that asks
    for, whatever it costs: SummarizeOldest and TruncateAt keep so many of the newest messages; PriorityBased takes out what
    has the lowest priority, the oldest first, until the rest fits `window`; one of your own, by its name or as a function,
    is asked if it does not fit. What is Critical stays, or it is a CriticalOverflow. In a frame its handles take part:
    those that are left out are collapsed until page_in(). What comes back says what became of it: original, final,
    level, items_removed, items_summarised, target_met. The transcript stays as it is."""
    if plan is not None:
        plan = _made(place, plan)
    followed = find_strategy(place.context, strategy)
    asked = _request(place, window, model, prices, policy, before, cold)
    said = None if plan is None else msgspec.structs.replace(plan, considered=(), at=None)
    bound = codec.encode(
        ["compact", place.scope, place.frame, asked, None if followed is None else followed.asked, said]
    )
    if key is not None:
        first = yield from effects.find(place.scope.tenant, checked_name("idempotency key", key))
        if first:
            return _as_plan(place, chain.repeated(key, bound, first))
    if plan is not None:
        kept = plan
        sound = yield from steady(place, lambda state: _checked_plan(place, state, kept))
        return (yield from _carried_out(place, (yield from _filled(place, sound)), key, cause, bound))
    return (yield from _done(place, asked, followed, key, cause, bound))


def follow(place: Place, strategy: Followed, *, window: int, model: str | None, before: int) -> Flow[Plan]:
    """What a strategy that a pack was asked for does to the view. Handles are left alone: the pack chooses among them."""
    asked = _Asked(window, model, None, place.context.compaction, before, cold=False, for_pack=True)
    return (yield from _done(place, asked, strategy, None, None, None))


def _done(
    place: Place, asked: _Asked, strategy: Followed | None, key: str | None, cause: str | None, bound: bytes | None
) -> Flow[Plan]:
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


def _from_the_beginning(place: Place, asked: _Asked, strategy: Followed | None, cause: str | None) -> Flow[Plan]:
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
    items, _ = yield from read(place, state)
    units = [item for item in items if isinstance(item, Unit)]
    there = {(each.seq, number) for unit in units for each in unit.messages for number, _, _ in pieces_of(each)}
    sound = all((each.message, each.piece) in there for each in plan.reduced)
    fold = plan.fold
    if fold is None:
        if sound:
            return plan
        raise InvalidContent(reason=_FOREIGN)
    before = [item for item in items if item.last <= fold.last]
    inside = [item for item in before if not _is_kept(item, fold)]
    messages = tuple(message.seq for item in inside if isinstance(item, Unit) for message in item.messages)
    kept = {message.seq for item in before if _is_kept(item, fold) for message in item.messages}  # type: ignore[union-attr]
    sound = sound and kept == {*fold.kept} and not any(_is_critical(item) for item in inside)
    cut = any(item.seq <= fold.last < item.last for item in units)
    if not inside or not sound or cut or not any(map(folds, plan.ops)) or {*messages} != {*fold.messages}:
        raise InvalidContent(reason=_FOREIGN)
    fold = msgspec.structs.replace(
        fold,
        first=min(item.first for item in before),
        messages=tuple(sorted(messages)),
        summaries=tuple(item.seq for item in inside if isinstance(item, Summary)),
        count=sum(item.count for item in inside),
        replaced=sum(item.replaced for item in inside),
    )
    plan = msgspec.structs.replace(plan, fold=fold)
    if not fold.text:
        return plan
    plan = msgspec.structs.replace(plan, fold=msgspec.structs.replace(fold, made_by="model"))
    codec.checked_text("the summary", fold.text)
    check_size("the summary", len(fold.text.encode()), "bytes", "SPOOL_BYTES", "Make it shorter.")
    tools = _tools(place.context, state)
    tokens, most = tools.count(fold.text), sum(item.tokens for item in inside)
    if not fold.text.strip() or tokens >= most:
        raise InvalidContent(reason=f"the summary has {tokens} tokens, and what it stands for has {most}")
    return planning.filled(plan, inside, fold.text, tools)


def _is_kept(item: Item, fold: Fold) -> bool:
    """Whether a fold leaves it in view."""
    return isinstance(item, Unit) and item.seq in fold.kept


def _is_critical(item: Item) -> bool:
    return isinstance(item, Unit) and item.priority == "critical"


_FOREIGN = "the plan does not fit the view: it was made for another, or changed by hand"


def _as_step(op: Op, event: ContextCompacted) -> Step:
    figures = event.figures
    return Step(op=op, first_changed_index=event.first_changed, before=figures.before, after=figures.after)


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
                level=event.level,
                steps=tuple(_as_step(op, event) for op in event.ops),
                handles=event.handles,
                handle_tokens=event.original - event.figures.before,
                freed_tokens=event.original - event.figures.before - (event.final - event.figures.after),
                at=recorded.seq,
            )
    raise InvalidContent(reason="what was done under this key was erased since")


def _filled(place: Place, plan: Plan) -> Flow[Plan]:
    """The plan with the text of its summary: a model's, if one is at hand and says something that fits, or an extract."""
    if plan.fold is None or plan.fold.text:
        return plan
    return (yield from steady(place, lambda state: _with_text(place, state, plan, plan.fold)))


def _with_text(place: Place, state: SessionState, plan: Plan, fold: Fold | None) -> Flow[Plan]:
    assert fold is not None, "that is what a text is made for"
    draft = yield from _draft(place, state, plan, fold)
    inside = draft.items
    tools = _tools(place.context, state)
    text = _prepared_text(place, state, draft, fold) or (yield from ask_summarizer(place.context, draft, fold.tokens))
    fold = msgspec.structs.replace(fold, made_by="model" if text else "rule")
    if not text:
        text = _extracted(place.context.counter.count, inside, fold.tokens)
    if not text.strip() or tools.measure(tools.count(text), 1) > tools.measure(fold.tokens, 1):
        text = planning.outline(inside)
        fold = msgspec.structs.replace(fold, made_by="rule")
    return planning.filled(msgspec.structs.replace(plan, fold=fold), inside, text, tools)


def _draft(place: Place, state: SessionState, plan: Plan, fold: Fold) -> Flow[SummaryDraft]:
    """What a plan folds, as its summarizer may read it."""
    items, _ = yield from read(place, state)
    changed = {(each.message, each.piece) for each in plan.reduced}
    kept = [each for each in state.view(place.frame).reduced if (each.message, each.piece) not in changed]
    display = _display(plan.figures.window)
    folded = [item for item in items if item.last <= fold.last and not _is_kept(item, fold)]
    presented = yield from present(place, folded, display, [*kept, *plan.reduced])
    shown, _ = displayer(place, display).show(presented)
    guarded = yield from show_guarded(place, state, shown, turn=0, deferring=False)
    return SummaryDraft(
        scope=place.scope,
        frame=place.frame,
        first=fold.first,
        last=fold.last,
        version=plan.version,
        items=guarded.items,
        tokens=sum(item.tokens for item in guarded.items),
    )


def _prepared_text(place: Place, state: SessionState, draft: SummaryDraft, fold: Fold) -> str:
    """The text that prepare() had made of these messages, if they are still shown like that and it is not too long."""
    since = max(state.changed, state.view(place.frame).boundary)
    found = place.context.cache.prepared.get(place.scope.stream, place.frame, since)
    if found is None or (found.last, found.digest) != (draft.last, digest_items(draft.items)):
        return ""
    return found.text if place.context.counter.count(found.text) <= fold.tokens else ""


def prepare(
    place: Place, pack: Pack | None = None, *, window: int | None = None, model: str | None = None, before: int = 0
) -> Flow[bool]:
    """Have the engine's summarizer write the summary of the next boundary now, so that no pack has to wait for it. Call it
    between two model calls, or in the background. Returns whether a summary is at hand.

    While the boundary is far, nothing is asked: under the faithful policy, more than 15% of the window below its
    threshold; under others, until it is due. Nothing is stored: the text is kept in the memory of this engine. The next
    boundary uses it if these messages are still shown as they were, and folding them brings the history below the
    threshold; else it asks the summarizer itself. `pack` is the last pack of this conversation: its figures are taken for
    those of the next one. Without it, `window`, `model` and `before` are as in plan()."""
    if place.context.summarizer is None:
        raise InvalidContent(reason="there is no summarizer: open the engine with summarizer=")
    if pack is not None:
        window, model, before = _figures_of(pack)
    asked = _request(place, window, model, None, None, before, False)
    found = yield from steady(place, lambda state: _ahead(place, state, asked))
    if found is None:
        return False
    draft, tokens, ready = found
    text = "" if ready else (yield from ask_summarizer(place.context, draft, tokens))
    if text:
        made = PreparedSummary(draft.version, draft.last, digest_items(draft.items), text)
        place.context.cache.prepared.put(place.scope.stream, place.frame, made)
    return ready or bool(text)


def _figures_of(pack: object) -> tuple[int, str | None, int]:
    """The window of a pack, its model, and what is in it beside the history."""
    from holdfast.render.packs import Pack  # noqa: PLC0415 - a good part of the time of an import

    if not isinstance(pack, Pack):
        raise InvalidContent(reason=f"{errors.shown(pack)} is no pack: pass what pack() returned")
    tokens = pack.tokens
    return tokens.budget, pack.manifest.request.model or None, tokens.used - tokens.breakdown.get("history", 0)


def _ahead(place: Place, state: SessionState, asked: _Asked) -> Flow[tuple[SummaryDraft, int, bool] | None]:
    """What the next boundary folds, the most tokens that its summary may have, and whether that was made before."""
    ground = yield from _ground(place, state, asked, None)
    tools = _tools(place.context, state)
    made, kept = plan_ahead(ground, asked.policy, tools), _prepared(place.context, state, ground)
    if kept is not None:
        made = fold_prepared(ground, asked.policy, tools, made, kept.last)
    if made.fold is None or made.fold.text:
        return None
    draft = yield from _draft(place, state, made, made.fold)
    return draft, made.fold.tokens, bool(_prepared_text(place, state, draft, made.fold))


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
        original=plan.original,
        final=plan.final,
        level=plan.level,
        target_met=plan.target_met,
        figures=plan.figures,
        handles=plan.handles,
    )
    refs = [each.ref for each in plan.reduced if each.ref is not None]
    part = Part(command, given_to(place.context))
    appended = yield from together(place.context, [part], key=key, cause=cause, bodies=refs, bound=bound)
    for recorded in appended.events:
        if isinstance(upcast.current(recorded), ContextCompacted):
            return msgspec.structs.replace(plan, at=recorded.seq)
    return plan
