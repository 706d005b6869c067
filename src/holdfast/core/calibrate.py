"""What a provider's usage figures say about our own counting.

Two prompts of one conversation differ by what was said between them. The provider counted the difference, and so did we:
the quotient of the sums is what our counts are multiplied by.
"""

from __future__ import annotations

from holdfast.model.content import Source, Usage
from holdfast.model.state import Calibration

THOUSAND = 1_000
PRIOR = 2_000
"""So many tokens of evidence are taken to have fitted exactly: one odd prompt does not make a rule."""
LOWEST, HIGHEST = 500, 3_000
"""In thousandths. What lies beyond was no counting matter: another prompt, a compaction, hidden context."""


def learn(before: Calibration, usage: Usage, source: Source | None, estimate: int) -> Calibration:
    """After a reply whose prompt held what we count as `estimate` tokens of transcript."""
    model = source.model or "" if source else ""
    if not usage.input_tokens:
        return before
    if model != before.model or not before.prompt:
        same = before if model == before.model else Calibration()
        return Calibration(model, usage.input_tokens, estimate, same.billed, same.counted)
    billed, counted = usage.input_tokens - before.prompt, estimate - before.estimate
    if counted > 0 and LOWEST * counted <= billed * THOUSAND <= HIGHEST * counted:
        billed, counted = before.billed + billed, before.counted + counted
    else:
        billed, counted = before.billed, before.counted
    return Calibration(model, usage.input_tokens, estimate, billed, counted)


def factor(calibration: Calibration) -> int:
    """What our counts are multiplied by, in thousandths."""
    return (calibration.billed + PRIOR) * THOUSAND // (calibration.counted + PRIOR)


def calibrated(tokens: int, calibration: Calibration) -> int:
    return -(-tokens * factor(calibration) // THOUSAND)
