"""What a rule finds: that a text changes a candidate, and how sure that is."""

from __future__ import annotations

import msgspec

from holdfast.core.detect.cues import Mood
from holdfast.core.detect.reading import Held, Reading, Scene
from holdfast.model.detection import Change, Rule

SURE = 0.93
LIKELY = 0.86
FAIR = 0.82
DOUBTFUL = 0.65
"""How sure the rules are, by how often they were right in dialogues of people: from FAIR on it is right to act."""


class Finding(msgspec.Struct, frozen=True):
    held: Held
    change: Change
    rule: Rule
    cue: str
    confidence: float
    new: tuple[int, int] | None = None
    reading: Reading | None = None
    """Where the new value stands; the message observed if none is named."""
    at: int = 0
    """Where it is said, if no new value is."""
    value: str = ""
    """The new value, where the text states a part of it."""


def earnest(scene: Scene) -> list[Mood]:
    """The sentences that may change something: not asked, not only supposed."""
    return [mood for mood in scene.said.moods if is_earnest(mood)]


def is_earnest(mood: Mood) -> bool:
    return not (mood.asking or mood.hypothetical or mood.draft)


def is_current(scene: Scene, held: Held) -> bool:
    """Whether it belongs to what was talked of last, as far as keys have domains."""
    return not held.domain or held.domain in scene.domains
