"""Why no command can have made an event of a ledger: for events that come from elsewhere, which are not taken on trust."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from holdfast import codec
from holdfast.model import limits
from holdfast.model.events import (
    OF_LEDGERS,
    Event,
    FactAsserted,
    FactConfirmed,
    FactDisputed,
    FactEndorsed,
    FactExpired,
    FactMarked,
    FactPromoted,
    FactReinstated,
    FactRetracted,
    FactSuperseded,
    PayloadsErased,
)
from holdfast.model.facts import FACT_SCOPES, FactState, Mention, fact_seq
from holdfast.model.names import checked_name
from holdfast.model.state import LedgerState


def fact_fault(
    state: LedgerState,
    facts: Mapping[str, FactState],
    event: Event | None,
    event_type: str,
    erased: Collection[int] = frozenset(),
) -> str | None:
    """The first thing that is wrong with an event in this ledger; None for a sound one, or one that was erased. `erased`
    are the seqs of those that were before it: what they asserted, nobody knows any more."""
    if event_type not in OF_LEDGERS:
        return "it is no event of a ledger"
    return next(_Faults(state, facts, erased).of(event), None)


class _Faults:
    def __init__(self, state: LedgerState, facts: Mapping[str, FactState], erased: Collection[int]) -> None:
        self._version = state.version
        self._facts = facts
        self._erased = erased

    def of(self, event: Event | None) -> Iterator[str]:
        match event:
            case FactAsserted():
                yield from self._asserted(event)
            case FactSuperseded():
                yield from self._superseded(event)
            case FactRetracted(facts=ids) | FactExpired(facts=ids):
                yield from self._several(ids, "what ends was alive")
            case FactMarked() | FactReinstated():
                yield from self._doubted(event)
            case FactPromoted(fact=fact) | FactEndorsed(fact=fact) | FactConfirmed(fact=fact):
                if not self._is(fact, "live"):
                    yield "what is changed is alive"
                yield from self._moved(event)
                on = event.depends_on if isinstance(event, FactConfirmed) else ()
                if fact in on or not all(map(self._known, on)):
                    yield "what is confirmed rests on facts that are there, and not on itself"
            case FactDisputed():
                checked_name("the authority of a dispute", event.authority)
                if not self._is(event.fact, "live"):
                    yield "what is disputed is alive"
            case PayloadsErased():
                yield from self._erasure(event)

    def _moved(self, event: FactPromoted | FactEndorsed | FactConfirmed) -> Iterator[str]:
        if isinstance(event, FactConfirmed):
            return
        if event.against and not self._is(event.against, "live"):
            yield "a claim is made against a fact that is alive"
        if isinstance(event, FactEndorsed):
            checked_name("the authority of a fact", event.authority)
            return
        if event.scope_id:
            checked_name("a name in a fact", event.scope_id)
        known = self._facts.get(event.fact)
        if known is not None and FACT_SCOPES.index(event.scope) > FACT_SCOPES.index(known.fact.scope):
            yield "what is promoted holds further out"

    def _doubted(self, event: FactMarked | FactReinstated) -> Iterator[str]:
        if isinstance(event, FactMarked):
            yield from self._several(event.facts, "what is marked is alive")
            if not self._known(event.because):
                yield "a mark names the fact that died"
            return
        if not self._is(event.fact, "superseded"):
            yield "what is reinstated was superseded"
        if event.instead:
            yield from self._several(event.instead, "what stood in its place was alive")

    def _erasure(self, event: PayloadsErased) -> Iterator[str]:
        if not event.seqs or list(event.seqs) != sorted(set(event.seqs)):
            yield "an erasure names events in order"
        elif event.seqs[0] < 1 or event.seqs[-1] > self._version:
            yield "an erasure names events before it"

    def _gone(self, fact: str) -> bool:
        return fact not in self._facts and fact_seq(fact) in self._erased

    def _known(self, fact: str) -> bool:
        return fact in self._facts or self._gone(fact)

    def _is(self, fact: str, status: str) -> bool:
        return self._gone(fact) or (fact in self._facts and self._facts[fact].fact.status == status)

    def _several(self, ids: tuple[str, ...], rule: str) -> Iterator[str]:
        if not ids or len({*ids}) != len(ids) or not all(self._is(each, "live") for each in ids):
            yield f"{rule}, each once"

    def _asserted(self, event: FactAsserted) -> Iterator[str]:
        checked_name("the key of a fact", event.key)
        for name in (event.ref, event.scope_id, event.source.name, event.source.identity):
            if name:
                checked_name("a name in a fact", name)
        for name in (event.source.authority, *event.requires):
            checked_name("a name in a fact", name)
        if event.review and not self._known(event.review):
            yield "a doubt names the fact that died"
        if len(codec.encode(event.value)) > limits.FACT_BYTES:
            yield "a fact has a value of a size that it may have"
        if (
            not 0 <= event.valid_from_us <= limits.WHOLE_NUMBER
            or not 0 <= (event.expires_us or 0) <= limits.WHOLE_NUMBER
        ):
            yield "a fact has times that a clock can tell"
        if list(event.requires) != sorted({*event.requires}):
            yield "a fact requires permissions in order, each once"
        if not all(self._is(each, "live") for each in event.depends_on):
            yield "a fact depends on facts that are alive"
        if event.against and not self._is(event.against, "live"):
            yield "a claim is made against a fact that is alive"
        if event.is_constraint != (event.constraint_type is not None):
            yield "a constraint, and nothing else, is of a kind"
        yield from _places(event.mentions)

    def _superseded(self, event: FactSuperseded) -> Iterator[str]:
        if event.fact == event.by:
            yield "nothing supersedes itself"
        if not self._is(event.fact, "live") or not self._is(event.by, "live"):
            yield "what is superseded was alive, and what supersedes it is"
        for each in event.followers:
            if each in self._facts and event.fact not in self._facts[each].fact.depends_on:
                yield "only what depends on a fact follows the one in its place"
        yield from _places(event.mentions)


def _places(mentions: tuple[Mention, ...]) -> Iterator[str]:
    if not all(each.seq > 0 and 0 <= each.start < each.end <= limits.WHOLE_NUMBER for each in mentions):
        yield "a fact is stated by a message, from one character to another"
