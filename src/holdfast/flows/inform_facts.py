"""What deciding about facts needs to know: the part of a ledger that a command can touch, looked up in its rows.

Laws: what the writer may not know of is passed over as if it were not there; what is read here is never older than the
version that the append will ask for, so a change in between is a conflict and is decided anew.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import msgspec

from holdfast import codec
from holdfast.core import infer
from holdfast.core.authority import may_know
from holdfast.errors import AmbiguousFact, StorageCorrupt
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.commands import (
    AssertFact,
    ConfirmFact,
    EndorseFact,
    EraseFacts,
    ExpireFacts,
    Given,
    LedgerCommand,
    OnFact,
    PromoteFact,
    ReinstateFact,
    Slice,
    SupersedeFact,
)
from holdfast.model.facts import Fact, FactState, fact_id, fact_seq
from holdfast.model.names import LedgerId, StreamId, check_size
from holdfast.model.rows import IN_ORDER_OF_KEY, DependRow, FactRow, Order

NEWEST = Order(backwards=True)
SOONEST = Order(("expires_us",))
_STEPS = 16
"""Links of a chain that are walked one by one."""


def ledger_where(stream: StreamId) -> dict[str, str | int]:
    """What finds the rows of one ledger."""
    return {"tenant": stream.tenant, "ledger": codec.encode_stream_key(stream)}


@functools.lru_cache(maxsize=1 << 12)
def _decoded(state: str) -> FactState:
    """The rows of a ledger are read again and again, and mostly say what they said before."""
    return codec.decode(state.encode(), FactState)


def state_of(row: FactRow) -> FactState:
    try:
        return _decoded(row.state)
    except (msgspec.MsgspecError, ValueError) as error:
        what = f"the row of the fact {fact_id(row.fact)} in {row.ledger}"
        raise StorageCorrupt(what=what, reason=str(error)) from error


def seen(
    where: dict[str, str | int], permissions: tuple[str, ...] | None, limit: int, *, backwards: bool = True
) -> Flow[list[FactState]]:
    """So many of the facts that these rows are of and that the reader may know of, the newest first; those that he may not
    know of take nobody's place."""
    found: list[FactState] = []
    last: FactRow | None = None
    order = NEWEST if backwards else IN_ORDER_OF_KEY
    while len(found) < limit:
        rows = yield from effects.rows(FactRow, where, last, min(2 * limit, limits.READ_EVENTS), order=order)
        for row in rows:
            state = state_of(row)
            if len(found) < limit and may_know(state.fact.requires, permissions):
                found.append(state)
        if len(rows) < min(2 * limit, limits.READ_EVENTS):
            break
        last = rows[-1]
    return found


def about_facts(
    command: LedgerCommand, given: Given, changed: Mapping[str, FactState]
) -> Flow[tuple[LedgerCommand, Given, dict[str, FactState]]]:
    """The command and what is given with it, completed from the rows and from what commands before it changed, together
    with it; and the facts as the rows have them."""
    if isinstance(command, AssertFact) and command.scope is None:
        command = msgspec.structs.replace(command, scope=infer.scope(command.value))
    reading = Reading(command.ledger, given, changed)
    yield from reading.about(command)
    return command, msgspec.structs.replace(given, slice=reading.slice()), reading.stored


def _fits(fact: Fact, where: Mapping[str, str | int]) -> bool:
    """Whether the row of a fact would be found by this."""
    return (
        where.get("subject", fact.key) == fact.key
        and where.get("ref", fact.ref) == fact.ref
        and where.get("fact") in (None, fact_seq(fact.id))
        and where.get("scope", fact.scope) == fact.scope
        and where.get("scope_id", fact.scope_id) == fact.scope_id
        and where.get("live", fact.is_valid) == fact.is_valid
    )


