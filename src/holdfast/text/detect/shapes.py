"""The shape of a fact's value, and the values of that shape in a text.

A text of another shape is no new value: `broken` is no telephone number and `lovely` no hotel. Values are read whole or not
at all: an address with its town, an e-mail address with its dots.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.text.expressions import compile_late
from holdfast.text.values import ValueMention, find_mentions, is_same_mention, normalise_name
from holdfast.text.words import STOP, ends_sentence, is_abbreviated, strip_plural, word_set

if TYPE_CHECKING:
    from holdfast.text.detect.scene import MessageText, TargetFact


Shape: TypeAlias = Literal[
    "typed", "range", "quantity", "code", "token", "address", "name", "label", "flag", "statement"
]
VALUE_CHARACTERS = 120
"""The longest value that is read from a sentence."""
LABEL_WORDS = 5
"""The most words of a label; a longer value is a sentence."""
NAME_WORDS = 8
"""The most words of a name, all capitalised."""
SHORT_LABEL = 3
"""The most words of a value in lower case."""
_RANGE = compile_late(
    r"(?<![\w:.])\d{1,2}(?::\d{2})?\s?(?:[ap]m)?\s?(?:-|–|to|until|till)\s?\d{1,2}(?::\d{2})?\s?(?:[ap]m\b)?(?![\w:/]|"
    r"[.,-]\d)",
    re.IGNORECASE,
)
_QUANTITY = compile_late(
    r"[-−]?\d[\d,]{0,12}(?:\.\d{1,4})?\s?(?:[a-zµ°²³%/]{1,12}|[A-Z]{1,4})\b(?:\s(?:a|per|each)\s[a-z]{1,10})?",
    re.IGNORECASE,
)
_CODE = compile_late(
    r"(?=[\w-]{0,20}\d|[A-Za-z]{1,3}\s\d)(?:[A-Z]{1,4}\s?-?\d[\w-]{0,15}|[\w]{1,20}(?:[-_./][\w]{1,20}){0,5}|"
    r"[A-Za-z]{2}\s\d{2,4})"
)
_TOKEN = compile_late(r"(?=\S{0,100}[@/_.#:+\\\d-])[^\s,;!?()\"“”]{2,100}(?<![.:'])")
"""One word with punctuation inside: a handle, a path, a file, a door code."""
_POSTCODE = r"(?:[A-Z]{1,2}\d[A-Z\d]?\s?\d[A-Z]{2}|\d{4,6}(?:-\d{3,4})?|[A-Z]{2}\s\d{5})"
_ROADS = (
    r"(?:street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|highway|hwy|way|court|ct|square|sq|terrace|close|"
    r"crescent|place|pl|parade|grove|gardens?|hill|row|walk|mews|quay|park|plaza|stra(?:ß|ss)e|weg|platz|allee|gasse|"
    r"rue|via|calle|rua|avenida|bridge|wharf|yard|green|rise|view|alley|circle|trail|pike|parkway|pkwy)"
)
_CAPITAL = r"(?:[A-Z][\w'’.-]{0,30}|\d{1,3}(?:st|nd|rd|th)|of|the|de|la|le|di|del|von|van|der|am|an|im)"
_HOUSE = r"\d{1,6}[A-Za-z]?(?:[-/]\d{1,4}[A-Za-z]?)?"
_UNIT = (
    r"(?:(?:[Ff]lat|[Aa]pt|[Aa]partment|[Uu]nit|[Ss]uite|[Rr]oom|[Ff]loor)\.?\s#?\w{1,6}\b|"
    r"[Nn]o\.?\s?\d{1,5}\b|\d{1,2}[ºª°](?:\s?[A-Z]\b)?|#\s?\w{1,6}|\d{1,2}(?:st|nd|rd|th)\sfloor)"
)
_STREET = compile_late(
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
    + r"\b(?!\s(?:people|persons|days|nights|times|euros|dollars)))"
)
_STREET_LOWER = compile_late(_HOUSE + r"\s(?:[a-z'’-]{2,20}\s){1,3}" + _ROADS + r"\b\.?", re.IGNORECASE)
_TOWN = compile_late(
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
_TOWN_LOWER = compile_late(
    r",\s(?P<town>[a-z'’-]{3,20}(?:\s[a-z'’-]{3,20})?)(?:,?\s(?P<code>[a-z]{1,2}\d[a-z\d]?\s?\d[a-z]{2}|"
    r"\d{4,6}))?(?=[.,;!?\n]|$)"
)
_TRIM = " \t\"'“”‘’`*_.,;:-–—"
_DIFFERENCE = compile_late(
    r"\s(?:more|less|fewer|over|short|away|late|early|left|too|extra|higher|lower|behind|ahead|older|younger|below|"
    r"above|off|cheaper|better|worse|longer|shorter|faster|slower|ago|apart|each way)\b",
    re.IGNORECASE,
)
"""Behind a number that is a difference and no value."""
_FUNCTION = word_set(
    "it's its that's i'm i've i'd i'll we're we've we'll they're he's she's there's here's what's who's let's it he "
    "she they we i a about absolutely actually almost also always an and as at barely being between both by coming "
    "either even ever everything extremely for from getting going gonna hardly having here how in just kinda least "
    "less like looking making mine more most mostly much my nearly never no none not nothing of on one only or our "
    "ours part quite rather really so some something somewhat somewhere sort still such supposed than that the their "
    "there these this those nobody everyone everybody someone somebody anyone whoever neither whichever whatever "
    "anything to totally trying under used very what when where which who why with yes you your yours"
)
"""Words that never begin a value."""
_STATES = word_set(
    "able absent abysmal acceptable accurate active adorable affordable afraid ages alive alone alright amazing "
    "ancient angry annoyed annoying appalling approaching asleep available awake awesome awful back bad beautiful "
    "behind best better big bigger blocked bonkers booked bored boring bound brilliant broken brown-out bust busy "
    "canceled cancelled capped changed changing cheap cheaper clean clear clogged close closed cold comfortable comfy "
    "complete complicated confirmed confusing cool correct corrupt cracked crap crappy crashed crashing crazy critical "
    "crowded cut cute damaged dangerous dead delayed delicious delightful different dirty disappointing disgusting "
    "done double down dreadful due dusty dying early easy empty enormous enough essential excellent excessive excited "
    "exciting exhausted exhausting expensive expired exposed fab fabulous faded failing fair fake faked fancy "
    "fantastic far fast faulty fearful filthy final fine finished fired fixed flaky flat flawed flexible forgotten "
    "freezing fresh friendly frozen full fully fun funny furious garbage generous genuine giant glad glitchy gone good "
    "gorgeous great green-lit gross grubby gutted happening happy hard hated haunted healthy heavy hectic helpful high "
    "hilarious hopeless horrible horrid hot huge hungry hurt ideal identical ill important impossible impressive "
    "incomplete inconvenient incorrect incredible infected insane insecure insufficient insulting invalid irrelevant "
    "jammed joking kaput kidding killing kind known lagging lame large late laughable leaking leaky legendary legit "
    "light-hearted little loaded locked lonely long looming loose lost loud lousy lovely low lower lucky mad "
    "magnificent massive mean meaningless meh messed messy minimal missing misspelled misspelt mistaken moved moving "
    "muddy near necessary needed negotiable nervous new nice noisy nonexistent normal nowhere obsolete odd off ok okay "
    "old ongoing open-ended out outdated outrageous over overbooked overcrowded overdue overheating overloaded "
    "overpriced overrated packed painful painless parked pathetic pending perfect permanent personal phenomenal pissed "
    "playing pleasant pointless poor popular possible pretty pricey private problematic promising public quick quiet "
    "ready real reasonable recent refundable relaxed reliable renovated resolved responsive rich ridiculous right "
    "rough rubbish rude ruined running rusty sad safe same satisfactory scary scratched secret secure serious sexy "
    "shabby shaky sharp short shot sick silent silly similar slow small smashed smelly smooth soaked sold solid sore "
    "sorted special spectacular splendid spot-on stable stale standing steep stolen straightforward strange stressed "
    "stressful strict stuck stunning stupid stylish super super-slow superb sure suspicious swapped sweet swollen "
    "taken tasty temporary terrible terrific thin tight tiny tired tiring tough tricky true trustworthy ugly "
    "unacceptable unavailable unbearable unbelievable unchanged unclear undecided underway underwhelming unfair "
    "unfinished unfortunate unhappy unknown unlocked unnecessary unreachable unreadable unrealistic unreliable unsafe "
    "unstable unusable up upcoming updated upset urgent useful useless usual vague valid valuable void vulnerable "
    "waiting warm wasted weak weird well wet wide wonderful wonky working worn worse worst worth wrong"
)
"""Words for a state: a value only in an explicit request, or of a status."""
_PARTICIPLE = compile_late(r"[a-z]{4,}(?:ing|ly|able|ible|ful|less|ous|ish)")
_OWNED = compile_late(r"-(?:owned|run|based|made|like|style|friendly|free|sized|built|themed)$", re.IGNORECASE)
_JUDGEMENT = compile_late(r"\s?(?:a|an|one)\s(?-i:[a-z])", re.IGNORECASE)
_DEMONYM = compile_late(
    r"(?:[A-Z][a-z]{1,12}(?:ian|ish|ese)|German|French|Dutch|Swiss|American|Mexican|African|European|Korean|Greek|Thai)"
)
_GIVEN_IAN = compile_late(
    r"(?:Sebast|Christ|Br|Viv|Jul|Dam|Adr|Fab|Flor|Gill|Lill|Maximil|Kil|Mar|Hadr|Dor|Bast|Cypr|Valer)ian"
)
_ATTRIBUTES = word_set(
    "status theme mode color colour level plan type branch slot preference diet language format tone style priority "
    "size cuisine food environment tier stage phase role position title gender visibility layout currency unit "
    "severity category class frequency cadence billing payment method channel seat allergy religion occupation "
    "profession mood weather genre material shape wifi password username nickname pronouns hobby interest topic "
    "subject goal focus approach strategy framework database editor shell os browser model engine tool stack font "
    "direction timezone zone region"
)
"""Words of keys whose value may be a word in lower case."""
_CONDITIONS = word_set("status state stage phase condition availability progress")
"""Words of keys whose value is a state."""
_PERSONS = word_set(
    "manager owner lead reviewer boss assignee contact assistant doctor dentist lawyer teacher coach partner wife "
    "husband editor author approver sponsor supervisor host speaker chair organizer organiser driver nanny agent"
)
_GIVEN_NAME = compile_late(r"April|May|June|August|Summer|Autumn|Wednesday")
"""Names of people that are also words for times."""
_DATED = word_set("date day month time deadline birthday start end launch release")


class ValueMatch(msgspec.Struct, frozen=True):
    """A value in a text."""

    start: int
    end: int
    certain: bool = True
    """Whether it is certainly a value; a word in lower case never is."""
    doubted: bool = False
    """Whether the value may continue behind the match: then it is not applied."""
    full_text: str = ""
    """The full value, if the text states only a part of it."""


def shape_of(target: TargetFact) -> Shape:
    text = target.text
    if target.kind == "flag":
        return "flag"
    if target.kind == "number" and re.search(r"[#*]", text) and _TOKEN.fullmatch(text):
        return "token"
    if target.kind in {"name", "text", "code", "number", "duration"} or target.value is None:
        if _is_address(target):
            return "address"
        if _RANGE.search(text) and not target.is_sentence:
            return "range"
        if _QUANTITY.fullmatch(text) and target.kind != "duration" and not re.fullmatch(r"[\d,.]+", text):
            return "quantity"
    if target.value is not None and target.kind not in {"name", "code", "text"}:
        return "typed"
    if target.is_sentence:
        return "token" if _is_token(text) else "statement"
    if re.search(r"\d", text) and _CODE.fullmatch(text):
        return "code"
    if _is_token(text):
        return "token"
    words = [word for word in text.split() if word[:1].isalpha() and word not in STOP]
    return "name" if words and all(word[:1].isupper() for word in words) else "label"


def _is_token(text: str) -> bool:
    has_mark = re.search(r"[@/_.#:+\\]", text.rstrip(".")) is not None
    return has_mark and _TOKEN.fullmatch(text) is not None and not is_abbreviated(text, len(text) - 1)


def _is_address(target: TargetFact) -> bool:
    street = _STREET.match(target.text)
    if street is not None and re.search(r"\b" + _ROADS + r"\b|[,]", target.text, re.IGNORECASE):
        return True
    return "address" in target.key.words and bool(street or _STREET_LOWER.match(target.text))


def read_value(
    target: TargetFact, message: MessageText, start: int, limit: int, *, is_request: bool = False
) -> ValueMatch | None:
    """Read the value of a fact's shape that begins at a position; None if there is none. In an explicit request (`set the
    status to …`), a word for a state is a value too."""
    shape = target.shape
    if shape in {"flag", "statement"}:
        return _read_part(target, message, start) if shape == "statement" else None
    text = message.text
    limit = min(limit, start + VALUE_CHARACTERS)
    if shape == "typed":
        value = _read_typed(target, message, start)
    elif shape == "address":
        value = _read_address(text, start)
    elif shape in {"range", "quantity", "code", "token"}:
        pattern = {"range": _RANGE, "quantity": _QUANTITY, "code": _CODE, "token": _TOKEN}[shape]
        match = pattern.match(text, start, limit)
        value = ValueMatch(start, start + len(match[0].rstrip(" .-"))) if match else None
        if value is None and shape == "range":
            value = _read_day_range(message, start)
        elif value is None and shape == "quantity":
            value = _read_bare_number(message, start)
        elif shape == "code":
            value = _accept_code(text, value, target)
    else:
        value = _read_label(target, text, start, limit, is_request=is_request)
    if value is None and (part := _read_part(target, message, start)) is not None:
        return part
    if value is None or _DIFFERENCE.match(text, value.end):
        return None
    value_text = text[value.start : value.end]
    if shape == "range":
        value = msgspec.structs.replace(value, full_text=complete_range(target, value_text))
    return value if not _repeats_old(target, value.full_text or value_text) else None


_PART_END = compile_late(
    r"\s*(?:[.!?;]|$|,\s(?:same|the rest|everything else|otherwise)\b|(?:now|instead|please|pls)\b)"
)
"""The text behind a part of a value, if the part is complete."""


def _read_part(target: TargetFact, message: MessageText, start: int) -> ValueMatch | None:
    """`Thursday` for `Wednesday 16:30 with Mrs. Adler`: a new part, and the other parts unchanged."""
    if target.value is not None or target.shape not in {"label", "name", "statement"}:
        return None
    new = next(
        (mention for mention in message.mentions if mention.start == start and mention.kind in {"date", "time"}), None
    )
    old_parts = [mention for mention in target.inner if new is not None and mention.kind == new.kind]
    if (
        new is None
        or len(old_parts) != 1
        or is_same_mention(old_parts[0], new)
        or not _PART_END.match(message.text, new.end)
    ):
        return None
    full_text = target.text[: old_parts[0].start] + message.text[new.start : new.end] + target.text[old_parts[0].end :]
    return ValueMatch(start, new.end, full_text=full_text)


def _repeats_old(target: TargetFact, text: str) -> bool:
    """Whether a text repeats the old value. A part of a name does not, and neither does a longer name."""
    if target.shape == "typed":
        return False
    return normalise_name(text) == target.norm or text.lower() == target.text.lower()


_RELATED = {
    kinds.split()[0]: word_set(kinds)
    for kinds in (
        "money number",
        "number money percent duration",
        "percent number",
        "duration",
        "date moment",
        "time moment",
        "moment date time",
        "ordinal number",
    )
}
"""The kinds of new values, for each kind of an old value."""


def _read_typed(target: TargetFact, message: MessageText, start: int) -> ValueMatch | None:
    kinds = _RELATED.get(target.kind, frozenset((target.kind,)))
    mentions = [
        mention
        for kind in kinds
        for mention in message.by_kind.get(kind, ())
        if mention.start == start
        or (
            kind in {"date", "moment"} and start == mention.start + 4 and message.lower[mention.start : start] == "the "
        )
    ]
    mentions = [mention for mention in mentions if _is_of_kind(target, mention)]
    if not mentions:
        is_digits = isinstance(target.candidate.value, str) and target.text.isdigit()
        code = _LETTERED.match(message.text, start) if is_digits else None
        return ValueMatch(start, code.end()) if code else _read_bare_hour(target, message, start)
    best = max(mentions, key=lambda mention: mention.end)
    best = best.parts[0] if len(best.parts) == 1 else best
    if target.kind in {"date", "time"} and best.kind == "moment" and len(best.parts) > 1:
        parts = [part for part in best.parts if part.kind == target.kind]
        if parts and not any(target.differs(part) for part in parts):
            return None
        if len(parts) != 1 and target.kind == "time":
            return ValueMatch(best.start, best.end)
        best = parts[0] if target.kind == "time" and len(parts) == 1 and parts[0].start == start else best
    is_number = target.kind == best.kind == "number"
    if is_number and not target.may_count(best) and not _UNIT_BEHIND.match(message.text[best.end : best.end + 12]):
        return None
    if target.kind in {"date", "time"} and best.kind == target.kind and not target.differs(best):
        return None
    if target.states(best) and len(best.parts) <= 1:
        return None
    if target.kind == "moment" and target.value is not None and len(best.parts) > 1 and target.states(best):
        return None
    continues = target.kind in _CALENDAR and _CONTINUES.match(message.text, best.end)
    return ValueMatch(start, best.end, certain=not continues)


_LETTERED = compile_late(r"(?:\d{1,3}[A-Z]|[A-Z]\d{1,3})\b(?![-./]\w)")
"""A number with a letter, such as the number of a terminal or a room."""
_CALENDAR = word_set("date time moment")
_CONTINUES = compile_late(
    r"\s(?:at|@|from|the)\s\d|,?\s\d{1,2}(?::\d{2})?\b(?!\s?(?:people|persons?|tickets?|guests?))", re.IGNORECASE
)
"""The continuation of a day or a time."""
_UNIT_BEHIND = compile_late(
    r"\s?(?:hours?|h|hrs?|units?|items?|pieces?|people|persons?|from|per|a|in|as|now|and|or|since|already|because|until|"
    r"till|today|again|instead|please|pls|these|this|but|so|with|at|on|to|which|not|they|it)\b"
)
"""Behind a number: its unit, or no noun."""
_BARE_HOUR = compile_late(r"\d{1,2}(?=\s*(?:[,.!?;]|$|instead|please|pls|now|sharp|not))")


def _is_of_kind(target: TargetFact, mention: ValueMention) -> bool:
    """Whether a value of a related kind fits: a moment with a day for a day, hours for a number of hours."""
    if target.kind in {"date", "time"} and mention.kind == "moment":
        return any(part.kind == target.kind for part in mention.parts)
    if target.kind == "number" and mention.kind == "duration":
        return target.is_duration or strip_plural(str(mention.norm[1])) in target.key.words
    return True


def _read_bare_hour(target: TargetFact, message: MessageText, start: int) -> ValueMatch | None:
    """Read a bare number as a time: `7`."""
    if target.kind not in {"time", "moment"}:
        return None
    match = _BARE_HOUR.match(message.text, start)
    return ValueMatch(start, match.end(), certain=False) if match and 0 < int(match[0]) <= 24 else None


def complete_range(target: TargetFact, text: str) -> str:
    """The old value with a new range of hours; empty if the old value is only a range."""
    old_range = _RANGE.search(target.text)
    if target.shape != "range" or old_range is None or _RANGE.fullmatch(text) is None:
        return ""
    if old_range[0].strip() == target.text.strip():
        return ""
    return target.text[: old_range.start()] + text + target.text[old_range.end() :]


def _read_bare_number(message: MessageText, start: int) -> ValueMatch | None:
    number = next(
        (mention for mention in message.by_kind.get("number", ()) if mention.start == start and not mention.noun), None
    )
    return ValueMatch(number.start, number.end, certain=False) if number else None


def _read_day_range(message: MessageText, start: int) -> ValueMatch | None:
    """Read a day or a time with a range of hours behind it: `Monday 12-4`."""
    moment = next((mention for mention in message.by_kind.get("moment", ()) if mention.start == start), None)
    if moment is None:
        return None
    behind = _RANGE.match(message.text, moment.end + 1)
    return ValueMatch(start, behind.end() if behind else moment.end)


def _accept_code(text: str, value: ValueMatch | None, target: TargetFact) -> ValueMatch | None:
    if value is None:
        return None
    code = text[value.start : value.end]
    needs_letter = target.text[:1].isalpha() and not target.text.islower()
    if not re.search(r"\d", code) or (needs_letter and not code[:1].isalpha()):
        return None
    is_quantity = re.match(r"\s(?:days?|weeks?|hours?|people|times|euros|dollars|percent|%)", text[value.end :][:10])
    return None if is_quantity else value


def _read_address(text: str, start: int) -> ValueMatch | None:
    street = _STREET.match(text, start)
    if street is not None:
        saint = _SAINT.match(text, start + len(street[0].rstrip(".")))
        end = saint.end() if saint and not ends_sentence(text, saint.start()) else street.end()
        for _ in range(4):
            more = _TOWN.match(text, end)
            if more is None:
                break
            end = more.end()
        lower = _TOWN_LOWER.match(text, end)
        if lower and (lower["code"] or not _is_filling(lower["town"])) and text[start:end].islower():
            end = lower.end()
        return _finish_address(text, start, end)
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
    return _finish_address(text, start, end)


_SAINT = compile_late(r"(?<=\sSt)\.(?:\s[A-Z][\w'’-]{1,30}){1,4}")
"""`St.` for Saint behind a house number: `5 St. Anne's Court`."""
_ADDRESS_GOES_ON = compile_late(r",\s?(?:[\d#]|[A-Z][\w.-]{0,20}(?:\s?[,.;]|\s\d|$))")


