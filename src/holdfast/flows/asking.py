"""What a pack is asked for, checked and made out: what the query is, and how much there is room for."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast import codec
from holdfast.context import levels
from holdfast.core import stack
from holdfast.core.display import Display
from holdfast.core.shown import shown as shown_message
from holdfast.core.summaries import covering
from holdfast.errors import BudgetTooSmall, InvalidContent, shown
from holdfast.flows.candidates import Within
from holdfast.flows.frames import one_of
from holdfast.flows.knowing import Scopes, checked_scopes
from holdfast.flows.load import Viewed
from holdfast.flows.place import Place
from holdfast.model import limits
from holdfast.model.facts import FactScope
from holdfast.model.handles import handle_seq, piece_of
from holdfast.model.messages import Unit
from holdfast.model.names import check_size, checked_flag, checked_name, checked_whole
from holdfast.model.pack import GUARDS, PROFILES, Brief, Guard, Profile, Request, checked_brief
from holdfast.model.plan import Level, Prices, Strategy
from holdfast.model.prices import prices_of
from holdfast.model.state import SessionState, SummaryRef

_ANSWER = 8_192
"""Tokens that an answer may have, if nobody says otherwise and the model can say as much."""


class Asked(NamedTuple):
    """What was asked for, once it is known to be in order."""

    query: str | None
    budget: int
    role: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    force: bool
    within: Within
    min_compaction: Level
    strategy: Strategy | None
    profile: Profile
    model: str | None
    max_output: int | None
    guard: Guard
    time: bool
    audit: bool
    as_of_us: int


def asked_for(
    place: Place,
    *,
    query: object,
    budget: object,
    role: object,
    include: object,
    exclude: object,
    force: object,
    within: Scopes,
    min_compaction: object,
    strategy: Strategy | None,
    fact_share: object,
    profile: object,
    model: object,
    max_output: object,
    guard: object,
    time: object,
    audit: object,
    as_of_us: object,
) -> Asked:
    asked = Asked(
        query=None if query is None else codec.checked_text("the query", query),
        budget=checked_whole("budget", budget, 0, limits.WINDOW_TOKENS),
        role="" if type(role) is str and not role else checked_name("role", role),
        include=_names("include", include),
        exclude=_names("exclude", exclude),
        force=checked_flag("force", force),
        within=_within(place, within),
        min_compaction=one_of("level", min_compaction, levels.LEVELS),
        strategy=strategy,
        profile=_checked_profile(profile, fact_share),
        model=None if model is None else checked_name("model", model),
        max_output=None if max_output is None else checked_whole("max_output", max_output, 1, limits.WINDOW_TOKENS),
        guard=place.context.policy.guard if guard is None else one_of("guard", guard, GUARDS),
        time=checked_flag("time", time),
        audit=checked_flag("audit", audit),
        as_of_us=place.context.clock.now_us() if as_of_us is None else checked_whole("as_of_us", as_of_us),
    )
    if asked.budget < limits.PACK_TOKENS:
        raise BudgetTooSmall(budget=asked.budget, least=limits.PACK_TOKENS)
    return asked


def _names(what: str, names: object) -> tuple[str, ...]:
    if type(names) not in (list, tuple):
        raise InvalidContent(reason=f"{what} is a list of handles, not {shown(names)}")
    check_size("the request", len(names), "handles", "PACK_HANDLES", "Name fewer.")  # type: ignore[arg-type]
    found: list[str] = []
    for each in names:  # type: ignore[attr-defined]
        name = checked_name("handle", each)
        if not handle_seq(name) and piece_of(name) is None:
            raise InvalidContent(reason=f"{shown(name)} is no handle: pass ids such as h12 or h12_0")
        found.append(name)
    return tuple(dict.fromkeys(found))


def _within(place: Place, within: Scopes) -> Within:
    """The scopes asked for, and the session's own."""
    own: tuple[FactScope, str] = ("session", place.scope.session)
    return tuple(dict.fromkeys([*checked_scopes(within)[1:], own]))


def _checked_profile(profile: object, fact_share: object) -> Profile:
    found = profile if isinstance(profile, Profile) else PROFILES[one_of("profile", profile, tuple(PROFILES))]
    checked_name("profile", found.name)
    share = _share("fact_share", found.fact_share if fact_share is None else fact_share)
    _share("least_score", found.least_score)
    checked_whole("recent_turns", found.recent_turns)
    one_of("history of a profile", found.history, ("whole", "relevant"))
    one_of("review of a profile", found.review, ("mark", "omit"))
    return msgspec.structs.replace(found, fact_share=share)


