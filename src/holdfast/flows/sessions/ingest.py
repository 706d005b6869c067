"""Ingest: check what a caller passed, and move large bodies to the blob store."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, get_args

import msgspec

from holdfast import codec
from holdfast.conversion import raw_arguments, to_json
from holdfast.core.history import previews
from holdfast.errors import InvalidArgument, InvalidJson, InvalidName, describe_value
from holdfast.flows import effects
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.content import (
    BlobRef,
    Body,
    Data,
    File,
    Image,
    Json,
    Opaque,
    Part,
    Role,
    SkipReason,
    Source,
    Text,
    ToolCall,
    Usage,
)
from holdfast.model.history.handles import PRIORITY_SCORES, Priority
from holdfast.model.names import check_name, check_size, check_whole
from holdfast.model.sessions.commands import NewCall, NewMessage, NewResult
from holdfast.model.sessions.messages import CallDraft, InlineBytes, MessageDraft, ResultDraft
from holdfast.model.state import OpenCall
from holdfast.ports import TokenCounter

Content: TypeAlias = str | Part | Mapping[str, Any] | Sequence[str | Part | Mapping[str, Any]]
IMAGE_TOKENS = 1_500
"""The estimate for an image, or a file that is not text: providers count pixels, which are not known."""
TEXT_BYTES = 4
"""Bytes of a text file for one token."""
_ROLES: dict[str, Role] = {role: role for role in get_args(Role)}
_DRAFT_TYPES = (Text, Data, Body, Image, File, Opaque, InlineBytes)
_BYTE_TYPES = (bytes, bytearray, memoryview)
_EMPTY_TEXT = Text("")
_SPLIT_ADVICE = "Record several messages."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ingest_draft(engine: EngineContext, draft: MessageDraft, *, as_found: bool = False) -> Flow[NewMessage]:
    """The message that a draft becomes. Raises before anything is stored."""
    role = _check_role(draft.role)
    calls: tuple[NewCall, ...] = ()
    if draft.tool_calls:
        calls = _bound_raw_arguments([_check_call(call, derive=not as_found) for call in draft.tool_calls])
        check_size("the message", len(calls), "tool calls", "MESSAGE_CALLS", _SPLIT_ADVICE)
    if draft.tool_results:
        check_size("the message", len(draft.tool_results), "tool results", "MESSAGE_CALLS", _SPLIT_ADVICE)
    parts = check_parts(draft.content, empty=True)
    skipped = _skip_reason(role, draft, parts, as_found=as_found)
    if not (calls or draft.tool_results or parts or skipped or as_found):
        raise InvalidArgument(argument="content", reason="a message needs content, tool calls or tool results")
    content = (yield from _store_parts(engine, parts, previews.MESSAGE_TAIL)) if parts else ()
    results: list[NewResult] = []
    for result in draft.tool_results:
        results.append((yield from _ingest_result(engine, result)))
    return NewMessage(
        role=role,
        content=content,
        tool_calls=calls,
        tool_results=tuple(results),
        usage=check_usage(draft.usage),
        source=_check_source(draft.source),
        metadata={} if draft.metadata is None else check_object("metadata", draft.metadata),
        skipped=skipped,
        priority=_check_priority(role, draft.priority),
    )


def _skip_reason(
    role: Role, draft: MessageDraft, content: Sequence[Part | InlineBytes], *, as_found: bool
) -> SkipReason | None:
    """Why models do not see this reply: the provider's reason, or it is empty. A bare role is not a reply."""
    if role != "assistant" or draft.tool_results:
        return None
    if draft.skipped is not None:
        return draft.skipped
    is_reply = draft.content is not None or draft.usage is not None or draft.source is not None
    blank = all(isinstance(part, Text) and not part.text.strip() for part in content)
    return "empty" if is_reply and blank and not draft.tool_calls and not as_found else None


