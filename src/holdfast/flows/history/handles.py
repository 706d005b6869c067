"""Handles: look them up, move them out of the context and back, and account for where everything is.

Laws:
- Page out and then page in is the identity, checked by digest.
- A name that several live handles have is refused.
- Resident and other tokens add up to the same total, wherever things move.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec

from holdfast import codec, errors
from holdfast.core import project, upcast
from holdfast.core.frames.stack import content_of
from holdfast.core.history import boundaries
from holdfast.core.history.boundaries import find_covering_summary
from holdfast.core.history.previews import is_text
from holdfast.core.history.views import (
    find_system_messages,
    group_by_message,
    group_seq,
    has_stored_body,
    piece_digest,
    piece_ref,
    piece_size,
    pieces_of,
    reduction_text,
)
from holdfast.core.project import piece_handle
from holdfast.core.sessions.decide import check_open
from holdfast.errors import AmbiguousHandle, HandleNotFound, InvalidArgument, NoHandleFits, describe_value
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, SessionContext, execute_command, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.frames.frames import (
    check_handle_id,
    check_short_text,
    find_frame_in,
    find_handle_rows,
    require_frame,
)
from holdfast.flows.frames.lookup import decode_handle, find_handle_row, read_event, session_filter
from holdfast.flows.history.views import build_history, read_body, read_view, with_steady_state
from holdfast.flows.load import load_session_state
from holdfast.flows.sessions import ingest
from holdfast.flows.sessions.transcript import message_of, read_message_piece
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, File, Image, Opaque, Part, ToolCall, blob_refs, calling_seq
from holdfast.model.frames.frames import frame_id, frame_seq
from holdfast.model.history.commands import AddHandle, MoveHandle, ReplaceHandle
from holdfast.model.history.events import HandleAdded
from holdfast.model.history.handles import (
    HANDLE_KINDS,
    PRIORITY_SCORES,
    Handle,
    HandleKind,
    Priority,
    handle_seq,
    parse_piece_id,
    piece_id,
)
from holdfast.model.history.plans import Occupancy, PieceForm, Reduction, Residency, Tier
from holdfast.model.history.views import Summary
from holdfast.model.names import check_choice, check_name, check_size, check_whole
from holdfast.model.rows import HandleRow
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import OpenCall, SessionState

# Attachments: the handles that were added to a frame


def add_handle(
    context: SessionContext,
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
    """Add a piece of context to a frame: text, any JSON value, parts of a message, or bytes, which are streamed. The
    same content from the same source again is the same handle."""
    command = AddHandle(
        scope=context.scope,
        frame=require_frame(context),
        kind=check_choice("kind", kind, HANDLE_KINDS),
        priority=check_choice("priority", priority, tuple(PRIORITY_SCORES)),
        title=_check_title(title),
        source=None if source is None else check_name("source", source),
        content=(parts := (yield from ingest.ingest_value(context.engine, content))),
        digest=piece_digest(parts),
        metadata={} if metadata is None else ingest.check_object("metadata", metadata),
    )
    appended = yield from execute_command(
        context,
        command,
        tokens=[ingest.count_whole(context.engine.counter, parts)],
        bodies=blob_refs(parts),
        key=key,
        expect=expect,
        cause=cause,
    )
    handle: Handle | None = None
    for recorded in appended.events:
        event = upcast.decode_event(recorded)
        handle = project.handle_from_event(event, recorded.seq) if isinstance(event, HandleAdded) else None
    if not appended.events and command.source is not None:
        frame = frame_seq(require_frame(context))
        row = yield from find_handle_row(context.scope, frame=frame, source=command.source)
        same = None if row is None else decode_handle(row)
        handle = None if same is None else (yield from _find_attachment(context, same.id))
    if handle is None:  # a retry after it was erased
        raise HandleNotFound(session=context.scope.session, handle=f"of {describe_value(command.source)}")
    return handle


def _check_title(title: object) -> str:
    return "" if type(title) is str and not title else check_short_text("the title", title)


def replace_handle(
    context: SessionContext,
    handle: Handle | str,
    content: object = None,
    *,
    priority: Priority | None = None,
    title: str | None = None,
    metadata: dict[str, Any] | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Handle]:
    """Give a handle of the frame another content, priority, title or metadata. What is not passed stays as it was; the
    id always stays."""
    name = check_handle_id(handle)
    parts = None if content is None else (yield from ingest.ingest_value(context.engine, content))
    command = ReplaceHandle(
        scope=context.scope,
        frame=require_frame(context),
        handle=name,
        priority=None if priority is None else check_choice("priority", priority, tuple(PRIORITY_SCORES)),
        title=None if title is None else _check_title(title),
        content=parts,
        digest="" if parts is None else piece_digest(parts),
        metadata=None if metadata is None else ingest.check_object("metadata", metadata),
        residency=None if parts is None else "resident",
    )
    tokens = [] if parts is None else [ingest.count_whole(context.engine.counter, parts)]
    yield from execute_command(context, command, tokens=tokens, bodies=blob_refs(parts or ()), key=key, cause=cause)
    return (yield from _find_attachment(context, name))


def list_attachments(context: SessionContext, *, before: str | None = None, limit: int = 100) -> Flow[list[Handle]]:
    """The frame's newest handles, oldest first; with `before`, the newest before that one."""
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    rows = yield from find_handle_rows(context, before, limit)  # read first: the state is never older than they are
    session = yield from load_session(context)
    collapsed = session.collapsed_handles((yield from find_frame_in(session, context, require_frame(context))))
    return [project.apply_collapse(decode_handle(row), collapsed) for row in rows]


