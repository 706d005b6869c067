"""What is known of a user at the start of a session: facts, what earlier conversations had come to, what was said last.

Laws: nothing of another user; at most the budget; never fatal. Nothing is copied into the session: each pack reads what
memory has now, so that what is forgotten or forbidden meanwhile is gone.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence

from holdfast.errors import HoldfastError
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, LedgerContext, SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.facts.queries import list_facts
from holdfast.flows.memory.recall import (
    build_filter,
    build_reader,
    build_recalled,
    call_memory,
    find_own_spans,
    fit_answer,
    leave_out_hidden,
    line_tokens,
)
from holdfast.model import limits
from holdfast.model.facts.fact import Fact
from holdfast.model.inputs import FactWriter
from holdfast.model.memory.passages import Passage, PassageKey, PassageKind, StreamSpan
from holdfast.model.memory.recall import MemoryAnswer, MemoryRange, MemoryReader, RecalledPassage, UserKnowledge
from holdfast.model.names import LedgerId, check_whole
from holdfast.model.state import SessionState
from holdfast.text.values import value_text

_REASONS: dict[PassageKind, str] = {
    "situation": "what an earlier conversation had come to",
    "message": "among the last things that the user said",
}


def bootstrap(engine: EngineContext, reader: MemoryReader, budget: int) -> Flow[UserKnowledge]:
    """What is known of a user, the most important first: facts take what they need, the rest goes to passages."""
    check_whole("budget", budget, 1, limits.RECALL_TOKENS)
    facts, used = yield from _choose_facts(engine, reader, budget)
    answer = yield from recall_start(engine, reader, budget - used)
    return UserKnowledge(
        user=reader.user,
        facts=facts,
        passages=answer.passages,
        tokens=used + answer.tokens,
        error=answer.error,
    )


def _choose_facts(engine: EngineContext, reader: MemoryReader, budget: int) -> Flow[tuple[tuple[Fact, ...], int]]:
    """The current facts of the user's ledger that fit: constraints first, then the newest."""
    authority = engine.policy.ladder.rungs[-1]
    writer = FactWriter(authority=authority, default=authority, permissions=reader.permissions)
    home = LedgerContext(engine, LedgerId(engine.tenant, "user", (reader.user,)), writer)
    facts = [fact for fact in (yield from list_facts(home, limit=limits.READ_EVENTS)) if not fact.is_claim]
    facts.sort(key=lambda fact: (not fact.is_constraint, -fact.at_us, fact.key))
    chosen: list[Fact] = []
    used = 0
    for fact in facts:
        tokens = engine.counter.count(f"- {fact.key}: {value_text(fact.value)}\n")
        if used + tokens <= budget:
            chosen.append(fact)
            used += tokens
    return tuple(chosen), used


def recall_start(
    engine: EngineContext,
    reader: MemoryReader,
    budget: int,
    exclude: Collection[PassageKey] = (),
    hidden: Sequence[StreamSpan] = (),
) -> Flow[MemoryAnswer]:
    """What earlier conversations had come to, newest first, then what the user said last, but nothing of `hidden`. A
    failure is in the answer."""
    nothing = MemoryAnswer(query="", budget=budget, passages=())
    if budget < 1 or not reader.user:
        return nothing
    if engine.memory is not None:
        ask = functools.partial(engine.memory.bootstrap, reader, budget)
        try:
            answer = fit_answer(engine, "", budget, (yield from call_memory(engine, "bootstrap", ask)))
            return leave_out_hidden(answer, hidden)
        except HoldfastError as error:
            return MemoryAnswer(query="", budget=budget, passages=(), engine=engine.memory.name, error=str(error))
    candidates = yield from _read_recent(engine, reader, hidden)
    chosen = _fit_passages(engine, (each for each in candidates if each.key not in exclude), budget)
    return MemoryAnswer(
        query="",
        budget=budget,
        passages=chosen,
        tokens=sum(each.tokens for each in chosen),
        candidates=len(candidates),
        left_out=len(candidates) - len(chosen),
    )


def _read_recent(engine: EngineContext, reader: MemoryReader, hidden: Sequence[StreamSpan]) -> Flow[Sequence[Passage]]:
    passages: list[Passage] = []
    for kind in ("situation", "message"):
        within = MemoryRange(roles=("user",)) if kind == "message" else MemoryRange()
        visible = build_filter(engine, reader, within, kinds=(kind,), hidden=tuple(hidden))
        recent = yield from effects.recent_passages(visible, limits.BOOTSTRAP_PASSAGES)
        passages += (each for each in recent if not each.frame)  # in a frame, an agent speaks to another one
    return passages


def _fit_passages(engine: EngineContext, passages: Iterable[Passage], budget: int) -> tuple[RecalledPassage, ...]:
    chosen: list[RecalledPassage] = []
    for passage in passages:
        tokens = line_tokens(engine, passage)
        if tokens <= budget:
            budget -= tokens
            chosen.append(build_recalled(passage, tokens, 0.0, _REASONS[passage.kind]))
    return tuple(chosen)


def bootstrap_for_pack(
    context: SessionContext,
    state: SessionState,
    budget: int,
    shown: Sequence[tuple[int, int]] = (),
    exclude: Collection[PassageKey] = (),
) -> Flow[MemoryAnswer]:
    """The same for a pack, without facts: those come from the ledgers of the session. A fork shares messages with a
    session that may have ended: those that are withdrawn or shown in the fork are left out."""
    own = yield from find_own_spans(context, state, shown)
    return (yield from recall_start(context.engine, build_reader(context, state), budget, exclude, own["hidden"]))
