"""The candidates of a pack for its tail: facts, the working set, the environment, the situation, handles and frames.

Laws:
- What the reader may not know is no candidate. Reading changes nothing.
- What is looked at is bounded by named limits, not by how much there is.
- A handle is shown whole if it takes no more than its share of the budget, else by a preview that the manifest names. A
  Critical one is shown whole, or it is an error.
- All of it follows from the log up to the version of the pack.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from holdfast import codec
from holdfast.core.facts.authority import may_know, outranks
from holdfast.core.frames.stack import content_of, ending_of
from holdfast.core.history.levels import lighten
from holdfast.core.history.previews import PREVIEW_TOKEN_BYTES, count_shown_bytes, is_text, show_body
from holdfast.core.history.views import (
    Display,
    PartialPiece,
    ReadAmount,
    describe_shown_shares,
    piece_size,
    shown_share,
)
from holdfast.core.packs.assembly import PackCandidate
from holdfast.core.packs.candidates import (
    NO_RESULT,
    WITHDRAWN_NOTE,
    build_ancestry_candidates,
    build_child_candidates,
    build_finished_candidate,
    build_input_candidates,
    build_live_candidates,
    describe_dispute,
    describe_review,
    fact_value_line,
    format_fact,
    identify_line,
    is_binding_constraint,
    order_claims,
    rank_line,
)
from holdfast.core.sessions.layers import LOCATION, TIMEZONE, is_expired
from holdfast.errors import BlobNotFound, CriticalOverflow, HandleNotFound, InvalidArgument
from holdfast.flows import effects
from holdfast.flows.context import SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.facts.changes import writer_for
from holdfast.flows.facts.lookup import NEWEST, ledger_where, read_facts, state_of
from holdfast.flows.facts.queries import UsedLedger, find_used_ledgers, ledgers_of
from holdfast.flows.frames.frames import check_handle_id
from holdfast.flows.frames.lookup import decode_frame, decode_handle, read_event, session_filter
from holdfast.flows.history.handles import find_attachment_row, list_attachments, read_parts
from holdfast.flows.history.views import build_displayer, read_start
from holdfast.flows.sessions.transcript import read_message_piece
from holdfast.model import limits
from holdfast.model.content import Body, Part, text_of
from holdfast.model.facts.fact import Fact, FactQuery, FactState, is_withdrawal_label
from holdfast.model.frames.events import FramePopped, FramePushed, FrameUpdated
from holdfast.model.history.handles import Handle, handle_seq, parse_piece_id
from holdfast.model.history.views import HistoryItem
from holdfast.model.names import LedgerId
from holdfast.model.packs.pack import Fate, PackRequest
from holdfast.model.rows import FactRow, FrameRow, RowOrder, ledger_of
from holdfast.model.sessions.layers import EnvironmentItem
from holdfast.model.sessions.messages import MessageGroup
from holdfast.model.situation.situations import SituationState
from holdfast.model.state import OpenProposal, SessionState
from holdfast.text import relevance
from holdfast.text.cache import TextCache
from holdfast.text.inference import is_labelled_invalid
from holdfast.text.lines import one_line
from holdfast.text.values import value_text

_NEWEST_FRAMES = RowOrder(backwards=True)
_EXCLUDED = "excluded by the request"
_TOKEN_COUNTS: TextCache[int] = TextCache(8 << 20)
"""The tokens of texts, by the counter's name: most of a pack was in the one before."""
_ENTRY_BYTES = 128
_CACHED_CHARS = 4_096
"""Longer texts are counted each time."""


class PackLedgers(NamedTuple):
    """The ledgers that a pack reads, in the order of their precedence, and what its reader may know."""

    used: tuple[UsedLedger, ...]
    permissions: tuple[str, ...] | None

    @property
    def ids(self) -> tuple[LedgerId, ...]:
        return tuple(used.ledger for used in self.used)


class RankedFact(NamedTuple):
    """A fact to choose from."""

    ledger: int
    """The index of its ledger."""
    fact: Fact
    score: float
    omission: str = ""
    """Why it is left out; empty if it may be included."""
    fate: Fate = "omitted"
    """Its fate if there is an omission."""


