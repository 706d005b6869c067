"""The compaction planner: when a history view should change, to what, and what that costs. Pure.

A boundary costs K = C + (w - r) · R: the cost of the summary, and the difference between writing and reading for the R
tokens behind the first change. It saves r · S at every call, where S are the tokens that leave. If a call adds g
tokens, S gather again in S / g calls, and the next boundary is due. So it pays once r · S · S / g reaches K. On a cold
cache the rewriting is free, and w · S is saved at once. The hard window overrides the price.

Laws:
- The reported first change is the real one. Applying a plan makes the view fit, or the plan says that it will not.
  Planning again right after finds nothing to do.
- The chosen operation costs no more than doing nothing, or than any single operation that was considered, unless the
  window forces it.
- What the model has not seen stays as it is, but for the preview of what is spooled.
- A boundary that folds prepared messages ends below the policy's threshold, or another one is planned.
- A strategy leaves Critical content as it is. The lowest priority leaves first, and of that the oldest; where a
  strategy has a target, nothing leaves beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.history import levels
from holdfast.core.history.draft import (
    PlanChoice,
    PlanDraft,
    PlanInput,
    PlanTools,
    meets_targets,
    shift_steps,
)
from holdfast.core.history.outlines import OUTLINE_TOKENS, build_outline
from holdfast.core.history.results import shorten_results
from holdfast.core.history.views import find_system_messages
from holdfast.errors import CriticalOverflow, StrategyRefused
from holdfast.model.history.handles import PRIORITY_SCORES, Handle, piece_id
from holdfast.model.history.plans import (
    AutoCompact,
    BoundaryReason,
    Classic,
    Collapse,
    CustomStrategy,
    Faithful,
    Frugal,
    Op,
    Plan,
    PlanPolicy,
    Pressure,
    PriorityBased,
    Snip,
    Spool,
    Strategy,
    SummarizeOldest,
    TimeDecayMicro,
    TruncateAt,
    is_fold,
    op_name,
)
from holdfast.model.history.prices import UNKNOWN_PRICES
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.sessions.messages import MessageGroup

AHEAD_SHARE = 0.15
"""A boundary is prepared so far below the threshold of the faithful policy, as a share of the window."""


def build_plan(inputs: PlanInput, policy: PlanPolicy, tools: PlanTools) -> Plan:
    """The plan for now; empty if there is nothing to do."""
    draft = PlanDraft(inputs, tools)
    if inputs.unread:
        share = round(policy.summary_share * inputs.window)
        draft.apply_op(AutoCompact(0, 0), fold=(draft.cut(len(draft.items)), share))
        return draft.plan(policy.name, "forced")
    if isinstance(policy, Classic):
        return _plan_classic(draft, policy)
    if isinstance(policy, Faithful):
        return _plan_faithful(draft, policy)
    return _plan_frugal(draft, policy)


def fill_plan(plan: Plan, items: Sequence[HistoryItem], text: str, tools: PlanTools) -> Plan:
    """The plan with the text of its summary, which replaces these items, and with the figures that follow from it."""
    fold = plan.fold
    if fold is None:
        return plan
    tokens = tools.count(text)
    more = tools.measure(tokens, 1) - tools.measure(fold.tokens, 1)
    figures = msgspec.structs.replace(plan.figures, after=plan.figures.after + more)
    steps = shift_steps(plan.steps, more)
    if items and isinstance(items[0], Summary) and items[0].text == text:
        last = max(at for at, step in enumerate(steps) if is_fold(step.op))
        steps[last] = msgspec.structs.replace(steps[last], first_changed_index=1)
    return msgspec.structs.replace(
        plan,
        fold=msgspec.structs.replace(fold, text=text, tokens=tokens),
        figures=figures,
        steps=tuple(steps),
        target_met=figures.after + plan.handle_tokens - plan.freed_tokens <= figures.window and meets_targets(steps),
    )


# Pressure, and the classic policy


def pressure(tokens: int, window: int, policy: Classic) -> Pressure:
    """How full the window is, as a level of the classic policy."""
    thresholds: tuple[tuple[float | None, Pressure], ...] = (
        (policy.auto, "auto"),
        (policy.collapse, "collapse"),
        (policy.micro, "micro"),
        (policy.snip, "snip"),
    )
    for threshold, name in thresholds:
        if threshold is not None and tokens >= threshold * window:
            return name
    return "none"


def eviction_ops(level: Pressure, idle: bool, window: int, policy: Classic) -> tuple[Op, ...]:
    """The operations of the classic policy, in order: for idle results first, then for the pressure; each once."""
    micro = TimeDecayMicro(policy.large, policy.excerpt)
    ops: list[Op] = [micro] if idle else []
    match level:
        case "snip":
            ops.append(Snip(policy.per_msg_ratio, max(1, round(policy.per_msg_ratio * window))))
        case "micro" if not idle:
            ops.append(micro)
        case "collapse":
            ops.append(Collapse(round(policy.target * window)))
        case "auto":
            ops.append(AutoCompact(policy.preserve_turns, round(policy.tail_share * window)))
    return tuple(ops)


def is_idle(now_us: int, last_us: int, idle_s: int) -> bool:
    """Whether nothing happened for so long. A clock that stops or runs backwards makes nothing idle."""
    return bool(idle_s and last_us) and now_us - last_us >= idle_s * 1_000_000


def _plan_classic(draft: PlanDraft, policy: Classic) -> Plan:
    """Pressure that is left after an operation is met at the same boundary, by each kind of operation once."""
    inputs = draft.inputs
    idle = is_idle(inputs.now_us, draft.last_us, policy.idle_s)
    first = level = pressure(draft.tokens, inputs.window, policy)
    done: set[str] = set()
    while ops := [op for op in eviction_ops(level, idle, inputs.window, policy) if op_name(op) not in done]:
        for op in ops:
            done.add(op_name(op))
            _apply_eviction(draft, op, policy)
        level = pressure(draft.tokens, inputs.window, policy)
    why: BoundaryReason = "threshold" if first != "none" else "idle"
    if draft.tokens > inputs.window:
        why = "forced"
        _force_fit(draft, policy)
    return draft.plan(policy.name, why)


def _apply_eviction(draft: PlanDraft, op: Op, policy: Classic) -> None:
    match op:
        case TimeDecayMicro():
            draft.apply_op(op, reduce=draft.excerpts(op, draft.tail(policy.preserve_turns, draft.inputs.window)))
        case Snip():
            draft.apply_op(op, reduce=draft.snips(op.limit))
        case Collapse():
            draft.apply_op(op, fold=(draft.cut(draft.count_to_target(op.target_tokens)), 0))
        case AutoCompact():
            share = round(policy.summary_share * draft.inputs.window)
            draft.apply_op(op, fold=(draft.cut(draft.tail(op.preserve_turns, op.tail_tokens)), share))


# The faithful policy


def _plan_faithful(draft: PlanDraft, policy: Faithful) -> Plan:
    """Nothing while the history fits; then one boundary that lasts. The current turn is changed only if it must be. If the
    policy shortens results, that comes first: messages are folded only if it is not enough."""
    draft.pays_for_loss = True
    window = draft.inputs.window
    if draft.tokens > window:
        _force_faithful(draft, policy)
        return draft.plan(policy.name, "forced")
    is_full = draft.tokens >= policy.threshold * window
    is_shortened = shorten_results(draft, policy)
    if draft.cold and draft.inputs.prices != UNKNOWN_PRICES and draft.tokens > policy.cold * window:
        chosen = _choose_oldest(draft, policy, policy.cold_target, draft.turn())
        if chosen is not None and chosen.figures.net < 0 and draft.apply_choice(chosen):
            return draft.plan(policy.name, "threshold" if is_full else "cold")
    is_full = draft.tokens >= policy.threshold * window
    chosen = _choose_oldest(draft, policy, policy.target, draft.turn()) if is_full else None
    if chosen is not None and draft.apply_choice(chosen):
        return draft.plan(policy.name, "threshold")
    return draft.plan(policy.name, "pays" if is_shortened else "threshold")


def _choose_oldest(draft: PlanDraft, policy: Faithful, target: float, before: int) -> PlanChoice | None:
    """Fold the oldest items, up to the start of a turn if one is near; None if that frees too little."""
    window = draft.inputs.window
    op = Collapse(round(target * window), round(policy.summary_share * window))
    cut = draft.count_to_target(op.target_tokens, before, op.summary_tokens)
    cut = draft.turn_start(cut, min(before, draft.unseen), round(policy.turn_share * window))
    chosen = draft.evaluate(op, fold=(draft.cut(cut), op.summary_tokens))
    draft.considered += [] if chosen is None else [(op_name(op), chosen.figures)]
    return chosen if chosen is not None and chosen.saved >= policy.least_share * window else None


def _force_faithful(draft: PlanDraft, policy: Faithful) -> None:
    """Make it fit: fold earlier turns; then the oldest items of the current turn that the model has seen; then spool
    what it has not seen."""
    window = draft.inputs.window
    op = Collapse(round(policy.target * window), round(policy.summary_share * window))
    for before in (draft.turn(), None):
        if draft.tokens > window:
            cut = draft.cut(draft.count_to_target(op.target_tokens, before, op.summary_tokens))
            draft.apply_op(op, fold=(cut, op.summary_tokens))
    _spool_unseen(draft)


# The frugal policy


def _plan_frugal(draft: PlanDraft, policy: Frugal) -> Plan:
    """Once there is a boundary, everything that pays is done at it: what follows its first change is rewritten anyway."""
    why: BoundaryReason | None = None
    if draft.tokens > draft.inputs.window:
        _force_fit(draft, policy)
        why = "forced"
    while (
        (not policy.recent or draft.cold)
        and (chosen := _choose_cheapest(draft, policy)) is not None
        and chosen.figures.net < 0
        and draft.apply_choice(chosen)
    ):
        why = why or "pays"
    if shorten_results(draft, policy):
        why = why or "pays"
    return draft.plan(policy.name, why)


def _choose_cheapest(draft: PlanDraft, policy: Frugal) -> PlanChoice | None:
    """The cheapest operation; each that is worth it is kept with its figures."""
    tail = draft.tail(policy.preserve_turns, round(policy.tail_share * draft.inputs.window))
    auto = AutoCompact(policy.preserve_turns, round(policy.tail_share * draft.inputs.window))
    micro = TimeDecayMicro(policy.large, policy.excerpt)
    share = round(policy.summary_share * draft.inputs.window)
    choices = [draft.evaluate(auto, fold=(draft.cut(tail), share))]
    choices += [] if policy.recent else [draft.evaluate(micro, reduce=draft.excerpts(micro, tail))]
    least = max(1, policy.least, round(policy.least_share * draft.inputs.window))
    worth = [choice for choice in choices if choice is not None and choice.saved >= least]
    if not draft.steps:
        draft.considered = [(op_name(choice.op), choice.figures) for choice in worth]
    return min(worth, key=lambda choice: choice.figures.net, default=None)


def _force_fit(draft: PlanDraft, policy: Frugal | Classic) -> None:
    """Make it fit: fold what is old; excerpt large results; fold all that the model has seen; spool what it has not."""
    window = draft.inputs.window
    most, share = round(policy.tail_share * window), round(policy.summary_share * window)
    auto = AutoCompact(policy.preserve_turns, most)
    draft.apply_op(auto, fold=(draft.cut(draft.tail(policy.preserve_turns, most)), share))
    if draft.tokens > window:
        micro = TimeDecayMicro(policy.large, policy.excerpt)
        draft.apply_op(micro, reduce=draft.excerpts(micro, draft.unseen))
    if draft.tokens > window:
        draft.apply_op(AutoCompact(0, 0), fold=(draft.cut(draft.unseen), share))
    _spool_unseen(draft)


def _spool_unseen(draft: PlanDraft) -> None:
    """Show what the model has not seen by previews, the largest first, if nothing else was enough."""
    window = draft.inputs.window
    draft.shrink_summary(window)
    for pieces in draft.unseen_pieces() if draft.tokens > window else ():
        if draft.tokens <= window:
            break
        draft.apply_op(Spool(piece_id(pieces[0].message, pieces[0].piece)), reduce=pieces)


# The next boundary


def plan_ahead(inputs: PlanInput, policy: PlanPolicy, tools: PlanTools) -> Plan:
    """The boundary that is due, or the next one if it is near; else an empty plan.

    A faithful boundary frees the same share of the window whenever it comes, the oldest first. So what it will fold is
    known before: as much, counted from where the history ends now. Other policies cannot be predicted like that.
    """
    due = build_plan(inputs, policy, tools)
    if not due.empty or not isinstance(policy, Faithful):
        return due
    share = PlanDraft(inputs, tools).tokens / inputs.window
    if share < policy.threshold - AHEAD_SHARE:
        return due
    target = max(0.0, share - (policy.threshold - policy.target))
    nearer = msgspec.structs.replace(policy, threshold=policy.threshold - AHEAD_SHARE, target=target)
    return build_plan(inputs, nearer, tools)


def fold_prepared(inputs: PlanInput, policy: PlanPolicy, tools: PlanTools, due: Plan, last: int) -> Plan:
    """The plan that is due, if possible with a fold of the messages up to event `last`, whose summary is ready."""
    if due.fold is None or due.fold.last == last or due.reduced or due.more or not isinstance(policy, Faithful):
        return due
    draft = PlanDraft(inputs, tools)
    draft.pays_for_loss = True
    number = sum(item.last <= last for item in draft.items)
    if not number or draft.cut(number) != number or draft.items[number - 1].last != last or number > draft.turn():
        return due
    share = round(policy.summary_share * inputs.window)
    draft.apply_op(Collapse(round(policy.threshold * inputs.window), share), fold=(number, share))
    prepared = draft.plan(policy.name, due.why)
    return prepared if prepared.fold is not None and draft.tokens < policy.threshold * inputs.window else due


# Strategies


def plan_strategy(
    inputs: PlanInput,
    strategy: Strategy,
    policy: PlanPolicy,
    tools: PlanTools,
    custom: levels.CustomFunction | None = None,
) -> Plan:
    """The plan of a strategy, whatever it costs. CriticalOverflow if the window is too small for what is Critical."""
    draft = PlanDraft(inputs, tools)
    critical = _count_critical(draft)
    if critical > inputs.window and not inputs.flexible:
        raise CriticalOverflow(needed=critical, budget=inputs.window)
    match strategy:
        case SummarizeOldest(keep_recent=keep):
            cut = _cut_at(draft, keep)
            draft.apply_op(strategy, fold=(cut, round(policy.summary_share * inputs.window)))
            draft.leave_out(_older_handles(draft, cut))
        case TruncateAt(message_count=keep):
            cut = _cut_at(draft, keep)
            draft.apply_op(strategy, fold=(cut, 0))
            draft.leave_out(_older_handles(draft, cut))
        case PriorityBased():
            _drop_by_priority(draft)
        case CustomStrategy(name=name):
            assert custom is not None, "it was looked up by its name"
            _apply_custom(draft, name, custom)
    return draft.plan(policy.name, "asked")


def _count_critical(draft: PlanDraft) -> int:
    """The tokens that are never dropped: those before the conversation, and Critical messages and handles."""
    messages = sum(
        size
        for item, size in zip(draft.items, draft.sizes, strict=True)
        if isinstance(item, MessageGroup) and item.priority == "critical"
    )
    handles = (handle for handle in draft.inputs.handles if handle.priority == "critical")
    return draft.inputs.system + messages + sum(draft.tools.measure(handle.tokens, 0) for handle in handles)


def _cut_at(draft: PlanDraft, messages: int) -> int:
    return draft.cut(min(_recent_start(draft.items, messages), draft.unseen))


def _recent_start(items: Sequence[HistoryItem], messages: int) -> int:
    """The number of the first item of the newest messages, in whole groups. System messages do not count: they stay."""
    count = 0
    for number in range(len(items) - 1, -1, -1):
        count += items[number].blocks - len(find_system_messages(items[number : number + 1]))
        if count > messages:
            return number + 1
    return 0


def _older_handles(draft: PlanDraft, cut: int) -> list[Handle]:
    """The handles from before the oldest message that stays as it is; Critical ones stay."""
    if draft.fold is None or not cut:
        return []
    last = draft.fold.last
    return [handle for handle in draft.inputs.handles if handle.at <= last and handle.priority != "critical"]


def _drop_by_priority(draft: PlanDraft) -> None:
    """Drop messages and handles, those of the lowest priority and of these the oldest first, until the others fit."""
    window = draft.inputs.window
    over = draft.tokens + draft.handle_tokens - window
    if over <= 0:
        return
    line = draft.tools.measure(OUTLINE_TOKENS, 1)
    ranked: list[tuple[int, int, int, MessageGroup | Handle]] = [
        (PRIORITY_SCORES[item.priority], item.seq, draft.sizes[number], item)
        for number, item in enumerate(draft.items[: draft.unseen])
        if isinstance(item, MessageGroup) and not draft.is_kept(item)
    ]
    ranked += [
        (PRIORITY_SCORES[handle.priority], handle.at, draft.tools.measure(handle.tokens, 0), handle)
        for handle in draft.inputs.handles
        if handle.priority != "critical"
    ]
    groups: set[int] = set()
    handles: list[Handle] = []
    for _, _, size, item in sorted(ranked, key=lambda entry: entry[:2]):
        if over <= 0:
            break
        if isinstance(item, MessageGroup):
            over += 0 if groups else line
            groups.add(item.seq)
        else:
            handles.append(item)
        over -= size
    _drop_groups(draft, PriorityBased(), groups)
    draft.leave_out(handles)


def _drop_groups(draft: PlanDraft, op: PriorityBased | CustomStrategy, groups: set[int], text: str = "") -> None:
    """Take these groups out of the view, wherever they are. What is between them stays, behind the outline or the text
    that replaces them."""
    numbers = [
        number for number, item in enumerate(draft.items) if isinstance(item, MessageGroup) and item.seq in groups
    ]
    if not numbers:
        return
    number = draft.cut(numbers[-1] + 1)
    before = (item for item in draft.items[:number] if isinstance(item, MessageGroup))
    draft.keeps = frozenset(item.seq for item in before if item.seq not in groups)
    draft.apply_op(op, fold=(number, 0), text=text)
    draft.keeps = frozenset()


def _apply_custom(draft: PlanDraft, name: str, custom: levels.CustomFunction) -> None:
    """Call a custom strategy, if not everything fits, with the messages that the model has seen, and the handles."""
    count: Callable[[str], int] = lambda text: draft.tools.measure(draft.tools.count(text), 1)  # noqa: E731
    groups = {f"m{item.seq}": item for item in draft.items[: draft.unseen] if isinstance(item, MessageGroup)}
    handles = {handle.id: handle for handle in draft.inputs.handles}
    sizes = {
        f"m{item.seq}": size
        for item, size in zip(draft.items, draft.sizes, strict=True)
        if isinstance(item, MessageGroup)
    }
    candidates = [
        levels.CompactionCandidate(key, "message", group.priority, group.seq, _group_text(group), sizes[key])
        for key, group in groups.items()
    ]
    candidates += [
        levels.CompactionCandidate(
            key, "handle", handle.priority, handle.at, handle.title, draft.tools.measure(handle.tokens, 0)
        )
        for key, handle in handles.items()
    ]
    total = draft.tokens + draft.handle_tokens
    room = draft.inputs.window - (total - sum(candidate.tokens for candidate in candidates))
    if total <= draft.inputs.window or not candidates:
        return
    critical = sum(candidate.tokens for candidate in candidates if candidate.priority == "critical")
    if critical > room:
        raise CriticalOverflow(needed=draft.inputs.window + critical - room, budget=draft.inputs.window)
    result = levels.compact(candidates, room, count=count, strategy=custom)
    left = {item.id: item.text for item in result.items}
    texts = {candidate.id: candidate.text for candidate in candidates}
    if any(key in left and left[key] != texts[key] for key in handles):
        raise StrategyRefused(strategy=name, reason="it changes the title of a handle: keep a handle, or leave it out")
    rewritten = [key for key in groups if key in left and left[key] != texts[key]]
    dropped = {group.seq for key, group in groups.items() if key not in left or key in rewritten}
    messages = tuple(message.seq for key in rewritten for message in groups[key].messages)
    folded = [item for item in draft.items if isinstance(item, Summary) or item.seq in dropped]
    text = "\n".join(left[key] for key in rewritten)
    if text and len(rewritten) < len(dropped):
        text = f"{text}\n{build_outline(folded)}"
    _drop_groups(draft, CustomStrategy(name, messages), dropped, text)
    draft.leave_out([handle for key, handle in handles.items() if key not in left])


def _group_text(group: MessageGroup) -> str:
    return "\n".join(filter(None, (message.text for message in group.messages)))
