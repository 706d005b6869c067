"""From what a caller passed to a message that can be kept: checked, and what is large moved to the blob store."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import msgspec

from holdfast import codec
from holdfast.conversion import to_json
from holdfast.core import previews
from holdfast.core.arguments import raw_of
from holdfast.errors import InvalidContent, InvalidJson, InvalidName, InvalidNumber, shown
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.place import Context
from holdfast.model import limits
from holdfast.model.commands import NewCall, NewMessage, NewResult
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
from holdfast.model.drafts import Draft, DraftCall, DraftResult, Inline
from holdfast.model.handles import SCORES, Priority
from holdfast.model.names import check_size, checked_name, checked_whole
from holdfast.model.state import OpenCall
from holdfast.ports import TokenCounter

Content: TypeAlias = str | Part | Mapping[str, Any] | Sequence[str | Part | Mapping[str, Any]]

IMAGE_TOKENS = 1_500
"""What a picture, or a file that is no text, is taken for: providers count by its size on a screen, which is not known."""
TEXT_BYTES = 4
"""Bytes of a text file for one token."""

_PARTS = (Text, Data, Body, Image, File, Opaque)
_SPLIT = "Record several messages."
_BYTES = (bytes, bytearray, memoryview)


def taken_in(context: Context, draft: Draft, *, as_found: bool = False) -> Flow[NewMessage]:
    """The message that a draft becomes; every complaint about it is raised here, before anything is stored."""
    role = _checked_role(draft.role)
    calls = _within_bounds([_checked_call(call, derive=not as_found) for call in draft.tool_calls])
    check_size("the message", len(calls), "tool calls", "MESSAGE_CALLS", _SPLIT)
    check_size("the message", len(draft.tool_results), "tool results", "MESSAGE_CALLS", _SPLIT)
    given = checked_parts(draft.content, empty=True)
    skipped = _skip_reason(role, draft, given, as_found=as_found)
    if not (calls or draft.tool_results or given or skipped or as_found):
        raise InvalidContent(reason="a message needs content, tool calls or tool results")
    content = yield from _settled(context, given, previews.MESSAGE_TAIL)
    results: list[NewResult] = []
    for each in draft.tool_results:
        results.append((yield from _result(context, each)))
    return NewMessage(
        role=role,
        content=content,
        tool_calls=calls,
        tool_results=tuple(results),
        usage=checked_usage(draft.usage),
        source=_checked_source(draft.source),
        metadata={} if draft.metadata is None else checked_object("metadata", draft.metadata),
        skipped=skipped,
        priority=_checked_priority(role, draft.priority),
    )


def _skip_reason(role: Role, draft: Draft, content: Sequence[Part | Inline], *, as_found: bool) -> SkipReason | None:
    """Why no model is shown this reply: as its provider said, or because there is nothing in it. A role alone is none."""
    if role != "assistant" or draft.tool_results:
        return None
    if draft.skipped is not None:
        return draft.skipped
    given = draft.content is not None or draft.usage is not None or draft.source is not None
    blank = all(isinstance(part, Text) and not part.text.strip() for part in content)
    return "empty" if given and blank and not draft.tool_calls and not as_found else None


def _checked_priority(role: Role, priority: object) -> Priority:
    """Medium, unless someone says otherwise; what a system message or a result has is given."""
    if priority is None or (role == "system" and priority == "critical"):
        return "medium"
    if priority not in SCORES:
        raise InvalidContent(reason=f"the priority is {shown(priority)}, not one of {', '.join(SCORES)}")
    if role == "system":
        raise InvalidContent(reason="a system message is always Critical: record it without a priority")
    if role == "tool":
        raise InvalidContent(reason="a result has the priority of its call: record the call with it")
    return priority


def count(counter: TokenCounter, new: NewMessage) -> int:
    """The tokens of what a model reads of a message."""
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
    """The tokens of what a model reads of these."""
    tokens = 0
    for part in parts:
        match part:
            case Text(text):
                tokens += counter.count(text)
            case Body():
                tokens += part.preview_tokens or counter.count(previews.shown_as(part, previews.SOME_HANDLE))
            case Data(value):
                tokens += counter.count(codec.encode(value).decode())
            case Image():
                tokens += IMAGE_TOKENS
            case File(ref):
                written = ref.media_type is not None and ref.media_type.startswith("text/")
                tokens += ref.size // TEXT_BYTES if written else IMAGE_TOKENS
    return tokens


def count_whole(counter: TokenCounter, parts: tuple[Part, ...]) -> int:
    """The tokens of these with stored bodies whole, wherever those are."""
    return sum(part.whole_tokens if isinstance(part, Body) else count_parts(counter, (part,)) for part in parts)


def parts_in(new: NewMessage) -> list[Part]:
    """All parts of a message, those of its results included."""
    return [*new.content, *(part for result in new.tool_results for part in result.content)]


def checked_parts(content: object, *, empty: bool = False) -> tuple[Part | Inline, ...]:
    """Content as parts, each checked: text is Unicode, references are well formed. Empty texts are no content."""
    if type(content) is str and content:
        return (Text(codec.checked_text("the text", content)),)
    given: Sequence[object] = content if type(content) in (list, tuple) else (content,)  # type: ignore[assignment]
    if content is None:
        given = ()
    check_size("the message", len(given), "parts", "CONTENT_PARTS", _SPLIT)
    parts = tuple(_checked_part(Text(part) if type(part) is str else part) for part in given)
    if all(part == _NOTHING for part in parts):
        if empty:
            return ()
        raise InvalidContent(reason="a message needs content")
    return parts


_NOTHING = Text("")


def _checked_part(part: object) -> Part | Inline:
    if type(part) not in (*_PARTS, Inline):
        raise InvalidContent(reason=f"{shown(part)} is not a part of a message")
    match part:
        case Text(text):
            codec.checked_text("the text", text)
        case Data(value):
            return Data(to_json("the data", value))
        case Body(ref, preview, tokens, preview_tokens, tail):
            checked_ref(ref)
            codec.checked_text("the preview", preview)
            checked_whole("the characters of a preview that are the end of its body", tail, 0, len(preview))
            checked_whole("the tokens of a body", tokens)
            checked_whole("the tokens of a preview", preview_tokens)
        case File(ref, name):
            checked_ref(ref)
            _check_name("file name", name)
        case Image(ref, url):
            _check_image(ref, url)
        case Inline(name=name, media_type=media_type):
            _check_name("file name", name)
            _check_name("media type", media_type)
        case Opaque(issuer, body):
            checked_name("issuer", issuer)
            if type(body) is BlobRef:
                checked_ref(body)
            else:
                codec.checked_text("the opaque part", body)
    return part  # type: ignore[return-value]


def _check_name(what: str, value: str | None) -> None:
    if value is not None:
        checked_name(what, value)


def _check_image(ref: BlobRef | None, url: str | None) -> None:
    if (ref is None) == (url is None):
        raise InvalidContent(reason="an image has either a blob or a URL")
    if ref is not None:
        checked_ref(ref)
    if url is not None:
        codec.checked_text("the URL", url)


def checked_ref(ref: object) -> BlobRef:
    if type(ref) is not BlobRef:
        raise InvalidContent(reason="a reference to a body is what put_blob() returns")
    digest = ref.digest
    if type(digest) is not str or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise InvalidName(what="blob digest", value=digest, reason="it is not 64 hexadecimal digits", limit=64)
    checked_whole("the size of a blob", ref.size, 0, limits.BLOB_BYTES)
    if ref.media_type is not None:
        checked_name("media type", ref.media_type)
    return ref


def _settled(
    context: Context, parts: Sequence[Part | Inline], tail_share: float = previews.RESULT_TAIL
) -> Flow[tuple[Part, ...]]:
    """The parts as the log holds them: what is large, or came as bytes, is in the blob store."""
    spooling = context.spooling
    settled: list[Part] = []
    for part in parts:
        match part:
            case Text(text) if (shown_instead := previews.of_text(text, spooling, tail_share)) is not None:
                ref = yield from _put(context, codec.encoded_text(text), previews.TEXT)
                start = text[: limits.COUNTED_BYTES].encode()
                settled.append(_counted(context, _body(ref, shown_instead), start))
            case Data(value):
                body = codec.encode(value)
                shown_instead = previews.of_json(value, len(body), spooling)
                if shown_instead is None:
                    settled.append(part)
                else:
                    ref = yield from _put(context, body, "application/json")
                    settled.append(_counted(context, _body(ref, shown_instead), body))
            case Body():
                settled.append(_counted(context, part))
            case Opaque(issuer, str(text)) if is_long(text):
                ref = yield from _put(context, codec.encoded_text(text), None)
                settled.append(Opaque(issuer, ref))
            case Inline(kind, data, media_type, name):
                ref = yield from _put(context, data, media_type)
                settled.append(Image(ref) if kind == "image" else File(ref, name))
            case _:
                settled.append(part)
    return tuple(settled)


def _body(ref: BlobRef, shown_instead: previews.Preview) -> Body:
    return Body(ref, shown_instead.text, tail=shown_instead.tail)


def _counted(context: Context, body: Body, start: bytes = b"") -> Body:
    """A body with its tokens: those of the whole, estimated from its beginning if it is large, and those of the preview."""
    count, size = context.counter.count, body.ref.size
    tokens = body.tokens
    start = start[: limits.COUNTED_BYTES]
    if start and previews.is_text(body.ref):
        tokens = count(start.decode("utf-8", "replace")) * size // len(start)
    preview_tokens = count(previews.shown_as(body, previews.SOME_HANDLE))
    return Body(body.ref, body.preview, tokens, preview_tokens, body.tail)


def is_long(text: str) -> bool:
    """Whether a text has more than SPOOL_BYTES bytes, found out without copying a large one."""
    if len(text) * 4 <= limits.SPOOL_BYTES or text.isascii():
        return len(text) > limits.SPOOL_BYTES
    return len(text) > limits.SPOOL_BYTES or len(text.encode()) > limits.SPOOL_BYTES


def preview(start: bytes) -> str:
    """The beginning of a text, cut between two characters."""
    return previews.text_preview(start, limits.PREVIEW_BYTES)


def _put(context: Context, body: bytes | Iterator[bytes], media_type: str | None) -> Flow[BlobRef]:
    if media_type is not None:
        checked_name("media type", media_type)
    return effects.outside(functools.partial(context.bodies.put, context.tenant, body, media_type))


def _result(context: Context, draft: DraftResult) -> Flow[NewResult]:
    if type(draft.is_error) is not bool:
        raise InvalidContent(reason=f"is_error is {shown(draft.is_error)}, not true or false")
    call = draft.call.id if type(draft.call) in (ToolCall, OpenCall) else draft.call
    checked_call_id(call)
    return NewResult(call, (yield from settled_value(context, draft.content)), draft.is_error)


def settled_value(context: Context, value: Any) -> Flow[tuple[Part, ...]]:
    """What a tool or a frame may return, as the log holds it: text, parts, bytes from a file or an iterator, which are
    streamed, or any value that converts to JSON."""
    kind = type(value)
    if kind in _BYTES or hasattr(kind, "read"):
        return (yield from _streamed(context, value))
    if hasattr(kind, "__next__"):
        first, items = yield from effects.outside(functools.partial(_first_of, value))
        if type(first) in _BYTES:
            return (yield from _streamed(context, items))
        if type(first) is str:
            return (yield from _streamed(context, map(_as_utf8, items)))
        return (yield from _settled(context, (yield from effects.outside(functools.partial(_result_parts, items)))))
    return (yield from _settled(context, _result_parts(value)))


def _streamed(context: Context, source: Any) -> Flow[tuple[Part, ...]]:
    part: Part = yield from effects.outside(functools.partial(context.bodies.take, context.tenant, source))
    if isinstance(part, Body):
        read = functools.partial(_start_of, context, part.ref)
        part = _counted(context, part, (yield from effects.outside(read)))
    return (part,)


def _start_of(context: Context, ref: BlobRef) -> bytes:
    """What is counted of a body that was streamed: it is read back, and only its beginning."""
    start = bytearray()
    for chunk in context.bodies.chunks(context.tenant, ref) if previews.is_text(ref) else ():
        start += chunk
        if len(start) >= limits.COUNTED_BYTES:
            break
    return bytes(start[: limits.COUNTED_BYTES])


def _first_of(items: Iterator[Any]) -> tuple[object, Iterator[Any]]:
    """The first item of an iterator, and all of them; of an empty one, empty text."""
    first = next(items, "")
    return first, itertools.chain([first], items)


def _as_utf8(text: object) -> bytes:
    return codec.checked_text("a piece of the result", text).encode()


def _result_parts(value: object) -> tuple[Part | Inline, ...]:
    """A tool returns text, parts of a message, or what converts to JSON; a list with a part in it is a list of parts."""
    if type(value) is str:
        return (Text(codec.checked_text("the result", value)),)
    if type(value) in (*_PARTS, Inline):
        return (_checked_part(value),)
    if type(value) in (list, tuple) and any(type(item) in (*_PARTS, Inline) for item in value):  # type: ignore[attr-defined]
        return checked_parts(value, empty=True) or (_NOTHING,)
    converted = to_json("the result", value)
    return (Text(converted) if type(converted) is str else Data(converted),)


def _checked_call(draft: DraftCall, *, derive: bool) -> NewCall:
    """`derive`: the order of the keys is kept, too, if the arguments came as an object."""
    args: Json = codec.checked_json("the arguments of a tool call", draft.args)
    if not isinstance(args, dict | str):
        raise InvalidContent(reason=f"the arguments of a tool call are {shown(args)}, not an object or text")
    own = None if draft.provider_id is None else checked_call_id(draft.provider_id)
    raw = raw_of(args, draft.raw) if derive or draft.raw is not None else None
    return NewCall(checked_name("tool name", draft.name), args, own, raw)


def _within_bounds(calls: Sequence[NewCall]) -> tuple[NewCall, ...]:
    """These, without the texts of their arguments if those would take too much of the event."""
    if sum(len(call.raw.encode()) for call in calls if call.raw is not None) <= limits.RAW_ARGS_BYTES:
        return tuple(calls)
    return tuple(msgspec.structs.replace(call, raw=None) for call in calls)


def checked_call_id(value: object) -> str:
    """A provider's id is its own affair: some put a signature into it."""
    text = codec.checked_text("the id of a tool call", value)
    if not 1 <= len(text) <= limits.CALL_ID_CHARS:
        reason = f"it has {len(text)} characters"
        raise InvalidName(what="tool call id", value=text, reason=reason, limit=limits.CALL_ID_CHARS)
    return text


