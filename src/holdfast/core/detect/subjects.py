"""Which fact a phrase names: `my shipping address`, `the meeting`. Whose it is, and whether it is another thing of the "
"kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.detect.words import GENERIC, KIN_WORDS, STOP, Word, word_set

if TYPE_CHECKING:
    from holdfast.core.detect.reading import Held, Reading

PHRASE_WORDS = 5
"""Before the word that names a fact, in the same phrase."""
FIRST_PHRASES, LAST_PHRASES = 24, 12
"""Phrases of a text that are looked at: the first ones and the last ones."""
MEANT = 3
"""Facts that one phrase may name, the likeliest ones."""
TYPO_WORDS = 80
"""Words of a text that are looked at for slips of the pen, the first ones."""
TYPO_LETTERS = 5
LONG_WORD = 8
"""A word of so many letters may have two slips."""

_ALIASES: dict[str, frozenset[str]] = {
    "phone": word_set("mobile cell telephone cellphone number"),
    "mobile": word_set("phone cell cellphone number"),
    "email": word_set("mail e-mail"),
    "mail": word_set("email e-mail"),
    "surname": word_set("lastname"),
    "wifi": word_set("wi-fi wlan"),
    "car": word_set("vehicle"),
    "employer": word_set("workplace"),
    "manager": word_set("boss supervisor"),
    "boss": word_set("manager"),
    "birthday": word_set("birthdate"),
    "salary": word_set("pay wage"),
    "color": word_set("colour"),
    "colour": word_set("color"),
    "favorite": word_set("favourite"),
    "favourite": word_set("favorite"),
    "center": word_set("centre"),
    "organization": word_set("organisation"),
    "organizer": word_set("organiser"),
    "appointment": word_set("appt"),
    "apartment": word_set("flat"),
    "flat": word_set("apartment"),
    "url": word_set("link website"),
    "website": word_set("url site"),
    "quantity": word_set("amount"),
    "vendor": word_set("supplier"),
    "supplier": word_set("vendor"),
    "deadline": word_set("due"),
    "price": word_set("cost"),
    "cost": word_set("price"),
    "plan": word_set("subscription"),
    "hotel": word_set("accommodation"),
}
"""Words that people use for a word of a key, whatever it is of."""
_OWN = word_set("my our")
_ASKED_FOR = word_set("your which what")
"""How the other side speaks of the user's things."""
_PLAIN_DETERMINERS = word_set("the this that a an")
_OTHERS = word_set(
    "his her their your its whose someone's somebody's everyone's another other others any every each which what no "
    "these those"
)
_PLAIN = word_set(
    "new current updated revised final official actual correct right real overall total whole entire full exact own "
    "present "
    "latest main primary preferred usual default regular proper personal true precise said following maximum minimum "
    "max min "
    "team company project planned agreed scheduled fixed monthly annual yearly weekly daily"
)
"""Words before a key's that do not make it another thing."""
_NEUTRAL = word_set(
    "new current updated revised final official actual correct right real exact own present latest proper true said"
)
_NOT_IN_PHRASE = word_set(
    "and or but so because if when while than to from of in on at for with by as into about is are was were be been "
    "being am "
    "has have had do does did will would should could can may might must i you he she it we they me him us them not no "
    "yes "
    "please pls plz change update set move switch push shift reschedule make put cancel scrap drop delete remove edit "
    "fix correct "
    "adjust raise lower increase reduce cut use call book need want like keep leave assign give forget rename reset "
    "revert bump "
    "postpone extend shorten changed updated moved switched pushed shifted rescheduled made cancelled canceled dropped "
    "deleted "
    "removed edited fixed corrected adjusted raised lowered increased reduced assigned gave renamed bumped postponed "
    "extended "
    "lost replaced swapped sold got bought changing updating moving switching cancelling also now then that's it's "
    "here's there "
    "just only actually hey hi hello ok okay well since until all both still back says said thinks insists told tell "
    "know let "
    "replace swap ditch bin kill skip scratch booked wants prefer prefers love hate check confirm amend modify alter "
    "bring hold "
    "schedule book rebook restore upgrade downgrade save store record register note remember take out re regarding "
    "concerning "
    "chnage udpate chagne upate updte cahnge"
)
_KIN_OWNER = re.compile(KIN_WORDS + r"s", re.IGNORECASE)
_SAME_PHRASE = re.compile(r"'?[ \t]|-|_| ?/ ?")
_BEHIND = word_set(
    "is are was were be been being will would should could can may might must shall has have had does did do isn't "
    "aren't wasn't "
    "won't needs need to from at on in for of with by as and or but so because if when while than then that which who "
    "back "
    "now again please pls instead moved moves moving changed changes changing went goes became becomes increased rose "
    "raised "
    "dropped fell got gets stays stay remains remain ends starts was's over up down into out not no any anymore too "
    "also only just "
    "today tomorrow yesterday this next last every each the a an my our it he she they we i you says said called named "
    "really "
    "actually currently officially already still however though although thanks thx role number name date time address "
    "value "
    "setting settings field entry details info code one id id's should've stands equals reads switched shifted pushed "
    "slipped "
    "jumped climbed doubled halved got's either before after until till since within without about around under between "
    "temporarily permanently always never probably maybe effective starting beginning going will've rescheduled "
    "cancelled "
    "canceled wrong right soon later there here off on"
)
"""Words that may follow a phrase, and do not make it a part of a longer one."""
_LINKS = word_set("at by for in is no of on the last new v")
_TAKES_MORE = word_set("role number name date time address value setting settings field entry details info code id")
_COUNTED = word_set(
    "number date name type amount color colour time size price cost count total day place title version"
)
"""`the number of guests` is one phrase."""
_COMPLEMENT = re.compile(
    r"\s(?P<link>of|for|on|in|at)\s(?P<det>(?:the|my|our|this|that|a|an|his|her|their|"
    r"your)\s)?(?P<rest>[\w'&-]{1,25}(?:\s[\w'&-]{1,25}){0,2}?)"
    r"(?=\s(?:is|are|was|has|will|should|to|from|moved|changed|went|now|back)\b|:(?!\d)|'s\b|[.,;!?]|\s*$)",
    re.IGNORECASE,
)
_OWN_COMPLEMENT = word_set(
    "me us myself this it that file record records profile account order delivery booking trip project event system now "
    "here "
    "everything contract all calendar app schedule today"
)