def find_attachment_row(context: SessionContext, number: int) -> Flow[HandleRow | None]:
    """The row of a handle that was added to a frame; None if there is none."""
    where = session_filter(context.scope) | {"handle": number}
    rows = (yield from effects.rows(HandleRow, where, None, 1)) if number else ()
    return rows[0] if rows else None


def _read_row(context: SessionContext, name: str) -> Flow[HandleRow]:
    row = yield from find_attachment_row(context, handle_seq(name))
    if row is None:
        raise HandleNotFound(session=context.scope.session, handle=name)
    return row


def _find_attachment(context: SessionContext, name: str) -> Flow[Handle]:
    """A handle of any frame of the session, with its residency."""
    row = yield from _read_row(context, name)
    session = yield from load_session(context)
    frame = yield from find_frame_in(session, context, frame_id(row.frame))
    return project.apply_collapse(decode_handle(row), session.collapsed_handles(frame))


def read_parts(context: SessionContext, handle: Handle | str) -> Flow[tuple[Part, ...]]:
    """The content of a handle: an attachment of a frame ("h12"), or a piece of a message ("h12_0"). Large bodies are
    references."""
    piece = _parse_piece(handle)
    if piece is not None:
        yield from load_session(context)
        _, parts, _ = yield from read_message_piece(context.scope, *piece)
        return parts
    name = check_handle_id(handle)
    yield from load_session(context)
    row = yield from _read_row(context, name)
    return content_of((yield from read_event(context.scope.stream, decode_handle(row).at)))


def _parse_piece(handle: object) -> tuple[int, int] | None:
    """The message and the number of the piece that a handle names; None for another handle."""
    name = handle.id if isinstance(handle, Handle) else handle
    return parse_piece_id(name) if type(name) is str else None


# Paging


def page_out(
    context: SessionContext, handle: Handle | str, *, tier: Tier = "durable", key: str | None = None
) -> Flow[Handle]:
    """Take a piece out of the view, or an attachment out of the context. Its content goes to the blob store."""
    check_choice("tier", tier, get_args(Tier))
    return (yield from _move(context, handle, "paged_out", tier, key))


