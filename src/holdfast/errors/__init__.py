"""Every error that Holdfast raises.

    HoldfastError
    ├── InvalidInput (also a ValueError): the caller's value cannot be accepted
    │   ├── InvalidName          a tenant, actor, session, thread, principal or key
    │   ├── InvalidNumber        not a whole number, or out of range
    │   ├── InvalidText          text that is not Unicode (lone surrogates)
    │   ├── InvalidJson          a value that JSON cannot carry faithfully
    │   ├── InvalidContent       a message without content, an unknown role
    │   ├── InvalidTool          a function that cannot be described as a tool
    │   ├── InvalidAppend        a batch that breaks the store's contract
    │   ├── InvalidUrl           a store address that nothing can open
    │   ├── InvalidCursor        a feed cursor that this store did not hand out
    │   ├── WindowTooSmall       a view whose budget what must be in it does not fit
    │   ├── BudgetTooSmall       a pack that has room for nothing
    │   ├── CriticalOverflow     a budget that what is never dropped does not fit
    │   ├── StrategyRefused      a compaction that touches what it may not, or makes more of it
    │   ├── StrategyUnknown      a name that no compaction strategy is registered under
    │   ├── ScopeMismatch        a frame of another session
    │   ├── InvalidLedger        what names no ledger
    │   ├── AmbiguousFact        a name that several facts have
    │   ├── AmbiguousHandle      a call that several live handles came from
    │   ├── ForeignFact          a fact of another ledger than the one that is asked
    │   └── TooLarge             over one of the named bounds
    ├── NotFound (also a LookupError)
    │   ├── SessionNotFound
    │   │   └── SessionDestroyed
    │   ├── CallNotFound         a result that names no call of the session
    │   ├── OffloadNotFound      an acknowledgement that names no entry of the outbox
    │   ├── FrameNotFound
    │   │   ├── FrameEnded       one that would have to be live
    │   │   ├── NoFrameAtWork    no frame is on top of the stack
    │   │   └── ParentFrameNotFound
    │   ├── ReservationNotFound
    │   ├── HandleNotFound
    │   ├── TokenInvalid         a suspension token that this tenant never handed out
    │   ├── FactNotFound         no such fact, or none that this reader may know of
    │   ├── ProposalNotFound
    │   ├── PackNotFound
    │   ├── FileAbsent           a file or a store to look into that is not there
    │   └── BlobNotFound
    ├── Conflict: the state does not allow it, or someone else was first
    │   ├── VersionConflict      a stale writer
    │   │   └── Contended        others were first, every time
    │   ├── Diverged             one stream, with another history in each of two stores
    │   ├── KeyConflict          an idempotency key used for another command
    │   ├── SessionExists
    │   ├── SessionClosed
    │   ├── CallAnswered         a second result for one call
    │   ├── CallsOpen            the next model call before all results are there
    │   ├── SummaryStale         what was summarised has changed since
    │   ├── PlanStale            what was planned on has changed since
    │   ├── PackChanged          a recorded pack that the log does not make any more
    │   ├── InsufficientTokens   a budget that does not have what was asked for
    │   ├── MaxDepthExceeded     a frame nested deeper than its limits allow
    │   ├── ToolCallsExceeded    one tool more than its frame's limits allow
    │   ├── DeadlinePassed       new work in a frame that is out of time
    │   ├── ChildrenActive       a frame that cannot end while others live below it
    │   ├── AlreadyTerminal      a frame that has ended, or ended in another way
    │   ├── AlreadySuspended
    │   ├── FrameSuspended       new work in a frame that rests
    │   ├── NotSuspended
    │   ├── ReservationSettled   a reservation that was committed or cancelled before
    │   ├── HandleExists         another content from the same source
    │   ├── OutcomeUnknown       a tool that was started before, and may have taken effect
    │   ├── TokenConsumed        a suspension token that was used
    │   ├── TokenExpired
    │   ├── TokenRevoked         one that was replaced or taken back, or whose frame has ended
    │   ├── TokenForbidden       one that is meant for another principal
    │   ├── FactNotLive          a dead fact where a live one is needed
    │   ├── SupersessionCycle    a chain of facts that leads back to itself
    │   ├── AuthorityExceeded    more authority than the channel has
    │   ├── NotAuthorised        too little authority to change a fact
    │   └── PermissionMissing
    ├── ExtraMissing (also an ImportError): a package that only this needs is not installed
    ├── DataError: what is stored or handed in does not hold together
    │   ├── EventUnreadable      an event this version cannot decode
    │   ├── StorageCorrupt       a damaged file or blob
    │   └── ImportRefused        an export file that is cut, edited or in conflict
    └── StorageError: the store could not do its work; nothing was acknowledged
        ├── StorageBusy          another process held the write lock too long
        │   ├── QueueFull        too many commands of this process wait already
        │   └── PoolExhausted    all connections of this process are in use
        ├── StorageFull          no space left
        ├── StorageReadOnly      the file or folder cannot be written
        ├── StorageUnavailable   an I/O error, a missing folder, a lost connection
        ├── StoreClosed          used after close()
        ├── ForkedHandle         used in a child process after fork()
        ├── UnsafeSqlite         a SQLite library with the WAL-reset bug
        ├── ForeignFile          a database that Holdfast did not make
        ├── SchemaTooNew         written by a newer Holdfast
        ├── SchemaTooOld         to be migrated by a role that may
        ├── RoleTooNarrow        a role that sees one tenant was asked about all
        ├── ServerTooOld         a PostgreSQL before 15
        └── SchemaChanged        an applied migration differs from the shipped one

Law: the class docstring *is* the message (what happened, with which value, what to do), the keyword
arguments are its attributes, and the driver's error stays as ``__cause__``.
"""

