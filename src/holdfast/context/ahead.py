"""The next boundary, before it is due: what it will fold, so that a model can write the summary in the meantime. Pure.

Law: a boundary that folds what was prepared ends below the policy's threshold, or another one is planned.
"""

from __future__ import annotations

import msgspec

from holdfast.context.ground import Ground, Tools
from holdfast.context.plan import plan
from holdfast.context.work import Work
from holdfast.model.plan import Collapse, Faithful, Plan, PlanPolicy

AHEAD = 0.15
"""How far below the threshold of the faithful policy a boundary is prepared, as a share of the window."""


def plan_ahead(ground: Ground, policy: PlanPolicy, tools: Tools) -> Plan:
    """The boundary that is due, or the one that comes next if it is near; an empty plan otherwise.

    A faithful boundary frees the same share of the window whenever it comes, the oldest first. So what it will fold is
    known before: as much, counted from where the history ends now. Other policies cannot be foretold like that."""
    due = plan(ground, policy, tools)
    if not due.empty or not isinstance(policy, Faithful):
        return due
    share = Work(ground, tools).tokens / ground.window
    if share < policy.threshold - AHEAD:
        return due
    target = max(0.0, share - (policy.threshold - policy.target))
    nearer = msgspec.structs.replace(policy, threshold=policy.threshold - AHEAD, target=target)
    return plan(ground, nearer, tools)


def fold_prepared(ground: Ground, policy: PlanPolicy, tools: Tools, due: Plan, last: int) -> Plan:
    """The plan that is due, if possible with a fold of the messages up to event `last`: their summary is at hand."""
    if due.fold is None or due.fold.last == last or due.reduced or due.more or not isinstance(policy, Faithful):
        return due
    work = Work(ground, tools)
    work.pays_for_loss = True
    number = sum(item.last <= last for item in work.items)
    if not number or work.cut(number) != number or work.items[number - 1].last != last or number > work.turn():
        return due
    share = round(policy.summary_share * ground.window)
    work.do(Collapse(round(policy.threshold * ground.window), share), fold=(number, share))
    made = work.plan(policy.name, due.why)
    return made if made.fold is not None and work.tokens < policy.threshold * ground.window else due
