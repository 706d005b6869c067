"""What a text says outright of a value: it was that, it is no longer so, the offer is taken, it is wanted or not.

Each rule looks at one sentence and one candidate, and yields a finding or nothing; the surest one for a fact is proposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.core.detect import cues
from holdfast.core.detect.cues import Mood
from holdfast.core.detect.findings import DOUBTFUL, FAIR, LIKELY, SURE, Finding, earnest, is_current, is_earnest
from holdfast.core.detect.keyed import keyed
from holdfast.core.detect.reading import Held, Reading, Scene
from holdfast.core.detect.words import STOP, content, words
from holdfast.core.values import Mention, name_norm

AROUND_CHARACTERS = 60
"""How far around a value it is looked for what is said of it."""
VALUE_CHARACTERS = 320
"""Of what is introduced as the value that holds now."""
_INTRODUCED = re.compile(
    r"\b(?:actual\w*|now|new|current|correct\w*|is|(?<!need\s)(?<!needs\s)(?<!has\s)(?<!have\s)to|but|it's)\b[^:.!?\n]{0,30}[:\s]\s?(?=\S)",
    re.IGNORECASE,
)
_POINTING = re.compile(r"\b(?:that|it|this|those|these|them|what i said)\b", re.IGNORECASE)
_WANTED = re.compile(
    r"\b(?:need|want|like|prefer|with|include|add|enable|have|has|require|please|must|on|yes)\b", re.IGNORECASE
)
_UNWANTED = re.compile(
    r"\b(?:no|not|without|never|off|disable|remove|drop|skip|cancel|exclude)\b|\b\w{1,8}n't\b", re.IGNORECASE
)


def found(scene: Scene) -> Iterator[Finding]:
    moods = earnest(scene)
    flags = [held for held in scene.held if held.kind == "flag"]
    for held in scene.held:
        yield from _restated(scene, held)
    for mood in moods:
        for held in scene.held if mood.retraction else ():
            yield from _retracted(scene, held, mood)
        for held in flags:
            yield from _flagged(scene, held, mood)
        yield from keyed(scene, mood)
    yield from _agreed(scene)


def _restated(scene: Scene, held: Held) -> Iterator[Finding]:
    """The old value stands there as one that was: `was X`, `not X`, `X is now Y`."""
    text = scene.said.text
    for start, end in held.touched(scene.said):
        mood = scene.said.mood_at(start)
        if mood is None or not is_earnest(mood):
            continue
        was = cues.WAS.search(text[max(0, start - AROUND_CHARACTERS) : start])
        now = cues.WAS_BEHIND.match(text[end : end + AROUND_CHARACTERS])
        if (
            was
            and was[0].lower().lstrip().startswith("from")
            and not cues.FROM.search(text, mood.sentence.start, start)
        ):
            was = None
        ended = _ended(held, text, start, end)
        if not was and not now and not ended:
            continue
        cue = ended or _plain((was or now or [""])[0])
        new = _other(scene, held, end)
        if new is not None:
            yield Finding(held, "supersede", "explicit", cue, SURE, new)
        elif now or ended or mood.retraction or "no longer" in cue:
            yield Finding(held, "retract", "explicit", cue, SURE if mood.retraction else LIKELY, at=mood.sentence.start)


def _ended(held: Held, text: str, start: int, end: int) -> str:
    """By what a name is said to be so no longer: `no longer using …`, `we don't use … any more`."""
    ahead = text[max(0, start - AROUND_CHARACTERS) : start]
    if not held.is_label:
        return ""
    if found := cues.ENDED.search(ahead):
        return _plain(found[0])
    more = cues.ANY_MORE.match(text[end : end + AROUND_CHARACTERS]) if cues.NOT_BEFORE.search(ahead) else None
    return "any more" if more else ""


def _plain(cue: str) -> str:
    told = re.sub(r"[^\w\s'-]", "", cue.lower()).split()[: cues.CUE_WORDS]
    return " ".join(told[:1] if told[:1] == ["previous"] else told)


def _other(scene: Scene, held: Held, end: int) -> tuple[int, int] | None:
    """The value that takes its place: of its kind, the nearest behind first, or what `is:` introduces, or a name."""
    if held.is_typed:
        others = [each for each in scene.said.by_kind.get(held.kind, ()) if not held.states(each)]
        others.sort(key=lambda each: (each.start < end, abs(each.start - end)))
        return (others[0].start, others[0].end) if others else None
    text = scene.said.text
    following = _INTRODUCED.search(text, end)
    if following:
        at = following.end()
        stop = re.search(r"[.!?\n]|$", text[at : at + VALUE_CHARACTERS])
        stated = text[at : at + (stop.start() if stop else VALUE_CHARACTERS)].rstrip(" ,;")
        if set(name_norm(stated)) - set(held.norm):
            return at, at + len(stated)
    names = [each for each in scene.said.names if not held.states(each)]
    return (names[0].start, names[0].end) if names and held.is_label else None


def _retracted(scene: Scene, held: Held, mood: Mood) -> Iterator[Finding]:
    """It is taken back: named by its key, by what its value names, or by pointing at what was said last."""
    if held.kind == "flag" or cues.GONE.search(held.candidate.text):
        return
    said = cues.RETRACTION.search(scene.said.text, mood.sentence.start, mood.sentence.end)
    at = said.start() if said else mood.sentence.start
    own = [word for word in scene.said.inside(mood) if not _quotes_another(scene, held, word.start)]
    stems, proper = set(content(own)), _proper(held)
    named = proper & {word.stem for word in own}
    by_key = {word for word in held.key.telling if word in stems}
    if named and len(named) * 2 >= len(proper):
        firm = cues.HARD.search(held.candidate.text) and not by_key
        yield Finding(held, "retract", "explicit", mood.retraction, DOUBTFUL if firm else LIKELY, at=at)
    elif _POINTING.search(scene.said.text[mood.sentence.start : mood.sentence.end]) and held in scene.latest:
        about = stems - {word.stem for word in words(mood.retraction)}
        if not about or by_key or about & set(held.norm):
            sole = len(scene.latest) == 1 and not _was_asked(scene)
            yield Finding(held, "retract", "explicit", mood.retraction, FAIR if sole else DOUBTFUL, at=at)


def _was_asked(scene: Scene) -> bool:
    """Whether the other side has just asked: then what is declined may be what it asked for."""
    return scene.last is not None and scene.last.text.rstrip().endswith("?")


def _quotes_another(scene: Scene, held: Held, at: int) -> bool:
    """Whether a word stands in the statement of another candidate's value."""
    return any(
        start <= at < end
        for other in scene.held
        if other is not held and other.is_sentence
        for start, end in other.found(scene.said)
    )