from __future__ import annotations

from holdfast.errors.base import Conflict as Conflict
from holdfast.errors.base import HoldfastError as HoldfastError
from holdfast.errors.base import InvalidInput as InvalidInput
from holdfast.errors.base import NotFound as NotFound
from holdfast.errors.base import shown as shown
from holdfast.errors.context import BudgetTooSmall as BudgetTooSmall
from holdfast.errors.context import CriticalOverflow as CriticalOverflow
from holdfast.errors.context import PackChanged as PackChanged
from holdfast.errors.context import PackNotFound as PackNotFound
from holdfast.errors.context import StrategyRefused as StrategyRefused
from holdfast.errors.context import StrategyUnknown as StrategyUnknown
from holdfast.errors.facts import AmbiguousFact as AmbiguousFact
from holdfast.errors.facts import AuthorityExceeded as AuthorityExceeded
from holdfast.errors.facts import FactNotFound as FactNotFound
from holdfast.errors.facts import FactNotLive as FactNotLive
from holdfast.errors.facts import ForeignFact as ForeignFact
from holdfast.errors.facts import InvalidLedger as InvalidLedger
from holdfast.errors.facts import NotAuthorised as NotAuthorised
from holdfast.errors.facts import PermissionMissing as PermissionMissing
from holdfast.errors.facts import ProposalNotFound as ProposalNotFound
from holdfast.errors.facts import SupersessionCycle as SupersessionCycle
from holdfast.errors.frames import AlreadySuspended as AlreadySuspended
from holdfast.errors.frames import AlreadyTerminal as AlreadyTerminal
from holdfast.errors.frames import AmbiguousHandle as AmbiguousHandle
from holdfast.errors.frames import ChildrenActive as ChildrenActive
from holdfast.errors.frames import DeadlinePassed as DeadlinePassed
from holdfast.errors.frames import FrameEnded as FrameEnded
from holdfast.errors.frames import FrameNotFound as FrameNotFound
from holdfast.errors.frames import FrameSuspended as FrameSuspended
from holdfast.errors.frames import HandleExists as HandleExists
from holdfast.errors.frames import HandleNotFound as HandleNotFound
from holdfast.errors.frames import InsufficientTokens as InsufficientTokens
from holdfast.errors.frames import MaxDepthExceeded as MaxDepthExceeded
from holdfast.errors.frames import NoFrameAtWork as NoFrameAtWork
from holdfast.errors.frames import NotSuspended as NotSuspended
from holdfast.errors.frames import OutcomeUnknown as OutcomeUnknown
from holdfast.errors.frames import ParentFrameNotFound as ParentFrameNotFound
from holdfast.errors.frames import ReservationNotFound as ReservationNotFound
from holdfast.errors.frames import ReservationSettled as ReservationSettled
from holdfast.errors.frames import ScopeMismatch as ScopeMismatch
from holdfast.errors.frames import TokenConsumed as TokenConsumed
from holdfast.errors.frames import TokenExpired as TokenExpired
from holdfast.errors.frames import TokenForbidden as TokenForbidden
from holdfast.errors.frames import TokenInvalid as TokenInvalid
from holdfast.errors.frames import TokenRevoked as TokenRevoked
from holdfast.errors.frames import ToolCallsExceeded as ToolCallsExceeded


