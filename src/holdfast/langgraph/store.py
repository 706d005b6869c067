"""Holdfast as the store of LangGraph: long-term memory of graphs, in ledgers.

A namespace is a ledger, a key is the key of a fact, and an item is the current fact. The namespace of a user is the ledger
of that user: what a graph remembers about a user is in the packs of the user's sessions.

Laws: a put is the current value when it returns, or it raises. Earlier values stay in the history of the key. Reads of a
batch come before its puts, and of several puts of one key the last one counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

import holdfast
from holdfast import codec
from holdfast.core.facts.authority import outranks
from holdfast.errors import Conflict, InvalidArgument, InvalidName, NotAuthorised, describe_value
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.model.facts.fact import Fact
from holdfast.model.names import check_name
from holdfast.types import FactExplanation, FactSource, LedgerId, LedgerRow

_PAGE = 1_000
_FIRST_PAGE = 20
"""Most searches are for one namespace."""
_PREFIX = "langgraph/"
"""How the names of the ledgers of namespaces begin; those of users are not among them."""
_ITEM_REF = "langgraph"
"""How the ref of a fact begins that was put; the time of the first put follows, and `ttl` if it expires."""
_SOURCE = FactSource(type="state_write", name="langgraph store")
_REFRESHES = 20
"""How often the reads of an item are stored during the time that it has to live."""

Namespace = tuple[str, ...]


class HoldfastStore(BaseStore):
    """A store of LangGraph on the ledgers of an engine.

        graph = builder.compile(store=HoldfastStore(engine))

    The namespace `(*users, id)` is the ledger of the user with that id; `users=None` keeps the ledgers of users out of the
    store. Each other namespace has a ledger of its own, see ledger().

    Puts have the authority of the program, or of `identity`, or the lower one that `authority` names. A put or a delete
    that a fact of higher authority refuses raises NotAuthorised, and the fact stays. `ttl` is LangGraph's configuration;
    items that have expired are never returned."""

    supports_ttl = True

    def __init__(
        self,
        engine: holdfast.Engine,
        *,
        users: Sequence[str] | None = ("users",),
        identity: holdfast.Identity | None = None,
        authority: str | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        self._engine = check_engine(engine)
        self._users = None if users is None else _check_labels(tuple(users))
        self._identity = identity
        self._authority = authority
        self.ttl_config = ttl

    def ledger(self, namespace: Namespace) -> holdfast.Ledger:
        """The ledger of a namespace: for sessions that read it, and for what facts can do beside items."""
        return self._engine.ledger(self._ledger_id(_check_namespace(namespace)), identity=self._identity)

    def ledger_id(self, namespace: Namespace) -> LedgerId:
        """The id of the ledger of a namespace: pass it in the `ledgers` of a session, and packs show its items."""
        return self._ledger_id(_check_namespace(namespace))

    def history(self, namespace: Namespace, key: str, *, limit: int = 100) -> tuple[Fact, ...]:
        """The values that a key has had, oldest first, also those that were deleted or have expired. Each has a status, its
        times, its source, and what ended it."""
        facts = [fact for fact in self.ledger(namespace).history(key, limit=limit) if fact.key == key]
        last = {(fact.ref, fact.valid_from_us): fact for fact in facts}  # a refreshed time to live is not a new value
        return tuple(fact for fact in facts if not fact.ref or last[fact.ref, fact.valid_from_us] is fact)

    def why(self, namespace: Namespace, key: str) -> FactExplanation:
        """Explain the value of a key: earlier values, claims and disputes. Raises FactNotFound if it never had one."""
        return self.ledger(namespace).why(key)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: the reads first, then the puts. A batch is not one transaction: each put is."""
        checked = [_check_op(op) for op in ops]
        puts = {(op.namespace, op.key): op for op in checked if isinstance(op, PutOp)}
        answers: list[Result] = []
        for op in checked:
            match op:
                case GetOp():
                    answers.append(self._get(op))
                case SearchOp():
                    answers.append(self._search(op))
                case ListNamespacesOp():
                    answers.append(self._list(op))
                case _:
                    answers.append(None)
        for put in puts.values():
            self._put(put)
        return answers

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in a thread. See batch()."""
        return await run_blocking(self.batch, list(ops))

    def _get(self, op: GetOp) -> Item | None:
        if not _can_have_items(op.namespace):
            return None
        ledger = self.ledger(op.namespace)
        fact = _find_current(ledger, op.key)
        if fact is None:
            return None
        if op.refresh_ttl:
            self._refresh(ledger, [fact])
        return Item(**_read_fields(op.namespace, fact))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        matches = [
            match
            for match in self._read_under(op.namespace_prefix)
            if _matches_filter(match.fact.value, op.filter or {})
        ]
        matches.sort(key=lambda match: (-match.fact.valid_from_us, match.namespace, match.fact.key))
        if op.query:
            matches = self._rank(op.query, matches)
        shown = matches[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            for match in shown:
                self._refresh(self.ledger(match.namespace), [match.fact])
        return [SearchItem(**_read_fields(match.namespace, match.fact), score=match.score) for match in shown]

    def _rank(self, query: str, matches: list[_Match]) -> list[_Match]:
        """The items that have words of the query, best first, then the others."""
        scores: dict[tuple[Namespace, str], float] = {}
        for namespace in {match.namespace for match in matches}:
            for found in self.ledger(namespace).search(query, limit=_PAGE):
                scores[namespace, found.fact.id] = found.score
        ranked = [match._replace(score=scores.get((match.namespace, match.fact.id))) for match in matches]
        return sorted(ranked, key=lambda match: -(match.score or 0.0))

    def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        if op.limit <= 0:
            return []
        conditions = op.match_conditions or ()
        literal = next((each.path for each in conditions if each.match_type == "prefix"), ())
        wanted = op.offset + op.limit
        names: dict[Namespace, None] = {}
        for namespace in self._namespaces(_literal_head(literal)):
            short = namespace if op.max_depth is None else namespace[: op.max_depth]
            if short in names or not all(_matches_condition(namespace, each) for each in conditions):
                continue
            if any(not fact.is_claim for fact in self.ledger(namespace).items(limit=10)):
                names[short] = None
                if len(names) == wanted:
                    break
        return list(names)[op.offset : wanted]

    def _put(self, op: PutOp) -> None:
        if not _can_have_items(op.namespace):
            return  # a delete
        ledger = self.ledger(op.namespace)
        current = _find_current(ledger, op.key)
        if current is not None:
            self._check_authority(current, "replace" if op.value is not None else "delete")
        if op.value is None:
            if current is not None and not ledger.retract(current, reason="deleted"):
                raise self._refusal(current, "delete")
            return
        now = self._engine._context.clock.now_us()
        ref = f"{_ITEM_REF}:{_created_us(current) if current is not None else now}"
        fact = ledger.set(
            op.key,
            op.value,
            source=_SOURCE,
            authority=self._authority,
            scope="global",
            memory_type="user",
            is_constraint=False,
            time_sensitive=False,
            ref=ref if op.ttl is None else f"{ref}:ttl",
            ttl_s=None if op.ttl is None else _check_ttl(op.ttl) * 60,
        )
        if fact.is_claim:  # another process set a fact of higher authority meanwhile
            ledger.retract(fact, reason="refused")
            raise self._refusal(ledger.fact(fact.against), "replace")

    def _check_authority(self, current: Fact, what: str) -> None:
        if outranks(self._engine._context.policy.ladder, current.authority, self._own_authority()):
            raise self._refusal(current, what)

    def _own_authority(self) -> str:
        if self._authority is not None:
            return self._authority
        return self._engine._context.policy.channel if self._identity is None else self._identity.authority

    def _refusal(self, fact: Fact, what: str) -> NotAuthorised:
        return NotAuthorised(fact=fact.key, needs=fact.authority, has=self._own_authority(), what=what)

    def _refresh(self, ledger: holdfast.Ledger, facts: Iterable[Fact]) -> None:
        """Give items that were read their whole time to live again, unless they have most of it left."""
        for fact in facts:
            if fact.expires_us is None or not _is_item(fact):
                continue
            ttl_us = fact.expires_us - fact.at_us
            if self._engine._context.clock.now_us() - fact.at_us < ttl_us / _REFRESHES:
                continue
            version = self._read_version(fact.ledger)
            if (current := _find_current(ledger, fact.key)) is None or current.id != fact.id:
                continue
            try:
                ledger.set(
                    fact.key,
                    fact.value,
                    source=fact.source,
                    authority=fact.authority,
                    scope="global",
                    memory_type=fact.memory_type,
                    is_constraint=False,
                    time_sensitive=False,
                    valid_from_us=fact.valid_from_us,
                    ref=fact.ref,
                    ttl_s=ttl_us / 1_000_000,
                    reason="read",
                    expect=version,
                )
            except Conflict:
                continue  # somebody wrote meanwhile, or the reader may only read

    def _read_under(self, prefix: Namespace) -> Iterator[_Match]:
        """The items of all namespaces that begin with a prefix."""
        for namespace in self._namespaces(prefix):
            ledger = self.ledger(namespace)
            after: Fact | None = None
            while True:
                page = ledger.items(after=after, limit=_PAGE)
                yield from (_Match(namespace, fact) for fact in page if not fact.is_claim)
                if len(page) < _PAGE:
                    break
                after = page[-1]

    def _namespaces(self, prefix: Namespace) -> list[Namespace]:
        """The namespaces that begin with a prefix and may have items; sorted."""
        names = {prefix} if _can_have_items(prefix) else set()
        start = "".join(f"{label}." for label in prefix)
        names.update(
            tuple(name.removeprefix(_PREFIX).split(".")) for name in self._ledger_names("project", _PREFIX + start)
        )
        if self._users is not None and prefix == self._users[: len(prefix)]:
            names.update((*self._users, each) for each in self._ledger_names("user", "") if "." not in each)
        return sorted(names)

    def _ledger_names(self, kind: str, start: str) -> Iterator[str]:
        """The names of the ledgers of a kind that begin with a text."""
        after, limit = self._row_before(kind, start), _FIRST_PAGE
        while True:
            page = self._engine.ledgers(kind=kind, after=after, limit=limit)  # type: ignore[arg-type]
            for row in page:
                name = row.id.names[0]
                if not name.startswith(start):
                    return
                yield name
            if len(page) < limit:
                return
            after, limit = page[-1], _PAGE

    def _row_before(self, kind: str, start: str) -> LedgerRow:
        """A row that is before all ledgers whose name begins with a text: lists are ordered by the encoded name."""
        whole = LedgerId(self._engine._context.tenant, kind, (start,)).stream  # type: ignore[arg-type]
        encoded = codec.encode_stream_key(whole).removesuffix('"]')
        return LedgerRow(
            tenant=whole.tenant,
            ledger=encoded,
            kind=kind,  # type: ignore[arg-type]
            version=0,
            facts=0,
            created_us=0,
            updated_us=0,
        )

    def _read_version(self, ledger: LedgerId | None) -> int | None:
        if ledger is None:
            return None
        rows = self._engine.ledgers(kind=ledger.kind, after=self._row_before(ledger.kind, ledger.names[0]), limit=1)
        return next((row.version for row in rows if row.id == ledger), None)

    def _ledger_id(self, namespace: Namespace) -> LedgerId:
        tenant = self._engine._context.tenant
        if self._users is not None and namespace[:-1] == self._users:
            return LedgerId(tenant, "user", (namespace[-1],))
        return LedgerId(tenant, "project", (_PREFIX + ".".join(namespace),))


class _Match(NamedTuple):
    """An item that a search finds."""

    namespace: Namespace
    fact: Fact
    score: float | None = None


def _find_current(ledger: holdfast.Ledger, key: str) -> Fact | None:
    """The current fact of a key; none if a fact under another key took its place."""
    fact = ledger.get(key)
    return fact if fact is not None and fact.key == key else None


def _is_item(fact: Fact) -> bool:
    return fact.ref.startswith(f"{_ITEM_REF}:")


def _created_us(fact: Fact) -> int:
    """When the key was put for the first time since it was deleted."""
    number = fact.ref.split(":")[1] if _is_item(fact) else ""
    return int(number) if number.isdigit() else fact.at_us


def _read_fields(namespace: Namespace, fact: Fact) -> dict[str, Any]:
    value = fact.value if isinstance(fact.value, dict) else {"value": fact.value}
    updated_us = fact.valid_from_us if _is_item(fact) else fact.at_us
    return {
        "namespace": namespace,
        "key": fact.key,
        "value": value,
        "created_at": _to_time(min(_created_us(fact), updated_us)),
        "updated_at": _to_time(updated_us),
    }


def _to_time(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / 1e6, UTC)


def _check_op(op: Op) -> Op:
    match op:
        case GetOp():
            _check_labels(op.namespace)
        case PutOp(value=None):
            _check_labels(op.namespace)
        case PutOp():
            _check_namespace(op.namespace)
            if not isinstance(op.value, Mapping):
                raise InvalidArgument(argument="value", reason=f"{describe_value(op.value)} is not a mapping")
        case SearchOp():
            _check_labels(op.namespace_prefix)
        case ListNamespacesOp():
            for each in op.match_conditions or ():
                _check_labels(each.path)
        case _:
            raise InvalidArgument(argument="ops", reason=f"{describe_value(op)} is not an operation of a store")
    return op


def _check_namespace(namespace: Namespace) -> Namespace:
    if not namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    if not _can_have_items(_check_labels(namespace)):
        raise InvalidNamespaceError('The first label of a namespace cannot be "langgraph".')
    return namespace


def _can_have_items(namespace: Namespace) -> bool:
    """Whether LangGraph allows items in a namespace."""
    return bool(namespace) and namespace[0] != "langgraph"


def _check_labels(namespace: Namespace) -> Namespace:
    """The namespace, if a ledger can be named after it."""
    for label in namespace:
        if type(label) is not str or not label or "." in label:
            raise InvalidNamespaceError(f"Invalid label {label!r} in {namespace!r}: use text without periods.")
    try:
        if namespace:
            check_name("namespace", _PREFIX + ".".join(namespace))
    except InvalidName as error:
        raise InvalidNamespaceError(str(error)) from error
    return namespace


def _check_ttl(minutes: float) -> float:
    if type(minutes) not in (int, float) or not 0 < minutes < float("inf"):
        raise InvalidArgument(argument="ttl", reason=f"{describe_value(minutes)} is not a positive number of minutes")
    return minutes


def _literal_head(path: Namespace) -> Namespace:
    return path[: path.index("*")] if "*" in path else path


def _matches_condition(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidArgument(argument="match_type", reason=f"{describe_value(condition.match_type)} is unknown")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))


def _matches_filter(value: object, wanted: Mapping[str, Any]) -> bool:
    fields = value if isinstance(value, dict) else {"value": value}
    return all(_matches_value(fields.get(name), each) for name, each in wanted.items())


def _matches_value(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if any(str(name).startswith("$") for name in wanted):
            return all(_compare(value, operator, other) for operator, other in wanted.items())
        return isinstance(value, dict) and all(_matches_value(value.get(name), each) for name, each in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_matches_value(one, other) for one, other in zip(value, wanted, strict=True))
        )
    return bool(value == wanted)


def _compare(value: Any, operator: str, other: Any) -> bool:
    """Compare as numbers, a text of digits too, or else as text. What cannot be compared does not match."""
    match operator:
        case "$eq":
            return bool(value == other)
        case "$ne":
            return bool(value != other)
        case "$gt" | "$gte" | "$lt" | "$lte":
            pass
        case _:
            raise InvalidArgument(argument="filter", reason=f"{describe_value(operator)} is not an operator of filters")
    one, two = _to_number(value), _to_number(other)
    if one is not None and two is not None:
        order = (one > two) - (one < two)
    elif isinstance(value, str) and isinstance(other, str):
        order = (value > other) - (value < other)
    else:
        return False
    return {"$gt": order > 0, "$gte": order >= 0, "$lt": order < 0, "$lte": order <= 0}[operator]


def _to_number(value: object) -> float | None:
    """A number, or a text that is one; None for anything else, and for what is no number by its definition."""
    if isinstance(value, int | float):
        return None if value != value else value  # not a number: isnan() refuses large integers
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None
