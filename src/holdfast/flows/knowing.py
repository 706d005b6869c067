"""Reading facts: what holds now, what held before, and why.

Laws: what a reader may not know of is left out before anything is chosen, counted, ranked or listed; what has run out is
never current, whether or not somebody swept; reading changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, overload

import msgspec

from holdfast import codec
from holdfast.core import relevance
from holdfast.core.authority import may_know, rank
from holdfast.errors import FactNotFound, ForeignFact, InvalidContent, shown
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.inform_facts import Reading, facts_by_id, ledger_where, seen, state_of
from holdfast.flows.place import Context, LedgerPlace, on_ledger
from holdfast.model import limits
from holdfast.model.commands import ExpireFacts, Writer
from holdfast.model.facts import (
    FACT_SCOPES,
    MEMORY_TYPES,
    Fact,
    FactScope,
    FactState,
    Known,
    Link,
    MemoryType,
    Search,
    Why,
    fact_id,
    fact_seq,
)
from holdfast.model.names import LedgerId, Scope, checked_name, checked_whole
from holdfast.model.rows import DependRow, FactRow, LedgerRow, ledger_of
from holdfast.model.state import SessionState

Scopes = Sequence[tuple[FactScope, str]]
"""Scopes with their ids: what may be looked into beside what holds everywhere."""


def fact_name(place: LedgerPlace, what: str, fact: object) -> str:
    """What a fact of this ledger is called by: its id, or the name that was given for it. One that was read from another
    ledger is refused, since its id means another fact here."""
    if type(fact) is not Fact:
        return checked_name(what, fact)
    _check_home(place, fact)
    return checked_name(what, fact.id)


def _check_home(place: LedgerPlace, fact: Fact) -> None:
    home, here = fact.ledger, place.ledger
    if home is None or home == here:
        return
    if type(home) is not LedgerId:
        raise InvalidContent(reason=f"the ledger of a fact is a holdfast.LedgerId, not {shown(home)}")
    named = [f"{each.tenant}: {each}" if home.tenant != here.tenant else f"{each}" for each in (home, here)]
    raise ForeignFact(fact=str(fact.id), home=named[0], ledger=named[1])


def _key_of(place: LedgerPlace, fact: object) -> str:
    """A key, or that of a fact of this ledger."""
    if type(fact) is not Fact:
        return checked_name("the key of a fact", fact)
    _check_home(place, fact)
    return checked_name("the key of a fact", fact.key)


def current(place: LedgerPlace, name: str, /, *, scope: FactScope = "global", scope_id: str = "") -> Flow[Fact | None]:
    """What holds for a key now; None if nothing does. If something with another key took its place, that."""
    checked_name("the key of a fact", name)
    state = yield from _current(place, name, *checked_home(scope, scope_id))
    return None if state is None else (yield from _whole(place, state))


def _current(place: LedgerPlace, key: str, scope: str, scope_id: str) -> Flow[FactState | None]:
    now = place.context.clock.now_us()
    slot = yield from slot_of(place, key, scope, scope_id)
    held = [each for each in slot if each.fact.current_at(now)]
    if held:
        ladder = place.context.policy.ladder
        return max(held, key=lambda each: (rank(ladder, each.fact.authority), fact_seq(each.fact.id)))
    where = ledger_where(place.ledger.stream) | {"subject": key, "scope": scope, "scope_id": scope_id, "live": 0}
    dead = yield from seen(where, place.writer.permissions, limits.SLOT_FACTS)
    last = max(dead, key=_ended, default=None)
    if last is None or last.fact.superseded_by is None:
        return None
    end = yield from _reading(place).end(last)
    return end if end.fact.current_at(now) else None


def _ended(state: FactState) -> tuple[int, bool, int]:
    """When; of what ended at one moment, what has something in its place comes last."""
    fact = state.fact
    return fact.ended_us or 0, fact.superseded_by is not None, fact_seq(fact.id)


def slot_of(place: LedgerPlace, key: str, scope: str, scope_id: str) -> Flow[list[FactState]]:
    """The live facts of one key in one scope that the reader may know of, the newest first."""
    where = ledger_where(place.ledger.stream) | {"subject": key, "scope": scope, "scope_id": scope_id, "live": 1}
    return (yield from seen(where, place.writer.permissions, limits.SLOT_FACTS))


def _seen(place: LedgerPlace, rows: Iterable[FactRow]) -> Iterator[FactState]:
    for row in rows:
        state = state_of(row)
        if may_know(state.fact.requires, place.writer.permissions):
            yield state


def _reading(place: LedgerPlace) -> Reading:
    return Reading(place.ledger, on_ledger(place, ExpireFacts(ledger=place.ledger, limit=1)).given)


def meant(place: LedgerPlace, name: str, *, dead: bool = False) -> Flow[Fact]:
    """The fact of this id, name outside, or key."""
    state = yield from _reading(place).find(name, ("global", ""), dead=dead)
    if state is None:
        raise FactNotFound(ledger=place.ledger, fact=name)
    return (yield from _whole(place, state))


@overload
def by_id(place: LedgerPlace, fact: str) -> Flow[Fact]: ...
@overload
def by_id(place: LedgerPlace, fact: str, *, absent_ok: Literal[True]) -> Flow[Fact | None]: ...
def by_id(place: LedgerPlace, fact: str, *, absent_ok: bool = False) -> Flow[Fact | None]:
    found = yield from facts_by_id(place.ledger.stream, [fact])
    for state in found.values():
        if may_know(state.fact.requires, place.writer.permissions):
            return (yield from _whole(place, state))
    if absent_ok:
        return None
    raise FactNotFound(ledger=place.ledger, fact=fact)


def get(place: LedgerPlace, fact: str | Fact, /) -> Flow[Fact]:
    """A fact, live or dead, by its id; or by its name outside or its key, as far as that is clear. One that was read before
    is read again."""
    return (yield from meant(place, fact_name(place, "fact", fact)))


def _whole(place: LedgerPlace, state: FactState) -> Flow[Fact]:
    """A fact as its reader may see it, with those that depend on it."""
    fact, permissions = state.fact, place.writer.permissions
    hidden = {each for each, needs in state.guarded.items() if not may_know(needs, permissions)}
    derived: tuple[str, ...] = ()
    if state.sources:
        where = ledger_where(place.ledger.stream) | {"source": fact_seq(fact.id), "live": 1}
        rows = yield from effects.rows(DependRow, where, None, limits.FACT_LINKS)
        derived = tuple(fact_id(row.fact) for row in rows)
        if permissions is not None:
            found = yield from facts_by_id(place.ledger.stream, derived)
            derived = tuple(each for each, one in found.items() if may_know(one.fact.requires, permissions))
    value = codec.checked_json("the value", fact.value)  # the caller may do with it as he likes; ours stays
    if not hidden:
        return msgspec.structs.replace(fact, ledger=place.ledger, value=value, derived_facts=derived)
    return msgspec.structs.replace(
        fact,
        ledger=place.ledger,
        value=value,
        derived_facts=derived,
        supersedes=tuple(each for each in fact.supersedes if each not in hidden),
        superseded_by=None if fact.superseded_by in hidden else fact.superseded_by,
        review=fact.id if fact.review in hidden else fact.review,
        why="" if fact.superseded_by in hidden else fact.why,
        depends_on=tuple(each for each in fact.depends_on if each not in hidden),
    )


def history(place: LedgerPlace, name: str | Fact, /, *, limit: int = 100) -> Flow[tuple[Fact, ...]]:
    """All that was ever held to be true under a key, or that of a fact, oldest first: the newest so many, with what they
    superseded and what superseded them, also under other keys."""
    name = _key_of(place, name)
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    where = ledger_where(place.ledger.stream) | {"subject": name}
    newest = yield from seen(where, place.writer.permissions, limit)
    found = {state.fact.id: state for state in newest}
    yield from _linked(place, found, name)
    facts: list[Fact] = []
    for state in sorted(found.values(), key=lambda each: fact_seq(each.fact.id)):
        facts.append((yield from _whole(place, state)))
    return tuple(facts)


def _linked(place: LedgerPlace, found: dict[str, FactState], name: str) -> Flow[None]:
    """Add what is linked to these under other keys."""
    ahead = list(found.values())
    while ahead and len(found) < limits.CHAIN_FACTS:
        fact = ahead.pop().fact
        links = [each for each in (*fact.supersedes, fact.superseded_by) if each is not None and each not in found]
        more = yield from facts_by_id(place.ledger.stream, links)
        for state in more.values():
            if state.fact.key != name and may_know(state.fact.requires, place.writer.permissions):
                found[state.fact.id] = state
                ahead.append(state)


def why(place: LedgerPlace, name: str | Fact, /, *, scope: FactScope = "global", scope_id: str = "") -> Flow[Why]:
    """Why a key has the value that it has: what came before, who disagrees, what it rests on and what rests on it. A fact
    stands for its key in its scope."""
    if type(name) is Fact:
        scope, scope_id = name.scope, name.scope_id
    name = _key_of(place, name)
    checked_home(scope, scope_id)
    facts = yield from history(place, name, limit=limits.CHAIN_FACTS)
    if not facts:
        raise FactNotFound(ledger=place.ledger, fact=name)
    at = yield from current(place, name, scope=scope, scope_id=scope_id)
    known = {each.id: each for each in facts}
    end = at if at is not None else next((each for each in reversed(facts) if not each.claim), facts[-1])
    chain: list[Fact] = []
    ahead = list(end.supersedes)
    while ahead:
        fact = known.get(ahead.pop(0))
        if fact is not None and fact not in chain and not fact.claim:
            chain.append(fact)
            ahead += fact.supersedes
    sources, derived = [], []
    for each in end.depends_on:
        sources.append((yield from by_id(place, each, absent_ok=True)))
    for each in end.derived_facts:
        derived.append((yield from by_id(place, each, absent_ok=True)))
    now = place.context.clock.now_us()
    steps = [(link.time_us, at, link) for fact in facts for at, link in enumerate(_links(fact))]
    return Why(
        key=name,
        current=at,
        chain=tuple(chain),
        claims=tuple(each for each in facts if each.claim and each.is_valid and not each.ran_out(now)),
        depends_on=tuple(each for each in sources if each is not None),
        derived=tuple(each for each in derived if each is not None),
        story=tuple(link for _, _, link in sorted(steps, key=lambda each: each[:2])),
    )


def _links(fact: Fact) -> Iterator[Link]:
    source = fact.source
    by = source.name or source.identity or source.type
    what = f"claimed by {by}, against {fact.against}" if fact.claim else f"asserted by {by}"
    on = f", from {', '.join(fact.depends_on)}" if fact.depends_on else ""
    yield Link(fact.at_us, fact.id, f"{what} ({source.authority}){on}")
    for each in fact.disputes:
        yield Link(each.at_us, fact.id, f"withdrawn by {each.by} ({each.authority}), not confirmed")
    if fact.ended_us is not None:
        what = fact.status
        if fact.superseded_by is not None:
            what += f" by {fact.superseded_by}"
        rule = f" ({fact.rule})" if fact.rule is not None else ""
        yield Link(fact.ended_us, fact.id, f"{what}{rule}" + (f": {fact.why}" if fact.why else ""))


def facts(
    place: LedgerPlace,
    *,
    within: Scopes | Literal["any"] = (),
    status: Literal["live", "dead"] = "live",
    memory_type: MemoryType | None = None,
    after: str | Fact | None = None,
    limit: int = 100,
) -> Flow[tuple[Fact, ...]]:
    """The facts of a ledger in the order in which they were asserted, those that hold now, claims among them, or those that
    are dead; with `memory_type`, only those of that kind of memory: user, capability or organizational. `after` is the last
    one of the page before. Scopes other than global are looked into only if `within` names them, or is "any"."""
    one_of("status", status, ("live", "dead"))
    scopes = None if isinstance(within, str) and within == "any" else checked_scopes(within)
    now = place.context.clock.now_us()

    def wanted(fact: Fact) -> bool:
        asked = scopes is None or (fact.scope, fact.scope_id) in scopes
        return asked and (status == "dead" or not fact.ran_out(now))

    where: dict[str, str | int] = {"live": int(status == "live")}
    if memory_type is not None:
        where["memory_type"] = one_of("memory_type", memory_type, MEMORY_TYPES)
    return (yield from _listed(place, where, after, limit, wanted))


def review(place: LedgerPlace, *, after: str | Fact | None = None, limit: int = 100) -> Flow[tuple[Fact, ...]]:
    """The facts that need a review, because something that they rest on died; in any scope."""
    now = place.context.clock.now_us()
    return (yield from _listed(place, {"review": 1}, after, limit, lambda fact: not fact.ran_out(now)))


def constraints(
    place: LedgerPlace, *, within: Scopes = (), after: str | Fact | None = None, limit: int = 100
) -> Flow[tuple[Fact, ...]]:
    """The constraints that hold now."""
    scopes = checked_scopes(within)
    now = place.context.clock.now_us()

    def wanted(fact: Fact) -> bool:
        return (fact.scope, fact.scope_id) in scopes and fact.current_at(now)

    return (yield from _listed(place, {"constrains": 1}, after, limit, wanted))


def _listed(
    place: LedgerPlace,
    where: dict[str, str | int],
    after: str | Fact | None,
    limit: int,
    wanted: Callable[[Fact], bool],
) -> Flow[tuple[Fact, ...]]:
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    found: list[Fact] = []
    last = yield from _row_of(place, after)
    while len(found) < limit:
        page = min(max(2 * (limit - len(found)), 32), limits.READ_EVENTS)  # some more: not all may be wanted
        rows = yield from effects.rows(FactRow, ledger_where(place.ledger.stream) | where, last, page)
        for state in _seen(place, rows):
            if len(found) < limit and wanted(state.fact):
                found.append((yield from _whole(place, state)))
        if len(rows) < page:
            break
        last = rows[-1]
    return tuple(found)


def _row_of(place: LedgerPlace, fact: str | Fact | None) -> Flow[FactRow | None]:
    """Where a page goes on: also behind a fact that was erased meanwhile."""
    if fact is None:
        return None
    name = fact_name(place, "after", fact)
    if not fact_seq(name):
        raise InvalidContent(reason=f"a page goes on after a fact of the one before, not after {shown(name)}")
    where = ledger_where(place.ledger.stream)
    for row in (yield from effects.rows(FactRow, where | {"fact": fact_seq(name)}, None, 1)):
        return row
    return FactRow(
        tenant=place.ledger.tenant,
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


def search(place: LedgerPlace, query: str, /, *, within: Scopes = (), limit: int = 50) -> Flow[tuple[Known, ...]]:
    """The facts that hold now and fit a query best, the best first: full text, with keys and names counting for more."""
    return search_in(place.context, [place.ledger], place.writer.permissions, query, within, limit)


def search_in(
    context: Context,
    ledgers: Sequence[LedgerId],
    permissions: tuple[str, ...] | None,
    query: str,
    within: Scopes,
    limit: int,
) -> Flow[tuple[Known, ...]]:
    codec.checked_text("the query", query)
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    asked = Search(
        tenant=context.tenant,
        ledgers=tuple(codec.encode_stream_key(ledger.stream) for ledger in ledgers),
        words=relevance.query_terms(query),
        permissions=permissions,
        scopes=checked_scopes(within),
        now_us=context.clock.now_us(),
        limit=min(2 * limit, limits.READ_EVENTS),
    )
    if not asked.words or not asked.ledgers:
        return ()
    hits = yield from effects.search(asked)
    states = [state_of(row) for row, _ in hits]
    best: list[Known] = []
    for at, score in relevance.ranking(query, [state.fact for state in states])[:limit]:
        place = LedgerPlace(context, ledger_of(hits[at][0]), Writer(permissions=permissions))
        best.append(Known(fact=(yield from _whole(place, states[at])), ledger=place.ledger, score=score))
    return tuple(best)


def ledgers(
    context: Context,
    *,
    kind: Literal["user", "project", "organization", "session"] | None = None,
    after: LedgerRow | None = None,
    limit: int = 100,
) -> Flow[tuple[LedgerRow, ...]]:
    """The tenant's ledgers in order of their names; `after` is the last row of the page before."""
    where: dict[str, str | int] = {"tenant": context.tenant}
    if kind is not None:
        where["kind"] = one_of("kind", kind, ("user", "project", "organization", "session"))
    if after is not None and type(after) is not LedgerRow:
        raise InvalidContent(reason="a page goes on after the last row of the one before")
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    return (yield from effects.rows(LedgerRow, where, after, limit))


