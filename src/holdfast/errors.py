"""Every error that Holdfast raises.

    HoldfastError
    ├── InvalidInput (also a ValueError): the caller passed something that cannot be accepted
    │   ├── InvalidArgument      an argument, by its name
    │   ├── InvalidName          a tenant, actor, session, thread, principal, key or another name
    │   ├── InvalidNumber        not a whole number, or out of range
    │   ├── InvalidText          text that is not Unicode (lone surrogates)
    │   ├── InvalidJson          a value without a JSON form
    │   ├── InvalidTool          a function that cannot be a tool
    │   ├── InvalidLedger        no ledger is named, or several
    │   ├── InvalidUrl           a store address that cannot be opened
    │   ├── InvalidCursor        a feed cursor of another store
    │   ├── InvalidAppend        an append that breaks the contract of the store
    │   ├── TooLarge             over one of the named limits
    │   ├── WindowTooSmall       a window that is too small for what must be in it
    │   ├── BudgetTooSmall       a pack budget below the minimum
    │   ├── CriticalOverflow     critical content that does not fit
    │   ├── StrategyRefused      a compaction strategy that breaks the rules
    │   ├── StrategyUnknown      a strategy name that is not registered
    │   ├── ScopeMismatch        a frame of another session
    │   ├── AmbiguousFact        a name that several facts have
    │   ├── AmbiguousHandle      a source that several handles have
    │   └── ForeignFact          a fact of another ledger
    ├── NotFound (also a LookupError): what was named does not exist
    │   ├── SessionNotFound
    │   │   └── SessionDestroyedError
    │   ├── CallNotFound
    │   ├── OffloadNotFound
    │   ├── FrameNotFound
    │   │   ├── FrameEnded           a frame that must be live
    │   │   ├── NoFrameAtWork        no frame is on top of the stack
    │   │   └── ParentFrameNotFound
    │   ├── ReservationNotFound
    │   ├── HandleNotFound
    │   ├── NoHandleFits
    │   ├── TokenInvalid             not a suspension token of this tenant
    │   ├── FactNotFound             no such fact, or the reader may not know of it
    │   ├── ProposalNotFound
    │   ├── PackNotFound
    │   ├── FileAbsent
    │   └── BlobNotFound
    ├── Conflict: the stored state does not allow the command
    │   ├── VersionConflict      another writer was first
    │   │   └── Contended        other writers were first, on every retry
    │   ├── KeyConflict          an idempotency key of another command
    │   ├── Diverged             a stream with a different history in two stores
    │   ├── SessionExists
    │   ├── SessionClosedError
    │   ├── SessionHasForks      a session whose forks need its events
    │   ├── EventShared          an event that is stored in another session
    │   ├── CallAnswered         a second result for one call
    │   ├── CallsOpen            a message before all tool results are recorded
    │   ├── TurnBusy             somebody else has the turn on a conversation
    │   ├── LeaseLost            a turn that is over, or that another owner has taken
    │   ├── OutcomeUnknown       a tool call that was started and may have taken effect
    │   ├── SummaryStale         the summarized messages have changed
    │   ├── PlanStale            the planned history has changed
    │   ├── RestoreRefused       a withdrawal that cannot be undone any more
    │   ├── PackChanged          a stored pack that cannot be reproduced
    │   ├── InsufficientTokens   a budget with too few tokens
    │   ├── ReservationSettled   a reservation that was settled before
    │   ├── MaxDepthExceeded     a frame that is nested too deep
    │   ├── ToolCallsExceeded    more tool calls than the frame may start
    │   ├── DeadlinePassed       new work in a frame past its deadline
    │   ├── ChildrenActive       a frame with live children cannot end
    │   ├── AlreadyTerminal      a frame that has ended
    │   ├── AlreadySuspended
    │   ├── FrameSuspendedError  new work in a suspended frame
    │   ├── NotSuspended
    │   ├── HandleExists         other content from the same source
    │   ├── EntryConflict        other content under the key of an entry
    │   ├── TokenConsumed        a suspension token that was used
    │   ├── TokenExpired
    │   ├── TokenRevokedError
    │   ├── TokenForbidden       a suspension token of another principal
    │   ├── FactNotLive          a fact that has ended
    │   ├── SupersessionCycle    a fact would supersede or depend on itself
    │   ├── AuthorityExceeded    more authority than the identity has
    │   ├── NotAuthorised        too little authority to change a fact
    │   └── PermissionMissing
    ├── DataError: stored or imported data is damaged
    │   ├── EventUnreadable      an event that this version cannot decode
    │   ├── StorageCorrupt       a damaged file or blob
    │   └── ImportRefused        an import file that is damaged or contradicts the store
    ├── StorageError: the store could not do its work; nothing was acknowledged
    │   ├── StorageBusy          another process held a lock for too long
    │   │   ├── QueueFull        too many commands of this process wait
    │   │   └── PoolExhausted    all connections of this process are in use
    │   ├── StorageFull          no space is left
    │   ├── StorageReadOnly      the file or the server cannot be written
    │   ├── StorageUnavailable   an I/O error, a missing folder, a lost connection
    │   ├── StoreClosed          used after close()
    │   ├── StoreFeatureMissing  a store of one's own without methods that are needed
    │   ├── ForkedHandle         used in a child process after fork()
    │   ├── ForeignFile          a database that is not from Holdfast
    │   ├── SchemaTooNew         written by a newer Holdfast
    │   ├── SchemaTooOld         needs a migration by another role
    │   ├── SchemaChanged        an applied migration differs from the shipped one
    │   ├── RoleTooNarrow        a role that sees one tenant cannot work on all
    │   ├── ServerTooOld         a PostgreSQL that is too old
    │   └── UnsafeSqlite         an SQLite with the WAL-reset bug
    ├── MemoryFailed             a long-term memory of the caller failed
    ├── EmbedderFailed           an embedder failed, or returned something else than vectors

    ├── ModelFailed: a model of holdfast.models gave no usable answer; the engine goes on without it
    │   ├── ModelUnavailable     not reached, overloaded, or over its rate limit
    │   ├── ModelTimeout         no answer in time
    │   ├── ModelRejected        a request that the server does not accept: a wrong key, model or format
    │   ├── ModelRefused         a model that refuses to answer, or a filter
    │   ├── AnswerInvalid        empty, or not what was asked for, also after a repair
    │   └── AnswerCut            longer than allowed
    └── ExtraMissing (also an ImportError): an optional package is not installed

Law: the docstring of a class is its message: what happened, with which value, what to do, what is safe. The keyword
arguments are attributes of the error, and the driver's error stays as `__cause__`.
"""

