"""Load what the guard needs: which facts the text in view may state, and which of them may not be shown.

Laws:
- None of it is stored as text, and the transcript stays as it is.
- The cost follows the text in view, not the ledgers.
- Order is that of the log, never that of a clock.
- A reader who may not know a fact learns nothing of it from what is stored.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Literal

import msgspec

from holdfast import codec
from holdfast.core.facts.authority import may_know, outranks
from holdfast.core.history.guard import (
    AnchoredFacts,
    FactEnd,
    GuardedItems,
    GuardInput,
    GuardMemory,
    guard_items,
    guard_text,
    iter_parts,
    iter_texts,
)
from holdfast.core.history.previews import MARKER_START
from holdfast.core.history.views import find_newest, group_by_message, has_stored_body, pieces_of, show_lines
from holdfast.core.sessions.forks import stretches_of
from holdfast.errors import PlanStale
from holdfast.flows import effects
from holdfast.flows.context import SessionContext, execute_command
from holdfast.flows.effects import Flow
from holdfast.flows.facts.changes import writer_for
from holdfast.flows.facts.lookup import NEWEST, ledger_where, state_of
from holdfast.flows.facts.queries import Scopes, UsedLedger, check_scopes, find_used_ledgers, ledgers_of
from holdfast.flows.load import load_session_state
from holdfast.flows.sessions.transcript import message_of
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Data, Opaque, Part, Text, text_of
from holdfast.model.facts.fact import Fact, fact_id, fact_seq
from holdfast.model.history.commands import RedactContext
from holdfast.model.history.plans import Redaction, RedactionReason, Reduction
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.names import LedgerId, Scope
from holdfast.model.packs.pack import GuardMode
from holdfast.model.policy import AuthorityLadder
from holdfast.model.rows import FactRow, MentionRow, RowOrder
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import SessionState
from holdfast.text.guard import finder
from holdfast.text.guard.patterns import GuardFact, ValueSpan
from holdfast.text.lines import one_line
from holdfast.text.values import value_text

_CHAIN_LINKS = 8
"""The links that are followed from a superseded fact to the current one."""
_COMMON_CHARS = 16
"""No common word is longer."""
_IN_ORDER = RowOrder(("seq",))
LogPosition = tuple[int, ...]


def load_guard_input(
    context: SessionContext,
    state: SessionState,
    items: Sequence[HistoryItem],
    texts: Sequence[tuple[int, str]] = (),
    *,
    policy: GuardMode,
    within: Scopes = (),
    as_of_us: int,
    turn: int | None = None,
    deferring: bool = True,
    used: Sequence[UsedLedger] | None = None,
    last: GuardMemory | None = None,
) -> Flow[GuardInput]:
    """The guard's input for these items, as they are shown without a guard, and these texts, each with the seq of its
    event.

    The facts that they may state are found by their terms. Of each ledger, the newest GUARD_FACTS live ones and as many
    ended ones are looked at. `turn` is the first event of the current turn: by default the newest message of the user,
    or, without a user, the last item; 0 for none. Without `deferring`, facts that ended just now are guarded too,
    whatever the policy. `used` are the ledgers of the session that were ever written to, if the caller knows them;
    `last` is the memory of an earlier view.
    """
    used = (yield from find_used_ledgers(ledgers_of(context.scope, state))) if used is None else used
    ledgers, memory = [(one.ordinal, one.ledger) for one in used], GuardMemory(last)
    if not ledgers:
        return GuardInput(policy=policy)
    opaque = yield from _load_opaque(context, items)
    sources = [*texts, *iter_texts(items, opaque)]
    terms: set[str] = set()
    for _, text in sources:
        terms |= finder.lookup_terms(text)
    facts: dict[str, _LedgerFact] = {}
    for number, ledger, version in used:
        for row in (yield from load_candidates(ledger, version, terms, memory)):
            facts[f"{number}:{fact_id(row.fact)}"] = _LedgerFact(ledger, state_of(row).fact, row.anchor)
    spans = yield from _load_spans(context, state, items, ledgers, facts)
    reader = _ViewReader(
        permissions=writer_for(context.engine, state.identity).permissions,
        scopes=frozenset((("global", ""), *check_scopes(within), ("session", context.scope.session))),
        as_of_us=as_of_us,
    )
    barred = {name: one for name, one in facts.items() if reader.status_of(one.fact) != "live"}
    if not barred:
        return GuardInput(policy=policy, memory=memory)
    ended = {name: one for name, one in barred.items() if reader.may_know(one.fact)}
    current = yield from _load_replacements(context.engine.policy.ladder, used, ended, reader, memory)
    guard_facts = tuple(
        GuardFact(name, one.fact.key, one.fact.value, reader.status_of(one.fact), name in current)
        for name, one in facts.items()
    )
    by_term = _index_terms(list(facts.values()))
    near = _find_near_events(sources, by_term, items) | spans.keys()
    defers = context.engine.policy.deaths == "deferred" and deferring
    endings = yield from _load_ends(context, state, items, barred, sorted(near), reader, defers)
    secret = [fact for fact in guard_facts if fact.status == "withheld"]
    return GuardInput(
        policy=policy,
        facts=guard_facts,
        endings=endings,
        spans=spans,
        by_term=by_term,
        current_values={barred[name].fact.key: one_line(value_text(fact.value)) for name, fact in current.items()},
        turn=_find_current_turn(items) if turn is None else turn,
        typed_seqs=(yield from _load_typed_values(context, state, items, secret)) if secret else {},
        opaque_texts=opaque,
        memory=memory,
    )


def _index_terms(facts: Sequence[_LedgerFact]) -> dict[str, tuple[int, ...]]:
    """The indexes of the facts of each term."""
    indexes: dict[str, list[int]] = {}
    for at, one in enumerate(facts):
        is_composite = one.anchor == finder.COMPOSITE_ANCHOR
        for term in finder.anchors_of(one.fact.value) if is_composite else (one.anchor.removeprefix("!"),):
            indexes.setdefault(term, []).append(at)
    return {term: tuple(numbers) for term, numbers in indexes.items()}


def _find_near_events(
    sources: Sequence[tuple[int, str]], by_term: Mapping[str, tuple[int, ...]], items: Sequence[HistoryItem]
) -> set[int]:
    """The events of texts that may state a fact. Of a summary, both ends, since a fact may have ended between them; and the
    first message in view, since a fact may have ended before it."""
    terms = by_term.keys()
    seqs = {seq for seq, text in sources if seq and not terms.isdisjoint(finder.lookup_terms(text))}
    first = next((item.first for item in items if isinstance(item, MessageGroup)), 0)
    summaries = {
        item.first for item in items if isinstance(item, Summary) and (item.last in seqs or item.last == first)
    }
    return (seqs | {first} | summaries) - {0}


def load_guarded_items(
    context: SessionContext,
    state: SessionState,
    items: Sequence[HistoryItem],
    *,
    turn: int | None = None,
    deferring: bool = True,
) -> Flow[GuardedItems]:
    """These items as the speaker of the session may be shown them now."""
    engine = context.engine
    policy, now = engine.policy.guard, engine.clock.now_us()
    guard_input = yield from load_guard_input(
        context, state, items, policy=policy, as_of_us=now, turn=turn, deferring=deferring
    )
    return guard_items(guard_input, items, engine.counter.count)


def load_guarded_messages(
    context: SessionContext, state: SessionState, messages: Sequence[Message]
) -> Flow[tuple[Message, ...]]:
    """These messages, none of the current turn, as the speaker of the session may be shown them now."""
    if not messages:
        return ()
    guarded = yield from load_guarded_items(context, state, [MessageGroup((message,)) for message in messages], turn=0)
    return tuple(message for item in guarded.items if isinstance(item, MessageGroup) for message in item.messages)


def load_guarded_text(context: SessionContext, text: str, seq: int) -> Flow[str]:
    """A text of event `seq`, as the speaker of the session may be shown it now, outside of its message."""
    state = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=True)
    policy, now = context.engine.policy.guard, context.engine.clock.now_us()
    guard_input = yield from load_guard_input(
        context, state, (), [(seq, text)], policy=policy, as_of_us=now, turn=0, deferring=False
    )
    return guard_text(guard_input, text, seq)


def _find_current_turn(items: Sequence[HistoryItem]) -> int:
    """The first event of the current turn."""
    message = find_newest(items, "user")
    if message is not None:
        return message.seq
    last = items[-1] if items else None
    return last.first if isinstance(last, MessageGroup) else 0


class _LedgerFact(msgspec.Struct, frozen=True):
    ledger: LedgerId
    fact: Fact
    anchor: str


class _ViewReader(msgspec.Struct, frozen=True):
    """Who is shown a view, in which scopes, and when."""

    permissions: tuple[str, ...] | None
    scopes: frozenset[tuple[str, str]]
    as_of_us: int

    def may_know(self, fact: Fact) -> bool:
        return may_know(fact.requires, self.permissions)

    def status_of(self, fact: Fact) -> Literal["live", "dead", "withheld"]:
        """A fact of another scope is live there: its value concerns nobody here, and stays where it was stated."""
        if not self.may_know(fact):
            return "withheld"
        return "live" if fact.is_valid and not fact.has_expired(self.as_of_us) else "dead"

    def is_current(self, fact: Fact) -> bool:
        """Whether a fact is the current one in the reader's scopes."""
        in_scope = (fact.scope, fact.scope_id) in self.scopes
        return in_scope and not fact.is_claim and self.status_of(fact) == "live"


