"""Words, sentences and the words of a key.

Every repetition is bounded, so the time is linear in the length of the text. The full stop of an abbreviation ends no
sentence: `Dr. Reyes`, `St. Mary's`, `Müller & Co. KG`, `A. J. Vandenberg`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

SENTENCE_CHARACTERS = 500
"""A longer sentence is split."""
KEY_CHARACTERS = 200
_WORD = re.compile(r"[^\W_]+(?:[-'’.&][^\W_]+)*")
_SENTENCE = re.compile(r"[.!?;\n]+(?=\s|$)|\n|\s[-–—]+\s")
KEY_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")
"""One word of a key, in snake case or camel case."""
KEY_SEPARATOR = re.compile(r"[./:]")
"""Between the domain of a key and its last part."""
_POSSESSIVE = re.compile(r"(?<=\w)['’]s?(?!\w)")


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP = word_set(
    "a about an and any are as at be been but by can could did do does for from had has have he her his how i i'd "
    "i'll i'm if in is it it's its just let let's like make may me my need no not now of on one or our out please "
    "she should so some than that that's the their them then there they this to too up us want was we we'd we'll "
    "we're were what when where which who will with would yes you your"
)
"""Words without a subject of their own. `relevance` has another list, for queries."""
GENERIC = word_set(
    "approved at base by corrected count current derived details fact final for global id in info is item key last "
    "latest name new no number of official on original planned preferred primary requested selected shared stated "
    "status the total type v value version"
)
"""Words of a key that do not say what the key is about."""
FILLING = word_set(
    "other another same different more any some all else new type kind sort find search check look show get book "
    "give tell try see please one ones something anything options option good nice great okay ok first next last "
    "later same only available possible also still again there here it me i need going go price range instead "
    "actually rather right now then today tomorrow just maybe tonight"
)
"""Words that are never a value, even where a value is expected."""
_SYNONYM_GROUPS = (
    "plan approach strategy implementation direction",
    "vendor supplier contractor provider partner",
    "location place venue address site room office destination",
    "date day deadline due schedule timeline",
    "time hour schedule",
    "price cost rate fee pricing",
    "quantity amount number count size",
    "owner lead manager assignee contact",
    "budget funds funding allocation",
    "meeting call appointment demo",
    "team staff headcount",
    "policy rule decision",
    "design layout theme style",
    "launch release rollout",
)
"""Words of keys that people use with the same meaning."""
SYNONYMS = {
    word: frozenset[str]().union(*(group.split() for group in _SYNONYM_GROUPS if word in group.split()))
    for word in " ".join(_SYNONYM_GROUPS).split()
}
RELATIVES = (
    r"(?:mother|father|mom|dad|mum|mam|sister|brother|wife|husband|son|daughter|friend|colleague|boss|parent|coworker|"
    r"neighbou?r|aunt|uncle|cousin|client|customer|kid|roommate|partner|girlfriend|boyfriend|gf|bf|flatmate|nephew|"
    r"niece|grandma|grandpa|teammate|manager|landlord|assistant|teacher|doctor|fianc[eé]e?|ex)"
)
"""People whose things are not the speaker's, as a pattern."""


class Word(msgspec.Struct, frozen=True):
    """A word of a text, with its characters."""

    start: int
    end: int
    lower: str
    stem: str


class Sentence(msgspec.Struct, frozen=True):
    """The characters of a sentence, with its punctuation."""

    start: int
    end: int
    is_question: bool


class KeyWords(msgspec.Struct, frozen=True):
    """The words of a key: `Restaurants_2.party_size` has the words party and size, in the domain of restaurants."""

    domain: tuple[str, ...]
    words: tuple[str, ...]
    specific: tuple[str, ...]
    """The words without the generic ones."""


def strip_plural(word: str) -> str:
    """Remove the ending of a plural or a possessive: `tickets` becomes `ticket`.

    Values and keys are compared by it. `stems` removes all endings, and serves the search index."""
    word = word.lower().replace("’", "'")
    for ending in ("'s", "s'"):
        word = word.removesuffix(ending)
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def find_words(text: str) -> list[Word]:
    return [
        Word(match.start(), match.end(), (lower := match[0].lower()), strip_plural(lower))
        for match in _WORD.finditer(text)
    ]


def content_stems(words: Sequence[Word]) -> list[str]:
    """The stems of the words that say what a text is about."""
    return [word.stem for word in words if word.lower not in STOP and not word.lower.isdigit()]


def read_key(key: str) -> KeyWords:
    *domain, name = KEY_SEPARATOR.split(key[:KEY_CHARACTERS])
    words = _split_key_words(name)
    specific = tuple(word for word in words if word not in GENERIC)
    return KeyWords(_split_key_words(" ".join(domain)), words, specific)


def _split_key_words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(strip_plural(part) for part in KEY_PART.findall(_POSSESSIVE.sub("", text))))


_GAP = "\n;\n"
"""Replaces the omitted middle of a text: no word, value or sentence crosses it."""
_CUT_END, _CUT_START = re.compile(r"(?<=\s)\S{1,60}\Z"), re.compile(r"\A\S{1,60}(?=\s)")