def _finish_address(text: str, start: int, end: int) -> ValueMatch:
    end = start + len(text[start:end].rstrip(" ,."))
    return ValueMatch(start, end, doubted=_ADDRESS_GOES_ON.match(text, end) is not None)


_FILLERS = word_set(
    "thanks thx thank please pls cheers ok okay sorry now not instead the and but so also since because then too right "
    "yeah yes you i we my can could would update let just asap again mate today tomorrow btw fyi lol ta regards kind "
    "best from with for idea clue preference problem worries matter"
)


def _is_filling(text: str) -> bool:
    return any(word in _FILLERS or word in STOP for word in text.lower().split())


def _read_label(target: TargetFact, text: str, start: int, limit: int, *, is_request: bool) -> ValueMatch | None:
    """Read a phrase as a value. `a mess` is no value, `a Skoda` is one."""
    if not is_request and _JUDGEMENT.match(text, start):
        return None
    article = _ARTICLE.match(text, start, limit)
    start = article.end() if article else start
    quotation = _QUOTED.match(text, start - 1, limit) if start else None
    if quotation is not None and (text[start - 1] in '"“' and quotation.start() == start - 1):
        return ValueMatch(start, quotation.end("inner"))
    label = find_label(text, start, limit, target.text)
    end = label.end
    phrase = text[start:end].rstrip(_TRIM)
    name = _strip_key(target, phrase)
    end = start + len(name)
    words = name.split()
    max_words = NAME_WORDS if is_one_name(name) else LABEL_WORDS
    if not words or len(words) > max_words or label.end - start >= VALUE_CHARACTERS:
        return None
    lower_case = not re.search(r"[A-Z]", text.replace("I", ""))
    allows_state = is_request or not _CONDITIONS.isdisjoint(target.key.words)
    if not _is_label(target, name, words, lower_case=lower_case, is_request=allows_state):
        return None
    certain = name[:1].isupper() or bool(re.search(r"\d", words[0])) or _is_attribute(target) or name != phrase
    doubted = not label.is_whole or (target.shape == "name" and name[:1].isupper() and not is_one_name(name))
    return ValueMatch(start, extend_to_stop(text, start, end), certain=certain and not doubted, doubted=doubted)


