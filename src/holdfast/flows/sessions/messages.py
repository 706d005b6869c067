"""The messages of a session: record them, and read them back."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.sessions import message_ids
from holdfast.errors import InvalidArgument, describe_value
from holdfast.flows import effects
from holdfast.flows.context import SessionContext, build_input, execute_command, execute_commands, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest, Execution
from holdfast.flows.packs import records
from holdfast.flows.sessions import ingest
from holdfast.flows.sessions.transcript import build_message, message_of, read_withdrawn_messages
from holdfast.model import limits
from holdfast.model.content import BlobRef, Source, Text, ToolCall, Usage, blob_refs
from holdfast.model.events import Event
from holdfast.model.frames.frames import Reservation
from holdfast.model.history.events import MessagesRestored, MessagesWithdrawn
from holdfast.model.history.handles import Priority
from holdfast.model.log import StoredEvent
from holdfast.model.names import check_flag, check_name, check_size, check_whole
from holdfast.model.sessions.commands import CloseCalls, RecordMessages
from holdfast.model.sessions.events import EvidenceKept, MessageRecorded, SessionDestroyed
from holdfast.model.sessions.messages import Message, MessageDraft, ResultDraft
from holdfast.model.state import OpenCall

if TYPE_CHECKING:
    from holdfast.render.pack import Pack


_TRANSCRIPT_EVENTS = (MessageRecorded.name, EvidenceKept.name)
_MESSAGE_EVENTS = (MessageRecorded.name, SessionDestroyed.name)
_WITHDRAWAL_EVENTS = (MessagesWithdrawn.name, MessagesRestored.name)
_FIRST_PAGE = 50
"""Messages that are searched first: most are looked for soon after they were recorded."""


def record(
    context: SessionContext,
    message: object,
    content: ingest.Content | None = None,
    *,
    tool_calls: Sequence[ToolCall | Mapping[str, Any]] = (),
    usage: Usage | None = None,
    stop: str | None = None,
    metadata: dict[str, Any] | None = None,
    priority: Priority | None = None,
    reservation: Reservation | str | None = None,
    pack: Pack | Literal[False] | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Message]:
    """Record a message, and tie a reply to its pack."""
    drafts = build_drafts(message, content, tool_calls, usage, metadata, priority, stop)
    answered = records.find_answered_pack(context, drafts, pack)
    recorded = yield from record_drafts(
        context, drafts, reservation=reservation, pack=answered, key=key, expect=expect, cause=cause
    )
    message = recorded[-1]
    if answered is not None and message.seq > answered.history.version:  # else it is an old reply, recorded again
        context.engine.cache.packs.remove(context.scope.stream, context.frame, answered)
    return message


def record_all(
    context: SessionContext,
    messages: Sequence[object],
    *,
    as_found: bool = False,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[list[Message]]:
    """Record several messages, all or none; with `as_found`, also those that break the rules of a session."""
    check_flag("as_found", as_found)
    drafts = build_all_drafts(messages)
    return (yield from record_drafts(context, drafts, as_found=as_found, key=key, expect=expect, cause=cause))


def build_all_drafts(messages: Sequence[object]) -> list[MessageDraft]:
    """The drafts of what a caller passed to record_all()."""
    if type(messages) not in (list, tuple) or not messages:
        raise InvalidArgument(argument="messages", reason="pass a list of at least one message")
    drafts: list[MessageDraft] = []
    for pairs, run in itertools.groupby(messages, key=lambda each: type(each) is tuple):
        if pairs:
            drafts += (draft for pair in run for draft in _read_pair(pair))
        else:
            drafts += _load_providers().read_all(list(run))
    return drafts


def result(
    context: SessionContext,
    call: ToolCall | OpenCall | str,
    value: object,
    *,
    is_error: bool = False,
    metadata: dict[str, Any] | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Message]:
    """Record the result of a tool call. For a closed call, it is recorded as evidence."""
    draft = MessageDraft(role="tool", tool_results=(ResultDraft(call, value, is_error),), metadata=metadata)
    return (yield from record_drafts(context, [draft], key=key, expect=expect, cause=cause))[-1]


def open_calls(context: SessionContext) -> Flow[tuple[OpenCall, ...]]:
    """The open tool calls, oldest first; for a frame, only its own."""
    state = yield from load_session(context)
    return tuple(call for call in state.open_calls if context.frame is None or call.frame == context.frame)


def close_open_calls(
    context: SessionContext,
    reason: str = "closed",
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Message | None]:
    """Close every open call with an error as its result; None if there is none. For a frame, only its own calls."""
    if not codec.check_text("the reason", reason):
        raise InvalidArgument(argument="reason", reason="it is empty; say why the calls are closed")
    command = CloseCalls(scope=context.scope, reason=reason, frame=context.frame)
    appended = yield from execute_command(context, command, closing_reason=reason, key=key, expect=expect, cause=cause)
    return message_of(appended.events[0]) if appended.events else None


def messages(context: SessionContext, *, before: int | None = None, limit: int = 100) -> Flow[list[Message]]:
    """The last messages, oldest first; with `before`, the last ones before that seq."""
    _check_page(before, limit)
    stream = context.scope.stream
    page = yield from effects.read_back(stream, before, limit, (*_MESSAGE_EVENTS, *_WITHDRAWAL_EVENTS))
    withdrawn = any(recorded.type in _WITHDRAWAL_EVENTS for recorded in page)
    if withdrawn:
        page = yield from effects.read_back(stream, before, limit, _MESSAGE_EVENTS)
    if before is not None or not page or page[0].type == SessionDestroyed.name:
        state = yield from load_session(context)
        withdrawn = withdrawn or bool(state.withdrawn)
    messages = [message_of(event) for event in reversed(page)]
    if not withdrawn:  # a withdrawal comes after its messages: the page would have it
        return messages
    marks = yield from read_withdrawn_messages(stream)
    return [marks.mark(message) for message in messages]


def find_message(context: SessionContext, message_id: str) -> Flow[Message | None]:
    """The message with this id, or with an item, a part or a call that has it; the newest, if there are several."""
    if type(message_id) is not str or not 0 < len(message_id) <= limits.CALL_ID_CHARS:
        raise InvalidArgument(
            argument="message_id", reason=f"{describe_value(message_id)} is not an id of a message, an item or a call"
        )
    seq = message_ids.parse_seq(message_id)
    if seq or message_ids.is_own_id(message_id):
        found = yield from messages(context, before=min(seq, limits.WHOLE_NUMBER - 1) + 1, limit=1)
        return next((message for message in found if message.seq == seq), None)
    seq = yield from _search_message(context, message_id)
    found = (yield from messages(context, before=seq + 1, limit=1)) if seq else []
    return next((message for message in found if message.seq == seq), None)


def _search_message(context: SessionContext, message_id: str) -> Flow[int]:
    """The seq of the newest message with an id of a client or a provider, among the last FOUND_MESSAGES; 0 for none."""
    yield from load_session(context)
    before: int | None = None
    left, size = limits.FOUND_MESSAGES, _FIRST_PAGE
    while left and (page := (yield from effects.read_back(context.scope.stream, before, size, _MESSAGE_EVENTS))):
        for recorded in page:
            may_match = message_ids.may_have_id(recorded, message_id)
            if may_match and message_id in message_ids.ids_of(message_of(recorded)):
                return recorded.seq
        before, left = page[-1].seq, left - len(page)
        size = min(left, size * 4, limits.READ_EVENTS)
    return 0


def evidence(context: SessionContext, *, before: int | None = None, limit: int = 100) -> Flow[list[Message]]:
    """The last late results and other evidence beside the transcript, oldest first."""
    _check_page(before, limit)
    wanted = (EvidenceKept.name, SessionDestroyed.name)
    page = yield from effects.read_back(context.scope.stream, before, limit, wanted)
    if before is not None or not page or page[0].type == SessionDestroyed.name:
        yield from load_session(context)
    return [message_of(event) for event in reversed(page)]


def events(context: SessionContext, *, after: int = 0, limit: int = 100) -> Flow[tuple[StoredEvent, ...]]:
    """The stored events of the session."""
    check_whole("after", after)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    yield from load_session(context)
    return (yield from effects.read(context.scope.stream, after, limit))


def _check_page(before: int | None, limit: int) -> None:
    if before is not None:
        check_whole("before", before)
    check_whole("limit", limit, 1, limits.READ_EVENTS)


@functools.cache
def _load_providers() -> Any:
    """Loaded with the first response: these modules take a good part of the time of an import."""
    from holdfast import providers  # noqa: PLC0415 - loaded when needed

    return providers


def _read_pair(pair: object) -> tuple[MessageDraft, ...]:
    if type(pair) is not tuple or len(pair) != 2:
        raise InvalidArgument(
            argument="messages", reason="pass responses of providers, objects, or pairs of role and content"
        )
    return build_drafts(*pair)


def build_drafts(
    message: object,
    content: object = None,
    tool_calls: object = (),
    usage: Usage | None = None,
    metadata: dict[str, Any] | None = None,
    priority: Priority | None = None,
    stop: str | None = None,
) -> tuple[MessageDraft, ...]:
    """The drafts of what a caller passed to record()."""
    if type(message) is str:
        if type(tool_calls) not in (list, tuple):
            raise InvalidArgument(argument="tool_calls", reason=f"{describe_value(tool_calls)} is not a list")
        calls = tuple(ingest.build_call_draft(call) for call in tool_calls)  # type: ignore[attr-defined]
        options: dict[str, Any] = {"usage": usage, "metadata": metadata, "priority": priority}
        if not _has_dicts(content):
            draft = MessageDraft(role=message, content=content, tool_calls=calls, **options)
            return (draft if stop is None else _with_stop(draft, stop),)
        *before, last = _load_providers().read_content(message, content)
        if last.role == "tool":
            del options["priority"]
        if calls:  # a reply with calls is not empty
            options |= {"tool_calls": (*last.tool_calls, *calls), "skipped": None}
        last = msgspec.structs.replace(last, **options)
        return (*before, last if stop is None else _with_stop(last, stop))
    if content is not None or tool_calls or usage is not None or stop is not None:
        raise InvalidArgument(
            argument="message",
            reason="content, tool_calls, usage and stop are passed with a role; a response has its own",
        )
    drafts: tuple[MessageDraft, ...] = _load_providers().read(message)
    if metadata is None and priority is None:
        return drafts
    return tuple(
        msgspec.structs.replace(
            draft,
            metadata=draft.metadata if metadata is None else metadata,
            priority=None if draft.role in ("system", "tool") else priority,
        )
        for draft in drafts
    )


def _with_stop(draft: MessageDraft, stop: str) -> MessageDraft:
    """The reply with its stop reason."""
    if draft.role != "assistant":
        raise InvalidArgument(argument="stop", reason="only a reply of the assistant has a stop reason")
    source = Source(stop=check_name("stop", stop))
    return msgspec.structs.replace(draft, source=source, skipped=_load_providers().STOPS.get(stop))


def _has_dicts(content: object) -> bool:
    """Whether some of the content is a dict, or an object of a provider's client."""
    if type(content) is str:
        return False
    parts: Sequence[object] = content if type(content) in (list, tuple) else (content,)  # type: ignore[assignment]
    return any(type(part) is dict or hasattr(type(part), "model_dump") for part in parts)


