"""Views without what may not be shown: the value of a dead fact is kept out of them, whoever said it and wherever.

Laws: without a fact that may not be shown every item comes back as it is; a call's arguments and a provider's own parts are
never edited, so what they belong to is shown as text without them; of what the reader may not know nothing comes out, no
id, no key and no number.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from holdfast import codec
from holdfast.core import guard
from holdfast.core.guard import Cut, Span, Stated
from holdfast.core.shown import pieces_of
from holdfast.model import limits
from holdfast.model.content import Body, Data, Json, Opaque, Part, Text, ToolResult, text_of
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.pack import Exposure, Guard
from holdfast.model.plan import Redacted

_DISOWNED = re.compile(
    r"\b(?:invalid(?:ated)?|incorrect|wrong|outdated|obsolete|superseded|original|previous|former|no longer|used to be|"
    r"was based on)\b",
    re.IGNORECASE,
)
_NEAR_CHARS = 40
"""Before what is told: so near it is said of it that it was, or was wrong."""
_LEFT_OUT = "[a call or a signed part is left out: it tells what may not be shown any more]"


class Known(msgspec.Struct, frozen=True):
    """What else is known of a fact that the guard looks for."""

    fact: str
    key: str
    ledger: tuple[str, ...]
    since_us: int
    """From when on it may not be shown."""
    ended: bool
    """It is dead; else it is of another scope, or not for this reader."""


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What a view may not show, and what it must not lose by that: looked up once, for the text in view."""

    policy: Guard
    facts: tuple[Stated, ...] = ()
    """Live ones too: they are spared."""
    spans: dict[int, tuple[Span, ...]] = msgspec.field(default_factory=dict)
    """Where messages state them, by the seq of the message, in characters of its text as it is shown."""
    question: str = ""
    """That stands behind the view; without one, the newest message of the user is it."""
    asked: int = 0
    """The seq of the message that is the question; 0 for none."""
    known: dict[str, Known] = msgspec.field(default_factory=dict)
    """By the ids of what may not be shown."""
    by_word: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """The places of the facts that a word leads to."""
    opaque: dict[str, str] = msgspec.field(default_factory=dict)
    """What providers' own parts in the blob store say, by their digests."""
    deferred_us: int | None = None
    """What died after this is shown where it was shown before; None if nothing is."""

    @property
    def idle(self) -> bool:
        """There is nothing to keep out."""
        return not self.known


class Guarded(msgspec.Struct, frozen=True):
    """Items as they may be shown."""

    items: tuple[Item, ...]
    redacted: tuple[Redacted, ...] = ()
    exposed: tuple[Exposure, ...] = ()
    new: tuple[int, ...] = ()
    """Those of the redacted ones that were never shown otherwise."""
    original: int = 0
    final: int = 0
    """The tokens of the items before and after; 0 if there was nothing to keep out."""


def asked_in(items: Sequence[Item], question: str) -> int:
    """The newest message of the user, if that is the question: it is if none is given."""
    for item in reversed(items):
        for message in reversed(item.messages) if isinstance(item, Unit) else ():
            if message.role == "user":
                return message.seq if message.text.strip() == (question or message.text).strip() else 0
    return 0


# What there is to read in an item


def parts_of(items: Sequence[Item]) -> Iterator[Part]:
    for item in items:
        for message in item.messages if isinstance(item, Unit) else ():
            for _, parts, _ in pieces_of(message):
                yield from parts


def texts_of(items: Sequence[Item], opaque: Mapping[str, str]) -> Iterator[str]:
    """All that is looked at."""
    for item in items:
        if isinstance(item, Summary):
            yield item.text
            continue
        for message in item.messages:
            yield message.text
            for call in message.tool_calls:
                yield spelled(call.args)
            for part in parts_of([Unit((message,))]):
                if isinstance(part, Opaque):
                    yield _said_in(part, opaque)
                elif isinstance(part, Data):
                    yield spelled(part.value)


def _said_in(part: Opaque, opaque: Mapping[str, str]) -> str:
    body = part.body if isinstance(part.body, str) else opaque.get(part.body.digest, "")
    try:
        return spelled(msgspec.json.decode(body))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return body


