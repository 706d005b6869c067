"""Phrases that name a fact: `my shipping address`, `the meeting`.

A phrase is foreign if it names somebody else's thing, or another thing of the same kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from holdfast.text.expressions import compile_late
from holdfast.text.words import GENERIC, RELATIVES, STOP, Word, strip_plural, word_set

if TYPE_CHECKING:
    from holdfast.text.detect.scene import MessageText, TargetFact


_KeyNames: TypeAlias = "dict[str, list[tuple[TargetFact, str]]]"
"""The words that may name a fact, each with the facts and the word of their key."""
PHRASE_WORDS = 5
"""The most words of a phrase before the word that names the fact."""
FIRST_PHRASES, LAST_PHRASES = 24, 12
"""The number of phrases that are read at the beginning and at the end of a text."""
PHRASE_TARGETS = 3
"""The number of facts that one phrase may name."""
TYPO_WORDS = 80
"""The number of words that are checked for typing errors."""
TYPO_LETTERS = 5
LONG_WORD = 8
"""From this many letters, a word may have two typing errors."""
_ALIASES = {
    word: tuple(aliases.split())
    for word, aliases in {
        "phone": "mobile cell telephone cellphone number", "mobile": "phone cell cellphone number",
        "email": "mail e-mail", "mail": "email e-mail", "surname": "lastname", "wifi": "wi-fi wlan", "car": "vehicle",
        "employer": "workplace", "manager": "boss supervisor", "boss": "manager", "birthday": "birthdate",
        "salary": "pay wage", "color": "colour", "colour": "color", "favorite": "favourite", "favourite": "favorite",
        "center": "centre", "organization": "organisation", "organizer": "organiser", "appointment": "appt",
        "apartment": "flat", "flat": "apartment", "url": "link website", "website": "url site", "quantity": "amount",
        "vendor": "supplier", "supplier": "vendor", "deadline": "due", "price": "cost", "cost": "price",
        "plan": "subscription", "hotel": "accommodation",
    }.items()
}  # fmt: skip
"""Other words for a word of a key."""
_OWN = word_set("my our")
_USER_DETERMINERS = word_set("your which what")
"""Determiners with which the assistant means the user's things."""
_PLAIN_DETERMINERS = word_set("the this that a an")
_ANOTHER = "given anew"
"""The owner of a thing that replaces the speaker's: `they gave me another seat`."""
_PRONOUNS = word_set("his her their its")
KIN_OR_PET = word_set(
    "son daughter wife husband partner mother father mom mum dad sister brother kid child baby dog cat pet horse "
    "grandma grandpa"
)
"""First words of keys that a pronoun may mean: `her name` for `dog_name`."""
_OTHERS = word_set(
    "his her their your its whose someone's somebody's everyone's another other others any every each which what no "
    "these those"
)
_PLAIN = word_set(
    "new current updated revised final official actual correct right real overall total whole entire full exact own "
    "present latest main primary preferred usual regular proper personal true precise said following team company "
    "project planned agreed scheduled fixed monthly annual yearly weekly daily"
)
"""Modifiers that do not change which thing a phrase names."""
_NEUTRAL = word_set(
    "new current updated revised final official actual correct right real exact own present latest proper true "
    "said many much"
)
_NOT_IN_PHRASE = word_set(
    "and or but so because if when while than to from of in on at for with by as into about is are was were be been "
    "being am has have had do does did will would should could can may might must i you he she it we they me him us "
    "them not no yes please pls plz change update set move switch push shift reschedule make put cancel scrap drop "
    "delete remove edit fix correct adjust raise lower increase reduce cut use call book need want like keep leave "
    "assign give forget rename reset revert bump postpone extend shorten changed updated moved switched pushed shifted "
    "rescheduled made cancelled canceled dropped deleted removed edited fixed corrected adjusted raised lowered "
    "increased reduced assigned gave renamed bumped postponed extended lost replaced swapped sold got bought changing "
    "updating moving switching cancelling also now then that's it's here's there just only actually hey hi hello ok "
    "okay well since until all both still back says said thinks insists told tell know let replace swap ditch bin kill "
    "skip scratch booked wants prefer prefers love hate check confirm amend modify alter bring hold schedule book "
    "rebook restore upgrade downgrade save store record register note remember take out re regarding concerning how "
    "when where why elected appointed named fyi btw bruh bro dude guys folks omg lol hmm um uh oh hey yo psst anyway "
    "stays remains morning evening chnage udpate chagne upate updte cahnge"
)
_KIN_OWNER = compile_late(RELATIVES + r"s", re.IGNORECASE)
_REPLACEMENT = compile_late(
    r"(?:\b(?:gave|given|assigned|issued|sent)\s(?:me|us)|\b(?:i|we)(?:'ve)?\s(?:got|have|received))\s(?:an?\s)?$",
    re.IGNORECASE,
)
"""Before `another` thing that replaces the speaker's."""
_THERE_IS = compile_late(r"\bthere(?:'s|\sis|\sare)\s$", re.IGNORECASE)
_SAME_PHRASE = compile_late(r"'?[ \t]|-|_| ?/ ?")
_BEHIND = word_set(
    "is are was were be been being will would should could can may might must shall has have had does did do isn't "
    "aren't wasn't won't isnt arent wasnt wont dont doesnt hasnt ain't needs need to from at on in for of with by as "
    "and or but so because if when while than then that which who back suits works fits sounds looks comes seems runs "
    "leaves starts ends needs uses now again please pls take takes use put pick choose make instead moved moves moving "
    "changed changes changing went goes became becomes increased rose raised dropped fell got gets stays stay remains "
    "remain ends starts was's over up down into out not no any anymore too also only just today tomorrow yesterday "
    "this next last every each the a an my our it he she they we i you says said called named really actually "
    "currently officially already still however though although thanks thx role number name date time address value "
    "setting settings field entry details info code one id id's should've stands equals reads switched shifted pushed "
    "slipped jumped climbed doubled halved got's either before after until till since within without about around "
    "under between temporarily permanently always never probably maybe effective starting beginning going will've "
    "rescheduled cancelled canceled wrong right soon later there here off on"
)
"""Words behind a phrase that do not extend it."""
_LINKS = word_set("at by for in is no of on the last new v")
_SUFFIXES = word_set("role number name date time address value setting settings field entry details info code id")
_MEASURES = word_set(
    "number date name type amount color colour time size price cost count total day place title version"
)
"""Nouns before `of` in one phrase: `the number of guests`."""
_COMPLEMENT = compile_late(
    r"\s(?P<link>of|for|on|in|at)\s(?P<det>(?:the|my|our|this|that|a|an|his|her|their|"
    r"your)\s)?(?P<rest>[\w'&-]{1,25}(?:\s[\w'&-]{1,25}){0,2}?)"
    r"(?=\s(?:is|are|was|has|will|should|to|from|moved|changed|went|now|back)\b|:(?!\d)|'s\b|[.,;!?]|\s*$)",
    re.IGNORECASE,
)
_OWN_COMPLEMENT = word_set(
    "me us myself this it that file record records profile account order delivery booking trip project event system "
    "now here everything contract all calendar app schedule today"
)


