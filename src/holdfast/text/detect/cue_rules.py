"""Rules for cues: an old value is denied, a fact ends, an offer is accepted, a boolean changes, or a new value is stated.

A new value may be stated for a named key, with the same words around it as the old value, or for the current topic.

Each rule reads one sentence for one fact and yields a change or nothing. The detector chooses between the changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.model.facts.detection import DetectionRule
from holdfast.text.detect import cues, moments
from holdfast.text.detect.cues import Mood
from holdfast.text.detect.scene import (
    DOUBTFUL,
    FAIR,
    LIKELY,
    SURE,
    DetectedChange,
    MessageText,
    Scene,
    TargetFact,
    earnest_moods,
    is_current,
    is_earnest,
)
from holdfast.text.expressions import compile_late
from holdfast.text.values import ValueMention, is_same_mention, normalise_name
from holdfast.text.words import FILLING, GENERIC, STOP, SYNONYMS, content_stems, find_words, word_set

AROUND_CHARACTERS = 60
"""The characters around a value that are searched for cues."""
VALUE_CHARACTERS = 320
"""The longest value behind an introduction such as `the new plan is:`."""
_INTRODUCTION = compile_late(
    r"\b(?:actual\w*|now|new|current|correct\w*|is|(?<!need\s)(?<!needs\s)(?<!has\s)(?<!have\s)to|but|it's)\b[^:.!?\n]{0,30}[:\s]\s?(?=\S)",
    re.IGNORECASE,
)
_POINTER = compile_late(r"\b(?:that|it|this|those|these|them|what i said)\b", re.IGNORECASE)
_WISH = compile_late(
    r"\b(?:need|want|like|prefer|with|include|add|enable|have|has|require|please|must|on|yes)\b", re.IGNORECASE
)
_REFUSAL = compile_late(
    r"\b(?:no|not|without|never|off|disable|remove|drop|skip|cancel|exclude)\b|\b\w{1,8}n't\b", re.IGNORECASE
)


def find_explicit_changes(scene: Scene) -> Iterator[DetectedChange]:
    moods = earnest_moods(scene)
    flags = [target for target in scene.targets if target.kind == "flag"]
    for target in scene.targets:
        yield from _find_restatement(scene, target)
    for mood in moods:
        for target in scene.targets if mood.retraction else ():
            yield from _find_retraction(scene, target, mood)
        for target in flags:
            yield from _find_flag_change(scene, target, mood)
        yield from find_keyed_changes(scene, mood)
    yield from _find_agreement(scene)


def _find_restatement(scene: Scene, target: TargetFact) -> Iterator[DetectedChange]:
    """The old value is stated as outdated: `was X`, `not X`, `X is now Y`."""
    text = scene.message.text
    for start, end in target.partial_spans_in(scene.message):
        mood = scene.message.mood_at(start)
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
        ending_cue = _find_ending_cue(target, text, start, end)
        if not was and not now and not ending_cue:
            continue
        cue = ending_cue or _shorten_cue((was or now or [""])[0])
        new = _find_other_value(scene, target, end)
        if new is not None:
            yield DetectedChange(target, "supersede", "explicit", cue, SURE, new)
        elif (now and cue != "now") or ending_cue or mood.retraction or "no longer" in cue:  # `X now` alone confirms X
            yield DetectedChange(
                target, "retract", "explicit", cue, SURE if mood.retraction else LIKELY, at=mood.sentence.start
            )


def _find_ending_cue(target: TargetFact, text: str, start: int, end: int) -> str:
    """The cue that a name is no longer used: `no longer using …`, `we don't use … any more`."""
    ahead = text[max(0, start - AROUND_CHARACTERS) : start]
    if not target.is_label:
        return ""
    if ending := cues.ENDING.search(ahead):
        return _shorten_cue(ending[0])
    more = cues.ANY_MORE.match(text[end : end + AROUND_CHARACTERS]) if cues.NOT_BEFORE.search(ahead) else None
    return "any more" if more else ""


def _shorten_cue(cue: str) -> str:
    words = re.sub(r"[^\w\s'-]", "", cue.lower()).split()[: cues.CUE_WORDS]
    return " ".join(words[:1] if words[:1] == ["previous"] else words)


def _find_other_value(scene: Scene, target: TargetFact, end: int) -> tuple[int, int] | None:
    """The value that replaces the old one: the nearest of its kind, the text behind an introduction, or a name."""
    if target.is_typed:
        others = [mention for mention in scene.message.by_kind.get(target.kind, ()) if not target.states(mention)]
        others.sort(key=lambda mention: (mention.start < end, abs(mention.start - end)))
        return (others[0].start, others[0].end) if others else None
    text = scene.message.text
    following = _INTRODUCTION.search(text, end)
    if following:
        at = following.end()
        stop = re.search(r"[.!?\n]|$", text[at : at + VALUE_CHARACTERS])
        value = text[at : at + (stop.start() if stop else VALUE_CHARACTERS)].rstrip(" ,;")
        if set(normalise_name(value)) - set(target.norm):
            return at, at + len(value)
    names = [mention for mention in scene.message.names if not target.states(mention)]
    return (names[0].start, names[0].end) if names and target.is_label else None


def _find_retraction(scene: Scene, target: TargetFact, mood: Mood) -> Iterator[DetectedChange]:
    """The fact is retracted: named by its key, by a name in its value, or by a pronoun for the current topic."""
    if target.kind == "flag" or cues.NEGATIVE_VALUE.search(target.candidate.text):
        return
    if target.is_typed and any(
        mood.sentence.start <= mention.start < mood.sentence.end and not target.states(mention)
        for mention in scene.message.by_kind.get(target.kind, ())
    ):
        return  # a new value is stated: a correction, not a retraction
    cue = cues.RETRACTION.search(scene.message.text, mood.sentence.start, mood.sentence.end)
    at = cue.start() if cue else mood.sentence.start
    words = [word for word in scene.message.words_of(mood) if not _quotes_another(scene, target, word.start)]
    stems, proper = set(content_stems(words)), _proper_stems(target)
    named_stems = proper & {word.stem for word in words}
    by_key = {word for word in target.key.specific if word in stems}
    if named_stems and len(named_stems) * 2 >= len(proper):
        firm = cues.HARD.search(target.candidate.text) and not by_key
        yield DetectedChange(target, "retract", "explicit", mood.retraction, DOUBTFUL if firm else LIKELY, at=at)
    elif _POINTER.search(scene.message.text[mood.sentence.start : mood.sentence.end]) and target in scene.latest:
        about = stems - {word.stem for word in find_words(mood.retraction)}
        if not about or by_key or about & set(target.norm):
            sole = len(scene.latest) == 1 and not _was_asked(scene)
            yield DetectedChange(target, "retract", "explicit", mood.retraction, FAIR if sole else DOUBTFUL, at=at)


def _was_asked(scene: Scene) -> bool:
    """Whether the assistant has just asked a question: then the message may decline that."""
    return scene.last_reply is not None and scene.last_reply.text.rstrip().endswith("?")


def _quotes_another(scene: Scene, target: TargetFact, at: int) -> bool:
    """Whether a word is part of the value of another fact."""
    return any(
        start <= at < end
        for other in scene.targets
        if other is not target and other.is_sentence
        for start, end in other.spans_in(scene.message)
    )


def _proper_stems(target: TargetFact) -> set[str]:
    """The stems of codes in a value, or else of capitalised words except the first one and dates."""
    text = target.text
    codes = {
        word.stem
        for mention in target.inner
        if mention.kind == "code"
        for word in find_words(text[mention.start : mention.end])
    }
    dated = [(mention.start, mention.end) for mention in target.inner if mention.kind != "name"]
    return codes or {
        word.stem
        for word in find_words(text)
        if word.start
        and text[word.start].isupper()
        and len(word.lower) > 3
        and word.lower not in STOP
        and not any(start <= word.start < end for start, end in dated)
    }


def _find_flag_change(scene: Scene, target: TargetFact, mood: Mood) -> Iterator[DetectedChange]:
    """A boolean is wished or refused: `no parking`, `we need parking after all`."""
    if target.kind != "flag" or target.value is None or not target.key.specific or not is_current(scene, target):
        return
    nouns = [word for word in scene.message.words_of(mood) if word.stem == target.key.specific[-1]]
    if not nouns or not set(target.key.specific) <= {word.stem for word in scene.message.words_of(mood)}:
        return
    ahead = scene.message.text[max(mood.sentence.start, nouns[0].start - AROUND_CHARACTERS) : nouns[0].start]
    clause = re.split(r"[,;]|\bbut\b", ahead)[-1]
    refusal, wish = _REFUSAL.search(clause), _WISH.search(clause)
    if (refusal is None and wish is None) or bool(target.value.norm[0]) == (refusal is None):
        return
    match = refusal or wish
    assert match is not None
    start = nouns[0].start - len(clause) + match.start()
    sure = FAIR if mood.correction or mood.retraction else DOUBTFUL
    yield DetectedChange(target, "supersede", "explicit", mood.correction or "not", sure, (start, nouns[0].end))


def _find_agreement(scene: Scene) -> Iterator[DetectedChange]:
    """The assistant has offered another value, and the message agrees."""
    last = scene.last_reply
    if last is None or not cues.ASSENT.match(scene.message.text) or cues.REJECTION.match(scene.message.text):
        return
    for target in scene.targets:
        rivals = [other for other in scene.targets if other.kind == target.kind and other.domain == target.domain]
        in_message = scene.message.by_kind.get(target.kind)
        if not target.is_typed or in_message or len(rivals) > 1 or not is_current(scene, target):
            continue
        offers = [other for other in last.by_kind.get(target.kind, ()) if not target.states(other)]
        if len(offers) == 1 and target.differs(offers[0]) and _is_offer(last, target, offers[0]):
            yield DetectedChange(
                target, "supersede", "explicit", "agreed", FAIR, (offers[0].start, offers[0].end), last
            )


def _is_offer(last: MessageText, target: TargetFact, mention: ValueMention) -> bool:
    """Whether the assistant offers a value as an alternative, in its sentence or in a question directly behind."""
    if target.kind in {"number", "ordinal"} and not (mention.noun and target.may_count(mention)):
        return False
    mood = last.mood_at(mention.start)
    if mood is None:
        return False
    if cues.ALTERNATIVE.search(last.text, mood.sentence.start, mood.sentence.end):
        return True
    behind = last.moods[last.moods.index(mood) + 1 :][:1]
    return (cues.FAILURE.search(last.text) or cues.ONLY.search(last.text)) is not None and any(
        cues.WORKS.search(last.text, mood_near.sentence.start, mood_near.sentence.end) for mood_near in (mood, *behind)
    )


NEW_WORDS = 3
"""The most new words beside a value that is still about the current topic."""
SYNONYM_SHARE = 0.7
"""The weight of a synonym; the word of the key itself has weight 1."""
_EMPTY = word_set("v corrected current final original new latest global fact value selected approved top")
"""Words of a key that people leave out."""
_PLAIN = word_set(
    "the a an our my your its this that new current total whole updated revised final official actual correct right "
    "real overall same old original latest exact full and or of for to is are on at in with change set move update "
    "push make"
)
"""Words before the word of a key that do not change which thing it names."""
_AMENDABLE_KINDS = word_set("money percent date time duration")
_PRONOUN = compile_late(r"\b(?:that|it|this|those|these|them)\b", re.IGNORECASE)


def find_keyed_changes(scene: Scene, mood: Mood) -> Iterator[DetectedChange]:
    yield from _find_parallel(scene, mood)
    yield from _find_reference(scene, mood)
    yield from _find_amendment(scene, mood)


def key_share(target: TargetFact, subject: set[str]) -> float:
    """The share of a key's words that these stems name."""
    key_words = [word for word in target.key.words if word not in _EMPTY]
    exact = [word for word in key_words if word in subject]
    synonyms = [word for word in key_words if word not in subject and subject & SYNONYMS.get(word, frozenset())]
    if not key_words or (not set(exact + synonyms) - GENERIC and set(key_words) - GENERIC):
        return 0.0
    return (len(exact) + SYNONYM_SHARE * len(synonyms)) / len(key_words)


