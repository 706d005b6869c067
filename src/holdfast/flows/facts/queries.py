"""Queries over facts: the current fact of a key, its history and reasons, lists, search.

Laws: facts that the reader may not see are left out before anything is chosen, counted, ranked or listed; an expired fact
is never current, also before it is swept; queries change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, overload

import msgspec

from holdfast import codec
from holdfast.core.facts.authority import may_know
from holdfast.core.facts.supersession import choose_foremost
from holdfast.errors import FactNotFound, ForeignFact, InvalidArgument, describe_value
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, LedgerContext
from holdfast.flows.effects import Flow
from holdfast.flows.facts.lookup import SliceReader, ledger_where, read_facts, read_visible, slot_where, state_of
from holdfast.model import limits
from holdfast.model.facts.fact import (
    FACT_SCOPES,
    MEMORY_TYPES,
    Fact,
    FactExplanation,
    FactMatch,
    FactQuery,
    FactScope,
    FactState,
    FactStep,
    MemoryType,
    fact_id,
    fact_seq,
)
from holdfast.model.inputs import FactWriter
from holdfast.model.names import LedgerId, Scope, check_choice, check_name, check_whole
from holdfast.model.rows import DependRow, FactRow, LedgerRow, ledger_of
from holdfast.model.state import SessionState
from holdfast.text import relevance

Scopes = Sequence[tuple[FactScope, str]]
"""Scopes with their ids, to search beside the global scope."""


def check_fact_name(context: LedgerContext, what: str, fact: object) -> str:
    """The id of a fact, or the name that was passed instead.

    A fact of another ledger is refused, because its id names another fact here."""
    if type(fact) is not Fact:
        return check_name(what, fact)
    _check_fact_ledger(context, fact)
    return check_name(what, fact.id)


def _check_fact_ledger(context: LedgerContext, fact: Fact) -> None:
    home, here = fact.ledger, context.ledger
    if home is None or home == here:
        return
    if type(home) is not LedgerId:
        raise InvalidArgument(argument="fact.ledger", reason=f"{describe_value(home)} is not a LedgerId")
    names = [f"{each.tenant}: {each}" if home.tenant != here.tenant else f"{each}" for each in (home, here)]
    raise ForeignFact(fact=str(fact.id), home=names[0], ledger=names[1])


def _check_key(context: LedgerContext, fact: object) -> str:
    """The key that was passed, or that of a fact of this ledger."""
    if type(fact) is not Fact:
        return check_name("the key of a fact", fact)
    _check_fact_ledger(context, fact)
    return check_name("the key of a fact", fact.key)


def get_current(
    context: LedgerContext, name: str, /, *, scope: FactScope = "global", scope_id: str = ""
) -> Flow[Fact | None]:
    """The current fact of a key, or its successor under another key; None if there is none."""
    check_name("the key of a fact", name)
    state = yield from _find_current(context, name, *check_scope(scope, scope_id))
    return None if state is None else (yield from _complete_fact(context, state))


def _find_current(context: LedgerContext, key: str, scope: str, scope_id: str) -> Flow[FactState | None]:
    now = context.engine.clock.now_us()
    slot = yield from read_slot(context, key, scope, scope_id)
    current = {each.fact.id: each for each in slot if each.fact.is_current_at(now)}
    foremost = choose_foremost((each.fact for each in current.values()), context.engine.policy.ladder)
    if foremost is not None:
        return current[foremost.id]
    where = slot_where(context.ledger.stream, key, scope, scope_id, live=0)
    ended = yield from read_visible(where, context.writer.permissions, limits.SLOT_FACTS)
    last = max(ended, key=_end_order, default=None)
    if last is None or last.fact.superseded_by is None:
        return None
    end = yield from _build_reader(context).find_end(last)
    return end if end.fact.is_current_at(now) else None


def _end_order(state: FactState) -> tuple[int, bool, int]:
    """By time; of the facts that ended at the same time, the superseded ones come last."""
    fact = state.fact
    return fact.ended_us or 0, fact.superseded_by is not None, fact_seq(fact.id)


def read_slot(context: LedgerContext, key: str, scope: str, scope_id: str) -> Flow[list[FactState]]:
    """The live facts of one key in one scope that the reader may see, the newest first."""
    where = slot_where(context.ledger.stream, key, scope, scope_id)
    return (yield from read_visible(where, context.writer.permissions, limits.SLOT_FACTS))


def _filter_visible(context: LedgerContext, rows: Iterable[FactRow]) -> Iterator[FactState]:
    for row in rows:
        state = state_of(row)
        if may_know(state.fact.requires, context.writer.permissions):
            yield state


def _build_reader(context: LedgerContext) -> SliceReader:
    return SliceReader(context.ledger, context.engine.clock.now_us(), context.writer.permissions)


def resolve_fact(context: LedgerContext, name: str, *, prefer_ended: bool = False) -> Flow[Fact]:
    """The fact with this id, ref or key. Raises FactNotFound."""
    state = yield from _build_reader(context).find(name, ("global", ""), prefer_ended=prefer_ended)
    if state is None:
        raise FactNotFound(ledger=context.ledger, fact=name)
    return (yield from _complete_fact(context, state))


@overload
def read_by_id(context: LedgerContext, fact: str) -> Flow[Fact]: ...


@overload
def read_by_id(context: LedgerContext, fact: str, *, absent_ok: Literal[True]) -> Flow[Fact | None]: ...


def read_by_id(context: LedgerContext, fact: str, *, absent_ok: bool = False) -> Flow[Fact | None]:
    """The fact with this id. Raises FactNotFound unless `absent_ok`."""
    states = yield from read_facts(context.ledger.stream, [fact])
    for state in states.values():
        if may_know(state.fact.requires, context.writer.permissions):
            return (yield from _complete_fact(context, state))
    if absent_ok:
        return None
    raise FactNotFound(ledger=context.ledger, fact=fact)


def get_fact(context: LedgerContext, fact: str | Fact, /) -> Flow[Fact]:
    """A fact by its id, ref or key, whatever its status."""
    return (yield from resolve_fact(context, check_fact_name(context, "fact", fact)))


def _complete_fact(context: LedgerContext, state: FactState) -> Flow[Fact]:
    """A fact as the reader may see it, with its dependents."""
    fact, permissions = state.fact, context.writer.permissions
    hidden = {each for each, needs in state.guarded.items() if not may_know(needs, permissions)}
    derived: tuple[str, ...] = ()
    if state.sources:
        where = ledger_where(context.ledger.stream) | {"source": fact_seq(fact.id), "live": 1}
        rows = yield from effects.rows(DependRow, where, None, limits.FACT_LINKS)
        derived = tuple(fact_id(row.fact) for row in rows)
        if permissions is not None:
            states = yield from read_facts(context.ledger.stream, derived)
            derived = tuple(each for each, one in states.items() if may_know(one.fact.requires, permissions))
    value = codec.check_json("the value", fact.value)  # a copy: the caller may change it
    fact = msgspec.structs.replace(fact, ledger=context.ledger, value=value, derived_facts=derived)
    if not hidden:
        return fact
    return msgspec.structs.replace(
        fact,
        supersedes=tuple(each for each in fact.supersedes if each not in hidden),
        superseded_by=None if fact.superseded_by in hidden else fact.superseded_by,
        review=fact.id if fact.review in hidden else fact.review,
        why="" if fact.superseded_by in hidden else fact.why,
        depends_on=tuple(each for each in fact.depends_on if each not in hidden),
    )


def read_history(context: LedgerContext, name: str | Fact, /, *, limit: int = 100) -> Flow[tuple[Fact, ...]]:
    """The newest facts of a key and all that are linked to them, oldest first."""
    name = _check_key(context, name)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    where = ledger_where(context.ledger.stream) | {"subject": name}
    newest = yield from read_visible(where, context.writer.permissions, limit)
    states = {state.fact.id: state for state in newest}
    yield from _add_linked(context, states, name)
    facts: list[Fact] = []
    for state in sorted(states.values(), key=lambda each: fact_seq(each.fact.id)):
        facts.append((yield from _complete_fact(context, state)))
    return tuple(facts)


def _add_linked(context: LedgerContext, states: dict[str, FactState], name: str) -> Flow[None]:
    """Add the facts of other keys that superseded these, or were superseded by them."""
    queue = list(states.values())
    while queue and len(states) < limits.CHAIN_FACTS:
        fact = queue.pop().fact
        links = [each for each in (*fact.supersedes, fact.superseded_by) if each is not None and each not in states]
        linked = yield from read_facts(context.ledger.stream, links)
        for state in linked.values():
            if state.fact.key != name and may_know(state.fact.requires, context.writer.permissions):
                states[state.fact.id] = state
                queue.append(state)


def explain(
    context: LedgerContext, name: str | Fact, /, *, scope: FactScope = "global", scope_id: str = ""
) -> Flow[FactExplanation]:
    """Why a key has its value: predecessors, claims, sources, dependents and what happened."""
    if type(name) is Fact:
        scope, scope_id = name.scope, name.scope_id
    name = _check_key(context, name)
    check_scope(scope, scope_id)
    facts = yield from read_history(context, name, limit=limits.CHAIN_FACTS)
    if not facts:
        raise FactNotFound(ledger=context.ledger, fact=name)
    current = yield from get_current(context, name, scope=scope, scope_id=scope_id)
    facts_by_id = {each.id: each for each in facts}
    end = current or next((each for each in reversed(facts) if not each.is_claim), facts[-1])
    chain: list[Fact] = []
    queue = list(end.supersedes)
    while queue:
        fact = facts_by_id.get(queue.pop(0))
        if fact is not None and fact not in chain and not fact.is_claim:
            chain.append(fact)
            queue += fact.supersedes
    now = context.engine.clock.now_us()
    steps = [(step.time_us, at, step) for fact in facts for at, step in enumerate(_build_story(fact))]
    return FactExplanation(
        key=name,
        current=current,
        chain=tuple(chain),
        claims=tuple(each for each in facts if each.is_claim and each.is_valid and not each.has_expired(now)),
        depends_on=(yield from _read_all(context, end.depends_on)),
        derived=(yield from _read_all(context, end.derived_facts)),
        story=tuple(step for _, _, step in sorted(steps, key=lambda each: each[:2])),
    )


def _read_all(context: LedgerContext, ids: Iterable[str]) -> Flow[tuple[Fact, ...]]:
    """The facts with these ids that the reader may see."""
    facts: list[Fact] = []
    for each in ids:
        fact = yield from read_by_id(context, each, absent_ok=True)
        facts += [] if fact is None else [fact]
    return tuple(facts)


def _build_story(fact: Fact) -> Iterator[FactStep]:
    """The steps of one fact: its assertion, its disputes, its end."""
    source = fact.source
    by = source.name or source.identity or source.type
    text = f"claimed by {by}, against {fact.against}" if fact.is_claim else f"asserted by {by}"
    origin = f", from {', '.join(fact.depends_on)}" if fact.depends_on else ""
    yield FactStep(fact.at_us, fact.id, f"{text} ({source.authority}){origin}")
    for each in fact.disputes:
        yield FactStep(each.at_us, fact.id, f"withdrawn by {each.by} ({each.authority}), not confirmed")
    if fact.ended_us is not None:
        text = fact.status if fact.superseded_by is None else f"{fact.status} by {fact.superseded_by}"
        rule = f" ({fact.rule})" if fact.rule is not None else ""
        yield FactStep(fact.ended_us, fact.id, f"{text}{rule}" + (f": {fact.why}" if fact.why else ""))


def list_facts(
    context: LedgerContext,
    *,
    within: Scopes | Literal["any"] = (),
    status: Literal["live", "dead"] = "live",
    memory_type: MemoryType | None = None,
    after: str | Fact | None = None,
    limit: int = 100,
) -> Flow[tuple[Fact, ...]]:
    """A page of the facts of a ledger, in the order of their assertion."""
    check_choice("status", status, ("live", "dead"))
    scopes = None if isinstance(within, str) and within == "any" else check_scopes(within)
    now = context.engine.clock.now_us()

    def is_match(fact: Fact) -> bool:
        in_scope = scopes is None or (fact.scope, fact.scope_id) in scopes
        return in_scope and (status == "dead" or not fact.has_expired(now))

    where: dict[str, str | int] = {"live": int(status == "live")}
    if memory_type is not None:
        where["memory_type"] = check_choice("memory_type", memory_type, MEMORY_TYPES)
    return (yield from _list_facts(context, where, after, limit, is_match))


def list_reviews(
    context: LedgerContext, *, after: str | Fact | None = None, limit: int = 100
) -> Flow[tuple[Fact, ...]]:
    """The facts of all scopes that need a review, because one of their sources ended."""
    now = context.engine.clock.now_us()
    return (yield from _list_facts(context, {"review": 1}, after, limit, lambda fact: not fact.has_expired(now)))


def list_constraints(
    context: LedgerContext, *, within: Scopes = (), after: str | Fact | None = None, limit: int = 100
) -> Flow[tuple[Fact, ...]]:
    """The current constraints."""
    scopes = check_scopes(within)
    now = context.engine.clock.now_us()

    def is_match(fact: Fact) -> bool:
        return (fact.scope, fact.scope_id) in scopes and fact.is_current_at(now)

    return (yield from _list_facts(context, {"constrains": 1}, after, limit, is_match))


def _list_facts(
    context: LedgerContext,
    where: dict[str, str | int],
    after: str | Fact | None,
    limit: int,
    is_match: Callable[[Fact], bool],
) -> Flow[tuple[Fact, ...]]:
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    facts: list[Fact] = []
    last = yield from _find_page_row(context, after)
    while len(facts) < limit:
        page = min(max(2 * (limit - len(facts)), 32), limits.READ_EVENTS)  # not all rows may match
        rows = yield from effects.rows(FactRow, ledger_where(context.ledger.stream) | where, last, page)
        for state in _filter_visible(context, rows):
            if len(facts) < limit and is_match(state.fact):
                facts.append((yield from _complete_fact(context, state)))
        if len(rows) < page:
            break
        last = rows[-1]
    return tuple(facts)


def _find_page_row(context: LedgerContext, fact: str | Fact | None) -> Flow[FactRow | None]:
    """The row after which a page starts, also if that fact was erased meanwhile."""
    if fact is None:
        return None
    name = check_fact_name(context, "after", fact)
    if not fact_seq(name):
        reason = f"{describe_value(name)} is not the id of a fact: pass the last fact of the previous page"
        raise InvalidArgument(argument="after", reason=reason)
    where = ledger_where(context.ledger.stream)
    for row in (yield from effects.rows(FactRow, where | {"fact": fact_seq(name)}, None, 1)):
        return row
    return FactRow(
        tenant=context.ledger.tenant,
        ledger=str(where["ledger"]),
        fact=fact_seq(name),
        subject="",
        scope="",
        scope_id="",
        ref="",
        live=0,
        claim=0,
        review=0,
        constrains=0,
        expires_us=None,
        requires="",
        key_words="",
        words="",
        memory_type="",
        anchor="",
        state="",
    )


def search_facts(
    context: LedgerContext, query: str, /, *, within: Scopes = (), limit: int = 50
) -> Flow[tuple[FactMatch, ...]]:
    """The current facts that match a query best, the best first."""
    return search_ledgers(context.engine, [context.ledger], context.writer.permissions, query, within, limit)


def search_ledgers(
    engine: EngineContext,
    ledgers: Sequence[LedgerId],
    permissions: tuple[str, ...] | None,
    query: str,
    within: Scopes,
    limit: int,
    *,
    ranked: int | None = None,
) -> Flow[tuple[FactMatch, ...]]:
    """The current facts in these ledgers that match a query best, the best first; with `ranked`, of about so many facts of
    each ledger."""
    codec.check_text("the query", query)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    search = FactQuery(
        tenant=engine.tenant,
        ledgers=tuple(codec.encode_stream_key(ledger.stream) for ledger in ledgers),
        words=relevance.query_terms(query),
        permissions=permissions,
        scopes=check_scopes(within),
        now_us=engine.clock.now_us(),
        ranked=ranked,
        limit=min(2 * limit, limits.READ_EVENTS),
    )
    if not search.words or not search.ledgers:
        return ()
    hits = yield from effects.search(search)
    states = [state_of(row) for row, _ in hits]
    best: list[FactMatch] = []
    for at, score in relevance.rank_facts(query, [state.fact for state in states])[:limit]:
        context = LedgerContext(engine, ledger_of(hits[at][0]), FactWriter(permissions=permissions))
        best.append(
            FactMatch(fact=(yield from _complete_fact(context, states[at])), ledger=context.ledger, score=score)
        )
    return tuple(best)


def ledgers(
    engine: EngineContext,
    *,
    kind: Literal["user", "project", "organization", "session"] | None = None,
    after: LedgerRow | None = None,
    limit: int = 100,
) -> Flow[tuple[LedgerRow, ...]]:
    """The ledgers of the tenant, ordered by name; `after` is the last row of the previous page."""
    where: dict[str, str | int] = {"tenant": engine.tenant}
    if kind is not None:
        where["kind"] = check_choice("kind", kind, ("user", "project", "organization", "session"))
    if after is not None and type(after) is not LedgerRow:
        reason = f"{describe_value(after)} is not a LedgerRow: pass the last row of the previous page"
        raise InvalidArgument(argument="after", reason=reason)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    return (yield from effects.rows(LedgerRow, where, after, limit))


def own_ledger(scope: Scope) -> LedgerId:
    """The ledger of the session itself."""
    return LedgerId(scope.tenant, "session", scope.stream.key)


def ledgers_of(scope: Scope, state: SessionState) -> list[LedgerId]:
    """The ledgers that a session reads: its own first, then those that it was opened with, in their order."""
    others = (LedgerId(scope.tenant, key[0], key[1:]) for key in state.ledgers)  # type: ignore[arg-type]
    return list(dict.fromkeys([own_ledger(scope), *others]))


class UsedLedger(NamedTuple):
    """A ledger that has events: its position in the list of ledgers, and its version."""

    ordinal: int
    ledger: LedgerId
    version: int


def find_used_ledgers(ledgers: Sequence[LedgerId]) -> Flow[list[UsedLedger]]:
    """The ledgers that have events, in their order. The own ledger of a session often has none."""
    keys = [codec.encode_stream_key(each.stream) for each in ledgers]
    where: dict[str, str | int] = {"tenant": ledgers[0].tenant}
    rows = yield from effects.rows(LedgerRow, where, None, len(keys), among={"ledger": keys})
    versions = {row.ledger: row.version for row in rows}
    pairs = enumerate(zip(ledgers, keys, strict=True))
    return [UsedLedger(at, each, versions[key]) for at, (each, key) in pairs if key in versions]


def check_scopes(within: Any) -> tuple[tuple[FactScope, str], ...]:
    """The scopes to search: the global one, and these."""
    if type(within) not in (list, tuple):
        raise InvalidArgument(
            argument="within", reason=f"{describe_value(within)} is not a list of scopes with their ids"
        )
    scopes: list[tuple[FactScope, str]] = [("global", "")]
    for at, each in enumerate(within):
        if type(each) not in (list, tuple) or len(each) != 2:
            reason = f"{describe_value(each)} is not a scope with its id: pass for example ('task', 't1')"
            raise InvalidArgument(argument=f"within[{at}]", reason=reason)
        scopes.append(check_scope(*each))
    return tuple(dict.fromkeys(scopes))


def check_scope(scope: object, scope_id: object) -> tuple[FactScope, str]:
    """A scope, and its id, which may be empty."""
    return check_choice("scope", scope, FACT_SCOPES), check_optional_name("scope_id", scope_id)


def check_optional_name(what: str, value: object) -> str:
    """A name, or an empty text. Only a str is tested for emptiness: other objects may answer anything."""
    return "" if type(value) is str and not value else check_name(what, value)
