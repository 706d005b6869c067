"""Frames: push, update, pop and list them.

Laws: live frames are read from the state, ended ones from their rows; the two never differ. The cost of a read depends on
its result and on the number of live frames, not on the length of the history.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from holdfast import codec
from holdfast.conversion import to_json
from holdfast.core import project, upcast
from holdfast.core.frames.decide import FRAME_ENDED, OUT_OF_TIME
from holdfast.core.frames.stack import (
    find_ancestry,
    find_descendants,
    find_top,
    is_blocked_by_suspension,
    sort_by_age,
)
from holdfast.core.history.views import piece_digest
from holdfast.errors import (
    AlreadyTerminal,
    DataError,
    FrameEnded,
    FrameNotFound,
    InvalidArgument,
    InvalidName,
    NoFrameAtWork,
    ScopeMismatch,
    describe_value,
)
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, SessionContext, execute_command, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.frames.lookup import (
    decode_frame,
    decode_handle,
    find_stored_frame,
    read_event,
    session_filter,
)
from holdfast.flows.sessions import ingest
from holdfast.model import limits
from holdfast.model.content import Part, Text, Usage, blob_refs
from holdfast.model.frames.commands import PopFrame, PushFrame, TimeOutFrame, UpdateFrame
from holdfast.model.frames.events import FramePopped, FramePushed, FrameUpdated
from holdfast.model.frames.frames import (
    ENDINGS,
    LIVE_STATUSES,
    Ending,
    FrameRecord,
    FrameSpend,
    FrameState,
    FrameStatus,
    frame_id,
    frame_seq,
)
from holdfast.model.history.handles import (
    Handle,
    ResultRef,
    handle_seq,
)
from holdfast.model.names import Scope, check_choice, check_flag, check_name, check_size, check_whole
from holdfast.model.rows import FrameRow, HandleRow, RowOrder, scope_of
from holdfast.model.state import SessionState

_NEWEST_FIRST = RowOrder(backwards=True)
_EARLIEST_FIRST = RowOrder(("deadline_us",))
TOP = "top"
"""Means the top of the stack in place of the id of a frame."""
_LONG_TEXT_ADVICE = "Put long texts into the inputs, or into a handle with frame.handles.add()."


class FrameReference(Protocol):
    """A frame object of a caller."""

    @property
    def scope(self) -> Scope: ...

    @property
    def frame_id(self) -> str: ...


def push(
    context: SessionContext,
    goal: str,
    *,
    budget: int,
    inputs: Any = None,
    parent: FrameReference | FrameState | str | None = None,
    max_subframe_depth: int | None = None,
    max_tool_calls: int | None = None,
    timeout_s: float | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[SessionContext]:
    """Push a frame: a unit of work with a budget."""
    if inputs is not None:
        inputs = _check_inputs(inputs)
    depth, tools = max_subframe_depth, max_tool_calls
    command = PushFrame(
        scope=context.scope,
        goal=check_short_text("the goal", goal),
        inputs=inputs,
        parent=_check_parent(context, parent),
        budget=check_whole("the budget", budget),
        max_subframe_depth=None if depth is None else check_whole("max_subframe_depth", depth, 0, limits.FRAME_DEPTH),
        max_tool_calls=None if tools is None else check_whole("max_tool_calls", tools),
        timeout_us=None if timeout_s is None else ingest.to_microseconds("timeout_s", timeout_s),
    )
    (recorded,) = (yield from execute_command(context, command, key=key, expect=expect, cause=cause)).events
    return SessionContext(context.engine, context.scope, frame_id(recorded.seq))


def _check_parent(context: SessionContext, parent: object) -> str | None:
    if context.frame is None:
        return None if parent is None else _resolve_frame_id(context, parent)
    if parent is not None:
        raise InvalidArgument(argument="parent", reason="a frame is the parent of those it pushes; leave it out")
    return context.frame


def _resolve_frame_id(context: SessionContext, frame: Any) -> str:
    """The id of a frame of this session, from an id, a state, a record or a frame object."""
    if type(frame) is str:
        return check_frame_id(frame)
    if type(frame) is FrameState:
        return check_frame_id(frame.id)
    if type(frame) is not FrameRecord and not isinstance(getattr(type(frame), "frame_id", None), property):
        raise InvalidArgument(argument="frame", reason=f"{describe_value(frame)} is not a frame or the id of a frame")
    name = frame.id
    if frame.scope != context.scope:
        raise ScopeMismatch(frame=name, theirs=frame.scope.stream, ours=context.scope.stream)
    return check_frame_id(name)


def get(context: SessionContext, frame: FrameState | str) -> Flow[SessionContext]:
    """A frame, live or ended, by its id; "top" is the top of the stack."""
    if type(frame) is str and frame == TOP:
        return (yield from resolve_conversation(context, frame))
    state = yield from find_frame(context, _resolve_frame_id(context, frame))
    return SessionContext(context.engine, context.scope, state.id)


def check_short_text(what: str, text: object, advice: str = _LONG_TEXT_ADVICE) -> str:
    brief = codec.check_text(what, text)
    if not brief.strip():
        raise InvalidArgument(argument=what.removeprefix("the "), reason="it is empty")
    check_size(what, len(brief.encode()), "bytes", "BRIEF_BYTES", advice)
    return brief


def check_frame_id(frame: object) -> str:
    """The value, if it is the id of a frame."""
    if type(frame) is str and frame_seq(frame):
        return frame
    reason = "the id of a frame is f and a number"
    raise InvalidName(
        what="frame", value=frame if type(frame) is str else describe_value(frame), reason=reason, limit=20
    )


def _check_inputs(inputs: object) -> Any:
    value = to_json("the inputs", inputs)
    advice = "Put large values into the blob store with engine.blobs.put() and pass the reference."
    check_size("the inputs", len(codec.encode(value)), "bytes", "INPUT_BYTES", advice)
    return value


def require_frame(context: SessionContext) -> str:
    assert context.frame is not None, "only methods of a frame call this"
    return context.frame


def update(
    context: SessionContext,
    *,
    goal: str | None = None,
    inputs: Any = None,
    context_hash: str | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Change the goal, the inputs or the context hash of a frame. None leaves a field as it is."""
    command = UpdateFrame(
        scope=context.scope,
        frame=require_frame(context),
        goal=None if goal is None else check_short_text("the goal", goal),
        inputs=None if inputs is None else _check_inputs(inputs),
        context_hash=None if context_hash is None else check_name("context hash", context_hash),
    )
    yield from execute_command(context, command, key=key, expect=expect, cause=cause)


