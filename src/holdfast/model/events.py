"""Events: what happened, as past facts. `name` and `version` go into the stored header, so the payload has no tag.

Law: a stored event never changes. A new shape gets a higher `version` and an upcaster from the one before.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from holdfast.model.content import BlobRef, Json, Part, Role, SkipReason, Source, ToolCall, ToolResult, Usage
from holdfast.model.detection import Proposal, Settled
from holdfast.model.facts import FactScope, FactSource, MemoryType, Mention, SupersessionRule
from holdfast.model.frames import Ending, Limits
from holdfast.model.handles import HandleKind, Priority
from holdfast.model.layers import Identity, IdentityRefreshed
from holdfast.model.plan import Reduction, Residency, Tier
from holdfast.model.situation import ActionRecorded, SituationUpdated
from holdfast.model.view_events import ContextCompacted, ContextRedacted, PackRecorded, SummaryRecorded


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: ClassVar[str]
    version: ClassVar[int] = 1


class SessionCreated(_Event, frozen=True, kw_only=True):
    """A session begins. It may be idle for `idle_timeout_us`; 0: for ever. It reads `ledgers`, keys of streams, too."""

    name = "session.created"
    version = 3
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    idle_timeout_us: int = 0
    identity: Identity = Identity()
    ledgers: tuple[tuple[str, ...], ...] = ()


class MessageRecorded(_Event, frozen=True, kw_only=True):
    """`tokens` is what `counter` said when the message came in; a replay never counts again. `frame` is the one it belongs
    to, if any. A system message is Critical whatever its priority says, and a result has the priority of its call. A
    `skipped` reply is shown to no model, and its calls are `dropped_calls`: they never wait."""

    name = "message.recorded"
    version = 4
    role: Role
    content: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    tokens: int
    counter: str
    usage: Usage | None = None
    source: Source | None = None
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    closing: bool = False
    frame: str | None = None
    skipped: SkipReason | None = None
    dropped_calls: tuple[ToolCall, ...] = ()
    priority: Priority = "medium"


class EvidenceKept(_Event, frozen=True, kw_only=True):
    """What is no part of the transcript and must not be lost: above all, the result of a call that was closed before."""

    name = "evidence.kept"
    version = 2
    reason: str
    role: Role
    content: tuple[Part, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    tokens: int
    counter: str
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)


class HandleMoved(_Event, frozen=True, kw_only=True):
    """A piece of a message comes into view or leaves it. `frame` is whose conversation it is of, if any."""

    name = "handle.moved"
    version = 2
    frame: str | None = None
    residency: Residency
    piece: Reduction


class HandleReplaced(_Event, frozen=True, kw_only=True):
    """A handle of a frame stands for something else from now on, or in another place."""

    name = "handle.replaced"
    version = 2
    frame: str
    handle: str
    kind: HandleKind
    priority: Priority = "medium"
    title: str = ""
    source: str | None = None
    content: tuple[Part, ...] | None = None
    """None for the same as before."""
    tokens: int
    counter: str
    digest: str
    at: int
    """The event that has its content: this one, if it brings some."""
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    residency: Residency = "resident"
    tier: Tier | None = None
    ref: BlobRef | None = None
    size: int = 0
    result: str = ""
    """How the child ended that brought it; empty if it is no child's result."""


class SessionReset(_Event, frozen=True, kw_only=True):
    """The conversation starts anew. What was said before is offered to long-term memory."""

    name = "session.reset"
    reason: str
    keep_system: bool = True


class SessionClosed(_Event, frozen=True, kw_only=True):
    """The session takes no more messages. What was said is offered to long-term memory."""

    name = "session.closed"
    reason: str


class SessionTimedOut(_Event, frozen=True, kw_only=True):
    """The session was idle for too long, and is closed."""

    name = "session.timed_out"
    idle_us: int


class SessionDestroyed(_Event, frozen=True, kw_only=True):
    """Nobody sees it any more. Its content is erased once long-term memory has it, or at once if that shall not have it."""

    name = "session.destroyed"
    reason: str
    offload: bool = True


