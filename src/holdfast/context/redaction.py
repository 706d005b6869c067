"""Views without superseded values: the guard, applied to the items of a conversation and to the texts behind them.

Laws: without a fact that may not be shown every item comes back as it is. Only text that stands in the log before the end
of a fact is looked at for it, and nothing of the current turn. The arguments of a call and the signed parts of a provider
are never edited: a note stands beside them. Of what the reader may not know, nothing comes out: no id, no key, no number;
and what readers typed themselves stays as they typed it, so that a right guess looks like a wrong one.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from holdfast import codec
from holdfast.core import guard
from holdfast.core.patterns import Span, Stated, Statement
from holdfast.core.shown import pieces_of
from holdfast.model import limits
from holdfast.model.content import Body, Data, Json, Opaque, Part, Text, ToolResult, text_of
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.pack import Exposure, Guard
from holdfast.model.plan import Redacted

_LEFT_OUT = "[A call or a signed part is left out here: the reader may not see what it states.]"


class Ending(msgspec.Struct, frozen=True):
    """What else is known of a fact that may not be shown."""

    fact: str
    key: str
    ledger: tuple[str, ...]
    last: int = 0
    """The last event of the session's stream before the fact ended: what came later is not looked at for it."""
    asserted: int = 0
    """The last one in view before it was asserted; 0 if it was known before the view begins."""
    withheld: bool = False
    deferred: bool = False
    """It ended after the last boundary, and the policy leaves it in place until the next one."""
    sources: frozenset[str] = frozenset()
    """The messages and calls that it came from, by their ids."""


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What a view may not show, and what it must not lose by that: looked up once, for the text in view."""

    policy: Guard
    facts: tuple[Stated, ...] = ()
    """Live ones too: their values are protected."""
    endings: dict[str, Ending] = msgspec.field(default_factory=dict)
    """By the ids of the facts that may not be shown."""
    spans: dict[int, tuple[Span, ...]] = msgspec.field(default_factory=dict)
    """Where messages state facts, by the seq of the message, in characters of its text as it is shown."""
    by_term: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """The places of the facts that a term leads to."""
    current: dict[str, str] = msgspec.field(default_factory=dict)
    """What holds now for the keys of superseded facts, as text."""
    turn: int = 0
    """The first event of the current turn; from there on superseded values are left alone. 0: there is none."""
    typed: dict[str, int] = msgspec.field(default_factory=dict)
    """For withheld facts whose value the reader typed: the message in which they first did."""
    opaque: dict[str, str] = msgspec.field(default_factory=dict)
    """The texts of signed parts in the blob store, by their digests."""

    @property
    def is_idle(self) -> bool:
        """There is nothing to keep out."""
        return not self.endings


class Guarded(msgspec.Struct, frozen=True):
    """Items as they may be shown."""

    items: tuple[Item, ...]
    redacted: tuple[Redacted, ...] = ()
    exposed: tuple[Exposure, ...] = ()
    original: int = 0
    final: int = 0
    """The tokens of the items before and after; 0 if there was nothing to keep out."""
    superseded: tuple[str, ...] = ()
    """The ids of the dead facts that were found in the items."""


# What there is to read in an item


def parts_of(items: Sequence[Item]) -> Iterator[Part]:
    for item in items:
        for message in item.messages if isinstance(item, Unit) else ():
            for _, parts, _ in pieces_of(message):
                yield from parts


def texts_of(items: Sequence[Item], opaque: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """All texts that are looked at, each with the seq of its message; of a summary, with the last one that it covers."""
    for item in items:
        if isinstance(item, Summary):
            yield item.last, item.text
            continue
        for message in item.messages:
            yield message.seq, message.text
            for call in message.tool_calls:
                yield message.seq, spell(call.args)
            for part in parts_of([Unit((message,))]):
                if isinstance(part, Opaque):
                    yield message.seq, _read(part, opaque)
                elif isinstance(part, Data):
                    yield message.seq, spell(part.value)


def _read(part: Opaque, opaque: Mapping[str, str]) -> str:
    body = part.body if isinstance(part.body, str) else opaque.get(part.body.digest, "")
    try:
        return spell(msgspec.json.decode(body))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return body


def spell(value: Json) -> str:
    """A JSON value as text: a line for each value inside it, after its name."""
    return "\n".join(f"{name}: {_leaf(leaf)}" if name else _leaf(leaf) for name, leaf in _leaves("", value))


def _leaf(leaf: Json) -> str:
    return leaf if isinstance(leaf, str) else msgspec.json.encode(leaf).decode()


def _leaves(name: str, value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        for inner, each in value.items():
            yield from _leaves(inner, each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(name, each)
    else:
        yield name, value


# Showing


class _Report:
    """What was kept out of one message or summary."""

    def __init__(
        self,
        watch: Watch,
        at: int,
        first: int,
        last: int,
        *,
        typed: bool = False,
        ids: frozenset[str] = frozenset(),
        told: dict[str, str] | None = None,
        data: bool = False,
    ) -> None:
        self._watch, self.at, self._typed, self._ids, self._told, self._data = watch, at, typed, ids, told, data
        self._first, self._last = first, last
        """The events that its text comes from."""
        self.facts: dict[str, None] = {}
        self._marks: list[tuple[str, str, bool, bool]] = []
        self.exposed: dict[str, None] = {}
        self.stated: dict[str, str] = {}
        """The facts that it states for certain, and the noun behind each: the assistant may echo them later."""
        self.must_hide = False
        """A part that cannot be edited states what is withheld."""

    def text(self, text: str, spans: Sequence[Span] = (), before: str = "", label: str = "") -> str:
        """A text as it may be shown."""
        found = self.find(text, spans, before, label)
        return guard.show(text, found, self._watch.policy) if found else text

    def find(
        self, text: str, spans: Sequence[Span] = (), before: str = "", label: str = "", *, editable: bool = True
    ) -> tuple[Statement, ...]:
        facts = facts_for(self._watch, text, self._first, self._last, spans, typed=self._typed, label=label)
        if not facts:
            return ()
        endings = self._watch.endings
        names = {each.id for each in facts}
        sources = [each.id for each in facts if each.id in endings and endings[each.id].sources & self._ids]
        statements = guard.find_statements(
            text,
            facts,
            spans=[each for each in spans if each.id in names],
            sources=sources,
            echoes={name: (self._told or {}).get(name, "") for name in names & endings.keys() if self._echoes(name)},
            offers=[name for name in names & endings.keys() if self._offers(name)],
            before=before,
            label=label,
            data=self._data,
        )
        left = [each for each in statements if each.action != "withhold" and self._is_left(each)]
        self.exposed |= dict.fromkeys(name for each in left for name in each.ids if name in endings)
        kept = [self._checked(each) for each in statements if each not in left]
        kept = [each for each in kept if each.action == "withhold" or self._watch.policy != "off"]
        edited = [each for each in kept if not editable or guard.is_edited(text, each, self._watch.policy)]
        self._marks += (
            (each.key, each.action if editable else "beside", each.certain, each.replaced) for each in edited
        )
        self.facts |= dict.fromkeys(name for each in kept if each.action != "withhold" for name in each.ids)
        for each in kept:
            self.stated |= dict.fromkeys(each.ids, guard.noun_behind(text, each.stop)) if each.certain else {}
        return tuple(kept)

    def _checked(self, statement: Statement) -> Statement:
        """What ended while the text came about may be stated from after its end: it gets a note."""
        endings = self._watch.endings
        if statement.action == "redact" and any(endings[each].last < self._last for each in statement.ids):
            return statement._replace(action="annotate", certain=False)
        return statement

    def _echoes(self, name: str) -> bool:
        """Whether the assistant speaks, and was told the fact before."""
        return self._told is not None and (name in self._told or 0 < self._watch.endings[name].asserted < self._first)

    def _offers(self, name: str) -> bool:
        """Whether the assistant speaks of a value that only later became a fact."""
        return self._told is not None and self._first <= self._watch.endings[name].asserted

    def _is_left(self, statement: Statement) -> bool:
        """Whether a statement is left where it is: in the current turn, or until the next boundary."""
        in_turn = 0 < self._watch.turn <= self._first
        return in_turn or all(self._watch.endings[name].deferred for name in statement.ids)

    def beside(self, text: str) -> tuple[str, ...]:
        """The keys whose superseded values stand in a text that cannot be edited."""
        found = self.find(text, editable=False)
        self.must_hide |= any(each.action == "withhold" for each in found)
        return tuple(dict.fromkeys(each.key for each in found if each.action != "withhold"))

    def collapse(self) -> None:
        self._marks.append(("", "collapse", True, False))

    @property
    def redacted(self) -> Redacted | None:
        if not self._marks:
            return None
        mark = hashlib.sha256(codec.encode(self._marks)).hexdigest()[:8]
        return Redacted(self.at, tuple(self.facts)[: limits.REDACTED_FACTS], mark)


def facts_for(
    watch: Watch,
    text: str,
    first: int,
    last: int,
    spans: Sequence[Span] = (),
    *,
    typed: bool = False,
    label: str = "",
) -> list[Stated]:
    """The facts that a text from these events may state; none if there is nothing to keep out of it."""
    terms = guard.probes(text) | (guard.probes(label) if label else frozenset())
    places = {at for term in terms & watch.by_term.keys() for at in watch.by_term[term]}
    named = {each.id for each in spans}
    places |= {at for at, each in enumerate(watch.facts) if each.id in named} if named else set()
    facts = [watch.facts[at] for at in sorted(places)]
    kept = [each for each in facts if each.standing == "live" or _is_due(watch, each, first, last, typed)]
    return kept if any(each.standing != "live" for each in kept) else []


def _is_due(watch: Watch, fact: Stated, first: int, last: int, typed: bool) -> bool:
    """Whether a fact is to be kept out of a text that comes from these events."""
    ending = watch.endings[fact.id]
    if ending.withheld:
        return not typed and not 0 < watch.typed.get(fact.id, 0) <= last
    return first <= ending.last


def guard_items(watch: Watch, items: Sequence[Item], count: Callable[[str], int]) -> Guarded:
    """The items as they may be shown; the tokens of what changes are counted anew."""
    if watch.is_idle:
        return Guarded(tuple(items))
    shown: list[Item] = []
    reports: list[_Report] = []
    before, told = "", dict[str, str]()
    for item in items:
        if isinstance(item, Summary):
            shown.append(_summary(watch, item, count, reports))
        else:
            shown.append(_unit(watch, item, count, reports, before, told))
            before = item.messages[-1].text
    redacted = {each.at: redaction for each in reports if (redaction := each.redacted) is not None}
    exposed = {(each.at, name): None for each in reports for name in each.exposed}
    return Guarded(
        tuple(shown),
        tuple(redacted[at] for at in sorted(redacted)),
        tuple(_exposure(watch, at, name) for at, name in exposed),
        sum(item.tokens for item in items),
        sum(item.tokens for item in shown),
        tuple(dict.fromkeys(name for each in reports for name in (*each.facts, *each.exposed))),
    )


def _exposure(watch: Watch, at: int, name: str) -> Exposure:
    ending = watch.endings[name]
    return Exposure(at=at, fact=ending.fact, ledger=ending.ledger, key=ending.key)


def guard_text(watch: Watch, text: str, seq: int, *, label: int = 0, annotate: bool = False) -> str:
    """A text that is made anew for each call, as it may be shown. It came with event `seq`; its first characters, as many
    as its `label` has, are our own. With `annotate`, nothing is taken out of it but what is withheld."""
    if watch.is_idle:
        return text
    facts = facts_for(watch, text, seq, seq)
    if 0 < watch.turn <= seq:
        facts = [each for each in facts if each.standing != "dead"]
    if all(each.standing == "live" for each in facts):
        return text
    found = guard.find_statements(text, facts, sure=not annotate)
    kept = [each for each in found if each.start >= label]
    if annotate:
        end = len(text.rstrip())
        kept = [each if each.action == "withhold" else each._replace(note_at=end) for each in kept]
    return guard.show(text, kept, watch.policy) if kept else text


def withholds(watch: Watch, text: str) -> bool:
    """Whether a text states something that the reader may not know."""
    facts = [each for each in watch.facts if each.standing == "withheld"]
    return bool(facts) and bool(guard.find_statements(text, facts))


def _summary(watch: Watch, item: Summary, count: Callable[[str], int], reports: list[_Report]) -> Summary:
    report = _Report(watch, item.seq, item.first, item.last)
    text = report.text(item.text)
    reports.append(report)
    return item if text == item.text else msgspec.structs.replace(item, text=text, tokens=count(text))


def _unit(
    watch: Watch,
    unit: Unit,
    count: Callable[[str], int],
    reports: list[_Report],
    before: str,
    told: dict[str, str],
) -> Item:
    """`told` are the facts that were stated before: what this unit states is added to them."""
    own = [_report(watch, each, told) for each in unit.messages]
    notes: dict[str, tuple[str, ...]] = {}
    messages: list[Message] = []
    for message, report in zip(unit.messages, own, strict=True):
        for call in message.tool_calls:
            notes[call.id] = report.beside(spell(call.args))
        messages.append(_message(watch, message, count, report, before, notes))
        before = message.text
        told |= report.stated
    if any(report.must_hide for report in own):
        return _collapsed(watch, unit, count, reports, told)
    reports += own
    if all(new is old for new, old in zip(messages, unit.messages, strict=True)):
        return unit
    return Unit(tuple(messages), unit.open)


def _report(watch: Watch, message: Message, told: dict[str, str]) -> _Report:
    ids = frozenset((message.id, *(result.tool_call_id for result in message.tool_results)))
    echoed = told if message.role == "assistant" else None
    seq, role = message.seq, message.role
    return _Report(watch, seq, seq, seq, typed=role == "user", ids=ids, told=echoed, data=role == "tool")


def _message(
    watch: Watch,
    message: Message,
    count: Callable[[str], int],
    report: _Report,
    before: str,
    notes: Mapping[str, tuple[str, ...]],
) -> Message:
    signed = [
        key for part in message.content if isinstance(part, Opaque) for key in report.beside(_read(part, watch.opaque))
    ]
    offsets = _Offsets("" if message.role == "assistant" else "\n", watch.spans.get(message.seq, ()))
    content = _parts(message.content, report, offsets, before, joined=message.role == "assistant")
    if signed and watch.policy != "off":
        content = (*content, Text(_beside("This message states", signed)))
    results = tuple(
        _result(watch, each, report, offsets, notes.get(each.tool_call_id, ())) for each in message.tool_results
    )
    if content is message.content and all(new is old for new, old in zip(results, message.tool_results, strict=True)):
        return message
    old = sum(map(count, _written(message.content))) + sum(
        count(text) for each in message.tool_results for text in _written(each.content)
    )
    new = sum(map(count, _written(content))) + sum(count(text) for each in results for text in _written(each.content))
    tokens = max(0, message.tokens - old + new)
    return msgspec.structs.replace(message, content=content, tool_results=results, tokens=tokens)


def _beside(what: str, keys: Sequence[str]) -> str:
    named = ", ".join(dict.fromkeys(filter(None, keys)))
    return f"[{what} an outdated value: {named}]" if named else f"[{what} an outdated value]"


def _written(parts: Sequence[Part]) -> Iterator[str]:
    """What is counted of these."""
    return (text_of([part]) for part in parts if isinstance(part, Text | Data | Body))


class _Offsets:
    """Where the parts of a message stand in its text."""

    def __init__(self, between: str, spans: Sequence[Span]) -> None:
        self._between = len(between)
        self._spans = spans
        self._at = 0

    def take(self, text: str) -> list[Span]:
        """The spans in the next part, in its own characters."""
        start, stop = self._at, self._at + len(text)
        self._at = stop + self._between
        return _within(self._spans, start, stop)


def _within(spans: Sequence[Span], start: int, stop: int) -> list[Span]:
    """What of these spans lies between two characters, counted from the first."""
    return [
        Span(max(each.start, start) - start, min(each.stop, stop) - start, each.id)
        for each in spans
        if max(each.start, start) < min(each.stop, stop)
    ]


def _result(
    watch: Watch, result: ToolResult, report: _Report, offsets: _Offsets, outdated: Sequence[str]
) -> ToolResult:
    content = _parts(result.content, report, offsets, "")
    if outdated and watch.policy != "off":
        content = (*content, Text(_beside("The arguments of this call contain", outdated)))
    return result if content is result.content else msgspec.structs.replace(result, content=content)


def _parts(
    parts: tuple[Part, ...], report: _Report, offsets: _Offsets, before: str, *, joined: bool = False
) -> tuple[Part, ...]:
    """These parts as they may be shown; the same object if that is as they are. What comes in pieces of one text is looked
    at as one."""
    new: list[Part] = []
    for is_text, group in itertools.groupby(parts, key=lambda part: isinstance(part, Text)):
        run = list(group)
        if is_text and joined and len(run) > 1:
            whole = text_of(run, "")
            text = report.text(whole, offsets.take(whole), before)
            new += run if text == whole else [Text(text)]
        else:
            new += (_part(part, report, offsets, before) for part in run)
    same = len(new) == len(parts) and all(one is two for one, two in zip(new, parts, strict=True))
    return parts if same else tuple(new)


def _part(part: Part, report: _Report, offsets: _Offsets, before: str) -> Part:
    match part:
        case Text(text):
            shown = report.text(text, offsets.take(text), before)
            return part if shown == text else Text(shown)
        case Body(preview=preview):
            spans, cut = offsets.take(preview), len(preview) - part.tail
            head = report.text(preview[:cut], _within(spans, 0, cut))
            tail = report.text(preview[cut:], _within(spans, cut, len(preview))) if part.tail else ""
            shown = head + tail
            return part if shown == preview else msgspec.structs.replace(part, preview=shown, tail=len(tail))
        case Data(value):
            written = text_of([part])
            spans = offsets.take(written)
            if spans:
                shown = report.text(written, spans)
                return part if shown == written else Text(shown)
            value = _value("", value, report)
            return part if value is part.value else Data(value)
    return part


def _value(name: str, value: Json, report: _Report) -> Json:
    """A JSON value whose leaves are shown as they may be; the same object if that is as they are."""
    if isinstance(value, dict):
        pairs = {inner: _value(inner, each, report) for inner, each in value.items()}
        return value if all(pairs[inner] is each for inner, each in value.items()) else pairs
    if isinstance(value, list):
        some = [_value(name, each, report) for each in value]
        return value if all(one is two for one, two in zip(some, value, strict=True)) else some
    text = _leaf(value)
    shown = report.text(text, label=name)
    return value if shown == text else shown


def _collapsed(
    watch: Watch, unit: Unit, count: Callable[[str], int], reports: list[_Report], told: dict[str, str]
) -> Summary:
    """A unit of which a part that cannot be edited states what is withheld: as text, without that."""
    lines = [_LEFT_OUT]
    merged = _Report(watch, unit.first, unit.first, unit.last)
    merged.collapse()
    for message in unit.messages:
        report = _report(watch, message, told)
        text = _message(watch, message, count, report, "", {}).text
        calls = (f"[called {call.name} with {_leaf(_value('', call.args, report))}]" for call in message.tool_calls)
        lines.append(" ".join(filter(None, (f"{message.role}:", text, *calls))))
        merged.facts |= report.facts
    reports.append(merged)
    text = "\n".join(lines)
    return Summary(
        seq=unit.first,
        first=unit.first,
        last=unit.last,
        messages=unit.count,
        text=text,
        tokens=count(text),
        replaced=unit.replaced,
    )