def _check_priority(role: Role, priority: object) -> Priority:
    """The priority, medium by default. System messages and results cannot choose theirs."""
    if priority is None or (role == "system" and priority == "critical"):
        return "medium"
    if priority not in PRIORITY_SCORES:
        raise InvalidArgument(
            argument="priority", reason=f"{describe_value(priority)} is not one of {', '.join(PRIORITY_SCORES)}"
        )
    if role == "system":
        raise InvalidArgument(
            argument="priority", reason="a system message is always critical; record it without a priority"
        )
    if role == "tool":
        raise InvalidArgument(
            argument="priority", reason="a result has the priority of its call; pass it when the call is recorded"
        )
    return priority


def count_message(counter: TokenCounter, new: NewMessage) -> int:
    """The tokens of a message as a model reads it."""
    if new.skipped is not None:
        return 0
    tokens = count_parts(counter, new.content)
    for call in new.tool_calls:
        args = call.args if isinstance(call.args, str) else codec.encode(call.args).decode()
        tokens += counter.count(call.name) + counter.count(args)
    for result in new.tool_results:
        tokens += count_parts(counter, result.content)
    return tokens


def count_parts(counter: TokenCounter, parts: tuple[Part, ...]) -> int:
    """The tokens of these parts as a model reads them."""
    tokens = 0
    for part in parts:
        match part:
            case Text(text):
                tokens += counter.count(text)
            case Body():
                tokens += part.preview_tokens or counter.count(previews.show_body(part, previews.SAMPLE_HANDLE))
            case Data(value):
                tokens += counter.count(codec.encode(value).decode())
            case Image():
                tokens += IMAGE_TOKENS
            case File(ref):
                is_text = ref.media_type is not None and ref.media_type.startswith("text/")
                tokens += ref.size // TEXT_BYTES if is_text else IMAGE_TOKENS
    return tokens


def count_whole(counter: TokenCounter, parts: tuple[Part, ...]) -> int:
    """The tokens of these parts with every stored body in full."""
    return sum(part.whole_tokens if isinstance(part, Body) else count_parts(counter, (part,)) for part in parts)


def message_parts(new: NewMessage) -> list[Part]:
    """All parts of a message, including those of its results."""
    return [*new.content, *(part for result in new.tool_results for part in result.content)]


def check_parts(content: object, *, empty: bool = False) -> tuple[Part | InlineBytes, ...]:
    """Content as checked parts. Content of empty texts alone counts as none."""
    if type(content) is str and content:
        return (Text(codec.check_text("the text", content)),)
    items: Sequence[object] = content if type(content) in (list, tuple) else (content,)  # type: ignore[assignment]
    if content is None:
        items = ()
    check_size("the message", len(items), "parts", "CONTENT_PARTS", _SPLIT_ADVICE)
    parts = tuple([_check_part(Text(part) if type(part) is str else part) for part in items])
    if all(part == _EMPTY_TEXT for part in parts):
        if empty:
            return ()
        raise InvalidArgument(argument="content", reason="it is empty")
    return parts


def _check_part(part: object) -> Part | InlineBytes:
    if type(part) not in _DRAFT_TYPES:
        raise InvalidArgument(argument="content", reason=f"{describe_value(part)} is not a part of a message")
    if type(part) is Text:
        codec.check_text("the text", part.text)
        return part
    match part:
        case Data(value):
            return Data(to_json("the data", value))
        case Body(ref, preview, tokens, preview_tokens, tail):
            check_ref(ref)
            codec.check_text("the preview", preview)
            check_whole("the characters of a preview that are the end of its body", tail, 0, len(preview))
            check_whole("the tokens of a body", tokens)
            check_whole("the tokens of a preview", preview_tokens)
        case File(ref, name):
            check_ref(ref)
            _check_optional_name("file name", name)
        case Image(ref, url):
            _check_image(ref, url)
        case InlineBytes(name=name, media_type=media_type):
            _check_optional_name("file name", name)
            _check_optional_name("media type", media_type)
        case Opaque(issuer, body):
            check_name("issuer", issuer)
            if type(body) is BlobRef:
                check_ref(body)
            else:
                codec.check_text("the opaque part", body)
    return part  # type: ignore[return-value]