from __future__ import annotations

from typing import Any

VALUE_CHARS = 120
"""The most characters of a value that a message shows."""
REASON_CHARS = 600
"""The most characters of a reason: Holdfast writes it, from text and shortened values."""
INT_BITS = 128


class HoldfastError(Exception):
    """Holdfast could not do what was asked."""

    def __init__(self, **data: object) -> None:
        plain = {name: _to_plain(value) for name, value in data.items()}
        self.__dict__.update(plain)
        template = " ".join((type(self).__doc__ or "").split())
        shown = {
            name: _shorten(value, REASON_CHARS if name == "reason" else VALUE_CHARS) for name, value in plain.items()
        }
        super().__init__(template.format(**shown))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_error, (type(self), dict(self.__dict__))


def _rebuild_error(cls: type[HoldfastError], data: dict[str, object]) -> HoldfastError:
    return cls(**data)


def describe_value(value: object) -> str:
    """Describe any value in a few words. A value that is not plain is named by its type: its own code is not called."""
    kind = type(value)
    if kind is str:
        return repr(_shorten(value))
    if kind is int and value.bit_length() > INT_BITS:  # type: ignore[attr-defined]
        return f"an int of {value.bit_length()} bits"  # type: ignore[attr-defined]
    if value is None or kind in (int, float, bool):
        return repr(value)
    return f"a value of type {_shorten(kind.__name__)}"


def _to_plain(value: object) -> object:
    """Errors are printed, stored and sent to other processes, so they have plain data only."""
    kind = type(value)
    if value is None or kind in (str, float, bool) or kind.__module__ == "holdfast.model.names":
        return value
    if (kind.__module__, kind.__name__) == ("holdfast.model.content", "Usage"):
        return value
    if kind is int and value.bit_length() <= INT_BITS:  # type: ignore[attr-defined]
        return value
    return describe_value(value)


def _shorten(value: object, chars: int = VALUE_CHARS) -> object:
    """Cut a text, and make it printable: messages may quote hostile text."""
    if type(value) is not str:
        return value
    printable = value[: chars + 1].encode("utf-8", "backslashreplace").decode("utf-8")
    return printable if len(printable) <= chars else printable[:chars] + "…"


