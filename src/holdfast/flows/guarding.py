"""The guard in views: the value of a dead fact is kept out of what a model is shown, whoever said it and wherever.

Laws: nothing is stored of it as text, and the transcript stays as it is; what is looked up follows the text in view, not the
ledgers; of what the reader may not know nothing comes out, no id, no key and no number; a call's arguments and a provider's
own parts are never edited; without a fact that may not be shown every item comes back as it is.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast import codec
from holdfast.core import guard
from holdfast.core.authority import may_know
from holdfast.core.guard import Cut, Span, Stated
from holdfast.core.shown import by_message, pieces_of, reduced_text
from holdfast.errors import PlanStale
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.inform_facts import NEWEST, ledger_where, state_of
from holdfast.flows.knowing import Scopes, checked_scopes, ledgers_of
from holdfast.flows.ledgers import writer_for
from holdfast.flows.place import Place, order
from holdfast.flows.read import message as message_of
from holdfast.model import limits
from holdfast.model.commands import RedactContext
from holdfast.model.content import BlobRef, Body, Data, Json, Opaque, Part, Text, ToolResult, text_of
from holdfast.model.facts import Fact, fact_id, fact_seq
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.names import LedgerId
from holdfast.model.pack import Exposure, Guard
from holdfast.model.plan import Redacted, RedactionWhy
from holdfast.model.rows import FactRow, LedgerRow, MentionRow, Order
from holdfast.model.state import SessionState

_STEPS = 8
"""Links of a chain that are walked to what holds in the place of a fact."""
_IN_ORDER = Order(("seq",))
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
    """The tokens of the items before and after."""


# Looking up


def watch(
    place: Place,
    state: SessionState,
    items: Sequence[Item],
    texts: Sequence[str] = (),
    *,
    policy: Guard,
    within: Scopes = (),
    as_of_us: int,
    question: str = "",
    deferring: bool = True,
) -> Flow[Watch]:
    """All that has to be known to show these items, as they would be shown without a guard, and these texts.

    The facts that they may tell are found by their words. Of each ledger, no more than the newest GUARD_FACTS live ones and
    as many dead ones are looked at. `question` is the text of the question; the newest message of the user is it if it says
    the same. Without `deferring`, also what died just now is kept out, whatever the policy says."""
    ledgers = yield from _in_use(ledgers_of(place.scope, state))
    if not ledgers:
        return Watch(policy=policy, question=question)
    opaque = yield from _opaque(place, items)
    words: set[str] = set()
    for text in itertools.chain(texts, _texts(items, opaque)):
        words |= guard.words(text)
    found: dict[str, _Found] = {}
    for number, ledger in ledgers:
        for row in (yield from _candidates(ledger, sorted(words))):
            found[f"{number}:{fact_id(row.fact)}"] = _Found(ledger, state_of(row).fact, row.anchor)
    spans = yield from _spans(place, state, items, ledgers, found)
    reader = _Reader(
        permissions=writer_for(place.context, state.identity).permissions,
        scopes=frozenset((*checked_scopes(within), ("session", place.scope.session))),
        as_of_us=as_of_us,
    )
    barred = {name: each for name, each in found.items() if not reader.sees(each.fact)}
    if not barred:
        return Watch(policy=policy, question=question)
    now = yield from _instead(ledgers, {name: each for name, each in barred.items() if reader.knows(each.fact)}, reader)
    stated = tuple(
        Stated(name, each.fact.key, each.fact.value, reader.standing(each.fact), now.get(name, ""))
        for name, each in found.items()
    )
    by_word: dict[str, list[int]] = {}
    for at, each in enumerate(found.values()):
        by_word.setdefault(each.anchor, []).append(at)
    deferred = place.context.policy.deaths == "deferred" and deferring
    return Watch(
        policy=policy,
        facts=stated,
        spans=spans,
        question=question,
        asked=_asked(items, question),
        known={name: reader.known(each) for name, each in barred.items()},
        by_word={word: tuple(places) for word, places in by_word.items()},
        opaque=opaque,
        deferred_us=state.view(place.frame).settled_us if deferred else None,
    )


class _Found(msgspec.Struct, frozen=True):
    ledger: LedgerId
    fact: Fact
    anchor: str


class _Reader(msgspec.Struct, frozen=True):
    """Who is shown a view, of which scopes, and when."""

    permissions: tuple[str, ...] | None
    scopes: frozenset[tuple[str, str]]
    as_of_us: int

    def knows(self, fact: Fact) -> bool:
        return may_know(fact.requires, self.permissions)

    def asks(self, fact: Fact) -> bool:
        return (fact.scope, fact.scope_id) in self.scopes

    def sees(self, fact: Fact) -> bool:
        """Whether its value may be shown: also a claim's, which is shown as one."""
        return self.knows(fact) and self.asks(fact) and fact.is_valid and not fact.ran_out(self.as_of_us)

    def standing(self, fact: Fact) -> Any:
        if not self.knows(fact):
            return "withheld"
        return "live" if self.sees(fact) else "dead"

    def known(self, found: _Found) -> Known:
        fact = found.fact
        since, ended = fact.at_us, False
        if self.knows(fact) and (not fact.is_valid or fact.ran_out(self.as_of_us)):
            ended = True
            since = fact.ended_us if fact.ended_us is not None else fact.expires_us or 0
        return Known(fact.id, fact.key, found.ledger.stream.key, since, ended)