def spelled(value: Json) -> str:
    """A JSON value as text that can be read: a line for each value inside it, after its name."""
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


class _Saw:
    """What was kept out of one message or summary, in order."""

    def __init__(self, watch: Watch, at: int, time_us: int, *, asked: bool = False) -> None:
        self._watch = watch
        self.at = at
        self._time_us = time_us
        self._asked = asked
        self.facts: dict[str, None] = {}
        self._marks: list[tuple[str, bool, bool, bool]] = []
        self._since: list[int] = []
        self.exposed: dict[str, None] = {}
        self.hidden = False
        """Something that cannot be edited tells what may not be shown."""

    def text(self, text: str, spans: Sequence[Span] = ()) -> str:
        """A text as it may be shown."""
        facts = self._due(text, spans)
        if not facts:
            return text
        names = {each.id for each in facts}
        cuts = guard.cuts(text, facts, [each for each in spans if each.id in names])
        cuts = tuple(each for each in cuts if each.withheld or self._watch.policy != "off")
        self._note(cuts)
        return guard.guarded(text, cuts, self._watch.policy) if cuts else text

    def fixed(self, text: str) -> None:
        """A text that cannot be edited."""
        facts = self._due(text, ())
        if self._watch.policy != "redact":
            facts = [each for each in facts if each.standing != "dead"]
        if any(each.standing != "live" for each in facts) and guard.cuts(text, facts):
            self.hidden = True

    def collapse(self) -> None:
        self._marks.append(("", True, True, True))

    def _due(self, text: str, spans: Sequence[Span]) -> list[Stated]:
        """The facts that a text may tell, those that are left where they are for now not among them; none if there is
        nothing to keep out."""
        watch = self._watch
        places = {at for word in guard.words(text) & watch.by_word.keys() for at in watch.by_word[word]}
        told = {each.id for each in spans}
        places |= {at for at, each in enumerate(watch.facts) if each.id in told} if told else set()
        facts = [watch.facts[at] for at in sorted(places)]
        left = [each for each in facts if each.standing != "live" and self._left(watch.known[each.id])]
        if left:
            live = [each for each in facts if each.standing == "live"]
            later = [each for each in left if not self._answers(watch.known[each.id])]
            self.exposed |= dict.fromkeys(guard.tells(text, [*live, *later]) if later else ())
            gone = {each.id for each in left}
            facts = [each for each in facts if each.id not in gone]
        return facts if any(each.standing != "live" for each in facts) else []

    def _answers(self, known: Known) -> bool:
        """The question may speak of what was dead when it was asked, and of what it supposes itself."""
        return self._asked and (known.since_us < self._time_us or not known.ended)

    def _left(self, known: Known) -> bool:
        if self._answers(known):
            return True
        since = self._watch.deferred_us
        return since is not None and known.ended and known.since_us > max(since, self._time_us)

    def _note(self, cuts: Sequence[Cut]) -> None:
        for cut in cuts:
            self._marks.append((cut.key, cut.withheld, cut.whole, cut.mute))
            for name in cut.ids:
                known = self._watch.known.get(name)
                if known is not None:
                    self._since.append(known.since_us)
        open_ids = (name for cut in cuts if not cut.withheld for name in cut.ids)
        dead = {each.id for each in self._watch.facts if each.standing == "dead"}
        self.facts |= dict.fromkeys(name for name in open_ids if name in dead)

    @property
    def redacted(self) -> Redacted | None:
        if not self._marks:
            return None
        mark = hashlib.sha256(codec.encode(self._marks)).hexdigest()[:8]
        return Redacted(self.at, tuple(self.facts)[: limits.REDACTED_FACTS], mark)

    @property
    def new(self) -> bool:
        """All of it was so when the message came: it was never shown otherwise."""
        return all(since <= self._time_us for since in self._since)