def own_ledger(scope: Scope) -> LedgerId:
    return LedgerId(scope.tenant, "session", scope.stream.key)


def ledgers_of(scope: Scope, state: SessionState) -> list[LedgerId]:
    """The ledgers that a session reads: its own, then those that it was opened with, in their order."""
    others = (LedgerId(scope.tenant, key[0], key[1:]) for key in state.ledgers)  # type: ignore[arg-type]
    return list(dict.fromkeys([own_ledger(scope), *others]))


class InUse(NamedTuple):
    """A ledger that was ever written to, its place among all that were asked for, and its last event."""

    place: int
    ledger: LedgerId
    version: int


def in_use(ledgers: Sequence[LedgerId]) -> Flow[list[InUse]]:
    """Those that were ever written to, in their order; mostly a session's own is not among them."""
    keys = [codec.encode_stream_key(each.stream) for each in ledgers]
    where: dict[str, str | int] = {"tenant": ledgers[0].tenant}
    rows = yield from effects.rows(LedgerRow, where, None, len(keys), among={"ledger": keys})
    versions = {row.ledger: row.version for row in rows}
    found = enumerate(zip(ledgers, keys, strict=True))
    return [InUse(at, each, versions[key]) for at, (each, key) in found if key in versions]


def checked_scopes(within: object) -> tuple[tuple[FactScope, str], ...]:
    """What may be looked into: what holds everywhere, and these."""
    if type(within) not in (list, tuple):
        raise InvalidContent(reason=f"within is a list of scopes with their ids, not {shown(within)}")
    scopes: list[tuple[FactScope, str]] = [("global", "")]
    for each in within:  # type: ignore[attr-defined]
        if type(each) not in (list, tuple) or len(each) != 2:
            raise InvalidContent(reason=f"{shown(each)} is no scope with its id: pass ('task', 'its id')")
        scopes.append(checked_home(*each))
    return tuple(dict.fromkeys(scopes))


def checked_home(scope: object, scope_id: object) -> tuple[FactScope, str]:
    """A scope with its id, which may be empty."""
    return one_of("scope", scope, FACT_SCOPES), name_or_none("scope_id", scope_id)  # type: ignore[return-value]


def name_or_none(what: str, value: object) -> str:
    """A name, or the empty text for none; who asks an object of anybody's whether it is empty gets any answer."""
    return "" if type(value) is str and not value else checked_name(what, value)


def one_of(what: str, value: object, known: Sequence[str]) -> str:
    if type(value) is str and value in known:
        return value
    raise InvalidContent(reason=f"the {what} {shown(value)} is not one of {', '.join(known)}")
