"""Errors of callers: invalid input, and names of what does not exist."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError

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


class InvalidServerUrl(InvalidUrl):
    """{url!r} is not the address of a Holdfast server: {reason}. Pass the address that `holdfast serve` prints, with its
    scheme and without /api or /v1. Nothing was stored."""


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


class AmbiguousSession(InvalidInput):
    """The part {part!r} of a name is ambiguous: {reason}. Pass the whole name of one session. Nothing was read."""

    part: str
    reason: str


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
    """There is no session {session!r} of actor {actor!r} (thread {thread!r}) in tenant {tenant!r}. Create it first, or
    check its name, the tenant and the actor."""

    tenant: str
    actor: str
    session: str
    thread: str | None

    def _write_template(self) -> str:
        template = super()._write_template()
        return template if self.thread is not None else template.replace(" (thread {thread!r})", "")


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
    """No handle in the semantic tier of the session {session!r} fits the query {query!r}. Put one there with
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
