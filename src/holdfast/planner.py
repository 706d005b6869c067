"""The pure planners, for programs that manage a context themselves: no engine, no store, no clock, no I/O.

`plan_eviction` says what should leave a conversation's view now, what that frees and what it costs; `plan_spool` says
what is shown of one large body. The engine decides with the same functions. The parts of the classic policy are here by
themselves: `pressure` (how hard the window presses), `is_idle`, and `eviction_ops` (the operations for both, in order).

Laws: the same input gives the same plan; nothing of the input is changed; a plan is a proposal, and carrying it out is
up to the caller.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec

from holdfast import codec
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.context.extract import extract
from holdfast.context.plan import (
    Ground,
    Summarize,
    Tools,
    eviction_ops,
    filled,
    is_idle,
    outline,
    plan,
    pressure,
)
from holdfast.core import previews
from holdfast.core.calibrate import calibrated
from holdfast.core.previews import Spooling
from holdfast.core.shown import by_message, item_shown
from holdfast.core.units import grouped
from holdfast.errors import InvalidContent, shown
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.names import Scope, checked_flag, checked_whole
from holdfast.model.plan import Faithful, Plan, PlanPolicy, PolicyName, Prices, checked_policy
from holdfast.model.prices import UNKNOWN
from holdfast.model.state import Calibration, SessionState, ViewState

__all__ = ["SpoolDecision", "eviction_ops", "is_idle", "plan_eviction", "plan_spool", "pressure"]

_NOWHERE = Scope("default", "main", "planner")
"""The scope of a plan that belongs to no session."""


class SpoolDecision(msgspec.Struct, frozen=True):
    """What is shown in place of a large body."""

    original_size: int
    """Bytes of the whole body."""
    preview: str
    """Its beginning and its end (of JSON, its structure), and a line with its size that says how much is shown."""
    shown_bytes: int
    """How much of the body that is."""


def plan_spool(
    body: Json,
    threshold: int = limits.SPOOL_BYTES,
    preview: int = limits.PREVIEW_BYTES,
    *,
    handle: str = "",
) -> SpoolDecision | None:
    """Whether a text or JSON value is to be stored apart, and what is shown of it then; None if it stays where it is.

    It is stored apart if it has more than `threshold` bytes and its preview, of up to `preview` bytes cut between two
    lines or characters, is shorter. A threshold of 0 switches this off. With a `handle`, the line that stands for the rest
    says how to read it; storing the body is up to the caller."""
    spooling = Spooling(threshold=checked_whole("threshold", threshold), preview=checked_whole("preview", preview))
    if not threshold:
        return None
    text = body if type(body) is str else codec.encode(codec.checked_json("the body", body)).decode()
    size = len(codec.checked_text("the body", text).encode())
    found = previews.of_text(text, spooling) if text is body else previews.of_json(body, size, spooling)
    if found is None or size <= threshold:
        return None
    part = sum(len(each.encode()) for each in previews.ends_of(*found))
    return SpoolDecision(original_size=size, preview=previews.with_marker(*found, size, handle), shown_bytes=part)


def plan_eviction(
    conversation: Sequence[Item | Message],
    *,
    window: int,
    policy: PlanPolicy | PolicyName | None = None,
    prices: Prices | None = None,
    now_us: int = 0,
    cold: bool = False,
    overhead: int = 0,
    view: ViewState | None = None,
    count: Callable[[str], int] | None = None,
    summarize: Callable[[Sequence[Item], int], str] | None = None,
) -> Plan:
    """What should leave the view of a conversation now; a plan without steps if nothing should.

    `conversation` is messages in order, as messages() has them, or the items of a history. `window` is the tokens that all
    of it may have, `overhead` of them for what stands before it. `now_us` is the time, for what depends on it: the
    cache's life and idle decay; at 0 neither passes. `cold` says that the cache is lost for another reason. `view` is how
    pieces are shown already. `policy` is faithful, frugal or classic, `prices` those of the model; without them, ratios
    that are usual. `count` counts tokens (without one, the estimator that engines have), and `summarize` makes a text of
    at most so many tokens of items (without one, the rules that engines have)."""
    counter = EstimatingCounter().count if count is None else count
    items = _items(conversation)
    ground = Ground(
        scope=_NOWHERE,
        version=max((item.last for item in items), default=0),
        system=checked_whole("overhead", overhead, 0, limits.WINDOW_TOKENS),
        items=items,
        view=ViewState() if view is None else view,
        window=checked_whole("window", window, 1, limits.WINDOW_TOKENS),
        prices=UNKNOWN if prices is None else prices,
        now_us=checked_whole("now_us", now_us),
        cold=checked_flag("cold", cold),
    )
    tools = Tools(functools.partial(calibrated, Calibration()), counter)
    make = functools.partial(_extracted, counter) if summarize is None else summarize
    return _with_text(ground, plan(ground, checked_policy(policy, Faithful()), tools), tools, make)


def _items(conversation: Sequence[Item | Message]) -> tuple[Item, ...]:
    if all(isinstance(each, Message) for each in conversation):
        return tuple(grouped((each for each in conversation if isinstance(each, Message)), SessionState()))
    for each in conversation:
        if not isinstance(each, Unit | Summary):
            reason = f"a conversation is messages, or the items of a history, not {shown(each)}"
            raise InvalidContent(reason=reason)
    return tuple(each for each in conversation if not isinstance(each, Message))


def _extracted(count: Callable[[str], int], items: Sequence[Item], tokens: int) -> str:
    return extract(items, tokens, count)


def _with_text(ground: Ground, made: Plan, tools: Tools, make: Summarize) -> Plan:
    """The plan with the text of its summary: one that is empty or too long gives way to a line that counts what is gone."""
    fold = made.fold
    if fold is None or fold.text:
        return made
    reductions = by_message((*ground.view.reduced, *made.reduced))
    folded = (item for item in ground.items if item.last <= fold.last)
    inside = [item_shown(item, reductions) for item in folded if item.seq not in fold.kept]
    text = make(inside, fold.tokens)
    if not text.strip() or tools.count(text) > fold.tokens:
        text = outline(inside)
    return filled(made, inside, text, tools)
