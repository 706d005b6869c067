"""Plans: what would leave the view of a conversation, what that frees, what it costs, and when it pays. Data only.

A boundary is an event that changes what a model is shown of a conversation. Between two of them every rendering extends the
one before, so a provider's prompt cache stays warm; at one, what stands behind the first change is written anew.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, get_args

import msgspec

from holdfast.errors import InvalidContent, shown
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.names import Scope, checked_whole

Residency: TypeAlias = Literal["resident", "spooled_out", "paged_out", "collapsed"]
"""In the view; out of it with a preview left; archived; projected out of the view with all around it."""
Tier: TypeAlias = Literal["durable", "semantic"]
Form: TypeAlias = Literal["excerpt", "snip", "spool", "page", "whole"]
"""How a piece of a message is shown: the beginning and end of what is old; of what is too long; the preview of what lies in
the blob store; a line that names it; or whole, though it lies in the blob store."""
Level: TypeAlias = Literal["none", "light", "moderate", "aggressive", "critical"]
LEVELS: tuple[Level, ...] = get_args(Level)
Why: TypeAlias = Literal["pays", "forced", "threshold", "cold", "idle", "asked"]
RedactionWhy: TypeAlias = Literal["died", "returned", "told"]
"""A fact that was shown died · one that was not came back · what is new tells a dead one."""


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """What a model costs, in micro-dollars for a million tokens: 3_000_000 is $3."""

    provider: str
    model: str
    input: int
    """A token of the prompt that is neither read from a cache nor written to one."""
    cache_read: int
    cache_write: int
    """What the provider takes for a token that is new in a cached prompt: `input`, where writing costs nothing."""
    output: int
    ttl_s: int = 300
    """How long an unused cache stays warm."""
    window: int
    max_output: int


class Spool(msgspec.Struct, frozen=True, tag="spool"):
    """Show one large piece by its preview."""

    handle: str


class Snip(msgspec.Struct, frozen=True, tag="snip"):
    """Show what is longer than a share of the window by its beginning and end."""

    per_msg_ratio: float
    limit: int
    """That share, in tokens."""


class TimeDecayMicro(msgspec.Struct, frozen=True, tag="time_decay_micro"):
    """Show large tool results by an excerpt, those of the last turns excepted."""

    over: int
    """What is large, in tokens."""
    keep: int
    """Tokens of an excerpt."""


class Collapse(msgspec.Struct, frozen=True, omit_defaults=True, tag="collapse"):
    """Take the oldest units out of the view until it has so many tokens."""

    target_tokens: int
    summary_tokens: int = 0
    """The most tokens of the summary that takes their place; with 0, a line says how many there were."""


class AutoCompact(msgspec.Struct, frozen=True, tag="auto_compact"):
    """Show all but the last turns as one summary."""

    preserve_turns: int
    tail_tokens: int
    """The most tokens of those turns that stay: a turn of an agent may be longer than any window."""


class SummarizeOldest(msgspec.Struct, frozen=True, tag="summarize_oldest"):
    """Show all but the newest messages as one summary. Nothing is dropped, so it may not be enough."""

    keep_recent: int = 10


class TruncateAt(msgspec.Struct, frozen=True, tag="truncate_at"):
    """Take all but the newest messages out of the view; what is Critical stays. It may not be enough."""

    message_count: int


class PriorityBased(msgspec.Struct, frozen=True, tag="priority_based"):
    """Take what has the lowest priority out first, and of that the oldest, until the rest fits; what is Critical stays."""


class CustomStrategy(msgspec.Struct, frozen=True, omit_defaults=True, tag="custom"):
    """A strategy of one's own, by the name that it was registered under: `open(strategies={name: function})`."""

    name: str
    rewritten: tuple[int, ...] = ()
    """Where it was followed: the seqs of the messages whose place a text of its own takes."""


Strategy: TypeAlias = PriorityBased | SummarizeOldest | TruncateAt | CustomStrategy
Op: TypeAlias = (
    Spool
    | Snip
    | TimeDecayMicro
    | Collapse
    | AutoCompact
    | SummarizeOldest
    | TruncateAt
    | PriorityBased
    | CustomStrategy
)


