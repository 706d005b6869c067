"""What a text plainly says of a fact that it names: `my address is …`, `move the meeting to …`, `cancel the hotel`.

A statement is a subject, a verb and a whole value of the fact's shape. How it is meant decides what becomes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from holdfast.core.detect import cues, stance
from holdfast.core.detect.findings import DOUBTFUL, LIKELY, SURE, Finding, is_current
from holdfast.core.detect.reading import Held, Reading, Scene
from holdfast.core.detect.shapes import Value, whole_value
from holdfast.core.detect.subjects import Subject
from holdfast.core.detect.words import Sentence, word_set
from holdfast.model.detection import Change, Rule

AHEAD_CHARACTERS = 90
"""Before a subject, in which its verb or its value is looked for."""


def compile_phrases(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", r"\s"), re.IGNORECASE)


FILL = (
    r"(?P<fill>(?: ?(?:now|actually|currently|officially|really|just|simply|instead|at|on|in|for|by|called|named|"
    r"spelled|spelt|"
    r"set to|changed to|moved to|switched to|updated to|rescheduled to|rescheduled for|scheduled for|back to|back on|"
    r"back at|"
    r"pushed to|pushed back to|brought forward to|moved back to|moved up to|shifted to|cut to|raised to|lowered to|"
    r"reduced to|"
    r"increased to|about|around|roughly|approximately|at least|at most|up to|over|under|nearly|almost|only|exactly|"
    r"going to be|no longer|to be|from now on|as of now|as of today|officially|therefore|hence|the following)(?![\w-])| "
    r"?[:=\"'“](?!\d\d\b)){0,5}) *"
)
_APPROXIMATE = compile_phrases(
    r"\b(?:about|around|roughly|approximately|at least|at most|up to|over|under|nearly|almost)\b"
)
_IS = compile_phrases(
    r"(?: \([^)\n]{1,40}\))?(?:"
    r"(?: (?:is|are|will be|should be|must be|shall be|needs to be|need to be|has to be|ought to be|has been|have been|"
    r"would be|could be|might be|may be|becomes|became|equals|stands at|reads|is to be|got|should read|should say|"
    r"should now be|"
    r"will now be|now is|are to be|is going to be|has become|'s)|'s| ?[:=](?!\d\d\b)| ?(?:→|->|=>))" + FILL + r")"
)
_MOVES = compile_phrases(
    r"(?:'s)?(?: (?:has|have|had|was|were|is|are|just|now|been|being|got|gets|getting|will|be|officially|since|recently|"
    r"already|also)){0,4} "
    r"(?P<verb>changed|changes|moved|moves|went|gone|goes|switched|switches|shifted|shifts|pushed|slipped|jumped|"
    r"climbed|rose|"
    r"increased|dropped|fell|decreased|rescheduled|updated|set|raised|lowered|reduced|cut|brought|bumped|postponed|"
    r"delayed|"
    r"extended|corrected|upgraded|downgraded|renamed|transferred|reassigned|reset|restored|reverted|relocated|relocates|"
    r"put|"
    r"passed|upped|fixed|adjusted|doubled|assigned|handed|given)"
    r"(?: (?:up|down|back|over|out|forward|again|slightly|now))?(?: (?:from|by) [^,.;!?\n]{1,60}?)? (?:to|into|at|for|"
    r"until|on)\b" + FILL
)
_VERBS = (
    r"(?:chang|updat|switch|mov|push|shift|reschedul|bump|rais|lower|increas|reduc|adjust|correct|edit|amend|modify|"
    r"modifi|alter|"
    r"postpon|delay|extend|shorten|upgrad|downgrad|renam|reset|revert|restor|transfer|reassign|assign|replac|swap|cut|"
    r"fix|put|set|"
    r"bring|brought|sett|putt|cutt|swapp|chnag|chang|chagn|cahng|udpat|updat|upat|updt|mvoe|hand|give|gave|turn|lift|"
    r"drop|drag|"
    r"relocat|convert|redirect|forward|schedul|book|rebook|up|upp|mak|made|mark|register|record|save|store|point|rout)"
    r"(?:e|ed|es|ing|s|t|y|ied|d)?"
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
_WANTED = compile_phrases(r" (?:to be|to become|set to|changed to|moved to|switched to|to say|as|at|on|in)" + FILL)
_VALUE_IS_AHEAD = compile_phrases(
    r" (?:is|are|becomes|became|will be|'s)(?: now| officially| actually)?(?: going to be)? $"
)
_USE_AHEAD = compile_phrases(
    r"\b(?P<verb>use|using|put|take|have|make|making|made|set|list|register|pick|choose|(?:go |switch |change )?back to|"
    r"save|store|go with|"
    r"appoint\w*|nominate\w*|name\w*) "
    r"(?P<value>[^,;!?\n]{1,60}?)(?P<link> (?:as|for|to be|in|down as))? $"
)
_FOLLOW_UP = compile_phrases(
    r"\b(?:it's|it is|its|it should be|it should read|it must be|that's|that is|the (?:new|right|correct|actual|real) "
    r"(?:one|number|date|"
    r"time|address|value|spelling) (?:is|:)|the new one's|now it's|it's now|i have|i've got|i'm on|we have|we've got|i "
    r"use|"
    r"we use|i'm using|we're using|i got|we got|make (?:it|that)|use|change it to|set it to|put it (?:at|on|to|back to)|"
    r"move it (?:back )?to|switch it (?:back )?to|set it back to|go with|it moved to|it's been (?:moved|changed) to|it "
    r"has been (?:moved|changed) to)" + FILL
)
_REPLACED = compile_phrases(
    r"\b(?:replac\w+|swapp?\w*|sold|lost|traded(?: in)?|exchang\w+|got rid of|chang\w+|updat\w+|switch\w*|broke|"
    r"upgrad\w+|"
    r"quit|left|dropped|correct\w*|fix\w*|mov\w+|renam\w+) (?:my|our|the) $"
)
_CANCEL_AHEAD = compile_phrases(
    r"\b(?:cancel(?:l?ing|l?ed)?|scrap(?:ping|ped)?|call(?:ed|ing)? off|drop(?:ping|ped)?|delet(?:e|ed|ing)|remov(?:e|"
    r"ed|ing)|"
    r"get rid of|ditch(?:ed)?|bin|scratch|skip|discard|take out|took out|clear|erase|(?<![\w'] )forget(?: about)?|"
    r"(?:please|just|so|and) forget(?: about)?|axe|void|kill|"
    r"lose|strike|wipe|unset|disregard|abandon(?:ed)?|cut out|withdraw) $"
)
_CANCEL_BEHIND = compile_phrases(
    r"(?: (?:is|are|was|were|has been|have been|'s|got|just got|is now|has now been|been|will be|on \w{3,9} "
    r"is)){1,2}(?: (?:all|now|"
    r"officially|completely|off the|been|unfortunately|sadly)){0,2} (?P<word>off|cancell?ed|called off|scrapped|dropped|"
    r"not happening|no longer happening|no longer on|"
    r"void|off the table|no more|not taking place|withdrawn|discontinued|over and done)(?=[\s.,!;?]|$)"
    r"|(?: (?:fell|has fallen|falls) through)|(?: isn't happening| won't happen| isn't taking place| no longer "
    r"(?:exists|applies))(?: any ?more)?|"
    r" (?:doesn't|does not|don't) (?:exist|apply) any ?more"
)
_GONE_AHEAD = compile_phrases(
    r"\b(?:(?:do not|don't|dont|didn't|won't|will not|can't) (?:have|need|use|want|own|do|require|get)|no longer "
    r"(?:have|need|use|want|own|require))"
    r"(?: a| an| the| my| our| any)? $"
)
_LONG_AGO = compile_phrases(
    r" (?:last (?:week|month|year|summer|winter|spring|time)|(?:years|months|weeks) ago|in (?:19|20)\d\d|before)\b"
)
_NO_LONGER = compile_phrases(r"no longer|any ?more|any longer|these days|after all")


class Statement(msgspec.Struct, frozen=True):
    held: Held
    value: Value | None
    start: int
    """Where the statement begins: its verb, if that comes first, or else its subject."""
    stop: int
    cue: str
    certain: bool
    changes: bool
    """It tells of a change, or asks for one."""
    change: Change = "supersede"


def judge_statements(scene: Scene, statements: Iterable[Statement]) -> Iterator[Finding]:
    """What becomes of statements in the message observed."""
    for statement in statements:
        finding = judge_statement(scene, statement)
        if finding is not None:
            yield finding


def read_statements(scene: Scene, reading: Reading) -> Iterator[Statement]:
    """All statements of a message, however they are meant."""
    for subject in scene.subjects(reading):
        sentence = sentence_at(reading, subject.start)
        if sentence is None or subject.foreign or not is_current(scene, subject.held):
            continue
        yield from islice(_read(reading, subject, sentence), 1)


def sentence_at(reading: Reading, at: int) -> Sentence | None:
    mood = reading.mood_at(at)
    return mood.sentence if mood else None


def _read(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    for read in (_cancelled, _acted, _is_stated, _moved, _wanted, _stated_first, _followed):
        yield from read(reading, subject, sentence)


def _value(reading: Reading, subject: Subject, at: int, limit: int, *, asked: bool = False) -> Value | None:
    found = whole_value(subject.held, reading, at, limit, asked=asked)
    if found is None or (not subject.head and subject.share < 1 and subject.held.shape in {"name", "label"}):
        return None
    return found


_KINDS = word_set("address time date day number name url email phone location place hour price code")
"""Last words of a key that people leave out, where the value itself says of what kind it is."""


def _is_meant(subject: Subject) -> bool:
    """Whether a phrase names the fact and not only what it is of: `spending` is no `spending cap`."""
    return subject.head or subject.share == 1 or subject.held.key.own[-1] in _KINDS


def _statement(subject: Subject, value: Value, start: int, fill: str, cue: str, *, changes: bool) -> Statement:
    certain = subject.rivals == 0 and not _APPROXIMATE.search(fill) and _is_meant(subject)
    certain = certain and (value.certain or (changes and subject.share == 1 and subject.held.shape != "typed"))
    return Statement(subject.held, value, start, max(value.end, subject.end), cue, certain, changes)


def _is_stated(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`my address is …`, `new IBAN: …`."""
    found = _IS.match(reading.text, subject.end)
    if found is None or found.end() > sentence.end or "no longer" in found["fill"]:
        return
    value = _value(reading, subject, found.end(), sentence.end)
    if value is not None:
        behind = reading.text[value.end : value.end + 30]
        firm = re.search(r"\b(?:now|set to|changed to|moved to|back)\b|^ ?[:=]", found[0], re.IGNORECASE)
        firm = firm or re.match(r"(?: now\b|,? (?:and )?not\b|,? instead\b)", behind, re.IGNORECASE)
        yield _statement(subject, value, subject.start, found["fill"], "is", changes=firm is not None)