def _load_ends(
    context: SessionContext,
    state: SessionState,
    items: Sequence[HistoryItem],
    barred: Mapping[str, _LedgerFact],
    near: Sequence[int],
    reader: _ViewReader,
    defers: bool,
) -> Flow[dict[str, FactEnd]]:
    """When each of these facts ended, in events of the session: by the positions of both in the log."""
    stream = context.scope.stream
    positions = dict(zip(near, (yield from effects.positions(stream, near)), strict=True)) if near else {}
    boundary = state.view(context.frame).boundary if defers else 0
    settled: LogPosition = (yield from effects.positions(stream, [boundary]))[0] if boundary else ()
    times = {
        message.seq: message.time_us for item in items if isinstance(item, MessageGroup) for message in item.messages
    }
    ends: dict[LedgerId, list[int]] = {}
    for one in barred.values():
        seqs_of_fact = (one.fact.ended_seq, fact_seq(one.fact.id)) if reader.may_know(one.fact) else ()
        ends.setdefault(one.ledger, []).extend(filter(None, seqs_of_fact))
    when: dict[tuple[LedgerId, int], LogPosition] = {}
    for ledger, seqs in ends.items():
        in_log = yield from effects.positions(ledger.stream, seqs)
        when |= {(ledger, seq): position for seq, position in zip(seqs, in_log, strict=True)}
    endings: dict[str, FactEnd] = {}
    for name, one in barred.items():
        fact = one.fact
        ended = when.get((one.ledger, fact.ended_seq), ())
        end_us = fact.expires_us or 0 if fact.ended_us is None else fact.ended_us
        if ended:
            last = _last_before(positions, ended)
        else:  # it expired, or its row is from an older process: only a clock says when
            last = max((seq for seq in near if times.get(seq, 0) < end_us), default=0)
        endings[name] = FactEnd(
            fact=fact.id,
            key=fact.key,
            ledger=one.ledger.stream.key,
            seq_before_end=last,
            seq_before_assertion=_last_before(positions, when.get((one.ledger, fact_seq(fact.id)), ())),
            withheld=not reader.may_know(fact),
            deferred=defers and ended > settled,
            sources=frozenset(fact.provenance),
            ended_seq=fact.ended_seq if ended else 0,
            ended_us=end_us,
        )
    return endings