def _is_other_domain(scene: Scene, target: TargetFact) -> bool:
    """Whether the message names the domain of other facts, and not this one's."""
    if not target.domain or scene.message.stems & set(target.key.domain):
        return False
    return any(scene.message.stems & set(other.key.domain) for other in scene.targets if other.domain != target.domain)


def _stated_values(scene: Scene, mood: Mood, kind: str) -> list[ValueMention]:
    """The values of a kind that a sentence states and does not deny."""
    key = (mood.sentence.start, kind)
    if key not in scene.sentence_values:
        scene.sentence_values[key] = [
            mention
            for mention in scene.message.by_kind.get(kind, ())
            if mood.sentence.start <= mention.start < mood.sentence.end and not scene.message.denies(mention)
        ]
    return scene.sentence_values[key]


def _find_parallel(scene: Scene, mood: Mood) -> Iterator[DetectedChange]:
    """A new value is stated with the same words around it as the old one: `with … for the contract`."""
    new = find_phrase(scene, mood)
    if new is None:
        return
    left, _ = scene.message.neighbour_stems(*new)
    following = {word.stem for word in scene.message.words_of(mood) if word.start >= new[1] and word.lower not in STOP}
    for target in scene.targets if following else ():
        if not target.is_label or repeats_value(scene, target, new):
            continue
        if any(
            occurrence.left == left and occurrence.role == "user" and following & set(occurrence.following)
            for occurrence in target.occurrences
        ):
            yield DetectedChange(target, "supersede", "implicit", "the same words", LIKELY, new)


