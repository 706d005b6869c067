"""The steps of a plan, and what a summary of another size makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.plan import Collapse, Step, folds


def meet_targets(steps: Sequence[Step]) -> bool:
    """Whether every collapse frees as much as it was to, the line that takes the place of what left counted. Where a
    summary takes it, the target is a wish: what is of the current turn stays."""
    collapses = [(step, step.op) for step in steps if isinstance(step.op, Collapse)]
    return all(step.after <= op.target_tokens for step, op in collapses if not op.summary_tokens)


def shifted(steps: Sequence[Step], more: int) -> list[Step]:
    """The steps of a plan when the summary that it makes takes so many tokens more."""
    last = max(at for at, step in enumerate(steps) if folds(step.op))
    found = [*steps]
    for at in range(last, len(steps)):
        before = steps[at].before + (more if at > last else 0)
        found[at] = msgspec.structs.replace(steps[at], before=before, after=steps[at].after + more)
    return found
