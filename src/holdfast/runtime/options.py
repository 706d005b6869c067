"""Option types of calls with many parameters.

Each is a typed dict: pass the options as keywords, or build a dict and pass it with `**`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.core.history.levels import CustomFunction, StrategyArgument
from holdfast.core.history.previews import Spooling
from holdfast.flows.facts.queries import Scopes
from holdfast.flows.frames.frames import FrameReference
from holdfast.model.facts.fact import MemoryType
from holdfast.model.frames.frames import FrameState, Reservation, TokenWeights
from holdfast.model.history.handles import Priority
from holdfast.model.history.plans import Level, PlanPolicy, PolicyName
from holdfast.model.history.prices import Prices
from holdfast.model.names import LedgerId
from holdfast.model.packs.pack import GuardMode
from holdfast.model.sessions.layers import Identity
from holdfast.ports import Clock, Detector, Embedder, Extractor, IdSource, Memory, Summarizer

if TYPE_CHECKING:
    from holdfast.runtime.telemetry import Telemetry


class EngineOptions(TypedDict, total=False):
    """Options of `holdfast.open()` that few programs need."""

    detector: Detector | None
    """Proposes the changes that a message makes to facts; the default uses rules and no model."""
    summarizer: Summarizer | None
    """Writes summaries; the default is an extract that needs no model."""
    memory: Memory | None
    """A long-term memory of your own; the default is in the store itself."""
    embedder: Embedder | None
    """Turns texts into vectors, so that the built-in memory also finds what is said in other words."""
    extractor: Extractor | None
    """Proposes the facts that an ended conversation taught; the default uses rules and no model."""
    prices: Sequence[Prices]
    """Prices and context windows of models. They take precedence over the built-in table."""
    spooling: Spooling | None
    """Which bodies are too long to be shown complete, and how long their previews are."""
    strategies: Mapping[str, CustomFunction] | None
    """Your own compaction strategies, by the name that `pack` and `context.compact` accept."""
    weights: TokenWeights | None
    """What a token of each kind counts against the budgets of frames."""
    clock: Clock | None
    ids: IdSource | None
    telemetry: Telemetry | None
    """Spans and metrics of OpenTelemetry; the default is none."""
    cached_streams: int
    """The number of sessions and ledgers whose state is kept in memory."""
    cached_bytes: int
    """The size of these states together."""


class WriteOptions(TypedDict, total=False):
    """Options of every write."""

    key: str | None
    """The idempotency key: the same call with the same key again changes nothing and returns the same answer."""
    expect: int | None
    """The version that the session must have; otherwise VersionConflict is raised."""
    cause: str | None
    """What led to this event: the id of another event, for example. With telemetry, the default is the `traceparent` of
    the current span."""


class RecordOptions(WriteOptions, total=False):
    """Options of `record`."""

    stop: str | None
    """Why the model stopped, as the provider calls it ("length", "refusal"), for a reply that is recorded by its
    parts."""
    metadata: dict[str, Any] | None
    """Your own data about the message. Models do not see it."""
    priority: Priority | None
    """How long the message stays in view when room is short: critical (always), high, medium (the default), low or
    background. A result has the priority of its call; a system message is critical."""
    reservation: Reservation | str | None
    """In a frame: the reservation that this reply settles."""


class ActionOptions(TypedDict, total=False):
    """Options of `situation.act`."""

    iteration: int | None
    """The step that the action belongs to; the default is the number of replies of the assistant."""
    key: str | None
    cause: str | None


class FrameOptions(WriteOptions, total=False):
    """Options of `frame`. The limits are those of the parent, or narrower."""

    max_subframe_depth: int | None
    """How deep frames may nest below this one; the default for a root is 3."""
    max_tool_calls: int | None
    """How many tools may be started in this frame."""
    timeout_s: float | None
    """How long the frame may take. Time in suspension does not count."""


class CompactOptions(TypedDict, total=False):
    """Options of `context.compact`. The first six are those of `context.plan`."""

    window: int | None
    model: str | None
    prices: Prices | None
    policy: PlanPolicy | PolicyName | None
    before: int
    cold: bool
    key: str | None
    cause: str | None


class PackOptions(TypedDict, total=False):
    """Options of `pack`."""

    frame: FrameReference | FrameState | str | None
    """In a session: the frame whose conversation is packed, by its id, or "top" for the top of the stack. Record the
    reply with that frame."""
    role: str
    """The name of one of the engine's briefs."""
    include: Sequence[str]
    """Handles that must be in the pack."""
    exclude: Sequence[str]
    """Handles that must not be in the pack."""
    force: bool
    """True: `exclude` may also name critical handles."""
    within: Scopes
    """The scopes of facts to search, beside the global one and the session's own."""
    min_compaction: Level
    """The least level of compaction: "none", "light", "moderate", "aggressive" or "critical"."""
    fact_share: float | None
    """The share of the free budget that facts may take, from 0 to 1; the default is that of the profile."""
    recall: bool | float | None
    """Earlier conversation that is not in view: True or False, or the share of the budget that it may take, from 0 to 1.
    By default the share is that of the profile, if the session has a memory. Without one, only its own conversation is
    recalled."""
    max_output: int | None
    """The most tokens that the model may answer."""
    guard: GuardMode | None
    """What is done with superseded values in texts: "redact", "annotate" or "off"; the default is that of the
    policy."""
    strategy: StrategyArgument | None
    """How the conversation is shortened: SummarizeOldest and TruncateAt keep the newest messages, whatever room
    there is; PriorityBased and one of your own (a name or a function) apply if the conversation does not fit."""
    as_of_us: int | None
    """The time of the pack, in microseconds since the epoch; the default is now."""
    settle: bool
    """False: write nothing. Otherwise the history view is updated first: superseded values are redacted, and a
    compaction that is due is carried out; each is an event."""
    time: bool
    """False: show no time."""
    audit: bool
    """True: the manifest names the facts that are withheld from the reader. Do not show it to them."""


class FactOptions(TypedDict, total=False):
    """Options of `set` of a ledger."""

    scope_id: str
    """What the scope refers to: the id of a project, task or session."""
    memory_type: MemoryType | None
    is_constraint: bool | None
    constraint_type: str | None
    requires: Sequence[str]
    """The permissions that a reader needs to know of this fact."""
    valid_from_us: int | None
    """When the fact became true. Older news about a time-sensitive key supersede nothing."""
    expires_at_us: int | None
    ttl_s: float | None
    """Seconds until the fact expires; or use `expires_at_us`."""
    time_sensitive: bool | None
    ref: str
    """The name of the fact in another system."""
    provenance: str | Sequence[str]
    """The messages, calls or facts that it comes from, by their ids."""
    reason: str
    """Why the fact was set. why() shows it."""
    key: str | None
    """The idempotency key, not the key of the fact."""
    cause: str | None
    expect: int | None
    """The version that the ledger must have; otherwise VersionConflict is raised."""


class SessionOptions(TypedDict, total=False):
    """Options of a new session."""

    metadata: dict[str, Any] | None
    idle_timeout_s: float | None
    """How long the session may be idle before `engine.admin.sweep` ends it."""
    identity: Identity | None
    """Who speaks in the session, until `refresh_identity` replaces it."""
    ledgers: Sequence[LedgerId]
    """The ledgers that the session reads, after its own."""
    memory: bool
    """True: packs of the session recall what left the view, and what earlier sessions of its user said."""
