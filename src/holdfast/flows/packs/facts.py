"""The facts of a pack: which ones it chooses from, and their lines.

Laws:
- What the reader may not know is no candidate, and ranks nothing.
- What is looked at is bounded by named limits, not by how much there is.
- What the last pack of the conversation read is not read again while its ledgers are the same. The result is the same as
  without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from holdfast import codec
from holdfast.core.facts.authority import may_know, outranks
from holdfast.core.history.levels import lighten
from holdfast.core.packs.assembly import PackCandidate
from holdfast.core.packs.candidates import (
    WITHDRAWN_NOTE,
    describe_dispute,
    describe_review,
    fact_value_line,
    format_fact,
    identify_line,
    is_binding_constraint,
    order_claims,
    rank_line,
)
from holdfast.flows import effects
from holdfast.flows.context import SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.facts.changes import writer_for
from holdfast.flows.facts.lookup import NEWEST, ledger_where, read_facts, state_of
from holdfast.flows.facts.queries import find_used_ledgers, ledgers_of
from holdfast.flows.packs.candidates import count_tokens, format_time
from holdfast.flows.packs.memory import FactMaterial, FactPages, LastPack, PackLedgers, RankedFact, build_material
from holdfast.model import limits
from holdfast.model.facts.fact import Fact, FactQuery, FactState, is_withdrawal_label
from holdfast.model.history.views import HistoryItem
from holdfast.model.names import LedgerId
from holdfast.model.packs.pack import PackRequest
from holdfast.model.rows import FactRow
from holdfast.model.sessions.messages import MessageGroup
from holdfast.model.state import OpenProposal, SessionState
from holdfast.text import relevance
from holdfast.text.fence import remove_tag
from holdfast.text.inference import is_labelled_invalid


def find_ledgers(context: SessionContext, state: SessionState) -> Flow[PackLedgers]:
    used = yield from find_used_ledgers(ledgers_of(context.scope, state))
    return PackLedgers(tuple(used), writer_for(context.engine, state.identity).permissions if used else None)


def load_fact_material(
    context: SessionContext,
    ledgers: PackLedgers,
    request: PackRequest,
    items: Sequence[HistoryItem],
    proposals: Sequence[OpenProposal],
    *,
    last: LastPack | None,
    stored: Sequence[tuple[int, str, float]] | None,
) -> Flow[FactMaterial]:
    """The facts to choose from, the best first, and their candidates. `last` is the last pack. With `stored`,
    the facts of a stored pack, with their scores then: an index may find others today."""
    if not ledgers.used:
        return FactMaterial()
    if stored is not None:
        states, scores = yield from _read_stored(ledgers, stored)
        facts, _ = yield from _choose_facts(context, ledgers, request, states, scores)
        candidates = yield from _build_candidates(context, ledgers, facts, request, items, proposals)
        return build_material(request.query, facts, candidates)
    before = None if last is None else last.material
    pages = yield from _load_pages(ledgers, request, None if before is None else before.pages)
    needs = (request.query, request.profile, request.audit, tuple(proposals))
    if before is not None and before.pages is pages and before.is_for(needs, request.as_of_us):
        return before
    matches = yield from _search_facts(context, ledgers, request)
    states = pages.constraints | matches | pages.newest
    facts, others = yield from _choose_facts(context, ledgers, request, states)
    known: dict[str, PackCandidate] = {}
    if before is not None and before.pages is pages and before.request[1:] == needs[1:]:
        known = {one.id: one for one in before.candidates if request.as_of_us < before.until_us}
    candidates = yield from _build_candidates(context, ledgers, facts, request, items, proposals, known)
    until_us = 0
    if request.profile.history != "relevant" and not any(one.fact.review for one in facts):
        until_us = _find_change([*others, *(state.fact for state in states.values())], request.as_of_us)
    return build_material(request.query, facts, candidates, pages, needs, until_us)


def _load_pages(ledgers: PackLedgers, request: PackRequest, before: FactPages | None) -> Flow[FactPages]:
    """The constraints and the newest facts; those of the last pack, if they are the same."""
    needs, now_us = (request.within, request.effective), request.as_of_us
    if before is not None and before.is_for(ledgers, needs, now_us):
        return before
    constraints: dict[tuple[int, str], FactState] = {}
    newest: dict[tuple[int, str], FactState] = {}
    for at, where in _fact_queries(ledgers, request):
        page = yield from _read_query(where | {"constrains": 1}, ledgers, request, request.effective)
        constraints |= {(at, state.fact.id): state for state in page}
        page = yield from _read_query(where, ledgers, request, limits.PACK_FACTS, limits.PACK_PAGES)
        newest |= {(at, state.fact.id): state for state in page}
    facts = [state.fact for state in (*constraints.values(), *newest.values())]
    return FactPages(ledgers, needs, now_us, _find_change(facts, now_us), constraints, newest)


def _find_change(facts: Iterable[Fact], now_us: int) -> int:
    """When the first of these facts expires or becomes valid."""
    times = (time_us for fact in facts for time_us in (fact.expires_us, fact.valid_from_us))
    return min((time_us for time_us in times if time_us is not None and time_us > now_us), default=limits.WHOLE_NUMBER)


def _choose_facts(
    context: SessionContext,
    ledgers: PackLedgers,
    request: PackRequest,
    states: Mapping[tuple[int, str], FactState],
    scores: Mapping[tuple[int, str], float] | None = None,
) -> Flow[tuple[tuple[RankedFact, ...], Sequence[Fact]]]:
    """The facts that the reader may know, the best first; and the facts of other ledgers that they were compared with."""
    visible = {name: state.fact for name, state in states.items() if _is_visible(state.fact, ledgers, request)}
    if scores is None:  # only what the reader may know is ranked: the rest would show in the scores
        names = list(visible)
        scores = {names[at]: score for at, score in relevance.rank_facts(request.query, list(visible.values()))}
    rivals = yield from _read_rivals(ledgers, list(visible.values()))
    omissions, claims = _find_outranked(context, ledgers, visible, rivals, request.as_of_us)
    facts = tuple(
        RankedFact(name[0], claims.get(name, visible[name]), score, omissions.get(name, ""))
        for name, score in scores.items()
        if name in visible
    )
    withheld = _find_withheld(states, ledgers) if request.audit else ()
    return (*facts, *withheld), [fact for _, fact in rivals]


def _find_withheld(states: Mapping[tuple[int, str], FactState], ledgers: PackLedgers) -> list[RankedFact]:
    """The facts that the reader may not know, for a manifest that they are not shown."""
    return [
        RankedFact(at, state.fact, 0.0, f"takes the permission {', '.join(state.fact.requires)}", "withheld")
        for (at, _), state in states.items()
        if state.fact.is_valid and not may_know(state.fact.requires, ledgers.permissions)
    ]


def _search_facts(
    context: SessionContext, ledgers: PackLedgers, request: PackRequest
) -> Flow[dict[tuple[int, str], FactState]]:
    """The facts that match the query."""
    indexes = {codec.encode_stream_key(ledger.stream): at for at, ledger in enumerate(ledgers.ids)}
    query = FactQuery(
        tenant=context.engine.tenant,
        ledgers=tuple(indexes),
        words=relevance.query_terms(request.query),
        permissions=ledgers.permissions,
        scopes=(("global", ""), *request.within),
        now_us=request.as_of_us,
        limit=limits.PACK_FACTS,
    )
    if not query.words:
        return {}
    states = ((indexes[row.ledger], state_of(row)) for row, _ in (yield from effects.search(query)))
    return {(at, state.fact.id): state for at, state in states}


def _fact_queries(ledgers: PackLedgers, request: PackRequest) -> Iterator[tuple[int, dict[str, str | int]]]:
    """The queries for live facts: by ledger, then by scope of the request."""
    for at, name in enumerate(ledgers.ids):
        for scope, scope_id in (("global", ""), *request.within):
            yield at, {**ledger_where(name.stream), "live": 1, "scope": scope, "scope_id": scope_id}


def _read_query(
    where: Mapping[str, str | int], ledgers: PackLedgers, request: PackRequest, most: int, pages: int | None = None
) -> Flow[list[FactState]]:
    """The newest facts until `most` of them may be shown, with those in between that may not. Each constraint takes a
    token at least, so constraints beyond the budget are not read: they are too many anyway."""
    states: list[FactState] = []
    last: FactRow | None = None
    while most > 0 and (pages is None or pages > 0):
        rows = yield from effects.rows(FactRow, where, last, limits.PACK_FACTS, order=NEWEST)
        page = [*map(state_of, rows)]
        states += page
        most -= sum(_is_visible(state.fact, ledgers, request) for state in page)
        if len(rows) < limits.PACK_FACTS:
            break
        last, pages = rows[-1], None if pages is None else pages - 1
    return states


def _read_stored(
    ledgers: PackLedgers, stored: Sequence[tuple[int, str, float]]
) -> Flow[tuple[dict[tuple[int, str], FactState], dict[tuple[int, str], float]]]:
    states: dict[tuple[int, str], FactState] = {}
    by_ledger: dict[int, list[str]] = {}
    for at, fact, _ in stored:
        by_ledger.setdefault(at, []).append(fact)
    for at, ids in by_ledger.items():
        page = yield from read_facts(ledgers.ids[at].stream, ids)
        states |= {(at, fact): state for fact, state in page.items()}
    scores = {(at, fact): score for at, fact, score in stored}
    return {name: states[name] for name in scores if name in states}, scores


def _is_visible(fact: Fact, ledgers: PackLedgers, request: PackRequest) -> bool:
    is_valid = fact.is_valid and not fact.has_expired(request.as_of_us)
    return is_valid and _is_in_scope(fact, request) and may_know(fact.requires, ledgers.permissions)


def _is_in_scope(fact: Fact, request: PackRequest) -> bool:
    return fact.scope == "global" or (fact.scope, fact.scope_id) in request.within


def _read_rivals(ledgers: PackLedgers, facts: Sequence[Fact]) -> Flow[list[tuple[int, Fact]]]:
    """The live facts of all ledgers with the keys of these facts, if there are several ledgers."""
    if len(ledgers.used) < 2:
        return []
    subjects = list(dict.fromkeys(fact.key for fact in facts))
    rivals: list[tuple[int, Fact]] = []
    for at, ledger in enumerate(ledgers.ids):
        where = ledger_where(ledger.stream) | {"live": 1}
        states = yield from _read_subjects(where, subjects, limits.READ_EVENTS)
        rivals += ((at, state.fact) for state in states)
    return rivals


def _find_outranked(
    context: SessionContext,
    ledgers: PackLedgers,
    facts: Mapping[tuple[int, str], Fact],
    rivals: Sequence[tuple[int, Fact]],
    now_us: int,
) -> tuple[dict[tuple[int, str], str], dict[tuple[int, str], Fact]]:
    """The facts that a fact of another ledger outranks, with the reason: authority decides, then the order of the ledgers.
    A fact of the session's own conversation is shown as a claim against it instead."""
    ladder = context.engine.policy.ladder
    best: dict[tuple[str, str, str], tuple[int, Fact]] = {}
    for at, fact in rivals:
        if not fact.is_current_at(now_us) or not may_know(fact.requires, ledgers.permissions):
            continue
        slot = fact.key, fact.scope, fact.scope_id
        if slot not in best or outranks(ladder, fact.authority, best[slot][1].authority):
            best[slot] = at, fact
    omissions: dict[tuple[int, str], str] = {}
    claims: dict[tuple[int, str], Fact] = {}
    for (at, _), fact in facts.items() if best else ():
        index, above = best.get((fact.key, fact.scope, fact.scope_id), (at, fact))
        if index == at or fact.is_claim:
            continue
        is_same = above.value == fact.value
        is_own = ledgers.ids[at].kind == "session" and fact.source.type == "conversation"
        if is_own and not is_same and outranks(ladder, above.authority, fact.authority):
            claims[at, fact.id] = replace(fact, against=f"{above.id}@{ledgers.ids[index]}")
        else:
            value = "the same" if is_same else "another value"
            omissions[at, fact.id] = f"{ledgers.ids[index]} holds {value}, by {above.authority}"
    return omissions, claims


