"""Plan and carry out the compaction of a history view.

Laws: planning changes nothing. A boundary is one event, and does exactly what its plan says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast import chain, codec
from holdfast.core import upcast
from holdfast.core.history import levels, planner
from holdfast.core.history.draft import PlanInput, PlanTools
from holdfast.core.history.outlines import build_outline
from holdfast.core.history.views import (
    Display,
    find_newest,
    group_by_message,
    hide_outdated,
    insert_system_messages,
    pieces_of,
)
from holdfast.errors import (
    InvalidArgument,
    InvalidName,
    PlanStale,
    StrategyUnknown,
    describe_value,
)
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, SessionContext, build_input, execute_commands
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.history.guard import load_guarded_items
from holdfast.flows.history.handles import list_attachments
from holdfast.flows.history.summaries import ask_summarizer, check_summarizer
from holdfast.flows.history.views import (
    build_displayer,
    build_late_note,
    present_bodies,
    read_items,
    read_late_results,
    read_system_messages,
    with_steady_state,
)
from holdfast.flows.load import PreparedSummary, digest_items
from holdfast.model import limits
from holdfast.model.history.commands import CompactContext
from holdfast.model.history.events import ContextCompacted
from holdfast.model.history.handles import Handle
from holdfast.model.history.plans import (
    CustomStrategy,
    Fold,
    Plan,
    PlanPolicy,
    PlanStep,
    PolicyName,
    PriorityBased,
    Strategy,
    SummarizeOldest,
    TruncateAt,
    check_policy,
    is_fold,
)
from holdfast.model.history.prices import UNKNOWN_PRICES, Prices, check_prices, find_prices
from holdfast.model.history.views import HistoryItem, Summary, SummaryDraft
from holdfast.model.log import AppendResult
from holdfast.model.names import Scope, check_flag, check_name, check_size, check_whole
from holdfast.model.sessions.messages import MessageGroup
from holdfast.model.state import SessionState
from holdfast.text.fence import fence_texts

if TYPE_CHECKING:
    from holdfast.render.pack import Pack


BUILT_IN: dict[str, Callable[[], Strategy]] = {"priority_based": PriorityBased, "summarize_oldest": SummarizeOldest}
_TRUNCATE_AT = "truncate_at"
_FOREIGN_PLAN = "it does not fit the view: it was made for another one, or changed by hand"


# Planning


def plan(
    context: SessionContext,
    *,
    window: int | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    policy: PlanPolicy | PolicyName | None = None,
    before: int = 0,
    cold: bool = False,
    rewritten_head: int | None = None,
) -> Flow[Plan]:
    """What a compaction would do now, what it frees, what it costs, and when it pays back. Changes nothing.

    `rewritten_head` is the number of tokens before the conversation, if carrying the plan out changes something there."""
    arguments = _check_plan_arguments(context, window, model, prices, policy, before, cold)
    arguments = msgspec.structs.replace(arguments, rewritten_head=rewritten_head)
    return (yield from with_steady_state(context, lambda state: _build_plan(context, state, arguments, None)))


class _PlanArguments(msgspec.Struct, frozen=True):
    window: int | None
    model: str | None
    prices: Prices | None
    policy: PlanPolicy
    before: int
    cold: bool
    for_pack: bool = False
    """A pack asks: it chooses among the handles itself, and its tail gives way."""
    rewritten_head: int | None = None


def _check_plan_arguments(
    context: SessionContext, window: object, model: object, prices: object, policy: object, before: object, cold: object
) -> _PlanArguments:
    return _PlanArguments(
        None if window is None else check_whole("window", window, 1, limits.WINDOW_TOKENS),
        None if model is None else check_name("model", model),
        None if prices is None else check_prices(prices),
        check_policy(policy, context.engine.compaction),
        check_whole("before", before, 0, limits.WINDOW_TOKENS),
        check_flag("cold", cold),
    )


def _build_plan(
    context: SessionContext, state: SessionState, arguments: _PlanArguments, strategy: ChosenStrategy | None
) -> Flow[Plan]:
    inputs = yield from _read_plan_input(context, state, arguments, strategy)
    plan = _choose_plan(context.engine, state, inputs, arguments.policy, strategy)
    if plan.fold is not None:  # a system message stays in view whatever is folded around it
        kept = tuple(seq for seq in plan.fold.kept if seq not in state.pinned)
        plan = msgspec.structs.replace(plan, fold=msgspec.structs.replace(plan.fold, kept=kept))
    return (yield from _count_replaced(context, state, plan, Display(arguments.window)))


def _count_replaced(context: SessionContext, state: SessionState, plan: Plan, display: Display) -> Flow[Plan]:
    """The plan, with the tokens that its summary replaces counted on the recorded messages, whatever the window."""
    if plan.fold is None:
        return plan
    items, _ = yield from read_items(context, state, display)
    fold = plan.fold
    replaced = sum(item.replaced for item in items if item.last <= fold.last and not _is_kept(item, fold))
    return msgspec.structs.replace(plan, fold=msgspec.structs.replace(plan.fold, replaced=replaced))


def _choose_plan(
    engine: EngineContext, state: SessionState, inputs: PlanInput, policy: PlanPolicy, strategy: ChosenStrategy | None
) -> Plan:
    tools = _plan_tools(engine, state)
    if strategy is not None and not inputs.unread:
        return planner.plan_strategy(inputs, strategy.strategy, policy, tools, strategy.custom)
    due = planner.build_plan(inputs, policy, tools)
    prepared = None if due.fold is None else _find_prepared(engine, state, inputs.scope, inputs.frame)
    return due if prepared is None else planner.fold_prepared(inputs, policy, tools, due, prepared.last)


def _find_prepared(
    engine: EngineContext, state: SessionState, scope: Scope, frame: str | None
) -> PreparedSummary | None:
    since = max(state.changed, state.view(frame).boundary)
    return engine.cache.prepared.get(scope.stream, frame, since)


def _plan_tools(engine: EngineContext, state: SessionState) -> PlanTools:
    return PlanTools(measure=state.calibration.measure, count=engine.counter.count, summarizing=_summary_cost(engine))


def _extract_summary(count: Callable[[str], int], items: Sequence[HistoryItem], tokens: int) -> str:
    from holdfast.text.extract.summary import extract_summary  # noqa: PLC0415 - a good part of the time of an import

    return extract_summary(items, tokens, count)


def _summary_cost(engine: EngineContext) -> Callable[[int, int], int]:
    """The cost of a summary: nothing, unless a model writes it."""
    prices = None if engine.summarizer is None else engine.summarizer.prices
    if prices is None:
        return lambda _tokens, _summary: 0
    return lambda tokens, summary: prices.input * tokens + prices.output * summary


def _read_plan_input(
    context: SessionContext, state: SessionState, arguments: _PlanArguments, strategy: ChosenStrategy | None
) -> Flow[PlanInput]:
    frame, engine = context.frame, context.engine
    measure = state.calibration.measure
    recorded, complete = yield from read_items(context, state, Display(arguments.window))
    reply = find_newest(recorded, "assistant")
    answered = "" if reply is None or reply.source is None else reply.source.model or ""
    model = arguments.model or answered or (state.calibration.model if frame is None else "")
    prices = arguments.prices or find_prices(model, engine.prices)
    if prices is None:
        if arguments.window is None and strategy is None:
            reason = f"the prices of {describe_value(model)} are unknown" if model else "no model has answered yet"
            raise InvalidArgument(argument="window", reason=f"{reason}: pass window= or prices=")
        prices = UNKNOWN_PRICES
    system, later = yield from read_system_messages(context, state)
    late = yield from read_late_results(context.scope.stream, state, frame)
    notes = fence_texts(build_late_note(late, recorded))
    last_prices = find_prices(answered, engine.prices)
    changed = last_prices is not None and last_prices != prices and arguments.prices is None
    window = prices.window - prices.max_output
    window = min(window, arguments.window or window)
    view = state.view(frame)
    presented = yield from present_bodies(context, recorded, _display_for(window), view.reduced)
    last = presented.items[-1].last if presented.items and not complete else state.version
    inside = [message for message in later if message.seq <= last]
    return PlanInput(
        scope=context.scope,
        frame=frame,
        version=state.version,
        system=arguments.before
        + sum(measure(message.tokens, 1) for message in (*system, *later[len(inside) :]))
        + sum(measure(engine.counter.count(note), 1) for note in notes),
        items=insert_system_messages(presented.items, inside),
        view=msgspec.structs.replace(view, reduced=presented.reduced),
        window=window,
        prices=prices,
        now_us=engine.clock.now_us(),
        cold=arguments.cold or changed,
        unread=not complete,
        stored=presented.stored,
        handles=(yield from _read_handles(context)) if strategy is not None and not arguments.for_pack else (),
        flexible=arguments.for_pack,
        answered=any(call.frame == frame for call in state.open_calls),
        rewritten_head=arguments.rewritten_head,
    )


def _display_for(window: int) -> Display:
    """Stored bodies count as in a pack of this window; where neither a window nor a model is known, by their previews."""
    return Display(window if 0 < window < UNKNOWN_PRICES.window else None)


def _read_handles(context: SessionContext) -> Flow[tuple[Handle, ...]]:
    """The newest handles of a frame that its packs may show beside the history."""
    if context.frame is None:
        return ()
    handles = yield from list_attachments(context, limit=limits.LEFT_OUT_HANDLES)
    return tuple(handle for handle in handles if handle.is_in_context)


def compact(
    context: SessionContext,
    plan: Plan | None = None,
    *,
    strategy: levels.StrategyArgument | None = None,
    window: int | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    policy: PlanPolicy | PolicyName | None = None,
    before: int = 0,
    cold: bool = False,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Plan]:
    """Carry out a plan: the one that is passed, that of a strategy, or what plan() returns now. The result has the
    event in `at`."""
    if plan is not None:
        plan = _check_plan_type(context, plan)
    chosen = find_strategy(context.engine, strategy)
    arguments = _check_plan_arguments(context, window, model, prices, policy, before, cold)
    bare = None if plan is None else msgspec.structs.replace(plan, considered=(), at=None)
    bound = codec.encode(
        ["compact", context.scope, context.frame, arguments, None if chosen is None else chosen.strategy, bare]
    )
    if key is not None:
        first = yield from effects.find(context.scope.tenant, check_name("idempotency key", key))
        if first:
            return _plan_of_event(context, chain.answer_repeated_key(key, bound, first))
    if plan is not None:
        passed = plan
        checked = yield from with_steady_state(context, lambda state: _check_plan(context, state, passed))
        return (yield from _apply_plan(context, (yield from _fill_summary(context, checked)), key, cause, bound))
    return (yield from _plan_and_apply(context, arguments, chosen, key, cause, bound))


def follow_strategy(
    context: SessionContext, strategy: ChosenStrategy, *, window: int, model: str | None, before: int
) -> Flow[Plan]:
    """Apply the strategy of a pack to the view. Handles are left alone: the pack chooses among them."""
    arguments = _PlanArguments(window, model, None, context.engine.compaction, before, cold=False, for_pack=True)
    return (yield from _plan_and_apply(context, arguments, strategy, None, None, None))


def _plan_and_apply(
    context: SessionContext,
    arguments: _PlanArguments,
    strategy: ChosenStrategy | None,
    key: str | None,
    cause: str | None,
    key_content: bytes | None,
) -> Flow[Plan]:
    for tries in range(limits.VIEW_TRIES):
        try:
            plan = yield from _plan_from_start(context, arguments, strategy, cause)
            plan = yield from _fill_summary(context, plan)
            return (yield from _apply_plan(context, plan, key, cause, key_content))
        except PlanStale:
            if tries + 1 == limits.VIEW_TRIES:
                raise
    raise AssertionError("the last try returns or raises")


def _check_plan_type(context: SessionContext, plan: object) -> Plan:
    """The plan, if it can be one that plan() returned: a caller may have put values of any type into it."""
    try:
        copy = codec.decode(codec.encode(plan), Plan) if type(plan) is Plan else None
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError, BufferError):
        copy = None
    if copy is None or copy != plan or (copy.scope, copy.frame) != (context.scope, context.frame):
        raise InvalidArgument(argument="plan", reason="it is not what plan() of this conversation returned")
    return copy


def _plan_from_start(
    context: SessionContext, arguments: _PlanArguments, strategy: ChosenStrategy | None, cause: str | None
) -> Flow[Plan]:
    """A plan for a view that can be read as a whole; a longer one is folded from its start until it can."""
    done: Plan | None = None
    while True:
        plan = yield from with_steady_state(context, lambda state: _build_plan(context, state, arguments, strategy))
        if plan.empty and done is not None:
            return done
        if not plan.more or plan.empty:
            return plan
        plan = yield from _fill_summary(context, plan)
        done = yield from _apply_plan(context, plan, None, cause, None)


def _check_plan(context: SessionContext, state: SessionState, plan: Plan) -> Flow[Plan]:
    """A plan of the caller, if it is one of this view: it folds whole items, and reduces pieces that are there. A text
    that was put into it is counted."""
    plan = msgspec.structs.replace(plan, at=None)
    if max(state.changed, state.view(context.frame).boundary) > plan.version:
        return plan  # the command refuses it as stale
    items, _ = yield from read_items(context, state)
    groups = [item for item in items if isinstance(item, MessageGroup)]
    pieces = {
        (message.seq, number) for group in groups for message in group.messages for number, _, _ in pieces_of(message)
    }
    sound = all((reduction.message, reduction.piece) in pieces for reduction in plan.reduced)
    fold = plan.fold
    if fold is None:
        if sound:
            return plan
        raise InvalidArgument(argument="plan", reason=_FOREIGN_PLAN)
    before = [item for item in items if item.last <= fold.last]
    inside = [item for item in before if not _is_kept(item, fold)]
    messages = tuple(message.seq for item in inside if isinstance(item, MessageGroup) for message in item.messages)
    kept_seqs = {message.seq for item in before if _is_kept(item, fold) for message in item.messages}  # type: ignore[union-attr]
    sound = sound and kept_seqs == {*fold.kept} and not any(_is_critical(item) for item in inside)
    cut = any(item.seq <= fold.last < item.last for item in groups)
    if not inside or not sound or cut or not any(map(is_fold, plan.ops)) or {*messages} != {*fold.messages}:
        raise InvalidArgument(argument="plan", reason=_FOREIGN_PLAN)
    _, later = yield from read_system_messages(context, state)
    seqs = [message.seq for message in later if message.seq <= fold.last]
    fold = msgspec.structs.replace(
        fold,
        first=min((*seqs, *(item.first for item in before))),
        messages=tuple(sorted(messages)),
        summaries=tuple(item.seq for item in inside if isinstance(item, Summary)),
        count=sum(item.count for item in inside),
        replaced=sum(item.replaced for item in inside),
    )
    plan = msgspec.structs.replace(plan, fold=fold)
    if not fold.text:
        return plan
    plan = msgspec.structs.replace(plan, fold=msgspec.structs.replace(fold, made_by="model"))
    codec.check_text("the summary", fold.text)
    check_size("the summary", len(fold.text.encode()), "bytes", "SPOOL_BYTES", "Make it shorter.")
    tools = _plan_tools(context.engine, state)
    tokens, most = tools.count(fold.text), sum(item.tokens for item in inside)
    if not fold.text.strip() or tokens >= most:
        reason = f"the summary has {tokens} tokens, and the messages that it replaces have {most}"
        raise InvalidArgument(argument="plan.fold.text", reason=reason)
    return planner.fill_plan(plan, inside, fold.text, tools)


def _is_kept(item: HistoryItem, fold: Fold) -> bool:
    """Whether a fold leaves the item in view."""
    return isinstance(item, MessageGroup) and item.seq in fold.kept


def _is_critical(item: HistoryItem) -> bool:
    return isinstance(item, MessageGroup) and item.priority == "critical"


def _plan_of_event(context: SessionContext, appended: AppendResult) -> Plan:
    """The plan of the event that carried it out."""
    for recorded in appended.events:
        event = upcast.decode_event(recorded)
        if isinstance(event, ContextCompacted):
            return Plan(
                scope=context.scope,
                frame=event.frame,
                version=recorded.seq - 1,
                policy=event.policy,
                why=event.why,
                reduced=event.reduced,
                fold=event.fold,
                figures=event.figures,
                target_met=event.target_met,
                level=event.level,
                steps=tuple(
                    PlanStep(
                        op=op,
                        first_changed_index=event.first_changed,
                        before=event.figures.before,
                        after=event.figures.after,
                    )
                    for op in event.ops
                ),
                handles=event.handles,
                handle_tokens=event.original - event.figures.before,
                freed_tokens=event.original - event.figures.before - (event.final - event.figures.after),
                at=recorded.seq,
            )
    raise InvalidArgument(argument="key", reason="the compaction of this key was erased since")


def _fill_summary(context: SessionContext, plan: Plan) -> Flow[Plan]:
    """The plan with the text of its summary: that of a model, if there is one and it fits, or an extract."""
    if plan.fold is None or plan.fold.text:
        return plan
    return (yield from with_steady_state(context, lambda state: _add_summary_text(context, state, plan, plan.fold)))


def _add_summary_text(context: SessionContext, state: SessionState, plan: Plan, fold: Fold | None) -> Flow[Plan]:
    assert fold is not None, "a plan without a fold needs no text"
    draft = yield from _build_fold_draft(context, state, plan, fold)
    items = draft.items
    tools = _plan_tools(context.engine, state)
    text = _find_prepared_text(context, state, draft, fold)
    text = text or (yield from ask_summarizer(context, draft, fold.tokens))
    fold = msgspec.structs.replace(fold, made_by="model" if text else "rule")
    if not text:
        text = _extract_summary(context.engine.counter.count, items, fold.tokens)
    if not text.strip() or tools.measure(tools.count(text), 1) > tools.measure(fold.tokens, 1):
        text = build_outline(items)
        fold = msgspec.structs.replace(fold, made_by="rule")
    return planner.fill_plan(msgspec.structs.replace(plan, fold=fold), items, text, tools)


def _build_fold_draft(context: SessionContext, state: SessionState, plan: Plan, fold: Fold) -> Flow[SummaryDraft]:
    """What a plan folds, as the summarizer may read it."""
    items, _ = yield from read_items(context, state)
    changed = {(reduction.message, reduction.piece) for reduction in plan.reduced}
    reductions = [
        reduction
        for reduction in state.view(context.frame).reduced
        if (reduction.message, reduction.piece) not in changed
    ]
    display = _display_for(plan.figures.window)
    folded = [item for item in items if item.last <= fold.last and not _is_kept(item, fold)]
    reduced = [*reductions, *plan.reduced]
    quotable = [each for each in reduced if each.form != "lines"]  # of those, all can be quoted
    presented = yield from present_bodies(context, folded, display, quotable)
    displayed, _ = build_displayer(context, display).show(presented)
    by_message = group_by_message(reduced)
    shown = [hide_outdated(item, by_message) for item in displayed]
    guarded = yield from load_guarded_items(context, state, shown, turn=0, deferring=False)
    return SummaryDraft(
        scope=context.scope,
        frame=context.frame,
        first=fold.first,
        last=fold.last,
        version=plan.version,
        items=guarded.items,
        tokens=sum(item.tokens for item in guarded.items),
    )


def _find_prepared_text(context: SessionContext, state: SessionState, draft: SummaryDraft, fold: Fold) -> str:
    """The text that prepare() stored for these messages, if they are still shown like that and it is not too long."""
    prepared = _find_prepared(context.engine, state, context.scope, context.frame)
    if prepared is None or (prepared.last, prepared.digest) != (draft.last, digest_items(draft.items)):
        return ""
    return prepared.text if context.engine.counter.count(prepared.text) <= fold.tokens else ""


def prepare(
    context: SessionContext,
    pack: Pack | None = None,
    *,
    window: int | None = None,
    model: str | None = None,
    before: int = 0,
) -> Flow[bool]:
    """Have the summarizer write the summary of the next boundary now. Whether a summary is ready."""
    check_summarizer(context.engine)
    if pack is not None:
        window, model, before = _pack_figures(pack)
    arguments = _check_plan_arguments(context, window, model, None, None, before, False)
    due = yield from with_steady_state(context, lambda state: _plan_next(context, state, arguments))
    if due is None:
        return False
    draft, tokens, ready = due
    text = "" if ready else (yield from ask_summarizer(context, draft, tokens, pack))
    if text:
        summary = PreparedSummary(draft.version, draft.last, digest_items(draft.items), text)
        context.engine.cache.prepared.put(context.scope.stream, context.frame, summary)
    return ready or bool(text)


def _pack_figures(pack: object) -> tuple[int, str | None, int]:
    """The window of a pack, its model, and its tokens beside the history."""
    from holdfast.render.pack import Pack  # noqa: PLC0415 - a good part of the time of an import

    if not isinstance(pack, Pack):
        raise InvalidArgument(
            argument="pack", reason=f"{describe_value(pack)} is not a pack: pass what pack() returned"
        )
    tokens = pack.tokens
    return tokens.budget, pack.manifest.request.model or None, tokens.used - tokens.breakdown.get("history", 0)


def _plan_next(
    context: SessionContext, state: SessionState, arguments: _PlanArguments
) -> Flow[tuple[SummaryDraft, int, bool] | None]:
    """What the next boundary folds, the most tokens of its summary, and whether the summary is ready."""
    inputs = yield from _read_plan_input(context, state, arguments, None)
    tools = _plan_tools(context.engine, state)
    plan = planner.plan_ahead(inputs, arguments.policy, tools)
    prepared = _find_prepared(context.engine, state, context.scope, context.frame)
    if prepared is not None:
        plan = planner.fold_prepared(inputs, arguments.policy, tools, plan, prepared.last)
    if plan.fold is None or plan.fold.text:
        return None
    draft = yield from _build_fold_draft(context, state, plan, plan.fold)
    return draft, plan.fold.tokens, bool(_find_prepared_text(context, state, draft, plan.fold))


def _apply_plan(
    context: SessionContext, plan: Plan, key: str | None, cause: str | None, bound: bytes | None
) -> Flow[Plan]:
    if plan.empty or plan.at is not None:
        return plan
    command = CompactContext(
        scope=context.scope,
        frame=context.frame,
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
    refs = [reduction.ref for reduction in plan.reduced if reduction.ref is not None]
    part = CommandRequest(command, build_input(context.engine))
    appended = yield from execute_commands(context.engine, [part], key=key, cause=cause, bodies=refs, key_content=bound)
    for recorded in appended.events:
        if isinstance(upcast.decode_event(recorded), ContextCompacted):
            return msgspec.structs.replace(plan, at=recorded.seq)
    return plan


# Strategies


class ChosenStrategy(NamedTuple):
    """A strategy as it is stored, and its function if it is a custom one."""

    strategy: Strategy
    custom: levels.CustomFunction | None = None


def find_strategy(engine: EngineContext, strategy: object) -> ChosenStrategy | None:
    """The strategy that a caller passes by name, as data or as a function; None for none."""
    if strategy is None:
        return None
    if isinstance(strategy, CustomStrategy):
        strategy = strategy.name
    if type(strategy) is str:
        return _find_named(engine, strategy)
    match strategy:
        case SummarizeOldest(keep_recent=figure) | TruncateAt(message_count=figure):
            check_whole("strategy: the number of messages", figure, 0, limits.LIVE_MESSAGES)
            return ChosenStrategy(strategy)
        case PriorityBased():
            return ChosenStrategy(strategy)
    if callable(strategy):
        registered = (name for name, function in engine.strategies.items() if function is strategy)
        return ChosenStrategy(CustomStrategy(next(registered, None) or _strategy_name(strategy)), strategy)
    kinds = "PriorityBased(), SummarizeOldest(…), TruncateAt(…), a name or a function"
    raise InvalidArgument(argument="strategy", reason=f"pass {kinds}, not {describe_value(strategy)}")


def _strategy_name(strategy: object) -> str:
    """The name of an unregistered function in a manifest."""
    try:
        return check_name("the name of a strategy", getattr(strategy, "__name__", type(strategy).__name__))
    except InvalidName:
        return "unnamed"


def _find_named(engine: EngineContext, name: str) -> ChosenStrategy:
    if name in engine.strategies:
        return ChosenStrategy(CustomStrategy(name), engine.strategies[name])
    if name in BUILT_IN:
        return ChosenStrategy(BUILT_IN[name]())
    if name == _TRUNCATE_AT:
        reason = f"{_TRUNCATE_AT} needs a number of messages: pass holdfast.types.TruncateAt(message_count)"
        raise InvalidArgument(argument="strategy", reason=reason)
    raise StrategyUnknown(strategy=name, known=", ".join(sorted({*BUILT_IN, *engine.strategies})))


def check_strategies(strategies: object) -> dict[str, levels.CustomFunction]:
    """The strategies that an engine is opened with."""
    if strategies is None:
        return {}
    if type(strategies) is not dict:
        reason = f"pass a dict from names to functions, not {describe_value(strategies)}"
        raise InvalidArgument(argument="strategies", reason=reason)
    for name, function in strategies.items():
        if check_name("the name of a strategy", name) in (*BUILT_IN, _TRUNCATE_AT):
            reason = f"{describe_value(name)} is the name of a built-in strategy: choose another"
            raise InvalidArgument(argument="strategies", reason=reason)
        if not callable(function):
            reason = f"{describe_value(name)} is {describe_value(function)}, not a function"
            raise InvalidArgument(argument="strategies", reason=reason)
    return dict(strategies)