class KeyPhrase(msgspec.Struct, frozen=True):
    """A phrase in a text that names a fact."""

    target: TargetFact
    start: int
    """The start, with the article."""
    end: int
    share: float
    """The share of the key's words that it names."""
    words: int
    has_head: bool
    """Whether it names the last word of the key: `address` of a shipping address."""
    is_foreign: bool
    """Whether it names somebody else's thing, or another thing of the kind."""
    is_bare: bool
    """Whether it has no article."""
    is_joined: bool = False
    """Whether it is foreign only because of the next word, which may be a value."""
    rivals: int = 0
    """The number of other facts that it may name."""


def find_key_phrases(targets: Sequence[TargetFact], message: MessageText) -> list[KeyPhrase]:
    """Find all phrases that name a fact. Of the facts that one phrase names, the best matches come first."""
    names = _index_names(targets)
    indexes: list[int] = []
    for at, word in enumerate(message.words):
        name = word.stem if word.stem in names else _correct_typo(word, at, names)
        if name and not _continues(message, at, names):
            indexes.append(at)
    if len(indexes) > FIRST_PHRASES + LAST_PHRASES:
        indexes = indexes[:FIRST_PHRASES] + indexes[-LAST_PHRASES:]
    return [phrase for at in indexes for phrase in islice(_read_phrases(message, at, names), PHRASE_TARGETS)]