def find_ledgers(context: SessionContext, state: SessionState) -> Flow[PackLedgers]:
    used = yield from find_used_ledgers(ledgers_of(context.scope, state))
    return PackLedgers(tuple(used), writer_for(context.engine, state.identity).permissions if used else None)


def count_tokens(context: SessionContext, text: str) -> int:
    """The tokens of a text that is likely to be counted again."""
    counter = context.engine.counter
    if len(text) > _CACHED_CHARS:
        return counter.count(text)
    name = f"{counter.name} {text}"
    tokens = _TOKEN_COUNTS.get(name)
    if tokens is None:
        tokens = counter.count(text)
        _TOKEN_COUNTS.put(name, tokens, _ENTRY_BYTES)
    return tokens


# Facts


def find_facts(
    context: SessionContext,
    ledgers: PackLedgers,
    request: PackRequest,
    stored: Sequence[tuple[int, str, float]] | None,
) -> Flow[list[RankedFact]]:
    """The facts to choose from, the best first: constraints, what fits the query, and the newest. With `stored`, those of a
    stored pack, with their scores then: an index may find others today."""
    if not ledgers.used:
        return []
    scores: dict[tuple[int, str], float] = {}
    if stored is not None:
        states, scores = yield from _read_stored(ledgers, stored)
    else:
        states = yield from _search_facts(context, ledgers, request)
    visible = {name: state.fact for name, state in states.items() if _is_visible(state.fact, ledgers, request)}
    if stored is None:  # only what the reader may know is ranked: the rest would show in the scores
        names = list(visible)
        scores = {names[at]: score for at, score in relevance.rank_facts(request.query, list(visible.values()))}
    pairs = [(at, fact) for (at, _), fact in visible.items()]
    omissions, claims = yield from _find_outranked(context, ledgers, pairs, request.as_of_us)
    facts = [
        RankedFact(name[0], claims.get(name, visible[name]), score, omissions.get(name, ""))
        for name, score in scores.items()
        if name in visible
    ]
    return facts + (_find_withheld(states, ledgers) if request.audit else [])


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
    states: dict[tuple[int, str], FactState] = {}
    ids = ledgers.ids
    for at, where in _fact_queries(ledgers, request):
        page = yield from _read_query(where | {"constrains": 1}, ledgers, request, request.effective)
        states |= {(at, state.fact.id): state for state in page}
    query = FactQuery(
        tenant=context.engine.tenant,
        ledgers=tuple(codec.encode_stream_key(ledger.stream) for ledger in ids),
        words=relevance.query_terms(request.query),
        permissions=ledgers.permissions,
        scopes=(("global", ""), *request.within),
        now_us=request.as_of_us,
        limit=limits.PACK_FACTS,
    )
    if query.words:
        for row, _ in (yield from effects.search(query)):
            state = state_of(row)
            states.setdefault((ids.index(ledger_of(row)), state.fact.id), state)
    for at, where in _fact_queries(ledgers, request):
        for state in (yield from _read_query(where, ledgers, request, limits.PACK_FACTS, limits.PACK_PAGES)):
            states.setdefault((at, state.fact.id), state)
    return states


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


def _find_outranked(
    context: SessionContext, ledgers: PackLedgers, facts: Sequence[tuple[int, Fact]], now_us: int
) -> Flow[tuple[dict[tuple[int, str], str], dict[tuple[int, str], Fact]]]:
    """The facts that a fact of another ledger outranks, with the reason: authority decides, then the order of the ledgers.
    A fact of the session's own conversation is shown as a claim against it instead."""
    if len(ledgers.ids) < 2:
        return {}, {}
    ladder = context.engine.policy.ladder
    subjects = list(dict.fromkeys(fact.key for _, fact in facts))
    best: dict[tuple[str, str, str], tuple[int, Fact]] = {}
    for at, ledger in enumerate(ledgers.ids):
        where = ledger_where(ledger.stream) | {"live": 1}
        for fact in (state.fact for state in (yield from _read_subjects(where, subjects, limits.READ_EVENTS))):
            if not fact.is_current_at(now_us) or not may_know(fact.requires, ledgers.permissions):
                continue
            slot = fact.key, fact.scope, fact.scope_id
            if slot not in best or outranks(ladder, fact.authority, best[slot][1].authority):
                best[slot] = at, fact
    omissions: dict[tuple[int, str], str] = {}
    claims: dict[tuple[int, str], Fact] = {}
    for at, fact in facts:
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


