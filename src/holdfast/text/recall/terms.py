"""The terms by which passages are found.

Laws: a text has the same terms on every machine, because they are made here both for the index and for the question. Words
without a subject of their own have no term. Irregular forms have the term of their base: `wrote` that of `write`. British
spellings have the term of the American one. Synonyms are no terms of the index: a question looks for them itself.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from holdfast.text.stems import Term, split_words, term_of
from holdfast.text.words import word_set

_FUNCTION_WORDS = word_set(
    "a about am an and any are as at be been being but by can could d did do does doing don for from had has have having "
    "he her hers him his how i if in into is isn it its ll m me mine my of on or our ours re s she should so t than that "
    "the their theirs them then there these they this those to too us ve was wasn we were what when where which who whom "
    "whose why with would you your yours"
)
"""Words that no index has: they say nothing about the subject of a passage."""
_QUESTION_WORDS = word_set(
    "after all also before both during ever get give kind kinds know likely many may might more most much no not one "
    "please remember remind some tell type types will "
    "bye great hello hey hi ok okay sure thank thanks yes"
)
"""Further words that a question has for its form, or for courtesy; an index has them, because they are names and months
too."""
_IRREGULAR_FORMS = (
    "begin:began,begun bite:bit,bitten blow:blew,blown break:broke,broken "
    "bring:brought build:built buy:bought catch:caught choose:chose,chosen come:came do:done "
    "draw:drew,drawn drink:drank,drunk drive:drove,driven eat:ate,eaten fall:fell,fallen feed:fed feel:felt "
    "fight:fought find:found fly:flew,flown forget:forgot,forgotten forgive:forgave,forgiven freeze:froze,frozen "
    "get:got,gotten give:gave,given go:went,gone grow:grew,grown hang:hung hear:heard hide:hid,hidden hold:held "
    "keep:kept know:knew,known lay:laid lead:led leave:left lend:lent lose:lost make:made mean:meant meet:met "
    "pay:paid ride:rode,ridden ring:rang,rung rise:rose,risen run:ran say:said see:saw,seen sell:sold send:sent "
    "shake:shook,shaken shoot:shot sing:sang,sung sit:sat sleep:slept speak:spoke,spoken spend:spent stand:stood "
    "steal:stole,stolen stick:stuck swim:swam,swum take:took,taken teach:taught tear:tore,torn tell:told "
    "think:thought throw:threw,thrown understand:understood wake:woke,woken wear:wore,worn win:won "
    "write:wrote,written child:children person:people man:men woman:women wife:wives life:lives foot:feet tooth:teeth "
    "mouse:mice knife:knives "
)
_BASES = {
    form: base
    for base, _, forms in (group.partition(":") for group in _IRREGULAR_FORMS.split())
    for form in forms.split(",")
}
_BRITISH_OUR = re.compile(r"(?<=[a-z]{2})our(?=(?:s|ed|ing|ite|ites|ful|able|al|hood)?\Z)")
_BRITISH_ISE = re.compile(r"(?<=[a-z]{4})is(?=(?:e|es|ed|ing|ation|ations)\Z)")
_BRITISH_LETTERS = 6
"""A shorter word is left as it is: hour, pour, rise."""


@functools.lru_cache(maxsize=1 << 15)
def find_term(word: str) -> Term:
    """Return the term of a lower-case word, with its kin."""
    base = _BASES.get(word, word)
    if len(base) >= _BRITISH_LETTERS and base.isascii():
        base = _BRITISH_ISE.sub("iz", _BRITISH_OUR.sub("or", base))
    return term_of(base)


def passage_terms(text: str) -> tuple[str, ...]:
    """List the terms of a passage, in order, repeated as often as they occur: letters and digits only."""
    return tuple(find_term(word).stem for word in split_words(text) if word not in _FUNCTION_WORDS)


def question_words(text: str) -> list[str]:
    """List the different words of a question that say what it is about, in order. The list is empty if it has none."""
    words = [word for word in dict.fromkeys(split_words(text)) if word not in _FUNCTION_WORDS]
    return [word for word in words if word not in _QUESTION_WORDS] or words


_SYNONYM_GROUPS = (
    "kid child son daughter",
    "pet dog cat puppy kitten animal",
    "movie film cinema",
    "movie watch see",
    "book novel read author",
    "travel trip visit vacation journey tour holiday",
    "job work career profession occupation role",
    "buy purchase shop order",
    "hobby interest activity pastime enjoy",
    "class course lesson workshop training",
    "company firm business employer",
    "home house apartment flat",
    "live reside resident address",
    "car vehicle drive",
    "friend buddy pal",
    "mother mom mum",
    "father dad",
    "grandmother grandma",
    "grandfather grandpa",
    "parent mother father mom dad",
    "spouse husband wife partner",
    "relationship partner boyfriend girlfriend marry single date",
    "sibling brother sister",
    "family relative parent mother father sister brother mom dad",
    "doctor physician",
    "illness disease sick condition",
    "health doctor illness sick",
    "medicine medication pill drug",
    "meal dinner lunch breakfast food",
    "eat food meal restaurant",
    "restaurant cafe",
    "recipe cook bake dish",
    "drink beer wine coffee tea",
    "music song band concert",
    "instrument guitar piano violin drum",
    "sport exercise workout gym",
    "run race marathon",
    "game play",
    "city town",
    "country nation",
    "flight fly plane airport",
    "hotel stay",
    "phone mobile cellphone telephone call",
    "email mail",
    "break crack damage fault faulty defect",
    "allergy allergic",
    "refund reimburse money",
    "laptop computer",
    "photo picture image",
    "gift present",
    "money pay cost price salary",
    "budget spend cost",
    "start begin",
    "stop quit",
    "finish complete end",
    "organize host arrange",
    "event festival fair conference",
    "join participate attend",
    "like love enjoy favorite prefer",
    "hate dislike",
    "fear afraid scared",
    "happy glad joy excited",
    "sad upset unhappy",
    "feel emotion",
    "help support assist",
    "injury hurt injured",
    "accident crash",
    "degree university college school study",
    "teacher professor",
    "learn study",
    "exam test",
    "plan intend",
    "goal dream aim",
    "recommend suggest recommendation suggestion advice",
    "stress relax",
    "receive get",
    "marry wedding marriage",
    "baby pregnant birth",
    "move relocate",
    "birthday born age",
    "clothes clothing dress shirt jacket shoe",
    "garden plant flower",
    "art paint draw",
    "religion church faith",
    "volunteer charity donate",
    "colleague coworker",
    "boss manager",
    "meeting appointment",
    "problem issue trouble",
    "fix repair",
    "error bug",
    "deadline due",
    "big large",
    "small little",
    "quick fast",
    "name call",
    "talk speak chat discuss conversation",
)


@functools.cache
def _synonyms() -> dict[str, tuple[str, ...]]:
    """The synonyms of each term, as terms."""
    found: dict[str, dict[str, None]] = {}
    for group in _SYNONYM_GROUPS:
        stems = [find_term(word).stem for word in group.split()]
        for stem in stems:
            found.setdefault(stem, {}).update(dict.fromkeys(other for other in stems if other != stem))
    return {stem: tuple(others) for stem, others in found.items()}


def find_synonyms(terms: Sequence[str]) -> dict[str, str]:
    """Map the synonyms of terms to the term that they stand for; a term itself is none."""
    known = _synonyms()
    found: dict[str, str] = {}
    for term in terms:
        for other in known.get(term, ()):
            if other not in terms:
                found.setdefault(other, term)
    return found
