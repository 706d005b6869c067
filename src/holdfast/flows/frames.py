"""Frames: pushing and popping them, and looking at them.

Laws: what lives is told from the state, what has ended from its row; the two never differ. What a read costs depends on
what is asked for and on how many frames live, not on the length of the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from holdfast import codec
from holdfast.conversion import to_json
from holdfast.core import project, upcast
from holdfast.core import stack as core
from holdfast.core.frames import ENDED, OUT_OF_TIME
from holdfast.core.sessions import check_there
from holdfast.core.shown import digest_of
from holdfast.errors import (
    AlreadyTerminal,
    DataError,
    FrameEnded,
    FrameNotFound,
    HandleNotFound,
    InvalidContent,
    InvalidName,
    NoFrameAtWork,
    ScopeMismatch,
    shown,
)
from holdfast.flows import effects, ingest
from holdfast.flows.effects import Flow
from holdfast.flows.inform_frames import event_at, frame_in_rows, handle_from, handle_of, session_where, state_of
from holdfast.flows.load import load
from holdfast.flows.place import Context, Place, order
from holdfast.flows.read import piece_at
from holdfast.model import limits
from holdfast.model.commands import AddHandle, PopFrame, PushFrame, ReplaceHandle, TimeOutFrame, UpdateFrame
from holdfast.model.content import Part, Text, Usage, blob_refs
from holdfast.model.events import FramePopped, FramePushed, FrameUpdated, HandleAdded
from holdfast.model.frames import (
    ENDINGS,
    LIVE,
    Ending,
    FrameRecord,
    FrameState,
    FrameStatus,
    Spend,
    frame_id,
    frame_seq,
)
from holdfast.model.handles import HANDLE_KINDS, SCORES, Handle, HandleKind, Priority, ResultRef, handle_seq, piece_of
from holdfast.model.names import Scope, check_size, checked_flag, checked_name, checked_whole
from holdfast.model.rows import FrameRow, HandleRow, Order, scope_of
from holdfast.model.state import SessionState

_NEWEST = Order(backwards=True)
_SOONEST = Order(("deadline_us",))
TOP = "top"
"""Names the top of the stack where the id of a frame may stand."""
_LONG = "Put what is long into the inputs, or into a handle with add_handle()."


class InFrame(Protocol):
    """A frame that someone holds."""

    @property
    def scope(self) -> Scope: ...

    @property
    def frame_id(self) -> str: ...


def push(
    place: Place,
    goal: str,
    *,
    budget: int,
    inputs: Any = None,
    parent: InFrame | FrameState | str | None = None,
    max_subframe_depth: int | None = None,
    max_tool_calls: int | None = None,
    timeout_s: float | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Place]:
    """Begin a unit of work. `budget` is how many tokens its model calls may spend, those of the frames below it included;
    it is granted by the parent, if there is one.

    The limits are those of the parent, or narrower: how deep frames may nest (3 unless a root says otherwise), how many
    tools may be started in this frame, and how long it may take, the time that it is suspended not counted.

    Used with `with`, it ends when the block is left: completed, or failed with the error's text."""
    if inputs is not None:
        inputs = _checked_inputs(inputs)
    depth, tools = max_subframe_depth, max_tool_calls
    command = PushFrame(
        scope=place.scope,
        goal=checked_brief("the goal", goal),
        inputs=inputs,
        parent=_parent(place, parent),
        budget=checked_whole("the budget", budget),
        max_subframe_depth=None if depth is None else checked_whole("max_subframe_depth", depth, 0, limits.FRAME_DEPTH),
        max_tool_calls=None if tools is None else checked_whole("max_tool_calls", tools),
        timeout_us=None if timeout_s is None else ingest.microseconds("timeout_s", timeout_s),
    )
    (recorded,) = (yield from order(place, command, key=key, expect=expect, cause=cause)).events
    return Place(place.context, place.scope, frame_id(recorded.seq))


def _parent(place: Place, parent: object) -> str | None:
    if place.frame is None:
        return None if parent is None else _named(place, parent)
    if parent is not None:
        raise InvalidContent(reason="a frame is the parent of those it pushes: leave out parent")
    return place.frame