def draft_call(given: object) -> DraftCall:
    """A call as users write one: {"name": …, "args": {…}, "id": the provider's, if any}."""
    if isinstance(given, DraftCall):
        return given
    if isinstance(given, NewCall | ToolCall):
        return DraftCall(given.name, given.args, given.provider_id, given.raw)
    if type(given) is not dict or not {"name"} <= set(given) <= {"name", "args", "id"}:
        reason = f"a tool call is an object with name, args and, if the provider gave one, id; not {shown(given)}"
        raise InvalidContent(reason=reason)
    return DraftCall(given["name"], given.get("args", {}), given.get("id"))


def checked_object(what: str, value: object) -> dict[str, Json]:
    data = to_json(what, value)
    if not isinstance(data, dict):
        raise InvalidJson(where=what, reason="it is not an object")
    return data


def microseconds(what: str, seconds: object) -> int:
    highest = limits.WHOLE_NUMBER // 1_000_000_000
    if type(seconds) not in (int, float) or not 0 < seconds <= highest:  # type: ignore[operator]
        raise InvalidNumber(what=what, value=shown(seconds), low=0, high=highest)
    return max(1, int(seconds * 1_000_000))  # type: ignore[operator]


def checked_usage(usage: object) -> Usage | None:
    if usage is None:
        return None
    if type(usage) is dict:
        known = set(usage) & set(Usage.__struct_fields__)
        if known != set(usage):
            raise InvalidContent(reason=f"usage has {', '.join(Usage.__struct_fields__)}, and nothing else")
        usage = Usage(**usage)
    if type(usage) is not Usage:
        raise InvalidContent(reason=f"usage is a holdfast.Usage, not {shown(usage)}")
    for field in Usage.__struct_fields__:
        checked_whole(field, getattr(usage, field))
    return usage


def _checked_source(source: object) -> Source | None:
    if source is None:
        return None
    if type(source) is not Source:
        raise InvalidContent(reason=f"the source of a reply is a holdfast.Source, not {shown(source)}")
    for field, value in msgspec.structs.asdict(source).items():
        if value is not None:
            checked_name(field, value)
    return source


def _checked_role(role: object) -> Role:
    known: tuple[Role, ...] = get_args(Role)
    for each in known:
        if type(role) is str and role == each:
            return each
    raise InvalidContent(reason=f"the role {shown(role)} is not one of {', '.join(known)}")