def _share(what: str, value: object) -> float:
    if type(value) in (int, float) and 0 <= value <= 1:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise InvalidContent(reason=f"{what} is {shown(value)}, not a share from 0 to 1")


def brief_for(place: Place, role: str, brief: object) -> Brief:
    if brief is not None:
        return checked_brief(brief)
    found = place.context.briefs.get(role)
    if found is None and role:
        known = ", ".join(sorted(place.context.briefs)) or "none"
        raise InvalidContent(reason=f"there is no brief for the role {shown(role)}; known: {known}; see open(briefs=…)")
    return found or Brief()


def prices_for(place: Place, model: str) -> Prices | None:
    return prices_of(model, place.context.prices) if model else None


def effective_budget(place: Place, state: SessionState, asked: Asked) -> int:
    """The budget that was asked for, or what the model's window leaves without its longest answer, if that is less."""
    prices = prices_for(place, asked.model or (state.calibration.model if place.frame is None else ""))
    window = limits.WINDOW_TOKENS
    if prices is not None:
        window = prices.window - (asked.max_output or prices.max_output)
    effective = min(asked.budget, window)
    if effective < limits.PACK_TOKENS:
        raise BudgetTooSmall(budget=effective, least=limits.PACK_TOKENS)
    return effective


def requested(place: Place, state: SessionState, asked: Asked, view: Viewed, display: Display) -> Request:
    query, new, stated = _query(asked.query, view, state.summaries_of(place.frame))
    if stated and not new and view.asked is not None:
        query = shown_message(view.asked, {}, display.readable)[0].text  # with the marker of what is stored
    return Request(
        query=query,
        asked=new,
        stated=stated,
        role=asked.role,
        budget=asked.budget,
        effective=display.budget or asked.budget,
        model=asked.model or "",
        max_output=asked.max_output,
        include=asked.include,
        exclude=asked.exclude,
        force=asked.force,
        within=_own_scopes(place, state, asked.within),
        min_compaction=asked.min_compaction,
        strategy=asked.strategy,
        fact_share=asked.profile.fact_share,
        profile=asked.profile,
        guard=asked.guard,
        time=asked.time,
        audit=asked.audit,
        as_of_us=asked.as_of_us,
    )


def _query(query: str | None, view: Viewed, folded: tuple[SummaryRef, ...]) -> tuple[str, bool, bool]:
    """What a pack is about, whether nobody said it, and whether it is to stand at the end: what the user said last only if
    it is not in view and not answered; what nobody said only if the history leaves nothing to answer."""
    last, answered = view.asked, _answered(view)
    said = "" if last is None else last.text
    if query is not None and (last is None or query.split() != said.split() or answered):
        unsaid = bool(query.strip())
        return query, unsaid, unsaid and not _user_waits(view)
    gone = last is not None and covering(folded, last.seq) is not None and not answered
    return said if query is None else query, False, gone


def _user_waits(view: Viewed) -> bool:
    """Whether a message of the user is in view that nobody has replied to; calls of tools are no reply."""
    for item in reversed(view.shown):
        for message in reversed(item.messages) if isinstance(item, Unit) else ():
            if message.role == "user":
                return True
            if message.role == "assistant" and not message.tool_calls:
                return False
    return False


def _answered(view: Viewed) -> bool:
    """Whether the last word is a reply that calls no tool."""
    for item in reversed(view.shown):
        if isinstance(item, Unit):
            return item.messages[-1].role == "assistant" and not item.messages[-1].tool_calls
    return False


def _own_scopes(place: Place, state: SessionState, within: Within) -> Within:
    """A frame is a task, and so are those above it."""
    above = stack.ancestry(state.frames, place.frame) if place.frame is not None else []
    tasks: list[tuple[FactScope, str]] = [("task", each.id) for each in above]
    return tuple(dict.fromkeys([*within, *tasks]))


def answer_for(place: Place, request: Request) -> int | None:
    if request.max_output is not None or not request.model:
        return request.max_output
    prices = prices_for(place, request.model)
    return _ANSWER if prices is None else min(_ANSWER, prices.max_output or _ANSWER)