def _named(place: Place, frame: Any) -> str:
    """The id of a frame of this session, given as that, as what a list of frames has, or as a frame that is held."""
    if type(frame) is str:
        return checked_frame(frame)
    if type(frame) is FrameState:
        return checked_frame(frame.id)
    if type(frame) is not FrameRecord and not isinstance(getattr(type(frame), "frame_id", None), property):
        raise InvalidContent(reason=f"{shown(frame)} is not a frame, nor the id of one")
    name = frame.id
    if frame.scope != place.scope:
        raise ScopeMismatch(frame=name, theirs=frame.scope.stream, ours=place.scope.stream)
    return checked_frame(name)


def get(place: Place, frame: FrameState | str) -> Flow[Place]:
    """A frame that is there, live or past, by its id; for "top", the one on top of the stack. FrameNotFound otherwise."""
    if type(frame) is str and frame == TOP:
        return (yield from conversation(place, frame))
    found = yield from _found(place, _named(place, frame))
    return Place(place.context, place.scope, found.id)


def checked_brief(what: str, text: object, advice: str = _LONG) -> str:
    brief = codec.checked_text(what, text)
    if not brief.strip():
        raise InvalidContent(reason=f"{what} is empty")
    check_size(what, len(brief.encode()), "bytes", "BRIEF_BYTES", advice)
    return brief


def checked_frame(frame: object) -> str:
    """The id of a frame. Nobody else's names look like one, so that nothing is taken for a frame that is none."""
    if type(frame) is str and frame_seq(frame):
        return frame
    reason = "the id of a frame is f and a number"
    raise InvalidName(what="frame", value=frame if type(frame) is str else shown(frame), reason=reason, limit=20)


def _checked_inputs(inputs: object) -> Any:
    value = to_json("the inputs", inputs)
    advice = "Put large values into the blob store with put_blob() and keep a reference."
    check_size("the inputs", len(codec.encode(value)), "bytes", "INPUT_BYTES", advice)
    return value


def own(place: Place) -> str:
    assert place.frame is not None, "only a frame's own methods come here"
    return place.frame


