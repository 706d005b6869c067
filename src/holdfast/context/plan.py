"""The eviction planner: when a conversation's view should change, to what, and what that costs. Pure.

A boundary costs K = C + (w - r) · R: what the summary costs, and the difference between writing and reading for the R
tokens behind the first change. It saves r · S at every call, S being the tokens that leave. If a call adds g tokens, S
gather again in S / g calls, and the next boundary is due. So it pays once r · S · S / g reaches K; on a cold cache the
rewriting is free, and w · S is saved at once. The hard window overrides price.

Laws: the first change that is reported is the real one; applying a plan makes the view fit, or the plan says that it will
not; planning again right after finds nothing to do; what was chosen costs no more than doing nothing, or than any single
operation that was considered, unless the window forces it; what the model has not seen stays as it is, but for the preview
of what is spooled.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.context.ground import Choice, Ground, Measure, Summarize, Tools
from holdfast.context.outline import outline
from holdfast.context.steps import meet_targets, shifted
from holdfast.context.work import Work
from holdfast.model.handles import piece_id
from holdfast.model.messages import Item, Summary
from holdfast.model.plan import (
    AutoCompact,
    Classic,
    Collapse,
    Faithful,
    Frugal,
    Op,
    Plan,
    PlanPolicy,
    Pressure,
    Snip,
    Spool,
    TimeDecayMicro,
    Why,
    folds,
    label,
)
from holdfast.model.prices import UNKNOWN

__all__ = [
    "Ground",
    "Measure",
    "Summarize",
    "Tools",
    "eviction_ops",
    "filled",
    "is_idle",
    "outline",
    "plan",
    "pressure",
]


def plan(ground: Ground, policy: PlanPolicy, tools: Tools) -> Plan:
    """What is to be done now; an empty plan if that is nothing."""
    work = Work(ground, tools)
    if ground.unread:
        share = round(policy.summary_share * ground.window)
        work.do(AutoCompact(0, 0), fold=(work.cut(len(work.items)), share))
        return work.plan(policy.name, "forced")
    if isinstance(policy, Classic):
        return _classic(work, policy)
    if isinstance(policy, Faithful):
        return _faithful(work, policy)
    return _frugal(work, policy)


def filled(plan: Plan, items: Sequence[Item], text: str, tools: Tools) -> Plan:
    """A plan with the text of its summary, which stands for these items, and with the figures that follow from it."""
    fold = plan.fold
    if fold is None:
        return plan
    tokens = tools.count(text)
    more = tools.measure(tokens, 1) - tools.measure(fold.tokens, 1)
    figures = msgspec.structs.replace(plan.figures, after=plan.figures.after + more)
    steps = shifted(plan.steps, more)
    if items and isinstance(items[0], Summary) and items[0].text == text:
        folding = max(at for at, step in enumerate(steps) if folds(step.op))
        steps[folding] = msgspec.structs.replace(steps[folding], first_changed_index=1)
    return msgspec.structs.replace(
        plan,
        fold=msgspec.structs.replace(fold, text=text, tokens=tokens),
        figures=figures,
        steps=tuple(steps),
        target_met=figures.after + plan.handle_tokens - plan.freed_tokens <= figures.window and meet_targets(steps),
    )


# Pressure, and the classic policy


def pressure(tokens: int, window: int, policy: Classic) -> Pressure:
    """How hard the window presses."""
    levels: tuple[tuple[float | None, Pressure], ...] = (
        (policy.auto, "auto"),
        (policy.collapse, "collapse"),
        (policy.micro, "micro"),
        (policy.snip, "snip"),
    )
    for threshold, name in levels:
        if threshold is not None and tokens >= threshold * window:
            return name
    return "none"


def eviction_ops(pressing: Pressure, idle: bool, window: int, policy: Classic) -> tuple[Op, ...]:
    """What the classic policy does, in order: what is idle first, then what the pressure asks for; each once."""
    micro = TimeDecayMicro(policy.large, policy.excerpt)
    ops: list[Op] = [micro] if idle else []
    match pressing:
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
    """Whether nothing happened for so long. A clock that stands still or runs backwards makes nothing idle."""
    return bool(idle_s and last_us) and now_us - last_us >= idle_s * 1_000_000


def _classic(work: Work, policy: Classic) -> Plan:
    """Pressure that is left after an operation is met at the same boundary, by each kind of operation once."""
    ground = work.ground
    idle = is_idle(ground.now_us, work.last_us, policy.idle_s)
    first = pressing = pressure(work.tokens, ground.window, policy)
    done: set[str] = set()
    while ops := [op for op in eviction_ops(pressing, idle, ground.window, policy) if label(op) not in done]:
        for op in ops:
            done.add(label(op))
            _evict(work, op, policy)
        pressing = pressure(work.tokens, ground.window, policy)
    why: Why = "threshold" if first != "none" else "idle"
    if work.tokens > ground.window:
        why = "forced"
        _force(work, policy)
    return work.plan(policy.name, why)


def _evict(work: Work, op: Op, policy: Classic) -> None:
    match op:
        case TimeDecayMicro():
            work.do(op, reduce=work.excerpts(op, work.tail(policy.preserve_turns, work.ground.window)))
        case Snip():
            work.do(op, reduce=work.snips(op.limit))
        case Collapse():
            work.do(op, fold=(work.cut(work.until(op.target_tokens)), 0))
        case AutoCompact():
            share = round(policy.summary_share * work.ground.window)
            work.do(op, fold=(work.cut(work.tail(op.preserve_turns, op.tail_tokens)), share))


# The faithful policy


def _faithful(work: Work, policy: Faithful) -> Plan:
    """Nothing while the history fits; then one boundary that lasts. The current turn is touched only if it must be."""
    work.pays_for_loss = True
    window = work.ground.window
    if work.tokens > window:
        _force_faithfully(work, policy)
        return work.plan(policy.name, "forced")
    full = work.tokens >= policy.threshold * window
    if work.cold and work.ground.prices != UNKNOWN and work.tokens > policy.cold * window:
        chosen = _oldest(work, policy, policy.cold_target, work.turn())
        if chosen is not None and chosen.figures.net < 0 and work.carry_out(chosen):
            return work.plan(policy.name, "threshold" if full else "cold")
    chosen = _oldest(work, policy, policy.target, work.turn()) if full else None
    if chosen is not None:
        work.carry_out(chosen)
    return work.plan(policy.name, "threshold")


def _oldest(work: Work, policy: Faithful, target: float, before: int) -> Choice | None:
    """Fold the oldest items, up to the beginning of a turn if there is one near; None if that frees too little."""
    window = work.ground.window
    op = Collapse(round(target * window), round(policy.summary_share * window))
    cut = work.until(op.target_tokens, before, op.summary_tokens)
    cut = work.turn_start(cut, min(before, work.unseen), round(policy.turn_share * window))
    chosen = work.choice(op, fold=(work.cut(cut), op.summary_tokens))
    work.considered += [] if chosen is None else [(label(op), chosen.figures)]
    return chosen if chosen is not None and chosen.saved >= policy.least_share * window else None


def _force_faithfully(work: Work, policy: Faithful) -> None:
    """Make it fit: fold earlier turns; if that is not enough, the oldest of the current one that the model has seen; spool
    what it has not."""
    window = work.ground.window
    op = Collapse(round(policy.target * window), round(policy.summary_share * window))
    for before in (work.turn(), None):
        if work.tokens > window:
            cut = work.cut(work.until(op.target_tokens, before, op.summary_tokens))
            work.do(op, fold=(cut, op.summary_tokens))
    _spool_unseen(work)


# The frugal policy


def _frugal(work: Work, policy: Frugal) -> Plan:
    """Once a boundary is made, all that pays is done at it: what stands behind its first change is written anew anyway."""
    why: Why | None = None
    if work.tokens > work.ground.window:
        _force(work, policy)
        why = "forced"
    while (chosen := _cheapest(work, policy)) is not None and chosen.figures.net < 0 and work.carry_out(chosen):
        why = why or "pays"
    return work.plan(policy.name, why)


def _cheapest(work: Work, policy: Frugal) -> Choice | None:
    """The best of what could be done; each is kept with its figures."""
    tail = work.tail(policy.preserve_turns, round(policy.tail_share * work.ground.window))
    auto = AutoCompact(policy.preserve_turns, round(policy.tail_share * work.ground.window))
    micro = TimeDecayMicro(policy.large, policy.excerpt)
    share = round(policy.summary_share * work.ground.window)
    choices = [
        work.choice(auto, fold=(work.cut(tail), share)),
        work.choice(micro, reduce=work.excerpts(micro, tail)),
    ]
    least = max(1, policy.least, round(policy.least_share * work.ground.window))
    worth = [each for each in choices if each is not None and each.saved >= least]
    if not work.steps:
        work.considered = [(label(each.op), each.figures) for each in worth]
    return min(worth, key=lambda each: each.figures.net, default=None)


def _force(work: Work, policy: Frugal | Classic) -> None:
    """Make it fit: fold what is old; excerpt what is large of what was seen; fold all that was seen; spool what was not."""
    window = work.ground.window
    most, share = round(policy.tail_share * window), round(policy.summary_share * window)
    auto = AutoCompact(policy.preserve_turns, most)
    work.do(auto, fold=(work.cut(work.tail(policy.preserve_turns, most)), share))
    if work.tokens > window:
        micro = TimeDecayMicro(policy.large, policy.excerpt)
        work.do(micro, reduce=work.excerpts(micro, work.unseen))
    if work.tokens > window:
        work.do(AutoCompact(0, 0), fold=(work.cut(work.unseen), share))
    _spool_unseen(work)


def _spool_unseen(work: Work) -> None:
    """Show what the model has not seen yet by previews, the largest first, if all else was not enough."""
    window = work.ground.window
    work.shrink_summary(window)
    for pieces in work.unseen_pieces() if work.tokens > window else ():
        if work.tokens <= window:
            break
        work.do(Spool(piece_id(pieces[0].message, pieces[0].piece)), reduce=pieces)