# Invalid input


class InvalidInput(HoldfastError, ValueError):
    """The input cannot be accepted."""


class InvalidArgument(InvalidInput):
    """Invalid argument `{argument}`: {reason}. Nothing was stored."""

    argument: str
    """The parameter as the caller knows it."""
    reason: str
    """What is wrong with which value, and what to pass instead."""


class InvalidName(InvalidInput):
    """Invalid argument `{what}`: {value!r} is not a valid name: {reason}. Use 1 to {limit} bytes of text without
    control characters. Nothing was stored."""

    what: str
    value: object
    reason: str


class InvalidNumber(InvalidInput):
    """Invalid argument `{what}`: {value} is not a whole number from {low} to {high}. Nothing was stored."""

    what: str
    value: str
    low: int
    high: int


class InvalidText(InvalidInput):
    """Invalid text in {where}: {reason}. Decode it with errors="replace", or store it as a blob. Nothing was stored."""

    where: str
    reason: str


class InvalidJson(InvalidInput):
    """Invalid JSON in {where}: {reason}. Use text, finite numbers, integers of at most 64 bits, true, false, null,
    lists, and objects with text keys. Nothing was stored."""

    where: str
    reason: str


class InvalidTool(InvalidInput):
    """The function {function} cannot be a tool: {reason}. Change the function, or describe it with a holdfast.Tool."""

    function: str
    parameter: str
    """The parameter in question; empty if it is about the function itself."""
    reason: str


class InvalidLedger(InvalidInput):
    """{value} does not name a ledger: {reason}. Pass one of user=, project= and organization=, or a LedgerId.
    Nothing was stored."""

    value: str
    reason: str


class InvalidUrl(InvalidInput):
    """Cannot open {url!r}: {reason}. Pass a file name, "sqlite:///path/to/file.db", "postgresql://…" or "memory:"."""

    url: object
    reason: str


class InvalidCursor(InvalidInput):
    """The cursor {cursor!r} is not from this store. Start again with the empty cursor ""."""

    cursor: str


class InvalidAppend(InvalidInput):
    """Invalid append: {reason}. Check it against the rules in holdfast.ports.EventStore. Nothing was stored."""

    reason: str


class TooLarge(InvalidInput):
    """Too large: {what} has {size} {unit}, and the limit is {limit} ({limit_name}). {advice} Nothing was stored."""

    what: str
    size: int
    limit: int


class WindowTooSmall(InvalidInput):
    """The window of {budget} tokens is too small: {what} needs {needed}. Use a window of at least {needed} tokens."""

    what: str
    budget: int
    needed: int


class BudgetTooSmall(InvalidInput):
    """Invalid argument `budget`: {budget} is below the minimum of {least} tokens for a pack. Nothing was stored."""

    budget: int
    least: int


class CriticalOverflow(InvalidInput):
    """Critical content needs {needed} tokens, and the budget is {budget}. Nothing was stored. Use a larger budget,
    or give some of the content a lower priority: critical content is never dropped."""

    needed: int
    budget: int


class StrategyRefused(InvalidInput):
    """The result of the compaction strategy {strategy!r} cannot be used: {reason}. Return critical items unchanged,
    and the other items that are kept in their order. Nothing was stored."""

    strategy: str
    reason: str


class StrategyUnknown(InvalidInput):
    """Invalid argument `strategy`: {strategy!r} is not one of {known}. Pass one of these or a strategy object, or
    register the name with holdfast.open(strategies=…). Nothing was stored."""

    strategy: str
    known: str


class ScopeMismatch(InvalidInput):
    """The frame {frame} belongs to {theirs}, not to {ours}. Pass a frame of the same session. Nothing was stored."""

    frame: str
    theirs: object
    ours: object


class AmbiguousFact(InvalidInput):
    """Several facts in the ledger {ledger} have the name {name!r}: {facts}. Pass the id of one of them. Nothing was
    stored."""

    ledger: object
    name: str
    facts: str


class AmbiguousHandle(InvalidInput):
    """Several handles of the session {session!r} have the source {source!r}: {handles}. Pass the id of one of them."""

    session: str
    source: str
    handles: str


class ForeignFact(InvalidInput):
    """The fact {fact!r} is in the ledger {home}, not in the ledger {ledger}. Use the ledger that it was read from.
    Nothing was stored."""

    fact: str
    home: str
    ledger: str


