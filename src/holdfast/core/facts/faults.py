"""Faults of ledger events: why no command can have produced an event. Used for events of untrusted origin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from holdfast import codec
from holdfast.core.facts.withdrawals import is_doubted, is_retracted
from holdfast.model import limits
from holdfast.model.events import LEDGER_EVENTS, Event
from holdfast.model.facts.events import (
    FactAsserted,
    FactConfirmed,
    FactDisputed,
    FactEndorsed,
    FactExpired,
    FactMarked,
    FactPromoted,
    FactReinstated,
    FactRetracted,
    FactsRestored,
    FactSuperseded,
    FactsWithdrawn,
    LedgerBranched,
    LedgerForked,
)
from holdfast.model.facts.fact import FACT_SCOPES, FactState, Mention, fact_seq, is_withdrawal_label
from holdfast.model.names import check_name
from holdfast.model.sessions.events import PayloadsErased
from holdfast.model.state import LedgerState


def find_fact_fault(
    state: LedgerState,
    facts: Mapping[str, FactState],
    event: Event | None,
    event_type: str,
    erased: Collection[int] = frozenset(),
) -> str | None:
    """The first fault of an event in this ledger; None for a valid or erased event. `erased` are the seqs of the erased
    events before it, whose facts are unknown."""
    if event_type not in LEDGER_EVENTS:
        return "it is not an event of a ledger"
    return next(_LedgerFaults(state, facts, erased).of(event), None)


class _LedgerFaults:
    """Finds the faults of one event. Each fault is the rule that the event breaks."""

    def __init__(self, state: LedgerState, facts: Mapping[str, FactState], erased: Collection[int]) -> None:
        self._version = state.version
        self._facts = facts
        self._erased = erased

    def of(self, event: Event | None) -> Iterator[str]:  # noqa: C901 - one case for each event
        match event:
            case FactAsserted():
                yield from self._of_assertion(event)
            case FactSuperseded():
                yield from self._of_supersession(event)
            case FactRetracted(facts=ids) | FactExpired(facts=ids):
                yield from self._of_group(ids, "a fact that ends was live")
            case FactsWithdrawn() | FactsRestored():
                yield from self._of_withdrawal(event)
            case FactMarked() | FactReinstated():
                yield from self._of_doubt(event)
            case FactPromoted(fact=fact) | FactEndorsed(fact=fact) | FactConfirmed(fact=fact):
                if not self._has_status(fact, "live"):
                    yield "a changed fact is live"
                yield from self._of_change(event)
                sources = event.depends_on if isinstance(event, FactConfirmed) else ()
                if fact in sources or not all(map(self._is_known, sources)):
                    yield "a confirmed fact depends on existing facts, and not on itself"
            case FactDisputed():
                check_name("the authority of a dispute", event.authority)
                if not self._has_status(event.fact, "live"):
                    yield "a disputed fact is live"
            case PayloadsErased():
                yield from self._of_erasure(event)
            case LedgerForked() | LedgerBranched():
                yield from self._of_fork(event)

    def _of_change(self, event: FactPromoted | FactEndorsed | FactConfirmed) -> Iterator[str]:
        if isinstance(event, FactConfirmed):
            return
        if event.against and not self._has_status(event.against, "live"):
            yield "a claim is against a live fact"
        if isinstance(event, FactEndorsed):
            check_name("the authority of a fact", event.authority)
            return
        if event.scope_id:
            check_name("a name in a fact", event.scope_id)
        state = self._facts.get(event.fact)
        if state is not None and FACT_SCOPES.index(event.scope) > FACT_SCOPES.index(state.fact.scope):
            yield "a promoted fact gets a wider scope"

    def _of_doubt(self, event: FactMarked | FactReinstated) -> Iterator[str]:
        if isinstance(event, FactMarked):
            yield from self._of_group(event.facts, "a marked fact is live")
            if not self._is_reason(event.because):
                yield "a mark names the ended fact"
            return
        if not self._has_status(event.fact, "superseded"):
            yield "a reinstated fact was superseded"
        if event.instead:
            yield from self._of_group(event.instead, "the successor of a reinstated fact was live")

    def _of_erasure(self, event: PayloadsErased) -> Iterator[str]:
        if not event.seqs or list(event.seqs) != sorted(set(event.seqs)):
            yield "an erasure names events in order"
        elif event.seqs[0] < 1 or event.seqs[-1] > self._version:
            yield "an erasure names events before it"

    def _of_fork(self, event: LedgerForked | LedgerBranched) -> Iterator[str]:
        if isinstance(event, LedgerBranched):
            if not 1 <= event.cut <= self._version:
                yield "a fork shares past events"
        elif event.cut != self._version or (event.lineage and event.lineage[-1].key != event.parent):
            yield "the ledger of a fork begins right after its cut"

    def _is_erased(self, fact: str) -> bool:
        return fact not in self._facts and fact_seq(fact) in self._erased

    def _is_known(self, fact: str) -> bool:
        return fact in self._facts or self._is_erased(fact)

    def _is_reason(self, name: str) -> bool:
        """Whether a review can be because of this: an ended fact, or a withdrawal."""
        return self._is_known(name) or is_withdrawal_label(name)

    def _of_withdrawal(self, event: FactsWithdrawn | FactsRestored) -> Iterator[str]:
        if not is_withdrawal_label(event.withdrawal):
            yield "a withdrawal has a label"
        if isinstance(event, FactsWithdrawn):
            yield from self._of_group(event.facts, "a fact whose message is withdrawn was live")
            return
        if not event.facts or len({*event.facts}) != len(event.facts):
            yield "a restoration names facts, each once"
        for each in event.facts:
            fact = self._facts[each].fact if each in self._facts else None
            if fact is None and not self._is_erased(each):
                yield "a restored fact exists"
            if fact is not None and not (is_doubted(fact, event.withdrawal) or is_retracted(fact, event.withdrawal)):
                yield "a restored fact is as the withdrawal left it"

    def _has_status(self, fact: str, status: str) -> bool:
        return self._is_erased(fact) or (fact in self._facts and self._facts[fact].fact.status == status)

    def _of_group(self, ids: tuple[str, ...], rule: str) -> Iterator[str]:
        if not ids or len({*ids}) != len(ids) or not all(self._has_status(each, "live") for each in ids):
            yield f"{rule}, each once"

    def _of_assertion(self, event: FactAsserted) -> Iterator[str]:
        check_name("the key of a fact", event.key)
        for name in (event.ref, event.scope_id, event.source.name, event.source.identity):
            if name:
                check_name("a name in a fact", name)
        for name in (event.source.authority, *event.requires):
            check_name("a name in a fact", name)
        if event.review and not self._is_reason(event.review):
            yield "a fact with a doubtful source names the ended fact"
        if len(codec.encode(event.value)) > limits.FACT_BYTES:
            yield "the value of a fact is not over FACT_BYTES"
        if (
            not 0 <= event.valid_from_us <= limits.WHOLE_NUMBER
            or not 0 <= (event.expires_us or 0) <= limits.WHOLE_NUMBER
        ):
            yield "the times of a fact are valid clock times"
        if list(event.requires) != sorted({*event.requires}):
            yield "the permissions of a fact are in order, each once"
        if not all(self._has_status(each, "live") for each in event.depends_on):
            yield "a fact depends on live facts"
        if event.against and not self._has_status(event.against, "live"):
            yield "a claim is against a live fact"
        if event.is_constraint != (event.constraint_type is not None):
            yield "a constraint, and only a constraint, has a type"
        yield from _mention_faults(event.mentions)

    def _of_supersession(self, event: FactSuperseded) -> Iterator[str]:
        if event.fact == event.by:
            yield "no fact supersedes itself"
        if not self._has_status(event.fact, "live") or not self._has_status(event.by, "live"):
            yield "a superseded fact was live, and its successor is live"
        for each in event.followers:
            if each in self._facts and event.fact not in self._facts[each].fact.depends_on:
                yield "only a dependent of a fact follows its successor"
        yield from _mention_faults(event.mentions)


def _mention_faults(mentions: tuple[Mention, ...]) -> Iterator[str]:
    if not all(each.seq > 0 and 0 <= each.start < each.end <= limits.WHOLE_NUMBER for each in mentions):
        yield "a mention is a range of characters in a message"