_ARTICLE = compile_late(r"[\s\"'“‘`*]*(?:(?:the|a|an|(?:The|A|An)(?=\s[a-z]))\s(?=\S))?[\"'“‘`]?")
_QUOTED = compile_late(r"[\"“](?P<inner>[^\"“”\n]{1,80})[\"”](?=[\s.,;!?)]|$)")
_POSITIONS = word_set("first second third fourth fifth last latter former other same next previous")
"""Words that refer to one of several things and name none."""
_NAME_PARTS = word_set("name number ordinal code")
"""Kinds of values that may be part of any name."""


def _repeats_key(target: TargetFact, word: str) -> bool:
    return (word in {"one", "ones"} or strip_plural(word) in target.key.words) and strip_plural(word) not in target.norm


def _strip_key(target: TargetFact, phrase: str) -> str:
    """Remove words of the key from the end of a phrase: `Premium` of `Premium plan`, where the key is `plan`."""
    words = phrase.split()
    while len(words) > 1 and words[-1][:1].islower() and _repeats_key(target, words[-1]):
        words.pop()
    if len(words) == len(phrase.split()):
        return phrase
    return phrase[: len(phrase) - len(phrase.split(maxsplit=len(words))[-1])].rstrip(_TRIM)


def _is_label(target: TargetFact, phrase: str, words: list[str], *, lower_case: bool, is_request: bool) -> bool:
    first = words[0].lower().strip(_TRIM)
    if len(words) == 1 and first in _POSITIONS:
        return False
    has_article = words[0] == "The" and len(words) > 1
    if (first in _FUNCTION or first in _FILLERS) and not has_article:
        return False
    if (phrase[:1].isupper() and _OWNED.search(words[0])) or (
        "'s " in phrase and "'s " not in target.text and not is_one_name(phrase)
    ):
        return False
    if not is_request and (
        (first in _STATES and not (phrase[:1].isupper() and len(words) > 1))
        or (words[-1].lower() in _STATES and not phrase[:1].isupper())
    ):
        return False
    if any(word.lower() in {"i", "you", "me", "is", "was", "very", "really", "too", "so"} for word in words):
        return False
    is_person = target.shape == "name" and _GIVEN_NAME.fullmatch(phrase) and _DATED.isdisjoint(target.key.words)
    mentions = [] if is_person else find_mentions(phrase)
    kinds = {mention.kind for mention in mentions} - _NAME_PARTS
    if kinds != {mention.kind for mention in target.inner} - _NAME_PARTS or (
        kinds and len(mentions) < len(target.inner)
    ):
        return False  # such as a day without its time
    if re.search(r"\d", words[0]) and not re.search(r"\d", target.text):
        return False
    if phrase[:1].isupper() or re.search(r"\d", words[0]):
        if _DEMONYM.fullmatch(words[0]) is None or _GIVEN_IAN.fullmatch(words[0]) is not None:
            return True
        may_be_attribute = len(words) > 1 or is_request or _is_attribute(target)
        return _PERSONS.isdisjoint(target.key.words) and may_be_attribute
    if not is_request and _PARTICIPLE.fullmatch(first) and not _PARTICIPLE.search(target.text.lower()):
        return False
    if target.shape == "name":
        return lower_case and len(words) <= SHORT_LABEL and _may_be_name(target)
    return len(words) <= max(SHORT_LABEL + 2 * ("," in phrase and "," in target.text), len(target.text.split()))