# Not found


class NotFound(HoldfastError, LookupError):
    """There is no such thing."""


class SessionNotFound(NotFound):
    """There is no session {session!r} of actor {actor!r} (thread {thread!r}) in tenant {tenant!r}. Create it with
    create_session(), or check the tenant and the actor."""

    tenant: str
    actor: str
    session: str
    thread: str | None


class SessionDestroyedError(SessionNotFound):
    """The session {session!r} of actor {actor!r} (thread {thread!r}) in tenant {tenant!r} was destroyed ({reason}).
    Create one with another id."""

    reason: str


class CallNotFound(NotFound):
    """There is no tool call {call!r} in the session {session!r}. Pass the id of one of its tool calls, or the
    provider's id of an open call: see open_calls()."""

    session: str
    call: str


class OffloadNotFound(NotFound):
    """There is no entry {entry} of the session {session!r} in the outbox. Pass an entry that admin.outbox()
    returned."""

    session: str
    entry: int


class FrameNotFound(NotFound):
    """There is no frame {frame!r} in the session {session!r}. Pass the id of one of its frames: see frames.list()."""

    session: str
    frame: str


class FrameEnded(FrameNotFound):
    """The frame {frame!r} of the session {session!r} has ended ({status}), so no model call can follow in it. Push
    another frame, or pack the session itself; its handles can still be read. Nothing was stored."""

    status: str


class NoFrameAtWork(FrameNotFound):
    """No frame of the session {session!r} is on top of the stack: no frame is live, or all live frames are
    suspended. Push or resume one, or pack the session itself. Nothing was stored."""


class ParentFrameNotFound(FrameNotFound):
    """There is no frame {frame!r} in the session {session!r} to be a parent. Pass the id of a live frame: see
    frames.list(). Nothing was stored."""


class ReservationNotFound(NotFound):
    """There is no reservation {reservation!r} in the frame {frame!r}. Pass what budget.reserve() returned."""

    frame: str
    reservation: str


class HandleNotFound(NotFound):
    """There is no handle {handle!r} in the session {session!r}. Pass the id of a handle: see handles.list(), and
    handles.attachments() of its frames."""

    session: str
    handle: str


class NoHandleFits(NotFound):
    """No handle in the semantic tier of the session {session!r} fits the query {query!r}. Move one there with
    page_out(handle, tier="semantic"), or pass the id of a handle."""

    session: str
    query: str


class TokenInvalid(NotFound):
    """This is not a suspension token of the tenant {tenant!r}. Pass what suspend() returned, and check the tenant."""

    tenant: str


class FactNotFound(NotFound):
    """There is no fact {fact!r} in the ledger {ledger}. Pass the id, the ref or the key of a fact: see items()."""

    ledger: object
    fact: str


class ProposalNotFound(NotFound):
    """There is no open proposal {proposal!r} in the session {session!r}. Pass the id of one: see facts.proposals()."""

    session: str
    proposal: str


class PackNotFound(NotFound):
    """There is no pack {pack!r} in the session {session!r}. Pass the id of a stored pack: see packs.list()."""

    session: str
    pack: str


class FileAbsent(NotFound):
    """There is nothing at {path!r}. Check the path or the address. Nothing was created."""

    path: str


class BlobNotFound(NotFound):
    """There is no blob {digest!r} in tenant {tenant!r}. Put it first, or check the tenant."""

    tenant: str
    digest: str


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


# Data


class DataError(HoldfastError):
    """The data is damaged."""


class EventUnreadable(DataError):
    """Event {seq} of {stream} (type {type!r}, version {version}) cannot be read: {reason}. If a newer Holdfast wrote
    it, upgrade. Otherwise run verify, and restore from a backup."""

    stream: object
    seq: int
    type: str
    version: int
    reason: str


class StorageCorrupt(DataError):
    """{what} is damaged: {reason}. Keep the file as it is, run verify, and restore from a backup."""

    what: str
    reason: str


class ImportRefused(DataError):
    """The import stopped at line {line}: {reason}. Export it again, correct that line, or use the Holdfast that
    wrote it."""

    line: int
    reason: str


# Storage


class StorageError(HoldfastError):
    """The store could not do its work; nothing was acknowledged."""


class StorageBusy(StorageError):
    """{what} was locked by another process for {waited_ms} ms. Try again, or look for a process with a long
    transaction."""

    what: str
    waited_ms: int