class InvalidName(InvalidInput):
    """{what} {value!r} is not a usable name: {reason}. Use 1 to {limit} bytes of text without control characters."""

    what: str
    value: object
    reason: str


class InvalidNumber(InvalidInput):
    """{what} is {value}, not a whole number from {low} to {high}. Pass one that is."""

    what: str
    value: str
    low: int
    high: int


class InvalidText(InvalidInput):
    """{where} is not valid Unicode text: {reason}. Decode it with errors="replace", or store it as a blob."""

    where: str
    reason: str


class InvalidJson(InvalidInput):
    """{where} cannot be kept as JSON: {reason}. Use text, finite numbers of at most 64 bits, true, false, null, lists
    and objects with text keys."""

    where: str
    reason: str


class InvalidContent(InvalidInput):
    """This cannot be taken: {reason}. Check what was passed; nothing was stored."""

    reason: str


class InvalidTool(InvalidInput):
    """The function {function} cannot be described as a tool: {reason}. Pass another function, or describe it with a
    holdfast.Tool of your own."""

    function: str
    parameter: str
    """The parameter in question; empty if it is about the function itself."""
    reason: str


class InvalidAppend(InvalidInput):
    """The append cannot be accepted: {reason}. Check it against holdfast.ports.EventStore."""

    reason: str


class InvalidUrl(InvalidInput):
    """Cannot open {url!r}: {reason}. Pass a file name, "sqlite:///path/to/file.db", "postgresql://…" or
    "memory:"."""

    url: object
    reason: str


class InvalidCursor(InvalidInput):
    """The cursor {cursor!r} was not handed out by this store. Start again from the empty cursor ""."""

    cursor: str


class WindowTooSmall(InvalidInput):
    """The window has {budget} tokens, but {what} needs {needed}. Allow at least that many."""

    what: str
    budget: int
    needed: int


class TooLarge(InvalidInput):
    """{what} has {size} {unit}; the limit {limit_name} is {limit}. {advice}"""

    what: str
    size: int
    limit: int


class SessionNotFound(NotFound):
    """There is no session {session!r} of actor {actor!r} (thread {thread!r}) in tenant {tenant!r}. Create it with
    create_session(), or check the tenant and the actor."""

    tenant: str
    actor: str
    session: str
    thread: str | None


class SessionDestroyed(SessionNotFound):
    """The session {session!r} of actor {actor!r} (thread {thread!r}) in tenant {tenant!r} was destroyed ({reason}). Create
    one with another id."""

    reason: str


class CallNotFound(NotFound):
    """There is no tool call {call!r} in the session {session!r}. Pass the id of one of its tool_calls, or the provider's id
    of one that is open."""

    session: str
    call: str


class OffloadNotFound(NotFound):
    """The outbox has no entry {entry} of the session {session!r}. Pass an entry that outbox() returned."""

    session: str
    entry: int


class FileAbsent(NotFound):
    """There is nothing at {path!r}. Check the path or the address; nothing was created."""

    path: str


class BlobNotFound(NotFound):
    """There is no blob {digest!r} in tenant {tenant!r}. Put it first, or check the tenant."""

    tenant: str
    digest: str


class VersionConflict(Conflict):
    """{stream} is at version {actual}, not at {expected}: someone else wrote first, and nothing of this was stored.
    Read it again and decide anew, or leave out the expected version."""

    stream: object
    expected: int
    actual: int


class Contended(VersionConflict):
    """Others wrote to {stream} first, {tries} times in a row ({limit_name}); nothing of this was stored. Try again, or
    let fewer processes write to it at once."""

    tries: int


class Diverged(Conflict):
    """{stream} has {here} events in the source and {there} in the target, and they are not one history; nothing of it was
    stored. Copy to a new place, or the other way round if only the target's went on."""

    stream: object
    here: int
    there: int


