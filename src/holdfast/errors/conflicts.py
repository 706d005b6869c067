"""Errors of commands that the stored state does not allow."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError

# Conflicts: the log


class Conflict(HoldfastError):
    """The command conflicts with the stored state."""


class VersionConflict(Conflict):
    """{stream} is at version {actual}, not at {expected}: another writer was first. Nothing was stored. Read it
    again and decide again, or leave out the expected version."""

    stream: object
    expected: int
    actual: int


class Contended(VersionConflict):
    """Other writers were first on {stream}, {tries} times in a row ({limit_name}). Nothing was stored. Try again, or
    let fewer processes write to it at the same time."""

    tries: int


class KeyConflict(Conflict):
    """The idempotency key {key!r} in tenant {tenant!r} belongs to another command ({reason}). Nothing was stored.
    Use a new key for a new command."""

    tenant: str
    key: str
    reason: str


class Diverged(Conflict):
    """{stream} has {here} events in the source and {there} in the target, and their histories differ. Nothing of it
    was stored. Copy to an empty store; or, if only the target has new events, copy in the other direction."""

    stream: object
    here: int
    there: int


# Conflicts: sessions, tool calls, history


class SessionExists(Conflict):
    """The session {session!r} of actor {actor!r} exists already. Open it with session(), or choose another name."""

    session: str
    actor: str


class SessionClosedError(Conflict):
    """The session {session!r} has ended ({reason}) and accepts no more messages. Nothing was stored. Create a new
    one."""

    session: str
    reason: str


class SessionHasForks(Conflict):
    """The session {session!r} has {count} forks ({forks}), which share its events. Nothing was destroyed. Destroy them
    first, or pass forks="destroy" to destroy them with it."""

    session: str
    count: int
    forks: str


class EventShared(Conflict):
    """Event {seq} of the fork {session!r} is stored in the session {owner!r}. Nothing was erased. Erase it there: that
    erases it in all forks, too."""

    session: str
    seq: int
    owner: str


class CallAnswered(Conflict):
    """The tool call {call!r} in the session {session!r} has a result already. Nothing was stored. Record one result
    for each call; a retry needs the key of the first attempt."""

    session: str
    call: str


class CallsOpen(Conflict):
    """The session {session!r} waits for the results of {count} tool calls ({calls}); {what}. Nothing was stored.
    Record the results with result(), or call close_calls()."""

    session: str
    count: int
    calls: str
    what: str


class OutcomeUnknown(Conflict):
    """The tool call {call!r} ({name}) was started (attempts: {attempts}) and has no result: it may have taken effect.
    Check this with its key {key!r}. Then record the result, or start it with again=True."""

    call: str
    name: str
    key: str
    attempts: int


class TurnBusy(Conflict):
    """The turn on the conversation belongs to {owner!r} until {until}, and {waiters} others wait for it. Nothing was
    stored. Try again later, or wait longer: turn(wait_s=…)."""

    session: str
    frame: str | None
    owner: str
    until_us: int
    until: str
    """The same as a time of day in UTC."""
    waiters: int


class LeaseLost(Conflict):
    """The turn {number} on the conversation is over: {reason}. Nothing was stored. Read the conversation again, and
    call turn() for a new one."""

    session: str
    number: int
    owner: str
    """Who has the turn now; empty for nobody."""
    reason: str


class WriterStale(Conflict):
    """The thread {thread!r} has gone on without this writer: {reason}. Nothing was stored. Read the thread again, and run
    again from its latest state."""

    is_stale_write_owner_error = True
    """By this, LangGraph's conformance suite knows the refusal of a writer that another one has replaced."""
    thread: str
    reason: str


class SummaryStale(Conflict):
    """The summary of events {first} to {last} was drafted at version {version}, and event {changed} has changed the
    history since. Nothing was stored. Draft it again."""

    first: int
    last: int
    version: int
    changed: int


class RestoreRefused(Conflict):
    """The withdrawal at event {withdrawal} cannot be undone: {reason}. Nothing was stored. Record the messages again:
    session.messages() still returns them."""

    withdrawal: int
    reason: str


class PlanStale(Conflict):
    """The plan was made at version {version}, and event {changed} has changed the history view since. Nothing was
    stored. Plan again."""

    version: int
    changed: int


class PackChanged(Conflict):
    """The pack {pack!r} cannot be reproduced: {reason}. Build a new one with pack(). The manifest of the old one is
    still in the log."""

    pack: str
    reason: str