def _find_reference(scene: Scene, mood: Mood) -> Iterator[DetectedChange]:
    """A correction without a name, for the current topic: `make that …`, `send it to … instead`."""
    authority = scene.authority
    if (not mood.strong and not authority) or cues.CLOSING.search(scene.message.text):
        return
    rule: DetectionRule = "explicit" if mood.strong else "authority"
    cue = mood.correction or "per"
    for kind in scene.message.by_kind:
        mentions = _stated_values(scene, mood, kind)
        if mentions:
            yield from _find_value_reference(scene, mood, rule, cue, mentions)
    if not any(_stated_values(scene, mood, target.kind) for target in scene.targets if target.is_typed):
        yield from _find_label_reference(scene, mood, rule, cue)


def _find_value_reference(
    scene: Scene, mood: Mood, rule: DetectionRule, cue: str, mentions: list[ValueMention]
) -> Iterator[DetectedChange]:
    last = mentions[-1]
    holders = [
        target
        for target in scene.targets
        if target.is_typed
        and _is_rival_kind(target.kind, last.kind)
        and is_current(scene, target)
        and target.may_count(last)
    ]
    latest = [target for target in holders if target in scene.latest] if len(holders) > 1 else holders
    if (
        len(latest) != 1
        or latest[0].kind != last.kind
        or any(target.states(mention) for target in holders for mention in mentions)
    ):
        return
    span = (last.start, last.end)
    yield DetectedChange(latest[0], "supersede", rule, cue, LIKELY if _is_bare(scene, mood, span) else DOUBTFUL, span)