def _check_reservation(context: SessionContext, reservation: Reservation | str | None) -> str | None:
    if reservation is None:
        return None
    if context.frame is None:
        raise InvalidArgument(
            argument="reservation", reason="a reservation belongs to a frame; record with the frame that made it"
        )
    return check_name("reservation", reservation.id if type(reservation) is Reservation else reservation)


def record_drafts(
    context: SessionContext,
    drafts: Sequence[MessageDraft],
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
    as_found: bool = False,
    reservation: Reservation | str | None = None,
    pack: Pack | None = None,
) -> Flow[list[Message]]:
    """Record these messages, all or none. With `as_found`, a message that breaks the rules of a session becomes evidence.
    With a pack, they are the reply to it."""
    if pack is not None:
        return (yield from _record_reply(context, drafts, pack, reservation, key=key, expect=expect, cause=cause))
    part, bodies = yield from build_recording(context, drafts, as_found=as_found, reservation=reservation)
    assert isinstance(part.command, RecordMessages), "build_recording builds this command"
    key_content = _key_content(part.command)
    appended = yield from execute_commands(
        context.engine, [part], key=key, expect=expect, cause=cause, bodies=bodies, key_content=key_content
    )
    return read_recorded(appended)


def read_recorded(appended: Execution) -> list[Message]:
    """The messages that a command recorded, now or when its key was first used."""
    decided: Sequence[Event | None] = appended.decided or (None,) * len(appended.events)
    return [
        build_message(stored, event if _is_plain(event) else upcast.decode_event(stored))
        for stored, event in zip(appended.events, decided, strict=True)
        if stored.type in _TRANSCRIPT_EVENTS
    ]