class OffloadAcknowledged(_Event, frozen=True, kw_only=True):
    """Long-term memory has this piece of history."""

    name = "offload.acknowledged"
    entry: int
    why: str
    first: int
    last: int
    at_us: int


class PayloadsErased(_Event, frozen=True, kw_only=True):
    """The payloads of these earlier events of the stream are gone for good; their headers and digests stay."""

    name = "payloads.erased"
    seqs: tuple[int, ...]
    reason: str


class FramePushed(_Event, frozen=True, kw_only=True):
    """A unit of work begins. Its budget is granted by its parent, if it has one, with this event."""

    name = "frame.pushed"
    goal: str
    inputs: Json = None
    parent: str | None = None
    budget: int
    limits: Limits
    deadline_us: int | None = None


class FrameUpdated(_Event, frozen=True, kw_only=True):
    """What is not None is new."""

    name = "frame.updated"
    frame: str
    goal: str | None = None
    inputs: Json = None
    context_hash: str | None = None


class FramePopped(_Event, frozen=True, kw_only=True):
    """A frame ends, and its grant is settled: the parent has used what its whole subtree used, and gets back the rest.
    `cascade` names the frames below it that end with it, cancelled, the deepest first."""

    name = "frame.popped"
    version = 2
    frame: str
    status: Ending
    summary: str = ""
    result: tuple[Part, ...] = ()
    cascade: tuple[str, ...] = ()
    used: int = 0


class FrameSuspended(_Event, frozen=True, kw_only=True):
    """A frame rests until the token with this SHA-256 comes. `cascade` names the frames below it that rest with it."""

    name = "frame.suspended"
    frame: str
    reason: str
    digest: str
    by: str
    expires_us: int | None = None
    resumable_by: tuple[str, ...] = ()
    cascade: tuple[str, ...] = ()


class FrameResumed(_Event, frozen=True, kw_only=True):
    """The token came, and is used up."""

    name = "frame.resumed"
    frame: str
    by: str


class TokenReissued(_Event, frozen=True, kw_only=True):
    """A suspended frame has another token now; the one before is void."""

    name = "token.reissued"
    frame: str
    digest: str
    by: str
    expires_us: int | None = None


class TokenRevoked(_Event, frozen=True, kw_only=True):
    """The token of a suspended frame is void; the frame rests on."""

    name = "token.revoked"
    frame: str
    reason: str


class HandleAdded(_Event, frozen=True, kw_only=True):
    """A piece of context comes within a frame's reach. The seq of this event makes the handle's id."""

    name = "frame.handle_added"
    version = 2
    frame: str
    kind: HandleKind
    priority: Priority = "medium"
    title: str = ""
    source: str | None = None
    content: tuple[Part, ...] = ()
    tokens: int
    counter: str
    digest: str
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)


class ResultAdded(_Event, frozen=True, kw_only=True):
    """What a child brought back is a handle of its parent. Its content is in the child's `frame.popped`, event `at`."""

    name = "frame.result_added"
    frame: str
    child: str
    status: Ending
    at: int
    title: str = ""
    tokens: int
    counter: str
    digest: str


class BudgetReserved(_Event, frozen=True, kw_only=True):
    """Tokens are kept for a purpose. The seq of this event makes the reservation's id."""

    name = "budget.reserved"
    frame: str
    purpose: str
    amount: int


class BudgetCommitted(_Event, frozen=True, kw_only=True):
    """A reservation is over, and so many tokens were used; `usage` is what the provider said, if it did."""

    name = "budget.committed"
    frame: str
    reservation: str
    tokens: int
    usage: Usage | None = None


class BudgetCancelled(_Event, frozen=True, kw_only=True):
    """A reservation is over, and nothing was used."""

    name = "budget.cancelled"
    frame: str
    reservation: str