def _is_rival_kind(kind: str, other: str) -> bool:
    """Whether a value of the other kind may replace one of this kind."""
    return kind == other or (other in {"date", "time"} and kind == "moment")


def _find_label_reference(scene: Scene, mood: Mood, rule: DetectionRule, cue: str) -> Iterator[DetectedChange]:
    new = find_phrase(scene, mood, direct=True)
    mentions = scene.message.mentions
    if new is None or any(new[0] <= mention.start < new[1] and mention.kind != "name" for mention in mentions):
        return
    holders = [
        target
        for target in scene.targets
        if (
            target.is_label
            or (target.is_sentence and cues.SOFT.search(f"{target.candidate.key} {target.candidate.text}"))
        )
        and is_current(scene, target)
        and not cues.HARD.search(target.candidate.text)
        and not repeats_value(scene, target, new)
        and not names_another_key(scene, target, new)
    ]
    if any(mention.start == new[0] and mention.noun == "street" for mention in mentions):
        holders = [target for target in holders if target.value and target.value.noun == "street"] or holders
    latest = [target for target in holders if target in scene.latest] if len(holders) > 1 else holders
    for target in latest:
        sure = LIKELY if len(latest) == 1 and _is_bare(scene, mood, new) else DOUBTFUL
        yield DetectedChange(target, "supersede", rule, cue, sure, new)