def _index_names(targets: Sequence[TargetFact]) -> _KeyNames:
    names: _KeyNames = {}
    for target in targets:
        key_words = _key_words(target)
        for key_word in key_words:
            for word in (key_word, *_ALIASES.get(key_word, ())):
                names.setdefault(word, []).append((target, key_word))
        key = strip_plural(target.candidate.key)
        if not key.isalpha() and " " not in key:
            names.setdefault(key, []).extend((target, key_word) for key_word in key_words)
        for count in range(2, len(target.key.words) + 1):
            for at in range(len(target.key.words) - count + 1):
                run = target.key.words[at : at + count]
                for compound in ("-".join(run), "".join(run)):
                    names.setdefault(compound, []).extend((target, word) for word in run if word in key_words)
    return names


def _key_words(target: TargetFact) -> tuple[str, ...]:
    return tuple(word for word in target.key.specific if word not in STOP) or target.key.words


def _correct_typo(word: Word, at: int, names: _KeyNames) -> str:
    """The name that a word with a typing error means, or an empty text."""
    lower = word.lower
    if at >= TYPO_WORDS or len(lower) < TYPO_LETTERS or not lower.isalpha():
        return ""
    for name in names:
        errors = 2 if len(name) >= LONG_WORD else 1
        is_similar = len(name) >= TYPO_LETTERS and name[0] == lower[0] and abs(len(name) - len(lower)) <= errors
        if is_similar and _edit_distance(name, lower, errors) <= errors:
            return name
    return ""


