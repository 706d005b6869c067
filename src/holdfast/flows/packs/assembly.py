"""Build the pack of a model call.

Laws:
- Assembling changes nothing. If the history view has to change first (facts ended, a compaction pays, or not everything
  fits), that is a boundary event of its own, committed before.
- The cost follows the budget, not the length of the history.
- The same log, request and brief give the same bytes.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from holdfast.core.history.guard import GuardedItems, GuardInput, guard_items, guard_text
from holdfast.core.history.levels import KEEP_RECENT, StrategyArgument
from holdfast.core.history.outlines import is_outline
from holdfast.core.history.previews import is_text
from holdfast.core.history.views import (
    Display,
    PartialPiece,
    describe_shown_shares,
    find_stored_bodies,
    insert_system_messages,
    shown_share,
)
from holdfast.core.packs.assembly import (
    AssembledPack,
    PackCandidate,
    PackTail,
    PlacedItem,
    PrefixEntry,
    count_pack_tokens,
    critical_tail_tokens,
    encode_tools,
    fit_tail,
)
from holdfast.core.sessions.messages import calls_open_error
from holdfast.errors import Contended, CriticalOverflow, InvalidArgument, WindowTooSmall
from holdfast.flows.context import SessionContext
from holdfast.flows.effects import Flow, run_inside
from holdfast.flows.frames.budget import reserve as reserve_tokens
from holdfast.flows.frames.frames import FrameReference, build_not_live_error, resolve_conversation
from holdfast.flows.history import compaction
from holdfast.flows.history.compaction import ChosenStrategy, find_strategy
from holdfast.flows.history.guard import load_guard_input, record_redactions
from holdfast.flows.history.views import (
    build_late_note,
    read_body,
    read_late_results,
    read_system_messages,
    read_unguarded,
    with_steady_state,
)
from holdfast.flows.load import CachedView, load_session_state
from holdfast.flows.packs.candidates import (
    build_environment_candidates,
    build_frame_candidates,
    build_handle_candidates,
    build_situation_candidates,
    build_working_candidates,
    count_tokens,
)
from holdfast.flows.packs.facts import build_past_candidates, find_ledgers, load_fact_material
from holdfast.flows.packs.memory import FactMaterial, LastPack, PackLedgers
from holdfast.flows.packs.recall import PackRecall, load_recall, show_recall
from holdfast.flows.packs.request import (
    PackArguments,
    build_request,
    check_arguments,
    effective_budget,
    find_brief,
    max_answer_tokens,
)
from holdfast.model import limits
from holdfast.model.content import Text
from holdfast.model.frames.frames import FrameState, Reservation
from holdfast.model.history.handles import piece_id
from holdfast.model.history.plans import LEVELS, Faithful, Level, SummarizeOldest, TruncateAt
from holdfast.model.history.prices import find_prices
from holdfast.model.history.ranges import SeqRanges
from holdfast.model.history.views import SUMMARY_LABEL, HistoryItem, HistoryView, Summary
from holdfast.model.names import check_flag, check_size, check_whole
from holdfast.model.packs.pack import Brief, Manifest, PackRequest, PassageUse, Section, TokenSummary
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import SessionState
from holdfast.model.tools.tool import Tool
from holdfast.text.fence import CLOSING, OPENING, SEPARATOR, SYSTEM_OPENING, fence_texts, remove_tag
from holdfast.text.guard.finder import find_past_keys

if TYPE_CHECKING:
    from holdfast.render.pack import Pack

TASK_LABEL = "Task for this call:"
LATEST_LABEL = "The newest message of the user, which the summary above replaces:"
_RULES_LABEL = "Rules that always apply:"
_AUTHORITIES = {
    Identity().authority: "The user speaks with the authority of a peer (no special authority).",
    "": "The user's authority is unknown: treat it as the lowest.",
}
"""For a user without a role."""
_RESERVE_PURPOSE = "model call"
_TAIL_SHARE = 4
"""The history leaves one in so many tokens of the budget to the tail, if the tail is as long."""
_RECALL_ROOM = 2
"""And to recalled passages no more than one in so many of the tokens that are left for both."""
_MAX_SUMMARY_SHARE = 0.9999
"""The most that a summary can show of its messages: never all."""

_Measure = Callable[[int, int], int]


def pack(
    context: SessionContext,
    query: str | None = None,
    *,
    frame: FrameReference | FrameState | str | None = None,
    brief: Brief | None = None,
    strategy: StrategyArgument | None = None,
    settle: bool = True,
    reserve: int | None = None,
    **arguments: object,
) -> Flow[Pack]:
    """The context of the next model call. `arguments` are those of check_arguments()."""
    caller = context.frame
    if frame is not None:
        context = yield from resolve_conversation(context, frame)
    chosen = None if strategy is None else find_strategy(context.engine, strategy)
    checked = check_arguments(context, query, None if chosen is None else chosen.strategy, **arguments)  # type: ignore[arg-type]
    role_brief, may_write = find_brief(context, checked.request.role, brief), check_flag("settle", settle)
    _check_reserve(context, reserve)
    assembled = yield from with_steady_state(
        context, lambda state: _build_pack(context, state, checked, role_brief, chosen, may_write)
    )
    reservation = None if reserve is None else (yield from reserve_tokens(context, _RESERVE_PURPOSE, reserve))
    finished = yield from _finish_pack(context, assembled, role_brief, reservation)
    for owner in {caller, context.frame}:  # a reply that is recorded with the session is refused, not misplaced
        context.engine.cache.packs.put(context.scope.stream, owner, finished)
    return finished


def reproduce_pack(
    context: SessionContext, manifest: Manifest, brief: Brief, recall: PackRecall, *, is_traced: bool = False
) -> Flow[Pack]:
    """The pack of a manifest, built again from a log that ends where the log of the pack did, and from what memory found
    for it. With `is_traced`, it says where the guard changed the history."""
    request = manifest.request
    strategy = find_strategy(context.engine, request.strategy)
    stored = _StoredFindings(recall, manifest.candidates, is_traced)

    def build(state: SessionState) -> Flow[AssembledPack]:
        material = yield from _gather(context, state, request, brief, stored)
        return _assemble(context, state, material, strategy)

    assembled = yield from with_steady_state(context, build)
    return (yield from _finish_pack(context, assembled, brief, None))


def vary_pack(
    context: SessionContext, manifest: Manifest, brief: Brief, recall: PackRecall, arguments: PackArguments
) -> Flow[Pack]:
    """The pack of a manifest with other arguments, from the same log and the same passages. The history view may change
    first, as for any pack: so the log is a copy. The result is of the version of the manifest."""
    chosen = None if arguments.request.strategy is None else find_strategy(context.engine, arguments.request.strategy)
    is_same_query = arguments.query is None or arguments.query == manifest.request.query
    stored = _StoredFindings(recall, manifest.candidates if is_same_query else None)
    assembled = yield from with_steady_state(
        context, lambda state: _build_pack(context, state, arguments, brief, chosen, True, stored)
    )
    shown = msgspec.structs.replace(assembled.history, version=manifest.version)
    assembled = msgspec.structs.replace(assembled, version=manifest.version, history=shown)
    return (yield from _finish_pack(context, assembled, brief, None))


def _check_reserve(context: SessionContext, amount: object) -> None:
    if amount is None:
        return
    check_whole("reserve", amount)
    if context.frame is None:
        reason = "tokens are reserved from the budget of a frame: call pack() of the frame"
        raise InvalidArgument(argument="reserve", reason=reason)


def _build_pack(
    context: SessionContext,
    state: SessionState,
    arguments: PackArguments,
    brief: Brief,
    strategy: ChosenStrategy | None,
    may_write: bool,
    stored: _StoredFindings | None = None,
) -> Flow[AssembledPack]:
    for _ in range(limits.VIEW_TRIES):
        material = yield from _gather_consistent(context, state, arguments, brief, stored)
        changed = may_write and (yield from _update_view(context, state, material, strategy))
        if changed:
            state = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=True)
            material = yield from _gather_consistent(context, state, arguments, brief, stored)
        try:
            return _assemble(context, state, material, strategy)
        except WindowTooSmall as error:
            too_small, version = error, state.version
        if changed:
            continue  # others may have recorded more since
        state = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=True)
        if not may_write or state.version == version:
            break  # nobody has: another try gives the same
    raise too_small


def _finish_pack(
    context: SessionContext, assembled: AssembledPack, brief: Brief, reservation: Reservation | None
) -> Flow[Pack]:
    """The pack with the images, files and signed parts that a rendering shows."""
    # From the packages, not from their parts: of two threads that load a part and its package, one would fail.
    from holdfast.render import bodies_of  # noqa: PLC0415, I001 - a good part of the time of an import
    from holdfast.providers.fields import ISSUERS  # noqa: PLC0415 - the same
    from holdfast.render.pack import Pack  # noqa: PLC0415 - the same

    bodies: dict[str, bytes] = {}
    for issuer in ISSUERS if assembled.bodied else ():
        for ref in bodies_of(assembled.history, issuer):
            if ref.size <= limits.INLINE_BYTES and ref.digest not in bodies:
                bodies[ref.digest] = yield from read_body(context.engine, ref)
    most = max_answer_tokens(context, assembled.request)
    return Pack(assembled, brief=brief, bodies=bodies, max_output=most, reservation=reservation)


# Gathering the candidates


class _StoredFindings(NamedTuple):
    """What was found for a stored pack: an index and a memory may find other things today."""

    recall: PackRecall
    scores: Sequence[tuple[int, str, float]] | None = None
    """The facts, with their scores; None to search again."""
    is_traced: bool = False


class _PackMaterial(NamedTuple):
    request: PackRequest
    prefix: tuple[PrefixEntry, ...]
    system: tuple[Message, ...]
    later: tuple[Message, ...]
    """The system messages that are shown where they were recorded."""
    view: CachedView
    late: tuple[Message, ...]
    ledgers: PackLedgers
    fact_material: FactMaterial
    candidates: tuple[PackCandidate, ...]
    guard_input: GuardInput
    guarded: GuardedItems
    """The items as they may be shown."""
    passages: tuple[PassageUse, ...]
    """What memory found."""
    tools: tuple[Tool, ...]
    readable: bool
    """A tool that reads handles is offered."""
    hidden: SeqRanges
    """Where withdrawn messages are."""


def _gather_consistent(
    context: SessionContext,
    state: SessionState,
    arguments: PackArguments,
    brief: Brief,
    stored: _StoredFindings | None = None,
) -> Flow[_PackMaterial]:
    """The material of ledgers that did not change while it was gathered."""
    for _ in range(limits.VIEW_TRIES):
        material = yield from _gather(context, state, arguments, brief, stored)
        if not material.ledgers.used:
            return material
        if (yield from find_ledgers(context, state)) == material.ledgers:
            material.guard_input.memory.forget_before()
            last = LastPack(material.fact_material, material.guard_input.memory)
            context.engine.cache.last_packs.put(context.scope.stream, context.frame, last)
            return material
    at, stream = state.version, context.scope.stream
    raise Contended(stream=stream, expected=at, actual=at, tries=limits.VIEW_TRIES, limit_name="VIEW_TRIES")


def _gather(
    context: SessionContext,
    state: SessionState,
    arguments: PackArguments | PackRequest,
    brief: Brief,
    stored: _StoredFindings | None = None,
) -> Flow[_PackMaterial]:
    """`stored` is what was found for a stored pack."""
    if context.frame is not None and context.frame not in state.frames:
        raise (yield from build_not_live_error(context, context.frame))
    if isinstance(arguments, PackRequest):
        budget = arguments.effective
    else:
        budget = effective_budget(context, state, arguments.request)
    display = Display(budget, brief.reads_handles)
    view = yield from read_unguarded(context, state, display)
    items = view.shown
    _check_critical_bodies(view.recorded, budget)
    request = arguments
    if not isinstance(request, PackRequest):
        request = build_request(context, state, request, view, display)
    late = yield from read_late_results(context.scope.stream, state, context.frame)
    ledgers = yield from find_ledgers(context, state)
    cached = context.engine.cache.last_packs.get(context.scope.stream, context.frame) if ledgers.used else None
    scores = None if stored is None else stored.scores
    facts = yield from load_fact_material(context, ledgers, request, items, state.proposals, last=cached, stored=scores)
    recall = (yield from load_recall(context, state, request, view)) if stored is None else stored.recall
    tools = brief.offer_tools(has_memory=state.has_memory)
    head, later = yield from read_system_messages(context, state)
    system, prefix = _build_prefix(context, state, brief, tools, head)
    first = [
        *(_late_candidate(note, late[-1].seq) for note in build_late_note(late, items, display.readable)),
        *build_environment_candidates(state, request),
        *build_situation_candidates(state.standing(context.frame)),
        *facts.candidates,
        *build_working_candidates(state, request),
    ]
    last = [
        *(yield from build_handle_candidates(context, request, items, display)),
        *(yield from build_frame_candidates(context, state, request, items)),
    ]
    texts = [(one.origin, one.text) for one in (*first, *last) if one.origin and not one.omission]
    texts += ((0, one.text) for one in recall.passages)
    options = {"policy": request.guard, "within": request.within, "as_of_us": request.as_of_us, "used": ledgers.used}
    before = None if cached is None else cached.guard
    guard_input = yield from load_guard_input(context, state, items, texts, last=before, **options)  # type: ignore[arg-type]
    if stored is not None and stored.is_traced:
        guard_input = msgspec.structs.replace(guard_input, is_traced=True)
    guarded = guard_items(guard_input, items, context.engine.counter.count)
    recalled = yield from show_recall(context, state, request, recall, guard_input, readable=display.readable)
    in_view = dict.fromkeys(guard_input.endings[name].key for name in guarded.superseded)
    past_in_view = find_past_keys(request.query, in_view, () if facts.past_keys else in_view)
    past = yield from build_past_candidates(ledgers, request, facts.past_keys.union(past_in_view))
    return _PackMaterial(
        request,
        prefix,
        system,
        later,
        view,
        late,
        ledgers,
        facts,
        (*first, *recalled.candidates, *last, *past),
        guard_input,
        guarded,
        recalled.uses,
        tools,
        display.readable,
        state.hidden_ranges(context.frame),
    )


def _late_candidate(text: str, seq: int) -> PackCandidate:
    return PackCandidate(id="late results", section="notes", text=text, priority="high", source="evidence", origin=seq)


def _check_critical_bodies(items: Sequence[HistoryItem], budget: int) -> None:
    """A Critical text larger than any body that is shown whole makes a pack impossible."""
    for group, message, number, body in find_stored_bodies(items):
        if group.priority == "critical" and is_text(body.ref) and body.ref.size > limits.WHOLE_BYTES:
            if body.whole_tokens > budget:
                raise CriticalOverflow(needed=body.whole_tokens, budget=budget)
            check_size(piece_id(message.seq, number), body.ref.size, "bytes", "WHOLE_BYTES", "It is Critical.")


def _build_prefix(
    context: SessionContext, state: SessionState, brief: Brief, offered: Sequence[Tool], head: Sequence[Message]
) -> tuple[tuple[Message, ...], tuple[PrefixEntry, ...]]:
    measure = state.calibration.measure
    system: list[Message] = []
    prefix: list[PrefixEntry] = []

    def add(section: Section, name: str, text: str, source: str) -> None:
        if text.strip():
            tokens = count_tokens(context, text)
            system.append(
                Message(id=name, seq=0, role="system", content=(Text(text),), tokens=tokens, time_us=0, principal="")
            )
            prefix.append(PrefixEntry(section, name, text, measure(tokens, 1), source))

    add("system", "brief", "\n\n".join(filter(None, (brief.prompt, brief.working_context))), "brief")
    for message in head:
        system.append(message)
        tokens = measure(message.tokens, 1)
        prefix.append(PrefixEntry("system", f"m{message.seq}", message.text, tokens, "system message", message.seq))
    add("identity", "identity", _describe_identity(state.identity), "identity")
    rules = "\n".join(f"- {rule}" for rule in brief.invariants)
    add("invariants", "invariants", f"{_RULES_LABEL}\n{rules}" if rules else "", "brief")
    if offered:
        tools, count = encode_tools(offered), len(offered)
        source = f"{count} tool{'s' if count > 1 else ''}"
        prefix.append(PrefixEntry("tools", "tools", tools, measure(count_tokens(context, tools), 0), source))
    return tuple(system), tuple(prefix)


def _describe_identity(identity: Identity) -> str:
    """The user as the channel knows them; empty if it knows nothing of them. The authority is always stated, a role by the
    name that the program uses."""
    if identity == Identity(permissions=identity.permissions):
        return ""
    name = identity.user_name or identity.user_id
    group = ", ".join(filter(None, (identity.department, identity.organization)))
    user = f"The user is {name} ({group})." if name and group else f"The user is {name}." if name else ""
    if group and not name:
        user = f"The user is from {group}."
    authority = _AUTHORITIES.get(identity.authority)
    if authority is None:
        authority = f"The user speaks with the authority of their role: {identity.authority}."
    return f"{user} {authority}" if user else authority


# Updating the history view


def _update_view(
    context: SessionContext, state: SessionState, material: _PackMaterial, strategy: ChosenStrategy | None
) -> Flow[bool]:
    """Redact superseded values, apply the strategy, and compact if that pays or not everything fits. Whether anything
    changed."""
    waiting = [call for call in state.open_calls if call.frame == context.frame]
    if waiting:
        raise calls_open_error(
            context.scope, waiting, "the model is to see their results first: run them, or close them"
        )
    request, count = material.request, functools.partial(count_tokens, context)
    measure = state.calibration.measure
    fixed = sum(entry.tokens for entry in material.prefix) + _count_later(context, material.later, measure)
    fixed += _count_question(context, state, request) + _count_fence(context, state)
    least = critical_tail_tokens(material.candidates, count, measure)
    if fixed + least > request.effective:  # whatever becomes of the history
        raise CriticalOverflow(needed=fixed + least, budget=request.effective)
    changed = yield from record_redactions(context, state, material.guarded)
    candidates = [*_build_corrections(material), *material.candidates]
    tail, most = 0, request.effective // _TAIL_SHARE
    for candidate in candidates:
        if tail >= most:
            break
        if not candidate.omission and candidate.section != "recall":
            tail += measure(candidate.tokens or count(candidate.text), 0)
    pinned = sum(entry.tokens for entry in material.prefix if entry.at)
    pinned += sum(measure(message.tokens, 1) for message in material.later)
    before = fixed - pinned
    before += max(critical_tail_tokens(candidates, count, measure), min(tail, most))
    before += measure(count(SUMMARY_LABEL), 0)  # for a summary that a boundary may add
    history = _count_history(context, material, measure)
    model = request.model or None
    tokens = before + pinned + history
    due = _choose_strategy(request, strategy, fits=tokens <= request.effective)
    if tokens > request.effective:  # a boundary is due anyway: no other is made for recalled passages
        before += _count_recall(context, state, material, max(0, request.effective - before))
    if due is not None:
        start = min(before, request.effective)
        follow = compaction.follow_strategy(context, due, window=request.effective, model=model, before=start)
        plan = yield from run_inside(follow)
        if plan.at is not None:
            return True
    if not _may_need_compaction(context, state, request, tokens):
        return changed
    before += max(
        0, history - measure(material.view.tokens, material.view.blocks)
    )  # a plan counts no notes of the guard
    start = min(before, request.effective)
    plan = yield from run_inside(compaction.compact(context, window=request.effective, model=model, before=start))
    return changed or plan.at is not None


def _choose_strategy(request: PackRequest, strategy: ChosenStrategy | None, *, fits: bool) -> ChosenStrategy | None:
    """The strategy to apply now. One that keeps a number of messages applies always, another one if not everything fits;
    and so does the least compaction of the request."""
    if strategy is not None and (not fits or isinstance(strategy.strategy, SummarizeOldest | TruncateAt)):
        return strategy
    if LEVELS.index(request.min_compaction) >= LEVELS.index("moderate"):
        return ChosenStrategy(SummarizeOldest(KEEP_RECENT))
    return None


def _may_need_compaction(context: SessionContext, state: SessionState, request: PackRequest, tokens: int) -> bool:
    """Whether the policy could call for a boundary: else no plan is made. Where prices are unknown, nothing pays."""
    policy = context.engine.compaction
    if isinstance(policy, Faithful):
        return tokens > min(policy.cold, policy.threshold) * request.effective
    model = request.model or state.calibration.model
    return tokens > request.effective or find_prices(model, context.engine.prices) is not None


# Counting


def _count_history(context: SessionContext, material: _PackMaterial, measure: _Measure) -> int:
    view, items = material.view, material.guarded.items
    if items is view.shown:
        return measure(view.tokens + _count_labels(context, items), view.blocks)
    return _count_items(context, items, measure)


def _count_later(context: SessionContext, messages: Sequence[Message], measure: _Measure) -> int:
    """The tokens of system messages inside the conversation, each with the fence that not every provider needs."""
    texts = (SYSTEM_OPENING + SEPARATOR, SEPARATOR + CLOSING) if messages else ()
    fence = sum(count_tokens(context, text) for text in texts)
    return sum(measure(message.tokens + fence, 1) for message in messages)


def _count_items(context: SessionContext, items: Sequence[HistoryItem], measure: _Measure) -> int:
    tokens = sum(item.tokens for item in items) + _count_labels(context, items)
    return measure(tokens, sum(item.blocks for item in items))


def _count_labels(context: SessionContext, items: Sequence[HistoryItem]) -> int:
    """Of the lines that say that a summary is one."""
    return count_tokens(context, SUMMARY_LABEL) * sum(isinstance(item, Summary) for item in items)


def _count_critical(items: Sequence[HistoryItem], measure: _Measure) -> int:
    critical = [item for item in items if isinstance(item, MessageGroup) and item.priority == "critical"]
    return measure(sum(item.tokens for item in critical), sum(item.blocks for item in critical))


def _count_recall(context: SessionContext, state: SessionState, material: _PackMaterial, room: int) -> int:
    """What a boundary leaves to recalled passages, beyond what the policy leaves free: all that they take, up to their
    share and to half of the room."""
    most = min(int(material.request.effective * material.request.recall_share), room // _RECALL_ROOM)
    policy = context.engine.compaction
    free = int((1 - policy.target) * material.request.effective) if isinstance(policy, Faithful) else 0
    tokens = 0
    for candidate in material.candidates:
        if tokens < most and candidate.section == "recall" and not candidate.omission:
            tokens += state.calibration.measure(count_tokens(context, f"{candidate.text}\n"), 0)
    return max(0, min(tokens, most) - free)


def _count_question(context: SessionContext, state: SessionState, request: PackRequest) -> int:
    if not request.stated:
        return 0
    return state.calibration.measure(count_tokens(context, _question_text(request) + SEPARATOR), 1)


def _count_fence(context: SessionContext, state: SessionState) -> int:
    texts = (OPENING + SEPARATOR, CLOSING)
    return sum(state.calibration.measure(count_tokens(context, text), 0) for text in texts)


def _question_text(request: PackRequest) -> str:
    """What the model has to answer, where the history does not end with it. It is quoted, so that no text in it can pass
    for a text of the engine."""
    if not request.stated:
        return ""
    lines = remove_tag(request.query.strip()).splitlines()
    if request.asked and len(lines) == 1:
        return f"{TASK_LABEL} {lines[0]}"
    return "\n".join([TASK_LABEL if request.asked else LATEST_LABEL, *(f"> {line}" for line in lines)])


# Assembling


def _assemble(
    context: SessionContext, state: SessionState, material: _PackMaterial, strategy: ChosenStrategy | None
) -> AssembledPack:
    request, engine = material.request, context.engine
    count, measure = functools.partial(count_tokens, context), state.calibration.measure
    place_items = functools.cache(functools.partial(_place_items, material, measure))
    items, history = _choose_items(context, material, measure, place_items)
    question, fence = _count_question(context, state, request), _count_fence(context, state)
    fixed = sum(entry.tokens for entry in material.prefix) + history + question + fence
    if fixed > request.effective:
        raise _overflow_error(request, history, fixed, _count_critical(items, measure))
    guarded = (_guard_candidate(material.guard_input, candidate) for candidate in material.candidates)
    tail = fit_tail(
        request,
        [*_build_corrections(material), *guarded],
        request.effective - fixed,
        count=count,
        measure=measure,
        strategy=None if strategy is None else strategy.custom,
    )
    boundary = state.view(context.frame).boundary
    texts = fence_texts((*tail.texts, _question_text(request)))
    if not texts:
        fixed, fence = fixed - fence, 0
    shown = HistoryView(
        scope=context.scope,
        frame=context.frame,
        version=state.version,
        system=material.system,
        items=items,
        frozen=bisect.bisect_right(items, boundary, key=lambda item: item.last) if boundary else 0,
        tail=texts,
        open_calls=tuple(call for call in state.open_calls if call.frame == context.frame),
        late=material.late,
        tokens=fixed + tail.tokens,
    )
    return AssembledPack(
        scope=context.scope,
        frame=context.frame,
        version=state.version,
        ledgers=tuple((used.ledger, used.version) for used in material.ledgers.used),
        request=request,
        boundary=boundary,
        candidates=material.fact_material.scores,
        passages=material.passages,
        tools=material.tools,
        prefix=material.prefix,
        place_items=functools.cache(lambda: _add_placed_system(context, material, measure, place_items())),
        tail=tail,
        history=shown,
        bodied=material.view.bodied
        or any(type(part) is not Text for message in (*material.system, *material.later) for part in message.content),
        tokens=TokenSummary(
            budget=request.effective,
            used=fixed + tail.tokens,
            breakdown=_section_breakdown(material.prefix, history, tail, question, fence),
            level=max(tail.level, _history_level(items, material.view.partly), key=LEVELS.index),
            counted=count_pack_tokens(shown, material.prefix, count),
            messages=len(shown.system) + sum(item.blocks for item in items) + bool(texts),
        ),
        exposed=material.guarded.exposed,
        redacted=material.guarded.hidden,
        counter=engine.counter.name,
        policy=engine.policy,
        spooling=engine.spooling,
        placements=material.guarded.placements,
    )


def _choose_items(
    context: SessionContext,
    material: _PackMaterial,
    measure: _Measure,
    place_items: Callable[[], tuple[PlacedItem, ...]],
) -> tuple[tuple[HistoryItem, ...], int]:
    """The items that are shown, and their tokens."""
    items, history = material.guarded.items, _count_history(context, material, measure)
    if material.request.profile.history == "relevant":
        relevant = [placed.item for placed in place_items() if placed.fate in ("included", "reduced")]
        items, history = tuple(relevant), _count_items(context, relevant, measure)
    history += _count_later(context, material.later, measure)
    return insert_system_messages(items, material.later), history


def _guard_candidate(guard_input: GuardInput, candidate: PackCandidate) -> PackCandidate:
    """The candidate as it may be shown. Environment items and goals of frames are annotated, not redacted. The line of a
    fact comes without the tag of the fence."""
    if candidate.omission or candidate.section == "facts":
        return candidate
    text = candidate.text
    if candidate.origin:
        annotate = candidate.section in ("environment", "breadcrumbs")
        text = guard_text(guard_input, text, candidate.origin, label=candidate.label, annotate=annotate)
    text = remove_tag(text)
    return candidate if text == candidate.text else msgspec.structs.replace(candidate, text=text)


def _overflow_error(request: PackRequest, history: int, fixed: int, critical: int) -> CriticalOverflow | WindowTooSmall:
    if fixed - history + critical > request.effective:
        return CriticalOverflow(needed=fixed - history + critical, budget=request.effective)
    return WindowTooSmall(what="the history, with the texts before it,", budget=request.effective, needed=fixed)


def _section_breakdown(
    prefix: Sequence[PrefixEntry], history: int, tail: PackTail, question: int, fence: int
) -> dict[Section, int]:
    """The tokens of each section; the fence counts to the first section inside it."""
    breakdown: dict[Section, int] = {}
    for entry in prefix:
        breakdown[entry.section] = breakdown.get(entry.section, 0) + entry.tokens
    inside: dict[Section, int] = {**tail.breakdown, "query": question}
    first = next((section for section, tokens in inside.items() if tokens), None)
    parts: dict[Section, int] = {"history": history, **inside}
    if first is not None:
        parts[first] += fence
    return breakdown | {section: tokens for section, tokens in parts.items() if tokens}


def _history_level(items: Sequence[HistoryItem], partly: Mapping[int, Sequence[PartialPiece]]) -> Level:
    """The level of the conversation: `moderate` if messages of it are summarised or shown in part, since a boundary or by
    the preview that fits the budget. A binary body is never shown whole, and is no loss."""
    for item in items:
        if isinstance(item, Summary):
            if item.seq != item.first:
                return "moderate"
        elif any(piece.text for message in item.messages for piece in partly.get(message.seq, ())):
            return "moderate"
    return "none"


def _place_items(material: _PackMaterial, measure: _Measure) -> tuple[PlacedItem, ...]:
    """The fate of each item of the history, without system messages."""
    request, items = material.request, material.guarded.items
    chosen: Sequence[tuple[bool, float, str]] = ()
    if request.profile.history == "relevant":
        facts = [ranked.fact for ranked in material.fact_material.facts if not ranked.omission]
        from holdfast.text.selection import select_items  # noqa: PLC0415 - a good part of the time of an import

        chosen = select_items(items, request.query, facts, request.profile)
    redacted = {redaction.at for redaction in material.guarded.redacted}
    placed: list[PlacedItem] = []
    for number, item in enumerate(items):
        is_included, score, reason = chosen[number] if chosen else (True, 0.0, "in view")
        tokens, part = measure(item.tokens, item.blocks), material.hidden.count_before(item.first)
        if not is_included:
            placed.append(PlacedItem(item, "omitted", reason, tokens, score, part=part))
            continue
        partly = [piece for seq in _message_seqs(item) for piece in material.view.partly.get(seq, ())]
        fate, why = _describe_fate(item, redacted, partly, material.readable)
        placed.append(PlacedItem(item, fate, why or reason, tokens, score, _item_share(item, partly), part))
    return tuple(placed)


def _add_placed_system(
    context: SessionContext, material: _PackMaterial, measure: _Measure, placed: Sequence[PlacedItem]
) -> tuple[PlacedItem, ...]:
    """The items of the history with the system messages between them, which are always included."""
    added: list[PlacedItem] = []
    for message in material.later:
        tokens, part = _count_later(context, [message], measure), material.hidden.count_before(message.seq)
        reason = "a system message: always in view"
        added.append(PlacedItem(MessageGroup((message,)), "included", reason, tokens, part=part))
    return tuple(sorted((*placed, *added), key=lambda one: one.item.first)) if added else tuple(placed)


def _message_seqs(item: HistoryItem) -> tuple[int, ...]:
    return () if isinstance(item, Summary) else tuple(message.seq for message in item.messages)


def _item_share(item: HistoryItem, partly: Sequence[PartialPiece]) -> float:
    """The share of an item that is shown: of a message in bytes, of the messages of a summary in tokens."""
    if not isinstance(item, Summary):
        return shown_share(partly)
    return min(_MAX_SUMMARY_SHARE, round(item.tokens / item.replaced, 4)) if item.replaced else 1.0


def _describe_fate(
    item: HistoryItem, redacted: set[int], partly: Sequence[PartialPiece], readable: bool
) -> tuple[Literal["included", "reduced"], str]:
    if isinstance(item, Summary):
        note = ", superseded values redacted" if item.seq in redacted else ""
        if item.seq == item.first:
            return "reduced", "shown as text: its calls state what the reader may not see"
        if is_outline(item):
            return "reduced", f"{item.messages:,} messages left out of view at event {item.seq}{note}"
        return "reduced", f"a summary of {item.messages:,} messages, made at event {item.seq}{note}"
    notes = []
    if any(seq in redacted for seq in _message_seqs(item)):
        notes.append("superseded values redacted")
    if partly:
        notes.append(describe_shown_shares(partly, readable))
    return ("reduced", "; ".join(notes)) if notes else ("included", "")


def _build_corrections(material: _PackMaterial) -> list[PackCandidate]:
    """The current value of each key whose outdated value is in view. If the outdated value was redacted, only where the
    current one is no candidate of this pack: else its rank decides."""
    endings = material.guard_input.endings
    exposed = dict.fromkeys(exposure.key for exposure in material.guarded.exposed)
    ranked = material.fact_material.current_keys
    hidden = [endings[name].key for name in material.guarded.superseded]
    corrections: list[PackCandidate] = []
    for key in dict.fromkeys((*exposed, *(key for key in hidden if key not in ranked))):
        current = material.guard_input.current_values.get(key, "")
        text = f"- Earlier statements about {key} are outdated."
        text += f" Current value: {current.rstrip('.')}." if current else " It has no current value."
        name = f"correction of {key}"
        corrections.append(PackCandidate(id=name, section="notes", text=text, priority="critical", source="guard"))
    return corrections