def _in_use(ledgers: Sequence[LedgerId]) -> Flow[list[tuple[int, LedgerId]]]:
    """Those that were ever written to, each with its place among all."""
    keys = [codec.encode_stream_key(each.stream) for each in ledgers]
    where: dict[str, str | int] = {"tenant": ledgers[0].tenant}
    rows = yield from effects.rows(LedgerRow, where, None, len(keys), among={"ledger": keys})
    used = {row.ledger for row in rows}
    return [(at, each) for at, (each, key) in enumerate(zip(ledgers, keys, strict=True)) if key in used]


def _candidates(ledger: LedgerId, words: Sequence[str]) -> Flow[list[FactRow]]:
    """The facts, live and dead, whose anchors are among these words."""
    found: list[FactRow] = []
    where = ledger_where(ledger.stream)
    for at in range(0, len(words), limits.GUARD_WORDS):
        among = {"anchor": words[at : at + limits.GUARD_WORDS]}
        rows = yield from effects.rows(FactRow, where, None, limits.READ_EVENTS, order=NEWEST, among=among)
        if len(rows) < limits.READ_EVENTS:
            found += rows
            continue
        for live in (0, 1):
            found += yield from _newest(where | {"live": live}, among)
    return found


def _newest(where: dict[str, str | int], among: Mapping[str, Sequence[str | int]]) -> Flow[list[FactRow]]:
    found: list[FactRow] = []
    while len(found) < limits.GUARD_FACTS:
        last = found[-1] if found else None
        most = min(limits.READ_EVENTS, limits.GUARD_FACTS - len(found))
        rows = yield from effects.rows(FactRow, where, last, most, order=NEWEST, among=among)
        found += rows
        if len(rows) < most:
            break
    return found


def _spans(
    place: Place,
    state: SessionState,
    items: Sequence[Item],
    ledgers: Sequence[tuple[int, LedgerId]],
    found: dict[str, _Found],
) -> Flow[dict[int, tuple[Span, ...]]]:
    """Where the messages in view state facts, as far as that is known; the facts that are not among those found are added
    to them."""
    shown = {each.seq: each for item in items if isinstance(item, Unit) for each in item.messages}
    if not shown:
        return {}
    numbers = {codec.encode_stream_key(ledger.stream): number for number, ledger in ledgers}
    rows: list[MentionRow] = []
    for live in (0, 1):
        where: dict[str, str | int] = {**place.scope.columns, "live": live}
        bounds: dict[str, Any] = {"least": {"seq": min(shown)}, "most": {"seq": max(shown)}, "order": _IN_ORDER}
        last: MentionRow | None = None
        while page := (yield from effects.rows(MentionRow, where, last, limits.READ_EVENTS, **bounds)):
            rows += (row for row in page if row.seq in shown and row.ledger in numbers)
            last = page[-1]
            if len(page) < limits.READ_EVENTS:
                break
    for number, ledger in ledgers:
        key = codec.encode_stream_key(ledger.stream)
        names = {row.fact for row in rows if row.ledger == key and f"{number}:{fact_id(row.fact)}" not in found}
        yield from _add(number, ledger, sorted(names), found)
    spans: dict[int, list[Span]] = {}
    for row in rows:
        name = f"{numbers[row.ledger]}:{fact_id(row.fact)}"
        if name in found:
            spans.setdefault(row.seq, []).append(Span(row.start, row.stop, name))
    reduced = by_message(state.view(place.frame).reduced)
    for seq in sorted(spans.keys() & reduced.keys()):
        for recorded in (yield from effects.read(place.scope.stream, seq - 1, 1)):
            spans[seq] = list(_moved(spans[seq], message_of(recorded), shown[seq], reduced[seq]))
    return {seq: tuple(sorted(each)) for seq, each in spans.items()}


def _add(number: int, ledger: LedgerId, facts: Sequence[int], found: dict[str, _Found]) -> Flow[None]:
    where = ledger_where(ledger.stream)
    for at in range(0, len(facts), limits.READ_EVENTS):
        some = facts[at : at + limits.READ_EVENTS]
        for row in (yield from effects.rows(FactRow, where, None, len(some), among={"fact": some})):
            found[f"{number}:{fact_id(row.fact)}"] = _Found(ledger, state_of(row).fact, row.anchor)


