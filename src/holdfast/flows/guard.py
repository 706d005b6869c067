"""What the guard has to know, looked up: which facts the text in view may state, and which of them may not be shown.

Laws: nothing of it is stored as text, and the transcript stays as it is; what is looked up follows the text in view, not
the ledgers; order is that of the log, never that of a clock; who may not know of a fact learns nothing of it from what is
stored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from holdfast import codec
from holdfast.context.redaction import Ending, Guarded, Watch, guard_items, guard_text, parts_of, texts_of
from holdfast.core import guard, infer
from holdfast.core.authority import may_know, outranks
from holdfast.core.patterns import Span, Stated
from holdfast.core.previews import MARK
from holdfast.core.shown import by_message, pieces_of, stored_in
from holdfast.errors import PlanStale
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.inform_facts import NEWEST, ledger_where, state_of
from holdfast.flows.knowing import InUse, Scopes, checked_scopes, in_use, ledgers_of
from holdfast.flows.ledgers import writer_for
from holdfast.flows.load import load
from holdfast.flows.place import Place, order
from holdfast.flows.read import message as message_of
from holdfast.model import limits
from holdfast.model.commands import RedactContext
from holdfast.model.content import BlobRef, Body, Data, Opaque, Part, Text, text_of
from holdfast.model.events import MessageRecorded
from holdfast.model.facts import Fact, fact_id, fact_seq
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.names import LedgerId
from holdfast.model.pack import Guard
from holdfast.model.plan import Redacted, RedactionWhy, Reduction
from holdfast.model.policy import Ladder
from holdfast.model.rows import FactRow, MentionRow, Order
from holdfast.model.state import SessionState

__all__ = [
    "Guarded",
    "Watch",
    "guard_items",
    "guard_text",
    "settle_redactions",
    "show_guarded",
    "show_messages",
    "show_text",
    "watch",
]

_STEPS = 8
"""Links of a chain that are walked from a superseded fact to the one that holds now."""
_COMMON_CHARS = 16
"""No common word is longer."""
_IN_ORDER = Order(("seq",))

Position = tuple[int, ...]


# Looking up


def watch(
    place: Place,
    state: SessionState,
    items: Sequence[Item],
    texts: Sequence[tuple[int, str]] = (),
    *,
    policy: Guard,
    within: Scopes = (),
    as_of_us: int,
    turn: int | None = None,
    deferring: bool = True,
    used: Sequence[InUse] | None = None,
) -> Flow[Watch]:
    """All that has to be known to show these items, as they would be shown without a guard, and these texts, each with the
    seq of the event that it came with.

    The facts that they may state are found by their terms. Of each ledger, no more than the newest GUARD_FACTS live ones
    and as many dead ones are looked at. `turn` is the first event of the current turn: without one it begins with the
    newest message of the user, or, where no user speaks, with the last item; 0 is for none. Without `deferring`, what ended
    just now is kept out as well, whatever the policy says. `used` are the ledgers of the session that were ever written
    to, if that is known."""
    used = (yield from in_use(ledgers_of(place.scope, state))) if used is None else used
    ledgers = [(each.place, each.ledger) for each in used]
    if not ledgers:
        return Watch(policy=policy)
    opaque = yield from _opaque(place, items)
    sources = [*texts, *texts_of(items, opaque)]
    terms: set[str] = set()
    for _, text in sources:
        terms |= guard.probes(text)
    found: dict[str, _Found] = {}
    for number, ledger in ledgers:
        for row in (yield from _candidates(ledger, sorted(terms))):
            found[f"{number}:{fact_id(row.fact)}"] = _Found(ledger, state_of(row).fact, row.anchor)
    spans = yield from _spans(place, state, items, ledgers, found)
    reader = _Reader(
        permissions=writer_for(place.context, state.identity).permissions,
        scopes=frozenset((("global", ""), *checked_scopes(within), ("session", place.scope.session))),
        as_of_us=as_of_us,
    )
    barred = {name: each for name, each in found.items() if reader.standing(each.fact) != "live"}
    if not barred:
        return Watch(policy=policy)
    ladder = place.context.policy.ladder
    current = yield from _replacements(
        ladder, ledgers, {name: each for name, each in barred.items() if reader.knows(each.fact)}, reader
    )
    stated = tuple(
        Stated(name, each.fact.key, each.fact.value, reader.standing(each.fact), name in current)
        for name, each in found.items()
    )
    by_term = _by_term(list(found.values()))
    near = _near(sources, by_term, items) | spans.keys()
    defers = place.context.policy.deaths == "deferred" and deferring
    endings = yield from _endings(place, state, items, barred, sorted(near), reader, defers)
    secret = [each for each in stated if each.standing == "withheld"]
    return Watch(
        policy=policy,
        facts=stated,
        endings=endings,
        spans=spans,
        by_term=by_term,
        current={barred[name].fact.key: " ".join(infer.text_of(fact.value).split()) for name, fact in current.items()},
        turn=_turn_of(items) if turn is None else turn,
        typed=(yield from _typed(place, items, secret)) if secret else {},
        opaque=opaque,
    )


def _by_term(found: Sequence[_Found]) -> dict[str, tuple[int, ...]]:
    """The places of the facts that a term leads to."""
    places: dict[str, list[int]] = {}
    for at, each in enumerate(found):
        several = each.anchor == guard.SEVERAL
        for term in guard.anchors(each.fact.value) if several else (each.anchor.removeprefix("!"),):
            places.setdefault(term, []).append(at)
    return {term: tuple(some) for term, some in places.items()}


def _near(
    sources: Sequence[tuple[int, str]], by_term: Mapping[str, tuple[int, ...]], items: Sequence[Item]
) -> set[int]:
    """The events of texts that may state a fact; of a summary, both ends, since a fact may have ended between them."""
    found = {seq for seq, text in sources if seq and not guard.probes(text).isdisjoint(by_term)}
    found |= {next((item.first for item in items if isinstance(item, Unit)), 0)} - {
        0
    }  # what was known before the view?
    return found | {item.first for item in items if isinstance(item, Summary) and item.last in found}


def show_guarded(
    place: Place, state: SessionState, items: Sequence[Item], *, turn: int | None = None, deferring: bool = True
) -> Flow[Guarded]:
    """These items as whoever speaks in the session may be shown them now."""
    context = place.context
    policy, now = context.policy.guard, context.clock.now_us()
    found = yield from watch(place, state, items, policy=policy, as_of_us=now, turn=turn, deferring=deferring)
    return guard_items(found, items, context.counter.count)


def show_messages(place: Place, state: SessionState, messages: Sequence[Message]) -> Flow[tuple[Message, ...]]:
    """These messages, none of the current turn, each by itself, as whoever speaks in the session may be shown them now."""
    if not messages:
        return ()
    guarded = yield from show_guarded(place, state, [Unit((each,)) for each in messages], turn=0)
    return tuple(each for item in guarded.items if isinstance(item, Unit) for each in item.messages)


def show_text(place: Place, text: str, seq: int) -> Flow[str]:
    """A text that came with event `seq`, as whoever speaks in the session may be shown it now, out of its place."""
    state = yield from load(place.scope.stream, place.context.cache, fresh=True)
    policy, now = place.context.policy.guard, place.context.clock.now_us()
    found = yield from watch(place, state, (), [(seq, text)], policy=policy, as_of_us=now, turn=0, deferring=False)
    return guard_text(found, text, seq)


def _turn_of(items: Sequence[Item]) -> int:
    """The first event of the current turn."""
    for item in reversed(items):
        for message in reversed(item.messages) if isinstance(item, Unit) else ():
            if message.role == "user":
                return message.seq
    last = items[-1] if items else None
    return last.first if isinstance(last, Unit) else 0


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

    def standing(self, fact: Fact) -> Literal["live", "dead", "withheld"]:
        """A fact of another scope holds there: its value is nobody's business here, and stays where it was said."""
        if not self.knows(fact):
            return "withheld"
        return "live" if fact.is_valid and not fact.ran_out(self.as_of_us) else "dead"

    def holds(self, fact: Fact) -> bool:
        """Whether a fact is the current one in the scopes that are read."""
        here = (fact.scope, fact.scope_id) in self.scopes
        return here and not fact.claim and self.standing(fact) == "live"


