"""Recall: the passages that help to answer a question, from the conversation itself and from long-term memory.

Laws:
- Who asks decides what can be seen: tenant, user, permissions, withdrawn messages and what is in view anyway are filtered
  before anything is ranked, counted or compared.
- The cost follows the number of candidates, not the size of the memory.
- The same index, question and time give the same answer.
- A memory of the caller that fails, or an embedder, is reported in the answer. It never stops the caller.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from holdfast import codec
from holdfast.core.memory.recalled import check_recalled
from holdfast.core.sessions.layers import check_identity
from holdfast.errors import EmbedderFailed, HoldfastError, InvalidArgument, MemoryFailed, describe_value
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, SessionContext, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.facts.changes import writer_for
from holdfast.flows.memory.guard import load_guarded_passages
from holdfast.flows.memory.index import index_conversation
from holdfast.flows.memory.vectors import embed_texts
from holdfast.model import limits
from holdfast.model.content import Role
from holdfast.model.history.ranges import SeqRanges
from holdfast.model.memory.passages import (
    Passage,
    PassageFilter,
    PassageKey,
    PassageMatches,
    PassageQuery,
    PassageTotals,
    StreamSpan,
    VectorQuery,
)
from holdfast.model.memory.recall import MemoryAnswer, MemoryRange, MemoryReader, RecalledPassage
from holdfast.model.names import DEFAULT_ACTOR, check_choice, check_name, check_size, check_whole
from holdfast.model.sessions.layers import Identity
from holdfast.model.state import SessionState
from holdfast.text.recall.choice import choose_passages
from holdfast.text.recall.question import RecallQuestion, parse_question
from holdfast.text.recall.scores import (
    HOP_PASSAGES,
    PassageScore,
    find_hop_terms,
    find_neighbours,
    score_passages,
)
from holdfast.text.recall.terms import passage_terms

T = TypeVar("T")

BUILT_IN = "holdfast"
"""The name of the built-in memory in answers."""
_SEARCH_TOKENS = 4_000
"""The passages among which the best handle is looked for."""
PACK_SHARE = 0.4
"""The least share of the best score that a passage must have for a pack: every call pays for what it shows. On long chats
this costs one point of recall at 2,000 tokens, and saves a quarter of the tokens."""
HEADING_TOKENS = 12
"""What the line with the date and the session takes, before the first passage of a session."""
_EMBEDDER_PAUSE_US = 30_000_000
"""How long an embedder that failed is left alone."""
_DAY_CANDIDATES = 150
"""Passages of the days that a question names, whatever their words."""
_VECTOR_CANDIDATES = 200
"""Passages that are compared by meaning for one question."""


class _SearchWidth(NamedTuple):
    """How many passages are looked at for a question."""

    matches: int
    """Those with its words, the best of the index first."""
    near_hits: int
    """The best of these, whose neighbours are looked at."""
    neighbours: int
    hop_passages: int
    """The best of these, whose words are searched for again."""
    hop_matches: int


_SMALL_MEMORY = 3_000
_WIDE = _SearchWidth(
    limits.RECALL_CANDIDATES, 60, limits.RECALL_NEIGHBOURS, HOP_PASSAGES, limits.RECALL_CANDIDATES // 4
)
_NARROW = _SearchWidth(140, 8, 120, 1, 40)
"""In a memory with more passages than _SMALL_MEMORY, fewer are ranked: half the time, for a point of recall at 2,000
tokens."""


class RecallRequest(NamedTuple):
    """A question to memory, checked."""

    query: str
    budget: int
    visible: PassageFilter
    reader: MemoryReader
    within: MemoryRange
    speaker: str = ""
    """The name of who asks, if it is known."""
    least_share: float = 0.0
    """The least share of the best score that a passage must have; 0 to fill the budget."""


def recall(engine: EngineContext, request: RecallRequest) -> Flow[MemoryAnswer]:
    """What memory has for a question. Raises MemoryFailed if a memory of the caller fails."""
    if engine.memory is not None:
        return (yield from _ask_memory(engine, request))
    return (yield from _ask_index(engine, request))


# The built-in memory


def _ask_index(engine: EngineContext, request: RecallRequest) -> Flow[MemoryAnswer]:
    ranked = yield from rank_passages(engine, request)
    least = request.least_share * ranked[0].score if ranked else 0.0
    good = [one for one in ranked if one.score >= least]
    chosen = choose_passages(
        good,
        request.budget,
        functools.partial(line_tokens, engine),
        heading=lambda _: HEADING_TOKENS,
        asks_assistant=_parse(engine, request, ()).asks_assistant,
    )
    recalled = tuple(
        build_recalled(one.passage, line_tokens(engine, one.passage), one.score, one.reason) for one in chosen
    )
    return MemoryAnswer(
        query=request.query,
        budget=request.budget,
        passages=recalled,
        tokens=sum(one.tokens for one in recalled),
        candidates=len(ranked),
        left_out=len(good) - len(recalled),
    )


def rank_passages(engine: EngineContext, request: RecallRequest) -> Flow[Sequence[PassageScore]]:
    """The visible passages that fit a question, best first.

    Candidates are those with its words, those of the days that it names, and those near it in meaning; then their
    neighbours, and what a second search finds with the words of the best ones."""
    visible = request.visible
    if not (visible.user or visible.spans):
        return ()
    asked = _parse(engine, request, ())
    matches = yield from _match(visible, asked.search_terms, limits.RECALL_CANDIDATES)
    width = _WIDE if matches.total <= _SMALL_MEMORY else _NARROW
    similar = yield from _match_meaning(engine, request, _parse(engine, request, matches.passages))
    dated = yield from _read_days(visible, asked)
    nearest = (passage for passage, _ in similar)
    pool = {each.key: each for each in (*matches.passages[: width.matches], *dated, *nearest)}
    similarities = {passage.key: cosine for passage, cosine in similar}
    question = _parse(engine, request, pool.values())
    counts, total = dict(matches.counts), max(matches.total, len(pool))
    ranked = score_passages(question, pool.values(), counts, total, similarities)
    pool |= yield from _read_neighbours(visible, ranked, width)
    best = dict.fromkeys(term for one in ranked[: width.hop_passages] for term in passage_terms(one.passage.text))
    counts |= (yield from _match(visible, [term for term in best if term not in counts], 0)).counts
    hop = find_hop_terms(question, ranked[: width.hop_passages], counts, total)
    second = yield from _match(visible, hop, width.hop_matches)
    pool |= {passage.key: passage for passage in second.passages}
    return score_passages(question, pool.values(), counts, total, similarities, hop)


def _read_days(visible: PassageFilter, question: RecallQuestion) -> Flow[list[Passage]]:
    """The passages of the days that a question names, whatever their words."""
    passages: list[Passage] = []
    for since_us, until_us in question.time_spans:
        since = since_us if visible.since_us is None else max(since_us, visible.since_us)
        until = until_us - 1 if visible.until_us is None else min(until_us - 1, visible.until_us)
        if since <= until:
            days = msgspec.structs.replace(visible, since_us=since, until_us=until)
            passages += yield from effects.recent_passages(days, _DAY_CANDIDATES)
    return passages


def _parse(engine: EngineContext, request: RecallRequest, passages: Iterable[Passage]) -> RecallQuestion:
    """The question, with the names of those who speak in these passages."""
    speakers = {passage.speaker for passage in passages} | {request.speaker}
    return parse_question(
        request.query[: limits.QUERY_CHARS],
        asked_us=engine.clock.now_us(),
        participants=tuple(sorted(speakers - {""})),
    )


def _match(visible: PassageFilter, terms: Sequence[str], limit: int) -> Flow[PassageMatches]:
    if not terms:
        return PassageMatches(passages=(), counts={}, total=0)
    query = PassageQuery(visible=visible, terms=tuple(terms)[: limits.SEARCH_WORDS], limit=limit)
    return (yield from effects.match_passages(query))


def _match_meaning(
    engine: EngineContext, request: RecallRequest, question: RecallQuestion
) -> Flow[tuple[tuple[Passage, float], ...]]:
    """The passages nearest in meaning. Without an embedder, or if it fails, there are none, and words alone decide."""
    embedder, text, now = engine.embedder, question.meaning, engine.clock.now_us()
    if embedder is None or not text.strip() or 0 < engine.cache.embedder_pause_us - now <= _EMBEDDER_PAUSE_US:
        return ()
    try:
        (vector,) = yield from embed_texts(embedder, [text], is_query=True)
    except EmbedderFailed:  # words serve instead, and the next questions do not wait for it
        engine.cache.embedder_pause_us = now + _EMBEDDER_PAUSE_US
        return ()
    query = VectorQuery(visible=request.visible, embedder=embedder.name, vector=vector, limit=_VECTOR_CANDIDATES)
    return (yield from effects.match_vectors(query))


def _read_neighbours(
    visible: PassageFilter, ranked: Sequence[PassageScore], width: _SearchWidth
) -> Flow[dict[PassageKey, Passage]]:
    """The passages beside the best ones."""
    spans = find_neighbours(ranked, width.near_hits)
    if not spans:
        return {}
    near = yield from effects.passages_at(visible, spans, width.neighbours)
    return {passage.key: passage for passage in near}


def line_tokens(engine: EngineContext, passage: Passage) -> int:
    return engine.counter.count(f"{passage.speaker or passage.role}: {passage.text}\n")


def build_recalled(passage: Passage, tokens: int, score: float, reason: str) -> RecalledPassage:
    return RecalledPassage(
        id=name_passage(passage),
        text=passage.text,
        score=score,
        reason=reason,
        kind=passage.kind,
        role=passage.role,
        speaker=passage.speaker,
        session=passage.scope.session,
        time_us=passage.time_us,
        tokens=tokens,
        stream=passage.scope.stream,
        seq=passage.seq,
        part=passage.part,
        handle=passage.handle,
        start=passage.start,
    )


def name_passage(passage: Passage) -> str:
    """The name of a passage in a manifest: its session, the seq of its message, and its part if there are several. Before
    them its actor, if it is not the usual one."""
    scope = passage.scope
    actor = "" if scope.actor == DEFAULT_ACTOR else f"@{_escape_name(scope.actor)}/"
    session = "/".join(map(_escape_name, filter(None, (scope.session, scope.thread))))
    part = f".{passage.part}" if passage.part else ""
    return f"{actor}{session}/m{passage.seq}{part}"


def _escape_name(name: str) -> str:
    """A name without slashes, and without a first `@`: no two scopes give the same."""
    name = name.replace("%", "%25").replace("/", "%2F")
    return f"%40{name[1:]}" if name.startswith("@") else name


# A memory of the caller


def _ask_memory(engine: EngineContext, request: RecallRequest) -> Flow[MemoryAnswer]:
    memory = engine.memory
    assert memory is not None, "the built-in memory is asked by _ask_index"
    ask = functools.partial(
        memory.recall, request.query, budget=request.budget, reader=request.reader, within=request.within
    )
    passages = yield from call_memory(engine, "recall", ask)
    return fit_answer(engine, request.query, request.budget, passages)


def call_memory(engine: EngineContext, operation: str, function: Callable[[], T]) -> Flow[T]:
    """Call a memory of the caller. Whatever it raises becomes MemoryFailed."""
    name = "" if engine.memory is None else engine.memory.name
    try:
        return (yield from effects.run_outside(function, timeout_s=limits.MEMORY_TIMEOUT_S))
    except Exception as error:
        raise MemoryFailed(memory=name, operation=operation, reason=_describe_error(error)) from error


def _describe_error(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def fit_answer(engine: EngineContext, query: str, budget: int, passages: object) -> MemoryAnswer:
    """The answer of a foreign memory, checked, and cut to its budget whatever it promised."""
    name = "" if engine.memory is None else engine.memory.name
    try:
        checked = check_recalled(passages)
    except Exception as error:
        raise MemoryFailed(memory=name, operation="recall", reason=_describe_error(error)) from error
    chosen: list[RecalledPassage] = []
    names: set[str] = set()
    used = 0
    for one in checked:
        tokens = engine.counter.count(f"{one.speaker or one.role}: {one.text}\n")
        if one.id not in names and one.text.strip() and used + tokens <= budget:
            names.add(one.id)
            chosen.append(msgspec.structs.replace(one, tokens=tokens))
            used += tokens
    return MemoryAnswer(
        query=query,
        budget=budget,
        passages=tuple(chosen),
        tokens=used,
        candidates=len(checked),
        left_out=len(checked) - len(chosen),
        engine=name,
    )


def leave_out_hidden(answer: MemoryAnswer, hidden: Sequence[StreamSpan]) -> MemoryAnswer:
    """The answer without passages of these events, as far as the memory says where its passages are from."""
    left = tuple(
        one
        for one in answer.passages
        if not any(span.stream == one.stream and span.first <= one.seq <= span.last for span in hidden)
    )
    tokens = sum(one.tokens for one in left)
    return msgspec.structs.replace(answer, passages=left, tokens=tokens, left_out=answer.candidates - len(left))


# Requests


def build_request(
    engine: EngineContext,
    query: object,
    budget: object,
    reader: MemoryReader,
    within: MemoryRange,
    **visible: Any,
) -> RecallRequest:
    """Check a question to the memory of a user."""
    text = codec.check_text("the query", query)
    if not text.strip():
        raise InvalidArgument(argument="query", reason="it is empty; say what to look for")
    return RecallRequest(
        query=text,
        budget=check_whole("budget", budget, 1, limits.RECALL_TOKENS),
        visible=build_filter(engine, reader, within, **visible),
        reader=reader,
        within=within,
    )


def build_filter(engine: EngineContext, reader: MemoryReader, within: MemoryRange, **visible: Any) -> PassageFilter:
    return PassageFilter(
        tenant=engine.tenant,
        user=reader.user,
        permissions=reader.permissions,
        roles=within.roles,
        sessions=within.sessions,
        since_us=within.since_us,
        until_us=within.until_us,
        **visible,
    )


def check_reader(engine: EngineContext, user: object, identity: Identity | None) -> MemoryReader:
    """Who asks for the memory of a user: an identity, or the program itself."""
    permissions = None if identity is None else writer_for(engine, check_identity(identity)).permissions
    return MemoryReader(tenant=engine.tenant, user=check_name("user", user), permissions=permissions)


def check_range(
    sessions: Sequence[str], since_us: int | None, until_us: int | None, roles: Sequence[Role]
) -> MemoryRange:
    for name, value in (("sessions", sessions), ("roles", roles)):
        if type(value) not in (list, tuple):
            raise InvalidArgument(argument=name, reason=f"{describe_value(value)} is not a list")
    if since_us is not None and until_us is not None and since_us > until_us:
        raise InvalidArgument(argument="until", reason="it is before `since`")
    check_size("the range", len(sessions), "sessions", "SEARCH_WORDS", "Name fewer.")
    return MemoryRange(
        sessions=tuple(check_name("session", each) for each in sessions),
        since_us=since_us,
        until_us=until_us,
        roles=tuple(check_choice("roles", each, get_args(Role)) for each in roles),
    )


def recall_for_program(
    engine: EngineContext, query: str, budget: int, reader: MemoryReader, within: MemoryRange
) -> Flow[MemoryAnswer]:
    """What long-term memory has for a question about a user, as it was said."""
    return (yield from recall(engine, build_request(engine, query, budget, reader, within)))


def count_passages(engine: EngineContext, reader: MemoryReader) -> Flow[PassageTotals]:
    return (yield from effects.passage_totals(build_filter(engine, reader, MemoryRange())))


def build_reader(context: SessionContext, state: SessionState) -> MemoryReader:
    """Who asks in a session: its user, with its permissions. Without a memory, nothing of the user is asked for."""
    user = state.identity.user_id if state.has_memory else ""
    return MemoryReader(
        tenant=context.scope.tenant, user=user, permissions=writer_for(context.engine, state.identity).permissions
    )


# In a session


def has_frames(state: SessionState) -> bool:
    """Whether the session has, or had, frames: their messages and handles are between those of the session."""
    return bool(state.frames or state.popped)


def find_own_spans(
    context: SessionContext, state: SessionState, shown: Iterable[tuple[int, int]]
) -> Flow[Mapping[str, tuple[StreamSpan, ...]]]:
    """Where the own conversation is, and what of it is hidden: withdrawn, or shown anyway. It is indexed first; without
    frames, not the newest messages if they are shown: as long as nothing has left the view, there is nothing to index."""
    runs = SeqRanges(shown).ranges
    upto = runs[-1][0] - 1 if runs and not has_frames(state) else state.version
    spans = yield from index_conversation(context.engine, context.scope, state, upto)
    ranges = SeqRanges((*runs, *(each for one in state.withdrawals for each in one.ranges))).ranges
    hidden = tuple(StreamSpan(span.stream, first, last) for span in spans for first, last in ranges)
    return {"spans": spans, "hidden": hidden}


def search_session(
    context: SessionContext, query: str, *, limit: int = 10, budget: int = 4_000
) -> Flow[tuple[RecalledPassage, ...]]:
    """The passages of this conversation that fit a query best, in view or not, tool results included."""
    check_whole("limit", limit, 1, limits.RECALL_CANDIDATES)
    state = yield from load_session(context)
    own = yield from find_own_spans(context, state, ())
    reader = msgspec.structs.replace(build_reader(context, state), user="")
    request = build_request(context.engine, query, budget, reader, MemoryRange(), **own)
    answer = yield from _ask_index(context.engine, request._replace(speaker=state.identity.user_name))
    shown = yield from load_guarded_passages(context, state, query, answer.passages[:limit])
    return tuple(msgspec.structs.replace(one.passage, text=one.text) for one in shown)


def search_events(
    context: SessionContext, state: SessionState, query: str, seqs: Collection[int]
) -> Flow[tuple[RecalledPassage, ...]]:
    """The passages of these events of the conversation that fit a query, best first, as they were recorded."""
    spans = yield from index_conversation(context.engine, context.scope, state)
    own = tuple(
        StreamSpan(span.stream, seq, seq) for span in spans for seq in sorted(seqs) if span.first <= seq <= span.last
    )
    reader = msgspec.structs.replace(build_reader(context, state), user="")
    request = build_request(context.engine, query, _SEARCH_TOKENS, reader, MemoryRange(), spans=own)
    return (yield from _ask_index(context.engine, request._replace(speaker=state.identity.user_name))).passages


def recall_for_pack(
    context: SessionContext,
    state: SessionState,
    query: str,
    budget: int,
    shown: Sequence[tuple[int, int]],
    within: MemoryRange = MemoryRange(),
) -> Flow[MemoryAnswer]:
    """What a pack can show beyond the view: of the own conversation, and of the user's memory if the session has one. A
    failure is in the answer."""
    nothing = MemoryAnswer(query=query, budget=budget, passages=())
    if not query.strip() or budget < 1:
        return nothing
    own = yield from find_own_spans(context, state, shown)
    reader = build_reader(context, state)
    engine = context.engine
    request = build_request(engine, query, budget, reader, within, **own)
    request = request._replace(speaker=state.identity.user_name, least_share=PACK_SHARE)
    if engine.memory is None:
        return (yield from _ask_index(engine, request))
    inside = yield from _ask_index(engine, request._replace(visible=msgspec.structs.replace(request.visible, user="")))
    if not reader.user or inside.tokens >= budget:
        return inside
    try:
        outside = yield from _ask_memory(engine, request._replace(budget=budget - inside.tokens))
        outside = leave_out_hidden(outside, own["hidden"])
    except HoldfastError as error:
        return msgspec.structs.replace(inside, error=str(error), engine=engine.memory.name)
    return MemoryAnswer(
        query=query,
        budget=budget,
        passages=(*inside.passages, *outside.passages),
        tokens=inside.tokens + outside.tokens,
        candidates=inside.candidates + outside.candidates,
        left_out=inside.left_out + outside.left_out,
        engine=outside.engine,
    )


def read_recalled(
    context: SessionContext, state: SessionState, scored: Sequence[tuple[PassageKey, float]]
) -> Flow[tuple[RecalledPassage, ...]]:
    """Passages that were recalled before, with their scores then; those that are gone, or may not be seen, are left out."""
    reader = build_reader(context, state)
    spans = tuple(StreamSpan(key.stream, key.seq, key.seq) for key, _ in scored)
    own = {
        context.scope.stream,
        *(each.stream for each in (yield from index_conversation(context.engine, context.scope, state))),
    }
    visible = build_filter(
        context.engine, reader, MemoryRange(), spans=tuple(span for span in spans if span.stream in own)
    )
    found = yield from effects.read_passages(visible, [key for key, _ in scored])
    passages = {passage.key: passage for passage in found}
    return tuple(
        build_recalled(passages[key], line_tokens(context.engine, passages[key]), score, "recalled before")
        for key, score in scored
        if key in passages
    )