def _find_amendment(scene: Scene, mood: Mood) -> Iterator[DetectedChange]:
    """A new value for the only value in a sentence fact: `offer 25%` for `we can offer 15%`."""
    stems = scene.message.stems_of(mood)
    for target in scene.targets:
        core = target.core
        if core is None or target.value is not None or core.kind not in _AMENDABLE_KINDS or not target.key.specific:
            continue
        if not stems.issuperset(target.key.specific) or _is_other_domain(scene, target):
            continue
        mentions = _stated_values(scene, mood, core.kind)
        if len(mentions) != 1 or is_same_mention(core, mentions[0]) or is_of_another(scene, target, mentions[0]):
            continue
        shared = [word for word in content_stems(find_words(target.text)) if word in stems]
        if mood.correction or len(shared) > 1:
            sure = LIKELY if mood.strong and target.is_label else DOUBTFUL
            rule: DetectionRule = "explicit" if mood.correction else "implicit"
            yield DetectedChange(
                target, "supersede", rule, mood.correction or "is", sure, (mentions[0].start, mentions[0].end)
            )


def _is_bare(scene: Scene, mood: Mood, new: TextRange) -> bool:
    """Whether a sentence has a pronoun, or few new words beside the new value."""
    if _PRONOUN.search(scene.message.text, mood.sentence.start, mood.sentence.end):
        return True
    beside = [word for word in scene.message.words_of(mood) if not new[0] <= word.start < new[1]]
    return len([stem for stem in content_stems(beside) if stem not in scene.previous_stems]) <= NEW_WORDS


def is_of_another(scene: Scene, target: TargetFact, mention: ValueMention) -> bool:
    """Whether the sentence is about another thing of the kind: the marketing budget, where the key is `project_budget`."""
    mood = scene.message.mood_at(mention.start)
    if mood is None or mood.strong or not target.key.specific:
        return False
    stems, head = scene.message.stems_of(mood), target.key.specific[-1]
    others = [word for word in target.key.words if word != head and word not in _EMPTY]
    if head not in stems or not others or not stems.isdisjoint(others):
        return False
    near = scene.message.words_of(mood)
    at = next(at for at, word in enumerate(near) if word.stem == head)
    if at == 0 or mention.start <= near[at - 1].start < mention.end:
        return False
    before = near[at - 1]
    return before.lower not in _PLAIN and scene.message.text[before.end : near[at].start] == " "


# The phrase that a sentence offers as a value

TextRange = tuple[int, int]
"""The characters of the observed message."""
_END = (
    r"(?=\s*(?:$|[,;.!?\n(]|\b(?:instead|now|please|because|since|due to|as of|from now|but|then|so|for the|for now|"
    r"rather than|going forward|effective|if|when|where|which|that|and)\b))"
)
_PHRASE = r"(?P<new>[^,;!?\n(]{1,80}?)" + _END
_VERB = (
    r"(?:chang|switch|mov|updat|set|revert|redirect|send|ship|deliver|reschedul|push|transfer|reassign|postpon|shift|"
    r"bump|rais|lower|reduc|cut|increas|adjust|revis|amend|delay|extend)(?:e|ed|es|ing|s|t|ting)?"
)
_WE = r"(?:let's|let us|we'll|we will|we're|we are|i'll|i will|i'd|i would|please)"
_TAKE = (
    r"(?:try(?:ing)?|do(?:ing)?|us(?:e|ing)|go(?:ing)? with|proceed(?:ing)? with|prefer|pick|choose|take|adopt|"
    r"hav(?:e|ing))"
)
_BETWEEN = r"(?:(?:it|that|this|them|back|over|[\w'-]{1,20}(?: [\w'-]{1,20}){0,5}?) ){0,2}?"
_DIRECT = (
    r"\b" + _VERB + r" " + _BETWEEN + r"to " + _PHRASE,
    r"\bmake (?:it|that|them) (?:(?:for|at|on) )?" + _PHRASE,
    r"\b" + _WE + r" (?:(?:be|just|rather) )?" + _TAKE + r" " + _PHRASE,
    r"\bback to " + _PHRASE,
    r"\b(?:prefer|rather have|use|choose|take|go with) " + _PHRASE,
    r"\b(?:i'm|we're|it's|i am|we are|it is) (?P<new>[\w'-]{1,30}(?: [\w'-]{1,30}){0,3}?)(?<! for) now\b",
)
"""Frames that propose a value."""
_STATING = (
    r"(?:\b(?:is|are|will be|should be|has been|stands at)|'s) (?:(?:now|actually|officially|currently) )?" + _PHRASE,
    r": (?:now )?" + _PHRASE,
)
"""Frames that only state a value."""
_FRAMES = [compile_late(frame.replace(" ", r"\s"), re.IGNORECASE) for frame in (*_DIRECT, *_STATING)]
_LEADING = compile_late(
    r"(?:now|actually|just|only|currently|officially|about|around|at|on|in|for|by)\s", re.IGNORECASE
)
_LEADING_ON = compile_late(r"(?:\s+(?:at|on|in|by|for|from|to|of|with|and|or|but|as|until|than|the|an|is|are|was))+$")
_DEFINITE = compile_late(r"(?:the|our|my|this|that)\s", re.IGNORECASE)
"""The beginning of a thing that is moved to another time."""
_NO_VALUE = compile_late(
    r"(?:to|it|that|this|them|me|you|us|not|all|everything|going|staying|able|sure|there|here|ahead|looking|trying|"
    r"just|onto)\b",
    re.IGNORECASE,
)


