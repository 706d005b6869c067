"""Find the facts that only withdrawn messages state, and the commands about them.

Law: a fact with any other origin is left alone: a message that is still in the conversation, another session, an id in its
provenance that is not of a withdrawn message or call, or an authority above that of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast.core import upcast
from holdfast.core.facts.authority import may_know, outranks
from holdfast.core.sessions.forks import stretches_of
from holdfast.flows import effects
from holdfast.flows.context import LedgerContext, SessionContext, build_ledger_request
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.facts.changes import writer_for
from holdfast.flows.facts.lookup import NEWEST, ledger_where, read_facts, state_of
from holdfast.flows.facts.queries import find_used_ledgers, ledgers_of, own_ledger
from holdfast.model import limits
from holdfast.model.facts.commands import LedgerCommand, RestoreFacts, WithdrawFacts
from holdfast.model.facts.events import FactsWithdrawn
from holdfast.model.facts.fact import Fact, fact_seq
from holdfast.model.history.ranges import LedgerFacts, SeqRanges
from holdfast.model.names import LedgerId, Scope, StreamId, check_size
from holdfast.model.rows import FactRow
from holdfast.model.sessions.messages import Message
from holdfast.model.state import SessionState

_PAGE_FACTS = 200
"""Facts that are read at once."""


class _Origins:
    """The messages and calls that are withdrawn, to compare with the origins of facts."""

    def __init__(self, context: SessionContext, state: SessionState, messages: Sequence[Message]) -> None:
        self._scope = context.scope
        self._stretches = stretches_of(state.origin, context.scope.stream)
        self._seqs = {message.seq for message in messages}
        self._hidden: SeqRanges = state.hidden_ranges(context.frame)
        self._ids: dict[str, int] = {}
        """The ids of messages and calls, with the seq of the message."""
        for message in messages:
            names = [message.id, *(name for call in message.tool_calls for name in (call.id, call.provider_id) if name)]
            self._ids |= dict.fromkeys(names, message.seq)

    def include(self, fact: Fact, ledger: LedgerId) -> bool:
        """Whether all origins of a fact are withdrawn, some of them now."""
        origins = [*self._read(fact, ledger)]
        return "now" in origins and "other" not in origins

    def _read(self, fact: Fact, ledger: LedgerId) -> Iterator[str]:
        is_own = ledger == own_ledger(self._scope)
        # for a ledger that others use, too, a message that is stored in another session is stated there
        stretches = self._stretches if is_own else self._stretches[-1:]
        for each in fact.mentions:
            home = Scope(self._scope.tenant, each.actor, each.session, each.thread or None).stream
            in_session = any(one.stream == home and one.first <= each.seq <= one.last for one in stretches)
            yield self._judge(each.seq) if in_session else "other"
        for name in fact.provenance:
            yield "now" if self._ids.get(name, 0) >= stretches[0].first else "other"
        turn = fact.source.turn if fact.source.type == "conversation" else None
        if turn and not fact.mentions and is_own:
            yield self._judge(turn)

    def _judge(self, seq: int) -> str:
        return "now" if seq in self._seqs else "before" if seq in self._hidden else "other"


def find_stated_facts(
    context: SessionContext, state: SessionState, messages: Sequence[Message]
) -> Flow[tuple[LedgerFacts, ...]]:
    """The live facts that only these messages state, by ledger. Facts that were asserted before them are not read."""
    engine = context.engine
    used = yield from find_used_ledgers(ledgers_of(context.scope, state))
    if not used:
        return ()
    (start,) = yield from effects.positions(context.scope.stream, [min(message.seq for message in messages)])
    origins, now = _Origins(context, state, messages), engine.clock.now_us()
    ladder, authority = engine.policy.ladder, writer_for(engine, state.identity).authority
    stated: list[LedgerFacts] = []
    for one in used:
        facts = yield from _read_since(one.ledger, start)
        ids = tuple(
            fact.id
            for fact in reversed(facts)
            if origins.include(fact, one.ledger)
            and not fact.has_expired(now)
            and not outranks(ladder, fact.authority, authority)
            and (engine.policy.withdrawal == "retract" or not fact.review)
        )
        check_size("the withdrawal", len(ids), "facts", "WITHDRAWN_FACTS", "Withdraw in several steps.")
        stated += [LedgerFacts(one.ledger.stream.key, ids)] if ids else []
    return tuple(stated)


def _read_since(ledger: LedgerId, start: tuple[int, ...]) -> Flow[list[Fact]]:
    """The live facts of a ledger that were asserted after a position in the log, the newest first."""
    facts: list[Fact] = []
    last: FactRow | None = None
    where = ledger_where(ledger.stream) | {"live": 1}
    while page := (yield from effects.rows(FactRow, where, last, _PAGE_FACTS, order=NEWEST)):
        positions = yield from effects.positions(ledger.stream, [row.fact for row in page])
        facts += (state_of(row).fact for row, at in zip(page, positions, strict=True) if at > start)
        last = page[-1]
        if positions[-1] <= start or len(page) < _PAGE_FACTS:
            break
    return facts


def build_withdrawals(context: SessionContext, facts: Iterable[LedgerFacts], label: str) -> Iterator[CommandRequest]:
    """The commands that doubt or retract these facts, as the policy says."""
    retract = context.engine.policy.withdrawal == "retract"
    for each in facts:
        ledger = _ledger_of(context, each)
        yield _build_request(context, WithdrawFacts(ledger=ledger, facts=each.facts, withdrawal=label, retract=retract))


def build_restorations(context: SessionContext, facts: Iterable[LedgerFacts], label: str) -> Flow[list[CommandRequest]]:
    """The commands that undo what a withdrawal did to facts, those that were retracted with them included."""
    requests: list[CommandRequest] = []
    for each in facts:
        ledger = _ledger_of(context, each)
        ids = yield from _find_withdrawn_ids(ledger.stream, label)
        if ids:
            requests.append(_build_request(context, RestoreFacts(ledger=ledger, facts=ids, withdrawal=label)))
    return requests


def _find_withdrawn_ids(stream: StreamId, label: str) -> Flow[tuple[str, ...]]:
    before: int | None = None
    while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, (FactsWithdrawn.name,))):
        for recorded in page:
            event = upcast.decode_event(recorded)
            if isinstance(event, FactsWithdrawn) and event.withdrawal == label:
                return event.facts
        before = page[-1].seq
    return ()


def _ledger_of(context: SessionContext, facts: LedgerFacts) -> LedgerId:
    return LedgerId.from_stream(StreamId(context.scope.tenant, "ledger", facts.ledger))


def _build_request(context: SessionContext, command: LedgerCommand) -> CommandRequest:
    """A command of the program itself: a withdrawal concerns facts that the user of the session may not read, too."""
    writer = writer_for(context.engine, None)
    return build_ledger_request(LedgerContext(context.engine, command.ledger, writer), command)


def filter_known_facts(
    context: SessionContext, state: SessionState, facts: Iterable[LedgerFacts]
) -> Flow[tuple[LedgerFacts, ...]]:
    """Those of these facts that the session may read."""
    permissions = writer_for(context.engine, state.identity).permissions
    known: list[LedgerFacts] = []
    for each in facts:
        stored = yield from read_facts(_ledger_of(context, each).stream, each.facts)
        ids = tuple(name for name in sorted(stored, key=fact_seq) if may_know(stored[name].fact.requires, permissions))
        known += [LedgerFacts(each.ledger, ids)] if ids else []
    return tuple(known)
