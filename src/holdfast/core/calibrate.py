"""What a provider's usage figures say about our own counting.

Two prompts of one conversation differ by what was said between them: what stands in every prompt and in no pack (hidden
text, the provider's words about tools) cancels out. So the difference is the provider's count of text that we counted too:
a factor for our tokens, and so many tokens for each message.

Laws:
- Only the reply to a recorded pack teaches. Its prompt is compared with that pack's own count, by the same counter, for the
  same model; figures that cannot be a report of that pack teach nothing.
- A calibrated count is never below the plain one: a gateway that reports too little (without what was cached, of a
  compressed prompt, of another model) makes no pack longer. A pack exceeds its budget by the counter's own error at most.
- A lesson moves one figure by one step, however large the surprise; the first steps are large and each lesson halves them;
  whole numbers only.
"""

from __future__ import annotations

import msgspec

from holdfast.model.content import Source, Usage
from holdfast.model.state import Calibration, Report

THOUSAND = 1_000
FACTOR_STEPS = (128, 8)
"""The first and the smallest step of the factor, in thousandths."""
OVERHEAD_STEPS = (32, 2)
FACTOR_BOUNDS = (Calibration().factor, 4_000)
"""From the plain count to four times that. A count too high wastes a part of the window; one too low is a request that
the provider refuses."""
OVERHEAD_BOUNDS = (Calibration().overhead, 400)
LARGE = 200
"""From so many tokens a message on, a difference speaks of the factor; below, of the overhead."""
LESSONS = 16
"""After so many the steps shrink no further."""
LEAST_GROWTH = 4
"""A difference of less than this part of the pack's own is not about the same text."""
LEAST_SHARE = 2
"""A prompt of less than this part of the pack's own count is not the prompt of that pack."""
_MOST = Calibration(factor=FACTOR_BOUNDS[1], overhead=OVERHEAD_BOUNDS[1])
"""No figures within the bounds explain a difference above what these make of it."""


def hear(before: Calibration, usage: Usage, source: Source | None, seq: int) -> Calibration:
    """After a reply with usage figures: which model answered, and what it reported, until its pack is known."""
    if not usage.input_tokens:
        return before
    model = (source.model if source else None) or before.model
    if model != before.model:
        before = Calibration(model=model)
    if usage.input_tokens < usage.cache_read_tokens + usage.cache_write_tokens:
        return msgspec.structs.replace(before, report=None)  # a prompt without what was cached of it
    return msgspec.structs.replace(before, report=Report(seq, usage.input_tokens))


def learn(before: Calibration, reply: int, counter: str, estimate: int, messages: int) -> Calibration:
    """Once it is known which pack a reply answered: one of so many tokens, as this counter says, in so many messages."""
    report = before.report
    if report is None or report.reply != reply:
        return before
    before = msgspec.structs.replace(before, report=None)
    if counter != before.counter:
        before = Calibration(model=before.model, counter=counter)
    prompt = report.prompt
    if not estimate or prompt * LEAST_SHARE < estimate:
        return before
    here = msgspec.structs.replace(before, prompt=prompt, estimate=estimate, messages=messages)
    billed, counted, added = prompt - before.prompt, estimate - before.estimate, messages - before.messages
    if not before.prompt or billed <= 0 or counted <= 0 or added < 0:
        return here
    expected = calibrated(before, counted, added)
    if billed * LEAST_GROWTH < counted or billed > calibrated(_MOST, counted, added):
        return here
    way = (billed > expected) - (billed < expected)
    if counted >= LARGE * added:
        factor = _moved(before.factor, way, before.factor_lessons, FACTOR_STEPS, FACTOR_BOUNDS)
        return msgspec.structs.replace(here, factor=factor, factor_lessons=min(before.factor_lessons + 1, LESSONS))
    overhead = _moved(before.overhead, way, before.overhead_lessons, OVERHEAD_STEPS, OVERHEAD_BOUNDS)
    return msgspec.structs.replace(here, overhead=overhead, overhead_lessons=min(before.overhead_lessons + 1, LESSONS))


def calibrated(now: Calibration, tokens: int, messages: int) -> int:
    """What the provider will count for so many of our tokens in so many messages."""
    return -(-now.factor * tokens // THOUSAND) + now.overhead * messages


def _moved(figure: int, way: int, lessons: int, steps: tuple[int, int], bounds: tuple[int, int]) -> int:
    step = max(steps[0] >> lessons, steps[1])
    return min(max(figure + way * step, bounds[0]), bounds[1])