def page_in(
    context: SessionContext, handle: Handle | str | None = None, *, query: str | None = None, key: str | None = None
) -> Flow[Handle]:
    """Show a piece whole again, exactly as it was recorded: this one, or the one in the semantic tier that fits a query
    best."""
    if (handle is None) == (query is None):
        raise InvalidArgument(argument="handle", reason="pass either a handle, or a query that finds one")
    if handle is None:
        handle = yield from _find_by_query(context, codec.check_text("the query", query))
    return (yield from _move(context, handle, "resident", "durable", key))


def _find_by_query(context: SessionContext, query: str) -> Flow[str]:
    """The piece, or the attachment, in the semantic tier that fits a query best."""
    from holdfast.flows.memory.recall import search_events  # noqa: PLC0415 - a good part of the time of an import

    state = yield from load_session(context)
    pieces = [
        reduction
        for reduction in state.view(context.frame).reduced
        if reduction.form == "page" and reduction.tier == "semantic"
    ]
    named = {piece_id(piece.message, piece.piece): piece.message for piece in pieces}
    for handle in (yield from _list_live_attachments(context, state)):
        if handle.residency == "paged_out" and handle.tier == "semantic":
            named[handle.id] = handle.at
    for passage in (yield from search_events(context, state, query, {*named.values()})):
        fitting = [name for name, seq in named.items() if passage.handle in ("", name) and seq == passage.seq]
        if fitting:
            return fitting[0]
    raise NoHandleFits(session=context.scope.session, query=query[: limits.PACK_QUERY_CHARS])


def _move(
    context: SessionContext, handle: Handle | str, residency: Residency, tier: Tier, key: str | None
) -> Flow[Handle]:
    position = _parse_piece(handle)
    if position is None:
        return (yield from _move_attachment(context, check_handle_id(handle), residency, tier, key))
    name = piece_id(*position)
    message, parts, call = yield from read_message_piece(context.scope, *position, late=False)
    if context.frame not in (None, message.frame):
        raise HandleNotFound(session=context.scope.session, handle=name)
    state = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=True)
    check_open(state, context.scope)
    boundaries.check_in_view(state, message.frame, *position)
    priority = yield from _priority_of(context, message)
    _check_movable(name, message, parts, residency, priority)
    counter = context.engine.counter
    ref = piece_ref(parts)
    recorded, whole = ingest.count_parts(counter, parts), ingest.count_whole(counter, parts)
    form: PieceForm = "page"
    if residency == "resident":
        yield from _check_archived(context, message, position[1])
        form = "whole" if has_stored_body(parts) else "page"
    elif ref is None:
        ref = yield from _archive(context.engine, parts)
    piece = Reduction(
        message=message.seq,
        piece=position[1],
        form=form,
        tokens=recorded,
        whole=whole if has_stored_body(parts) else 0,
        size=piece_size(parts),
        digest=piece_digest(parts),
        ref=ref,
        tier=tier,
        source=call,
    )
    shown = whole if form == "whole" else recorded
    if residency == "paged_out":
        shown = counter.count(reduction_text(parts, piece, name))
        if shown >= whole and not any(isinstance(part, Image | File) for part in parts):
            reason = f"{name} has {whole} tokens, and the line in its place would have {shown}: leave it in view"
            raise InvalidArgument(argument="handle", reason=reason)
    piece = msgspec.structs.replace(piece, saved=recorded - shown)
    command = MoveHandle(scope=context.scope, frame=message.frame, residency=residency, piece=piece)
    yield from execute_command(context, command, key=key, bodies=[] if ref is None else [ref])
    return piece_handle(piece, message.frame, residency, priority)


def _priority_of(context: SessionContext, message: Message) -> Flow[Priority]:
    """The priority of the group of a message: the highest of its call and of this result."""
    priority = message.priority
    if group_seq(message) != message.seq:
        for recorded in (yield from effects.read(context.scope.stream, group_seq(message) - 1, 1)):
            priority = max(priority, message_of(recorded).priority, key=PRIORITY_SCORES.__getitem__)
    return priority