def _endings(
    place: Place,
    state: SessionState,
    items: Sequence[Item],
    barred: Mapping[str, _Found],
    near: Sequence[int],
    reader: _Reader,
    defers: bool,
) -> Flow[dict[str, Ending]]:
    """When each of these facts ended, in events of the session: by the positions of both in the log."""
    stream = place.scope.stream
    positions = dict(zip(near, (yield from effects.positions(stream, near)), strict=True)) if near else {}
    boundary = state.view(place.frame).boundary if defers else 0
    settled: Position = (yield from effects.positions(stream, [boundary]))[0] if boundary else ()
    times = {each.seq: each.time_us for item in items if isinstance(item, Unit) for each in item.messages}
    ends: dict[LedgerId, list[int]] = {}
    for each in barred.values():
        known = (each.fact.ended_seq, fact_seq(each.fact.id)) if reader.knows(each.fact) else ()
        ends.setdefault(each.ledger, []).extend(filter(None, known))
    when: dict[tuple[LedgerId, int], Position] = {}
    for ledger, seqs in ends.items():
        found = yield from effects.positions(ledger.stream, seqs)
        when |= {(ledger, seq): position for seq, position in zip(seqs, found, strict=True)}
    endings: dict[str, Ending] = {}
    for name, each in barred.items():
        fact = each.fact
        ended = when.get((each.ledger, fact.ended_seq), ())
        if ended:
            last = _before(positions, ended)
        else:  # it ran out, or its row is from an older process: only a clock says when
            over = fact.expires_us or 0 if fact.ended_us is None else fact.ended_us
            last = max((seq for seq in near if times.get(seq, 0) < over), default=0)
        endings[name] = Ending(
            fact=fact.id,
            key=fact.key,
            ledger=each.ledger.stream.key,
            last=last,
            asserted=_before(positions, when.get((each.ledger, fact_seq(fact.id)), ())),
            withheld=not reader.knows(fact),
            deferred=defers and ended > settled,
            sources=frozenset(fact.provenance),
        )
    return endings


