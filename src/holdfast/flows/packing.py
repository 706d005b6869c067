"""Packs: for each model call, what it is shown.

Laws: assembling changes nothing; if the view of the conversation has to change first, because facts died, it pays, or all
would not fit, that is a boundary event of its own, committed before; what it costs follows the budget, not the history; the
same log, request and brief give the same bytes.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from holdfast.context import levels
from holdfast.context.assemble import Piece, Tail, least_of, tail_of
from holdfast.context.fence import CLOSING, JOINT, OPENING, cleared, fenced
from holdfast.context.manifest import Made, Seen, Stands, plain_count, tools_text
from holdfast.context.outline import is_outline
from holdfast.core.calibrate import calibrated
from holdfast.core.display import Display
from holdfast.core.guard import past_keys
from holdfast.core.messages import calls_open
from holdfast.core.shown import Shown, describe_parts, share_of
from holdfast.core.situation import situation_of
from holdfast.errors import Contended, CriticalOverflow, InvalidContent, WindowTooSmall
from holdfast.flows import candidates, effects, guard, planning
from holdfast.flows import history as histories
from holdfast.flows.asking import Asked, answer_for, asked_for, brief_for, effective_budget, prices_for, requested
from holdfast.flows.candidates import Found, Ledgers
from holdfast.flows.effects import Flow
from holdfast.flows.frame_candidates import frame_pieces
from holdfast.flows.frames import InFrame, conversation, not_live
from holdfast.flows.guard import Guarded, Watch
from holdfast.flows.handle_candidates import handle_pieces
from holdfast.flows.knowing import Scopes
from holdfast.flows.ledgers import writer_for
from holdfast.flows.load import Viewed, load
from holdfast.flows.pack_sizes import (
    asked_strategy,
    check_critical,
    counted,
    critical_tokens,
    label_tokens,
    level_of,
    tokens_of,
)
from holdfast.flows.place import Place
from holdfast.flows.spending import reserve as reserve_tokens
from holdfast.flows.strategies import Followed, find_strategy
from holdfast.flows.views import late_of, steady
from holdfast.model import limits
from holdfast.model.content import Text
from holdfast.model.frames import FrameState, Reservation
from holdfast.model.layers import Identity
from holdfast.model.messages import SUMMARY_LABEL, History, Item, Message, Summary, Unit
from holdfast.model.names import checked_flag, checked_whole
from holdfast.model.pack import (
    Brief,
    Guard,
    Manifest,
    Profile,
    Request,
    Section,
    TokenSummary,
)
from holdfast.model.plan import Faithful, Level
from holdfast.model.state import SessionState

if TYPE_CHECKING:
    from holdfast.render.packs import Pack

_TAIL_SHARE = 4
"""The history leaves one in so many tokens of a budget to what stands behind it, if there is so much."""
_MOST_OF_SUMMARY = 0.9999
"""The most that a summary can show of what it stands for: it is never all of it."""
_PURPOSE = "model call"
TASK = "Task for this call:"
_AUTHORITIES = {
    Identity().authority: "The user speaks with the authority of a peer (no special authority).",
    "": "The user's authority is unknown: treat it as the lowest.",
}
"""What a model is told where no role was given."""
LATEST = "The latest message of the user, which the summary above stands for:"


def pack(
    place: Place,
    query: str | None = None,
    *,
    frame: InFrame | FrameState | str | None = None,
    budget: int = 8_000,
    role: str = "",
    brief: Brief | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    force: bool = False,
    within: Scopes = (),
    min_compaction: Level = "none",
    fact_share: float | None = None,
    profile: Profile | str = "balanced",
    model: str | None = None,
    max_output: int | None = None,
    guard: Guard | None = None,
    strategy: levels.Asked | None = None,
    as_of_us: int | None = None,
    settle: bool = True,
    reserve: int | None = None,
    time: bool = True,
    audit: bool = False,
) -> Flow[Pack]:
    """What the next model call is shown: never more than `budget` tokens, nothing dead, no call without its result.

    `frame` is, in a session, the frame whose conversation is packed: its id, or "top" for the top of the stack; the reply
    to such a pack is recorded with that frame. Without it, a session packs its own conversation.

    `query` is what it is about; without one, the newest message of the user is. One that nobody said ranks what there is to
    choose from and is kept in the manifest; it is never recorded as a message, and the model is shown it, as the task of
    this call, only if the conversation leaves nothing to answer. `role` names one of the briefs that the store was opened
    with; `brief` is one of your own. `include` and `exclude` name handles. `within` names the scopes of facts that are
    looked into beside what holds everywhere. With a `model`, the budget is no more than its window leaves, and the request
    to the provider names it; `max_output` is the most that it may answer.

    `strategy` says how the conversation is shortened: SummarizeOldest and TruncateAt keep so many of the newest messages,
    whatever there is room for; PriorityBased and one of your own (a name or a function) come in if all does not fit.
    Before that the view of the conversation is brought up to date: superseded values are redacted, and the compaction
    that the policy calls for is carried out; each is an event. With settle=False nothing is written. `reserve` keeps
    so many tokens of the frame's budget for the call. With time=False no time is shown. With `audit` the manifest
    names the facts that are withheld from the reader: do not show it to them."""
    place = yield from conversation(place, frame)
    followed = find_strategy(place.context, strategy)
    asked = asked_for(
        place,
        query=query,
        budget=budget,
        role=role,
        include=include,
        exclude=exclude,
        force=force,
        within=within,
        min_compaction=min_compaction,
        strategy=None if followed is None else followed.asked,
        fact_share=fact_share,
        profile=profile,
        model=model,
        max_output=max_output,
        guard=guard,
        time=time,
        audit=audit,
        as_of_us=as_of_us,
    )
    told, settles = brief_for(place, asked.role, brief), checked_flag("settle", settle)
    _check_reserve(place, reserve)
    made = yield from steady(place, lambda state: _pack(place, state, asked, told, followed, settles))
    reservation = None if reserve is None else (yield from reserve_tokens(place, _PURPOSE, reserve))
    return (yield from _packed(place, made, told, answer_for(place, made.request), reservation))


def _check_reserve(place: Place, amount: object) -> None:
    if amount is None:
        return
    checked_whole("the amount", amount)
    if place.frame is None:
        raise InvalidContent(reason="tokens are reserved from the budget of a frame: pack with the frame")


def _pack(
    place: Place, state: SessionState, asked: Asked, brief: Brief, strategy: Followed | None, settles: bool
) -> Flow[Made]:
    for _ in range(limits.VIEW_TRIES):
        found = yield from _at_once(place, state, asked, brief)
        settled = settles and (yield from _settled(place, state, found, strategy))
        if settled:
            state = yield from load(place.scope.stream, place.context.cache, fresh=True)
            found = yield from _at_once(place, state, asked, brief)
        try:
            return _assembled(place, state, found, strategy)
        except WindowTooSmall as error:
            too_small, version = error, state.version
        if settled:
            continue  # others may have said more since
        state = yield from load(place.scope.stream, place.context.cache, fresh=True)
        if not settles or state.version == version:
            break  # nobody has: it is as it is
    raise too_small


def _at_once(place: Place, state: SessionState, asked: Asked, brief: Brief) -> Flow[_Gathered]:
    """What there is to choose from, of ledgers that stayed as they are while it was gathered."""
    for _ in range(limits.VIEW_TRIES):
        found = yield from _gathered(place, state, asked, brief)
        if not found.used.used:
            return found
        if (yield from candidates.ledgers_in_use(place, state, found.used.permissions)) == found.used:
            return found
    at = state.version
    raise Contended(stream=place.scope.stream, expected=at, actual=at, tries=limits.VIEW_TRIES, limit_name="VIEW_TRIES")


def again(place: Place, manifest: Manifest, brief: Brief) -> Flow[Pack]:
    """The pack that a manifest tells of, made anew from a log that ends where it did."""
    request = manifest.request
    strategy = find_strategy(place.context, request.strategy)

    def make(state: SessionState) -> Flow[Made]:
        found = yield from _gathered(place, state, request, brief, manifest.candidates)
        return _assembled(place, state, found, strategy)

    made = yield from steady(place, make)
    return (yield from _packed(place, made, brief, answer_for(place, request), None))


# What there is to choose from


class _Gathered(NamedTuple):
    request: Request
    first: tuple[Stands, ...]
    """What stands before the history."""
    system: tuple[Message, ...]
    view: Viewed
    late: tuple[Message, ...]
    used: Ledgers
    found: tuple[Found, ...]
    pieces: tuple[Piece, ...]
    watch: Watch
    guarded: Guarded
    """The items as they may be shown."""
    readable: bool
    """A tool that reads handles is offered."""


def _gathered(
    place: Place,
    state: SessionState,
    asked: Asked | Request,
    brief: Brief,
    known: Sequence[tuple[int, str, float]] | None = None,
) -> Flow[_Gathered]:
    if place.frame is not None and place.frame not in state.frames:
        raise (yield from not_live(place, place.frame))
    effective = asked.effective if isinstance(asked, Request) else effective_budget(place, state, asked)
    display = Display(effective, brief.reads_handles)
    view = yield from histories.unguarded(place, state, display)
    items = view.shown
    check_critical(view.recorded, effective)
    request = asked if isinstance(asked, Request) else requested(place, state, asked, view, display)
    late = yield from late_of(place.scope.stream, state, place.frame)
    used = yield from candidates.ledgers_in_use(place, state, writer_for(place.context, state.identity).permissions)
    found = yield from candidates.facts(place, used, request, known)
    system, first = yield from _prefix(place, state, brief)
    pieces = [
        *(_note(each, late[-1].seq) for each in histories.late_note(late, items, display.readable)),
        *candidates.environment_pieces(state, request),
        *candidates.situation_pieces(situation_of(state.standing(place.frame))),
        *(yield from candidates.fact_pieces(place, used, found, request, items, state.proposals)),
        *candidates.working_pieces(state, request),
        *(yield from handle_pieces(place, request, functools.partial(_calls_in, items), display)),
        *(yield from frame_pieces(place, state, request)),
    ]
    watch = yield from guard.watch(
        place,
        state,
        items,
        [(each.origin, each.text) for each in pieces if each.origin and not each.gone],
        policy=request.guard,
        within=request.within,
        as_of_us=request.as_of_us,
        used=used.used,
    )
    guarded = guard.guard_items(watch, items, place.context.counter.count)
    in_view = dict.fromkeys(watch.endings[name].key for name in guarded.superseded)
    wanted = past_keys(request.query, {*in_view, *(each.fact.key for each in found)}, in_view)
    pieces += yield from candidates.past_pieces(used, request, wanted)
    return _Gathered(
        request,
        first,
        system,
        view,
        late,
        used,
        tuple(found),
        tuple(pieces),
        watch,
        guarded,
        display.readable,
    )


def _note(text: str, seq: int) -> Piece:
    return Piece(id="late results", section="notes", text=text, priority="high", source="evidence", origin=seq)


def _calls_in(items: Sequence[Item]) -> frozenset[str]:
    """The calls whose results stand in the history."""
    units = (item for item in items if isinstance(item, Unit))
    return frozenset(result.tool_call_id for unit in units for each in unit.messages for result in each.tool_results)


def _prefix(place: Place, state: SessionState, brief: Brief) -> Flow[tuple[tuple[Message, ...], tuple[Stands, ...]]]:
    measure = functools.partial(calibrated, state.calibration)
    system: list[Message] = []
    first: list[Stands] = []

    def say(section: Section, name: str, text: str, source: str) -> None:
        if text.strip():
            tokens = counted(place, text)
            system.append(
                Message(id=name, seq=0, role="system", content=(Text(text),), tokens=tokens, time_us=0, principal="")
            )
            first.append(Stands(section, name, text, measure(tokens, 1), source))

    say("system", "brief", "\n\n".join(filter(None, (brief.prompt, brief.working_context))), "brief")
    for message in (yield from histories.system_messages(place, state)):
        system.append(message)
        tokens = measure(message.tokens, 1)
        first.append(Stands("system", f"m{message.seq}", message.text, tokens, "system message", message.seq))
    say("identity", "identity", _introduced(state.identity), "identity")
    rules = "\n".join(f"- {each}" for each in brief.invariants)
    say("invariants", "invariants", f"These hold whatever happens:\n{rules}" if rules else "", "brief")
    if brief.offered:
        tools = tools_text(brief.offered)
        many = f"{len(brief.offered)} tool{'s'[: len(brief.offered) > 1]}"
        first.append(Stands("tools", "tools", tools, measure(counted(place, tools), 0), many))
    return tuple(system), tuple(first)


def _introduced(identity: Identity) -> str:
    """The user as the channel knows them; the authority always, a role name as the program gave it."""
    name = identity.user_name or identity.user_id
    at = ", ".join(filter(None, (identity.department, identity.organization)))
    who = f"The user is {name} ({at})." if name and at else f"The user is {name}." if name else ""
    if at and not name:
        who = f"The user is from {at}."
    authority = _AUTHORITIES.get(identity.authority)
    if authority is None:
        authority = f"The user speaks with the authority of their role: {identity.authority}."
    return f"{who} {authority}" if who else authority


# Settling


def _settled(place: Place, state: SessionState, found: _Gathered, strategy: Followed | None) -> Flow[bool]:
    """Whether the view had to change: what died since it was last looked at gives way, what is old is folded if that pays,
    or if all would not fit; and what the strategy says is done."""
    waiting = [call for call in state.open_calls if call.frame == place.frame]
    if waiting:
        raise calls_open(place.scope, waiting, "the model is to see their results first: run them, or close them")
    request, count = found.request, functools.partial(counted, place)
    measure = functools.partial(calibrated, state.calibration)
    first = (
        sum(each.tokens for each in found.first) + _asked_tokens(place, state, request) + _fence_tokens(place, state)
    )
    least = least_of(found.pieces, count, measure)
    if first + least > request.effective:  # whatever becomes of the history
        raise CriticalOverflow(needed=first + least, budget=request.effective)
    changed = yield from guard.settle_redactions(place, state, found.guarded)
    pieces = [*_corrections(found), *found.pieces]
    tail = sum(measure(count(each.text), 0) for each in pieces if not each.gone)
    pinned = sum(each.tokens for each in found.first if each.at)
    before = first - pinned + max(least_of(pieces, count, measure), min(tail, request.effective // _TAIL_SHARE))
    before += measure(count(SUMMARY_LABEL), 0)  # for a summary that it may come to
    history = _history_tokens(place, found, measure)
    asked = asked_strategy(request, strategy, fits=before + pinned + history <= request.effective)
    if asked is not None:
        model = request.model or None
        start = min(before, request.effective)
        plan = yield from planning.follow(place, asked, window=request.effective, model=model, before=start)
        if plan.at is not None:
            return True
    if not _may_compact(place, state, request, before + pinned + history):
        return changed
    before += max(0, history - measure(found.view.tokens, found.view.blocks))  # a plan knows no notes of the guard
    plan = yield from planning.compact(
        place, window=request.effective, model=request.model or None, before=min(before, request.effective)
    )
    return changed or plan.at is not None


def _may_compact(place: Place, state: SessionState, request: Request, tokens: int) -> bool:
    """Whether the policy could call for a boundary: a plan is not made for nothing. Where it is not known what a call
    costs, nothing pays, and what fits stays as it is."""
    policy = place.context.compaction
    if isinstance(policy, Faithful):
        return tokens > min(policy.cold, policy.threshold) * request.effective
    return tokens > request.effective or prices_for(place, request.model or state.calibration.model) is not None


def _history_tokens(place: Place, found: _Gathered, measure: Callable[[int, int], int]) -> int:
    """Of all that is in view."""
    view, items = found.view, found.guarded.items
    if items is view.shown:
        return measure(view.tokens + label_tokens(place, items), view.blocks)
    return tokens_of(place, items, measure)


def _asked_tokens(place: Place, state: SessionState, request: Request) -> int:
    if not request.stated:
        return 0
    return calibrated(state.calibration, counted(place, _question(request) + JOINT), 1)


def _fence_tokens(place: Place, state: SessionState) -> int:
    return sum(calibrated(state.calibration, counted(place, each), 0) for each in (OPENING + JOINT, CLOSING))


def _question(request: Request) -> str:
    """What the model is to answer, where the history does not end with it. Quoted: whatever it says, it is one thing that
    stands in our words."""
    if not request.stated:
        return ""
    lines = cleared(request.query.strip()).splitlines()
    if request.asked and len(lines) == 1:
        return f"{TASK} {lines[0]}"
    return "\n".join([TASK if request.asked else LATEST, *(f"> {line}" for line in lines)])


# Assembling


def _assembled(place: Place, state: SessionState, found: _Gathered, strategy: Followed | None) -> Made:
    request, context = found.request, place.context
    count, measure = functools.partial(counted, place), functools.partial(calibrated, state.calibration)
    guarded, watch = found.guarded, found.watch
    items, history = guarded.items, _history_tokens(place, found, measure)
    seen = functools.cache(functools.partial(_seen, found, measure))
    if request.profile.history == "relevant":
        kept = [each.item for each in seen() if each.fate in ("included", "reduced")]
        items, history = tuple(kept), tokens_of(place, kept, measure)
    question = _asked_tokens(place, state, request)
    fence = _fence_tokens(place, state)
    fixed = sum(each.tokens for each in found.first) + history + question + fence
    pieces = [
        *_corrections(found),
        *(
            each if each.gone else msgspec.structs.replace(each, text=cleared(_guarded(watch, each)))
            for each in found.pieces
        ),
    ]
    if fixed > request.effective:
        raise _too_large(request, history, fixed, critical_tokens(items, measure))
    by = levels.PriorityBased() if strategy is None else strategy.of_levels
    tail = tail_of(request, pieces, request.effective - fixed, count=count, measure=measure, strategy=by)
    boundary = state.view(place.frame).boundary
    behind = fenced((*tail.texts, _question(request)))
    if not behind:
        fixed, fence = fixed - fence, 0
    shown = History(
        scope=place.scope,
        frame=place.frame,
        version=state.version,
        system=found.system,
        items=items,
        frozen=_frozen(items, boundary),
        tail=behind,
        open_calls=tuple(call for call in state.open_calls if call.frame == place.frame),
        late=found.late,
        tokens=fixed + tail.tokens,
    )
    return Made(
        scope=place.scope,
        frame=place.frame,
        version=state.version,
        ledgers=tuple((each.ledger, each.version) for each in found.used.used),
        request=request,
        boundary=boundary,
        candidates=tuple((each.ledger, each.fact.id, each.score) for each in found.found if each.fate != "withheld"),
        first=found.first,
        seen=seen,
        tail=tail,
        history=shown,
        bodied=found.view.bodied or any(type(part) is not Text for each in found.system for part in each.content),
        tokens=TokenSummary(
            budget=request.effective,
            used=fixed + tail.tokens,
            breakdown=_breakdown(found.first, history, tail, question, fence),
            level=max(tail.level, level_of(items, found.view.partly), key=levels.LEVELS.index),
            counted=plain_count(shown, found.first, count),
            messages=len(shown.system) + sum(each.blocks for each in items) + bool(behind),
        ),
        exposed=guarded.exposed,
        counter=context.counter.name,
        policy=context.policy,
        spooling=context.spooling,
    )


def _guarded(watch: Watch, piece: Piece) -> str:
    """A piece as it may be shown: its label is our own. Nothing is taken out of the environment or the goal of a frame."""
    if not piece.origin:
        return piece.text
    annotate = piece.section in ("environment", "breadcrumbs")
    return guard.guard_text(watch, piece.text, piece.origin, label=piece.label, annotate=annotate)


def _frozen(items: Sequence[Item], boundary: int) -> int:
    """How many of the items were there at the last boundary."""
    return bisect.bisect_right(items, boundary, key=lambda each: each.last) if boundary else 0


def _too_large(request: Request, history: int, fixed: int, critical: int) -> CriticalOverflow | WindowTooSmall:
    if fixed - history + critical > request.effective:
        return CriticalOverflow(needed=fixed - history + critical, budget=request.effective)
    return WindowTooSmall(what="the history, with what stands before it,", budget=request.effective, needed=fixed)


def _breakdown(first: Sequence[Stands], history: int, tail: Tail, question: int, fence: int) -> dict[Section, int]:
    """What takes how much; the fence counts to what stands in it first."""
    found: dict[Section, int] = {}
    for each in first:
        found[each.section] = found.get(each.section, 0) + each.tokens
    inside: dict[Section, int] = {**tail.breakdown, "query": question}
    opens = next((section for section, tokens in inside.items() if tokens), None)
    parts: dict[Section, int] = {"history": history, **inside}
    if opens is not None:
        parts[opens] += fence
    return found | {section: tokens for section, tokens in parts.items() if tokens}


def _seen(found: _Gathered, measure: Callable[[int, int], int]) -> tuple[Seen, ...]:
    """What becomes of each item of the history."""
    request, guarded = found.request, found.guarded
    chosen: Sequence[tuple[bool, float, str]] = ()
    if request.profile.history == "relevant":
        facts = [each.fact for each in found.found if not each.gone]
        from holdfast.context.relevant import relevant  # noqa: PLC0415 - a good part of the time of an import

        chosen = relevant(guarded.items, request.query, facts, request.profile)
    redacted = {each.at for each in guarded.redacted}
    seen: list[Seen] = []
    for number, item in enumerate(guarded.items):
        wanted, score, reason = chosen[number] if chosen else (True, 0.0, "in view")
        partly = [each for seq in _seqs(item) for each in found.view.partly.get(seq, ())]
        fate, why = _how(item, redacted, partly, found.readable)
        tokens = measure(item.tokens, item.blocks)
        if wanted:
            seen.append(Seen(item, fate, why or reason, tokens, score, _share(item, partly)))
        else:
            seen.append(Seen(item, "omitted", reason, tokens, score))
    return tuple(seen)


def _share(item: Item, partly: Sequence[Shown]) -> float:
    """How much of an item is shown: of a message in bytes; of what a summary stands for in tokens."""
    if not isinstance(item, Summary):
        return share_of(partly)
    return min(_MOST_OF_SUMMARY, round(item.tokens / item.replaced, 4)) if item.replaced else 1.0


def _seqs(item: Item) -> tuple[int, ...]:
    return () if isinstance(item, Summary) else tuple(each.seq for each in item.messages)


def _how(
    item: Item, redacted: set[int], partly: Sequence[Shown], readable: bool
) -> tuple[Literal["included", "reduced"], str]:
    if isinstance(item, Summary):
        dead = ", superseded values redacted" if item.seq in redacted else ""
        if item.seq == item.first:
            return "reduced", "shown as text: its calls state what the reader may not see"
        if is_outline(item):
            return "reduced", f"{item.messages:,} messages left out of view at event {item.seq}{dead}"
        return "reduced", f"a summary of {item.messages:,} messages, made at event {item.seq}{dead}"
    why = []
    if any(seq in redacted for seq in _seqs(item)):
        why.append("superseded values redacted")
    if partly:
        why.append(describe_parts(partly, readable))
    return ("reduced", "; ".join(why)) if why else ("included", "")


def _corrections(found: _Gathered) -> list[Piece]:
    """For each key of which the view states an outdated value: its current one. Where the value was redacted, only if the
    current one is no candidate of this pack: else its rank decides."""
    exposed = {each.key for each in found.guarded.exposed}
    ranked = {each.fact.key for each in found.found if not each.fact.claim}
    hidden = [found.watch.endings[name].key for name in found.guarded.superseded]
    pieces: list[Piece] = []
    for key in dict.fromkeys((*exposed, *(key for key in hidden if key not in ranked))):
        now = found.watch.current.get(key, "")
        text = f"- Earlier statements about {key} are outdated."
        text += f" Current value: {now.rstrip('.')}." if now else " It has no current value."
        pieces.append(Piece(id=f"correction of {key}", section="notes", text=text, priority="critical", source="guard"))
    return pieces


def _packed(
    place: Place, made: Made, brief: Brief, max_output: int | None, reservation: Reservation | None
) -> Flow[Pack]:
    """The pack with the images, files and signed parts that a rendering shows."""
    from holdfast.render.entries import bodies_of  # noqa: PLC0415 - a good part of the time of an import
    from holdfast.render.packs import Pack  # noqa: PLC0415 - the same

    bodies: dict[str, bytes] = {}
    for issuer in ("openai", "anthropic") if made.bodied else ():
        for ref in bodies_of(made.history, issuer):
            if ref.size <= limits.INLINE_BYTES and ref.digest not in bodies:
                read = functools.partial(histories.read_whole, place.context, ref)
                bodies[ref.digest] = yield from effects.outside(read)
    return Pack(made, brief=brief, bodies=bodies, max_output=max_output, reservation=reservation)