def _check_movable(
    name: str, message: Message, parts: tuple[Part, ...], residency: Residency, priority: Priority
) -> None:
    """Critical content stays in view. A provider's own parts, and what is signed with them, are never edited. A binary
    body is not shown as text."""
    if residency == "paged_out" and priority == "critical":
        reason = f"{name} is Critical, and Critical content is always shown: leave it in view"
        raise InvalidArgument(argument="handle", reason=reason)
    signed = parts if message.tool_results else message.content
    if residency == "paged_out" and any(isinstance(part, Opaque) for part in signed):
        reason = f"{name} belongs to a provider's own parts, which are never edited: leave it, or fold it"
        raise InvalidArgument(argument="handle", reason=reason)
    for part in parts if residency == "resident" else ():
        if not isinstance(part, Body):
            continue
        if not is_text(part.ref):
            kind = part.ref.media_type or "binary"
            reason = f"{name} is not text but {kind}: handles.read() shows its bytes"
            raise InvalidArgument(argument="handle", reason=reason)
        check_size(name, part.ref.size, "bytes", "WHOLE_BYTES", "Read a range of it: handles.read().")


def _check_archived(context: SessionContext, message: Message, number: int) -> Flow[None]:
    """Check the digest of what was paged out: it is checked while it is read."""
    state = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=True)
    reduction = group_by_message(state.view(message.frame).reduced).get(message.seq, {}).get(number)
    if reduction is not None and reduction.form == "page" and reduction.ref is not None:
        yield from read_body(context.engine, reduction.ref)


def _move_attachment(
    context: SessionContext, name: str, residency: Residency, tier: Tier, key: str | None
) -> Flow[Handle]:
    row = yield from _read_row(context, name)
    handle = decode_handle(row)
    parts = content_of((yield from read_event(context.scope.stream, handle.at)))
    if piece_digest(parts) != handle.digest and not row.result:
        raise errors.StorageCorrupt(what=f"the handle {name}", reason="its content is not what its digest says")
    ref = (yield from _archive(context.engine, parts)) if residency == "paged_out" else None
    command = ReplaceHandle(
        scope=context.scope,
        frame=handle.frame or "",
        handle=name,
        residency=residency,
        tier=tier,
        ref=ref,
        size=piece_size(parts),
    )
    yield from execute_command(context, command, key=key, bodies=[] if ref is None else [ref])
    return (yield from _find_attachment(context, name))


def _archive(engine: EngineContext, parts: tuple[Part, ...]) -> Flow[BlobRef]:
    """Put a piece into the blob store, encoded as in the log."""
    put = functools.partial(engine.bodies.put, engine.tenant, codec.encode(parts), "application/json")
    return (yield from effects.run_outside(put))


# Lookup


def get_handle(context: SessionContext, name: Handle | ToolCall | OpenCall | str) -> Flow[Handle]:
    """A handle by its id, or by its source: the id of a tool call, the engine's or the provider's, or the source of an
    attachment."""
    text = name.id if isinstance(name, Handle | ToolCall | OpenCall) else name
    if type(text) is not str or not 0 < len(text) <= limits.CALL_ID_CHARS:
        reason = "it is the id of a handle or of a tool call"
        raise errors.InvalidName(what="handle", value=describe_value(text), reason=reason, limit=limits.CALL_ID_CHARS)
    if parse_piece_id(text) is not None:
        return (yield from _get_piece(context, text))
    return (yield from with_steady_state(context, lambda state: _find_by_name(context, state, text)))


def _get_piece(context: SessionContext, name: str) -> Flow[Handle]:
    """A piece of a message, wherever it is now: `collapsed` if a summary replaces its message."""
    position = parse_piece_id(name)
    assert position is not None, "the name was parsed before"
    message, parts, call = yield from read_message_piece(context.scope, *position)
    state = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=True)
    reduction = group_by_message(state.view(message.frame).reduced).get(message.seq, {}).get(position[1])
    priority = yield from _priority_of(context, message)
    handle = _build_handle(context.engine, message, position[1], parts, call, reduction, priority)
    summary = find_covering_summary(state.summaries_of(message.frame), message.seq)
    if message.seq <= state.start or summary is not None:
        return msgspec.structs.replace(handle, residency="collapsed")
    return handle