def _last_before(positions: Mapping[int, LogPosition], end: LogPosition) -> int:
    """The last of these events of the session before a position in the log; 0 if there is none."""
    return max((seq for seq, position in positions.items() if position and position < end), default=0)


def _load_typed_values(
    context: SessionContext, state: SessionState, items: Sequence[HistoryItem], secret: Sequence[GuardFact]
) -> Flow[dict[str, int]]:
    """The withheld values that users typed themselves, and the first message that has each, folded messages included."""
    texts = [
        (message.seq, message.text)
        for item in items
        if isinstance(item, MessageGroup)
        for message in item.messages
        if message.role == "user"
    ]
    folded = max((item.last for item in items if isinstance(item, Summary)), default=0)
    before: int | None = folded + 1
    hidden = state.hidden_ranges(context.frame)
    while folded and before and len(texts) < limits.LIVE_MESSAGES:
        page = yield from effects.read_back(context.scope.stream, before, limits.READ_EVENTS, (MessageRecorded.name,))
        messages = (message for message in map(message_of, page) if message.seq not in hidden)
        texts += ((message.seq, message.text) for message in messages if message.role == "user")
        before = page[-1].seq if len(page) == limits.READ_EVENTS else None
    seqs: dict[str, int] = {}
    for seq, text in sorted(texts):
        for name in finder.find_facts_by_value(text, secret):
            seqs.setdefault(name, seq)
    return seqs