def _check_optional_name(what: str, value: str | None) -> None:
    if value is not None:
        check_name(what, value)


def _check_image(ref: BlobRef | None, url: str | None) -> None:
    if (ref is None) == (url is None):
        raise InvalidArgument(argument="content", reason="an image has either a blob or a URL")
    if ref is not None:
        check_ref(ref)
    if url is not None:
        codec.check_text("the URL", url)


def check_ref(ref: object) -> BlobRef:
    if type(ref) is not BlobRef:
        raise InvalidArgument(argument="ref", reason="it is not a BlobRef; pass what engine.blobs.put() returned")
    digest = ref.digest
    if type(digest) is not str or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise InvalidName(what="blob digest", value=digest, reason="it is not 64 hexadecimal digits", limit=64)
    check_whole("the size of a blob", ref.size, 0, limits.BLOB_BYTES)
    if ref.media_type is not None:
        check_name("media type", ref.media_type)
    return ref


def _store_parts(
    engine: EngineContext, parts: Sequence[Part | InlineBytes], tail_share: float = previews.RESULT_TAIL
) -> Flow[tuple[Part, ...]]:
    """The parts as the log stores them. Large ones, and bytes, go to the blob store."""
    spooling = engine.spooling
    stored: list[Part] = []
    for part in parts:
        match part:
            case Text(text) if (preview := previews.preview_text(text, spooling, tail_share)) is not None:
                ref = yield from _put_blob(engine, codec.iter_utf8(text), previews.TEXT_TYPE)
                start = text[: limits.COUNTED_BYTES].encode()
                stored.append(_count_body(engine, _build_body(ref, preview), start))
            case Data(value):
                body = codec.encode(value)
                preview = previews.preview_json(value, len(body), spooling)
                if preview is None:
                    stored.append(part)
                else:
                    ref = yield from _put_blob(engine, body, "application/json")
                    stored.append(_count_body(engine, _build_body(ref, preview), body))
            case Body():
                stored.append(_count_body(engine, part))
            case Opaque(issuer, str(text)) if is_long(text):
                ref = yield from _put_blob(engine, codec.iter_utf8(text), None)
                stored.append(Opaque(issuer, ref))
            case InlineBytes(kind, data, media_type, name):
                ref = yield from _put_blob(engine, data, media_type)
                stored.append(Image(ref) if kind == "image" else File(ref, name))
            case _:
                stored.append(part)
    return tuple(stored)


def _build_body(ref: BlobRef, preview: previews.Preview) -> Body:
    return Body(ref, preview.text, tail=preview.tail)


def _count_body(engine: EngineContext, body: Body, start: bytes = b"") -> Body:
    """A body with its tokens: of the full text, estimated from its beginning if it is large, and of the preview."""
    count, size = engine.counter.count, body.ref.size
    tokens = body.tokens
    start = start[: limits.COUNTED_BYTES]
    if start and previews.is_text(body.ref):
        tokens = count(start.decode("utf-8", "replace")) * size // len(start)
    preview_tokens = count(previews.show_body(body, previews.SAMPLE_HANDLE))
    return Body(body.ref, body.preview, tokens, preview_tokens, body.tail)


def is_long(text: str) -> bool:
    """Whether a text has more than SPOOL_BYTES bytes; a large one is not copied."""
    if len(text) * 4 <= limits.SPOOL_BYTES or text.isascii():
        return len(text) > limits.SPOOL_BYTES
    return len(text) > limits.SPOOL_BYTES or len(text.encode()) > limits.SPOOL_BYTES


def preview_start(start: bytes) -> str:
    """The beginning of a text, cut between two characters."""
    return previews.cut_start(start, limits.PREVIEW_BYTES)


