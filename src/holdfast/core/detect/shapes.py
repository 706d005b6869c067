"""The shape of a fact's value, and the whole value of that shape which stands at a place in a text.

A value of another shape is none: `broken` is no telephone number and `lovely` no hotel. A value is taken whole or not at
all: an address with its town, an e-mail address with its dots.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from holdfast.core.detect.words import STOP, stem, word_set
from holdfast.core.values import Mention, mentions, name_norm

if TYPE_CHECKING:
    from holdfast.core.detect.reading import Held, Reading

Shape: TypeAlias = Literal["typed", "range", "quantity", "code", "address", "name", "label", "flag", "statement"]

VALUE_CHARACTERS = 120
"""The longest value that is read out of a sentence."""
LABEL_WORDS = 5
SHORT_LABEL = 3
"""So many words may a value in small letters have."""

_RANGE = re.compile(
    r"(?<![\w:.])\d{1,2}(?::\d{2})?\s?(?:[ap]m)?\s?(?:-|–|to|until|till)\s?\d{1,2}(?::\d{2})?\s?(?:[ap]m\b)?(?![\w:/]|"
    r"[.,-]\d)",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"\d[\d,]{0,12}(?:\.\d{1,4})?\s?(?:[a-zµ°²³%/]{1,12}|[A-Z]{1,4})\b(?:\s(?:a|per|each)\s[a-z]{1,10})?", re.IGNORECASE
)
_CODE = re.compile(
    r"(?=[\w-]{0,20}\d|[A-Za-z]{1,3}\s\d)(?:[A-Z]{1,4}\s?-?\d[\w-]{0,15}|[\w]{1,20}(?:[-_./][\w]{1,20}){0,5}|"
    r"[A-Za-z]{2}\s\d{2,4})"
)
_POSTCODE = r"(?:[A-Z]{1,2}\d[A-Z\d]?\s?\d[A-Z]{2}|\d{4,6}(?:-\d{3,4})?|[A-Z]{2}\s\d{5})"
_ROADS = (
    r"(?:street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|highway|hwy|way|court|ct|square|sq|terrace|close|"
    r"crescent|"
    r"place|pl|parade|grove|gardens?|hill|row|walk|mews|quay|park|plaza|stra(?:ß|ss)e|weg|platz|allee|gasse|rue|via|"
    r"calle|rua|"
    r"avenida|bridge|wharf|yard|green|rise|view|alley|circle|trail|pike|parkway|pkwy)"
)
_CAPITAL = r"(?:[A-Z][\w'’.-]{0,30}|\d{1,3}(?:st|nd|rd|th)|of|the|de|la|le|di|del|von|van|der|am|an|im)"
_HOUSE = r"\d{1,6}[A-Za-z]?(?:[-/]\d{1,4}[A-Za-z]?)?"
_UNIT = (
    r"(?:(?:[Ff]lat|[Aa]pt|[Aa]partment|[Uu]nit|[Ss]uite|[Rr]oom|[Ff]loor)\.?\s#?\w{1,6}\b|"
    r"[Nn]o\.?\s?\d{1,5}\b|#\s?\w{1,6}|\d{1,2}(?:st|nd|rd|th)\sfloor)"
)
_STREET = re.compile(
    r"(?:(?:[Ff]lat|[Aa]pt|[Aa]partment|[Uu]nit|[Ss]uite)\s\w{1,6},?\s)?(?:"
    + _HOUSE
    + r",?\s(?:"
    + _CAPITAL
    + r"\s){0,4}?(?:[A-Z][\w'’-]{0,30}|(?i:"
    + _ROADS
    + r"))(?:\s(?!(?:Apt|Flat|Unit|Suite|Floor|Apartment|No)\b)(?:[A-Z][\w'’-]{0,30}|"
    + _ROADS
    + r")){0,4}\b\.?|(?:(?:[A-Z][\w'’.-]{0,30}|de|la|do|da|van|der|von|dem|den)\s){0,4}[A-Z][\w'’.ßäöü-]{1,30}\s"
    + _HOUSE
    + r"\b(?!\s(?:people|persons|days|nights|times|euros|dollars)))",
)
_STREET_LOWER = re.compile(_HOUSE + r"\s(?:[a-z'’-]{2,20}\s){1,3}" + _ROADS + r"\b\.?", re.IGNORECASE)
_TOWN = re.compile(
    r"(?:,?\s"
    + _UNIT
    + r"|(?:,|\sin)\s(?!(?:Please|Thanks|Thank|Not|And|But|So|Also|The|My|I|It|Can|Could|If)\b)(?:"
    + _POSTCODE
    + r"\s)?(?:[A-Z][\w'’-]{1,25})(?:[\s-](?:(?![A-Z]{1,2}\d)[A-Z][\w'’-]{1,25}|upon|on|sur|am|an|de|la)){0,3}(?:,?\s"
    + _POSTCODE
    + r"\b)?|,?\s"
    + _POSTCODE
    + r"\b(?:\s[A-Z][\w'’-]{1,25}){0,2})"
)
_TOWN_LOWER = re.compile(
    r",\s(?P<town>[a-z'’-]{3,20}(?:\s[a-z'’-]{3,20})?)(?:,?\s(?P<code>[a-z]{1,2}\d[a-z\d]?\s?\d[a-z]{2}|"
    r"\d{4,6}))?(?=[.,;!?\n]|$)"
)
_LABEL_END = re.compile(
    r"(?:[,;!?\n()]|\.(?=\s|$)|\s[-–—]+\s|:\s|[\"”’']?(?:\s|^)(?:instead|now|please|pls|plz|because|since|as of|from "
    r"now|from "
    r"here|but|then|so|rather|going forward|effective|if|when|where|which|who|that|thanks|thx|thank|cheers|lol|lmao|"
    r"haha+|jk|again|"
    r"today|"
    r"after all|for me|for us|too|as well|this time|not|no longer|any ?more|while|until|before|after|ok|okay|right|yet|"
    r"already|these days|nowadays|sounds?|works?|looks?|"
    r"from|at|on|in|with|by|per|anyway|though|tho|btw|and (?:i|we|you|he|she|they|it|the|my|our|please|can|could|would|"
    r"let|"
    r"also|then|not|that|have|make|send|tell|update|change|move|set|cancel|build|book|add|remove|give|get|see|check|keep|"
    r"use|put|is|are|was|will|should)|is|are|was|were|has|have|had|will|would|should|could|can|to|for|as|or|I|i|you|we|"
    r"he|"
    r"she|they|it|"
    r"my|your|our|their|his|her)(?=\s|[,;.!?]|$))",
)
_AND_END = re.compile(r"\sand\s", re.IGNORECASE)
_TRIM = " \t\"'“”‘’`*_.,;:-–—"
_DIFFERENCE = re.compile(
    r"\s(?:more|less|fewer|over|short|away|late|early|left|too|extra|higher|lower|behind|ahead|older|younger|below|"
    r"above|off|"
    r"cheaper|better|worse|longer|shorter|faster|slower|ago|apart|each way)\b",
    re.IGNORECASE,
)
"""Behind a number: it is a difference, and no value."""

_FUNCTION = word_set(
    "it's its that's i'm i've i'd i'll we're we've we'll they're he's she's there's here's what's who's let's it he she "
    "they we i "
    "a about absolutely actually almost also always an and as at barely being between both by coming either even "
    "ever everything extremely for from getting going gonna hardly having here how in just kinda least less like "
    "looking making mine more most mostly much my nearly never no none not nothing of on one only or our ours part "
    "quite rather really so some something somewhat somewhere sort still such supposed than that the their there "
    "these this those to totally trying under used very what when where which who why with yes you your yours"
)
"""Words that begin no value."""
_STATES = word_set(
    "able absent abysmal acceptable accurate active adorable affordable afraid ages alive alone alright amazing "
    "ancient angry annoyed annoying appalling approaching asleep available awake awesome awful back bad beautiful "
    "behind best better big bigger blocked bonkers booked bored boring bound brilliant broken brown-out bust busy "
    "canceled cancelled capped changed changing cheap cheaper clean clear clogged close closed cold comfortable "
    "comfy complete complicated confirmed confusing cool correct corrupt cracked crap crappy crashed crashing crazy "
    "critical crowded cut cute damaged dangerous dead delayed delicious delightful different dirty disappointing "
    "disgusting done double down dreadful due dusty dying early easy empty enormous enough essential excellent "
    "excessive excited exciting exhausted exhausting expensive expired exposed fab fabulous faded failing fair fake "
    "faked fancy fantastic far fast faulty fearful filthy final fine finished fired fixed flaky flat flawed "
    "flexible forgotten freezing fresh friendly frozen full fully fun funny furious garbage generous genuine giant "
    "glad glitchy gone good gorgeous great green-lit gross grubby gutted happening happy hard hated haunted healthy "
    "heavy hectic helpful high hilarious hopeless horrible horrid hot huge hungry hurt ideal identical ill "
    "important impossible impressive incomplete inconvenient incorrect incredible infected insane insecure "
    "insufficient insulting invalid irrelevant jammed joking kaput kidding killing kind known lagging lame large "
    "late laughable leaking leaky legendary legit light-hearted little loaded locked lonely long looming loose lost "
    "loud lousy lovely low lower lucky mad magnificent massive mean meaningless meh messed messy minimal missing "
    "misspelled misspelt mistaken moved moving muddy near necessary needed negotiable nervous new nice noisy "
    "nonexistent normal nowhere obsolete odd off ok okay old ongoing open-ended out outdated outrageous over "
    "overbooked overcrowded overdue overheating overloaded overpriced overrated packed painful painless parked "
    "pathetic pending perfect permanent personal phenomenal pissed playing pleasant pointless poor popular possible "
    "pretty pricey private problematic promising public quick quiet ready real reasonable recent refundable relaxed "
    "reliable renovated resolved responsive rich ridiculous right rough rubbish rude ruined running rusty sad safe "
    "same satisfactory scary scratched secret secure serious sexy shabby shaky sharp short shot sick silent silly "
    "similar slow small smashed smelly smooth soaked sold solid sore sorted special spectacular splendid spot-on "
    "stable stale standing steep stolen straightforward strange stressed stressful strict stuck stunning stupid "
    "stylish super super-slow superb sure suspicious swapped sweet swollen taken tasty temporary terrible terrific "
    "thin tight tiny tired tiring tough tricky true trustworthy ugly unacceptable unavailable unbearable "
    "unbelievable unchanged unclear undecided underway underwhelming unfair unfinished unfortunate unhappy unknown "
    "unlocked unnecessary unreachable unreadable unrealistic unreliable unsafe unstable unusable up upcoming "
    "updated upset urgent useful useless usual vague valid valuable void vulnerable waiting warm wasted weak weird "
    "well wet wide wonderful wonky working worn worse worst worth wrong"
)
"""Words that say how something is: a value only where one is asked for outright, or of a status."""
_PARTICIPLE = re.compile(r"[a-z]{4,}(?:ing|ly|able|ible|ful|less|ous|ish)")
_OWNED = re.compile(r"-(?:owned|run|based|made|like|style|friendly|free|sized|built|themed)$", re.IGNORECASE)
_JUDGEMENT = re.compile(r"\s?(?:a|an|one)\s(?-i:[a-z])", re.IGNORECASE)
_DEMONYM = re.compile(
    r"(?:[A-Z][a-z]{1,12}(?:ian|ish|ese)|German|French|Dutch|Swiss|American|Mexican|African|European|Korean|Greek|Thai)"
)
_ATTRIBUTES = word_set(
    "status theme mode color colour level plan type branch slot preference diet language format tone style priority "
    "size cuisine "
    "food environment tier stage phase role position title gender visibility layout currency unit severity category "
    "class "
    "frequency cadence billing payment method channel seat allergy religion occupation profession mood weather genre "
    "material shape wifi password username nickname pronouns hobby interest topic subject goal focus approach strategy "
    "framework database editor shell os browser model engine tool stack font direction timezone zone region"
)
"""Keys whose value may well be a word in small letters."""
_CONDITIONS = word_set("status state stage phase condition availability progress")
"""Keys whose value says how something is."""
_PERSONS = word_set(
    "manager owner lead reviewer boss assignee contact assistant doctor dentist lawyer teacher coach partner wife "
    "husband "
    "editor author approver sponsor supervisor host speaker chair organizer organiser driver nanny agent"
)


class Value(msgspec.Struct, frozen=True):
    """A whole value in a text."""

    start: int
    end: int
    certain: bool = True
    """Whether it can be nothing else: for a word in small letters it cannot be told."""
    whole: str = ""
    """The whole value, where the text states a part of it and leaves the rest as it was."""


def shape_of(held: Held) -> Shape:
    text = held.text
    if held.kind == "flag":
        return "flag"
    if held.kind in {"name", "text", "code", "number", "duration"} or held.whole is None:
        if _is_address(held):
            return "address"
        if _RANGE.search(text) and not held.is_sentence:
            return "range"
        if _QUANTITY.fullmatch(text) and held.kind != "duration" and not re.fullmatch(r"[\d,.]+", text):
            return "quantity"
    if held.whole is not None and held.kind not in {"name", "code", "text"}:
        return "typed"
    if held.is_sentence:
        return "statement"
    if re.search(r"\d", text) and _CODE.fullmatch(text):
        return "code"
    words = [word for word in text.split() if word[:1].isalpha() and word not in STOP]
    return "name" if words and all(word[:1].isupper() for word in words) else "label"


def _is_address(held: Held) -> bool:
    street = _STREET.match(held.text)
    if street is not None and re.search(r"\b" + _ROADS + r"\b|[,]", held.text, re.IGNORECASE):
        return True
    return "address" in held.key.own and bool(street or _STREET_LOWER.match(held.text))


def whole_value(held: Held, reading: Reading, start: int, limit: int, *, asked: bool = False) -> Value | None:
    """The value of a fact's shape that begins at a place, all of it; None if there is none. `asked` says that a value is
    asked for outright, as in `set the status to …`, so that a word for a state is one."""
    shape = held.shape
    if shape in {"flag", "statement"}:
        return None
    text = reading.text
    limit = min(limit, start + VALUE_CHARACTERS)
    if shape == "typed":
        found = _typed(held, reading, start)
    elif shape == "address":
        found = _address(text, start)
    elif shape in {"range", "quantity", "code"}:
        pattern = {"range": _RANGE, "quantity": _QUANTITY, "code": _CODE}[shape]
        match = pattern.match(text, start, limit)
        found = Value(start, start + len(match[0].rstrip(" .-"))) if match else None
        if found is None and shape == "range":
            found = _days(reading, start)
        elif found is None and shape == "quantity":
            found = _bare_number(reading, start)
        elif shape == "code":
            found = _as_code(text, found, held)
    else:
        found = _label(held, text, start, limit, asked=asked)
    if found is None or _DIFFERENCE.match(text, found.end):
        return None
    stated = text[found.start : found.end]
    if shape == "range":
        found = msgspec.structs.replace(found, whole=complete_range(held, stated))
    return found if not _states_old(held, found.whole or stated) else None


def _states_old(held: Held, stated: str) -> bool:
    """Whether it repeats what is known; a part of a name does not, and neither does a name with more in it."""
    if held.shape == "typed":
        return False
    return name_norm(stated) == held.norm or stated.lower() == held.text.lower()


_RELATED: dict[str, frozenset[str]] = {
    "money": word_set("money number"),
    "number": word_set("number money percent duration"),
    "percent": word_set("percent number"),
    "duration": word_set("duration"),
    "date": word_set("date moment"),
    "time": word_set("time moment"),
    "moment": word_set("moment date time"),
    "ordinal": word_set("ordinal number"),
}


def _typed(held: Held, reading: Reading, start: int) -> Value | None:
    kinds = _RELATED.get(held.kind, frozenset((held.kind,)))
    found = [
        each
        for kind in kinds
        for each in reading.by_kind.get(kind, ())
        if each.start == start
        or (kind in {"date", "moment"} and start == each.start + 4 and reading.lower[each.start : start] == "the ")
    ]
    found = [each for each in found if _is_of_kind(held, each)]
    if not found:
        return _bare_hour(held, reading, start)
    best = max(found, key=lambda each: each.end)
    best = best.parts[0] if len(best.parts) == 1 else best
    if held.kind in {"date", "time"} and best.kind == "moment" and len(best.parts) > 1:
        own = [part for part in best.parts if part.kind == held.kind]
        if own and not any(held.differs(part) for part in own):
            return None
        if len(own) != 1 and held.kind == "time":
            return Value(best.start, best.end)
        best = own[0] if held.kind == "time" and len(own) == 1 and own[0].start == start else best
    if held.kind == "number" and best.kind == "number" and not held.may_count(best) and not _counts_unit(reading, best):
        return None
    if held.kind in {"date", "time"} and best.kind == held.kind and not held.differs(best):
        return None
    if held.states(best) and len(best.parts) <= 1:
        return None
    if held.kind == "moment" and held.whole is not None and len(best.parts) > 1 and held.states(best):
        return None
    return Value(start, best.end, certain=not (held.kind in _CALENDAR and _CONTINUES.match(reading.text, best.end)))


_CALENDAR = word_set("date time moment")
_CONTINUES = re.compile(
    r"\s(?:at|@|from|the)\s\d|,?\s\d{1,2}(?::\d{2})?\b(?!\s?(?:people|persons?|tickets?|guests?))", re.IGNORECASE
)
"""Behind a day or a time: there is more of it than was read."""


def _is_of_kind(held: Held, each: Mention) -> bool:
    """Whether a value of a related kind will do: a moment with a day in it for a day, hours for a number of hours."""
    if held.kind in {"date", "time"} and each.kind == "moment":
        return any(part.kind == held.kind for part in each.parts)
    if held.kind == "number" and each.kind == "duration":
        return held.lasts or stem(str(each.norm[1])) in held.key.own
    return True


def _counts_unit(reading: Reading, number: Mention) -> bool:
    """Whether what stands behind a number is its unit or no noun at all."""
    return (
        re.match(
            r"\s?(?:hours?|h|hrs?|units?|items?|pieces?|people|persons?|from|per|a|in|as|now|and|or)\b",
            reading.text[number.end : number.end + 12],
        )
        is not None
    )


def _bare_hour(held: Held, reading: Reading, start: int) -> Value | None:
    """`7` for a time, if a number stands there alone."""
    if held.kind not in {"time", "moment"}:
        return None
    match = re.compile(r"\d{1,2}(?=\s*(?:[,.!?;]|$|instead|please|pls|now|sharp|not))").match(reading.text, start)
    return Value(start, match.end(), certain=False) if match and 0 < int(match[0]) <= 24 else None


def complete_range(held: Held, stated: str) -> str:
    """The old value with its span of hours replaced, where a span alone is stated for a day and a span."""
    own = _RANGE.search(held.text)
    if held.shape != "range" or own is None or _RANGE.fullmatch(stated) is None:
        return ""
    return (held.text[: own.start()] + stated + held.text[own.end() :]) if own[0].strip() != held.text.strip() else ""


def _bare_number(reading: Reading, start: int) -> Value | None:
    found = next((each for each in reading.by_kind.get("number", ()) if each.start == start and not each.noun), None)
    return Value(found.start, found.end, certain=False) if found else None


def _days(reading: Reading, start: int) -> Value | None:
    """A day or a time with a span of hours behind it: `Monday 12-4`."""
    found = next((each for each in reading.by_kind.get("moment", ()) if each.start == start), None)
    if found is None:
        return None
    behind = _RANGE.match(reading.text, found.end + 1)
    return Value(start, behind.end() if behind else found.end)


def _as_code(text: str, found: Value | None, held: Held) -> Value | None:
    if found is None:
        return None
    stated = text[found.start : found.end]
    if not re.search(r"\d", stated) or (
        held.text[:1].isalpha() and not stated[:1].isalpha() and not held.text.islower()
    ):
        return None
    return (
        None
        if re.match(r"\s(?:days?|weeks?|hours?|people|times|euros|dollars|percent|%)", text[found.end :][:10])
        else found
    )


def _address(text: str, start: int) -> Value | None:
    street = _STREET.match(text, start)
    if street is not None:
        end = street.end()
        for _ in range(4):
            more = _TOWN.match(text, end)
            if more is None:
                break
            end = more.end()
        lower = _TOWN_LOWER.match(text, end)
        if lower and (lower["code"] or not _is_filling(lower["town"])) and text[start:end].islower():
            end = lower.end()
        return Value(start, start + len(text[start:end].rstrip(" ,.")))
    street = _STREET_LOWER.match(text, start)
    if street is None:
        return None
    end = street.end()
    lower = _TOWN_LOWER.match(text, end)
    if lower and (lower["code"] or not _is_filling(lower["town"])):
        end = lower.end()
    else:
        more = _TOWN.match(text, end)
        end = more.end() if more else end
    return Value(start, start + len(text[start:end].rstrip(" ,.")))


_FILLERS = word_set(
    "thanks thx thank please pls cheers ok okay sorry now not instead the and but so also since because then too right "
    "yeah yes "
    "you i we my can could would update let just asap again mate today tomorrow btw fyi lol ta regards kind best from "
    "with for"
)


def _is_filling(stated: str) -> bool:
    return any(word in _FILLERS or word in STOP for word in stated.lower().split())


def _label(held: Held, text: str, start: int, limit: int, *, asked: bool) -> Value | None:
    """A phrase up to where something else begins. `a mess` is no value, `a Skoda` is one."""
    if not asked and _JUDGEMENT.match(text, start):
        return None
    start += len(re.match(r"[\s\"'“‘`*]*(?:(?:the|a|an)\s(?=\S))?[\"'“‘`]?", text[start:limit], re.IGNORECASE)[0])  # type: ignore[index]
    stop = _LABEL_END.search(text, start, limit)
    end = stop.start() if stop else limit
    joined = _AND_END.search(text, start, end)
    if joined and " and " not in held.text.lower() and "," not in held.text:
        behind = text[joined.end() : joined.end() + 1]
        end = joined.start() if not (behind.isupper() and text[start : start + 1].isupper()) else end
    stated = text[start:end].rstrip(_TRIM)
    bare = _without_key(held, stated)
    end = start + len(bare)
    words = bare.split()
    if not words or len(words) > LABEL_WORDS or (stop is None and end - start >= VALUE_CHARACTERS):
        return None
    lower_case = not re.search(r"[A-Z]", text.replace("I", ""))
    if not _is_label(held, bare, words, lower_case=lower_case, asked=asked or bool(_CONDITIONS & {*held.key.own})):
        return None
    certain = bare[:1].isupper() or bool(re.search(r"\d", words[0])) or _is_attribute(held) or bare != stated
    return Value(start, end, certain=certain)


_NAME_PARTS = word_set("name number ordinal code")
"""Kinds of values that may be a part of any name."""


def _without_key(held: Held, stated: str) -> str:
    """`Premium` of `Premium plan`, where the key says that it is a plan."""
    words = stated.split()
    while len(words) > 1 and stem(words[-1]) in held.key.own and stem(words[-1]) not in held.norm:
        words.pop()
    return (
        stated[: len(stated) - len(stated.split(maxsplit=len(words))[-1])].rstrip(_TRIM)
        if len(words) < len(stated.split())
        else stated
    )


def _is_label(held: Held, stated: str, words: list[str], *, lower_case: bool, asked: bool) -> bool:
    first = words[0].lower().strip(_TRIM)
    if first in _FUNCTION or first in _FILLERS:
        return False
    if (stated[:1].isupper() and _OWNED.search(words[0])) or ("'s " in stated and "'s " not in held.text):
        return False
    if not asked and (first in _STATES or (words[-1].lower() in _STATES and not stated[:1].isupper())):
        return False
    if any(word.lower() in {"i", "you", "me", "is", "was", "very", "really", "too", "so"} for word in words):
        return False
    found = mentions(stated)
    kinds = {each.kind for each in found} - _NAME_PARTS
    if kinds != {each.kind for each in held.inner} - _NAME_PARTS or (kinds and len(found) < len(held.inner)):
        return False  # a day without its time is a part of such a value
    if re.search(r"\d", words[0]) and not re.search(r"\d", held.text):
        return False
    if stated[:1].isupper() or re.search(r"\d", words[0]):
        return not (_DEMONYM.fullmatch(words[0]) and _PERSONS & {*held.key.own})
    if not asked and _PARTICIPLE.fullmatch(first) and not _PARTICIPLE.search(held.text.lower()):
        return False
    if held.shape == "name":
        return lower_case and len(words) <= SHORT_LABEL and _may_be_name(held)
    return len(words) <= max(SHORT_LABEL, len(held.text.split()))


def is_no_value(stated: str) -> bool:
    """Whether a phrase says how something is, or what is done, and names nothing."""
    first = stated.lower().split()[:1]
    return not first or first[0] in _STATES or first[0] in _FUNCTION or first[0] in _FILLERS or first[0] in _DOINGS


_DOINGS = word_set(
    "leave leaving go going make making set setting get getting find finding book booking change changing feel be "
    "become reservation "
    "date time area reference number phone appointment doctor departing arriving earlier later cancel pick drop return "
    "start play"
)
"""Words that the place of a value is often taken by in talk about errands."""


def _may_be_name(held: Held) -> bool:
    """In a text without capitals a name has none; a word that is an attribute's may be anything."""
    return _is_attribute(held) or bool(
        {*held.key.own} & word_set("name city town country employer company surname hotel brand")
    )


def _is_attribute(held: Held) -> bool:
    return bool(_ATTRIBUTES & {*held.key.own})
