"""Rows of a ledger, from its facts and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast import codec
from holdfast.core.facts.fold import apply_event, step
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.events import Event
from holdfast.model.facts.fact import Fact, FactState, Mention, fact_seq
from holdfast.model.names import LedgerId
from holdfast.model.rows import DependRow, FactRow, LedgerRow, MentionRow, Row
from holdfast.model.state import LedgerState
from holdfast.text.guard import finder
from holdfast.text.stems import index_terms, split_words
from holdfast.text.values import value_text


class LedgerFold:
    """The state, the facts and the rows of a ledger, folded event by event.

    `facts` are the facts that the events name. They are updated with each event.
    """

    def __init__(self, ledger: LedgerId, state: LedgerState, facts: dict[str, FactState]) -> None:
        self.state = state
        self.facts = facts
        self.changes: dict[str, FactState] = {}
        """The facts that differ from their stored rows."""
        self._ledger = ledger
        self._before: dict[str, FactState] = {}
        self._depend_rows: list[DependRow] = []

    def add(self, event: Event | None, event_type: str, time_us: int, *, shared: bool = False) -> None:  # noqa: ARG002
        """Fold one more event; `event` is None if its payload was erased. A fork has the same rows for `shared` events."""
        changes = apply_event(self.facts, event, self.state.version + 1, time_us)
        self._depend_rows += depend_rows(self._ledger, changes, self.facts)
        for name in changes:
            if name not in self.changes and name in self.facts:
                self._before[name] = self.facts[name]
        self.facts |= changes
        self.changes |= changes
        self.state = step(self.state, event_type, time_us)

    def build_rows(self) -> list[Row]:
        """The rows after the last event; one for each changed fact, and one for the ledger."""
        return [
            *self._depend_rows,
            *fact_rows(self._ledger, self.changes, self._before),
            *((ledger_row(self._ledger, self.state),) if self.state.version else ()),
        ]


def ledger_row(ledger: LedgerId, state: LedgerState) -> LedgerRow:
    return LedgerRow(
        tenant=ledger.tenant,
        ledger=codec.encode_stream_key(ledger.stream),
        kind=ledger.kind,
        version=state.version,
        facts=state.facts,
        created_us=state.created_us,
        updated_us=state.updated_us,
    )


def depend_rows(
    ledger: LedgerId, changed: Mapping[str, FactState], before: Mapping[str, FactState]
) -> Iterator[DependRow]:
    """A row for each new dependency. When the dependency or the fact ends, its row stays, with `live` 0."""
    home = {"tenant": ledger.tenant, "ledger": codec.encode_stream_key(ledger.stream)}
    for each, state in changed.items():
        old = _dependencies_of(before[each].fact) if each in before else {}
        new = _dependencies_of(state.fact)
        for source in {**old, **new}:
            live = new.get(source, 0)
            if old.get(source) != live:
                yield DependRow(**home, source=fact_seq(source), fact=fact_seq(each), live=live)


def _dependencies_of(fact: Fact) -> dict[str, int]:
    return dict.fromkeys(fact.depends_on, int(fact.is_valid))


def fact_rows(ledger: LedgerId, changed: Mapping[str, FactState], before: Mapping[str, FactState]) -> Iterator[Row]:
    """The rows of these facts. `before` are the facts as they are stored."""
    home = {"tenant": ledger.tenant, "ledger": codec.encode_stream_key(ledger.stream)}
    for state in changed.values():
        fact, old = state.fact, before.get(state.fact.id)
        yield _fact_row(home, state)
        if old is None or old.fact.mentions != fact.mentions or old.fact.is_valid != fact.is_valid:
            yield from _mention_rows(home, fact)


def _fact_row(home: dict[str, str], state: FactState) -> FactRow:
    fact = state.fact
    return FactRow(
        **home,
        fact=fact_seq(fact.id),
        subject=fact.key,
        scope=fact.scope,
        scope_id=fact.scope_id,
        ref=fact.ref,
        live=int(fact.is_valid),
        claim=int(fact.is_claim),
        review=int(fact.is_valid and fact.needs_review),
        constrains=int(fact.is_valid and fact.is_constraint),
        expires_us=fact.expires_us,
        requires=codec.encode(fact.requires).decode() if fact.requires else "",
        key_words=" ".join(index_terms(split_words(fact.key))),
        words=" ".join(index_terms(split_words(value_text(fact.value))[: limits.FACT_WORDS])),
        memory_type=fact.memory_type,
        anchor=_anchor_word(fact.value),
        state=codec.encode(state).decode(),
    )


def _anchor_word(value: Json) -> str:
    """The word by which a text is searched for a value.

    Without a distinctive word it is the longest one, marked with "!": many values may share it, and they must not crowd
    out the others. A value of several parts gets COMPOSITE_ANCHOR, and is compared with every text."""
    anchors = finder.anchors_of(value)
    if len(anchors) > 1:
        return finder.COMPOSITE_ANCHOR
    return "" if not anchors else anchors[0] if finder.anchor_of(value) else f"!{anchors[0]}"


def _mention_rows(home: dict[str, str], fact: Fact) -> Iterator[MentionRow]:
    longest: dict[tuple[str, str, str, int, int], Mention] = {}
    for each in fact.mentions:
        longest[each.actor, each.session, each.thread, each.seq, each.start] = each  # sorted: the last is the longest
    for each in longest.values():
        yield MentionRow(
            **home,
            fact=fact_seq(fact.id),
            actor=each.actor,
            session=each.session,
            thread=each.thread,
            seq=each.seq,
            start=each.start,
            stop=each.end,
            live=int(fact.is_valid),
        )
