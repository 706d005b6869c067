"""Errors about frames: their budgets, their limits, their tokens."""

from __future__ import annotations

from holdfast.errors.base import Conflict, InvalidInput, NotFound


class ScopeMismatch(InvalidInput):
    """The frame {frame} belongs to {theirs}, not to {ours}. Pass a frame of the same session."""

    frame: str
    theirs: object
    ours: object


class FrameNotFound(NotFound):
    """There is no frame {frame!r} in the session {session!r}. Pass the id of one of its frames: see frames()."""

    session: str
    frame: str


class FrameEnded(FrameNotFound):
    """The frame {frame!r} of the session {session!r} has ended: it is {status}, so no model call can follow in it. Push
    another frame, or pack the session itself; its handles can still be read with read_handle(). Nothing was stored."""

    status: str


class NoFrameAtWork(FrameNotFound):
    """No frame of the session {session!r} is on top of the stack: none is live, or all that live are suspended. Push or
    resume one, or pack the session itself. Nothing was stored."""


class ParentFrameNotFound(FrameNotFound):
    """There is no frame {frame!r} in the session {session!r} that could be a parent. Pass the id of one that lives: see
    frames()."""


class ReservationNotFound(NotFound):
    """The frame {frame!r} has no reservation {reservation!r}. Pass what reserve() returned."""

    frame: str
    reservation: str


class HandleNotFound(NotFound):
    """There is no handle {handle!r} in the session {session!r}. Pass the id of one that was shown: see pieces(), and the
    handles() of its frames."""

    session: str
    handle: str


class AmbiguousHandle(InvalidInput):
    """{source!r} names several handles of the session {session!r}: {handles}. Pass the id of one of them."""

    session: str
    source: str
    handles: str


class TokenInvalid(NotFound):
    """This is no suspension token of the tenant {tenant!r}. Pass what suspend() returned, and check the tenant."""

    tenant: str


class InsufficientTokens(Conflict):
    """The frame {frame!r} has {available} tokens available, and {requested} were asked for; nothing was changed. Ask for
    less, wait until a child ends, or grant() it more."""

    frame: str
    requested: int
    available: int


class MaxDepthExceeded(Conflict):
    """A frame below {frame!r} would have depth {depth}; max_subframe_depth is {limit}. Do the work in the frame itself, or
    push the root with a larger limit."""

    frame: str
    depth: int
    limit: int


class ToolCallsExceeded(Conflict):
    """The frame {frame!r} has started {used} tools; max_tool_calls is {limit}. Close the open calls with
    close_open_calls(), and let the frame come to an end."""

    frame: str
    used: int
    limit: int


class DeadlinePassed(Conflict):
    """The frame {frame!r} has been out of time for {late_us} microseconds. Pop it; nothing new begins in it."""

    frame: str
    late_us: int


class ChildrenActive(Conflict):
    """The frame {frame!r} has {children} live children ({some}). Pop them first, or use cascade=True to cancel all below
    it."""

    frame: str
    children: int
    some: str


class AlreadyTerminal(Conflict):
    """The frame {frame!r} is {status} already; nothing was changed. Push another one for what is to be done, and record
    what still comes in the session itself."""

    frame: str
    status: str


class AlreadySuspended(Conflict):
    """The frame {frame!r} is suspended already ({reason}); nothing was changed. Use reissue() if its token was lost."""

    frame: str
    reason: str


class FrameSuspended(Conflict):
    """The frame {frame!r} is suspended ({reason}). Use resume() with its token before anything new begins in it."""

    frame: str
    reason: str


class NotSuspended(Conflict):
    """The frame {frame!r} is {status}, and has no token of its own. Use suspend() first; or the frame above it that was
    suspended with all below it."""

    frame: str
    status: str


class ReservationSettled(Conflict):
    """The reservation {reservation!r} of the frame {frame!r} was committed or cancelled before; nothing was changed.
    Use each one once; a retry needs the key of the first time."""

    frame: str
    reservation: str


class HandleExists(Conflict):
    """The frame {frame!r} has another content from {source!r} already, the handle {handle!r}. Use another source."""

    frame: str
    source: str
    handle: str


class OutcomeUnknown(Conflict):
    """The tool call {call!r} ({name}) was started {attempts} times and has no result: it may have taken effect. Check that
    under its key {key!r}, then record the result, or start it with again=True."""

    call: str
    name: str
    key: str
    attempts: int


class TokenConsumed(Conflict):
    """This suspension token of the frame {frame!r} was used already. Each works once; look at the frame with frames()."""

    frame: str


class TokenExpired(Conflict):
    """This suspension token of the frame {frame!r} expired {late_us} microseconds ago. Use reissue() on the frame for
    another."""

    frame: str
    late_us: int


class TokenRevoked(Conflict):
    """This suspension token of the frame {frame!r} is void: {reason}. Use the newest one, or reissue() while the frame is
    suspended."""

    frame: str
    reason: str


class TokenForbidden(Conflict):
    """The principal {principal!r} may not use the suspension of the frame {frame!r}. Act as the one who suspended it, or as
    one of those it names."""

    frame: str
    principal: str