class Subject(msgspec.Struct, frozen=True):
    """A phrase in the text that names a fact."""

    held: Held
    start: int
    """With the article."""
    end: int
    share: float
    """How much of the key it names."""
    words: int
    head: bool
    """Whether it names what the key is one of: `address` of a shipping address."""
    foreign: bool
    """It is somebody else's, or another thing of the kind."""
    own: bool
    """The speaker calls it theirs."""
    bare: bool
    """No article stands before it."""
    rivals: int = 0
    """Other facts that the phrase names as well."""


def find_subjects(held: Sequence[Held], reading: Reading) -> list[Subject]:
    """All phrases that name a fact; of the facts that one phrase names, the ones that it names best come first."""
    names = _index(held)
    places: list[int] = []
    for at, word in enumerate(reading.words):
        stem = word.stem if word.stem in names else _corrected(word, at, names)
        if stem and not _goes_on(reading, at, names):
            places.append(at)
    if len(places) > FIRST_PHRASES + LAST_PHRASES:
        places = places[:FIRST_PHRASES] + places[-LAST_PHRASES:]
    return [each for at in places for each in islice(_named(reading, at, names), MEANT)]


def _index(facts: Sequence[Held]) -> dict[str, list[tuple[Held, str]]]:
    """The words that may name a fact, with the fact and the word of its key."""
    names: dict[str, list[tuple[Held, str]]] = {}
    for held in facts:
        keyed = _words_of(held)
        for own in keyed:
            for word in (own, *_ALIASES.get(own, ())):
                names.setdefault(word, []).append((held, own))
        for count in range(2, len(held.key.own) + 1):
            for at in range(len(held.key.own) - count + 1):
                run = held.key.own[at : at + count]
                for joined in ("-".join(run), "".join(run)):
                    names.setdefault(joined, []).extend((held, word) for word in run if word in keyed)
    return names


def _words_of(held: Held) -> tuple[str, ...]:
    return tuple(word for word in held.key.telling if word not in STOP) or held.key.own


def _corrected(word: Word, at: int, names: dict[str, list[tuple[Held, str]]]) -> str:
    """The word of a key that was meant by one with a slip in it."""
    lower = word.lower
    if at >= TYPO_WORDS or len(lower) < TYPO_LETTERS or not lower.isalpha():
        return ""
    for name in names:
        slips = 2 if len(name) >= LONG_WORD else 1
        alike = len(name) >= TYPO_LETTERS and name[0] == lower[0] and abs(len(name) - len(lower)) <= slips
        if alike and _distance(name, lower, slips) <= slips:
            return name
    return ""