def _edit_distance(one: str, other: str, limit: int) -> int:
    """The number of letters that are added, omitted, replaced or swapped, up to a limit."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, earlier[j - 2] + 1)
            row.append(best)
        if min(row) > limit:
            return limit + 1
    return row[-1]


def _continues(message: MessageText, at: int, names: _KeyNames) -> bool:
    """Whether the next word belongs to the same phrase and names a fact too."""
    if at + 1 >= len(message.words):
        return False
    word, following = message.words[at], message.words[at + 1]
    if not _SAME_PHRASE.fullmatch(message.text[word.end : following.start]):
        return False
    return following.stem in names or bool(_correct_typo(following, at + 1, names))


def _read_phrases(message: MessageText, at: int, names: _KeyNames) -> Iterator[KeyPhrase]:
    """Read the phrase that ends with the word at an index, for each fact that it names."""
    first, owner, is_bare = _find_phrase_start(message, at, names)
    last = at
    words = message.words
    following = ""
    if at + 1 < len(words) and _SAME_PHRASE.fullmatch(message.text[words[at].end : words[at + 1].start]):
        following = words[at + 1].lower
        if words[at + 1].stem in _SUFFIXES or words[at + 1].stem in GENERIC - STOP - _LINKS:
            last = at + 1
    is_compound = (
        bool(following)
        and last == at
        and following[0].isalpha()
        and following not in _BEHIND
        and not following.endswith(("ed", "ly"))
        and not _is_value_start(message, words[at + 1].start)
    )
    end = words[last].end - (2 if words[last].lower.endswith("'s") else 0)
    inner = words[first : last + 1]
    complement = _COMPLEMENT.match(message.text, end)
    extra: list[str] = []
    if complement is not None:
        extra = [part.lower().removesuffix("'s") for part in complement["rest"].split()]
        end = complement.end()
    stems = [word.stem if word.stem in names else _correct_typo(word, 0, names) or word.stem for word in inner]
    phrases: list[KeyPhrase] = []
    for target in dict.fromkeys(target for stem in stems for target, _ in names.get(stem, ())):
        key_words = _key_words(target)
        matches = {key_word for stem in (*stems, *extra) for other, key_word in names.get(stem, ()) if other is target}
        has_modifier = any(
            _is_modifier(word, stem, target, matches, names) for word, stem in zip(inner, stems, strict=True)
        )
        is_other_thing = (
            has_modifier
            or _is_foreign_owner(owner, target, message)
            or (complement is not None and _is_foreign_complement(complement, extra, target, matches, message))
        )
        phrases.append(
            KeyPhrase(
                target,
                words[first].start if is_bare else words[first - 1].start,
                end,
                share=len(matches) / len(key_words),
                words=len(matches),
                has_head=key_words[-1] in matches,
                is_foreign=is_other_thing or is_compound,
                is_joined=is_compound and not is_other_thing,
                is_bare=is_bare,
            )
        )
    yield from _count_rivals(phrases, stems, names)


def _is_modifier(word: Word, stem: str, target: TargetFact, matches: set[str], names: _KeyNames) -> bool:
    """Whether a word of a phrase makes it name another thing than the fact."""
    if stem in matches or any(key_word in matches for other, key_word in names.get(stem, ()) if other is target):
        return False
    if word.stem in _SUFFIXES or word.stem in target.norms or word.stem in _MEASURES:
        return False
    lower = word.lower
    if lower == "of" or lower in _NEUTRAL or (lower in _PLAIN and lower not in names):
        return False
    return lower not in target.key.words and lower not in target.key.domain


def _is_foreign_complement(
    complement: re.Match[str], extra: Sequence[str], target: TargetFact, matches: set[str], message: MessageText
) -> bool:
    """Whether the words behind a phrase make it name another thing: `the address of the office`."""
    link = complement["link"].lower()
    if link not in {"of", "for", "at", "in"} or (link == "in" and (complement["det"] or "").strip().lower() in _OWN):
        return False
    if any(mention.start == complement.start("rest") for mention in message.mentions):
        return False
    return any(word not in matches and word not in target.key.words and word not in _OWN_COMPLEMENT for word in extra)


def _is_foreign_owner(owner: str, target: TargetFact, message: MessageText) -> bool:
    """Whether a key is not about the thing of this owner."""
    if owner == _ANOTHER:
        return target.shape in {"name", "label", "statement", "flag"}
    first = target.key.words[:1]
    if owner in _PRONOUNS and KIN_OR_PET.intersection(first) and message.stems.intersection(first):
        return False
    return bool(owner) and strip_plural(owner) not in {*target.key.words, *target.key.domain}


def _count_rivals(phrases: list[KeyPhrase], stems: Sequence[str], names: _KeyNames) -> Iterator[KeyPhrase]:
    """Sort the readings of one phrase, the most likely first, and count the other facts that each may mean."""
    phrases.sort(key=lambda phrase: (-phrase.share, not phrase.has_head, -phrase.words))
    for phrase in phrases:
        rank = (phrase.share, phrase.has_head, phrase.words)
        rivals = {other.target for other in phrases if (other.share, other.has_head, other.words) == rank}
        if not any(stem in phrase.target.key.words and stem not in GENERIC for stem in stems):
            # only synonyms name the key: they may name any other key as well
            rivals |= {other for entry in names.values() for other, _ in entry if {*stems} & {*other.key.words}}
            rivals |= {other.target for other in phrases}
        yield msgspec.structs.replace(phrase, rivals=len(rivals - {phrase.target}))


def _find_phrase_start(message: MessageText, at: int, names: _KeyNames) -> tuple[int, str, bool]:
    """The first word of a phrase, its owner, and whether it has no article."""
    words = message.words
    first = at
    owner = ""
    while first > 0 and at - first < PHRASE_WORDS:
        before = words[first - 1]
        if not _SAME_PHRASE.fullmatch(message.text[before.end : words[first].start]):
            break
        lower = before.lower
        if lower in _USER_DETERMINERS and message.utterance.role == "assistant":
            return first, owner, False
        if lower in _OWN or lower in _PLAIN_DETERMINERS:
            return first, owner, False
        if lower in {"another", "different"} and _REPLACEMENT.search(
            message.text, max(0, before.start - 20), before.start
        ):
            return first, owner or _ANOTHER, False
        if lower == "no" and _THERE_IS.search(message.text, max(0, before.start - 12), before.start):
            return first, owner, True
        if lower in _OTHERS:
            return first, owner or lower, False
        if lower.endswith(("'s", "s'")) or message.text[before.end : before.end + 1] == "'":
            owner = before.stem
        elif _KIN_OWNER.fullmatch(lower):
            owner = lower
        elif lower == "of" and first > 1 and words[first - 2].stem in _MEASURES:
            first -= 1
        elif (lower in _NOT_IN_PHRASE and not _share_key(before, words[first], names)) or lower[0].isdigit():
            break
        first -= 1
    return first, owner, True


def _share_key(one: Word, other: Word, names: _KeyNames) -> bool:
    """Whether two words belong to one key, such as `shift` and `lead`."""
    targets = {id(target) for target, _ in names.get(other.stem, ())}
    return any(id(target) in targets for target, _ in names.get(one.stem, ()))


def _is_value_start(message: MessageText, start: int) -> bool:
    """Whether a value begins at a position."""
    char = message.text[start : start + 1]
    return any(mention.start == start for mention in message.mentions) or char.isupper() or char.isdigit()