class BudgetUsed(_Event, frozen=True, kw_only=True):
    """So many tokens were used without a reservation."""

    name = "budget.used"
    frame: str
    tokens: int
    usage: Usage | None = None


class BudgetGranted(_Event, frozen=True, kw_only=True):
    """A frame has more to spend; its parent, if it has one, as much less."""

    name = "budget.granted"
    frame: str
    amount: int


class CallStarted(_Event, frozen=True, kw_only=True):
    """A tool is about to run. Until there is a result, what came of it is unknown."""

    name = "call.started"
    call: str
    key: str
    attempt: int = 1
    frame: str | None = None


class ActorResumed(_Event, frozen=True, kw_only=True):
    """Someone took the session up again: what was found."""

    name = "actor.resumed"
    frames: tuple[str, ...] = ()
    pending: dict[str, int] = msgspec.field(default_factory=dict)


class WorkingSet(_Event, frozen=True, kw_only=True):
    """Something is at hand, in place of what went by the same name. What has run out by the time of this event is gone."""

    name = "working.set"
    item: str
    value: Json
    expires_us: int | None = None


class WorkingCleared(_Event, frozen=True, kw_only=True):
    """These are not at hand any more."""

    name = "working.cleared"
    items: tuple[str, ...]


class EnvironmentObserved(_Event, frozen=True, kw_only=True):
    """This is how something outside of the conversation was found, in place of what was observed of it before."""

    name = "environment.observed"
    item: str
    value: Json
    observed_us: int
    expires_us: int | None = None


class EnvironmentCleared(_Event, frozen=True, kw_only=True):
    """Nothing is known of these any more."""

    name = "environment.cleared"
    items: tuple[str, ...]


class FactAsserted(_Event, frozen=True, kw_only=True):
    """Something is held to be true. The seq of this event makes the fact's id; `against` makes it a claim against what a
    higher authority says, `review` names the doubtful fact that it was derived from."""

    name = "fact.asserted"
    key: str
    value: Json
    ref: str = ""
    source: FactSource
    memory_type: MemoryType = "user"
    scope: FactScope = "global"
    scope_id: str = ""
    valid_from_us: int
    expires_us: int | None = None
    against: str = ""
    depends_on: tuple[str, ...] = ()
    review: str = ""
    is_constraint: bool = False
    constraint_type: str | None = None
    requires: tuple[str, ...] = ()
    provenance: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()
    reason: str = ""


class FactSuperseded(_Event, frozen=True, kw_only=True):
    """Another fact stands in its place. `late` says that it was old news when it came; `followers` depend on the other one
    from now on, since its value is the same; `mentions` are where messages state it, beside those known before."""

    name = "fact.superseded"
    fact: str
    by: str
    rule: SupersessionRule
    reason: str = ""
    late: bool = False
    followers: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()


class FactRetracted(_Event, frozen=True, kw_only=True):
    """The first of these was taken back, and so the others, which were derived from it."""

    name = "fact.retracted"
    facts: tuple[str, ...]
    reason: str = ""
    mentions: tuple[Mention, ...] = ()


class FactExpired(_Event, frozen=True, kw_only=True):
    """The time of these has run out."""

    name = "fact.expired"
    facts: tuple[str, ...]
    reason: str = ""


class FactPromoted(_Event, frozen=True, kw_only=True):
    """A fact holds in another scope from now on: a draft, everywhere."""

    name = "fact.promoted"
    fact: str
    scope: FactScope
    scope_id: str = ""
    against: str = ""
    requires: tuple[str, ...] = ()
    """If it is a claim now: what it takes from now on to know of it; else it stays as it is."""
    reason: str = ""


class FactEndorsed(_Event, frozen=True, kw_only=True):
    """Someone with the right to do so stands for it with more authority."""

    name = "fact.endorsed"
    fact: str
    authority: str
    by: str
    against: str = ""
    requires: tuple[str, ...] = ()
    """If it is a claim now: what it takes from now on to know of it; else it stays as it is."""
    reason: str = ""