def folds(op: Op) -> bool:
    """Whether an operation folds units, and does not only show pieces in a shorter form."""
    return not isinstance(op, Spool | Snip | TimeDecayMicro)


def summarises(op: Op) -> bool:
    """Whether a summary takes the place of what an operation folds, and not only a line that says how much it was."""
    if isinstance(op, Collapse):
        return op.summary_tokens > 0
    return isinstance(op, AutoCompact | SummarizeOldest)


def label(op: Op) -> str:
    """What an operation is called."""
    return str(op.__struct_config__.tag)


class Reduction(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How one piece of a message is shown from a boundary on."""

    message: int
    """The seq of the message."""
    piece: int
    """Which one: its tool results come first, then the parts of its content."""
    form: Form
    head: int = 0
    """Characters of its beginning that are shown."""
    tail: int = 0
    """And of its end."""
    tokens: int
    """What it took before, in the window that it was planned for."""
    saved: int = 0
    """Tokens that it takes less from now on; less than 0 if it takes more."""
    whole: int = 0
    """Tokens of the whole piece, if it holds a stored body; else that is `tokens`."""
    size: int
    """Its bytes."""
    digest: str
    """The SHA-256 of its content."""
    ref: BlobRef | None = None
    """Where it lies in the blob store, if it does."""
    tier: Tier = "durable"
    source: str | None = None
    """The tool call that it is the result of."""


MadeBy: TypeAlias = Literal["rule", "model"]
"""Who made the text of a summary: the rules of this library, or a model or the program."""


class Fold(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The messages from `first` to `last` are shown as `text`."""

    first: int
    last: int
    messages: tuple[int, ...]
    """The seqs of those that it stands for, those of summaries that it takes in excepted."""
    summaries: tuple[int, ...] = ()
    """The seqs of the events that made those."""
    count: int
    """How many messages it stands for in all."""
    replaced: int = 0
    """Their tokens, as they were recorded."""
    text: str
    tokens: int
    made_by: MadeBy = "rule"
    kept: tuple[int, ...] = ()
    """The seqs of the messages from `first` to `last` that stay in view, behind the summary: those that are Critical, and
    those that a strategy keeps."""


class Redacted(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the guard does to one item of a view: ids alone, never what they say."""

    at: int
    """The seq of the message or the summary; the first one's, of what is shown as one."""
    facts: tuple[str, ...] = ()
    """The dead facts that it tells: the place of their ledger among those that the session reads, and their ids, `0:k7`.
    What the reader may not know of is not among them."""
    mark: str = ""
    """A digest of what is put in place of them; empty if it is shown as it was recorded again."""


class Figures(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a plan was decided on. Costs are in picodollars: micro-dollars for a million tokens, times tokens."""

    before: int = 0
    """Tokens of the view, as far as is known in the provider's own count."""
    after: int = 0
    window: int = 0
    rewritten: int = 0
    """Tokens behind the first change that the last call had, or that are new: they must be written."""
    rewriting: int = 0
    """What that costs beyond reading them from the cache; nothing if the cache is lost anyway."""
    summarizing: int = 0
    """What the summary itself costs."""
    saves: int = 0
    """What it saves at each call from then on."""
    horizon: int = 0
    """In how many calls as much again will have gathered, by what a call has added so far."""
    earns: int = 0
    """What it saves until then."""
    lost: int = 0
    """The price of what is forgotten: what reading it again costs, by how likely it is asked for again."""
    cold: bool = False
    """The cache is lost anyway."""
    calls: int = 0
    """Model calls of the conversation so far."""
    grown: int = 0
    """Tokens that they ever added to it."""
    results: int = 0
    """Tool results of the conversation so far."""
    repeats: int = 0
    """Of these, how many answered a call that had been made before, or read a stored body again."""

    @property
    def net(self) -> int:
        """What it costs more than it saves until as much again has gathered: below 0, it pays."""
        return self.rewriting + self.summarizing + self.lost - self.earns


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a plan, and what it does."""

    op: Op
    first_changed_index: int | None
    """The number of the first item of the view that is shown otherwise; None if it only extends."""
    before: int
    after: int
    """Tokens of the view."""


class Occupancy(msgspec.Struct, frozen=True, kw_only=True):
    """What takes how much of a context, in tokens, and what was taken out of it."""

    tokens: int
    """All that is in view, as far as is known in the provider's own count."""
    system: int
    summaries: int
    messages: int
    resident_tokens: int
    """What is in view, as we count, and the handles that packs may show."""
    spooled_tokens: int
    """What is shown by a preview or an excerpt instead."""
    paged_tokens: int
    collapsed_tokens: int
    """What summaries stand for, and the handles that a compaction left out."""
    handles: int
    folded: int
    """Messages that summaries stand for."""
    boundary: int
    """The seq of the last event that changed what is shown; 0 for none."""

    @property
    def non_resident_tokens(self) -> int:
        return self.spooled_tokens + self.paged_tokens + self.collapsed_tokens

    @property
    def total_tokens(self) -> int:
        return self.resident_tokens + self.non_resident_tokens


class Faithful(msgspec.Struct, frozen=True, kw_only=True):
    """Use the window: nothing is shortened while the history fits and the cache is warm. The default.

    At `threshold` one boundary folds the oldest messages until `target` of the window is left, so that it lasts. What it
    folds ends before the current turn, whose oldest calls are folded only if the window forces it; its question stays. On
    a cold cache a rewrite is free, so a boundary may come from `cold` on, if it pays with the price of what is
    forgotten."""

    name: ClassVar[str] = "faithful"
    threshold: float = 0.85
    """The share of the window from which the history is shortened."""
    target: float = 0.50
    """The share of the window that is left."""
    cold: float = 0.45
    """The share of the window from which it may be shortened when the cache is cold."""
    cold_target: float = 0.25
    """The share that is left then, if the price says so."""
    turn_share: float = 0.10
    """How much more of the window may be folded so that the cut is at the beginning of a turn."""
    least_share: float = 0.10
    """A boundary that frees less of the window is not made, unless the window forces it."""
    summary_share: float = 0.20
    """The most of the window that a summary may take."""


class Frugal(msgspec.Struct, frozen=True, kw_only=True):
    """Compact when it pays: when what a boundary saves, until as much again has gathered, reaches what it costs. What is
    forgotten has no price."""

    name: ClassVar[str] = "frugal"
    preserve_turns: int = 2
    tail_share: float = 0.125
    """The most of the window that these turns may take; the oldest of them give way."""
    summary_share: float = 0.125
    """The most of the window that a summary may take."""
    least: int = 1_000
    """Fewer tokens are not worth a boundary: what is lost in words has no price."""
    least_share: float = 0.04
    """Nor is less than this share of the window."""
    large: int = 2_000
    """From so many tokens on, an old tool result is worth an excerpt."""
    excerpt: int = 200
    """Tokens of an excerpt."""


class Classic(msgspec.Struct, frozen=True, kw_only=True):
    """Compact by pressure, whatever it costs: tokens in view as a share of the window. None switches a step off."""

    name: ClassVar[str] = "classic"
    snip: float | None = 0.70
    micro: float | None = 0.80
    collapse: float | None = 0.90
    auto: float | None = 0.95
    target: float = 0.65
    idle_s: int = 3_600
    """After so long without activity, large old results are shown by excerpts; 0 for never."""
    per_msg_ratio: float = 0.10
    preserve_turns: int = 2
    tail_share: float = 0.125
    summary_share: float = 0.125
    large: int = 2_000
    excerpt: int = 200


PlanPolicy: TypeAlias = Faithful | Frugal | Classic
PolicyName: TypeAlias = Literal["faithful", "frugal", "classic"]
_POLICIES: dict[str, type[PlanPolicy]] = {each.name: each for each in (Faithful, Frugal, Classic)}
_THRESHOLDS = ("threshold", "cold", "snip", "micro", "collapse", "auto")


def checked_policy(policy: object, default: PlanPolicy) -> PlanPolicy:
    """A policy by its name, or as a struct whose figures make sense."""
    if policy is None:
        return default
    if type(policy) is str and policy in _POLICIES:
        return _POLICIES[policy]()
    if not isinstance(policy, Faithful | Frugal | Classic):
        names = ", ".join(map(repr, _POLICIES))
        raise InvalidContent(reason=f"a policy is {names}, a Faithful, a Frugal or a Classic, not {shown(policy)}")
    shares = {
        name: getattr(policy, name)
        for name in policy.__struct_fields__
        if name.endswith(("share", "ratio", "target")) or name in _THRESHOLDS
    }
    for name, value in shares.items():
        optional = value is None and isinstance(policy, Classic) and name in _THRESHOLDS
        if not optional and (type(value) not in (int, float) or not 0 < value <= 1):
            raise InvalidContent(reason=f"{name} is {shown(value)}, not a share of the window above 0 and up to 1")
    if isinstance(policy, Faithful) and (policy.target > policy.threshold or policy.cold_target > policy.cold):
        raise InvalidContent(reason="a target is above the threshold that it is for: a boundary could free nothing")
    for name in policy.__struct_fields__:
        if name not in shares:
            checked_whole(name, getattr(policy, name), 0, limits.WINDOW_TOKENS)
    return policy


Pressure: TypeAlias = Literal["none", "snip", "micro", "collapse", "auto"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done to the view of a conversation. `explain()` says it in words."""

    scope: Scope
    frame: str | None = None
    version: int
    """The last event that it knows of."""
    policy: str
    why: Why | None = None
    """What calls for it; None if nothing does, and nothing is to be done."""
    steps: tuple[Step, ...] = ()
    reduced: tuple[Reduction, ...] = ()
    fold: Fold | None = None
    figures: Figures = Figures()
    """Of what is to be done; if that is nothing, of the best that could be."""
    considered: tuple[tuple[str, Figures], ...] = ()
    """What else could be done, each with its figures."""
    prices: Prices | None = None
    target_met: bool = True
    """Whether the view, with the handles that a strategy was asked about, will fit; and whether a collapse reaches its
    target."""
    more: bool = False
    """There was more than could be looked at: plan again once this is done."""
    at: int | None = None
    """The seq of the event that carried it out, once one did."""
    level: Level = "none"
    """The worst that happens to something: it is shortened, summarised, or taken out, by its priority."""
    handles: tuple[str, ...] = ()
    """The handles of the frame that packs leave out from then on."""
    handle_tokens: int = 0
    """Of all handles of the frame that packs may show; 0 if no strategy asked for them."""
    freed_tokens: int = 0
    """Of those that packs leave out."""

    @property
    def empty(self) -> bool:
        return not self.reduced and self.fold is None and not self.handles

    @property
    def original(self) -> int:
        """Tokens before, of the view and the handles that it is about."""
        return self.figures.before + self.handle_tokens

    @property
    def final(self) -> int:
        """Tokens after."""
        return self.figures.after + self.handle_tokens - self.freed_tokens

    @property
    def removed(self) -> tuple[str, ...]:
        """What is taken out: messages (`m5`), of which a line says how many there were, and handles (`h7`)."""
        return (*self._left(summarised=False), *self.handles)

    @property
    def summarised(self) -> tuple[str, ...]:
        """The messages that a summary stands for."""
        return self._left(summarised=True)

    @property
    def items_removed(self) -> int:
        return len(self.removed)

    @property
    def items_summarised(self) -> int:
        return len(self.summarised)

    def _left(self, *, summarised: bool) -> tuple[str, ...]:
        if self.fold is None:
            return ()
        told = {seq for op in self.ops if isinstance(op, CustomStrategy) for seq in op.rewritten}
        whole = any(map(summarises, self.ops))
        return tuple(f"m{seq}" for seq in self.fold.messages if (whole or seq in told) == summarised)

    @property
    def ops(self) -> tuple[Op, ...]:
        return tuple(step.op for step in self.steps)

    @property
    def first_changed(self) -> int | None:
        """The number of the first item of the view that is shown otherwise; None if none is."""
        changed = [each.first_changed_index for each in self.steps if each.first_changed_index is not None]
        return min(changed, default=None)

    def explain(self) -> str:
        """The figures in words: what it frees, what it costs, when it pays back, or why it is refused."""
        from holdfast.model.explain import explained  # noqa: PLC0415 - words are wanted by few

        return explained(self)
