"""Statements about a fact that the text names: `my address is …`, `move the meeting to …`, `cancel the hotel`.

A statement is a phrase that names the fact, a verb, and a complete value of the fact's shape. Its stance decides whether it
is a change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import msgspec

from holdfast.model.facts.detection import DetectionRule, FactChange
from holdfast.text.detect import cues, stance
from holdfast.text.detect.key_phrases import KeyPhrase
from holdfast.text.detect.scene import (
    DOUBTFUL,
    LIKELY,
    SURE,
    DetectedChange,
    MessageText,
    Scene,
    TargetFact,
    is_current,
)
from holdfast.text.detect.shapes import ValueMatch, read_value
from holdfast.text.expressions import compile_late
from holdfast.text.words import Sentence, find_words, word_set

AHEAD_CHARACTERS = 90
"""The characters before a phrase that are searched for its verb or its value."""


def compile_phrases(pattern: str) -> re.Pattern[str]:
    return compile_late(pattern.replace(" ", r"\s"), re.IGNORECASE)


FILL = (
    r"(?P<fill>(?: ?(?:now|actually|currently|officially|really|just|simply|instead|at|on|in|for|by|called|named|"
    r"spelled|spelt|set to|changed to|moved to|switched to|updated to|rescheduled to|rescheduled for|scheduled for|"
    r"back to|back on|back at|pushed to|pushed back to|brought forward to|moved back to|moved up to|shifted to|cut to|"
    r"raised to|lowered to|reduced to|increased to|about|around|roughly|approximately|at least|at most|up to|over|"
    r"under|nearly|almost|only|exactly|going to be|no longer|to be|from now on|as of now|as of today|officially|"
    r"therefore|hence|the following)(?![\w-])| ?[:=\"'“](?!\d\d\b)){0,5}) *"
)
_APPROXIMATE = compile_phrases(
    r"\b(?:about|around|roughly|approximately|at least|at most|up to|over|under|nearly|almost)\b"
)
_IS = compile_phrases(
    r"(?: \([^)\n]{1,40}\))?(?:(?: (?:is|are|will be|should be|must be|shall be|needs to be|need to be|has to be|"
    r"ought to be|has been|have been|would be|could be|might be|may be|becomes|became|equals|stands at|reads|is to be|"
    r"got|should read|should say|should now be|will now be|now is|are to be|is going to be|has become|'s)(?!'?\w)|"
    r"'s(?!\w)| ?[:=](?!\d\d\b)| ?(?:→|->|=>))" + FILL + r")"
)
_MOVES = compile_phrases(
    r"(?:'s)?(?: (?:has|have|had|was|were|is|are|just|now|been|being|got|gets|getting|will|be|officially|since|"
    r"recently|already|also)){0,4} (?P<verb>changed|changes|moved|moves|went|gone|goes|switched|switches|shifted|"
    r"shifts|pushed|slipped|jumped|climbed|rose|increased|dropped|fell|decreased|rescheduled|updated|set|raised|"
    r"lowered|reduced|cut|brought|bumped|postponed|delayed|extended|corrected|upgraded|downgraded|renamed|transferred|"
    r"reassigned|reset|restored|reverted|relocated|relocates|put|passed|upped|fixed|adjusted|doubled|assigned|handed|"
    r"given|(?!(?:relat|compar|link|ti|limit|attach|connect|suppos|us|want|need|tri|plann|hop|allow|expect|address|"
    r"restrict|add|agre|belong|appli|refer|respond|point|decid|devot|stick|forward|invit)ed\b)[a-z]{3,12}ed)(?: (?:up|"
    r"down|back|over|out|forward|again|slightly|now))?(?: (?:from|by) [^,.;!?\n]{1,60}?)? (?:to|into|at|for|until|on)\b"
    + FILL
)
_VERBS = (
    r"(?:chang|updat|switch|mov|push|shift|reschedul|bump|rais|lower|increas|reduc|adjust|correct|edit|amend|modify|"
    r"modifi|alter|postpon|delay|extend|shorten|upgrad|downgrad|renam|reset|revert|restor|transfer|reassign|assign|"
    r"replac|swap|cut|fix|put|set|bring|brought|sett|putt|cutt|swapp|chnag|chang|chagn|cahng|udpat|updat|upat|updt|"
    r"mvoe|hand|give|gave|turn|lift|drop|drag|relocat|convert|redirect|forward|schedul|book|rebook|up|upp|mak|made|"
    r"mark|register|record|save|store|point|rout)(?:e|ed|es|ing|s|t|y|ied|d)?"
)
_VERB_AHEAD = compile_phrases(r"\b(?P<verb>" + _VERBS + r")(?: (?:over|back|up|forward))? $")
_PUT_AHEAD = compile_phrases(
    r"\b(?:mak(?:e|ing)|made|set|sett(?:ing)|put|(?:let's|lets|we'll|we can|can we|could we|please|to|shall we) (?:do|"
    r"have|hold)) $"
)
_ACTION = compile_phrases(
    r"(?: (?:back|over|up|down|out|forward|again))?(?: (?:away )?(?:from|by) [^,.;!?\n]{1,60}?)?(?: (?:to|as|into|with|"
    r"for|at|on|until|by)| ?[:=](?!\d\d\b)| ?(?:→|->|=>))(?!\w)" + FILL
)
_WANT_AHEAD = compile_phrases(
    r"\b(?:i|we)(?:'d)?(?: would| do| really| just| still| now| also){0,2} (?:want|need|like) $"
)
_WANT_BEHIND = compile_phrases(r" (?:to be|to become|set to|changed to|moved to|switched to|to say|as|at|on|in)" + FILL)
_VALUE_IS_AHEAD = compile_phrases(
    r" (?:is|are|becomes|became|will be|'s)(?: now| officially| actually)?(?: going to be)? $"
)
_USE_AHEAD = compile_phrases(
    r"\b(?P<verb>use|using|put|take|have|make|making|made|set|list|register|pick|choose|(?:go |switch |"
    r"change )?back to|save|store|go with|appoint\w*|nominate\w*|name\w*) (?P<value>[^,;!?\n]{1,60}?)(?P<link> (?:as|"
    r"for|to be|in|down as))? $"
)
_FOLLOW_UP = compile_phrases(
    r"\b(?:it's|it is|its|it should be|it should read|it must be|that's|that is|the (?:new|right|correct|actual|"
    r"real) (?:one|number|date|time|address|value|spelling) (?:is|:)|the new one's|now it's|it's now|i have|i've got|"
    r"i'm on|we have|we've got|i use|we use|i'm using|we're using|i got|we got|make (?:it|that)|use|change it to|"
    r"set it to|put it (?:at|on|to|back to)|move it (?:back )?to|switch it (?:back )?to|set it back to|go with|"
    r"it moved to|it's been (?:moved|changed) to|now is|(?:she|he|it|they)(?:'s| is|'re| are)(?: now)?(?: called|"
    r" named)?|(?:his|her|its|their|the)(?: new)? name is|it has been (?:moved|changed) to)" + FILL
)
_REPLACE_AHEAD = compile_phrases(
    r"\b(?:replac\w+|swapp?\w*|sold|lost|traded(?: in)?|exchang\w+|got rid of|chang\w+|updat\w+|switch\w*|broke|"
    r"upgrad\w+|quit|left|dropped|correct\w*|fix\w*|mov\w+|renam\w+) (?:my|our|the) $"
)
_CANCEL_AHEAD = compile_phrases(
    r"\b(?:cancel(?:l?ing|l?ed)?|scrap(?:ping|ped)?|call(?:ed|ing)? off|drop(?:ping|ped)?|delet(?:e|ed|ing)|remov(?:e|"
    r"ed|ing)|get rid of|ditch(?:ed)?|bin|scratch|skip|discard|take out|took out|clear|erase|"
    r"(?<![\w'] )forget(?: about)?|(?:please|just|so|and) forget(?: about)?|axe|void|kill|lose|strike|wipe|unset|"
    r"disregard|abandon(?:ed)?|cut out|withdraw) $"
)
_CANCEL_BEHIND = compile_phrases(
    r"(?:'s(?= been)|(?= (?:is|are|was|were|has|have|'s|got|just|been|will|on)\b))(?: (?:is|are|was|were|has been|"
    r"have been|'s|got|just got|is now|has now been|been|will be|on \w{3,9} is)){1,2}(?: (?:all|now|officially|"
    r"completely|off the|been|unfortunately|sadly)){0,2} (?P<word>off|cancell?ed|called off|scrapped|dropped|sold|"
    r"not happening|no longer happening|no longer on|void|off the table|no more|not taking place|withdrawn|"
    r"discontinued|over and done)(?=[\s.,!;?]|$)|(?: (?:fell|has fallen|falls) through)|(?: isn't happening|"
    r" won't happen| isn't taking place| no longer (?:exists|applies))(?: any ?more)?| (?:doesn't|does not|"
    r"don't) (?:exist|apply) any ?more"
)
_GONE_AHEAD = compile_phrases(
    r"\b(?:(?:do not|don't|dont|didn't|won't|will not|can't) (?:have|need|use|want|own|do|require|get)|"
    r"no longer (?:have|need|use|want|own|require)|there(?:'s| is| are) no|no more)(?: a| an| the| my| our| any)? $"
)
_SOLD_AHEAD = compile_phrases(
    r"\b(?:i|we)(?:'ve| have)?(?: just| finally| already| now| both){0,2} (?:sold|returned|gave away|given away|"
    r"scrapped|got rid of|sent back|cancell?ed|deleted) $"
)
_DO_AWAY = compile_phrases(
    r"\b(?:delete|remove|cancel|drop|scrap|discard|forget|clear|erase|take) (?:it|that|them)(?: out| off)?(?: please|"
    r" pls| then)?\s*(?:[.!]|$)"
)
_OVER_BEHIND = compile_phrases(
    r"(?:'s)?(?: (?:has|have|is|are|just|now|been|no longer|not)){0,3} (?:expired|ended|finished|valid|"
    r"needed|dead|void|obsolete|sold|cancell?ed)\b"
)
_FROM_RECORDS = compile_phrases(
    r" from (?:the |my |our |your |this )?(?:\w{1,15} )?(?:files?|records?|profile|account|system|database|form|notes|"
    r"calendar|booking|order|settings|memory|config|page|document|schedule|plan|here)\b"
)
_LONG_AGO = compile_phrases(
    r" (?:last (?:week|month|year|summer|winter|spring|time)|(?:years|months|weeks) ago|in (?:19|20)\d\d|before)\b"
)
_NO_LONGER = compile_phrases(r"no longer|any ?more|any longer|these days|after all")


class FactStatement(msgspec.Struct, frozen=True):
    """A statement in a text that a fact has a value, or ends."""

    target: TargetFact
    value: ValueMatch | None
    start: int
    """The start of its verb, or of the phrase that names the fact if that comes first."""
    stop: int
    cue: str
    certain: bool
    changes: bool
    """It reports or requests a change."""
    change: FactChange = "supersede"
    aside: tuple[int, int] | None = None
    """Text between phrase and verb that belongs to neither."""


def judge_statements(scene: Scene, statements: Iterable[FactStatement]) -> Iterator[DetectedChange]:
    """Judge statements in the observed message by their stance."""
    for statement in statements:
        change = judge_statement(scene, statement)
        if change is not None:
            yield change


def read_statements(scene: Scene, message: MessageText) -> Iterator[FactStatement]:
    """Read all statements of a message, with any stance."""
    for phrase in scene.key_phrases(message):
        sentence = sentence_at(message, phrase.start)
        if sentence is None or phrase.is_foreign or not is_current(scene, phrase.target):
            continue
        yield from islice(_read_phrase(message, phrase, sentence), 1)


def sentence_at(message: MessageText, at: int) -> Sentence | None:
    mood = message.mood_at(at)
    return mood.sentence if mood else None


def _read_phrase(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    for read in (
        _read_cancellation,
        _read_action,
        _read_definition,
        _read_move,
        _read_wish,
        _read_value_first,
        _read_follow_up,
    ):
        yield from read(message, phrase, sentence)


def value_at(
    message: MessageText, phrase: KeyPhrase, at: int, limit: int, *, is_request: bool = False
) -> ValueMatch | None:
    value = read_value(phrase.target, message, at, limit, is_request=is_request)
    if value is None or (not phrase.has_head and phrase.share < 1 and phrase.target.shape in {"name", "label"}):
        return None
    return value


_KINDS = word_set("address time date day number name url email phone location place hour price code")
"""Last words of a key that a phrase may leave out, because the value implies them."""


def _names_fact(phrase: KeyPhrase) -> bool:
    """Whether a phrase names the fact and not only its first word: `spending` is no `spending cap`."""
    return phrase.has_head or phrase.share == 1 or phrase.target.key.words[-1] in _KINDS


def build_statement(
    phrase: KeyPhrase, value: ValueMatch, start: int, fill: str, cue: str, *, changes: bool
) -> FactStatement:
    certain = phrase.rivals == 0 and not _APPROXIMATE.search(fill) and _names_fact(phrase)
    certain = certain and (value.certain or (changes and phrase.share == 1 and phrase.target.shape != "typed"))
    return FactStatement(phrase.target, value, start, max(value.end, phrase.end), cue, certain, changes)


def read_after_verb(message: MessageText, phrase: KeyPhrase, at: int, sentence: Sentence) -> FactStatement | None:
    """Read the statement of the verb at a position about the fact of a phrase."""
    statements = chain(_read_definition(message, phrase, sentence, at), _read_move(message, phrase, sentence, at))
    return next(statements, None)


def _read_definition(
    message: MessageText, phrase: KeyPhrase, sentence: Sentence, at: int | None = None
) -> Iterator[FactStatement]:
    """`my address is …`, `new IBAN: …`."""
    verb = _IS.match(message.text, phrase.end if at is None else at)
    if verb is None or verb.end() > sentence.end or "no longer" in verb["fill"]:
        return
    value = value_at(message, phrase, verb.end(), sentence.end)
    if value is not None:
        behind = message.text[value.end : value.end + 30]
        firm = re.search(r"\b(?:now|set to|changed to|moved to|back)\b|^ ?[:=]", verb[0], re.IGNORECASE)
        firm = firm or re.match(r"(?: now\b|,? (?:and )?not\b|,? instead\b)", behind, re.IGNORECASE)
        yield build_statement(phrase, value, phrase.start, verb["fill"], "is", changes=firm is not None)


def _read_move(
    message: MessageText, phrase: KeyPhrase, sentence: Sentence, at: int | None = None
) -> Iterator[FactStatement]:
    """`the deadline has been moved to …`."""
    verb = _MOVES.match(message.text, phrase.end if at is None else at)
    if verb is None or verb.end() > sentence.end:
        return
    value = value_at(message, phrase, verb.end(), sentence.end)
    if value is not None:
        yield build_statement(phrase, value, phrase.start, verb["fill"], verb["verb"].lower(), changes=True)


def text_ahead(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> tuple[str, int]:
    low = max(sentence.start, phrase.start - AHEAD_CHARACTERS)
    return message.text[low : phrase.start], low


def _read_action(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`change my address to …`, `make the window …`."""
    ahead, low = text_ahead(message, phrase, sentence)
    verb = _VERB_AHEAD.search(ahead) or _PUT_AHEAD.search(ahead)
    if verb is None:
        return
    link = _ACTION.match(message.text, phrase.end)
    at = link.end() if link else phrase.end + 1
    if link is None and not _PUT_AHEAD.search(ahead):
        return
    value = value_at(message, phrase, at, sentence.end, is_request=True)
    if value is None and link is not None and _PUT_AHEAD.search(ahead):
        value = value_at(message, phrase, phrase.end + 1, sentence.end, is_request=True)
    if value is not None:
        fill = link["fill"] if link else ""
        yield build_statement(phrase, value, low + verb.start(), fill, "change", changes=True)