def _is_plain(event: Event | None) -> bool:
    """Whether an event is a message of texts alone. Other values are read back: the caller may change what was passed, and
    objects are stored with their keys in order."""
    if not isinstance(event, MessageRecorded) or event.tool_calls or event.dropped_calls or event.metadata:
        return False
    contents = (event.content, *(result.content for result in event.tool_results))
    return all(type(part) is Text for content in contents for part in content)


def _record_reply(
    context: SessionContext,
    drafts: Sequence[MessageDraft],
    pack: Pack,
    reservation: Reservation | str | None,
    *,
    key: str | None,
    expect: int | None,
    cause: str | None,
) -> Flow[list[Message]]:
    """Record the reply to a pack, with the manifest. The key is bound to the reply alone: a retry may have another pack, or
    none."""
    erased = yield from records.has_erased_content(context, pack)
    part, bodies = yield from build_recording(context, drafts, reservation=reservation or pack.reservation)
    command = part.command
    assert isinstance(command, RecordMessages), "build_recording builds this command"
    key_command = msgspec.structs.replace(command, reservation=_check_reservation(context, reservation))
    parts = [part]
    if not erased:
        record, refs = yield from records.prepare_record(
            context, pack, reply=len(drafts), reservation=command.reservation
        )
        parts, bodies = [part, record], [*bodies, *refs]
    appended = yield from execute_commands(
        context.engine,
        parts,
        key=key,
        expect=expect,
        cause=cause,
        bodies=bodies,
        key_content=_key_content(key_command),
    )
    return read_recorded(appended)