def _moved(spans: Sequence[Span], recorded: Message, shown: Message, reduced: Mapping[int, Any]) -> Iterator[Span]:
    """Spans of a message as recorded, in the characters of what is shown of it: of a piece that is shown by its beginning
    and its end, as much of them as is there."""
    between = "" if recorded.role == "assistant" else "\n"
    old = new = 0
    pieces = zip(_piece_texts(recorded, between), _piece_texts(shown, between), strict=False)
    for number, (was, now) in enumerate(pieces):
        how = reduced.get(number)
        head, tail = (len(was), 0) if how is None else (min(how.head, len(was)), min(how.tail, len(was)))
        if how is not None and how.form in ("page", "whole"):
            head = tail = 0
        for span in spans:
            start, stop = max(span.start, old), min(span.stop, old + head)
            if start < stop:
                yield Span(start - old + new, stop - old + new, span.id)
            start, stop = max(span.start, old + len(was) - tail), min(span.stop, old + len(was))
            if tail and start < stop:
                shift = new + len(now) - old - len(was)
                yield Span(start + shift, stop + shift, span.id)
        old, new = old + len(was) + len(between), new + len(now) + len(between)


def _piece_texts(message: Message, between: str) -> list[str]:
    """The texts of its pieces in the order in which its text has them: content first."""
    pieces = [(number, text_of(parts, between)) for number, parts, _ in pieces_of(message)]
    first = len(message.tool_results)
    return [text for _, text in (*pieces[first:], *pieces[:first])]


def _instead(
    ledgers: Sequence[tuple[int, LedgerId]], barred: Mapping[str, _Found], reader: _Reader
) -> Flow[dict[str, str]]:
    """For what is dead, the key under which something holds in its place, if anything does."""
    keys = sorted({each.fact.key for each in barred.values()})
    held: set[str] = set()
    for _, ledger in ledgers if keys else ():
        where = ledger_where(ledger.stream) | {"live": 1}
        for at in range(0, len(keys), limits.GUARD_WORDS):
            among = {"subject": keys[at : at + limits.GUARD_WORDS]}
            for row in (yield from _newest(where, among)):
                fact = state_of(row).fact
                if reader.sees(fact) and not fact.claim:
                    held.add(fact.key)
    now = {name: each.fact.key for name, each in barred.items() if each.fact.key in held}
    for number, ledger in ledgers:
        ahead = {
            name: each.fact.superseded_by
            for name, each in barred.items()
            if each.ledger == ledger and name not in now and each.fact.superseded_by is not None
        }
        yield from _walk(number, ledger, ahead, now, reader)
    return now


def _walk(number: int, ledger: LedgerId, ahead: dict[str, str], now: dict[str, str], reader: _Reader) -> Flow[None]:
    """What took the place of facts, and of that, until something holds."""
    for _ in range(_STEPS):
        met: dict[str, _Found] = {}
        yield from _add(number, ledger, sorted({fact_seq(each) for each in ahead.values()}), met)
        on: dict[str, str] = {}
        for name, by in ahead.items():
            each = met.get(f"{number}:{by}")
            if each is None or not reader.knows(each.fact):
                continue
            if reader.sees(each.fact) and not each.fact.claim:
                now[name] = each.fact.key
            elif each.fact.superseded_by is not None:
                on[name] = each.fact.superseded_by
        if not on:
            return
        ahead = on


def _opaque(place: Place, items: Sequence[Item]) -> Flow[dict[str, str]]:
    found: dict[str, str] = {}
    for part in _parts(items):
        if isinstance(part, Opaque) and isinstance(part.body, BlobRef) and part.body.digest not in found:
            chunks = functools.partial(place.context.bodies.chunks, place.context.tenant, part.body)
            body = yield from effects.outside(functools.partial(_joined, chunks))
            found[part.body.digest] = body.decode("utf-8", "replace")
    return found


def _joined(chunks: Callable[[], Iterable[bytes]]) -> bytes:
    return b"".join(chunks())


def _asked(items: Sequence[Item], question: str) -> int:
    """The newest message of the user, if that is the question."""
    for item in reversed(items):
        for message in reversed(item.messages) if isinstance(item, Unit) else ():
            if message.role == "user":
                return message.seq if question and message.text.strip() == question.strip() else 0
    return 0


# What there is to read in an item


def _parts(items: Sequence[Item]) -> Iterator[Part]:
    for item in items:
        for message in item.messages if isinstance(item, Unit) else ():
            for _, parts, _ in pieces_of(message):
                yield from parts