class KeyConflict(Conflict):
    """The idempotency key {key!r} in tenant {tenant!r} already belongs to another command ({reason}). Use a new key for
    a new command."""

    tenant: str
    key: str
    reason: str


class SessionExists(Conflict):
    """The session {session!r} of actor {actor!r} exists already. Use session() to get it, or choose another id."""

    session: str
    actor: str


class SessionClosed(Conflict):
    """The session {session!r} is closed ({reason}) and takes no more messages. Create a new one."""

    session: str
    reason: str


class CallAnswered(Conflict):
    """The tool call {call!r} in the session {session!r} has its result already; nothing was stored. Record one result for
    each call; a retry needs the key of the first time."""

    session: str
    call: str


class CallsOpen(Conflict):
    """The session {session!r} waits for the results of {count} tool calls ({calls}); {what}. Record their results with
    result(), or call close_open_calls()."""

    session: str
    count: int
    calls: str
    what: str


class SummaryStale(Conflict):
    """The summary of events {first} to {last} was drafted at version {version}, and event {changed} has changed the history
    since. Draft it again."""

    first: int
    last: int
    version: int
    changed: int


class PlanStale(Conflict):
    """The plan was made at version {version}, and event {changed} has changed what is shown since. Plan again."""

    version: int
    changed: int


class ExtraMissing(HoldfastError, ImportError):
    """{what} needs a package that is not installed. Install it with: pip install 'holdfast[{extra}]'"""

    what: str
    extra: str


class DataError(HoldfastError):
    """The data does not hold together."""


class EventUnreadable(DataError):
    """Event {seq} of {stream} (type {type!r}, version {version}) cannot be read: {reason}. If a newer Holdfast wrote it,
    upgrade; otherwise run verify and restore from a backup."""

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
    """The import stopped at line {line}: {reason}. Export it again, mend that line, or use the Holdfast that made it."""

    line: int
    reason: str


class StorageError(HoldfastError):
    """The store could not do its work; nothing was acknowledged."""


class StorageBusy(StorageError):
    """{what} stayed locked by another process for {waited_ms} ms. Try again, or look for a process that holds a long
    transaction."""

    what: str
    waited_ms: int


class QueueFull(StorageBusy):
    """{limit} commands wait for {what} already (QUEUED_COMMANDS). Send fewer at a time, and try again."""

    what: str
    limit: int


class PoolExhausted(StorageBusy):
    """All {limit} connections to {what} were in use for {waited_ms} ms. Raise pool= in the address, or let fewer tasks
    run at once."""

    limit: int


class StorageFull(StorageError):
    """No space left to write {what}. Free some space and try again; everything acknowledged is safe and reads go on."""

    what: str


class StorageReadOnly(StorageError):
    """{what} cannot be written. Check the permissions of the file and its folder; on a server, those of the role, and that
    it is no replica. Reads go on."""

    what: str


class StorageUnavailable(StorageError):
    """{what} could not be used: {reason}. Check the path and the disk, or the server. A command that was under way may have
    been stored: repeat it with its idempotency key."""

    what: str
    reason: str


class StoreClosed(StorageError):
    """{what} was closed. Open it again."""

    what: str


class ForkedHandle(StorageError):
    """{what} was opened by process {opener} and is used in process {user} after a fork. Open it in each process."""

    what: str
    opener: int
    user: int


class UnsafeSqlite(StorageError):
    """SQLite {version} has the WAL-reset bug, which can corrupt a file. Install an apsw with SQLite {needed} or later."""

    version: str
    needed: str


class ForeignFile(StorageError):
    """{path!r} is not a Holdfast file: {reason}. Choose another file name; this one was not touched."""

    path: str
    reason: str


class SchemaTooNew(StorageError):
    """{path!r} has schema {found}; this Holdfast knows schemas up to {known}. Upgrade Holdfast; the file was not
    touched."""

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


class RoleTooNarrow(StorageError):
    """The role {role!r} sees one tenant of {what} at a time, and this concerns all of them. Use the role that owns the
    tables."""

    what: str
    role: str


class ServerTooOld(StorageError):
    """{what} is version {found}. Use PostgreSQL {needed} or later."""

    what: str
    found: int
    needed: int


class SchemaChanged(StorageError):
    """Migration {number} of {path!r} was applied with another text than this Holdfast ships. Use the Holdfast that made
    the file, or restore from an export."""

    path: str
    number: int