def list_handles(context: SessionContext) -> Flow[list[Handle]]:
    """The handles in view, oldest first: tool results, stored bodies and reduced pieces."""
    return (yield from with_steady_state(context, lambda state: _list_handles(context, state)))


def _list_handles(context: SessionContext, state: SessionState) -> Flow[list[Handle]]:
    items = yield from read_view(context, state)
    reductions = group_by_message(state.view(context.frame).reduced)
    return [
        handle
        for item in items
        if isinstance(item, MessageGroup)
        for message in item.messages
        for handle in _message_handles(context.engine, message, reductions.get(message.seq, {}), item.priority)
    ]


def _message_handles(
    engine: EngineContext, message: Message, reductions: Mapping[int, Reduction], priority: Priority = "medium"
) -> Iterator[Handle]:
    """The handles of a message: tool results, stored bodies and reduced pieces."""
    for number, parts, call in pieces_of(message):
        if call is not None or number in reductions or has_stored_body(parts):
            yield _build_handle(engine, message, number, parts, call, reductions.get(number), priority)


def _build_handle(
    engine: EngineContext,
    message: Message,
    number: int,
    parts: tuple[Part, ...],
    call: str | None,
    reduction: Reduction | None,
    priority: Priority,
) -> Handle:
    whole = ingest.count_whole(engine.counter, parts) if has_stored_body(parts) else 0
    if reduction is None:
        reduction = Reduction(
            message=message.seq,
            piece=number,
            form="spool",
            tokens=ingest.count_parts(engine.counter, parts),
            whole=whole,
            size=piece_size(parts),
            digest=piece_digest(parts),
            ref=piece_ref(parts),
            source=call,
        )
        return piece_handle(reduction, message.frame, "spooled_out" if has_stored_body(parts) else "resident", priority)
    forms: dict[str, Residency] = {"page": "paged_out", "whole": "resident"}
    reduction = msgspec.structs.replace(reduction, whole=whole)
    return piece_handle(reduction, message.frame, forms.get(reduction.form, "spooled_out"), priority)


def _find_by_name(context: SessionContext, state: SessionState, name: str) -> Flow[Handle]:
    if handle_seq(name):
        return (yield from _find_attachment(context, name))
    attachments: list[Handle] = []
    for frame in _reachable_frames(context, state):
        row = yield from find_handle_row(context.scope, frame=frame_seq(frame), source=name)
        attachments += () if row is None else (_apply_residency(decode_handle(row), state),)
    results = yield from _find_results(context, state, name)
    names = (*(handle.id for handle in attachments), *(piece_id(*result) for result in results))
    if len(names) > 1:
        raise AmbiguousHandle(session=context.scope.session, source=name, handles=", ".join(names))
    if attachments:
        return attachments[0]
    if results:
        return (yield from _get_piece(context, names[0]))
    raise HandleNotFound(session=context.scope.session, handle=name)


def _apply_residency(handle: Handle, state: SessionState) -> Handle:
    """A handle of a live frame, with its residency after a compaction."""
    return project.apply_collapse(handle, dict(state.view(handle.frame).left_out))


def _reachable_frames(context: SessionContext, state: SessionState) -> tuple[str, ...]:
    """The frames whose attachments are in reach: the frame itself; for a session, its live frames."""
    return tuple(state.frames) if context.frame is None else (context.frame,)