def _key_content(command: RecordMessages) -> bytes:
    """The content that an idempotency key is bound to: the messages without what Holdfast derives from them. A retry with
    another version of Holdfast, or with other spelling of the same arguments, gets the same answer."""
    bare = tuple(
        msgspec.structs.replace(
            new, tool_calls=tuple(msgspec.structs.replace(call, raw=None) for call in new.tool_calls), skipped=None
        )
        if new.tool_calls or new.skipped
        else new
        for new in command.messages
    )
    return codec.encode_commands([msgspec.structs.replace(command, messages=bare)])


def build_recording(
    context: SessionContext,
    drafts: Sequence[MessageDraft],
    *,
    as_found: bool = False,
    reservation: Reservation | str | None = None,
) -> Flow[tuple[CommandRequest, list[BlobRef]]]:
    """The command that records these messages, and the bodies that must be stored before."""
    check_size("the batch", len(drafts), "messages", "BATCH_MESSAGES", "Record in several steps.")
    engine = context.engine
    messages = []
    for draft in drafts:
        messages.append((yield from ingest.ingest_draft(engine, draft, as_found=as_found)))
    command = RecordMessages(
        scope=context.scope,
        messages=tuple(messages),
        as_found=as_found,
        frame=context.frame,
        reservation=_check_reservation(context, reservation),
    )
    inputs = build_input(
        engine,
        tokens=[ingest.count_message(engine.counter, new) for new in messages],
        spent=[engine.weights.count_spend(new.usage) for new in messages if new.usage]
        if context.frame is not None
        else (),
        closing_reason="the log has none" if as_found else None,
    )
    return CommandRequest(command, inputs), [ref for new in messages for ref in blob_refs(ingest.message_parts(new))]
