"""What a clause says of a value in it: whether it names a key, how closely, and whose thing it speaks of.

All of it is read within CLAUSE_TERMS terms on either side of the value, so that no text makes it slow.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from holdfast.core.detect.words import word_set
from holdfast.core.strength import COMMON_WORDS
from holdfast.core.structure import Structure
from holdfast.core.subjects import Subject, root
from holdfast.core.terms import Terms
from holdfast.core.wording import GAP

NEAR_TERMS = 3
"""A key and a value are linked if no more telling terms than these stand between them."""
CLAUSE_TERMS = 60
"""Of a longer clause, as many terms on either side of a value are read."""
ANSWER_TERMS = 6
"""A message of no more terms may be the bare answer to the question before it."""
OWNER_TERMS = 3
"""A possessive stands no more terms than these before the noun that it belongs to."""

TYPED = "#@~=+"
"""The first characters of the normal forms of typed values."""
Naming: TypeAlias = Literal["direct", "loose", ""]
"""The clause says of the key that it has the value · it names the key beside the value · it does not name it."""

_SELF = word_set("i we our my im ive")
_ADDRESSED = _SELF | word_set("you your user customer guest they")
"""Who a verb must be said of, for it to be said of the owner of the fact."""
_OWNERS = word_set("my our your user")
_LINKS = word_set("is are was were be been will to now = has set")
_COPULA = word_set("am m are re been is prefer use take speak drive")
_ARTICLES = word_set("the my our your their")
_WANTED = frozenset(
    map(
        root,
        word_set(
            "book find fly flight trip travel visit go ticket send buy order need want like love look search show tell ask "
            "call remind recommend plan"
        ),
    )
)
"""A clause with one of these asks for something: a name in it need not be the owner's."""
_OTHERS = frozenset(
    map(
        root,
        word_set(
            "mother father mom dad sister brother wife husband son daughter friend colleague parent coworker neighbor aunt "
            "uncle cousin client kid roommate partner girlfriend boyfriend niece nephew grandmother grandfather flatmate"
        ),
    )
)
_POSSESSIVE = word_set("my his her their our your")
_THEIRS = word_set("his her their")
_CONTRACTED = word_set("it that there what here he she who let where how")
"""With an apostrophe and an s, these are no possessives."""
_TITLES = word_set("mr mrs ms miss dr prof sir")
_PERIOD = re.compile(r"\b(?:in|from|until|till|between|back in)\s(?:\w{3,9}\s)?(?:19|20)\d\d\b", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"\bor\b[^.!\n]{0,80}\?", re.IGNORECASE)


def roots_of(terms: Terms) -> list[str]:
    """The terms as keys are compared by."""
    return [norm if norm == GAP or norm[0] in TYPED else root(norm) for norm in terms.norms]


