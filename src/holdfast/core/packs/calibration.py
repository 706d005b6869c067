"""Learn from a provider's usage figures how its token count differs from the engine's.

Two prompts of one conversation differ by the messages between them: what is in every prompt and in no pack (hidden text,
the provider's words about tools) cancels out. So the difference is the provider's count of text that the engine counted
too. It gives a factor for tokens, and an overhead for each message.

Laws:
- Only the reply to a recorded pack teaches. Its prompt is compared with the count of that pack, by the same counter, for
  the same model. Figures that cannot be a report of that pack teach nothing.
- A calibrated count is never below the plain one: a gateway that reports too little (without cached tokens, of a
  compressed prompt, of another model) makes no pack longer. A pack exceeds its budget by the counter's own error at most.
- One lesson moves one figure by one step, however large the difference. The first steps are large, and each lesson halves
  them. All figures are whole numbers.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.model.content import Source, Usage
from holdfast.model.state import Calibration, UsageReport

FACTOR_STEPS = (128, 8)
"""The first and the smallest step of the factor, in thousandths."""
OVERHEAD_STEPS = (32, 2)
FACTOR_BOUNDS = (Calibration().factor, 4_000)
"""From the plain count to four times that. Too high a count wastes a part of the window; too low a count is a request that
the provider refuses."""
OVERHEAD_BOUNDS = (Calibration().overhead, 400)
LARGE_MESSAGE_TOKENS = 200
"""At this many tokens a message or more, a difference teaches the factor; below, the overhead."""
MAX_LESSONS = 16
"""The steps shrink no further after this many."""
LEAST_GROWTH = 4
"""A difference of less than this part of the engine's own is not about the same text."""
LEAST_SHARE = 2
"""A prompt of less than this part of the engine's count is not the prompt of that pack."""
_UPPER_BOUND = Calibration(factor=FACTOR_BOUNDS[1], overhead=OVERHEAD_BOUNDS[1])
"""A difference above what these figures give is not explained by any figures within the bounds."""


def note_usage_report(before: Calibration, usage: Usage, source: Source | None, seq: int) -> Calibration:
    """After a reply with usage figures: keep the model and the report until the pack of the reply is recorded."""
    if not usage.input_tokens:
        return before
    model = (source.model if source else None) or before.model
    if model != before.model:
        before = Calibration(model=model)
    if usage.input_tokens < usage.cache_read_tokens + usage.cache_write_tokens:
        return replace(before, report=None)  # a figure without the cached tokens
    return replace(before, report=UsageReport(seq, usage.input_tokens))


def learn_from_pack(before: Calibration, reply: int, counter: str, estimate: int, messages: int) -> Calibration:
    """After the pack of a reply is recorded: compare the report with the pack's own count, `estimate`."""
    report = before.report
    if report is None or report.reply != reply:
        return before
    before = replace(before, report=None)
    if counter != before.counter:
        before = Calibration(model=before.model, counter=counter)
    prompt = report.prompt
    if not estimate or prompt * LEAST_SHARE < estimate:
        return before
    after = replace(before, prompt=prompt, estimate=estimate, messages=messages)
    billed, counted, added = prompt - before.prompt, estimate - before.estimate, messages - before.messages
    if not before.prompt or billed <= 0 or counted <= 0 or added < 0:
        return after
    expected = before.measure(counted, added)
    if billed * LEAST_GROWTH < counted or billed > _UPPER_BOUND.measure(counted, added):
        return after
    sign = (billed > expected) - (billed < expected)
    if counted >= LARGE_MESSAGE_TOKENS * added:
        factor = _move_figure(before.factor, sign, before.factor_lessons, FACTOR_STEPS, FACTOR_BOUNDS)
        return replace(after, factor=factor, factor_lessons=min(before.factor_lessons + 1, MAX_LESSONS))
    overhead = _move_figure(before.overhead, sign, before.overhead_lessons, OVERHEAD_STEPS, OVERHEAD_BOUNDS)
    return replace(after, overhead=overhead, overhead_lessons=min(before.overhead_lessons + 1, MAX_LESSONS))


def _move_figure(figure: int, sign: int, lessons: int, steps: tuple[int, int], bounds: tuple[int, int]) -> int:
    step = max(steps[0] >> lessons, steps[1])
    return min(max(figure + sign * step, bounds[0]), bounds[1])
