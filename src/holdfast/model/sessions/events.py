"""Events of sessions: lifecycle, messages, tool calls and layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from holdfast.model.content import (
    Body,
    Data,
    Json,
    Part,
    Role,
    SkipReason,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    calling_seq,
)
from holdfast.model.event import (
    EventBase,
    Identifier,
    OwnContent,
    Quotation,
    QuotedEvents,
    add_text,
    count_noun,
    format_json,
    name_frame,
    quote_each,
)
from holdfast.model.history.handles import Priority
from holdfast.model.sessions.forks import ForkSegment
from holdfast.model.sessions.layers import Identity


class SessionCreated(EventBase, frozen=True, kw_only=True):
    """A session begins. It times out after `idle_timeout_us` without events; 0 for never. It also reads `ledgers`, by the
    keys of their streams. With `memory`, its packs recall what left the view and what earlier sessions of the user said."""

    name = "session.created"
    version = 4
    metadata: OwnContent[dict[str, Json]] = msgspec.field(default_factory=dict)
    idle_timeout_us: int = 0
    identity: OwnContent[Identity] = Identity()
    ledgers: Identifier[tuple[tuple[str, ...], ...]] = ()
    memory: bool = False

    def describe(self, seq: int) -> str:
        facts = [] if self.identity == Identity() else [_describe_identity(self.identity)]
        facts += [f"reads the ledger {' '.join(key)}" for key in self.ledgers]
        facts += ["has a memory"] if self.memory else []
        facts += [f"times out after {_format_seconds(self.idle_timeout_us)}"] if self.idle_timeout_us else []
        facts += [format_json(self.metadata)] if self.metadata else []
        return "; ".join(facts)


class MessageRecorded(EventBase, frozen=True, kw_only=True):
    """A message is recorded. `tokens` is the count of `counter` at that time; a replay does not count again. A system
    message is critical whatever its priority, and a result has the priority of its call. Models do not see a `skipped`
    reply; its calls are `dropped_calls`, which are never open.

    Calls and their results are erased together, in both directions."""

    name = "message.recorded"
    version = 4
    role: Role
    content: OwnContent[tuple[Part, ...]] = ()
    tool_calls: OwnContent[tuple[ToolCall, ...]] = ()
    tool_results: OwnContent[tuple[ToolResult, ...]] = ()
    tokens: int
    counter: Identifier[str]
    usage: Usage | None = None
    source: OwnContent[Source | None] = None
    metadata: OwnContent[dict[str, Json]] = msgspec.field(default_factory=dict)
    closing: bool = False
    frame: Identifier[str | None] = None
    skipped: SkipReason | None = None
    dropped_calls: OwnContent[tuple[ToolCall, ...]] = ()
    priority: Priority = "medium"

    def describe(self, seq: int) -> str:
        calls = self.tool_calls or self.dropped_calls
        return f"{self.role}{name_frame(self.frame)}: {_describe_message(self.content, calls, self.tool_results)}"


NO_SUCH_CALL = "no such call"
"""The reason of evidence for a call that the session never had, whatever the id looks like."""


class EvidenceKept(EventBase, frozen=True, kw_only=True):
    """Evidence beside the transcript, above all the late result of a closed call."""

    name = "evidence.kept"
    version = 2
    reason: OwnContent[str]
    role: Role
    content: OwnContent[tuple[Part, ...]] = ()
    tool_results: Quotation[tuple[ToolResult, ...]] = ()
    tokens: int
    counter: Identifier[str]
    metadata: OwnContent[dict[str, Json]] = msgspec.field(default_factory=dict)

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        """The messages whose calls it answers."""
        calls = () if self.reason == NO_SUCH_CALL else self.tool_results
        return quote_each(filter(None, (calling_seq(each.tool_call_id) for each in calls)))

    def describe(self, seq: int) -> str:
        message = _describe_message(self.content, (), self.tool_results)
        return add_text(f"{self.role}, {self.reason}", message)


class SessionForked(EventBase, frozen=True, kw_only=True):
    """A fork begins: a session that shares the events of another one up to `cut`. Live frames, leases and suspension tokens
    are not carried over, and open calls are closed by the events after this one."""

    name = "session.forked"
    session: Identifier[tuple[str, ...]]
    """The key of the stream of the fork."""
    parent: Identifier[tuple[str, ...]]
    """The key of the stream that has the last shared event."""
    cut: int
    """The seq of the last shared event."""
    lineage: Identifier[tuple[ForkSegment, ...]] = ()
    """Where the shared events are, the oldest first; empty if the fork has a copy of them."""

    def describe(self, seq: int) -> str:
        return f"from {'/'.join(self.parent)}, after event {self.cut:,}"


class SessionBranched(EventBase, frozen=True, kw_only=True):
    """Another session was forked from this one: it shares the events up to `cut`."""

    name = "session.branched"
    fork: Identifier[tuple[str, ...]]
    """The key of the stream of the fork."""
    cut: int

    def describe(self, seq: int) -> str:
        return f"{'/'.join(self.fork)}, after event {self.cut:,}"


class SessionReset(EventBase, frozen=True, kw_only=True):
    """The conversation starts anew. The history before is offered to long-term memory."""

    name = "session.reset"
    reason: OwnContent[str]
    keep_system: bool = True

    def describe(self, seq: int) -> str:
        return self.reason


class SessionClosed(EventBase, frozen=True, kw_only=True):
    """The session takes no more messages. The history is offered to long-term memory."""

    name = "session.closed"
    reason: OwnContent[str]

    def describe(self, seq: int) -> str:
        return self.reason


class SessionTimedOut(EventBase, frozen=True, kw_only=True):
    """The session was idle for too long, and is closed."""

    name = "session.timed_out"
    idle_us: int

    def describe(self, seq: int) -> str:
        return f"idle for {_format_seconds(self.idle_us)}"


class SessionDestroyed(EventBase, frozen=True, kw_only=True):
    """The session is destroyed. Its content is erased once long-term memory has it, or at once without an offload."""

    name = "session.destroyed"
    reason: OwnContent[str]
    offload: bool = True

    def describe(self, seq: int) -> str:
        return self.reason


class OffloadAcknowledged(EventBase, frozen=True, kw_only=True):
    """Long-term memory has acknowledged this part of the history."""

    name = "offload.acknowledged"
    entry: int
    why: Identifier[str]
    first: int
    last: int
    at_us: int

    def describe(self, seq: int) -> str:
        return f"entry {self.entry:,}, {self.why}: events {self.first:,} to {self.last:,}"


class PayloadsErased(EventBase, frozen=True, kw_only=True):
    """The payloads of these earlier events of the stream are erased; their headers and digests stay."""

    name = "payloads.erased"
    seqs: tuple[int, ...]
    reason: OwnContent[str]

    def describe(self, seq: int) -> str:
        return add_text(count_noun(len(self.seqs), "event"), self.reason)


class CallStarted(EventBase, frozen=True, kw_only=True):
    """A tool call is about to run. Until there is a result, its outcome is unknown."""

    name = "call.started"
    version = 2
    call: Identifier[str]
    key: Quotation[str]
    """The idempotency key for the effects of the tool: a caller may build it from the arguments of the call."""
    attempt: int = 1
    frame: Identifier[str | None] = None
    turn: int = 0
    """The number of the turn in which it runs; 0 for none."""

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        return quote_each(filter(None, [calling_seq(self.call)]))

    def describe(self, seq: int) -> str:
        return f"{self.call}{name_frame(self.frame)}, attempt {self.attempt:,}, key {self.key}"


class TurnTaken(EventBase, frozen=True, kw_only=True):
    """An owner takes the turn on a conversation. The number of the turn is the seq of this event."""

    name = "turn.taken"
    owner: OwnContent[str]
    until_us: int
    frame: Identifier[str | None] = None
    ticket: int = 0
    """The place in the queue that the owner had; 0 for none."""

    def describe(self, seq: int) -> str:
        return f"{self.owner}{name_frame(self.frame)}"


class TurnRenewed(EventBase, frozen=True, kw_only=True):
    """The owner of a turn keeps it for longer."""

    name = "turn.renewed"
    number: int
    until_us: int
    frame: Identifier[str | None] = None

    def describe(self, seq: int) -> str:
        return f"turn {self.number:,}{name_frame(self.frame)}"


class TurnEnded(EventBase, frozen=True, kw_only=True):
    """The owner of a turn gives it back."""

    name = "turn.ended"
    number: int
    frame: Identifier[str | None] = None

    def describe(self, seq: int) -> str:
        return f"turn {self.number:,}{name_frame(self.frame)}"


class TurnAwaited(EventBase, frozen=True, kw_only=True):
    """Somebody waits for the turn on a conversation. The seq of this event is the ticket."""

    name = "turn.awaited"
    owner: OwnContent[str]
    until_us: int
    frame: Identifier[str | None] = None

    def describe(self, seq: int) -> str:
        return f"{self.owner}{name_frame(self.frame)}"


class ModelUsed(EventBase, frozen=True, kw_only=True):
    """A model was used beside the conversation: for a summary, a detection, an extraction or a situation. What a frame
    pays for it is in the event of its budget."""

    name = "model.used"
    purpose: Identifier[str]
    model: Identifier[str] = ""
    prompt: Identifier[str] = ""
    usage: Usage = Usage()
    frame: Identifier[str | None] = None

    def describe(self, seq: int) -> str:
        tokens = f"{self.usage.input_tokens:,} tokens in, {self.usage.output_tokens:,} out"
        asked = " ".join(filter(None, (self.model, self.prompt)))
        return add_text(f"{self.purpose}{name_frame(self.frame)}, {tokens}", asked)


class WorkingSet(EventBase, frozen=True, kw_only=True):
    """An item of the working set is set, and replaces an item of the same name. Expired items are removed."""

    name = "working.set"
    item: OwnContent[str]
    value: OwnContent[Json]
    expires_us: int | None = None

    def describe(self, seq: int) -> str:
        return f"{self.item}: {format_json(self.value)}"


class WorkingCleared(EventBase, frozen=True, kw_only=True):
    """These items of the working set are removed."""

    name = "working.cleared"
    items: OwnContent[tuple[str, ...]]

    def describe(self, seq: int) -> str:
        return ", ".join(self.items)


class EnvironmentObserved(EventBase, frozen=True, kw_only=True):
    """An observation from outside of the conversation, which replaces the one before of the same name."""

    name = "environment.observed"
    item: OwnContent[str]
    value: OwnContent[Json]
    observed_us: int
    expires_us: int | None = None

    def describe(self, seq: int) -> str:
        return f"{self.item}: {format_json(self.value)}"


class EnvironmentCleared(EventBase, frozen=True, kw_only=True):
    """These observations are removed."""

    name = "environment.cleared"
    items: OwnContent[tuple[str, ...]]

    def describe(self, seq: int) -> str:
        return ", ".join(self.items)


class IdentityRefreshed(EventBase, frozen=True, kw_only=True):
    """The program replaced the identity of the session, with its authority and permissions."""

    name = "identity.refreshed"
    identity: OwnContent[Identity] = Identity()

    def describe(self, seq: int) -> str:
        return _describe_identity(self.identity)


SessionEvent: TypeAlias = (
    SessionCreated
    | SessionForked
    | SessionBranched
    | MessageRecorded
    | EvidenceKept
    | SessionReset
    | SessionClosed
    | SessionTimedOut
    | SessionDestroyed
    | OffloadAcknowledged
    | PayloadsErased
    | CallStarted
    | TurnTaken
    | TurnRenewed
    | TurnEnded
    | TurnAwaited
    | ModelUsed
    | WorkingSet
    | WorkingCleared
    | EnvironmentObserved
    | EnvironmentCleared
    | IdentityRefreshed
)


# Texts for describe()


def _describe_message(content: Sequence[Part], calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
    pieces = [_describe_part(part) for part in content]
    pieces += [f"→ {call.name}" for call in calls]
    pieces += [f"{'✗' if result.is_error else '←'} {result.tool_call_id}" for result in results]
    return " ".join(pieces)


def _describe_part(part: Part) -> str:
    match part:
        case Text(text) | Body(preview=text) if text:
            return text
        case Data(value):
            return format_json(value)
    return f"[{part.__struct_config__.tag}]"


def _describe_identity(identity: Identity) -> str:
    """The name, the authority and the permissions of an identity."""
    name = identity.user_name or identity.user_id or "unnamed"
    return f"{name}, {identity.authority}; permissions: {', '.join(identity.permissions) or 'none'}"


def _format_seconds(time_us: int) -> str:
    return f"{time_us / 1_000_000:,.0f} s"
