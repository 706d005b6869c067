"""The finder of superseded values in a text, and the edits that redact or annotate them.

Laws: the same text and facts give the same statements. A redaction replaces only the value; the rest of the sentence stays.
A value that may belong to a live fact is never changed. In lists, tables, JSON and code a replacement could falsify the
data, and elsewhere the fact may be uncertain: there a note is added and nothing is replaced. The note is true either way.

A text states a fact where the provenance of the fact says so, where a clause names both its key and its value, and where
its value is distinctive: see `patterns.Strength`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from holdfast.model.content import Json
from holdfast.model.packs.pack import GuardMode
from holdfast.text.cache import TextCache
from holdfast.text.guard.clauses import Clauses, KeyReference, roots_of
from holdfast.text.guard.patterns import (
    COMMON_WORDS,
    FLAGS,
    KEY_CHARS,
    YEAR,
    FactPatterns,
    GuardAction,
    GuardFact,
    GuardStatement,
    Strength,
    StretchCover,
    ValueLeaf,
    ValuePattern,
    ValueSpan,
    first_address_line,
    is_live,
    leaf_of,
    leaf_texts,
)
from holdfast.text.guard.subjects import KeySubject, root_of, subject_of
from holdfast.text.guard.terms import (
    GAP,
    NESTED,
    TYPED_MARKS,
    ClauseLayout,
    TermDetail,
    Terms,
    details_agree,
    find_occurrences,
)

ANCHOR_CHARS = 64
"""The characters of a term that rows are looked up by."""
COMPOSITE_ANCHOR = "*"
"""The anchor of a value with several parts."""
_NOUN = re.compile(r"\s([^\W\d_]{3,30})\b")
_LINE_WRAP = re.compile(r"[,;]?[^\S\n]*\n[^\S\n]*")
MARKER = re.compile(
    rf"\[(?:outdated(?:: [^\[\]\n]{{1,{KEY_CHARS}}})?|withheld"
    rf"|[^\[\]\n]{{1,{KEY_CHARS}}} (?:has changed since|no longer applies))\]"
)
"""The markers and notes that this module writes."""


# Lookup


def anchor_of(value: Json) -> str:
    """The most distinctive term of a value, for the lookup of its fact; empty if no term is distinctive enough."""
    best: tuple[int, int, str] = (0, 0, "")
    for leaf in leaf_texts(value):
        for norm in Terms(first_address_line(leaf) or leaf).norms:
            best = max(best, (_rank_term(norm), len(norm), norm[:ANCHOR_CHARS])) if _rank_term(norm) else best
    return best[2]


def _rank_term(norm: str) -> int:
    """How rare a term is: an exact value, a long number except a year, a longer word, any other term."""
    if norm == GAP or norm in COMMON_WORDS:
        return 0
    if norm[0] in "=+":
        return 4
    if norm[0] == "#" and len(norm) > 3 and not YEAR.fullmatch(norm):
        return 3
    return 2 if len(norm) > 3 else 1


def anchors_of(value: Json) -> tuple[str, ...]:
    """The anchors of the parts of a value."""
    anchors = (
        anchor_of(leaf) or max(lookup_terms(leaf), key=lambda norm: (len(norm), norm), default="")
        for leaf in leaf_texts(value)
    )
    return tuple(dict.fromkeys(filter(None, anchors)))


_lookup_cache: TextCache[frozenset[str]] = TextCache(32 << 20)
"""Enough for a view of 10,000 messages."""


def limit_lookups(size: int) -> None:
    """Keep at most about so many bytes of texts and their terms in memory."""
    _lookup_cache.limit(size)


def lookup_terms(text: str) -> frozenset[str]:
    """The terms that anchors are compared with. They are cached, because every model call reads the same texts."""
    terms = _lookup_cache.get(text)
    if terms is None:
        terms = frozenset(norm[:ANCHOR_CHARS] for norm in Terms(text).norms if norm != GAP)
        terms |= {prefix for norm in terms if norm[0] == "=" for prefix in _url_prefixes(norm)}
        days = {f"~{norm[1:]}" for norm in terms if norm[0] == "#"}
        terms |= days | {f"#{norm[1:]}" for norm in terms if norm[0] == "~"}  # the 6th may be March 6th
        terms |= {FLAGS[norm] for norm in terms & FLAGS.keys()}
        _lookup_cache.put(text, terms, 64 * len(terms))
    return terms


def _url_prefixes(url: str) -> Iterator[str]:
    at = url.find("/")
    while at > 0:
        yield url[:at]
        at = url.find("/", at + 1)


# Edits


def edit_text(text: str, statements: Sequence[GuardStatement], policy: GuardMode) -> str:
    """Redact or annotate the statements in a text. Withheld values are replaced under every policy."""
    parts: list[str] = []
    end = 0
    for (start, stop), new in sorted(list_edits(text, statements, policy).items()):
        parts += text[end:start], new
        end = max(end, stop)
    return "".join((*parts, text[end:])) if parts else text


def list_edits(text: str, statements: Sequence[GuardStatement], policy: GuardMode) -> dict[tuple[int, int], str]:
    """What replaces which characters of a text; a note replaces none."""
    edits: dict[tuple[int, int], str] = {}
    for statement in statements:
        if _is_replaced(statement, policy):
            edits[statement.start, statement.stop] = marker_of(statement)
        elif is_edited(text, statement, policy):
            at = (statement.note_at, statement.note_at)
            note = f" {_note_of(statement)}"
            edits[at] = edits[at] + note if at in edits and note not in edits[at] else note
    return edits


def is_edited(text: str, statement: GuardStatement, policy: GuardMode) -> bool:
    """Whether a statement changes the text: not if its note is already there."""
    if _is_replaced(statement, policy):
        return True
    return policy != "off" and not MARKER.match(text, statement.note_at + 1)


def _is_replaced(statement: GuardStatement, policy: GuardMode) -> bool:
    return statement.action == "withhold" or policy == "redact" == statement.action


def marker_of(statement: GuardStatement) -> str:
    """The text that replaces a value."""
    if statement.action == "withhold":
        return "[withheld]"
    return f"[outdated: {statement.key}]" if statement.key else "[outdated]"


def _note_of(statement: GuardStatement) -> str:
    if statement.certain or not statement.key:
        return f"[outdated: {statement.key}]" if statement.key else "[outdated]"
    return f"[{statement.key} {'has changed since' if statement.replaced else 'no longer applies'}]"


# Search


def find_statements(
    text: str,
    facts: Sequence[GuardFact],
    *,
    spans: Sequence[ValueSpan] = (),
    sources: Collection[str] = (),
    echoes: Mapping[str, str] = MappingProxyType({}),
    offers: Collection[str] = (),
    before: str = "",
    label: str = "",
    data: bool = False,
    sure: bool = True,
) -> tuple[GuardStatement, ...]:
    """Find the statements of superseded or withheld facts in a text, in order and without overlaps.

    `spans`: characters that state a fact, by its provenance. `sources`: ids of superseded or withheld facts whose
    provenance is the whole text. For the text of an assistant, `echoes` are the facts that it had read before, each with
    the noun behind its value there, and `offers` are the facts that were set later. `before`: the previous message, which
    may be a question. `label`: the JSON key of the text. In `data`, nothing is redacted. Without `sure`, no statement is
    certain."""
    patterns = FactPatterns(facts)
    if not patterns.not_live:
        return ()
    context = _TextContext(tuple(spans), frozenset(sources), echoes, frozenset(offers), data)
    statements = list(_StatementFinder(text, patterns, context, before, label).find_statements())
    if not sure:
        statements = [
            statement if statement.action == "withhold" else statement._replace(action="annotate", certain=False)
            for statement in statements
        ]
    return tuple(_merge_overlaps(statements))


def find_facts_by_value(text: str, facts: Sequence[GuardFact]) -> tuple[str, ...]:
    """The ids of the facts whose value is in a text, with any meaning."""
    matches = _StatementFinder(text, FactPatterns(facts), _TextContext()).find_matches()
    return tuple(dict.fromkeys(pattern.fact.id for match in matches for pattern in match.patterns))


def noun_after(text: str, at: int) -> str:
    """The root of the noun behind a number: `day` in `for 2 days`."""
    match = _NOUN.match(text, at)
    return root_of(match[1].lower()) if match else ""


def _merge_overlaps(statements: list[GuardStatement]) -> Iterator[GuardStatement]:
    """Sort statements and merge those that overlap; the stronger action wins."""
    rank = ("annotate", "redact", "withhold").index
    last: GuardStatement | None = None
    for statement in sorted(statements, key=lambda one: (one.start, -one.stop)):
        if last is None or statement.start >= last.stop:
            if last is not None:
                yield last
            last = statement
            continue
        stronger = rank(statement.action) > rank(last.action)
        first, other = (statement, last) if stronger else (last, statement)
        ids = tuple(dict.fromkeys((*first.ids, *other.ids)))
        start, stop = min(last.start, statement.start), max(last.stop, statement.stop)
        last = first._replace(start=start, stop=stop, ids=ids, note_at=max(last.note_at, statement.note_at))
    if last is not None:
        yield last


class _TermSelection:
    """Some of the terms of a text, as a sequence to search in."""

    def __init__(self, terms: Terms, indexes: Sequence[int]) -> None:
        self.norms = [terms.norms[at] for at in indexes]
        self._terms, self.indexes = terms, indexes

    def is_apart(self, first: int, last: int) -> bool:
        return self._terms.is_apart(self.indexes[first], self.indexes[last])


class _TextContext(NamedTuple):
    """The arguments of `find_statements` about the origin of a text."""

    spans: tuple[ValueSpan, ...] = ()
    sources: frozenset[str] = frozenset()
    echoes: Mapping[str, str] = MappingProxyType({})
    offers: frozenset[str] = frozenset()
    data: bool = False


class _TermMatch(NamedTuple):
    """Terms of a text that are the value of facts."""

    first: int
    last: int
    patterns: tuple[ValuePattern, ...]
    stop: int = 0
    """The end of a match within the last term, such as the first part of a URL."""


class _StatementFinder:
    """The search in one text."""

    def __init__(
        self, text: str, facts: FactPatterns, context: _TextContext, before: str = "", label: str = ""
    ) -> None:
        self.text, self.facts, self.context = text, facts, context
        self.terms = Terms(text, _find_markers(text, facts))
        self.clauses = Clauses(self.terms, before, label)

    def find_statements(self) -> Iterator[GuardStatement]:
        yield from self._read_spans()
        matches = list(self.find_matches())
        live = StretchCover((match.first, match.last) for match in matches if any(map(is_live, match.patterns)))
        source_matches = self._find_source_matches(matches)
        for index, match in enumerate(matches):
            patterns = [pattern for pattern in match.patterns if not is_live(pattern)]
            if not patterns or live.is_within_longer(match.first, match.last):
                continue
            live_facts = [pattern.fact for pattern in match.patterns if is_live(pattern)]
            sources = {fact_id for fact_id, indexes in source_matches.items() if index in indexes}
            verdicts = [
                (pattern.fact, self._judge(match, pattern, live_facts, pattern.fact.id in sources))
                for pattern in patterns
            ]
            yield from self._build_statements(match, verdicts)

    def _find_source_matches(self, matches: Sequence[_TermMatch]) -> dict[str, set[int]]:
        """For each fact from this text, the indexes of the matches that state it: those that name its key, or else all; of
        a number with several matches, none."""
        by_fact: dict[str, list[int]] = {}
        for index, match in enumerate(matches):
            for fact_id in {
                pattern.fact.id for pattern in match.patterns if not is_live(pattern)
            } & self.context.sources:
                by_fact.setdefault(fact_id, []).append(index)
        best: dict[str, set[int]] = {}
        for fact_id, indexes in by_fact.items():
            subject = subject_of(self.facts.not_live[fact_id].key)
            naming = {at for at in indexes if self.clauses.find_reference(matches[at].first, matches[at].last, subject)}
            is_number = any(self.terms.norms[matches[at].first][0] == "#" for at in indexes)
            best[fact_id] = naming or (set() if is_number and len(indexes) > 1 else set(indexes))
        return best

    def _read_spans(self) -> Iterator[GuardStatement]:
        """The statements in spans: each span is a value, whatever its words."""
        for span in self.context.spans:
            fact = self.facts.not_live.get(span.id)
            start, stop = max(span.start, 0), min(span.stop, len(self.text))
            if fact is not None and start < stop and not self._is_live(start, stop):
                yield self._build_statement(start, stop, [fact], certain=True)

    def _is_live(self, start: int, stop: int) -> bool:
        """Whether these characters are the value of a live fact."""
        leaf = leaf_of(self.text[start:stop])
        patterns = self.facts.patterns.get(leaf.norms, ()) if leaf else ()
        return any(map(is_live, patterns))

    def find_matches(self) -> Iterator[_TermMatch]:
        """Find the values of all facts, live ones too."""
        yield from self._find_url_matches()
        vocabulary = frozenset(self.terms.norms)
        candidates = sorted(norms for norms in self.facts.patterns if vocabulary.issuperset(norms))
        if not candidates:
            return
        single = [norms for norms in candidates if len(norms) == 1]
        several = [norms for norms in candidates if len(norms) > 1]
        for terms, patterns in (
            (_TermSelection(self.terms, self.terms.significant_indexes()), several),
            (_TermSelection(self.terms, range(len(self.terms.norms))), single),
        ):
            for first, last, at in find_occurrences(terms, patterns, NESTED):
                details = [self.terms.details.get(terms.indexes[index]) for index in range(first, last + 1)]
                low, high = terms.indexes[first], terms.indexes[last]
                fitting = tuple(
                    pattern for pattern in self.facts.patterns[patterns[at]] if self._fits(pattern, details, low, high)
                )
                if fitting:
                    yield _TermMatch(low, high, fitting)

    def _find_url_matches(self) -> Iterator[_TermMatch]:
        """Find URLs that begin with the URL of a fact."""
        for at, norm in enumerate(self.terms.norms):
            for prefix in _url_prefixes(norm) if norm[0] == "=" else ():
                if (prefix,) in self.facts.patterns:
                    start = self.terms.starts[at]
                    within = self.text[start : self.terms.stops[at]].lower().find(prefix[1:])
                    yield _TermMatch(at, at, tuple(self.facts.patterns[prefix,]), start + within + len(prefix) - 1)

    def _fits(self, pattern: ValuePattern, details: Sequence[TermDetail | None], first: int, last: int) -> bool:
        """Whether a match is in one sentence, and details such as the month or the currency agree."""
        if not pattern.leaf.stops and not self._is_one_sentence(first, last):
            return False
        if pattern.day:
            kinds = {detail.kind for detail in (*details, *pattern.leaf.details) if detail is not None}
            return "ordinal" in kinds and "date" in kinds and not self.clauses.counts_noun(last)
        return all(details_agree(one, other) for one, other in zip(pattern.leaf.details, details, strict=True))

    def _is_one_sentence(self, first: int, last: int) -> bool:
        """Whether terms are in one sentence, which may be wrapped."""
        sentences = self.clauses.layout.sentences
        ends = (at for at in range(first, last) if sentences[at] != sentences[at + 1])
        return all(_LINE_WRAP.fullmatch(self.text, self.terms.stops[at], self.terms.starts[at + 1]) for at in ends)

    # Verdicts: True for a certain statement, False for an uncertain one, None for none

    def _judge(
        self, match: _TermMatch, pattern: ValuePattern, live_facts: Sequence[GuardFact], is_source: bool
    ) -> bool | None:
        """Judge whether a match states a fact. `live_facts` have the same value."""
        fact, leaf = pattern.fact, pattern.leaf
        clauses, span, subject = self.clauses, (match.first, match.last), subject_of(fact.key)
        distinctive = leaf.strength is Strength.DISTINCTIVE
        if not live_facts and (is_source or (distinctive and fact.id not in self.context.offers)):
            return True
        reference = clauses.find_reference(*span, subject)
        if live_facts and (not reference or any(self._may_mean(match, live, fact) for live in live_facts)):
            return None
        if is_source or distinctive:
            return fact.id not in self.context.offers
        if leaf.strength is Strength.COMMON:
            return self._judge_common(match, pattern, subject, reference)
        if self._is_beside_current_value(match, fact):
            return True
        in_longer_name = leaf.details[0] is None and clauses.is_in_longer_name(*span)
        if reference and self._is_same_case(match, leaf, key_named=True):
            return reference == "direct" and not in_longer_name and not self._is_doubtful(match, leaf)
        if fact.id in self.context.echoes:
            return leaf.details[0] is not None
        if in_longer_name or not self._is_same_case(match, leaf, key_named=False):
            return None
        return self._judge_unnamed(match, leaf, fact, subject)

    def _judge_unnamed(self, match: _TermMatch, leaf: ValueLeaf, fact: GuardFact, subject: KeySubject) -> bool | None:
        """Judge a name or a precise value in a clause that does not name its key."""
        clauses = self.clauses
        if fact.status == "withheld":
            return True
        if clauses.is_about_other_owner(*clauses.clause(match.first), subject) or fact.id in self.context.offers:
            return None
        detail = leaf.details[0]
        if detail is not None and detail.kind == "amount" and not detail.exact[0] and clauses.counts_noun(match.last):
            return None
        if leaf.strength is Strength.TYPED or clauses.is_beside(match.first, match.last, subject):
            return False
        return False if clauses.is_about_owner(match.first, subject) else None

    def _judge_common(
        self, match: _TermMatch, pattern: ValuePattern, subject: KeySubject, reference: KeyReference
    ) -> bool | None:
        """Judge a short or everyday value: it must be next to its key."""
        clauses, leaf, fact = self.clauses, pattern.leaf, pattern.fact
        near = clauses.is_near(match.first, match.last, subject, ahead=leaf.norms[0] in FLAGS)
        if reference and (near or len(leaf.norms) > 1):
            return reference == "direct" or (near and not clauses.label_roots and leaf.details[0] is not None)
        if fact.id in self.context.echoes and self._is_echo(match, pattern):
            return False
        is_typed = leaf.norms[0][0] in TYPED_MARKS
        if not is_typed and fact.status == "dead" and clauses.is_after_self_verb(match.first, subject):
            return False
        return None

    def _is_doubtful(self, match: _TermMatch, leaf: ValueLeaf) -> bool:
        """Whether a clause may stay true of the old value: an answer with figures, a dated past, an alternative."""
        if leaf.details[0] is not None:
            return False
        clauses = self.clauses
        figures = clauses.has_figures(match.first, match.last)
        return figures or clauses.is_dated(match.first) or clauses.is_alternative(match.first)

    def _is_beside_current_value(self, match: _TermMatch, fact: GuardFact) -> bool:
        """Whether the sentence also states the current value of the key: `it's Meier, not Meyer`."""
        current = self.facts.live_values.get(fact.key, ())
        if fact.status != "dead" or not current:
            return False
        low, high = self.clauses.sentence(match.first)
        sentence = frozenset(self.terms.norms[low : high + 1])
        return any(sentence.issuperset(norms) for norms in current)

    def _may_mean(self, match: _TermMatch, live: GuardFact, dead: GuardFact) -> bool:
        """Whether a clause may mean the live fact with the same value: it names its key at least as well."""
        if live.key == dead.key:
            return True
        one, other = subject_of(live.key), subject_of(dead.key)
        stems = self.clauses.roots_around(match.first, match.last)
        reference = self.clauses.find_reference(match.first, match.last, one)
        return reference != "" and one.count(stems) >= other.count(stems)

    def _is_echo(self, match: _TermMatch, pattern: ValuePattern) -> bool:
        """Whether a common value that the assistant had read is likely the same one: a rarer word, a time, a weekday, a day
        of a month. A bare number may count anything, except in `a table for 3` or before the same noun."""
        detail = self.terms.details.get(match.first)
        if pattern.leaf.norms[0][0] == "#" and len(pattern.leaf.norms) == 1:
            ahead = self.terms.norms[match.first - 1] if match.first else ""
            if ahead == "for" and not self.clauses.counts_noun(match.last):
                return True
            noun = self.context.echoes[pattern.fact.id]
            if noun and noun == self.clauses.noun_after(match.last):
                return True
        if detail is None:
            return any(len(norm) > 3 and norm not in COMMON_WORDS and norm[0] != "#" for norm in pattern.leaf.norms)
        is_day = detail.kind == "ordinal" and not self.clauses.counts_noun(match.last)
        return is_day or detail.kind in ("time", "weekday", "date")

    def _is_same_case(self, match: _TermMatch, leaf: ValueLeaf, *, key_named: bool) -> bool:
        """Whether a name is capitalised as such: `orange` is not Orange. A text in lower case may still mean the name if it
        names the key."""
        if not leaf.capital or self.text[self.terms.starts[match.first]].isupper():
            return True
        return key_named and not any(map(str.isupper, self.text))

    # Statements

    def _build_statements(
        self, match: _TermMatch, verdicts: Sequence[tuple[GuardFact, bool | None]]
    ) -> Iterator[GuardStatement]:
        start, stop = self.terms.starts[match.first], match.stop or self.terms.stops[match.last]
        for certain in (True, False):
            facts = [fact for fact, verdict in verdicts if verdict is certain]
            if facts:
                statement = self._build_statement(start, stop, facts, certain=certain)
                if statement.action == "redact" and "\n" in self.text[start:stop]:  # maybe two values, in two lines
                    statement = statement._replace(action="annotate")
                yield statement._replace(note_at=max(statement.note_at, self.terms.stops[match.last]))
                return

    def _build_statement(self, start: int, stop: int, facts: Sequence[GuardFact], *, certain: bool) -> GuardStatement:
        structure = self.clauses.structure
        withheld = any(fact.status == "withheld" for fact in facts)
        form = structure.form_at(start, stop)
        note_at = structure.line_end(stop) if form == "code" and "\n" in self.text else stop
        note_at += 2 if self.text[note_at : note_at + 2] in ("'s", "’s") else 0
        is_data = form != "prose" or bool(self.clauses.label_roots) or self.context.data
        action: GuardAction = "withhold" if withheld else "redact" if certain and not is_data else "annotate"
        dead = next((fact for fact in facts if fact.status == "dead"), None)
        key = dead.key.strip() if dead and not withheld and self.facts.is_nameable(dead.key) else ""
        replaced = dead is not None and dead.replaced
        return GuardStatement(start, stop, tuple(fact.id for fact in facts), key, action, certain, replaced, note_at)


def _find_markers(text: str, facts: FactPatterns) -> list[tuple[int, int]]:
    """The markers of this module, which are not read again. With withheld facts everything is read, because any text can
    imitate a marker."""
    if "[" not in text or any(fact.status == "withheld" for fact in facts.not_live.values()):
        return []
    return [marker.span() for marker in MARKER.finditer(text)]


# Questions about the past

_PAST = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|earlier|old|original(?:ly)?|prior|before|used to|until (?:now|today|recently)"
    r"|no longer|any ?more|back then|at first|initially|was|were|had|did)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\?|\b(?:what|which|where|who|when|how)\b|\b(?:tell|show|give|list|remind|find|look up|need)\b", re.IGNORECASE
)
_PAST_OF_PRONOUN = re.compile(
    r"\b(?:what|which|who|where)\b[^?.\n]{0,40}\b(?:was|were|did|had)\b[^?.\n]{0,40}\b(?:it|that)\b", re.IGNORECASE
)
_PAST_CHARS = 2_000


def find_past_keys(question: str, keys: Collection[str], in_view: Collection[str] = ()) -> list[str]:
    """Find the keys whose earlier values a question asks for: "what was my old address?".

    A sentence must be about the past and name the key. A question about "it" that names no key may mean any key
    `in_view`."""
    text = question[:_PAST_CHARS]
    sentences = _read_past_sentences(text) if keys or in_view else ()
    if not sentences:
        return []
    named_keys = [key for key in keys if any(map(subject_of(key).may_be_meant, sentences))]
    return named_keys or (list(in_view) if _PAST_OF_PRONOUN.search(text) else [])


@functools.lru_cache(maxsize=1 << 6)
def _read_past_sentences(text: str) -> tuple[frozenset[str], ...]:
    """The stems of each sentence about the past in a text that asks for something. Cached, because a question is often
    that of the call before."""
    if _PAST.search(text) is None or _REQUEST.search(text) is None:
        return ()
    terms = Terms(text)
    roots, layout = roots_of(terms), ClauseLayout(terms)
    return tuple(
        frozenset(roots[first : last + 1])
        for first, last in zip(layout.sentence_firsts, layout.sentence_lasts, strict=True)
        if _PAST.search(text, terms.starts[first], terms.stops[last])
    )
