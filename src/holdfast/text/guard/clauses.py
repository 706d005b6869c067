"""The clause around a value: whether it names a key, how closely, and who owns the value.

At most CLAUSE_TERMS terms on either side of the value are read, so that no text makes it slow. The module also finds code,
tables and lists: there a redaction would falsify the text around it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from holdfast.text.guard.patterns import COMMON_WORDS
from holdfast.text.guard.subjects import KeySubject, root_of, root_set
from holdfast.text.guard.terms import GAP, TYPED_MARKS, ClauseLayout, Terms
from holdfast.text.words import word_set

NEAR_TERMS = 3
"""The most content terms between a key and its value."""
CLAUSE_TERMS = 60
"""The terms of a clause that are read on either side of a value."""
ANSWER_TERMS = 6
"""The most terms of a message that only answers the question before it."""
OWNER_TERMS = 3
"""The most terms between a possessive and its noun."""
KeyReference: TypeAlias = Literal["direct", "loose", ""]
"""The clause says that the key has the value · it names the key beside the value · it does not name the key."""
_SELF = word_set("i we our my im ive")
_OWNER_WORDS = _SELF | word_set("you your user customer guest they")
"""Subjects of a verb that mean the owner of the fact."""
_OWNERS = word_set("my our your user")
_LINKS = word_set("is are was were be been will to now = has set")
_COPULA = word_set("am m are re been is prefer use take speak drive")
_ARTICLES = word_set("the my our your their")
_REQUEST_WORDS = root_set(
    "book find fly flight trip travel visit go ticket send buy order need want like love look search show tell ask "
    "call remind recommend plan"
)
"""Words of a request: a name in such a clause may not be about the owner."""
_OTHER_PERSONS = root_set(
    "mother father mom dad sister brother wife husband son daughter friend colleague parent coworker neighbor aunt "
    "uncle cousin client kid roommate partner girlfriend boyfriend niece nephew grandmother grandfather flatmate"
)
_POSSESSIVE = word_set("my his her their our your")
_THEIRS = word_set("his her their")
_CONTRACTIONS = word_set("it that there what here he she who let where how")
"""Words whose `'s` is no possessive."""
_TITLES = word_set("mr mrs ms miss dr prof sir")
_PERIOD = re.compile(r"\b(?:in|from|until|till|between|back in)\s(?:\w{3,9}\s)?(?:19|20)\d\d\b", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"\bor\b[^.!\n]{0,80}\?", re.IGNORECASE)


def roots_of(terms: Terms) -> list[str]:
    """The roots of the terms, for the comparison with keys."""
    return [norm if norm == GAP or norm[0] in TYPED_MARKS else root_of(norm) for norm in terms.norms]


class Clauses:
    """The clauses of a text. A value is given by the indexes of its first and last term."""

    def __init__(self, terms: Terms, before: str = "", label: str = "") -> None:
        self.terms, self.text = terms, terms.text
        self.roots = roots_of(terms)
        self.layout = ClauseLayout(terms)
        self.structure = TextStructure(self.text)
        self.label_roots = frozenset(roots_of(Terms(label))) if label else frozenset[str]()
        self.question_roots: frozenset[str] = frozenset()
        if before and len(terms.norms) <= ANSWER_TERMS and before.rstrip().endswith("?"):
            self.question_roots = frozenset(roots_of(Terms(before)))

    def clause(self, at: int) -> tuple[int, int]:
        """The first and last term of the clause of a term; in a table, of its row."""
        if self.structure.is_table(self.terms.starts[at]):
            return self.sentence(at)
        clause = self.layout.clauses[at]
        low, high = self.layout.clause_firsts[clause], self.layout.clause_lasts[clause]
        return max(low, at - CLAUSE_TERMS), min(high, at + CLAUSE_TERMS)

    def sentence(self, at: int) -> tuple[int, int]:
        sentence = self.layout.sentences[at]
        low, high = self.layout.sentence_firsts[sentence], self.layout.sentence_lasts[sentence]
        return max(low, at - CLAUSE_TERMS), min(high, at + CLAUSE_TERMS)

    def terms_around(self, first: int, last: int) -> list[int]:
        """The other terms of the clause."""
        low, high = self.clause(first)
        high = max(high, self.clause(last)[1])
        return [at for at in range(low, high + 1) if not first <= at <= last]

    def roots_around(self, first: int, last: int) -> frozenset[str]:
        return (
            frozenset(self.roots[at] for at in self.terms_around(first, last)) | self.label_roots | self.question_roots
        )

    # References to a key

    def find_reference(self, first: int, last: int, subject: KeySubject) -> KeyReference:
        """How the clause of a value names a key. A clause about another owner does not name it."""
        around = self.terms_around(first, last)
        if around and self.is_about_other_owner(around[0], around[-1], subject):
            return ""
        if self.label_roots:
            return self._find_reference_by_label(subject)
        if subject.is_named(self.roots_around(first, last)):
            if self._is_another_kind(around, subject):
                return ""
            return "direct" if self.question_roots or self._is_linked(first, last, around, subject) else "loose"
        verbs = [at for at in around if self.roots[at] in subject.verbs]
        if verbs and any(self.roots[at] in _OWNER_WORDS for at in around):
            return "direct"
        return ""

    def _find_reference_by_label(self, subject: KeySubject) -> KeyReference:
        """A JSON key is a direct reference only if it has all words of the key: `city` is not `home_city`."""
        if subject.stems.isdisjoint(self.label_roots):
            return ""
        return "direct" if subject.stems <= self.label_roots or subject.specific <= self.label_roots else "loose"

    def _is_linked(self, first: int, last: int, around: list[int], subject: KeySubject) -> bool:
        """Whether the clause gives the key this value: `my hotel …`, `the gate is …`, `gate B12`, `… is the lead`."""
        is_typed = self.roots[first][0] in TYPED_MARKS
        for at in around:
            if self.roots[at] not in subject.nouns:
                continue
            if _OWNERS & {*self.roots[max(around[0], at - OWNER_TERMS) : at]} and not self._is_qualified(at, subject):
                return True
            between = self.roots[at + 1 : first] if at < first else self.roots[last + 1 : at]
            content = [root for root in between if root not in COMMON_WORDS and root not in _LINKS]
            if len(content) > NEAR_TERMS or any(root[0] in TYPED_MARKS for root in content):
                continue
            if at > last:
                if between and not content and between[0] in _LINKS and between[-1] in _ARTICLES:
                    return True
            elif self._is_qualified(at, subject):
                continue
            elif (not content and (is_typed or between[:1] != ["of"])) or not _LINKS.isdisjoint(between):
                return True
        return False

    def _is_qualified(self, at: int, subject: KeySubject) -> bool:
        """Whether another noun qualifies the key's noun: `luggage weight`, where the key is `weight`."""
        if at == 0 or self.terms.starts[at] - self.terms.stops[at - 1] != 1:
            return False
        ahead = self.roots[at - 1]
        is_content = ahead not in COMMON_WORDS and ahead[0] not in TYPED_MARKS and ahead not in _LINKS
        return is_content and ahead not in subject.stems and ahead not in subject.nouns

    def is_near(self, first: int, last: int, subject: KeySubject, *, ahead: bool) -> bool:
        """Whether the key is next to a value; with `ahead`, before it."""
        if self.label_roots or self.question_roots:
            return True
        low, high = self.clause(first)
        for at in range(low, high + 1):
            if self.roots[at] not in subject.nouns or first <= at <= last or (ahead and at > first):
                continue
            between = self.roots[at + 1 : first] if at < first else self.roots[last + 1 : at]
            content = [root for root in between if root not in COMMON_WORDS]
            if len(content) <= NEAR_TERMS and not any(root[0] in TYPED_MARKS for root in content):
                return True
        return False

    def is_beside(self, first: int, last: int, subject: KeySubject) -> bool:
        """Whether the next or the previous clause names the key and contains no name: Dana, your manager, …"""
        clause, sentence = self.layout.clauses[first], self.layout.sentences[first]
        for other in (clause - 1, clause + 1):
            if not 0 <= other < len(self.layout.clause_firsts):
                continue
            low, high = self.layout.clause_firsts[other], self.layout.clause_lasts[other]
            low, high = max(low, first - CLAUSE_TERMS), min(high, last + CLAUSE_TERMS)
            if self.layout.sentences[low] != sentence or not subject.is_named(frozenset(self.roots[low : high + 1])):
                continue
            if not any(map(self._is_name, range(low, high + 1))) and not self.is_about_other_owner(low, high, subject):
                return True
        return False

    def _is_name(self, at: int) -> bool:
        """Whether a term is capitalised like a name. A common first word of a sentence is none."""
        if not self.text[self.terms.starts[at]].isupper():
            return False
        first = self.layout.sentence_firsts[self.layout.sentences[at]] == at
        return not (first and (self.terms.norms[at] in COMMON_WORDS or self.roots[at] in _REQUEST_WORDS))

    def _is_another_kind(self, around: list[int], subject: KeySubject) -> bool:
        """Whether a clause is about another thing of the kind: the marketing budget, where the key is `trip budget`."""
        if len(subject.words) < 2 or self.question_roots:
            return False
        if any(self.roots[at] in synonyms for at in around for synonyms in subject.words[:-1]):
            return False
        heads = [at for at in around if self.roots[at] in subject.words[-1] and at - 1 in around]
        return any(self._is_qualified(at, subject) for at in heads)

    # Owners and meaning

    def is_about_other_owner(self, low: int, high: int, subject: KeySubject) -> bool:
        """Whether a clause is about somebody else: `my sister`, `Tom's budget`, `their hotel`."""
        roots = self.roots
        for at in range(low, high + 1):
            word, ahead = roots[at], roots[at - 1] if at > low else ""
            if word in _OTHER_PERSONS and ahead in _POSSESSIVE and word not in subject.stems:
                return True
            behind = roots[at + 1] if at < high else ""
            if behind not in subject.nouns:
                continue
            if word in _THEIRS or (word == "s" and ahead not in _CONTRACTIONS | subject.stems):
                return True
        return False

    def is_about_owner(self, first: int, subject: KeySubject) -> bool:
        """Whether the owner makes a statement about themselves, and no request."""
        low, high = self.clause(first)
        stems = frozenset(self.roots[low : high + 1])
        if stems.isdisjoint(_SELF) or not stems.isdisjoint(_REQUEST_WORDS):
            return False
        return not self.is_about_other_owner(low, high, subject)

    def is_after_self_verb(self, first: int, subject: KeySubject) -> bool:
        """Whether a value follows directly behind `I am`, `we use` and the like."""
        low, high = self.clause(first)
        ahead = self.terms.norms[max(low, first - 3) : first]
        if not ahead or ahead[-1] not in _COPULA or _SELF.isdisjoint(ahead):
            return False
        return not self.is_about_other_owner(low, high, subject)

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
        """Whether a word next to another one is capitalised and no common word."""
        if not 0 <= at < len(self.roots) or not self._is_joined(min(at, beside), max(at, beside)):
            return False
        word = self.roots[at]
        return word not in COMMON_WORDS and word[0] not in TYPED_MARKS and self.text[self.terms.starts[at]].isupper()

    def _is_joined(self, one: int, other: int) -> bool:
        return self.text[self.terms.stops[one] : self.terms.starts[other]] == " "

    def has_figures(self, first: int, last: int) -> bool:
        """Whether the clause also states an amount: then it may stay true of the old value."""
        details = self.terms.details
        return any(at in details and details[at].kind == "amount" for at in self.terms_around(first, last))

    def is_dated(self, first: int) -> bool:
        """Whether a sentence is about a past period: `I worked there from 2015 to 2019`."""
        low, high = self.sentence(first)
        return _PERIOD.search(self.text, self.terms.starts[low], self.terms.stops[high]) is not None

    def is_alternative(self, first: int) -> bool:
        """Whether a value is one of several in a question: savings or checking?"""
        low, high = self.sentence(first)
        end = min(len(self.text), self.terms.stops[high] + 2)
        return _ALTERNATIVES.search(self.text, self.terms.starts[low], end) is not None

    def noun_after(self, at: int) -> str:
        """The noun directly behind a number, or an empty text."""
        return self.roots[at + 1] if self.counts_noun(at) else ""

    def counts_noun(self, at: int) -> bool:
        """Whether a number counts something: the 6th floor, 1,500 people."""
        if at + 1 >= len(self.roots) or self.text[self.terms.stops[at] : self.terms.starts[at + 1]] != " ":
            return False
        behind = self.terms.norms[at + 1]
        return behind not in COMMON_WORDS and behind[0] not in TYPED_MARKS


