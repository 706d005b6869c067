"""The guard of the history view: items and texts without superseded and withheld values.

Laws:
- If no fact has to be guarded, every item comes back unchanged.
- For an ended fact, only text from before its end in the log is looked at, and nothing of the current turn.
- The arguments of a call and the signed parts of a provider are never edited: a note is added to them.
- Of what the reader may not know, nothing is shown: no id, no key, no number. A value that readers typed themselves
  stays, so that a right guess looks like a wrong one.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import msgspec

from holdfast import codec
from holdfast.core.history.guard_trace import GuardPlacement, move_into_json, place_statements, split_into_parts
from holdfast.core.history.views import pieces_of
from holdfast.model import limits
from holdfast.model.content import Body, Data, Json, Opaque, Part, Text, ToolResult, text_of
from holdfast.model.history.plans import Redaction
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.names import LedgerId
from holdfast.model.packs.pack import Exposure, GuardMode
from holdfast.model.rows import FactRow
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.text.guard import finder
from holdfast.text.guard.patterns import GuardFact, GuardStatement, ValueSpan

_WITHHELD_NOTE = "[A call or a signed part is left out here: the reader may not see what it states.]"


class FactEnd(msgspec.Struct, frozen=True):
    """The end of a fact that may not be shown."""

    fact: str
    key: str
    ledger: tuple[str, ...]
    seq_before_end: int = 0
    """The last event of the session before the fact ended: later text is not looked at for it."""
    seq_before_assertion: int = 0
    """The last event in view before it was asserted; 0 if it was known before the view begins."""
    withheld: bool = False
    deferred: bool = False
    """It ended after the last boundary, and the policy leaves its value in view until the next one."""
    sources: frozenset[str] = frozenset()
    """The ids of the messages and calls that it came from."""
    ended_seq: int = 0
    """The event of its ledger that ended it; 0 if only a clock says when."""
    ended_us: int = 0


class AnchoredFacts(NamedTuple):
    """The facts of a ledger, live and ended, with an anchor among some terms. The newest come first."""

    terms: Set[str] = frozenset()
    plain: Sequence[FactRow] = ()
    common: Sequence[FactRow] = ()
    """Those with common words alone, and those of several values."""


class GuardMemory:
    """What the guard read and found for a view. The facts of a term that was in the view before are not read again while
    their ledger has the same version. Nor is a text that was in the view before, with the same facts, searched again."""

    def __init__(self, before: GuardMemory | None = None) -> None:
        self.facts: dict[tuple[LedgerId, int], AnchoredFacts] = {}
        """By ledger and its version."""
        self.facts_before = {} if before is None else before.facts
        self.current: dict[tuple[LedgerId, int], tuple[Sequence[str], Sequence[FactRow]]] = {}
        """The live facts of keys, by the same."""
        self.current_before = {} if before is None else before.current
        self._statements_before = {} if before is None else before.statements
        self.statements: dict[str, tuple[tuple[object, ...], tuple[GuardStatement, ...]]] = {}
        """By text, with the other arguments of the search."""

    def find(self, text: str, facts: Sequence[GuardFact], **arguments: Any) -> tuple[GuardStatement, ...]:
        known = self._statements_before.get(text)
        if known is None or known[0] != (facts, arguments):
            known = (facts, arguments), finder.find_statements(text, facts, **arguments)
        self.statements[text] = known
        return known[1]

    def forget_before(self) -> None:
        """Remove what is only of the view before: a fact of it may have been erased."""
        self.facts_before, self.current_before, self._statements_before = {}, {}, {}


class GuardInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a view may not show, and what has to stay: loaded once, for the text in view."""

    policy: GuardMode
    facts: tuple[GuardFact, ...] = ()
    """Live ones too: their values are protected."""
    endings: dict[str, FactEnd] = msgspec.field(default_factory=dict)
    """By the ids of the facts that may not be shown."""
    spans: dict[int, tuple[ValueSpan, ...]] = msgspec.field(default_factory=dict)
    """The values of facts in messages, by the seq of the message, in characters of its text as it is shown."""
    by_term: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """The indexes of the facts of a term."""
    current_values: dict[str, str] = msgspec.field(default_factory=dict)
    """The current values for the keys of superseded facts, as text."""
    turn: int = 0
    """The first event of the current turn, which keeps superseded values; 0 if there is none."""
    typed_seqs: dict[str, int] = msgspec.field(default_factory=dict)
    """For withheld facts whose value a user typed: the first such message."""
    opaque_texts: dict[str, str] = msgspec.field(default_factory=dict)
    """The texts of signed parts in the blob store, by digest."""
    memory: GuardMemory = msgspec.field(default_factory=GuardMemory)
    is_traced: bool = False
    """Note where each value is in the texts that are shown."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to guard."""
        return not self.endings


