"""Words, sentences and the words of a key. All that is read is bounded here, so no text can keep a reader busy for "
"long."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

READ_CHARACTERS = 6_000
LAST_CHARACTERS = 2_000
"""Of the message observed, from its beginning and from its end, where it is set right; what stands between them changes
nothing."""
BEFORE_MESSAGES = 8
BEFORE_CHARACTERS = 1_500
"""Of each message before."""
SENTENCE_CHARACTERS = 500
"""A longer one is read in parts."""
FACTS = 200
"""Candidates that are looked at, the first ones."""
VALUE_CHARACTERS = 400
"""Of a candidate's text; a longer value is a document, which no sentence replaces."""
KEY_CHARACTERS = 200

_WORD = re.compile(r"[^\W_]+(?:[-'’.&][^\W_]+)*")
_SENTENCE = re.compile(r"[.!?;\n]+(?=\s|$)|\n|\s[-–—]+\s")
_KEY_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")
_DOMAIN = re.compile(r"[./:]")


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP = word_set(
    "a about an and any are as at be been but by can could did do does for from had has have he her his how i i'd "
    "i'll i'm if in is it it's its just let let's like make may me my need no not now of on one or our out please "
    "she should so some than that that's the their them then there they this to too up us want was we we'd we'll "
    "we're were what when where which who will with would yes you your"
)
"""Words that say nothing of what a sentence is about."""

GENERIC = word_set(
    "approved at base by corrected count current derived details fact final for global id in info is item key last "
    "latest name new no number of official on original planned preferred primary requested selected shared stated "
    "status the total type v value version"
)
"""Words of a key that say what sort of value it holds, or nothing, but not what it is about."""


FILLING = word_set(
    "other another same different more any some all else new type kind sort find search check look show get book "
    "give tell try see please one ones something anything options option good nice great okay ok first next last "
    "later same only available possible also still again there here it me i need going go price range instead "
    "actually rather right now then today tomorrow just maybe tonight"
)
"""Words that are never a value, though they may stand in its place."""


_SAME = (
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
"""Words of keys that people use for one another."""
KIN: dict[str, frozenset[str]] = {}
for _group in _SAME:
    for _word in word_set(_group):
        KIN[_word] = KIN.get(_word, frozenset()) | word_set(_group)


KIN_WORDS = (
    r"(?:mother|father|mom|dad|mum|mam|sister|brother|wife|husband|son|daughter|friend|colleague|boss|parent|coworker|"
    r"neighbou?r|aunt|"
    r"uncle|cousin|client|customer|kid|roommate|partner|girlfriend|boyfriend|gf|bf|flatmate|nephew|niece|grandma|grandpa|"
    r"teammate|manager|landlord|assistant|teacher|doctor|fianc[eé]e?|ex)"
)
"""People whose things are not the speaker's: a pattern."""


class Word(msgspec.Struct, frozen=True):
    """A word of a text, as it stands there and as it is compared."""

    start: int
    end: int
    lower: str
    stem: str


class Sentence(msgspec.Struct, frozen=True):
    start: int
    end: int
    question: bool


class Key(msgspec.Struct, frozen=True):
    """A key taken apart: `Restaurants_2.party_size` is about party and size, in the domain of restaurants."""

    domain: tuple[str, ...]
    own: tuple[str, ...]
    telling: tuple[str, ...]
    """What says which thing it is, as no word that any key may have."""


def stem(word: str) -> str:
    """Without what makes it a plural or a possessive; enough to see that `tickets` are of the same kind as a `ticket`."""
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


def words(text: str) -> list[Word]:
    return [Word(found.start(), found.end(), (at := found[0].lower()), stem(at)) for found in _WORD.finditer(text)]


_GAP = "\n;\n"
"""It stands where something was left out: no word, value or sentence goes across."""
_CUT_END, _CUT_START = re.compile(r"(?<=\s)\S{1,60}\Z"), re.compile(r"\A\S{1,60}(?=\s)")


def excerpt(text: str, first: int, last: int) -> tuple[str, int, int]:
    """The beginning of a text and its end, without the words that were cut; where the end begins in the excerpt, and how
    much further on it stands in the text."""
    if len(text) <= first + last:
        return text, len(text), 0
    head = text[:first] if text[first].isspace() else _CUT_END.sub("", text[:first])
    rest = text[len(text) - last :] if last else ""
    rest = rest if text[len(text) - last - 1].isspace() else _CUT_START.sub("", rest)
    begins = len(head) + len(_GAP)
    return head + _GAP + rest, begins, len(text) - len(rest) - begins


def sentences(text: str) -> list[Sentence]:
    """Where each begins and ends, its mark included."""
    found: list[Sentence] = []
    start = 0
    for mark in _SENTENCE.finditer(text):
        found += _cut(text, start, mark.end(), question="?" in mark[0])
        start = mark.end()
    return found + _cut(text, start, len(text), question=False)


def _cut(text: str, start: int, end: int, *, question: bool) -> list[Sentence]:
    """A sentence, or what would be one if it were not so long: then it counts as several."""
    starts = range(start, end, SENTENCE_CHARACTERS)
    parts = [(at, min(at + SENTENCE_CHARACTERS, end)) for at in starts]
    return [Sentence(low, high, question) for low, high in parts if not text[low:high].isspace()]


def key_of(key: str) -> Key:
    key = key[:KEY_CHARACTERS]
    *domain, own = _DOMAIN.split(key)
    parts = _parts(own)
    return Key(_parts(" ".join(domain)), parts, tuple(word for word in parts if word not in GENERIC))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stem(part) for part in _KEY_PART.findall(text)))


def content(found: Sequence[Word]) -> list[str]:
    """The stems of those that say what a text is about."""
    return [word.stem for word in found if word.lower not in STOP and not word.lower.isdigit()]
