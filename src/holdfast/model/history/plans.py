"""Plans of a compaction: what would leave the history view, what that frees, what it costs, and when it pays. Data
only.

A boundary is an event that changes what a model is shown of a conversation. Between two boundaries every rendering
extends the one before, so the provider's prompt cache stays warm. At a boundary, everything behind the first change is
written again.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, get_args

import msgspec

from holdfast.errors import InvalidArgument, describe_value
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.history.prices import Prices
from holdfast.model.names import Scope, check_whole

Residency: TypeAlias = Literal["resident", "spooled_out", "paged_out", "collapsed"]
"""In the view · out of it, with a preview left · archived · left out of the view with its surroundings."""
Tier: TypeAlias = Literal["durable", "semantic"]
PieceForm: TypeAlias = Literal["excerpt", "snip", "spool", "page", "whole", "lines", "reread", "rewritten"]
"""How a piece of a message is shown: the start and end of an old one · of a long one · the preview of a stored body · a
line that names it · whole, although it is a stored body · the lines of an old one that have names of their own · a line
that says that it was read again later · a line that says that it was written anew or deleted later."""
Level: TypeAlias = Literal["none", "light", "moderate", "aggressive", "critical"]
LEVELS: tuple[Level, ...] = get_args(Level)
READS_BRACKETS = "; read_handle reads the results named in [brackets]"
READS_RESULTS = "; read_handle reads their results: "
"""In a summary by rules, unless no tool reads handles. Stored summaries have these texts: do not change them."""
SummaryAuthor: TypeAlias = Literal["rule", "model"]
"""Who wrote the text of a summary: the rules of the engine, or a model or the program."""
BoundaryReason: TypeAlias = Literal["pays", "forced", "threshold", "cold", "idle", "asked"]
RedactionReason: TypeAlias = Literal["died", "returned", "told"]
"""A fact in view ended · a fact came back · new text states an ended fact."""


class Spool(msgspec.Struct, frozen=True, tag="spool"):
    """Show one large piece by its preview."""

    handle: str


class Snip(msgspec.Struct, frozen=True, tag="snip"):
    """Show pieces longer than a share of the window by their start and end."""

    per_msg_ratio: float
    limit: int
    """That share, in tokens."""


class TimeDecayMicro(msgspec.Struct, frozen=True, tag="time_decay_micro"):
    """Show large tool results by an excerpt, except those of the last turns."""

    over: int
    """A result of more tokens is large."""
    keep: int
    """Tokens of an excerpt."""


class DropOutdated(msgspec.Struct, frozen=True, tag="drop_outdated"):
    """Show tool results that later ones made outdated by a line that says so."""


class KeepLines(msgspec.Struct, frozen=True, tag="keep_lines"):
    """Show old tool results by those of their lines that have names which nothing else in view has."""

    recent: int
    """The results of so many of the newest groups stay."""
    result_share: float
    """The most of the tokens of a result that its lines may have."""


class Collapse(msgspec.Struct, frozen=True, omit_defaults=True, tag="collapse"):
    """Take the oldest groups out of the view until it has so many tokens."""

    target_tokens: int
    summary_tokens: int = 0
    """The most tokens of the summary that replaces them; with 0, a line says how many there were."""


class AutoCompact(msgspec.Struct, frozen=True, tag="auto_compact"):
    """Show all but the last turns as one summary."""

    preserve_turns: int
    tail_tokens: int
    """The most tokens of those turns that stay: a turn of an agent may be longer than any window."""


class SummarizeOldest(msgspec.Struct, frozen=True, tag="summarize_oldest"):
    """Show all but the newest messages as one summary. Nothing is dropped, so it may not be enough."""

    keep_recent: int = 10


class TruncateAt(msgspec.Struct, frozen=True, tag="truncate_at"):
    """Take all but the newest messages out of the view; Critical ones stay. It may not be enough."""

    message_count: int


class PriorityBased(msgspec.Struct, frozen=True, tag="priority_based"):
    """Take out the lowest priority first, and of that the oldest, until the others fit; what is Critical stays."""


class CustomStrategy(msgspec.Struct, frozen=True, omit_defaults=True, tag="custom"):
    """A custom strategy, by the name that it is registered under: `open(strategies={name: function})`."""

    name: str
    rewritten: tuple[int, ...] = ()
    """In a step: the seqs of the messages that a text of the strategy replaces."""


Strategy: TypeAlias = PriorityBased | SummarizeOldest | TruncateAt | CustomStrategy
Op: TypeAlias = (
    Spool
    | Snip
    | TimeDecayMicro
    | DropOutdated
    | KeepLines
    | Collapse
    | AutoCompact
    | SummarizeOldest
    | TruncateAt
    | PriorityBased
    | CustomStrategy
)


def is_fold(op: Op) -> bool:
    """Whether an operation folds groups, and does not only shorten pieces."""
    return not isinstance(op, Spool | Snip | TimeDecayMicro | DropOutdated | KeepLines)


def has_summary(op: Op) -> bool:
    """Whether a summary replaces what an operation folds, and not only a line that says how much it was."""
    if isinstance(op, Collapse):
        return op.summary_tokens > 0
    return isinstance(op, AutoCompact | SummarizeOldest)


def op_name(op: Op) -> str:
    """The name of an operation."""
    return str(op.__struct_config__.tag)


class Reduction(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How one piece of a message is shown from a boundary on."""

    message: int
    """The seq of the message."""
    piece: int
    """Its number: tool results come first, then the parts of the content."""
    form: PieceForm
    head: int = 0
    """Characters of its start that are shown."""
    tail: int = 0
    """Characters of its end that are shown."""
    lines: tuple[tuple[int, int], ...] = ()
    """The lines that are shown, from 0: ranges from one up to another."""
    tokens: int
    """Its tokens before, in the window of the plan."""
    saved: int = 0
    """The tokens that it takes less from now on; below 0 if it takes more."""
    whole: int = 0
    """Tokens of the whole piece, if it has a stored body; else that is `tokens`."""
    size: int
    """Its bytes."""
    digest: str
    """The SHA-256 of its content."""
    ref: BlobRef | None = None
    """Its blob, if it is stored as one."""
    tier: Tier = "durable"
    source: str | None = None
    """The tool call that it is the result of."""