def update(
    place: Place,
    *,
    goal: str | None = None,
    inputs: Any = None,
    context_hash: str | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Change what a frame is about. What is None stays as it is."""
    command = UpdateFrame(
        scope=place.scope,
        frame=own(place),
        goal=None if goal is None else checked_brief("the goal", goal),
        inputs=None if inputs is None else _checked_inputs(inputs),
        context_hash=None if context_hash is None else checked_name("context hash", context_hash),
    )
    yield from order(place, command, key=key, expect=expect, cause=cause)


def pop(
    place: Place,
    status: Ending = "completed",
    summary: str = "",
    *,
    result: object = None,
    cascade: bool = False,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """End a frame. What its subtree used is settled with its parent, and the summary and the result, which may be whatever
    a tool may return, become a handle there.

    While others live below it this is refused, unless `cascade` cancels those, the deepest first. Ending it the same way
    again changes nothing."""
    ending: Ending = one_of("ending", status, ENDINGS)
    check_size("the summary", len(codec.checked_text("the summary", summary).encode()), "bytes", "SPOOL_BYTES", _LONG)
    parts: tuple[Part, ...] = ()
    if result is not None:
        parts = yield from ingest.settled_value(place.context, result)
    content = (Text(summary), *parts) if summary else parts
    command = PopFrame(
        scope=place.scope,
        frame=own(place),
        status=ending,
        summary=summary,
        result=parts,
        digest=digest_of(content),
        cascade=checked_flag("cascade", cascade),
    )
    tokens = [ingest.count_whole(place.context.counter, content)]
    refs = blob_refs(parts)
    yield from order(place, command, tokens=tokens, closing=ENDED, bodies=refs, key=key, expect=expect, cause=cause)


def leave(place: Place, status: Ending, summary: str) -> Flow[None]:
    """The block of a frame is left: it ends, unless it rests, or has ended in the block already. An error takes along what
    lives below it."""
    session = yield from _session(place)
    frame = session.frames.get(own(place)) or (yield from _found(place, own(place)))
    if frame.live and status == "completed" and core.all_rest(session.frames, frame.id):
        return  # whoever wakes what is below it goes on with it
    if not frame.live or frame.suspension is not None:
        if status == "completed" and frame.status in ("failed", "cancelled"):
            event = yield from event_at(place.scope.stream, frame.touched)
            if not isinstance(event, FramePopped) or event.frame != frame.id or event.summary == OUT_OF_TIME:
                raise AlreadyTerminal(frame=frame.id, status=frame.status)
        return
    yield from pop(place, status, brief(summary), cascade=status != "completed")


def brief(text: str) -> str:
    """The beginning of a text that may be any length."""
    return ingest.preview(text.encode()[: limits.PREVIEW_BYTES]) if len(text) * 4 > limits.PREVIEW_BYTES else text


def state(place: Place) -> Flow[FrameRecord]:
    """The frame as it stands, with all that the log has of it."""
    session = yield from _session(place)
    frame = yield from _frame_in(session, place, own(place))
    stream, collapsed = place.scope.stream, session.collapsed(frame)
    source = yield from event_at(stream, frame.inputs_at)
    ending = None if frame.live else (yield from event_at(stream, frame.touched))
    ended = ending if isinstance(ending, FramePopped) and ending.frame == frame.id else None
    rows: list[HandleRow] = []
    if frame.handles:
        rows = yield from _handle_rows(place, None, limits.READ_EVENTS)
    return FrameRecord(
        scope=place.scope,
        inputs=source.inputs if isinstance(source, FramePushed | FrameUpdated) else None,
        summary=ended.summary if ended is not None else "",
        result=ended.result if ended is not None else (),
        context_handles=tuple(project.with_residency(handle_of(row), collapsed) for row in rows),
        result_refs=tuple(_result_ref(row) for row in rows if row.result),
        **{field: getattr(frame, field) for field in FrameState.__struct_fields__},
    )


def _result_ref(row: HandleRow) -> ResultRef:
    status: Any = row.result
    handle = handle_of(row)
    return ResultRef(frame=handle.source or "", status=status, handle=handle.id)


def _session(place: Place) -> Flow[SessionState]:
    found = yield from load(place.scope.stream, place.context.cache, fresh=True)
    check_there(found, place.scope)
    return found


def _found(place: Place, frame: str) -> Flow[FrameState]:
    return (yield from _frame_in((yield from _session(place)), place, frame))


def _frame_in(session: SessionState, place: Place, frame: str) -> Flow[FrameState]:
    found = session.frames.get(frame) or (yield from frame_in_rows(place.scope, frame))
    if found is None:
        raise FrameNotFound(session=place.scope.session, frame=frame)
    return found


def spend(place: Place) -> Flow[Spend]:
    """What this frame and all below it have used so far, those that still live included."""
    session = yield from _session(place)
    live = session.frames.get(own(place))  # one look for all of them: what ends meanwhile is counted once
    found = [(yield from _found(place, own(place)))] if live is None else [live, *core.below(session.frames, live.id)]
    tokens = min(sum(each.budget.used for each in found), limits.WHOLE_NUMBER)
    return Spend(tokens, sum((each.usage + each.below for each in found), Usage()))


def ancestry(place: Place) -> Flow[list[FrameState]]:
    """From the root to this frame."""
    session = yield from _session(place)
    found = core.ancestry(session.frames, own(place))
    if found:
        return found
    at: str | None = own(place)
    while at is not None:
        frame = session.frames.get(at) or (yield from _found(place, at))
        found.append(frame)
        at = frame.parent
    return found[::-1]


def conversation(place: Place, frame: InFrame | FrameState | str | None) -> Flow[Place]:
    """The conversation that is meant: the own one of a session or frame if none is named, or that of a live frame of the
    session: "top" is the top of the stack."""
    if frame is None:
        return place
    if place.frame is not None:
        raise InvalidContent(reason=f"this is the frame {place.frame}: leave out frame=, or ask the session")
    if type(frame) is not str or frame != TOP:
        name = _named(place, frame)
        if name not in (yield from _session(place)).frames:
            raise (yield from not_live(place, name))
        return Place(place.context, place.scope, name)
    top = core.top((yield from _session(place)).frames)
    if top is None:
        raise NoFrameAtWork(session=place.scope.session, frame=TOP)
    return Place(place.context, place.scope, top.id)


def not_live(place: Place, frame: str) -> Flow[FrameNotFound]:
    """What to say of a frame that should be live and is not: FrameEnded, or FrameNotFound if it never was."""
    found = yield from frame_in_rows(place.scope, frame)
    if found is None or found.live:
        return FrameNotFound(session=place.scope.session, frame=frame)
    return FrameEnded(session=place.scope.session, frame=frame, status=found.status)


def stack(place: Place) -> Flow[list[FrameState]]:
    """From a root to the frame that is at work: the live one, not suspended, with the newest activity. Empty if there is
    none."""
    session = yield from _session(place)
    current = core.top(session.frames)
    return [] if current is None else core.ancestry(session.frames, current.id)


def listed(
    place: Place,
    *,
    status: FrameStatus | Literal["live"] | None = None,
    parent: InFrame | FrameState | str | None = None,
    after: FrameState | str | None = None,
    limit: int = 100,
) -> Flow[list[FrameState]]:
    """The session's frames, live and past, in the order in which they were pushed; `after` is the last one of the page
    before."""
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    session = yield from _session(place)
    above = None if parent is None else frame_seq(_named(place, parent))
    first = 0 if after is None else frame_seq(_named(place, after))
    wanted = None if status is None else one_of("status", status, ("live", *LIVE, *ENDINGS))
    if wanted in ("live", *LIVE):
        live = (each for each in core.by_age(session.frames) if wanted in ("live", each.status))
        own = (each for each in live if above is None or frame_seq(each.parent) == above)
        return [each for each in own if frame_seq(each.id) > first][:limit]
    where = session_where(place.scope)
    if wanted is not None:
        where["ended"] = wanted
    if above is not None:
        where["parent"] = above
    last = None if after is None else _frame_key(place.scope, first)
    rows = yield from effects.rows(FrameRow, where, last, limit)
    return [state_of(row) for row in rows]


def _frame_key(scope: Scope, frame: int) -> FrameRow:
    """What a page goes on after: only its key is looked at."""
    return FrameRow(**scope.columns, frame=frame, parent=0, ended=None, deadline_us=None, state="")


def add_handle(
    place: Place,
    kind: HandleKind,
    content: object,
    *,
    priority: Priority = "medium",
    title: str = "",
    source: str | None = None,
    metadata: dict[str, Any] | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Handle]:
    """Put a piece of context within the frame's reach: text, any JSON value, parts of a message, or bytes, which are
    streamed. The same content from the same source again is the same handle."""
    command = AddHandle(
        scope=place.scope,
        frame=own(place),
        kind=one_of("kind of a handle", kind, HANDLE_KINDS),
        priority=one_of("priority", priority, tuple(SCORES)),
        title=_title(title),
        source=None if source is None else checked_name("source", source),
        content=(parts := (yield from ingest.settled_value(place.context, content))),
        digest=digest_of(parts),
        metadata={} if metadata is None else ingest.checked_object("metadata", metadata),
    )
    appended = yield from order(
        place,
        command,
        tokens=[ingest.count_whole(place.context.counter, parts)],
        bodies=blob_refs(parts),
        key=key,
        expect=expect,
        cause=cause,
    )
    made: Handle | None = None
    for recorded in appended.events:
        event = upcast.current(recorded)
        made = project.handle_of(event, recorded.seq) if isinstance(event, HandleAdded) else None
    if not appended.events and command.source is not None:
        found = yield from handle_from(place.scope, own(place), command.source)
        made = None if found is None else (yield from find_handle(place, found.id))
    if made is None:  # a retry after it was erased
        raise HandleNotFound(session=place.scope.session, handle=f"of {shown(command.source)}")
    return made


def _title(title: object) -> str:
    return "" if type(title) is str and not title else checked_brief("the title", title)


def replace_handle(
    place: Place,
    handle: Handle | str,
    content: object = None,
    *,
    priority: Priority | None = None,
    title: str | None = None,
    metadata: dict[str, Any] | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Handle]:
    """Let a handle of the frame stand for another content, or carry another priority, title or metadata. What is not said
    stays as it was; the id stays in any case."""
    name = checked_handle(handle)
    parts = None if content is None else (yield from ingest.settled_value(place.context, content))
    command = ReplaceHandle(
        scope=place.scope,
        frame=own(place),
        handle=name,
        priority=None if priority is None else one_of("priority", priority, tuple(SCORES)),
        title=None if title is None else _title(title),
        content=parts,
        digest="" if parts is None else digest_of(parts),
        metadata=None if metadata is None else ingest.checked_object("metadata", metadata),
        residency=None if parts is None else "resident",
    )
    tokens = [] if parts is None else [ingest.count_whole(place.context.counter, parts)]
    yield from order(place, command, tokens=tokens, bodies=blob_refs(parts or ()), key=key, cause=cause)
    return (yield from find_handle(place, name))


def find_handle(place: Place, name: str) -> Flow[Handle]:
    """A handle of any frame of the session, as it stands."""
    where = session_where(place.scope) | {"handle": handle_seq(name)}
    for row in (yield from effects.rows(HandleRow, where, None, 1)):
        session = yield from _session(place)
        frame = yield from _frame_in(session, place, frame_id(row.frame))
        return project.with_residency(handle_of(row), session.collapsed(frame))
    raise HandleNotFound(session=place.scope.session, handle=name)


def one_of(what: str, value: object, known: Sequence[Any]) -> Any:
    if type(value) is str and value in known:
        return value
    raise InvalidContent(reason=f"the {what} {shown(value)} is not one of {', '.join(known)}")


def handles(place: Place, *, before: str | None = None, limit: int = 100) -> Flow[list[Handle]]:
    """The frame's newest handles, oldest first; with `before`, the newest before that one."""
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    rows = yield from _handle_rows(place, before, limit)  # before the state: it is never older than they are
    session = yield from _session(place)
    collapsed = session.collapsed((yield from _frame_in(session, place, own(place))))
    return [project.with_residency(handle_of(row), collapsed) for row in rows]


def _handle_rows(place: Place, before: str | None, limit: int) -> Flow[list[HandleRow]]:
    scope = place.scope
    last: HandleRow | None = None
    if before is not None:
        number = handle_seq(checked_handle(before))
        last = HandleRow(**scope.columns, handle=number, frame=0, source=None, result="", state="")
    where = session_where(scope) | {"frame": frame_seq(own(place))}
    found = yield from effects.rows(HandleRow, where, last, limit, order=_NEWEST)
    return list(reversed(found))


def checked_handle(handle: object) -> str:
    given = handle.id if type(handle) is Handle else handle
    if type(given) is str and handle_seq(given):
        return given
    reason = "the handle of something that was added to a frame is h and a number"
    raise InvalidName(what="handle", value=given if type(given) is str else shown(given), reason=reason, limit=20)


def read_handle(place: Place, handle: Handle | str) -> Flow[tuple[Part, ...]]:
    """What a handle stands for: something added to a frame ("h12"), or a piece of a message ("h12_0"). Large bodies are
    references: read_text() reads in them, read_blob() has them whole."""
    found = piece_of(handle.id if isinstance(handle, Handle) else handle if type(handle) is str else "")
    if found is not None:
        yield from _session(place)
        _, parts, _ = yield from piece_at(place.scope, *found)
        return parts
    name = checked_handle(handle)
    yield from _session(place)
    where = session_where(place.scope) | {"handle": handle_seq(name)}
    for row in (yield from effects.rows(HandleRow, where, None, 1)):
        return core.content_of((yield from event_at(place.scope.stream, handle_of(row).at)))
    raise HandleNotFound(session=place.scope.session, handle=name)


def time_out(context: Context, limit: int) -> Flow[tuple[list[tuple[Scope, str]], DataError | None]]:
    """Fail the frames that are out of time, with all below them cancelled, and the deepest first; which ones, and what went
    wrong on the way."""
    where: dict[str, str | int] = {"tenant": context.tenant}
    most = {"deadline_us": context.clock.now_us()}
    due = yield from effects.rows(FrameRow, where, None, limit, order=_SOONEST, most=most)
    swept: list[tuple[Scope, str]] = []
    trouble: DataError | None = None
    content = (Text(OUT_OF_TIME),)
    tokens = [ingest.count_parts(context.counter, content)]
    for row in sorted(due, key=lambda row: -row.frame):
        scope = scope_of(row)
        command = TimeOutFrame(scope=scope, frame=frame_id(row.frame))
        try:
            made = yield from order(
                Place(context, scope), command, tokens=tokens, closing=ENDED, digest=digest_of(content)
            )
        except DataError as error:  # one damaged session does not keep the others
            trouble = error
            continue
        for recorded in made.events:
            event = upcast.current(recorded)
            if isinstance(event, FramePopped):
                swept.append((scope, event.frame))
    return swept, trouble
