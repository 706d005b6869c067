"""Where a text states the value of a fact that is superseded, and what is shown in its place.

Laws: the same text and facts give the same redactions. Only the value is replaced; the rest of the sentence stays. A live
value that the clause may mean is never touched. Where a replacement would falsify (lists, tables, JSON, code), and where it
is not certain that the fact is meant, a note is added and nothing is taken away: what the note says is true either way.

A fact is stated where its provenance says so; where a clause names both its key and its value; and where its value is
distinctive: `core.strength` has the rule.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from holdfast.core.detect.words import word_set
from holdfast.core.patterns import (
    KEY_CHARS,
    Cover,
    Known,
    Leaf,
    Pattern,
    Span,
    Stated,
    Statement,
    is_live,
    leaf_of,
    leaves,
)
from holdfast.core.strength import COMMON_WORDS, Strength
from holdfast.core.structure import Structure
from holdfast.core.subjects import Subject, root, subject_of
from holdfast.core.terms import Detail, Terms, agree
from holdfast.core.wording import GAP, NESTED, Memory, occurrences
from holdfast.model.content import Json
from holdfast.model.pack import Guard

ANCHOR_CHARS = 64
"""Of a term that rows are looked up by."""
SEVERAL = "*"
"""Stands for the anchor of a value that is made of several."""
NEAR_TERMS = 3
"""A common value states a fact only if no more terms than these stand between it and the key."""
CLAUSE_TERMS = 60
"""Of a longer clause, as many terms on either side of a value are read."""
ANSWER_TERMS = 6
"""A message of no more terms may be the bare answer to the question before it."""

_FLAGS = word_set("yes no true false none null")
_SELF = word_set("i we our my im ive")
_ADDRESSED = _SELF | word_set("you your user customer guest they")
"""Who a verb must be said of, for it to be said of the owner of the fact."""
_COPULA = word_set("am m are re been is prefer use take speak drive")
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
_WRAP = re.compile(r"[,;]?[^\S\n]*\n[^\S\n]*")
_THEIRS = word_set("his her their")
_CONTRACTED = word_set("it that there what here he she who let where how")
"""With an apostrophe and an s, these are no possessives."""
MARKER = re.compile(
    rf"\[(?:outdated(?:: [^\[\]\n]{{1,{KEY_CHARS}}})?|withheld"
    rf"|[^\[\]\n]{{1,{KEY_CHARS}}} (?:has changed since|no longer applies))\]"
)
"""What this module itself puts in, and so does not read."""


# Looking up


def anchor(value: Json) -> str:
    """The term of a value by which it is looked up, the most telling one; empty if none is telling enough."""
    best: tuple[int, int, str] = (0, 0, "")
    for leaf in leaves(value):
        for norm in Terms(leaf).norms:
            rank = 0 if norm in COMMON_WORDS or norm == GAP else 3 if norm[0] in "=+" else 2 if len(norm) > 3 else 1
            best = max(best, (rank, len(norm), norm[:ANCHOR_CHARS])) if rank else best
    return best[2]


def anchors(value: Json) -> tuple[str, ...]:
    """The terms by which each of the values is found that a value is made of."""
    found = (
        anchor(leaf) or max(probes(leaf), key=lambda norm: (len(norm), norm), default="") for leaf in leaves(value)
    )
    return tuple(dict.fromkeys(filter(None, found)))


_seen: Memory[frozenset[str]] = Memory(32 << 20)
"""Enough for a view of 10,000 messages."""


def probes(text: str) -> frozenset[str]:
    """What anchors are compared with. The same texts are looked at for every model call, so they are remembered."""
    known = _seen.get(text)
    if known is None:
        known = frozenset(norm[:ANCHOR_CHARS] for norm in Terms(text).norms if norm != GAP)
        known |= {part for norm in known if norm[0] == "=" for part in _beginnings(norm)}
        days = {f"~{norm[1:]}" for norm in known if norm[0] == "#"}
        known |= days | {f"#{norm[1:]}" for norm in known if norm[0] == "~"}  # the 6th may be March 6th
        _seen.put(text, known, 64 * len(known))
    return known


def _beginnings(url: str) -> Iterator[str]:
    at = url.find("/")
    while at > 0:
        yield url[:at]
        at = url.find("/", at + 1)


# Showing


def show(text: str, statements: Sequence[Statement], policy: Guard) -> str:
    """A text as it may be shown. What is withheld is taken out under any policy."""
    edits: dict[tuple[int, int], str] = {}
    for each in statements:
        if _is_replaced(each, policy):
            edits[each.start, each.stop] = marker_of(each)
        elif is_edited(text, each, policy):
            at = (each.note_at, each.note_at)
            note = f" {_note_of(each)}"
            edits[at] = edits[at] + note if at in edits and note not in edits[at] else note
    shown: list[str] = []
    done = 0
    for (start, stop), new in sorted(edits.items()):
        shown += text[done:start], new
        done = max(done, stop)
    return "".join((*shown, text[done:])) if shown else text


def is_edited(text: str, statement: Statement, policy: Guard) -> bool:
    """Whether a text is shown otherwise because of a statement: not if its note stands there already."""
    if _is_replaced(statement, policy):
        return True
    return policy != "off" and not MARKER.match(text, statement.note_at + 1)


def _is_replaced(statement: Statement, policy: Guard) -> bool:
    return statement.action == "withhold" or policy == "redact" == statement.action


def marker_of(statement: Statement) -> str:
    """What stands in the place of a value."""
    if statement.action == "withhold":
        return "[withheld]"
    return f"[outdated: {statement.key}]" if statement.key else "[outdated]"


def _note_of(statement: Statement) -> str:
    if statement.certain or not statement.key:
        return f"[outdated: {statement.key}]" if statement.key else "[outdated]"
    return f"[{statement.key} {'has changed since' if statement.replaced else 'no longer applies'}]"


# Finding


def find_statements(
    text: str,
    facts: Sequence[Stated],
    *,
    spans: Sequence[Span] = (),
    sources: Collection[str] = (),
    echoes: Collection[str] = (),
    before: str = "",
    label: str = "",
    sure: bool = True,
) -> tuple[Statement, ...]:
    """Where a text states facts that are dead or withheld, in order and apart from each other.

    `spans` are the places where its provenance says that it states them, `sources` the ids of the facts that come from this
    text as a whole, `echoes` of those that the assistant, whose text it is, was told before. `before` is the message before
    it, which may be a question, and `label` the name under which the text stands in JSON. Without `sure`, nothing is
    certain: there are notes only."""
    known = Known(facts)
    if not known.gone:
        return ()
    found = list(_Reading(text, known, spans, frozenset(sources), frozenset(echoes), before, label).statements())
    if not sure:
        found = [each if each.action == "withhold" else each._replace(action="annotate") for each in found]
    return tuple(_joined(found))


def repeats(text: str, facts: Sequence[Stated]) -> tuple[str, ...]:
    """The ids of the facts whose value stands in a text, whatever it means there."""
    places = _Reading(text, Known(facts), (), frozenset(), frozenset(), "", "").places()
    return tuple(dict.fromkeys(each.fact.id for place in places for each in place.patterns))


def _joined(found: list[Statement]) -> Iterator[Statement]:
    """In order; what overlaps is one, and the stronger action counts."""
    rank = ("annotate", "redact", "withhold").index
    last: Statement | None = None
    for each in sorted(found, key=lambda one: (one.start, -one.stop)):
        if last is None or each.start >= last.stop:
            if last is not None:
                yield last
            last = each
            continue
        first, other = (each, last) if rank(each.action) > rank(last.action) else (last, each)
        ids = tuple(dict.fromkeys((*first.ids, *other.ids)))
        start, stop = min(last.start, each.start), max(last.stop, each.stop)
        last = first._replace(start=start, stop=stop, ids=ids, note_at=max(last.note_at, each.note_at))
    if last is not None:
        yield last


class _Significant:
    """The terms of a text without minor words, as `occurrences` reads them."""

    def __init__(self, terms: Terms, places: Sequence[int]) -> None:
        self.norms = [terms.norms[at] for at in places]
        self._terms, self.places = terms, places

    def apart(self, first: int, last: int) -> bool:
        return self._terms.apart(self.places[first], self.places[last])


class _Place(NamedTuple):
    """Terms of a text that are the value of facts."""

    first: int
    last: int
    patterns: tuple[Pattern, ...]
    stop: int = 0
    """Where it ends, if that is within the last term: the first part of a URL."""


class _Reading:
    """One look at a text."""

    def __init__(
        self,
        text: str,
        known: Known,
        spans: Sequence[Span],
        sources: frozenset[str],
        echoes: frozenset[str],
        before: str,
        label: str,
    ) -> None:
        self.text, self.known, self.spans, self.sources, self.echoes = text, known, spans, sources, echoes
        self.terms = Terms(text, [each.span() for each in MARKER.finditer(text)] if "[" in text else [])
        self.roots = _roots(self.terms)
        self.layout = self.terms.layout()
        self.structure = Structure(text)
        self.label = frozenset(_roots(Terms(label)))
        self.asked: frozenset[str] = frozenset()
        if before and len(self.terms.norms) <= ANSWER_TERMS and before.rstrip().endswith("?"):
            self.asked = frozenset(_roots(Terms(before)))

    def statements(self) -> Iterator[Statement]:
        yield from self._provided()
        places = list(self.places())
        live = Cover((each.first, each.last) for each in places if any(map(is_live, each.patterns)))
        for place in places:
            gone = [each for each in place.patterns if not is_live(each)]
            if not gone or live.exceeds(place.first, place.last):
                continue
            alike = [each.fact for each in place.patterns if is_live(each)]
            judged = [(each, self._judge(place, each, alike)) for each in gone]
            yield from self._stated(place, [(each, how) for each, how in judged if how is not None])

    def _provided(self) -> Iterator[Statement]:
        """What spans say: each is a value, whatever its words."""
        for span in self.spans:
            fact = self.known.gone.get(span.id)
            start, stop = max(span.start, 0), min(span.stop, len(self.text))
            if fact is not None and start < stop and not self._is_live(start, stop):
                yield self._statement(start, stop, [fact], "redact", certain=True)

    def _is_live(self, start: int, stop: int) -> bool:
        """Whether these characters are the value of a live fact."""
        leaf = leaf_of(self.text[start:stop])
        found = self.known.patterns.get(leaf.norms, ()) if leaf else ()
        return any(is_live(each) for each in found)

    def places(self) -> Iterator[_Place]:
        """Where the values of facts stand, live ones too."""
        yield from self._urls()
        vocabulary = frozenset(self.terms.norms)
        wanted = sorted(each for each in self.known.patterns if vocabulary.issuperset(each))
        if not wanted:
            return
        minor = [each for each in wanted if len(each) == 1]
        for words, patterns in (
            (_Significant(self.terms, self.terms.significant()), [each for each in wanted if len(each) > 1]),
            (_Significant(self.terms, range(len(self.terms.norms))), minor),
        ):
            for first, last, at in occurrences(words, patterns, NESTED):  # type: ignore[arg-type]
                details = [self.terms.details.get(words.places[each]) for each in range(first, last + 1)]
                low, high = words.places[first], words.places[last]
                fitting = tuple(
                    each for each in self.known.patterns[patterns[at]] if self._fits(each, details, low, high)
                )
                if fitting:
                    yield _Place(low, high, fitting)

    def _urls(self) -> Iterator[_Place]:
        """URLs that begin with one that is a value."""
        for at, norm in enumerate(self.terms.norms):
            for each in _beginnings(norm) if norm[0] == "=" else ():
                if (each,) in self.known.patterns:
                    start = self.terms.starts[at]
                    within = self.text[start : self.terms.stops[at]].lower().find(each[1:])
                    yield _Place(at, at, tuple(self.known.patterns[each,]), start + within + len(each) - 1)

    def _fits(self, pattern: Pattern, details: Sequence[Detail | None], first: int, last: int) -> bool:
        """Whether details such as the month or the currency agree; and the sentences: no value goes on in another one."""
        if not pattern.leaf.stops and not self._is_one_sentence(first, last):
            return False
        if pattern.day:
            kinds = {each.kind for each in (*details, *pattern.leaf.details) if each is not None}
            return "ordinal" in kinds and "date" in kinds and not self._counts(last)
        return all(agree(one, two) for one, two in zip(pattern.leaf.details, details, strict=True))

    def _is_one_sentence(self, first: int, last: int) -> bool:
        """Whether terms stand in one sentence, which may be wrapped."""
        ends = (at for at in range(first, last) if self.layout.sentences[at] != self.layout.sentences[at + 1])
        return all(_WRAP.fullmatch(self.text, self.terms.stops[at], self.terms.starts[at + 1]) for at in ends)

    def _counts(self, at: int) -> bool:
        """Whether an ordinal counts something: the 6th floor."""
        behind = self.text[self.terms.stops[at] : self.terms.starts[at + 1]] if at + 1 < len(self.terms.norms) else ""
        return (
            behind == " " and self.terms.norms[at + 1] not in COMMON_WORDS and self.terms.norms[at + 1][0] not in "@#~"
        )

    # Judging

    def _judge(self, place: _Place, pattern: Pattern, alike: Sequence[Stated]) -> tuple[str, bool] | None:
        """What is done about one fact where its value stands, and whether it is certain; None for nothing."""
        fact, leaf = pattern.fact, pattern.leaf
        subject = subject_of(fact.key)
        secret = fact.standing == "withheld"
        if not alike and (fact.id in self.sources or leaf.strength is Strength.DISTINCTIVE):
            return "redact", True
        named = self._names(place, subject)
        if alike and (not named or any(self._may_mean(place, each, fact) for each in alike)):
            return None
        if fact.id in self.sources or leaf.strength is Strength.DISTINCTIVE:
            return "redact", True
        if leaf.strength is Strength.COMMON:
            return self._judge_common(place, pattern, subject, named)
        if named and self._is_same_case(place, leaf, named):
            return "redact", True
        if fact.id in self.echoes:
            return "annotate", False
        if not self._is_same_case(place, leaf, False) or self._is_anothers(*self._clause(place.first), subject):
            return None
        if secret:
            return ("redact", True) if leaf.strength is Strength.TYPED else None
        if leaf.strength is Strength.TYPED or self._is_beside(place, subject):
            return "annotate", False
        return ("annotate", False) if self._is_of_self(place, subject) else None

    def _may_mean(self, place: _Place, live: Stated, dead: Stated) -> bool:
        """Whether a clause may mean the live fact with the same value: it names its key no less than the other one."""
        if live.key == dead.key:
            return True
        stems = self._stems(place)
        return self._names(place, subject_of(live.key)) and (
            subject_of(live.key).count(stems) >= subject_of(dead.key).count(stems)
        )

    def _is_beside(self, place: _Place, subject: Subject) -> bool:
        """Whether the next clause, or the one before, names the key and no other name: Dana, your manager, …"""
        clause, sentence = self.layout.clauses[place.first], self.layout.sentences[place.first]
        for other in (clause - 1, clause + 1):
            if not 0 <= other < len(self.layout.clause_firsts):
                continue
            low, high = self.layout.clause_firsts[other], self.layout.clause_lasts[other]
            low, high = max(low, place.first - CLAUSE_TERMS), min(high, place.last + CLAUSE_TERMS)
            if self.layout.sentences[low] != sentence or not subject.is_named(frozenset(self.roots[low : high + 1])):
                continue
            if not any(map(self._is_name, range(low, high + 1))) and not self._is_anothers(low, high, subject):
                return True
        return False

    def _is_name(self, at: int) -> bool:
        """Whether a term is written as a name is; the first word of a sentence may be another word."""
        if not self.text[self.terms.starts[at]].isupper():
            return False
        first = self.layout.sentence_firsts[self.layout.sentences[at]] == at
        return not (first and (self.terms.norms[at] in COMMON_WORDS or self.roots[at] in _WANTED))

    def _judge_common(self, place: _Place, pattern: Pattern, subject: Subject, named: bool) -> tuple[str, bool] | None:
        if named and self._is_near(place, subject, flag=pattern.leaf.norms[0] in _FLAGS):
            return "redact", True
        if len(pattern.leaf.norms) > 1 and named:
            return "redact", True
        first = place.first
        before = self.terms.norms[first - 1] if first else ""
        said = {*self.terms.norms[max(0, first - 3) : first]}
        typed = pattern.leaf.norms[0][0] in "#@~"
        if pattern.fact.id in self.echoes and self._is_echo(place, pattern):
            return "annotate", False
        if not typed and pattern.fact.standing == "dead" and before in _COPULA and said & _SELF:
            return "annotate", False
        return None

    def _is_echo(self, place: _Place, pattern: Pattern) -> bool:
        """Whether a common value that the assistant was told is likely to be that one: a word that is not in any text, a
        time, a weekday, a day of a month. A bare number may count anything, but for one as in `a table for 3`."""
        detail = self.terms.details.get(place.first)
        if pattern.leaf.norms[0][0] == "#" and len(pattern.leaf.norms) == 1:
            ahead = self.terms.norms[place.first - 1] if place.first else ""
            if ahead == "for" and not self._counts(place.last):
                return True
        if detail is None:
            return any(len(norm) > 3 and norm not in COMMON_WORDS and norm[0] != "#" for norm in pattern.leaf.norms)
        return detail.kind in ("time", "weekday", "date") or (detail.kind == "ordinal" and not self._counts(place.last))

    def _is_same_case(self, place: _Place, leaf: Leaf, named: bool) -> bool:
        """Whether a name is written as one: Orange is no orange. A text in small letters throughout may name it, too."""
        if not leaf.capital or self.text[self.terms.starts[place.first]].isupper():
            return True
        return named and not any(map(str.isupper, self.text))

    def _clause(self, at: int) -> tuple[int, int]:
        """The terms of the clause that a term stands in; of a row, all of it."""
        if self.structure.is_table(self.terms.starts[at]):
            sentence = self.layout.sentences[at]
            low, high = self.layout.sentence_firsts[sentence], self.layout.sentence_lasts[sentence]
            return max(low, at - CLAUSE_TERMS), min(high, at + CLAUSE_TERMS)
        clause = self.layout.clauses[at]
        low, high = self.layout.clause_firsts[clause], self.layout.clause_lasts[clause]
        return max(low, at - CLAUSE_TERMS), min(high, at + CLAUSE_TERMS)

    def _names(self, place: _Place, subject: Subject) -> bool:
        """Whether the clause of a value names a key, and speaks of no other owner of such a thing."""
        around = self._around(place)
        stems = self._stems(place)
        if around and self._is_anothers(around[0], around[-1], subject):
            return False
        if subject.is_named(stems):
            return not self._is_another_kind(around, subject)
        return not subject.verbs.isdisjoint(stems) and not _ADDRESSED.isdisjoint(stems)

    def _around(self, place: _Place) -> list[int]:
        """The other terms of the clause."""
        low, high = self._clause(place.first)
        high = max(high, self._clause(place.last)[1])
        return [at for at in range(low, high + 1) if not place.first <= at <= place.last]

    def _stems(self, place: _Place) -> frozenset[str]:
        return frozenset(self.roots[at] for at in self._around(place)) | self.label | self.asked

    def _is_another_kind(self, around: Sequence[int], subject: Subject) -> bool:
        """Whether a clause names another thing of the kind: the marketing budget, where the key is `trip budget`."""
        if len(subject.words) < 2 or self.label or self.asked:
            return False
        norms = self.roots
        if any(norms[at] in each for at in around for each in subject.words[:-1]):
            return False
        heads = [at for at in around if norms[at] in subject.words[-1] and at - 1 in around]
        return any(norms[at - 1] not in COMMON_WORDS and norms[at - 1][0] not in "#@~" for at in heads)

    def _is_anothers(self, low: int, high: int, subject: Subject) -> bool:
        """Whether a clause speaks of somebody else: `my sister`, `Tom's budget`, `their hotel`."""
        norms = self.roots
        for at in range(low, high + 1):
            norm, ahead = norms[at], norms[at - 1] if at > low else ""
            if norm in _OTHERS and ahead in _POSSESSIVE and norm not in subject.own:
                return True
            if norm in _THEIRS and norms[at + 1 : at + 2] and norms[at + 1] in subject.nouns:
                return True
            if (
                norm == "s"
                and at + 1 <= high
                and norms[at + 1] in subject.nouns
                and ahead not in _CONTRACTED | subject.own
            ):
                return True
        return False

    def _is_near(self, place: _Place, subject: Subject, *, flag: bool) -> bool:
        """Whether the key stands next to a value: before it, if that is a yes or a no."""
        if self.label or self.asked:
            return True
        low, high = self._clause(place.first)
        norms = self.roots
        for at in range(low, high + 1):
            if norms[at] not in subject.nouns or place.first <= at <= place.last or (flag and at > place.first):
                continue
            between = norms[at + 1 : place.first] if at < place.first else norms[place.last + 1 : at]
            telling = [each for each in between if each not in COMMON_WORDS]
            if len(telling) <= NEAR_TERMS and not any(each[0] in "#@~" for each in telling):
                return True
        return False

    def _is_of_self(self, place: _Place, subject: Subject) -> bool:
        """Whether the owner speaks of themselves, and does not ask for something."""
        low, high = self._clause(place.first)
        stems = frozenset(self.roots[low : high + 1])
        return not stems.isdisjoint(_SELF) and stems.isdisjoint(_WANTED) and not self._is_anothers(low, high, subject)

    # Making statements

    def _stated(self, place: _Place, judged: Sequence[tuple[Pattern, tuple[str, bool]]]) -> Iterator[Statement]:
        start, stop = self.terms.starts[place.first], place.stop or self.terms.stops[place.last]
        for certain in (True, False):
            facts = [each.fact for each, (_, sure) in judged if sure is certain]
            if facts:
                found = self._statement(start, stop, facts, "redact" if certain else "annotate", certain=certain)
                if found.action == "redact" and "\n" in self.text[start:stop]:  # it may be two things, in two lines
                    found = found._replace(action="annotate")
                yield found._replace(note_at=max(found.note_at, self.terms.stops[place.last]))
                return

    def _statement(self, start: int, stop: int, facts: Sequence[Stated], action: str, *, certain: bool) -> Statement:
        withheld = any(each.standing == "withheld" for each in facts)
        form = self.structure.form_at(start, stop)
        note_at = self.structure.line_end(stop) if form == "code" and "\n" in self.text else stop
        if withheld:
            action = "withhold"
        elif form != "prose" or self.label:
            action = "annotate"
        dead = next((each for each in facts if each.standing == "dead"), None)
        key = dead.key if dead and not withheld and self.known.is_nameable(dead.key) else ""
        replaced = dead is not None and dead.replaced
        ids = tuple(each.id for each in facts)
        return Statement(start, stop, ids, key, action, certain, replaced, note_at)  # type: ignore[arg-type]


def _roots(terms: Terms) -> list[str]:
    """The terms as keys are compared by."""
    return [norm if norm == GAP or norm[0] in "#@~=+" else root(norm) for norm in terms.norms]


# Questions about the past

_PAST = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|earlier|old|original(?:ly)?|past|prior|before|used to|until (?:now|today|recently)"
    r"|no longer|any ?more|back then|at first|initially|history)\b",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"\?|\b(?:what|which|where|who|when|how)\b|\b(?:tell|show|give|list|remind|find|look up|need)\b", re.IGNORECASE
)
_PAST_CHARS = 2_000


def asks_about_past(question: str) -> bool:
    """Whether a question asks for what was so before: "what was my old address?"."""
    text = question[:_PAST_CHARS]
    return _PAST.search(text) is not None and _ASKING.search(text) is not None