class Fold(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The messages from `first` to `last` are shown as `text`."""

    first: int
    last: int
    messages: tuple[int, ...]
    """The seqs of the messages that it replaces, except those of the summaries in it."""
    summaries: tuple[int, ...] = ()
    """The seqs of the events that made the summaries in it."""
    count: int
    """The number of messages that it replaces in all."""
    replaced: int = 0
    """Their tokens, as they were recorded."""
    text: str
    tokens: int
    made_by: SummaryAuthor = "rule"
    kept: tuple[int, ...] = ()
    """The seqs of the messages from `first` to `last` that stay in view, behind the summary: Critical ones, and those
    that a strategy keeps."""


class Redaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the guard changes in one item of a view: ids only, never values."""

    at: int
    """The seq of the message or the summary; of a group that is shown as one, the first."""
    facts: tuple[str, ...] = ()
    """The ended facts that it states: the index of their ledger among those of the session, and their ids, `0:k7`.
    Facts that the reader may not know are not among them."""
    mark: str = ""
    """A digest of the replacement texts; empty if the item is shown as it was recorded again."""


class PlanFigures(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The figures of a plan. Costs are in picodollars: micro-dollars for a million tokens, times tokens."""

    before: int = 0
    """Tokens of the view, in the provider's count as far as it is known."""
    after: int = 0
    window: int = 0
    rewritten: int = 0
    """Tokens behind the first change that must be written again."""
    rewriting: int = 0
    """The cost of that beyond reading them from the cache; 0 if the cache is lost anyway."""
    summarizing: int = 0
    """The cost of the summary."""
    saves: int = 0
    """The savings at each call from then on."""
    horizon: int = 0
    """The calls until as much again has gathered, by the growth so far."""
    earns: int = 0
    """The savings until then."""
    lost: int = 0
    """The price of the loss: the cost of reading it again, by how likely that is."""
    cold: bool = False
    """The cache is lost anyway."""
    calls: int = 0
    """Model calls of the conversation so far."""
    grown: int = 0
    """The tokens that these calls added."""
    results: int = 0
    """Tool results of the conversation so far."""
    repeats: int = 0
    """Of these, how many answered a repeated call, or read a stored body again."""
    earned: int = 0
    """The savings of all boundaries so far, minus their costs, against a view that shows everything."""

    @property
    def net(self) -> int:
        """The costs minus the savings until as much again has gathered: below 0, it pays."""
        return self.rewriting + self.summarizing + self.lost - self.earns


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a plan, and its effect."""

    op: Op
    first_changed_index: int | None
    """The number of the first item of the view that is shown differently; None if the view only grows."""
    before: int
    after: int
    """Tokens of the view."""


class Occupancy(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a context by what takes them, and those outside of it."""

    tokens: int
    """Everything in view, in the provider's count as far as it is known."""
    system: int
    summaries: int
    messages: int
    resident_tokens: int
    """Everything in view, in the engine's count, and the handles that packs may show."""
    spooled_tokens: int
    """Bodies that are shown by a preview or an excerpt."""
    paged_tokens: int
    collapsed_tokens: int
    """Messages that summaries replace, and handles that a compaction left out."""
    handles: int
    folded: int
    """The messages that summaries replace."""
    boundary: int
    """The seq of the last event that changed the view; 0 for none."""

    @property
    def non_resident_tokens(self) -> int:
        return self.spooled_tokens + self.paged_tokens + self.collapsed_tokens

    @property
    def total_tokens(self) -> int:
        return self.resident_tokens + self.non_resident_tokens


class Faithful(msgspec.Struct, frozen=True, kw_only=True):
    """Use the window: nothing is shortened while the history fits and the cache is warm. The default.

    At `threshold` one boundary folds the oldest messages until `target` of the window is left, so that it lasts. It
    ends before the current turn, whose oldest calls are folded only if the window forces it; its question stays. On a
    cold cache a rewrite is free, so a boundary may come from `cold` on, if it pays including the price of the loss. With
    `recent`, results are shortened first, and what is left decides whether messages are folded.
    """

    name: ClassVar[str] = "faithful"
    threshold: float = 0.85
    """The share of the window from which the history is shortened."""
    target: float = 0.50
    """The share of the window that is left."""
    cold: float = 0.45
    """The share of the window from which it may be shortened when the cache is cold."""
    cold_target: float = 0.25
    """The share that is left then, if it pays."""
    turn_share: float = 0.10
    """How much more of the window may be folded so that the cut is at the start of a turn."""
    least_share: float = 0.10
    """A boundary that frees less of the window is not made, unless the window forces it."""
    summary_share: float = 0.20
    """The most of the window that a summary may take."""
    recent: int = 0
    """Tool results older than so many groups are shortened in place, to lines with names, where that pays; outdated ones
    at any age. 0 for never."""
    result_share: float = 0.30
    """The share of its tokens that such a result may keep."""
    payback_share: float = 0.20
    """What that costs must be saved again within this share of the calls so far."""


class Frugal(msgspec.Struct, frozen=True, kw_only=True):
    """Compact when it pays: when the savings of a boundary, until as much again has gathered, reach its costs. A loss
    has no price."""

    name: ClassVar[str] = "frugal"
    preserve_turns: int = 2
    tail_share: float = 0.125
    """The most of the window that these turns may take; the oldest of them give way."""
    summary_share: float = 0.125
    """The most of the window that a summary may take."""
    least: int = 1_000
    """Fewer tokens are not worth a boundary: the loss has no price."""
    least_share: float = 0.04
    """Nor is a smaller share of the window."""
    large: int = 2_000
    """An old tool result of more tokens is worth an excerpt."""
    excerpt: int = 200
    """Tokens of an excerpt."""
    recent: int = 0
    """Tool results older than so many groups are shortened in place, to lines with names, where that pays; outdated ones
    at any age. Messages are then folded on a cold cache alone, unless the window forces it. 0 for never."""
    result_share: float = 0.30
    """The share of its tokens that such a result may keep."""
    payback_share: float = 0.20
    """What that costs must be saved again within this share of the calls so far."""


class Classic(msgspec.Struct, frozen=True, kw_only=True):
    """Compact by pressure, whatever it costs: by the share of the window that is used. None switches a step off."""

    name: ClassVar[str] = "classic"
    snip: float | None = 0.70
    micro: float | None = 0.80
    collapse: float | None = 0.90
    auto: float | None = 0.95
    target: float = 0.65
    idle_s: int = 3_600
    """After so many seconds without activity, large old results are shown by excerpts; 0 for never."""
    per_msg_ratio: float = 0.10
    preserve_turns: int = 2
    tail_share: float = 0.125
    summary_share: float = 0.125
    large: int = 2_000
    excerpt: int = 200


PlanPolicy: TypeAlias = Faithful | Frugal | Classic
Pressure: TypeAlias = Literal["none", "snip", "micro", "collapse", "auto"]
PolicyName: TypeAlias = Literal["faithful", "frugal", "classic"]
_POLICIES: dict[str, type[PlanPolicy]] = {policy.name: policy for policy in (Faithful, Frugal, Classic)}
_PICO = 10**12
_SMALLEST_FIXED = 0.0001
BOUNDARY_REASONS = {
    "pays": "it pays",
    "forced": "the window forces it, whatever it costs",
    "threshold": "the history takes more of the window than the policy allows",
    "cold": "the cache is cold",
    "idle": "nothing happened for a while",
    "asked": "it was asked for",
}
_THRESHOLDS = ("threshold", "cold", "snip", "micro", "collapse", "auto")


def check_policy(policy: object, default: PlanPolicy) -> PlanPolicy:
    """A policy by its name, or as a struct with valid figures."""
    if policy is None:
        return default
    if type(policy) is str and policy in _POLICIES:
        return _POLICIES[policy]()
    if not isinstance(policy, Faithful | Frugal | Classic):
        names = ", ".join(map(repr, _POLICIES))
        reason = f"pass {names}, a Faithful, a Frugal or a Classic, not {describe_value(policy)}"
        raise InvalidArgument(argument="policy", reason=reason)
    shares = {
        name: getattr(policy, name)
        for name in policy.__struct_fields__
        if name.endswith(("share", "ratio", "target")) or name in _THRESHOLDS
    }
    for name, value in shares.items():
        optional = value is None and isinstance(policy, Classic) and name in _THRESHOLDS
        if not optional and (type(value) not in (int, float) or not 0 < value <= 1):
            reason = f"{describe_value(value)} is not a share of the window above 0 and up to 1"
            raise InvalidArgument(argument=f"policy.{name}", reason=reason)
    if isinstance(policy, Faithful) and (policy.target > policy.threshold or policy.cold_target > policy.cold):
        reason = "a target is above its threshold, so a boundary could free nothing"
        raise InvalidArgument(argument="policy", reason=reason)
    for name in policy.__struct_fields__:
        if name not in shares:
            check_whole(f"policy.{name}", getattr(policy, name), 0, limits.WINDOW_TOKENS)
    return policy


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done to a history view. `explain()` says it in words."""

    scope: Scope
    frame: str | None = None
    version: int
    """The last event that it takes into account."""
    policy: str
    why: BoundaryReason | None = None
    """The reason for it; None if there is nothing to do."""
    steps: tuple[PlanStep, ...] = ()
    reduced: tuple[Reduction, ...] = ()
    fold: Fold | None = None
    figures: PlanFigures = PlanFigures()
    """Of what is to be done; if that is nothing, of the best alternative."""
    considered: tuple[tuple[str, PlanFigures], ...] = ()
    """The alternatives, each with its figures."""
    prices: Prices | None = None
    target_met: bool = True
    """Whether the view, with the handles that a strategy chose among, will fit; and whether a collapse reaches its
    target."""
    more: bool = False
    """There were more items than can be read at once: plan again after this one."""
    at: int | None = None
    """The seq of the event that carried it out, if one did."""
    level: Level = "none"
    """The worst loss: something is shortened, summarised, or taken out, by its priority."""
    handles: tuple[str, ...] = ()
    """The handles of the frame that packs leave out from then on."""
    handle_tokens: int = 0
    """Of all handles of the frame that packs may show; 0 without a strategy."""
    freed_tokens: int = 0
    """Of those that packs leave out."""

    @property
    def empty(self) -> bool:
        return not self.reduced and self.fold is None and not self.handles

    @property
    def original(self) -> int:
        """Tokens before, of the view and these handles."""
        return self.figures.before + self.handle_tokens

    @property
    def final(self) -> int:
        """Tokens after."""
        return self.figures.after + self.handle_tokens - self.freed_tokens

    @property
    def removed(self) -> tuple[str, ...]:
        """What is taken out: messages (`m5`), counted by a line, and handles (`h7`)."""
        return (*self._folded_ids(summarised=False), *self.handles)

    @property
    def summarised(self) -> tuple[str, ...]:
        """The messages that a summary replaces."""
        return self._folded_ids(summarised=True)

    @property
    def items_removed(self) -> int:
        return len(self.removed)

    @property
    def items_summarised(self) -> int:
        return len(self.summarised)

    def _folded_ids(self, *, summarised: bool) -> tuple[str, ...]:
        if self.fold is None:
            return ()
        rewritten = {seq for op in self.ops if isinstance(op, CustomStrategy) for seq in op.rewritten}
        all_summarised = any(map(has_summary, self.ops))
        return tuple(f"m{seq}" for seq in self.fold.messages if (all_summarised or seq in rewritten) == summarised)

    @property
    def ops(self) -> tuple[Op, ...]:
        return tuple(step.op for step in self.steps)

    @property
    def first_changed(self) -> int | None:
        """The number of the first item of the view that is shown differently; None for none."""
        changed = [step.first_changed_index for step in self.steps if step.first_changed_index is not None]
        return min(changed, default=None)

    def explain(self) -> str:
        """The figures in words: what it frees, what it costs, when it pays back, or why it is refused."""
        return explain_plan(self)


# Plans in words


def format_cost(cost: int) -> str:
    """Picodollars as dollars, with as many digits as are useful."""
    dollars = cost / _PICO
    if dollars == 0:
        return "$0"
    if abs(dollars) >= 1:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if abs(dollars) >= _SMALLEST_FIXED else f"${dollars:.2g}"


def explain_plan(plan: Plan) -> str:
    figures = plan.figures
    share = f"{figures.before / figures.window:.0%} of the window of {figures.window:,}" if figures.window else ""
    lines = [f"The view has {figures.before:,} tokens: {share}. Policy: {plan.policy}."]
    if plan.why is None:
        lines += _describe_refusal(plan)
    else:
        lines += [_describe_steps(plan), *_describe_costs(plan, figures)]
    over = plan.final - figures.window
    if not plan.target_met and over <= 0:
        lines.append(
            f"It will fit, but a collapse does not reach its target: {figures.after:,} tokens stay, which are pinned,"
            " Critical, or new to the model."
        )
    elif not plan.target_met:
        lines.append(
            f"It will not fit: {over:,} tokens too many are pinned, new to the model, or stand before it. Take a larger"
            " window, or split what is new."
        )
    return "\n".join(lines)


def _describe_steps(plan: Plan) -> str:
    figures = plan.figures
    steps = ", then ".join(
        f"{op_name(step.op)} (from item {step.first_changed_index} on, {step.before:,} to {step.after:,} tokens)"
        for step in plan.steps
    )
    most = "" if plan.fold is None or plan.fold.text else "up to "
    folded = (
        ""
        if plan.fold is None
        else f" {plan.fold.count:,} messages become a summary of {most}{plan.fold.tokens:,} tokens."
    )
    reduced = "" if not plan.reduced else f" {len(plan.reduced):,} pieces are shown in a shorter form."
    freed = figures.before - figures.after
    reason = BOUNDARY_REASONS[plan.why or "asked"]
    return f"Plan, because {reason}: {steps}.{folded}{reduced} Frees {freed:,} tokens."


def _describe_costs(plan: Plan, figures: PlanFigures) -> list[str]:
    if plan.prices is None:
        return []
    is_listed = plan.prices.provider != "unknown"
    model = (
        f"{plan.prices.provider}/{plan.prices.model}"
        if is_listed
        else "prices unknown: as if input were $1 for a million"
    )
    if figures.cold:
        cost = "The cache is cold, so writing the rest anew costs nothing extra"
    else:
        extra = format_cost(figures.rewriting)
        cost = f"Writing {figures.rewritten:,} tokens anew costs {extra} more than reading them from the cache"
    summary = f", the summary {format_cost(figures.summarizing)}" if figures.summarizing else ""
    lines = [f"{cost}{summary} ({model})."]
    if figures.lost:
        share = f"{figures.repeats} of {figures.results} results were asked for again so far"
        lines.append(f"The expected cost of reading removed content again is {format_cost(figures.lost)} ({share}).")
    at_once = (
        figures.earns - figures.saves * (figures.before - figures.after) // _growth_per_call(figures)
        if figures.cold
        else 0
    )
    back = max(0, figures.rewriting + figures.summarizing - max(0, at_once))
    if figures.saves > 0:
        calls = -(-back // figures.saves)
        when = "at once" if not back else f"after {calls:,} call{'' if calls == 1 else 's'}"
        growth = f"at {_growth_per_call(figures):,} tokens a call"
        lines.append(
            f"It saves {format_cost(figures.saves)} at each call, so it pays back {when}; {growth},"
            f" the same amount builds up again in {figures.horizon:,}."
        )
    return lines


def _growth_per_call(figures: PlanFigures) -> int:
    return figures.grown // max(1, figures.calls)


def _describe_refusal(plan: Plan) -> list[str]:
    figures = plan.figures
    freed = figures.before - figures.after
    if not freed and plan.policy == Faithful.name and figures.before <= figures.window:
        return ["Nothing to do: the history fits, or what is old would free too little, so all of it is shown."]
    if not freed:
        return ["Nothing to do: nothing that the model has seen, outside of the last turns, would free enough."]
    lines = [f"Not now: the best that could be done would free {freed:,} tokens.", *_describe_costs(plan, figures)]
    if figures.net > 0:
        costs, earns = format_cost(figures.rewriting + figures.summarizing), format_cost(figures.earns)
        lines.append(f"That costs {costs}, and {earns} would be saved until as much again has gathered: not yet.")
    return lines