def load_candidates(ledger: LedgerId, version: int, terms: Set[str], memory: GuardMemory) -> Flow[Sequence[FactRow]]:
    """The facts, live and ended, whose anchors are among these terms. Those with common words alone come last, in a
    query of their own."""
    where, known = ledger_where(ledger.stream), memory.facts_before.get((ledger, version))
    before = AnchoredFacts() if known is None else known
    plain = [row for row in before.plain if row.anchor in terms]
    common = [row for row in before.common if row.anchor == finder.COMPOSITE_ANCHOR or row.anchor[1:] in terms]
    new = sorted(terms - before.terms)
    new_common = [f"!{term}" for term in new if len(term) <= _COMMON_CHARS]
    if known is None:
        new_common.insert(0, finder.COMPOSITE_ANCHOR)
    plain = _sort_newest(plain, (yield from _load_anchored(where, new)))
    common = _sort_newest(common, (yield from _load_anchored(where, new_common)))
    if len(terms) < limits.GUARD_WORDS and max(len(plain), len(common)) < limits.READ_EVENTS:
        memory.facts[ledger, version] = AnchoredFacts(terms, plain, common)
    elif known is not None:  # the bounds are those of all terms together
        return (yield from load_candidates(ledger, version, terms, GuardMemory()))
    return [*plain, *common]


def _sort_newest(known: list[FactRow], read: list[FactRow]) -> list[FactRow]:
    return sorted([*known, *read], key=lambda row: -row.fact) if known and read else known or read


def _load_anchored(where: dict[str, str | int], anchors: Sequence[str]) -> Flow[list[FactRow]]:
    facts: list[FactRow] = []
    for some in _split_terms(anchors):
        among = {"anchor": some}
        rows = yield from effects.rows(FactRow, where, None, limits.READ_EVENTS, order=NEWEST, among=among)
        if len(rows) < limits.READ_EVENTS:
            facts += rows
            continue
        for live in (0, 1):
            facts += yield from _load_newest(where | {"live": live}, among)
    return facts


def _split_terms(terms: Sequence[str]) -> Iterator[Sequence[str]]:
    return (terms[at : at + limits.GUARD_WORDS] for at in range(0, len(terms), limits.GUARD_WORDS))


