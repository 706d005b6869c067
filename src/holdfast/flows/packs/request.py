"""Check the arguments of a pack, and make the request of them: its query, its scopes and its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from holdfast import codec
from holdfast.core.frames.stack import find_ancestry
from holdfast.core.history.boundaries import find_covering_summary
from holdfast.core.history.views import Display, show_message
from holdfast.errors import BudgetTooSmall, InvalidArgument, describe_value
from holdfast.flows.context import SessionContext
from holdfast.flows.facts.queries import Scopes, check_scopes
from holdfast.flows.load import CachedView
from holdfast.model import limits
from holdfast.model.facts.fact import FactScope
from holdfast.model.history.handles import handle_seq, parse_piece_id
from holdfast.model.history.plans import LEVELS, Strategy
from holdfast.model.history.prices import find_prices
from holdfast.model.names import check_choice, check_flag, check_name, check_size, check_whole
from holdfast.model.packs.pack import GUARD_MODES, PROFILES, Brief, PackRequest, Profile, check_brief
from holdfast.model.sessions.messages import MessageGroup
from holdfast.model.state import SessionState, SummaryRef

_ANSWER_TOKENS = 8_192
"""The longest answer, unless the request or the model sets another limit."""


class PackArguments(NamedTuple):
    """The arguments of a pack, checked."""

    query: str | None
    """None: the pack is about the newest message of the user."""
    request: PackRequest
    """Without what depends on the conversation: the query, the effective budget, the recall and the scopes of frames."""
    recall: bool | float | None = None
    """The share of earlier conversation; True for that of the profile, None for that if the session has a memory."""


def check_arguments(
    context: SessionContext,
    query: object,
    strategy: Strategy | None,
    *,
    budget: object = 8_000,
    role: object = "",
    include: object = (),
    exclude: object = (),
    force: object = False,
    within: Scopes = (),
    min_compaction: object = "none",
    fact_share: object = None,
    recall: object = None,
    profile: object = "balanced",
    model: object = None,
    max_output: object = None,
    guard: object = None,
    time: object = True,
    audit: object = False,
    as_of_us: object = None,
) -> PackArguments:
    engine = context.engine
    text = None if query is None else codec.check_text("the query", query)
    tokens = check_whole("budget", budget, 0, limits.WINDOW_TOKENS)
    request = PackRequest(
        budget=tokens,
        effective=tokens,
        role="" if type(role) is str and not role else check_name("role", role),
        include=_check_handles("include", include),
        exclude=_check_handles("exclude", exclude),
        force=check_flag("force", force),
        within=_check_scopes(context, within),
        min_compaction=check_choice("min_compaction", min_compaction, LEVELS),
        strategy=strategy,
        profile=(checked := _check_profile(profile, fact_share)),
        fact_share=checked.fact_share,
        model="" if model is None else check_name("model", model),
        max_output=None if max_output is None else check_whole("max_output", max_output, 1, limits.WINDOW_TOKENS),
        guard=engine.policy.guard if guard is None else check_choice("guard", guard, GUARD_MODES),
        time=check_flag("time", time),
        audit=check_flag("audit", audit),
        as_of_us=engine.clock.now_us() if as_of_us is None else check_whole("as_of_us", as_of_us),
    )
    if tokens < limits.PACK_TOKENS:
        raise BudgetTooSmall(budget=tokens, least=limits.PACK_TOKENS)
    return PackArguments(text, request, _check_recall(recall))


def vary_arguments(context: SessionContext, request: PackRequest, changes: Mapping[str, object]) -> PackArguments:
    """The arguments of a stored request with some changed: budget, profile, guard, model, max_output or query."""
    stored = {
        "budget": request.budget,
        "profile": request.profile,
        "fact_share": None if "profile" in changes else request.fact_share,
        "guard": request.guard,
        "model": request.model or None,
        "max_output": request.max_output,
    }
    query = request.query if request.asked else None
    options = {**stored, **changes}
    checked = check_arguments(context, options.pop("query", query), request.strategy, **options)  # type: ignore[arg-type]
    kept = ("role", "include", "exclude", "force", "within", "min_compaction", "time", "audit", "as_of_us")
    varied = msgspec.structs.replace(checked.request, **{name: getattr(request, name) for name in kept})
    is_share_of_profile = request.recall_share in (0.0, request.profile.recall_share)
    is_new_share = is_share_of_profile and request.recall_share > 0 and "profile" in changes
    recall = varied.profile.recall_share if is_new_share else request.recall_share
    return PackArguments(checked.query, varied, float(recall))


def _check_handles(argument: str, names: object) -> tuple[str, ...]:
    if type(names) not in (list, tuple):  # a subclass could say anything of itself
        raise InvalidArgument(argument=argument, reason=f"pass a list of handle ids, not {describe_value(names)}")
    handles: list[str] = list(names)  # type: ignore[call-overload]
    check_size(argument, len(handles), "handles", "PACK_HANDLES", "Name fewer.")
    for name in handles:
        check_name("handle", name)
        if not handle_seq(name) and parse_piece_id(name) is None:
            reason = f"{describe_value(name)} is not a handle: pass ids such as h12 or h12_0"
            raise InvalidArgument(argument=argument, reason=reason)
    return tuple(dict.fromkeys(handles))


def _check_scopes(context: SessionContext, within: Scopes) -> FactScopes:
    """The scopes of the request, and the scope of the session."""
    session_scope: tuple[FactScope, str] = ("session", context.scope.session)
    return tuple(dict.fromkeys([*check_scopes(within)[1:], session_scope]))


def _check_recall(recall: object) -> bool | float | None:
    if recall is None or type(recall) is bool:
        return recall
    return _check_share("recall", recall)


def _find_recall_share(recall: bool | float | None, profile: Profile, has_memory: bool) -> float:
    if recall is None:
        recall = has_memory
    return recall if type(recall) is float else profile.recall_share * bool(recall)


def _check_profile(profile: object, fact_share: object) -> Profile:
    named = profile if isinstance(profile, Profile) else PROFILES[check_choice("profile", profile, tuple(PROFILES))]
    check_name("profile.name", named.name)
    share = _check_share("fact_share", named.fact_share if fact_share is None else fact_share)
    _check_share("profile.least_score", named.least_score)
    _check_share("profile.recall_share", named.recall_share)
    check_whole("profile.recent_turns", named.recent_turns)
    check_choice("profile.history", named.history, ("whole", "relevant"))
    check_choice("profile.review", named.review, ("mark", "omit"))
    return msgspec.structs.replace(named, fact_share=share)


def _check_share(argument: str, value: object) -> float:
    if type(value) in (int, float) and 0 <= value <= 1:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise InvalidArgument(argument=argument, reason=f"{describe_value(value)} is not a share from 0 to 1")


def find_brief(context: SessionContext, role: str, brief: object) -> Brief:
    """The brief of the call, else that of the role."""
    if brief is not None:
        return check_brief(brief)
    briefs = context.engine.briefs
    if role and role not in briefs:
        names = ", ".join(sorted(briefs)) or "none"
        reason = f"there is no brief for {describe_value(role)}. Roles with a brief: {names}; see open(briefs=…)"
        raise InvalidArgument(argument="role", reason=reason)
    return briefs.get(role, Brief())


def effective_budget(context: SessionContext, state: SessionState, request: PackRequest) -> int:
    """The budget of the request, but no more than the window of the model without its longest answer."""
    last = state.calibration.model if context.frame is None else ""
    model = request.model or last
    prices = find_prices(model, context.engine.prices) if model else None
    effective = request.budget
    if prices is not None:
        effective = min(effective, prices.window - (request.max_output or prices.max_output))
    if effective < limits.PACK_TOKENS:
        raise BudgetTooSmall(budget=effective, least=limits.PACK_TOKENS)
    return effective


def build_request(
    context: SessionContext, state: SessionState, arguments: PackArguments, view: CachedView, display: Display
) -> PackRequest:
    request = arguments.request
    query, is_new, is_stated = _resolve_query(arguments.query, view, state.summaries_of(context.frame))
    if is_stated and not is_new and view.asked is not None:
        query = show_message(view.asked, {}, display.readable)[0].text  # with the marker of a stored body
    # A frame is a task, and so is each frame above it.
    frames = find_ancestry(state.frames, context.frame) if context.frame is not None else []
    tasks: list[tuple[FactScope, str]] = [("task", frame.id) for frame in frames]
    return msgspec.structs.replace(
        request,
        query=query,
        asked=is_new,
        stated=is_stated,
        effective=display.budget or request.budget,
        recall_share=_find_recall_share(arguments.recall, request.profile, state.has_memory),
        within=tuple(dict.fromkeys([*request.within, *tasks])),
    )


def _resolve_query(query: str | None, view: CachedView, summaries: tuple[SummaryRef, ...]) -> tuple[str, bool, bool]:
    """The query of a pack, whether it is not a message of the user, and whether the end of the pack states it.

    The newest message of the user is stated if it is summarised and has no reply. Another query is stated if no message
    of the user in view waits for a reply."""
    last, answered = view.asked, _is_answered(view)
    text = "" if last is None else last.text
    if query is not None and (last is None or query.split() != text.split() or answered):
        is_new = bool(query.strip())
        return query, is_new, is_new and not _has_unanswered_user(view)
    folded = last is not None and bool(summaries) and find_covering_summary(summaries, last.seq) is not None
    return text if query is None else query, False, folded and not answered


def _has_unanswered_user(view: CachedView) -> bool:
    """Whether the view has a message of the user without a reply; a tool call is no reply."""
    for item in reversed(view.shown):
        for message in reversed(item.messages) if isinstance(item, MessageGroup) else ():
            if message.role == "user":
                return True
            if message.role == "assistant" and not message.tool_calls:
                return False
    return False


def _is_answered(view: CachedView) -> bool:
    """Whether the newest message is a reply without tool calls."""
    for item in reversed(view.shown):
        if isinstance(item, MessageGroup):
            return item.messages[-1].role == "assistant" and not item.messages[-1].tool_calls
    return False


def max_answer_tokens(context: SessionContext, request: PackRequest) -> int | None:
    if request.max_output is not None or not request.model:
        return request.max_output
    prices = find_prices(request.model, context.engine.prices)
    return _ANSWER_TOKENS if prices is None else min(_ANSWER_TOKENS, prices.max_output or _ANSWER_TOKENS)


FactScopes = tuple[tuple[FactScope, str], ...]
