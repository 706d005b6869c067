"""Time that has passed: facts that have run out, and deadlines that lie behind. All in UTC, by the clock that is given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from holdfast.core.detect.days import LATEST_US, day_of
from holdfast.core.detect.reading import Held, Scene
from holdfast.core.values import Mention

_DEADLINE = re.compile(
    r"\b(?:deadlines?|due|expir\w+|valid|until|till|by|before|offer|window|renews?|ends?|last\sday)\b", re.IGNORECASE
)
"""What holds up to a time, and not behind it."""
_EVENT = re.compile(
    r"\b(?:meeting|appointment|call|demo|event|visit|reservation|booking|flight|departure|check.?in|check.?out|"
    r"pickup|launch|"
    r"delivery|interview|session|schedule\w*)\b",
    re.IGNORECASE,
)
DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)


def passed(scene: Scene) -> Iterator[tuple[Held, str, float]]:
    """Candidates whose time is over: with what tells so, and how sure that is."""
    if not 0 < scene.now_us < LATEST_US:
        return
    for held in scene.held:
        expires = held.candidate.expires_us
        if expires is not None:
            if expires <= scene.now_us:
                yield held, "it has expired", 0.97
            continue
        sure = _sensitive(held)
        ends = (
            [(_end_us(each, held.candidate.since_us), each) for each in held.inner if each.kind == "date"]
            if sure
            else []
        )
        known = [(end, each) for end, each in ends if end is not None]
        if known and len(known) == len(ends) and max(end for end, _ in known) <= scene.now_us:
            told = all(each.norm[0] == "day" and each.norm[3] is not None for _, each in known)
            yield held, "its date has passed", sure if told else min(sure, 0.7)


def _sensitive(held: Held) -> float:
    text = f"{held.candidate.key.replace('_', ' ')} {held.text}"
    return 0.88 if _DEADLINE.search(text) else 0.65 if _EVENT.search(text) else 0.0


def _end_us(stated: Mention, since_us: int) -> int | None:
    """When the day that is meant is over."""
    day = day_of(stated, since_us)
    if day is None:
        return None
    return (day.toordinal() + 1 - _EPOCH.toordinal()) * DAY_US
