"""Where a text states the value of a fact that is superseded, and what is shown in its place.

Laws: the same text and facts give the same redactions. Only the value is replaced; the rest of the sentence stays. A live
value that the clause may mean is never touched. Where a replacement would falsify (lists, tables, JSON, code), and where it
is not certain that the fact is meant, a note is added and nothing is taken away: what the note says is true either way.

A fact is stated where its provenance says so; where a clause names both its key and its value; and where its value is
distinctive: `core.strength` has the rule.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from holdfast.core.clauses import TYPED, Clauses, Naming, roots_of
from holdfast.core.patterns import (
    FLAGS,
    KEY_CHARS,
    Action,
    Cover,
    Known,
    Leaf,
    Pattern,
    Span,
    Stated,
    Statement,
    first_line,
    is_live,
    leaf_of,
    leaves,
)
from holdfast.core.strength import COMMON_WORDS, YEAR, Strength
from holdfast.core.subjects import Subject, root, subject_of
from holdfast.core.terms import Detail, Terms, agree
from holdfast.core.wording import GAP, NESTED, Memory, occurrences
from holdfast.model.content import Json
from holdfast.model.pack import Guard

ANCHOR_CHARS = 64
"""Of a term that rows are looked up by."""
SEVERAL = "*"
"""Stands for the anchor of a value that is made of several."""
_NOUN = re.compile(r"\s([^\W\d_]{3,30})\b")
_WRAP = re.compile(r"[,;]?[^\S\n]*\n[^\S\n]*")
MARKER = re.compile(
    rf"\[(?:outdated(?:: [^\[\]\n]{{1,{KEY_CHARS}}})?|withheld"
    rf"|[^\[\]\n]{{1,{KEY_CHARS}}} (?:has changed since|no longer applies))\]"
)
"""What this module itself puts in."""


# Looking up


def anchor(value: Json) -> str:
    """The term of a value by which it is looked up, the most telling one; empty if none is telling enough."""
    best: tuple[int, int, str] = (0, 0, "")
    for leaf in leaves(value):
        for norm in Terms(first_line(leaf) or leaf).norms:
            best = max(best, (_rank(norm), len(norm), norm[:ANCHOR_CHARS])) if _rank(norm) else best
    return best[2]


def _rank(norm: str) -> int:
    """How few values have a term: an exact one, a long number that is no year, a word of some length, any other."""
    if norm == GAP or norm in COMMON_WORDS:
        return 0
    if norm[0] in "=+":
        return 4
    if norm[0] == "#" and len(norm) > 3 and not YEAR.fullmatch(norm):
        return 3
    return 2 if len(norm) > 3 else 1


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
        known |= {FLAGS[norm] for norm in known & FLAGS.keys()}
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
    echoes: Mapping[str, str] = MappingProxyType({}),
    offers: Collection[str] = (),
    before: str = "",
    label: str = "",
    data: bool = False,
    sure: bool = True,
) -> tuple[Statement, ...]:
    """Where a text states facts that are dead or withheld, in order and apart from each other.

    `spans` are the places where its provenance says that it states them, `sources` the ids of the facts that come from this
    text as a whole. Of an assistant's text, `echoes` are those that it was told before, each with the noun behind its value
    there, and `offers` those that were asserted later. `before` is the message before it, which may be a question, and
    `label` the name under which the text stands in JSON. Nothing is taken out of `data`; without `sure`, nothing is certain
    either."""
    known = Known(facts)
    if not known.gone:
        return ()
    told = _Told(tuple(spans), frozenset(sources), echoes, frozenset(offers), data)
    found = list(_Reading(text, known, told, before, label).statements())
    if not sure:
        found = [
            each if each.action == "withhold" else each._replace(action="annotate", certain=False) for each in found
        ]
    return tuple(_joined(found))


def repeats(text: str, facts: Sequence[Stated]) -> tuple[str, ...]:
    """The ids of the facts whose value stands in a text, whatever it means there."""
    places = _Reading(text, Known(facts), _Told()).places()
    return tuple(dict.fromkeys(each.fact.id for place in places for each in place.patterns))


def noun_behind(text: str, at: int) -> str:
    """The noun that a number is told with: `days` in `for 2 days`, as it is compared."""
    found = _NOUN.match(text, at)
    return root(found[1].lower()) if found else ""


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


class _Told(NamedTuple):
    """What is known of a text beside its words."""

    spans: tuple[Span, ...] = ()
    sources: frozenset[str] = frozenset()
    echoes: Mapping[str, str] = MappingProxyType({})
    offers: frozenset[str] = frozenset()
    data: bool = False


class _Place(NamedTuple):
    """Terms of a text that are the value of facts."""

    first: int
    last: int
    patterns: tuple[Pattern, ...]
    stop: int = 0
    """Where it ends, if that is within the last term: the first part of a URL."""


class _Reading:
    """One look at a text."""

    def __init__(self, text: str, known: Known, told: _Told, before: str = "", label: str = "") -> None:
        self.text, self.known, self.told = text, known, told
        self.terms = Terms(text, _markers(text, known))
        self.clauses = Clauses(self.terms, before, label)

    def statements(self) -> Iterator[Statement]:
        yield from self._provided()
        places = list(self.places())
        live = Cover((each.first, each.last) for each in places if any(map(is_live, each.patterns)))
        best = self._best(places)
        for number, place in enumerate(places):
            gone = [each for each in place.patterns if not is_live(each)]
            if not gone or live.exceeds(place.first, place.last):
                continue
            alike = [each.fact for each in place.patterns if is_live(each)]
            sources = {name for name, numbers in best.items() if number in numbers}
            judged = [(each, self._judge(place, each, alike, each.fact.id in sources)) for each in gone]
            yield from self._stated(place, [(each, how) for each, how in judged if how is not None])

    def _best(self, places: Sequence[_Place]) -> dict[str, set[int]]:
        """For each fact that comes from this text, the places that state it: those that name its key, or else all; of a
        number that stands there several times, none."""
        own: dict[str, list[int]] = {}
        for number, place in enumerate(places):
            for name in {each.fact.id for each in place.patterns} & self.told.sources:
                own.setdefault(name, []).append(number)
        best: dict[str, set[int]] = {}
        for name, numbers in own.items():
            subject = subject_of(self.known.gone[name].key)
            named = {each for each in numbers if self.clauses.naming(places[each].first, places[each].last, subject)}
            bare = any(self.terms.norms[places[each].first][0] == "#" for each in numbers)
            best[name] = named or (set() if bare and len(numbers) > 1 else set(numbers))
        return best

    def _provided(self) -> Iterator[Statement]:
        """What spans say: each is a value, whatever its words."""
        for span in self.told.spans:
            fact = self.known.gone.get(span.id)
            start, stop = max(span.start, 0), min(span.stop, len(self.text))
            if fact is not None and start < stop and not self._is_live(start, stop):
                yield self._statement(start, stop, [fact], certain=True)

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
            return "ordinal" in kinds and "date" in kinds and not self.clauses.counts(last)
        return all(agree(one, two) for one, two in zip(pattern.leaf.details, details, strict=True))

    def _is_one_sentence(self, first: int, last: int) -> bool:
        """Whether terms stand in one sentence, which may be wrapped."""
        sentences = self.clauses.layout.sentences
        ends = (at for at in range(first, last) if sentences[at] != sentences[at + 1])
        return all(_WRAP.fullmatch(self.text, self.terms.stops[at], self.terms.starts[at + 1]) for at in ends)

    # Judging

    def _judge(self, place: _Place, pattern: Pattern, alike: Sequence[Stated], source: bool) -> bool | None:
        """Whether the value of a fact, where it stands, states it for certain; None if nothing is to be done."""
        fact, leaf = pattern.fact, pattern.leaf
        clauses, span, subject = self.clauses, (place.first, place.last), subject_of(fact.key)
        distinctive = leaf.strength is Strength.DISTINCTIVE
        if not alike and (source or (distinctive and fact.id not in self.told.offers)):
            return True
        naming = clauses.naming(*span, subject)
        if alike and (not naming or any(self._may_mean(place, each, fact) for each in alike)):
            return None
        if source or distinctive:
            return fact.id not in self.told.offers
        if leaf.strength is Strength.COMMON:
            return self._judge_common(place, pattern, subject, naming)
        if self._corrects(place, fact):
            return True
        longer = leaf.details[0] is None and clauses.is_in_longer_name(*span)
        if naming and self._is_same_case(place, leaf, named=True):
            return naming == "direct" and not longer and not self._is_doubtful(place, leaf)
        if fact.id in self.told.echoes:
            return leaf.details[0] is not None
        if longer or not self._is_same_case(place, leaf, named=False):
            return None
        return self._judge_unnamed(place, leaf, fact, subject)

    def _judge_unnamed(self, place: _Place, leaf: Leaf, fact: Stated, subject: Subject) -> bool | None:
        """A name, or a precise value, in a clause that does not name its key."""
        clauses = self.clauses
        if fact.standing == "withheld":
            return True
        if clauses.is_anothers(*clauses.clause(place.first), subject) or fact.id in self.told.offers:
            return None
        detail = leaf.details[0]
        if detail is not None and detail.kind == "amount" and not detail.exact[0] and clauses.counts(place.last):
            return None
        if leaf.strength is Strength.TYPED or clauses.is_beside(place.first, place.last, subject):
            return False
        return False if clauses.is_of_self(place.first, subject) else None

    def _judge_common(self, place: _Place, pattern: Pattern, subject: Subject, naming: Naming) -> bool | None:
        """A short or everyday value: it must stand next to its key."""
        clauses, leaf, fact = self.clauses, pattern.leaf, pattern.fact
        near = clauses.is_near(place.first, place.last, subject, ahead=leaf.norms[0] in FLAGS)
        if naming and (near or len(leaf.norms) > 1):
            return naming == "direct" or (near and not clauses.label and leaf.details[0] is not None)
        if fact.id in self.told.echoes and self._is_echo(place, pattern):
            return False
        typed = leaf.norms[0][0] in TYPED
        if not typed and fact.standing == "dead" and clauses.is_said_of_self(place.first, subject):
            return False
        return None

    def _is_doubtful(self, place: _Place, leaf: Leaf) -> bool:
        """Whether a clause may be true of the old value for ever: an answer with figures, a dated past, an offer."""
        if leaf.details[0] is not None:
            return False
        clauses = self.clauses
        figures = clauses.has_figures(place.first, place.last)
        return figures or clauses.is_dated(place.first) or clauses.is_offered(place.first)

    def _corrects(self, place: _Place, fact: Stated) -> bool:
        """Whether the sentence states the current value of the same key, too: `it's Meier, not Meyer`."""
        current = self.known.current.get(fact.key, ())
        if fact.standing != "dead" or not current:
            return False
        low, high = self.clauses.sentence(place.first)
        said = frozenset(self.terms.norms[low : high + 1])
        return any(said.issuperset(norms) for norms in current)

    def _may_mean(self, place: _Place, live: Stated, dead: Stated) -> bool:
        """Whether a clause may mean the live fact with the same value: it names its key no less than the other one."""
        if live.key == dead.key:
            return True
        one, other = subject_of(live.key), subject_of(dead.key)
        stems = self.clauses.stems(place.first, place.last)
        named = self.clauses.naming(place.first, place.last, one)
        return named != "" and one.count(stems) >= other.count(stems)

    def _is_echo(self, place: _Place, pattern: Pattern) -> bool:
        """Whether a common value that the assistant was told is likely to be that one: a word that is not in any text, a
        time, a weekday, a day of a month. A bare number may count anything, but for one as in `a table for 3`."""
        detail = self.terms.details.get(place.first)
        if pattern.leaf.norms[0][0] == "#" and len(pattern.leaf.norms) == 1:
            ahead = self.terms.norms[place.first - 1] if place.first else ""
            if ahead == "for" and not self.clauses.counts(place.last):
                return True
            noun = self.told.echoes[pattern.fact.id]
            if noun and noun == self.clauses.noun_behind(place.last):
                return True
        if detail is None:
            return any(len(norm) > 3 and norm not in COMMON_WORDS and norm[0] != "#" for norm in pattern.leaf.norms)
        counted = detail.kind == "ordinal" and not self.clauses.counts(place.last)
        return counted or detail.kind in ("time", "weekday", "date")

    def _is_same_case(self, place: _Place, leaf: Leaf, *, named: bool) -> bool:
        """Whether a name is written as one: Orange is no orange. A text in small letters throughout may name it, too."""
        if not leaf.capital or self.text[self.terms.starts[place.first]].isupper():
            return True
        return named and not any(map(str.isupper, self.text))

    # Making statements

    def _stated(self, place: _Place, judged: Sequence[tuple[Pattern, bool]]) -> Iterator[Statement]:
        start, stop = self.terms.starts[place.first], place.stop or self.terms.stops[place.last]
        for certain in (True, False):
            facts = [each.fact for each, sure in judged if sure is certain]
            if facts:
                found = self._statement(start, stop, facts, certain=certain)
                if found.action == "redact" and "\n" in self.text[start:stop]:  # it may be two things, in two lines
                    found = found._replace(action="annotate")
                yield found._replace(note_at=max(found.note_at, self.terms.stops[place.last]))
                return

    def _statement(self, start: int, stop: int, facts: Sequence[Stated], *, certain: bool) -> Statement:
        structure = self.clauses.structure
        withheld = any(each.standing == "withheld" for each in facts)
        form = structure.form_at(start, stop)
        note_at = structure.line_end(stop) if form == "code" and "\n" in self.text else stop
        note_at += 2 if self.text[note_at : note_at + 2] in ("'s", "’s") else 0
        data = form != "prose" or bool(self.clauses.label) or self.told.data
        action: Action = "withhold" if withheld else "redact" if certain and not data else "annotate"
        dead = next((each for each in facts if each.standing == "dead"), None)
        key = dead.key.strip() if dead and not withheld and self.known.is_nameable(dead.key) else ""
        replaced = dead is not None and dead.replaced
        return Statement(start, stop, tuple(each.id for each in facts), key, action, certain, replaced, note_at)


def _markers(text: str, known: Known) -> list[tuple[int, int]]:
    """What was put in by this module, and is not read again. Where something is withheld, all is read: anybody can write
    what looks like a marker."""
    if "[" not in text or any(each.standing == "withheld" for each in known.gone.values()):
        return []
    return [each.span() for each in MARKER.finditer(text)]


# Questions about the past

_PAST = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|earlier|old|original(?:ly)?|prior|before|used to|until (?:now|today|recently)"
    r"|no longer|any ?more|back then|at first|initially|was|were|had|did)\b",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"\?|\b(?:what|which|where|who|when|how)\b|\b(?:tell|show|give|list|remind|find|look up|need)\b", re.IGNORECASE
)
_PLAINLY = re.compile(
    r"\b(?:what|which|who|where)\b[^?.\n]{0,40}\b(?:was|were|did|had)\b[^?.\n]{0,40}\b(?:it|that)\b",
    re.IGNORECASE,
)
_PAST_CHARS = 2_000


def past_keys(question: str, keys: Collection[str], in_view: Collection[str] = ()) -> list[str]:
    """The keys for whose earlier values a question asks: "what was my old address?". A sentence must speak of the past and
    name the key; if it asks for "it" and names none, it may mean any that stands `in_view`."""
    text = question[:_PAST_CHARS]
    if _PAST.search(text) is None or _ASKING.search(text) is None:
        return []
    terms = Terms(text)
    roots, layout = roots_of(terms), terms.layout()
    named: dict[str, None] = {}
    for first, last in zip(layout.sentence_firsts, layout.sentence_lasts, strict=True):
        if _PAST.search(text, terms.starts[first], terms.stops[last]):
            stems = frozenset(roots[first : last + 1])
            named |= dict.fromkeys(key for key in keys if subject_of(key).is_meant(stems))
    return list(named) or (list(in_view) if _PLAINLY.search(text) else [])