def _put_blob(engine: EngineContext, body: bytes | Iterator[bytes], media_type: str | None) -> Flow[BlobRef]:
    if media_type is not None:
        check_name("media type", media_type)
    return effects.run_outside(functools.partial(engine.bodies.put, engine.tenant, body, media_type))


def _ingest_result(engine: EngineContext, draft: ResultDraft) -> Flow[NewResult]:
    if type(draft.is_error) is not bool:
        raise InvalidArgument(argument="is_error", reason=f"{describe_value(draft.is_error)} is not true or false")
    call = draft.call.id if type(draft.call) in (ToolCall, OpenCall) else draft.call
    check_call_id(call)
    return NewResult(call, (yield from ingest_value(engine, draft.content)), draft.is_error)


def ingest_value(engine: EngineContext, value: Any) -> Flow[tuple[Part, ...]]:
    """The return value of a tool or a frame as parts: text, parts, any value that converts to JSON, or bytes from a file or
    an iterator, which are streamed."""
    kind = type(value)
    if kind is str:
        return (yield from _store_parts(engine, _result_parts(value)))
    if kind in _BYTE_TYPES or hasattr(kind, "read"):
        return (yield from _store_stream(engine, value))
    if hasattr(kind, "__next__"):
        first, items = yield from effects.run_outside(functools.partial(_peek, value))
        if type(first) in _BYTE_TYPES:
            return (yield from _store_stream(engine, items))
        if type(first) is str:
            return (yield from _store_stream(engine, map(_encode_piece, items)))
        return (
            yield from _store_parts(engine, (yield from effects.run_outside(functools.partial(_result_parts, items))))
        )
    return (yield from _store_parts(engine, _result_parts(value)))


def _store_stream(engine: EngineContext, source: Any) -> Flow[tuple[Part, ...]]:
    part: Part = yield from effects.run_outside(functools.partial(engine.bodies.take, engine.tenant, source))
    if isinstance(part, Body):
        read = functools.partial(_read_counted_start, engine, part.ref)
        part = _count_body(engine, part, (yield from effects.run_outside(read)))
    return (part,)


def _read_counted_start(engine: EngineContext, ref: BlobRef) -> bytes:
    """The beginning of a streamed body, read back to count its tokens."""
    start = bytearray()
    for chunk in engine.bodies.chunks(engine.tenant, ref) if previews.is_text(ref) else ():
        start += chunk
        if len(start) >= limits.COUNTED_BYTES:
            break
    return bytes(start[: limits.COUNTED_BYTES])


def _peek(items: Iterator[Any]) -> tuple[object, Iterator[Any]]:
    """The first item of an iterator, and an iterator over all; for an empty one, empty text."""
    first = next(items, "")
    return first, itertools.chain([first], items)


def _encode_piece(text: object) -> bytes:
    return codec.check_text("a piece of the result", text).encode()


def _result_parts(value: object) -> tuple[Part | InlineBytes, ...]:
    """The parts of a value: text, parts, or what converts to JSON. A list that contains a part is a list of parts."""
    if type(value) is str:
        return (Text(codec.check_text("the result", value)),)
    if type(value) in _DRAFT_TYPES:
        return (_check_part(value),)
    if type(value) in (list, tuple) and any(type(item) in _DRAFT_TYPES for item in value):  # type: ignore[attr-defined]
        return check_parts(value, empty=True) or (_EMPTY_TEXT,)
    converted = to_json("the result", value)
    return (Text(converted) if type(converted) is str else Data(converted),)


def _check_call(draft: CallDraft, *, derive: bool) -> NewCall:
    """A call, checked. With `derive`, the key order of arguments that came as an object is kept."""
    args: Json = codec.check_json("the arguments of a tool call", draft.args)
    if not isinstance(args, dict | str):
        raise InvalidArgument(
            argument="tool_calls", reason=f"the args {describe_value(args)} are not an object or text"
        )
    provider_id = None if draft.provider_id is None else check_call_id(draft.provider_id)
    raw = raw_arguments(args, draft.raw) if derive or draft.raw is not None else None
    return NewCall(check_name("tool name", draft.name), args, provider_id, raw)