def _proper(held: Held) -> set[str]:
    """The stems that name something in particular: codes, or else words with a capital that are not the first, nor a date
    or a rank."""
    text = held.text
    codes = {word.stem for each in held.inner if each.kind == "code" for word in words(text[each.start : each.end])}
    dated = [(each.start, each.end) for each in held.inner if each.kind != "name"]
    return codes or {
        word.stem
        for word in words(text)
        if word.start
        and text[word.start].isupper()
        and len(word.lower) > 3
        and word.lower not in STOP
        and not any(start <= word.start < end for start, end in dated)
    }


def _flagged(scene: Scene, held: Held, mood: Mood) -> Iterator[Finding]:
    """What is or is not to be: `no parking`, `we need parking after all`."""
    if held.kind != "flag" or held.whole is None or not held.key.telling or not is_current(scene, held):
        return
    said = [word for word in scene.said.inside(mood) if word.stem == held.key.telling[-1]]
    if not said or not set(held.key.telling) <= {word.stem for word in scene.said.inside(mood)}:
        return
    ahead = scene.said.text[max(mood.sentence.start, said[0].start - AROUND_CHARACTERS) : said[0].start]
    clause = re.split(r"[,;]|\bbut\b", ahead)[-1]
    refused, wished = _UNWANTED.search(clause), _WANTED.search(clause)
    if (refused is None and wished is None) or bool(held.whole.norm[0]) == (refused is None):
        return
    told = refused or wished
    assert told is not None
    start = said[0].start - len(clause) + told.start()
    sure = FAIR if mood.correction or mood.retraction else DOUBTFUL
    yield Finding(held, "supersede", "explicit", mood.correction or "not", sure, (start, said[0].end))


def _agreed(scene: Scene) -> Iterator[Finding]:
    """The other side has offered another value, and that is agreed to."""
    last = scene.last
    if last is None or not cues.ASSENT.match(scene.said.text) or cues.REJECTION.match(scene.said.text):
        return
    for held in scene.held:
        rivals = [each for each in scene.held if each.kind == held.kind and each.domain == held.domain]
        stated = scene.said.by_kind.get(held.kind)
        if not held.is_typed or stated or len(rivals) > 1 or not is_current(scene, held):
            continue
        offered = [each for each in last.by_kind.get(held.kind, ()) if not held.states(each)]
        if len(offered) == 1 and held.differs(offered[0]) and _is_offer(last, held, offered[0]):
            yield Finding(held, "supersede", "explicit", "agreed", FAIR, (offered[0].start, offered[0].end), last)


def _is_offer(last: Reading, held: Held, offered: Mention) -> bool:
    """Whether a value is put forward as another one, in its sentence or in a question right behind."""
    if held.kind in {"number", "ordinal"} and not (offered.noun and held.may_count(offered)):
        return False
    mood = last.mood_at(offered.start)
    if mood is None:
        return False
    if cues.ALTERNATIVE.search(last.text, mood.sentence.start, mood.sentence.end):
        return True
    behind = last.moods[last.moods.index(mood) + 1 :][:1]
    return (cues.FAILURE.search(last.text) or cues.ONLY.search(last.text)) is not None and any(
        cues.WORKS.search(last.text, each.sentence.start, each.sentence.end) for each in (mood, *behind)
    )