def build_fact_candidates(
    context: SessionContext,
    ledgers: PackLedgers,
    facts: Sequence[RankedFact],
    request: PackRequest,
    items: Sequence[HistoryItem],
    proposals: Sequence[OpenProposal] = (),
) -> Flow[list[PackCandidate]]:
    """Constraints first, then by score, each claim behind the fact that it disputes. The fact of an open proposal is
    disputed."""
    if not facts:
        return []
    candidates: list[PackCandidate] = []
    irrelevant = _find_irrelevant(facts, request, items)
    open_proposals = {(one.ledger, one.proposal.fact): one for one in proposals if one.proposal.fact is not None}
    omits = "omit" in (context.engine.policy.review, request.profile.review)
    order = sorted(facts, key=lambda one: not is_binding_constraint(one.fact))
    for at in order_claims(one.fact for one in order):
        ranked = order[at]
        fact, ledger = ranked.fact, ledgers.ids[ranked.ledger]
        proposal = open_proposals.get((ledger.stream.key, fact.id))
        omission = ranked.omission
        review = (yield from _review_note(ledger, fact, ledgers, request)) if fact.review else ""
        if review and omits:
            omission = omission or "needs a review, since something that it rests on has changed"
        if request.profile.review == "omit" and is_labelled_invalid(fact.value):
            omission = omission or "says of itself that it is invalid"
        omission = omission or irrelevant.get((ranked.ledger, fact.id), "")
        note = review + describe_dispute(fact, None if proposal is None else proposal.proposal)
        score, recency = rank_line(fact, ranked.score, candidates[-1] if candidates else None)
        candidates.append(
            PackCandidate(
                id=_fact_name(fact, ledger, ledgers),
                section="facts",
                text="" if omission else lighten(format_fact(fact, request.as_of_us, note)),
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
    return candidates


def _fact_name(fact: Fact, ledger: LedgerId, ledgers: PackLedgers) -> str:
    """The name of a fact in a pack: with its ledger, if the pack reads several."""
    return fact.id if len(ledgers.used) == 1 else f"{fact.id}@{ledger}"


def _find_irrelevant(
    facts: Sequence[RankedFact], request: PackRequest, items: Sequence[HistoryItem]
) -> dict[tuple[int, str], str]:
    """The facts that do not fit the question; in a relevant history, neither the question nor the conversation."""
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


def build_past_candidates(ledgers: PackLedgers, request: PackRequest, keys: Sequence[str]) -> Flow[list[PackCandidate]]:
    """The earlier values of the keys that a question about the past names, marked as such."""
    candidates: list[PackCandidate] = []
    for ledger in ledgers.ids if keys else ():
        where = ledger_where(ledger.stream) | {"live": 0}
        for fact in (state.fact for state in (yield from _read_subjects(where, sorted(keys), limits.PAST_FACTS))):
            if fact.is_claim or not _is_in_scope(fact, request) or not may_know(fact.requires, ledgers.permissions):
                continue
            end = "" if fact.ended_us is None else f", until {_format_time(fact.ended_us, 'UTC')}"
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


# Working set, environment and situation


def build_working_candidates(state: SessionState, request: PackRequest) -> list[PackCandidate]:
    items = [(name, item) for name, item in sorted(state.working.items()) if not is_expired(item, request.as_of_us)]
    if not items:
        return []
    score_of = _build_scorer(request.query)
    candidates: list[PackCandidate] = []
    for name, item in items:
        score = score_of(f"{name} {value_text(item.value)}")
        candidates.append(
            PackCandidate(
                id=name,
                section="working_set",
                text=f"- {name}: {fact_value_line(item.value)}",
                label=len(f"- {name}: "),
                score=score,
                recency=item.at_us,
                origin=item.seq,
                source="working set",
                omission="" if score >= request.profile.least_score else f"does not fit the question ({score:.2f})",
            )
        )
    return candidates


def build_environment_candidates(state: SessionState, request: PackRequest) -> list[PackCandidate]:
    """The time, unless the request leaves it out, and the observations that have not expired."""
    items = {name: item for name, item in sorted(state.environment.items()) if not is_expired(item, request.as_of_us)}
    zone = items.pop(TIMEZONE, None)
    clock = "time"
    while clock in items:  # an observation has this name
        clock = f"the {clock}"
    time = PackCandidate(
        id=clock,
        section="environment",
        text=f"- time: {_format_time(request.as_of_us, 'UTC' if zone is None else str(zone.value))}",
        priority="high",
        recency=request.as_of_us,
        source="clock",
    )
    candidates = [time] if request.time else []
    newer = _find_newer_observations(items, request)
    for name, item in items.items():
        candidates.append(
            PackCandidate(
                id=name,
                section="environment",
                text=f"- {name}: {fact_value_line(item.value)} (observed {_format_time(item.observed_us, 'UTC')})",
                label=len(f"- {name}: "),
                priority="high" if name == LOCATION else "medium",
                recency=item.observed_us,
                origin=item.seq,
                source="environment",
                omission=f"a newer observation ({newer[name]}) is about the same thing" if name in newer else "",
            )
        )
    return candidates


def _find_newer_observations(items: Mapping[str, EnvironmentItem], request: PackRequest) -> dict[str, str]:
    """The newer observations of the same things, if only what is relevant is shown."""
    if request.profile.history != "relevant":
        return {}
    from holdfast.text.selection import find_newer  # noqa: PLC0415 - a good part of the time of an import

    names = [*items]
    newer = find_newer([(fact_value_line(items[name].value), items[name].observed_us) for name in names])
    return {name: names[at] for name, at in zip(names, newer, strict=True) if at is not None}


def _format_time(time_us: int, zone: str) -> str:
    try:
        at = datetime.fromtimestamp(time_us / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_us // 1_000_000:,} seconds after 1970"  # beyond the calendar
    try:
        at = at if zone == "UTC" else at.astimezone(ZoneInfo(zone))
    except (LookupError, ValueError, OverflowError, OSError):
        zone = "UTC"  # this machine does not know it
    return f"{at:%a %Y-%m-%d %H:%M} {zone}"


def _build_scorer(query: str) -> Callable[[str], float]:
    """Scores texts by the share of the words of the query that they have, from 0 to 1."""
    return functools.partial(relevance.matched_share, relevance.parse_query(query))


def build_situation_candidates(situation: SituationState) -> list[PackCandidate]:
    return [
        PackCandidate(
            id=name,
            section="situation",
            text=f"- {name}: {one_line(field.text)}",
            label=len(f"- {name}: "),
            priority="high",
            recency=-number,
            origin=field.seq,
            source="situation",
        )
        for number, (name, field) in enumerate(situation.fields.items())
    ]


# Handles


def build_handle_candidates(
    context: SessionContext, request: PackRequest, find_answered: Callable[[], frozenset[str]], display: Display
) -> Flow[list[PackCandidate]]:
    """The handles of the frame, and those that the request names. Results that are in the history are left out:
    `find_answered` returns the calls that they answer."""
    handles = (yield from _find_reachable(context)) if context.frame is not None else []
    candidates: list[PackCandidate] = []
    if handles:
        score_of, in_view = _build_scorer(request.query), find_answered()
        scores = {handle.id: score_of(f"{handle.title} {handle.source or ''}") for handle in handles}
        for handle in sorted(handles, key=lambda one: (-one.score, -scores[one.id], -one.at)):
            candidates.append((yield from _show_handle(context, request, handle, scores[handle.id], in_view, display)))
    for name in request.include:
        if name in {handle.id for handle in handles}:
            continue
        at = handle_seq(name) or (parse_piece_id(name) or (0,))[0]
        candidate = PackCandidate(id=name, section="handles", text="", source=name, wanted=True, at=at, origin=at)
        if name in request.exclude:
            candidates.append(replace(candidate, omission=_EXCLUDED))
            continue
        row = yield from find_attachment_row(context, handle_seq(name))
        added = None if row is None else decode_handle(row)
        if added is not None:
            candidate = replace(candidate, priority=added.priority)
        result = added if added is not None and added.kind == "sub_agent_join" else None
        candidates.append((yield from _read_candidate(context, name, candidate, display, result)))
    return candidates


def _show_handle(
    context: SessionContext,
    request: PackRequest,
    handle: Handle,
    score: float,
    in_view: frozenset[str],
    display: Display,
) -> Flow[PackCandidate]:
    """A handle of the frame as a candidate: with its text, or with the reason why it is left out."""
    is_requested = handle.id in request.include
    candidate = _handle_candidate(handle, score, is_requested)
    omission = "" if is_requested else _omission_reason(handle, score, in_view, request)
    if handle.id in request.exclude:
        if handle.priority == "critical" and not request.force:
            reason = f"{handle.id} is Critical. To exclude it, pass force=True"
            raise InvalidArgument(argument="exclude", reason=reason)
        omission = _EXCLUDED
    if omission:
        return replace(candidate, omission=omission)
    tokens = _estimate_tokens(context, handle, request)
    if tokens > request.effective and not is_requested and handle.priority != "critical":
        omission = f"does not fit: {tokens:,} tokens, {handle.priority} priority"
        return replace(candidate, omission=omission, too_large=True)
    return (yield from _read_candidate(context, handle.id, candidate, display, handle))


def _estimate_tokens(context: SessionContext, handle: Handle, request: PackRequest) -> int:
    """About the tokens of a handle in the pack: all of it, or a preview, if it takes more than its share."""
    spooling = context.engine.spooling
    if handle.priority == "critical" or handle.tokens <= request.effective * spooling.result_share:
        return handle.tokens
    return min(handle.tokens, spooling.preview_bytes(request.effective) // PREVIEW_TOKEN_BYTES)


def _find_reachable(context: SessionContext) -> Flow[list[Handle]]:
    """The newest handles of a frame; of the older ones, those that are Critical."""
    page, most = (yield from list_attachments(context, limit=limits.PACK_HANDLES)), limits.PACK_HANDLES
    reachable = [*page]
    while len(page) == most:
        most = limits.READ_EVENTS
        page = yield from list_attachments(context, before=page[0].id, limit=most)
        reachable += (handle for handle in page if handle.priority == "critical")
    return reachable


def _handle_candidate(handle: Handle, score: float, wanted: bool) -> PackCandidate:
    title = one_line(handle.title)  # written by anyone: kept on one line
    source = " ".join(filter(None, (handle.kind, f'"{title}"' if title else "", handle.source or "")))
    return PackCandidate(
        id=handle.id,
        section="handles",
        text="",
        priority=handle.priority,
        score=score,
        recency=handle.at,
        source=source,
        at=handle.at,
        origin=handle.at,
        wanted=wanted,
    )


def _omission_reason(handle: Handle, score: float, in_view: frozenset[str], request: PackRequest) -> str:
    if handle.priority == "critical":
        return ""
    if not handle.is_in_context:
        return f"{handle.residency}: read_handle reads it"
    if handle.source in in_view:
        return "is in the history"
    if score < request.profile.least_score:
        return f"does not fit the question ({score:.2f})"
    return ""


def _read_candidate(
    context: SessionContext, name: str, candidate: PackCandidate, display: Display, handle: Handle | None
) -> Flow[PackCandidate]:
    """The candidate with its text, quoted as data under its source. `handle` names the event of the content, if that is
    known."""
    partly: list[PartialPiece] = []
    texts: list[str] = []
    source, empty = candidate.source, ""
    try:
        parts, ending = yield from _read_parts(context, name, handle)
        if ending and handle is not None:
            source, empty = _describe_result(handle, ending), f" {NO_RESULT}"
        for part in parts:
            texts.append(
                (yield from _show_part(context, part, name, candidate.priority == "critical", display, partly))
            )
    except (HandleNotFound, BlobNotFound) as error:
        if candidate.priority == "critical":
            raise
        return replace(candidate, omission=str(error), fate="missing")
    lines = [f"> {line}" for text in texts for line in text.splitlines()]
    text = "\n".join([f"[{name}] {source}:", *(lines or [f">{empty}"])])
    note = describe_shown_shares(partly, display.readable) if partly else ""
    return replace(candidate, text=text, label=len(f"[{name}] "), share=shown_share(partly), share_note=note)


def _describe_result(handle: Handle, ending: str) -> str:
    title = one_line(handle.title)
    return " ".join(filter(None, ("Result of sub-task", handle.source, f"'{title}'" if title else "", f"({ending})")))


def _read_parts(context: SessionContext, name: str, handle: Handle | None) -> Flow[tuple[Sequence[Part], str]]:
    """The content of a handle, and how the child frame ended that it is the result of; empty for another handle."""
    if handle is not None:
        event = yield from read_event(context.scope.stream, handle.at)
        return content_of(event), ending_of(event)
    piece = parse_piece_id(name)
    if piece is not None:
        _, parts, _ = yield from read_message_piece(context.scope, *piece)
        return parts, ""
    return (yield from read_parts(context, check_handle_id(name))), ""


def _show_part(
    context: SessionContext, part: Part, name: str, critical: bool, display: Display, partly: list[PartialPiece]
) -> Flow[str]:
    """A part as it is shown. A body that is shown in part is added to `partly`."""
    if not isinstance(part, Body):
        return text_of([part])
    presenter = build_displayer(context, display)
    if critical and is_text(part.ref):
        _check_critical_size(part, display)
        amount: ReadAmount | None = ReadAmount(part.ref, part.ref.size, True)
    else:
        amount = presenter.amount(part, context.engine.spooling.result_share)
    shown: Part = part
    if amount is not None:
        start = yield from read_start(context.engine, amount.ref, amount.size)
        shown, _ = presenter.part(part, start, amount.whole, name, "text")
    if not isinstance(shown, Body):
        return text_of([shown])
    partly.append(PartialPiece(name, count_shown_bytes(shown), piece_size([part])))
    return show_body(shown, name, "text", readable=display.readable)


def _check_critical_size(body: Body, display: Display) -> None:
    """What is Critical is shown whole, or it is an error: it is not read if it cannot fit."""
    budget = display.budget or 0
    if body.whole_tokens > budget or body.ref.size > limits.WHOLE_BYTES:
        raise CriticalOverflow(needed=max(body.whole_tokens, budget + 1), budget=budget)


# Frames


def build_frame_candidates(
    context: SessionContext, state: SessionState, request: PackRequest
) -> Flow[list[PackCandidate]]:
    """To a frame: the frames above it, its inputs and its live children. To a session: its live frames, and the results
    of finished ones."""
    if context.frame is None and not state.frames and state.popped <= state.start:
        return []
    count, budget = functools.partial(count_tokens, context), request.effective
    if context.frame is None:
        return [
            *(yield from _build_finished_candidates(context, state, budget)),
            *build_live_candidates(state.frames, budget, count),
        ]
    frame = state.frames[context.frame]
    source = yield from read_event(context.scope.stream, frame.inputs_at)
    inputs = source.inputs if isinstance(source, FramePushed | FrameUpdated) else None
    return [
        *build_ancestry_candidates(state.frames, frame.id),
        *build_input_candidates(frame, inputs, budget, count),
        *build_child_candidates(state.frames, frame.id, budget, count),
    ]


def _build_finished_candidates(context: SessionContext, state: SessionState, budget: int) -> Flow[list[PackCandidate]]:
    """The results of the root frames that ended last since the last reset, oldest first; of the newest roots only."""
    if state.popped <= state.start:
        return []
    where = session_filter(context.scope) | {"parent": 0}
    rows = yield from effects.rows(FrameRow, where, None, limits.PACK_ROOTS, order=_NEWEST_FRAMES)
    roots = [decode_frame(row) for row in rows if row.ended is not None]
    ended = [root for root in roots if state.start < root.touched <= state.version]
    ended.sort(key=lambda root: root.touched)
    candidates: list[PackCandidate] = []
    for frame in ended[-limits.PACK_FINISHED :]:
        event = yield from read_event(context.scope.stream, frame.touched)
        if isinstance(event, FramePopped) and event.frame == frame.id:
            candidates.append(build_finished_candidate(frame, event, budget))
    return candidates