def is_no_value(phrase: str) -> bool:
    """Whether a phrase begins with a word for a state or an activity, and is no value."""
    first = phrase.lower().split()[:1]
    return not first or any(first[0] in words for words in (_STATES, _FUNCTION, _FILLERS, _ERRAND_WORDS))


_ERRAND_WORDS = word_set(
    "leave leaving go going make making set setting get getting find finding book booking change changing feel be "
    "become reservation date time area reference number phone appointment doctor departing arriving earlier later "
    "cancel pick drop return start play"
)
"""Words that are often where a value is expected, in requests about errands."""
_NAME_KEYS = word_set(
    "name city town country employer company surname hotel brand university college school bank gym club team"
)


def _may_be_name(target: TargetFact) -> bool:
    """Whether a name in lower case fits a fact, in a text without capitals."""
    return _is_attribute(target) or not _NAME_KEYS.isdisjoint(target.key.words)


def _is_attribute(target: TargetFact) -> bool:
    return not _ATTRIBUTES.isdisjoint(target.key.words)


# The end of a phrase

ITEM_WORDS = 3
"""The most words of an item in a list, or of a remark in brackets that belongs to a name."""
_LABEL_END = compile_late(
    r"(?:[,;!?\n()]|[\u2600-\u27bf\U0001f300-\U0001faff]|\.(?=\s|$)|\s[\w.]{1,30}\s?=|\s[-–—]+\s|:\s|[\"”’']?(?:\s|"
    r"^)(?:instead|now|please|pls|plz|because|since|as of|from now|from here|but|then|so|rather|going forward|"
    r"effective|if|when|where|which|who|that|thanks|thx|thank|cheers|lol|lmao|haha+|jk|again|today|after all|for me|"
    r"for us|too|as well|this time|not|no longer|any ?more|while|until|before|after|ok|okay|right|yet|already|"
    r"these days|nowadays|sounds?|works?|looks?|from|at|on|in|with|by|per|anyway|though|tho|btw|and (?:i|we|you|he|she|"
    r"they|it|the|my|our|please|can|could|would|let|also|then|not|that|have|make|send|tell|update|change|move|set|"
    r"cancel|build|book|add|remove|give|get|see|check|keep|use|put|is|are|was|will|should)|is|are|was|were|has|have|"
    r"had|will|would|should|could|can|to|for|as|or|I|i|you|we|he|she|they|it|my|your|our|their|his|her|once more|"
    r"once again|last|yesterday|tomorrow|tonight|this|due to|thanks to|owing to|starting|for good|permanently|"
    r"henceforth|onwards?|unless|except|except for|apart from|courtesy of|following|given|nobody|everyone|its|it's|"
    r"that's|i'm|we're)(?=\s|[,;.!?]|$))"
)
_AND_END = compile_late(r"\sand\s", re.IGNORECASE)
_SUFFIX = compile_late(
    r",\s(?:Inc|Ltd|LLC|LLP|Corp|Co|PLC|plc|GmbH|S\.A|M\.D|MD|Ph\.D|PhD|Jr|Sr|Esq|MBA|MSc|DDS|RN|QC|KC|MP)\b\.?"
)
"""Parts of a name behind a comma."""
_BRACKETS = compile_late(r"\s?\((?P<inner>[^()\n]{1,30})\)")
_ITEM = compile_late(r",\s(?P<item>[^,;.!?\n()]{1,40})(?=[,;.!?\n)]|$)")
_LEADS_ON = compile_late(
    r"\s(?:at|on|in|by|with|for)\s(?:the\s)?(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|January|February|March|April|"
    r"May|June|July|August|September|October|November|December|I\b)[A-Z]|\s(?:or|to)\s"
)
"""A continuation that may be part of a name: `Bar at the Park`."""
_NAME_GOES_ON = compile_late(
    r",\s(?:the\s)?(?!(?:Thanks|Thank|Please|Cheers|Not|Inc|No)\b)[A-Z\d][\w'-]{0,20}(?:\s(?:&|and|of|the|"
    r"[A-Z\d][\w'-]{0,20})){0,4}\s?(?:[.;!?\n]|$)"
)
"""Only a name or a number behind a comma: it may be part of the name, as in `Earth, Wind & Fire`."""
_LINKS = word_set("at on in with by for to from")
"""Prepositions that end a phrase, unless the old value has the same one."""
_IN_NAMES = word_set(
    "of the and de la le di del du von van der den dem da do dos am an im in on upon by sur zu y e & al bin ibn"
)
"""Words in lower case inside names."""