def _before(positions: Mapping[int, Position], end: Position) -> int:
    """The last of these events of the session that stands before a position in the log; 0 if none does."""
    return max((seq for seq, position in positions.items() if position and position < end), default=0)


def _typed(place: Place, items: Sequence[Item], secret: Sequence[Stated]) -> Flow[dict[str, int]]:
    """Which withheld values readers typed themselves, and in which message first: also in messages that were folded."""
    said = [
        (each.seq, each.text)
        for item in items
        if isinstance(item, Unit)
        for each in item.messages
        if each.role == "user"
    ]
    folded = max((item.last for item in items if isinstance(item, Summary)), default=0)
    before: int | None = folded + 1
    while folded and before and len(said) < limits.LIVE_MESSAGES:
        page = yield from effects.read_back(place.scope.stream, before, limits.READ_EVENTS, (MessageRecorded.name,))
        said += ((each.seq, each.text) for each in map(message_of, page) if each.role == "user")
        before = page[-1].seq if len(page) == limits.READ_EVENTS else None
    found: dict[str, int] = {}
    for seq, text in sorted(said):
        for name in guard.repeats(text, secret):
            found.setdefault(name, seq)
    return found


def _candidates(ledger: LedgerId, terms: Sequence[str]) -> Flow[list[FactRow]]:
    """The facts, live and dead, whose anchors are among these terms. What is known by common words alone comes last, in a
    look-up of its own."""
    found: list[FactRow] = []
    where = ledger_where(ledger.stream)
    common = [guard.SEVERAL, *(f"!{term}" for term in terms if len(term) <= _COMMON_CHARS)]
    for anchors in (*_some(terms), *_some(common)):
        among = {"anchor": anchors}
        rows = yield from effects.rows(FactRow, where, None, limits.READ_EVENTS, order=NEWEST, among=among)
        if len(rows) < limits.READ_EVENTS:
            found += rows
            continue
        for live in (0, 1):
            found += yield from _newest(where | {"live": live}, among)
    return found


def _some(terms: Sequence[str]) -> Iterator[Sequence[str]]:
    return (terms[at : at + limits.GUARD_WORDS] for at in range(0, len(terms), limits.GUARD_WORDS))


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
    preview = place.context.spooling.preview
    for seq in sorted(spans):
        if seq not in reduced and len(shown[seq].text) <= preview and not _shows_stored(shown[seq]):
            continue  # it is shown as it was recorded: a stored body takes more, or has a marker
        for recorded in (yield from effects.read(place.scope.stream, seq - 1, 1)):
            spans[seq] = list(_moved(spans[seq], message_of(recorded), shown[seq], reduced.get(seq, {})))
    return {seq: tuple(sorted(each)) for seq, each in spans.items()}


def _add(number: int, ledger: LedgerId, facts: Sequence[int], found: dict[str, _Found]) -> Flow[None]:
    where = ledger_where(ledger.stream)
    for at in range(0, len(facts), limits.READ_EVENTS):
        some = facts[at : at + limits.READ_EVENTS]
        for row in (yield from effects.rows(FactRow, where, None, len(some), among={"fact": some})):
            found[f"{number}:{fact_id(row.fact)}"] = _Found(ledger, state_of(row).fact, row.anchor)


def _shows_stored(message: Message) -> bool:
    """Whether a message may show a stored body by a preview."""
    return MARK in message.text or any(stored_in(parts) for _, parts, _ in pieces_of(message))