def _read_subjects(where: Mapping[str, str | int], subjects: Sequence[str], limit: int) -> Flow[list[FactState]]:
    rows = yield from effects.rows(FactRow, where, None, limit, among={"subject": subjects}, order=NEWEST)
    return [state_of(row) for row in rows]


def _build_candidates(
    context: SessionContext,
    ledgers: PackLedgers,
    facts: Sequence[RankedFact],
    request: PackRequest,
    items: Sequence[HistoryItem],
    proposals: Sequence[OpenProposal],
    known: Mapping[str, PackCandidate] = MappingProxyType({}),
) -> Flow[tuple[PackCandidate, ...]]:
    """Constraints first, then by score, each claim behind the fact that it disputes. The fact of an open proposal is
    disputed. `known` are candidates of these facts for another query."""
    candidates: list[PackCandidate] = []
    irrelevant = _find_irrelevant(facts, request, items)
    open_proposals = {(one.ledger, one.proposal.fact): one for one in proposals if one.proposal.fact is not None}
    omits = "omit" in (context.engine.policy.review, request.profile.review)
    ids, keys = ledgers.ids, [ledger.stream.key for ledger in ledgers.ids]
    order = sorted(facts, key=lambda one: not is_binding_constraint(one.fact))
    for at in order_claims(one.fact for one in order):
        ranked = order[at]
        fact, ledger = ranked.fact, ids[ranked.ledger]
        name = _fact_name(fact, ledger, ledgers)
        like = known.get(name)
        if like is not None and not like.omission and not ranked.omission and not fact.is_claim and not irrelevant:
            candidates.append(like if like.score == ranked.score else replace(like, score=ranked.score))
            continue
        proposal = open_proposals.get((keys[ranked.ledger], fact.id)) if open_proposals else None
        omission = ranked.omission
        review = (yield from _review_note(ledger, fact, ledgers, request)) if fact.review else ""
        if review and omits:
            omission = omission or "needs a review, since something that it rests on has changed"
        if request.profile.review == "omit" and is_labelled_invalid(fact.value):
            omission = omission or "says of itself that it is invalid"
        omission = omission or irrelevant.get((ranked.ledger, fact.id), "")
        note = review + describe_dispute(fact, None if proposal is None else proposal.proposal)
        text = "" if omission else lighten(remove_tag(format_fact(fact, request.as_of_us, note)))
        score, recency = rank_line(fact, ranked.score, candidates[-1] if candidates else None)
        candidates.append(
            PackCandidate(
                id=name,
                section="facts",
                text=text,
                tokens=0 if omission else count_tokens(context, text),
                priority="critical" if is_binding_constraint(fact) else "medium",
                score=score,
                recency=recency,
                source=_describe_source(fact, ledger),
                authority=fact.authority,
                omission=omission,
                fate=ranked.fate,
                digest_source=identify_line(fact, proposal),
            )
        )
    return tuple(candidates)


