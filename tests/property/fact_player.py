"""The model's commands about facts given to engines, and what the engines then show compared with what the model says."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import holdfast
from holdfast import errors
from holdfast.core import upcast
from holdfast.core.facts import invariants
from holdfast.core.facts.fold import apply_event
from holdfast.flows.facts.lookup import state_of
from holdfast.model.facts.fact import Fact, FactState
from holdfast.model.rows import FactRow, LedgerRow
from holdfast.model.state import LedgerState
from tests.property import fact_commands as asked
from tests.property.fact_commands import GLOBAL, HOMES, KEYS, PEOPLE, PROGRAM, Any_, Command, Who
from tests.property.fact_ledger import FactRefusal, ModelLedger, is_same_json, rank
from tests.property.fact_ledger import ModelFact as Told
from tests.property.fact_model import apply_command as made_of
from tests.property.fact_model import apply_sweep
from tests.property.session_model import ManualClock
from tests.property.store_tools import Fault, Faulty

USER = "ada"


PAGE = 80


FactOrder = tuple[Any_, Who]


IDENTITIES = {
    who: None
    if who is PROGRAM
    else holdfast.Identity(user_id=who.name, authority=who.authority, permissions=who.permissions or ())
    for who in PEOPLE
}


CLOSED = tuple(home for home in HOMES if home != GLOBAL)


class KeyedCommand(NamedTuple):
    """A command that came with a key, and what came of it."""

    command: Command
    who: Who
    key: str
    now: int
    answer: list[int]


class FactPlayer:
    """Engines on one store, one more that only looks, and the model of what they are told."""

    def __init__(self, engines: list[Any], observer: Any, clock: ManualClock) -> None:
        self.engines = engines
        self.observer = observer
        self.clock = clock
        self.told = ModelLedger()
        self.keyed: KeyedCommand | None = None
        """The last one that changed something."""
        self.keys = self.reads = 0
        self.reinstated: set[str] = set()
        self.lived: dict[int, dict[str, FactState]] = {}
        """The facts as they were seen, by the version of the ledger."""

    def ledger(self, who: Who, which: int | None = None) -> Any:
        engine = self.observer if which is None else self.engines[which]
        return engine.ledger(user=USER, identity=IDENTITIES[who])

    def resolved(self, command: Command) -> Command:
        """The command with ids for its picks: the newest is the first."""
        facts = [each.id for each in self.told.facts.values()]

        def picked(pick: asked.Pick) -> str:
            return pick if isinstance(pick, str) else facts[-1 - pick % len(facts)] if facts else "k999"

        found: dict[str, Any] = {}
        for name, value in command._asdict().items():
            if name in ("fact", "by"):
                found[name] = picked(value)
            elif name in ("facts", "supersedes", "depends_on"):
                found[name] = tuple(map(picked, value))
        return command._replace(**found)

    # Giving commands

    def give(self, order: FactOrder, which: int = 0, fault: Fault | None = None, *, keyed: bool = False) -> None:
        command, who = order
        match command:
            case asked.Sweep():
                self.sweep(which)
            case asked.Again():
                self._again(which)
            case _:
                self.command(self.resolved(command), who, which, fault, keyed=keyed)
        self.check()

    def command(
        self, command: Command, who: Who, which: int = 0, fault: Fault | None = None, *, keyed: bool = False
    ) -> Any:
        """What came of it: an answer, or an error."""
        after, answer, refused = self.told, list[int](), None
        try:
            after, answer = made_of(self.told, command, who, self.clock.us)
        except FactRefusal as error:
            refused = error
        moves = after.facts != self.told.facts
        self.keys += keyed
        key = f"key {self.keys}" if keyed else None
        faulty: Faulty | None = self.engines[which].store if fault is not None else None
        if faulty is not None:
            faulty.fault = fault
        stored = self.lived.get(self.told.version, {})
        got: Any = None
        met: errors.HoldfastError | None = None
        try:
            got = execute(self.ledger(who, which), command, self.clock.us, key)
        except errors.HoldfastError as error:
            met = error
        struck = faulty is not None and faulty.fault is not fault
        if faulty is not None:
            faulty.fault = None
        if struck:
            assert isinstance(met, errors.StorageUnavailable)
        else:
            assert (met and type(met).__name__) == (refused and refused.error), (command, who, met, refused)
        if refused is None and not (struck and fault == "before"):
            self._taken(after, answer, None if struck else got, moves=moves)
            if isinstance(command, asked.Reinstate) and moves:
                self.reinstated.add(f"k{answer[0]}")
            if isinstance(command, asked.Erase):
                self.lived.clear()  # an erasure reaches back
            check_authority(stored, self.stored(), who, self.clock.us)
            if key is not None and moves:
                self.keyed = KeyedCommand(command, who, key, self.clock.us, answer)
        return got if met is None else met

    def _taken(self, after: ModelLedger, answer: list[int], got: Any, *, moves: bool) -> None:
        """The command was carried out: so it is in the model, and the answer tells of it."""
        before = self.told.version
        self.told = after
        after.version = self.row().version
        assert (after.version > before) == moves, "what changes nothing stores nothing, and only that"
        if got is not None:
            found = [each.id for each in (got if isinstance(got, tuple) else [got])]
            assert found == [f"k{each}" for each in answer] or (not moves and self._alike(found, answer))

    def _alike(self, found: list[str], answer: list[int]) -> bool:
        """Of several that say the same, for readers with more and less permissions, any one is a good answer."""
        (one,), (other,) = found, (self.told.facts[each] for each in answer)
        fact = self.told.facts[int(one[1:])]
        return (fact.key, fact.home) == (other.key, other.home) and is_same_json(fact.value, other.value)

    def sweep(self, which: int) -> None:
        after, count = apply_sweep(self.told, self.clock.us)
        assert self.engines[which].admin.sweep(limit=PAGE).facts == count
        self._taken(after, [], None, moves=count > 0)

    def _again(self, which: int) -> None:
        """A command that was carried out is not carried out again under its key, whatever came after it."""
        if self.keyed is None:
            return
        command, who, key, now, answer = self.keyed
        there = [self.told.facts[each] for each in answer if each in self.told.facts and self._knows(who, each)]
        if len(there) == len(answer):
            got = execute(self.ledger(who, which), command, now, key)
            assert got is None or isinstance(got, tuple) or got.id == f"k{answer[0]}"
        assert self.row().version == self.told.version

    def _knows(self, who: Who, fact: int) -> bool:
        return who.knows(self.told.facts[fact].requires)

    # What is shown

    def row(self) -> LedgerRow:
        rows = self.observer.ledgers(limit=PAGE)
        return (
            rows[0]
            if rows
            else LedgerRow(tenant="", ledger="", kind="user", version=0, facts=0, created_us=0, updated_us=0)
        )

    def check(self) -> None:
        told = self.told
        assert self.row().version == told.version, "a refused or failed command changes nothing"
        self._check_rows()

    def check_read(self) -> None:
        """What one of them can read, in turn."""
        self.reads += 1
        self.check_reader(PEOPLE[self.reads % len(PEOPLE)])

    def check_reader(self, who: Who) -> None:
        """All that someone may read is what the model says that he may."""
        told, now, ledger = self.told, self.clock.us, self.ledger(who)
        known = told.known(who)

        def same(found: Any, models: list[Told]) -> None:
            shown = [drop_links(describe_fact(each), told.guarded) for each in found]
            assert shown == [drop_links(expect_fact(told, each, who), told.guarded) for each in models]
            for fact, model in zip(found, models, strict=True):
                check_review(fact, model, told, who)

        same(read_pages(ledger.items, within=CLOSED), [each for each in known if each.lives(now)])
        same(read_pages(ledger.items, within="any", status="dead"), [each for each in known if each.status != "live"])
        same(read_pages(ledger.items), [each for each in known if each.lives(now) and each.home == GLOBAL])
        same(read_pages(ledger.review.list), [each for each in known if each.doubts and each.lives(now)])
        same(
            read_pages(ledger.constraints, within=CLOSED),
            [each for each in known if each.constraint and each.holds(now)],
        )
        for key in KEYS:
            for scope, scope_id in HOMES:
                found = ledger.get(key, scope=scope, scope_id=scope_id)
                current = told.current(key, (scope, scope_id), who, now)
                same([found] if found else [], [current] if current else [])
            same(ledger.history(key, limit=PAGE), told.history(key, who, PAGE))
            self._check_why(ledger, key, who)
        for name in (*KEYS, *asked.REFS):
            assert find_id(ledger, name) == expect_id(told, name, who)

    def _check_why(self, shown: Any, key: str, who: Who) -> None:
        told, now = self.told, self.clock.us
        facts = told.history(key, who, PAGE)
        if not facts:
            return
        why = shown.why(key)
        claims = [each.id for each in facts if each.against and each.lives(now)]
        assert [each.id for each in why.claims] == claims
        current = told.current(key, GLOBAL, who, now)
        assert (why.current and why.current.id) == (current and current.id)
        assert len({each.id for each in why.chain}) == len(why.chain)

    def _check_rows(self) -> None:
        """The rows have what the facts are, chains can be walked both ways and end, and the laws of a ledger hold."""
        facts, row = self.stored(), self.row()
        for stored, model in zip(facts.values(), self.told.facts.values(), strict=True):
            shown = expect_fact(self.told, model, PROGRAM) | {
                "depends": ({f"k{each}" for each in model.depends_on}, set())
            }
            assert describe_fact(stored.fact) == shown
        state = LedgerState(version=row.version, facts=row.facts, created_us=row.created_us, updated_us=row.updated_us)
        assert invariants.find_violations(state, facts) == []
        self.lived[row.version] = facts
        for each in (state.fact for state in facts.values()):
            by = facts.get(each.superseded_by or "")
            if by is not None:
                assert each.id in by.fact.supersedes or each.rule == "temporal"
            for old in each.supersedes:
                assert facts[old].fact.superseded_by == each.id or old in self.reinstated

    def stored(self) -> dict[str, FactState]:
        store: Any = getattr(self.observer.store, "blocking", self.observer.store)
        rows: list[Any] = []
        while page := store.rows(FactRow, {}, after=rows[-1] if rows else None, limit=PAGE):
            rows += page
        states = [state_of(row) for row in rows]
        return {state.fact.id: state for state in states}

    def check_log(self, events: list[Any]) -> None:
        """Any prefix of the log leads to the facts that were there then."""
        facts: dict[str, FactState] = {}
        for recorded in events:
            facts |= apply_event(facts, upcast.decode_event(recorded), recorded.seq, recorded.time_us)
            assert self.lived.get(recorded.seq, facts) == facts


def check_authority(before: dict[str, FactState], after: dict[str, FactState], who: Who, now: int) -> None:
    """Nobody has ended what a higher authority says, unless its time was over; nor has a lower one taken its place."""
    for each, state in before.items():
        fact, left = state.fact, after.get(each)
        if fact.is_valid and not fact.has_expired(now) and (left is None or not left.fact.is_valid):
            assert rank(fact.authority) <= rank(who.authority)
            by = after[left.fact.superseded_by].fact if left is not None and left.fact.superseded_by else fact
            assert rank(fact.authority) <= rank(by.authority)


def find_id(ledger: Any, name: str) -> str:
    """The id of the fact of this name, or of the error."""
    try:
        fact: Fact = ledger.fact(name)
    except errors.HoldfastError as error:
        return type(error).__name__
    return fact.id


def expect_id(ledger: ModelLedger, name: str, who: Who) -> str:
    try:
        fact = ledger.find(name, who)
    except FactRefusal as refused:
        return refused.error
    return "FactNotFound" if fact is None else fact.id


def read_pages(read: Any, **told: Any) -> list[Fact]:
    found: list[Fact] = []
    while page := read(after=found[-1] if found else None, limit=3, **told):
        found += page
    return found


def execute(ledger: Any, command: Command, now: int, key: str | None) -> Any:
    """Give a command, its picks resolved, to a ledger."""
    match command:
        case asked.Assert():
            return ledger.set(command.key, command.value, key=key, **assert_options(command, now))
        case asked.Supersede(fact, by, reason):
            return ledger.review.supersede(fact, by, reason=reason, key=key)
        case asked.Retract(fact, reason):
            return ledger.retract(fact, reason=reason, key=key)
        case asked.Expire(fact):
            return ledger.review.expire(fact, key=key)
        case asked.Promote(fact, (scope, scope_id)):
            return ledger.review.promote(fact, scope=scope, scope_id=scope_id, key=key)
        case asked.Endorse(fact, authority):
            return ledger.review.endorse(fact, authority, key=key)
        case asked.Confirm(fact):
            return ledger.review.confirm(fact, key=key)
        case asked.Reinstate(fact):
            return ledger.review.reinstate(fact, key=key)
        case asked.Erase(facts):
            return ledger.erase(list(facts), "asked to", key=key)


def assert_options(said: asked.Assert, now: int) -> dict[str, Any]:
    scope, scope_id = said.home or (None, "")
    return {
        "scope": scope,
        "scope_id": scope_id,
        "authority": said.authority,
        "requires": said.requires,
        "supersedes": said.supersedes,
        "depends_on": said.depends_on,
        "ref": said.ref,
        "valid_from_us": None if said.since is None else now + said.since,
        "expires_at_us": None if said.expires is None else now + said.expires,
        "time_sensitive": said.sensitive,
        "is_constraint": said.constraint,
        "constraint_type": said.kind,
        "source": said.source or None,
        "memory_type": said.memory,
        "reason": said.reason,
    }


def describe_fact(fact: Fact) -> dict[str, object]:
    """What an engine shows of a fact, in plain values."""
    assert fact.is_valid == (fact.status == "live")
    return {
        **{
            name: getattr(fact, name)
            for name in ("id", "key", "ref", "authority", "status", "reason", "why", "rule", "requires")
        },
        "value": json.dumps(fact.value, sort_keys=True),
        "home": (fact.scope, fact.scope_id),
        "source": (fact.source.name, fact.source.identity),
        "times": (fact.at_us, fact.valid_from_us, fact.expires_us, fact.ended_us),
        "memory": fact.memory_type,
        "constraint": (fact.is_constraint, fact.constraint_type),
        "against": fact.against,
        "chain": ({*fact.supersedes}, fact.superseded_by),
        "depends": ({*fact.depends_on}, {*fact.derived_facts}),
        "review": fact.needs_review,
        "disputes": [(each.by, each.authority) for each in fact.disputes],
    }


def expect_fact(ledger: ModelLedger, fact: Told, who: Who) -> dict[str, object]:
    """What the model says that someone may see of a fact, in the same words."""

    def shown(seqs: list[int]) -> set[str]:
        return {f"k{each}" for each in seqs if each not in ledger.facts or who.knows(ledger.facts[each].requires)}

    by = shown([fact.superseded_by]) if fact.superseded_by else set()
    return {
        "id": fact.id,
        "key": fact.key,
        "ref": fact.ref,
        "authority": fact.authority,
        "status": fact.status,
        "reason": fact.reason,
        "why": fact.why if by or not fact.superseded_by else "",
        "rule": fact.rule,
        "requires": tuple(sorted(fact.requires)),
        "value": json.dumps(fact.value, sort_keys=True),
        "home": fact.home,
        "source": (fact.source, fact.by),
        "times": (fact.at, fact.since, fact.expires, fact.ended),
        "memory": fact.memory,
        "constraint": (fact.constraint is not None, fact.constraint),
        "against": f"k{fact.against}" if fact.against else "",
        "chain": (shown(fact.supersedes), next(iter(by), None)),
        "depends": (shown(fact.depends_on), {f"k{each}" for each in ledger.derived(fact, who)}),
        "review": bool(fact.doubts),
        "disputes": fact.disputes,
    }


def drop_links(fact: dict[str, Any], guarded: set[int]) -> dict[str, Any]:
    """What is shown of a fact, but for its links to these."""
    names = {f"k{each}" for each in guarded}
    (before, by), (sources, derived) = fact["chain"], fact["depends"]
    if by in names:
        fact = fact | {"why": ""}
        by = None
    return fact | {"chain": (before - names, by), "depends": (sources - names, derived)}


def check_review(fact: Fact, model: Told, ledger: ModelLedger, who: Who) -> None:
    """What needs a review says because of what, and never names what the reader may not know of."""
    if fact.review:
        known = {
            f"k{each}" for each in model.doubts if each not in ledger.facts or who.knows(ledger.facts[each].requires)
        }
        known |= {f"k{each}" for each in model.doubts & ledger.guarded}
        assert fact.review in known or (fact.review == fact.id and len(known) < len(model.doubts))
