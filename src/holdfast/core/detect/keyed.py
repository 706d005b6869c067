"""What a text says is now so: of the thing that a key names, in the words used before, or of what the talk was about."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.core.detect import cues
from holdfast.core.detect.cues import Mood
from holdfast.core.detect.findings import DOUBTFUL, LIKELY, Finding, is_current
from holdfast.core.detect.phrases import Place, names_another, phrase, repeats
from holdfast.core.detect.reading import Held, Scene
from holdfast.core.detect.words import GENERIC, KIN, STOP, content, word_set, words
from holdfast.core.values import Mention, same
from holdfast.model.detection import Rule

UNHEARD_WORDS = 3
"""So many words that were not heard before may stand beside a new value, and it may still be about what was said."""
KIN_SHARE = 0.7
"""What a word that means about the same counts, next to the word itself."""

_EMPTY = word_set("v corrected current final original new latest global fact value selected approved top")
"""Words of a key that nobody says."""
_PLAIN = word_set(
    "the a an our my your its this that new current total whole updated revised final official actual correct right "
    "real overall same old original latest exact full and or of for to is are on at in with change set move update "
    "push make"
)
"""Words before a key's that do not make it another thing's."""
_AMENDED = word_set("money percent date time duration")
_POINTING = re.compile(r"\b(?:that|it|this|those|these|them)\b", re.IGNORECASE)


def keyed(scene: Scene, mood: Mood) -> Iterator[Finding]:
    yield from _parallel(scene, mood)
    yield from _pointed(scene, mood)
    yield from _amended(scene, mood)


def share(held: Held, subject: set[str]) -> float:
    """How much of a key these words name."""
    own = [word for word in held.key.own if word not in _EMPTY]
    exact = [word for word in own if word in subject]
    kin = [word for word in own if word not in subject and subject & KIN.get(word, frozenset())]
    if not own or (not set(exact + kin) - GENERIC and set(own) - GENERIC):
        return 0.0
    return (len(exact) + KIN_SHARE * len(kin)) / len(own)


def _is_elsewhere(scene: Scene, held: Held) -> bool:
    """Whether the text names the domain of other candidates, and not its own."""
    if not held.domain or scene.said.stems & set(held.key.domain):
        return False
    return any(scene.said.stems & set(each.key.domain) for each in scene.held if each.domain != held.domain)


def _stated(scene: Scene, mood: Mood, kind: str) -> list[Mention]:
    """The values of a kind that a sentence states, and does not deny."""
    key = (mood.sentence.start, kind)
    if key not in scene.stated:
        scene.stated[key] = [
            each
            for each in scene.said.by_kind.get(kind, ())
            if mood.sentence.start <= each.start < mood.sentence.end and not scene.said.denies(each)
        ]
    return scene.stated[key]


def _parallel(scene: Scene, mood: Mood) -> Iterator[Finding]:
    """It is said in the words in which the old value was: `with … for the contract`."""
    new = phrase(scene, mood)
    if new is None:
        return
    left, _ = scene.said.around(*new)
    rest = {word.stem for word in scene.said.inside(mood) if word.start >= new[1] and word.lower not in STOP}
    for held in scene.held if rest else ():
        if not held.is_label or repeats(scene, held, new):
            continue
        if any(each.left == left and each.role == "user" and rest & set(each.rest) for each in held.places):
            yield Finding(held, "supersede", "implicit", "the same words", LIKELY, new)


def _pointed(scene: Scene, mood: Mood) -> Iterator[Finding]:
    """Something is set right and not named: `make that …`, `send it to … instead`. It is what the talk was about."""
    authority = scene.authority
    if (not mood.strong and not authority) or cues.CLOSING.search(scene.said.text):
        return
    rule: Rule = "explicit" if mood.strong else "authority"
    cue = mood.correction or "per"
    for kind in scene.said.by_kind:
        stated = _stated(scene, mood, kind)
        if stated:
            yield from _pointed_value(scene, mood, rule, cue, stated)
    if not any(_stated(scene, mood, held.kind) for held in scene.held if held.is_typed):
        yield from _pointed_label(scene, mood, rule, cue)


def _pointed_value(scene: Scene, mood: Mood, rule: Rule, cue: str, stated: list[Mention]) -> Iterator[Finding]:
    last = stated[-1]
    holders = [
        held
        for held in scene.held
        if held.is_typed and _vies(held.kind, last.kind) and is_current(scene, held) and held.may_count(last)
    ]
    latest = [held for held in holders if held in scene.latest] if len(holders) > 1 else holders
    if len(latest) != 1 or latest[0].kind != last.kind or any(held.states(each) for held in holders for each in stated):
        return
    place = (last.start, last.end)
    yield Finding(latest[0], "supersede", rule, cue, LIKELY if _is_bare(scene, mood, place) else DOUBTFUL, place)


def _vies(kind: str, other: str) -> bool:
    """Whether a value of one kind may be meant where one of the other is said."""
    return kind == other or (other in {"date", "time"} and kind == "moment")


def _pointed_label(scene: Scene, mood: Mood, rule: Rule, cue: str) -> Iterator[Finding]:
    new = phrase(scene, mood, direct=True)
    if new is None or any(new[0] <= each.start < new[1] and each.kind != "name" for each in scene.said.mentions):
        return
    holders = [
        held
        for held in scene.held
        if (held.is_label or (held.is_sentence and cues.SOFT.search(f"{held.candidate.key} {held.candidate.text}")))
        and is_current(scene, held)
        and not cues.HARD.search(held.candidate.text)
        and not repeats(scene, held, new)
        and not names_another(scene, held, new)
    ]
    if any(each.start == new[0] and each.noun == "street" for each in scene.said.mentions):
        holders = [each for each in holders if each.whole and each.whole.noun == "street"] or holders
    latest = [held for held in holders if held in scene.latest] if len(holders) > 1 else holders
    for held in latest:
        sure = LIKELY if len(latest) == 1 and _is_bare(scene, mood, new) else DOUBTFUL
        yield Finding(held, "supersede", rule, cue, sure, new)


def _amended(scene: Scene, mood: Mood) -> Iterator[Finding]:
    """A statement with one value in it, and another value for what it is about: `offer 25%` for `we can offer 15%`."""
    stems = scene.said.stems_of(mood)
    for held in scene.held:
        core = held.core
        if core is None or held.whole is not None or core.kind not in _AMENDED or not held.key.telling:
            continue
        if not stems.issuperset(held.key.telling) or _is_elsewhere(scene, held):
            continue
        stated = _stated(scene, mood, core.kind)
        if len(stated) != 1 or same(core, stated[0]) or is_anothers(scene, held, stated[0]):
            continue
        shared = [word for word in content(words(held.text)) if word in stems]
        if mood.correction or len(shared) > 1:
            sure = LIKELY if mood.strong and held.is_label else DOUBTFUL
            rule: Rule = "explicit" if mood.correction else "implicit"
            yield Finding(held, "supersede", rule, mood.correction or "is", sure, (stated[0].start, stated[0].end))


def _is_bare(scene: Scene, mood: Mood, new: Place) -> bool:
    """Whether a sentence points at something, or names next to nothing beside the new value that was not heard before."""
    if _POINTING.search(scene.said.text, mood.sentence.start, mood.sentence.end):
        return True
    beside = [word for word in scene.said.inside(mood) if not new[0] <= word.start < new[1]]
    return len([each for each in content(beside) if each not in scene.heard]) <= UNHEARD_WORDS


def is_anothers(scene: Scene, held: Held, mention: Mention) -> bool:
    """Whether the sentence speaks of another thing with a key's name: a `marketing budget`, when it is the project's."""
    mood = scene.said.mood_at(mention.start)
    if mood is None or mood.strong or not held.key.telling:
        return False
    stems, head = scene.said.stems_of(mood), held.key.telling[-1]
    others = [word for word in held.key.own if word != head and word not in _EMPTY]
    if head not in stems or not others or not stems.isdisjoint(others):
        return False
    near = scene.said.inside(mood)
    at = next(at for at, word in enumerate(near) if word.stem == head)
    if at == 0 or mention.start <= near[at - 1].start < mention.end:
        return False
    before = near[at - 1]
    return before.lower not in _PLAIN and scene.said.text[before.end : near[at].start] == " "