class Clauses:
    """The clauses of a text. Places are the first and the last term of a value."""

    def __init__(self, terms: Terms, before: str = "", label: str = "") -> None:
        self.terms, self.text = terms, terms.text
        self.roots = roots_of(terms)
        self.layout = terms.layout()
        self.structure = Structure(self.text)
        self.label = frozenset(roots_of(Terms(label))) if label else frozenset[str]()
        self.asked: frozenset[str] = frozenset()
        if before and len(terms.norms) <= ANSWER_TERMS and before.rstrip().endswith("?"):
            self.asked = frozenset(roots_of(Terms(before)))

    def clause(self, at: int) -> tuple[int, int]:
        """The terms of the clause that a term stands in; of a row, all of it."""
        if self.structure.is_table(self.terms.starts[at]):
            return self.sentence(at)
        clause = self.layout.clauses[at]
        low, high = self.layout.clause_firsts[clause], self.layout.clause_lasts[clause]
        return max(low, at - CLAUSE_TERMS), min(high, at + CLAUSE_TERMS)

    def sentence(self, at: int) -> tuple[int, int]:
        sentence = self.layout.sentences[at]
        low, high = self.layout.sentence_firsts[sentence], self.layout.sentence_lasts[sentence]
        return max(low, at - CLAUSE_TERMS), min(high, at + CLAUSE_TERMS)

    def around(self, first: int, last: int) -> list[int]:
        """The other terms of the clause."""
        low, high = self.clause(first)
        high = max(high, self.clause(last)[1])
        return [at for at in range(low, high + 1) if not first <= at <= last]

    def stems(self, first: int, last: int) -> frozenset[str]:
        return frozenset(self.roots[at] for at in self.around(first, last)) | self.label | self.asked

    # Naming

    def naming(self, first: int, last: int, subject: Subject) -> Naming:
        """How the clause of a value names a key. One that speaks of another owner of such a thing does not."""
        around = self.around(first, last)
        if around and self.is_anothers(around[0], around[-1], subject):
            return ""
        if self.label:
            return self._naming_by_label(subject)
        if subject.is_named(self.stems(first, last)):
            if self._is_another_kind(around, subject):
                return ""
            return "direct" if self.asked or self._is_linked(first, last, around, subject) else "loose"
        verbs = [at for at in around if self.roots[at] in subject.verbs]
        if verbs and any(self.roots[at] in _ADDRESSED for at in around):
            return "direct"
        return ""

    def _naming_by_label(self, subject: Subject) -> Naming:
        """A name in JSON means a key for certain only if it has all words of it: `city` is not `home_city`."""
        own = subject.own & self.label
        if not own:
            return ""
        return "direct" if subject.own <= self.label or subject.telling <= self.label else "loose"

    def _is_linked(self, first: int, last: int, around: list[int], subject: Subject) -> bool:
        """Whether the key is said to have the value: `my hotel …`, `the gate is …`, `gate B12`, `… is the lead`."""
        typed = self.roots[first][0] in TYPED
        for at in around:
            if self.roots[at] not in subject.nouns:
                continue
            if _OWNERS & {*self.roots[max(around[0], at - OWNER_TERMS) : at]} and not self._is_qualified(at, subject):
                return True
            between = self.roots[at + 1 : first] if at < first else self.roots[last + 1 : at]
            telling = [each for each in between if each not in COMMON_WORDS and each not in _LINKS]
            if len(telling) > NEAR_TERMS or any(each[0] in TYPED for each in telling):
                continue
            if at > last:
                if between and not telling and between[0] in _LINKS and between[-1] in _ARTICLES:
                    return True
            elif self._is_qualified(at, subject):
                continue
            elif (not telling and (typed or between[:1] != ["of"])) or not _LINKS.isdisjoint(between):
                return True
        return False

    def _is_qualified(self, at: int, subject: Subject) -> bool:
        """Whether another noun stands before the key's: `luggage weight`, where the key is `weight`."""
        if at == 0 or self.terms.starts[at] - self.terms.stops[at - 1] != 1:
            return False
        ahead = self.roots[at - 1]
        return (
            ahead not in COMMON_WORDS
            and ahead not in subject.own
            and ahead not in subject.nouns
            and (ahead[0] not in TYPED and ahead not in _LINKS)
        )

    def is_near(self, first: int, last: int, subject: Subject, *, ahead: bool) -> bool:
        """Whether the key stands next to a value; with `ahead`, before it."""
        if self.label or self.asked:
            return True
        low, high = self.clause(first)
        for at in range(low, high + 1):
            if self.roots[at] not in subject.nouns or first <= at <= last or (ahead and at > first):
                continue
            between = self.roots[at + 1 : first] if at < first else self.roots[last + 1 : at]
            telling = [each for each in between if each not in COMMON_WORDS]
            if len(telling) <= NEAR_TERMS and not any(each[0] in TYPED for each in telling):
                return True
        return False

    def is_beside(self, first: int, last: int, subject: Subject) -> bool:
        """Whether the next clause, or the one before, names the key and no other name: Dana, your manager, …"""
        clause, sentence = self.layout.clauses[first], self.layout.sentences[first]
        for other in (clause - 1, clause + 1):
            if not 0 <= other < len(self.layout.clause_firsts):
                continue
            low, high = self.layout.clause_firsts[other], self.layout.clause_lasts[other]
            low, high = max(low, first - CLAUSE_TERMS), min(high, last + CLAUSE_TERMS)
            if self.layout.sentences[low] != sentence or not subject.is_named(frozenset(self.roots[low : high + 1])):
                continue
            if not any(map(self._is_name, range(low, high + 1))) and not self.is_anothers(low, high, subject):
                return True
        return False

    def _is_name(self, at: int) -> bool:
        """Whether a term is written as a name is; the first word of a sentence may be another word."""
        if not self.text[self.terms.starts[at]].isupper():
            return False
        first = self.layout.sentence_firsts[self.layout.sentences[at]] == at
        return not (first and (self.terms.norms[at] in COMMON_WORDS or self.roots[at] in _WANTED))

    def _is_another_kind(self, around: list[int], subject: Subject) -> bool:
        """Whether a clause names another thing of the kind: the marketing budget, where the key is `trip budget`."""
        if len(subject.words) < 2 or self.asked:
            return False
        if any(self.roots[at] in each for at in around for each in subject.words[:-1]):
            return False
        heads = [at for at in around if self.roots[at] in subject.words[-1] and at - 1 in around]
        return any(self._is_qualified(at, subject) for at in heads)

    # Owners and meanings

    def is_anothers(self, low: int, high: int, subject: Subject) -> bool:
        """Whether a clause speaks of somebody else: `my sister`, `Tom's budget`, `their hotel`."""
        roots = self.roots
        for at in range(low, high + 1):
            word, ahead = roots[at], roots[at - 1] if at > low else ""
            if word in _OTHERS and ahead in _POSSESSIVE and word not in subject.own:
                return True
            behind = roots[at + 1] if at < high else ""
            if behind not in subject.nouns:
                continue
            if word in _THEIRS or (word == "s" and ahead not in _CONTRACTED | subject.own):
                return True
        return False

    def is_of_self(self, first: int, subject: Subject) -> bool:
        """Whether the owner speaks of themselves, and does not ask for something."""
        low, high = self.clause(first)
        stems = frozenset(self.roots[low : high + 1])
        return not stems.isdisjoint(_SELF) and stems.isdisjoint(_WANTED) and not self.is_anothers(low, high, subject)

    def is_said_of_self(self, first: int, subject: Subject) -> bool:
        """Whether a value follows right behind `I am`, `we use` and the like."""
        low, high = self.clause(first)
        ahead = self.terms.norms[max(low, first - 3) : first]
        return (
            bool(ahead) and ahead[-1] in _COPULA and bool(_SELF & {*ahead}) and not self.is_anothers(low, high, subject)
        )

    def is_in_longer_name(self, first: int, last: int) -> bool:
        """Whether a name is part of a longer one: York in New York City, Anaheim in Angel Stadium of Anaheim."""
        ahead = first - 1
        if (
            ahead > 0
            and self.roots[ahead] == "of"
            and self._is_capital(ahead - 1, ahead)
            and self._is_joined(ahead, first)
        ):
            return True
        before = self._is_capital(ahead, first) and ahead != self.layout.sentence_firsts[self.layout.sentences[first]]
        return (before and self.roots[ahead] not in _TITLES) or self._is_capital(last + 1, last)

    def _is_capital(self, at: int, beside: int) -> bool:
        """Whether a word stands right beside another, with a capital letter, and says something."""
        if not 0 <= at < len(self.roots) or not self._is_joined(min(at, beside), max(at, beside)):
            return False
        word = self.roots[at]
        return word not in COMMON_WORDS and word[0] not in TYPED and self.text[self.terms.starts[at]].isupper()

    def _is_joined(self, one: int, other: int) -> bool:
        return self.text[self.terms.stops[one] : self.terms.starts[other]] == " "

    def has_figures(self, first: int, last: int) -> bool:
        """Whether the clause also states an amount: it answers for the value, and is true of it for ever."""
        details = self.terms.details
        return any(at in details and details[at].kind == "amount" for at in self.around(first, last))

    def is_dated(self, first: int) -> bool:
        """Whether a sentence tells of a period that is over: `I worked there from 2015 to 2019`."""
        low, high = self.sentence(first)
        return _PERIOD.search(self.text, self.terms.starts[low], self.terms.stops[high]) is not None

    def is_offered(self, first: int) -> bool:
        """Whether a value is one of several in a question: savings or checking?"""
        low, high = self.sentence(first)
        end = min(len(self.text), self.terms.stops[high] + 2)
        return _ALTERNATIVES.search(self.text, self.terms.starts[low], end) is not None

    def noun_behind(self, at: int) -> str:
        """The noun right behind a number; empty for none."""
        return self.roots[at + 1] if self.counts(at) else ""

    def counts(self, at: int) -> bool:
        """Whether a number counts something: the 6th floor, 1,500 people."""
        if at + 1 >= len(self.roots) or self.text[self.terms.stops[at] : self.terms.starts[at + 1]] != " ":
            return False
        behind = self.terms.norms[at + 1]
        return behind not in COMMON_WORDS and behind[0] not in TYPED