def _find_results(context: SessionContext, state: SessionState, call: str) -> Flow[list[tuple[int, int]]]:
    """The results of calls of this id, by message and piece. A provider's id is looked for in view: it may have named
    another call before."""
    group = calling_seq(call)
    if group is not None:
        return (yield from _find_own_result(context, state, call, group))
    results: list[tuple[int, int]] = []
    for item in (yield from read_view(context, state)):
        messages = item.messages if isinstance(item, MessageGroup) else ()
        ids = {one.id for message in messages for one in message.tool_calls if one.provider_id == call}
        for message in messages if ids else ():
            results += ((message.seq, number) for number, _, source in pieces_of(message) if source in ids)
    return results


def _find_own_result(
    context: SessionContext, state: SessionState, call: str, after: int
) -> Flow[list[tuple[int, int]]]:
    """The result of a call by the engine's id. It is close behind the call, since the next model call waits for it."""
    if any(waiting.id == call for waiting in state.open_calls):
        return []
    while after < state.version:
        page = yield from effects.read(context.scope.stream, after, min(limits.READ_EVENTS, state.version - after))
        for recorded in page:
            answer = message_of(recorded) if recorded.type == MessageRecorded.name else None
            for number, _, source in pieces_of(answer) if answer is not None else ():
                if source == call:
                    return [(recorded.seq, number)]
        if not page:
            break
        after = page[-1].seq
    return []


# Occupancy


def occupancy(context: SessionContext) -> Flow[Occupancy]:
    """The tokens of the context by what takes them, and those outside of it."""
    return (yield from with_steady_state(context, lambda state: _measure_occupancy(context, state)))


def _measure_occupancy(context: SessionContext, state: SessionState) -> Flow[Occupancy]:
    view = yield from build_history(context, state)
    measure = state.calibration.measure
    pinned = [*view.system, *find_system_messages(view.items)]
    system = sum(measure(message.tokens, 1) for message in pinned)
    summaries = [item for item in view.items if isinstance(item, Summary)]
    condensed = sum(measure(item.tokens, 1) for item in summaries)
    account, count = yield from _count_residency(context, state)
    account["resident"] += sum(message.tokens for message in pinned)
    return Occupancy(
        tokens=view.tokens,
        system=system,
        summaries=condensed,
        messages=view.tokens - system - condensed,
        resident_tokens=account["resident"],
        spooled_tokens=account["spooled_out"],
        paged_tokens=account["paged_out"],
        collapsed_tokens=account["collapsed"],
        handles=count,
        folded=sum(item.messages for item in summaries),
        boundary=state.view(context.frame).boundary,
    )


def _count_residency(context: SessionContext, state: SessionState) -> Flow[tuple[dict[Residency, int], int]]:
    """The whole tokens by residency, and the number of handles."""
    account: dict[Residency, int] = {"resident": 0, "spooled_out": 0, "paged_out": 0, "collapsed": 0}
    reductions = group_by_message(state.view(context.frame).reduced)
    count = 0
    for item in (yield from read_view(context, state)):
        if isinstance(item, Summary):
            account["collapsed"] += item.replaced
            continue
        for message in item.messages:
            left = message.whole_tokens
            for handle in _message_handles(context.engine, message, reductions.get(message.seq, {})):
                count += 1
                tokens = 0 if handle.is_in_context else min(left, handle.tokens)
                account[handle.residency] += tokens
                left -= tokens
            account["resident"] += left
    for attachment in (yield from _list_live_attachments(context, state)):
        count += 1
        account[attachment.residency] += attachment.tokens
    return account, count


def _list_live_attachments(context: SessionContext, state: SessionState) -> Flow[list[Handle]]:
    """The attachments of the frames in reach."""
    handles: list[Handle] = []
    for frame in _reachable_frames(context, state):
        where = session_filter(context.scope) | {"frame": frame_seq(frame)}
        last: HandleRow | None = None
        while page := (yield from effects.rows(HandleRow, where, last, limits.READ_EVENTS)):
            handles += (_apply_residency(decode_handle(row), state) for row in page)
            last = page[-1]
            if len(page) < limits.READ_EVENTS:
                break
    return handles