def guard_items(watch: Watch, items: Sequence[Item], count: Callable[[str], int]) -> Guarded:
    """The items as they may be shown; the tokens of what changes are counted anew."""
    if watch.idle:
        return Guarded(tuple(items))
    before = sum(item.tokens for item in items)
    shown: list[Item] = []
    saws: list[_Saw] = []
    for item in items:
        if isinstance(item, Summary):
            shown.append(_summary(watch, item, count, saws))
        else:
            shown.append(_unit(watch, item, count, saws))
    redacted = {each.at: redaction for each in saws if (redaction := each.redacted) is not None}
    exposed = {(each.at, name): None for each in saws for name in each.exposed}
    answered = _answered(items)
    return Guarded(
        tuple(shown),
        tuple(redacted[at] for at in sorted(redacted)),
        tuple(_exposure(watch, at, name) for at, name in exposed),
        tuple(each.at for each in saws if each.at in redacted and each.new and each.at not in answered),
        before,
        sum(item.tokens for item in shown),
    )


def _answered(items: Sequence[Item]) -> set[int]:
    """The messages of the user that somebody replied to: each may have been the question once, and shown as that."""
    asked: set[int] = set()
    found: set[int] = set()
    for item in items:
        for message in item.messages if isinstance(item, Unit) else ():
            if message.role == "user":
                asked.add(message.seq)
            elif message.role == "assistant":
                found |= asked
                asked.clear()
    return found


def _exposure(watch: Watch, at: int, name: str) -> Exposure:
    known = watch.known[name]
    return Exposure(at=at, fact=known.fact, ledger=known.ledger, key=known.key)


def guard_text(watch: Watch, text: str, label: int = 0) -> str:
    """A text that is made anew for each call, as it may be shown. Its first characters, as many as its `label` has, say
    what the rest is: they are read with it, and stay, unless they tell by themselves what may not be shown."""
    if watch.idle:
        return text
    places = {at for word in guard.words(text) & watch.by_word.keys() for at in watch.by_word[word]}
    facts = [watch.facts[at] for at in sorted(places)]
    if all(each.standing == "live" for each in facts):
        return text
    cuts = guard.cuts(text, facts, (), watch.question)
    if label and cuts and not guard.tells(text[:label], facts, watch.question):
        cuts = tuple(msgspec.structs.replace(each, start=max(each.start, label)) for each in cuts if each.stop > label)
    return guard.guarded(text, cuts, watch.policy) if cuts else text


def disowns(text: str) -> bool:
    """Whether something in a text is told as what was, or as wrong."""
    return _DISOWNED.search(text) is not None


def guard_quotes(watch: Watch, text: str) -> str:
    """The line of a fact that holds, as it may be shown: it stays as it is, but for what it repeats only to say that it
    was, or was wrong."""
    if watch.idle or not disowns(text):
        return text
    places = {at for word in guard.words(text) & watch.by_word.keys() for at in watch.by_word[word]}
    told = " ".join(text.lower().split())
    facts = [
        each
        for each in (watch.facts[at] for at in sorted(places))
        if each.standing != "live" or not told.endswith(" ".join(_leaf(each.value).lower().split()))
    ]
    if all(each.standing == "live" for each in facts):
        return text
    cuts = guard.cuts(text, facts, (), watch.question)
    kept = [each for each in cuts if disowns(text[max(0, each.start - _NEAR_CHARS) : each.stop])]
    return guard.guarded(text, kept, watch.policy) if kept else text


def _summary(watch: Watch, item: Summary, count: Callable[[str], int], saws: list[_Saw]) -> Summary:
    saw = _Saw(watch, item.seq, watch.deferred_us or 0)
    text = saw.text(item.text)
    saws.append(saw)
    return item if text == item.text else msgspec.structs.replace(item, text=text, tokens=count(text))


def _unit(watch: Watch, unit: Unit, count: Callable[[str], int], saws: list[_Saw]) -> Item:
    own = [_Saw(watch, each.seq, each.time_us, asked=each.seq == watch.asked) for each in unit.messages]
    messages = tuple(_message(watch, each, count, saw) for each, saw in zip(unit.messages, own, strict=True))
    if any(saw.hidden for saw in own):
        return _collapsed(watch, unit, count, saws)
    saws += own
    if all(new is old for new, old in zip(messages, unit.messages, strict=True)):
        return unit
    return Unit(messages, unit.open)


