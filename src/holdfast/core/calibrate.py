"""What a provider's usage figures say about our own counting.

Two prompts of one conversation differ by what was said between them: what stands in every prompt (tools, hidden text)
cancels out. So the difference is the provider's count of messages that we counted too: a factor for our tokens, and so many
tokens for each message.

Laws: each lesson moves one figure by one step, however large the surprise, so an odd difference (a compaction, text put in
from elsewhere) does little harm; the first steps are large and each lesson halves them; whole numbers only.
"""

from __future__ import annotations

import msgspec

from holdfast.model.content import Source, Usage
from holdfast.model.state import Calibration

THOUSAND = 1_000
FACTOR_STEPS = (128, 8)
"""The first and the smallest step of the factor, in thousandths."""
OVERHEAD_STEPS = (32, 2)
FACTOR_BOUNDS = (250, 4_000)
OVERHEAD_BOUNDS = (0, 400)
LARGE = 200
"""From so many tokens a message on, a difference speaks of the factor; below, of the overhead."""
LESSONS = 16
"""After so many the steps shrink no further."""


def learn(before: Calibration, usage: Usage, source: Source | None, estimate: int, messages: int) -> Calibration:
    """After a reply, when the transcript without it had so many tokens, as we count, in so many messages."""
    prompt = usage.input_tokens
    if not prompt:
        return before
    model = source.model or "" if source else ""
    if model != before.model:
        before = Calibration(model)
    here = msgspec.structs.replace(before, prompt=prompt, estimate=estimate, messages=messages)
    billed, counted, added = prompt - before.prompt, estimate - before.estimate, messages - before.messages
    if not before.prompt or billed < 0 or counted < 0 or added < 0:
        return here
    if not billed or not added:
        return before  # one reply that was recorded as several messages
    expected = calibrated(before, counted, added)
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