class Reading:
    """Gathers what a command can touch. `changed` are facts that are no longer, or not yet, as their rows say."""

    def __init__(self, ledger: LedgerId, given: Given, changed: Mapping[str, FactState] | None = None) -> None:
        self._ledger = ledger
        self._where = ledger_where(ledger.stream)
        self._given = given
        self._permissions = given.writer.permissions
        self._changed = changed or {}
        self.stored: dict[str, FactState] = {}
        """Facts as their rows have them."""
        self._facts: dict[str, FactState] = {}
        self._named: dict[str, str] = {}
        self._ends: dict[str, str] = {}
        self._below: dict[str, tuple[str, ...]] = {}
        self._due: tuple[str, ...] = ()

    def slice(self) -> Slice:
        return Slice(facts=self._facts, named=self._named, ends=self._ends, below=self._below, due=self._due)

    def about(self, command: LedgerCommand) -> Flow[None]:
        match command:
            case AssertFact():
                home = (command.scope or "global", command.scope_id)
                yield from self._read_slot(command.key, *home)
                for state in [each for each in self._facts.values() if each.fact.review]:
                    yield from self._read_sources(state)
                for name in command.supersedes:
                    yield from self._name(name, home, follow=True)
                for name in command.depends_on:
                    yield from self._name(name, home)
            case ExpireFacts():
                yield from self._read_due(command.limit)
            case EraseFacts():
                for name in command.facts:
                    yield from self._name(name, ("global", ""))
            case _:
                yield from self._about_one(command)
        yield from self._read_below()

    def _about_one(self, command: OnFact) -> Flow[None]:
        yield from self._name(command.fact, ("global", ""), dead=isinstance(command, ReinstateFact))
        if isinstance(command, SupersedeFact):
            yield from self._name(command.by, ("global", ""))
        state = self._facts.get(self._named.get(command.fact, ""))
        if state is None:
            return
        fact = state.fact
        if isinstance(command, PromoteFact):
            yield from self._read_slot(fact.key, command.scope, command.scope_id)
        elif isinstance(command, EndorseFact | ReinstateFact):
            yield from self._read_slot(fact.key, fact.scope, fact.scope_id)
        if isinstance(command, ReinstateFact):
            yield from self.end(state)
        if isinstance(command, ReinstateFact | ConfirmFact):
            yield from self._read_sources(state)

    def _read_slot(self, key: str, scope: str, scope_id: str) -> Flow[None]:
        where = self._where | {"subject": key, "scope": scope, "scope_id": scope_id, "live": 1}
        found = yield from self._seen(where, limits.SLOT_FACTS + 1)
        check_size("the key", len(found), "live facts", "SLOT_FACTS", "Take back those that are not needed.")
        self._facts |= {state.fact.id: state for state in found}

    def _read_sources(self, state: FactState) -> Flow[None]:
        """What a fact rests on, and what took the place of that."""
        for each in (yield from self._by_ids(state.fact.depends_on)).values():
            self._facts.setdefault(each.fact.id, each)
            yield from self.end(each)

    def _read_due(self, limit: int) -> Flow[None]:
        most = {"expires_us": self._given.time_us}
        rows = yield from effects.rows(FactRow, self._where | {"live": 1}, None, limit, order=SOONEST, most=most)
        states = [state_of(row) for row in rows]
        self.stored |= {state.fact.id: state for state in states}
        self._facts |= {state.fact.id: state for state in states}
        self._due = tuple(state.fact.id for state in states)

    def _name(self, name: str, home: tuple[str, str], *, follow: bool = False, dead: bool = False) -> Flow[None]:
        """Find what a name means; `follow` goes on to the live end of its chain, `dead` prefers what has ended."""
        state = yield from self.find(name, home, dead=dead)
        if state is None:
            return
        if follow and not state.fact.is_valid:
            state = yield from self.end(state)
        self._facts[state.fact.id] = state
        self._named[name] = state.fact.id

    def find(self, name: str, home: tuple[str, str], *, dead: bool = False) -> Flow[FactState | None]:
        """The fact of this id, this name outside, or this key; None if the writer may know of none."""
        state = yield from self._by_id(name)
        return state if state is not None else (yield from self._by_name(name, home, dead=dead))

    def _by_id(self, name: str) -> Flow[FactState | None]:
        number = fact_seq(name)
        if not number:
            return None
        found = yield from self._seen(self._where | {"fact": number}, 1)
        return found[0] if found else None

    def _by_name(self, name: str, home: tuple[str, str], *, dead: bool) -> Flow[FactState | None]:
        for live in (0, 1) if dead else (1, 0):
            for column in ("ref", "subject"):
                where = self._where | {column: name, "live": live}
                found = yield from self._seen(where, limits.SLOT_FACTS)
                if found:
                    return self._chosen(name, found, home, column) if live else found[0]
        return None

    def _chosen(self, name: str, found: list[FactState], home: tuple[str, str], column: str) -> FactState:
        """The one that is meant by a name outside, or by a key, which stands for what is current in its scope."""
        if column == "ref":
            others = {each.fact.key for each in found}
            if len(others) > 1:
                raise self._ambiguous(name, found)
            return found[0]
        here = [each for each in found if (each.fact.scope, each.fact.scope_id) == home] or found
        if len({(each.fact.scope, each.fact.scope_id) for each in here}) > 1:
            raise self._ambiguous(name, here)
        return next((each for each in here if not each.fact.claim), here[0])

    def _ambiguous(self, name: str, found: list[FactState]) -> AmbiguousFact:
        ids = ", ".join(each.fact.id for each in found[:8])
        return AmbiguousFact(ledger=self._ledger, name=name, facts=ids)

    def end(self, state: FactState) -> Flow[FactState]:
        """The last of a chain, as far as the writer may know."""
        start = state.fact.id
        for step in range(limits.CHAIN_FACTS):
            after = yield from self._by_id(state.fact.superseded_by or "")
            if after is None:
                break
            state = after
            if step >= _STEPS and not state.fact.is_valid:  # it is long: what holds under its key is where it leads
                state = (yield from self._held(state.fact)) or state
                self._ends[start] = state.fact.id
            self._facts[state.fact.id] = state
        return state

    def _held(self, fact: Fact) -> Flow[FactState | None]:
        where = self._where | {"subject": fact.key, "scope": fact.scope, "scope_id": fact.scope_id, "live": 1}
        found = yield from self._seen(where, limits.SLOT_FACTS)
        return next((each for each in found if not each.fact.claim), None)

    def _read_below(self) -> Flow[None]:
        """All that depends on what was found, whether or not the writer may know of it."""
        ahead = [each for each, state in self._facts.items() if state.sources]
        touched = 0
        while ahead:
            source = ahead.pop()
            ids = yield from self._dependents(source)
            self._facts |= yield from self._by_ids([each for each in ids if each not in self._facts])
            direct = [each for each in ids if each in self._facts]
            touched += len(direct)
            check_size("the ripple", touched, "dependent facts", "RIPPLE_FACTS", "Take back those below it first.")
            self._below[source] = tuple(direct)
            ahead += [each for each in direct if self._facts[each].sources and each not in self._below]

    def _seen(self, where: dict[str, str | int], limit: int) -> Flow[list[FactState]]:
        """So many of the facts that this finds and that the writer may know of, the newest first."""
        found = yield from seen(where, self._permissions, limit + len(self._changed))
        self.stored |= {state.fact.id: state for state in found}
        if not self._changed:
            return found
        fit = [state for state in found if state.fact.id not in self._changed]
        fit += (
            state
            for state in self._changed.values()
            if _fits(state.fact, where) and may_know(state.fact.requires, self._permissions)
        )
        return sorted(fit, key=lambda each: -fact_seq(each.fact.id))[:limit]

    def _by_ids(self, ids: Iterable[str]) -> Flow[dict[str, FactState]]:
        ids = list(ids)
        found = yield from facts_by_id(self._ledger.stream, [each for each in ids if each not in self._changed])
        self.stored |= found
        return {each: self._changed.get(each) or found[each] for each in ids if each in self._changed or each in found}

    def _dependents(self, source: str) -> Flow[list[str]]:
        """Who lives and depends on a fact directly, in the order in which they were asserted."""
        rows = yield from dependents(self._where, source)
        stored = (fact_id(row.fact) for row in rows)
        changed = (each for each, one in self._changed.items() if one.fact.is_valid and source in one.fact.depends_on)
        return sorted((*(each for each in stored if each not in self._changed), *changed), key=fact_seq)


def dependents(where: dict[str, str | int], source: str) -> Flow[list[DependRow]]:
    """Who lives and depends on a fact directly."""
    found: list[DependRow] = []
    where = where | {"source": fact_seq(source), "live": 1}
    while True:
        last = found[-1] if found else None
        page = yield from effects.rows(DependRow, where, last, limits.READ_EVENTS)
        found += page
        check_size("the ripple", len(found), "dependent facts", "RIPPLE_FACTS", "Take back those below it first.")
        if len(page) < limits.READ_EVENTS:
            return found


def facts_by_id(stream: StreamId, ids: Iterable[str]) -> Flow[dict[str, FactState]]:
    """Those of these facts that are there."""
    found: dict[str, FactState] = {}
    where = ledger_where(stream)
    for each in ids:
        for row in (yield from effects.rows(FactRow, where | {"fact": fact_seq(each)}, None, 1)):
            found[each] = state_of(row)
    return found