def _read_wish(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`I want the theme to be …`."""
    ahead, low = text_ahead(message, phrase, sentence)
    verb = _WANT_AHEAD.search(ahead)
    link = _WANT_BEHIND.match(message.text, phrase.end) if verb else None
    if verb is None or link is None:
        return
    value = value_at(message, phrase, link.end(), sentence.end, is_request=True)
    if value is not None:
        yield build_statement(phrase, value, low + verb.start(), link["fill"], "want", changes=True)


def _read_value_first(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`Sarah is now the owner`, `use … as my e-mail`, `make Wei the reviewer`."""
    ahead, low = text_ahead(message, phrase, sentence)
    use = _USE_AHEAD.search(ahead)
    if use is not None:
        start = low + use.start("value")
        value = value_at(message, phrase, start, low + use.end("value"))
        is_appointment = use["verb"].lower().startswith(("mak", "made", "appoint", "nominat", "name"))
        takes_for = use["verb"].lower().startswith(("use", "using", "go", "switch", "change", "back"))
        links = {"as", "for"} if takes_for else {"as", "down as", "to be"}
        is_link = is_appointment or (use["link"] or "").strip().lower() in links
        if value is not None and value.end >= low + use.end("value") - 1 and is_link:
            yield build_statement(phrase, value, low + use.start(), "", "use", changes=True)
            return
    copula = _VALUE_IS_AHEAD.search(ahead)
    if copula is None or phrase.is_bare:
        return
    end = low + copula.start()
    starts = {mention.start for mention in (*message.mentions, *message.names) if mention.end == end}
    starts |= {mention.start for mention in message.by_kind.get("moment", ()) if mention.end == end}
    for start in sorted(starts):
        value = value_at(message, phrase, start, end)
        if value is not None and value.end == end:
            firm = "now" in copula[0].lower() or "new" in message.text[phrase.start : phrase.end].lower()
            statement = build_statement(phrase, value, value.start, "", "is", changes=firm)
            yield msgspec.structs.replace(statement, certain=statement.certain and firm)
            return


_VALUE_BEHIND = compile_late(
    r"(?:\sagain|\snow|\stoo|\salready)?\s?(?:[:,–—-]|[^\w\s,.;!?()#@/\"'+-]{1,3})?\s?", re.IGNORECASE
)
_CHANGED_BEHIND = compile_late(
    r"(?:'s)?\s(?:(?:has|have|just|is|was|got|'s|have)\s){0,3}(?:been\s)?(?:changed|moved|wrong|incorrect|outdated|"
    r"out of date|broken|broke|misspelled|misspelt|different|switched|updated|stolen|lost|new|replaced|off by|"
    r"not right|not correct)\b",
    re.IGNORECASE,
)
_GOT_NEW = compile_phrases(r"\b(?:i|we)(?:'ve)?(?: now| just){0,2} (?:have|got|get)(?: got)? $")
_NEW_ONE = compile_phrases(r"\bnew\b")


def _read_follow_up(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`they replaced my laptop, I have … now`, `my address has changed. It's …`."""
    text = message.text
    ahead, _ = text_ahead(message, phrase, sentence)
    cue = _REPLACE_AHEAD.search(ahead + text[phrase.start : phrase.start + 4])
    if cue is None and _NEW_ONE.search(text, phrase.start, phrase.end):
        cue = _GOT_NEW.search(ahead)
    behind = _CHANGED_BEHIND.match(text, phrase.end)
    if cue is None and behind is None:
        return
    at = behind.end() if behind else phrase.end
    if behind is not None and phrase.target.shape not in {"name", "label"}:
        gap = _VALUE_BEHIND.match(text, at)
        value = value_at(message, phrase, gap.end() if gap else at, sentence.end)
        if value is not None and value.certain:
            yield build_statement(phrase, value, phrase.start, "", "changed", changes=True)
            return
    follow_up = _FOLLOW_UP.search(text, at, min(len(text), at + AHEAD_CHARACTERS))
    if follow_up is None:
        return
    next_sentence = sentence_at(message, follow_up.start())
    if next_sentence is None:
        return
    value = value_at(message, phrase, follow_up.end(), next_sentence.end)
    if value is not None and value.certain:
        yield build_statement(phrase, value, follow_up.start(), follow_up["fill"], "changed", changes=True)


def _read_cancellation(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`cancel the hotel`, `the meeting is off`, `I don't have a backup phone any more`."""
    text = message.text
    if phrase.target.kind == "flag" or cues.NEGATIVE_VALUE.search(phrase.target.candidate.text):
        return
    ahead, low = text_ahead(message, phrase, sentence)
    verb = _CANCEL_AHEAD.search(ahead) or _SOLD_AHEAD.search(ahead)
    absence = _GONE_AHEAD.search(ahead)
    behind = _CANCEL_BEHIND.match(text, phrase.end)
    if absence is not None:
        behind_phrase = text[phrase.end : sentence.end]
        if not _NO_LONGER.search(absence[0]) and not _NO_LONGER.match(behind_phrase.lstrip()):
            return
    elif verb is None and behind is None:
        yield from _read_removal(message, phrase)
        return
    stop = behind.end() if behind else phrase.end
    if _LONG_AGO.match(text, stop) and not (verb and _SOLD_AHEAD.search(ahead)):
        return
    start = phrase.start if behind else low + (verb or absence).start()  # type: ignore[union-attr]
    complement = re.match(r"\s(?:to|from|if)\s", text[stop : stop + 6])
    if verb is not None and complement and not _FROM_RECORDS.match(text, stop):
        return
    certain = phrase.rivals == 0 and (phrase.share == 1 or phrase.has_head)
    cue = "cancel" if verb or behind else "no longer"
    yield FactStatement(phrase.target, None, start, stop, cue, certain, changes=True, change="retract")


def _read_removal(message: MessageText, phrase: KeyPhrase) -> Iterator[FactStatement]:
    """`the promo code has expired, delete it`."""
    over = _OVER_BEHIND.match(message.text, phrase.end)
    if over is None:
        return
    removal = _DO_AWAY.search(message.text, over.end(), min(len(message.text), over.end() + AHEAD_CHARACTERS))
    if removal is None or sentence_at(message, removal.start()) is None:
        return
    certain = phrase.rivals == 0 and (phrase.share == 1 or phrase.has_head)
    yield FactStatement(
        phrase.target, None, phrase.start, removal.end(), "delete", certain, changes=True, change="retract"
    )


def _mask_key(target: TargetFact, text: str) -> str:
    """Mask the words of the key, which may look like a negation: `my bus stop`."""
    key_words = [word for word in find_words(text) if word.stem in target.key.words]
    for word in key_words:
        text = text[: word.start] + "x" * (word.end - word.start) + text[word.end :]
    return text


def judge_statement(scene: Scene, statement: FactStatement) -> DetectedChange | None:
    """Judge a statement by its stance: a change with a confidence, or None."""
    target, value = statement.target, statement.value
    span = None if value is None else (value.start, value.end)
    sentence = sentence_at(scene.message, statement.start)
    if sentence is None:
        return None
    around = stance.split_surroundings(scene.message.text, sentence, statement.start, span, statement.stop)
    if statement.aside is not None and value is not None:
        start, end = statement.aside
        inside = scene.message.text[statement.start : start] + scene.message.text[end : value.start]
        before = around.before + scene.message.text[start:end]
        around = msgspec.structs.replace(around, before=before, inside=inside)
    around = msgspec.structs.replace(around, inside=_mask_key(target, around.inside))
    dated = target.kind in {"date", "time", "moment"}
    meaning = stance.judge_stance(msgspec.structs.replace(around, is_dated=dated, changes=statement.changes))
    if meaning.stance == "none":
        return None
    confidence = SURE if statement.changes else LIKELY
    if meaning.stance == "doubtful" or not statement.certain or (value is not None and value.doubted):
        confidence = DOUBTFUL
    is_explicit = statement.changes or cues.CORRECTION.search(scene.message.text, sentence.start, sentence.end)
    rule: DetectionRule = "explicit" if is_explicit else "implicit"
    part = value.full_text if value else ""
    return DetectedChange(target, statement.change, rule, statement.cue, confidence, span, value=part)