class GuardedItems(msgspec.Struct, frozen=True):
    """Items as they may be shown."""

    items: tuple[HistoryItem, ...]
    redacted: tuple[Redaction, ...] = ()
    exposed: tuple[Exposure, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    """The tokens of the items before and after; 0 if there was nothing to guard."""
    superseded: tuple[str, ...] = ()
    """The ids of the ended facts in the items."""
    hidden: tuple[Exposure, ...] = ()
    """The ended facts of `redacted`."""
    placements: tuple[GuardPlacement, ...] = ()
    """Where the ended facts are, if that was asked for."""


# The texts of items


def iter_parts(items: Sequence[HistoryItem]) -> Iterator[Part]:
    for item in items:
        for message in item.messages if isinstance(item, MessageGroup) else ():
            for _, parts, _ in pieces_of(message):
                yield from parts


def iter_texts(items: Sequence[HistoryItem], opaque: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """All texts that are looked at, each with the seq of its message; of a summary, with the last seq that it covers."""
    for item in items:
        if isinstance(item, Summary):
            yield item.last, item.text
            continue
        for message in item.messages:
            yield message.seq, message.text
            for call in message.tool_calls:
                yield message.seq, json_lines(call.args)
            for part in iter_parts([MessageGroup((message,))]):
                if isinstance(part, Opaque):
                    yield message.seq, _read_opaque(part, opaque)
                elif isinstance(part, Data):
                    yield message.seq, json_lines(part.value)


def _read_opaque(part: Opaque, opaque: Mapping[str, str]) -> str:
    body = part.body if isinstance(part.body, str) else opaque.get(part.body.digest, "")
    try:
        return json_lines(msgspec.json.decode(body))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return body


def json_lines(value: Json) -> str:
    """A JSON value as text: a line for each value in it, after its name."""
    return "\n".join(
        f"{name}: {_leaf_text(leaf)}" if name else _leaf_text(leaf) for name, leaf in _named_leaves("", value)
    )


def _leaf_text(leaf: Json) -> str:
    return leaf if isinstance(leaf, str) else msgspec.json.encode(leaf).decode()


def _named_leaves(name: str, value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _named_leaves(key, child)
    elif isinstance(value, list):
        for child in value:
            yield from _named_leaves(name, child)
    else:
        yield name, value


# Redactions of one message or summary


class _RedactionReport:
    """What was redacted in one message or summary."""

    def __init__(
        self,
        guard_input: GuardInput,
        at: int,
        first: int,
        last: int,
        *,
        typed: bool = False,
        ids: frozenset[str] = frozenset(),
        statements: dict[str, str] | None = None,
        data: bool = False,
    ) -> None:
        self._input, self.at, self._typed, self._ids, self._data = guard_input, at, typed, ids, data
        self._earlier_statements = statements
        """What was stated before, if the assistant speaks."""
        self._first, self._last = first, last
        """The events that its text comes from."""
        self.facts: dict[str, None] = {}
        self._marks: list[tuple[str, str, bool, bool]] = []
        self.exposed: dict[str, None] = {}
        self.statements: dict[str, str] = {}
        """The facts that it states for certain, and the noun behind each: the assistant may repeat them later."""
        self.must_hide = False
        """A part that cannot be edited states a withheld value."""
        self.placements: list[GuardPlacement] = []
        self.call, self.part = "", 0
        """The part that is looked at, and the call whose result it is in; empty for none."""
        self._left: Sequence[GuardStatement] = ()
        """The statements of the last text that stay as they are."""

    def guard_text(
        self, text: str, spans: Sequence[ValueSpan] = (), before: str = "", label: str = "", *, offset: int = 0
    ) -> str:
        """A text as it may be shown. `offset` is its position in the part."""
        statements = self.find_statements(text, spans, before, label)
        shown = finder.edit_text(text, statements, self._input.policy) if statements else text
        if self._input.is_traced and (statements or self._left):
            placed = place_statements(text, statements, self._left, self._input.policy)
            self.placements += (
                GuardPlacement(self.at, self.call, self.part, start + offset, stop + offset, one.ids, mode, shown)
                for one, start, stop, mode in placed
            )
        return shown

    def find_statements(
        self, text: str, spans: Sequence[ValueSpan] = (), before: str = "", label: str = "", *, editable: bool = True
    ) -> tuple[GuardStatement, ...]:
        self._left = ()
        facts = find_candidate_facts(self._input, text, self._first, self._last, spans, typed=self._typed, label=label)
        if not facts:
            return ()
        endings = self._input.endings
        names = {fact.id for fact in facts}
        sources = [fact.id for fact in facts if fact.id in endings and endings[fact.id].sources & self._ids]
        statements = self._input.memory.find(
            text,
            facts,
            spans=[span for span in spans if span.id in names],
            sources=sources,
            echoes={
                name: (self._earlier_statements or {}).get(name, "")
                for name in names & endings.keys()
                if self._is_echo(name)
            },
            offers=[name for name in names & endings.keys() if self._is_offer(name)],
            before=before,
            label=label,
            data=self._data,
        )
        exposed = [one for one in statements if one.action != "withhold" and self._is_exposed(one)]
        self.exposed |= dict.fromkeys(name for one in exposed for name in one.ids if name in endings)
        guarded = [self._soften_late(one) for one in statements if one not in exposed]
        if self._input.is_traced:
            self._left = [one for one in (*exposed, *guarded) if one in exposed or self._input.policy == "off"]
        guarded = [one for one in guarded if one.action == "withhold" or self._input.policy != "off"]
        edited = [one for one in guarded if not editable or finder.is_edited(text, one, self._input.policy)]
        self._marks += ((one.key, one.action if editable else "beside", one.certain, one.replaced) for one in edited)
        self.facts |= dict.fromkeys(name for one in guarded if one.action != "withhold" for name in one.ids)
        for one in guarded:
            self.statements |= dict.fromkeys(one.ids, finder.noun_after(text, one.stop)) if one.certain else {}
        return tuple(guarded)

    def _soften_late(self, statement: GuardStatement) -> GuardStatement:
        """A fact that ended while the text came about may be stated from after its end: it gets a note."""
        endings = self._input.endings
        if statement.action == "redact" and any(endings[name].seq_before_end < self._last for name in statement.ids):
            return statement._replace(action="annotate", certain=False)
        return statement

    def _is_echo(self, name: str) -> bool:
        """Whether the assistant speaks, and the fact was stated before."""
        return self._earlier_statements is not None and (
            name in self._earlier_statements or 0 < self._input.endings[name].seq_before_assertion < self._first
        )

    def _is_offer(self, name: str) -> bool:
        """Whether the assistant speaks of a value that became a fact only later."""
        return self._earlier_statements is not None and self._first <= self._input.endings[name].seq_before_assertion

    def _is_exposed(self, statement: GuardStatement) -> bool:
        """Whether a statement stays: in the current turn, or until the next boundary."""
        in_turn = 0 < self._input.turn <= self._first
        return in_turn or all(self._input.endings[name].deferred for name in statement.ids)

    def find_keys_beside(self, text: str, call: str = "") -> tuple[str, ...]:
        """The keys whose superseded values are in a text that cannot be edited: a signed part, or the arguments of a
        call."""
        statements = self.find_statements(text, editable=False)
        if self._input.is_traced:
            known = [one for one in (*statements, *self._left) if one.action != "withhold"]
            self.placements += (
                GuardPlacement(self.at, call, 0, 0, 0, one.ids, "exposed" if one in self._left else "annotated")
                for one in known
            )
        self.must_hide |= any(statement.action == "withhold" for statement in statements)
        return tuple(dict.fromkeys(statement.key for statement in statements if statement.action != "withhold"))

    def mark_collapse(self) -> None:
        self._marks.append(("", "collapse", True, False))

    @property
    def redacted(self) -> Redaction | None:
        if not self._marks:
            return None
        mark = hashlib.sha256(codec.encode(self._marks)).hexdigest()[:8]
        return Redaction(self.at, tuple(self.facts)[: limits.REDACTED_FACTS], mark)


def find_candidate_facts(
    guard_input: GuardInput,
    text: str,
    first: int,
    last: int,
    spans: Sequence[ValueSpan] = (),
    *,
    typed: bool = False,
    label: str = "",
) -> list[GuardFact]:
    """The facts that a text from these events may state; none if there is nothing to guard in it."""
    facts = find_facts_by_terms(guard_input, text, spans, label)
    candidates = [fact for fact in facts if fact.status == "live" or _is_barred(guard_input, fact, first, last, typed)]
    return candidates if any(fact.status != "live" for fact in candidates) else []


def find_facts_by_terms(
    guard_input: GuardInput, text: str, spans: Sequence[ValueSpan] = (), label: str = ""
) -> list[GuardFact]:
    """The facts with a term that a text has, or with a span in it."""
    terms = finder.lookup_terms(text) | (finder.lookup_terms(label) if label else frozenset())
    if not spans and guard_input.by_term.keys().isdisjoint(terms):
        return []
    indexes = {at for term in terms & guard_input.by_term.keys() for at in guard_input.by_term[term]}
    named = {span.id for span in spans}
    indexes |= {at for at, fact in enumerate(guard_input.facts) if fact.id in named} if named else set()
    return [guard_input.facts[at] for at in sorted(indexes)]


def _is_barred(guard_input: GuardInput, fact: GuardFact, first: int, last: int, typed: bool) -> bool:
    """Whether a fact may not be shown in a text from these events."""
    ending = guard_input.endings[fact.id]
    if ending.withheld:
        return not typed and not 0 < guard_input.typed_seqs.get(fact.id, 0) <= last
    return first <= ending.seq_before_end


# Items


def guard_items(guard_input: GuardInput, items: Sequence[HistoryItem], count: Callable[[str], int]) -> GuardedItems:
    """The items as they may be shown; the tokens of changed ones are counted again."""
    if guard_input.is_idle:
        return GuardedItems(tuple(items))
    shown: list[HistoryItem] = []
    reports: list[_RedactionReport] = []
    before, statements = "", dict[str, str]()
    for item in items:
        if isinstance(item, Summary):
            shown.append(_guard_summary(guard_input, item, count, reports))
        elif (text := _find_clear_text(guard_input, item)) is not None:
            shown.append(item)
            before = text
        else:
            shown.append(_guard_group(guard_input, item, count, reports, before, statements))
            before = item.messages[-1].text
    redacted = {report.at: redaction for report in reports if (redaction := report.redacted) is not None}
    exposed = {(report.at, name): None for report in reports for name in report.exposed}
    return GuardedItems(
        tuple(shown),
        tuple(redacted[at] for at in sorted(redacted)),
        tuple(_build_exposure(guard_input, at, name) for at, name in exposed),
        sum(item.tokens for item in items),
        sum(item.tokens for item in shown),
        tuple(dict.fromkeys(name for report in reports for name in (*report.facts, *report.exposed))),
        tuple(_build_exposure(guard_input, at, name) for at in sorted(redacted) for name in redacted[at].facts),
        tuple(placement for report in reports for placement in report.placements),
    )


def _find_clear_text(guard_input: GuardInput, group: MessageGroup) -> str | None:
    """The text of a group that is one plain text, and can state no fact; None of any other."""
    message = group.messages[0]
    if len(group.messages) > 1 or len(message.content) != 1 or message.tool_calls or message.tool_results:
        return None
    (part,) = message.content
    if not isinstance(part, Text) or message.seq in guard_input.spans:
        return None
    return part.text if guard_input.by_term.keys().isdisjoint(finder.lookup_terms(part.text)) else None


def _build_exposure(guard_input: GuardInput, at: int, name: str) -> Exposure:
    ending = guard_input.endings[name]
    return Exposure(at=at, fact=ending.fact, ledger=ending.ledger, key=ending.key)


def guard_text(guard_input: GuardInput, text: str, seq: int, *, label: int = 0, annotate: bool = False) -> str:
    """A text that is built for each call, as it may be shown. It came with event `seq`. Its first `label` characters
    are the engine's own. With `annotate`, superseded values get a note and stay."""
    if guard_input.is_idle:
        return text
    facts = find_candidate_facts(guard_input, text, seq, seq)
    if 0 < guard_input.turn <= seq:
        facts = [fact for fact in facts if fact.status != "dead"]
    if all(fact.status == "live" for fact in facts):
        return text
    statements = [one for one in finder.find_statements(text, facts, sure=not annotate) if one.start >= label]
    if annotate:
        end = len(text.rstrip())
        statements = [one if one.action == "withhold" else one._replace(note_at=end) for one in statements]
    return finder.edit_text(text, statements, guard_input.policy) if statements else text


def has_withheld(guard_input: GuardInput, text: str) -> bool:
    """Whether a text states something that the reader may not know."""
    facts = [fact for fact in guard_input.facts if fact.status == "withheld"]
    return bool(facts) and bool(finder.find_statements(text, facts))


def _guard_summary(
    guard_input: GuardInput, item: Summary, count: Callable[[str], int], reports: list[_RedactionReport]
) -> Summary:
    report = _RedactionReport(guard_input, item.seq, item.first, item.last)
    text = report.guard_text(item.text)
    reports.append(report)
    return item if text == item.text else msgspec.structs.replace(item, text=text, tokens=count(text))


def _guard_group(
    guard_input: GuardInput,
    group: MessageGroup,
    count: Callable[[str], int],
    reports: list[_RedactionReport],
    before: str,
    statements: dict[str, str],
) -> HistoryItem:
    """`statements` are the facts that were stated before: those of this group are added."""
    own_reports = [_new_report(guard_input, message, statements) for message in group.messages]
    notes: dict[str, tuple[str, ...]] = {}
    messages: list[Message] = []
    for message, report in zip(group.messages, own_reports, strict=True):
        for call in message.tool_calls:
            notes[call.id] = report.find_keys_beside(json_lines(call.args), call.id)
        messages.append(_guard_message(guard_input, message, count, report, before, notes))
        before = message.text
        statements |= report.statements
    if any(report.must_hide for report in own_reports):
        return _collapse_group(guard_input, group, count, reports, statements)
    reports += own_reports
    if all(new is old for new, old in zip(messages, group.messages, strict=True)):
        return group
    return MessageGroup(tuple(messages), group.open)


def _new_report(guard_input: GuardInput, message: Message, statements: dict[str, str]) -> _RedactionReport:
    ids = frozenset((message.id, *(result.tool_call_id for result in message.tool_results)))
    seq, role = message.seq, message.role
    return _RedactionReport(
        guard_input,
        seq,
        seq,
        seq,
        typed=role == "user",
        ids=ids,
        statements=statements if role == "assistant" else None,
        data=role == "tool",
    )


def _guard_message(
    guard_input: GuardInput,
    message: Message,
    count: Callable[[str], int],
    report: _RedactionReport,
    before: str,
    notes: Mapping[str, tuple[str, ...]],
) -> Message:
    signed = [
        key
        for part in message.content
        if isinstance(part, Opaque)
        for key in report.find_keys_beside(_read_opaque(part, guard_input.opaque_texts))
    ]
    cursor = _SpanCursor("" if message.role == "assistant" else "\n", guard_input.spans.get(message.seq, ()))
    content = _guard_parts(message.content, report, cursor, before, joined=message.role == "assistant")
    if signed and guard_input.policy != "off":
        content = (*content, Text(_outdated_note("This message states", signed)))
    results = tuple(
        _guard_result(guard_input, result, report, cursor, notes.get(result.tool_call_id, ()))
        for result in message.tool_results
    )
    if content is message.content and all(new is old for new, old in zip(results, message.tool_results, strict=True)):
        return message
    before_parts = (*message.content, *(part for result in message.tool_results for part in result.content))
    after_parts = (*content, *(part for result in results for part in result.content))
    tokens = max(0, message.tokens - _count_parts(before_parts, count) + _count_parts(after_parts, count))
    return msgspec.structs.replace(message, content=content, tool_results=results, tokens=tokens)


def _outdated_note(subject: str, keys: Sequence[str]) -> str:
    named = ", ".join(dict.fromkeys(filter(None, keys)))
    return f"[{subject} an outdated value: {named}]" if named else f"[{subject} an outdated value]"


def _count_parts(parts: Sequence[Part], count: Callable[[str], int]) -> int:
    return sum(count(text_of([part])) for part in parts if isinstance(part, Text | Data | Body))


class _SpanCursor:
    """The position of each part of a message in the text of the message."""

    def __init__(self, between: str, spans: Sequence[ValueSpan]) -> None:
        self._between = len(between)
        self._spans = spans
        self._at = 0

    def take(self, text: str) -> list[ValueSpan]:
        """The spans in the next part, in its own characters."""
        start, stop = self._at, self._at + len(text)
        self._at = stop + self._between
        return _clip_spans(self._spans, start, stop)


def _clip_spans(spans: Sequence[ValueSpan], start: int, stop: int) -> list[ValueSpan]:
    """The parts of these spans between two characters, counted from the first."""
    return [
        ValueSpan(max(span.start, start) - start, min(span.stop, stop) - start, span.id)
        for span in spans
        if max(span.start, start) < min(span.stop, stop)
    ]


def _guard_result(
    guard_input: GuardInput, result: ToolResult, report: _RedactionReport, cursor: _SpanCursor, outdated: Sequence[str]
) -> ToolResult:
    report.call = result.tool_call_id
    content = _guard_parts(result.content, report, cursor, "")
    if outdated and guard_input.policy != "off":
        content = (*content, Text(_outdated_note("The arguments of this call contain", outdated)))
    return result if content is result.content else msgspec.structs.replace(result, content=content)


def _guard_parts(
    parts: tuple[Part, ...], report: _RedactionReport, cursor: _SpanCursor, before: str, *, joined: bool = False
) -> tuple[Part, ...]:
    """The parts as they may be shown; the same object if nothing changes. Consecutive parts of one text are looked at
    as one."""
    guarded: list[Part] = []
    for is_text, group in itertools.groupby(parts, key=lambda part: isinstance(part, Text)):
        run = list(group)
        if is_text and joined and len(run) > 1:
            report.part, mark = len(guarded), len(report.placements)
            joined_text = text_of(run, "")
            text = report.guard_text(joined_text, cursor.take(joined_text), before)
            if text == joined_text:
                texts = [part.text for part in run if isinstance(part, Text)]
                report.placements[mark:] = split_into_parts(report.placements[mark:], texts)
            guarded += run if text == joined_text else [Text(text)]
            continue
        for part in run:
            report.part = len(guarded)
            guarded.append(_guard_part(part, report, cursor, before))
    same = len(guarded) == len(parts) and all(one is two for one, two in zip(guarded, parts, strict=True))
    return parts if same else tuple(guarded)


def _guard_part(part: Part, report: _RedactionReport, cursor: _SpanCursor, before: str) -> Part:
    match part:
        case Text(text):
            shown = report.guard_text(text, cursor.take(text), before)
            return part if shown == text else Text(shown)
        case Body(preview=preview):
            spans, cut = cursor.take(preview), len(preview) - part.tail
            head = report.guard_text(preview[:cut], _clip_spans(spans, 0, cut))
            clipped = _clip_spans(spans, cut, len(preview))
            tail = report.guard_text(preview[cut:], clipped, offset=len(head)) if part.tail else ""
            shown = head + tail
            return part if shown == preview else msgspec.structs.replace(part, preview=shown, tail=len(tail))
        case Data(value):
            written = text_of([part])
            spans = cursor.take(written)
            if spans:
                shown = report.guard_text(written, spans)
                return part if shown == written else Text(shown)
            mark = len(report.placements)
            value = _guard_value("", value, report)
            if len(report.placements) > mark:
                encoded = text_of([Data(value)])
                report.placements[mark:] = move_into_json(report.placements[mark:], encoded)
            return part if value is part.value else Data(value)
    return part


def _guard_value(name: str, value: Json, report: _RedactionReport) -> Json:
    """A JSON value with its leaves as they may be shown; the same object if nothing changes."""
    if isinstance(value, dict):
        fields = {key: _guard_value(key, child, report) for key, child in value.items()}
        return value if all(fields[key] is child for key, child in value.items()) else fields
    if isinstance(value, list):
        items = [_guard_value(name, child, report) for child in value]
        return value if all(one is two for one, two in zip(items, value, strict=True)) else items
    text = _leaf_text(value)
    shown = report.guard_text(text, label=name)
    return value if shown == text else shown


def _collapse_group(
    guard_input: GuardInput,
    group: MessageGroup,
    count: Callable[[str], int],
    reports: list[_RedactionReport],
    statements: dict[str, str],
) -> Summary:
    """A group with a withheld value in a part that cannot be edited: as text, without the value."""
    lines = [_WITHHELD_NOTE]
    merged = _RedactionReport(guard_input, group.first, group.first, group.last)
    merged.mark_collapse()
    for message in group.messages:
        report = _new_report(guard_input, message, statements)
        text = _guard_message(guard_input, message, count, report, "", {}).text
        calls = (
            f"[called {call.name} with {_leaf_text(_guard_value('', call.args, report))}]"
            for call in message.tool_calls
        )
        lines.append(" ".join(filter(None, (f"{message.role}:", text, *calls))))
        merged.facts |= report.facts
        merged.placements += (each._replace(at=group.first, part=0, start=0, stop=0) for each in report.placements)
    reports.append(merged)
    text = "\n".join(lines)
    return Summary(
        seq=group.first,
        first=group.first,
        last=group.last,
        messages=group.count,
        text=text,
        tokens=count(text),
        replaced=group.replaced,
    )