def _fact_name(fact: Fact, ledger: LedgerId, ledgers: PackLedgers) -> str:
    """The name of a fact in a pack: with its ledger, if the pack reads several."""
    return fact.id if len(ledgers.used) == 1 else f"{fact.id}@{ledger}"


def _find_irrelevant(
    facts: Sequence[RankedFact], request: PackRequest, items: Sequence[HistoryItem]
) -> dict[tuple[int, str], str]:
    """The facts that do not fit the question; in a relevant history, neither the question nor the conversation."""
    if request.profile.history != "relevant" and request.profile.least_score <= 0:
        return {}
    eligible = [one for one in facts if not one.omission and not is_binding_constraint(one.fact)]
    if request.profile.history == "relevant":
        from holdfast.text.selection import select_facts  # noqa: PLC0415 - a good part of the time of an import

        texts = [message.text for item in items if isinstance(item, MessageGroup) for message in item.messages]
        fits = [bool(why) for why in select_facts(request.query, [one.fact for one in eligible], texts)]
    else:
        fits = [one.score >= request.profile.least_score for one in eligible]
    return {
        (one.ledger, one.fact.id): f"does not fit the question ({one.score:.2f})"
        for one, fit in zip(eligible, fits, strict=True)
        if not fit
    }


def _describe_source(fact: Fact, ledger: LedgerId) -> str:
    author = fact.source.identity or fact.source.name or fact.source.type
    return f"{fact.key}, {ledger}, {author}"


