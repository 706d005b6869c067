"""Where a text tells what holds no more, and what is shown in its place.

Laws: the same text and facts give the same cuts. What is live stays readable wherever it stood: the words of a live value
are never cut. Nothing dead is told once the cuts are made: a second look finds nothing more. Only words count, and no value
stands within a longer word or number. One pass over the words of a text, whatever it is made of.

A value without any word in it, as an emoji is, is known by its provenance alone. So is a short or common one (yes, 5, ok),
unless the clause that it stands in names its key.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from holdfast.core.detect.words import GENERIC, STOP, stem, word_set
from holdfast.core.infer import text_of
from holdfast.core.wording import GAP, NESTED, SENTENCE_WORDS, Layout, Memory, Words, is_spaceless, occurrences
from holdfast.model.content import Json
from holdfast.model.pack import Guard

ANCHOR_CHARS = 64
"""Of a word that rows are looked up by."""
SEVERAL = "*"
"""Stands for the anchor of what is made of several values."""
ALONE_CHARS = 3
"""So many characters in words that are not common make a value known wherever it stands; a shorter one needs its key."""
RETOLD_WORDS = 4
"""A statement of so many words that tell something is known in other words, too."""
RETOLD_SHARE = 0.8
"""So many of its words must be there, and all of its numbers and names."""
COMPARED = 16
"""Statements that one sentence is compared with."""
KEY_CHARS = 80
"""A longer key is not named in a marker."""
ROUNDS = 4
"""Looks at what the cuts leave, where that may read otherwise than it did: one, but for texts made to need more."""

_COMMON = STOP | word_set(
    "yes no true false null none nil ok okay on off unknown n na other all any high low medium normal new old open closed "
    "active inactive done pending enabled disabled default good bad am pm"
)
"""Words that stand in any text, whatever it is about."""
_SIGNS = "$€£¥₹%#"
_SIGNED = frozenset(_SIGNS)

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAMEABLE = re.compile(r"[\w.:/@-]+")
_NOTE = " [no longer true"
_SHOWN = re.compile(
    rf"\[(?:(?:superseded|no longer true): ([\w.:/@-]{{1,{KEY_CHARS}}}) has a current value"
    r"|outdated|no longer true|withheld|–)\]"
)
"""What this module itself puts in, and so does not read."""


class Stated(msgspec.Struct, frozen=True):
    """A value that the guard knows of."""

    id: str
    key: str
    value: Json
    standing: Literal["live", "dead", "withheld"]
    now: str = ""
    """The key under which something holds in its place; empty for none."""


class Cut(msgspec.Struct, frozen=True):
    """Characters of a text that tell what is dead, or withheld. None of them, if only something has to stand there."""

    start: int
    stop: int
    ids: tuple[str, ...]
    key: str
    """The key that has a current value; empty for none, or where it is not to be named."""
    withheld: bool
    whole: bool
    """The clause, and not only the value."""
    mute: bool = False
    """The words of a marker would tell a dead value themselves."""


class Span(NamedTuple):
    """Characters of a text that state a fact, as its provenance knows."""

    start: int
    stop: int
    id: str


def anchor(value: Json) -> str:
    """The word of a value by which it is looked up: numbers of some length first, then the longest word; empty if none is
    telling enough."""
    best: tuple[int, int] = (0, 0)
    chosen = ""
    for leaf in _leaves(value):
        found = Words(leaf)
        alone = _is_alone(found.norms) or _signed(leaf)
        for word in _searched(found.norms, found.touching):
            weight = _weight(word, alone)
            if weight > best:
                best, chosen = weight, word
    return chosen


def anchors(value: Json) -> tuple[str, ...]:
    """The words by which each of the values is found that a value is made of: the anchor, or the longest word."""
    found = (
        anchor(leaf) or max(words(leaf), key=lambda word: (len(word), word), default="") for leaf in _leaves(value)
    )
    return tuple(dict.fromkeys(filter(None, found)))


_seen: Memory[frozenset[str]] = Memory(16 << 20)


def words(text: str) -> frozenset[str]:
    """What anchors are compared with. The same texts are looked at for every model call, so they are kept in mind."""
    known = _seen.get(text)
    if known is None:
        found = Words(text)
        known = frozenset(_searched(found.norms, found.touching))
        _seen.put(text, known, 64 * len(known))
    return known


def cuts(text: str, facts: Sequence[Stated], spans: Sequence[Span] = (), question: str = "") -> tuple[Cut, ...]:
    """What has to be cut out of a text, in order and apart from each other."""
    known = _known(facts)
    if not known.gone:
        return ()
    look = _Look(text, known, spans, question)
    found = _joined(text, look.cuts())
    for _ in range(ROUNDS):
        if not look.unsure:
            break
        shown = guarded(text, found, "redact")
        look = _Look(shown, known, (), question)
        found = _joined(text, [*found, *_placed(_joined(shown, look.cuts()), found)])
    return tuple(found)


def guarded(text: str, cuts: Sequence[Cut], policy: Guard) -> str:
    """A text as it may be shown. What is withheld is cut out under any policy."""
    pieces: list[str] = []
    at = 0
    for cut in cuts:
        if cut.withheld or policy == "redact":
            pieces += text[at : cut.start], _marker(cut)
            at = cut.stop
        elif policy == "annotate" and not text.startswith(_NOTE, cut.stop):  # it has none yet
            pieces += text[at : cut.stop], _note(cut)
            at = cut.stop
    return "".join((*pieces, text[at:])) if pieces else text


def tells(text: str, facts: Sequence[Stated], question: str = "") -> tuple[str, ...]:
    """The ids of those that are dead or withheld and told in a text: for what cannot be edited."""
    known = _known(facts)
    if not known.gone:
        return ()
    told = {owner for told in _Look(text, known, question=question).told() for owner in told.owners}
    return tuple(dict.fromkeys(known.facts[owner].id for owner in sorted(told)))


def _marker(cut: Cut) -> str:
    shown = "–" if cut.mute else "withheld" if cut.withheld else "outdated"
    if cut.key and not (cut.mute or cut.withheld):
        shown = f"superseded: {cut.key} has a current value"
    return f" [{shown}]" if cut.start == cut.stop else f"[{shown}]"


def _note(cut: Cut) -> str:
    return f"{_NOTE}: {cut.key} has a current value]" if cut.key else f"{_NOTE}]"


def _joined(text: str, found: Iterable[Cut]) -> list[Cut]:
    """In order; those that touch are one."""
    joined: list[Cut] = []
    for cut in sorted(found, key=lambda each: (each.start, each.stop)):
        last = joined[-1] if joined else None
        if last is None or (cut.start > last.stop and text[last.stop : cut.start].strip(" ")):
            joined.append(cut)
            continue
        withheld = last.withheld or cut.withheld
        joined[-1] = Cut(
            last.start,
            max(last.stop, cut.stop),
            tuple(dict.fromkeys((*last.ids, *cut.ids))),
            "" if withheld else last.key or cut.key,
            withheld,
            last.whole or cut.whole,
            last.mute or cut.mute,
        )
    return joined


def _placed(more: Iterable[Cut], made: Sequence[Cut]) -> Iterator[Cut]:
    """Cuts of a text that has markers in it already, as cuts of the text without them."""
    starts, stops = [], []
    shift = 0
    for cut in made:
        starts.append(cut.start + shift)
        shift += len(_marker(cut)) - (cut.stop - cut.start)
        stops.append(cut.stop + shift)

    def back(at: int, *, end: bool) -> int:
        behind = bisect_right(starts, at) - 1
        if behind < 0:
            return at
        if at < stops[behind] or (end and at == stops[behind]):
            return made[behind].stop if end else made[behind].start
        return at - stops[behind] + made[behind].stop

    for cut in more:
        start, stop = back(cut.start, end=False), back(cut.stop, end=True)
        yield msgspec.structs.replace(cut, start=start, stop=max(start, stop))


def _leaves(value: Json) -> list[str]:
    """The values that a value is made of, as text."""
    found, ahead = [], [value]
    while ahead:
        each = ahead.pop()
        if isinstance(each, dict):
            ahead += [each[name] for name in sorted(each, reverse=True)]
        elif isinstance(each, list):
            ahead += reversed(each)
        else:
            found.append(text_of(each))
    return found


def _searched(norms: Sequence[str], touching: frozenset[int]) -> Iterator[str]:
    """Words as they are looked up: letters that count as words go in pairs, as one of them stands anywhere."""
    for at, word in enumerate(norms):
        if at in touching:
            yield norms[at - 1] + word
        if word != GAP:
            yield word[:ANCHOR_CHARS]


def _weight(word: str, alone: bool) -> tuple[int, int]:
    """How telling a word is by itself; nothing, if it is not."""
    length = len(word)
    if word in _COMMON:
        return 0, 0
    if any(each.isdecimal() for each in word):
        if length == 4 and word[:2] in ("19", "20"):  # a year
            return 2, length
        rank = 3 if length > 2 else 1
    else:
        rank = 2 if length > 3 else 1
    return (rank, length) if length > 1 or alone else (0, 0)


def _is_alone(norms: Sequence[str]) -> bool:
    """Whether a value is known wherever its words stand."""
    telling = sum(len(word) + is_spaceless(word) for word in norms if word not in _COMMON)
    return telling >= ALONE_CHARS or (len(norms) > 1 and any(word[0].isdecimal() for word in norms))


def _signed(leaf: str) -> bool:
    return any(sign in leaf for sign in _SIGNS)


def _markers(text: str, keys: frozenset[str]) -> list[tuple[int, int]]:
    """What was put in by this module. A key counts only if it is one that may be named."""
    if "[" not in text:
        return []
    return [each.span() for each in _SHOWN.finditer(text) if each[1] is None or each[1] in keys]


class _Owner(NamedTuple):
    """A fact that has this value, or has it in it."""

    fact: int
    alone: bool
    """Known wherever it stands."""
    signed: bool
    """Known wherever it stands with a sign, as money and percentages do."""
    naming: frozenset[str]
    """One of these words tells that it is meant."""


class _Statement(NamedTuple):
    """What a sentence of a value says, whatever the order of its words."""

    fact: int
    live: bool
    stems: frozenset[str]
    needed: frozenset[str]
    """Its numbers and names."""
    least: int

    def is_in(self, said: AbstractSet[str]) -> bool:
        return self.needed <= said and len(self.stems & said) >= self.least


class _Known(msgspec.Struct, frozen=True):
    """Facts as they are looked for."""

    facts: Sequence[Stated]
    live: frozenset[tuple[str, ...]]
    dead: dict[tuple[str, ...], list[_Owner]]
    statements: list[_Statement]
    gone: frozenset[int]
    """The places of those that are dead or withheld."""
    keys: dict[int, str]
    """What a marker may name of each of them."""
    equal: frozenset[int]
    """Those of them whose value something live has as well."""


def _known(facts: Sequence[Stated]) -> _Known:
    live: dict[tuple[str, ...], None] = {}
    dead: dict[tuple[str, ...], list[_Owner]] = {}
    statements: list[_Statement] = []
    own: dict[int, list[tuple[str, ...]]] = {}
    for at, fact in enumerate(facts):
        lives = fact.standing == "live"
        naming = frozenset() if lives else _naming(fact.key)
        for leaf in _leaves(fact.value):
            found = Words(leaf)
            if not found.norms:
                continue
            pattern = tuple(found.norms)
            if lives:
                live[pattern] = None
            else:
                own.setdefault(at, []).append(pattern)
                owner = _Owner(at, _is_alone(pattern), _signed(leaf), naming)
                dead.setdefault(pattern, []).append(owner)
            if len(pattern) >= RETOLD_WORDS:
                statements += _statements(at, lives, found)
    gone = frozenset(at for at, fact in enumerate(facts) if fact.standing != "live")
    equal = frozenset(at for at, patterns in own.items() if all(each in live for each in patterns))
    return _Known(facts, frozenset(live), dead, statements, gone, _nameable(facts, gone, dead), equal)


def _nameable(
    facts: Sequence[Stated], gone: frozenset[int], dead: dict[tuple[str, ...], list[_Owner]]
) -> dict[int, str]:
    """The keys that markers may name: short, plain, and telling nothing that is dead, nor withheld."""
    named: dict[int, str] = {}
    for at in sorted(gone):
        key = facts[at].now if facts[at].standing == "dead" else ""
        if not key or len(key) > KEY_CHARS or not _NAMEABLE.fullmatch(key):
            continue
        said = Words(f"superseded: {key} has a current value").norms
        runs = (tuple(said[low:high]) for low in range(len(said)) for high in range(low + 1, len(said) + 1))
        if not any(run in dead for run in runs):
            named[at] = key
    return named


def _naming(key: str) -> frozenset[str]:
    """The words of a key that tell what is meant."""
    own = re.split(r"[./:]", key)[-1]
    found = [stem(word) for word in Words(_CAMEL.sub(" ", own)).norms if not word[0].isdecimal()]
    return frozenset(word for word in found if word not in GENERIC) or frozenset(found)


def _statements(at: int, lives: bool, found: Words) -> Iterator[_Statement]:
    layout = Layout(found)
    for first, last in zip(layout.sentence_firsts, layout.sentence_lasts, strict=True):
        telling = [place for place in range(first, last + 1) if found.norms[place] not in _COMMON]
        stems = frozenset(stem(found.norms[place]) for place in telling)
        if RETOLD_WORDS <= len(stems) <= SENTENCE_WORDS:
            named = (place for place in telling if found.text[found.starts[place]].isupper() and place > first)
            counted = (place for place in telling if any(each.isdecimal() for each in found.norms[place]))
            needed = frozenset(stem(found.norms[place]) for place in (*named, *counted))
            yield _Statement(at, lives, stems, needed, math.ceil(RETOLD_SHARE * len(stems)))


class _Told(NamedTuple):
    """Words that tell something: all from the first to the last, or some of them."""

    places: Sequence[int]
    owners: tuple[int, ...]


class _Look:
    """One look at a text: where it tells what is live, and where what is not."""

    def __init__(self, text: str, known: _Known, spans: Sequence[Span] = (), question: str = "") -> None:
        self.text, self.known, self.spans = text, known, spans
        self.asked = tuple(Words(question).norms) if question else ()
        self.words = Words(text, _markers(text, frozenset(known.keys.values())))
        self.kept = bytearray(len(self.words.norms))
        """The words that have to stay, as they tell something live, or are the question."""
        self.bridged = bytearray(len(self.words.norms))
        """Those that have to stay together with the word behind them."""
        self.live = bytearray(len(self.words.norms))
        """The words that have to stay, and those that tell something live in other words."""
        self.questions: list[tuple[int, int]] = []
        """The characters of the question, where it stands in the text."""
        self.named: dict[int, Counter[str]] = {}
        self.unsure = False
        """What the cuts leave may read otherwise than it did."""

    def told(self) -> Iterator[_Told]:
        """What is told and dead; what is also live, or asked, is not among it."""
        text, vocabulary = self.text, frozenset(self.words.norms)
        dead = sorted(each for each in self.known.dead if vocabulary.issuperset(each))
        stems = {word: stem(word) for word in vocabulary} if self.known.statements else {}
        said = frozenset(stems.values())
        statements = [each for each in self.known.statements if each.is_in(said)]
        spans = [each for each in self.spans if max(each.start, 0) < each.stop]
        if not dead and not spans and all(each.live for each in statements):
            return
        self.layout = Layout(self.words)
        for first, last, _ in occurrences(
            self.words, sorted(each for each in self.known.live if vocabulary.issuperset(each)), 1
        ):
            self._keep(first, last)
        for first, last, _ in occurrences(self.words, [self.asked], 1) if self.asked else ():
            if self.layout.is_whole(first, last):  # the question itself, and not the words of it in another sentence
                self._keep(first, last)
                behind = self.words.starts[last + 1] if last + 1 < len(self.words.starts) else len(text)
                self.questions.append((self.words.stops[first - 1] if first else 0, behind))
        self.live[:] = self.kept
        retold = self._retold(statements, stems) if statements else []
        stated = self._stated(spans)
        owners = [self.known.dead[each] for each in dead]
        alone = [tuple(owner.fact for owner in each) if all(owner.alone for owner in each) else () for each in owners]
        for first, last, at in occurrences(self.words, dead, NESTED):
            if not self._spared(places := range(first, last + 1)):
                meant = alone[at] or tuple(each.fact for each in owners[at] if self._meant(each, first, last))
                if meant:
                    yield _Told(places, meant)
        yield from (each for each in (*stated, *retold) if not self._spared(each.places))

    def _keep(self, first: int, last: int) -> None:
        self.kept[first : last + 1] = b"\1" * (last + 1 - first)
        self.bridged[first:last] = b"\1" * (last - first)

    def _spared(self, places: Sequence[int]) -> bool:
        """Whether all of it is live as it stands there."""
        if isinstance(places, range):
            first, last = places[0], places[-1]
            return self.kept.find(0, first, last + 1) < 0 and self.bridged.find(0, first, last) < 0
        return all(self.live[place] for place in places)

    def _meant(self, owner: _Owner, first: int, last: int) -> bool:
        """Whether a value is told where its words stand."""
        if owner.alone:
            return True
        if owner.signed and self._extent(first, last) != (self.words.starts[first], self.words.stops[last]):
            return True
        own = [stem(each) for each in self.words.norms[first : last + 1]]
        clauses = (self.layout.clauses[first], self.layout.clauses[last])
        return any(self._named(clause)[word] > own.count(word) for clause in clauses for word in owner.naming)

    def _named(self, clause: int) -> Counter[str]:
        """The words that a clause has."""
        if clause not in self.named:
            first, last = self.layout.clause_firsts[clause], self.layout.clause_lasts[clause]
            self.named[clause] = Counter(stem(each) for each in self.words.norms[first : last + 1])
        return self.named[clause]

    def _stated(self, spans: Iterable[Span]) -> Iterator[_Told]:
        """What provenance knows of."""
        for span, at in self._dead(spans):
            first = bisect_right(self.words.stops, span.start)
            last = bisect_left(self.words.starts, span.stop) - 1
            if first <= last and at not in self.known.equal:
                yield _Told(range(first, last + 1), (at,))

    def _dead(self, spans: Iterable[Span]) -> Iterator[tuple[Span, int]]:
        """Each that states a dead fact, and the place of that."""
        places = {self.known.facts[at].id: at for at in self.known.gone}
        return ((each, places[each.id]) for each in spans if each.id in places)

    def _retold(self, statements: Sequence[_Statement], stems: dict[str, str]) -> list[_Told]:
        """Where sentences say in other words what a statement says. Of what is live, the words are noted."""
        counts: Counter[str] = Counter()
        for word, count in Counter(self.words.norms).items():
            counts[stems[word]] += count
        index: dict[str, list[_Statement]] = {}
        for each in sorted(statements, key=lambda one: not one.live):  # by words of which one must be there
            rare = sorted(each.needed or each.stems, key=lambda word: (counts[word], word))
            for word in rare[: 1 if each.needed else len(each.stems) - each.least + 1]:
                index.setdefault(word, []).append(each)
        found: list[_Told] = []
        norms = self.words.norms
        telling = {word for word, stemmed in stems.items() if stemmed in index}
        for first, last in self.layout.units():
            own = norms[first : last + 1]
            if telling.isdisjoint(own):
                continue
            said = {stems[word] for word in own}
            likely = dict.fromkeys(islice((each for word in own for each in index.get(stems[word], ())), COMPARED))
            self.unsure |= len(likely) == COMPARED
            for each in likely:
                if not each.is_in(said):
                    continue
                places = [place for place, word in enumerate(own, first) if stems[word] in each.stems]
                if not each.live:
                    found.append(_Told(places, (each.fact,)))
                for place in places if each.live else ():
                    self.live[place] = 1
        return found

    def cuts(self) -> list[Cut]:
        """In no order; they may lie on one another."""
        found: dict[tuple[int, int, bool], set[int]] = {}
        regions: dict[tuple[int, int], set[int] | None] = {}
        """The owners of what is cut from each clause that tells nothing live; None for one that does."""
        for told in self.told():
            first, last = told.places[0], told.places[-1]
            region = self.layout.region(first, last)
            if region not in regions:
                self.unsure |= bool(self.known.statements) and self.layout.is_long(first, last)
                regions[region] = set() if self.live.find(1, region[0], region[1] + 1) < 0 else None
            cut = regions[region]
            if cut is not None and cut.issuperset(told.owners):
                continue
            whole = cut is not None and not self._quoted(told)
            if cut is not None and whole:
                cut.update(told.owners)
            for start, stop in (self._clause(*region, first, last),) if whole else self._parts(told.places):
                found.setdefault((start, stop, whole), set()).update(told.owners)
        for span, at in self._dead(self.spans):
            start, stop = max(span.start, 0), min(span.stop, len(self.text))
            behind = bisect_right(self.words.stops, start)
            wordless = behind == len(self.words.starts) or self.words.starts[behind] >= stop
            asked = any(low <= start < high for low, high in self.questions)
            if wordless and not asked and any(unicodedata.category(each) == "So" for each in self.text[start:stop]):
                found.setdefault((start, stop, False), set()).add(at)
        return [self._cut(*place, sorted(owners)) for place, owners in found.items()]

    def _clause(self, low: int, high: int, first: int, last: int) -> tuple[int, int]:
        """The characters of whole clauses, without the markers at their ends."""
        while low < first and self.words.norms[low] == GAP:
            low += 1
        while high > last and self.words.norms[high] == GAP:
            high -= 1
        return self._extent(low, high)

    def _quoted(self, told: _Told) -> bool:
        """Whether a value stands by itself, in quotation marks or as JSON: then the rest is not part of it."""
        if not isinstance(told.places, range) or any(self.known.facts[at].standing == "withheld" for at in told.owners):
            return False
        start, stop = self._extent(told.places[0], told.places[-1])
        behind = told.places[-1] + 1
        if self.words.norms[behind : behind + 1] == [GAP] and self.text.startswith(_NOTE, stop):
            stop = self.words.stops[behind]
        before = self.text[max(start - 3, 0) : start]
        return before.endswith(('":', '": ')) or (before[-1:] + self.text[stop : stop + 1]) in ('""', "“”")

    def _parts(self, places: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The characters of the words that tell it, but for those that have to stay; if all have to, what stands between
        two of them."""
        sentences = self.layout.sentences
        stay = self.kept if isinstance(places, range) else self.live
        here = slice(places[0], places[-1] + 1)
        self.unsure |= stay is self.kept and self.live[here] != self.kept[here]
        low = high = -1
        for place in places:
            if stay[place]:
                continue
            if low >= 0 and (stay.find(1, high, place) >= 0 or sentences[high] != sentences[place]):
                yield self._extent(low, high)
                low = -1
            low, high = place if low < 0 else low, place
        if low >= 0:
            self.unsure |= self.layout.clauses[low] != self.layout.clauses[high]
            yield self._extent(low, high)
        else:
            between = self.words.stops[self.bridged.find(0, places[0], places[-1])]
            yield between, between

    def _extent(self, first: int, last: int) -> tuple[int, int]:
        """The characters of words, with a sign that belongs to them."""
        start, stop = self.words.starts[first], self.words.stops[last]
        start -= start > 0 and self.text[start - 1] in _SIGNS
        stop += stop < len(self.text) and self.text[stop] in _SIGNS
        return start, stop

    def _cut(self, start: int, stop: int, whole: bool, owners: Sequence[int]) -> Cut:
        facts, keys = self.known.facts, self.known.keys
        withheld = any(facts[at].standing == "withheld" for at in owners)
        key = "" if withheld else next((keys[at] for at in owners if at in keys), "")
        mute = not key and (("withheld" if withheld else "outdated"),) in self.known.dead
        return Cut(start, stop, tuple(facts[at].id for at in owners), key, withheld, whole, mute)