def _load_newest(where: dict[str, str | int], among: Mapping[str, Sequence[str | int]]) -> Flow[list[FactRow]]:
    facts: list[FactRow] = []
    while len(facts) < limits.GUARD_FACTS:
        last = facts[-1] if facts else None
        most = min(limits.READ_EVENTS, limits.GUARD_FACTS - len(facts))
        rows = yield from effects.rows(FactRow, where, last, most, order=NEWEST, among=among)
        facts += rows
        if len(rows) < most:
            break
    return facts


def _load_spans(
    context: SessionContext,
    state: SessionState,
    items: Sequence[HistoryItem],
    ledgers: Sequence[tuple[int, LedgerId]],
    facts: dict[str, _LedgerFact],
) -> Flow[dict[int, tuple[ValueSpan, ...]]]:
    """The values of facts in the messages in view, as far as they are recorded. Facts that are not in `facts` are added
    to it."""
    shown = {message.seq: message for item in items if isinstance(item, MessageGroup) for message in item.messages}
    if not shown:
        return {}
    numbers = {codec.encode_stream_key(ledger.stream): number for number, ledger in ledgers}
    rows: list[MentionRow] = []
    for stretch, live in itertools.product(stretches_of(state.origin, context.scope.stream), (0, 1)):
        first, end = max(min(shown), stretch.first), min(max(shown), stretch.last)
        if first > end:
            continue
        where: dict[str, str | int] = {**Scope.from_stream(stretch.stream).columns, "live": live}
        bounds: dict[str, Any] = {"least": {"seq": first}, "most": {"seq": end}, "order": _IN_ORDER}
        last: MentionRow | None = None
        while page := (yield from effects.rows(MentionRow, where, last, limits.READ_EVENTS, **bounds)):
            rows += (row for row in page if row.seq in shown and row.ledger in numbers)
            last = page[-1]
            if len(page) < limits.READ_EVENTS:
                break
    for number, ledger in ledgers:
        key = codec.encode_stream_key(ledger.stream)
        names = {row.fact for row in rows if row.ledger == key and f"{number}:{fact_id(row.fact)}" not in facts}
        yield from _load_facts(number, ledger, sorted(names), facts)
    spans: dict[int, list[ValueSpan]] = {}
    for row in rows:
        name = f"{numbers[row.ledger]}:{fact_id(row.fact)}"
        if name in facts:
            spans.setdefault(row.seq, []).append(ValueSpan(row.start, row.stop, name))
    reduced = group_by_message(state.view(context.frame).reduced)
    preview = context.engine.spooling.preview
    for seq in sorted(spans):
        if seq not in reduced and len(shown[seq].text) <= preview and not _may_show_preview(shown[seq]):
            continue  # it is shown as it was recorded: a stored body is longer, or has a marker
        for recorded in (yield from effects.read(context.scope.stream, seq - 1, 1)):
            spans[seq] = list(_move_spans(spans[seq], message_of(recorded), shown[seq], reduced.get(seq, {})))
    return {seq: tuple(sorted(values)) for seq, values in spans.items()}


def _load_facts(number: int, ledger: LedgerId, seqs: Sequence[int], facts: dict[str, _LedgerFact]) -> Flow[None]:
    where = ledger_where(ledger.stream)
    for at in range(0, len(seqs), limits.READ_EVENTS):
        page = seqs[at : at + limits.READ_EVENTS]
        for row in (yield from effects.rows(FactRow, where, None, len(page), among={"fact": page})):
            facts[f"{number}:{fact_id(row.fact)}"] = _LedgerFact(ledger, state_of(row).fact, row.anchor)


def _may_show_preview(message: Message) -> bool:
    """Whether a message may show a stored body by a preview."""
    return MARKER_START in message.text or any(has_stored_body(parts) for _, parts, _ in pieces_of(message))