# Conflicts: frames


class InsufficientTokens(Conflict):
    """The frame {frame!r} has {available} tokens available, and {requested} were requested. Nothing was changed. Use
    fewer, wait until a child ends, or add tokens with budget.grant()."""

    frame: str
    requested: int
    available: int


class ReservationSettled(Conflict):
    """The reservation {reservation!r} of the frame {frame!r} was committed or cancelled before. Nothing was changed.
    Settle each reservation once; a retry needs the key of the first attempt."""

    frame: str
    reservation: str


class MaxDepthExceeded(Conflict):
    """A frame below {frame!r} would have depth {depth}, and max_subframe_depth is {limit}. Nothing was stored. Do
    the work in the frame itself, or push the root with a larger limit."""

    frame: str
    depth: int
    limit: int


class ToolCallsExceeded(Conflict):
    """The frame {frame!r} has started {used} tools, and max_tool_calls is {limit}. Close its open calls with
    close_calls(), and end the frame."""

    frame: str
    used: int
    limit: int


class DeadlinePassed(Conflict):
    """The frame {frame!r} passed its deadline {late_us} microseconds ago, and accepts no new work. Pop it."""

    frame: str
    late_us: int


class ChildrenActive(Conflict):
    """The frame {frame!r} has {children} live children ({some}). Nothing was changed. Pop them first, or cancel all
    frames below it with cascade=True."""

    frame: str
    children: int
    some: str


class AlreadyTerminal(Conflict):
    """The frame {frame!r} has ended ({status}). Nothing was changed. Push another frame for new work, and record
    late messages in the session itself."""

    frame: str
    status: str


class AlreadySuspended(Conflict):
    """The frame {frame!r} is suspended already ({reason}). Nothing was changed. Use reissue() if its token is lost."""

    frame: str
    reason: str


class FrameSuspendedError(Conflict):
    """The frame {frame!r} is suspended ({reason}). Nothing was stored. Use engine.resume() with its token before new
    work."""

    frame: str
    reason: str


class NotSuspended(Conflict):
    """The frame {frame!r} is {status}, and has no token of its own. Use suspend() first, or the frame above it that
    was suspended with all frames below."""

    frame: str
    status: str


class HandleExists(Conflict):
    """The frame {frame!r} has other content from {source!r} already: the handle {handle!r}. Use another source, or
    handles.replace()."""

    frame: str
    source: str
    handle: str


class TokenConsumed(Conflict):
    """This suspension token of the frame {frame!r} was used already, and works once. Open the frame with
    frames.get()."""

    frame: str


class TokenExpired(Conflict):
    """This suspension token of the frame {frame!r} expired {late_us} microseconds ago. Use reissue() for a new one."""

    frame: str
    late_us: int


class TokenRevokedError(Conflict):
    """This suspension token of the frame {frame!r} is invalid: {reason}. Use the newest token, or reissue() while
    the frame is suspended."""

    frame: str
    reason: str


class TokenForbidden(Conflict):
    """The principal {principal!r} may not resume the frame {frame!r}. Act as the principal that suspended it, or as
    one in resumable_by."""

    frame: str
    principal: str


class EntryConflict(Conflict):
    """The session {session!r} has an entry {key!r} with another kind, parent or body. Nothing was stored. Use a new key,
    or delete that entry first."""

    key: str
    session: str


# Conflicts: facts


class FactNotLive(Conflict):
    """The fact {fact!r} is {status}, so {what}. Nothing was stored. Pass a live fact, or set it again."""

    fact: str
    status: str
    what: str


class SupersessionCycle(Conflict):
    """The fact {fact!r} would {what}, and so lead back to itself. Nothing was stored. Leave out one of the two
    links."""

    fact: str
    what: str


class AuthorityExceeded(Conflict):
    """The authority {asked!r} was requested, and the identity has {has!r}. Nothing was stored. Open the session or
    the ledger with an identity that has it."""

    asked: str
    has: str


class NotAuthorised(Conflict):
    """The fact {fact!r} has the authority {needs!r}; {has!r} is not enough to {what} it. Nothing was stored. Set a
    fact of your own, which is stored as a claim, or ask someone with more authority."""

    fact: str
    needs: str
    has: str
    what: str


class PermissionMissing(Conflict):
    """The permission {permission!r} is required to {what}. Nothing was stored. Use an identity that has it."""

    permission: str
    what: str