LIST_ITEMS = 3
"""From this many short items with commas between them, a text is a list."""
ITEM_WORDS = 4
ITEM_CHARS = 60
"""Only the end of a longer item is read."""
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]{1,200}`")
_ROW = re.compile(r"^[ \t]{0,12}(?:[-*•+]|\d{1,3}[.)])[ \t]+\S")
_TABLE = re.compile(r"\|[^|\n]{0,200}\||\t")
_CODE_LINE = re.compile(
    r"^[ \t]{0,40}(?:(?:def|class|import|return|const|let|var|export|SELECT|INSERT|UPDATE)\b.*[;:(){}=*]"
    r"|[\w.\"'\[\]-]{1,80}[ \t]?=[ \t]?\S|[\w.-]{1,80}\(.*\)|.*[{};]$|\$ \S)",
    re.MULTILINE,
)
_COMMA = re.compile(r"(?<!\d),|,(?!\d{3})")
_SEPARATOR = re.compile(r"[,;]\s")
_LAST_ITEM = re.compile(r"(?:and |or |& )?")
TextForm = Literal["prose", "rows", "code"]


class _LineForm(NamedTuple):
    """The form of one line."""

    start: int
    stop: int
    is_code: bool
    is_table: bool
    is_row: bool
    lists: list[tuple[int, int]]
    """The characters of its enumerations of short items."""


class TextStructure:
    """The forms of the lines of a text. Each line is read once, however many values it has."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fences = [fence.start() for fence in _FENCE.finditer(text)]
        self._inline = [code.span() for code in _INLINE.finditer(text)]
        self._ends = [at for at, char in enumerate(text) if char == "\n"] if "\n" in text else []
        self._is_json = text.lstrip()[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]")
        self._lines: dict[int, _LineForm] = {}

    def form_at(self, start: int, stop: int) -> TextForm:
        if self._is_json or bisect_right(self._fences, start) % 2 == 1:
            return "code"
        if _is_within(self._inline, start):
            return "code"
        first, last = self._line_at(start), self._line_at(stop)
        if first.is_code or last.is_code:
            return "code"
        in_rows = first.is_table or first.is_row or _is_within(first.lists, start)
        return "rows" if in_rows else "prose"

    def is_table(self, at: int) -> bool:
        """Whether a line is a row of a table, whose cells belong together."""
        return self._line_at(at).is_table

    def line_end(self, at: int) -> int:
        return self._line_at(at).stop

    def _line_at(self, at: int) -> _LineForm:
        number = bisect_left(self._ends, at)
        if number not in self._lines:
            start = self._ends[number - 1] + 1 if number else 0
            stop = self._ends[number] if number < len(self._ends) else len(self._text)
            self._lines[number] = _read_line(self._text[start:stop], start)
        return self._lines[number]


def _read_line(line: str, start: int) -> _LineForm:
    return _LineForm(
        start,
        start + len(line),
        _CODE_LINE.match(line) is not None,
        _TABLE.search(line) is not None or (len(_COMMA.findall(line)) > 1 and ", " not in line),
        _ROW.match(line) is not None,
        [(start + low, start + high) for low, high in _find_enumerations(line)],
    )


def _is_within(spans: Sequence[tuple[int, int]], at: int) -> bool:
    """Whether one of these spans, which are in order, contains a position."""
    before = bisect_right(spans, at, key=lambda span: span[0])
    return before > 0 and at < spans[before - 1][1]


def _find_enumerations(line: str) -> Iterator[tuple[int, int]]:
    """Find enumerations of short items: Aylin (lead), Wei (backend), Kofi (design)."""
    run: list[tuple[int, int]] = []
    start = 0
    for separator in _SEPARATOR.finditer(line):
        low, start = max(start, separator.start() - ITEM_CHARS), separator.end()
        item = line[low : separator.start()]
        if run and low != run[-1][1]:
            yield from _close_run(line, run)
            run = []
        if len(item.split()) <= ITEM_WORDS or (not run and ":" in item):
            run.append((low, start))
            continue
        yield from _close_run(line, run)
        run = []
    yield from _close_run(line, run)


def _close_run(line: str, run: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The characters of a run of items, with the last item, which has no comma behind it."""
    if len(run) >= LIST_ITEMS:
        last = _LAST_ITEM.match(line, run[-1][1])
        yield run[0][0], run[-1][1] + (len(last[0]) if last else 0) + 1