def pop(
    context: SessionContext,
    status: Ending = "completed",
    summary: str = "",
    *,
    result: object = None,
    cascade: bool = False,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """End a frame, and settle its budget with its parent."""
    ending: Ending = check_choice("status", status, ENDINGS)
    check_size(
        "the summary", len(codec.check_text("the summary", summary).encode()), "bytes", "SPOOL_BYTES", _LONG_TEXT_ADVICE
    )
    parts: tuple[Part, ...] = ()
    if result is not None:
        parts = yield from ingest.ingest_value(context.engine, result)
    content = (Text(summary), *parts) if summary else parts
    command = PopFrame(
        scope=context.scope,
        frame=require_frame(context),
        status=ending,
        summary=summary,
        result=parts,
        digest=piece_digest(content),
        cascade=check_flag("cascade", cascade),
    )
    tokens = [ingest.count_whole(context.engine.counter, content)]
    refs = blob_refs(parts)
    yield from execute_command(
        context, command, tokens=tokens, closing_reason=FRAME_ENDED, bodies=refs, key=key, expect=expect, cause=cause
    )


def leave(context: SessionContext, status: Ending, summary: str) -> Flow[None]:
    """End a frame when its `with` block ends, unless it is suspended or has ended. An error also ends the frames below."""
    session = yield from load_session(context)
    frame = session.frames.get(require_frame(context)) or (yield from find_frame(context, require_frame(context)))
    if frame.is_live and status == "completed" and is_blocked_by_suspension(session.frames, frame.id):
        return  # it continues when a frame below it is resumed
    if not frame.is_live or frame.suspension is not None:
        if status == "completed" and frame.status in ("failed", "cancelled"):
            event = yield from read_event(context.scope.stream, frame.touched)
            if not isinstance(event, FramePopped) or event.frame != frame.id or event.summary == OUT_OF_TIME:
                raise AlreadyTerminal(frame=frame.id, status=frame.status)
        return
    yield from pop(context, status, shorten_summary(summary), cascade=status != "completed")


def shorten_summary(text: str) -> str:
    """The beginning of a text of any length."""
    return ingest.preview_start(text.encode()[: limits.PREVIEW_BYTES]) if len(text) * 4 > limits.PREVIEW_BYTES else text


def state(context: SessionContext) -> Flow[FrameRecord]:
    """The state of the frame, with its inputs, result and handles from the log."""
    session = yield from load_session(context)
    frame = yield from find_frame_in(session, context, require_frame(context))
    stream, collapsed = context.scope.stream, session.collapsed_handles(frame)
    source = yield from read_event(stream, frame.inputs_at)
    ending = None if frame.is_live else (yield from read_event(stream, frame.touched))
    ended = ending if isinstance(ending, FramePopped) and ending.frame == frame.id else None
    rows: list[HandleRow] = []
    if frame.handles:
        rows = yield from find_handle_rows(context, None, limits.READ_EVENTS)
    return FrameRecord(
        scope=context.scope,
        inputs=source.inputs if isinstance(source, FramePushed | FrameUpdated) else None,
        summary=ended.summary if ended is not None else "",
        result=ended.result if ended is not None else (),
        context_handles=tuple(project.apply_collapse(decode_handle(row), collapsed) for row in rows),
        result_refs=tuple(_build_result_ref(row) for row in rows if row.result),
        **{field: getattr(frame, field) for field in FrameState.__struct_fields__},
    )


def _build_result_ref(row: HandleRow) -> ResultRef:
    status: Any = row.result
    handle = decode_handle(row)
    return ResultRef(frame=handle.source or "", status=status, handle=handle.id)


def find_frame(context: SessionContext, frame: str) -> Flow[FrameState]:
    return (yield from find_frame_in((yield from load_session(context)), context, frame))


def find_frame_in(session: SessionState, context: SessionContext, frame: str) -> Flow[FrameState]:
    state = session.frames.get(frame) or (yield from find_stored_frame(context.scope, frame))
    if state is None:
        raise FrameNotFound(session=context.scope.session, frame=frame)
    return state


def spend(context: SessionContext) -> Flow[FrameSpend]:
    """The tokens that this frame and all below it have used, live ones included."""
    session = yield from load_session(context)
    live = session.frames.get(require_frame(context))  # one state for all: a frame that ends meanwhile is counted once
    frames = (
        [(yield from find_frame(context, require_frame(context)))]
        if live is None
        else [live, *find_descendants(session.frames, live.id)]
    )
    tokens = min(sum(each.budget.used for each in frames), limits.WHOLE_NUMBER)
    return FrameSpend(tokens, sum((each.usage + each.below for each in frames), Usage()))


def ancestry(context: SessionContext) -> Flow[list[FrameState]]:
    """From the root to this frame."""
    session = yield from load_session(context)
    frames = find_ancestry(session.frames, require_frame(context))
    if frames:
        return frames
    at: str | None = require_frame(context)
    while at is not None:
        frame = session.frames.get(at) or (yield from find_frame(context, at))
        frames.append(frame)
        at = frame.parent
    return frames[::-1]


def resolve_conversation(
    context: SessionContext, frame: FrameReference | FrameState | str | None
) -> Flow[SessionContext]:
    """The conversation of a live frame of the session; without a frame, the given one. "top" is the top of the stack."""
    if frame is None:
        return context
    if context.frame is not None:
        raise InvalidArgument(
            argument="frame", reason=f"this is the frame {context.frame}; leave it out, or call the session"
        )
    if type(frame) is not str or frame != TOP:
        name = _resolve_frame_id(context, frame)
        if name not in (yield from load_session(context)).frames:
            raise (yield from build_not_live_error(context, name))
        return SessionContext(context.engine, context.scope, name)
    top = find_top((yield from load_session(context)).frames)
    if top is None:
        raise NoFrameAtWork(session=context.scope.session, frame=TOP)
    return SessionContext(context.engine, context.scope, top.id)


def build_not_live_error(context: SessionContext, frame: str) -> Flow[FrameNotFound]:
    """The error for a frame that is not live: FrameEnded, or FrameNotFound if it never existed."""
    stored = yield from find_stored_frame(context.scope, frame)
    if stored is None or stored.is_live:
        return FrameNotFound(session=context.scope.session, frame=frame)
    return FrameEnded(session=context.scope.session, frame=frame, status=stored.status)


def stack(context: SessionContext) -> Flow[list[FrameState]]:
    """The frames from the root to the top: the live frame, not suspended, with the newest activity. Empty if none."""
    session = yield from load_session(context)
    current = find_top(session.frames)
    return [] if current is None else find_ancestry(session.frames, current.id)


def list_frames(
    context: SessionContext,
    *,
    status: FrameStatus | Literal["live"] | None = None,
    parent: FrameReference | FrameState | str | None = None,
    after: FrameState | str | None = None,
    limit: int = 100,
) -> Flow[list[FrameState]]:
    """The frames of the session, live and ended, in the order in which they were pushed."""
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    session = yield from load_session(context)
    above = None if parent is None else frame_seq(_resolve_frame_id(context, parent))
    first = 0 if after is None else frame_seq(_resolve_frame_id(context, after))
    wanted = None if status is None else check_choice("status", status, ("live", *LIVE_STATUSES, *ENDINGS))
    if wanted in ("live", *LIVE_STATUSES):
        live = (each for each in sort_by_age(session.frames) if wanted in ("live", each.status))
        children = (each for each in live if above is None or frame_seq(each.parent) == above)
        return [each for each in children if frame_seq(each.id) > first][:limit]
    where = session_filter(context.scope)
    if wanted is not None:
        where["ended"] = wanted
    if above is not None:
        where["parent"] = above
    last = None if after is None else _page_key(context.scope, first)
    rows = yield from effects.rows(FrameRow, where, last, limit)
    return [decode_frame(row) for row in rows]


def _page_key(scope: Scope, frame: int) -> FrameRow:
    """The row that the next page starts after: only its key counts."""
    return FrameRow(**scope.columns, frame=frame, parent=0, ended=None, deadline_us=None, state="")


def find_handle_rows(context: SessionContext, before: str | None, limit: int) -> Flow[list[HandleRow]]:
    scope = context.scope
    last: HandleRow | None = None
    if before is not None:
        number = handle_seq(check_handle_id(before))
        last = HandleRow(**scope.columns, handle=number, frame=0, source=None, result="", state="")
    where = session_filter(scope) | {"frame": frame_seq(require_frame(context))}
    rows = yield from effects.rows(HandleRow, where, last, limit, order=_NEWEST_FIRST)
    return list(reversed(rows))


def check_handle_id(handle: object) -> str:
    name = handle.id if type(handle) is Handle else handle
    if type(name) is str and handle_seq(name):
        return name
    reason = "the id of a handle of a frame is h and a number"
    raise InvalidName(what="handle", value=name if type(name) is str else describe_value(name), reason=reason, limit=20)


def time_out_frames(engine: EngineContext, limit: int) -> Flow[tuple[list[tuple[Scope, str]], DataError | None]]:
    """Fail the frames past their deadline, the deepest first, and cancel those below. Returns them and the last error."""
    where: dict[str, str | int] = {"tenant": engine.tenant}
    most = {"deadline_us": engine.clock.now_us()}
    due = yield from effects.rows(FrameRow, where, None, limit, order=_EARLIEST_FIRST, most=most)
    swept: list[tuple[Scope, str]] = []
    failure: DataError | None = None
    content = (Text(OUT_OF_TIME),)
    tokens = [ingest.count_parts(engine.counter, content)]
    for row in sorted(due, key=lambda row: -row.frame):
        scope = scope_of(row)
        command = TimeOutFrame(scope=scope, frame=frame_id(row.frame))
        try:
            result = yield from execute_command(
                SessionContext(engine, scope),
                command,
                tokens=tokens,
                closing_reason=FRAME_ENDED,
                digest=piece_digest(content),
            )
        except DataError as error:  # one damaged session does not stop the others
            failure = error
            continue
        for recorded in result.events:
            event = upcast.decode_event(recorded)
            if isinstance(event, FramePopped):
                swept.append((scope, event.frame))
    return swept, failure