def _review_note(ledger: LedgerId, fact: Fact, ledgers: PackLedgers, request: PackRequest) -> Flow[str]:
    """The note of a fact under review: which source ended, and the current value of that source."""
    if is_withdrawal_label(fact.review):
        return WITHDRAWN_NOTE
    source = (yield from read_facts(ledger.stream, [fact.review])).get(fact.review)
    if source is None or not may_know(source.fact.requires, ledgers.permissions):
        return describe_review(None, None)
    successor, current = source.fact.superseded_by, None
    if successor is not None:
        current = (yield from read_facts(ledger.stream, [successor])).get(successor)
    is_shown = current is not None and _is_visible(current.fact, ledgers, request)
    return describe_review(source.fact, current.fact if current is not None and is_shown else None)


def build_past_candidates(
    ledgers: PackLedgers, request: PackRequest, keys: Collection[str]
) -> Flow[list[PackCandidate]]:
    """The earlier values of the keys that a question about the past names, marked as such."""
    candidates: list[PackCandidate] = []
    for ledger in ledgers.ids if keys else ():
        where = ledger_where(ledger.stream) | {"live": 0}
        for fact in (state.fact for state in (yield from _read_subjects(where, sorted(keys), limits.PAST_FACTS))):
            if fact.is_claim or not _is_in_scope(fact, request) or not may_know(fact.requires, ledgers.permissions):
                continue
            end = "" if fact.ended_us is None else f", until {format_time(fact.ended_us, 'UTC')}"
            line = f"- earlier value of {fact.key}, no longer current{end}: {fact_value_line(fact.value)}"
            candidates.append(
                PackCandidate(
                    id=_fact_name(fact, ledger, ledgers),
                    section="notes",
                    text=lighten(line),
                    priority="high",
                    recency=fact.at_us,
                    source=_describe_source(fact, ledger),
                    authority=fact.authority,
                    digest_source=f"{fact.id} past",
                )
            )
    return candidates
