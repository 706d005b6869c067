"""What the guard has to know, looked up: which facts the text in view may tell, and which of them may not be shown.

Laws: nothing is stored of it as text, and the transcript stays as it is; what is looked up follows the text in view, not
the ledgers; who may not know of a fact is not told of it by what is put down.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast import codec
from holdfast.context.redacting import Guarded, Known, Watch, asked_in, guard_items, guard_text, parts_of, texts_of
from holdfast.core import guard
from holdfast.core.authority import may_know
from holdfast.core.guard import Span, Stated
from holdfast.core.shown import by_message, pieces_of
from holdfast.errors import PlanStale
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.inform_facts import NEWEST, ledger_where, state_of
from holdfast.flows.knowing import InUse, Scopes, checked_scopes, in_use, ledgers_of
from holdfast.flows.ledgers import writer_for
from holdfast.flows.place import Place, order
from holdfast.flows.read import message as message_of
from holdfast.model import limits
from holdfast.model.commands import RedactContext
from holdfast.model.content import BlobRef, Body, Data, Opaque, Text, text_of
from holdfast.model.facts import Fact, fact_id, fact_seq
from holdfast.model.messages import Item, Message, Unit
from holdfast.model.names import LedgerId
from holdfast.model.pack import Guard
from holdfast.model.plan import Redacted, RedactionWhy, Reduction
from holdfast.model.rows import FactRow, MentionRow, Order
from holdfast.model.state import SessionState

__all__ = ["Guarded", "Watch", "guard_items", "guard_text", "settle_redactions", "shown_guarded", "watch"]

_STEPS = 8
"""Links of a chain that are walked to what holds in the place of a fact."""
_COMMON_CHARS = 16
"""No common word is longer."""
_IN_ORDER = Order(("seq",))


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
    used: Sequence[InUse] | None = None,
) -> Flow[Watch]:
    """All that has to be known to show these items, as they would be shown without a guard, and these texts.

    The facts that they may tell are found by their words. Of each ledger, no more than the newest GUARD_FACTS live ones and
    as many dead ones are looked at. `question` is the text of the question; the newest message of the user is it if it says
    the same, or if none is given. Without `deferring`, also what died just now is kept out, whatever the policy says.
    `used` are the ledgers of the session that were ever written to, if that is known."""
    used = (yield from in_use(ledgers_of(place.scope, state))) if used is None else used
    ledgers = [(each.place, each.ledger) for each in used]
    if not ledgers:
        return Watch(policy=policy, question=question)
    opaque = yield from _opaque(place, items)
    words: set[str] = set()
    for text in itertools.chain(texts, texts_of(items, opaque)):
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
        several = each.anchor == guard.SEVERAL
        for word in guard.anchors(each.fact.value) if several else (each.anchor.removeprefix("="),):
            by_word.setdefault(word, []).append(at)
    deferred = place.context.policy.deaths == "deferred" and deferring
    return Watch(
        policy=policy,
        facts=stated,
        spans=spans,
        question=question,
        asked=asked_in(items, question),
        known={name: reader.known(each) for name, each in barred.items()},
        by_word={word: tuple(places) for word, places in by_word.items()},
        opaque=opaque,
        deferred_us=state.view(place.frame).settled_us if deferred else None,
    )


def shown_guarded(
    place: Place, state: SessionState, items: Sequence[Item], texts: Sequence[str] = (), *, deferring: bool = True
) -> Flow[tuple[Guarded, Watch]]:
    """These items as whoever speaks in the session may be shown them now; and what was looked up for them."""
    context = place.context
    policy, now = context.policy.guard, context.clock.now_us()
    found = yield from watch(place, state, items, texts, policy=policy, as_of_us=now, deferring=deferring)
    return guard_items(found, items, context.counter.count), found


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


def _candidates(ledger: LedgerId, words: Sequence[str]) -> Flow[list[FactRow]]:
    """The facts, live and dead, whose anchors are among these words. What is told by common words alone comes last, in a
    look-up of its own."""
    found: list[FactRow] = []
    where = ledger_where(ledger.stream)
    common = [guard.SEVERAL, *(f"={word}" for word in words if len(word) <= _COMMON_CHARS)]
    for anchors in (*_some(words), *_some(common)):
        among = {"anchor": anchors}
        rows = yield from effects.rows(FactRow, where, None, limits.READ_EVENTS, order=NEWEST, among=among)
        if len(rows) < limits.READ_EVENTS:
            found += rows
            continue
        for live in (0, 1):
            found += yield from _newest(where | {"live": live}, among)
    return found


def _some(words: Sequence[str]) -> Iterator[Sequence[str]]:
    return (words[at : at + limits.GUARD_WORDS] for at in range(0, len(words), limits.GUARD_WORDS))


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


def _moved(
    spans: Sequence[Span], recorded: Message, shown: Message, reduced: Mapping[int, Reduction]
) -> Iterator[Span]:
    """Spans of a message as recorded, in the characters of what is shown of it: of a piece that is shown by its beginning
    and its end, as much of them as is there."""
    old = new = 0
    now = dict(_piece_texts(shown))
    for number, was in _piece_texts(recorded):
        how, text = reduced.get(number), now.pop(number, "")
        head, tail = (len(was), 0) if how is None else (min(how.head, len(was)), min(how.tail, len(was)))
        if how is not None and how.form in ("page", "whole"):
            head = tail = 0
        for span in spans:
            start, stop = max(span.start, old), min(span.stop, old + head)
            if start < stop:
                yield Span(start - old + new, stop - old + new, span.id)
            start, stop = max(span.start, old + len(was) - tail), min(span.stop, old + len(was))
            if tail and start < stop:
                shift = new + len(text) - old - len(was)
                yield Span(start + shift, stop + shift, span.id)
        between = recorded.role != "assistant"
        old, new = old + len(was) + between, new + len(text) + between


def _piece_texts(message: Message) -> Iterator[tuple[int, str]]:
    """Those of its pieces that there is something to read in, in the order in which its text has them: content first."""
    pieces, first = list(pieces_of(message)), len(message.tool_results)
    between = "" if message.role == "assistant" else "\n"
    for number, parts, _ in (*pieces[first:], *pieces[:first]):
        if any(isinstance(part, Text | Data | Body) for part in parts):
            yield number, text_of(parts, between)


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
    for part in parts_of(items):
        if isinstance(part, Opaque) and isinstance(part.body, BlobRef) and part.body.digest not in found:
            chunks = functools.partial(place.context.bodies.chunks, place.context.tenant, part.body)
            body = yield from effects.outside(functools.partial(_joined, chunks))
            found[part.body.digest] = body.decode("utf-8", "replace")
    return found


def _joined(chunks: Callable[[], Iterable[bytes]]) -> bytes:
    return b"".join(chunks())


# Settling


def settle_redactions(place: Place, state: SessionState, guarded: Guarded, *, cause: str | None = None) -> Flow[bool]:
    """Put down what the guard keeps out of the view, if that is not what was put down last; whether it was something else.
    Ids alone go into the event. If others changed the view meanwhile, nothing is put down, and the answer is yes: look
    again."""
    known = {each.at: each for each in state.view(place.frame).redacted}
    shown = {each.at: each for each in guarded.redacted}
    if not known and not shown:
        return False
    places = {seq: at for at, item in enumerate(guarded.items) for seq in _seqs(item)}
    changed = [shown.get(at, Redacted(at)) for at in sorted({*known, *shown}) if at in places]
    changed = [each for each in changed if known.get(each.at, Redacted(each.at)) != each]
    if not changed:
        return False
    new = {*guarded.new} - known.keys()
    first = min((places[each.at] for each in changed if each.at not in new), default=None)
    version, tokens = state.version, sum(item.tokens for item in guarded.items)
    for at in range(0, len(changed), limits.REDACTED_ITEMS):
        command = RedactContext(
            scope=place.scope,
            frame=place.frame,
            version=version,
            redacted=tuple(changed[at : at + limits.REDACTED_ITEMS]),
            why=_why(changed, first),
            first_changed=first,
            original=guarded.original or tokens,
            final=guarded.final or tokens,
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