def cut_excerpt(text: str, first: int, last: int) -> tuple[str, int, int]:
    """Shorten a text to its first and last characters, without partial words.

    Returns the excerpt, where its second part begins, and how far that part was moved."""
    if len(text) <= first + last:
        return text, len(text), 0
    head = text[:first] if text[first].isspace() else _CUT_END.sub("", text[:first])
    tail = text[len(text) - last :] if last else ""
    tail = tail if text[len(text) - last - 1].isspace() else _CUT_START.sub("", tail)
    tail_start = len(head) + len(_GAP)
    return head + _GAP + tail, tail_start, len(text) - len(tail) - tail_start


def split_sentences(text: str) -> list[Sentence]:
    sentences: list[Sentence] = []
    start = 0
    for mark in _SENTENCE.finditer(text):
        if mark[0] == "." and not ends_sentence(text, mark.start()):
            continue
        sentences += _split_long(text, start, mark.end(), question="?" in mark[0])
        start = mark.end()
    return sentences + _split_long(text, start, len(text), question=False)


def _split_long(text: str, start: int, end: int, *, question: bool) -> list[Sentence]:
    """One sentence, or several parts of a long one."""
    starts = range(start, end, SENTENCE_CHARACTERS)
    parts = [(at, min(at + SENTENCE_CHARACTERS, end)) for at in starts]
    return [Sentence(low, high, question) for low, high in parts if not text[low:high].isspace()]


_TOKEN_CHARACTERS = 12
"""The longest abbreviation."""
_BEFORE_NAME = re.compile(
    r"dr|mr|mrs|ms|mx|prof|st|ste|mt|ft|rev|hon|capt|cpt|lt|col|gen|sgt|sr|sra|fr|br|ing|dipl|mag|vs|dept|univ|mme|mlle"
)
"""Abbreviations with a name behind them."""
_BEFORE_NUMBER = re.compile(r"no|nr|tel|ext|approx|fig|vol|ca|pp?")
_BEHIND_NAME = re.compile(
    r"inc|ltd|co|corp|bros|jr|sr|rd|ave|blvd|ln|sq|hwy|pl|str|est|etc|p\.m|a\.m|ph\.d|m\.d|u\.s|u\.k|u\.s\.a|e\.g|i\.e|b\.sc|"
    r"m\.sc|b\.a|m\.a|s\.a|s\.p\.a|a\.g|e\.v|d\.c|hrs|hr|mon|tues?|wed|thur?s?|fri|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
"""Abbreviations at the end of a name or an amount: a new sentence may follow."""
_TOKEN = re.compile(r"(?<![\w.])[^\W\d_]+(?:\.[^\W\d_]+)*$")
_LEGAL_FORM = re.compile(r"\s(?:KG|KGaA|OHG|Ltd|Inc|LLC|LLP|PLC|plc|Pty|SA|AG|GmbH)\b")
_INITIAL_BEFORE = re.compile(
    r"(?:^|[\s.(])(?:(?:[A-Z]|[Dd]r|[Mm]rs?|[Mm]s|[Pp]rof)\.|[A-Z][a-z]+|is|are|be|by|to|with|called|now|as)\s?$"
)
_NAME_BEHIND = re.compile(r"\s?[A-Z](?:\.|[\w'-]+)")
_OPENER = re.compile(
    r"\s(?:Please|Can|Could|The|My|Our|It|This|That|I|We|You|Thanks|And|But|So|If|What|When|Then|Also|No|Not|Yes|Is|"
    r"Are|They|He|She|There|Just|Let)\b"
)


def ends_sentence(text: str, at: int) -> bool:
    """Whether the full stop at a position ends a sentence and does not belong to an abbreviation."""
    token = _TOKEN.search(text[max(0, at - _TOKEN_CHARACTERS) : at])
    if token is None:
        return True
    word = token[0].lower()
    if re.match(r"\s*$", text[at + 1 : at + 3]) and at + 3 >= len(text):
        return True
    behind = text[at + 1 : at + 1 + 2 * _TOKEN_CHARACTERS]
    if _BEFORE_NUMBER.fullmatch(word):
        return re.match(r"\s?#?\d", behind) is None
    if _BEFORE_NAME.fullmatch(word):
        return re.match(r"\s[\w\"'(]", behind) is None or _OPENER.match(behind) is not None
    if _BEHIND_NAME.fullmatch(word):
        begins_word = re.match(r"\s+[^\W\d_]", behind) is not None
        return begins_word and behind.lstrip()[:1].isupper() and _LEGAL_FORM.match(behind) is None
    if len(word) == 1 and token[0].isupper():
        ahead = text[max(0, at - 1 - 2 * _TOKEN_CHARACTERS) : at - 1]
        if re.match(r"\s?[A-Z]\.", behind):
            return False
        precedes_name = _NAME_BEHIND.match(behind) is not None and _OPENER.match(behind) is None
        return not (precedes_name and _INITIAL_BEFORE.search(ahead))
    return True


def is_abbreviated(text: str, at: int) -> bool:
    """Whether the full stop at a position belongs to the word before it, even if it also ends a sentence."""
    token = _TOKEN.search(text[max(0, at - _TOKEN_CHARACTERS) : at])
    word = token[0].lower() if token else ""
    return word != "st" and (_BEHIND_NAME.fullmatch(word) or _BEFORE_NAME.fullmatch(word)) is not None