def _texts(items: Sequence[Item], opaque: Mapping[str, str]) -> Iterator[str]:
    """All that is looked at."""
    for item in items:
        if isinstance(item, Summary):
            yield item.text
            continue
        for message in item.messages:
            yield message.text
            for call in message.tool_calls:
                yield spelled(call.args)
            for part in message.content:
                if isinstance(part, Opaque):
                    yield _said_in(part, opaque)


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
        self._marks: list[tuple[str, bool, bool]] = []
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
        self._marks.append(("", True, True))

    def _due(self, text: str, spans: Sequence[Span]) -> list[Stated]:
        """The facts that a text may tell, those that are left where they are for now not among them; none if there is
        nothing to keep out."""
        watch = self._watch
        places = {at for word in guard.words(text) & watch.by_word.keys() for at in watch.by_word[word]}
        told = {each.id for each in spans}
        places |= {at for at, each in enumerate(watch.facts) if each.id in told} if told else set()
        facts = [watch.facts[at] for at in sorted(places)]
        left = [each for each in facts if each.standing == "dead" and self._left(watch.known[each.id])]
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
            self._marks.append((cut.key if not cut.withheld else "", cut.withheld, cut.whole))
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
    before = sum(item.tokens for item in items)
    if watch.idle:
        return Guarded(tuple(items), original=before, final=before)
    shown: list[Item] = []
    saws: list[_Saw] = []
    for item in items:
        if isinstance(item, Summary):
            shown.append(_summary(watch, item, count, saws))
        else:
            shown.append(_unit(watch, item, count, saws))
    redacted = {each.at: redaction for each in saws if (redaction := each.redacted) is not None}
    exposed = {(each.at, name): None for each in saws for name in each.exposed}
    users = [each.at for each in saws if each.at != watch.asked and _is_users(items, each.at)]
    return Guarded(
        tuple(shown),
        tuple(redacted[at] for at in sorted(redacted)),
        tuple(_exposure(watch, at, name) for at, name in exposed),
        tuple(each.at for each in saws if each.at in redacted and each.new and each.at not in users),
        before,
        sum(item.tokens for item in shown),
    )


def _is_users(items: Sequence[Item], at: int) -> bool:
    """Whether a message may have been a question once."""
    return any(
        each.seq == at and each.role == "user" for item in items if isinstance(item, Unit) for each in item.messages
    )


def _exposure(watch: Watch, at: int, name: str) -> Exposure:
    known = watch.known[name]
    return Exposure(at=at, fact=known.fact, ledger=known.ledger, key=known.key)


def guard_text(watch: Watch, text: str) -> str:
    """A text that is made anew for each call, as it may be shown."""
    if watch.idle:
        return text
    places = {at for word in guard.words(text) & watch.by_word.keys() for at in watch.by_word[word]}
    facts = [watch.facts[at] for at in sorted(places)]
    if all(each.standing == "live" for each in facts):
        return text
    cuts = guard.cuts(text, facts, (), watch.question)
    return guard.guarded(text, cuts, watch.policy) if cuts else text


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
        said = saw.text(message.text, watch.spans.get(message.seq, ()))
        calls = (f"[called {call.name}: {saw.text(spelled(call.args))}]" for call in message.tool_calls)
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


# Settling


def settle_redactions(place: Place, state: SessionState, guarded: Guarded, *, cause: str | None = None) -> Flow[bool]:
    """Put down what the guard keeps out of the view, if that is not what was put down last; whether it was something else.
    Ids alone go into the event. If others changed the view meanwhile, nothing is put down, and the answer is yes: look
    again."""
    known = {each.at: each for each in state.view(place.frame).redacted}
    shown = {each.at: each for each in guarded.redacted}
    places = {seq: at for at, item in enumerate(guarded.items) for seq in _seqs(item)}
    changed = [shown.get(at, Redacted(at)) for at in sorted({*known, *shown}) if at in places]
    changed = [each for each in changed if known.get(each.at, Redacted(each.at)) != each]
    if not changed:
        return False
    new = {*guarded.new} - known.keys()
    first = min((places[each.at] for each in changed if each.at not in new), default=None)
    version = state.version
    for at in range(0, len(changed), limits.REDACTED_ITEMS):
        command = RedactContext(
            scope=place.scope,
            frame=place.frame,
            version=version,
            redacted=tuple(changed[at : at + limits.REDACTED_ITEMS]),
            why=_why(changed, first),
            first_changed=first,
            original=guarded.original,
            final=guarded.final,
        )
        try:
            appended = yield from order(place, command, cause=cause)
        except PlanStale:
            return True
        version = max([version, *(each.seq for each in appended.events)])
    return True


def _seqs(item: Item) -> Iterator[int]:
    """What a redaction of this item may be named after."""
    yield item.seq
    for message in item.messages if isinstance(item, Unit) else ():
        yield message.seq


def _why(changed: Sequence[Redacted], first: int | None) -> RedactionWhy:
    if first is None:
        return "told"
    return "died" if any(each.mark for each in changed) else "returned"
