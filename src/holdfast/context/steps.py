"""The steps of a plan, and what a summary of another size makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.plan import Step, folds


def shifted(steps: Sequence[Step], more: int) -> list[Step]:
    """The steps of a plan when the summary that it makes takes so many tokens more."""
    last = max(at for at, step in enumerate(steps) if folds(step.op))
    found = [*steps]
    for at in range(last, len(steps)):
        before = steps[at].before + (more if at > last else 0)
        found[at] = msgspec.structs.replace(steps[at], before=before, after=steps[at].after + more)
    return found
