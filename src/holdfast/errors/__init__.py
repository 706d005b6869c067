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
    │   │   └── InvalidServerUrl an address that is not of a Holdfast server
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
    │   ├── AmbiguousSession     a part of a name that several sessions have
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
    │   ├── LedgerNotFound           a ledger that the caller of a server may not use
    │   ├── KeyNotFound              no such key of a server
    │   ├── JobNotFound              no such job of a server
    │   ├── Absent                   the answer of a server for what would be None
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
    │   ├── WriterStale          another writer of a framework's thread was first
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
    │   ├── ImportRefused        an import file that is damaged or contradicts the store
    │   └── LogRefused           a file that is not a log of an agent
    ├── StorageError: the store could not do its work; nothing was acknowledged
    │   ├── StorageBusy          another process held a lock for too long
    │   │   ├── QueueFull        too many commands of this process wait
    │   │   └── PoolExhausted    all connections of this process are in use
    │   ├── StorageFull          no space is left
    │   ├── StorageReadOnly      the file or the server cannot be written
    │   ├── StorageUnavailable   an I/O error, a missing folder, a lost connection
    │   │   └── StoreNotOpened   the same, before a server has started
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
    ├── AccessRefused: a server refuses the caller
    │   ├── KeyRefused           no key, or one that is unknown, expired or revoked
    │   ├── RightMissing         a key without the right that is needed
    │   ├── RateExceeded         too many requests in a minute
    │   └── SpendExceeded        too many tokens in an hour
    ├── KeysMissing              a server without keys where others can reach it
    ├── ServerError: a server of Holdfast could not be used
    │   ├── ServerUnreachable    no connection, or no answer in time
    │   ├── ServerFailed         an answer that is not one of Holdfast
    │   ├── ServerBusy           too many requests wait already, or the server stops
    │   └── RequestTimeout       a request that took too long
    ├── GatewayNotStarted        a gateway that did not get ready for `holdfast run`
    ├── LocalOnly                what only the process that opened the store can do
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

from holdfast.errors.base import (
    HoldfastError,
    describe_value,
)
from holdfast.errors.conflicts import (
    AlreadySuspended,
    AlreadyTerminal,
    AuthorityExceeded,
    CallAnswered,
    CallsOpen,
    ChildrenActive,
    Conflict,
    Contended,
    DeadlinePassed,
    Diverged,
    EntryConflict,
    EventShared,
    FactNotLive,
    FrameSuspendedError,
    HandleExists,
    InsufficientTokens,
    KeyConflict,
    LeaseLost,
    MaxDepthExceeded,
    NotAuthorised,
    NotSuspended,
    OutcomeUnknown,
    PackChanged,
    PermissionMissing,
    PlanStale,
    ReservationSettled,
    RestoreRefused,
    SessionClosedError,
    SessionExists,
    SessionHasForks,
    SummaryStale,
    SupersessionCycle,
    TokenConsumed,
    TokenExpired,
    TokenForbidden,
    TokenRevokedError,
    ToolCallsExceeded,
    TurnBusy,
    VersionConflict,
    WriterStale,
)
from holdfast.errors.inputs import (
    AmbiguousFact,
    AmbiguousHandle,
    AmbiguousSession,
    BlobNotFound,
    BudgetTooSmall,
    CallNotFound,
    CriticalOverflow,
    FactNotFound,
    FileAbsent,
    ForeignFact,
    FrameEnded,
    FrameNotFound,
    HandleNotFound,
    InvalidAppend,
    InvalidArgument,
    InvalidCursor,
    InvalidInput,
    InvalidJson,
    InvalidLedger,
    InvalidName,
    InvalidNumber,
    InvalidServerUrl,
    InvalidText,
    InvalidTool,
    InvalidUrl,
    NoFrameAtWork,
    NoHandleFits,
    NotFound,
    OffloadNotFound,
    PackNotFound,
    ParentFrameNotFound,
    ProposalNotFound,
    ReservationNotFound,
    ScopeMismatch,
    SessionDestroyedError,
    SessionNotFound,
    StrategyRefused,
    StrategyUnknown,
    TokenInvalid,
    TooLarge,
    WindowTooSmall,
)
from holdfast.errors.services import (
    Absent,
    AccessRefused,
    AnswerCut,
    AnswerInvalid,
    EmbedderFailed,
    ExtraMissing,
    GatewayNotStarted,
    JobNotFound,
    KeyNotFound,
    KeyRefused,
    KeysMissing,
    LedgerNotFound,
    LocalOnly,
    MemoryFailed,
    ModelFailed,
    ModelRefused,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
    RateExceeded,
    RequestTimeout,
    RightMissing,
    ServerBusy,
    ServerError,
    ServerFailed,
    ServerUnreachable,
    SpendExceeded,
)
from holdfast.errors.storage import (
    DataError,
    EventUnreadable,
    ForeignFile,
    ForkedHandle,
    ImportRefused,
    LogRefused,
    PoolExhausted,
    QueueFull,
    RoleTooNarrow,
    SchemaChanged,
    SchemaTooNew,
    SchemaTooOld,
    ServerTooOld,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    StoreClosed,
    StoreFeatureMissing,
    StoreNotOpened,
    UnsafeSqlite,
)

