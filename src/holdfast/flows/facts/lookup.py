"""The input of a decision about facts: the part of a ledger that a command can touch, read from its rows.

Laws: facts that the writer may not read are skipped as if they did not exist; nothing that is read here is older than the
version that the append expects, so a change in between is a conflict, and the command is decided again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import msgspec

from holdfast import codec
from holdfast.core.facts.authority import may_know
from holdfast.errors import AmbiguousFact, EventShared, StorageCorrupt
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.lineage import read_origin
from holdfast.model import limits
from holdfast.model.facts.commands import (
    AssertFact,
    BranchLedger,
    ConfirmFact,
    EndorseFact,
    EraseFacts,
    ExpireFacts,
    FactCommand,
    ForkLedger,
    LedgerCommand,
    PromoteFact,
    ReinstateFact,
    RestoreFacts,
    SupersedeFact,
    WithdrawFacts,
)
from holdfast.model.facts.fact import Fact, FactState, fact_id, fact_seq
from holdfast.model.inputs import DecisionInput, LedgerSlice
from holdfast.model.names import LedgerId, StreamId, check_size
from holdfast.model.rows import BY_KEY, DependRow, FactRow, RowOrder
from holdfast.text import inference

NEWEST = RowOrder(backwards=True)
SOONEST = RowOrder(("expires_us",))
_STEPS = 16
"""Links of a chain that are followed one by one."""
_RIPPLE_ADVICE = "Retract the dependent facts first."


def ledger_where(stream: StreamId) -> dict[str, str | int]:
    """The columns that all rows of a ledger share."""
    return {"tenant": stream.tenant, "ledger": codec.encode_stream_key(stream)}


def slot_where(stream: StreamId, key: str, scope: str, scope_id: str, *, live: int = 1) -> dict[str, str | int]:
    """The columns that the rows of one key in one scope share: of its live facts, or of its ended ones."""
    return ledger_where(stream) | {"subject": key, "scope": scope, "scope_id": scope_id, "live": live}


@functools.lru_cache(maxsize=1 << 12)
def _decode_state(state: str) -> FactState:
    """Cached, because the rows of a ledger are read often and change rarely."""
    return codec.decode(state.encode(), FactState)


def state_of(row: FactRow) -> FactState:
    """The fact of a row. Raises StorageCorrupt if it cannot be decoded."""
    try:
        return _decode_state(row.state)
    except (msgspec.MsgspecError, ValueError) as error:
        what = f"the row of the fact {fact_id(row.fact)} in {row.ledger}"
        raise StorageCorrupt(what=what, reason=str(error)) from error


def read_visible(
    where: dict[str, str | int], permissions: tuple[str, ...] | None, limit: int, *, backwards: bool = True
) -> Flow[list[FactState]]:
    """The newest facts of these rows that the reader may see, up to `limit` of them."""
    states: list[FactState] = []
    last: FactRow | None = None
    order = NEWEST if backwards else BY_KEY
    while len(states) < limit:
        rows = yield from effects.rows(FactRow, where, last, min(2 * limit, limits.READ_EVENTS), order=order)
        for row in rows:
            state = state_of(row)
            if len(states) < limit and may_know(state.fact.requires, permissions):
                states.append(state)
        if len(rows) < min(2 * limit, limits.READ_EVENTS):
            break
        last = rows[-1]
    return states


def gather_facts(
    command: LedgerCommand, inputs: DecisionInput, changes: Mapping[str, FactState]
) -> Flow[tuple[LedgerCommand, DecisionInput, dict[str, FactState]]]:
    """The command and its input, completed from the rows and from `changes`, those of the commands before it in the batch;
    and the facts as they are stored."""
    if isinstance(command, AssertFact) and command.scope is None:
        command = msgspec.structs.replace(command, scope=inference.infer_scope(command.value))
    reader = SliceReader(command.ledger, inputs.time_us, inputs.ledger.writer.permissions, changes)
    yield from reader.read_for(command)
    ledger = msgspec.structs.replace(inputs.ledger, slice=reader.build_slice())
    return command, msgspec.structs.replace(inputs, ledger=ledger), reader.stored


def _is_match(fact: Fact, where: Mapping[str, str | int]) -> bool:
    """Whether a fact has these values in the columns of its row."""
    return (
        where.get("subject", fact.key) == fact.key
        and where.get("ref", fact.ref) == fact.ref
        and where.get("fact") in (None, fact_seq(fact.id))
        and where.get("scope", fact.scope) == fact.scope
        and where.get("scope_id", fact.scope_id) == fact.scope_id
        and where.get("live", fact.is_valid) == fact.is_valid
    )


class SliceReader:
    """Reads the facts that a command can touch. `changes` are facts that differ from their rows, or have no row yet."""

    def __init__(
        self,
        ledger: LedgerId,
        time_us: int,
        permissions: tuple[str, ...] | None,
        changes: Mapping[str, FactState] | None = None,
    ) -> None:
        self._ledger = ledger
        self._where = ledger_where(ledger.stream)
        self._time_us = time_us
        self._permissions = permissions
        self._changes = changes or {}
        self.stored: dict[str, FactState] = {}
        """The facts that were read, as they are stored."""
        self._facts: dict[str, FactState] = {}
        self._named: dict[str, str] = {}
        self._ends: dict[str, str] = {}
        self._below: dict[str, tuple[str, ...]] = {}
        self._due: tuple[str, ...] = ()

    def build_slice(self) -> LedgerSlice:
        """All that was read, for the decision."""
        return LedgerSlice(facts=self._facts, named=self._named, ends=self._ends, below=self._below, due=self._due)

    def read_for(self, command: LedgerCommand) -> Flow[None]:
        """Read all facts that this command can touch."""
        match command:
            case AssertFact():
                home = (command.scope or "global", command.scope_id)
                yield from self._read_slot(command.key, *home)
                for state in [each for each in self._facts.values() if each.fact.review]:
                    yield from self._read_sources(state)
                for name in command.supersedes:
                    yield from self._resolve(name, home, follow=True)
                for name in command.depends_on:
                    yield from self._resolve(name, home)
            case WithdrawFacts() | RestoreFacts():
                for name in command.facts:
                    yield from self._read_withdrawn(name, restores=isinstance(command, RestoreFacts))
            case ExpireFacts():
                yield from self._read_due(command.limit)
            case EraseFacts():
                for name in command.facts:
                    yield from self._resolve(name, ("global", ""))
                if command.facts and not command.shared:
                    yield from self._check_own()
            case ForkLedger() | BranchLedger():
                return
            case _:
                yield from self._read_for_fact(command)
        yield from self._read_below()

    def _check_own(self) -> Flow[None]:
        """Refuse to erase facts that are stored in the ledger of another session."""
        origin = (yield from read_origin(self._ledger.stream)) if self._ledger.kind == "session" else None
        shared = min(map(fact_seq, self._named.values()), default=0)
        if origin is not None and 0 < shared <= origin.cut:
            owner = next(each for each in origin.lineage if shared <= each.last)
            raise EventShared(session=self._ledger.names[1], seq=shared, owner=owner.key[2])

    def _read_for_fact(self, command: FactCommand) -> Flow[None]:
        yield from self._resolve(command.fact, ("global", ""), prefer_ended=isinstance(command, ReinstateFact))
        if isinstance(command, SupersedeFact):
            yield from self._resolve(command.by, ("global", ""))
        state = self._facts.get(self._named.get(command.fact, ""))
        if state is None:
            return
        fact = state.fact
        if isinstance(command, PromoteFact):
            yield from self._read_slot(fact.key, command.scope, command.scope_id)
        elif isinstance(command, EndorseFact | ReinstateFact):
            yield from self._read_slot(fact.key, fact.scope, fact.scope_id)
        if isinstance(command, ReinstateFact):
            yield from self.find_end(state)
        if isinstance(command, ReinstateFact | ConfirmFact):
            yield from self._read_sources(state)

    def _read_withdrawn(self, name: str, *, restores: bool) -> Flow[None]:
        """Read a fact that a withdrawal concerns, and for a restoration also its slot and its sources."""
        state = yield from self._read_by_id(name)
        if state is None:
            return
        self._facts[name] = state
        if restores:
            yield from self._read_slot(state.fact.key, state.fact.scope, state.fact.scope_id)
            yield from self._read_sources(state)

    def _read_slot(self, key: str, scope: str, scope_id: str) -> Flow[None]:
        where = slot_where(self._ledger.stream, key, scope, scope_id)
        slot = yield from self._read_visible(where, limits.SLOT_FACTS + 1)
        check_size("the key", len(slot), "live facts", "SLOT_FACTS", "Retract those that are not needed.")
        self._facts |= {state.fact.id: state for state in slot}

    def _read_sources(self, state: FactState) -> Flow[None]:
        """Read the sources of a fact, and the successors of these."""
        for each in (yield from self._read_by_ids(state.fact.depends_on)).values():
            self._facts.setdefault(each.fact.id, each)
            yield from self.find_end(each)

    def _read_due(self, limit: int) -> Flow[None]:
        most = {"expires_us": self._time_us}
        rows = yield from effects.rows(FactRow, self._where | {"live": 1}, None, limit, order=SOONEST, most=most)
        states = [state_of(row) for row in rows]
        self.stored |= {state.fact.id: state for state in states}
        self._facts |= {state.fact.id: state for state in states}
        self._due = tuple(state.fact.id for state in states)

    def _resolve(
        self, name: str, home: tuple[str, str], *, follow: bool = False, prefer_ended: bool = False
    ) -> Flow[None]:
        """Read the fact of a name; with `follow`, the last successor of an ended one."""
        state = yield from self.find(name, home, prefer_ended=prefer_ended)
        if state is None:
            return
        if follow and not state.fact.is_valid:
            state = yield from self.find_end(state)
        self._facts[state.fact.id] = state
        self._named[name] = state.fact.id

    def find(self, name: str, home: tuple[str, str], *, prefer_ended: bool = False) -> Flow[FactState | None]:
        """The fact with this id, ref or key, a live one first unless `prefer_ended`; None if the writer may see none."""
        state = yield from self._read_by_id(name)
        return state if state is not None else (yield from self._read_by_name(name, home, prefer_ended))

    def _read_by_id(self, name: str) -> Flow[FactState | None]:
        number = fact_seq(name)
        if not number:
            return None
        states = yield from self._read_visible(self._where | {"fact": number}, 1)
        return states[0] if states else None

    def _read_by_name(self, name: str, home: tuple[str, str], prefer_ended: bool) -> Flow[FactState | None]:
        for live in (0, 1) if prefer_ended else (1, 0):
            for column in ("ref", "subject"):
                where = self._where | {column: name, "live": live}
                states = yield from self._read_visible(where, limits.SLOT_FACTS)
                if states:
                    return self._choose(name, states, home, column) if live else states[0]
        return None

    def _choose(self, name: str, states: list[FactState], home: tuple[str, str], column: str) -> FactState:
        """The fact of a ref; or of a key: the current one, in the scope `home` if it has one there."""
        if column == "ref":
            if len({each.fact.key for each in states}) > 1:
                raise self._build_ambiguity_error(name, states)
            return states[0]
        here = [each for each in states if (each.fact.scope, each.fact.scope_id) == home] or states
        if len({(each.fact.scope, each.fact.scope_id) for each in here}) > 1:
            raise self._build_ambiguity_error(name, here)
        return next((each for each in here if not each.fact.is_claim), here[0])

    def _build_ambiguity_error(self, name: str, states: list[FactState]) -> AmbiguousFact:
        ids = ", ".join(each.fact.id for each in states[:8])
        return AmbiguousFact(ledger=self._ledger, name=name, facts=ids)

    def find_end(self, state: FactState) -> Flow[FactState]:
        """The last successor of a fact that the writer may see; the fact itself if it has none."""
        start = state.fact.id
        for step in range(limits.CHAIN_FACTS):
            after = yield from self._read_by_id(state.fact.superseded_by or "")
            if after is None:
                break
            state = after
            if step >= _STEPS and not state.fact.is_valid:  # a long chain: jump to the current fact of its key
                state = (yield from self._find_current(state.fact)) or state
                self._ends[start] = state.fact.id
            self._facts[state.fact.id] = state
        return state

    def _find_current(self, fact: Fact) -> Flow[FactState | None]:
        where = slot_where(self._ledger.stream, fact.key, fact.scope, fact.scope_id)
        slot = yield from self._read_visible(where, limits.SLOT_FACTS)
        return next((each for each in slot if not each.fact.is_claim), None)

    def _read_below(self) -> Flow[None]:
        """Read all dependents of the facts that were read, also those that the writer may not see."""
        queue = [each for each, state in self._facts.items() if state.sources]
        touched = 0
        while queue:
            source = queue.pop()
            ids = yield from self._read_dependents(source)
            self._facts |= yield from self._read_by_ids([each for each in ids if each not in self._facts])
            direct = [each for each in ids if each in self._facts]
            touched += len(direct)
            check_size("the ripple", touched, "dependent facts", "RIPPLE_FACTS", _RIPPLE_ADVICE)
            self._below[source] = tuple(direct)
            queue += [each for each in direct if self._facts[each].sources and each not in self._below]

    def _read_visible(self, where: dict[str, str | int], limit: int) -> Flow[list[FactState]]:
        """The newest facts with these columns that the writer may see, up to `limit` of them."""
        stored = yield from read_visible(where, self._permissions, limit + len(self._changes))
        self.stored |= {state.fact.id: state for state in stored}
        if not self._changes:
            return stored
        states = [state for state in stored if state.fact.id not in self._changes]
        states += (
            state
            for state in self._changes.values()
            if _is_match(state.fact, where) and may_know(state.fact.requires, self._permissions)
        )
        return sorted(states, key=lambda each: -fact_seq(each.fact.id))[:limit]

    def _read_by_ids(self, ids: Iterable[str]) -> Flow[dict[str, FactState]]:
        ids = list(ids)
        stored = yield from read_facts(self._ledger.stream, [each for each in ids if each not in self._changes])
        self.stored |= stored
        known = stored | {each: self._changes[each] for each in ids if each in self._changes}
        return {each: known[each] for each in ids if each in known}

    def _read_dependents(self, source: str) -> Flow[list[str]]:
        """The live facts that depend on a fact directly, in the order of their assertion."""
        rows = yield from read_dependents(self._where, source)
        stored = (fact_id(row.fact) for row in rows)
        changed = (each for each, one in self._changes.items() if one.fact.is_valid and source in one.fact.depends_on)
        return sorted((*(each for each in stored if each not in self._changes), *changed), key=fact_seq)


def read_dependents(where: dict[str, str | int], source: str) -> Flow[list[DependRow]]:
    """The rows of the live facts that depend on a fact directly."""
    dependents: list[DependRow] = []
    where = where | {"source": fact_seq(source), "live": 1}
    while True:
        last = dependents[-1] if dependents else None
        page = yield from effects.rows(DependRow, where, last, limits.READ_EVENTS)
        dependents += page
        check_size("the ripple", len(dependents), "dependent facts", "RIPPLE_FACTS", _RIPPLE_ADVICE)
        if len(page) < limits.READ_EVENTS:
            return dependents


def read_facts(stream: StreamId, ids: Iterable[str]) -> Flow[dict[str, FactState]]:
    """The facts with these ids, without those that do not exist."""
    states: dict[str, FactState] = {}
    where = ledger_where(stream)
    for each in ids:
        for row in (yield from effects.rows(FactRow, where | {"fact": fact_seq(each)}, None, 1)):
            states[each] = state_of(row)
    return states