def _move_spans(
    spans: Sequence[ValueSpan], recorded: Message, shown: Message, reduced: Mapping[int, Reduction]
) -> Iterator[ValueSpan]:
    """Spans of a message as recorded, in the characters of what is shown of it. Of a piece that is shown in part, the
    parts of the spans that are there."""
    old = new = 0
    texts = dict(_piece_texts(shown))
    stored = {number: _tail_length(parts) for number, parts, _ in pieces_of(recorded) if has_stored_body(parts)}
    for number, before in _piece_texts(recorded):
        reduction, text = reduced.get(number), texts.pop(number, "")
        head, tail = (
            (len(before), 0)
            if reduction is None
            else (min(reduction.head, len(before)), min(reduction.tail, len(before)))
        )
        if number in stored:  # its preview was recorded: what is shown may begin and end like it
            head = _common_prefix_length(before, text)
            tail = min(_common_prefix_length(before[::-1], text[::-1]), stored[number], len(before) - head)
        elif reduction is not None and reduction.form in ("page", "whole"):
            head = tail = 0
        elif reduction is not None and reduction.form == "lines":
            yield from _move_to_lines(spans, reduction, before, old, new + len(text))
        for span in spans:
            start, stop = max(span.start, old), min(span.stop, old + head)
            if start < stop:
                yield ValueSpan(start - old + new, stop - old + new, span.id)
            start, stop = max(span.start, old + len(before) - tail), min(span.stop, old + len(before))
            if tail and start < stop:
                shift = new + len(text) - old - len(before)
                yield ValueSpan(start + shift, stop + shift, span.id)
        between = recorded.role != "assistant"
        old, new = old + len(before) + between, new + len(text) + between


def _move_to_lines(
    spans: Sequence[ValueSpan], reduction: Reduction, text: str, old: int, end: int
) -> Iterator[ValueSpan]:
    """Spans of a piece that is shown by some of its lines. `old` is where it begins as recorded, `end` where it ends as
    it is shown."""
    shown_lines = show_lines(text, reduction.lines)
    at = end - sum(len(each.text) + 1 for each in shown_lines) + 1
    for line in shown_lines:
        for span in spans:
            start, stop = max(span.start - old, line.start), min(span.stop - old, line.end)
            if line.start >= 0 and start < stop:
                yield ValueSpan(start - line.start + at, stop - line.start + at, span.id)
        at += len(line.text) + 1


def _tail_length(parts: Sequence[Part]) -> int:
    """The last characters of a piece that are the end of a stored body."""
    last = parts[-1]
    return last.tail if isinstance(last, Body) else 0


def _common_prefix_length(one: str, other: str) -> int:
    """The number of characters that two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _piece_texts(message: Message) -> Iterator[tuple[int, str]]:
    """The texts of its pieces in the order of the message's text: content first."""
    pieces, first = list(pieces_of(message)), len(message.tool_results)
    between = "" if message.role == "assistant" else "\n"
    for number, parts, _ in (*pieces[first:], *pieces[:first]):
        if any(isinstance(part, Text | Data | Body) for part in parts):
            yield number, text_of(parts, between)


def _load_replacements(
    ladder: AuthorityLadder,
    used: Sequence[UsedLedger],
    barred: Mapping[str, _LedgerFact],
    reader: _ViewReader,
    memory: GuardMemory,
) -> Flow[dict[str, Fact]]:
    """The current facts for these ended ones: of the same key, or the one that the chain of supersession leads to."""
    keys = sorted({one.fact.key for one in barred.values()})
    current: dict[str, Fact] = {}
    for _, ledger, version in used if keys else ():
        for row in (yield from _load_current(ledger, version, keys, memory)):
            fact = state_of(row).fact
            if reader.is_current(fact) and (
                fact.key not in current or outranks(ladder, fact.authority, current[fact.key].authority)
            ):
                current[fact.key] = fact
    replacements = {name: current[one.fact.key] for name, one in barred.items() if one.fact.key in current}
    for number, ledger, _ in used:
        successors = {
            name: one.fact.superseded_by
            for name, one in barred.items()
            if one.ledger == ledger and name not in replacements and one.fact.superseded_by is not None
        }
        yield from _follow_chain(number, ledger, successors, replacements, reader)
    return replacements