class QueueFull(StorageBusy):
    """{limit} commands wait for {what} already (QUEUED_COMMANDS). Nothing was stored. Send fewer at a time, and try
    again."""

    what: str
    limit: int


class PoolExhausted(StorageBusy):
    """All {limit} connections to {what} were in use for {waited_ms} ms. Raise pool= in the address, or run fewer
    tasks at the same time."""

    limit: int


class StorageFull(StorageError):
    """No space is left to write {what}. Free some space and try again. Acknowledged data is safe, and reads still
    work."""

    what: str


class StorageReadOnly(StorageError):
    """{what} cannot be written. Check the permissions of the file and its folder; on a server, those of the role,
    and that it is not a replica. Reads still work."""

    what: str


class StorageUnavailable(StorageError):
    """{what} could not be used: {reason}. Check the path and the disk, or the server. A command that was in progress
    may have been stored: repeat it with its idempotency key."""

    what: str
    reason: str


class StoreClosed(StorageError):
    """{what} was closed. Open it again."""

    what: str


class StoreFeatureMissing(StorageError):
    """{store} has no {feature}, which this needs. Missing methods: {methods}. Use a store of Holdfast, or add them: see
    holdfast.ports.{feature}."""

    store: str
    feature: str
    methods: str


class ForkedHandle(StorageError):
    """{what} was opened by process {opener} and is used in process {user} after a fork. Open it in each process."""

    what: str
    opener: int
    user: int


class ForeignFile(StorageError):
    """{path!r} is not a Holdfast file: {reason}. Choose another file name; this one was not changed."""

    path: str
    reason: str


class SchemaTooNew(StorageError):
    """{path!r} has schema {found}; this Holdfast knows schemas up to {known}. Upgrade Holdfast; the file was not
    changed."""

    path: str
    found: int
    known: int


class SchemaTooOld(StorageError):
    """{path} has schema {found}, this Holdfast needs {known}, and the role {role!r} may not migrate it. Open it once
    with the role that owns it."""

    path: str
    found: int
    known: int
    role: str


class SchemaChanged(StorageError):
    """Migration {number} of {path!r} was applied with a text that differs from the shipped one. Use the Holdfast
    that created the file, or restore from an export."""

    path: str
    number: int


class RoleTooNarrow(StorageError):
    """The role {role!r} sees one tenant of {what} at a time, and this operation covers all tenants. Use the role
    that owns the tables."""

    what: str
    role: str


class ServerTooOld(StorageError):
    """{what} is version {found}. Use PostgreSQL {needed} or later."""

    what: str
    found: int
    needed: int


class UnsafeSqlite(StorageError):
    """SQLite {version} has the WAL-reset bug, which can corrupt a file. Install an apsw with SQLite {needed} or
    later."""

    version: str
    needed: str


class MemoryFailed(HoldfastError):
    """The memory {memory!r} failed in {operation}(): {reason}. Nothing of this store is lost. Try again when it works."""

    memory: str
    operation: str
    reason: str


class EmbedderFailed(HoldfastError):
    """The embedder {embedder!r} failed: {reason}. Its texts are found by their words meanwhile, and are tried again."""

    embedder: str
    reason: str


# Models


class ModelFailed(HoldfastError):
    """The model {model!r} gave no usable answer: {reason}. Nothing was changed by it."""

    model: str
    reason: str
    usage: object = None
    """The holdfast.Usage of the failed attempts; None if none was reported."""


class ModelUnavailable(ModelFailed):
    """The model {model!r} could not be asked: {reason}. Check the address and the server, or try again later."""


class ModelTimeout(ModelFailed):
    """The model {model!r} did not answer in time: {reason}. Use a longer timeout_s, or a faster model."""


class ModelRejected(ModelFailed):
    """The server of the model {model!r} does not accept the request: {reason}. Check the key, the name of the model and
    the options."""


class ModelRefused(ModelFailed):
    """The model {model!r} refused to answer: {reason}. Use another model, or do without."""


class AnswerInvalid(ModelFailed):
    """The answer of the model {model!r} is not what was asked for: {reason}. Use a model that follows schemas."""


class AnswerCut(ModelFailed):
    """The answer of the model {model!r} was cut off: {reason}. Allow more tokens with max_tokens."""


class ExtraMissing(HoldfastError, ImportError):
    """{what} needs a package that is not installed. Install it with: pip install 'holdfast[{extra}]'"""

    what: str
    extra: str