def _moved(
    spans: Sequence[Span], recorded: Message, shown: Message, reduced: Mapping[int, Reduction]
) -> Iterator[Span]:
    """Spans of a message as recorded, in the characters of what is shown of it: of a piece that is shown by its beginning
    and its end, as much of them as is there."""
    old = new = 0
    now = dict(_piece_texts(shown))
    stored = {number: _tail_of(parts) for number, parts, _ in pieces_of(recorded) if stored_in(parts)}
    for number, was in _piece_texts(recorded):
        how, text = reduced.get(number), now.pop(number, "")
        head, tail = (len(was), 0) if how is None else (min(how.head, len(was)), min(how.tail, len(was)))
        if number in stored:  # recorded was its preview: what is shown may begin and end like it
            head = _common(was, text)
            tail = min(_common(was[::-1], text[::-1]), stored[number], len(was) - head)
        elif how is not None and how.form in ("page", "whole"):
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


def _tail_of(parts: Sequence[Part]) -> int:
    """How many of the last characters of a piece are the end of a stored body."""
    last = parts[-1]
    return last.tail if isinstance(last, Body) else 0


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _piece_texts(message: Message) -> Iterator[tuple[int, str]]:
    """Those of its pieces that there is something to read in, in the order in which its text has them: content first."""
    pieces, first = list(pieces_of(message)), len(message.tool_results)
    between = "" if message.role == "assistant" else "\n"
    for number, parts, _ in (*pieces[first:], *pieces[:first]):
        if any(isinstance(part, Text | Data | Body) for part in parts):
            yield number, text_of(parts, between)


def _replacements(
    ladder: Ladder, ledgers: Sequence[tuple[int, LedgerId]], barred: Mapping[str, _Found], reader: _Reader
) -> Flow[dict[str, Fact]]:
    """What holds in the place of these facts: the current value of the same key, or the one that the chain leads to."""
    keys = sorted({each.fact.key for each in barred.values()})
    held: dict[str, Fact] = {}
    for _, ledger in ledgers if keys else ():
        where = ledger_where(ledger.stream) | {"live": 1}
        for at in range(0, len(keys), limits.GUARD_WORDS):
            among = {"subject": keys[at : at + limits.GUARD_WORDS]}
            for row in (yield from _newest(where, among)):
                fact = state_of(row).fact
                if reader.holds(fact) and (
                    fact.key not in held or outranks(ladder, fact.authority, held[fact.key].authority)
                ):
                    held[fact.key] = fact
    replaced = {name: held[each.fact.key] for name, each in barred.items() if each.fact.key in held}
    for number, ledger in ledgers:
        ahead = {
            name: each.fact.superseded_by
            for name, each in barred.items()
            if each.ledger == ledger and name not in replaced and each.fact.superseded_by is not None
        }
        yield from _walk(number, ledger, ahead, replaced, reader)
    return replaced


def _walk(
    number: int, ledger: LedgerId, ahead: dict[str, str], replaced: dict[str, Fact], reader: _Reader
) -> Flow[None]:
    """Follow what superseded facts, and what superseded that, until something holds."""
    for _ in range(_STEPS):
        met: dict[str, _Found] = {}
        yield from _add(number, ledger, sorted({fact_seq(each) for each in ahead.values()}), met)
        on: dict[str, str] = {}
        for name, by in ahead.items():
            each = met.get(f"{number}:{by}")
            if each is None or not reader.knows(each.fact):
                continue
            if reader.holds(each.fact):
                replaced[name] = each.fact
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
    """Record what the guard keeps out of the view, if it differs from what was recorded last; whether it did. Only ids go
    into the event. If others changed the view meanwhile, nothing is recorded, and the answer is yes: look again."""
    known = {each.at: each for each in state.view(place.frame).redacted}
    shown = {each.at: each for each in guarded.redacted}
    if not known and not shown:
        return False
    places = {seq: at for at, item in enumerate(guarded.items) for seq in _seqs(item)}
    changed = [shown.get(at, Redacted(at)) for at in sorted({*known, *shown}) if at in places]
    changed = [each for each in changed if known.get(each.at, Redacted(each.at)) != each]
    if not changed:
        return False
    first = min(places[each.at] for each in changed)
    version, tokens = state.version, sum(item.tokens for item in guarded.items)
    for at in range(0, len(changed), limits.REDACTED_ITEMS):
        command = RedactContext(
            scope=place.scope,
            frame=place.frame,
            version=version,
            redacted=tuple(changed[at : at + limits.REDACTED_ITEMS]),
            why=_why(changed),
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


def _why(changed: Sequence[Redacted]) -> RedactionWhy:
    return "died" if any(each.mark for each in changed) else "returned"