def _distance(one: str, other: str, most: int) -> int:
    """How many letters were added, left out, mistaken or swapped."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, earlier[j - 2] + 1)
            row.append(best)
        if min(row) > most:
            return most + 1
    return row[-1]


def _goes_on(reading: Reading, at: int, names: dict[str, list[tuple[Held, str]]]) -> bool:
    """Whether the phrase goes on behind this word, so that this is not its last word."""
    if at + 1 >= len(reading.words):
        return False
    word, following = reading.words[at], reading.words[at + 1]
    if not _SAME_PHRASE.fullmatch(reading.text[word.end : following.start]):
        return False
    return following.stem in names or bool(_corrected(following, at + 1, names))


def _named(reading: Reading, at: int, names: dict[str, list[tuple[Held, str]]]) -> Iterator[Subject]:
    first, owner, own, bare = _phrase_start(reading, at)
    last = at
    words = reading.words
    tail = ""
    if at + 1 < len(words) and _SAME_PHRASE.fullmatch(reading.text[words[at].end : words[at + 1].start]):
        tail = words[at + 1].lower
        if words[at + 1].stem in _TAKES_MORE or words[at + 1].stem in GENERIC - STOP - _LINKS:
            last = at + 1
    compound = bool(tail) and last == at and tail[0].isalpha() and tail not in _BEHIND
    compound = compound and not _is_value(reading, words[at + 1].start)
    end = words[last].end - (2 if words[last].lower.endswith("'s") else 0)
    inner = words[first : last + 1]
    complement = _COMPLEMENT.match(reading.text, end)
    extra: list[str] = []
    foreign_complement = False
    if complement is not None:
        extra = [part.lower().removesuffix("'s") for part in complement["rest"].split()]
        end = complement.end()
    told = [(_corrected(each, 0, names) if each.stem not in names else each.stem) or each.stem for each in inner]
    subjects: list[Subject] = []
    for held in dict.fromkeys(held for word in told for held, _ in names.get(word, ())):
        keyed = _words_of(held)
        meant = {own_word for word in (*told, *extra) for each, own_word in names.get(word, ()) if each is held}
        if complement is not None:
            spare = [
                word for word in extra if word not in meant and word not in held.key.own and word not in _OWN_COMPLEMENT
            ]
            foreign_complement = bool(spare) and (
                complement["link"].lower() in {"of", "for", "at", "in"}
                and not any(each.start == complement.start("rest") for each in reading.mentions)
            )
        modifiers = [
            word
            for each, word in zip(inner, told, strict=True)
            if word not in meant
            and not any(own_word in meant for other, own_word in names.get(word, ()) if other is held)
            and each.lower not in _NEUTRAL
            and each.lower not in held.key.own
            and each.lower not in held.key.domain
            and each.stem not in _TAKES_MORE
            and each.stem not in held.norms
            and each.stem not in _COUNTED
            and each.lower != "of"
            and not (each.lower in _PLAIN and each.lower not in names)
        ]
        possessor = owner and owner not in {*held.key.own, *held.key.domain}
        subjects.append(
            Subject(
                held,
                words[first].start if bare else words[first - 1].start,
                end,
                share=len(meant) / len(keyed),
                words=len(meant),
                head=keyed[-1] in meant,
                foreign=bool(modifiers) or bool(possessor) or foreign_complement or compound,
                own=own,
                bare=bare,
            )
        )
    subjects.sort(key=lambda each: (-each.share, not each.head, -each.words))
    for each in subjects:
        rank = (each.share, each.head, each.words)
        alike = [one for one in subjects if one is not each and (one.share, one.head, one.words) == rank]
        yield msgspec.structs.replace(each, rivals=len(alike))


def _phrase_start(reading: Reading, at: int) -> tuple[int, str, bool, bool]:
    """The first word of a phrase, whose it is, whether it is the speaker's, and whether no article stands before it."""
    words = reading.words
    first = at
    owner = ""
    while first > 0 and at - first < PHRASE_WORDS:
        before = words[first - 1]
        if not _SAME_PHRASE.fullmatch(reading.text[before.end : words[first].start]):
            break
        lower = before.lower
        if lower in _ASKED_FOR and reading.said.role == "assistant":
            return first, owner, True, False
        if lower in _OWN or lower in _PLAIN_DETERMINERS:
            return first, owner, lower in _OWN, False
        if lower in _OTHERS:
            return first, owner or lower, False, False
        if lower.endswith(("'s", "s'")) or reading.text[before.end : before.end + 1] == "'":
            owner = before.stem
        elif _KIN_OWNER.fullmatch(lower):
            owner = lower
        elif lower == "of" and first > 1 and words[first - 2].stem in _COUNTED:
            first -= 1
        elif lower in _NOT_IN_PHRASE or lower[0].isdigit():
            break
        first -= 1
    return first, owner, False, True


def _is_value(reading: Reading, start: int) -> bool:
    """Whether a value of some kind begins there."""
    return (
        any(each.start == start for each in reading.mentions)
        or reading.text[start : start + 1].isupper()
        or (reading.text[start : start + 1].isdigit())
    )