def find_phrase(scene: Scene, mood: Mood, *, direct: bool = False) -> TextRange | None:
    """The phrase that a sentence offers as a value, without a date or another value behind it."""
    key = (mood.sentence.start, direct)
    if key not in scene.phrases:
        scene.phrases[key] = _search_phrase(scene, mood, direct=direct)
    return scene.phrases[key]


def _search_phrase(scene: Scene, mood: Mood, *, direct: bool) -> TextRange | None:
    sentence = mood.sentence
    text = scene.message.text[sentence.start : sentence.end]
    for frame in _FRAMES[: len(_DIRECT)] if direct else _FRAMES:
        match = frame.search(text)
        if match is None:
            continue
        start, phrase = match.start("new"), match["new"]
        while leading := _LEADING.match(phrase):
            start, phrase = start + leading.end(), phrase[leading.end() :]
        start += sentence.start
        first = _value_end(scene, start)
        cut = next((mention for mention in scene.message.mentions if first < mention.start < start + len(phrase)), None)
        if cut is not None and cut.kind in {"date", "time"} and _DEFINITE.match(phrase):
            continue
        phrase = trim_phrase((phrase if cut is None else phrase[: cut.start - start]).rstrip(" -–—\"'"))
        if _is_meaningful(phrase):
            return start, start + len(phrase)
    return None


def _value_end(scene: Scene, start: int) -> int:
    """The end of the value that begins at a position; the position itself if there is none."""
    for mention in (*scene.message.by_kind.get("moment", ()), *scene.message.mentions):
        if mention.start == start:
            return moments.amount_end(scene.message.text, mention) or mention.end
    return start


def trim_phrase(phrase: str) -> str:
    """Remove prepositions and conjunctions from the end of a phrase."""
    return _LEADING_ON.sub("", phrase)


def leads_on(phrase: str) -> bool:
    return _LEADING_ON.search(phrase) is not None


def _is_meaningful(phrase: str) -> bool:
    """Whether a phrase may be a value: no infinitive, and not only filling words."""
    if not phrase or _NO_VALUE.match(phrase):
        return False
    return any(word.lower not in STOP and word.lower not in FILLING for word in find_words(phrase))


def repeats_value(scene: Scene, target: TargetFact, new: TextRange) -> bool:
    """Whether a phrase repeats the value of a fact."""
    norms = phrase_norms(scene, new)
    return not norms or norms <= target.norms or target.norms <= norms


def phrase_norms(scene: Scene, new: TextRange) -> frozenset[str]:
    """The normal form of a phrase."""
    if new not in scene.phrase_norms:
        scene.phrase_norms[new] = frozenset(map(str, normalise_name(scene.message.text[new[0] : new[1]])))
    return scene.phrase_norms[new]


def names_another_key(scene: Scene, target: TargetFact, new: TextRange) -> bool:
    """Whether a phrase names the key of another fact: `Spanish subtitles` names `subtitle_language`."""
    stems = {word.stem for word in scene.message.words_behind(*new)}
    return stems.isdisjoint(target.key.specific) and not stems.isdisjoint(scene.key_words)