def _message(watch: Watch, message: Message, count: Callable[[str], int], saw: _Saw) -> Message:
    signed = [part for part in message.content if isinstance(part, Opaque)]
    for part in signed:
        saw.fixed(_said_in(part, watch.opaque))
    for call in message.tool_calls:
        saw.fixed(spelled(call.args))
    spans = watch.spans.get(message.seq, ())
    place = _Offsets("" if message.role == "assistant" else "\n", spans)
    content = _guarded_parts(message.content, saw, place, joined=message.role == "assistant")
    results = tuple(_result(each, saw, place) for each in message.tool_results)
    if content is message.content and all(new is old for new, old in zip(results, message.tool_results, strict=True)):
        return message
    if signed and content is not message.content:
        saw.hidden = True
    old = sum(map(count, _written(message.content))) + sum(
        count(text) for each in message.tool_results for text in _written(each.content)
    )
    new = sum(map(count, _written(content))) + sum(count(text) for each in results for text in _written(each.content))
    tokens = max(0, message.tokens - old + new)
    return msgspec.structs.replace(message, content=content, tool_results=results, tokens=tokens)


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
        return [
            Span(max(each.start, start) - start, min(each.stop, stop) - start, each.id)
            for each in self._spans
            if max(each.start, start) < min(each.stop, stop)
        ]


def _result(result: ToolResult, saw: _Saw, place: _Offsets) -> ToolResult:
    content = _guarded_parts(result.content, saw, place)
    return result if content is result.content else msgspec.structs.replace(result, content=content)


def _guarded_parts(parts: tuple[Part, ...], saw: _Saw, place: _Offsets, *, joined: bool = False) -> tuple[Part, ...]:
    """These parts as they may be shown; the same object if that is as they are. What comes in pieces of one text is looked
    at as one."""
    new: list[Part] = []
    for is_text, group in itertools.groupby(parts, key=lambda part: isinstance(part, Text)):
        run = list(group)
        if is_text and joined and len(run) > 1:
            whole = text_of(run, "")
            text = saw.text(whole, place.take(whole))
            new += run if text == whole else [Text(text)]
        else:
            new += (_part(part, saw, place) for part in run)
    return (
        parts
        if all(one is two for one, two in zip(new, parts, strict=False)) and len(new) == len(parts)
        else tuple(new)
    )


def _part(part: Part, saw: _Saw, place: _Offsets) -> Part:
    match part:
        case Text(text):
            shown = saw.text(text, place.take(text))
            return part if shown == text else Text(shown)
        case Body(preview=preview):
            shown = saw.text(preview, place.take(preview))
            return part if shown == preview else msgspec.structs.replace(part, preview=shown)
        case Data(value):
            written = text_of([part])
            spans = place.take(written)
            if spans:
                shown = saw.text(written, spans)
                return part if shown == written else Text(shown)
            value = _value("", value, saw)
            return part if value is part.value else Data(value)
    return part


def _value(name: str, value: Json, saw: _Saw) -> Json:
    """A JSON value whose leaves are shown as they may be; the same object if that is as they are."""
    if isinstance(value, dict):
        pairs = {inner: _value(inner, each, saw) for inner, each in value.items()}
        return value if all(pairs[inner] is each for inner, each in value.items()) else pairs
    if isinstance(value, list):
        some = [_value(name, each, saw) for each in value]
        return value if all(one is two for one, two in zip(some, value, strict=True)) else some
    text = f"{name}: {_leaf(value)}" if name else _leaf(value)
    shown = saw.text(text)
    if shown == text:
        return value
    return shown.removeprefix(f"{name}: ") if name else shown


def _collapsed(watch: Watch, unit: Unit, count: Callable[[str], int], saws: list[_Saw]) -> Summary:
    """A unit of which a part that is never edited tells what may not be shown: as text, without that."""
    saw = _Saw(watch, unit.first, unit.messages[0].time_us)
    saw.collapse()
    lines = [_LEFT_OUT]
    for message in unit.messages:
        said = _message(watch, message, count, saw).text
        calls = (f"[called {call.name} with {_leaf(_value('', call.args, saw))}]" for call in message.tool_calls)
        lines.append(" ".join(filter(None, (f"{message.role}:", said, *calls))))
    saws.append(saw)
    text = "\n".join(lines)
    return Summary(
        seq=unit.first,
        first=unit.first,
        last=unit.last,
        messages=unit.count,
        text=text,
        tokens=count(text),
        replaced=unit.tokens,
    )