def _load_current(ledger: LedgerId, version: int, keys: Sequence[str], memory: GuardMemory) -> Flow[Sequence[FactRow]]:
    """The newest live facts of these keys."""
    known, rows = memory.current_before.get((ledger, version), ((), ()))
    if known != keys:
        where, rows = ledger_where(ledger.stream) | {"live": 1}, list[FactRow]()
        for some in _split_terms(keys):
            rows += yield from _load_newest(where, {"subject": some})
    memory.current[ledger, version] = keys, rows
    return rows


def _follow_chain(
    number: int, ledger: LedgerId, successors: dict[str, str], replacements: dict[str, Fact], reader: _ViewReader
) -> Flow[None]:
    """Follow the successors of facts, and their successors, until one is current."""
    for _ in range(_CHAIN_LINKS):
        facts: dict[str, _LedgerFact] = {}
        yield from _load_facts(number, ledger, sorted({fact_seq(name) for name in successors.values()}), facts)
        following: dict[str, str] = {}
        for name, successor in successors.items():
            one = facts.get(f"{number}:{successor}")
            if one is None or not reader.may_know(one.fact):
                continue
            if reader.is_current(one.fact):
                replacements[name] = one.fact
            elif one.fact.superseded_by is not None:
                following[name] = one.fact.superseded_by
        if not following:
            return
        successors = following


def _load_opaque(context: SessionContext, items: Sequence[HistoryItem]) -> Flow[dict[str, str]]:
    """The texts of the provider's own parts in the blob store, by digest."""
    engine, texts = context.engine, dict[str, str]()
    for part in iter_parts(items):
        if isinstance(part, Opaque) and isinstance(part.body, BlobRef) and part.body.digest not in texts:
            chunks = functools.partial(engine.bodies.chunks, engine.tenant, part.body)
            body = yield from effects.run_outside(lambda chunks=chunks: b"".join(chunks()))  # type: ignore[misc]
            texts[part.body.digest] = body.decode("utf-8", "replace")
    return texts


# Recording


def record_redactions(
    context: SessionContext, state: SessionState, guarded: GuardedItems, *, cause: str | None = None
) -> Flow[bool]:
    """Record what the guard redacts, if it differs from what was recorded last; whether it did. The event has ids only.
    If others changed the view meanwhile, nothing is recorded, and the result is True: read the view again."""
    before = {redaction.at: redaction for redaction in state.view(context.frame).redacted}
    after = {redaction.at: redaction for redaction in guarded.redacted}
    if not before and not after:
        return False
    indexes = {seq: at for at, item in enumerate(guarded.items) for seq in _event_seqs(item)}
    changed = [after.get(at, Redaction(at)) for at in sorted({*before, *after}) if at in indexes]
    changed = [redaction for redaction in changed if before.get(redaction.at, Redaction(redaction.at)) != redaction]
    if not changed:
        return False
    first = min(indexes[redaction.at] for redaction in changed)
    version, tokens = state.version, sum(item.tokens for item in guarded.items)
    for at in range(0, len(changed), limits.REDACTED_ITEMS):
        command = RedactContext(
            scope=context.scope,
            frame=context.frame,
            version=version,
            redacted=tuple(changed[at : at + limits.REDACTED_ITEMS]),
            why=_redaction_reason(changed),
            first_changed=first,
            original=guarded.tokens_before or tokens,
            final=guarded.tokens_after or tokens,
        )
        try:
            appended = yield from execute_command(context, command, cause=cause)
        except PlanStale:
            return True
        version = max([version, *(event.seq for event in appended.events)])
    return True


def _event_seqs(item: HistoryItem) -> Iterator[int]:
    """The events by which a redaction may name this item."""
    yield item.seq
    for message in item.messages if isinstance(item, MessageGroup) else ():
        yield message.seq


def _redaction_reason(changed: Sequence[Redaction]) -> RedactionReason:
    return "died" if any(redaction.mark for redaction in changed) else "returned"