def _moved(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`the deadline has been moved to …`."""
    found = _MOVES.match(reading.text, subject.end)
    if found is None or found.end() > sentence.end:
        return
    value = _value(reading, subject, found.end(), sentence.end)
    if value is not None:
        yield _statement(subject, value, subject.start, found["fill"], found["verb"].lower(), changes=True)


def _ahead(reading: Reading, subject: Subject, sentence: Sentence) -> tuple[str, int]:
    low = max(sentence.start, subject.start - AHEAD_CHARACTERS)
    return reading.text[low : subject.start], low


def _acted(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`change my address to …`, `make the window …`."""
    ahead, low = _ahead(reading, subject, sentence)
    verb = _VERB_AHEAD.search(ahead) or _PUT_AHEAD.search(ahead)
    if verb is None:
        return
    found = _ACTION.match(reading.text, subject.end)
    at = found.end() if found else subject.end + 1
    if found is None and not _PUT_AHEAD.search(ahead):
        return
    value = _value(reading, subject, at, sentence.end, asked=True)
    if value is None and found is not None and _PUT_AHEAD.search(ahead):
        value = _value(reading, subject, subject.end + 1, sentence.end, asked=True)
    if value is not None:
        fill = found["fill"] if found else ""
        yield _statement(subject, value, low + verb.start(), fill, "change", changes=True)


def _wanted(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`I want the theme to be …`."""
    ahead, low = _ahead(reading, subject, sentence)
    verb = _WANT_AHEAD.search(ahead)
    found = _WANTED.match(reading.text, subject.end) if verb else None
    if verb is None or found is None:
        return
    value = _value(reading, subject, found.end(), sentence.end, asked=True)
    if value is not None:
        yield _statement(subject, value, low + verb.start(), found["fill"], "want", changes=True)


def _stated_first(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`Sarah is now the owner`, `use … as my e-mail`, `make Wei the reviewer`."""
    ahead, low = _ahead(reading, subject, sentence)
    used = _USE_AHEAD.search(ahead)
    if used is not None:
        start = low + used.start("value")
        value = _value(reading, subject, start, low + used.end("value"))
        making = used["verb"].lower().startswith(("mak", "made", "appoint", "nominat", "name"))
        linked = making or (used["link"] or "").strip().lower() in (
            {"as", "for"}
            if used["verb"].lower().startswith(("use", "using", "go", "switch", "change", "back"))
            else {"as", "down as", "to be"}
        )
        if value is not None and value.end >= low + used.end("value") - 1 and linked:
            yield _statement(subject, value, low + used.start(), "", "use", changes=True)
            return
    linked = _VALUE_IS_AHEAD.search(ahead)
    if linked is None or subject.bare:
        return
    end = low + linked.start()
    starts = {each.start for each in (*reading.mentions, *reading.names) if each.end == end}
    starts |= {each.start for each in reading.by_kind.get("moment", ()) if each.end == end}
    for start in sorted(starts):
        value = _value(reading, subject, start, end)
        if value is not None and value.end == end:
            firm = "now" in linked[0].lower() or "new" in reading.text[subject.start : subject.end].lower()
            made = _statement(subject, value, value.start, "", "is", changes=firm)
            yield msgspec.structs.replace(made, certain=made.certain and firm)
            return


def _followed(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`they replaced my laptop, I have … now`, `my address has changed. It's …`."""
    text = reading.text
    ahead, _ = _ahead(reading, subject, sentence)
    told = _REPLACED.search(ahead + text[subject.start : subject.start + 4])
    behind = re.compile(
        r"\s(?:(?:has|have|just|is|was|got|'s|have|hasn't)\s){0,3}(?:been\s)?(?:changed|moved|wrong|incorrect|outdated|"
        r"out of date|"
        r"broken|broke|misspelled|misspelt|different|switched|updated|stolen|lost|new|replaced|off by|not right|not "
        r"correct)\b",
        re.IGNORECASE,
    ).match(text, subject.end)
    if told is None and behind is None:
        return
    at = behind.end() if behind else subject.end
    found = _FOLLOW_UP.search(text, at, min(len(text), at + AHEAD_CHARACTERS))
    if found is None:
        return
    there = sentence_at(reading, found.start())
    if there is None:
        return
    value = _value(reading, subject, found.end(), there.end)
    if value is not None and value.certain:
        yield _statement(subject, value, found.start(), found["fill"], "changed", changes=True)


def _cancelled(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`cancel the hotel`, `the meeting is off`, `I don't have a backup phone any more`."""
    text = reading.text
    if subject.held.kind == "flag" or cues.GONE.search(subject.held.candidate.text):
        return
    ahead, low = _ahead(reading, subject, sentence)
    verb = _CANCEL_AHEAD.search(ahead)
    gone = _GONE_AHEAD.search(ahead)
    behind = _CANCEL_BEHIND.match(text, subject.end)
    if gone is not None:
        rest = text[subject.end : sentence.end]
        if not _NO_LONGER.search(gone[0]) and not _NO_LONGER.match(rest.lstrip()):
            return
    elif verb is None and behind is None:
        return
    stop = behind.end() if behind else subject.end
    if _LONG_AGO.match(text, stop):
        return
    start = subject.start if behind else low + (verb or gone).start()  # type: ignore[union-attr]
    if verb is not None and re.match(r"\s(?:to|from|if)\s", text[stop : stop + 6]):
        return
    certain = subject.rivals == 0 and (subject.share == 1 or subject.head)
    cue = "cancel" if verb or behind else "no longer"
    yield Statement(subject.held, None, start, stop, cue, certain, changes=True, change="retract")


def judge_statement(scene: Scene, statement: Statement) -> Finding | None:
    """What becomes of a statement, by how it is meant."""
    held, value = statement.held, statement.value
    place = None if value is None else (value.start, value.end)
    sentence = sentence_at(scene.said, statement.start)
    if sentence is None:
        return None
    around = stance.surround(scene.said.text, sentence, statement.start, place, statement.stop)
    dated = held.kind in {"date", "time", "moment"}
    meaning = stance.judge(msgspec.structs.replace(around, dated=dated, changes=statement.changes))
    if meaning.stance == "none":
        return None
    sure = SURE if statement.changes else LIKELY
    if meaning.stance == "doubtful" or not statement.certain:
        sure = DOUBTFUL
    told = statement.changes or cues.CORRECTION.search(scene.said.text, sentence.start, sentence.end)
    rule: Rule = "explicit" if told else "implicit"
    part = value.whole if value else ""
    return Finding(held, statement.change, rule, statement.cue, sure, place, value=part)