__all__ = [
    "Absent",
    "AccessRefused",
    "AlreadySuspended",
    "AlreadyTerminal",
    "AmbiguousFact",
    "AmbiguousHandle",
    "AmbiguousSession",
    "AnswerCut",
    "AnswerInvalid",
    "AuthorityExceeded",
    "BlobNotFound",
    "BudgetTooSmall",
    "CallAnswered",
    "CallNotFound",
    "CallsOpen",
    "ChildrenActive",
    "Conflict",
    "Contended",
    "CriticalOverflow",
    "DataError",
    "DeadlinePassed",
    "Diverged",
    "EmbedderFailed",
    "EntryConflict",
    "EventShared",
    "EventUnreadable",
    "ExtraMissing",
    "FactNotFound",
    "FactNotLive",
    "FileAbsent",
    "ForeignFact",
    "ForeignFile",
    "ForkedHandle",
    "FrameEnded",
    "FrameNotFound",
    "FrameSuspendedError",
    "GatewayNotStarted",
    "HandleExists",
    "HandleNotFound",
    "HoldfastError",
    "ImportRefused",
    "InsufficientTokens",
    "InvalidAppend",
    "InvalidArgument",
    "InvalidCursor",
    "InvalidInput",
    "InvalidJson",
    "InvalidLedger",
    "InvalidName",
    "InvalidNumber",
    "InvalidServerUrl",
    "InvalidText",
    "InvalidTool",
    "InvalidUrl",
    "JobNotFound",
    "KeyConflict",
    "KeyNotFound",
    "KeyRefused",
    "KeysMissing",
    "LeaseLost",
    "LedgerNotFound",
    "LocalOnly",
    "LogRefused",
    "MaxDepthExceeded",
    "MemoryFailed",
    "ModelFailed",
    "ModelRefused",
    "ModelRejected",
    "ModelTimeout",
    "ModelUnavailable",
    "NoFrameAtWork",
    "NoHandleFits",
    "NotAuthorised",
    "NotFound",
    "NotSuspended",
    "OffloadNotFound",
    "OutcomeUnknown",
    "PackChanged",
    "PackNotFound",
    "ParentFrameNotFound",
    "PermissionMissing",
    "PlanStale",
    "PoolExhausted",
    "ProposalNotFound",
    "QueueFull",
    "RateExceeded",
    "RequestTimeout",
    "ReservationNotFound",
    "ReservationSettled",
    "RestoreRefused",
    "RightMissing",
    "RoleTooNarrow",
    "SchemaChanged",
    "SchemaTooNew",
    "SchemaTooOld",
    "ScopeMismatch",
    "ServerBusy",
    "ServerError",
    "ServerFailed",
    "ServerTooOld",
    "ServerUnreachable",
    "SessionClosedError",
    "SessionDestroyedError",
    "SessionExists",
    "SessionHasForks",
    "SessionNotFound",
    "SpendExceeded",
    "StorageBusy",
    "StorageCorrupt",
    "StorageError",
    "StorageFull",
    "StorageReadOnly",
    "StorageUnavailable",
    "StoreClosed",
    "StoreFeatureMissing",
    "StoreNotOpened",
    "StrategyRefused",
    "StrategyUnknown",
    "SummaryStale",
    "SupersessionCycle",
    "TokenConsumed",
    "TokenExpired",
    "TokenForbidden",
    "TokenInvalid",
    "TokenRevokedError",
    "TooLarge",
    "ToolCallsExceeded",
    "TurnBusy",
    "UnsafeSqlite",
    "VersionConflict",
    "WindowTooSmall",
    "WriterStale",
    "describe_value",
]