class FactConfirmed(_Event, frozen=True, kw_only=True):
    """It was reviewed, and holds. `depends_on` is what it rests on from now on, if that is not what it was."""

    name = "fact.confirmed"
    fact: str
    by: str
    reason: str = ""
    depends_on: tuple[str, ...] = ()


class FactDisputed(_Event, frozen=True, kw_only=True):
    """Someone with too little authority took a fact back: it stands, and is shown as disputed."""

    name = "fact.disputed"
    fact: str
    by: str
    authority: str
    reason: str = ""


class FactReinstated(_Event, frozen=True, kw_only=True):
    """A superseded fact lives again, and what stood in its place is taken back."""

    name = "fact.reinstated"
    fact: str
    instead: tuple[str, ...] = ()
    reason: str = ""


class FactMarked(_Event, frozen=True, kw_only=True):
    """These depend on a fact that died, directly or not: someone should look at them."""

    name = "fact.marked"
    facts: tuple[str, ...]
    because: str


class FactsProposed(_Event, frozen=True, kw_only=True):
    """A detector saw changes in what was said. `proposals` need someone's word, for the reasons `why`; the seq of this
    event and their order make their ids. What became of the others is `settled`."""

    name = "facts.proposed"
    detector: str
    message: int
    """The seq of the message that they were seen in."""
    proposals: tuple[tuple[tuple[str, ...], Proposal], ...]
    """Each with the key of the stream of the ledger that it is about."""
    why: tuple[str, ...] = ()
    settled: tuple[Settled, ...] = ()


class ProposalDecided(_Event, frozen=True, kw_only=True):
    """Someone has said what becomes of a proposal."""

    name = "proposal.decided"
    proposal: str
    accepted: bool


Event: TypeAlias = (
    SessionCreated
    | MessageRecorded
    | EvidenceKept
    | SummaryRecorded
    | ContextCompacted
    | ContextRedacted
    | HandleMoved
    | HandleReplaced
    | PackRecorded
    | SessionReset
    | SessionClosed
    | SessionTimedOut
    | SessionDestroyed
    | OffloadAcknowledged
    | PayloadsErased
    | FramePushed
    | FrameUpdated
    | FramePopped
    | FrameSuspended
    | FrameResumed
    | TokenReissued
    | TokenRevoked
    | HandleAdded
    | ResultAdded
    | BudgetReserved
    | BudgetCommitted
    | BudgetCancelled
    | BudgetUsed
    | BudgetGranted
    | CallStarted
    | ActorResumed
    | IdentityRefreshed
    | WorkingSet
    | WorkingCleared
    | EnvironmentObserved
    | EnvironmentCleared
    | FactAsserted
    | FactSuperseded
    | FactRetracted
    | FactExpired
    | FactPromoted
    | FactEndorsed
    | FactConfirmed
    | FactDisputed
    | FactReinstated
    | FactMarked
    | FactsProposed
    | ProposalDecided
    | SituationUpdated
    | ActionRecorded
)

EVENTS: dict[str, type[Event]] = {event.name: event for event in Event.__args__}

OFFLOADING = {SessionReset.name, SessionClosed.name, SessionTimedOut.name, SessionDestroyed.name}
"""What ends a conversation: the history since the last such event becomes an entry of the outbox."""

OF_FRAMES = {name for name in EVENTS if name.startswith(("frame.", "token.", "budget.", HandleReplaced.name))}
OF_FRAMES -= {ContextCompacted.name}
"""What frames and their budgets are made of: erased a whole tree at a time, or the figures would not add up."""

OF_LEDGERS = {name for name in EVENTS if name.startswith("fact.")} | {PayloadsErased.name}
"""What streams of ledgers are made of, and nothing else; those of sessions have the rest."""

BARE = {PayloadsErased.name, OffloadAcknowledged.name, SessionDestroyed.name}
"""What stays when a session is destroyed: it tells that, and nothing of what was said."""