def _bound_raw_arguments(calls: Sequence[NewCall]) -> tuple[NewCall, ...]:
    """The calls; without the raw texts of their arguments if those exceed RAW_ARGS_BYTES."""
    if sum(len(call.raw.encode()) for call in calls if call.raw is not None) <= limits.RAW_ARGS_BYTES:
        return tuple(calls)
    return tuple(msgspec.structs.replace(call, raw=None) for call in calls)


def check_call_id(value: object) -> str:
    """The id of a call. Ids of providers may have any form: some contain a signature."""
    text = codec.check_text("the id of a tool call", value)
    if not 1 <= len(text) <= limits.CALL_ID_CHARS:
        reason = f"it has {len(text)} characters"
        raise InvalidName(what="tool call id", value=text, reason=reason, limit=limits.CALL_ID_CHARS)
    return text


def build_call_draft(call: object) -> CallDraft:
    """A call as callers write it: {"name": …, "args": {…}, "id": of the provider, if any}."""
    if isinstance(call, CallDraft):
        return call
    if isinstance(call, NewCall | ToolCall):
        return CallDraft(call.name, call.args, call.provider_id, call.raw)
    if type(call) is not dict or not {"name"} <= set(call) <= {"name", "args", "id"}:
        reason = f"{describe_value(call)} is not a tool call; pass an object with name, args and perhaps id"
        raise InvalidArgument(argument="tool_calls", reason=reason)
    return CallDraft(call["name"], call.get("args", {}), call.get("id"))


def check_object(what: str, value: object) -> dict[str, Json]:
    data = to_json(what, value)
    if not isinstance(data, dict):
        raise InvalidJson(where=what, reason="it is not an object")
    return data


def to_microseconds(what: str, seconds: object) -> int:
    highest = limits.WHOLE_NUMBER // 1_000_000_000
    if type(seconds) not in (int, float) or not 0 < seconds <= highest:  # type: ignore[operator]
        reason = f"{describe_value(seconds)} is not a number of seconds above 0 and up to {highest}"
        raise InvalidArgument(argument=what, reason=reason)
    return max(1, int(seconds * 1_000_000))  # type: ignore[operator]


def to_time_us(what: str, at: object) -> int | None:
    """A time in microseconds since the epoch; None for None. A time without a zone is refused."""
    if at is None:
        return None
    if not isinstance(at, datetime):
        raise InvalidArgument(argument=what, reason=f"{describe_value(at)} is not a datetime with a time zone")
    if at.utcoffset() is None:
        raise InvalidArgument(argument=what, reason="it has no time zone; pass one, such as tzinfo=datetime.UTC")
    return check_whole(what, (at - _EPOCH) // timedelta(microseconds=1))


def check_usage(usage: object) -> Usage | None:
    if usage is None:
        return None
    if type(usage) is dict:
        if not set(usage) <= set(Usage.__struct_fields__):
            raise InvalidArgument(
                argument="usage", reason=f"its fields are {', '.join(Usage.__struct_fields__)}, and no others"
            )
        usage = Usage(**usage)
    if type(usage) is not Usage:
        raise InvalidArgument(argument="usage", reason=f"{describe_value(usage)} is not a holdfast.Usage")
    for field in Usage.__struct_fields__:
        check_whole(field, getattr(usage, field))
    return usage


def _check_source(source: object) -> Source | None:
    if source is None:
        return None
    if type(source) is not Source:
        raise InvalidArgument(argument="source", reason=f"{describe_value(source)} is not a holdfast.types.Source")
    for field, value in msgspec.structs.asdict(source).items():
        if value is not None:
            check_name(field, value)
    return source


def _check_role(role: object) -> Role:
    if type(role) is str and role in _ROLES:
        return _ROLES[role]
    raise InvalidArgument(argument="role", reason=f"{describe_value(role)} is not one of {', '.join(_ROLES)}")
