"""The pure planners, for programs that manage a context themselves: no engine, no store, no clock, no I/O.

`plan_eviction` says what should leave a history view now, what that frees and what it costs. `plan_spool` says what is
shown of one large body. The engine uses the same functions. The parts of the classic policy are available too:
`pressure` (how full the window is), `is_idle`, and `eviction_ops` (the operations for both, in order).

Laws: the same input gives the same plan. No input is changed. A plan is a proposal: carrying it out is up to the
caller.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec

from holdfast import codec
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.core.history import previews
from holdfast.core.history.draft import PlanInput, PlanTools, SummarizeItems
from holdfast.core.history.outlines import build_outline
from holdfast.core.history.planner import build_plan, eviction_ops, fill_plan, is_idle, pressure
from holdfast.core.history.previews import Spooling
from holdfast.core.history.views import group_by_message, group_messages, show_for_summary
from holdfast.errors import InvalidArgument, describe_value
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.history.plans import Faithful, Plan, PlanPolicy, PolicyName, check_policy
from holdfast.model.history.prices import UNKNOWN_PRICES, Prices
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.names import Scope, check_flag, check_whole
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import Calibration, SessionState, ViewState
from holdfast.text.extract.summary import extract_summary

__all__ = ["SpoolDecision", "eviction_ops", "is_idle", "plan_eviction", "plan_spool", "pressure"]
_PLANNER_SCOPE = Scope("default", "main", "planner")
"""The scope of a plan that belongs to no session."""


class SpoolDecision(msgspec.Struct, frozen=True):
    """What is shown in place of a large body."""

    original_size: int
    """Bytes of the whole body."""
    preview: str
    """Its start and its end (of JSON, its structure), and a line with its size that says how much is shown."""
    shown_bytes: int
    """The bytes of the body that are shown."""


def plan_spool(
    body: Json, threshold: int = limits.SPOOL_BYTES, preview: int = limits.PREVIEW_BYTES, *, handle: str = ""
) -> SpoolDecision | None:
    """Whether a text or JSON value should be stored apart, and what is shown of it then; None if it should stay.

    It is stored apart if it has more than `threshold` bytes and its preview, of up to `preview` bytes cut between two
    lines or characters, is shorter. A threshold of 0 switches this off. With a `handle`, the marker says how to read
    the rest. Storing the body is up to the caller.
    """
    spooling = Spooling(threshold=check_whole("threshold", threshold), preview=check_whole("preview", preview))
    if not threshold:
        return None
    text = body if type(body) is str else codec.encode(codec.check_json("the body", body)).decode()
    size = len(codec.check_text("the body", text).encode())
    shown = previews.preview_text(text, spooling) if text is body else previews.preview_json(body, size, spooling)
    if shown is None or size <= threshold:
        return None
    part = sum(len(end.encode()) for end in previews.split_ends(*shown))
    return SpoolDecision(original_size=size, preview=previews.add_marker(*shown, size, handle), shown_bytes=part)


def plan_eviction(
    conversation: Sequence[HistoryItem | Message],
    *,
    window: int,
    policy: PlanPolicy | PolicyName | None = None,
    prices: Prices | None = None,
    now_us: int = 0,
    cold: bool = False,
    overhead: int = 0,
    view: ViewState | None = None,
    count: Callable[[str], int] | None = None,
    summarize: Callable[[Sequence[HistoryItem], int], str] | None = None,
) -> Plan:
    """What should leave the view of a conversation now; a plan without steps if nothing should.

    `conversation` is messages in order, as messages() returns them, or the items of a history view. `window` is the
    tokens that all of it may have, `overhead` those of everything before it. `now_us` is the time, for the age of the
    cache and idle decay; at 0 no time passes. `cold` says that the cache is lost for another reason. `view` says how
    pieces are shown already. `policy` is faithful, frugal or classic. `prices` are those of the model; by default,
    usual ratios. `count` counts tokens (by default, the estimator of engines), and `summarize` makes a text of at most
    so many tokens of items (by default, the rules of engines).
    """
    counter = EstimatingCounter().count if count is None else count
    items = _check_items(conversation)
    inputs = PlanInput(
        scope=_PLANNER_SCOPE,
        version=max((item.last for item in items), default=0),
        system=check_whole("overhead", overhead, 0, limits.WINDOW_TOKENS),
        items=items,
        view=ViewState() if view is None else view,
        window=check_whole("window", window, 1, limits.WINDOW_TOKENS),
        prices=UNKNOWN_PRICES if prices is None else prices,
        now_us=check_whole("now_us", now_us),
        cold=check_flag("cold", cold),
    )
    tools = PlanTools(Calibration().measure, counter)
    writer = functools.partial(_extract, counter) if summarize is None else summarize
    return _add_summary_text(inputs, build_plan(inputs, check_policy(policy, Faithful()), tools), tools, writer)


def _check_items(conversation: Sequence[HistoryItem | Message]) -> tuple[HistoryItem, ...]:
    if all(isinstance(item, Message) for item in conversation):
        return tuple(group_messages((item for item in conversation if isinstance(item, Message)), SessionState()))
    for item in conversation:
        if not isinstance(item, MessageGroup | Summary):
            reason = f"pass messages, or the items of a history view, not {describe_value(item)}"
            raise InvalidArgument(argument="conversation", reason=reason)
    return tuple(item for item in conversation if not isinstance(item, Message))


def _extract(count: Callable[[str], int], items: Sequence[HistoryItem], tokens: int) -> str:
    return extract_summary(items, tokens, count)


def _add_summary_text(inputs: PlanInput, plan: Plan, tools: PlanTools, writer: SummarizeItems) -> Plan:
    """The plan with the text of its summary. An outline replaces a text that is empty or too long."""
    fold = plan.fold
    if fold is None or fold.text:
        return plan
    reductions = group_by_message((*inputs.view.reduced, *plan.reduced))
    folded = (item for item in inputs.items if item.last <= fold.last)
    shown = [show_for_summary(item, reductions) for item in folded if item.seq not in fold.kept]
    text = writer(shown, fold.tokens)
    if not text.strip() or tools.count(text) > fold.tokens:
        text = build_outline(shown)
    return fill_plan(plan, shown, text, tools)