class LabelSpan(NamedTuple):
    """The end of a phrase in a text, and whether the phrase certainly ends there."""

    end: int
    is_whole: bool


def find_label(text: str, start: int, limit: int, old: str) -> LabelSpan:
    """Find the end of the phrase that begins at a position. `old` is the old value."""
    at = start
    while (stop := _LABEL_END.search(text, at, limit)) is not None:
        next_at = _find_continuation(text, start, stop, old)
        if not next_at:
            break
        at = next_at
    end = stop.start() if stop else limit
    end -= 4 * text[start:end].lower().endswith(" and")
    conjunction = _AND_END.search(text, start, end)
    if conjunction and " and " not in old.lower() and "," not in old:
        behind = text[conjunction.end() : conjunction.end() + 1]
        end = conjunction.start() if not (behind.isupper() and text[start : start + 1].isupper()) else end
    is_whole = not (_LEADS_ON.match(text, end) and text[start : start + 1].isupper()) and text[end : end + 4] != " or "
    is_whole = is_whole and not (text[start : start + 1].isupper() and _NAME_GOES_ON.match(text, end))
    is_whole = is_whole and not ("," in old and text[end : end + 2] == ", " and "," not in text[start:end])
    return LabelSpan(end, is_whole)


def _find_continuation(text: str, start: int, stop: re.Match[str], old: str) -> int:
    """Where to continue the search for the end of a phrase; 0 if it ends here."""
    at = stop.start()
    mark = stop[0][:1]
    if mark == ".":
        return 0 if ends_sentence(text, at) else stop.end()
    if mark == ",":
        suffix = _SUFFIX.match(text, at)
        if suffix is not None:
            return suffix.end() - suffix[0].endswith(".") if _is_closing(text, suffix.end()) else suffix.end()
        item = _ITEM.match(text, at) if "," in old and "," not in text[start:at] else None
        return item.end() if item and _is_item(item["item"]) else 0
    word = stop[0].strip().lower()
    if word in _LINKS and f" {word} " in old.lower() and f" {word} " not in text[start:at].lower():
        return stop.end()
    if mark == "(":
        brackets = _BRACKETS.match(text, at)
        return brackets.end() if brackets and _is_item(brackets["inner"]) and _is_closing(text, brackets.end()) else 0
    return 0


def _is_closing(text: str, at: int) -> bool:
    return re.match(r"\s*(?:[,;.!?]|$)", text[at : at + 20]) is not None


def _is_item(item: str) -> bool:
    words = item.lower().split()
    return len(words) <= ITEM_WORDS and not any(word in STOP - {"no", "one", "a", "an"} for word in words)


def extend_to_stop(text: str, start: int, end: int) -> int:
    """The end of a phrase, with a full stop or a bracket that belongs to it."""
    if text[end : end + 1] == "." and is_abbreviated(text, end):
        return end + 1
    return end + (text[end : end + 1] == ")" and "(" in text[start:end])


def is_one_name(phrase: str) -> bool:
    """Whether all words are part of a name: `AWS once more` has others."""
    return all(word[:1].isupper() or not word[:1].isalpha() or word in _IN_NAMES for word in phrase.split())
